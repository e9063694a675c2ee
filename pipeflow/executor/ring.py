"""The ring of batches in flight and the threads that work on it. The contract stands in this package's docstring."""

import os
import threading
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from pipeflow import timing
from pipeflow.backends.cpu import Arena, HeapPool
from pipeflow.compile.plan import Plan
from pipeflow.declare import Ending, Request
from pipeflow.device.runtime import Runtime
from pipeflow.errors import InvalidState, add_notes
from pipeflow.executor import workers
from pipeflow.executor.batch import BatchRun
from pipeflow.executor.clocks import Lap, Measures, Rival
from pipeflow.executor.device import ArrivalStage, Device, FunctionStage, Segment
from pipeflow.executor.failures import Failures
from pipeflow.executor.figures import Statistics
from pipeflow.executor.steps import BoundStep, ColumnStep, Keeper, SampleStage, SourceStep, WholeStep
from pipeflow.executor.watch import Running, Watch
from pipeflow.kernels import counts
from pipeflow.tensors import slab_size

if TYPE_CHECKING:
    from pipeflow.executor.workers.pool import WorkerPool
    from pipeflow.executor.workers.stage import ProcessStep

# Batches in flight beyond those asked for, where worker processes run functions: a batch passes five threads on its way from
# the workers to the consumer and back to the source, and on busy cores each of them waits for its turn while workers run dry.
# Two workers with a function of 1 ms on a machine at twice its load: 605 us a sample without, 423 with two more, 440 with four.
MORE_FOR_WORKERS = 2
CLOSE_SECONDS = 5.0  # how long close() waits for a step that is running


@dataclass(frozen=True)
class Options:
    """How to run a Plan; none of it changes results."""

    batch_size: int
    num_threads: int = 1
    depth: int = 2
    synchronous: bool = False
    memory_stats: bool = False
    affinity: bool = False
    checkpointing: bool = False  # ask objects of the user for their state after every batch
    py_num_workers: int = 1
    py_start_method: str = "forkserver"
    max_failures: Any = None
    one_at_a_time: bool = False  # what the plan allows; synchronous then


@dataclass
class Delivered:
    """One batch as handed to the user."""

    outputs: tuple[Any, ...]  # of TensorListCPU or TensorListGPU
    index: int
    epoch: int
    iteration: int
    size: int
    positions: np.ndarray
    padding: np.ndarray | None  # samples that are there only to fill the batch


@dataclass
class _Task:
    batch: BatchRun
    begin: int
    end: int
    over: bool = False  # its samples are done; what it does now is for the batch as a whole, or for rows made again


class Crew:
    """The threads of an executor and what they wait for.

    It refers to the executor weakly, and so do its threads while they wait: a pipeline that can be reached only from its own
    functions is collected like any other garbage, and its threads end.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.work = threading.Condition(self.lock)
        self.finished = threading.Condition(self.lock)
        self.threads: list[threading.Thread] = []
        self.idle = 0
        self.closing = False
        self.wakers: list[weakref.WeakMethod[Callable[[], None]]] = []
        self.inside = threading.local()
        self.process = os.getpid()
        self.workers: WorkerPool | None = None
        self.hanging: set[int] = set()  # threads that hang in a function and have a successor

    def start(self, executor: "Executor") -> None:
        """Starts the worker processes, where the plan needs any, and then the threads."""
        if self.workers is not None:
            self.workers.start()
        for number in range(executor.options.num_threads):
            self._start_thread(executor, number)

    def replace(self, executor: "Executor", identity: int) -> None:
        """Leaves a thread that hangs to itself and starts another in its place; called under the lock."""
        self.hanging.add(identity)
        gone = [thread for thread in self.threads if thread.ident == identity]
        self.threads = [thread for thread in self.threads if thread not in gone]
        self._start_thread(executor, len(self.threads))

    def _start_thread(self, executor: "Executor", number: int) -> None:
        arguments = (weakref.ref(executor), number, executor.options.affinity)
        thread = threading.Thread(target=self._serve, args=arguments, name=f"pipeflow-{number}", daemon=True)
        self.threads.append(thread)
        thread.start()

    def close(self) -> None:
        """Ends the threads: what is running is finished first, nothing new is started."""
        if os.getpid() != self.process:
            return
        self.closing = True
        if threading.current_thread() in self.threads:
            # The garbage collector may find the pipeline from one of its own threads, even under the lock: that thread ends
            # when it comes back to its loop, and wakes the others.
            return
        for waker in self.wakers:
            wake = waker()
            if wake is not None:
                wake()  # a source that waits for data must not keep its thread
        with self.lock:
            self.work.notify_all()
            self.finished.notify_all()
        if self.workers is not None:
            self.workers.close()
        for thread in self.threads:
            if thread is not threading.current_thread():
                thread.join(CLOSE_SECONDS)
        self.threads.clear()

    def _serve(self, executor_reference: "weakref.ref[Executor]", number: int, affinity: bool) -> None:
        self.inside.active = True
        if affinity and hasattr(os, "sched_setaffinity"):
            allowed = sorted(os.sched_getaffinity(0))
            os.sched_setaffinity(0, {allowed[number % len(allowed)]})
        arena, lap = Arena(), Lap()
        while True:
            with self.lock:
                while True:
                    executor = executor_reference()
                    if self.closing or executor is None:
                        break
                    task = executor.claim()
                    if task is not None:
                        break
                    del executor
                    self.idle += 1
                    self.work.wait()
                    self.idle -= 1
                    lap.start()
            if self.closing or executor is None:
                with self.lock:
                    self.work.notify_all()
                return
            assert task is not None
            executor.perform(task, arena, lap)
            del task, executor
            if threading.get_ident() in self.hanging:  # the function came back after all
                self.hanging.discard(threading.get_ident())
                return


class Executor:
    """Runs one Plan. ``schedule`` and ``take`` are for one thread at a time."""

    def __init__(self, plan: Plan, options: Options, runtime: Runtime | None = None) -> None:
        self.plan = plan
        self.options = options
        self.crew = Crew()
        self.watch = Watch()
        plan = self.watch.over(plan)
        self.pool = HeapPool()
        self.sources = [SourceStep(plan, step, number) for number, step in enumerate(plan.stages[0].steps)]
        # Readers first: they may give fewer samples at the end of their epoch, and then the others are asked for as many.
        self._in_turn = sorted(self.sources, key=lambda item: not item.op.fetches)
        fetches: dict[str, Callable[[int], Any]] = {
            item.step.name: item.source.fetch  # type: ignore[attr-defined]
            for item in self.sources
            if item.op.fetches
        }
        self.columns = [[ColumnStep(plan, step) for step in stage.columns] for stage in plan.stages]
        asked_ahead = [item for item in self.sources if getattr(item.source, "wants_workers", False)]
        if asked_ahead or any(stage.kind == "processes" for stage in plan.stages):
            self.crew.workers = workers.pool.WorkerPool(options.py_num_workers, options.py_start_method)
        for item in asked_ahead:
            try:
                item.source.use_workers(self.crew.workers)  # type: ignore[attr-defined]
            except Exception as error:
                add_notes(error, [*item.step.place(), *([item.step.origin.describe()] if item.step.origin else [])])
                raise
        self.device = None if runtime is None else Device(runtime, options.depth, options.batch_size)
        self.stages: list[Any] = [None]
        for stage in plan.stages[1:]:
            if stage.kind == "sample":
                self.stages.append(SampleStage(plan, stage, fetches))
            elif stage.kind in ("device", "arrival"):
                self.stages.append(self._on_device(plan, len(self.stages)))
            elif stage.kind == "processes":
                assert self.crew.workers is not None
                self.stages.append(workers.stage.ProcessStep(plan, stage.steps[0], self.crew.workers))
            else:
                self.stages.append(WholeStep(plan, stage.steps[0]))
        self.failures = Failures(plan, self.stages, self.pool, options.max_failures)
        if self.failures.active:
            self.failures.contain()
        self._reserve()
        self._constants = [(slot, plan.constant(value), plan.slots[slot].spec.layout) for slot, value in plan.constants]
        self.crew.wakers = [
            weakref.WeakMethod(item.source.close) for item in self.sources if hasattr(item.source, "close")
        ]
        self._lock = self.crew.lock
        self._work = self.crew.work
        self._finished = self.crew.finished
        self._ring: deque[BatchRun] = deque()
        self._tasks: dict[int, _Task] = {}  # what the threads work on, by thread
        self._arena, self._lap = Arena(), Lap()
        self.measures = Measures(plan)
        self._warm = False  # the first batch has been delivered; what it cost is not counted
        self._ended = False
        self._running = 0
        self._draining = False  # whether somebody waits until nothing runs
        self._scheduled = 0
        self.epoch = 0
        self.iteration = 0
        self.position = 0
        self.ending: Ending = "fill"
        self.ends: frozenset[str] = frozenset()  # the readers whose epoch ended with the batch that was taken last
        self._sizes: dict[str, dict[str, Any]] = {}
        self._keepers: dict[int, Keeper] = {}
        self._more_ahead = MORE_FOR_WORKERS if any(stage.kind == "processes" for stage in plan.stages) else 0
        self._shares = any(slot.kind == "shared" for slot in plan.slots)
        if options.checkpointing:
            for number, stage in enumerate(plan.stages):
                if stage.kind == "batch" or (stage.kind == "device" and stage.steps[0].user_code):
                    keeper = Keeper.of(self.stages[number])
                    if keeper is not None:
                        self._keepers[number] = keeper
        self._after = self._here()

    def _on_device(self, plan: Plan, number: int) -> Any:
        stage = plan.stages[number]
        step = stage.steps[0]
        if self.device is None:
            raise RuntimeError(f"{step.title} runs on the GPU and this pipeline has none: give it a device_id")
        if stage.kind == "arrival":
            return ArrivalStage(plan, step, self.device)
        if not step.user_code and step.device != "mixed":
            with self.device.runtime.active():
                return Segment(plan, number, self.device)
        try:
            return FunctionStage(plan, number, self.device)
        except Exception as error:
            add_notes(error, [*step.place(), *([step.origin.describe()] if step.origin else [])])
            raise

    def _reserve(self) -> None:
        """Allocates what byte-size hints promise: for the batches in flight, the one handed out and the one before it."""
        for stage in self.plan.stages:
            for step in stage.all_steps():
                for slot, hint in zip(step.outputs, step.hint):
                    on_heap = stage.kind != "processes" and self.plan.slots[slot].kind == "heap"
                    if step.user_code and step.device == "cpu" and on_heap:
                        self.pool.reserve(slab_size(self.options.batch_size, hint), self.options.depth + 2)

    # What the owner calls.

    @property
    def in_flight(self) -> int:
        """How many scheduled batches have not been taken."""
        return len(self._ring)

    def fill(self, ahead: int, needed: int = 1) -> None:
        """Schedules batches until ``ahead`` are in flight; beyond the ``needed`` only what the sources can give at once."""
        self._check_usable()
        if ahead > 1 and not self.options.synchronous:
            ahead += self._more_ahead
        with self._lock:
            while len(self._ring) < ahead and not self._ended:
                if len(self._ring) >= needed and self._available() < 1:
                    return
                self._schedule()

    def schedule(self) -> None:
        """Schedules one more batch."""
        self._check_usable()
        if self.options.one_at_a_time and self._ring:
            raise InvalidState(
                "a differentiable pipeline has one batch at a time, and one is scheduled already: take it with outputs() or "
                "share_outputs() first. Two would be made with the same parameters, and the optimizer step between them would "
                "make the gradients of the second one wrong"
            )
        with self._lock:
            if not self._ended:
                self._schedule()

    def take(self) -> Delivered:
        """The oldest batch: waits for it, or raises its error, or StopIteration at the end of the epoch."""
        self._check_usable()
        if not self._ring:
            if self._ended:
                raise StopIteration
            raise InvalidState("there is no scheduled batch to take")
        if self.device is not None:
            self.device.collect()
        batch = self._ring[0]
        asked = timing.wall()
        ready = len([1 for item in list(self._ring) if item.done]) if batch.done else 0
        if self.options.synchronous:
            self._work_off(batch)
        else:
            with self._lock:
                while not batch.done:
                    self._wait()
        if batch.ended:
            # Nothing runs ahead of an end, so what the sources tell now is the state after it.
            told = {item.step.name: item.state(self.options.checkpointing) for item in self.sources}
            self._after = {**self._after, "states": {**self._after["states"], **told}}
            raise StopIteration
        with self._lock:
            self._ring.popleft()
            if self._warm:
                self.measures.delivered(asked, ready, batch.size)
            else:
                self._warm = True
                self._begin_measuring()
        self._after = {
            "epoch": batch.epoch,
            "iteration": batch.iteration + 1,
            "position": batch.position_after,
            "states": {**self._after["states"], **batch.states},
        }
        self.ends = frozenset(batch.ends)
        error = batch.failure() or self.failures.account(batch)
        self._after["failures"] = self.failures.state()
        if error is not None:
            raise error
        if self.options.memory_stats:
            self._measure(batch)
        rows = batch.rows()
        return Delivered(
            batch.outputs(self.plan, self.device),
            batch.index,
            batch.epoch,
            batch.iteration,
            batch.size if rows is None else len(rows),
            batch.positions if rows is None else batch.positions[rows],
            batch.padding if rows is None or batch.padding is None else batch.padding[rows],
        )

    def reset(self, rewind: bool = False) -> None:
        """Drops what was not delivered and starts the next epoch; ``rewind`` restarts sources that nobody told how to cycle."""
        self._check_usable()
        with self._lock:
            self._drop()
            for item in self.sources:
                if item.op.fetches:  # a reader goes back to the samples of the batches that are dropped
                    item.source.restore(self._after["states"][item.step.name])
                item.source.reset()
                if rewind and hasattr(item.source, "rewind"):
                    item.source.rewind()
            for keeper in self._keepers.values():
                keeper.restore(self._after["states"])
            self._ended = False
            self.epoch += 1
            self.iteration = self.position = 0
            self._after = self._here()

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

    def source(self, name: str) -> Any:
        """The source object behind an operator's name, None if there is none."""
        return next((item.source for item in self.sources if item.step.name == name), None)

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
            return self.measures.statistics(self._parts(), self.options, self.crew.threads)

    def measure(self, on: bool, race: bool = False) -> None:
        """Begins to measure anew and every step apart, or ends that; with ``race`` also who keeps the interpreter."""
        with self._lock:
            rival, self.measures.rival = self.measures.rival, Rival() if on and race else None
            for part in self._parts():
                for item in part:
                    item.rival = self.measures.rival if item.step.user_code else None
            for stage in self.stages:
                if isinstance(stage, SampleStage):
                    stage.measured = on
            if on:
                self._warm = True
                self._begin_measuring()
        if rival is not None:
            rival.close()

    def _parts(self) -> list[Sequence[BoundStep]]:
        """For every stage its steps that have clocks."""

        def clocked(stage: Any) -> Sequence[BoundStep]:
            return stage.steps if isinstance(stage, SampleStage) else [stage] if isinstance(stage, BoundStep) else []

        return [self.sources, *map(clocked, self.stages[1:])]

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

    @property
    def ended(self) -> bool:
        """Whether a source has ended the epoch with StopIteration."""
        return self._ended

    @property
    def readers(self) -> list[SourceStep]:
        """The sources whose epochs follow each other without a reset."""
        return [item for item in self.sources if item.op.fetches]

    def state(self) -> dict[str, Any]:
        """Where the pipeline stands after the last batch that was taken, whatever has run ahead."""
        return dict(self._after)

    def go_to(self, state: dict[str, Any], ending: Ending | None = None) -> None:
        """Drops what was not delivered and goes to a saved state; ``ending`` says how readers end their epochs from now on."""
        self._check_usable()
        with self._lock:
            self._drop()
            for item in self.sources:
                item.restore(state["states"].get(item.step.name))
            for keeper in self._keepers.values():
                keeper.restore(state["states"])
            self._ended = False
            self.epoch, self.iteration, self.position = state["epoch"], state["iteration"], state["position"]
            self.ending = self.ending if ending is None else ending
            self.failures.restore(state.get("failures"))
            self._after = {**state, "states": dict(state["states"])}

    def next_epoch(self) -> None:
        """Leaves an epoch that has begun for the next one, which readers alone can do without a reset."""
        if not self.readers:
            self.reset(rewind=True)
            return
        self.go_to(self._after)
        for item in self.readers:
            item.source.next_epoch()  # type: ignore[attr-defined]
        self._after = self._here()

    def seek(self, step: int, epoch: int) -> None:
        """Goes to batch ``step`` of ``epoch``; every source can be asked for it and nothing keeps a state of its own."""
        self._check_usable()
        size = self.options.batch_size
        with self._lock:
            self._drop()
            for item in self.sources:
                item.source.seek(step, epoch, size, item.step.key or 0)  # type: ignore[attr-defined]
            self._ended = False
            self.epoch, self.iteration, self.position = (0 if self.readers else epoch), step, step * size
            self._after = self._here()

    def _here(self) -> dict[str, Any]:
        """The state as it would be after a batch, if nothing has run ahead."""
        states = {item.step.name: item.state(self.options.checkpointing) for item in self.sources}
        for keeper in self._keepers.values():
            states[keeper.name] = keeper.snapshot()
        return {
            "epoch": self.epoch,
            "iteration": self.iteration,
            "position": self.position,
            "states": states,
            "failures": self.failures.state(),
        }

    # Scheduling; all of it under the lock.

    def _schedule(self) -> None:
        batch = BatchRun(self._scheduled, len(self.plan.slots))
        self._scheduled += 1
        self._ring.append(batch)
        if self.options.synchronous:
            return
        if not self.crew.threads:
            self.crew.start(self)
        self._work.notify()

    def _available(self) -> float:
        """How many batches the sources can give beyond those that are scheduled and not yet read."""
        unread = sum(batch.stage == 0 for batch in self._ring)
        can = [item.source.available() for item in self.sources if hasattr(item.source, "available")]
        return min(can, default=float("inf")) - unread

    def claim(self) -> _Task | None:
        """Takes the oldest work that nobody has."""
        batch = self._unclaimed()
        if batch is None:
            return None
        begin = end = 0
        if self.plan.stages[batch.stage].kind == "sample":
            begin = batch.cursor
            chunk = self.stages[batch.stage].chunk(batch.size - begin, self.options.num_threads)
            batch.cursor = end = min(begin + chunk, batch.size)
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
        """The batch with the oldest work that nobody has."""
        passed = len(self.plan.stages)  # the stage that every earlier batch has reached
        waiting = None  # the oldest batch whose copy from the device is not done: a thread waits for it if there is nothing else
        for batch in self._ring:
            if batch.done:
                continue
            stage = self.plan.stages[batch.stage]
            if stage.kind == "sample":
                if batch.cursor < batch.size:
                    return batch
            elif stage.kind == "arrival" and not batch.claimed and not self.stages[batch.stage].ready(batch):
                waiting = waiting or batch
            elif not batch.claimed and (not stage.ordered or passed > batch.stage):
                return batch
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
        clock = self.measures.stages[stage]
        lap.enter(clock)
        thread = threading.get_ident()
        self._tasks[thread] = task
        self.watch.begin(thread)
        try:
            if stage == 0:
                self._read(batch)
            elif self.plan.stages[stage].kind == "sample":
                self.stages[stage].run(batch, task.begin, task.end, arena, self.pool)
            elif self.plan.stages[stage].kind == "processes":
                waits = self._visit_processes(batch, self.stages[stage])
            else:
                self.stages[stage].run(batch, self.pool)
                if stage in self._keepers:
                    keeper = self._keepers[stage]
                    batch.states[keeper.name] = keeper.snapshot()
        except Exception as error:
            step = self.plan.stages[stage].steps[0] if stage and self.plan.stages[stage].steps else None
            batch.fail(error, step)
        except BaseException as error:
            # an interrupt in synchronous mode, or SystemExit out of user code: the batch is lost, the ring is not
            batch.fail(error, None)
            interrupted = error if self.options.synchronous else None
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

    def _visit_processes(self, batch: BatchRun, step: "ProcessStep") -> bool:
        """Sends a batch to the worker processes or, when it is back, takes its results in; True: it is on its way."""
        if batch.sent is None and step.send(batch, self._resume) and not self.options.synchronous:
            return True
        step.collect(batch)
        return False

    def _resume(self, batch: BatchRun) -> None:
        """Called when the worker processes are done with a batch."""
        if not self.options.synchronous:
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
        for runner in self.stages[1:]:  # of an earlier stage, perhaps: where a row is made again
            steps = [step for step in getattr(runner, "steps", [runner]) if isinstance(step, BoundStep)]
            found = [step for step in steps if step.calls(call.function)]
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
        batch.stage = len(self.plan.stages)

    def _read(self, batch: BatchRun) -> None:
        """The first stage: all sources give their batch, and the samples get their positions."""
        batch.epoch, batch.iteration, batch.epochs = self.epoch, self.iteration, self.epoch
        if self._shares:
            assert self.crew.workers is not None
            batch.region = self.crew.workers.region()
        sizes: dict[str, int] = {}
        wanted = self.options.batch_size
        try:
            lap = Lap()
            for item in self._in_turn:
                request = Request(wanted, self.epoch, self.iteration, self.position, item.step.key or 0, self.ending)
                if len(self.sources) > 1:
                    lap.enter(item.clock)
                try:
                    sizes[item.step.name] = item.run(batch, request, self.pool, self.options.checkpointing)
                    if item.op.fetches:
                        wanted = min(wanted, sizes[item.step.name])
                except StopIteration:
                    raise
                except Exception as error:
                    batch.fail(error, item.step)
                if len(self.sources) > 1:
                    lap.leave(item.clock)
        except StopIteration:
            with self._lock:
                batch.ended = self._ended = True
                while self._ring and self._ring[-1].index > batch.index:
                    self._ring.pop()
            return
        self.iteration += 1
        batch.size = next(iter(sizes.values())) if sizes else self.options.batch_size
        if batch.error is None and len(set(sizes.values())) > 1:
            listed = ", ".join(f"{name}: {size}" for name, size in sizes.items())
            batch.fail(RuntimeError(f"the sources of a batch gave different numbers of samples ({listed})"), None)
        if len(batch.positions) != batch.size:
            batch.positions = np.arange(self.position, self.position + batch.size)
        self.position += batch.size
        batch.position_after = self.position
        for slot, value, layout in self._constants:
            batch.values[slot] = np.broadcast_to(value, (batch.size, *value.shape))
            batch.layouts[slot] = layout or ""

    def _advance(self, batch: BatchRun) -> None:
        """Takes a batch that has finished a stage into the next one that has work for it."""
        stage = batch.stage
        try:
            if stage and self.plan.stages[stage].kind == "sample":
                self.stages[stage].finish(batch)
            if batch.failures and self.failures.active:
                self.failures.settle(batch, stage)
            if stage == 0 and not batch.ended and batch.error is None:
                self._compute_columns(batch, 0)
            following = stage + 1
            over = batch.ended or batch.error is not None or bool(batch.failures) or following == len(self.plan.stages)
            if not over:
                self._compute_columns(batch, following)
                over = batch.error is not None
            if not over and self.plan.stages[following].kind == "sample":
                self.stages[following].enter(batch, self.pool)
        except Exception as error:
            batch.fail(error, None)
            over = True
        with self._lock:
            if batch.done:  # given up because a function did not return
                return
            if over:
                self._end(batch)
                return
            batch.cursor = 0
            batch.claimed = False
            batch.pending = batch.size if self.plan.stages[following].kind == "sample" else 0
            batch.stage = following
            empty = self.plan.stages[following].kind == "sample" and not batch.size
        if empty:
            self._advance(batch)

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
