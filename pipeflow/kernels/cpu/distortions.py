"""Maps of the source positions of pixels: smooth random displacements, grids, lenses, splines. All are float32; they
map the centres of pixels.
"""

from functools import lru_cache

import cv2
import numpy as np

from pipeflow.kernels.cpu.jit import kernel

COARSE = 8  # pixels between the points where a spline is computed; between these it is smooth


def centers(height: int, width: int) -> tuple[np.ndarray, np.ndarray]:
    """The map that moves nothing: x and y of the centre of every pixel."""
    x, y = np.arange(width, dtype=np.float32) + np.float32(0.5), np.arange(height, dtype=np.float32) + np.float32(0.5)
    return np.broadcast_to(x, (height, width)), np.broadcast_to(y[:, None], (height, width))


def elastic(noise: np.ndarray, alpha: float, sigma: float) -> tuple[np.ndarray, np.ndarray]:
    """Random numbers (2, height, width) from -1 to 1, smoothed and multiplied, added to the places."""
    x, y = centers(*noise.shape[1:])
    size = (0, 0) if sigma > 0 else (1, 1)
    moved = [cv2.GaussianBlur(plane, size, max(sigma, 1e-3), borderType=cv2.BORDER_REFLECT_101) for plane in noise]
    return moved[0] * np.float32(alpha) + x, moved[1] * np.float32(alpha) + y


@lru_cache(maxsize=64)
def weights(extent: int, parts: int) -> np.ndarray:
    """The shares (extent, parts + 1) of the ends of each of some equal parts in every pixel's centre."""
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


def grid(moves: np.ndarray, height: int, width: int) -> tuple[np.ndarray, np.ndarray]:
    """The nodes of a grid moved (2, rows + 1, columns + 1), in pixels, and everything between them with them."""
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
        for j in range(width):
            x = np.float32(j) + np.float32(0.5) - middle_x
            factor = np.float32(1) + scale * (x * x + y * y)
            map_x[i, j] = middle_x + x * factor
            map_y[i, j] = middle_y + y * factor


def optical(strength: float, height: int, width: int) -> tuple[np.ndarray, np.ndarray]:
    """The map of a lens."""
    map_x, map_y = np.empty((height, width), np.float32), np.empty((height, width), np.float32)
    lens(np.float32(strength), map_x, map_y)
    return map_x, map_y


def _bent(distance2: np.ndarray) -> np.ndarray:
    """The basis of thin plates, r * r * log(r), of squares of distances."""
    return 0.5 * distance2 * np.log(np.maximum(distance2, 1e-20))


def thin_plate(points: np.ndarray, moves: np.ndarray, height: int, width: int) -> tuple[np.ndarray, np.ndarray]:
    """A plate bent so that it passes through the moved points (n, 2), in shares of the extents; x, y."""
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
    return grid(nodes.transpose(2, 0, 1), height, width)
