"""Axes of data, by number or by their letters in the layout."""

from collections.abc import Sequence

from pipeflow.errors import NoAxis


def some_pixels(shape: Sequence[int]) -> None:
    """Raises an error if the image has no pixels."""
    if 0 in shape:
        raise ValueError(f"the image has no pixels: shape {tuple(shape)}")


def spatial(layout: str) -> list[int]:
    """The axes D, H, W of a layout."""
    return [axis for axis, letter in enumerate(layout) if letter in "DHW"]


def axes_of(layout: str, ndim: int, axes: Sequence[int] | None, names: str | None) -> list[int]:
    """The axes with these numbers (negative ones count from the end) or letters; all axes if neither is given."""
    if names is not None:
        if axes is not None:
            raise ValueError("axes and axis_names exclude each other: give one of them")
        missing = [name for name in names if name not in layout]
        if missing and not layout:
            raise ValueError(
                f"axis_names={names!r} need a layout, and the data has none: give one where the data comes from, "
                "as in fn.external_source(..., layout='HWC'), or name the axes by number with axes"
            )
        if missing:
            raise ValueError(f"the layout {layout!r} has no axis {''.join(missing)!r}")
        return [layout.index(name) for name in names]
    chosen = list(range(ndim)) if axes is None else [axis + ndim if axis < 0 else axis for axis in axes]
    for axis in chosen:
        if not 0 <= axis < ndim:
            raise NoAxis(f"axis {axis} is out of range for data of {ndim} axes")
    if len(set(chosen)) != len(chosen):
        raise ValueError(f"axes {tuple(axes or ())} name an axis twice")
    return chosen
