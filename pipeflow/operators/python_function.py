"""fn.python_function: the user's own code as an operator, at production speed.

The function gets NumPy arrays, one sample at a time or the whole batch, and its results are checked and copied once, at
once, into the batch: so it may reuse its own buffers. Everything here is shared by the whole family of operators that
call user code: how it is called, how results are checked, how mistakes are reported.
"""

import dataclasses
import functools
import inspect
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Literal

import numpy as np

from pipeflow import seeds, types
from pipeflow.declare import BatchCall, Outputs, Sample, Spec, Traits, WorkerCall, operator
from pipeflow.errors import WrongResult, WrongShape, count_of, function_name
from pipeflow.kernels import cpu as kernels
from pipeflow.tensors import TensorCPU, TensorListCPU, as_sample

Parallel = Literal["serial", "threads", "processes"]

_thread = threading.local()


def thread_generator(key: seeds.Key) -> np.random.Generator:
    """This thread's generator, set to the key; valid until the next call."""
    keyed = getattr(_thread, "keyed", None)
    if keyed is None:
        keyed = _thread.keyed = seeds.KeyedGenerator()
    return keyed.rekey(seeds.generator_states(np.array([key.value], np.uint64))[0])


# Reading a signature takes 8 us, too much for every sample. Weak, so that no function is kept alive by it.
_rng_of: "weakref.WeakKeyDictionary[Callable[..., Any], bool]" = weakref.WeakKeyDictionary()


def wants_rng(function: Callable[..., Any]) -> bool:
    """Whether the function has a parameter ``rng``, to be filled with the sample's own random generator."""
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


def result_array(value: Any, function: Callable[..., Any], output: int) -> np.ndarray:
    """One result as an array, or an error that says what came back."""
    if isinstance(value, np.ndarray) and value.dtype in _SUPPORTED:
        return value
    if value is None:
        raise WrongResult(f"{_named(function, output)} returned None instead of an array")
    if hasattr(value, "__cuda_array_interface__"):
        raise WrongResult(f"{_named(function, output)} returned {_shown(value)} on the GPU in a CPU operator")
    try:
        array = as_sample(value)
    except (TypeError, ValueError, BufferError) as error:
        raise WrongResult(
            f"{_named(function, output)} returned {_shown(value)}, which is not an array: {error}"
        ) from error
    if array.dtype == object and not all(isinstance(item, (str, bytes)) for item in array.flat):
        raise WrongResult(f"{_named(function, output)} returned {_shown(value)}, which is not an array of numbers")
    if array.dtype.kind in "US":
        return array.astype(object)
    try:
        return array.astype(types.as_dtype(array.dtype), copy=False)
    except TypeError as error:
        raise WrongResult(f"{_named(function, output)} returned {_shown(value)}: {error}") from None


_SUPPORTED = types.NUMBERS


def _named(function: Callable[..., Any], output: int) -> str:
    return f"output {output} of {function_name(function)}"


def _shown(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"an array of {value.dtype} {value.shape}"
    text = repr(value)
    return f"{type(value).__name__} {text[:60]}{'...' if len(text) > 60 else ''}"


def split_outputs(result: Any, function: Callable[..., Any], num_outputs: int, declared: str = "") -> Sequence[Any]:
    """The results of one call, one entry an output; ``declared`` says for messages where their number stands."""
    declared = declared or f"num_outputs={num_outputs}"
    if num_outputs == 0:
        if result is not None:
            raise WrongResult(
                f"{function_name(function)} is declared with {declared} and returned {_shown(result)}; "
                "return nothing, or declare the outputs"
            )
        return ()
    if num_outputs == 1:
        lone = isinstance(result, (tuple, list)) and len(result) == 1 and not isinstance(result[0], (int, float))
        if isinstance(result, tuple) and len(result) != 1:
            raise WrongShape(
                f"{function_name(function)} returned {count_of(len(result), 'output')}, declared is {declared}"
            )
        return (result[0],) if lone or isinstance(result, tuple) else (result,)
    if not isinstance(result, (tuple, list)):
        raise WrongResult(
            f"{function_name(function)} is declared with {declared} and must return a tuple or list of "
            f"{num_outputs}, got {_shown(result)}"
        )
    if len(result) != num_outputs:
        raise WrongShape(
            f"{function_name(function)} returned {count_of(len(result), 'output')}, declared is {declared}"
        )
    return result


class Results:
    """What a function may return: how many outputs and, where it promised them, their names, types, shapes and layouts."""

    def __init__(
        self, function: Callable[..., Any], num_outputs: int, promised: Outputs | None = None, argument: str = "outputs"
    ) -> None:
        self.function = function
        self.declared = ""
        if promised is not None:
            count = len(promised.specs)
            self.declared = f"{argument} of {count_of(count, 'type')}" if count else f"{argument}=[]"
        self.count = num_outputs if promised is None else len(promised.specs)
        self.names = promised.names if promised is not None else ()
        self.specs = promised.specs if promised is not None else ()

    def split(self, result: Any) -> Sequence[Any]:
        """One entry an output."""
        if self.names:
            values = _by_name(result)
            if values is not None:
                return self._in_order(values)
        return split_outputs(result, self.function, self.count, self.declared)

    def array(self, value: Any, output: int) -> np.ndarray:
        """One output as an array that is as promised."""
        if not self.specs:
            return result_array(value, self.function, output)
        spec = self.specs[output]
        if spec.dtype is not None and not hasattr(value, "dtype"):
            value = _as_promised(value, spec.dtype)
        array = result_array(value, self.function, output)
        self.check(array.shape, array.dtype, output)
        return array

    def check(self, shape: tuple[int, ...], dtype: np.dtype, output: int) -> None:
        """Compares one output with its promise; the message shows both."""
        spec = self.specs[output]
        fits = spec.dtype is None or dtype == spec.dtype
        if fits and spec.shape is not None:
            fits = len(shape) == len(spec.shape) and all(want in (None, have) for want, have in zip(spec.shape, shape))
        if fits and spec.shape is None and spec.layout:
            fits = len(shape) == len(spec.layout)
        if not fits:
            wrong_type = spec.dtype is not None and dtype != spec.dtype
            kind = TypeError if wrong_type else ValueError
            name = f"output {self.names[output]!r}" if self.names else f"output {output}"
            raise kind(
                f"{name} of {function_name(self.function)} is declared as {spec} and the function returned "
                f"{Spec(shape, dtype)}"
            )

    def check_batch(self, values: Any, output: int) -> Any:
        """Compares an output of a function that gets whole batches with its promise."""
        if self.specs and len(values):
            if isinstance(values, np.ndarray):
                self.check(values.shape[1:], values.dtype, output)
            else:
                for sample in values:
                    self.check(sample.shape, sample.dtype, output)
        return values

    def _in_order(self, values: Mapping[str, Any]) -> list[Any]:
        missing = [name for name in self.names if name not in values]
        unknown = [name for name in values if name not in self.names]
        if missing or unknown:
            raise WrongShape(
                f"{function_name(self.function)} returned the fields {', '.join(map(str, values))}; declared are "
                f"{', '.join(self.names)}"
            )
        return [values[name] for name in self.names]


def _by_name(result: Any) -> Mapping[str, Any] | None:
    """The fields of a dict, dataclass or named tuple; None for anything else."""
    if isinstance(result, Mapping):
        return result
    if dataclasses.is_dataclass(result) and not isinstance(result, type):
        return {field.name: getattr(result, field.name) for field in dataclasses.fields(result)}
    if isinstance(result, tuple) and hasattr(result, "_fields"):
        return dict(zip(result._fields, result))
    return None


def _as_promised(value: Any, dtype: np.dtype) -> Any:
    """Python numbers take the promised type where it can hold their kind: an int is a float, a float no int."""
    if isinstance(value, (bool, int, float, list, tuple)) and dtype.kind != "O":
        array = np.asarray(value)
        if array.dtype.kind in "biuf" and np.can_cast(array.dtype, dtype, "same_kind"):
            return array.astype(dtype)
        if array.dtype.kind == "i" and dtype.kind == "u" and array.size and array.min() >= 0:
            return array.astype(dtype)
    return value


def check_like_first(
    array: np.ndarray, first: np.ndarray, function: Callable[..., Any], output: int, sample: int
) -> None:
    """One batch has one type and one number of axes."""
    if array.dtype != first.dtype:
        raise WrongResult(
            f"{_named(function, output)} has different types in one batch: {first.dtype} for the first sample and "
            f"{array.dtype} for sample {sample}"
        )
    if array.ndim != first.ndim:
        raise WrongShape(
            f"{_named(function, output)} has different numbers of axes in one batch: {first.shape} for the first sample "
            f"and {array.shape} for sample {sample}"
        )


def iterate(values: Any) -> Iterable[np.ndarray]:
    """The samples of an input; of a dense array these are views made on the way."""
    if isinstance(values, np.ndarray) and values.ndim == 1:
        return [values[index, ...] for index in range(len(values))]  # plain iteration would give NumPy scalars
    return values


class SampleCalls:
    """Calls a function for each sample of a batch, in order, and gathers what it returns."""

    def __init__(self, function: Callable[..., Any], results: Results, rng: bool) -> None:
        self.function = function
        self.results = results
        self.num_outputs = results.count
        self.rng = rng
        self._generator = seeds.KeyedGenerator() if rng else None

    def __call__(self, inputs: Sequence[Any], batch: BatchCall) -> list[Any]:
        results: Iterable[Any]
        if self.rng:
            rows = zip(*map(iterate, inputs)) if inputs else ((),) * batch.size
            results = self._with_rng(rows, batch.keys)
        elif inputs:
            results = map(self.function, *map(iterate, inputs))
        else:
            results = (self.function() for _ in range(batch.size))
        if not batch.size:
            return [[] for _ in range(self.num_outputs)]
        if self.num_outputs == 1:
            return [self._collect_one(iter(results), batch)]
        return self._collect(results, batch)

    def _with_rng(self, rows: Iterable[Any], keys: np.ndarray) -> Iterable[Any]:
        assert self._generator is not None
        function, rekey = self.function, self._generator.rekey
        for row, state in zip(rows, seeds.generator_states(keys)):
            yield function(*row, rng=rekey(state))

    def _collect_one(self, results: Iterator[Any], batch: BatchCall) -> Any:
        """The common case, written so that a tiny function costs a fraction of a microsecond beyond itself."""
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
                            shape = ()  # no sample with axes has it: from here on every one takes this branch
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


def _is_batch(value: Any, size: int) -> bool:
    """Whether a value can be the samples of a whole batch."""
    if isinstance(value, np.ndarray) and not value.ndim:
        return False
    return isinstance(value, (list, tuple, np.ndarray, TensorListCPU)) and len(value) == size


def call_batch(
    function: Callable[..., Any], results: Results, inputs: Sequence[Any], batch: BatchCall, rng: bool
) -> list[Any]:
    """Calls a function once for the whole batch: lists of arrays in, one entry an output out."""
    named = {"rng": [seeds.Key(key) for key in batch.keys.tolist()]} if rng else {}
    stacked = getattr(function, "stacked", None)  # of functions that want each input as one array
    if stacked is None:
        arguments: list[Any] = [list(iterate(values)) for values in inputs]
    else:
        arguments = [stacked(values, position, batch) for position, values in enumerate(inputs)]
    result = function(*arguments, **named)
    by_name = _by_name(result) if results.names else None
    if by_name is not None:
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


def call_sample(
    function: Callable[..., Any], results: Results, inputs: Sequence[np.ndarray], named: Mapping[str, Any]
) -> Any:
    """Calls a function for one sample: an array, or a tuple of one array an output."""
    values = results.split(function(*inputs, **named))
    arrays = tuple([results.array(value, output) for output, value in enumerate(values)])
    return arrays[0] if results.count == 1 else arrays


def gather_output(value: Any, function: Callable[..., Any], output: int, batch: BatchCall) -> Any:
    """One output of a batch function: a list of samples, an array whose first axis is the batch, or a batch."""
    size = batch.size
    if isinstance(value, TensorListCPU):
        samples = value.samples()
    elif isinstance(value, (list, tuple)):
        # one look at the types of all; only where something is no plain array are they looked at one by one
        plain = set(map(type, value)) == {np.ndarray}
        samples = value if plain else [result_array(item, function, output) for item in value]  # type: ignore[assignment]
    elif value is None:
        raise WrongResult(f"{_named(function, output)} returned None instead of a batch")
    else:
        return _dense_output(value, function, output, batch)
    if len(samples) != size:
        raise WrongShape(f"{_named(function, output)} has {count_of(len(samples), 'sample')} in a batch of {size}")
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
            f"{_named(function, output)} returned {_shown(value)} instead of a list or array of {batch.size} samples"
        )
    if len(whole) != batch.size:
        raise WrongShape(f"{_named(function, output)} has {count_of(len(whole), 'sample')} in a batch of {batch.size}")
    if whole.dtype == object or not batch.size:
        return whole.copy()
    dense = batch.collector(output).start(whole[0, ...])
    np.copyto(dense, whole)
    return dense


@operator(
    "python_function",
    dtypes="any",
    examples=["fn.python_function(image, function=lambda x: x[::-1])"],
    takes_seed=True,
    pure=False,
    gpu="functions",
)
def python_function(
    *inputs: Sample,
    function: Callable[..., Any],
    num_outputs: int = 1,
    batch_processing: bool = False,
    output_layouts: Any = None,
    outputs: Outputs | None = None,
    parallel: Parallel = "serial",
    timeout: float | None = None,
    jit: bool = False,
    key: Any,
) -> Sample:
    """Calls a Python function with NumPy arrays, for each sample or (``batch_processing``) once for the batch.

    The function returns an array, or a tuple of ``num_outputs`` arrays; with ``num_outputs=0`` nothing. A parameter named
    ``rng`` receives a NumPy generator keyed to the sample. Calls are made one after another in the order of the samples;
    ``parallel="threads"`` is for functions that may run side by side, ``"processes"`` runs them in worker processes. A
    call that takes longer than ``timeout`` seconds is an error that names the function and its line. ``outputs`` promises
    what comes back, as ``pipeflow.Spec(dtype, shape, layout)`` or a list or dict of them: it is checked at every call,
    later operators know it when the pipeline is built, and the names of a dict become names of the outputs. ``jit=True``
    has Numba compile the function for the types of the first sample; it then runs on all threads.

    With ``device="gpu"`` the function gets arrays of CuPy and returns such; they work on the pipeline's stream.
    """
    del output_layouts, batch_processing, parallel, timeout
    named = {"rng": thread_generator(key)} if wants_rng(function) else {}
    called = kernels.user_functions.jitted(function) if jit else function
    return call_sample(called, Results(function, num_outputs, outputs), inputs, named)


@python_function.batch
def _(
    *inputs: Any,
    function: Callable[..., Any],
    num_outputs: int,
    batch_processing: bool,
    outputs: Outputs | None,
    batch: BatchCall,
    **_: Any,
) -> list[Any]:
    rng = wants_rng(function)
    results = Results(function, num_outputs, outputs)
    if batch_processing:
        return call_batch(function, results, inputs, batch, rng)
    return SampleCalls(function, results, rng)(inputs, batch)


@python_function.traits
def _(args: Any) -> Traits:
    return call_traits("threads" if args.jit else args.parallel, args.batch_processing)


def call_traits(parallel: str, batch_processing: bool = False, pure: bool = False) -> Traits:
    """Where the calls of a function run: one after another, on all threads, or in worker processes."""
    if parallel == "threads" and not batch_processing:
        return Traits("sample", pure=pure, user_code=True)
    return Traits(
        "batch",
        ordered=parallel == "serial",
        pure=pure,
        user_code=True,
        rows=not batch_processing,
        processes=parallel == "processes",
    )


def check_timeout(timeout: float | None) -> None:
    """Refuses a limit that no call can keep."""
    if timeout is not None and not timeout > 0:
        raise ValueError(f"timeout must be a positive number of seconds, got {timeout}")


class SampleInWorker:
    """The call of a function for one sample, as it runs in a worker process."""

    def __init__(self, function: Callable[..., Any], results: Results, rng: bool) -> None:
        self.function = function
        self.results = results
        self.rng = rng

    def __call__(self, key: int, *inputs: np.ndarray) -> tuple[np.ndarray, ...]:
        named = {"rng": thread_generator(seeds.Key(key))} if self.rng else {}
        values = self.results.split(self.function(*inputs, **named))
        return tuple([self.results.array(value, output) for output, value in enumerate(values)])


class BatchInWorker:
    """The call of a function for a whole batch, as it runs in a worker process."""

    def __init__(self, function: Callable[..., Any], results: Results) -> None:
        self.function = function
        self.results = results

    def __call__(self, rows: Sequence[tuple[Any, ...]]) -> list[Any]:
        keys, *inputs = zip(*rows)
        batch = BatchCall(len(rows), lambda: np.array(keys, np.uint64), [""] * len(inputs), _fresh_bytes)
        outputs = call_batch(self.function, self.results, inputs, batch, wants_rng(self.function))
        return [values if isinstance(values, np.ndarray) else list(values) for values in outputs]


def _fresh_bytes(nbytes: int) -> np.ndarray:
    memory = np.empty(nbytes + 64, np.uint8)
    return memory[-memory.__array_interface__["data"][0] % 64 :][:nbytes]


def call_in_worker(function: Callable[..., Any], results: Results, batch_processing: bool = False) -> WorkerCall:
    """What a worker process calls for a function."""
    name = function_name(function)
    if batch_processing:
        return WorkerCall(BatchInWorker(function, results), name, whole=True)
    return WorkerCall(SampleInWorker(function, results, wants_rng(function)), name)


@python_function.worker
def _(args: Any) -> WorkerCall:
    results = Results(args.function, args.num_outputs, args.outputs)
    return call_in_worker(args.function, results, args.batch_processing)


def declare_outputs(op: Any) -> None:
    """What ``num_outputs``, ``output_layouts`` and, where the operator has it, ``outputs`` say about the results."""
    op.outputs(count_outputs)
    op.returns_names(lambda args: promised(args).names if promised(args) else ())  # type: ignore[union-attr]
    op.infer(infer_outputs)
    op.check(check_outputs)


def promised(args: Any) -> Outputs | None:
    """The promise of ``outputs``, if any."""
    return getattr(args, "outputs", None)


def count_outputs(args: Any) -> int:
    """The number of outputs."""
    outputs = promised(args)
    return args.num_outputs if outputs is None else len(outputs.specs)


def check_outputs(args: Any) -> None:
    """Checks the arguments about outputs against each other."""
    if args.num_outputs < 0 or args.num_outputs > 256:
        raise ValueError(f"num_outputs must lie between 0 and 256, got {args.num_outputs}")
    if getattr(args, "jit", False) and (
        args.batch_processing or args.parallel == "processes" or args.timeout is not None
    ):
        raise ValueError(
            "jit=True compiles a function of single samples that runs on the pipeline's threads: "
            'it goes with neither batch_processing, parallel="processes" nor timeout'
        )
    if getattr(args, "jit", False):
        check_compilable(args.function)
    check_timeout(getattr(args, "timeout", None))
    outputs = promised(args)
    if outputs is not None:
        outputs.check_count(args.num_outputs)
    infer_outputs((), args)


def check_compilable(function: Callable[..., Any]) -> None:
    """Refuses what is no plain function: Numba cannot look into objects."""
    inner = function
    while isinstance(inner, functools.partial):
        inner = inner.func
    if not inspect.isfunction(inner) and not hasattr(inner, "py_func"):
        raise TypeError(
            f"jit=True compiles functions written with def or lambda, and {function_name(function)} is a "
            f"{type(inner).__name__}: write a function that calls it, and give it what it needs as inputs"
        )


def layouts(args: Any) -> list[str]:
    """The layouts of all outputs: one string is for every output, a list may be shorter than ``num_outputs``."""
    given, count = args.output_layouts, count_outputs(args)
    if given is None:
        return [""] * count
    if isinstance(given, str):
        return [given] * count
    if not isinstance(given, (list, tuple)):
        raise TypeError(f"output_layouts must be a string or a list of strings, got {type(given).__name__} {given!r}")
    if len(given) > count:
        raise ValueError(f"output_layouts has {len(given)} entries for {count_of(count, 'output')}")
    checked = [types.check_layout(layout, "an entry of output_layouts") for layout in given]
    return checked + [""] * (count - len(given))


def infer_outputs(_specs: tuple[Spec, ...], args: Any) -> tuple[Spec, ...]:
    """The Specs of the outputs."""
    outputs, named = promised(args), layouts(args)
    if outputs is None:
        return tuple(Spec(None, None, layout) for layout in named)
    specs = []
    for spec, layout in zip(outputs.specs, named):
        if layout and spec.layout and layout != spec.layout:
            raise ValueError(f"outputs says layout {spec.layout!r} and output_layouts {layout!r}")
        layout = layout or spec.layout or ""
        shape = (None,) * len(layout) if spec.shape is None and layout else spec.shape
        specs.append(Spec(shape, spec.dtype, layout))
    return tuple(specs)


declare_outputs(python_function)
