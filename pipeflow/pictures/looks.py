"""How an output is shown (pictures, strips, sound, spectrograms, text, files or numbers), and its range of brightness.

If there is a layout, it decides; if not, the number of axes, their extents and the type decide.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

Kind = Literal["picture", "strip", "sound", "spectrum", "text", "file", "numbers"]

CHANNELS = (1, 3, 4)
SMALLEST = 8  # an array without a layout is a picture if both sides have at least this length
SOUND = 400  # a row of floats without a layout is sound if it has at least this length
CLASSES = 32  # whole numbers below this are numbers of classes rather than grey values
FILES = {
    b"\xff\xd8\xff": "JPEG", b"\x89PNG": "PNG", b"BM": "BMP", b"GIF8": "GIF", b"II*\0": "TIFF", b"MM\0*": "TIFF", b"RIFF": "RIFF",
    b"fLaC": "FLAC", b"OggS": "Ogg", b"ID3": "MP3", b"\0\0\0\x0cjP": "JPEG 2000", b"\x93NUMPY": "NumPy",
}  # fmt: skip


@dataclass(frozen=True)
class Look:
    """How the samples of one output are drawn, and the words that describe it."""

    kind: Kind
    layout: str = ""  # given, or found from the values
    low: float = 0.0  # drawn black
    high: float = 255.0  # drawn white
    classes: bool = False  # the values are class numbers, and each class has a colour
    words: str = ""  # description of the values


def look_at(samples: Sequence[np.ndarray], layout: str) -> Look:
    """The Look of these samples, which are all of one output."""
    if not samples:
        return Look("numbers")
    kind, layout = _kind(samples[0], layout)
    if kind in ("picture", "strip"):
        return _with_range(kind, layout, samples)
    if kind in ("sound", "spectrum", "numbers") and samples[0].dtype.kind in "fiub":
        low, high, _ = extremes(samples)
        return Look(kind, layout, low, high, words=f"values {span(low, high, samples[0].dtype)}")
    return Look(kind, layout)


def _kind(sample: np.ndarray, layout: str) -> tuple[Kind, str]:
    if sample.dtype.kind in "OSU":
        return "text", ""
    if sample.ndim == 1 and sample.dtype == np.uint8 and not layout:
        start = sample[:16].tobytes()
        if any(start.startswith(magic) for magic in FILES):
            return "file", ""
        if sample.size > 1 and _is_text(sample):
            return "text", ""
    if "f" in layout and "t" in layout and sample.ndim == 2:
        return "spectrum", layout
    if (layout in ("t", "tc", "ct")) or (
        not layout and sample.dtype.kind == "f" and sample.ndim in (1, 2) and _long(sample)
    ):
        return "sound", layout or ("t" if sample.ndim == 1 else "tc")
    found = layout if {"H", "W"} <= set(layout) else "" if layout else image_layout(sample)
    if not found or 0 in sample.shape or sample.dtype.kind not in "biuf":
        return "numbers", layout
    extra = set(found) - set("HWC")
    if not extra and len(found) <= 3:
        return "picture", found
    return ("strip", found) if len(extra) == 1 and len(found) <= 4 else ("numbers", layout)


def _long(sample: np.ndarray) -> bool:
    return sample.shape[0] >= SOUND and (sample.ndim == 1 or sample.shape[1] <= 2)


def _is_text(sample: np.ndarray) -> bool:
    part = sample[:400]
    return bool(np.mean((part >= 32) & (part < 127) | (part == 10) | (part == 9)) > 0.98)


def image_layout(sample: np.ndarray) -> str:
    """The layout of a picture, a sequence or a volume that has no layout; "" for other arrays."""
    shape = sample.shape
    if sample.ndim == 2:
        return "HW" if min(shape) >= SMALLEST else ""
    if sample.ndim == 3:
        if shape[-1] in CHANNELS and min(shape[:2]) >= SMALLEST:
            return "HWC"
        if shape[0] in CHANNELS and min(shape[1:]) >= SMALLEST:
            return "CHW"
        return "DHW" if min(shape[1:]) >= SMALLEST else ""
    if sample.ndim == 4:
        if shape[-1] in CHANNELS and min(shape[1:3]) >= SMALLEST:
            return "FHWC"
        if shape[1] in CHANNELS and min(shape[2:]) >= SMALLEST:
            return "FCHW"
        if shape[0] in CHANNELS and min(shape[2:]) >= SMALLEST:
            return "CDHW"
    return ""


def extremes(samples: Sequence[np.ndarray]) -> tuple[float, float, int]:
    """The smallest and the largest finite value, and the number of values that are not finite."""
    low, high, wrong = np.inf, -np.inf, 0
    for sample in samples:
        if not sample.size or sample.dtype.kind not in "biuf":
            continue
        values = sample
        if sample.dtype.kind == "f":
            finite = np.isfinite(sample)
            if not finite.all():
                wrong += int(sample.size - np.count_nonzero(finite))
                values = sample[finite]
        if values.size:
            low, high = min(low, float(values.min())), max(high, float(values.max()))
    return (low, high, wrong) if low <= high else (0.0, 0.0, wrong)


def span(low: float, high: float, dtype: np.dtype) -> str:
    """``0 ... 255``, with as many digits as are useful for the type."""
    if dtype.kind in "biu":
        return f"{low:.0f} ... {high:.0f}"
    return f"{low:.3g} ... {high:.3g}"


def _with_range(kind: Kind, layout: str, samples: Sequence[np.ndarray]) -> Look:
    """The values for black and white: limits of the type or of a usual range, else the smallest and largest value."""
    dtype = samples[0].dtype
    low, high, wrong = extremes(samples)
    words = f"values {span(low, high, dtype)}"
    if wrong:
        words += f", {wrong} not finite (pink)"
    single = "C" not in layout or all(sample.shape[layout.index("C")] == 1 for sample in samples)

    def look(black: float, white: float, how: str, classes: bool = False) -> Look:
        return Look(kind, layout, black, white, classes, f"{words}, shown {how}")

    if dtype.kind == "b":
        return Look(kind, layout, 0.0, 1.0, words="true is white")
    if dtype.kind in "iu" and single and low >= 0 and high < CLASSES:
        return look(0.0, high, "in a colour each", classes=True)
    if dtype == np.uint8:
        return look(0.0, 255.0, "as they are")
    if dtype.kind == "f" and low >= 0 and high <= 1.001:
        return look(0.0, 1.0, "as 0 ... 1")
    if low >= 0 and 64 < high <= 255.5 and not (dtype.kind == "f" and single):
        return look(0.0, 255.0, "as 0 ... 255")
    if dtype.kind == "f" and -1.001 <= low < -0.5 and 0.5 < high <= 1.001:
        return look(-1.0, 1.0, "as -1 ... 1")
    if low == high:
        return look(low - 1, high + 1, "grey: all are the same")
    return look(low, high, "stretched")


def moved(sample: np.ndarray, layout: str, wanted: str) -> np.ndarray:
    """The axes of a sample in another order; an axis that is missing is added with extent 1."""
    present = [letter for letter in wanted if letter in layout]
    array = sample.transpose([layout.index(letter) for letter in present])
    return array[tuple(slice(None) if letter in layout else None for letter in wanted)]


def is_scalar(sample: Any) -> bool:
    """True for a single number or word, which is written below a picture."""
    return sample.size == 1 and sample.ndim <= 1
