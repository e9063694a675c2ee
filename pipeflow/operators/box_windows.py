"""Boxes and labels of several samples, and the search of windows that keep boxes, for the operators of boxes."""

from collections.abc import Sequence
from functools import lru_cache
from itertools import combinations
from sys import float_info
from typing import Any

import numpy as np

from pipeflow.declare import UNKNOWN, Joined, Many, Spec, require
from pipeflow.kernels import cpu as kernels


def check_labels(labels: np.ndarray | None, count: int, what: str) -> None:
    """Raises an error unless there is a label for each box or point."""
    if labels is not None and (not labels.ndim or len(labels) != count):
        raise ValueError(f"there are {count} {what}, and labels of shape {labels.shape}: give one label for each")


def labels_of(many: Many, boxes: Joined, place: int = 1) -> Joined | None:
    """The labels of the boxes of several samples, None if there are none; NoTable unless there is one for each box."""
    if len(many.inputs) <= place:
        return None
    labels = many.joined(place, many.inputs[place][0].ndim)
    require(np.array_equal(labels.ends, boxes.ends))
    return labels


def some_of(spec: Spec) -> Any:
    """The shape of the boxes or labels that remain."""
    return spec.shape if spec.shape is UNKNOWN or not spec.shape else (UNKNOWN, *spec.shape[1:])


LOADS = (lambda: kernels.boxes.loaded(), lambda: kernels.boxes.load())  # the kernels for several samples
MOST_WINDOWS = 20_000  # windows that are tried if there is no limit; then the best one is taken


def box_columns(layout: str, ndim: int) -> tuple[list[int], list[int], bool]:
    """The columns of starts and of ends (or extents) of boxes, and True if they are extents."""
    starts = "xyz"[:ndim]
    for ends, extents in (("XYZ"[:ndim], False), ("WHD"[:ndim], True)):
        if not layout or sorted(layout) == sorted(starts + ends):
            letters = layout or starts + ends
            return [letters.index(x) for x in starts], [letters.index(x) for x in ends], extents
    raise ValueError(
        f"bbox_layout must be a permutation of '{starts}{'XYZ'[:ndim]}' or '{starts}{'WHD'[:ndim]}', got {layout!r}"
    )


def in_order(shape: Sequence[int], layout: str, ndim: int, name: str) -> np.ndarray:
    """Extents in the order width, height, depth."""
    letters = layout or "WHD"[:ndim]
    if sorted(letters) != sorted("WHD"[:ndim]):
        raise ValueError(f"shape_layout must be a permutation of '{'WHD'[:ndim]}', got {layout!r}")
    if len(shape) != ndim:
        raise ValueError(f"{name} has {len(shape)} values for boxes of {ndim} dimensions")
    return np.array([shape[letters.index(letter)] for letter in "WHD"[:ndim]], np.float64)


def ranges(values: Sequence[float], pairs: int) -> np.ndarray:
    """A range for each pair of axes."""
    table = np.array(values, np.float64).reshape(-1, 2)
    if len(table) not in (1, pairs):
        raise ValueError(f"aspect_ratio must have 2 or {2 * pairs} values, got {len(values)}")
    return np.ascontiguousarray(np.broadcast_to(table, (pairs, 2)))


def search(lows: np.ndarray, highs: np.ndarray, key: int, args: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Anchor and sizes of a window, relative to the image, and the boxes that it keeps."""
    ndim = lows.shape[1]
    if not ((lows >= -1e-6).all() and (highs <= 1 + 1e-6).all()):
        raise ValueError(
            f"boxes must be relative to the image, between 0 and 1; they reach from {lows.min()} to {highs.max()}"
        )
    extents, fixed = np.ones(ndim), np.zeros(ndim)
    if args.input_shape is not None:
        extents = in_order(args.input_shape, args.shape_layout, ndim, "input_shape")
        if not extents.all():
            raise ValueError(f"the image has no pixels: input_shape is {tuple(args.input_shape)}")
    if args.crop_shape is not None:
        fixed = in_order(args.crop_shape, args.shape_layout, ndim, "crop_shape")
        if not (fixed > 0).all():
            raise ValueError(f"crop_shape must be positive, got {tuple(args.crop_shape)}")
    *first, pairs, free, attempts, total, by_overlap, every, prune = options_of(args, ndim, fixed, extents)
    ratios = free * (extents[pairs[:, 1]] / extents[pairs[:, 0]])[:, None]
    anchor, sizes, kept = np.zeros(ndim), np.ones(ndim), np.ones(len(lows), np.bool_)
    kernels.boxes.find_window(
        lows,
        highs,
        np.uint64(key),
        *first,
        pairs,
        ratios,
        attempts,
        total,
        by_overlap,
        every,
        prune,
        anchor,
        sizes,
        kept,
    )
    return anchor, sizes, kept


def options_of(args: Any, ndim: int, fixed: np.ndarray, extents: np.ndarray) -> tuple[Any, ...]:
    """The options of a search, as the kernels take them."""
    thresholds, scaling, pairs, allowed = _tables(args.thresholds, args.scaling, args.aspect_ratio, ndim)
    return (
        thresholds,
        bool(args.allow_no_crop and not fixed.any()),
        fixed,
        extents,
        scaling,
        pairs,
        allowed,
        args.num_attempts,
        MOST_WINDOWS if args.total_num_attempts < 0 else args.total_num_attempts,
        args.threshold_type == "overlap",
        bool(args.all_boxes_above_threshold),
        # the least positive number in place of 0: a box that only touches the window has no share in it
        -1.0 if args.bbox_prune_threshold is None else max(float(args.bbox_prune_threshold), float_info.min),
    )


@lru_cache(64)
def _tables(
    thresholds: tuple[float, ...], scaling: tuple[float, ...], aspect_ratio: tuple[float, ...], ndim: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Constant arguments as arrays, and the pairs of axes. To make them takes a twentieth of a small batch."""
    pairs = np.array(list(combinations(range(ndim), 2)), np.int64)
    return np.array(thresholds), np.array(scaling), pairs, ranges(aspect_ratio, len(pairs))


def layout_of(args: Any, ndim: int) -> str:
    """The layout of the boxes, "" for their corners."""
    return args.bbox_layout or ("" if args.ltrb else "xyz"[:ndim] + "WHD"[:ndim])


def windows_of(many: Many, boxes: Joined, args: Any) -> tuple[np.ndarray, ...]:
    """The windows of several samples: anchors and sizes, the boxes in them, a mask of these boxes, and their numbers."""
    values, size = boxes.values, many.size
    require(values.shape[1] in (4, 6))
    ndim = values.shape[1] // 2
    starts, ends, extents_given = box_columns(layout_of(args, ndim), ndim)
    starts, ends = _columns(starts), _columns(ends)
    lows, highs = (np.ascontiguousarray(values[:, places], np.float64) for places in (starts, ends))
    if extents_given:
        highs += lows
    require(lows.min(initial=0) >= -1e-6 and highs.max(initial=1) <= 1 + 1e-6)  # False for NaN
    extents, fixed = np.ones((size, ndim)), np.zeros((size, ndim))
    if args.input_shape is not None:
        extents[:] = rows_in_order(many.rows("input_shape"), args.shape_layout, ndim)
        require(extents.all())
    if args.crop_shape is not None:
        fixed[:] = rows_in_order(many.rows("crop_shape"), args.shape_layout, ndim)
        require(fixed > 0)
    anchors, sizes, kept = np.zeros((size, ndim)), np.ones((size, ndim)), np.ones(len(values), np.bool_)
    counts = np.empty(size, np.int64)
    kernels.boxes.find_windows(
        lows, highs, boxes.ends, many.keys, *options_of(args, ndim, fixed, extents), anchors, sizes, kept, counts
    )
    first, last = (np.empty((int(counts.sum()), ndim)) for _ in range(2))
    kernels.boxes.inside(lows, highs, boxes.ends, anchors, sizes, kept, first, last)
    found = np.empty((len(first), 2 * ndim), values.dtype)
    found[:, starts], found[:, ends] = first, last - first if extents_given else last
    return anchors, sizes, found, kept, counts


def _columns(places: list[int]) -> Any:
    """Neighbouring columns as a slice, which NumPy reads faster than a list."""
    first, end = places[0], places[0] + len(places)
    return slice(first, end) if places == list(range(first, end)) else places


def windowing(args: Any, count: int, ndim: int, dtype: np.dtype) -> Any:
    """`windows_of` for one sample of so many boxes, for many calls: ``(boxes, key) -> (anchor, sizes, boxes, mask of them)``,
    with anchor and sizes as the operator returns them.
    """
    starts, ends, extents_given = box_columns(layout_of(args, ndim), ndim)
    extents, fixed = np.ones((1, ndim)), np.zeros((1, ndim))
    if args.input_shape is not None:
        extents[:] = in_order(args.input_shape, args.shape_layout, ndim, "input_shape")
    if args.crop_shape is not None:
        fixed[:] = in_order(args.crop_shape, args.shape_layout, ndim, "crop_shape")
    require(extents.all() and (args.crop_shape is None or (fixed > 0).all()))
    options, empty = options_of(args, ndim, fixed, extents), np.empty
    whole = empty(0) if args.crop_shape is None else np.array(extents[0])
    places = np.array(starts), np.array(ends), extents_given, whole
    rows, single, flags = empty((0, 2 * ndim), dtype), empty(0, np.float32), empty(0, np.bool_)
    compute = kernels.jit.machine_code(
        kernels.moved_boxes.crop_to_window, rows, np.uint64(0), *places, *options, single, single, rows, flags
    )

    def run(values: np.ndarray, key: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        anchor, size = empty(ndim, np.float32), empty(ndim, np.float32)
        found, kept = empty(values.shape, dtype), empty(count, np.bool_)
        number = compute(np.ascontiguousarray(values), key, *places, *options, anchor, size, found, kept)
        if number == count:
            return anchor, size, found, kept
        require(number >= 0)
        return anchor, size, found[:number].copy(), kept

    return run


def rows_in_order(shapes: np.ndarray, layout: str, ndim: int) -> np.ndarray:
    """``in_order`` for several samples; NoTable if they do not have these axes."""
    letters = layout or "WHD"[:ndim]
    require(sorted(letters) == sorted("WHD"[:ndim]) and shapes.shape[1] == ndim)
    return shapes[:, [letters.index(letter) for letter in "WHD"[:ndim]]].astype(np.float64)
