"""Masks and the crops that follow them: random pixels and objects, chosen polygons, windows around a region."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from pipeflow import seeds
from pipeflow.declare import (
    UNKNOWN,
    Arg,
    Args,
    Floats,
    Ints,
    KernelCalls,
    Many,
    Sample,
    Spec,
    default,
    operator,
    parts,
    require,
    required,
)
from pipeflow.kernels import cpu as kernels
from pipeflow.operators.windows import (
    RANDOM_WINDOW,
    WINDOWS_LOADS,
    check_random_window,
    compiled_windows,
    random_window,
    window_options,
)

PAGE = """Random pixels, objects and polygons of masks, and windows around a region."""


INT32, INT64 = np.dtype(np.int32), np.dtype(np.int64)


# ----------------------------------------------------------------------------------------------------
# segmentation.random_mask_pixel


@operator(
    "segmentation.random_mask_pixel", compiled=True, examples=["fn.segmentation.random_mask_pixel(mask, foreground=1)"]
)
def random_mask_pixel(
    mask: Sample,
    /,
    *,
    foreground: Arg[bool] = default(False, "choose among the foreground; False: among all elements"),
    value: Arg[int] = default(None, "value of the foreground"),
    threshold: Arg[float] = default(0.0, "values larger than this are the foreground"),
    key: Any,
) -> Sample:
    """Chooses an element of the mask at random and returns its position, an index for each axis.

    If there is no foreground, the element is chosen among all elements.
    """
    if not mask.size:
        raise ValueError(f"the mask has no elements: shape {mask.shape}")
    return kernels.segmentation.random_element(mask, foreground, value, threshold, key.value)


@random_mask_pixel.calls
def _(calls: KernelCalls) -> None:
    tools, mask, args = kernels.segmentation, calls.input, calls.args
    require(len(mask.extents) <= tools.MOST_AXES)
    calls.require(mask.size > 0)
    number, equal = tools.limit_of(mask.dtype, args.value, args.threshold)
    require(number is not None)
    blocks = (mask.size + (tools.BLOCK - 1)) // tools.BLOCK
    counts = calls.scratch((blocks * (args.foreground * 1),), np.dtype(np.uint32))
    extents = *[1] * (tools.MOST_AXES - len(mask.extents)), *mask.extents
    out = calls.output((len(mask.extents),), INT64)
    calls.call(tools.choose_element, mask.flat, number, int(equal), calls.key, counts, *extents, out)


random_mask_pixel.varying("key", "foreground")


@random_mask_pixel.check
def _(args: Any) -> None:
    if args.value is not None and args.threshold is not UNKNOWN and args.threshold:
        raise ValueError("value and threshold exclude each other: give one of them")


@random_mask_pixel.infer
def _(specs: tuple[Spec, ...], _args: Any) -> Spec:
    shape = specs[0].shape
    return Spec((UNKNOWN if shape is UNKNOWN else len(shape),), INT64, "")


# ----------------------------------------------------------------------------------------------------
# segmentation.random_object_bbox

FORMATS = ("anchor_shape", "start_end", "box")
LIMITS = np.iinfo(np.int32)


def drawn(weights: Any, number: float) -> int:
    """The index of one of several things, chosen by their weights; -1 if all weights are 0."""
    sums = np.cumsum(np.asarray(weights, np.float64))
    if not len(sums) or not sums[-1] > 0:
        return -1
    return int(np.searchsorted(sums, number * sums[-1], side="right"))


def background_of(background: int | None, classes: Sequence[int] | None) -> int:
    """The given background; by default 0, or the first number below all classes (or below the largest INT32) that is free."""
    if background is not None:
        return background
    if not classes or 0 not in classes:
        return 0
    number = min(classes) - 1 if min(classes) > LIMITS.min else LIMITS.max
    while number in classes:
        number -= 1
    return number


def class_weights_of(args: Any, present: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The classes that may be drawn, and their weights; classes without objects have the weight 0."""
    classes, weights = args.classes, args.class_weights
    if classes is None:
        classes = present if weights is None else range(1, len(weights) + 1)
    labels = np.array(list(classes), np.int64)
    amounts = np.ones(len(labels)) if weights is None else np.array(weights, np.float64)
    if len(amounts) != len(labels):
        raise ValueError(f"there are {len(labels)} classes and {len(amounts)} class_weights: give one for each")
    if (amounts < 0).any():
        raise ValueError(f"class_weights must not be negative, got {tuple(weights)}")
    if args.classes is not None and args.background in labels:
        raise ValueError(
            f"class {args.background} is the background too: name another background or leave it out of the classes"
        )
    return labels, np.where(np.isin(labels, present) & (labels != args.background), amounts, 0.0)


def large_enough(extents: np.ndarray, threshold: Sequence[int] | None) -> np.ndarray:
    """A mask of the boxes that are large enough along every axis."""
    if threshold is None:
        return np.ones(len(extents), bool)
    least = list(threshold) * extents.shape[1] if len(threshold) == 1 else list(threshold)
    if len(least) != extents.shape[1]:
        raise ValueError(f"threshold has {len(threshold)} values for a mask of {extents.shape[1]} axes")
    return (extents >= least).all(1)


@operator(
    "segmentation.random_object_bbox",
    compiled=True,
    dtypes="integer bool",
    no_effect={"cache_objects": "the objects of a mask are found again, because this is faster than comparing masks"},
    examples=[
        "fn.segmentation.random_object_bbox(mask, foreground_prob=0.5)",
        "fn.segmentation.random_object_bbox(mask, format='box', output_class=True, foreground_prob=0.5)",
    ],
)
def random_object_bbox(
    mask: Sample,
    /,
    *,
    foreground_prob: Arg[float] = default(1.0, "probability that an object is chosen, and not the whole mask"),
    background: Arg[int] = default(None, "value of the background; default: 0, or if 0 is a class, the next one below"),
    classes: Arg[Ints] = default(None, "values of objects; default: all values except the background"),
    class_weights: Arg[Floats] = default(
        None, "relative probabilities of the classes; without classes, those of the values 1, 2, and so on"
    ),
    k_largest: int | None = default(None, "choose among this many of the largest boxes of the class"),
    threshold: Arg[Ints] = default(None, "smallest extents of a box: one number, or one for each axis"),
    ignore_class: bool = default(
        False, "all values except the background are one class; touching objects are one object"
    ),
    output_class: bool = default(
        False, "return the class of the object, or of the background, as an additional output"
    ),
    format: str = default(
        "anchor_shape", "`anchor_shape`: two outputs, `start_end`: two outputs, or `box`: one, starts before ends"
    ),
    key: Any,
) -> tuple[Sample, Sample, Sample]:
    """Chooses an object of the mask at random and returns the box around it; an object is a set of elements that are
    connected by faces.

    First a class is drawn, then one of its objects. An end is the first index after the box. If there is no object, or
    with the probability ``1 - foreground_prob``, the box is the whole mask.
    """
    number = background = background_of(background, classes)
    low, high = np.zeros(mask.ndim, np.int64), np.array(mask.shape)
    if mask.size and key.unit(0) < foreground_prob:
        options = Args(classes=classes, class_weights=class_weights, background=background)
        labels, starts, ends = kernels.segmentation.components(mask, background, ignore_class)
        if ignore_class:
            labels = np.ones_like(labels)
        wanted = large_enough(ends - starts, threshold)
        labels, starts, ends = labels[wanted], starts[wanted], ends[wanted]
        found, weights = (
            (np.array([1]), np.array([len(labels)])) if ignore_class else class_weights_of(options, np.unique(labels))
        )
        chosen = drawn(weights, key.unit(1))
        if chosen >= 0:
            of_class = np.flatnonzero(labels == found[chosen])
            if k_largest is not None:
                sizes = np.prod(ends[of_class] - starts[of_class], axis=1)
                of_class = of_class[np.argsort(-sizes, kind="stable")[:k_largest]]
            one = of_class[key.integer(2, 0, len(of_class))]
            low, high, number = starts[one], ends[one], int(labels[one])
    first, last = low.astype(INT32), high.astype(INT32)
    outputs = {
        "box": [np.concatenate([first, last])],
        "start_end": [first, last],
        "anchor_shape": [first, last - first],
    }[format]
    outputs += [np.array(number, INT32)] if output_class else []
    return outputs[0] if len(outputs) == 1 else tuple(outputs)


@random_object_bbox.ready
def _(specs: tuple[Spec, ...], args: Any) -> Any:
    keywords, chance, body = vars(args), args.foreground_prob, random_object_bbox.body
    like = np.broadcast_to(np.zeros((), specs[0].dtype), specs[0].shape)
    whole = body(like, **{**keywords, "foreground_prob": 0.0}, key=seeds.Key(0))
    single, unit = type(whole) is not tuple, kernels.keys.unit_of()

    def run(mask: np.ndarray, key: int) -> Any:
        if unit(key, 0) < chance:
            return body(mask, **keywords, key=seeds.Key(key))
        return whole.copy() if single else tuple([part.copy() for part in whole])

    return run


@random_object_bbox.outputs
def _(args: Any) -> int:
    return (1 if args.format == "box" else 2) + args.output_class


@random_object_bbox.check
def _(args: Any) -> None:
    if args.format not in FORMATS:
        raise ValueError(f"format must be one of {', '.join(FORMATS)}, got {args.format!r}")
    if args.k_largest is not None and args.k_largest < 1:
        raise ValueError(f"k_largest must be at least 1, got {args.k_largest}")
    if args.ignore_class and (args.classes is not None or args.class_weights is not None or args.output_class):
        raise ValueError("ignore_class excludes classes, class_weights and output_class: there is only one class then")


@random_object_bbox.infer
def _(specs: tuple[Spec, ...], args: Any) -> tuple[Spec, ...]:
    shape = specs[0].shape
    ndim = UNKNOWN if shape is UNKNOWN else len(shape)
    place = Spec((ndim,), INT32, "")
    found = (Spec((2 * ndim,), INT32, ""),) if args.format == "box" else (place, place)
    return (*found, Spec((), INT32, "")) if args.output_class else found


# ----------------------------------------------------------------------------------------------------
# segmentation.select_masks


@operator(
    "segmentation.select_masks",
    dtypes="integer",
    examples=["fn.segmentation.select_masks(number_list, polygons, vertices, reindex_masks=True)"],
)
def select_masks(
    mask_ids: Sample,
    polygons: Sample,
    vertices: Sample,
    /,
    *,
    reindex_masks: bool = default(
        False, "the masks get the numbers 0, 1, ... in the order of the ids; False: they keep their numbers"
    ),
) -> tuple[Sample, Sample]:
    """Keeps the polygons of some masks, in the order of the given ids, with their vertices.

    A polygon is a row with the number of its mask, its first vertex and the end of its vertices. A mask may have several
    polygons.
    """
    if mask_ids.ndim != 1:
        raise ValueError(f"mask_ids must be a list of numbers, got shape {mask_ids.shape}")
    if polygons.ndim != 2 or polygons.shape[1] != 3:
        raise ValueError(f"polygons have the shape (n, 3), got {polygons.shape}")
    if vertices.ndim != 2:
        raise ValueError(f"vertices have two axes, got shape {vertices.shape}")
    wanted = mask_ids.tolist()
    if len(set(wanted)) != len(wanted):
        twice = next(x for x in wanted if wanted.count(x) > 1)
        raise ValueError(f"mask_ids names mask {twice} more than once")
    rows, parts, begin = [], [], 0
    known = polygons.tolist()
    for number, mask in enumerate(wanted):
        own = [row for row in known if row[0] == mask]
        if not own:
            raise ValueError(
                f"there is no polygon of mask {mask}; there are those of {sorted({row[0] for row in known})}"
            )
        for _, first, last in own:
            if not 0 <= first <= last <= len(vertices):
                raise IndexError(f"mask {mask} names the vertices {first} to {last}; there are {len(vertices)}")
            rows.append((number if reindex_masks else mask, begin, begin + last - first))
            parts.append(vertices[first:last])
            begin += last - first
    kept = np.concatenate(parts) if parts else vertices[:0]
    return np.array(rows, INT32).reshape(-1, 3), kept


@select_masks.ready
def _(specs: tuple[Spec, ...], args: Any) -> Any:
    ids, polygons, vertices = specs
    if len(ids.shape) != 1 or len(vertices.shape) != 2 or len(polygons.shape) != 2 or polygons.shape[1] != 3:
        return None
    if np.uint64 in (ids.dtype, polygons.dtype):
        return None
    options = polygons.shape[0], vertices.shape[0], bool(args.reindex_masks)
    return kernels.segmentation.selecting(ids.dtype, polygons.dtype, *options)


@select_masks.many
def _(many: Many) -> tuple[list[np.ndarray], list[np.ndarray]]:
    ids, polygons, vertices = many.joined(0, 1), many.joined(1, 2), many.joined(2, 2)
    require(polygons.values.shape[1] == 3)
    numbers = ids.values.astype(np.int64), ids.ends, polygons.values.astype(np.int64), polygons.ends, vertices.ends
    found = kernels.segmentation.select(*numbers, bool(many.args.reindex_masks))
    require(found is not None)
    rows, row_counts, places, counts = found
    return parts(rows, row_counts), parts(vertices.values[places], counts)


select_masks.many_loads = lambda: kernels.segmentation.loaded(), lambda: kernels.segmentation.load()


@select_masks.infer
def _(specs: tuple[Spec, ...], _args: Any) -> tuple[Spec, ...]:
    vertices = specs[2]
    width = UNKNOWN if vertices.shape is UNKNOWN else vertices.shape[1]
    return Spec((UNKNOWN, 3), INT32, ""), Spec((UNKNOWN, width), vertices.dtype, "")


# ----------------------------------------------------------------------------------------------------
# roi_random_crop and random_crop_generator


@operator(
    "roi_random_crop",
    examples=["fn.roi_random_crop(crop_shape=(4, 3), roi_start=(2, 1), roi_end=(4, 9), in_shape=(6, 10))"],
)
def roi_random_crop(
    data: Sample | None = None,
    /,
    *,
    crop_shape: Arg[Ints] = required("extents of the window"),
    roi_start: Arg[Ints] = required("first element of the region"),
    roi_end: Arg[Ints] = default(None, "first element after the region"),
    roi_shape: Arg[Ints] = default(None, "extents of the region, instead of its end"),
    in_shape: Arg[Ints] = default(None, "extents of the data, if it is not an input; windows stay inside"),
    key: Any,
) -> Sample:
    """Draws the start of a window that is inside a region, or contains it if the window is larger.

    Each axis is drawn separately. If data is an input, only its extents are used.
    """
    ndim = len(crop_shape)
    if min(crop_shape, default=0) < 0:
        raise ValueError(f"crop_shape must not be negative, got {tuple(crop_shape)}")
    if in_shape is not None and data is not None:
        raise ValueError("the data is an input and has its extents: leave out in_shape")
    extents = in_shape if data is None else data.shape[:ndim]
    given = {"roi_start": roi_start, "roi_end": roi_end, "roi_shape": roi_shape, "the shape of the data": extents}
    for name, values in given.items():
        if values is not None and len(values) != ndim:
            raise ValueError(f"{name} has {len(values)} values, crop_shape has {ndim}")
    found = []
    for axis, (size, start) in enumerate(zip(crop_shape, roi_start)):
        end = roi_end[axis] if roi_end is not None else start + roi_shape[axis]
        low, high = sorted((start, end - size))
        if extents is not None:
            extent = extents[axis]
            if size > extent:
                raise ValueError(f"crop_shape is {size} along axis {axis}, the data has {extent}")
            if not 0 <= start <= end <= extent:
                raise ValueError(
                    f"the region from {start} to {end} is not inside the data, which has {extent} along axis {axis}"
                )
            low, high = max(low, 0), min(high, extent - size)
        found.append(key.integer(axis, low, high + 1))
    return np.array(found, INT64)


@roi_random_crop.many
def _(many: Many) -> tuple[np.ndarray]:
    args = many.args
    if many.inputs or many.varying:
        region: list[Any] = [None if getattr(args, name) is None else many.rows(name) for name in REGION]
        low, below = first_elements(region, many.inputs)
    else:
        low, below = known_first_elements(*[getattr(args, name) for name in REGION])
    return (low + seeds.integers_of(seeds.bits(many.keys, below.shape[1]), below),)


@roi_random_crop.ready
def _(specs: tuple[Spec, ...], args: Any) -> Any:
    region = [getattr(args, name) for name in REGION]
    rows = [None if values is None else np.array([values], np.int64) for values in region]
    low, below = first_elements(rows, [[spec] for spec in specs])
    numbers, count, empty = (low[0].copy(), below[0].copy()), low.shape[1], np.empty
    draw = kernels.jit.machine_code(kernels.draws.integers_of, np.uint64(0), *numbers, empty(0, INT64))

    def run(*data_and_key: Any) -> np.ndarray:
        found = empty(count, INT64)
        draw(data_and_key[-1], *numbers, found)
        return found

    return run


REGION = ("crop_shape", "roi_start", "roi_end", "roi_shape", "in_shape")


@lru_cache(maxsize=64)
def known_first_elements(*region: Sequence[int] | None) -> tuple[np.ndarray, np.ndarray]:
    """``first_elements`` for arguments that are the same for all samples."""
    return first_elements([None if values is None else np.array([values], np.int64) for values in region], ())


def first_elements(region: Sequence[Any], inputs: Sequence[Any]) -> tuple[np.ndarray, np.ndarray]:
    """The least first element of a window along each axis, and the number of first elements to choose from."""
    sizes, starts, ends, extents, shapes = region
    ndim = sizes.shape[1]
    ends = starts + extents if ends is None else ends
    require(starts.shape[1] == ends.shape[1] == ndim and (sizes >= 0).all())
    low, high = np.minimum(starts, ends - sizes), np.maximum(starts, ends - sizes)
    if inputs:
        require(shapes is None and inputs[0][0].ndim >= ndim)
        shapes = np.array([data.shape[:ndim] for data in inputs[0]], np.int64).reshape(-1, ndim)
    if shapes is not None:
        require(shapes.shape[1] == ndim)
        require((sizes <= shapes) & (starts >= 0) & (starts <= ends) & (ends <= shapes))
        low, high = np.maximum(low, 0), np.minimum(high, shapes - sizes)
    below = high - low + 1
    require((below > 0) & (below < 1 << 32))
    return low, below


@roi_random_crop.check
def _(args: Any) -> None:
    if (args.roi_end is None) == (args.roi_shape is None):
        raise ValueError("give either roi_end or roi_shape")


@roi_random_crop.infer
def _(_specs: tuple[Spec, ...], args: Any) -> Spec:
    return Spec((len(args.crop_shape),), INT64, "")


@operator(
    "random_crop_generator",
    takes=RANDOM_WINDOW,
    dtypes="integer",
    examples=["fn.random_crop_generator(fn.shapes(image))"],
)
def random_crop_generator(shape: Sample, /, *, args: Args, key: Any) -> tuple[Sample, Sample]:
    """Draws a window like random_resized_crop: its start and its extents, height before width.

    The input has the extents of an image; the first two are height and width.
    """
    if shape.ndim != 1 or len(shape) not in (2, 3):
        raise ValueError(f"the extents of an image are two or three numbers, got shape {shape.shape}")
    height, width = int(shape[0]), int(shape[1])
    top, left, tall, wide = random_window(
        key, height, width, args.random_area, args.random_aspect_ratio, args.num_attempts
    )
    return np.array([top, left], INT32), np.array([tall, wide], INT32)


@random_crop_generator.many
def _(many: Many) -> tuple[np.ndarray, np.ndarray]:
    shapes, args = many.stacked(0), many.args
    require(shapes.ndim == 2 and shapes.shape[1] in (2, 3))
    extents = shapes[:, :2].astype(np.int64)
    require(extents > 0)
    starts, sizes = many.empty((2,), INT32, 0), many.empty((2,), INT32, 1)
    compiled_windows(many.keys, extents, args.random_area, args.random_aspect_ratio, args.num_attempts, starts, sizes)
    return starts, sizes


random_crop_generator.many_loads = WINDOWS_LOADS


@random_crop_generator.ready
def _(specs: tuple[Spec, ...], args: Any) -> Any:
    if specs[0].shape not in ((2,), (3,)):
        return None
    options, empty = window_options(args.random_area, args.random_aspect_ratio, args.num_attempts), np.empty
    like, pair = empty(0, specs[0].dtype), empty(0, INT32)
    compute = kernels.jit.machine_code(kernels.random_windows.window_in, like, np.uint64(0), *options, pair, pair)

    def run(shape: np.ndarray, key: int) -> tuple[np.ndarray, np.ndarray]:
        start, size = empty(2, INT32), empty(2, INT32)
        require(compute(np.ascontiguousarray(shape), key, *options, start, size))
        return start, size

    return run


random_crop_generator.check(check_random_window)


@random_crop_generator.infer
def _(_specs: tuple[Spec, ...], _args: Any) -> tuple[Spec, ...]:
    return Spec((2,), INT32, ""), Spec((2,), INT32, "")
