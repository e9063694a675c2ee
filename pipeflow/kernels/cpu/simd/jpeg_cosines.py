"""Cosine transforms of the 8 x 8 blocks of JPEG, two blocks at a time."""

from typing import Any

from llvmlite import ir
from numba import types

from pipeflow.kernels.cpu.simd.instructions import (
    DATA,
    INDEX,
    INT8,
    INT16,
    INT32,
    INT64,
    joined,
    load,
    number,
    part,
    splat,
    store,
    vector_function,
)
from pipeflow.kernels.cpu.simd.words import Words, interleaved

SIDE = 8  # samples of a block along each axis
PAIR = 2 * SIDE  # lanes for two blocks
WORDS = ir.VectorType(INT16, PAIR)
BYTES = ir.VectorType(INT8, SIDE)


def _cosines(words: Words, rows: list[Any], shift: int) -> list[Any]:
    """The inverse cosine transform of columns, by the factorisation of Loeffler, Ligtenberg and Moschytz with constants of
    13 bits, the results rounded by `shift` bits: the accurate integer method of libjpeg.

    Sums have 16 bits if they have 16 bits in libjpeg-turbo's vector code, and results saturate as there. So blocks that no
    encoder makes have the same result, too.
    """
    builder, add, sub = words.builder, words.add, words.sub
    even = [words.shifted(builder.add(rows[0], rows[4]), 13), words.shifted(builder.sub(rows[0], rows[4]), 13)]
    turned = words.products(rows[2], rows[6], (10703, 4433), (4433, -10704))
    upper = [add(even[0], turned[0]), add(even[1], turned[1]), sub(even[1], turned[1]), sub(even[0], turned[0])]
    third, fourth = builder.add(rows[7], rows[3]), builder.add(rows[5], rows[1])
    mixed = words.products(third, fourth, (-6436, 9633), (9633, 6437))
    outer = words.products(rows[7], rows[1], (-4927, -7373), (-7373, 4926))
    inner = words.products(rows[5], rows[3], (-4176, -20995), (-20995, 4177))
    odd = [add(outer[1], mixed[1]), add(inner[1], mixed[0]), add(inner[0], mixed[1]), add(outer[0], mixed[0])]
    pairs = list(zip(upper, odd, strict=True))
    sums = [add(a, b) for a, b in pairs] + [sub(a, b) for a, b in reversed(pairs)]
    return [words.rounded(one, shift) for one in sums]


def _transposed(builder: Any, rows: list[Any]) -> list[Any]:
    """Exchanges rows and columns in each group of eight.

    To interleave rows i and i + 4 rotates the six bits of an element's place by one. After three times, rows are columns.
    """
    for _ in range(3):
        rows = [part for i in range(4) for part in interleaved(builder, rows[i], rows[i + 4])]
    return rows


@vector_function(DATA, INDEX, DATA, INDEX, INDEX, DATA, INDEX, INDEX, INDEX, INDEX)
def inverse_cosines(builder, blocks, at, factors, factors_a, factors_b, planes, target_a, target_b, stride_a, stride_b):
    """Two blocks of coefficients, from blocks[at] on, times their quantisation factors, to 8 x 8 samples each; the
    coefficients become zero."""
    blocks = builder.gep(blocks.pointer, [at])
    factors = factors.pointer
    planes = planes.pointer
    half, words = ir.VectorType(INT16, SIDE), Words(builder)

    def rows_of(first: Any, second: Any) -> list[Any]:
        return [
            joined(builder, *(load(builder, builder.gep(p, [INT64(SIDE * i)]), half, 2) for p in (first, second)))
            for i in range(SIDE)
        ]

    stored = rows_of(blocks, builder.gep(blocks, [INT64(SIDE * SIDE)]))
    scale = rows_of(*(builder.gep(factors, [one]) for one in (factors_a, factors_b)))
    for i in range(2 * SIDE):
        store(builder, number(0, half), builder.gep(blocks, [INT64(SIDE * i)]), 2)
    rows = [builder.mul(a, b) for a, b in zip(stored, scale, strict=True)]
    # If a block has coefficients only in its first row, libjpeg-turbo does not saturate it: its sums wrap around.
    large = builder.icmp_unsigned(">", builder.add(rows[0], number(8192, WORDS)), number(16383, WORDS))
    before = builder.block
    with builder.if_then(builder.icmp_unsigned("!=", builder.bitcast(large, INT16), INT16(0)), likely=False):
        found = stored[1]
        for row in stored[2:]:
            found = builder.or_(found, row)
        lanes = ir.VectorType(ir.IntType(128), 2)
        flat = builder.icmp_unsigned("==", builder.bitcast(found, lanes), ir.Constant(lanes, [0, 0]))
        mask = builder.bitcast(builder.sext(flat, lanes), WORDS)
        wrapped = builder.ashr(builder.shl(rows[0], number(2, WORDS)), number(2, WORDS))
        chosen = builder.or_(builder.and_(wrapped, mask), builder.and_(rows[0], builder.not_(mask)))
        inside = builder.block
    first = builder.phi(WORDS)
    first.add_incoming(rows[0], before)
    first.add_incoming(chosen, inside)
    rows[0] = first
    rows = _transposed(builder, _cosines(words, rows, 11))
    rows = _transposed(builder, _cosines(words, rows, 18))
    eight = ir.VectorType(ir.DoubleType(), 4)  # of 64 bits: the upper half of a register can be stored directly
    for i in range(0, SIDE, 2):
        both = words.bytes(rows[i], rows[i + 1])
        both = builder.bitcast(builder.xor(both, number(-128, both.type)), eight)
        for place, (target, stride, row) in enumerate(
            (target, stride, i + r) for target, stride in ((target_a, stride_a), (target_b, stride_b)) for r in (0, 1)
        ):
            pointer = builder.gep(planes, [builder.add(target, builder.mul(stride, INT64(row)))])
            store(builder, builder.extract_element(both, INT32(place)), pointer, 1)


@vector_function(types.uint8, DATA, INDEX, INDEX)
def fill_square(builder, value, plane, plane_at, stride):
    """Fills 8 x 8 samples with one value."""
    plane = builder.gep(plane.pointer, [plane_at])
    row = splat(builder, value, BYTES)
    for i in range(SIDE):
        store(builder, row, builder.gep(plane, [builder.mul(stride, INT64(i))]), 1)


def _forward(words: Words, v: list[Any], first: bool) -> list[Any]:
    """The cosine transform of eight values in each lane, by the steps of `_cosines` in reverse order: the accurate integer
    method of libjpeg. The first pass keeps two bits more, which the second one rounds away.
    """
    builder = words.builder
    add, sub, kind = builder.add, builder.sub, v[0].type
    sums = [add(v[i], v[7 - i]) for i in range(4)]
    gaps = [sub(v[i], v[7 - i]) for i in range(4)]  # libjpeg's names are 7, 6, 5, 4
    even = [add(sums[0], sums[3]), add(sums[1], sums[2]), sub(sums[1], sums[2]), sub(sums[0], sums[3])]
    result: list[Any] = [None] * 8
    for place, value in ((0, add(even[0], even[1])), (4, sub(even[0], even[1]))):
        if first:
            result[place] = builder.shl(value, number(2, kind))
        else:
            result[place] = builder.ashr(builder.add(value, number(2, kind)), number(2, kind))
    bits = 11 if first else 15
    turned = words.products(even[3], even[2], (10703, 4433), (4433, -10704))
    result[2], result[6] = (words.rounded(one, bits) for one in turned)
    seven, six, five, four = gaps
    z3, z4 = add(four, six), add(five, seven)
    mixed = words.products(z3, z4, (-6436, 9633), (9633, 6437))
    outer = words.products(four, seven, (-4927, -7373), (-7373, 4926))
    inner = words.products(five, six, (-4176, -20995), (-20995, 4177))
    for place, pair, mix in (
        (7, outer[0], mixed[0]),
        (5, inner[0], mixed[1]),
        (3, inner[1], mixed[0]),
        (1, outer[1], mixed[1]),
    ):
        result[place] = words.rounded(words.add(pair, mix), bits)
    return result


def widened(builder: Any, pointer: Any, kind: Any) -> Any:
    """Bytes from memory as 16-bit numbers."""
    narrow = ir.VectorType(INT8, kind.count) if isinstance(kind, ir.VectorType) else INT8
    return builder.zext(load(builder, pointer, narrow, 1), kind)


@vector_function(DATA, INDEX, INDEX, INDEX, DATA, INDEX, DATA, INDEX)
def forward_cosines(builder, planes, source_a, source_b, stride, divisors, divisors_at, blocks, at):
    """Transforms two squares of 8 x 8 samples to blocks of quantised coefficients.

    `divisors` holds for each coefficient, in this order: half of the divisor, its reciprocal, and a power of two, so that
    (|x| + half) * reciprocal * power / 2 ** 32 rounds as division does.
    """
    planes = planes.pointer
    divisors = builder.gep(divisors.pointer, [divisors_at])
    blocks = builder.gep(blocks.pointer, [at])
    half, words = ir.VectorType(INT16, SIDE), Words(builder)
    wide = ir.VectorType(INT32, PAIR)
    rows = []
    for i in range(SIDE):
        shift = builder.mul(stride, INT64(i))
        two = [widened(builder, builder.gep(planes, [builder.add(at, shift)]), half) for at in (source_a, source_b)]
        rows.append(builder.sub(joined(builder, *two), number(128, WORDS)))
    columns = _transposed(builder, _forward(words, _transposed(builder, rows), True))
    rows = _forward(words, columns, False)

    def high_product(first: Any, second: Any) -> Any:
        product = builder.mul(builder.zext(first, wide), builder.zext(second, wide))
        return builder.trunc(builder.lshr(product, number(16, wide)), WORDS)

    for i, row in enumerate(rows):
        tables = []
        for table in range(3):
            one = load(builder, builder.gep(divisors, [INT64(64 * table + SIDE * i)]), half, 2)
            tables.append(joined(builder, one, one))
        sign = builder.ashr(row, number(15, WORDS))
        size = builder.sub(builder.xor(row, sign), sign)
        size = high_product(high_product(builder.add(size, tables[0]), tables[1]), tables[2])
        value = builder.sub(builder.xor(size, sign), sign)
        for k in (0, 1):
            place = builder.gep(blocks, [INT64(64 * k + SIDE * i)])
            store(builder, part(builder, value, SIDE * k, SIDE), place, 2)
