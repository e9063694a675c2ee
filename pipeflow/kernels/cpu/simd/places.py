"""The places of the four pixels around each position of a row, and the weights for blending them."""

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
    at,
    load,
    many,
    over,
    splat,
    store,
    vector_function,
)

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
    number, element = xs.pointer.type.pointee, places.pointer.type.pointee
    outside = cgutils.alloca_once_value(builder, ir.IntType(1)(0))
    builder.store(ir.IntType(1)(0), outside)
    ends = [builder.sitofp(end, number) for end in (width, height, right, builder.sub(height, INDEX_ONE))]
    pixel = builder.trunc(channels, element) if element == INT32 else channels
    stride = builder.mul(width, channels)
    stride = builder.trunc(stride, element) if element == INT32 else stride

    def body(first: Any, lanes: int) -> None:
        kind, whole = many(number, lanes), many(element, lanes)
        x, y = (load(builder, at(builder, one.pointer, first), kind, number_bytes) for one in (xs, ys))
        left, top = _floor(builder, x), _floor(builder, y)
        for part, weights in ((builder.fsub(x, left), us), (builder.fsub(y, top), vs)):
            part = part if number == FLOAT else builder.fptrunc(part, many(FLOAT, lanes))
            store(builder, part, at(builder, weights.pointer, first))
        wide, tall, last, low = (_every(builder, end, kind) for end in ends)
        least = ir.Constant(kind, [-1.0] * lanes) if lanes > 1 else number(-1.0)
        zero = ir.Constant(kind, [0.0] * lanes) if lanes > 1 else number(0.0)

        def between(bottom: Any, value: Any, word: str, end: Any) -> Any:
            return builder.and_(builder.fcmp_ordered(">=", value, bottom), builder.fcmp_ordered(word, value, end))

        near = builder.and_(between(least, left, "<", wide), between(least, top, "<", tall))
        inside = builder.and_(between(zero, left, "<=", last), between(zero, top, "<", low))
        line = builder.mul(builder.fptosi(top, whole), _every(builder, stride, whole))
        place = builder.add(line, builder.mul(builder.fptosi(left, whole), _every(builder, pixel, whole)))
        border, beyond = (ir.Constant(whole, [x] * lanes) if lanes > 1 else element(x) for x in (BORDER, OUTSIDE))
        place = builder.select(inside, place, builder.select(near, border, beyond))
        store(builder, place, at(builder, places.pointer, first), element.width // 8)
        bits = builder.bitcast(inside, ir.IntType(lanes)) if lanes > 1 else inside
        some = builder.icmp_unsigned("!=", bits, bits.type((1 << lanes) - 1))
        builder.store(builder.or_(builder.load(outside), some), outside)

    number_bytes = 4 if number == FLOAT else 8
    over(builder, total, body)
    return builder.load(outside)


INDEX_ONE = ir.IntType(64)(1)
