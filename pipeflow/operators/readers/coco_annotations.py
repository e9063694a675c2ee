"""The annotations of a file in COCO's format as arrays, checked entry by entry."""

import itertools
import json
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from pipeflow.errors import BadData
from pipeflow.operators.readers.coco_masks import decoded_counts
from pipeflow.operators.readers.files import read_file
from pipeflow.operators.readers.places import strings

FARTHEST = 100_000  # the farthest vertex of a polygon, in pixels: the outline is computed step by step

# The polygons of an object, and the run lengths of its mask with the mask's height and width.
Mask = tuple[list[np.ndarray], tuple[np.ndarray, tuple[int, int]] | None]


@dataclass
class Annotations:
    """Images and their objects: image k has the objects from ``ends[k]`` to ``ends[k + 1]``."""

    file: str  # where they come from, for messages
    names: list[str]
    images: np.ndarray  # id, height and width of each image
    ends: np.ndarray
    boxes: np.ndarray
    labels: np.ndarray
    masks: list[Mask]  # empty if no masks are wanted

    def form(self, ltrb: bool, ratio: bool) -> None:
        """Changes the boxes, which are x, y, width and height in pixels, to the wanted form."""
        if ltrb:
            self.boxes[:, 2:] += self.boxes[:, :2]
        if ratio:
            sizes = self.images[:, [2, 1, 2, 1]].astype(np.float32)
            self.boxes /= np.repeat(sizes, np.diff(self.ends), axis=0)

    def limit(self, max_pixels: int) -> None:
        """Refuses images that are too large to be drawn."""
        for number, height, width in self.images.tolist():
            if height * width > max_pixels:
                raise BadData(
                    f"{self.file}: image {number}: {height} by {width} are more than max_pixels={max_pixels} pixels; "
                    "raise max_pixels if it is meant"
                )


def annotations(
    path: str,
    *,
    images: Any,
    skip_empty: bool,
    size_threshold: float,
    include_iscrowd: bool,
    avoid_class_remapping: bool,
    masks: bool,
) -> Annotations:
    """Those of the images that are chosen; boxes are x, y, width and height in pixels."""
    document = _load(path)
    entries = _chosen(document, images, path)
    labels = None if avoid_class_remapping else _labels_of(document, path)
    objects: dict[int, list[tuple[list[float], int, Any]]] = {entry["id"]: [] for entry in entries}
    for place, item in enumerate(_rows(document, "annotations", path, missing=False)):
        where = f"{path}: annotation {item.get('id', place)!r}"
        wanted = objects.get(_integer(item, "image_id", where))
        if wanted is None or (not include_iscrowd and item.get("iscrowd", 0)):
            continue
        box = item.get("bbox")
        if not isinstance(box, list) or len(box) != 4 or not all(map(_is_number, box)):
            raise BadData(f"{where}: bbox must be four numbers x, y, width, height, got {str(box)[:80]}")
        if box[2] < size_threshold or box[3] < size_threshold:
            continue
        category = _integer(item, "category_id", where)
        if labels is not None and category not in labels:
            raise BadData(f"{where}: category {category} is not among the categories of the file")
        wanted.append((box, category if labels is None else labels[category], (item.get("segmentation"), where)))
    if skip_empty:
        entries = [entry for entry in entries if objects[entry["id"]]]
    if not entries:
        raise BadData(f"{path} has no images to read")
    found = [item for entry in entries for item in objects[entry["id"]]]
    return Annotations(
        path,
        [entry["file_name"] for entry in entries],
        np.array([[entry["id"], entry["height"], entry["width"]] for entry in entries], np.int32),
        np.cumsum([0] + [len(objects[entry["id"]]) for entry in entries]),
        np.array([box for box, _, _ in found], np.float32).reshape(-1, 4),
        np.array([label for _, label, _ in found], np.int32),
        [_mask(*mask) for _, _, mask in found] if masks else [],
    )


def _chosen(document: Any, images: Any, path: str) -> list[dict[str, Any]]:
    """The entries of the images to read, checked, in their order. Several entries may have the same file."""
    entries: dict[str, list[dict[str, Any]]] = {}
    ids = set()
    for place, entry in enumerate(_rows(document, "images", path)):
        where = f"{path}: image {entry.get('id', place)!r}"
        for key in ("id", "width", "height"):
            _integer(entry, key, where)
        name = entry.get("file_name")
        if not isinstance(name, str) or not name or "\0" in name or not name.isprintable():
            raise BadData(f"{where}: file_name must be a name, got {str(name)[:80]!r}")
        if entry["width"] < 1 or entry["height"] < 1:
            raise BadData(f"{where}: the size is {entry['width']} by {entry['height']}")
        if entry["id"] in ids:
            raise BadData(f"{where}: two images have this id")
        ids.add(entry["id"])
        entries.setdefault(name, []).append(entry)
    if images is None:
        return sorted(itertools.chain.from_iterable(entries.values()), key=lambda entry: entry["id"])
    names = strings(images, "images")
    for name in names:
        if name not in entries:
            raise ValueError(f"'images' names {name!r}, which is not among the images of {path}")
    return [entry for name in names for entry in entries[name]]


def _labels_of(document: Any, path: str) -> dict[int, int]:
    """The label of each category: its place in the file, from 1; the first place if it occurs again."""
    labels: dict[int, int] = {}
    for number, row in enumerate(_rows(document, "categories", path, missing=False), 1):
        labels.setdefault(_integer(row, "id", f"{path}: category {number}"), number)
    return labels


def _load(path: str) -> dict[str, Any]:
    try:
        document = json.loads(read_file(path).tobytes())
    except (ValueError, RecursionError) as error:
        if isinstance(error, BadData):
            raise
        raise BadData(f"{path} is not JSON: {error}") from None
    if not isinstance(document, dict):
        raise BadData(f"{path}: expected an object with images and annotations, got {type(document).__name__}")
    return document


def _rows(document: dict[str, Any], key: str, path: str, missing: bool = True) -> list[dict[str, Any]]:
    rows = document.get(key, None if missing else [])
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise BadData(f"{path}: {key!r} must be a list of objects")
    return rows


def _is_number(value: Any) -> bool:
    if isinstance(value, int) and not isinstance(value, bool):
        return abs(value) < 2**53
    return isinstance(value, float) and math.isfinite(value) and abs(value) < 1e30


def _all_within(numbers: Any) -> bool:
    """True for a list of whole numbers that can be extents or run lengths."""
    return isinstance(numbers, list) and all(isinstance(number, int) and 0 <= number < 2**31 for number in numbers)


def _integer(row: dict[str, Any], key: str, where: str) -> int:
    value = row.get(key)
    if not isinstance(value, int) or isinstance(value, bool) or not -(2**31) <= value < 2**31:
        raise BadData(f"{where}: {key} must be a whole number of 32 bits, got {str(value)[:80]}")
    return value


def _mask(segmentation: Any, where: str) -> Mask:
    """The polygons of an object, or the run lengths and the extents of its mask."""
    if segmentation is None:
        return [], None
    if isinstance(segmentation, list):
        polygons = []
        for polygon in segmentation:
            if not isinstance(polygon, list) or len(polygon) % 2 or not all(map(_is_number, polygon)):
                raise BadData(f"{where}: a polygon must be a list of numbers x, y, got {str(polygon)[:80]}")
            if any(abs(number) > FARTHEST for number in polygon):
                raise BadData(
                    f"{where}: a polygon leaves the image by more than {FARTHEST} pixels: {str(polygon)[:80]}"
                )
            polygons.append(np.array(polygon, np.float32).reshape(-1, 2))
        return polygons, None
    if isinstance(segmentation, dict):
        size, counts = segmentation.get("size"), segmentation.get("counts")
        if isinstance(counts, str):
            counts = decoded_counts(counts)
        if isinstance(size, list) and len(size) == 2 and _all_within(size) and _all_within(counts):
            return [], (np.array(counts, np.int64), (size[0], size[1]))
    raise BadData(f"{where}: segmentation must be polygons, or size and counts, got {str(segmentation)[:80]}")
