"""Sums of neighbouring pixels for sixteen columns at once: the horizontal pass of a resize to planes.

A row of a plane is in a few registers, and an instruction picks any sixteen of their numbers. Only processors with AVX-512 have
it (`can_pick`); on others these functions are right, but slower than the sums pixel by pixel of `sums.py`.
"""

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils

from pipeflow.kernels.cpu.simd.elements import load_float, rounded, store_as
from pipeflow.kernels.cpu.simd.instructions import (
    DATA,
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
    extensions,
    joined,
    load,
    load_at,
    multiply_add,
    number,
    over,
    splat,
    store,
    vector_function,
)

PLACES = types.Array(types.int32, 1, "C", aligned=True)
NEAR, FAR = 2 * LANES, 4 * LANES  # numbers that can be picked from
FIXED = range(2, 6)  # numbers of taps with code of their own
WHOLE = ir.VectorType(INT32, LANES)


@vector_function(result=types.boolean)
def can_pick(builder):
    """True if the processor has the instruction."""
    return ir.IntType(1)(int("avx512f" in extensions()))


@vector_function(DATA, INDEX, INDEX, DATA, INDEX, INDEX, FLOATS, INDEX, INDEX, INDEX)
def plane_sums(builder, source, offset, stride, weights, weight_offset, count, out, out_offset, pitch, pixels):
    """Blends rows of interleaved pixels of three channels, and separates the channels:
    out[c * pitch + x] = sum over k < count of weights[k] * source[offset + k * stride + 3 * x + c], in float32.
    """
    begin, factors = at(builder, source.pointer, offset), at(builder, weights.pointer, weight_offset)
    target = at(builder, out.pointer, out_offset)

    def body(first: Any, lanes: int) -> None:
        zero = constant(0.0) if lanes > 1 else FLOAT(0.0)
        totals = [cgutils.alloca_once_value(builder, zero) for _ in range(3)]
        for total in totals:
            builder.store(zero, total)
        place = builder.mul(first, INT64(3))
        with cgutils.for_range(builder, count, intp=INT64) as tap:
            weight = builder.load(at(builder, factors, tap.index), align=4)
            factor = splat(builder, weight) if lanes > 1 else weight
            pointer = at(builder, begin, builder.add(builder.mul(tap.index, stride), place))
            for part, total in enumerate(totals):
                value = load_float(builder, at(builder, pointer, INT64(part * lanes)), source.element, lanes)
                builder.store(multiply_add(builder, value, factor, builder.load(total)), total)
        values = [builder.load(total) for total in totals]
        if lanes > 1:
            pair, last = joined(builder, *values[:2]), joined(builder, values[2], values[2])
            orders = [ir.Constant(WHOLE, [c + 3 * i for i in range(lanes)]) for c in range(3)]
            values = [builder.shuffle_vector(pair, last, order) for order in orders]
        for c, value in enumerate(values):
            store(builder, value, at(builder, target, builder.add(first, builder.mul(pitch, INT64(c)))))

    over(builder, pixels, body)


def _pick(builder: Any, pointer: Any, registers: list[Any], places: Any) -> Any:
    """The numbers at the given places from a pointer on; if the processor can pick, of the registers."""
    if not registers:
        values: Any = ir.Constant(V, ir.Undefined)
        for lane in range(LANES):
            place = builder.sext(builder.extract_element(places, INT32(lane)), INT64)
            values = builder.insert_element(values, builder.load(at(builder, pointer, place), align=4), INT32(lane))
        return values
    function = ir.FunctionType(V, [V, WHOLE, V])
    pick = cgutils.get_or_insert_function(builder.module, function, "llvm.x86.avx512.vpermi2var.ps.512")
    near = builder.call(pick, [registers[0], places, registers[1]])
    if len(registers) == 2:
        return near
    far = builder.call(pick, [registers[2], places, registers[3]])
    return builder.select(builder.icmp_signed("<", places, number(NEAR, WHOLE)), near, far)


def picked_sums(reach: int) -> Any:
    """Makes the sums of neighbouring pixels for groups of sixteen columns, which read at most `reach` pixels, normalised."""

    @vector_function(
        FLOATS,
        INDEX,
        INDICES,
        PLACES,
        FLOATS,
        INDEX,
        INDEX,
        DATA,
        DATA,
        types.float32,
        types.boolean,
        DATA,
        INDEX,
        INDEX,
        INDEX,
    )
    def sums(
        builder,
        planes,
        pitch,
        begins,
        places,
        weights,
        count,
        rows,
        mean,
        scale,
        shift,
        rounding,
        out,
        out_at,
        width,
        plane,
    ):
        """out[c * plane + r * width + x] = (s - mean[c]) * scale[c] + shift for three channels c and `rows` rows r.

        For column i of group g, s is the sum over k < count of weights[(g * count + k) * LANES + i] times
        planes[(3 * r + c) * pitch + begins[g] + places[g * LANES + i] + k], rounded to a byte if this is wanted. The last group
        ends with the row.
        """
        rounding = builder.icmp_unsigned("!=", rounding, rounding.type(0))
        means, scales = (
            [splat(builder, builder.load(at(builder, one.pointer, INT64(c)), align=4)) for c in range(3)]
            for one in (mean, scale)
        )
        shift, lanes = splat(builder, shift), INT64(LANES)
        steps = range(0, reach, LANES) if "avx512f" in extensions() else ()

        def group(index: Any, fixed: int) -> None:
            """If the number of taps is fixed, the sum has no loop."""
            place = builder.mul(index, lanes)
            first = load(builder, at(builder, places.pointer, place), WHOLE)
            factors = at(builder, weights.pointer, builder.mul(place, count))
            last = builder.sub(width, lanes)
            column = builder.select(builder.icmp_signed("<", place, last), place, last)
            begin = builder.load(at(builder, begins.pointer, index))

            def tap(k: Any) -> tuple[Any, Any]:
                step = splat(builder, builder.trunc(k, INT32), WHOLE)
                return builder.add(first, step), load_at(builder, factors, builder.mul(k, lanes))

            taps = [tap(INT64(k)) for k in range(fixed)]
            with cgutils.for_range(builder, rows, intp=INT64) as row:
                for c in range(3):
                    line = builder.add(builder.mul(row.index, INT64(3)), INT64(c))
                    pointer = at(builder, planes.pointer, builder.add(builder.mul(line, pitch), begin))
                    registers = [load_at(builder, pointer, INT64(step)) for step in steps]
                    total: Any = constant(0.0)
                    for where, factor in taps:
                        total = multiply_add(builder, _pick(builder, pointer, registers, where), factor, total)
                    if not fixed:
                        kept = cgutils.alloca_once_value(builder, total)
                        builder.store(total, kept)
                        with cgutils.for_range(builder, count, intp=INT64) as loop:
                            where, factor = tap(loop.index)
                            value = _pick(builder, pointer, registers, where)
                            builder.store(multiply_add(builder, value, factor, builder.load(kept)), kept)
                        total = builder.load(kept)
                    centred = builder.fsub(rounded(builder, total, rounding), means[c])
                    result = multiply_add(builder, centred, scales[c], shift)
                    target = builder.add(builder.mul(row.index, width), builder.mul(plane, INT64(c)))
                    target = builder.add(out_at, builder.add(target, column))
                    store_as(builder, result, at(builder, out.pointer, target), out.element)

        groups = builder.sdiv(builder.add(width, INT64(LANES - 1)), lanes)
        other = ir.IntType(1)(1)
        for fixed in FIXED:
            equal = builder.icmp_signed("==", count, INT64(fixed))
            other = builder.and_(other, builder.not_(equal))
            with builder.if_then(equal), cgutils.for_range(builder, groups, intp=INT64) as loop:
                group(loop.index, fixed)
        with builder.if_then(other), cgutils.for_range(builder, groups, intp=INT64) as loop:
            group(loop.index, 0)

    return sums
