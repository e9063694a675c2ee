"""Rotations and affine warps on the GPU, by the matrices of the CPU."""

from typing import Any

import numpy as np

from pipeflow.device.calls import DeviceCall, Item, ceil_div
from pipeflow.kernels import cpu as kernels
from pipeflow.kernels.gpu import RESIZED, TYPE_CODES, TYPES, WORDS
from pipeflow.operators import warp
from pipeflow.operators.on_gpu.moves import DIVIDER, DeviceTables, divide_by
from pipeflow.types import INTERP_NN

ROW = np.dtype(
    [
        ("input", "u8"),
        ("output", "u8"),
        ("fill", "u8"),
        ("given", "u8"),
        ("matrix", "f8", (12,)),
        ("ndim", "i4"),
        ("invert", "i4"),
        ("depth", "i4"),
        ("height", "i4"),
        ("width", "i4"),
        ("channels", "i4"),
        ("clamped", "i4"),
        ("nearest", "i4"),
        ("columns", DIVIDER),
        ("lines", DIVIDER),
        ("total", "u4"),
        ("input_type", "i4"),
        ("output_type", "i4"),
    ],
    align=True,
)
TUNED = {(np.dtype(source), np.dtype(target)) for source, target in RESIZED}
FLOAT = np.dtype(np.float32)
LARGE = 1 << 31  # from this number of elements on, 32 bits are too few to count them


@warp.rotate.gpu_plan
def _(item: Item) -> np.ndarray:
    check_pixels(item)
    return warp.rotation(item.input.shape, item.outputs[0].shape[:-1], item.args.angle, item.args.axis)


@warp.warp_affine.gpu_plan
def _(item: Item) -> np.ndarray | None:
    check_pixels(item)
    ndim, args = len(item.input.shape) - 1, item.args
    if len(item.inputs) == 1:
        return warp.warp_matrix(ndim, args.matrix, args.inverse_map)
    matrix = item.inputs[1]
    if matrix.dtype != FLOAT:
        raise TypeError(f"a matrix on the GPU must be float32, got {matrix.dtype}")
    if matrix.size != ndim * (ndim + 1):
        raise ValueError(f"the matrix must have {ndim} x {ndim + 1} values, got shape {matrix.shape}")
    return None


def check_pixels(item: Item) -> None:
    """Raises an error if there are no pixels, or too many for the kernels."""
    if not item.input.size:
        raise ValueError(f"the image has no pixels: shape {item.input.shape}")
    pixels = int(np.prod(item.outputs[0].shape[:-1]))
    if pixels >= 1 << 31:
        raise ValueError(f"the GPU warps to fewer than 2**31 pixels, got {pixels}")


@warp.rotate.gpu
@warp.warp_affine.gpu
def _(call: DeviceCall) -> None:
    source, target = call.items[0].input, call.items[0].output
    nearest = call.items[0].args.interp_type == INTERP_NN
    exact = nearest and source.dtype == target.dtype and len(source.shape) == 3
    tables = DeviceTables(call)
    rows = [row_of(item, exact, tables) for item in call.items]
    if exact:
        kernel = f"warp_nearest<{WORDS[source.dtype.itemsize]}>"
    elif (source.dtype, target.dtype) in TUNED and all(map(small, call.items)):
        kernel = f"warp<{TYPES[source.dtype]}, {TYPES[target.dtype]}>"
    else:
        kernel = f"warp_any<{'double' if source.dtype == np.float64 else 'float'}>"
    call.launch(f"warp.cu:{kernel}", np.array(rows, ROW), [ceil_div(row[-3], 512) for row in rows])


def small(item: Item) -> bool:
    """True if 32 bits are enough to count the elements."""
    return max(item.input.size, item.output.size) < LARGE


def row_of(item: Item, exact: bool, tables: DeviceTables) -> tuple[Any, ...]:
    """The row of one item."""
    source, target, args = item.input, item.output, item.args
    *outer, height, width, channels = source.shape
    *_, tall, wide, _ = target.shape
    fill = np.full(channels, warp.border(args.fill_value, source.dtype) or 0.0, np.float64)
    fill = kernels.casting.as_type(fill, source.dtype if exact else FLOAT)
    matrix = np.zeros(12)
    if item.plan is not None:
        matrix[: item.plan.size] = item.plan.ravel()
    given = 0 if item.plan is not None else item.inputs[1].address
    return (
        source.address,
        target.address,
        tables.address(fill),
        given,
        matrix,
        len(source.shape) - 1,
        given and not args.inverse_map,
        outer[0] if outer else 1,
        height,
        width,
        channels,
        args.fill_value is None,
        args.interp_type == INTERP_NN,
        divide_by(wide),
        divide_by(tall),
        target.size // max(channels, 1),
        TYPE_CODES[source.dtype],
        TYPE_CODES[target.dtype],
    )
