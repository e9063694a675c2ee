"""The ring of batches in flight, and the calls of the pipeline. The docstring of this package has the contract."""

import os
import sys
import threading
import weakref
from collections import deque
from collections.abc import Callable
from contextvars import Context
from functools import partial
from math import inf
from types import FrameType
from typing import Any

from pipeflow import system, timing
from pipeflow.backends.cpu import Arena, HeapPool
from pipeflow.declare import Ending
from pipeflow.device.runtime import Runtime
from pipeflow.errors import InvalidState, add_notes
from pipeflow.executor import device as devices
from pipeflow.executor.ahead import MadeAhead
from pipeflow.executor.automatic import adapt, tuner_of
from pipeflow.executor.batch import BatchRun, Delivered, Handing, KnownOutput
from pipeflow.executor.brisk import Brisk
from pipeflow.executor.claims import Claims
from pipeflow.executor.clocks import Lap
from pipeflow.executor.course import Course
from pipeflow.executor.crew import Crew, Gate
from pipeflow.executor.crowd import Crowd
from pipeflow.executor.failures import Failure, Failures
from pipeflow.executor.measuring import Measuring
from pipeflow.executor.runners.base import StageRunner
from pipeflow.executor.runners.column import ColumnStep
from pipeflow.executor.runners.source import SourceStep
from pipeflow.executor.runners.table import runner_of
from pipeflow.executor.settings import Settings
from pipeflow.executor.surroundings import Surroundings, weakly
from pipeflow.executor.watch import RunningCall, Watch
from pipeflow.executor.work import ThreadWork
from pipeflow.plan import Plan

STOCK = 16  # objects for batches that are made at once: when kernels have used the caches, one takes as long as five


class Executor(ThreadWork):
    """Runs one Plan.

    Callers take turns (``turn``). An interrupt can break off a call anywhere. Nothing is undone then, but
    the next call finishes the work. So every step is one assignment, or can be repeated.
    """

    def __init__(self, plan: Plan, settings: Settings, runtime: Runtime | None = None) -> None:
        assert settings.batch_size is not None
        system.keep_freed_memory()
        self.plan = plan
        self.settings = settings
        self.crew = Crew(settings.threads, settings.set_affinity)
        self.watch = Watch()
        plan = self.watch.over(plan)
        self.pool = HeapPool()
        self.course = Course(settings.batch_size, settings.enable_checkpointing)
        depth, size = settings.depth, settings.batch_size
        self.device = None if runtime is None else devices.device.Device(runtime, depth, size, settings.cuda_graph)
        surroundings = Surroundings(settings, self.pool, self.course, self.device, weakly(self._resume))
        surroundings.beside = self.crew.beside
        for number, step in enumerate(plan.stages[0].steps):
            item = SourceStep(plan, step, number)
            self.course.add(item)
            if item.op.fetches:
                surroundings.readers[step.name] = item.source
        self._give_workers(surroundings)
        self.columns = [[ColumnStep(plan, step) for step in stage.columns] for stage in plan.stages]
        self.stages: list[StageRunner] = [runner_of(plan, number, surroundings) for number in range(len(plan.stages))]
        plain = self.device is None and surroundings.known_workers is None
        self.ahead = MadeAhead.of(plan, self.columns, self.stages, self.pool, settings.batch_size) if plain else None
        self.failures = Failures(plan, self.stages, settings.max_failures)
        if self.failures.active:
            self.failures.contain()
        elif len(self.sources) == 1 and len(self.stages) > 1:  # another source might change the arrays of the first one
            self.sources[0].lends = self.stages[1].borrows()
        self.failures.epoch_size = self.course.epoch_size
        self.crew.workers = surroundings.known_workers
        for runner in self.stages:  # for the batches in flight, the delivered one and the one before it
            runner.reserve(settings.batch_size, settings.depth + 2)
        self.course.keepers = [stage.keeper for stage in self.stages if stage.keeper is not None]
        self.course.failures = self.failures.state
        self.course.mark()
        self.crew.wakers = [weakref.WeakMethod(item.source.close) for item in self.sources]
        self.turn = threading.RLock()  # a caller holds it while it schedules batches and waits for one
        self._lock = self.crew.lock
        self._moving: Callable[[], None] | None = None  # the rest of an interrupted reset or similar call
        self._ring: deque[BatchRun] = deque()
        self._stock: list[BatchRun] = []  # for batches that will be scheduled
        self._claims = Claims(self._ring, self.stages, self.crew.size)
        self._tasks = self._claims.tasks
        self._arena, self._lap = Arena(), Lap()
        self._gate = Gate()  # at which the caller that has the turn waits
        self._dropping = False  # a caller waits until no task runs; other callers are woken only for their batch
        self._at_work = 0  # the thread of the caller that makes a batch itself
        self.measuring = Measuring(plan, self.stages, settings)
        self.measures = self.measuring.measures
        look = partial(self.measuring.work, self.crew)
        self.tuner = tuner_of(settings, self.stages, self.device is not None, look, self.crew.workers is None)
        self._claims.alone = self.tuner is not None and self.tuner.alone
        self.crowd = Crowd.of(settings, self.stages, self.measuring.work) if self.device is None else None
        self._one_at_a_time = bool(plan.differentiable())
        self.synchronous = settings.synchronous  # callers make the batches; also if no thread can be started
        self.brisk = Brisk.of(settings, self.stages) if plain else None
        self._by_caller = False  # callers make the batches for as long as they are quick (``brisk.py``)
        self._scheduled = 0
        self._keys = plan.keys()
        self._outputs = KnownOutput.of(plan, self.device)
        self._more_ahead = max(runner.more_ahead for runner in self.stages)

    def _give_workers(self, surroundings: Surroundings) -> None:
        """Gives the worker processes to the sources that make their batches there."""
        for item in self.sources:
            if item.source.wants_workers:
                try:
                    item.source.use_workers(surroundings.workers)
                except Exception as error:
                    add_notes(error, item.step.notes())
                    raise

    # Calls of the pipeline.

    def fill(self, ahead: int) -> None:
        """Schedules batches until ``ahead`` are in flight; after the first only those that the sources can give at once."""
        self.check_caller()
        with self.turn:
            self._go_on()
            self._start()
            self._fill(ahead, 1)

    def _fill(self, ahead: int, needed: int) -> bool:
        """Schedules batches until ``ahead`` are in flight; after the ``needed`` ones only those that sources can give at once.
        True if so many are in flight now.
        """
        if self._by_caller or (self.brisk is not None and self.brisk.by_caller):  # the caller makes them, or will soon
            ahead = min(ahead, 1)
        elif ahead > 1 and not self.synchronous:
            ahead += self._more_ahead
        flying = self.in_flight
        if flying >= ahead:
            return True
        # No loop in this block: an interrupt at the jump of a loop leaves the lock closed in Python 3.13.
        with self._lock:
            return self._schedule_until(ahead, flying, needed)

    def _schedule_until(self, ahead: int, flying: int, needed: int) -> bool:
        while flying < ahead and not self.course.ended:
            if flying >= needed and self.course.limited and self._available() < 1:
                return False
            self._schedule()
            flying += 1
        return flying >= ahead

    def schedule(self) -> None:
        """Schedules one more batch."""
        self.check_caller()
        with self.turn:
            self._go_on()
            if self._one_at_a_time and self.in_flight:
                raise InvalidState(
                    "a differentiable pipeline has one batch at a time, and one is scheduled already: take it with outputs() "
                    "or share_outputs() first. Two would be made with the same parameters, and the optimizer step between "
                    "them would make the gradients of the second one wrong"
                )
            self._start()
            with self._lock:
                if not self.course.ended:
                    self._schedule()

    def take(self, handing: Handing, ahead: int = 0, first: int = 0) -> Delivered:
        """Waits for the oldest batch; StopIteration at the end of the epoch. ``handing.given()`` delivers it to the caller.

        Before that it schedules up to ``first`` batches, as ``fill`` does. After it, threads continue with up to ``ahead`` more
        batches, as far as the sources can give them at once. The caller has called ``check_caller``.
        """
        with self.turn:
            self._go_on()
            if len(self.crew.threads) < self.crew.size:
                self._start()
            enough = self._fill(first, 1) if first else False
            if self.device is not None:
                self.device.collect()
            batch = self._next(handing.thread)
            asked, used = timing.wall(), self.measures.loop_clock()
            ready = self.ready if batch.done else 0
            try:
                if self._by_caller:
                    Context().run(self._make, batch)  # without settings of the caller, such as np.errstate
                elif self.settings.synchronous:
                    self._make(batch)
                elif self.synchronous:
                    self._work_off(batch)
                elif not batch.done:
                    self._wait(batch)
            except BaseException:
                batch.copy_lent()  # the next call makes the batch again, and the source may have changed its arrays by then
                raise
            if batch.ended:
                self.course.at_end()
                raise StopIteration
            before = self.measures.last
            with self._lock:
                if turn := self.measuring.delivered(batch, asked, ready, self.crew.threads, used):
                    self._claims.threads = turn
                if not self._by_caller and (self.tuner is not None or self.crowd is not None):
                    adapt(self.tuner, self.crowd, self._claims, self.crew, self.pool, self.measures.last, asked)
            error = None
            if batch.error is not None or batch.failures or batch.incidents:
                error = self.failures.judge(batch) or batch.failure()
            if error is None and self.settings.enable_memory_stats:
                self.measuring.count_bytes(batch)
            outputs, rows = (), batch.rows()
            if error is None:
                try:
                    outputs = batch.outputs(self._outputs, rows)
                except Exception as unfit:
                    error = unfit
            delivered = Delivered.of(batch, outputs, rows, error)
            batch.handing = handing
            if self.brisk is not None and not self.measuring.on and (self.tuner is None or self.tuner.settled):
                self.brisk.delivered(asked - before, self.measures.last - before)
            # If enough batches were in flight before this one was taken, there are `ahead` now.
            if not (
                self.synchronous or (enough and ahead < first) or (self.brisk is not None and self.brisk.by_caller)
            ):
                self._fill(ahead, 0)
            return delivered

    def _change_hands(self, by_caller: bool) -> None:
        """From now on the caller makes the batches, or no longer. Batches in flight are taken before."""
        if self.in_flight or self.synchronous is not self._by_caller:
            return
        if self._tasks:  # a thread has made the last batch, and has not yet noted it
            self._dropping = True
            self._wait()
            self._dropping = False
        if self.tuner is not None:
            self.tuner.interrupt()
        self.synchronous = self._by_caller = by_caller

    def _next(self, caller: threading.Thread) -> BatchRun:
        """The oldest batch that no other caller has."""
        for batch in self._ring:
            if batch.handing is None or batch.handing.is_for(caller):
                return batch
        if self.course.ended:
            raise StopIteration
        raise InvalidState("there is no scheduled batch to take")

    def state(self) -> dict[str, Any]:
        """The state of the pipeline after the last delivered batch. Batches made ahead do not change it."""
        with self._lock:
            self._settle()
        return self.course.state()

    def log(self) -> list[Failure]:
        """The last failures of the delivered batches."""
        with self._lock:
            self._settle()
        return list(self.failures.log)

    def _settle(self) -> None:
        """Counts the delivered batches; under the lock."""
        while self._ring and (handing := self._ring[0].handing) is not None and handing.done:
            self.failures.account(self._ring[0])
            self.course.taken(self._ring[0])
            self._ring.popleft()

    def _go_on(self) -> None:
        """Finishes the work of an interrupted call. The pipeline may have been closed while the caller waited for its turn."""
        if self.crew.closing:
            self.check_caller()
        if self._moving is not None:
            self._move()
        if self._ring:
            with self._lock:
                self._settle()
        if self.brisk is not None and self.brisk.by_caller is not self._by_caller:
            self._change_hands(self.brisk.by_caller)

    def _start(self) -> None:
        """Starts the threads, if threads make the batches."""
        if len(self.crew.threads) < self.crew.size and not self.synchronous:
            self.crew.start(self)
            self.synchronous = self.crew.alone

    # Going to another place.

    def reset(self, rewind: bool = False, state: dict[str, Any] | None = None) -> None:
        """Drops batches that were not delivered and starts the epoch after ``state``, by default that of the last delivered one.

        ``rewind`` also restarts sources without a ``cycle``.
        """
        self._elsewhere(lambda: partial(self.course.reset, state or self.state(), rewind))

    def go_to(self, state: dict[str, Any], ending: Ending | None = None) -> None:
        """Drops batches that were not delivered and goes to a saved state; ``ending`` says how readers end epochs from now on."""

        def go() -> None:
            self.course.go_to(state, ending)
            self.failures.restore(state.get("failures"))

        self._elsewhere(lambda: go)

    def end_epochs(self, ending: Ending) -> None:
        """Sets how readers end their epochs from now on; batches that were made ahead are made again."""
        if self.course.ending != ending:
            self._elsewhere(lambda: partial(self.course.go_to, self.state(), ending))

    def next_epoch(self, state: dict[str, Any]) -> None:
        """Goes from the epoch of a state to the next one, which only readers can do without a reset."""
        self._elsewhere(lambda: partial(self.course.next_epoch, state))

    def seek(self, step: int, epoch: int) -> None:
        """Goes to batch ``step`` of ``epoch``; every source can be read there, and nothing keeps a state."""
        self._elsewhere(lambda: partial(self.course.seek, step, epoch))

    def _elsewhere(self, destination: Callable[[], Callable[[], None]]) -> None:
        self.check_caller()
        with self.turn:
            self._go_on()
            self._moving = destination()
            self._move()

    def _move(self) -> None:
        """Goes to the place of ``_moving``; after an interrupt from the beginning."""
        go = self._moving
        assert go is not None
        try:
            self._drop()
            go()
        except Exception:
            self._moving = None
            raise
        self._moving = None

    def _drop(self) -> None:
        """Empties the ring and waits for running tasks, so that no source is used twice at the same time."""
        self._ring.clear()
        if self.synchronous:
            self._tasks.clear()
        else:
            self._dropping = True
            self._wait()
            self._dropping = False
        if self.ahead is not None:
            self.ahead.forget()

    def close(self) -> None:
        """Ends the threads; running tasks are finished first, nothing new is started."""
        self.crew.close()
        if self.device is not None:
            self.device.runtime.close()

    def shared_memory(self) -> list[int]:
        """The sizes of the blocks of shared memory in which worker processes have put their results."""
        return [] if self.crew.workers is None else self.crew.workers.result_blocks()

    # Scheduling; all of it under the lock.

    def _schedule(self) -> None:
        if not self._stock:
            count = STOCK if self._scheduled else 1
            self._stock += [BatchRun(0, len(self.plan.slots), self._keys, self.plan.origins) for _ in range(count)]
        batch = self._stock.pop()
        batch.index = self._scheduled
        self._scheduled += 1
        self._ring.append(batch)
        if self.crew.idle and not self._by_caller:
            self.crew.wake(self._claims.room)

    def _available(self) -> float:
        """The number of batches that the sources can give, less those that are scheduled and not yet read."""
        given = self.course.available()
        return given if given == inf else given - sum(batch.stage == 0 for batch in self._ring)

    # The work of callers.

    def _work_off(self, batch: BatchRun) -> None:
        """Makes a batch in the caller's thread, because no other can be started: it takes the strands of a stage in turn."""
        self._at_work = threading.get_ident()
        self._lap.start()
        if batch.begun and not batch.done:
            self._make_again(batch)
        batch.begun = True
        while not batch.done:
            with self._lock:
                task = self.claim()
            assert task is not None, "a batch that is not done has work"
            self.perform(task, self._arena, self._lap)
        self._at_work = 0

    def _make(self, batch: BatchRun) -> None:
        """Makes a batch in the caller's thread: no other thread works, so nothing has to be claimed."""
        self._at_work = threading.get_ident()
        if batch.begun and not batch.done:
            self._make_again(batch)
        batch.begun = True
        self._lap.start()
        while not batch.done:
            runner, clock, begin = self.stages[batch.stage], self.measures.stages[batch.stage], batch.cursor
            end = min(begin + runner.chunk(batch.size - begin, 1, 1), batch.size) if runner.per_sample else begin
            self._lap.enter(clock)
            try:
                runner.run(batch, begin, end, self._arena)
            except Exception as error:
                batch.fail(error, runner.blamed)
            batch.cursor = end
            if end == batch.size or not runner.per_sample:
                self._advance(batch)
            self._lap.leave(clock, batch.index, end - begin)
        self._at_work = 0

    def _works_off(self) -> bool:
        """True if the caller is a function that this thread runs for a batch. After an interrupt only the stack shows it."""
        if self._at_work != threading.get_ident():
            return False
        makers = Executor._make.__code__, Executor._work_off.__code__
        frame: FrameType | None = sys._getframe()
        while frame is not None:
            if frame.f_code in makers and frame.f_locals["self"] is self:
                return True
            frame = frame.f_back
        return False

    def _make_again(self, batch: BatchRun) -> None:
        """Makes an interrupted batch again: from the samples of its sources, or with the sources."""
        if self.ahead is not None:
            self.ahead.forget()
        self._tasks.clear()
        try:
            earlier = [item for item in self._ring if item.index < batch.index]
            if batch.after is not None:
                self.course.at = batch.after
                for keeper in self.course.keepers:
                    keeper.restore(self.course.states_after(earlier))
                batch.make_again()
                self._advance(batch)
            else:
                self.course.go_back(earlier)
                batch.claimed = False
        except InvalidState as error:
            add_notes(error, ["a batch was interrupted while it was made; reset() starts the epoch over"])
            raise

    def _resume(self, batch: BatchRun) -> None:
        """Called when the worker processes are done with a batch."""
        if not self.synchronous:
            with self._lock:
                batch.claimed = False
                self.crew.wake(self._claims.room)

    def _wait(self, batch: BatchRun | None = None) -> None:
        """Waits until a batch is done, or else until no task is left, and gives up calls that exceed their time limit."""
        gate, late = self._gate, False
        while True:
            with self._lock:
                if not self._tasks if batch is None else batch.done:
                    return
                if late and self.crowd is not None:  # perhaps a function waits for work that has no thread
                    self._claims.threads = self.crowd.lift()
                if self.crew.closing:
                    raise InvalidState("the pipeline is closed")
                if self.crew.idle and self._claims.oldest() is not None:
                    self.crew.wake(self._claims.room)  # an interrupted call may not have done it
                if gate not in self.crew.callers:
                    self.crew.callers.append(gate)
            patience = self.watch.patience()
            late = not gate.wait_a_while(patience if self.crowd is None else self.crowd.patience(patience))
            for call in () if patience is None else self.watch.overdue():
                with self._lock:
                    self._give_up(call)
                self.crew.start(self)

    def _give_up(self, call: RunningCall) -> None:
        """Fails the batch of a call that is overdue, and gives up its thread; after an interrupt it is called again."""
        thread = self.crew.helps.get(call.thread, call.thread)
        task = self._tasks.get(thread)
        if task is not None:
            batch = task.batch
            for runner in self.stages:  # perhaps of an earlier stage, if a row is made again
                found = [item for item in runner.steps if item.calls(call.function)]
                if found:
                    batch.fail(call.error(), found[0].step, -1 if task.over else runner.sample_of(batch, call))
                    runner.let_go()
                    break
            else:  # on a device, whose steps are not run one by one
                batch.fail(call.error(), None)
            self._end(batch)
            self.crew.leave(thread)
            self._tasks.pop(thread)
        self.watch.forget(call)

    def check_caller(self) -> None:
        """Refuses callers that would wait forever, before they wait for their turn."""
        if os.getpid() != self.crew.process:
            raise InvalidState(
                "this pipeline was built in another process: after fork its threads do not exist here. Build it in the child, "
                "or start the child before the pipeline"
            )
        if self.crew.closing:
            raise InvalidState("the pipeline is closed")
        if self.crew.inside.active or (self._at_work and self._works_off()):
            error = InvalidState("a function of a pipeline cannot run that same pipeline: it would wait for itself")
            add_notes(error, ["pass the data that the function needs as another input"])
            raise error
