"""coord_transform on the GPU, and the launch that other operators use to move points."""

import numpy as np

from pipeflow.device.calls import DeviceCall, Item, ceil_div
from pipeflow.kernels.gpu import TYPE_CODES
from pipeflow.operators import transforms
from pipeflow.operators.on_gpu.elementwise import counted
from pipeflow.operators.on_gpu.moves import DIVIDER, DeviceTables, divide_by

POINTS_ROW = np.dtype(
    [
        ("input", "u8"),
        ("output", "u8"),
        ("matrix", "u8"),
        ("offset", "u8"),
        ("factor", "f8"),
        ("size", "i4"),
        ("result", DIVIDER),
        ("total", "u4"),
        ("input_type", "i4"),
        ("output_type", "i4"),
    ],
    align=True,
)


@transforms.coord_transform.gpu_plan
def _(item: Item) -> tuple[np.ndarray | None, float, np.ndarray]:
    counted(item)
    args, shape = item.args, item.input.shape
    size = shape[-1] if shape else 1
    linear, offset = transforms.linear_and_offset(args.M, args.T, args.MT, size)
    extent = size if np.ndim(linear) == 0 else len(linear)
    offsets = np.ascontiguousarray(np.broadcast_to(np.asarray(offset, np.float64), (extent,)))
    return (None, float(linear), offsets) if np.ndim(linear) == 0 else (np.ascontiguousarray(linear), 0.0, offsets)


@transforms.coord_transform.gpu
def _(call: DeviceCall) -> None:
    launch_points(call, [item.plan for item in call.items])


def launch_points(call: DeviceCall, plans: list[tuple[np.ndarray | None, float, np.ndarray]]) -> None:
    """Queues for every point of each item: the matrix (or one factor) times the point, plus the offset."""
    tables = DeviceTables(call)
    rows = []
    for item, (matrix, factor, offset) in zip(call.items, plans, strict=True):
        shape = item.input.shape
        size = (shape[-1] if shape else 1) if matrix is None else matrix.shape[1]
        rows.append(
            (
                item.input.address,
                item.output.address,
                0 if matrix is None else tables.address(matrix),
                tables.address(offset),
                factor,
                size,
                divide_by(max(len(offset), 1)),
                item.output.size,
                TYPE_CODES[item.input.dtype],
                TYPE_CODES[item.output.dtype],
            )
        )
    blocks = [ceil_div(item.output.size, 1024) for item in call.items]
    call.launch("values.cu:transform_points<double>", np.array(rows, POINTS_ROW), blocks)
