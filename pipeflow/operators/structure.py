"""The operators that the syntax of DataNodes records: constants, indexing, shape(), properties, merging of branches."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from pipeflow.declare import (
    UNKNOWN,
    Args,
    BatchCall,
    DType,
    Layout,
    Many,
    Out,
    Sample,
    Spec,
    Traits,
    default,
    operator,
    require,
    required,
)
from pipeflow.errors import CAST, OutOfRange, WrongShape, count_of, logical_error, merge_error, scalar_error
from pipeflow.operators import small_calls

PAGE = """Properties of samples, and a copy. For arithmetic and indexing see [Arithmetic](../arithmetic.md)."""


INT64 = np.dtype(np.int64)


@operator("_constant", role="constant", hidden=True, gpu=True)
def constant(*, value: Any, layout: Layout = "") -> Sample:
    """The same value for every sample."""
    del layout
    return value


@constant.infer
def _(_specs: tuple[Spec, ...], args: Any) -> Spec:
    return Spec(args.value.shape, args.value.dtype, args.layout)


@operator("_given", hidden=True, granularity="batch")
def given(*, batch_of: Any) -> Sample:
    """The samples of a batch that exists already: a list of arrays that was passed to an operator in a debug run."""
    raise NotImplementedError  # the batch hook runs instead


@given.batch
def _(*, args: Args, batch: BatchCall) -> list[Any]:
    if len(args.batch_of) != batch.size:
        raise WrongShape(f"a list of {count_of(len(args.batch_of), 'array')} was given in a batch of {batch.size}")
    return [args.batch_of.samples()]


@given.infer
def _(_specs: tuple[Spec, ...], args: Any) -> Spec:
    first = args.batch_of.at(0)
    return Spec((UNKNOWN,) * first.ndim, first.dtype, args.batch_of.layout())


@operator("copy", role="copy", dtypes="any", gpu=True)
def copy(data: Sample, /, *, out: Out) -> Sample:
    """Copies the data; with ``device="gpu"`` to the GPU."""
    np.copyto(out, data)
    return out


@copy.many
def _(many: Many) -> Any:
    return (many.copies(many.inputs[0]),)


@copy.infer
def _(specs: tuple[Spec, ...], _args: Any) -> Spec:
    return specs[0]


@operator("_transfer", role="transfer", dtypes="any", hidden=True, devices=("cpu", "gpu"))
def transfer(data: Sample, /) -> Sample:
    """Moves data between CPU and GPU memory; ``.gpu()`` and ``.cpu()`` record it."""
    return data


@transfer.infer
def _(specs: tuple[Spec, ...], _args: Any) -> Spec:
    return specs[0]


@operator("_merge", role="merge", dtypes="any", hidden=True, elementwise=True)
def merge(true_side: Sample, false_side: Sample, predicate: Sample, /, *, variable: str, sides: Any) -> Sample:  # noqa: ARG001
    """The result of the branch that the sample took. ``variable`` and ``sides`` are for messages.

    The executor reads one side or the other without a copy; this body is for columns.
    """
    return np.where(predicate, true_side, false_side)


@operator("_merge_late", role="late merge", dtypes="any", hidden=True, granularity="batch")
def merge_late(
    true_side: Sample, false_side: Sample, predicate: Sample, /, *, variable: str, sides: Any, weak: Any
) -> Sample:
    """A merge in which a Python number takes the type of the other side, which is known only from the batch."""
    flags = [bool(flag) for flag in predicate]
    chosen = [first if flag else second for flag, first, second in zip(flags, true_side, false_side)]
    is_weak = [weak[0] if flag else weak[1] for flag in flags]  # True for a value from a side with Python numbers
    strong = next((value for value, number in zip(chosen, is_weak) if not number), None)
    results = []
    for value, number in zip(chosen, is_weak):
        if strong is not None and number and value.dtype != strong.dtype:
            if not np.can_cast(value.dtype, strong.dtype, "same_kind") or not np.array_equal(
                value.astype(strong.dtype), value
            ):
                one, other = (f"{(value if weak[side] else strong).dtype} {sides[side]}" for side in (0, 1))
                raise RuntimeError(merge_error(variable, one, other, CAST))
            value = value.astype(strong.dtype)
        results.append(value)
    return results


@operator("_predicate", hidden=True)
def predicate(data: Sample, /, *, what: str, whole: bool) -> Sample:  # noqa: ARG001
    """Converts a value to bool, if it is not known before that it is a scalar. Data of a source is converted for a ``whole``
    batch: then steps with this condition may run for several samples at once.
    """
    if data.ndim:
        raise RuntimeError(scalar_error(what, f"shape {data.shape}"))
    return np.asarray(data).astype(bool)


@operator("_operand", hidden=True)
def operand(data: Sample, /, *, operator: str, side: str, where: str, whole: bool) -> Sample:  # noqa: ARG001
    """Checks that a value is a scalar bool, as `predicate`."""
    if data.ndim or data.dtype != np.bool_:
        found = f"{data.dtype} with {data.ndim} axes" if data.ndim else str(data.dtype)
        raise RuntimeError(logical_error(operator, side, where, found))
    return np.asarray(data)


for _op in (predicate, operand):
    _op.traits(lambda args: Traits("batch" if args.whole else "sample"))


@predicate.batch
def _(data: Any, *, args: Args, batch: BatchCall) -> Any:
    if isinstance(data, np.ndarray) and data.ndim == 1:
        return [data.astype(bool)]
    return [np.array([predicate.body(x, what=args.what, whole=True) for _, x in batch.each(data)], bool)]


@operand.batch
def _(data: Any, *, args: Args, batch: BatchCall) -> Any:
    if isinstance(data, np.ndarray) and data.ndim == 1 and data.dtype == np.bool_:
        return [data]
    given = {name: getattr(args, name) for name in ("operator", "side", "where")}
    return [np.array([operand.body(x, **given, whole=True) for _, x in batch.each(data)], bool)]


@operator("_not", hidden=True, elementwise=True)
def logical_not(data: Sample, /) -> Sample:
    """``not`` of a scalar."""
    return np.logical_not(data)


logical_not.calls(lambda calls: small_calls.as_bool(calls, opposite=True), small=True)


@operator("_truth", hidden=True, elementwise=True)
def truth(data: Sample, /) -> Sample:
    """Converts a scalar to bool."""
    return np.asarray(data).astype(bool)


predicate.calls(small_calls.as_bool, small=True)
operand.calls(small_calls.same_bool, small=True)
truth.calls(small_calls.as_bool, small=True)


@predicate.infer
@operand.infer
@logical_not.infer
@truth.infer
def _(_specs: tuple[Spec, ...], _args: Any) -> Spec:
    return Spec((), np.bool_, "")


@merge.infer
@merge_late.infer
def _(specs: tuple[Spec, ...], _args: Any) -> Spec:
    left, right = specs[0], specs[1]
    dtype = right.dtype if left.dtype is UNKNOWN else left.dtype
    layout = left.layout or right.layout or (None if None in (left.layout, right.layout) else "")
    if left.dtype is not UNKNOWN and right.dtype is not UNKNOWN and left.dtype != right.dtype:
        dtype = UNKNOWN  # the type of the branch that the samples of a batch take
    if left.layout and right.layout and left.layout != right.layout:
        layout = None
    if left.shape is UNKNOWN or right.shape is UNKNOWN or len(left.shape) != len(right.shape):
        shape: Any = UNKNOWN
    else:
        shape = tuple(
            a if b is not UNKNOWN and a is not UNKNOWN and a == b else UNKNOWN for a, b in zip(left.shape, right.shape)
        )
    return Spec(shape, dtype, layout)


@operator("shapes", dtypes="any", gpu=True, former={"type": "dtype"}, dali_class="_Shape")
def shapes(data: Sample, /, *, dtype: DType = default(INT64, "type of the extents")) -> Sample:
    """The extents of each sample."""
    return np.array(data.shape, dtype)


@shapes.many
def _(many: Many) -> tuple[np.ndarray]:
    samples = many.inputs[0]
    if isinstance(samples, list):
        return (np.array([data.shape for data in samples], many.args.dtype),)
    out = many.empty((samples.ndim - 1,), many.args.dtype)
    out[...] = samples.shape[1:]
    return (out,)


shapes.calls(small_calls.shape_of, small=True)


@shapes.infer
def _(specs: tuple[Spec, ...], args: Any) -> Spec:
    return Spec(UNKNOWN if specs[0].shape is UNKNOWN else (len(specs[0].shape),), args.dtype, "")


@operator("get_property", dtypes="any", gpu=True, examples=['fn.get_property(image, key="layout")'])
def get_property(
    data: Sample, /, *, key: str = required('"layout" or "source_info"'), layouts: Any, source: Any
) -> Sample:
    """A property of each sample, "layout" or "source_info", as the bytes of its text."""
    del data
    return property_bytes(key, layouts[0], getattr(source, "name", source))


def property_bytes(key: str, layout: str, source: str) -> np.ndarray:
    """A property as the bytes of its text, which the user may write to."""
    return np.frombuffer(bytearray((layout if key == "layout" else source).encode()), np.uint8)


@get_property.check
def _(args: Any) -> None:
    if args.key not in ("layout", "source_info"):
        raise RuntimeError(f"unsupported property key: {args.key}; there are 'layout' and 'source_info'")


@get_property.infer
def _(_specs: tuple[Spec, ...], _args: Any) -> Spec:
    return Spec((UNKNOWN,), np.uint8, "")


@operator("_subscript", dtypes="any", hidden=True, gpu=True, host_inputs=True, dali_class="_TensorSubscript")
def subscript(data: Sample, /, *indices: Sample, plan: Any) -> Sample:
    """``data[...]``: returns a view. ``plan`` has an entry for each index between the brackets:

    ("at", i), ("range", lo, hi, step), ("new", name) or ("all",); a bound that is a DataNode is written as ("node", k):
    additional input number k.
    """
    return data[(*index_of(data.shape, plan, indices), ...)]


def index_of(shape: Sequence[int], plan: Any, indices: tuple[np.ndarray, ...]) -> list[Any]:
    """The index as NumPy takes it: None, an integer or a slice for each written one."""
    index: list[Any] = []
    axis = 0
    for entry in plan:
        if entry[0] == "new":
            index.append(None)
            continue
        if axis >= len(shape):
            raise OutOfRange(f"too many indices: the data has {len(shape)} axes and {_axes(plan)} are indexed")
        if entry[0] == "at":
            position = _bound(entry[1], indices)
            if not -shape[axis] <= position < shape[axis]:
                raise OutOfRange(f"Index {position} is out of bounds for axis {axis} of extent {shape[axis]}")
            index.append(position)
        elif entry[0] == "range":
            lo, hi, step = (_bound(bound, indices) for bound in entry[1:])
            if step == 0:
                raise ValueError("the step of a slice must not be 0")
            index.append(slice(lo, hi, step))
        else:
            index.append(slice(None))
        axis += 1
    return index


def _axes(plan: Any) -> int:
    return sum(entry[0] != "new" for entry in plan)


def _bound(bound: Any, indices: tuple[np.ndarray, ...]) -> Any:
    if not isinstance(bound, tuple):
        return bound
    value = indices[bound[1]]
    if value.size != 1 or value.dtype.kind not in "ui":
        raise TypeError(f"an index must be one integer per sample, got {value.dtype} of shape {value.shape}")
    return int(value.item())


@subscript.many
def _(many: Many) -> tuple[np.ndarray]:
    data, *others = [many.stacked(place) for place in range(len(many.inputs))]
    for bound in others:
        require(bound.ndim == 1 and bound.dtype.kind in "ui")
    given: list[Any] = []
    axis = 1
    for entry in many.args.plan:
        if entry[0] == "new":
            given.append(None)
            continue
        if entry[0] == "at":
            places = others[entry[1][1]] if isinstance(entry[1], tuple) else entry[1]
            require(np.all((-data.shape[axis] <= places) & (places < data.shape[axis])))
            given.append(places)
        elif entry[0] == "range":
            require(not any(isinstance(bound, tuple) for bound in entry[1:]) and entry[3] != 0)
            given.append(slice(*entry[1:]))
        else:
            given.append(slice(None))
        axis += 1
    # Of several arrays NumPy puts the axis that they share first.
    first = np.arange(many.size) if others else slice(None)
    return (many.copy(data[(first, *given)]),)


subscript.calls(small_calls.element, only=lambda args: small_calls.is_element(args.plan), small=True)


@subscript.infer
def _(specs: tuple[Spec, ...], args: Any) -> Spec:
    data = specs[0]
    if data.shape is UNKNOWN:
        return Spec(None, data.dtype, None if data.layout is None else "" if not data.layout else None)
    shape: list[Any] = []
    layout: list[str] = []
    axis = 0
    for entry in args.plan:
        if entry[0] == "new":
            shape.append(1)
            layout.append(entry[1] or "?")
            continue
        if axis >= len(data.shape):
            raise OutOfRange(
                f"too many indices: the data has {len(data.shape)} axes and {_axes(args.plan)} are indexed"
            )
        extent = data.shape[axis]
        letter = data.layout[axis] if data.layout else "?"
        if entry[0] == "range":
            known = extent is not UNKNOWN and not any(isinstance(bound, tuple) for bound in entry[1:])
            shape.append(len(range(*slice(*entry[1:]).indices(extent))) if known else UNKNOWN)
            layout.append(letter)
        elif entry[0] == "all":
            shape.append(extent)
            layout.append(letter)
        elif extent is not UNKNOWN and isinstance(entry[1], int) and not -extent <= entry[1] < extent:
            raise OutOfRange(f"Index {entry[1]} is out of bounds for axis {axis} of extent {extent}")
        axis += 1
    shape += data.shape[axis:]
    if data.layout is None:
        return Spec(tuple(shape), data.dtype, None)
    letters = "".join(layout) + (data.layout[axis:] if data.layout else "?" * (len(data.shape) - axis))
    return Spec(tuple(shape), data.dtype, "" if "?" in letters else letters)
