"""Bounding boxes and points that move with their image, windows that keep boxes, and the targets of a detector.

Boxes are rows of four numbers, relative to the image unless an argument says otherwise. Boxes and points that leave the
image are dropped together with their labels.
"""

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from pipeflow.declare import (
    UNKNOWN,
    Arg,
    Args,
    Floats,
    Ints,
    Joined,
    Layout,
    Many,
    Out,
    Sample,
    Spec,
    default,
    operator,
    parameters,
    parts,
    require,
    required,
)
from pipeflow.declare import half_up as half_up_all
from pipeflow.kernels import cpu as kernels
from pipeflow.operators.box_windows import (
    LOADS,
    box_columns,
    check_labels,
    in_order,
    labels_of,
    layout_of,
    rows_in_order,
    search,
    some_of,
    windowing,
    windows_of,
)
from pipeflow.operators.windows import half_up

PAGE = """Boxes are rows of four numbers, points rows of two or three, relative to the image unless an argument says
otherwise. Boxes and points that leave the image are dropped together with their labels. [Joint
transforms](../joint-transforms.md) shows how they move with their image.
"""


FLOAT = np.dtype(np.float32)
INT32 = np.dtype(np.int32)
Mapping = tuple[np.ndarray, np.ndarray]  # a matrix and an offset, for coordinates as columns


# ----------------------------------------------------------------------------------------------------
# A factor and an offset for every coordinate: bb_flip, bbox_paste, coord_flip


def check_four(shape: Sequence[int]) -> None:
    """Boxes have four numbers each; they may be a flat list."""
    if not shape or (shape[-1] != 4 and not (len(shape) == 1 and shape[0] % 4 == 0)):
        raise ValueError(f"boxes have four numbers each, got shape {tuple(shape)}")


@lru_cache(maxsize=64)
def box_flip(ltrb: bool, horizontal: bool, vertical: bool) -> Mapping:
    """The mapping of bb_flip: left becomes 1 - left - width; for corners, left and right are exchanged."""
    matrix, offset = np.eye(4), np.zeros(4)
    for axis, turned in enumerate((horizontal, vertical)):
        if turned and ltrb:
            matrix[[axis, axis + 2]] = -matrix[[axis + 2, axis]]
            offset[[axis, axis + 2]] = 1
        elif turned:
            matrix[axis, [axis, axis + 2]] = -1
            offset[axis] = 1
    return matrix, offset


LTRB = parameters(ltrb=(bool, False, "True: boxes are left, top, right and bottom; False: left, top, width and height"))


@operator("bb_flip", compiled=True, takes=LTRB, dtypes="float", gpu=True, examples=["fn.bb_flip(boxes, ltrb=True)"])
def bb_flip(
    boxes: Sample,
    /,
    *,
    args: Args,
    horizontal: Arg[bool] = default(True, "mirror left to right"),
    vertical: Arg[bool] = default(False, "mirror top to bottom"),
    out: Out,
) -> Sample:
    """Mirrors boxes in relative coordinates, as flip mirrors their image."""
    check_four(boxes.shape)
    return kernels.boxes.mapped(boxes, *box_flip(args.ltrb, horizontal, vertical), out)


@lru_cache(maxsize=256)
def box_paste(ltrb: bool, ratio: float, x: float, y: float) -> Mapping:
    """The mapping of bbox_paste: into a canvas `ratio` times as large."""
    if not ratio > 0:
        raise ValueError(f"ratio must be positive, got {ratio}")
    start = np.minimum(np.array([x, y]) * (ratio - 1), ratio - 1) / ratio
    return np.eye(4) / ratio, np.concatenate([start, start if ltrb else np.zeros(2)])


@operator(
    "bbox_paste",
    compiled=True,
    takes=LTRB,
    dtypes="float",
    gpu=True,
    examples=["fn.bbox_paste(boxes, ratio=2.0, ltrb=True)"],
)
def bbox_paste(
    boxes: Sample,
    /,
    *,
    args: Args,
    ratio: Arg[float] = required("how many times wider and higher the canvas is than the image"),
    paste_x: Arg[float] = default(0.5, "where the image is in the canvas, from 0 at the left to 1 at the right"),
    paste_y: Arg[float] = default(0.5, "where the image is in the canvas, from 0 at the top to 1 at the bottom"),
    out: Out,
) -> Sample:
    """Moves boxes in relative coordinates onto a larger canvas, as paste moves their image."""
    check_four(boxes.shape)
    return kernels.boxes.mapped(boxes, *box_paste(args.ltrb, ratio, paste_x, paste_y), out)


@lru_cache(maxsize=256)
def point_flip(layout: str, size: int, flips: tuple[bool, ...], centers: tuple[float, ...]) -> Mapping:
    """The mapping of coord_flip: 2 * center - x along the mirrored axes."""
    if not 1 <= size <= 3:
        raise ValueError(f"points have one to three coordinates, got {size}")
    letters = layout or "xyz"[:size]
    if len(letters) != size:
        raise ValueError(f"layout {layout!r} names {len(letters)} coordinates, the points have {size}")
    matrix, offset = np.eye(size), np.zeros(size)
    for letter, turned, center in zip("xyz", flips, centers, strict=True):
        axis = letters.find(letter)
        if turned and axis >= 0:
            matrix[axis, axis], offset[axis] = -1, 2 * center
    return matrix, offset


@operator("coord_flip", compiled=True, dtypes="float", gpu=True, examples=["fn.coord_flip(points)"])
def coord_flip(
    points: Sample,
    /,
    *,
    flip_x: Arg[bool] = default(True, "mirror the horizontal coordinates"),
    flip_y: Arg[bool] = default(False, "mirror the vertical coordinates"),
    flip_z: Arg[bool] = default(False, "mirror the depths"),
    center_x: Arg[float] = default(
        0.5, "the middle between a horizontal coordinate and its mirror image; 0.5 for relative coordinates"
    ),
    center_y: Arg[float] = default(0.5, "the same for the vertical coordinates"),
    center_z: Arg[float] = default(0.5, "the same for the depths"),
    layout: Layout = default("", "order of the coordinates of a point; default: `xyz`, or its first letters"),
    out: Out,
) -> Sample:
    """Mirrors points about a centre, coordinate by coordinate. A coordinate that the points do not have is not mirrored."""
    flips, centers = (flip_x, flip_y, flip_z), (center_x, center_y, center_z)
    mapping = point_flip(layout, points.shape[-1] if points.ndim else 1, flips, centers)
    return kernels.boxes.mapped(points, *mapping, out)


@coord_flip.check
def _(args: Any) -> None:
    if args.layout and (set(args.layout) - set("xyz") or len(set(args.layout)) < len(args.layout)):
        raise ValueError(f"layout must be made of x, y and z, each once, got {args.layout!r}")


@bb_flip.ready
def _(specs: tuple[Spec, ...], args: Any) -> Any:
    check_four(specs[0].shape)
    return kernels.boxes.mapping(specs[0].dtype, *box_flip(args.ltrb, args.horizontal, args.vertical))


@bbox_paste.ready
def _(specs: tuple[Spec, ...], args: Any) -> Any:
    check_four(specs[0].shape)
    return kernels.boxes.mapping(specs[0].dtype, *box_paste(args.ltrb, args.ratio, args.paste_x, args.paste_y))


@coord_flip.ready
def _(specs: tuple[Spec, ...], args: Any) -> Any:
    shape, flips = specs[0].shape, (args.flip_x, args.flip_y, args.flip_z)
    matrix = point_flip(args.layout, shape[-1] if shape else 1, flips, (args.center_x, args.center_y, args.center_z))
    return kernels.boxes.mapping(specs[0].dtype, *matrix)


def mapped_together(many: Many, points: Joined, mapping: Mapping) -> tuple[Any]:
    """The coordinates of all samples through one mapping."""
    require(points.values.shape[1] == len(mapping[1]))
    found = kernels.boxes.mapped(points.values, *mapping, np.empty_like(points.values))
    samples = many.inputs[0]
    return (found.reshape(samples.shape) if isinstance(samples, np.ndarray) else points.divided(found),)


@bb_flip.many
def _(many: Many) -> tuple[Any]:
    args = many.args
    require(not many.varying)
    return mapped_together(many, many.joined(0, 2), box_flip(args.ltrb, args.horizontal, args.vertical))


@bbox_paste.many
def _(many: Many) -> tuple[Any]:
    args = many.args
    require(not many.varying)
    return mapped_together(many, many.joined(0, 2), box_paste(args.ltrb, args.ratio, args.paste_x, args.paste_y))


@coord_flip.many
def _(many: Many) -> tuple[Any]:
    args, points = many.args, many.joined(0, 2)
    require(not many.varying)
    flips, centers = (args.flip_x, args.flip_y, args.flip_z), (args.center_x, args.center_y, args.center_z)
    return mapped_together(many, points, point_flip(args.layout, points.values.shape[1], flips, centers))


for _op in (bb_flip, bbox_paste, coord_flip):

    @_op.infer
    def _(specs: tuple[Spec, ...], _args: Any) -> Spec:
        return specs[0]


# ----------------------------------------------------------------------------------------------------
# random_bbox_crop and ssd_random_crop

SEARCH = parameters(
    thresholds=(Floats, (0.0,), "minimum overlaps; one of them is drawn for every num_attempts windows"),
    threshold_type=(
        str,
        "iou",
        "measure of the overlap: `iou`, the intersection over union of the box and the window, or "
        "`overlap`, the share of the box that is in the window",
    ),
    all_boxes_above_threshold=(bool, True, "all boxes must have this overlap; False: one box is enough"),
    scaling=(
        Floats,
        (1.0, 1.0),
        "the least and the largest extent of a window, relative to the image; a window of more than 1 contains the image: cut "
        "it with `out_of_bounds_policy='pad'`",
    ),
    aspect_ratio=(
        Floats,
        (1.0, 1.0),
        "the least and the largest ratio of width to height; for boxes in space one such range, or one "
        "for each of width / height, width / depth and height / depth",
    ),
    crop_shape=(Arg[Ints], None, "extents of every window in pixels, instead of scaling and aspect ratio"),
    input_shape=(
        Arg[Ints],
        None,
        "extents of the image in pixels; without them the aspect ratio is that of relative coordinates",
    ),
    shape_layout=(Layout, "", "order of the extents in crop_shape and input_shape; default: `WH` or `WHD`"),
    allow_no_crop=(bool, True, "the whole image is one of the possible results"),
    num_attempts=(int, 1, "number of windows that are tried before another threshold is drawn"),
    total_num_attempts=(int, -1, "number of windows after which the best one is taken; -1: twenty thousand"),
    bbox_layout=(str, "", "order of the numbers of a box; default: `xyXY` or `xyzXYZ`; W, H and D are extents"),
    ltrb=(bool, True, "without bbox_layout: the layout is `xyXY`; False: `xyWH`"),
    bbox_prune_threshold=(float, None, "a box remains if this share of it is in the window; default: if its centre is"),
    output_bbox_indices=(bool, False, "return the numbers of the remaining boxes as an additional output"),
)


@operator(
    "random_bbox_crop",
    compiled=True,
    takes=SEARCH,
    dtypes="float",
    paired="labels",
    no_effect={"quiet": "nothing is printed if no window fits"},
    examples=["fn.random_bbox_crop(boxes, labels, thresholds=[0.1, 0.3], scaling=[0.3, 1.0], aspect_ratio=[0.5, 2.0])"],
)
def random_bbox_crop(
    boxes: Sample, labels: Sample | None = None, /, *, args: Args, key: Any
) -> tuple[Sample, Sample, Sample, Sample]:
    """Draws a window for a crop that keeps boxes: its start, its extents, the boxes in it and their labels.

    Windows are tried until one overlaps the boxes enough. Start and extents are relative to the image, in the order width,
    height, depth, as slice reads them; with ``crop_shape`` they are pixels. The resulting boxes are relative to the window, and
    limited to it.
    """
    if boxes.ndim != 2 or boxes.shape[1] not in (4, 6):
        raise ValueError(f"boxes have the shape (n, 4), or (n, 6) in space, got {boxes.shape}")
    check_labels(labels, len(boxes), "boxes")
    ndim = boxes.shape[1] // 2
    starts, ends, extents = box_columns(layout_of(args, ndim), ndim)
    lows, highs = boxes[:, starts].astype(np.float64), boxes[:, ends].astype(np.float64)
    if extents:
        highs += lows
    anchor, sizes, kept = search(lows, highs, key.value, args)
    result = np.empty((int(kept.sum()), 2 * ndim), boxes.dtype)
    first, last = (np.clip((x[kept] - anchor) / sizes, 0, 1) for x in (lows, highs))
    result[:, starts], result[:, ends] = first, last - first if extents else last
    if args.crop_shape is not None:
        whole = in_order(args.input_shape, args.shape_layout, ndim, "input_shape")
        anchor, sizes = np.round(anchor * whole), np.round(sizes * whole)
    outputs = [anchor.astype(FLOAT), sizes.astype(FLOAT), result]
    if labels is not None:
        outputs.append(labels[kept])
    if args.output_bbox_indices:
        outputs.append(np.flatnonzero(kept).astype(INT32))
    return tuple(outputs)


@random_bbox_crop.many
def _(many: Many) -> tuple[Any, ...]:
    args, boxes = many.args, many.joined(0, 2)
    labels = labels_of(many, boxes)
    anchors, sizes, found, kept, counts = windows_of(many, boxes, args)
    if args.crop_shape is not None:
        whole = rows_in_order(many.rows("input_shape"), args.shape_layout, anchors.shape[1])
        anchors, sizes = np.round(anchors * whole), np.round(sizes * whole)
    outputs = [anchors.astype(FLOAT), sizes.astype(FLOAT), parts(found, counts)]
    if labels is not None:
        outputs.append(parts(labels.values[kept], counts))
    if args.output_bbox_indices:
        places = np.arange(len(kept)) - np.repeat(boxes.ends[:-1], np.diff(boxes.ends))
        outputs.append(parts(places[kept].astype(INT32), counts))
    return tuple(outputs)


@random_bbox_crop.ready
def _(specs: tuple[Spec, ...], args: Any) -> Any:
    find = _finding(specs, args)
    if find is None or args.output_bbox_indices:
        return None
    if len(specs) == 1:
        return lambda boxes, key: find(boxes, key)[:3]

    def run(boxes: np.ndarray, labels: np.ndarray, key: int) -> tuple[np.ndarray, ...]:
        anchor, sizes, found, kept = find(boxes, key)
        return anchor, sizes, found, labels.copy() if len(found) == len(labels) else labels[kept]

    return run


def _finding(specs: Sequence[Spec], args: Any) -> Any:
    """`windowing` for boxes, and perhaps labels, of these shapes; None if they have none or are not right."""
    shape = specs[0].shape
    if len(shape) != 2 or shape[1] not in (4, 6) or not shape[0]:
        return None
    if len(specs) > 1:
        check_labels(np.empty(specs[1].shape, bool), shape[0], "boxes")
    return windowing(args, shape[0], shape[1] // 2, specs[0].dtype)


random_bbox_crop.many_loads = LOADS


@random_bbox_crop.outputs
def _(args: Any) -> int:
    return 5 if args.output_bbox_indices else 4


def check_range(values: Any, name: str, most: float = math.inf) -> None:
    """A pair of numbers, the smaller one first."""
    if len(values) != 2 or not 0 <= values[0] <= values[1] <= most:
        limits = f"between 0 and {most:g}" if most < math.inf else "of at least 0"
        raise ValueError(f"{name} must be two numbers {limits}, the smaller one first, got {tuple(values)}")


@random_bbox_crop.check
def _(args: Any) -> None:
    if not args.thresholds or not all(0 <= value <= 1 for value in args.thresholds):
        raise ValueError(f"thresholds must be numbers between 0 and 1, got {tuple(args.thresholds)}")
    if args.threshold_type not in ("iou", "overlap"):
        raise ValueError(f"threshold_type must be 'iou' or 'overlap', got {args.threshold_type!r}")
    check_range(args.scaling, "scaling")
    if len(args.aspect_ratio) not in (2, 6):
        raise ValueError(f"aspect_ratio must have 2 values, or 6 in space, got {len(args.aspect_ratio)}")
    for first in range(0, len(args.aspect_ratio), 2):
        check_range(args.aspect_ratio[first : first + 2], "aspect_ratio")
    if args.num_attempts < 1:
        raise ValueError(f"num_attempts must be at least 1, got {args.num_attempts}")
    if args.bbox_prune_threshold is not None and not 0 <= args.bbox_prune_threshold <= 1:
        raise ValueError(f"bbox_prune_threshold must be between 0 and 1, got {args.bbox_prune_threshold}")
    if args.bbox_layout:
        box_columns(args.bbox_layout, 3 if "z" in args.bbox_layout else 2)
    if args.crop_shape is not None:
        if args.input_shape is None:
            raise ValueError("crop_shape needs input_shape, the extents of the image that it is cut from")
        if tuple(args.scaling) != (1.0, 1.0) or tuple(args.aspect_ratio) != (1.0, 1.0):
            raise ValueError("crop_shape excludes scaling and aspect_ratio: give the one or the others")


@random_bbox_crop.infer
def _(specs: tuple[Spec, ...], args: Any) -> tuple[Spec, ...]:
    boxes = specs[0]
    ndim = UNKNOWN if boxes.shape is UNKNOWN or boxes.shape[1] is UNKNOWN else boxes.shape[1] // 2
    found = [Spec((ndim,), FLOAT, ""), Spec((ndim,), FLOAT, ""), Spec(some_of(boxes), boxes.dtype, boxes.layout)]
    found += [Spec(some_of(labels), labels.dtype, labels.layout) for labels in specs[1:]]
    return (*found, Spec((UNKNOWN,), INT32, "")) if args.output_bbox_indices else tuple(found)


SSD: dict[str, Any] = {"thresholds": (0.0, 0.1, 0.3, 0.5, 0.7, 0.9), "scaling": (0.3, 1.0), "aspect_ratio": (0.5, 2.0)}


@operator("ssd_random_crop", compiled=True, layouts="HWC", examples=["fn.ssd_random_crop(image, boxes, labels)"])
def ssd_random_crop(
    image: Sample,
    boxes: Sample,
    labels: Sample,
    /,
    *,
    num_attempts: int = default(1, "number of windows that are tried before another overlap is drawn"),
    key: Any,
) -> tuple[Sample, Sample, Sample]:
    """Crops image, boxes and labels as in the training of SSD; random_bbox_crop and slice do the same with more arguments.

    A window has 0.3 to 1 of each extent and a ratio of 0.5 to 2, and overlaps every box by an intersection over union of
    at least 0, 0.1, 0.3, 0.5, 0.7 or 0.9, or it is the whole image. Boxes are left, top, right and bottom.
    """
    options = random_bbox_crop.known({**SSD, "num_attempts": num_attempts})
    start, extents, boxes, labels = random_bbox_crop.body(boxes, labels, args=options, key=key)
    whole = np.array([image.shape[1], image.shape[0]])
    left, top = (half_up(x) for x in start * whole)
    right, bottom = (half_up(x) for x in (start + extents) * whole)
    return image[top:bottom, left:right], boxes, labels


@ssd_random_crop.many
def _(many: Many) -> tuple[list[np.ndarray], ...]:
    images, boxes = many.inputs[0], many.joined(1, 2)
    labels = labels_of(many, boxes, 2)
    assert labels is not None
    options = random_bbox_crop.known({**SSD, "num_attempts": many.args.num_attempts})
    anchors, sizes, found, kept, counts = windows_of(many, boxes, options)
    # the body rounds to float32 first, and multiplies by whole numbers: so the products are float64
    starts, extents = (x.astype(FLOAT) for x in (anchors, sizes))
    whole = np.array([(image.shape[1], image.shape[0]) for image in images], np.int64)
    corners = half_up_all(starts * whole), half_up_all((starts + extents) * whole)
    cut = [
        many.copy(image[top:bottom, left:right])
        for image, (left, top), (right, bottom) in zip(images, *(x.tolist() for x in corners))
    ]
    return cut, parts(found, counts), parts(labels.values[kept], counts)


@ssd_random_crop.ready
def _(specs: tuple[Spec, ...], args: Any) -> Any:
    find = _finding(specs[1:], random_bbox_crop.known({**SSD, "num_attempts": args.num_attempts}))
    if find is None or specs[1].shape[1] != 4:
        return None
    height, width, _ = specs[0].shape

    def run(image: np.ndarray, boxes: np.ndarray, labels: np.ndarray, key: int) -> tuple[np.ndarray, ...]:
        anchor, sizes, found, kept = find(boxes, key)
        (left, top), (right, bottom) = anchor.tolist(), (anchor + sizes).tolist()
        rows = slice(int(top * height + 0.5), int(bottom * height + 0.5))  # `half_up`: no number is below 0
        part = image[rows, int(left * width + 0.5) : int(right * width + 0.5)]
        return part, found, labels.copy() if len(found) == len(labels) else labels[kept]

    return run


ssd_random_crop.many_loads = LOADS


@ssd_random_crop.infer
def _(specs: tuple[Spec, ...], _args: Any) -> tuple[Spec, ...]:
    image, boxes, labels = specs
    shape = (UNKNOWN, UNKNOWN, image.shape[2])
    return (
        Spec(shape, image.dtype, image.layout),
        Spec(some_of(boxes), boxes.dtype, boxes.layout),
        Spec(some_of(labels), labels.dtype, labels.layout),
    )


# ----------------------------------------------------------------------------------------------------
# box_encoder


# by identity, because hashing thousands of numbers takes long
_tables: dict[int, tuple[tuple[float, ...], np.ndarray]] = {}


def anchor_table(anchors: tuple[float, ...]) -> np.ndarray:
    """The anchors as rows of left, top, right and bottom."""
    known = _tables.get(id(anchors))
    if known is not None and known[0] is anchors:
        return known[1]
    if not anchors or len(anchors) % 4:
        raise ValueError(f"anchors have four numbers each, got {len(anchors)} in all")
    table = np.array(anchors, np.float32).reshape(-1, 4)
    if len(_tables) >= 64:
        _tables.clear()
    _tables[id(anchors)] = anchors, table
    return table


@operator(
    "box_encoder",
    compiled=True,
    dtypes="float",
    gpu=True,
    no_effect={"scale": "boxes and anchors are scaled in the same way, so their offsets do not change"},
    examples=["fn.box_encoder(boxes, labels, anchors=[0.0, 0.1, 0.5, 0.6, 0.3, 0.3, 0.8, 0.9])"],
)
def box_encoder(
    boxes: Sample,
    labels: Sample,
    /,
    *,
    anchors: Floats = required("anchors of the detector, four numbers each"),
    criteria: float = default(0.5, "an anchor learns a box if their intersection over union is larger than this"),
    offset: bool = default(
        False,
        "return offsets from the anchor: that of the centre in widths and heights of the anchor, and the logarithms of "
        "the ratios of the extents; 0 for the background",
    ),
    means: Floats = default((0.0, 0.0, 0.0, 0.0), "values that are subtracted from the four offsets"),
    stds: Floats = default((1.0, 1.0, 1.0, 1.0), "values by which the four differences are divided"),
    out: Out,
) -> tuple[Sample, Sample]:
    """Returns for every anchor of a detector the box and the class that it should learn; class 0 is the background.

    An anchor learns the box that overlaps it most, if their intersection over union is more than ``criteria``. The anchor that
    overlaps a box most always learns this box. Boxes and anchors are left, top, right and bottom. The result has centre, width
    and height of the box, or of the anchor itself if it learns the background.
    """
    if boxes.ndim != 2 or boxes.shape[1] != 4:
        raise ValueError(f"boxes have the shape (n, 4), got {boxes.shape}")
    check_labels(labels, len(boxes), "boxes")
    table = anchor_table(anchors)
    targets, classes = out
    matched = np.empty(len(table), np.int64)
    rows, numbers = np.ascontiguousarray(boxes, np.float32), np.ascontiguousarray(labels, np.int32).reshape(-1)
    if numbers.size != len(rows):
        raise ValueError(f"there are {len(rows)} boxes, and labels of shape {labels.shape}: give one label for each")
    kernels.boxes.match(table, rows, np.float32(criteria), matched)
    given = (np.array(values, np.float32) for values in (means, stds))
    kernels.boxes.encode(table, rows, numbers, matched, offset, *given, targets, classes)
    return targets, classes


@box_encoder.ready
def _(specs: tuple[Spec, ...], args: Any) -> Any:
    shape, labels = specs[0].shape, specs[1].shape
    if len(shape) != 2 or shape[1] != 4 or math.prod(labels) != shape[0]:
        return None
    table, criteria = anchor_table(args.anchors), np.float32(args.criteria)
    offset, means, stds = args.offset, np.array(args.means, np.float32), np.array(args.stds, np.float32)
    options, numbers = (criteria, offset, means, stds), np.empty(0, np.int32)
    rows, classes = np.empty((0, 4), specs[0].dtype), np.empty(0, specs[1].dtype)
    compute = kernels.jit.machine_code(kernels.boxes.match_and_encode, table, rows, classes, *options, table, numbers)

    def run(boxes: np.ndarray, given: np.ndarray, out: Any) -> Any:
        compute(table, np.ascontiguousarray(boxes), given.ravel(), *options, *out)
        return out

    return run


@box_encoder.check
def _(args: Any) -> None:
    anchor_table(args.anchors)
    if not 0 <= args.criteria <= 1:
        raise ValueError(f"criteria must be between 0 and 1, got {args.criteria}")
    for name in ("means", "stds"):
        if len(getattr(args, name)) != 4:
            raise ValueError(f"{name} must have 4 values, got {len(getattr(args, name))}")
    if not all(args.stds):
        raise ValueError(f"stds must not be 0, got {tuple(args.stds)}")


@box_encoder.infer
def _(_specs: tuple[Spec, ...], args: Any) -> tuple[Spec, ...]:
    count = len(anchor_table(args.anchors))
    return Spec((count, 4), FLOAT, ""), Spec((count,), INT32, "")
