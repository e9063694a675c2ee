"""cast, one_hot and lookup_table on the GPU."""

import math

import numpy as np

from pipeflow.device.calls import DeviceCall, ceil_div, row_type
from pipeflow.kernels.gpu import TYPE_CODES, WORDS
from pipeflow.operators import generic
from pipeflow.operators.on_gpu.elementwise import BLOCK, cast_items, counted
from pipeflow.operators.on_gpu.moves import DIVIDER, Tables, divide_by

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

generic.cast.gpu(cast_items)
generic.cast_like.gpu(cast_items)
generic.one_hot.gpu_plan(counted)


@generic.one_hot.gpu
def _(call: DeviceCall) -> None:
    tables = Tables(call)
    rows = []
    for item in call.items:
        args, shape, dtype = item.args, item.input.shape, item.output.dtype
        single = len(shape) <= 1 and item.input.size == 1
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
