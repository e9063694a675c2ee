"""Converts rows of JPEG samples to pixels and back: colours, and chroma of half the size."""

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
    LANES,
    extensions,
    load,
    many,
    number,
    over,
    part,
    splat,
    store,
    vector_function,
)
from pipeflow.kernels.cpu.simd.words import Words


@vector_function(DATA, INDEX, INDEX, types.int16, types.int16, INDEX, DATA, INDEX)
def blend_rows(builder, plane, near, far, near_weight, far_weight, count, sums, sums_at):
    """sums[sums_at:][:count] = near_weight * plane[near:] + far_weight * plane[far:], in 16 bits."""
    plane = plane.pointer
    near, far = builder.gep(plane, [near]), builder.gep(plane, [far])
    sums = builder.gep(sums.pointer, [sums_at])

    def body(first: Any, lanes: int) -> None:
        words, total = many(INT16, lanes), None
        for row, weight in ((near, near_weight), (far, far_weight)):
            value = builder.zext(load(builder, builder.gep(row, [first]), many(INT8, lanes), 1), words)
            factor = splat(builder, weight, words) if lanes > 1 else weight
            product = builder.mul(value, factor)
            total = product if total is None else builder.add(total, product)
        store(builder, total, builder.gep(sums, [first]), 2)

    over(builder, count, body)


@vector_function(DATA, INDEX, types.int16, INDEX, DATA, INDEX)
def quarter_sums(builder, sums, sums_at, bias, count, out, out_at):
    """out[:count] = (sums + bias) >> 2."""
    sums = builder.gep(sums.pointer, [sums_at])
    out = builder.gep(out.pointer, [out_at])

    def body(first: Any, lanes: int) -> None:
        words = many(INT16, lanes)
        total = load(builder, builder.gep(sums, [first]), words, 2)
        total = builder.add(total, splat(builder, bias, words) if lanes > 1 else bias)
        narrow = builder.trunc(builder.lshr(total, number(2, words)), many(INT8, lanes))
        store(builder, narrow, builder.gep(out, [first]), 1)

    over(builder, count, body)


class Mixer:
    """Converts luma and chroma of 16 bits to the three colours, by the factors of JFIF with 16 bits after the point.

    The whole parts of the factors are separate, so that all numbers except green's have 16 bits. The first colour is made of
    `first`, the last one of `last`: red and blue, or with `backwards` blue and red.
    """

    def __init__(self, builder: Any, backwards: Any) -> None:
        def either(forward: int, backward: int) -> Any:
            return builder.select(backwards, INT16(backward), INT16(forward))

        self.builder, self.words = builder, Words(builder)
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
        # Twice the share rounded down, then half of this rounded up.
        twice = builder.sext(builder.add(chroma, chroma), wide)
        share = builder.mul(twice, builder.sext(self._many(share, kind), wide))
        share = builder.trunc(builder.ashr(share, number(16, wide)), kind)
        share = builder.ashr(builder.add(share, number(1, kind)), number(1, kind))
        return builder.add(builder.add(luma, builder.mul(chroma, self._many(times, kind))), share)


def bounded(builder: Any, value: Any) -> Any:
    """Limits the numbers to 0 to 255."""
    for limit, order in ((number(0, value.type), "<"), (number(255, value.type), ">")):
        value = builder.select(builder.icmp_signed(order, value, limit), limit, value)
    return value


def split(builder: Any, pointer: Any, lanes: int) -> tuple[Any, Any]:
    """Loads bytes from memory as two vectors of 16 bits: those at even and those at odd places."""
    words = ir.VectorType(INT16, lanes // 2)
    values = load(builder, pointer, words, 1)
    return builder.and_(values, number(255, words)), builder.lshr(values, number(8, words))


def store_pixels(builder: Any, even: list[Any], odd: list[Any], pointer: Any) -> None:
    """Stores interleaved pixels of three channels, given as 16-bit numbers of the pixels at even and odd places."""
    lanes = 2 * even[0].type.count
    narrow, words = ir.VectorType(INT8, lanes), even[0].type
    channels = [
        builder.bitcast(builder.or_(bounded(builder, a), builder.shl(bounded(builder, b), number(8, words))), narrow)
        for a, b in zip(even, odd, strict=True)
    ]
    if "avx2" not in extensions():
        pair = ir.Constant(ir.VectorType(INT32, 2 * lanes), list(range(2 * lanes)))
        two = builder.shuffle_vector(channels[0], channels[1], pair)
        three = builder.shuffle_vector(channels[2], channels[2], pair)
        order = [[i, lanes + i, 2 * lanes + i][c] for i in range(lanes) for c in range(3)]
        mixed = builder.shuffle_vector(two, three, ir.Constant(ir.VectorType(INT32, 3 * lanes), order))
        store(builder, mixed, pointer, 1)
        return
    # Byte p of the j-th 16 bytes of 16 pixels belongs to channel (16 j + p) % 3. Each channel is moved to its places in all
    # three parts at once; then the bytes are chosen.
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


@vector_function(DATA, INDEX, DATA, INDEX, DATA, INDEX, types.boolean, INDEX, DATA, INDEX)
def color_row(builder, luma, luma_at, blue, blue_at, red, red_at, backwards, count, out, out_at):
    """Converts rows of luma and chroma samples to interleaved pixels: red, green, blue, or the reverse."""
    luma, blue, red = (
        builder.gep(luma.pointer, [luma_at]),
        builder.gep(blue.pointer, [blue_at]),
        builder.gep(red.pointer, [red_at]),
    )
    out = builder.gep(out.pointer, [out_at])
    backwards = builder.icmp_unsigned("!=", backwards, backwards.type(0))
    mix = Mixer(builder, backwards)
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
        store_pixels(builder, even, odd, place)

    over(builder, count, body, width=2 * LANES)


@vector_function(DATA, INDEX, DATA, INDEX, INDEX, types.int16, types.int16, types.boolean, INDEX, DATA, INDEX)
def color_doubled_row(builder, luma, luma_at, sums, blue_at, red_at, even, odd, backwards, count, out, out_at):
    """Converts a row of luma samples and two of chroma sums to 2 * count interleaved pixels: red, green, blue, or the reverse.

    Each sum gives two samples, a quarter of the way to its left and to its right neighbour:
    (3 s[i] + s[i - 1] + even) >> 4 and (3 s[i] + s[i + 1] + odd) >> 4.
    """
    luma = builder.gep(luma.pointer, [luma_at])
    sums = sums.pointer
    blue, red = (builder.gep(sums, [at]) for at in (blue_at, red_at))
    biases = (even, odd)
    backwards = builder.icmp_unsigned("!=", backwards, backwards.type(0))
    out = builder.gep(out.pointer, [out_at])
    mix = Mixer(builder, backwards)
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
        store_pixels(builder, even, odd, place)

    over(builder, count, body)


@vector_function(DATA, INDEX, INDEX, DATA, INDEX)
def repeat_gray(builder, luma, luma_at, count, out, out_at):
    """Converts a row of samples to interleaved pixels of three equal channels."""
    luma = builder.gep(luma.pointer, [luma_at])
    out = builder.gep(out.pointer, [out_at])

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


@vector_function(DATA, INDEX, INDEX, DATA, INDEX, DATA, INDEX, DATA, INDEX)
def split_colors(builder, source, source_at, count, luma, luma_at, blue, blue_at, red, red_at):
    """Converts interleaved pixels of red, green and blue to a row of luma and two rows of chroma samples."""
    source = builder.gep(source.pointer, [source_at])
    rows = [builder.gep(row.pointer, [at]) for row, at in ((luma, luma_at), (blue, blue_at), (red, red_at))]
    words = Words(builder)
    # Factors of red, green and blue with 16 bits after the point, and the number that is added to a chroma sample.
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
        # Factors have 16 bits: the factor of green in luma has two parts, and a factor of a half is a shift.
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

    over(builder, count, body)


@vector_function(DATA, INDEX, INDEX, INDEX, DATA, INDEX)
def halve_rows(builder, plane, near, far, count, out, out_at):
    """Means of 2 x 2 samples of two rows, halves rounded down and up in turn, as libjpeg halves chroma."""
    plane = plane.pointer
    near, far = builder.gep(plane, [near]), builder.gep(plane, [far])
    out = builder.gep(out.pointer, [out_at])

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
        # Every vector begins at an even place, also the last one, because there are only whole blocks.
        total = ir.Constant(words, [1, 2] * (lanes // 2))
        for row in (near, far):
            for half in split(builder, builder.gep(row, [twice]), 2 * lanes):
                total = builder.add(total, half)
        total = builder.lshr(total, number(2, words))
        store(builder, builder.trunc(total, ir.VectorType(INT8, lanes)), builder.gep(out, [first]), 1)

    over(builder, count, body)
