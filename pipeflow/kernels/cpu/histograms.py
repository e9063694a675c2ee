"""Spreads grey values over their range."""

import numpy as np

from .byte_tables import Filling
from .jit import BYTES, kernel, machine_code, plain

# successive bytes use different counters in turn: to wait for the previous addition would take several times as long
PARTS = 12
STEP, VALUES = np.uint64(PARTS), np.uint64(256)


@kernel
def count_values(source, channels, counts):
    """Counts how often each channel of interleaved bytes has each value."""
    one = np.uint32(1)
    whole = 0
    if PARTS % channels == 0:
        parts = np.zeros(PARTS * 256, np.uint32)
        whole = source.size // PARTS * PARTS
        place, end = np.uint64(0), np.uint64(whole)
        while place < end:
            for part in range(PARTS):
                parts[np.uint64(part) * VALUES + np.uint64(source[place + np.uint64(part)])] += one
            place += STEP
        for part in range(PARTS):
            counts[part % channels] += parts[part * 256 : part * 256 + 256]
    for i in range(whole, source.size):
        counts[i % channels, source[i]] += one


@kernel
def replace_values(source, tables, out):
    """Replaces every value of interleaved bytes by that of its channel's table."""
    channels = tables.shape[0]
    whole = 0
    if channels == 3:
        flat = tables.reshape(tables.size)
        whole = source.size // PARTS * PARTS
        place, end = np.uint64(0), np.uint64(whole)
        while place < end:
            for part in range(PARTS):
                at = place + np.uint64(part)
                out[at] = flat[np.uint64(part % 3) * VALUES + np.uint64(source[at])]
            place += STEP
    for i in range(whole, source.size):
        out[i] = tables[i % channels, source[i]]


@kernel
def even_tables(counts, pixels, tables):
    """The tables that spread each channel by its own cumulative counts."""
    for k in range(counts.shape[0]):
        first = 0
        while first < 255 and counts[k, first] == 0:
            first += 1
        rest = pixels - np.int64(counts[k, first])
        factor = np.float32(255) / np.float32(rest) if rest else np.float32(0)
        below = np.int64(0)
        for value in range(256):
            if value > first:
                below += np.int64(counts[k, value])
            tables[k, value] = np.uint8(np.rint(np.float32(below) * factor)) if rest else np.uint8(value)


@kernel
def equalize_bytes(source, channels, out):
    """Counts the values of each channel of interleaved bytes, and spreads them."""
    counts, tables = np.zeros((channels, 256), np.uint32), np.empty((channels, 256), np.uint8)
    count_values(source, channels, counts)
    even_tables(counts, source.size // channels, tables)
    replace_values(source, tables, out)


def equalize(source: np.ndarray, out: np.ndarray) -> np.ndarray:
    """Equalizes bytes; the last axis is the channels."""
    if source.size:
        equalize_bytes(plain(source).reshape(-1), source.shape[-1], out.reshape(-1))
    return out


def equalizing(channels: int) -> Filling:
    """`equalize` for many calls."""
    compute = machine_code(equalize_bytes, BYTES, channels, BYTES)

    def run(source: np.ndarray, out: np.ndarray) -> np.ndarray:
        compute(source.ravel(), channels, out.ravel())
        return out

    return run
