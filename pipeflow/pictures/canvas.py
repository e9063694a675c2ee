"""The sheet on which pictures, lines, marks and text are drawn. Only this module draws with Pillow."""

import io
from functools import cache
from typing import Any

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from pipeflow.pictures.colors import INK, PAPER, Color

TEXT = 13  # height of the usual letters
SMOOTH = 96  # pictures with at least this number of pixels in both directions are enlarged with smoothing


@cache
def _font(size: int) -> Any:
    return ImageFont.load_default(size)


class Canvas:
    """A sheet of pixels; positions count from the top left corner."""

    def __init__(self, width: int, height: int, color: Color = PAPER) -> None:
        self._image = Image.new("RGB", (width, height), color)
        self._draw = ImageDraw.Draw(self._image)

    @classmethod
    def over(cls, pixels: np.ndarray) -> "Canvas":
        """A sheet with a picture on it."""
        sheet = cls(1, 1)
        sheet._image = Image.fromarray(np.ascontiguousarray(pixels))
        sheet._draw = ImageDraw.Draw(sheet._image)
        return sheet

    def put(self, pixels: np.ndarray, x: int, y: int) -> None:
        """Puts a picture of bytes (height, width, 3) at a position."""
        self._image.paste(Image.fromarray(np.ascontiguousarray(pixels)), (x, y))

    def text(self, x: float, y: float, text: str, color: Color = INK, size: int = TEXT) -> None:
        """Writes one line of text; the point is its top left corner."""
        self._draw.text((x, y), readable(text), fill=color, font=_font(size))

    def box(self, left: float, top: float, right: float, bottom: float, color: Color, width: int = 0) -> None:
        """Draws a rectangle: its outline, or filled if the line has no width."""
        if right < left or bottom < top:
            return
        if width:
            self._draw.rectangle((left, top, right, bottom), outline=color, width=width)
        else:
            self._draw.rectangle((left, top, right, bottom), fill=color)

    def line(self, points: "list[tuple[float, float]]", color: Color, width: int = 1) -> None:
        """Draws a line through points."""
        self._draw.line(points, fill=color, width=width)

    def dot(self, x: float, y: float, radius: float, color: Color, edge: Color) -> None:
        """Draws a round mark with an edge."""
        self._draw.ellipse((x - radius, y - radius, x + radius, y + radius), fill=color, outline=edge)

    def pixels(self) -> np.ndarray:
        """The pixels of the sheet, as bytes (height, width, 3)."""
        return np.array(self._image)

    def png(self) -> bytes:
        """The sheet as a PNG file."""
        file = io.BytesIO()
        self._image.save(file, "PNG", optimize=True)
        return file.getvalue()


def width_of(text: str, size: int = TEXT) -> float:
    """The width of a line of text."""
    return _font(size).getlength(readable(text))


def readable(text: str) -> str:
    """The text, with a replacement sign for each character that cannot be drawn on one line."""
    return "".join(letter if letter.isprintable() else " " for letter in text)


def shortened(text: str, room: float, size: int = TEXT, keep_end: bool = False) -> str:
    """The text cut to a width. ``keep_end`` is for names of files: their end is more useful than their beginning."""
    if width_of(text, size) <= room:
        return text
    while text and width_of(f"{text}...", size) > room:
        text = text[1:] if keep_end else text[:-1]
    return f"...{text}" if keep_end else f"{text}..."


def wrapped(text: str, room: float, lines: int, size: int = TEXT) -> list[str]:
    """The text as lines of a width, broken between words if possible."""
    found: list[str] = []
    for paragraph in text.splitlines() or [""]:
        line = ""
        for word in paragraph.split(" "):
            longer = f"{line} {word}" if line else word
            if width_of(longer, size) <= room:
                line = longer
                continue
            if line:
                found.append(line)
            while width_of(word, size) > room and len(word) > 1:
                fits = max(1, next((end for end in range(len(word), 0, -1) if width_of(word[:end], size) <= room), 1))
                found.append(word[:fits])
                word = word[fits:]
                if len(found) > lines:
                    break
            line = word
        found.append(line)
        if len(found) > lines:
            break
    return found if len(found) <= lines else [*found[: lines - 1], shortened(f"{found[lines - 1]} ...", room, size)]


def resized(pixels: np.ndarray, room: tuple[int, int]) -> np.ndarray:
    """The picture, as large as fits. A picture with few pixels is enlarged by a whole factor, so that each pixel is visible."""
    height, width = pixels.shape[:2]
    scale = min(room[0] / width, room[1] / height)
    if scale >= 1 and (min(height, width) < SMOOTH or int(scale) == scale):
        factor = int(scale)
        return pixels.repeat(factor, 0).repeat(factor, 1)
    size = max(1, round(width * scale)), max(1, round(height * scale))
    return np.array(Image.fromarray(np.ascontiguousarray(pixels)).resize(size, Image.Resampling.LANCZOS))


def as_jpeg(png: bytes, quality: int = 82) -> bytes:
    """A finished picture as a JPEG file, which is smaller than PNG if it shows photographs."""
    file = io.BytesIO()
    with Image.open(io.BytesIO(png)) as image:
        image.convert("RGB").save(file, "JPEG", quality=quality)
    return file.getvalue()


def decoded(data: bytes) -> "tuple[np.ndarray, str] | None":
    """The pixels of an encoded image with the name of its format, or None if it cannot be decoded."""
    try:
        with Image.open(io.BytesIO(data)) as image:
            kind = image.format or "image"
            return np.array(image.convert("RGB")), kind
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError):
        return None
