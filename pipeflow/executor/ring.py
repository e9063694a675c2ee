"""The ring of batches in flight, and what threads do with them. The contract stands in this package's docstring."""

import os
import threading
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pipeflow import timing
from pipeflow.backends.cpu import Arena, HeapPool
from pipeflow.compile.plan import Plan
from pipeflow.declare import Ending
from pipeflow.device.runtime import Runtime
from pipeflow.errors import InvalidState, add_notes
from pipeflow.executor.batch import BatchRun, Delivered
from pipeflow.executor.clocks import Lap, Measures, Rival
from pipeflow.executor.course import Course
from pipeflow.executor.crew import Crew
from pipeflow.executor.device.device import Device
from pipeflow.executor.failures import Failures
from pipeflow.executor.figures import Statistics
from pipeflow.executor.runners.base import BoundStep, StageRunner
from pipeflow.executor.runners.column import ColumnStep
from pipeflow.executor.runners.source import SourceStep
from pipeflow.executor.runners.table import runner_of
from pipeflow.executor.settings import Settings
from pipeflow.executor.surroundings import Surroundings
from pipeflow.executor.watch import Running, Watch
from pipeflow.kernels import counts


@dataclass
class _Task:
    batch: BatchRun
    begin: int
    end: int
    over: bool = False  # its samples are done; what it does now is for the batch as a whole, or for rows made again


class Executor:
    """Runs one Plan. ``schedule`` and ``take`` are for one thread at a time."""

    def __init__(self, plan: Plan, settings: Settings, runtime: Runtime | None = None) -> None:
        assert settings.batch_size is not None
        self.plan = plan
        self.settings = settings
        self.crew = Crew(settings.threads, settings.set_affinity)
        self.watch = Watch()
        plan = self.watch.over(plan)
        self.pool = HeapPool()
        self.course = Course(settings.batch_size, settings.enable_checkpointing)
        self.device = None if runtime is None else Device(runtime, settings.depth, settings.batch_size)
        surroundings = Surroundings(settings, self.pool, self.course, self.device, _weakly(self._resume))
        for number, step in enumerate(plan.stages[0].steps):
            item = SourceStep(plan, step, number)
            self.course.add(item)
            if item.op.fetches:
                surroundings.fetches[step.name] = item.source.fetch
        self._give_workers(surroundings)
        self.columns = [[ColumnStep(plan, step) for step in stage.columns] for stage in plan.stages]
        self.stages: list[StageRunner] = [runner_of(plan, number, surroundings) for number in range(len(plan.stages))]
        self.failures = Failures(plan, self.stages, settings.max_failures)
        if self.failures.active:
            self.failures.contain()
        self.crew.workers = surroundings.known_workers
        for runner in self.stages:  # for the batches in flight, the one handed out and the one before it
            runner.reserve(settings.batch_size, settings.depth + 2)
        self.course.keepers = [stage.keeper for stage in self.stages if stage.keeper is not None]
        self.course.failures = self.failures.state
        self.course.mark()
        self.crew.wakers = [weakref.WeakMethod(item.source.close) for item in self.sources]
        self._lock = self.crew.lock
        self._work = self.crew.work
        self._finished = self.crew.finished
        self._ring: deque[BatchRun] = deque()
        self._tasks: dict[int, _Task] = {}  # what the threads work on, by thread
        self._arena, self._lap = Arena(), Lap()
        self.measures = Measures(plan)
        self._warm = False  # the first batch has been delivered; what it cost is not counted
        self._one_at_a_time = bool(plan.differentiable())
        self._running = 0
        self._draining = False  # whether a caller waits until nothing runs
        self._scheduled = 0
        self._sizes: dict[str, dict[str, Any]] = {}
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

    # What the owner calls.

    @property
    def in_flight(self) -> int:
        """How many scheduled batches have not been taken."""
        return len(self._ring)

    def fill(self, ahead: int, needed: int = 1) -> None:
        """Schedules batches until ``ahead`` are in flight; beyond the ``needed`` only what the sources can give at once."""
        self._check_usable()
        if ahead > 1 and not self.settings.synchronous:
            ahead += self._more_ahead
        with self._lock:
            while len(self._ring) < ahead and not self.course.ended:
                if len(self._ring) >= needed and self._available() < 1:
                    return
                self._schedule()

    def schedule(self) -> None:
        """Schedules one more batch."""
        self._check_usable()
        if self._one_at_a_time and self._ring:
            raise InvalidState(
                "a differentiable pipeline has one batch at a time, and one is scheduled already: take it with outputs() or "
                "share_outputs() first. Two would be made with the same parameters, and the optimizer step between them would "
                "make the gradients of the second one wrong"
            )
        with self._lock:
            if not self.course.ended:
                self._schedule()

    def take(self) -> Delivered:
        """The oldest batch: waits for it, or raises its error, or StopIteration at the end of the epoch."""
        self._check_usable()
        if not self._ring:
            if self.course.ended:
                raise StopIteration
            raise InvalidState("there is no scheduled batch to take")
        if self.device is not None:
            self.device.collect()
        batch = self._ring[0]
        asked = timing.wall()
        ready = len([1 for item in list(self._ring) if item.done]) if batch.done else 0
        if self.settings.synchronous:
            self._work_off(batch)
        else:
            with self._lock:
                while not batch.done:
                    self._wait()
        if batch.ended:
            self.course.at_end()
            raise StopIteration
        with self._lock:
            self._ring.popleft()
            if self._warm:
                self.measures.delivered(asked, ready, batch.size)
            else:
                self._warm = True
                self._begin_measuring()
        error = batch.failure() or self.failures.account(batch)
        self.course.taken(batch)
        if error is not None:
            raise error
        if self.settings.enable_memory_stats:
            self._measure(batch)
        return Delivered.of(batch, batch.outputs(self.plan, self.device))

    def reset(self, rewind: bool = False) -> None:
        """Drops what was not delivered and starts the next epoch; ``rewind`` restarts sources that were not told to cycle."""
        self._elsewhere(lambda: self.course.reset(rewind))

    def go_to(self, state: dict[str, Any], ending: Ending | None = None) -> None:
        """Drops what was not delivered and goes to a saved state; ``ending`` says how readers end their epochs from now on."""

        def go() -> None:
            self.course.go_to(state, ending)
            self.failures.restore(state.get("failures"))

        self._elsewhere(go)

    def next_epoch(self) -> None:
        """Leaves an epoch that has begun for the next one, which readers alone can do without a reset."""
        self._elsewhere(self.course.next_epoch)

    def seek(self, step: int, epoch: int) -> None:
        """Goes to batch ``step`` of ``epoch``; every source can be asked for it and nothing keeps a state of its own."""
        self._elsewhere(lambda: self.course.seek(step, epoch))

    def _elsewhere(self, go: Callable[[], None]) -> None:
        self._check_usable()
        with self._lock:
            self._drop()
            go()

    def close(self) -> None:
        """Ends the threads; what is running is finished first, nothing new is started."""
        self.crew.close()

    def start_workers(self) -> None:
        """Starts the worker processes if the plan needs any; the first batch does it too."""
        if self.crew.workers is not None:
            self.crew.workers.start()

    def shared_memory(self) -> list[int]:
        """The sizes of the blocks of shared memory in which worker processes have put their results."""
        return [] if self.crew.workers is None else self.crew.workers.result_blocks()

    # Questions.

    @property
    def sources(self) -> list[SourceStep]:
        """The sources, made ready."""
        return self.course.sources

    @property
    def readers(self) -> list[SourceStep]:
        """The sources whose epochs follow each other without a reset."""
        return self.course.readers

    def statistics(self) -> dict[str, Any]:
        """Per operator the bytes of its outputs (with ``memory_stats``), the state of the pool under "pool", and under "counts"
        what kernels have counted."""
        result: dict[str, Any] = {name: dict(sizes) for name, sizes in self._sizes.items()}
        for figure in self.figures().steps if self._warm and self.measures.batches else ():
            known = result.setdefault(figure.name, {})
            known["seconds"], known["busy_seconds"], known["waiting_seconds"] = (
                figure.seconds,
                figure.busy,
                figure.waited,
            )
            known["gil_seconds"] = figure.kept
        result["pool"] = {"allocations": self.pool.allocations, "reserved": self.pool.reserved}
        if self.device is not None:
            result["gpu"] = self.device.statistics()
        counted = counts.total(self.crew.threads)
        if counted:
            result["counts"] = dict(counted)
        return result

    def figures(self) -> Statistics:
        """What was measured since the first batch was delivered, or since ``measure``."""
        with self._lock:
            return self.measures.statistics(self._parts(), self.settings, self.crew.threads)

    def measure(self, on: bool, race: bool = False) -> None:
        """Starts or stops per-step timing; with ``race`` also how long each function keeps the interpreter."""
        with self._lock:
            rival, self.measures.rival = self.measures.rival, Rival() if on and race else None
            for part in self._parts():
                for item in part:
                    item.rival = self.measures.rival if item.step.user_code else None
            for stage in self.stages:
                stage.measure(on)
            if on:
                self._warm = True
                self._begin_measuring()
        if rival is not None:
            rival.close()

    def _parts(self) -> list[Sequence[BoundStep]]:
        """For every stage its steps that have clocks."""
        return [stage.steps for stage in self.stages]

    def _begin_measuring(self) -> None:
        self.measures.begin(self.crew.threads)
        for part in self._parts():
            for item in part:
                item.reset_clock()

    def slowest(self) -> str:
        """The operator that has taken most time, "" where none has."""
        stages = zip(self.measures.stages, self.plan.stages)
        steps = [(clock, stage.steps[0].op) for clock, stage in stages if len(stage.steps) == 1]
        steps += [(item.clock, item.step.op) for part in self._parts() if len(part) > 1 for item in part]
        clock, name = max(steps, key=lambda pair: pair[0].seconds, default=(None, ""))
        return name if clock is not None and clock.seconds > 0 else ""

    def _measure(self, batch: BatchRun) -> None:
        for step in self.plan.steps():
            totals, largest = [], []
            for slot in step.outputs:
                values = batch.values[slot]
                if values is None:
                    continue  # it lay in a thread's arena
                sizes = (
                    [x.nbytes for x in values if x is not None]
                    if isinstance(values, list)
                    else [values.nbytes // max(len(values), 1)] * len(values)
                )
                totals.append(sum(sizes))
                largest.append(max(sizes, default=0))
            known = self._sizes.setdefault(step.name, {})
            for key, sizes in (("real_memory_size", totals), ("reserved_memory_size", totals)):
                known[key] = sizes
            known["max_real_memory_size"] = [
                max(pair) for pair in zip(known.get("max_real_memory_size", largest), largest)
            ]
            known["max_reserved_memory_size"] = known["max_real_memory_size"]

    # Scheduling; all of it under the lock.

    def _schedule(self) -> None:
        batch = BatchRun(self._scheduled, len(self.plan.slots))
        self._scheduled += 1
        self._ring.append(batch)
        if self.settings.synchronous:
            return
        if not self.crew.threads:
            self.crew.start(self)
        self._work.notify()

    def _available(self) -> float:
        """How many batches the sources can give beyond those that are scheduled and not yet read."""
        unread = sum(batch.stage == 0 for batch in self._ring)
        return min([item.source.available() for item in self.sources], default=float("inf")) - unread

    def claim(self) -> _Task | None:
        """Takes the oldest work that no thread has."""
        batch = self._unclaimed()
        if batch is None:
            return None
        begin = end = 0
        runner = self.stages[batch.stage]
        if runner.per_sample:
            begin = batch.cursor
            batch.cursor = end = min(begin + runner.chunk(batch.size - begin, self.crew.size), batch.size)
        else:
            batch.claimed = True
        self._running += 1
        if self._running > self.measures.peak:
            self.measures.peak = self._running
        # More than one thread can do: each that takes something wakes the next. To look costs a tenth of waking for nothing.
        if self.crew.idle and self._unclaimed() is not None:
            self._work.notify()
        return _Task(batch, begin, end)

    def _unclaimed(self) -> BatchRun | None:
        """The batch with the oldest work that no thread has."""
        passed = len(self.stages)  # the stage that every earlier batch has reached
        waiting = None  # the oldest batch that must wait for something: a thread does so if there is nothing else
        for batch in self._ring:
            if batch.done:
                continue
            runner = self.stages[batch.stage]
            if runner.per_sample:
                if batch.cursor < batch.size:
                    return batch
            elif not batch.claimed and (not runner.ordered or passed > batch.stage):
                if not runner.waits or runner.ready(batch):
                    return batch
                waiting = waiting or batch
            passed = min(passed, batch.stage)
        return waiting

    def _drop(self) -> None:
        """Empties the ring; waits for what is running, so that no source is used by two."""
        self._ring.clear()
        self._draining = True
        while self._running:
            self._wait()
        self._draining = False

    # The work.

    def _work_off(self, batch: BatchRun) -> None:
        """Runs the ring in the caller's thread until a batch is done."""
        self.crew.inside.active = True
        self._lap.start()
        try:
            while not batch.done:
                with self._lock:
                    task = self.claim()
                assert task is not None, "a batch that is not done has work"
                self.perform(task, self._arena, self._lap)
        finally:
            self.crew.inside.active = False

    def perform(self, task: _Task, arena: Arena, lap: Lap) -> None:
        """One task, on the thread whose arena and marks these are."""
        batch = task.batch
        interrupted = None
        waits = False  # the batch is with the worker processes and comes back by itself
        stage = batch.stage
        runner = self.stages[stage]
        clock = self.measures.stages[stage]
        lap.enter(clock)
        thread = threading.get_ident()
        self._tasks[thread] = task
        self.watch.begin(thread)
        try:
            waits = runner.run(batch, task.begin, task.end, arena)
            if runner.keeper is not None:
                batch.states[runner.keeper.name] = runner.keeper.snapshot()
        except Exception as error:
            batch.fail(error, runner.blamed)
        except BaseException as error:
            # an interrupt in synchronous mode, or SystemExit out of user code: the batch is lost, the ring is not
            batch.fail(error, None)
            interrupted = error if self.settings.synchronous else None
        with self._lock:
            task.over = True
            batch.pending -= task.end - task.begin
            finished = not batch.pending and not waits and not batch.done
        if finished:
            self._advance(batch)
        with self._lock:
            del self._tasks[thread]
            if thread in self.crew.hanging:
                return
            lap.leave(clock)
            self._running -= 1
            if batch.done or self._draining:
                self._finished.notify_all()
            # No thread is woken for what has become claimable: this one asks for work now, and wakes others if there is more.
        if interrupted is not None:
            raise interrupted

    def _resume(self, batch: BatchRun) -> None:
        """Called when the worker processes are done with a batch."""
        if not self.settings.synchronous:
            with self._lock:
                batch.claimed = False
                self._work.notify()

    def _wait(self) -> None:
        """Waits until something is finished, and gives up the calls that take longer than they may; called under the lock."""
        self._finished.wait(self.watch.patience())
        for call in self.watch.overdue():
            self._give_up(call)

    def _give_up(self, call: Running) -> None:
        """Fails the batch of a call that is overdue, and puts another thread into the place of the one that hangs."""
        task = self._tasks.get(call.thread)
        if task is None or call.thread in self.crew.hanging:
            return
        batch = task.batch
        for runner in self.stages:  # of an earlier stage, perhaps: where a row is made again
            found = [item for item in runner.steps if item.calls(call.function)]
            if found:
                batch.fail(call.error(), found[0].step, -1 if task.over else runner.sample_of(batch, call))
                runner.let_go()
                break
        else:  # on a device, whose steps are not run one by one
            batch.fail(call.error(), None)
        self._end(batch)
        self._running -= 1
        self.crew.replace(self, call.thread)

    def _end(self, batch: BatchRun) -> None:
        """Marks a batch as over."""
        batch.done = True
        batch.region = None
        batch.stage = len(self.stages)

    def _advance(self, batch: BatchRun) -> None:
        """Takes a batch that has finished a stage into the next one that has work for it."""
        stage = batch.stage
        following = stage + 1
        over = batch.ended
        if over:
            self._end_of_epoch(batch)
        try:
            if not over:
                if batch.error is None:
                    self.stages[stage].finish(batch)
                if batch.failures and self.failures.active:
                    self.failures.settle(batch, stage)
                if stage == 0 and batch.error is None:
                    self._compute_columns(batch, 0)
                over = batch.error is not None or bool(batch.failures) or following == len(self.stages)
            if not over:
                self._compute_columns(batch, following)
                over = batch.error is not None
            if not over:
                self.stages[following].enter(batch)
        except Exception as error:
            batch.fail(error, None)
            over = True
        with self._lock:
            if batch.done:  # given up because a function did not return
                return
            if over:
                self._end(batch)
                return
            per_sample = self.stages[following].per_sample
            batch.cursor = 0
            batch.claimed = False
            batch.pending = batch.size if per_sample else 0
            batch.stage = following
            empty = per_sample and not batch.size
        if empty:
            self._advance(batch)

    def _end_of_epoch(self, batch: BatchRun) -> None:
        """A source has no more data: batches that were scheduled after this one are dropped unread."""
        with self._lock:
            self.course.ended = True
            while self._ring and self._ring[-1].index > batch.index:
                self._ring.pop()

    def _compute_columns(self, batch: BatchRun, stage: int) -> None:
        for item in self.columns[stage]:
            try:
                item.run(batch, self.pool)
            except Exception as error:
                batch.fail(error, item.step)
                return

    def _check_usable(self) -> None:
        if os.getpid() != self.crew.process:
            raise InvalidState(
                "this pipeline was built in another process: after fork its threads do not exist here. Build it in the child, "
                "or start the child before the pipeline"
            )
        if self.crew.closing:
            raise InvalidState("the pipeline is closed")
        if getattr(self.crew.inside, "active", False):
            error = InvalidState("a function of a pipeline cannot run that same pipeline: it would wait for itself")
            add_notes(error, ["give the function what it needs as another input"])
            raise error


def _weakly(method: Callable[[BatchRun], None]) -> Callable[[BatchRun], None]:
    """The method as long as its object is alive: what holds this does not hold the object."""
    reference = weakref.WeakMethod(method)

    def call(batch: BatchRun) -> None:
        alive = reference()
        if alive is not None:
            alive(batch)

    return call
