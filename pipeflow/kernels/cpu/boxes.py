"""Bounding boxes: windows that keep them, and the targets of a detector."""

import numpy as np

from .jit import Filling, kernel, over_elements, plain
from .noise import GOLDEN, mixed

STEP = 2.0**-53


@kernel
def unit(key, counter):
    """Number `counter` of a key, in [0, 1)."""
    return np.float64(mixed(key ^ mixed((counter + np.uint64(1)) * GOLDEN)) >> np.uint64(11)) * STEP


@kernel
def map_points(points, matrix, offset, out):
    """Multiplies every row of numbers by a matrix, adds an offset (last, as on the GPU), in float64, and rounds once."""
    size = offset.size
    for row in range(points.size // size):
        begin = row * size
        for i in range(size):
            total = 0.0
            for j in range(size):
                total += matrix[i, j] * points[begin + j]
            out[begin + i] = total + offset[i]


def mapped(points: np.ndarray, matrix: np.ndarray, offset: np.ndarray, out: np.ndarray) -> np.ndarray:
    """Applies ``map_points`` to numbers whose last axis, or groups of it, are points or boxes."""
    if points.dtype == np.float16:
        out[...] = mapped(points.astype(np.float64), matrix, offset, np.empty(out.shape, np.float64))
    else:
        map_points(plain(points).reshape(-1), matrix, offset, out.reshape(-1))
    return out


@kernel
def to_ratio(sizes, first, second, low, high):
    """Changes two sizes to a given ratio: the longer one keeps its share, the other is computed. True if the result fits."""
    if low == high:
        longest = max(sizes[first], sizes[second])
        sizes[first] = longest if low >= 1 else longest * low
        sizes[second] = longest / low if low >= 1 else longest
        return True
    ratio = sizes[first] / sizes[second] if sizes[second] > 0 else np.inf
    return low <= ratio <= high


@kernel
def overlap(lows, highs, box, anchor, sizes, of_box):
    """The share of a box in a window, or the intersection over union of both."""
    common, own, window = 1.0, 1.0, 1.0
    for axis in range(lows.shape[1]):
        low, high = lows[box, axis], highs[box, axis]
        common *= max(min(high, anchor[axis] + sizes[axis]) - max(low, anchor[axis]), 0.0)
        own *= max(high - low, 0.0)
        window *= sizes[axis]
    whole = own if of_box else own + window - common
    return common / whole if common > 0 and whole > 0 else 0.0


@kernel
def stays(lows, highs, box, anchor, sizes, prune):
    """True if a box belongs to a window: its centre is inside, or with `prune`, at least this share of it is."""
    if prune >= 0:
        return overlap(lows, highs, box, anchor, sizes, True) >= prune
    for axis in range(lows.shape[1]):
        centre = (lows[box, axis] + highs[box, axis]) / 2
        if centre < anchor[axis] or centre > anchor[axis] + sizes[axis]:
            return False
    return True


@kernel
def place_window(key, counter, fixed, extents, scaling, pairs, ratios, anchor, sizes):
    """Draws a window in relative coordinates; False if its aspect ratio does not fit."""
    ndim = sizes.size
    if fixed[0] > 0:
        for axis in range(ndim):
            free = extents[axis] - fixed[axis]  # a window that is larger than the image begins before it
            step = np.floor(unit(key, counter + np.uint64(axis)) * (abs(free) + 1))
            anchor[axis] = (step if free >= 0 else -step) / extents[axis]
            sizes[axis] = fixed[axis] / extents[axis]
        return True
    for axis in range(ndim):
        sizes[axis] = scaling[0] + (scaling[1] - scaling[0]) * unit(key, counter + np.uint64(axis))
    fits = True
    for _ in range(1 if ndim == 2 else 2):  # with three axes, one pair may change a size that another has set
        fits = True
        for pair in range(pairs.shape[0]):
            if not to_ratio(sizes, pairs[pair, 0], pairs[pair, 1], ratios[pair, 0], ratios[pair, 1]):
                fits = False
    if fits:
        for axis in range(ndim):
            anchor[axis] = (1.0 - sizes[axis]) * unit(key, counter + np.uint64(ndim + axis))
    return fits


@kernel
def find_window(
    lows,
    highs,
    key,
    thresholds,
    no_crop,
    fixed,
    extents,
    scaling,
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
):
    """Searches a window whose boxes overlap it enough; the last three arguments receive the anchor, the sizes and a
    mask of the boxes.

    Boxes and window are relative to the image. A threshold is chosen at random (with `no_crop`, also the whole image), and
    `attempts` windows are tried; this is repeated. After `total` windows the best window that keeps a box is taken.
    """
    ndim, count = lows.shape[1], lows.shape[0]
    found_anchor, found_sizes = np.zeros(ndim), np.ones(ndim)
    best, tried = -1.0, 0
    hardest = 0  # the box that decided about the last window: it is often the first to decide about the next one
    counter, step = np.uint64(0), np.uint64(2 * ndim)
    while tried < total:
        choice = int(unit(key, counter) * (thresholds.size + no_crop))
        counter += np.uint64(1)
        if choice == thresholds.size:
            found_anchor[:] = 0.0
            found_sizes[:] = 1.0
            break
        enough = False
        for _ in range(attempts):
            if tried == total or enough:
                break
            tried += 1
            fits = place_window(key, counter, fixed, extents, scaling, pairs, ratios, anchor, sizes)
            counter += step
            if not fits:
                continue
            if best < 0 and fixed[0] > 0:
                found_anchor[:] = anchor
                found_sizes[:] = sizes
            metric = 1.0 if every or count == 0 else 0.0
            for turn in range(0 if every else 1, count + 1 if count else 0):
                box = turn - 1 if turn else hardest
                value = overlap(lows, highs, box, anchor, sizes, by_overlap)
                metric = min(metric, value) if every else max(metric, value)
                if every and metric <= best and metric < thresholds[choice]:  # further boxes can only make it smaller
                    hardest = box
                    break
            better, stay = metric >= thresholds[choice] or metric > best, count == 0
            for box in range(count):
                if not better or stay:
                    break
                stay = stays(lows, highs, box, anchor, sizes, prune)
            if better and stay:
                enough = metric >= thresholds[choice]
                best = metric
                found_anchor[:] = anchor
                found_sizes[:] = sizes
        if enough:
            break
    anchor[:] = found_anchor
    sizes[:] = found_sizes
    whole = True
    for axis in range(ndim):
        whole &= anchor[axis] == 0.0 and sizes[axis] == 1.0
    for box in range(count):
        kept[box] = whole or stays(lows, highs, box, anchor, sizes, prune)


@kernel
def match(anchors, boxes, criteria, matched):
    """The box of each anchor: the one that overlaps it most by more than `criteria`, -1 if none does.

    Each box always gets the anchor that overlaps it most. Among equal ones the last one is taken, as in DALI.
    """
    taken = np.full(anchors.shape[0], -1, np.int64)
    area = np.empty(anchors.shape[0], np.float32)
    best = np.full(anchors.shape[0], -1, np.float32)
    for i in range(anchors.shape[0]):
        area[i] = (anchors[i, 2] - anchors[i, 0]) * (anchors[i, 3] - anchors[i, 1])
        matched[i] = -1
    for b in range(boxes.shape[0]):
        left, top, right, bottom = boxes[b, 0], boxes[b, 1], boxes[b, 2], boxes[b, 3]
        own = (right - left) * (bottom - top)
        most, place = np.float32(-1), -1
        for i in range(anchors.shape[0]):
            wide = min(right, anchors[i, 2]) - max(left, anchors[i, 0])
            tall = min(bottom, anchors[i, 3]) - max(top, anchors[i, 1])
            common = wide * tall if wide > 0 and tall > 0 else np.float32(0)
            value = common / (own + area[i] - common) if common > 0 else np.float32(0)
            if value >= most:
                most, place = value, i
            if value > criteria and value >= best[i]:
                best[i] = value
                matched[i] = b
        if place >= 0:
            taken[place] = b
    for i in range(anchors.shape[0]):
        if taken[i] >= 0:
            matched[i] = taken[i]


@kernel
def encode(anchors, boxes, labels, matched, offset, means, stds, targets, classes):
    """The target of each anchor: its box as centre and extents, or as offsets from the anchor, and its class."""
    for i in range(anchors.shape[0]):
        b = matched[i]
        ax, ay = (anchors[i, 0] + anchors[i, 2]) * np.float32(0.5), (anchors[i, 1] + anchors[i, 3]) * np.float32(0.5)
        aw, ah = anchors[i, 2] - anchors[i, 0], anchors[i, 3] - anchors[i, 1]
        classes[i] = labels[b] if b >= 0 else 0
        if b < 0 and offset:
            targets[i, :] = 0
            continue
        x, y, w, h = ax, ay, aw, ah
        if b >= 0:
            x, y = (boxes[b, 0] + boxes[b, 2]) * np.float32(0.5), (boxes[b, 1] + boxes[b, 3]) * np.float32(0.5)
            w, h = boxes[b, 2] - boxes[b, 0], boxes[b, 3] - boxes[b, 1]
        if offset:
            targets[i, 0] = ((x - ax) / aw - means[0]) / stds[0]
            targets[i, 1] = ((y - ay) / ah - means[1]) / stds[1]
            targets[i, 2] = (np.log(w / aw) - means[2]) / stds[2]
            targets[i, 3] = (np.log(h / ah) - means[3]) / stds[3]
        else:
            targets[i, 0], targets[i, 1], targets[i, 2], targets[i, 3] = x, y, w, h


@kernel
def match_and_encode(anchors, boxes, labels, criteria, offset, means, stds, targets, classes):
    """`encode` for the boxes that `match` finds."""
    rows, matched = boxes.astype(np.float32), np.empty(anchors.shape[0], np.int64)
    match(anchors, rows, criteria, matched)
    encode(anchors, rows, labels, matched, offset, means, stds, targets, classes)


@kernel(fastmath=False)
def scale_rows(points, factor, offset, out):
    """Multiplies every number by a factor and adds the offset of its coordinate."""
    for i in range(points.size):
        out[i] = np.float64(points[i]) * factor + offset[i % offset.size]


@kernel
def map_rows(points, ends, linear, offset, out):
    """Multiplies each row by the matrix of its sample, or by the only one, and adds the offset last."""
    in_plane = linear.shape[1] == 2 and linear.shape[2] == 2
    for sample in range(ends.size - 1):
        own = sample if linear.shape[0] > 1 else 0
        if in_plane:  # the usual case, in a third of the time
            a, b, c, d = linear[own, 0, 0], linear[own, 0, 1], linear[own, 1, 0], linear[own, 1, 1]
            right, down = offset[own, 0], offset[own, 1]
            for point in range(ends[sample], ends[sample + 1]):
                x, y = np.float64(points[point, 0]), np.float64(points[point, 1])
                out[point, 0] = 0.0 + a * x + b * y + right
                out[point, 1] = 0.0 + c * x + d * y + down
            continue
        for point in range(ends[sample], ends[sample + 1]):
            for i in range(linear.shape[1]):
                total = 0.0
                for j in range(linear.shape[2]):
                    total += linear[own, i, j] * points[point, j]
                out[point, i] = total + offset[own, i]


@kernel
def find_windows(
    lows,
    highs,
    ends,
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
):
    """`find_window` for several samples: those of one sample are the boxes from one of the ends to the next."""
    ratios = np.empty_like(ranges)
    for sample in range(counts.size):
        begin, end = ends[sample], ends[sample + 1]
        for pair in range(pairs.shape[0]):
            scale = extents[sample, pairs[pair, 1]] / extents[sample, pairs[pair, 0]]
            ratios[pair, 0], ratios[pair, 1] = ranges[pair, 0] * scale, ranges[pair, 1] * scale
        find_window(
            lows[begin:end],
            highs[begin:end],
            keys[sample],
            thresholds,
            no_crop,
            fixed[sample],
            extents[sample],
            scaling,
            pairs,
            ratios,
            attempts,
            total,
            by_overlap,
            every,
            prune,
            anchors[sample],
            sizes[sample],
            kept[begin:end],
        )
        counts[sample] = 0
        for box in range(begin, end):
            counts[sample] += kept[box]


@kernel(fastmath=False)
def inside(lows, highs, ends, anchors, sizes, kept, first, last):
    """The boxes that remain, relative to their windows and limited to them."""
    row = 0
    for sample in range(ends.size - 1):
        for box in range(ends[sample], ends[sample + 1]):
            if kept[box]:
                for axis in range(lows.shape[1]):
                    low = (lows[box, axis] - anchors[sample, axis]) / sizes[sample, axis]
                    high = (highs[box, axis] - anchors[sample, axis]) / sizes[sample, axis]
                    first[row, axis], last[row, axis] = limited(low, 1.0), limited(high, 1.0)
                row += 1


@kernel(fastmath=False, inline="always")
def limited(value, most):
    """A number between 0 and the most, as NumPy limits it: NaN stays NaN."""
    if value != value:
        return value
    least = value if value > 0.0 else 0.0
    return least if least < most else most


EXPAND, HALFWAY, FIXED = range(3)


@kernel(fastmath=False)
def limit_box(left, top, right, bottom, most_x, most_y, extents_given, threshold, out, row):
    """Limits a box to an image and writes it to a row; False if too little of its area is left."""
    whole = (right - left) * (bottom - top)
    touches = right >= 0 and bottom >= 0 and left <= most_x and top <= most_y
    left, top = limited(left, most_x), limited(top, most_y)
    right, bottom = limited(right, most_x), limited(bottom, most_y)
    area = (right - left) * (bottom - top)
    share = area / whole if whole > 0 else (1.0 if touches else 0.0)
    if not share >= threshold:
        return False
    if extents_given:
        right, bottom = right - left, bottom - top
    out[row, 0], out[row, 1], out[row, 2], out[row, 3] = left, top, right, bottom
    return True


@kernel(fastmath=False)
def rotate_boxes(boxes, ends, turns, mode, extents_given, normalized, threshold, out, kept, counts):
    """Boxes that turn with their images, and are limited to the canvas; those that keep enough of their area are in `out`.

    `turns` has a row for each sample: cosine and sine, width and height of the image, and of the canvas.
    """
    row = 0
    for sample in range(counts.size):
        cos, sin = turns[sample, 0], turns[sample, 1]
        width, height, wide, tall = turns[sample, 2], turns[sample, 3], turns[sample, 4], turns[sample, 5]
        counts[sample] = 0
        for box in range(ends[sample], ends[sample + 1]):
            left, top, right, bottom = boxes[box, 0], boxes[box, 1], boxes[box, 2], boxes[box, 3]
            if extents_given:
                right, bottom = right + left, bottom + top
            if normalized:
                left, top, right, bottom = left * width, top * height, right * width, bottom * height
            x, y = (left + right) / 2 - width / 2, (top + bottom) / 2 - height / 2
            x, y = (x * cos + y * sin) + wide / 2, (x * -sin + y * cos) + tall / 2
            half_x, half_y = (right - left) / 2, (bottom - top) / 2
            around_x = half_x * abs(cos) + half_y * abs(sin)
            around_y = half_x * abs(sin) + half_y * abs(cos)
            if abs(cos) < abs(sin):
                half_x, half_y = half_y, half_x
            if mode == EXPAND:
                half_x, half_y = around_x, around_y
            elif mode == HALFWAY:
                half_x, half_y = (around_x + half_x) / 2, (around_y + half_y) / 2
            left, top, right, bottom = x - half_x, y - half_y, x + half_x, y + half_y
            most_x, most_y = wide, tall
            if normalized:
                left, top, right, bottom = left / wide, top / tall, right / wide, bottom / tall
                most_x = most_y = 1.0
            kept[box] = limit_box(left, top, right, bottom, most_x, most_y, extents_given, threshold, out, row)
            if kept[box]:
                row += 1
                counts[sample] += 1


@kernel(fastmath=False)
def crop_boxes(boxes, window, normalized, extents_given, threshold, out, kept):
    """Boxes in a window, limited to it; returns the number of those that keep enough of their area, which are in `out`.

    `window` has its start, its extents and those of the image, each as x and y.
    """
    row = 0
    for box in range(boxes.shape[0]):
        left, top = np.float64(boxes[box, 0]), np.float64(boxes[box, 1])
        right, bottom = np.float64(boxes[box, 2]), np.float64(boxes[box, 3])
        if extents_given:
            right, bottom = right + left, bottom + top
        most_x, most_y = window[2], window[3]
        if normalized:
            left, top, right, bottom = left * window[4], top * window[5], right * window[4], bottom * window[5]
        left, top, right, bottom = left - window[0], top - window[1], right - window[0], bottom - window[1]
        if normalized:
            left, top, right, bottom = left / most_x, top / most_y, right / most_x, bottom / most_y
            most_x = most_y = 1.0
        kept[box] = limit_box(left, top, right, bottom, most_x, most_y, extents_given, threshold, out, row)
        row += kept[box]
    return row


@kernel(fastmath=False)
def crop_points(points, window, normalized, remove, out, kept):
    """Points in a window; returns the number of those that are inside, or of all, which are in `out`."""
    row = 0
    for point in range(points.shape[0]):
        x, y = np.float64(points[point, 0]), np.float64(points[point, 1])
        if normalized:
            x, y = x * window[4], y * window[5]
        x, y = x - window[0], y - window[1]
        kept[point] = not remove or (x >= 0 and x <= window[2] and y >= 0 and y <= window[3])
        if kept[point]:
            out[row, 0], out[row, 1] = (x / window[2], y / window[3]) if normalized else (x, y)
            row += 1
    return row


def mapping(dtype: np.dtype, matrix: np.ndarray, offset: np.ndarray) -> Filling | None:
    """`mapped` with one matrix, for many calls."""
    return over_elements(map_points, dtype, (matrix, offset), dtype) if dtype != np.float16 else None


def mapped_rows(
    points: np.ndarray, ends: np.ndarray, linear: np.ndarray, offset: np.ndarray, dtype: np.dtype
) -> np.ndarray:
    """Points of several samples through the matrix of each sample, or the only one; then its offset is added. The type of the
    points and that of the result are float32, or both are float64.
    """
    out = np.empty((len(points), linear.shape[1]), dtype)
    map_rows(plain(points), ends, plain(linear), plain(offset), out)
    return out


def loaded() -> bool:
    """True if the kernels for several samples are in memory."""
    return bool(rotate_boxes.signatures)


def load() -> None:
    """Reads the kernels for several samples from the disk, or compiles them."""
    ends, none, pairs = np.zeros(1, np.int64), np.empty((0, 2)), np.empty((0, 2), np.int64)
    kept, counts, numbers = np.empty(0, np.bool_), np.empty(0, np.int64), np.zeros(1)
    options = numbers, False, none, none, numbers, pairs, none, 1, 1, False, True, -1.0
    find_windows(none, none, ends, counts.astype(np.uint64), *options, none, none, kept, counts)
    inside(none, none, ends, none, none, kept, none, none)
    for points in (none, none.astype(np.float32)):
        mapped_rows(points, ends, np.empty((1, 2, 2)), none, points.dtype)
    rotate_boxes(none, ends, none, EXPAND, False, True, 0.1, none, kept, counts)
