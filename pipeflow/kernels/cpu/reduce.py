"""Reductions of (outer, reduced, inner) arrays: results of shape (outer, inner).

Floats are summed in float64; integers exactly, in 64 bits. Squares of integers of 32 bits and more may not fit into 64 bits, so
they are summed in float64.
"""

import numpy as np

from pipeflow.kernels.cpu.jit import kernel, plain

LANES = 8  # partial sums, so that an addition need not wait for the one before


@kernel
def add_up(data, power, out):
    outer, reduced, inner = data.shape
    for o in range(outer):
        target = out[o]
        if inner == 1:
            row = data[o].reshape(reduced)
            total = np.zeros(LANES, out.dtype)
            whole = reduced // LANES
            for i in range(whole):
                for lane in range(LANES):
                    value = out.dtype.type(row[i * LANES + lane])
                    total[lane] += value * value if power == 2 else value
            for i in range(whole * LANES, reduced):
                value = out.dtype.type(row[i])
                total[0] += value * value if power == 2 else value
            target[0] = total.sum()
            continue
        target[:] = 0
        for r in range(reduced):
            row = data[o, r]
            if power == 2:
                for i in range(inner):
                    value = out.dtype.type(row[i])
                    target[i] += value * value
            else:
                for i in range(inner):
                    target[i] += out.dtype.type(row[i])


@kernel
def add_distances(data, mean, out):
    outer, reduced, inner = data.shape
    for o in range(outer):
        target, centre = out[o], mean[o]
        target[:] = 0
        for r in range(reduced):
            row = data[o, r]
            for i in range(inner):
                distance = np.float64(row[i]) - centre[i]
                target[i] += distance * distance


@kernel
def pick_extremes(data, largest, out):
    """The smallest or the largest values; NaN if there is one, as in NumPy."""
    outer, reduced, inner = data.shape
    for o in range(outer):
        target = out[o]
        target[:] = data[o, 0]
        for r in range(1, reduced):
            row = data[o, r]
            if largest:
                for i in range(inner):
                    if row[i] > target[i] or row[i] != row[i]:
                        target[i] = row[i]
            else:
                for i in range(inner):
                    if row[i] < target[i] or row[i] != row[i]:
                        target[i] = row[i]


def folded(data: np.ndarray) -> np.ndarray:
    """Splits the reduced axis in two, so that a narrow inner axis becomes wide enough for vectors; `fold` must divide its
    extent.
    """
    outer, reduced, inner = data.shape
    for fold in (64, 48, 32, 24, 16, 12, 8, 6, 4, 3, 2):
        if inner < 16 and reduced % fold == 0 and reduced >= 4 * fold:
            return data.reshape(outer, reduced // fold, fold * inner)
    return data


def sums(data: np.ndarray, power: int) -> np.ndarray:
    """Sums of the elements, or of their squares."""
    exact = data.dtype.kind != "f" and (power == 1 or data.dtype.itemsize < 4)
    kind = (np.int64 if data.dtype.kind == "i" else np.uint64) if exact else np.float64
    outer, _, inner = data.shape
    wide = folded(plain(data))
    out = np.empty((outer, wide.shape[2]), kind)
    add_up(wide, power, out)
    return out.reshape(outer, -1, inner).sum(1, dtype=kind)


def squared_distances(data: np.ndarray, mean: np.ndarray) -> np.ndarray:
    """Sums of (element - mean) squared; one mean for each result."""
    outer, _, inner = data.shape
    wide = folded(plain(data))
    out = np.empty((outer, wide.shape[2]), np.float64)
    add_distances(wide, np.ascontiguousarray(np.tile(mean, wide.shape[2] // inner)), out)
    return out.reshape(outer, -1, inner).sum(1)


def extremes(data: np.ndarray, largest: bool) -> np.ndarray:
    """The largest or smallest elements."""
    outer, _, inner = data.shape
    wide = folded(plain(data))
    out = np.empty((outer, wide.shape[2]), data.dtype)
    pick_extremes(wide, largest, out)
    parts = out.reshape(outer, -1, inner)
    return parts.max(1) if largest else parts.min(1)
