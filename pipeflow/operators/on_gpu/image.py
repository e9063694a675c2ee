"""Blurring and JPEG's distortion on the GPU."""

import functools
import math
from typing import Any

import numpy as np

from pipeflow.device.calls import DeviceCall, Item, View, ceil_div, row_type
from pipeflow.kernels.gpu import TYPES
from pipeflow.operators import image
from pipeflow.operators.geometry import spatial
from pipeflow.operators.on_gpu.elementwise import BLOCK, cast_views

TALL, WIDE, MARGIN = 16, 128, 192  # of filter.cu
DIRECT = {np.dtype(np.uint8), np.dtype(np.float32)}  # what the kernels read and write themselves
FLOAT = np.dtype(np.float32)

BLUR_ROW = row_type(
    input="u8", output="u8", heights="u8", widths="u8", height="i8", width="i8", pixel="i4", above="i4", beside="i4"
)
PASS_ROW = row_type(input="u8", output="u8", window="u8", total="i8", extent="i8", inner="i8", radius="i4")


def in_scratch(call: DeviceCall, views: list[View]) -> list[View]:
    """Arrays of the same shapes in FLOAT, for what lies between two launches."""
    places = np.cumsum([0, *[ceil_div(4 * view.size, 16) * 16 for view in views]])
    address = call.scratch(int(places[-1]))
    return [View(address + int(place), view.shape, FLOAT) for view, place in zip(views, places)]


def launch_passes(
    call: DeviceCall, sources: list[View], targets: list[View], windows: list[tuple[int, int]], axes: list[int]
) -> None:
    """Filters one axis of each array; ``windows`` are addresses and lengths."""
    rows = [
        (
            source.address,
            target.address,
            address,
            source.size,
            source.shape[axis],
            math.prod(source.shape[axis + 1 :]),
            size // 2,
        )
        for source, target, (address, size), axis in zip(sources, targets, windows, axes, strict=True)
    ]
    kernel = f"filter.cu:filter_axis<{TYPES[sources[0].dtype.name]}, {TYPES[targets[0].dtype.name]}>"
    call.launch(kernel, np.array(rows, PASS_ROW), [ceil_div(source.size, BLOCK) for source in sources])


@image.gaussian_blur.gpu_plan
def _(item: Item) -> Any:
    windows = image.blur_windows(item.args.sigma, item.args.window_size, len(spatial(item.layouts[0])))
    image.some_pixels(item.input.shape)
    return windows


@image.gaussian_blur.gpu
def _(call: DeviceCall) -> None:
    items = call.items
    axes = [spatial(item.layouts[0])[-2:] for item in items]
    start = call.upload(np.concatenate([window for item in items for window in item.plan]))
    tables: list[list[tuple[int, int]]] = []
    for item in items:
        tables.append([])
        for window in item.plan:
            tables[-1].append((start, len(window)))
            start += window.nbytes
    sources, targets = [item.input for item in items], [item.output for item in items]
    if sources[0].dtype not in DIRECT:
        typed = in_scratch(call, sources)
        cast_views(call, list(zip(sources, typed, strict=True)))
        sources = typed
    if targets[0].dtype not in DIRECT:
        targets = in_scratch(call, targets)
    if len(items[0].plan) == 3:
        deep = in_scratch(call, sources)
        depths = [spatial(item.layouts[0])[0] for item in items]
        launch_passes(call, sources, deep, [own[0] for own in tables], depths)
        sources = deep
    wide = [_margin(source, own, pair) > MARGIN for source, own, pair in zip(sources, tables, axes, strict=True)]
    if any(wide):
        middle = in_scratch(call, sources)
        launch_passes(call, sources, middle, [own[-2] for own in tables], [pair[0] for pair in axes])
        launch_passes(call, middle, targets, [own[-1] for own in tables], [pair[1] for pair in axes])
    else:
        _launch_blur(call, sources, targets, tables, axes)
    if targets[0] != items[0].output:
        cast_views(call, [(view, item.output) for view, item in zip(targets, items, strict=True)])


def _margin(source: View, own: list[tuple[int, int]], pair: list[int]) -> int:
    return own[-1][1] // 2 * math.prod(source.shape[pair[1] + 1 :])


def _launch_blur(
    call: DeviceCall,
    sources: list[View],
    targets: list[View],
    tables: list[list[tuple[int, int]]],
    axes: list[list[int]],
) -> None:
    rows, blocks = [], []
    for source, target, own, (vertical, horizontal) in zip(sources, targets, tables, axes, strict=True):
        height, pixel = source.shape[vertical], math.prod(source.shape[horizontal + 1 :])
        width = source.shape[horizontal] * pixel
        (heights, tall), (widths, wide) = own[-2:]
        rows.append((source.address, target.address, heights, widths, height, width, pixel, tall // 2, wide // 2))
        blocks.append(math.prod(source.shape[:vertical]) * ceil_div(height, TALL) * ceil_div(width, WIDE))
    kernel = f"filter.cu:blur<{TYPES[sources[0].dtype.name]}, {TYPES[targets[0].dtype.name]}>"
    call.launch(kernel, np.array(rows, BLUR_ROW), blocks)


# ----------------------------------------------------------------------------------------------------
# jpeg_compression_distortion

JPEG_ROW = row_type(
    input="u8", output="u8", luma="u8", blue="u8", red="u8", steps="u8", height="i4", width="i4", across="i4", down="i4"
)
UNITS, PIXELS = 4, 1024  # squares of 16 x 16, and pixels, of a block of jpeg.cu

# The steps of quantisation that the JPEG standard gives as an example, for quality 50.
LUMA_STEPS = (
    16, 11, 10, 16, 24, 40, 51, 61,
    12, 12, 14, 19, 26, 58, 60, 55,
    14, 13, 16, 24, 40, 57, 69, 56,
    14, 17, 22, 29, 51, 87, 80, 62,
    18, 22, 37, 56, 68, 109, 103, 77,
    24, 35, 55, 64, 81, 104, 113, 92,
    49, 64, 78, 87, 103, 121, 120, 101,
    72, 92, 95, 98, 112, 100, 103, 99,
)  # fmt: skip
CHROMA_STEPS = (
    17, 18, 24, 47, 99, 99, 99, 99,
    18, 21, 26, 66, 99, 99, 99, 99,
    24, 26, 56, 99, 99, 99, 99, 99,
    47, 66, 99, 99, 99, 99, 99, 99,
    *[99] * 32,
)  # fmt: skip


@functools.lru_cache(maxsize=128)
def quantisation(quality: int) -> np.ndarray:
    """The steps for a quality from 1 to 100, luma before chroma."""
    scale = 5000 // quality if quality < 50 else 200 - 2 * quality
    return np.clip((np.array(LUMA_STEPS + CHROMA_STEPS) * scale + 50) // 100, 1, 255).astype(np.int32)


@image.jpeg_compression_distortion.gpu_plan
def _(item: Item) -> None:
    image.check_compressible(item.input.shape, item.args.quality)


@image.jpeg_compression_distortion.gpu
def _(call: DeviceCall) -> None:
    qualities = sorted({item.args.quality for item in call.items})
    steps = call.upload(np.concatenate([quantisation(quality) for quality in qualities]))
    rows = []
    for item in call.items:
        height, width, _channels = item.input.shape
        across, down = ceil_div(width, 16), ceil_div(height, 16)
        luma = call.scratch(across * down * 384)
        blue = luma + across * down * 256
        own = steps + 512 * qualities.index(item.args.quality)
        addresses = item.input.address, item.output.address, luma, blue, blue + across * down * 64, own
        rows.append((*addresses, height, width, across, down))
    table = np.array(rows, JPEG_ROW)
    call.launch("jpeg.cu:compress", table, [ceil_div(row[-1] * row[-2], UNITS) for row in rows])
    call.launch("jpeg.cu:restore", table, [ceil_div(row[-3] * row[-4], PIXELS) for row in rows])
