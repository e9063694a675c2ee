"""What every pipeline that can be checkpointed promises, as one function.

A *case* is a function of keyword settings that returns a pipeline with checkpointing. `check_resume` runs two epochs
of it, takes a checkpoint after every batch, and demands that a pipeline made anew and restored from it gives exactly
the rest: at any prefetch depth, in this process, and in a fresh process after the first was killed.
"""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[2]


def digest(batch):
    """A batch as plain data: every output's shapes and bytes."""
    return [[(sample.shape, str(sample.dtype), sample.tobytes().hex()) for sample in output.samples()] for output in batch]


def walk(pipeline, epochs=2):
    """The batches of some epochs, each followed by the checkpoint after it; `None` marks the end of an epoch."""
    steps = []
    for _ in range(epochs):
        steps += [(digest(batch), pipeline.checkpoint()) for batch in pipeline.epoch()]
        steps.append((None, pipeline.checkpoint()))
    return steps


def rest(pipeline, loops):
    """What a restored pipeline still gives in so many loops over epochs."""
    given = []
    for _ in range(loops):
        given += [digest(batch) for batch in pipeline.epoch()]
        given.append(None)
    return given


def check_resume(make, depths=(1, 2, 5), largest=2048):
    """Resumes at every step of two epochs, at every prefetch depth, in this process."""
    reference = [batch for batch, _ in walk(make(prefetch_queue_depth=2))]
    for depth in depths:
        steps = walk(make(prefetch_queue_depth=depth))
        assert [batch for batch, _ in steps] == reference, f"prefetch depth {depth} changes the batches"
        for number, (_, text) in enumerate(steps[:-1]):
            assert len(text) < largest, f"a checkpoint of {len(text)} bytes"
            loops = sum(batch is None for batch in reference[number + 1 :])
            restored = make(prefetch_queue_depth=depths[number % len(depths)], checkpoint=text)
            assert rest(restored, loops) == reference[number + 1 :], f"resuming after step {number} at depth {depth}"
            live = make(prefetch_queue_depth=depth)
            next(iter(live.epoch()))
            live.load_state_dict(json.loads(text))
            assert rest(live, loops) == reference[number + 1 :], f"loading into a running pipeline after step {number}"


def check_resume_after_kill(module, case, folder, stop_after, depth):
    """A process is killed in the middle of an epoch; a fresh one continues from the file it wrote last."""
    path = folder / f"{case}.json"
    run = [sys.executable, "-m", "loop.conformance", module, case, str(path), str(depth)]
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tests'}"}
    killed = subprocess.Popen([*run, str(stop_after)], env=environment, cwd=folder, stdout=subprocess.PIPE, text=True)
    output, _ = killed.communicate(timeout=50)
    before = [json.loads(line) for line in output.splitlines()]
    assert killed.returncode == -signal.SIGKILL
    after = subprocess.run([*run, "0"], env=environment, cwd=folder, capture_output=True, text=True, timeout=50, check=True)
    return before + [json.loads(line) for line in after.stdout.splitlines()]


def main():
    """python -m loop.conformance MODULE CASE FILE DEPTH STOP: prints batches, checkpoints, and dies after STOP of them."""
    module, case, path, depth, stop = sys.argv[1:]
    make = getattr(__import__(module, fromlist=[case]), case)
    saved = Path(path).read_text() if Path(path).exists() else None
    pipeline = make(prefetch_queue_depth=int(depth), checkpoint=saved)
    count = 0
    finished = json.loads(saved)["loop"]["epoch"] if saved else 0
    for _ in range(finished, 2):
        for batch in pipeline.epoch():
            print(json.dumps(digest(batch)), flush=True)  # noqa: T201
            pipeline.checkpoint(path)
            count += 1
            if count == int(stop):
                os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    np.seterr(all="raise")
    main()
