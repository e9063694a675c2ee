"""Maps of the source positions of pixels: smooth random displacements, grids, lenses, splines. All are float32; they
map the centres of pixels.
"""

import math
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import cv2
import numpy as np

from pipeflow.kernels.cpu.jit import kernel

COARSE = 8  # pixels between the points where a spline is computed; between them it is interpolated


def centers(height: int, width: int) -> tuple[np.ndarray, np.ndarray]:
    """Maps that move nothing: x and y of the centre of every pixel."""
    x, y = np.arange(width, dtype=np.float32) + np.float32(0.5), np.arange(height, dtype=np.float32) + np.float32(0.5)
    return np.broadcast_to(x, (height, width)), np.broadcast_to(y[:, None], (height, width))


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
    step = spacing(sigma)
    rows, columns = (max(-(-(extent - 1) // step) + 1, 2) for extent in (height, width))
    noise = draw((2, rows, columns)).astype(np.float32)
    noise *= np.float32(2 * alpha / step)
    noise -= np.float32(alpha / step)
    own = math.sqrt(max(sigma * sigma - (step * step / 6 if step > 1 else 0), 1e-6)) / step
    size = (0, 0) if sigma > 0 else (1, 1)
    smooth = [cv2.GaussianBlur(plane, size, own, borderType=cv2.BORDER_REFLECT_101) for plane in noise]
    return Grid(np.stack(smooth), 0.0, 1 / step, 1 / step)


def elastic(
    draw: Callable[[tuple[int, ...]], np.ndarray], height: int, width: int, alpha: float, sigma: float
) -> tuple[np.ndarray, np.ndarray]:
    """The displacements of ``elastic_grid``, added to the positions of the pixels."""
    moves, _, share, _ = elastic_grid(draw, height, width, alpha, sigma)
    maps = np.empty((2, height, width), np.float32)
    for axis, nodes in enumerate(moves):
        add_between(nodes, np.float32(share), axis, maps[axis])
    return maps[0], maps[1]


@kernel
def add_between(nodes, share, axis, out):
    """The place of every pixel's centre along an axis (0 is x), plus the value of a grid of nodes, linear between them.

    ``share`` is one pixel as a part of the distance of two nodes.
    """
    height, width = out.shape
    line, one = np.empty(nodes.shape[1], np.float32), np.float32(1)
    for i in range(height):
        place = np.float32(i) * share
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
            across = x * share
            left = min(np.int32(across), last)
            part = across - np.float32(left)
            target[j] = line[left] * (one - part) + line[left + 1] * part + x * add_x + begin


@lru_cache(maxsize=64)
def weights(extent: int, parts: int) -> np.ndarray:
    """The weights (extent, parts + 1) of the ends of equal parts for the centre of every pixel."""
    place = (np.arange(extent) + 0.5) * parts / extent
    part = np.minimum(place.astype(np.int64), parts - 1)
    result = np.zeros((extent, parts + 1), np.float32)
    rows = np.arange(extent)
    result[rows, part] = 1 - (place - part)
    result[rows, part + 1] = place - part
    return result


def between(nodes: np.ndarray, height: int, width: int) -> np.ndarray:
    """The values of a grid of nodes at every pixel, linear between them."""
    down, across = weights(height, nodes.shape[0] - 1), weights(width, nodes.shape[1] - 1)
    return down @ np.ascontiguousarray(nodes, np.float32) @ across.T


def even_grid(moves: np.ndarray, height: int, width: int) -> Grid:
    """Nodes from edge to edge of the image."""
    return Grid(moves, 0.5, (moves.shape[1] - 1) / height, (moves.shape[2] - 1) / width)


def grid(moves: np.ndarray, height: int, width: int) -> tuple[np.ndarray, np.ndarray]:
    """The maps of a grid whose nodes are moved by (2, rows + 1, columns + 1), in pixels; positions between nodes move along."""
    x, y = centers(height, width)
    return between(moves[0], height, width) + x, between(moves[1], height, width) + y


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


def _bent(distance2: np.ndarray) -> np.ndarray:
    """The basis of thin plates, r * r * log(r), of squares of distances."""
    return 0.5 * distance2 * np.log(np.maximum(distance2, 1e-20))


def thin_plate_grid(points: np.ndarray, moves: np.ndarray, height: int, width: int) -> Grid:
    """The Grid of a plate that is bent through the moved points (n, 2), which are x and y as fractions of the extents."""
    count = len(points)
    system = np.zeros((count + 3, count + 3))
    system[:count, :count] = _bent(((points[:, None] - points) ** 2).sum(-1))
    system[:count, count] = system[count, :count] = 1
    system[:count, count + 1 :] = points
    system[count + 1 :, :count] = points.T
    solved = np.linalg.solve(system, np.vstack([moves, np.zeros((3, 2))]))
    rows, columns = -(-height // COARSE), -(-width // COARSE)
    y, x = (
        axis.ravel()
        for axis in np.meshgrid(np.arange(rows + 1) / rows, np.arange(columns + 1) / columns, indexing="ij")
    )
    places = np.stack([x, y], axis=1)
    bent = _bent(((places[:, None] - points) ** 2).sum(-1))
    found = bent @ solved[:count] + solved[count] + places @ solved[count + 1 :]
    nodes = found.reshape(rows + 1, columns + 1, 2) * (width, height)
    return even_grid(nodes.transpose(2, 0, 1), height, width)


def thin_plate(points: np.ndarray, moves: np.ndarray, height: int, width: int) -> tuple[np.ndarray, np.ndarray]:
    """The maps of ``thin_plate_grid``."""
    return grid(thin_plate_grid(points, moves, height, width).moves, height, width)
