"""Makes images lighter, darker or flatter by a pattern, a number for each pixel; and draws random patterns."""

from collections.abc import Callable
from typing import Any

import numpy as np

from pipeflow.kernels.cpu.casting import convert
from pipeflow.kernels.cpu.jit import kernel, machine_code, plain
from pipeflow.kernels.cpu.noise import GOLDEN, mixed

ROW = np.uint64(20)  # bits for the position along a row, in the number that a value is drawn from
LEVEL = np.uint64(40)


@kernel
def spread_numbers(numbers, line):
    """Repeats the number of each pixel for its channels."""
    width = numbers.size
    channels = line.size // width
    if channels == 3:
        for x in range(width):
            number = numbers[x]
            line[3 * x] = number
            line[3 * x + 1] = number
            line[3 * x + 2] = number
    else:
        for x in range(width):
            for c in range(channels):
                line[x * channels + c] = numbers[x]


@kernel
def shade_row(values, line, slope, offset, out):
    """Computes value + line * (slope * value + offset)."""
    for i in range(values.size):
        value = np.float32(values[i])
        out[i] = convert(value + line[i] * (slope * value + offset), out)


@kernel
def shade_rows(source, pattern, slope, offset, out):
    """Computes value + pattern * (slope * value + offset); all channels of a pixel have the same number of the pattern."""
    line = np.empty(source.shape[1], np.float32)
    for y in range(pattern.shape[0]):
        spread_numbers(pattern[y], line)
        shade_row(source[y], line, slope, offset, out[y])


SUM, ROOT, PRODUCT = range(3)


@kernel
def shade_lines(source, lines, columns, kind, slope, offset, out):
    """The same with a pattern that is the sum of a number for the line and one for the column, its root, or their product."""
    numbers, line = np.empty(columns.size, np.float32), np.empty(source.shape[1], np.float32)
    for y in range(lines.size):
        own = lines[y]
        if kind == PRODUCT:
            for x in range(columns.size):
                numbers[x] = own * columns[x]
        else:
            for x in range(columns.size):
                numbers[x] = own + columns[x]
        if kind == ROOT:
            for x in range(columns.size):
                numbers[x] = np.sqrt(numbers[x])
        spread_numbers(numbers, line)
        shade_row(source[y], line, slope, offset, out[y])


def shade_by_lines(
    source: np.ndarray, light: tuple[np.ndarray, np.ndarray], kind: int, slope: float, out: np.ndarray
) -> np.ndarray:
    """Shades an image (H, W, C) by a pattern of lines and columns."""
    shape = (source.shape[0], -1)
    shade_lines(plain(source).reshape(shape), *light, kind, np.float32(slope), np.float32(0), out.reshape(shape))
    return out


def shading_by_lines(
    shape: tuple[int, ...], dtype: np.dtype, light: tuple[np.ndarray, np.ndarray], kind: int, slope: float
) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    """`shade_by_lines` for images of a shape and type."""
    rows, numbers = (shape[0], shape[1] * shape[2]), (*light, kind, np.float32(slope), np.float32(0))
    like = np.empty((1, 1), dtype)
    compute = machine_code(shade_lines, like, *numbers, like)

    def run(source: np.ndarray, out: np.ndarray) -> np.ndarray:
        compute(source.ravel().reshape(rows), *numbers, out.reshape(rows))
        return out

    return run


def shade(source: np.ndarray, pattern: np.ndarray, slope: float, offset: float, out: np.ndarray) -> np.ndarray:
    """Shades an image (H, W, C) by a pattern (H, W) in float32."""
    shape = (source.shape[0], -1)
    shade_rows(plain(source).reshape(shape), pattern, np.float32(slope), np.float32(offset), out.reshape(shape))
    return out


@kernel
def draw_row(key, level, row, numbers):
    """Draws numbers from -1/2 to 1/2 for a row of a lattice, four of 16 bits from each word."""
    step, half = np.float32(2.0**-16), np.float32(0.5) - np.float32(2.0**-17)
    begin = (np.uint64(level) << LEVEL) | (np.uint64(row) << ROW)
    for group in range((numbers.size + 3) // 4):
        word = mixed(key ^ mixed((begin + np.uint64(group + 1)) * GOLDEN))
        for part in range(min(4, numbers.size - 4 * group)):
            numbers[4 * group + part] = np.float32(word & np.uint64(0xFFFF)) * step - half
            word >>= np.uint64(16)


@kernel
def plasma_lattices(key, levels, roughness, height, width):
    """The sum of random lattices that are linear between nodes; each is twice as fine as the one before, and `roughness` times
    as strong.
    """
    field = np.empty((2, 2), np.float32)
    for row in range(2):
        draw_row(key, 0, row, field[row])
    strength = np.float32(1)
    for level in range(1, levels + 1):
        strength *= np.float32(roughness)
        step = 1 << (levels - level)
        rows, columns = (height - 1) // step + 2, (width - 1) // step + 2
        finer = np.empty((rows, columns), np.float32)
        between = np.empty(field.shape[1], np.float32)
        for i in range(rows):
            above, below = field[i // 2], field[(i + 1) // 2]
            target = finer[i]
            draw_row(key, level, i, target)
            for j in range(between.size):
                between[j] = np.float32(0.5) * (above[j] + below[j])
            for j in range(columns // 2):
                target[2 * j] = between[j] + strength * target[2 * j]
                target[2 * j + 1] = np.float32(0.5) * (between[j] + between[j + 1]) + strength * target[2 * j + 1]
            if columns % 2:
                target[columns - 1] = between[columns // 2] + strength * target[columns - 1]
        field = finer
    return field


@kernel
def spread_rows(field, out):
    """The upper left part of a field, scaled so that its smallest number is 0 and its largest 1."""
    height, width = out.shape
    low, high = field[0, 0], field[0, 0]
    for y in range(height):
        row = field[y]
        least, most = row[0], row[0]
        for x in range(width):
            least, most = min(least, row[x]), max(most, row[x])
        low, high = min(low, least), max(high, most)
    factor = np.float32(1) / (high - low) if high > low else np.float32(0)
    for y in range(height):
        for x in range(width):
            out[y, x] = (field[y, x] - low) * factor


def plasma(key: int, roughness: float, height: int, width: int) -> np.ndarray:
    """A cloud: numbers from 0 to 1 for each pixel, the same for the same key, roughness and extents."""
    levels = (max(height, width) - 1).bit_length()
    out = np.empty((height, width), np.float32)
    spread_rows(plasma_lattices(np.uint64(key), levels, roughness, height, width), out)
    return out


@kernel(fastmath=False)
def scale_and_move(pattern, factor, rest):
    """Multiplies numbers by a factor and adds another number, each step rounded, as NumPy does it."""
    for y in range(pattern.shape[0]):
        for x in range(pattern.shape[1]):
            pattern[y, x] = pattern[y, x] * factor + rest


@kernel
def shade_by_plasma(source, key, levels, roughness, factor, rest, slope, offset, out):
    """Shades an image by a cloud times a factor plus a number."""
    height, channels = len(source), out.shape[2]
    pattern = np.empty((height, source.shape[1] // channels), np.float32)
    spread_rows(plasma_lattices(key, levels, roughness, height, pattern.shape[1]), pattern)
    scale_and_move(pattern, factor, rest)
    shade_rows(source, pattern, slope, offset, out.reshape(source.shape))


def shading_by_cloud(
    shape: tuple[int, ...], dtype: np.dtype, roughness: float, factor: float, rest: float, slope: float, offset: float
) -> Callable[[np.ndarray, np.ndarray, Any], np.ndarray]:
    """Shades images of a shape by a cloud times a factor plus a number, for many calls."""
    rows, levels = (shape[0], shape[1] * shape[2]), (max(shape[:2]) - 1).bit_length()
    numbers = levels, roughness, *map(np.float32, (factor, rest, slope, offset))
    compute = machine_code(shade_by_plasma, np.empty((1, 1), dtype), np.uint64(0), *numbers, np.empty((1, 1, 1), dtype))

    def run(source: np.ndarray, out: np.ndarray, key: int) -> np.ndarray:
        compute(source.ravel().reshape(rows), key, *numbers, out)
        return out

    return run
