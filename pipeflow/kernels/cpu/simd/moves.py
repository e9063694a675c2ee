"""Moves and reads bytes without changes."""

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils

from pipeflow.kernels.cpu.simd.instructions import (
    DATA,
    INDEX,
    INT8,
    INT32,
    INT64,
    LINE,
    by_lines,
    extensions,
    joined,
    load,
    number,
    part,
    splat,
    store,
    vector_function,
    writing,
)


@vector_function(DATA, INDEX, DATA, INDEX)
def copy_four_bytes(builder, source, offset, out, out_offset):
    """Copies four bytes at once, for pixels of three: the next pixel overwrites the fourth."""
    source = builder.gep(source.pointer, [offset])
    out = builder.gep(out.pointer, [out_offset])
    store(builder, builder.load(builder.bitcast(source, INT32.as_pointer()), align=1), out, 1)


SIDE = 4  # pixels of three bytes whose words fill 16 bytes


def block_columns() -> int:
    """The columns of a block of `transpose_block`."""
    return SIDE * (2 if "avx2" in extensions() else 1)


@vector_function(DATA, INDEX, INDEX, DATA, INDEX, INDEX)
def transpose_block(builder, source, offset, stride, out, out_offset, out_stride):
    """Moves four pixels of three bytes of ``block_columns`` rows to four rows. Four more bytes are read and overwritten."""
    halves, line_of = block_columns() // SIDE, ir.VectorType(INT8, 16)
    bytes_of, whole = ir.VectorType(INT8, 16 * halves), ir.VectorType(INT32, 4 * halves)

    def in_halves(places: list[int], length: int) -> Any:
        """The order for each half of a vector; places from `length` on are of another vector."""
        order = [i % length + length * (half + i // length * halves) for half in range(halves) for i in places]
        return ir.Constant(ir.VectorType(INT32, len(order)), order)

    spread = in_halves([3 * (i // 4) + min(i % 4, 2) for i in range(16)], 16)
    packed = in_halves([4 * (i // 3) + i % 3 for i in range(12)] + [0] * 4, 16)
    source, out = builder.gep(source.pointer, [offset]), builder.gep(out.pointer, [out_offset])
    lines = []
    for row in range(SIDE):
        begins = [builder.gep(source, [builder.mul(stride, INT64(row + SIDE * half))]) for half in range(halves)]
        parts = [load(builder, begin, line_of, 1) for begin in begins]
        line = joined(builder, *parts) if halves > 1 else parts[0]
        lines.append(builder.bitcast(builder.shuffle_vector(line, line, spread), whole))

    def of_two(first: Any, second: Any, places: list[int]) -> Any:
        return builder.shuffle_vector(first, second, in_halves(places, 4))

    upper = [of_two(lines[0], lines[1], places) for places in ([0, 4, 1, 5], [2, 6, 3, 7])]
    lower = [of_two(lines[2], lines[3], places) for places in ([0, 4, 1, 5], [2, 6, 3, 7])]
    columns = [of_two(upper[i], lower[i], places) for i in (0, 1) for places in ([0, 1, 4, 5], [2, 3, 6, 7])]
    for row, column in enumerate(columns):
        pixels = builder.bitcast(column, bytes_of)
        pixels = builder.shuffle_vector(pixels, pixels, packed)
        target = builder.gep(out, [builder.mul(out_stride, INT64(row))])
        for half in range(halves):
            store(builder, part(builder, pixels, 16 * half, 16), builder.gep(target, [INT64(3 * SIDE * half)]), 1)


@vector_function(DATA, DATA, INDEX)
def stream_bytes(builder, source, out, total):
    """Sets out[:total] = source[:total] without the caches; other threads see the bytes after the function has returned."""
    _stream(builder, source.pointer, out.pointer, total)


@vector_function(INDEX, DATA, INDEX, INDEX)
def stream_memory(builder, address, out, out_at, total):
    """Sets out[out_at:][:total] = the bytes in memory from an address on, like ``stream_bytes``."""
    out = builder.gep(out.pointer, [out_at])
    _stream(builder, builder.inttoptr(address, out.type), out, total)


def _stream(builder: Any, source: Any, out: Any, total: Any) -> None:
    line, wide = 64, 256
    vector = ir.VectorType(INT8, line)
    past = builder.module.add_metadata([INT32(1)])
    # Byte by byte before the first whole line and after the last one: these stores need aligned memory.
    offset = builder.and_(builder.sub(INT64(0), builder.ptrtoint(out, INT64)), INT64(line - 1))
    head = builder.select(builder.icmp_signed("<", offset, total), offset, total)
    blocks = builder.sdiv(builder.sub(total, head), INT64(wide))
    tail = builder.add(head, builder.mul(blocks, INT64(wide)))

    def single(begin: Any, count: Any) -> None:
        with cgutils.for_range(builder, count, intp=INT64) as loop:
            at = builder.add(begin, loop.index)
            builder.store(builder.load(builder.gep(source, [at])), builder.gep(out, [at]))

    single(INT64(0), head)
    with cgutils.for_range(builder, blocks, intp=INT64) as loop:
        begin = builder.add(head, builder.mul(loop.index, INT64(wide)))
        places = [builder.add(begin, INT64(line * part)) for part in range(wide // line)]
        values = [load(builder, builder.gep(source, [at]), vector, 1) for at in places]
        for at, value in zip(places, values, strict=True):
            pointer = builder.bitcast(builder.gep(out, [at]), vector.as_pointer())
            builder.store(value, pointer, align=line).set_metadata("nontemporal", past)
    single(tail, builder.sub(total, tail))
    builder.fence("seq_cst")


@vector_function(DATA, INDEX, INDEX)
def expect_writes(builder, out, first, count):
    """Announces that `count` elements will soon be written: their lines come into the cache during other work."""
    announce = writing(builder)
    begin = builder.bitcast(builder.gep(out.pointer, [first]), INT8.as_pointer())
    size = builder.mul(count, INT64(out.element.bitwidth // 8))
    lines = builder.sdiv(builder.add(size, INT64(LINE - 1)), INT64(LINE))
    with cgutils.for_range(builder, lines, intp=INT64) as loop:
        announce(builder.gep(begin, [builder.mul(loop.index, INT64(LINE))]))


@vector_function(DATA, INDEX, INDEX, DATA, INDEX)
def copy_row(builder, source, source_at, count, out, out_at):
    """out[out_at:][:count] = source[source_at:]."""
    source = builder.gep(source.pointer, [source_at])
    out = builder.gep(out.pointer, [out_at])
    cgutils.raw_memcpy(builder, out, source, count, 1)


@vector_function(INDEX, INDEX, DATA, INDEX)
def copy_memory(builder, address, count, out, out_at):
    """out[out_at:][:count] = the elements in memory from an address on."""
    out = builder.gep(out.pointer, [out_at])
    cgutils.raw_memcpy(builder, out, builder.inttoptr(address, out.type), count, 1)


LONG = 256  # bytes of a row from which on a loop over vectors is faster than a call of the system's function


@vector_function(DATA, INDEX, INDEX, DATA, INDEX)
def copy_long_row(builder, source, source_at, count, out, out_at):
    """`copy_row` for long rows."""
    source, out = builder.gep(source.pointer, [source_at]), builder.gep(out.pointer, [out_at])
    by_lines(builder, source, out, count, lambda value: value)


@vector_function(DATA, INDEX, INDEX, DATA, INDEX, INDEX)
def copy_one_of_rows(builder, source, source_at, count, out, out_at, step):
    """`copy_long_row` for one of several rows that are `step` bytes apart in the source.

    The processor does not foresee where a row begins, so each line of the row after next is announced when a line is copied. It
    takes a seventh less time for a part of an image, and a fifth less for rows from last to first.
    """
    source, out = builder.gep(source.pointer, [source_at]), builder.gep(out.pointer, [out_at])
    by_lines(builder, source, out, count, lambda value: value, ahead=builder.mul(step, INT64(2)))


@vector_function(DATA, INDEX, INDEX, types.uint8)
def fill_bytes(builder, out, begin, count, value):
    """out[begin:][:count] = value."""
    cgutils.memset(builder, builder.gep(out.pointer, [begin]), count, value)


@vector_function(DATA, INDEX, types.uint8)
def fill_line(builder, out, begin, value):
    """The same for LINE bytes, by one store."""
    vector = ir.VectorType(INT8, LINE)
    store(builder, splat(builder, value, vector), builder.gep(out.pointer, [begin]), 1)


GROUP = 16  # pixels whose places are checked at once
HELD = 8  # pixels that are read before the first is written: more do not fit in the registers


def _gathered(builder: Any, source: Any, places: Any) -> Any:
    """The bytes of a group of pixels of three bytes, read by one instruction."""
    whole, mask = places.type, ir.VectorType(ir.IntType(1), GROUP)
    kind = ir.FunctionType(whole, [whole, INT8.as_pointer(), whole, mask, INT32])
    gather = cgutils.get_or_insert_function(builder.module, kind, "llvm.x86.avx512.mask.gather.dpi.512")
    first = builder.mul(places, number(3, whole))
    found = builder.call(gather, [number(0, whole), source, first, ir.Constant(mask, [1] * GROUP), INT32(1)])
    pixels = builder.bitcast(found, ir.VectorType(INT8, 4 * GROUP))
    order = ir.Constant(ir.VectorType(INT32, 3 * GROUP), [4 * (i // 3) + i % 3 for i in range(3 * GROUP)])
    return builder.shuffle_vector(pixels, ir.Constant(pixels.type, ir.Undefined), order)


def _copy_pixels(builder: Any, source: Any, begin: Any, places: Any, out: Any) -> None:
    """Copies a group of pixels of three bytes from their places, which ``begin`` points to; four bytes for each pixel."""
    width = places.type.element.width
    if width == 32 and "avx512vbmi" in extensions():
        store(builder, _gathered(builder, source.pointer, places), out, 1)
        return
    for first in range(0, GROUP, HELD):
        pixels = []
        for pixel in range(first, first + HELD):
            place = builder.load(builder.gep(begin, [INT64(pixel)]), align=width // 8)
            place = builder.sext(place, INT64) if width < 64 else place
            start = builder.gep(source.pointer, [builder.mul(place, INT64(3))])
            pixels.append(builder.load(builder.bitcast(start, INT32.as_pointer()), align=1))
        for pixel, value in enumerate(pixels, first):
            store(builder, value, builder.gep(out, [INT64(3 * pixel)]), 1)


@vector_function(DATA, DATA, INDEX, DATA, INDEX)
def copy_inner_group(builder, source, places, first, out, out_offset):
    """`copy_group` for places that are at least 0 and less than that of the last pixel."""
    width = places.element.bitwidth
    begin = builder.gep(places.pointer, [first])
    found = load(builder, begin, ir.VectorType(ir.IntType(width), GROUP), width // 8)
    _copy_pixels(builder, source, begin, found, builder.gep(out.pointer, [out_offset]))


@vector_function(DATA, DATA, INDEX, INDEX, DATA, DATA, INDEX, result=types.boolean)
def copy_group(builder, source, places, first, end, fill, out, out_offset):
    """Copies a group of pixels of three bytes from their places if all places are at least 0 and less than ``end``; if all are
    negative, each pixel becomes ``fill``. In other cases it does nothing and returns False.

    Four bytes are copied for each pixel: the next pixel overwrites the fourth, and the last one is after the group.
    """
    width = places.element.bitwidth
    kind, bits = ir.IntType(width), ir.IntType(GROUP)
    begin = builder.gep(places.pointer, [first])
    found = load(builder, begin, ir.VectorType(kind, GROUP), width // 8)
    limit = splat(builder, builder.trunc(end, kind) if width < 64 else end, found.type)
    every = bits((1 << GROUP) - 1)
    within = builder.icmp_unsigned("==", builder.bitcast(builder.icmp_unsigned("<", found, limit), bits), every)
    below = builder.icmp_signed("<", found, number(0, found.type))
    none = builder.icmp_unsigned("==", builder.bitcast(below, bits), every)
    with builder.if_then(within):
        _copy_pixels(builder, source, begin, found, builder.gep(out.pointer, [out_offset]))
    with builder.if_then(none):
        pixel: Any = ir.Constant(ir.VectorType(INT8, 4), ir.Undefined)
        for k in range(3):
            pixel = builder.insert_element(pixel, builder.load(builder.gep(fill.pointer, [INT64(k)])), INT32(k))
        order = ir.Constant(ir.VectorType(INT32, 3 * GROUP), [i % 3 for i in range(3 * GROUP)])
        group = builder.shuffle_vector(pixel, ir.Constant(pixel.type, ir.Undefined), order)
        store(builder, group, builder.gep(out.pointer, [out_offset]), 1)
    return builder.or_(within, none)


@vector_function(DATA, INDEX, INDEX, DATA, INDEX, result=INDEX)
def move_plain_bytes(builder, source, offset, limit, out, out_offset):
    """Copies the bytes before the next 0xFF, in steps of 32 that end before `limit`, and returns their number.

    Up to 32 bytes of `out` after the copied ones are overwritten.
    """
    step = 32
    vector = ir.VectorType(INT8, step)
    source = builder.gep(source.pointer, [offset])
    out = builder.gep(out.pointer, [out_offset])
    last = builder.sub(builder.sub(limit, offset), INT64(step))
    before = builder.block
    check, body, further, end = (builder.append_basic_block(name) for name in ("check", "body", "further", "end"))
    builder.branch(check)
    builder.position_at_end(check)
    place = builder.phi(INT64)
    place.add_incoming(INT64(0), before)
    builder.cbranch(builder.icmp_signed("<=", place, last), body, end)
    builder.position_at_end(body)
    values = load(builder, builder.gep(source, [place]), vector, 1)
    store(builder, values, builder.gep(out, [place]), 1)
    found = builder.bitcast(builder.icmp_unsigned("==", values, number(-1, vector)), INT32)
    found_at = builder.add(place, builder.zext(builder.cttz(found, ir.IntType(1)(0)), INT64))
    builder.cbranch(builder.icmp_unsigned("==", found, INT32(0)), further, end)
    builder.position_at_end(further)
    place.add_incoming(builder.add(place, INT64(step)), further)
    builder.branch(check)
    builder.position_at_end(end)
    result = builder.phi(INT64)
    result.add_incoming(place, check)
    result.add_incoming(found_at, body)
    return result
