"""Turning and warping images by a matrix: rotate, warp_affine."""

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from pipeflow.declare import (
    DTYPE,
    FORMER_DTYPE,
    Arg,
    Args,
    Floats,
    KernelCalls,
    OfSample,
    Out,
    Sample,
    Spec,
    default,
    operator,
    parameters,
    required,
)
from pipeflow.kernels import cpu as kernels
from pipeflow.operators.warp_calls import fast_image, matrix_of, turn_image, warped, whole_extents
from pipeflow.operators.windows import half_up
from pipeflow.types import INTERP_LINEAR, INTERP_NN, DALIInterpType

PAGE = """Operators that turn images, or move their pixels by a matrix."""


def grown(extents: Sequence[int], angle: float, axis: Any) -> tuple[list[int], list[int]]:
    """The least extents that contain the turned image or volume, and the old extents in the order of the new axes.

    A new axis is like the old axis that is nearest to its direction.
    """
    if len(extents) == 2:
        height, width = extents
        radians = float(np.float32(angle) * np.float32(math.pi / 180))  # float32 as in DALI: it decides at 45 degrees
        cos, sin = abs(math.cos(radians)), abs(math.sin(radians))
        least = [math.ceil(cos * height + sin * width - 0.01), math.ceil(cos * width + sin * height - 0.01)]
        return least, [height, width] if sin <= cos else [width, height]
    turn = np.abs(turned(axis, angle))
    exact = turn @ np.array(extents[::-1], float)
    nearest = [extents[::-1][int(np.argmax(row))] for row in turn]
    return [math.ceil(extent - 0.01) for extent in exact][::-1], nearest[::-1]


def canvas(extents: Sequence[int], angle: float, axis: Any = None) -> list[int]:
    """The extents that contain the turned image or volume: even extents stay even and odd ones odd, so that the centre does
    not move.
    """
    return [least + (least - old) % 2 for least, old in zip(*grown(extents, angle, axis), strict=True)]


def canvases(extents: np.ndarray, angles: np.ndarray) -> np.ndarray:
    """``canvas`` for several images: a row of height and width for each."""
    radians = (angles.astype(np.float32) * np.float32(math.pi / 180)).astype(np.float64).tolist()
    cos, sin = np.abs([math.cos(angle) for angle in radians]), np.abs([math.sin(angle) for angle in radians])
    height, width = extents[:, 0], extents[:, 1]
    found = np.empty((len(angles), 2), np.int64)
    upright = sin <= cos
    for axis, (own, other) in enumerate(((height, width), (width, height))):
        least = np.ceil(cos * own + sin * other - 0.01).astype(np.int64)
        found[:, axis] = least + (least - np.where(upright, own, other)) % 2
    return found


def turned(axis: Sequence[float], angle: float) -> np.ndarray:
    """Rotation by an angle in degrees around an axis (x, y, z)."""
    x, y, z = np.asarray(axis, float) / np.linalg.norm(axis)
    a = math.radians(angle)
    cross = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    return np.eye(3) + math.sin(a) * cross + (1 - math.cos(a)) * cross @ cross


WARP = parameters(
    fill_value=(float, None, "value outside the image; default: that of the nearest border pixel"),
    interp_type=(DALIInterpType, INTERP_LINEAR, "filter: INTERP_LINEAR or INTERP_NN"),
)
WARP_SIZE = parameters(
    size=(Arg[Floats], None, "extents of the result in the order of the layout; default: those of the input")
)


def given_size(size: Sequence[float] | None, ndim: int) -> list[int] | None:
    """The requested extents in pixels."""
    if not size:
        return None
    if len(size) != ndim:
        raise ValueError(f"size has {len(size)} values for an output of {ndim} spatial axes")
    each = isinstance(size, OfSample)
    extents = [int(extent) if each else max(1, half_up(extent)) for extent in size]
    if min(size) < 0 or not (each or min(size)):
        raise ValueError(f"Output size must be positive, got {tuple(size)}")
    return extents


@lru_cache(maxsize=64)
def border(fill_value: float | None, dtype: np.dtype) -> float | None:
    """The value outside the image, in the type of the image."""
    if fill_value is None or dtype.kind not in "iu":
        return fill_value
    return float(kernels.casting.as_type(np.array([fill_value]), dtype)[0])


def frame_extents(spec: Spec, args: Any) -> tuple[list[int], list[int]]:
    """The least extents of the canvas of a frame, and those it has alone."""
    own = rotated_extents(spec.shape[:-1], args.angle, args.axis, args.size, args.keep_size)
    return own if args.size or args.keep_size else grown(spec.shape[:-1], args.angle, args.axis)[0], own


@operator(
    "rotate",
    compiled=True,
    takes=WARP | DTYPE,
    layouts="HWC FHWC DHWC FDHWC",
    sequences=True,
    frames_share=("size", frame_extents),
    gpu=True,
    former=FORMER_DTYPE,
    examples=["fn.rotate(image, angle=30.0)"],
)
def rotate(
    image: Sample,
    /,
    *,
    args: Args,
    angle: Arg[float] = required("angle in degrees, counter-clockwise"),
    axis: Arg[Floats] = default(None, "axis (x, y, z) of the rotation, for volumes"),
    size: Arg[Floats] = default(None, "extents of the result in the order of the layout"),
    keep_size: bool = default(False, "keep the extents of the input; False: the canvas contains the turned image"),
    out: Out,
) -> Sample:
    """Turns the image counter-clockwise by an angle in degrees; volumes around ``axis`` (x, y, z).

    The canvas contains the whole turned image unless ``keep_size`` or ``size`` is given. Without a ``fill_value``,
    pixels outside the image are those of the nearest border.
    """
    extents = rotated_extents(image.shape[:-1], angle, axis, size, keep_size)
    if callable(out):
        out = out((*extents, image.shape[-1]), args.dtype or image.dtype)
    if not image.size:
        raise ValueError(f"the image has no pixels: shape {image.shape}")
    matrix = _rotation(image.shape, tuple(extents), angle, axis)
    return kernels.warp.warp(image, matrix, border(args.fill_value, image.dtype), args.interp_type == INTERP_NN, out)


@rotate.calls
def _(calls: KernelCalls) -> None:
    args = calls.args
    extents = whole_extents(args.size, given_size)
    turn_image(
        calls, extents, args.keep_size, border(args.fill_value, calls.input.dtype), args.interp_type == INTERP_NN
    )


rotate.varying("angle")
rotate.loads(lambda _args, _dtype: kernels.later.load_if_waiting(kernels.warp_programs.turning()))


@rotate.ready
def _(specs: tuple[Spec, ...], args: Any) -> Any:
    shape = specs[0].shape
    extents = rotated_extents(shape[:-1], args.angle, args.axis, args.size, args.keep_size)
    return _warping(specs, args, rotation(shape, extents, args.angle, args.axis), extents)


def _warping(specs: tuple[Spec, ...], args: Any, matrix: np.ndarray, extents: Sequence[int]) -> Any:
    """The short form of a warp of images by this matrix."""
    shape, dtype = specs[0].shape, specs[0].dtype
    if specs[0].layout != "HWC" or 0 in shape or args.dtype not in (None, dtype):
        return None
    fill = border(args.fill_value, dtype)
    return kernels.warp.warping(shape, dtype, matrix, fill, args.interp_type == INTERP_NN, extents[1])


def rotation(shape: Sequence[int], extents: Sequence[int], angle: float, axis: Any) -> np.ndarray:
    """The matrix from positions of the canvas to positions of an image of this shape."""
    if len(extents) == 2:
        cos, sin = math.cos(math.radians(angle)), math.sin(math.radians(angle))
        height, width, *_ = shape
        x, y = extents[1] / 2, extents[0] / 2
        return np.array([[cos, -sin, width / 2 - (cos * x - sin * y)], [sin, cos, height / 2 - (sin * x + cos * y)]])
    turn = turned(axis or (), angle).T
    centre = np.array(shape[:-1][::-1]) / 2
    return np.column_stack([turn, centre - turn @ (np.array(extents[::-1]) / 2)])


_rotation = lru_cache(maxsize=1024)(rotation)


def rotated_extents(extents: Sequence[int], angle: float, axis: Any, size: Any, keep_size: bool) -> list[int]:
    """The extents of the canvas."""
    ndim = len(extents)
    if ndim == 3 and (axis is None or len(axis) != 3 or not any(axis)):
        raise ValueError(f"rotating a volume needs axis=(x, y, z), got {axis}")
    chosen = given_size(size, ndim)
    if chosen is not None:
        return chosen
    if keep_size:
        return list(extents)
    return canvas(extents, angle, axis)


@rotate.infer
def _(specs: tuple[Spec, ...], args: Any) -> Spec:
    spec = specs[0]
    dtype = args.dtype or spec.dtype
    if args.keep_size and not args.size:
        return Spec(spec.shape, dtype, spec.layout)
    extents = given_size(args.size, len(spec.shape) - 1)
    if extents is None:
        extents = rotated_extents(spec.shape[:-1], args.angle, args.axis, None, False)
    return Spec((*extents, spec.shape[-1]), dtype, spec.layout)


@operator(
    "warp_affine",
    compiled=True,
    takes=WARP_SIZE | WARP | DTYPE,
    layouts="HWC FHWC DHWC FDHWC",
    sequences=True,
    gpu=True,
    former=FORMER_DTYPE,
    examples=[
        "fn.warp_affine(image, matrix=(1.0, 0.2, 3.0, -0.1, 0.9, 1.0))",
        "fn.warp_affine(image, matrix, size=(30, 30))",
    ],
)
def warp_affine(
    image: Sample,
    matrix_input: Sample | None = None,
    /,
    *,
    args: Args,
    matrix: Arg[Floats] = default(
        (), "matrix, row by row: from positions of the result to positions of the image, x first"
    ),
    inverse_map: bool = default(True, "the matrix maps the result to the image; False: the image to the result"),
    out: Out,
) -> Sample:
    """Warps the image by an affine matrix, given row by row or as the second input.

    The matrix maps output to input coordinates, x first; with ``inverse_map=False`` it maps input to output. Pixel
    centres are at half coordinates. Without a ``fill_value``, pixels outside the image are those of the nearest border.
    """
    values = warp_matrix(image.ndim - 1, matrix if matrix_input is None else matrix_input, inverse_map)
    if not image.size:
        raise ValueError(f"the image has no pixels: shape {image.shape}")
    return kernels.warp.warp(image, values, border(args.fill_value, image.dtype), args.interp_type == INTERP_NN, out)


@warp_affine.calls
def _(calls: KernelCalls) -> None:
    args, image = calls.args, fast_image(calls, calls.args.dtype)
    extents = whole_extents(args.size, given_size) or image.extents[:2]
    matrix = matrix_of(calls, 6, lambda numbers: warp_matrix(2, numbers, args.inverse_map), args.inverse_map)
    fill = border(args.fill_value, image.dtype)
    warped(calls, matrix.reshaped(2, 3), extents, fill, args.interp_type == INTERP_NN)


warp_affine.varying("matrix")


@warp_affine.ready
def _(specs: tuple[Spec, ...], args: Any) -> Any:
    if len(specs) > 1:
        return None
    matrix = warp_matrix(len(specs[0].shape) - 1, args.matrix, args.inverse_map)
    return _warping(specs, args, matrix, given_size(args.size, len(specs[0].shape) - 1) or specs[0].shape[:-1])


def warp_matrix(ndim: int, matrix: Any, inverse_map: bool) -> np.ndarray:
    """The matrix from output to input coordinates."""
    values = np.asarray(matrix, float)
    if not values.size:
        values = np.eye(ndim, ndim + 1)
    if values.size != ndim * (ndim + 1):
        raise ValueError(f"the matrix must have {ndim} x {ndim + 1} values, got shape {values.shape}")
    values = values.reshape(ndim, ndim + 1)
    if inverse_map:
        return values
    try:
        return np.linalg.inv(np.vstack([values, np.eye(ndim + 1)[-1]]))[:ndim]
    except np.linalg.LinAlgError:
        raise ValueError(f"the matrix cannot be inverted: {values.tolist()}") from None


@warp_affine.infer
def _(specs: tuple[Spec, ...], args: Any) -> Spec:
    spec = specs[0]
    extents = given_size(args.size, len(spec.shape) - 1) or spec.shape[:-1]
    return Spec((*extents, spec.shape[-1]), args.dtype or spec.dtype, spec.layout)


def check_interpolation(args: Any) -> None:
    """Raises an error unless the interpolation is one of the two of warps."""
    if args.interp_type not in (INTERP_NN, INTERP_LINEAR):
        raise ValueError(f"interp_type must be INTERP_NN or INTERP_LINEAR, got {args.interp_type!r}")


rotate.check(check_interpolation)
warp_affine.check(check_interpolation)
