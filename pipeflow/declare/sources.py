"""What a source of data is: asked for batches in order, it answers with Feeds."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import numpy as np

Ending = Literal["fill", "partial", "drop"]


@dataclass(frozen=True)
class Request:
    """What the executor tells a source about the batch it wants."""

    batch_size: int
    epoch: int
    iteration: int
    position: int
    key: int = 0  # the source's own randomness, for shuffling
    ending: Ending = "fill"  # how a reader ends its epochs


@dataclass
class Feed:
    """One batch from a source: per output a dense array or a list of samples.

    ``owned`` says that the arrays are fresh and nobody else's, so they may be handed on as they are. ``positions`` are the
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


class Source(Protocol):
    """What an operator declared with ``@source`` builds from its static arguments: asked for batches in order.

    ``next`` raises StopIteration at the end of an epoch. One that may have nothing to give yet also has ``available() ->
    number of batches``; a pipeline does not run ahead of it. A source that also has ``fetch(index) -> tuple of arrays`` gives
    one output, the indices, and its samples are fetched by the threads of the pipeline. ``seek(step, epoch, batch_size,
    key)`` and ``batches_left(state, batch_size, ending)``, where a source has them, go to a batch and foretell an epoch;
    ``unsaveable()``, where it has it, says why the state cannot be saved ("" where it can).
    """

    def next(self, request: Request) -> Feed:
        """The next batch."""
        ...

    def reset(self) -> None:
        """Starts a new epoch."""
        ...

    def state(self) -> Any:
        """What ``restore`` needs, as plain data."""
        ...

    def restore(self, state: Any) -> None:
        """Goes to a saved state."""
        ...
