"""Encoded files and paths as samples: a row of bytes, or Python's own bytes and str."""

import os

import numpy as np

_UINT8 = np.dtype(np.uint8)


def encoded(data: np.ndarray, what: str = "an encoded image") -> np.ndarray:
    """The bytes of an encoded file, one after another."""
    if data.dtype == object and data.size == 1:
        value = data.item()
        if isinstance(value, str):
            raise TypeError(
                f"{what} is bytes, and this is the text {value!r:.80}: fn.io.file.read reads the file of that name"
            )
        return np.frombuffer(value, np.uint8)
    if data.ndim != 1 or data.dtype.itemsize != 1:
        raise ValueError(f"{what} is an array of bytes with one axis, got {data.dtype} of shape {data.shape}")
    if data.dtype == _UINT8 and data.flags.c_contiguous:
        return data
    return np.ascontiguousarray(data).view(np.uint8)


def path(data: np.ndarray) -> str:
    """The path that a sample holds as text, or as bytes with or without a zero at their end."""
    name = os.fsdecode(path_bytes(data))
    if not name:
        raise ValueError("the path of the file to read is empty")
    return name


def path_bytes(data: np.ndarray) -> bytes:
    """The same path as the system gets it, which may be empty."""
    if data.dtype == object and data.size == 1 and isinstance(data.item(), str):
        return os.fsencode(data.item())
    return encoded(data, "the path of a file").tobytes().rstrip(b"\0")
