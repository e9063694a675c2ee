"""Chains of operators on the GPU, each in one launch: a resize and the normalisation after it, and operators that multiply and
add.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from pipeflow.declare import OpDef, all_of, require
from pipeflow.device.calls import ceil_div
from pipeflow.device.tables import TableCall
from pipeflow.kernels.gpu import TYPES
from pipeflow.operators.crop_mirror_normalize import channel_first
from pipeflow.operators.crop_tables import CUTS_LOAD
from pipeflow.operators.on_gpu.elementwise import BLOCK, element_rows
from pipeflow.operators.on_gpu.resize import make_taps
from pipeflow.operators.on_gpu.resize_rows import ROWS_LOAD, TILE_ROW, tap_counts, tile_rows, tile_widths
from pipeflow.operators.windows import WINDOWS_LOADS

NORMAL_TILE_ROW = np.dtype(
    [
        ("tile", TILE_ROW),
        ("mean", "f4", (3,)),
        ("factor", "f4", (3,)),
        ("shift", "f4"),
        ("rounds", "i4"),
        ("output_row", "i4"),
        ("output_pixel", "i4"),
        ("output_channel", "i8"),
    ],
    align=True,
)
LINES_ROW = np.dtype(
    [("input", "u8"), ("output", "u8"), ("steps", "u8"), ("total", "i8"), ("count", "i4"), ("input_type", "i4")]
    + [("output_type", "i4")],
    align=True,
)
STEP = np.dtype([("factor", "f4"), ("offset", "f4"), ("rounds", "i4")])  # Step in cast.cu


def declare(op: OpDef) -> None:
    """Declares the GPU form of a chain."""
    if op.links[0].op.line_hook is not None:
        op.gpu_table(lines)
    else:
        op.rows_load = all_of(WINDOWS_LOADS, CUTS_LOAD, ROWS_LOAD)
        op.gpu_table(lambda call: resized(call, op.links[0].part(vars(call.args)), op.links[-1].part(vars(call.args))))


def lines(call: TableCall) -> None:
    """All factors and offsets for each value, with the rounding between them."""
    table, target = call.table, call.output
    links = table["factor"].shape[-1]
    steps = np.zeros((len(table), links), STEP)
    for name in STEP.names or ():
        steps[name] = table[name]
    rows = element_rows(LINES_ROW, call.input, target)
    rows["steps"] = call.upload(steps) + np.arange(len(rows)) * links * STEP.itemsize
    rows["count"], rows["total"] = links, target.sizes
    call.launch("cast.cu:lines", rows, ceil_div(rows["total"], BLOCK))


def resized(call: TableCall, resizing: Mapping[str, Any], normalizing: Mapping[str, Any]) -> None:
    """Resizes and normalises pixels in one launch."""
    source, target, table = call.input, call.output, call.table
    axes, three, antialias = table["axes"], np.full(len(table), 3), resizing["antialias"]
    counts = tap_counts(axes, antialias)
    tiles = tile_widths(axes[:, 1], counts[:, 0], counts[:, 1], three)
    require(tiles > 0)
    y, x = make_taps(call, axes, antialias, counts)
    rows = np.zeros(len(table), NORMAL_TILE_ROW)
    rows["tile"], blocks = tile_rows(source, target, np.ones_like(three), axes, three, y, x, tiles)
    tall, wide = axes["count"].T
    first = channel_first(normalizing["output_layout"])
    rows["output_row"], rows["output_pixel"] = (wide, 1) if first else (wide * 3, 3)
    rows["output_channel"] = tall * wide if first else 1
    for name in ("mean", "factor", "rounds"):
        rows[name] = table[name]
    rows["shift"] = normalizing["shift"]
    call.launch(f"resize_tiles.cu:resize_normalize<{TYPES[source.dtype]}, {TYPES[target.dtype]}>", rows, blocks)
