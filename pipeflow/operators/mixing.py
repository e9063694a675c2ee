"""Mixes images of a batch with one another, and their labels with them: mixup, cutmix."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pipeflow import seeds
from pipeflow.declare import UNKNOWN, Arg, Args, BatchCall, OpDef, Sample, Spec, Traits, operator, parameters
from pipeflow.kernels import cpu as kernels

PAGE = """Each image of a batch is mixed with another one, and its labels in the same proportions. Labels are vectors
with a number for each class (one-hot or already mixed), or class numbers with `num_classes`.

    images, labels = fn.mixup(images, labels, num_classes=10)

The partners are a random order of the batch, so they depend on its first sample and on its size.
"""

FLOAT = np.dtype(np.float32)
MIXING = parameters(
    alpha=(Arg[float], 1.0, "both parameters of the beta distribution of the shares; the smaller, the less is mixed"),
    share=(Arg[float], None, "share of the image itself, from 0 to 1; default: random"),
    partner=(Arg[int], None, "index in the batch of the sample that is mixed in; default: random"),
    num_classes=(int, 0, "number of classes, if labels are class numbers; each label then becomes a vector"),
)


def partners_of(given: Any, keys: Sequence[seeds.Key]) -> list[int]:
    """For each sample, the sample that it is mixed with: the given one, or the next one in a random order."""
    size = len(keys)
    if given is not None:
        given = given if isinstance(given, list) else [given] * size
        for number in given:
            if not 0 <= number < size:
                raise IndexError(f"partner names sample {number}, the batch has {size}")
        return given
    order = np.argsort(seeds.Key(keys[0].value ^ size).units(size))
    found = np.empty(size, np.int64)
    found[order] = np.roll(order, 1)  # no sample is its own partner, unless the batch has only one
    return found.tolist()


def shares_of(args: Any, key: seeds.Key) -> float:
    """The share of the image itself: given, or drawn at random."""
    if args.share is not None:
        if not 0 <= args.share <= 1:
            raise ValueError(f"share must be from 0 to 1, got {args.share}")
        return args.share
    if not args.alpha > 0:
        raise ValueError(f"alpha must be above 0, got {args.alpha}")
    return float(key.borrowed().beta(args.alpha, args.alpha))


def vectors_of(labels: Sequence[np.ndarray], classes: int) -> list[np.ndarray]:
    """The labels as vectors with the share of each class; with ``classes``, labels are numbers of classes."""
    found = []
    for label in labels:
        check_label(label, classes)
        if not classes:
            found.append(label)
            continue
        number = int(label.item())
        if not 0 <= number < classes:
            raise ValueError(f"label {number} is none of {classes} classes, 0 to {classes - 1}")
        vector = np.zeros(classes, np.float32)
        vector[number] = 1
        found.append(vector)
    return found


def check_label(label: Any, classes: int) -> None:
    """Raises an error unless the label is a vector of floats or, with ``classes``, one whole number."""
    if not classes and (len(label.shape) == 0 or label.dtype.kind != "f"):
        raise ValueError(
            f"labels must be vectors of floats, got {label.dtype} of shape {label.shape}: give num_classes"
        )
    if classes and (label.size != 1 or label.dtype.kind not in "iu"):
        raise ValueError(f"with num_classes a label is one whole number, got {label.dtype} of shape {label.shape}")


def of_one_form(one: Any, two: Any, classes: int = 0) -> None:
    """Raises an error unless two labels have one shape and type, or are numbers of classes."""
    if not classes and (one.shape != two.shape or one.dtype != two.dtype):
        raise ValueError(f"labels of shape {one.shape} and {two.shape} cannot be mixed")


def of_one_shape(images: Sequence[Any], first: int, second: int) -> None:
    """Raises an error unless all images have one shape and type."""
    one, other = images[first], images[second]
    if one.shape != other.shape or one.dtype != other.dtype:
        raise ValueError(
            f"the image of {one.dtype} and shape {one.shape} cannot be mixed with that of sample {second}, {other.dtype} "
            f"of shape {other.shape}: resize and cast them first"
        )


def mixed(images: Any, labels: Any, args: Args, batch: BatchCall, put: Any) -> list[list[np.ndarray]]:
    """Mixes images and labels; `put` makes one image from two, in the memory it is given, and returns the share of the first."""
    keys = [seeds.Key(int(key)) for key in batch.keys]
    partners = partners_of(args.partner, keys)
    images, vectors = list(images), vectors_of(list(labels), args.num_classes)
    pictures, targets = [], []
    for number, image in batch.each(images):
        own = Args(**{name: x[number] if isinstance(x, list) else x for name, x in vars(args).items()})
        other = partners[number]
        of_one_shape(images, number, other)
        out = batch.empty(image.shape, image.dtype)
        picture, share = put(image, images[other], shares_of(own, keys[number]), keys[number], out)
        pictures.append(picture)
        one, two = vectors[number], vectors[other]
        of_one_form(one, two)
        targets.append((two + share * (one - two)).astype(one.dtype))
    return [pictures, targets]


@operator(
    "mixup",
    compiled=True,
    takes=MIXING,
    granularity="batch",
    gpu=True,
    layouts="HWC CHW HW FHWC",
    examples=["fn.mixup(image, vector, share=0.7)", "fn.mixup(image, number, num_classes=5)"],
)
def mixup(images: Sample, labels: Sample, /, *, args: Args, key: Any) -> tuple[Sample, Sample]:
    """Mixes each image, and its labels, with another one of the batch: ``share`` of one and ``1 - share`` of the other."""
    raise NotImplementedError  # the batch hook runs instead


def blended(
    image: np.ndarray, other: np.ndarray, share: float, key: seeds.Key, out: np.ndarray
) -> tuple[np.ndarray, float]:
    """``share`` of the first image and the rest of the second one."""
    del key
    return kernels.mixing.mix(image, other, share, out), share


@mixup.batch
def _(images: Any, labels: Any, *, args: Args, batch: BatchCall) -> Any:
    return mixed(images, labels, args, batch, blended)


@operator(
    "cutmix",
    takes=MIXING,
    granularity="batch",
    gpu=True,
    layouts="HWC FHWC",
    examples=["fn.cutmix(image, vector, share=0.7)", "fn.cutmix(image, number, num_classes=5)"],
)
def cutmix(images: Sample, labels: Sample, /, *, args: Args, key: Any) -> tuple[Sample, Sample]:
    """Puts a window of another image of the batch into each; labels are mixed by the areas.

    The window has the image's proportions. Its centre is at a random place, and it is cut off at the border. ``share`` is the
    part of the image that stays if the window is not cut off.
    """
    raise NotImplementedError  # the batch hook runs instead


def window(extents: tuple[int, int], share: float, key: seeds.Key) -> list[slice]:
    """Rows and columns of a window that leaves a share of the image."""
    found = []
    for index, extent in enumerate(extents):
        half = extent * (1 - share) ** 0.5 / 2
        middle = key.unit(index) * extent
        found.append(slice(max(round(middle - half), 0), min(round(middle + half), extent)))
    return found


def pasted(
    image: np.ndarray, other: np.ndarray, share: float, key: seeds.Key, out: np.ndarray
) -> tuple[np.ndarray, float]:
    """Copies a window of the other image into the first."""
    rows, columns = window(image.shape[-3:-1], share, key)
    np.copyto(out, image)
    out[..., rows, columns, :] = other[..., rows, columns, :]
    return out, left_of(image.shape, rows, columns)


def left_of(shape: tuple[int, ...], rows: slice, columns: slice) -> float:
    """The share of an image outside a window."""
    covered = (rows.stop - rows.start) * (columns.stop - columns.start)
    return 1 - covered / max(shape[-3] * shape[-2], 1)


@cutmix.batch
def _(images: Any, labels: Any, *, args: Args, batch: BatchCall) -> Any:
    return mixed(images, labels, args, batch, pasted)


def _alone(op: OpDef, again: Callable[[Spec], Callable[[np.ndarray], np.ndarray] | None]) -> None:
    """The short form for a batch of one image, which is mixed with itself: the result is the same for every share. ``again``
    returns the function that makes the new image.
    """

    @op.ready
    def _(specs: tuple[Spec, ...], args: Any) -> Any:
        image, label = specs
        check_label(np.empty(label.shape, label.dtype), args.num_classes)
        shares_of(args, seeds.Key(0))  # an error for wrong arguments
        put = again(image)
        if args.partner not in (None, 0) or put is None:
            return None
        vectors = np.eye(args.num_classes, dtype=FLOAT)

        def classes(picture: np.ndarray, target: np.ndarray, _key: int) -> tuple[np.ndarray, np.ndarray]:
            place = target.item()
            if place < 0:
                raise IndexError(place)
            return put(picture), vectors[place].copy()

        def mixes(picture: np.ndarray, target: np.ndarray, _key: int) -> tuple[np.ndarray, np.ndarray]:
            return put(picture), np.add(target, np.subtract(target, target))

        return classes if args.num_classes else mixes


def blended_again(image: Spec) -> Any:
    """`blended` of an image with itself."""
    if image.dtype == np.float16:
        return None
    shape, dtype, like, share = image.shape, image.dtype, np.empty(0, image.dtype), np.float32(0.5)
    compute = kernels.jit.machine_code(kernels.mixing.mix_flat, like, like, share, like)

    def put(picture: np.ndarray) -> np.ndarray:
        out, flat = np.empty(shape, dtype), picture.ravel()
        compute(flat, flat, share, out.ravel())
        return out

    return put


_alone(mixup, blended_again)
_alone(cutmix, lambda _image: np.ndarray.copy)
for _op in (mixup, cutmix):

    @_op.infer
    def _(specs: tuple[Spec, ...], args: Any) -> tuple[Spec, ...]:
        image, labels = specs
        if args.num_classes:
            return image, Spec((args.num_classes,), np.dtype(np.float32), "")
        return image, labels

    @_op.check
    def _(args: Any) -> None:
        if args.num_classes < 0:
            raise ValueError(f"num_classes must not be negative, got {args.num_classes}")
        for name, low in (("alpha", 0.0), ("share", 0.0)):
            value = getattr(args, name)
            if value is not UNKNOWN and value is not None and value < low:
                raise ValueError(f"{name} must not be below {low:g}, got {value}")

    @_op.traits
    def _(_args: Any) -> Traits:
        return Traits("batch", by_batch_size=True)
