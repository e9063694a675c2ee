"""The order in which a reader hands out its samples: pure numbers, no files.

The words: an **epoch** is one pass over all `size` samples of the source. A **position** is a sample's place
in the epoch's global order, before the epoch is divided over shards; every random number of a sample hangs on
it. An **index** is what the reader's `fetch` takes. A **pick** is one sample that a shard hands out.

Two orders:

- **contiguous** (unshuffled, or `stick_to_shard`): shard k of n is the run of positions from floor(N*k/n) to
  floor(N*(k+1)/n). Without `stick_to_shard` the next epoch reads the next shard. Shuffled, each run is
  shuffled within itself, anew in each epoch.
- **strided** (`random_shuffle` or `shuffle_after_epoch`, without `stick_to_shard`): one permutation of the
  whole epoch, position p belongs to shard p mod n. All shards agree on the permutation without talking, so
  any number of shards can take up a run that another number of shards has left.

The permutation of a large set is a keyed Feistel network: an epoch of a billion samples needs no memory, and
the stream can be entered at any place without walking to it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import isqrt

import numpy as np

_ROUNDS = 8
_MASK = 0xFFFFFFFFFFFFFFFF
_GOLDEN = 0x9E3779B97F4A7C15
# Up to here a permutation is sorted random numbers, which is exactly uniform; a Feistel network over a
# handful of elements is not (chi-square tests find it), and the table of a small set is nothing to save.
_SORTED_UP_TO = 4096


@dataclass(frozen=True)
class Picks:
    """The samples of one batch as parallel columns; `padding` marks repeats of a shard's last sample."""

    index: np.ndarray
    position: np.ndarray
    epoch: np.ndarray
    padding: np.ndarray

    def __len__(self) -> int:
        return len(self.index)

    @staticmethod
    def joined(parts: "Sequence[Picks]") -> "Picks":
        """Several picks, one after the other."""
        return Picks(
            np.concatenate([part.index for part in parts]),
            np.concatenate([part.position for part in parts]),
            np.concatenate([part.epoch for part in parts]),
            np.concatenate([part.padding for part in parts]),
        )


def _mix(value: int) -> int:
    """A 64-bit bijection whose output bits all depend on all input bits (the finaliser of splitmix64)."""
    value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9 & _MASK
    value = (value ^ (value >> 27)) * 0x94D049BB133111EB & _MASK
    return value ^ (value >> 31)


def _mix_array(values: np.ndarray) -> np.ndarray:
    """`_mix` on a uint64 array."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


def permute(positions: np.ndarray, size: int, *key: int) -> np.ndarray:
    """Maps each position in [0, size) to its index under the permutation that the numbers of `key` name."""
    seed = 0
    for number in key:
        seed = _mix((seed + (number & _MASK) + _GOLDEN) & _MASK)
    if size <= _SORTED_UP_TO:
        return _sorted_permutation(size, seed)[positions]
    return _feistel(positions.astype(np.uint64), size, seed)


@lru_cache(maxsize=16)
def _sorted_permutation(size: int, seed: int) -> np.ndarray:
    numbers = _mix_array(_mix_array(np.arange(size, dtype=np.uint64)) ^ np.uint64(seed))
    return np.argsort(numbers, kind="stable")


def _feistel(values: np.ndarray, size: int, seed: int) -> np.ndarray:
    """A Feistel network over Z_rows x Z_columns, a domain less than sqrt(size) + 1 larger than `size`.

    A result outside [0, size) is sent through again, which keeps the whole a bijection.
    """
    rows = np.uint64(isqrt(size - 1) + 1)
    columns = np.uint64(-(-size // int(rows)))
    left, right = np.divmod(values, columns)
    for j in range(_ROUNDS):
        round_key = np.uint64(_mix((seed + (j + 1) * _GOLDEN) & _MASK))
        if j % 2:
            right = (right + _mix_array(left ^ round_key) % columns) % columns
        else:
            left = (left + _mix_array(right ^ round_key) % rows) % rows
    result = (left * columns + right).astype(np.int64)
    outside = result >= size
    if outside.any():
        result[outside] = _feistel(result[outside].astype(np.uint64), size, seed)
    return result


@dataclass(frozen=True)
class Order:
    """One shard's endless sequence of picks, as a function of the place in it."""

    size: int
    shard_id: int = 0
    num_shards: int = 1
    random_shuffle: bool = False
    shuffle_after_epoch: bool = False
    shuffle_after_epoch_seed: int | None = None
    stick_to_shard: bool = False
    pad_last_batch: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        if self.size < 1:
            raise ValueError("the reader found no samples")
        if self.num_shards < 1:
            raise ValueError(f"num_shards must be at least 1, not {self.num_shards}")
        if not 0 <= self.shard_id < self.num_shards:
            raise ValueError(f"shard_id must be in 0..{self.num_shards - 1} (num_shards - 1), not {self.shard_id}")
        if self.num_shards > self.size:
            raise ValueError(
                f"num_shards={self.num_shards} is more than the {self.size} samples "
                "of the reader: some shards would be empty"
            )
        if self.shuffle_after_epoch and self.random_shuffle:
            raise ValueError("shuffle_after_epoch and random_shuffle cannot both be true: use one of them")
        if self.shuffle_after_epoch and self.stick_to_shard:
            raise ValueError(
                "shuffle_after_epoch and stick_to_shard cannot both be true: "
                "use random_shuffle to shuffle within a shard"
            )

    @property
    def shuffled(self) -> bool:
        """Whether positions differ from indices."""
        return self.random_shuffle or self.shuffle_after_epoch

    @property
    def strided(self) -> bool:
        """Whether position p belongs to shard p mod num_shards (else shards are runs of positions)."""
        return self.shuffled and not self.stick_to_shard

    @property
    def permutation_seed(self) -> int:
        """The number that, with the epoch, names the permutation."""
        if self.shuffle_after_epoch and self.shuffle_after_epoch_seed is not None:
            return self.shuffle_after_epoch_seed
        return self.seed

    def describe(self) -> str:
        """The order in one line, for `print(plan)` and messages."""
        kind = (
            "one permutation of the epoch, position p to shard p mod n"
            if self.strided
            else "contiguous shards, shuffled within"
            if self.shuffled
            else "contiguous shards"
        )
        if not self.strided and self.num_shards > 1:
            kind += ", the same one every epoch" if self.stick_to_shard else ", the next one every epoch"
        return kind + (", last batch padded" if self.pad_last_batch else "")

    def _bounds(self, epoch: int) -> tuple[int, int]:
        shard = self.shard_id if self.stick_to_shard else (self.shard_id + epoch) % self.num_shards
        return self.size * shard // self.num_shards, self.size * (shard + 1) // self.num_shards

    def samples(self, epoch: int) -> int:
        """The number of different samples that this shard hands out in `epoch`."""
        if self.strided:
            return -(-(self.size - self.shard_id) // self.num_shards)
        start, end = self._bounds(epoch)
        return end - start

    def length(self, epoch: int, batch_size: int) -> int:
        """The number of picks of this shard in `epoch`, with padding where `pad_last_batch` asks for it."""
        if not self.pad_last_batch:
            return self.samples(epoch)
        largest_shard = -(-self.size // self.num_shards)
        return -(-largest_shard // batch_size) * batch_size

    def picks(self, epoch: int, offsets: np.ndarray) -> Picks:
        """The picks at `offsets` in this shard's `epoch`; offsets past its samples repeat the last one."""
        samples = self.samples(epoch)
        inner = np.minimum(offsets, samples - 1)
        if self.strided:
            position = inner * self.num_shards + self.shard_id
            index = permute(position, self.size, self.permutation_seed, epoch)
        else:
            start, _ = self._bounds(epoch)
            position = inner + start
            index = position
            if self.shuffled:
                index = start + permute(inner, samples, self.permutation_seed, epoch, start)
        return Picks(index, position, np.full(len(offsets), epoch, np.int64), offsets >= samples)

    def locate(self, count: int, batch_size: int) -> tuple[int, int]:
        """(epoch, offset) of the pick after the first `count` picks of this shard, without walking there."""
        if self.pad_last_batch or self.strided or self.stick_to_shard:
            return divmod(count, self.length(0, batch_size))
        # Consecutive shards form one endless line, cut at floor(size * s / num_shards) for s = 0, 1, 2, ...
        place = self.size * self.shard_id // self.num_shards + count
        shard = ((place + 1) * self.num_shards - 1) // self.size
        return shard - self.shard_id, place - self.size * shard // self.num_shards


class Sampler:
    """Walks one shard's order batch by batch; its state is a few numbers."""

    def __init__(self, order: Order, batch_size: int) -> None:
        if batch_size < 1:
            raise ValueError(f"batch_size must be at least 1, not {batch_size}")
        self.order = order
        self.batch_size = batch_size
        self.epoch = 0
        self.offset = 0

    def take(self, count: int | None = None, *, stop_at_epoch_end: bool = False) -> Picks:
        """The next `count` picks (default `batch_size`), running on into the next epoch unless told."""
        count = self.batch_size if count is None else count
        parts = []
        while count > 0:
            length = self.order.length(self.epoch, self.batch_size)
            step = min(count, length - self.offset)
            parts.append(self.order.picks(self.epoch, np.arange(self.offset, self.offset + step)))
            self.offset += step
            count -= step
            if self.offset == length:
                self.epoch, self.offset = self.epoch + 1, 0
                if stop_at_epoch_end:
                    break
        return parts[0] if len(parts) == 1 else Picks.joined(parts)

    def remaining(self) -> int:
        """The picks left in the present epoch."""
        return self.order.length(self.epoch, self.batch_size) - self.offset

    def next_epoch(self) -> None:
        """Goes to the start of the next epoch; where an epoch has just begun, stays."""
        if self.offset:
            self.epoch, self.offset = self.epoch + 1, 0

    def seek(self, count: int) -> None:
        """Goes to where `count` picks have been taken since the start."""
        self.epoch, self.offset = self.order.locate(count, self.batch_size)

    def state(self) -> dict[str, int | bool]:
        """Plain numbers for `restore`; the strided order counts over all shards, so that any shard fits."""
        order = self.order
        state = {
            "size": order.size,
            "shuffled": order.shuffled,
            "strided": order.strided,
            "seed": order.permutation_seed,
            "epoch": self.epoch,
        }
        if order.strided:
            return state | {"consumed": self.offset * order.num_shards}
        return state | {"offset": self.offset, "num_shards": order.num_shards, "shard_id": order.shard_id}

    def restore(self, state: Mapping[str, int | bool]) -> None:
        """Takes up a saved state: in the strided order any shard may, else only the same shard."""
        own = self.state()
        for key in ("size", "shuffled", "strided", "num_shards", "shard_id"):
            if state.get(key) != own.get(key):
                raise ValueError(
                    f"the saved state does not fit this reader: {key} was {state.get(key)}, is {own.get(key)}"
                )
        if "seed" in state and state["seed"] != own["seed"]:
            # A permutation belongs to its seed; going on with the saved one keeps the epoch whole.
            saved = int(state["seed"])
            if self.order.shuffle_after_epoch and self.order.shuffle_after_epoch_seed is not None:
                self.order = replace(self.order, shuffle_after_epoch_seed=saved)
            else:
                self.order = replace(self.order, seed=saved)
        self.epoch = int(state["epoch"])
        if self.order.strided:
            self.offset = max(0, -(-(int(state["consumed"]) - self.order.shard_id) // self.order.num_shards))
        else:
            self.offset = int(state["offset"])
        if self.offset >= self.order.length(self.epoch, self.batch_size):
            self.epoch, self.offset = self.epoch + 1, 0
