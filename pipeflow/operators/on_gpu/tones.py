"""Tones on the GPU: values are replaced by those of a table, or stretched by a histogram of the image."""

from collections.abc import Callable

import numpy as np

from pipeflow.declare import OpFunction
from pipeflow.device.calls import DeviceCall, Item, ceil_div, row_type
from pipeflow.operators import tones
from pipeflow.operators.on_gpu.histograms import ROW, VALUES, channels_of
from pipeflow.operators.on_gpu.moves import DeviceTables

TABLE_ROW = row_type(input="u8", output="u8", table="u8", total="i8", step="i4")
STRETCH_ROW = row_type(input="u8", output="u8", counts="u8", total="i8", step="i4", channels="i4", factor="f4")
EVERY = np.arange(256, dtype=np.uint8)


def _by_table(op: OpFunction) -> None:
    """Declares the GPU form of an operator that changes each value by itself: a table with the results of the CPU for all 256
    values.
    """

    @op.gpu_plan
    def _(item: Item) -> np.ndarray:
        names = op.arguments
        return op(EVERY[None, :, None], **{name: getattr(item.args, name) for name in names}).reshape(256)

    @op.gpu
    def _(call: DeviceCall) -> None:
        tables = call.upload(np.stack([item.plan for item in call.items]))
        items = [(number, item) for number, item in enumerate(call.items) if item.input.size]
        rows = [
            (item.input.address, item.output.address, tables + 256 * number, item.input.size, 1)
            for number, item in items
        ]
        blocks = [ceil_div(item.input.size, VALUES) for _, item in items]
        call.launch("histograms.cu:replace_values", np.array(rows, TABLE_ROW), blocks)


for _op in (tones.invert, tones.posterize, tones.solarize, tones.solarize_add):
    _by_table(_op)


@tones.channel_shift.gpu_plan
def _(item: Item) -> np.ndarray:
    channels = item.input.shape[-1]
    every = np.repeat(EVERY[None, :, None], channels, axis=2)
    return tones.channel_shift(every, shift=item.args.shift)[0].T


@tones.channel_shift.gpu
def _(call: DeviceCall) -> None:
    tables = DeviceTables(call)
    rows = [
        (item.input.address + start, item.output.address + start, tables.address(item.plan[channel]), each, step)
        for item, start, each, step, channel in channels_of(call)
    ]
    call.launch("histograms.cu:replace_values", np.array(rows, TABLE_ROW), [ceil_div(row[3], VALUES) for row in rows])


def _stretch(call: DeviceCall, factor: Callable[[Item], float] | None) -> None:
    channels = channels_of(call)
    counts = call.upload(np.zeros((len(channels), 256), np.uint32))
    counted = [
        (item.input.address + start, item.output.address + start, counts + 1024 * number, each, step)
        for number, (item, start, each, step, _) in enumerate(channels)
    ]
    blocks = [ceil_div(each, VALUES) for _, _, each, _, _ in channels]
    call.launch("histograms.cu:count_values", np.array(counted, ROW), blocks)
    rows = []
    for number, (item, start, each, step, channel) in enumerate(channels):
        own = counts + 1024 * (number if factor is None else number - channel)
        total = 0 if factor is None else item.input.shape[-1]
        strength = 0.0 if factor is None else factor(item)
        rows.append((item.input.address + start, item.output.address + start, own, each, step, total, strength))
    call.launch("histograms.cu:stretch_values", np.array(rows, STRETCH_ROW), blocks)


@tones.autocontrast.gpu
def _(call: DeviceCall) -> None:
    _stretch(call, None)


@tones.contrast_about_mean.gpu
def _(call: DeviceCall) -> None:
    _stretch(call, lambda item: item.args.contrast)
