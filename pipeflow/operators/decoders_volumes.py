"""Decoders of volumes: DICOM and NIfTI files to arrays of depth x height x width x channels."""

from collections.abc import Callable
from functools import lru_cache, partial
from struct import Struct
from struct import error as StructError
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from pipeflow.declare import UNKNOWN, Args, DType, Sample, Spec, operator, parameters
from pipeflow.kernels import cpu as kernels
from pipeflow.operators import geometry
from pipeflow.operators.decoders import check_options
from pipeflow.operators.encoded import encoded
from pipeflow.operators.windows import CROP_WINDOW, crop_extents, place_window
from pipeflow.types import FLOAT, as_dtype, saturate

if TYPE_CHECKING:
    from pipeflow.kernels.cpu.volume_base import Region

PAGE = """The formats are DICOM and NIfTI, both versions, also compressed by gzip.
[More formats](../formats.md#volumes) lists what is supported.
"""

DECODE_VOLUME = parameters(
    dtype=(DType, as_dtype(FLOAT), "type of the result; values are rounded and limited to its range, not scaled to it"),
    rescale=(
        bool,
        True,
        "multiply by the slope of the file and add its intercept, which gives Hounsfield units for CT; False: as stored",
    ),
    max_pixels=(int, None, "maximum number of voxels; default: 134217728, and fewer for a file of a few kilobytes"),
    max_bytes=(int, None, "maximum number of bytes of a decoded volume; default: 2 GiB"),
)


@operator("decoders.volume", takes=DECODE_VOLUME, dtypes="uint8 text", examples=["fn.decoders.volume(encoded_volume)"])
def volume(data: Sample, /, *, args: Args) -> Sample:
    """Decodes DICOM and NIfTI files; the output has the layout DHWC.

    The frames of a DICOM file are the depth. The axes of a NIfTI file are stored as width, height, depth and time; the times
    become channels. DICOM needs pydicom (``pip install pydicom``), NIfTI no library.
    """
    return _decoded(data, args, None)


@operator(
    "decoders.volume_crop",
    takes=CROP_WINDOW | DECODE_VOLUME,
    dtypes="uint8 text",
    examples=["fn.decoders.volume_crop(encoded_volume, crop=(2, 3, 4))"],
)
def volume_crop(data: Sample, /, *, args: Args) -> Sample:
    """Decodes a window of each volume, given as in ``fn.crop``; frames of DICOM outside of it are not decoded."""
    return _decoded(data, args, partial(crop_region, args))


# The length of a NIfTI-1 header, the number of axes, seven extents, type, place of the numbers, slope, intercept, and the mark
_HEADER = Struct("<i36x8h14xh36x3f224x3s")
_STORED = {2: np.uint8, 4: np.int16, 8: np.int32, 16: np.float32, 256: np.int8, 512: np.uint16}
_WIDE = {as_dtype(FLOAT), np.dtype(np.float64)}  # these hold every number


class PlainVolume(NamedTuple):
    """The numbers of a file: their extents, type and place, and the part of them that is wanted."""

    extents: tuple[int, ...]
    dtype: np.dtype
    place: int
    part: tuple[slice, ...]


def plain_volume(args: Any, length: int, region: "Region | None") -> Callable[[bytes], PlainVolume | None]:
    """A function of the header of a small, uncompressed file of three axes; None for any other file."""
    most, limits = args.max_pixels, kernels.image_limits
    room = limits.MAX_BYTES if args.max_bytes is None else args.max_bytes
    most = min(limits.SMALL_IMAGE if most is None else most, room // 8)
    kinds = {code: np.dtype(kind) for code, kind in _STORED.items()}

    @lru_cache(maxsize=64)  # files of a data set often have equal headers
    def read(head: bytes) -> PlainVolume | None:
        try:
            size, axes, *extents, code, place, slope, intercept, mark = _HEADER.unpack_from(head)
        except StructError:
            return None
        plain = size == 348 and axes == 3 and mark == b"n+1" and 352 <= place < 1 << 20 and code in kinds
        width, height, depth = extents[:3]
        if not plain or min(width, height, depth) < 1 or (args.rescale and (slope != 1 or intercept != 0)):
            return None
        voxels, kind, shape = depth * height * width, kinds[code], (depth, height, width)
        starts, sizes = ((0, 0, 0), shape) if region is None else region(shape)
        inside = all(
            begin >= 0 and size > 0 and begin + size <= full for begin, size, full in zip(starts, sizes, shape)
        )
        if voxels > most or place + voxels * kind.itemsize > length or not inside:
            return None
        part = tuple(slice(begin, begin + size) for begin, size in zip(starts, sizes))
        return PlainVolume((*shape, 1), kind, int(place), part)

    return read


def short_decoder(spec: Spec, args: Any, region: "Region | None") -> Any:
    """`_decoded` for files of one length, with a shorter way for plain ones."""
    dtype = as_dtype(args.dtype)
    if spec.dtype != np.uint8 or spec.ndim != 1 or dtype not in _WIDE:
        return None
    read, array = plain_volume(args, spec.shape[0], region), np.ndarray

    def run(data: np.ndarray) -> np.ndarray:
        found = read(data[: _HEADER.size].tobytes())
        if found is None:
            return _decoded(data, args, region)
        extents, kind, place, part = found
        stored = array(extents, kind, data, place)
        return (stored if region is None else stored[part]).astype(dtype)

    return run


volume.ready(lambda specs, args: short_decoder(specs[0], args, None))
volume_crop.ready(lambda specs, args: short_decoder(specs[0], args, partial(crop_region, args)))


def crop_region(args: Any, shape: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """First elements and extents of the window in a volume of this shape."""
    sizes = crop_extents("DHW", shape, args)
    return tuple(place_window("DHW", shape, sizes, args)), tuple(sizes)


def _decoded(data: np.ndarray, args: Any, region: Any) -> np.ndarray:
    limits, dtype = kernels.image_limits.Limits(args.max_pixels, args.max_bytes), as_dtype(args.dtype)
    stored, slope, intercept = kernels.volumes.decode(encoded(data, "an encoded volume"), limits, dtype, region)
    if not args.rescale or (slope.size == 1 and slope[0] == 1 and intercept[0] == 0):
        return saturate(stored, dtype)
    if np.isnan(slope).any():
        raise ValueError(
            "the DICOM file has a table for its values (Modality LUT): rescale=False returns them as stored"
        )
    wide = np.float64 if stored.dtype.itemsize > 2 or dtype.itemsize > 4 else np.float32
    values = stored.astype(wide)
    values *= slope.astype(wide).reshape(-1, 1, 1, 1)
    values += intercept.astype(wide).reshape(-1, 1, 1, 1)
    return saturate(values, dtype)


@volume.infer
def _(_specs: tuple[Spec, ...], args: Any) -> Spec:
    return Spec((UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN), args.dtype, "DHWC")


@volume_crop.infer
def _(_specs: tuple[Spec, ...], args: Any) -> Spec:
    unknown: Any = UNKNOWN
    return Spec((*crop_extents("DHW", (unknown, unknown, unknown), args), UNKNOWN), args.dtype, "DHWC")


volume.check(check_options)


@volume_crop.check
def _(args: Any) -> None:
    check_options(args)
    geometry.check_rounding(args)
