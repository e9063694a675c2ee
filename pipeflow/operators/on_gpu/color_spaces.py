"""Colour spaces on the GPU: a matrix for the channels of every pixel, as in `color.py`."""

import numpy as np

from pipeflow.device.calls import DeviceCall, Item
from pipeflow.device.tables import TableCall
from pipeflow.operators import color_spaces
from pipeflow.operators.color import three_channels
from pipeflow.operators.on_gpu.color import color_columns, launch_colors
from pipeflow.operators.on_gpu.elementwise import cast_columns, cast_items


@color_spaces.grayscale.gpu_plan
def _(item: Item) -> tuple[np.ndarray, np.ndarray]:
    three_channels(item.input.shape, "grayscale")
    return color_spaces.grey_line(item.args.channels)


@color_spaces.grayscale.gpu
def _(call: DeviceCall) -> None:
    launch_colors(call, [item.plan for item in call.items])


@color_spaces.color_space_conversion.gpu_plan
def _(item: Item) -> tuple[np.ndarray, np.ndarray] | None:
    color_spaces.check_channels(item.input.shape, item.args.image_type)
    return color_spaces.conversion(item.args.image_type, item.args.output_type)


@color_spaces.color_space_conversion.gpu
def _(call: DeviceCall) -> None:
    if call.items[0].plan is None:
        cast_items(call)
    else:
        launch_colors(call, [item.plan for item in call.items])


@color_spaces.color_space_conversion.gpu_table
def _(call: TableCall) -> None:
    if call.table.dtype.names:
        color_columns(call)
    else:
        cast_columns(call, call.input, call.output)
