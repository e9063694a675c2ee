"""One pass over a pipeline, ``for batch in pipe.epoch()``: its batches, the time that the loop waited, the progress bar."""

import warnings
import weakref
from collections.abc import Sequence
from typing import Any, Literal

from pipeflow import timing
from pipeflow.epochs.loop import ONE_AT_A_TIME, Loop
from pipeflow.errors import InvalidState, optional
from pipeflow.executor.batch import Wait
from pipeflow.executor.figures import ENOUGH_BATCHES, ExposedWait
from pipeflow.tensors import TensorListCPU


class Waits:
    """How long a loop has waited for its batches; the first one is not counted.

    The times are those of the executor, so that the advice and automatic settings count the same waits.
    """

    def __init__(self, batch: int, begun: float) -> None:
        self.batch, self.last = batch, begun  # the last one, and when it was there
        self.all = self.undisturbed = ExposedWait(0, 0.0, 0.0)

    def add(self, batch: int, wait: Wait) -> None:
        """Counts a wait for a batch; those of calls that were interrupted belong to the same step."""
        step = ExposedWait(int(batch != self.batch), wait.at - self.last, wait.at - wait.asked)
        self.all += step
        if not wait.disturbed:
            self.undisturbed += step
        self.batch, self.last = batch, wait.at

    @property
    def exposed(self) -> ExposedWait:
        """Without the steps that measuring disturbed, if there are enough others."""
        return self.undisturbed if self.undisturbed.steps >= ENOUGH_BATCHES else self.all


class Epoch:
    """One pass over a pipeline, for ``for batch in pipe.epoch()``. It begins with its first batch."""

    _state: Literal["new", "running", "done"] = "done"  # if __init__ was interrupted
    _meter: Any = None
    _asked = 0.0  # when the present call began
    _waits: "Waits | None" = None

    def __init__(self, loop: Loop, meter: Any = None) -> None:
        self._loop = loop
        self._meter = meter
        self._state = "new"

    def __iter__(self) -> "Epoch":
        return self

    def __next__(self) -> tuple[TensorListCPU, ...]:
        if self._state == "done":
            raise StopIteration
        if self._state == "new":
            walker = self._loop.walker and self._loop.walker()
            if walker is not None and walker is not self:
                raise InvalidState(ONE_AT_A_TIME)
            self._loop.start()
            self._loop.walker = weakref.ref(self)
            self._state = "running"
        self._asked = timing.wall()
        try:
            return self._loop.next(self._outputs)  # with nothing after it: an interrupt there would lose the batch
        except StopIteration:
            self.close()
            raise

    @property
    def exposed_wait(self) -> ExposedWait:
        """The time that the loop has waited for batches since the first one, and its share of a step. Print it."""
        return ExposedWait(0, 0.0, 0.0) if self._waits is None else self._waits.exposed

    def _note_wait(self, delivered: Any) -> None:
        wait = delivered.wait or Wait(self._asked, timing.wall())
        if self._waits is None:
            self._waits = Waits(delivered.index, wait.at)
        else:
            self._waits.add(delivered.index, wait)

    def _outputs(self, delivered: Sequence[Any], rows: Sequence[int]) -> tuple[TensorListCPU, ...]:
        del rows  # the policies of this loop keep batches whole
        self._note_wait(delivered[0])
        if self._meter is not None:
            self._meter(delivered[0])
        return delivered[0].outputs

    def __len__(self) -> int:
        return self._loop.length()

    @property
    def again(self) -> bool:
        """With a journal: True if the last batch had been delivered, but was not done, before the program was started
        again.
        """
        return self._loop.again

    def close(self) -> None:
        """Ends the pass; the next one begins a new epoch."""
        if self._state == "running":
            self._loop.walker = None
            self._loop.release()
        if self._state != "done":
            self._state = "done"
            if self._meter is not None:
                self._meter.close()

    def __del__(self) -> None:
        self.close()


class Meter:
    """A progress bar: throughput, the time the loop waited for batches, and the slowest operator."""

    def __init__(self, loop: Loop) -> None:
        try:
            bar = optional("tqdm.auto:tqdm", "a progress bar (progress=True)", "tqdm")
        except ModuleNotFoundError as error:
            warnings.warn(str(error), stacklevel=4)
            bar = None
        self._pipeline = loop.pipelines[0]
        self._executor = self._pipeline._built()
        self._measures = not self._pipeline._measuring  # else another caller is already measuring
        if self._measures:
            self._executor.measure(True)
        self._samples = 0
        self._waited = self._pipeline._waited
        self._started = timing.wall()
        self._bar = bar and bar(total=self._known(loop), initial=loop.at.step if not loop.at.over else 0, unit="batch")

    @staticmethod
    def _known(loop: Loop) -> int | None:
        try:
            return loop.length()
        except TypeError:
            return None

    def __call__(self, delivered: Any) -> None:
        self._samples += delivered.size
        if self._bar:
            self._bar.set_postfix_str(self.report(), refresh=False)
            self._bar.update(1)

    def report(self) -> str:
        """``1234 samples/s, waited 12%, slowest: decoders.image``"""
        passed = max(timing.wall() - self._started, 1e-9)
        waited = (self._pipeline._waited - self._waited) / passed
        slowest = self._executor.slowest()
        end = f", slowest: {slowest}" if slowest else ""
        return f"{self._samples / passed:.0f} samples/s, waited {100 * waited:.0f}%{end}"

    def close(self) -> None:
        """Ends the bar and the timing."""
        if self._measures:
            self._executor.measure(False)
        if self._bar:
            self._bar.close()
