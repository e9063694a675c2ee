"""Spreads values over their range on the GPU."""

import numpy as np

from pipeflow.device.calls import DeviceCall, Item, ceil_div, row_type
from pipeflow.operators import histograms

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
