"""The work of an operator on several samples in one call, for operators on few numbers.

``@rotation.many`` declares ``(many) -> outputs``: it computes the same as the body, bit for bit, for all samples that ``many``
describes. A call of the body for each sample takes 10 us of Python, however few numbers the sample has. Each output is an array
with one row for each sample, or a list of arrays if their extents differ.

A call describes samples without errors. If a sample has an error, or is a rare case, the hook raises NoTable (or any error), and
the body computes the samples one by one. So only the body reports errors, and the tests compare with it.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate, pairwise
from operator import attrgetter
from typing import Any

import numpy as np

from pipeflow.declare.parameters import Args, Param
from pipeflow.declare.sources import Room
from pipeflow.declare.tables import argument_column, require

Column = np.ndarray | list[np.ndarray]  # the samples of one input or output
Take = Callable[[int, tuple[int, ...], np.dtype], np.ndarray]
Copy = Callable[..., np.ndarray]
_dtype, _shape, _ndim = attrgetter("dtype"), attrgetter("shape"), attrgetter("ndim")


class Many:
    """Several samples, as an operator with ``many`` gets them.

    ``inputs`` has an array for each input, with one row for each sample, or a list of arrays of one type and one number of axes.
    In ``args`` an argument that differs from sample to sample is an array with a row for each of them; ``varying`` has the
    names of these. ``keys`` are the keys of the samples (uint64) if the operator is random.
    """

    __slots__ = ("_take", "args", "copies", "copy", "inputs", "keys", "layouts", "room", "size", "varying")

    def __init__(
        self,
        size: int,
        inputs: Sequence[Column],
        layouts: Sequence[str],
        constants: Mapping[str, Any],
        varying: Mapping[str, np.ndarray],
        keys: np.ndarray | None,
        take: Take,
        copy: Copy,
        copies: Callable[[Column], Column],
        room: Room,
    ) -> None:
        self.size = size
        self.inputs = inputs
        self.layouts = layouts
        self.args = Args(**{**constants, **varying})
        self.varying = varying.keys()
        self.keys: Any = keys
        self._take = take
        self.room = room  # gives so many bytes of memory of the batch
        self.copy = copy  # copies an array to another one, or to new memory if there is none
        self.copies = copies  # copies of several arrays, for the only output: one array if they have one shape

    def empty(self, shape: Sequence[int], dtype: np.dtype, output: int = 0) -> np.ndarray:
        """Memory for an output: one row of this shape for each sample."""
        return self._take(output, tuple(shape), dtype)

    def numbers(self, name: str, width: int = 0) -> np.ndarray:
        """An argument with a list of numbers, as float64 with a row for each sample; a constant has one row for all.

        With ``width`` one number counts for a whole row, and rows of another width raise NoTable.
        """
        value = getattr(self.args, name)
        rows = value if name in self.varying else np.array([value], np.float64)
        rows = rows.reshape(len(rows), -1).astype(np.float64, copy=False)
        require(not width or rows.shape[1] in (1, width))
        return rows

    def each(self, name: str) -> np.ndarray:
        """An argument that is one number, as float64 for each sample."""
        value = getattr(self.args, name)
        return value if name in self.varying else np.full(self.size, value, np.float64)

    def rows(self, name: str) -> np.ndarray:
        """An argument with a list of whole numbers, as int64 with a row for each sample; a constant has one row for all."""
        value = getattr(self.args, name)
        return value if name in self.varying else np.array([value], np.int64)

    def stacked(self, place: int) -> np.ndarray:
        """The samples of an input as one array; NoTable if their extents differ."""
        samples = self.inputs[place]
        if not isinstance(samples, np.ndarray):
            require(len(set(map(_shape, samples))) == 1)
            samples = np.array(samples)
        return samples

    def joined(self, place: int, axes: int = 0) -> "Joined":
        """The samples of an input one after another; NoTable if they do not have so many axes."""
        return Joined(self.inputs[place], axes)


class Joined:
    """Samples one after another along their first axis: those of sample i are ``values[ends[i]:ends[i + 1]]``."""

    __slots__ = ("_ends", "ends", "values")

    def __init__(self, samples: Column, axes: int) -> None:
        ndim = samples.ndim - 1 if isinstance(samples, np.ndarray) else samples[0].ndim
        require(ndim == axes)
        self._ends = [0, *accumulate(map(len, samples))]
        self.ends = np.array(self._ends, np.int64)
        if isinstance(samples, np.ndarray):
            self.values = np.ascontiguousarray(samples).reshape(-1, *samples.shape[2:])
        else:
            self.values = np.concatenate(samples)  # of samples with other extents an error, as it should be

    def divided(self, values: np.ndarray) -> list[np.ndarray]:
        """Values for these samples one after another, as one array for each sample."""
        return [values[begin:end] for begin, end in pairwise(self._ends)]


def parts(values: np.ndarray, counts: np.ndarray) -> list[np.ndarray]:
    """The values as one array for each sample, with as many of them as ``counts`` has."""
    return [values[begin:end] for begin, end in pairwise([0, *accumulate(counts.tolist())])]


def as_column(samples: Any) -> Column:
    """Samples as a column; NoTable if their types or numbers of axes differ."""
    if isinstance(samples, np.ndarray):
        if samples.dtype.hasobject:  # a row of these would be an object of Python
            return [samples[place, ...] for place in range(len(samples))]
        return samples
    require(len(set(map(_dtype, samples))) == 1 and len(set(map(_ndim, samples))) == 1)
    return list(samples)


def as_argument(param: Param, samples: Any) -> np.ndarray:
    """The values of an argument for several samples, each as ``from_sample`` converts it; NoTable if one cannot be converted."""
    if not isinstance(samples, np.ndarray):
        require(len(set(map(_dtype, samples))) == 1 and len(set(map(_shape, samples))) == 1)
        samples = np.array(samples)
    return samples if param.type is Any else argument_column(param, samples)
