"""A Plan: the steps, their stages, the storage of their results, and write rights.

A Plan is data. Steps name operators by registry key and have plain values. User objects (functions, sources, constant
arrays) are separate, in ``externals``. Words:

- A *slot* is one output of one step for a batch. Its storage is ``constant``, ``column`` (one array for the
  batch), ``source`` and ``batch`` (the object that the step returned), ``dense`` (one block), ``table`` (a block a sample) or
  ``arena`` (memory of the thread, for results between two steps of one stage).
- A *stage* is a maximal chain of steps that one task runs for a sample (``sample``), one step for the
  whole batch (``source``, ``batch``, ``processes``), a *segment* of steps on the device whose shapes are known when it begins
  (``device``), a ``function`` that works with data on the device, or the wait for data that is copied back
  (``arrival``). ``ordered`` stages take one batch after another.
- A *guard* is a tuple of (predicate slot, polarity): the step runs for the samples for which all of them are true.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from pipeflow import pictures
from pipeflow.declare import OpDef, Part, Spec, find
from pipeflow.errors import Origin

Storage = Literal["constant", "column", "source", "batch", "dense", "table", "arena"]


@dataclass(frozen=True)
class External:
    """A reference in a step to a user object of ``Plan.externals``."""

    name: str


@dataclass(frozen=True)
class Slot:
    """The storage and the Spec of one output."""

    id: int
    spec: Spec
    storage: Storage
    memory: Literal["heap", "shared", "pinned", "device"] = "heap"


@dataclass(frozen=True)
class Step:
    """One operator in a stage, as plain data."""

    op: str
    name: str
    inputs: tuple[int, ...]
    constants: tuple[tuple[str, Any], ...]
    arguments: tuple[tuple[str, int], ...]
    outputs: tuple[int, ...]
    device: str
    guard: tuple[tuple[int, bool], ...]
    key: int | None
    specs: tuple[Spec, ...]
    hint: tuple[int, ...]
    origin: Origin | None
    fetch: bool = False
    user_code: bool = False
    writable: tuple[bool, ...] = ()
    shared_with: tuple[str, ...] = ()  # for each input of user code: the other readers, for messages
    on_error: Any = None  # the rule for a sample that fails; None: the rule of the plan
    copied: bool = (
        False  # the results are objects of the user, or views of them: they are copied at the end of the stage
    )
    role: Part = "work"  # the role in the declaration, for the compiler and the executor

    @property
    def title(self) -> str:
        """The operator's name in messages."""
        return find(self.op).title

    def reads(self) -> tuple[int, ...]:
        """The slots that the step reads: inputs, arguments and predicates."""
        return (*self.inputs, *(slot for _, slot in self.arguments), *(slot for slot, _ in self.guard))

    def notes(self, details: str = "") -> list[str]:
        """The notes for an error: the step, the sample, and the line of the call."""
        label = f" {self.name!r}" if not self.name.startswith(self.title.removeprefix("fn.")) else ""
        return [f"in {self.title}{label}{details}", *([self.origin.describe()] if self.origin else [])]


@dataclass(frozen=True)
class Stage:
    """Steps that run together; the start of this file explains the words.

    ``columns`` are computed when the stage begins, ``merges`` when it ends: the merges that no step of the stage reads. If
    functions of one sample may wait for each other, ``strands`` has the numbers of the steps that belong together. Each strand
    of a sample is work for another thread, and reads no result of the others. It is () if one thread runs all steps.
    """

    kind: Literal["source", "sample", "batch", "processes", "device", "function", "arrival"]
    steps: tuple[Step, ...]
    ordered: bool = False
    columns: tuple[Step, ...] = ()
    merges: tuple[Step, ...] = ()
    strands: tuple[int, ...] = ()

    def all_steps(self) -> tuple[Step, ...]:
        """The columns, the steps, and the merges at the end."""
        return (*self.columns, *self.steps, *self.merges)


# In place of a source: samples that were at other places of the batch before, so no source has them in this order.
MOVED = -2


def origin_of(inputs: Sequence[int]) -> int:
    """The source of what is made of inputs with these sources."""
    return MOVED if MOVED in inputs else next((origin for origin in inputs if origin >= 0), -1)


@dataclass(eq=False, repr=False)
class Plan:
    """All data that an executor needs."""

    slots: tuple[Slot, ...]
    stages: tuple[Stage, ...]
    outputs: tuple[int, ...]
    # For each slot: the source of its samples, by its position in the first stage; -1, MOVED: none.
    origins: tuple[int, ...]
    constants: tuple[tuple[int, External], ...] = ()
    externals: dict[str, Any] = field(default_factory=dict)
    seed: int = 0
    on_error: Any = "raise"
    identity: str = ""  # the fingerprint before fusion

    def constant(self, value: Any) -> Any:
        """A constant of a step, with the user object in place of its reference."""
        return self.externals[value.name] if isinstance(value, External) else value

    def steps(self) -> list[Step]:
        """All steps in order."""
        return [step for stage in self.stages for step in stage.all_steps()]

    def keys(self) -> tuple[int, ...]:
        """The keys of the random steps, without those of the sources."""
        sources = self.stages[0].steps
        return tuple({step.key: None for step in self.steps() if step.key is not None and step not in sources})

    def makers(self) -> dict[int, Step]:
        """The step that fills each slot."""
        return {slot: step for step in self.steps() for slot in step.outputs}

    def read_outside(self, inside: Sequence[Step]) -> set[int]:
        """The slots that are read by other steps than these, or are outputs of the pipeline."""
        return {slot for step in self.steps() if step not in inside for slot in step.reads()}.union(self.outputs)

    def needed_only_by(self, name: str) -> list[str]:
        """The names of a step and of those that only this step needs, without the sources."""
        makers, needed = self.makers(), {step.name for step in self.stages[0].steps}
        todo = list(self.outputs)
        while todo:
            step = makers.get(todo.pop())
            if step is not None and step.name not in needed and step.name != name:
                needed.add(step.name)
                todo += step.reads()
        return [step.name for step in self.steps() if step.name not in needed]

    def needs_device(self) -> bool:
        """True if a part of the plan runs on the GPU."""
        return any(stage.kind in ("device", "function", "arrival") for stage in self.stages)

    def differentiable(self) -> list[Step]:
        """The functions whose results keep their gradients. If there are any, batches are made one at a time."""
        return [step for step in self.steps() if dict(step.constants).get("differentiable")]

    def fingerprint(self) -> str:
        """A digest of the data, the names of the externals and the contents of constant arrays; fusion does not change it."""
        if self.identity:
            return self.identity
        digest = hashlib.sha256()
        for part in (
            self.slots,
            [(s.kind, s.ordered, [_identity(step) for step in s.all_steps()]) for s in self.stages],
        ):
            digest.update(repr(part).encode())
        digest.update(repr((self.outputs, self.origins, self.constants, self.seed, self.on_error)).encode())
        for name, value in sorted(self.externals.items()):
            digest.update(f"{name}={describe_external(value)}".encode())
        return digest.hexdigest()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Plan) and self.fingerprint() == other.fingerprint()

    __hash__ = None  # type: ignore[assignment]

    def __str__(self) -> str:
        lines = []
        for number, stage in enumerate(self.stages):
            order = ", one batch after another" if stage.ordered else ""
            beside = f", side by side: {' + '.join(map(str, stage.strands))} steps" if stage.strands else ""
            lines.append(f"stage {number} ({stage.kind}{order}{beside})")
            lines += [f"  column {self._line(step)}" for step in stage.columns]
            lines += [f"  {self._line(step)}" for step in stage.steps]
            lines += [f"  at its end {self._line(step)}" for step in stage.merges]
        outputs = ", ".join(f"%{slot} {self.slots[slot].storage}" for slot in self.outputs)
        return "\n".join([*lines, f"outputs {outputs}"])

    def __repr__(self) -> str:
        return f"<Plan of {len(self.stages)} stages with {len(self.steps())} steps; print it to read it>"

    def _repr_html_(self) -> str:
        return pictures.html(self)

    def _line(self, step: Step) -> str:
        results = ", ".join(
            f"%{s}: {self.slots[s].spec} [{self.slots[s].storage} {self.slots[s].memory}]" for s in step.outputs
        )
        arguments = [f"%{slot}" for slot in step.inputs] + [f"{name}=%{slot}" for name, slot in step.arguments]
        arguments += [
            f"{name}={value.name if isinstance(value, External) else value!r}" for name, value in step.constants
        ]
        guard = "".join(f" if {'' if on else 'not '}%{slot}" for slot, on in step.guard)
        fetch = ".fetch" if step.fetch else ""
        rights = "".join(f" may write %{slot}" for slot, writable in zip(step.inputs, step.writable) if writable)
        copied = " copied at the end" if step.copied else ""
        return f"{results} = {step.title}{fetch}({', '.join(arguments)}){guard}{rights}{copied}"


def _identity(step: Step) -> Any:
    return replace(step, origin=None)


def describe_external(value: Any) -> str:
    """The part of a user object that identifies a plan: the contents of an array, the name of any other object."""
    if isinstance(value, np.ndarray):
        content = value.tobytes() if value.dtype != object else repr(value.tolist()).encode()
        return f"{value.dtype}{value.shape}{hashlib.sha256(content).hexdigest()}"
    target = getattr(value, "func", value)
    return f"{getattr(target, '__module__', '')}:{getattr(target, '__qualname__', type(value).__qualname__)}"


def takes_out(step: Step) -> bool:
    """True if the step writes into given memory, so that its result is never a view of an input."""
    op: OpDef = find(step.op)
    return "out" in op.wants and not step.fetch


def is_in_inputs(step: Step) -> bool:
    """True if the results of a step on the device are in memory of its inputs, as for a merge or a view."""
    op: OpDef = find(step.op)
    return step.role == "merge" or (bool(op.gpu_module) and not step.user_code and op.gpu_hook("view") is not None)


def has_kernels(step: Step) -> bool:
    """True if compiled kernels do the work of the step."""
    return find(step.op).compiled and not step.fetch
