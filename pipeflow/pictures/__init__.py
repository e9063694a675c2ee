"""Shows data: batches and arrays as pictures; batches, pipelines and plans as HTML for notebooks.

This module loads the code that draws, and Pillow, with the first picture; ``import pipeflow`` does not load them.
"""

from collections.abc import Sequence
from pkgutil import resolve_name
from typing import Any

from pipeflow.pictures.picture import Picture

__all__ = ["Picture", "html", "show"]

PILLOW = "pictures need Pillow, which is not installed: pip install pillow"


def show(
    data: Any,
    n: int = 16,
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
    path: Any = None,
) -> Picture:
    """The first ``n`` samples of a batch, of the outputs of a pipeline, or of arrays, as one picture.

    The layout, the type and the values of a sample decide how it is drawn, and the decision is written above the picture: images
    in any layout and range, sequences and volumes as strips, sound as waveform and spectrogram, text, and a few numbers as
    numbers. ``labels``, ``boxes``, ``masks`` and ``keypoints`` are drawn onto the images: each a batch, a sequence with an entry
    for each sample, or the number (in a dict: the name) of one of several outputs. ``names`` are the names of the classes of
    labels that are numbers. Boxes are ``ltrb`` or ``xywh``; boxes and points are in pixels, or fractions of the image if none is
    above 1. With ``path`` the picture is also saved.
    """
    how = {"labels": labels, "boxes": boxes, "masks": masks, "keypoints": keypoints, "names": names}
    how |= {"box_format": box_format, "layout": layout, "columns": columns, "title": title}
    picture: Picture = drawing("grid:draw")(data, n, **how)
    if path is not None:
        picture.save(path)
    return picture


def html(thing: Any, *details: Any) -> str:
    """A batch, a sample, a plan, or the graph of a pipeline with its settings and statistics, as HTML for a notebook."""
    found: str = resolve_name(f"{__name__}.notebook:describe")(thing, *details)
    return found


def one_line(graph: Any) -> str:
    """The operators of a graph, as many as fit on a line."""
    found: str = resolve_name(f"{__name__}.graphs:one_line")(graph)
    return found


def drawing(name: str) -> Any:
    """The functions that need Pillow, by their names."""
    try:
        return resolve_name(f"{__name__}.{name}")
    except ModuleNotFoundError as error:
        if error.name != "PIL":
            raise
        raise ModuleNotFoundError(PILLOW, name="PIL") from error
