"""The colours of raw data, whose pixels have one colour each: for several pixels at once."""

from typing import Any

from llvmlite import ir
from numba import types

from pipeflow.kernels.cpu.simd.elements import store_pixels
from pipeflow.kernels.cpu.simd.instructions import (
    DATA,
    INDEX,
    INT16,
    INT32,
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
    wide = INT16 if size == 1 else INT32
    blue = blue_line if blue_line.type == ir.IntType(1) else builder.trunc(blue_line, ir.IntType(1))

    def body(first: Any, lanes: int) -> None:
        kind = many(wide, lanes)

        def value(down: int, across: int) -> Any:
            place = builder.add(builder.add(begin, first), INT64(1 + across))
            place = builder.add(place, builder.mul(width, INT64(down)))
            return builder.zext(load(builder, at(builder, source.pointer, place), many(element, lanes), size), kind)

        def mean(values: list[Any]) -> Any:
            bits = 1 if len(values) == 2 else 2
            total = number(bits, kind)
            for one in values:
                total = builder.add(total, one)
            return builder.lshr(total, number(bits, kind))

        centre = value(0, 0)
        sides, ends = [value(0, -1), value(0, 1)], [value(-1, 0), value(1, 0)]
        corners = [value(down, across) for down in (-1, 1) for across in (-1, 1)]
        place = builder.trunc(builder.add(first, parity), wide)
        if lanes > 1:
            place = builder.add(splat(builder, place, kind), ir.Constant(kind, list(range(lanes))))
        odd = builder.icmp_signed("!=", builder.and_(place, number(1, kind)), number(0, kind))
        line = splat(builder, blue, odd.type) if lanes > 1 else blue
        alike = builder.xor(odd, line)  # a pixel that is not green
        green = builder.select(alike, mean(sides + ends), centre)
        near = builder.select(alike, centre, mean(sides))
        far = builder.select(alike, mean(corners), mean(ends))
        colors = [builder.select(line, far, near), green, builder.select(line, near, far)]
        narrow = many(element, lanes)
        target = at(builder, out.pointer, builder.add(out_at, builder.mul(builder.add(first, INT64(1)), INT64(3))))
        store_pixels(builder, [builder.trunc(color, narrow) for color in colors], target)

    over(builder, builder.sub(width, INT64(2)), body, width=32)
