"""Filters with a kernel of any numbers on the GPU."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from pipeflow.device.calls import DeviceCall, Item, View, ceil_div
from pipeflow.kernels.gpu import TYPE_CODES, TYPES
from pipeflow.operators import filters
from pipeflow.operators.axes import spatial
from pipeflow.operators.filters import BORDERS
from pipeflow.operators.on_gpu.moves import DIVIDER, DeviceTables, divide_by

ROW = np.dtype(
    [
        ("input", "u8"), ("output", "u8"), ("kernel", "u8"), ("fill", "u8"), ("extents", "i4", (3,)), ("taps", "i4", (3,)),
        ("before", "i4", (3,)), ("lines", DIVIDER), ("columns", DIVIDER), ("pixel", DIVIDER), ("total", "u4"),
        ("border", "i4"), ("even", "i4"), ("kernel_type", "i4"), ("fill_type", "i4"), ("input_type", "i4"),
        ("output_type", "i4"),
    ], align=True,
)  # fmt: skip
TUNED = {(np.dtype(source), np.dtype(target)) for source, target in (("u1", "u1"), ("f4", "f4"), ("u1", "f4"))}


class FilterTaps(NamedTuple):
    """The kernel of an item: its address, type and extents, and the number of its elements before the result along each axis."""

    address: int
    dtype: np.dtype
    sizes: Sequence[int]
    before: Sequence[int]
    border: int
    even: bool
    fill: View | None = None


def check_size(item: Item) -> None:
    """Raises an error if there are no pixels, or too many for the kernels."""
    if not item.input.size:
        raise ValueError(f"the data has no pixels: shape {item.input.shape}")
    if item.outputs[0].size >= 1 << 31:
        raise ValueError(f"the result has {item.outputs[0].size} values; the GPU form makes fewer than 2**31")


def in_space(values: Sequence[int], missing: int) -> tuple[int, ...]:
    """Three numbers for depth, height and width."""
    return (missing,) * (3 - len(values)) + tuple(values)


def launch(call: DeviceCall, all_taps: Sequence[FilterTaps], items: Sequence[Item] | None = None) -> None:
    """Filters all items; if the channels come first, each plane separately. By default the items are those of the call."""
    items = call.items if items is None else items
    first = items[0]
    rows: list[Any] = []
    for item, taps in zip(items, all_taps, strict=True):
        layout, source, target = item.layouts[0], item.input, item.output
        axes = spatial(layout)
        extents, results = ([view.shape[axis] for axis in axes] for view in (source, target))
        pixel = source.shape[-1] if layout[-1] == "C" else 1
        planes = math.prod(source.shape[: axes[0]])
        steps = [view.nbytes // planes for view in (source, target)]
        for plane in range(planes):
            _, tall, wide = in_space(results, 1)
            rows.append(
                (
                    source.address + plane * steps[0],
                    target.address + plane * steps[1],
                    taps.address,
                    taps.fill.address if taps.fill is not None else 0,
                    in_space(extents, 1),
                    in_space(taps.sizes, 1),
                    in_space(taps.before, 0),
                    divide_by(tall),
                    divide_by(wide),
                    divide_by(pixel),
                    target.size // planes,
                    taps.border,
                    taps.even,
                    TYPE_CODES[taps.dtype],
                    TYPE_CODES[taps.fill.dtype] if taps.fill is not None else 0,
                    TYPE_CODES[source.dtype],
                    TYPE_CODES[target.dtype],
                )
            )
    types = first.input.dtype, first.output.dtype
    kernel = "correlate_any<float>"
    if types in TUNED:
        kernel = f"correlate<{', '.join(TYPES[dtype] for dtype in types)}>"
    table = np.array(rows, ROW)
    call.launch(f"correlation.cu:{kernel}", table, [ceil_div(int(total), 512) for total in table["total"]])


@filters.filter.gpu_plan
def _(item: Item) -> tuple[int, ...]:
    check_size(item)
    kernel = item.inputs[1]
    filters.filtered_shape(item.layouts[0], item.input.shape, kernel.shape, item.args.mode)
    if len(item.inputs) > 2 and item.inputs[2].size != 1:
        raise ValueError(f"the fill value must be one number, got shape {item.inputs[2].shape}")
    return filters.filter_anchor(item.args.anchor, kernel.shape)


@filters.filter.gpu
def _(call: DeviceCall) -> None:
    found = []
    for item in call.items:
        kernel, args = item.inputs[1], item.args
        before = (0,) * len(item.plan) if args.mode == "valid" else item.plan
        fill = item.inputs[2] if len(item.inputs) > 2 else None
        found.append(FilterTaps(kernel.address, kernel.dtype, kernel.shape, before, BORDERS[args.border], True, fill))
    launch(call, found)


@filters.laplacian.gpu_plan
def _(item: Item) -> np.ndarray:
    check_size(item)
    return filters.laplacian_kernel(filters.derivatives_of(item.layouts[0], item.args))


@filters.laplacian.gpu
def _(call: DeviceCall) -> None:
    tables = DeviceTables(call)
    found = []
    for item in call.items:
        kernel = item.plan
        before = [size // 2 for size in kernel.shape]
        found.append(
            FilterTaps(tables.address(kernel), kernel.dtype, kernel.shape, before, BORDERS["reflect_101"], False)
        )
    launch(call, found)
