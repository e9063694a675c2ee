"""The windows of crops for all samples of a batch, as columns."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from pipeflow.declare import SpecColumn, half_up, require
from pipeflow.kernels import cpu as kernels
from pipeflow.operators.windows import POLICIES

code: Any = None  # the compiled code of ``crop_cuts``


def _load() -> None:
    global code
    code = kernels.cut_rows.load()


CUTS_LOAD = (lambda: code is not None), _load  # if the compiled code is loaded, and the function that loads it


def _sizes_along(letters: str, args: Any) -> list[Any]:
    """The sizes of a crop along the given axes, each a constant or a column; 0 or less is the whole extent."""
    named = [args.crop_d, args.crop_h, args.crop_w]
    if args.crop is not None and len(args.crop):
        require(not any(value.any() if isinstance(value, np.ndarray) else value for value in named))
        # one entry, or one column, for each axis
        values = list(args.crop.T if isinstance(args.crop, np.ndarray) else args.crop)
        require(0 < len(values) <= 3)
        named = values * 3 if len(values) == 1 else [0.0] * (3 - len(values)) + values
    return [named["DHW".index(letter)] for letter in letters]


def _positions_along(letters: str, args: Any) -> list[Any]:
    """The positions of a crop along the given axes, each a constant or a column."""
    positions = {"D": args.crop_pos_z, "H": args.crop_pos_y, "W": args.crop_pos_x}
    return [positions[letter] for letter in letters]


def crop_extents_of(letters: str, extents: np.ndarray, args: Any) -> np.ndarray:
    """The sizes of ``crop_extents`` for each sample, from extents that have a row for each."""
    sizes = extents.copy()
    for axis, value in enumerate(_sizes_along(letters, args)):  # constants are the usual case, and they need no column
        if np.ndim(value):
            whole = np.trunc(value).astype(np.int64)
            sizes[:, axis] = np.where(whole > 0, whole, extents[:, axis])
        elif int(value) > 0:
            sizes[:, axis] = int(value)
    return sizes


def place_windows(letters: str, extents: np.ndarray, sizes: np.ndarray, args: Any) -> np.ndarray:
    """The anchors of ``place_window`` for each sample."""
    exact = np.empty(extents.shape)
    for axis, position in enumerate(_positions_along(letters, args)):
        require((position >= 0) & (position <= 1))
        np.multiply(extents[:, axis] - sizes[:, axis], position, out=exact[:, axis])
    return half_up(exact) if args.rounding == "round" else exact.astype(np.int64)


def cuts_of(shapes: np.ndarray, axes: Sequence[int], anchors: np.ndarray, sizes: np.ndarray, policy: str) -> np.ndarray:
    """The windows of ``place_cut`` for each sample; NoTable if one leaves the data and the policy forbids this."""
    table = np.zeros(len(shapes), parts_of_data(shapes.shape[1]))
    table["shape"] = table["extents"] = shapes
    low, extents, place, target = (table[name] for name in PLACES)
    if policy == "error":
        columns = columns_of(axes)
        require((anchors >= 0) & (anchors + sizes <= shapes[:, columns]))
        low[:, columns], extents[:, columns], target[:, columns] = anchors, sizes, sizes
        return table
    for number, axis in enumerate(axes):
        anchor, size, extent = anchors[:, number], sizes[:, number], shapes[:, axis]
        low[:, axis] = anchor.clip(0, extent)
        extents[:, axis] = np.maximum(np.minimum(anchor + size, extent) - low[:, axis], 0)
        place[:, axis] = low[:, axis] - anchor
        target[:, axis] = size
    if policy == "trim_to_shape":
        table["place"], table["shape"] = 0, extents
    return table


def columns_of(axes: Sequence[int]) -> Any:
    """The same axes to choose columns of a table: with a slice, if they are neighbours, NumPy needs a fifth of the time."""
    order = list(axes)
    neighbours = bool(order) and order == list(range(order[0], order[0] + len(order)))
    return slice(order[0], order[-1] + 1) if neighbours else order


def require_filling(table: np.ndarray, values: Sequence[float], channel: int) -> None:
    """Raises NoTable if something must be filled and the values are not those of ``fill_table``."""
    if len(values) > 1 and (table["extents"] != table["shape"]).any():
        require(channel >= 0 and (table["shape"][:, channel] == len(values)).all())


def crop_cuts(spec: SpecColumn, axes: Sequence[int], args: Any) -> np.ndarray:
    """The parts of the data in the windows that the arguments of a crop describe, along these axes."""
    letters, shapes = "".join([spec.layout[axis] for axis in axes]), spec.shapes
    if code is not None:
        sizes, positions = (_rows_of(along(letters, args), shapes) for along in (_sizes_along, _positions_along))
        table = np.empty(len(shapes), parts_of_data(shapes.shape[1]))
        table["turned"] = False
        places, rounds, policy = [table[name] for name in PLACES], args.rounding == "round", args.out_of_bounds_policy
        require(code(shapes, _numbers(tuple(axes)), sizes, positions, rounds, POLICIES.index(policy), *places))
        return table
    extents = shapes[:, columns_of(axes)]
    sizes = crop_extents_of(letters, extents, args)
    anchors = place_windows(letters, extents, sizes, args)
    return cuts_of(shapes, axes, anchors, sizes, args.out_of_bounds_policy)


def _rows_of(values: list[Any], shapes: np.ndarray) -> np.ndarray:
    """The numbers as rows: one if all are constants, else one for each sample."""
    columns = any(isinstance(value, np.ndarray) for value in values)
    return _filled_rows(values, len(shapes)) if columns else _constant_row(tuple(values))


def _filled_rows(values: Sequence[Any], count: int) -> np.ndarray:
    rows = np.empty((count, len(values)))
    for column, value in enumerate(values):
        rows[:, column] = value
    return rows


_constant_row = lru_cache(maxsize=64)(lambda values: _filled_rows(values, 1))
_numbers = lru_cache(maxsize=64)(lambda numbers: np.array(numbers, np.int64))
PLACES = "low", "extents", "place", "shape"


@lru_cache(maxsize=16)
def parts_of_data(axes: int) -> np.dtype:
    """The rows of operators that cut or mirror: begin and extents of a part of the data, its place in the result, the
    extents of the result, and the mirrored axes.
    """
    numbers = [(name, np.int64, (axes,)) for name in PLACES]
    return np.dtype([*numbers, ("turned", np.bool_, (axes,))])
