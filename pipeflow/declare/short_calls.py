"""A shorter form of the body for repeated calls on arrays, made from the kernel calls that an operator declares.

The calls are recorded for one sample (declare/kernel_calls.py) as a list of functions of Python: most make a call of a compiled
kernel. Extents of inputs are plain numbers, except for operators whose result never depends on them alone, such as decoders: one
record is for files of every length. A kernel that is neither in memory nor on disk is not compiled for this: the body runs, as it
does for a sample that the record does not describe.
"""

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np

from pipeflow.declare.kernel_calls import OPERATIONS, KernelArray, KernelCalls, MakeRows, Number, OfThread
from pipeflow.declare.opdef import OpDef
from pipeflow.declare.parameters import Args
from pipeflow.declare.specs import Spec
from pipeflow.declare.tables import NoTable, require
from pipeflow.kernels import counts
from pipeflow.kernels import cpu as kernels

Step = Callable[[list[Any], list[np.ndarray]], None]  # of the numbers and the memories of a sample
SOME_KEY = 1  # of the first sample


class NumberedMemory:
    """The address of an array: the number of its memory. There is no arithmetic with it."""

    def __init__(self, number: int, known: np.ndarray | None, dtype: np.dtype | None, extents: Any) -> None:
        self.number, self.known, self.dtype, self.extents = number, known, dtype, extents

    def _none(self, _other: Any) -> NoReturn:
        raise NoTable

    __add__ = __radd__ = __sub__ = __floordiv__ = _none


class _Record:
    """A WorkRecord as functions of Python, with the numbers of the first sample."""

    def __init__(self) -> None:
        self.start: list[Any] = []  # the numbers before the first step
        self.steps: list[Step] = []
        self.memories = 0

    def number(self, value: Any, constant: bool = False) -> Number:
        self.start.append(value if constant else None)
        return Number(self, len(self.start) - 1, value)

    def place_of(self, number: Any) -> int:
        return (number if isinstance(number, Number) else self.number(int(number), constant=True)).register

    def take(self, known: np.ndarray | None, dtype: np.dtype | None, extents: Any) -> NumberedMemory:
        self.memories += 1
        return NumberedMemory(self.memories - 1, known, dtype, extents)

    def allocate(self, extents: tuple[Any, ...], dtype: np.dtype | None) -> NumberedMemory:
        """New memory: an array, or bytes if the type is None."""
        empty, kind = np.empty, dtype or np.uint8
        if any(isinstance(extent, Number) for extent in extents):
            places = [self.place_of(extent) for extent in extents]
            self.steps.append(lambda numbers, memory: memory.append(empty([numbers[x] for x in places], kind)))
        else:
            self.steps.append(lambda _numbers, memory: memory.append(empty(extents, kind)))
        return self.take(None, dtype, extents)

    def memory(self, nbytes: Any) -> Any:
        return self.allocate((nbytes,), None)

    def computed(self, operation: str, one: Any, other: Any, value: int | None) -> Number:
        result, function = self.number(value), OPERATIONS[operation]
        to, first, second = result.register, self.place_of(one), self.place_of(other)

        def step(numbers: list[Any], _memory: list[np.ndarray]) -> None:
            numbers[to] = function(numbers[first], numbers[second])

        self.steps.append(step)
        return result

    def check(self, condition: Any, fixed: bool) -> None:
        place = condition.register

        def step(numbers: list[Any], _memory: list[np.ndarray]) -> None:
            if not numbers[place]:
                raise NoTable

        self.steps.append(step)

    def count(self, what: str) -> None:
        self.steps.append(lambda _numbers, _memory: counts.count(what))

    def call(self, kernel: Callable[..., Any], arguments: Sequence[Any], now: bool) -> Sequence[Number]:
        given: list[Any] = [self._example(argument) for argument in arguments]
        found = kernels.jit.kept_code_of(kernel, *given)
        require(found is not None)
        compute, count = found
        moved, arrays, own = [], [], []
        for place, argument in enumerate(arguments):
            if isinstance(argument, Number):
                moved.append((place, argument.register))
            elif isinstance(argument, OfThread):
                own.append((place, argument.find))
            elif isinstance(argument, KernelArray):
                arrays.append((place, *self._view(argument)))
        results = [self.number(None) for _ in range(abs(count))]
        places = [result.register for result in results]

        def step(numbers: list[Any], memory: list[np.ndarray]) -> None:
            actual = given.copy()
            for place, register in moved:
                actual[place] = numbers[register]
            for place, find in own:
                actual[place] = find()
            for place, number, dtype, extents, registers in arrays:
                array = memory[number]
                if dtype is not None:
                    array = array.view(dtype)
                if registers is not None:
                    extents = [numbers[x] for x in registers]
                actual[place] = array if extents is None else array.reshape(extents)
            made = compute(*actual)
            if count < 0:
                numbers[places[0]] = made
            elif count:
                for place, value in zip(places, made):
                    numbers[place] = value

        if now:
            self._now(compute, count, given, arguments, results)
        self.steps.append(step)
        return results

    def _example(self, argument: Any) -> Any:
        """A value with the type of an argument."""
        if isinstance(argument, KernelArray):
            require(argument.window_of is None and isinstance(argument.address, NumberedMemory))
            return np.empty((0,) * len(argument.extents), argument.dtype)
        if isinstance(argument, OfThread):
            return argument.find()
        plain = isinstance(argument, (Number, np.generic, int, float))
        require(plain or (isinstance(argument, np.ndarray) and argument.flags.c_contiguous))
        return 0 if isinstance(argument, Number) else argument

    def _view(self, array: KernelArray) -> tuple[int, np.dtype | None, Any, list[int] | None]:
        """The number of a memory, and its other type and extents if they are not its own."""
        memory, extents = array.address, array.extents
        dtype = None if memory.dtype is not None and memory.dtype == array.dtype else array.dtype  # None equals float64
        same = dtype is None and len(extents) == len(memory.extents)
        if same and all(a is b or (type(a) is type(b) is int and a == b) for a, b in zip(extents, memory.extents)):
            return memory.number, None, None, None
        if any(isinstance(extent, Number) for extent in extents):
            return memory.number, dtype, None, [self.place_of(extent) for extent in extents]
        return memory.number, dtype, extents, None

    def _now(self, compute: Any, count: int, given: list[Any], arguments: Sequence[Any], results: Any) -> None:
        """Makes the call for the first sample."""
        actual = list(given)
        for place, argument in enumerate(arguments):
            if isinstance(argument, Number):
                require(argument.value is not None)
                actual[place] = argument.value
            elif isinstance(argument, KernelArray):
                require(argument.address.known is not None)
                extents = [x.value if isinstance(x, Number) else x for x in argument.extents]
                actual[place] = argument.address.known.view(argument.dtype).reshape(extents)
        made = compute(*actual)
        for result, value in zip(results, (made,) if count < 0 else made):
            result.value = value

    def other(self, *_: Any) -> NoReturn:
        """A call on arrays has no such thing."""
        raise NoTable

    function = ask = other


def short_form(
    op: OpDef, inputs: Sequence[np.ndarray], specs: Sequence[Spec], args: Args, gets_memory: bool
) -> Callable[..., Any] | None:
    """The form of the body that ``@op.ready`` describes; None if the declared calls do not give it. ``gets_memory``: it is
    called with memory for the result.
    """
    if op.calls_hook is None or op.returns_views or not inputs or (op.calls_for is not None and not op.calls_for(args)):
        return None
    record, shared = _Record(), []

    def place(_output: int, extents: tuple[Any, ...], dtype: np.dtype) -> KernelArray:
        if not gets_memory:
            return KernelArray(record.allocate(extents, dtype), extents, dtype)
        assert memory is not None
        return KernelArray(NumberedMemory(memory.number, None, dtype, extents), extents, dtype)

    def share(data: KernelArray, extents: tuple[int, ...], dtype: np.dtype) -> KernelArray:
        shared.append((extents, dtype))
        return data

    def rows(make: MakeRows, numbers: bool) -> Any:
        require(numbers)
        return np.ascontiguousarray(make(args, 1))[0].tolist()

    given = []
    for array in inputs:
        extents = tuple(map(record.number, array.shape)) if op.unsized else array.shape
        address = record.take(array.ravel(), array.dtype, extents if array.ndim == 1 else (array.size,))
        given.append(KernelArray(address, extents, array.dtype))
    lengths = len(record.start)
    memory = record.take(None, None, ()) if gets_memory else None
    key = record.number(SOME_KEY) if op.draws else None
    calls = KernelCalls(record, place, args, lambda: key, rows=rows, share=share)  # type: ignore[arg-type, return-value]
    calls.inputs, calls.layouts = given, [spec.layout or "" for spec in specs]
    try:
        op.calls_hook(calls)
    except NoTable:
        return None
    if shared:
        return _sharing(inputs[0].dtype, *shared[0])
    made = {**calls.outputs, **calls.constants}
    outputs = [made[number] for number in range(len(made))]
    return _running(record, len(inputs), lengths, outputs, gets_memory, op.draws)


def _sharing(given: np.dtype, extents: tuple[int, ...], dtype: np.dtype) -> Callable[..., np.ndarray]:
    """The memory of the input with these extents and this type."""
    if dtype == given:
        return lambda data: data.reshape(extents)
    return lambda data: np.ascontiguousarray(data).reshape(-1).view(dtype).reshape(extents)


def _running(
    record: _Record, count: int, lengths: int, outputs: Sequence[Any], gets_memory: bool, draws: bool
) -> Callable[..., Any]:
    steps, start = record.steps, record.start
    places = [out.address.number if isinstance(out, KernelArray) else out for out in outputs]
    alone = places[0] if len(places) == 1 and type(places[0]) is int else None

    def run(*given: Any) -> Any:
        numbers = start.copy()
        memory = [given[0].ravel()] if count == 1 else [array.ravel() for array in given[:count]]
        if lengths:
            numbers[:lengths] = [extent for array in given[:count] for extent in array.shape]
        if gets_memory:
            memory.append(given[count])
        if draws:
            value = given[-1]
            numbers[lengths] = value if value < 1 << 63 else value - (1 << 64)
        for step in steps:
            step(numbers, memory)
        if alone is not None:
            return memory[alone]
        return tuple([memory[place] if type(place) is int else place.copy() for place in places])

    return run
