"""Windows around every pixel on the GPU."""

import math
from typing import Any

import numpy as np

from pipeflow.declare import OpFunction
from pipeflow.device.calls import DeviceCall, Item, ceil_div
from pipeflow.kernels.gpu import TYPE_CODES
from pipeflow.operators import morphology
from pipeflow.operators.axes import some_pixels, spatial
from pipeflow.operators.displacement import BORDERS
from pipeflow.operators.on_gpu.moves import DIVIDER, divide_by

ROW = np.dtype(
    [
        ("input", "u8"), ("output", "u8"), ("height", "i4"), ("width", "i4"), ("tall", "i4"), ("wide", "i4"),
        ("above", "i4"), ("left", "i4"), ("columns", DIVIDER), ("pixel", DIVIDER), ("total", "u4"), ("largest", "i4"),
        ("border", "i4"), ("type", "i4"),
    ], align=True,
)  # fmt: skip


def check_size(item: Item) -> None:
    """Raises an error if there are no pixels, or too many for the kernels."""
    some_pixels(item.input.shape)
    if item.input.size >= 1 << 31:
        raise ValueError(f"the image has {item.input.size} values; the GPU form takes fewer than 2**31")


def rows_of(item: Item, size: tuple[int, int], anchor: tuple[int, int], largest: bool, border: int) -> list[Any]:
    """Rows for the images, or for each of their planes."""
    shape, layout, source, target = item.input.shape, item.layouts[0], item.input, item.output
    axes = spatial(layout)
    height, width = (shape[axis] for axis in axes)
    pixel = shape[-1] if layout[-1] == "C" else 1
    planes = math.prod(shape[: axes[0]])
    step = source.nbytes // planes
    rest = (
        height,
        width,
        size[1],
        size[0],
        anchor[1],
        anchor[0],
        divide_by(width),
        divide_by(pixel),
        source.size // planes,
        largest,
        border,
        TYPE_CODES[source.dtype],
    )
    return [(source.address + n * step, target.address + n * step, *rest) for n in range(planes)]


def launch(call: DeviceCall, kernel: str, rows: list[Any]) -> None:
    """Queues a kernel over the rows."""
    table = np.array(rows, ROW)
    call.launch(f"morphology.cu:{kernel}", table, [ceil_div(int(total), 512) for total in table["total"]])


def _extremes(op: OpFunction, largest: bool) -> None:
    @op.gpu_plan
    def _(item: Item) -> tuple[tuple[int, int], tuple[int, int]]:
        check_size(item)
        size, anchor = morphology.window_of(item.args)
        # To repeat the operation gives the same result as a larger window.
        times = item.args.iterations
        wide, tall = ((extent - 1) * times + 1 for extent in size)
        return (wide, tall), (anchor[0] * times, anchor[1] * times)

    @op.gpu
    def _(call: DeviceCall) -> None:
        rows = []
        for item in call.items:
            size, anchor = item.plan
            rows += rows_of(item, size, anchor, largest, BORDERS[item.args.border_mode])
        dtype = call.items[0].input.dtype
        wide = dtype.itemsize > 4 or (dtype.kind in "iu" and dtype.itemsize == 4)
        launch(call, f"find_extremes<{'double' if wide else 'float'}>", rows)


_extremes(morphology.dilate, True)
_extremes(morphology.erode, False)


@morphology.median_blur.gpu_plan
def _(item: Item) -> tuple[int, int]:
    check_size(item)
    return morphology.median_window(item.args.window_size)


@morphology.median_blur.gpu
def _(call: DeviceCall) -> None:
    rows = []
    for item in call.items:
        wide, tall = item.plan
        rows += rows_of(item, (wide, tall), (wide // 2, tall // 2), False, BORDERS["replicate"])
    launch(call, "find_medians", rows)
