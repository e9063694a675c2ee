"""The interface of a source of data: it receives Requests for batches in order and returns Feeds."""

import math
from bisect import bisect_right
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np

Ending = Literal["fill", "partial", "drop"]
Room = Callable[[int], np.ndarray]  # gives so many bytes of memory


class ByteArrays(Sequence[np.ndarray]):
    """Arrays of bytes in a few blocks of memory, as columns of addresses and sizes; None for those with a negative size. The
    object of an array is made when it is needed.
    """

    def __init__(
        self, blocks: Sequence[np.ndarray], firsts: Sequence[int], places: np.ndarray, sizes: np.ndarray
    ) -> None:
        self._blocks = blocks
        self._firsts = firsts  # the number of the first array in each block
        self._places = places  # of the arrays in their blocks
        self.sizes = sizes

    @cached_property
    def addresses(self) -> np.ndarray:
        """The addresses of all arrays."""
        addresses = self._places.copy()
        for block, first, end in zip(self._blocks, self._firsts, [*self._firsts[1:], len(addresses)]):
            addresses[first:end] += block.__array_interface__["data"][0]
        return addresses

    def __len__(self) -> int:
        return len(self.sizes)

    def __getitem__(self, index: Any) -> Any:
        place, size = int(self._places[index]), int(self.sizes[index])
        return None if size < 0 else self._blocks[bisect_right(self._firsts, index) - 1][place : place + size]


class Fetched:
    """Several samples that were read in one call: a column for each output, which is a sequence of arrays, or one array with a
    row for each sample.
    """

    def __init__(self, columns: "Sequence[Sequence[Any] | np.ndarray]", missing: Collection[int] = ()) -> None:
        self.columns = columns
        self.missing = missing  # places of the samples that were not read

    def row(self, place: int) -> tuple[np.ndarray, ...]:
        """The outputs of one sample."""
        return tuple([column[place] for column in self.columns])


class FilesToRead(NamedTuple):
    """Files that compiled code reads, and the other outputs of these samples."""

    paths: np.ndarray  # the address of each path, which ends with a zero and belongs to the source
    flags: int  # for the system call that opens them
    columns: Sequence[np.ndarray]  # a row for each sample


class Request(NamedTuple):
    """The request of the executor to a source for a batch."""

    batch_size: int
    epoch: int
    iteration: int
    position: int
    key: int = 0  # for the source's own random numbers, which shuffle
    ending: Ending = "fill"  # how a reader ends its epochs


@dataclass
class Feed:
    """One batch from a source: a dense array or a list of samples for each output.

    With ``owned`` the arrays are new and used nowhere else, so they are passed on without a copy. ``positions`` are the
    samples' positions in the epoch; with None they are counted from the request's position. ``padding`` marks samples
    that only fill the batch; ``ends_epoch`` is True for the last batch of an epoch if other epochs follow.
    """

    size: int
    outputs: "list[np.ndarray | list[np.ndarray]]"
    owned: bool = False
    positions: np.ndarray | None = None
    epochs: "int | np.ndarray | None" = None
    source_info: Sequence[str] | None = None
    layouts: Sequence[str | None] | None = None
    padding: np.ndarray | None = None
    ends_epoch: bool = False
    failures: dict[int, Exception] = field(
        default_factory=dict
    )  # samples that the source could not give; their values are None


class Source:
    """An operator declared with ``@source`` makes this object from its static arguments. It returns batches in order.

    A source has at least ``next``, ``reset``, ``state`` and ``restore``. The other methods say what else it can do. Their
    defaults here are those of a source that always has data, needs no workers, has nothing to close and does not know its end.
    """

    takes_data = False  # ``feed`` gives it batches
    fed: Any = None  # the queue of fed batches, in a source that has no other data
    repeats = (
        False  # any thread may call the user's code in it, and once more for the same batch, and nothing notices it
    )
    wants_workers = False  # ``use_workers`` gives it the worker processes
    samples: Any = None  # of a reader: the samples that it reads by their numbers

    @property
    def foreseen(self) -> bool:
        """True if the next batches are known now: ``next`` only computes their indices, and ``restore`` goes back."""
        return False

    def next(self, request: Request) -> Feed:
        """The next batch; StopIteration at the end of an epoch."""
        raise NotImplementedError

    def reset(self) -> None:
        """Starts a new epoch."""
        raise NotImplementedError

    def state(self) -> Any:
        """The state for ``restore``, as plain data."""
        raise NotImplementedError

    def restore(self, state: Any) -> None:
        """Restores a saved state."""
        raise NotImplementedError

    def available(self) -> float:
        """The number of batches that are available without waiting; the pipeline prepares no more than these in advance."""
        return math.inf

    def feed(self, data: Any, layout: str | None, most: int) -> None:
        """Queues a batch of at most ``most`` samples."""
        raise NotImplementedError

    def use_workers(self, pool: Any) -> None:
        """From now on the workers of a pool make the batches."""
        raise NotImplementedError

    def close(self) -> None:
        """Releases a thread that waits for data."""

    def rewind(self) -> None:
        """Starts data from its beginning, if it can be read again and has no ``cycle``."""

    def fetch(self, index: int) -> tuple[np.ndarray, ...]:
        """One sample. A source with this method returns one output, the indices, and the pipeline's threads call it."""
        raise NotImplementedError

    def fetch_many(self, indices: np.ndarray, room: Room) -> Fetched | None:
        """Several samples, read in one call. Samples that cannot be read in this way, or that fail, are missing; None if all are.

        ``room(nbytes)`` returns memory for them. Every call returns new memory.
        """
        del indices, room
        return None

    def files_to_read(self, indices: np.ndarray) -> FilesToRead | None:
        """The files of several samples, if the first output of each sample is the bytes of a file of this machine."""
        del indices
        return None

    def next_epoch(self) -> None:
        """Leaves the current epoch and begins the next one; for sources that need no reset between epochs."""
        raise NotImplementedError

    def seek(self, step: int, epoch: int, batch_size: int, key: int) -> None:
        """Goes to a batch of an epoch, or raises InvalidState."""
        raise NotImplementedError

    def batches_left(self, state: Any, batch_size: int, ending: Ending) -> float | None:
        """The number of batches that the epoch of a saved state still has; None if it is not known."""
        del state, batch_size, ending
        return None

    def unsaveable(self) -> str:
        """The reason why the state cannot be saved; "" if it can."""
        return ""

    def shared_files(self) -> list[str]:
        """The files that have several samples each, with what is known of their versions."""
        return []

    def cache_figures(self) -> dict[str, int] | None:
        """Numbers of reads and bytes of the source's cache of files; None if it has none."""
        return None

    def reader_meta(self) -> dict[str, int] | None:
        """Sizes and sharding; None if the source is no reader."""
        return None
