"""Puts images into other images, or hides parts of them: paste, multi_paste, grid_mask."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from pipeflow.declare import (
    REQUIRED,
    UNKNOWN,
    Arg,
    Args,
    BatchCall,
    DType,
    Floats,
    Ints,
    NotReady,
    Out,
    Sample,
    Spec,
    code_of,
    default,
    operator,
    parameters,
    until_ready,
)
from pipeflow.errors import count_of
from pipeflow.kernels import cpu as kernels
from pipeflow.operators.windows import fill_table

PAGE = """Images put into other images, or hidden in parts."""


def pasting(row: np.ndarray, parts: Sequence[Sequence[int]], columns: int) -> Any:
    """A function of an image and the canvas for it, whose rows are this one outside of the parts."""
    code = code_of(kernels.parts.paste_parts, *kernels.parts.PASTED)
    return kernels.parts.pasting(code, row, parts, columns)


# ----------------------------------------------------------------------------------------------------
# paste


def canvas_of(shape: Sequence[int], args: Any) -> tuple[tuple[int, int], tuple[int, int]]:
    """Height and width of the canvas, and the position of the image in it."""
    if args.ratio < 1:
        raise ValueError(f"ratio must be at least 1, got {args.ratio}")
    places = args.paste_y, args.paste_x
    for name, place in zip(("paste_y", "paste_x"), places):
        if not 0 <= place <= 1:
            raise ValueError(f"{name} must be between 0 and 1, got {place}")
    ratio = np.float32(args.ratio)
    extents = [int(max(np.float32(float(extent)) * ratio, args.min_canvas_size)) for extent in shape[:2]]
    start = [int(np.float32(place) * (large - small)) for place, large, small in zip(places, extents, shape)]
    return (extents[0], extents[1]), (start[0], start[1])


CANVAS = parameters(
    fill_value=(Ints, REQUIRED, "the value of the canvas, one or one a channel"),
    ratio=(Arg[float], REQUIRED, "factor from the width and height of the image to those of the canvas"),
    paste_x=(Arg[float], 0.5, "position of the image, from 0 at the left to 1 at the right"),
    paste_y=(Arg[float], 0.5, "position of the image, from 0 at the top to 1 at the bottom"),
    min_canvas_size=(Arg[float], 0.0, "minimum width and height of the canvas, in pixels"),
)


@operator(
    "paste",
    compiled=True,
    takes=CANVAS,
    layouts="HWC FHWC",
    sequences=True,
    gpu=True,
    staged=True,
    no_effect={"n_channels": "the canvas has the channels of the image"},
    examples=["fn.paste(image, ratio=1.5, fill_value=(9, 8, 7))"],
)
def paste(image: Sample, /, *, args: Args, out: Out) -> Sample:
    """Puts the image on a larger canvas."""
    extents, (top, left) = canvas_of(image.shape, args)
    if callable(out):
        out = out((*extents, image.shape[2]), image.dtype)
    out[...] = fill_table(args.fill_value, image.dtype, image.shape, 2)
    out[top : top + image.shape[0], left : left + image.shape[1]] = image
    return out


@paste.ready
def _(specs: tuple[Spec, ...], args: Any) -> Any:
    shape, dtype = specs[0].shape, specs[0].dtype
    (_, wide), (top, left) = canvas_of(shape, args)
    row = np.empty((wide, shape[2]), dtype)
    row[...] = fill_table(args.fill_value, dtype, shape, 2)
    return pasting(row, [(0, 0, *shape[:2], top, left)], shape[1])


@paste.infer
def _(specs: tuple[Spec, ...], args: Any) -> Spec:
    extents, _ = canvas_of(specs[0].shape, args)
    return Spec((*extents, specs[0].shape[2]), specs[0].dtype, specs[0].layout)


# ----------------------------------------------------------------------------------------------------
# multi_paste


class PastedRegion(NamedTuple):
    """A part of an image and its position on the canvas: starts and extents along height and width."""

    source: int  # the sample, or the input, that it comes from
    start: tuple[int, int]
    extents: tuple[int, int]
    corner: tuple[int, int]


ANCHORS = "in_anchors", "in_anchors_rel", "shapes", "shapes_rel", "out_anchors", "out_anchors_rel"


def pairs_of(values: Any, count: int, name: str) -> np.ndarray | None:
    """A pair of numbers for each region."""
    if values is None:
        return None
    if len(values) != 2 * count:
        raise ValueError(f"{name} has {len(values)} values for {count} regions; each needs two, height and width")
    return np.array(values).reshape(count, 2)


def regions_of(args: Any, sizes: Sequence[Sequence[int]], canvas: Sequence[int], inputs: int) -> list[PastedRegion]:
    """The regions of one canvas; ``sizes`` are (height, width) of every sample, or of every input."""
    if args.in_ids is not None:
        if inputs > 1:
            raise ValueError(
                f"in_ids is for one input, got {inputs}: without it each input is pasted onto its own sample"
            )
        sources = list(args.in_ids)
        for source in sources:
            if not 0 <= source < len(sizes):
                raise IndexError(f"in_ids names sample {source}, the batch has {len(sizes)}")
    else:
        sources = list(range(inputs))
    count = len(sources)
    given = {name: pairs_of(getattr(args, name), count, name) for name in ANCHORS}
    regions = []
    for number, source in enumerate(sources):
        whole = sizes[source]
        start = _place(given["in_anchors"], given["in_anchors_rel"], number, whole, np.floor)
        rest = (whole[0] - start[0], whole[1] - start[1])
        extents = rest
        if given["shapes"] is not None or given["shapes_rel"] is not None:
            extents = _place(given["shapes"], given["shapes_rel"], number, whole, np.ceil)
        place = _place(given["out_anchors"], given["out_anchors_rel"], number, canvas, np.floor)
        for what, begin, limits in (("input", start, whole), ("canvas", place, canvas)):
            if any(low < 0 or size < 0 or low + size > limit for low, size, limit in zip(begin, extents, limits)):
                raise ValueError(
                    f"region {number} of {extents[0]} x {extents[1]} at {begin[0]}, {begin[1]} leaves its {what} of "
                    f"{limits[0]} x {limits[1]}"
                )
        regions.append(PastedRegion(source, start, extents, place))
    return regions


def _place(whole: Any, relative: Any, number: int, extents: Sequence[int], rounded: Any) -> tuple[int, int]:
    if whole is not None:
        return int(whole[number, 0]), int(whole[number, 1])
    if relative is not None:
        low = rounded(relative[number].astype(np.float32) * np.array(extents, np.float32))
        return int(low[0]), int(low[1])
    return 0, 0


def check_channels(regions: Sequence[PastedRegion], channels: Sequence[int]) -> int:
    """The number of channels of a canvas; an error if the parts have different numbers."""
    found = {channels[region.source] for region in regions}
    if len(found) > 1:
        raise ValueError(f"the images on one canvas have {' and '.join(map(str, sorted(found)))} channels")
    return found.pop() if found else channels[0]


@operator(
    "multi_paste",
    layouts="HWC FHWC",
    granularity="batch",
    gpu=True,
    examples=["fn.multi_paste(image, in_ids=[0, 0], output_size=(80, 120), out_anchors=[0, 0, 30, 50])"],
)
def multi_paste(
    *images: Sample,
    in_ids: Arg[Ints] = default(
        None, "for each canvas the numbers of the samples in the batch that its parts come from"
    ),
    output_size: Arg[Ints] = default(None, "height and width of the canvas; by default those of the sample"),
    in_anchors: Arg[Ints] = default(None, "start of each part in its image; its first pixel by default"),
    in_anchors_rel: Arg[Floats] = default(None, "the same relative to the image, rounded down"),
    shapes: Arg[Ints] = default(None, "height and width of each part; by default all after its beginning"),
    shapes_rel: Arg[Floats] = default(None, "the same relative to the image, rounded up"),
    out_anchors: Arg[Ints] = default(None, "start of each part on the canvas; its first pixel by default"),
    out_anchors_rel: Arg[Floats] = default(None, "the same relative to the canvas, rounded down"),
    dtype: DType | None = default(None, "the type of the canvas; that of the images by default"),
) -> Sample:
    """Puts parts of several images onto the canvas of each sample: mosaics, cut-mix.

    Later parts cover earlier ones. With ``in_ids`` the parts are taken from any samples of the only input; without it, one part
    is taken from each of several inputs. Pixels without a part are 0. Each argument has one row of height and width for each
    part.
    """
    raise NotImplementedError  # the batch hook runs instead


def height_width(shape: Sequence[int]) -> tuple[int, int]:
    """The extents of an image or of the frames of a sequence."""
    return shape[-3], shape[-2]


def canvas_shape(args: Any, shape: Sequence[int]) -> tuple[int, int]:
    """Height and width of a canvas."""
    if args.output_size is None:
        return height_width(shape)
    height, width, *channels = args.output_size if len(args.output_size) in (2, 3) else (-1, -1)
    # While a pipeline is defined, the number of channels may not be known.
    wrong = bool(channels) and isinstance(shape[-1], int) and channels != [shape[-1]]
    if min(height, width) < 0 or wrong:
        own = f", and may end with the image's {count_of(shape[-1], 'channel')}" if wrong else ""
        raise ValueError(f"output_size must be a height and a width{own}, got {tuple(args.output_size)}")
    return height, width


@multi_paste.batch
def _(*images: Any, args: Args, batch: BatchCall) -> Any:
    columns = [list(samples) for samples in images]
    of_batch = [height_width(image.shape) for image in columns[0]], [image.shape[-1] for image in columns[0]]
    known: dict[tuple[Any, ...], Any] = {}  # shape of a canvas and its regions: often the same for all samples
    canvases: list[tuple[tuple[int, ...], np.dtype, list[Any]]] = []
    varying = {name: values for name, values in vars(args).items() if isinstance(values, list)}
    for number, first in batch.each(columns[0]):
        pool, (sizes, channels) = columns[0], of_batch
        if args.in_ids is None:
            pool = [column[number] for column in columns]
            sizes, channels = [height_width(image.shape) for image in pool], [image.shape[-1] for image in pool]
        place = first.shape, *[tuple(values[number]) for values in varying.values()]
        if args.in_ids is None or place not in known:
            own = Args(**{**vars(args), **{name: values[number] for name, values in varying.items()}})
            canvas = canvas_shape(own, first.shape)
            regions = regions_of(own, sizes, canvas, len(columns))
            known[place] = (*first.shape[:-3], *canvas, check_channels(regions, channels)), regions
        shape, regions = known[place]
        canvases.append((shape, args.dtype or first.dtype, [(pool[region.source], *region[1:]) for region in regions]))
    shape, dtype, _ = canvases[0]
    if all(canvas[:2] == (shape, dtype) for canvas in canvases):  # one block is faster to write than several
        found: Any = batch.empty((len(canvases), *shape), dtype)
    else:
        found = [batch.empty(*canvas[:2]) for canvas in canvases]
    for result, (_, dtype, parts) in zip(found, canvases):
        result[...] = 0
        for image, (top, left), (tall, wide), (y, x) in parts:
            part = image[..., top : top + tall, left : left + wide, :]
            result[..., y : y + tall, x : x + wide, :] = kernels.casting.as_type(part, dtype)
    return [found]


@multi_paste.ready
def _(specs: tuple[Spec, ...], args: Any) -> Any:
    first, dtype = specs[0], args.dtype or specs[0].dtype
    canvas = canvas_shape(args, first.shape)
    regions = regions_of(args, [height_width(spec.shape) for spec in specs], canvas, len(specs))
    channels, convert = check_channels(regions, [spec.shape[-1] for spec in specs]), kernels.casting.as_type
    shape, moves = (*first.shape[:-3], *canvas, channels), []
    for region in regions:
        (top, left), (tall, wide), (y, x) = region.start, region.extents, region.corner
        source: tuple[Any, ...] = np.s_[top : top + tall, left : left + wide]
        target: tuple[Any, ...] = np.s_[y : y + tall, x : x + wide]
        if len(shape) > 3:
            source, target = (..., *source, slice(None)), (..., *target, slice(None))
        moves.append((region.source, source, target, specs[region.source].dtype == dtype))

    def run(*images: np.ndarray) -> np.ndarray:
        result = np.zeros(shape, dtype)
        for number, source, target, alike in moves:
            part = images[number][source]
            result[target] = part if alike else convert(part, dtype)
        return result

    if len(specs) > 1 or len(shape) > 3 or first.dtype != dtype:
        return run
    parts = [(*region.start, *region.extents, *region.corner) for region in regions]

    def compiled(_images: Any = ()) -> Any:
        paste = pasting(np.zeros((canvas[1], channels), dtype), parts, first.shape[1])
        return lambda image: paste(image, np.empty(shape, dtype))

    try:
        return compiled()
    except NotReady as error:
        work = until_ready(lambda images, _key: run(*images), error, compiled, multi_paste.forget_calls)
        return lambda image: work((image,), None)


@multi_paste.check
def _(args: Any) -> None:
    for name in ("in_anchors", "shapes", "out_anchors"):
        if getattr(args, name) is not None and getattr(args, f"{name}_rel") is not None:
            raise ValueError(f"{name} and {name}_rel exclude each other: give one of them")


@multi_paste.infer
def _(specs: tuple[Spec, ...], args: Any) -> Spec:
    spec = specs[0]
    shape: Any = UNKNOWN
    if spec.shape is not UNKNOWN:
        extents = (UNKNOWN, UNKNOWN) if args.output_size is UNKNOWN else canvas_shape(args, spec.shape)
        shape = (*spec.shape[:-3], *extents, spec.shape[-1])
    return Spec(shape, args.dtype or spec.dtype, spec.layout)


# ----------------------------------------------------------------------------------------------------
# grid_mask


@operator(
    "grid_mask",
    compiled=True,
    infer="like image",
    layouts="HWC HW CHW FHWC FHW FCHW",
    sequences=True,
    gpu=True,
    examples=["fn.grid_mask(image, tile=10, angle=0.3)"],
)
def grid_mask(
    image: Sample,
    /,
    *,
    tile: Arg[int] = default(100, "the distance from square to square in pixels"),
    ratio: Arg[float] = default(0.5, "the side of a square as a share of that distance"),
    angle: Arg[float] = default(0.0, "angle of the grid, in radians"),
    shift_x: Arg[float] = default(0.0, "shift of the grid to the right after the turn, in pixels"),
    shift_y: Arg[float] = default(0.0, "shift of the grid down after the turn, in pixels"),
    out: Out,
    layouts: Any,
) -> Sample:
    """Sets a grid of squares to 0."""
    if tile < 1:
        raise ValueError(f"tile must be at least 1, got {tile}")
    steps = grid_steps(tile, angle, shift_x, shift_y)
    if layouts[0] == "CHW":
        for plane, result in zip(image, out, strict=True):
            kernels.masking.grid_mask(plane, 1, steps, ratio, result)
        return out
    return kernels.masking.grid_mask(image, image.shape[2] if image.ndim == 3 else 1, steps, ratio, out)


@grid_mask.ready
def _(specs: tuple[Spec, ...], args: Any) -> Any:
    shape, dtype = specs[0].shape, specs[0].dtype
    if args.tile < 1 or specs[0].layout not in ("HWC", "HW") or 0 in shape or dtype == np.float16:
        return None
    steps = grid_steps(args.tile, args.angle, args.shift_x, args.shift_y)
    return kernels.masking.masking(shape, dtype, steps, args.ratio)


def grid_steps(tile: int, angle: float, shift_x: float, shift_y: float) -> tuple[float, float, float, float]:
    """Cosine and sine of the rotation, and the shifts, in units of a tile."""
    return math.cos(angle) / tile, math.sin(angle) / tile, shift_x / tile, shift_y / tile
