"""The cache of compiled kernels: shared, safe between processes, and not needed."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np

from pipeflow.kernels.cpu import jit

PROGRAM = """
import numpy as np
from pipeflow.kernels.cpu import casting, jit
out = casting.as_type(np.array([1.5, -2.5, 300], np.float32), np.dtype({target!r}))
print(out.tolist(), jit.compiled_count(), jit.cache_folder())
"""


def run(folder, target="int16", **more):
    """One fresh process with its own cache folder."""
    environment = {**os.environ, "PIPEFLOW_CACHE_DIR": str(folder), **more}
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM.format(target=target)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        cwd=Path(__file__).parents[2],
    )


def answer(process):
    """What the process printed; its error output when it failed."""
    out, error = process.communicate(timeout=50)
    assert process.returncode == 0, error
    return out.split("]")[0] + "]", int(out.split("]")[1].split()[0]), out.rsplit(None, 1)[1]


def test_a_second_process_compiles_nothing(tmp_path):
    """What one process compiled the next one reads."""
    first = answer(run(tmp_path))
    second = answer(run(tmp_path))
    assert first[0] == second[0] == "[2, -3, 300]"
    assert first[1] > 0
    assert second[1] == 0


def test_two_processes_compiling_at_once_do_not_mix_up_their_code(tmp_path):
    """Different specialisations of one kernel, compiled at the same moment, are both right afterwards."""
    together = [run(tmp_path, target) for target in ("int16", "uint8")]
    assert [answer(process)[0] for process in together] == ["[2, -3, 300]", "[2, 0, 255]"]
    again = [answer(run(tmp_path, target)) for target in ("int16", "uint8")]
    assert [one[:2] for one in again] == [("[2, -3, 300]", 0), ("[2, 0, 255]", 0)]


def test_a_damaged_cache_file_is_compiled_again(tmp_path):
    """Truncated files count as absent."""
    answer(run(tmp_path))
    for path in tmp_path.rglob("*.nbc"):
        path.write_bytes(path.read_bytes()[:100])
    result = answer(run(tmp_path))
    assert result[0] == "[2, -3, 300]"
    assert result[1] > 0


def test_without_a_usable_folder_kernels_still_run(tmp_path):
    """A path that cannot be a folder means compiling in memory, with one warning."""
    blocked = tmp_path / "file"
    blocked.write_text("")
    process = run(blocked)
    out, error = process.communicate(timeout=50)
    assert process.returncode == 0
    assert out.startswith("[2, -3, 300]")
    assert out.rstrip().endswith("None")
    assert "set PIPEFLOW_CACHE_DIR" in error


def test_a_folder_that_others_may_write_is_not_used(tmp_path):
    """Compiled code from a folder open to everyone could be anybody's."""
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    assert not jit.usable(shared)
    shared.chmod(0o700)
    assert jit.usable(shared)


def test_plain_lends_read_only_memory_without_copying():
    """Read-only contiguous arrays are passed on in place; strided ones are copied."""
    array = np.arange(6)
    array.flags.writeable = False
    assert np.shares_memory(jit.plain(array), array)
    assert jit.plain(array).flags.writeable
    assert not array.flags.writeable
    assert jit.plain(np.arange(10)[::2]).flags.c_contiguous
