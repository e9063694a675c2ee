"""The order in which a reader returns its samples. It computes numbers and reads no files.

The words: an **epoch** is one pass over all `size` samples of the source. A **position** is a sample's place
in the epoch's global order, before the epoch is divided over shards; every random number of a sample depends on it. An
**index** is what the reader's `fetch` takes. A **pick** is one sample that a shard returns.

Two orders:

- **contiguous** (unshuffled, or `stick_to_shard`): shard k of n is the run of positions from floor(N*k/n) to floor(N*(k+1)/n).
  Without `stick_to_shard` the next epoch reads the next shard. If shuffled, each run is shuffled within itself, differently in
  each epoch.
- **strided** (`random_shuffle` or `shuffle_after_epoch`, without `stick_to_shard`): one permutation of the whole epoch; position
  p belongs to shard p mod n. All shards compute the same permutation without communication. So any number of shards can continue
  a run of another number of shards: it continues after the positions that all shards together have **consumed**, a number that
  is the same on every shard after every batch.

There are three ways to end an epoch. They are the same for every shard, also if shards have different sizes, so that all shards
return equally many batches:

- **fill**: batches are full. With `pad_last_batch` the last one repeats its last sample, marked as padding;
  without it, the batch continues with the next epoch, and the epoch ends with the batch in which the last shard
  finishes.
- **partial**: the last batch has only the remaining samples of the shard. If a shard has no sample left and another shard has
  one, it returns one sample of padding.
- **drop**: the epoch ends with the last batch that is full on every shard.

The permutation of a large set is a keyed Feistel network: an epoch of a billion samples needs no memory, and any place of the
order can be computed directly.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from math import isqrt
from typing import Any

import numpy as np

from pipeflow.declare import Ending
from pipeflow.errors import BadValue

_ROUNDS = 8
_MASK = 0xFFFFFFFFFFFFFFFF
_GOLDEN = 0x9E3779B97F4A7C15
# Up to this size a permutation is made by sorting random numbers, which is exactly uniform. A Feistel network over few elements
# is not uniform (chi-square tests show it), and the table of a small set needs little memory.
_SORTED_UP_TO = 4096
_AHEAD = 16  # batches whose picks are computed in one call: it takes as long for a thousand as for a few


@dataclass(slots=True)
class Picks:
    """The samples of one batch as parallel columns; `padding` marks repeats of a shard's last sample."""

    index: np.ndarray
    position: np.ndarray
    epoch: np.ndarray
    padding: np.ndarray

    def __len__(self) -> int:
        return len(self.index)

    def part(self, begin: int, end: int) -> "Picks":
        """Some of these picks, without a copy."""
        return Picks(self.index[begin:end], self.position[begin:end], self.epoch[begin:end], self.padding[begin:end])

    @staticmethod
    def joined(parts: "Sequence[Picks]") -> "Picks":
        """Several picks, one after the other."""
        return Picks(
            np.concatenate([part.index for part in parts]),
            np.concatenate([part.position for part in parts]),
            np.concatenate([part.epoch for part in parts]),
            np.concatenate([part.padding for part in parts]),
        )


def located(ends: np.ndarray, index: int) -> tuple[int, int]:
    """Finds an index in consecutive parts that end at ``ends``: returns the part, and the index inside it."""
    part = int(np.searchsorted(ends, index, side="right"))
    return part, index - (int(ends[part - 1]) if part else 0)


def distinct(numbers: np.ndarray) -> list[int]:
    """The different numbers, in order. `np.unique` would load numpy.ma, which takes longer than many first batches."""
    return sorted(set(numbers.tolist()))


def mix(value: int) -> int:
    """A 64-bit bijection whose output bits all depend on all input bits (the finaliser of splitmix64)."""
    value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9 & _MASK
    value = (value ^ (value >> 27)) * 0x94D049BB133111EB & _MASK
    return value ^ (value >> 31)


def _mix_array(values: np.ndarray) -> np.ndarray:
    """`mix` on a uint64 array."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


def permute(positions: np.ndarray, size: int, *key: int) -> np.ndarray:
    """Maps each position in [0, size) to its index in the permutation that the numbers of `key` determine."""
    seed = 0
    for number in key:
        seed = mix((seed + (number & _MASK) + _GOLDEN) & _MASK)
    if size <= _SORTED_UP_TO:
        return _sorted_permutation(size, seed)[positions]
    return _feistel(positions.astype(np.uint64), size, seed)


@lru_cache(maxsize=16)
def _sorted_permutation(size: int, seed: int) -> np.ndarray:
    numbers = _mix_array(_mix_array(np.arange(size, dtype=np.uint64)) ^ np.uint64(seed))
    return np.argsort(numbers, kind="stable")


def _feistel(values: np.ndarray, size: int, seed: int) -> np.ndarray:
    """A Feistel network over Z_rows x Z_columns, a domain less than sqrt(size) + 1 larger than `size`.

    A result outside [0, size) goes through the network again; the map is still a bijection.
    """
    rows = np.uint64(isqrt(size - 1) + 1)
    columns = np.uint64(-(-size // int(rows)))
    left, right = np.divmod(values, columns)
    for j in range(_ROUNDS):
        round_key = np.uint64(mix((seed + (j + 1) * _GOLDEN) & _MASK))
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
    """The endless sequence of picks of one shard, as a function of the place in the sequence."""

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
            raise BadValue("the reader found no samples")
        if self.num_shards < 1:
            raise BadValue(f"num_shards must be at least 1, not {self.num_shards}")
        if not 0 <= self.shard_id < self.num_shards:
            raise BadValue(f"shard_id must be in 0..{self.num_shards - 1} (num_shards - 1), not {self.shard_id}")
        if self.num_shards > self.size:
            raise BadValue(
                f"num_shards={self.num_shards} is more than the {self.size} samples "
                "of the reader: some shards would be empty"
            )
        if self.shuffle_after_epoch and self.random_shuffle:
            raise BadValue("shuffle_after_epoch and random_shuffle cannot both be true: use one of them")
        if self.shuffle_after_epoch and self.stick_to_shard:
            raise BadValue(
                "shuffle_after_epoch and stick_to_shard cannot both be true: "
                "use random_shuffle to shuffle within a shard"
            )

    @cached_property
    def shuffled(self) -> bool:
        """True if positions differ from indices."""
        return self.random_shuffle or self.shuffle_after_epoch

    @cached_property
    def strided(self) -> bool:
        """True if position p belongs to shard p mod num_shards (else shards are runs of positions)."""
        return self.shuffled and not self.stick_to_shard

    @cached_property
    def straight(self) -> bool:
        """True if places of one endless line of epochs determine the picks (``along``)."""
        return (self.strided or (self.num_shards == 1 and not self.shuffled)) and not self.pad_last_batch

    @property
    def permutation_seed(self) -> int:
        """The number that determines the permutation, together with the epoch."""
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

    def indices(self, position: np.ndarray, epoch: int) -> np.ndarray:
        """The indices at positions of an epoch that is not divided into runs."""
        return permute(position, self.size, self.permutation_seed, epoch) if self.shuffled else position

    def within(self, start: int, count: int, inner: np.ndarray, epoch: int) -> np.ndarray:
        """The indices at places of a shard that is a run of positions."""
        return start + permute(inner, count, self.permutation_seed, epoch, start)

    @property
    def foreseeable(self) -> bool:
        """True if the order of later batches is known now."""
        return True

    def kept(self, epoch: int) -> dict[str, Any]:
        """The part of a saved state that belongs to the order."""
        del epoch
        return {}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restores the part of a saved state that belongs to the order."""
        self.check_window(state, None)

    @staticmethod
    def check_window(state: Mapping[str, Any], own: int | None) -> None:
        """Raises an error for the state of an order with other windows (`windowed_order.py`)."""
        if state.get("window") != own:
            raise ValueError(
                f"the saved state does not fit this reader: shuffle_window was {state.get('window')}, is {own}"
            )

    def _bounds(self, epoch: int) -> tuple[int, int]:
        shard = self.shard_id if self.stick_to_shard else (self.shard_id + epoch) % self.num_shards
        return self.size * shard // self.num_shards, self.size * (shard + 1) // self.num_shards

    def samples(self, epoch: int) -> int:
        """The number of different samples that this shard returns in `epoch`."""
        if self.strided:
            return -(-(self.size - self.shard_id) // self.num_shards)
        start, end = self._bounds(epoch)
        return end - start

    def length(self, epoch: int, batch_size: int) -> int:
        """The number of picks of this shard in `epoch`, including padding if `pad_last_batch` is set."""
        if not self.pad_last_batch:
            return self.samples(epoch)
        largest_shard = -(-self.size // self.num_shards)
        return -(-largest_shard // batch_size) * batch_size

    def picks(self, epoch: int, offsets: np.ndarray, base: int = 0) -> Picks:
        """The picks at `offsets` in this shard's `epoch`; offsets past its samples repeat the last one.

        In the strided order `base` positions of the epoch are already consumed, and offsets count from there.
        """
        if self.strided:
            position = base + self.shard_id + offsets * self.num_shards
            padding = position >= self.size
            if padding.any():  # back to this shard's last position
                position -= (position - self.size + self.num_shards) // self.num_shards * self.num_shards * padding
            index = self.indices(position, epoch)
            return Picks(index, position, np.full(len(offsets), epoch, np.int64), padding)
        samples = self.samples(epoch)
        start, _ = self._bounds(epoch)
        inner = np.minimum(offsets, samples - 1)
        position = inner + start
        index = position
        if self.shuffled:
            index = self.within(start, samples, inner, epoch)
        return Picks(index, position, np.full(len(offsets), epoch, np.int64), offsets >= samples)

    def along(self, start: int, count: int) -> Picks:
        """`count` picks from place `start` of an endless line of epochs, if the order is ``straight``."""
        epoch, position = np.divmod(start + self.shard_id + self.num_shards * np.arange(count), self.size)
        index = np.empty(count, np.int64) if self.shuffled else position
        for number in distinct(epoch) if self.shuffled else ():
            there = epoch == number
            index[there] = self.indices(position[there], number)
        return Picks(index, position, epoch, np.zeros(count, bool))

    def locate(self, count: int, batch_size: int) -> tuple[int, int]:
        """(epoch, offset) of the pick after the first `count` picks of this shard, computed directly."""
        if self.pad_last_batch or self.stick_to_shard:
            return divmod(count, self.length(0, batch_size))
        # Consecutive shards form one endless line, cut at floor(size * s / num_shards) for s = 0, 1, 2, ...
        place = self.size * self.shard_id // self.num_shards + count
        shard = ((place + 1) * self.num_shards - 1) // self.size
        return shard - self.shard_id, place - self.size * shard // self.num_shards

    def taken(self, epoch: int) -> int:
        """The number of picks of a contiguous, unpadded shard before `epoch`."""
        return int(self._before(epoch, np.array([self.shard_id]))[0])

    def _before(self, epoch: int, shards: np.ndarray) -> np.ndarray:
        edges = self.size * (shards + (1 if self.stick_to_shard else epoch)) // self.num_shards
        count = edges - self.size * shards // self.num_shards
        return count * epoch if self.stick_to_shard else count

    def next_end(self, taken: int) -> int:
        """The number of picks of every contiguous, unpadded shard at the end of the epoch that is current after `taken` picks."""
        epoch = max(0, (taken - 1) * self.num_shards // self.size - 1)
        if self.stick_to_shard:
            epoch = taken // -(-self.size // self.num_shards)
        while self._all_done(epoch + 1) <= taken:
            epoch += 1
        return self._all_done(epoch + 1)

    def _all_done(self, epochs: int) -> int:
        """The number of picks after which no shard has samples of the first `epochs` epochs left."""
        return int(self._before(epochs, np.arange(self.num_shards)).max())


class Sampler:
    """Walks one shard's order batch by batch; its state is a few numbers."""

    def __init__(self, order: Order, batch_size: int) -> None:
        if batch_size < 1:
            raise ValueError(f"batch_size must be at least 1, not {batch_size}")
        self.order = order
        self.batch_size = batch_size
        self.epoch = 0
        self.base = 0  # strided: positions of this epoch that all shards together consumed before offset 0
        self.offset = 0
        self.ended = False  # True if the last `take` reached the end of an epoch
        self.pads = True  # False if its picks cannot be padding
        self._line: tuple[Order, int, Picks] | None = (
            None  # picks that were computed ahead, and the place of the first one
        )

    def take(self, count: int | None = None, ending: Ending = "fill") -> Picks:
        """The next `count` picks (default `batch_size`); fewer if the way to end epochs makes the last batch shorter."""
        count = self.batch_size if count is None else count
        self.pads = ending != "fill" or not self.order.straight
        if not self.pads:
            return self._straight(count)
        self._settle(ending, count)
        if ending == "fill":
            return self._filled(count)
        own, most, least = self._left()
        offsets = np.arange(self.offset, self.offset + max(1, min(count, own)))
        picks = self.order.picks(self.epoch, offsets, self.base)
        self.offset += count
        self.ended = most <= count if ending == "partial" else least < 2 * count
        if self.ended:
            self._go(self.epoch + 1)
        return picks

    def _straight(self, count: int) -> Picks:
        """The picks from the present place of the line of epochs on."""
        order = self.order
        start = self.epoch * order.size + self.base + self.offset * order.num_shards
        after, consumed = divmod(start + count * order.num_shards, order.size)
        self.ended = after > start // order.size
        self.epoch = after
        self.offset, self.base = (0, consumed) if order.strided else (consumed, 0)
        return self._along(start, count)

    def _filled(self, count: int) -> Picks:
        order = self.order
        self.ended = False
        if not order.pad_last_batch:
            taken = order.taken(self.epoch) + self.offset
            self.ended = order.next_end(taken) <= taken + count
        parts = []
        while count > 0:
            length = self._length()
            step = min(count, length - self.offset)
            parts.append(order.picks(self.epoch, np.arange(self.offset, self.offset + step), self.base))
            self.offset += step
            count -= step
            if self.offset == length:
                self._go(self.epoch + 1)
                self.ended |= order.pad_last_batch
        return parts[0] if len(parts) == 1 else Picks.joined(parts)

    def _along(self, start: int, count: int) -> Picks:
        """The picks from a place of the line of epochs; after the first batch those of several batches are computed at once."""
        order, step = self.order, self.order.num_shards
        if type(order) is not Order:  # the order of later batches may not be known
            return order.along(start, count)
        follows = False
        if self._line is not None and self._line[0] is order:
            _, first, known = self._line
            begin, rest = divmod(start - first, step)
            if begin >= 0 and begin + count <= len(known) and not rest:
                return known.part(begin, begin + count)
            follows = 0 <= begin <= len(known)
        known = order.along(start, _AHEAD * count if follows else count)
        for column in (known.index, known.position, known.epoch, known.padding):
            column.flags.writeable = False  # several batches share them
        self._line = order, start, known
        return known.part(0, count)

    def _settle(self, ending: Ending, count: int) -> None:
        """If this epoch has no picks left, goes to the epoch with the next ``count`` picks.

        This depends on the way to end epochs. If a shard has no samples left but another one has, a "partial" epoch has one more
        batch, of padding; with "fill" the batch is filled from the next epoch.
        """
        order = self.order
        largest, smallest = -(-order.size // order.num_shards), order.size // order.num_shards
        if ending != "fill":
            _, most, least = self._left()
            if most > 0 and (ending == "partial" or least >= count):
                return
            each = count * (-(-largest // count) if ending == "partial" else smallest // count)
            # Only after seek() may the offset be beyond the epoch. If the epoch began with other batches, it just ends.
            beyond = self.offset - each if self.offset >= largest and not self.base else 0
            further, offset = divmod(max(0, beyond), max(1, each))
            self._go(self.epoch + 1 + further, offset)
        elif order.strided and not order.pad_last_batch:
            further, consumed = divmod(self.consumed, order.size)
            if further:
                self._go(self.epoch + further, base=consumed)
        elif order.pad_last_batch or order.stick_to_shard:
            if self.offset >= self._length():
                further, offset = divmod(self.offset - self._length(), order.length(0, self.batch_size))
                self._go(self.epoch + 1 + further, offset)
        elif self.offset >= order.samples(self.epoch):
            self._go(*order.locate(order.taken(self.epoch) + self.offset, self.batch_size))

    def _go(self, epoch: int, offset: int = 0, base: int = 0) -> None:
        self.epoch, self.offset, self.base = epoch, offset, base

    @property
    def consumed(self) -> int:
        """Strided: the number of positions of this epoch that all shards together have returned."""
        return self.base + self.offset * self.order.num_shards

    def _left(self) -> tuple[int, int, int]:
        """The number of different samples left in this epoch: of this shard, of the largest shard and of the smallest one."""
        order = self.order
        if order.strided:
            rest = order.size - self.consumed
            own = -(-(rest - order.shard_id) // order.num_shards)
            return max(own, 0), -(-rest // order.num_shards), rest // order.num_shards
        most, least = -(-order.size // order.num_shards), order.size // order.num_shards
        return order.samples(self.epoch) - self.offset, most - self.offset, least - self.offset

    def _length(self) -> int:
        """The offset at which this epoch ends for this shard, padding included."""
        order = self.order
        if not (order.strided and order.pad_last_batch):
            return order.length(self.epoch, self.batch_size)
        most = -(-(order.size - self.base) // order.num_shards)
        return -(-most // self.batch_size) * self.batch_size

    def remaining(self) -> int:
        """The number of picks of this shard left in the present epoch, padding included."""
        if self.order.pad_last_batch:
            return self._length() - self.offset
        return self._left()[0]

    def batches_left(self, ending: Ending) -> int:
        """The number of batches that this epoch still has: the same on every shard."""
        order, size = self.order, self.batch_size
        self._settle(ending, size)
        _, most, least = self._left()
        if ending == "partial":
            return -(-most // size)
        if ending == "drop":
            return least // size or order.size // order.num_shards // size
        if order.pad_last_batch:
            return -(-(self._length() - self.offset) // size)
        if order.strided:
            return -(-most // size)
        taken = order.taken(self.epoch) + self.offset
        return -(-(order.next_end(taken) - taken) // size)

    def next_epoch(self) -> None:
        """Goes to the start of the next epoch, unless an epoch has just begun."""
        self._settle("partial", self.batch_size)
        if self.offset or self.base:
            self._go(self.epoch + 1)

    def seek(self, count: int, epoch: int = 0) -> None:
        """Goes to the place after `count` picks of every shard since the start of `epoch`."""
        self._go(epoch, count)  # the first `take` gets the way to end epochs, and so finds the epoch of this place

    def state(self) -> dict[str, Any]:
        """Plain numbers for `restore`. In the strided order they count over all shards, so every shard can use them."""
        order = self.order
        state: dict[str, Any] = {
            "size": order.size,
            "shuffled": order.shuffled,
            "strided": order.strided,
            "seed": order.permutation_seed,
            "epoch": self.epoch,
        }
        if order.strided:
            return state | order.kept(self.epoch) | {"consumed": self.consumed}
        return (
            state
            | order.kept(self.epoch)
            | {"offset": self.offset, "num_shards": order.num_shards, "shard_id": order.shard_id}
        )

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restores a saved state: in the strided order the state of any shard, else only that of the same shard."""
        own = self.state()
        for key in ("size", "shuffled", "strided", "num_shards", "shard_id"):
            if state.get(key) != own.get(key):
                hint = (
                    "; contiguous shards can only be taken up by as many shards as before (shuffled readers by any number)"
                    if key == "num_shards"
                    else ""
                )
                raise ValueError(
                    f"the saved state does not fit this reader: {key} was {state.get(key)}, is {own.get(key)}{hint}"
                )
        for key in ("epoch", "consumed" if self.order.strided else "offset", "seed"):
            value = state.get(key, 0 if key == "seed" else None)
            if (
                isinstance(value, bool)
                or not isinstance(value, int)
                or not 0 <= value < 2 ** (64 if key == "seed" else 48)
            ):
                raise ValueError(f"the saved state of this reader is damaged: {key} is {value!r}")
        self.order.restore(state)
        if "seed" in state and state["seed"] != own["seed"]:
            # A permutation depends on its seed: with the saved seed, each sample still comes once in this epoch.
            saved = int(state["seed"])
            by_argument = self.order.shuffle_after_epoch and self.order.shuffle_after_epoch_seed is not None
            if by_argument:
                self.order = replace(self.order, shuffle_after_epoch_seed=saved)
            else:
                self.order = replace(self.order, seed=saved)
        if self.order.strided:
            self._go(int(state["epoch"]), base=int(state["consumed"]))
        else:
            self._go(int(state["epoch"]), int(state["offset"]))
