"""Arguments as Python values: from users, and from a sample of a node."""

import enum
import operator as _operator
import os
import typing
from collections.abc import Callable, Iterable
from math import isfinite
from typing import Any, Literal

import numpy as np

from pipeflow import types
from pipeflow.declare.parameters import SINGLE, Param, Role
from pipeflow.errors import add_notes


def describe_kind(param: Param) -> str:
    """A description of the values that a parameter accepts."""
    words = {
        "ints": "an integer or a list of integers",
        "floats": "a number or a list of numbers",
        "dtype": "a type",
        "layout": "a layout string",
        bool: "a bool",
        int: "an integer",
        float: "a number",
        str: "a string",
    }
    if typing.get_origin(param.type) is Literal:
        text = " or ".join(repr(choice) for choice in typing.get_args(param.type))
    else:
        text = str(words.get(param.type) or getattr(param.type, "__name__", param.type))
    return text + (", or one value per sample" if param.role is Role.ARG else "")


def refused(kind: type[Exception], param: Param, reason: Any) -> Exception:
    """The error about a value of an argument, with what the argument means."""
    error = kind(f"argument {param.name!r}: {reason}")
    if param.meaning:
        add_notes(error, [f"{param.name} is: {param.meaning}"])
    return error


def convert(kind: Any, value: Any) -> Any:
    """A constant argument in the form that its kernel needs; TypeError or ValueError says what is accepted."""
    numbers = kind in (bool, int, float) or (isinstance(kind, type) and issubclass(kind, enum.Enum))
    if isinstance(value, np.ndarray) and kind is not Any and (value.ndim == 0 or (numbers and value.size == 1)):
        value = value.item()  # as in DALI, an array of one number is a number
    elif isinstance(value, np.generic) and kind is not Any:
        value = value.item()
    if isinstance(value, (types.ScalarConstant, types.ArrayConstant)):
        value = value.value
    if kind is bool:
        if isinstance(value, bool) or (isinstance(value, int) and value in (0, 1)):
            return bool(value)
        raise TypeError(f"must be a bool, got {type(value).__name__} {value!r}")
    if kind is int:
        return _integer(value)
    if kind is float:
        return _number(value)
    if kind == "ints":
        return tuple(_integer(item) for item in _sequence(value, "an integer or a list of integers"))
    if kind == "floats":
        return tuple(_number(item) for item in _sequence(value, "a number or a list of numbers"))
    if kind is str:
        if isinstance(value, (str, os.PathLike)):
            return os.fspath(value)
        raise TypeError(f"must be a string, got {type(value).__name__} {value!r}")
    if kind == "dtype":
        return types.as_dtype(value)
    if kind == "layout":
        return types.check_layout(value)
    if typing.get_origin(kind) is Literal:
        choices = typing.get_args(kind)
        if value not in choices:
            raise ValueError(f"must be {' or '.join(map(repr, choices))}, got {value!r}")
        return value
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        try:
            return kind(value)
        except ValueError:
            names = ", ".join(repr(member) for member in kind)
            raise ValueError(f"must be one of {names}, got {value!r}") from None
    if isinstance(kind, type) and hasattr(kind, "of"):
        return kind.of(value)
    if (kind is Callable or typing.get_origin(kind) is Callable) and not callable(value):
        raise TypeError(f"must be callable, got {type(value).__name__} {value!r}")
    return value


def constant_of(param: Param, value: Any) -> Any:
    """A constant argument in the form that its kernel needs; TypeError or ValueError says what is accepted."""
    value = check_finite(param, convert(param.type, value))
    return float(np.float32(value)) if param.name in SINGLE else value


def check_finite(param: Param, value: Any) -> Any:
    """Returns the value of an argument; an error if it is infinite or NaN and the argument must be finite."""
    if param.finite:
        for number in value if isinstance(value, tuple) else (value,):
            if not isfinite(number):
                raise ValueError(f"must be finite, got {value!r}")
    return value


def _integer(value: Any) -> int:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if not hasattr(type(value), "__index__"):
        raise TypeError(f"must be an integer, got {type(value).__name__} {value!r}")
    return _operator.index(value)


def _number(value: Any) -> float:
    if isinstance(value, (bool, str)) or (
        not hasattr(type(value), "__float__") and not hasattr(type(value), "__index__")
    ):
        raise TypeError(f"float() argument must be a number, not {type(value).__name__} {value!r}")
    return float(value)


def _sequence(value: Any, accepted: str) -> list[Any]:
    if isinstance(value, np.ndarray):
        return value.ravel().tolist()
    if isinstance(value, (list, tuple, range)):
        return [
            inner
            for item in value
            for inner in (_sequence(item, accepted) if isinstance(item, (list, tuple)) else [item])
        ]
    if isinstance(value, Iterable):
        raise TypeError(f"must be {accepted}, got {type(value).__name__} {value!r}")
    return [value]


class OfSample(tuple):
    """Numbers that belong to one sample. A warp truncates extents of this class, and rounds extents that are constants."""

    __slots__ = ()


def from_sample(kind: Any, array: Any) -> Any:
    """A per-sample argument, a small array, in the form that its kernel needs."""
    if kind == "ints":
        return tuple(_whole(item) for item in np.ravel(array).tolist())
    if kind == "floats":
        return OfSample([float(item) for item in np.ravel(array).tolist()])
    if kind in (bool, int, float) or (isinstance(kind, type) and issubclass(kind, enum.Enum)):
        if np.size(array) != 1:
            raise ValueError(f"must be one number per sample, got shape {np.shape(array)}")
        number = array.item() if isinstance(array, (np.ndarray, np.generic)) else array
        return _whole(number) if kind is int else kind(number)
    return array


def _whole(number: Any) -> int:
    if isinstance(number, float) and not isfinite(number):
        raise ValueError(f"must be finite, got {number!r}")
    return int(number)


READY = frozenset({bool, int, float, tuple, OfSample, str})  # the types of converted per-sample arguments


def column_values(kind: Any, values: np.ndarray) -> list[Any] | None:
    """The per-sample arguments of a batch in the form that kernels need; None if each must be converted by itself."""
    try:
        if values.dtype.kind not in "biuf" or (values.dtype.kind == "f" and not np.isfinite(values).all()):
            return None  # the conversion of the single sample reports what is wrong
        if kind in ("ints", "floats"):
            number, many = (int, tuple) if kind == "ints" else (float, OfSample)
            return [many([number(x) for x in row]) for row in values.reshape(len(values), -1).tolist()]
        if kind in (bool, int, float) and values.size == len(values):
            return [kind(x) for x in values.reshape(-1).tolist()]
    except (ValueError, OverflowError):
        pass  # a nan that should be an integer: the conversion of the single sample reports it
    return None
