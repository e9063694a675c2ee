"""Calls a user's function: for each sample or once for the batch, one after another or on all threads."""

import inspect
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Literal

import numpy as np

from pipeflow import seeds
from pipeflow.declare import BatchCall, Traits, parameters
from pipeflow.errors import WrongResult, WrongShape, count_of
from pipeflow.operators.functions.results import (
    Results,
    by_name,
    check_like_first,
    output_of,
    result_array,
    shown,
    split_outputs,
)
from pipeflow.tensors import TensorCPU, TensorListCPU

PARALLEL = parameters(
    parallel=(
        Literal["serial", "threads", "processes"],
        "serial",
        "where the calls run: `serial` one after another in the order of the samples, `threads` on several threads at once, "
        "`processes` in worker processes",
    ),
    timeout=(float, None, "longest time of a call, in seconds; a longer call is an error; default: no limit"),
)
PARALLEL_OR_AUTO = PARALLEL | parameters(
    parallel=(
        Literal["serial", "threads", "processes", "auto"],
        "serial",
        "where the calls run: `serial` one after another in the order of the samples, `threads` on several threads at once, "
        "`processes` in worker processes, `auto` on threads if the code of the function shows that it keeps no state, else "
        "`serial`",
    )
)
BATCH_PROCESSING = parameters(
    batch_processing=(bool, False, "call the function once for the batch, with a list of arrays for each input")
)


def call_traits(parallel: str, batch_processing: bool = False, pure: bool = False) -> Traits:
    """Where the calls of a function run: one after another, on all threads, or in worker processes."""
    if parallel == "threads" and not batch_processing:
        return Traits("sample", pure=pure, user_code=True, meets=True)
    return Traits(
        "batch",
        ordered=parallel == "serial",
        pure=pure,
        user_code=True,
        rows=not batch_processing,
        processes=parallel == "processes",
    )


_thread = threading.local()


def thread_generator(key: seeds.Key) -> "np.random.Generator":
    """This thread's generator, set to the key; valid until the next call."""
    keyed = getattr(_thread, "keyed", None)
    if keyed is None:
        keyed = _thread.keyed = seeds.KeyedGenerator()
    return keyed.rekey(key.state())


# To read a signature takes 8 us, too long for every sample. The references are weak, so that no function is kept alive.
_rng_of: "weakref.WeakKeyDictionary[Callable[..., Any], bool]" = weakref.WeakKeyDictionary()


def wants_rng(function: Callable[..., Any]) -> bool:
    """True if the function has a parameter ``rng``, which receives the random generator of the sample."""
    function = getattr(function, "py_func", function)  # of a function that Numba has compiled
    try:
        known = _rng_of.get(function)
        if known is None:
            known = _rng_of[function] = _has_rng(function)
        return known
    except TypeError:  # not hashable, or cannot be referred to weakly
        return _has_rng(function)


def _has_rng(function: Callable[..., Any]) -> bool:
    try:
        parameter = inspect.signature(function).parameters.get("rng")
    except (TypeError, ValueError):  # builtins and some callables of C have no signature
        return False
    return parameter is not None and parameter.kind is not parameter.POSITIONAL_ONLY


def call_sample(
    function: Callable[..., Any], results: Results, inputs: Sequence[np.ndarray], named: Mapping[str, Any]
) -> Any:
    """Calls a function for one sample; returns an array, or a tuple with one array for each output."""
    values = results.split(function(*inputs, **named))
    arrays = tuple([results.array(value, output) for output, value in enumerate(values)])
    return arrays[0] if results.count == 1 else arrays


def sample_caller(
    function: Callable[..., Any], results: Results, rng: bool
) -> Callable[[Sequence[np.ndarray], int], tuple[np.ndarray, ...]]:
    """``(inputs, key) -> outputs``: the same as ``call_sample``, for many samples."""
    # A result with the type of an accepted one needs no check; the shape is compared only if it is declared.
    single, declared = results.count == 1, bool(results.specs)
    ndarray, dtype, shape = np.ndarray, None, None

    def call(inputs: Sequence[np.ndarray], key: int) -> tuple[np.ndarray, ...]:
        nonlocal dtype, shape
        result = function(*inputs, rng=thread_generator(seeds.Key(key))) if rng else function(*inputs)
        if single and type(result) is ndarray and result.dtype is dtype and (not declared or result.shape == shape):
            return (result,)
        values = results.split(result)
        arrays = tuple([results.array(value, output) for output, value in enumerate(values)])
        if single and type(result) is ndarray and arrays[0] is result:
            dtype, shape = result.dtype, result.shape
        return arrays

    return call


class SampleCalls:
    """Calls a function for each sample of a batch, in order, and collects the results."""

    def __init__(self, function: Callable[..., Any], results: Results, rng: bool) -> None:
        self.function = function
        self.results = results
        self.num_outputs = results.count
        self.rng = rng
        self._generator = seeds.KeyedGenerator() if rng else None

    def __call__(self, inputs: Sequence[Any], batch: BatchCall) -> list[Any]:
        results: Iterable[Any]
        function = self.function if batch.timed is None else batch.timed(self.function)
        if self.rng:
            rows = zip(*map(iterate, inputs)) if inputs else ((),) * batch.size
            results = self._with_rng(function, rows, batch.keys)
        elif inputs:
            results = map(function, *map(iterate, inputs))
        else:
            results = (function() for _ in range(batch.size))
        if not batch.size:
            return [[] for _ in range(self.num_outputs)]
        if self.num_outputs == 1:
            return [self._collect_one(iter(results), batch)]
        return self._collect(results, batch)

    def _with_rng(self, function: Callable[..., Any], rows: Iterable[Any], keys: np.ndarray) -> Iterable[Any]:
        assert self._generator is not None
        rekey = self._generator.rekey
        for row, state in zip(rows, seeds.generator_states(keys)):
            yield function(*row, rng=rekey(state))

    def _collect_one(self, results: Iterator[Any], batch: BatchCall) -> Any:
        """The common case, one output. It is written so that a call costs a fraction of a microsecond more than the function
        itself.
        """
        function = self.function
        ndarray = np.ndarray
        collector = batch.collector(0)
        index = 0
        try:
            first = self._checked(next(results))
            if first.dtype.hasobject:
                return self._collect(chain([first], results), batch)[0]
            dense = collector.start(first)
            dense[0] = first
            dtype, shape = first.dtype, first.shape
            index = 1
            for result in results:
                if type(result) is not ndarray or result.dtype is not dtype or result.shape != shape:
                    # an equal dtype may be another object, and results may be anything
                    result = self._checked(result)
                    check_like_first(result, first, function, 0, index)
                    if result.shape != shape:
                        if collector.dense is not None:
                            collector.spill(index)
                            shape = ()  # matches no sample with axes: from here on every sample takes this branch
                        collector.put(result)
                        index += 1
                        continue
                dense[index] = result
                index += 1
        except BaseException:
            batch.current = index
            raise
        return collector.values()

    def _checked(self, result: Any) -> np.ndarray:
        return self.results.array(self.results.split(result)[0], 0)

    def _collect(self, results: Iterable[Any], batch: BatchCall) -> list[Any]:
        collectors = [batch.collector(output) for output in range(self.num_outputs)]
        if not collectors:
            return self._run_for_effect(results, batch)
        firsts: list[np.ndarray] = []
        batch.current = 0
        for index, result in enumerate(results):
            batch.current = index
            values = self.results.split(result)
            for output, (value, collector) in enumerate(zip(values, collectors)):
                array = self.results.array(value, output)
                if index == 0:
                    firsts.append(array)
                    collector.start(array)
                    collector.store(0, array)
                    continue
                first = firsts[output]
                if array.dtype is not first.dtype or array.ndim != first.ndim:
                    check_like_first(array, first, self.function, output, index)
                if collector.dense is not None and array.shape == first.shape:
                    collector.store(index, array)
                    continue
                if collector.dense is not None:
                    collector.spill(index)
                collector.put(array)
            batch.current = index + 1  # the next call is the one that may fail
        batch.current = -1
        return [collector.values() for collector in collectors]

    def _run_for_effect(self, results: Iterable[Any], batch: BatchCall) -> list[Any]:
        batch.current = 0
        for index, result in enumerate(results):
            batch.current = index
            self.results.split(result)
            batch.current = index + 1
        return []


def iterate(values: Any) -> Iterable[np.ndarray]:
    """The samples of an input; for a dense array they are views."""
    if isinstance(values, np.ndarray) and values.ndim == 1:
        return [values[index, ...] for index in range(len(values))]  # plain iteration would give NumPy scalars
    return values


def call_batch(
    function: Callable[..., Any], results: Results, inputs: Sequence[Any], batch: BatchCall, rng: bool
) -> list[Any]:
    """Calls a function once for the whole batch, with lists of arrays; returns one entry for each output."""
    named = {"rng": [seeds.Key(key) for key in batch.keys.tolist()]} if rng else {}
    stacked = getattr(function, "stacked", None)  # of functions that want each input as one array
    if stacked is None:
        arguments: list[Any] = [list(iterate(values)) for values in inputs]
    else:
        arguments = [stacked(values, position, batch) for position, values in enumerate(inputs)]
    result = function(*arguments, **named)
    fields = by_name(result) if results.names else None
    if fields is not None:
        outputs: Sequence[Any] = results.split(result)
    elif results.count == 1:
        outputs = (result,)
        lone = isinstance(result, (tuple, list)) and len(result) == 1 and batch.size != 1
        if lone and _is_batch(result[0], batch.size):
            outputs = result  # the only output, in a list of outputs
    else:
        outputs = split_outputs(result, function, results.count, results.declared)
    return [
        results.check_batch(gather_output(value, function, output, batch), output)
        for output, value in enumerate(outputs)
    ]


def _is_batch(value: Any, size: int) -> bool:
    """True if a value can be the samples of a whole batch."""
    if isinstance(value, np.ndarray) and not value.ndim:
        return False
    return isinstance(value, (list, tuple, np.ndarray, TensorListCPU)) and len(value) == size


def gather_output(value: Any, function: Callable[..., Any], output: int, batch: BatchCall) -> Any:
    """One output of a batch function: a list of samples, an array whose first axis is the batch, or a batch."""
    size = batch.size
    if isinstance(value, TensorListCPU):
        samples = value.samples()
    elif isinstance(value, (list, tuple)):
        # the types of all are compared at once; only if one is no plain array, they are checked one by one
        plain = set(map(type, value)) == {np.ndarray}
        samples = value if plain else [result_array(item, function, output) for item in value]  # type: ignore[assignment]
    elif value is None:
        raise WrongResult(f"{output_of(function, output)} returned None instead of a batch")
    else:
        return _dense_output(value, function, output, batch)
    if len(samples) != size:
        raise WrongShape(f"{output_of(function, output)} has {count_of(len(samples), 'sample')} in a batch of {size}")
    if not size:
        return []
    first = result_array(samples[0], function, output)
    shapes = {sample.shape for sample in samples}
    if (
        len(shapes) == 1
        and len({sample.dtype for sample in samples}) == 1
        and first.ndim
        and first.dtype is samples[0].dtype
    ):
        dense = batch.collector(output).start(first)
        if dense.dtype != object and first.size:
            np.concatenate(samples, out=dense.reshape((size * first.shape[0], *first.shape[1:])))
            return dense
    samples = [result_array(sample, function, output) for sample in samples]
    for index, sample in enumerate(samples):
        check_like_first(sample, first, function, output, index)
    return batch.collector(output).gather(samples)


def _dense_output(value: Any, function: Callable[..., Any], output: int, batch: BatchCall) -> Any:
    """An output that came as one array for the whole batch."""
    whole = value.array if isinstance(value, TensorCPU) else result_array(value, function, output)
    if whole.ndim == 0:
        raise WrongResult(
            f"{output_of(function, output)} returned {shown(value)} instead of a list or array of {batch.size} samples"
        )
    if len(whole) != batch.size:
        raise WrongShape(
            f"{output_of(function, output)} has {count_of(len(whole), 'sample')} in a batch of {batch.size}"
        )
    if whole.dtype == object or not batch.size:
        return whole.copy()
    dense = batch.collector(output).start(whole[0, ...])
    np.copyto(dense, whole)
    return dense
