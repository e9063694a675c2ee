"""Overwriting rectangles on the GPU."""

from typing import Any

from pipeflow.device.calls import DeviceCall, Item
from pipeflow.operators import erase
from pipeflow.operators.on_gpu.moves import DeviceTables, filling, move, whole


@erase.erase.gpu_plan
def _(item: Item) -> Any:
    return erase.erased(item.input.shape, item.input.dtype, item.layouts[0], item.args)


@erase.erase.gpu
def _(call: DeviceCall) -> None:
    size = call.items[0].input.dtype.itemsize
    move(call, [whole(item.input, item.output) for item in call.items], size)
    tables = DeviceTables(call)
    # Rectangles may overlap: all are filled with the same values.
    boxes = []
    for item in call.items:
        values, rectangles = item.plan
        channel = erase.erased_channel(item.layouts[0], len(item.input.shape))
        for low, high in rectangles:
            extents = [max(last - first, 0) for first, last in zip(low, high)]
            boxes.append(filling(tables.address(values), values.size, item.output, extents, low, channel))
    move(call, boxes, size)
