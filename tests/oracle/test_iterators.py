"""Iterators give batch for batch what DALI's give; where they differ on purpose, what holds instead."""

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from helpers import LONG
from iterations import cases

FOLDER = Path(__file__).parent
pytestmark = pytest.mark.oracle


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """(case, epochs here, epochs in DALI) of every case."""
    folder = tmp_path_factory.mktemp("numbers")
    for count in {case["count"] for case in cases()}:
        (folder / str(count)).mkdir()
        for number in range(count):
            np.save(folder / str(count) / f"{number:02}.npy", np.array([number]))
    oracle = os.environ.get("PIPEFLOW_ORACLE_PYTHON")
    assert oracle, "PIPEFLOW_ORACLE_PYTHON must name a Python with DALI (make test-oracle does it)"
    answers = []
    for python, library, path in ((sys.executable, "pipeflow", str(FOLDER.parents[1])), (oracle, "nvidia.dali", "")):
        command = [python, FOLDER / "iterations.py", library, folder]
        environment = {**os.environ, "PYTHONPATH": path}
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, timeout=LONG, check=True)
        answers.append(json.loads(done.stdout))
    return list(zip(cases(), *answers))


def batches(epoch):
    return epoch[1]


def test_fill_is_the_same_in_every_epoch(both):
    """The batches of four epochs and, where a reader counts them, the lengths."""
    for case, here, there in both:
        if case["policy"] == "FILL":
            assert [batches(epoch) for epoch in here] == [batches(epoch) for epoch in there], case
            if not case["size"]:
                assert here == there, case
            assert all(length == len(given) for length, given in here), case


def test_a_size_counts_the_same(both):
    """With size= all policies give the same batches in every epoch."""
    for case, here, there in both:
        if case["size"]:
            assert [batches(epoch) for epoch in here] == [batches(epoch) for epoch in there], case


def test_the_first_epoch_of_a_reader_is_the_same(both):
    """All policies; but where a shard has nothing left, its pipeline repeats a sample (masked) where DALI gives none."""
    for case, here, there in both:
        for ours, theirs in zip(batches(here[0]), batches(there[0]), strict=True):
            for mine, other in zip(ours, theirs, strict=True):
                assert mine == other or (case["policy"] == "PARTIAL" and other == [] and len(mine) == 1), case


def test_later_epochs_of_a_reader_lose_nothing(both):
    """PARTIAL gives every sample in every epoch and DROP whole batches without a repeat; in DALI some samples are lost."""
    for case, here, _ in both:
        if case["policy"] == "FILL" or case["size"]:
            continue
        for length, given in here:
            assert length == len(given), case
            numbers = [number for batch in given for part in batch for number in part]
            repeats = Counter(numbers) - Counter(range(case["count"]))
            if case["policy"] == "DROP":
                assert not repeats, case
                assert {len(part) for batch in given for part in batch} == {case["batch_size"]}, case
            else:
                assert set(numbers) == set(range(case["count"])), case
                assert repeats.total() < case["shards"], case
