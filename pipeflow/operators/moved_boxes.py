"""Moves boxes and points into windows and through maps: bbox_crop, coord_crop, bbox_remap, coord_remap.

Boxes and points that leave the image are dropped together with their labels.
"""

from typing import Any

import numpy as np

from pipeflow.declare import REQUIRED, Arg, Args, Floats, Ints, Sample, Spec, default, operator, parameters
from pipeflow.kernels import cpu as kernels
from pipeflow.operators.box_windows import check_labels, some_of
from pipeflow.operators.displacement import ORIGINS, PIXEL_ORIGIN, map_shape
from pipeflow.operators.warped_boxes import (
    CORNERS,
    EXTENTS,
    FORM,
    SHAPE_LAYOUT,
    as_corners,
    clipped,
    image_extents,
    shortened,
)

PAGE = """Boxes and points that follow a crop, or the maps of a distortion. [Joint transforms](../joint-transforms.md) shows
how they move with their image.
"""

REMOVED = parameters(remove_threshold=(float, 0.1, "a box remains if at least this share of its area is on the result"))
POINTS = parameters(
    normalized=(bool, True, "the coordinates are relative to the image; False: pixels"),
    remove_outside=(bool, True, "drop the points that are outside the result; False: keep all"),
)


def check_layouts(args: Any) -> None:
    """Checks the orders of the numbers."""
    if getattr(args, "bbox_layout", CORNERS) not in (CORNERS, EXTENTS):
        raise ValueError(f"bbox_layout must be {CORNERS!r} or {EXTENTS!r}, got {args.bbox_layout!r}")
    if "H" not in args.shape_layout or "W" not in args.shape_layout:
        raise ValueError(f"shape_layout must have an H and a W, got {args.shape_layout!r}")
    if not 0 <= getattr(args, "remove_threshold", 0.0) < 1:
        raise ValueError(f"remove_threshold must be at least 0 and less than 1, got {args.remove_threshold}")


def as_points(points: np.ndarray) -> np.ndarray:
    """Points (n, 2) in float64."""
    if points.ndim != 2 or points.shape[1] != 2:
        raise ValueError(f"points have the shape (n, 2), got {points.shape}")
    return points.astype(np.float64)


def kept_points(
    moved: np.ndarray, inside: np.ndarray, points: np.ndarray, labels: np.ndarray | None, remove: bool
) -> Any:
    """The points that remain, with their labels."""
    kept = inside if remove else np.ones(len(moved), bool)
    result = moved[kept].astype(points.dtype)
    return result if labels is None else (result, labels[kept])


# ----------------------------------------------------------------------------------------------------
# Windows

WINDOW = parameters(
    anchor=(Arg[Floats], REQUIRED, "start of the window, x and y, as for slice; relative to the image"),
    shape=(Arg[Floats], REQUIRED, "width and height of the window, relative to the image"),
    input_shape=(Arg[Ints], None, "shape of the image; with it, anchor and shape are pixels"),
)


def window(args: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Anchor and extents of the window, and the extents of the image, each as x and y; the window is in the units
    of the image.
    """
    anchor, shape = (np.array(values, np.float64) for values in (args.anchor, args.shape))
    if anchor.size != 2 or shape.size != 2:
        raise ValueError(f"anchor and shape must be two numbers each, got {anchor.size} and {shape.size}")
    if not (shape > 0).all():
        raise ValueError(f"shape must be above 0, got {tuple(args.shape)}")
    whole = (
        np.ones(2) if args.input_shape is None else np.array(image_extents(args.input_shape, args.shape_layout)[::-1])
    )
    return anchor, shape, whole.astype(np.float64)


def known_units(args: Any, normalized: bool) -> None:
    """Raises an error if coordinates are in pixels and the extents of the image are not given."""
    if not normalized and args.input_shape is None:
        raise ValueError("coordinates in pixels need a window in pixels: give input_shape")


@operator(
    "bbox_crop",
    takes=WINDOW | FORM | SHAPE_LAYOUT | REMOVED,
    dtypes="float",
    paired="labels",
    examples=["fn.bbox_crop(boxes, labels, anchor=[0.2, 0.1], shape=[0.5, 0.6])"],
)
def bbox_crop(boxes: Sample, labels: Sample | None = None, /, *, args: Args) -> tuple[Sample, Sample]:
    """Moves boxes into a window that slice or crop cuts out, and limits them to it; boxes that are mostly outside are
    dropped.

    Labels are dropped with their boxes. ``random_bbox_crop`` and ``random_crop_generator`` draw windows.
    """
    known_units(args, args.bbox_normalized)
    anchor, shape, whole = window(args)
    corners = as_corners(boxes, args.bbox_layout)
    check_labels(labels, len(corners), "boxes")
    if args.bbox_normalized:
        corners *= np.tile(whole, 2)
    corners -= np.tile(anchor, 2)
    limits = shape
    if args.bbox_normalized:
        corners /= np.tile(shape, 2)
        limits = np.ones(2)
    result, kept = clipped(corners, limits[::-1].tolist(), args.bbox_layout, args.remove_threshold, boxes.dtype)
    return result if labels is None else (result, labels[kept])


def window_numbers(args: Any, normalized: bool) -> np.ndarray:
    """The numbers of `window` as the kernels read them."""
    known_units(args, normalized)
    return np.concatenate(window(args))


@bbox_crop.ready
def _(specs: tuple[Spec, ...], args: Any) -> Any:
    numbers = window_numbers(args, args.bbox_normalized), bool(args.bbox_normalized), args.bbox_layout == EXTENTS
    return shortened(kernels.boxes.crop_boxes, 4, specs, (*numbers, float(args.remove_threshold)))


@operator(
    "coord_crop",
    takes=WINDOW | SHAPE_LAYOUT | POINTS,
    dtypes="float",
    paired="labels",
    examples=["fn.coord_crop(points, anchor=[0.0, 0.1], shape=[0.8, 0.6])"],
)
def coord_crop(points: Sample, labels: Sample | None = None, /, *, args: Args) -> tuple[Sample, Sample]:
    """Moves points (x, y) into a window that slice or crop cuts out; points outside it are dropped, with their labels."""
    known_units(args, args.normalized)
    anchor, shape, whole = window(args)
    places = as_points(points)
    check_labels(labels, len(points), "points")
    moved = places * (whole if args.normalized else 1) - anchor
    inside = ((moved >= 0) & (moved <= shape)).all(1)
    return kept_points(moved / shape if args.normalized else moved, inside, points, labels, args.remove_outside)


@coord_crop.ready
def _(specs: tuple[Spec, ...], args: Any) -> Any:
    numbers = window_numbers(args, args.normalized), bool(args.normalized), bool(args.remove_outside)
    return shortened(kernels.boxes.crop_points, 2, specs, numbers)


# ----------------------------------------------------------------------------------------------------
# Maps

SOURCE = parameters(input_shape=(Arg[Ints], None, "shape of the image before the remap; default: that of the maps"))


def maps_of(mapx: np.ndarray, mapy: np.ndarray, args: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Both maps in float32, in which the middle of a pixel is at a half, and the extents before and after, each as x and y."""
    tall, wide = map_shape(mapx.shape)
    if map_shape(mapy.shape) != (tall, wide):
        raise ValueError(f"the maps differ in shape: {mapx.shape} and {mapy.shape}")
    if not tall or not wide:
        raise ValueError(f"the maps have no pixels: shape {mapx.shape}")
    shift = np.float32(0.5 - ORIGINS[args.pixel_origin])
    maps = [(x.reshape(tall, wide).astype(np.float32, copy=False) + shift) for x in (mapx, mapy)]
    after = np.array([wide, tall], np.float64)
    given = args.input_shape
    before = after if given is None else np.array(image_extents(given, args.shape_layout)[::-1], np.float64)
    return maps[0], maps[1], before, after


@operator(
    "bbox_remap",
    compiled=True,
    takes=SOURCE | PIXEL_ORIGIN | FORM | SHAPE_LAYOUT,
    dtypes="float",
    paired="labels",
    examples=["fn.bbox_remap(boxes, *fn.distortions.optical(image, strength=0.3), labels)"],
)
def bbox_remap(
    boxes: Sample,
    mapx: Sample,
    mapy: Sample,
    labels: Sample | None = None,
    /,
    *,
    args: Args,
    remove_threshold: float = default(0.1, "a box remains if its new area is at least this share of its old one"),
) -> tuple[Sample, Sample]:
    """Moves boxes as remap moves their image: each becomes the box around the pixels that come from inside it.

    Boxes that mostly leave the image are dropped, with their labels.
    """
    map_x, map_y, before, after = maps_of(mapx, mapy, args)
    corners = as_corners(boxes, args.bbox_layout)
    check_labels(labels, len(corners), "boxes")
    if args.bbox_normalized:
        corners *= np.tile(before, 2)
    moved = kernels.map_places.boxes_after(map_x, map_y, corners)
    old, new = (np.prod((x[:, 2:] - x[:, :2]) / extents, axis=1) for x, extents in ((corners, before), (moved, after)))
    kept = (new > 0) & (new >= remove_threshold * old)
    if args.bbox_normalized:
        moved /= np.tile(after, 2)
    if args.bbox_layout == EXTENTS:
        moved[:, 2:] -= moved[:, :2]
    result = moved[kept].astype(boxes.dtype)
    return result if labels is None else (result, labels[kept])


@bbox_remap.ready
def _(specs: tuple[Spec, ...], args: Any) -> Any:
    options = bool(args.bbox_normalized), args.bbox_layout == EXTENTS, float(args.remove_threshold)
    return through_maps(kernels.moved_boxes.remap_boxes, 4, specs, args, options)


def through_maps(compute: Any, width: int, specs: tuple[Spec, ...], args: Any, options: tuple[Any, ...]) -> Any:
    """The short form with maps of float32."""
    if any(len(x.shape) != 2 or x.dtype != np.float32 for x in specs[1:3]):
        return None
    like = [np.broadcast_to(np.float32(0), x.shape) for x in specs[1:3]]
    _, _, before, after = maps_of(like[0], like[1], args)
    shift = np.float32(0.5 - ORIGINS[args.pixel_origin])
    return shortened(compute, width, specs, (shift, np.concatenate([before, after]), *options), maps=True)


@operator(
    "coord_remap",
    compiled=True,
    takes=SOURCE | PIXEL_ORIGIN | SHAPE_LAYOUT | POINTS,
    dtypes="float",
    paired="labels",
    examples=["fn.coord_remap(points, *fn.distortions.optical(image, strength=-0.3))"],
)
def coord_remap(
    points: Sample, mapx: Sample, mapy: Sample, labels: Sample | None = None, /, *, args: Args
) -> tuple[Sample, Sample]:
    """Moves points (x, y) as remap moves their image; those that leave it are dropped, with their labels.

    The new position is searched in the maps: first the pixel whose source is nearest to the point, then a correction by
    the slopes of the maps.
    """
    map_x, map_y, before, after = maps_of(mapx, mapy, args)
    places = as_points(points)
    check_labels(labels, len(points), "points")
    found = kernels.map_places.points_after(map_x, map_y, places * before if args.normalized else places)
    moved = found[:, :2] / after if args.normalized else found[:, :2]
    limits = np.ones(2) if args.normalized else after
    inside = (found[:, 2] > 0) & ((moved >= 0) & (moved <= limits)).all(1)
    return kept_points(moved, inside, points, labels, args.remove_outside)


@coord_remap.ready
def _(specs: tuple[Spec, ...], args: Any) -> Any:
    options = bool(args.normalized), bool(args.remove_outside)
    return through_maps(kernels.moved_boxes.remap_points, 2, specs, args, options)


for _op in (bbox_crop, coord_crop):
    _op.check(check_layouts)


@bbox_crop.infer
@coord_crop.infer
def _(specs: tuple[Spec, ...], _args: Any) -> tuple[Spec, ...]:
    return tuple(Spec(some_of(spec), spec.dtype, spec.layout) for spec in specs)


@bbox_remap.infer
@coord_remap.infer
def _(specs: tuple[Spec, ...], _args: Any) -> tuple[Spec, ...]:
    return tuple(Spec(some_of(spec), spec.dtype, spec.layout) for spec in (specs[0], *specs[3:]))


@bbox_remap.check
@coord_remap.check
def _(args: Any) -> None:
    check_layouts(args)
    if args.pixel_origin not in ORIGINS:
        raise ValueError(f"pixel_origin must be 'corner' or 'center', got {args.pixel_origin!r}")
