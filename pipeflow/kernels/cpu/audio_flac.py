"""A FLAC decoder: whole files of 4 to 32 bits, also files whose header does not state their length.

``decode`` returns None for files that it does not know and for any error. The general library then decides about the file,
unless it does not read such files. A frame is accepted only if its checksum is right.

The bytes may come from an attacker: each read is at a bit position that was compared with the end of the data, and after the
data there are zeros for the widest read. A sample is predicted from the samples before it and corrected by a residual. One loop
reads the residuals and predicts the samples: the two do not depend on each other, so the processor runs them at the same time.
"""

import numpy as np
from numpy.typing import NDArray

from pipeflow.kernels.cpu.audio_wav import BrokenAudio, believable, check_size
from pipeflow.kernels.cpu.bit_reading import USABLE, bits_at, zeros_at
from pipeflow.kernels.cpu.jit import kernel
from pipeflow.kernels.cpu.simd.bits import leading_zeros, prediction, put, word_at

# Zero bytes after the data: a few consecutive short reads begin at the last byte at the latest, and each reads 8 bytes.
PADDING = 64
# Zero samples before each block, so that the prediction of the first samples may read earlier ones.
HISTORY = 32
# Differences of channels need one more bit; up to 24 bits they fit into 32 bits, which are fastest.
NARROW = 24
# The number of samples that are decoded at a time if the header has no number of samples, or an unlikely one.
PIECE = 1 << 18


_predict4, _predict8, _predict12, _predict32 = (prediction(order) for order in (4, 8, 12, 32))


@kernel
def _signed(data, position, count):
    value = bits_at(data, position, count)
    return value - (value >> (count - 1) << count) if count else 0


# Inlined by Numba, because LLVM does not inline a function with so many array arguments, and its call takes as long as
# its work.
@kernel(inline="always")
def _predicted(samples, place, coefficients, order, shift):
    if order <= 4:
        return _predict4(samples, place, coefficients) >> shift
    if order <= 8:
        return _predict8(samples, place, coefficients) >> shift
    if order <= 12:
        return _predict12(samples, place, coefficients) >> shift
    return _predict32(samples, place, coefficients) >> shift


@kernel
def _rice(data, position, end, samples, place, last, coefficients, order, shift, parameter):
    """Decodes samples [place, last) whose residuals are Rice codes; returns the position after them, or -1."""
    down = np.uint64(63 - parameter)
    one = np.uint64(1)
    while place < last:
        if position > end:
            return -1
        word = word_at(data, position)
        quotient = leading_zeros(word)
        used = quotient + 1 + parameter
        if used > USABLE:
            quotient = zeros_at(data, position, end)
            if quotient < 0 or quotient > 1 << 30:
                return -1
            position += quotient + 1
            if position > end:
                return -1
            value = np.int64((np.uint64(word_at(data, position)) >> one) >> down) | (quotient << parameter)
            position += parameter
            residual = (value >> 1) ^ -(value & 1)
            put(samples, place, residual + _predicted(samples, place, coefficients, order, shift))
            place += 1
            continue
        value = np.int64(((word << np.uint64(quotient + 1)) >> one) >> down) | (quotient << parameter)
        residual = (value >> 1) ^ -(value & 1)
        put(samples, place, residual + _predicted(samples, place, coefficients, order, shift))
        place += 1
        # Most codes are short enough for a second one in the same word, which halves the waiting for memory.
        word = word << np.uint64(used)
        quotient = leading_zeros(word)
        more = quotient + 1 + parameter
        if used + more <= USABLE and place < last:
            value = np.int64(((word << np.uint64(quotient + 1)) >> one) >> down) | (quotient << parameter)
            residual = (value >> 1) ^ -(value & 1)
            put(samples, place, residual + _predicted(samples, place, coefficients, order, shift))
            place += 1
            used += more
        position += used
    return position


@kernel
def _residual(data, position, end, samples, size, coefficients, order, shift):
    """Decodes the samples of a block after the first ``order`` ones; returns the position after them, or -1."""
    method, partition_order = bits_at(data, position, 2), bits_at(data, position + 2, 4)
    position += 6
    if method > 1 or size & ((1 << partition_order) - 1) or (size >> partition_order) < order:
        return -1
    width = 4 + method
    place = HISTORY + order
    for partition in range(1 << partition_order):
        if position > end:
            return -1
        last = HISTORY + (partition + 1) * (size >> partition_order)
        parameter = bits_at(data, position, width)
        position += width
        if parameter < (1 << width) - 1:
            position = _rice(data, position, end, samples, place, last, coefficients, order, shift, parameter)
            if position < 0:
                return -1
            place = last
            continue
        raw = bits_at(data, position, 5)
        position += 5
        while place < last:
            if position > end:
                return -1
            residual = _signed(data, position, raw)
            position += raw
            put(samples, place, residual + _predicted(samples, place, coefficients, order, shift))
            place += 1
    return position


@kernel
def _subframe(data, position, end, samples, size, bits, coefficients):
    """Decodes one channel of a frame into samples[HISTORY:]; returns the position after it, or -1."""
    head = bits_at(data, position, 8)
    position += 8
    if head & 0x80:
        return -1
    wasted = 0
    if head & 1:
        wasted = zeros_at(data, position, end) + 1
        if wasted < 1 or wasted >= bits:
            return -1
        position += wasted
        bits -= wasted
    kind = (head >> 1) & 0x3F
    coefficients[:] = 0
    if kind == 0:
        value = _signed(data, position, bits)
        position += bits
        samples[HISTORY : HISTORY + size] = value
    elif kind == 1:
        if position + size * bits > end:
            return -1
        for i in range(size):
            samples[HISTORY + i] = _signed(data, position + i * bits, bits)
        position += size * bits
    else:
        order = kind - 8 if kind < 32 else kind - 31
        if kind < 8 or 12 < kind < 32 or order > size:
            return -1
        if position + order * bits > end:
            return -1
        for i in range(order):
            samples[HISTORY + i] = _signed(data, position, bits)
            position += bits
        shift = 0
        if kind < 32:
            # The fixed predictors continue a polynomial: the alternating binomial coefficients.
            factor = 1
            for j in range(order):
                factor = factor * (order - j) // (j + 1)
                coefficients[j] = factor if j % 2 == 0 else -factor
        else:
            precision = bits_at(data, position, 4) + 1
            shift = _signed(data, position + 4, 5)
            position += 9
            if precision == 16 or shift < 0 or position + order * precision > end:
                return -1
            for j in range(order):
                coefficients[j] = _signed(data, position, precision)
                position += precision
        position = _residual(data, position, end, samples, size, coefficients, order, shift)
        if position < 0:
            return -1
    if wasted:
        for i in range(HISTORY, HISTORY + size):
            samples[i] <<= wasted
    return position if position <= end else -1


def _checksum_tables() -> NDArray[np.int64]:
    """Tables of the checksum x**16 + x**15 + x**2 + 1 for a byte with 0 to 7 zero bytes after it."""
    tables = np.zeros((8, 256), np.int64)
    for byte in range(256):
        value = byte << 8
        for _ in range(8):
            value = (value << 1) ^ (0x8005 if value & 0x8000 else 0)
        tables[0, byte] = value & 0xFFFF
    for behind in range(1, 8):
        before = tables[behind - 1]
        tables[behind] = (before << 8 & 0xFF00) ^ tables[0, before >> 8]
    return tables.reshape(-1)


CHECKSUMS = _checksum_tables()


@kernel
def _checksum(data, begin, end, tables):
    value = 0
    at = begin
    while at + 8 <= end:
        first = np.int64(data[at]) ^ (value >> 8)
        second = np.int64(data[at + 1]) ^ (value & 0xFF)
        value = (
            tables[7 * 256 + first]
            ^ tables[6 * 256 + second]
            ^ tables[5 * 256 + data[at + 2]]
            ^ tables[4 * 256 + data[at + 3]]
            ^ tables[3 * 256 + data[at + 4]]
            ^ tables[2 * 256 + data[at + 5]]
            ^ tables[256 + data[at + 6]]
            ^ tables[data[at + 7]]
        )
        at += 8
    while at < end:
        value = ((value << 8) & 0xFFFF) ^ tables[(value >> 8) ^ np.int64(data[at])]
        at += 1
    return value


@kernel
def _frame_header(data, position, end, bits, channels):
    """(position after the header, samples in the frame, channel assignment); the position is -1 if it is wrong."""
    wrong = -1, 0, 0
    head = bits_at(data, position, 32)
    # 14 bits of synchronisation, a reserved bit and the blocking strategy.
    if head >> 17 != 0x7FFC:
        return wrong
    size_code, rate_code = (head >> 12) & 15, (head >> 8) & 15
    assignment, bits_code = (head >> 4) & 15, (head >> 1) & 7
    coded_bits = (bits, 8, 12, -1, 16, 20, 24, 32)[bits_code]
    coded_channels = assignment + 1 if assignment < 8 else 2
    if coded_bits != bits or coded_channels != channels or assignment > 10 or head & 1 or rate_code == 15:
        return wrong
    position += 32
    # The number of the frame, coded like a character in UTF-8: the leading ones of the first byte count its bytes.
    first = bits_at(data, position, 8)
    ones = leading_zeros(np.uint64(~first & 0xFF) << np.uint64(56))
    if ones == 1 or ones > 7:
        return wrong
    position += 8 * max(ones, 1)
    if size_code == 0:
        return wrong
    if size_code == 1:
        size = 192
    elif size_code < 6:
        size = 576 << (size_code - 2)
    elif size_code == 6:
        size = bits_at(data, position, 8) + 1
        position += 8
    elif size_code == 7:
        size = bits_at(data, position, 16) + 1
        position += 16
    else:
        size = 256 << (size_code - 8)
    position += 0 if rate_code < 12 else 8 if rate_code == 12 else 16
    return position + 8, size, assignment


@kernel
def decode_frames(data, position, left, channels, bits, blocks, out, up, tables):
    """Decodes frames into ``out`` (interleaved), shifted left by ``up`` bits, as long as they fit into it.

    Returns (position after them, number of samples); the position is -1 if anything is wrong. ``left`` is the number of
    remaining samples, -1 if it is not known.
    """
    end = (data.size - PADDING) * 8
    coefficients = np.zeros(HISTORY, np.int64)
    room, largest = out.size // channels, blocks.shape[1] - HISTORY
    done = 0
    while done != left and (left >= 0 or position < end):
        first_byte = position >> 3
        if position > end:
            return -1, done
        after, size, assignment = _frame_header(data, position, end, bits, channels)
        if after < 0 or after > end or size > largest or (left >= 0 and size > left - done):
            return -1, done
        if size > room - done:
            return position, done
        position = after
        for channel in range(channels):
            side = (assignment in (8, 10) and channel == 1) or (assignment == 9 and channel == 0)
            position = _subframe(data, position, end, blocks[channel], size, bits + side, coefficients)
            if position < 0:
                return -1, done
        last_byte = (position + 7) >> 3
        if (last_byte + 2) * 8 > end:
            return -1, done
        if _checksum(data, first_byte, last_byte, tables) != bits_at(data, last_byte * 8, 16):
            return -1, done
        position = (last_byte + 2) * 8
        _write(blocks, size, assignment, out, done * channels, up)
        done += size
    return position, done


@kernel
def _write(blocks, size, assignment, out, offset, up):
    channels = len(blocks)
    if assignment < 8:
        for channel in range(channels):
            block = blocks[channel]
            for i in range(size):
                out[offset + i * channels + channel] = block[HISTORY + i] << up
        return
    left, right = blocks[0], blocks[1]
    for i in range(size):
        a, b = left[HISTORY + i], right[HISTORY + i]
        if assignment == 8:
            b = a - b
        elif assignment == 9:
            a = a + b
        else:
            # The stored sum has lost its lowest bit, which is equal to that of the difference.
            doubled = (a << 1) | (b & 1)
            a, b = (doubled + b) >> 1, (doubled - b) >> 1
        out[offset + 2 * i] = a << up
        out[offset + 2 * i + 1] = b << up


def decode(data: NDArray[np.uint8], limit: int, width: int = 0) -> tuple[NDArray, int] | None:
    """The stored samples (int16, or int32 with the bits on top), frames by channels, and their rate; or None.

    More than ``limit`` bytes of samples are refused: at once if the header states them, else as soon as they are decoded. If a
    sample is larger in the result than in the file, it counts as ``width`` bytes.
    """
    if data.size < 42 or data[:4].tobytes() != b"fLaC" or data[4] & 0x7F:
        return None
    head = int.from_bytes(data[18:26].tobytes(), "big")
    largest = int.from_bytes(data[10:12].tobytes(), "big")
    rate, channels, bits = head >> 44, (head >> 41 & 7) + 1, (head >> 36 & 31) + 1
    total = head & ((1 << 36) - 1)
    if not rate or bits < 4 or largest < 16:
        return None
    begin = _after_metadata(data)
    if begin is None:
        return None
    dtype = np.dtype(np.int16 if bits == 16 else np.int32)
    width = max(width, dtype.itemsize)
    check_size(total, channels * width, limit)
    samples = _samples(data, begin, total, channels, bits, largest, dtype, limit, width)
    if samples is None and (not total or bits > NARROW):
        raise BrokenAudio("flac: a frame is damaged, or the file is truncated")
    return None if samples is None else (samples.reshape(-1, channels), rate)


def _samples(
    data: NDArray[np.uint8],
    begin: int,
    total: int,
    channels: int,
    bits: int,
    largest: int,
    dtype: np.dtype,
    limit: int,
    width: int,
) -> NDArray | None:
    """All samples, interleaved; None if the data is damaged. A ``total`` of 0 means that it is unknown."""
    if not total and data[-128:-125].tobytes() == b"TAG":
        data = data[:-128]  # an ID3 tag of version 1 after the last frame
    padded = np.concatenate([data, np.zeros(PADDING, np.uint8)])
    blocks = np.zeros((channels, HISTORY + largest), np.int32 if bits <= NARROW else np.int64)
    at_once = total and believable(total * channels * dtype.itemsize, data.size)
    room = total if at_once else max(PIECE // channels, largest)
    up = 0 if bits == 16 else 32 - bits
    pieces, position, done = [], begin * 8, 0
    while True:
        out = np.empty(room * channels, dtype)
        left = total - done if total else -1
        position, count = decode_frames(padded, position, left, channels, bits, blocks, out, up, CHECKSUMS)
        if position < 0:
            return None
        pieces.append(out[: count * channels])
        done += count
        check_size(done, channels * width, limit)
        if done == total or (not total and position >= data.size * 8):
            return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)


def _after_metadata(data: NDArray[np.uint8]) -> int | None:
    at, last = 4, False
    while not last:
        if at + 4 > data.size:
            return None
        last = bool(data[at] & 0x80)
        at += 4 + int.from_bytes(data[at + 1 : at + 4].tobytes(), "big")
    return at
