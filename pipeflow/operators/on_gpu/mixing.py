"""Mixes images of a batch with one another, and their labels with them, on the GPU."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pipeflow import seeds
from pipeflow.device.calls import DeviceCall, Item, ceil_div, row_type
from pipeflow.kernels.gpu import TYPE_CODES, TYPES
from pipeflow.operators import mixing
from pipeflow.operators.on_gpu.elementwise import BLOCK
from pipeflow.operators.on_gpu.moves import box_of, move, whole

MIX_ROW = row_type(first="u8", second="u8", output="u8", total="i8", share="f4", type="i4")
LABELS_ROW = row_type(
    first="u8",
    second="u8",
    output="u8",
    total="i8",
    share="f8",
    first_type="i4",
    second_type="i4",
    output_type="i4",
    classes="i4",
)
TUNED = (np.dtype(np.uint8), np.dtype(np.float32))


def partners_of(items: Sequence[Item]) -> list[Item]:
    """The sample that each one is mixed with."""
    given = None if items[0].args.partner is None else [item.args.partner for item in items]
    numbers = mixing.partners_of(given, [seeds.Key(item.key) for item in items])
    for item in items:
        mixing.check_label(item.inputs[1], item.args.num_classes)
    for first, second in enumerate(numbers):
        mixing.of_one_shape([item.input for item in items], first, second)
        mixing.of_one_form(items[first].inputs[1], items[second].inputs[1], items[first].args.num_classes)
    return [items[number] for number in numbers]


def mix_labels(call: DeviceCall, others: Sequence[Item], shares: Sequence[float]) -> None:
    """Queues the mixing of all labels."""
    rows = np.zeros(len(call.items), LABELS_ROW)
    for row, item, other, share in zip(rows, call.items, others, shares, strict=True):
        (_, one), (_, two), (_, out) = item.inputs, other.inputs, item.outputs
        row["first"], row["second"], row["output"] = one.address, two.address, out.address
        row["total"], row["share"], row["classes"] = out.size, share, item.args.num_classes
        row["first_type"], row["second_type"] = TYPE_CODES[one.dtype], TYPE_CODES[two.dtype]
        row["output_type"] = TYPE_CODES[out.dtype]
    call.launch("mixing.cu:mix_labels", rows, ceil_div(rows["total"], 1024))


def _each(call: DeviceCall, put: Callable[[DeviceCall, Sequence[Item], Sequence[Any]], Sequence[float]]) -> None:
    others = partners_of(call.items)
    keys = [seeds.Key(item.key) for item in call.items]
    shares = [mixing.shares_of(item.args, key) for item, key in zip(call.items, keys, strict=True)]
    mix_labels(call, others, put(call, others, list(zip(keys, shares, strict=True))))


@mixing.mixup.gpu
def _(call: DeviceCall) -> None:
    _each(call, blended)


def blended(call: DeviceCall, others: Sequence[Item], drawn: Sequence[tuple[seeds.Key, float]]) -> list[float]:
    """Queues the mixing of all images."""
    rows = np.zeros(len(call.items), MIX_ROW)
    for row, item, other, (_, share) in zip(rows, call.items, others, drawn, strict=True):
        row["first"], row["second"], row["output"] = item.input.address, other.input.address, item.output.address
        row["total"], row["share"], row["type"] = item.input.size, share, TYPE_CODES[item.input.dtype]
    dtype = call.items[0].input.dtype
    kernel = f"mix_values<{TYPES[dtype]}>" if dtype in TUNED else "mix_any"
    call.launch(f"mixing.cu:{kernel}", rows, ceil_div(rows["total"], BLOCK))
    return [share for _, share in drawn]


@mixing.cutmix.gpu
def _(call: DeviceCall) -> None:
    _each(call, pasted)


def pasted(call: DeviceCall, others: Sequence[Item], drawn: Sequence[tuple[seeds.Key, float]]) -> list[float]:
    """Queues the copies of all images and windows."""
    images, windows, shares = [], [], []
    for item, other, (key, share) in zip(call.items, others, drawn, strict=True):
        shape = item.input.shape
        rows, columns = mixing.window((shape[-3], shape[-2]), share, key)
        outer = len(shape) - 3
        place = [*[0] * outer, rows.start, columns.start, 0]
        extents = [*shape[:outer], rows.stop - rows.start, columns.stop - columns.start, shape[-1]]
        images.append(whole(item.input, item.output))
        windows.append(box_of(other.input, item.output, extents, place, place))
        shares.append(mixing.left_of(shape, rows, columns))
    itemsize = call.items[0].input.dtype.itemsize
    move(call, images, itemsize)
    move(call, windows, itemsize)
    return shares
