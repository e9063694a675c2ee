"""A finished picture: the bytes of a PNG file that a notebook shows and that can be saved."""

import os
import struct
from pathlib import Path


class Picture:
    """A PNG picture. A notebook shows it; ``save(path)`` writes it; ``png`` has its bytes."""

    __slots__ = ("png",)

    def __init__(self, png: bytes) -> None:
        self.png = png

    @property
    def size(self) -> tuple[int, int]:
        """The width and the height in pixels."""
        width, height = struct.unpack(">II", self.png[16:24])
        return width, height

    def save(self, path: "str | os.PathLike[str]") -> Path:
        """Writes the picture to a file, and returns its path; the name must end with ``.png``."""
        target = Path(path)
        if target.suffix.lower() != ".png":
            raise ValueError(
                f"a picture is saved as PNG, so the name of its file must end with .png; got {str(target)!r}"
            )
        target.write_bytes(self.png)
        return target

    def _repr_png_(self) -> bytes:
        return self.png

    def __repr__(self) -> str:
        width, height = self.size
        return f"Picture({width} x {height} pixels; save('name.png') writes it)"
