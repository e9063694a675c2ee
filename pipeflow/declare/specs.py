"""The description of an output before it exists: shape, dtype and layout, each of which may be unknown."""

import dataclasses
import typing
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from pipeflow import types
from pipeflow.errors import count_of


class UnknownValue(Exception):
    """A decision depends on a value that is known only when the pipeline runs."""


def answer(question: Callable[[], bool]) -> bool | None:
    """The answer to a question; None if it depends on what is not known yet."""
    try:
        return question()
    except UnknownValue:
        return None


class _Unknown:
    """A dimension or argument that is not known yet. Arithmetic on it is unknown, and a decision on it is an error."""

    def _same(self, *_: Any) -> "_Unknown":
        return self

    def _refuse(self, *_: Any) -> Any:
        raise UnknownValue

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __floordiv__ = __rfloordiv__ = _same
    __truediv__ = __rtruediv__ = __mod__ = __rmod__ = __neg__ = __abs__ = __round__ = __pow__ = _same
    __array__ = __lt__ = __le__ = __gt__ = __ge__ = __int__ = __index__ = __float__ = __bool__ = __iter__ = __len__ = (
        __getitem__
    ) = _refuse

    __array__ = _refuse  # without this, NumPy treats it as a broken sequence

    def __repr__(self) -> str:
        return "UNKNOWN"

    def __reduce__(self) -> str:
        return "UNKNOWN"


UNKNOWN = _Unknown()


@dataclass(frozen=True)
class Spec:
    """The description of one output: shape (None: the number of axes is unknown), dtype, layout (None: unknown)."""

    shape: Any = None
    dtype: Any = None
    layout: Any = None  # a string if it is known

    def __post_init__(self) -> None:
        if self.shape is not None and self.shape is not UNKNOWN:
            dims = tuple(None if dim is None or dim is UNKNOWN else int(dim) for dim in self.shape)
            object.__setattr__(self, "shape", dims)
        elif self.shape is UNKNOWN:
            object.__setattr__(self, "shape", None)
        if self.dtype is UNKNOWN:
            object.__setattr__(self, "dtype", None)
        elif self.dtype is not None and not isinstance(self.dtype, np.dtype):
            object.__setattr__(self, "dtype", types.as_dtype(self.dtype))

    @classmethod
    def exact(cls, array: np.ndarray, layout: str) -> "Spec":
        """The Spec of an array. Some operators make one for every sample, so nothing is checked again."""
        spec = object.__new__(cls)
        spec.__dict__.update(shape=array.shape, dtype=array.dtype, layout=layout)
        return spec

    @property
    def ndim(self) -> int | None:
        """The number of axes, if it is known."""
        return None if self.shape is None else len(self.shape)

    @property
    def static(self) -> bool:
        """True if shape and dtype are fully known."""
        return self.shape is not None and None not in self.shape and self.dtype is not None

    def frame(self) -> "Spec":
        """What is known of one frame; data that is no sequence is the same for all frames."""
        if (self.layout or "")[:1] != "F":
            return self
        return Spec(self.shape and self.shape[1:], self.dtype, self.layout[1:])

    def open(self) -> "Spec":
        """This Spec with UNKNOWN in place of None, the form that ``infer`` functions see."""
        spec = object.__new__(Spec)
        shape = UNKNOWN if self.shape is None else tuple(UNKNOWN if dim is None else dim for dim in self.shape)
        object.__setattr__(spec, "shape", shape)
        object.__setattr__(spec, "dtype", UNKNOWN if self.dtype is None else self.dtype)
        object.__setattr__(spec, "layout", self.layout)
        return spec

    def framed(self, frames: int | None) -> "Spec":
        """The description of so many of them along a new first axis F."""
        shape = None if self.shape is None else (frames, *self.shape)
        return Spec(shape, self.dtype, "F" + self.layout if self.layout else self.layout)

    def __str__(self) -> str:
        shape = (
            "?" if self.shape is None else "x".join("?" if dim is None else str(dim) for dim in self.shape) or "scalar"
        )
        parts = [str(self.dtype or "?"), shape] + ([self.layout] if self.layout else [])
        return " ".join(parts)


class OutputSpec(Spec):
    """The declaration of one output of a Python function: ``Spec(np.uint8, (None, None, 3), "HWC")``; None: any."""

    def __init__(self, dtype: Any = None, shape: Any = None, layout: str | None = None) -> None:
        super().__init__(shape, dtype, types.check_layout(layout) if layout is not None else None)
        if self.layout and self.shape is not None and len(self.layout) != len(self.shape):
            raise ValueError(
                f"layout {self.layout!r} has {len(self.layout)} axes and shape {self.shape} has {self.ndim}"
            )


@dataclass(frozen=True)
class Outputs:
    """The promised outputs of a Python function, with names if it returns a dict, dataclass or named tuple."""

    specs: tuple[Spec, ...]
    names: tuple[str, ...] = ()

    @classmethod
    def of(cls, value: Any) -> "Outputs":
        """The promise that a user wrote as a Spec or type, a list or dict of them, or a dataclass or NamedTuple."""
        if isinstance(value, Outputs):
            return value
        if isinstance(value, Mapping):
            return cls(tuple(_promised(item) for item in value.values()), tuple(map(_identifier, value)))
        if isinstance(value, type) and (dataclasses.is_dataclass(value) or hasattr(value, "_fields")):
            hints = typing.get_type_hints(value, include_extras=True)
            marks = [[x for x in typing.get_args(hint) if isinstance(x, Spec)] for hint in hints.values()]
            return cls(tuple(_promised(found[0] if found else None) for found in marks), tuple(hints))
        if isinstance(value, (list, tuple)):
            return cls(tuple(map(_promised, value)))
        return cls((_promised(value),))

    def check_count(self, num_outputs: int) -> None:
        """Refuses a ``num_outputs`` that is neither 1 nor the number of these outputs."""
        if num_outputs not in (1, len(self.specs)):
            raise ValueError(
                f"outputs has {count_of(len(self.specs), 'entry', 'entries')} and num_outputs is {num_outputs}"
            )


def _promised(value: Any) -> Spec:
    if isinstance(value, Spec):
        return Spec(value.shape, value.dtype, value.layout)
    return Spec(None, None if value is None else types.as_dtype(value))


def _identifier(name: Any) -> str:
    if not isinstance(name, str) or not name.isidentifier():
        raise ValueError(f"the name of an output must be an identifier, got {name!r}")
    return name


class NamedOutputs(tuple):
    """Outputs by position, by attribute and by name: ``images, labels = out``, ``out.images``, ``out["images"]``."""

    names: tuple[str, ...]

    def __new__(cls, values: Iterable[Any], names: tuple[str, ...]) -> "NamedOutputs":
        outputs = super().__new__(cls, values)
        outputs.names = names
        return outputs

    def __getattr__(self, name: str) -> Any:
        if name == "names" or name.startswith("__") or name not in self.names:
            raise AttributeError(f"there is no output {name!r}; there are {', '.join(self.names)}")
        return tuple.__getitem__(self, self.names.index(name))

    def __getitem__(self, key: Any) -> Any:
        if not isinstance(key, str):
            return super().__getitem__(key)
        if key not in self.names:
            raise KeyError(f"there is no output {key!r}; there are {', '.join(self.names)}")
        return super().__getitem__(self.names.index(key))

    def __reduce__(self) -> Any:
        return NamedOutputs, (tuple(self), self.names)
