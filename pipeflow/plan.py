"""From a Graph to a Plan: which steps run, in which stages, where their results lie, who may change what.

A Plan is data. Steps name operators by registry key and carry plain values; user objects (functions, sources, constant
arrays) stand beside them in ``externals``. Nothing here allocates, opens files or touches a device: the same Graph gives an
equal Plan. Words:

- A *slot* holds one output of one step over a batch. Its storage says where: ``constant``, ``column`` (one array over the
  batch), ``source`` and ``batch`` (whatever the step returned), ``dense`` (one block), ``table`` (a block a sample) or ``arena``
  (memory of the thread, for what lies between two steps of one stage).
- A *stage* is a maximal chain of steps that one task can carry a sample through (``sample``), one step that takes the
  whole batch (``source``, ``batch``, ``processes``), a *segment* of steps on the device whose shapes are known when it begins
  (``device``), or the wait for what comes back from there (``arrival``). ``ordered`` stages take one batch after another.
- A *guard* is a tuple of (predicate slot, polarity): the step runs for the samples where all of them hold.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, Literal

import numpy as np

from pipeflow import differentiation, fusion, mixed, seeds
from pipeflow.declare import OpDef, Outputs, Spec, Traits, find
from pipeflow.errors import Origin
from pipeflow.graph import Edge, Graph, GraphNode

Storage = Literal["constant", "column", "source", "batch", "dense", "table", "arena"]
FUNCTIONS = "functions"  # the module of operators/on_gpu/ whose forms call code of the user
# What the pass behind fn.gradients makes of the user's calls.
WRITTEN_AS = {"_taped_function": "py_function", "_back_propagation": "gradients"}
COLUMN_ELEMENTS = 64  # outputs of at most this many elements are computed for the whole batch at once


@dataclass(frozen=True)
class External:
    """Stands in a step for a user object of ``Plan.externals``."""

    name: str


@dataclass(frozen=True)
class Slot:
    """Where one output lies and what is known of it."""

    id: int
    spec: Spec
    storage: Storage
    kind: Literal["heap", "shared", "pinned", "device"] = "heap"


@dataclass(frozen=True)
class Step:
    """One operator in a stage, as plain data."""

    op: str
    name: str
    inputs: tuple[int, ...]
    constants: tuple[tuple[str, Any], ...]
    nodes: tuple[tuple[str, int], ...]
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
    shared_with: tuple[str, ...] = ()  # per input of user code: who else reads it, for messages
    on_error: Any = None  # what to do when it fails for a sample; None: as the plan says
    copied: bool = False  # the results are the user's or a view of them: copied at the stage's end

    @property
    def title(self) -> str:
        """The operator's name in messages."""
        return f"fn.{WRITTEN_AS.get(self.op, self.op)}"

    def reads(self) -> tuple[int, ...]:
        """The slots that it reads: inputs, arguments and predicates."""
        return (*self.inputs, *(slot for _, slot in self.nodes), *(slot for slot, _ in self.guard))

    def place(self) -> list[str]:
        """The notes that say where an error happened."""
        label = f" {self.name!r}" if not self.name.startswith(WRITTEN_AS.get(self.op, self.op)) else ""
        return [f"in {self.title}{label}"]


@dataclass(frozen=True)
class Stage:
    """Steps that run together; see the words above.

    ``columns`` are computed when the stage is entered, ``merges`` when it ends: those that nothing in the stage reads.
    """

    kind: Literal["source", "sample", "batch", "device", "arrival", "processes"]
    steps: tuple[Step, ...]
    ordered: bool = False
    columns: tuple[Step, ...] = ()
    merges: tuple[Step, ...] = ()

    def all_steps(self) -> tuple[Step, ...]:
        """The columns, the steps, and the merges at the end."""
        return (*self.columns, *self.steps, *self.merges)


@dataclass(eq=False)
class Plan:
    """Everything an executor needs."""

    slots: tuple[Slot, ...]
    stages: tuple[Stage, ...]
    outputs: tuple[int, ...]
    origins: tuple[int, ...]  # per slot: the source step (by position in the first stage) its samples come from, or -1
    constants: tuple[tuple[int, External], ...] = ()
    externals: dict[str, Any] = field(default_factory=dict)
    seed: int = 0
    on_error: Any = "raise"
    identity: str = ""  # the fingerprint before fusion

    def constant(self, value: Any) -> Any:
        """A step's constant with the user object in place of its reference."""
        return self.externals[value.name] if isinstance(value, External) else value

    def steps(self) -> list[Step]:
        """All steps in order."""
        return [step for stage in self.stages for step in stage.all_steps()]

    def differentiable(self) -> list[Step]:
        """The functions whose results keep their gradients: batches are made one at a time then."""
        return [step for step in self.steps() if dict(step.constants).get("differentiable")]

    def fingerprint(self) -> str:
        """A digest of the data, the names of the externals and the contents of constant arrays; fusion leaves it alone."""
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
            lines.append(f"stage {number} ({stage.kind}{order})")
            lines += [f"  column {self._line(step)}" for step in stage.columns]
            lines += [f"  {self._line(step)}" for step in stage.steps]
            lines += [f"  at its end {self._line(step)}" for step in stage.merges]
        outputs = ", ".join(f"%{slot} {self.slots[slot].storage}" for slot in self.outputs)
        return "\n".join([*lines, f"outputs {outputs}"])

    def _line(self, step: Step) -> str:
        results = ", ".join(
            f"%{s}: {self.slots[s].spec} [{self.slots[s].storage} {self.slots[s].kind}]" for s in step.outputs
        )
        arguments = [f"%{slot}" for slot in step.inputs] + [f"{name}=%{slot}" for name, slot in step.nodes]
        arguments += [
            f"{name}={value.name if isinstance(value, External) else value!r}" for name, value in step.constants
        ]
        guard = "".join(f" if {'' if on else 'not '}%{slot}" for slot, on in step.guard)
        fetch = ".fetch" if step.fetch else ""
        return f"{results} = {step.title}{fetch}({', '.join(arguments)}){guard}"


def _identity(step: Step) -> Any:
    return replace(step, origin=None)


def describe_external(value: Any) -> str:
    """What of a user object belongs to the identity of a plan: an array's contents, anything else's name."""
    if isinstance(value, np.ndarray):
        content = value.tobytes() if value.dtype != object else repr(value.tolist()).encode()
        return f"{value.dtype}{value.shape}{hashlib.sha256(content).hexdigest()}"
    target = getattr(value, "func", value)
    return f"{getattr(target, '__module__', '')}:{getattr(target, '__qualname__', type(value).__qualname__)}"


def plain(value: Any) -> bool:
    """Whether a constant is data that can stand in a step as it is."""
    if value is None or isinstance(value, (bool, int, float, str, bytes, Enum, np.dtype, np.number, Outputs)):
        return True
    return isinstance(value, tuple) and all(plain(item) for item in value)


Pass = Callable[[Graph, Sequence[GraphNode]], Sequence[GraphNode]]


def compile(
    graph: Graph, seed: int, externals: Mapping[str, Any] | None = None, fuse: bool = False, on_error: Any = "raise",
    codec: bool = False,
) -> Plan:  # fmt: skip
    """The Plan of a graph: prune, merge equal calls, place the rest in stages, decide storage and who may write.

    With ``fuse``, chains of image operators become one step; the identity of the plan stays that of the chain.
    ``on_error`` is the rule for steps that have none of their own. With ``codec`` the GPU decodes what it can; the identity
    of the plan stays that of decoding on the CPU.
    """
    differentiation.check_history(graph, on_error)
    graph = differentiation.expand(graph)
    divided = mixed.split(graph, codec)
    plan = _compile(divided, seed, externals, fuse, on_error)
    if any(node.device == "mixed" for node in divided.nodes):
        plan.identity = _compile(mixed.split(graph, False), seed, externals, False, on_error).fingerprint()
    return plan


def _compile(graph: Graph, seed: int, externals: Mapping[str, Any] | None, fuse: bool, on_error: Any) -> Plan:
    if fuse:
        fused = fusion.fuse(graph)
        if fused.nodes != graph.nodes:
            plan = _compile(fused, seed, externals, False, on_error)
            plan.identity = _compile(graph, seed, externals, False, on_error).fingerprint()
            return plan
    alive = _alive(graph)
    same = _merge_equal(graph, alive)
    compiler = _Compiler(
        graph, [node for node in graph.nodes if node.id in alive and same[node.id] == node.id], same, seed, on_error
    )
    return compiler.plan(dict(externals or {}))


def _alive(graph: Graph) -> set[int]:
    """The nodes that outputs, preserved nodes and impure operators need."""
    todo = [edge.node for edge in graph.outputs]
    todo += [node.id for node in graph.nodes if node.preserve or not node.op.traits_of(node.constants).pure]
    alive: set[int] = set()
    while todo:
        number = todo.pop()
        if number not in alive:
            alive.add(number)
            node = graph.nodes[number]
            todo += [edge.node for edge in (*node.inputs, *node.nodes.values(), *(edge for edge, _ in node.guard))]
    return alive


def _merge_equal(graph: Graph, alive: set[int]) -> dict[int, int]:
    """For every node the first one that computes the same."""
    same: dict[int, int] = {}
    seen: dict[Any, int] = {}
    for node in graph.nodes:
        same[node.id] = node.id
        if node.id not in alive or node.preserve or not _mergeable(node):
            continue
        content = tuple(_hashable(name, value) for name, value in sorted(node.constants.items()))
        key = (
            node.op.name, tuple(Edge(same[e.node], e.index) for e in node.inputs), content, node.device, node.seed, node.hint,
            tuple((name, Edge(same[e.node], e.index)) for name, e in sorted(node.nodes.items())),
            tuple((Edge(same[e.node], e.index), on) for e, on in node.guard), node.weak,
            _hashable("on_error", node.on_error),
        )  # fmt: skip
        same[node.id] = seen.setdefault(key, node.id)
    return same


def _mergeable(node: GraphNode) -> bool:
    if node.op.factory is not None or not node.op.traits_of(node.constants).pure:
        return False
    return not node.op.random or node.seed is not None


def _hashable(name: str, value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return name, value.dtype.str, value.shape, value.tobytes()
    return (name, value) if plain(value) else (name, id(value))


_STORAGE: dict[str, Storage] = {"source": "source", "sample": "table"}


class _Compiler:
    def __init__(self, graph: Graph, nodes: Sequence[GraphNode], same: dict[int, int], seed: int, on_error: Any = "raise"
    ) -> None:
        self.graph = graph
        self.nodes = nodes
        self.same = same
        self.seed = seed
        self.on_error = on_error
        rules = [on_error if node.on_error is None else node.on_error for node in nodes]
        self.replaces = any(isinstance(rule, str) and rule == "replace" for rule in rules)
        self.traits: dict[int, Traits] = {node.id: node.op.traits_of(node.constants) for node in nodes}
        self.slot_of: dict[Edge, int] = {}
        self.index_slot: dict[int, int] = {}
        self.specs: list[Spec] = []
        self.device: list[str] = []
        self.columns: set[int] = set()
        self.levels: dict[int, int] = {}
        self.roots: dict[int, frozenset[int]] = {}  # per slot: the slots in whose memory its samples may lie
        for node in nodes:
            for index in range(node.count):
                self.slot_of[Edge(node.id, index)] = self._new_slot(node.specs[index], node.device)
            if node.op.fetches:
                self.index_slot[node.id] = self._new_slot(Spec((), np.dtype(np.int64), ""), "cpu")

    def _new_slot(self, spec: Spec, device: str) -> int:
        self.specs.append(spec)
        self.device.append("device" if device in ("gpu", "mixed") else "heap")
        return len(self.specs) - 1

    def slot(self, edge: Edge) -> int:
        """The slot of an edge, through merged nodes."""
        return self.slot_of[Edge(self.same[edge.node], edge.index)]

    def plan(self, externals: dict[str, Any]) -> Plan:
        for node in self.nodes:
            if self._is_column(node):
                self.columns.add(node.id)
        self._place()
        outputs = tuple(self.slot(edge) for edge in self.graph.outputs)
        steps = {node.id: self._step(node, externals) for node in self.nodes}
        stages = self._stages(steps)
        storage = self._storage(stages, outputs)
        final = tuple(self._with_rights(stages, storage, outputs))
        shared = self._shared(final, storage)
        slots = tuple(
            Slot(i, spec, storage[i], "device" if kind == "device" else "shared" if i in shared else "heap")
            for i, (spec, kind) in enumerate(zip(self.specs, self.device))
        )
        on_error = self.on_error
        if not plain(on_error):
            externals["pipeline.on_error"], on_error = on_error, External("pipeline.on_error")
        constants = tuple(
            (steps[node.id].outputs[0], dict(steps[node.id].constants)["value"])
            for node in self.nodes
            if node.op.name == "_constant"
        )
        return Plan(slots, final, outputs, self._origins(final), constants, externals, self.seed, on_error)

    # Which nodes are computed for the whole batch at once.
    def _is_column(self, node: GraphNode) -> bool:
        if node.op.name == "_constant":
            return False
        if (
            not node.op.elementwise
            or node.guard
            or node.device != "cpu"
            or self.traits[node.id].granularity != "sample"
        ):
            return False
        if not all(spec.static and int(np.prod(spec.shape, dtype=np.int64)) <= COLUMN_ELEMENTS for spec in node.specs):
            return False
        return all(self._early(edge) for edge in (*node.inputs, *node.nodes.values()))

    def _early(self, edge: Edge) -> bool:
        number = self.same[edge.node]
        return number in self.columns or self.graph.nodes[number].op.name == "_constant"

    # Sources are at level 0, sample steps at odd and whole-batch steps at even levels.
    def _place(self) -> None:
        last_function = 0
        for node in self.nodes:
            traits = self.traits[node.id]
            needs = [self.levels[self.same[edge.node]] for edge in self._reads(node)]
            if node.op.factory is not None:
                level = 1 if node.op.fetches else 0
            elif node.id in self.columns or node.op.name == "_constant":
                level = 0
            elif traits.granularity == "sample" and node.device == "cpu" and node.op.name != "_transfer":
                level = max([1, *needs])
                level += 1 - level % 2
            else:
                level = max([2, *[need + need % 2 for need in needs]])
                if traits.user_code and traits.ordered:
                    # two ordered functions see whole batches in the order in which they are written
                    level = last_function = max(level, last_function)
            self.levels[node.id] = level

    def _reads(self, node: GraphNode) -> list[Edge]:
        return [*node.inputs, *node.nodes.values(), *(edge for edge, _ in node.guard)]

    def _step(self, node: GraphNode, externals: dict[str, Any]) -> Step:
        constants = []
        for name, value in node.constants.items():
            if not plain(value):
                reference = f"{node.name}.{name}"
                externals[reference] = value
                value = External(reference)
            constants.append((name, value))
        if node.op.fetches and node.seed is not None:
            constants.append(("seed", node.seed))  # a reader's shards share an order by its own seed, not the pipeline's
        on_error = node.on_error
        if not plain(on_error):
            reference = f"{node.name}.on_error"
            externals[reference], on_error = on_error, External(reference)
        key = None
        if node.op.random:  # sources included: they shuffle by it
            key = seeds.node_key(self.seed if node.seed is None else node.seed, node.random_name)
        return Step(
            op=node.op.name, name=node.name, inputs=tuple(self.slot(edge) for edge in node.inputs), constants=tuple(constants),
            nodes=tuple((name, self.slot(edge)) for name, edge in node.nodes.items()),
            outputs=tuple(self.slot_of[Edge(node.id, index)] for index in range(node.count)),
            device=node.device, guard=tuple((self.slot(edge), on) for edge, on in node.guard), key=key, specs=node.specs,
            hint=node.hint, origin=node.origin,
            user_code=self.traits[node.id].user_code or (node.device == "gpu" and node.op.gpu_module == FUNCTIONS),
            on_error=on_error,
        )  # fmt: skip

    def _stages(self, steps: dict[int, Step]) -> list[Stage]:
        sources, columns = [], []
        by_level: dict[int, list[GraphNode]] = {}
        for node in self.nodes:
            step = steps[node.id]
            if node.op.factory is not None:
                outputs = (self.index_slot[node.id],) if node.op.fetches else step.outputs
                sources.append(replace(step, outputs=outputs))
                if node.op.fetches:
                    by_level.setdefault(1, []).append(node)
            elif node.id in self.columns:
                columns.append(step)
            elif node.op.name != "_constant":
                by_level.setdefault(self.levels[node.id], []).append(node)
        stages = [Stage("source", tuple(sources), ordered=True)]
        for level in sorted(by_level):
            if level % 2:
                members = []
                last = self._last_merges(by_level[level])
                for node in by_level[level]:
                    step = steps[node.id]
                    if node.id in last:
                        continue
                    if node.op.fetches:
                        step = replace(step, fetch=True, inputs=(self.index_slot[node.id],))
                    members.append(step)
                merges = tuple(steps[node.id] for node in by_level[level] if node.id in last)
                stages.append(Stage("sample", tuple(members), merges=merges))
                continue
            stages += self._whole_stages(by_level[level], steps)
        position = 1 if len(stages) > 1 else 0
        stages[position] = replace(stages[position], columns=tuple(columns))
        return stages

    def _whole_stages(self, members: Sequence[GraphNode], steps: dict[int, Step]) -> list[Stage]:
        """The stages of one level of whole-batch steps; what runs on the device is joined to segments."""
        stages: list[Stage] = []
        made: dict[int, int] = {}  # the stage of a node
        segment = -1  # the last one
        behind: set[int] = set()  # what is on the device, calls code of the user, or comes after such: the rest goes first
        for node in members:
            inputs = {self.same[edge.node] for edge in self._reads(node)}
            if node.device != "cpu" or node.op.name == "_transfer" or steps[node.id].user_code or inputs & behind:
                behind.add(node.id)
        for node in sorted(members, key=lambda node: node.id in behind):
            step, traits = steps[node.id], self.traits[node.id]
            kind: Any = "processes" if traits.processes else "batch"
            if node.op.name == "_transfer" and node.device == "cpu":
                kind = "arrival"
            elif node.device != "cpu":
                kind = "device"
            joins = kind == "device" and not step.user_code and node.device == "gpu"
            needs = [made[number] for edge in self._reads(node) if (number := self.same[edge.node]) in made]
            if joins and segment >= 0 and all(number <= segment for number in needs):
                stages[segment] = replace(stages[segment], steps=(*stages[segment].steps, step))
                made[node.id] = segment
                continue
            made[node.id] = len(stages)
            segment = len(stages) if joins else segment
            stages.append(Stage(kind, (step,), ordered=traits.ordered or kind == "device"))
        return stages

    def _last_merges(self, members: Sequence[GraphNode]) -> set[int]:
        """The merges that no other step of a stage reads: made for the whole batch at its end, they cost next to nothing."""
        read = {self.same[edge.node] for node in members if node.op.name != "_merge" for edge in self._reads(node)}
        last: set[int] = set()
        for node in reversed(members):
            if node.op.name == "_merge" and node.id not in read:
                last.add(node.id)
            elif node.op.name == "_merge":
                read.update(self.same[edge.node] for edge in self._reads(node))
        return last

    def _storage(self, stages: Sequence[Stage], outputs: tuple[int, ...]) -> list[Storage]:
        storage: list[Storage] = ["constant"] * len(self.specs)
        written: dict[int, int] = {}
        readers: dict[int, list[tuple[int, Step]]] = {}
        for number, stage in enumerate(stages):
            for step in stage.columns:
                for slot in step.outputs:
                    storage[slot] = "column"
            for step in (*stage.steps, *stage.merges):
                for slot in step.outputs:
                    written[slot] = number
                    storage[slot] = _STORAGE.get(stage.kind, "batch")
                for slot in step.reads():
                    readers.setdefault(slot, []).append((number, step))
        for slot in self.index_slot.values():
            storage[slot] = "column"
        # Backwards: whether a reader's own result stays in the stage must be known before that of its input.
        for number in reversed(range(len(stages))):
            if stages[number].kind != "sample":
                continue
            for step in reversed(stages[number].steps):
                op = find(step.op)
                for slot in step.outputs:
                    unsure = step.op == "_merge" and (self.specs[slot].dtype is None or self.specs[slot].ndim is None)
                    inside = slot not in outputs and not unsure and all(
                        where == number
                        and not reader.user_code
                        and (takes_out(reader) or all(storage[s] == "arena" for s in reader.outputs))
                        for where, reader in readers.get(slot, [])
                    )
                    if inside:
                        storage[slot] = "arena"
                    elif "out" in op.wants and self.specs[slot].static and not step.guard:
                        storage[slot] = "dense"
        return storage

    def _with_rights(
        self, stages: Sequence[Stage], storage: Sequence[Storage], outputs: tuple[int, ...]
    ) -> list[Stage]:
        """Decides which inputs of user code may be written and which results must be copied at the stage's end."""
        roots = self.roots = {}
        foreign: set[int] = set()  # memory that is not the pipeline's own
        users: set[int] = set()  # results of user code that travel inside a stage as they are
        uses: dict[int, list[str]] = {}
        for slot, kind in enumerate(storage):
            roots[slot] = frozenset([slot])
            if kind == "constant":
                foreign.add(slot)
        constants = set(foreign)
        flat = [(stage, step) for stage in stages for step in stage.all_steps()]
        for stage, step in flat:
            if stage.kind == "source" and dict(step.constants).get("no_copy"):
                foreign.update(step.outputs)
            selects = stage.kind == "device" and lies_in_inputs(step)
            if (stage.kind == "sample" and not takes_out(step) and not step.fetch) or selects:
                inherited = frozenset().union(*[roots[slot] for slot in step.inputs]) if step.inputs else frozenset()
                for slot in step.outputs:
                    if step.user_code:
                        users.add(slot)
                        if storage[slot] == "table":
                            continue  # copied at once into memory of the batch: no view of an input
                    roots[slot] = inherited | {slot}
            aliases = selects or (
                stage.kind == "sample" and not takes_out(step) and not step.user_code and not step.fetch
            )
            reading = [*(s for _, s in step.nodes), *(s for s, _ in step.guard)]
            if not aliases:
                reading += step.inputs
            for slot in reading:
                for root in roots[slot]:
                    uses.setdefault(root, []).append(f"{step.title} ({step.name})")
        for number, slot in enumerate(outputs):
            for root in roots[slot]:
                uses.setdefault(root, []).append(f"output {number} of the pipeline")
        result = []
        for stage in stages:
            members = []
            for step in stage.steps:
                if step.user_code:
                    others = [self._others(step, roots[slot], uses, foreign) for slot in step.inputs]
                    step = replace(step, writable=tuple(not text for text in others), shared_with=tuple(others))
                lent = users | constants if step.op == "_merge" else users | foreign
                if stage.kind == "sample" and any(roots[slot] & lent for slot in step.outputs):
                    step = replace(step, copied=True)
                members.append(step)
            result.append(replace(stage, steps=tuple(members)))
        return result

    def _shared(self, stages: Sequence[Stage], storage: Sequence[Storage]) -> set[int]:
        """The slots that worker processes alone read: what fills them writes straight into memory shared with the workers.

        Not where a rule may run rows again after a crash: a function may have changed its inputs by then.
        """
        found: set[int] = set()
        for stage in stages:
            if stage.kind == "processes":
                step = stage.steps[0]
                rule = self.on_error if step.on_error is None else step.on_error
                if isinstance(rule, str) and rule == "raise":
                    found.update(*[self.roots[slot] for slot, writable in zip(step.inputs, step.writable) if writable])
        return {slot for slot in found if storage[slot] in ("source", "batch", "dense", "table")}

    def _others(self, step: Step, roots: frozenset[int], uses: dict[int, list[str]], foreign: set[int]) -> str:
        """Who but this step has a claim on the memory under an input; "" for nobody."""
        if self.replaces:
            return 'it is needed again where on_error="replace" makes a sample anew'
        if roots & foreign:
            return "it is a constant or the user's own array"
        readers = [reader for root in sorted(roots) for reader in uses.get(root, [])]
        readers.remove(f"{step.title} ({step.name})")
        return f"it is also read by {', '.join(dict.fromkeys(readers))}" if readers else ""

    def _origins(self, stages: Sequence[Stage]) -> tuple[int, ...]:
        """Which source the samples of a slot come from: that of its first input that has one."""
        origin = [-1] * len(self.specs)
        for position, step in enumerate(stages[0].steps):
            for slot in step.outputs:
                origin[slot] = position
        for stage in stages[1:]:
            for step in stage.all_steps():
                known = next((origin[slot] for slot in step.inputs if origin[slot] >= 0), -1)
                for slot in step.outputs:
                    origin[slot] = known
        return tuple(origin)


def takes_out(step: Step) -> bool:
    """Whether the step writes into memory given to it, so that its result is never a view of an input."""
    op: OpDef = find(step.op)
    return "out" in op.wants and not step.fetch


def lies_in_inputs(step: Step) -> bool:
    """Whether the results of a step on the device lie in memory of its inputs: a merge selects, a view looks elsewhere."""
    op: OpDef = find(step.op)
    return step.op == "_merge" or (bool(op.gpu_module) and not step.user_code and op.gpu_hook("view") is not None)


# The files of operators whose bodies are compiled kernels.
COMPILED = frozenset(
    f"pipeflow.operators.{name}"
    for name in ("chains", "color", "generic", "geometry", "image", "noise", "reductions", "resize", "shape")
)


def has_kernels(step: Step) -> bool:
    """Whether the step's operator is made of compiled kernels."""
    return find(step.op).body.__module__ in COMPILED and not step.fetch
