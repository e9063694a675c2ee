"""Spreads values over their range: equalize, clahe."""

from typing import Any

from pipeflow.declare import KernelCalls, Out, Sample, Spec, default, operator, required
from pipeflow.kernels import cpu as kernels
from pipeflow.operators.tones import by_channels

PAGE = """Grey values spread over the range of their type."""


@operator(
    "equalize",
    compiled=True,
    infer="like image",
    layouts="HWC HW CHW FHWC FHW FCHW",
    sequences=True,
    dtypes="uint8",
    gpu=True,
)
def equalize(image: Sample, /, *, out: Out, layouts: Any) -> Sample:
    """Spreads the values of every channel so that all parts of the range have about the same number of pixels."""
    if layouts[0] == "CHW":
        for plane, result in zip(image, out, strict=True):
            kernels.histograms.equalize(plane[..., None], result[..., None])
        return out
    if layouts[0] == "HW":
        kernels.histograms.equalize(image[..., None], out[..., None])
        return out
    return kernels.histograms.equalize(image, out)


@equalize.ready
def _(specs: tuple[Spec, ...], _args: Any) -> Any:
    shape = specs[0].shape
    return None if specs[0].layout != "HWC" or 0 in shape else kernels.histograms.equalizing(shape[-1])


@equalize.calls
def _(calls: KernelCalls) -> None:
    by_channels(calls, kernels.histograms.equalize_bytes)


@operator(
    "clahe",
    compiled=True,
    infer="like image",
    layouts="HWC FHWC",
    sequences=True,
    dtypes="uint8",
    gpu=True,
    no_effect={"bins": "the histograms of bytes have 256 classes"},
    examples=["fn.clahe(image, tiles_x=4, tiles_y=4, clip_limit=2.0)"],
)
def clahe(
    image: Sample,
    /,
    *,
    tiles_x: int = required("the number of tiles from left to right"),
    tiles_y: int = required("the number of tiles from top to bottom"),
    clip_limit: float = required(
        "largest count of a class, in multiples of the mean count of a histogram; the excess is spread over all "
        "classes; 0: no limit"
    ),
    luma_only: bool = default(
        True, "with three channels only the lightness is spread, in the colour space Lab; False: each channel by itself"
    ),
    out: Out,
) -> Sample:
    """Spreads the values tile by tile, with limited contrast, and blends between the tiles (CLAHE), as OpenCV does."""
    check_clahe(image.shape)
    tiles = tiles_of(image.shape, tiles_x, tiles_y, clip_limit)
    return kernels.clahe.spreading(*image.shape[1:], tiles, luma_only)(image, out)


def tiles_of(shape: tuple[int, ...], across: int, down: int, limit: float) -> tuple[int, ...]:
    """Height and width of a tile, the numbers of tiles, and the largest count of a class (0: no limit)."""
    height, width = shape[:2]
    if height % down or width % across:  # OpenCV then adds rows and columns, also along the axis that is a multiple
        height, width = height + down - height % down, width + across - width % across
    tall, wide = height // down, width // across
    return tall, wide, across, down, max(int(limit * tall * wide / 256), 1) if limit > 0 else 0


def check_clahe(shape: tuple[int, ...]) -> None:
    """Raises an error unless an image has pixels of one or three channels."""
    if 0 in shape:
        raise ValueError(f"the image has no pixels: shape {shape}")
    if shape[2] not in (1, 3):
        raise ValueError(f"clahe needs 1 or 3 channels, the image has {shape[2]} (shape {shape})")


@clahe.ready
def _(specs: tuple[Spec, ...], args: Any) -> Any:
    shape = specs[0].shape
    if specs[0].layout != "HWC" or 0 in shape or shape[2] not in (1, 3):
        return None
    return kernels.clahe.spreading(
        *shape[1:], tiles_of(shape, args.tiles_x, args.tiles_y, args.clip_limit), args.luma_only
    )


@clahe.check
def _(args: Any) -> None:
    for name in ("tiles_x", "tiles_y"):
        if getattr(args, name) < 1:
            raise ValueError(f"{name} must be at least 1, got {getattr(args, name)}")
    if args.clip_limit < 0:
        raise ValueError(f"clip_limit must not be negative, got {args.clip_limit}")
