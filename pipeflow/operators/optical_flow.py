"""The movement of pixels from frame to frame: optical_flow."""

from typing import Any

import numpy as np

from pipeflow.declare import Out, Sample, Spec, code_of, default, operator
from pipeflow.kernels import cpu as kernels
from pipeflow.types import RGB, DALIImageType

GRIDS = (1, 2, 4, 8)
LEAST = 16  # the fewest pixels of a side


@operator(
    "optical_flow",
    compiled=True,
    layouts="FHWC",
    dtypes="uint8",
    former={"output_format": "output_grid"},
    examples=[
        "fn.optical_flow(frames)",
        "fn.optical_flow(frames, output_grid=1, preset=1.0, enable_temporal_hints=True)",
    ],
)
def optical_flow(
    clip: Sample,
    hints: Sample | None = None,
    /,
    *,
    preset: float = default(0.0, "speed and quality: 0.0 is slow and exact, 0.5 between, 1.0 fast"),
    output_grid: int = default(4, "side of the squares of pixels that have a common movement: 1, 2, 4 or 8"),
    hint_grid: int = default(4, "side of the squares of the hints"),
    enable_temporal_hints: bool = default(False, "begin the search with the previous movement"),
    enable_external_hints: bool = default(False, "begin the search with the movements of the second input"),
    image_type: DALIImageType = default(RGB, "colours of the frames: RGB, or GRAY for one channel"),
    out: Out,
) -> Sample:
    """Returns the movement (x, y) of every square of pixels from each frame of a sequence to the next.

    It uses OpenCV's dense inverse search; DALI uses NVIDIA's hardware, so the numbers differ.
    """
    del image_type
    frames, height, width, channels = clip.shape
    if frames < 2:
        raise ValueError(f"a movement needs two frames, the sequence has {frames}")
    if channels not in (1, 3):
        raise ValueError(f"optical_flow needs 1 or 3 channels, the frames have {channels} (shape {clip.shape})")
    if min(height, width) < LEAST:
        raise ValueError(f"optical_flow needs frames of {LEAST} x {LEAST} pixels at least, got {height} x {width}")
    if enable_external_hints:
        extents = (frames - 1, -(-height // hint_grid), -(-width // hint_grid), 2)
        if hints is None or hints.shape != extents:
            given = "none" if hints is None else f"shape {hints.shape}"
            raise ValueError(f"external hints have the shape {extents} for these frames, got {given}")
    quality = round(2 * preset)
    given_hints = hints if enable_external_hints else None
    return kernels.optical_flow.flows(clip, quality, output_grid, given_hints, enable_temporal_hints, out)


@optical_flow.ready
def _(specs: tuple[Spec, ...], args: Any) -> Any:
    frames, height, width, channels = specs[0].shape
    if (
        len(specs) > 1
        or frames < 2
        or channels not in (1, 3)
        or min(height, width) < LEAST
        or args.enable_external_hints
    ):
        return None
    flows, quality, single = kernels.optical_flow.flows, round(2 * args.preset), np.empty((0, 0, 2), np.float32)
    means = code_of(kernels.optical_flow.means_of_squares, single, args.output_grid, single)
    return lambda clip, out: flows(clip, quality, args.output_grid, None, args.enable_temporal_hints, out, means)


@optical_flow.check
def _(args: Any) -> None:
    if args.preset not in (0.0, 0.5, 1.0):
        raise ValueError(f"preset must be 0.0, 0.5 or 1.0, got {args.preset}")
    for name in ("output_grid", "hint_grid"):
        if getattr(args, name) not in GRIDS:
            raise ValueError(f"{name} must be 1, 2, 4 or 8, got {getattr(args, name)}")


@optical_flow.infer
def _(specs: tuple[Spec, ...], args: Any) -> Spec:
    frames, height, width, _ = specs[0].shape
    grid = args.output_grid
    return Spec((frames - 1, -(-height // grid), -(-width // grid), 2), np.float32, "FHWC")
