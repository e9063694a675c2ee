"""CLAHE: grey values spread tile by tile, with limited contrast, and blended between the tiles, as OpenCV does it.

All steps are those of OpenCV, in its order, so that results are equal to the byte. The four tables between which a pixel is
blended are one table of four bytes, and a row is divided into parts with one such table.
"""

from collections.abc import Sequence

import numpy as np

from pipeflow.kernels.cpu import lab
from pipeflow.kernels.cpu.byte_tables import Filling
from pipeflow.kernels.cpu.jit import BYTES, kernel, machine_code
from pipeflow.kernels.cpu.simd.lab import blend_values, pixels_from_lab, pixels_to_lab

PARTS = (
    4  # successive bytes are counted in different tables: an addition waits for the previous one to the same counter
)
ONE, FOUR = np.uint64(1), np.uint64(PARTS)


@kernel
def count_row(plane, begin, count, counts):
    """Counts the values of a part of a row in PARTS tables."""
    at, end = np.uint64(begin), np.uint64(begin + count)
    while at + FOUR <= end:
        for part in range(PARTS):
            counts[np.uint64(256 * part) + np.uint64(plane[at + np.uint64(part)])] += np.uint32(1)
        at += FOUR
    while at < end:
        counts[plane[at]] += np.uint32(1)
        at += ONE


@kernel
def mirrored(place, extent):
    """The place inside an axis, of a place behind its end that is mirrored at the last pixel, without repeating it."""
    if extent == 1:
        return 0
    place %= 2 * extent - 2
    return min(place, 2 * extent - 2 - place)


@kernel
def limit_counts(counts, limit):
    """Cuts off what is above the limit, and adds it to all counts alike."""
    excess, most = np.int32(0), np.int32(limit)
    for value in range(np.uint64(256)):
        excess += max(counts[value] - most, np.int32(0))
    each, rest = np.int32(excess // 256), excess % 256
    for value in range(np.uint64(256)):
        counts[value] = min(counts[value], most) + each
    apart = max(256 // rest, 1) if rest else 1
    for number in range(rest):
        counts[np.uint64(number * apart)] += np.int32(1)


@kernel(fastmath=False)
def tile_tables(plane, width, tall, wide, across, limit, tables):
    """The table of each tile. Tiles at the right and the bottom reach over the mirrored border."""
    height = plane.size // width
    scale = np.float32(255) / np.float32(tall * wide)
    parts, counts = np.empty(256 * PARTS, np.uint32), np.empty(256, np.int32)
    for tile in range(len(tables)):
        top, left = tile // across * tall, tile % across * wide
        inside = max(min(left + wide, width) - left, 0)
        parts[:] = 0
        for line in range(top, top + tall):
            begin = mirrored(line, height) * width
            count_row(plane, begin + left, inside, parts)
            for column in range(left + inside, left + wide):
                parts[plane[begin + mirrored(column, width)]] += np.uint32(1)
        for value in range(np.uint64(256)):
            counts[value] = parts[value]
            for part in range(np.uint64(1), FOUR):
                counts[value] += np.int32(parts[np.uint64(256) * part + value])
        if limit > 0:
            limit_counts(counts, limit)
        for value in range(np.uint64(1), np.uint64(256)):
            counts[value] += counts[value - ONE]
        table = tables[tile]
        for value in range(np.uint64(256)):
            table[value] = np.uint8(min(np.rint(np.float32(counts[value]) * scale), np.float32(255)))


@kernel
def join_tables(tables, across, joined):
    """Four tables as one for each corner of tiles: upper left, upper right, lower left, lower right in one number.

    At the border of the image, both are those of the same tile.
    """
    down = len(tables) // across
    for y in range(down + 1):
        upper, lower = max(y - 1, 0) * across, min(y, down - 1) * across
        for x in range(across + 1):
            left, right = max(x - 1, 0), min(x, across - 1)
            a, b, c, d = tables[upper + left], tables[upper + right], tables[lower + left], tables[lower + right]
            target = joined[y * (across + 1) + x]
            for value in range(256):
                target[value] = (
                    np.uint32(a[value])
                    | np.uint32(b[value]) << np.uint32(8)
                    | np.uint32(c[value]) << np.uint32(16)
                    | np.uint32(d[value]) << np.uint32(24)
                )


@kernel(fastmath=False)
def place_columns(width, wide, ends, shares):
    """The last column of each part with the same four tables, and the share of the right tables in each column."""
    inverse = np.float32(1) / np.float32(wide)
    ends[:] = 0
    for x in range(width):
        exact = np.float32(x) * inverse - np.float32(0.5)
        near = np.floor(exact)
        shares[x] = exact - near
        ends[np.int64(near) + 1] = x + 1
    for part in range(1, len(ends)):
        ends[part] = max(ends[part], ends[part - 1])


@kernel(fastmath=False)
def spread_plane(plane, width, tall, wide, across, down, limit, out):
    """Spreads the values of a plane."""
    tables = np.empty((across * down, 256), np.uint8)
    tile_tables(plane, width, tall, wide, across, limit, tables)
    joined = np.empty(((across + 1) * (down + 1), 256), np.uint32)
    join_tables(tables, across, joined)
    ends, shares = np.empty(across + 1, np.int64), np.empty(width, np.float32)
    place_columns(width, wide, ends, shares)
    inverse = np.float32(1) / np.float32(tall)
    for y in range(plane.size // width):
        exact = np.float32(y) * inverse - np.float32(0.5)
        near = np.floor(exact)
        corner = (np.int64(near) + 1) * (across + 1)
        row = plane[y * width : (y + 1) * width]
        begin = 0
        for part in range(across + 1):
            blend_values(row, begin, ends[part], joined[corner + part], shares, exact - near, out, y * width)
            begin = ends[part]


@kernel
def spread_lightness(source, width, tall, wide, across, down, limit, linear, roots, lumas, shades, out):
    """Spreads the lightness of RGB pixels."""
    pixels = source.size // 3
    light, reds, blues = np.empty(pixels, np.uint8), np.empty(pixels, np.uint8), np.empty(pixels, np.uint8)
    pixels_to_lab(source, linear, roots, light, reds, blues, pixels)
    spread = np.empty(pixels, np.uint8)
    spread_plane(light, width, tall, wide, across, down, limit, spread)
    pixels_from_lab(spread, reds, blues, lumas, shades, out, pixels)


@kernel
def spread_channels(source, channels, width, tall, wide, across, down, limit, out):
    """Spreads each channel of interleaved bytes by itself."""
    pixels = source.size // channels
    plane, spread = np.empty(pixels, np.uint8), np.empty(pixels, np.uint8)
    for channel in range(channels):
        for i in range(pixels):
            plane[i] = source[i * channels + channel]
        spread_plane(plane, width, tall, wide, across, down, limit, spread)
        for i in range(pixels):
            out[i * channels + channel] = spread[i]


def spreading(width: int, channels: int, tiles: Sequence[int], luma_only: bool) -> Filling:
    """CLAHE of images (H, W, C) of bytes with this width, for many calls; for three channels only of the lightness, in the space
    Lab, or of each channel.

    `tiles` are the height and the width of a tile, the numbers of tiles from left to right and from top to bottom, and the
    largest count of a class (0: no limit).
    """
    numbers = width, *tiles
    if channels == 3 and luma_only:
        tables = lab.tables()
        lightness = machine_code(spread_lightness, BYTES, *numbers, *tables, BYTES)

        def spread(source: np.ndarray, out: np.ndarray) -> np.ndarray:
            lightness(source.ravel(), *numbers, *tables, out.ravel())
            return out

        return spread
    each = machine_code(spread_channels, BYTES, channels, *numbers, BYTES)

    def run(source: np.ndarray, out: np.ndarray) -> np.ndarray:
        each(source.ravel(), channels, *numbers, out.ravel())
        return out

    return run
