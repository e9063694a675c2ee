"""`fn.readers.numpy`: arrays from .npy files, whole or a region of each."""

import mmap
import os
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from pipeflow.declare import Arg, Args, Floats, Ints, Sample, default, find, operator, parameters
from pipeflow.operators.readers.files import Listed, open_regular, read_into, size_of
from pipeflow.operators.readers.npy import NpyHeader, elements, header_bytes, read_header
from pipeflow.operators.readers.reader import reader
from pipeflow.operators.readers.remote import is_url
from pipeflow.operators.readers.slicing import Slice, inside
from pipeflow.operators.readers.view import CACHE, latest, using

_FIRST_READ = 512  # enough for the header of nearly every file


@reader(
    "readers.numpy",
    urls=True,
    no_effect={
        "cache_header_information": "reading a header again costs a few microseconds",
        "register_buffers": "it registers memory for GPUDirect Storage",
    },
    examples=['fn.readers.numpy(file_root="scans", roi_start=(10, 10), roi_shape=(64, 64))'],
)
class NumpyReader:
    """Reads arrays from .npy files: whole files, or the region of the roi arguments.

    `file_root` with `file_filter` (sub-folders included, in alphabetical order), `files`, or a `file_list` with one
    path in each line select the files. Only the region is read from the disk (by memory mapping unless
    `dont_use_mmap`). The numbers of the region may be nodes, with a different region for each file. With ``device="gpu"``
    the arrays are read on the CPU and copied to the GPU.
    """

    def __init__(
        self,
        *,
        file_root: str | None = default(None, "folder of the files, or of relative paths"),
        files: Any = default(None, "paths of the files"),
        file_list: str | None = default(None, "path of a text file with a path in each line"),
        file_filter: str = default("*.npy", "pattern that the names of files match"),
        roi_start: Ints | None = default(None, "first element of the region, along each of the axes"),
        roi_end: Ints | None = default(None, "first element after the region, along each of the axes"),
        roi_shape: Ints | None = default(None, "extents of the region, instead of its end"),
        rel_roi_start: Floats | None = default(None, "start of the region, as a share of the extents"),
        rel_roi_end: Floats | None = default(None, "end of the region, as a share of the extents"),
        rel_roi_shape: Floats | None = default(None, "extents of the region, as a share of those of the array"),
        roi_axes: Ints = default((), "axes of the values; default: all"),
        out_of_bounds_policy: Literal["error", "pad", "trim_to_shape"] = default(
            "error", "for a region that leaves the array: `error`, `pad` it, or `trim_to_shape` of the array"
        ),
        fill_value: float = default(0.0, "value for `pad`"),
        dont_use_mmap: bool = default(False, "read the file, without memory mapping"),
    ) -> None:
        self._files = Listed(file_root, files, file_list, file_filter)
        self.far = self._files.far
        self._region = FilePart(
            Slice(roi_start, roi_end, roi_shape, rel_roi_start, rel_roi_end, rel_roi_shape, roi_axes, "roi_"),
            out_of_bounds_policy,
            fill_value,
            not dont_use_mmap,
        )
        self._region.slice.check()

    def __len__(self) -> int:
        return len(self._files)

    def fetch(self, index: int) -> tuple[np.ndarray]:
        """The array of the file, or its region."""
        with self._files.naming(index):
            return (self._region.read(self._files[index]),)

    def source_info(self, index: int) -> str:
        """The file's path."""
        return self._files[index]

    def source_name(self, index: int) -> str:
        """The file's path without `file_root`."""
        return self._files.short(index)


@dataclass(frozen=True)
class FilePart:
    """The part of a file that is read: all of it, or a slice."""

    slice: Slice
    policy: str
    fill: float
    mapped: bool

    def read(self, path: str) -> np.ndarray:
        """The array of the file, or its region."""
        with open_regular(path) as file:
            size = size_of(file)
            start = file.read(_FIRST_READ)
            if (more := header_bytes(start) - len(start)) > 0 and len(start) == _FIRST_READ:
                start += file.read(more)
            header = read_header(start, size, path)
            if self.slice.empty or header.nbytes == 0:
                return elements(read_into(file, path, header.offset, header.nbytes), header)
            return self._cut(file, path, header)

    def _cut(self, file: Any, path: str, header: NpyHeader) -> np.ndarray:
        try:
            bounds = self.slice.bounds(header.shape)
            if any(length < 0 for _, length in bounds):
                raise ValueError(f"roi_shape must not be negative, got {[length for _, length in bounds]}")
            bounds = inside(bounds, header.shape, self.policy)
        except (ValueError, IndexError) as error:
            error.add_note(f"in {path}, an array of shape {header.shape}")
            raise
        inner = inside(bounds, header.shape, "trim_to_shape")
        part = tuple(slice(start, start + length) for start, length in inner)
        native = header.dtype.newbyteorder("=")
        if self.mapped and not is_url(path):
            with mmap.mmap(file.fileno(), header.offset + header.nbytes, access=mmap.ACCESS_READ) as mapped:
                flat = np.frombuffer(mapped, np.uint8, header.nbytes, header.offset)
                region = _shaped(flat, header)[part].astype(native, order="C")
                del flat  # a mapping with living views cannot be closed
        else:
            region = _shaped(read_into(file, path, header.offset, header.nbytes), header)[part].astype(native, "C")
        if inner == bounds:
            return region
        lengths = [length for _, length in bounds]
        padded = np.full(lengths, _as(native, self.fill), native)
        place = tuple(
            slice(low - start, low - start + length) for (start, _), (low, length) in zip(bounds, inner, strict=True)
        )
        padded[place] = region
        return padded


def _shaped(flat: np.ndarray, header: NpyHeader) -> np.ndarray:
    typed = flat.view(header.dtype)
    return typed.reshape(header.shape[::-1]).T if header.fortran else typed.reshape(header.shape)


def _as(dtype: np.dtype, value: float) -> Any:
    """A number in a dtype; for integers it is rounded (halves away from zero) and limited to their range."""
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        rounded = int(abs(value) + 0.5) * (1 if value >= 0 else -1)
        return dtype.type(min(max(rounded, limits.min), limits.max))
    return dtype.type(value)


# ----------------------------------------------------------------------------------------------------
# Regions that differ from sample to sample: the reader returns the paths, and an operator reads the region of each file


@reader("readers.numpy_paths", hidden=True, urls=True)
class NumpyPaths:
    """The paths of the files, as bytes."""

    def __init__(
        self,
        *,
        file_root: str | None = default(None, "as for the reader"),
        files: Any = default(None, "as for the reader"),
        file_list: str | None = default(None, "as for the reader"),
        file_filter: str = default("*.npy", "as for the reader"),
    ) -> None:
        self._files = Listed(file_root, files, file_list, file_filter)

    def __len__(self) -> int:
        return len(self._files)

    def fetch(self, index: int) -> tuple[np.ndarray]:
        """The path of one file."""
        return (np.frombuffer(os.fsencode(self._files[index]), np.uint8),)

    def source_info(self, index: int) -> str:
        """The file's path."""
        return self._files[index]

    def source_name(self, index: int) -> str:
        """The file's path without `file_root`."""
        return self._files.short(index)


_VARYING = ("roi_start", "roi_end", "roi_shape", "rel_roi_start", "rel_roi_end", "rel_roi_shape")
_REGION = (
    parameters(
        **dict.fromkeys(_VARYING[:3], (Arg[Ints], None, "as for the reader")),
        **dict.fromkeys(_VARYING[3:], (Arg[Floats], None, "as for the reader")),
        roi_axes=(Ints, (), "as for the reader"),
        out_of_bounds_policy=(Literal["error", "pad", "trim_to_shape"], "error", "as for the reader"),
        fill_value=(float, 0.0, "as for the reader"),
        dont_use_mmap=(bool, False, "as for the reader"),
    )
    | CACHE
)


def _slice(args: Any) -> Slice:
    bounds = {name.replace("roi_", ""): getattr(args, name) for name in _VARYING}
    return Slice(**bounds, axes=args.roi_axes, prefix="roi_")


@operator("readers.numpy_region", takes=_REGION, dtypes="uint8", hidden=True)
def numpy_region(path: Sample, /, *, args: Args) -> Sample:
    """Reads the region of the file at a path."""
    region = FilePart(_slice(args), args.out_of_bounds_policy, args.fill_value, not args.dont_use_mmap)
    with using(latest(args.cache, args.cache_bytes)):
        return region.read(os.fsdecode(path.tobytes()))


@numpy_region.check
def _(args: Any) -> None:
    _slice(args).check()


find("readers.numpy").devices = ("cpu", "gpu")  # with "gpu" the arrays are copied there


@find("readers.numpy").instead(_VARYING)
def _(keywords: dict[str, Any]) -> Any:
    shared = {name: keywords[name] for name in CACHE if name in keywords}
    own = {name: keywords.pop(name) for name in list(keywords) if name in _REGION and name not in CACHE} | shared
    device = keywords.pop("device", None)
    for name in find("readers.numpy").no_effect:
        keywords.pop(name, None)
    found = numpy_region(find("readers.numpy_paths")(**keywords), **own)
    return found.gpu() if device == "gpu" else found
