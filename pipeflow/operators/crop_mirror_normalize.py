"""crop_mirror_normalize: a window of an image, mirrored, normalised and turned into a tensor in one pass."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from pipeflow.declare import (
    FORMER_DTYPE,
    UNKNOWN,
    Arg,
    Args,
    DType,
    Floats,
    KernelCalls,
    Layout,
    Out,
    Sample,
    Spec,
    SpecColumn,
    operator,
    parameters,
    require,
)
from pipeflow.kernels import cpu as kernels
from pipeflow.operators.axes import spatial
from pipeflow.operators.crop_tables import columns_of, crop_cuts
from pipeflow.operators.geometry import CROP_LAYOUTS, NO_IMAGE_TYPE, check_policy, check_rounding
from pipeflow.operators.image_calls import (
    Head,
    ResizeAndWindow,
    cropping,
    is_image,
    needed,
    planned,
    wait_for,
    whole_image,
)
from pipeflow.operators.image_calls import normalized as normalize_calls
from pipeflow.operators.sampling import Axis, cropped, mirrored, taps_of
from pipeflow.operators.windows import (
    CROP_WINDOW,
    OUT_OF_BOUNDS,
    crop_extents,
    cut,
    cuts_frames,
    place_cut,
    place_window,
    window_of,
)

PAGE = """The last step of most image pipelines: a window of each image, mirrored and normalised, as a tensor."""


FLOAT = np.dtype(np.float32)
FUSED = {
    np.dtype(np.float32),
    np.dtype(np.float16),
    np.dtype(np.uint8),
    np.dtype(np.int8),
}  # the types of results that one pass over a resized image supports
NORMALIZATION = parameters(
    mirror=(Arg[bool], False, "mirror the window left to right"),
    mean=(Arg[Floats], (0.0,), "value that is subtracted: one number, or one for each channel"),
    std=(Arg[Floats], (1.0,), "value by which the difference is divided: one number, or one for each channel"),
    scale=(float, 1.0, "factor of the quotient"),
    shift=(float, 0.0, "value that is added at the end"),
    output_layout=(Layout, "CHW", "layout of the result: `CHW` has the channels before the pixels, `HWC` after them"),
    pad_output=(
        bool,
        False,
        "add channels until their number is a power of two: of zeros, or of `fill_values` with `out_of_bounds_policy='pad'`",
    ),
    dtype=(DType, FLOAT, "type of the result; integers are rounded and limited to their range"),
)


@operator(
    "crop_mirror_normalize",
    compiled=True,
    begins_in_numpy=True,
    takes=CROP_WINDOW | OUT_OF_BOUNDS | NORMALIZATION,
    layouts=CROP_LAYOUTS,
    sequences=True,
    whole=cuts_frames,
    gpu=True,
    staged=True,
    no_effect=NO_IMAGE_TYPE,
    former=FORMER_DTYPE,
    examples=["fn.crop_mirror_normalize(image, crop=(20, 30), mean=[9.0, 8.0, 7.0], std=[2.0, 3.0, 4.0], mirror=1)"],
)
def crop_mirror_normalize(image: Sample, /, *, args: Args, out: Out, layouts: Any) -> Sample:
    """Cuts a window out, mirrors it left to right if ``mirror`` is given, and normalises: ``scale * (x - mean) / std +
    shift``.

    ``mean`` and ``std`` are one number or one a channel; ``pad_output`` adds channels up to a power of two.
    The output may be FLOAT16; integers are rounded and limited to their range.
    """
    layout = layouts[0]
    if cuts_frames(layout, vars(args)) and layout[0] == "F":
        return normalized_part(image, layout, args, out)
    if "F" in layout:
        return normalized_frames(image, layout, args, out)
    return normalized_window(image, layout, args, out)


def normalized_window(image: np.ndarray, layout: str, args: Any, out: Any) -> np.ndarray:
    """One image or volume."""
    fill_values = args.fill_values
    axes, sizes, anchors, inside, _ = window_of(layout, image.shape, args)
    channels = image.shape[layout.index("C")]
    depth = padded_channels(channels, args.pad_output)
    first = channel_first(args.output_layout)
    if not inside and args.out_of_bounds_policy != "pad":
        image = cut(image, axes, anchors, sizes, args.out_of_bounds_policy, fill_values, layout.index("C"))
        anchors, sizes = (0,) * len(axes), tuple(image.shape[axis] for axis in axes)
        inside = True
    if callable(out):
        out = out((depth, *sizes) if first else (*sizes, depth), args.dtype)
    if depth > channels or not inside:
        fill_all(out, first, channels, args)
    if inside:
        normalized(image, layout, anchors, args, out, first)
        return out
    # The border gets the fill values unchanged: only pixels of the image are normalised.
    lows = [max(0, -anchor) for anchor in anchors]
    part = cut(image, axes, anchors, sizes, "trim_to_shape", fill_values, layout.index("C"))
    extents = [part.shape[axis] for axis in axes]
    if all(extents):
        if args.mirror:
            lows[-1] = sizes[-1] - lows[-1] - extents[-1]
        region = tuple(np.s_[low : low + extent] for low, extent in zip(lows, extents, strict=True))
        result = np.empty((channels, *extents) if first else (*extents, channels), out.dtype)
        normalized(part, layout, [0] * len(axes), args, result, first)
        out[(np.s_[:channels], *region) if first else (*region, np.s_[:channels])] = result
    return out


@crop_mirror_normalize.ready
def _(specs: tuple[Spec, ...], args: Any) -> Any:
    layout, shape = specs[0].layout, specs[0].shape
    _, sizes, anchors, inside, _ = window_of(layout, shape, args)
    channels, first = shape[layout.index("C")], channel_first(args.output_layout)
    plain = len(layout) == 3 and inside and all(sizes) and channels
    if not plain or padded_channels(channels, args.pad_output) > channels:
        return None
    work = kernels.everyday.normalize_window
    numbers = args.mirror, per_channel(args.mean, channels, "mean"), scaled(args.std, channels, args.scale), args.shift
    place, normalize = (layout[0] == "C", *anchors), kernels.normalize
    usual = layout == "HWC" and first and channels == 3 and not kernels.start.state.choosing
    if usual and specs[0].dtype in normalize.FAST_IN and args.dtype in normalize.NORMALIZED:
        return normalize.planes_of_window(specs[0].dtype, anchors, shape, numbers, args.dtype)

    def run(image: np.ndarray, out: np.ndarray) -> np.ndarray:
        work(image, *place, *numbers, out, first)
        return out

    return run


def without_depth(args: Args) -> Args:
    """The arguments for one frame."""
    return Args(**{**vars(args), "crop": args.crop and args.crop[-2:], "crop_d": 0.0})


def normalized_part(image: np.ndarray, layout: str, args: Args, out: Any) -> np.ndarray:
    """The frames of a sequence that are in the depth of the window."""
    extents = (len(image),)
    sizes = crop_extents("D", extents, args)
    kept = place_cut(image.shape, (0,), place_window("D", extents, sizes, args), sizes, args.out_of_bounds_policy)
    (spec,) = crop_mirror_normalize.specs([Spec(image.shape, image.dtype, layout)], vars(args), 1)
    out = out(spec.shape, args.dtype) if callable(out) else out
    for number, part in enumerate(out):
        frame = number - kept.offset[0]
        if 0 <= frame < kept.extents[0]:
            normalized_window(image[kept.low[0] + frame], layout[1:], without_depth(args), part)
        else:
            fill_all(part, channel_first(args.output_layout), image.shape[layout.index("C")], args)
    return out


def normalized_frames(image: np.ndarray, layout: str, args: Any, out: Any) -> np.ndarray:
    """A sequence whose channels come before its frames. (If the frames come first, the frames are passed one by one.)"""
    inner, first = layout.replace("F", ""), channel_first(args.output_layout)
    frames = np.moveaxis(image, layout.index("F"), 0)
    results = [normalized_window(x, inner, args, np.empty) for x in frames]
    if not results:
        raise ValueError("the sequence has no frames")
    if callable(out):
        shape = list(results[0].shape)
        shape.insert(1 if first else 0, len(results))
        out = out(tuple(shape), args.dtype)
    return np.stack(results, axis=1 if first else 0, out=out)


def channel_first(layout: str) -> bool:
    """True if the channels come before the pixels."""
    return layout.find("C") < layout.find("W")


def fill_all(out: np.ndarray, first: bool, channels: int, args: Any) -> None:
    """Writes the fill values."""
    filled = filling(args, channels, out.shape[0 if first else -1], out.dtype)
    out[...] = filled.reshape(-1, *[1] * (out.ndim - 1)) if first else filled


def filling(args: Any, channels: int, depth: int, dtype: np.dtype) -> np.ndarray:
    """The fill value of each of the `depth` channels of the output: 0 in added channels if nothing outside of images is
    filled, else one number is for all channels, and added ones without a value get 0.
    """
    values = list(args.fill_values)
    if len(values) == 1:
        values *= depth
    elif not channels <= len(values) <= depth:
        raise ValueError(f"fill_values has {len(values)} values for {channels} channels")
    if args.out_of_bounds_policy != "pad":
        values = []
    return kernels.casting.as_fill(values + [0.0] * (depth - len(values)), dtype)


def normalized(image: np.ndarray, layout: str, anchors: Sequence[int], args: Any, out: np.ndarray, first: bool) -> None:
    """Normalises the window of `out`'s extents at the anchors."""
    channels = image.shape[layout.index("C")]
    means, factors = per_channel(args.mean, channels, "mean"), scaled(args.std, channels, args.scale)
    if not out.size:
        return
    for source, target in slices_of(image, layout, out, first, anchors):
        kernels.everyday.normalize_window(
            source, layout[0] == "C", anchors[-2], anchors[-1], args.mirror, means, factors, args.shift, target, first
        )


@lru_cache(maxsize=256)  # the same few numbers for every sample
def per_channel(values: Sequence[float], channels: int, name: str) -> np.ndarray:
    """One float32 a channel."""
    if len(values) not in (1, channels):
        raise ValueError(f"{name} has {len(values)} values for {channels} channels")
    return np.array(values if len(values) == channels else values * channels, np.float32)  # type: ignore[operator]


@lru_cache(maxsize=256)
def scaled(std: Sequence[float], channels: int, scale: float) -> np.ndarray:
    """The factor of each channel; in float32 steps, as DALI computes it."""
    values = per_channel(std, channels, "std")
    if not values.all():
        raise ValueError(f"std must not be 0, got {tuple(std)}")
    return np.float32(1) / values * np.float32(scale)


def padded_channels(channels: int, pad: bool) -> int:
    """The number of channels in the output."""
    return 1 << (channels - 1).bit_length() if pad and channels is not UNKNOWN else channels


def slices_of(image: np.ndarray, layout: str, out: np.ndarray, first: bool, anchors: Sequence[int]) -> Any:
    """Pairs of a two-dimensional image and its place in the output: one, or one for each slice of a volume."""
    if "D" not in layout:
        return [(image, out)]
    sources = np.moveaxis(image, layout.index("D"), 0)[anchors[0] :]
    return list(zip(sources, np.moveaxis(out, 1 if first else 0, 0)))


@crop_mirror_normalize.rows
def _(specs: tuple[SpecColumn, ...], args: Any, _keys: np.ndarray) -> np.ndarray:
    shapes, layout = specs[0].shapes, specs[0].layout
    require("F" not in layout)
    axes = spatial(layout)
    parts = crop_cuts(specs[0], axes, args)
    channel = layout.index("C")
    count = shapes[:, channel]
    channels = int(count[0])
    require(channels and (count == channels).all())
    depth = padded_channels(channels, args.pad_output)
    table = np.zeros(len(shapes), normalizations(shapes.shape[1], channels))
    table["low"], table["extents"], table["mirror"] = parts["low"], parts["extents"], args.mirror
    first = channel_first(args.output_layout)
    # the spatial axes of the image, and those of the result
    columns, others, channel_there = columns_of(axes), np.s_[1:] if first else np.s_[:-1], 0 if first else -1
    for name, of in (("shape", "shape"), ("kept", "extents")):
        table[name][:, others] = parts[of][:, columns]
    table["shape"][:, channel_there], table["kept"][:, channel_there] = depth, channels
    if (table["kept"] != table["shape"]).any():
        table["place"][:, others] = parts["place"][:, columns]
        width = -1 if first else -2
        beside = table["shape"][:, width] - table["place"][:, width] - table["kept"][:, width]
        table["place"][:, width] = np.where(table["mirror"], beside, table["place"][:, width])
        require(len(args.fill_values) == 1 or channels <= len(args.fill_values) <= depth)
    table["mean"], table["factor"] = _means(args.mean, channels), _factors(args.std, channels, args.scale)
    return table


def _means(mean: Any, channels: int) -> np.ndarray:
    """The means of all samples, or those of each."""
    if not isinstance(mean, np.ndarray):
        return per_channel(mean, channels, "mean")
    require(mean.shape[-1] in (1, channels))
    return mean


def _factors(std: Any, channels: int, scale: float) -> np.ndarray:
    """The factors of all samples, or those of each."""
    if not isinstance(std, np.ndarray):
        return scaled(std, channels, scale)
    deviations = std.astype(np.float32)
    require((std.shape[-1] in (1, channels)) and deviations.all())
    return np.float32(1) / deviations * np.float32(scale)


@lru_cache(maxsize=64)
def normalizations(axes: int, channels: int) -> np.dtype:
    """The rows of crop_mirror_normalize: the window in the image; the extents of the result; extents and place of the part of it
    that is not filled; mean and factor of each channel.
    """
    kept = [(name, np.int64, (axes,)) for name in ("low", "extents", "shape", "kept", "place")]
    numbers = [(name, np.float32, (channels,)) for name in ("mean", "factor")]
    return np.dtype([*kept, ("mirror", np.bool_), *numbers])


@crop_mirror_normalize.ends_sampling
def _(image: np.ndarray, axes: Sequence[Axis], resizing: Any, between: np.dtype, args: Any, out: Any) -> Any:
    kept = cropped(axes, args)
    if kept is None or args.pad_output or args.dtype not in FUSED:
        return None
    rows, columns = kept[0], mirrored(kept[1], args.mirror)
    first = channel_first(args.output_layout)
    if callable(out):
        out = out((3, rows.extent, columns.extent) if first else (rows.extent, columns.extent, 3), args.dtype)
    if not out.flags.c_contiguous:
        return None
    taps = taps_of([rows, columns], resizing)
    means, factors = per_channel(args.mean, 3, "mean"), scaled(args.std, 3, args.scale)
    rounds = between == np.uint8
    return kernels.everyday.resample_normalize(image, *taps, means, factors, float(args.shift), rounds, out, first)


def _calls(
    calls: KernelCalls, head: Head | None = None, head_args: Any = None, between: Any = None, args: Any = None
) -> None:
    """The window of an image, or of a resized image, for a program of kernel calls."""
    args = calls.args if args is None else args
    image = is_image(calls, 3)
    _ready(args, head is not None, calls)
    plan = _plan(calls, head, head_args, args, *whole_image(image)[2:])
    numbers = per_channel(args.mean, 3, "mean"), scaled(args.std, 3, args.scale), float(args.shift)
    normalize_calls(calls, args, plan, numbers, between == np.uint8, image, channel_first(args.output_layout))


def _ready(args: Any, resizes: bool, calls: KernelCalls) -> None:
    calls.require(args.dtype in FUSED and not args.pad_output)
    planes = channel_first(args.output_layout)
    wait_for(calls, kernels.image_programs.normalizing_kernel(resizes, planes, args.dtype))


def _plan(calls: KernelCalls, head: Head | None, head_args: Any, args: Any, height: Any, width: Any) -> ResizeAndWindow:
    return planned(calls, height, width, cropping(args), head, head_args)


def _reads(
    calls: KernelCalls, height: Any, width: Any, head: Head | None = None, head_args: Any = None, args: Any = None
) -> Sequence[Any]:
    """The part of the image that ``_calls`` reads."""
    args = calls.args if args is None else args
    _ready(args, head is not None, calls)
    return needed(calls, _plan(calls, head, head_args, args, height, width), height, width)


crop_mirror_normalize.calls(_calls)
crop_mirror_normalize.reads_calls(_reads)
crop_mirror_normalize.ends_sampling_calls(_calls, _reads)
crop_mirror_normalize.varying("mirror", "crop_pos_y", "crop_pos_x")


def load_kernels(args: Any, resizes: bool) -> None:
    """Loads or compiles the kernels of programs with these arguments, after a resize or alone."""
    programs = kernels.image_programs
    if args.dtype in FUSED:
        programs.load(programs.normalizing_kernel(resizes, channel_first(args.output_layout), args.dtype))


crop_mirror_normalize.loads(lambda args, _dtype: load_kernels(args, False))


@crop_mirror_normalize.check
def _(args: Any) -> None:
    check_policy(args)
    check_rounding(args)
    letters = set(args.output_layout) - set("FDHWC")
    if letters or "C" not in args.output_layout:
        raise ValueError(f"output_layout must be a layout of H, W and C such as 'CHW', got {args.output_layout!r}")


@crop_mirror_normalize.infer
def inferred_window(specs: tuple[Spec, ...], args: Any) -> Spec:
    spec = specs[0]
    if cuts_frames(spec.layout, vars(args)) and spec.layout[0] == "F":
        frames, inner = spec.shape[0], Spec(spec.shape[1:], spec.dtype, spec.layout[1:]).open()
        (size,) = crop_extents("D", (frames,), args)
        size = min(size, frames) if args.out_of_bounds_policy == "trim_to_shape" else size
        return inferred_window((inner,), without_depth(args)).framed(size)
    if "F" in spec.layout:
        place = spec.layout.index("F")
        inner = Spec((*spec.shape[:place], *spec.shape[place + 1 :]), spec.dtype, spec.layout.replace("F", ""))
        one, frames = inferred_window((inner.open(),), args).open(), spec.shape[place]
        at = 1 if channel_first(args.output_layout) else 0
        return Spec((*one.shape[:at], frames, *one.shape[at:]), one.dtype, one.layout[:at] + "F" + one.layout[at:])
    axes = spatial(spec.layout)
    letters = "".join(spec.layout[axis] for axis in axes)
    extents = [spec.shape[axis] for axis in axes]
    sizes = crop_extents(letters, extents, args)
    if args.out_of_bounds_policy == "trim_to_shape":
        sizes = tuple(min(size, extent) for size, extent in zip(sizes, extents, strict=True))
    channels = (
        padded_channels(spec.shape[spec.layout.index("C")], True)
        if args.pad_output
        else spec.shape[spec.layout.index("C")]
    )
    first = channel_first(args.output_layout)
    shape = (channels, *sizes) if first else (*sizes, channels)
    return Spec(shape, args.dtype, "C" + letters if first else letters + "C")
