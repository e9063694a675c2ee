"""The traits of a step, and the arguments of a call on a whole batch or in a worker process."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from pipeflow.tensors import Collector, Take

T = TypeVar("T")


@dataclass(frozen=True)
class Traits:
    """How a step of this operator wants to be run; may depend on its static arguments.

    ``ordered`` steps see the batches one after another; ``user_code`` may keep or change what it is given; ``pure`` ones
    may be merged when equal and dropped when unused. One that is ``by_batch_size`` counts the samples of its branch;
    ``processes`` ones run in worker processes. A batch call of one with ``rows`` is the same as a call for each row. One that
    ``moves`` gives samples of the batch in other places, as they are. One that ``converts`` calls its function with tensors:
    on the memory of inputs that may be written, else on copies. One that ``meets`` may wait for another function of the
    same sample, so those that do not depend on each other must be able to run at the same time.
    """

    granularity: Literal["sample", "batch"] = "sample"
    ordered: bool = False
    pure: bool = True
    user_code: bool = False
    by_batch_size: bool = False
    processes: bool = False
    rows: bool = False
    moves: bool = False
    converts: bool = False
    meets: bool = False


@dataclass(frozen=True)
class WorkerCall:
    """What of a step runs in a worker process; ``function`` travels by pickle.

    It is called with ``key, *inputs`` of one sample and returns a tuple of arrays; with ``whole`` with a list of such
    rows, and returns for every output a list of arrays.
    """

    function: Callable[..., Any]
    name: str
    whole: bool = False


class BatchCall:
    """What an operator that works on whole batches gets in addition to its inputs and arguments.

    ``draw_keys`` makes the keys of the samples, when they are asked for. ``take(nbytes)`` gives memory that belongs to the
    batch. ``current`` is the sample that is being worked on, so that an exception can be blamed on it (-1: on none).
    """

    __slots__ = ("current", "draw_keys", "hints", "layouts", "size", "sources", "take")

    def __init__(
        self,
        size: int,
        draw_keys: Callable[[], Any],
        layouts: Sequence[str],
        take: Take,
        hints: Sequence[int] = (),
        sources: Any = None,
    ) -> None:
        self.size = size
        self.draw_keys = draw_keys
        self.layouts = layouts
        self.take = take
        self.hints = hints
        self.sources = sources
        self.current = -1

    @property
    def keys(self) -> Any:
        """The keys of the samples."""
        return self.draw_keys()

    def each(self, values: Iterable[T]) -> Iterator[tuple[int, T]]:
        """The values with the numbers of their samples; an exception in between is blamed on that sample."""
        for index, value in enumerate(values):
            self.current = index
            yield index, value
        self.current = -1

    def collector(self, output: int) -> Collector:
        """Gathers the samples of one output into memory of the batch."""
        return Collector(self.size, self.take, self.hints[output] if output < len(self.hints) else 0)
