"""Resizing on the GPU: a kernel makes tap tables from the regions; then tiles are resized in one pass, or each axis
in its own.
"""

import numpy as np

from pipeflow.declare import all_of
from pipeflow.device.calls import DeviceCall, Item, Launcher, ceil_div
from pipeflow.device.tables import ArrayColumn, TableCall, products
from pipeflow.kernels.gpu import RESIZED, TYPE_CODES, TYPES, WORDS
from pipeflow.operators import resize
from pipeflow.operators.on_gpu.moves import DIVIDER, dividers, move, whole
from pipeflow.operators.on_gpu.resize_rows import (
    OUTPUTS_OF_BLOCK,
    ROWS_LOAD,
    Taps,
    tap_counts,
    tap_rows,
    tile_rows,
    tile_widths,
)
from pipeflow.operators.sampling import axes_row, resize_axes, spatial_axes
from pipeflow.operators.windows import WINDOWS_LOADS

MOST = 1 << 31  # elements that the kernels can count in 32 bits
FLOAT = np.dtype(np.float32)
TUNED = {(np.dtype(source), np.dtype(target)) for source, target in RESIZED}

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


resize.resize.rows_load = resize.resize_crop_mirror.rows_load = ROWS_LOAD
resize.random_resized_crop.rows_load = all_of(WINDOWS_LOADS, ROWS_LOAD)


@resize.resize.gpu_table
@resize.resize_crop_mirror.gpu_table
@resize.random_resized_crop.gpu_table
def _(call: TableCall) -> None:
    resized(call, call.input, call.output, call.table["axes"], call.layout, call.args.antialias)


def make_taps(call: Launcher, axes: np.ndarray, antialias: bool, counts: np.ndarray | None = None) -> list[Taps]:
    """Queues the kernel that makes the tap tables; returns them for each spatial axis. ``counts`` are those of ``tap_counts``."""
    if counts is None:
        counts = tap_counts(axes, antialias)
    rows, blocks, size = tap_rows(axes, antialias, counts)
    starts, weights = rows["starts"], rows["weights"]
    base = np.uint64(call.scratch(size))
    starts += base
    weights += base
    call.launch("taps.cu:taps", rows.ravel(), blocks.ravel(), OUTPUTS_OF_BLOCK)
    return [Taps(starts[:, axis], weights[:, axis], counts[:, axis]) for axis in range(axes.shape[1])]


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
    y, x = taps
    alike = source.dtype == target.dtype
    tuned = (source.dtype, target.dtype) in TUNED
    tiles = tile_widths(axes[:, 1], y.counts, x.counts, pixel, alike) if tuned else np.zeros_like(pixel)
    if tiles.all():
        tiles_launched(call, source, target, outer, axes, pixel, y, x, tiles)
        return
    (height, width), (tall, wide) = axes["size"].T, axes["count"].T
    picked = (y.counts == 1) & (x.counts == 1) if alike else np.zeros(len(tiles), bool)
    if picked.any():
        pick(call, source, target, (height, width), (tall, wide), pixel, y.starts, x.starts, picked)
    some = np.flatnonzero(tiles)
    if len(some):
        given, wanted = source.some(some), target.some(some)
        tiles_launched(
            call, given, wanted, outer[some], axes[some], pixel[some], y.some(some), x.some(some), tiles[some]
        )
    left = np.flatnonzero(~picked & (tiles == 0))
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
