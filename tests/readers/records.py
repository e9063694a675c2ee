"""Writers of small TFRecord and tar files for tests, independent of the readers."""

import io
import struct
import tarfile

TABLE = []
for byte in range(256):
    for _ in range(8):
        byte = (byte >> 1) ^ (0x82F63B78 if byte & 1 else 0)
    TABLE.append(byte)


def crc32c(data):
    """CRC-32C, a byte at a time."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = TABLE[(crc ^ byte) & 255] ^ (crc >> 8)
    return crc ^ 0xFFFFFFFF


def masked(data):
    crc = crc32c(data)
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def record(data):
    """A TFRecord frame around the data."""
    head = struct.pack("<Q", len(data))
    return head + struct.pack("<I", masked(head)) + data + struct.pack("<I", masked(data))


def varint(value):
    value &= (1 << 64) - 1
    out = b""
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def field(number, data):
    """A length-delimited field."""
    return varint(number << 3 | 2) + varint(len(data)) + data


def feature(values, packed=True):
    """A tf.train.Feature of bytes, floats or ints."""
    if values and isinstance(values[0], bytes):
        return field(1, b"".join(field(1, value) for value in values))
    if values and isinstance(values[0], float):
        single = b"".join(b"\x0d" + struct.pack("<f", value) for value in values)
        return field(2, field(1, struct.pack(f"<{len(values)}f", *values)) if packed else single)
    single = b"".join(b"\x08" + varint(value) for value in values)
    return field(3, field(1, b"".join(map(varint, values))) if packed else single)


def example(features, packed=True):
    """A tf.train.Example of a dictionary."""
    entries = [field(1, name.encode()) + field(2, feature(values, packed)) for name, values in features.items()]
    return field(1, b"".join(field(1, entry) for entry in entries))


def write_tar(path, files, tar_format=tarfile.USTAR_FORMAT):
    """A tar archive of (name, content); content None is a folder, a TarInfo stands for itself."""
    with tarfile.open(path, "w", format=tar_format) as tar:
        for name, content in files:
            info = content if isinstance(content, tarfile.TarInfo) else tarfile.TarInfo(name)
            if content is None:
                info.type = tarfile.DIRTYPE
            elif isinstance(content, bytes):
                info.size = len(content)
            tar.addfile(info, io.BytesIO(content) if isinstance(content, bytes) else None)
    return str(path)


def message(**fields_):
    """A message of whole numbers and byte strings; `f4=b"..."` is field 4."""
    parts = [(int(name[1:]), value) for name, value in fields_.items()]
    return b"".join(
        field(number, value) if isinstance(value, bytes) else varint(number << 3) + varint(value)
        for number, value in parts
    )


def lmdb(values, leaf=3, size=512):
    """The file of an LMDB database: values under the keys 0000, 0001 and so on, `leaf` of them on a page of `size` bytes."""
    pages = [b"", b""]

    def page(kind, nodes):
        upper, body, places = size, b"", []
        for node in nodes:
            node += bytes(len(node) % 2)
            upper -= len(node)
            body = node + body
            places.append(upper)
        lower = 16 + 2 * len(places)
        head = struct.pack("<QHHHH", len(pages), 0, kind, lower, upper) + struct.pack(f"<{len(places)}H", *places)
        assert lower <= upper, "more nodes than fit"
        pages.append(head.ljust(upper, b"\0") + body)
        return len(pages) - 1

    def stored(key, value):
        if 8 + len(key) + len(value) <= size // 4:
            return struct.pack("<HHHH", len(value) & 0xFFFF, len(value) >> 16, 0, len(key)) + key + value
        first, count = len(pages), -(-(16 + len(value)) // size)
        block = struct.pack("<QHHI", first, 0, 4, count) + value
        pages.extend(block[i * size : (i + 1) * size].ljust(size, b"\0") for i in range(count))
        return struct.pack("<HHHH", len(value) & 0xFFFF, len(value) >> 16, 1, len(key)) + key + struct.pack("<Q", first)

    keyed = [(b"%04d" % number, value) for number, value in enumerate(values)]
    level = [
        (keyed[i][0], page(2, [stored(*pair) for pair in keyed[i : i + leaf]])) for i in range(0, len(keyed), leaf)
    ]
    depth = 1
    while len(level) > 1:
        groups = [level[i : i + 8] for i in range(0, len(level), 8)]
        level = [
            (
                group[0][0],
                page(
                    1,
                    [
                        struct.pack("<HHHH", child & 0xFFFF, child >> 16, 0, 0 if n == 0 else len(key))
                        + (b"" if n == 0 else key)
                        for n, (key, child) in enumerate(group)
                    ],
                ),
            )
            for group in groups
        ]
        depth += 1
    root = level[0][1] if level else 2**64 - 1
    for number in range(2):
        trees = struct.pack("<IHHQQQQQ", size, 0, 0, 0, 0, 0, 0, 2**64 - 1)
        trees += struct.pack("<IHHQQQQQ", 0, 0, depth, 0, 0, 0, len(keyed), root)
        meta = struct.pack("<II", 0xBEEFC0DE, 1) + struct.pack("<QQ", 0, len(pages) * size) + trees
        meta += struct.pack("<QQ", len(pages) - 1, number)
        pages[number] = (struct.pack("<QHHHH", number, 0, 8, 0, 0) + meta).ljust(size, b"\0")
    return b"".join(pages)
