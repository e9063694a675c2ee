"""Boxes and points that move with their image through a matrix or through maps, as `operators/warped_boxes.py` and
`operators/moved_boxes.py` move them with NumPy. Each kernel returns the number of rows that are kept, which are in `out`.
"""

import numpy as np

from pipeflow.kernels.cpu.boxes import find_windows, inside, limit_box, rotate_boxes
from pipeflow.kernels.cpu.jit import kernel
from pipeflow.kernels.cpu.map_places import find_boxes, find_points


@kernel(fastmath=False, inline="always")
def least(one, other):
    """The smaller number, as NumPy finds it: NaN if one is NaN."""
    return one if one < other or one != one else other


@kernel(fastmath=False)
def warp_boxes(boxes, matrix, extents, normalized, extents_given, threshold, out, kept):
    """The boxes around the warped corners, limited to the image. `extents` are width and height before and after the warp."""
    row = 0
    for box in range(boxes.shape[0]):
        left, top = np.float64(boxes[box, 0]), np.float64(boxes[box, 1])
        right, bottom = np.float64(boxes[box, 2]), np.float64(boxes[box, 3])
        if extents_given:
            right, bottom = right + left, bottom + top
        if normalized:
            left, top, right, bottom = left * extents[0], top * extents[1], right * extents[0], bottom * extents[1]
        low_x = low_y = less_x = less_y = np.inf  # the last two are minus the largest
        for corner in range(4):
            x, y = right if corner & 1 else left, bottom if corner & 2 else top
            scale = x * matrix[2, 0] + y * matrix[2, 1] + matrix[2, 2]
            moved_x = (x * matrix[0, 0] + y * matrix[0, 1] + matrix[0, 2]) / scale
            moved_y = (x * matrix[1, 0] + y * matrix[1, 1] + matrix[1, 2]) / scale
            low_x, low_y = least(low_x, moved_x), least(low_y, moved_y)
            less_x, less_y = least(less_x, -moved_x), least(less_y, -moved_y)
        high_x, high_y, most_x, most_y = -less_x, -less_y, extents[2], extents[3]
        if normalized:
            low_x, low_y, high_x, high_y = low_x / most_x, low_y / most_y, high_x / most_x, high_y / most_y
            most_x = most_y = 1.0
        kept[box] = limit_box(low_x, low_y, high_x, high_y, most_x, most_y, extents_given, threshold, out, row)
        row += kept[box]
    return row


@kernel(fastmath=False)
def warp_points(points, matrix, extents, normalized, remove, out, kept):
    """The warped points that are in the image, or all."""
    row = 0
    for point in range(points.shape[0]):
        x, y = np.float64(points[point, 0]), np.float64(points[point, 1])
        if normalized:
            x, y = x * extents[0], y * extents[1]
        scale = x * matrix[2, 0] + y * matrix[2, 1] + matrix[2, 2]
        moved_x = (x * matrix[0, 0] + y * matrix[0, 1] + matrix[0, 2]) / scale
        moved_y = (x * matrix[1, 0] + y * matrix[1, 1] + matrix[1, 2]) / scale
        most_x, most_y = extents[2], extents[3]
        if normalized:
            moved_x, moved_y, most_x, most_y = moved_x / most_x, moved_y / most_y, 1.0, 1.0
        kept[point] = not remove or (moved_x >= 0 and moved_x <= most_x and moved_y >= 0 and moved_y <= most_y)
        if kept[point]:
            out[row, 0], out[row, 1] = moved_x, moved_y
            row += 1
    return row


@kernel(fastmath=False)
def turn_boxes(boxes, turns, mode, extents_given, normalized, threshold, out, kept):
    """`boxes.rotate_boxes` for one sample."""
    ends, counts = np.array([0, boxes.shape[0]]), np.empty(1, np.int64)
    rotate_boxes(boxes.astype(np.float64), ends, turns, mode, extents_given, normalized, threshold, out, kept, counts)
    return counts[0]


@kernel(fastmath=False)
def remap_boxes(boxes, map_x, map_y, shift, extents, normalized, extents_given, threshold, out, kept):
    """The boxes around the pixels whose sources are in the boxes. `shift` is added to the maps."""
    corners, moved = np.empty(boxes.shape), np.empty(boxes.shape)
    for box in range(boxes.shape[0]):
        for i in range(4):
            corners[box, i] = boxes[box, i]
            if extents_given and i > 1:
                corners[box, i] += corners[box, i - 2]
        if normalized:
            for i in range(4):
                corners[box, i] *= extents[i & 1]
    find_boxes(map_x + shift, map_y + shift, corners, moved)
    row = 0
    for box in range(boxes.shape[0]):
        old = (corners[box, 2] - corners[box, 0]) / extents[0] * ((corners[box, 3] - corners[box, 1]) / extents[1])
        new = (moved[box, 2] - moved[box, 0]) / extents[2] * ((moved[box, 3] - moved[box, 1]) / extents[3])
        kept[box] = new > 0 and new >= threshold * old
        if not kept[box]:
            continue
        for i in range(4):
            if normalized:
                moved[box, i] /= extents[2 + (i & 1)]
        for i in range(4):
            out[row, i] = moved[box, i] - moved[box, i - 2] if extents_given and i > 1 else moved[box, i]
        row += 1
    return row


@kernel(fastmath=False)
def remap_points(points, map_x, map_y, shift, extents, normalized, remove, out, kept):
    """The new positions of the points that are in the result, or of all. `shift` is added to the maps."""
    places, found = np.empty(points.shape), np.empty((points.shape[0], 3))
    for point in range(points.shape[0]):
        for i in range(2):
            places[point, i] = np.float64(points[point, i]) * extents[i] if normalized else np.float64(points[point, i])
    find_points(map_x + shift, map_y + shift, places, found)
    row = 0
    for point in range(points.shape[0]):
        x, y, most_x, most_y = found[point, 0], found[point, 1], extents[2], extents[3]
        if normalized:
            x, y, most_x, most_y = x / most_x, y / most_y, 1.0, 1.0
        inside = found[point, 2] > 0 and x >= 0 and x <= most_x and y >= 0 and y <= most_y
        kept[point] = inside or not remove
        if kept[point]:
            out[row, 0], out[row, 1] = x, y
            row += 1
    return row


@kernel(fastmath=False)
def crop_to_window(
    boxes,
    key,
    starts,
    ends,
    extents_given,
    whole,
    thresholds,
    no_crop,
    fixed,
    extents,
    scaling,
    pairs,
    ranges,
    attempts,
    total,
    by_overlap,
    every,
    prune,
    anchor,
    size,
    out,
    kept,
):
    """Draws a window and limits the boxes to it (`boxes.find_windows`); returns -1 if a box is not in the image. `starts` and
    `ends` are the columns of the boxes; with `whole`, anchor and size are rounded to pixels of an image with these extents.
    """
    count, ndim = boxes.shape[0], anchor.size
    lows, highs = np.empty((count, ndim)), np.empty((count, ndim))
    for box in range(count):
        for axis in range(ndim):
            lows[box, axis], highs[box, axis] = boxes[box, starts[axis]], boxes[box, ends[axis]]
            if extents_given:
                highs[box, axis] += lows[box, axis]
            if not (lows[box, axis] >= -1e-6 and highs[box, axis] <= 1 + 1e-6):
                return -1
    rows, keys, counts = np.array([0, count]), np.empty(1, np.uint64), np.empty(1, np.int64)
    keys[0] = key
    anchors, sizes = np.zeros((1, ndim)), np.ones((1, ndim))
    find_windows(
        lows,
        highs,
        rows,
        keys,
        thresholds,
        no_crop,
        fixed,
        extents,
        scaling,
        pairs,
        ranges,
        attempts,
        total,
        by_overlap,
        every,
        prune,
        anchors,
        sizes,
        kept,
        counts,
    )
    first, last = np.empty((counts[0], ndim)), np.empty((counts[0], ndim))
    inside(lows, highs, rows, anchors, sizes, kept, first, last)
    for row in range(counts[0]):
        for axis in range(ndim):
            out[row, starts[axis]] = first[row, axis]
            out[row, ends[axis]] = last[row, axis] - first[row, axis] if extents_given else last[row, axis]
    for axis in range(ndim):
        anchor[axis], size[axis] = anchors[0, axis], sizes[0, axis]
        if whole.size:
            anchor[axis], size[axis] = np.rint(anchors[0, axis] * whole[axis]), np.rint(sizes[0, axis] * whole[axis])
    return counts[0]
