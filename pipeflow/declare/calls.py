"""The traits of a step, and the arguments of a call on a whole batch or in a worker process."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import numpy as np

from pipeflow.tensors import Collector, PlacedArrays, Take

T = TypeVar("T")
MakeOfColumns = Callable[[PlacedArrays, Take], np.ndarray | None]
ColumnsHook = Callable[[Any, np.dtype, int, str], MakeOfColumns | None]  # of Args, and of the form of the samples


@dataclass(frozen=True)
class Traits:
    """How a step of this operator must be run. The traits may depend on its static arguments.

    ``ordered`` steps get the batches one after another; ``user_code`` may keep or change its inputs; ``pure`` steps may
    be merged if they are equal and removed if they are unused. A step with ``by_batch_size`` counts the samples of its
    branch. Steps with ``processes`` run in worker processes. With ``rows``, a call for a batch is the same as a call
    for each row. A step with ``moves`` returns samples of the batch at other places, unchanged. A step with
    ``converts`` calls its function with tensors: on the memory of inputs that may be written, else on copies. A step
    with ``meets`` may wait for another function of the same sample, so functions that do not depend on each other must
    be able to run at the same time. A step that is ``apart`` is in no stage with steps that are not: so the calls of a
    function may be limited to one thread, and its operators not. With ``repeats`` a call changes nothing, not even its
    inputs, and may be made once more. A step that is ``keyless`` reads no random numbers, though its operator may.
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
    apart: bool = False
    repeats: bool = False
    keyless: bool = False


@dataclass(frozen=True)
class WorkerCall:
    """The part of a step that runs in a worker process; ``function`` is sent there by pickle.

    It is called with ``key, *inputs`` of one sample and returns a tuple of arrays. With ``whole`` it is called with a
    list of such rows, and returns a list of arrays for every output.
    """

    function: Callable[..., Any]
    name: str
    whole: bool = False


class BatchCall:
    """An operator that works on whole batches gets this object in addition to its inputs and arguments.

    ``draw_keys`` makes the keys of the samples when they are first read. ``take(nbytes)`` returns memory that belongs
    to the batch. ``current`` is the number of the current sample, so that an exception can name it (-1: no sample).
    ``timed`` makes a function that also measures each call, for functions of the user that are called for every sample.
    """

    __slots__ = ("current", "draw_keys", "hints", "layouts", "size", "sources", "take", "timed")

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
        self.timed: Callable[[Callable[..., Any]], Callable[..., Any]] | None = None

    @property
    def keys(self) -> Any:
        """The keys of the samples."""
        return self.draw_keys()

    def each(self, values: Iterable[T]) -> Iterator[tuple[int, T]]:
        """The values with the numbers of their samples; an exception in the loop names the current sample."""
        for index, value in enumerate(values):
            self.current = index
            yield index, value
        self.current = -1

    def empty(self, shape: Sequence[int], dtype: np.dtype) -> np.ndarray:
        """An uninitialised array in memory of the batch."""
        nbytes = math.prod(shape) * dtype.itemsize
        return np.ndarray(shape, dtype, self.take(nbytes)) if nbytes else np.empty(shape, dtype)

    def collector(self, output: int) -> Collector:
        """Gathers the samples of one output into memory of the batch."""
        return Collector(self.size, self.take, self.hints[output] if output < len(self.hints) else 0)
