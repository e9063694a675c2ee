"""Light, shade and random clouds on the GPU."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pipeflow.declare import OpDef
from pipeflow.device.calls import DeviceCall, Item, ceil_div
from pipeflow.kernels.gpu import TYPES
from pipeflow.operators import shading
from pipeflow.operators.axes import some_pixels
from pipeflow.operators.on_gpu.moves import DIVIDER, divide_by

VALUES, COUNTED = 1024, 8192  # that a block works on: values of the image, and values of a field
SHADE_ROW = np.dtype(
    [
        ("input", "u8"),
        ("output", "u8"),
        ("lines", "u8"),
        ("columns", "u8"),
        ("extremes", "u8"),
        ("slope", "f4"),
        ("offset", "f4"),
        ("times", "f4"),
        ("plus", "f4"),
        ("pattern", "i4"),
        ("stride", "i4"),
        ("width", DIVIDER),
        ("channels", DIVIDER),
        ("total", "u4"),
    ],
    align=True,
)
LATTICE_ROW = np.dtype(
    [
        ("coarse", "u8"),
        ("fine", "u8"),
        ("key", "u8"),
        ("strength", "f4"),
        ("level", "i4"),
        ("stride", "i4"),
        ("columns", DIVIDER),
        ("total", "u4"),
    ],
    align=True,
)
EXTREMES_ROW = np.dtype(
    [("field", "u8"), ("extremes", "u8"), ("stride", "i4"), ("width", DIVIDER), ("total", "u4")], align=True
)
SUM, ROOT, PRODUCT, CLOUD = range(4)  # enum Pattern of shading.cu


def check_size(item: Item) -> None:
    """Raises an error if there are no pixels, or too many for the kernels."""
    some_pixels(item.input.shape)
    if item.input.size >= 1 << 31:
        raise ValueError(f"the image has {item.input.size} values; the GPU form takes fewer than 2**31")


def shade(call: DeviceCall, rows: np.ndarray) -> None:
    """Shades the images of all items by the patterns of the rows."""
    for row, item in zip(rows, call.items, strict=True):
        row["input"], row["output"], row["total"] = item.input.address, item.output.address, item.input.size
        row["width"], row["channels"] = divide_by(item.input.shape[1]), divide_by(item.input.shape[2])
    kernel = f"shading.cu:shade<{TYPES[call.items[0].input.dtype]}>"
    call.launch(kernel, rows, ceil_div(rows["total"].astype(np.int64), VALUES))


# ----------------------------------------------------------------------------------------------------
# illumination


def _light(op: OpDef, pattern: int, light_of: Callable[..., tuple[np.ndarray, np.ndarray]]) -> None:
    @op.gpu_plan
    def _(item: Item) -> tuple[np.ndarray, np.ndarray]:
        check_size(item)
        return light_of(*item.input.shape[:2], item.args)

    @op.gpu
    def _(call: DeviceCall) -> None:
        rows = np.zeros(len(call.items), SHADE_ROW)
        rows["pattern"] = pattern
        for row, item in zip(rows, call.items, strict=True):
            row["lines"], row["columns"] = (call.upload(numbers) for numbers in item.plan)
            row["slope"] = item.args.gain
        shade(call, rows)


_light(shading.linear, SUM, shading.linear_light)
_light(shading.corner, ROOT, shading.corner_light)
_light(shading.gaussian, PRODUCT, shading.gaussian_light)


# ----------------------------------------------------------------------------------------------------
# plasma


def clouds(call: DeviceCall, roughness: Sequence[float]) -> np.ndarray:
    """Rows of ``shade`` with a cloud from 0 to 1 for each item; the caller sets slope and offset."""
    rows = np.zeros(len(call.items), SHADE_ROW)
    rows["pattern"], rows["times"] = CLOUD, 1
    extents = [item.input.shape[:2] for item in call.items]
    levels = [(max(height, width) - 1).bit_length() for height, width in extents]
    strengths = np.ones(len(rows), np.float32)
    for level in range(max(levels) + 1):
        chosen = [number for number, last in enumerate(levels) if level <= last]
        table = np.zeros(len(chosen), LATTICE_ROW)
        for one, number in zip(table, chosen, strict=True):
            step = 1 << (levels[number] - level)
            tall, wide = ((extent - 1) // step + 2 if level else 2 for extent in extents[number])
            one["coarse"], one["stride"] = rows[number]["lines"], rows[number]["stride"]
            strengths[number] *= np.float32(roughness[number]) if level else np.float32(1)
            one["strength"], one["key"], one["level"] = strengths[number], call.items[number].key, level
            one["columns"], one["total"] = divide_by(wide), tall * wide
            one["fine"] = rows[number]["lines"] = call.scratch(4 * tall * wide)
            rows[number]["stride"] = wide
        call.launch("shading.cu:refine", table, ceil_div(table["total"].astype(np.int64), VALUES))
    limits = np.iinfo(np.int32)
    found = call.upload(np.tile(np.array([limits.max, limits.min], np.int32), len(rows)))
    rows["extremes"] = found + 8 * np.arange(len(rows))
    table = np.zeros(len(rows), EXTREMES_ROW)
    for name, source in (("field", "lines"), ("extremes", "extremes"), ("stride", "stride")):
        table[name] = rows[source]
    for one, (height, width) in zip(table, extents, strict=True):
        one["width"], one["total"] = divide_by(width), height * width
    call.launch("shading.cu:find_extremes", table, ceil_div(table["total"].astype(np.int64), COUNTED))
    return rows


def _cloud(
    op: OpDef, line_of: Callable[[Item], tuple[float, float, float]], check: Callable[[Any], None] | None = None
) -> None:
    """Declares an operator whose pattern is a cloud plus a number; ``line_of`` returns this number, the slope and the offset."""

    @op.gpu_plan
    def _(item: Item) -> None:
        check_size(item)
        shading.check_roughness(item.args.roughness)
        if check is not None:
            check(item.args)

    @op.gpu
    def _(call: DeviceCall) -> None:
        rows = clouds(call, [item.args.roughness for item in call.items])
        for row, item in zip(rows, call.items, strict=True):
            row["plus"], row["slope"], row["offset"] = line_of(item)
        shade(call, rows)


_cloud(shading.plasma_brightness, lambda item: (-0.5, *shading.brightness_line(item.args, item.input.dtype)))
_cloud(shading.plasma_contrast, lambda item: (-0.5, *shading.contrast_line(item.args, item.input.dtype)))
_cloud(shading.plasma_shadow, lambda item: (0.0, -item.args.intensity, 0.0), shading.check_intensity)
