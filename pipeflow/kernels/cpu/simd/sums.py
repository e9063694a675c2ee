"""Weighted sums of rows and of neighbours: the inner loops of resampling and filters."""

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils

from pipeflow.kernels.cpu.simd.elements import load_float, store_as, store_even
from pipeflow.kernels.cpu.simd.instructions import (
    DATA,
    FLOAT,
    INDEX,
    INT8,
    INT16,
    INT32,
    INT64,
    LANES,
    at,
    constant,
    load,
    many,
    multiply_add,
    number,
    over,
    splat,
    store,
    vector_function,
)


def _weighted_sums(
    builder: Any,
    weights: Any,
    count: Any,
    total: Any,
    row_of: Callable[[Any, Any], Any],
    element: Any,
    stored: Callable,
) -> None:
    """``stored(sum over k < count of weights[k] * row_of(k), place)`` for ``total`` places; sums stay in registers."""

    def body(first: Any, lanes: int) -> None:
        parts = max(1, lanes // LANES)
        zero = constant(0.0) if lanes > 1 else FLOAT(0.0)
        sums = [cgutils.alloca_once_value(builder, zero) for _ in range(parts)]
        for one in sums:
            builder.store(zero, one)
        with cgutils.for_range(builder, count, intp=INT64) as tap:
            weight = builder.load(builder.gep(weights, [tap.index]), align=4)
            factor = splat(builder, weight) if lanes > 1 else weight
            row = row_of(tap.index, first)
            for part, one in enumerate(sums):
                value = load_float(builder, builder.gep(row, [INT64(part * LANES)]), element, min(lanes, LANES))
                builder.store(multiply_add(builder, value, factor, builder.load(one)), one)
        for part, one in enumerate(sums):
            stored(builder.load(one), builder.add(first, INT64(part * LANES)))

    over(builder, total, body, wide=4)


@vector_function(DATA, INDEX, INDEX, DATA, INDEX, INDEX, DATA, INDEX, INDEX)
def weighted_rows(builder, source, offset, stride, weights, weight_offset, count, out, out_offset, total):
    """out[:total] = sum over k < count of weights[k] * source[offset + k * stride :][:total], in float32.

    With the stride of a row this blends rows; with the stride of a pixel it filters along a row.
    """
    begin = builder.gep(source.pointer, [offset])
    factors = builder.gep(weights.pointer, [weight_offset])
    target = builder.gep(out.pointer, [out_offset])

    def row_of(tap: Any, first: Any) -> Any:
        return builder.gep(begin, [builder.add(builder.mul(tap, stride), first)])

    def stored(value: Any, place: Any) -> None:
        store_as(builder, value, builder.gep(target, [place]), out.element)

    _weighted_sums(builder, factors, count, total, row_of, source.element, stored)


def pixel_taps(rows: int, lanes: int, fixed: int = 0) -> Any:
    """Makes the horizontal pass over interleaved channels: `rows` rows and `lanes` channels of a pixel at a time.

    If `fixed` is given, there are so many taps, and the sum has no loop.
    """
    vector = ir.VectorType(FLOAT, lanes)

    @vector_function(DATA, INDEX, INDEX, INDEX, DATA, INDEX, INDEX, DATA, INDEX, INDEX)
    def taps(builder, source, offset, row_stride, step, weights, weight_offset, count, out, out_offset, out_stride):
        """out[r, :lanes] = sum over k of weights[k] * source[r, offset + k * step :][:lanes]."""
        source = builder.gep(source.pointer, [offset])
        weight = builder.gep(weights.pointer, [weight_offset])
        out = builder.gep(out.pointer, [out_offset])
        sums = [cgutils.alloca_once_value(builder, constant(0.0, vector)) for _ in range(rows)]
        for one in sums:
            builder.store(constant(0.0, vector), one)

        def tap(k: Any) -> None:
            factor = splat(builder, builder.load(builder.gep(weight, [k]), align=4), vector)
            for r, one in enumerate(sums):
                where = builder.add(builder.mul(k, step), builder.mul(row_stride, INT64(r)))
                pixel = load(builder, builder.gep(source, [where]), vector)
                builder.store(multiply_add(builder, pixel, factor, builder.load(one)), one)

        for k in range(fixed):
            tap(INT64(k))
        if not fixed:
            with cgutils.for_range(builder, count, intp=INT64) as loop:
                tap(loop.index)
        for r, one in enumerate(sums):
            store(builder, builder.load(one), builder.gep(out, [builder.mul(out_stride, INT64(r))]))

    return taps


@vector_function(DATA, INDEX, DATA, INDEX, INDEX, DATA, INDEX)
def band_taps(builder, source, offset, weights, weight_offset, count, out, out_offset):
    """out[:LANES] = sum over k of weights[k, :LANES] * source[offset + k]."""
    source = builder.gep(source.pointer, [offset])
    weight = builder.gep(weights.pointer, [weight_offset])
    out = builder.gep(out.pointer, [out_offset])
    total = cgutils.alloca_once_value(builder, constant(0.0))
    builder.store(constant(0.0), total)
    with cgutils.for_range(builder, count, intp=INT64) as loop:
        factors = load(builder, builder.gep(weight, [builder.mul(loop.index, INT64(LANES))]))
        value = splat(builder, builder.load(builder.gep(source, [loop.index]), align=4))
        builder.store(multiply_add(builder, value, factors, builder.load(total)), total)
    store(builder, builder.load(total), out)


@vector_function(DATA, INDEX, INDEX, INDEX, types.float32, types.float32, DATA, INDEX)
def bilinear_pixel(builder, source, offset, step, stride, u, v, out, out_offset):
    """Four channels blended between the pixels at offset, offset + step and the same on the next row,
    stored as floats."""
    four = ir.VectorType(FLOAT, 4)
    element = source.element
    upper = builder.gep(source.pointer, [offset])
    lower = builder.gep(upper, [stride])
    across, down = splat(builder, u, four), splat(builder, v, four)

    def mixed(row: Any) -> Any:
        near = load_float(builder, row, element, 4)
        far = load_float(builder, builder.gep(row, [step]), element, 4)
        return multiply_add(builder, across, builder.fsub(far, near), near)

    top, bottom = mixed(upper), mixed(lower)
    result = multiply_add(builder, down, builder.fsub(bottom, top), top)
    store(builder, result, builder.gep(out.pointer, [out_offset]))


@vector_function(DATA, INDEX, INDEX, types.float32, types.float32, DATA, INDEX)
def bilinear_rgb_pixel(builder, source, offset, stride, u, v, out, out_offset):
    """The same for three interleaved channels: the pixel and the next one are loaded as eight elements of each row."""
    upper = builder.gep(source.pointer, [offset])
    top, bottom = (load_float(builder, row, source.element, 8) for row in (upper, builder.gep(upper, [stride])))
    rows = multiply_add(builder, splat(builder, v, ir.VectorType(FLOAT, 8)), builder.fsub(bottom, top), top)
    near, far = (
        builder.shuffle_vector(
            rows, ir.Constant(rows.type, ir.Undefined), ir.Constant(ir.VectorType(ir.IntType(32), 4), places)
        )
        for places in ([0, 1, 2, 3], [3, 4, 5, 6])
    )
    result = multiply_add(builder, splat(builder, u, ir.VectorType(FLOAT, 4)), builder.fsub(far, near), near)
    store(builder, result, builder.gep(out.pointer, [out_offset]))


@vector_function(DATA, INDEX, DATA, DATA, INDEX, DATA, INDEX, INDEX)
def tap_row(builder, source, offset, places, weights, count, out, out_offset, total):
    """out[:total] = sum over k < count of weights[k] * source[offset + places[k] :][:total], in float32."""
    begin = builder.gep(source.pointer, [offset])
    target = builder.gep(out.pointer, [out_offset])

    def row_of(tap: Any, first: Any) -> Any:
        place = builder.load(builder.gep(places.pointer, [tap]), align=8)
        return builder.gep(begin, [builder.add(place, first)])

    def stored(value: Any, place: Any) -> None:
        store_even(builder, value, builder.gep(target, [place]), out.element)

    _weighted_sums(builder, weights.pointer, count, total, row_of, source.element, stored)


@vector_function(DATA, INDEX, INDEX, types.uint16, types.uint16, types.uint16, DATA, INDEX, INDEX)
def mean_row(builder, sums, stride, count, half, factor, shift, out, out_offset, total):
    """Bytes out[:total] = (half + sum over k < count of sums[k * stride :][:total]) * factor >> 16 >> shift, in 16 bits."""
    target = builder.gep(out.pointer, [out_offset])

    def body(first: Any, lanes: int) -> None:
        kind, wide = many(INT16, lanes), many(INT32, lanes)
        half_, factor_, shift_ = (splat(builder, one, kind) if lanes > 1 else one for one in (half, factor, shift))
        whole = cgutils.alloca_once_value(builder, number(0, kind))
        builder.store(half_, whole)
        with cgutils.for_range(builder, count, intp=INT64) as tap:
            place = builder.add(first, builder.mul(tap.index, stride))
            one = load(builder, at(builder, sums.pointer, place), kind, 2)
            builder.store(builder.add(builder.load(whole), one), whole)
        product = builder.mul(builder.zext(builder.load(whole), wide), builder.zext(factor_, wide))
        upper = builder.trunc(builder.lshr(product, number(16, wide)), kind)
        mean = builder.trunc(builder.lshr(upper, shift_), many(INT8, lanes))
        store(builder, mean, at(builder, target, first), 1)

    over(builder, total, body, wide=4, width=32)


@vector_function(DATA, INDEX, INDEX, DATA, INDEX, INDEX)
def slide_row(builder, source, entering, leaving, sums, at_sum, total):
    """Adds the bytes from ``entering`` on to sums of 16 bits, and subtracts those from ``leaving`` on."""
    sums = at(builder, sums.pointer, at_sum)

    def body(first: Any, lanes: int) -> None:
        if lanes == 1:
            parts, size = [first], 1
        else:
            parts, size = [builder.add(first, INT64(32 * part)) for part in range(lanes // 32)], 32
        kind, wide = many(INT8, size), many(INT16, size)
        values = []
        for place in parts:
            more, less = (
                builder.zext(load(builder, at(builder, source.pointer, builder.add(row, place)), kind, 1), wide)
                for row in (entering, leaving)
            )
            now = load(builder, at(builder, sums, place), wide, 2)
            values.append(builder.add(now, builder.sub(more, less)))
        for place, value in zip(parts, values, strict=True):
            store(builder, value, at(builder, sums, place), 2)

    whole = builder.mul(builder.sdiv(total, INT64(32)), INT64(32))  # a part must not be added twice
    with builder.if_then(builder.icmp_signed(">", whole, INT64(0))):
        over(builder, whole, body, wide=4, width=32)
    with cgutils.for_range(builder, builder.sub(total, whole), intp=INT64) as rest:
        body(builder.add(whole, rest.index), 1)


@vector_function(DATA, INDEX, DATA, INDEX, INDEX)
def round_row(builder, source, offset, out, out_offset, total):
    """out[:total] = source[:total] in the type of out: floats, or bytes rounded half to even."""
    target = out.element
    source = builder.gep(source.pointer, [offset])
    out = builder.gep(out.pointer, [out_offset])

    def body(first: Any, lanes: int) -> None:
        kind = ir.VectorType(FLOAT, lanes) if lanes > 1 else FLOAT
        store_even(builder, load(builder, builder.gep(source, [first]), kind), builder.gep(out, [first]), target)

    over(builder, total, body)
