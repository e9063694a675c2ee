"""``np.clip`` with limits that are numbers, in functions of the user: one loop over all elements, several at once."""

from typing import Any

import numba
import numpy as np
from numba import types

from pipeflow.kernels.cpu.numpy_numbers import element_of, rule


def as_bound(limit: Any, array: Any) -> Any:
    """A Python number that is a limit of the elements of an array."""
    return limit


def clipped(array: Any, low: Any, high: Any) -> Any:
    """``np.clip(array, low, high)``."""
    return np.clip(array, low, high)


@rule(as_bound)
def _(limit: Any, array: Any) -> Any:
    kind, element = types.unliteral(limit), element_of(array)
    if isinstance(element, types.Float):
        cast = np.float32 if element.bitwidth == 32 else np.float64
        return lambda limit, array: cast(limit)
    if not isinstance(kind, types.Integer) or not isinstance(element, types.Integer) or element == types.uint64:
        return lambda limit, array: limit
    least, most, cast = element.minval, element.maxval, getattr(np, element.name)

    def bound(limit: Any, array: Any) -> Any:
        return cast(min(max(limit, least), most))

    return bound


@numba.njit(nogil=True, boundscheck=False)
def _clip(x, low, high, out):
    for place in range(x.size):
        value = x[place]
        value = low if value < low else value
        out[place] = high if value > high else value


@rule(clipped)
def _(array: Any, low: Any, high: Any) -> Any:
    element = element_of(array)
    alike = all(types.unliteral(limit) == element for limit in (low, high))
    if not isinstance(array, types.Array) or array.layout != "C" or not alike:
        return lambda array, low, high: np.clip(array, low, high)

    def clip(array: Any, low: Any, high: Any) -> Any:
        if low > high:
            raise ValueError("the limits of a clip in the wrong order")
        result = np.empty(array.shape, array.dtype)
        _clip(array.reshape(array.size), low, high, result.reshape(array.size))
        return result

    return clip


CLIP_HELPERS = {as_bound, clipped}
