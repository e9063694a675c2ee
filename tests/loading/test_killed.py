"""Loaders whose process is killed: a fresh process continues after any batch, in every way to read."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from helpers import LONG

import pipeflow
from pipeflow import fn

LENGTHS = np.random.default_rng(4).integers(1, 40, 23)
EPOCHS = 2


class Numbers:
    """Item i is i, with an array of its own length."""

    def __init__(self, size=11, first=0):
        self.size, self.first = size, first

    def __len__(self):
        return self.size

    def __getitem__(self, index):
        if not 0 <= index < self.size:
            raise IndexError(index)
        return {"number": self.first + index, "values": np.full(3, index)}


class Texts(Numbers):
    """Item i has as many tokens as LENGTHS says."""

    def __getitem__(self, index):
        return np.full(LENGTHS[index], index)


class Passing:
    """A data set without an index."""

    def __iter__(self):
        return iter(range(10))


def documents():
    return [np.full(length, number) for number, length in enumerate(LENGTHS)]


def mixture():
    return pipeflow.mix([Numbers(7), Numbers(5, 100), Numbers(3, 200)], weights=[3, 2, 1], epoch_size=14)


def drawn(item):
    return item["number"], fn.random.uniform() + item["values"]


WAYS = {
    "in order": lambda: pipeflow.loader(Numbers(), 3, seed=1),
    "shuffled": lambda: pipeflow.loader(Numbers(), 3, shuffle=True, seed=1),
    "threads": lambda: pipeflow.loader(Numbers(), 2, shuffle=True, seed=1, num_workers=2, workers="threads"),
    "processes": lambda: pipeflow.loader(Numbers(), 2, shuffle=True, seed=1, num_workers=2),
    "processes that stay": lambda: pipeflow.loader(
        Numbers(), 2, shuffle=True, seed=1, num_workers=2, persistent_workers=True
    ),
    "stream": lambda: pipeflow.loader(Passing(), 3, seed=1),
    "stream of processes": lambda: pipeflow.loader(Passing(), 3, seed=1, num_workers=2),
    "sampler": lambda: pipeflow.loader(Numbers(), 3, sampler=[3, 1, 4, 1, 5, 9, 2], seed=1),
    "batches": lambda: pipeflow.loader(Numbers(), batch_sampler=[[1], [2, 3], [4]], seed=1, num_workers=1),
    "shard": lambda: pipeflow.loader(Numbers(), 2, shuffle=True, seed=1, shard_id=1, num_shards=2, num_workers=1),
    "mixture": lambda: pipeflow.loader(mixture(), 3, seed=1),
    "shuffled mixture of processes": lambda: pipeflow.loader(mixture(), 3, shuffle=True, seed=1, num_workers=2),
    "buckets": lambda: pipeflow.loader(
        Texts(len(LENGTHS)), bucket_by=LENGTHS, max_tokens=90, shuffle=True, seed=1, collate_fn=plain
    ),
    "packed": lambda: pipeflow.loader(pipeflow.pack(documents(), 48), 2, shuffle=True, seed=1),
    "packed in order, in processes": lambda: pipeflow.loader(
        pipeflow.pack(documents(), 48, method="in_order"), 2, shuffle=True, seed=1, num_workers=2
    ),
    "pipeline": lambda: pipeflow.loader(Numbers(), 3, shuffle=True, seed=1, transform=drawn),
    "pipeline over processes": lambda: pipeflow.loader(
        Numbers(), 3, shuffle=True, seed=1, transform=drawn, num_workers=2
    ),
}


def plain(items):
    """Items of several lengths as they are."""
    return [item.tolist() for item in items]


def shown(value):
    """A batch as plain values."""
    if isinstance(value, dict):
        return {key: shown(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [shown(part) for part in value]
    return np.asarray(value).tolist()


def steps(loader, epochs):
    """(batch, state after it) of every batch of some epochs; the end of an epoch is a step too."""
    for _ in range(epochs):
        for batch in loader:
            yield shown(batch), loader.state_dict()
        yield "end", loader.state_dict()


def run(path):
    """Writes every step of every way, and is killed."""
    with open(path, "w") as file:
        for way, make in WAYS.items():
            loader = make()
            for batch, state in steps(loader, EPOCHS):
                file.write(json.dumps([way, batch, state]) + "\n")
            still = iter(loader)  # with workers and batches that were made ahead
            next(still)
        file.flush()
        os.kill(os.getpid(), signal.SIGKILL)


def resume(path):
    """Prints what follows each step of the first epoch and of the beginning of the second one."""
    seen = {}
    for line in Path(path).read_text().splitlines():
        way, batch, state = json.loads(line)
        ended = seen.get(way, 0)
        seen[way] = ended + (batch == "end")
        if seen[way] == EPOCHS:
            continue
        loader = WAYS[way]()
        loader.load_state_dict(state)
        rest = [found for found, _ in steps(loader, EPOCHS - seen[way])]
        print(json.dumps([way, rest]))  # noqa: T201 - read by the first process


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
    """The steps of every way in a process that was killed, and what a fresh process made after each of them."""
    path = str(tmp_path_factory.mktemp("killed") / "steps")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-m", "loading.test_killed", path]
    first = subprocess.run([*command, "run"], env=environment, timeout=4 * LONG, check=False)
    assert first.returncode == -signal.SIGKILL
    second = subprocess.run(
        [*command, "resume"], env=environment, timeout=4 * LONG, stdout=subprocess.PIPE, text=True, check=True
    )
    before, after = {}, {}
    for line in Path(path).read_text().splitlines():
        way, batch, _ = json.loads(line)
        before.setdefault(way, []).append(batch)
    for way, rest in map(json.loads, second.stdout.splitlines()):
        after.setdefault(way, []).append(rest)
    return before, after


@pytest.mark.parametrize("way", WAYS)
def test_killed_and_resumed_at_every_step(way, killed):
    """What a fresh process gives after any step is what came after it; this process gives the same without a break."""
    before, after = (found[way] for found in killed)
    assert before == [json.loads(json.dumps(batch)) for batch, _ in steps(WAYS[way](), EPOCHS)]
    last = len(before) - 1
    second_end = [number for number, batch in enumerate(before) if batch == "end"][EPOCHS - 1]
    assert second_end == last
    assert len(after) == last
    for number, rest in enumerate(after):
        assert rest == before[number + 1 :], number


if __name__ == "__main__":
    {"run": run, "resume": resume}[sys.argv[2]](sys.argv[1])
