"""URLs that fsspec reads: patterns, parts of files, members of archives, and tries again."""

import io
import zipfile

import numpy as np
import pytest
from PIL import Image

from pipeflow import fn, pipeline_def
from pipeflow.errors import BadData
from pipeflow.operators.readers import remote
from pipeflow.operators.readers.sequence import SequenceReader
from pipeflow.operators.readers.view import OUTSIDE

pytestmark = pytest.mark.adapters


@pytest.fixture
def store(monkeypatch):
    """A file system in memory with three files."""
    import fsspec

    monkeypatch.setattr(remote, "PAUSE", 0)
    monkeypatch.setattr(OUTSIDE, "known", {})
    made = fsspec.filesystem("memory")
    for number in range(3):
        data = io.BytesIO()
        np.save(data, np.arange(number + 1))
        made.pipe_file(f"/folder/{number}.npy", data.getvalue())
    yield made
    made.rm("/folder", recursive=True)


def arrays(files):
    @pipeline_def(batch_size=3, num_threads=2)
    def define():
        return fn.readers.numpy(files=files), fn.readers.file(files=files)[0]

    values, raw = define().run()
    assert [x.tobytes()[:6] for x in raw.samples()] == [b"\x93NUMPY"] * 3
    return [x.tolist() for x in values.samples()]


@pytest.mark.parametrize("files", ["memory://folder/*.npy", "memory://folder/{0..2}.npy"])
def test_patterns_and_braces(store, files):
    assert arrays(files) == [[0], [0, 1], [0, 1, 2]]


def test_nothing_matches(store):
    with pytest.raises(FileNotFoundError, match=r"files: no file matches memory://folder/\*\.txt"):
        arrays("memory://folder/*.txt")


@pytest.mark.parametrize("files", ["zip://*.npy::{}", "zip://{{0..2}}.npy::{}"])
def test_members_of_an_archive(store, tmp_path, files):
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        for number in range(3):
            archive.writestr(f"{number}.npy", store.cat_file(f"/folder/{number}.npy"))
    assert arrays(files.format(tmp_path / "a.zip")) == [[0], [0, 1], [0, 1, 2]]


def test_the_list_of_members_is_read_once(store, tmp_path, monkeypatch):
    """Reading a member opens the archive again only in another process; threads share it."""
    opened = []
    real = zipfile.ZipFile

    def counted(*arguments, **named):
        opened.append(arguments)
        return real(*arguments, **named)

    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        for number in range(40):
            archive.writestr(f"folder/{number:02}.bin", bytes([number]) * 5000)
    monkeypatch.setattr(zipfile, "ZipFile", counted)

    @pipeline_def(batch_size=8, num_threads=4, device_id=None)
    def define():
        return fn.readers.file(files=f"zip://folder/*.bin::{tmp_path}/a.zip")[0]

    found = [x for (batch,) in define().epoch() for x in batch.samples()]
    assert [set(x.tolist()) for x in found] == [{number} for number in range(40)]
    assert len(opened) <= 3  # for the pattern, and once for the members, or by two threads at the same time


def test_folders_of_frames(store):
    """The sub-folders of a URL are videos; other files are left out."""
    for video in "ba":
        for number in range(3):
            data = io.BytesIO()
            Image.fromarray(np.full((3, 4, 3), number + 10 * (video == "b"), np.uint8)).save(data, "PNG")
            store.pipe_file(f"/folder/{video}/{number}.png", data.getvalue())
        store.pipe_file(f"/folder/{video}/notes.txt", b"none")
    reader = SequenceReader(file_root="memory://folder", sequence_length=2)
    assert reader.far
    found = [reader.fetch(index)[0][:, 0, 0, 0].tolist() for index in range(len(reader))]
    assert found == [[0, 1], [1, 2], [10, 11], [11, 12]]


def test_what_fails_is_tried_again(store, monkeypatch):
    faults = [OSError("reset")] * 3
    whole = type(store).cat_file

    def failing(self, *arguments, **keywords):
        if faults:
            raise faults.pop()
        return whole(self, *arguments, **keywords)

    monkeypatch.setattr(type(store), "cat_file", failing)
    assert len(remote.read_whole("memory://folder/0.npy")) == store.size("/folder/0.npy")
    faults += [OSError("reset")] * remote.TRIES
    with pytest.raises(OSError, match=rf"memory://folder/0.npy: reset \({remote.TRIES} tries\)"):
        remote.read_whole("memory://folder/0.npy")


def raw(files, **arguments):
    @pipeline_def(batch_size=3, num_threads=2, device_id=None)
    def define():
        return fn.readers.file(files=files, **arguments)[0]

    pipe = define()
    found = [x.tobytes() for (batch,) in pipe.epoch() for x in batch.samples()]
    return found, [figures.bytes_read for figures in pipe.statistics().caches]


def test_a_cache_compares_the_versions_that_a_file_system_states(store, tmp_path):
    """What did not change is not read again; what changed is, also with the same size, in the same process."""
    cache = {"cache": str(tmp_path)}
    expected = [store.cat_file(f"/folder/{number}.npy") for number in range(3)]
    assert raw("memory://folder/*.npy", **cache)[0] == expected
    assert raw("memory://folder/*.npy", **cache) == (expected, [0])
    expected[1] = expected[1][::-1]
    store.pipe_file("/folder/1.npy", expected[1])
    assert raw("memory://folder/*.npy", **cache) == (expected, [len(expected[1])])


def test_a_file_that_changes_while_it_is_read_is_an_error(store, tmp_path, monkeypatch):
    """Its bytes are not kept under the version that was stated before."""
    real = type(store).cat_file
    monkeypatch.setattr(type(store), "cat_file", lambda *arguments, **keywords: real(*arguments, **keywords) + b"x")
    with pytest.raises(BadData, match=r"1.npy has changed while it was read: it had \d+ bytes, and has \d+"):
        raw("memory://folder/1.npy", cache=str(tmp_path))
    assert not list(tmp_path.rglob("*-*"))


def test_members_of_an_archive_are_cached(store, tmp_path):
    """A new archive in place of the old one is seen by the next pipeline, with a cache and without."""
    archive = tmp_path / "a.zip"
    for contents in ([b"one", b"two"], [b"TWO", b"one", b"three"], [b"TWO", b"ONE", b"three"]):
        with zipfile.ZipFile(archive, "w") as target:
            for number, content in enumerate(contents):
                target.writestr(f"{number}.bin", content)
        url = f"zip://*.bin::{archive}"
        assert raw(url)[0] == contents
        assert raw(url, cache=str(tmp_path / "kept"))[0] == contents
        assert raw(url, cache=str(tmp_path / "kept")) == (contents, [0])
