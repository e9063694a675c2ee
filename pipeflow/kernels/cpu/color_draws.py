"""Random changes of colour: the numbers are drawn, and the changes composed to one matrix, where the pixels are mixed."""

from collections.abc import Callable, Sequence

import numpy as np

from pipeflow.kernels.cpu.jit import BYTES, NUMBER, kernel, machine_code
from pipeflow.kernels.cpu.noise import unit
from pipeflow.kernels.cpu.simd.pixels import mix_row

RANGES, CENTRE, PROB, PARTS = 0, 8, 9, 10  # places in the numbers of a change
JITTER, DISTORT = 0, 1


def numbers_of(
    ranges: Sequence[Sequence[float]], centre: float, prob: float, from_yiq: np.ndarray, to_yiq: np.ndarray
) -> np.ndarray:
    """All that the kernels need: the ranges of brightness, contrast, saturation and hue, the middle of the values, a
    probability, and the matrices whose sum, with cosine and sine, turns and scales chroma.
    """
    outer = np.multiply.outer
    light = outer(from_yiq[:, 0], to_yiq[0])
    alike = outer(from_yiq[:, 1], to_yiq[1]) + outer(from_yiq[:, 2], to_yiq[2])
    across = outer(from_yiq[:, 1], to_yiq[2]) - outer(from_yiq[:, 2], to_yiq[1])
    return np.concatenate([np.ravel(ranges), [centre, prob], light.ravel(), alike.ravel(), across.ravel()])


@kernel
def scaled(matrix, offset, factor, shift):
    """Multiplies all by a factor, and adds a number to the result."""
    for i in range(3):
        for j in range(3):
            matrix[i, j] *= factor
        offset[i] = offset[i] * factor + shift


@kernel
def turned(matrix, offset, numbers, degrees, saturation):
    """Turns and scales chroma."""
    angle = np.radians(degrees)
    cos, sin = saturation * np.cos(angle), saturation * np.sin(angle)
    step, product, moved = np.empty((3, 3)), np.zeros((3, 3)), np.zeros(3)
    for i in range(3):
        for j in range(3):
            at = PARTS + 3 * i + j
            step[i, j] = np.float32(numbers[at] + cos * numbers[at + 9] + sin * numbers[at + 18])
    for i in range(3):
        for k in range(3):
            for j in range(3):
                product[i, j] += step[i, k] * matrix[k, j]
            moved[i] += step[i, k] * offset[k]
    matrix[:], offset[:] = product, moved


@kernel
def sorted_numbers(key, count, start, order):
    """The order of some numbers of a key, from the smallest to the largest."""
    for i in range(count):
        value, place = unit(key, np.uint64(start + i)), i
        while place > 0 and unit(key, np.uint64(start + order[place - 1])) > value:
            order[place] = order[place - 1]
            place -= 1
        order[place] = i


@kernel
def change(number, drawn, numbers, matrix, offset):
    """Adds one of the four changes: brightness, contrast, saturation or hue."""
    if number == 0:
        scaled(matrix, offset, drawn[0], 0.0)
    elif number == 1:
        scaled(matrix, offset, drawn[1], numbers[CENTRE] * (1 - drawn[1]))
    elif number == 2:
        turned(matrix, offset, numbers, 0.0, drawn[2])
    else:
        turned(matrix, offset, numbers, drawn[3], 1.0)


@kernel
def compose(kind, key, numbers, matrix, offset):
    """The matrix and the offset of the changes that a key draws."""
    drawn, order = np.empty(4), np.empty(4, np.int64)
    for i in range(4):
        low, high = numbers[RANGES + 2 * i], numbers[RANGES + 2 * i + 1]
        drawn[i] = low + (high - low) * unit(key, np.uint64(i))
    matrix[:], offset[:] = 0.0, 0.0
    for i in range(3):
        matrix[i, i] = 1.0
    if kind == JITTER:
        sorted_numbers(key, 4, 4, order)
        for i in range(4):
            change(order[i], drawn, numbers, matrix, offset)
        return
    prob, before = numbers[PROB], unit(key, np.uint64(9)) < 0.5
    if unit(key, np.uint64(4)) < prob:
        change(0, drawn, numbers, matrix, offset)
    spread = unit(key, np.uint64(5)) < prob
    if spread and before:
        change(1, drawn, numbers, matrix, offset)
    if unit(key, np.uint64(6)) < prob:
        change(2, drawn, numbers, matrix, offset)
    if unit(key, np.uint64(7)) < prob:
        change(3, drawn, numbers, matrix, offset)
    if spread and not before:
        change(1, drawn, numbers, matrix, offset)
    if unit(key, np.uint64(8)) < prob:
        sorted_numbers(key, 3, 10, order)
        rows, shifts = matrix.copy(), offset.copy()
        for i in range(3):
            matrix[i], offset[i] = rows[order[i]], shifts[order[i]]


def line_of(kind: int, key: int, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The matrix and the offset of the changes that a key draws."""
    matrix, offset = np.empty((3, 3)), np.empty(3)
    compose(kind, np.uint64(key), numbers, matrix, offset)
    return matrix, offset


@kernel
def change_bytes(source, kind, key, numbers, out):
    """Draws the changes and mixes pixels of three bytes."""
    matrix, offset = np.empty((3, 3)), np.empty(3)
    compose(kind, key, numbers, matrix, offset)
    weights, shift = np.empty(9, np.float32), np.empty(3, np.float32)
    for i in range(3):
        for j in range(3):
            weights[3 * i + j] = matrix[i, j]
        shift[i] = offset[i]
    mix_row(source, weights, shift, out, source.size // 3)


def changing(kind: int, numbers: np.ndarray) -> Callable[..., np.ndarray]:
    """A function that changes the colours of bytes as a key draws them."""
    compute = machine_code(change_bytes, BYTES, NUMBER, np.uint64(0), numbers, BYTES)

    def run(source: np.ndarray, out: np.ndarray, key: int) -> np.ndarray:
        compute(source.ravel(), kind, key, numbers, out.ravel())
        return out

    return run
