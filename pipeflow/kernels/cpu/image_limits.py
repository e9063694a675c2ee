"""The limits of decoding: they are compared with the extents in a header before memory is allocated."""

from dataclasses import dataclass
from typing import Any

from pipeflow.kernels.cpu.image_base import BadImage

# The default limits of an image: 400 MB as RGB, and fewer pixels in a file of a few bytes. Such a file may be a blank image, or
# an attack that fills the memory.
MAX_PIXELS = 1 << 27
SMALL_IMAGE = 1 << 24
PIXELS_PER_BYTE = 2048
MAX_BYTES = 1 << 31


@dataclass(frozen=True)
class Limits:
    """The limits of decoding: pixels, bytes of the result and of the stored pixels; None means the default above.

    With `damaged`, the readable part of a damaged image is returned.
    """

    max_pixels: int | None = None
    max_bytes: int | None = None
    damaged: bool = False


def check_pixels(header: Any, pixels: int, length: int, limits: Limits) -> None:
    """Raises an error for more pixels than allowed in a file of `length` bytes; the message names `header`."""
    allowed = limits.max_pixels
    if pixels > (MAX_PIXELS if allowed is None else allowed):
        raise BadImage(
            f"{header} has more than max_pixels={MAX_PIXELS if allowed is None else allowed} pixels; "
            "raise max_pixels if it is meant"
        )
    if allowed is None and pixels > max(SMALL_IMAGE, PIXELS_PER_BYTE * length):
        raise BadImage(
            f"{header} in a file of {length} bytes: more than {PIXELS_PER_BYTE} pixels a byte; give "
            f"max_pixels={pixels} if it is meant"
        )


def allowed(pixels: int, length: int, limits: Limits) -> bool:
    """True if an image of three bytes a pixel, in a file of `length` bytes, is certainly inside the limits."""
    if limits.max_pixels is None:
        most = min(MAX_PIXELS, max(SMALL_IMAGE, PIXELS_PER_BYTE * length))
    else:
        most = limits.max_pixels
    return pixels <= most and 3 * pixels <= (MAX_BYTES if limits.max_bytes is None else limits.max_bytes)


def check_bytes(header: Any, size: int, limits: Limits) -> None:
    """Raises an error for pixels that take more bytes than allowed."""
    allowed = MAX_BYTES if limits.max_bytes is None else limits.max_bytes
    if size > allowed:
        raise BadImage(f"{header} takes {size} bytes, more than max_bytes={allowed}; raise max_bytes if it is meant")
