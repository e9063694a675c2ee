"""Vector instructions for the JPEG kernels, written as LLVM IR (see `simd`).

Offsets count elements and are not checked here: the callers compute them from extents that they have compared with the
arrays' sizes. `tests/decoders/plain_simd.py` has a plain, checked twin of each function; the tests run the whole
decoder with the twins, too.
"""

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from pipeflow.kernels.cpu.simd import INT8, INT16, INT32, INT64, LANES, data, extensions, load, over, splat, store

SIDE = 8  # of a block
GROUP = 8  # 16-bit numbers in 128 bits, beyond which x86 moves and packs nothing
PAIR = 2 * SIDE  # lanes for two blocks
WORDS = ir.VectorType(INT16, PAIR)
BYTES = ir.VectorType(INT8, SIDE)


def many(kind: Any, lanes: int) -> Any:
    return ir.VectorType(kind, lanes) if lanes > 1 else kind


def number(value: int, kind: Any) -> Any:
    return ir.Constant(kind, [value] * kind.count) if isinstance(kind, ir.VectorType) else kind(value)


def clamped(builder: Any, value: Any, low: int, high: int, narrow: Any) -> Any:
    """The integers kept within bounds, in a narrower type; LLVM makes one saturating pack of it."""
    for bound, order in ((low, "<"), (high, ">")):
        limit = number(bound, value.type)
        value = builder.select(builder.icmp_signed(order, value, limit), limit, value)
    return builder.trunc(value, narrow)


@intrinsic
def load_big_endian(_typing, source, offset):
    """Eight bytes as one number, the first byte on top."""
    signature = types.uint64(source, types.int64)

    def generate(context, builder, signature, arguments):
        pointer = builder.gep(data(context, builder, signature, arguments, 0), [arguments[1]])
        word = builder.load(builder.bitcast(pointer, INT64.as_pointer()), align=1)
        swap = cgutils.get_or_insert_function(builder.module, ir.FunctionType(INT64, [INT64]), "llvm.bswap.i64")
        return builder.call(swap, [word])

    return signature, generate


@intrinsic
def move_plain_bytes(_typing, source, offset, limit, out, out_offset):
    """Copies the bytes before the next 0xFF, in steps of 32 that end before `limit`; how many there are.

    Up to 32 bytes of `out` behind the copied ones are overwritten.
    """
    i64 = types.int64
    signature = i64(source, i64, i64, out, i64)
    step = 32
    vector = ir.VectorType(INT8, step)

    def generate(context, builder, signature, arguments):
        _, offset, limit, _, out_offset = arguments
        source = builder.gep(data(context, builder, signature, arguments, 0), [offset])
        out = builder.gep(data(context, builder, signature, arguments, 3), [out_offset])
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

    return signature, generate


def joined(builder: Any, first: Any, second: Any) -> Any:
    count = first.type.count
    order = ir.Constant(ir.VectorType(INT32, 2 * count), list(range(2 * count)))
    return builder.shuffle_vector(first, second, order)


def part(builder: Any, value: Any, first: int, count: int) -> Any:
    order = ir.Constant(ir.VectorType(INT32, count), list(range(first, first + count)))
    return builder.shuffle_vector(value, ir.Constant(value.type, ir.Undefined), order)


def interleaved(builder: Any, first: Any, second: Any) -> tuple[Any, Any]:
    """The two vectors element by element in turn, the lower and the upper halves of each group of eight."""
    count = first.type.count
    orders = [
        [x for group in range(0, count, GROUP) for i in range(4) for x in (group + half + i, count + group + half + i)]
        for half in (0, 4)
    ]
    index = ir.VectorType(INT32, count)
    low, high = (builder.shuffle_vector(first, second, ir.Constant(index, order)) for order in orders)
    return low, high


class Words:
    """What x86 does to vectors of 16-bit numbers in one instruction, and others in a few.

    Numbers of 32 bits are pairs of vectors, in the order of `interleaved`.
    """

    def __init__(self, context: Any, builder: Any) -> None:
        self.builder, self.extensions = builder, extensions(context)

    def _call(self, names: tuple[str, str], result: Any, first: Any, second: Any) -> Any:
        """An instruction for 256 bits, or twice the one for 128."""
        if "avx2" in self.extensions:
            function = ir.FunctionType(result, [first.type, second.type])
            return self.builder.call(
                cgutils.get_or_insert_function(self.builder.module, function, f"llvm.x86.avx2.{names[0]}"),
                [first, second],
            )
        count = first.type.count // 2
        half = ir.VectorType(first.type.element, count)
        narrow = ir.VectorType(result.element, result.count // 2)
        function = cgutils.get_or_insert_function(
            self.builder.module, ir.FunctionType(narrow, [half, half]), f"llvm.x86.sse2.{names[1]}"
        )
        halves = [
            self.builder.call(function, [part(self.builder, value, i * count, count) for value in (first, second)])
            for i in (0, 1)
        ]
        return joined(self.builder, *halves)

    def products(self, first: Any, second: Any, *factors: tuple[Any, Any]) -> list[tuple[Any, Any]]:
        """first * a + second * b for each pair of factors, numbers or values of 16 bits."""
        builder, count = self.builder, first.type.count
        wide = ir.VectorType(INT32, count // 2)
        pairs: Any = interleaved(builder, first, second)
        if not self.extensions:
            # The two vectors are found again in their interleaved form, half by half.
            index = ir.VectorType(INT32, count // 2)
            pairs = [
                [
                    builder.sext(builder.shuffle_vector(one, one, ir.Constant(index, list(range(i, count, 2)))), wide)
                    for i in (0, 1)
                ]
                for one in pairs
            ]
        results = []
        for factor in factors:
            a, b = (self.spread(one, first.type) for one in factor)
            if self.extensions:
                constants = interleaved(builder, a, b)[0]
                low, high = (self._call(("pmadd.wd", "pmadd.wd"), wide, pair, constants) for pair in pairs)
            else:
                a, b = (builder.sext(part(builder, one, 0, count // 2), wide) for one in (a, b))
                low, high = (builder.add(builder.mul(even, a), builder.mul(odd, b)) for even, odd in pairs)
            results.append((low, high))
        return results

    def spread(self, value: Any, kind: Any) -> Any:
        """A number, or a value, in every lane."""
        return number(value, kind) if isinstance(value, int) else splat(self.builder, value, kind)

    def shifted(self, value: Any, bits: int) -> tuple[Any, Any]:
        """The numbers in 32 bits, times a power of two."""
        builder = self.builder
        wide = ir.VectorType(INT32, value.type.count // 2)
        low, high = interleaved(builder, number(0, value.type), value)
        return tuple(builder.ashr(builder.bitcast(one, wide), number(16 - bits, wide)) for one in (low, high))

    def add(self, first: Any, second: Any) -> tuple[Any, Any]:
        return tuple(self.builder.add(a, b) for a, b in zip(first, second, strict=True))

    def sub(self, first: Any, second: Any) -> tuple[Any, Any]:
        return tuple(self.builder.sub(a, b) for a, b in zip(first, second, strict=True))

    def rounded(self, value: tuple[Any, Any], bits: int) -> Any:
        """Divided by a power of two, halves rounded up, saturated to 16 bits."""
        builder, kind = self.builder, value[0].type
        half = number(1 << (bits - 1), kind)
        return self.packed(*(builder.ashr(builder.add(one, half), number(bits, kind)) for one in value))

    def packed(self, low: Any, high: Any) -> Any:
        """Numbers of 32 bits, saturated to 16."""
        builder, kind = self.builder, low.type
        result = ir.VectorType(INT16, 2 * kind.count)
        if self.extensions:
            return self._call(("packssdw", "packssdw.128"), result, low, high)
        both = clamped(builder, joined(builder, low, high), -32768, 32767, result)
        order = [
            half * kind.count + group // 2 + i
            for group in range(0, result.count, GROUP) for half in (0, 1) for i in range(4)
        ]  # fmt: skip
        return builder.shuffle_vector(both, both, ir.Constant(ir.VectorType(INT32, result.count), order))

    def bytes(self, first: Any, second: Any) -> Any:
        """Two vectors as signed bytes, saturated: each group of eight of the first, then that of the second."""
        builder, count = self.builder, first.type.count
        result = ir.VectorType(INT8, 2 * count)
        if self.extensions:
            return self._call(("packsswb", "packsswb.128"), result, first, second)
        both = clamped(builder, joined(builder, first, second), -128, 127, result)
        order = [half * count + group + i for group in range(0, count, GROUP) for half in (0, 1) for i in range(8)]
        return builder.shuffle_vector(both, both, ir.Constant(ir.VectorType(INT32, 2 * count), order))


def _cosines(words: Words, rows: list[Any], shift: int) -> list[Any]:
    """The inverse cosine transform of columns, by the factorisation of Loeffler, Ligtenberg and Moschytz with constants of
    13 bits, the results rounded by `shift` bits: the accurate integer method of libjpeg.

    Sums are of 16 bits where libjpeg-turbo's vector code has them of 16 bits, and results saturate as there, so that
    blocks that no encoder makes come out alike, too.
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
    """Rows and columns exchanged in each group of eight.

    Interleaving rows i and i + 4 turns the six bits of an element's place by one; three times make columns of rows.
    """
    for _ in range(3):
        rows = [part for i in range(4) for part in interleaved(builder, rows[i], rows[i + 4])]
    return rows


@intrinsic
def inverse_cosines(_typing, blocks, at, factors, factors_a, factors_b, planes, target_a, target_b, stride_a, stride_b):
    """Two blocks of coefficients, from blocks[at] on, times their quantisation factors, to 8 x 8 samples each; the
    coefficients become zero."""
    i64 = types.int64
    signature = types.void(blocks, i64, factors, i64, i64, planes, i64, i64, i64, i64)

    def generate(context, builder, signature, arguments):
        blocks = builder.gep(data(context, builder, signature, arguments, 0), [arguments[1]])
        factors = data(context, builder, signature, arguments, 2)
        planes = data(context, builder, signature, arguments, 5)
        half, words = ir.VectorType(INT16, SIDE), Words(context, builder)

        def rows_of(first: Any, second: Any) -> list[Any]:
            return [
                joined(builder, *(load(builder, builder.gep(p, [INT64(SIDE * i)]), half, 2) for p in (first, second)))
                for i in range(SIDE)
            ]

        stored = rows_of(blocks, builder.gep(blocks, [INT64(SIDE * SIDE)]))
        scale = rows_of(*(builder.gep(factors, [one]) for one in arguments[3:5]))
        for i in range(2 * SIDE):
            store(builder, number(0, half), builder.gep(blocks, [INT64(SIDE * i)]), 2)
        rows = [builder.mul(a, b) for a, b in zip(stored, scale, strict=True)]
        # A block without anything below its first row is not saturated by libjpeg-turbo, but wraps.
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
        eight = ir.VectorType(ir.DoubleType(), 4)  # of 64 bits: the upper half of a register can be stored as it is
        for i in range(0, SIDE, 2):
            both = words.bytes(rows[i], rows[i + 1])
            both = builder.bitcast(builder.xor(both, number(-128, both.type)), eight)
            for place, (target, stride, row) in enumerate(
                (arguments[6 + k], arguments[8 + k], i + r) for k in (0, 1) for r in (0, 1)
            ):
                pointer = builder.gep(planes, [builder.add(target, builder.mul(stride, INT64(row)))])
                store(builder, builder.extract_element(both, INT32(place)), pointer, 1)
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def fill_square(_typing, value, plane, plane_at, stride):
    """8 x 8 samples of one value."""
    i64 = types.int64
    signature = types.void(types.uint8, plane, i64, i64)

    def generate(context, builder, signature, arguments):
        plane = builder.gep(data(context, builder, signature, arguments, 1), [arguments[2]])
        row = splat(builder, arguments[0], BYTES)
        for i in range(SIDE):
            store(builder, row, builder.gep(plane, [builder.mul(arguments[3], INT64(i))]), 1)
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def blend_rows(_typing, plane, near, far, near_weight, far_weight, count, sums, sums_at):
    """sums[sums_at:][:count] = near_weight * plane[near:] + far_weight * plane[far:], in 16 bits."""
    i64 = types.int64
    signature = types.void(plane, i64, i64, types.int16, types.int16, i64, sums, i64)

    def generate(context, builder, signature, arguments):
        _, near, far, near_weight, far_weight, count, _, sums_at = arguments
        plane = data(context, builder, signature, arguments, 0)
        near, far = builder.gep(plane, [near]), builder.gep(plane, [far])
        sums = builder.gep(data(context, builder, signature, arguments, 6), [sums_at])

        def body(first: Any, lanes: int) -> None:
            words, total = many(INT16, lanes), None
            for row, weight in ((near, near_weight), (far, far_weight)):
                value = builder.zext(load(builder, builder.gep(row, [first]), many(INT8, lanes), 1), words)
                factor = splat(builder, weight, words) if lanes > 1 else weight
                product = builder.mul(value, factor)
                total = product if total is None else builder.add(total, product)
            store(builder, total, builder.gep(sums, [first]), 2)

        over(builder, count, body)
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def quarter_sums(_typing, sums, sums_at, bias, count, out, out_at):
    """out[:count] = (sums + bias) >> 2."""
    i64 = types.int64
    signature = types.void(sums, i64, types.int16, i64, out, i64)

    def generate(context, builder, signature, arguments):
        _, sums_at, bias, count, _, out_at = arguments
        sums = builder.gep(data(context, builder, signature, arguments, 0), [sums_at])
        out = builder.gep(data(context, builder, signature, arguments, 4), [out_at])

        def body(first: Any, lanes: int) -> None:
            words = many(INT16, lanes)
            total = load(builder, builder.gep(sums, [first]), words, 2)
            total = builder.add(total, splat(builder, bias, words) if lanes > 1 else bias)
            narrow = builder.trunc(builder.lshr(total, number(2, words)), many(INT8, lanes))
            store(builder, narrow, builder.gep(out, [first]), 1)

        over(builder, count, body)
        return context.get_dummy_value()

    return signature, generate


class Mixer:
    """Luma and chroma of 16 bits to the three colours, by the factors of JFIF in 16 bits behind the point.

    Whole parts are taken out of the factors, so that all numbers but green's have 16 bits. The colour that comes first is
    made of `first`, the last one of `last`: red and blue, or `backwards`.
    """

    def __init__(self, context: Any, builder: Any, backwards: Any) -> None:
        def either(forward: int, backward: int) -> Any:
            return builder.select(backwards, INT16(backward), INT16(forward))

        self.builder, self.words = builder, Words(context, builder)
        # times, share: the colour is luma + times * chroma + share * chroma / 65536.
        self.first = either(1, 2), either(26345, -14942)
        self.last = either(2, 1), either(-14942, 26345)
        self.green = either(18734, -22554), either(-22554, 18734)
        self.minus = either(-1, 0), either(0, -1)

    def __call__(self, luma: Any, first: Any, last: Any) -> list[Any]:
        builder, kind = self.builder, luma.type
        ends = [self._end(luma, chroma, *how) for chroma, how in ((first, self.first), (last, self.last))]
        if isinstance(kind, ir.VectorType):
            middle = self.words.rounded(self.words.products(first, last, self.green)[0], 16)
        else:
            terms = [
                builder.mul(builder.sext(one, INT32), builder.sext(factor, INT32))
                for one, factor in zip((first, last), self.green, strict=True)
            ]
            middle = builder.add(builder.add(*terms), INT32(1 << 15))
            middle = builder.trunc(builder.ashr(middle, INT32(16)), kind)
        for one, mask in zip((first, last), self.minus, strict=True):
            middle = builder.sub(middle, builder.and_(one, self._many(mask, kind)))
        return [ends[0], builder.add(luma, middle), ends[1]]

    def _many(self, value: Any, kind: Any) -> Any:
        return self.words.spread(value, kind) if isinstance(kind, ir.VectorType) else value

    def _end(self, luma: Any, chroma: Any, times: Any, share: Any) -> Any:
        builder, kind = self.builder, luma.type
        wide = many(INT32, kind.count) if isinstance(kind, ir.VectorType) else INT32
        # Twice the share rounded down, then half of it rounded up.
        twice = builder.sext(builder.add(chroma, chroma), wide)
        share = builder.mul(twice, builder.sext(self._many(share, kind), wide))
        share = builder.trunc(builder.ashr(share, number(16, wide)), kind)
        share = builder.ashr(builder.add(share, number(1, kind)), number(1, kind))
        return builder.add(builder.add(luma, builder.mul(chroma, self._many(times, kind))), share)


def bounded(builder: Any, value: Any) -> Any:
    """Kept from 0 to 255."""
    for limit, order in ((number(0, value.type), "<"), (number(255, value.type), ">")):
        value = builder.select(builder.icmp_signed(order, value, limit), limit, value)
    return value


def split(builder: Any, pointer: Any, lanes: int) -> tuple[Any, Any]:
    """Bytes from memory as two vectors of 16 bits: those at even and those at odd places."""
    words = ir.VectorType(INT16, lanes // 2)
    values = load(builder, pointer, words, 1)
    return builder.and_(values, number(255, words)), builder.lshr(values, number(8, words))


def store_pixels(context: Any, builder: Any, even: list[Any], odd: list[Any], pointer: Any) -> None:
    """Stores interleaved pixels of three channels, given as 16-bit numbers of the pixels at even and odd places."""
    lanes = 2 * even[0].type.count
    narrow, words = ir.VectorType(INT8, lanes), even[0].type
    channels = [
        builder.bitcast(builder.or_(bounded(builder, a), builder.shl(bounded(builder, b), number(8, words))), narrow)
        for a, b in zip(even, odd, strict=True)
    ]
    if "avx2" not in extensions(context):
        pair = ir.Constant(ir.VectorType(INT32, 2 * lanes), list(range(2 * lanes)))
        two = builder.shuffle_vector(channels[0], channels[1], pair)
        three = builder.shuffle_vector(channels[2], channels[2], pair)
        order = [[i, lanes + i, 2 * lanes + i][c] for i in range(lanes) for c in range(3)]
        mixed = builder.shuffle_vector(two, three, ir.Constant(ir.VectorType(INT32, 3 * lanes), order))
        store(builder, mixed, pointer, 1)
        return
    # Byte p of the j-th 16 bytes of 16 pixels belongs to channel (16 j + p) % 3. Each channel goes to its places of all three
    # at once; then bytes are chosen.
    function = ir.FunctionType(narrow, [narrow, narrow])
    shuffle = cgutils.get_or_insert_function(builder.module, function, "llvm.x86.avx2.pshuf.b")
    places = [[(16 * ((c - p) % 3) + p - c) // 3 for p in range(16)] for c in range(3)]
    moved = [
        builder.call(shuffle, [channel, ir.Constant(narrow, place * (lanes // 16))])
        for channel, place in zip(channels, places, strict=True)
    ]
    chosen = []
    for j in range(3):
        masks = [
            ir.Constant(
                ir.VectorType(ir.IntType(1), lanes), [int((16 * j + p) % 3 == c) for p in range(16)] * (lanes // 16)
            )
            for c in (0, 1)
        ]
        chosen.append(builder.select(masks[0], moved[0], builder.select(masks[1], moved[1], moved[2])))
    for group in range(lanes // 16):
        for j, one in enumerate(chosen):
            place = builder.gep(pointer, [INT64(48 * group + 16 * j)])
            store(builder, part(builder, one, 16 * group, 16), place, 1)


def store_pixel(builder: Any, colors: list[Any], pointer: Any) -> None:
    for c, color in enumerate(colors):
        builder.store(builder.trunc(bounded(builder, color), INT8), builder.gep(pointer, [INT64(c)]))


@intrinsic
def color_row(_typing, luma, luma_at, blue, blue_at, red, red_at, backwards, count, out, out_at):
    """Rows of luma and chroma samples to interleaved pixels: red, green, blue, or backwards."""
    i64 = types.int64
    signature = types.void(luma, i64, blue, i64, red, i64, types.boolean, i64, out, i64)

    def generate(context, builder, signature, arguments):
        luma, blue, red = (
            builder.gep(data(context, builder, signature, arguments, i), [arguments[i + 1]]) for i in (0, 2, 4)
        )
        out = builder.gep(data(context, builder, signature, arguments, 8), [arguments[9]])
        backwards = builder.icmp_unsigned("!=", arguments[6], arguments[6].type(0))
        mix = Mixer(context, builder, backwards)
        rows = [luma, builder.select(backwards, blue, red), builder.select(backwards, red, blue)]

        def body(first: Any, lanes: int) -> None:
            place = builder.gep(out, [builder.mul(first, INT64(3))])
            pointers = [builder.gep(row, [first]) for row in rows]
            if lanes == 1:
                samples = [builder.zext(builder.load(pointer), INT16) for pointer in pointers]
                centred = [builder.sub(one, INT16(128)) for one in samples[1:]]
                store_pixel(builder, mix(samples[0], *centred), place)
                return
            halves = zip(*(split(builder, pointer, lanes) for pointer in pointers), strict=True)
            even, odd = [
                mix(samples[0], *(builder.sub(one, number(128, one.type)) for one in samples[1:])) for samples in halves
            ]
            store_pixels(context, builder, even, odd, place)

        over(builder, arguments[7], body, width=2 * LANES)
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def color_doubled_row(_typing, luma, luma_at, sums, blue_at, red_at, even, odd, backwards, count, out, out_at):
    """A row of luma samples and two of chroma sums to 2 * count interleaved pixels: red, green, blue, or backwards.

    Each sum stands for two samples, a quarter of the way to its left and to its right neighbour:
    (3 s[i] + s[i - 1] + even) >> 4 and (3 s[i] + s[i + 1] + odd) >> 4.
    """
    i64, i16 = types.int64, types.int16
    signature = types.void(luma, i64, sums, i64, i64, i16, i16, types.boolean, i64, out, i64)

    def generate(context, builder, signature, arguments):
        luma = builder.gep(data(context, builder, signature, arguments, 0), [arguments[1]])
        sums = data(context, builder, signature, arguments, 2)
        blue, red = (builder.gep(sums, [at]) for at in arguments[3:5])
        biases = arguments[5:7]
        backwards = builder.icmp_unsigned("!=", arguments[7], arguments[7].type(0))
        out = builder.gep(data(context, builder, signature, arguments, 9), [arguments[10]])
        mix = Mixer(context, builder, backwards)
        rows = [builder.select(backwards, blue, red), builder.select(backwards, red, blue)]

        def body(first: Any, lanes: int) -> None:
            words = many(INT16, lanes)
            chroma = []
            for row in rows:
                left, middle, right = (
                    load(builder, builder.gep(row, [builder.add(first, INT64(step))]), words, 2) for step in (-1, 0, 1)
                )
                middle = builder.mul(middle, number(3, words))
                pair = []
                for neighbour, bias in zip((left, right), biases, strict=True):
                    bias = splat(builder, bias, words) if lanes > 1 else bias
                    total = builder.add(builder.add(middle, neighbour), bias)
                    pair.append(builder.sub(builder.lshr(total, number(4, words)), number(128, words)))
                chroma.append(pair)
            pixel = builder.shl(first, INT64(1))
            place = builder.gep(out, [builder.mul(pixel, INT64(3))])
            if lanes == 1:
                for i in (0, 1):
                    at = builder.gep(luma, [builder.add(pixel, INT64(i))])
                    colors = mix(builder.zext(builder.load(at), INT16), chroma[0][i], chroma[1][i])
                    store_pixel(builder, colors, builder.gep(place, [INT64(3 * i)]))
                return
            lumas = split(builder, builder.gep(luma, [pixel]), 2 * lanes)
            even, odd = [mix(lumas[i], chroma[0][i], chroma[1][i]) for i in (0, 1)]
            store_pixels(context, builder, even, odd, place)

        over(builder, arguments[8], body)
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def copy_row(_typing, source, source_at, count, out, out_at):
    """out[out_at:][:count] = source[source_at:]."""
    i64 = types.int64
    signature = types.void(source, i64, i64, out, i64)

    def generate(context, builder, signature, arguments):
        _, source_at, count, _, out_at = arguments
        source = builder.gep(data(context, builder, signature, arguments, 0), [source_at])
        out = builder.gep(data(context, builder, signature, arguments, 3), [out_at])
        cgutils.raw_memcpy(builder, out, source, count, 1)
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def repeat_gray(_typing, luma, luma_at, count, out, out_at):
    """A row of samples to interleaved pixels of three equal channels."""
    i64 = types.int64
    signature = types.void(luma, i64, i64, out, i64)

    def generate(context, builder, signature, arguments):
        _, luma_at, count, _, out_at = arguments
        luma = builder.gep(data(context, builder, signature, arguments, 0), [luma_at])
        out = builder.gep(data(context, builder, signature, arguments, 3), [out_at])

        def body(first: Any, lanes: int) -> None:
            narrow = many(INT8, lanes)
            values = load(builder, builder.gep(luma, [first]), narrow, 1)
            place = builder.gep(out, [builder.mul(first, INT64(3))])
            if lanes == 1:
                for c in range(3):
                    builder.store(values, builder.gep(place, [INT64(c)]))
                return
            order = ir.Constant(ir.VectorType(INT32, 3 * lanes), [i for i in range(lanes) for _ in range(3)])
            store(builder, builder.shuffle_vector(values, ir.Constant(narrow, ir.Undefined), order), place, 1)

        over(builder, count, body)
        return context.get_dummy_value()

    return signature, generate


def widened(builder: Any, pointer: Any, kind: Any) -> Any:
    """Bytes from memory as 16-bit numbers."""
    narrow = ir.VectorType(INT8, kind.count) if isinstance(kind, ir.VectorType) else INT8
    return builder.zext(load(builder, pointer, narrow, 1), kind)


@intrinsic
def split_colors(_typing, source, source_at, count, luma, luma_at, blue, blue_at, red, red_at):
    """Interleaved pixels of red, green and blue to a row of luma and two of chroma samples."""
    i64 = types.int64
    signature = types.void(source, i64, i64, luma, i64, blue, i64, red, i64)

    def generate(context, builder, signature, arguments):
        source = builder.gep(data(context, builder, signature, arguments, 0), [arguments[1]])
        rows = [builder.gep(data(context, builder, signature, arguments, i), [arguments[i + 1]]) for i in (3, 5, 7)]
        words = Words(context, builder)
        # Factors of red, green and blue in 16 bits behind the point, and what is added to a chroma sample.
        factors = [(19595, 38470, 7471), (-11059, -21709, 32768), (32768, -27439, -5329)]
        offsets = [1 << 15, (128 << 16) + 32767, (128 << 16) + 32767]

        def single(first: Any, pixel: Any) -> None:
            colors = [builder.zext(builder.load(builder.gep(pixel, [INT64(c)])), INT32) for c in range(3)]
            for row, own, offset in zip(rows, factors, offsets, strict=True):
                total = INT32(offset)
                for color, factor in zip(colors, own, strict=True):
                    total = builder.add(total, builder.mul(color, INT32(factor)))
                builder.store(builder.trunc(builder.lshr(total, INT32(16)), INT8), builder.gep(row, [first]))

        def body(first: Any, lanes: int) -> None:
            pixel = builder.gep(source, [builder.mul(first, INT64(3))])
            if lanes == 1:
                single(first, pixel)
                return
            loaded, index = load(builder, pixel, ir.VectorType(INT8, 3 * lanes), 1), ir.VectorType(INT32, lanes)
            red, green, blue = (
                builder.zext(
                    builder.shuffle_vector(loaded, loaded, ir.Constant(index, [3 * i + c for i in range(lanes)])),
                    ir.VectorType(INT16, lanes),
                )
                for c in range(3)
            )
            # Factors of 16 bits: green's of luma is taken in two parts, and a half is a shift.
            pairs = [
                (words.products(red, green, (19595, 22086))[0], words.products(blue, green, (7471, 16384))[0]),
                (words.products(red, green, (-11059, -21709))[0], words.shifted(blue, 15)),
                (words.shifted(red, 15), words.products(blue, green, (-5329, -27439))[0]),
            ]
            for row, pair, offset in zip(rows, pairs, offsets, strict=True):
                low, high = (builder.add(one, number(offset, one.type)) for one in words.add(*pair))
                low, high = (builder.lshr(one, number(16, one.type)) for one in (low, high))
                samples = builder.trunc(words.packed(low, high), ir.VectorType(INT8, lanes))
                store(builder, samples, builder.gep(row, [first]), 1)

        over(builder, arguments[2], body)
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def halve_rows(_typing, plane, near, far, count, out, out_at):
    """Means of squares of four samples of two rows, halves rounded down and up in turn: libjpeg's way to halve chroma."""
    i64 = types.int64
    signature = types.void(plane, i64, i64, i64, out, i64)

    def generate(context, builder, signature, arguments):
        _, near, far, count, _, out_at = arguments
        plane = data(context, builder, signature, arguments, 0)
        near, far = builder.gep(plane, [near]), builder.gep(plane, [far])
        out = builder.gep(data(context, builder, signature, arguments, 4), [out_at])

        def body(first: Any, lanes: int) -> None:
            twice = builder.shl(first, INT64(1))
            if lanes == 1:
                total = builder.add(INT16(1), builder.trunc(builder.and_(first, INT64(1)), INT16))
                for row in (near, far):
                    for i in (0, 1):
                        sample = builder.load(builder.gep(row, [builder.add(twice, INT64(i))]))
                        total = builder.add(total, builder.zext(sample, INT16))
                total = builder.lshr(total, INT16(2))
                builder.store(builder.trunc(total, INT8), builder.gep(out, [first]))
                return
            words = ir.VectorType(INT16, lanes)
            # A vector begins at an even place, also the last one: there are whole blocks.
            total = ir.Constant(words, [1, 2] * (lanes // 2))
            for row in (near, far):
                for half in split(builder, builder.gep(row, [twice]), 2 * lanes):
                    total = builder.add(total, half)
            total = builder.lshr(total, number(2, words))
            store(builder, builder.trunc(total, ir.VectorType(INT8, lanes)), builder.gep(out, [first]), 1)

        over(builder, count, body)
        return context.get_dummy_value()

    return signature, generate


def _forward(words: Words, v: list[Any], first: bool) -> list[Any]:
    """The cosine transform of eight values a lane, the factorisation of `_cosines` run backwards: the accurate integer
    method of libjpeg. The first pass keeps two bits more, which the second one rounds away."""
    builder = words.builder
    add, sub, kind = builder.add, builder.sub, v[0].type
    sums = [add(v[i], v[7 - i]) for i in range(4)]
    gaps = [sub(v[i], v[7 - i]) for i in range(4)]  # 7, 6, 5, 4 of libjpeg's names
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


@intrinsic
def forward_cosines(_typing, planes, source_a, source_b, stride, divisors, divisors_at, blocks, at):
    """Two squares of 8 x 8 samples to blocks of quantised coefficients.

    `divisors` holds for each coefficient, in this order: half of the divisor, its reciprocal, and a power of two, so that
    (|x| + half) * reciprocal * power / 2 ** 32 rounds as division does.
    """
    i64 = types.int64
    signature = types.void(planes, i64, i64, i64, divisors, i64, blocks, i64)

    def generate(context, builder, signature, arguments):
        planes = data(context, builder, signature, arguments, 0)
        divisors = builder.gep(data(context, builder, signature, arguments, 4), [arguments[5]])
        blocks = builder.gep(data(context, builder, signature, arguments, 6), [arguments[7]])
        half, words = ir.VectorType(INT16, SIDE), Words(context, builder)
        wide = ir.VectorType(INT32, PAIR)
        rows = []
        for i in range(SIDE):
            shift = builder.mul(arguments[3], INT64(i))
            two = [widened(builder, builder.gep(planes, [builder.add(at, shift)]), half) for at in arguments[1:3]]
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
        return context.get_dummy_value()

    return signature, generate
