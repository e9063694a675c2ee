"""The examples that need a framework run, in seconds, on data they make themselves."""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

pytestmark = pytest.mark.adapters
needs_torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="the example needs torch")
ROOT = Path(__file__).parents[2]


def run(name, *arguments, folder, **variables):
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", **variables}
    command = [sys.executable, str(ROOT / "examples" / name), *arguments]
    result = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=150)
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_torch_training_continues_where_it_was_stopped(tmp_path):
    """Stopped in the second epoch and started again: the same final loss, to the last digit, as in one go."""
    whole = run("train_torch.py", "--state", "whole.pt", folder=tmp_path)
    stopped = run("train_torch.py", "--state", "parts.pt", "--stop-after", "70", folder=tmp_path)
    assert "stopped in epoch 2 after batch 23" in stopped
    continued = run("train_torch.py", "--state", "parts.pt", folder=tmp_path)
    assert "continuing in epoch 2 after batch 23 of 47" in continued
    assert continued.splitlines()[-19:] == whole.splitlines()[-19:]  # the last loss, and the classes of the plane
    assert float(re.findall(r"last batch (\S+)", whole)[-1]) < 0.6


def test_jax_training_on_four_devices(tmp_path):
    """The loss falls, on four devices of the CPU."""
    output = run(
        "train_jax.py", folder=tmp_path, XLA_FLAGS="--xla_force_host_platform_device_count=4", JAX_PLATFORMS="cpu"
    )
    losses = [float(loss) for loss in re.findall(r"on 4 devices: loss (\S+),", output)]
    assert len(losses) == 5
    assert losses[-1] < losses[0] / 100


def test_ray_preparation(tmp_path):
    """All images come out, once, in the shape they were cropped to."""
    assert "200 images of (24, 24, 3), mean 0.4" in run("ray_preprocess.py", folder=tmp_path)


def test_lightning_continues_in_the_middle_of_an_epoch(tmp_path):
    """Stopped after batch 7 of the second epoch and continued from Lightning's checkpoint: the same batches and weights."""
    output = run("train_lightning.py", folder=tmp_path).splitlines()
    assert output == [
        "in one go 40 batches, in parts 23 and 17",
        "in one go " + 40 * "=",
        "in parts  " + 23 * "=" + 17 * ">",
        "the same batches: True",
        "the same weights: True",
    ]


def test_hugging_face_pictures(tmp_path):
    """Every picture of the data set comes once an epoch, as a tensor."""
    output = run("hugging_face.py", folder=tmp_path, HF_HUB_OFFLINE="1", HF_HOME=str(tmp_path))
    assert output.count("4 batches, the last (4, 3, 24, 24) of torch.float32, every picture once: True") == 2


@needs_torch
def test_a_learnable_colour_transform(tmp_path):
    """The loss falls to a tenth, and what the transform makes of the pictures comes close to what was wanted."""
    output = run("learnable_color.py", "--steps", "100", "--picture", "colors.png", folder=tmp_path)
    first, last = re.search(r"loss (\S+), at the end (\S+)", output).groups()
    assert float(last) < float(first) / 10
    rows = np.asarray(Image.open(tmp_path / "colors.png")).astype(float)
    height = (len(rows) - 8) // 3
    before, after, wanted = [rows[start : start + height] for start in (0, height + 4, 2 * height + 8)]
    assert np.abs(after - wanted).mean() < 0.5 * np.abs(before - wanted).mean()


@needs_torch
def test_the_gradients_of_log_huber(tmp_path):
    """For x = 1 the value is 1 and the derivative 2."""
    assert "x =  1.0: log_huber =  1.000, derivative = 2.000" in run("gradients.py", folder=tmp_path)
