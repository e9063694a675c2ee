"""one_hot, lookup_table and coord_transform on the GPU."""

import math

import numpy as np

from pipeflow.device.calls import DeviceCall, Item, ceil_div, row_type
from pipeflow.kernels.gpu import TYPE_CODES, WORDS
from pipeflow.operators import generic, transforms
from pipeflow.operators.on_gpu.elementwise import BLOCK
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
POINTS_ROW = np.dtype(
    [
        ("input", "u8"),
        ("output", "u8"),
        ("matrix", "u8"),
        ("offset", "u8"),
        ("factor", "f8"),
        ("size", "i4"),
        ("result", DIVIDER),
        ("total", "u4"),
        ("input_type", "i4"),
        ("output_type", "i4"),
    ],
    align=True,
)


def counted(item: Item) -> None:
    """These kernels count in 32 bits."""
    if item.outputs[0].size >= 1 << 31:
        raise ValueError(f"the result has {item.outputs[0].size} values; the GPU form makes fewer than 2**31")


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


@transforms.coord_transform.gpu_plan
def _(item: Item) -> tuple[np.ndarray | None, float, np.ndarray]:
    counted(item)
    args, shape = item.args, item.input.shape
    size = shape[-1] if shape else 1
    linear, offset = transforms.linear_and_offset(args.M, args.T, args.MT, size)
    extent = size if np.ndim(linear) == 0 else len(linear)
    offsets = np.ascontiguousarray(np.broadcast_to(np.asarray(offset, np.float64), (extent,)))
    return (None, float(linear), offsets) if np.ndim(linear) == 0 else (np.ascontiguousarray(linear), 0.0, offsets)


@transforms.coord_transform.gpu
def _(call: DeviceCall) -> None:
    launch_points(call, [item.plan for item in call.items])


def launch_points(call: DeviceCall, plans: list[tuple[np.ndarray | None, float, np.ndarray]]) -> None:
    """Every point of each item through its matrix (or one factor) and its offset."""
    tables = Tables(call)
    rows = []
    for item, (matrix, factor, offset) in zip(call.items, plans, strict=True):
        shape = item.input.shape
        size = (shape[-1] if shape else 1) if matrix is None else matrix.shape[1]
        rows.append(
            (
                item.input.address,
                item.output.address,
                0 if matrix is None else tables.address(matrix),
                tables.address(offset),
                factor,
                size,
                divide_by(max(len(offset), 1)),
                item.output.size,
                TYPE_CODES[item.input.dtype],
                TYPE_CODES[item.output.dtype],
            )
        )
    blocks = [ceil_div(item.output.size, 1024) for item in call.items]
    call.launch("values.cu:transform_points<double>", np.array(rows, POINTS_ROW), blocks)
