"""Masks: the boxes around connected elements."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from pipeflow.kernels.cpu.jit import kernel, machine_code, plain
from pipeflow.kernels.cpu.random_windows import integer


@kernel
def root_of(parents, place):
    """The first element of a component; the search also shortens the path to it."""
    while parents[place] != place:
        parents[place] = parents[parents[place]]
        place = parents[place]
    return place


@kernel
def join(parents, one, other):
    """Makes one component of two; its root is the first element."""
    one, other = root_of(parents, one), root_of(parents, other)
    if one < other:
        parents[other] = one
    elif other < one:
        parents[one] = other


@kernel
def count_runs(values, background, any_class):
    """The number of runs (neighbours along a row that belong together): there are far fewer runs than elements."""
    count = 0
    for row in range(values.shape[0]):
        line = values[row]
        count += line.size > 0 and line[0] != background
        for x in range(1, line.size):
            value, before = line[x], line[x - 1]
            new = (before == background) | ((before != value) & (not any_class))
            count += np.int64((value != background) & new)
    return count


@kernel
def find_runs(values, background, any_class, first, begins, ends, classes):
    """Finds begin, end and class of every run; `first` gets the number of the first run of each row, and at its end the number
    of runs.
    """
    number = 0
    for row in range(values.shape[0]):
        first[row] = number
        x = 0
        while x < values.shape[1]:
            value = values[row, x]
            if value == background:
                x += 1
                continue
            begins[number], classes[number] = x, value
            x += 1
            while x < values.shape[1] and (values[row, x] == value or (any_class and values[row, x] != background)):
                x += 1
            ends[number] = x
            number += 1
    first[values.shape[0]] = number


@kernel
def join_runs(first, begins, ends, classes, any_class, steps, extents, parents):
    """Joins runs that share a face and a class, or any class. `steps` and `extents` are in rows, for all axes but the last."""
    for row in range(first.size - 1):
        for axis in range(steps.size):
            if row // steps[axis] % extents[axis] == 0:
                continue
            one, other = first[row - steps[axis]], first[row]
            last_one, last_other = first[row - steps[axis] + 1], first[row + 1]
            while one < last_one and other < last_other:
                touching = begins[one] < ends[other] and begins[other] < ends[one]
                if touching and (any_class or classes[one] == classes[other]):
                    join(parents, one, other)
                if ends[one] < ends[other]:
                    one += 1
                else:
                    other += 1


@kernel
def boxes_of(first, begins, ends, parents, numbers, steps, extents, low, high):
    """The start and the end of every component along each axis."""
    last = steps.size
    for row in range(first.size - 1):
        for run in range(first[row], first[row + 1]):
            number = numbers[root_of(parents, run)]
            for axis in range(last):
                place = row // steps[axis] % extents[axis]
                low[number, axis] = min(low[number, axis], place)
                high[number, axis] = max(high[number, axis], place + 1)
            low[number, last] = min(low[number, last], begins[run])
            high[number, last] = max(high[number, last], ends[run])


def components(mask: np.ndarray, background: int, any_class: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Class, start and end of every connected component; with `any_class` all values except the background are one class."""
    flat = plain(mask.view(np.uint8) if mask.dtype == np.bool_ else mask)
    values = flat.reshape(-1, mask.shape[-1])
    outer = mask.shape[:-1]
    steps = np.array([int(np.prod(outer[axis + 1 :])) for axis in range(len(outer))], np.int64)
    extents = np.array(outer, np.int64)
    count = count_runs(values, np.int64(background), any_class)
    first, classes = np.empty(len(values) + 1, np.int64), np.empty(count, np.int64)
    begins, ends = np.empty(count, np.int64), np.empty(count, np.int64)
    find_runs(values, np.int64(background), any_class, first, begins, ends, classes)
    parents = np.arange(count)
    join_runs(first, begins, ends, classes, any_class, steps, extents, parents)
    roots = np.flatnonzero(parents == np.arange(count))
    numbers = np.zeros(count, np.int64)
    numbers[roots] = np.arange(len(roots))
    low = np.full((len(roots), mask.ndim), np.iinfo(np.int64).max)
    high = np.zeros((len(roots), mask.ndim), np.int64)
    boxes_of(first, begins, ends, parents, numbers, steps, extents, low, high)
    return classes[roots], low, high


BLOCK = 4096  # elements that are counted together; then only one block is searched


@kernel
def count_blocks(values, number, equal, counts):
    """For each block, the number of elements that are equal to a number, or larger."""
    for block in range(counts.size):
        part, count = values[block * BLOCK : (block + 1) * BLOCK], np.uint32(0)
        if equal:
            for i in range(part.size):
                count += np.uint32(part[i] == number)
        else:
            for i in range(part.size):
                count += np.uint32(part[i] > number)
        counts[block] = count


@kernel(fastmath=False)
def choose_element(values, number, equal, key, counts, length, depth, height, width, out):
    """The indices of a random element of an array of up to four axes, of those that are equal to a number, or larger, if there
    are any. `counts` is memory with a number for each block; if it is empty, all elements count.
    """
    count_blocks(values, number, equal, counts)
    total = np.int64(0)
    for block in range(counts.size):
        total += np.int64(counts[block])
    place = integer(np.uint64(key), 0, total if total else length * depth * height * width)
    if total:
        block, left = 0, place
        while left >= np.int64(counts[block]):
            left -= np.int64(counts[block])
            block += 1
        place = block * BLOCK - 1
        while left >= 0:
            place += 1
            left -= np.int64(values[place] == number if equal else values[place] > number)
    extents = (width, height, depth, length)
    for axis in range(out.size):
        out[out.size - 1 - axis] = place % extents[axis]
        place //= extents[axis]


MOST_AXES = 4


def limit_of(dtype: np.dtype, value: int | None, threshold: float) -> tuple[np.generic | None, bool]:
    """The number with which elements are compared, in their type, and True if they must be equal; None if no number of the type
    divides them in this way.
    """
    if dtype.kind == "f":
        if dtype.itemsize == 2:  # Numba has no such numbers
            return None, False
        return dtype.type(threshold if value is None else value), value is not None
    if dtype.kind not in "iu":
        return None, False
    whole, ends = math.floor(threshold) if value is None else value, np.iinfo(dtype)
    return (dtype.type(whole) if ends.min <= whole <= ends.max else None), value is not None


def random_element(mask: np.ndarray, foreground: bool, value: int | None, threshold: float, key: int) -> np.ndarray:
    """The indices of a random element of the mask, or of its foreground if it has any; the key has 64 bits."""
    values = mask.view(np.uint8) if mask.dtype.kind == "b" else mask
    number, equal = limit_of(values.dtype, value, threshold)
    if number is None:
        values = (mask > threshold if value is None else mask == value).view(np.uint8)
        number, equal = np.uint8(0), False
    counts = np.empty(-(-mask.size // BLOCK) if foreground else 0, np.uint32)
    shape = mask.shape if mask.ndim <= MOST_AXES else (1, 1, 1, mask.size)
    out = np.empty(len(shape), np.int64)
    extents = (*[1] * (MOST_AXES - len(shape)), *shape)
    signed = key - (key >> 63 << 64)
    choose_element(plain(values).reshape(-1), number, int(equal), signed, counts, *extents, out)
    return out if mask.ndim <= MOST_AXES else np.array(np.unravel_index(out[-1], mask.shape), np.int64)


@kernel
def select_polygons(ids, id_ends, polygons, polygon_ends, vertex_ends, reindex, rows, row_counts, counts, places):
    """The polygons of some masks of several samples, and the places of their vertices; False if a sample has an error.

    `places` is filled in a second call: in the first one it is empty, and `counts` gets the numbers of vertices.
    """
    row, place = 0, 0
    for sample in range(row_counts.size):
        row_counts[sample], counts[sample] = 0, 0
        first_vertex = vertex_ends[sample]
        length = vertex_ends[sample + 1] - first_vertex
        for number in range(id_ends[sample], id_ends[sample + 1]):
            for other in range(id_ends[sample], number):
                if ids[other] == ids[number]:
                    return False
            known = False
            for polygon in range(polygon_ends[sample], polygon_ends[sample + 1]):
                if polygons[polygon, 0] != ids[number]:
                    continue
                known = True
                first, last = polygons[polygon, 1], polygons[polygon, 2]
                if not 0 <= first <= last <= length:
                    return False
                rows[row, 0] = number - id_ends[sample] if reindex else ids[number]
                rows[row, 1], rows[row, 2] = counts[sample], counts[sample] + last - first
                row += 1
                row_counts[sample] += 1
                counts[sample] += last - first
                if places.size:
                    for vertex in range(first, last):
                        places[place] = first_vertex + vertex
                        place += 1
            if not known:
                return False
    return True


@kernel
def select_alone(ids, polygons, length, reindex, rows, places):
    """`select_polygons` for one sample: the numbers of rows and of places; -1 for an error, or if there is too little room."""
    row, place = 0, 0
    for number in range(ids.size):
        mask = np.int64(ids[number])
        for other in range(number):
            if ids[other] == ids[number]:
                return -1, 0
        begun, shown = row, number if reindex else mask
        for polygon in range(polygons.shape[0]):
            if np.int64(polygons[polygon, 0]) != mask:
                continue
            first, last = np.int64(polygons[polygon, 1]), np.int64(polygons[polygon, 2])
            if (
                not 0 <= first <= last <= length
                or place + last - first > places.size
                or not -(1 << 31) <= shown < 1 << 31
            ):
                return -1, 0
            rows[row, 0], rows[row, 1], rows[row, 2] = shown, place, place + last - first
            row += 1
            for vertex in range(first, last):
                places[place] = vertex
                place += 1
        if row == begun:
            return -1, 0
    return row, place


def selecting(ids: np.dtype, polygons: np.dtype, most: int, length: int, reindex: bool) -> Callable[..., Any]:
    """`select` of one sample for many calls ``(ids, polygons, vertices)``; with so many polygons and vertices."""
    rows, places, empty = np.empty((0, 3), np.int32), np.empty(0, np.int64), np.empty
    compute = machine_code(select_alone, empty(0, ids), empty((0, 3), polygons), length, reindex, rows, places)

    def run(given: np.ndarray, known: np.ndarray, vertices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        found, kept = empty((most, 3), np.int32), empty(2 * length, np.int64)
        row, place = compute(given.ravel(), np.ascontiguousarray(known), length, reindex, found, kept)
        if row < 0:
            raise ValueError
        return found if row == most else found[:row].copy(), vertices.take(kept[:place], 0)

    return run


def select(
    ids: np.ndarray,
    id_ends: np.ndarray,
    polygons: np.ndarray,
    polygon_ends: np.ndarray,
    vertex_ends: np.ndarray,
    reindex: bool,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray] | None:
    """The polygons of some masks, and the places of their vertices, with the numbers of both in each sample.

    None if a sample has an error. Each mask is named once, so no polygon comes twice.
    """
    size = len(id_ends) - 1
    rows = np.empty((len(polygons), 3), np.int32)
    row_counts, counts = np.empty(size, np.int64), np.empty(size, np.int64)
    given = ids, id_ends, polygons, polygon_ends, vertex_ends, reindex, rows, row_counts, counts
    if not select_polygons(*given, _NO_PLACES):
        return None
    places = np.empty(int(counts.sum()), np.int64)
    select_polygons(*given, places)
    return rows, row_counts, places, counts


_NO_PLACES = np.empty(0, np.int64)


def loaded() -> bool:
    """True if the kernel of `select` is in memory."""
    return bool(select_polygons.signatures)


def load() -> None:
    """Reads the kernel of `select` from the disk, or compiles it."""
    none, ends = np.empty((0, 3), np.int64), np.zeros(1, np.int64)
    select(none[:, 0].copy(), ends, none, ends, ends, False)
