"""The common parts of elementwise GPU forms: casts, the type to compute in, and the blocks of a launch."""

from collections.abc import Sequence

import numpy as np

from pipeflow.device.calls import DeviceCall, Item, View, ceil_div, row_type
from pipeflow.device.tables import ArrayColumn, TableCall
from pipeflow.kernels.gpu import CAST, RESIZED, TYPE_CODES, TYPES

BLOCK = 8192  # elements that a block works on: BLOCK_ELEMENTS of elements.cuh


def computed_in(dtype: np.dtype) -> str:
    """The C++ type in which numbers of a type are computed: it has every number of the type."""
    if dtype.kind == "f":
        return "double" if dtype.itemsize == 8 else "float"
    if dtype.itemsize < 4 or dtype == np.int32:
        return "int"
    return "long long" if dtype.kind == "i" else "unsigned long long"


def blocks_of(items: Sequence[Item]) -> list[int]:
    """The number of blocks for each item's first output."""
    return [ceil_div(item.output.size, BLOCK) for item in items]


CAST_ROW = row_type(input="u8", output="u8", total="i8", input_type="i4", output_type="i4")


def cast_items(call: DeviceCall) -> None:
    """Queues the conversion of the first input to the type of the output."""
    cast_views(call, [(item.input, item.output) for item in call.items])


def cast_views(call: DeviceCall, pairs: Sequence[tuple[View, View]]) -> None:
    """Queues the conversion of sources to the types of their targets; all pairs have the same two types."""
    rows = [(x.address, y.address, y.size, TYPE_CODES[x.dtype], TYPE_CODES[y.dtype]) for x, y in pairs]
    kernel = cast_kernel(pairs[0][0].dtype, pairs[0][1].dtype)
    call.launch(kernel, np.array(rows, CAST_ROW), [ceil_div(y.size, BLOCK) for _, y in pairs])


def cast_columns(call: TableCall, source: ArrayColumn, target: ArrayColumn) -> None:
    """Queues the same for a whole batch."""
    rows = element_rows(CAST_ROW, source, target)
    rows["total"] = target.sizes
    call.launch(cast_kernel(source.dtype, target.dtype), rows, ceil_div(rows["total"], BLOCK))


def element_rows(layout: np.dtype, source: ArrayColumn, target: ArrayColumn) -> np.ndarray:
    """Rows for these arrays with the fields that all elementwise kernels need: addresses and types."""
    rows = np.zeros(len(source.addresses), layout)
    rows["input"], rows["output"] = source.addresses, target.addresses
    rows["input_type"], rows["output_type"] = TYPE_CODES[source.dtype], TYPE_CODES[target.dtype]
    return rows


FAST_CASTS = {(np.dtype(source), np.dtype(target)) for source, target in CAST}
TUNED = {(np.dtype(source), np.dtype(target)) for source, target in RESIZED}


def cast_kernel(source: np.dtype, target: np.dtype) -> str:
    """The kernel that converts these types."""
    if (source, target) in FAST_CASTS:
        return f"cast.cu:cast_values<{TYPES[source]}, {TYPES[target]}>"
    return f"cast.cu:cast<{cast_kind(source, target)}>"


def tuned(source: np.dtype, target: np.dtype) -> str:
    """The C++ names of bytes and floats, for which kernels have instances of their own; "" for other types."""
    return f"{TYPES[source]}, {TYPES[target]}" if (source, target) in TUNED else ""


def cast_kind(source: np.dtype, target: np.dtype) -> str:
    """The C++ type through which one type becomes another."""
    # values become FLOAT and FLOAT16 directly: 64-bit integers between would be slower and not more exact
    kind = "float" if target.kind == "f" and target.itemsize < 8 and source != np.float64 else computed_in(source)
    return "double" if target == np.float64 else kind


def counted(item: Item) -> None:
    """Raises an error for more elements than these kernels count in 32 bits."""
    if item.outputs[0].size >= 1 << 31:
        raise ValueError(f"the result has {item.outputs[0].size} values; the GPU form makes fewer than 2**31")
