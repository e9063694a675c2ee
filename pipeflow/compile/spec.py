"""The rules of a valid plan, as functions. They check every plan that the tests compile.

A rule is a function of a plan that yields a sentence for each breach. ``breaches`` runs all rules, ``verify`` raises.
The compiler keeps these rules, and the executor relies on them.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator

import numpy as np

from pipeflow.declare import Role, find, registration
from pipeflow.plan import MOVED, External, Plan, Stage, Step, is_in_inputs, takes_out

Rule = Callable[[Plan], Iterator[str]]
RULES: list[Rule] = []
FORM: list[Rule] = []  # the rules that the other rules rely on
BOOL = np.dtype(bool)
Guard = frozenset[tuple[int, bool]]


class InvalidPlan(AssertionError):
    """A plan that breaks a rule."""


def verify(plan: Plan) -> Plan:
    """The plan, if it keeps every rule. Otherwise InvalidPlan names each breach and shows the plan, if it has the form of one."""
    wrong_form = _spoken(FORM, plan)
    if wrong_form:
        raise InvalidPlan("\n".join(wrong_form))
    found = breaches(plan)
    if found:
        raise InvalidPlan("\n".join([*found, "in the plan", str(plan)]))
    return plan


def breaches(plan: Plan) -> list[str]:
    """A sentence for every breach of a rule; if the form of the plan is wrong, only for the breaches of form."""
    return _spoken(FORM, plan) or _spoken(RULES, plan)


def _spoken(rules: Iterable[Rule], plan: Plan) -> list[str]:
    return [f"{rule.__name__}: {text}" for rule in rules for text in rule(plan)]


def _rule(function: Rule) -> Rule:
    RULES.append(function)
    return function


def _form(function: Rule) -> Rule:
    FORM.append(function)
    return _rule(function)


def _placed(plan: Plan) -> Iterator[tuple[int, Stage, str, Step]]:
    """Every step in running order, with the number of its stage, the stage, and its place in it."""
    for number, stage in enumerate(plan.stages):
        for part, steps in (("column", stage.columns), ("step", stage.steps), ("merge", stage.merges)):
            for step in steps:
                yield number, stage, part, step


@_form
def slots_are_numbered(plan: Plan) -> Iterator[str]:
    """The number of a slot is its position, and every number in the plan is the number of a slot."""
    for place, slot in enumerate(plan.slots):
        if slot.id != place:
            yield f"slot {slot.id} is number {place} in the list"
    used = {slot for step in plan.steps() for slot in (*step.reads(), *step.outputs)}
    for number in sorted(used.union(plan.outputs, [slot for slot, _ in plan.constants])):
        if not 0 <= number < len(plan.slots):
            yield f"there is no slot %{number}"


@_form
def operators_are_declared(plan: Plan) -> Iterator[str]:
    """Every step names an operator that is declared, or several of them that are fused."""
    for step in plan.steps():
        if not registration.registry.keys() >= {*step.op.split("+")}:
            yield f"{step.name} calls {step.op!r}, which is no operator"


@_form
def merges_have_two_sides(plan: Plan) -> Iterator[str]:
    """A merge reads the two sides and the predicate, and writes one slot."""
    for step in plan.steps():
        if step.role in ("merge", "late merge") and (len(step.inputs), len(step.outputs)) != (3, 1):
            yield f"{step.name} merges {len(step.inputs) - 1} sides into {len(step.outputs)}"


@_rule
def each_slot_is_written_once(plan: Plan) -> Iterator[str]:
    """Every slot is written once: by one step, or as a constant."""
    writers = Counter([slot for step in plan.steps() for slot in step.outputs] + [slot for slot, _ in plan.constants])
    for slot in plan.slots:
        if writers[slot.id] != 1:
            yield f"%{slot.id} is written {writers[slot.id]} times"


@_rule
def slots_are_written_before_they_are_read(plan: Plan) -> Iterator[str]:
    """Every slot is written before it is read, in the order: constants, stages, steps, outputs."""
    written = {slot for slot, _ in plan.constants}
    for number, _, _, step in _placed(plan):
        for slot in step.reads():
            if slot not in written:
                yield f"{step.name} in stage {number} reads %{slot}, which is not written yet"
        written.update(step.outputs)
    for slot in plan.outputs:
        if slot not in written:
            yield f"output %{slot} is never written"


@_rule
def stages_have_the_form_of_their_kind(plan: Plan) -> Iterator[str]:
    """The first stage, and no other, has the sources; whole-batch stages have one step; and so on."""
    for number, stage in enumerate(plan.stages):
        name = f"stage {number} ({stage.kind})"
        if (stage.kind == "source") != (number == 0):
            yield f"{name} is at the wrong place: sources are stage 0 and nothing else is"
        if stage.kind in ("batch", "processes", "function", "arrival") and len(stage.steps) != 1:
            yield f"{name} has {len(stage.steps)} steps, not one"
        if stage.kind == "device" and not stage.steps:
            yield f"{name} is empty"
        if stage.columns and number > 1:
            yield f"{name} has columns, which belong to the first stage after the sources"
        if stage.merges and stage.kind != "sample":
            yield f"{name} has merges at its end"
        if stage.kind in ("source", "device", "function") and not stage.ordered:
            yield f"{name} does not take one batch after another"
        if stage.kind == "sample" and stage.ordered:
            yield f"{name} takes one batch after another, but its samples go to any thread"


@_rule
def strands_read_nothing_of_each_other(plan: Plan) -> Iterator[str]:
    """The strands of a stage have all its steps, and none reads what another one of the same stage writes."""
    for number, stage in enumerate(plan.stages):
        if not stage.strands:
            continue
        if stage.kind != "sample" or min(stage.strands) < 1 or sum(stage.strands) != len(stage.steps):
            yield f"stage {number} ({stage.kind}) has {len(stage.steps)} steps, and strands of {stage.strands}"
        strand_of = {}
        of_step = [strand for strand, count in enumerate(stage.strands) for _ in range(count)]
        for step, strand in zip(stage.steps, of_step):
            strand_of.update(dict.fromkeys(step.outputs, strand))
        for step, strand in zip(stage.steps, of_step):
            for slot in step.reads():
                if strand_of.get(slot, strand) != strand:
                    yield f"{step.name} in strand {strand} of stage {number} reads %{slot} of strand {strand_of[slot]}"


@_rule
def steps_are_where_their_kind_runs(plan: Plan) -> Iterator[str]:
    """Device steps are in stages for the device, sources in the first stage, copies to the CPU in arrivals."""
    for number, stage, part, step in _placed(plan):
        name = f"{step.name} in stage {number} ({stage.kind})"
        on_device = step.device in ("gpu", "mixed")
        if on_device != (stage.kind in ("device", "function") and part == "step"):
            yield f"{name} is for device={step.device!r}"
        source = stage.kind == "source" and part == "step"
        if source != (find(step.op).factory is not None and not step.fetch):
            yield f"{name} is a source, or is not one"
        if stage.kind == "arrival" and step.role != "transfer":
            yield f"{name} does not bring data back from the device"
        if stage.kind == "device" and step.user_code:
            yield f"{name} calls code of the user, which has a stage of its own"
        if part == "merge" and step.role != "merge":
            yield f"{name} is at the stage's end and no merge"
        if part != "step" and step.user_code:
            yield f"{name} calls code of the user at a {part}"
        if part == "column" and (step.guard or not find(step.op).elementwise):
            yield f"{name} is a column, but has a guard or is not elementwise"
        if step.fetch != (stage.kind == "sample" and find(step.op).fetches):
            yield f"{name} fetches, or does not"


@_rule
def storage_fits_the_stage(plan: Plan) -> Iterator[str]:
    """The stage of a slot can write its storage, and its kind of memory is that of its device."""
    fits = {"source": {"source", "column"}, "sample": {"table", "dense", "arena"}}
    for number, stage, part, step in _placed(plan):
        for slot in step.outputs:
            storage, kind = plan.slots[slot].storage, plan.slots[slot].memory
            allowed = {"column"} if part == "column" else fits.get(stage.kind, {"batch"})
            if part == "merge":
                allowed = {"table"}
            if storage not in allowed:
                yield f"%{slot} of {step.name} in stage {number} ({stage.kind}) is kept as {storage}"
            if (kind == "device") != (step.device in ("gpu", "mixed")):
                yield f"%{slot} of {step.name} for device={step.device!r} is in {kind} memory"
    for slot, _ in plan.constants:
        if plan.slots[slot].storage != "constant":
            yield f"the constant %{slot} is kept as {plan.slots[slot].storage}"


@_rule
def dense_slots_have_one_shape(plan: Plan) -> Iterator[str]:
    """For one block for a batch, the shape is known, every sample has a value, and the step writes into given memory."""
    for step in plan.steps():
        for slot in step.outputs:
            if plan.slots[slot].storage == "dense":
                if not plan.slots[slot].spec.static or step.guard:
                    yield f"%{slot} of {step.name} is dense, but {plan.slots[slot].spec} or its guard leaves holes"
                if not takes_out(step):
                    yield f"%{slot} is dense, but {step.name} returns memory of its own"


@_rule
def arena_slots_stay_in_their_stage(plan: Plan) -> Iterator[str]:
    """The memory of a thread is used again for the next sample, so nothing outside the stage may see it.

    A step that returns a view of it, or a function of the user that may keep it, may not see it either.
    """
    stage_of = {slot: number for number, _, _, step in _placed(plan) for slot in step.outputs}
    arena = {slot.id for slot in plan.slots if slot.storage == "arena"}
    for slot in sorted(arena.intersection(plan.outputs)):
        yield f"output %{slot} is kept as arena"
    for number, _, part, step in _placed(plan):
        for slot in sorted(arena.intersection(step.reads())):
            if stage_of.get(slot) != number or part != "step":
                yield f"{step.name} reads %{slot} of the arena of stage {stage_of.get(slot)}"
            elif step.user_code:
                yield f"{step.name} calls code of the user with %{slot} of the arena"
            elif slot in step.inputs and not takes_out(step) and not arena.issuperset(step.outputs):
                yield f"{step.name} may return a view of %{slot} of the arena"


@_rule
def guards_are_bools(plan: Plan) -> Iterator[str]:
    """A predicate is one bool for each sample, on the host."""
    for step in plan.steps():
        predicates = [slot for slot, _ in step.guard]
        if step.role == "merge":
            predicates.append(step.inputs[2])
        for number in predicates:
            slot = plan.slots[number]
            if slot.spec.dtype != BOOL or slot.spec.ndim != 0 or slot.memory == "device":
                yield f"{step.name} branches on %{number}: {slot.spec} in {slot.memory} memory"


@_rule
def nobody_reads_a_hole(plan: Plan) -> Iterator[str]:
    """A slot has values only for the samples of its guard. A merge reads each side for the samples that took it.

    So the sides of a merge are complementary, a step in a branch reads only slots that every sample of the branch has, and
    outputs have no guard.
    """
    known = _Implied(plan)
    guards: dict[int, Guard] = {}
    for step in plan.steps():
        own = frozenset(step.guard)
        reads = [(slot, own) for slot in step.reads()]
        if step.role in ("merge", "late merge"):
            reads[:2] = [(slot, own | {(step.inputs[2], place == 0)}) for place, slot in enumerate(step.inputs[:2])]
        for slot, reader in reads:
            guard = guards.get(slot, frozenset())
            if not guard <= reader and not guard <= known.by(reader):
                yield f"{step.name} reads %{slot}, which samples outside of its guard do not have"
        guards.update(dict.fromkeys(step.outputs, own))
    for slot in plan.outputs:
        if guards.get(slot):
            yield f"output %{slot} has a guard: some samples do not have it"


class _Implied:
    """The conditions that follow from a guard. After an early ``return`` a predicate is itself a merge of predicates."""

    def __init__(self, plan: Plan) -> None:
        self.merges = {step.outputs[0]: step.inputs for step in plan.steps() if step.role == "merge"}
        self.fixed = {
            slot: bool(plan.constant(value))
            for slot, value in plan.constants
            if plan.slots[slot].spec.dtype == BOOL and plan.slots[slot].spec.ndim == 0
        }
        self._found: dict[Guard, Guard] = {}

    def by(self, guard: Guard) -> Guard:
        """Every (predicate, value) that follows from the conditions of a guard."""
        if guard not in self._found:
            facts = dict(guard)
            todo = list(guard)
            while todo:
                slot, value = todo.pop()
                for fact in self._of_merge(slot, value, facts):
                    if fact[0] not in facts:
                        facts[fact[0]] = fact[1]
                        # the value of a merge depends on its predicate, which may just have become known
                        todo += [fact, *((slot, facts[slot]) for slot in self.merges if slot in facts)]
            self._found[guard] = frozenset(facts.items())
        return self._found[guard]

    def _of_merge(self, slot: int, value: bool, facts: dict[int, bool]) -> Iterator[tuple[int, bool]]:
        """If the value of a merge is known, the sample took a side that can have this value."""
        *sides, predicate = self.merges.get(slot, (slot, slot, slot))
        for side, here in zip(sides, (True, False)):
            if self.fixed.get(side, facts.get(side, value)) != value:
                yield predicate, not here
            if facts.get(predicate) is here and side != slot:
                yield side, value


@_rule
def only_user_code_has_rights(plan: Plan) -> Iterator[str]:
    """Every input of user code has a write right, and no other input; it is given only if no other step needs the data."""
    readers = Counter(slot for step in plan.steps() for slot in set(step.reads()))
    readers.update(plan.outputs)
    for number, stage, part, step in _placed(plan):
        expected = len(step.inputs) if step.user_code and part == "step" and stage.kind != "source" else 0
        if len(step.writable) != expected or len(step.shared_with) != expected:
            yield f"{step.name} in stage {number} has rights for {len(step.writable)} of {expected} inputs"
        for slot, writable in zip(step.inputs, step.writable):
            if writable and (readers[slot] > 1 or step.inputs.count(slot) > 1):
                yield f"{step.name} may write %{slot}, which is read elsewhere too"
            if writable and plan.slots[slot].storage == "constant":
                yield f"{step.name} may write the constant %{slot}"
        if step.copied and stage.kind != "sample":
            yield f"{step.name} copies its results, which only steps for single samples do"


@_rule
def shared_slots_are_for_workers(plan: Plan) -> Iterator[str]:
    """Memory shared with the workers has only data that they read; no view on the device leaves its stage."""
    read = {slot for stage in plan.stages if stage.kind == "processes" for step in stage.steps for slot in step.inputs}
    shared = {slot.id for slot in plan.slots if slot.memory == "shared"}
    if shared and not read:
        yield f"{sorted(shared)} are in memory shared with workers, and no step runs in one"
    for step in plan.steps():
        if is_in_inputs(step) and step.device == "gpu" and shared.intersection(step.outputs):
            yield f"{step.name} on the device writes memory shared with workers"


@_rule
def page_locked_slots_are_for_the_device(plan: Plan) -> Iterator[str]:
    """Page-locked memory has only data that is copied to the device: no code writes to it while the copy runs."""
    pinned = {slot.id for slot in plan.slots if slot.memory == "pinned"}
    if pinned.intersection(plan.outputs):
        yield f"{sorted(pinned.intersection(plan.outputs))} are page-locked for the device, and are outputs"
    for step in plan.steps():
        if step.role != "transfer" and pinned.intersection(step.reads()):
            yield f"{step.name} reads page-locked memory of data that goes to the device"


@_rule
def steps_are_calls_of_their_operators(plan: Plan) -> Iterator[str]:
    """Inputs, arguments, outputs and the key fit the declaration of the operator."""
    for number, stage, _, step in _placed(plan):
        op = find(step.op)
        name = f"{step.name} in stage {number}"
        if not step.fetch and not op.min_inputs <= len(step.inputs) <= op.max_inputs:
            yield f"{name} has {len(step.inputs)} inputs, {step.op} takes {op.min_inputs} to {op.max_inputs}"
        known = {param.name for param in op.params if param.role in (Role.ARG, Role.STATIC)} | {"seed"}
        unknown = {key for key, _ in (*step.constants, *step.arguments)} - known
        if unknown:
            yield f"{name} has arguments that {step.op} does not have: {sorted(unknown)}"
        if step.role != op.role:
            yield f"{name} has the role {step.role!r}, {step.op} is {op.role!r}"
        if (step.key is not None) != op.random:
            yield f"{name} {'has a key and is not random' if step.key is not None else 'is random and has no key'}"
        if stage.kind != "source" and len(step.specs) != len(step.outputs):
            yield f"{name} has {len(step.specs)} Specs for {len(step.outputs)} outputs"


@_rule
def user_objects_are_externals(plan: Plan) -> Iterator[str]:
    """Every reference has its object, and every object is referred to."""
    values = [value for step in plan.steps() for _, value in step.constants]
    values += [step.on_error for step in plan.steps()] + [value for _, value in plan.constants] + [plan.on_error]
    named = {value.name for value in values if isinstance(value, External)}
    for name in sorted(named.symmetric_difference(plan.externals)):
        yield f"{name} is {'not among the externals' if name in named else 'an external that nothing refers to'}"


@_rule
def origins_are_sources(plan: Plan) -> Iterator[str]:
    """Every slot names the source of its samples by its position in the first stage; -1 or MOVED if there is none."""
    if len(plan.origins) != len(plan.slots):
        yield f"there are {len(plan.origins)} origins for {len(plan.slots)} slots"
    most = len(plan.stages[0].steps)
    yield from (
        f"%{slot} comes from source {at} of {most}" for slot, at in enumerate(plan.origins) if not MOVED <= at < most
    )
