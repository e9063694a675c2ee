"""Conditions in programs: the registers of guards, and merges.

A guard whose predicates are known before the chain is a column of the batch. A predicate that the chain itself computes is read
from its memory as soon as it is there, and the program stores it in a column of the chain, for those that look at guards later.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, cast

import numpy as np

from pipeflow.declare import KernelArray, NotReady, Number, require
from pipeflow.executor.batch import BatchRun
from pipeflow.executor.runners.merge import MergeStep
from pipeflow.executor.runners.program_parts import Guard
from pipeflow.executor.runners.sample_step import SampleStep
from pipeflow.kernels import cpu as kernels

BYTE = np.dtype(np.uint8)


class RecordsFlags(Protocol):
    """The parts of a program that record numbers (program.py)."""

    def register(self, value: int | None) -> Number: ...

    def number(self, given: Any) -> Any: ...

    def computed(self, operation: str, one: Any, other: Any, value: int | None) -> Number: ...

    def call(self, kernel: Callable[..., Any], arguments: Sequence[Any], now: bool) -> Sequence[Number]: ...


class ChainGuards:
    """The guards of the steps of a chain."""

    def __init__(self, steps: Sequence[SampleStep]) -> None:
        made = {slot for step in steps for slot in step.step.outputs}
        read = {slot for step in steps for slot in predicates(step)}
        self.all: tuple[Guard, ...] = tuple({step.step.guard: None for step in steps if step.step.guard})
        self.decided = made & read  # the predicates that the chain computes
        self.inside = {guard for guard in self.all if not self.decided.isdisjoint(slot for slot, _ in guard)}
        self.inside |= {((slot, True),) for slot in self.decided}

    def flags(self, batch: BatchRun, guard: Guard) -> np.ndarray:
        """For each sample 1 if a guard is true. If the chain decides it, a program stores it, and before it is a guess: 1."""
        if guard not in self.inside:
            return batch.flags(guard)
        known: np.ndarray | None = batch.columns.get((self, guard))
        if known is None:  # another thread may do the same
            known = batch.columns.setdefault((self, guard), np.ones(batch.size, np.int64))
        return known


def predicates(step: SampleStep) -> list[int]:
    """The slots that decide if a step runs, or which side a merge takes."""
    return [*(slot for slot, _ in step.step.guard), *(step.step.inputs[2:] if type(step) is MergeStep else ())]


class ProgramFlags:
    """The registers of a program that are 1 for samples for which a guard is true."""

    def __init__(self, program: RecordsFlags, guards: ChainGuards) -> None:
        self._program, self._guards = program, guards
        self.of: dict[Guard, Number] = {}
        self.known: dict[Guard, Number] = {}  # those that are columns of the batch

    @property
    def stored(self) -> Mapping[Guard, Number]:
        """Those that the program stores in columns."""
        return {guard: flag for guard, flag in self.of.items() if guard in self._guards.inside}

    def find(self, guard: Guard, batch: BatchRun, sample: int) -> Number:
        """The register of a guard. The chain has computed its predicates, unless they are known before."""
        if guard not in self.of:
            if self._guards.decided.isdisjoint(slot for slot, _ in guard):
                flag = self.known[guard] = self._program.register(int(batch.flags(guard)[sample]))
            else:  # where the first part is false, the rest is that of an earlier sample
                first, last = (self.find(part, batch, sample) for part in (guard[:-1], guard[-1:]))
                flag = self._program.computed("*", first, last, int(bool(first.value and last.value)))
            self.of[guard] = flag
        return self.of[guard]

    def decide(self, slot: int, memory: KernelArray, batch: BatchRun, sample: int) -> None:
        """Records that a predicate is read; the step that computes it has just been recorded. For the first sample its value is
        what the last program found that could not describe this sample, or a guess: checks end the work on samples that differ.
        """
        require(not memory.extents)
        tools = kernels.small_numbers
        if not kernels.later.ready(tools.wanted()):
            raise NotReady(tools.wanted())
        given = KernelArray(memory.address, (memory.dtype.itemsize,), BYTE), int(memory.dtype.kind == "f")
        (flag,) = self._program.call(tools.truth, given, now=False)
        flag.value = int(self._guards.flags(batch, ((slot, True),))[sample])
        self.of[(slot, True),] = flag
        self.of[(slot, False),] = self._program.computed("==", flag, 0, 1 - flag.value)

    def merged(self, step: MergeStep, sides: Sequence[KernelArray], batch: BatchRun, sample: int) -> KernelArray:
        """Records a merge: the result is the memory of one side."""
        one, other = sides
        require(one.dtype == other.dtype and len(one.extents) == len(other.extents))
        require(one.window_of is other.window_of is None)
        flag = self.find(((step.step.inputs[2], True),), batch, sample)

        def chosen(a: Any, b: Any) -> Any:
            one, other = self._program.number(a), self._program.number(b)
            if one.register == other.register:
                return a
            value = cast("Number", one if flag.value else other).value
            part = self._program.computed("*", flag, self._program.computed("-", one, other, None), None)
            return self._program.computed("+", part, other, value)

        extents = tuple([chosen(*pair) for pair in zip(one.extents, other.extents)])
        return KernelArray(chosen(one.address, other.address), extents, one.dtype)
