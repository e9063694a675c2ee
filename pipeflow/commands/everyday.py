"""Calls of the operators that most image pipelines use: ``pipeflow warmup`` makes them to compile their kernels."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from pipeflow import progress
from pipeflow.compile import warmup
from pipeflow.compile.first_batches import load_kernels
from pipeflow.declare import find
from pipeflow.kernels import cpu as kernels

IMAGE = np.zeros((48, 64, 3), np.uint8)


def compile_everyday() -> int:
    """Compiles the kernels of common image pipelines for bytes and floats; returns their number."""
    return warmup.counted(_compile)


def _compile() -> None:
    work = [warmup.copy_large, kernels.jpeg.load, kernels.jpeg_progressive.load, kernels.jpeg_forward.load]
    for operator, arguments in calls():
        work += [partial(operator, IMAGE, **arguments), partial(load_kernels, operator, arguments)]
    for call in progress.over(work, "compile kernels of operator", len(work)):
        call()


def calls() -> Iterator[tuple[Any, dict[str, Any]]]:
    """Operators with their arguments."""
    norm = {"mean": (1.0, 2.0, 3.0), "std": (4.0, 5.0, 6.0), "mirror": True}
    fused = find("random_resized_crop+crop_mirror_normalize")
    for dtype in (np.dtype(np.float32), np.dtype(np.float16)):
        yield find("crop_mirror_normalize"), {"dtype": dtype, **norm}
        second = {f"{name}_1": value for name, value in norm.items()}
        yield fused, {"size_0": (20, 30), "dtype_1": dtype, "key": 1, **second}
    yield find("crop_mirror_normalize"), {"output_layout": "HWC", "dtype": np.dtype(np.float32), **norm}
    yield find("resize"), {"size": (20, 30)}
    yield find("resize"), {"size": (20, 30), "interp_type": 0}
    yield find("flip"), {}
    yield find("rotate"), {"angle": 30.0, "fill_value": 0.0}
    yield find("color_twist"), {"hue": 30.0}
    yield find("brightness_contrast"), {"contrast": 0.5}
    yield find("gaussian_blur"), {"sigma": 1.0}
    yield find("cast"), {"dtype": np.float32}
