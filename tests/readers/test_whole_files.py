"""Files that are read in one call for several samples: their bytes, and what is left to the reader of single files."""

import contextlib
import os

import cv2
import numpy as np
import pytest
import simplejpeg

from pipeflow import fn, pipeline_def
from pipeflow.declare import find, registration
from pipeflow.errors import BadData
from pipeflow.executor.runners import chain
from pipeflow.executor.runners.sample import SampleStage
from pipeflow.kernels.cpu import jpeg, jpeg_switch, kernel_calls, start, whole_files
from pipeflow.operators.readers import file
from pipeflow.operators.readers.files import Paths
from pipeflow.operators.readers.reader import reader

pytestmark = [
    pytest.mark.timeout(600),  # the first test compiles the kernel
    pytest.mark.skipif(whole_files.functions() is None, reason="a system without statx"),
]
RNG = np.random.default_rng(11)
files = chain.Chain.files


@pytest.fixture(autouse=True)
def ready(monkeypatch):
    """The kernel is compiled, as it is some seconds after the start of a program."""
    for compiled, signature in kernel_calls.own_kernels():
        compiled.compile(signature)
    monkeypatch.setattr(whole_files, "_compiled", lambda: True)
    monkeypatch.setattr(start.state, "starting", False)


@pytest.fixture
def folder(tmp_path):
    """Files of several sizes: some bytes, none, and many."""
    for number, size in enumerate((100, 0, 70_000, 1, 300_000, 64)):
        (tmp_path / f"{number}.bin").write_bytes(RNG.integers(0, 256, size, np.uint8).tobytes())
    return tmp_path


def names(folder):
    return sorted(str(path) for path in folder.iterdir())


def test_the_bytes_are_those_of_the_files(folder):
    """Also in another order, twice, and if the memory is enough for one file only."""
    paths, rooms = Paths(names(folder)), []

    def room(nbytes):
        rooms.append(nbytes)
        return np.full(nbytes, 7, np.uint8)

    chosen = np.array([4, 2, 2, 0, 1, 5, 3])
    for _ in range(2):
        read = paths.read_files(chosen, room)
        for number, data in zip(chosen, read, strict=True):
            assert data.tobytes() == (folder / f"{number}.bin").read_bytes()
        paths._reading._mean = 1.0
    assert len(rooms) > 2
    assert len(paths.read_files(chosen[:0], room)) == 0


def test_the_addresses_are_those_of_the_bytes(folder):
    """Also of files in several blocks of memory."""
    paths = Paths(names(folder))
    for mean in (1e5, 1.0):
        paths.read_files(np.arange(6), lambda nbytes: np.empty(nbytes, np.uint8))
        paths._reading._mean = mean
        read = paths.read_files(np.arange(6), lambda nbytes: np.empty(nbytes, np.uint8))
        found = [data.__array_interface__["data"][0] for data in read]
        assert all(a == b or not size for a, b, size in zip(found, read.addresses, read.sizes, strict=True))
        assert [data.size for data in read] == read.sizes.tolist()


def test_what_is_no_common_file_is_left(folder):
    """A folder, a device, a pipe, no file, a path with a zero in it, and a very large file; no file stays open."""
    os.mkfifo(folder / "pipe")
    good = str(folder / "0.bin")
    paths = Paths([good, str(folder), "/dev/null", str(folder / "pipe"), "", str(folder / "none"), good + "\0x", good])

    def opened():
        """Those of the test that are open in this process, whose other threads open and close their own."""
        for name in os.listdir("/proc/self/fd"):
            with contextlib.suppress(OSError):
                path = os.readlink(f"/proc/self/fd/{name}")
                if path.startswith(str(folder)) or path == "/dev/null":
                    yield path

    before = sorted(opened())
    read = paths.read_files(np.arange(len(paths)), lambda nbytes: np.empty(nbytes, np.uint8))
    assert [data is None for data in read] == [False, *[True] * 6, False]
    assert sorted(opened()) == before


def test_a_larger_file_than_the_limit_is_left(tmp_path):
    """Its bytes are read by themselves."""
    (tmp_path / "large").touch()
    os.truncate(tmp_path / "large", whole_files.LARGEST + 1)
    (tmp_path / "small").write_bytes(b"abc")
    paths = Paths([str(tmp_path / "large"), str(tmp_path / "small")])
    large, small = paths.read_files(np.arange(2), lambda nbytes: np.empty(nbytes, np.uint8))
    assert large is None
    assert small.tobytes() == b"abc"


@pytest.fixture
def images(tmp_path, monkeypatch):
    """Eight images in a folder, and a decoder that is ready."""
    jpeg.load()
    switch = jpeg_switch.Switch("JPEG files are decoded", "jpeg", jpeg_switch.decoders_agree)
    switch.on = True
    monkeypatch.setattr(jpeg_switch, "decoding", switch)
    for number in range(8):
        pixels = RNG.integers(0, 256, (16 + number, 20, 3), np.uint8)
        (tmp_path / f"{number}.jpg").write_bytes(simplejpeg.encode_jpeg(pixels))
    return tmp_path


def run(folder, listed, with_files, **options):
    """One batch of the images, and of their files if wanted."""

    @pipeline_def(batch_size=len(listed), num_threads=2, device_id=None, **options)
    def pipeline():
        data, labels = fn.readers.file(files=[str(folder / name) for name in listed])
        images = fn.decoders.image(data)
        return (images, labels, data) if with_files else (images, labels)

    pipe = pipeline()
    pipe.build()
    return [[np.array(value) for value in output] for output in pipe.run()]


@pytest.mark.parametrize("with_files", [False, True])
def test_a_pipeline_reads_its_files_in_one_call(images, with_files, monkeypatch):
    """Only the example that is recorded is read by itself; images, labels and files are those of the paths."""
    alone, together, read_file, read_files = [], [], file.read_file, Paths.read_files
    monkeypatch.setattr(file, "read_file", lambda path: alone.append(path) or read_file(path))
    monkeypatch.setattr(Paths, "read_files", lambda *args: together.append(args) or read_files(*args))
    listed = [f"{number}.jpg" for number in (3, 1, 7, 0, 2, 6, 4, 5)]
    results = run(images, listed, with_files)
    assert len(alone) == (0 if with_files else 1)
    assert bool(together) is with_files  # if only the chain needs the bytes, it reads each file before it decodes it
    for number, name in enumerate(listed):
        data = (images / name).read_bytes()
        np.testing.assert_array_equal(results[0][number], simplejpeg.decode_jpeg(data))
        assert results[1][number].tolist() == [number]
        if with_files:
            assert results[2][number].tobytes() == data


def test_what_has_been_read_stays_until_the_chunk_is_done(images, monkeypatch):
    """Also if the files of a chunk need more memory than was expected: later files do not take the place of earlier ones."""
    monkeypatch.setattr(whole_files, "FIRST", 10)
    monkeypatch.setattr(SampleStage, "chunk", lambda self, left, threads, batches: left)
    listed = [f"large{number}.jpg" for number in range(6)]
    for name in listed:
        (images / name).write_bytes(simplejpeg.encode_jpeg(RNG.integers(0, 256, (90, 70, 3), np.uint8)))
    for number, image in enumerate(run(images, listed, False)[0]):
        np.testing.assert_array_equal(image, simplejpeg.decode_jpeg((images / listed[number]).read_bytes()))


def test_a_missing_file_fails_alone(images):
    """The error is that of the reader, for its sample; the others are read."""
    listed = ["0.jpg", "1.jpg", "2.jpg", "3.jpg"]
    (images / "2.jpg").unlink()
    with pytest.raises(FileNotFoundError, match=r"2\.jpg"):
        run(images, listed, False)
    assert len(run(images, listed, True, on_error="skip")[0]) == 3


def test_what_a_chain_cannot_read_is_read_by_the_reader(images, monkeypatch):
    """Very large files, pipes and folders: the results and errors are those of the reader."""
    monkeypatch.setattr(whole_files, "LARGEST", 1 << 16)
    monkeypatch.setattr(whole_files, "FIRST", 64)
    listed = [f"{number}.jpg" for number in range(6)]
    monkeypatch.setattr(SampleStage, "chunk", lambda self, left, threads, batches: left)
    (images / "3.jpg").write_bytes(simplejpeg.encode_jpeg(RNG.integers(0, 256, (300, 300, 3), np.uint8), 95))
    assert (images / "3.jpg").stat().st_size > 1 << 16
    for number, image in enumerate(run(images, listed, False)[0]):
        np.testing.assert_array_equal(image, simplejpeg.decode_jpeg((images / listed[number]).read_bytes()))
    (images / "4.jpg").unlink()
    os.mkfifo(images / "4.jpg")
    (images / "5.jpg").unlink()
    (images / "5.jpg").mkdir()
    for number in (4, 5):
        with pytest.raises(BadData, match="is not a regular file"):
            run(images, listed[:4] + listed[number : number + 1], False)
    assert len(run(images, listed, False, on_error="skip")[0]) == 4


def test_files_of_other_formats_are_not_read_twice_for_ever(images, monkeypatch):
    """If the chain does not describe many of the samples, the reader reads all files again, once each."""
    monkeypatch.setattr(chain, "ENOUGH", 4)
    for number in (1, 2, 5):
        cv2.imwrite(str(images / f"{number}.png"), RNG.integers(0, 256, (9, 8, 3), np.uint8))
    listed = ["0.jpg", "1.png", "2.png", "3.jpg", "5.png", "6.jpg"]
    chains = []
    monkeypatch.setattr(chain.Chain, "files", lambda self, batch: chains.append(self) or files(self, batch))
    for number, image in enumerate(run(images, listed, False)[0]):
        expected = cv2.imdecode(np.frombuffer((images / listed[number]).read_bytes(), np.uint8), cv2.IMREAD_COLOR_RGB)
        np.testing.assert_array_equal(image, expected)
    assert not chains[-1].reads


@pytest.mark.parametrize("threads", [1, 3])
def test_every_batch_has_its_own_files(images, threads):
    """Batches that are made at the same time, in a shuffled order, with more chunks than one."""

    @pipeline_def(batch_size=3, num_threads=threads, device_id=None, seed=4, prefetch_queue_depth=3)
    def pipeline():
        data, labels = fn.readers.file(
            files=[str(images / f"{number}.jpg") for number in range(8)], random_shuffle=True
        )
        return fn.decoders.image(data), labels

    pipe = pipeline()
    pipe.build()
    seen = []
    for _ in range(12):
        for image, label in zip(*pipe.run(), strict=True):
            number = int(np.array(label)[0])
            seen.append(number)
            np.testing.assert_array_equal(image, simplejpeg.decode_jpeg((images / f"{number}.jpg").read_bytes()))
    assert sorted(seen[:8]) == list(range(8))


def test_a_reader_of_the_user_may_have_files(images, monkeypatch):
    """An attribute of this name is its own affair: compiled code reads nothing for it."""
    monkeypatch.setattr(registration, "registry", dict(registration.registry))

    @reader("readers.of_a_test")
    class OfATest:
        """Reads files."""

        def __init__(self, *, root: str) -> None:
            self.files = [f"{root}/{number}.jpg" for number in range(8)]

        def __len__(self) -> int:
            return len(self.files)

        def fetch(self, index: int) -> np.ndarray:
            return np.fromfile(self.files[index], np.uint8)

    @pipeline_def(batch_size=4, num_threads=2, device_id=None)
    def pipeline():
        return fn.decoders.image(find("readers.of_a_test")(root=str(images)))

    pipe = pipeline()
    for _ in range(3):
        for begin, (batch,) in zip((0, 4), pipe.epoch(), strict=True):
            for number, image in enumerate(batch, begin):
                np.testing.assert_array_equal(image, simplejpeg.decode_jpeg((images / f"{number}.jpg").read_bytes()))
