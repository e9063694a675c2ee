"""Resizes, crops and normalisations of images of bytes as calls of compiled kernels, alone and one after another.

Each operator is a window of a grid of pixels, to which a region of an image is resized. So the part of the image that it reads
is known before the image is decoded, and the decoder decodes only this part.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from pipeflow.declare import KernelArray, KernelCalls, Number, Real
from pipeflow.kernels import cpu as kernels
from pipeflow.operators.windows import crop_extents

UINT8, FLOAT, FLOAT64 = np.dtype(np.uint8), np.dtype(np.float32), np.dtype(np.float64)


class Resize(NamedTuple):
    """A resize as numbers for the kernels of `image_programs`."""

    region: tuple[Any, ...]  # top, left, height and width of the part that is resized
    extents: tuple[Any, ...]  # extents of the result, the mode that combines them, and True if the scale is exact
    filters: tuple[Any, ...]


class ResizeAndWindow(NamedTuple):
    """A resize (None: no resize), and the window that is kept of its result or of the image."""

    resize: Resize | None
    window: Sequence[Any]


def wait_for(calls: KernelCalls, kernel: Any) -> None:
    """Raises NotReady until programs with this kernel of `image_programs` can be made."""
    wanted = [*kernels.image_programs.geometry_kernels(), kernel]
    calls.wait_for(not kernels.start.state.choosing and all(kernels.jit.kept(*one) for one in wanted), wanted)


def real(number: Any) -> Any:
    """A floating-point number, which may differ from sample to sample."""
    return number if isinstance(number, Real) else float(number)


def cropping(args: Any) -> tuple[Any, ...]:
    """The crop of an operator's arguments as numbers: height, width (0: all), position, and True if it is rounded."""
    position = real(args.crop_pos_y), real(args.crop_pos_x)
    return *crop_extents("HW", (0, 0), args), *position, args.rounding == "round"


WHOLE = 0, 0, 0.5, 0.5, True  # no crop
Head = Callable[[KernelCalls, Any, Any, Any], Resize]


def planned(
    calls: KernelCalls, height: Any, width: Any, crop: tuple[Any, ...], head: Head | None, args: Any
) -> ResizeAndWindow:
    """The work of a step on an image of these extents. It is computed once for all hooks of the step."""
    if calls.plan is None:
        programs = kernels.image_programs
        resize = None if head is None else head(calls, args, height, width)
        used = (height, width) if resize is None else resize.region[2:]
        extents = (0.0, 0.0, programs.EACH, False) if resize is None else resize.extents
        window = calls.read(programs.window_of, *used, *extents, *crop)
        calls.require(window[2] > 0)
        calls.plan = ResizeAndWindow(resize, window)
    return calls.plan


def needed(calls: KernelCalls, plan: ResizeAndWindow, height: Any, width: Any) -> Sequence[Any]:
    """The part of an image that the step reads."""
    if plan.resize is None:
        return plan.window
    return calls.read(kernels.image_programs.source_window, height, width, *_numbers(plan))


def _numbers(plan: ResizeAndWindow) -> tuple[Any, ...]:
    assert plan.resize is not None
    return *plan.resize.region, *plan.resize.extents, *plan.resize.filters, *plan.window


def whole_image(image: KernelArray) -> tuple[Any, ...]:
    """(top, left) of the part of an image that is in memory, and (height, width) of the whole image."""
    return image.window_of or (0, 0, *image.extents[:2])


def is_image(calls: KernelCalls, channels: int | None = None) -> KernelArray:
    """The input, an image of bytes that has pixels; other inputs have no record."""
    image = calls.input
    calls.require(calls.layouts[0] == "HWC" and image.dtype == UINT8)
    calls.require(image.extents[0] * image.extents[1] > 0)
    calls.require(image.extents[2] == channels if channels else image.extents[2] > 0)
    return image


def resized(calls: KernelCalls, dtype: Any, crop: tuple[Any, ...], head: Head) -> None:
    """A resize as a step of its own."""
    programs = kernels.image_programs
    calls.require(dtype in (None, UINT8, FLOAT))
    dtype = dtype or UINT8
    image = is_image(calls)
    wait_for(calls, programs.resizing_kernel(dtype))
    _, _, height, width = whole_image(image)
    plan = planned(calls, height, width, crop, head, calls.args)
    out = calls.output((plan.window[2], plan.window[3], image.extents[2]), dtype)
    calls.call(programs.resize_image, image, geometry_of(calls, image, plan, 0), out)


def geometry_of(calls: KernelCalls, image: KernelArray, plan: ResizeAndWindow, mirror: Any) -> KernelArray:
    """The resize in the form that the kernels read."""
    programs = kernels.image_programs
    geometry = calls.scratch((2 * programs.AXIS,), FLOAT64)
    top, left, height, width = whole_image(image)
    calls.call(programs.describe, top, left, height, width, *_numbers(plan), mirror, geometry)
    return geometry


def normalized(
    calls: KernelCalls,
    args: Any,
    plan: ResizeAndWindow,
    numbers: tuple[Any, ...],
    rounds: bool,
    image: KernelArray,
    planes: bool,
) -> None:
    """Mirrors and normalises a window of the image, or of the resized image. ``numbers`` are mean, factor and shift."""
    programs = kernels.image_programs
    rows, columns = plan.window[2:]
    made = calls.output((3, rows, columns) if planes else (rows, columns, 3), args.dtype)
    out = KernelArray(made.address, made.extents, programs.raw_type(args.dtype))
    mirror = args.mirror + 0 if isinstance(args.mirror, Number) else int(args.mirror)
    kernel, _ = programs.normalizing_kernel(plan.resize is not None, planes, args.dtype)
    if plan.resize is not None:
        calls.call(kernel, image, geometry_of(calls, image, plan, mirror), *numbers, rounds, out)
        return
    top, left, _, _ = whole_image(image)
    calls.call(kernel, image, plan.window[0] - top, plan.window[1] - left, mirror, *numbers, out)
