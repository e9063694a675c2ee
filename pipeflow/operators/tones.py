"""Tones: invert, posterize, solarize, solarize_add, channel_shift, autocontrast, contrast_about_mean."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from pipeflow.declare import Arg, Args, Floats, KernelCalls, Out, Sample, Spec, default, operator, required
from pipeflow.kernels import cpu as kernels
from pipeflow.operators.image_calls import real

PAGE = """These operators replace the values of images: they invert them, reduce the number of levels, or stretch them
over their range. These are the transformations that automatic augmentation uses, as Pillow and torchvision define them.
"""

ANY_LAYOUT = "HWC HW CHW FHWC FHW FCHW"
UINT8 = np.dtype(np.uint8)


def by_values(calls: KernelCalls, kernel: Any, *numbers: Any) -> None:
    """Replaces each byte as a kernel of (bytes, *numbers, result) does, by a table if this is faster."""
    tables, image = kernels.byte_tables, calls.input
    calls.require(image.dtype == UINT8)
    calls.need(kernels.tones.of_values())
    out = calls.output_like_input(UINT8)
    if tables.fast():
        table = calls.scratch((256,), UINT8)
        calls.call(kernel, tables.VALUES, *numbers, table)
        calls.call(tables.translate_flat, image.flat, table, out.flat)
    else:
        calls.call(kernel, image.flat, *numbers, out.flat)


def by_channels(calls: KernelCalls, kernel: Any) -> None:
    """Replaces the bytes of an image as a kernel of (bytes, number of channels, result) does."""
    image, layout = calls.input, calls.layouts[0]
    calls.require(image.dtype == UINT8 and layout in ("HWC", "HW"))
    calls.need([(kernel, kernels.tones.OF_CHANNELS)])
    channels = image.extents[2] + 0 if layout == "HWC" else 1
    calls.call(kernel, image.flat, channels, calls.output_like_input(UINT8).flat)


def _each(value: Any, count: int) -> np.ndarray:
    """An argument for each of so many samples."""
    return np.broadcast_to(np.asarray(value, np.float64), count)


@operator("invert", infer="like image", layouts=ANY_LAYOUT, sequences=True, dtypes="uint8", gpu=True)
def invert(image: Sample, /, *, out: Out) -> Sample:
    """Replaces every value x by 255 - x."""
    np.invert(image, out=out)
    return out


@invert.ready
def _(_specs: tuple[Spec, ...], _args: Any) -> Any:
    return kernels.tones.changing_bits(255, 255)


@invert.calls
def _(calls: KernelCalls) -> None:
    by_values(calls, kernels.tones.mask_bytes, 255, 255)


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


@posterize.calls
def _(calls: KernelCalls) -> None:
    def masks(args: Args, count: int) -> np.ndarray:
        return np.array([[mask_of(int(bits))] for bits in _each(args.bits, count)], np.int64)

    by_values(calls, kernels.tones.mask_bytes, 0, *calls.integers(masks))


posterize.varying("bits")


@operator("solarize", compiled=True, infer="like image", layouts=ANY_LAYOUT, sequences=True, dtypes="uint8", gpu=True)
def solarize(
    image: Sample, /, *, threshold: Arg[float] = default(128.0, "values from this one on are inverted"), out: Out
) -> Sample:
    """Inverts the values that are not below a threshold."""
    return kernels.tones.solarize(image, threshold, out)


@solarize.ready
def _(_specs: tuple[Spec, ...], args: Any) -> Any:
    return kernels.tones.solarizing(args.threshold)


@solarize.calls
def _(calls: KernelCalls) -> None:
    def limits(args: Args, count: int) -> np.ndarray:
        limit = _each(args.threshold, count)[:, None]
        return np.where(limit <= 255, np.clip(np.ceil(limit), 0, 255), 256).astype(np.int64)

    by_values(calls, kernels.tones.solarize_bytes, *calls.integers(limits))


solarize.varying("threshold")


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


@solarize_add.calls
def _(calls: KernelCalls) -> None:
    def numbers(args: Args, count: int) -> np.ndarray:
        each = zip(_each(args.threshold, count).tolist(), _each(args.shift, count).tolist())
        return np.array([kernels.tones.raise_numbers(limit, int(shift)) for limit, shift in each], np.int64)

    by_values(calls, kernels.tones.raise_bytes, *calls.integers(numbers))


solarize_add.varying("shift", "threshold")


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


@channel_shift.calls
def _(calls: KernelCalls) -> None:
    image, shifts = calls.input, kernels.tones.repeated(tuple(calls.args.shift))
    calls.require(image.dtype == UINT8)
    calls.require(len(calls.args.shift) == 1 or image.extents[-1] == len(calls.args.shift))
    calls.need([(kernels.tones.shift_bytes, kernels.jit.types_of(kernels.jit.BYTES, shifts, kernels.jit.BYTES))])
    calls.call(kernels.tones.shift_bytes, image.flat, shifts, calls.output_like_input(UINT8).flat)


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


@autocontrast.calls
def _(calls: KernelCalls) -> None:
    by_channels(calls, kernels.tones.autocontrast_bytes)


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


@contrast_about_mean.calls
def _(calls: KernelCalls) -> None:
    tones, image = kernels.tones, calls.input
    calls.require(image.dtype == UINT8 and calls.layouts[0] == "HWC")
    calls.require(image.extents[2] == 3)
    calls.need([(tones.contrast_rgb_bytes_by, tones.OF_CONTRAST)])
    out = calls.output_like_input(UINT8)
    calls.call(tones.contrast_rgb_bytes_by, image.flat, real(calls.args.contrast), tones.GREY, out.flat)


contrast_about_mean.varying("contrast")
