"""Effects on pixels: channels in another order, sharpening by a blurred image."""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from pipeflow.kernels.cpu.jit import BYTES, kernel, machine_code, plain
from pipeflow.kernels.cpu.simd.bytes import at_once, reorder_pixels


@kernel
def order_channels(source, order, out):
    """Puts the channels of interleaved values into another order."""
    channels = order.size
    for i in range(0, source.size, channels):
        for k in range(channels):
            out[i + k] = source[i + order[k]]


@kernel
def order_pixels(source, order, fill, out):
    reorder_pixels(source, order, fill, out, source.size // 3)


def pixels_of_bytes(source: np.ndarray, order: Sequence[int], fill: int, out: np.ndarray) -> np.ndarray:
    """Puts the channels of pixels of three bytes into another order; a negative number is replaced by the fill value."""
    order_pixels(plain(source).reshape(-1), *group_of(tuple(order), fill), out.reshape(-1))
    return out


def reordering(order_of: Callable[[int, Any], list[int]]) -> Callable[..., np.ndarray]:
    """`pixels_of_bytes` for many calls, in the order for a key."""
    reorder = machine_code(order_pixels, BYTES, *group_of((0, 1, 2), 0), BYTES)

    def run(source: np.ndarray, out: np.ndarray, key: Any) -> np.ndarray:
        reorder(source.ravel(), *group_of(tuple(order_of(3, key)), 0), out.ravel())
        return out

    return run


@lru_cache(maxsize=64)
def group_of(order: tuple[int, ...], fill: int) -> tuple[np.ndarray, np.ndarray]:
    """For each byte of a group, the place it is taken from, and the value that is filled in."""
    places = [3 * pixel + place if place >= 0 else -1 for pixel in range(at_once()) for place in order]
    values = [0 if place >= 0 else fill for _ in range(at_once()) for place in order]
    return np.array([*places, -1], np.int8), np.array([*values, 0], np.uint8)


def in_order(source: np.ndarray, order: Sequence[int], out: np.ndarray) -> np.ndarray:
    """Puts the channels, which are the last axis, into another order; for any type."""
    if source.dtype == np.uint8 and len(order) == 3:
        return pixels_of_bytes(source, order, 0, out)
    raw = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}[source.dtype.itemsize]
    order_channels(plain(source).reshape(-1).view(raw), np.array(order, np.int64), out.reshape(-1).view(raw))
    return out


def filled(source: np.ndarray, channels: Sequence[int], value: np.ndarray, out: np.ndarray) -> np.ndarray:
    """Fills some channels, which are the last axis, with a value of the image's type."""
    if source.dtype == np.uint8 and source.shape[-1] == 3:
        return pixels_of_bytes(source, [-1 if k in channels else k for k in range(3)], int(value), out)
    out[...] = source
    for channel in channels:
        out[..., channel] = value
    return out


@kernel
def unsharp_bytes(source, blurred, amount, threshold, out):
    """Increases the differences from the blurred image that are larger than a threshold."""
    for i in range(source.size):
        value = np.float32(source[i])
        difference = value - blurred[i]
        sharp = value + amount * difference
        kept = sharp if abs(difference) > threshold else value
        out[i] = np.uint8(np.int32(min(max(kept, np.float32(0)), np.float32(255)) + np.float32(0.5)))


def unsharp(source: np.ndarray, blurred: np.ndarray, amount: float, threshold: float, out: np.ndarray) -> np.ndarray:
    """Computes the unsharp mask of bytes from their blurred form in float32."""
    unsharp_bytes(
        plain(source).reshape(-1), blurred.reshape(-1), np.float32(amount), np.float32(threshold), out.reshape(-1)
    )
    return out
