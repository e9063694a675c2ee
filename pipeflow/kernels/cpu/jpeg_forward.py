"""Computes the effect of JPEG compression on an image without a file: colours, halved chroma, transform, quantisation, and back.

Huffman coding loses nothing, so it is left out. Each step is equal to libjpeg-turbo's, bit by bit: the result is the same as
after encoding with 4:2:0 chroma and the accurate integer transform, and decoding.
"""

from functools import cache
from typing import Any

import numpy as np

from pipeflow.kernels.cpu import jit
from pipeflow.kernels.cpu import jpeg_pixels as pixels
from pipeflow.kernels.cpu.jit import kernel, plain, types_of
from pipeflow.kernels.cpu.jpeg import Workspace, thread_workspace
from pipeflow.kernels.cpu.jpeg_headers import ACROSS, COMPONENT, COMPONENTS, DOWN, HEIGHT, RECORD, WIDTH, ZIGZAG
from pipeflow.kernels.cpu.jpeg_pixels import PART, RGB
from pipeflow.kernels.cpu.simd.jpeg_colors import halve_rows, split_colors
from pipeflow.kernels.cpu.simd.jpeg_cosines import forward_cosines, inverse_cosines
from pipeflow.kernels.cpu.simd.moves import copy_row

# The factors for quality 50 in zigzag order, of luma and chroma: tables K.1 and K.2 of the standard.
_LUMA = (
    16, 11, 12, 14, 12, 10, 16, 14, 13, 14, 18, 17, 16, 19, 24, 40, 26, 24, 22, 22, 24, 49, 35, 37, 29, 40, 58, 51, 61, 60,
    57, 51, 56, 55, 64, 72, 92, 78, 64, 68, 87, 69, 55, 56, 80, 109, 81, 87, 95, 98, 103, 104, 103, 62, 77, 113, 121, 112,
    100, 120, 92, 101, 103, 99,
)  # fmt: skip
_CHROMA = (17, 18, 18, 24, 21, 24, 47, 26, 26, 47, 99, 66, 56, 66) + (99,) * 50

# The places of one table's parts: the factors, then for each coefficient half of its divisor, the reciprocal and the power.
TABLE = 4 * 64
NARROWEST = 5  # libjpeg does not smooth the chroma of narrower images


@cache
def quantisation(quality: int) -> np.ndarray:
    """The tables of luma and chroma for a quality from 1 to 100."""
    scale = 5000 // quality if quality < 50 else 200 - 2 * quality
    tables = np.zeros((2, 4, 64), np.int64)
    for table, stored in zip(tables, (_LUMA, _CHROMA), strict=True):
        factors = np.clip((np.array(stored) * scale + 50) // 100, 1, 255)
        table[0, ZIGZAG[:64]] = factors
        divisors = 8 * table[0]  # the transform's results are eight times too large
        bits = np.array([int(divisor - 1).bit_length() - 1 for divisor in divisors])
        table[1] = divisors // 2
        table[2] = -(-(1 << (16 + bits)) // divisors)
        table[3] = 1 << (16 - bits)
    return tables.reshape(-1).astype(np.uint16).view(np.int16)


@kernel(fastmath=False, inline="always")
def repeat_last(planes, start, count, total):
    """Fills a row from its last sample on."""
    for x in range(count, total):
        planes[start + x] = planes[start + count - 1]


@kernel(fastmath=False)
def distort_image(source, height, width, tables, frame, queue, parts, planes, sums, tints, out):
    """Compresses and decompresses interleaved red, green and blue."""
    frame[:] = 0
    frame[HEIGHT], frame[WIDTH], frame[COMPONENTS] = height, width, 3
    for c in range(3):
        frame[COMPONENT + RECORD * c + ACROSS] = frame[COMPONENT + RECORD * c + DOWN] = 1 if c else 2
    pixels.find_parts(frame, False, 0, 0, height, width, parts)
    used = pixels.place_planes(frame, parts, False)
    luma_columns, chroma_columns = parts[pixels.STRIDE], parts[PART + pixels.STRIDE]
    # After the planes: two rows in full width for each of the two chroma planes.
    row = 2 * chroma_columns
    wide = used + luma_columns
    emitted = 0
    for unit in range(-(-height // 16)):
        for pair in range(8):
            y = 16 * unit + 2 * pair
            luma = parts[pixels.START] + (y & parts[pixels.MASK]) * luma_columns
            chroma = (8 * unit + pair & parts[PART + pixels.MASK]) * chroma_columns
            blue, red = parts[PART + pixels.START] + chroma, parts[2 * PART + pixels.START] + chroma
            if y >= height:  # below the image its last rows are repeated
                copy_row(planes, luma - luma_columns, luma_columns, planes, luma)
                copy_row(planes, luma - luma_columns, luma_columns, planes, luma + luma_columns)
                copy_row(planes, blue - chroma_columns, chroma_columns, planes, blue)
                copy_row(planes, red - chroma_columns, chroma_columns, planes, red)
                continue
            for i in range(2):
                target, wide_blue, wide_red = luma + i * luma_columns, wide + i * row, wide + (2 + i) * row
                split_colors(
                    source,
                    3 * width * min(y + i, height - 1),
                    width,
                    planes,
                    target,
                    planes,
                    wide_blue,
                    planes,
                    wide_red,
                )
                repeat_last(planes, target, width, luma_columns)
                repeat_last(planes, wide_blue, width, row)
                repeat_last(planes, wide_red, width, row)
            halve_rows(planes, wide, wide + row, chroma_columns, planes, blue)
            halve_rows(planes, wide + 2 * row, wide + 3 * row, chroma_columns, planes, red)
        for c in range(3):
            part, table = c * PART, TABLE if c else 0
            stride = parts[part + pixels.STRIDE]
            for line in range(1 if c else 2):
                first = parts[part + pixels.START]
                first += (8 * (unit * (1 if c else 2) + line) & parts[part + pixels.MASK]) * stride
                for x in range(0, stride, 16):
                    # If the number of blocks is odd, the last block is transformed twice.
                    a = min(x, stride - 8)
                    b = min(x + 8, stride - 8)
                    forward_cosines(planes, first + a, first + b, stride, tables, table + 64, queue, 0)
                    inverse_cosines(queue, 0, tables, table, table, planes, first + a, first + b, stride, stride)
        complete = 16 * unit + 15 if 16 * unit + 16 < height else height
        pixels.make_rows(planes, parts, frame, RGB, emitted, complete, 0, 0, width, sums, tints, out)
        emitted = complete


def distort(image: np.ndarray, quality: int, out: np.ndarray, space: Workspace | None = None) -> bool:
    """Compresses and decompresses `image` with a quality from 1 to 100 into `out`, both contiguous bytes; False if it cannot."""
    height, width, _ = image.shape
    if width < NARROWEST or height < 1:
        return False
    space = space or thread_workspace()
    space.fit(0, width, 0)
    distort_image(*arguments(space, plain(image).reshape(-1), height, width, quality, out.reshape(-1)))
    return True


def arguments(
    space: Workspace, source: np.ndarray, height: int, width: int, quality: int, out: np.ndarray
) -> tuple[Any, ...]:
    """The arguments of `distort_image`."""
    return (
        source,
        height,
        width,
        quantisation(quality),
        space.frame,
        space.queue,
        space.parts,
        space.planes,
        space.sums,
        space.tints,
        out,
    )


def _types() -> tuple[Any, ...]:
    nothing = np.zeros(0, np.uint8)
    return types_of(*arguments(Workspace(), nothing, 8, 8, 50, nothing))


def kept() -> bool:
    """True if this process or another one has compiled the kernel for this machine."""
    return jit.kept(distort_image, _types())


def load() -> None:
    """Reads the compiled code from the disk, or compiles it."""
    distort_image.compile(_types())
