"""Resizing on the GPU: a kernel makes tap tables from the regions; then tiles are resized in one pass, or each axis
in its own.
"""

from typing import NamedTuple

import numpy as np

from pipeflow.device.calls import DeviceCall, Item, Launcher, ceil_div, row_type
from pipeflow.device.tables import ArrayColumn, TableCall, products
from pipeflow.kernels.gpu import RESIZED, TYPE_CODES, TYPES, WORDS
from pipeflow.operators import resize
from pipeflow.operators.on_gpu.moves import DIVIDER, dividers, move, whole
from pipeflow.operators.sampling import axes_row, resize_axes, spatial_axes
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
TILE_WIDTHS = (128, 64, 32, 16, 8, 4, 2, 1)
MOST = 1 << 31  # elements that the kernels can count in 32 bits
EDGE = 1e-6  # as in taps.cu
# By the kind of the filter: its radius in pixels, and what it is longer.
RADII, EDGES = np.ones(len(DALIInterpType)), np.zeros(len(DALIInterpType))
TRIANGLES, NEAREST = (
    np.zeros(len(DALIInterpType), bool),
    int(INTERP_NN),
)  # to compare with an enum takes ten times as long
TRIANGLES[[INTERP_LINEAR, INTERP_TRIANGULAR]] = True
RADII[INTERP_LANCZOS3], RADII[INTERP_CUBIC], EDGES[INTERP_GAUSSIAN] = 3.0, 2.0, 2 * EDGE
FLOAT = np.dtype(np.float32)
TUNED = {(np.dtype(source), np.dtype(target)) for source, target in RESIZED}

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
AXIS_ROW = np.dtype(
    [
        ("input", "u8"),
        ("output", "u8"),
        ("starts", "u8"),
        ("weights", "u8"),
        ("extent", "i8"),
        ("inner", DIVIDER),
        ("result", DIVIDER),
        ("taps", "i4"),
        ("total", "u4"),
        ("input_type", "i4"),
        ("output_type", "i4"),
    ],
    align=True,
)
PICK_ROW = np.dtype(
    [
        ("input", "u8"),
        ("output", "u8"),
        ("rows", "u8"),
        ("columns", "u8"),
        ("input_plane", "i8"),
        ("input_row", "i8"),
        ("pixel", DIVIDER),
        ("width", DIVIDER),
        ("height", DIVIDER),
        ("total", "u4"),
    ],
    align=True,
)


def spatial(item: Item) -> tuple[tuple[int, ...], str]:
    """Extents and letters of the axes that are resized."""
    layout = item.layouts[0]
    first, count = spatial_axes(layout)
    return item.input.shape[first : first + count], layout[first : first + count]


def some_pixels(item: Item) -> None:
    """Raises an error if the image has no pixels."""
    if not (item.input.size and item.outputs[0].size):
        shape, wanted = item.input.shape, item.outputs[0].shape
        raise ValueError(f"cannot resize an image of shape {shape} to {wanted}: it has no pixels")


@resize.resize.gpu_plan
def _(item: Item) -> np.ndarray:
    some_pixels(item)
    return axes_row(resize_axes(*spatial(item), item.args), item.args)


@resize.resize_crop_mirror.gpu_plan
def _(item: Item) -> np.ndarray:
    some_pixels(item)
    return axes_row(resize.cropped_axes(*spatial(item), item.args), item.args)


@resize.random_resized_crop.gpu_plan
def _(item: Item) -> np.ndarray:
    some_pixels(item)
    return axes_row(resize.window_axes(spatial(item)[0], item.args.size, item.args.window), item.args)


@resize.resize.gpu
@resize.resize_crop_mirror.gpu
@resize.random_resized_crop.gpu
def _(call: DeviceCall) -> None:
    items = call.items
    source, target = (ArrayColumn.of(views) for views in zip(*[(item.input, item.output) for item in items]))
    resized(call, source, target, np.stack([item.plan for item in items]), items[0].layouts[0], items[0].args.antialias)
    if len(items[0].outputs) > 1:  # the second output of save_attrs
        boxes = []
        for item in items:
            sizes = item.outputs[1]
            given = np.array(spatial(item)[0], np.int32)
            boxes.append(whole(sizes._replace(address=call.upload(given)), sizes))
        move(call, boxes, 4)


@resize.resize.gpu_table
@resize.resize_crop_mirror.gpu_table
@resize.random_resized_crop.gpu_table
def _(call: TableCall) -> None:
    resized(call, call.input, call.output, call.table["axes"], call.layout, call.args.antialias)


class Taps(NamedTuple):
    """The tap tables of one axis of every sample: their addresses, and the number of taps of an output."""

    starts: np.ndarray
    weights: np.ndarray
    counts: np.ndarray

    def some(self, chosen: np.ndarray) -> "Taps":
        """The tap tables of some samples."""
        return Taps(*[column[chosen] for column in self])


def tap_counts(axes: np.ndarray, antialias: bool) -> np.ndarray:
    """The largest number of pixels that an output of each axis is computed from."""
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


def make_taps(call: Launcher, axes: np.ndarray, antialias: bool, counts: np.ndarray | None = None) -> list[Taps]:
    """Queues the kernel that makes the tap tables; returns them for each spatial axis. ``counts`` are those of ``tap_counts``."""
    if counts is None:
        counts = tap_counts(axes, antialias)
    rows = np.zeros(axes.shape, TAPS_ROW)
    for name in ("low", "high", "size", "full", "first", "count", "mirror", "kind"):
        rows[name] = axes[name]
    outputs = axes["count"]
    starts = call.scratch_each((4 * outputs * (1 + counts)).ravel()).reshape(axes.shape)
    weights = starts + 4 * outputs
    rows["starts"], rows["weights"], rows["taps"], rows["antialias"] = starts, weights, counts, antialias
    call.launch("taps.cu:taps", rows.ravel(), ceil_div(outputs, 128).ravel(), 128)
    return [Taps(*columns) for columns in zip(starts.T, weights.T, counts.T)]


def resized(
    call: Launcher, source: ArrayColumn, target: ArrayColumn, axes: np.ndarray, layout: str, antialias: bool
) -> None:
    """Queues the resizes of arrays into others, along the spatial axes of their layout."""
    first, count = spatial_axes(layout)
    outer, pixel = products(source.shapes[:, :first]), products(source.shapes[:, first + count :])
    taps = make_taps(call, axes, antialias)
    extents, wanted = axes["size"].T, axes["count"].T
    if count == 3:  # the outermost axis first, as on the CPU
        inner = extents[1] * extents[2] * pixel
        deep = in_scratch(call, outer * wanted[0] * inner, FLOAT)
        pass_along(call, source, deep, outer, extents[0], wanted[0], inner, taps[0])
        source, outer = deep, outer * wanted[0]
    images(call, source, target, outer, axes[:, -2:], pixel, taps[-2:])


def in_scratch(call: Launcher, sizes: np.ndarray, dtype: np.dtype) -> ArrayColumn:
    """Arrays of these numbers of elements for results between two launches."""
    return ArrayColumn(call.scratch_each(sizes * dtype.itemsize), sizes[:, None], dtype)


def images(
    call: Launcher,
    source: ArrayColumn,
    target: ArrayColumn,
    outer: np.ndarray,
    axes: np.ndarray,
    pixel: np.ndarray,
    taps: list[Taps],
) -> None:
    """Queues the resizes of samples with ``outer`` images each, whose pixels have ``pixel`` values next to each other."""
    (height, width), (tall, wide), (y, x) = axes["size"].T, axes["count"].T, taps
    picked = (y.counts == 1) & (x.counts == 1)
    if source.dtype != target.dtype:
        picked[:] = False
    tuned = (source.dtype, target.dtype) in TUNED
    tiles = tile_widths(axes[:, 1], x.counts, pixel) if tuned else np.zeros_like(pixel)
    if picked.any():
        tiles[picked] = 0
        pick(call, source, target, (height, width), (tall, wide), pixel, y.starts, x.starts, picked)
    tiled = tiles > 0
    if tiled.all():
        tiles_launched(call, source, target, outer, axes, pixel, y, x, tiles)
        return
    some = np.flatnonzero(tiled)
    if len(some):
        given, wanted = source.some(some), target.some(some)
        tiles_launched(
            call, given, wanted, outer[some], axes[some], pixel[some], y.some(some), x.some(some), tiles[some]
        )
    left = np.flatnonzero(~picked & ~tiled)
    if len(left):
        source, target = source.some(left), target.some(left)
        outer, height, width, tall, wide, pixel = (x[left] for x in (outer, height, width, tall, wide, pixel))
        y, x = y.some(left), x.some(left)
        between = in_scratch(call, outer * tall * width * pixel, FLOAT)
        pass_along(call, source, between, outer, height, tall, width * pixel, y)
        pass_along(call, between, target, outer * tall, width, wide, pixel, x)


def tiles_launched(
    call: Launcher,
    source: ArrayColumn,
    target: ArrayColumn,
    outer: np.ndarray,
    axes: np.ndarray,
    pixel: np.ndarray,
    y: Taps,
    x: Taps,
    tiles: np.ndarray,
) -> None:
    """Queues resizes by tiles of these widths."""
    rows, blocks = tile_rows(source, target, outer, axes, pixel, y, x, tiles)
    first = int(pixel[0])
    channels = first if first in (1, 3) and (pixel == first).all() else 0
    kernel = f"resize_tiles<{TYPES[source.dtype]}, {TYPES[target.dtype]}, {channels}>"
    call.launch(f"resize_tiles.cu:{kernel}", rows, blocks)


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
    (height, width), (tall, wide) = axes["size"].T, axes["count"].T
    across, down = ceil_div(wide, tiles), ceil_div(tall, TILE_ROWS)
    rows, row = np.zeros(len(tiles), TILE_ROW), width * pixel
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


def tile_widths(axes: np.ndarray, counts: np.ndarray, pixel: np.ndarray) -> np.ndarray:
    """The widest tile whose blended rows fit into shared memory; 0 if even the rows of one column do not fit."""
    scale = np.abs(axes["high"] - axes["low"]) / axes["full"]
    found = np.zeros_like(counts)
    for width in TILE_WIDTHS:  # the widest one fits nearly always
        # the first pixels of neighbouring outputs differ by the scale, plus one because both are whole, plus one for rounding
        between = np.floor(scale * (np.minimum(width, axes["count"]) - 1)) + 2 * (width > 1)
        fits = np.minimum(between + counts, axes["size"]) * pixel <= TILE_FLOATS // TILE_ROWS // 4 * 4
        found[fits & (found == 0)] = width
        if fits.all():
            break
    return found


def counted(totals: np.ndarray) -> None:
    """Raises an error for more values than these kernels count in 32 bits."""
    if totals.max() >= MOST:
        raise ValueError(f"the GPU resizes to fewer than 2**31 values at a time, got {totals.max()}")


def pass_along(
    call: Launcher,
    source: ArrayColumn,
    target: ArrayColumn,
    outer: np.ndarray,
    extent: np.ndarray,
    result: np.ndarray,
    inner: np.ndarray,
    taps: Taps,
) -> None:
    """Queues a pass along one axis: arrays (outer, extent, inner) become (outer, result, inner)."""
    total = outer * result * inner
    counted(total)
    rows = np.zeros(len(total), AXIS_ROW)
    rows["input"], rows["output"] = source.addresses, target.addresses
    rows["starts"], rows["weights"], rows["taps"] = taps
    rows["extent"], rows["inner"], rows["result"], rows["total"] = extent, dividers(inner), dividers(result), total
    rows["input_type"], rows["output_type"] = TYPE_CODES[source.dtype], TYPE_CODES[target.dtype]
    read = "double" if source.dtype == np.float64 else "float"
    call.launch(f"resize.cu:resize_axis<{read}>", rows, ceil_div(total, 1024))


def pick(
    call: Launcher,
    source: ArrayColumn,
    target: ArrayColumn,
    given: tuple[np.ndarray, np.ndarray],
    wanted: tuple[np.ndarray, np.ndarray],
    pixel: np.ndarray,
    y_starts: np.ndarray,
    x_starts: np.ndarray,
    chosen: np.ndarray,
) -> None:
    """Queues the choice of the nearest pixels, for some of the samples."""
    (height, width), (tall, wide) = given, wanted
    total = target.sizes[chosen]
    counted(total)
    rows = np.zeros(len(total), PICK_ROW)
    for name, column in (
        ("input", source.addresses),
        ("output", target.addresses),
        ("rows", y_starts),
        ("columns", x_starts),
        ("input_plane", height * width * pixel),
        ("input_row", width * pixel),
        ("pixel", dividers(pixel)),
        ("width", dividers(wide)),
        ("height", dividers(tall)),
    ):
        rows[name] = column[chosen]
    rows["total"] = total
    call.launch(f"resize.cu:pick<{WORDS[source.dtype.itemsize]}>", rows, ceil_div(total, 1024))
