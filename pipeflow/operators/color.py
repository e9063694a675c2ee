"""Colour: brightness and contrast, hue and saturation, colour spaces.

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
    UNKNOWN,
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
    required,
)
from pipeflow.kernels import cpu as kernels
from pipeflow.types import BGR, GRAY, RGB, DALIImageType, YCbCr

PAGE = """Hue and saturation are linear: a rotation and a scaling of the colours' differences from grey (in YIQ), as in
DALI, not the HSV cylinder. Sums are float32, and the result is rounded once.
"""


COLOR_LAYOUTS = "HWC FHWC DHWC"
UINT8 = np.dtype(np.uint8)

# Luma and the two chroma axes of YIQ, to three decimals; the way back is the exact inverse.
TO_YIQ = np.array([[0.299, 0.587, 0.114], [0.596, -0.274, -0.321], [0.211, -0.523, 0.311]])
FROM_YIQ = np.linalg.inv(TO_YIQ)
LUMA = TO_YIQ[0]
# The weights as rounded by OpenCV, which DALI calls to convert RGB to grey: sums of such products are exact in float32.
GREY = np.array([9798, 19235, 3735]) / 32768

# ITU-R BT.601 in the studio range: Y from 16 to 235, chroma around 128.
TO_YCBCR = np.array(
    [
        [0.25678824, 0.50412941, 0.09790588],
        [-0.14822290, -0.29099279, 0.43921569],
        [0.43921569, -0.36778831, -0.07142737],
    ]
)
YCBCR_OFFSET = np.array([16.0, 128.0, 128.0])
FROM_YCBCR = np.linalg.inv(TO_YCBCR)
SWAP = np.eye(3)[::-1]
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
    require((spec.shapes[:, -1] == 3) & spec.shapes.all(1))
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


@operator(
    "grayscale",
    compiled=True,
    layouts=COLOR_LAYOUTS,
    sequences=True,
    gpu=True,
    examples=["fn.grayscale(image)", "fn.grayscale(image, channels=1)"],
)
def grayscale(
    image: Sample,
    /,
    *,
    channels: int = default(3, "number of channels of the result: 3 that are equal, or 1"),
    out: Out,
) -> Sample:
    """Makes the image grey, with the weights of ``color_space_conversion`` to GRAY."""
    three_channels(image.shape, "grayscale")
    if image.dtype == UINT8:
        return kernels.color.luma(image, False, out) if channels == 1 else kernels.color.grey_luma(image, out)
    return kernels.color.linear_colors(image, *grey_line(channels), out)


@grayscale.calls
def _(calls: KernelCalls) -> None:
    image, channels = calls.input, calls.args.channels
    calls.require(calls.layouts[0] == "HWC" and image.dtype in kernels.color.FAST)
    calls.require(image.extents[2] == 3)
    calls.require(image.size > 0)
    out = calls.output((*image.extents[:2], channels), image.dtype)
    if image.dtype == UINT8:
        grey = kernels.color.weigh_bytes if channels == 1 else kernels.color.grey_bytes
        calls.call(grey, image.flat, kernels.color.LUMA, out.flat)
    else:
        mixed(calls, image, *grey_line(channels), out)


def mixed(calls: KernelCalls, image: KernelArray, matrix: np.ndarray, offset: np.ndarray, out: KernelArray) -> None:
    """``linear_colors`` for programs of kernel calls."""
    color, pixels = kernels.color, image.extents[0] * image.extents[1]
    weights, shift = matrix.astype(np.float32).ravel(), offset.astype(np.float32)
    if weights.size == 3:
        calls.call(color.weigh, image.flat, weights, shift[0], out.flat, pixels)
        return
    require(image.dtype != UINT8 or not grey_rows(np.hstack([weights, shift])[None]).any())
    calls.call(color.mix, image.flat, weights, shift, out.flat, pixels)


@cache
def grey_line(channels: int) -> tuple[np.ndarray, np.ndarray]:
    """The weights of red, green and blue in each channel of the result, and an offset of 0."""
    return np.tile(GREY, (channels, 1)), np.zeros(channels)


@grayscale.infer
def _(specs: tuple[Spec, ...], args: Any) -> Spec:
    shape = specs[0].shape
    return Spec(shape if shape is UNKNOWN else (*shape[:-1], args.channels), specs[0].dtype, specs[0].layout)


@grayscale.check
def _(args: Any) -> None:
    if args.channels not in (1, 3):
        raise ValueError(f"channels must be 3 or 1, got {args.channels}")


@cache
def conversion(source: DALIImageType, target: DALIImageType) -> tuple[np.ndarray, np.ndarray] | None:
    """Matrix and offset between two colour spaces; None if the pixels do not change."""
    if source == target:
        return None
    to_rgb = {RGB: np.eye(3), BGR: SWAP, YCbCr: FROM_YCBCR, GRAY: np.ones((3, 1))}[source]
    before = -FROM_YCBCR @ YCBCR_OFFSET if source == YCbCr else np.zeros(3)
    from_rgb = {RGB: np.eye(3), BGR: SWAP, YCbCr: TO_YCBCR, GRAY: (LUMA if source == YCbCr else GREY)[None]}[target]
    after = YCBCR_OFFSET if target == YCbCr else np.zeros(len(from_rgb))
    matrix = from_rgb @ to_rgb
    if source == GRAY:
        # the chroma of grey is constant: a tiny factor from rounding must not change it
        matrix = np.where(np.abs(matrix) < 1e-6, 0.0, np.ones_like(matrix) if target in (RGB, BGR) else matrix)
    return matrix, from_rgb @ before + after


@operator(
    "color_space_conversion",
    compiled=True,
    layouts="FDHWC FHWC DHWC HWC",
    sequences=True,
    dtypes="uint8",
    gpu=True,
    examples=["fn.color_space_conversion(image, image_type=types.RGB, output_type=types.YCbCr)"],
)
def color_space_conversion(
    image: Sample,
    /,
    *,
    image_type: DALIImageType = required("colour space of the input: RGB, BGR, GRAY or YCbCr"),
    output_type: DALIImageType = required("colour space of the result"),
    out: Out,
) -> Sample:
    """Converts between RGB, BGR, YCbCr (studio range) and GRAY."""
    check_channels(image.shape, image_type)
    steps = conversion(image_type, output_type)
    if steps is None:
        out[...] = image
        return out
    if output_type == GRAY and image_type != YCbCr:
        return kernels.color.luma(image, image_type == BGR, out)
    matrix, offset = steps
    if image_type != GRAY:
        return kernels.color.linear_colors(image, matrix, offset, out)
    for channel in range(out.shape[-1]):
        plane = np.empty(image.shape, np.uint8)
        factor, shift = float(matrix[channel, 0]), float(offset[channel])
        out[..., channel] = kernels.color.linear_values(image, factor, shift, plane)[..., 0]
    return out


def check_channels(shape: tuple[int, ...], image_type: DALIImageType) -> None:
    """Raises if the image cannot have this colour space."""
    channels = 1 if image_type == GRAY else 3
    if shape[-1] != channels:
        raise ValueError(f"{image_type!r} has {channels} channel(s), the image has {shape[-1]} (shape {shape})")
    if 0 in shape:
        raise ValueError(f"the image has no pixels: shape {shape}")


@color_space_conversion.calls
def _(calls: KernelCalls) -> None:
    args, image = calls.args, calls.input
    steps = conversion(args.image_type, args.output_type)
    calls.require(steps is not None and args.image_type != GRAY and calls.layouts[0] == "HWC")
    calls.require(image.extents[2] == 3)
    calls.require(image.size > 0)
    out = calls.output((*image.extents[:2], 1 if args.output_type == GRAY else 3), UINT8)
    if args.output_type == GRAY and args.image_type != YCbCr:
        weights = kernels.color.LUMA
        weights = weights[::-1].copy() if args.image_type == BGR else weights
        calls.call(kernels.color.weigh_bytes, image.flat, weights, out.flat)
    else:
        assert steps is not None
        mixed(calls, image, *steps, out)


@color_space_conversion.rows
def _(specs: tuple[SpecColumn, ...], args: Any, _keys: np.ndarray) -> np.ndarray:
    shapes = specs[0].shapes
    require((shapes[:, -1] == (1 if args.image_type == GRAY else 3)) & shapes.all(1))
    steps = conversion(args.image_type, args.output_type)
    if steps is None:
        return np.zeros(len(shapes), [])
    matrix, offset = steps
    fields = [("matrix", np.float32, matrix.shape), ("offset", np.float64, offset.shape)]
    table = np.empty(len(shapes), [*fields, ("shape", np.int64, shapes.shape[1:])])
    table["matrix"], table["offset"], table["shape"] = matrix, offset, shapes
    table["shape"][:, -1] = len(matrix)
    return table


@color_space_conversion.infer
def _(specs: tuple[Spec, ...], args: Any) -> Spec:
    shape = specs[0].shape
    if shape is not UNKNOWN:
        shape = (*shape[:-1], 1 if args.output_type == GRAY else 3)
    return Spec(shape, specs[0].dtype, specs[0].layout)


@color_space_conversion.check
def _(args: Any) -> None:
    for name in ("image_type", "output_type"):
        if getattr(args, name) not in (RGB, BGR, GRAY, YCbCr):
            raise ValueError(f"{name} must be RGB, BGR, GRAY or YCbCr, got {getattr(args, name)!r}")
