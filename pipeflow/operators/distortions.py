"""Distortions as maps for `fn.remap`: distortions.elastic, grid, optical, thin_plate and jigsaw."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pipeflow.declare import Arg, Args, Floats, Ints, Sample, Spec, default, operator
from pipeflow.kernels import cpu as kernels
from pipeflow.operators.effects import rows_and_columns

PAGE = """Each operator makes two maps, x and y, of the size of the image. They have the source position of each pixel.
`fn.remap` applies them: to the image with any interpolation, to a mask with `interp=types.INTERP_NN`. All of them move
together.

    map_x, map_y = fn.distortions.elastic(image, alpha=40.0, sigma=4.0)
    image, mask = fn.remap(image, map_x, map_y), fn.remap(mask, map_x, map_y, interp=types.INTERP_NN)
"""

LAYOUTS = "HWC CHW HW FHWC FCHW FHW"


def extents_of(shape: tuple[int, ...], layout: str) -> tuple[int, int]:
    """Height and width of the image; an error if it has no pixels."""
    height, width = shape[layout.index("H")], shape[layout.index("W")]
    if not height or not width:
        raise ValueError(f"the image has no pixels: shape {shape}")
    return height, width


def _map_specs(specs: tuple[Spec, ...], args: Any) -> tuple[Spec, Spec]:
    del args
    layout = specs[0].layout or ""
    spec = Spec(tuple(specs[0].shape[layout.index(axis)] for axis in "HW"), np.dtype(np.float32), "HW")
    return spec, spec


@operator(
    "distortions.elastic", gpu=True, layouts=LAYOUTS, examples=["fn.distortions.elastic(image, alpha=30.0, sigma=4.0)"]
)
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

    If `sigma` is 3 or more, numbers are drawn and scaled only for points that are two thirds of `sigma` apart, and interpolated
    between these points. The moves are as large and as smooth as with a number for every pixel.
    """
    check_sigma(sigma)
    return kernels.distortions.elastic(numbers_of(key), *extents_of(image.shape, layouts[0]), alpha, sigma)


def check_sigma(sigma: float) -> None:
    """Raises for a negative deviation."""
    if sigma < 0:
        raise ValueError(f"sigma must not be negative, got {sigma}")


@elastic.ready
def _(specs: tuple[Spec, ...], args: Any) -> Any:
    check_sigma(args.sigma)
    extents = extents_of(specs[0].shape, specs[0].layout or "")
    run = kernels.distortions.elastic_again(*extents, args.alpha, args.sigma)
    return lambda _image, key: run(key)


def numbers_of(key: Any) -> Callable[[tuple[int, ...]], np.ndarray]:
    """The function that draws float32 numbers from 0 to 1 in any shape, to be called at once."""
    numbers = key.borrowed().random

    def draw(shape: tuple[int, ...]) -> np.ndarray:
        return numbers(shape, np.float32)

    return draw


@operator(
    "distortions.grid", gpu=True, layouts=LAYOUTS, examples=["fn.distortions.grid(image, cells=(3, 4), limit=0.4)"]
)
def grid(
    image: Sample,
    /,
    *,
    cells: Arg[Ints] = default((5, 5), "number of rows and columns of the grid"),
    limit: Arg[float] = default(
        0.3, "largest movement of a node, in shares of a cell; below 0.5 the image does not fold"
    ),
    args: Args,
    key: Any,
    layouts: Any,
) -> tuple[Sample, Sample]:
    """Moves the nodes of a grid at random, except those on the border; the pixels between them move along."""
    del limit
    height, width = extents_of(image.shape, layouts[0])
    check_cells(cells)
    return kernels.distortions.grid(grid_moves(args, key, height, width), height, width)


def check_cells(cells: Sequence[int]) -> None:
    """Raises an error unless there are one or two numbers of cells, and none is 0."""
    if len(cells) not in (1, 2) or min(cells) < 1:
        raise ValueError(f"cells must be one or two numbers of at least 1, got {list(cells)}")


def grid_moves(args: Any, key: Any, height: int, width: int) -> np.ndarray:
    """The moves of all nodes in pixels, along x and along y."""
    rows, columns = args.cells[0], args.cells[-1]
    moves = np.zeros((2, rows + 1, columns + 1), np.float32)
    inner = key.units(2 * (rows - 1) * (columns - 1)).reshape(2, rows - 1, columns - 1) * 2 - 1
    moves[:, 1:-1, 1:-1] = inner * args.limit * np.array([width / columns, height / rows])[:, None, None]
    return moves


@operator(
    "distortions.optical",
    compiled=True,
    gpu=True,
    layouts=LAYOUTS,
    examples=["fn.distortions.optical(image, strength=-0.3)"],
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
    return kernels.distortions.optical(strength, *extents_of(image.shape, layouts[0]))


@grid.ready
def _(specs: tuple[Spec, ...], args: Any) -> Any:
    check_cells(args.cells)
    height, width = extents_of(specs[0].shape, specs[0].layout or "")
    rows, columns = args.cells[0], args.cells[-1]
    if rows == 1 or columns == 1:
        return None
    run = kernels.distortions.grid_again(rows, columns, args.limit, height, width)
    return lambda _image, key: run(key)


@optical.ready
def _(specs: tuple[Spec, ...], args: Any) -> Any:
    return kernels.distortions.lens_again(args.strength, *extents_of(specs[0].shape, specs[0].layout or ""))


@operator(
    "distortions.thin_plate",
    gpu=True,
    layouts=LAYOUTS,
    examples=["fn.distortions.thin_plate(image, points=3, scale=0.1)"],
)
def thin_plate(
    image: Sample,
    /,
    *,
    points: int = default(4, "the number of points in a row and in a column"),
    scale: Arg[float] = default(0.1, "deviation of the moves of the points, in shares of the extents"),
    moves: Arg[Floats] = default(
        None, "movements of the points, row by row, x and y, in shares of the extents; default: random"
    ),
    args: Args,
    key: Any,
    layouts: Any,
) -> tuple[Sample, Sample]:
    """Bends a thin plate through a grid of points that are moved at random (thin plate spline)."""
    del points, scale, moves
    height, width = extents_of(image.shape, layouts[0])
    check_moves(args)
    return kernels.distortions.thin_plate(plate_moves(args, key), height, width)


def check_moves(args: Any) -> None:
    """Raises an error unless there are as many movements as points, and their deviation is not negative."""
    count = args.points * args.points
    if args.moves is not None and len(args.moves) != 2 * count:
        raise ValueError(f"moves of {count} points are {2 * count} numbers, got {len(args.moves)}")
    if args.scale < 0:
        raise ValueError(f"scale must not be negative, got {args.scale}")


def plate_moves(args: Any, key: Any) -> np.ndarray:
    """The movements (n, 2) of the points, as fractions of the extents."""
    if args.moves is not None:
        return np.array(args.moves, np.float64).reshape(-1, 2)
    return key.normals(2 * args.points * args.points).reshape(-1, 2) * args.scale


@thin_plate.ready
def _(specs: tuple[Spec, ...], args: Any) -> Any:
    check_moves(args)
    height, width = extents_of(specs[0].shape, specs[0].layout or "")
    bent = kernels.distortions.bending(args.points, float(args.scale), height, width)
    if bent is None or args.moves is not None:
        return None
    return lambda _image, key: bent(key)


@thin_plate.check
def _(args: Any) -> None:
    if args.points < 2:
        raise ValueError(f"points must be at least 2, got {args.points}")


@operator("distortions.jigsaw", layouts=LAYOUTS, examples=["fn.distortions.jigsaw(image, grid=(2, 3))"])
def jigsaw(
    image: Sample,
    /,
    *,
    grid: Arg[Ints] = default((4, 4), "number of rows and columns of parts"),
    key: Any,
    layouts: Any,
) -> tuple[Sample, Sample]:
    """Puts the parts of a grid into a random order, as `fn.jigsaw` does; only parts of equal size change places.

    With the maps, boxes and points move with the image: `fn.bbox_remap`, `fn.coord_remap`.
    """
    return kernels.distortions.jigsaw(*extents_of(image.shape, layouts[0]), rows_and_columns(grid))(int(key.value))


@jigsaw.ready
def _(specs: tuple[Spec, ...], args: Any) -> Any:
    extents = extents_of(specs[0].shape, specs[0].layout or "")
    run = kernels.distortions.jigsaw(*extents, rows_and_columns(args.grid))
    return lambda _image, key: run(key)


for _op in (elastic, grid, optical, thin_plate, jigsaw):
    _op.infer(_map_specs)
