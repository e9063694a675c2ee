"""The interface of a source of data: it receives Requests for batches in order and returns Feeds."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

Ending = Literal["fill", "partial", "drop"]


@dataclass(frozen=True)
class Request:
    """The request of the executor to a source for a batch."""

    batch_size: int
    epoch: int
    iteration: int
    position: int
    key: int = 0  # the source's own randomness, for shuffling
    ending: Ending = "fill"  # how a reader ends its epochs


@dataclass
class Feed:
    """One batch from a source: per output a dense array or a list of samples.

    ``owned`` says that the arrays are fresh and used nowhere else, so they may be handed on as they are. ``positions`` are the
    samples' places in the epoch's global order; None counts on from the request's position. ``padding`` marks samples that
    are there only to fill the batch; ``ends_epoch`` says that it is the last one of an epoch that others follow.
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
    )  # samples the source could not give; None stands for them


class Source:
    """What an operator declared with ``@source`` builds from its static arguments: asked for batches in order.

    A source has at least ``next``, ``reset``, ``state`` and ``restore``. The others say what else it can do: as they are
    here, it has always something to give, needs no workers, has nothing to close and does not know when it ends.
    """

    takes_data = False  # ``feed`` gives it batches
    fed: Any = None  # where fed batches wait, in a source that has no other data
    wants_workers = False  # ``use_workers`` gives it the worker processes

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
        """The number of batches that are available without waiting; a pipeline makes no more ahead."""
        return math.inf

    def feed(self, data: Any, layout: str | None, most: int) -> None:
        """Queues a batch of at most ``most`` samples."""
        raise NotImplementedError

    def use_workers(self, pool: Any) -> None:
        """Has the batches made by the workers of a pool from now on."""
        raise NotImplementedError

    def close(self) -> None:
        """Lets go of a thread that waits for data."""

    def rewind(self) -> None:
        """Lets data that can be read again, and has no ``cycle``, start over."""

    def fetch(self, index: int) -> tuple[np.ndarray, ...]:
        """One sample. A source that has this gives one output, the indices, and the pipeline's threads fetch."""
        raise NotImplementedError

    def next_epoch(self) -> None:
        """Leaves an epoch that has begun for the next one; for sources whose epochs follow each other without a reset."""
        raise NotImplementedError

    def seek(self, step: int, epoch: int, batch_size: int, key: int) -> None:
        """Goes to a batch of an epoch, or raises InvalidState."""
        raise NotImplementedError

    def batches_left(self, state: Any, batch_size: int, ending: Ending) -> float | None:
        """The number of batches that the epoch of a saved state still has; None if it is not known."""
        del state, batch_size, ending
        return None

    def unsaveable(self) -> str:
        """Why the state cannot be saved, "" where it can."""
        return ""

    def reader_meta(self) -> dict[str, int] | None:
        """Sizes and sharding; None where there are none."""
        return None
