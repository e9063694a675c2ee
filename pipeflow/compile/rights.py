"""Write rights: inputs that user code may write, results that are copied, and memory that workers share."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pipeflow.plan import Stage, Step, Storage, is_in_inputs, takes_out


@dataclass
class SlotMemory:
    """The memory that slots share: ``roots`` are the slots whose memory a slot may use, ``uses`` their readers."""

    roots: dict[int, frozenset[int]]
    foreign: set[int] = field(default_factory=set)  # slots in memory that does not belong to the pipeline
    constants: set[int] = field(default_factory=set)  # the foreign slots that are constants
    users: set[int] = field(
        default_factory=set
    )  # results of user code that are passed on inside a stage without a copy
    uses: dict[int, list[str]] = field(default_factory=dict)

    def used(self, slot: int, user: str) -> None:
        """Notes a reader of a slot."""
        for root in self.roots[slot]:
            self.uses.setdefault(root, []).append(user)


def memory_of(stages: Sequence[Stage], storage: Sequence[Storage], outputs: Sequence[int]) -> SlotMemory:
    """Finds the memory of every slot, through views, merges and functions that return their inputs."""
    constants = {slot for slot, kind in enumerate(storage) if kind == "constant"}
    memory = SlotMemory({slot: frozenset([slot]) for slot in range(len(storage))}, set(constants), constants)
    for stage in stages:
        for step in stage.all_steps():
            if stage.kind == "source" and dict(step.constants).get("no_copy"):
                memory.foreign.update(step.outputs)
            in_inputs = _may_return_inputs(stage, step)
            if in_inputs:
                _inherit(memory, step, storage)
            reading = [*(slot for _, slot in step.arguments), *(slot for slot, _ in step.guard)]
            if not in_inputs or step.user_code:
                reading += step.inputs
            for slot in reading:
                memory.used(slot, _called(step))
    for number, slot in enumerate(outputs):
        memory.used(slot, f"output {number} of the pipeline")
    return memory


def _may_return_inputs(stage: Stage, step: Step) -> bool:
    """True if the results of a step may be in memory of its inputs."""
    if stage.kind == "device":
        return is_in_inputs(step)
    return stage.kind == "sample" and not takes_out(step) and not step.fetch


def _inherit(memory: SlotMemory, step: Step, storage: Sequence[Storage]) -> None:
    inherited: frozenset[int] = frozenset().union(*[memory.roots[slot] for slot in step.inputs])
    for slot in step.outputs:
        if step.user_code:
            memory.users.add(slot)
            if storage[slot] == "table":
                continue  # its results are copied at once into memory of the batch, so they are not views
        memory.roots[slot] = inherited | {slot}


def _called(step: Step) -> str:
    return f"{step.title} ({step.name})"


def with_rights(stages: Sequence[Stage], memory: SlotMemory, replaces: bool) -> tuple[Stage, ...]:
    """The stages with the write rights of user code, and the results that must be copied at the end of a stage.

    With ``replaces``, samples may be made again from their inputs, so no step may write to these.
    """
    result = []
    for stage in stages:
        members = []
        for step in stage.steps:
            if step.user_code:
                others = [_others(step, memory.roots[slot], memory, replaces) for slot in step.inputs]
                step = replace(step, writable=tuple(not text for text in others), shared_with=tuple(others))
            lent = memory.users | (memory.constants if step.role == "merge" else memory.foreign)
            if stage.kind == "sample" and any(memory.roots[slot] & lent for slot in step.outputs):
                step = replace(step, copied=True)
            members.append(step)
        result.append(replace(stage, steps=tuple(members)))
    return tuple(result)


def _others(step: Step, roots: Collection[int], memory: SlotMemory, replaces: bool) -> str:
    """The other users of the memory of an input, as text; "" if there are none."""
    if replaces:
        return 'it is needed again where on_error="replace" makes a sample again'
    if memory.foreign.intersection(roots):
        return "it is a constant or the user's own array"
    readers = [reader for root in sorted(roots) for reader in memory.uses.get(root, [])]
    readers.remove(_called(step))
    return f"it is also read by {', '.join(dict.fromkeys(readers))}" if readers else ""


def shared_with_workers(
    stages: Sequence[Stage], roots: Mapping[int, Collection[int]], storage: Sequence[Storage], on_error: Any
) -> set[int]:
    """The slots that only worker processes read: the steps before them write directly into memory shared with the workers.

    There are none if a rule may run rows again after a crash: a function may have changed its inputs by then.
    """
    found: set[int] = set()
    for stage in stages:
        if stage.kind == "processes":
            step = stage.steps[0]
            rule = on_error if step.on_error is None else step.on_error
            if isinstance(rule, str) and rule == "raise":
                found.update(*[roots[slot] for slot, writable in zip(step.inputs, step.writable) if writable])
    return {slot for slot in found if storage[slot] in ("source", "batch", "dense", "table")}
