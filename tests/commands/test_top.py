"""``pipeflow top`` reads a running program through a socket in a file."""

import json
import os
import shutil
import socket
import tempfile
import warnings

import numpy as np
import pytest
from helpers import LONG

from pipeflow import commands, fn, pipeline_def
from pipeflow.commands.verbs import top
from pipeflow.errors import InvalidState
from pipeflow.watching import attaching, environment


@pipeline_def(batch_size=4, num_threads=1, seed=1)
def numbers():
    values = fn.external_source(lambda info: np.float32(info.idx_in_epoch), batch=False)
    return fn.python_function(values, function=np.square)


@pytest.fixture
def folder(monkeypatch):
    """A temporary folder with a short name: names of sockets have at most 100 letters."""
    made = tempfile.mkdtemp(prefix="t")
    monkeypatch.setattr(tempfile, "tempdir", made)
    monkeypatch.setattr(environment, "_servers", {})
    monkeypatch.setattr(attaching, "ended", lambda: None)
    monkeypatch.setattr(attaching, "PATIENCE", LONG)
    yield made
    for server in environment._servers.values():
        server.close()
    shutil.rmtree(made)


def test_what_changed_between_two_readings(folder, monkeypatch, capsys):
    """Three batches of four between two readings; the program that is meant is found where there is one."""
    monkeypatch.setenv("PIPEFLOW_TOP", "1")
    pipe = numbers()
    pipe.run()

    def instead_of_sleeping(lasts):
        assert lasts == 0.5
        for _ in range(3):
            pipe.run()

    monkeypatch.setattr(top.time, "sleep", instead_of_sleeping)
    assert commands.main(["top", "-n", "2", "--every", "0.5", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["process"] == os.getpid()
    assert [row["pipeline"] for row in found["readings"]] == [0, 0]
    for row in found["readings"]:
        assert row["samples_per_second"] * row["batch_seconds"] == pytest.approx(4)
        assert 0 <= row["loop_waits"] <= 1
        assert row["failed"] == 0
    assert commands.main(["top", str(os.getpid()), "-n", "1", "--every", "0.5"]) == 0
    head, row = capsys.readouterr().out.splitlines()
    assert head.split()[:3] == ["time", "pipe", "samples/s"]
    assert len(row) <= 80


def test_a_program_that_ends_ends_the_table(folder, monkeypatch, capsys):
    """Without an error; one that was never there is refused by its number."""
    monkeypatch.setenv("PIPEFLOW_TOP", "1")
    numbers().run()
    monkeypatch.setattr(top.time, "sleep", lambda lasts: (attaching.folder() / f"{os.getpid()}.sock").unlink())
    assert list(top.readings(os.getpid(), None, 1.0)) == []
    with pytest.raises(InvalidState, match=f"process {os.getpid()} has ended, or was started without PIPEFLOW_TOP=1"):
        list(top.readings(os.getpid(), None, 1.0))
    assert commands.main(["top"]) == 2
    assert "start one with PIPEFLOW_TOP=1" in capsys.readouterr().err
    assert commands.main(["top", "--json"]) == 2
    assert "add -n LINES" in capsys.readouterr().out


def test_the_folder_of_sockets_is_private(folder, monkeypatch):
    """Files of processes that were killed are removed; a folder that others can open is a warning, and the pipeline runs."""
    left = attaching.folder() / "1.sock"
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    made.bind(str(left))
    made.close()
    assert attaching.running() == []
    assert not left.exists()
    attaching.folder().chmod(0o755)
    monkeypatch.setenv("PIPEFLOW_TOP", "1")
    with pytest.warns(UserWarning, match="metrics are not served: .*no other user can open"):
        assert len(numbers().run()[0]) == 4
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        numbers().run()  # warned once
    environment._servers.clear()


@pytest.mark.parametrize(("words", "message"), [(["--every", "0"], "above 0"), (["x"], "PID")])
def test_wrong_words_are_refused(words, message, capsys):
    """With what they should be."""
    assert commands.main(["top", *words]) == 2
    assert message in capsys.readouterr().err
