"""The command line as a person uses it: a child process in a terminal of 80 columns, on files as they are."""

import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest
from helpers import LONG

from pipeflow.commands import every_verb

ROOT = Path(__file__).parents[2]
SCRIPT = """
import numpy as np
from pipeflow import fn, pipeline_def

print("loading")

def numbers(sample):
    return np.full((12, 16, 3), sample.idx_in_epoch, np.uint8), np.int32(sample.idx_in_epoch)

def brighter(image):
    return image + 100

@pipeline_def(batch_size=4, num_threads=1, device_id=None, seed=1)
def pipe(amount=2.0):
    images, labels = fn.external_source(numbers, num_outputs=2, batch=False, layout=["HWC", None])
    return fn.python_function(images * 1, function=brighter, output_layouts="HWC"), labels

if __name__ == "__main__":
    running = pipe()
    for _ in range(10_000):
        running.run()
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "train.py").write_text(SCRIPT)
    return tmp_path


def in_terminal(folder, *words, **environment):
    """What a person sees, and the exit status."""
    here, there = pty.openpty()
    fcntl.ioctl(there, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    kept = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES", "NO_COLOR")}
    child = subprocess.Popen(
        [sys.executable, "-m", "pipeflow", *words],
        cwd=folder,
        env={**kept, "PYTHONPATH": str(ROOT), "TERM": "xterm", **environment},
        stdin=there,
        stdout=there,
        stderr=there,
    )
    os.close(there)
    seen = b""
    while True:
        try:
            part = os.read(here, 65536)
        except OSError:  # the child has closed its end
            break
        if not part:
            break
        seen += part
    os.close(here)
    return seen.decode(), child.wait(LONG)


def plain(text):
    """Without colours, and of a line that was written several times the last state."""
    lines = re.sub(r"\x1b\[[0-9;]*m", "", text).replace("\r\n", "\n").split("\n")
    return [line.rpartition("\r")[2] for line in lines]


def test_bench_fits_on_one_screen_with_the_verdict_first(folder):
    """24 lines of 80 columns: the speed first, what to do next last, in colours."""
    seen, status = in_terminal(folder, "bench", "train.py:pipe", "-n", "20")
    lines = [line for line in plain(seen) if line.strip()]
    assert status == 0, seen
    assert lines[0] == "loading"  # of the user's file
    assert re.match(r"[\d.e+]+ samples/s; ", lines[1])
    assert len(lines) <= 24
    assert max(len(line) for line in lines if " " in line.strip()) <= 80  # the path of a file is one word
    assert lines[2].startswith("train.py:pipe: batch 4, 1 thread, ")
    assert any(line.startswith("Next: ") for line in lines)
    assert "\x1b[32m" in seen


def test_headspace_runs_a_script_and_ends_it(folder):
    """Both paces of the loop, without a change of the script, which would run for 10,000 batches."""
    seen, status = in_terminal(folder, "headspace", "-n", "20", "train.py", NO_COLOR="1")
    lines = [line for line in plain(seen) if line.strip()]
    assert status == 0, seen
    assert re.match(r"headspace \d|no headspace", lines[1])
    assert "exposed wait" in " ".join(lines[2:4])  # the first line may be broken in two
    assert max(map(len, lines)) <= 80
    assert "\x1b[" not in seen


def test_a_wrong_name_is_one_sentence_without_a_traceback(folder):
    """The nearest name, status 2, and no line of Python's."""
    seen, status = in_terminal(folder, "draw", "train.py:pip")
    assert status == 2
    assert [line for line in plain(seen) if line] == [
        "loading",
        "pipeflow draw: train.py has no 'pip' (did you mean 'pipe'?)",
    ]


def test_what_is_piped_is_json_and_nothing_else(folder):
    """--json is one object with its schema; what the user's file prints goes elsewhere."""
    command = [sys.executable, "-m", "pipeflow", "inspect", "train.py:pipe", "--sample", "6", "--json"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=LONG, check=True
    )
    found = json.loads(done.stdout)
    assert (found["schema"], found["verb"], found["status"], found["sample"]) == (1, "inspect", 0, 6)
    by_step = {step["step"]: step for step in found["steps"]}
    assert by_step["python_function: brighter"]["low"] == by_step["python_function: brighter"]["high"] == 106
    assert by_step["external_source: numbers"]["shape"] == [12, 16, 3]
    assert done.stderr == "loading\n"


def test_the_overview_names_every_verb_in_80_columns(folder):
    seen, status = in_terminal(folder)
    assert status == 2
    lines = plain(seen)
    assert max(map(len, lines)) <= 80 + len("TARGET is a pipeline, package.module:pipe")
    assert {line.split()[0] for line in lines if line.startswith("  ")} >= set(every_verb())
