"""NumPy forms of the usual image kernels, with which a pipeline can begin; `start` chooses between the forms.

The steps and the roundings are those of the compiled kernels with the same names in `resample`, `fused`, `normalize` and
`streaming`: float32 sums in the same order, and each product is rounded before it is added. So the results are equal, bit by
bit.
"""

import math

import numpy as np

from pipeflow.kernels.cpu.start import switched

NEAREST, LINEAR, CUBIC, LANCZOS3, TRIANGULAR, GAUSSIAN = range(6)  # filters
UINT8, FLOAT = np.dtype(np.uint8), np.dtype(np.float32)
HALF = np.float32(0.5)
# Elements of the rows whose sums are computed together: they stay in the processor's cache, which takes a third less time.
CACHED = 1 << 16
RESAMPLED = {(UINT8, UINT8), (UINT8, FLOAT), (FLOAT, FLOAT)}
NORMALIZED = {FLOAT, np.dtype(np.float16), UINT8, np.dtype(np.int8)}

Taps = tuple[np.ndarray, np.ndarray]


def filter_weights(kind: int, x: np.ndarray) -> np.ndarray:
    """The filter at distances x from its centre, in units of its own scale."""
    x = np.abs(x)
    if kind == CUBIC:
        near = (1.5 * x - 2.5) * x * x + 1
        far = ((-0.5 * x + 2.5) * x - 4) * x + 2
        return np.where(x < 1, near, np.where(x < 2, far, 0.0))
    return np.maximum(0.0, 1 - x)


@switched("resample")
def axis_taps(
    size: int,
    low: float,
    high: float,
    full: int,
    kind: int,
    antialias: bool,
    first: int = 0,
    count: int = -1,
    mirror: bool = False,
) -> Taps | None:
    """First input pixel and weights of each output of one axis."""
    if kind not in (NEAREST, LINEAR, CUBIC, TRIANGULAR):  # other filters need functions that NumPy rounds differently
        return None
    count = full if count < 0 else count
    scale = (float(high) - float(low)) / full
    if kind == NEAREST:
        steps = np.full(count, scale, np.float32)
        steps[:1] = low + (first + 0.5) * scale
        nearest = np.floor(np.add.accumulate(steps)).astype(np.int64)
        starts, weights = np.clip(nearest, 0, size - 1), np.ones((count, 1), np.float32)
    else:
        starts, weights = _weighed(size, float(low), scale, kind, antialias, first + np.arange(count))
    return (starts[::-1].copy(), weights[::-1].copy()) if mirror else (starts, weights)


def _weighed(size: int, low: float, scale: float, kind: int, antialias: bool, places: np.ndarray) -> Taps:
    widen = abs(scale) if antialias and abs(scale) > 1 else 1.0
    radius = widen * (2.0 if kind == CUBIC else 1.0)
    centres = low + (places + 0.5) * scale - 0.5
    begins = np.floor(centres - radius).astype(np.int64) + 1
    ends = np.ceil(centres + radius).astype(np.int64)
    width = int(np.max(np.minimum(ends, size) - np.maximum(begins, 0), initial=1))
    width = min(width, size)
    starts = np.minimum(np.maximum(begins, 0), size - width)
    totals, exact = np.zeros(len(places)), np.zeros((len(places), width))
    rows = np.arange(len(places))
    for step in range(int(np.max(ends - begins, initial=0))):
        pixels = begins + step
        weights = np.where(pixels < ends, filter_weights(kind, (pixels - centres) / widen), 0.0)
        inside = np.minimum(np.maximum(pixels, 0), size - 1) - starts
        exact[rows, np.minimum(np.maximum(inside, 0), width - 1)] += weights
        totals += weights
    return starts, (exact / totals[:, None]).astype(np.float32)


def blended_rows(rows: np.ndarray, taps: Taps) -> np.ndarray:
    """Resamples rows (H, elements) to rows (h, elements) of float32 sums."""
    starts, weights = taps
    low, columns = int(starts.min()), rows.shape[1]
    used = rows[low : int(starts.max()) + weights.shape[1]].astype(np.float32, copy=False)
    total = np.empty((len(starts), columns), np.float32)
    count = max(1, CACHED // max(columns, 1))
    part = np.empty((min(count, len(starts)), columns), np.float32)
    for first in range(0, len(starts), count):
        sums = total[first : first + count]
        places, factors, products = (
            starts[first : first + count] - low,
            weights[first : first + count, None],
            part[: len(sums)],
        )
        np.take(used, places, axis=0, out=sums, mode="clip")
        sums *= factors[..., 0]
        sums += 0  # a sum begins with zero: a product of -0 becomes 0
        for k in range(1, weights.shape[1]):
            np.take(used, places + k, axis=0, out=products, mode="clip")
            products *= factors[..., k]
            sums += products
    return total


def blended(image: np.ndarray, y: Taps, x: Taps) -> np.ndarray:
    """Resamples an image (H, W, C) to float32 sums (h, w, C)."""
    low, high = int(x[0].min()), int(x[0].max()) + x[1].shape[1]
    image = image[:, low:high]
    height, channels = len(y[0]), image.shape[2]
    tall = blended_rows(np.ascontiguousarray(image).reshape(len(image), -1), y)
    # Columns become rows: whole pixels of all rows are moved at once.
    turned = np.ascontiguousarray(tall.reshape(height, -1, channels).transpose(1, 0, 2)).reshape(high - low, -1)
    wide = blended_rows(turned, (x[0] - low, x[1])).reshape(-1, height, channels)
    return wide.transpose(1, 0, 2)


def as_bytes(values: np.ndarray) -> np.ndarray:
    """Floats to bytes, halves rounded up, saturated."""
    return np.clip(values + HALF, np.float32(0), np.float32(255)).astype(np.uint8)


@switched("resample", out=3)
def resample_any(source: np.ndarray, first_axis: int, tables: list[Taps], out: np.ndarray) -> np.ndarray | None:
    """Resamples two neighbouring axes from `first_axis` on."""
    if len(tables) != 2 or not (source.size and out.size):
        return None
    nearest = source.dtype == out.dtype and all(weights.shape[1] == 1 for _, weights in tables)
    pixel = math.prod(source.shape[first_axis + 2 :])
    outer = math.prod(source.shape[:first_axis])
    images = source.reshape(outer, *source.shape[first_axis : first_axis + 2], pixel)
    results = out.reshape(outer, *out.shape[first_axis : first_axis + 2], pixel)
    if not nearest and ((source.dtype, out.dtype) not in RESAMPLED or (pixel == 1 and source.dtype == FLOAT)):
        return None
    for image, result in zip(images, results, strict=True):
        if nearest:
            result[...] = image[tables[0][0][:, None], tables[1][0]]
        else:
            values = blended(image, *tables)
            result[...] = values if out.dtype == FLOAT else as_bytes(values)
    return out


def normal(values: np.ndarray, mean: np.ndarray, scale: np.ndarray, shift: float) -> np.ndarray:
    """(x - mean) * scale + shift of contiguous pixels (H, W, C) in float32, each step rounded.

    The factors are repeated for a whole row: NumPy takes three times as long for rows of three elements.
    """
    rows = values.reshape(len(values), -1)
    made = rows - np.tile(mean, values.shape[1])
    made *= np.tile(scale, values.shape[1])
    made += np.float32(shift)
    return made.reshape(values.shape)


def stored(values: np.ndarray, out: np.ndarray) -> None:
    """Floats in the type of the output; integers rounded half away from zero and saturated."""
    if out.dtype.kind == "f":
        with np.errstate(over="ignore"):
            out[...] = values
        return
    half = np.copysign(HALF, values) if out.dtype.kind == "i" else HALF
    limits = np.iinfo(out.dtype)
    out[...] = np.clip(values + half, np.float32(limits.min), np.float32(limits.max)).astype(np.int32)


@switched("fused", out=7)
def resample_normalize(
    source: np.ndarray,
    y: Taps,
    x: Taps,
    mean: np.ndarray,
    scale: np.ndarray,
    shift: float,
    rounding: bool,
    out: np.ndarray,
    channel_first: bool,
) -> np.ndarray | None:
    """Resamples a three-channel image (H, W, 3) with both tap tables into `out`, (3, h, w) or (h, w, 3), and normalises it."""
    if source.dtype not in (UINT8, FLOAT):
        return None
    values = blended(source, y, x)
    if rounding:
        values = np.floor(np.clip(values + HALF, np.float32(0), np.float32(255)))
    values = normal(values.transpose(1, 0, 2), mean, scale, shift)
    stored(values.transpose(2, 1, 0) if channel_first else values.transpose(1, 0, 2), out)
    return out


@switched("normalize", out=8)
def normalize_window(
    source: np.ndarray,
    channel_first: bool,
    top: int,
    left: int,
    mirror: bool,
    mean: np.ndarray,
    scale: np.ndarray,
    shift: float,
    out: np.ndarray,
    out_channel_first: bool,
) -> np.ndarray | None:
    """Mirrors and normalises the window at (top, left) of an image; `out` determines its size."""
    channels = source.shape[0 if channel_first else 2]
    if (
        source.dtype not in (UINT8, FLOAT)
        or out.dtype not in NORMALIZED
        or not out.flags.c_contiguous
        or out.shape[0 if out_channel_first else 2] != channels
    ):
        return None
    image = source.transpose(1, 2, 0) if channel_first else source
    height, width = out.shape[1:] if out_channel_first else out.shape[:2]
    window = image[top : top + height, left : left + width]
    values = normal(np.ascontiguousarray(window[:, ::-1] if mirror else window), mean, scale, shift)
    stored(values.transpose(2, 0, 1) if out_channel_first else values, out)
    return out


@switched("normalize", out=4)
def mirror_image(source: np.ndarray, pixel: int, upside_down: bool, sideways: bool, out: np.ndarray) -> np.ndarray:
    """Mirrors rows (H, W * pixel) of any element type."""
    rows = (source[::-1] if upside_down else source).reshape(len(source), -1, pixel)
    out.reshape(rows.shape)[...] = rows[:, ::-1] if sideways else rows
    return out


@switched("streaming", out=1)
def copy(source: np.ndarray, out: np.ndarray) -> np.ndarray:
    """Copies the source to `out`, which has its shape and type."""
    np.copyto(out, source)
    return out
