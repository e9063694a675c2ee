"""The fuzzer itself: it finds what it is made to find, keeps the bytes, and goes on where it stopped."""

import io
import json
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from fuzz import __main__ as fuzzer
from fuzz import files, mutators, targets

# Tries numbers without any files: 6 ends the process, 9 stands still, 11 is a defect, 12 stops before it says anything.
PROGRAM = """
import json, mmap, os, struct, sys, time
seed, first, last, step, place = json.loads(sys.argv[1])
with open(place, "r+b") as file:
    state = mmap.mmap(file.fileno(), 16)
for number in range(first, last, step):
    state[:] = struct.pack("<qd", number, time.time())
    if number == 6:
        os.abort()
    if number == 9:
        os.read(os.pipe()[0], 1)
    outcome = "defect" if number == 11 else "accepted"
    print(json.dumps([number, "png", outcome, "why" if number == 11 else ""]), flush=True)
"""


class Planted(fuzzer.Worker):
    """A worker whose mutants are known. For the worker that tries mutant 9, it is late as long as this mutant runs."""

    def clock(self):
        tried, _ = fuzzer._STATE.unpack(self.place.read_bytes())
        return 1e12 if tried == 9 else 0.0

    def command(self, first):
        return [
            sys.executable,
            "-c",
            PROGRAM,
            json.dumps([self.run.seed, first, self.last, self.step, str(self.place)]),
        ]


def test_crashes_hangs_and_defects_are_kept_with_their_bytes(tmp_path):
    """A worker that dies or stands still is replaced behind its mutant; nothing is tried twice or left out."""
    run = fuzzer.supervise(tmp_path, 5, 20, 2, Planted)
    totals = {}
    for (_, outcome), count in run.counts.items():
        totals[outcome] = totals.get(outcome, 0) + count
    assert totals == {"crash": 1, "hang": 1, "defect": 1, "accepted": 17}
    found = sorted(path.name for path in (tmp_path / "found").iterdir())
    kinds = list(targets.TARGETS)
    assert [name for name in found if not name.endswith(".txt")] == [
        "11-png-defect", f"6-{kinds[6]}-crash", f"9-{kinds[9]}-hang"
    ]  # fmt: skip
    assert (tmp_path / "found" / f"6-{kinds[6]}-crash").read_bytes() == fuzzer.made(5, 6)[1]
    text = (tmp_path / "found" / "11-png-defect.txt").read_text()
    assert "python -m fuzz --seed 5 --show 11" in text
    assert "why" in text


def test_a_mutant_whose_outcome_is_known_does_not_stand_still(tmp_path, monkeypatch):
    """Also when its worker took long, and has not said yet which one it tries next."""
    run = fuzzer.Run(tmp_path, 5)
    monkeypatch.setattr(fuzzer.Worker, "start", lambda worker, first: None)
    worker = Planted(run, 0, 1, 20)
    worker.place.write_bytes(fuzzer._STATE.pack(9, 0))
    output = io.BytesIO(b'[9, "png", "accepted", ""]\n')
    worker.process, worker.first, worker.began = SimpleNamespace(poll=lambda: None, stdout=output), 0, 0.0
    worker.look()
    assert run.counts == {("png", "accepted"): 1}
    assert run.next == {0: 10}


def test_a_run_goes_on_in_its_folder(tmp_path):
    """Counts add up, each mutant is tried once; a complete run is followed by a new one; another seed is refused."""

    class Harmless(Planted):
        clock = fuzzer.Worker.clock  # mutant 9 does not stand still

        def command(self, first):
            return [*super().command(first)[:2], PROGRAM.replace("number == 6", "0").replace("number == 9", "0"),
                    super().command(first)[3]]  # fmt: skip

    assert fuzzer.supervise(tmp_path, 5, 10, 2, Harmless).counts == {("png", "accepted"): 10}
    run = fuzzer.supervise(tmp_path, 5, 30, 2, Harmless)
    assert run.counts == {("png", "accepted"): 29, ("png", "defect"): 1}
    assert run.table()[-1].split() == ["all", "30", "29", "0", "0", "1", "0", "0"]
    assert sum(fuzzer.supervise(tmp_path, 5, 30, 2, Harmless).counts.values()) == 30
    with pytest.raises(SystemExit, match="is of a run with seed 5"):
        fuzzer.supervise(tmp_path, 6, 30, 2, Harmless)
    with pytest.raises(SystemExit, match="is of a run with 2 workers"):
        fuzzer.supervise(tmp_path, 5, 30, 3, Harmless)


def test_a_mutant_is_a_function_of_its_number():
    """The same bytes again, also in another process, so that what is found can be looked at."""
    numbers = range(200, 200 + len(targets.TARGETS))
    made = [fuzzer.made(3, number)[1] for number in numbers]
    assert made == [fuzzer.made(3, number)[1] for number in numbers]
    assert len(set(made)) == len(made)
    assert fuzzer.made(4, 200)[1] != made[0]


@pytest.mark.parametrize("kind", targets.TARGETS)
def test_whole_files_are_accepted(kind):
    """What the mutants are made of goes through its target, or else all of them would fail for one reason."""
    for data in fuzzer.corpus(files, targets)[kind]:
        outcomes = set()
        for seed in range(8):
            try:
                outcomes.add(targets.run(kind, data, np.random.default_rng(seed)))
            except targets.Defect as error:
                pytest.fail(f"{kind}: {error}")
        assert "accepted" in outcomes


@pytest.mark.parametrize("kind", ["png", "wav", "webp", "aiff", "tfrecord", "ogg", "tar"])
def test_what_is_taken_apart_is_put_together_again(kind):
    """With nothing changed, lengths and checksums come out as they were."""

    class Still:
        """A generator that wants no change."""

        def random(self):
            return 0.5

        def integers(self, low, high=None):
            return 0

        def bytes(self, count):
            return bytes(count)

    structural = {"wav": mutators.riff, "webp": mutators.riff}.get(kind) or getattr(mutators, kind)
    before = mutators.shuffled, mutators.fields
    mutators.shuffled, mutators.fields = (lambda parts, rng, change: list(parts)), (lambda body, rng, layout: body)
    blind, mutators.blind = mutators.blind, lambda data, *_: bytes(data)
    try:
        for data in fuzzer.corpus(files, targets)[kind]:
            if kind in ("wav", "webp", "aiff") and data[:4] == b"RF64":
                continue
            put = structural(data, Still())
            if kind == "tar":
                assert len(put) == len(data)
            else:
                assert put[12:] == data[12:] or targets.run(kind, put, np.random.default_rng(1)) == "accepted"
    finally:
        (mutators.shuffled, mutators.fields), mutators.blind = before, blind


def test_the_guard_page_is_there():
    """A read behind the last byte ends the process."""
    code = (
        "from fuzz import targets; import ctypes; a = targets.EDGE.place(b'12345'); ctypes.string_at(a.ctypes.data, {})"
    )
    path = {"PYTHONPATH": ":".join(path for path in sys.path if path)}
    for size, expected in ((5, 0), (6, -11)):
        ended = subprocess.run([sys.executable, "-c", code.format(size)], env=path, check=False).returncode
        assert ended == expected
