"""The stages of a plan: the steps that run together.

Sources have level 0, steps that work sample by sample odd levels, and steps for the whole batch even levels. Every second odd
level is for functions that are apart from the operators. All steps of an odd level are one stage, unless functions in it may
wait for each other (``strands.py``). Each step of an even level is a stage, except that device steps form segments.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from pipeflow.compile.computed import ComputedNodes
from pipeflow.compile.strands import Layer, layers_of
from pipeflow.plan import MOVED, Stage, Step, origin_of
from pipeflow.record.graph import GraphNode

COLUMN_ELEMENTS = 64  # outputs with at most this number of elements are computed for the whole batch at once


def columns_of(computed: ComputedNodes) -> set[int]:
    """The nodes that are computed for the whole batch at once, before the stage that reads them."""
    columns: set[int] = set()
    for node in computed.nodes:
        if (
            node.op.role != "constant"
            and node.op.elementwise
            and not node.guard
            and node.device == "cpu"
            and node.traits.granularity == "sample"
            and all(spec.static and int(np.prod(spec.shape, dtype=np.int64)) <= COLUMN_ELEMENTS for spec in node.specs)
            and all(need in columns or computed.by_id[need].op.role == "constant" for need in computed.needs(node))
        ):
            columns.add(node.id)
    return columns


def levels_of(computed: ComputedNodes, columns: Collection[int]) -> dict[int, int]:
    """The level of every node."""
    levels: dict[int, int] = {}
    last_function = 0
    # A function on threads that is the only one of its kind waits for no other: apart from it, operators stay in their chains.
    meeting = [node.id for node in computed.nodes if node.traits.meets]
    apart = {node.id for node in computed.nodes if node.traits.apart} | {*(meeting if len(meeting) == 1 else ())}
    for node in computed.nodes:
        traits = node.traits
        needs = [levels[need] for need in computed.needs(node)]
        if node.op.factory is not None:
            level = 1 if node.op.fetches else 0
        elif node.id in columns or node.op.role == "constant":
            level = 0
        elif traits.granularity == "sample" and node.device == "cpu" and node.op.role != "transfer":
            kind = 3 if node.id in apart else 1
            level = max([1, *(need if need % 4 in (0, kind) else need + 1 for need in needs)])
            level += (kind - level) % 4
        else:
            level = max([2, *[need + need % 2 for need in needs]])
            if traits.user_code and traits.ordered:
                # two ordered functions get whole batches, in the order of their calls in the definition
                level = last_function = max(level, last_function)
        levels[node.id] = level
    return levels


def stages_of(
    computed: ComputedNodes, columns: Collection[int], levels: Mapping[int, int], steps: Mapping[int, Step]
) -> list[Stage]:
    """The stages in running order; the first one has the sources."""
    sources: list[Step] = []
    by_level: dict[int, list[GraphNode]] = {}
    for node in computed.nodes:
        if node.op.factory is not None:
            step = steps[node.id]
            sources.append(replace(step, outputs=(computed.indices[node.id],)) if node.op.fetches else step)
        if node.op.fetches:
            by_level.setdefault(1, []).append(node)
        elif node.op.factory is None and node.id not in columns and node.op.role != "constant":
            by_level.setdefault(levels[node.id], []).append(node)
    stages = [Stage("source", tuple(sources), ordered=True)]
    for level in sorted(by_level):
        if level % 2:
            stages += [_sample_stage(computed, layer, steps) for layer in layers_of(computed, by_level[level])]
        else:
            stages += _whole_stages(computed, by_level[level], steps)
    position = 1 if len(stages) > 1 else 0
    if columns:
        made = tuple(steps[node.id] for node in computed.nodes if node.id in columns)
        stages[position] = replace(stages[position], columns=made)
    return stages


def _sample_stage(computed: ComputedNodes, layer: Layer, steps: Mapping[int, Step]) -> Stage:
    """The steps of one layer, strand after strand, and after them the merges that none of them reads."""
    members = sorted((node for strand in layer for node in strand), key=lambda node: node.id)
    last = _last_merges(computed, members)
    strands: list[list[Step]] = []
    for nodes in layer:
        inside: list[Step] = []
        for node in nodes:
            step = steps[node.id]
            if node.op.fetches:
                step = replace(step, fetch=True, inputs=(computed.indices[node.id],))
            if node.id not in last:
                inside.append(step)
        if inside:
            strands.append(inside)
    return Stage(
        "sample",
        tuple(step for strand in strands for step in strand),
        merges=tuple(steps[node.id] for node in members if node.id in last),
        strands=tuple(len(strand) for strand in strands) if len(strands) > 1 else (),
    )


def _last_merges(computed: ComputedNodes, members: Sequence[GraphNode]) -> set[int]:
    """The merges that no other step of the stage reads. At its end, for the whole batch, they take almost no time."""
    read = {need for node in members if node.op.role != "merge" for need in computed.needs(node)}
    last: set[int] = set()
    for node in reversed(members):
        if node.op.role == "merge" and node.id not in read:
            last.add(node.id)
        elif node.op.role == "merge":
            read.update(computed.needs(node))
    return last


def _whole_stages(computed: ComputedNodes, members: Sequence[GraphNode], steps: Mapping[int, Step]) -> list[Stage]:
    """The stages of one level of whole-batch steps; device steps are joined to segments."""
    stages: list[Stage] = []
    made: dict[int, int] = {}  # node -> its stage
    segment = -1  # the last segment
    later: set[int] = set()  # device steps, user functions, and all steps after them; other steps run before these
    for node in members:
        needed = later.intersection(computed.needs(node))
        if node.device != "cpu" or node.op.role == "transfer" or steps[node.id].user_code or needed:
            later.add(node.id)
    for node in sorted(members, key=lambda node: node.id in later):
        step = steps[node.id]
        kind = _kind_of(node, step)
        needs = [made[need] for need in computed.needs(node) if need in made]
        if kind == "device" and segment >= 0 and all(number <= segment for number in needs):
            stages[segment] = replace(stages[segment], steps=(*stages[segment].steps, step))
            made[node.id] = segment
            continue
        made[node.id] = len(stages)
        segment = len(stages) if kind == "device" else segment
        ordered = node.traits.ordered or kind in ("device", "function")
        stages.append(Stage(kind, (step,), ordered=ordered))
    return stages


def _kind_of(node: GraphNode, step: Step) -> Any:
    """The kind of the stage of a whole-batch step."""
    if node.op.role == "transfer" and node.device == "cpu":
        return "arrival"
    if node.device != "cpu":
        return "function" if step.user_code or node.device == "mixed" else "device"
    return "processes" if node.traits.processes else "batch"


def origins_of(stages: Sequence[Stage], slots: int, moved: Collection[int]) -> tuple[int, ...]:
    """The source of the samples of a slot: the source of the first input of its step that has one.

    It is MOVED for the slots whose samples were at other places of the batch before, and for what is made of them.
    """
    origin = [-1] * slots
    for position, step in enumerate(stages[0].steps):
        for slot in step.outputs:
            origin[slot] = position
    for stage in stages[1:]:
        for step in stage.all_steps():
            for slot in step.outputs:
                origin[slot] = MOVED if slot in moved else origin_of([origin[slot] for slot in step.inputs])
    return tuple(origin)
