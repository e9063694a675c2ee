"""A graph as SVG, drawn without another program: nodes in levels from top to bottom, in an order with few crossings.

Every node is one level below the lowest node that it reads. An edge that crosses a level has its own place there, so it goes
around the nodes of this level.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape

LETTER = 7.0  # width of a letter of the title
SMALL = 5.8  # width of a letter of the line below
HEIGHT = 40
DOWN, BESIDE = 34, 18  # space between levels, and between nodes of a level
SWEEPS = 6
FILL = {
    "source": "#cfe8f6",
    "cpu": "#eef1f4",
    "gpu": "#cdebdf",
    "mixed": "#f7f1c0",
    "python": "#fbe3bd",
    "output": "#ffffff",
}


@dataclass
class Drawn:
    """A node of the drawing, or the place where an edge passes a level (without a title)."""

    title: str = ""
    line: str = ""
    kind: str = "cpu"
    hint: str = ""
    reads: Sequence[int] = ()
    level: int = 0
    x: float = 0.0
    parents: list[int] = field(default_factory=list)
    children: list[int] = field(default_factory=list)

    @property
    def width(self) -> float:
        return max(len(self.title) * LETTER, len(self.line) * SMALL) + 22 if self.title else 2


def svg(nodes: Sequence[Drawn]) -> str:
    """The drawing as SVG. In ``nodes``, each node comes after the nodes that it reads."""
    drawn = list(nodes)
    for node in drawn:
        node.level = max((drawn[other].level + 1 for other in node.reads), default=0)
    for node in drawn:  # a node that reads nothing is drawn just above the nodes that read it
        if not node.reads:
            below = [other.level for other in drawn if any(drawn[number] is node for number in other.reads)]
            node.level = min(below, default=1) - 1
    last = max((node.level for node in drawn), default=0)
    for node in drawn:
        if node.kind == "output":
            node.level = last
    routes = _routes(drawn)
    levels = _ordered(drawn)
    _place(drawn, levels)
    left = min((node.x - node.width / 2 for node in drawn), default=0) - 12
    width = max((node.x + node.width / 2 for node in drawn), default=0) + 12 - left
    height = (last + 1) * HEIGHT + last * DOWN + 24
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" width="{width:.0f}" height="{height}" '
        'role="img" font-family="system-ui, sans-serif" style="max-width: 100%; height: auto">',
        f'<rect width="{width:.0f}" height="{height}" rx="8" fill="#ffffff"/>',
    ]
    for route in routes:
        points = [(drawn[number].x - left, _top(drawn[number])) for number in route]
        lines.append(f'<path d="{_curve(points, drawn, route)}" fill="none" stroke="#7d8590" stroke-width="1.3"/>')
    for node in drawn:
        if node.title:
            lines += _box(node, node.x - left, _top(node))
    return "\n".join([*lines, "</svg>"])


def _top(node: Drawn) -> float:
    return 12 + node.level * (HEIGHT + DOWN)


def _routes(drawn: list[Drawn]) -> list[list[int]]:
    """For each edge the nodes that it touches, with a place on every level between."""
    routes = []
    for number in range(len(drawn)):
        for other in dict.fromkeys(drawn[number].reads):
            route = [other]
            for level in range(drawn[other].level + 1, drawn[number].level):
                drawn.append(Drawn(level=level))
                route.append(len(drawn) - 1)
            route.append(number)
            for upper, lower in itertools.pairwise(route):
                drawn[upper].children.append(lower)
                drawn[lower].parents.append(upper)
            routes.append(route)
    return routes


def _ordered(drawn: list[Drawn]) -> list[list[int]]:
    """The nodes of each level, ordered so that each is near the middle of the nodes that it is joined to."""
    levels: list[list[int]] = [[] for _ in range(max((node.level for node in drawn), default=-1) + 1)]
    for number, node in enumerate(drawn):
        levels[node.level].append(number)
    for sweep in range(SWEEPS):
        down = sweep % 2 == 0
        place = {number: index / max(1, len(level) - 1) for level in levels for index, number in enumerate(level)}
        for level in levels if down else reversed(levels):
            middle = {}
            for number in level:
                joined = drawn[number].parents if down else drawn[number].children
                middle[number] = sum(place[n] for n in joined) / len(joined) if joined else place[number]
            level.sort(key=lambda number: middle[number])
            place.update({number: index / max(1, len(level) - 1) for index, number in enumerate(level)})
    return levels


def _place(drawn: list[Drawn], levels: list[list[int]]) -> None:
    """Sets the position of the middle of every node: first side by side, then in several rounds nearer to the nodes that it is
    joined to.
    """
    for level in levels:
        x = 0.0
        for number in level:
            drawn[number].x = x + drawn[number].width / 2
            x += drawn[number].width + BESIDE
        for number in level:
            drawn[number].x -= x / 2
    for sweep in range(2 * SWEEPS):
        down = sweep % 2 == 0
        for level in levels if down else reversed(levels):
            wanted = {}
            for number in level:
                joined = drawn[number].parents if down else drawn[number].children
                wanted[number] = sum(drawn[n].x for n in joined) / len(joined) if joined else drawn[number].x
            _spread(drawn, level, wanted)


def _spread(drawn: list[Drawn], level: list[int], wanted: dict[int, float]) -> None:
    """Puts the nodes of a level as near to their wanted places as their widths allow, without changing their order."""
    groups: list[tuple[list[int], float]] = []  # neighbours that touch move together

    def offsets(numbers: list[int]) -> list[float]:
        at, found = 0.0, []
        for number in numbers:
            found.append(at + drawn[number].width / 2)
            at += drawn[number].width + BESIDE
        return found

    def start(numbers: list[int]) -> float:
        return sum(wanted[number] - at for number, at in zip(numbers, offsets(numbers))) / len(numbers)

    for number in level:
        numbers, begin = [number], start([number])
        while groups:
            before, x = groups[-1]
            if x + sum(drawn[n].width + BESIDE for n in before) <= begin:
                break
            groups.pop()
            numbers = [*before, *numbers]
            begin = start(numbers)
        groups.append((numbers, begin))
    for numbers, begin in groups:
        for number, at in zip(numbers, offsets(numbers)):
            drawn[number].x = begin + at


def _curve(points: list[tuple[float, float]], drawn: list[Drawn], route: list[int]) -> str:
    """A curve from the bottom of the first node to the top of the last; it is straight at the levels between."""
    x, y = points[0]
    path, at = f"M{x:.1f} {y + HEIGHT:.1f}", y + HEIGHT
    for number, (to, y) in zip(route[1:], points[1:]):
        middle = (at + y) / 2
        path += f" C{x:.1f} {middle:.1f} {to:.1f} {middle:.1f} {to:.1f} {y:.1f}"
        x, at = to, y
        if not drawn[number].title:
            path, at = f"{path} V{y + HEIGHT:.1f}", y + HEIGHT
    return path


def _box(node: Drawn, x: float, y: float) -> list[str]:
    left = x - node.width / 2
    edge = ' stroke-dasharray="4 3"' if node.kind == "output" else ""
    middle = y + (17 if node.line else 25)
    lines = [
        f"<g><title>{escape(node.hint or node.title)}</title>"
        f'<rect x="{left:.1f}" y="{y:.1f}" width="{node.width:.1f}" height="{HEIGHT}" rx="6" fill="{FILL[node.kind]}" '
        f'stroke="#8a929c"{edge}/>',
        f'<text x="{x:.1f}" y="{middle:.1f}" text-anchor="middle" font-size="13" fill="#1f2328">{escape(node.title)}</text>',
    ]
    if node.line:
        lines.append(
            f'<text x="{x:.1f}" y="{y + 32:.1f}" text-anchor="middle" font-size="10.5" fill="#57606a">{escape(node.line)}</text>'
        )
    return [*lines, "</g>"]
