"""The largest, the smallest or the middle value of a window around every pixel: dilate, erode, median_blur.

DALI has these on the GPU only. Sizes and anchors are width before height, as there.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from pipeflow.declare import (
    UNKNOWN,
    Arg,
    Args,
    Ints,
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
from pipeflow.operators.axes import some_pixels
from pipeflow.operators.filters import over_planes, planes_of

LAYOUTS = "HWC HW CHW FHWC FHW FCHW"
BORDERS = ("constant", "replicate", "reflect", "reflect_101", "wrap")
KINDS = "bool uint8 int8 uint16 int16 uint32 int32 float16 float32 float64"
WINDOW = parameters(
    mask_size=(Arg[Ints], (3, 3), "width and height of the window; one number for both"),
    anchor=(Arg[Ints], (-1, -1), "position of the pixel in its window, to the right and down; -1 is the middle"),
    border_mode=(
        str,
        "constant",
        "values outside the image: none (`constant`), or `replicate`, `reflect`, `reflect_101` or `wrap`",
    ),
    iterations=(int, 1, "number of repetitions"),
)


def pair(values: Sequence[int], name: str) -> tuple[int, int]:
    """A width and a height; one number is used for both."""
    if len(values) not in (1, 2):
        raise ValueError(f"{name} must be one or two numbers, got {tuple(values)}")
    return values[0], values[-1]


def window_of(args: Any) -> tuple[tuple[int, int], tuple[int, int]]:
    """Size and anchor of the window."""
    size, anchor = pair(args.mask_size, "mask_size"), pair(args.anchor, "anchor")
    if min(size) < 1:
        raise ValueError(f"mask_size must be positive, got {size}")
    for place, extent in zip(anchor, size):
        if not -1 <= place < extent:
            raise ValueError(f"anchor {anchor} is not in the window of {size[0]} x {size[1]}")
    return size, tuple(extent // 2 if place == -1 else place for place, extent in zip(anchor, size))


@operator(
    "dilate",
    takes=WINDOW,
    infer="like image",
    layouts=LAYOUTS,
    sequences=True,
    dtypes=KINDS,
    gpu=True,
    examples=["fn.dilate(image)", "fn.dilate(plane, mask_size=(5, 3), anchor=(0, 0), iterations=2)"],
)
def dilate(image: Sample, /, *, args: Args, out: Out, layouts: Any) -> Sample:
    """Replaces every pixel by the largest value in a window around it, channel by channel: bright areas grow."""
    return extremes(image, True, args, layouts[0], out)


@operator(
    "erode",
    takes=WINDOW,
    infer="like image",
    layouts=LAYOUTS,
    sequences=True,
    dtypes=KINDS,
    gpu=True,
    examples=["fn.erode(image)", "fn.erode(plane, mask_size=(5, 3), border_mode='wrap')"],
)
def erode(image: Sample, /, *, args: Args, out: Out, layouts: Any) -> Sample:
    """Replaces every pixel by the smallest value in a window around it, channel by channel: bright areas shrink."""
    return extremes(image, False, args, layouts[0], out)


def extremes(image: np.ndarray, largest: bool, args: Any, layout: str, out: np.ndarray) -> np.ndarray:
    """Applies dilate or erode to one image."""
    some_pixels(image.shape)
    size, anchor = window_of(args)
    for source, target in planes_of(image, out, layout):
        kernels.morphology.extremes(source, largest, size, anchor, args.border_mode, args.iterations, target)
    return out


def _checked(op: OpFunction) -> None:
    @op.check
    def _(args: Any) -> None:
        if args.border_mode not in BORDERS:
            raise ValueError(f"border_mode must be one of {', '.join(BORDERS)}, got {args.border_mode!r}")
        if args.iterations < 0:
            raise ValueError(f"iterations must not be negative, got {args.iterations}")


_checked(dilate)
_checked(erode)


def _shortened(op: OpFunction, largest: bool) -> None:
    @op.ready
    def _(specs: tuple[Spec, ...], args: Any) -> Any:
        image, (size, anchor) = specs[0], window_of(args)
        if 0 in image.shape:
            return None
        extents = [image.shape[image.layout.index(letter)] for letter in "HW"]
        work = kernels.morphology.extreme(
            extents, image.dtype, largest, size, anchor, args.border_mode, args.iterations
        )
        return None if work is None else over_planes(image.layout, work)


_shortened(dilate, True)
_shortened(erode, False)


def median_window(window_size: Sequence[int]) -> tuple[int, int]:
    """Width and height of the window of a median."""
    size = pair(window_size, "window_size")
    if any(extent < 1 or extent % 2 == 0 for extent in size):
        raise ValueError(f"window_size must be odd and positive, got {size}")
    return size


@operator(
    "median_blur",
    compiled=True,
    infer="like image",
    layouts=LAYOUTS,
    sequences=True,
    dtypes=KINDS,
    gpu=True,
    examples=["fn.median_blur(image, window_size=5)", "fn.median_blur(plane, window_size=(3, 7))"],
)
def median_blur(
    image: Sample,
    /,
    *,
    window_size: Arg[Ints] = default((3, 3), "width and height of the window, both odd; one number for both"),
    out: Out,
    layouts: Any,
) -> Sample:
    """Replaces every pixel by the median of a window around it, channel by channel; outside the image the border pixels
    are repeated.
    """
    some_pixels(image.shape)
    size = median_window(window_size)
    for source, target in planes_of(image, out, layouts[0]):
        kernels.morphology.medians(source, size, target)
    return out


@median_blur.ready
def _(specs: tuple[Spec, ...], args: Any) -> Any:
    size, work = median_window(args.window_size), kernels.morphology.medians
    return None if 0 in specs[0].shape else over_planes(specs[0].layout, lambda image, out: work(image, size, out))


@median_blur.check
def _(args: Any) -> None:
    if args.window_size is not UNKNOWN:
        median_window(args.window_size)


for _op in (dilate, erode, median_blur):
    alias(_op, f"experimental.{_op.name}")
