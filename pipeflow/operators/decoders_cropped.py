"""The decoders of windows: a crop, a random crop or a slice of each image.

They decode only what lies in the window, as far as the decoding library allows (`kernels.images.decode_region`).
"""

from typing import Any

import numpy as np

from pipeflow.declare import UNKNOWN, Arg, DType, Floats, Ints, Layout, Out, Sample, Spec, operator
from pipeflow.operators import geometry
from pipeflow.operators.decoders import NO_EFFECT, OnDamage, check_options, decode, image_spec, limits
from pipeflow.operators.windows import Options, crop_extents, place_window, random_window
from pipeflow.types import RGB, DALIImageType

_UINT8 = np.dtype(np.uint8)


@operator(
    "decoders.image_crop", dtypes="uint8", unsized=True, devices=("cpu", "mixed"),
    no_effect={**NO_EFFECT, "crop_d": "images have no depth", "crop_pos_z": "images have no depth"},
    examples=["fn.decoders.image_crop(encoded_image, crop=(20, 30))"],
)  # fmt: skip
def image_crop(
    data: Sample, /, *, crop: Arg[Floats] = None, crop_h: Arg[float] = 0.0, crop_w: Arg[float] = 0.0,
    crop_pos_x: Arg[float] = 0.5, crop_pos_y: Arg[float] = 0.5, rounding: str = "round",
    output_type: DALIImageType = RGB, dtype: DType = _UINT8, adjust_orientation: bool = True,
    use_fast_idct: bool = False, max_pixels: int | None = None, max_bytes: int | None = None,
    on_damage: OnDamage = "error", out: Out, source: Any,
) -> Sample:  # fmt: skip
    """Decodes a window of each image, given as in ``fn.crop``; it must lie inside the image."""
    args = Options(locals() | {"crop_d": 0.0, "crop_pos_z": 0.5})

    def region(height: int, width: int) -> tuple[int, int, int, int]:
        rows, columns = crop_extents("HW", (height, width), args)
        top, left = place_window("HW", (height, width), (rows, columns), args)
        return top, left, rows, columns

    allowed = limits(max_pixels, max_bytes, on_damage)
    return decode(data, output_type, dtype, adjust_orientation, use_fast_idct, allowed, out, source, region)


@image_crop.infer
def _(_specs: tuple[Spec, ...], args: Any) -> Spec:
    args = Options({**vars(args), "crop_d": 0.0})
    unknown: Any = UNKNOWN
    return image_spec(args.output_type, args.dtype, *crop_extents("HW", (unknown, unknown), args))


@image_crop.check
def _(args: Any) -> None:
    check_options(args)
    geometry.check_rounding(args)


@operator(
    "decoders.image_random_crop", dtypes="uint8", unsized=True, devices=("cpu", "mixed"), no_effect=NO_EFFECT,
    examples=["fn.decoders.image_random_crop(encoded_image)"],
)  # fmt: skip
def image_random_crop(
    data: Sample, /, *, random_area: Floats = (0.08, 1.0), random_aspect_ratio: Floats = (3 / 4, 4 / 3),
    num_attempts: int = 10, output_type: DALIImageType = RGB, dtype: DType = _UINT8, adjust_orientation: bool = True,
    use_fast_idct: bool = False, max_pixels: int | None = None, max_bytes: int | None = None,
    on_damage: OnDamage = "error", key: Any, out: Out, source: Any,
) -> Sample:  # fmt: skip
    """Decodes a random window of each image, chosen by its share of the area and its aspect ratio."""

    def region(height: int, width: int) -> tuple[int, int, int, int]:
        return random_window(key, height, width, random_area, random_aspect_ratio, num_attempts)

    allowed = limits(max_pixels, max_bytes, on_damage)
    return decode(data, output_type, dtype, adjust_orientation, use_fast_idct, allowed, out, source, region)


@image_random_crop.infer
def _(_specs: tuple[Spec, ...], args: Any) -> Spec:
    return image_spec(args.output_type, args.dtype)


@image_random_crop.check
def _(args: Any) -> None:
    check_options(args)
    for name in ("random_area", "random_aspect_ratio"):
        bounds = getattr(args, name)
        if len(bounds) != 2 or not 0 < bounds[0] <= bounds[1]:
            raise ValueError(f"{name} must be two positive numbers, the smaller one first, got {bounds}")
    if args.num_attempts < 1:
        raise ValueError(f"num_attempts must be at least 1, got {args.num_attempts}")


@operator(
    "decoders.image_slice", dtypes="uint8", unsized=True, devices=("cpu", "mixed"), no_effect=NO_EFFECT,
    examples=["fn.decoders.image_slice(encoded_image, start=(10, 5), shape=(20, 15))"],
)  # fmt: skip
def image_slice(
    data: Sample, anchor: Sample | None = None, shape_input: Sample | None = None, /, *, start: Arg[Ints] = None,
    rel_start: Arg[Floats] = None, end: Arg[Ints] = None, rel_end: Arg[Floats] = None, shape: Arg[Ints] = None,
    rel_shape: Arg[Floats] = None, axes: Arg[Ints] = (1, 0), axis_names: Layout = "WH", normalized_anchor: bool = True,
    normalized_shape: bool = True, output_type: DALIImageType = RGB, dtype: DType = _UINT8,
    adjust_orientation: bool = True, use_fast_idct: bool = False, max_pixels: int | None = None,
    max_bytes: int | None = None, on_damage: OnDamage = "error", out: Out, source: Any,
) -> Sample:  # fmt: skip
    """Decodes a part of each image, given as in ``fn.slice``; it must lie inside the image.

    Anchor and shape may be inputs. Without ``axes`` the values are in the order width, height.
    """
    args = Options(locals())

    def region(height: int, width: int) -> tuple[int, int, int, int]:
        bounds = {0: (0, height), 1: (0, width)}
        chosen = geometry.slice_axes((height, width, 3), "HWC", args)
        if set(chosen) - {0, 1}:
            raise ValueError(f"a slice of an image is along its height (0) and width (1), not along axes {chosen}")
        extents = [bounds[axis][1] for axis in chosen]
        for axis, low, size in zip(chosen, *geometry.bounds_of(extents, anchor, shape_input, args), strict=True):
            bounds[axis] = (low, size)
        return bounds[0][0], bounds[1][0], bounds[0][1], bounds[1][1]

    allowed = limits(max_pixels, max_bytes, on_damage)
    return decode(data, output_type, dtype, adjust_orientation, use_fast_idct, allowed, out, source, region)


@image_slice.infer
def _(_specs: tuple[Spec, ...], args: Any) -> Spec:
    return image_spec(args.output_type, args.dtype)


@image_slice.check
def _(args: Any) -> None:
    check_options(args)
    geometry.check_bounds(args)
