"""Random programs run on a batch give what plain Python gives for each sample."""

import os
import random
import warnings

import numpy as np
import pytest
from conditional_harness import NUMBERS, pipeline
from random_programs import HEADER, Program

FIXED = 20_261_120  # the first of the seeds that are the same in every run
FRESH = random.SystemRandom().randrange(1 << 40)
CHUNK = 50
PROGRAMS = int(os.environ.get("PIPEFLOW_RANDOM_PROGRAMS", "100"))  # 2000 take a minute and a half


def check(program, names):
    """Runs one program both ways; the failure shows its text and its seed."""
    function = names[f"f{program.seed}"]
    expected = [tuple(int(x) for x in function(number)) for number in NUMBERS]
    try:
        pipe = pipeline(function, num_threads=1, exec_async=False, exec_pipelined=False)
        outputs = [np.asarray(output).tolist() for output in pipe.run()]
    except Exception as error:
        raise AssertionError(f"program {program.seed} raises {error!r}:\n{program.text}") from error
    assert list(zip(*outputs)) == expected, f"program {program.seed} differs:\n{program.text}"


@pytest.mark.parametrize("chunk", range(PROGRAMS // CHUNK))
def test_random_programs_equal_plain_python(chunk, tmp_path):
    """Half of the programs are the same in every run, half are new."""
    start = (FIXED if chunk % 2 else FRESH) + chunk * CHUNK
    programs = [Program(seed) for seed in range(start, start + CHUNK)]
    path = tmp_path / f"programs_{start}.py"
    path.write_text(HEADER + "\n\n".join(program.text for program in programs))
    names = {"__name__": path.stem, "__file__": str(path)}
    exec(compile(path.read_text(), path, "exec"), names)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for program in programs:
            check(program, names)
