"""Cutting, mirroring, turning and padding on the GPU."""

import math

import numpy as np

from pipeflow.device_calls import DeviceCall, ceil_div, row_type
from pipeflow.kernels.gpu import WORDS
from pipeflow.operators import geometry
from pipeflow.operators.geometry import spatial

FLIP_ROW = row_type(
    input="u8", output="u8", planes="i8", depth="i8", height="i8", width="i8", channels="i8",
    mirror_depth="i4", mirror_height="i4", mirror_width="i4",
)  # fmt: skip


@geometry.flip.gpu
def _(call: DeviceCall) -> None:
    rows = np.zeros(len(call.items), FLIP_ROW)
    for row, item in zip(rows, call.items, strict=True):
        shape, layout, args = item.input.shape, item.layouts[0], item.args
        *outer, height, width = spatial(layout)
        depth = outer[0] if outer else height
        row["input"], row["output"] = item.input.address, item.output.address
        row["planes"], row["depth"] = math.prod(shape[:depth]), math.prod(shape[depth:height])
        row["height"], row["width"], row["channels"] = shape[height], shape[width], math.prod(shape[width + 1 :])
        row["mirror_depth"], row["mirror_height"] = args.depthwise and "D" in layout, args.vertical
        row["mirror_width"] = args.horizontal
    word = WORDS[call.items[0].input.dtype.itemsize]
    call.launch(f"flip.cu:flip<{word}>", rows, [ceil_div(item.output.size, 1024) for item in call.items])
