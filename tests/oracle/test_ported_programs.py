"""DALI programs run unchanged: each shows under pipeflow what it shows under the real DALI.

`PIPEFLOW_ORACLE_PYTHON` names a Python with DALI; `make test-oracle` sets it up. Where the two differ on purpose, the
program stands in DIFFERENT with the reason.
"""

import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from programs import PROGRAMS

FOLDER = Path(__file__).parent
pytestmark = pytest.mark.oracle

# Program -> why it shows something else here. docs/differences-from-dali.md names them.
OWN_EXCEPTION = "an exception of the function keeps its type; DALI turns it into a RuntimeError"
NAMED_EXCEPTION = "a TypeError or ValueError says what is wrong; DALI raises another type"
CONVERTED = "lists and numbers are converted to arrays"
REFUSED = "a mistake that DALI lets pass is refused"
RESTARTS = "reset() starts the source anew; in DALI it goes on where prefetching left it"
DIFFERENT: dict[str, str] = {
    "arithmetic: functions of one argument": "1 / sqrt(0) is infinity, in DALI not a number; ~ and - of BOOL",
    "indexing with layout 'HWC'": "an Ellipsis is understood",
    "external_source: callable with the iteration": RESTARTS,
    "external_source: generator function, cycle=True": RESTARTS,
    "external_source: lists of lists": CONVERTED,
    "external_source: checks, batch=False": CONVERTED,
    "external_source: several outputs": REFUSED,
    "external_source: checks, num_outputs=0": REFUSED,
    "external_source: checks, num_outputs=-1": REFUSED,
    "external_source: checks, dtype=[types.UINT8]": "one entry for each output works with a single one, too",
    "external_source: checks, repeat_last=True": "works without a CUDA driver",
    "external_source: checks, dtype='abc'": NAMED_EXCEPTION,
    "python_function: scalar array": CONVERTED,
    "python_function: fails": OWN_EXCEPTION,
    "python_function: too many": REFUSED,
    "python_function: batch, one array": CONVERTED,
    "python_function: wrong number of parameters": OWN_EXCEPTION,
    "python_function: negative outputs": NAMED_EXCEPTION,
    "pipeline: a list for data": "a list is as good as a tuple for the outputs",
    "pipeline: constants": "a nested list is a constant, too",
    "pipeline: a bad probability": REFUSED,
    "pipeline: constructor": "num_threads has a default, and a missing batch_size is said in words",
    "pipeline: arguments of the decorated function": NAMED_EXCEPTION,
}


def answers(python, library, folder, programs=PROGRAMS, *how):
    """What each program shows under a library."""
    questions, answer = folder / "questions", folder / library
    questions.write_bytes(pickle.dumps(programs))
    environment = {**os.environ, "PYTHONPATH": str(FOLDER.parents[1])}
    command = [python, FOLDER / "side.py", library, questions, answer, *how]
    subprocess.run(command, env=environment, check=True, timeout=280, stderr=subprocess.DEVNULL)
    return pickle.loads(answer.read_bytes())


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    folder = tmp_path_factory.mktemp("oracle")
    ours = answers(sys.executable, "pipeflow", folder)
    return ours, answers(os.environ["PIPEFLOW_ORACLE_PYTHON"], "nvidia.dali", folder)


def difference(ours, theirs):
    """What differs between two shown values, or nothing."""
    if isinstance(theirs, dict) and "raised" in theirs:
        if not (isinstance(ours, dict) and "raised" in ours):
            return f"DALI raises {theirs['raised'][0]}: {theirs['message'][:200]}\nhere it gives {ours}"
        if theirs["raised"][0] not in ours["raised"]:
            return (
                f"DALI raises {theirs['raised'][0]}: {theirs['message'][:200]}\n"
                f"here it is {ours['raised'][0]}: {ours['message'][:200]}"
            )
        return ""
    if isinstance(ours, dict) and "raised" in ours:
        return f"DALI gives {theirs}\nhere it raises {ours['raised'][0]}: {ours['message'][:300]}"
    if isinstance(theirs, dict) and isinstance(ours, dict):
        if theirs["layout"] != ours["layout"]:
            return f"layout {theirs['layout']!r} in DALI, {ours['layout']!r} here"
        return difference(ours["samples"], theirs["samples"])
    if isinstance(theirs, list) and isinstance(ours, list):
        if len(theirs) != len(ours):
            return f"{len(theirs)} items in DALI, {len(ours)} here"
        return "\n".join(filter(None, (difference(a, b) for a, b in zip(ours, theirs))))
    if isinstance(theirs, np.ndarray) and isinstance(ours, np.ndarray):
        if (theirs.dtype, theirs.shape) != (ours.dtype, ours.shape):
            return f"{theirs.dtype} {theirs.shape} in DALI, {ours.dtype} {ours.shape} here"
        close = np.allclose(ours, theirs, rtol=1e-5, atol=1e-6, equal_nan=True)
        return "" if close else f"{theirs} in DALI, {ours} here"
    return "" if theirs == ours else f"{theirs!r} in DALI, {ours!r} here"


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_shows_what_it_shows_under_dali(name, both):
    """Values, types, layouts and the kind of every error are DALI's, or the difference is a stated one."""
    ours, theirs = both[0][name], both[1][name]
    found = [f"{index}: {text}" for index, pair in enumerate(zip(ours, theirs)) if (text := difference(*pair))]
    if len(ours) != len(theirs):
        found.append(f"{len(theirs)} things shown by DALI, {len(ours)} here: {ours[-1]}")
    if name in DIFFERENT:
        assert found, f"{name} shows the same now: take it out of the table"
    else:
        assert not found, "\n".join(found[:6])
