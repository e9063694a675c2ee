"""More vector instructions: sums over taps at any places, and rounding half to even."""

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from .simd import (
    FLOAT,
    INT8,
    INT32,
    INT64,
    LANES,
    call,
    clamp,
    constant,
    data,
    load,
    load_float,
    multiply_add,
    over,
    splat,
    store,
)  # fmt: skip


def store_even(builder: Any, value: Any, pointer: Any, element: Any) -> None:
    """Stores floats as floats or as bytes, rounded half to even and saturated."""
    if isinstance(element, types.Float):
        store(builder, value, pointer)
        return
    vector = isinstance(value.type, ir.VectorType)
    many = (lambda kind: ir.VectorType(kind, value.type.count)) if vector else (lambda kind: kind)
    whole = builder.fptosi(call(builder, "rint", clamp(builder, value, 0, 255)), many(INT32))
    store(builder, builder.trunc(whole, many(INT8)), pointer, 1)


@intrinsic
def round_row(_typing, source, offset, out, out_offset, total):
    """out[:total] = source[:total] in the type of out: floats, or bytes rounded half to even."""
    i64 = types.int64
    signature = types.void(source, i64, out, i64, i64)

    def generate(context, builder, signature, arguments):
        _, offset, _, out_offset, total = arguments
        source = builder.gep(data(context, builder, signature, arguments, 0), [offset])
        out = builder.gep(data(context, builder, signature, arguments, 2), [out_offset])
        target = signature.args[2].dtype

        def body(first: Any, lanes: int) -> None:
            kind = ir.VectorType(FLOAT, lanes) if lanes > 1 else FLOAT
            store_even(builder, load(builder, builder.gep(source, [first]), kind), builder.gep(out, [first]), target)

        over(builder, total, body)
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def tap_row(_typing, source, offset, places, weights, count, out, out_offset, total):
    """out[:total] = sum over k < count of weights[k] * source[offset + places[k] :][:total], in float32."""
    i64 = types.int64
    signature = types.void(source, i64, places, weights, i64, out, i64, i64)

    def generate(context, builder, signature, arguments):
        _, offset, _, _, count, _, out_offset, total = arguments
        source = builder.gep(data(context, builder, signature, arguments, 0), [offset])
        places = data(context, builder, signature, arguments, 2)
        weights = data(context, builder, signature, arguments, 3)
        out = builder.gep(data(context, builder, signature, arguments, 5), [out_offset])
        element, target = signature.args[0].dtype, signature.args[5].dtype

        def body(first: Any, lanes: int) -> None:
            parts = max(1, lanes // LANES)
            zero = constant(0.0) if lanes > 1 else FLOAT(0.0)
            sums = [cgutils.alloca_once_value(builder, zero) for _ in range(parts)]
            for one in sums:
                builder.store(zero, one)
            with cgutils.for_range(builder, count, intp=INT64) as tap:
                weight = builder.load(builder.gep(weights, [tap.index]), align=4)
                factor = splat(builder, weight) if lanes > 1 else weight
                row = builder.gep(source, [builder.add(builder.load(builder.gep(places, [tap.index]), align=8), first)])
                for part, one in enumerate(sums):
                    value = load_float(builder, builder.gep(row, [INT64(part * LANES)]), element, min(lanes, LANES))
                    builder.store(multiply_add(builder, value, factor, builder.load(one)), one)
            for part, one in enumerate(sums):
                place = builder.gep(out, [builder.add(first, INT64(part * LANES))])
                store_even(builder, builder.load(one), place, target)

        over(builder, total, body, wide=4)
        return context.get_dummy_value()

    return signature, generate
