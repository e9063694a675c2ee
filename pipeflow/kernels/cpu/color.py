"""Colour: a matrix for the three channels of each pixel, or a factor and an offset for every value."""

from collections.abc import Callable, Sequence

import numpy as np
from numba import types
from numba.extending import overload

from pipeflow.kernels.cpu.byte_tables import ENOUGH, VALUES, by_table, fast, of_every_byte, translate_flat
from pipeflow.kernels.cpu.casting import as_type, cast, convert
from pipeflow.kernels.cpu.jit import BYTES, NUMBER, Filling, kernel, machine_code, over_elements, plain
from pipeflow.kernels.cpu.simd.bytes import repeat_bytes
from pipeflow.kernels.cpu.simd.pixels import line_row, mix_row, weigh_bytes_row, weigh_row

BLOCK = 4096  # number of values that stay in the first cache between two steps
LOOKED_UP = 1 << 15  # bytes that are looked up before the next steps
FAST = {np.dtype(np.uint8), np.dtype(np.float32)}


@kernel
def mix(source, matrix, offset, out, pixels):
    """Three channels to three: out = matrix @ pixel + offset."""
    mix_row(source, matrix, offset, out, pixels)


@kernel
def grey(source, weights, offset, out):
    """Three channels of bytes to three equal ones: a row of pixels at a time."""
    pixels = source.size // 3
    line = np.empty(BLOCK, np.uint8)
    for begin in range(0, pixels, BLOCK):
        count = min(BLOCK, pixels - begin)
        weigh_row(source[3 * begin : 3 * (begin + count)], weights, offset, line, count)
        repeat_bytes(line, out[3 * begin : 3 * (begin + count)], count)


@kernel
def weigh(source, weights, offset, out, pixels):
    """Three channels to one: the weighted sum of a pixel plus an offset."""
    weigh_row(source, weights, np.float32(offset), out, pixels)


@kernel
def weigh_bytes(source, weights, out):
    weigh_bytes_row(source, weights, out, out.size)


# The weights of luma in units of 2 ** -15, as rounded by OpenCV, which DALI calls for this conversion.
LUMA = np.array([9798, 19235, 3735], np.uint32)


def luma(source: np.ndarray, backwards: bool, out: np.ndarray) -> np.ndarray:
    """The grey of RGB (or, backwards, BGR) bytes."""
    weigh_bytes(plain(source).reshape(-1), LUMA[::-1].copy() if backwards else LUMA, out.reshape(-1))
    return out


@kernel
def grey_bytes(source, weights, out):
    """The grey of bytes in all three channels: a row of pixels at a time."""
    pixels = source.size // 3
    line = np.empty(BLOCK, np.uint8)
    for begin in range(0, pixels, BLOCK):
        count = min(BLOCK, pixels - begin)
        weigh_bytes_row(source[3 * begin : 3 * (begin + count)], weights, line, count)
        repeat_bytes(line, out[3 * begin : 3 * (begin + count)], count)


def grey_luma(source: np.ndarray, out: np.ndarray) -> np.ndarray:
    """The grey of RGB bytes in all three channels."""
    grey_bytes(plain(source).reshape(-1), LUMA, out.reshape(-1))
    return out


def _line(source, a, b, out):
    raise NotImplementedError("_line is for compiled code")


@overload(_line)
def _line_of_types(source, a, b, out):
    def of_bytes(source, a, b, out):
        line_row(source, a, b, out, source.size)

    def of_others(source, a, b, out):
        for i in range(source.size):
            out[i] = convert(np.float32(source[i]) * a + b, out)

    return of_bytes if source.dtype == out.dtype == types.uint8 else of_others


@kernel
def line(source, factor, offset, out):
    """out = source * factor + offset, elementwise."""
    _line(source, np.float32(factor), np.float32(offset), out)


@kernel
def line_wide(source, factor, offset, out):
    """The same in float64, for types whose numbers float32 does not have."""
    for i in range(source.size):
        out[i] = convert(np.float64(source[i]) * factor + offset, out)


@kernel
def lines_flat(source, steps, out):
    """Several factors and offsets one after another; the result is rounded to a byte if the third number is not 0."""
    buffer = np.empty(BLOCK, np.float32)
    for begin in range(0, source.size, BLOCK):
        part, target = source[begin : begin + BLOCK], out[begin : begin + BLOCK]
        size = part.size
        for i in range(size):
            buffer[i] = np.float32(part[i])
        for s in range(steps.shape[0]):
            a, b = steps[s, 0], steps[s, 1]
            if steps[s, 2] != 0:
                for i in range(size):
                    value = buffer[i] * a + b
                    buffer[i] = np.float32(np.int32(min(max(value + np.float32(0.5), np.float32(0)), np.float32(255))))
            else:
                for i in range(size):
                    buffer[i] = buffer[i] * a + b
        for i in range(size):
            target[i] = convert(buffer[i], target)


@kernel
def lines_of_table(source, table, steps, out):
    """The same for what a table gives for each byte, block by block, so that what is looked up stays in the nearest cache."""
    block = np.empty(LOOKED_UP, np.uint8)
    for begin in range(0, source.size, LOOKED_UP):
        target = out[begin : begin + LOOKED_UP]
        size = target.size
        translate_flat(source[begin : begin + LOOKED_UP], table, block[:size])
        if steps.shape[0] == 1 and steps[0, 2] == 0:
            a, b = steps[0, 0], steps[0, 1]
            for i in range(size):
                target[i] = np.float32(block[i]) * a + b
        else:
            lines_flat(block[:size], steps, target)


def byte_steps(rounds: Sequence[bool]) -> int:
    """The number of first steps whose result is a byte."""
    return max((number for number, rounded in enumerate(rounds, 1) if rounded), default=0)


def several_lines(source: np.ndarray, steps: np.ndarray, out: np.ndarray) -> np.ndarray:
    """Applies rows of (factor, offset, 1 to round to a byte) to every value; source and result are bytes or float32."""
    steps = np.ascontiguousarray(steps)
    first = byte_steps(steps[:, 2] != 0)
    if first and source.dtype == np.uint8 and out.dtype != np.uint8 and source.size >= ENOUGH and fast():
        table = np.empty(256, np.uint8)  # the steps to bytes are one look-up
        lines_flat(VALUES, steps[:first], table)
        lines_of_table(plain(source).reshape(-1), table, steps[first:], out.reshape(-1))
        return out
    return by_table(lambda values, result: lines_flat(values, steps, result), source, out)


def _alike(values: list) -> bool:
    return values[0] == values[1] == values[2]


def linear_colors(source: np.ndarray, matrix: np.ndarray, offset: np.ndarray, out: np.ndarray) -> np.ndarray:
    """Applies a 3 x 3 matrix (or one row of three weights) and an offset to pixels (..., 3) of any type."""
    image = source if source.dtype in FAST else as_type(source, np.dtype(np.float32))
    target = out if out.dtype in FAST else np.empty(out.shape, np.float32)
    flat, pixels = plain(image).reshape(-1), image.size // 3
    weights, shift = np.ascontiguousarray(matrix, np.float32), np.ascontiguousarray(offset, np.float32)
    if weights.size == 3:
        weigh(flat, weights.reshape(3), shift.reshape(-1)[0], target.reshape(-1), pixels)
    elif image.dtype == target.dtype == np.uint8 and _alike(weights.tolist()) and _alike(shift.tolist()):
        grey(flat, weights[0], shift[0], target.reshape(-1))
    else:
        mix(flat, weights.reshape(9), shift, target.reshape(-1), pixels)
    return out if target is out else cast(target, out)


def mixing_each() -> Callable[..., np.ndarray]:
    """`linear_colors` with a matrix of 3 x 3 in float32, for bytes."""
    compute = machine_code(mix, BYTES, FEW_FLOATS, FEW_FLOATS, BYTES, NUMBER)

    def run(source: np.ndarray, out: np.ndarray, matrix: np.ndarray, offset: np.ndarray) -> np.ndarray:
        compute(source.ravel(), matrix.ravel(), offset, out.ravel(), source.size // 3)
        return out

    return run


def mixing(matrix: np.ndarray, offset: np.ndarray) -> Filling:
    """`linear_colors` with this matrix of 3 x 3, for bytes."""
    weights, shift = matrix.astype(np.float32).ravel(), offset.astype(np.float32)
    if _alike(weights.reshape(3, 3).tolist()) and _alike(shift.tolist()):
        few, add = weights[:3].copy(), shift[0]
        compute = machine_code(grey, BYTES, few, add, BYTES)

        def make_grey(source: np.ndarray, out: np.ndarray) -> np.ndarray:
            compute(source.ravel(), few, add, out.ravel())
            return out

        return make_grey
    blend = machine_code(mix, BYTES, weights, shift, BYTES, NUMBER)

    def run(source: np.ndarray, out: np.ndarray) -> np.ndarray:
        blend(source.ravel(), weights, shift, out.ravel(), source.size // 3)
        return out

    return run


FEW_FLOATS = np.empty(0, np.float32)


def linear_values(source: np.ndarray, factor: float, offset: float, out: np.ndarray) -> np.ndarray:
    """out = source * factor + offset for every value, rounded and saturated to the output's type."""
    if source.dtype == np.float16:
        source = as_type(source, np.dtype(np.float32))
    target = np.empty(out.shape, np.float32) if out.dtype == np.float16 else out
    wide = any(a.dtype.itemsize > 2 and a.dtype != np.float32 for a in (source, target))
    compute = line_wide if wide else line
    by_table(lambda values, result: compute(values, float(factor), float(offset), result), source, target)
    return out if target is out else cast(target, out)


def lining(source: np.dtype, target: np.dtype, factor: float, offset: float) -> Filling | None:
    """`linear_values` for many calls; None for types other than bytes and float32."""
    numbers = float(factor), float(offset)
    if source == target == np.uint8:
        return of_every_byte(line, *numbers)
    return over_elements(line, source, numbers, target) if {source, target} <= FAST else None
