"""Sums of floats in NumPy's order, so that their bits are the same.

NumPy adds the elements of a contiguous array in pairs: blocks of at most 128 elements with eight sums, and the blocks two by two.
Along other axes than the last one it adds row by row.
"""

import numba
import numpy as np

BLOCK = 128
FEW = 16  # elements of a row that are summed in registers


@numba.njit(nogil=True, boundscheck=False)
def _block(x, begin, count):
    """The sum of at most BLOCK elements."""
    if count < 8:
        total = x.dtype.type(-0.0)
        for place in range(begin, begin + count):
            total += x[place]
        return total
    a, b, c, d = x[begin], x[begin + 1], x[begin + 2], x[begin + 3]
    e, f, g, h = x[begin + 4], x[begin + 5], x[begin + 6], x[begin + 7]
    end = begin + count - count % 8
    for place in range(begin + 8, end, 8):
        a += x[place]
        b += x[place + 1]
        c += x[place + 2]
        d += x[place + 3]
        e += x[place + 4]
        f += x[place + 5]
        g += x[place + 6]
        h += x[place + 7]
    total = ((a + b) + (c + d)) + ((e + f) + (g + h))
    for place in range(end, begin + count):
        total += x[place]
    return total


@numba.njit(nogil=True, boundscheck=False)
def pairs(x, begin, count):
    """The sum in NumPy's order. The parts of the sum wait on a stack: Numba cannot load code again that calls itself."""
    if count <= BLOCK:
        return _block(x, begin, count)
    begins, counts, done = np.zeros(64, np.int64), np.zeros(64, np.int64), np.zeros(64, np.int64)
    sums, total, top = np.empty(64, x.dtype), x.dtype.type(0), 0
    begins[0], counts[0] = begin, count
    while top >= 0:
        half = counts[top] // 2
        half -= half % 8
        if counts[top] <= BLOCK:
            total = _block(x, begins[top], counts[top])
            top -= 1
        elif done[top] == 2:
            total = sums[top] + total
            top -= 1
        else:
            first = done[top] == 0
            if not first:
                sums[top] = total
            done[top] += 1
            begins[top + 1] = begins[top] if first else begins[top] + half
            counts[top + 1] = half if first else counts[top] - half
            done[top + 1] = 0
            top += 1
    return total


@numba.njit(nogil=True)
def sum_of_all(x):
    """``x.sum()`` of an array with one axis; an exception for a NaN, whose bits depend on NumPy's loops."""
    total = x.dtype.type(0) + pairs(x, 0, x.size)
    if total != total:
        raise ValueError("a sum that is no number")
    return total


@numba.njit(nogil=True)
def mean_of_all(x):
    """``x.mean()``. NumPy divides as float64."""
    if x.size == 0:
        raise ValueError("the mean of no elements")
    return x.dtype.type(np.float64(sum_of_all(x)) / np.float64(x.size))


@numba.njit(nogil=True, boundscheck=False)
def variance_of_all(x):
    """``x.var()``."""
    mean = mean_of_all(x)
    squares = np.empty_like(x)
    for place in range(x.size):
        apart = x[place] - mean
        squares[place] = apart * apart
    return x.dtype.type(np.float64(sum_of_all(squares)) / np.float64(x.size))


@numba.njit(nogil=True, boundscheck=False)
def _groups(shape, reduced):
    """The extents of neighbouring axes that are treated alike, and if they are reduced. Axes with one element do not count."""
    extents, flags, count = np.ones(shape.size + 1, np.int64), np.zeros(shape.size + 1, np.bool_), 0
    for axis in range(shape.size):
        if shape[axis] == 1:
            continue
        if count == 0 or flags[count - 1] != reduced[axis]:
            extents[count], flags[count] = 1, reduced[axis]
            count += 1
        extents[count - 1] *= shape[axis]
    return extents, flags, count


@numba.njit(nogil=True, boundscheck=False)
def _add_rows(x, rows, width, out):
    """Adds rows of a few elements, one to another."""
    for place in range(width):
        total = out.dtype.type(0)
        for row in range(rows):
            total += x[row * width + place]
        out[place] = total


@numba.njit(nogil=True, boundscheck=False)
def _steps(extents, flags, count):
    """How far each group of axes moves in the result: 0 for those that are reduced."""
    steps, step = np.zeros(count + 1, np.int64), 1
    for group in range(count - 1, -1, -1):
        if not flags[group]:
            steps[group] = step
            step *= extents[group]
    return steps


@numba.njit(nogil=True, boundscheck=False)
def _next_line(places, extents, steps, last, place):
    """The place in the result for the next line along the last group; ``places`` counts in the others."""
    group = last - 1
    while group >= 0:
        places[group] += 1
        place += steps[group]
        if places[group] < extents[group]:
            break
        place -= steps[group] * extents[group]
        places[group] = 0
        group -= 1
    return place


@numba.njit(nogil=True, boundscheck=False)
def _add_all(x, extents, flags, count, out):
    """Adds the elements of an array to the elements of the result that they belong to."""
    out[:] = 0
    if x.size == 0:
        return
    last, width = count - 1, extents[max(count - 1, 0)]
    if count == 2 and flags[0] and width < FEW:
        _add_rows(x, extents[0], width, out)
        return
    places, steps = np.zeros(count + 1, np.int64), _steps(extents, flags, count)
    begin = target = 0
    while begin < x.size:
        if count and flags[last]:
            out[target] += pairs(x, begin, width)
        else:
            numbers, found = x[begin : begin + width], out[target : target + width]
            for place in range(width):
                found[place] += numbers[place]
        begin += width
        target = _next_line(places, extents, steps, last, target)


@numba.njit(nogil=True, boundscheck=False)
def _check_numbers(out):
    strange = 0
    for place in range(out.size):
        strange += out[place] != out[place]
    if strange:
        raise ValueError("a sum that is no number")


@numba.njit(nogil=True)
def sum_along(x, shape, reduced, result):
    """``x.reshape(shape).sum(axis=...)`` for the axes that are ``reduced``, written to the result."""
    extents, flags, count = _groups(shape, reduced)
    out = result.reshape(result.size)
    _add_all(x, extents, flags, count, out)
    _check_numbers(out)
    return result


@numba.njit(nogil=True)
def sum_of_squares(x, shape, reduced, result):
    """The same for the sum of squares."""
    return sum_along(x * x, shape, reduced, result)


@numba.njit(nogil=True)
def mean_along(x, shape, reduced, result):
    """The same for ``mean``."""
    if x.size == 0:
        raise ValueError("the mean of no elements")
    sum_along(x, shape, reduced, result)
    out, elements = result.reshape(result.size), np.float64(x.size // result.size)
    for place in range(out.size):
        out[place] = np.float64(out[place]) / elements
    return result


@numba.njit(nogil=True, boundscheck=False)
def variance_along(x, shape, reduced, result):
    """The same for ``var``."""
    mean_along(x, shape, reduced, result)
    extents, flags, count = _groups(shape, reduced)
    means, squares = result.reshape(result.size), np.empty_like(x)
    last, width = count - 1, extents[max(count - 1, 0)]
    places, steps = np.zeros(count + 1, np.int64), _steps(extents, flags, count)
    begin = source = 0
    while begin < x.size:
        for place in range(begin, begin + width):
            apart = x[place] - means[source if count and flags[last] else source + place - begin]
            squares[place] = apart * apart
        begin += width
        source = _next_line(places, extents, steps, last, source)
    return mean_along(squares, shape, reduced, result)
