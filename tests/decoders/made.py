"""Image files written byte by byte, in the bit depths and colour models that few libraries write.

What a file holds is known from the arrays it was made of, so that no decoder has to be believed.
"""

import io
import struct
import zlib

import numpy as np
from decoders.pictures import chunk
from PIL import Image


def packed(values, bits, order=">"):
    """Rows of whole numbers of 1 to 64 bits as the bytes that hold them, each row filled up to a byte."""
    rows = values.reshape(values.shape[0], -1)
    if bits % 8 == 0 and bits != 24:
        return rows.astype(f"{order}u{bits // 8}").tobytes()
    shifts = np.arange(bits - 1, -1, -1, dtype=np.uint64)
    planes = (rows[:, :, None].astype(np.uint64) >> shifts & np.uint64(1)).astype(np.uint8)
    return np.packbits(planes.reshape(len(rows), -1), axis=1).tobytes()


# ----------------------------------------------------------------------------------------------------
# TIFF


def packbits(data):
    """PackBits: runs and literal stretches of at most 128 bytes."""
    out, at = b"", 0
    while at < len(data):
        run = 1
        while run < 128 and at + run < len(data) and data[at + run] == data[at]:
            run += 1
        if run > 2:
            out += bytes([257 - run, data[at]])
        else:
            run = min(3, len(data) - at)
            out += bytes([run - 1]) + data[at : at + run]
        at += run
    return out


def lzw(data):
    """TIFF's LZW: codes of 9 to 12 bits, highest bit first, one longer as soon as the table is about to need it."""
    bits, used, out = 0, 0, bytearray()
    table, width, word = {}, 9, b""

    def put(code):
        nonlocal bits, used
        bits, used = bits << width | code, used + width
        while used >= 8:
            used -= 8
            out.append(bits >> used & 255)
        bits &= (1 << used) - 1

    def reset():
        nonlocal table, width
        put(256)
        table, width = {bytes([i]): i for i in range(256)}, 9

    reset()
    for byte in data:
        longer = word + bytes([byte])
        if longer in table:
            word = longer
            continue
        put(table[word])
        table[longer] = len(table) + 2
        if len(table) + 2 >= 4094:
            reset()
        elif len(table) + 2 == 1 << width:
            width += 1
        word = bytes([byte])
    if word:
        put(table[word])
    put(257)
    if used:
        out.append(bits << (8 - used) & 255)
    return bytes(out)


COMPRESS = {1: bytes, 5: lzw, 8: zlib.compress, 32946: zlib.compress, 32773: packbits}


def tiff(
    image, bits=8, *, kind=1, photometric=None, planar=1, compression=1, predictor=1, tile=None, rows_per_strip=None,
    order="<", extra=(), palette=None, orientation=None, big=False, tags=(),
):  # fmt: skip
    """A TIFF file of an array of height x width x samples; `kind` is the sample format (1 unsigned, 2 signed, 3 float)."""
    height, width, samples = image.shape
    if kind == 3:
        image = image.astype(f"f{bits // 8}").view(f"u{bits // 8}")
    elif kind == 2:
        image = image.astype(f"i{bits // 8}").view(f"u{bits // 8}")
    if photometric is None:
        photometric = 2 if samples - len(extra) == 3 else 1
    planes = [image] if planar == 1 else [image[..., i : i + 1] for i in range(samples)]
    step_y, step_x = tile or (rows_per_strip or height, width)
    blocks = []
    for plane in planes:
        for top in range(0, height, step_y):
            for left in range(0, width, step_x):
                block = plane[top : top + step_y, left : left + step_x]
                if tile:
                    block = np.pad(block, [(0, step_y - block.shape[0]), (0, step_x - block.shape[1]), (0, 0)], "edge")
                blocks.append(COMPRESS[compression](_predicted(block, bits, predictor, order)))
    entries = {
        256: (4, [width]), 257: (4, [height]), 258: (3, [bits] * samples), 259: (3, [compression]), 262: (3, [photometric]),
        277: (3, [samples]), 284: (3, [planar]), 339: (3, [kind] * samples),
    }  # fmt: skip
    if predictor != 1:
        entries[317] = (3, [predictor])
    if extra:
        entries[338] = (3, list(extra))
    if palette is not None:
        entries[320] = (3, palette.T.ravel().tolist())
    if orientation is not None:
        entries[274] = (3, [orientation])
    offsets, counts = (324, 325) if tile else (273, 279)
    if tile:
        entries |= {322: (4, [step_x]), 323: (4, [step_y])}
    else:
        entries[278] = (4, [step_y])
    start = 16 if big else 8
    places = []
    for block in blocks:
        places.append(start)
        start += len(block) + len(block) % 2
    wide = 16 if big else 4
    entries[offsets], entries[counts] = (wide, places), (wide, [len(block) for block in blocks])
    entries |= dict(tags)
    body = b"".join(block + b"\0" * (len(block) % 2) for block in blocks)
    return _directory(entries, body, order, big)


def _directory(entries, body, order, big):
    codes, sizes = {1: "B", 2: "c", 3: "H", 4: "I", 12: "d", 16: "Q"}, {1: 1, 2: 1, 3: 2, 4: 4, 12: 8, 16: 8}
    first = 16 if big else 8
    place = first + len(body)
    inline = 8 if big else 4
    after = place + ((8 + 20 * len(entries) + 8) if big else (2 + 12 * len(entries) + 4))
    listing, values = b"", b""
    for tag in sorted(entries):
        kind, numbers = entries[tag]
        data = struct.pack(f"{order}{len(numbers)}{codes[kind]}", *numbers)
        listing += struct.pack(order + ("HHQ" if big else "HHI"), tag, kind, len(numbers))
        if sizes[kind] * len(numbers) <= inline:
            listing += data.ljust(inline, b"\0")
        else:
            listing += struct.pack(order + ("Q" if big else "I"), after + len(values))
            values += data + b"\0" * (len(data) % 2)
    mark = b"II" if order == "<" else b"MM"
    if big:
        head = mark + struct.pack(f"{order}HHHQ", 43, 8, 0, place)
        return head + body + struct.pack(f"{order}Q", len(entries)) + listing + bytes(8) + values
    head = mark + struct.pack(f"{order}HI", 42, place)
    return head + body + struct.pack(f"{order}H", len(entries)) + listing + bytes(4) + values


def _predicted(block, bits, predictor, order):
    """The bytes of a block after horizontal differencing (2) or byte-wise differencing of floats (3)."""
    if predictor == 2:
        unsigned = block.astype(f"u{bits // 8}")
        block = np.concatenate([unsigned[:, :1], unsigned[:, 1:] - unsigned[:, :-1]], axis=1)
    if predictor == 3:
        height, width, samples = block.shape
        rows = np.frombuffer(packed(block, bits, ">"), np.uint8).reshape(height, width * samples, bits // 8)
        planes = rows.swapaxes(1, 2).reshape(height, -1)
        changed = planes.copy()
        changed[:, samples:] -= planes[:, :-samples]
        return changed.tobytes()
    return packed(block, bits, order)


# ----------------------------------------------------------------------------------------------------
# BMP


def bmp(values, bits, *, masks=None, palette=None, top_down=False, header=40, compression=None):
    """A BMP file of stored numbers (height x width); with `masks`, of 16 or 32 bits with a mask for each colour."""
    height, width = values.shape
    if bits <= 8 or bits == 16:
        rows = packed(values, bits, "<")
    elif bits == 24:
        rows = values.astype("<u4").view(np.uint8).reshape(height, width, 4)[..., :3].tobytes()
    else:
        rows = values.astype("<u4").tobytes()
    stride = len(rows) // height
    padding = -stride % 4
    rows = [rows[i * stride : (i + 1) * stride] + bytes(padding) for i in range(height)]
    body = b"".join(rows if top_down else rows[::-1])
    if compression is None:
        compression = 0 if masks is None else 3 if len(masks) == 3 or header > 52 else 6
    information = struct.pack(
        "<IiiHHIIiiII",
        header,
        width,
        -height if top_down else height,
        1,
        bits,
        compression,
        len(body),
        2835,
        2835,
        0,
        0,
    )
    behind = b"" if masks is None else struct.pack(f"<{len(masks)}I", *masks)
    if header > 40:
        information += behind.ljust(header - 40, b"\0")
        behind = b""
    if palette is not None:
        behind += b"".join(bytes([b, g, r, 0]) for r, g, b in palette)
    start = 14 + len(information) + len(behind)
    return b"BM" + struct.pack("<IHHI", start + len(body), 0, 0, start) + information + behind + body


# ----------------------------------------------------------------------------------------------------
# PNM and PNG


def pnm(values, kind, largest=255):
    """A PNM file (P1 to P6) of height x width (x 3) numbers."""
    height, width = values.shape[:2]
    head = f"P{kind} # a comment\n{width} {height}\n".encode() + (b"" if kind in (1, 4) else b"%d\n" % largest)
    if kind <= 3:
        return head + b"\n".join(b" ".join(b"%d" % n for n in row.ravel()) for row in values) + b"\n"
    if kind == 4:
        return head + packed(values, 1)
    return head + values.astype(">u2" if largest > 255 else "u1").tobytes()


_ADAM7 = [(0, 0, 8, 8), (0, 4, 8, 8), (4, 0, 8, 4), (0, 2, 4, 4), (2, 0, 4, 2), (0, 1, 2, 2), (1, 0, 2, 1)]


def png(values, bits, color, *, interlaced=False, palette=None, transparent=None, before=b"", filters=None):
    """A PNG file of stored numbers (height x width x samples); `filters` gives the filter of each row, else none."""
    height, width, samples = values.shape
    passes = _ADAM7 if interlaced else [(0, 0, 1, 1)]
    stream = b""
    for y, x, dy, dx in passes:
        part = values[y::dy, x::dx]
        if part.size == 0:
            continue
        rows = np.frombuffer(packed(part, bits), np.uint8).reshape(part.shape[0], -1)
        step = max(1, samples * bits // 8)
        above = np.zeros(rows.shape[1], np.uint8)
        for number, row in enumerate(rows):
            kind = 0 if filters is None else filters[number % len(filters)]
            stream += bytes([kind]) + _filtered(row, above, kind, step).tobytes()
            above = row
    data = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, bits, color, 0, 0, int(interlaced))) + before
    if palette is not None:
        data += chunk(b"PLTE", palette.astype(np.uint8).tobytes())
    if transparent is not None:
        data += chunk(b"tRNS", transparent)
    return b"\x89PNG\r\n\x1a\n" + data + chunk(b"IDAT", zlib.compress(stream)) + chunk(b"IEND", b"")


def _filtered(row, above, kind, step):
    left = np.concatenate([np.zeros(step, np.uint8), row[:-step]])[: len(row)].astype(int)
    corner = np.concatenate([np.zeros(step, np.uint8), above[:-step]])[: len(row)].astype(int)
    up = above.astype(int)
    if kind == 4:
        guess = left + up - corner
        distances = np.stack([abs(guess - left), abs(guess - up), abs(guess - corner)])
        predicted = np.choose(distances.argmin(0), [left, up, corner])
    else:
        predicted = [0 * up, left, up, (left + up) // 2][kind]
    return (row - predicted).astype(np.uint8)


# ----------------------------------------------------------------------------------------------------
# JPEG 2000


def jp2_of_depth(values, bits):
    """A JPEG 2000 code stream of `bits` bits (9 to 15), gray: one of 16 bits whose stated depth is changed.

    An encoder takes half of the range away before it transforms, and a decoder adds it: that of the new depth.
    """
    moved = (values.astype(np.int64) - (1 << bits - 1) + (1 << 15)).astype(np.uint16)
    file = io.BytesIO()
    Image.fromarray(moved).save(file, "JPEG2000", no_jp2=True, irreversible=False)
    data = bytearray(file.getvalue())
    place = data.index(b"\xff\x51") + 4 + 36
    assert data[place] == 15
    data[place] = bits - 1
    return bytes(data)
