"""Computes colours from the raw data of a sensor on the GPU."""

from typing import Any

import numpy as np

from pipeflow.device.calls import DeviceCall, Item, ceil_div
from pipeflow.kernels.gpu import TYPES
from pipeflow.operators import bayer
from pipeflow.operators.on_gpu.moves import DIVIDER, divide_by

ROW = np.dtype(
    [
        ("input", "u8"), ("output", "u8"), ("height", "i4"), ("width", "i4"), ("blue_row", "i4"), ("blue_column", "i4"),
        ("columns", DIVIDER), ("total", "u4"),
    ], align=True,
)  # fmt: skip


@bayer.debayer.gpu_check
def _(args: Any) -> None:
    if args.algorithm not in ("bilinear_ocv", "default_npp"):
        raise ValueError(f"the GPU form has only the bilinear algorithm, got {args.algorithm!r}: leave device='cpu'")


@bayer.debayer.gpu_plan
def _(item: Item) -> tuple[int, int]:
    bayer.sensor_extents(item.input.shape)
    return bayer.checked_position(item.args.blue_position)


@bayer.debayer.gpu
def _(call: DeviceCall) -> None:
    rows = []
    for item in call.items:
        height, width = item.input.shape[:2]
        rows.append(
            (item.input.address, item.output.address, height, width, *item.plan, divide_by(width), height * width)
        )
    blocks = [ceil_div(item.input.size, 512) for item in call.items]
    kind = TYPES[call.items[0].input.dtype]
    call.launch(f"debayer.cu:debayer<{kind}>", np.array(rows, ROW), blocks)
