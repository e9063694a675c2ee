"""The work of an operator on a sample as calls of compiled kernels, which run without the interpreter.

``@spectrogram.calls`` declares ``(calls) -> None``. The function takes the memory of the outputs and adds the calls of kernels,
as the body makes them. It runs only once for many samples: extents and other numbers of a sample are ``Number`` objects, and a
``WorkRecord`` records the arithmetic on them. Compiled code repeats it for other samples. A Number that decides an ``if``, or
that is used as a Python integer, is *fixed*: the record is only for samples with the same value.

A trace describes samples without errors. If a sample has an error, or is a rare case, the function raises NoTable, or requires a
condition that is False for that sample. Then the body computes the sample. So errors are reported only by the body, and the
tests compare with the body.
"""

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from pipeflow.declare.parameters import Args
from pipeflow.declare.tables import NoTable, require
from pipeflow.kernels import cpu as kernels

if TYPE_CHECKING:
    from pipeflow.kernels.cpu.later import Wanted


class NotReady(NoTable):
    """A kernel of the record is not compiled yet: the bodies work until it is. ``wanted``: the kernels to load, if known."""

    def __init__(self, wanted: "Sequence[Wanted]" = ()) -> None:
        super().__init__()
        self.wanted = wanted


class NoExample(NotReady):
    """No result of a user's function is known yet: the bodies process the first samples."""


@dataclass(frozen=True)
class OfThread:
    """An array of fixed size that belongs to one thread and keeps its values from sample to sample."""

    find: Callable[[], np.ndarray]  # for the calling thread


class WorkRecord(Protocol):
    """The record of the work on samples."""

    def computed(self, operation: str, one: Any, other: Any, value: int | None) -> "Number":
        """A number that an operation computes from two others; ``value`` is its value for the first sample, if known."""
        ...

    def check(self, condition: "Number", fixed: bool) -> None:
        """Ends the work on samples for which this is 0; another record may describe them if a Number is ``fixed``."""
        ...

    def memory(self, nbytes: Any) -> "Number":
        """The address of memory that lasts until the next sample."""
        ...

    def call(self, kernel: Callable[..., Any], arguments: Sequence[Any], now: bool) -> Sequence["Number"]:
        """Adds a call of a kernel and returns its results. With ``now`` it is also called at once for the first sample."""
        ...

    def count(self, what: str) -> None:
        """Counts a thing in ``kernels.counts`` for each sample that is done."""
        ...

    def function(self, function: Any, inputs: Sequence[Any]) -> Sequence["KernelArray"]:
        """Adds the call of a user's function and returns its results."""
        ...

    def ask(self, permit: Callable[[int], int]) -> None:
        """Before each run for so many samples ``permit`` is called, and returns for how many; for the others the bodies run."""
        ...


OPERATIONS: dict[str, Callable[[int, int], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "//": operator.floordiv,
    "max": max,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
}


class Number:
    """An integer that may differ from sample to sample. ``value`` is that of the first sample, None if it is not computed yet."""

    __slots__ = ("register", "trace", "value")
    __hash__ = None  # type: ignore[assignment]  # equal is a condition, not a fact

    def __init__(self, trace: WorkRecord, register: int, value: int | None) -> None:
        self.trace = trace
        self.register = register
        self.value = value

    def __add__(self, other: Any) -> "Number":
        return _computed("+", self, other)

    def __radd__(self, other: Any) -> "Number":
        return _computed("+", other, self)

    def __sub__(self, other: Any) -> "Number":
        return _computed("-", self, other)

    def __mul__(self, other: Any) -> "Number":
        return _computed("*", self, other)

    def __rmul__(self, other: Any) -> "Number":
        return _computed("*", other, self)

    def __floordiv__(self, other: Any) -> "Number":
        return _computed("//", self, other)

    def __eq__(self, other: Any) -> "Number":  # type: ignore[override]
        return _computed("==", self, other)

    def __ne__(self, other: Any) -> "Number":  # type: ignore[override]
        return _computed("!=", self, other)

    def __lt__(self, other: Any) -> "Number":
        return _computed("<", self, other)

    def __le__(self, other: Any) -> "Number":
        return _computed("<=", self, other)

    def __gt__(self, other: Any) -> "Number":
        return _computed("<", other, self)

    def __ge__(self, other: Any) -> "Number":
        return _computed("<=", other, self)

    def __bool__(self) -> bool:
        return bool(operator.index(self))

    def __index__(self) -> int:
        assert self.value is not None, "a result that is not known yet decides nothing"
        self.trace.check(_computed("==", self, self.value), fixed=True)
        return self.value


class Real:
    """A floating-point number that may differ from sample to sample, for the arguments of kernels."""

    __slots__ = ("register", "value")

    def __init__(self, register: int, value: float) -> None:
        self.register = register
        self.value = value


class Several:
    """The numbers of an argument of several numbers that differs from sample to sample; only ``rows`` of tables read them."""

    __slots__ = ("name", "value")

    def __init__(self, value: tuple[Any, ...], name: str) -> None:
        self.value = value
        # Of the argument of the step, for tables: in a chain of operators it has the number of the link.
        self.name = name


def _computed(operation: str, one: Any, other: Any) -> Number:
    if operation == "*":
        if type(one) is int and one == 1:
            return other
        if type(other) is int and other == 1:
            return one
    first, second = (x.value if isinstance(x, Number) else x for x in (one, other))
    known = None if first is None or second is None else int(OPERATIONS[operation](first, second))
    trace = one.trace if isinstance(one, Number) else other.trace
    return trace.computed(operation, one, other, known)


def largest(one: Any, other: Any) -> Any:
    """The larger one of two numbers."""
    if isinstance(one, Number) or isinstance(other, Number):
        return _computed("max", one, other)
    return max(one, other)


@dataclass(frozen=True)
class KernelArray:
    """A C-contiguous array of the sample, or a window (top, left, height and width of the whole) of an image."""

    address: Any
    extents: tuple[Any, ...]
    dtype: np.dtype
    window_of: tuple[Any, ...] | None = None

    @property
    def size(self) -> Any:
        """The number of elements."""
        return prod(self.extents)

    def reshaped(self, *extents: Any) -> "KernelArray":
        """The same memory with other extents."""
        return KernelArray(self.address, extents, self.dtype)

    @property
    def flat(self) -> "KernelArray":
        """The same memory with one axis."""
        return self if len(self.extents) == 1 else self.reshaped(self.size)


# Computes the rows of a batch with this number of samples: a C-contiguous array. Arguments that vary are arrays in the Args.
MakeRows = Callable[[Args, int], np.ndarray]


class KernelCalls:
    """The work of an operator on a sample, as its ``calls`` function declares it."""

    def __init__(
        self,
        trace: WorkRecord,
        place: Callable[[int, tuple[Any, ...], np.dtype], KernelArray],
        args: Args,
        key: Callable[[], Number] | None = None,
        part: Callable[[Any, Any], Sequence[Any]] | None = None,
        rows: Callable[[MakeRows, bool], Any] | None = None,
        writable: tuple[bool, ...] = (),
        share: Callable[[KernelArray, tuple[Any, ...], np.dtype], KernelArray] | None = None,
    ) -> None:
        self._trace = trace
        self._share = share
        self._rows = rows
        self._place = place
        self.inputs: Sequence[KernelArray] = ()
        self.layouts: Sequence[str] = ()
        self.args = args  # constants, and a Number, a Real or Several for each argument that is named as ``varying``
        # The window (top, left, height, width) of an image that the next step reads, as a function of its extents; None if
        # other steps read the image.
        self.part = part
        self.writable = writable  # for a user's function: True for inputs to which it may write
        self.plan: Any = None  # data that one hook of an operator keeps for another
        self._find_key = key
        self._key: Number | None = None
        self.outputs: dict[int, KernelArray] = {}
        self.constants: dict[int, np.ndarray] = {}

    @property
    def input(self) -> KernelArray:
        """The first input."""
        return self.inputs[0]

    @property
    def key(self) -> Number:
        """The 64 bits of the sample's key, for an operator with random numbers."""
        if self._key is None:
            assert self._find_key is not None
            self._key = self._find_key()
        return self._key

    def wait_for(self, ready: bool, wanted: "Sequence[Wanted]" = ()) -> None:
        """Raises NotReady if a kernel is not compiled yet: then no record is made."""
        if not ready:
            raise NotReady(wanted)

    def need(self, wanted: "Sequence[Wanted]") -> None:
        """Raises NotReady until a thread has loaded these kernels."""
        self.wait_for(kernels.later.ready(wanted), wanted)

    def count(self, what: str) -> None:
        """Counts a thing in ``kernels.counts`` for each sample that is done."""
        self._trace.count(what)

    def require(self, condition: Any) -> None:
        """The calls describe only samples for which this is true."""
        if isinstance(condition, Number):
            if condition.value is not None:
                require(condition.value)
            self._trace.check(condition, fixed=False)
        else:
            require(condition)

    def require_aligned(self, array: KernelArray) -> None:
        """The calls describe only samples in which this array begins at a multiple of the size of its elements."""
        address, size = array.address, array.dtype.itemsize
        if isinstance(address, Number):  # else it is a part of an array of NumPy, which knows if it is aligned
            self.require(address // size * size == address)

    def row(self, make: MakeRows) -> KernelArray:
        """The row of the sample in a table that is computed once for each batch, from arguments that may vary."""
        assert self._rows is not None
        return self._rows(make, False)

    def reals(self, make: MakeRows) -> Sequence[Real]:
        """The numbers of such a row, which has one axis and is float64."""
        assert self._rows is not None
        return self._rows(make, True)

    def integers(self, make: MakeRows) -> Sequence[Number]:
        """The numbers of such a row, which has one axis and is int64."""
        assert self._rows is not None
        return self._rows(make, True)

    def output(
        self, extents: tuple[Any, ...], dtype: np.dtype, number: int = 0, window_of: tuple[Any, ...] | None = None
    ) -> KernelArray:
        """The memory of an output, or of the ``part`` of it."""
        memory = self.outputs[number] = replace(self._place(number, extents, dtype), window_of=window_of)
        return memory

    def output_like_input(self, dtype: np.dtype) -> KernelArray:
        """The memory of a result with the extents of the input, which must have elements."""
        self.require(self.input.size > 0)
        return self.output(self.input.extents, dtype)

    def share(self, extents: tuple[Any, ...], dtype: np.dtype | None = None) -> None:
        """The result is the memory of the input, with these extents and this type; it is copied only if both are used later."""
        self.require(self.input.size > 0)
        require(self.input.window_of is None)
        assert self._share is not None
        self.outputs[0] = self._share(self.input, extents, dtype or self.input.dtype)

    def give(self, number: int, value: np.ndarray) -> None:
        """Gives an output that is the same for all samples of this record."""
        self.constants[number] = value

    def scratch(self, extents: tuple[Any, ...], dtype: np.dtype) -> KernelArray:
        """Memory for data that one call writes and a later call reads."""
        return KernelArray(self._trace.memory(prod(extents) * dtype.itemsize), extents, dtype)

    def call(self, kernel: Callable[..., Any], *arguments: Any) -> Sequence[Number]:
        """Adds a call of a compiled kernel with Memory, Numbers, OfThread and constants; returns its results."""
        return self._trace.call(kernel, arguments, now=False)

    def function(self, function: Any, permit: Callable[[int], int] | None = None) -> None:
        """Adds the call of a function of the user, which makes the outputs; ``permit`` is called before each run."""
        self.outputs.update(enumerate(self._trace.function(function, self.inputs)))
        if permit is not None:
            self._trace.ask(permit)

    def read(self, kernel: Callable[..., Any], *arguments: Any) -> Sequence[Number]:
        """Like ``call``, for a kernel whose results are needed to declare the other calls, such as the fields of a header."""
        return self._trace.call(kernel, arguments, now=True)
