"""Colour: brightness and contrast, hue and saturation.

Hue and saturation are a linear map, a rotation and a scaling of the chroma plane of YIQ, as in DALI; the HSV cylinder is not
used. Every operator is one matrix per sample, or one factor and one offset, applied in float32 and rounded once.
"""

import math
from collections.abc import Callable
from functools import cache, lru_cache
from typing import Any

import numpy as np

from pipeflow.declare import (
    DTYPE,
    Arg,
    Args,
    DType,
    KernelArray,
    KernelCalls,
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
from pipeflow.types import RGB, DALIImageType

PAGE = """Hue and saturation are linear: a rotation and a scaling of the colours' differences from grey (in YIQ), as in
DALI, not the HSV cylinder. Sums are float32, and the result is rounded once.
"""


COLOR_LAYOUTS = "HWC FHWC DHWC"
UINT8 = np.dtype(np.uint8)

# Luma and the two chroma axes of YIQ, to three decimals; the way back is the exact inverse.
TO_YIQ = np.array([[0.299, 0.587, 0.114], [0.596, -0.274, -0.321], [0.211, -0.523, 0.311]])
FROM_YIQ = np.linalg.inv(TO_YIQ)
LUMA = TO_YIQ[0]
NO_KEYS = np.empty(0, np.uint64)
NOTHING = np.zeros(3)  # the offset that adds nothing


@cache
def full_range(dtype: np.dtype) -> float:
    """What `brightness_shift=1` adds."""
    return 1.0 if dtype.kind in "fb" else float(np.iinfo(dtype).max)


@cache
def middle(dtype: np.dtype) -> float:
    """The value that contrast does not change by default."""
    if dtype.kind in "fb":
        return 0.5
    return float(1 << (8 * dtype.itemsize - (2 if dtype.kind == "i" else 1)))


@lru_cache(maxsize=256)
def color_matrix(hue: float, saturation: float, value: float) -> np.ndarray:
    """The 3 x 3 matrix that turns and scales chroma and scales everything."""
    angle = math.radians(hue)
    cos, sin = saturation * math.cos(angle), saturation * math.sin(angle)
    return (value * (FROM_YIQ @ np.array([[1, 0, 0], [0, cos, sin], [0, -sin, cos]]) @ TO_YIQ)).astype(np.float32)


def three_channels(shape: tuple[int, ...], title: str) -> None:
    """Raises if the image does not have red, green and blue."""
    if shape[-1] != 3:
        raise ValueError(f"{title} needs 3 channels, the image has {shape[-1]} (shape {shape})")
    if 0 in shape:
        raise ValueError(f"the image has no pixels: shape {shape}")


def contrast_line(
    dtype: np.dtype, target: np.dtype, gain: float, shift: float, contrast: float, centre: float | None
) -> tuple[float, float]:
    """Factor and offset, in the float32 steps of DALI: results that are exact halves are common here.

    For a whole batch the numbers may be arrays.
    """
    a, b, c = np.float32(gain), np.float32(contrast), np.float32(middle(dtype) if centre is None else centre)
    return np.float64(a * b), np.float64(np.float32(shift) * np.float32(full_range(target)) + a * (c - b * c))


@lru_cache(maxsize=256)
def twist(
    dtype: np.dtype, hue: float, saturation: float, brightness: float, contrast: float
) -> tuple[np.ndarray, np.ndarray]:
    """Matrix and offset of color_twist for images of a type."""
    centre = 0.5 if dtype.kind == "f" else 128.0
    return color_matrix(hue, saturation, brightness * contrast), np.full(3, centre * (1 - contrast) * brightness)


def color_matrices(hue: Any, saturation: Any, value: Any, count: int) -> np.ndarray:
    """The matrices of ``color_matrix`` for ``count`` samples; the numbers may be arrays."""
    angles = list(map(math.radians, np.ravel(hue).tolist()))
    # math and not NumPy, as in the body: NumPy's functions may differ in the last bit
    turns = np.zeros((count, 3, 3))
    turns[:, 0, 0] = 1
    turns[:, 1, 1] = turns[:, 2, 2] = saturation * np.fromiter(map(math.cos, angles), np.float64, len(angles))
    turns[:, 1, 2] = saturation * np.fromiter(map(math.sin, angles), np.float64, len(angles))
    turns[:, 2, 1] = -turns[:, 1, 2]
    return np.reshape(value, (-1, 1, 1)) * (FROM_YIQ @ turns @ TO_YIQ)


LINES = np.dtype([("factor", np.float64), ("offset", np.float64)])
COLORS = np.dtype([("matrix", np.float32, (3, 3)), ("offset", np.float64, (3,))])


def _lines(op: OpDef) -> None:
    line = op.line_hook
    assert line is not None

    @op.rows
    def _(specs: tuple[SpecColumn, ...], args: Any, _keys: np.ndarray) -> np.ndarray:
        table = np.empty(len(specs[0].shapes), LINES)
        table["factor"], table["offset"] = line(args, specs[0].dtype, args.dtype or specs[0].dtype)
        return table

    @op.calls
    def _(calls: KernelCalls) -> None:
        dtype = calls.input.dtype
        target = calls.args.dtype or dtype

        def numbers(args: Any, count: int) -> np.ndarray:
            made = np.empty((count, 2))
            made[:, 0], made[:, 1] = line(args, dtype, target)
            return made

        calls.require({dtype, target} <= kernels.color.FAST)
        image, out = calls.input, calls.output_like_input(target)
        factors = calls.reals(numbers)
        if dtype == target == UINT8 and kernels.byte_tables.fast():
            table = calls.scratch((256,), UINT8)
            calls.call(kernels.color.line, kernels.byte_tables.VALUES, *factors, table)
            calls.call(kernels.byte_tables.translate_flat, image.flat, table, out.flat)
        else:
            calls.call(kernels.color.line, image.flat, *factors, out.flat)

    op.varying("brightness", "brightness_shift", "contrast", "contrast_center")

    @op.ready
    def _(specs: tuple[Spec, ...], args: Any) -> Any:
        dtype, target = specs[0].dtype, args.dtype or specs[0].dtype
        return kernels.color.lining(dtype, target, *line(args, dtype, target))


def _color_table(spec: SpecColumn, hue: Any, saturation: Any, value: Any) -> np.ndarray:
    require(spec.shapes[:, -1] == 3)
    require(spec.shapes)
    table = np.zeros(len(spec.shapes), COLORS)
    table["matrix"] = color_matrices(hue, saturation, value, len(table))
    return table


def _colors(op: OpDef, numbers: Callable[[Any], tuple[Any, Any, Any]]) -> None:
    @op.rows
    def _(specs: tuple[SpecColumn, ...], args: Any, _keys: np.ndarray) -> np.ndarray:
        return _color_table(specs[0], *numbers(args))

    _color_calls(op)

    @op.ready
    def _(specs: tuple[Spec, ...], args: Any) -> Any:
        return _mixing(specs[0], args.dtype, color_matrix(*numbers(args)), NOTHING)


def _mixing(spec: Spec, dtype: np.dtype | None, matrix: np.ndarray, offset: np.ndarray) -> Any:
    """The short form of a call with this matrix and offset; None if image or result are not bytes with three channels."""
    if spec.dtype != UINT8 or dtype not in (None, UINT8) or spec.shape[-1] != 3 or 0 in spec.shape:
        return None
    return kernels.color.mixing(matrix, offset)


def _color_calls(op: OpDef) -> None:
    @op.calls
    def _(calls: KernelCalls) -> None:
        dtype = calls.input.dtype
        target = calls.args.dtype or dtype

        def colors(args: Any, count: int) -> np.ndarray:
            assert op.rows_hook is not None
            table = op.rows_hook((SpecColumn(np.full((count, 3), 3), dtype, "HWC"),), args, NO_KEYS)
            made = np.empty((count, 12), np.float32)
            made[:, :9], made[:, 9:] = table["matrix"].reshape(count, 9), table["offset"]
            # the body computes grey bytes in another way
            require(dtype != UINT8 or target != UINT8 or not grey_rows(made).any())
            return made

        calls.require({dtype, target} <= kernels.color.FAST and calls.layouts[0] == "HWC")
        calls.require(calls.input.extents[2] == 3)
        image, out = calls.input, calls.output_like_input(target)
        row = calls.row(colors)
        matrix = KernelArray(row.address, (9,), row.dtype)
        offset = KernelArray(row.address + 9 * row.dtype.itemsize, (3,), row.dtype)
        calls.call(kernels.color.mix, image.flat, matrix, offset, out.flat, image.size // 3)

    op.varying("hue", "saturation", "value", "brightness", "contrast")


def grey_rows(colors: np.ndarray) -> np.ndarray:
    """True for matrices and offsets that give the three channels one value."""
    first, second, third = colors[:, :3], colors[:, 3:6], colors[:, 6:9]
    offsets = (colors[:, 9] == colors[:, 10]) & (colors[:, 10] == colors[:, 11])
    return (first == second).all(1) & (second == third).all(1) & offsets


BRIGHTNESS = parameters(
    brightness=(Arg[float], 1.0, "factor of the brightness"),
    brightness_shift=(
        Arg[float],
        0.0,
        "value that is added, as a share of the output type's maximum (of 1 for floats)",
    ),
)
CONTRAST = parameters(
    contrast=(Arg[float], 1.0, "factor of the distance from the centre"),
    contrast_center=(
        Arg[float],
        None,
        "value of the input that contrast does not change; default: the middle of its type's range (0.5 for floats)",
    ),
)
ONLY_RGB = parameters(image_type=(DALIImageType, RGB, "colour space of the image; only RGB is supported"))


@operator(
    "brightness_contrast",
    compiled=True,
    takes=BRIGHTNESS | CONTRAST | DTYPE,
    layouts="FHWC DHWC HWC",
    sequences=True,
    gpu=True,
    infer="like image",
)
def brightness_contrast(image: Sample, /, *, args: Args, out: Out) -> Sample:
    """Changes brightness and contrast: ``shift * range + brightness * (center + contrast * (image - center))``.

    ``range`` is the output type's maximum (1 for floats); ``contrast_center`` is a value of the input, by default the
    middle of its type's range (0.5 for floats).
    """
    gain, shift, factor, centre = args.brightness, args.brightness_shift, args.contrast, args.contrast_center
    line = contrast_line(image.dtype, out.dtype, gain, shift, factor, centre)
    return kernels.color.linear_values(image, *line, out)


@operator(
    "brightness",
    compiled=True,
    takes=BRIGHTNESS | DTYPE,
    layouts="FHWC DHWC HWC",
    sequences=True,
    gpu=True,
    infer="like image",
)
def brightness(image: Sample, /, *, args: Args, out: Out) -> Sample:
    """Changes brightness: ``shift * range + brightness * image``, where range is the output type's maximum (1 for
    floats)."""
    return kernels.color.linear_values(image, args.brightness, args.brightness_shift * full_range(out.dtype), out)


@operator(
    "contrast",
    compiled=True,
    takes=CONTRAST | DTYPE,
    layouts="FHWC DHWC HWC",
    sequences=True,
    gpu=True,
    infer="like image",
)
def contrast(image: Sample, /, *, args: Args, out: Out) -> Sample:
    """Changes contrast around ``contrast_center``, by default the middle of the input type's range (0.5 for floats)."""
    line = contrast_line(image.dtype, out.dtype, 1.0, 0.0, args.contrast, args.contrast_center)
    return kernels.color.linear_values(image, *line, out)


@brightness_contrast.line
def _(args: Any, dtype: np.dtype, target: np.dtype) -> tuple[float, float]:
    gain, shift = args.brightness, args.brightness_shift
    return contrast_line(dtype, target, gain, shift, args.contrast, args.contrast_center)


@brightness.line
def _(args: Any, _dtype: np.dtype, target: np.dtype) -> tuple[float, float]:
    return args.brightness, args.brightness_shift * full_range(target)


@contrast.line
def _(args: Any, dtype: np.dtype, target: np.dtype) -> tuple[float, float]:
    return contrast_line(dtype, target, 1.0, 0.0, args.contrast, args.contrast_center)


@operator(
    "color_twist",
    compiled=True,
    takes=ONLY_RGB | DTYPE,
    layouts=COLOR_LAYOUTS,
    sequences=True,
    gpu=True,
    infer="like image",
)
def color_twist(
    image: Sample,
    /,
    *,
    hue: Arg[float] = default(0.0, "turn of the colours, in degrees"),
    saturation: Arg[float] = default(1.0, "factor of the saturation; 0 gives grey"),
    brightness: Arg[float] = default(1.0, "factor of the brightness"),
    contrast: Arg[float] = default(1.0, "factor of the distance from the middle: 128 for integers, 0.5 for floats"),
    out: Out,
) -> Sample:
    """Changes hue (degrees), saturation, brightness and contrast in one pass.

    Contrast is around 128 for integers and 0.5 for floats.
    """
    three_channels(image.shape, "color_twist")
    return kernels.color.linear_colors(image, *twist(image.dtype, hue, saturation, brightness, contrast), out)


@operator(
    "hsv",
    compiled=True,
    takes=parameters(dtype=(DType, UINT8, "type of the result")),
    layouts=COLOR_LAYOUTS,
    sequences=True,
    gpu=True,
    infer="like image",
)
def hsv(
    image: Sample,
    /,
    *,
    hue: Arg[float] = default(0.0, "turn of the colours, in degrees"),
    saturation: Arg[float] = default(1.0, "factor of the saturation; 0 gives grey"),
    value: Arg[float] = default(1.0, "factor of the brightness"),
    out: Out,
) -> Sample:
    """Turns the hue by an angle in degrees, scales saturation and value; the result is UINT8 unless ``dtype`` says
    otherwise."""
    three_channels(image.shape, "hsv")
    return kernels.color.linear_colors(image, color_matrix(hue, saturation, value), NOTHING, out)


@operator(
    "hue", compiled=True, takes=ONLY_RGB | DTYPE, layouts=COLOR_LAYOUTS, sequences=True, gpu=True, infer="like image"
)
def hue(image: Sample, /, *, hue: Arg[float] = default(0.0, "turn of the colours, in degrees"), out: Out) -> Sample:
    """Turns the hue by an angle in degrees."""
    three_channels(image.shape, "hue")
    return kernels.color.linear_colors(image, color_matrix(hue, 1.0, 1.0), NOTHING, out)


@operator(
    "saturation",
    compiled=True,
    takes=ONLY_RGB | DTYPE,
    layouts=COLOR_LAYOUTS,
    sequences=True,
    gpu=True,
    infer="like image",
)
def saturation(
    image: Sample, /, *, saturation: Arg[float] = default(1.0, "factor of the saturation; 0 gives grey"), out: Out
) -> Sample:
    """Scales the saturation; 0 gives grey."""
    three_channels(image.shape, "saturation")
    return kernels.color.linear_colors(image, color_matrix(0.0, saturation, 1.0), NOTHING, out)


for _op in (brightness_contrast, brightness, contrast):
    _lines(_op)
_colors(hsv, lambda a: (a.hue, a.saturation, a.value))
_colors(hue, lambda a: (a.hue, 1.0, 1.0))
_colors(saturation, lambda a: (0.0, a.saturation, 1.0))


@color_twist.rows
def _(specs: tuple[SpecColumn, ...], args: Any, _keys: np.ndarray) -> np.ndarray:
    centre = 0.5 if specs[0].dtype.kind == "f" else 128.0
    table = _color_table(specs[0], args.hue, args.saturation, args.brightness * args.contrast)
    table["offset"] = np.reshape(centre * (1 - args.contrast) * args.brightness, (-1, 1))
    return table


@color_twist.ready
def _(specs: tuple[Spec, ...], args: Any) -> Any:
    dtype, numbers = specs[0].dtype, (args.hue, args.saturation, args.brightness, args.contrast)
    return _mixing(specs[0], args.dtype, *twist(dtype, *numbers))


_color_calls(color_twist)


def _only_rgb(op: OpDef) -> None:
    @op.check
    def _(args: Any) -> None:
        if args.image_type != RGB:
            raise ValueError(f"image_type must be RGB, got {args.image_type!r}; convert with color_space_conversion")


for _op in (color_twist, hue, saturation):
    _only_rgb(_op)
