"""The cache of compiled kernels: shared, safe between processes, and not needed."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from helpers import LONG

from pipeflow import timing
from pipeflow.kernels import kept_code
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
    out, error = process.communicate(timeout=LONG)
    assert process.returncode == 0, error
    return out.split("]")[0] + "]", int(out.split("]")[1].split()[0]), out.rsplit(None, 1)[1]


def test_a_second_process_compiles_nothing(tmp_path):
    """What one process compiled the next one reads."""
    first = answer(run(tmp_path))
    second = answer(run(tmp_path))
    assert first[0] == second[0] == "[2, -3, 300]"
    assert first[1] > 0
    assert second[1] == 0


def test_processes_that_start_together_compile_each_kernel_once(tmp_path):
    """Different specialisations of one kernel are right in all of them; of two that need the same one, one waits."""
    together = [answer(run) for run in [run(tmp_path, target) for target in ("int16", "int16", "uint8")]]
    assert [one[0] for one in together] == ["[2, -3, 300]", "[2, -3, 300]", "[2, 0, 255]"]
    assert sum(one[1] for one in together) == len(list(tmp_path.rglob("*.nbc")))
    again = [answer(run(tmp_path, target)) for target in ("int16", "uint8")]
    assert [one[:2] for one in again] == [("[2, -3, 300]", 0), ("[2, 0, 255]", 0)]


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    """The cache folder of a process that has ended."""
    folder = tmp_path_factory.mktemp("compiled")
    answer(run(folder))
    return folder


def test_a_damaged_cache_file_is_compiled_again(compiled, tmp_path):
    """Truncated files count as absent."""
    shutil.copytree(compiled, tmp_path, dirs_exist_ok=True)
    for path in tmp_path.rglob("*.nbc"):
        path.write_bytes(path.read_bytes()[:100])
    result = answer(run(tmp_path))
    assert result[0] == "[2, -3, 300]"
    assert result[1] > 0


@pytest.mark.parametrize("place", [0, 20, 40, 200, -1])
def test_one_flipped_byte_in_a_cached_kernel_is_a_recompilation(compiled, tmp_path, place):
    """Each file carries a digest of its content: damaged code is never run."""
    shutil.copytree(compiled, tmp_path, dirs_exist_ok=True)
    for path in tmp_path.rglob("*.nbc"):
        content = bytearray(path.read_bytes())
        content[place] ^= 1
        path.write_bytes(content)
    result = answer(run(tmp_path))
    assert result[0] == "[2, -3, 300]"
    assert result[1] > 0


NESTED = """
import os, subprocess, sys
import numpy as np
from pipeflow.kernels.cpu import casting, jit
casting.as_type(np.array([1.5], np.float32), np.dtype("int16"))
print(jit.compiled_count(), jit.cache_folder())
if len(sys.argv) > 1:
    sys.stdout.flush()
    print(subprocess.run([sys.executable, sys.argv[0]], capture_output=True, text=True, check=True).stdout)
"""


def test_without_a_folder_of_the_user_the_processes_of_one_start_share_a_temporary_one(tmp_path):
    """The second process compiles nothing, one warning says what to set, and the folder is gone in the end."""
    blocked, script = tmp_path / "file", tmp_path / "nested.py"
    blocked.write_text("")
    script.write_text(NESTED)
    environment = {**os.environ, "PIPEFLOW_CACHE_DIR": str(blocked), "PYTHONPATH": str(Path(__file__).parents[2])}
    result = subprocess.run(
        [sys.executable, str(script), "again"],
        capture_output=True,
        text=True,
        env=environment,
        check=True,
        timeout=LONG,
    )
    first, second = [line.split() for line in result.stdout.splitlines() if line]
    assert int(first[0]) > 0
    assert second == ["0", first[1]]
    assert not Path(first[1]).exists()
    assert "set PIPEFLOW_CACHE_DIR" in result.stderr


def test_the_setting_of_numba_is_not_read(tmp_path):
    """NUMBA_CACHE_DIR may point to a folder that everybody can write: no code comes from there."""
    (tmp_path / "numba").mkdir(mode=0o777)
    answer(run(tmp_path / "own", NUMBA_CACHE_DIR=str(tmp_path / "numba")))
    assert not list((tmp_path / "numba").rglob("*"))
    assert list((tmp_path / "own").rglob("*.nbc"))


def test_a_folder_that_others_may_write_is_not_used(tmp_path):
    """Compiled code from a folder open to everyone could be anybody's; so could one below such a folder."""
    shared = tmp_path / "shared"
    inner = shared / "inner"
    inner.mkdir(parents=True)
    inner.chmod(0o700)
    shared.chmod(0o777)
    assert kept_code.why_not(shared)
    assert kept_code.why_not(inner)
    shared.chmod(0o1777)  # sticky: others can add names there but not replace ours
    assert not kept_code.why_not(inner)
    shared.chmod(0o700)
    assert not kept_code.why_not(shared)
    assert not kept_code.why_not(inner)


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="this system has no numbers of users")
def test_users_who_share_a_folder_have_one_each_inside(tmp_path, monkeypatch):
    """The second user finds the folder of the first, cannot trust it, and keeps kernels next to it."""
    monkeypatch.setenv("PIPEFLOW_CACHE_DIR", str(tmp_path))
    folder_for = kept_code.folder_for.__wrapped__
    assert folder_for("kernels") == tmp_path / "kernels"
    whose = kept_code.refusal
    others = lambda folder: "it belongs to another user" if folder.name == "kernels" else whose(folder)
    monkeypatch.setattr(kept_code, "refusal", others)
    assert folder_for("kernels") == tmp_path / f"kernels-user-{os.getuid()}"


def test_a_symbolic_link_is_not_followed(tmp_path):
    """Neither in place of the folder nor in place of a file in it."""
    (tmp_path / "real").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert kept_code.why_not(tmp_path / "link")
    assert kept_code.why_not(tmp_path / "link" / "kernels")
    files = kept_code.KernelFiles(tmp_path / "real", "kernel")
    files.save("key", [1, 2])
    assert files.load("key") == [1, 2]
    files.path("key").rename(tmp_path / "elsewhere")
    files.path("key").symlink_to(tmp_path / "elsewhere")
    assert files.load("key") is None


HOLD = """
import sys
from pathlib import Path
from pipeflow.kernels.cpu.kernel_files import Turns
print(Turns(Path(sys.argv[1])).wait(Path(sys.argv[1], "kernel")), flush=True)
sys.stdin.read()
"""


@pytest.fixture
def holder(tmp_path):
    """A process whose turn it is to compile "kernel", and which never does."""
    command = [sys.executable, "-c", HOLD, str(tmp_path)]
    root = Path(__file__).parents[2]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=root) as process:
        assert process.stdout.readline() == "False\n"
        yield process
        process.kill()


def test_a_process_that_is_killed_while_it_compiles_holds_nobody_up(holder, tmp_path):
    """The system drops its lock, and the next process compiles."""
    locks = kept_code.Locks(tmp_path)
    assert not locks.take("kernel")
    assert locks.take("another")
    holder.kill()
    holder.wait()
    assert locks.take("kernel")
    assert [path.name for path in tmp_path.iterdir()] == ["locks"]
    assert (tmp_path / "locks").stat().st_size == 0


def test_a_process_that_was_stopped_is_waited_for_a_while(holder, tmp_path, clock, monkeypatch):
    """Then this one compiles too; what the other one stores later is the same."""
    monkeypatch.setattr(kept_code, "time", SimpleNamespace(sleep=clock.advance))
    assert not kept_code.Turns(tmp_path).wait(tmp_path / "kernel")
    assert timing.wall() > 1060


def test_the_file_is_waited_for(holder, tmp_path, monkeypatch):
    """A process whose turn it is not goes on with the file that the other one has made."""
    sleep = lambda _: (tmp_path / "kernel").write_text("compiled")
    monkeypatch.setattr(kept_code, "time", SimpleNamespace(sleep=sleep))
    assert kept_code.Turns(tmp_path).wait(tmp_path / "kernel")


def test_a_kernel_that_cannot_be_compiled_keeps_no_lock(tmp_path):
    """Others need not wait for it."""
    turns, held = kept_code.Turns(tmp_path), kept_code.locks_of(tmp_path)._held

    def compile_inner():
        assert not turns.wait(tmp_path / "inner")
        assert held == {"outer", "inner"}
        raise ValueError("cannot")

    with turns.given_back():
        assert not turns.wait(tmp_path / "outer")
        with pytest.raises(ValueError, match="cannot"), turns.given_back():
            compile_inner()
        assert held == {"outer"}
    assert not held


def test_a_planted_file_in_place_of_the_locks_is_not_opened(tmp_path):
    """A link or a pipe there is not followed and not waited for: then every process compiles for itself."""
    (tmp_path / "victim").write_text("")
    (tmp_path / "locks").symlink_to(tmp_path / "victim")
    locks = kept_code.Locks(tmp_path)
    assert locks.take("kernel")
    assert locks._descriptor == -1
    locks.give("kernel")
    (tmp_path / "locks").unlink()
    os.mkfifo(tmp_path / "locks")
    assert locks.take("kernel")
    assert locks._descriptor == -1


HELPED = """
import numpy as np, helper
from pipeflow import fn, pipeline_def
from pipeflow.kernels.cpu import user_functions
def work(x): return helper.scale(x)
function = user_functions.dispatcher(work)
print(function(np.ones(3)).tolist(), sum(function.stats.cache_misses.values()))
"""


def test_a_function_of_the_user_is_compiled_again_when_its_helper_changes(tmp_path):
    """What is kept on disk depends on the code of other modules too."""

    def answers(factor):
        (tmp_path / "helper.py").write_text(f"import numba\n@numba.njit\ndef scale(x): return x * {factor}\n")
        (tmp_path / "script.py").write_text(HELPED)
        environment = {**os.environ, "PIPEFLOW_CACHE_DIR": str(tmp_path / "kept")}
        environment["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parents[2]), str(tmp_path)])
        command = [sys.executable, "-B", "-c", "import script"]
        result = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=LONG)
        assert result.returncode == 0, result.stderr
        return result.stdout.strip()

    assert answers(2.0) == "[2.0, 2.0, 2.0] 1"
    assert answers(2.0) == "[2.0, 2.0, 2.0] 0"
    assert answers(3.0) == "[3.0, 3.0, 3.0] 1"


def test_plain_lends_read_only_memory_without_copying():
    """Read-only contiguous arrays are passed on in place; strided ones are copied."""
    array = np.arange(6)
    array.flags.writeable = False
    assert np.shares_memory(jit.plain(array), array)
    assert jit.plain(array).flags.writeable
    assert not array.flags.writeable
    assert jit.plain(np.arange(10)[::2]).flags.c_contiguous
