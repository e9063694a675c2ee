"""JPEG pictures for benchmarks that need no photographs of their own: smooth, in many colours, equal in every run."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np


def jpeg(rng: np.random.Generator, height: int, width: int, noise: int = 0) -> bytes:
    """One picture, with noise of up to so much."""
    from PIL import Image

    rough = rng.integers(0, 256, (60, 80, 3), dtype=np.uint8)
    picture = np.asarray(Image.fromarray(rough).resize((width, height), Image.BICUBIC))
    if noise:
        picture = np.clip(picture + rng.integers(-noise, noise + 1, picture.shape), 0, 255).astype(np.uint8)
    data = io.BytesIO()
    Image.fromarray(picture).save(data, "jpeg", quality=90)
    return data.getvalue()


def write(folder: Path, count: int, height: int, width: int, noise: int = 0) -> None:
    """So many pictures as files of a folder."""
    rng = np.random.default_rng(0)
    for number in range(count):
        folder.joinpath(f"{number:03}.jpg").write_bytes(jpeg(rng, height, width, noise))
