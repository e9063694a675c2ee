"""Looks up bytes in tables, and takes the bytes of pixels in another order."""

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils

from pipeflow.kernels.cpu.simd.instructions import (
    DATA,
    INDEX,
    INT8,
    INT16,
    INT32,
    INT64,
    LINE,
    SOON,
    at,
    by_lines,
    extensions,
    joined,
    load,
    many,
    number,
    over,
    part,
    reading,
    splat,
    store,
    vector_function,
    writing,
)

WIDE = ir.VectorType(INT8, 64)
AHEAD = 8  # groups of pixels that are read before the first is written


def has_tables() -> bool:
    """True if this processor looks up 64 bytes at a time. For others a look-up is not much faster than a factor and an offset."""
    return "avx512vbmi" in extensions()


def looked_up(builder: Any, parts: list[Any], values: Any) -> Any:
    """Looks up 64 bytes in a table of 256, whose quarters are ``parts``."""
    kind = ir.FunctionType(WIDE, [WIDE, WIDE, WIDE])
    find = cgutils.get_or_insert_function(builder.module, kind, "llvm.x86.avx512.vpermi2var.qi.512")
    low, high = (builder.call(find, [parts[half], values, parts[half + 1]]) for half in (0, 2))
    return builder.select(builder.icmp_signed("<", values, number(0, WIDE)), high, low)


HALF = ir.VectorType(INT8, 32)


def looked_up_in_sixteenths(builder: Any, parts: list[Any], values: Any) -> Any:
    """Looks up 32 bytes in a table of 256, whose sixteenths are ``parts``, twice each: the lower half of a byte is its place in a
    sixteenth, and the bits of the upper half choose between them.
    """
    kind = ir.FunctionType(HALF, [HALF, HALF])
    find = cgutils.get_or_insert_function(builder.module, kind, "llvm.x86.avx2.pshuf.b")
    place = builder.and_(values, number(15, HALF))
    words = ir.VectorType(INT16, 16)

    def chosen(first: int, count: int) -> Any:
        if count == 1:
            return builder.call(find, [parts[first], place])
        half = count // 2
        moved = builder.shl(builder.bitcast(values, words), number({16: 0, 8: 1, 4: 2, 2: 3}[count], words))
        upper = builder.icmp_signed("<", builder.bitcast(moved, HALF), number(0, HALF))
        return builder.select(upper, chosen(first + half, half), chosen(first, half))

    return chosen(0, 16)


def looks_up() -> tuple[int, Any]:
    """The number of bytes that this processor looks up at a time, and the function that does it; 1 and None if it cannot."""
    if has_tables():
        return 64, looked_up
    return (32, looked_up_in_sixteenths) if "avx2" in extensions() else (1, None)


@vector_function(DATA, DATA, DATA, INDEX)
def translate_row(builder, source, table, out, total):
    """Sets out[:total] = table[source[:total]]; all are bytes, and the table has 256."""
    source, table, out = source.pointer, table.pointer, out.pointer
    together, find = looks_up()
    kind, parts = many(INT8, together), []
    if together == 64:
        parts = [load(builder, at(builder, table, INT64(64 * i)), WIDE, 1) for i in range(4)]
    elif together == 32:
        twice = ir.Constant(ir.VectorType(INT32, 32), [*range(16), *range(16)])
        for i in range(16):
            part = load(builder, at(builder, table, INT64(16 * i)), ir.VectorType(INT8, 16), 1)
            parts.append(builder.shuffle_vector(part, part, twice))

    def single(place: Any) -> None:
        value = builder.load(at(builder, source, place))
        builder.store(builder.load(at(builder, table, builder.zext(value, INT64))), at(builder, out, place))

    def body(first: Any, lanes: int) -> None:
        if lanes == 1 or find is None:
            for place in range(lanes):
                single(builder.add(first, INT64(place)))
            return
        places = [builder.add(first, INT64(together * part)) for part in range(lanes // together)]
        values = [load(builder, at(builder, source, place), kind, 1) for place in places]
        for place, value in zip(places, values, strict=True):
            store(builder, find(builder, parts, value), at(builder, out, place), 1)

    over(builder, total, body, wide={64: 4, 32: 2}.get(together, 1), width=max(together, 8))


@vector_function(DATA, types.uint8, types.uint8, DATA, INDEX)
def change_bits(builder, source, flipped, kept, out, total):
    """Sets out[:total] = (source[:total] ^ flipped) & kept."""

    def changed(value: Any) -> Any:
        wide = isinstance(value.type, ir.VectorType)
        flip, keep = (splat(builder, one, value.type) if wide else one for one in (flipped, kept))
        return builder.and_(builder.xor(value, flip), keep)

    by_lines(builder, source.pointer, out.pointer, total, changed)


def at_once() -> int:
    """The number of pixels of three bytes that are moved at once; with one more byte they fill a vector."""
    return 21 if has_tables() else 5


def _shuffled(builder: Any, value: Any, places: Any) -> Any:
    """The bytes of a vector in the order of another vector; for a number below 0, it is 0 in 16 bytes, and any byte in 64.

    Each half of 32 bytes is a vector of its own.
    """
    name = {64: "avx512.permvar.qi.512", 32: "avx2.pshuf.b", 16: "ssse3.pshuf.b.128"}[value.type.count]
    kind = ir.FunctionType(value.type, [value.type, value.type])
    return builder.call(cgutils.get_or_insert_function(builder.module, kind, f"llvm.x86.{name}"), (value, places))


def _by_groups(
    builder: Any,
    source: Any,
    out: Any,
    total: Any,
    place_of: Callable[[Any, int], Any],
    moved: Callable[[Any], Any],
    later: Any = None,
) -> Any:
    """Moves ``at_once`` pixels of three bytes at a time from ``place_of(target, bytes)``, changed by ``moved``; returns their
    number. The bytes that are read next are ``later`` bytes after these, if it is given.

    Several groups are read before the first is written. If source and target begin at the same place of a page, a processor
    mistakes each read for a read of the bytes written just before, and waits.
    """
    size = 3 * at_once()
    vector = ir.VectorType(INT8, size + 1)
    steps = builder.sdiv(builder.sub(total, INT64(1)), INT64(size))
    blocks = builder.sdiv(steps, INT64(AHEAD))
    announce, expect = writing(builder), reading(builder)

    def move(first: Any, count: int) -> None:
        places = [builder.add(first, INT64(size * group)) for group in range(count)]
        values = [load(builder, at(builder, source, place_of(place, size)), vector, 1) for place in places]
        for line in range(0, size * count, LINE) if count > 1 else ():
            place = builder.add(first, INT64(line))
            announce(at(builder, out, builder.add(place, INT64(SOON))))
            if later is not None:
                expect(at(builder, source, builder.add(place_of(place, size), later)))
        for place, value in zip(places, values, strict=True):
            store(builder, moved(value), at(builder, out, place), 1)

    with cgutils.for_range(builder, blocks, intp=INT64) as loop:
        move(builder.mul(loop.index, INT64(size * AHEAD)), AHEAD)
    ahead = builder.mul(blocks, INT64(AHEAD))
    with cgutils.for_range(builder, builder.sub(steps, ahead), intp=INT64) as loop:
        move(builder.mul(builder.add(ahead, loop.index), INT64(size)), 1)
    return builder.mul(steps, INT64(at_once()))


def pixels_of_order() -> int:
    """The pixels of three bytes that `reorder_pixels` moves at once: their bytes and one more fill a vector, or three vectors."""
    return at_once() if has_tables() else 16


@vector_function(DATA, DATA, DATA, DATA, INDEX)
def reorder_pixels(builder, source, order, fill, out, pixels):
    """Reorders pixels of three bytes: byte k of each is the input's byte order[k], or fill[k] if order[k] is negative.

    ``order`` and ``fill`` are for ``pixels_of_order`` pixels and one more byte.
    """
    source, order, fill, out = source.pointer, order.pointer, fill.pointer, out.pointer
    total = builder.mul(pixels, INT64(3))
    done = INT64(0)
    if has_tables():
        places, values = load(builder, order, WIDE, 1), load(builder, fill, WIDE, 1)
        kept = builder.icmp_signed(">=", places, number(0, WIDE))
        values = builder.select(kept, number(0, WIDE), values)

        def place_of(begin: Any, _size: int) -> Any:
            return begin

        def moved(value: Any) -> Any:
            return builder.select(kept, _shuffled(builder, value, places), values)

        done = _by_groups(builder, source, out, total, place_of, moved)
    elif "ssse3" in extensions():
        done = _by_three_vectors(builder, source, order, fill, out, total)
    with cgutils.for_range(builder, builder.sub(pixels, done), intp=INT64) as loop:
        begin = builder.mul(builder.add(done, loop.index), INT64(3))
        # all three are read before the first is written
        found = []
        for k in range(3):
            place = builder.load(at(builder, order, INT64(k)))
            kept = builder.icmp_signed(">=", place, INT8(0))
            index = builder.select(kept, builder.sext(place, INT64), INT64(0))
            value = builder.load(at(builder, source, builder.add(begin, index)))
            found.append(builder.select(kept, value, builder.load(at(builder, fill, INT64(k)))))
        for k, value in enumerate(found):
            builder.store(value, at(builder, out, builder.add(begin, INT64(k))))


def _by_three_vectors(builder: Any, source: Any, order: Any, fill: Any, out: Any, total: Any) -> Any:
    """`reorder_pixels` for 16 pixels in three vectors of 16 bytes, each of which gets bytes of two or three, or for twice as many
    in the halves of wider vectors; returns the number of pixels. Five at a time, whose vectors overlap, take a quarter more.
    """
    halves = 2 if "avx2" in extensions() else 1
    size, vector = 16, ir.VectorType(INT8, 16)

    def loaded(begins: list[Any], place: int) -> Any:
        found = [load(builder, at(builder, begin, INT64(size * place)), vector, 1) for begin in begins]
        return joined(builder, *found) if halves > 1 else found[0]

    # Of each vector of the output and each of the input: the places in the latter, or -1.
    chosen: dict[tuple[int, int], Any] = {}
    values = []
    for to in range(3):
        places, filled = loaded([order] * halves, to), loaded([fill] * halves, to)
        none = number(0, places.type)
        values.append(builder.select(builder.icmp_signed("<", places, none), filled, none))
        for of in range(max(to - 1, 0), min(to + 2, 3)):
            place = builder.sub(places, number(size * of, places.type))
            within = builder.icmp_unsigned("<", place, number(size, places.type))
            chosen[to, of] = builder.select(within, place, number(-1, places.type))
    blocks = builder.sdiv(total, INT64(3 * size * halves))
    with cgutils.for_range(builder, blocks, intp=INT64) as loop:
        first = builder.mul(loop.index, INT64(3 * size * halves))
        begins = [builder.add(first, INT64(3 * size * half)) for half in range(halves)]
        found = [loaded([at(builder, source, begin) for begin in begins], of) for of in range(3)]
        for to in range(3):
            result = values[to]
            for of in range(max(to - 1, 0), min(to + 2, 3)):
                result = builder.or_(result, _shuffled(builder, found[of], chosen[to, of]))
            for half, begin in enumerate(begins):
                target = at(builder, out, builder.add(begin, INT64(size * to)))
                store(builder, part(builder, result, size * half, size), target, 1)
    return builder.mul(blocks, INT64(size * halves))


@vector_function(DATA, DATA, INDEX)
def repeat_bytes(builder, source, out, total):
    """Sets out[3 * i : 3 * i + 3] = source[i], sixteen at a time."""
    source, out = source.pointer, out.pointer

    def body(first: Any, lanes: int) -> None:
        value = load(builder, at(builder, source, first), many(INT8, lanes), 1)
        target = builder.mul(first, INT64(3))
        if lanes == 1:
            for k in range(3):
                builder.store(value, at(builder, out, builder.add(target, INT64(k))))
            return
        order = ir.Constant(ir.VectorType(INT32, 3 * lanes), [i for i in range(lanes) for _ in range(3)])
        store(builder, builder.shuffle_vector(value, value, order), at(builder, out, target), 1)

    over(builder, total, body)


@vector_function(DATA, INDEX, DATA, INDEX, DATA, INDEX, INDEX)
def mirror_pixels(builder, source, offset, out, out_offset, order, pixels, later):
    """Copies a row of pixels of three bytes in reverse order; ``order`` is for ``at_once`` pixels and one more byte.

    The next row is ``later`` bytes after this one: its bytes come into the cache during this work, which takes a fifth less time.
    """
    source, out = at(builder, source.pointer, offset), at(builder, out.pointer, out_offset)
    total = builder.mul(pixels, INT64(3))

    def one_by_one() -> None:
        with cgutils.for_range(builder, pixels, intp=INT64) as loop:
            begin = builder.mul(loop.index, INT64(3))
            end = builder.sub(builder.sub(total, INT64(3)), begin)
            for k in range(3):
                value = builder.load(at(builder, source, builder.add(end, INT64(k))))
                builder.store(value, at(builder, out, builder.add(begin, INT64(k))))

    if "ssse3" not in extensions():
        one_by_one()
        return
    size = 3 * at_once()
    vector = ir.VectorType(INT8, size + 1)
    with builder.if_else(builder.icmp_signed(">", total, INT64(size))) as (wide, narrow):
        with wide:
            places = load(builder, order.pointer, vector, 1)

            def place_of(begin: Any, size: int) -> Any:
                # the first byte belongs to the pixel before, so that the last byte ends a pixel
                return builder.sub(builder.sub(total, begin), INT64(size + 1))

            def moved(value: Any) -> Any:
                return _shuffled(builder, value, places)

            _by_groups(builder, source, out, total, place_of, moved, later)
            # the last group, without a byte more: two halves that share a byte are stored
            backwards = [3 * (at_once() - 1 - i // 3) + i % 3 for i in range(size)]
            order_of = ir.Constant(ir.VectorType(INT32, size + 1), [*backwards, size])
            value = load(builder, source, vector, 1)
            value = builder.shuffle_vector(value, ir.Constant(vector, ir.Undefined), order_of)
            half = (size + 1) // 2
            for first in (0, half - 1):
                target = builder.sub(total, INT64(size - first))
                store(builder, part(builder, value, first, half), at(builder, out, target), 1)
        with narrow:
            one_by_one()
