"""fn.cache: later epochs make nothing and give the same; what is damaged, full or changed is made again."""

import os
import re
import shutil
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest
from helpers import in_time
from pyarrow import parquet
from readers.records import write_tar

from pipeflow import fn, pipeline_def
from pipeflow.executor.runners import kept as kept_steps
from pipeflow.operators.readers.dataset import DatasetReader
from pipeflow.saving import kept
from pipeflow.saving.kept import LINE, Kept

COUNT = 7


class Made:
    """Item i is an array of its own shape; it counts how often it was made."""

    def __init__(self):
        self.made = []

    def __len__(self):
        return COUNT

    def __getitem__(self, index):
        self.made.append(index)
        return np.full((2, 3 + index, 1), index, np.int16), np.array(index)


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    """Caches in memory are in a folder of the test."""
    monkeypatch.setattr(kept, "memory_home", lambda: tmp_path / "memory")
    monkeypatch.setattr(kept_steps, "memory_home", lambda: tmp_path / "memory")
    return tmp_path


def pipeline(data, whole=True, batch_size=3, on_error="raise", order=None, **cache):
    @pipeline_def(batch_size=batch_size, num_threads=2, seed=4, on_error=on_error)
    def define():
        value, label = fn.readers.dataset(dataset=data, num_outputs=2, **(order or {"random_shuffle": True}))
        value = fn.flip(value, horizontal=1)
        if cache and whole:
            value, label = fn.cache([value, label], **cache)
        elif cache:
            value = fn.cache(value, **cache)
        return fn.cast(value, dtype=np.float32) * fn.random.uniform(), label

    return define()


def epoch(pipe):
    return [
        (value.tolist(), int(label)) for batch in pipe.epoch() for value, label in zip(*(x.samples() for x in batch))
    ]


PLACES = {
    "memory": lambda folder: {"memory": 2**20},
    "disk": lambda folder: {"disk": str(folder / "disk"), "key": "numbers"},
    "both": lambda folder: {"memory": 40, "disk": str(folder / "disk"), "key": "numbers"},
}


@pytest.mark.parametrize("place", PLACES)
def test_later_epochs_make_nothing_and_are_the_same(place, home):
    """Every epoch is that of the same pipeline without a cache; once all are kept, none is made."""
    plain, data = pipeline(Made()), Made()
    cached = pipeline(data, **PLACES[place](home))
    for _ in range(2):  # while the last batch of the first epoch is made the first one of the second may be, too
        assert epoch(cached) == epoch(plain)
    assert set(data.made) == set(range(COUNT))
    del data.made[:]
    for _ in range(2):
        assert epoch(cached) == epoch(plain)
    assert data.made == []


def test_the_progress_of_filling_counts_every_sample_once(monkeypatch):
    """It is shown while samples are made, and removed when the first one is found."""
    said = []

    class Shown:
        def __init__(self, *words):
            said.append(words)

        def step(self):
            said.append("step")

        def close(self):
            said.append("close")

    monkeypatch.setattr("pipeflow.executor.runners.kept.Progress", Shown)
    cached = pipeline(Made(), whole=False, memory=2**20)
    epoch(cached)
    epoch(cached)
    assert said[0] == ("fill the cache", COUNT)
    assert said.count("step") == COUNT
    assert said[COUNT + 1] == "close"
    assert said.count(said[0]) == 1


def test_a_cache_of_one_output_leaves_the_reader_to_the_other():
    """What another output needs is still read."""
    data = Made()
    cached, plain = pipeline(data, whole=False, memory=2**20), pipeline(Made())
    for _ in range(2):
        assert epoch(cached) == epoch(plain)
    assert len(data.made) >= 2 * COUNT


def test_what_is_on_disk_serves_the_next_pipeline(home):
    """Another pipeline of the same kind, another order and shard: nothing is made; another key is another cache."""
    place = {"disk": str(home / "disk"), "key": "one"}
    epoch(pipeline(Made(), **place))
    data = Made()
    shards = [pipeline(data, order={"random_shuffle": True, "num_shards": 2, "shard_id": k}, **place) for k in range(2)]
    assert sorted(label for shard in shards for _, label in epoch(shard))[-COUNT:]
    assert data.made == []
    epoch(pipeline(data, **{**place, "key": "two"}))
    assert set(data.made) == set(range(COUNT))


def test_several_processes_share_memory(home):
    """What one has made another one finds, and the last one to close removes the files."""
    first, second = (Kept(home / "memory" / "a", 5, 1000, in_memory=True) for _ in range(2))
    assert first.keep(2, 7, np.arange(3, dtype=np.uint8), "X")
    assert second.find(2, 7) is None
    second.look()
    assert second.find(2, 7) == ((3,), np.dtype(np.uint8), "X")
    assert second.find(2, 8) is None  # made of something else
    second.keep(1, 7, np.zeros((0, 4)), "")
    first.look()
    assert first.find(1, 7) == ((0, 4), np.dtype(float), "")
    first.close()
    array = np.zeros(3, np.uint8)
    second.read(2, array)
    assert array.tolist() == [0, 1, 2]
    second.close()
    assert not (home / "memory" / "a").exists()


def test_a_cache_that_is_collected_while_another_is_opened(home, monkeypatch):
    """The collector closes it in the thread that has the lock of their home: it must not wait for itself."""
    dropped = Kept(home / "memory" / "dropped", 5, 1000, in_memory=True)
    others = Kept._others

    def collect_here(self):
        dropped.close()
        return others(self)

    monkeypatch.setattr(Kept, "_others", collect_here)
    kept = in_time(lambda: Kept(home / "memory" / "next", 5, 1000, in_memory=True))
    assert [path.name for path in (home / "memory").iterdir() if path.is_dir()] == ["next"]
    kept.close()


def test_what_killed_processes_leave_in_memory_is_removed(home):
    """The next cache of the user in memory removes it."""
    code = f"""
import os, numpy as np
from pathlib import Path
from pipeflow.saving.kept import Kept
store = Kept(Path({str(home)!r}) / "memory" / "killed", 5, 1000, in_memory=True)
store.keep(1, 0, np.zeros(3), "")
os.kill(os.getpid(), 9)
"""
    subprocess.run([sys.executable, "-c", code], check=False)
    assert (home / "memory" / "killed").exists()
    Kept(home / "memory" / "next", 5, 1000, in_memory=True).close()
    assert not (home / "memory" / "killed").exists()


def test_no_byte_of_a_damaged_cache_is_believed(home):
    """At every byte of the index and of the samples, changed or cut off: a sample is right or it is not found."""

    def written():
        store = Kept(home / "disk" / "a", 3, None)
        for number in range(3):
            store.keep(number, 5, np.full(4, number + 1, np.uint16), "X")
        store.close()

    def right():
        store = Kept(home / "disk" / "a", 3, None)
        found = 0
        for number in range(3):
            spec = store.find(number, 5)
            if spec is not None:
                assert spec == ((4,), np.dtype(np.uint16), "X")
                value = np.zeros(4, np.uint16)
                store.read(number, value)
                assert (value == number + 1).all()
                found += 1
        store.close()
        return found

    written()
    assert right() == 3
    for path in sorted((home / "disk" / "a").glob("*.[is]*")):
        whole = path.read_bytes()
        for place in range(len(whole)):
            path.write_bytes(whole[:place] + bytes([whole[place] ^ 0x55]) + whole[place + 1 :])
            assert right() < 3
            path.write_bytes(whole[:place])
            assert right() < 3
        path.write_bytes(whole)
    assert len(whole) == 3 * LINE or right() == 3


def test_a_damaged_sample_is_made_and_kept_again(home):
    """The pipeline's epoch is right, and the one after it makes nothing."""
    place = {"disk": str(home / "disk"), "key": "x"}
    expected = epoch(pipeline(Made(), **place))
    place["disk"] = str(shutil.copytree(home / "disk", home / "copy"))  # the threads of the first one may still write
    for path in (home / "copy").glob("*/*.samples"):
        path.write_bytes(bytes(b ^ 1 for b in path.read_bytes()))
    data = Made()
    pipe = pipeline(data, **place)
    assert epoch(pipe) == expected
    assert set(data.made) == set(range(COUNT))
    epoch(pipe)
    del data.made[:]
    epoch(pipe)
    assert data.made == []


def test_limits_hold(home):
    """Memory takes as many as fit, in every epoch the same; a folder drops what no process uses, oldest first."""
    data = Made()
    pipe = pipeline(data, memory=300)
    expected = pipeline(Made())
    for _ in range(3):
        assert epoch(pipe) == epoch(expected)
    del data.made[:]
    assert epoch(pipe) == epoch(expected)
    assert 0 < len(set(data.made)) < COUNT
    assert sum(path.stat().st_size for path in (home / "memory").rglob("*") if path.is_file()) <= 2 * 300

    for number, name in enumerate(["old", "new"]):
        store = Kept(home / "disk" / name, 1, 3000)
        assert store.keep(0, 0, np.zeros(1000, np.uint8), "")
        os.utime(home / "disk" / name / "used", (number, number))
        store.close()
    held = Kept(home / "disk" / "held", 1, 3000)
    assert held.keep(0, 0, np.zeros(1000, np.uint8), "")
    assert not (home / "disk" / "old").exists()
    assert (home / "disk" / "new").exists()
    last = Kept(home / "disk" / "last", 2, 3000)
    assert last.keep(0, 0, np.zeros(1500, np.uint8), "")
    assert not last.keep(1, 0, np.zeros(1500, np.uint8), "")
    assert {x.name for x in (home / "disk").iterdir()} == {"held", "last", "lock"}


def test_room_is_made_only_for_a_sample_that_needs_it(home):
    """While it still fits, no other cache is dropped, though the next look at the folder comes soon."""
    most, sample = 64 * kept._SHARE * LINE, np.zeros(8, np.uint8)
    old = Kept(home / "disk" / "old", 1, most)
    assert old.keep(0, 0, np.zeros(most - 8 * LINE, np.uint8), "")
    old.close()
    new = Kept(home / "disk" / "new", 9, most)
    assert new.keep(0, 0, sample, "")
    assert (home / "disk" / "old").exists()
    assert all(new.keep(number, 0, sample, "") for number in range(1, 9))
    assert not (home / "disk" / "old").exists()


def test_a_full_disk_ends_keeping_and_nothing_else(home, monkeypatch):
    """An error of the system while a sample is written: it is not found later."""
    store = Kept(home / "disk" / "a", 2, None)
    assert store.keep(0, 0, np.zeros(8), "")

    def full(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "pwritev", full)
    assert not store.keep(1, 0, np.zeros(8), "")
    assert store.find(1, 0) is None
    assert store.find(0, 0) is not None


def test_a_file_that_has_changed_is_read_again(home):
    """Files are known by path, size and time of change; no key is needed."""
    for number in range(4):
        np.save(home / f"{number}.npy", np.full(3, number))

    @pipeline_def(batch_size=4, num_threads=2)
    def define():
        return fn.cache(fn.readers.numpy(file_root=str(home), file_filter="*.npy"), disk=str(home / "disk"))

    def values():
        return [int(x[0]) for x in define().run()[0].samples()]

    assert values() == [0, 1, 2, 3]
    time = (home / "2.npy").stat().st_mtime_ns
    np.save(home / "2.npy", np.full(3, 9))
    os.utime(home / "2.npy", ns=(time + 10**9, time + 10**9))
    assert values() == values() == [0, 1, 9, 3]


SHARED = {
    "tar": lambda home: fn.readers.webdataset(paths=f"{home}/*.tar", ext="bin"),
    "a mixture of tars": lambda home: fn.mix([fn.readers.webdataset(paths=f"{home}/{{a,b}}.tar", ext="bin")]),
    "parquet": lambda home: fn.readers.parquet(paths=str(home), columns=["x"]),
}


@pytest.mark.parametrize("kind", SHARED)
def test_files_of_many_samples_that_a_pattern_names_are_read_again(home, kind):
    """Their sizes and times of change are compared; a file that has not changed is not read again."""
    data = home / "data"
    data.mkdir()

    def write(name, values, time):
        write_tar(data / f"{name}.tar", [(f"{number}.bin", bytes([x])) for number, x in enumerate(values)])
        parquet.write_table(pa.table({"x": values}), data / f"{name}.parquet")
        for path in data.glob(f"{name}.*"):
            os.utime(path, (time, time))

    @pipeline_def(batch_size=4, num_threads=1, device_id=None)
    def define():
        return fn.cache(SHARED[kind](data), disk=str(home / "disk"))

    def values():
        return sorted(int(np.ravel(x)[-1]) for x in define().run()[0].samples())

    write("a", [0, 1], 10**9)
    write("b", [2, 3], 10**9)
    assert values() == [0, 1, 2, 3]
    caches = sorted(home.joinpath("disk").iterdir())
    assert values() == [0, 1, 2, 3]
    assert sorted(home.joinpath("disk").iterdir()) == caches
    write("b", [4, 5], 2 * 10**9)
    assert values() == [0, 1, 4, 5]


def test_samples_that_fail_are_not_kept(home):
    """A sample that was left out is tried again in the next epoch."""

    class Failing(Made):
        def __getitem__(self, index):
            value = super().__getitem__(index)
            if index == 3 and self.made.count(3) == 1:
                raise RuntimeError("once")
            return value

    pipe = pipeline(Failing(), on_error="skip", memory=2**20)
    assert sorted(label for _, label in epoch(pipe)) == [0, 1, 2, 4, 5, 6]
    assert sorted(label for _, label in epoch(pipe)) == list(range(COUNT))


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda x: fn.cache(x), "say where samples are kept: memory= a number of bytes, disk= a folder, or both"),
        (lambda x: fn.cache(x, memory=0), "memory must be at least 1, got 0"),
        (lambda x: fn.cache(x, memory=1, disk_bytes=1), "disk_bytes is the limit of a folder"),
        (lambda x: fn.cache(x * fn.random.uniform(), memory=9), "fn.random.uniform before it draws different numbers"),
        (
            lambda x: fn.cache(fn.python_function(x, function=abs), memory=9),
            "fn.python_function before it calls a function",
        ),
        (lambda x: fn.cache(fn.external_source(lambda: [1]), memory=9), "its data comes from fn.external_source"),
        (lambda x: fn.cache(np.zeros(3), memory=9), "its data comes from no reader"),
        (lambda x: fn.cache(x + fn.readers.dataset(dataset=range(3)), memory=9), "from several readers"),
        (
            lambda x: fn.cache(fn.readers.dataset(dataset=Made(), num_outputs=2)[0], disk="folder"),
            "cannot be recognised in a later run: pass key=",
        ),
    ],
)
@pytest.mark.usefixtures("elsewhere")
def test_what_cannot_be_kept(make, text):
    """With what to write instead, when the pipeline is built."""
    data = [np.zeros(3), np.ones(3)]
    with pytest.raises(ValueError, match=re.escape(text)):
        pipeline_def(lambda: make(fn.readers.dataset(dataset=data)), batch_size=2, num_threads=1)().build()


def test_no_cache_in_a_branch():
    """It would keep some samples only; before the condition it keeps all."""

    @pipeline_def(batch_size=2, num_threads=1, enable_conditionals=True)
    def define():
        x = fn.readers.dataset(dataset=range(4))
        if x > 1:
            x = fn.cache(x, memory=99)
        return x

    with pytest.raises(ValueError, match="it is inside a branch: call it before the condition") as caught:
        define().build()
    assert any("test_cache.py" in note for note in caught.value.__notes__)  # the line of the call


def test_no_cache_of_what_a_condition_has_decided():
    """A sample of the reader may be on the other side in the next epoch, so it cannot be found again."""

    @pipeline_def(batch_size=2, num_threads=1, enable_conditionals=True)
    def define():
        value, label = fn.readers.dataset(dataset=Made(), num_outputs=2)
        value = fn.flip(value) if label > 3 else value
        return fn.cache(value, memory=1000)

    with pytest.raises(ValueError, match="before it depends on a condition: call the cache before the condition"):
        define().build()


def test_a_cache_that_is_opened_is_the_last_that_is_dropped(home):
    """Opening counts as a use, whether or not a sample is read."""
    folder = home / "disk" / "a"
    Kept(folder, 1, None).close()
    os.utime(folder / "used", (5, 5))
    Kept(folder, 1, None).close()
    assert (folder / "used").stat().st_mtime > 5


def test_readers_of_files_say_what_they_read():
    """A constant is part of a cache's name by its value."""
    assert kept.contents([1, "a", {"b": np.arange(2)}]) == kept.contents((1, "a", {"b": np.arange(2)}))
    assert kept.contents([1, "a"]) != kept.contents([1, "b"])
    assert kept.contents([object()]) is None
    assert kept.contents(DatasetReader) is None


def test_a_mixture_is_kept_too():
    """Its indices count through all readers, whatever the size of an epoch."""

    def make(**cache):
        @pipeline_def(batch_size=2, num_threads=2, seed=3)
        def define():
            sources = [fn.readers.dataset(dataset=list(np.arange(4) + 10 * k)) for k in range(2)]
            mixed = fn.mix(sources, epoch_size=3, weights=[1, 1])
            return fn.cache(mixed, **cache) if cache else mixed

        pipe = define()
        return [int(x) for _ in range(6) for batch in pipe.epoch() for x in batch[0].samples()]

    assert make(memory=2**20) == make()


def test_a_debug_run_gives_the_same():
    """It makes every sample: there each operator runs by itself."""

    def values(debug):
        @pipeline_def(batch_size=3, num_threads=1, seed=2, debug=debug)
        def define():
            data = fn.readers.dataset(dataset=[np.full(2, n) for n in range(4)], random_shuffle=True)
            return fn.cache(data, memory=2**20) + 1

        return [x.tolist() for batch in define().epoch() for x in batch[0].samples()]

    assert values(debug=True) == values(debug=False)


@pytest.mark.parametrize("how", ["a link", "open to others"])
def test_a_home_in_memory_that_another_user_could_have_made_is_refused(home, how):
    """The folder is in a place where every user can write; a link could lead into the user's own files."""
    if how == "a link":
        (home / "documents").mkdir()
        (home / "memory").symlink_to(home / "documents")
    else:
        (home / "memory").mkdir()
        (home / "memory").chmod(0o770)
    with pytest.raises(PermissionError, match="must be a folder of yours that no other user can open: remove it"):
        pipeline(Made(), memory=2**20).run()
    assert not (home / "documents").exists() or not list((home / "documents").iterdir())
