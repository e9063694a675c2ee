"""Draws boxes, masks and points onto images, each with the colour of its number."""

from typing import Any

import numpy as np

from pipeflow.pictures.canvas import Canvas, width_of
from pipeflow.pictures.colors import PAPER, of_class

OPACITY = 0.45  # opacity of masks
SMALL = 11  # height of the letters on boxes


def masked(pixels: np.ndarray, masks: np.ndarray) -> np.ndarray:
    """The picture with masks on it: an array with numbers of objects (0: none), or a stack with one mask for each."""
    masks = np.asarray(masks)
    if masks.ndim == 3 and 1 in (masks.shape[0], masks.shape[-1]):
        masks = masks.squeeze(0 if masks.shape[0] == 1 else -1)
    if masks.ndim not in (2, 3):
        raise ValueError(f"masks are (height, width) or (objects, height, width), got an array of shape {masks.shape}")
    if masks.dtype.kind == "f":
        masks = masks > 0.5 if masks.max(initial=0) <= 1 else masks.astype(np.int64)
    objects = [masks == number for number in np.unique(masks) if number] if masks.ndim == 2 else list(masks != 0)
    numbers = [int(number) for number in np.unique(masks) if number] if masks.ndim == 2 else range(1, len(masks) + 1)
    result = pixels.astype(np.float64)
    for number, region in zip(numbers, objects):
        rows = np.arange(pixels.shape[0]) * region.shape[0] // pixels.shape[0]
        columns = np.arange(pixels.shape[1]) * region.shape[1] // pixels.shape[1]
        here = region[rows][:, columns]
        color = np.array(of_class(int(number) - 1), float)
        result[here] = result[here] * (1 - OPACITY) + color * OPACITY
        result[_edge(here)] = color
    return result.round().astype(np.uint8)


def _edge(region: np.ndarray) -> np.ndarray:
    """The pixels of a region that have a neighbour outside of it."""
    inner = np.pad(region, 1, mode="edge")
    inside = inner[:-2, 1:-1] & inner[2:, 1:-1] & inner[1:-1, :-2] & inner[1:-1, 2:]
    return region & ~inside


def boxed(
    pixels: np.ndarray, boxes: np.ndarray, size: tuple[int, int], box_format: str, words: list[str]
) -> np.ndarray:
    """The picture with boxes on it; boxes in pixels refer to an image of ``size`` (width, height)."""
    boxes = np.asarray(boxes, np.float64).reshape(-1, 4) if np.size(boxes) else np.zeros((0, 4))
    if box_format not in ("ltrb", "xywh"):
        raise ValueError(f"box_format must be 'ltrb' or 'xywh', got {box_format!r}")
    if box_format == "xywh":
        boxes = np.concatenate([boxes[:, :2], boxes[:, :2] + boxes[:, 2:]], 1)
    sheet = Canvas.over(pixels)
    for number, corners in enumerate(boxes):
        left, top, right, bottom = (corners.reshape(2, 2) * factors(boxes, size, pixels)).ravel()
        color = of_class(number)
        sheet.box(left - 1, top - 1, right + 1, bottom + 1, (20, 20, 20), 3)
        sheet.box(left, top, right, bottom, color, 2 if min(pixels.shape[:2]) > 90 else 1)
    for number, corners in enumerate(boxes[: len(words)]):  # words are drawn last, on top of all boxes
        left, top, _, _ = (corners.reshape(2, 2) * factors(boxes, size, pixels)).ravel()
        if words[number]:
            color = of_class(number)
            above = top - SMALL - 4 if top > SMALL + 4 else top
            place = min(max(left, 0), max(0, pixels.shape[1] - width_of(words[number], SMALL) - 6))
            sheet.box(place, above, place + width_of(words[number], SMALL) + 6, above + SMALL + 3, color)
            sheet.text(place + 3, above, words[number], (20, 20, 20), SMALL)
    return sheet.pixels()


def pointed(pixels: np.ndarray, points: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """The picture with points (x, y) on it; a point whose third number is 0 is left out."""
    points = np.asarray(points, np.float64)
    if points.ndim != 2 or points.shape[1] not in (2, 3):
        raise ValueError(f"keypoints are (points, 2) or (points, 3), got an array of shape {points.shape}")
    shown = points if points.shape[1] == 2 else points[points[:, 2] > 0]
    sheet = Canvas.over(pixels)
    radius = 2 if min(pixels.shape[:2]) < 90 else 3
    for number, place in enumerate(shown[:, :2] * factors(points[:, :2], size, pixels)):
        sheet.dot(place[0], place[1], radius, of_class(number), PAPER)
    return sheet.pixels()


def factors(places: np.ndarray, size: tuple[int, int], pixels: np.ndarray) -> Any:
    """The factors from positions to pixels of the picture. If no value is above 1, positions are fractions of the image."""
    height, width = pixels.shape[:2]
    if places.size and np.abs(places).max() <= 1.001:
        return np.array([width, height])
    return np.array([width / size[0], height / size[1]])
