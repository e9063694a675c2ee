"""Slices given by start, end and shape, or by their shares of the extent."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import floor

from pipeflow.errors import OutOfRange
from pipeflow.operators.windows import share_of, single

POLICIES = ("error", "pad", "trim_to_shape")


@dataclass(frozen=True)
class Slice:
    """The slice of a call; `check` raises errors for contradictions when the graph is built."""

    start: Sequence[int] | None = None
    end: Sequence[int] | None = None
    shape: Sequence[int] | None = None
    rel_start: Sequence[float] | None = None
    rel_end: Sequence[float] | None = None
    rel_shape: Sequence[float] | None = None
    axes: Sequence[int] = ()
    prefix: str = ""

    @property
    def empty(self) -> bool:
        """True if nothing is cut."""
        return all(part is None for part in self._parts())

    def _parts(self) -> tuple[Sequence[float] | None, ...]:
        return self.start, self.rel_start, self.end, self.rel_end, self.shape, self.rel_shape

    def check(self) -> None:
        """Raises ValueError if two arguments give the same bound."""
        names = [
            name.format(self.prefix)
            for name in ("{}start", "rel_{}start", "{}end", "rel_{}end", "{}shape", "rel_{}shape")
        ]
        given = [name for name, part in zip(names, self._parts(), strict=True) if part is not None]
        for group in (names[:2], names[2:]):
            if len(both := [name for name in given if name in group]) > 1:
                raise ValueError(f"{', '.join(map(repr, group))} exclude each other; got {' and '.join(both)}")

    def bounds(self, extents: Sequence[int]) -> list[tuple[int, int]]:
        """(start, length) on every axis of an array with these extents, not yet checked against them."""
        axes = self._axes(len(extents))
        result = [(0, extent) for extent in extents]
        lengths = {len(part) for part in self._parts() if part is not None}
        if lengths - {len(axes), 1}:
            raise ValueError(f"a slice of {len(axes)} axes needs {len(axes)} numbers, got {max(lengths)}")
        for place, axis in enumerate(axes):
            result[axis] = self._on_axis(place, extents[axis])
        return result

    def _axes(self, count: int) -> list[int]:
        if self.axes:
            axes = []
            for axis in self.axes:
                if not -count <= axis < count:
                    raise ValueError(f"axis {axis} is not one of the {count} axes of the array")
                axes.append(axis % count)
            if len(set(axes)) != len(axes):
                raise ValueError(f"an axis occurs twice in {list(self.axes)}")
            return axes
        longest = max((len(part) for part in self._parts() if part is not None), default=0)
        return list(range(count if longest == 1 else min(longest, count)))

    def _on_axis(self, place: int, extent: int) -> tuple[int, int]:
        start, rel_start, end, rel_end, shape, rel_shape = (
            None if part is None else part[place if len(part) > 1 else 0] for part in self._parts()
        )
        # As in DALI, relative numbers are single precision, and the end is rounded, not the length. If the end is computed from
        # two relative numbers, it is computed in double precision.
        low = float(start) if start is not None else share_of(rel_start or 0, extent)
        first = round_half_up(low)
        if shape is not None:
            return first, int(shape)
        if rel_shape is not None and rel_start is not None:
            high = (float(single(rel_start)) + float(single(rel_shape))) * extent
        elif rel_shape is not None:
            high = low + share_of(rel_shape, extent)
        elif rel_end is not None:
            high = share_of(rel_end, extent)
        else:
            high = float(extent if end is None else end)
        last = round_half_up(high)
        if last < first:
            raise ValueError(f"the end of a slice cannot come before its start: start {first}, end {last}")
        return first, last - first


def round_half_up(value: float) -> int:
    """The nearest integer, halves away from zero, as DALI rounds positions."""
    return floor(value + 0.5) if value >= 0 else -floor(-value + 0.5)


def inside(bounds: list[tuple[int, int]], extents: Sequence[int], policy: str) -> list[tuple[int, int]]:
    """Applies a policy to the bounds: they are checked ("error"), cut to the array ("trim_to_shape") or kept ("pad")."""
    if policy == "error":
        if any(
            start < 0 or length < 0 or start + length > extent
            for (start, length), extent in zip(bounds, extents, strict=True)
        ):
            lengths, starts = tuple(length for _, length in bounds), tuple(start for start, _ in bounds)
            raise OutOfRange(
                f"a slice of shape {lengths} at {starts} is not inside the array of shape {tuple(extents)}; "
                'out_of_bounds_policy="pad" or "trim_to_shape" allows that'
            )
    elif policy == "trim_to_shape":
        trimmed = []
        for (start, length), extent in zip(bounds, extents, strict=True):
            low, high = min(max(start, 0), extent), min(max(start + length, 0), extent)
            trimmed.append((low, max(high - low, 0)))
        return trimmed
    return bounds
