"""One sample as pixels: (height, width, 3) bytes, drawn according to the ``Look`` of its output."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from pipeflow.pictures import sound
from pipeflow.pictures.canvas import Canvas, decoded, resized, shortened, wrapped
from pipeflow.pictures.colors import FAINT, SHADE, WRONG, class_table
from pipeflow.pictures.looks import FILES, Look, moved

FRAMES = 6  # frames of a strip
GAP = 2  # between the frames of a strip
LINE = 16  # height of a line of text


@dataclass(frozen=True)
class Tile:
    """The pixels of a sample before they are fitted to their place; ``size`` is the size of the image, which marks refer to."""

    pixels: np.ndarray
    note: str = ""


def shape_of(look: Look, sample: np.ndarray) -> tuple[int, int]:
    """(width, height) of a sample before it is fitted; the form of the grid is chosen from these."""
    if look.kind == "picture":
        height, width = moved(sample, look.layout, "HW").shape if "C" not in look.layout else _sides(sample, look)
        return width, height
    if look.kind == "strip":
        height, width = _sides(sample, look)
        frames = min(FRAMES, sample.shape[_frame_axis(look)])
        return frames * width, height
    return {"sound": (300, 180), "spectrum": (300, 150), "text": (220, 120), "file": (200, 150)}.get(
        look.kind, (220, 110)
    )


def _sides(sample: np.ndarray, look: Look) -> tuple[int, int]:
    return sample.shape[look.layout.index("H")], sample.shape[look.layout.index("W")]


def _frame_axis(look: Look) -> int:
    return next(axis for axis, letter in enumerate(look.layout) if letter not in "HWC")


def draw(sample: np.ndarray, look: Look, room: tuple[int, int], sample_rate: float | None = None) -> Tile:
    """The sample as pixels that fit into ``room`` = (width, height)."""
    if look.kind == "picture":
        return Tile(fitted(channels(moved(sample, look.layout, "HWC")), look, room))
    if look.kind == "strip":
        return _strip(sample, look, room)
    if look.kind == "sound":
        return Tile(sound.wave_and_spectrogram(moved(sample, look.layout, "ct"), room, sample_rate))
    if look.kind == "spectrum":
        return Tile(sound.spectrum(moved(sample, look.layout, "ft"), look, room))
    if look.kind == "text":
        return Tile(_lines(text_of(sample), room))
    if look.kind == "file":
        return _file(sample, room)
    return Tile(_lines(numbers(sample), room))


def channels(image: np.ndarray) -> np.ndarray:
    """The image that is drawn. If it has two channels, or more than four, up to four of them are put side by side."""
    count = image.shape[-1]
    if count in (1, 3, 4):
        return image
    return np.concatenate([image[..., channel : channel + 1] for channel in range(min(count, 4))], 1)


def fitted(image: np.ndarray, look: Look, room: tuple[int, int]) -> np.ndarray:
    """An image (HWC) as pixels in its place. For a very large image only some rows and columns are used."""
    step = max(1, min(image.shape[0] // (2 * room[1]), image.shape[1] // (2 * room[0])))
    pixels = colored(image[::step, ::step], look)
    if not look.classes:
        return resized(pixels, room)
    scale = min(room[0] / pixels.shape[1], room[1] / pixels.shape[0])
    if scale >= 1:
        return resized(pixels, room)
    rows = (np.arange(max(1, round(pixels.shape[0] * scale))) / scale).astype(int).clip(max=pixels.shape[0] - 1)
    columns = (np.arange(max(1, round(pixels.shape[1] * scale))) / scale).astype(int).clip(max=pixels.shape[1] - 1)
    return pixels[rows][:, columns]  # no smoothing: colours of classes must not mix


def colored(image: np.ndarray, look: Look) -> np.ndarray:
    """An image (HWC) of any type as bytes in three channels."""
    if look.classes:
        table = class_table(int(look.high) + 1)
        return table[image[..., 0].astype(np.int64).clip(0, len(table) - 1)]
    if image.dtype == np.uint8 and (look.low, look.high) == (0, 255):
        pixels = image
    else:
        values = image.astype(np.float64)
        wrong = ~np.isfinite(values)
        values = (values - look.low) * (255 / max(look.high - look.low, 1e-300))
        pixels = np.where(wrong, 0, values).clip(0, 255).round().astype(np.uint8)
        if wrong.any():
            pixels = pixels[..., :3].repeat(3, -1) if pixels.shape[-1] == 1 else pixels[..., :3].copy()
            pixels[wrong.any(-1)] = WRONG
    if pixels.shape[-1] == 1:
        return pixels.repeat(3, -1)
    return over_squares(pixels) if pixels.shape[-1] == 4 else pixels


def over_squares(pixels: np.ndarray) -> np.ndarray:
    """An image with an alpha channel, over the usual grey squares."""
    rows, columns = np.mgrid[: pixels.shape[0], : pixels.shape[1]]
    ground = np.where((rows // 8 + columns // 8) % 2, 200, 240)[..., None]
    alpha = pixels[..., 3:].astype(np.int64)
    return ((pixels[..., :3] * alpha + ground * (255 - alpha)) // 255).astype(np.uint8)


def _strip(sample: np.ndarray, look: Look, room: tuple[int, int]) -> Tile:
    axis = _frame_axis(look)
    count = sample.shape[axis]
    chosen = np.unique(np.linspace(0, count - 1, min(FRAMES, count)).round().astype(int))
    place = ((room[0] - GAP * (len(chosen) - 1)) // len(chosen), room[1])
    rest = look.layout.replace(look.layout[axis], "")
    frames = [
        fitted(channels(moved(sample.take(frame, axis), rest, "HWC")), look, (max(place[0], 1), place[1]))
        for frame in chosen
    ]
    sheet = Canvas(
        sum(frame.shape[1] for frame in frames) + GAP * (len(frames) - 1), max(frame.shape[0] for frame in frames)
    )
    x = 0
    for frame in frames:
        sheet.put(frame, x, 0)
        x += frame.shape[1] + GAP
    what = "slices" if look.layout[axis] == "D" else "frames"
    note = f"{count} {what}" + (f": {', '.join(map(str, chosen))}" if len(chosen) < count else "")
    return Tile(sheet.pixels(), note)


def _file(sample: np.ndarray, room: tuple[int, int]) -> Tile:
    data = sample.tobytes()
    size = f"{len(data) / 1000:.1f} kB"
    image = decoded(data)
    if image is not None:
        pixels, kind = image
        return Tile(resized(pixels, room), f"{kind} file, {size}")
    kind = next(name for magic, name in FILES.items() if data.startswith(magic))
    return Tile(_lines(f"{kind} file\n{size}", room))


def text_of(sample: np.ndarray) -> str:
    """Text of a sample: an object, letters, or bytes of UTF-8."""
    if sample.dtype == np.uint8:
        return sample.tobytes().decode("utf-8", "replace")
    values = [
        value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
        for value in sample.ravel().tolist()
    ]
    return ", ".join(values)


def numbers(sample: np.ndarray) -> str:
    """A small array as its numbers, a large one as its shape and extremes."""
    if sample.ndim == 0:
        return number(sample)
    if sample.size <= 40:
        return np.array2string(sample, precision=3, suppress_small=True, max_line_width=60)
    shape = " x ".join(map(str, sample.shape))
    head = ", ".join(number(value) for value in sample.ravel()[:6])
    return f"{sample.dtype}\n{shape}\n{head}, ..."


def number(value: Any) -> str:
    """One number or word as short text."""
    value = np.asarray(value)
    if value.dtype.kind in "OSU":
        return text_of(value)
    if value.dtype.kind == "f":
        return f"{value.item():.4g}"
    return str(value.item())


def _lines(text: str, room: tuple[int, int]) -> np.ndarray:
    """Lines of text on a light background."""
    width = room[0]
    fit = max(1, (room[1] - 12) // LINE)
    lines = wrapped(text, width - 16, fit)
    sheet = Canvas(width, 12 + LINE * len(lines), SHADE)
    for row, line in enumerate(lines):
        sheet.text(8, 5 + LINE * row, shortened(line, width - 16), FAINT if not line.strip() else (40, 44, 52))
    return sheet.pixels()
