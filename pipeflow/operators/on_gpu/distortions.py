"""Maps of distortions on the GPU: the host computes the nodes of a grid, the kernels interpolate between them."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pipeflow import seeds
from pipeflow.declare import OpDef
from pipeflow.device.calls import DeviceCall, Item, ceil_div
from pipeflow.kernels import cpu as kernels
from pipeflow.operators import distortions
from pipeflow.operators.on_gpu.moves import DIVIDER, divide_by

PIXELS = 1024  # that a block works on
NODES_ROW = np.dtype(
    [
        ("nodes", "u8"),
        ("map_x", "u8"),
        ("map_y", "u8"),
        ("offset", "f8"),
        ("tall", "f8"),
        ("wide", "f8"),
        ("rows", "i4"),
        ("columns", "i4"),
        ("width", DIVIDER),
        ("total", "u4"),
    ],
    align=True,
)
LENS_ROW = np.dtype(
    [("map_x", "u8"), ("map_y", "u8"), ("strength", "f4"), ("height", "i4"), ("width", DIVIDER), ("total", "u4")],
    align=True,
)


def check_size(item: Item) -> None:
    """Raises an error if there are no pixels, or too many for the kernels."""
    height, width = distortions.extents_of(item.input.shape, item.layouts[0])
    if height * width >= 1 << 31:
        raise ValueError(f"the maps have {height * width} pixels; the GPU form makes fewer than 2**31")


def _nodes(op: OpDef, check: Callable[[Any], None], grid_of: Callable[[Item, int, int], Any]) -> None:
    @op.gpu_plan
    def _(item: Item) -> None:
        check(item.args)
        check_size(item)

    @op.gpu
    def _(call: DeviceCall) -> None:
        rows = np.zeros(len(call.items), NODES_ROW)
        for row, item in zip(rows, call.items, strict=True):
            height, width = item.output.shape
            moves, offset, tall, wide = grid_of(item, height, width)
            row["nodes"] = call.upload(np.ascontiguousarray(moves, np.float32))
            row["offset"], row["tall"], row["wide"] = offset, tall, wide
            row["rows"], row["columns"] = moves.shape[1:]
            place(row, item.outputs)
        call.launch("distortions.cu:spread_nodes", rows, ceil_div(rows["total"].astype(np.int64), PIXELS))


def place(row: Any, maps: Sequence[Any]) -> None:
    """Sets the addresses of the maps, and their size."""
    row["map_x"], row["map_y"] = (one.address for one in maps)
    row["width"], row["total"] = divide_by(maps[0].shape[1]), maps[0].size


_nodes(
    distortions.elastic,
    lambda args: distortions.check_sigma(args.sigma),
    lambda item, height, width: kernels.distortions.elastic_grid(
        distortions.numbers_of(seeds.Key(item.key)), height, width, item.args.alpha, item.args.sigma
    ),
)
_nodes(
    distortions.grid,
    lambda args: distortions.check_cells(args.cells),
    lambda item, height, width: kernels.distortions.even_grid(
        distortions.grid_moves(item.args, seeds.Key(item.key), height, width), height, width
    ),
)
_nodes(
    distortions.thin_plate,
    distortions.check_moves,
    lambda item, height, width: kernels.distortions.thin_plate_grid(
        distortions.plate_moves(item.args, seeds.Key(item.key)), height, width
    ),
)


@distortions.optical.gpu_plan
def _(item: Item) -> None:
    check_size(item)


@distortions.optical.gpu
def _(call: DeviceCall) -> None:
    rows = np.zeros(len(call.items), LENS_ROW)
    for row, item in zip(rows, call.items, strict=True):
        row["strength"], row["height"] = item.args.strength, item.output.shape[0]
        place(row, item.outputs)
    call.launch("distortions.cu:lens", rows, ceil_div(rows["total"].astype(np.int64), PIXELS))
