"""Tones: invert, posterize, solarize, solarize_add, channel_shift, autocontrast, contrast_about_mean."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from pipeflow.declare import Arg, Floats, Out, Sample, Spec, default, operator, required
from pipeflow.kernels import cpu as kernels

PAGE = """These operators replace the values of images: they invert them, reduce the number of levels, or stretch them
over their range. These are the transformations that automatic augmentation uses, as Pillow and torchvision define them.
"""

ANY_LAYOUT = "HWC HW CHW FHWC FHW FCHW"


@operator("invert", infer="like image", layouts=ANY_LAYOUT, sequences=True, dtypes="uint8", gpu=True)
def invert(image: Sample, /, *, out: Out) -> Sample:
    """Replaces every value x by 255 - x."""
    np.invert(image, out=out)
    return out


@invert.ready
def _(_specs: tuple[Spec, ...], _args: Any) -> Any:
    return kernels.tones.changing_bits(255, 255)


@operator(
    "posterize",
    infer="like image",
    layouts=ANY_LAYOUT,
    sequences=True,
    dtypes="uint8",
    gpu=True,
    examples=["fn.posterize(image, bits=3)"],
)
def posterize(
    image: Sample,
    /,
    *,
    bits: Arg[int] = default(4, "number of high bits of a value that are kept, from 0 to 8"),
    out: Out,
) -> Sample:
    """Keeps the high bits of every value and clears the others."""
    np.bitwise_and(image, np.uint8(mask_of(bits)), out=out)
    return out


def mask_of(bits: int) -> int:
    """A byte with this number of high bits."""
    if not 0 <= bits <= 8:
        raise ValueError(f"bits must be from 0 to 8, got {bits}")
    return 0xFF00 >> bits & 0xFF


@posterize.ready
def _(_specs: tuple[Spec, ...], args: Any) -> Any:
    return kernels.tones.changing_bits(0, mask_of(args.bits))


@operator("solarize", compiled=True, infer="like image", layouts=ANY_LAYOUT, sequences=True, dtypes="uint8", gpu=True)
def solarize(
    image: Sample, /, *, threshold: Arg[float] = default(128.0, "values from this one on are inverted"), out: Out
) -> Sample:
    """Inverts the values that are not below a threshold."""
    return kernels.tones.solarize(image, threshold, out)


@solarize.ready
def _(_specs: tuple[Spec, ...], args: Any) -> Any:
    return kernels.tones.solarizing(args.threshold)


@operator(
    "solarize_add", compiled=True, infer="like image", layouts=ANY_LAYOUT, sequences=True, dtypes="uint8", gpu=True
)
def solarize_add(
    image: Sample,
    /,
    *,
    shift: Arg[int] = default(50, "number that is added"),
    threshold: Arg[float] = default(128.0, "values from this one on do not change"),
    out: Out,
) -> Sample:
    """Adds a number to the values below a threshold; results are limited to 0 to 255."""
    return kernels.tones.raised(image, threshold, shift, out)


@solarize_add.ready
def _(_specs: tuple[Spec, ...], args: Any) -> Any:
    return kernels.tones.raising(args.threshold, args.shift)


@operator(
    "channel_shift",
    compiled=True,
    gpu=True,
    infer="like image",
    layouts="HWC FHWC",
    sequences=True,
    dtypes="uint8",
    examples=["fn.channel_shift(image, shift=[20.0, -10.0, 5.0])"],
)
def channel_shift(
    image: Sample, /, *, shift: Arg[Floats] = required("added value, one number or one for each channel"), out: Out
) -> Sample:
    """Adds a number to each channel; results are limited to 0 to 255."""
    check_shift(shift, image.shape[-1])
    return kernels.tones.shifted(image, shift, out)


def check_shift(shift: Sequence[float], channels: int) -> None:
    """Raises an error unless there is one number, or one for each channel."""
    if len(shift) not in (1, channels):
        raise ValueError(f"shift must be one number or {channels}, one a channel, got {len(shift)}")


@channel_shift.ready
def _(specs: tuple[Spec, ...], args: Any) -> Any:
    check_shift(args.shift, specs[0].shape[-1])
    return kernels.tones.shifting(args.shift)


@operator(
    "autocontrast", compiled=True, infer="like image", layouts=ANY_LAYOUT, sequences=True, dtypes="uint8", gpu=True
)
def autocontrast(image: Sample, /, *, out: Out, layouts: Any) -> Sample:
    """Stretches every channel so that its smallest value becomes 0 and its largest 255; a channel with only one value
    does not change.
    """
    if layouts[0] == "CHW":
        for plane, result in zip(image, out, strict=True):
            kernels.tones.autocontrast(plane[..., None], result[..., None])
        return out
    if layouts[0] == "HW":
        kernels.tones.autocontrast(image[..., None], out[..., None])
        return out
    return kernels.tones.autocontrast(image, out) if image.size else out


@autocontrast.ready
def _(specs: tuple[Spec, ...], _args: Any) -> Any:
    shape = specs[0].shape
    return None if specs[0].layout != "HWC" or 0 in shape else kernels.tones.autocontrasting(shape[-1])


@operator(
    "contrast_about_mean",
    compiled=True,
    infer="like image",
    layouts="HWC FHWC",
    sequences=True,
    dtypes="uint8",
    gpu=True,
)
def contrast_about_mean(
    image: Sample, /, *, contrast: Arg[float] = default(1.0, "factor of the distance from the mean"), out: Out
) -> Sample:
    """Changes contrast around the mean grey of the image, as Pillow and torchvision do."""
    return kernels.tones.contrast_about_mean(image, contrast, out) if image.size else out


@contrast_about_mean.ready
def _(specs: tuple[Spec, ...], args: Any) -> Any:
    shape = specs[0].shape
    return kernels.tones.contrasting_about_mean(args.contrast) if shape[-1] == 3 and 0 not in shape else None
