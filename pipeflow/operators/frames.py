"""The frames of sequences: which data are sequences, and other frames, or single ones, of the same data."""

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from pipeflow.declare import (
    UNKNOWN,
    Arg,
    Ints,
    KernelCalls,
    Many,
    Out,
    Sample,
    Spec,
    default,
    operator,
    require,
    required,
)
from pipeflow.errors import OutOfRange
from pipeflow.kernels import cpu as kernels
from pipeflow.operators.geometry_calls import as_bytes

PAGE = """Operators on sequences, whose first axis has the frames of a video or another series of elements."""


@operator("per_frame", marks_frames=True, dtypes="any", gpu=True, examples=["fn.per_frame(vector)"])
def per_frame(
    data: Sample,
    /,
    *,
    replace: bool = default(False, "rename the first axis to F if it has another letter"),
    layouts: Any,
) -> Sample:
    """Marks the first axis as frames, so that an argument has a value for each frame of a sequence.

    The second input of ``fn.warp_affine``, ``fn.warp_perspective`` and ``fn.filter`` may have a matrix for each frame, too.
    If the first input is then one image, the result is a sequence of it.
    """
    framed(layouts[0], data.ndim, replace)
    return data


def framed(layout: str, ndim: int, replace: bool) -> str:
    """The layout with its first axis as frames."""
    if not ndim:
        raise ValueError("a number has no axis for frames")
    if layout and layout[0] != "F" and not replace:
        raise ValueError(f"the layout {layout!r} does not start with F: use replace=True to rename the first axis")
    return "F" + layout[1:] if layout else "F" + "*" * (ndim - 1)


@per_frame.shares
def _(calls: KernelCalls) -> None:
    extents, layout = calls.input.extents, calls.layouts[0]
    require(extents and (calls.args.replace or layout[:1] in ("", "F")))
    calls.share(extents)


@per_frame.infer
def _(specs: tuple[Spec, ...], args: Any) -> Spec:
    spec = specs[0]
    if spec.shape is UNKNOWN or spec.layout is None:
        return Spec(spec.shape if spec.shape is not UNKNOWN else None, spec.dtype, None)
    return Spec(spec.shape, spec.dtype, framed(spec.layout, len(spec.shape), args.replace))


@operator("sequence_rearrange", dtypes="any", gpu=True, examples=["fn.sequence_rearrange(frames, new_order=[2, 0, 0])"])
def sequence_rearrange(
    data: Sample, /, *, new_order: Arg[Ints] = required("numbers of the frames in their new order"), out: Out
) -> Sample:
    """Takes the frames of a sequence in another order; frames may be repeated or left out."""
    check_frames(data.shape, new_order)
    return np.take(data, new_order, axis=0, out=out, mode="clip")  # with "raise" NumPy copies `out` once more


@sequence_rearrange.calls
def _(calls: KernelCalls) -> None:
    calls.need(kernels.parts.framing())
    data, order = calls.input, calls.args.new_order
    require(len(data.extents) > 1 and len(order) > 0)
    count = data.extents[0]
    calls.require(data.size > 0)
    for bound in (min(order), max(order)):
        require(bound >= 0)
        calls.require(bound < count)
    out = calls.output((len(order), *data.extents[1:]), data.dtype)
    frame = prod(data.extents[1:]) * data.dtype.itemsize
    calls.call(kernels.parts.take_frames, as_bytes(data), frame, np.array(order, np.int64), as_bytes(out))


@sequence_rearrange.ready
def _(specs: tuple[Spec, ...], args: Any) -> Any:
    check_frames(specs[0].shape, args.new_order)
    order = np.array(args.new_order)
    return lambda data, out: data.take(order, 0, out, "clip")


def check_frames(shape: Sequence[int], new_order: Sequence[int]) -> None:
    """Raises an error for data without frames, and for frames that it does not have."""
    if len(shape) < 2:
        raise ValueError(f"Sequence elements must have at least 1 dim, got data of shape {tuple(shape)}")
    if not new_order:
        raise ValueError("new_order must name at least one frame")
    for index in new_order:
        if not 0 <= index < shape[0]:
            raise OutOfRange(f"new_order names frame {index} of a sequence of {shape[0]}")


@sequence_rearrange.infer
def _(specs: tuple[Spec, ...], args: Any) -> Spec:
    if specs[0].shape is UNKNOWN or not specs[0].shape:
        return Spec(None, specs[0].dtype, specs[0].layout)
    return Spec((len(args.new_order), *specs[0].shape[1:]), specs[0].dtype, specs[0].layout)


@operator("element_extract", dtypes="any", gpu=True, examples=["fn.element_extract(frames, element_map=[2, 0])"])
def element_extract(
    data: Sample, /, *, element_map: Ints = required("numbers of the elements, one for each output")
) -> Sample:
    """Takes single elements out of a sequence, one output for each index."""
    check_elements(data.shape, element_map)
    elements = tuple(data[index] for index in element_map)
    return elements if len(elements) > 1 else elements[0]


@element_extract.ready
def _(specs: tuple[Spec, ...], args: Any) -> Any:
    check_elements(specs[0].shape, args.element_map)
    places = args.element_map
    return (
        (lambda data: tuple([data[place, ...] for place in places]))
        if len(places) > 1
        else lambda data: data[places[0], ...]
    )


def check_elements(shape: Sequence[int], element_map: Sequence[int]) -> None:
    """Raises an error for elements that the sequence does not have."""
    if not shape:
        raise ValueError("a number is not a sequence")
    for index in element_map:
        if not 0 <= index < shape[0]:
            raise OutOfRange(
                f"Index `{index}` from `element_map` is out of bounds for sample with sequence length equal `{shape[0]}`."
            )


@element_extract.many
def _(many: Many) -> tuple[Any, ...]:
    samples, outputs = many.inputs[0], []
    first = samples[0]
    require(first.dtype.kind != "O")
    for sample in samples:
        require(sample.shape == first.shape)
    check_elements(first.shape, many.args.element_map)
    for output, index in enumerate(many.args.element_map):
        elements = many.empty(first.shape[1:], first.dtype, output)
        for place, sample in enumerate(samples):
            many.copy(sample[index], elements[place, ...])
        outputs.append(elements)
    return tuple(outputs)


@element_extract.outputs
def _(args: Any) -> int:
    return len(args.element_map)


@element_extract.infer
def _(specs: tuple[Spec, ...], args: Any) -> Any:
    spec = specs[0]
    if spec.shape is UNKNOWN or not spec.shape:
        return tuple(Spec(None, spec.dtype, None) for _ in args.element_map)
    layout = spec.layout and spec.layout[1:]
    return tuple(Spec(spec.shape[1:], spec.dtype, layout) for _ in args.element_map)
