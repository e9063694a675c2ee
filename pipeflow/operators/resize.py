"""Resizing: resize, random_resized_crop, resize_crop_mirror; `sampling.py` has their geometry."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from pipeflow.declare import (
    DTYPE,
    UNKNOWN,
    Arg,
    Args,
    Drawn,
    Floats,
    KernelCalls,
    Out,
    Sample,
    Spec,
    SpecColumn,
    UnknownValue,
    alias,
    operator,
    parameters,
    require,
    required,
)
from pipeflow.kernels import cpu as kernels
from pipeflow.operators.crop_tables import crop_extents_of, place_windows
from pipeflow.operators.image_calls import FLOAT, UINT8, WHOLE, Resize, needed, planned, resized
from pipeflow.operators.sampling import (
    FILTERS,
    REGION,
    RESIZE,
    RESIZED_BY,
    Axis,
    asked_by,
    axes_table,
    filter_numbers,
    known_sizes,
    resize_axes,
    resize_numbers,
    resize_table,
    resized_spec,
    run,
    spatial_axes,
    taps_of,
    whole_pixels,
)
from pipeflow.operators.windows import (
    CROP_WINDOW,
    RANDOM_WINDOW,
    check_random_window,
    crop_extents,
    place_window,
    random_window,
    random_window_calls,
    random_windows,
)

PAGE = """Sizes may be given by axis, by the shorter or the longer side, or as limits; a region of the image may be
resized instead of the whole image. [Image operators](../image-operators.md) has examples.
"""


LAYOUTS = "HWC FHWC CHW FCHW CFHW DHWC FDHWC CDHW FCDHW CFDHW"
IGNORED = {
    "image_type": "no longer used: all channels are resized in the same way",
    "minibatch_size": "samples are resized one by one",
    "temp_buffer_hint": "intermediate rows are in a few kilobytes of the thread's own memory",
}


SAVE_ATTRS = parameters(save_attrs=(bool, False, "return the extents of the input as a second output"))
MIRROR = parameters(mirror=(Arg[int], 0, "1 mirrors left to right, 2 top to bottom, 4 front to back; or a sum of them"))


@operator(
    "resize",
    compiled=True,
    begins_in_numpy=True,
    takes=RESIZE | FILTERS | REGION | SAVE_ATTRS | DTYPE,
    layouts=LAYOUTS,
    sequences=True,
    once=[1],
    gpu=True,
    no_effect=IGNORED,
    examples=["fn.resize(image, size=(20, 30))"],
)
def resize(image: Sample, /, *, args: Args, out: Out, layouts: Any) -> Sample:
    """Resizes images, volumes and sequences of them.

    ``size`` gives the spatial extents in the order of the layout; 0 keeps the aspect ratio, a negative extent mirrors.
    With ``mode="not_larger"`` or ``"not_smaller"`` the ratio is kept and the extents are limits. ``antialias`` widens
    the filter if the image becomes smaller. The region between ``roi_start`` and ``roi_end`` is resized instead of the
    whole image; reversed bounds mirror. Sums are float32 for every type.
    """
    first, count = spatial_axes(layouts[0])
    extents = image.shape[first : first + count]
    axes = resize_axes(extents, layouts[0][first : first + count], args)
    target = out[0] if args.save_attrs else out
    if callable(target):
        shape = (*image.shape[:first], *(axis.extent for axis in axes), *image.shape[first + count :])
        target = target(shape, args.dtype or image.dtype)
    run(image, layouts[0], axes, args, target)
    return (target, np.array(extents, np.int32)) if args.save_attrs else target


@resize.outputs
def _(args: Any) -> int:
    return 2 if args.save_attrs else 1


MODES = ("default", "stretch", "not_larger", "not_smaller")


@resize.check
def _(args: Any) -> None:
    if args.mode not in MODES:
        raise ValueError(f"mode must be one of {', '.join(MODES)}, got {args.mode!r}")
    asked_by(args)


@resize.infer
def _(specs: tuple[Spec, ...], args: Any) -> Any:
    layout = specs[0].layout
    first, count = spatial_axes(layout)
    letters = layout[first : first + count]
    extents: list[Any] | None = known_sizes(letters, args)
    if extents is None:
        try:
            axes = resize_axes(specs[0].shape[first : first + count], letters, args)
            extents = [axis.extent for axis in axes]
        except UnknownValue:
            extents = [UNKNOWN] * count
    spec = resized_spec(specs[0], args, extents)
    return (spec, Spec((count,), np.int32, "")) if args.save_attrs else spec


@resize.ready
def _(specs: tuple[Spec, ...], args: Any) -> Any:
    return None if args.save_attrs else sampling_ready(specs, args, resize_axes)


def sampling_ready(specs: tuple[Spec, ...], args: Any, axes_of: Callable[..., list[Axis]]) -> Any:
    """The short form of a resize with these axes."""
    first, count = spatial_axes(specs[0].layout)
    axes = axes_of(specs[0].shape[first : first + count], specs[0].layout[first : first + count], args)
    taps = taps_of(axes, args)
    if first == 0 and not kernels.start.state.choosing:
        wanted, dtype = tuple([len(starts) for starts, _ in taps]), specs[0].dtype
        given = (*specs[0].shape[:count], math.prod(specs[0].shape[count:]))
        work = kernels.resample.resampling(given, (*wanted, given[-1]), dtype, args.dtype or dtype, taps)
        if work is not None:
            return work
    return lambda image, out: kernels.everyday.resample_any(image, first, taps, out)


@resize.rows
def _(specs: tuple[SpecColumn, ...], args: Any, _keys: np.ndarray) -> np.ndarray:
    return resize_table(specs, args)


@resize.samples
def _(extents: Sequence[int], args: Any) -> list[Axis]:
    return resize_axes(extents, "HW", args)


resize.samples_calls(resize_numbers)
resize.varying(*RESIZED_BY)


@resize.calls
def _(calls: KernelCalls) -> None:
    calls.require(not calls.args.save_attrs)
    resized(calls, calls.args.dtype, WHOLE, resize_numbers)


@resize.reads_calls
def _(calls: KernelCalls, height: Any, width: Any) -> Sequence[Any]:
    return needed(calls, planned(calls, height, width, WHOLE, resize_numbers, calls.args), height, width)


def load_resize(args: Any, _dtype: np.dtype | None) -> None:
    """Loads or compiles the kernels of programs that resize."""
    programs = kernels.image_programs
    if args.dtype in (None, UINT8, FLOAT):
        programs.load(programs.resizing_kernel(args.dtype or UINT8))


resize.loads(load_resize)


alias(resize, "experimental.resize")


@operator(
    "resize_crop_mirror",
    compiled=True,
    begins_in_numpy=True,
    takes=RESIZE | FILTERS | REGION | CROP_WINDOW | MIRROR | DTYPE,
    layouts=LAYOUTS,
    sequences=True,
    gpu=True,
    no_effect=IGNORED,
    examples=["fn.resize_crop_mirror(image, size=(20, 30), crop=(10, 12), mirror=1)"],
)
def resize_crop_mirror(image: Sample, /, *, args: Args, out: Out, layouts: Any) -> Sample:
    """Resizes, crops the result and mirrors it in one pass over the input; only the kept window is computed.

    ``mirror`` is 1 for horizontal, 2 for vertical, 4 for depth, or a sum of them.
    """
    first, count = spatial_axes(layouts[0])
    axes = cropped_axes(image.shape[first : first + count], layouts[0][first : first + count], args)
    if callable(out):
        shape = (*image.shape[:first], *(axis.extent for axis in axes), *image.shape[first + count :])
        out = out(shape, args.dtype or image.dtype)
    return run(image, layouts[0], axes, args, out)


def cropped_axes(extents: Sequence[int], letters: str, args: Any) -> list[Axis]:
    """The axes of a resize whose result is cropped and mirrored."""
    axes = resize_axes(extents, letters, args)
    full = [axis.full for axis in axes]
    kept = crop_extents(letters, full, args)
    anchors = place_window(letters, full, kept, args)
    for letter, size, anchor, whole in zip(letters, kept, anchors, full, strict=True):
        if anchor < 0 or anchor + size > whole:
            raise ValueError(f"the crop of {size} along {letter} is larger than the resized image, which has {whole}")
    mirror = 0 if args.mirror is UNKNOWN else args.mirror  # it does not change the extents
    mirrored = {"W": bool(mirror & 1), "H": bool(mirror & 2), "D": bool(mirror & 4)}
    return [
        replace(axis, first=anchor, count=size, mirror=mirrored[letter])
        for axis, letter, anchor, size in zip(axes, letters, anchors, kept, strict=True)
    ]


@resize_crop_mirror.ready
def _(specs: tuple[Spec, ...], args: Any) -> Any:
    return sampling_ready(specs, args, cropped_axes)


@resize_crop_mirror.rows
def _(specs: tuple[SpecColumn, ...], args: Any, _keys: np.ndarray) -> np.ndarray:
    table = resize_table(specs, args)
    axes, layout = table["axes"], specs[0].layout
    first, count = spatial_axes(layout)
    letters, full = layout[first : first + count], axes["full"]
    kept = crop_extents_of(letters, full, args)
    anchors = place_windows(letters, full, kept, args)
    require((anchors >= 0) & (anchors + kept <= full))
    axes["first"], axes["count"] = anchors, kept
    table["shape"][:, first : first + count] = kept
    for axis, letter in enumerate(letters):
        axes["mirror"][:, axis] = np.bitwise_and(args.mirror, {"W": 1, "H": 2, "D": 4}[letter]) != 0
    return table


@resize_crop_mirror.samples
def _(extents: Sequence[int], args: Any) -> list[Axis]:
    return cropped_axes(extents, "HW", args)


@resize_crop_mirror.infer
def _(specs: tuple[Spec, ...], args: Any) -> Spec:
    layout = specs[0].layout
    first, count = spatial_axes(layout)
    letters = layout[first : first + count]
    kept = crop_extents(letters, [0] * count, args)
    if all(kept):
        return resized_spec(specs[0], args, kept)
    return resized_spec(
        specs[0], args, [a.extent for a in cropped_axes(specs[0].shape[first : first + count], letters, args)]
    )


@operator(
    "random_resized_crop",
    compiled=True,
    begins_in_numpy=True,
    takes=RANDOM_WINDOW | FILTERS | DTYPE,
    layouts="HWC CHW FHWC FCHW CFHW",
    sequences=True,
    gpu=True,
    no_effect=IGNORED,
    examples=["fn.random_resized_crop(image, size=(20, 30))"],
)
def random_resized_crop(
    image: Sample,
    /,
    *,
    size: Arg[Floats] = required("height and width of the result; one number: a square"),
    args: Args,
    window: Drawn[tuple],
    out: Out,
    layouts: Any,
) -> Sample:
    """Crops a random window, by area and aspect ratio, and resizes it to ``size``."""
    first, count = spatial_axes(layouts[0])
    axes = window_axes(image.shape[first : first + count], size, window)
    if callable(out):
        shape = (*image.shape[:first], *(axis.extent for axis in axes), *image.shape[first + count :])
        out = out(shape, args.dtype or image.dtype)
    return run(image, layouts[0], axes, args, out)


def window_axes(extents: Sequence[int], size: Sequence[float], window: tuple[int, int, int, int]) -> list[Axis]:
    """A window (top, left, height, width) resized to `size` (one number: a square)."""
    height, width = (whole_pixels(one) for one in (size if len(size) == 2 else (size[0], size[0])))
    top, left, tall, wide = window
    return [Axis(extents[0], top, top + tall, height), Axis(extents[1], left, left + wide, width)]


@random_resized_crop.rows
def _(specs: tuple[SpecColumn, ...], args: Any, keys: np.ndarray) -> np.ndarray:
    first, count = spatial_axes(specs[0].layout)
    require(specs[0].shapes.all())
    extents = specs[0].shapes[:, first : first + count]
    size = args.size  # the same for all samples, or a row for each
    full = _rows_of_sizes(size) if isinstance(size, np.ndarray) else _row_of_size(tuple(size))
    starts, sizes = random_windows(keys, extents, args.random_area, args.random_aspect_ratio, args.num_attempts)
    return axes_table(specs, args, extents, starts, starts + sizes, full)


def _rows_of_sizes(sizes: np.ndarray) -> np.ndarray:
    require((sizes.shape[-1] in (1, 2)) and (sizes > 0).all())
    return np.maximum(1, np.floor(sizes + 0.5)).astype(np.int64)


_row_of_size = lru_cache(maxsize=64)(lambda size: _rows_of_sizes(np.array(size)))


@random_resized_crop.samples
def _(extents: Sequence[int], args: Any) -> list[Axis]:
    return window_axes(extents, args.size, args.window)


def window_numbers(calls: KernelCalls, args: Any, height: Any, width: Any) -> Resize:
    """The resize of a random window for programs of kernel calls."""
    size = args.size if len(args.size) == 2 else (args.size[0], args.size[0])
    extents = *(float(whole_pixels(one)) for one in size), kernels.image_programs.EACH, False
    region = random_window_calls(calls, args, height, width)
    return Resize(tuple(region), extents, filter_numbers(args))


random_resized_crop.samples_calls(window_numbers)
random_resized_crop.varying("key")


@random_resized_crop.calls
def _(calls: KernelCalls) -> None:
    resized(calls, calls.args.dtype, WHOLE, window_numbers)


@random_resized_crop.reads_calls
def _(calls: KernelCalls, height: Any, width: Any) -> Sequence[Any]:
    return needed(calls, planned(calls, height, width, WHOLE, window_numbers, calls.args), height, width)


random_resized_crop.loads(load_resize)


@random_resized_crop.check
def _(args: Any) -> None:
    if len(args.size) not in (1, 2) or any(extent <= 0 for extent in args.size):
        raise ValueError(f"size must be one or two positive numbers, got {args.size}")
    check_random_window(args)


@random_resized_crop.infer
def _(specs: tuple[Spec, ...], args: Any) -> Spec:
    size = args.size if len(args.size) == 2 else (args.size[0], args.size[0])
    return resized_spec(specs[0], args, [whole_pixels(extent) for extent in size])


@random_resized_crop.draw
def _(key: Any, specs: tuple[Spec, ...], args: Any) -> dict[str, Any]:
    first, count = spatial_axes(specs[0].layout)
    height, width = specs[0].shape[first : first + count]
    return {"window": random_window(key, height, width, args.random_area, args.random_aspect_ratio, args.num_attempts)}
