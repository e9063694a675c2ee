"""The journal of a run: what is in the file, and what a program that was killed gives when it is started again."""

import json
import os
import random
import select
import signal
import subprocess
import sys
import zlib
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import pytest
from helpers import LONG
from loop import journal_jobs
from loop.journal_jobs import check_log, reading, rows, undisturbed

from pipeflow import fn, pipeline_def, system
from pipeflow.errors import InvalidState
from pipeflow.executor import journal as files
from pipeflow.plugin.numpy import GenericIterator
from pipeflow.resume import RunJournal

# The file


STATE = [
    {"epoch": 0, "iteration": 0, "position": 0, "states": {"a": {"offset": 0}}, "failures": None, "loop": {"step": 0}}
]


def after(step):
    return [{**STATE[0], "iteration": step, "states": {"a": {"offset": 4 * step}}, "loop": {"step": step}}]


def written(path, steps):
    """A journal of so many batches that are done, the next one handed out."""
    file = files.JournalFile(path)
    file.begin({"generation": 0, "pipelines": [{}]}, after(0))
    file.handed_out()
    for step in range(1, steps + 1):
        file.done(after(step))
        file.handed_out()
    return file


def sealed(value):
    """A line of a journal."""
    text = json.dumps(value).encode()
    return b"%08x %b\n" % (zlib.crc32(text), text)


def test_a_record_cut_off_at_any_byte_leaves_the_one_before(tmp_path):
    """Whatever part of a record reached the file, the state after one of the last two batches is read."""
    path = tmp_path / "run.journal"
    for steps in (1, 2, 11):
        file = written(path, steps - 1)
        before = path.read_bytes()
        file.done(after(steps))
        file.close()
        now = path.read_bytes()
        assert len(now) == len(before)
        differing = [i for i in range(len(now)) if now[i] != before[i]]
        for cut in range(differing[0], differing[-1] + 1):
            path.write_bytes(now[:cut] + before[cut:])
            found = files.read(path)
            assert found.changing in (after(steps - 1), after(steps))
            assert found.handed_out or found.changing == after(steps)
        path.write_bytes(now)
        assert files.read(path).changing == after(steps)
        path.unlink()


def test_no_damaged_record_is_believed(tmp_path):
    """A wrong byte in the newest record leaves the one before; in the first line it is said, with what to do."""
    path = tmp_path / "run.journal"
    written(path, 3).close()
    whole = path.read_bytes()
    head = whole.index(b"\n") + 1
    for place in range(len(whole)):
        damaged = bytearray(whole)
        damaged[place] ^= 4
        path.write_bytes(damaged)
        if place < head:
            with pytest.raises(files.Damaged, match="remove it to begin the run again"):
                files.read(path)
        else:
            assert files.read(path).changing in (after(2), after(3))


def test_nothing_whole_is_said(tmp_path):
    """Cut off in the middle, or another file: the message says what to do. An empty file is a new journal."""
    path = tmp_path / "run.journal"
    written(path, 3).close()
    whole = path.read_bytes()
    path.write_bytes(whole[: whole.index(b"\n") + 20])
    with pytest.raises(files.Damaged, match="it has no complete record: remove it"):
        files.read(path)
    path.write_text("something else")
    with pytest.raises(files.Damaged, match="is not a journal of a pipeline"):
        files.read(path)
    path.write_text("")
    assert files.read(path) is None
    assert len(list(reading().epoch(journal=path))) == 14


@pytest.mark.parametrize(
    "change",
    [{"generation": None}, {"generation": 1.5}, {"pipelines": 3}, {"pipelines": [3]}, {"place": -1}, {"kind": "list"}],
)
def test_a_forged_head_is_refused_by_name(tmp_path, change):
    """A right checksum does not make a journal of it."""
    path = tmp_path / "run.journal"
    written(path, 3).close()
    head, _, rest = path.read_bytes().partition(b"\n")
    path.write_bytes(sealed({**json.loads(head[9:]), **change}) + rest)
    with pytest.raises(files.Damaged, match=f"{path} is not a journal of a pipeline"):
        files.read(path)
    path.write_bytes(sealed([]) + rest)
    with pytest.raises(files.Damaged, match=f"{path} is not a journal of a pipeline"):
        files.read(path)


@pytest.mark.parametrize("record", [3, [], [1], ["1", after(1)], [1, 2], [1, [2]], [1, after(1), 3]])
def test_a_forged_record_is_none(tmp_path, record):
    """It counts as cut off."""
    path = tmp_path / "run.journal"
    place = sealed(record)[:-1] + b"."
    head = {"kind": files.KIND, "format": files.FORMAT, "place": len(place), "generation": 0, "pipelines": []}
    path.write_bytes(sealed(head) + place + place)
    with pytest.raises(files.Damaged, match="it has no complete record"):
        files.read(path)


@pytest.mark.parametrize("change", ["failures", "epoch", None])
def test_a_forged_record_that_lacks_something_is_refused_by_name(tmp_path, change):
    """A field of the state, or the state of a pipeline."""
    path = tmp_path / "run.journal"
    stopped(path, 2)
    found = files.read(path)
    states = [{name: value for name, value in state.items() if name != change} for state in found.changing]
    record = sealed([1, states if change else []])[:-1] + b"."
    path.write_bytes(sealed({**found.fixed, "place": len(record)}) + record + record)
    with pytest.raises(InvalidState, match=f"{path} is damaged: its newest record lacks .*{change or 'a pipeline'}"):
        reading().epoch(journal=path)


def test_the_file_stays_small_however_long_the_run(tmp_path):
    """It never exceeds 2 kB, and nothing else is left beside it."""
    path = tmp_path / "run.journal"
    pipe, largest = reading(), 0
    for _ in range(20):
        for _ in pipe.epoch(journal=path):
            largest = max(largest, path.stat().st_size)
    assert 0 < largest < 2048
    assert [entry.name for entry in tmp_path.iterdir()] == ["run.journal"]


def test_records_that_outgrow_their_places_are_kept(tmp_path):
    """A state that becomes larger than any before is written to a larger file."""
    path = tmp_path / "run.journal"
    file = written(path, 2)
    larger = [{**after(3)[0], "states": {"a": {"list": list(range(100))}}}]
    file.done(larger)
    file.handed_out()
    found = files.read(path)
    assert (found.changing, found.handed_out) == (larger, True)
    file.done(after(4))
    found = files.read(path)
    assert (found.changing, found.handed_out) == (after(4), False)


# Going on


def stopped(path, after_batches, **arguments):
    """The batches that a program gives before it is dropped in the middle; the last one is not done."""
    pipe = reading(**arguments)
    given = []
    for batch in pipe.epoch(journal=path):
        given.append(rows(batch))
        if len(given) == after_batches:
            break
    del pipe
    return given


def test_a_program_that_is_started_again_goes_on(tmp_path):
    """The batch that was not done comes again, says so, and the rest is equal to an undisturbed run."""
    (expected,) = undisturbed()
    for count in (*range(1, len(expected), 3), len(expected)):
        path = tmp_path / f"{count}.journal"
        assert stopped(path, count) == expected[:count]
        pipe, given, again = reading(threads=1), [], []
        loop = pipe.epoch(journal=str(path))
        for batch in loop:
            given.append(rows(batch))
            again.append(loop.again)
        assert given == expected[count - 1 :]
        assert again == [True] + [False] * (len(expected) - count)


def test_a_batch_counts_as_done_when_the_next_one_is_asked_for(tmp_path):
    """Not when it is handed out: what happens to it afterwards is part of the work."""
    path = tmp_path / "run.journal"
    loop = reading().epoch(journal=path)
    next(loop)
    assert files.read(path).changing[0]["iteration"] == 0
    assert files.read(path).handed_out
    next(loop)
    assert files.read(path).changing[0]["iteration"] == 1


def test_the_same_program_runs_through_its_epochs_once(tmp_path):
    """Passes over epochs that were finished give nothing, so that a loop over epochs stays as it is."""
    path = tmp_path / "run.journal"
    expected = undisturbed(epochs=3)
    flat = [batch for epoch in expected for batch in epoch]
    given = []
    for stop in (5, 20, 14, 3, 10**6):
        pipe, count = reading(), 0
        for _ in range(3):
            for batch in pipe.epoch(journal=path):
                given.append(rows(batch))
                count += 1
                if count == stop:
                    break
            if count == stop:
                break
        del pipe
        if stop != 10**6:
            given.pop()  # it was not done, and comes again
    assert given == flat
    again = reading()
    assert [list(again.epoch(journal=path)) for _ in range(3)] == [[], [], []]
    assert len(list(again.epoch(journal=path))) == len(expected[0])


@pytest.mark.parametrize("auto_reset", [False, True])
def test_iterators_keep_a_journal(tmp_path, auto_reset):
    """The same for adapters, with and without resets by hand, several pipelines included."""

    def program(path, stop):
        pipes = [reading(shard, 2) for shard in range(2)]
        loader = GenericIterator(pipes, ["x", "y"], reader_name="numbers", auto_reset=auto_reset, journal=path)
        given = []
        for _ in range(2):
            for batches in loader:
                given.append([batch["x"].tolist() for batch in batches])
                if len(given) == stop:
                    return given
            if not auto_reset:
                loader.reset()
        return given

    expected = program(tmp_path / "whole", 10**6)
    for stop in range(1, len(expected) + 1):
        path = tmp_path / f"{stop}.journal"
        assert program(path, stop) == expected[:stop]
        assert program(path, 10**6) == expected[stop - 1 :]


def test_a_failed_batch_that_ends_the_program_comes_again(tmp_path):
    """An exception is given in place of a batch: it is done when the loop goes on."""
    path, broken = tmp_path / "run.journal", {9}

    def check(x):
        if int(x) in broken:
            raise ValueError("no good")
        return x

    @pipeline_def(batch_size=4, num_threads=1, device_id=None, seed=7)
    def define():
        return fn.python_function(fn.readers.dataset(dataset=list(range(20)), name="numbers"), function=check)

    given = []

    def program():
        for (batch,) in define().epoch(journal=path):
            given.append(batch.as_array().ravel().tolist())

    with pytest.raises(ValueError, match="no good"):
        program()
    assert given == [[0, 1, 2, 3], [4, 5, 6, 7]]
    broken.clear()
    given.clear()
    program()
    assert given == [[8, 9, 10, 11], [12, 13, 14, 15], [16, 17, 18, 19]]


@pytest.mark.skipif(system.fcntl is None, reason="this system has no locks on files")
def test_two_programs_cannot_share_a_journal(tmp_path):
    """The second is refused while the first has it."""
    path = tmp_path / "run.journal"
    first = reading()
    loop = first.epoch(journal=path)
    next(loop)
    with pytest.raises(InvalidState, match="is in use by another pipeline"):
        reading().epoch(journal=path)
    del loop, first
    next(reading().epoch(journal=path))


def test_a_journal_that_was_only_opened_is_free_again_after_close(tmp_path):
    """The lock of a journal is held from `open` to `close`, with or without a new record."""
    path = tmp_path / "run.journal"
    written(path, 2).close()
    file = files.JournalFile(path)
    file.open()
    with pytest.raises(InvalidState, match="is in use by another pipeline"):
        files.JournalFile(path).open()
    file.close()
    assert files.JournalFile(path).open().changing == after(2)


def test_a_journal_of_another_pipeline_is_refused(tmp_path):
    """The message says what differs, which file it is and what to do."""
    path = tmp_path / "run.journal"
    stopped(path, 2)

    @pipeline_def(batch_size=4, num_threads=1, device_id=None, seed=7)
    def other():
        return fn.random.uniform(), fn.random.normal()

    with pytest.raises(InvalidState, match="the checkpoint is of another pipeline") as caught:
        other().epoch(journal=path)
    assert f"while reading the journal {path}; remove it to begin the run again" in caught.value.__notes__


def test_every_record_can_reach_the_disk(tmp_path, monkeypatch):
    """With fsync each record is stored before the next batch is made."""
    calls = []
    monkeypatch.setattr(files.os, "fsync", calls.append)
    pipe = reading()
    batches = sum(1 for _ in pipe.epoch(journal=RunJournal(tmp_path / "run.journal", fsync=True)))
    assert len(calls) >= 2 * batches
    calls.clear()
    list(reading().epoch(journal=tmp_path / "other.journal"))
    assert len(calls) == 2  # the new file and its folder, once


# Several ranks


def ranks_until(folder, shards, steps):
    """What the ranks of a job give: rank r stops after steps[r] batches, the last of which is not done."""
    given = []
    for shard in range(shards):
        pipe, batches = reading(shard, shards, threads=1), []
        for batch in pipe.epoch(journal=folder / "run.journal"):
            batches.append(rows(batch))
            if len(batches) == steps[shard]:
                break
        given.append(batches)
        del pipe
    return given


def test_each_rank_keeps_a_journal_of_its_own(tmp_path):
    """Ranks that stopped at different batches each go on with their own next one."""
    whole = [undisturbed(shard=shard, shards=3)[0] for shard in range(3)]
    assert ranks_until(tmp_path, 3, [2, 4, 1]) == [whole[0][:2], whole[1][:4], whole[2][:1]]
    assert ranks_until(tmp_path, 3, [99] * 3) == [whole[0][1:], whole[1][3:], whole[2][:]]
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"run.journal.{shard}-of-3" for shard in range(3)]


@pytest.mark.parametrize("chain", [(3, 2), (2, 3, 1), (1, 4, 2, 4)])
def test_a_job_goes_on_with_another_number_of_ranks(tmp_path, chain):
    """Where all ranks stopped at the same batch: every sample comes once, with its own random number."""
    expected = sorted(row for batch in undisturbed()[0] for row in batch)
    found = []
    for place, shards in enumerate(chain):
        last = place == len(chain) - 1
        parts = ranks_until(tmp_path, shards, [99 if last else 2] * shards)
        for batches in parts:
            found += [row for batch in (batches if last else batches[:-1]) for row in batch]
    assert len(set(found)) == len(expected)
    assert sorted(set(found)) == expected


def test_ranks_at_different_batches_cannot_be_resharded(tmp_path):
    """The message says how to get on."""
    ranks_until(tmp_path, 2, [2, 4])
    with pytest.raises(
        InvalidState, match=r"stopped after different batches \(\[1, 3\] of their epoch\): start again with 2"
    ):
        reading(0, 3).epoch(journal=tmp_path / "run.journal")
    os.remove(tmp_path / "run.journal.1-of-2")
    with pytest.raises(InvalidState, match="a job with 2 shards, and only 1 of their journals are there"):
        reading(0, 3).epoch(journal=tmp_path / "run.journal")


def test_an_order_that_cannot_be_resharded_says_so(tmp_path):
    """Contiguous shards belong to their number of shards."""

    def contiguous(shard, shards):
        @pipeline_def(batch_size=2, num_threads=1, device_id=None)
        def define():
            return fn.readers.dataset(dataset=list(range(20)), shard_id=shard, num_shards=shards)

        return define()

    for shard in range(2):
        loop = contiguous(shard, 2).epoch(journal=tmp_path / "run.journal")
        next(loop), next(loop)
    with pytest.raises(ValueError, match="contiguous shards can only be taken up by as many shards as before"):
        contiguous(0, 4).epoch(journal=tmp_path / "run.journal")


# Killed at random


@pytest.fixture(scope="module")
def programs():
    """Starts programs, each in a process of its own."""
    if not system.HAS_FORK:
        pytest.skip("this system cannot fork")
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    command = [sys.executable, journal_jobs.__file__]
    server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0, env=environment)
    yield server
    server.stdin.close()
    server.stdout.close()
    server.wait(LONG)


def run_killed(programs, folder, random_numbers, shards=1, processes=False):
    """Kills the programs of all ranks at random instants until each has ended by itself; the number of kills.

    Half of the instants are counted from the start of the program, half from its first batch: a program with worker
    processes needs much longer to its first batch than from there to its end.
    """
    kills = 0
    for shard in range(shards):
        longest = 0.05
        while True:
            arguments = [str(folder / "run.journal"), str(folder / f"log{shard}"), shard, shards, processes]
            programs.stdin.write(json.dumps(arguments).encode() + b"\n")
            child = int(programs.stdout.readline())
            answer = programs.stdout.readline() if random_numbers.random() < 0.5 else b"begun\n"
            instant = random_numbers.uniform(0, longest)
            if answer == b"begun\n" and not select.select([programs.stdout], [], [], instant)[0]:
                with suppress(ProcessLookupError):  # it has just ended by itself
                    os.kill(child, signal.SIGKILL)
            while answer == b"begun\n":
                answer = programs.stdout.readline()
            status = int(answer)
            if os.WIFEXITED(status):
                assert os.WEXITSTATUS(status) == 0
                break
            kills += 1
            longest *= 1.2  # on a busy machine a program needs longer to get anywhere
    return kills


@pytest.mark.parametrize("processes", [False, True], ids=["threads", "processes"])
def test_killed_jobs_lose_nothing_and_repeat_nothing_that_is_done(programs, tmp_path, processes):
    """Programs over two epochs, killed by SIGKILL at random instants and started again until they end."""
    random_numbers, kills = random.Random(11), 0
    for number in range(50):
        folder = tmp_path / str(number)
        folder.mkdir()
        kills += run_killed(programs, folder, random_numbers, processes=processes)
        check_log(folder / "log0")
        if kills >= (1 if processes else 8):
            return
    pytest.fail(f"{kills} kills in 50 programs")


def test_killed_ranks_lose_nothing(programs, tmp_path):
    """The same for the ranks of a job, each with its own journal."""
    random_numbers = random.Random(12)
    for number in range(2):
        folder = tmp_path / str(number)
        folder.mkdir()
        run_killed(programs, folder, random_numbers, shards=3)
        for shard in range(3):
            check_log(folder / f"log{shard}", shard, 3)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_three_hundred_killed_jobs(programs, tmp_path):
    """The same at full count."""
    random_numbers, kills = random.Random(13), 0
    for number in range(300):
        folder = tmp_path / str(number)
        folder.mkdir()
        shards = random_numbers.choice([1, 1, 2])
        kills += run_killed(programs, folder, random_numbers, shards=shards, processes=number % 10 == 9)
        for shard in range(shards):
            check_log(folder / f"log{shard}", shard, shards)
    assert kills > 300


def test_a_batch_that_is_done_does_not_come_again():
    """Only the one that was handed out when the program ended did."""
    journal, records = object.__new__(RunJournal), []
    journal._file, journal.again = SimpleNamespace(done=records.append), True
    journal.done([])
    assert (journal.again, records) == (False, [[]])
