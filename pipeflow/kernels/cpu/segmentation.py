"""Masks: the boxes around connected elements."""

import numpy as np

from .jit import kernel, plain


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
