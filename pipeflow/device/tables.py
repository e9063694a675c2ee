"""Planning a whole batch for a device as columns, for operators with ``rows`` and ``gpu_table``.

No object is made for a sample or a frame: addresses and extents are columns, and the rows of a launch are computed from them
and from the table of the operator (declare/tables.py) by a few NumPy calls.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import chain, repeat
from typing import Any

import numpy as np

from pipeflow.declare import Args, NoTable, SpecColumn, argument_column, require
from pipeflow.declare.bound import PLAIN_ERRORS
from pipeflow.device.calls import DeviceMemory, DevicePlanner, Launcher, SampleValues, View
from pipeflow.device.runtime import DeviceArray, DeviceLease

_view = partial(tuple.__new__, View)
MOST = 1 << 28  # elements of a sample or a result: kernels count in 32 bits. Larger arrays are planned one by one.
MOST_AXES = 6  # the most axes of data that is moved


@dataclass(frozen=True)
class ArrayColumn:
    """One input or output of all samples (or frames), in device memory."""

    addresses: np.ndarray  # int64
    shapes: np.ndarray  # int64, a row for each sample
    dtype: np.dtype

    @classmethod
    def of(cls, views: Sequence[tuple[int, tuple[int, ...], np.dtype]]) -> "ArrayColumn":
        """The column of these views; NoTable if their types or numbers of axes differ."""
        addresses, shapes, dtypes = zip(
            *views
        )  # zip runs in C, as map does in ``views``: a Python loop over 128 samples takes as long as a plan
        dtype, axes = dtypes[0], len(shapes[0])
        require(dtypes.count(dtype) == len(dtypes) and set(map(len, shapes)) == {axes})
        extents = np.fromiter(chain.from_iterable(shapes), np.int64, axes * len(shapes))
        return cls(np.array(addresses, np.int64), extents.reshape(len(shapes), axes), dtype)

    def views(self) -> list[View]:
        """The views of all samples."""
        fields = zip(self.addresses.tolist(), map(tuple, self.shapes.tolist()), repeat(self.dtype))
        return list(map(_view, fields))

    def some(self, chosen: np.ndarray) -> "ArrayColumn":
        """Some of the rows."""
        return ArrayColumn(self.addresses[chosen], self.shapes[chosen], self.dtype)

    def frames(self, samples: np.ndarray, numbers: np.ndarray) -> "ArrayColumn":
        """Frames of the samples, by the numbers of both."""
        shapes = self.shapes[samples, 1:]
        size = products(shapes) * self.dtype.itemsize
        return ArrayColumn(self.addresses[samples] + numbers * size, shapes, self.dtype)

    @cached_property
    def sizes(self) -> np.ndarray:
        """The numbers of elements."""
        return products(self.shapes)

    @property
    def ends(self) -> np.ndarray:
        """The addresses after the last elements."""
        return self.addresses + self.sizes * self.dtype.itemsize


class DeviceColumn(Sequence[DeviceArray]):
    """The samples of a batch as a column. The object of a sample is made when it is needed, and that of most samples never is."""

    __slots__ = ("_samples", "column", "lease")

    def __init__(self, column: ArrayColumn, lease: DeviceLease | None) -> None:
        self.column = column
        self.lease = lease  # of the memory of all samples
        self._samples: list[DeviceArray] | None = None

    def __len__(self) -> int:
        return len(self.column.addresses)

    def __getitem__(self, index: Any) -> Any:
        if self._samples is None:
            self._samples = list(map(DeviceArray, self.column.views(), repeat(self.lease)))
        return self._samples[index]

    def __iter__(self) -> Iterator[DeviceArray]:
        return iter(self[:])


def stacked(values: Sequence[np.ndarray]) -> np.ndarray:
    """The values of an argument as one array; NoTable if their shapes or types differ."""
    first = values[0]
    require(all(value.shape == first.shape and value.dtype == first.dtype for value in values))
    return np.stack(values)


def strides_of(shapes: np.ndarray, itemsize: int) -> np.ndarray:
    """The strides of C-contiguous arrays with these shapes, a row for each."""
    strides = np.full(shapes.shape, itemsize, np.int64)
    for axis in range(shapes.shape[1] - 1, 0, -1):  # a column at a time takes half the time of cumprod
        np.multiply(strides[:, axis], shapes[:, axis], out=strides[:, axis - 1])
    return strides


def products(extents: np.ndarray) -> np.ndarray:
    """The product of each row."""
    if extents.shape[1] == 0:
        return np.ones(len(extents), np.int64)
    result = extents[:, 0].copy()
    for axis in range(1, extents.shape[1]):  # a column at a time, as above
        result *= extents[:, axis]
    return result


def dots(places: np.ndarray, strides: np.ndarray) -> np.ndarray:
    """The sum of places times strides in each row."""
    return np.einsum("ij,ij->i", places, strides)


def each_part(counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The parts of all samples, if sample i has ``counts[i]`` parts: for each part, its sample and its number in that sample."""
    if (counts == 1).all():
        return np.arange(len(counts)), np.zeros(len(counts), np.int64)
    samples = np.repeat(np.arange(len(counts)), counts)
    return samples, np.arange(len(samples)) - np.repeat(np.cumsum(counts) - counts, counts)


class TableCall(Launcher):
    """One operator on one batch, as its ``gpu_table`` function sees it: a row of each column is a sample, or a frame."""

    __slots__ = ("args", "input", "layout", "output", "table")

    def __init__(
        self, source: ArrayColumn, target: ArrayColumn, table: np.ndarray, args: Args, layout: str, memory: DeviceMemory
    ) -> None:
        super().__init__(memory)
        self.input = source
        self.output = target
        self.table = table
        self.args = args  # the constants; values that differ from sample to sample are in the table
        self.layout = layout  # of the input


class TablePlanner:
    """Plans batches with the table of an operator. It raises NoTable for batches that must be planned sample by sample."""

    def __init__(self, by_samples: DevicePlanner) -> None:
        self.by_samples = by_samples
        self.op = op = by_samples.op
        self._rows = op.rows_hook
        self._launch = op.gpu_hook("table") if op.rows_hook is not None and by_samples.count == 1 else None
        # by types, numbers of axes and layouts: the layout that the kernel gets, type and layout of the result
        self._known: dict[Any, tuple[str, np.dtype, str]] = {}
        self._constants = {**op.defaults, **by_samples.constants}
        self._args = Args(**self._constants)

    @property
    def able(self) -> bool:
        """True if the operator has tables."""
        return self._launch is not None

    def __call__(
        self,
        inputs: Sequence[ArrayColumn],
        arguments: Mapping[str, np.ndarray],
        keys: np.ndarray,
        layouts: Sequence[str],
        memory: DeviceMemory,
    ) -> tuple[ArrayColumn, str]:
        """Queues the operator on a batch; returns the output and its layout."""
        require(self._launch is not None and len(inputs) == 1)
        (source,) = inputs
        require(source.shapes.size and source.shapes.shape[1] <= MOST_AXES and source.sizes.max() < MOST)
        op = self.op
        try:
            columns = {name: argument_column(op.arguments[name], x) for name, x in arguments.items()}
            layout, dtype, found = self._described(source, arguments, keys, layouts)
            inner, samples, numbers = source, None, None
            if op.layouts and op.frames_of([layout]):
                require(op.whole is None or op.frames_of([layout], {**self._constants, **columns}))
                require(not (self.by_samples.per_frame & arguments.keys()))
                frames = source.shapes[:, 0]
                require(frames > 0)
                samples, numbers = each_part(frames)
                inner = ArrayColumn(source.addresses, source.shapes[:, 1:], source.dtype)
                layout = layout[1:]
            spec = SpecColumn(inner.shapes, source.dtype, layout)
            assert self._rows is not None
            table = self._rows((spec,), Args(**{**self._constants, **columns}) if columns else self._args, keys)
        except PLAIN_ERRORS as error:  # the plan of the sample reports the error
            raise NoTable from error
        shapes = table["shape"] if "shape" in (table.dtype.names or ()) else inner.shapes
        if samples is not None:
            shapes = np.concatenate([source.shapes[:, :1], shapes], axis=1)
        sizes = products(shapes)
        require(sizes.max() < MOST)
        addresses = memory.allocate(0, sizes * dtype.itemsize)
        target = ArrayColumn(np.asarray(addresses, np.int64), shapes, dtype)
        call = target
        if samples is not None and numbers is not None:
            source, call, table = source.frames(samples, numbers), target.frames(samples, numbers), table[samples]
        assert self._launch is not None
        self._launch(TableCall(source, call, table, self._args, layout, memory))
        return target, found

    def plan(
        self,
        samples: Sequence[SampleValues],
        layouts: Sequence[str],
        memory: DeviceMemory,
        failed: Callable[[int, Exception], None] | None = None,
    ) -> tuple[list[tuple[View, ...] | None], tuple[str, ...]]:
        """Queues the operator on samples: by its table if the table describes them, else one by one (``by_samples``)."""
        try:
            require(samples and not samples[0].numbers)
            inputs = [ArrayColumn.of(views) for views in zip(*[sample.inputs for sample in samples])]
            given = {name: stacked([sample.arguments[name] for sample in samples]) for name in samples[0].arguments}
            keys = np.array([sample.key for sample in samples], np.uint64)
            output, layout = self(inputs, given, keys, layouts, memory)
        except NoTable:
            return self.by_samples(samples, layouts, memory, failed)
        return [(view,) for view in output.views()], (layout,)

    def _described(
        self, source: ArrayColumn, arguments: Mapping[str, np.ndarray], keys: np.ndarray, layouts: Sequence[str]
    ) -> tuple[str, np.dtype, str]:
        kind = source.dtype, source.shapes.shape[1], tuple(layouts)
        known = self._known.get(kind)
        if known is None:
            self.op.check_dtype(source.dtype)
            require(source.dtype.kind != "c")
            if self.op.layouts:
                layouts = self.by_samples.accepted_layouts(layouts, (source.shapes.shape[1],))
            view = View(0, tuple(source.shapes[0].tolist()), source.dtype)
            first = SampleValues([view], {name: x[0] for name, x in arguments.items()}, int(keys[0]))
            spec = self.by_samples.infer(first, layouts)
            require(spec.dtype is not None)
            known = self._known[kind] = layouts[0], spec.dtype, spec.layout or ""
        return known
