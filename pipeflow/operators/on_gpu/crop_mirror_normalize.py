"""crop_mirror_normalize on the GPU: one launch over the pixels, and one over the borders if there are any."""

from typing import Any, NamedTuple

import numpy as np

from pipeflow.device.calls import DeviceCall, Item, ceil_div
from pipeflow.device.tables import TableCall, dots, each_part
from pipeflow.device.tables import strides_of as strides_of_columns
from pipeflow.kernels.gpu import NORMALIZED, TYPE_CODES, TYPES
from pipeflow.operators import crop_mirror_normalize as normalizing
from pipeflow.operators.on_gpu.moves import (
    DIVIDER,
    DeviceTables,
    around,
    borders,
    divide_by,
    dividers,
    filling,
    move,
    move_columns,
    strides_of,
)
from pipeflow.operators.windows import Cut, place_cut, window_of

ROW = np.dtype(
    [
        ("input", "u8"),
        ("output", "u8"),
        ("input_begin", "u8"),
        ("input_end", "u8"),
        ("input_row", "i8"),
        ("output_row", "i8"),
        ("output_pixel", "i8"),
        ("output_channel", "i8"),
        ("mean", "f4", (3,)),
        ("factor", "f4", (3,)),
        ("shift", "f4"),
        ("total", "u4"),
        ("groups", DIVIDER),
        ("width", "u4"),
        ("mirror", "i4"),
    ],
    align=True,
)
ANY_ROW = np.dtype(
    [
        ("input", "u8"),
        ("output", "u8"),
        ("table", "u8"),
        ("inputs", "i8", (4,)),
        ("outputs", "i8", (4,)),
        ("order", DIVIDER, (3,)),
        ("axes", "i4", (4,)),
        ("shift", "f4"),
        ("total", "u4"),
        ("input_type", "i4"),
        ("output_type", "i4"),
    ],
    align=True,
)
TUNED = {(np.dtype(source), np.dtype(target)) for source, target, _ in NORMALIZED}


class NormalizedWindow(NamedTuple):
    """The position of the window, and the numbers of each channel."""

    cut: Cut
    means: np.ndarray
    factors: np.ndarray
    border: np.ndarray | None  # the fill value of each channel of the output; None if nothing is filled


@normalizing.crop_mirror_normalize.gpu_plan
def _(item: Item) -> NormalizedWindow:
    shape, layout, args = item.input.shape, item.layouts[0], item.args
    if "F" in layout:
        raise ValueError(f"the layout {layout!r} has frames after the channels: transpose it to FCHW or FHWC first")
    window = window_of(layout, shape, args)
    cut = place_cut(shape, window.axes, window.anchors, window.sizes, args.out_of_bounds_policy)
    channels = shape[layout.index("C")]
    depth = normalizing.padded_channels(channels, args.pad_output)
    border = None
    if cut.outside or depth > channels:
        border = normalizing.filling(args, channels, depth, item.output.dtype)
    means = normalizing.per_channel(args.mean, channels, "mean")
    return NormalizedWindow(cut, means, normalizing.scaled(args.std, channels, args.scale), border)


@normalizing.crop_mirror_normalize.gpu
def _(call: DeviceCall) -> None:
    tables = DeviceTables(call)
    rows: dict[str, list[Any]] = {}
    blocks: dict[str, list[int]] = {}
    borders: list[Any] = []
    for item in call.items:
        first = normalizing.channel_first(item.args.output_layout)
        place, extents = window_in_output(item, first)
        if item.plan.border is not None:
            table = tables.address(item.plan.border)
            channel = 0 if first else len(item.output.shape) - 1
            for begin, size in around(item.output.shape, place, extents):
                borders.append(filling(table, len(item.plan.border), item.output, size, begin, channel))
        if not all(extents):
            continue
        kernel, added, counts = rows_of(item, first, place, tables)
        rows.setdefault(kernel, []).extend(added)
        blocks.setdefault(kernel, []).extend(counts)
    move(call, borders, call.items[0].output.dtype.itemsize)
    for kernel, several in rows.items():
        layout = ANY_ROW if kernel.startswith("normalize_any") else ROW
        call.launch(f"crop_mirror_normalize.cu:{kernel}", np.array(several, layout), blocks[kernel])


@normalizing.crop_mirror_normalize.gpu_table
def _(call: TableCall) -> None:
    source, target, table = call.input, call.output, call.table
    layout, shift = call.layout, call.args.shift
    size, size_out = source.dtype.itemsize, target.dtype.itemsize
    first = normalizing.channel_first(call.args.output_layout)
    placed = (table["kept"] != table["shape"]).any()  # else each result is a window of the image
    if placed:
        axis = 0 if first else -1
        depth = int(table["shape"][0, axis])
        values = normalizing.filling(call.args, table["mean"].shape[1], depth, target.dtype)
        move_columns(call, borders(call, target, table["place"], table["kept"], values, axis), size_out)
    spread = strides_of_columns(source.shapes, 1)
    inputs = dict(zip(layout, spread.T))
    extents = dict(zip(layout, table["extents"].T))
    out_names = ("C" if first else "") + ("DHW" if "D" in layout else "HW") + ("" if first else "C")
    spread_out = strides_of_columns(target.shapes, 1)
    outputs = dict(zip(out_names, spread_out.T))
    goals = target.addresses + size_out * dots(table["place"], spread_out) if placed else target.addresses
    mirror = table["mirror"]
    begin = source.addresses + size * (dots(table["low"], spread) + mirror * (extents["W"] - 1) * inputs["W"])
    # each image has as many planes as slices, times its channels if these are separate
    depths = extents["D"] if "D" in layout else np.ones_like(mirror, np.int64)
    channels = table["mean"].shape[1]
    joined = channels if layout[-1] == "C" else 1
    pixels = extents["H"] * extents["W"]
    if (source.dtype, target.dtype) in TUNED and joined in (1, 3):
        of: Any = slice(None)  # the image of each plane: mostly each has one
        if "D" in layout or joined != channels:
            of, number = each_part(depths * (channels // joined))
            slice_, channel = np.divmod(number, channels // joined)
            start, goal = channel * inputs["C"][of], channel * outputs["C"][of]
            if "D" in layout:
                start += slice_ * inputs["D"][of]
                goal += slice_ * outputs["D"][of]
            begin, goals = begin[of] + start * size, goals[of] + goal * size_out
        groups = np.maximum(ceil_div(extents["W"], 4), 1)
        rows = np.zeros(len(begin), ROW)
        rows["input"], rows["output"] = begin, goals
        rows["input_begin"], rows["input_end"] = source.addresses[of], source.ends[of]
        rows["input_row"], rows["output_row"] = inputs["H"][of], outputs["H"][of]
        rows["output_pixel"], rows["output_channel"] = outputs["W"][of], outputs["C"][of]
        for name in ("mean", "factor"):
            values = table[name][of]
            rows[name][:, :joined] = values if joined == channels else values[np.arange(len(rows)), channel][:, None]
        rows["shift"], rows["mirror"] = shift, mirror[of]
        rows["total"], rows["width"] = (extents["H"] * groups)[of], extents["W"][of]
        rows["groups"] = dividers(groups)[of]
        kernel = f"normalize_pixels<{TYPES[source.dtype]}, {TYPES[target.dtype]}, {joined}>"
        launch_filled(call, kernel, rows, 512)
        return
    rows = np.zeros(len(begin), ANY_ROW)
    numbers = np.stack([table["mean"], table["factor"]], axis=2)
    rows["input"], rows["output"] = begin, goals
    rows["table"] = call.upload(numbers) + np.arange(len(begin)) * numbers[0].nbytes
    one, none = np.ones_like(pixels), np.zeros_like(pixels)
    for place, letter in enumerate("CDHW"):
        step = inputs.get(letter, none)
        rows["inputs"][:, place] = np.where(mirror, -step, step) if letter == "W" else step
        rows["outputs"][:, place] = outputs.get(letter, none)
    order = ["CDHW".index(letter) for letter in reversed(out_names)]
    order += [axis for axis in range(4) if axis not in order]
    rows["axes"] = order
    for place, axis in enumerate(order[:3]):
        rows["order"][:, place] = dividers(np.maximum(extents.get("CDHW"[axis], one), 1))
    rows["shift"], rows["total"] = shift, channels * depths * pixels
    rows["input_type"], rows["output_type"] = TYPE_CODES[source.dtype], TYPE_CODES[target.dtype]
    read = "double" if source.dtype == np.float64 else "float"
    launch_filled(call, f"normalize_any<{read}>", rows, 1024)


def launch_filled(call: TableCall, kernel: str, rows: np.ndarray, per_block: int) -> None:
    """Queues a kernel over the rows that have elements."""
    blocks = ceil_div(rows["total"].astype(np.int64), per_block)
    if not blocks.all():
        rows, blocks = rows[blocks > 0], blocks[blocks > 0]
    call.launch(f"crop_mirror_normalize.cu:{kernel}", rows, blocks)


def window_in_output(item: Item, first: bool) -> tuple[list[int], list[int]]:
    """Place and extents, along the axes of the output, of the part that is a copy of the image."""
    layout, cut = item.layouts[0], item.plan.cut
    channel = layout.index("C")
    place = [begin for axis, begin in enumerate(cut.offset) if axis != channel]
    extents = [size for axis, size in enumerate(cut.extents) if axis != channel]
    if item.args.mirror:
        width = item.output.shape[-1 if first else -2]
        place[-1] = width - place[-1] - extents[-1]
    count = cut.extents[channel]
    return ([0, *place], [count, *extents]) if first else ([*place, 0], [*extents, count])


def rows_of(item: Item, first: bool, place: list[int], tables: DeviceTables) -> tuple[str, list[Any], list[int]]:
    """The kernel for an item, its rows and their blocks."""
    layout, source, target, args = item.layouts[0], item.input, item.output, item.args
    cut, means, factors, _ = item.plan
    size = source.dtype.itemsize
    names = layout if "D" in layout else layout + "D"
    inputs = dict(zip(names, (*strides_of(source.shape, 1), 0)))
    extents = dict(zip(names, (*cut.extents, 1)))
    out_names = ("C" if first else "") + ("DHW" if "D" in layout else "HW") + ("" if first else "C")
    outputs = dict(zip(out_names, strides_of(target.shape, 1)))
    outputs.setdefault("D", 0)
    begin = source.address + size * sum(low * stride for low, stride in zip(cut.low, strides_of(source.shape, 1)))
    goal = target.address + target.dtype.itemsize * sum(p * s for p, s in zip(place, strides_of(target.shape, 1)))
    if args.mirror:
        begin += (extents["W"] - 1) * inputs["W"] * size
    end = source.address + source.nbytes
    channels, height, width = extents["C"], extents["H"], extents["W"]
    joined = channels if layout[-1] == "C" else 1
    if (source.dtype, target.dtype) in TUNED and joined in (1, 3) and height * width < 1 << 31:
        groups = ceil_div(width, 4)
        rows = [
            (
                begin + (number * inputs["D"] + channel * inputs["C"]) * size,
                goal + (number * outputs["D"] + channel * outputs["C"]) * target.dtype.itemsize,
                source.address,
                end,
                inputs["H"],
                outputs["H"],
                outputs["W"],
                outputs["C"],
                padded(means[channel : channel + joined]),
                padded(factors[channel : channel + joined]),
                args.shift,
                height * groups,
                divide_by(groups),
                width,
                args.mirror,
            )
            for number in range(extents["D"])
            for channel in range(0, channels, joined)
        ]
        kernel = f"normalize_pixels<{TYPES[source.dtype]}, {TYPES[target.dtype]}, {joined}>"
        return kernel, rows, [ceil_div(height * groups, 512)] * len(rows)
    table = tables.address(np.stack([means, factors], axis=1))
    letters = "CDHW"
    order = ["CDHW".index(letter) for letter in reversed(out_names)]
    order += [axis for axis in range(4) if axis not in order]
    steps = {**inputs, "W": -inputs["W"] if args.mirror else inputs["W"]}
    total = channels * extents["D"] * height * width
    if total >= 1 << 31:
        raise ValueError(
            f"crop_mirror_normalize from {source.dtype} to {target.dtype} takes fewer than 2**31 values on the GPU"
        )
    row = (
        begin,
        goal,
        table,
        [steps[letter] for letter in letters],
        [outputs[letter] for letter in letters],
        [divide_by(extents[letters[axis]]) for axis in order[:3]],
        order,
        args.shift,
        total,
        TYPE_CODES[source.dtype],
        TYPE_CODES[target.dtype],
    )
    read = "double" if source.dtype == np.float64 else "float"
    return f"normalize_any<{read}>", [row], [ceil_div(total, 1024)]


def padded(values: np.ndarray) -> tuple[float, ...]:
    """Three numbers for a row: those of three channels, or of one channel and zeros."""
    return (*values.tolist(), 0.0, 0.0)[:3]
