"""Shape and order on the GPU: views if no element moves, boxes if some do."""

from collections.abc import Sequence

from pipeflow.declare import Spec
from pipeflow.device.calls import DeviceCall, Item, View
from pipeflow.operators import shape
from pipeflow.operators.axes import axes_of
from pipeflow.operators.on_gpu.moves import Box, box_of, move, strides_of, whole

# ----------------------------------------------------------------------------------------------------
# views


@shape.reshape.gpu_view
def _(item: Item) -> View:
    data, args = item.input, item.args
    wanted = shape.wanted_shape(item.numbers[0] if item.numbers else None, args)
    return data.reshape(*shape.new_shape(data.shape, data.size, wanted, args.rel_shape, args.src_dims, args.layout))


@shape.reinterpret.gpu_view
def _(item: Item) -> View:
    data, args = item.input, item.args
    dtype = args.dtype or data.dtype
    wanted = shape.wanted_shape(item.numbers[0] if item.numbers else None, args)
    extents = shape.reinterpreted(data.shape, data.dtype.itemsize, dtype.itemsize, wanted, args)
    return View(data.address, extents, dtype)


@shape.expand_dims.gpu_view
def _(item: Item) -> View:
    return item.input.reshape(*shape.expanded(item.input.shape, item.args.axes))


@shape.squeeze.gpu_view
def _(item: Item) -> View:
    own = item.input.shape
    left = shape.left_axes(own, item.layouts[0], item.args.axes, item.args.axis_names)
    return item.input.reshape(*[own[axis] for axis in left])


# ----------------------------------------------------------------------------------------------------
# operators that move elements


def size_of(call: DeviceCall) -> int:
    """The number of bytes of an element."""
    return call.items[0].input.dtype.itemsize


@shape.transpose.gpu
def _(call: DeviceCall) -> None:
    boxes = []
    for item in call.items:
        order = shape.order_of(len(item.input.shape), item.args.perm)
        box = box_of(item.input, item.output)
        inputs = tuple(box.inputs[axis] for axis in order)
        boxes.append(box._replace(extents=item.output.shape, inputs=inputs))
    move(call, boxes, size_of(call))


@shape.cat.gpu_plan
def _(item: Item) -> int:
    place = shape.joint(item.inputs, item.args.axis, item.args.axis_name, item.layouts)
    shape.check_joint(item.inputs, place)
    return place


@shape.cat.gpu
def _(call: DeviceCall) -> None:
    boxes = []
    for item in call.items:
        to = [0] * len(item.output.shape)
        for source in item.inputs:
            boxes.append(box_of(source, item.output, to=to))
            to[item.plan] += source.shape[item.plan]
    move(call, boxes, size_of(call))


@shape.stack.gpu_plan
def _(item: Item) -> int:
    shape.check_equal(item.inputs)
    return axes_of("", len(item.input.shape) + 1, (item.args.axis,), None)[0]


@shape.stack.gpu
def _(call: DeviceCall) -> None:
    boxes = []
    for item in call.items:
        size, axis, target = size_of(call), item.plan, item.output
        outputs = strides_of(target.shape, size)
        inner = (*outputs[:axis], *outputs[axis + 1 :])
        for number, source in enumerate(item.inputs):
            goal = target.address + number * outputs[axis]
            inputs = strides_of(source.shape, size)
            boxes.append(Box(source.address, goal, source.shape, inputs, inner, source.address + source.nbytes))
    move(call, boxes, size_of(call))


def permuted(items: Sequence[Item]) -> list[int]:
    """The number of the input sample for each output sample."""
    indices = items[0].args.indices
    if len(indices) != len(items) or len(items) == 1:
        indices = [index for item in items for index in item.args.indices]
    shape.check_permutation(indices, len(items))
    if len(indices) != len(items):
        raise ValueError(f"indices names {len(indices)} samples for a batch of {len(items)}")
    return list(indices)


@shape.permute_batch.gpu_specs
def _(items: Sequence[Item]) -> list[tuple[Spec, ...]]:
    chosen = [items[index] for index in permuted(items)]
    return [(Spec(item.input.shape, item.input.dtype, item.layouts[0]),) for item in chosen]


@shape.permute_batch.gpu
def _(call: DeviceCall) -> None:
    order = permuted(call.items)
    boxes = [whole(call.items[index].input, item.output) for index, item in zip(order, call.items, strict=True)]
    move(call, boxes, size_of(call))
