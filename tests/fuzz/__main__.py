"""Runs damaged files of every kind through the readers and decoders, in processes that may die of them.

    python -m fuzz --mutants 200000 --folder fuzz-run     (again with the same folder: goes on where it stopped)
    python -m fuzz --show 12345                           (what mutant 12345 is, and what comes of it)

Mutant n is a function of the seed and n alone. Each worker takes every n-th one, writes into shared memory which it is
about to try, and is replaced when it dies or stands still. What is wrong is kept in the folder: the bytes, and why.
"""

import argparse
import collections
import json
import mmap
import os
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

PATIENCE = 30.0  # seconds that a mutant may take
# Kinds whose mutator has their name.
STRUCTURAL = ("jpeg", "png", "bmp", "pnm", "tiff", "gif", "jp2", "flac", "ogg", "aiff", "tar", "lmdb", "fits",
              "recordio", "journal", "nifti")  # fmt: skip
_STATE = struct.Struct("<qd")  # the mutant that is being tried, and since when


def made(seed, number):
    """(kind, bytes, the generator for what is done with them) of a mutant."""
    from fuzz import files, mutators, targets

    rng = np.random.default_rng([seed, number])
    kinds = list(targets.TARGETS)
    kind = kinds[number % len(kinds)]
    whole = corpus(files, targets)[kind]
    data = mutators.pick(rng, whole)
    structural = {
        **{name: getattr(mutators, name) for name in STRUCTURAL},
        "webp": mutators.riff, "wav": mutators.riff, "npy": mutators.npy, "tfrecord": mutators.tfrecord,
        "manifest": mutators.json_lines,
        **dict.fromkeys(("checkpoint", "graph", "coco"), mutators.json_text),
        **dict.fromkeys(("tar index", "tfrecord index", "recordio index", "file_list"), mutators.text),
    }.get(kind)  # fmt: skip
    if structural is not None and rng.random() < 0.65:
        data = structural(data, rng)
        if kind == "checkpoint" and rng.random() < 0.9:
            data = targets.sealed(data)
    else:
        data = mutators.blind(data, rng, whole)
    return kind, data, rng


_CORPUS = {}


def corpus(files, targets):
    """Whole files of every kind."""
    if not _CORPUS:
        _CORPUS.update(
            files.FILES,
            checkpoint=[targets.state_text()],
            graph=[targets.graph_text()],
            journal=[targets.journal_bytes()],
        )
    return _CORPUS


# ----------------------------------------------------------------------------------------------------
# The worker


def warm_up():
    """Reads the whole files, so that what is compiled on the way does not count as time of a mutant."""
    from fuzz import files, targets

    for kind, whole in corpus(files, targets).items():
        for number, data in enumerate(whole):
            targets.run(kind, data, np.random.default_rng(number))


def work(seed, first, last, step, place):
    """Tries the mutants first, first + step, ... below last; prints an outcome a line."""
    from fuzz import targets

    with open(place, "r+b") as file:
        state = mmap.mmap(file.fileno(), _STATE.size)
    warm_up()
    for number in range(first, last, step):
        state[:] = _STATE.pack(number, time.time())
        kind, data, rng = made(seed, number)
        try:
            outcome, reason = targets.run(kind, data, rng), ""
        except targets.Defect as error:
            outcome, reason = "defect", str(error)
        print(json.dumps([number, kind, outcome, reason]), flush=True)
    state[:] = _STATE.pack(-1, time.time())
    targets.close()


# ----------------------------------------------------------------------------------------------------
# The supervisor


class Run:
    """What is known of a run, kept in a folder so that it can go on."""

    def __init__(self, folder, seed, workers=1):
        self.folder = Path(folder)
        (self.folder / "found").mkdir(parents=True, exist_ok=True)
        self.path = self.folder / "progress.json"
        self.seed, self.counts, self.seconds = seed, collections.Counter(), 0.0
        self.next = {index: index for index in range(workers)}
        if self.path.exists():
            kept = json.loads(self.path.read_text())
            if kept["seed"] != seed:
                raise SystemExit(
                    f"{self.path} is of a run with seed {kept['seed']}: give another folder, or --seed {kept['seed']}"
                )
            if len(kept["next"]) != workers:
                raise SystemExit(
                    f"{self.path} is of a run with {len(kept['next'])} workers: give --workers {len(kept['next'])}"
                )
            self.next = {int(worker): number for worker, number in kept["next"].items()}
            self.counts.update({tuple(name.split("|")): count for name, count in kept["counts"].items()})
            self.seconds = kept["seconds"]

    def note(self, number, kind, outcome, reason):
        """Counts an outcome; keeps the bytes of what is wrong."""
        self.counts[kind, outcome] += 1
        if outcome in ("accepted", "refused"):
            return
        name = f"{number}-{kind.replace(' ', '_')}-{outcome}"
        try:
            (self.folder / "found" / name).write_bytes(made(self.seed, number)[1])
        except Exception as error:  # the mutator itself
            reason = f"{reason}; cannot be made again: {error!r}"
        (self.folder / "found" / f"{name}.txt").write_text(
            f"python -m fuzz --seed {self.seed} --show {number}\n{reason}\n"
        )

    def save(self):
        text = json.dumps({
            "seed": self.seed, "next": self.next, "seconds": self.seconds,
            "counts": {"|".join(name): count for name, count in sorted(self.counts.items())},
        })  # fmt: skip
        partial = self.path.with_suffix(".part")
        partial.write_text(text)
        os.replace(partial, self.path)

    def table(self):
        """The outcomes of every kind, as lines of text."""
        outcomes = ["accepted", "refused", "differs", "defect", "crash", "hang"]
        kinds = sorted({kind for kind, _ in self.counts})
        rows = [(kind, *(self.counts[kind, outcome] for outcome in outcomes)) for kind in kinds]
        rows.append(("all", *(sum(row[i] for row in rows) for i in range(1, 7))))
        lines = [f"{'kind':16s}{'mutants':>9s}" + "".join(f"{name:>10s}" for name in outcomes)]
        lines += [f"{row[0]:16s}{sum(row[1:]):9d}" + "".join(f"{n:10d}" for n in row[1:]) for row in rows]
        return lines


class Worker:
    """A process that tries its share of the mutants, and the next one when it dies."""

    def __init__(self, run, index, step, last):
        self.run, self.index, self.step, self.last = run, index, step, last
        self.place = run.folder / f"worker{index}.state"
        self.place.write_bytes(_STATE.pack(-1, 0))
        self.rest, self.process = b"", None
        self.start(run.next.get(index, index))

    def start(self, first):
        if self.process is not None:
            self.process.stdout.close()
        self.first, self.process = first, None
        if first >= self.last:
            return
        self.process = subprocess.Popen(self.command(first), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        os.set_blocking(self.process.stdout.fileno(), False)
        self.began = self.clock()

    def clock(self):
        """The time, by which a mutant is too slow."""
        return time.time()

    def command(self, first):
        """What to run."""
        share = json.dumps([self.run.seed, first, self.last, self.step, str(self.place)])
        return [sys.executable, "-m", "fuzz", "--work", share]

    def look(self):
        """Takes what the process has printed; replaces it when it has died or stands still."""
        if self.process is None:
            return
        # The clock comes first: what is read afterwards is as new or newer, so no mutant seems late that is not.
        now, ended = self.clock(), self.process.poll()
        lines = (self.rest + (self.process.stdout.read() or b"")).split(b"\n")
        self.rest = lines.pop()
        for line in lines:
            number, kind, outcome, reason = json.loads(line)
            self.run.note(number, kind, outcome, reason)
            self.run.next[self.index] = number + self.step
        number, since = _STATE.unpack(self.place.read_bytes())
        following = self.run.next.get(self.index, self.first)
        # One whose outcome has been read is not tried any more, though the worker has not said what it tries next.
        stuck = ended is None and now - max(since, self.began) > PATIENCE and number >= following
        if stuck:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()
        if ended is None and not stuck:
            return
        if stuck or ended != 0:
            if number < following:
                raise SystemExit(f"a worker ended with {ended} before it tried anything")
            kind = _kind(number)
            self.run.note(
                number,
                kind,
                "hang" if stuck else "crash",
                f"after {PATIENCE} s" if stuck else f"the process ended with {ended}",
            )
            self.run.next[self.index] = number + self.step
        self.rest = b""
        self.start(self.run.next.get(self.index, self.last))


def _kind(number):
    from fuzz import targets

    return list(targets.TARGETS)[number % len(targets.TARGETS)]


def supervise(folder, seed, mutants, workers, make=Worker):
    """Runs mutants 0 to `mutants`, or those that an earlier run in this folder left; returns the Run."""
    run = Run(folder, seed, workers)
    if min(run.next.values()) >= mutants:
        run.path.unlink()  # that one was complete: this is another one
        run = Run(folder, seed, workers)
    crew = [make(run, index, workers, mutants) for index in range(workers)]
    began, saved, before = time.time(), time.time(), run.seconds
    try:
        while any(worker.process for worker in crew):
            for worker in crew:
                worker.look()
            time.sleep(0.05)
            run.seconds = before + time.time() - began
            if time.time() - saved > 5:
                run.save()
                saved = time.time()
    finally:
        for worker in crew:
            if worker.process is not None:
                worker.process.kill()
                worker.process.wait()
                worker.process.stdout.close()
        run.seconds = before + time.time() - began
        run.save()
    return run


def show(seed, number):
    """Tries one mutant here, whatever it does to this process."""
    from fuzz import targets

    kind, data, rng = made(seed, number)
    print(f"mutant {number}: {kind}, {len(data)} bytes: {data[:200]!r}", flush=True)
    try:
        print(targets.run(kind, data, rng))
    finally:
        targets.close()


def main():
    parser = argparse.ArgumentParser(prog="fuzz", description=__doc__.splitlines()[0])
    parser.add_argument("--mutants", type=int, default=20_000)
    parser.add_argument("--folder", default="fuzz-run", help="progress and what is found; a run goes on in its folder")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=min(os.cpu_count() or 1, 8))
    parser.add_argument("--show", type=int, help="try this mutant only, in this process")
    parser.add_argument("--work", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.work:
        return work(*json.loads(given.work))
    if given.show is not None:
        return show(given.seed, given.show)
    run = supervise(given.folder, given.seed, given.mutants, given.workers)
    print("\n".join(run.table()))
    print(f"{run.seconds:.0f} s; what is wrong is in {run.folder / 'found'}")
    wrong = sum(count for (_, outcome), count in run.counts.items() if outcome in ("defect", "crash", "hang"))
    return min(wrong, 1)


if __name__ == "__main__":
    sys.exit(main())
