"""Small charts as SVG: curves over one axis, drawn without a library."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 440, 220
LEFT, RIGHT, TOP, BOTTOM = 64, 12, 10, 24  # room around the curves
TICKS = 4


@dataclass(frozen=True)
class Curve:
    """Points (x, y) joined by a line."""

    points: Sequence[tuple[float, float]]
    dots: bool = False
    ideal: bool = False  # a dashed line, which does not make the axis longer


def chart(title: str, curves: Sequence[Curve], across: Sequence[int], words: Callable[[float], str]) -> str:
    """Curves on two axes that begin at 0; ``across`` are the marks below, ``words`` makes the marks at the left."""
    right = max(across[-1], 1)
    top = 1.1 * max(y for curve in curves if not curve.ideal for _, y in curve.points) or 1.0
    inner = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM

    def place(x: float, y: float) -> tuple[float, float]:
        return LEFT + x / right * inner[0], TOP + (1 - y / top) * inner[1]

    shapes = []
    for tick in range(TICKS + 1):
        value = top * tick / TICKS
        y = place(0, value)[1]
        shapes.append(f'<path class="axis" d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}"/>')
        shapes.append(
            f'<text class="faint" x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{escape(words(value))}</text>'
        )
    shapes += [
        f'<text class="faint" x="{place(mark, 0)[0]:.1f}" y="{HEIGHT - 6}" text-anchor="middle">{mark}</text>'
        for mark in across
    ]
    for curve in curves:
        places = [place(x, y) for x, y in (cut(curve.points, top) if curve.ideal else curve.points)]
        path = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in places)
        shapes.append(f'<path class="{"ideal" if curve.ideal else "curve"}" d="{path}"/>')
        if curve.dots:
            shapes += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4"/>' for x, y in places]
    return (
        f'<figure><svg class="chart" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" role="img">'
        f'{"".join(shapes)}</svg><figcaption class="faint">{escape(title)}</figcaption></figure>'
    )


def cut(points: Sequence[tuple[float, float]], top: float) -> list[tuple[float, float]]:
    """The part of a rising line that is inside the chart."""
    kept = [point for point in points if point[1] <= top]
    if len(kept) < len(points):
        (x, y), (beyond, high) = kept[-1], points[len(kept)]
        kept.append((x + (beyond - x) * (top - y) / (high - y), top))
    return kept
