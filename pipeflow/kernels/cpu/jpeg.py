"""A compiled decoder for JPEG: sequential Huffman-coded files of 8 bits, whole or only a window.

`decode` returns False for every other kind of JPEG, and for all files that libjpeg-turbo would refuse or warn about.
The caller then uses libjpeg-turbo, which decides whether a file is damaged. The result is equal to libjpeg-turbo's, bit
by bit (accurate integer transform, smooth upsampling).

A file is read at most twice: `jpeg_headers` reads its segments, `jpeg_entropy` decodes the blocks of one row of units after the
other into planes that keep two such rows, and `jpeg_pixels` makes pixels of the complete rows. For a window, only the blocks
that it needs are transformed.
"""

import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from pipeflow.kernels.cpu import jit
from pipeflow.kernels.cpu import jpeg_entropy as entropy
from pipeflow.kernels.cpu import jpeg_pixels as pixels
from pipeflow.kernels.cpu.jit import kernel, plain, types_of
from pipeflow.kernels.cpu.jpeg_entropy import FIELDS, U
from pipeflow.kernels.cpu.jpeg_headers import (
    AC_CODE,
    ACROSS,
    AT_END,
    CODE,
    COMPONENT,
    COMPONENTS,
    DAMAGED,
    DC_CODE,
    DONE,
    DOWN,
    FACTORS,
    FRAME,
    HEIGHT,
    IN_SCAN,
    NEEDS_WHOLE_PLANES,
    PROGRESSIVE,
    RECORD,
    RESTART_INTERVAL,
    SCAN_COMPONENTS,
    UNKNOWN_FORM,
    WIDTH,
    all_decoded,
    clear,
    extents_of_scan,
    read_segments,
    read_size,
)
from pipeflow.kernels.cpu.jpeg_pixels import BGR, GRAY, PART, RGB
from pipeflow.kernels.cpu.kernel_calls import own_kernels
from pipeflow.kernels.cpu.moving import turn_image
from pipeflow.kernels.cpu.random_windows import crop_window, random_window

BLOCKS = 10  # the most blocks of a unit; the supported ways of sampling have up to six


@kernel(fastmath=False)
def prepare_codes(frame, codes, built, dc_lookup, ac_lookup, single, longs):
    """Makes the look-ups of the scan's codes, unless the previous file had the same codes."""
    for c in range(frame[COMPONENTS]):
        record = COMPONENT + RECORD * c
        if not frame[record + IN_SCAN]:
            continue
        for table in (frame[record + DC_CODE], frame[record + AC_CODE]):
            same = True
            for i in range(table * CODE, (table + 1) * CODE):
                same = same and codes[i] == built[i]
            if same:
                continue
            built[table * CODE : (table + 1) * CODE] = 0  # until the look-up is complete
            if not entropy.build_code(codes, table, longs):
                return DAMAGED
            if table < 4:
                entropy.build_dc(codes, table, dc_lookup)
            else:
                entropy.build_ac(codes, table, single, ac_lookup)
            for i in range(table * CODE, (table + 1) * CODE):
                built[i] = codes[i]
    return DONE


@kernel(fastmath=False)
def list_blocks(frame, parts, blocks):
    """Describes the blocks of a unit of the scan; returns their number."""
    count = 0
    together = frame[SCAN_COMPONENTS] > 1
    for c in range(frame[COMPONENTS]):
        record, part = COMPONENT + RECORD * c, PART * c
        if not frame[record + IN_SCAN]:
            continue
        across, down = (frame[record + ACROSS], frame[record + DOWN]) if together else (1, 1)
        for _ in range(down):
            for i in range(across):
                at = count * FIELDS
                blocks[at + entropy.COMPONENT_OF], blocks[at + entropy.STEP], blocks[at + entropy.OFFSET] = c, across, i
                blocks[at + entropy.STRIDE] = parts[part + pixels.STRIDE]
                blocks[at + entropy.FACTORS_AT] = 64 * frame[record + FACTORS]
                blocks[at + entropy.DC_AT], blocks[at + entropy.AC_AT] = (
                    frame[record + DC_CODE],
                    frame[record + AC_CODE],
                )
                count += 1
    return count


@kernel(fastmath=False)
def aim_blocks(frame, parts, blocks, count, row):
    """Points the blocks of a row of units at their places in the planes; outside the window they have no columns."""
    before, line = -1, 0
    together = frame[SCAN_COMPONENTS] > 1
    for b in range(count):
        at = b * FIELDS
        c = blocks[at + entropy.COMPONENT_OF]
        part = PART * c
        line = 0 if c != before else line + (1 if blocks[at + entropy.OFFSET] == 0 else 0)
        before = c
        down = frame[COMPONENT + RECORD * c + DOWN] if together else 1
        y = 8 * (row * down + line)
        first = parts[part + pixels.LEFT] // 8
        blocks[at + entropy.FIRST], blocks[at + entropy.LAST_COLUMN] = first, first
        if y + 8 > parts[part + pixels.TOP] and y < parts[part + pixels.BOTTOM]:
            blocks[at + entropy.LAST_COLUMN] = -(-parts[part + pixels.RIGHT] // 8)
        blocks[at + entropy.TARGET] = (
            parts[part + pixels.START] + (y & parts[part + pixels.MASK]) * parts[part + pixels.STRIDE] + 8 * first
        )


@kernel(fastmath=False)
def decode_image(
    data,
    image_height,
    image_width,
    components,
    top,
    left,
    height,
    width,
    color,
    checked,
    frame,
    factors,
    codes,
    built,
    dc_lookup,
    ac_lookup,
    single,
    longs,
    stream,
    state,
    blocks,
    parts,
    queue,
    aims,
    planes,
    sums,
    tints,
    out,
):
    """Decodes a window of a file into `out`; returns a status of `jpeg_headers`.

    The image must have the given height, width and number of components. The scan is decoded at least down to the row `checked`,
    so that damage above it is noticed. A file with several scans or with restart markers is decoded to its end.
    """
    clear(frame)
    place, whole, emitted = 0, False, top
    if data.size < 4 or data[0] != 0xFF or data[1] != 0xD8:
        return DAMAGED
    queue[:] = 0
    status, place = read_segments(data, np.int64(2), frame, factors, codes)
    if status != DONE:
        return status
    if frame[AT_END] or frame[HEIGHT] != image_height or frame[WIDTH] != image_width or frame[COMPONENTS] != components:
        return DAMAGED
    if frame[PROGRESSIVE]:
        return UNKNOWN_FORM
    pixels.find_parts(frame, color == GRAY, top, left, height, width, parts)
    whole = frame[SCAN_COMPONENTS] < frame[COMPONENTS]
    if pixels.place_planes(frame, parts, whole) + 64 > planes.size:
        return NEEDS_WHOLE_PLANES
    down = frame[COMPONENT + DOWN]
    late = 1 if down == 2 and frame[COMPONENTS] == 3 and color != GRAY else 0
    while not frame[AT_END]:
        status = prepare_codes(frame, codes, built, dc_lookup, ac_lookup, single, longs)
        if status != DONE:
            return status
        count = list_blocks(frame, parts, blocks)
        columns, rows = extents_of_scan(frame, blocks[entropy.COMPONENT_OF])
        unit = 8 * down if frame[SCAN_COMPONENTS] == frame[COMPONENTS] else 8
        interval = frame[RESTART_INTERVAL]
        part = not whole and interval == 0 and -(-checked // unit) < rows
        if part:
            rows = -(-checked // unit)
        length, place = entropy.unstuffed(data, place, stream)
        if length < 0:
            return DAMAGED
        state[:] = U(0)
        remaining, restarts = interval, 0
        for row in range(rows):
            aim_blocks(frame, parts, blocks, count, row)
            first = np.int64(0)
            while first < columns:
                last = min(columns, first + entropy.UNITS)
                if interval:
                    if remaining == 0:
                        length, place = entropy.unstuffed_after_restart(data, place, stream, length, state, restarts)
                        if length < 0:
                            return DAMAGED
                        restarts += 1
                        remaining = interval
                    last = min(last, first + remaining)
                    remaining -= last - first
                status = entropy.decode_run(
                    stream,
                    length,
                    state,
                    blocks,
                    count,
                    first,
                    last,
                    dc_lookup,
                    ac_lookup,
                    codes,
                    longs,
                    factors,
                    queue,
                    aims,
                    planes,
                )
                if status != DONE:
                    return status
                first = last
            if not whole:
                complete = (row + 1) * unit
                complete = top + height if complete >= frame[HEIGHT] else min(top + height, complete - late)
                if complete > emitted:
                    pixels.make_rows(planes, parts, frame, color, emitted, complete, top, left, width, sums, tints, out)
                    emitted = complete
        bits = entropy.left_over(state, length)
        if bits < 0 or (bits >= 8 and not part):
            return DAMAGED
        status, place = read_segments(data, place, frame, factors, codes)
        if status != DONE:
            return status
    if not all_decoded(frame):
        return DAMAGED
    if whole:
        pixels.make_rows(planes, parts, frame, color, top, top + height, top, left, width, sums, tints, out)
        emitted = top + height
    return DONE if emitted == top + height else DAMAGED


def room(size: Any, width: Any) -> tuple[Any, Any, Any, Any]:
    """The elements of `stream`, `planes`, `sums` and `tints` for a file of `size` bytes and an image of `width` columns; either
    may be a Number.
    """
    columns = (width + 31) // 32 * 32 + 64
    return size + entropy.PADDING, columns * 64 + 64, columns * 2, columns * 4


class Workspace:
    """Memory of one thread that lasts from image to image; its look-ups are used again for files with the same codes."""

    def __init__(self, array: Callable[[int, Any], np.ndarray] = np.zeros) -> None:
        self.array = array
        self.frame = array(FRAME, np.int64)
        self.factors = array(4 * 64, np.int16)
        self.tables = [array(size, dtype) for size, dtype in entropy.TABLES.values()]
        self.state = array(entropy.STATE, np.uint64)
        self.blocks = array(BLOCKS * FIELDS, np.int64)
        self.parts = array(3 * PART, np.int64)
        self.queue = array(entropy.QUEUE, np.int16)
        self.aims = array(entropy.AIMS, np.int64)
        self.stream = self.planes = self.tints = array(0, np.uint8)
        self.sums = array(0, np.int16)

    def fit(self, size: int, width: int, whole_rows: int) -> None:
        """Makes room for a file of `size` bytes and for samples of `width` columns, or for whole planes of `whole_rows` rows."""
        stream, planes, sums, tints = room(size, width)
        self.stream = self.enough(self.stream, stream)
        self.planes = self.enough(self.planes, max(planes, 3 * whole_rows * (planes // 64)))
        self.sums = self.enough(self.sums, sums)
        self.tints = self.enough(self.tints, tints)

    def enough(self, array: np.ndarray, size: int) -> np.ndarray:
        return array if array.size >= size else self.array(size, array.dtype)

    @property
    def size(self) -> int:
        return self.stream.nbytes + self.planes.nbytes


_threads = threading.local()
# The arrays of a workspace that a program of kernel calls passes, for the calling thread, in the order of `arguments`. The other
# arrays grow with the image, and have the types GROWING in the order of `room`.
_PARTS = ("frame", "factors", *range(len(entropy.TABLES)), "state", "blocks", "parts", "queue", "aims")
GROWING = tuple(np.dtype(kind) for kind in (np.uint8, np.uint8, np.int16, np.uint8))


def _finder(part: str | int) -> Callable[[], np.ndarray]:
    if isinstance(part, int):
        return lambda: thread_workspace().tables[part]
    return lambda: getattr(thread_workspace(), part)


FIXED = tuple(map(_finder, _PARTS))
COLORS = {"RGB": RGB, "BGR": BGR, "GRAY": GRAY}
KEPT = 1 << 25  # bytes of a thread's memory that stay for the next image


def thread_workspace() -> Workspace:
    """The memory of the calling thread."""
    space = getattr(_threads, "space", None)
    if space is None:
        space = _threads.space = Workspace()
    return space


def decode(
    data: np.ndarray,
    size: tuple[int, int, int],
    color: str,
    window: tuple[int, int, int, int],
    checked: int,
    out: np.ndarray,
    space: Workspace | None = None,
) -> bool:
    """Decodes a window (top, left, height, width) of a JPEG file into `out`, contiguous bytes; returns False if it cannot.

    `size` is the image's height, width and number of components, as stored. Damage is noticed down to the row `checked`.
    """
    if color not in COLORS:
        return False
    space = space or thread_workspace()
    checked = max(checked, window[0] + window[2] + 1)
    whole_rows = 0
    while True:
        space.fit(data.size, size[1], whole_rows)
        status = decode_image(*arguments(space, plain(data), size, window, COLORS[color], checked, out.reshape(-1)))
        if status != NEEDS_WHOLE_PLANES or whole_rows:
            break
        whole_rows = -(-size[0] // 16) * 16
    if space.size > KEPT:
        _threads.space = None
    return status == DONE


def arguments(
    space: Workspace,
    data: np.ndarray,
    size: tuple[int, int, int],
    window: tuple[int, int, int, int],
    color: int,
    checked: int,
    out: np.ndarray,
) -> tuple[Any, ...]:
    """The arguments of `decode_image`."""
    return (
        data,
        *size,
        *window,
        color,
        checked,
        space.frame,
        space.factors,
        *space.tables,
        space.stream,
        space.state,
        space.blocks,
        space.parts,
        space.queue,
        space.aims,
        space.planes,
        space.sums,
        space.tints,
        out,
    )


def _types() -> tuple[Any, ...]:
    nothing = np.zeros(0, np.uint8)
    return types_of(*arguments(Workspace(), nothing, (1, 1, 1), (0, 0, 1, 1), RGB, 1, nothing))


def _kernels() -> list[tuple[Any, tuple[Any, ...]]]:
    """The decoder and the other kernels of programs that decode, each with the types of its arguments."""
    image = np.zeros((1, 1, 3), np.uint8)
    return [
        (decode_image, _types()),
        (read_size, types_of(np.zeros(0, np.uint8))),
        (turn_image, types_of(image, 1, 1, 1, image)),
        (random_window, types_of(*[1] * 3, *[1.0] * 6, 1)),
        (crop_window, types_of(*[1] * 4, 0.5, 0.5, True)),
        *own_kernels(),
    ]


def kept() -> bool:
    """True if this process or another one has compiled the decoder for this machine."""
    return all(jit.kept(*one) for one in _kernels())


def load() -> None:
    """Reads the compiled decoder from the disk, or compiles it."""
    for compiled, signature in _kernels():
        compiled.compile(signature)
