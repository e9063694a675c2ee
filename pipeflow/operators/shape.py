"""Shape and order: reshape, reinterpret, expand_dims, squeeze, transpose, cat, stack, sequences and batches.

Results are views of the input if this is possible.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from pipeflow.declare import (
    UNKNOWN,
    Arg,
    Args,
    DType,
    Floats,
    Ints,
    Layout,
    Many,
    Out,
    Sample,
    Spec,
    Traits,
    default,
    operator,
    parameters,
    require,
    required,
)
from pipeflow.errors import OutOfRange
from pipeflow.kernels import cpu as kernels
from pipeflow.operators.axes import axes_of
from pipeflow.operators.geometry_calls import has_extents, known_extents, reinterpreted_calls, squeezed, transposed
from pipeflow.operators.windows import half_up

PAGE = """Operators that change the shape, the layout or the order of the data.

Results are views of the input if this is possible.
"""


def new_shape(
    own: Sequence[int], items: int, shape: Any, rel_shape: Any, src_dims: Any, layout: Any
) -> tuple[int, ...]:
    """The extents after a reshape of data with `items` elements; one extent may be -1."""
    if src_dims is not None:
        for axis in src_dims:
            if not -1 <= axis < len(own):
                raise OutOfRange(f"src_dims names axis {axis}; the data has {len(own)} axes (-1 makes a new one)")
    if shape is not None:
        wanted = list(shape)
    elif rel_shape is not None:
        sources = list(range(len(own))) if src_dims is None else list(src_dims)
        if src_dims is None:  # an extent of -1 is computed from the others and is relative to no axis
            sources += [-1] * sum(share < 0 for share in rel_shape[len(sources) :])
        if len(rel_shape) > len(sources) or (src_dims is not None and len(rel_shape) != len(sources)):
            raise RuntimeError(
                f"rel_shape has {len(rel_shape)} values for {len(sources)} axes: use src_dims to say what they are relative to"
            )
        wanted = [
            -1 if share < 0 else half_up(share * (1 if axis < 0 else own[axis]))
            for share, axis in zip(rel_shape, sources)
        ]
    elif src_dims is not None:
        wanted = [1 if axis < 0 else own[axis] for axis in src_dims]
    else:
        wanted = list(own)
    if wanted.count(-1) > 1 or any(extent < -1 for extent in wanted):
        raise ValueError(f"the shape {tuple(wanted)} may have one -1 and no other negative extent")
    if -1 in wanted:
        rest = math.prod(extent for extent in wanted if extent >= 0)
        if not rest or items % rest:
            raise ValueError(f"{items} elements of shape {tuple(own)} do not fill the shape {tuple(wanted)}")
        wanted[wanted.index(-1)] = items // rest
    if math.prod(wanted) != items:
        raise ValueError(
            f"{items} elements of shape {tuple(own)} cannot take the shape {tuple(wanted)} of {math.prod(wanted)}"
        )
    if layout and len(layout) != len(wanted):
        raise ValueError(f"layout {layout!r} has {len(layout)} letters for {len(wanted)} axes")
    return tuple(wanted)


def _reshaped_layout(spec: Spec, ndim: int, args: Any) -> Any:
    if args.layout is not None:
        return args.layout
    return spec.layout if not spec.layout or ndim == len(spec.layout) else ""


def check_one_shape(args: Any, inputs: int) -> None:
    """Raises an error if the shape is given twice."""
    ways = ["the second input"] * (inputs > 1)
    ways += [name for name in ("shape", "rel_shape") if getattr(args, name) is not None]
    if len(ways) > 1:
        raise ValueError(f"{' and '.join(ways)} exclude each other: give one of them")


def wanted_shape(shape_input: Any, args: Any) -> Any:
    """The shape from the second input, or else from the argument."""
    return args.shape if shape_input is None else tuple(int(extent) for extent in np.ravel(shape_input))


NEW_SHAPE = parameters(
    shape=(Arg[Ints], None, "shape of the result; one extent may be -1, and then follows from the others"),
    rel_shape=(Arg[Floats], None, "shape of the result in shares of the input's extents; -1 as for shape"),
    src_dims=(Arg[Ints], None, "for each axis of the result, the axis of the input; -1: a new axis of extent 1"),
    layout=(Layout, None, "layout of the result"),
)


@operator(
    "reshape",
    dtypes="any",
    takes=NEW_SHAPE,
    gpu=True,
    host_inputs=True,
    examples=["fn.reshape(image, shape=(20, 120, 3), layout='HWC')", "fn.reshape(array, rel_shape=[0.5, -1])"],
)
def reshape(data: Sample, shape_input: Sample | None = None, /, *, args: Args) -> Sample:
    """Changes the shape, the layout or the order of the extents, without changing the elements.

    ``rel_shape`` is relative to the extents of the input that ``src_dims`` selects; one extent may be -1.
    """
    check_one_shape(args, 1 if shape_input is None else 2)
    wanted = wanted_shape(shape_input, args)
    return data.reshape(new_shape(data.shape, data.size, wanted, args.rel_shape, args.src_dims, args.layout))


@reshape.ready
def _(specs: tuple[Spec, ...], args: Any) -> Any:
    if len(specs) > 1:
        return None
    check_one_shape(args, 1)
    own = specs[0].shape
    shape = new_shape(own, math.prod(own), args.shape, args.rel_shape, args.src_dims, args.layout)
    return lambda data: data.reshape(shape)


@reshape.infer
def _(specs: tuple[Spec, ...], args: Any) -> Spec:
    spec = specs[0]
    dtype = spec.dtype
    check_one_shape(args, len(specs))
    if len(specs) > 1:
        return Spec(None, dtype, args.layout)
    if args.shape is not None and -1 not in args.shape:
        return Spec(tuple(args.shape), dtype, _reshaped_layout(spec, len(args.shape), args))
    shape = new_shape(spec.shape, math.prod(spec.shape), args.shape, args.rel_shape, args.src_dims, args.layout)
    return Spec(shape, dtype, _reshaped_layout(spec, len(shape), args))


reshape.shares(lambda calls: calls.share(known_extents(calls, calls.input.dtype)), only=has_extents)


@operator(
    "reinterpret",
    dtypes="number complex",
    takes=NEW_SHAPE,
    gpu=True,
    host_inputs=True,
    examples=["fn.reinterpret(image, shape=(-1,), dtype=types.UINT8)"],
)
def reinterpret(
    data: Sample,
    shape_input: Sample | None = None,
    /,
    *,
    args: Args,
    dtype: DType | None = default(None, "type of the result; default: that of the input"),
) -> Sample:
    """Reads the same bytes as another type and shape.

    A wider type shortens the last axis. With ``shape`` or ``rel_shape`` only the number of bytes must stay the same;
    ``rel_shape`` is relative to the extents of the input.
    """
    check_one_shape(args, 1 if shape_input is None else 2)
    wanted = wanted_shape(shape_input, args)
    new = dtype or data.dtype
    shape = reinterpreted(data.shape, data.itemsize, new.itemsize, wanted, args)
    if new == data.dtype:
        return data.reshape(shape)
    return np.ascontiguousarray(data).reshape(-1).view(new).reshape(shape)


def reinterpreted(own: Sequence[int], old: int, new: int, wanted: Any, args: Any) -> tuple[int, ...]:
    """The extents of data whose elements of ``old`` bytes are read as elements of ``new`` bytes."""
    size, what = math.prod(own) * old, "the data"
    items = size // new
    if old != new and wanted is None and args.rel_shape is None:
        wanted = [1] if not own else new_shape(own, math.prod(own), None, None, args.src_dims, None)
        size, what = wanted[-1] * old, "the innermost dimension"
        wanted = [*wanted[:-1], size // new]
    if size % new:
        raise ValueError(f"{what} has {size} bytes, which is not a multiple of the {new} bytes of an element")
    return new_shape(own, items, wanted, args.rel_shape, args.src_dims, args.layout)


@reinterpret.infer
def _(specs: tuple[Spec, ...], args: Any) -> Spec:
    spec = specs[0]
    check_one_shape(args, len(specs))
    dtype = args.dtype or spec.dtype
    unknown = spec.shape is UNKNOWN or any(extent is UNKNOWN for extent in spec.shape)
    if len(specs) > 1 or spec.dtype is UNKNOWN or unknown:
        fixed = len(specs) == 1 and args.shape is not None and -1 not in args.shape
        return Spec(tuple(args.shape) if fixed else None, dtype if dtype is not UNKNOWN else None, args.layout)
    shape = reinterpreted(spec.shape, spec.dtype.itemsize, dtype.itemsize, args.shape, args)
    return Spec(shape, dtype, _reshaped_layout(spec, len(shape), args))


reinterpret.shares(reinterpreted_calls, only=has_extents)


@operator("expand_dims", dtypes="any", gpu=True, examples=["fn.expand_dims(image, axes=0, new_axis_names='F')"])
def expand_dims(
    data: Sample,
    /,
    *,
    axes: Ints = required("positions of the new axes in the result"),
    new_axis_names: Layout = default("", "letters of the new axes in the layout"),
) -> Sample:
    """Inserts axes of extent 1; ``axes`` are their places in the result."""
    del new_axis_names
    return data.reshape(expanded(data.shape, axes))


def expanded(shape: Sequence[int], axes: Sequence[int]) -> tuple[int, ...]:
    """The shape with axes of extent 1 at the given places of the result."""
    ndim = len(shape) + len(axes)
    places = sorted(axis + ndim if axis < 0 else axis for axis in axes)
    if len(set(places)) != len(places) or any(not 0 <= place < ndim for place in places):
        raise ValueError(f"axes {tuple(axes)} are not distinct places in a result of {ndim} axes")
    result = list(shape)
    for place in places:
        result.insert(place, 1)
    return tuple(result)


@expand_dims.infer
def _(specs: tuple[Spec, ...], args: Any) -> Spec:
    spec = specs[0]
    if spec.shape is UNKNOWN:
        return Spec(None, spec.dtype, None)
    shape = expanded(spec.shape, args.axes)
    if spec.layout is None or not args.axes:
        return Spec(shape, spec.dtype, spec.layout)
    if (spec.layout or not spec.shape) and args.new_axis_names:
        letters = list(spec.layout)
        places = [axis + len(shape) if axis < 0 else axis for axis in args.axes]
        for place, name in sorted(zip(places, args.new_axis_names)):
            letters.insert(place, name)
        return Spec(shape, spec.dtype, "".join(letters))
    return Spec(shape, spec.dtype, "")


@expand_dims.check
def _(args: Any) -> None:
    if args.new_axis_names and len(args.new_axis_names) != len(args.axes):
        raise ValueError(
            f"new_axis_names {args.new_axis_names!r} must have one letter for each of {len(args.axes)} axes"
        )


expand_dims.shares(lambda calls: calls.share(expanded(calls.input.extents, calls.args.axes)))


@operator("squeeze", dtypes="any", gpu=True, examples=["fn.squeeze(gray, axes=2)"])
def squeeze(
    data: Sample,
    /,
    *,
    axes: Arg[Ints] = default(None, "axes of extent 1 that are removed, by number"),
    axis_names: Layout | None = default(None, "the same axes by their letters in the layout"),
    layouts: Any,
) -> Sample:
    """Removes axes of extent 1."""
    return data.reshape([data.shape[axis] for axis in left_axes(data.shape, layouts[0], axes, axis_names)])


def left_axes(shape: Sequence[int], layout: str, axes: Any, names: Any) -> list[int]:
    """The axes that remain after axes of extent 1 are removed."""
    chosen = axes_of(layout, len(shape), axes, names)
    left = [axis for axis in range(len(shape)) if axis not in chosen]
    if any(shape[axis] is UNKNOWN or shape[axis] == 0 for axis in left):
        return left  # data without elements remains without elements
    for axis in chosen:
        if shape[axis] is not UNKNOWN and shape[axis] != 1:
            raise ValueError(
                f"axis {axis} has extent {shape[axis]} in {tuple(shape)}: only axes of extent 1 can be removed"
            )
    return left


squeeze.shares(squeezed)


@squeeze.infer
def _(specs: tuple[Spec, ...], args: Any) -> Spec:
    spec = specs[0]
    if spec.shape is UNKNOWN or (spec.layout is None and args.axis_names):
        return Spec(None, spec.dtype, None)
    left = left_axes(spec.shape, spec.layout or "", args.axes, args.axis_names)
    layout = spec.layout and "".join(spec.layout[axis] for axis in left)
    return Spec(tuple(spec.shape[axis] for axis in left), spec.dtype, layout)


@squeeze.check
def _(args: Any) -> None:
    if (args.axes is None) == (args.axis_names is None):
        raise ValueError("give either axes or axis_names")


@operator(
    "transpose", dtypes="number complex", compiled=True, gpu=True, examples=["fn.transpose(image, perm=(2, 0, 1))"]
)
def transpose(
    data: Sample,
    /,
    *,
    perm: Ints = default(None, "for each axis of the result, the axis of the input; default: in reverse"),
    transpose_layout: bool = default(True, "let the layout follow the axes; False: keep it"),
    output_layout: Layout | None = default(None, "layout of the result, instead of the one that follows from perm"),
    out: Out,
) -> Sample:
    """Changes the order of the axes; the default reverses them.

    The layout follows unless ``transpose_layout=False`` keeps it; ``output_layout`` names the axes of the result.
    """
    del transpose_layout, output_layout
    order = order_of(data.ndim, perm)
    if callable(out):
        out = out([data.shape[axis] for axis in order], data.dtype)
    if data.dtype.itemsize > 8:  # the kernels move up to 8 bytes at once
        np.copyto(out, data.transpose(order))
        return out
    return kernels.moving.transpose(data, order, out)


transpose.calls(lambda calls: transposed(calls, order_of(len(calls.input.extents), calls.args.perm)))


SMALL = 1 << 12  # up to this number of elements NumPy is as fast as a kernel


@transpose.ready
def _(specs: tuple[Spec, ...], args: Any) -> Any:
    shape, dtype = specs[0].shape, specs[0].dtype
    order = order_of(len(shape), args.perm)
    if order == [1, 0, 2] and is_rgb(shape, dtype):
        return kernels.moving.turning(0, shape[1], 1)
    if order == [2, 0, 1] and 0 < shape[2] <= 8 and 0 not in shape and dtype.itemsize <= 8:
        return kernels.moving.separating(shape, dtype)

    def run(data: np.ndarray, out: np.ndarray) -> np.ndarray:
        np.copyto(out, data.transpose(order))
        return out

    return run if math.prod(shape) <= SMALL else None


def is_rgb(shape: Sequence[int], dtype: Any) -> bool:
    """True for images of bytes with pixels of three."""
    return len(shape) == 3 and shape[2] == 3 and dtype == np.uint8 and 0 not in shape


def order_of(ndim: int, perm: Any) -> list[int]:
    """The permutation, by default the reversal."""
    order = list(range(ndim))[::-1] if perm is None else list(perm)
    if sorted(order) != list(range(ndim)):
        raise ValueError(f"perm {tuple(order)} is not a permutation of {ndim} axes")
    return order


@transpose.infer
def _(specs: tuple[Spec, ...], args: Any) -> Spec:
    spec = specs[0]
    if spec.shape is UNKNOWN:
        return Spec(None, spec.dtype, args.output_layout)
    order = order_of(len(spec.shape), args.perm)
    layout = args.output_layout
    if layout is None:
        turned = spec.layout and "".join(spec.layout[axis] for axis in order)
        layout = turned if args.transpose_layout else spec.layout
    if layout and len(layout) != len(order):
        raise ValueError(f"output_layout {layout!r} has {len(layout)} letters for {len(order)} axes")
    return Spec(tuple(spec.shape[axis] for axis in order), spec.dtype, layout)


# ----------------------------------------------------------------------------------------------------
# joining


@operator("cat", dtypes="number complex", compiled=True, gpu=True, examples=["fn.cat(image, axis=1)"])
def cat(
    *inputs: Sample,
    axis: int = default(0, "axis along which the inputs are joined; negative: from the end"),
    axis_name: str | None = default(None, "the same axis by its letter in the layout"),
    out: Out,
    layouts: Any,
) -> Sample:
    """Joins the inputs along an existing axis."""
    place = joint(inputs, axis, axis_name, layouts)
    check_joint(inputs, place)
    if callable(out):
        shape = list(inputs[0].shape)
        shape[place] = sum(x.shape[place] for x in inputs)
        out = out(shape, inputs[0].dtype)
    if place == out.ndim - 1 and out.flags.c_contiguous and 0 < out.shape[-1] <= 16:
        return kernels.moving.interleave(inputs, out)
    begin = 0
    for x in inputs:
        out[(*[np.s_[:]] * place, np.s_[begin : begin + x.shape[place]])] = x
        begin += x.shape[place]
    return out


def joint(inputs: Sequence[Any], axis: int, name: str | None, layouts: Sequence[str]) -> int:
    """The axis along which the inputs are joined."""
    if not inputs:
        raise ValueError("expects at least one input, but received 0")
    ndim = len(inputs[0].shape)
    if not ndim:
        raise ValueError("numbers cannot be concatenated: use stack")
    layout = next((layout for layout in layouts if layout), "")
    return axes_of(layout, ndim, None if name is not None else (axis,), name)[0]


def check_joint(inputs: Sequence[Any], place: int) -> None:
    """Raises an error if inputs differ in another axis than the joined one."""
    first = inputs[0]
    for x in inputs[1:]:
        if x.dtype != first.dtype:
            raise TypeError(f"all inputs must have one type, got {first.dtype} and {x.dtype}")
        if len(x.shape) != len(first.shape) or any(
            axis != place and a != b for axis, (a, b) in enumerate(zip(x.shape, first.shape))
        ):
            raise ValueError(
                f"the inputs must have equal extents except along axis {place}, got shapes {first.shape} and {x.shape}"
            )


FEW = 64  # elements of a sample that one call for several samples joins


def _few(many: Many) -> list[np.ndarray]:
    inputs = [many.stacked(place) for place in range(len(many.inputs))]
    require(all(x[0].size <= FEW for x in inputs))
    return inputs


@cat.many
def _(many: Many) -> tuple[np.ndarray]:
    inputs = _few(many)
    place = joint([x[0] for x in inputs], many.args.axis, many.args.axis_name, many.layouts)
    check_joint([x[0] for x in inputs], place)
    return (np.concatenate(inputs, place + 1),)


@cat.ready
def _(specs: tuple[Spec, ...], args: Any) -> Any:
    place = joint(specs, args.axis, args.axis_name, [spec.layout for spec in specs])
    check_joint(specs, place)
    if place == len(specs[0].shape) - 1 and sum(spec.shape[place] for spec in specs) <= 16:
        return None  # a kernel is faster

    def run(*inputs_and_out: np.ndarray) -> np.ndarray:
        *inputs, out = inputs_and_out
        return np.concatenate(inputs, place, out)

    return run


@cat.infer
def _(specs: tuple[Spec, ...], args: Any) -> Spec:
    layout = next((spec.layout for spec in specs if spec.layout), specs[0].layout)
    place = joint(specs, args.axis, args.axis_name, [layout or ""])
    shape = list(specs[0].shape)
    shape[place] = sum((spec.shape[place] for spec in specs[1:]), shape[place])
    return Spec(tuple(shape), specs[0].dtype, layout)


@operator("stack", compiled=True, dtypes="any", gpu=True, staged=True, examples=["fn.stack(image, axis=0)"])
def stack(
    *inputs: Sample,
    axis: int = default(0, "position of the new axis in the result; negative: from the end"),
    axis_name: str | None = default(None, "letter of the new axis in the layout"),
    out: Out,
) -> Sample:
    """Joins the inputs along a new axis."""
    del axis_name
    check_equal(inputs)
    first = inputs[0]
    place = axes_of("", first.ndim + 1, (axis,), None)[0]
    if callable(out):
        out = out((*first.shape[:place], len(inputs), *first.shape[place:]), first.dtype)
    for index, x in enumerate(inputs):
        out[(*[np.s_[:]] * place, index)] = x
    return out


def check_equal(inputs: Sequence[Any]) -> None:
    """Raises an error if inputs have different types or shapes."""
    if not inputs:
        raise ValueError("expects at least one input, but received 0")
    first = inputs[0]
    for x in inputs[1:]:
        if x.dtype != first.dtype:
            raise TypeError(f"all inputs must have one type, got {first.dtype} and {x.dtype}")
        if x.shape != first.shape:
            raise ValueError(f"all inputs must have one shape, got {first.shape} and {x.shape}")


@stack.many
def _(many: Many) -> tuple[np.ndarray]:
    inputs = _few(many)
    check_equal(inputs)
    return (np.stack(inputs, axes_of("", inputs[0].ndim, (many.args.axis,), None)[0] + 1),)


@stack.ready
def _(specs: tuple[Spec, ...], args: Any) -> Any:
    check_equal(specs)
    if len(specs) > 1:
        return None
    own = specs[0].shape
    place = axes_of("", len(own) + 1, (args.axis,), None)[0]
    shape = (*own[:place], 1, *own[place:])

    def run(data: np.ndarray, out: np.ndarray) -> np.ndarray:
        np.copyto(out, data.reshape(shape))
        return out

    return run


@stack.infer
def _(specs: tuple[Spec, ...], args: Any) -> Spec:
    first = specs[0]
    ndim = len(first.shape) + 1
    place = axes_of("", ndim, (args.axis,), None)[0]
    shape = (*first.shape[:place], len(specs), *first.shape[place:])
    layout: Any = next((spec.layout for spec in specs if spec.layout), first.layout)
    if layout is not None:
        named = args.axis_name and (layout or not first.shape)
        layout = layout[:place] + args.axis_name + layout[place:] if named else ""
    return Spec(shape, first.dtype, layout)


@stack.check
def _(args: Any) -> None:
    if args.axis_name is not None and len(args.axis_name) != 1:
        raise ValueError(f"axis_name must be one letter, got {args.axis_name!r}")


# ----------------------------------------------------------------------------------------------------
# sequences and batches


@operator(
    "permute_batch", dtypes="any", granularity="batch", gpu=True, examples=["fn.permute_batch([image], indices=0)"]
)
def permute_batch(
    data: Sample, /, *, indices: Arg[Ints] = required("number of the input sample for each output sample")
) -> Sample:
    """Returns as sample i the input sample ``indices[i]`` of the same batch; samples may be repeated or left out."""
    many: list[int] = []
    for one in indices:
        if isinstance(one, tuple):
            many += one
        else:
            many.append(one)
    check_permutation(many, len(data))
    return [data[index] for index in many]


def check_permutation(indices: Sequence[int], size: int) -> None:
    """Raises an error for samples that the batch does not have, and if the number of samples changes."""
    if len(indices) != size:
        raise RuntimeError(
            f"The number of sample indices {len(indices)} does not match the current batch size, which is {size}"
        )
    for index in indices:
        if not 0 <= index < size:
            raise OutOfRange(f"indices names sample {index} of a batch of {size}")


permute_batch.traits(lambda _args: Traits("batch", moves=True))


@permute_batch.infer
def _(specs: tuple[Spec, ...], _args: Any) -> Spec:
    return specs[0]
