"""Affine matrices: transforms.* make and combine them, coord_transform applies them to points.

Matrices are float32 of shape (n, n + 1) and act on columns: a new transform is applied after the given one, or before
it with ``reverse_order``. They are small, so they are computed in float64 on the CPU.
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
    Many,
    Sample,
    Spec,
    UnknownValue,
    default,
    operator,
    parameters,
    require,
    required,
)
from pipeflow.kernels import cpu as kernels
from pipeflow.operators.box_windows import LOADS
from pipeflow.operators.warp import turned

PAGE = """Matrices are float32 of shape (n, n + 1) and act on columns. A new transform is applied after the given one, or
before it with `reverse_order`.
"""


FLOAT, FLOAT64 = np.dtype(np.float32), np.dtype(np.float64)


def homogeneous(matrix: np.ndarray) -> np.ndarray:
    """The matrix with the last row (0, ..., 0, 1)."""
    if matrix.ndim != 2 or matrix.shape[1] != matrix.shape[0] + 1:
        raise ValueError(f"an affine matrix has shape (n, n + 1), got {matrix.shape}")
    return np.vstack([matrix.astype(np.float64), np.eye(matrix.shape[1])[-1]])


def combined(
    given: np.ndarray | None, linear: np.ndarray, center: Sequence[float] | None, offset: Any, reverse: bool
) -> np.ndarray:
    """The given transform with a new one: a linear part around a centre, then an offset."""
    ndim = len(linear)
    new = np.eye(ndim + 1)
    new[:ndim, :ndim] = linear
    new[:ndim, ndim] = offset
    if center is not None:
        middle = spread(center, ndim, "center")
        new[:ndim, ndim] += middle - linear @ middle
    if given is not None:
        matrix = homogeneous(given)
        if len(matrix) != len(new):
            raise ValueError(f"the transform has {ndim} dimensions, the given matrix {len(matrix) - 1}")
        new = matrix @ new if reverse else new @ matrix
    return new[:ndim].astype(np.float32)


def combined_many(many: Many, linear: np.ndarray, center: Any, offset: Any) -> tuple[np.ndarray]:
    """``combined`` for several samples: a matrix for each, or one for all, and rows for the centre and the offset."""
    ndim = linear.shape[-1]
    new = np.zeros((many.size, ndim + 1, ndim + 1))
    new[:, :ndim, :ndim] = linear
    new[:, ndim, ndim] = 1.0
    column = new[:, :ndim, ndim]
    if offset is not None:
        column[...] = offset
    if center is not None:
        middle = many.numbers("center", ndim)
        middle = middle if middle.shape[1] == ndim else np.repeat(middle, ndim, 1)
        column += middle - (linear @ middle[:, :, None])[:, :, 0]
    if many.inputs:
        given = homogeneous_many(many.stacked(0))
        require(given.shape[1] == ndim + 1)
        new = given @ new if many.args.reverse_order else new @ given
    out = many.empty((ndim, ndim + 1), FLOAT)
    out[...] = new[:, :ndim]
    return (out,)


def homogeneous_many(matrices: np.ndarray) -> np.ndarray:
    """``homogeneous`` for several matrices."""
    require(matrices.ndim == 3 and matrices.shape[2] == matrices.shape[1] + 1)
    size = matrices.shape[2]
    full = np.zeros((len(matrices), size, size))
    full[:, :-1] = matrices
    full[:, -1, -1] = 1.0
    return full


def diagonal(factors: np.ndarray, ndim: int) -> np.ndarray:
    """A diagonal matrix for each row of factors; one factor counts for all axes."""
    linear = np.zeros((len(factors), ndim, ndim))
    linear[:, range(ndim), range(ndim)] = factors
    return linear


def dimensions_of(many: Many, otherwise: int) -> int:
    """The number of dimensions: that of the given matrices, if there are some."""
    return many.stacked(0).shape[1] if many.inputs else otherwise


def width(many: Many, name: str) -> int:
    """The number of values of an argument, 0 if it is not given."""
    value = getattr(many.args, name)
    return 0 if value is None else value.shape[1] if name in many.varying else len(value)


def spread(values: Sequence[float], ndim: int, name: str) -> np.ndarray:
    """A number for each dimension."""
    if len(values) not in (1, ndim):
        raise ValueError(f"{name} has {len(values)} values for {ndim} dimensions")
    return np.array(list(values) * (ndim if len(values) == 1 else 1), np.float64)


def known_ndim(specs: tuple[Spec, ...], ndim: Any) -> Spec:
    """The Spec of a matrix: that of the input if there is one, else for this number of dimensions."""
    if specs and specs[0].shape is not UNKNOWN:
        return Spec(specs[0].shape, FLOAT, "**")
    return Spec((ndim, ndim + 1), FLOAT, "**")


REVERSE_ORDER = parameters(reverse_order=(bool, False, "apply the new transform before the given one; False: after it"))
CENTER = parameters(center=(Arg[Floats], None, "point that does not move; default: the origin"))


@operator(
    "transforms.translation",
    by_frame=True,
    takes=REVERSE_ORDER,
    examples=["fn.transforms.translation(offset=[2.0, 3.0])"],
)
def translation(
    matrix: Sample | None = None,
    /,
    *,
    args: Args,
    offset: Arg[Floats] = required("shift along each dimension; one number: the same for all"),
) -> Sample:
    """Moves by an offset."""
    ndim = len(offset) if matrix is None else len(matrix)
    return combined(matrix, np.eye(ndim), None, spread(offset, ndim, "offset"), args.reverse_order)


@translation.many
def _(many: Many) -> tuple[np.ndarray]:
    ndim = dimensions_of(many, width(many, "offset"))
    return combined_many(many, np.eye(ndim)[None], None, many.numbers("offset", ndim))


@translation.infer
def _(specs: tuple[Spec, ...], args: Any) -> Spec:
    return known_ndim(specs, len(args.offset))


@operator(
    "transforms.scale",
    by_frame=True,
    takes=CENTER | REVERSE_ORDER,
    examples=["fn.transforms.scale(scale=[2.0, 3.0], center=[5.0, 7.0])"],
)
def scale(
    matrix: Sample | None = None,
    /,
    *,
    args: Args,
    scale: Arg[Floats] = required("factor of each dimension; one number: the same for all"),
    ndim: int | None = default(None, "number of dimensions, if scale is one number; 0: not given"),
) -> Sample:
    """Scales along each dimension, about the origin or ``center``."""
    dims = _scale_ndim(matrix, scale, args.center, ndim)
    return combined(matrix, np.diag(spread(scale, dims, "scale")), args.center, 0.0, args.reverse_order)


def _scale_ndim(matrix: Any, scale: Sequence[float], center: Any, ndim: int | None) -> int:
    if ndim is not None and ndim > 0 and len(scale) < 2:
        return ndim
    if matrix is not None:
        return len(matrix)
    return max(len(scale), len(center or ()))


@scale.many
def _(many: Many) -> tuple[np.ndarray]:
    factors, ndim = many.numbers("scale"), many.args.ndim
    if ndim is None or ndim <= 0 or factors.shape[1] > 1:
        ndim = dimensions_of(many, max(factors.shape[1], width(many, "center")))
    require(factors.shape[1] in (1, ndim))
    return combined_many(many, diagonal(factors, ndim), many.args.center, None)


@scale.infer
def _(specs: tuple[Spec, ...], args: Any) -> Spec:
    return known_ndim(specs, _scale_ndim(None, args.scale, args.center, args.ndim))


@operator(
    "transforms.rotation",
    by_frame=True,
    takes=CENTER | REVERSE_ORDER,
    examples=["fn.transforms.rotation(angle=30.0)", "fn.transforms.rotation(angle=30.0, axis=(0, 0, 1))"],
)
def rotation(
    matrix: Sample | None = None,
    /,
    *,
    args: Args,
    angle: Arg[float] = required("angle in degrees, counter-clockwise"),
    axis: Arg[Floats] = default(None, "axis (x, y, z) of a rotation in space; default: a rotation in the plane"),
) -> Sample:
    """Turns by an angle in degrees: in the plane, or in space around ``axis``."""
    if axis:
        if len(axis) != 3 or not any(axis):
            raise ValueError(f"axis must be three numbers, not all 0, got {axis}")
        linear = turned(axis, angle)
    else:
        cos, sin = math.cos(math.radians(angle)), math.sin(math.radians(angle))
        linear = np.array([[cos, -sin], [sin, cos]])
    return combined(matrix, linear, args.center, 0.0, args.reverse_order)


@rotation.many
def _(many: Many) -> tuple[np.ndarray]:
    require(not width(many, "axis"))
    angles = np.radians(many.each("angle")).tolist()
    # math and not NumPy, as in the body: NumPy's functions may differ in the last bit
    cos, sin = [math.cos(angle) for angle in angles], [math.sin(angle) for angle in angles]
    linear = np.empty((many.size, 2, 2))
    linear[:, 0, 0] = linear[:, 1, 1] = cos
    linear[:, 1, 0] = sin
    linear[:, 0, 1] = -linear[:, 1, 0]
    return combined_many(many, linear, many.args.center, None)


@rotation.infer
def _(specs: tuple[Spec, ...], args: Any) -> Spec:
    return known_ndim(specs, 3 if args.axis else 2)


@operator(
    "transforms.shear", by_frame=True, takes=CENTER | REVERSE_ORDER, examples=["fn.transforms.shear(shear=[0.5, 0.25])"]
)
def shear(
    matrix: Sample | None = None,
    /,
    *,
    args: Args,
    shear: Arg[Floats] = default(None, "factors: (xy, yx), or in space (xy, xz, yx, yz, zx, zy)"),
    angles: Arg[Floats] = default(None, "angles in degrees, instead of the factors and in their order"),
) -> Sample:
    """Shears by factors or by angles in degrees: (xy, yx), or in space (xy, xz, yx, yz, zx, zy)."""
    factors = shear if angles is None else [math.tan(math.radians(angle)) for angle in angles]
    if factors is None or (shear is not None and angles is not None):
        raise ValueError("give either shear or angles")
    if len(factors) not in (2, 6):
        raise ValueError(f"shear and angles have 2 values, or 6 in space, got {len(factors)}")
    ndim = 2 if len(factors) == 2 else 3
    linear = np.eye(ndim)
    linear[~np.eye(ndim, dtype=bool)] = factors
    return combined(matrix, linear, args.center, 0.0, args.reverse_order)


@shear.many
def _(many: Many) -> tuple[np.ndarray]:
    require((many.args.shear is None) != (many.args.angles is None))
    if many.args.angles is None:
        factors = many.numbers("shear")
    else:
        angles = np.radians(many.numbers("angles"))
        factors = np.array([math.tan(angle) for angle in angles.ravel().tolist()]).reshape(angles.shape)
    require(factors.shape[1] in (2, 6))
    ndim = 2 if factors.shape[1] == 2 else 3
    linear = np.zeros((len(factors), ndim, ndim))
    linear[:] = np.eye(ndim)
    linear[:, ~np.eye(ndim, dtype=bool)] = factors
    return combined_many(many, linear, many.args.center, None)


@shear.infer
def _(specs: tuple[Spec, ...], args: Any) -> Spec:
    return known_ndim(specs, 2 if len(args.shear or args.angles or ()) == 2 else 3)


@operator(
    "transforms.crop",
    by_frame=True,
    takes=REVERSE_ORDER,
    examples=["fn.transforms.crop(to_start=[0.2, 0.3], to_end=[0.8, 0.5])"],
)
def crop(
    matrix: Sample | None = None,
    /,
    *,
    args: Args,
    from_start: Arg[Floats] = default((0.0,), "one corner of the box that is mapped"),
    from_end: Arg[Floats] = default((1.0,), "the opposite corner of that box"),
    to_start: Arg[Floats] = default((0.0,), "position of the first corner after the mapping"),
    to_end: Arg[Floats] = default((1.0,), "position of the opposite corner after the mapping"),
    absolute: bool = default(False, "exchange bounds that are in the wrong order; False: they mirror"),
) -> Sample:
    """Maps the box from ``from_start`` to ``from_end`` onto the box from ``to_start`` to ``to_end``.

    With ``absolute``, bounds given in the wrong order are exchanged instead of mirroring.
    """
    given = {"from_start": from_start, "from_end": from_end, "to_start": to_start, "to_end": to_end}
    ndim = max(map(len, given.values())) if matrix is None else len(matrix)
    low, high, to_low, to_high = (spread(values, ndim, name) for name, values in given.items())
    if absolute:
        low, high = np.minimum(low, high), np.maximum(low, high)
        to_low, to_high = np.minimum(to_low, to_high), np.maximum(to_low, to_high)
    if not (high - low).all():
        raise ValueError(f"the box from {from_start} to {from_end} is empty")
    factors = (to_high - to_low) / (high - low)
    return combined(matrix, np.diag(factors), None, to_low - factors * low, args.reverse_order)


@crop.many
def _(many: Many) -> tuple[np.ndarray]:
    names = ("from_start", "from_end", "to_start", "to_end")
    ndim = dimensions_of(many, max(width(many, name) for name in names))
    low, high, to_low, to_high = (many.numbers(name, ndim) for name in names)
    if many.args.absolute:
        low, high = np.minimum(low, high), np.maximum(low, high)
        to_low, to_high = np.minimum(to_low, to_high), np.maximum(to_low, to_high)
    extents = high - low
    require(extents.all())
    factors = (to_high - to_low) / extents
    return combined_many(many, diagonal(factors, ndim), None, to_low - factors * low)


@crop.infer
def _(specs: tuple[Spec, ...], args: Any) -> Spec:
    return known_ndim(specs, max(map(len, (args.from_start, args.from_end, args.to_start, args.to_end))))


@operator("transforms.combine", by_frame=True, examples=["fn.transforms.combine(matrix, matrix)"])
def combine(*matrices: Sample, reverse_order: bool = default(False, "apply the first transform last")) -> Sample:
    """Combines transforms into one: the first is applied first, or last with ``reverse_order``."""
    result = homogeneous(matrices[0])
    for matrix in matrices[1:]:
        if matrix.shape != matrices[0].shape:
            raise ValueError(f"all transforms must have the same shape, got {matrices[0].shape} and {matrix.shape}")
        result = result @ homogeneous(matrix) if reverse_order else homogeneous(matrix) @ result
    return result[:-1].astype(np.float32)


@combine.ready
def _(specs: tuple[Spec, ...], args: Any) -> Any:
    shape = specs[0].shape
    if len(specs) != 2 or len(shape) != 2 or shape[1] != shape[0] + 1 or specs[1].shape != shape:
        return None
    back, last, single = args.reverse_order, np.zeros(shape[1]), np.dtype(np.float32)
    last[-1] = 1.0
    square, rows = np.vstack([np.empty(shape), last]), shape[0]

    def run(one: np.ndarray, two: np.ndarray) -> np.ndarray:
        first, second = square.copy(), square.copy()
        first[:rows], second[:rows] = one, two
        return (first @ second if back else second @ first)[:rows].astype(single)

    return run


@combine.many
def _(many: Many) -> tuple[np.ndarray]:
    matrices = [homogeneous_many(many.stacked(place)) for place in range(len(many.inputs))]
    result = matrices[0]
    for matrix in matrices[1:]:
        require(matrix.shape == result.shape)
        result = result @ matrix if many.args.reverse_order else matrix @ result
    out = many.empty((result.shape[1] - 1, result.shape[2]), FLOAT)
    out[...] = result[:, :-1]
    return (out,)


@combine.infer
def _(specs: tuple[Spec, ...], _args: Any) -> Spec:
    return Spec(specs[0].shape, FLOAT, "**")


# ----------------------------------------------------------------------------------------------------
# coord_transform


@operator(
    "coord_transform",
    compiled=True,
    by_frame=True,
    gpu=True,
    examples=["fn.coord_transform(points, MT=matrix)", "fn.coord_transform(points, M=(2.0,), T=(1.0, 3.0))"],
)
def coord_transform(
    points: Sample,
    /,
    *,
    M: Arg[Any] = default(None, "matrix, row by row; one number: a uniform scale"),
    T: Arg[Any] = default(None, "value added to each coordinate; one number: the same for all"),
    MT: Arg[Any] = default(None, "matrix and translation in one, the translation in the last column"),
    dtype: DType = default(FLOAT, "type of the result"),
) -> Sample:
    """Applies a matrix and a translation to points: the last axis holds the coordinates.

    ``MT`` has both, the translation in its last column. A single number is the same scale or offset for all coordinates.
    """
    size = points.shape[-1] if points.ndim else 1
    linear, offset = linear_and_offset(M, T, MT, size)
    if np.ndim(linear) == 0:
        return scaled(points, linear, offset, dtype)
    if not points.ndim:
        raise ValueError("one number is not a point: the last axis of points has the coordinates")
    return mapped_rows(points, np.array([0, math.prod(points.shape[:-1])]), linear[None], offset, dtype)


def scaled(values: np.ndarray, factor: float, offset: Any, dtype: np.dtype) -> np.ndarray:
    """Points times one factor; then the offset is added."""
    result = kernels.casting.as_type(values, FLOAT64) * factor + offset
    return kernels.casting.as_type(np.asarray(result, order="C"), dtype)


@coord_transform.ready
def _(specs: tuple[Spec, ...], args: Any) -> Any:
    shape, dtype = specs[0].shape, specs[0].dtype
    if not shape:
        return None
    linear, offset = linear_and_offset(args.M, args.T, args.MT, shape[-1])
    if dtype != args.dtype or dtype not in (FLOAT, np.float64):
        return None
    if not np.ndim(linear):
        numbers = float(linear), np.array(np.broadcast_to(offset, (shape[-1],)), np.float64)
        filled = kernels.jit.over_elements(kernels.boxes.scale_rows, dtype, numbers, dtype)
        return lambda points: filled(points, np.empty(shape, dtype))
    count, size = len(linear), shape[-1]
    ends, extents = np.array([0, math.prod(shape[:-1])]), (*shape[:-1], count)
    rows = np.ascontiguousarray(linear, np.float64)[None]
    each = np.array(np.broadcast_to(offset, (1, count)), np.float64)
    given, made = np.empty((1, 1), dtype), np.empty((1, 1), args.dtype)
    compute = kernels.jit.machine_code(kernels.boxes.map_rows, given, ends, rows, each, made)
    if len(shape) == 2:

        def short(points: np.ndarray) -> np.ndarray:
            out = np.empty(extents, dtype)
            compute(np.ascontiguousarray(points), ends, rows, each, out)
            return out

        return short

    def run(points: np.ndarray) -> np.ndarray:
        out = np.empty(extents, dtype)
        compute(points.ravel().reshape(ends[1], size), ends, rows, each, out.reshape(ends[1], count))
        return out

    return run


def mapped_rows(values: np.ndarray, ends: np.ndarray, linear: np.ndarray, offset: Any, dtype: np.dtype) -> np.ndarray:
    """Points of samples through the matrix of each sample, or the only one; then the offset is added."""
    count, size = linear.shape[1:]
    at_once = values.dtype == dtype == FLOAT  # the kernel converts the numbers
    points = values if at_once else kernels.casting.as_type(values, FLOAT64)
    each = np.empty((len(linear), count))
    each[...] = offset
    flat = points.reshape(math.prod(points.shape[:-1]), size)
    result = kernels.boxes.mapped_rows(flat, ends, linear, each, points.dtype)
    return kernels.casting.as_type(result, dtype).reshape(*values.shape[:-1], count)


@coord_transform.many
def _(many: Many) -> tuple[Any]:
    points, args = many.joined(0, 2), many.args
    size, varying = points.values.shape[1], [name for name in ARGUMENTS if name in many.varying]
    if not varying:
        linear, offset = linear_and_offset(args.M, args.T, args.MT, size)
    else:
        each = []
        for i in range(many.size):
            M, T, MT = (getattr(args, name)[i] if name in varying else getattr(args, name) for name in ARGUMENTS)
            each.append(linear_and_offset(M, T, MT, size))
        require(all(np.ndim(linear) == 2 for linear, _ in each))
        linear, offset = np.array([one for one, _ in each]), np.array([np.broadcast_to(x, len(one)) for one, x in each])
    if np.ndim(linear) == 0:
        found = scaled(points.values, linear, offset, args.dtype)
    else:
        matrices = linear if np.ndim(linear) == 3 else linear[None]
        found = mapped_rows(points.values, points.ends, matrices, offset, args.dtype)
    if isinstance(many.inputs[0], np.ndarray):
        return (found.reshape(many.size, -1, found.shape[1]),)
    return (points.divided(found),)


ARGUMENTS = ("M", "T", "MT")


def linear_and_offset(M: Any, T: Any, MT: Any, size: int) -> tuple[Any, Any]:
    """The matrix, or one factor for all coordinates, and the offset."""
    if MT is not None:
        if M is not None or T is not None:
            raise ValueError("MT excludes M and T: give one or the other")
        both = np.asarray(MT, np.float64)
        if both.size == 1:
            return float(both.reshape(-1)[0]), 0.0
        if both.size % (size + 1):
            raise ValueError(f"MT has {both.size} values; points of {size} coordinates need rows of {size + 1}")
        both = both.reshape(-1, size + 1)
        return both[:, :-1], both[:, -1]
    linear: Any = 1.0
    if M is not None:
        linear = np.asarray(M, np.float64)
        if linear.size == 1:
            linear = float(linear.reshape(-1)[0])
        elif linear.size % size:
            raise ValueError(f"M has {linear.size} values; points of {size} coordinates need rows of {size}")
        else:
            linear = linear.reshape(-1, size)
    offset: Any = 0.0 if T is None else np.asarray(T, np.float64).reshape(-1)
    extent = size if np.ndim(linear) == 0 else len(linear)
    if np.size(offset) not in (1, extent):
        raise ValueError(f"T has {np.size(offset)} values for {extent} output coordinates")
    return linear, offset


coord_transform.many_loads = LOADS


@coord_transform.infer
def _(specs: tuple[Spec, ...], args: Any) -> Spec:
    shape = specs[0].shape
    if not shape:
        return Spec(shape, args.dtype, specs[0].layout)
    try:
        linear, _ = linear_and_offset(args.M, args.T, args.MT, int(shape[-1]))
        extent = shape[-1] if np.ndim(linear) == 0 else len(linear)
    except UnknownValue:
        extent = UNKNOWN
    return Spec((*shape[:-1], extent), args.dtype, specs[0].layout)


@operator(
    "transforms.perspective",
    by_frame=True,
    examples=["fn.transforms.perspective(source=[0, 0, 9, 0, 9, 9, 0, 9], target=[1, 0, 8, 1, 9, 9, 0, 7])"],
)
def perspective(
    *,
    source: Arg[Floats] = required("four points, x and y of each: eight numbers"),
    target: Arg[Floats] = required("positions of these points after the mapping"),
) -> Sample:
    """The 3 x 3 matrix that takes four points to four others; for `fn.warp_perspective(..., inverse_map=False)`."""
    ends = []
    for name, values in (("source", source), ("target", target)):
        points = np.array(values, np.float64).reshape(-1)
        if points.size != 8:
            raise ValueError(f"{name} must be four points, eight numbers, got {points.size}")
        ends.append(points.reshape(4, 2))
    rows = []
    for (x, y), (u, v) in zip(*ends, strict=True):
        rows.append([x, y, 1, 0, 0, 0, -u * x, -u * y])
        rows.append([0, 0, 0, x, y, 1, -v * x, -v * y])
    try:
        solved = np.linalg.solve(np.array(rows), ends[1].reshape(-1))
    except np.linalg.LinAlgError:
        raise ValueError(
            f"no matrix takes the points {ends[0].tolist()} to {ends[1].tolist()}: three are on a line"
        ) from None
    return np.append(solved, 1).reshape(3, 3).astype(np.float32)


@perspective.infer
def _(_specs: tuple[Spec, ...], _args: Any) -> Spec:
    return Spec((3, 3), FLOAT, "")
