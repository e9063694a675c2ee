"""Random numbers on the GPU: the same numbers as on the CPU, from the same keys."""

from typing import Any

import numpy as np

from pipeflow import seeds
from pipeflow.device.calls import DeviceCall, Item, View, row_type
from pipeflow.kernels.gpu import TYPE_CODES
from pipeflow.operators import random
from pipeflow.operators.on_gpu.elementwise import blocks_of
from pipeflow.operators.on_gpu.moves import Box, move, strides_of, whole
from pipeflow.operators.on_gpu.structure import uploaded
from pipeflow.types import saturate

UNIFORM, LISTED, NORMAL, COIN = range(4)  # enum Distribution of random.cu
RANDOM_ROW = row_type(
    output="u8",
    values="u8",
    key="u8",
    low="f8",
    high="f8",
    top="f8",
    total="i8",
    listed="i4",
    distribution="i4",
    output_type="i4",
)


def _launch(call: DeviceCall, distribution: int, values: list[tuple[float, float, float]], listed: Any = None) -> None:
    """Launches with a row for each item: ``values`` are low, high and top, ``listed`` the address and the length of its list."""
    rows = [
        (x.output.address, address, x.key, *numbers, x.output.size, length, distribution, TYPE_CODES[x.output.dtype])
        for x, numbers, (address, length) in zip(call.items, values, listed or [(0, 0)] * len(values), strict=True)
    ]
    call.launch("random.cu:random_numbers", np.array(rows, RANDOM_ROW), blocks_of(call.items))


@random.uniform.gpu_plan
def _(item: Item) -> Any:
    if item.args.values is not None:
        return saturate(random.checked_values(item.args.values), item.output.dtype).astype(np.float64)
    low, high = random.checked_range(item.args.range)
    dtype = item.output.dtype
    top = float(np.nextafter(np.asarray(high, dtype), np.asarray(low, dtype))) if dtype.kind == "f" else 0.0
    return float(low), float(high), top


@random.uniform.gpu
def _(call: DeviceCall) -> None:
    if call.items[0].args.values is None:
        _launch(call, UNIFORM, [item.plan for item in call.items])
        return
    tables = [item.plan for item in call.items]
    places = np.cumsum([0, *[len(table) for table in tables]])
    address = call.upload(np.concatenate(tables))
    listed = [(address + 8 * int(place), len(table)) for place, table in zip(places, tables)]
    _launch(call, LISTED, [(0.0, 0.0, 0.0)] * len(tables), listed)


@random.normal.gpu
def _(call: DeviceCall) -> None:
    _launch(call, NORMAL, [(item.args.mean, item.args.stddev, 0.0) for item in call.items])


@random.coin_flip.gpu_plan
def _(item: Item) -> None:
    random.check_probability(item.args.probability)


@random.coin_flip.gpu
def _(call: DeviceCall) -> None:
    _launch(call, COIN, [(item.args.probability, 0.0, 0.0) for item in call.items])


@random.beta.gpu_plan
def _(item: Item) -> None:
    random.check_parameters(item.args.alpha, item.args.beta)


@random.beta.gpu
def _(call: DeviceCall) -> None:
    """Draws the numbers on the CPU, because NumPy has this distribution."""
    boxes = []
    for item in call.items:
        args, output = item.args, item.output
        numbers = random.beta_numbers(args.alpha, args.beta, output.shape, output.dtype, seeds.Key(item.key))
        boxes.append(whole(View(call.upload(numbers), output.shape, output.dtype), output))
    move(call, boxes, call.items[0].output.dtype.itemsize)


@random.choice.gpu_plan
def _(item: Item) -> np.ndarray | None:
    """The number to choose below, if it is one."""
    if item.input.shape:
        random.chosen(item.input.shape[0], (), item.args.p, seeds.Key(0))  # says what is wrong with p
        return None
    number = item.known[0] if item.known else None
    if number is None:
        raise ValueError(
            "a single number to choose from is read on the CPU, where the choice is made: give it without .gpu()"
        )
    random.chosen(random.most(number), (), item.args.p, seeds.Key(0))
    return number


@random.choice.gpu
def _(call: DeviceCall) -> None:
    """The elements are chosen on the CPU, and moved one by one."""
    size = call.items[0].output.dtype.itemsize
    if not call.items[0].input.shape:
        drawn = [random.chosen(int(x.plan), x.output.shape, x.args.p, seeds.Key(x.key)) for x in call.items]
        uploaded(call, [index.astype(item.output.dtype) for item, index in zip(call.items, drawn)])
        return
    boxes = []
    for item in call.items:
        source, target = item.input, item.output
        picked, strides = source.frame(0), strides_of(source.shape[1:], size)
        extents = target.shape[: len(target.shape) - len(picked.shape)]
        index = random.chosen(source.shape[0], extents, item.args.p, seeds.Key(item.key))
        end = source.address + source.nbytes
        for number, which in enumerate(index.ravel().tolist()):
            begin, goal = source.address + which * picked.nbytes, target.address + number * picked.nbytes
            boxes.append(Box(begin, goal, picked.shape, strides, strides, end))
    move(call, boxes, size)
