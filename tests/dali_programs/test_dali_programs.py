"""Programs written for DALI, run unchanged: what each shows is what it shows under the real DALI 2.4.0.

The recorded side (`recorded/`, written by `record.py`) is compared by `make test`; `make test-oracle` runs both for real.
"""

import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent
sys.path.insert(0, str(FOLDER))

from comparing import differences  # noqa: E402
from differing import DIFFERENT  # noqa: E402
from recording import PROGRAMS, read, reduced  # noqa: E402
from runner import OURS, REAL, run  # noqa: E402

NAMES = [path.stem for path in PROGRAMS]
# These start worker processes by "fork", which wants a process without threads.
APART = {"external_input_parallel", "external_input_parallel_batches"}


def answers(python, library, programs, folder):
    """What programs show in processes of their own."""
    answer = folder / "answers"
    environment = {**os.environ, "PYTHONPATH": str(FOLDER.parents[1])}
    command = [python, FOLDER / "runner.py", library, answer, *programs]
    subprocess.run(command, env=environment, check=True, timeout=280, stderr=subprocess.DEVNULL)
    return pickle.loads(answer.read_bytes())


def under_pipeflow(name, folder):
    """What a program shows here."""
    program = FOLDER / "programs" / f"{name}.py"
    return answers(sys.executable, OURS, [program], folder)[name] if name in APART else run(OURS, program)


def check(name, found):
    """Fails where a program differs and no table says so, or where a table says so and it does not."""
    if name in DIFFERENT:
        found = [line for line in found if not line.startswith(tuple(DIFFERENT[name]))]
    assert not found, "\n".join(found[:8])


@pytest.mark.parametrize("name", NAMES)
def test_a_program_shows_what_was_recorded_under_dali(name, tmp_path):
    """Values, types, layouts, shapes and kinds of errors are those that the recorded file holds."""
    shown = [reduced(item) for item in under_pipeflow(name, tmp_path)]
    check(name, differences(shown, read(name)))


def test_there_are_enough_programs_and_each_is_recorded():
    """At least sixty programs, and a recorded file for each of them and for nothing else."""
    assert len(NAMES) >= 60
    assert sorted(path.stem for path in (FOLDER / "recorded").glob("*.json")) == NAMES


def test_the_table_of_differences_name_programs_and_what_they_show():
    """No entry for a program that is gone."""
    assert not set(DIFFERENT) - set(NAMES)


@pytest.fixture(scope="module")
def under_dali(tmp_path_factory):
    """What all programs show under the real DALI, now."""
    return answers(os.environ["PIPEFLOW_ORACLE_PYTHON"], REAL, PROGRAMS, tmp_path_factory.mktemp("dali"))


@pytest.mark.oracle
@pytest.mark.parametrize("name", NAMES)
def test_a_program_shows_what_it_shows_under_dali(name, under_dali, tmp_path):
    """Every value of every array is DALI's, within what the program allows; and the recorded file is what DALI shows."""
    check(name, differences(under_pipeflow(name, tmp_path), under_dali[name]))
    assert not differences(read(name), [reduced(item) for item in under_dali[name]])
