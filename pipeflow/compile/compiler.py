"""From a Graph to a Plan, pass by pass: tapes, devices, fusion, then computed nodes, stages, storage and rights.

Nothing here allocates, opens files or touches a device: the same Graph gives an equal Plan.
"""

from pkgutil import resolve_name
from typing import Any

from pipeflow.compile import fusion, history, keeping, mixed
from pipeflow.compile.computed import ComputedNodes
from pipeflow.compile.read_back import read_back
from pipeflow.compile.rights import memory_of, shared_with_workers, with_rights
from pipeflow.compile.stages import columns_of, levels_of, origins_of, stages_of
from pipeflow.compile.storage import only_sent, storage_of
from pipeflow.plan import External, Plan, Slot
from pipeflow.record.graph import Graph
from pipeflow.saving.values import plain


def compile(graph: Graph, seed: int, fuse: bool = False, on_error: Any = "raise", codec: bool = False) -> Plan:
    """The Plan of a graph: removes unused nodes, merges equal ones, and decides stages, storage and write rights.

    With ``fuse``, chains of image operators become one step; the fingerprint of the plan stays that of the chain.
    ``on_error`` is the rule for steps without a rule. With ``codec`` the GPU decodes what it can; the fingerprint
    of the plan stays that of decoding on the CPU.
    """
    history.check(graph, on_error)
    keeping.check(graph)
    if any(node.op.role == "gradients" for node in graph.nodes):
        graph = resolve_name("pipeflow.compile.gradients:expand")(graph)
    divided = graph if graph.needs_no_gpu else mixed.split(read_back(graph), codec)
    plan = _compile(divided, seed, fuse, on_error)
    if any(node.device == "mixed" for node in divided.nodes):
        plan.identity = _compile(mixed.split(graph, False), seed, False, on_error).fingerprint()
    return plan


def _compile(graph: Graph, seed: int, fuse: bool, on_error: Any) -> Plan:
    if fuse:
        fused = fusion.fuse(graph)
        if fused.nodes != graph.nodes:
            plan = _plan(fused, seed, on_error)
            plan.identity = _plan(graph, seed, on_error).fingerprint()
            return plan
    return _plan(graph, seed, on_error)


def _plan(graph: Graph, seed: int, on_error: Any) -> Plan:
    computed = ComputedNodes(graph)
    externals: dict[str, Any] = {}
    steps = computed.steps(seed, externals)
    columns = columns_of(computed)
    stages = stages_of(computed, columns, levels_of(computed, columns), steps)
    storage = storage_of(stages, computed.specs, computed.outputs)
    memory = memory_of(stages, storage, computed.outputs)
    rules = [on_error if node.on_error is None else node.on_error for node in computed.nodes]
    replaces = any(isinstance(rule, str) and rule == "replace" for rule in rules)
    final = with_rights(stages, memory, replaces)
    shared = shared_with_workers(final, memory.roots, storage, on_error)
    sent = only_sent(final, storage, computed.outputs) if any(computed.on_device) else set()
    slots = tuple(
        Slot(
            i,
            spec,
            storage[i],
            "device" if on_device else "shared" if i in shared else "pinned" if i in sent else "heap",
        )
        for i, (spec, on_device) in enumerate(zip(computed.specs, computed.on_device))
    )
    if not plain(on_error):
        externals["pipeline.on_error"], on_error = on_error, External("pipeline.on_error")
    constants = tuple(
        (steps[node.id].outputs[0], dict(steps[node.id].constants)["value"])
        for node in computed.nodes
        if node.op.role == "constant"
    )
    moved = {slot for node in computed.nodes if node.traits.moves for slot in steps[node.id].outputs}
    origins = origins_of(final, len(slots), moved)
    return Plan(slots, final, computed.outputs, origins, constants, externals, seed, on_error)
