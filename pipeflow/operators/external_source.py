"""fn.external_source: data from the user's callable, iterable or ``feed_input``."""

import functools
import math
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from pipeflow import types
from pipeflow.declare import Args, Feed, Request, Source, Spec, default, source
from pipeflow.errors import BadValue, InvalidState, function_name
from pipeflow.operators.sources.ahead import ParallelCallback
from pipeflow.operators.sources.callback import Callback
from pipeflow.operators.sources.fed import FedInput
from pipeflow.tensors import DeviceSample, Metadata, TensorListCPU, as_sample, common_layout, on_gpu, sources_of

PAGE = """Data from your own callable, iterable or generator function, or fed by hand. [External
sources](../external_source.md) has examples of all of them.
"""


Cycle = Literal["no", "quiet", "raise", False, True]


class ExternalSource(Source):
    """Brings your own data into the pipeline: from a callable, an iterable, a generator function, or (without
    ``source``) from ``feed_input``.

    A callable for samples (``batch=False``) may take a SampleInfo, one for batches the iteration number or, with
    ``batch_info=True``, a BatchInfo. It returns an array, or one per output with ``num_outputs``.
    """

    takes_data = True

    def __init__(
        self,
        source: Any = default(
            None, "callable, iterable or generator function with the data; default: the data comes from `feed_input`"
        ),
        num_outputs: int | None = default(
            None, "number of outputs that the source returns in a list or tuple; default: one output, without a list"
        ),
        *,
        batch: bool | None = default(None, "the source returns whole batches; False: single samples"),
        cycle: Cycle | None = default(
            None,
            "what happens at the end of an iterable: `no` ends the data, `quiet` (or True) starts over, `raise` ends the epoch "
            "and starts over in the next",
        ),
        dtype: Any = default(None, "type that each output must have: one, or a list"),
        ndim: Any = default(None, "number of axes that each sample must have: one, or a list"),
        layout: Any = default(None, "layout of each output: one, or a list"),
        repeat_last: bool = default(False, "use the last batch again if no new one was fed"),
        batch_info: bool = default(False, "call the source with a BatchInfo; False: with the number of the iteration"),
        no_copy: bool = default(False, "do not copy arrays; they must not be changed afterwards"),
        blocking: bool = default(False, "wait for data to be fed; False: that is an error"),
        parallel: bool = default(False, "call the source in worker processes, ahead of time"),
        prefetch_queue_depth: int = default(1, "number of batches that the worker processes make ahead"),
    ) -> None:
        self.count = 1 if num_outputs is None else num_outputs
        self.single = num_outputs is None
        self.per_sample = batch is False
        self.no_copy = no_copy
        self._seen: list[Any] = [None] * self.count  # per output: type and number of axes of the epoch
        self._named: list[str | None] = [None] * self.count  # per output: the layout of the epoch, if it has one
        self.dtypes = [None if item is None else types.as_dtype(item) for item in _per_output(dtype, self.count)]
        self.ndims = _per_output(ndim, self.count)
        self.layouts = _per_output(layout, self.count)
        self.fed = FedInput(repeat_last, blocking) if source is None else None
        self.callback: Callback | ParallelCallback | None = None
        if source is not None:
            make = functools.partial(Callback, source, self.per_sample, batch_info, cycle)
            self.callback = ParallelCallback(make, self.per_sample, prefetch_queue_depth) if parallel else make()

    @property
    def name_of_source(self) -> str:
        """The user's callable or iterable, for messages."""
        return function_name(self.callback.source) if self.callback else "feed_input"

    @property
    def repeats(self) -> bool:  # type: ignore[override]
        """True if the code of the source shows that any thread may call it, and once more for the same batch."""
        return isinstance(self.callback, Callback) and self.callback.repeats

    @property
    def wants_workers(self) -> bool:  # type: ignore[override]
        """True if worker processes make the batches."""
        return isinstance(self.callback, ParallelCallback)

    def use_workers(self, pool: Any) -> None:
        """Lets the workers of a pool make the batches from now on."""
        assert isinstance(self.callback, ParallelCallback)
        self.callback.attach(pool)

    @property
    def _in_workers(self) -> bool:
        return isinstance(self.callback, ParallelCallback) and self.callback.attached

    def available(self) -> float:
        """The number of batches that are available without waiting; without a callable, the number of fed batches."""
        return float("inf") if self.fed is None else self.fed.available()

    def feed(self, data: Any, layout: str | None, most: int) -> None:
        """Queues one batch (a copy of it, unless ``no_copy``)."""
        if self.fed is None:
            raise RuntimeError(
                "Cannot use `feed_input` on an external source with a `source` argument specified: it gets its data from "
                f"{self.name_of_source}"
            )
        layout = _own_layout(data) if layout is None else layout
        values = self._batch_of(data, 0)
        _check_size(len(values), most)
        if not self.no_copy:
            values = values.copy() if isinstance(values, np.ndarray) else [sample.copy() for sample in values]
        feed = Feed(
            len(values),
            [values],
            owned=not self.no_copy,
            source_info=sources_of(data),
            layouts=[layout if layout is not None else self.layouts[0]],
        )
        self._check(feed)
        self.fed.put(feed)

    def next(self, request: Request) -> Feed:
        """The next batch."""
        if self.fed is not None:
            return self.fed.get()
        assert self.callback is not None
        if self.per_sample:
            rows, failures = self.callback.samples(request)
            outputs: list[Any] = [[] for _ in range(self.count)]
            for index, row in enumerate(rows):
                if index not in failures:
                    try:
                        samples = (
                            (self._sample(row),)  # without a loop, because it is the usual case
                            if self.single
                            else [self._sample(value) for value in self._split(row, "sample")]
                        )
                    except (IndexError, RuntimeError, TypeError, ValueError) as error:
                        failures[index] = error
                    else:
                        for column, sample in zip(outputs, samples):
                            column.append(sample)
            for index in sorted(failures):  # no step reads these values: the sample is left out or replaced, or fails
                for column in outputs:
                    column.insert(index, column[0] if column else np.zeros((), np.uint8))
            good = [row for index, row in enumerate(rows) if index not in failures] if failures else rows
            columns = [good] if self.single else list(zip(*good))
            known = _sources(columns)
            if known is not None:
                for index in sorted(failures):
                    known.insert(index, "")
            feed = Feed(len(rows), outputs, source_info=known, layouts=self._layouts(columns), failures=failures)
        else:
            parts = self._split(self.callback.batch(request), "batch")
            batches = [self._batch_of(part, output) for output, part in enumerate(parts)]
            sizes = [len(values) for values in batches]
            if len(batches) > 1 and len(set(sizes)) > 1:
                raise RuntimeError(
                    f"the source {self.name_of_source} returned outputs with different batch sizes: {sizes}"
                )
            feed = Feed(sizes[0], batches, source_info=_sources(parts), layouts=self._layouts(parts))
        _check_size(feed.size, request.batch_size)
        self._check(feed)
        feed.owned = self._in_workers  # data from a worker is a copy that nothing else uses
        return feed

    def _layouts(self, parts: Sequence[Any]) -> list[str | None]:
        """The declared layout of each output; that of its data if none is declared."""
        found = [_own_layout(part) if declared is None else declared for part, declared in zip(parts, self.layouts)]
        return found if any(found) else self.layouts

    def close(self) -> None:
        """Releases a thread that waits for data."""
        if self.fed is not None:
            self.fed.close()

    def reset(self) -> None:
        """Starts a new epoch."""
        self._seen = [None] * self.count
        self._named = [None] * self.count
        if self.callback is not None:
            self.callback.reset()

    def state(self) -> Any:
        """The data for ``restore``; a callable that gets the iteration has no state of its own."""
        return None if self.callback is None else self.callback.state()

    def restore(self, state: Any) -> None:
        """Restores a saved state."""
        if self.callback is not None:
            self.callback.restore(state)

    def rewind(self) -> None:
        """Starts data from its beginning, if it was given as a list or generator function and has no ``cycle``."""
        if self.callback is not None:
            self.callback.rewind()

    def unsaveable(self) -> str:
        """The reason why a checkpoint cannot have the position of this source, "" if it can."""
        return "" if self.callback is None else self.callback.unsaveable()

    def seek(self, step: int, epoch: int, batch_size: int, key: int) -> None:
        """Raises an error unless the callable receives the number of the batch or sample that it should return."""
        del step, epoch, batch_size, key
        reason = "" if self.callback is None else self.callback.unseekable()
        if reason:
            raise InvalidState(f"seek() needs sources that can return any batch: {reason}")

    def batches_left(self, state: Any, batch_size: int, ending: Any) -> float | None:
        """The number of batches that the epoch of a saved state still has; None if it is not known."""
        del ending
        known = None if self.callback is None else self.callback.left(state)
        if known is None or known == math.inf:
            return known
        return -(-known // batch_size) if self.per_sample else known

    def _split(self, value: Any, what: str) -> Sequence[Any]:
        if self.single:
            return (value,)
        if isinstance(value, np.ndarray) and value.ndim:
            value = list(value)
        if not isinstance(value, (tuple, list)):
            raise TypeError(
                f"the source {self.name_of_source} must return a tuple or list of {self.count} outputs for each {what}, "
                f"got {type(value).__name__}"
            )
        if len(value) != self.count:
            raise IndexError(
                f"the source {self.name_of_source} returned {len(value)} outputs for a {what}, num_outputs is {self.count}"
            )
        return value

    def _sample(self, value: Any) -> Any:
        if type(value) is np.ndarray:
            array = value
        elif value is None or isinstance(value, dict):
            raise RuntimeError(f"the source {self.name_of_source} returned {value!r} instead of an array")
        elif on_gpu(value):
            return DeviceSample(value)
        else:
            array = as_sample(value)
        if array.dtype.kind not in "OSU":
            return array
        if array.dtype.kind != "O":
            return array.astype(object)
        if isinstance(value, (str, bytes)):
            return array
        raise RuntimeError(f"the source {self.name_of_source} returned {type(value).__name__}, which is not an array")

    def _batch_of(self, value: Any, output: int) -> Any:
        """A batch as a dense array or a list of samples."""
        if type(value) is np.ndarray:  # first, because it is the usual case
            return self._dense(value, output)
        if isinstance(value, TensorListCPU):
            return value.as_array() if value.is_dense_tensor() and len(value) else value.samples()
        if isinstance(value, (list, tuple)):
            return [self._sample(item) for item in value]
        if on_gpu(value):
            whole = value if hasattr(value, "__len__") else value.as_array()  # a TensorGPU
            if not len(whole.shape() if callable(whole.shape) else whole.shape):
                raise RuntimeError(self._single_number(output))
            return [DeviceSample(whole[index]) for index in range(len(whole))]
        if value is None or isinstance(value, (str, bytes, dict, int, float)):
            raise RuntimeError(
                f"output {output} of the source {self.name_of_source} is {type(value).__name__} {value!r}: "
                "a batch is a list of arrays or an array whose first axis is the batch"
            )
        return self._dense(value, output)

    def _dense(self, value: Any, output: int) -> np.ndarray:
        """A batch in one array."""
        array = self._sample(value)
        if array.ndim == 0:
            raise RuntimeError(self._single_number(output))
        return array

    def _single_number(self, output: int) -> str:
        return (
            f"output {output} of the source {self.name_of_source} is a single number: a batch is a list of arrays or an "
            "array whose first axis is the batch (batch=False is for sources of single samples)"
        )

    def _check(self, feed: Feed) -> None:
        """Checks types and numbers of axes against the declaration, or else against the first sample of the epoch.

        If a single sample differs, only that sample fails; if a batch is one array, the whole batch fails.
        """
        layouts = feed.layouts or [None] * self.count
        for output, values in enumerate(feed.outputs):
            if isinstance(values, np.ndarray):
                self._check_batch(output, values)
            else:
                self._check_samples(output, values, feed)
            if self._seen[output] is None:  # no sample of this batch has a supported type
                continue
            ndim, layout = self._seen[output][1], layouts[output]
            if layout and len(layout) != ndim:
                raise RuntimeError(f"The layout '{layout}' cannot describe {ndim}-dimensional data")
            declared = self.layouts[output]
            if declared and layout and layout != declared:
                raise RuntimeError(f"ExternalSource expected data with layout '{declared}' and got '{layout}'")
            before = self._named[output]
            if before and layout != before:
                raise RuntimeError(
                    f"Layout of the data fed to the external source has changed: it was '{before}' in the previous batch and is "
                    f"'{layout or ''}' now (output {output} of {self.name_of_source})"
                )
            self._named[output] = layout

    def _check_batch(self, output: int, values: np.ndarray) -> None:
        types.as_dtype(values.dtype)
        dtype, ndim = self._expected(output, values.dtype, values.ndim - 1)
        if values.dtype != dtype or values.ndim - 1 != ndim:
            raise RuntimeError(self._difference(output, values.dtype, values.ndim - 1, dtype, ndim))

    def _check_samples(self, output: int, values: list[np.ndarray], feed: Feed) -> None:
        failures = {} if feed.failures is None else feed.failures
        feed.failures = failures
        first = self._first_of_a_type(values, failures)
        if first < 0:
            return
        dtype, ndim = self._expected(output, values[first].dtype, values[first].ndim)
        for index, sample in enumerate(values):
            if (sample.dtype is not dtype and sample.dtype != dtype) or sample.ndim != ndim:
                if index in failures:
                    continue
                failures[index] = RuntimeError(self._difference(output, sample.dtype, sample.ndim, dtype, ndim))
                values[index] = values[first]  # a stand-in, so that the batch can be one array

    def _first_of_a_type(self, values: list[np.ndarray], failures: dict[int, Exception]) -> int:
        """The number of the first sample with a supported type, -1 if there is none; the samples before it fail."""
        for index, sample in enumerate(values):
            if index not in failures:
                try:
                    types.as_dtype(sample.dtype)
                except TypeError as error:
                    failures[index] = error
                else:
                    for other in range(index):
                        values[other] = sample
                    return index
        return -1

    def _expected(self, output: int, dtype: np.dtype, ndim: int) -> tuple[np.dtype, int]:
        """The type and number of axes of the samples of an output; if they are not declared, the first samples of an
        epoch determine them.
        """
        if self._seen[output] is None:
            wanted, axes = self.dtypes[output], self.ndims[output]
            self._seen[output] = (dtype if wanted is None else wanted, ndim if axes is None else axes)
        return self._seen[output]

    def _difference(self, output: int, dtype: np.dtype, ndim: int, expected: np.dtype, axes: int) -> str:
        """The error for data whose type or number of axes is not the expected one."""
        where = f" (output {output} of {self.name_of_source})"
        if dtype != expected:
            if self.dtypes[output] is not None:
                return f"ExternalSource expected data of type {expected} and got: {dtype}{where}"
            return (
                "Type of the data fed to the external source has changed: the first sample of this epoch is "
                f"{expected} and this one is {dtype}. All samples must have the same type{where}"
            )
        if self.ndims[output] is not None:
            return f"ExternalSource expected data with {axes} dimensions and got {ndim} dimensions.{where}"
        return (
            "All tensors in a batch must have the same number of dimensions, and all batches of an epoch: the first sample "
            f"has {axes} and this one has {ndim}{where}"
        )


external_source = source(
    "external_source", examples=["fn.external_source(lambda sample: np.full(3, sample.idx_in_epoch), batch=False)"]
)(ExternalSource)
external_source.devices = ("cpu", "gpu")  # with "gpu" the data is copied there
external_source.outputs(lambda args: 1 if args.num_outputs is None else args.num_outputs)
external_source.returns_list(lambda args: args.num_outputs is not None)


@external_source.check
def _(args: Args) -> None:
    if args.num_outputs is not None and args.num_outputs < 1:
        raise ValueError(f"num_outputs must be at least 1, got {args.num_outputs}")
    if args.source is None:
        if args.cycle is not None:
            raise ValueError("cycle needs a source")
        if args.parallel:
            raise ValueError("parallel=True needs a source: feed_input() passes data that exists already")
        if args.num_outputs is not None:
            raise ValueError(
                "The parameter `num_outputs` is only valid when using `source` to provide data. To feed several outputs by "
                "feed_input(), write one fn.external_source(name=...) for each of them"
            )
    else:
        make = functools.partial(Callback, args.source, args.batch is False, args.batch_info, args.cycle)
        (ParallelCallback(make, args.batch is False, args.prefetch_queue_depth) if args.parallel else make())
    if args.prefetch_queue_depth != 1 and not args.parallel:
        raise ValueError(
            "The argument `prefetch_queue_depth` is valid only for parallel external sources: write parallel=True, or leave it "
            "out; how far the whole pipeline runs ahead is an argument of the pipeline"
        )
    if args.prefetch_queue_depth < 1:
        raise ValueError(f"prefetch_queue_depth must be at least 1, got {args.prefetch_queue_depth}")
    count = 1 if args.num_outputs is None else args.num_outputs
    _per_output(args.dtype, count, "dtype")
    for axes, layout in zip(_per_output(args.ndim, count, "ndim"), _per_output(args.layout, count, "layout")):
        if axes is not None and layout and len(layout) != axes:
            raise BadValue(f"ndim={axes} does not fit layout={layout!r}, which has {len(layout)} axes")


def _check_size(size: int, most: int) -> None:
    """Refuses more samples than the pipeline's batches have."""
    if size > most:
        raise RuntimeError(
            "The external source callback returned an unexpected batch size. "
            f"Expected batch_size <= {most}, actual: {size}"
        )


def _sources(parts: Sequence[Any]) -> list[str] | None:
    """The sources of the samples: those of the first output that has any."""
    return next(filter(None, map(sources_of, parts)), None)


def _own_layout(data: Any) -> str | None:
    """The layout that the data itself has: that of a batch, or of a list of tensors."""
    if type(data) is np.ndarray:
        return None
    if isinstance(data, (list, tuple)):
        return common_layout(data)
    return data.layout() if isinstance(data, Metadata) and hasattr(data, "at") else None


def _per_output(value: Any, count: int, name: str = "") -> list[Any]:
    if isinstance(value, (list, tuple)):
        if len(value) > count:
            raise ValueError(f"{name or 'the list'} has {len(value)} entries for {count} outputs")
        return [*value, *[None] * (count - len(value))]
    return [value] * count


@external_source.infer
def _(_specs: Any, args: Any) -> Any:
    from_declared = zip(
        *[
            _per_output(getattr(args, name), 1 if args.num_outputs is None else args.num_outputs)
            for name in ("dtype", "ndim", "layout")
        ]
    )
    return tuple(_declared_spec(dtype, ndim, layout) for dtype, ndim, layout in from_declared)


def _declared_spec(dtype: Any, ndim: int | None, layout: str | None) -> Any:
    from_layout = len(layout) if layout else None
    axes = ndim if ndim is not None else from_layout
    return Spec(None if axes is None else (None,) * axes, dtype, layout)
