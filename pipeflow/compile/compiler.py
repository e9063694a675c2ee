"""From a Graph to a Plan: prune, merge equal calls, assign levels, form stages, decide storage and write rights.

Nothing here allocates, opens files or touches a device: the same Graph gives an equal Plan.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from pipeflow import seeds
from pipeflow.compile import fusion, gradients, mixed
from pipeflow.compile.plan import External, Plan, Slot, Stage, Step, Storage, lies_in_inputs, takes_out
from pipeflow.declare import Spec, Traits, find
from pipeflow.record.graph import Edge, Graph, GraphNode
from pipeflow.saving.values import plain

FUNCTIONS = "functions"  # the module of operators/on_gpu/ whose forms call code of the user
COLUMN_ELEMENTS = 64  # outputs of at most this many elements are computed for the whole batch at once


def compile(graph: Graph, seed: int, fuse: bool = False, on_error: Any = "raise", codec: bool = False) -> Plan:
    """The Plan of a graph: prune, merge equal calls, place the rest in stages, decide storage and who may write.

    With ``fuse``, chains of image operators become one step; the identity of the plan stays that of the chain.
    ``on_error`` is the rule for steps that have none of their own. With ``codec`` the GPU decodes what it can; the identity
    of the plan stays that of decoding on the CPU.
    """
    gradients.check_history(graph, on_error)
    graph = gradients.expand(graph)
    divided = mixed.split(graph, codec)
    plan = _compile(divided, seed, fuse, on_error)
    if any(node.device == "mixed" for node in divided.nodes):
        plan.identity = _compile(mixed.split(graph, False), seed, False, on_error).fingerprint()
    return plan


def _compile(graph: Graph, seed: int, fuse: bool, on_error: Any) -> Plan:
    if fuse:
        fused = fusion.fuse(graph)
        if fused.nodes != graph.nodes:
            plan = _compile(fused, seed, False, on_error)
            plan.identity = _compile(graph, seed, False, on_error).fingerprint()
            return plan
    alive = _alive(graph)
    same = _merge_equal(graph, alive)
    compiler = _Compiler(
        graph, [node for node in graph.nodes if node.id in alive and same[node.id] == node.id], same, seed, on_error
    )
    return compiler.plan()


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
            todo += [edge.node for edge in (*node.inputs, *node.arguments.values(), *(edge for edge, _ in node.guard))]
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
            node.op.name,
            tuple(Edge(same[e.node], e.index) for e in node.inputs),
            content,
            node.device,
            node.seed,
            node.hint,
            tuple((name, Edge(same[e.node], e.index)) for name, e in sorted(node.arguments.items())),
            tuple((Edge(same[e.node], e.index), on) for e, on in node.guard),
            node.weak,
            _hashable("on_error", node.on_error),
        )
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
    def __init__(
        self, graph: Graph, nodes: Sequence[GraphNode], same: dict[int, int], seed: int, on_error: Any = "raise"
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

    def plan(self) -> Plan:
        externals: dict[str, Any] = {}
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
        return all(self._early(edge) for edge in (*node.inputs, *node.arguments.values()))

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
        return [*node.inputs, *node.arguments.values(), *(edge for edge, _ in node.guard)]

    def _step(self, node: GraphNode, externals: dict[str, Any]) -> Step:
        constants = []
        for name, value in node.constants.items():
            if not plain(value):
                reference = f"{node.name}.{name}"
                externals[reference] = value
                value = External(reference)
            constants.append((name, value))
        if node.op.fetches and node.seed is not None:
            constants.append(
                ("seed", node.seed)
            )  # a reader's shards share an order by its own seed, not the pipeline's
        on_error = node.on_error
        if not plain(on_error):
            reference = f"{node.name}.on_error"
            externals[reference], on_error = on_error, External(reference)
        key = None
        if node.op.random:  # sources included: they shuffle by it
            key = seeds.node_key(self.seed if node.seed is None else node.seed, node.random_name)
        return Step(
            op=node.op.name,
            name=node.name,
            inputs=tuple(self.slot(edge) for edge in node.inputs),
            constants=tuple(constants),
            arguments=tuple((name, self.slot(edge)) for name, edge in node.arguments.items()),
            outputs=tuple(self.slot_of[Edge(node.id, index)] for index in range(node.count)),
            device=node.device,
            guard=tuple((self.slot(edge), on) for edge, on in node.guard),
            key=key,
            specs=node.specs,
            hint=node.hint,
            origin=node.origin,
            user_code=self.traits[node.id].user_code or (node.device == "gpu" and node.op.gpu_module == FUNCTIONS),
            on_error=on_error,
        )

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
        behind: set[int] = (
            set()
        )  # what is on the device, calls code of the user, or comes after such: the rest goes first
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
                kind = "function" if step.user_code or node.device == "mixed" else "device"
            joins = kind == "device"
            needs = [made[number] for edge in self._reads(node) if (number := self.same[edge.node]) in made]
            if joins and segment >= 0 and all(number <= segment for number in needs):
                stages[segment] = replace(stages[segment], steps=(*stages[segment].steps, step))
                made[node.id] = segment
                continue
            made[node.id] = len(stages)
            segment = len(stages) if joins else segment
            stages.append(Stage(kind, (step,), ordered=traits.ordered or kind in ("device", "function")))
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
                    inside = (
                        slot not in outputs
                        and not unsure
                        and all(
                            where == number
                            and not reader.user_code
                            and (takes_out(reader) or all(storage[s] == "arena" for s in reader.outputs))
                            for where, reader in readers.get(slot, [])
                        )
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
            reading = [*(s for _, s in step.arguments), *(s for s, _ in step.guard)]
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
