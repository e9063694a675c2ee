"""Decoders of volumes: DICOM and NIfTI files to arrays of depth x height x width x channels."""

from typing import Any

import numpy as np

from pipeflow.declare import UNKNOWN, Args, DType, Sample, Spec, operator, parameters
from pipeflow.kernels import cpu as kernels
from pipeflow.operators import geometry
from pipeflow.operators.decoders import check_options
from pipeflow.operators.encoded import encoded
from pipeflow.operators.windows import CROP_WINDOW, crop_extents, place_window
from pipeflow.types import FLOAT, as_dtype, saturate

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

    def region(shape: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        sizes = crop_extents("DHW", shape, args)
        return tuple(place_window("DHW", shape, sizes, args)), tuple(sizes)

    return _decoded(data, args, region)


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
