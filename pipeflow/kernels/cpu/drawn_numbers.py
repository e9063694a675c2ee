"""Random numbers in functions of the user, drawn by NumPy's own functions of C (numpy_code.py), so that the bits are the same.

Arguments for which NumPy raises an error, or which it treats in a special way, raise an exception, and the plain function
computes the sample.
"""

from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from numba import types

from pipeflow.kernels.cpu.numpy_code import address_of_generator, drawing, draws_known
from pipeflow.kernels.cpu.numpy_numbers import rule
from pipeflow.kernels.cpu.python_numbers import as_double

# The parameters of each method with their defaults; None for one that must be given.
_PARAMETERS: dict[str, dict[str, float | None]] = {
    "standard_normal": {},
    "normal": {"loc": 0.0, "scale": 1.0},
    "exponential": {"scale": 1.0},
    "beta": {"a": None, "b": None},
    "lognormal": {"mean": 0.0, "sigma": 1.0},
    "laplace": {"loc": 0.0, "scale": 1.0},
}
_POSITIVE = {"beta": (True, True)}  # the others: the last one is not negative


def _is_generator(kind: Any) -> bool:
    return isinstance(kind, types.NumPyRandomGeneratorType) and draws_known()


def _are_numbers(*kinds: Any) -> bool:
    return all(isinstance(types.unliteral(kind), (types.Float, types.Integer)) for kind in kinds)


def _is_size(kind: Any) -> bool:
    kind = types.unliteral(kind)
    return isinstance(kind, types.Integer) or (
        isinstance(kind, types.UniTuple) and isinstance(types.unliteral(kind.dtype), types.Integer)
    )


def _check(name: str) -> Any:
    positive = name in _POSITIVE

    @numba.njit(nogil=True)
    def check(values):
        for value in values:
            if not np.isfinite(value):
                raise ValueError("a parameter that is not finite")
            if positive and value <= 0:
                raise ValueError("a parameter that is not positive")
        if np.signbit(values[-1]):
            raise ValueError("a parameter that is negative")

    return check


def _drawn(name: str) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Functions for one number and for an array of numbers."""
    draw, count, check = drawing(name), len(_PARAMETERS[name]), _check(name)

    def one(generator: Any, values: Any) -> Any:
        return getattr(generator, name)(*values)

    def many(generator: Any, values: Any, size: Any) -> Any:
        return getattr(generator, name)(*values, size)

    @rule(one)
    def _(generator: Any, values: Any) -> Any:
        if not _is_generator(generator) or not _are_numbers(*values):
            return None

        def number(generator: Any, values: Any) -> Any:
            if count:
                check(values)
            return draw((address_of_generator(generator), *values))

        return number

    @rule(many)
    def _(generator: Any, values: Any, size: Any) -> Any:
        if not _is_generator(generator) or not _are_numbers(*values) or not _is_size(size):
            return None

        def numbers(generator: Any, values: Any, size: Any) -> Any:
            if count:
                check(values)
            result, address = np.empty(size, np.float64), address_of_generator(generator)
            found = result.reshape(result.size)
            for place in range(found.size):
                found[place] = draw((address, *values))
            return result

        return numbers

    one.__name__ = one.__qualname__ = many.__name__ = many.__qualname__ = f"rng.{name}"
    return one, many


def short_normals(generator: Any, size: Any) -> Any:
    """``rng.standard_normal(size, dtype=np.float32)``."""
    return generator.standard_normal(size, dtype=np.float32)


_draw_short = drawing("standard_normal_f")


@rule(short_normals)
def _(generator: Any, size: Any) -> Any:
    if not _is_generator(generator) or not _is_size(size):
        return None

    def numbers(generator: Any, size: Any) -> Any:
        result, address = np.empty(size, np.float32), address_of_generator(generator)
        found = result.reshape(result.size)
        for place in range(found.size):
            found[place] = _draw_short((address,))
        return result

    return numbers


_DRAWN = {name: _drawn(name) for name in _PARAMETERS}


# Orders and choices.

_interval, _bounded = drawing("interval"), drawing("bounded_uint64")


def shuffled(generator: Any, values: Any) -> Any:
    """``rng.shuffle(values)``."""
    generator.shuffle(values)


def permuted(generator: Any, values: Any) -> Any:
    """``rng.permutation(values)``."""
    return generator.permutation(values)


def chosen(generator: Any, values: Any) -> Any:
    """``rng.choice(values)``."""
    return generator.choice(values)


def chosen_many(generator: Any, values: Any, size: Any) -> Any:
    """``rng.choice(values, size)``."""
    return generator.choice(values, size)


def chosen_apart(generator: Any, values: Any, size: Any) -> Any:
    """``rng.choice(values, size, replace=False)``."""
    return generator.choice(values, size, replace=False)


@numba.njit(nogil=True)
def _shuffle(address, places):
    for last in range(places.size - 1, 0, -1):
        other = np.int64(_interval((address, last)))
        places[last], places[other] = places[other], places[last]


@rule(shuffled)
def _(generator: Any, values: Any) -> Any:
    if not _is_generator(generator) or not isinstance(values, types.Array):
        return None
    if values.ndim == 1:
        return lambda generator, values: _shuffle(address_of_generator(generator), values)

    def rows(generator: Any, values: Any) -> Any:
        places = np.arange(len(values))
        _shuffle(address_of_generator(generator), places)
        values[:] = values[places]

    return rows


@rule(permuted)
def _(generator: Any, values: Any) -> Any:
    if not _is_generator(generator):
        return None
    if isinstance(types.unliteral(values), types.Integer):

        def of_number(generator: Any, values: Any) -> Any:
            places = np.arange(np.int64(values))
            _shuffle(address_of_generator(generator), places)
            return places

        return of_number
    if not isinstance(values, types.Array) or not values.ndim:
        return None

    def of_array(generator: Any, values: Any) -> Any:
        places = np.arange(len(values))
        _shuffle(address_of_generator(generator), places)
        return values[places]

    return of_array


def _is_choice(generator: Any, values: Any) -> bool:
    kind = types.unliteral(values)
    items = isinstance(kind, (types.UniTuple, types.List)) and isinstance(
        types.unliteral(kind.dtype), (types.Integer, types.Float)
    )
    array = isinstance(kind, types.Array) and kind.ndim == 1
    return _is_generator(generator) and (isinstance(kind, types.Integer) or items or array)


def _items(values: Any) -> Callable[..., Any]:
    """A function for the items at places."""
    kind = types.unliteral(values)
    if isinstance(kind, types.Integer):
        return numba.njit(lambda values, places: places)
    if isinstance(kind, types.Array):
        return numba.njit(lambda values, places: values[places])
    return numba.njit(lambda values, places: np.array(values)[places])


def _count(values: Any) -> Callable[..., Any]:
    if isinstance(types.unliteral(values), types.Integer):
        return numba.njit(lambda values: np.int64(values))
    return numba.njit(lambda values: len(values))


@numba.njit(nogil=True)
def _check_count(count):
    if count <= 0:
        raise ValueError("a choice of nothing")


@rule(chosen)
def _(generator: Any, values: Any) -> Any:
    if not _is_choice(generator, values):
        return None
    items, count_of = _items(values), _count(values)

    def choose(generator: Any, values: Any) -> Any:
        count = count_of(values)
        _check_count(count)
        return items(values, generator.integers(0, count))

    return choose


@numba.njit(nogil=True)
def _mask_of(number):
    mask = np.uint64(number)
    for bits in (1, 2, 4, 8, 16, 32):
        mask |= mask >> np.uint64(bits)
    return mask


@numba.njit(nogil=True)
def _shuffle_bounded(address, places, first):
    for last in range(places.size - 1, first - 1, -1):
        other = np.int64(_bounded((address, 0, last, 0, False)))
        places[last], places[other] = places[other], places[last]


@numba.njit(nogil=True)
def _apart(address, count, size):
    """Different places, in NumPy's way: by the end of a shuffled list, or by Floyd's method with a table of those drawn."""
    if size > count or size < 0:
        raise ValueError("more numbers than there are")
    if count > 10000 and size > count // 50:
        places = np.arange(count)
        _shuffle_bounded(address, places, max(count - size, 1))
        return places[count - size :].copy()
    places, mask = np.empty(size, np.int64), np.int64(_mask_of(np.int64(1.2 * size)))
    table = np.full(mask + 1, -1)
    for last in range(count - size, count):
        found = np.int64(_bounded((address, 0, last, 0, False)))
        place = found & mask
        while table[place] not in (-1, found):
            place = (place + 1) & mask
        if table[place] == found:
            found = last
            place = found & mask
            while table[place] != -1:
                place = (place + 1) & mask
        table[place] = found
        places[last - count + size] = found
    _shuffle_bounded(address, places, 1)
    return places


@numba.njit(nogil=True)
def _any_places(generator, count, size):
    return generator.integers(0, count, size)


@numba.njit(nogil=True)
def _different_places(generator, count, size):
    return _apart(address_of_generator(generator), count, np.int64(size))


def _several(generator: Any, values: Any, size: Any, places: Any) -> Any:
    """Compiled code for a choice of so many items."""
    if not _is_choice(generator, values) or not isinstance(types.unliteral(size), types.Integer):
        return None
    items, count_of = _items(values), _count(values)

    def choose(generator: Any, values: Any, size: Any) -> Any:
        count = count_of(values)
        _check_count(count)
        return items(values, places(generator, count, size))

    return choose


@rule(chosen_many)
def _(generator: Any, values: Any, size: Any) -> Any:
    return _several(generator, values, size, _any_places)


@rule(chosen_apart)
def _(generator: Any, values: Any, size: Any) -> Any:
    return _several(generator, values, size, _different_places)


DRAW_HELPERS = {
    *(one for pair in _DRAWN.values() for one in pair),
    *(short_normals, shuffled, permuted, chosen, chosen_many, chosen_apart),
}


def draw_of(method: str, generator: Any, value: Any, names: Any, insert: Any) -> Any:
    """The call that replaces a call of a method of a generator; None if it stays as it is."""
    words, given = dict(value.kws), list(value.args)
    if value.vararg or any(names.is_none(one) for one in (*given, *words.values())):
        return None
    if method in ("shuffle", "permutation") and len(given) == 1 and not words:
        return insert.call(shuffled if method == "shuffle" else permuted, generator, *given)
    if method == "choice" and 1 <= len(given) <= 2 and not {*words} - {"size", "replace"}:
        size = given[1] if len(given) == 2 else words.get("size")
        replace = True if "replace" not in words else names.constant(words["replace"])
        if size is None or type(replace) is not bool:
            return insert.call(chosen, generator, given[0]) if size is None and not words else None
        return insert.call(chosen_many if replace else chosen_apart, generator, given[0], size)
    if method not in _PARAMETERS:
        return None
    wanted = _PARAMETERS[method]
    order = [*wanted, "size"]
    if len(given) > len(order) or {*words} - {*order, "dtype"}:
        return None
    found = dict(zip(order, given)) | words
    short = "dtype" in words
    if short and (method != "standard_normal" or names.value_of(words["dtype"]) is not np.float32):
        return None
    if short:
        return insert.call(short_normals, generator, found["size"]) if "size" in found else None
    numbers = [found.get(name) or (None if value is None else insert.number(value)) for name, value in wanted.items()]
    if None in numbers:
        return None
    one, many = _DRAWN[method]
    values = insert.tuple_of([insert.call(as_double, one) for one in numbers])
    if "size" not in found:
        return insert.call(one, generator, values)
    return insert.call(many, generator, values, found["size"])
