"""Light and shade: illumination.linear, corner and gaussian, plasma.brightness, contrast and shadow."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from pipeflow.declare import Arg, Args, Floats, OpDef, Out, Sample, Spec, default, operator, parameters
from pipeflow.kernels import cpu as kernels
from pipeflow.operators.axes import some_pixels
from pipeflow.operators.color import full_range, middle

PAGE = """Uneven light on an image. The light of `illumination` is given by numbers, which may be nodes. `plasma` draws
random clouds, with a number from 0 to 1 for each pixel. All frames of a sequence have the same light.
"""


shading = partial(
    operator, compiled=True, gpu=True, infer="like image", layouts="HWC FHWC", sequences=True, dtypes="uint8 float32"
)


def height_and_width(image: np.ndarray) -> tuple[int, int]:
    """The extents of an image or a frame; an error if it has no pixels."""
    some_pixels(image.shape)
    return image.shape[0], image.shape[1]


# ----------------------------------------------------------------------------------------------------
# illumination

GAIN = parameters(
    gain=(Arg[float], 0.2, "change at the lightest point, as a share of the value; below 0 it becomes darker")
)


def places(extent: int) -> np.ndarray:
    """The middles of the pixels along an axis."""
    return np.arange(extent, dtype=np.float32) + np.float32(0.5)


@shading("illumination.linear", takes=GAIN, examples=["fn.illumination.linear(image, gain=0.5, angle=30.0)"])
def linear(
    image: Sample,
    /,
    *,
    args: Args,
    angle: Arg[float] = default(0.0, "direction of the light in degrees, counter-clockwise from the right"),
    out: Out,
) -> Sample:
    """Multiplies the image by a factor that grows evenly from 1 at one end to ``1 + gain`` at the other."""
    del angle
    light = linear_light(*height_and_width(image), args)
    return kernels.shading.shade_by_lines(image, light, kernels.shading.SUM, args.gain, out)


def linear_light(height: int, width: int, args: Any) -> tuple[np.ndarray, np.ndarray]:
    """Numbers for each line and each column, whose sums are the pattern."""
    across, down = math.cos(math.radians(args.angle)), -math.sin(math.radians(args.angle))
    reach = abs(across) * width + abs(down) * height
    return (places(height) - height / 2) * (down / reach), (places(width) - width / 2) * (across / reach) + 0.5


@shading("illumination.corner", takes=GAIN, examples=["fn.illumination.corner(image, gain=-0.6, corner=2)"])
def corner(
    image: Sample,
    /,
    *,
    args: Args,
    corner: Arg[int] = default(0, "corner of the light, 0 to 3: upper left, upper right, lower right, lower left"),
    out: Out,
) -> Sample:
    """Multiplies the image by a factor that grows from 1 in one corner to ``1 + gain`` in the opposite one, with the distance.

    ``corner`` is the corner that the light comes from.
    """
    del corner
    light = corner_light(*height_and_width(image), args)
    return kernels.shading.shade_by_lines(image, light, kernels.shading.ROOT, args.gain, out)


def corner_light(height: int, width: int, args: Any) -> tuple[np.ndarray, np.ndarray]:
    """Numbers for each line and each column: the roots of their sums are the pattern."""
    if not 0 <= args.corner <= 3:
        raise ValueError(f"corner must be from 0 to 3, got {args.corner}")
    columns = width - places(width) if args.corner in (0, 3) else places(width)
    lines = height - places(height) if args.corner in (0, 1) else places(height)
    diagonal = np.float32(math.hypot(height, width))
    return (lines / diagonal) ** 2, (columns / diagonal) ** 2


@shading(
    "illumination.gaussian",
    takes=GAIN,
    examples=["fn.illumination.gaussian(image, gain=0.8, center=[0.3, 0.4], sigma=0.2)"],
)
def gaussian(
    image: Sample,
    /,
    *,
    args: Args,
    center: Arg[Floats] = default((0.5, 0.5), "position of the light, x and y in shares of the extents"),
    sigma: Arg[float] = default(0.3, "width of the light: the deviation in shares of the extents"),
    out: Out,
) -> Sample:
    """Multiplies the image by a factor that is ``1 + gain`` at one point and decreases to 1 around it, like a bell."""
    del center, sigma
    light = gaussian_light(*height_and_width(image), args)
    return kernels.shading.shade_by_lines(image, light, kernels.shading.PRODUCT, args.gain, out)


def gaussian_light(height: int, width: int, args: Any) -> tuple[np.ndarray, np.ndarray]:
    """Numbers for each line and each column, whose products are the pattern."""
    if not args.sigma > 0:
        raise ValueError(f"sigma must be above 0, got {args.sigma}")
    if len(args.center) != 2:
        raise ValueError(f"center must be two numbers, x and y, got {len(args.center)}")
    columns, lines = (
        np.exp(-0.5 * ((places(extent) / extent - place) / args.sigma) ** 2).astype(np.float32)
        for extent, place in zip((width, height), args.center, strict=True)
    )
    return lines, columns


def _ready(op: OpDef, light_of: Callable[[int, int, Any], tuple[np.ndarray, np.ndarray]], kind: str) -> None:
    """The short form of a call that shades images by lines and columns."""

    @op.ready
    def _(specs: tuple[Spec, ...], args: Any) -> Any:
        shape, dtype = specs[0].shape, specs[0].dtype
        if 0 in shape:
            return None
        light, number = light_of(shape[0], shape[1], args), getattr(kernels.shading, kind)
        return kernels.shading.shading_by_lines(shape, dtype, light, number, args.gain)


_ready(linear, linear_light, "SUM")
_ready(corner, corner_light, "ROOT")
_ready(gaussian, gaussian_light, "PRODUCT")


# ----------------------------------------------------------------------------------------------------
# plasma

ROUGHNESS = parameters(
    roughness=(
        Arg[float],
        0.5,
        "strength of each level of detail in relation to the coarser one before it, from 0 to 1",
    )
)


def check_roughness(roughness: float) -> None:
    """Raises an error for a strength that is not from 0 to 1."""
    if not 0 <= roughness <= 1:
        raise ValueError(f"roughness must be from 0 to 1, got {roughness}")


def plasma(image: np.ndarray, roughness: float, key: Any) -> np.ndarray:
    """A cloud as large as the image."""
    check_roughness(roughness)
    return kernels.shading.plasma(key.value, roughness, *height_and_width(image))


@shading("plasma.brightness", takes=ROUGHNESS)
def plasma_brightness(
    image: Sample,
    /,
    *,
    args: Args,
    intensity: Arg[float] = default(0.3, "largest change, as a share of 255 (of 1 for floats)"),
    key: Any,
    out: Out,
) -> Sample:
    """Adds a cloud, from ``-intensity`` at its darkest points to ``intensity`` at its lightest."""
    del intensity
    pattern = plasma(image, args.roughness, key) - np.float32(0.5)
    return kernels.shading.shade(image, pattern, *brightness_line(args, image.dtype), out)


def brightness_line(args: Any, dtype: np.dtype) -> tuple[float, float]:
    """Slope and offset of ``plasma.brightness``."""
    return 0.0, 2 * args.intensity * full_range(dtype)


@shading("plasma.contrast", takes=ROUGHNESS)
def plasma_contrast(
    image: Sample,
    /,
    *,
    args: Args,
    intensity: Arg[float] = default(0.5, "largest difference of the factor of the contrast from 1"),
    key: Any,
    out: Out,
) -> Sample:
    """Changes contrast by a cloud: multiplies distances from the middle, 128 (0.5 for floats), by ``1 - intensity`` to
    ``1 + intensity``.
    """
    del intensity
    pattern = plasma(image, args.roughness, key) - np.float32(0.5)
    return kernels.shading.shade(image, pattern, *contrast_line(args, image.dtype), out)


def contrast_line(args: Any, dtype: np.dtype) -> tuple[float, float]:
    """Slope and offset of ``plasma.contrast``."""
    return 2 * args.intensity, -2 * args.intensity * middle(dtype)


@shading("plasma.shadow", takes=ROUGHNESS)
def plasma_shadow(
    image: Sample,
    /,
    *,
    args: Args,
    intensity: Arg[float] = default(0.5, "darkening at the thickest points of the cloud, from 0 to 1"),
    key: Any,
    out: Out,
) -> Sample:
    """Darkens the image by the shadow of a cloud."""
    del intensity
    return kernels.shading.shade(image, plasma(image, args.roughness, key), *shadow_line(args, image.dtype), out)


def _ready_cloud(op: OpDef, line_of: Callable[[Any, np.dtype], tuple[float, float]], less: float) -> None:
    """The short form of a call that shades images by a cloud, whose middle is at `less`."""

    @op.ready
    def _(specs: tuple[Spec, ...], args: Any) -> Any:
        shape, dtype = specs[0].shape, specs[0].dtype
        if 0 in shape:
            return None
        check_roughness(args.roughness)
        slope, offset = line_of(args, dtype)
        return kernels.shading.shading_by_cloud(shape, dtype, args.roughness, 1.0, -less, slope, offset)


def shadow_line(args: Any, _dtype: np.dtype) -> tuple[float, float]:
    """Slope and offset of ``plasma.shadow``."""
    check_intensity(args)
    return -args.intensity, 0.0


_ready_cloud(plasma_brightness, brightness_line, 0.5)
_ready_cloud(plasma_contrast, contrast_line, 0.5)
_ready_cloud(plasma_shadow, shadow_line, 0.0)


def check_intensity(args: Any) -> None:
    """Raises an error for an intensity that is not from 0 to 1."""
    if not 0 <= args.intensity <= 1:
        raise ValueError(f"intensity must be from 0 to 1, got {args.intensity}")
