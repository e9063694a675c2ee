"""Decodes Huffman-coded JPEG data to blocks of samples.

The coded bytes are first copied without their stuffing, with zeros after them, so that the inner loop reads 64 bits at any place
without a test. The next bits of the stream are the highest bits of `window`; at least `bits` of them are right. A look-up with
the highest bits returns up to two coefficients at once, or one and the end of the block; all other codes are decoded by the
general step, one at a time.

Each look-up waits for the one before it, so the time is mostly that of this chain: shift, load, shift. The window is filled up
while the table is read, and not before: a look-up consumes at most 26 bits, a difference and its code 31, and the window has at
least 56 after it is filled up, so the bits of the next index are always there.

With any data, it reads and writes only its own memory, for these reasons. The index of a look-up has only the bits of the
table's size. The place of a coefficient is read from `ZIGZAG`, which is longer than any sum of the numbers in its index. A block
takes at most `LONGEST_BLOCK` bytes, and begins at most `OVERSHOOT` bytes after the end of the data, where there are `PADDING`
zeros. Samples are written only to blocks inside the bounds of the planes.
"""

import numpy as np

from pipeflow.kernels.cpu.jit import kernel
from pipeflow.kernels.cpu.jpeg_headers import CODE, CODES, DAMAGED, DONE, ZIGZAG
from pipeflow.kernels.cpu.simd.bits import load_big_endian
from pipeflow.kernels.cpu.simd.jpeg_cosines import fill_square, inverse_cosines
from pipeflow.kernels.cpu.simd.moves import move_plain_bytes

U = np.uint64

# A code of 16 bits and a coefficient of 15 bits, 64 times.
LONGEST_BLOCK = 248
OVERSHOOT = 8
PADDING = 512  # more than these two and a load of eight bytes together
assert PADDING >= LONGEST_BLOCK + OVERSHOOT + 8

# Bits of a look-up.
DC_BITS, AC_BITS = 10, 11
DC_SHIFT, AC_SHIFT = U(64 - DC_BITS), U(64 - AC_BITS)
DC_SIZE, AC_SIZE = 1 << DC_BITS, 1 << AC_BITS

# An entry of the look-up for AC coefficients describes one or two of them. The value of the last one is in the window: its bits
# may be after the bits of the look-up. The fields, from the lowest bit: number of all used bits (6), 63 less the bits of the last
# value (6, both as many as a shift reads), number of coefficients passed (7), place of the first one of two from here (4) and
# its value (9, with sign). At the end of a block, ENDED is added to the number of coefficients, and the last value has no bits.
# For codes that need the general step, the number of coefficients is ALONE, with which no block continues.
ALONE, ENDED = 63, 64
ONE, FOUR, SIX, SEVEN, SIX_BITS = U(1), U(15), U(63), U(127), U(6)
TAIL, PASSED, PLACE1, VALUE1 = (U(x) for x in (6, 12, 19, 23))
VALUE1_BITS = 9
MOST_USED = 22  # bits of an entry: a window of 56 bits is enough for two of them and the next look-up
LAST, FULL, EIGHTH, TOP16, WIDE, THREE = U(63), U(56), U(3), U(48), U(64), U(7)
MOST = U(62)  # coefficients passed without the general step
ENDS = U(ENDED) << PASSED
LARGEST = U((1 << 63) - 1)

# Places in `state`, which is kept from run to run.
WINDOW, BITS, PLACE, EMPTY_BLOCKS, PREDICTED = 0, 1, 2, 3, 4
STATE = 8

# A record of `blocks` for each block of a minimum coded unit.
COMPONENT_OF, STEP, OFFSET, FIRST, LAST_COLUMN, TARGET, STRIDE, FACTORS_AT, DC_AT, AC_AT = range(10)
FIELDS = 10

# Units that are decoded before their blocks are transformed, and the room in `queue` for their blocks and a spare pair.
UNITS = 8
QUEUE = 64 * (6 * UNITS + 2)
AIMS = 3 * (6 * UNITS + 2)

# For codes longer than a look-up: bounds of the lengths, and where the symbols of a length begin.
LONG = 2 * 18


@kernel(fastmath=False)
def unstuffed(data, place, stream):
    """Copies coded bytes from `place` to the next marker without their stuffing, and zeros after them.

    Returns (number of bytes, place of the marker); the number is negative if the data end without a marker. `stream` has room
    for the rest of the data and PADDING bytes.
    """
    size, count = data.size, 0
    while True:
        copied = move_plain_bytes(data, place, size, stream, count)
        count += copied
        place += copied
        if place >= size:
            return -1, place
        value = data[place]
        place += 1
        if value == 0xFF:
            after = place
            while after < size and data[after] == 0xFF:
                after += 1
            if after >= size or (data[after] == 0 and after > place):
                return -1, place
            if data[after] != 0:
                for i in range(PADDING):
                    stream[count + i] = 0
                return count, place - 1
            place += 1
        stream[count] = value
        count += 1


@kernel(fastmath=False)
def unstuffed_after_restart(data, place, stream, length, state, number):
    """`unstuffed` after a restart marker with this number; the `length` bytes before it must have been decoded completely."""
    if not 0 <= left_over(state, length) < 8 or state[EMPTY_BLOCKS] != U(0):
        return -1, place
    while data[place] == 0xFF:  # `unstuffed` has found the marker after these bytes
        place += 1
    if data[place] != 0xD0 + (number & 7):
        return -1, place
    state[:] = U(0)
    return unstuffed(data, place + 1, stream)


@kernel(fastmath=False)
def build_code(codes, table, longs):
    """Checks a Huffman code and prepares its long codes; False if it is not valid."""
    at, symbol, code = table * CODE, 0, 0
    for length in range(1, 17):
        count = np.int64(codes[at + length - 1])
        longs[table * LONG + 18 + length] = symbol - code
        symbol += count
        code += count
        if code >= 1 << length:  # a code may not consist of ones only
            return False
        longs[table * LONG + length] = code << (16 - length)
        code <<= 1
    if table < 4:
        for i in range(symbol):
            if codes[at + 16 + i] > 15:
                return False
    return True


@kernel(fastmath=False)
def build_dc(codes, table, lookup):
    """Makes the look-up of a code for DC differences: its size above six bits with the length of code and difference together;
    0 for a longer code.
    """
    code_at, at = table * CODE, table * DC_SIZE
    lookup[at : at + DC_SIZE] = 0
    symbol, place = code_at + 16, at
    for length in range(1, DC_BITS + 1):
        for _ in range(codes[code_at + length - 1]):
            size = np.int64(codes[symbol] & 15)
            entry = np.uint16(size << 6 | length + size)
            for _ in range(1 << (DC_BITS - length)):
                lookup[place] = entry
                place += 1
            symbol += 1


@kernel(fastmath=False)
def build_ac(codes, table, single, lookup):
    """Makes the look-up of a code for AC coefficients; `single` is scratch memory for the codes: their length, the bits of their
    value, and the zeros before it.
    """
    code_at, at = table * CODE, (table - 4) * AC_SIZE
    place, symbol = 0, code_at + 16
    for length in range(1, AC_BITS + 1):
        for _ in range(codes[code_at + length - 1]):
            entry = np.uint16(length | np.int64(codes[symbol]) << 4)
            symbol += 1
            for _ in range(1 << (AC_BITS - length)):
                single[place] = entry
                place += 1
    while place < AC_SIZE:
        single[place] = 0
        place += 1
    for i in range(AC_SIZE):
        length, size, zeros = parts_of(single[i])
        used, passed, place, value = length + size, zeros + 1, 0, 0
        if length == 0 or used > MOST_USED:
            passed = ALONE
        elif size == 0 and zeros != 15:
            passed = 1 + ENDED
        elif used < AC_BITS:
            length, after, more = parts_of(single[i << used & (AC_SIZE - 1)])
            if length and used + length <= AC_BITS and used + length + after <= MOST_USED and size < VALUE1_BITS:
                if size:
                    value = i >> (AC_BITS - used) & ((1 << size) - 1)
                    value -= 0 if value >> (size - 1) else (1 << size) - 1
                    place = zeros
                used, size = used + length + after, after
                passed += 1 + ENDED if after == 0 and more != 15 else more + 1
        lookup[at + i] = np.uint32(
            used
            | (63 - size) << TAIL
            | passed << PASSED
            | place << PLACE1
            | (value & ((1 << VALUE1_BITS) - 1)) << VALUE1
        )


@kernel(fastmath=False, inline="always")
def parts_of(entry):
    """(length of a code, bits of its value, zeros before it)."""
    return np.int64(entry & 15), np.int64(entry >> 4 & 15), np.int64(entry >> 8)


@kernel(fastmath=False, inline="always")
def filled(window, bits, place, stream):
    """The window with the bits that follow, and their place."""
    return (
        window | load_big_endian(stream, place) >> (bits & SIX),
        bits | FULL,
        place + np.int64(~bits >> EIGHTH & THREE),
    )


@kernel(fastmath=False, inline="always")
def keep(queue, block, k, after, entry, window):
    """Stores the values that an entry describes."""
    queue[block + ZIGZAG[k + (entry >> PLACE1 & FOUR)]] = np.int16(np.int32(np.uint32(entry)) >> 23)
    tail = entry >> TAIL & SIX
    top = window << (entry + tail + ONE & SIX)
    queue[block + ZIGZAG[after - ONE]] = np.int16((top >> ONE >> tail) - (LARGEST >> tail & ~U(np.int64(top) >> LAST)))


@kernel(fastmath=False)
def decode_run(
    stream, length, state, blocks, count, first, last, dc_lookup, ac_lookup, codes, longs, factors, queue, aims, planes
):
    """Decodes the units [first, last) of a row of units; returns DONE or DAMAGED.

    `blocks` describes the `count` blocks of a unit; blocks outside their columns FIRST to LAST_COLUMN are read but not kept.
    `queue` is zero before and after.
    """
    window, bits, place = state[WINDOW], state[BITS], np.int64(state[PLACE])
    limit = length + OVERSHOOT
    window, bits, place = filled(window, bits, place, stream)  # the stream may begin here
    waiting, block = 0, U(0)
    for unit in range(first, last):
        for b in range(count):
            at = b * FIELDS
            if place > limit:
                return DAMAGED
            component, dc, ac = blocks[at + COMPONENT_OF], blocks[at + DC_AT], blocks[at + AC_AT]
            column = unit * blocks[at + STEP] + blocks[at + OFFSET]
            wanted = blocks[at + FIRST] <= column < blocks[at + LAST_COLUMN]

            entry = U(dc_lookup[U(dc * DC_SIZE) + (window >> DC_SHIFT)])
            window, bits, place = filled(window, bits, place, stream)
            used, size = entry & SIX, entry >> SIX_BITS
            if used == U(0):
                used, symbol = long_code(window, DC_BITS + 1, codes, longs, dc)
                if used == U(0):
                    return DAMAGED
                size = symbol & FOUR
                used += size
            value = signed((window << (used - size) >> ONE) >> (LAST - size), size)
            window <<= used
            bits -= used
            predicted = np.int64(state[PREDICTED + component]) + value
            state[PREDICTED + component] = U(predicted)

            # The window has at least 11 bits before each look-up, which uses at most MOST_USED.
            table, k, found = U((ac - 4) * AC_SIZE), ONE, U(0)
            while found == U(0):
                if wanted:
                    while True:
                        entry = U(ac_lookup[table + (window >> AC_SHIFT)])
                        window, bits, place = filled(window, bits, place, stream)
                        after = k + (entry >> PASSED & SEVEN)
                        if after > MOST:
                            break
                        keep(queue, block, k, after, entry, window)
                        window, bits, k = window << (entry & SIX), bits - entry, after
                        entry = U(ac_lookup[table + (window >> AC_SHIFT)])
                        after = k + (entry >> PASSED & SEVEN)
                        if after > MOST:
                            break
                        keep(queue, block, k, after, entry, window)
                        window, bits, k = window << (entry & SIX), bits - entry, after
                else:
                    while True:
                        entry = U(ac_lookup[table + (window >> AC_SHIFT)])
                        window, bits, place = filled(window, bits, place, stream)
                        after = k + (entry >> PASSED & SEVEN)
                        if after > MOST:
                            break
                        window, bits, k = window << (entry & SIX), bits - entry, after
                        entry = U(ac_lookup[table + (window >> AC_SHIFT)])
                        after = k + (entry >> PASSED & SEVEN)
                        if after > MOST:
                            break
                        window, bits, k = window << (entry & SIX), bits - entry, after
                if entry & ENDS and after <= U(ENDED) + LAST:
                    if wanted:
                        queue[block + ZIGZAG[k + (entry >> PLACE1 & FOUR)]] = np.int16(np.int32(np.uint32(entry)) >> 23)
                    window, bits, found = window << (entry & SIX), bits - entry, after - U(ENDED + 1)
                    break
                # The general step for one code: a long one, or one near the end of the block.
                window, bits, place = filled(window, bits, place, stream)
                used, symbol = long_code(window, 1 if entry & SIX else AC_BITS + 1, codes, longs, ac)
                if used == U(0):
                    return DAMAGED
                zeros, size = symbol >> U(4), symbol & FOUR
                window, bits = window << used, bits - used
                if size == U(0):
                    if zeros != FOUR:
                        found = k
                        break
                    k += U(16)
                    if k > LAST:
                        return DAMAGED
                else:
                    k += zeros
                    if k > LAST:
                        return DAMAGED
                    if wanted:
                        queue[block + ZIGZAG[k]] = np.int16(signed(window >> (WIDE - size), size))
                    window, bits, k = window << size, bits - size, k + ONE
                    if k > LAST:
                        found = k
            if wanted:
                stride, scale = blocks[at + STRIDE], blocks[at + FACTORS_AT]
                target = blocks[at + TARGET] + 8 * (column - blocks[at + FIRST])
                if found == ONE:
                    # 16 bits, as in libjpeg-turbo.
                    mean = np.int64(np.int16(np.int16(predicted * np.int64(factors[scale])) << 2))
                    fill_square(np.uint8(min(max((mean + 16 >> 5) + 128, 0), 255)), planes, target, stride)
                else:
                    queue[block] = np.int16(predicted)
                    aims[3 * waiting], aims[3 * waiting + 1], aims[3 * waiting + 2] = target, stride, scale
                    waiting += 1
                    block += U(64)
    state[WINDOW], state[BITS], state[PLACE] = window, bits & SIX, U(place)
    if waiting & 1:
        # The transform takes two blocks: the second one of the last pair may be empty, and goes to the spare block of the planes.
        aims[3 * waiting], aims[3 * waiting + 1], aims[3 * waiting + 2] = planes.size - 64, 8, 0
        waiting += 1
    for i in range(0, waiting, 2):
        a, b = 3 * i, 3 * i + 3
        inverse_cosines(
            queue, 64 * i, factors, aims[a + 2], aims[b + 2], planes, aims[a], aims[b], aims[a + 1], aims[b + 1]
        )
    return DONE


@kernel(fastmath=False, inline="always")
def signed(value, size):
    """The number that `size` bits code: the lower half of their values stands for negative numbers."""
    number, range_ = np.int64(value), np.int64(1) << np.int64(size)
    return number - (range_ - 1 if number < range_ >> 1 else 0)


@kernel(fastmath=False, inline="always")
def long_code(window, length, codes, longs, table):
    """The code in the highest bits of the window, which has at least `length` bits: (its length, symbol); zeros if there is
    none.
    """
    top = np.int64(window >> TOP16)
    while length <= 16 and top >= longs[table * LONG + length]:
        length += 1
    if length > 16:
        return U(0), U(0)
    symbol = ((top >> (16 - length)) + longs[table * LONG + 18 + length]) & 255
    return U(length), U(codes[table * CODE + 16 + symbol])


@kernel(fastmath=False, inline="always")
def left_over(state, length):
    """The number of bits of the stream that have not been decoded; negative if too many have been."""
    return 8 * length - (8 * np.int64(state[PLACE]) - np.int64(state[BITS]))


# The tables that decoding needs, by name: (elements, type).
TABLES = {
    "codes": (CODES * CODE, np.uint8),
    "built": (CODES * CODE, np.uint8),
    "dc_lookup": (4 * DC_SIZE, np.uint16),
    "ac_lookup": (4 * AC_SIZE, np.uint32),
    "single": (AC_SIZE, np.uint16),
    "longs": (CODES * LONG, np.int64),
}
