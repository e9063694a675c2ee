"""What is done with a damaged file, and what must never come of it.

A target returns how it ended: "accepted", "refused", or "differs" where two libraries agree on other values than ours.
It raises `Defect` for what is wrong in any case: an exception of an odd type, a message that does not name the file, a
result of another shape than the header states, more memory than was allowed.
"""

import ctypes
import hashlib
import io
import json
import logging
import mmap
import os
import resource
import tempfile
import warnings
from pathlib import Path

import cv2
import numpy as np
import soundfile
from fuzz.files import FILES, RECORDIO, RECORDS, TAR, WAV
from PIL import Image

from pipeflow import Pipeline, fn, pipeline_def, tfrecord, types
from pipeflow.kernels.cpu import image_headers
from pipeflow.operators.readers.caffe import CaffeReader
from pipeflow.operators.readers.caffe2 import Caffe2Reader
from pipeflow.operators.readers.coco import CocoReader
from pipeflow.operators.readers.file import FileReader
from pipeflow.operators.readers.fits import FitsReader
from pipeflow.operators.readers.mxnet import MXNetReader, write_index
from pipeflow.operators.readers.nemo_asr import NemoAsrReader
from pipeflow.operators.readers.numpy import NumpyReader
from pipeflow.operators.readers.tfrecord import TFRecordReader
from pipeflow.operators.readers.webdataset import WebdatasetReader

# What damaged data may be refused with. Anything else, such as a MemoryError or an AttributeError, is a defect.
REFUSALS = (ValueError, RuntimeError, OSError, IndexError, TypeError, KeyError)
MAX_PIXELS = 1 << 16
MAX_BYTES = 1 << 22
# What a mutant may add to the largest memory that the process has ever had: the limits, several times over, and slack.
GROWTH = 200_000  # kB


class Defect(Exception):
    """What must not happen, whatever the bytes."""


# ----------------------------------------------------------------------------------------------------
# Memory with an edge


class Edge:
    """Bytes that end right before memory that nobody may read."""

    def __init__(self, size=1 << 23):
        self.map = mmap.mmap(-1, size + mmap.PAGESIZE)
        self.bytes = np.frombuffer(self.map, np.uint8)
        library = ctypes.CDLL(None, use_errno=True)
        if library.mprotect(ctypes.c_void_p(self.bytes.ctypes.data + size), mmap.PAGESIZE, 0):
            raise OSError(ctypes.get_errno(), "mprotect")
        self.size = size

    def place(self, data):
        """The data as an array whose last byte is the last one that may be read."""
        if len(data) > self.size:
            return np.frombuffer(data, np.uint8)
        array = self.bytes[self.size - len(data) : self.size]
        array[:] = np.frombuffer(data, np.uint8)
        return array


EDGE = Edge()
FOLDER = Path(tempfile.mkdtemp(prefix="fuzz-"))
(FOLDER / "sub").mkdir()
for _name, _data in (
    ("good.tar", TAR), ("good.tfrecord", RECORDS), ("good.wav", WAV), ("sub/good.wav", WAV), ("good.rec", RECORDIO),
):  # fmt: skip
    (FOLDER / _name).write_bytes(_data)
write_index(str(FOLDER / "good.rec"), str(FOLDER / "good.idx"))


def written(data, name):
    path = FOLDER / name
    path.write_bytes(data)
    return str(path)


# ----------------------------------------------------------------------------------------------------
# Images


def image(data, rng):
    """Decodes in one of many ways; as stored, two other libraries are asked too."""
    given = EDGE.place(data)
    arguments = {
        "output_type": (types.RGB, types.ANY_DATA, types.GRAY, types.YCbCr)[int(rng.integers(4))],
        "dtype": (types.UINT8, types.UINT8, types.FLOAT, types.UINT16, types.INT16)[int(rng.integers(5))],
        "adjust_orientation": bool(rng.integers(2)),
        "max_pixels": MAX_PIXELS, "max_bytes": MAX_BYTES,
        "on_damage": ("error", "error", "accept")[int(rng.integers(3))],
    }  # fmt: skip
    operator, crop = fn.decoders.image, rng.random() < 0.2
    if crop:
        operator, arguments = fn.decoders.image_crop, {**arguments, "crop": (7, 9)}
    result = operator(given, **arguments)
    header = image_headers.read(data)
    if header.height * header.width > MAX_PIXELS:
        raise Defect(f"{header} was decoded, max_pixels is {MAX_PIXELS}")
    if result.nbytes > MAX_BYTES:
        raise Defect(f"{result.nbytes} bytes came out, max_bytes is {MAX_BYTES}")
    expected = image_headers.shape_of(
        header, types.DALIImageType(arguments["output_type"]).name, arguments["adjust_orientation"]
    )
    if result.shape != ((7, 9, expected[2]) if crop else expected):
        raise Defect(f"an image of shape {result.shape}, the header says {expected}")
    return "accepted" if header.format in BY_ONE_LIBRARY or not outvoted(given, data) else "differs"


# Formats that the other libraries decode by the same code, or with other roundings, or not at all.
BY_ONE_LIBRARY = ("JPEG", "AVIF", "HEIF", "JPEG XL", "EXR")


def outvoted(given, data):
    """Whether OpenCV and Pillow agree on pixels that are not ours."""
    try:
        ours = fn.decoders.image(given, output_type=types.RGB, adjust_orientation=False, max_pixels=MAX_PIXELS)
    except REFUSALS:
        return False
    theirs = cv2.imdecode(given, cv2.IMREAD_IGNORE_ORIENTATION | cv2.IMREAD_COLOR_RGB)
    if theirs is None or theirs.shape != ours.shape:
        return False
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            picture = Image.open(io.BytesIO(data))
            if picture.mode not in ("RGB", "L", "P", "1") or picture.size != (ours.shape[1], ours.shape[0]):
                return False
            other = np.array(picture.convert("RGB"))
    except Exception:
        return False
    if other.shape != ours.shape or not np.array_equal(theirs, other):
        return False
    return bool(np.abs(ours.astype(int) - theirs).max() > 1)


def volume(data, rng):
    """Decodes the whole or a window."""
    given = EDGE.place(data)
    dtype = (types.FLOAT, types.INT16, types.UINT8)[int(rng.integers(3))]
    options = {"dtype": dtype, "rescale": bool(rng.integers(2)), "max_pixels": MAX_PIXELS, "max_bytes": MAX_BYTES}
    if rng.random() < 0.3:
        result = fn.decoders.volume_crop(given, crop=(1, 2, 3), **options)
        if result.shape[:3] != (1, 2, 3):
            raise Defect(f"a window of shape {result.shape}")
        return "accepted"
    result = fn.decoders.volume(given, **options)
    if result[..., 0].size > MAX_PIXELS or result.nbytes > MAX_BYTES:
        raise Defect(f"a volume of shape {result.shape}, max_pixels is {MAX_PIXELS}, max_bytes {MAX_BYTES}")
    return "accepted"


# ----------------------------------------------------------------------------------------------------
# Sound


def sound(data, rng):
    """Decodes, sometimes to another rate; integers are compared with what libsndfile reads."""
    given = EDGE.place(data)
    arguments = {
        "dtype": (types.FLOAT, types.INT16, types.INT32)[int(rng.integers(3))],
        "downmix": bool(rng.integers(2)),
    }
    if rng.random() < 0.3:
        arguments["sample_rate"] = float(rng.integers(1, 100_000))
    samples, rate = fn.decoders.audio(given, max_bytes=MAX_BYTES // 4, **arguments)
    if samples.nbytes > MAX_BYTES:
        raise Defect(f"{samples.nbytes} bytes came out, max_bytes is {MAX_BYTES}")
    if not float(rate) > 0:
        raise Defect(f"a rate of {float(rate)}")
    own = data[:4] in (b"RIFF", b"fLaC") and not stored_floats(data)
    if own and samples.dtype.kind == "i" and "sample_rate" not in arguments and not arguments["downmix"]:
        try:
            theirs, _ = soundfile.read(io.BytesIO(data), dtype=str(samples.dtype), always_2d=True, frames=MAX_BYTES)
        except (soundfile.LibsndfileError, RuntimeError, MemoryError, ValueError, TypeError):
            return "accepted"
        if theirs.shape == samples.shape and not np.array_equal(theirs, samples):
            return "differs"
    return "accepted"


def stored_floats(data):
    """Sound stored as floats is scaled here and cut by libsndfile: they differ by design."""
    try:
        with soundfile.SoundFile(io.BytesIO(data)) as file:
            return file.subtype in ("FLOAT", "DOUBLE")
    except (soundfile.LibsndfileError, RuntimeError, TypeError):
        return True


# ----------------------------------------------------------------------------------------------------
# Readers


def _read(make):
    reader = make()
    for index in range(len(reader)):
        reader.fetch(index)
        reader.source_info(index)
    return "accepted"


FEATURES = {
    "i": tfrecord.VarLenFeature(tfrecord.int64, 0), "f": tfrecord.VarLenFeature(tfrecord.float32, 0.0),
    "s": tfrecord.FixedLenFeature([], tfrecord.string, ""),
}  # fmt: skip


def npy(data, rng):
    path = written(data, "damaged.npy")
    region = (
        {"roi_start": (1, 1), "roi_shape": (2, 2), "out_of_bounds_policy": "trim_to_shape"}
        if rng.random() < 0.5
        else {}
    )
    return _read(lambda: NumpyReader(files=[path], dont_use_mmap=bool(rng.integers(2)), **region))


def tar(data, rng):
    path = written(data, "damaged.tar")
    behavior = ("empty", "skip", "error")[int(rng.integers(3))]
    return _read(lambda: WebdatasetReader(paths=path, ext=["jpg", "cls"], missing_component_behavior=behavior))


def tar_index(data, _rng):
    path = written(data, "damaged.idx")
    return _read(lambda: WebdatasetReader(paths=str(FOLDER / "good.tar"), index_paths=path, ext=["jpg", "cls"]))


def records(data, _rng):
    path = written(data, "damaged.tfrecord")
    return _read(lambda: TFRecordReader(path=path, features=FEATURES))


def records_index(data, _rng):
    path = written(data, "damaged.idx")
    return _read(lambda: TFRecordReader(path=str(FOLDER / "good.tfrecord"), index_path=path, features=FEATURES))


def recordio(data, rng):
    path, index = written(data, "damaged.rec"), str(FOLDER / "good.idx")
    if rng.random() < 0.5:
        index = str(FOLDER / "made.idx")
        write_index(path, index)
    return _read(lambda: MXNetReader(path=path, index_path=index))


def recordio_index(data, _rng):
    path = written(data, "damaged.idx")
    return _read(lambda: MXNetReader(path=str(FOLDER / "good.rec"), index_path=path))


def journal(data, _rng):
    path = written(data, "damaged.journal")
    next(iter(small().epoch(journal=path)), None)
    return "accepted"


def file_list(data, rng):
    path = written(data, "damaged.txt")
    make = FileReader if rng.random() < 0.7 else NumpyReader
    return _read(lambda: make(file_list=path))


def manifest(data, _rng):
    path = written(data, "damaged.json")
    return _read(lambda: NemoAsrReader(manifest_filepaths=[path], max_bytes=MAX_BYTES))


def coco(data, rng):
    path = written(data, "damaged.json")
    form = ({}, {"polygon_masks": True, "ratio": True}, {"pixelwise_masks": True}, {"masks": True, "ltrb": True})[
        int(rng.integers(4))
    ]
    return _read(
        lambda: CocoReader(annotations_file=path, file_root=str(FOLDER), max_pixels=MAX_PIXELS, image_ids=True, **form)
    )


def lmdb(data, rng):
    path = written(data, "damaged.mdb")
    if rng.random() < 0.5:
        return _read(lambda: CaffeReader(path=path))
    form = ({}, {"label_type": 1, "num_labels": 9}, {"label_type": 4}, {"additional_inputs": 1})[int(rng.integers(4))]
    return _read(lambda: Caffe2Reader(path=path, **form))


def fits(data, rng):
    path = written(data, "damaged.fits")
    return _read(lambda: FitsReader(files=[path], hdu_indices=([1], [2], [2, 1])[int(rng.integers(3))]))


# ----------------------------------------------------------------------------------------------------
# States and graphs


@pipeline_def(batch_size=2, num_threads=1, device_id=None, seed=3, prefetch_queue_depth=1)
def small():
    good = [str(FOLDER / "good.wav"), str(FOLDER / "sub/good.wav")] * 3
    data, label = fn.readers.file(files=good, labels=[0, 1, 2, 3, 4, 5], random_shuffle=True, name="files")
    turned = fn.rotate(fn.random.uniform(range=(0.0, 1.0), shape=[5, 4, 3]), angle=fn.random.uniform(range=(-9.0, 9.0)))
    return data, label + 1, fn.crop(turned, crop=(3, 3), out_of_bounds_policy="pad")


def state_text():
    """A checkpoint in the middle of an epoch."""
    pipe = small(enable_checkpointing=True)
    pipe.run()
    return pipe.checkpoint()


def journal_bytes():
    """A journal in the middle of an epoch."""
    path = FOLDER / "good.journal"
    path.unlink(missing_ok=True)
    loop = small().epoch(journal=path)
    next(loop), next(loop)
    return path.read_bytes()


def graph_text():
    return small().serialize()


def sealed(data):
    """A damaged checkpoint with a checksum that is right."""
    state = json.loads(data)
    if isinstance(state, dict):
        state.pop("checksum", None)
        state["checksum"] = hashlib.sha256(json.dumps(state, sort_keys=True).encode()).hexdigest()[:32]
    return json.dumps(state).encode()


def checkpoint(data, _rng):
    pipe = small(enable_checkpointing=True, checkpoint=data.decode("utf-8", "surrogateescape"))
    pipe.run()
    return "accepted"


def graph(data, _rng):
    pipe = Pipeline.deserialize(
        data.decode("utf-8", "surrogateescape"), batch_size=2, num_threads=1, prefetch_queue_depth=1
    )
    pipe.build()
    return "accepted"


TARGETS = {
    **dict.fromkeys(("jpeg", "png", "bmp", "pnm", "tiff", "webp", "gif", "jp2"), image),
    **{name: volume if name == "dicom" else image for name in FILES if name in ("avif", "jxl", "heif", "exr", "dicom")},
    "nifti": volume,
    **dict.fromkeys(("wav", "flac", "ogg", "aiff", "mp3"), sound),
    "npy": npy, "tar": tar, "tar index": tar_index, "tfrecord": records, "tfrecord index": records_index,
    "recordio": recordio, "recordio index": recordio_index, "journal": journal,
    "file_list": file_list, "manifest": manifest, "coco": coco, "lmdb": lmdb, "fits": fits,
    "checkpoint": checkpoint, "graph": graph,
}  # fmt: skip
# Kinds whose errors have to name the damaged file.
NAMED = ("npy", "tar", "tar index", "tfrecord", "tfrecord index", "recordio", "recordio index", "journal", "file_list",
         "manifest", "coco", "lmdb", "fits")  # fmt: skip


def run(kind, data, rng):
    """The outcome of one damaged file; raises Defect."""
    logging.disable(logging.CRITICAL)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            outcome = TARGETS[kind](data, rng)
    except Defect:
        raise
    except REFUSALS as error:
        outcome = "refused"
        words = "\n".join([str(error), *getattr(error, "__notes__", [])])
        if len(str(error)) < 10:
            raise Defect(f"an error without words: {error!r}") from error
        if kind in NAMED and "damaged." not in words.replace("damaged ", ""):
            raise Defect(f"the file is not named: {error!r}") from error
    except BaseException as error:
        raise Defect(f"an odd exception: {type(error).__name__}: {str(error)[:300]}") from error
    finally:
        logging.disable(logging.NOTSET)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    if grown > GROWTH:
        raise Defect(f"{grown} kB of memory were taken")
    return outcome


def close():
    """Removes the files."""
    for path in sorted(FOLDER.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else os.remove(path)
    FOLDER.rmdir()
