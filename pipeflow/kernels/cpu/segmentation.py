"""Masks: the boxes around what is connected in them."""

import numpy as np

from .jit import kernel, plain


@kernel
def root_of(parents, place):
    """The first element of a component; the way there is halved."""
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
def join_neighbours(values, steps, extents, background, any_class, parents):
    """Joins elements that share a face and a class (or any class but the background), a row at a time.

    `steps` and `extents` are in rows, for all axes but the last.
    """
    rows, width = values.shape
    behind = np.empty(steps.size, np.int64)
    for row in range(rows):
        count = 0
        for axis in range(steps.size):
            if row // steps[axis] % extents[axis]:
                behind[count] = steps[axis]
                count += 1
        for x in range(width):
            place, value = row * width + x, values[row, x]
            if value == background:
                parents[place] = -1
                continue
            parents[place] = place
            if x and parents[place - 1] >= 0 and (any_class or values[row, x - 1] == value):
                parents[place] = root_of(parents, place - 1)
            for k in range(count):
                before = place - behind[k] * width
                if parents[before] >= 0 and (any_class or values[row - behind[k], x] == value):
                    join(parents, before, place)


@kernel
def boxes_of(parents, width, steps, extents, numbers, low, high):
    """The first and last + 1 place of every component along each axis."""
    places = np.empty(steps.size + 1, np.int64)
    for row in range(parents.size // width):
        for axis in range(steps.size):
            places[axis] = row // steps[axis] % extents[axis]
        for x in range(width):
            place = row * width + x
            if parents[place] < 0:
                continue
            places[steps.size] = x
            number = numbers[root_of(parents, place)]
            for axis in range(places.size):
                low[number, axis] = min(low[number, axis], places[axis])
                high[number, axis] = max(high[number, axis], places[axis] + 1)


def components(mask: np.ndarray, background: int, any_class: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Class, first and last + 1 place of everything connected; with `any_class` all but the background is one class."""
    flat = plain(mask.view(np.uint8) if mask.dtype == np.bool_ else mask)
    width = mask.shape[-1]
    values = flat.reshape(-1, width)
    outer = mask.shape[:-1]
    steps = np.array([int(np.prod(outer[axis + 1 :])) for axis in range(len(outer))], np.int64)
    extents = np.array(outer, np.int64)
    parents = np.empty(values.size, np.int64)
    join_neighbours(values, steps, extents, np.int64(background), any_class, parents)
    roots = np.flatnonzero(parents == np.arange(values.size))
    numbers = np.zeros(values.size, np.int64)
    numbers[roots] = np.arange(len(roots))
    low = np.full((len(roots), mask.ndim), np.iinfo(np.int64).max)
    high = np.zeros((len(roots), mask.ndim), np.int64)
    boxes_of(parents, width, steps, extents, numbers, low, high)
    return values.reshape(-1)[roots].astype(np.int64), low, high
