"""Makes rows of pixels of planes of luma and chroma samples, as libjpeg's smooth upsampling does."""

import numpy as np

from pipeflow.kernels.cpu.jit import kernel
from pipeflow.kernels.cpu.jpeg_headers import ACROSS, COMPONENT, COMPONENTS, DOWN, HEIGHT, RECORD, WIDTH
from pipeflow.kernels.cpu.simd.jpeg_colors import blend_rows, color_doubled_row, color_row, quarter_sums, repeat_gray
from pipeflow.kernels.cpu.simd.moves import copy_row

# The colours of the result.
GRAY, RGB, BGR = 0, 1, 2

# A record of `parts` for each component: the samples that are needed (rows and columns, ends exclusive), and their places: row
# r, column c of the component is at START + (r & MASK) * STRIDE + c of the planes.
TOP, BOTTOM, LEFT, RIGHT, START, STRIDE, MASK = range(7)
PART = 8


@kernel(fastmath=False)
def find_parts(frame, gray, top, left, height, width, parts):
    """Finds the samples of each component that a window of the image needs."""
    across, down = frame[COMPONENT + ACROSS], frame[COMPONENT + DOWN]
    for c in range(frame[COMPONENTS]):
        at = c * PART
        rows, columns = (1, 1) if c == 0 else (down, across)
        # Smooth upsampling looks at the next sample on either side.
        more_rows, more_columns = 1 if rows == 2 else 0, 1 if columns == 2 else 0
        last_row, last_column = -(-frame[HEIGHT] // rows), -(-frame[WIDTH] // columns)
        parts[at + TOP] = max(top // rows - more_rows, 0)
        parts[at + BOTTOM] = min(-(-(top + height) // rows) + more_rows, last_row)
        parts[at + LEFT] = max(left // columns - more_columns, 0)
        parts[at + RIGHT] = min(-(-(left + width) // columns) + more_columns, last_column)
        if c > 0 and gray:
            parts[at + BOTTOM], parts[at + RIGHT] = parts[at + TOP], parts[at + LEFT]


@kernel(fastmath=False)
def place_planes(frame, parts, whole):
    """Sets the places of the planes' samples, in whole blocks; returns the number of samples.

    Without `whole`, each plane keeps two rows of units, in turn.
    """
    total = 0
    for c in range(frame[COMPONENTS]):
        at = c * PART
        first, last = parts[at + LEFT] // 8, -(-parts[at + RIGHT] // 8)
        stride = 8 * max(last - first, 0)
        parts[at + STRIDE] = stride
        if whole:
            base = parts[at + TOP] // 8 * 8
            rows, parts[at + MASK] = -(-parts[at + BOTTOM] // 8) * 8 - base, -1
        else:
            base, rows = 0, 16 * frame[COMPONENT + RECORD * c + DOWN]
            parts[at + MASK] = rows - 1
        parts[at + START] = total - base * stride - 8 * first
        total += max(rows, 0) * stride
    return total


@kernel(fastmath=False, inline="always")
def rows_of(planes, parts, c, y, down, last_row):
    """The starts of the two rows of chroma samples nearest to the row y of the image; equal if chroma is not halved."""
    at = c * PART
    start, stride, mask = parts[at + START] + parts[at + LEFT], parts[at + STRIDE], parts[at + MASK]
    row = y // down
    near = start + (row & mask) * stride
    if down == 1:
        return near, near
    other = row + 1 if y & 1 else row - 1
    return near, start + (min(max(other, 0), last_row) & mask) * stride


@kernel(fastmath=False, inline="always")
def sum_row(planes, near, far, down, count, sums, at):
    """Blends the two nearest rows of chroma samples, and repeats the first and the last sum at the ends."""
    if down == 2:
        blend_rows(planes, near, far, np.int16(3), np.int16(1), count, sums, at)
    else:
        blend_rows(planes, near, near, np.int16(4), np.int16(0), count, sums, at)
    sums[at - 1], sums[at + count] = sums[at], sums[at + count - 1]


@kernel(fastmath=False, inline="always")
def tint_row(planes, near, far, y, across, down, count, sums, tints, at):
    """Makes a row of chroma samples in full width, for the ways of sampling that do not blend columns."""
    if down == 2:
        blend_rows(planes, near, far, np.int16(3), np.int16(1), count, sums, 1)
        quarter_sums(sums, 1, np.int16(2 if y & 1 else 1), count, tints, at)
    else:
        for i in range(count):
            for j in range(across):
                tints[at + i * across + j] = planes[near + i]


@kernel(fastmath=False, inline="always")
def mixed_pixel(luma, blue, red, backwards, out, at):
    """Makes one pixel of luma and chroma samples."""
    blue, red = blue - 128, red - 128
    first = luma + ((91881 * red + 32768) >> 16)
    last = luma + ((116130 * blue + 32768) >> 16)
    green = luma + ((-22554 * blue - 46802 * red + 32768) >> 16)
    if backwards:
        first, last = last, first
    out[at] = min(max(first, 0), 255)
    out[at + 1] = min(max(green, 0), 255)
    out[at + 2] = min(max(last, 0), 255)


@kernel(fastmath=False, inline="always")
def single_pixel(luma, sums, blue_at, red_at, step, bias, backwards, out, at):
    """Makes a pixel whose partner is outside the window; `step` is the distance to the chroma sample that it is blended with."""
    blue = (3 * np.int64(sums[blue_at]) + np.int64(sums[blue_at + step]) + bias) >> 4
    red = (3 * np.int64(sums[red_at]) + np.int64(sums[red_at + step]) + bias) >> 4
    mixed_pixel(np.int64(luma), blue, red, backwards, out, at)


@kernel(fastmath=False)
def make_rows(planes, parts, frame, color, first_row, end_row, top, left, width, sums, tints, out):
    """Writes the part of the rows [first_row, end_row) that is in the window to `out`, which begins with row `top`."""
    across, down = frame[COMPONENT + ACROSS], frame[COMPONENT + DOWN]
    last_row = -(-frame[HEIGHT] // down) - 1
    channels = 1 if color == GRAY else 3
    backwards = color == BGR
    first, count = parts[PART + LEFT], parts[PART + RIGHT] - parts[PART + LEFT]
    # Places of the chroma of the window's first pixel.
    blue, red = left // across - first + 1, left // across - first + 1 + sums.size // 2
    # Pixels before the first whole pair of the window, pairs, and pixels after them.
    odd = left & 1
    pairs = (width - odd) // 2
    rest = width - odd - 2 * pairs
    for y in range(first_row, end_row):
        luma = parts[START] + (y & parts[MASK]) * parts[STRIDE] + left
        target = (y - top) * width * channels
        if color == GRAY:
            copy_row(planes, luma, width, out, target)
            continue
        if frame[COMPONENTS] == 1:
            repeat_gray(planes, luma, width, out, target)
            continue
        near_blue, far_blue = rows_of(planes, parts, 1, y, down, last_row)
        near_red, far_red = rows_of(planes, parts, 2, y, down, last_row)
        if across == 1 and down == 1:
            color_row(planes, luma, planes, near_blue, planes, near_red, backwards, width, out, target)
        elif across == 2:
            sum_row(planes, near_blue, far_blue, down, count, sums, 1)
            sum_row(planes, near_red, far_red, down, count, sums, 1 + sums.size // 2)
            even_bias, odd_bias = (8, 7) if down == 2 else (4, 8)
            if odd:
                single_pixel(planes[luma], sums, blue, red, 1, odd_bias, backwards, out, target)
            color_doubled_row(
                planes,
                luma + odd,
                sums,
                blue + odd,
                red + odd,
                np.int16(even_bias),
                np.int16(odd_bias),
                backwards,
                pairs,
                out,
                target + 3 * odd,
            )
            if rest:
                step = odd + pairs
                single_pixel(
                    planes[luma + width - 1],
                    sums,
                    blue + step,
                    red + step,
                    -1,
                    even_bias,
                    backwards,
                    out,
                    target + 3 * (width - 1),
                )
        else:
            half = tints.size // 2
            tint_row(planes, near_blue, far_blue, y, across, down, count, sums, tints, 0)
            tint_row(planes, near_red, far_red, y, across, down, count, sums, tints, half)
            at = left - first * across
            color_row(planes, luma, tints, at, tints, half + at, backwards, width, out, target)
