"""The order of rows that can only be read in groups: the groups are shuffled, and rows within windows of several groups.

The groups of a shard are put in a random order; in the strided order, those of the whole epoch. The windows are runs of this
order with about the requested number of rows, and the rows of each window are permuted. So a reader needs the groups of only one
window at a time, and needs each group once in an epoch. A row may come at any place of an epoch, but rows of one group come
within one window. Everything is a function of the seed, the epoch and the position.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from pipeflow.operators.readers.order import Order, distinct, permute

_GROUPS, _ROWS = 2, 3  # distinguish the keys of the two permutations


class Groups:
    """The ends of the groups of rows, and the approximate number of rows of a window."""

    def __init__(self, ends: np.ndarray, window: int) -> None:
        self.ends, self.window = ends, window

    def most(self) -> int:
        """The number of groups that a window may have."""
        smallest = np.sort(np.diff(self.ends, prepend=0))
        # the first rows of the groups of a window are at most `window` rows apart
        return min(len(smallest), int(np.searchsorted(np.cumsum(smallest[smallest > 0]), self.window)) + 1)


@dataclass(frozen=True)
class _WindowLayout:
    """The groups between two rows, in a random order: the first row of each group, and where groups and windows end in this
    order.
    """

    begins: np.ndarray
    ends: np.ndarray
    window_ends: np.ndarray


@lru_cache(maxsize=4)
def _layout(groups: Groups, first: int, count: int, seed: int, epoch: int) -> _WindowLayout:
    begins = np.concatenate([[0], groups.ends[:-1]]).clip(first, first + count)
    sizes = groups.ends.clip(first, first + count) - begins
    begins, sizes = begins[sizes > 0], sizes[sizes > 0]
    order = permute(np.arange(len(sizes)), len(sizes), seed, epoch, first, _GROUPS)
    begins, sizes = begins[order], sizes[order]
    ends = np.cumsum(sizes)
    window = (ends - sizes) // groups.window
    return _WindowLayout(begins, ends, ends[np.append(window[1:] != window[:-1], True)])


def shuffled(groups: Groups, first: int, count: int, places: np.ndarray, seed: int, epoch: int) -> np.ndarray:
    """The rows at places of the random order of `count` rows from `first` on."""
    layout = _layout(groups, first, count, seed, epoch)
    window = np.searchsorted(layout.window_ends, places, side="right")
    rank = np.empty(len(places), np.int64)
    for number in distinct(window):
        begin = int(layout.window_ends[number - 1]) if number else 0
        size = int(layout.window_ends[number]) - begin
        there = window == number
        rank[there] = begin + permute(places[there] - begin, size, seed, epoch, first + begin, _ROWS)
    group = np.searchsorted(layout.ends, rank, side="right")
    before = np.where(group > 0, layout.ends[group - 1], 0)
    return layout.begins[group] + rank - before


@dataclass(frozen=True)
class WindowedOrder(Order):
    """An order whose shuffling keeps the rows of a group within a window."""

    groups: Groups = field(default_factory=lambda: Groups(np.array([1]), 1), compare=False)

    def indices(self, position: np.ndarray, epoch: int) -> np.ndarray:
        """The indices at positions of an epoch that is not divided into runs."""
        if not self.shuffled:
            return position
        return shuffled(self.groups, 0, self.size, position, self.permutation_seed, epoch)

    def within(self, start: int, count: int, inner: np.ndarray, epoch: int) -> np.ndarray:
        """The indices at places of a shard that is a run of positions."""
        return shuffled(self.groups, start, count, inner, self.permutation_seed, epoch)

    def kept(self, epoch: int) -> dict[str, Any]:
        """The size of the windows."""
        del epoch
        return {"window": self.groups.window} if self.shuffled else {}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Raises an error for the state of another order."""
        self.check_window(state, self.groups.window if self.shuffled else None)

    def describe(self) -> str:
        """The order in one line."""
        return f"{super().describe()}, in windows of {self.groups.window} rows" if self.shuffled else super().describe()


def in_windows(order: Order, ends: np.ndarray, window: int) -> WindowedOrder:
    """The order with rows shuffled within windows of groups that end at `ends`."""
    given = {name: getattr(order, name) for name in Order.__dataclass_fields__}
    return WindowedOrder(**given, groups=Groups(ends, window))
