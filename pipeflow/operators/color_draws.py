"""Random changes of colour: color_jitter, photometric_distort, planckian_jitter."""

import math
from functools import lru_cache
from typing import Any

import numpy as np

from pipeflow import seeds
from pipeflow.declare import DTYPE, UNKNOWN, Arg, Args, Floats, Out, Param, Sample, Spec, default, operator, parameters
from pipeflow.kernels import cpu as kernels
from pipeflow.operators.color import COLOR_LAYOUTS, FROM_YIQ, LUMA, TO_YIQ, UINT8, three_channels

PAGE = """These operators draw their changes of colour at random. `color_twist`, `hsv` and `brightness_contrast` take
the numbers as arguments, which may be nodes. All steps of a call are one matrix: nothing is rounded or cut off in
between.
"""

Line = tuple[np.ndarray, np.ndarray]  # a matrix and an offset


# ----------------------------------------------------------------------------------------------------
# Several changes, one after another


@lru_cache(maxsize=256)
def numbers_of(dtype: np.dtype, prob: float, *given: tuple[float, ...]) -> np.ndarray:
    """What the kernels need to draw the changes from the four ranges, for images of a type."""
    check_ranges(Args(**dict(zip(RANGES, given, strict=True))))
    check_prob(prob)
    return kernels.color_draws.numbers_of(given, 0.5 if dtype.kind == "f" else 128.0, prob, FROM_YIQ, TO_YIQ)


def change_numbers(dtype: np.dtype, args: Any, prob: float) -> np.ndarray:
    """`numbers_of` the arguments of a call."""
    return numbers_of(dtype, prob, args.brightness, args.contrast, args.saturation, args.hue)


def check_ranges(args: Any) -> None:
    """Raises an error unless each range is two numbers, the smaller one first, and no factor is negative."""
    for name in RANGES:
        values = getattr(args, name)
        if values is UNKNOWN:
            continue
        if len(values) != 2 or not values[0] <= values[1]:
            raise ValueError(f"{name} must be two numbers, the smaller one first, got {tuple(values)}")
        if name != "hue" and values[0] < 0:
            raise ValueError(f"{name} must not be negative, got {tuple(values)}")


RANGES = ("brightness", "contrast", "saturation", "hue")


def ranges(light: tuple[float, float], others: tuple[float, float]) -> dict[str, Param]:
    """The four ranges; the arguments are the defaults for brightness, and for contrast and saturation."""
    return parameters(
        brightness=(Arg[Floats], light, "smallest and largest factor of the brightness"),
        contrast=(
            Arg[Floats],
            others,
            "smallest and largest factor of the distance from the middle: 128 for integers, 0.5 for floats",
        ),
        saturation=(Arg[Floats], others, "smallest and largest factor of the saturation"),
        hue=(Arg[Floats], (-18.0, 18.0), "smallest and largest turn of the colours, in degrees"),
    )


@operator(
    "color_jitter",
    compiled=True,
    gpu=True,
    takes=ranges((0.8, 1.2), (0.8, 1.2)) | DTYPE,
    layouts=COLOR_LAYOUTS,
    sequences=True,
    infer="like image",
)
def color_jitter(image: Sample, /, *, args: Args, key: Any, out: Out) -> Sample:
    """Changes brightness, contrast, saturation and hue by random numbers, in random order."""
    three_channels(image.shape, "color_jitter")
    return kernels.color.linear_colors(image, *jitter_line(image.dtype, args, key), out)


def jitter_line(dtype: np.dtype, args: Any, key: Any) -> Line:
    """The drawn changes in a random order."""
    return kernels.color_draws.line_of(kernels.color_draws.JITTER, key.value, change_numbers(dtype, args, 1.0))


@color_jitter.ready
def _(specs: tuple[Spec, ...], args: Any) -> Any:
    if not of_bytes(specs[0], args):
        return None
    return kernels.color_draws.changing(kernels.color_draws.JITTER, change_numbers(UINT8, args, 1.0))


def of_bytes(spec: Spec, args: Any) -> bool:
    """True if the image and the result are bytes with three channels."""
    return spec.dtype == UINT8 and args.dtype in (None, UINT8) and spec.shape[-1] == 3 and 0 not in spec.shape


@operator(
    "photometric_distort",
    compiled=True,
    gpu=True,
    takes=ranges((0.875, 1.125), (0.5, 1.5)) | DTYPE,
    layouts=COLOR_LAYOUTS,
    sequences=True,
    infer="like image",
)
def photometric_distort(
    image: Sample, /, *, prob: Arg[float] = default(0.5, "probability of each change"), args: Args, key: Any, out: Out
) -> Sample:
    """Distorts colours as the training of SSD does: each change is made with a probability, and contrast comes before
    or after saturation and hue.

    The changes are brightness, contrast, saturation, hue, and at the end another order of the channels.
    """
    del prob
    three_channels(image.shape, "photometric_distort")
    return kernels.color.linear_colors(image, *distort_line(image.dtype, args, key), out)


def check_prob(prob: float) -> None:
    """Raises if it is not a probability."""
    if not 0 <= prob <= 1:
        raise ValueError(f"prob must be from 0 to 1, got {prob}")


def distort_line(dtype: np.dtype, args: Any, key: Any) -> Line:
    """The drawn changes, of which each is made with a probability."""
    return kernels.color_draws.line_of(kernels.color_draws.DISTORT, key.value, change_numbers(dtype, args, args.prob))


@photometric_distort.ready
def _(specs: tuple[Spec, ...], args: Any) -> Any:
    if not of_bytes(specs[0], args):
        return None
    return kernels.color_draws.changing(kernels.color_draws.DISTORT, change_numbers(UINT8, args, args.prob))


for _op in (color_jitter, photometric_distort):
    _op.check(check_ranges)


# ----------------------------------------------------------------------------------------------------
# The light of a black body

DAYLIGHT = 6504.0  # kelvin: the white of sRGB, whose light changes nothing
FROM_XYZ = np.array(
    [[3.2404542, -1.5371385, -0.4985314], [-0.969266, 1.8760108, 0.041556], [0.0556434, -0.2040259, 1.0572252]]
)
# Sums of bell curves close to the CIE 1931 functions (Wyman, Sloan and Shirley, 2013): weight; middle, left and right deviation
# in nm.
BELLS = (
    ((1.056, 599.8, 37.9, 31.0), (0.362, 442.0, 16.0, 26.7), (-0.065, 501.1, 20.4, 26.2)),
    ((0.821, 568.8, 46.9, 40.5), (0.286, 530.9, 16.3, 31.1)),
    ((1.217, 437.0, 11.8, 36.0), (0.681, 459.0, 26.0, 13.8)),
)
GAMMA = 2.2


def tristimulus(temperature: float) -> np.ndarray:
    """X, Y and Z of the light of a black body, by Planck's law; Y is 1."""
    wave = np.arange(380.0, 781.0, 5.0)
    light = wave**-5 / np.expm1(1.4387769e7 / (wave * temperature))
    found = np.array(
        [
            sum(
                weight * (light * np.exp(-0.5 * ((wave - middle) / np.where(wave < middle, left, right)) ** 2)).sum()
                for weight, middle, left, right in bells
            )
            for bells in BELLS
        ]
    )
    return found / found[1]


@lru_cache(maxsize=256)
def planckian_factors(temperature: float) -> np.ndarray:
    """Factors of red, green and blue under this light instead of daylight; the luma of grey does not change."""
    ratio = np.clip(FROM_XYZ @ tristimulus(temperature), 1e-3, None) / (FROM_XYZ @ tristimulus(DAYLIGHT))
    factors = ratio ** (1 / GAMMA)
    return factors / (LUMA @ factors)


@operator(
    "planckian_jitter",
    compiled=True,
    gpu=True,
    takes=DTYPE
    | parameters(
        temperature=(Arg[float], None, "temperature of the light in kelvin, from 1000 to 40000; default: a random one"),
        between=(Floats, (3000.0, 15000.0), "lowest and highest random temperature"),
    ),
    layouts=COLOR_LAYOUTS,
    sequences=True,
    infer="like image",
    examples=["fn.planckian_jitter(image, between=(2500.0, 20000.0))"],
)
def planckian_jitter(image: Sample, /, *, args: Args, key: Any, out: Out) -> Sample:
    """Changes the image as if a black body lit it: reddish below 6500 kelvin, bluish above.

    The reciprocal of the random temperature is evenly distributed, because it corresponds to visible differences.
    """
    three_channels(image.shape, "planckian_jitter")
    return kernels.color.linear_colors(image, *planckian_line(args, key), out)


def check_temperature(temperature: float) -> None:
    """Raises an error for a temperature outside the supported range."""
    if not 1000 <= temperature <= 40000:
        raise ValueError(f"temperature must be from 1000 to 40000, got {temperature}")


def planckian_line(args: Any, key: Any) -> Line:
    """The factors of the given or the drawn temperature."""
    temperature = args.temperature
    if temperature is None:
        low, high = args.between
        temperature = 1 / key.uniform(0, 1 / low, 1 / high)
    check_temperature(temperature)
    return lit_by(math.floor(temperature + 0.5))


@lru_cache(maxsize=256)
def lit_by(temperature: int) -> Line:
    """The matrix of this light and an offset of 0, in the type of the kernels."""
    return np.diag(planckian_factors(temperature)).astype(np.float32), np.zeros(3, np.float32)


@planckian_jitter.ready
def _(specs: tuple[Spec, ...], args: Any) -> Any:
    if not of_bytes(specs[0], args):
        return None
    work, (first, last) = kernels.color.mixing_each(), (1 / end for end in args.between)
    extent, unit = last - first, kernels.keys.unit_of()
    if args.temperature is not None:
        line = planckian_line(args, seeds.Key(0))
        return lambda image, out, _key: work(image, out, *line)

    def run(image: np.ndarray, out: np.ndarray, key: int) -> np.ndarray:
        temperature = 1 / (first + extent * unit(key, 0))
        check_temperature(temperature)
        return work(image, out, *lit_by(math.floor(temperature + 0.5)))

    return run


@planckian_jitter.check
def _(args: Any) -> None:
    if len(args.between) != 2 or not 1000 <= args.between[0] <= args.between[1] <= 40000:
        raise ValueError(
            f"between must be two numbers from 1000 to 40000, the smaller one first, got {tuple(args.between)}"
        )
