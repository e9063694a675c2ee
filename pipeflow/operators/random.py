"""Random numbers: uniform, normal, coin_flip, choice, beta.

Every number is a function of the sample's key (seeds.py). The bodies take one key or a column of keys: with a column, scalars
for a whole batch are drawn in one call.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from pipeflow import seeds
from pipeflow.declare import (
    UNKNOWN,
    Arg,
    Args,
    BatchCall,
    DType,
    Floats,
    Ints,
    Many,
    OpDef,
    Param,
    Sample,
    Spec,
    Traits,
    default,
    operator,
    parameters,
    require,
)
from pipeflow.errors import BadValue
from pipeflow.kernels import cpu as kernels
from pipeflow.types import saturate

PAGE = """Every number follows from the seed, the node and the sample's position, so a run can be repeated and continued
exactly: [Randomness](../randomness.md).
"""


FLOAT, FLOAT64, INT32 = np.dtype(np.float32), np.dtype(np.float64), np.dtype(np.int32)


def shape_of(shape: Any, like: np.ndarray | None, key: seeds.Key | None = None) -> tuple[int, ...]:
    """The shape of one sample: the given shape, or that of the shape-like input; () if there is neither.

    With the key of a column call, the input has the samples along its first axis.
    """
    if shape is None:
        return () if like is None else like.shape[1:] if key and isinstance(key.value, np.ndarray) else like.shape
    if any(extent < 0 for extent in shape):
        raise BadValue(f"shape {tuple(shape)} has a negative extent")
    return tuple(shape)


def _size(shape: tuple[int, ...]) -> int:
    size = 1
    for extent in shape:
        size *= extent
    return size


def _aligned(argument: Any, shape: tuple[int, ...], key: seeds.Key) -> Any:
    """A number, or in a column call a number for each sample, in a shape that broadcasts to (samples, *shape)."""
    if not isinstance(argument, np.ndarray) or not isinstance(key.value, np.ndarray):
        return argument
    return argument.reshape((-1,) + (1,) * len(shape))


def _drawn(numbers: np.ndarray, shape: tuple[int, ...], key: seeds.Key) -> np.ndarray:
    return numbers.reshape(np.shape(key.value) + shape)


def _infer_shape(specs: tuple[Spec, ...], args: Any, position: int = 0) -> Any:
    if args.shape is not None:
        return args.shape
    return specs[position].shape if len(specs) > position else ()


def _infer_as(default: np.dtype) -> Any:
    def infer(specs: tuple[Spec, ...], args: Any) -> Spec:
        shape = _infer_shape(specs, args)
        return Spec(shape if shape is UNKNOWN else tuple(shape), args.dtype or default, "")

    return infer


def _no_bool(op: OpDef) -> None:
    @op.check
    def _(args: Any) -> None:
        if args.dtype is not None and args.dtype is not UNKNOWN and args.dtype.kind in "bO":
            raise RuntimeError(f"dtype {args.dtype} is not supported; use a number type")


SHAPE = parameters(shape=(Arg[Ints], None, "shape of a sample; default: that of the input, or a single number"))


def _type(standard: str) -> dict[str, Param]:
    return parameters(dtype=(DType, None, f"type of the numbers; default: {standard}"))


@operator(
    "random.uniform",
    takes=_type("FLOAT") | SHAPE,
    elementwise=True,
    gpu=True,
    examples=["fn.random.uniform(range=(0.0, 1.0), shape=(3, 2))"],
)
def uniform(
    shape_like: Sample | None = None,
    /,
    *,
    args: Args,
    range: Arg[Floats] = default((-1.0, 1.0), "the ends of the range: the lower end is included, the upper end is not"),
    values: Arg[Floats] = default(None, "numbers to choose from, instead of a range"),
    key: Any,
) -> Sample:
    """Uniformly distributed numbers in ``[low, high)``, or one of ``values``; integer types are rounded."""
    extents = shape_of(args.shape, shape_like, key)
    unit = _drawn(seeds.unit(key.value, _size(extents)), extents, key)
    wanted = args.dtype or FLOAT
    if values is not None:
        table = checked_values(values)
        if table.ndim == 1:
            return saturate(table[(unit * len(table)).astype(np.int64)], wanted)
        index = (unit * table.shape[1]).astype(np.int64)
        return saturate(np.take_along_axis(table, index.reshape(len(table), -1), 1).reshape(unit.shape), wanted)
    low, high = checked_range(range)
    if wanted.kind == "f" and not isinstance(low, np.ndarray):
        return np.minimum((low + unit * (high - low)).astype(wanted), _top(float(low), float(high), wanted)).astype(
            wanted
        )
    numbers = _aligned(low, extents, key) + unit * (_aligned(high, extents, key) - _aligned(low, extents, key))
    if wanted.kind == "f":
        # rounding to the output type must not reach the excluded end
        top = _aligned(np.nextafter(np.asarray(high, wanted), np.asarray(low, wanted)), extents, key)
        return np.minimum(numbers.astype(wanted), top).astype(wanted)
    return saturate(numbers, wanted)


@lru_cache(maxsize=256)
def _top(low: float, high: float, dtype: np.dtype) -> np.ndarray:
    """The largest number of a type that is below the upper end: rounding must not reach this end, which is excluded."""
    return np.nextafter(np.asarray(high, dtype), np.asarray(low, dtype))


def checked_values(values: Any) -> np.ndarray:
    """The values to choose from; in a column call, one row for each sample."""
    table = np.asarray(values, np.float64)
    if table.size == 0:
        raise RuntimeError("values must not be empty")
    return table


def checked_range(limits: Any) -> tuple[Any, Any]:
    """The two ends, the lower one first; arrays in a column call."""
    low, high = _ends(limits)
    if low >= high if not isinstance(low, np.ndarray) else (low >= high).any():
        raise RuntimeError(f"Invalid range [{low}, {high}): the end must be greater than the start")
    return low, high


def check_probability(probability: Any) -> None:
    """Raises an error if a number is not a probability."""
    if type(probability) is float and 0 <= probability <= 1:
        return
    if np.any((np.asarray(probability) < 0) | (np.asarray(probability) > 1)):
        raise ValueError(f"probability must be between 0 and 1, got {probability}")


def _ends(limits: Any) -> tuple[Any, Any]:
    if isinstance(limits, np.ndarray):
        if limits.shape[-1:] != (2,):
            raise RuntimeError(f"range must be two numbers per sample, got shape {limits.shape[1:]}")
        return limits[..., 0].astype(np.float64), limits[..., 1].astype(np.float64)
    if len(limits) != 2:
        raise RuntimeError(f"range must be two numbers (low, high), got {tuple(limits)}")
    return limits


@uniform.many
def _(many: Many) -> tuple[np.ndarray]:
    args, extents = many.args, _extents_of(many)
    require(args.values is None and args.dtype in (None, FLOAT))
    limits = many.numbers("range")
    require(limits.shape[1] == 2 and (limits[:, 0] < limits[:, 1]).all())
    low, high = np.ascontiguousarray(limits[:, 0]), np.ascontiguousarray(limits[:, 1])
    out = many.empty(extents, FLOAT)
    top = np.nextafter(high.astype(FLOAT), low.astype(FLOAT))
    kernels.draws.uniform(many.keys, low, high, top, out.reshape(many.size, -1))
    return (out,)


def _extents_of(many: Many, place: int = 0) -> tuple[int, ...]:
    """The shape of a sample, if all samples have the same."""
    require("shape" not in many.varying)
    if many.args.shape is None and len(many.inputs) > place:
        return many.stacked(place).shape[1:]
    require(all(extent > 0 for extent in many.args.shape or ()))
    return tuple(many.args.shape or ())


def units_ready(extents: tuple[int, ...]) -> Any:
    """A function of the number of a key: its first numbers in [0, 1), in a shape."""
    size, empty, flat = _size(extents), np.empty, len(extents) == 1
    compute = kernels.jit.machine_code(kernels.draws.units_of, np.uint64(0), empty(0))

    def run(key: int) -> np.ndarray:
        numbers = empty(size)
        compute(key, numbers)
        return numbers if flat else numbers.reshape(extents)

    return run


def generator_ready() -> Callable[[int], np.random.Generator]:
    """A function of the number of a key: `seeds.Key.borrowed`."""
    write, own = (
        kernels.jit.machine_code(kernels.draws.state_of, np.uint64(0), np.empty(0, np.uint64)),
        seeds.own_generator,
    )
    return lambda key: own().rekey_by(write, key)


def normals_ready(size: int, deviation: float, mean: float, dtype: np.dtype) -> Callable[[int], np.ndarray]:
    """A function of the number of a key: its first normal numbers, in a type of float32 or float64."""
    empty = np.empty
    compute = kernels.jit.machine_code(kernels.draws.normals_of, np.uint64(0), deviation, mean, empty(0, dtype))

    def run(key: int) -> np.ndarray:
        numbers = empty(size, dtype)
        compute(key, deviation, mean, numbers)
        return numbers

    return run


def standard_normal(keys: Any, count: int) -> np.ndarray:
    """The first normal numbers of one key or of each key, by compiled code if it is loaded."""
    if not kernels.draws.loaded():
        return seeds.standard_normal(keys, count)
    several = np.atleast_1d(np.asarray(keys, np.uint64))
    out = np.empty((*several.shape, count))
    kernels.draws.normals(several.ravel(), out.reshape(several.size, count))
    return out if np.ndim(keys) else out[0]


def _extents_ready(specs: tuple[Spec, ...], args: Any, place: int = 0) -> tuple[int, ...]:
    """The shape of the numbers for a short form."""
    return shape_of(args.shape, np.empty(specs[place].shape, bool) if len(specs) > place else None)


@uniform.ready
def _(specs: tuple[Spec, ...], args: Any) -> Any:
    extents = _extents_ready(specs, args)
    if args.values is not None or args.dtype not in (None, FLOAT):
        return None
    low, high = map(float, checked_range(args.range))
    top, size, empty = _top(low, high, FLOAT)[()], _size(extents), np.empty
    compute = kernels.jit.machine_code(kernels.draws.uniform_of, np.uint64(0), low, high, top, empty(0, FLOAT))

    def run(*inputs_and_key: Any) -> np.ndarray:
        out = empty(size, FLOAT)
        compute(inputs_and_key[-1], low, high, top, out)
        return out.reshape(extents)

    return run


uniform.many_loads = LOADS = (lambda: kernels.draws.loaded(), lambda: kernels.draws.load())
uniform.infer(_infer_as(FLOAT))
_no_bool(uniform)


@operator("random.normal", takes=_type("FLOAT") | SHAPE, elementwise=True, gpu=True)
def normal(
    shape_like: Sample | None = None,
    /,
    *,
    args: Args,
    mean: Arg[float] = default(0.0, "mean of the distribution"),
    stddev: Arg[float] = default(1.0, "standard deviation of the distribution"),
    key: Any,
) -> Sample:
    """Normally distributed numbers; integer types are rounded and limited to their range."""
    extents = shape_of(args.shape, shape_like, key)
    numbers = _drawn(standard_normal(key.value, _size(extents)), extents, key)
    scaled = numbers * _aligned(stddev, extents, key) + _aligned(mean, extents, key)
    return saturate(scaled, args.dtype or FLOAT)


@normal.many
def _(many: Many) -> tuple[np.ndarray]:
    extents = _extents_of(many)
    numbers = np.empty((many.size, _size(extents)))
    kernels.draws.normals(many.keys, numbers)
    numbers *= many.each("stddev")[:, None]
    numbers += many.each("mean")[:, None]
    return (saturate(numbers, many.args.dtype or FLOAT).reshape(many.size, *extents),)


@normal.ready
def _(specs: tuple[Spec, ...], args: Any) -> Any:
    extents, dtype = _extents_ready(specs, args), args.dtype or FLOAT
    if dtype.kind != "f" or not _size(extents):
        return None
    most = float(np.finfo(dtype).max)
    small = abs(args.mean) + 10 * abs(args.stddev) < most  # no number becomes infinite: none is above 9
    drawn = dtype if small and dtype != np.float16 else FLOAT64
    normals = normals_ready(_size(extents), float(args.stddev), float(args.mean), drawn)

    def run(*inputs_and_key: Any) -> np.ndarray:
        numbers = normals(inputs_and_key[-1])
        return (numbers if drawn == dtype and small else saturate(numbers, dtype)).reshape(extents)

    return run


normal.many_loads = normal.body_loads = LOADS
normal.infer(_infer_as(FLOAT))
_no_bool(normal)


@operator("random.coin_flip", takes=_type("INT32") | SHAPE, elementwise=True, gpu=True)
def coin_flip(
    shape_like: Sample | None = None,
    /,
    *,
    args: Args,
    probability: Arg[float] = default(0.5, "probability of a 1"),
    key: Any,
) -> Sample:
    """1 with the given probability, else 0."""
    check_probability(probability)
    extents = shape_of(args.shape, shape_like, key)
    unit = _drawn(seeds.unit(key.value, _size(extents)), extents, key)
    return (unit < _aligned(probability, extents, key)).astype(args.dtype or INT32)


@coin_flip.ready
def _(specs: tuple[Spec, ...], args: Any) -> Any:
    check_probability(args.probability)
    extents, probability, dtype = _extents_ready(specs, args), args.probability, args.dtype or INT32
    if not extents:
        sides = np.array(0, dtype), np.array(1, dtype)
        return lambda *inputs_and_key: sides[seeds.Key(inputs_and_key[-1]).unit(0) < probability].copy()
    units = units_ready(extents)
    return lambda *inputs_and_key: (units(inputs_and_key[-1]) < probability).astype(dtype)


coin_flip.infer(_infer_as(INT32))


@operator("random.choice", takes=SHAPE, elementwise=True, gpu=True, examples=["fn.random.choice(vector, shape=(4,))"])
def choice(
    a: Sample,
    shape_like: Sample | None = None,
    /,
    *,
    args: Args,
    p: Arg[Floats] = default(None, "probability of each element; default: equal ones"),
    key: Any,
) -> Sample:
    """One of the elements along the first axis of ``a``, or of ``range(a)`` when ``a`` is one integer."""
    extents = shape_of(args.shape, shape_like, key)
    if isinstance(key.value, np.ndarray):
        return _choices(a, extents, p, key.value)
    if a.ndim == 0:
        return chosen(most(a), extents, p, key).astype(a.dtype)
    return a[chosen(len(a), extents, p, key)]


def _choices(a: np.ndarray, extents: tuple[int, ...], p: Any, keys: np.ndarray) -> np.ndarray:
    """The elements for a column of keys; equal numbers of elements without probabilities are chosen at once."""
    if a.ndim == 1 and p is None and (a == a[0]).all():
        unit = seeds.unit(keys, _size(extents)).reshape(len(keys), *extents)
        return _even(unit, most(a[0])).astype(a.dtype)
    each = p if isinstance(p, np.ndarray) else [p] * len(keys)
    rows = [
        chosen(most(one) if a.ndim == 1 else len(one), extents, own, seeds.Key(key))
        for one, own, key in zip(a, each, keys.tolist(), strict=True)
    ]
    return np.array(rows).astype(a.dtype) if a.ndim == 1 else np.array([one[row] for one, row in zip(a, rows)])


def _even(unit: np.ndarray, size: int) -> np.ndarray:
    """Indices that all have the same chance."""
    return np.minimum((unit * size).astype(np.int64), size - 1)


def most(number: np.ndarray) -> int:
    """The number below which to choose."""
    if number.dtype.kind not in "ui" or number <= 0:
        raise RuntimeError(f"a single number to choose from must be a positive integer, got {number}")
    return int(number)


def chosen(size: int, extents: tuple[int, ...], p: Any, key: seeds.Key) -> np.ndarray:
    """The indices of the chosen elements."""
    if size == 0:
        raise RuntimeError("there is nothing to choose from: the input is empty")
    unit = key.units(_size(extents)).reshape(extents)
    if p is None:
        return _even(unit, size)
    return _weighted(np.asarray(p, np.float64), size, unit)


def _weighted(weights: np.ndarray, size: int, unit: np.ndarray) -> np.ndarray:
    if weights.size != size:
        raise RuntimeError(f"p has {weights.size} probabilities for {size} elements")
    if np.any(weights < 0):
        raise RuntimeError(f"probabilities must not be negative, got {weights.min()}")
    total = float(weights.sum())
    if abs(total - 1.0) > 1e-4:
        raise RuntimeError(f"Sum of probabilities must be 1.0, but got {total:g}")
    ends = np.cumsum(weights / total)
    # an element of probability 0 must never be chosen, not even by rounding at the upper end
    last = int(np.flatnonzero(weights)[-1])
    return np.minimum(np.searchsorted(ends, unit, side="right"), last)


@choice.ready
def _(specs: tuple[Spec, ...], args: Any) -> Any:
    extents, a, empty = _extents_ready(specs, args, 1), specs[0], np.empty
    if args.p is not None or not extents or (a.shape and not a.shape[0]):
        return None
    size, flat, below = _size(extents), len(extents) == 1, a.shape[0] if a.shape else 0
    compute = kernels.jit.machine_code(kernels.draws.places_of, np.uint64(0), 1, empty(0, np.int64))

    def run(values: np.ndarray, *others_and_key: Any) -> np.ndarray:
        places = empty(size, np.int64)
        compute(others_and_key[-1], below or most(values), places)
        if not flat:
            places = places.reshape(extents)
        return values.take(places, 0, None, "clip") if below else places.astype(a.dtype)

    return run


@choice.infer
def _(specs: tuple[Spec, ...], args: Any) -> Spec:
    picked, extents = specs[0], _infer_shape(specs, args, 1)
    if extents is UNKNOWN or picked.shape is UNKNOWN:
        return Spec(None, picked.dtype, None)
    layout = picked.layout
    if layout:  # a chosen element keeps its letters; a list of elements keeps those of `a`
        layout = layout[1:] if not extents else layout if len(extents) == 1 else ""
    return Spec((*extents, *picked.shape[1:]), picked.dtype, layout)


@operator("random.beta", takes=_type("FLOAT") | SHAPE, elementwise=True, gpu=True)
def beta(
    shape_like: Sample | None = None,
    /,
    *,
    args: Args,
    alpha: Arg[float] = default(1.0, "first parameter of the distribution, above 0"),
    beta: Arg[float] = default(1.0, "second parameter of the distribution, above 0"),
    key: Any,
) -> Sample:
    """Numbers in [0, 1] of the beta distribution."""
    dtype, extents = args.dtype or FLOAT, shape_of(args.shape, shape_like, key)
    if not isinstance(key.value, np.ndarray):
        check_parameters(alpha, beta)
        return beta_numbers(alpha, beta, extents, dtype, key)
    generator, size = seeds.KeyedGenerator(), len(key.value)
    both = [x.tolist() if isinstance(x, np.ndarray) else [x] * size for x in (alpha, beta)]
    for one, two in dict.fromkeys(zip(*both)):
        check_parameters(one, two)
    rows = []
    given = (extents,) if extents else ()  # without a shape NumPy needs a third of the time
    for one, two, state in zip(*both, seeds.generator_states(key.value), strict=True):
        rows.append(generator.rekey(state).beta(one, two, *given))
    return np.array(rows).astype(dtype)


def check_parameters(alpha: float, beta: float) -> None:
    """Raises an error if a number is not a parameter of the beta distribution."""
    for name, value in (("alpha", alpha), ("beta", beta)):
        if not value > 0:
            raise RuntimeError(f"{name} must be positive, got {value:g}")


def beta_numbers(alpha: float, beta: float, shape: tuple[int, ...], dtype: np.dtype, key: seeds.Key) -> np.ndarray:
    """Numbers of the beta distribution."""
    return np.asarray(key.borrowed().beta(alpha, beta, shape)).astype(dtype)


@beta.ready
def _(specs: tuple[Spec, ...], args: Any) -> Any:
    check_parameters(args.alpha, args.beta)
    extents, dtype, numbers = _extents_ready(specs, args), args.dtype or FLOAT, [args.alpha, args.beta]
    if extents:
        numbers.append(extents)
    generator = generator_ready()
    return lambda *inputs_and_key: np.array(generator(inputs_and_key[-1]).beta(*numbers), dtype)


beta.infer(_infer_as(FLOAT))


@beta.check
def _(args: Any) -> None:
    if args.dtype is not None and args.dtype.kind != "f":
        raise RuntimeError(f"dtype {args.dtype} is not supported; use FLOAT or FLOAT64")


@operator("batch_permutation", granularity="batch")
def batch_permutation(
    *,
    allow_repetitions: bool = default(False, "draw each number from all samples, so that some may come twice"),
    no_fixed_points: bool = default(False, "no sample gets its own number, unless it is the only one"),
    key: Any,
) -> Sample:
    """The numbers of the samples of the batch, or of the branch, in a random order: one number for each sample.

    With ``allow_repetitions`` each number is drawn from all numbers. With ``no_fixed_points`` no sample gets its own number,
    unless there is only one sample. The order depends on the first sample of the batch and on the number of samples.
    """
    size = len(key)
    first = seeds.Key(key[0].value ^ size)
    own = np.arange(size)
    if allow_repetitions:
        low = 1 if no_fixed_points and size > 1 else 0
        drawn = low + (first.units(size) * (size - low)).astype(np.int64)
        order = (own + drawn) % size
    else:
        start = 0
        order = np.argsort(first.units(size))
        while no_fixed_points and size > 1 and np.any(order == own):
            start += size  # a draw without fixed points has a chance of 1/e
            order = np.argsort(first.units(size, start))
    return order.astype(np.int32)


@batch_permutation.batch
def _(*, args: Args, batch: BatchCall) -> list[np.ndarray]:
    key = [seeds.Key(batch.keys[0])] * batch.size if batch.size else []
    return [
        batch_permutation.body(allow_repetitions=args.allow_repetitions, no_fixed_points=args.no_fixed_points, key=key)
    ]


@batch_permutation.batches
def _(keys: np.ndarray, args: Args) -> np.ndarray | None:
    if args.allow_repetitions or args.no_fixed_points:
        return None
    size = keys.shape[1]
    return np.argsort(seeds.units_of(seeds.bits(keys[:, 0] ^ np.uint64(size), size)), axis=1).astype(np.int32)


@batch_permutation.ready
def _(_specs: tuple[Spec, ...], _args: Any) -> Any:
    return lambda _key: np.zeros((), INT32)  # the only number of a batch of one


@batch_permutation.infer
def _(_specs: tuple[Spec, ...], _args: Any) -> Spec:
    return Spec((), INT32, "")


@batch_permutation.traits
def _(_args: Any) -> Traits:
    return Traits("batch", by_batch_size=True)
