"""Moves boxes and points by the matrix of a warp: bbox_rotate, bbox_warp, coord_warp.

Boxes and points that leave the image are dropped together with their labels.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pipeflow.declare import (
    REQUIRED,
    UNKNOWN,
    Arg,
    Args,
    Floats,
    Ints,
    Layout,
    Many,
    Sample,
    Spec,
    default,
    operator,
    parameters,
    parts,
    require,
    required,
)
from pipeflow.kernels import cpu as kernels
from pipeflow.operators.box_windows import LOADS, check_labels, labels_of, some_of
from pipeflow.operators.warp import canvases, given_size, rotated_extents, warp_matrix

PAGE = """Boxes and points that follow a rotation or a warp of their image. [Joint transforms](../joint-transforms.md)
shows how they move with it.
"""


# Boxes and points moved by the matrix of a warp


CORNERS, EXTENTS = "xyXY", "xyWH"
MODES = ("expand", "halfway", "fixed")


def image_extents(shape: Sequence[int], layout: str) -> tuple[int, int]:
    """Height and width in an image's shape; without a layout the first two numbers."""
    if len(shape) < max(len(layout), 2):
        raise ValueError(
            f"input_shape has {len(shape)} values, shape_layout {layout or 'HW'!r} needs {len(layout) or 2}"
        )
    return int(shape[layout.index("H")]), int(shape[layout.index("W")])


def as_corners(boxes: np.ndarray, layout: str) -> np.ndarray:
    """Boxes (n, 4) in float64 as left, top, right, bottom."""
    if boxes.ndim != 2 or boxes.shape[1] != 4:
        raise ValueError(f"boxes have the shape (n, 4), got {boxes.shape}")
    corners = boxes.astype(np.float64)
    if layout == EXTENTS:
        corners[:, 2:] += corners[:, :2]
    return corners


def clipped(
    corners: np.ndarray, extents: Sequence[float], layout: str, threshold: float, dtype: np.dtype
) -> tuple[np.ndarray, np.ndarray]:
    """Boxes limited to an image of this (height, width), and a mask of the boxes that keep enough of their area."""
    wide = np.array([extents[1], extents[0]] * 2, np.float64)
    inside = np.clip(corners, 0, wide)
    whole = np.prod(corners[:, 2:] - corners[:, :2], axis=1)
    left = np.prod(inside[:, 2:] - inside[:, :2], axis=1)
    touches = ((corners[:, 2:] >= 0) & (corners[:, :2] <= wide[:2])).all(1)
    share = np.where(whole > 0, left / np.where(whole > 0, whole, 1), touches)
    if layout == EXTENTS:
        inside[:, 2:] -= inside[:, :2]
    kept = share >= threshold
    return inside[kept].astype(dtype), kept


def check_boxes(args: Any) -> None:
    """Checks the arguments that bbox_rotate and bbox_warp share."""
    if args.bbox_layout not in (CORNERS, EXTENTS):
        raise ValueError(f"bbox_layout must be {CORNERS!r} or {EXTENTS!r}, got {args.bbox_layout!r}")
    if "H" not in args.shape_layout or "W" not in args.shape_layout:
        raise ValueError(f"shape_layout must have an H and a W, got {args.shape_layout!r}")
    if not 0 <= args.remove_threshold < 1:
        raise ValueError(f"remove_threshold must be at least 0 and less than 1, got {args.remove_threshold}")


FORM = parameters(
    bbox_layout=(str, CORNERS, "`xyXY` for left, top, right and bottom; `xyWH` for left, top, width and height"),
    bbox_normalized=(bool, True, "the coordinates are relative to the image; otherwise they are pixels"),
)
SHAPE_LAYOUT = parameters(shape_layout=(Layout, "HW", "order of the extents in `input_shape`"))
MOVED = parameters(
    matrix=(Arg[Floats], REQUIRED, "matrix of the warp, six numbers or nine"),
    input_shape=(Arg[Ints], REQUIRED, "shape of the image before the warp"),
    size=(
        Arg[Floats],
        (),
        "height and width of the result, if the warp has them as an argument; default: those of the image",
    ),
    inverse_map=(bool, True, "the matrix maps positions of the result to positions of the image, as in the warp"),
)


@operator(
    "bbox_rotate",
    takes=FORM | SHAPE_LAYOUT,
    dtypes="float",
    paired="labels",
    examples=["fn.bbox_rotate(boxes, labels, angle=30.0, input_shape=(40, 60), keep_size=True)"],
)
def bbox_rotate(
    boxes: Sample,
    labels: Sample | None = None,
    /,
    *,
    args: Args,
    angle: Arg[float] = required("angle in degrees, counter-clockwise"),
    input_shape: Arg[Ints] = required("shape of the image before it is turned"),
    keep_size: bool = default(
        False, "the turned image has the extents of the input; False: the canvas contains the turned image"
    ),
    size: Arg[Floats] = default((), "height and width of the canvas, if rotate has them as an argument"),
    mode: str = default(
        "expand",
        "`expand` gives the box around the turned box, `fixed` keeps its extents, `halfway` is the mean of both",
    ),
    remove_threshold: float = default(0.1, "a box remains if at least this share of its turned area is on the canvas"),
) -> tuple[Sample, Sample]:
    """Turns boxes as rotate turns their image; those that mostly leave it are dropped, with their labels."""
    old = image_extents(input_shape, args.shape_layout)
    new = rotated_extents(old, angle, None, size, keep_size)
    corners = as_corners(boxes, args.bbox_layout)
    check_labels(labels, len(corners), "boxes")
    pixels = np.array([old[1], old[0]] * 2) if args.bbox_normalized else np.ones(4)
    corners *= pixels
    middle, half = (corners[:, :2] + corners[:, 2:]) / 2, (corners[:, 2:] - corners[:, :2]) / 2
    cos, sin = math.cos(math.radians(angle)), math.sin(math.radians(angle))
    x, y = (middle - [old[1] / 2, old[0] / 2]).T
    middle = np.stack([x * cos + y * sin, x * -sin + y * cos], 1) + [new[1] / 2, new[0] / 2]
    x, y = half.T
    around = np.stack([x * abs(cos) + y * abs(sin), x * abs(sin) + y * abs(cos)], 1)
    fixed = half if abs(cos) >= abs(sin) else half[:, ::-1]
    half = {"expand": around, "halfway": (around + fixed) / 2, "fixed": fixed}[mode]
    scale = np.array([new[1], new[0]] * 2) if args.bbox_normalized else np.ones(4)
    limits = (1.0, 1.0) if args.bbox_normalized else new
    turned = np.concatenate([middle - half, middle + half], 1) / scale
    result, kept = clipped(turned, limits, args.bbox_layout, remove_threshold, boxes.dtype)
    return result if labels is None else (result, labels[kept])


@bbox_rotate.many
def _(many: Many) -> tuple[list[np.ndarray], ...]:
    args, boxes = many.args, many.joined(0, 2)
    require(boxes.values.shape[1] == 4)
    labels = labels_of(many, boxes)
    old = extents_of(many, "input_shape", args.shape_layout)
    angles = many.each("angle")
    require("size" not in many.varying)
    fixed = given_size(args.size, 2)
    new = np.array([fixed], np.int64) if fixed else old if args.keep_size else canvases(old, angles)
    radians = np.radians(angles).tolist()
    turns = np.empty((many.size, 6))
    turns[:, 0], turns[:, 1] = [math.cos(angle) for angle in radians], [math.sin(angle) for angle in radians]
    turns[:, 2:4], turns[:, 4:] = old[:, ::-1], new[:, ::-1]
    out, kept = np.empty((len(boxes.values), 4)), np.empty(len(boxes.values), np.bool_)
    counts = np.empty(many.size, np.int64)
    kernels.boxes.rotate_boxes(
        boxes.values.astype(np.float64),
        boxes.ends,
        turns,
        MODES.index(args.mode),
        args.bbox_layout == EXTENTS,
        bool(args.bbox_normalized),
        float(args.remove_threshold),
        out,
        kept,
        counts,
    )
    found = parts(out[: counts.sum()].astype(boxes.values.dtype), counts)
    return (found,) if labels is None else (found, parts(labels.values[kept], counts))


@bbox_rotate.ready
def _(specs: tuple[Spec, ...], args: Any) -> Any:
    old = image_extents(args.input_shape, args.shape_layout)
    new = rotated_extents(old, args.angle, None, args.size, args.keep_size)
    radians = math.radians(args.angle)
    turns = np.array([[math.cos(radians), math.sin(radians), old[1], old[0], new[1], new[0]]])
    options = args.bbox_layout == EXTENTS, bool(args.bbox_normalized), float(args.remove_threshold)
    return shortened(kernels.moved_boxes.turn_boxes, 4, specs, (turns, MODES.index(args.mode), *options))


bbox_rotate.many_loads = LOADS


def extents_of(many: Many, name: str, layout: str) -> np.ndarray:
    """``image_extents`` for several samples: a row of height and width for each."""
    shapes = many.rows(name)
    require(shapes.shape[1] >= max(len(layout), 2))
    found = shapes[:, [layout.index("H"), layout.index("W")]]
    return found if len(found) == many.size else np.repeat(found, many.size, 0)


@bbox_rotate.check
def _(args: Any) -> None:
    check_boxes(args)
    if args.mode not in MODES:
        raise ValueError(f"mode must be one of {', '.join(MODES)}, got {args.mode!r}")
    if args.keep_size and args.size is not UNKNOWN and len(args.size):
        raise ValueError("keep_size and size exclude each other: give one of them")


def projective(matrix: Sequence[float], inverse_map: bool) -> np.ndarray:
    """The 3 x 3 matrix from input to output coordinates, from a warp's matrix of six or nine numbers."""
    values = np.asarray(matrix, np.float64).ravel()
    if values.size == 9:
        full = values.reshape(3, 3)
    else:
        full = np.vstack([warp_matrix(2, values, True), [0, 0, 1]])
    if not inverse_map:
        return full
    try:
        return np.linalg.inv(full)
    except np.linalg.LinAlgError:
        raise ValueError(f"the matrix cannot be inverted: {full.tolist()}") from None


def through(points: np.ndarray, matrix: np.ndarray) -> np.ndarray:
    """Points (n, 2) after a projective matrix."""
    x, y = points.T
    right, down, scale = (x * row[0] + y * row[1] + row[2] for row in matrix)  # the order of the kernels
    return np.stack([right / scale, down / scale], 1)


@operator(
    "bbox_warp",
    takes=MOVED | FORM | SHAPE_LAYOUT,
    dtypes="float",
    paired="labels",
    examples=["fn.bbox_warp(boxes, labels, matrix=(1.0, 0.2, 3.0, -0.1, 0.9, 1.0), input_shape=(40, 60))"],
)
def bbox_warp(
    boxes: Sample,
    labels: Sample | None = None,
    /,
    *,
    args: Args,
    remove_threshold: float = default(0.1, "a box remains if at least this share of its moved area is on the result"),
) -> tuple[Sample, Sample]:
    """Moves boxes as warp_affine or warp_perspective moves their image; those that mostly leave it are dropped.

    The result is the box around the four moved corners, limited to the image. Labels are dropped with their boxes.
    """
    return warped(boxes, labels, args, remove_threshold, lambda: projective(args.matrix, args.inverse_map))


def warped(boxes: np.ndarray, labels: np.ndarray | None, args: Any, threshold: float, matrix: Any) -> Any:
    """Boxes, and their labels, through the matrix that a function returns."""
    old = image_extents(args.input_shape, args.shape_layout)
    new: Any = given_size(args.size, 2) or old
    corners = as_corners(boxes, args.bbox_layout)
    check_labels(labels, len(corners), "boxes")
    if args.bbox_normalized:
        corners *= [old[1], old[0]] * 2
    every = corners[:, [0, 1, 2, 1, 0, 3, 2, 3]].reshape(-1, 2)
    moved = through(every, matrix()).reshape(-1, 4, 2)
    around = np.concatenate([moved.min(1), moved.max(1)], 1)
    if args.bbox_normalized:
        around /= [new[1], new[0]] * 2
    result, kept = clipped(
        around, (1.0, 1.0) if args.bbox_normalized else new, args.bbox_layout, threshold, boxes.dtype
    )
    return result if labels is None else (result, labels[kept])


@bbox_warp.ready
def _(specs: tuple[Spec, ...], args: Any) -> Any:
    options = bool(args.bbox_normalized), args.bbox_layout == EXTENTS, float(args.remove_threshold)
    return shortened(kernels.moved_boxes.warp_boxes, 4, specs, (*warp_numbers(args), *options))


def warp_numbers(args: Any) -> tuple[np.ndarray, np.ndarray]:
    """The matrix, and width and height of the image before and after the warp, as the kernels read them."""
    old = image_extents(args.input_shape, args.shape_layout)
    new = given_size(args.size, 2) or old
    return np.ascontiguousarray(projective(args.matrix, args.inverse_map)), np.array(
        [*old[::-1], *new[::-1]], np.float64
    )


def shortened(compute: Any, width: int, specs: tuple[Spec, ...], numbers: tuple[Any, ...], maps: bool = False) -> Any:
    """A short form with a kernel that moves rows of numbers and drops some; None if rows have another width. With ``maps`` the
    kernel reads the two inputs after the rows too.
    """
    shape, dtype, labels = specs[0].shape, specs[0].dtype, specs[3:] if maps else specs[1:]
    if len(shape) != 2 or shape[1] != width or dtype == np.float16 or not shape[0]:
        return None
    if labels:
        check_labels(np.empty(labels[0].shape, bool), shape[0], "rows")
    rows, mask, number, empty = np.empty(shape, dtype), np.empty(shape[0], bool), shape[0], np.empty
    plane = (np.empty((1, 1), np.float32),) * 2 if maps else ()
    work = kernels.jit.machine_code(compute, rows, *plane, *numbers, rows, mask)
    first = 3 if maps else 1

    def run(*given: np.ndarray) -> Any:
        out, kept = empty(shape, dtype), empty(number, np.bool_)
        count = work(*map(np.ascontiguousarray, given[:first]), *numbers, out, kept)
        if count == number:
            return (out, given[first].copy()) if labels else out
        return (out[:count].copy(), given[first][kept]) if labels else out[:count].copy()

    return run


bbox_warp.check(check_boxes)


@operator(
    "coord_warp",
    takes=MOVED | SHAPE_LAYOUT,
    dtypes="float",
    paired="labels",
    examples=["fn.coord_warp(points, matrix=(1.0, 0.2, 3.0, -0.1, 0.9, 1.0), input_shape=(40, 60))"],
)
def coord_warp(
    points: Sample,
    labels: Sample | None = None,
    /,
    *,
    args: Args,
    normalized: bool = default(True, "the coordinates are relative to the image; otherwise they are pixels"),
    remove_outside: bool = default(True, "drop the points that are outside the result; False: keep all"),
) -> tuple[Sample, Sample]:
    """Moves points (x, y) as warp_affine or warp_perspective moves their image; those that leave it are dropped.

    Labels are dropped with their points.
    """
    del normalized, remove_outside
    check_points(points.shape, labels)
    return points_warp(args)(points, labels)


def check_points(shape: Sequence[int], labels: Any) -> None:
    """Raises an error unless these are points (n, 2), with a label for each."""
    if len(shape) != 2 or shape[1] != 2:
        raise ValueError(f"points have the shape (n, 2), got {tuple(shape)}")
    check_labels(labels, shape[0], "points")


def points_warp(args: Any) -> Callable[..., Any]:
    """``(points, labels) -> result`` of ``coord_warp``."""
    old = image_extents(args.input_shape, args.shape_layout)
    new = given_size(args.size, 2) or old
    before, after = (np.array([x[1], x[0]] if args.normalized else [1, 1], np.float64) for x in (old, new))
    matrix = projective(args.matrix, args.inverse_map)
    limits = np.array([1, 1] if args.normalized else [new[1], new[0]])

    def run(points: np.ndarray, labels: np.ndarray | None = None) -> Any:
        moved = through(points * before, matrix) / after
        kept = ((moved >= 0) & (moved <= limits)).all(1) if args.remove_outside else np.ones(len(points), bool)
        result = moved[kept].astype(points.dtype)
        return result if labels is None else (result, labels[kept])

    return run


@coord_warp.ready
def _(specs: tuple[Spec, ...], args: Any) -> Any:
    options = bool(args.normalized), bool(args.remove_outside)
    return shortened(kernels.moved_boxes.warp_points, 2, specs, (*warp_numbers(args), *options))


@coord_warp.check
def _(args: Any) -> None:
    if "H" not in args.shape_layout or "W" not in args.shape_layout:
        raise ValueError(f"shape_layout must have an H and a W, got {args.shape_layout!r}")


@bbox_rotate.infer
@bbox_warp.infer
@coord_warp.infer
def _(specs: tuple[Spec, ...], _args: Any) -> tuple[Spec, ...]:
    return tuple(Spec(some_of(spec), spec.dtype, spec.layout) for spec in specs)
