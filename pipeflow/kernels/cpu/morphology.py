"""The largest, smallest and middle value of a window around every pixel."""

from collections.abc import Sequence

import cv2
import numpy as np

from .byte_tables import Filling
from .casting import as_type
from .jit import kernel, plain
from .simd.medians import medians_of_five, medians_of_three, sort_five, sort_three

# The type that OpenCV computes with, for each type that it does not support.
WITHIN = {
    np.dtype(np.bool_): np.uint8, np.dtype(np.int8): np.int16, np.dtype(np.int32): np.float64,
    np.dtype(np.uint32): np.float64, np.dtype(np.float16): np.float32,
}  # fmt: skip
BORDERS = {
    "constant": cv2.BORDER_CONSTANT, "replicate": cv2.BORDER_REPLICATE, "reflect": cv2.BORDER_REFLECT,
    "reflect_101": cv2.BORDER_REFLECT_101, "wrap": cv2.BORDER_WRAP,
}  # fmt: skip
SQUARES = {
    np.dtype(np.uint8): 1 << 10,
    np.dtype(np.uint16): 5,
    np.dtype(np.float32): 5,
}  # the largest windows of cv2.medianBlur


def extremes(
    image: np.ndarray,
    largest: bool,
    size: tuple[int, int],
    anchor: tuple[int, int],
    border: str,
    iterations: int,
    out: np.ndarray,
) -> np.ndarray:
    """Dilates or erodes an image (H, W, C); size and anchor are width and height. With a constant border, values outside are
    ignored.
    """
    within = np.dtype(WITHIN.get(image.dtype, image.dtype))
    operation = cv2.dilate if largest else cv2.erode
    source = as_type(np.ascontiguousarray(image), within)
    if border == "wrap":  # OpenCV has no wrap mode here
        source = wrapped(source, size, anchor, iterations)
    found = operation(
        source,
        np.ones(size[::-1], np.uint8),
        anchor=anchor,
        iterations=iterations,
        borderType=BORDERS["constant" if border == "wrap" else border],
    )
    if border == "wrap":
        top, left = anchor[1] * iterations, anchor[0] * iterations
        found = found[top : top + image.shape[0], left : left + image.shape[1]]
    out[...] = as_type(np.ascontiguousarray(found).reshape(image.shape), out.dtype)
    return out


def extreme(
    extents: Sequence[int],
    dtype: np.dtype,
    largest: bool,
    size: tuple[int, int],
    anchor: tuple[int, int],
    border: str,
    iterations: int,
) -> Filling | None:
    """`extremes` of images of this height and width, for many calls; None if OpenCV does not compute with the type."""
    if dtype in WITHIN:
        return None
    (top, bottom), (left, right) = margins_of(size, anchor, iterations)
    operation, window = cv2.dilate if largest else cv2.erode, np.ones(size[::-1], np.uint8)
    outside = BORDERS["constant" if border == "wrap" else border]
    (height, width), wraps = extents, border == "wrap"

    def run(image: np.ndarray, out: np.ndarray) -> np.ndarray:
        image = image if image.flags.c_contiguous else np.ascontiguousarray(image)
        if wraps:
            whole = cv2.copyMakeBorder(image, top, bottom, left, right, cv2.BORDER_WRAP)
            found = operation(whole, window, None, anchor, iterations, outside)
            out[...] = found[top : top + height, left : left + width].reshape(out.shape)
        else:
            operation(image, window, out, anchor, iterations, outside)
        return out

    return run


def margins_of(size: tuple[int, int], anchor: tuple[int, int], iterations: int) -> list[tuple[int, int]]:
    """The margins of all windows, before and after the image: of rows, and of columns."""
    return [(near * iterations, (far - 1 - near) * iterations) for near, far in zip(anchor[::-1], size[::-1])]


def wrapped(image: np.ndarray, size: tuple[int, int], anchor: tuple[int, int], iterations: int) -> np.ndarray:
    """The image with margins from its opposite side, wide enough for all windows."""
    margins = margins_of(size, anchor, iterations)
    return np.ascontiguousarray(np.pad(image, (*margins, (0, 0)), mode="wrap"))


@kernel
def middle_of(values, count):
    """The median of the first `count` values, by partition."""
    low, high, middle = 0, count - 1, count // 2
    while low < high:
        pivot = values[(low + high) // 2]
        i, j = low, high
        while i <= j:
            while values[i] < pivot:
                i += 1
            while pivot < values[j]:
                j -= 1
            if i <= j:
                values[i], values[j] = values[j], values[i]
                i += 1
                j -= 1
        if middle <= j:
            high = j
        elif middle >= i:
            low = i
        else:
            break
    return values[middle]


@kernel
def medians_of(source, tall, wide, out):
    """Medians for any type and any odd window; outside the image the border pixels are repeated."""
    height, width, channels = source.shape
    values = np.empty(tall * wide, source.dtype)
    for y in range(height):
        for x in range(width):
            for c in range(channels):
                count = 0
                for dy in range(-(tall // 2), tall // 2 + 1):
                    line = min(max(y + dy, 0), height - 1)
                    for dx in range(-(wide // 2), wide // 2 + 1):
                        values[count] = source[line, min(max(x + dx, 0), width - 1), c]
                        count += 1
                out[y, x, c] = middle_of(values, count)


@kernel
def medians_of_bytes(source, size, out):
    """Medians of 3 x 3 or 5 x 5 bytes of (H, W, C), row by row: the columns of windows are sorted first. Border pixels are
    repeated.
    """
    height, width, channels = source.shape
    flat, target = source.reshape(source.size), out.reshape(out.size)
    total, reach = width * channels, size // 2
    margin = reach * channels
    stride = total + 2 * margin
    places, columns = np.empty(size, np.int64), np.empty(size * stride, np.uint8)
    for y in range(height):
        for k in range(size):
            places[k] = min(max(y + k - reach, 0), height - 1) * total
        if size == 3:
            sort_three(flat, places, columns, margin, stride, total)
        else:
            sort_five(flat, places, columns, margin, stride, total)
        for k in range(size):
            line = columns[k * stride : (k + 1) * stride]
            for i in range(margin):
                line[i] = line[margin + i % channels]
                line[stride - 1 - i] = line[stride - 1 - margin - i % channels]
        if size == 3:
            medians_of_three(columns, stride, channels, target, y * total, total)
        else:
            medians_of_five(columns, stride, channels, target, y * total, total)


def medians(image: np.ndarray, size: tuple[int, int], out: np.ndarray) -> np.ndarray:
    """The medians of an image (H, W, C); size is width and height, both odd."""
    wide, tall = size
    channels = image.shape[2]
    if wide == tall and wide in (3, 5) and image.dtype == np.uint8:
        medians_of_bytes(plain(image), wide, out)
        return out
    if wide == tall and 1 < wide <= SQUARES.get(image.dtype, 0) and channels in (1, 3, 4):
        out[...] = cv2.medianBlur(np.ascontiguousarray(image), wide).reshape(image.shape)
        return out
    half = image.dtype == np.float16
    source = as_type(image, np.dtype(np.float32)) if half else image
    target = np.empty(out.shape, np.float32) if half else out
    medians_of(plain(source), tall, wide, target)
    if half:
        out[...] = as_type(target, out.dtype)
    return out
