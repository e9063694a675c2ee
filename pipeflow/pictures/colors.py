"""Colours that colour-blind people can distinguish: eight of Okabe and Ito, and a scale from dark blue to yellow."""

import numpy as np

Color = tuple[int, int, int]

INK: Color = (34, 38, 44)
FAINT: Color = (110, 117, 127)
PAPER: Color = (255, 255, 255)
SHADE: Color = (240, 242, 245)
WRONG: Color = (204, 121, 167)  # for values that are NaN or infinite

PALETTE: tuple[Color, ...] = (
    (230, 159, 0),
    (86, 180, 233),
    (0, 158, 115),
    (240, 228, 66),
    (0, 114, 178),
    (213, 94, 0),
    (204, 121, 167),
    (153, 153, 153),
)

# Points of a colour scale with rising lightness.
_CORNERS = np.array(
    [[0, 32, 81], [40, 62, 107], [87, 93, 109], [124, 123, 120], [166, 157, 117], [212, 193, 100], [253, 234, 69]],
    float,
)
SCALE = np.stack(
    [np.interp(np.linspace(0, len(_CORNERS) - 1, 256), np.arange(len(_CORNERS)), channel) for channel in _CORNERS.T], -1
).astype(np.uint8)


def of_class(number: int) -> Color:
    """The colour of class, box or mask ``number``; the same number has the same colour in every picture."""
    return PALETTE[number % len(PALETTE)]


def class_table(size: int) -> np.ndarray:
    """A colour for each class; class 0 is the background and dark."""
    table = np.array([of_class(number - 1) for number in range(max(size, 1))], np.uint8)
    table[0] = 30
    return table


def ink_on(color: Color) -> Color:
    """The colour of text on a colour: black or white, whichever is easier to read."""
    red, green, blue = color
    return INK if 0.299 * red + 0.587 * green + 0.114 * blue > 140 else PAPER
