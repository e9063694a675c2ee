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
