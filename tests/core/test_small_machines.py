"""Few open files, a full disk, no home, no place to write: it works, or the error says what to do."""

import errno
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
from helpers import LONG

from pipeflow import fn, pipeline_def
from pipeflow.executor import journal as files
from pipeflow.kernels import kept_code

ROOT = Path(__file__).parents[2]
resource = pytest.importorskip("resource", reason="the system has no limits to set")

FEW = """
    import resource, numpy as np
    from pipeflow import fn, pipeline_def

    def limit(most):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))

    @pipeline_def(batch_size=4, num_threads=2, py_num_workers=2)
    def define():
        x = fn.external_source(lambda info: np.array(info.idx_in_epoch), batch=False)
        return fn.python_function(x, function=np.negative, parallel="processes")

    def batches():
        pipe = define()
        return [pipe.run()[0].as_array().tolist() for _ in range(3)]
"""


def run(program, **environment):
    """The program in a process of its own; its output and what it wrote to stderr."""
    done = subprocess.run(
        [sys.executable, "-B", "-c", textwrap.dedent(program)],
        capture_output=True,
        text=True,
        timeout=LONG,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), **environment},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


def test_few_open_files():
    """64 are enough for worker processes."""
    out, _ = run(f"{FEW}    limit(64)\n    print(batches())\n")
    assert out == "[[0, -1, -2, -3], [-4, -5, -6, -7], [-8, -9, -10, -11]]\n"


@pytest.mark.parametrize("most", [3, 6, 11, 14, 28])
def test_too_few_open_files(most):
    """Where the last file is taken by an import, by shared memory or by a worker, the error says what to do."""
    out, _ = run(
        FEW
        + f"""
    limit({most})
    try:
        batches()
    except (OSError, RuntimeError) as error:  # of the call that found no room, or of a later one
        print(error, *error.__notes__, sep="; ")
    """
    )
    assert "Too many open files" in out
    assert f"as many files open as it may ({most}): raise the limit (ulimit -n), or use fewer workers" in out


def full(monkeypatch, module, room):
    """A disk on which so many bytes can be written."""
    left = [room]

    def write(descriptor, content):
        if not left[0]:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written = content[: left[0]]
        left[0] -= len(written)
        return os.__dict__["pwrite"](descriptor, written, os.fstat(descriptor).st_size)

    class Full:
        def __getattr__(self, name):
            return write if name == "write" else getattr(os, name)

    monkeypatch.setattr(module, "os", Full())


def test_a_full_disk_leaves_no_half_of_a_journal(tmp_path, monkeypatch):
    """The error names the journal; the one that was there is whole, and nothing else is left."""
    path = tmp_path / "run.journal"
    source = {"source": [np.arange(2) + 2 * k for k in range(4)]}

    @pipeline_def(batch_size=2, num_threads=1)
    def define():
        return fn.external_source(**source)

    loop = define().epoch(journal=path)
    next(loop), next(loop)
    del loop
    before = path.read_bytes()
    full(monkeypatch, files, 100)
    with pytest.raises(OSError, match="No space left") as caught:
        define().epoch(journal=path)
    assert f"while writing the journal {path}" in caught.value.__notes__
    assert "the disk is full: make room, or choose another folder" in caught.value.__notes__
    monkeypatch.undo()
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]
    assert [x[0].as_array().tolist() for x in define().epoch(journal=path)] == [[2, 3], [4, 5], [6, 7]]


def test_a_full_disk_leaves_no_half_of_a_checkpoint(tmp_path, monkeypatch):
    """The checkpoint before stays as it is."""
    pipe = pipeline_def(batch_size=2, enable_checkpointing=True)(lambda: fn.random.uniform())()
    path = tmp_path / "state.json"
    before = pipe.checkpoint(str(path))
    pipe.run()

    def no_room(descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", no_room)
    with pytest.raises(OSError, match="No space left") as caught:
        pipe.checkpoint(str(path))
    assert f"while writing the checkpoint {path}" in caught.value.__notes__
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_a_checkpoint_that_cannot_be_written_to_its_end(tmp_path):
    """What the system refuses while the file is written is said once, with the file's name; the one before is whole."""
    pipe = pipeline_def(batch_size=2, enable_checkpointing=True)(lambda: fn.random.uniform())()
    path = tmp_path / "state.json"
    before = pipe.checkpoint(str(path))
    pipe.run()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits[1]))
    try:
        with pytest.raises(OSError, match="File too large") as caught:
            pipe.checkpoint(str(path))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert f"while writing the checkpoint {path}" in caught.value.__notes__
    assert caught.value.__notes__[-1].endswith("raise the limit (ulimit -f)")
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_a_full_disk_costs_only_the_compilation(tmp_path, monkeypatch):
    """A kernel that cannot be stored is compiled by every process; no half of a file is left."""

    def no_room(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    kept = kept_code.KernelFiles(tmp_path, "kernel")
    monkeypatch.setattr(os, "replace", no_room)
    kept.save("key", [1, 2])
    assert kept.load("key") is None
    assert list(tmp_path.iterdir()) == []


def test_without_a_home(tmp_path):
    """No home and no setting: sound is decoded by compiled code, and nothing is put next to the sources."""
    before = {path for path in (ROOT / "pipeflow").rglob("*") if "__pycache__" not in path.parts}
    out, errors = run(
        """
        import struct
        import numpy as np
        from pipeflow import fn, pipeline_def

        samples = np.arange(-40, 40, dtype="<i4")
        data = b"".join(int(x).to_bytes(3, "little", signed=True) for x in samples)
        head = struct.pack("<4sI4s4sIHHIIHH", b"RIFF", 36 + len(data), b"WAVE", b"fmt ", 16, 1, 1, 8000, 24000, 3, 24)
        head += struct.pack("<4sI", b"data", len(data))
        file = np.frombuffer(head + data, np.uint8)

        @pipeline_def(batch_size=1, num_threads=1)
        def define():
            return fn.decoders.audio(fn.external_source([[file]]), dtype=np.int32)[0]

        assert (define().run()[0].as_array()[0].ravel() // 256 == samples).all()
        print("right")
        """,
        HOME="/dev/null",
        TMPDIR=str(tmp_path),
    )
    assert out == "right\n"
    assert errors.count("set PIPEFLOW_CACHE_DIR") <= 1
    assert {path for path in (ROOT / "pipeflow").rglob("*") if "__pycache__" not in path.parts} == before
    assert list(tmp_path.iterdir()) == []  # the temporary folder of compiled kernels is gone
