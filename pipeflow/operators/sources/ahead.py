"""The parallel form of fn.external_source: callbacks are called in advance, in worker processes.

`Ahead` replaces a callback and gives the same data in the same order. Callables that get the number of the sample or batch may
be called in any worker. An iterator stays in one worker. If that worker dies, another one advances a new iterator to the same
position.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pipeflow import types
from pipeflow.declare import Request
from pipeflow.errors import Failed, function_name
from pipeflow.tensors import TensorListCPU, as_sample

Chunks = Sequence[tuple[int, Any]]  # first sample and ticket of each


class ParallelCallback:
    """A callback whose batches are made in worker processes, `depth` of them ahead; before `attach` it is called
    directly.
    """

    def __init__(self, make: Callable[[], Any], per_sample: bool, depth: int) -> None:
        self._make = make
        self._direct = make()
        self._per_sample = per_sample
        self._depth = depth
        self._pool: Any = None
        self._handle: Any = None
        self._pending: deque[tuple[Request, Chunks]] = deque()
        self._exhausted = False
        self._jumps = 0  # increases when an iterator must go to another item than the next one
        self._asked = 0  # items that were requested from an iterator
        self._delivered = 0
        if not self._direct.iterates and not self._direct.takes_info:
            raise TypeError(
                "parallel=True needs a callable that gets the number of the sample or batch, an iterable or a generator "
                f"function: {function_name(self.source)} takes no argument, so all workers would make the same data"
            )

    @property
    def source(self) -> Any:
        """The user's callable or iterable."""
        return self._direct.source

    @property
    def attached(self) -> bool:
        """True if worker processes do the work."""
        return self._pool is not None

    def attach(self, pool: Any) -> None:
        """Registers the source with the workers of a pool."""
        call: Any = IteratorInWorker(self._make, self._per_sample)
        if not self._direct.iterates:
            kind = "sample" if self._per_sample else "batch" if self._direct.batch_info else "iteration"
            call = CallInWorker(self.source, kind)
        self._handle = pool.register(call, name=function_name(self.source), keep_going=True)
        self._pool = pool

    def samples(self, request: Request) -> tuple[list[Any], dict[int, Exception]]:
        """The samples of a batch, and the errors of samples for which a callable failed. The last batch of an epoch may be
        shorter.
        """
        if not self.attached:
            return self._direct.samples(request)
        if self._exhausted:
            raise StopIteration
        rows: list[Any] = []
        failures: dict[int, Exception] = {}
        for start, ticket in self._take(request):
            for index, result in enumerate(ticket.result(), start):
                if isinstance(result, Failed):
                    error = result.error
                    if isinstance(error, StopIteration):
                        self._drop()
                        self._exhausted = bool(rows)
                        if not rows:
                            raise StopIteration
                        return rows, failures
                    if self._direct.iterates or not isinstance(error, Exception):
                        raise error
                    failures[index] = error
                    rows.append(None)
                elif self._direct.iterates:
                    rows, failures = result
                    self._delivered += len(rows)
                    self._exhausted = len(rows) < request.batch_size
                else:
                    rows.append(result)
        return rows, failures

    def batch(self, request: Request) -> Any:
        """A whole batch."""
        if not self.attached:
            return self._direct.batch(request)
        [(_, ticket)] = self._take(request)
        [result] = ticket.result()
        if isinstance(result, Failed):
            if isinstance(result.error, StopIteration):
                self._drop()
                raise StopIteration
            raise result.error
        self._delivered += 1
        return result

    def reset(self) -> None:
        """Starts a new epoch."""
        self._direct.reset()
        self._drop()
        self._exhausted = False
        if self._direct.cycle == "raise":
            self._go_to(0)

    def rewind(self) -> None:
        """Restarts data without a ``cycle``."""
        self._direct.rewind()
        if self._direct.starts_over:
            self._go_to(0)

    def unsaveable(self) -> str:
        """The reason why a checkpoint cannot have the position of this source; "" if it can."""
        if self.attached and hasattr(self.source, "get_state"):
            return (
                f"the state of {function_name(self.source)} lives in worker processes, where get_state() cannot reach it: "
                "use parallel=False, or a callable whose result depends only on its argument"
            )
        return self._direct.unsaveable()

    def unseekable(self) -> str:
        """The reason why it cannot go to a batch; "" if it can."""
        return self._direct.unseekable()

    def left(self, state: Any) -> int | None:
        """The number of items left after a state; None if it is not known."""
        return self._direct.left(state)

    def state(self) -> Any:
        """The position of an iterator; a callable that gets a number has no state."""
        if not self.attached:
            return self._direct.state()
        if not self._direct.iterates and not self._exhausted:
            return None
        return {"taken": self._delivered, "exhausted": self._exhausted}

    def restore(self, state: Any) -> None:
        """Restores a saved state."""
        if not self.attached:
            self._direct.restore(state)
            return
        self._drop()
        self._exhausted = bool(state and state["exhausted"])
        self._go_to(state["taken"] if state else 0)

    def _go_to(self, item: int) -> None:
        if self._direct.iterates:
            self._jumps += 1
            self._asked = self._delivered = item

    def _take(self, request: Request) -> Chunks:
        """The chunks of this batch; it also requests those of the following batches."""
        if self._pending and self._seen(self._pending[0][0]) != self._seen(request):
            self._drop()
            self._go_to(self._delivered)
        while len(self._pending) <= self._depth:
            following = request
            if self._pending:
                last = self._pending[-1][0]
                following = last._replace(iteration=last.iteration + 1, position=last.position + last.batch_size)
            self._pending.append((following, self._send(following)))
        return self._pending.popleft()[1]

    def _seen(self, request: Request) -> Any:
        """The part of a request that the result depends on: for a source of batches, sizes of earlier batches change nothing."""
        return request if self._per_sample else (request.iteration, request.epoch)

    def _send(self, request: Request) -> Chunks:
        if self._direct.iterates:
            order = (self._jumps, self._asked, request)
            self._asked += request.batch_size if self._per_sample else 1
            return [(0, self._pool.submit(self._handle, [order], pinned=0))]
        if not self._per_sample:
            return [(0, self._pool.submit(self._handle, [(request.iteration, request.epoch)]))]
        infos = [
            (request.position + index, index, request.iteration, request.epoch) for index in range(request.batch_size)
        ]
        size = self._pool.chunk_size(self._handle, len(infos))
        starts = range(0, len(infos), size)
        return [(start, self._pool.submit(self._handle, infos[start : start + size])) for start in starts]

    def _drop(self) -> None:
        """Drops the requests made in advance. Requests to an iterator still run, because they advance it."""
        if not self._direct.iterates:
            for _, chunks in self._pending:
                for _, ticket in chunks:
                    ticket.cancel()
        self._pending.clear()


class CallInWorker:
    """Calls a source with the info it wants."""

    def __init__(self, source: Callable[[Any], Any], kind: str) -> None:
        self.source = source
        self.kind = kind

    def __call__(self, *fields: int) -> Any:
        if self.kind == "sample":
            return portable(self.source(types.SampleInfo(*fields)))
        return portable(self.source(types.BatchInfo(*fields) if self.kind == "batch" else fields[0]))


class IteratorInWorker:
    """Advances an iterator in the worker; a new one is first advanced to the position of the old one."""

    def __init__(self, make: Callable[[], Any], per_sample: bool) -> None:
        self.make = make
        self.per_sample = per_sample
        self.callback: Any = None
        self.jumps = -1

    def __call__(self, jumps: int, asked: int, request: Request) -> Any:
        if self.callback is None:
            self.callback = self.make()
        if jumps != self.jumps:
            self.callback.restore({"taken": asked, "exhausted": False})
            self.jumps = jumps
        if not self.per_sample:
            return portable(self.callback.batch(request))
        rows, failures = self.callback.samples(request)
        return portable(rows), failures


def portable(value: Any) -> Any:
    """Results in which every tensor of another library is a NumPy array: arrays are sent without pickle."""
    if isinstance(value, TensorListCPU):
        return value.samples()
    if type(value) in (tuple, list):
        return type(value)(map(portable, value))
    if not isinstance(value, np.ndarray) and (hasattr(value, "__dlpack__") or hasattr(value, "__array__")):
        return as_sample(value)
    return value
