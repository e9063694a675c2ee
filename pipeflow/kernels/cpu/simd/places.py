"""The places of the four pixels around each position of a row, and the weights for blending them."""

from functools import reduce
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils

from pipeflow.kernels.cpu.simd.instructions import (
    DATA,
    FLOAT,
    FLOATS,
    INDEX,
    INT32,
    INT64,
    at,
    load,
    many,
    multiply_add_once,
    number,
    over,
    splat,
    store,
    vector_function,
)

DOUBLE, FLOAT64 = ir.DoubleType(), types.float64
BORDER, OUTSIDE = -1, -2  # instead of a place: some or all of the four pixels are outside the image


def _every(builder: Any, value: Any, kind: Any) -> Any:
    return splat(builder, value, kind) if isinstance(kind, ir.VectorType) else value


def _floor(builder: Any, value: Any) -> Any:
    kind = value.type
    scalar = kind.element if isinstance(kind, ir.VectorType) else kind
    name = "f32" if scalar == FLOAT else "f64"
    name = f"llvm.floor.v{kind.count}{name}" if kind is not scalar else f"llvm.floor.{name}"
    return builder.call(cgutils.get_or_insert_function(builder.module, ir.FunctionType(kind, [kind]), name), (value,))


@vector_function(DATA, DATA, INDEX, INDEX, INDEX, INDEX, DATA, FLOATS, FLOATS, INDEX, result=types.boolean)
def four_places(builder, xs, ys, width, height, right, channels, places, us, vs, total):
    """For each position, the place of the upper left of four pixels in an image and the weights of the right and lower ones.

    A place is the number of an element. If the left pixel is right of ``right`` or some of the four are outside, it is
    ``BORDER``; if all are outside, or the position is no number, it is ``OUTSIDE``. It returns True if there are such places.
    """
    scalar, element = xs.pointer.type.pointee, places.pointer.type.pointee
    size = 4 if scalar == FLOAT else 8
    some = cgutils.alloca_once_value(builder, ir.IntType(1)(0))
    builder.store(ir.IntType(1)(0), some)
    one = INT64(1)
    ends = [builder.sitofp(builder.add(end, one), scalar) for end in (width, height)]
    limits = [builder.add(right, one), builder.sub(height, one), builder.add(width, one), builder.add(height, one)]
    # `right` is below 0 for a narrow image, and a negative number would be a large one
    limits = [builder.select(builder.icmp_signed("<", end, INT64(0)), INT64(0), end) for end in limits]
    numbers = [*limits, channels, builder.mul(width, channels)]
    numbers = [builder.trunc(value, element) if element == INT32 else value for value in numbers]

    def body(first: Any, lanes: int) -> None:
        kind, whole = many(scalar, lanes), many(element, lanes)

        def limited(row: Any, end: Any) -> Any:  # positions far away, and no numbers, are moved next to the image
            value, last = load(builder, at(builder, row.pointer, first), kind, size), _every(builder, end, kind)
            least = ir.Constant(kind, [-2.0] * lanes) if lanes > 1 else scalar(-2.0)
            value = builder.select(builder.fcmp_ordered(">", value, least), value, least)
            return builder.select(builder.fcmp_ordered("<", value, last), value, last)

        parts = []
        for row, end, weights in ((xs, ends[0], us), (ys, ends[1], vs)):
            value = limited(row, end)
            low = _floor(builder, value)
            share = builder.fsub(value, low)
            share = share if scalar == FLOAT else builder.fptrunc(share, many(FLOAT, lanes))
            store(builder, share, at(builder, weights.pointer, first))
            parts.append(builder.fptosi(low, whole))
        left, top = parts
        last, low, wide, tall, pixel, stride = (_every(builder, value, whole) for value in numbers)
        border, beyond, step = (number(value, whole) for value in (BORDER, OUTSIDE, 1))

        def below(value: Any, end: Any) -> Any:  # a negative number is a large one without a sign
            return builder.icmp_unsigned("<", value, end)

        inside = builder.and_(below(left, last), below(top, low))
        near = builder.and_(below(builder.add(left, step), wide), below(builder.add(top, step), tall))
        place = builder.add(builder.mul(top, stride), builder.mul(left, pixel))
        place = builder.select(inside, place, builder.select(near, border, beyond))
        store(builder, place, at(builder, places.pointer, first), element.width // 8)
        bits = builder.bitcast(inside, ir.IntType(lanes)) if lanes > 1 else inside
        missing = builder.icmp_unsigned("!=", bits, bits.type((1 << lanes) - 1))
        builder.store(builder.or_(builder.load(some), missing), some)

    over(builder, total, body)
    return builder.load(some)


def _pixel_places(moves: bool, checked: bool) -> Any:
    @vector_function(FLOAT64, FLOAT64, FLOAT64, FLOAT64, INDEX, INDEX, DATA, INDEX, INDEX)
    def found(builder, a, c, b, d, width, height, places, begin, end):
        """The number of the pixel at (a * (j + 0.5) + c, b * (j + 0.5) + d) for each j from ``begin`` to ``end``.

        LLVM computes such a loop of a kernel one by one, unless it has masks as AVX-512 does: that takes twice as long.
        """
        element = places.pointer.type.pointee
        wide, tall = (builder.sitofp(extent, DOUBLE) for extent in (width, height))

        def body(first: Any, lanes: int) -> None:
            kind, whole = many(DOUBLE, lanes), many(element, lanes)

            def every(value: float) -> Any:
                return ir.Constant(kind, [value] * lanes) if lanes > 1 else DOUBLE(value)

            first = builder.add(begin, first)
            middle = ir.Constant(kind, [k + 0.5 for k in range(lanes)]) if lanes > 1 else DOUBLE(0.5)
            columns = builder.fadd(_every(builder, builder.sitofp(first, DOUBLE), kind), middle)
            position, inside = [], []
            for factor, start, extent in ((a, c, wide), (b, d, tall)):
                factor, start, limit = (_every(builder, value, kind) for value in (factor, start, extent))
                value = _floor(builder, multiply_add_once(builder, factor, columns, start))
                if moves:
                    inside.append(builder.fcmp_ordered("ord", value, value))
                    last = builder.fsub(limit, every(1.0))
                    value = builder.select(builder.fcmp_ordered(">", value, every(0.0)), value, every(0.0))
                    value = builder.select(builder.fcmp_ordered("<", value, last), value, last)
                elif checked:
                    inside.append(builder.fcmp_ordered(">=", value, every(0.0)))
                    inside.append(builder.fcmp_ordered("<", value, limit))
                position.append(value)
            x, y = position
            place = builder.fadd(builder.fmul(y, _every(builder, wide, kind)), x)
            if inside:
                place = builder.select(reduce(builder.and_, inside), place, every(-1.0))
            store(builder, builder.fptosi(place, whole), at(builder, places.pointer, first), element.width // 8)

        over(builder, builder.sub(end, begin), body, width=8)

    return found


nearest_places = _pixel_places(moves=False, checked=True)  # -1 outside the image, or if a position is no number
border_places = _pixel_places(moves=True, checked=True)  # that of the nearest pixel in the image; -1 for no number
inner_places = _pixel_places(moves=False, checked=False)  # all of them must be in the image


GROUP = 64  # places that are looked at together


@vector_function(DATA, INDEX, result=types.boolean)
def all_inside(builder, places, first):
    """True if none of a group of places is negative."""
    element = places.pointer.type.pointee
    kind = ir.VectorType(element, GROUP)
    found = load(builder, at(builder, places.pointer, first), kind, element.width // 8)
    bits = builder.bitcast(builder.icmp_signed("<", found, number(0, kind)), ir.IntType(GROUP))
    return builder.icmp_unsigned("==", bits, bits.type(0))
