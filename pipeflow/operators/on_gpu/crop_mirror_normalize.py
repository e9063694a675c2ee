"""crop_mirror_normalize on the GPU: one launch over the pixels, and one over the borders if there are any."""

from typing import Any, NamedTuple

import numpy as np

from pipeflow.declare import all_of
from pipeflow.device.calls import DeviceCall, Item, ceil_div
from pipeflow.device.tables import TableCall, dots, each_part, products
from pipeflow.device.tables import strides_of as strides_of_columns
from pipeflow.kernels import cpu as kernels
from pipeflow.kernels.gpu import NORMALIZED, TYPE_CODES, TYPES
from pipeflow.operators import crop_mirror_normalize as normalizing
from pipeflow.operators.crop_tables import CUTS_LOAD
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
PIXELS = 512  # groups of four pixels for a block of the tuned kernel
PARTS, NUMBERS = ("low", "extents", "place", "mirror"), ("mean", "factor")  # fields of the table
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
    if normalizing.cuts_frames(layout, vars(args)) and layout[0] == "F":
        raise ValueError("a window of frames is cut on the CPU only: cut it with fn.crop before")
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


code: Any = None  # the compiled code of ``pixel_rows``


def _load() -> None:
    global code
    code = kernels.normalize_rows.load(ROW)


ROWS_LOAD = (lambda: code is not None), _load  # if the compiled code is loaded, and the function that loads it
normalizing.crop_mirror_normalize.rows_load = all_of(CUTS_LOAD, ROWS_LOAD)


@normalizing.crop_mirror_normalize.gpu_table
def _(call: TableCall) -> None:
    source, target, table = call.input, call.output, call.table
    layout, channels = call.layout, table["mean"].shape[1]
    first = normalizing.channel_first(call.args.output_layout)
    if (table["kept"] != table["shape"]).any():  # else each result is a window of the image
        axis = 0 if first else -1
        depth = int(table["shape"][0, axis])
        values = normalizing.filling(call.args, channels, depth, target.dtype)
        filled = borders(call, target, table["place"], table["kept"], values, axis)
        move_columns(call, filled, target.dtype.itemsize)
    names = ("C" if first else "") + ("DHW" if "D" in layout else "HW") + ("" if first else "C")
    joined = channels if layout[-1] == "C" else 1
    if (source.dtype, target.dtype) in TUNED and joined in (1, 3):
        rows, blocks = pixel_rows(call, names, joined)
        kernel = f"normalize_pixels<{TYPES[source.dtype]}, {TYPES[target.dtype]}, {joined}>"
    else:
        rows, blocks = any_rows(call, names)
        kernel = f"normalize_any<{'double' if source.dtype == np.float64 else 'float'}>"
    if not blocks.all():
        rows, blocks = rows[blocks > 0], blocks[blocks > 0]
    call.launch(f"crop_mirror_normalize.cu:{kernel}", rows, blocks)


class WindowColumns(NamedTuple):
    """Where the parts of images begin, in memory and in the results; strides in elements by letter; extents of the parts."""

    begin: np.ndarray
    goals: np.ndarray
    inputs: dict[str, np.ndarray]
    outputs: dict[str, np.ndarray]
    extents: dict[str, np.ndarray]

    @classmethod
    def of(cls, call: TableCall, names: str) -> "WindowColumns":
        """Those of a batch; ``names`` is the layout of the results."""
        source, target, table, layout = call.input, call.output, call.table, call.layout
        spread, spread_out = strides_of_columns(source.shapes, 1), strides_of_columns(target.shapes, 1)
        inputs, extents = dict(zip(layout, spread.T)), dict(zip(layout, table["extents"].T))
        low = dots(table["low"], spread) + table["mirror"] * (extents["W"] - 1) * inputs["W"]
        begin = source.addresses + source.dtype.itemsize * low
        goals = target.addresses + target.dtype.itemsize * dots(table["place"], spread_out)
        return cls(begin, goals, inputs, dict(zip(names, spread_out.T)), extents)


def pixel_rows(call: TableCall, names: str, joined: int) -> tuple[np.ndarray, np.ndarray]:
    """The rows of the tuned kernel, whose pixels have ``joined`` channels, and their numbers of blocks."""
    source, target, table, layout = call.input, call.output, call.table, call.layout
    channels = table["mean"].shape[1]
    # each image has as many planes as slices, times its channels if these are separate
    slices = table["extents"][:, layout.index("D")] if "D" in layout else None
    count = (len(table) if slices is None else int(slices.sum())) * (channels // joined)
    rows = np.zeros(count, ROW)
    if code is not None:
        blocks = np.empty(count, np.int64)
        arrays = [(x.addresses, x.ends, x.shapes, x.dtype.itemsize) for x in (source, target)]
        letters = tuple([tuple([order.find(letter) for letter in "CHWD"]) for order in (layout, names)])
        parts, numbers = (tuple([table[name] for name in fields]) for fields in (PARTS, NUMBERS))
        code(*arrays, letters, parts, numbers, joined, call.args.shift, PIXELS, rows, blocks)
        return rows, blocks
    begin, goals, inputs, outputs, extents = WindowColumns.of(call, names)
    of: Any = slice(None)  # the image of each plane: mostly each has one
    if count != len(table) or slices is not None:
        planes = np.full(len(table), channels // joined) * (1 if slices is None else slices)
        of, number = each_part(planes)
        slice_, channel = np.divmod(number, channels // joined)
        start, goal = channel * inputs["C"][of], channel * outputs["C"][of]
        if slices is not None:
            start += slice_ * inputs["D"][of]
            goal += slice_ * outputs["D"][of]
        begin, goals = begin[of] + start * source.dtype.itemsize, goals[of] + goal * target.dtype.itemsize
    groups = np.maximum(ceil_div(extents["W"], 4), 1)
    rows["input"], rows["output"] = begin, goals
    rows["input_begin"], rows["input_end"] = source.addresses[of], source.ends[of]
    rows["input_row"], rows["output_row"] = inputs["H"][of], outputs["H"][of]
    rows["output_pixel"], rows["output_channel"] = outputs["W"][of], outputs["C"][of]
    for name in NUMBERS:
        values = table[name][of]
        rows[name][:, :joined] = values if joined == channels else values[np.arange(len(rows)), channel][:, None]
    rows["shift"], rows["mirror"] = call.args.shift, table["mirror"][of]
    total = extents["H"] * groups
    rows["total"], rows["width"] = total[of], extents["W"][of]
    rows["groups"] = dividers(groups)[of]
    return rows, ceil_div(total, PIXELS)[of]


def any_rows(call: TableCall, names: str) -> tuple[np.ndarray, np.ndarray]:
    """The rows of the kernel for all types and layouts, and their numbers of blocks."""
    begin, goals, inputs, outputs, extents = WindowColumns.of(call, names)
    table = call.table
    rows = np.zeros(len(table), ANY_ROW)
    numbers = np.stack([table[name] for name in NUMBERS], axis=2)
    rows["input"], rows["output"] = begin, goals
    rows["table"] = call.upload(numbers) + np.arange(len(rows)) * numbers[0].nbytes
    one, none = np.ones(len(rows), np.int64), np.zeros(len(rows), np.int64)
    for place, letter in enumerate("CDHW"):
        step = inputs.get(letter, none)
        rows["inputs"][:, place] = np.where(table["mirror"], -step, step) if letter == "W" else step
        rows["outputs"][:, place] = outputs.get(letter, none)
    order = ["CDHW".index(letter) for letter in reversed(names)]
    order += [axis for axis in range(4) if axis not in order]
    rows["axes"] = order
    for place, axis in enumerate(order[:3]):
        rows["order"][:, place] = dividers(np.maximum(extents.get("CDHW"[axis], one), 1))
    total = products(table["extents"])
    rows["shift"], rows["total"] = call.args.shift, total
    rows["input_type"], rows["output_type"] = TYPE_CODES[call.input.dtype], TYPE_CODES[call.output.dtype]
    return rows, ceil_div(total, 1024)


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
        return kernel, rows, [ceil_div(height * groups, PIXELS)] * len(rows)
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
