"""Colour spaces: grayscale, color_space_conversion. Matrices and sums are as in `color.py`."""

from functools import cache
from typing import Any

import numpy as np

from pipeflow.declare import (
    UNKNOWN,
    KernelArray,
    KernelCalls,
    Out,
    Sample,
    Spec,
    SpecColumn,
    default,
    operator,
    require,
    required,
)
from pipeflow.kernels import cpu as kernels
from pipeflow.operators.color import COLOR_LAYOUTS, LUMA, UINT8, grey_rows, three_channels
from pipeflow.types import BGR, GRAY, RGB, DALIImageType, YCbCr

# The weights as rounded by OpenCV, which DALI calls to convert RGB to grey: sums of such products are exact in float32.
GREY = np.array([9798, 19235, 3735]) / 32768

# ITU-R BT.601 in the studio range: Y from 16 to 235, chroma around 128.
TO_YCBCR = np.array(
    [
        [0.25678824, 0.50412941, 0.09790588],
        [-0.14822290, -0.29099279, 0.43921569],
        [0.43921569, -0.36778831, -0.07142737],
    ]
)
YCBCR_OFFSET = np.array([16.0, 128.0, 128.0])
FROM_YCBCR = np.linalg.inv(TO_YCBCR)
SWAP = np.eye(3)[::-1]


@operator(
    "grayscale",
    compiled=True,
    layouts=COLOR_LAYOUTS,
    sequences=True,
    gpu=True,
    examples=["fn.grayscale(image)", "fn.grayscale(image, channels=1)"],
)
def grayscale(
    image: Sample,
    /,
    *,
    channels: int = default(3, "number of channels of the result: 3 that are equal, or 1"),
    out: Out,
) -> Sample:
    """Makes the image grey, with the weights of ``color_space_conversion`` to GRAY."""
    three_channels(image.shape, "grayscale")
    if image.dtype == UINT8:
        return kernels.color.luma(image, False, out) if channels == 1 else kernels.color.grey_luma(image, out)
    return kernels.color.linear_colors(image, *grey_line(channels), out)


@grayscale.calls
def _(calls: KernelCalls) -> None:
    image, channels = calls.input, calls.args.channels
    calls.require(calls.layouts[0] == "HWC" and image.dtype in kernels.color.FAST)
    calls.require(image.extents[2] == 3)
    calls.require(image.size > 0)
    out = calls.output((*image.extents[:2], channels), image.dtype)
    if image.dtype == UINT8:
        grey = kernels.color.weigh_bytes if channels == 1 else kernels.color.grey_bytes
        calls.call(grey, image.flat, kernels.color.LUMA, out.flat)
    else:
        mixed(calls, image, *grey_line(channels), out)


def mixed(calls: KernelCalls, image: KernelArray, matrix: np.ndarray, offset: np.ndarray, out: KernelArray) -> None:
    """``linear_colors`` for programs of kernel calls."""
    color, pixels = kernels.color, image.extents[0] * image.extents[1]
    weights, shift = matrix.astype(np.float32).ravel(), offset.astype(np.float32)
    if weights.size == 3:
        calls.call(color.weigh, image.flat, weights, shift[0], out.flat, pixels)
        return
    require(image.dtype != UINT8 or not grey_rows(np.hstack([weights, shift])[None]).any())
    calls.call(color.mix, image.flat, weights, shift, out.flat, pixels)


@cache
def grey_line(channels: int) -> tuple[np.ndarray, np.ndarray]:
    """The weights of red, green and blue in each channel of the result, and an offset of 0."""
    return np.tile(GREY, (channels, 1)), np.zeros(channels)


@grayscale.infer
def _(specs: tuple[Spec, ...], args: Any) -> Spec:
    shape = specs[0].shape
    return Spec(shape if shape is UNKNOWN else (*shape[:-1], args.channels), specs[0].dtype, specs[0].layout)


@grayscale.check
def _(args: Any) -> None:
    if args.channels not in (1, 3):
        raise ValueError(f"channels must be 3 or 1, got {args.channels}")


@cache
def conversion(source: DALIImageType, target: DALIImageType) -> tuple[np.ndarray, np.ndarray] | None:
    """Matrix and offset between two colour spaces; None if the pixels do not change."""
    if source == target:
        return None
    to_rgb = {RGB: np.eye(3), BGR: SWAP, YCbCr: FROM_YCBCR, GRAY: np.ones((3, 1))}[source]
    before = -FROM_YCBCR @ YCBCR_OFFSET if source == YCbCr else np.zeros(3)
    from_rgb = {RGB: np.eye(3), BGR: SWAP, YCbCr: TO_YCBCR, GRAY: (LUMA if source == YCbCr else GREY)[None]}[target]
    after = YCBCR_OFFSET if target == YCbCr else np.zeros(len(from_rgb))
    matrix = from_rgb @ to_rgb
    if source == GRAY:
        # the chroma of grey is constant: a tiny factor from rounding must not change it
        matrix = np.where(np.abs(matrix) < 1e-6, 0.0, np.ones_like(matrix) if target in (RGB, BGR) else matrix)
    return matrix, from_rgb @ before + after


@operator(
    "color_space_conversion",
    compiled=True,
    layouts="FDHWC FHWC DHWC HWC",
    sequences=True,
    dtypes="uint8",
    gpu=True,
    examples=["fn.color_space_conversion(image, image_type=types.RGB, output_type=types.YCbCr)"],
)
def color_space_conversion(
    image: Sample,
    /,
    *,
    image_type: DALIImageType = required("colour space of the input: RGB, BGR, GRAY or YCbCr"),
    output_type: DALIImageType = required("colour space of the result"),
    out: Out,
) -> Sample:
    """Converts between RGB, BGR, YCbCr (studio range) and GRAY."""
    check_channels(image.shape, image_type)
    steps = conversion(image_type, output_type)
    if steps is None:
        out[...] = image
        return out
    if output_type == GRAY and image_type != YCbCr:
        return kernels.color.luma(image, image_type == BGR, out)
    matrix, offset = steps
    if image_type != GRAY:
        return kernels.color.linear_colors(image, matrix, offset, out)
    for channel in range(out.shape[-1]):
        plane = np.empty(image.shape, np.uint8)
        factor, shift = float(matrix[channel, 0]), float(offset[channel])
        out[..., channel] = kernels.color.linear_values(image, factor, shift, plane)[..., 0]
    return out


def check_channels(shape: tuple[int, ...], image_type: DALIImageType) -> None:
    """Raises if the image cannot have this colour space."""
    channels = 1 if image_type == GRAY else 3
    if shape[-1] != channels:
        raise ValueError(f"{image_type!r} has {channels} channel(s), the image has {shape[-1]} (shape {shape})")
    if 0 in shape:
        raise ValueError(f"the image has no pixels: shape {shape}")


@color_space_conversion.calls
def _(calls: KernelCalls) -> None:
    args, image = calls.args, calls.input
    steps = conversion(args.image_type, args.output_type)
    calls.require(steps is not None and args.image_type != GRAY and calls.layouts[0] == "HWC")
    calls.require(image.extents[2] == 3)
    calls.require(image.size > 0)
    out = calls.output((*image.extents[:2], 1 if args.output_type == GRAY else 3), UINT8)
    if args.output_type == GRAY and args.image_type != YCbCr:
        weights = kernels.color.LUMA
        weights = weights[::-1].copy() if args.image_type == BGR else weights
        calls.call(kernels.color.weigh_bytes, image.flat, weights, out.flat)
    else:
        assert steps is not None
        mixed(calls, image, *steps, out)


@color_space_conversion.rows
def _(specs: tuple[SpecColumn, ...], args: Any, _keys: np.ndarray) -> np.ndarray:
    shapes = specs[0].shapes
    require((shapes[:, -1] == (1 if args.image_type == GRAY else 3)) & shapes.all(1))
    steps = conversion(args.image_type, args.output_type)
    if steps is None:
        return np.zeros(len(shapes), [])
    matrix, offset = steps
    fields = [("matrix", np.float32, matrix.shape), ("offset", np.float64, offset.shape)]
    table = np.empty(len(shapes), [*fields, ("shape", np.int64, shapes.shape[1:])])
    table["matrix"], table["offset"], table["shape"] = matrix, offset, shapes
    table["shape"][:, -1] = len(matrix)
    return table


@color_space_conversion.infer
def _(specs: tuple[Spec, ...], args: Any) -> Spec:
    shape = specs[0].shape
    if shape is not UNKNOWN:
        shape = (*shape[:-1], 1 if args.output_type == GRAY else 3)
    return Spec(shape, specs[0].dtype, specs[0].layout)


@color_space_conversion.check
def _(args: Any) -> None:
    for name in ("image_type", "output_type"):
        if getattr(args, name) not in (RGB, BGR, GRAY, YCbCr):
            raise ValueError(f"{name} must be RGB, BGR, GRAY or YCbCr, got {getattr(args, name)!r}")
