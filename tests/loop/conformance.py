"""What every pipeline that can be checkpointed promises, as one function.

A *case* is a function of keyword settings that returns a pipeline with checkpointing. `check_resume` runs two epochs
of it, takes a checkpoint after every batch, and demands that a pipeline made anew and restored from it gives exactly
the rest, at any prefetch depth. `Killed` does the same for many cases at once in two further processes: one runs all
of them side by side and is killed in the middle with batches in flight, another one continues from each checkpoint
that the first had written down.
"""

import hashlib
import json
import os
import signal
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

from helpers import LONG

ROOT = Path(__file__).parents[2]
DEPTHS = (1, 2, 5)
END = "end of epoch"


def digest(batch):
    """A batch as one number: every output's shapes, types, bytes."""
    found = hashlib.blake2b(digest_size=12)
    for output in batch:
        for sample in output.samples():
            found.update(f"{sample.shape} {sample.dtype}".encode() + sample.tobytes())
        found.update(b"|")
    return found.hexdigest()


def walk(pipeline, epochs=2):
    """The batches of some epochs and their ends, each followed by the checkpoint after it."""
    for _ in range(epochs):
        for batch in pipeline.epoch():
            yield digest(batch), pipeline.checkpoint().decode()
        yield END, pipeline.checkpoint().decode()


def rest(pipeline, loops):
    """What a restored pipeline still gives in so many loops over epochs."""
    given = []
    for _ in range(loops):
        given += [digest(batch) for batch in pipeline.epoch()]
        given.append(END)
    return given


def check_resume(make, depths=DEPTHS, every=1, largest=2048):
    """Resumes at every step of two epochs, at every prefetch depth, in this process; returns the batches."""
    reference = [batch for batch, _ in walk(make(prefetch_queue_depth=2))]
    assert reference.count(END) == 2
    assert len(reference) >= 6, "an epoch of one batch proves little"
    for turn, depth in enumerate(depths):
        steps = list(walk(make(prefetch_queue_depth=depth)))
        assert [batch for batch, _ in steps] == reference, f"prefetch depth {depth} changes the batches"
        for number, (_, text) in enumerate(steps[:-1]):
            assert len(text) < largest, f"a checkpoint of {len(text)} bytes"
            if number % every:
                continue
            expected = reference[number + 1 :]
            other = depths[(number + turn) % len(depths)]
            restored = make(prefetch_queue_depth=other, num_threads=1 + number % 2, checkpoint=text)
            assert rest(restored, expected.count(END)) == expected, f"resuming after step {number} at depth {depth}"
            live = make(prefetch_queue_depth=depth)
            next(live.epoch())
            live.load_state_dict(json.loads(text))
            assert rest(live, expected.count(END)) == expected, f"loading while it runs after step {number}"
    return reference


class Killed:
    """Some cases of a module in a process that was killed, and their rests in a fresh one."""

    def __init__(self, module, folder, cases):
        self.journal = folder / "journal"
        self.environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(map(str, (ROOT, ROOT / "tools", ROOT / "tests"))),
        }
        self.command = [sys.executable, "-m", "loop.conformance", module, str(self.journal)]
        killed = subprocess.run([*self.command, "run", *cases], env=self.environment, timeout=4 * LONG, check=False)
        assert killed.returncode == -signal.SIGKILL
        resumed = subprocess.run(
            [*self.command, "resume", *cases],
            env=self.environment,
            stdout=subprocess.PIPE,
            text=True,
            timeout=4 * LONG,
            check=True,
        )
        self.before = defaultdict(list)
        for line in self.journal.read_text().splitlines():
            case, depth, batch, _ = json.loads(line)
            self.before[case, depth].append(batch)
        answers = map(json.loads, resumed.stdout.splitlines())
        self.after = {(case, depth, number): batches for case, depth, number, batches in answers}

    def check(self, case, reference, depths=DEPTHS):
        """What the first process gave before it was killed, and the second after each of its checkpoints."""
        for depth in depths:
            before = self.before[case, depth]
            assert before == reference, f"the first process gave other batches at depth {depth}"
            for number in range(len(reference) - 1):
                expected = reference[number + 1 :]
                assert self.after[case, depth, number] == expected, (
                    f"in a fresh process after step {number} at depth {depth}"
                )


def run_and_die(cases, journal):
    """All cases at all depths, step by step side by side for two epochs; all are alive, and ahead of that, at the end."""
    walks = {
        (case, depth): walk(make(prefetch_queue_depth=depth), 3) for case, make in cases.items() for depth in DEPTHS
    }
    ends = dict.fromkeys(walks, 0)
    with open(journal, "w") as file:
        while min(ends.values()) < 2:
            for (case, depth), steps in walks.items():
                if ends[case, depth] < 2:
                    step = next(steps)
                    ends[case, depth] += step[0] == END
                    file.write(json.dumps([case, depth, *step]) + "\n")
    os.kill(os.getpid(), signal.SIGKILL)


def resume(cases, journal):
    """Prints what follows each step of the journal."""
    counts = defaultdict(int)
    ends = defaultdict(int)
    for line in Path(journal).read_text().splitlines():
        case, depth, batch, text = json.loads(line)
        ends[case, depth] += batch == END
        restored = cases[case](prefetch_queue_depth=depth, num_threads=1, checkpoint=text)
        answer = [case, depth, counts[case, depth], rest(restored, 2 - ends[case, depth])]
        counts[case, depth] += 1
        print(json.dumps(answer))  # noqa: T201 - read by the first process


def main():
    """python -m loop.conformance MODULE JOURNAL run|resume CASE..."""
    module, journal, action, *names = sys.argv[1:]
    known = __import__(module, fromlist=["CASES"]).CASES
    cases = {name: known[name] for name in names}
    {"run": run_and_die, "resume": resume}[action](cases, journal)


if __name__ == "__main__":
    main()
