"""Lab of bytes in whole numbers, and values blended between tables: for several pixels at once."""

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils

from pipeflow.kernels.cpu.simd.elements import store_pixels
from pipeflow.kernels.cpu.simd.instructions import (
    DATA,
    FLOAT,
    FLOATS,
    INDEX,
    INT8,
    INT32,
    INT64,
    LANES,
    at,
    extensions,
    load,
    many,
    number,
    over,
    splat,
    store,
    vector_function,
)

BASE, HALF = 14, 1 << 13  # bits of light that is computed back from Lab
MOST_LIGHT = 4095
RED, BLUE = 4194, 10484  # half the range of the channels a and b, divided by 500 and 200
LINE, LINE_BELOW = 3390, 290  # the curve is a line up to this root; the line begins so far below zero
BELOW = 10 * 841  # makes every root on the line positive, and adds a whole number to the result


def looked_up(builder: Any, table: Any, places: Any) -> Any:
    """32 bits from each place of a table, counted in its elements."""
    pointer, kind = table.pointer, places.type
    wide = pointer.type.pointee
    if isinstance(kind, ir.VectorType) and "avx512vbmi" in extensions():
        mask = ir.VectorType(ir.IntType(1), LANES)
        function = ir.FunctionType(kind, [kind, INT8.as_pointer(), kind, mask, INT32])
        gather = cgutils.get_or_insert_function(builder.module, function, "llvm.x86.avx512.mask.gather.dpi.512")
        first = builder.bitcast(pointer, INT8.as_pointer())
        return builder.call(
            gather, [number(0, kind), first, places, ir.Constant(mask, [1] * LANES), INT32(wide.width // 8)]
        )

    def one(place: Any) -> Any:
        return load(builder, at(builder, pointer, builder.zext(place, INT64)), INT32, wide.width // 8)

    if not isinstance(kind, ir.VectorType):
        return one(places)
    found = ir.Constant(kind, ir.Undefined)
    for lane in range(kind.count):
        found = builder.insert_element(found, one(builder.extract_element(places, INT32(lane))), INT32(lane))
    return found


def _bytes(builder: Any, data: Any, first: Any, lanes: int) -> Any:
    """Bytes as 32-bit numbers."""
    return builder.zext(load(builder, at(builder, data.pointer, first), many(INT8, lanes), 1), many(INT32, lanes))


def _put(builder: Any, value: Any, out: Any, first: Any, lanes: int) -> None:
    store(builder, builder.trunc(value, many(INT8, lanes)), at(builder, out.pointer, first), 1)


class _Whole:
    """Arithmetic with 32-bit numbers and constants."""

    def __init__(self, builder: Any, lanes: int) -> None:
        self.builder, self.kind = builder, many(INT32, lanes)

    def constant(self, value: int) -> Any:
        return number(value, self.kind)

    def sum(self, add: int, *products: tuple[Any, int]) -> Any:
        """A number, and the products of values and numbers."""
        total = self.constant(add)
        for value, factor in products:
            total = self.builder.add(total, self.builder.mul(value, self.constant(factor)))
        return total

    def shifted(self, value: Any, bits: int) -> Any:
        """The value divided by a power of two, rounded down."""
        return self.builder.ashr(value, self.constant(bits))

    def least(self, value: Any, limit: int) -> Any:
        return self._limited("<", value, limit)

    def most(self, value: Any, limit: int) -> Any:
        return self._limited(">", value, limit)

    def _limited(self, order: str, value: Any, limit: int) -> Any:
        end = self.constant(limit)
        return self.builder.select(self.builder.icmp_signed(order, value, end), end, value)


@vector_function(DATA, DATA, DATA, DATA, DATA, DATA, INDEX)
def pixels_to_lab(builder, source, linear, roots, light, reds, blues, total):
    """The channels of Lab of RGB pixels, each in an array of its own; the tables have 32 bits."""

    def body(first: Any, lanes: int) -> None:
        whole = _Whole(builder, lanes)
        begin = at(builder, source.pointer, builder.mul(first, INT64(3)))
        if lanes > 1:
            pixels = load(builder, begin, ir.VectorType(INT8, 3 * lanes), 1)
            orders = [ir.Constant(ir.VectorType(INT32, lanes), list(range(k, 3 * lanes, 3))) for k in range(3)]
            parts = [builder.shuffle_vector(pixels, pixels, order) for order in orders]
        else:
            parts = [builder.load(at(builder, begin, INT64(k))) for k in range(3)]
        r, g, b = (looked_up(builder, linear, builder.zext(part, whole.kind)) for part in parts)
        x, y, z = (
            looked_up(builder, roots, whole.shifted(whole.sum(2048, (r, red), (g, green), (b, blue)), 12))
            for red, green, blue in ((1777, 1541, 778), (871, 2929, 296), (73, 448, 3575))
        )
        _put(builder, whole.shifted(whole.sum((1 << 14) - 1336934, (y, 296)), 15), light, first, lanes)
        middle = (128 << 15) + (1 << 14)
        _put(builder, whole.shifted(whole.sum(middle, (builder.sub(x, y), 500)), 15), reds, first, lanes)
        _put(builder, whole.shifted(whole.sum(middle, (builder.sub(y, z), 200)), 15), blues, first, lanes)

    over(builder, total, body)


def _light_of(builder: Any, whole: _Whole, root: Any) -> Any:
    """Light by its root: a cube, and a line below it. Quotients are rounded toward zero."""
    below = builder.icmp_signed("<", root, whole.constant(0))
    line = builder.select(below, whole.constant(840 + BELOW * 108), whole.constant(BELOW * 108))
    line = builder.udiv(builder.add(line, builder.mul(root, whole.constant(108))), whole.constant(841))
    line = builder.sub(line, whole.constant(BELOW * 108 // 841 + LINE_BELOW))
    cube = whole.shifted(builder.mul(whole.shifted(builder.mul(root, root), BASE), root), BASE)
    return builder.select(builder.icmp_signed(">", root, whole.constant(LINE)), cube, line)


@vector_function(DATA, DATA, DATA, DATA, DATA, DATA, INDEX)
def pixels_from_lab(builder, light, reds, blues, lumas, shades, out, total):
    """RGB pixels of the channels of Lab. The table of bytes has three more than its entries."""

    def body(first: Any, lanes: int) -> None:
        whole = _Whole(builder, lanes)
        both = looked_up(builder, lumas, _bytes(builder, light, first, lanes))
        y, root = builder.and_(both, whole.constant(0xFFFF)), builder.lshr(both, whole.constant(16))
        red = whole.shifted(whole.sum(128, (_bytes(builder, reds, first, lanes), 268435)), 13)
        blue = whole.shifted(whole.sum(16, (_bytes(builder, blues, first, lanes), 41943)), 9)
        x = _light_of(builder, whole, builder.add(builder.add(root, red), whole.constant(-RED)))
        z = _light_of(builder, whole, builder.add(builder.sub(root, blue), whole.constant(BLUE)))
        colors = []
        for of_x, of_y, of_z in ((12615, -6296, -2223), (-3773, 7684, 185), (217, -836, 4715)):
            value = whole.shifted(whole.sum(HALF, (x, of_x), (y, of_y), (z, of_z)), BASE)
            value = looked_up(builder, shades, whole.most(whole.least(value, 0), MOST_LIGHT))
            colors.append(builder.trunc(value, many(INT8, lanes)))
        begin = at(builder, out.pointer, builder.mul(first, INT64(3)))
        store_pixels(builder, colors, begin)

    over(builder, total, body)


@vector_function(DATA, INDEX, INDEX, DATA, FLOATS, types.float32, DATA, INDEX)
def blend_values(builder, row, begin, end, table, shares, share, out, out_at):
    """The values of a part of a row, blended between four tables: a number of `table` has the values of all four, and `shares`
    has the shares of the right ones in each column. The products and sums are rounded one by one.
    """

    def body(first: Any, lanes: int) -> None:
        place, kind = builder.add(begin, first), many(FLOAT, lanes)
        four = looked_up(builder, table, _bytes(builder, row, place, lanes))
        whole = _Whole(builder, lanes)

        def value(number_of: int) -> Any:
            moved = builder.lshr(four, whole.constant(8 * number_of)) if number_of else four
            return builder.uitofp(builder.and_(moved, whole.constant(255)), kind)

        def every(factor: Any) -> Any:
            return splat(builder, factor, kind) if lanes > 1 else factor

        def blended(near: Any, far: Any, weight: Any) -> Any:
            rest = builder.fsub(every(FLOAT(1)), weight)
            return builder.fadd(builder.fmul(near, rest), builder.fmul(far, weight))

        right = load(builder, at(builder, shares.pointer, place), kind)
        upper, lower = (blended(value(i), value(i + 1), right) for i in (0, 2))
        result = blended(upper, lower, every(share))
        name = f"llvm.rint.v{lanes}f32" if lanes > 1 else "llvm.rint.f32"
        rint = cgutils.get_or_insert_function(builder.module, ir.FunctionType(kind, [kind]), name)
        result = builder.fptosi(builder.call(rint, [result]), whole.kind)
        _put(builder, whole.most(result, 255), out, builder.add(out_at, place), lanes)

    over(builder, builder.sub(end, begin), body)
