"""Replaces values of bytes: inverts them, keeps a few bits, or applies a factor and an offset for each channel."""

from functools import lru_cache

import numpy as np

from pipeflow.kernels.cpu.byte_tables import BYTE, by_table, of_every_byte, translate_flat
from pipeflow.kernels.cpu.jit import BYTES, Filling, kernel, over_elements, plain, types_of
from pipeflow.kernels.cpu.later import Wanted
from pipeflow.kernels.cpu.simd.bytes import change_bits

LANES = 64  # pixels whose values are compared or computed at once


@kernel
def change_bytes(source, flipped, kept, out):
    change_bits(source, flipped, kept, out, source.size)


@kernel
def mask_bytes(source, flipped, kept, out):
    """`change_bytes` with numbers of programs."""
    change_bits(source, np.uint8(flipped), np.uint8(kept), out, source.size)


def changing_bits(flipped: int, kept: int) -> Filling:
    """A function that flips some bits of bytes, and keeps some."""
    return over_elements(change_bytes, BYTE, (np.uint8(flipped), np.uint8(kept)), BYTE)


@kernel
def solarize_bytes(source, limit, out):
    """Inverts the values from a limit on."""
    for i in range(source.size):
        value = source[i]
        out[i] = np.uint8(255) - value if value >= limit else value


@kernel
def raise_bytes(source, limit, shift, out):
    """Adds a number to the values below a limit, within the range of bytes."""
    for i in range(source.size):
        value = np.int32(source[i])
        raised = min(max(value + shift, np.int32(0)), np.int32(255))
        out[i] = np.uint8(raised if value < limit else value)


@kernel
def extremes(source, channels, low, high):
    """The smallest and the largest value of each channel of interleaved bytes."""
    width = channels * LANES
    least, most = np.full(width, np.uint8(255)), np.zeros(width, np.uint8)
    whole = source.size // width * width
    for begin in range(0, whole, width):
        block = source[begin : begin + width]
        for j in range(width):
            value = block[j]
            least[j] = min(least[j], value)
            most[j] = max(most[j], value)
    for i in range(whole, source.size):
        least[i - whole] = min(least[i - whole], source[i])
        most[i - whole] = max(most[i - whole], source[i])
    for j in range(width):
        k = j % channels
        low[k] = min(low[k], least[j])
        high[k] = max(high[k], most[j])


@kernel
def totals(source, channels, sums):
    """The sum of each channel of interleaved bytes."""
    width = channels * LANES
    part = np.zeros(width, np.uint32)
    block = width << 16  # as many bytes as a sum of 32 bits can hold
    for start in range(0, source.size, block):
        end = min(start + block, source.size)
        whole = start + (end - start) // width * width
        part[:] = 0
        for begin in range(start, whole, width):
            values = source[begin : begin + width]
            for j in range(width):
                part[j] += np.uint32(values[j])
        for j in range(width):
            sums[j % channels] += np.int64(part[j])
        for i in range(whole, end):
            sums[(i - whole) % channels] += np.int64(source[i])


@kernel(fastmath=False)
def stretch_lines(source, center, factor, offset, out):
    """Computes (value - center) * factor + offset, each step rounded to float32; the numbers repeat along the values."""
    width = center.size
    for begin in range(0, source.size, width):
        part, target = source[begin : begin + width], out[begin : begin + width]
        for j in range(part.size):
            value = (np.float32(part[j]) - center[j]) * factor[j] + offset[j]
            target[j] = np.uint8(np.int32(np.rint(min(max(value, np.float32(0)), np.float32(255)))))


@kernel
def shift_bytes(source, shifts, out):
    """Adds numbers, which repeat along the values, to bytes; results are limited to 0 to 255."""
    width = shifts.size
    for begin in range(0, source.size, width):
        part, target = source[begin : begin + width], out[begin : begin + width]
        for j in range(part.size):
            value = np.int16(np.int16(part[j]) + shifts[j])
            target[j] = np.uint8(min(max(value, np.int16(0)), np.int16(255)))


@lru_cache(maxsize=256)
def repeated(shift: tuple[float, ...]) -> np.ndarray:
    """Whole numbers from -255 to 255, repeated for many pixels."""
    return np.resize(np.clip(np.rint(shift), -255, 255).astype(np.int16), len(shift) * LANES)


def shifted(source: np.ndarray, shift: tuple[float, ...], out: np.ndarray) -> np.ndarray:
    """Adds a number for each channel, or one for all, to bytes."""
    shift_bytes(plain(source).reshape(-1), repeated(tuple(shift)), out.reshape(-1))
    return out


def shifting(shift: tuple[float, ...]) -> Filling:
    """`shifted` with these numbers."""
    return over_elements(shift_bytes, BYTE, (repeated(tuple(shift)),), BYTE)


def stretch(
    source: np.ndarray, center: np.ndarray, factor: np.ndarray, offset: np.ndarray, out: np.ndarray
) -> np.ndarray:
    """Applies a factor and an offset for each channel, or one for all, to bytes; the last axis is the channels."""
    rows = [np.resize(line.astype(np.float32), len(line) * LANES) for line in (center, factor, offset)]
    stretch_lines(plain(source).reshape(-1), *rows, out.reshape(-1))
    return out


def solarize(source: np.ndarray, limit: float, out: np.ndarray) -> np.ndarray:
    """Inverts the values that are not below a limit."""
    if not limit <= 255:
        out[...] = source
    else:
        first = solarize_limit(limit)
        by_table(lambda values, result: solarize_bytes(values, first, result), source, out)
    return out


def solarize_limit(limit: float) -> np.uint8:
    """The first byte that `solarize` inverts; the limit is at most 255."""
    return np.uint8(max(np.ceil(limit), 0))


def solarizing(limit: float) -> Filling:
    """`solarize` for many calls."""
    if not limit <= 255:
        return changing_bits(0, 255)
    return of_every_byte(solarize_bytes, solarize_limit(limit))


def raised(source: np.ndarray, limit: float, shift: int, out: np.ndarray) -> np.ndarray:
    """Adds a number to the values below a limit."""
    first, added = raise_numbers(limit, shift)
    return by_table(lambda values, result: raise_bytes(values, first, added, result), source, out)


def raise_numbers(limit: float, shift: int) -> tuple[np.int32, np.int32]:
    """The first byte that `raised` does not change, and what it adds to the others."""
    return np.int32(np.ceil(min(max(limit, 0), 256))), np.int32(min(max(shift, -255), 255))


def raising(limit: float, shift: int) -> Filling:
    """`raised` for many calls."""
    return of_every_byte(raise_bytes, *raise_numbers(limit, shift))


@kernel(fastmath=False)
def autocontrast_bytes(source, channels, out):
    """Stretches each channel to 0 to 255; a channel with only one value does not change."""
    low, high = np.full(channels, np.uint8(255)), np.zeros(channels, np.uint8)
    extremes(source, channels, low, high)
    width = channels * LANES
    center, factor, offset = np.zeros(width, np.float32), np.ones(width, np.float32), np.zeros(width, np.float32)
    for j in range(width):
        k = j % channels
        if low[k] != high[k]:
            center[j] = np.float32(low[k])
            factor[j] = np.float32(255) / (np.float32(high[k]) - np.float32(low[k]))
    stretch_lines(source, center, factor, offset, out)


def autocontrast(source: np.ndarray, out: np.ndarray) -> np.ndarray:
    """Stretches each channel to 0 to 255; a channel with only one value does not change."""
    autocontrast_bytes(plain(source).reshape(-1), source.shape[-1], out.reshape(-1))
    return out


def autocontrasting(channels: int) -> Filling:
    """`autocontrast` for many calls."""
    return over_elements(autocontrast_bytes, BYTE, (channels,), BYTE)


GREY = np.array([0.299, 0.587, 0.114], np.float32)


def contrast_about_mean(source: np.ndarray, factor: float, out: np.ndarray) -> np.ndarray:
    """Multiplies the distances from the mean grey of an image. Grey weighs three channels as in luma, any other
    number equally.
    """
    channels = source.shape[-1]
    sums = np.zeros(channels, np.int64)
    totals(plain(source).reshape(-1), channels, sums)
    means = (sums / max(source.size // channels, 1)).astype(np.float32)
    center = (means * GREY).sum(dtype=np.float32) if channels == 3 else means.mean(dtype=np.float32)
    return stretch(source, np.array([center]), np.array([factor]), np.array([center]), out)


@kernel(fastmath=False)
def contrast_rgb_bytes(source, factor, weights, out):
    """`contrast_about_mean` of three interleaved channels."""
    sums, pixels = np.zeros(3, np.int64), max(source.size // 3, 1)
    totals(source, 3, sums)
    center = np.float32(0)
    for k in range(3):
        center += np.float32(np.float64(sums[k]) / pixels) * weights[k]
    centers = np.full(LANES, center)
    stretch_lines(source, centers, np.full(LANES, factor), centers, out)


@kernel(fastmath=False)
def contrast_rgb_bytes_by(source, factor, weights, out):
    """`contrast_rgb_bytes` with a number of programs."""
    contrast_rgb_bytes(source, np.float32(factor), weights, out)


def contrasting_about_mean(factor: float) -> Filling:
    """`contrast_about_mean` of images of three channels, for many calls."""
    return over_elements(contrast_rgb_bytes, BYTE, (np.float32(factor), GREY), BYTE)


# The arguments of kernels in programs.
OF_CHANNELS = types_of(BYTES, 1, BYTES)
OF_CONTRAST = types_of(BYTES, 1.0, GREY, BYTES)


def of_values() -> list[Wanted]:
    """The kernels that replace each byte by itself, and the look-up in a table."""
    two = types_of(BYTES, 1, 1, BYTES)
    values = [(mask_bytes, two), (solarize_bytes, OF_CHANNELS), (raise_bytes, two)]
    return [*values, (translate_flat, types_of(BYTES, BYTES, BYTES))]
