"""Damage to bytes: blind damage, and damage that a format's parser has to understand before it can refuse it.

A mutator takes the bytes, or the parts they were taken apart into, and a generator. What is taken apart is put together
with lengths and checksums that are right, so that the damage gets behind them.
"""

import gzip
import json
import re
import struct
import zlib

from audio.made_flac import crc8, crc16
from readers.records import field, masked, record

# Numbers at the edges of their types.
EDGES = [0, 1, 2, 3, 7, 8, 15, 16, 31, 32, 127, 128, 255, 256, 32767, 32768, 65535, 65536, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF,
         0x7FFFFFFFFFFFFFFF, 0xFFFFFFFFFFFFFFFF]  # fmt: skip


def pick(rng, choices):
    return choices[int(rng.integers(len(choices)))]


def number(rng, bits=32):
    """A number at an edge, or any."""
    return (pick(rng, EDGES) if rng.random() < 0.7 else int(rng.integers(1 << min(bits, 62)))) & (1 << bits) - 1


# ----------------------------------------------------------------------------------------------------
# Blind


def blind(data, rng, others=()):
    """Some bytes changed, removed, doubled, overwritten, cut, zeroed or taken from another file."""
    data = bytearray(data)
    if not data:
        return bytes(rng.bytes(8))
    reach = len(data) if rng.random() < 0.5 else min(len(data), 96)
    place, length = int(rng.integers(reach)), int(rng.integers(1, 33))
    kind = int(rng.integers(9))
    if kind == 0:
        for _ in range(rng.integers(1, 9)):
            data[int(rng.integers(reach))] ^= 1 << int(rng.integers(8))
    elif kind == 1:
        for _ in range(rng.integers(1, 9)):
            data[int(rng.integers(reach))] = pick(rng, (0, 1, 127, 128, 255))
    elif kind == 2:
        del data[place : place + length]
    elif kind == 3:
        data[place:place] = data[place : place + length] * int(rng.integers(1, 20))
    elif kind == 4:
        data[place : place + length] = rng.bytes(length)
    elif kind == 5:
        del data[place:]
    elif kind == 6:
        data[place:] = bytes(len(data) - place)
    elif kind == 7:
        size, order = pick(rng, (1, 2, 4, 8)), pick(rng, ("little", "big"))
        data[place : place + size] = number(rng, 8 * size).to_bytes(size, order)
    elif others:
        other = pick(rng, others)
        data[place:] = other[int(rng.integers(len(other) + 1)) :]
    return bytes(data)


def shuffled(parts, rng, change):
    """A list of parts with one of them changed, dropped, doubled or moved."""
    parts = list(parts)
    if not parts:
        return parts
    for _ in range(int(rng.integers(1, 4))):
        if not parts:
            break
        place, kind = int(rng.integers(len(parts))), rng.random()
        if kind < 0.7:
            parts[place] = change(parts[place])
        elif kind < 0.8:
            del parts[place]
        elif kind < 0.9:
            parts.insert(int(rng.integers(len(parts) + 1)), parts[place])
        else:
            parts.insert(int(rng.integers(len(parts))), parts.pop(place))
    return parts


def fields(body, rng, layout):
    """Some of the numbers of a fixed layout replaced; the rest of the body stays."""
    size = struct.calcsize(layout)
    if len(body) < size:
        return blind(body, rng)
    values = list(struct.unpack(layout, body[:size]))
    codes = re.findall(r"[BHIQbhiq]", layout)
    for _ in range(int(rng.integers(1, 3))):
        place = int(rng.integers(len(values)))
        code = codes[place]
        value = number(rng, 8 * struct.calcsize("<" + code))
        if code.islower():
            value -= (value >> 8 * struct.calcsize("<" + code) - 1) << 8 * struct.calcsize("<" + code)
        values[place] = value
    return struct.pack(layout, *values) + body[size:]


# ----------------------------------------------------------------------------------------------------
# Images


def png(data, rng):
    chunks, place = [], 8
    while place + 12 <= len(data):
        length = int.from_bytes(data[place : place + 4], "big")
        chunks.append((data[place + 4 : place + 8], data[place + 8 : place + 8 + length]))
        place += 12 + length

    def change(chunk):
        name, body = chunk
        if name == b"IHDR" and rng.random() < 0.8:
            return name, fields(body, rng, ">IIBBBBB") if rng.random() < 0.5 else _small_header(body, rng)
        if name == b"IDAT" and rng.random() < 0.7:
            try:
                return name, zlib.compress(blind(zlib.decompress(body), rng))
            except zlib.error:
                pass
        if rng.random() < 0.1:
            return pick(rng, (b"IDAT", b"PLTE", b"tRNS", b"acTL", b"fcTL", b"IEND", b"eXIf", b"abcd")), body
        return name, blind(body, rng)

    out = [data[:8]]
    for name, body in shuffled(chunks, rng, change):
        right = zlib.crc32(name + body) if rng.random() < 0.97 else 0
        out.append(struct.pack(">I", len(body)) + name + body + struct.pack(">I", right))
    return b"".join(out)


def _small_header(body, rng):
    """Sizes and kinds that are possible, but others."""
    width, height = (int(rng.integers(1, 80)) for _ in range(2))
    kind, depth = pick(
        rng, ((0, 1), (0, 2), (0, 4), (0, 8), (0, 16), (2, 8), (2, 16), (3, 1), (3, 4), (3, 8), (4, 8), (6, 16))
    )
    return struct.pack(">IIBBBBB", width, height, depth, kind, 0, 0, int(rng.integers(2)))


def riff(data, rng, order="<"):
    """RIFF (wav, WebP) and, with big-endian lengths, AIFF."""
    chunks, place = [], 12
    while place + 8 <= len(data):
        length = struct.unpack(order + "I", data[place + 4 : place + 8])[0]
        chunks.append((data[place : place + 4], data[place + 8 : place + 8 + length]))
        place += 8 + length + length % 2

    def change(chunk):
        name, body = chunk
        if name == b"fmt " and rng.random() < 0.8:
            return name, fields(body, rng, "<HHIIHH")
        if name == b"COMM":
            return name, fields(body, rng, ">HIH")
        return name, blind(body, rng)

    body = b"".join(
        name
        + struct.pack(order + "I", len(part) if rng.random() < 0.9 else number(rng))
        + part
        + b"\0" * (len(part) % 2)
        for name, part in shuffled(chunks, rng, change)
    )
    return data[:4] + struct.pack(order + "I", len(body) + 4) + data[8:12] + body


def aiff(data, rng):
    return riff(data, rng, ">")


def jpeg(data, rng):
    segments, place = [], 2
    while place + 4 <= len(data) and data[place] == 0xFF and data[place + 1] != 0xDA:
        length = int.from_bytes(data[place + 2 : place + 4], "big")
        segments.append((data[place + 1], data[place + 4 : place + 2 + length]))
        place += 2 + length
    scan = data[place:]

    def change(segment):
        marker, body = segment
        if 0xC0 <= marker <= 0xC2 and rng.random() < 0.6:
            return marker, fields(body, rng, ">BHHB")
        if rng.random() < 0.1:
            return pick(rng, (0xC0, 0xC1, 0xC2, 0xC3, 0xC4, 0xDB, 0xDD, 0xE1, 0xEE, 0xFE, 0xCC)), body
        return marker, blind(body, rng)

    if rng.random() < 0.3:
        scan = blind(scan, rng)
    else:
        segments = shuffled(segments, rng, change)
    return (
        data[:2] + b"".join(bytes([0xFF, m]) + struct.pack(">H", (len(b) + 2) & 0xFFFF) + b for m, b in segments) + scan
    )


def gif(data, rng):
    data = bytearray(data)
    frame = data.find(b"\x2c", 13)
    if rng.random() < 0.5 or frame < 0:
        data[6:13] = fields(bytes(data[6:13]), rng, "<HHBBB")
    else:
        data[frame + 1 : frame + 10] = fields(bytes(data[frame + 1 : frame + 10]), rng, "<HHHHB")
    return bytes(data) if rng.random() < 0.6 else blind(bytes(data), rng)


def bmp(data, rng):
    data = bytearray(data)
    data[10:54] = fields(bytes(data[10:54]), rng, "<IIiiHHIIiiII")
    return bytes(data) if rng.random() < 0.7 else blind(bytes(data), rng)


def tiff(data, rng):
    """Entries of the directory, in place."""
    data = bytearray(data)
    order = "<" if data[:1] == b"I" else ">"
    place = struct.unpack_from(order + "I", data, 4)[0]
    if place + 2 > len(data):
        return blind(bytes(data), rng)
    count = struct.unpack_from(order + "H", data, place)[0]
    for _ in range(int(rng.integers(1, 4))):
        entry = place + 2 + 12 * int(rng.integers(max(count, 1)))
        if entry + 12 > len(data):
            continue
        kind = int(rng.integers(5))
        if kind == 0:
            struct.pack_into(order + "H", data, entry + 2, pick(rng, (1, 2, 3, 4, 5, 16)))
        elif kind == 1:
            struct.pack_into(order + "I", data, entry + 4, number(rng))
        elif kind == 2:
            struct.pack_into(
                order + "H", data, entry, pick(rng, (256, 258, 259, 262, 266, 273, 277, 279, 284, 317, 322, 338, 339))
            )
        else:  # a number that is possible there
            tag = struct.unpack_from(order + "H", data, entry)[0]
            possible = {
                256: range(1, 80),
                257: range(1, 80),
                258: (1, 2, 4, 8, 12, 16, 32),
                259: (1, 2, 3, 4, 5, 7, 8, 32773),
                262: range(7),
                277: range(1, 6),
                278: range(1, 80),
                284: (1, 2),
                317: (1, 2, 3),
                339: (1, 2, 3, 4),
            }
            wanted = pick(rng, list(possible.get(tag, EDGES[:18])))
            struct.pack_into(order + "I", data, entry + 8, wanted if order == "<" else wanted << 16 & 0xFFFFFFFF)
    return bytes(data) if rng.random() < 0.8 else blind(bytes(data), rng)


def pnm(data, rng):
    head = re.match(rb"(P\d)((?:\s|#[^\n]*\n)+\d+){2,3}\s", data)
    if head is None:
        return blind(data, rng)
    words = re.sub(rb"#[^\n]*\n", b"", head[0]).split()
    place = int(rng.integers(len(words)))
    words[place] = pick(
        rng, (b"0", b"1", b"7", b"255", b"256", b"65535", b"65536", b"99999999999", b"-1", b"#x\n", b"P4", b"P3")
    )
    rest = data[head.end() :]
    return b" ".join(words) + b"\n" + (rest if rng.random() < 0.6 else blind(rest, rng))


def jp2(data, rng):
    """The size marker, the parts of the tiles, or the boxes around them."""
    data = bytearray(data)
    size = data.find(b"\xff\x51")
    part = data.find(b"\xff\x90")
    kind = rng.random()
    if kind < 0.4 and size > 0:
        data[size + 4 : size + 42] = fields(bytes(data[size + 4 : size + 42]), rng, ">HIIIIIIIIHBB")[:38]
    elif kind < 0.7 and part > 0:
        data[part + 4 : part + 12] = fields(bytes(data[part + 4 : part + 12]), rng, ">HIBB")
    elif size > 24 and kind < 0.8:
        place = data.find(pick(rng, (b"jp2h", b"ihdr", b"colr", b"jp2c", b"ftyp"))) - 4
        if place > 0:
            struct.pack_into(">I", data, place, number(rng))
    return bytes(data) if rng.random() < 0.6 else blind(bytes(data), rng)


# ----------------------------------------------------------------------------------------------------
# Sound


def flac(data, rng):
    """Numbers of the stream information, or a frame behind its checksums."""
    data = bytearray(data)
    first = 42
    while first + 4 < len(data) and data[first : first + 2] != b"\xff\xf8":
        first += 1
    kind = rng.random()
    if kind < 0.3:
        head = bytearray(data[8:26])
        place = int(rng.integers(len(head)))
        head[place] = number(rng, 8)
        data[8:26] = head
    elif first + 20 < len(data):
        ends = [i for i in range(first + 4, len(data)) if data[i : i + 2] == b"\xff\xf8"] + [len(data)]
        end = ends[0]
        frame = bytearray(data[first : end - 2])
        for _ in range(int(rng.integers(1, 6))):
            frame[int(rng.integers(4 if kind < 0.7 else 0, min(len(frame), 60)))] = number(rng, 8)
        if len(frame) > 6:
            frame[5] = crc8(bytes(frame[:5])) if kind < 0.5 else frame[5]
        data[first:end] = bytes(frame) + crc16(bytes(frame)).to_bytes(2, "big")
    return bytes(data) if rng.random() < 0.8 else blind(bytes(data), rng)


def _ogg_crc(page):
    value = 0
    for byte in page:
        value ^= byte << 24
        for _ in range(8):
            value = (value << 1) ^ (0x04C11DB7 if value & 0x80000000 else 0)
        value &= 0xFFFFFFFF
    return value


def ogg(data, rng):
    """One page changed, with its checksum right."""
    starts = [found.start() for found in re.finditer(b"OggS", data)]
    if not starts:
        return blind(data, rng)
    place = int(rng.integers(len(starts)))
    begin, end = starts[place], [*starts, len(data)][place + 1]
    page = bytearray(data[begin:end])
    if rng.random() < 0.5:
        page[4:27] = fields(bytes(page[4:27]), rng, "<BBQIIIB")
    else:
        page = bytearray(blind(bytes(page), rng))
    if len(page) > 26:
        page[22:26] = bytes(4)
        page[22:26] = _ogg_crc(page).to_bytes(4, "little")
    return data[:begin] + bytes(page) + data[end:]


# ----------------------------------------------------------------------------------------------------
# Containers


def tar(data, rng):
    """A field of a header, with its checksum right."""
    data = bytearray(data)
    blocks = [at for at in range(0, len(data) - 511, 512) if data[at + 257 : at + 262] == b"ustar"]
    if not blocks:
        return blind(bytes(data), rng)
    at = pick(rng, blocks)
    begin, size = pick(
        rng, ((0, 100), (100, 8), (124, 12), (124, 12), (156, 1), (156, 1), (157, 100), (257, 8), (345, 155))
    )
    old = bytes(data[at + begin : at + begin + size])
    if begin == 124:
        new = pick(
            rng,
            (
                b"%011o\0" % (number(rng) & 0xFFFFFFFF),
                b"\x80" + rng.bytes(11),
                b"-0000000001\0",
                b"99999999999\0",
                b" " * 12,
            ),
        )
    elif begin == 156:
        new = bytes([pick(rng, b"0123456789LKxgSVMNDA\0")])
    elif begin in (0, 345):
        new = pick(
            rng, (b"/etc/passwd", b"../../x.jpg", b"1.jpg", b"", b".jpg", b"a/.b/c.jpg", b"\xff\xfe.jpg", b"x" * size)
        )
    else:
        new = blind(old, rng)
    data[at + begin : at + begin + size] = new[:size].ljust(size, b"\0")
    data[at + 148 : at + 156] = b" " * 8
    data[at + 148 : at + 156] = b"%06o\0 " % sum(data[at : at + 512])
    return bytes(data) if rng.random() < 0.7 else blind(bytes(data), rng)


def tfrecord(data, rng):
    """A record changed behind right checksums: the encoding of its features, or their values."""
    records, place = [], 0
    while place + 12 <= len(data):
        length = struct.unpack_from("<Q", data, place)[0]
        if place + 16 + length > len(data):
            break
        records.append(data[place + 12 : place + 12 + length])
        place += 16 + length

    def change(body):
        if rng.random() < 0.2:
            return field(1, field(1, field(1, b"i") + field(2, blind(body, rng)[: int(rng.integers(60))])))
        return blind(body, rng)

    records = shuffled(records, rng, change)
    out = b"".join(map(record, records))
    if rng.random() < 0.1:
        head = struct.pack("<Q", number(rng, 64))
        out += head + struct.pack("<I", masked(head)) + b"rest"
    return out


def recordio(data, rng):
    """Records in another order, with other numbers of their parts, other lengths, and other labels than they have."""
    parts, place = [], 0
    while place + 8 <= len(data):
        magic, word = struct.unpack_from("<II", data, place)
        size = word & 0x1FFFFFFF
        parts.append([magic, word >> 29, size, data[place + 8 : place + 8 + size]])
        place += 8 + size + -size % 4

    def change(part):
        magic, kind, size, body = part
        where = int(rng.integers(4))
        if where == 0:
            kind = int(rng.integers(8))
        elif where == 1:
            size = number(rng, 29)
        elif where == 2:
            body = struct.pack("<I", number(rng)) + body[4:]  # of the labels
        else:
            body = blind(body, rng)
            size = len(body)
        return [magic, kind, size, body]

    out = b""
    for magic, kind, size, body in shuffled(parts, rng, change):
        out += struct.pack("<II", magic, kind << 29 | size & 0x1FFFFFFF) + body + bytes(-len(body) % 4)
    return out


def lmdb(data, rng):
    """Numbers at the beginning of a page or of its nodes, or of the description of the tree."""
    data = bytearray(data)
    for _ in range(int(rng.integers(1, 4))):
        page = 512 * int(rng.integers(len(data) // 512))
        size = pick(rng, (2, 2, 4, 8))
        place = page + 2 * int(rng.integers(76 if page < 1024 else 16 if rng.random() < 0.5 else 252))
        data[place : place + size] = (number(rng, 8 * size) if rng.random() < 0.5 else int(rng.integers(40))).to_bytes(
            size, "little"
        )
    return bytes(data[: len(data) // 512 * 512]) if rng.random() < 0.8 else blind(bytes(data), rng)


def nifti(data, rng):
    """Numbers of the header, under gzip too."""
    packed = data[:2] == b"\x1f\x8b"
    data = bytearray(gzip.decompress(data) if packed else data)
    first = ((0, "<i"), (40, "<hhhhhhhh"), (70, "<hh"), (108, "<III"))
    second = ((0, ">i"), (12, ">hh"), (16, ">qqqqqqqq"), (168, ">qQQ"))
    place, layout = pick(rng, first if data[0] else second)  # the second has its high bytes first
    size = struct.calcsize(layout)
    data[place : place + size] = fields(bytes(data[place : place + size]), rng, layout)
    made = bytes(data) if rng.random() < 0.7 else blind(bytes(data), rng)
    return gzip.compress(made) if packed else made


def fits(data, rng):
    """Values and keywords of the headers."""
    data = bytearray(data)
    for _ in range(int(rng.integers(1, 4))):
        line = 80 * int(rng.integers(9)) + 5760 * int(rng.integers(2))
        if rng.random() < 0.8:
            new = pick(rng, WORDS).encode("utf-8", "replace")[:20].rjust(20)
            data[line + 10 : line + 30] = new
        else:
            data[line : line + 8] = pick(
                rng, (b"END     ", b"ZIMAGE  ", b"GROUPS  ", b"NAXIS1  ", b"PCOUNT  ", b"        ")
            )
    return bytes(data) if rng.random() < 0.8 else blind(bytes(data), rng)


NPY_WORDS = [
    "0",
    "1",
    "-1",
    str(2**62),
    str(2**64),
    "1e9",
    "True",
    "None",
    "'<f4'",
    "'|O'",
    "'>i8'",
    "'|b1'",
    "'<U4'",
    "(",
    ")",
    ",",
    "[",
    "{",
    "'descr'",
    "'shape'",
    "'x'",
    "1,1,1,1,1",
    "()",
    "0,0",
    "b'x'",
    "...",
]


def npy(data, rng):
    """Words of the header, its length right; sometimes the elements."""
    length = struct.unpack_from("<H", data, 8)[0]
    text = data[10 : 10 + length].decode("latin-1").strip()
    tokens = re.findall(r"'[^']*'|\d+|\w+|[^\w\s]", text)
    for _ in range(int(rng.integers(1, 4))):
        place = int(rng.integers(len(tokens)))
        tokens[place] = pick(rng, NPY_WORDS)
    body = (" ".join(tokens) + "\n").encode("latin-1")
    return data[:8] + struct.pack("<H", len(body)) + body + (data[10 + length :] if rng.random() < 0.8 else b"")


# ----------------------------------------------------------------------------------------------------
# Text


WORDS = [
    "0",
    "1",
    "-1",
    "2147483648",
    "9" * 30,
    "9" * 5000,
    "1e308",
    "nan",
    "inf",
    "1_0",
    "٣",
    "../x",
    "/dev/zero",
    "",
    " ",
    "\t",
    "\0",
    "x" * 300,
    "ü",
    "\ud800",
    "0x10",
    "None",
    "v1.2",
    "v1.1",
    "jpg",
    "512",
    "600",
]


def text(data, rng):
    """Words and lines replaced, dropped, doubled."""
    lines = data.decode("utf-8", "surrogateescape").split("\n")

    def change(line):
        words = line.split(" ")
        words[int(rng.integers(len(words)))] = pick(rng, WORDS)
        return " ".join(words)

    return "\n".join(shuffled(lines, rng, change)).encode("utf-8", "surrogatepass")


VALUES = [
    None,
    True,
    False,
    0,
    1,
    -1,
    2**31,
    2**53,
    2**63,
    2**64,
    10**30,
    0.5,
    -0.0,
    1e300,
    float("nan"),
    float("inf"),
    "",
    "x",
    "0",
    "\0",
    "a" * 200,
    [],
    {},
    [[]],
    [0] * 50,
    {"import": "os:system"},
    {"float": "nan"},
    {"dict": {}},
    {"list": [1]},
    {"array": "AAAA", "dtype": "<f8", "shape": [1 << 40]},
    {"objects": 0, "shape": [8589934592]},
    "../../etc/passwd",
]


def tree(value, rng, depth=0):
    """A value of JSON with something in it replaced."""
    if depth < 8 and isinstance(value, dict) and value and rng.random() < 0.9:
        key = pick(rng, list(value))
        kind = rng.random()
        rest = {name: item for name, item in value.items() if name != key}
        if kind < 0.1:
            return rest
        if kind < 0.2:
            return {**value, pick(rng, ("x", "", "import", "seed", "epoch", "kind")): pick(rng, VALUES)}
        return {**rest, key: tree(value[key], rng, depth + 1)}
    if depth < 8 and isinstance(value, list) and value and rng.random() < 0.9:
        return shuffled(value, rng, lambda item: tree(item, rng, depth + 1))
    return pick(rng, VALUES)


def json_text(data, rng):
    """The values of one JSON text."""
    return json.dumps(tree(json.loads(data), rng)).encode()


def journal(data, rng):
    """The head or a record of a journal changed behind a right checksum."""
    head, _, rest = data.partition(b"\n")
    place = json.loads(head[9:])["place"]
    lines = [head[9:], *(part.strip(b" \n")[9:-1] for part in (rest[:place], rest[place : 2 * place]))]
    marks = [part.strip(b" \n")[-1:] for part in (b"", rest[:place], rest[place : 2 * place])]
    chosen = int(rng.integers(3))
    if lines[chosen]:
        lines[chosen] = json_text(lines[chosen], rng)
    place = max(place, *(len(line) + 16 for line in lines[1:]))
    if chosen:
        lines[0] = json.dumps({**json.loads(lines[0]), "place": place}).encode()
    sealed = [b"%08x %b" % (zlib.crc32(line), line) + mark for line, mark in zip(lines, marks)]
    return sealed[0] + b"\n" + b"".join(part.ljust(place - 1) + b"\n" for part in sealed[1:])


def json_lines(data, rng):
    """The values of one of the lines, or the lines."""
    lines = data.decode().splitlines()
    if rng.random() < 0.3:
        return text(data, rng)
    place = int(rng.integers(len(lines)))
    lines[place] = json.dumps(tree(json.loads(lines[place]), rng))
    return ("\n".join(lines) + "\n").encode()
