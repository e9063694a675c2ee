"""The storage of every slot: a column, a block, a table of blocks, or memory of the thread inside a stage."""

from collections.abc import Collection, Sequence

from pipeflow.declare import Spec, find
from pipeflow.plan import Stage, Step, Storage, takes_out

_BY_KIND: dict[str, Storage] = {"source": "source", "sample": "table"}


def storage_of(stages: Sequence[Stage], specs: Sequence[Spec], outputs: Collection[int]) -> list[Storage]:
    """The storage of every slot; a slot that no step writes is a constant."""
    storage: list[Storage] = ["constant"] * len(specs)
    readers: dict[int, list[tuple[int, Step]]] = {}
    for number, stage in enumerate(stages):
        for step in stage.columns:
            for slot in step.outputs:
                storage[slot] = "column"
        for step in (*stage.steps, *stage.merges):
            for slot in step.outputs:
                # the indices of a reader are a column
                indices = stage.kind == "source" and find(step.op).fetches
                storage[slot] = "column" if indices else _BY_KIND.get(stage.kind, "batch")
            for slot in step.reads():
                readers.setdefault(slot, []).append((number, step))
    # From the last step to the first, because the storage of a step's result decides the storage of its input.
    for number in reversed(range(len(stages))):
        if stages[number].kind != "sample":
            continue
        for step in reversed(stages[number].steps):
            for slot in step.outputs:
                spec = specs[slot]
                unsure = step.role == "merge" and (spec.dtype is None or spec.ndim is None)
                if slot not in outputs and not unsure and _stays(number, readers.get(slot, []), storage):
                    storage[slot] = "arena"
                elif takes_out(step) and spec.static and not step.guard:
                    storage[slot] = "dense"
    return storage


def only_sent(stages: Sequence[Stage], storage: Sequence[Storage], outputs: Collection[int]) -> set[int]:
    """The slots that are only copied to the device."""
    roles: dict[int, set[str]] = {}
    for stage in stages:
        for step in stage.all_steps():
            for slot in step.reads():
                roles.setdefault(slot, set()).add(step.role)
    sent = {slot for slot, found in roles.items() if found == {"transfer"} and slot not in outputs}
    return {slot for slot in sent if storage[slot] not in ("constant", "column")}


def _stays(number: int, readers: Sequence[tuple[int, Step]], storage: Sequence[Storage]) -> bool:
    """True if only its stage needs a slot: no step passes it, or a view of it, to another stage or to the user."""
    return all(
        where == number
        and not reader.user_code
        and (takes_out(reader) or all(storage[slot] == "arena" for slot in reader.outputs))
        for where, reader in readers
    )
