"""The properties of an encoded image before it is decoded, and the error for images that are refused."""

from dataclasses import dataclass, field
from struct import error as StructError
from struct import unpack_from

# The largest number of chunks, segments or boxes in an image: to read more would take longer than to decode the image.
MOST_PIECES = 100_000


class BadImage(ValueError, RuntimeError):
    """An image file is damaged, of an unknown format, or larger than allowed."""


@dataclass(frozen=True)
class Header:
    """Size and kind of an image as its header states them; `channels` counts colours and alpha.

    `bits` is the size of the type of its decoded numbers, at least 8.
    """

    format: str
    height: int
    width: int
    channels: int
    bits: int = 8
    orientation: int = 1
    alpha: bool = False
    height_at: int = field(default=0, compare=False)  # for a plain sequential JPEG file: the place of its height
    progressive: bool = field(
        default=False, compare=False
    )  # of a JPEG file: each scan has a part of the coefficients only
    depth: int = field(default=0, compare=False)  # the bits of a stored number if it has fewer than `bits`

    @property
    def oriented_size(self) -> tuple[int, int]:
        """(height, width) after the EXIF orientation has been applied."""
        return (self.width, self.height) if self.orientation >= 5 else (self.height, self.width)

    def __str__(self) -> str:
        return f"{self.format} of {self.width} x {self.height} pixels"


def need(kind: str, data: memoryview, needed: int, width: int, height: int) -> None:
    """Raises an error for a file that is too short for the pixels that its header states."""
    if len(data) < needed:
        raise BadImage(
            f"truncated {kind} file: {width} x {height} pixels need at least {needed} bytes, there are {len(data)}"
        )


def exif_orientation(exif: memoryview) -> int:
    """The EXIF orientation of a TIFF structure, 1 if there is none or if it is damaged."""
    order = {b"II*\0": "<", b"MM\0*": ">"}.get(bytes(exif[:4]))
    if order is None:
        return 1
    try:
        (place,) = unpack_from(f"{order}I", exif, 4)
        for entry in range(place + 2, place + 2 + 12 * unpack_from(f"{order}H", exif, place)[0], 12):
            if unpack_from(f"{order}H", exif, entry)[0] == 0x0112:
                (value,) = unpack_from(f"{order}H", exif, entry + 8)
                return value if 1 <= value <= 8 else 1
    except StructError:
        pass
    return 1


class Bits:
    """Reads the bits of some bytes one after another; IndexError after the last."""

    def __init__(self, data: memoryview, lowest_first: bool = True) -> None:
        self._order = "little" if lowest_first else "big"
        self._data = bytes(data[: 1 << 12])
        self._place = 0

    def take(self, count: int) -> int:
        """The number in the next bits."""
        begin, end = self._place, self._place + count
        if end > 8 * len(self._data):
            raise IndexError
        self._place = end
        piece = self._data[begin // 8 : -(-end // 8)]
        if self._order == "little":
            return int.from_bytes(piece, "little") >> begin % 8 & ((1 << count) - 1)
        return int.from_bytes(piece, "big") >> -end % 8 & ((1 << count) - 1)

    def exponential(self) -> int:
        """The next number as an exponential Golomb code."""
        zeros = 0
        while not self.take(1):
            zeros += 1
            if zeros > 32:
                raise BadImage("damaged image file: an impossible number in its header")
        return (1 << zeros) - 1 + self.take(zeros)
