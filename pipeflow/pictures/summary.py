"""The first page of a report as one picture: the verdict, the steps, speed against threads, and samples."""

from collections.abc import Mapping, Sequence

from pipeflow.pictures.canvas import Canvas, decoded, resized, shortened, width_of, wrapped
from pipeflow.pictures.colors import FAINT, INK, PALETTE, SHADE
from pipeflow.pictures.picture import Picture

WIDTH, HEIGHT, EDGE = 874, 1240, 40  # A5 at 150 points an inch
INNER = WIDTH - 2 * EDGE
BUSY, WAITS = PALETTE[4], PALETTE[0]
ROWS = 9  # the most steps that are drawn


Bar = tuple[str, str, float, float]  # a step: name, time, share of work on a processor, share of work that waits


def draw(
    title: str,
    name: str,
    figures: Sequence[tuple[str, str]],
    bars: Sequence[Bar],
    rates: Mapping[int, float],
    samples: "Picture | None",
) -> Picture:
    """The first page as a picture."""
    sheet = Canvas(WIDTH, HEIGHT)
    y = EDGE
    for line in wrapped(title, INNER, 2, 26):
        sheet.text(EDGE, y, line, size=26)
        y += 36
    sheet.text(EDGE, y, shortened(name, INNER, 15), FAINT, 15)
    y += 40
    for row in (figures[:4], figures[4:]):
        for number, (value, words) in enumerate(row):
            x = EDGE + number * INNER / 4
            sheet.text(x, y, value, size=22)
            sheet.text(x, y + 28, shortened(words, INNER / 4 - 10, 13), FAINT)
        y += 62 if row else 0
    y = _bars(sheet, y + 10, bars)
    if len(rates) > 1:
        y = _threads(sheet, y + 14, rates)
    picture = decoded(samples.png) if samples is not None else None
    room = HEIGHT - EDGE - y - 14
    if picture is not None and room > 60:
        sheet.put(resized(picture[0], (room, INNER)), EDGE, y + 14)
    return Picture(sheet.png())


def _bars(sheet: Canvas, y: int, bars: Sequence[Bar]) -> int:
    sheet.text(EDGE, y, "Steps: on a processor (blue), waiting (orange)", size=16)
    y += 30
    left = EDGE + 380
    for name, words, busy, waits in bars[:ROWS]:
        sheet.text(EDGE, y, shortened(name, 270))
        sheet.text(left - 12 - width_of(words), y, words)
        middle = left + busy * (WIDTH - EDGE - left)
        sheet.box(left, y + 1, WIDTH - EDGE, y + 14, SHADE)
        sheet.box(left, y + 1, middle, y + 14, BUSY)
        sheet.box(middle, y + 1, middle + waits * (WIDTH - EDGE - left), y + 14, WAITS)
        y += 24
    return y


def _threads(sheet: Canvas, y: int, rates: Mapping[int, float]) -> int:
    sheet.text(EDGE, y, "Samples a second against threads; grey: every thread brings as much as the first", size=16)
    top, bottom, left = y + 34, y + 210, EDGE
    points = sorted(rates.items())
    most, high = points[-1][0], 1.1 * max(rates.values())
    across = (WIDTH - EDGE - left - 20) / most

    def place(threads: float, rate: float) -> tuple[float, float]:
        return left + threads * across, bottom - rate / high * (bottom - top)

    sheet.line([(left, top), (left, bottom), (WIDTH - EDGE, bottom)], FAINT)
    each = points[0][1] / points[0][0]
    reach = min(most, high / each)
    sheet.line([place(0, 0), place(reach, each * reach)], FAINT, 2)
    sheet.line([place(*point) for point in points], BUSY, 3)
    for threads, rate in points:
        x, height = place(threads, rate)
        sheet.dot(x, height, 5, BUSY, BUSY)
        sheet.text(x - 4, bottom + 6, str(threads), FAINT)
        sheet.text(min(x, WIDTH - EDGE - 20) - width_of(f"{rate:.3g}") / 2, height + 8, f"{rate:.3g}", INK)
    return bottom + 28
