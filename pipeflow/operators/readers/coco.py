"""`fn.readers.coco`: images with their boxes, labels and masks from an annotation file in COCO's format."""

import itertools
import json
import math
from typing import Any

import numpy as np

from pipeflow.declare import Fetched, Room, default, required
from pipeflow.errors import BadData
from pipeflow.operators.readers import remote
from pipeflow.operators.readers.coco_masks import decoded_counts, filled, runs
from pipeflow.operators.readers.files import Paths, joined, read_file
from pipeflow.operators.readers.places import local, strings
from pipeflow.operators.readers.reader import reader

_FARTHEST = 100_000  # the farthest vertex of a polygon, in pixels: the outline is computed step by step


def _outputs(args: Any) -> int:
    polygons = bool(args.polygon_masks or args.masks)
    return 3 + 2 * polygons + bool(args.pixelwise_masks) + bool(args.image_ids)


@reader(
    "readers.coco",
    urls=True,
    outputs=_outputs,
    examples=['fn.readers.coco(file_root="train2017", annotations_file="instances_train2017.json", ratio=True)'],
)
class CocoReader:
    """Reads encoded images with the boxes and the labels of their objects.

    A box is x, y, width and height in pixels, float32; a label is int32. `polygon_masks` adds a row (object, first vertex, end
    of vertices) for each polygon and the vertices; `pixelwise_masks` adds an image of labels, 0 for pixels without an object,
    the higher label if two overlap; `image_ids` adds the image's id, last. Images come in the order of their ids.
    """

    def __init__(
        self,
        *,
        file_root: Any = default(None, "folder of the names of the images, or its URL"),
        annotations_file: str = required("path or URL of the annotations, a JSON file"),
        ltrb: bool = default(False, "return boxes as left, top, right, bottom; False: x, y, width, height"),
        ratio: bool = default(False, "return coordinates as fractions of the image's width and height"),
        polygon_masks: bool = default(
            False, "add the polygons of the masks: rows of (object, start, end), and vertices"
        ),
        masks: bool = default(False, "add the polygons with starts and ends that count numbers, two for each vertex"),
        pixelwise_masks: bool = default(False, "add an image with the label of the object at each pixel"),
        image_ids: bool = default(False, "add the id of the image, the last output"),
        skip_empty: bool = default(False, "leave out images without a box"),
        size_threshold: float = default(0.1, "boxes with a side of fewer pixels are left out"),
        include_iscrowd: bool = default(True, "read annotations of crowds too"),
        avoid_class_remapping: bool = default(
            False, "labels are the categories' ids; False: their numbers in the file, from 1"
        ),
        images: Any = default(None, "names of the images to read, in this order; default: all of the file"),
        max_pixels: int = default(1 << 27, "maximum number of pixels of an image for `pixelwise_masks`"),
    ) -> None:
        if polygon_masks + masks + pixelwise_masks > 1:
            raise ValueError("only one of 'polygon_masks', 'masks' and 'pixelwise_masks' can be given")
        annotations_file = local(annotations_file)
        self._file = annotations_file
        self._ltrb, self._ratio, self._ids = ltrb, ratio, image_ids
        self._polygons, self._numbers, self._pixels = polygon_masks or masks, masks, pixelwise_masks
        root = None if file_root is None else local(strings(file_root, "file_root")[0])
        document = _load(annotations_file)
        entries = self._chosen(document, images)
        labels = None if avoid_class_remapping else self._labels_of(document)
        objects: dict[int, list[tuple[list[float], int, Any]]] = {entry["id"]: [] for entry in entries}
        for place, item in enumerate(_rows(document, "annotations", annotations_file, missing=False)):
            where = f"{annotations_file}: annotation {item.get('id', place)!r}"
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
            raise BadData(f"{annotations_file} has no images to read")
        if pixelwise_masks:
            for entry in entries:
                if entry["height"] * entry["width"] > max_pixels:
                    raise BadData(
                        f"{annotations_file}: image {entry['id']}: {entry['height']} by {entry['width']} are more than "
                        f"max_pixels={max_pixels} pixels; raise max_pixels if it is meant"
                    )
        self._paths = Paths(joined(root, entry["file_name"]) for entry in entries)
        self.far = any(map(remote.is_url, self._paths))
        self._image = np.array([[entry["id"], entry["height"], entry["width"]] for entry in entries], np.int32)
        found = [item for entry in entries for item in objects[entry["id"]]]
        self._ends = np.cumsum([0] + [len(objects[entry["id"]]) for entry in entries])
        self._boxes = np.array([box for box, _, _ in found], np.float32).reshape(-1, 4)
        self._labels = np.array([label for _, label, _ in found], np.int32)
        self._masks = [_mask(*mask) for _, _, mask in found] if self._polygons or self._pixels else []

    def _chosen(self, document: Any, images: Any) -> list[dict[str, Any]]:
        """The entries of the images to read, checked, in their order. Several entries may have the same file."""
        entries: dict[str, list[dict[str, Any]]] = {}
        ids = set()
        for place, entry in enumerate(_rows(document, "images", self._file)):
            where = f"{self._file}: image {entry.get('id', place)!r}"
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
                raise ValueError(f"'images' names {name!r}, which is not among the images of {self._file}")
        return [entry for name in names for entry in entries[name]]

    def _labels_of(self, document: Any) -> dict[int, int]:
        """The label of each category: its place in the file, from 1; the first place if it occurs again."""
        labels: dict[int, int] = {}
        for number, row in enumerate(_rows(document, "categories", self._file, missing=False), 1):
            labels.setdefault(_integer(row, "id", f"{self._file}: category {number}"), number)
        return labels

    def __len__(self) -> int:
        return len(self._paths)

    def fetch(self, index: int) -> tuple[np.ndarray, ...]:
        """The file's bytes, the boxes, the labels and the other wanted outputs."""
        try:
            data = read_file(self._paths[index])
        except Exception as error:
            error.add_note(f"listed in {self._file}")
            raise
        return (data, *self._targets(index))

    def fetch_many(self, indices: np.ndarray, room: Room) -> Fetched | None:
        """The outputs of ``fetch`` for several samples. Files that cannot be read are missing: ``fetch`` reports the error."""
        files = self._paths.read_files(indices, room)
        if files is None:
            return None
        rows = [
            self._tried(index) if size >= 0 else None for index, size in zip(indices.tolist(), files.sizes.tolist())
        ]
        known = next((row for row in rows if row is not None), ())
        columns = [[None if row is None else row[place] for row in rows] for place in range(len(known))]
        return Fetched((files, *columns), [place for place, row in enumerate(rows) if row is None])

    def _tried(self, index: int) -> tuple[np.ndarray, ...] | None:
        try:
            return self._targets(index)
        except Exception:
            return None  # `fetch` then fails in the same way, but for one sample only

    def _targets(self, index: int) -> tuple[np.ndarray, ...]:
        begin, end = int(self._ends[index]), int(self._ends[index + 1])
        number, height, width = self._image[index].tolist()
        boxes = self._boxes[begin:end].copy()
        if self._ltrb:
            boxes[:, 2:] += boxes[:, :2]
        if self._ratio:
            boxes /= np.array([width, height, width, height], np.float32)
        labels = self._labels[begin:end].copy()
        outputs = [boxes, labels]
        if self._polygons:
            outputs += self._vertices(begin, end, np.array([width, height], np.float32))
        if self._pixels:
            outputs.append(self._drawn(begin, end, labels, height, width))
        if self._ids:
            outputs.append(np.array([number], np.int32))
        return tuple(outputs)

    def _vertices(self, begin: int, end: int, size: np.ndarray) -> list[np.ndarray]:
        rows, parts, place = [], [np.empty((0, 2), np.float32)], 0
        for item in range(begin, end):
            for polygon in self._masks[item][0]:
                rows.append((item - begin, place, place + len(polygon)))
                place += len(polygon)
                parts.append(polygon)
        table = np.array(rows, np.int32).reshape(-1, 3)
        if self._numbers:
            table[:, 1:] *= 2
        vertices = np.concatenate(parts)
        return [table, vertices / size if self._ratio else vertices]

    def _drawn(self, begin: int, end: int, labels: np.ndarray, height: int, width: int) -> np.ndarray:
        """The label of each pixel; objects of higher labels are drawn last."""
        image = np.zeros((height, width), np.int32)
        for item in np.argsort(labels, kind="stable").tolist():
            polygons, coded = self._masks[begin + item]
            for polygon in polygons:
                image[filled(polygon, height, width)] = labels[item]
            if coded is not None:
                counts, (rows, columns) = coded
                if (rows, columns) != (height, width):
                    raise BadData(f"{self._file}: a mask of {rows} by {columns} for an image of {height} by {width}")
                if int(counts.sum()) != height * width:
                    raise BadData(f"{self._file}: a mask of {counts.sum()} pixels for an image of {height} by {width}")
                image[runs(counts, height, width)] = labels[item]
        return image[:, :, None]

    def source_info(self, index: int) -> str:
        """The path of the image."""
        return self._paths[index]


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


def _mask(segmentation: Any, where: str) -> tuple[list[np.ndarray], tuple[np.ndarray, tuple[int, int]] | None]:
    """The polygons of an object, or the run lengths and the extents of its mask."""
    if segmentation is None:
        return [], None
    if isinstance(segmentation, list):
        polygons = []
        for polygon in segmentation:
            if not isinstance(polygon, list) or len(polygon) % 2 or not all(map(_is_number, polygon)):
                raise BadData(f"{where}: a polygon must be a list of numbers x, y, got {str(polygon)[:80]}")
            if any(abs(number) > _FARTHEST for number in polygon):
                raise BadData(
                    f"{where}: a polygon leaves the image by more than {_FARTHEST} pixels: {str(polygon)[:80]}"
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
