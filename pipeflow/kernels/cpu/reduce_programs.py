"""Reductions, and normalisation by computed statistics, in compiled programs: the kernels of `reduce.py`, without NumPy.

The sums of parts are in memory that programs give, with at most MOST_FOLDED elements for each row if they are folded.
"""

import numpy as np

from pipeflow.kernels.cpu.casting import convert
from pipeflow.kernels.cpu.color import line
from pipeflow.kernels.cpu.jit import kernel
from pipeflow.kernels.cpu.reduce import MOST_FOLDED as MOST_FOLDED
from pipeflow.kernels.cpu.reduce import add_distances, add_up, fold_of, pick_extremes


@kernel(fastmath=False)
def join_parts(parts, outer, fold, inner, out):
    """The sum over the second of three axes, in NumPy's order: eight sums side by side if the last axis has one element."""
    for o in range(outer):
        begin = o * fold * inner
        for i in range(inner):
            total = parts[begin + i]
            if inner > 1 or fold < 8:
                for part in range(1, fold):
                    total += parts[begin + part * inner + i]
            else:
                lanes = parts[begin : begin + 8].copy()
                whole = fold - fold % 8
                for part in range(8, whole, 8):
                    for lane in range(8):
                        lanes[lane] += parts[begin + part + lane]
                total = ((lanes[0] + lanes[1]) + (lanes[2] + lanes[3])) + (
                    (lanes[4] + lanes[5]) + (lanes[6] + lanes[7])
                )
                for part in range(whole, fold):
                    total += parts[begin + part]
            out[o * inner + i] = total


@kernel
def sum_parts(data, power, parts, out):
    """`sums` into flat arrays."""
    outer, reduced, inner = data.shape
    fold = fold_of(reduced, inner)
    wide = fold * inner
    add_up(data.reshape((outer, reduced // fold, wide)), power, parts[: outer * wide].reshape((outer, wide)))
    join_parts(parts, outer, fold, inner, out)


@kernel
def sum_distances(data, mean, parts, out):
    """`squared_distances` into flat arrays; the mean is flat too."""
    outer, reduced, inner = data.shape
    fold = fold_of(reduced, inner)
    wide = fold * inner
    middle = np.empty((outer, wide))
    for o in range(outer):
        for i in range(wide):
            middle[o, i] = mean[o * inner + i % inner]
    add_distances(data.reshape((outer, reduced // fold, wide)), middle, parts[: outer * wide].reshape((outer, wide)))
    join_parts(parts, outer, fold, inner, out)


@kernel
def largest_parts(data, largest, parts, out):
    """`extremes` of integers into flat arrays."""
    outer, reduced, inner = data.shape
    fold = fold_of(reduced, inner)
    wide = fold * inner
    pick_extremes(data.reshape((outer, reduced // fold, wide)), largest, parts[: outer * wide].reshape((outer, wide)))
    for o in range(outer):
        for i in range(inner):
            found = parts[o * wide + i]
            for part in range(1, fold):
                value = parts[o * wide + part * inner + i]
                found = max(found, value) if largest else min(found, value)
            out[o * inner + i] = found


@kernel(fastmath=False)
def as_means(sums, count, root, whole, out):
    """Means of sums, or their roots, in the type of the output; of ``whole`` numbers the fraction is cut off."""
    for i in range(sums.size):
        mean = np.float64(sums[i]) / np.float64(count)
        if root:
            mean = np.sqrt(mean)
        out[i] = convert(np.trunc(mean) if whole else mean, out)


# Normalisation by statistics that are computed, as in `operators.image`.


@kernel(fastmath=False)
def mean_and_factor(mean, squares, divisor, epsilon, scale, means, factors):
    """float32 means, and the factors of the distances from them: 0 if the deviation is 0."""
    for i in range(mean.size):
        deviation = np.sqrt(squares[i] / np.float64(divisor) + epsilon)
        means[i] = np.float32(mean[i])
        factors[i] = np.float32(scale / deviation if deviation != 0 else 0.0)


@kernel(fastmath=False)
def factor_and_offset(mean, squares, divisor, epsilon, scale, shift, numbers):
    """The same for one mean, as factor and offset of the values."""
    deviation = np.sqrt(squares[0] / np.float64(divisor) + epsilon)
    factor = scale / deviation if deviation != 0 else 0.0
    numbers[0], numbers[1] = factor, shift - mean[0] * factor


@kernel
def line_by(source, numbers, out):
    """`color.line` with numbers that a kernel has computed."""
    line(source, numbers[0], numbers[1], out)


@kernel
def repeat(values, out):
    """The values, again and again."""
    for i in range(out.size):
        out[i] = values[i % values.size]


@kernel(fastmath=False)
def scale_columns(source, mean, factor, shift, out):
    """(x - mean) * factor + shift in float32, with a mean and a factor for each column, in steps as NumPy."""
    for row in range(source.shape[0]):
        for i in range(source.shape[1]):
            value = (np.float32(source[row, i]) - mean[i]) * factor[i]
            out[row, i] = value + np.float32(shift) if shift != 0 else value
