"""`fn.readers.numpy`: arrays from .npy files, whole or a region of each."""

import mmap
import os
from typing import Any, Literal

import numpy as np

from pipeflow.declare import Floats, Ints, default
from pipeflow.errors import BadData
from pipeflow.operators.readers.files import (
    Listing,
    Paths,
    joined,
    matcher,
    one_source_of_files,
    open_regular,
    read_into,
    read_lines,
    strings,
)
from pipeflow.operators.readers.npy import NpyHeader, elements, header_bytes, read_header
from pipeflow.operators.readers.reader import reader
from pipeflow.operators.readers.slicing import Slice, inside

_FIRST_READ = 512  # holds the header of practically every file


@reader(
    "readers.numpy",
    no_effect={
        "cache_header_information": "reading a header again costs a few microseconds",
        "register_buffers": "it registers memory for GPUDirect Storage",
    },
    examples=['fn.readers.numpy(file_root="scans", roi_start=(10, 10), roi_shape=(64, 64))'],
)
class NumpyReader:
    """Reads arrays from .npy files: all of each file, or the region that the roi arguments cut out.

    `file_root` with `file_filter` (sub-folders included, in alphabetical order), `files`, or a `file_list`
    with one path a line say which files. Only the region is read from the disk (by memory mapping unless
    `dont_use_mmap`).
    """

    def __init__(
        self,
        *,
        file_root: str | None = default(None, "folder of the files, or that relative paths start at"),
        files: Any = default(None, "paths of the files"),
        file_list: str | None = default(None, "path of a text file with a path in each line"),
        file_filter: str = default("*.npy", "pattern that the names of files match"),
        roi_start: Ints | None = default(None, "first element of the region, along each of the axes"),
        roi_end: Ints | None = default(None, "first element behind the region, along each of the axes"),
        roi_shape: Ints | None = default(None, "extents of the region, in place of its end"),
        rel_roi_start: Floats | None = default(None, "where the region begins, as a share of the extents"),
        rel_roi_end: Floats | None = default(None, "where the region ends, as a share of the extents"),
        rel_roi_shape: Floats | None = default(None, "extents of the region, as a share of those of the array"),
        roi_axes: Ints = default((), "axes that the values are for; default: all"),
        out_of_bounds_policy: Literal["error", "pad", "trim_to_shape"] = default(
            "error",
            "what is done with a region that leaves the array: `error`, `pad` it, or `trim_to_shape` of the array",
        ),
        fill_value: float = default(0.0, "what `pad` fills with"),
        dont_use_mmap: bool = default(False, "read by reading, not by memory mapping"),
    ) -> None:
        one_source_of_files(file_list, files, file_root)
        self._listing: Listing | None = None
        if files is not None:
            found = strings(files, "files")
        elif file_list is not None:
            lines = read_lines(file_list)
            found = [line.strip() for _, line in lines]
            self._listing = Listing(file_list, (number for number, _ in lines))
            file_root = os.path.dirname(file_list) if file_root is None else file_root
        else:
            assert file_root is not None
            found = _discovered(file_root, file_filter)
        if not found:
            raise BadData(f"no .npy files found in {file_list or file_root or 'the empty list files'}")
        self._paths = Paths(joined(file_root, path) for path in found)
        self._slice = Slice(roi_start, roi_end, roi_shape, rel_roi_start, rel_roi_end, rel_roi_shape, roi_axes, "roi_")
        self._slice.check()
        self._policy = out_of_bounds_policy
        self._fill = fill_value
        self._map = not dont_use_mmap

    def __len__(self) -> int:
        return len(self._paths)

    def fetch(self, index: int) -> tuple[np.ndarray]:
        """The array of the file, or its region."""
        if self._listing is None:
            return self._read(index)
        with self._listing.naming(index):
            return self._read(index)

    def _read(self, index: int) -> tuple[np.ndarray]:
        path = self._paths[index]
        with open_regular(path) as file:
            size = os.fstat(file.fileno()).st_size
            start = file.read(_FIRST_READ)
            if (more := header_bytes(start) - len(start)) > 0 and len(start) == _FIRST_READ:
                start += file.read(more)
            header = read_header(start, size, path)
            if self._slice.empty or header.nbytes == 0:
                return (elements(read_into(file, path, header.offset, header.nbytes), header),)
            return (self._region(file, path, header),)

    def source_info(self, index: int) -> str:
        """The file's path."""
        return self._paths[index]

    def _region(self, file: Any, path: str, header: NpyHeader) -> np.ndarray:
        try:
            bounds = inside(self._slice.bounds(header.shape), header.shape, self._policy)
        except (ValueError, IndexError) as error:
            error.add_note(f"in {path}, an array of shape {header.shape}")
            raise
        if any(length < 0 for _, length in bounds):
            raise ValueError(f"roi_shape must not be negative, got {[length for _, length in bounds]} for {path}")
        inner = inside(bounds, header.shape, "trim_to_shape")
        cut = tuple(slice(start, start + length) for start, length in inner)
        native = header.dtype.newbyteorder("=")
        if self._map:
            with mmap.mmap(file.fileno(), header.offset + header.nbytes, access=mmap.ACCESS_READ) as mapped:
                flat = np.frombuffer(mapped, np.uint8, header.nbytes, header.offset)
                region = _shaped(flat, header)[cut].astype(native, order="C")
                del flat  # a mapping with living views cannot be closed
        else:
            region = _shaped(read_into(file, path, header.offset, header.nbytes), header)[cut].astype(native, "C")
        if inner == bounds:
            return region
        lengths = [length for _, length in bounds]
        padded = np.full(lengths, _as(native, self._fill), native)
        place = tuple(
            slice(low - start, low - start + length) for (start, _), (low, length) in zip(bounds, inner, strict=True)
        )
        padded[place] = region
        return padded


def _shaped(flat: np.ndarray, header: NpyHeader) -> np.ndarray:
    typed = flat.view(header.dtype)
    return typed.reshape(header.shape[::-1]).T if header.fortran else typed.reshape(header.shape)


def _as(dtype: np.dtype, value: float) -> Any:
    """A number in a dtype: integers rounded (halves away from zero) and kept in range."""
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        rounded = int(abs(value) + 0.5) * (1 if value >= 0 else -1)
        return dtype.type(min(max(rounded, limits.min), limits.max))
    return dtype.type(value)


def _discovered(root: str, pattern: str) -> list[str]:
    wanted = matcher([pattern], True)
    found = []

    def refuse(error: OSError) -> None:
        raise error

    for folder, _, files in os.walk(root, onerror=refuse):
        found += [os.path.relpath(os.path.join(folder, name), root) for name in files if wanted.match(name)]
    return sorted(found)
