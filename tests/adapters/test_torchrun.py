"""Ranks that torchrun starts, kills and starts again go on from their journals."""

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
from loop.journal_jobs import check_log

pytestmark = [pytest.mark.adapters, pytest.mark.timeout(600)]
ROOT = Path(__file__).parents[2]


def test_ranks_that_are_killed_lose_nothing(tmp_path):
    """Two ranks with a collective call for each batch; one is killed five times, and torchrun starts both again.

    Every sample comes once, with the values of an undisturbed run; a batch that is done never comes again.
    """
    random_numbers = random.Random(3)
    places = [[random_numbers.randrange(2), random_numbers.randrange(1, 5), side] for side in ("before", "after") * 3][
        :5
    ]
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "--max-restarts=5"]
    done = subprocess.run(
        [
            *command,
            "--monitor-interval=0.1",
            str(Path(__file__).with_name("torchrun_job.py")),
            str(tmp_path),
            json.dumps(places),
        ],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tests'}", "OMP_NUM_THREADS": "1"},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert len(list(tmp_path.glob("killed*"))) == 5
    for rank in range(2):
        check_log(tmp_path / f"log{rank}", rank, 2)
