"""Bounding boxes: windows that keep them, and the targets of a detector."""

import numpy as np

from .jit import kernel, plain
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
def overlaps(lows, highs, box, anchor, sizes):
    """The share of a box in a window, and the intersection over union of both."""
    common, own, window = 1.0, 1.0, 1.0
    for axis in range(lows.shape[1]):
        low, high = lows[box, axis], highs[box, axis]
        common *= max(min(high, anchor[axis] + sizes[axis]) - max(low, anchor[axis]), 0.0)
        own *= max(high - low, 0.0)
        window *= sizes[axis]
    union = own + window - common
    return (common / own if own > 0 else 0.0), (common / union if union > 0 else 0.0)


@kernel
def stays(lows, highs, box, anchor, sizes, prune):
    """True if a box belongs to a window: its centre is inside, or with `prune`, at least this share of it is."""
    if prune >= 0:
        return overlaps(lows, highs, box, anchor, sizes)[0] >= prune
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
            metric, stay = 1.0 if every or count == 0 else 0.0, count == 0
            for box in range(count):
                share, union = overlaps(lows, highs, box, anchor, sizes)
                value = share if by_overlap else union
                metric = min(metric, value) if every else max(metric, value)
                stay |= stays(lows, highs, box, anchor, sizes, prune)
            if not stay:
                continue
            enough = metric >= thresholds[choice]
            if enough or metric > best:
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
