"""Frames of a signal: one frame in each lane.

No instruction moves data between lanes, except the transposition that loads the frames.
"""

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types

from pipeflow.kernels.cpu.simd.instructions import (
    FLOAT,
    FLOATS,
    INDEX,
    INDICES,
    INT32,
    INT64,
    LANES,
    V,
    at,
    constant,
    load_at,
    multiply_add,
    splat,
    store_at,
    vector_function,
)


def _shuffle(builder: Any, a: Any, b: Any, indices: list[int]) -> Any:
    return builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(INT32, LANES), indices))


def _transpose(builder: Any, rows: list[Any]) -> list[Any]:
    """Transposes LANES vectors in log2(LANES) steps, each exchanging blocks of half the size."""
    size = LANES // 2
    while size:
        low = [i if not i & size else i - size + LANES for i in range(LANES)]
        high = [i + size if not i & size else i + LANES for i in range(LANES)]
        result = list(rows)
        for first in range(LANES):
            if not first & size:
                a, b = rows[first], rows[first + size]
                result[first] = _shuffle(builder, a, b, low)
                result[first + size] = _shuffle(builder, a, b, high)
        rows = result
        size //= 2
    return rows


@vector_function(FLOATS, INDEX, INDEX, FLOATS, INDEX, INDEX)
def transpose_tile(builder, source, offset, stride, target, target_offset, target_stride):
    """target[target_offset + c*target_stride + r] = source[offset + r*stride + c], for r, c in range(LANES)."""
    source, target = source.pointer, target.pointer
    rows = [load_at(builder, source, builder.add(offset, builder.mul(stride, INT64(row)))) for row in range(LANES)]
    for row, value in enumerate(_transpose(builder, rows)):
        place = builder.add(target_offset, builder.mul(target_stride, INT64(row)))
        store_at(builder, value, target, place)


@vector_function(FLOATS, INDEX, INDEX, FLOATS, INDEX, INDICES, INDEX, FLOATS, FLOATS)
def load_tile(builder, source, offset, stride, window, first, places, place, real, imaginary):
    """Loads LANES samples of LANES frames, windowed: even samples become real parts, odd ones imaginary parts.

    Sample c of frame r is source[offset + r*stride + c]; its row is places[place + c // 2].
    """
    source, window, places, real, imaginary = (
        source.pointer,
        window.pointer,
        places.pointer,
        real.pointer,
        imaginary.pointer,
    )
    rows = [load_at(builder, source, builder.add(offset, builder.mul(stride, INT64(row)))) for row in range(LANES)]
    for column, value in enumerate(_transpose(builder, rows)):
        weight = builder.load(at(builder, window, builder.add(first, INT64(column))))
        row = builder.load(at(builder, places, builder.add(place, INT64(column // 2))))
        target = imaginary if column % 2 else real
        store_at(builder, builder.fmul(value, splat(builder, weight)), target, row)


@vector_function(FLOATS, INDEX, FLOATS, INDEX, FLOATS, INDEX)
def scale_row(builder, source, offset, factors, factor, target, target_offset):
    """target[target_offset:][:LANES] = source[offset:][:LANES] * factors[factor]."""
    source, factors, target = source.pointer, factors.pointer, target.pointer
    factor = splat(builder, builder.load(at(builder, factors, factor)))
    value = builder.fmul(load_at(builder, source, offset), factor)
    store_at(builder, value, target, target_offset)


@vector_function(FLOATS, INDEX, INDEX, FLOATS, INDEX, INDEX, FLOATS, INDEX)
def weighted_lanes(builder, source, offset, stride, weights, first, count, target, target_offset):
    """target[target_offset:][:LANES] = sum over i < count of weights[first + i] * source[offset + i*stride:][:LANES]."""
    source, weights, target = source.pointer, weights.pointer, target.pointer

    def added(index, total):
        weight = splat(builder, builder.load(at(builder, weights, builder.add(first, index))))
        row = load_at(builder, source, builder.add(offset, builder.mul(index, stride)))
        return multiply_add(builder, row, weight, total)

    # Four independent sums: a single sum would wait for each addition before the next.
    fours = builder.and_(count, INT64(-4))
    index, totals = _loop(
        builder,
        INT64(0),
        fours,
        4,
        [constant(0.0)] * 4,
        lambda i, sums: [added(builder.add(i, INT64(k)), total) for k, total in enumerate(sums)],
    )
    pairs = [builder.fadd(totals[0], totals[1]), builder.fadd(totals[2], totals[3])]
    _, (total,) = _loop(builder, index, count, 1, [builder.fadd(*pairs)], lambda i, sums: [added(i, sums[0])])
    store_at(builder, total, target, target_offset)


def _loop(builder: Any, begin: Any, end: Any, step: int, sums: list[Any], body: Callable[..., list[Any]]) -> Any:
    """A loop that carries vectors: returns the index and the sums after it."""
    before = builder.block
    test = builder.append_basic_block("test")
    inside = builder.append_basic_block("inside")
    after = builder.append_basic_block("after")
    builder.branch(test)
    builder.position_at_end(test)
    index = builder.phi(INT64)
    index.add_incoming(begin, before)
    carried = [builder.phi(V) for _ in sums]
    for phi, value in zip(carried, sums, strict=True):
        phi.add_incoming(value, before)
    builder.cbranch(builder.icmp_signed("<", index, end), inside, after)
    builder.position_at_end(inside)
    for phi, value in zip(carried, body(index, carried), strict=True):
        phi.add_incoming(value, inside)
    index.add_incoming(builder.add(index, INT64(step)), inside)
    builder.branch(test)
    builder.position_at_end(after)
    return index, carried


@vector_function(FLOATS, INDEX, FLOATS, INDEX, INDEX, types.float32, result=types.float32)
def dot_between(builder, signal, begin, table, first, count, blend):
    """The sum over i < count of signal[begin + i] times a blend of two rows of a table, from ``first`` on.

    With ``blend`` 0 it is the first row, with 1 the row after it; a row has ``count`` values, a multiple of LANES.
    """
    signal, table = signal.pointer, table.pointer
    fraction = splat(builder, blend)

    def added(index, sums):
        low = load_at(builder, table, builder.add(first, index))
        high = load_at(builder, table, builder.add(builder.add(first, count), index))
        weights = multiply_add(builder, builder.fsub(high, low), fraction, low)
        return [multiply_add(builder, load_at(builder, signal, builder.add(begin, index)), weights, sums[0])]

    _, (summed,) = _loop(builder, INT64(0), count, LANES, [constant(0.0)], added)
    values, width = summed, LANES
    while width > 1:
        width //= 2
        parts = []
        for first in (0, width):
            chosen = ir.Constant(ir.VectorType(INT32, width), list(range(first, first + width)))
            parts.append(builder.shuffle_vector(values, ir.Constant(values.type, ir.Undefined), chosen))
        values = builder.fadd(*parts)
    return builder.extract_element(values, INT32(0))


@vector_function(types.float32, result=types.int32)
def bits_of(builder, value):
    """The bits of a float32 as an int32."""
    return builder.bitcast(value, INT32)


@vector_function(types.int32, result=types.float32)
def float_of(builder, bits):
    """The float32 with these bits."""
    return builder.bitcast(bits, FLOAT)
