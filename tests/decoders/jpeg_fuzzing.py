"""Damaged JPEG files through both builds of the kernels and through libjpeg-turbo, in memory with guards around it.

A program, because memory that is touched wrongly ends the process: python -m decoders.jpeg_fuzzing FIRST LAST.
"""

import ctypes
import json
import mmap
import sys

import numpy as np
import simplejpeg
from decoders import checked_jpeg
from decoders.jpeg_files import SAMPLINGS, encoded, photograph, random_coefficients, write
from decoders.pictures import RGB, exif, pillow
from decoders.progressive_files import write_progressive
from decoders.test_fuzz import mutant

from pipeflow.kernels.cpu import image_headers, jpeg, jpeg_progressive

CANARY = 0xA5
PAGE = mmap.PAGESIZE
LARGEST = 1 << 16  # pixels
_libc = ctypes.CDLL(None, use_errno=True)


class Guarded:
    """Memory between two pages that nobody may touch; what an array leaves free of it holds canaries."""

    def __init__(self, size, at_end):
        pages = -(-max(size, 1) // PAGE) + 2
        self.map = mmap.mmap(-1, pages * PAGE)
        self.bytes = np.frombuffer(self.map, np.uint8)
        start = self.bytes.ctypes.data
        for page in (0, pages - 1):
            if _libc.mprotect(ctypes.c_void_p(start + page * PAGE), PAGE, 0):
                raise OSError(ctypes.get_errno(), "mprotect")
        self.inner = self.bytes[PAGE:-PAGE]
        self.at_end = at_end

    def array(self, size, dtype):
        """An array that touches one of the two pages."""
        self.inner[:] = CANARY
        length = size * np.dtype(dtype).itemsize
        first = len(self.inner) - length if self.at_end else 0
        self.rest = self.inner[:first] if self.at_end else self.inner[length:]
        return self.inner[first : first + length].view(dtype)

    def untouched(self):
        return bool((self.rest == CANARY).all())


class GuardedWorkspace(jpeg_progressive.BandWorkspace):
    """A workspace whose every array touches a guard page and is no longer than it has to be."""

    def __init__(self, at_end):
        self.guards, self.at_end = [], at_end
        super().__init__(self.new)

    def new(self, size, dtype):
        self.guards.append(Guarded(size * np.dtype(dtype).itemsize, self.at_end))
        array = self.guards[-1].array(size, dtype)
        array[:] = 0
        return array

    def enough(self, array, size):
        """Exactly as much as is asked for, in the same place."""
        for guard in self.guards:
            inside = 0 <= array.ctypes.data - guard.inner.ctypes.data < len(guard.inner)
            if array.size and inside and size * array.itemsize <= len(guard.inner):
                return guard.array(size, array.dtype)
        return self.new(size, array.dtype)

    def untouched(self):
        return all(guard.untouched() for guard in self.guards)


def corpus():
    """64 different files of all kinds, 25 of them progressive."""
    rng = np.random.default_rng(2)
    files = [
        encoded(photograph(24 + 7 * i, 61 - 6 * i, i), sampling, quality, restart)
        for i, sampling in enumerate(SAMPLINGS)
        for quality, restart in ((90, 0), (60, 2))
    ]
    for i, sampling in enumerate(list(SAMPLINGS) * 4):
        scans = [None, [[0], [1], [2]], [[0], [1, 2]], None][i % 4] if sampling != "gray" else None
        height, width = (int(x) for x in rng.integers(8, 70, 2))
        coefficients = random_coefficients(height, width, sampling, rng, (30, 300)[i % 2])
        options = {
            "scans": scans,
            "restart": (0, 3)[i // 12],
            "extended": i % 5 == 0,
            "wide": i % 7 == 0,
            "fill": i % 3,
        }
        files.append(write(height, width, sampling, coefficients, rng.integers(1, 60, (2, 64)), rng, **options))
    files.append(pillow(RGB, "JPEG", quality=92, progressive=True))
    files.append(pillow(RGB, "JPEG", quality=30, optimize=True, exif=exif(6)))
    files.append(pillow(RGB, "JPEG", quality=92, icc_profile=b"profile" * 20))
    files.append(pillow(RGB, "JPEG", "CMYK", quality=92))
    for i, sampling in enumerate([*SAMPLINGS, *SAMPLINGS]):
        picture = photograph(20 + 7 * i, 70 - 5 * i, i)
        files.append(encoded(picture, sampling, (95, 50)[i % 2], (0, 2)[i // 6], progressive=True))
        height, width = (int(x) for x in rng.integers(8, 50, 2))
        coefficients = random_coefficients(height, width, sampling, rng, (3, 300)[i % 2], (0.1, 1.5)[i // 6])
        factors = rng.integers(1, 60, (2, 64))
        files.append(write_progressive(height, width, sampling, coefficients, factors, rng, restart=(0, 3)[i % 2]))
    return files


def window_of(rng, height, width):
    if rng.random() < 0.5:
        return 0, 0, height, width
    top, left = int(rng.integers(height)), int(rng.integers(width))
    return top, left, int(rng.integers(1, height - top + 1)), int(rng.integers(1, width - left + 1))


def stock(data, color):
    try:
        return simplejpeg.decode_jpeg(data, color)
    except ValueError:
        return None


def run(first, last):
    """Breaks files by the seeds from `first` to `last`; what came of them, and what was wrong."""
    files = corpus()
    builds = {"compiled": (jpeg, jpeg_progressive), "checked": checked_jpeg.build(jpeg, jpeg_progressive)}
    spaces = {name: [GuardedWorkspace(False), GuardedWorkspace(True)] for name in builds}
    counts = {"files": len(files), "decoded": 0, "left": 0, "headers": 0, "stock": 0, "progressive": 0}
    wrong = []
    for seed in range(first, last):
        rng = np.random.default_rng(seed)
        data = mutant(files[seed % len(files)], rng)
        try:
            header = image_headers.read(data)
        except ValueError:
            counts["headers"] += 1
            continue
        size = header.height, header.width, header.channels
        if header.format != "JPEG" or size[0] * size[1] > LARGEST:
            counts["headers"] += 1
            continue
        color = ("RGB", "GRAY", "BGR")[seed % 3]
        window, channels, at_end = window_of(rng, *size[:2]), 1 if color == "GRAY" else 3, seed // 7 % 2
        results = {}
        for name, (sequential, progressive) in builds.items():
            space = spaces[name][at_end]
            source, target = Guarded(len(data), at_end), Guarded(window[2] * window[3] * channels, at_end)
            given = source.array(len(data), np.uint8)
            given[:] = np.frombuffer(data, np.uint8)
            out = target.array(window[2] * window[3] * channels, np.uint8)
            try:
                if header.progressive:
                    done = progressive.decode(given, size, color, window, out, space)
                else:
                    done = sequential.decode(given, size, color, window, size[0], out, space)
            except IndexError as error:
                wrong.append(f"seed {seed}: {error} in the {name} build")
                continue
            if not (space.untouched() and source.untouched() and target.untouched()) or given.tobytes() != data:
                wrong.append(f"seed {seed}: the {name} build wrote where it must not")
            results[name] = out.reshape(window[2], window[3], channels).copy() if done else None
        if len(results) < len(builds):
            continue
        ours, checked = results["compiled"], results["checked"]
        if (ours is None) != (checked is None) or (ours is not None and not np.array_equal(ours, checked)):
            wrong.append(f"seed {seed}: the two builds differ")
        expected = stock(data, color)
        counts["stock"] += expected is not None
        counts["left" if ours is None else "decoded"] += 1
        if ours is not None:
            counts["progressive"] += header.progressive
            top, left, rows, columns = window
            if expected is None:
                wrong.append(f"seed {seed}: decoded, but libjpeg-turbo complains")
            elif not np.array_equal(ours, expected.reshape(*size[:2], -1)[top : top + rows, left : left + columns]):
                wrong.append(f"seed {seed}: other pixels than from libjpeg-turbo")
    return {**counts, "wrong": wrong}


if __name__ == "__main__":
    print(json.dumps(run(int(sys.argv[1]), int(sys.argv[2]))))  # noqa: T201
