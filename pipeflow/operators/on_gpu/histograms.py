"""Spreads values over their range on the GPU."""

from typing import Any

import numpy as np

from pipeflow.device.calls import DeviceCall, Item, ceil_div, row_type
from pipeflow.kernels import cpu as kernels
from pipeflow.operators import histograms
from pipeflow.operators.on_gpu.elementwise import counted
from pipeflow.operators.on_gpu.moves import DIVIDER, divide_by

ROW = row_type(input="u8", output="u8", counts="u8", total="i8", step="i4")
VALUES = 16384  # of histograms.cu


def channels_of(call: DeviceCall) -> list[tuple[Item, int, int, int, int]]:
    """For every channel with values: (item, place of its first value, count of values, step between values, number of the
    channel).
    """
    channels = []
    for item in call.items:
        shape, layout = item.input.shape, item.layouts[0]
        count = shape[layout.index("C")] if "C" in layout else 1
        each = item.input.size // max(count, 1)
        apart = layout[-1] != "C"
        channels += [(item, k * each if apart else k, each, 1 if apart else count, k) for k in range(count) if each]
    return channels


@histograms.equalize.gpu
def _(call: DeviceCall) -> None:
    channels = channels_of(call)
    counts = call.upload(np.zeros((len(channels), 256), np.uint32))
    rows = [
        (item.input.address + start, item.output.address + start, counts + 1024 * number, each, step)
        for number, (item, start, each, step, _) in enumerate(channels)
    ]
    blocks = [ceil_div(each, VALUES) for _, _, each, _, _ in channels]
    table = np.array(rows, ROW)
    call.launch("histograms.cu:count_values", table, blocks)
    call.launch("histograms.cu:spread_values", table, blocks)


# ----------------------------------------------------------------------------------------------------
# clahe

LIGHT_ROW = row_type(input="u8", output="u8", linear="u8", roots="u8", total="i8")
TILES_ROW = row_type(
    input="u8",
    tables="u8",
    height="i4",
    width="i4",
    tall="i4",
    wide="i4",
    across="i4",
    step="i4",
    limit="i4",
    scale="f4",
)
SPREAD_ROW = np.dtype(
    [
        ("input", "u8"), ("light", "u8"), ("output", "u8"), ("tables", "u8"), ("linear", "u8"), ("roots", "u8"),
        ("lumas", "u8"), ("shades", "u8"), ("width", DIVIDER), ("total", "i4"), ("across", "i4"), ("down", "i4"),
        ("inverse_tall", "f4"), ("inverse_wide", "f4"), ("step", "i4"),
    ], align=True,
)  # fmt: skip
PIXELS = 4096  # of clahe.cu


@histograms.clahe.gpu_plan
def _(item: Item) -> tuple[int, int, int]:
    histograms.check_clahe(item.input.shape)
    counted(item)
    args = item.args
    tall, wide, _, _, limit = histograms.tiles_of(item.input.shape, args.tiles_x, args.tiles_y, args.clip_limit)
    return tall, wide, limit


@histograms.clahe.gpu
def _(call: DeviceCall) -> None:
    linear, roots, lumas, shades = map(call.upload, kernels.lab.tables())
    lights: list[tuple[int, ...]] = []
    tiles: list[tuple[Any, ...]] = []
    spreads: dict[str, list[tuple[Any, ...]]] = {}
    for item in call.items:
        tall, wide, limit = item.plan
        (height, width, channels), source, out = item.input.shape, item.input.address, item.output.address
        across, down, pixels = item.args.tiles_x, item.args.tiles_y, height * width
        inverses = np.float32(1) / np.float32(tall), np.float32(1) / np.float32(wide)
        light = call.scratch(pixels) if channels == 3 and item.args.luma_only else 0
        if light:
            lights.append((source, light, linear, roots, pixels))
        for channel in range(1 if light else channels):
            step, begin = (1, light) if light else (channels, source + channel)
            tables = call.scratch(256 * across * down)
            scale = np.float32(255 / (tall * wide))
            tiles.append((begin, tables, height, width, tall, wide, across, step, limit, scale))
            ends = (source, light, out) if light else (begin, 0, out + channel)
            numbers = divide_by(width), pixels, across, down, *inverses, step
            kernel = "spread_lightness" if light else "spread_channel"
            spreads.setdefault(kernel, []).append((*ends, tables, linear, roots, lumas, shades, *numbers))
    if lights:
        call.launch("clahe.cu:lightness", np.array(lights, LIGHT_ROW), [ceil_div(row[-1], PIXELS) for row in lights])
    table = np.array(tiles, TILES_ROW)
    counts = [item.args.tiles_x * item.args.tiles_y for item in call.items]
    per_item = [1 if item.input.shape[2] == 3 and item.args.luma_only else item.input.shape[2] for item in call.items]
    call.launch("clahe.cu:tile_tables", table, np.repeat(counts, per_item))
    for kernel, several in spreads.items():
        rows = np.array(several, SPREAD_ROW)
        call.launch(f"clahe.cu:{kernel}", rows, ceil_div(rows["total"], PIXELS))
