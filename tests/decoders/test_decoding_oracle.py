"""Decoders and readers beside the real DALI: the same pixels, orders and regions.

`PIPEFLOW_ORACLE_PYTHON` names a Python with DALI; `make test-oracle` sets it up.
"""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from decoders.pictures import JPEG, LOSSLESS, RGB, exif, pillow
from decoders.zoo import ZOO

pytestmark = pytest.mark.oracle

# What DALI does not decode. (It ends the process over a gray JPEG as ANY_DATA, which is therefore not asked.)
LEFT_OUT = {"gif": "no decoder"}
# Of the rare kinds, some that DALI decodes, too.
ALIKE = ("tiff associated alpha 8", "tiff unassociated alpha 8", "tiff float 32", "tiff palette 2", "tiff big 8", "tiff gray 1",
         "tiff associated alpha 16", "tiff tiles of differences 16", "bmp 24 from the top", "pnm P3 up to 255",
         "png gray 2 interlaced")  # fmt: skip
# Where the two may differ, and by how many levels.
GRAY_OF = ("tiff", "16 bit", "ppm")


def tolerance(name, mode):
    """Levels by which a value may differ."""
    if "cmyk" in name:  # DALI's conversion of CMYK is another one
        return {"uint16": 514, "float": 0.0079}.get(mode, 2)
    if mode in ("gray", "ycbcr") and any(kind in name for kind in GRAY_OF):
        return 1
    return 1e-6 if mode == "float" else 0


def side(python, library, folder):
    """The results of one library."""
    output = str(folder / f"{library}.npz")
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    subprocess.run(
        [python, Path(__file__).with_name("decoding_side.py"), library, folder, output], check=True, env=environment
    )
    with np.load(output) as stored:
        return dict(stored)


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """(ours, DALI's) results for the same files."""
    folder = tmp_path_factory.mktemp("oracle")
    (folder / "pictures").mkdir()
    pictures = {name: data for name, (data, _) in LOSSLESS.items()} | JPEG
    pictures |= {name: ZOO[name].data for name in ALIKE}
    pictures |= {f"turned {number}": pillow(RGB, "JPEG", quality=90, exif=exif(number)) for number in range(1, 9)}
    for name, data in pictures.items():
        if name not in LEFT_OUT:
            (folder / "pictures" / name.replace(":", "")).write_bytes(data)
    (folder / "files" / "a").mkdir(parents=True)
    for number in range(10):
        (folder / "files" / "a" / f"{number}.jpg").write_bytes(bytes([number]))
    array = np.arange(20, dtype=np.int16).reshape(4, 5)
    np.save(folder / "c.npy", array)
    np.save(folder / "fortran.npy", np.asfortranarray(array))
    return side(sys.executable, "pipeflow", folder), side(os.environ["PIPEFLOW_ORACLE_PYTHON"], "nvidia.dali", folder)


@pytest.mark.timeout(280)
def test_pixels_orders_and_regions_are_those_of_dali(both):
    """Every picture in every colour and type, every order of the file reader, every region of the numpy reader."""
    ours, theirs = both
    assert ours.keys() == theirs.keys()
    wrong = []
    for name, expected in theirs.items():
        got = ours[name]
        if got.dtype != expected.dtype or got.shape != expected.shape:
            wrong.append(f"{name}: {got.dtype}{got.shape} instead of {expected.dtype}{expected.shape}")
        elif got.dtype.kind == "U":
            if (got != expected).any():
                wrong.append(f"{name}: {got.tolist()} instead of {expected.tolist()}")
        elif got.size:
            allowed = tolerance(*name.rsplit(": ", 1)) if ": " in name else 0
            difference = np.abs(got.astype(float) - expected).max()
            if difference > allowed:
                wrong.append(f"{name}: differs by {difference}")
    assert not wrong, "\n".join(wrong)
