"""``np.pad`` in functions of the user, which Numba does not have."""

from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from numba import types
from numba.extending import register_jitable

from pipeflow.kernels.cpu.numpy_numbers import as_stored, as_weak, rule


@numba.njit(nogil=True)
def _sources(extent, before, after, mode):
    """The place in an axis that each place of the wider axis has its elements from; -1 for a constant."""
    if before < 0 or after < 0 or (extent == 0 and mode > 0 and before + after > 0):
        raise ValueError("a number of elements that is negative, or nothing to repeat")
    places = np.empty(before + extent + after, np.int64)
    for place in range(places.size):
        source = place - before
        if mode == 0:
            source = source if 0 <= source < extent else -1
        elif mode == 1:
            source = min(max(source, 0), extent - 1)
        elif mode == 2:
            period = max(2 * (extent - 1), 1)
            source %= period
            source = source if source < extent else period - source
        elif mode == 3:
            source %= 2 * extent
            source = source if source < extent else 2 * extent - 1 - source
        else:
            source %= extent
        places[place] = source
    return places


MODES = {"constant": 0, "edge": 1, "reflect": 2, "symmetric": 3, "wrap": 4}


def padded(array: Any, widths: Any, mode: Any, value: Any) -> Any:
    """``np.pad(array, widths)`` with the number of a mode, and the number for "constant"."""
    raise NotImplementedError


def _width_of(kind: Any, axis: int, axes: int) -> tuple[str, str] | None:
    """The code for the two widths of an axis."""
    kind = types.unliteral(kind)
    if isinstance(kind, types.Integer):
        return "widths", "widths"
    items = list(kind) if isinstance(kind, types.BaseTuple) else []
    if len(items) == 2 and all(isinstance(types.unliteral(item), types.Integer) for item in items):
        return "widths[0]", "widths[1]"
    if len(items) not in (1, axes):
        return None
    place = axis if len(items) == axes else 0
    pair = list(items[place]) if isinstance(items[place], types.BaseTuple) else []
    if len(pair) != 2 or not all(isinstance(types.unliteral(item), types.Integer) for item in pair):
        return None
    return f"widths[{place}][0]", f"widths[{place}][1]"


@rule(padded)
def _(array: Any, widths: Any, mode: Any, value: Any) -> Any:
    if not isinstance(array, types.Array) or not 1 <= array.ndim <= 3:
        return None
    axes = range(array.ndim)
    pairs = [pair for axis in axes if (pair := _width_of(widths, axis, array.ndim)) is not None]
    if len(pairs) < array.ndim:
        return None
    namespace: dict[str, Any] = {"sources": _sources, "fill": _fill, "stored": _stored, "np": np}
    lines = ["def pad(array, widths, mode, value):", "    number = stored(value, array)"]
    for axis, (before, after) in enumerate(pairs):
        lines.append(f"    s{axis} = sources(array.shape[{axis}], np.int64({before}), np.int64({after}), mode)")
    shape = ", ".join(f"s{axis}.size" for axis in axes)
    lines.append(f"    result = np.empty(({shape},), array.dtype)")
    one = "np.zeros(1, np.int64)"  # an axis of one element
    along = {1: (one, "s0", one), 2: ("s0", "s1", one), 3: ("s0", "s1", "s2")}[array.ndim]
    extents = {1: "array.size, 1", 2: "array.shape[1], 1", 3: "array.shape[1], array.shape[2]"}[array.ndim]
    lines.append("    numbers = np.ascontiguousarray(array).reshape(array.size)")
    lines.append(f"    fill(numbers, result.reshape(result.size), number, {', '.join(along)}, {extents})")
    lines.append("    return result")
    exec("\n".join(lines), namespace)
    made: Callable[..., Any] = namespace["pad"]
    return made


@register_jitable
def _stored(value, array):
    return array.dtype.type(as_stored(as_weak(value, array), array))


@numba.njit(nogil=True, boundscheck=False)
def _runs(columns, together):
    """Parts of an axis whose elements are side by side in the array too: where each begins, and where the last one ends."""
    begins, count = np.empty(columns.size + 1, np.int64), 0
    for place in range(columns.size):
        follows = place > 0 and columns[place - 1] >= 0 and columns[place] == columns[place - 1] + 1
        if not (together and follows):
            begins[count] = place
            count += 1
    begins[count] = columns.size
    return begins[: count + 1]


@numba.njit(nogil=True, boundscheck=False)
def _fill(array, out, number, rows, columns, layers, width, depth):
    """Writes the elements of an array of ``width`` columns and ``depth`` layers. Columns side by side are copied together."""
    line, whole = columns.size * layers.size, layers.size == depth
    begins = _runs(columns, whole)
    for place in range(rows.size):
        begin, row = place * line, rows[place]
        if row < 0:
            for target in range(begin, begin + line):
                out[target] = number
            continue
        for run in range(begins.size - 1):
            column, count = begins[run], begins[run + 1] - begins[run]
            source, target = columns[column], begin + column * layers.size
            first = (row * width + source) * depth
            if source < 0:
                for layer in range(layers.size):
                    out[target + layer] = number
            elif whole:
                given, made = array[first : first + count * depth], out[target : target + count * depth]
                for part in range(count * depth):
                    made[part] = given[part]
            else:
                for layer in range(layers.size):
                    out[target + layer] = array[first + layers[layer]] if layers[layer] >= 0 else number
