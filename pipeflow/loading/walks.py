"""The items of each batch, and the position at which an interrupted epoch continues.

A walk is one pass over an epoch. It returns the items of each batch, earlier than the loop needs them, and keeps the state after
the last batch that the loop received. The state is plain data; a walk that is made from it returns the rest of the epoch.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple, Protocol

from pipeflow import seeds
from pipeflow.declare import Ending
from pipeflow.errors import InvalidState
from pipeflow.loading.buckets import Buckets
from pipeflow.operators.readers.order import Order, Sampler


class BatchItems(NamedTuple):
    """The items of a batch, and the numbers that belong to it."""

    number: int  # the number of the batch in its epoch
    # the indices of its items, or one index for an item that is already a batch; None: the next items of a stream
    indices: Any
    key: int  # the key of the random numbers that are drawn while the batch is made
    slot: int | None = None  # the worker that must make it
    serial: int = 0  # the number of its pass
    skipped: int = 0  # items of the stream that a worker must skip before it begins to read


class Walk(Protocol):
    """One pass over an epoch."""

    def next(self) -> BatchItems | None:
        """The next batch, or None at the end."""

    def delivered(self, wanted: BatchItems, ended: bool) -> None:
        """Notes that the loop gets a batch; `ended` is True for the last batch of a stream."""

    def state(self) -> dict[str, Any]:
        """The state of the epoch after the last batch that was delivered."""


def batch_key(seed: int, epoch: int, position: int) -> int:
    """The key of the random numbers of a batch, by the position of its first item in the epoch."""
    return seeds.mix(seeds.mix(seeds.node_key(seed, "loader") ^ seeds.mix(position)) ^ epoch)


class OrderedWalk:
    """Batches in the order of this library's readers: the items in their own order, or in one permutation of the epoch, divided
    over shards.
    """

    def __init__(
        self, order: Order, batch_size: int | None, ending: Ending, epoch: int, saved: Mapping[str, Any] | None
    ) -> None:
        self._single = batch_size is None
        self._ending: Ending = ending
        self._sampler = Sampler(order, batch_size or 1)
        if saved is None:
            self._sampler.seek(0, epoch)
        else:
            self._sampler.restore(saved["order"])
        self._epoch, self._number = epoch, 0
        self._ended = self.length(order, batch_size or 1, ending) == 0 or bool(saved and saved["ended"])
        self._after: deque[tuple[dict[str, Any], bool]] = deque()
        self._state, self._over = self._sampler.state(), self._ended

    @staticmethod
    def length(order: Order, batch_size: int, ending: Ending) -> int:
        """The number of batches in an epoch."""
        if ending == "drop" and order.size // order.num_shards < batch_size:
            return 0
        return Sampler(order, batch_size).batches_left(ending)

    def next(self) -> BatchItems | None:
        """The next batch, or None at the end."""
        if self._ended:
            return None
        picks = self._sampler.take(None, self._ending)
        self._ended = self._sampler.ended
        self._after.append((self._sampler.state(), self._ended))
        indices = picks.index.tolist()
        key = batch_key(self._sampler.order.seed, self._epoch, int(picks.position[0]))
        self._number += 1
        return BatchItems(self._number - 1, indices[0] if self._single else indices, key)

    def delivered(self, wanted: BatchItems, ended: bool) -> None:
        """Takes note that the loop gets a batch."""
        del wanted, ended
        self._state, self._over = self._after.popleft()

    def state(self) -> dict[str, Any]:
        """The position in the epoch."""
        return {"order": self._state, "ended": self._over}


class BucketWalk:
    """Batches of similar length; batch b of the epoch belongs to shard b mod n."""

    def __init__(
        self,
        buckets: Buckets,
        shard: tuple[int, int],
        ending: Ending,
        seed: int,
        epoch: int,
        saved: Mapping[str, Any] | None,
    ) -> None:
        if saved is not None and saved["digest"] != buckets.digest:
            raise InvalidState(
                "the saved state is of other lengths, or of another batch_size, max_tokens, shuffle or drop_last"
            )
        self._shard, self._shards = shard
        self._digest, self._seed, self._epoch = buckets.digest, seed, epoch
        self._batches = buckets.of_epoch(seed, epoch)
        self._taken = self._begun = saved["consumed"] if saved else 0  # the number of batches of all shards together
        left = max(0, len(self._batches.ends) - self._begun)
        self._end = self._begun + self.rounds(left, self._shards, ending) * self._shards
        self._number = 0

    @staticmethod
    def rounds(batches: int, shards: int, ending: Ending) -> int:
        """The number of batches that each shard gets."""
        return batches // shards if ending == "drop" else -(-batches // shards)

    def next(self) -> BatchItems | None:
        """The next batch. A shard that has no batch left when another one has gets one item of the last batch."""
        if self._begun >= self._end:
            return None
        place = self._begun + self._shard
        last = len(self._batches.ends) - 1
        items = self._batches.items(place) if place <= last else self._batches.items(last)[:1]
        self._begun += self._shards
        self._number += 1
        return BatchItems(self._number - 1, items, batch_key(self._seed, self._epoch, place))

    def delivered(self, wanted: BatchItems, ended: bool) -> None:
        """Takes note that the loop gets a batch."""
        del wanted, ended
        self._taken += self._shards

    def state(self) -> dict[str, Any]:
        """The position in the epoch: the same on every shard."""
        return {"consumed": self._taken, "digest": self._digest}


class SampledWalk:
    """Batches of the indices that a sampler, or a sampler of batches, returns."""

    def __init__(self, batches: Iterator[Any], seed: int, epoch: int, saved: Mapping[str, Any] | None) -> None:
        self._batches: Iterator[tuple[int, Any]] = enumerate(batches)
        self._seed, self._epoch = seed, epoch
        self._taken = self._position = 0
        for _ in range(saved["taken"] if saved else 0):
            if self._draw() is None:
                raise InvalidState(
                    f"the saved state is after batch {saved['taken'] if saved else 0}, and the sampler gives only {self._taken}"
                )
            self._taken += 1

    def draw_all(self) -> None:
        """Takes the rest of the indices from the sampler now."""
        self._batches = iter(list(self._batches))

    def _draw(self) -> BatchItems | None:
        for number, indices in self._batches:
            wanted = BatchItems(number, indices, batch_key(self._seed, self._epoch, self._position))
            self._position += len(indices) if isinstance(indices, list) else 1
            return wanted
        return None

    def next(self) -> BatchItems | None:
        """The next batch, or None at the end."""
        return self._draw()

    def delivered(self, wanted: BatchItems, ended: bool) -> None:
        """Takes note that the loop gets a batch."""
        del ended
        self._taken = wanted.number + 1

    def state(self) -> dict[str, Any]:
        """The position in the epoch."""
        return {"taken": self._taken}


class StreamWalk:
    """Batches of data that can only be iterated over: each worker reads its own stream, and they take turns."""

    def __init__(
        self, slots: int, batch_size: int | None, seed: int, epoch: int, serial: int, saved: Mapping[str, Any] | None
    ) -> None:
        if saved is not None and len(saved["taken"]) != slots:
            raise InvalidState(
                f"the saved state is of {len(saved['taken'])} workers that read one stream each, and there are {slots}: "
                "give num_workers as before"
            )
        self._size, self._seed, self._epoch, self._serial = batch_size or 1, seed, epoch, serial
        self._taken: list[int] = list(saved["taken"]) if saved else [0] * slots  # the number of batches of each worker
        self._ended: list[bool] = list(saved["ended"]) if saved else [False] * slots
        self._skipped = [count * self._size for count in self._taken]
        self._next = saved["next"] if saved else 0
        self._after = self._next
        self._number = self._start = sum(self._taken)

    def next(self) -> BatchItems | None:
        """The next batch, of the worker whose turn it is."""
        slots = len(self._ended)
        slot = next((x % slots for x in range(self._next, self._next + slots) if not self._ended[x % slots]), None)
        if slot is None:
            return None
        self._next = (slot + 1) % slots
        self._number += 1
        key = batch_key(self._seed, self._epoch, self._number - 1)
        return BatchItems(self._number - 1, None, key, slot, self._serial, self._skipped[slot])

    def delivered(self, wanted: BatchItems, ended: bool) -> None:
        """Notes that the loop gets a batch. After the last batch of its stream, a worker gets no more turns."""
        assert wanted.slot is not None
        self._taken[wanted.slot] += 1
        self._ended[wanted.slot] |= ended
        self._after = (wanted.slot + 1) % len(self._ended)

    def state(self) -> dict[str, Any]:
        """The position in each of the streams."""
        return {"taken": list(self._taken), "ended": list(self._ended), "next": self._after}


def in_batches(sampler: Iterable[Any], batch_size: int | None, drop_last: bool) -> Iterator[Any]:
    """The indices of a sampler in lists of the size of a batch; without a size, one by one."""
    if batch_size is None:
        yield from sampler
        return
    batch: list[Any] = []
    for index in sampler:
        batch.append(index)
        if len(batch) == batch_size:
            yield batch
            batch = []
    if batch and not drop_last:
        yield batch
