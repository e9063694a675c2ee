"""Values: cast, one_hot, lookup_table, and constants of a shape (constant, zeros, ones, full and similar operators)."""

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from pipeflow.declare import (
    DTYPE,
    FORMER_DTYPE,
    REQUIRED,
    UNKNOWN,
    Arg,
    DType,
    Floats,
    Ints,
    KernelCalls,
    Layout,
    Many,
    OpDef,
    Out,
    Sample,
    Spec,
    SpecColumn,
    default,
    operator,
    parameters,
    require,
)
from pipeflow.kernels import cpu as kernels
from pipeflow.tensors import fitting_layout
from pipeflow.types import saturate

PAGE = """Conversion of values, and constants of a shape."""


NOTHING = np.dtype([])  # the rows of an operator whose arguments are the same for all samples


FLOAT, INT32 = np.dtype(np.float32), np.dtype(np.int32)
SMALL = 64  # up to this number of elements NumPy is faster than the call of a compiled kernel


def converted(data: np.ndarray, out: np.ndarray) -> np.ndarray:
    """The data in the type of `out`."""
    if data.size <= SMALL or "c" in (data.dtype.kind, out.dtype.kind):
        out[...] = saturate(data, out.dtype)
        return out
    if out.flags.c_contiguous:
        return kernels.casting.cast(data, out)
    out[...] = kernels.casting.as_type(data, out.dtype)
    return out


@operator(
    "cast",
    dtypes="number complex",
    compiled=True,
    takes=parameters(dtype=(DType, REQUIRED, "type of the result")),
    elementwise=True,
    gpu=True,
    infer="like data",
    examples=["fn.cast(array, dtype=types.UINT8)"],
)
def cast(data: Sample, /, *, out: Out) -> Sample:
    """Converts to another type: rounded half away from zero and limited to its range. For BOOL every number except 0 is
    true."""
    return converted(data, out)


def casting(source: Spec, target: np.dtype) -> Any:
    """A short form of `converted` for data of a Spec, or None. NumPy and the kernel give some numbers other long integers."""
    if "c" in (source.dtype.kind, target.kind):
        return None
    differ = source.dtype.kind == "f" and target.kind in "iu" and target.itemsize > 2
    few = math.prod(source.shape) <= SMALL and source.dtype != target
    return None if few and differ else kernels.casting.casting(source.dtype, target)


@cast.ready
def _(specs: tuple[Spec, ...], args: Any) -> Any:
    return casting(specs[0], args.dtype)


@cast.rows
def _(specs: tuple[SpecColumn, ...], _args: Any, _keys: np.ndarray) -> np.ndarray:
    return np.zeros(len(specs[0].shapes), NOTHING)


@cast.calls
def _(calls: KernelCalls) -> None:
    data, target = calls.input, calls.args.dtype
    calls.require({data.dtype, target} == {np.dtype(np.uint8), np.dtype(np.float32)})
    calls.require(data.size > SMALL)
    calls.call(kernels.casting.cast_flat, data.flat, calls.output_like_input(target).flat)


@cast.line
def _(_args: Any, _dtype: np.dtype, _target: np.dtype) -> tuple[float, float]:
    return 1.0, 0.0


@operator("cast_like", dtypes="number complex", compiled=True, gpu=True, examples=["fn.cast_like(array, image)"])
def cast_like(data: Sample, like: Sample, /, *, out: Out) -> Sample:
    """Converts to the type of the second input."""
    if callable(out):
        out = out(data.shape, like.dtype)
    return converted(data, out)


@cast_like.ready
def _(specs: tuple[Spec, ...], _args: Any) -> Any:
    work = casting(specs[0], specs[1].dtype)
    return None if work is None else lambda data, _like, out: work(data, out)


@cast_like.infer
def _(specs: tuple[Spec, ...], _args: Any) -> Spec:
    return Spec(specs[0].shape, specs[1].dtype, specs[0].layout)


@operator(
    "one_hot", gpu=True, examples=["fn.one_hot(labels, num_classes=4)", "fn.one_hot(number, num_classes=4, axis=0)"]
)
def one_hot(
    data: Sample,
    /,
    *,
    num_classes: int = default(0, "number of classes, the extent of the new axis"),
    axis: int | None = default(
        None,
        "place of the new axis in the result; negative: from the end; default: the last one, and a vector for one number",
    ),
    axis_name: str | None = default(None, "letter of the new axis in the layout"),
    on_value: float = default(1.0, "value at the index of the class"),
    off_value: float = default(0.0, "value everywhere else"),
    dtype: DType = default(FLOAT, "type of the result"),
    out: Out,
) -> Sample:
    """Makes a vector for each number n: ``on_value`` at index n, ``off_value`` elsewhere. If n is not a valid index,
    all values are ``off_value``.

    ``axis`` is the place of the new axis. Without it, the result for one number is a vector, also if the number is in a list. If
    samples are lists of one or more numbers, such as the labels of detectors, pass ``axis=-1``: all results then have two axes.
    """
    del axis_name
    off, on = one_hot_values(off_value, on_value, dtype)
    if is_single(data.shape, axis):
        out.fill(off)
        if 0 <= (place := int(data.item())) < num_classes:
            out[place] = on
        return out
    numbers = data
    classes = np.arange(num_classes).reshape(
        [-1 if i == new_axis(numbers.ndim, axis) else 1 for i in range(numbers.ndim + 1)]
    )
    whole = np.trunc(numbers) if numbers.dtype.kind == "f" else numbers
    out[...] = np.where(np.expand_dims(whole, new_axis(numbers.ndim, axis)) == classes, on, off)
    return out


@one_hot.many
def _(many: Many) -> tuple[np.ndarray]:
    data, args = many.stacked(0), many.args
    require(is_single(data.shape[1:], args.axis) and data.dtype.kind in "iub")
    off, on = one_hot_values(args.off_value, args.on_value, args.dtype)
    out = many.empty((args.num_classes,), args.dtype)
    out[...] = off
    numbers = data.reshape(-1)
    known = np.flatnonzero((numbers >= 0) & (numbers < args.num_classes))
    out[known, numbers[known].astype(np.int64)] = on
    return (out,)


MOST_ROWS = 1 << 14  # the elements of a table with a row for each class


@one_hot.ready
def _(specs: tuple[Spec, ...], args: Any) -> Any:
    shape, dtype, count = specs[0].shape, specs[0].dtype, args.num_classes
    off, on = one_hot_values(args.off_value, args.on_value, args.dtype)
    if dtype.kind not in "iub" or count * count > MOST_ROWS:
        return None
    rows = np.full((count + 2, count), off)  # the first and the last one are for numbers that are no class
    np.fill_diagonal(rows[1:], on)
    if is_single(shape, args.axis):

        def single(data: np.ndarray, out: np.ndarray) -> np.ndarray:
            out[:] = rows[max(min(data.item() + 1, count + 1), 0)]
            return out

        return single
    add, one = np.add, np.array(1, np.int64)
    return (
        (lambda data, out: rows.take(add(data, one), 0, out, "clip"))
        if new_axis(len(shape), args.axis) == len(shape) and dtype != np.uint64
        else None
    )


@lru_cache(maxsize=256)
def one_hot_values(off_value: float, on_value: float, dtype: np.dtype) -> np.ndarray:
    """The two values in the type of the result. For integers the fraction is cut off, and numbers outside the range
    wrap around.
    """
    values = np.array([off_value, on_value])
    if dtype.kind not in "iu":
        return saturate(values, dtype)
    whole = np.trunc(values)
    if dtype.itemsize < 4 or dtype == np.int32:  # as in compiled C: numbers outside INT32 become its lowest number
        whole = np.where(np.abs(whole) < 2**31, whole, -(2**31))
    return saturate(whole, np.dtype(np.int64)).astype(dtype)


def is_single(shape: Sequence[Any], axis: int | None) -> bool:
    """True if one_hot makes a vector: of a number, and of a list of one number if no axis is given."""
    return not shape or (axis is None and all(extent == 1 for extent in shape))


def new_axis(ndim: int, axis: int | None) -> int:
    """The place of a new axis among the axes of the result; None is the last one."""
    if axis is None:
        return ndim
    place = axis + ndim + 1 if axis < 0 else axis
    if not 0 <= place <= ndim:
        raise ValueError(f"axis {axis} is not valid for a new axis among {ndim}")
    return place


@one_hot.infer
def _(specs: tuple[Spec, ...], args: Any) -> Spec:
    shape = specs[0].shape
    open_extents = [extent for extent in shape if extent is UNKNOWN]
    if args.axis is None and open_extents and is_single([x for x in shape if x is not UNKNOWN], None):
        return Spec(None, args.dtype, None)  # it may have one number, which becomes a vector
    if is_single(shape, args.axis):
        return Spec((args.num_classes,), args.dtype, args.axis_name or "")
    place = new_axis(len(shape), args.axis)
    layout = specs[0].layout
    if layout is not None:
        layout = (
            layout[:place] + args.axis_name + layout[place:] if args.axis_name and len(layout) == len(shape) else ""
        )
    return Spec((*shape[:place], args.num_classes, *shape[place:]), args.dtype, layout)


@one_hot.check
def _(args: Any) -> None:
    if args.num_classes < 0:
        raise ValueError(f"num_classes must not be negative, got {args.num_classes}")
    if args.axis_name is not None and len(args.axis_name) != 1:
        raise ValueError(f"axis_name must be one letter, got {args.axis_name!r}")


@operator(
    "lookup_table",
    compiled=True,
    dtypes="integer",
    gpu=True,
    infer="like data",
    former=FORMER_DTYPE,
    examples=["fn.lookup_table(image, keys=[0, 6, 12], values=[1.0, 5.0, 9.0])"],
)
def lookup_table(
    data: Sample,
    /,
    *,
    keys: Ints = default((), "values of the input that are replaced, from 0 to 65535"),
    values: Floats = default((), "the value for each key"),
    default_value: float = default(0.0, "value for all other numbers"),
    dtype: DType = default(FLOAT, "type of the result"),
    out: Out,
) -> Sample:
    """Replaces each key by its value and everything else by ``default_value``; keys are between 0 and 65535."""
    return kernels.moving.look_up(data, table_of(keys, values, default_value, dtype), out)


@lookup_table.ready
def _(specs: tuple[Spec, ...], args: Any) -> Any:
    table = table_of(args.keys, args.values, args.default_value, args.dtype)
    return kernels.moving.looking_up(specs[0].dtype, table)


@lru_cache(maxsize=16)
def table_of(keys: tuple[int, ...], values: tuple[float, ...], default_value: float, dtype: np.dtype) -> np.ndarray:
    """The values by key; the last entry is the default."""
    table = saturate(np.full(max(keys, default=0) + 2, default_value), dtype)
    table[list(keys)] = saturate(np.array(values, np.float64), dtype)
    return table


@lookup_table.check
def _(args: Any) -> None:
    if len(args.keys) != len(args.values):
        raise ValueError(f"keys and values must have the same length, got {len(args.keys)} and {len(args.values)}")
    if any(not 0 <= key <= 65535 for key in args.keys):
        raise ValueError(f"`keys` should be in the range [0, 65535], got {min(args.keys)} to {max(args.keys)}")
    if len(set(args.keys)) != len(args.keys):
        raise ValueError("a key is given twice")


# ----------------------------------------------------------------------------------------------------
# constants of a shape


def _constant(name: str, value: int, summary: str) -> tuple[OpDef, OpDef]:
    def body(
        *,
        shape: Arg[Ints] = default((), "shape of the result"),
        dtype: DType = default(INT32, "type of the result"),
        layout: Layout = default("", "layout of the result"),
    ) -> Sample:
        del layout
        return np.full(shape, value, dtype)

    body.__name__ = name
    body.__doc__ = summary
    op = operator(name, gpu=True, examples=[f"fn.{name}(shape=(2, 3))"])(body)

    @op.many
    def _(many: Many) -> tuple[np.ndarray]:
        require("shape" not in many.varying)
        out = many.empty(many.args.shape, many.args.dtype)
        out[...] = value
        return (out,)

    @op.infer
    def _(_specs: tuple[Spec, ...], args: Any) -> Spec:
        if args.shape is UNKNOWN:
            return Spec(UNKNOWN, args.dtype, args.layout)
        return Spec(tuple(args.shape), args.dtype, fitting_layout(args.layout, len(args.shape)))

    def like(data: Sample, /, *, out: Out) -> Sample:
        del data
        out[...] = value
        return out

    like.__name__ = f"{name}_like"
    like.__doc__ = summary.replace("of the given shape", "of the input's shape, in its type unless ``dtype`` is given")
    like_op = operator(f"{name}_like", takes=DTYPE, gpu=True, infer="like data")(like)

    @like_op.many
    def _(many: Many) -> tuple[np.ndarray]:
        first = many.inputs[0][0]
        require(all(data.shape == first.shape for data in many.inputs[0]))
        out = many.empty(first.shape, many.args.dtype or first.dtype)
        out[...] = value
        return (out,)

    return op, like_op


zeros, zeros_like = _constant("zeros", 0, "Zeros of the given shape.")
ones, ones_like = _constant("ones", 1, "Ones of the given shape.")


@operator("full", gpu=True, examples=["fn.full(vector, shape=(2, 6))"])
def full(
    fill: Sample,
    /,
    *,
    shape: Arg[Ints] = default(None, "shape of the result; default: that of the input"),
    layout: Layout | None = default(None, "layout of the result"),
) -> Sample:
    """The input repeated, by NumPy's broadcasting, to the given shape."""
    del layout
    return np.broadcast_to(fill, fill.shape if shape is None else shape).copy()


@full.ready
def _(specs: tuple[Spec, ...], args: Any) -> Any:
    fill = specs[0]
    shape = fill.shape if args.shape is None else tuple(args.shape)
    np.broadcast_to(np.empty(fill.shape), shape)  # an error if it does not fit

    def run(value: np.ndarray) -> np.ndarray:
        out = np.empty(shape, fill.dtype)
        np.copyto(out, value)
        return out

    return run


@full.many
def _(many: Many) -> tuple[np.ndarray]:
    fill = many.stacked(0)
    require("shape" not in many.varying)
    shape = fill.shape[1:] if many.args.shape is None else many.args.shape
    out = many.empty(shape, fill.dtype)
    out[...] = fill.reshape(many.size, *(1,) * (len(shape) - fill.ndim + 1), *fill.shape[1:])
    return (out,)


@full.infer
def _(specs: tuple[Spec, ...], args: Any) -> Spec:
    shape = specs[0].shape if args.shape is None else args.shape
    if shape is UNKNOWN:
        return Spec(UNKNOWN, specs[0].dtype, args.layout or "")
    return Spec(tuple(shape), specs[0].dtype, fitting_layout(args.layout, len(shape)))


@operator("full_like", gpu=True, infer="like data", examples=["fn.full_like(array, number)"])
def full_like(data: Sample, fill: Sample, /, *, out: Out) -> Sample:
    """The second input repeated to the shape of the first, in the type of the first."""
    out[...] = np.broadcast_to(saturate(fill, data.dtype), data.shape)
    return out


@full_like.ready
def _(specs: tuple[Spec, ...], _args: Any) -> Any:
    data, fill = specs
    convert = casting(fill, data.dtype)
    if convert is None:
        return None

    def run(_data: np.ndarray, value: np.ndarray, out: np.ndarray) -> np.ndarray:
        if value.dtype != out.dtype:
            value = convert(value, np.empty(value.shape, out.dtype))
        np.copyto(out, value)
        return out

    return run


@operator(
    "constant", gpu=True, examples=["fn.constant(idata=(1, 2, 3, 4), shape=(2, 2))", "fn.constant(fdata=0.5, shape=3)"]
)
def constant(
    *,
    fdata: Floats | None = default(None, "the numbers, one after another"),
    idata: Ints | None = default(None, "the numbers as integers, in place of fdata"),
    shape: Ints | None = default(None, "shape of the result; a single number is repeated to fill it; default: a list"),
    dtype: DType | None = default(None, "type of the result; default: FLOAT for fdata, INT32 for idata"),
    layout: Layout = default("", "layout of the result"),
) -> Sample:
    """The same numbers for every sample."""
    del layout
    numbers = constant_numbers(fdata, idata, shape, dtype)
    return numbers if shape is None else np.broadcast_to(numbers, shape).copy()


def constant_numbers(fdata: Any, idata: Any, shape: Any, dtype: np.dtype | None) -> np.ndarray:
    """The numbers of a constant in its type: those of a sample, or the one number that fills it."""
    values = np.array(idata, np.int64) if fdata is None else np.array(fdata, np.float64)
    result = saturate(values, dtype or _constant_type(fdata))
    return result if shape is None else result.reshape(shape if len(result) > 1 else ())


def _constant_type(fdata: Any) -> np.dtype:
    return np.dtype(np.int32 if fdata is None else np.float32)


@constant.check
def _(args: Any) -> None:
    if (args.fdata is None) == (args.idata is None):
        raise ValueError("give either fdata or idata")
    count = len(args.idata if args.fdata is None else args.fdata)
    if args.shape is not None and count not in (1, math.prod(args.shape)):
        raise ValueError(f"{count} numbers do not fill the shape {args.shape}")


@constant.many
def _(many: Many) -> tuple[np.ndarray]:
    args = many.args
    numbers = constant_numbers(args.fdata, args.idata, args.shape, args.dtype)
    out = many.empty(numbers.shape if args.shape is None else args.shape, numbers.dtype)
    out[...] = numbers
    return (out,)


@constant.infer
def _(_specs: tuple[Spec, ...], args: Any) -> Spec:
    count = len(args.idata if args.fdata is None else args.fdata)
    return Spec(
        args.shape if args.shape is not None else (count,), args.dtype or _constant_type(args.fdata), args.layout
    )
