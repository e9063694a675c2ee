"""cast, one_hot, lookup_table and constants of a shape on the GPU."""

import math

import numpy as np

from pipeflow.declare import OpDef
from pipeflow.device.calls import DeviceCall, Item, View, ceil_div, row_type
from pipeflow.device.tables import TableCall
from pipeflow.kernels.gpu import TYPE_CODES, WORDS
from pipeflow.operators import generic
from pipeflow.operators.on_gpu.elementwise import BLOCK, cast_columns, cast_items, cast_views, counted
from pipeflow.operators.on_gpu.moves import DIVIDER, Box, DeviceTables, divide_by, filling, move, strides_of

ONE_HOT_ROW = np.dtype(
    [
        ("input", "u8"),
        ("output", "u8"),
        ("values", "u8"),
        ("inner", DIVIDER),
        ("classes", DIVIDER),
        ("total", "u4"),
        ("input_type", "i4"),
    ],
    align=True,
)
LOOK_UP_ROW = row_type(input="u8", output="u8", table="u8", last="u8", total="i8", input_type="i4")


def _constant(op: OpDef, value: int) -> None:
    @op.gpu
    def _(call: DeviceCall) -> None:
        target = call.items[0].output.dtype
        table = call.upload(np.array([value], target))
        boxes = [filling(table, 1, x.output, x.output.shape, [0] * len(x.output.shape), 0) for x in call.items]
        move(call, boxes, target.itemsize)


for _op, _value in ((generic.zeros, 0), (generic.zeros_like, 0), (generic.ones, 1), (generic.ones_like, 1)):
    _constant(_op, _value)


def repeated(source: View, target: View) -> Box:
    """A box that repeats an array to a shape, as NumPy broadcasts."""
    size = target.dtype.itemsize
    missing = len(target.shape) - len(source.shape)
    known = strides_of(source.shape, size)
    strides = (0,) * missing + tuple(0 if n == 1 else step for n, step in zip(source.shape, known))
    return Box(
        source.address,
        target.address,
        target.shape,
        strides,
        strides_of(target.shape, size),
        source.address + source.nbytes,
    )


def _fits(source: View, item: Item) -> None:
    np.broadcast_to(np.broadcast_to(np.uint8(0), source.shape), item.output.shape)  # raises the error


@generic.full.gpu_plan
def _(item: Item) -> None:
    _fits(item.input, item)


@generic.full.gpu
def _(call: DeviceCall) -> None:
    boxes = [repeated(item.input, item.output) for item in call.items]
    move(call, boxes, call.items[0].output.dtype.itemsize)


@generic.full_like.gpu_plan
def _(item: Item) -> None:
    _fits(item.inputs[1], item)


@generic.full_like.gpu
def _(call: DeviceCall) -> None:
    dtype = call.items[0].output.dtype
    fills = [item.inputs[1] for item in call.items]
    if fills[0].dtype != dtype:
        typed = [call.scratch_view(fill.shape, dtype) for fill in fills]
        cast_views(call, list(zip(fills, typed, strict=True)))
        fills = typed
    boxes = [repeated(fill, item.output) for fill, item in zip(fills, call.items, strict=True)]
    move(call, boxes, dtype.itemsize)


@generic.constant.gpu
def _(call: DeviceCall) -> None:
    args = call.items[0].args
    numbers = generic.constant_numbers(args.fdata, args.idata, args.shape, args.dtype)
    source = View(call.upload(numbers), numbers.shape, numbers.dtype)
    move(call, [repeated(source, item.output) for item in call.items], numbers.itemsize)


generic.cast.gpu(cast_items)
generic.cast_like.gpu(cast_items)


@generic.cast.gpu_table
def _(call: TableCall) -> None:
    cast_columns(call, call.input, call.output)


generic.one_hot.gpu_plan(counted)


@generic.one_hot.gpu
def _(call: DeviceCall) -> None:
    tables = DeviceTables(call)
    rows = []
    for item in call.items:
        args, shape, dtype = item.args, item.input.shape, item.output.dtype
        single = generic.is_single(shape, args.axis)
        inner = 1 if single else math.prod(shape[generic.new_axis(len(shape), args.axis) :])
        values = generic.one_hot_values(args.off_value, args.on_value, dtype)
        rows.append(
            (
                item.input.address,
                item.output.address,
                tables.address(values),
                divide_by(max(inner, 1)),
                divide_by(max(args.num_classes, 1)),
                item.output.size,
                TYPE_CODES[item.input.dtype],
            )
        )
    word = WORDS[call.items[0].output.dtype.itemsize]
    blocks = [ceil_div(item.output.size, 1024) for item in call.items]
    call.launch(f"values.cu:one_hot<{word}>", np.array(rows, ONE_HOT_ROW), blocks)


@generic.lookup_table.gpu
def _(call: DeviceCall) -> None:
    args, dtype = call.items[0].args, call.items[0].output.dtype
    table = generic.table_of(args.keys, args.values, args.default_value, dtype)
    address = call.upload(table)
    rows = [
        (x.input.address, x.output.address, address, len(table) - 1, x.input.size, TYPE_CODES[x.input.dtype])
        for x in call.items
    ]
    blocks = [ceil_div(item.output.size, BLOCK) for item in call.items]
    call.launch(f"values.cu:look_up<{WORDS[dtype.itemsize]}>", np.array(rows, LOOK_UP_ROW), blocks)
