"""The rows of resizes on the GPU: of the kernel that makes tap tables, and of tiles.

NumPy computes them, or compiled code once a thread has loaded it: a call of NumPy takes a microsecond, and these are sixty.
"""

from typing import Any, NamedTuple

import numpy as np

from pipeflow.device.calls import ALIGNMENT, aligned_places, ceil_div, row_type
from pipeflow.device.tables import ArrayColumn
from pipeflow.kernels import cpu as kernels
from pipeflow.operators.sampling import AXES
from pipeflow.types import (
    INTERP_CUBIC,
    INTERP_GAUSSIAN,
    INTERP_LANCZOS3,
    INTERP_LINEAR,
    INTERP_NN,
    INTERP_TRIANGULAR,
    DALIInterpType,
)

TILE_ROWS, TILE_FLOATS = 8, 6144  # as in resize_tiles.cu
OUTPUTS_OF_BLOCK = 128  # of the kernel that makes tap tables
TILE_WIDTHS = np.array([128, 64, 32, 16, 8, 4, 2, 1])
TILE_ROW_FLOATS = TILE_FLOATS // TILE_ROWS // 4 * 4  # the most values of a blended row
EDGE = 1e-6  # as in taps.cu
# By the kind of the filter: its radius in pixels, and what it is longer.
RADII, EDGES = np.ones(len(DALIInterpType)), np.zeros(len(DALIInterpType))
TRIANGLES = np.zeros(len(DALIInterpType), bool)
NEAREST = int(INTERP_NN)  # to compare with an enum takes ten times as long
TRIANGLES[[INTERP_LINEAR, INTERP_TRIANGULAR]] = True
RADII[INTERP_LANCZOS3], RADII[INTERP_CUBIC], EDGES[INTERP_GAUSSIAN] = 3.0, 2.0, 2 * EDGE

TAPS_ROW = row_type(
    starts="u8",
    weights="u8",
    low="f8",
    high="f8",
    size="i4",
    full="i4",
    first="i4",
    count="i4",
    taps="i4",
    mirror="i4",
    kind="i4",
    antialias="i4",
)
TILE_ROW = row_type(
    input="u8",
    output="u8",
    input_end="u8",
    y_starts="u8",
    x_starts="u8",
    y_weights="u8",
    x_weights="u8",
    input_plane="i8",
    output_plane="i8",
    input_row="i4",
    height="i4",
    width="i4",
    pixel="i4",
    y_taps="i4",
    x_taps="i4",
    tile_width="i4",
    tiles_x="i4",
    tiles_y="i4",
)


code: Any = None  # the compiled code: a kernels.resize_rows.Code


def _load() -> None:
    global code
    code = kernels.resize_rows.load(AXES, TAPS_ROW, TILE_ROW)


ROWS_LOAD = (lambda: code is not None), _load  # if the compiled code is loaded, and the function that loads it


class Taps(NamedTuple):
    """The tap tables of one axis of every sample, or of all axes: their addresses, and the number of taps of an output."""

    starts: np.ndarray
    weights: np.ndarray
    counts: np.ndarray

    def some(self, chosen: np.ndarray) -> "Taps":
        """The tap tables of some samples."""
        return Taps(*[column[chosen] for column in self])


def tap_counts(axes: np.ndarray, antialias: bool) -> np.ndarray:
    """The largest number of pixels that an output of each axis is computed from."""
    if code is not None:
        counts = np.empty(axes.shape, np.int64)
        code.tap_counts(axes, antialias, RADII, EDGES, TRIANGLES, NEAREST, counts)
        return counts
    scale = (axes["high"] - axes["low"]) / axes["full"]
    kind = axes["kind"]
    widen = np.maximum(np.abs(scale), 1.0) if antialias else np.ones_like(scale)
    counts = np.ceil(2 * (widen * RADII[kind] + EDGES[kind]))
    counts = np.minimum(counts, axes["size"], out=counts).astype(np.int64)
    # The filter touches one pixel only if every output is exactly at a pixel.
    exact = ((scale == np.floor(scale)) | (axes["count"] == 1)) & (widen == 1)
    if exact.any():
        centre = axes["low"] + (axes["first"] + 0.5) * scale - 0.5
        exact &= (centre == np.floor(centre)) & TRIANGLES[kind]
        counts[exact] = 1
    nearest = kind == NEAREST
    if nearest.any():
        counts[nearest] = 1
    return counts


def tap_rows(axes: np.ndarray, antialias: bool, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray, int]:
    """The rows of the kernel that makes the tap tables of all axes, and their numbers of blocks; the tables begin at address 0,
    and their end is the last result.
    """
    rows = np.zeros(axes.shape, TAPS_ROW)
    if code is not None:
        blocks = np.empty(axes.shape, np.int64)
        return rows, blocks, code.tap_rows(axes, antialias, counts, OUTPUTS_OF_BLOCK, ALIGNMENT, rows, blocks)
    for name in ("low", "high", "size", "full", "first", "count", "mirror", "kind"):
        rows[name] = axes[name]
    outputs = axes["count"]
    places, end = aligned_places((4 * outputs * (1 + counts)).ravel())
    rows["starts"] = places.reshape(axes.shape)
    rows["weights"] = rows["starts"] + 4 * outputs.astype(np.uint64)
    rows["taps"], rows["antialias"] = counts, antialias
    return rows, ceil_div(outputs, OUTPUTS_OF_BLOCK), end


def tile_widths(
    axes: np.ndarray, y_taps: np.ndarray, x_taps: np.ndarray, pixel: np.ndarray, copied: bool = False
) -> np.ndarray:
    """The widest tile whose blended rows fit into shared memory; 0 if even the rows of one column do not fit, and with
    ``copied`` if each output is one pixel.
    """
    found = np.empty(len(axes), np.int64)
    if code is not None:
        code.tile_widths(axes, y_taps, x_taps, pixel, copied, TILE_WIDTHS, TILE_ROW_FLOATS, found)
        return found
    scale = np.abs(axes["high"] - axes["low"]) / axes["full"]
    found[:] = 0
    for width in TILE_WIDTHS.tolist():  # the widest one fits nearly always
        # the first pixels of neighbouring outputs differ by the scale, plus one because both are whole, plus one for rounding
        between = np.floor(scale * (np.minimum(width, axes["count"]) - 1)) + 2 * (width > 1)
        fits = np.minimum(between + x_taps, axes["size"]) * pixel <= TILE_ROW_FLOATS
        found[fits & (found == 0)] = width
        if fits.all():
            break
    if copied:
        found[(y_taps == 1) & (x_taps == 1)] = 0
    return found


def tile_rows(
    source: ArrayColumn,
    target: ArrayColumn,
    outer: np.ndarray,
    axes: np.ndarray,
    pixel: np.ndarray,
    y: Taps,
    x: Taps,
    tiles: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """The rows of resizes by tiles of these widths, and their numbers of blocks."""
    rows = np.zeros(len(tiles), TILE_ROW)
    if code is not None:
        blocks, given = np.empty(len(tiles), np.int64), (source.addresses, target.addresses, source.ends)
        code.tile_rows(*given, outer, axes, pixel, (tuple(y), tuple(x)), tiles, TILE_ROWS, rows, blocks)
        return rows, blocks
    (height, width), (tall, wide) = axes["size"].T, axes["count"].T
    across, down = ceil_div(wide, tiles), ceil_div(tall, TILE_ROWS)
    row = width * pixel
    for name, column in (
        ("input", source.addresses),
        ("output", target.addresses),
        ("input_end", source.ends),
        ("y_starts", y.starts),
        ("x_starts", x.starts),
        ("y_weights", y.weights),
        ("x_weights", x.weights),
        ("input_plane", height * row),
        ("output_plane", tall * wide * pixel),
        ("input_row", row),
        ("height", tall),
        ("width", wide),
        ("pixel", pixel),
        ("y_taps", y.counts),
        ("x_taps", x.counts),
        ("tile_width", tiles),
        ("tiles_x", across),
        ("tiles_y", down),
    ):
        rows[name] = column
    return rows, outer * across * down
