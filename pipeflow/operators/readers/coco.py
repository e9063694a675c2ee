"""`fn.readers.coco`: images with their boxes, labels and masks from an annotation file in COCO's format."""

from typing import Any

import numpy as np

from pipeflow.declare import Fetched, Room, Spec, default, find
from pipeflow.errors import BadData
from pipeflow.operators.readers import coco_saved, remote
from pipeflow.operators.readers.coco_annotations import annotations
from pipeflow.operators.readers.coco_masks import filled, runs
from pipeflow.operators.readers.files import Paths, read_file
from pipeflow.operators.readers.places import local, strings
from pipeflow.operators.readers.reader import reader


def _outputs(args: Any) -> int:
    polygons = bool(args.polygon_masks or args.masks)
    return 3 + 2 * polygons + bool(args.pixelwise_masks) + bool(args.image_ids)


@reader(
    "readers.coco",
    urls=True,
    outputs=_outputs,
    former={
        "dump_meta_files": "save_preprocessed_annotations",
        "dump_meta_files_path": "save_preprocessed_annotations_dir",
        "meta_files_path": "preprocessed_annotations",
        "save_img_ids": "image_ids",
    },
    examples=['fn.readers.coco(file_root="train2017", annotations_file="instances_train2017.json", ratio=True)'],
)
class CocoReader:
    """Reads encoded images with the boxes and the labels of their objects.

    A box is x, y, width and height in pixels, float32; a label is int32. `polygon_masks` adds a row (object, first vertex, end
    of vertices) for each polygon and the vertices; `pixelwise_masks` adds an image of labels, 0 for pixels without an object,
    the higher label if two overlap; `image_ids` adds the image's id, last. Images come in the order of their ids.

    `save_preprocessed_annotations` writes what the reader has read to a folder, with the masks and ids that it returns. A reader
    with `preprocessed_annotations` reads this folder, which takes less time than a large JSON file. What was chosen and the form
    of the boxes are those with which the folder was saved. DALI reads and writes the same files.
    """

    def __init__(
        self,
        *,
        file_root: Any = default(None, "folder of the names of the images, or its URL"),
        annotations_file: str | None = default(None, "path or URL of the annotations, a JSON file"),
        preprocessed_annotations: str = default("", "folder of saved annotations, instead of `annotations_file`"),
        save_preprocessed_annotations: bool = default(False, "save the annotations for `preprocessed_annotations`"),
        save_preprocessed_annotations_dir: str = default("", "the folder in which they are saved"),
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
        if bool(save_preprocessed_annotations) != bool(save_preprocessed_annotations_dir):
            raise ValueError("'save_preprocessed_annotations' and 'save_preprocessed_annotations_dir' need each other")
        if bool(preprocessed_annotations) == (annotations_file is not None):
            raise ValueError("give one of 'annotations_file' and 'preprocessed_annotations'")
        self._ids, self._pixels, self._numbers = image_ids, pixelwise_masks, masks
        self._polygons = polygon_masks or masks
        if preprocessed_annotations:
            given = {"ltrb": ltrb, "ratio": ratio, "skip_empty": skip_empty, "size_threshold": size_threshold != 0.1}
            given |= {"include_iscrowd": not include_iscrowd, "avoid_class_remapping": avoid_class_remapping}
            given |= {"images": images is not None, "save_preprocessed_annotations": save_preprocessed_annotations}
            wrong = [repr(name) for name, value in given.items() if value]
            if wrong:
                raise ValueError(
                    f"{', '.join(wrong)}: not possible with 'preprocessed_annotations', which has what the folder was saved with"
                )
            self._ratio = False
            known = coco_saved.load(
                local(preprocessed_annotations),
                polygons="masks" if masks else "polygon_masks" if polygon_masks else "",
                pixels="pixelwise_masks" if pixelwise_masks else "",
                ids="image_ids" if image_ids else "",
            )
        else:
            self._ratio = ratio
            known = annotations(
                local(str(annotations_file)),
                images=images,
                skip_empty=skip_empty,
                size_threshold=size_threshold,
                include_iscrowd=include_iscrowd,
                avoid_class_remapping=avoid_class_remapping,
                masks=self._polygons or pixelwise_masks,
            )
            known.form(ltrb, ratio)
        if pixelwise_masks:
            known.limit(max_pixels)
        if save_preprocessed_annotations:
            coco_saved.save(
                local(save_preprocessed_annotations_dir),
                known,
                polygons=self._polygons,
                pixels=pixelwise_masks,
                ids=image_ids,
                ratio=ratio,
            )
        self._known = known
        root = None if file_root is None else local(strings(file_root, "file_root")[0])
        self._paths = Paths(known.names, root)
        self.far = any(map(remote.is_url, self._paths))

    def __len__(self) -> int:
        return len(self._paths)

    def fetch(self, index: int) -> tuple[np.ndarray, ...]:
        """The file's bytes, the boxes, the labels and the other wanted outputs."""
        try:
            data = read_file(self._paths[index])
        except Exception as error:
            error.add_note(f"listed in {self._known.file}")
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
        known = self._known
        begin, end = int(known.ends[index]), int(known.ends[index + 1])
        number, height, width = known.images[index].tolist()
        labels = known.labels[begin:end].copy()
        outputs = [known.boxes[begin:end].copy(), labels]
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
            for polygon in self._known.masks[item][0]:
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
        image, file = np.zeros((height, width), np.int32), self._known.file
        for item in np.argsort(labels, kind="stable").tolist():
            polygons, coded = self._known.masks[begin + item]
            for polygon in polygons:
                image[filled(polygon, height, width)] = labels[item]
            if coded is not None:
                counts, (rows, columns) = coded
                if (rows, columns) != (height, width):
                    raise BadData(f"{file}: a mask of {rows} by {columns} for an image of {height} by {width}")
                if int(counts.sum()) != height * width:
                    raise BadData(f"{file}: a mask of {counts.sum()} pixels for an image of {height} by {width}")
                image[runs(counts, height, width)] = labels[item]
        return image[:, :, None]

    def source_info(self, index: int) -> str:
        """The path of the image."""
        return self._paths[index]

    def source_name(self, index: int) -> str:
        """The name of the image in the annotations."""
        return self._paths.short(index)


@find("readers.coco").infer
def _(_specs: tuple[Spec, ...], args: Any) -> tuple[Spec, ...]:
    found = [Spec()] * _outputs(args)
    if args.pixelwise_masks:
        found[3] = Spec((None, None, 1), np.int32, "HWC")
    return tuple(found)
