"""Copies, indexing, extents and constants on the GPU."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from pipeflow.declare import Spec
from pipeflow.device.calls import DeviceCall, Item
from pipeflow.operators import structure
from pipeflow.operators.on_gpu.moves import Box, DeviceTables, move, strides_of, whole
from pipeflow.operators.on_gpu.shape import size_of


@structure.copy.gpu
def _(call: DeviceCall) -> None:
    move(call, [whole(item.input, item.output) for item in call.items], size_of(call))


@structure.subscript.gpu_specs
def _(items: Sequence[Item]) -> list[tuple[Spec, ...]]:
    found = []
    for item in items:
        (spec,) = structure.subscript.specs([spec_of(item)], {"plan": item.args.plan}, 1)
        found.append((Spec(indexed(item.input.shape, item.plan), spec.dtype, spec.layout),))
    return found


def indexed(shape: tuple[int, ...], index: Sequence[Any]) -> tuple[int, ...]:
    """The shape of the result of an index."""
    extents, left = [], list(shape)
    for entry in index:
        if entry is None:
            extents.append(1)
        elif isinstance(entry, slice):
            extents.append(len(range(*entry.indices(left.pop(0)))))
        else:
            left.pop(0)
    return (*extents, *left)


def spec_of(item: Item) -> Spec:
    """The Spec of the first input, as far as it is known."""
    return Spec(item.input.shape, item.input.dtype, item.layouts[0])


@structure.subscript.gpu_plan
def _(item: Item) -> Any:
    return structure.index_of(item.input.shape, item.args.plan, item.numbers)


@structure.subscript.gpu
def _(call: DeviceCall) -> None:
    boxes = []
    for item in call.items:
        start, extents, inputs = item.input.address, [], []
        own = list(zip(item.input.shape, strides_of(item.input.shape, size_of(call)), strict=True))
        axis = 0
        for entry in item.plan:
            if entry is None:
                extents.append(1)
                inputs.append(0)
                continue
            extent, stride = own[axis]
            axis += 1
            if isinstance(entry, slice):
                places = range(*entry.indices(extent))
                start += places.start * stride if places else 0
                extents.append(len(places))
                inputs.append(places.step * stride)
            else:
                start += (entry + extent if entry < 0 else entry) * stride
        extents += [extent for extent, _ in own[axis:]]
        inputs += [stride for _, stride in own[axis:]]
        target = item.output
        outputs = strides_of(target.shape, size_of(call))
        end = item.input.address + item.input.nbytes
        boxes.append(Box(start, target.address, tuple(extents), tuple(inputs), outputs, end))
    move(call, boxes, size_of(call))


# ----------------------------------------------------------------------------------------------------
# results that the host knows


def uploaded(call: DeviceCall, values: Sequence[np.ndarray]) -> None:
    """Uploads an array of the host for each output."""
    tables = DeviceTables(call)
    boxes = []
    for item, value in zip(call.items, values, strict=True):
        target = item.output
        boxes.append(whole(target._replace(address=tables.address(value)), target))
    move(call, boxes, call.items[0].output.dtype.itemsize)


@structure.shapes.gpu
def _(call: DeviceCall) -> None:
    uploaded(call, [np.array(item.input.shape, item.output.dtype) for item in call.items])


def property_of(item: Item) -> np.ndarray:
    """The property of a sample that get_property gives."""
    return structure.property_bytes(item.args.key, item.layouts[0], item.source)


@structure.get_property.gpu_specs
def _(items: Sequence[Item]) -> list[tuple[Spec, ...]]:
    return [(Spec(property_of(item).shape, np.uint8, ""),) for item in items]


@structure.get_property.gpu
def _(call: DeviceCall) -> None:
    uploaded(call, [property_of(item) for item in call.items])


@structure.constant.gpu
def _(call: DeviceCall) -> None:
    uploaded(call, [np.ascontiguousarray(item.args.value) for item in call.items])
