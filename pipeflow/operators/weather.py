"""Weather: weather.rain, weather.snow, weather.fog."""

import math
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from pipeflow.declare import Arg, Args, Floats, Out, Sample, Spec, default, operator
from pipeflow.kernels import cpu as kernels
from pipeflow.operators.color import full_range, three_channels
from pipeflow.operators.shading import check_roughness, height_and_width, plasma

PAGE = """Rain, snow and fog for images. Their random numbers depend on the sample's key; all frames of a sequence have
the same.
"""


@operator(
    "weather.rain",
    compiled=True,
    gpu=True,
    infer="like image",
    layouts="HWC FHWC",
    sequences=True,
    dtypes="uint8 float32",
    examples=["fn.weather.rain(image, density=0.01, length=9, angle=-10.0)"],
)
def rain(
    image: Sample,
    /,
    *,
    density: Arg[float] = default(0.002, "number of drops for each pixel"),
    length: Arg[int] = default(20, "number of rows that a drop crosses"),
    width: Arg[int] = default(1, "width of a drop in pixels"),
    angle: Arg[float] = default(10.0, "angle of the rain in degrees: above 0 it falls to the right"),
    color: Arg[Floats] = default((200.0,), "colour of the drops, one number or one a channel, of 255 also for floats"),
    opacity: Arg[float] = default(0.6, "share of the drop's colour in its pixels, from 0 to 1"),
    args: Args,
    key: Any,
    out: Out,
) -> Sample:
    """Draws drops of rain: straight strokes at random places, mixed into the image."""
    del density, length, width, angle, color
    height_and_width(image)
    strokes = strokes_of(image.shape, image.dtype, args)
    return kernels.weather.rain(image, key.value, strokes[:4], strokes.color, opacity, out)


@rain.ready
def _(specs: tuple[Spec, ...], args: Any) -> Any:
    shape, dtype = specs[0].shape, specs[0].dtype
    if 0 in shape:
        return None
    strokes = strokes_of(shape, dtype, args)
    return kernels.weather.raining(dtype, strokes[:4], strokes.color, args.opacity)


class Strokes(NamedTuple):
    """The drops of an image."""

    number: int
    length: int
    width: int
    lean: float  # pixels to the right for each row
    color: np.ndarray  # the colour, one number for each channel


def strokes_of(shape: tuple[int, ...], dtype: np.dtype, args: Any) -> Strokes:
    """The drops on an image of this shape and type."""
    height, across, channels = shape
    if not 0 <= args.density <= 1:
        raise ValueError(f"density must be from 0 to 1, got {args.density}")
    if args.length < 1 or args.width < 1:
        raise ValueError(f"length and width must be at least 1, got {args.length} and {args.width}")
    if not 0 <= args.opacity <= 1:
        raise ValueError(f"opacity must be from 0 to 1, got {args.opacity}")
    if not -80 <= args.angle <= 80:
        raise ValueError(f"angle must be from -80 to 80, got {args.angle}")
    if len(args.color) not in (1, channels):
        raise ValueError(f"color must be one number or {channels}, one a channel, got {len(args.color)}")
    drops = np.resize(np.array(args.color) * (full_range(dtype) / 255), channels)
    lean = math.tan(math.radians(args.angle))
    area = (height + args.length) * (
        across + abs(lean) * args.length
    )  # drops begin above the image and at its sides too
    return Strokes(round(args.density * area), args.length, args.width, lean, drops)


@operator(
    "weather.snow",
    compiled=True,
    gpu=True,
    infer="like image",
    layouts="HWC FHWC",
    sequences=True,
    dtypes="uint8",
    examples=["fn.weather.snow(image, point=0.4)"],
)
def snow(
    image: Sample,
    /,
    *,
    point: Arg[float] = default(0.5, "lightness below which pixels are covered with snow, from 0 to 1"),
    brightness: Arg[float] = default(2.5, "factor of the lightness there"),
    out: Out,
) -> Sample:
    """Covers dark pixels with snow: pixels with a lightness below ``point`` become lighter; hue and saturation do not
    change (HLS).
    """
    three_channels(image.shape, "weather.snow")
    return kernels.weather.relight(image, snow_tables(point, brightness), out)


@snow.ready
def _(specs: tuple[Spec, ...], args: Any) -> Any:
    three_channels(specs[0].shape, "weather.snow")
    return kernels.weather.relighting(snow_tables(args.point, args.brightness))


@lru_cache(maxsize=64)
def snow_tables(point: float, brightness: float) -> tuple[np.ndarray, np.ndarray]:
    """The new lightness, and the factor of distances from it, for each sum of the largest and the smallest value."""
    if not 0 <= point <= 1:
        raise ValueError(f"point must be from 0 to 1, got {point}")
    if not brightness >= 0:
        raise ValueError(f"brightness must not be negative, got {brightness}")
    lightness = np.arange(511) / 2
    return kernels.weather.light_tables(
        np.where(lightness < 255 * point, np.minimum(lightness * brightness, 255), lightness)
    )


@operator(
    "weather.fog",
    compiled=True,
    gpu=True,
    infer="like image",
    layouts="HWC FHWC",
    sequences=True,
    dtypes="uint8 float32",
)
def fog(
    image: Sample,
    /,
    *,
    density: Arg[float] = default(0.6, "share of white at the thickest points of the fog, from 0 to 1"),
    variation: Arg[float] = default(0.5, "reduction at the thinnest points of the fog, from 0 to 1"),
    roughness: Arg[float] = default(0.4, "strength of small details, from 0 to 1"),
    args: Args,
    key: Any,
    out: Out,
) -> Sample:
    """Mixes the image with white, by a random cloud."""
    check_fog(args)
    pattern = plasma(image, roughness, key)
    pattern *= np.float32(variation)
    pattern += np.float32(1 - variation)
    return kernels.shading.shade(image, pattern, -density, density * full_range(image.dtype), out)


@fog.ready
def _(specs: tuple[Spec, ...], args: Any) -> Any:
    check_fog(args)
    shape, dtype = specs[0].shape, specs[0].dtype
    if 0 in shape or dtype == np.float16:
        return None
    check_roughness(args.roughness)
    line = args.variation, 1 - args.variation, -args.density, args.density * full_range(dtype)
    return kernels.shading.shading_by_cloud(shape, dtype, args.roughness, *line)


def check_fog(args: Any) -> None:
    """Raises an error for shares that are not from 0 to 1."""
    for name in ("density", "variation"):
        value = getattr(args, name)
        if not 0 <= value <= 1:
            raise ValueError(f"{name} must be from 0 to 1, got {value}")
