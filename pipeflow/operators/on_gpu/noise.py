"""Noise on the GPU: the same numbers as on the CPU, from the same keys."""

from typing import Any

import numpy as np

from pipeflow.device.calls import DeviceCall, Item, ceil_div, row_type
from pipeflow.kernels.gpu import TYPE_CODES, WORDS
from pipeflow.operators import noise
from pipeflow.operators.on_gpu.elementwise import blocks_of
from pipeflow.operators.on_gpu.moves import DIVIDER, DeviceTables, divide_by, move, whole

NOISE_ROW = row_type(
    input="u8", output="u8", key="u8", total="i8", mean="f4", deviation="f4", input_type="i4", output_type="i4"
)


@noise.gaussian.gpu
def _(call: DeviceCall) -> None:
    rows = [
        (
            x.input.address,
            x.output.address,
            x.key,
            x.output.size,
            x.args.mean,
            x.args.stddev,
            TYPE_CODES[x.input.dtype],
            TYPE_CODES[x.output.dtype],
        )
        for x in call.items
    ]
    call.launch("random.cu:gaussian_noise", np.array(rows, NOISE_ROW), blocks_of(call.items))


SALT_ROW = np.dtype(
    [
        ("input", "u8"),
        ("output", "u8"),
        ("values", "u8"),
        ("key", "u8"),
        ("hit", "u8"),
        ("white", "u8"),
        ("inner", DIVIDER),
        ("channels", DIVIDER),
        ("total", "u4"),
    ],
    align=True,
)
SHOT_ROW = row_type(input="u8", output="u8", key="u8", factor="f8", total="i8", input_type="i4", output_type="i4")


@noise.salt_and_pepper.gpu_plan
def _(item: Item) -> Any:
    args = item.args
    noise.check_shares(args.prob, args.salt_vs_pepper)
    if item.input.size >= 1 << 31:
        raise ValueError(f"the data has {item.input.size} elements; the GPU form takes fewer than 2**31")
    values = noise.salt_and_pepper_values(item.input.dtype, args.salt_val, args.pepper_val)
    return values, noise.extents_of(item.input.shape, item.layouts[0], args.per_channel)


@noise.salt_and_pepper.gpu
def _(call: DeviceCall) -> None:
    tables = DeviceTables(call)
    rows = []
    for item in call.items:
        values, (_, channels, inner) = item.plan
        hit, white = (int(share * 2**32) for share in (item.args.prob, item.args.salt_vs_pepper))
        dividers = divide_by(max(inner, 1)), divide_by(max(channels, 1))
        addresses = item.input.address, item.output.address, tables.address(values)
        rows.append((*addresses, item.key, hit, white, *dividers, item.output.size))
    word = WORDS[call.items[0].input.dtype.itemsize]
    blocks = [ceil_div(item.output.size, 1024) for item in call.items]
    call.launch(f"random.cu:salt_and_pepper<{word}>", np.array(rows, SALT_ROW), blocks)


@noise.shot.gpu_plan
def _(item: Item) -> None:
    noise.check_factor(item.args.factor)


@noise.shot.gpu
def _(call: DeviceCall) -> None:
    silent = [whole(x.input, x.output) for x in call.items if not x.args.factor]
    if silent:
        move(call, silent, call.items[0].input.dtype.itemsize)
    noisy = [x for x in call.items if x.args.factor]
    rows = [
        (
            x.input.address,
            x.output.address,
            x.key,
            x.args.factor,
            x.output.size,
            TYPE_CODES[x.input.dtype],
            TYPE_CODES[x.output.dtype],
        )
        for x in noisy
    ]
    if rows:
        blocks = [ceil_div(item.output.size, 1024) for item in noisy]
        call.launch("random.cu:shot_noise", np.array(rows, SHOT_ROW), blocks)
