"""The decoders of windows: a crop, a random crop or a slice of each image.

They decode only the window, as far as the decoding library allows (`kernels.images.decode_region`).
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pipeflow.declare import UNKNOWN, Args, KernelCalls, Out, Sample, Several, Spec, operator, require
from pipeflow.kernels import cpu as kernels
from pipeflow.operators import geometry, geometry_calls
from pipeflow.operators.decoders import (
    DECODE,
    NO_EFFECT,
    check_options,
    decode,
    file_calls,
    fits_codec,
    image_spec,
    load_decoders,
)
from pipeflow.operators.image_calls import cropping
from pipeflow.operators.windows import (
    BOUNDS,
    CROP_WINDOW,
    RANDOM_WINDOW,
    bounds_of,
    check_random_window,
    crop_extents,
    place_window,
    random_window,
    random_window_calls,
)

PAGE = """These operators decode a window of each image.

They decode only the part of the file that the window needs, as far as the format allows this.
"""


_UINT8 = np.dtype(np.uint8)
# (height, width) of an image -> top, left, height and width of the wanted part
Region = Callable[[int, int], tuple[int, int, int, int]]


FLAT_WINDOW = {name: param for name, param in CROP_WINDOW.items() if name not in ("crop_d", "crop_pos_z")}


@operator(
    "decoders.image_crop",
    begins_in_numpy=True,
    takes=FLAT_WINDOW | DECODE,
    dtypes="uint8 text",
    unsized=True,
    devices=("cpu", "mixed"),
    gpu=True,
    no_effect={**NO_EFFECT, "crop_d": "images have no depth", "crop_pos_z": "images have no depth"},
    examples=["fn.decoders.image_crop(encoded_image, crop=(20, 30))"],
)
def image_crop(data: Sample, /, *, args: Args, out: Out, source: Any) -> Sample:
    """Decodes a window of each image, given as in ``fn.crop``; it must be inside the image."""
    return decode(data, args, out, source, crop_region(args))


def crop_region(args: Any) -> Region:
    """The window of a crop, as a function of the image's extents."""
    window = flat(args)

    def region(height: int, width: int) -> tuple[int, int, int, int]:
        rows, columns = crop_extents("HW", (height, width), window)
        top, left = place_window("HW", (height, width), (rows, columns), window)
        return top, left, rows, columns

    return region


@image_crop.calls
def _(calls: KernelCalls) -> None:
    crop = cropping(flat(calls.args))

    def window(height: Any, width: Any) -> Sequence[Any]:
        found = calls.read(kernels.random_windows.crop_window, height, width, *crop)
        calls.require(found[2] > 0)
        return found

    file_calls(calls, window)


image_crop.varying("crop_pos_y", "crop_pos_x")
image_crop.loads(load_decoders)


@image_crop.infer
def _(_specs: tuple[Spec, ...], args: Any) -> Spec:
    unknown: Any = UNKNOWN
    return image_spec(args.output_type, args.dtype, *crop_extents("HW", (unknown, unknown), flat(args)))


def flat(args: Any) -> Args:
    """The arguments of a crop of an image, which has no depth."""
    return Args(**vars(args), crop_d=0.0, crop_pos_z=0.5)


@image_crop.check
def _(args: Any) -> None:
    check_options(args)
    geometry.check_rounding(args)


@operator(
    "decoders.image_random_crop",
    begins_in_numpy=True,
    takes=RANDOM_WINDOW | DECODE,
    dtypes="uint8 text",
    unsized=True,
    devices=("cpu", "mixed"),
    gpu=True,
    no_effect=NO_EFFECT,
    examples=["fn.decoders.image_random_crop(encoded_image)"],
)
def image_random_crop(data: Sample, /, *, args: Args, key: Any, out: Out, source: Any) -> Sample:
    """Decodes a random window of each image, chosen by its share of the area and its aspect ratio."""
    return decode(data, args, out, source, random_region(key, args))


def random_region(key: Any, args: Any) -> Region:
    """A random window, as a function of the image's extents."""
    area, ratio, attempts = args.random_area, args.random_aspect_ratio, args.num_attempts
    return lambda height, width: random_window(key, height, width, area, ratio, attempts)


@image_random_crop.calls
def _(calls: KernelCalls) -> None:
    file_calls(calls, lambda height, width: random_window_calls(calls, calls.args, height, width))


image_random_crop.varying("key")
image_random_crop.loads(load_decoders)


@image_random_crop.infer
def _(_specs: tuple[Spec, ...], args: Any) -> Spec:
    return image_spec(args.output_type, args.dtype)


@image_random_crop.check
def _(args: Any) -> None:
    check_options(args)
    check_random_window(args)


@operator(
    "decoders.image_slice",
    begins_in_numpy=True,
    takes=BOUNDS | DECODE,
    dtypes="uint8 text",
    unsized=True,
    devices=("cpu", "mixed"),
    gpu=True,
    no_effect=NO_EFFECT,
    examples=["fn.decoders.image_slice(encoded_image, start=(10, 5), shape=(20, 15))"],
)
def image_slice(
    data: Sample,
    anchor: Sample | None = None,
    shape_input: Sample | None = None,
    /,
    *,
    args: Args,
    out: Out,
    source: Any,
) -> Sample:
    """Decodes a part of each image, given as in ``fn.slice``; it must be inside the image.

    Anchor and shape may be inputs. Without ``axes`` the values are in the order width, height.
    """
    return decode(data, args, out, source, slice_region(anchor, shape_input, args))


def slice_region(anchor: Any, shape_input: Any, args: Any) -> Region:
    """The part that a slice selects, as a function of the image's extents."""

    def region(height: int, width: int) -> tuple[int, int, int, int]:
        bounds = {0: (0, height), 1: (0, width)}
        chosen = geometry.slice_axes((height, width, 3), "HWC", args)
        if set(chosen) - {0, 1}:
            raise ValueError(f"a slice of an image is along its height (0) and width (1), not along axes {chosen}")
        extents = [bounds[axis][1] for axis in chosen]
        for axis, low, size in zip(chosen, *bounds_of(extents, anchor, shape_input, args), strict=True):
            bounds[axis] = (low, size)
        return bounds[0][0], bounds[1][0], bounds[0][1], bounds[1][1]

    return region


@image_slice.calls
def _(calls: KernelCalls) -> None:
    args = Args(**vars(calls.args), out_of_bounds_policy="error")
    require(len(calls.inputs) == 1 and not isinstance(args.axes, Several))

    def window(height: Any, width: Any) -> Sequence[Any]:
        axes, extents = geometry.slice_axes((height, width, 3), "HWC", args), (height, width)
        require(max(axes, default=0) < 2)
        parts = geometry_calls.slice_parts(calls, [extents[axis] for axis in axes], args)
        return geometry_calls.kept_of_image(calls, dict(zip(axes, parts)), height, width)

    file_calls(calls, window)


image_slice.varying("start", "rel_start", "end", "rel_end", "shape", "rel_shape")


@image_slice.loads
def _(args: Args, dtype: np.dtype | None) -> None:
    load_decoders(args, dtype)
    geometry_calls.load_moving(args, dtype)


@image_slice.infer
def _(_specs: tuple[Spec, ...], args: Any) -> Spec:
    return image_spec(args.output_type, args.dtype)


@image_slice.check
def _(args: Any) -> None:
    check_options(args)
    geometry.check_bounds(args)


for _op in (image_crop, image_random_crop, image_slice):
    _op.codec(fits_codec)
