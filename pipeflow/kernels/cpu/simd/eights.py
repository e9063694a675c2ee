"""Sums over rows and columns of pixels of three bytes, eight rows at a time: a vector has one number of each of eight rows.

So no lane is wasted on a fourth channel, and the taps of a pixel are next to each other in memory. Only for processors with the
instructions of AVX2.
"""

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba.core import cgutils

from pipeflow.kernels.cpu.simd.elements import OCTETS, pack_octets
from pipeflow.kernels.cpu.simd.instructions import (
    DATA,
    FLOAT,
    INDEX,
    INT8,
    INT32,
    INT64,
    at,
    load,
    over,
    splat,
    store,
    vector_function,
)

EIGHT = ir.VectorType(FLOAT, 8)
SIXTEEN = ir.VectorType(INT8, 16)
BYTES = ir.VectorType(INT8, 32)
WORDS = ir.VectorType(INT32, 8)
BLOCK = 16  # results of a row that are stored at once
CHANNELS = 3
FIXED = range(2, 5)  # numbers of taps with code of their own


def _ordered(builder: Any, first: Any, second: Any, order: list[int]) -> Any:
    return builder.shuffle_vector(first, second, ir.Constant(ir.VectorType(INT32, len(order)), order))


def upright(rows: int) -> Any:
    """Makes the function that puts the bytes of so many rows, a power of two, column by column."""
    width = BYTES.count  # the halves of a vector are 16 neighbouring columns each
    orders = [
        [x + half for half in (0, 16) for i in range(begin, begin + 8) for x in (i, width + i)] for begin in (0, 8)
    ]

    @vector_function(DATA, DATA, DATA, INDEX)
    def columns(builder, source, places, out, total):
        """out[x * rows + r] = source[places[r] + x] for x < total, which is at least 32."""
        begins = [builder.load(at(builder, places.pointer, INT64(row)), align=8) for row in range(rows)]

        def body(first: Any, lanes: int) -> None:
            if lanes == 1:  # there are always 32
                return
            lines = [
                load(builder, at(builder, source.pointer, builder.add(begin, first)), BYTES, 1) for begin in begins
            ]
            count = rows
            while count > 1:
                count //= 2
                pairs = zip(lines[: rows // 2], lines[rows // 2 :], strict=True)
                lines = [_ordered(builder, *pair, order) for pair in pairs for order in orders]
            target = at(builder, out.pointer, builder.mul(first, INT64(rows)))
            for place, line in enumerate(lines):
                for half in (0, 16):
                    part = _ordered(builder, line, line, list(range(half, half + 16)))
                    store(builder, part, at(builder, target, INT64(16 * place + half * rows)), 1)

        over(builder, total, body, width=width)

    return columns


def _of_each_count(builder: Any, count: Any, work: Callable[[int], None]) -> None:
    """Runs ``work(count)`` for the numbers of taps that have code of their own, and ``work(0)`` for others."""
    other = ir.IntType(1)(1)
    for fixed in FIXED:
        equal = builder.icmp_signed("==", count, INT64(fixed))
        other = builder.and_(other, builder.not_(equal))
        with builder.if_then(equal):
            work(fixed)
    with builder.if_then(other):
        work(0)


def _summed(builder: Any, fixed: int, count: Any, products: Callable[[Any], list[Any]]) -> list[Any]:
    """The sums of what ``products`` returns for each of `count` taps; if ``fixed`` is not 0, there are so many, and no loop."""

    def added(sums: list[Any], more: list[Any]) -> list[Any]:
        return [builder.fadd(one, other) for one, other in zip(sums, more, strict=True)]

    sums = products(INT64(0))
    for k in range(1, fixed):
        sums = added(sums, products(INT64(k)))
    if fixed:
        return sums
    kept = [cgutils.alloca_once_value(builder, one) for one in sums]
    for one, place in zip(sums, kept, strict=True):
        builder.store(one, place)
    with cgutils.for_range(builder, builder.sub(count, INT64(1)), intp=INT64) as loop:
        more = products(builder.add(loop.index, INT64(1)))
        for one, place in zip(added([builder.load(place) for place in kept], more), kept, strict=True):
            builder.store(one, place)
    return [builder.load(place) for place in kept]


@vector_function(DATA, INDEX, DATA, DATA, INDEX, DATA, INDEX)
def blend_upright(builder, source, rows, orders, weights, count, out, total):
    """out[8 * x + r] = the sum over k < count of weights[8 * k + r] * the byte of column x that orders[k] has for row r.

    A column has ``rows`` bytes; 16 are read. ``orders`` are places in a column, in the first byte of four, and negative numbers.
    """
    kind = ir.FunctionType(BYTES, [BYTES, BYTES])
    find = cgutils.get_or_insert_function(builder.module, kind, "llvm.x86.avx2.pshuf.b")

    def tap(k: Any) -> tuple[Any, Any]:
        order = load(builder, at(builder, orders.pointer, builder.mul(k, INT64(BYTES.count))), BYTES, 1)
        return order, load(builder, at(builder, weights.pointer, builder.mul(k, INT64(8))), EIGHT)

    def columns(fixed: int) -> None:
        known = [tap(INT64(k)) for k in range(fixed)]
        with cgutils.for_range(builder, total, intp=INT64) as column:
            line = load(builder, at(builder, source.pointer, builder.mul(column.index, rows)), SIXTEEN, 1)
            both = _ordered(builder, line, line, [*range(16), *range(16)])

            def products(k: Any) -> list[Any]:
                order, weight = known[k.constant] if fixed else tap(k)
                value = builder.sitofp(builder.bitcast(builder.call(find, [both, order]), WORDS), EIGHT)
                return [builder.fmul(value, weight)]

            (result,) = _summed(builder, fixed, count, products)
            store(builder, result, at(builder, out.pointer, builder.mul(column.index, INT64(8))))

    _of_each_count(builder, count, columns)


@vector_function(DATA, INDEX, DATA, INDEX, DATA, INDEX, DATA, INDEX)
def sum_upright(builder, source, left, starts, first, weights, count, out, total):
    """For pixels o < total and channels c: out[8 * (3 * o + c) + r] =
    the sum over k < count of weights[(first + o) * count + k] * source[8 * (3 * (starts[first + o] + k) + c - left) + r].
    """

    def pixels(fixed: int) -> None:
        with cgutils.for_range(builder, total, intp=INT64) as pixel:
            number = builder.add(first, pixel.index)
            factors = at(builder, weights.pointer, builder.mul(number, count))
            start = builder.mul(builder.load(at(builder, starts.pointer, number), align=8), INT64(CHANNELS))
            begin = at(builder, source.pointer, builder.mul(builder.sub(start, left), INT64(8)))

            def products(k: Any) -> list[Any]:
                factor = splat(builder, builder.load(at(builder, factors, k), align=4), EIGHT)
                place = at(builder, begin, builder.mul(k, INT64(8 * CHANNELS)))
                values = [load(builder, at(builder, place, INT64(8 * c)), EIGHT) for c in range(CHANNELS)]
                return [builder.fmul(value, factor) for value in values]

            target = at(builder, out.pointer, builder.mul(pixel.index, INT64(8 * CHANNELS)))
            for c, result in enumerate(_summed(builder, fixed, count, products)):
                store(builder, result, at(builder, target, INT64(8 * c)))

    _of_each_count(builder, count, pixels)


@vector_function(DATA, DATA, INDEX, INDEX, INDEX)
def store_upright(builder, source, out, offset, stride, total):
    """out[offset + r * stride + x] = source[8 * x + r], as bytes, for eight rows r and x < total, which is at least 16."""

    def body(first: Any, lanes: int) -> None:
        if lanes == 1:  # there are always 16
            return
        groups = []
        for group in range(BLOCK // OCTETS):
            place = builder.mul(builder.add(first, INT64(group * OCTETS)), INT64(8))
            octets = [
                load(builder, at(builder, source.pointer, builder.add(place, INT64(8 * i))), EIGHT)
                for i in range(OCTETS)
            ]
            packed = pack_octets(builder, octets)
            order = [half + row + 4 * i for half in (0, 16) for row in range(4) for i in range(OCTETS)]
            groups.append(builder.bitcast(_ordered(builder, packed, packed, order), WORDS))
        # four by four words in each half of the vectors
        near, far = [0, 8, 1, 9, 4, 12, 5, 13], [2, 10, 3, 11, 6, 14, 7, 15]
        pairs = [_ordered(builder, groups[i], groups[i + 1], order) for order in (near, far) for i in (0, 2)]
        low, high = [0, 1, 8, 9, 4, 5, 12, 13], [2, 3, 10, 11, 6, 7, 14, 15]
        rows = [_ordered(builder, pairs[i], pairs[i + 1], order) for i in (0, 2) for order in (low, high)]
        target = at(builder, out.pointer, builder.add(offset, first))
        for row, line in enumerate(rows):
            for half in (0, 1):
                place = at(builder, target, builder.mul(stride, INT64(row + 4 * half)))
                store(builder, _ordered(builder, line, line, list(range(4 * half, 4 * half + 4))), place, 1)

    over(builder, total, body, width=BLOCK)
