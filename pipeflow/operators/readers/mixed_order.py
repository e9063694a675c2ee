"""The order of a mixture: which sample of which source is at each position of each epoch. It computes numbers and reads no files.

Position p of an epoch belongs to shard p mod n, as in a shuffled reader. The ranks 0, 1, 2, ... are given to the sources evenly:
after each rank, every source has had its share, to within two samples. In each block of 4096 positions the ranks are permuted,
so that the number of shards or the size of a batch never matches a regular pattern. The samples of a source keep the source's
own order. Each epoch continues where the one before ended, so samples that are not in one epoch, because the weight is small,
come in a later one. A source begins again after all its samples.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from pipeflow.operators.readers.order import Order, distinct, mix, permute

BLOCK = 4096
Weights = Sequence[float] | Callable[[int], Sequence[float]] | None


@dataclass(frozen=True)
class Share:
    """How an epoch is divided: the number of parts of each source, and the number of its samples in all epochs before."""

    parts: tuple[int, ...]
    begun: tuple[int, ...]


class Schedule:
    """The shares of the sources in each epoch of ``size`` samples."""

    def __init__(self, sizes: Sequence[int], weights: Weights, size: int | None) -> None:
        self.sizes = tuple(sizes)
        if size is not None and (isinstance(size, bool) or not isinstance(size, int) or size < 1):
            raise ValueError(f"epoch_size is a number of samples from 1 on, got {size!r}")
        self.size = size or sum(self.sizes)
        self._weights = weights
        self._constant = None if callable(weights) else self._parts(weights, "weights")
        self._known: dict[int, Share] = {}

    def _parts(self, weights: Any, name: str) -> tuple[int, ...]:
        """The weights of an epoch as whole numbers."""
        if weights is None:
            weights = self.sizes
        values = np.asarray(weights, np.float64).ravel().tolist() if np.ndim(weights) == 1 else None
        if values is None or len(values) != len(self.sizes):
            raise ValueError(f"{name} must be {len(self.sizes)} numbers, one for each source, got {weights!r}")
        if not all(math.isfinite(x) and x >= 0 for x in values) or not any(values):
            raise ValueError(f"{name} must not be negative, and one of them above 0, got {weights!r}")
        for number, (value, size) in enumerate(zip(values, self.sizes)):
            if value and not size:
                raise ValueError(f"{name} has {value:g} for source {number}, which has no samples")
        bits = 61 - self.size.bit_length()
        if all(float(x).is_integer() for x in values) and sum(values) < 2**bits:
            whole = [int(x) for x in values]
            return tuple(x // math.gcd(*whole) for x in whole)
        total = 2 ** min(30, bits - 1)
        return tuple(max(1, round(x / sum(values) * total)) if x else 0 for x in values)

    @property
    def constant(self) -> bool:
        """True if all epochs have the same weights."""
        return self._constant is not None

    def share(self, epoch: int) -> Share:
        """The division of an epoch; weights that are a function are called once for each epoch."""
        if self._constant is not None:
            counts = counts_before(self._constant, self.size)
            return Share(self._constant, tuple(epoch * x for x in counts))
        if epoch not in self._known:
            last = self._decided(epoch)
            found = self._known.get(last) or self._first(last)
            for number in range(last + 1, epoch + 1):
                begun = tuple(map(sum, zip(found.begun, counts_before(found.parts, self.size))))
                found = self._known[number] = Share(self._called(number), begun)
        return self._known[epoch]

    def _first(self, number: int) -> Share:
        found = self._known[number] = Share(self._called(number), (0,) * len(self.sizes))
        return found

    def _called(self, epoch: int) -> tuple[int, ...]:
        assert callable(self._weights)
        return self._parts(self._weights(epoch), f"weights({epoch})")

    def _decided(self, epoch: int) -> int:
        """The last epoch up to this one whose weights are known, 0 if there is none."""
        return max((x for x in self._known if x <= epoch), default=0)

    def state(self, epoch: int) -> dict[str, Any]:
        """The data for a saved state: the shares of this epoch, or of the last epoch before it whose weights are known."""
        if self._constant is None:
            epoch = self._decided(epoch)
            if epoch not in self._known:
                return {"sizes": list(self.sizes)}
        share = self.share(epoch)
        return {"sizes": list(self.sizes), "epoch": epoch, "parts": list(share.parts), "begun": list(share.begun)}

    def restore(self, state: Any) -> None:
        """Continues with the shares of a saved state. Later epochs have the weights of this schedule."""
        if not isinstance(state, Mapping) or state.get("sizes") != list(self.sizes):
            found = state.get("sizes") if isinstance(state, Mapping) else state
            raise ValueError(f"the saved state is of sources with {found} samples, and these have {list(self.sizes)}")
        if "epoch" not in state:
            return
        numbers = [state["epoch"], *state["parts"], *state["begun"]]
        count = len(self.sizes)
        if (
            len(numbers) != 1 + 2 * count
            or not all(type(x) is int and 0 <= x < 2**62 for x in numbers)
            or not 0 < sum(state["parts"]) < 2 ** (62 - self.size.bit_length())
            or any(part and not size for part, size in zip(state["parts"], self.sizes))
        ):
            raise ValueError(f"the saved state of a mixture is damaged: {dict(state)}")
        share = Share(tuple(state["parts"]), tuple(state["begun"]))
        if share == (self._known.get(state["epoch"]) if self._constant is None else self.share(state["epoch"])):
            return
        if self._constant is not None:  # the weights are not the saved ones: they are used from the next epoch on
            constant, self._constant = self._constant, None
            self._weights = lambda _: constant
        self._known = {state["epoch"]: share}


def counts_before(parts: Sequence[int], rank: int) -> tuple[int, ...]:
    """The number of ranks before this one that each source has."""
    rest, counts = sum(parts), []
    for part in parts:
        count = rank * part // rest if rest else 0
        counts.append(count)
        rank -= count
        rest -= part
    return tuple(counts)


def sources_of(parts: Sequence[int], start: int, count: int) -> np.ndarray:
    """The source of each of ``count`` ranks from ``start`` on."""
    ranks = np.arange(start, start + count)
    found = np.full(count, -1)
    rest = sum(parts)
    for number, part in enumerate(parts):
        if not part:
            continue
        before = ranks * part // rest
        mine = ((ranks + 1) * part // rest > before) & (found < 0)
        found[mine] = number
        ranks = ranks - before
        rest -= part
    return found


@lru_cache(maxsize=16)
def _block(share: Share, start: int, count: int, seed: int, epoch: int) -> tuple[np.ndarray, np.ndarray]:
    """For each position of a block, its source and the number of the sample in this source."""
    places = permute(np.arange(count), count, seed, epoch, start, 1)
    source = sources_of(share.parts, start, count)[places]
    ordinal = np.empty(count, np.int64)
    for number, before in enumerate(counts_before(share.parts, start)):
        mine = source == number
        ordinal[mine] = share.begun[number] + before + np.arange(np.count_nonzero(mine))
    return source, ordinal


@dataclass(frozen=True)
class MixedOrder(Order):
    """The order of a mixture of sources whose own orders are ``children``; indices count through all sources."""

    children: tuple[Order, ...] = ()
    own_seeds: tuple[bool, ...] = ()  # True for children with an own seed; others get one from the mixture
    schedule: Schedule = field(default=None, compare=False)  # type: ignore[assignment]

    def describe(self) -> str:
        """The order in one line."""
        return f"a mixture of {len(self.children)} sources, position p to shard p mod n" + (
            ", last batch padded" if self.pad_last_batch else ""
        )

    @cached_property
    def _seeded(self) -> list[Order]:
        return [
            child if own else replace(child, seed=mix(self.permutation_seed + number + 1))
            for number, (child, own) in enumerate(zip(self.children, self.own_seeds))
        ]

    def indices(self, position: np.ndarray, epoch: int) -> np.ndarray:
        """The indices at positions of an epoch."""
        share = self.schedule.share(epoch)
        index = np.empty(len(position), np.int64)
        block = position // BLOCK
        for number in distinct(block):
            there = np.flatnonzero(block == number)
            start = number * BLOCK
            sources, ordinals = _block(share, start, min(BLOCK, self.size - start), self.permutation_seed, epoch)
            within = position[there] - start
            for source in distinct(sources[within]):
                mine = sources[within] == source
                index[there[mine]] = self._of_source(source, ordinals[within[mine]])
        return index

    def _of_source(self, source: int, ordinals: np.ndarray) -> np.ndarray:
        child = self._seeded[source]
        epochs, places = np.divmod(ordinals, child.size)
        index = np.empty(len(ordinals), np.int64)
        for epoch in distinct(epochs):
            there = epochs == epoch
            index[there] = child.indices(places[there], epoch)
        return index + sum(self.schedule.sizes[:source])

    @property
    def foreseeable(self) -> bool:
        """False if the weights are a function of the user: it is called for an epoch only when the epoch begins."""
        return self.schedule.constant

    def kept(self, epoch: int) -> dict[str, Any]:
        """The data about the weights for a saved state."""
        return {"mixture": self.schedule.state(epoch)}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Uses the weights of a saved state for the rest of its epoch."""
        self.schedule.restore(state.get("mixture"))


def mixed_order(orders: Sequence[Order], seeded: Sequence[bool], weights: Weights, size: int | None) -> MixedOrder:
    """The order of a mixture of readers with these orders; `seeded` says which of them have a seed of their own."""
    first = orders[0]
    for number, order in enumerate(orders):
        for name in ("shard_id", "num_shards", "pad_last_batch"):
            if getattr(order, name) != getattr(first, name):
                raise ValueError(
                    f"source 0 has {name}={getattr(first, name)!r} and source {number} {getattr(order, name)!r}: give all "
                    "sources of a mixture the same"
                )
        if order.stick_to_shard:
            raise ValueError(
                f"source {number} has stick_to_shard=True: position p of a mixture belongs to shard p mod num_shards"
            )
    schedule = Schedule([order.size for order in orders], weights, size)
    return MixedOrder(
        size=schedule.size,
        shard_id=first.shard_id,
        num_shards=first.num_shards,
        random_shuffle=True,
        pad_last_batch=first.pad_last_batch,
        children=tuple(replace(order, shard_id=0, num_shards=1) for order in orders),
        own_seeds=tuple(seeded),
        schedule=schedule,
    )
