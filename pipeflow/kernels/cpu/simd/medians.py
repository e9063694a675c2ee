"""Medians of 3 x 3 and 5 x 5 bytes, 64 at a time, by comparisons alone.

The columns of a window are sorted once for all windows that have them. Then each row of the sorted columns is sorted as far as
needed: a value with more than half of the window below it, or above it, is not the median. LLVM removes the comparisons whose
results are not used.
"""

from collections.abc import Sequence
from typing import Any

from pipeflow.kernels.cpu.simd.instructions import (
    DATA,
    INDEX,
    INT8,
    INT64,
    at,
    load,
    many,
    over,
    store,
    vector_function,
)

BYTES = 64
# Pairs of places to compare, so that all are sorted at the end.
NETWORKS = {
    2: ((0, 1),),
    3: ((0, 1), (1, 2), (0, 1)),
    5: ((0, 3), (1, 4), (0, 2), (1, 3), (0, 1), (2, 4), (1, 2), (3, 4), (2, 3)),
}


def _less(builder: Any, a: Any, b: Any) -> Any:
    return builder.select(builder.icmp_unsigned("<", a, b), a, b)


def _more(builder: Any, a: Any, b: Any) -> Any:
    return builder.select(builder.icmp_unsigned("<", a, b), b, a)


def _sorted(builder: Any, values: Sequence[Any]) -> list[Any]:
    found = list(values)
    for low, high in NETWORKS[len(found)]:
        a, b = found[low], found[high]
        found[low], found[high] = _less(builder, a, b), _more(builder, a, b)
    return found


def _of_two(builder: Any, one: Sequence[Any], other: Sequence[Any], rank: int) -> Any:
    """The value with a rank, from 1 on, among the values of two sorted lists."""
    best = None
    for taken in range(max(rank - len(one), 0), min(rank, len(other)) + 1):
        ends = [part[count - 1] for part, count in ((one, rank - taken), (other, taken)) if count]
        last = ends[0] if len(ends) == 1 else _more(builder, *ends)
        best = last if best is None else _less(builder, best, last)
    return best


def _merged(builder: Any, one: Sequence[Any], other: Sequence[Any]) -> list[Any]:
    return [_of_two(builder, one, other, rank) for rank in range(1, len(one) + len(other) + 1)]


def _median(builder: Any, rows: Sequence[Sequence[Any]]) -> Any:
    """The median of a window, given as rows; its columns are sorted."""
    size = len(rows)
    half, left = size * size // 2, []
    for i, row in enumerate(rows):
        found = _sorted(builder, row)
        # sorting rows keeps columns sorted: the products below count the values not larger, and not smaller, than [i][j]
        left.append(
            [
                value
                for j, value in enumerate(found)
                if (i + 1) * (j + 1) - 1 <= half and (size - i) * (size - j) - 1 <= half
            ]
        )
    rank = (sum(map(len, left)) + 1) // 2  # the number of values left out below is equal to that above
    if size == 3:
        return _of_two(builder, _merged(builder, left[0], left[2]), left[1], rank)
    outer, inner = _merged(builder, left[0], left[4]), _merged(builder, left[1], left[3])
    return _of_two(builder, _merged(builder, outer, inner), left[2], rank)


def sort_columns(size: int) -> Any:
    """Makes the function that sorts ``size`` rows, value by value."""

    @vector_function(DATA, DATA, DATA, INDEX, INDEX, INDEX)
    def sort(builder, source, places, out, begin, stride, total):
        """Sets out[k * stride + begin :][:total] to the k-th smallest of source[places[...] :][:total]."""

        def body(first: Any, lanes: int) -> None:
            values = []
            for k in range(size):
                place = builder.load(at(builder, places.pointer, INT64(k)))
                values.append(
                    load(builder, at(builder, source.pointer, builder.add(place, first)), many(INT8, lanes), 1)
                )
            for k, value in enumerate(_sorted(builder, values)):
                place = builder.add(builder.add(builder.mul(stride, INT64(k)), begin), first)
                store(builder, value, at(builder, out.pointer, place), 1)

        over(builder, total, body, width=BYTES)

    return sort


def medians_of_columns(size: int) -> Any:
    """Makes the function that finds the medians of windows of sorted columns."""

    @vector_function(DATA, INDEX, INDEX, DATA, INDEX, INDEX)
    def medians(builder, columns, stride, pixel, out, out_offset, total):
        """Sets out[out_offset + i] to the median of the columns at i, i + pixel, ...; their row k is at k * stride."""

        def body(first: Any, lanes: int) -> None:
            rows = []
            for k in range(size):
                line = builder.add(builder.mul(stride, INT64(k)), first)
                places = [builder.add(line, builder.mul(pixel, INT64(column))) for column in range(size)]
                rows.append([load(builder, at(builder, columns.pointer, x), many(INT8, lanes), 1) for x in places])
            store(builder, _median(builder, rows), at(builder, out.pointer, builder.add(out_offset, first)), 1)

        over(builder, total, body, width=BYTES)

    return medians


sort_three, sort_five = sort_columns(3), sort_columns(5)
medians_of_three, medians_of_five = medians_of_columns(3), medians_of_columns(5)
