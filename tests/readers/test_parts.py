"""The folder of parts of remote files: every byte is right whatever stops or disturbs the processes that use it."""

import errno
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from pipeflow import system, timing
from pipeflow.saving import extents, parts
from pipeflow.saving.extents import EXTENT, PAGE, Extent, size_of_new, version_of
from pipeflow.saving.parts import KeptParts

ROOM = 1 << 40


class Store:
    """Files with versions; it counts the bytes that were read from it."""

    def __init__(self, seed=0):
        self.rng = np.random.default_rng(seed)
        self.files, self.read = {}, 0

    def put(self, name, size):
        self.files[name] = np.frombuffer(self.rng.bytes(size), np.uint8)

    def version(self, name):
        return version_of(len(self.files[name]), str(int(self.files[name].sum())))

    def check(self, folder, name, begin, length):
        """Reads through a folder; every byte is that of the file."""
        data = self.files[name]

        def fetch(first, count):
            assert first % PAGE == 0
            assert first + count == len(data) or count % PAGE == 0
            self.read += count
            return data[first : first + count].copy()

        found = folder.read(name, self.version(name), begin, length, fetch)
        assert np.array_equal(found, data[begin : begin + length])


def size_of(folder):
    return sum(path.stat().st_size for path in Path(folder).rglob("*-*"))


@pytest.fixture
def store():
    made = Store()
    made.put("a", 3 * PAGE + 5)
    return made


@pytest.fixture
def clock(monkeypatch):
    """Times of last use that differ."""
    now = [10**18]

    def date():
        now[0] += 1000
        return now[0]

    monkeypatch.setattr(timing, "date", date)


def test_any_parts_in_any_order(tmp_path):
    """Random parts of files with sizes around those of pages and extents; what was read once is not read again."""
    store, folder = Store(), KeptParts(str(tmp_path), ROOM)
    for number, size in enumerate([1, PAGE - 1, PAGE, PAGE + 1, 9 * PAGE, EXTENT, EXTENT + 1, 2 * EXTENT + 3 * PAGE]):
        store.put(str(number), size)
    rng = random.Random(1)
    for _ in range(400):
        name = rng.choice(list(store.files))
        size = len(store.files[name])
        begin = rng.randrange(size)
        length = rng.randrange(1, min(size - begin, rng.choice([10, 3 * PAGE, EXTENT, ROOM])) + 1)
        store.check(folder, name, begin, length)
        before = store.read
        store.check(KeptParts(str(tmp_path), ROOM), name, begin, length)
        assert store.read == before
    for name, data in store.files.items():
        store.check(folder, name, 0, len(data))
        version, whole = folder.whole(name)
        assert version == store.version(name)
        assert np.array_equal(whole, data)
    kept = sum(len(data) for data in store.files.values())
    heads = sum(size_of_new(store.version(n), k) for n in store.files for k in range(-(-len(store.files[n]) // EXTENT)))
    assert size_of(tmp_path) == kept + heads
    assert int.from_bytes((folder.folder / "bytes").read_bytes(), "little") == size_of(tmp_path)


def test_absent_pages_between_present_ones_are_read_with_few_requests(tmp_path, store):
    """One request for pages that are near each other, two for others."""
    folder = KeptParts(str(tmp_path), ROOM)
    store.put("a", 200 * PAGE)
    for page in (3, 5, 100, 101, 199):
        store.check(folder, "a", page * PAGE, 1)
    asked = []

    def fetch(begin, count):
        asked.append((begin // PAGE, count // PAGE))
        return store.files["a"][begin : begin + count]

    found = folder.read("a", store.version("a"), 0, 200 * PAGE, fetch)
    assert np.array_equal(found, store.files["a"])
    assert asked == [(0, 199)]
    folder = KeptParts(str(tmp_path / "b"), ROOM)
    store.check(folder, "a", 50 * PAGE, 60 * PAGE)
    del asked[:]
    folder.read("a", store.version("a"), 0, 200 * PAGE, fetch)
    assert asked == [(0, 50), (110, 90)]


def test_empty_files_and_files_that_are_not_there(tmp_path):
    """An empty file is kept as such."""
    folder = KeptParts(str(tmp_path), ROOM)
    assert folder.whole("empty") is None
    folder.keep("empty", version_of(0, "v"), 0, np.empty(0, np.uint8))
    version, data = folder.whole("empty")
    assert (version, len(data)) == (version_of(0, "v"), 0)


def test_another_version_replaces_the_old_one(tmp_path, store):
    """Nothing of the old one is found, also where only one extent was replaced; its bytes are free."""
    folder = KeptParts(str(tmp_path), ROOM)
    store.put("a", 2 * EXTENT)
    store.check(folder, "a", 0, 2 * EXTENT)
    store.put("a", 2 * EXTENT - 7)
    store.check(folder, "a", 5, 10)
    assert folder.whole("a") is None
    before = store.read
    store.check(folder, "a", 0, 2 * EXTENT - 7)
    assert store.read - before == 2 * EXTENT - 7 - PAGE
    assert int.from_bytes((folder.folder / "bytes").read_bytes(), "little") == size_of(tmp_path)


def test_the_least_recently_used_goes_first(tmp_path, store, clock):
    """With room for three files a fourth takes the place of the one that was used longest ago, for all processes."""
    size = 2 * PAGE
    for name in "abcd":
        store.put(name, size)
    each = size + size_of_new(store.version("a"), 0)
    folder, other = (KeptParts(str(tmp_path), 3 * each) for _ in range(2))
    for name in "abc":
        store.check(folder, name, 0, size)
    store.check(other, "a", 7, 8)
    store.check(folder, "d", 0, size)
    assert size_of(tmp_path) == 3 * each
    assert [folder.whole(name) is not None for name in "abcd"] == [True, False, True, True]
    store.check(other, "b", 0, size)  # "a" was looked at above, then "c" and "d"
    assert [folder.whole(name) is not None for name in "abcd"] == [False, True, True, True]


def test_a_smaller_limit_makes_room_when_the_folder_is_opened(tmp_path, store, clock):
    """Each process keeps to its own limit."""
    for name in "abc":
        store.put(name, PAGE)
        store.check(KeptParts(str(tmp_path), ROOM), name, 0, PAGE)
    each = PAGE + size_of_new(store.version("a"), 0)
    small = KeptParts(str(tmp_path), 2 * each)
    assert size_of(tmp_path) == 2 * each
    store.check(small, "a", 0, PAGE)
    assert size_of(tmp_path) == 2 * each


@pytest.mark.parametrize("most", [1, 100, PAGE + 200, 5 * PAGE, 30 * PAGE, EXTENT])
def test_files_larger_than_the_limit(tmp_path, most):
    """Every byte is right, and the folder is never larger than the limit."""
    store, folder = Store(), KeptParts(str(tmp_path), most)
    store.put("a", 40 * PAGE + 1)
    store.put("b", 3 * PAGE)
    rng = random.Random(most)
    for _ in range(150):
        name = rng.choice("aab")
        begin = rng.randrange(len(store.files[name]))
        store.check(folder, name, begin, rng.randrange(1, len(store.files[name]) - begin + 1))
        assert size_of(tmp_path) <= most
    found = folder.counts.sums()
    assert found["bytes_kept"] + found["bytes_not_kept"] == found["bytes_read"]
    assert (found["hits"] + found["misses"]) == 150


class Killed(BaseException):
    pass


class Dying:
    """The module os up to its n-th call that changes a file, of which only a part is done."""

    CHANGES = ("open", "pwrite", "pwritev", "utime", "ftruncate", "close")

    def __init__(self, left):
        self.left = left

    def __getattr__(self, name):
        real = getattr(os, name)
        if name not in self.CHANGES:
            return real

        def call(*arguments, **named):
            self.left -= 1
            if self.left > 0:
                return real(*arguments, **named)
            if self.left == 0 and name == "pwrite":
                real(arguments[0], arguments[1][: len(arguments[1]) // 2], arguments[2])
            if self.left == 0 and name == "pwritev":
                whole = b"".join(map(bytes, arguments[1]))
                os.pwrite(arguments[0], whole[: 2 * len(whole) // 3], arguments[2])
            if name == "close":  # the system closes what a killed process had open
                real(*arguments)
            raise Killed

        return call


def test_killed_at_every_step(tmp_path, monkeypatch, clock):
    """Reading, replacing and making room, stopped at each change of a file: the next process reads right bytes, keeps to
    the limit and counts right again.
    """
    store, steps = Store(), 0
    for name in "abc":
        store.put(name, 3 * PAGE + 1)
    old = store.files["a"]
    new = np.frombuffer(store.rng.bytes(2 * PAGE), np.uint8)
    limit = 2 * (3 * PAGE + 1 + size_of_new(store.version("a"), 0)) + PAGE
    for step in range(1, 200):
        home = tmp_path / str(step)
        store.files["a"] = old
        with monkeypatch.context() as patch:
            dying = Dying(step)
            patch.setattr(extents, "os", dying)
            patch.setattr(parts, "os", dying)
            try:
                first = KeptParts(str(home), limit)
                store.check(first, "a", 0, PAGE)
                store.check(first, "a", 2, 3 * PAGE - 2)
                store.check(first, "b", 0, 3 * PAGE + 1)
                store.files["a"] = new
                store.check(first, "a", 0, PAGE + 1)
                store.check(first, "c", 0, 3 * PAGE + 1)
                steps = step
            except Killed:
                pass
        if steps:
            break
        for _ in range(2):
            folder = KeptParts(str(home), limit)
            for name in "abcab":
                size = len(store.files[name])
                store.check(folder, name, 0, size)
                store.check(folder, name, 7, size - 7)
                assert size_of(home) <= limit
        folder._look()
        assert folder._taken() >= size_of(home)
    assert steps > 30


def test_killed_processes(tmp_path):
    """Four processes read the same files through one small folder and are killed at any time; every byte is right."""
    program = (
        "import random, sys\n"
        "from readers.test_parts import PAGE, KeptParts, Store\n"
        "store = Store(3)\n"
        "for number in range(6): store.put(str(number), (40 + 31 * number) * PAGE + number)\n"
        "folder, rng = KeptParts(sys.argv[1], 400 * PAGE), random.Random(int(sys.argv[2]))\n"
        "for turn in range(10**9):\n"
        "    name = str(rng.randrange(6)); size = len(store.files[name]); begin = rng.randrange(size)\n"
        "    store.check(folder, name, begin, rng.randrange(1, size - begin + 1))\n"
        "    if turn % 50 == 49: print(turn, flush=True)\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}

    def started(number):
        command = [sys.executable, "-c", program, str(tmp_path), str(number)]
        return subprocess.Popen(command, stdout=subprocess.PIPE, env=environment)

    running = [started(number) for number in range(3)]
    for number in range(3, 7):
        for process in running:
            assert process.stdout.readline().strip().isdigit()
        running[0].send_signal(signal.SIGKILL)
        running[0].wait()
        running[0].stdout.close()
        running = [*running[1:], started(number)]
    for process in running:
        assert process.stdout.readline().strip().isdigit()  # it has found no wrong byte
        process.kill()
        process.wait()
        process.stdout.close()
    store, folder = Store(3), KeptParts(str(tmp_path), 400 * PAGE)
    for number in range(6):
        store.put(str(number), (40 + 31 * number) * PAGE + number)
        store.check(folder, str(number), 0, len(store.files[str(number)]))
    folder._note(folder._look())
    assert size_of(tmp_path) <= 400 * PAGE


def test_damaged_files_are_absent(tmp_path):
    """Any byte of the folder changed, any file of it cut or empty: the bytes that are read stay right."""
    store, rng = Store(), random.Random(5)
    for name in "ab":
        store.put(name, 5 * PAGE + 9)
    for turn in range(300):
        folder = KeptParts(str(tmp_path), ROOM)
        for name in "ab":
            store.check(folder, name, 0, 5 * PAGE + 9)
        path = rng.choice([x for x in sorted(tmp_path.rglob("*")) if x.is_file()])
        data = bytearray(path.read_bytes())
        if turn % 3 and data:
            place = rng.choice([rng.randrange(len(data)), rng.randrange(min(100, len(data)))])
            data[place] ^= 1 << rng.randrange(8)
        else:
            del data[rng.randrange(len(data) + 1) :]
        path.write_bytes(data)
        for name in "ab":
            begin = rng.randrange(5 * PAGE)
            store.check(KeptParts(str(tmp_path), ROOM), name, begin, 9)


@pytest.mark.parametrize("call", ["pwritev", "pwrite"])
def test_a_full_disk(tmp_path, monkeypatch, store, call):
    """Nothing more is kept, every byte is right, and what fits again later is kept."""
    folder = KeptParts(str(tmp_path), ROOM)

    def full(descriptor, data, place):
        if call == "pwritev":
            os.pwrite(descriptor, b"".join(map(bytes, data))[:100], place)
            return 100
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os if call == "pwritev" else extents.os, call, full)
        store.check(folder, "a", 0, 3 * PAGE)
        store.check(folder, "a", 0, 3 * PAGE)
    assert folder.counts.sums()["bytes_kept"] == 0
    store.check(folder, "a", 0, 3 * PAGE)
    before = store.read
    store.check(KeptParts(str(tmp_path), ROOM), "a", 0, 3 * PAGE)
    assert store.read == before


def test_a_folder_that_can_only_be_read(tmp_path, monkeypatch, store):
    """What is there is used."""
    store.check(KeptParts(str(tmp_path), ROOM), "a", 0, PAGE)
    real = os.open

    def refused(path, flags, *rest):
        if flags & (os.O_RDWR | os.O_WRONLY | os.O_CREAT):
            raise PermissionError(errno.EACCES, "Permission denied", path)
        return real(path, flags, *rest)

    monkeypatch.setattr(os, "open", refused)
    folder = KeptParts(str(tmp_path), ROOM)
    store.check(folder, "a", 5, 10)
    store.check(folder, "a", PAGE, 10)
    assert {k: v for k, v in folder.counts.sums().items() if v} == {
        "hits": 1,
        "misses": 1,
        "bytes_found": 10,
        "bytes_read": PAGE,
        "bytes_not_kept": PAGE,
    }


def test_a_folder_that_cannot_be_made(tmp_path):
    """It is an error at once."""
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(OSError, match="file"):
        KeptParts(str(tmp_path / "file"), ROOM)


def test_a_process_that_stands_still_with_the_lock_stops_no_other(tmp_path, monkeypatch, store):
    """The bytes are read and not kept."""
    folder = KeptParts(str(tmp_path), ROOM)
    pauses = []
    monkeypatch.setattr(parts.time, "sleep", pauses.append)
    descriptor = os.open(folder.folder / "lock", os.O_RDWR)
    assert system.lock(descriptor)
    store.check(folder, "a", 0, 100)
    assert len(pauses) == parts.TRIES
    assert 0.5 < sum(pauses) < 2
    assert folder.counts.sums()["bytes_not_kept"] == PAGE
    inherited = os.dup(descriptor)  # as a child has it that is forked in the meantime
    system.unlock(descriptor)
    store.check(folder, "a", 0, 100)
    os.close(inherited)
    os.close(descriptor)
    assert folder.counts.sums()["bytes_kept"] == PAGE


def test_other_files_of_the_folder_stay(tmp_path, store):
    """Only extents are removed to make room."""
    folder = KeptParts(str(tmp_path), 2 * PAGE)
    (tmp_path / "mine").write_bytes(bytes(10 * PAGE))
    (folder.folder / "ab").mkdir(exist_ok=True)
    (folder.folder / "ab" / "mine").write_bytes(bytes(10 * PAGE))
    store.put("b", PAGE)
    for name in "abab":
        store.check(folder, name, 0, PAGE)
    assert (tmp_path / "mine").exists()
    assert (folder.folder / "ab" / "mine").exists()


def test_a_reader_keeps_reading_an_extent_that_is_removed(tmp_path, store):
    """An open extent has its bytes until it is closed."""
    folder = KeptParts(str(tmp_path), ROOM)
    store.check(folder, "a", 0, 3 * PAGE)
    with Extent.opened(folder._path("a", 0), "a", 0) as extent:
        folder._remove(folder._path("a", 0))
        data, absent = np.zeros(PAGE, np.uint8), np.ones(1, bool)
        extent.fill(0, data, absent)
    assert not absent.any()
    assert np.array_equal(data, store.files["a"][:PAGE])
