"""The common parts of samples and batches: layout, source_info, the index of a sample, and printing."""

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from pipeflow import pictures, types
from pipeflow.errors import BadType, OutOfRange

Shape = tuple[int, ...]


class CallableInt(int):
    """A number that can also be called: DALI's ``ndim`` is a method of some classes and an attribute of others."""

    def __call__(self) -> int:
        return int(self)


NUMBERS = 16  # the most numbers of a batch of numbers that are printed
LINES = 20  # the most lines of numbers that are printed for a batch or a sample, so that the text fits on a screen


def shown_values(array: np.ndarray, room: int = LINES) -> list[str]:
    """The numbers of an array as at most ``room`` lines; of a large array only the first and last numbers."""
    for threshold, edge in ((64, 2), (16, 1)):
        lines = np.array2string(array, threshold=threshold, edgeitems=edge, prefix="    ").splitlines()
        if len(lines) <= room:
            return lines
    return [*lines[: room - 1], "     ..."]


def shown_samples(samples: Sequence[np.ndarray]) -> str:
    """The first samples, as many as fit on a screen; numbers stand in one line."""
    if all(sample.ndim == 0 for sample in samples):
        numbers = [str(sample) for sample in samples[:NUMBERS]]
        return ", ".join([*numbers, *(["..."] if len(numbers) < len(samples) else [])])
    shown: list[str] = []
    left = LINES
    for sample in samples:
        lines = shown_values(sample, left if not shown else LINES)
        if shown and len(lines) > left:
            break
        shown.append("\n".join(lines))
        left -= len(lines)
    return ",\n    ".join([*shown, *(["..."] if len(shown) < len(samples) else [])])


def position_of(index: Any, size: int, name: str) -> int:
    """The position of a sample in a batch; a negative index counts from the end."""
    if not hasattr(type(index), "__index__"):
        raise TypeError(
            f"the index of a {name} is an integer (one sample) or a slice (several); got {type(index).__name__} {index!r}"
        )
    if not -size <= index < size:
        raise OutOfRange(f"{name} index out of range: there is no sample {index} in a batch of {size}")
    return operator.index(index) % size


class Metadata:
    """The layout and source_info of samples and batches, shared by CPU and GPU tensors."""

    __slots__ = ()
    _layout: str

    def layout(self) -> str:
        """The layout of a sample, "" when there is none."""
        return self._layout

    def source_info(self) -> Any:
        """The source of the data."""
        raise NotImplementedError

    def get_property(self, key: str) -> Any:
        """The layout or the source_info by name, None when there is none."""
        if key == "layout":
            return self._layout or None
        if key == "source_info":
            return self.source_info() or None
        raise RuntimeError(f"unsupported property key: {key}; there are 'layout' and 'source_info'")

    def show(self, n: int = 16, **how: Any) -> pictures.Picture:
        """The first ``n`` samples as a picture; the arguments are those of ``pipeflow.show``."""
        return pictures.show(self, n, **how)

    def _repr_html_(self) -> str:
        return pictures.html(self)


def fitting_layout(layout: str | None, ndim: int) -> str:
    """A layout that has one letter for every axis."""
    text = types.check_layout(layout)
    if text and len(text) != ndim:
        raise ValueError(f"layout {text!r} has {len(text)} axes and the data has {ndim}")
    return text


def holds_tensors(samples: Sequence[Any]) -> bool:
    """True if a tensor is among these samples; the usual case is arrays."""
    return any(issubclass(kind, Metadata) for kind in set(map(type, samples)))


def sources_of(batch: Any) -> list[str] | None:
    """The source of each sample of a batch or of a list of tensors, None if no source is known."""
    if isinstance(batch, Metadata):
        known = batch.source_info()
    elif isinstance(batch, (list, tuple)) and holds_tensors(batch):
        known = [item.source_info() if isinstance(item, Metadata) else "" for item in batch]
    else:
        return None
    return known if isinstance(known, list) and any(known) else None  # the source of a single tensor is text


def common_layout(samples: Sequence[Any]) -> str | None:
    """The layout of the first of these samples, None if none of them is a tensor.

    A later sample may have no layout, but no other one.
    """
    if not holds_tensors(samples):
        return None
    first, *others = (sample.layout() if isinstance(sample, Metadata) else "" for sample in samples)
    for index, layout in enumerate(others, 1):
        if layout not in ("", first):
            raise BadType(
                f"a batch has one layout: that of sample 0 is {first!r} and that of sample {index} is {layout!r}"
            )
    return first
