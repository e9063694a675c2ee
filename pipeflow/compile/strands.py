"""Functions of one sample that may wait for each other, and the steps of a level that run at the same time.

Two functions with ``parallel="threads"`` that do not depend on each other are *apart*. They are in different *strands* of
one *layer*. A layer becomes a stage; each strand of a sample is work for another thread. A level without such functions
is one layer of one strand.
"""

from collections.abc import Mapping, Sequence
from itertools import combinations

from pipeflow.compile.computed import ComputedNodes
from pipeflow.record.graph import GraphNode

Layer = list[list[GraphNode]]
END = -1  # used in place of a strand for merges at the end of a layer, which read several strands


def layers_of(computed: ComputedNodes, members: Sequence[GraphNode]) -> list[Layer]:
    """The layers of one level in running order, each with its strands."""
    if sum(node.traits.meets for node in members) < 2:
        return [[list(members)]]
    level = _Level(computed, members)
    return level.layers() if any(level.apart.values()) else [[list(members)]]


class _Level:
    """The steps of one level, and the functions before and after each of them."""

    def __init__(self, computed: ComputedNodes, members: Sequence[GraphNode]) -> None:
        self.members = members
        here = {node.id for node in members}
        self.needs = {node.id: [need for need in computed.needs(node) if need in here] for node in members}
        self.functions = {node.id for node in members if node.traits.meets}
        self.above = self._above()
        self.below: dict[int, set[int]] = {node.id: self.functions & {node.id} for node in members}
        for node in reversed(members):
            for need in self.needs[node.id]:
                self.below[need] |= self.below[node.id]
        self.apart: dict[int, set[int]] = {function: set() for function in self.functions}
        guards = {node.id: {computed.slot(edge): on for edge, on in node.guard} for node in members}
        for one, other in combinations(sorted(self.functions), 2):
            if (
                one not in self.above[other]
                and other not in self.above[one]
                and not _exclude(guards[one], guards[other])
            ):
                self.apart[one].add(other)
                self.apart[other].add(one)

    def _above(self) -> dict[int, set[int]]:
        above: dict[int, set[int]] = {}
        for node in self.members:
            above[node.id] = self.functions & {node.id}
            for need in self.needs[node.id]:
                above[node.id] |= above[need]
        return above

    def layers(self) -> list[Layer]:
        """Places every step. Functions that are apart, with the same number of functions before them, get one layer."""
        least: dict[int, int] = {}
        while True:
            place = self._placed(least)
            raised = {}
            for function, others in self.apart.items():
                equal = [other for other in others if len(self.above[other]) == len(self.above[function])]
                highest = max((place[other][0] for other in equal), default=0)
                if highest > place[function][0]:
                    raised[function] = highest
            if not raised:
                return self._gathered(place)
            least.update(raised)

    def _placed(self, least: Mapping[int, int]) -> dict[int, tuple[int, int]]:
        """For each step its layer and its strand; a function is in the layer that ``least`` gives, or in a later one."""
        layer: dict[int, int] = {}
        strand: dict[int, int] = {}  # step -> the first step of its strand
        inside: dict[int, list[int]] = {}  # first step of a strand -> all its steps
        for node in self.members:
            top = max([layer[need] for need in self.needs[node.id]], default=0)
            met = sorted({strand[need] for need in self.needs[node.id] if layer[need] == top})
            low = least.get(node.id, 0)
            if (
                met
                and top >= low
                and END not in met
                and self._fit(node.id, [x for first in met for x in inside[first]])
            ):
                first = met[0]
                for other in met[1:]:
                    inside[first] += inside.pop(other)
                    strand.update(dict.fromkeys(inside[first], first))
                inside[first].append(node.id)
                layer[node.id], strand[node.id] = top, first
            elif met and node.op.role == "merge":
                layer[node.id], strand[node.id] = top, END
            else:
                layer[node.id] = max(low, top + 1 if met else 0)
                strand[node.id] = node.id
                inside[node.id] = [node.id]
        return {number: (layer[number], strand[number]) for number in layer}

    def _fit(self, number: int, strand: Sequence[int]) -> bool:
        """True if a step can join a strand: no function in it may be apart from another one in it or after it."""
        after = self.below[number].union(*[self.below[other] for other in strand])
        return all(not self.apart[function] & after for function in self.functions & {number, *strand})

    def _gathered(self, place: Mapping[int, tuple[int, int]]) -> list[Layer]:
        """The layers with their strands; steps without a function in their strand are one strand."""
        layers: list[Layer] = []
        for number in sorted({layer for layer, _ in place.values()}):
            members = [node for node in self.members if place[node.id][0] == number]
            waiting = {place[node.id][1] for node in members if node.id in self.functions}
            strands: dict[int, list[GraphNode]] = {}
            for node in members:
                first = place[node.id][1]
                strands.setdefault(first if first in waiting else END, []).append(node)
            layers.append(list(strands.values()) if len(waiting) > 1 else [members])
        return layers


def _exclude(one: Mapping[int, bool], other: Mapping[int, bool]) -> bool:
    """True if no sample is in both branches."""
    return any(other.get(slot, on) is not on for slot, on in one.items())
