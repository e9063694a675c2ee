"""The positions of points of an image after a remap. The maps have the source of each pixel, so the positions are searched."""

import numpy as np

from pipeflow.kernels.cpu.jit import kernel, plain


@kernel
def slope(line, place):
    """The difference between neighbouring pixels in a line of a map, at a place."""
    low, high = max(place - 1, 0), min(place + 1, line.size - 1)
    return (np.float64(line[high]) - np.float64(line[low])) / max(high - low, 1)


@kernel
def find_points(map_x, map_y, points, out):
    """For each point, the middle of the pixel whose source is nearest, corrected by the slopes of the maps; the third column is
    1 if the point is in the result.
    """
    height, width = map_x.shape
    for number in range(points.shape[0]):
        x, y = np.float32(points[number, 0]), np.float32(points[number, 1])
        best, line, column = np.float32(np.inf), 0, 0
        for i in range(height):
            row_x, row_y = map_x[i], map_y[i]
            least = np.float32(np.inf)
            for j in range(width):
                least = min(least, (row_x[j] - x) ** 2 + (row_y[j] - y) ** 2)
            if least < best:
                best, line = least, i
        for j in range(width):
            if (map_x[line, j] - x) ** 2 + (map_y[line, j] - y) ** 2 == best:
                column = j
                break
        a, b = slope(map_x[line], column), slope(map_x[:, column], line)
        c, d = slope(map_y[line], column), slope(map_y[:, column], line)
        right, down = points[number, 0] - map_x[line, column], points[number, 1] - map_y[line, column]
        volume = a * d - b * c
        move_x, move_y = 0.0, 0.0
        if abs(volume) > 1e-6:
            move_x, move_y = (d * right - b * down) / volume, (a * down - c * right) / volume
        out[number, 0] = column + 0.5 + min(max(move_x, -1.0), 1.0)
        out[number, 1] = line + 0.5 + min(max(move_y, -1.0), 1.0)
        out[number, 2] = abs(move_x) <= 1 and abs(move_y) <= 1 and volume != 0


@kernel
def find_boxes(map_x, map_y, boxes, out):
    """For each box (left, top, right, bottom), the box around the pixels whose sources are in it; all 0 if there are none."""
    height, width = map_x.shape
    for number in range(boxes.shape[0]):
        left, top, right, bottom = boxes[number]
        first, last, start, end = height, -1, width, -1
        for i in range(height):
            row_x, row_y = map_x[i], map_y[i]
            low, high = width, -1
            for j in range(width):
                if left <= row_x[j] < right and top <= row_y[j] < bottom:
                    low, high = min(low, j), j
            if high >= 0:
                first, last = min(first, i), i
                start, end = min(start, low), max(end, high)
        out[number] = 0.0
        if last >= 0:
            out[number, 0], out[number, 1] = start, first
            out[number, 2], out[number, 3] = end + 1, last + 1


def points_after(map_x: np.ndarray, map_y: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Points (n, 2) in pixels of the image as rows of x, y in pixels of the result, and 1 if the point is in the result."""
    out = np.empty((len(points), 3))
    find_points(plain(map_x), plain(map_y), plain(points), out)
    return out


def boxes_after(map_x: np.ndarray, map_y: np.ndarray, boxes: np.ndarray) -> np.ndarray:
    """Boxes (n, 4) in pixels of the image as boxes in pixels of the result."""
    out = np.empty((len(boxes), 4))
    find_boxes(plain(map_x), plain(map_y), plain(boxes), out)
    return out
