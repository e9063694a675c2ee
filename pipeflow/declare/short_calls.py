"""A shorter form of the body for repeated calls on arrays, made from the kernel calls that an operator declares.

The calls are recorded for one sample (declare/kernel_calls.py) as the lines of a function of Python: most make a call of a
compiled kernel. Extents of inputs are plain numbers, except for operators whose result never depends on them alone, such as
decoders: one record is for files of every length. For a sample that the record does not describe the body runs, and also while a
kernel is neither in memory nor on disk: no call waits for the compiler. If the calls go on, a thread compiles it.
"""

from collections.abc import Callable, Sequence
from math import prod
from re import findall
from typing import Any, NoReturn

import numpy as np

from pipeflow.declare.kernel_calls import KernelArray, KernelCalls, MakeRows, NotReady, Number, OfThread
from pipeflow.declare.opdef import OpDef
from pipeflow.declare.parameters import Args
from pipeflow.declare.specs import Spec
from pipeflow.declare.tables import NoTable, require
from pipeflow.declare.written import function
from pipeflow.kernels import counts
from pipeflow.kernels import cpu as kernels

UNCHANGED = {("+", "0"), ("-", "0"), ("//", "1")}  # operations that return the other number
SOME_KEY = 1  # of the first sample
CALLS = 64  # of the body, before a thread loads the kernels of the short form, and between two looks whether it has


class NumberedMemory:
    """The address of an array: the number of its memory, and the place in bytes where the array begins in it."""

    def __init__(
        self, number: int, known: np.ndarray | None, dtype: np.dtype | None, extents: Any, begin: Any = None
    ) -> None:
        self.number, self.known, self.dtype, self.extents, self.begin = number, known, dtype, extents, begin

    def __add__(self, begin: Any) -> "NumberedMemory":
        require(self.begin is None and (self.dtype is None or self.dtype.itemsize == 1))
        return NumberedMemory(self.number, None, None, (), begin)

    def _none(self, _other: Any) -> NoReturn:
        raise NoTable

    __radd__ = __sub__ = __floordiv__ = _none


class _Record:
    """A WorkRecord as lines of Python, with the numbers of the first sample: in loops over steps and their arguments, a call took
    1 us more. Number i is `n<i>` in the lines, memory i is `m<i>`, and other objects have names in ``names``.

    Nothing is computed twice: a number, a check and a view of memory that are needed again are those of the earlier line.
    """

    def __init__(self) -> None:
        self.numbers = 0
        self.lines: list[str] = []
        self.known: dict[str, Number] = {}  # by the text that computes them
        self.checked: set[str] = set()
        self.views: dict[tuple[int, str], str] = {}  # names by the number of the memory and the text of the view
        self.untyped: dict[int, int] = {}  # the lines that allocate memory whose type is not known yet
        self.shapes: dict[int, tuple[int, ...]] = {}  # of the inputs, by the number of their memory
        self.names: dict[str, Any] = {"empty": np.empty, "NoTable": NoTable, "count": counts.count}
        self.memories = 0

    def number(self, value: Any) -> Number:
        self.numbers += 1
        return Number(self, self.numbers - 1, value)

    def text_of(self, number: Any) -> str:
        return f"n{number.register}" if isinstance(number, Number) else repr(int(number))

    def tuple_of(self, numbers: Sequence[Any]) -> str:
        return f"({''.join(f'{self.text_of(number)}, ' for number in numbers)})"

    def name_of(self, value: Any) -> str:
        name = f"x{len(self.names)}"
        self.names[name] = value
        return name

    def take(self, known: np.ndarray | None, dtype: np.dtype | None, extents: Any) -> NumberedMemory:
        self.memories += 1
        return NumberedMemory(self.memories - 1, known, dtype, extents)

    def allocate(self, extents: tuple[Any, ...], dtype: np.dtype | None) -> NumberedMemory:
        """New memory: an array, or bytes if the type is None."""
        made = self.take(None, dtype, extents)
        if dtype is None:
            self.untyped[made.number] = len(self.lines)
        self.lines.append(self._allocation(made.number, extents, dtype or np.dtype(np.uint8)))
        return made

    def _allocation(self, number: int, extents: tuple[Any, ...], dtype: np.dtype) -> str:
        return f"m{number} = empty({self.tuple_of(extents)}, {self.name_of(dtype)})"

    def memory(self, nbytes: Any) -> Any:
        return self.allocate((nbytes,), None)

    def computed(self, operation: str, one: Any, other: Any, value: int | None) -> Number:
        first, second = self.text_of(one), self.text_of(other)
        if isinstance(one, Number) and ((operation, second) in UNCHANGED or (operation == "max" and first == second)):
            return one
        text = f"max({first}, {second})" if operation == "max" else f"{first} {operation} {second}"
        if text not in self.known:
            self.known[text] = self.number(value)
            self.lines.append(f"{self.text_of(self.known[text])} = {text}")
        return self.known[text]

    def check(self, condition: Any, fixed: bool) -> None:
        name, text = self.text_of(condition), self.text_of(condition)
        if self.lines and self.lines[-1].startswith(f"{name} = "):  # it has just been computed, for this check
            text = self.lines.pop().removeprefix(f"{name} = ")
            del self.known[text]
        if text not in self.checked:
            self.checked.add(text)
            self.lines.append(f"if not {text}: raise NoTable")

    def count(self, what: str) -> None:
        self.lines.append(f"count({what!r})")

    def call(self, kernel: Callable[..., Any], arguments: Sequence[Any], now: bool) -> Sequence[Number]:
        given = [self._example(argument) for argument in arguments]
        require(hasattr(kernel, "overloads"))
        compute, count = _kept(kernel, given)
        actual = ", ".join(map(self._argument, arguments))
        results = [self.number(None) for _ in range(abs(count))]
        left = "".join(f"{self.text_of(result)}, " for result in results) if count >= 0 else self.text_of(results[0])
        if now:
            self._now(compute, count, given, arguments, results)
        self.lines.append(f"{left}{' = ' if results else ''}{self.name_of(compute)}({actual})")
        return results

    def _argument(self, argument: Any) -> str:
        """The text of an argument of a call."""
        if isinstance(argument, Number):
            return self.text_of(argument)
        if isinstance(argument, OfThread):
            return f"{self.name_of(argument.find)}()"
        return self._view(argument) if isinstance(argument, KernelArray) else self.name_of(argument)

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

    def _view(self, array: KernelArray) -> str:
        """The text of an array: its memory, with other type and extents if they are not its own."""
        memory, extents = array.address, array.extents
        line = self.untyped.pop(memory.number, None)
        if line is not None and memory.begin is None:  # the first use of all the memory says which type it has
            memory.dtype, memory.extents = array.dtype, extents
            self.lines[line] = self._allocation(memory.number, extents, array.dtype)
        text, dtype = f"m{memory.number}", memory.dtype
        if memory.begin is not None:
            size = prod(extents) * array.dtype.itemsize
            part, begin = self.take(None, None, ()), self.text_of(memory.begin)
            part_of = (
                f"m{part.number} = {text}[{begin} : {begin} + {self.text_of(size)}].view({self.name_of(array.dtype)})"
            )
            self.lines += [part_of, f"if not m{part.number}.flags.aligned: raise NoTable"]
            return f"m{part.number}.reshape({self.tuple_of(extents)})"
        other = dtype is None or dtype != array.dtype  # None equals float64
        pairs = zip(extents, memory.extents) if len(extents) == len(memory.extents) else [(0, 1)]
        if not other and all(a is b or (type(a) is type(b) is int and a == b) for a, b in pairs):
            return text
        view = f".view({self.name_of(array.dtype)})" if other else ""
        if not other and self.tuple_of(extents) == self.tuple_of(self.shapes.get(memory.number, ())):
            return f"w{memory.number}"
        key = memory.number, f"{array.dtype.str}{self.tuple_of(extents)}"
        if key not in self.views:
            self.views[key] = f"m{self.take(None, None, ()).number}"
            flat = len(extents) == 1 and all(type(x) is int for x in (*extents, *memory.extents))
            flat = flat and extents[0] == prod(memory.extents) and not other
            shape = "ravel()" if flat else f"reshape({self.tuple_of(extents)})"  # which takes twice as long
            self.lines.append(f"{self.views[key]} = {text}{view}.{shape}")
        return self.views[key]

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


def code_of(kernel: Any, *arguments: Any) -> Callable[..., Any]:
    """The machine code of a kernel for arguments of these types; NotReady if no process has compiled it."""
    return _kept(kernel, arguments)[0]


def _kept(kernel: Any, arguments: Sequence[Any]) -> tuple[Callable[..., Any], int]:
    found = kernels.jit.kept_code_of(kernel, *arguments)
    if found is None:
        raise NotReady([(kernel, kernels.jit.types_of(*arguments))])
    return found


def short_form(
    op: OpDef, inputs: Sequence[np.ndarray], specs: Sequence[Spec], args: Args, gets_memory: bool
) -> Callable[..., Any] | None:
    """The form of the body that ``@op.ready`` describes; None if the declared calls do not give it. NotReady: not yet.
    ``gets_memory``: it is called with memory for the result.
    """
    if op.calls_hook is None or op.returns_views or not inputs or (op.calls_for is not None and not op.calls_for(args)):
        return None
    if op.calls_small or not any(array.ndim for array in inputs):
        return None  # single numbers: the kernels are no faster than the body
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
        extents: Any = tuple(map(record.number, array.shape)) if op.unsized else array.shape
        address = record.take(array.ravel(), array.dtype, extents if array.ndim == 1 else (array.size,))
        record.shapes[address.number] = array.shape
        given.append(KernelArray(address, extents, array.dtype))
    memory = record.take(None, None, ()) if gets_memory else None
    key = record.number(SOME_KEY) if op.draws else None
    calls = KernelCalls(record, place, args, lambda: key, rows=rows, share=share)  # type: ignore[arg-type, return-value]
    calls.inputs, calls.layouts = given, [spec.layout or "" for spec in specs]
    try:
        op.calls_hook(calls)
    except NotReady:
        raise
    except NoTable:
        return None
    if shared:
        return _sharing(inputs[0].dtype, *shared[0])
    made = {**calls.outputs, **calls.constants}
    outputs = [made[number] for number in range(len(made))]
    return _written(record, given, outputs, memory, key)


def until_ready(
    whole: Callable[..., Any],
    error: NotReady,
    prepare: Callable[[Sequence[np.ndarray]], Any],
    forget: Callable[[], None],
) -> Callable[..., Any]:
    """Calls ``whole``. When the missing kernels are loaded, and ``prepare`` misses no others, it calls ``forget``: then the next
    calls are prepared again, with the short form.
    """
    wanted, calls, pause = error.wanted, 0, CALLS

    def run(inputs: Sequence[np.ndarray], key: Any) -> Any:
        nonlocal wanted, calls, pause
        calls += 1
        if calls >= pause:
            calls = 0
            if kernels.later.ready(wanted):
                try:
                    prepare(inputs)
                    forget()
                except NotReady as error:
                    wanted = error.wanted
                    kernels.later.ready(wanted)
                    pause *= 1 if wanted else 2  # what it waits for then is loaded by others, or never
        return whole(inputs, key)

    return run


def _sharing(given: np.dtype, extents: tuple[int, ...], dtype: np.dtype) -> Callable[..., np.ndarray]:
    """The memory of the input with these extents and this type."""
    if dtype == given:
        return lambda data: data.reshape(extents)
    return lambda data: np.ascontiguousarray(data).reshape(-1).view(dtype).reshape(extents)


def _written(
    record: _Record,
    given: Sequence[KernelArray],
    outputs: Sequence[Any],
    memory: NumberedMemory | None,
    key: Number | None,
) -> Callable[..., Any]:
    """The function of the inputs, of the memory of the result and of the key, if there are these."""
    names = [f"a{place}" for place in range(len(given))]
    lines, used = [], set(findall(r"\w+", " ".join(record.lines)))
    for name, array in zip(names, given):
        number = array.address.number
        if f"w{number}" in used:
            lines.append(f"w{number} = {name} if {name}.flags.c_contiguous else {name}.copy()")
        if f"m{number}" in used:
            lines.append(f"m{number} = {name}.ravel()")
        if any(isinstance(extent, Number) for extent in array.extents):
            lines.append(f"{record.tuple_of(array.extents)} = {name}.shape")
    parameters = [*names, *([] if memory is None else [f"m{memory.number}"])]
    if key is not None:
        parameters.append(signed := record.text_of(key))
        lines.append(f"if {signed} >= {1 << 63}: {signed} -= {1 << 64}")
    places = [
        f"m{out.address.number}" if isinstance(out, KernelArray) else f"{record.name_of(out)}.copy()" for out in outputs
    ]
    alone = len(outputs) == 1 and isinstance(outputs[0], KernelArray)
    lines += [*record.lines, f"return {places[0]}" if alone else f"return ({', '.join(places)},)"]
    body = "".join(f"\n    {line}" for line in lines)
    return function(f"def run({', '.join(parameters)}):{body}", record.names)
