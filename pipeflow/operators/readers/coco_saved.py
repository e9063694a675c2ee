"""Annotations of COCO saved as tables of numbers in a folder, which load faster than JSON. The files are those of DALI.

A table is the number of its rows, of 32 bits, and its rows. The numbers are little-endian. A table without rows has no file.
"""

import os
from typing import Any

import numpy as np

from pipeflow.errors import BadData
from pipeflow.operators.readers.coco_annotations import FARTHEST, Annotations, Mask
from pipeflow.operators.readers.files import joined, read_file

_NAMES = "filenames.dat"
_MOST = 2**31 - 1
_COUNTED = (("polygons_count.dat", "polygon_offset.dat"), ("vertices_count.dat", "vertices_offset.dat"))


def save(folder: str, known: Annotations, *, polygons: bool, pixels: bool, ids: bool, ratio: bool) -> None:
    """Writes the annotations, with the masks and ids if the reader returns them. The folder is made if it is missing."""
    os.makedirs(folder, exist_ok=True)
    counts = np.diff(known.ends)
    tables = {"offsets.dat": known.ends[:-1].astype("<i4"), "counts.dat": counts.astype("<i4")}
    tables |= {"boxes.dat": known.boxes.astype("<f4").ravel(), "labels.dat": known.labels.astype("<i4")}
    if pixels:
        tables |= {
            name: known.images[:, column].astype("<i4") for name, column in (("heights.dat", 1), ("widths.dat", 2))
        }
        tables |= _coded(known)
    if polygons or pixels:
        tables |= _outlines(known, ratio and not pixels)
    if ids:
        tables["original_ids.dat"] = known.images[:, 0].astype("<i4")
    contents = {name: _counted(name, table) for name, table in tables.items() if len(table)}
    masks = [coded for _, coded in known.masks if coded is not None] if pixels else []
    if masks:
        contents["masks_rles.dat"] = np.int32(len(masks)).tobytes() + b"".join(
            np.array([*size, len(runs)], "<u8").tobytes() + runs.astype("<u4").tobytes() for runs, size in masks
        )
    contents[_NAMES] = "".join(f"{name}\n" for name in known.names).encode()
    for name, content in contents.items():
        _write(os.path.join(folder, name), content)


def _write(path: str, content: bytes) -> None:
    """Writes a file under another name and renames it: a process that reads it meanwhile gets one of both versions."""
    partial = f"{path}.{os.getpid()}.part"
    try:
        with open(partial, "wb") as file:
            file.write(content)
        os.replace(partial, path)
    except BaseException:
        if os.path.exists(partial):
            os.remove(partial)
        raise


def _counted(name: str, table: np.ndarray) -> bytes:
    if len(table) > _MOST:
        raise ValueError(f"{name} would have {len(table)} rows; such a file holds {_MOST}")
    return np.int32(len(table)).tobytes() + table.tobytes()


def _offsets(counts: list[int]) -> np.ndarray:
    return np.cumsum([0, *counts])[:-1].astype("<i8")


def _outlines(known: Annotations, ratio: bool) -> dict[str, np.ndarray]:
    """Rows of (object, first vertex, end of vertices) of every image, and the vertices."""
    rows: list[tuple[int, int, int]] = []
    parts: list[np.ndarray] = [np.empty((0, 2), np.float32)]
    counts: tuple[list[int], list[int]] = ([], [])
    for image, (begin, end) in enumerate(zip(known.ends[:-1].tolist(), known.ends[1:].tolist())):
        polygons = [(item - begin, polygon) for item in range(begin, end) for polygon in known.masks[item][0]]
        ends = np.cumsum([0] + [len(polygon) for _, polygon in polygons]).tolist()
        rows += [(item, ends[place], ends[place + 1]) for place, (item, _) in enumerate(polygons)]
        scale = known.images[image, [2, 1]].astype(np.float32) if ratio else np.float32(1)
        parts += [polygon / scale for _, polygon in polygons]
        counts[0].append(len(polygons))
        counts[1].append(ends[-1])
    tables = {"polygon_data.dat": np.array(rows, "<i4").reshape(-1, 3)}
    tables["vertices.dat"] = np.concatenate(parts).astype("<f4")
    for (count, offset), numbers in zip(_COUNTED, counts):
        tables |= {count: np.array(numbers, "<i8"), offset: _offsets(numbers)}
    return tables


def _coded(known: Annotations) -> dict[str, np.ndarray]:
    """Which objects of every image have masks of run lengths."""
    coded = [
        [item for item in range(begin, end) if known.masks[item][1] is not None]
        for begin, end in zip(known.ends[:-1].tolist(), known.ends[1:].tolist())
    ]
    counts = [len(items) for items in coded]
    places = [item - begin for begin, items in zip(known.ends[:-1].tolist(), coded) for item in items]
    return {
        "mask_count.dat": np.array(counts, "<i8"),
        "masks_offset.dat": _offsets(counts),
        "masks_rles_idx.dat": np.array(places, "<i4"),
    }


class _Folder:
    """The tables of a folder, checked as they are read."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def path(self, name: str) -> str:
        """That of a table."""
        return joined(self.folder, name)

    def table(self, name: str, dtype: str, rows: int, columns: int = 1, needed_by: str = "") -> np.ndarray:
        """The rows of a table, of which there must be ``rows``."""
        if not rows:
            return np.empty((0, columns)[: 1 if columns == 1 else 2], dtype)
        data = self.bytes_of(name, needed_by)
        found = int(data[:4].view("<i4")[0]) if data.size >= 4 else -1
        length = 4 + found * columns * np.dtype(dtype).itemsize
        if found < 0 or data.size != length:
            raise BadData(f"{self.path(name)} states {found} rows, which take {length} bytes, and has {data.size}")
        if found != rows:
            raise BadData(f"{self.path(name)} has {found} rows, but {rows} are needed")
        table = data[4:].view(dtype)
        return table if columns == 1 else table.reshape(-1, columns)

    def bytes_of(self, name: str, needed_by: str) -> np.ndarray:
        """The bytes of a file; an error about a missing one says which argument needs it."""
        try:
            return read_file(self.path(name))
        except FileNotFoundError as error:
            if needed_by:
                error.add_note(f"{needed_by} needs this file: save the annotations with {needed_by} too")
            raise

    def parts(self, counts: str, offsets: str, dtype: str, images: int, needed_by: str = "") -> np.ndarray:
        """Where the rows of each image begin in another table, one image after the other, and their number in all."""
        numbers = self.table(counts, dtype, images, needed_by=needed_by)
        places = self.table(offsets, dtype, images, needed_by=needed_by)
        if (numbers < 0).any() or (numbers > _MOST).any():
            raise BadData(f"{self.path(counts)} has the number {int(numbers.min())} or {int(numbers.max())}")
        ends = np.concatenate([[0], np.cumsum(numbers, dtype=np.int64)])
        if (places != ends[:-1]).any():
            raise BadData(f"{self.path(offsets)} does not agree with {counts}")
        return ends


def load(folder: str, *, polygons: str, pixels: str, ids: str) -> Annotations:
    """The annotations of a folder. The last three are the names of the arguments that need more tables, or empty."""
    saved = _Folder(folder)
    try:
        names = saved.bytes_of(_NAMES, "").tobytes().decode().split("\n")
    except UnicodeDecodeError as error:
        raise BadData(f"{saved.path(_NAMES)} is not text: {error}") from None
    if names.pop() or not names or not all(name and name.isprintable() for name in names):
        raise BadData(f"{saved.path(_NAMES)} must have a name on each line")
    count = len(names)
    ends = saved.parts("counts.dat", "offsets.dat", "<i4", count)
    boxes = saved.table("boxes.dat", "<f4", 4 * int(ends[-1])).reshape(-1, 4).astype(np.float32)
    if not np.isfinite(boxes).all():
        raise BadData(f"{saved.path('boxes.dat')} has a number that is not finite")
    labels = saved.table("labels.dat", "<i4", len(boxes)).astype(np.int32)
    images = np.ones((count, 3), np.int32)
    if ids:
        images[:, 0] = saved.table("original_ids.dat", "<i4", count, needed_by=ids)
    masks: list[Mask] = []
    if polygons or pixels:
        masks = [(outline, None) for outline in _saved_outlines(saved, ends, polygons or pixels)]
    if pixels:
        for column, name in ((1, "heights.dat"), (2, "widths.dat")):
            images[:, column] = saved.table(name, "<i4", count, needed_by=pixels)
        if (images[:, 1:] < 1).any():
            raise BadData(f"{saved.path('heights.dat')} or widths.dat has an extent below 1")
        for item, coded in _saved_runs(saved, ends, pixels):
            masks[item] = masks[item][0], coded
    return Annotations(folder, names, images, ends, boxes, labels, masks)


def _saved_outlines(saved: _Folder, ends: np.ndarray, needed_by: str) -> list[list[np.ndarray]]:
    """The polygons of every object."""
    images = len(ends) - 1
    of_rows, of_vertices = (saved.parts(*names, "<i8", images, needed_by) for names in _COUNTED)
    rows = saved.table("polygon_data.dat", "<i4", int(of_rows[-1]), 3, needed_by)
    vertices = saved.table("vertices.dat", "<f4", int(of_vertices[-1]), 2, needed_by).astype(np.float32)
    if not (np.abs(vertices) <= FARTHEST).all():
        raise BadData(f"{saved.path('vertices.dat')} has a vertex that leaves the image by more than {FARTHEST} pixels")
    # numbers within the image, compared with those of the image
    image = np.repeat(np.arange(images), np.diff(of_rows))
    known, limits = rows.astype(np.int64), (np.diff(ends)[image], np.diff(of_vertices)[image])
    good = (known[:, 0] >= 0) & (known[:, 0] < limits[0])
    good &= (known[:, 1] >= 0) & (known[:, 1] <= known[:, 2]) & (known[:, 2] <= limits[1])
    if not good.all():
        place = int(np.argmin(good))
        raise BadData(
            f"{saved.path('polygon_data.dat')}: polygon {place} has the object and vertices {known[place].tolist()}, but its "
            f"image has {limits[0][place]} objects and {limits[1][place]} vertices"
        )
    outlines: list[list[np.ndarray]] = [[] for _ in range(int(ends[-1]))]
    first = of_vertices[:-1][image]
    for item, start, end in zip(ends[:-1][image] + known[:, 0], first + known[:, 1], first + known[:, 2]):
        outlines[item].append(vertices[start:end])
    return outlines


def _saved_runs(saved: _Folder, ends: np.ndarray, needed_by: str) -> list[tuple[int, Any]]:
    """The objects that have masks of run lengths, with the masks."""
    parts = saved.parts("mask_count.dat", "masks_offset.dat", "<i8", len(ends) - 1, needed_by)
    if not parts[-1]:
        return []
    places = saved.table("masks_rles_idx.dat", "<i4", int(parts[-1]), needed_by=needed_by)
    image = np.repeat(np.arange(len(ends) - 1), np.diff(parts))
    if ((places < 0) | (places >= np.diff(ends)[image])).any():
        raise BadData(f"{saved.path('masks_rles_idx.dat')} names an object that its image does not have")
    path, data = saved.path("masks_rles.dat"), saved.bytes_of("masks_rles.dat", needed_by)
    if data.size < 4 or int(data[:4].view("<i4")[0]) != len(places):
        raise BadData(f"{path} does not have {len(places)} masks, as masks_rles_idx.dat has")
    found, place = [], 4
    for item in (ends[:-1][image] + places).tolist():
        if place + 24 > data.size:
            raise BadData(f"{path} ends inside of a mask, at byte {place} of {data.size}")
        height, width, count = data[place : place + 24].view("<u8").tolist()
        place += 24
        if max(height, width) > _MOST or count > (data.size - place) // 4:
            raise BadData(
                f"{path}: a mask of {height} by {width} with {count} run lengths at byte {place - 24} of {data.size}"
            )
        runs = data[place : place + 4 * count].view("<u4").astype(np.int64)
        place += 4 * count
        found.append((item, (runs, (height, width))))
    if place != data.size:
        raise BadData(f"{path} has {data.size - place} bytes after its last mask")
    return found
