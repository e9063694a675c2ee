"""Colour on the GPU: a factor and an offset for every value, a matrix for the channels of every pixel."""

from collections.abc import Callable
from typing import Any

import numpy as np

from pipeflow.declare import OpDef
from pipeflow.device.calls import DeviceCall, Item, View, ceil_div, row_type
from pipeflow.device.tables import TableCall
from pipeflow.kernels.gpu import TYPE_CODES
from pipeflow.operators import color
from pipeflow.operators.on_gpu.elementwise import BLOCK, element_rows, tuned

LINE_ROW = row_type(input="u8", output="u8", total="i8", factor="f8", offset="f8", input_type="i4", output_type="i4")
COLOR_ROW = np.dtype(
    [
        ("input", "u8"),
        ("output", "u8"),
        ("pixels", "i8"),
        ("matrix", "f4", 9),
        ("offset", "f4", 3),
        ("input_type", "i4"),
        ("output_type", "i4"),
    ],
    align=True,
)


def exact_in_float(dtype: np.dtype) -> bool:
    """True if a factor and an offset for values of this type are computed in float32, as on the CPU."""
    return dtype.itemsize <= 2 or dtype == np.float32


def line_kernel(source: np.dtype, target: np.dtype) -> str:
    """The kernel for a factor and an offset for values of these types."""
    types = tuned(source, target)
    if types:
        return f"cast.cu:line_values<{types}>"
    return f"cast.cu:line<{'float' if exact_in_float(source) and exact_in_float(target) else 'double'}>"


def launch_line(
    call: DeviceCall, kernel: str, pairs: list[tuple[View, View]], lines: list[tuple[float, float]]
) -> None:
    """Queues targets = sources times a factor plus an offset, in the types of the targets."""
    rows = [
        (source.address, target.address, target.size, *line, TYPE_CODES[source.dtype], TYPE_CODES[target.dtype])
        for (source, target), line in zip(pairs, lines, strict=True)
    ]
    call.launch(kernel, np.array(rows, LINE_ROW), [ceil_div(target.size, BLOCK) for _, target in pairs])


def _values(op: OpDef) -> None:
    line = op.line_hook
    assert line is not None

    @op.gpu_plan
    def _(item: Item) -> tuple[float, float]:
        return line(item.args, item.input.dtype, item.output.dtype)

    @op.gpu
    def _(call: DeviceCall) -> None:
        pairs = [(item.input, item.output) for item in call.items]
        kernel = line_kernel(pairs[0][0].dtype, pairs[0][1].dtype)
        launch_line(call, kernel, pairs, [item.plan for item in call.items])

    @op.gpu_table
    def _(call: TableCall) -> None:
        source, target = call.input, call.output
        rows = element_rows(LINE_ROW, source, target)
        rows["total"], rows["factor"], rows["offset"] = target.sizes, call.table["factor"], call.table["offset"]
        call.launch(line_kernel(source.dtype, target.dtype), rows, ceil_div(rows["total"], BLOCK))


for _op in (color.brightness, color.contrast, color.brightness_contrast):
    _values(_op)


def launch_colors(call: DeviceCall, matrices: list[tuple[np.ndarray, np.ndarray]]) -> None:
    """Queues a matrix and an offset for the channels of every pixel, for each item."""
    rows = []
    for item, (matrix, offset) in zip(call.items, matrices, strict=True):
        (to, channels), pixels = matrix.shape, item.input.size // matrix.shape[1]
        weights, shift = np.zeros(9, np.float32), np.zeros(3, np.float32)
        weights[: to * channels], shift[:to] = matrix.ravel(), offset
        codes = TYPE_CODES[item.input.dtype], TYPE_CODES[item.output.dtype]
        rows.append((item.input.address, item.output.address, pixels, weights, shift, *codes))
    blocks = [ceil_div(row[2], BLOCK) for row in rows]
    kernel = color_kernel(call.items[0].input.dtype, call.items[0].output.dtype, channels, to)
    call.launch(kernel, np.array(rows, COLOR_ROW), blocks)


def color_kernel(source: np.dtype, target: np.dtype, channels: int, to: int) -> str:
    """The kernel for a matrix of this number of channels."""
    types = tuned(source, target)
    if types and (channels == to or source == target == np.uint8):
        return f"color.cu:color_pixels<{types}, {channels}, {to}>"
    return f"color.cu:colors<{channels}, {to}>"


def _colors(op: OpDef, plan: Callable[[np.dtype, Any], tuple[np.ndarray, np.ndarray]]) -> None:
    @op.gpu_plan
    def _(item: Item) -> tuple[np.ndarray, np.ndarray]:
        color.three_channels(item.input.shape, op.name)
        return plan(item.input.dtype, item.args)

    @op.gpu
    def _(call: DeviceCall) -> None:
        launch_colors(call, [item.plan for item in call.items])

    op.gpu_table(color_columns)


def color_columns(call: TableCall) -> None:
    """The matrices and offsets of a table."""
    matrix, offset = call.table["matrix"], call.table["offset"]
    _, to, channels = matrix.shape
    rows = element_rows(COLOR_ROW, call.input, call.output)
    rows["pixels"] = call.input.sizes // channels
    rows["matrix"][:, : to * channels], rows["offset"][:, :to] = matrix.reshape(len(rows), -1), offset
    kernel = color_kernel(call.input.dtype, call.output.dtype, channels, to)
    call.launch(kernel, rows, ceil_div(rows["pixels"], BLOCK))


NOTHING = np.zeros(3)
_colors(color.color_twist, lambda dtype, a: color.twist(dtype, a.hue, a.saturation, a.brightness, a.contrast))
_colors(color.hsv, lambda _, a: (color.color_matrix(a.hue, a.saturation, a.value), NOTHING))
_colors(color.hue, lambda _, a: (color.color_matrix(a.hue, 1.0, 1.0), NOTHING))
_colors(color.saturation, lambda _, a: (color.color_matrix(0.0, a.saturation, 1.0), NOTHING))
