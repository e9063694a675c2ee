"""The colours of raw data, whose pixels have one colour each: for several pixels at once."""

from collections.abc import Sequence
from typing import Any

from llvmlite import ir
from numba import types

from pipeflow.kernels.cpu.simd.elements import store_pixels
from pipeflow.kernels.cpu.simd.instructions import (
    DATA,
    INDEX,
    INT64,
    at,
    load,
    many,
    number,
    over,
    splat,
    vector_function,
)


@vector_function(DATA, INDEX, INDEX, types.boolean, INDEX, DATA, INDEX)
def colors_of_row(builder, source, begin, width, blue_line, parity, out, out_at):
    """RGB of a row without its first and last pixel. ``begin`` is the place of the row in the source, ``parity`` 0 if its second
    pixel is in a column with blue. A missing colour is the mean of the neighbours that have it.
    """
    element = source.pointer.type.pointee
    size = element.width // 8
    blue = blue_line if blue_line.type == ir.IntType(1) else builder.trunc(blue_line, ir.IntType(1))

    def body(first: Any, lanes: int) -> None:
        kind, wider = many(element, lanes), many(ir.IntType(2 * element.width), lanes)
        one = number(1, kind)

        def value(down: int, across: int) -> Any:
            place = builder.add(builder.add(begin, first), INT64(1 + across))
            place = builder.add(place, builder.mul(width, INT64(down)))
            return load(builder, at(builder, source.pointer, place), kind, size)

        def mean(a: Any, b: Any) -> Any:  # one instruction of the processor
            total = builder.add(builder.add(builder.zext(a, wider), builder.zext(b, wider)), number(1, wider))
            return builder.trunc(builder.lshr(total, number(1, wider)), kind)

        def mean_of_four(pair: Sequence[Any], of_pair: Any, other: Sequence[Any], of_other: Any) -> Any:
            """From the means of two: their mean is too large by 1 if a rounded one decides how it is rounded."""
            decided = builder.and_(builder.or_(builder.xor(*pair), builder.xor(*other)), builder.xor(of_pair, of_other))
            return builder.sub(mean(of_pair, of_other), builder.and_(decided, one))

        centre = value(0, 0)
        beside = [value(0, across) for across in (-1, 1)]
        ends = [value(down, 0) for down in (-1, 1)]
        upper, lower = ([value(down, across) for across in (-1, 1)] for down in (-1, 1))
        horizontal, vertical = mean(*beside), mean(*ends)
        around = mean_of_four(beside, horizontal, ends, vertical)
        diagonal = mean_of_four(upper, mean(*upper), lower, mean(*lower))
        # Masks are bytes of ones or zeros: LLVM takes a vector of bits apart.
        odd = builder.and_(builder.trunc(builder.add(first, parity), element), element(1))
        line = builder.sext(blue, element)
        if lanes > 1:
            line = splat(builder, line, kind)
            lane = ir.Constant(kind, [lane % 2 for lane in range(lanes)])
            odd = builder.xor(splat(builder, odd, kind), lane)
        alike = builder.xor(builder.neg(odd), line)  # a pixel that is not green

        def chosen(mask: Any, yes: Any, no: Any) -> Any:
            return builder.or_(builder.and_(mask, yes), builder.and_(builder.not_(mask), no))

        green = chosen(alike, around, centre)
        near = chosen(alike, centre, horizontal)
        far = chosen(alike, diagonal, vertical)
        colors = [chosen(line, far, near), green, chosen(line, near, far)]
        target = at(builder, out.pointer, builder.add(out_at, builder.mul(builder.add(first, INT64(1)), INT64(3))))
        store_pixels(builder, colors, target)

    over(builder, builder.sub(width, INT64(2)), body, width=32)
