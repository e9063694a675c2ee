"""Writes images to files and passes them on: dump_image."""

import re
from pathlib import Path
from typing import Any

import numpy as np

from pipeflow.declare import Args, BatchCall, Layout, Sample, Traits, default, operator


def next_number(suffix: str, folder: Path) -> int:
    """The number of the next batch: existing files of this suffix are not overwritten."""
    pattern = re.compile(rf"\d+-{re.escape(suffix)}-(\d+)\.ppm")
    found = (pattern.fullmatch(path.name) for path in folder.glob(f"*-{suffix}-*.ppm"))
    return max((int(match[1]) for match in found if match), default=-1) + 1


def as_ppm(image: np.ndarray) -> bytes:
    """An image (H, W, C) as the bytes of a PPM file, or of a PGM file if it is grey."""
    height, width, channels = image.shape
    return b"P%d %d %d 255\n" % (6 if channels == 3 else 5, width, height) + np.ascontiguousarray(image).tobytes()


@operator(
    "dump_image",
    layouts="HWC",
    dtypes="uint8",
    granularity="batch",
    infer="like image",
    examples=["fn.dump_image(image, suffix='seen')"],
)
def dump_image(
    image: Sample,
    /,
    *,
    suffix: str = default("", "part of the names of the files"),
    input_layout: Layout = default("HWC", "layout of the images; only HWC is supported"),
) -> Sample:
    """Writes the images to the current folder and passes them on.

    A file is named ``sample-suffix-batch.ppm``; numbers of batches continue after those of an earlier run.
    """
    raise NotImplementedError  # the batch hook runs instead


@dump_image.batch
def _(images: Any, *, args: Args, batch: BatchCall) -> Any:
    folder = Path.cwd()
    number = next_number(args.suffix, folder)
    for sample, image in enumerate(images):
        batch.current = sample  # so that an error names the sample
        if image.shape[2] not in (1, 3):
            raise ValueError(f"dump_image needs 1 or 3 channels, the image has {image.shape[2]} (shape {image.shape})")
        (folder / f"{sample}-{args.suffix}-{number}.ppm").write_bytes(as_ppm(image))
    return [images]


@dump_image.traits
def _(_args: Any) -> Traits:
    return Traits("batch", ordered=True, pure=False)


@dump_image.check
def _(args: Any) -> None:
    if args.input_layout != "HWC":
        raise ValueError(f"input_layout must be 'HWC', got {args.input_layout!r}")
    if "/" in args.suffix or "\\" in args.suffix:
        raise ValueError(f"suffix must be a part of a file name, got {args.suffix!r}")
