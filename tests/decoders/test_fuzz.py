"""Cut and empty files of every format: each one is an error in words. `tests/fuzz` does worse things to them."""

import io
import os

import numpy as np
import pytest
from decoders.pictures import JPEG, LOSSLESS, bytes_of
from readers import records

from pipeflow import fn, tfrecord
from pipeflow.errors import BadData
from pipeflow.operators.readers.numpy import NumpyReader
from pipeflow.operators.readers.tfrecord import TFRecordReader, write_index
from pipeflow.operators.readers.webdataset import WebdatasetReader
from pipeflow.operators.readers.webdataset import write_index as write_tar_index

FORMATS = {name: data for name, (data, _) in LOSSLESS.items()} | JPEG
# What a damaged file may be refused with. Anything else (a MemoryError, an AttributeError) is a defect.
REFUSALS = (ValueError, RuntimeError, OSError)
MAX_PIXELS = 1 << 16


def mutant(data, generator):
    """The data with one to eight bytes or bits changed, or a stretch removed, doubled or overwritten."""
    data = bytearray(data)
    # Half of the changes hit the first bytes, where the headers are.
    reach = len(data) if generator.random() < 0.5 else min(len(data), 64)
    kind = generator.integers(5)
    place = int(generator.integers(reach))
    length = int(generator.integers(1, 17))
    if kind == 0:
        for _ in range(generator.integers(1, 9)):
            data[int(generator.integers(reach))] ^= 1 << int(generator.integers(8))
    elif kind == 1:
        for _ in range(generator.integers(1, 9)):
            data[int(generator.integers(reach))] = int(generator.choice([0, 1, 127, 128, 255]))
    elif kind == 2:
        del data[place : place + length]
    elif kind == 3:
        data[place:place] = data[place : place + length]
    else:
        data[place : place + length] = generator.bytes(length)
    return bytes(data)


def check_words(error):
    assert len(str(error)) > 10


@pytest.mark.parametrize("name", FORMATS)
def test_fuzz_truncated_images_are_refused(name):
    """Cut at every 64th part, no image comes out, except where all that is missing is a trailer nobody needs."""
    data = FORMATS[name]
    for part in range(64):
        short = data[: len(data) * part // 64]
        try:
            image = fn.decoders.image(bytes_of(short), max_pixels=MAX_PIXELS)
        except REFUSALS as error:
            check_words(error)
        else:
            np.testing.assert_array_equal(image, fn.decoders.image(bytes_of(data)))


def samples_or_error(make):
    """Reads every sample of a reader; True where all of it went through."""
    try:
        reader = make()
        for index in range(len(reader)):
            reader.fetch(index)
    except REFUSALS as error:
        check_name(error)
        return False
    return True


def check_name(error):
    text = str(error) + "".join(getattr(error, "__notes__", []))
    assert "fuzzed" in text, f"no file name: {error!r}"


def npy_bytes():
    file = io.BytesIO()
    np.save(file, np.asfortranarray(np.arange(24, dtype=np.float32).reshape(4, 6)))
    return file.getvalue()


@pytest.fixture
def reader_files(tmp_path):
    """format -> (path, a function that makes a reader of it)."""
    features = {"i": tfrecord.VarLenFeature(tfrecord.int64, 0), "s": tfrecord.FixedLenFeature([], tfrecord.string, "")}
    npy, tf, tar = (str(tmp_path / f"fuzzed.{kind}") for kind in ("npy", "tfrecord", "tar"))
    (tmp_path / "fuzzed.npy").write_bytes(npy_bytes())
    examples = [records.record(records.example({"i": [n, 300 * n], "s": [b"x" * n]})) for n in range(1, 4)]
    (tmp_path / "fuzzed.tfrecord").write_bytes(b"".join(examples))
    records.write_tar(tar, [("1.jpg", b"1" * 30), ("1.cls", b"c"), ("2.jpg", b"2" * 600)])
    good_tf, good_tar = str(tmp_path / "unfuzzed.tfrecord"), str(tmp_path / "unfuzzed.tar")
    for source, copy in ((tf, good_tf), (tar, good_tar)):
        with open(source, "rb") as file, open(copy, "wb") as other:
            other.write(file.read())
    tf_index, tar_index = str(tmp_path / "fuzzed.idx"), str(tmp_path / "fuzzed.tar.idx")
    write_index(tf, tf_index)
    write_tar_index(tar, tar_index)
    return {
        "npy": (npy, lambda: NumpyReader(files=[npy])),
        "npy region": (npy, lambda: NumpyReader(files=[npy], roi_start=(1, 1), roi_shape=(2, 2))),
        "tfrecord": (tf, lambda: TFRecordReader(path=tf, features=features)),
        "tfrecord index": (tf_index, lambda: TFRecordReader(path=good_tf, index_path=tf_index, features=features)),
        "tar": (tar, lambda: WebdatasetReader(paths=tar, ext=["jpg", "cls"])),
        "tar index": (tar_index, lambda: WebdatasetReader(paths=good_tar, index_paths=tar_index, ext=["jpg", "cls"])),
    }


READERS = ["npy", "npy region", "tfrecord", "tfrecord index", "tar", "tar index"]


@pytest.mark.parametrize("name", READERS)
def test_fuzz_truncated_files_of_the_readers(reader_files, name):
    """Cut at every 64th part, a file is an error with its name, or has whole samples only."""
    path, make = reader_files[name]
    with open(path, "rb") as file:
        data = file.read()
    assert samples_or_error(make)
    for part in range(64):
        with open(path, "wb") as file:
            file.write(data[: len(data) * part // 64])
        if "npy" in name:
            assert not samples_or_error(make)
        else:
            samples_or_error(make)


def test_empty_files_of_every_reader_are_errors_with_their_names(reader_files):
    """Zero bytes are no file of any format."""
    for path, make in reader_files.values():
        os.truncate(path, 0)
        with pytest.raises(BadData, match="fuzzed"):
            make().fetch(0)
