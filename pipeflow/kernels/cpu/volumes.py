"""Decodes medical volumes: DICOM and NIfTI files to arrays of depth x height x width x channels.

A NIfTI file is a header of fixed length and plain numbers, and is read here. pydicom reads the many kinds of DICOM.
"""

import numpy as np

from pipeflow.kernels import cpu as kernels
from pipeflow.kernels.cpu import nifti
from pipeflow.kernels.cpu.image_base import BadImage
from pipeflow.kernels.cpu.image_limits import Limits
from pipeflow.kernels.cpu.volume_base import Region, Volume


def decode(data: np.ndarray, limits: Limits, dtype: np.dtype, region: Region | None) -> Volume:
    """The volume, or the part of it that the region returns; `dtype` is the type of the result, for the limit of bytes."""
    if nifti.starts(data):
        return nifti.decode(data, limits, dtype, region)
    if bytes(data[128:132]) == b"DICM":
        return kernels.with_pydicom.decode(data, limits, dtype, region)
    raise BadImage(f"not a DICOM or NIfTI file: it starts with {bytes(data[:12])!r}")
