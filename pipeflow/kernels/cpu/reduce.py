"""Reductions of (outer, reduced, inner) arrays: results of shape (outer, inner).

Floats are summed in float64; integers exactly, in 64 bits. Squares of integers of 32 bits and more may not fit into 64 bits, so
they are summed in float64.
"""

from collections.abc import Callable

import numpy as np

from pipeflow.kernels.cpu.jit import NUMBER, kernel, machine_code, plain

LANES = 8  # partial sums, so that an addition need not wait for the one before
CHANNELS = 3  # of a pixel: the compiler makes vectors of loops over so many neighbours, if it knows their number


@kernel(fastmath=False)
def _add_neighbours(data, count, power, out):
    """Sums of ``count`` elements that are next to each other."""
    for o in range(out.size):
        total = out.dtype.type(0)
        for k in range(count):
            value = out.dtype.type(data[o * count + k])
            total += value * value if power == 2 else value
        out[o] = total


@kernel
def add_up(data, power, out):
    outer, reduced, inner = data.shape
    if inner == 1 and reduced == CHANNELS:
        _add_neighbours(data.reshape(data.size), CHANNELS, power, out.reshape(outer))
    elif inner == 1 and reduced < LANES:
        _add_neighbours(data.reshape(data.size), reduced, power, out.reshape(outer))
    elif inner == 1:
        total = np.empty(LANES, out.dtype)
        whole = reduced // LANES
        for o in range(outer):
            row = data[o].reshape(reduced)
            total[:] = 0
            for i in range(whole):
                for lane in range(LANES):
                    value = out.dtype.type(row[i * LANES + lane])
                    total[lane] += value * value if power == 2 else value
            for i in range(whole * LANES, reduced):
                value = out.dtype.type(row[i])
                total[0] += value * value if power == 2 else value
            out[o, 0] = total.sum()
    else:
        for o in range(outer):
            target = out[o]
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


@kernel(inline="always")
def _better(best, value, largest):
    more = value > best if largest else value < best
    return value if more | (value != value) else best


@kernel(inline="always")
def _pick_neighbours(data, count, largest, out):
    for o in range(out.size):
        best = data[o * count]
        for k in range(1, count):
            best = _better(best, data[o * count + k], largest)
        out[o] = best


@kernel(inline="always")
def _pick(data, largest, out):
    outer, reduced, inner = data.shape
    if inner == 1:
        flat, found = data.reshape(data.size), out.reshape(outer)
        if reduced == CHANNELS:
            _pick_neighbours(flat, CHANNELS, largest, found)
        else:
            _pick_neighbours(flat, reduced, largest, found)
        return
    whole = 1 + (reduced - 1) // 4 * 4
    for o in range(outer):
        target = out[o]
        target[:] = data[o, 0]
        for r in range(1, whole, 4):
            one, two, three, four = data[o, r], data[o, r + 1], data[o, r + 2], data[o, r + 3]
            for i in range(inner):
                best = _better(_better(target[i], one[i], largest), two[i], largest)
                target[i] = _better(_better(best, three[i], largest), four[i], largest)
        for r in range(whole, reduced):
            row = data[o, r]
            for i in range(inner):
                target[i] = _better(target[i], row[i], largest)


@kernel
def pick_extremes(data, largest, out):
    """The smallest or the largest values; NaN if there is one, as in NumPy.

    The compiler makes vectors of these loops only if every element is stored and ``largest`` is a constant.
    """
    if largest:
        _pick(data, True, out)
    else:
        _pick(data, False, out)


FOLDS = 64, 48, 32, 24, 16, 12, 8, 6, 4, 3, 2
NARROW = 16  # the inner axes that are folded have fewer elements
MOST_FOLDED = FOLDS[0] * (NARROW - 1)


def _fold_of(reduced, inner):
    """The parts of the reduced axis that are next to each other, so that a narrow inner axis is wide enough for vectors."""
    for fold in FOLDS:
        if inner < NARROW and reduced % fold == 0 and reduced >= 4 * fold:
            return fold
    return 1


fold_of = kernel(_fold_of)


def folded(data: np.ndarray) -> np.ndarray:
    """Splits the reduced axis in two; see `fold_of`, of which this uses the form in Python."""
    outer, reduced, inner = data.shape
    fold = _fold_of(reduced, inner)
    return data.reshape(outer, reduced // fold, fold * inner)


def sum_type(dtype: np.dtype, power: int) -> np.dtype:
    """The type in which elements, or their squares, are summed."""
    exact = dtype.kind != "f" and (power == 1 or dtype.itemsize < 4)
    return np.dtype((np.int64 if dtype.kind == "i" else np.uint64) if exact else np.float64)


def sums(data: np.ndarray, power: int) -> np.ndarray:
    """Sums of the elements, or of their squares."""
    kind = sum_type(data.dtype, power)
    outer, _, inner = data.shape
    wide = folded(plain(data))
    out = np.empty((outer, wide.shape[2]), kind)
    add_up(wide, power, out)
    return out if wide.shape[2] == inner else out.reshape(outer, -1, inner).sum(1, dtype=kind)


def squared_distances(data: np.ndarray, mean: np.ndarray) -> np.ndarray:
    """Sums of (element - mean) squared; one mean for each result."""
    outer, _, inner = data.shape
    wide = folded(plain(data))
    out = np.empty((outer, wide.shape[2]), np.float64)
    add_distances(wide, np.ascontiguousarray(np.tile(mean, wide.shape[2] // inner)), out)
    return out if wide.shape[2] == inner else out.reshape(outer, -1, inner).sum(1)


def extremes(data: np.ndarray, largest: bool) -> np.ndarray:
    """The largest or smallest elements."""
    outer, _, inner = data.shape
    wide = folded(plain(data))
    out = np.empty((outer, wide.shape[2]), data.dtype)
    pick_extremes(wide, largest, out)
    if wide.shape[2] == inner:
        return out
    parts = out.reshape(outer, -1, inner)
    return parts.max(1) if largest else parts.min(1)


# ----------------------------------------------------------------------------------------------------
# The same for many calls on arrays of one shape and type


@kernel
def add_and_divide(data, power, zero, inner, divisor, root, out):
    """Sums of parts and then of these; divided by a number if it is given, and the root of that. `zero` has the type of sums."""
    outer, _, wide = data.shape
    parts = np.full((outer, wide), zero)
    add_up(data, power, parts)
    for o in range(outer):
        for i in range(inner):
            total = parts[o, i]
            for k in range(i + inner, wide, inner):
                total += parts[o, k]
            if divisor is None:
                out[o * inner + i] = total
            else:
                value = np.float64(total) / divisor
                out[o * inner + i] = np.sqrt(value) if root else value


@kernel
def divide(sums, divisor, root, out):
    """Sums divided by a number, or the root of that."""
    for i in range(sums.size):
        value = sums[i] / divisor
        out[i] = np.sqrt(value) if root else value


@kernel
def distances_and_divide(data, means, inner, divisor, root, out):
    """The squared distances from one mean for each result, or one for all, summed up and divided by a number."""
    outer, _, wide = data.shape
    parts, centre = np.empty((outer, wide), np.float64), np.empty((outer, wide), np.float64)
    for o in range(outer):
        for i in range(wide):
            centre[o, i] = means[0 if means.size == 1 else o * inner + i % inner]
    add_distances(data, centre, parts)
    if divisor is None:
        out[:] = parts.reshape(parts.size)
        return
    for o in range(outer):
        for i in range(inner):
            total = parts[o, i]
            for k in range(i + inner, wide, inner):
                total += parts[o, k]
            value = total / divisor
            out[o * inner + i] = np.sqrt(value) if root else value


@kernel
def pick_all(data, largest, inner, out):
    """The largest or smallest whole numbers of parts, and then of these."""
    outer, _, wide = data.shape
    parts = np.empty((outer, wide), data.dtype)
    pick_extremes(data, largest, parts)
    for o in range(outer):
        for i in range(inner):
            best = parts[o, i]
            for k in range(i + inner, wide, inner):
                best = max(best, parts[o, k]) if largest else min(best, parts[o, k])
            out[o * inner + i] = best


Reducing = Callable[..., np.ndarray]
Parts = tuple[int, int, int]  # extents of data: outer, reduced, inner


def _folded_shape(parts: Parts, dtype: np.dtype) -> tuple[int, ...]:
    """The extents of the data as the kernels read it."""
    return folded(np.empty(parts, dtype)).shape


def summing(
    parts: Parts, dtype: np.dtype, power: int, divisor: float | None, root: bool, out: tuple[int, ...], to: np.dtype
) -> Reducing:
    """A function of data: the sums of its powers in the shape `out` and the type `to`, divided by a number if it is given."""
    kind, wide, empty, inner = sum_type(dtype, power), _folded_shape(parts, dtype), np.empty, parts[2]
    divisor = None if divisor is None else float(divisor)
    # NumPy sums a contiguous row of floats in an order of its own
    rows = kind.kind == "f" and inner == 1 and wide[2] > 1
    if not rows:
        numbers = power, kind.type(0), inner, divisor, root
        compute = machine_code(add_and_divide, empty((1, 1, 1), dtype), *numbers, empty(1, to))

        def run(data: np.ndarray) -> np.ndarray:
            result = empty(out, to)
            compute(data.ravel().reshape(wide), *numbers, result.ravel())
            return result

        return run
    add = machine_code(add_up, empty((1, 1, 1), dtype), NUMBER, empty((1, 1), kind))
    end = _dividing(divisor, root, out, to)

    def run_rows(data: np.ndarray) -> np.ndarray:
        found = empty((wide[0], wide[2]))
        add(data.ravel().reshape(wide), power, found)
        return end(np.add.reduce(found, 1))

    return run_rows


def _dividing(divisor: float | None, root: bool, out: tuple[int, ...], to: np.dtype) -> Reducing:
    """A function of sums in float64: the sums divided by a number, or the root of that."""
    if divisor is None:
        return lambda sums: sums.reshape(out)
    compute = machine_code(divide, np.empty(1), divisor, root, np.empty(1, to))

    def end(sums: np.ndarray) -> np.ndarray:
        result = np.empty(out, to)
        compute(sums, divisor, root, result.ravel())
        return result

    return end


def measuring_distances(
    parts: Parts, dtype: np.dtype, means: np.dtype, divisor: float, root: bool, out: tuple[int, ...], to: np.dtype
) -> Reducing:
    """A function of data and its means: the sums of squared distances divided by `divisor`, or the root of that."""
    wide, empty, inner, divisor = _folded_shape(parts, dtype), np.empty, parts[2], float(divisor)
    like, rows = (empty((1, 1, 1), dtype), empty(1, means)), inner == 1 and wide[2] > 1
    if not rows:
        compute = machine_code(distances_and_divide, *like, inner, divisor, root, empty(1, to))

        def run(data: np.ndarray, mean: np.ndarray) -> np.ndarray:
            result = empty(out, to)
            compute(data.ravel().reshape(wide), mean.ravel(), inner, divisor, root, result.ravel())
            return result

        return run
    compute = machine_code(distances_and_divide, *like, inner, None, root, empty(1))
    end = _dividing(divisor, root, out, to)

    def run_rows(data: np.ndarray, mean: np.ndarray) -> np.ndarray:
        found = empty((wide[0], wide[2]))
        compute(data.ravel().reshape(wide), mean.ravel(), inner, None, root, found.ravel())
        return end(np.add.reduce(found, 1))

    return run_rows


def picking(parts: Parts, dtype: np.dtype, largest: bool, out: tuple[int, ...]) -> Reducing:
    """A function of data: its largest or smallest elements."""
    wide, empty, inner = _folded_shape(parts, dtype), np.empty, parts[2]
    if dtype.kind != "f" or wide[2] == inner:
        compute = machine_code(pick_all, empty((1, 1, 1), dtype), largest, inner, empty(1, dtype))

        def run(data: np.ndarray) -> np.ndarray:
            result = empty(out, dtype)
            compute(data.ravel().reshape(wide), largest, inner, result.ravel())
            return result

        return run
    pick = machine_code(pick_extremes, empty((1, 1, 1), dtype), largest, empty((1, 1), dtype))
    reduce = (np.maximum if largest else np.minimum).reduce

    def run_rows(data: np.ndarray) -> np.ndarray:
        found = empty((wide[0], wide[2]), dtype)
        pick(data.ravel().reshape(wide), largest, found)
        return reduce(found.reshape(wide[0], -1, inner), 1).reshape(out)

    return run_rows
