"""DICOM by pydicom, which reads every syntax of the format; its decoders for compressed frames are separate packages."""

import io
from typing import Any

import numpy as np
import pydicom
from pydicom.encaps import generate_frames
from pydicom.pixels import apply_color_lut, iter_pixels

from pipeflow.kernels.cpu import image_headers
from pipeflow.kernels.cpu.image_base import BadImage
from pipeflow.kernels.cpu.image_limits import Limits
from pipeflow.kernels.cpu.volume_base import Region, Volume, window_of

_DEFLATED = b"1.2.840.10008.1.2.1.99"


def decode(data: np.ndarray, limits: Limits, dtype: np.dtype, region: Region | None) -> Volume:
    """The frames as the depth of a volume, or a part of them; frames outside the part are not decoded."""
    raw = data.tobytes()
    if _DEFLATED in raw:
        raise BadImage("a DICOM file that is deflated as a whole is not decoded: its size is not known before")
    try:
        described = pydicom.dcmread(io.BytesIO(raw), stop_before_pixels=True)
        shape, stored = _extents(described)
    except BadImage:
        raise
    except Exception as error:  # pydicom raises many types of exceptions for damaged files
        raise BadImage(f"cannot decode the DICOM file ({len(raw)} bytes): {_words(error)}") from None
    part = window_of("DICOM", shape, stored, len(raw), limits, dtype, region)
    try:
        whole = pydicom.dcmread(io.BytesIO(raw))
        _check_frames(whole, shape)
        chosen = range(part[0].start, part[0].stop)
        frames = [np.array(_frame(frame, shape, whole)[part[1:]]) for frame in iter_pixels(whole, indices=chosen)]
        slope, intercept = _scale(whole, chosen)
    except BadImage:
        raise
    except Exception as error:
        raise BadImage(f"cannot decode the DICOM file ({len(raw)} bytes): {_words(error)}") from None
    if len(frames) != len(chosen):
        raise BadImage(f"truncated DICOM file: {len(frames)} of {len(chosen)} frames")
    return Volume(np.stack(frames), slope, intercept)


def _words(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"


def _extents(described: Any) -> tuple[tuple[int, ...], np.dtype]:
    """(frames, rows, columns, samples), and the type of the samples."""
    numbers = [described.get(name, 1) for name in ("NumberOfFrames", "Rows", "Columns", "SamplesPerPixel")]
    if "Rows" not in described or "Columns" not in described:
        raise BadImage("a DICOM file without an image: it has no Rows and Columns")
    shape = tuple(int(1 if number is None else number) for number in numbers)
    bits = int(described.BitsAllocated)
    if bits not in (1, 8, 16, 32, 64):
        raise BadImage(f"a DICOM file of {bits} bits is not decoded")
    channels = 3 if _has_palette(described) else shape[3]
    return (max(shape[0], 1), *shape[1:3], channels), np.dtype(f"u{max(bits // 8, 1)}")


def _has_palette(described: Any) -> bool:
    return bool(described.get("PhotometricInterpretation") == "PALETTE COLOR")


def _check_frames(whole: Any, shape: tuple[int, ...]) -> None:
    """Raises an error for compressed frames that are larger than the file states."""
    if not whole.file_meta.TransferSyntaxUID.is_encapsulated:
        return
    for frame in generate_frames(whole.PixelData, number_of_frames=shape[0]):
        if frame[:2] == b"\xff\xd8" or frame[:4] == b"\xff\x4f\xff\x51":
            try:
                header = image_headers.read(frame)
            except BadImage:
                continue  # such as lossless JPEG, which pydicom may decode
            if header.height * header.width > shape[1] * shape[2]:
                raise BadImage(f"damaged DICOM file: {shape[2]} x {shape[1]} pixels are stated, a frame has {header}")


def _frame(frame: np.ndarray, shape: tuple[int, ...], whole: Any) -> np.ndarray:
    """A frame of (rows, columns, samples), with the colours of a palette in place of their numbers."""
    if _has_palette(whole):
        frame = apply_color_lut(frame, whole)[..., :3]  # a fourth column would be alpha
    if frame.size != shape[1] * shape[2] * shape[3]:
        raise BadImage(f"damaged DICOM file: a frame of shape {frame.shape}, and {shape[1:]} is stated")
    return frame.reshape(shape[1:])


def _scale(whole: Any, chosen: range) -> tuple[np.ndarray, np.ndarray]:
    """The slope and intercept of each frame, or of all."""
    if "ModalityLUTSequence" in whole:
        return np.array([np.nan]), np.array([np.nan])
    shared = _of_group(whole.get("SharedFunctionalGroupsSequence"), 0) or _pair(whole)
    each = whole.get("PerFrameFunctionalGroupsSequence")
    pairs = [_of_group(each, index) or shared or (1.0, 0.0) for index in chosen]
    pairs = pairs[:1] if len(set(pairs)) == 1 else pairs
    return np.array([pair[0] for pair in pairs]), np.array([pair[1] for pair in pairs])


def _of_group(groups: Any, index: int) -> tuple[float, float] | None:
    if not groups or index >= len(groups):
        return None
    values = groups[index].get("PixelValueTransformationSequence")
    return _pair(values[0]) if values else None


def _pair(source: Any) -> tuple[float, float] | None:
    slope, intercept = source.get("RescaleSlope"), source.get("RescaleIntercept")
    if slope is None and intercept is None:
        return None
    return float(1 if slope is None else slope), float(0 if intercept is None else intercept)
