"""Samples in rows and columns, with their labels below them."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pipeflow.errors import count_of
from pipeflow.pictures import marks, tiles
from pipeflow.pictures.canvas import TEXT, Canvas, shortened, width_of
from pipeflow.pictures.colors import FAINT, INK, SHADE
from pipeflow.pictures.looks import Look, is_scalar, look_at
from pipeflow.pictures.outputs import Output, entries, outputs_of
from pipeflow.pictures.picture import Picture

WIDTH = 1000  # approximate width of the whole picture
MARGIN = 16
GAP = 12  # space between samples
INNER = 3  # space between the outputs of one sample
LINE = 17
LARGEST, SMALLEST = 420, 72  # limits of the width of a sample's place
SIDES = 4  # the most outputs side by side
RATIO = 1.5  # width of the whole picture divided by its height


@dataclass
class Cell:
    """A sample: its pictures, and the lines below them."""

    pictures: list[np.ndarray]
    lines: list[str]
    source: str = ""

    @property
    def width(self) -> int:
        return sum(picture.shape[1] for picture in self.pictures) + INNER * (len(self.pictures) - 1)

    @property
    def height(self) -> int:
        return max(picture.shape[0] for picture in self.pictures)


def draw(
    data: Any,
    n: int,
    *,
    labels: Any = None,
    boxes: Any = None,
    masks: Any = None,
    keypoints: Any = None,
    names: "Sequence[str] | None" = None,
    box_format: str = "ltrb",
    layout: "str | None" = None,
    columns: "int | None" = None,
    title: str = "",
    width: int = WIDTH,
) -> Picture:
    """The picture that ``pipeflow.show`` describes."""
    if isinstance(n, bool) or not isinstance(n, (int, np.integer)) or n < 1:
        raise ValueError(f"n is how many samples are shown, at least 1; got {n!r}")
    outputs = outputs_of(data, layout)
    size = len(outputs[0].samples)
    count = min(int(n), size)
    given = {"labels": labels, "boxes": boxes, "masks": masks, "keypoints": keypoints}
    marked = {name: entries(value, name, outputs, count) for name, value in given.items() if value is not None}
    used = {value for value in given.values() if isinstance(value, (int, str)) and not isinstance(value, bool)}
    left = [output for index, output in enumerate(outputs) if index not in used and output.name not in used]
    if not count:
        return _nothing(outputs, title)
    looks = {id(output): look_at(output.samples[:count], output.layout) for output in left}
    words = [o for o in left if all(is_scalar(s) for s in o.samples[:count])]
    shown = [o for o in left if o not in words and looks[id(o)].kind != "numbers"]
    shown = (shown or [o for o in left if o not in words] or words)[:SIDES]
    words = [o for o in words if o not in shown]
    columns, place = _form([(o, looks[id(o)]) for o in shown], count, columns, width)
    cells = []
    for index in range(count):
        pictures, notes = [], []
        for position, output in enumerate(shown):
            look, sample = looks[id(output)], output.samples[index]
            room = (place[0] - INNER * (len(shown) - 1)) // len(shown), place[1]
            tile = tiles.draw(sample, look, room)
            pixels = tile.pixels
            if position == 0 and look.kind in ("picture", "file"):
                pixels = _marked(pixels, tiles.shape_of(look, sample), index, marked, names, box_format)
            pictures.append(pixels)
            notes += [tile.note] if tile.note else []
        lines = _label(marked, index, names)
        lines += [(f"{o.name}: " if o.name else "") + tiles.number(o.samples[index]) for o in words]
        cells.append(Cell(pictures, lines + notes, next((o.sources[index] for o in outputs if o.sources), "")))
    heads = [_head(o, looks[id(o)], len(left) > 1) for o in shown]
    first = title or (f"{count} of {size} samples" if count < size else count_of(size, "sample"))
    return _sheet(cells, columns, [first, *heads])


def _form(
    shown: Sequence[tuple[Output, Look]], count: int, columns: "int | None", width: int
) -> tuple[int, tuple[int, int]]:
    """The number of columns, and (width, height) of the place of a sample."""
    shapes = [[tiles.shape_of(look, sample) for sample in output.samples[:count]] for output, look in shown]
    # The outputs of a sample get equal room side by side. Its ratio is that of the widest output: the median over all samples.
    ratio = float(np.median([max(w / h for w, h in sample) * len(shapes) for sample in zip(*shapes)]))
    if columns is None:
        choices = range(1, count + 1)
        columns = min(choices, key=lambda c: abs(math.log(c * ratio / -(-count // c) / RATIO)) + (-count % c) / count)
    columns = max(1, min(int(columns), count))
    inner = width - 2 * MARGIN - GAP * (columns - 1)
    natural = max(w for sample in zip(*shapes) for w, _ in sample) * len(shapes)
    most = max(LARGEST, min(natural, inner)) if ratio <= 3 else inner
    wide = max(SMALLEST * len(shown), min(inner // columns, most))
    high = max(SMALLEST, min(round(wide / ratio * 1.25), LARGEST * 2)) if ratio < 3 else max(SMALLEST, round(wide / 2))
    return columns, (wide, high)


def _marked(
    pixels: np.ndarray,
    size: tuple[int, int],
    index: int,
    marked: Mapping[str, list[Any]],
    names: "Sequence[str] | None",
    box_format: str,
) -> np.ndarray:
    if "masks" in marked:
        pixels = marks.masked(pixels, marked["masks"][index])
    if "boxes" in marked:
        boxes = np.asarray(marked["boxes"][index])
        label = np.atleast_1d(np.asarray(marked["labels"][index])) if "labels" in marked else np.zeros(0)
        words = [_named(value, names) for value in label] if len(label) == boxes.size // 4 and label.ndim == 1 else []
        pixels = marks.boxed(pixels, boxes, size, box_format, words)
    if "keypoints" in marked:
        pixels = marks.pointed(pixels, marked["keypoints"][index], size)
    return pixels


def _label(marked: Mapping[str, list[Any]], index: int, names: "Sequence[str] | None") -> list[str]:
    """The line with the label; if there are several boxes, their labels are drawn at the boxes."""
    if "labels" not in marked:
        return []
    label = np.asarray(marked["labels"][index])
    if label.ndim == 0 or label.size == 1:
        return [_named(label.ravel()[0], names)]
    if "boxes" in marked:
        return []
    return [", ".join(_named(value, names) for value in label.ravel()[:6])]


def _named(value: Any, names: "Sequence[str] | None") -> str:
    text = tiles.number(value)
    if names is None or np.asarray(value).dtype.kind not in "biu":
        return text
    number = int(value)
    return str(names[number]) if 0 <= number < len(names) else f"{text} (no name)"


def _head(output: Output, look: Look, several: bool) -> str:
    """One line about an output: its layout, type, shapes and values."""
    samples = output.samples
    name = f"{output.name}: " if several and output.name else ""
    given = f"{look.layout} " if output.layout else f"{look.layout} (found) " if look.layout else ""
    shapes = np.array([sample.shape for sample in samples])
    extents = [
        f"{low}" if low == high else f"{low}-{high}"
        for low, high in zip(shapes.min(0).tolist(), shapes.max(0).tolist())
    ]
    dtype = "text" if samples[0].dtype.kind in "OSU" else str(samples[0].dtype)
    parts = [f"{name}{given}{dtype}", " x ".join(extents), look.words]
    return ", ".join(part for part in parts if part)


def _sheet(cells: list[Cell], columns: int, heads: list[str]) -> Picture:
    """The cells with their lines, below a head."""
    rows = [cells[start : start + columns] for start in range(0, len(cells), columns)]
    widths = [max(row[column].width for row in rows if column < len(row)) for column in range(columns)]
    below = [[*(cell.lines), *([cell.source] if cell.source else [])] for cell in cells]
    lines = max(len(line) for line in below)
    heights = [max(cell.height for cell in row) for row in rows]
    inner = sum(widths) + GAP * (columns - 1)
    room = max(inner, 360)
    top = MARGIN + LINE * len(heads) + 8
    height = top + sum(heights) + len(rows) * (LINE * lines + (4 if lines else 0)) + GAP * (len(rows) - 1) + MARGIN
    sheet = Canvas(room + 2 * MARGIN, height)
    for number, head in enumerate(heads):
        sheet.text(MARGIN, MARGIN - 4 + LINE * number, shortened(head, room), INK if number == 0 else FAINT)
    y = top
    for number, row in enumerate(rows):
        x = MARGIN
        for column, cell in enumerate(row):
            _put(sheet, cell, x, y, widths[column])
            x += widths[column] + GAP
        y += heights[number] + LINE * lines + (4 if lines else 0) + GAP
    return Picture(sheet.png())


def _put(sheet: Canvas, cell: Cell, x: int, y: int, width: int) -> None:
    at = x
    for picture in cell.pictures:
        if picture.min() > 235:  # else the edge of a white picture would not be visible
            sheet.box(at - 1, y - 1, at + picture.shape[1], y + picture.shape[0], SHADE)
        sheet.put(picture, at, y)
        at += picture.shape[1] + INNER
    room = max(width, cell.width)
    for number, line in enumerate(cell.lines):
        sheet.text(x, y + cell.height + 3 + LINE * number, shortened(line, room))
    if cell.source:
        name = (
            cell.source.replace("\\", "/").rpartition("/")[2] if width_of(cell.source, TEXT - 2) > room else cell.source
        )
        sheet.text(
            x,
            y + cell.height + 4 + LINE * len(cell.lines),
            shortened(name, room, TEXT - 2, keep_end=True),
            FAINT,
            TEXT - 2,
        )


def _nothing(outputs: Sequence[Output], title: str) -> Picture:
    sheet = Canvas(360, 2 * MARGIN + 2 * LINE)
    sheet.text(MARGIN, MARGIN, title or "an empty batch")
    sheet.text(MARGIN, MARGIN + LINE, f"{count_of(len(outputs), 'output')}, no samples", FAINT)
    return Picture(sheet.png())
