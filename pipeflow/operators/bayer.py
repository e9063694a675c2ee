"""Computes colours from the raw data of a sensor: debayer."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from pipeflow.declare import UNKNOWN, Arg, Ints, Out, Sample, Spec, default, operator, required
from pipeflow.kernels import cpu as kernels

ALGORITHMS = ("bilinear_ocv", "edgeaware_ocv", "vng_ocv", "gray_ocv", "default_npp")


def checked_position(position: Sequence[int]) -> tuple[int, int]:
    """Row and column of the blue value in its tile."""
    if len(position) != 2 or not all(place in (0, 1) for place in position):
        raise ValueError(f"blue_position must be a row and a column in a 2 x 2 tile, got {tuple(position)}")
    return position[0], position[1]


def sensor_extents(shape: Sequence[int]) -> tuple[int, int]:
    """Height and width of raw data."""
    if len(shape) == 3 and shape[2] != 1:
        raise ValueError(f"raw data has one channel, got {shape[2]} (shape {tuple(shape)})")
    height, width = shape[:2]
    if height % 2 or width % 2 or not height * width:
        raise ValueError(f"raw data has an even height and width, got {height} x {width}")
    return height, width


@operator(
    "debayer",
    compiled=True,
    layouts="HW HWC FHW FHWC",
    sequences=True,
    dtypes="uint8 uint16",
    gpu=True,
    examples=[
        "fn.debayer(bayer, blue_position=(0, 1))",
        "fn.debayer(bayer, blue_position=(0, 0), algorithm='edgeaware_ocv')",
    ],
)
def debayer(
    data: Sample,
    /,
    *,
    blue_position: Arg[Ints] = required(
        "row and column of blue in a tile that starts at the second row and column: (0, 0) is BG, (0, 1) GB, (1, 0) GR, (1, 1) RG"
    ),
    algorithm: str = default(
        "bilinear_ocv",
        "`bilinear_ocv`, `edgeaware_ocv`, `vng_ocv` (UINT8 only) or `gray_ocv`; `default_npp` is the first",
    ),
    out: Out,
) -> Sample:
    """Converts the data of a sensor whose pixels have one colour each to RGB or grey, as OpenCV does.

    Only the bilinear algorithm runs on the GPU.
    """
    height, width = sensor_extents(data.shape)
    if algorithm == "vng_ocv" and data.dtype != "uint8":
        raise TypeError(f"vng_ocv takes uint8, got {data.dtype}")
    chosen = "bilinear_ocv" if algorithm == "default_npp" else algorithm
    return kernels.bayer.debayer(data.reshape(height, width), checked_position(blue_position), chosen, out)


@debayer.ready
def _(specs: tuple[Spec, ...], args: Any) -> Any:
    extents, dtype, blue = sensor_extents(specs[0].shape), specs[0].dtype, checked_position(args.blue_position)
    if args.algorithm in ("bilinear_ocv", "default_npp"):
        return kernels.bayer.bilinear_again(dtype, extents[1], blue)
    if args.algorithm == "vng_ocv" and dtype != np.uint8:
        return None
    return kernels.bayer.by_opencv(blue, args.algorithm, extents)


@debayer.check
def _(args: Any) -> None:
    if args.algorithm not in ALGORITHMS:
        raise ValueError(f"algorithm must be one of {', '.join(ALGORITHMS)}, got {args.algorithm!r}")
    if args.blue_position is not UNKNOWN:
        checked_position(args.blue_position)


@debayer.infer
def _(specs: tuple[Spec, ...], args: Any) -> Spec:
    spec = specs[0]
    return Spec((*spec.shape[:2], 1 if args.algorithm == "gray_ocv" else 3), spec.dtype, "HWC")
