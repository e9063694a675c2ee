"""One sample at every step of a pipeline: one picture for each step, with the step's name."""

from collections.abc import Sequence

import numpy as np

from pipeflow.pictures import tiles
from pipeflow.pictures.canvas import Canvas, shortened
from pipeflow.pictures.colors import FAINT
from pipeflow.pictures.grid import GAP, LINE, MARGIN
from pipeflow.pictures.looks import look_at
from pipeflow.pictures.picture import Picture

PLACE = (240, 200)
COLUMNS = 4


def draw(steps: Sequence[tuple[str, np.ndarray, str]]) -> Picture:
    """The picture of these (name, sample, layout), in rows."""
    cells = []
    for name, sample, layout in steps:
        look = look_at([sample], layout)
        shape = " x ".join(map(str, sample.shape))
        words = f"{look.layout} {sample.dtype} {shape}".strip() if sample.dtype.kind not in "OSU" else "text"
        cells.append((name, words, look.words, tiles.draw(sample, look, PLACE).pixels))
    columns = min(COLUMNS, len(cells))
    rows = [cells[start : start + columns] for start in range(0, len(cells), columns)]
    heights = [max(pixels.shape[0] for *_, pixels in row) + 3 * LINE for row in rows]
    width = 2 * MARGIN + columns * PLACE[0] + (columns - 1) * GAP
    sheet = Canvas(width, 2 * MARGIN + sum(heights) + GAP * (len(rows) - 1))
    y, number = MARGIN, 0
    for row, height in zip(rows, heights):
        for column, (name, words, values, pixels) in enumerate(row):
            x = MARGIN + column * (PLACE[0] + GAP)
            sheet.text(x, y, shortened(f"{number} {name}", PLACE[0]))
            sheet.text(x, y + LINE, shortened(words, PLACE[0], 11), FAINT, 11)
            sheet.text(x, y + 2 * LINE - 3, shortened(values, PLACE[0], 11), FAINT, 11)
            sheet.put(pixels, x, y + 3 * LINE)
            number += 1
        y += height + GAP
    return Picture(sheet.png())
