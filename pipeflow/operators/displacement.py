"""Operators that take each pixel from another position of the image: warp_perspective, remap, water, sphere, jitter."""

import math
from collections.abc import Sequence
from operator import index
from typing import Any

import numpy as np

from pipeflow.declare import (
    UNKNOWN,
    Arg,
    Args,
    Floats,
    KernelCalls,
    OpFunction,
    Out,
    Sample,
    Spec,
    alias,
    default,
    operator,
    parameters,
)
from pipeflow.kernels import cpu as kernels
from pipeflow.operators.axes import some_pixels, spatial
from pipeflow.operators.warp import given_size
from pipeflow.operators.warp_calls import fast_image, matrix_of, perspective, whole_extents
from pipeflow.types import INTERP_CUBIC, INTERP_LINEAR, INTERP_NN, DALIInterpType

PAGE = """These operators take each pixel of the result from another position of the image."""


# DALI's border modes, in the numbers of the kernels.
BORDERS = {"constant": 0, "replicate": 1, "reflect": 2, "reflect_101": 3, "wrap": 4}
INTERPOLATIONS = {INTERP_NN: 0, INTERP_LINEAR: 1, INTERP_CUBIC: 2}
ORIGINS = {"corner": 0.5, "center": 0.0}
NAMES = {INTERP_NN: "INTERP_NN", INTERP_LINEAR: "INTERP_LINEAR", INTERP_CUBIC: "INTERP_CUBIC"}


def fill_of(values: Sequence[float], channels: int) -> np.ndarray:
    """One fill value for each channel."""
    if len(values) > 1 and len(values) != channels:
        raise ValueError(f"fill_value has {len(values)} values, the image has {channels} channels")
    return np.array(tuple(values) * channels if len(values) == 1 else tuple(values) or (0.0,) * channels, np.float64)


def interpolations(op: OpFunction, name: str, *allowed: DALIInterpType) -> None:
    """Raises an error unless the interpolation is one of these."""

    @op.check
    def _(args: Any) -> None:
        if getattr(args, name) not in allowed:
            names = " or ".join(NAMES[one] for one in allowed)
            raise ValueError(f"{name} must be {names}, got {getattr(args, name)!r}")


PIXEL_ORIGIN = parameters(
    pixel_origin=(str, "corner", "position of (0, 0): the `corner` of the first pixel or, as in OpenCV, its `center`")
)


# ----------------------------------------------------------------------------------------------------
# warp_perspective


def perspective_matrix(values: Any, inverse_map: bool) -> np.ndarray:
    """The nine numbers from output to input coordinates."""
    matrix = np.asarray(values, np.float64).ravel()
    if matrix.size != 9:
        raise ValueError(f"the matrix must have 3 x 3 values, got {matrix.size}")
    if inverse_map:
        return matrix
    a, b, c, d, e, f, g, h, i = matrix.tolist()  # a tenth of the time of numpy.linalg.inv
    first, second, third = e * i - f * h, f * g - d * i, d * h - e * g
    size = a * first + b * second + c * third
    if not size:
        raise ValueError(f"the matrix cannot be inverted: {matrix.reshape(3, 3).tolist()}")
    rows = (
        first,
        c * h - b * i,
        b * f - c * e,
        second,
        a * i - c * g,
        c * d - a * f,
        third,
        b * g - a * h,
        a * e - b * d,
    )
    return np.array(rows) / size


@operator(
    "warp_perspective",
    compiled=True,
    takes=PIXEL_ORIGIN,
    layouts="HWC HW CHW FHWC FHW FCHW",
    sequences=True,
    gpu=True,
    examples=["fn.warp_perspective(image, matrix=(0.9, 0.2, 3.0, -0.1, 1.1, 2.0, 0.001, 0.002, 1.0), fill_value=7.0)"],
)
def warp_perspective(
    image: Sample,
    matrix_input: Sample | None = None,
    /,
    *,
    matrix: Arg[Floats] = default((), "the nine numbers row by row; the matrix maps positions (x, y, 1)"),
    size: Arg[Floats] = default((), "height and width of the output; those of the input by default"),
    inverse_map: bool = default(
        True, "the matrix maps positions of the output to positions of the input; False: the other way round"
    ),
    border_mode: str = default(
        "constant",
        "values outside the image: `constant` (the fill value), `replicate`, `reflect`, `reflect_101` or `wrap`",
    ),
    fill_value: Floats = default((), "the value outside, one or one a channel; 0 by default"),
    interp_type: DALIInterpType = default(INTERP_LINEAR, "interpolation: INTERP_NN, INTERP_LINEAR or INTERP_CUBIC"),
    args: Args,
    out: Out,
    layouts: Any,
) -> Sample:
    """Warps the image by a projective matrix of 3 x 3 numbers, given as an argument or as the second input."""
    del size
    some_pixels(image.shape)
    numbers = perspective_matrix(matrix if matrix_input is None else matrix_input, inverse_map)
    options = ORIGINS[args.pixel_origin], BORDERS[border_mode]
    layout = layouts[0]
    fill = fill_of(fill_value, image.shape[layout.index("C")] if "C" in layout else 1)
    planes = [(image, out, fill)] if layout == "HWC" else [(image[..., None], out[..., None], fill)]
    if layout == "CHW":
        planes = [
            (x[..., None], y[..., None], fill[k : k + 1]) for k, (x, y) in enumerate(zip(image, out, strict=True))
        ]
    for source, target, values in planes:
        kernels.displacement.perspective(source, numbers, *options, values, INTERPOLATIONS[interp_type], target)
    return out


@warp_perspective.calls
def _(calls: KernelCalls) -> None:
    args, image = calls.args, fast_image(calls, None)
    calls.require(args.interp_type != INTERP_NN)
    extents = whole_extents(args.size, given_size) or image.extents[:2]
    matrix = matrix_of(calls, 9, lambda numbers: perspective_matrix(numbers, args.inverse_map), args.inverse_map)
    options = ORIGINS[args.pixel_origin], BORDERS[args.border_mode], fill_of(args.fill_value, index(image.extents[2]))
    perspective(calls, matrix, extents, args.interp_type == INTERP_CUBIC, options)


warp_perspective.varying("matrix")


@warp_perspective.ready
def _(specs: tuple[Spec, ...], args: Any) -> Any:
    shape, dtype = specs[0].shape, specs[0].dtype
    if specs[0].layout != "HWC" or 0 in shape:
        return None
    fill = fill_of(args.fill_value, shape[2])
    options = ORIGINS[args.pixel_origin], BORDERS[args.border_mode], fill, INTERPOLATIONS[args.interp_type]
    warp = kernels.displacement.perspective_again(dtype, *options)
    if warp is None:
        return None
    if len(specs) > 1:
        return lambda image, matrix, out: warp(image, perspective_matrix(matrix, args.inverse_map), out)
    numbers = perspective_matrix(args.matrix, args.inverse_map)
    return lambda image, out: warp(image, numbers, out)


@warp_perspective.check
def _(args: Any) -> None:
    if args.pixel_origin not in ORIGINS:
        raise ValueError(f"pixel_origin must be 'corner' or 'center', got {args.pixel_origin!r}")
    if args.border_mode not in BORDERS:
        raise ValueError(f"border_mode must be one of {', '.join(BORDERS)}, got {args.border_mode!r}")
    if args.interp_type not in INTERPOLATIONS:
        raise ValueError(f"interp_type must be INTERP_NN, INTERP_LINEAR or INTERP_CUBIC, got {args.interp_type!r}")


@warp_perspective.infer
def _(specs: tuple[Spec, ...], args: Any) -> Spec:
    if len(specs) > 1 and (args.matrix is UNKNOWN or args.matrix):
        raise ValueError("the second input is the matrix: leave out the argument matrix")
    spec = specs[0]
    extents = given_size(tuple(args.size), 2)  # unlike those of warp_affine, extents of single samples are rounded too
    if extents is None:
        return spec
    shape = list(spec.shape)
    for axis, extent in zip(spatial(spec.layout), extents, strict=True):
        shape[axis] = extent
    return Spec(tuple(shape), spec.dtype, spec.layout)


# ----------------------------------------------------------------------------------------------------
# remap


def map_shape(shape: Sequence[int]) -> tuple[int, int]:
    """Height and width of a map."""
    if len(shape) == 3 and shape[2] == 1:
        shape = shape[:2]
    if len(shape) != 2:
        raise ValueError(f"a map has the shape (height, width), perhaps with one channel, got {tuple(shape)}")
    return shape[0], shape[1]


@operator(
    "remap",
    compiled=True,
    takes=PIXEL_ORIGIN,
    layouts="HWC FHWC",
    sequences=True,
    gpu=True,
    examples=[
        "fn.remap(image, plane, plane)",
        "fn.remap(image, plane, plane, interp=types.INTERP_NN, pixel_origin='center')",
    ],
)
def remap(
    image: Sample,
    mapx: Sample,
    mapy: Sample,
    /,
    *,
    interp: DALIInterpType = default(INTERP_LINEAR, "interpolation: INTERP_NN, INTERP_LINEAR or INTERP_CUBIC"),
    args: Args,
    out: Out,
) -> Sample:
    """Takes each pixel of the output from the position that two maps give for it; the output is as large as the maps.

    Pixels from outside the image are 0. The maps have one number, x or y in pixels, for each pixel of the output.
    """
    some_pixels(image.shape)
    tall, wide = map_shape(mapx.shape)
    if map_shape(mapy.shape) != (tall, wide):
        raise ValueError(f"the maps differ in shape: {mapx.shape} and {mapy.shape}")
    if callable(out):
        out = out((tall, wide, image.shape[2]), image.dtype)
    maps = mapx.reshape(tall, wide), mapy.reshape(tall, wide)
    fill = np.zeros(image.shape[2])
    return kernels.displacement.remap(image, *maps, ORIGINS[args.pixel_origin], 0, fill, INTERPOLATIONS[interp], out)


@remap.ready
def _(specs: tuple[Spec, ...], args: Any) -> Any:
    image, mapx, mapy = specs
    if image.layout != "HWC" or 0 in image.shape or len(mapx.shape) != 2 or mapx.shape != mapy.shape:
        return None
    options = ORIGINS[args.pixel_origin], INTERPOLATIONS[args.interp]
    work = kernels.displacement.remap_again(image.dtype, image.shape[2], *options)
    if work is None or mapx.dtype == mapy.dtype == np.float32:
        return work
    empty, single, extents = np.empty, np.dtype(np.float32), mapx.shape
    first, second = (kernels.casting.casting(one.dtype, single) for one in (mapx, mapy))
    return lambda source, map_x, map_y, out: work(
        source, first(map_x, empty(extents, single)), second(map_y, empty(extents, single)), out
    )


@remap.check
def _(args: Any) -> None:
    if args.pixel_origin not in ORIGINS:
        raise ValueError(f"pixel_origin must be 'corner' or 'center', got {args.pixel_origin!r}")
    if args.interp not in INTERPOLATIONS:
        raise ValueError(f"interp must be INTERP_NN, INTERP_LINEAR or INTERP_CUBIC, got {args.interp!r}")


@remap.infer
def _(specs: tuple[Spec, ...], _args: Any) -> Spec:
    image, mapx, _ = specs
    return Spec((*map_shape(mapx.shape), image.shape[2]), image.dtype, image.layout)


alias(warp_perspective, "experimental.warp_perspective")
alias(remap, "experimental.remap")


# ----------------------------------------------------------------------------------------------------
# Effects: water, sphere, jitter

WAVES, LENS, SCATTER = range(3)  # as in the kernels
NOTHING = np.zeros(1)

EFFECT = parameters(
    mask=(Arg[int], 1, "0: the image is not changed"),
    fill_value=(float, 0.0, "value outside the image"),
    interp_type=(DALIInterpType, INTERP_NN, "interpolation: INTERP_NN or INTERP_LINEAR"),
)


def displaced(
    image: np.ndarray, kind: int, lines: np.ndarray, columns: np.ndarray, key: int, degree: float, args: Any, out: Any
) -> np.ndarray:
    """The image with an effect, or a copy if its mask is 0."""
    some_pixels(image.shape)
    if not args.mask:
        out[...] = image
        return out
    fill = np.full(image.shape[2], args.fill_value, np.float64)
    nearest = INTERPOLATIONS[args.interp_type]
    return kernels.displacement.effect(image, kind, lines, columns, key, degree, fill, nearest, out)


def waves(height: int, width: int, args: Any) -> tuple[np.ndarray, np.ndarray]:
    """The distances by which the lines and columns of an image move."""
    lines = args.ampl_x * np.sin(args.freq_x * np.arange(height) + args.phase_x)
    columns = args.ampl_y * np.cos(args.freq_y * np.arange(width) + args.phase_y)
    return lines, columns


WAVE = parameters(
    ampl_x=(Arg[float], 10.0, "distance by which lines move sideways, in pixels"),
    ampl_y=(Arg[float], 10.0, "distance by which columns move up and down, in pixels"),
    freq_x=(Arg[float], 2 * math.pi / 128, "frequency of the sideways waves, in radians a line"),
    freq_y=(Arg[float], 2 * math.pi / 128, "frequency of the waves up and down, in radians a column"),
    phase_x=(Arg[float], 0.0, "phase of the sideways waves, in radians"),
    phase_y=(Arg[float], 0.0, "phase of the waves up and down, in radians"),
)


@operator(
    "water",
    compiled=True,
    takes=WAVE | EFFECT,
    infer="like image",
    layouts="HWC FHWC",
    sequences=True,
    gpu=True,
    examples=["fn.water(image, ampl_x=3.0, ampl_y=2.0)"],
)
def water(image: Sample, /, *, args: Args, out: Out) -> Sample:
    """Bends the image in waves: ``x + ampl_x * sin(freq_x * y + phase_x)`` and ``y + ampl_y * cos(freq_y * x + phase_y)``.

    The nearest pixel is the one that contains the position. With INTERP_LINEAR the image moves by half a pixel, as in DALI.
    """
    lines, columns = waves(image.shape[0], image.shape[1], args)
    return displaced(image, WAVES, lines, columns, 0, 0.0, args, out)


@operator(
    "sphere",
    compiled=True,
    takes=EFFECT,
    infer="like image",
    layouts="HWC FHWC",
    sequences=True,
    gpu=True,
    examples=["fn.sphere(image, fill_value=9.0)"],
)
def sphere(image: Sample, /, *, args: Args, out: Out) -> Sample:
    """Shows the image as through a magnifying sphere.

    The distance of a position from the centre is multiplied by the ratio of this distance to half the longer side.
    """
    return displaced(image, LENS, NOTHING, NOTHING, 0, 0.0, args, out)


@operator(
    "jitter",
    compiled=True,
    takes=EFFECT,
    infer="like image",
    layouts="HWC FHWC",
    sequences=True,
    gpu=True,
    examples=["fn.jitter(image, nDegree=5)"],
)
def jitter(
    image: Sample,
    /,
    *,
    nDegree: Arg[int] = default(2, "the random positions are at most half of this many pixels away along each axis"),
    args: Args,
    key: Any,
    out: Out,
) -> Sample:
    """Takes every pixel from a random position near it."""
    check_degree(nDegree)
    return displaced(image, SCATTER, NOTHING, NOTHING, key.value, nDegree, args, out)


def check_degree(degree: int) -> None:
    """Raises an error for a negative distance."""
    if degree < 0:
        raise ValueError(f"nDegree must not be negative, got {degree}")


def _again(op: OpFunction, kind: int, drawn: bool = False) -> None:
    @op.ready
    def _(specs: tuple[Spec, ...], args: Any) -> Any:
        shape, nearest = specs[0].shape, INTERPOLATIONS[args.interp_type]
        if 0 in shape or not args.mask:
            return None
        lines, columns = waves(shape[0], shape[1], args) if kind == WAVES else (NOTHING, NOTHING)
        degree, fill = args.nDegree if drawn else 0, np.full(shape[2], args.fill_value, np.float64)
        check_degree(degree)
        work = kernels.displacement.effect_again(specs[0].dtype, kind, lines, columns, degree, fill, nearest)
        if work is None:
            return None
        return (lambda image, out, key: work(image, key, out)) if drawn else lambda image, out: work(image, 0, out)


_again(water, WAVES)
_again(sphere, LENS)
_again(jitter, SCATTER, drawn=True)
for _op in (water, sphere, jitter):
    interpolations(_op, "interp_type", INTERP_NN, INTERP_LINEAR)
