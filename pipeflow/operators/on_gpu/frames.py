"""The frames of sequences on the GPU."""

from pipeflow.device.calls import DeviceCall, Item, View
from pipeflow.operators import frames
from pipeflow.operators.on_gpu.moves import move, whole


@frames.per_frame.gpu_view
def _(item: Item) -> View:
    frames.framed(item.layouts[0], len(item.input.shape), item.args.replace)
    return item.input


@frames.element_extract.gpu_view
def _(item: Item) -> tuple[View, ...]:
    frames.check_elements(item.input.shape, item.args.element_map)
    return tuple(item.input.frame(index) for index in item.args.element_map)


@frames.sequence_rearrange.gpu_plan
def _(item: Item) -> None:
    frames.check_frames(item.input.shape, item.args.new_order)


@frames.sequence_rearrange.gpu
def _(call: DeviceCall) -> None:
    boxes = []
    for item in call.items:
        for number, index in enumerate(item.args.new_order):
            boxes.append(whole(item.input.frame(index), item.output.frame(number)))
    move(call, boxes, call.items[0].input.dtype.itemsize)
