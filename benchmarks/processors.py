"""How fast are the kernels of JPEG and of resizing on processors with fewer vector instructions, and are the results equal?

Each side is pipeflow, compiled for another processor by NUMBA_CPU_NAME and NUMBA_CPU_FEATURES, on this machine: as it is, AVX2
without AVX-512, and SSE2 alone. simplejpeg (libjpeg-turbo) uses all instructions of the machine. The figures are images per
second of processor time, on one thread. A result that differs between processors is a failure. The pictures are those of
`image_pipeline.py`.

    python benchmarks/processors.py whole windows    # only the cases with these words in their names
"""

from __future__ import annotations

import importlib
import sys
import tempfile
import zlib
from collections.abc import Callable
from pathlib import Path
from time import process_time

import jpeg
import numpy as np
from _harness import Measures, Side, chosen, header, measure, median, save, start, table, with_earlier
from image_pipeline import MEAN, PHOTOGRAPHS, SIDE, STD, make_files
from jpeg import COMPRESSION, PROGRESSIVE, SETTINGS, WHOLE, WINDOW

RESIZED = "resized and normalised"
CASES = [WHOLE, WINDOW, PROGRESSIVE, COMPRESSION, RESIZED]
PROCESSORS = {
    "this processor": {},
    "AVX2": {"NUMBA_CPU_NAME": "haswell", "NUMBA_CPU_FEATURES": ""},
    "SSE2": {"NUMBA_CPU_NAME": "x86-64", "NUMBA_CPU_FEATURES": "+sse2"},
}


def resizing() -> Callable[[np.ndarray], np.ndarray]:
    """A resize of an image to planes of normalised floats."""
    kernels = importlib.import_module("pipeflow.kernels.cpu")
    mean, scale = np.array(MEAN, np.float32), 1 / np.array(STD, np.float32)

    def work(image: np.ndarray) -> np.ndarray:
        axis_taps, kind = kernels.resample.axis_taps, kernels.everyday.TRIANGULAR
        taps = [axis_taps(size, 0.0, float(size), SIDE, kind, True) for size in image.shape[:2]]
        out = np.empty((3, SIDE, SIDE), np.float32)
        return kernels.fused.resample_normalize(image, *taps, mean, scale, 0.0, True, out, True)

    return work


def prepare_pipeflow(case: str):
    files = jpeg.files()
    if case in (COMPRESSION, RESIZED):
        decode, work = jpeg.simplejpeg_decoder(), jpeg.pipeflow_compression() if case == COMPRESSION else resizing()
        images = [np.array(decode(data, None)) for data in files]
        return timed([lambda image=image: work(image) for image in images])
    return prepare_decoding(jpeg.pipeflow_decoder(), case)


def prepare_simplejpeg(case: str):
    return None if case in (COMPRESSION, RESIZED) else prepare_decoding(jpeg.simplejpeg_decoder(), case)


def prepare_decoding(decode: jpeg.Decoder, case: str):
    files = jpeg.files()
    parts = jpeg.windows(files) if case == WINDOW else [None] * len(files)
    given = jpeg.progressive(files) if case == PROGRESSIVE else files
    return timed([lambda pair=pair: decode(*pair) for pair in zip(given, parts)])


def timed(calls: list[Callable[[], np.ndarray]]) -> Callable[[], Measures]:
    """A repetition of calls: images per second of processor time, and a checksum of the results, which is not timed."""

    def repetition() -> Measures:
        begin = process_time()
        for call in calls:
            call()
        seconds, check = process_time() - begin, 0
        for call in calls:
            check = zlib.crc32(np.ascontiguousarray(call()), check)
        return {"busy": len(calls) / seconds, "checksum": float(check)}

    return repetition


SIDES = [
    *[Side(name, prepare_pipeflow, variables=variables) for name, variables in PROCESSORS.items()],
    Side("simplejpeg", prepare_simplejpeg),
]


def main() -> int:
    reading, cases = header(__doc__.partition("\n\n")[0]), chosen(CASES)
    with tempfile.TemporaryDirectory() as folder:
        print(make_files(Path(folder), PHOTOGRAPHS))
        results = measure(__file__, SIDES, cases, {"folder": folder})
    results = with_earlier("processors", reading, results)
    rates = {
        (case, side): median(rows, lambda row: row["busy"])
        for case, by_side in results.items()
        for side, rows in by_side.items()
    }
    table(
        "Images a CPU second",
        ["case", "compiled for", "images", "share of this processor's", "x simplejpeg"],
        [
            (
                case,
                side,
                rate,
                rate / rates[case, "this processor"],
                rate / rates[case, "simplejpeg"] if (case, "simplejpeg") in rates else "-",
            )
            for (case, side), rate in rates.items()
        ],
    )
    save("processors", reading, results)
    wrong = []
    for case, by_side in results.items():
        if len({row["checksum"] for rows in by_side.values() for row in rows}) > 1:
            wrong.append(f"{case}: the results differ")
    for line in wrong:
        print(f"FAILED: {line}")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main() if start(SIDES, SETTINGS) else 0)
