"""Arithmetic and mathematical functions on the GPU: a thread computes eight elements, of all types of operands."""

import functools
from collections.abc import Sequence

import numpy as np

from pipeflow.declare import OpDef, Spec, registry
from pipeflow.device.calls import DeviceCall, View, ceil_div, row_type
from pipeflow.kernels.gpu import TYPE_CODES, TYPES
from pipeflow.operators.math import BOOL, FLOAT, common_type
from pipeflow.operators.on_gpu.elementwise import blocks_of, computed_in

UINT8, FLOAT16 = np.dtype(np.uint8), np.dtype(np.float16)
INT64, UINT64 = np.dtype(np.int64), np.dtype(np.uint64)

WHOLE, SINGLE, PLANE, GENERAL = range(4)
OPERAND = row_type(data="u8", outer="i8", inner="i8", type="i4", form="i4")
AXIS = np.dtype([("extent", "i8"), ("stride", "i8", (3,))])
POINTWISE_ROW = np.dtype(
    [
        ("operands", OPERAND, (3,)),
        ("output", "u8"),
        ("axes", "u8"),
        ("total", "i8"),
        ("inner", "i8"),
        ("ndim", "i4"),
        ("operation", "i4"),
        ("output_type", "i4"),
        ("in_half", "i4"),
    ],
    align=True,
)
ABSENT = (0, 0, 0, 0, SINGLE)

# In the order of enum Operation of pointwise.cu; the others take the longer functions.
LIGHT = (
    "add", "sub", "mul", "div", "min", "max", "clamp", "minus", "plus", "abs", "bitand", "bitor", "bitxor", "bitnot", "shl",
    "shr", "eq", "ne", "lt", "le", "gt", "ge",
)  # fmt: skip
LONG = (
    "fdiv", "mod", "pow", "atan2", "sqrt", "rsqrt", "cbrt", "exp", "log", "log2", "log10", "floor", "ceil", "sin", "cos", "tan",
    "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh",
)  # fmt: skip
OPERATIONS = {name: number for number, name in enumerate((*LIGHT, *LONG))}
SAME_AS = {"fabs": "abs", "fpow": "pow"}

# The cases of arithmetic.cu: the types of two operands and of the result, and the operations.
_OF_BYTES, _OF_FLOATS = ("add", "sub", "mul", "min", "max"), ("add", "sub", "mul", "min", "max", "div")
_COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")
VALUES: dict[tuple[np.dtype, ...], tuple[str, ...]] = {
    (FLOAT, FLOAT, FLOAT): _OF_FLOATS,
    (UINT8, FLOAT, FLOAT): _OF_FLOATS,
    (FLOAT, UINT8, FLOAT): _OF_FLOATS,
    (UINT8, UINT8, UINT8): _OF_BYTES,
    (UINT8, UINT8, FLOAT): ("div",),
    (FLOAT, FLOAT, BOOL): _COMPARISONS,
    (UINT8, UINT8, BOOL): _COMPARISONS,
    (UINT8, FLOAT, BOOL): _COMPARISONS,
}
VALUES_ROW = row_type(operands="2u8", output="u8", total="i8", periods="2i4", operation="i4")
CHANNELS = 3  # the longest period
SHARE = 12288  # elements that a block works on


@functools.lru_cache(maxsize=1024)
def joined_axes(shape: tuple[int, ...], shapes: tuple[tuple[int, ...], ...]) -> list[tuple[int, list[int]]]:
    """The axes of a result with the stride of every operand. Neighbouring axes are joined if they are one axis for every
    operand.
    """
    axes: list[tuple[int, list[int]]] = []
    sizes = [1] * len(shapes)  # the product of the extents of each operand after this axis
    for axis in range(-1, -len(shape) - 1, -1):
        extent = shape[axis]
        if extent == 1:
            continue
        own = [dims[axis] if len(dims) >= -axis else 1 for dims in shapes]
        strides = [size if dim != 1 else 0 for size, dim in zip(sizes, own, strict=True)]
        if axes:
            inner, steps = axes[-1]
            if all(stride == step * inner for stride, step in zip(strides, steps, strict=True)):
                axes[-1] = (inner * extent, steps)
                extent = 0
        if extent:
            axes.append((extent, strides))
        sizes = [size * dim for size, dim in zip(sizes, own, strict=True)]
    return axes[::-1]


def pointwise_row(
    operation: int,
    inputs: Sequence[View],
    codes: Sequence[int],
    output: View,
    in_half: bool,
    tables: list[tuple[int, list[int]]],
) -> tuple:
    """A row of pointwise.cu. Its axes are added to ``tables``, and their place there is written in the row."""
    axes = joined_axes(output.shape, tuple([view.shape for view in inputs]))
    operands, general = [], False
    for number, (view, code) in enumerate(zip(inputs, codes, strict=True)):
        strides = [steps[number] for _, steps in axes]
        form, outer, inner = GENERAL, 0, 0
        if view.size == 1:
            form = SINGLE
        elif view.size == output.size:
            form = WHOLE
        elif len(axes) == 2 and number < 2:
            form, (outer, inner) = PLANE, strides
        general |= form == GENERAL
        operands.append((view.address, outer, inner, code, form))
    place = len(tables)
    if general:
        tables += axes
    operands += [ABSENT] * (3 - len(operands))
    last = axes[-1][0] if axes else 1
    return (operands, output.address, place, output.size, last, len(axes), operation, TYPE_CODES[output.dtype], in_half)


def launch_pointwise(call: DeviceCall, kernel: str, rows: list[tuple], tables: list[tuple[int, list[int]]]) -> None:
    """Launches rows whose axes are in ``tables``."""
    table = np.array(rows, POINTWISE_ROW)
    if tables:
        padded = [(extent, [*strides, 0, 0, 0][:3]) for extent, strides in tables]
        table["axes"] = table["axes"] * AXIS.itemsize + call.upload(np.array(padded, AXIS))
    call.launch(kernel, table, blocks_of(call.items))


def _period(view: View, output: View) -> int | None:
    """The number of values of an operand that repeat along the result, 0 if none repeats; None for other forms."""
    if view.size == output.size:
        return 0
    if view.size == 1:
        return 1
    *outer, channels = view.shape
    return CHANNELS if channels == output.shape[-1] == CHANNELS and set(outer) <= {1} else None


def launch_values(call: DeviceCall, name: str) -> bool:
    """Launches the kernel for these types and forms of operands, if arithmetic.cu has one; False if not."""
    first = call.items[0]
    types = (*[view.dtype for view in first.inputs], first.output.dtype)
    if name not in VALUES.get(types, ()):
        return False
    rows = []
    for item in call.items:
        periods = [_period(view, item.output) for view in item.inputs]
        if None in periods:
            return False
        addresses = [view.address for view in item.inputs]
        rows.append((addresses, item.output.address, item.output.size, periods, OPERATIONS[name]))
    kernel = f"arithmetic.cu:arithmetic_values<{', '.join(TYPES[dtype] for dtype in types)}>"
    call.launch(kernel, np.array(rows, VALUES_ROW), [ceil_div(item.output.size, SHARE) for item in call.items])
    return True


def pointwise(call: DeviceCall) -> None:
    """Queues one arithmetic or mathematical operator on a batch."""
    first = call.items[0]
    common = common_type([Spec(view.shape, view.dtype) for view in first.inputs])
    meet = common if first.output.dtype == BOOL else first.output.dtype
    name = SAME_AS.get(call.op.leaf, call.op.leaf)
    if name == "fdiv" and meet.kind == "f":
        name = "div"
    if name == "bitnot" and common == BOOL:
        # in a wider type, ~x is not 0 for x = 1: x == 0 gives the right result
        name = "eq"
    # UINT64 becomes INT64 by its bits, so large numbers become negative
    codes = [TYPE_CODES[INT64 if view.dtype == UINT64 and common == INT64 else view.dtype] for view in first.inputs]
    if launch_values(call, name):
        return
    tables: list[tuple[int, list[int]]] = []
    rows = [
        pointwise_row(OPERATIONS[name], item.inputs, codes, item.output, meet == FLOAT16, tables) for item in call.items
    ]
    kernel = "functions" if name in LONG else "arithmetic"
    launch_pointwise(call, f"pointwise.cu:{kernel}<{computed_in(meet)}>", rows, tables)


def _declare(op: OpDef) -> None:
    op.gpu(pointwise)


for _op in [op for op in registry.values() if op.name.startswith("math.")]:
    _declare(_op)
