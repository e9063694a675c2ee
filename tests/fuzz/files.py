"""Files to begin with: for each kind, whole ones of every flavour, made here."""

import gzip
import importlib.util
import io
import json
import struct
import tarfile

import numpy as np
import soundfile
from audio.made_flac import flac
from decoders.made import bmp
from decoders.made_nifti import nifti
from decoders.pictures import GRAY, JPEG, LOSSLESS, RGB, exif, pillow
from decoders.zoo import ZOO
from PIL import Image
from readers import records


def _images():
    kinds = {"JPEG": "jpeg", "PNG": "png", "BMP": "bmp", "PNM": "pnm", "TIFF": "tiff", "WebP": "webp", "GIF": "gif"}
    found = {kind: [] for kind in [*kinds.values(), "jp2"]}
    for name, data in {**{name: data for name, (data, _) in LOSSLESS.items()}, **JPEG}.items():
        first = name.split()[0]
        found[{"ppm": "pnm", "pgm": "pnm", "j2k": "jp2"}.get(first, first)].append(data)
    for name, made in ZOO.items():
        if name.split()[1] != "big":
            found[{"j2k": "jp2"}.get(name.split()[0], name.split()[0])].append(made.data)
    found["jpeg"] += [pillow(RGB, "JPEG", quality=70, exif=exif(6)), pillow(GRAY, "JPEG", progressive=True)]
    found["webp"] += [pillow(RGB, "WEBP", quality=50), pillow(RGB, "WEBP", exif=exif(3))]
    found["tiff"] += [
        pillow(Image.fromarray(RGB).convert("1"), "TIFF", compression=name) for name in ("group3", "group4")
    ]
    found["tiff"].append(pillow(RGB, "TIFF", compression="jpeg"))
    found["gif"].append(pillow(GRAY, "GIF", interlace=1))
    found["jp2"].append(pillow(RGB, "JPEG2000", tile_size=(16, 16), no_jp2=True))
    places = (np.arange(37 * 53) % 16).reshape(37, 53).astype(np.uint64)
    runs = bmp(places, 8, palette=[(i, i, i) for i in range(16)], compression=1)
    begin = struct.unpack_from("<I", runs, 10)[0]
    found["bmp"].append(runs[:begin] + b"".join(bytes([53, i % 16, 0, 0]) for i in range(37)) + b"\0\1")
    return found


def _sound(kind, subtype=None, rate=8000, channels=2, frames=1500):
    values = np.random.default_rng(len(kind)).normal(size=(frames, channels)).clip(-3, 3) * 0.2
    file = io.BytesIO()
    soundfile.write(file, values, rate, format=kind, subtype=subtype)
    return file.getvalue()


def _sounds():
    values = np.random.default_rng(1).integers(-30000, 30000, (600, 2))
    wavs = [
        _sound("WAV", subtype)
        for subtype in ("PCM_U8", "PCM_16", "PCM_24", "PCM_32", "FLOAT", "DOUBLE", "ULAW", "IMA_ADPCM")
    ]
    return {
        "wav": [*wavs, _sound("WAVEX", "PCM_16", channels=5), _sound("RF64", "PCM_16")],
        "flac": [
            _sound("FLAC"), _sound("FLAC", "PCM_24"), _sound("FLAC", "PCM_S8", channels=1),
            flac(values, 16, stated=False, side=True).tobytes(), flac(values << 15, 32, kind="fixed").tobytes(),
            flac(values >> 8, 12).tobytes(),
        ],
        "ogg": [_sound("OGG"), _sound("OGG", "OPUS", 16000, 1)],
        "aiff": [_sound("AIFF", "PCM_16"), _sound("AIFF", "FLOAT")],
        "mp3": [_sound("MP3", frames=4000)],
    }  # fmt: skip


def _tar(tar_format, names):
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=tar_format) as tar:
        for number, name in enumerate(names):
            info = tarfile.TarInfo(name)
            info.size = 100 * number
            tar.addfile(info, io.BytesIO(bytes([number]) * info.size))
    data = file.getvalue().rstrip(b"\0")
    return data.ljust(-(-len(data) // 512) * 512 + 1024, b"\0")


def _messages():
    """Records of Caffe and of Caffe2; some are too large for a page with others."""
    datums = [records.message(f4=bytes([n]) * (90 * n), f5=n, f7=1) for n in range(4)]
    datums.append(records.message(f1=3, f2=1, f3=2, f4=b"abcdef", f5=2, f7=0))
    image = records.message(f1=1, f2=4, f6=b"image")
    label, more = records.message(f1=1, f2=2, f4=b"\x05"), records.message(f1=2, f2=1, f3=struct.pack("<2f", 1, 2))
    return datums, [b"".join(records.field(1, part) for part in (image, label, more))] * 3


def _fits(array, first=True):
    """One unit of a FITS file."""
    lines = ["SIMPLE  =                    T" if first else "XTENSION= 'IMAGE   '"]
    bits = array.itemsize * (-8 if array.dtype.kind == "f" else 8)
    lines += [f"{key:<8}= {value:>20}" for key, value in (("BITPIX", bits), ("NAXIS", 2), ("NAXIS1", array.shape[1]))]
    lines += [f"{key:<8}= {value:>20}" for key, value in (("NAXIS2", array.shape[0]), ("BSCALE", 2), ("BZERO", 0.5))]
    text = "".join(line.ljust(80) for line in [*lines, "END"]).encode()
    return text.ljust(2880) + array.tobytes().ljust(2880, b"\0")


def recordio_part(data, kind=0):
    """A part of a record of RecordIO; kind 0 is a whole one, 1 to 3 the first, the middle and the last part."""
    return struct.pack("<II", 0xCED7230A, kind << 29 | len(data)) + data + bytes(-len(data) % 4)


def _recordio():
    """Records with one label, with several, and in three parts."""
    bodies = [struct.pack("<IfQQ", n, 1.5, n, 0) + struct.pack(f"<{n}f", *range(n)) + b"x" * (5 * n) for n in range(4)]
    parts = [recordio_part(bodies[2][8 * k : 8 * k + 8 if k < 2 else None], k + 1) for k in range(3)]
    return b"".join([*map(recordio_part, bodies), *parts])


def _containers():
    names = ["1.jpg", "1.cls", "a/2.jpg", "a/2.cls"]
    long = ["x" * 120 + "/3.jpg", "é" * 60 + ".cls"]
    example = [
        records.example({"i": [n, 300 * n], "f": [0.5 * n], "s": [b"x" * n]}, packed=n % 2 == 0) for n in range(1, 5)
    ]
    arrays = [
        np.arange(24, dtype=np.float32).reshape(4, 6),
        np.asfortranarray(np.ones((3, 4, 2), ">i2")),
        np.array(True),
        np.zeros((0, 3)),
    ]
    saved = []
    for array in arrays:
        file = io.BytesIO()
        np.save(file, array)
        saved.append(file.getvalue())
    return {
        "npy": saved,
        "tar": [
            _tar(tarfile.USTAR_FORMAT, names), _tar(tarfile.GNU_FORMAT, names + long), _tar(tarfile.PAX_FORMAT, names + long),
        ],
        "tfrecord": [b"".join(map(records.record, example))],
        "recordio": [_recordio()],
        "lmdb": [records.lmdb(values) for values in _messages()],
        "fits": [_fits(np.arange(12, dtype=">i2").reshape(3, 4)) + _fits(np.ones((2, 3), ">f4"), False)],
    }  # fmt: skip


# The files that indexes, lists and manifests are about, by the names these give them.
TAR = _tar(tarfile.USTAR_FORMAT, ["1.jpg", "1.cls", "a/2.jpg", "a/2.cls"])
RECORDIO = _recordio()
RECORDS = b"".join(records.record(records.example({"i": [n], "s": [b"abc"]})) for n in range(5))
WAV = _sound("WAV", "PCM_16", channels=1)


def _texts():
    offsets, place = [], 0
    for n in range(5):
        size = len(records.record(records.example({"i": [n], "s": [b"abc"]})))
        offsets.append(f"{place} {size}")
        place += size
    parts = [
        [("jpg", 512, 0, "1.jpg"), ("cls", 1024, 100, "1.cls")],
        [("jpg", 2048, 200, "a/2.jpg"), ("cls", 3072, 300, "a/2.cls")],
    ]
    indexes = [
        f"{version} 2\n"
        + "".join(" ".join(str(word) for part in sample for word in part[:width]) + "\n" for sample in parts)
        for version, width in (("v1.2", 4), ("v1.1", 3))
    ]
    entries = [
        {"audio_filepath": "good.wav", "duration": 0.1, "offset": 0.01, "text": "yes"},
        {"audio_filepath": "good.wav"},
    ]
    coco = {
        "images": [{"id": 7, "width": 9, "height": 5, "file_name": "good.wav"},
                   {"id": 3, "width": 40, "height": 30, "file_name": "sub/good.wav"}],
        "annotations": [
            {"id": 1, "image_id": 7, "category_id": 5, "bbox": [1, 1, 3.5, 2], "iscrowd": 0,
             "segmentation": [[1, 1, 4.5, 1, 4, 3, 1, 3], [5, 1, 8, 1, 8, 4]]},
            {"id": 2, "image_id": 3, "category_id": 2, "bbox": [0, 0, 2, 2], "iscrowd": 1,
             "segmentation": {"size": [30, 40], "counts": [100, 20, 1080]}},
            {"id": 3, "image_id": 7, "category_id": 2, "bbox": [0, 0, 2, 2],
             "segmentation": {"size": [5, 9], "counts": "5220P1"}},
        ],
        "categories": [{"id": 2}, {"id": 5}],
    }  # fmt: skip
    return {
        "coco": [json.dumps(coco).encode()],
        "tar index": [index.encode() for index in indexes],
        "tfrecord index": ["\n".join(offsets).encode() + b"\n"],
        "recordio index": [b"0 0\n1 32\n2 76\n3 128\n4 188\n"],
        "file_list": [b"good.wav 0\nsub/good.wav 1\n\ngood.wav -5\n"],
        "manifest": ["".join(json.dumps(entry) + "\n" for entry in entries).encode()],
    }


def _volumes():
    values = np.random.default_rng(4).integers(0, 200, (6, 5, 4))
    made = [nifti(values.astype(kind), slope=2.0) for kind in ("u1", "<i2", "<f4")]
    made.append(nifti(values.astype("f8"), version=2, order=">"))
    return {"nifti": [*made, *map(gzip.compress, made)]}


def _by_libraries():
    """Files of formats whose libraries need not be installed, if all of them are."""
    wanted = ("imagecodecs", "pillow_heif", "OpenEXR", "pydicom")
    if not all(map(importlib.util.find_spec, wanted)):
        return {}
    return importlib.import_module("decoders.library_formats").files()


FILES = {**_images(), **_sounds(), **_containers(), **_texts(), **_volumes(), **_by_libraries()}
