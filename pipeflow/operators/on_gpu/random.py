"""Random numbers on the GPU: the CPU's numbers, from the same keys."""

from typing import Any

import numpy as np

from pipeflow.device.calls import DeviceCall, Item, row_type
from pipeflow.kernels.gpu import TYPE_CODES
from pipeflow.operators import random
from pipeflow.operators.on_gpu.elementwise import blocks_of
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
    """A row an item: ``values`` are low, high and top, ``listed`` the address and the length of each item's list."""
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
