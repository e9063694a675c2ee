"""Effects on the GPU: filters of a pixel and its neighbours, and channels and parts of images in another order."""

from collections.abc import Callable
from typing import Any

import numpy as np

from pipeflow import seeds
from pipeflow.declare import OpDef
from pipeflow.device.calls import DeviceCall, Item, ceil_div, row_type
from pipeflow.operators import effects
from pipeflow.operators.filters import BORDERS
from pipeflow.operators.on_gpu.filters import FilterTaps, check_size
from pipeflow.operators.on_gpu.filters import launch as correlate
from pipeflow.operators.on_gpu.moves import Box, DeviceTables, box_of, filling, move

SHARPEN_ROW = row_type(input="u8", blurred="u8", output="u8", total="i8", amount="f4", threshold="f4")
VALUES = 4096  # of effects.cu
FLOAT = np.dtype(np.float32)


def taps_of(tables: DeviceTables, kernel: np.ndarray) -> FilterTaps:
    """A kernel whose middle is over the pixel, with mirrored borders."""
    before = [size // 2 for size in kernel.shape]
    return FilterTaps(tables.address(kernel), kernel.dtype, kernel.shape, before, BORDERS["reflect_101"], True)


def _kernels(op: OpDef, kernel_of: Callable[[Any], np.ndarray]) -> None:
    @op.gpu_plan
    def _(item: Item) -> np.ndarray:
        kernel = kernel_of(item.args)
        check_size(item)
        return kernel


_kernels(effects.sharpen, lambda args: effects.sharpen_taps(args.alpha, args.lightness))
_kernels(effects.enhance, lambda args: effects.enhance_taps(args.mode, args.alpha))
_kernels(effects.motion_blur, lambda args: effects.motion_taps(args.size, args.angle, args.direction))
_kernels(effects.unsharp_mask, lambda args: effects.blur_taps(args.sigma))


@effects.sharpen.gpu
@effects.enhance.gpu
@effects.motion_blur.gpu
def _(call: DeviceCall) -> None:
    tables = DeviceTables(call)
    correlate(call, [taps_of(tables, item.plan) for item in call.items])


@effects.unsharp_mask.gpu
def _(call: DeviceCall) -> None:
    tables = DeviceTables(call)
    blurred = [item._replace(outputs=(call.scratch_view(item.input.shape, FLOAT),)) for item in call.items]
    correlate(call, [taps_of(tables, item.plan) for item in call.items], blurred)
    rows = np.zeros(len(call.items), SHARPEN_ROW)
    for row, item, other in zip(rows, call.items, blurred, strict=True):
        row["input"], row["blurred"], row["output"] = item.input.address, other.output.address, item.output.address
        row["total"], row["amount"], row["threshold"] = item.input.size, item.args.amount, item.args.threshold
    call.launch("effects.cu:sharpen", rows, ceil_div(rows["total"], VALUES))


# ----------------------------------------------------------------------------------------------------
# Channels and parts


def channel_box(item: Item, source: int, target: int) -> Box:
    """A box with all values of a channel, which are moved to another channel."""
    outer = item.input.shape[:-1]
    at = [0] * len(outer)
    return box_of(item.input, item.output, (*outer, 1), (*at, source), (*at, target))


@effects.channel_shuffle.gpu
def _(call: DeviceCall) -> None:
    boxes = []
    for item in call.items:
        order = effects.channel_order(item.input.shape[-1], seeds.Key(item.key))
        boxes += [channel_box(item, source, target) for target, source in enumerate(order)]
    move(call, boxes, call.items[0].input.dtype.itemsize)


@effects.channel_dropout.gpu_plan
def _(item: Item) -> None:
    effects.check_dropped(item.input.shape[-1], item.args.count)


@effects.channel_dropout.gpu
def _(call: DeviceCall) -> None:
    tables, boxes = DeviceTables(call), []
    for item in call.items:
        *outer, channels = item.input.shape
        dropped = effects.channel_order(channels, seeds.Key(item.key))[: item.args.count]
        boxes += [channel_box(item, channel, channel) for channel in range(channels) if channel not in dropped]
        value = tables.address(effects.fill_of(item.args.fill, item.output.dtype))
        at = [0] * len(outer)
        boxes += [filling(value, 1, item.output, (*outer, 1), (*at, channel), -1) for channel in dropped]
    move(call, boxes, call.items[0].input.dtype.itemsize)


@effects.jigsaw.gpu_plan
def _(item: Item) -> None:
    effects.rows_and_columns(item.args.grid)


@effects.jigsaw.gpu
def _(call: DeviceCall) -> None:
    boxes = []
    for item in call.items:
        *frames, height, width, channels = item.input.shape
        for target, source in effects.moved_parts((height, width), item.args.grid, seeds.Key(item.key)):
            at, to = ([*[0] * len(frames), *[part.start for part in place], 0] for place in (source, target))
            extents = (*frames, *[part.stop - part.start for part in target], channels)
            boxes.append(box_of(item.input, item.output, extents, at, to))
    move(call, boxes, call.items[0].input.dtype.itemsize)
