"""Moves boxes whose innermost axis differs between input and output: planes of pixels, and tiles in shared memory."""

from collections.abc import Sequence
from typing import NamedTuple

from pipeflow.device.calls import ceil_div
from pipeflow.kernels.gpu import WORDS

Axis = tuple[int, int, int]  # extent, stride in the input, stride in the output
CHANNELS = 3  # of split_pixels and join_pixels
LINE = 4096  # pixels that a block of these kernels works on
SHORTEST = 16  # the fewest elements of an axis for which a tile is faster
TILES = 4  # tiles that a block moves


class Transpose(NamedTuple):
    """A kernel of transpose.cu for a box, the axes, innermost first, and the numbers of blocks along the first two axes."""

    kernel: str
    axes: list[Axis]
    blocks: tuple[int, int]


def transpose_of(axes: Sequence[Axis], unit: int, name: str) -> Transpose | None:
    """The kernel for a box with these axes, outermost first; None if a kernel of move.cu is better.

    ``unit`` is the number of bytes of an element, and ``name`` its type in the kernels.
    """
    inner = axes[-1]
    other = next((axis for axis in axes[:-1] if axis[1] == unit), None)
    if other is None or inner[2] != unit or inner[1] <= 0:
        return None
    ordered = [inner, other, *[axis for axis in reversed(axes[:-1]) if axis is not other]]
    if name in WORDS.values():
        if other[0] == CHANNELS and inner[1] == CHANNELS * unit:
            return Transpose(f"split_pixels<{name}>", ordered, (ceil_div(inner[0], LINE), 1))
        if inner[0] == CHANNELS and other[2] == CHANNELS * unit:
            return Transpose(f"join_pixels<{name}>", ordered, (1, ceil_div(other[0], LINE)))
    if min(inner[0], other[0]) < SHORTEST:
        return None
    side = 64 if unit <= 2 else 32  # the side of a Tile
    return Transpose(f"transpose<{name}>", ordered, (ceil_div(inner[0], side * TILES), ceil_div(other[0], side)))
