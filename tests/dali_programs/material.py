"""The data that programs read: pictures beside this file, and small files of every format, made where the program runs."""

import io
import json
import struct
import tarfile
import wave
import zlib
from pathlib import Path

import numpy as np

PICTURES = str(Path(__file__).parent / "pictures")
FILES = sorted(str(path) for path in Path(PICTURES).glob("*/*.jpg"))


def encoded(index):
    """The bytes of one picture as an array."""
    return np.fromfile(FILES[index % len(FILES)], np.uint8)


def image(height, width, channels=3, seed=0):
    """A picture that needs no decoder: a smooth pattern of bytes, the same on every machine."""
    y, x = np.mgrid[0:height, 0:width]
    planes = [(7 * x * (c + 1) + 11 * y + 37 * c + 13 * seed) % 256 for c in range(channels)]
    return np.stack(planes, -1).astype(np.uint8)


def tone(samples, rate=16000, pitch=440.0, channels=1):
    """A decaying sine as 16-bit samples, channels last."""
    time = np.arange(samples) / rate
    values = [np.sin(2 * np.pi * pitch * (c + 1) * time) * np.exp(-3 * time) for c in range(channels)]
    return np.round(20000 * np.stack(values, -1)).astype(np.int16)


def write_wav(path, samples, rate=16000):
    """Writes 16-bit samples, one column a channel."""
    with wave.open(str(path), "wb") as file:
        file.setnchannels(samples.shape[1])
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(samples.astype("<i2").tobytes())
    return str(path)


def write_arrays(folder, arrays):
    """Writes each array to an npy file of its own."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    for name, array in arrays.items():
        np.save(Path(folder) / f"{name}.npy", array)
    return str(folder)


def write_tar(path, members):
    """Writes a tar file of (name, bytes)."""
    with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as archive:
        for name, content in members:
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return str(path)


def _varint(number):
    number &= (1 << 64) - 1
    out = bytearray()
    while True:
        number, low = number >> 7, number & 127
        out.append(low | (128 if number else 0))
        if not number:
            return bytes(out)


def _field(number, content):
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _example(features):
    entries = b""
    for name, value in features.items():
        if isinstance(value, bytes):
            content = _field(1, _field(1, value))
        elif np.asarray(value).dtype.kind == "f":
            content = _field(2, _field(1, np.asarray(value, "<f4").tobytes()))
        else:
            content = _field(3, _field(1, b"".join(_varint(int(item)) for item in np.ravel(value))))
        entries += _field(1, _field(1, name.encode()) + _field(2, content))
    return _field(1, entries)


def _crc32c(data):
    table = _crc32c.__dict__.setdefault("table", [])
    if not table:
        for number in range(256):
            for _ in range(8):
                number = number >> 1 ^ (0x82F63B78 if number & 1 else 0)
            table.append(number)
    crc = 0xFFFFFFFF
    for byte in data:
        crc = table[(crc ^ byte) & 255] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


def _masked(data):
    crc = _crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def write_tfrecord(path, examples):
    """Writes examples (dictionaries of bytes, integers and floats) and the index beside them; both paths."""
    index, place = [], 0
    with open(path, "wb") as file:
        for features in examples:
            content = _example(features)
            length = struct.pack("<Q", len(content))
            record = length + struct.pack("<I", _masked(length)) + content + struct.pack("<I", _masked(content))
            file.write(record)
            index.append(f"{place} {len(record)}\n")
            place += len(record)
    index_path = f"{path}.idx"
    Path(index_path).write_text("".join(index))
    return str(path), index_path


def write_recordio(folder, records):
    """Writes (label, bytes) as an MXNet RecordIO file and its index; both paths."""
    path, index_path = Path(folder) / "train.rec", Path(folder) / "train.idx"
    lines, place = [], 0
    with open(path, "wb") as file:
        for number, (label, content) in enumerate(records):
            body = struct.pack("<IfQQ", 0, float(label), number, 0) + content
            padded = body + bytes(-len(body) % 4)
            file.write(struct.pack("<II", 0xCED7230A, len(body)) + padded)
            lines.append(f"{number}\t{place}\n")
            place += 8 + len(padded)
    index_path.write_text("".join(lines))
    return str(path), str(index_path)


def write_coco(folder, boxes):
    """Writes COCO annotations for the pictures: {position of the picture: [(category, [x, y, width, height])]}."""
    images, annotations = [], []
    for position, path in enumerate(FILES):
        height, width = picture_size(path)
        name = str(Path(path).relative_to(PICTURES))
        images.append({"id": 10 + position, "file_name": name, "height": height, "width": width})
        for category, box in boxes.get(position, []):
            x, y, w, h = box
            annotations.append(
                {
                    "id": len(annotations) + 1,
                    "image_id": 10 + position,
                    "category_id": category,
                    "bbox": box,
                    "area": w * h,
                    "iscrowd": 0,
                    "segmentation": [[x, y, x + w, y, x + w, y + h, x, y + h]],
                }
            )
    categories = [
        {"id": number, "name": f"kind{number}"} for number in sorted({c for b in boxes.values() for c, _ in b})
    ]
    path = Path(folder) / "instances.json"
    path.write_text(json.dumps({"images": images, "annotations": annotations, "categories": categories}))
    return str(path)


def picture_size(path):
    """The height and width in the header of a JPEG file."""
    data = Path(path).read_bytes()
    place = 2
    while True:
        marker, length = data[place + 1], struct.unpack(">H", data[place + 2 : place + 4])[0]
        if 0xC0 <= marker <= 0xC3:
            return struct.unpack(">HH", data[place + 5 : place + 9])
        place += 2 + length


def write_png(path, pixels):
    """Writes HWC bytes of 1, 3 or 4 channels as a PNG file."""
    height, width, channels = pixels.shape
    rows = b"".join(b"\0" + row.tobytes() for row in pixels)

    def chunk(kind, content):
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    header = struct.pack(">IIBBBBB", width, height, 8, {1: 0, 3: 2, 4: 6}[channels], 0, 0, 0)
    content = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    Path(path).write_bytes(b"\x89PNG\r\n\x1a\n" + content)
    return str(path)
