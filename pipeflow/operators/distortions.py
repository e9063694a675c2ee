"""Distortions as maps for `fn.remap`: distortions.elastic, distortions.grid, distortions.optical, distortions.thin_plate."""

from typing import Any

import numpy as np

from pipeflow.declare import Arg, Floats, Ints, Sample, Spec, default, operator
from pipeflow.kernels import cpu as kernels

PAGE = """Each operator makes two maps, x and y, of the size of the image. They have the source position of each pixel.
`fn.remap` applies them: to the image with any interpolation, to a mask with `interp=types.INTERP_NN`. All of them move
together.

    map_x, map_y = fn.distortions.elastic(image, alpha=40.0, sigma=4.0)
    image, mask = fn.remap(image, map_x, map_y), fn.remap(mask, map_x, map_y, interp=types.INTERP_NN)
"""

LAYOUTS = "HWC CHW HW FHWC FCHW FHW"


def _extents(shape: tuple[int, ...], layout: str) -> tuple[int, int]:
    height, width = shape[layout.index("H")], shape[layout.index("W")]
    if not height or not width:
        raise ValueError(f"the image has no pixels: shape {shape}")
    return height, width


def _map_specs(specs: tuple[Spec, ...], args: Any) -> tuple[Spec, Spec]:
    del args
    layout = specs[0].layout or ""
    spec = Spec(tuple(specs[0].shape[layout.index(axis)] for axis in "HW"), np.dtype(np.float32), "HW")
    return spec, spec


@operator("distortions.elastic", layouts=LAYOUTS, examples=["fn.distortions.elastic(image, alpha=30.0, sigma=4.0)"])
def elastic(
    image: Sample,
    /,
    *,
    alpha: Arg[float] = default(50.0, "factor of the displacements, in pixels"),
    sigma: Arg[float] = default(5.0, "smoothness of the displacements: the deviation of the Gaussian window in pixels"),
    key: Any,
    layouts: Any,
) -> tuple[Sample, Sample]:
    """Moves every pixel by random numbers from -1 to 1, smoothed and multiplied by `alpha`.

    From a `sigma` of 3 on the numbers are drawn for points that are two thirds of it apart, weaker by as much as they are
    fewer, and what is between the points is linear: the moves are as large and as smooth as with a number for every pixel.
    """
    if sigma < 0:
        raise ValueError(f"sigma must not be negative, got {sigma}")
    height, width = _extents(image.shape, layouts[0])
    numbers = key.generator().random

    def draw(shape: tuple[int, ...]) -> np.ndarray:
        return numbers(shape, np.float32)

    return kernels.distortions.elastic(draw, height, width, alpha, sigma)


@operator("distortions.grid", layouts=LAYOUTS, examples=["fn.distortions.grid(image, cells=(3, 4), limit=0.4)"])
def grid(
    image: Sample,
    /,
    *,
    cells: Arg[Ints] = default((5, 5), "number of rows and columns of the grid"),
    limit: Arg[float] = default(
        0.3, "largest movement of a node, in shares of a cell; below 0.5 the image does not fold"
    ),
    key: Any,
    layouts: Any,
) -> tuple[Sample, Sample]:
    """Moves the nodes of a grid at random, except those on the border; the pixels between them move along."""
    height, width = _extents(image.shape, layouts[0])
    rows, columns = (cells[0], cells[-1]) if len(cells) in (1, 2) else (0, 0)
    if rows < 1 or columns < 1:
        raise ValueError(f"cells must be one or two numbers of at least 1, got {list(cells)}")
    moves = np.zeros((2, rows + 1, columns + 1), np.float32)
    inner = key.units(2 * (rows - 1) * (columns - 1)).reshape(2, rows - 1, columns - 1) * 2 - 1
    moves[:, 1:-1, 1:-1] = inner * limit * np.array([width / columns, height / rows])[:, None, None]
    return kernels.distortions.grid(moves, height, width)


@operator(
    "distortions.optical", compiled=True, layouts=LAYOUTS, examples=["fn.distortions.optical(image, strength=-0.3)"]
)
def optical(
    image: Sample,
    /,
    *,
    strength: Arg[float] = default(
        0.3, "movement of the corners as a share of their distance: above 0 barrel, below 0 pincushion"
    ),
    layouts: Any,
) -> tuple[Sample, Sample]:
    """Distorts like a lens: the relative change of a distance from the middle grows with its square."""
    return kernels.distortions.optical(strength, *_extents(image.shape, layouts[0]))


@operator("distortions.thin_plate", layouts=LAYOUTS, examples=["fn.distortions.thin_plate(image, points=3, scale=0.1)"])
def thin_plate(
    image: Sample,
    /,
    *,
    points: int = default(4, "the number of points in a row and in a column"),
    scale: Arg[float] = default(0.1, "deviation of the moves of the points, in shares of the extents"),
    moves: Arg[Floats] = default(
        None, "movements of the points, row by row, x and y, in shares of the extents; default: random"
    ),
    key: Any,
    layouts: Any,
) -> tuple[Sample, Sample]:
    """Bends a thin plate through a grid of points that are moved at random (thin plate spline)."""
    height, width = _extents(image.shape, layouts[0])
    places = np.linspace(0, 1, points)
    grid_points = np.stack([axis.ravel() for axis in np.meshgrid(places, places)], axis=1)
    if moves is None:
        chosen = key.normals(2 * points * points).reshape(-1, 2) * scale
    else:
        chosen = np.array(moves, np.float64)
        if chosen.size != 2 * points * points:
            raise ValueError(f"moves of {points * points} points are {2 * points * points} numbers, got {chosen.size}")
        chosen = chosen.reshape(-1, 2)
    return kernels.distortions.thin_plate(grid_points, chosen, height, width)


@thin_plate.check
def _(args: Any) -> None:
    if args.points < 2:
        raise ValueError(f"points must be at least 2, got {args.points}")


for _op in (elastic, grid, optical, thin_plate):
    _op.infer(_map_specs)
