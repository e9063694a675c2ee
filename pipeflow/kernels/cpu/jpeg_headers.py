"""The segments of a JPEG file before and between its scans, read for the decoder in `jpeg`.

libjpeg-turbo decodes all files that this reader accepts without a warning; all other files, valid or not, are passed to it.
Nothing is read beyond the end of the data, and every number in the file is compared with its bounds before it is used.
"""

import numpy as np

from pipeflow.kernels.cpu.jit import kernel

# The results of a decoding kernel.
DONE = 0
UNKNOWN_FORM = 1  # a kind of JPEG that is not supported here
DAMAGED = 2  # damaged, or so unusual that it may be
NEEDS_WHOLE_PLANES = 3  # several scans: all samples must be kept until the last scan

# Places in `frame`, which has the properties of the file.
HEIGHT, WIDTH, COMPONENTS, RESTART_INTERVAL = 0, 1, 2, 3
FACTORS_KNOWN, CODES_KNOWN = 4, 5  # bit masks of the tables that have been read
ADOBE_TRANSFORM = 6  # -1 if the file has none
PROGRESSIVE = 7  # 1 if each scan may have a part of the coefficients only
PROFILE_PARTS, PROFILE_SEEN = 8, 9
SCAN_COMPONENTS, AT_END = 10, 11
# The coefficients that a scan of a progressive file has: places in the order of `ZIGZAG`, and the number of their lowest bits
# that were missing before (0: no scan had them) and that are missing after it.
FIRST_PLACE, LAST_PLACE, MISSING_BEFORE, MISSING = 12, 13, 14, 15
COMPONENT = 16  # the first of the components' records
RECORD = 16
IDENTITY, ACROSS, DOWN, FACTORS, DC_CODE, AC_CODE, IN_SCAN, DECODED = range(8)
# For each coefficient of a component of a progressive file: 1 and the number of its lowest bits that are missing; 0 before its
# first scan.
SENT = COMPONENT + 3 * RECORD
FRAME = SENT + 3 * 64
LARGEST = 65500  # rows and columns; libjpeg refuses more
MOST_MISSING = 5  # bits; files of libjpeg miss two at most

# A Huffman code as it is stored: the number of codes of each length from 1 to 16, then the symbols.
CODE = 16 + 256
CODES = 8  # four for DC differences, four for AC coefficients

# The place of the i-th coefficient in its block, and a spare place for everything that is stored after the last one.
SPARE = 64
ZIGZAG = np.full(128, SPARE, np.uint8)
ZIGZAG[:64] = sorted(range(64), key=lambda i: (i // 8 + i % 8, (i // 8 if (i // 8 + i % 8) % 2 else i % 8)))

_JFIF = np.frombuffer(b"JFIF\0", np.uint8)
_ADOBE = np.frombuffer(b"Adobe", np.uint8)
_PROFILE = np.frombuffer(b"ICC_PROFILE\0", np.uint8)
_EXIF = np.frombuffer(b"Exif\0\0", np.uint8)
# The beginnings of Exif data by the order of the bytes of a number, and the field of the orientation.
_LOWEST_FIRST, _HIGHEST_FIRST = np.frombuffer(b"II*\0", np.uint8), np.frombuffer(b"MM\0*", np.uint8)
_ORIENTATION = 0x0112
_LOOKED_AT = 4096  # bytes after the size in which there may be a restart interval


@kernel(fastmath=False, inline="always")
def number_at(data, place):
    """Two bytes, the higher one first."""
    return np.int64(data[place]) << 8 | np.int64(data[place + 1])


@kernel(fastmath=False, inline="always")
def starts_with(data, place, end, text):
    if end - place < text.size:
        return False
    for i in range(text.size):  # noqa: SIM110 (Numba compiles loops)
        if data[place + i] != text[i]:
            return False
    return True


@kernel(fastmath=False)
def read_factors(data, place, end, frame, factors):
    """Reads quantisation factors, and stores them in the order of `ZIGZAG`."""
    while place < end:
        precision, table = data[place] >> 4, np.int64(data[place] & 15)
        size = 128 if precision else 64
        if precision > 1 or table > 3 or place + 1 + size > end:
            return DAMAGED
        place += 1
        for i in range(64):
            value = number_at(data, place + 2 * i) if precision else np.int64(data[place + i])
            factors[table * 64 + ZIGZAG[i]] = value
        place += size
        frame[FACTORS_KNOWN] |= 1 << table
    return DONE


@kernel(fastmath=False)
def read_codes(data, place, end, frame, codes):
    """Reads Huffman codes, and keeps them as they are stored."""
    while place < end:
        if place + 17 > end:
            return DAMAGED
        kind, table = data[place] >> 4, np.int64(data[place] & 15)
        if kind > 1 or table > 3:
            return DAMAGED
        table += 4 * np.int64(kind)
        count = 0
        for i in range(16):
            count += np.int64(data[place + 1 + i])
        place += 17
        if count > 256 or place + count > end:
            return DAMAGED
        for i in range(16):
            codes[table * CODE + i] = data[place - 16 + i]
        for i in range(256):
            codes[table * CODE + 16 + i] = data[place + i] if i < count else np.uint8(0)
        place += count
        frame[CODES_KNOWN] |= 1 << table
    return DONE


@kernel(fastmath=False)
def read_frame(data, place, end, frame):
    """Reads the size and the components of the image."""
    if frame[COMPONENTS] or end - place < 6:
        return DAMAGED
    bits, count = data[place], np.int64(data[place + 5])
    if bits != 8 or count not in (1, 3):
        return UNKNOWN_FORM
    frame[HEIGHT], frame[WIDTH] = number_at(data, place + 1), number_at(data, place + 3)
    if end - place != 6 + 3 * count or not 0 < frame[HEIGHT] <= LARGEST or not 0 < frame[WIDTH] <= LARGEST:
        return DAMAGED
    for c in range(count):
        at, record = place + 6 + 3 * c, COMPONENT + RECORD * c
        frame[record + IDENTITY] = data[at]
        frame[record + ACROSS], frame[record + DOWN] = data[at + 1] >> 4, data[at + 1] & 15
        frame[record + FACTORS] = data[at + 2]
        if data[at + 2] > 3:
            return DAMAGED
        for other in range(c):
            if frame[COMPONENT + RECORD * other + IDENTITY] == data[at]:
                return DAMAGED
    frame[COMPONENTS] = count
    return known_sampling(frame)


@kernel(fastmath=False, inline="always")
def known_sampling(frame):
    """True if the components are sampled in one of the supported ways."""
    first = COMPONENT
    across, down = frame[first + ACROSS], frame[first + DOWN]
    if frame[COMPONENTS] == 1:
        # A single component is stored in the same way with all factors.
        if not (1 <= across <= 4 and 1 <= down <= 4):
            return DAMAGED
        frame[first + ACROSS] = frame[first + DOWN] = 1
        return DONE
    for c in range(1, 3):
        record = COMPONENT + RECORD * c
        if frame[record + ACROSS] != 1 or frame[record + DOWN] != 1:
            return UNKNOWN_FORM
    if not ((across <= 2 and down <= 2 and across >= 1 and down >= 1) or (across == 4 and down == 1)):
        return UNKNOWN_FORM
    # libjpeg does not smooth the chroma of images this narrow.
    return UNKNOWN_FORM if across == 2 and frame[WIDTH] <= 4 else DONE


@kernel(fastmath=False)
def read_application(data, marker, place, end, frame):
    """Reads the application segments that determine colours, or for which libjpeg-turbo warns."""
    if marker == 0xE0 and starts_with(data, place, end, _JFIF):
        if end - place < 14 or data[place + 5] != 1:
            return DAMAGED
    elif marker == 0xEE and starts_with(data, place, end, _ADOBE):
        if end - place < 12:
            return DAMAGED
        frame[ADOBE_TRANSFORM] = data[place + 11]
    elif marker == 0xE2 and starts_with(data, place, end, _PROFILE):
        if end - place < 14:
            return DAMAGED
        part, parts = np.int64(data[place + 12]), np.int64(data[place + 13])
        known = frame[PROFILE_PARTS]
        if part != frame[PROFILE_SEEN] + 1 or part > parts or (known and parts != known):
            return DAMAGED
        frame[PROFILE_PARTS], frame[PROFILE_SEEN] = parts, part
    return DONE


@kernel(fastmath=False)
def read_scan(data, place, end, frame):
    """Reads the components of the next scan, and their codes."""
    if not frame[COMPONENTS] or end - place < 1:
        return DAMAGED
    count = np.int64(data[place])
    if not 1 <= count <= frame[COMPONENTS] or end - place != 4 + 2 * count:
        return DAMAGED
    if frame[PROFILE_SEEN] != frame[PROFILE_PARTS]:
        return DAMAGED
    if frame[COMPONENTS] == 3 and not ycc_colors(frame):
        return UNKNOWN_FORM
    at = place + 1 + 2 * count
    frame[FIRST_PLACE], frame[LAST_PLACE] = data[at], data[at + 1]
    frame[MISSING_BEFORE], frame[MISSING] = data[at + 2] >> 4, data[at + 2] & 15
    if not known_part(frame, count):
        return DAMAGED
    frame[SCAN_COMPONENTS] = count
    for c in range(frame[COMPONENTS]):
        frame[COMPONENT + RECORD * c + IN_SCAN] = 0
    c = 0
    for i in range(count):
        at = place + 1 + 2 * i
        while c < frame[COMPONENTS] and frame[COMPONENT + RECORD * c + IDENTITY] != data[at]:
            c += 1
        if c == frame[COMPONENTS]:
            return DAMAGED
        record = COMPONENT + RECORD * c
        dc, ac = np.int64(data[at + 1] >> 4), np.int64(data[at + 1] & 15)
        if dc > 3 or ac > 3 or not frame[FACTORS_KNOWN] >> frame[record + FACTORS] & 1:
            return DAMAGED
        if frame[FIRST_PLACE] == 0 and frame[MISSING_BEFORE] == 0 and not frame[CODES_KNOWN] >> dc & 1:
            return DAMAGED
        if frame[LAST_PLACE] > 0 and not frame[CODES_KNOWN] >> (4 + ac) & 1:
            return DAMAGED
        if frame[record + DECODED] if not frame[PROGRESSIVE] else not send(frame, SENT + 64 * c):
            return DAMAGED
        frame[record + DC_CODE], frame[record + AC_CODE] = dc, 4 + ac
        frame[record + IN_SCAN] = frame[record + DECODED] = 1
        c += 1
    return DONE


@kernel(fastmath=False, inline="always")
def known_part(frame, count):
    """True if a scan of so many components may have this part of the coefficients."""
    first, last, before, after = frame[FIRST_PLACE], frame[LAST_PLACE], frame[MISSING_BEFORE], frame[MISSING]
    if not frame[PROGRESSIVE]:
        return first == 0 and last == 63 and before == 0 and after == 0
    if after > MOST_MISSING or (before != 0 and before != after + 1):
        return False
    return last == 0 if first == 0 else first <= last and last <= 63 and count == 1


@kernel(fastmath=False, inline="always")
def send(frame, sent):
    """Notes that a scan has this part of a component's coefficients; False if it may not follow the earlier scans."""
    if frame[FIRST_PLACE] > 0 and frame[sent] == 0:
        return False
    expected = 1 + frame[MISSING_BEFORE] if frame[MISSING_BEFORE] else 0
    for k in range(frame[FIRST_PLACE], frame[LAST_PLACE] + 1):
        if frame[sent + k] != expected:
            return False
        frame[sent + k] = 1 + frame[MISSING]
    return True


@kernel(fastmath=False, inline="always")
def all_decoded(frame):
    """True if the scans had all coefficients of all components."""
    for c in range(frame[COMPONENTS]):
        if not frame[COMPONENT + RECORD * c + DECODED]:
            return False
        if frame[PROGRESSIVE]:
            for k in range(64):
                if frame[SENT + 64 * c + k] != 1:
                    return False
    return True


@kernel(fastmath=False, inline="always")
def extents_of_scan(frame, component):
    """(columns, rows) of the units of a scan; if it has one of several components, a unit is a block of this component."""
    across, down = frame[COMPONENT + ACROSS], frame[COMPONENT + DOWN]
    if frame[SCAN_COMPONENTS] == 1 and frame[COMPONENTS] > 1 and component == 0:
        across, down = 1, 1
    return -(-frame[WIDTH] // (8 * across)), -(-frame[HEIGHT] // (8 * down))


@kernel(fastmath=False, inline="always")
def ycc_colors(frame):
    """True if the three components are luma and chroma, by the rules of libjpeg."""
    if frame[ADOBE_TRANSFORM] not in (-1, 1):
        return False
    letters = (
        frame[COMPONENT + IDENTITY] == 82
        and frame[COMPONENT + RECORD + IDENTITY] == 71
        and frame[COMPONENT + 2 * RECORD + IDENTITY] == 66
    )
    return not letters


@kernel(fastmath=False, inline="always")
def clear(frame):
    """Makes `frame` ready for a file."""
    frame[:] = 0
    frame[ADOBE_TRANSFORM] = -1


@kernel(fastmath=False)
def read_segments(data, place, frame, factors, codes):
    """Reads the segments from `place` to the next scan; returns (status, place of the scan's data).

    At the end of the image, `frame[AT_END]` is set.
    """
    while True:
        if place + 2 > data.size or data[place] != 0xFF:
            return DAMAGED, place
        place += 1
        while place < data.size and data[place] == 0xFF:
            place += 1
        if place >= data.size:
            return DAMAGED, place
        marker = data[place]
        place += 1
        if marker == 0xD9:
            frame[AT_END] = 1
            return DONE, place
        if place + 2 > data.size:
            return DAMAGED, place
        end = place + number_at(data, place)
        place += 2
        if end < place or end > data.size:
            return DAMAGED, place
        status = DONE
        if marker == 0xDA:
            return read_scan(data, place, end, frame), end
        if marker == 0xDB:
            # A component keeps the factors of its first scan, but the blocks of progressive files are transformed after the last.
            late = frame[PROGRESSIVE] and frame[SCAN_COMPONENTS]
            status = DAMAGED if late else read_factors(data, place, end, frame, factors)
        elif marker == 0xC4:
            status = read_codes(data, place, end, frame, codes)
        elif marker <= 0xC2 and marker >= 0xC0:
            frame[PROGRESSIVE] = 1 if marker == 0xC2 else 0
            status = read_frame(data, place, end, frame)
        elif marker == 0xDD:
            if end - place != 2:
                return DAMAGED, place
            frame[RESTART_INTERVAL] = number_at(data, place)
        elif marker == 0xE0 or marker == 0xE2 or marker == 0xEE:
            status = read_application(data, marker, place, end, frame)
        elif not (0xE0 <= marker <= 0xEF or marker == 0xFE):
            status = UNKNOWN_FORM
        if status != DONE:
            return status, place
        place = end


@kernel(fastmath=False, inline="always")
def number_in(data, place, size, lowest_first):
    """A number of `size` bytes."""
    value = np.int64(0)
    for i in range(size):
        value = value << 8 | np.int64(data[place + (size - 1 - i if lowest_first else i)])
    return value


@kernel(fastmath=False)
def exif_turn(data, place, end):
    """The orientation in Exif data; 1 if there is none or if the data are damaged. The steps are those of
    `image_base.exif_orientation`.
    """
    if starts_with(data, place, end, _LOWEST_FIRST):
        lowest_first = True
    elif starts_with(data, place, end, _HIGHEST_FIRST):
        lowest_first = False
    else:
        return 1
    if end - place < 8:
        return 1
    entry = place + number_in(data, place + 4, 4, lowest_first)
    if entry + 2 > end:
        return 1
    count = number_in(data, entry, 2, lowest_first)
    entry += 2
    for _ in range(count):
        if entry + 2 > end:
            return 1
        if number_in(data, entry, 2, lowest_first) == _ORIENTATION:
            value = number_in(data, entry + 8, 2, lowest_first) if entry + 10 <= end else np.int64(1)
            return value if 1 <= value <= 8 else np.int64(1)
        entry += 12
    return 1


@kernel(fastmath=False)
def read_size(data):
    """Returns (1, height, width, components, to the end, swapped, upside down, sideways) for a sequential file of 8 bits.

    Height and width are those of the stored image. "To the end" is 1 if damage is noticed in the whole file, also if only its
    top is wanted. The last three describe the Exif orientation: first rows and columns are swapped, then rows, then columns are
    taken from their other end. For all other files, valid or not, the result is zeros: `image_headers` reads these files.
    """
    place, nothing, to_end, turn = 2, (0, 0, 0, 0, 0, 0, 0, 0), 0, np.int64(1)
    if data.size < 4 or data[0] != 0xFF or data[1] != 0xD8:
        return nothing
    while True:
        if place + 4 > data.size or data[place] != 0xFF:
            return nothing
        marker, length = data[place + 1], number_at(data, place + 2)
        begin, end = place + 4, place + 2 + length
        if length < 2 or end > data.size:
            return nothing
        if marker == 0xC0 or marker == 0xC1:
            break
        if marker == 0xDD:
            to_end = 1
        elif not (0xE0 <= marker <= 0xEF or marker == 0xDB or marker == 0xC4 or marker == 0xFE):
            return nothing
        if marker == 0xE1 and starts_with(data, begin, end, _EXIF):
            turn = exif_turn(data, begin + _EXIF.size, end)
        place = end
    if end - begin < 6 or data[begin] != 8:
        return nothing
    height, width, components = number_at(data, begin + 1), number_at(data, begin + 3), np.int64(data[begin + 5])
    if not 0 < height <= LARGEST or not 0 < width <= LARGEST or (components != 1 and components != 3):
        return nothing
    for i in range(begin, min(begin - 2 + _LOOKED_AT, data.size) - 1):
        if data[i] == 0xFF and data[i + 1] == 0xDD:
            to_end = 1
    swapped = 1 if turn >= 5 else 0
    upside_down = 1 if turn == 3 or turn == 4 or turn >= 7 else 0
    sideways = 1 if turn == 2 or turn == 3 or turn == 6 or turn == 7 else 0
    return 1, height, width, components, to_end, swapped, upside_down, sideways
