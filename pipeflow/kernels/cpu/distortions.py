"""Maps of the source positions of pixels: smooth random displacements, grids, lenses, splines. All are float32; they
map the centres of pixels.
"""

import math
from collections.abc import Callable
from functools import cache, lru_cache
from typing import NamedTuple

import cv2
import numpy as np

from pipeflow.kernels.cpu.draws import line_of_floats, normals_of
from pipeflow.kernels.cpu.effects import parts_of, sources_of
from pipeflow.kernels.cpu.jit import kernel, machine_code
from pipeflow.kernels.cpu.noise import unit

COARSE = 8  # pixels between the points where a spline is computed; between them it is interpolated


def spacing(sigma: float) -> int:
    """Pixels between the points that are moved at random: few enough that linear interpolation looks smooth."""
    return max(int(sigma / 1.5), 1)


class Grid(NamedTuple):
    """Moves in pixels at the nodes of a grid, linear between them; row i of pixels is at row (i + offset) * tall of the nodes."""

    moves: np.ndarray  # (2, rows, columns): along x and along y
    offset: float
    tall: float
    wide: float


def elastic_grid(
    draw: Callable[[tuple[int, ...]], np.ndarray], height: int, width: int, alpha: float, sigma: float
) -> Grid:
    """The displacements of ``elastic``: random numbers from ``draw(shape)``, 0 to 1, become -1 to 1, are smoothed and multiplied.

    Numbers are drawn for points that are some pixels apart, and smoothed there. Between the points the result is linear. This
    smooths a little too, so the window has only the rest of the variance. One number replaces the mean of the numbers of all
    pixels around its point, so it is divided by the square root of their count.
    """
    shape, step, own, size = _window(height, width, sigma)
    noise = draw(shape)
    noise *= np.float32(2 * alpha / step)
    noise -= np.float32(alpha / step)
    smooth = np.empty_like(noise)
    for plane, target in zip(noise, smooth, strict=True):
        cv2.GaussianBlur(plane, size, own, dst=target, borderType=cv2.BORDER_REFLECT_101)
    return Grid(smooth, 0.0, 1 / step, 1 / step)


@lru_cache(maxsize=64)
def _window(height: int, width: int, sigma: float) -> tuple[tuple[int, int, int], int, float, tuple[int, int]]:
    """The shape of the numbers of an elastic distortion, the distance of two, and the deviation and size of the window."""
    step = spacing(sigma)
    rows, columns = (max(-(-(extent - 1) // step) + 1, 2) for extent in (height, width))
    own = math.sqrt(max(sigma * sigma - (step * step / 6 if step > 1 else 0), 1e-6)) / step
    return (2, rows, columns), step, own, (0, 0) if sigma > 0 else (1, 1)


def elastic(
    draw: Callable[[tuple[int, ...]], np.ndarray], height: int, width: int, alpha: float, sigma: float
) -> tuple[np.ndarray, np.ndarray]:
    """The displacements of ``elastic_grid``, added to the positions of the pixels."""
    return added(elastic_grid(draw, height, width, alpha, sigma), height, width)


def grid(moves: np.ndarray, height: int, width: int) -> tuple[np.ndarray, np.ndarray]:
    """The maps of a grid whose nodes are moved by (2, rows + 1, columns + 1), in pixels; positions between nodes move along."""
    return added(even_grid(moves, height, width), height, width)


def even_grid(moves: np.ndarray, height: int, width: int) -> Grid:
    """Nodes from edge to edge of the image."""
    return Grid(moves, 0.5, (moves.shape[1] - 1) / height, (moves.shape[2] - 1) / width)


def added(nodes: Grid, height: int, width: int) -> tuple[np.ndarray, np.ndarray]:
    """The positions of the pixels plus their moves, along x and along y."""
    map_x, map_y = np.empty((height, width), np.float32), np.empty((height, width), np.float32)
    moves, *places = nodes
    _adding()(moves, *map(np.float32, places), map_x, map_y)
    return map_x, map_y


def adding(height: int, width: int, *places: float) -> Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """`added` for images of one size, for many calls with the moves of a `Grid`; `places` are its other parts."""
    compute, extents, single, empty = _adding(), (height, width), np.dtype(np.float32), np.empty
    offset, tall, wide = map(np.float32, places)

    def run(moves: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        map_x, map_y = empty(extents, single), empty(extents, single)
        compute(moves, offset, tall, wide, map_x, map_y)
        return map_x, map_y

    return run


def elastic_again(
    height: int, width: int, alpha: float, sigma: float
) -> Callable[[int], tuple[np.ndarray, np.ndarray]]:
    """`elastic` for images of one size, for many calls with the number of a key."""
    shape, step, own, size = _window(height, width, sigma)
    line, single, empty = (np.float32(2 * alpha / step), np.float32(-alpha / step)), np.dtype(np.float32), np.empty
    draw = machine_code(line_of_floats, np.uint64(0), *line, empty(0, single))
    added_to, blur, border = adding(height, width, 0.0, 1 / step, 1 / step), cv2.GaussianBlur, cv2.BORDER_REFLECT_101

    def run(key: int) -> tuple[np.ndarray, np.ndarray]:
        noise, smooth = empty(shape, single), empty(shape, single)
        draw(key, *line, noise.ravel())
        blur(noise[0], size, own, smooth[0], 0, border)
        blur(noise[1], size, own, smooth[1], 0, border)
        return added_to(smooth)

    return run


@kernel(fastmath=False)
def draw_nodes(key, limit, across, down, moves):
    """Draws the moves of the nodes of a grid, along x and along y, except on its border; `across` and `down` are the extents of a
    cell.
    """
    moves[:] = 0
    counter = np.uint64(0)
    for axis in range(2):
        for row in range(1, moves.shape[1] - 1):
            for column in range(1, moves.shape[2] - 1):
                moves[axis, row, column] = (unit(key, counter) * 2.0 - 1.0) * limit * (across if axis == 0 else down)
                counter += np.uint64(1)


def grid_again(
    rows: int, columns: int, limit: float, height: int, width: int
) -> Callable[[int], tuple[np.ndarray, np.ndarray]]:
    """`grid` with random moves for images of one size, for many calls with the number of a key."""
    shape = 2, rows + 1, columns + 1
    moves = np.empty(shape, np.float32)
    added_to, numbers = (
        adding(height, width, *even_grid(moves, height, width)[1:]),
        (limit, width / columns, height / rows),
    )
    draw = machine_code(draw_nodes, np.uint64(0), *numbers, moves)

    def run(key: int) -> tuple[np.ndarray, np.ndarray]:
        made = np.empty(shape, np.float32)
        draw(key, *numbers, made)
        return added_to(made)

    return run


@kernel
def jigsaw_maps(key, places, members, ends, map_x, map_y):
    """The centre of each pixel's source if a key puts the parts of an image into another order."""
    sources = np.empty(members.size, np.int64)
    sources_of(key, members, ends, sources)
    for part in range(sources.size):
        top, bottom, left, right = places[part]
        first, column = places[sources[part], 0], places[sources[part], 2]
        for i in range(top, bottom):
            y = np.float32(first + i - top) + np.float32(0.5)
            for j in range(left, right):
                map_x[i, j] = np.float32(column + j - left) + np.float32(0.5)
                map_y[i, j] = y


def jigsaw(height: int, width: int, grid: tuple[int, int]) -> Callable[[int], tuple[np.ndarray, np.ndarray]]:
    """A function of the number of a key: the maps of a random order of the parts."""
    numbers, extents, empty, plane = (
        parts_of(height, width, *grid),
        (height, width),
        np.empty,
        np.empty((0, 0), np.float32),
    )
    compute = machine_code(jigsaw_maps, np.uint64(0), *numbers, plane, plane)

    def run(key: int) -> tuple[np.ndarray, np.ndarray]:
        map_x, map_y = empty(extents, np.float32), empty(extents, np.float32)
        compute(key, *numbers, map_x, map_y)
        return map_x, map_y

    return run


@cache
def _adding() -> Callable[..., None]:
    """The machine code of `add_moves`."""
    plane, number = np.empty((0, 0), np.float32), np.float32(0)
    return machine_code(add_moves, plane[None], number, number, number, plane, plane)


@kernel
def add_moves(moves, offset, tall, wide, map_x, map_y):
    """The place of every pixel's centre, plus the values of a `Grid`."""
    add_between(moves[0], offset, tall, wide, 0, map_x)
    add_between(moves[1], offset, tall, wide, 1, map_y)


@kernel
def add_between(nodes, offset, tall, wide, axis, out):
    """The place of every pixel's centre along an axis (0 is x), plus the value of a grid of nodes, linear between them."""
    height, width = out.shape
    line, one = np.empty(nodes.shape[1], np.float32), np.float32(1)
    for i in range(height):
        place = (np.float32(i) + offset) * tall
        top = min(int(place), nodes.shape[0] - 2)
        down = place - np.float32(top)
        upper, lower, target = nodes[top], nodes[top + 1], out[i]
        for j in range(line.size):
            line[j] = upper[j] * (one - down) + lower[j] * down
        add_x = one if axis == 0 else np.float32(0)
        begin = np.float32(0.5) + (np.float32(0) if axis == 0 else np.float32(i))
        last = np.int32(line.size - 2)
        for j in range(width):
            x = np.float32(np.int32(j))
            across = (x + offset) * wide
            left = min(np.int32(across), last)
            part = across - np.float32(left)
            target[j] = line[left] * (one - part) + line[left + 1] * part + x * add_x + begin


@kernel
def lens(strength, map_x, map_y):
    """Moves positions away from the middle by a factor that grows with the square of the distance, which is 1 in the
    corners.
    """
    height, width = map_x.shape
    middle_y, middle_x = np.float32(0.5 * height), np.float32(0.5 * width)
    scale = strength / (middle_y * middle_y + middle_x * middle_x)
    for i in range(height):
        y = np.float32(i) + np.float32(0.5) - middle_y
        row_x, row_y = map_x[i], map_y[i]
        for j in range(width):
            x = np.float32(np.int32(j)) + np.float32(0.5) - middle_x
            factor = np.float32(1) + scale * (x * x + y * y)
            row_x[j] = middle_x + x * factor
            row_y[j] = middle_y + y * factor


def optical(strength: float, height: int, width: int) -> tuple[np.ndarray, np.ndarray]:
    """The map of a lens."""
    map_x, map_y = np.empty((height, width), np.float32), np.empty((height, width), np.float32)
    lens(np.float32(strength), map_x, map_y)
    return map_x, map_y


def lens_again(strength: float, height: int, width: int) -> Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """`optical` of images of one size, for many calls."""
    factor, plane = np.float32(strength), np.empty((0, 0), np.float32)
    compute = machine_code(lens, factor, plane, plane)

    def run(_image: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        map_x, map_y = np.empty((height, width), np.float32), np.empty((height, width), np.float32)
        compute(factor, map_x, map_y)
        return map_x, map_y

    return run


def _bent(distance2: np.ndarray) -> np.ndarray:
    """The basis of thin plates, r * r * log(r), of squares of distances."""
    return 0.5 * distance2 * np.log(np.maximum(distance2, 1e-20))


@lru_cache(maxsize=8)
def plate_shares(side: int, rows: int, columns: int) -> np.ndarray:
    """The share of the move of each of `side` x `side` points in the moves of the nodes: (points, nodes)."""
    points = plate_points(side)
    count = len(points)
    system = np.zeros((count + 3, count + 3))
    system[:count, :count] = _bent(((points[:, None] - points) ** 2).sum(-1))
    system[:count, count] = system[count, :count] = 1
    system[:count, count + 1 :] = points
    system[count + 1 :, :count] = points.T
    solved = np.linalg.inv(system)[:, :count]
    y, x = (
        axis.ravel()
        for axis in np.meshgrid(np.arange(rows + 1) / rows, np.arange(columns + 1) / columns, indexing="ij")
    )
    places = np.stack([x, y], axis=1)
    bent = _bent(((places[:, None] - points) ** 2).sum(-1))
    return np.ascontiguousarray((bent @ solved[:count] + solved[count] + places @ solved[count + 1 :]).T)


@kernel(fastmath=False)
def bend_nodes(moves, scale, extents, shares, nodes):
    """The moves of the nodes in pixels: the sums of the scaled moves of all points, times the shares."""
    found = np.zeros(nodes.shape)
    for point in range(moves.shape[0]):
        x, y = moves[point, 0] * scale * extents[0], moves[point, 1] * scale * extents[1]
        for node in range(nodes.shape[1]):
            found[0, node] += x * shares[point, node]
            found[1, node] += y * shares[point, node]
    nodes[:] = found


def plate_points(side: int) -> np.ndarray:
    """The points (n, 2) of a plate, row by row: x and y as fractions of the extents."""
    places = np.linspace(0, 1, side)
    return np.stack([axis.ravel() for axis in np.meshgrid(places, places)], axis=1)


MANY_SHARES = 1 << 19  # numbers; more are not kept, because few images are so large, and four megabytes would be held


def thin_plate_grid(moves: np.ndarray, height: int, width: int) -> Grid:
    """The Grid of a plate that is bent through a square of points that are moved by (n, 2), as fractions of the extents."""
    side = math.isqrt(len(moves))
    rows, columns = -(-height // COARSE), -(-width // COARSE)
    few = (rows + 1) * (columns + 1) * len(moves) <= MANY_SHARES
    shares = plate_shares(side, rows, columns) if few else plate_shares.__wrapped__(side, rows, columns)
    nodes = np.empty((2, rows + 1, columns + 1), np.float32)
    bend_nodes(np.ascontiguousarray(moves), 1.0, (float(width), float(height)), shares, nodes.reshape(2, -1))
    return even_grid(nodes, height, width)


@kernel(fastmath=False)
def bent_maps(key, points, scale, shares, rows, columns, map_x, map_y):
    """The maps of a plate whose points have normal moves."""
    moves, nodes = np.empty((points, 2)), np.empty((2, rows + 1, columns + 1), np.float32)
    normals_of(key, 1.0, 0.0, moves.reshape(-1))
    height, width = map_x.shape
    bend_nodes(moves, scale, (np.float64(width), np.float64(height)), shares, nodes.reshape(2, -1))
    add_moves(nodes, np.float32(0.5), np.float32(rows / height), np.float32(columns / width), map_x, map_y)


def bending(side: int, scale: float, height: int, width: int) -> Callable[[int], tuple[np.ndarray, np.ndarray]] | None:
    """`thin_plate` with normal moves of images of one size, for many calls with the number of a key; None for a large table."""
    rows, columns, points, extents = -(-height // COARSE), -(-width // COARSE), side * side, (height, width)
    if (rows + 1) * (columns + 1) * points > MANY_SHARES:
        return None
    empty, single = np.empty, np.float32
    numbers, plane = (points, scale, plate_shares(side, rows, columns), rows, columns), empty((0, 0), single)
    bend = machine_code(bent_maps, np.uint64(0), *numbers, plane, plane)

    def run(key: int) -> tuple[np.ndarray, np.ndarray]:
        map_x, map_y = empty(extents, single), empty(extents, single)
        bend(key, *numbers, map_x, map_y)
        return map_x, map_y

    return run


def thin_plate(moves: np.ndarray, height: int, width: int) -> tuple[np.ndarray, np.ndarray]:
    """The maps of ``thin_plate_grid``."""
    return grid(thin_plate_grid(moves, height, width).moves, height, width)
