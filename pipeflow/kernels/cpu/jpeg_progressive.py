"""A compiled decoder for progressive JPEG: Huffman-coded files of 8 bits, whole or only a window.

As in `jpeg`, everything that it does not support, and all files that libjpeg-turbo would refuse or warn about, are left to
libjpeg-turbo, and the result is equal to libjpeg-turbo's, bit by bit. Files that lack scans are left to it, too.

`jpeg_bands` decodes the scans to blocks of coefficients, of which only those that the window needs are kept. After the last scan,
the blocks are transformed, one row of units after the other, and `jpeg_pixels` makes pixels of the complete rows.
"""

import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from pipeflow.kernels.cpu import jit, jpeg_bands
from pipeflow.kernels.cpu import jpeg_entropy as entropy
from pipeflow.kernels.cpu import jpeg_pixels as pixels
from pipeflow.kernels.cpu.jit import kernel, plain, types_of
from pipeflow.kernels.cpu.jpeg import COLORS, KEPT, Workspace
from pipeflow.kernels.cpu.jpeg_bands import (
    BLOCKS,
    BOTTOM,
    COLUMNS,
    KEPT_COLUMNS,
    LEFT,
    MASKS,
    NEEDED_COEFFICIENTS,
    NEEDED_MASKS,
    RIGHT,
    SPARE,
    STORE,
    STORES,
    TOP,
    USED,
    build_symbols,
    decode_band,
    decode_means,
    decode_more_bits,
)
from pipeflow.kernels.cpu.jpeg_entropy import EMPTY_BLOCKS, U
from pipeflow.kernels.cpu.jpeg_headers import (
    AC_CODE,
    ACROSS,
    AT_END,
    COMPONENT,
    COMPONENTS,
    DAMAGED,
    DC_CODE,
    DONE,
    DOWN,
    FACTORS,
    FIRST_PLACE,
    HEIGHT,
    IN_SCAN,
    MISSING_BEFORE,
    PROGRESSIVE,
    RECORD,
    RESTART_INTERVAL,
    UNKNOWN_FORM,
    WIDTH,
    all_decoded,
    clear,
    extents_of_scan,
    read_segments,
)
from pipeflow.kernels.cpu.jpeg_pixels import GRAY, PART, RGB
from pipeflow.kernels.cpu.simd.jpeg_cosines import fill_square, inverse_cosines

NEEDS_ROOM = 4  # a result of the kernel: `stores` has the elements that `masks` and `coefficients` need


@kernel(fastmath=False)
def place_blocks(frame, parts, stores):
    """Sets the places of masks and blocks."""
    masks, blocks = 0, 2 * SPARE
    across, down = frame[COMPONENT + ACROSS], frame[COMPONENT + DOWN]
    columns, rows = -(-frame[WIDTH] // (8 * across)), -(-frame[HEIGHT] // (8 * down))
    for c in range(frame[COMPONENTS]):
        record, part, at = COMPONENT + RECORD * c, PART * c, STORE * c
        stores[at + COLUMNS], stores[at + MASKS], stores[at + BLOCKS] = columns * frame[record + ACROSS], masks, blocks
        for first, last, begin, end in (
            (pixels.LEFT, pixels.RIGHT, LEFT, RIGHT),
            (pixels.TOP, pixels.BOTTOM, TOP, BOTTOM),
        ):
            low, high = parts[part + first], parts[part + last]
            stores[at + begin] = low // 8
            stores[at + end] = -(-high // 8) if high > low else low // 8
        # One more column: the transform takes pairs of blocks.
        stores[at + KEPT_COLUMNS] = stores[at + RIGHT] - stores[at + LEFT] + 1
        masks += stores[at + COLUMNS] * rows * frame[record + DOWN]
        blocks += 64 * stores[at + KEPT_COLUMNS] * (stores[at + BOTTOM] - stores[at + TOP])
    stores[NEEDED_MASKS], stores[NEEDED_COEFFICIENTS] = masks, blocks


@kernel(fastmath=False)
def prepare_scan(frame, codes, means, symbols, longs):
    """Makes the look-ups of a scan's codes; False if a code is not valid."""
    for c in range(frame[COMPONENTS]):
        record = COMPONENT + RECORD * c
        if not frame[record + IN_SCAN] or (frame[FIRST_PLACE] == 0 and frame[MISSING_BEFORE] > 0):
            continue
        table = frame[record + DC_CODE] if frame[FIRST_PLACE] == 0 else frame[record + AC_CODE]
        if not entropy.build_code(codes, table, longs):
            return False
        if table < 4:
            entropy.build_dc(codes, table, means)
        else:
            build_symbols(codes, table, symbols)
    return True


@kernel(fastmath=False)
def transform_row(frame, factors, parts, stores, masks, coefficients, row, planes):
    """Transforms the kept blocks of a row of units; their coefficients become zero."""
    for c in range(frame[COMPONENTS]):
        record, part, at = COMPONENT + RECORD * c, PART * c, STORE * c
        left, count, stride = stores[at + LEFT], stores[at + RIGHT] - stores[at + LEFT], parts[part + pixels.STRIDE]
        scale = 64 * frame[record + FACTORS]
        for y in range(row * frame[record + DOWN], (row + 1) * frame[record + DOWN]):
            if not stores[at + TOP] <= y < stores[at + BOTTOM]:
                continue
            block = stores[at + BLOCKS] + 64 * (y - stores[at + TOP]) * stores[at + KEPT_COLUMNS]
            mask = stores[at + MASKS] + y * stores[at + COLUMNS] + left
            target = parts[part + pixels.START] + (8 * y & parts[part + pixels.MASK]) * stride + 8 * left
            for x in range(0, count, 2):
                both = x + 1 < count
                if masks[mask + x] | (masks[mask + x + 1] if both else U(0)):
                    # Without a second block, the spare column is transformed to the spare block of the planes.
                    second, second_stride = (target + 8, stride) if both else (planes.size - 64, 8)
                    inverse_cosines(
                        coefficients, block, factors, scale, scale, planes, target, second, stride, second_stride
                    )
                else:
                    for i in range(2 if both else 1):
                        # 16 bits, as in libjpeg-turbo.
                        mean = np.int16(np.int64(coefficients[block + 64 * i]) * np.int64(factors[scale]))
                        mean = np.int64(np.int16(np.int64(mean) << 2))
                        value = np.uint8(min(max((mean + 16 >> 5) + 128, 0), 255))
                        fill_square(value, planes, target + 8 * i, stride)
                        coefficients[block + 64 * i] = 0
                block += 128
                target += 16


@kernel(fastmath=False)
def decode_progressive(
    data,
    image_height,
    image_width,
    components,
    top,
    left,
    height,
    width,
    color,
    frame,
    factors,
    codes,
    means,
    symbols,
    longs,
    stream,
    state,
    parts,
    stores,
    masks,
    coefficients,
    planes,
    sums,
    tints,
    out,
):
    """Decodes a window of a file into `out`; returns a status of `jpeg_headers`, or NEEDS_ROOM.

    The image must have the given height, width and number of components.
    """
    clear(frame)
    # A file that was left in the middle has left coefficients behind.
    for i in range(min(stores[USED], coefficients.size)):
        coefficients[i] = 0
    stores[USED] = 0
    if data.size < 4 or data[0] != 0xFF or data[1] != 0xD8:
        return DAMAGED
    status, place = read_segments(data, np.int64(2), frame, factors, codes)
    if status != DONE:
        return status
    if frame[AT_END] or frame[HEIGHT] != image_height or frame[WIDTH] != image_width or frame[COMPONENTS] != components:
        return DAMAGED
    if not frame[PROGRESSIVE]:
        return UNKNOWN_FORM
    pixels.find_parts(frame, color == GRAY, top, left, height, width, parts)
    if pixels.place_planes(frame, parts, False) + 64 > planes.size:
        return DAMAGED
    place_blocks(frame, parts, stores)
    if stores[NEEDED_MASKS] > masks.size or stores[NEEDED_COEFFICIENTS] > coefficients.size:
        return NEEDS_ROOM
    stores[USED] = stores[NEEDED_COEFFICIENTS]
    for i in range(stores[NEEDED_MASKS]):
        masks[i] = U(0)
    while not frame[AT_END]:
        if not prepare_scan(frame, codes, means, symbols, longs):
            return DAMAGED
        c = 0
        while not frame[COMPONENT + RECORD * c + IN_SCAN]:
            c += 1
        columns, rows = extents_of_scan(frame, c)
        interval = frame[RESTART_INTERVAL]
        length, place = entropy.unstuffed(data, place, stream)
        if length < 0:
            return DAMAGED
        state[:] = U(0)
        remaining, restarts = interval, 0
        for row in range(rows):
            first = np.int64(0)
            while first < columns:
                last = columns
                if interval:
                    if remaining == 0:
                        length, place = entropy.unstuffed_after_restart(data, place, stream, length, state, restarts)
                        if length < 0:
                            return DAMAGED
                        restarts += 1
                        remaining = interval
                    last = min(last, first + remaining)
                    remaining -= last - first
                if frame[FIRST_PLACE] == 0:
                    status = decode_means(
                        stream, length, state, frame, stores, coefficients, row, first, last, means, codes, longs
                    )
                elif frame[MISSING_BEFORE] == 0:
                    status = decode_band(
                        stream,
                        length,
                        state,
                        frame,
                        stores,
                        masks,
                        coefficients,
                        c,
                        row,
                        first,
                        last,
                        symbols,
                        codes,
                        longs,
                    )
                else:
                    status = decode_more_bits(
                        stream,
                        length,
                        state,
                        frame,
                        stores,
                        masks,
                        coefficients,
                        c,
                        row,
                        first,
                        last,
                        symbols,
                        codes,
                        longs,
                    )
                if status != DONE:
                    return status
                first = last
        if not 0 <= entropy.left_over(state, length) < 8 or state[EMPTY_BLOCKS] != U(0):
            return DAMAGED
        status, place = read_segments(data, place, frame, factors, codes)
        if status != DONE:
            return status
    if not all_decoded(frame):
        return DAMAGED
    down, emitted = frame[COMPONENT + DOWN], top
    late = 1 if down == 2 and frame[COMPONENTS] == 3 and color != GRAY else 0
    for row in range(-(-frame[HEIGHT] // (8 * down))):
        transform_row(frame, factors, parts, stores, masks, coefficients, row, planes)
        complete = 8 * down * (row + 1)
        complete = top + height if complete >= frame[HEIGHT] else min(top + height, complete - late)
        if complete > emitted:
            pixels.make_rows(planes, parts, frame, color, emitted, complete, top, left, width, sums, tints, out)
            emitted = complete
    stores[USED] = 0
    return DONE


class BandWorkspace(Workspace):
    """Memory of one thread for progressive files."""

    def __init__(self, array: Callable[[int, Any], np.ndarray] = np.zeros) -> None:
        super().__init__(array)
        self.band_tables = [array(size, dtype) for size, dtype in jpeg_bands.TABLES.values()]
        self.stores = array(STORES, np.int64)
        self.masks = array(0, np.uint64)
        self.coefficients = array(0, np.int16)

    def fit_blocks(self) -> None:
        """Makes the room that the kernel has asked for."""
        self.masks = self.enough(self.masks, int(self.stores[NEEDED_MASKS]))
        before = self.coefficients
        self.coefficients = self.enough(before, int(self.stores[NEEDED_COEFFICIENTS]))
        if self.coefficients is not before:
            self.coefficients[:] = 0

    @property
    def size(self) -> int:
        return super().size + self.masks.nbytes + self.coefficients.nbytes


_threads = threading.local()


def decode(
    data: np.ndarray,
    size: tuple[int, int, int],
    color: str,
    window: tuple[int, int, int, int],
    out: np.ndarray,
    space: BandWorkspace | None = None,
) -> bool:
    """Decodes a window (top, left, height, width) of a progressive JPEG file into `out`, contiguous bytes; returns False if it
    cannot. `size` is the image's height, width and number of components, as stored.
    """
    if color not in COLORS:
        return False
    if space is None:
        space = getattr(_threads, "space", None)
        if space is None:
            space = _threads.space = BandWorkspace()
    space.fit(data.size, size[1], 0)
    status = NEEDS_ROOM
    for _ in range(2):
        status = decode_progressive(*arguments(space, plain(data), size, window, COLORS[color], out.reshape(-1)))
        if status != NEEDS_ROOM:
            break
        space.fit_blocks()
    if space.size > KEPT:
        _threads.space = None
    return status == DONE


def arguments(
    space: BandWorkspace,
    data: np.ndarray,
    size: tuple[int, int, int],
    window: tuple[int, int, int, int],
    color: int,
    out: np.ndarray,
) -> tuple[Any, ...]:
    """The arguments of `decode_progressive`."""
    return (
        data,
        *size,
        *window,
        color,
        space.frame,
        space.factors,
        *space.band_tables,
        space.stream,
        space.state,
        space.parts,
        space.stores,
        space.masks,
        space.coefficients,
        space.planes,
        space.sums,
        space.tints,
        out,
    )


def _types() -> tuple[Any, ...]:
    nothing = np.zeros(0, np.uint8)
    return types_of(*arguments(BandWorkspace(), nothing, (1, 1, 1), (0, 0, 1, 1), RGB, nothing))


def kept() -> bool:
    """True if this process or another one has compiled the decoder for this machine."""
    return jit.kept(decode_progressive, _types())


def load() -> None:
    """Reads the compiled decoder from the disk, or compiles it."""
    decode_progressive.compile(_types())
