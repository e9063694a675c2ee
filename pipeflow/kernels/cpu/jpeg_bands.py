"""Decodes the scans of progressive JPEG files.

A scan has a band of coefficients of one component, or the means of several components, and either their upper bits or one more
bit. `masks` has a bit for each coefficient of each block that is not zero: a scan with more bits reads it instead of the
coefficients. So blocks outside of a window need a mask only; their coefficients are written to the first block of
`coefficients`, which nothing reads.

The window of 64 bits and the memory after the data are as in `jpeg_entropy`. With any data, only the own memory is read and
written: places of coefficients are compared with the last place of the band, blocks are those of `stores`, whose sizes are
compared with those of the arrays before the first scan, and a block takes at most `LONGEST_BLOCK` bytes.
"""

import numpy as np

from pipeflow.kernels.cpu.jit import kernel
from pipeflow.kernels.cpu.jpeg_entropy import (
    BITS,
    DC_BITS,
    DC_SHIFT,
    DC_SIZE,
    EIGHTH,
    EMPTY_BLOCKS,
    FULL,
    LAST,
    LONG,
    ONE,
    OVERSHOOT,
    PLACE,
    PREDICTED,
    SIX,
    SIX_BITS,
    WIDE,
    WINDOW,
    U,
    long_code,
    signed,
)
from pipeflow.kernels.cpu.jpeg_headers import (
    AC_CODE,
    ACROSS,
    CODE,
    CODES,
    COMPONENT,
    COMPONENTS,
    DAMAGED,
    DC_CODE,
    DONE,
    DOWN,
    FIRST_PLACE,
    IN_SCAN,
    LAST_PLACE,
    MISSING,
    MISSING_BEFORE,
    MOST_MISSING,
    RECORD,
    SCAN_COMPONENTS,
    ZIGZAG,
)
from pipeflow.kernels.cpu.simd.bits import load_big_endian, trailing_zeros

# A record of `stores` for each component: the columns of its blocks, the place of its first mask, the place of its first block
# in `coefficients`, the columns of a row there, and the blocks that a window needs (ends exclusive).
COLUMNS, MASKS, BLOCKS, KEPT_COLUMNS, LEFT, RIGHT, TOP, BOTTOM = range(8)
STORE = 8
# After the records: the number of coefficients that may not be zero, and the elements that the file needs of both arrays.
USED, NEEDED_MASKS, NEEDED_COEFFICIENTS = 3 * STORE, 3 * STORE + 1, 3 * STORE + 2
STORES = 3 * STORE + 3
SPARE = 64  # coefficients of the first block

# An entry of the look-up for symbols: the bits of code and value together (5; 0: the general step), zeros before it (4), size of
# the value (4), length of the code (4; 0: longer than the look-up), and, above bit 21, the value.
SYMBOL_BITS = 11
SYMBOLS, SYMBOL_SHIFT = 1 << SYMBOL_BITS, U(64 - SYMBOL_BITS)
ZEROS, SIZE, LENGTH, VALUE = 5, 9, 13, 21
FOUR, FIVE = U(15), U(31)
# Bits that are left in the window after a correction: enough for the next index.
RESERVE = U(20)
assert RESERVE > SYMBOL_BITS
assert SYMBOL_BITS - 1 + MOST_MISSING <= 15  # values of the look-up stay below 16 bits
FARTHEST = 1 << 30  # libjpeg-turbo refuses means that do not fit into 32 bits
MOST_BITS = 14  # of larger values, with the bits that are missing

# The tables of a scan, by name: (elements, type).
TABLES = {
    "codes": (CODES * CODE, np.uint8),
    "means": (4 * DC_SIZE, np.uint16),
    "symbols": (SYMBOLS, np.int32),
    "longs": (CODES * LONG, np.int64),
}


@kernel(fastmath=False)
def build_symbols(codes, table, lookup):
    """Makes the look-up of a code for AC coefficients."""
    code_at = table * CODE
    place, symbol = 0, code_at + 16
    for length in range(1, SYMBOL_BITS + 1):
        for _ in range(codes[code_at + length - 1]):
            zeros, size = np.int64(codes[symbol] >> 4), np.int64(codes[symbol] & 15)
            symbol += 1
            room = SYMBOL_BITS - length
            fixed = zeros << ZEROS | size << SIZE | length << LENGTH
            if size == 0 or size > room:
                for _ in range(1 << room):
                    lookup[place] = fixed
                    place += 1
                continue
            for bits in range(1 << size):
                value = bits if bits >> (size - 1) else bits - (1 << size) + 1
                for _ in range(1 << (room - size)):
                    lookup[place] = value << VALUE | fixed | length + size
                    place += 1
    while place < SYMBOLS:
        lookup[place] = 0
        place += 1


@kernel(fastmath=False, inline="always")
def kept_row(frame, stores, c, row):
    """(the place of a row of blocks in `coefficients`, its first kept column, the end of the kept columns)."""
    at = STORE * c
    if not stores[at + TOP] <= row < stores[at + BOTTOM]:
        return 0, 0, 0
    place = stores[at + BLOCKS] + 64 * (row - stores[at + TOP]) * stores[at + KEPT_COLUMNS]
    return place, stores[at + LEFT], stores[at + RIGHT]


@kernel(fastmath=False)
def decode_means(stream, length, state, frame, stores, coefficients, row, first, last, lookup, codes, longs):
    """Decodes the means of the units [first, last) of a row, or their next bits; returns DONE or DAMAGED."""
    window, bits, place = state[WINDOW], state[BITS], np.int64(state[PLACE])
    limit = length + OVERSHOOT
    window |= load_big_endian(stream, place) >> bits  # the stream may begin here
    place += np.int64((LAST - bits) >> EIGHTH)
    bits |= FULL
    together, more_bits, missing = frame[SCAN_COMPONENTS] > 1, frame[MISSING_BEFORE] > 0, frame[MISSING]
    for unit in range(first, last):
        for c in range(frame[COMPONENTS]):
            record = COMPONENT + RECORD * c
            if not frame[record + IN_SCAN]:
                continue
            dc = frame[record + DC_CODE]
            across, down = (frame[record + ACROSS], frame[record + DOWN]) if together else (1, 1)
            for line in range(down):
                kept, left, right = kept_row(frame, stores, c, row * down + line)
                for column in range(unit * across, (unit + 1) * across):
                    if place > limit:
                        return DAMAGED
                    target = kept + 64 * (column - left) if left <= column < right else 0
                    index = window >> DC_SHIFT
                    window |= load_big_endian(stream, place) >> bits
                    place += np.int64((LAST - bits) >> EIGHTH)
                    bits |= FULL
                    if more_bits:
                        coefficients[U(target)] |= np.int16(np.int64(window >> LAST) << missing)
                        window <<= ONE
                        bits -= ONE
                        continue
                    entry = U(lookup[U(dc * DC_SIZE) + index])
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
                    predicted = np.int64(state[PREDICTED + c]) + value
                    if abs(predicted) > FARTHEST:
                        return DAMAGED
                    state[PREDICTED + c] = U(predicted)
                    coefficients[U(target)] = np.int16(predicted << missing)
    state[WINDOW], state[BITS], state[PLACE] = window, bits, U(place)
    return DONE


@kernel(fastmath=False)
def decode_band(stream, length, state, frame, stores, masks, coefficients, c, row, first, last, symbols, codes, longs):
    """Decodes the upper bits of a band of coefficients of the blocks [first, last) of a row; returns DONE or DAMAGED."""
    window, bits, place = state[WINDOW], state[BITS], np.int64(state[PLACE])
    empty = np.int64(state[EMPTY_BLOCKS])
    limit = length + OVERSHOOT
    window |= load_big_endian(stream, place) >> bits
    place += np.int64((LAST - bits) >> EIGHTH)
    bits |= FULL
    kept, left, right = kept_row(frame, stores, c, row)
    masks_at = stores[STORE * c + MASKS] + row * stores[STORE * c + COLUMNS]
    begin, end, missing = U(frame[FIRST_PLACE]), U(frame[LAST_PLACE]), frame[MISSING]
    ac = frame[COMPONENT + RECORD * c + AC_CODE]
    column = first
    while column < last:
        if empty > 0:
            passed = min(empty, last - column)
            empty -= passed
            column += passed
            continue
        if place > limit:
            return DAMAGED
        target = U(kept + 64 * (column - left) if left <= column < right else 0)
        mask, k = U(0), begin
        while k <= end:
            entry = U(symbols[window >> SYMBOL_SHIFT])
            window |= load_big_endian(stream, place) >> bits
            place += np.int64((LAST - bits) >> EIGHTH)
            bits |= FULL
            used, zeros = entry & FIVE, entry >> U(ZEROS) & FOUR
            if used != U(0):
                k += zeros
                if k > end:
                    return DAMAGED
                coefficients[target + ZIGZAG[k]] = np.int16(np.int64(np.int32(entry) >> VALUE) << missing)
                mask |= ONE << k
                k += ONE
                window <<= used
                bits -= used
                continue
            used, size = entry >> U(LENGTH) & FOUR, entry >> U(SIZE) & FOUR
            if used == U(0):
                used, symbol = long_code(window, SYMBOL_BITS + 1, codes, longs, ac)
                if used == U(0):
                    return DAMAGED
                zeros, size = symbol >> U(4), symbol & FOUR
            window <<= used
            bits -= used
            if size == U(0):
                if zeros != FOUR:
                    empty = (1 << np.int64(zeros)) + np.int64((window >> ONE) >> (LAST - zeros)) - 1
                    window <<= zeros
                    bits -= zeros
                    break
                k += U(16)
                if k > end:
                    return DAMAGED
                continue
            k += zeros
            if k > end or np.int64(size) + missing > MOST_BITS:
                return DAMAGED
            coefficients[target + ZIGZAG[k]] = np.int16(signed(window >> (WIDE - size), size) << missing)
            window <<= size
            bits -= size
            mask |= ONE << k
            k += ONE
        masks[U(masks_at + column)] |= mask
        column += 1
    state[WINDOW], state[BITS], state[PLACE], state[EMPTY_BLOCKS] = window, bits, U(place), U(empty)
    return DONE


@kernel(fastmath=False, inline="always")
def correct(stream, window, bits, place, places, target, coefficients, missing):
    """Adds the next bit to each coefficient of `places`; returns the window, its bits, and the place."""
    while places != U(0):
        if bits < RESERVE:
            window |= load_big_endian(stream, place) >> bits
            place += np.int64((LAST - bits) >> EIGHTH)
            bits |= FULL
        at = target + ZIGZAG[trailing_zeros(places)]
        places &= places - ONE
        value = np.int64(coefficients[at])
        sign = value >> 63
        coefficients[at] = np.int16(value + ((np.int64(window >> LAST) << missing ^ sign) - sign))
        window <<= ONE
        bits -= ONE
    return window, bits, place


@kernel(fastmath=False)
def decode_more_bits(
    stream, length, state, frame, stores, masks, coefficients, c, row, first, last, symbols, codes, longs
):
    """Decodes the next bit of a band of coefficients of the blocks [first, last) of a row; returns DONE or DAMAGED.

    The symbols describe coefficients that have been zero so far; "zeros before" counts only those. The bits of the others are
    between the symbols.
    """
    window, bits, place = state[WINDOW], state[BITS], np.int64(state[PLACE])
    empty = np.int64(state[EMPTY_BLOCKS])
    limit = length + OVERSHOOT
    window |= load_big_endian(stream, place) >> bits
    place += np.int64((LAST - bits) >> EIGHTH)
    bits |= FULL
    kept, left, right = kept_row(frame, stores, c, row)
    masks_at = stores[STORE * c + MASKS] + row * stores[STORE * c + COLUMNS]
    begin, end, missing = U(frame[FIRST_PLACE]), U(frame[LAST_PLACE]), frame[MISSING]
    ac = frame[COMPONENT + RECORD * c + AC_CODE]
    band = (ONE << end << ONE) - (ONE << begin)
    for column in range(first, last):
        if place > limit:
            return DAMAGED
        target = U(kept + 64 * (column - left) if left <= column < right else 0)
        mask = masks[U(masks_at + column)]
        known, free = mask & band, ~mask & band
        while empty == 0:
            entry = U(symbols[window >> SYMBOL_SHIFT])
            window |= load_big_endian(stream, place) >> bits
            place += np.int64((LAST - bits) >> EIGHTH)
            bits |= FULL
            used, zeros, size = entry >> U(LENGTH) & FOUR, entry >> U(ZEROS) & FOUR, entry >> U(SIZE) & FOUR
            if used == U(0):
                used, symbol = long_code(window, SYMBOL_BITS + 1, codes, longs, ac)
                if used == U(0):
                    return DAMAGED
                zeros, size = symbol >> U(4), symbol & FOUR
            window <<= used
            bits -= used
            value = 0
            if size == ONE:
                value = 2 * np.int64(window >> LAST) - 1
                window <<= ONE
                bits -= ONE
            elif size != U(0):
                return DAMAGED
            elif zeros != FOUR:
                empty = (1 << np.int64(zeros)) + np.int64((window >> ONE) >> (LAST - zeros))
                window <<= zeros
                bits -= zeros
                break
            for _ in range(zeros):
                free &= free - ONE
            if free == U(0):
                return DAMAGED
            k = U(trailing_zeros(free))
            before = known & ((ONE << k) - ONE)
            known ^= before
            window, bits, place = correct(stream, window, bits, place, before, target, coefficients, missing)
            free &= free - ONE
            if value != 0:
                coefficients[target + ZIGZAG[k]] = np.int16(value << missing)
                mask |= ONE << k
            if k == end:
                break
        if empty > 0:
            window, bits, place = correct(stream, window, bits, place, known, target, coefficients, missing)
            empty -= 1
        masks[U(masks_at + column)] = mask
    state[WINDOW], state[BITS], state[PLACE], state[EMPTY_BLOCKS] = window, bits, U(place), U(empty)
    return DONE
