"""Reports of a pipeline: its readers, its outputs, times, advice and failures."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from pipeflow import executor as executors
from pipeflow import reporting
from pipeflow.errors import InvalidState, nearest
from pipeflow.executor import Settings
from pipeflow.executor.figures import Statistics
from pipeflow.executor.settings import few
from pipeflow.handle.built import Built
from pipeflow.handle.choices import SettingsReport, report_settings

ENOUGH_BATCHES = 3  # the fewest batches for advice


class Reports(Built):
    """A pipeline that reports on its readers, its outputs, and the time of its steps."""

    def __init__(self, settings: Settings, seed_given: bool) -> None:
        super().__init__(settings, seed_given)
        self._measuring = False
        self._measured: Statistics | None = None

    def reader_meta(self, name: str | None = None) -> dict[str, Any]:
        """Sizes and sharding of one reader, or of all readers by name."""
        found = {self._known_as(item.step.name): item.source.reader_meta() for item in self._built().sources}
        metas = {reader: meta for reader, meta in found.items() if meta is not None}
        if name is None:
            return metas
        if self._known_as(name) not in metas:
            raise RuntimeError(
                f"there is no reader {name!r} in this pipeline{nearest(name, metas)}; there are {list(metas)}"
            )
        return metas[self._known_as(name)]

    def epoch_size(self, name: str | None = None) -> Any:
        """The number of samples in an epoch of one reader, or of all readers by name."""
        if name is not None:
            return self.reader_meta(name)["epoch_size_padded"]
        return {reader: meta["epoch_size_padded"] for reader, meta in self.reader_meta().items()}

    @contextmanager
    def measure(self) -> Iterator[None]:
        """Measures each step during a ``with`` block, for ``statistics()`` and ``advice()``.

        For half a second of every Python function, another thread competes for the interpreter lock (the GIL). This measures the
        share of its time in which the function makes other threads wait.

        If compiled code takes over in the block, the figures are of both. So measure a function with ``jit="auto"`` after
        ``settings()`` shows it as "compiled" or "plain".
        """
        executor = self._compiled()
        if self._measuring:
            raise InvalidState(
                "this pipeline is being measured already: end the first `with pipe.measure():` before another"
            )
        self._measuring = True
        executor.measure(True, probing=True)
        try:
            yield
        finally:
            self._measured = executor.figures()
            executor.measure(False)
            self._measuring = False

    def statistics(self) -> Statistics:
        """The time of the loop and of every step in the last ``with pipe.measure():``, or since the first batch. Print it."""
        return self._measured or self._compiled().figures()

    def settings(self) -> "SettingsReport":
        """The settings, and who chose them and why; functions with ``parallel="auto"`` or ``jit="auto"`` too. Print it."""
        executor = self._compiled()
        return report_settings(self._settings, executor.tuner, self.plan)

    def advice(self) -> "list[reporting.advice.Advice]":
        """The steps that limit the speed of this pipeline, and the changes that would help, with their gain; empty if
        the pipeline is balanced.

        It uses measured times: first run the pipeline for a while, best inside ``with pipe.measure():``.
        """
        return reporting.advice.advise(self._enough("advice"))

    def predict(
        self,
        *,
        num_threads: int | None = None,
        prefetch_queue_depth: int | None = None,
        py_num_workers: int | None = None,
        batch_size: int | None = None,
        parallel: "str | Mapping[str, str] | None" = None,
        jit: bool | Sequence[str] = False,
        cached: str | None = None,
    ) -> "reporting.advice.Prediction":
        """The speed that this pipeline would have with other settings, from the measured times.

        A setting that is not given stays as it is. ``parallel`` is for all Python functions, or for some:
        ``{"python_function_0": "threads"}``, by the names of their nodes. ``jit`` is True for all functions, or a list of such
        names; the prediction assumes only that a compiled function does not hold the GIL. ``cached`` is the name of a node: the
        speed of later epochs, if ``fn.cache`` around it kept all samples.
        """
        run = self._enough("a prediction")
        functions = [step.name for step in run.steps if step.python]
        if isinstance(jit, str):
            raise TypeError(f"jit must be True, False or a list of names, got {jit!r}: write jit=[{jit!r}]")
        for name in (*(parallel if isinstance(parallel, Mapping) else ()), *([] if isinstance(jit, bool) else jit)):
            if name not in functions:
                raise ValueError(
                    f"there is no function {name!r} in this pipeline{nearest(name, functions)}; there are {functions}"
                )
        for way in parallel.values() if isinstance(parallel, Mapping) else () if parallel is None else (parallel,):
            if way not in reporting.advice.WAYS:
                raise ValueError(f"parallel must be one of {list(reporting.advice.WAYS)}, got {way!r}")
        wanted = {
            "num_threads": num_threads,
            "prefetch_queue_depth": prefetch_queue_depth,
            "py_num_workers": py_num_workers,
            "batch_size": batch_size,
        }
        given = {name: few(name, number) for name, number in wanted.items() if number is not None}
        spared = () if cached is None else self._spared_by(run, cached)
        model = reporting.advice.Model(run)
        return reporting.advice.predicted(model, parallel=parallel, jit=jit, spared=spared, kept=cached or "", **given)

    def _spared_by(self, run: Statistics, name: str) -> list[str]:
        """The steps that do not run if a cache keeps the samples of a node."""
        names = [step.name for step in self.plan.steps()]
        if name not in names:
            raise ValueError(f"there is no node {name!r} in this pipeline{nearest(name, names)}; there are {names}")
        if name not in (step.name for step in run.steps):
            raise InvalidState(
                f"the time of {name!r} alone was not measured: run some batches in `with pipe.measure():`"
            )
        return self.plan.needed_only_by(name)

    def _enough(self, what: str) -> Statistics:
        figures = self.statistics()
        if figures.batches < ENOUGH_BATCHES:
            raise InvalidState(
                f"{what} needs at least {ENOUGH_BATCHES} measured batches and there are {figures.batches} (the first one is not "
                "counted): run more batches first"
            )
        return figures

    def executor_statistics(self) -> dict[str, Any]:
        """The seconds of each operator, with ``enable_memory_stats`` the bytes of its outputs, and the state of the memory pool.

        ``statistics()`` has the same times as an object, and the time of the loop.
        """
        return self._compiled().statistics()

    def failures(self) -> "list[executors.Failure]":
        """The last 10000 samples that failed and were skipped, replaced or given a value, in the order of delivery."""
        runs = self._executor or self._debug
        return [] if runs is None else runs.log()

    def external_source_shm_statistics(self) -> dict[str, Any]:
        """The sizes in bytes of the shared memory for results of worker processes: in total, and per sample of a chunk."""
        executor = self._compiled()
        capacities = executor.shared_memory()
        samples = max(1, -(-self.batch_size // self._settings.py_num_workers))
        return {"capacities": capacities, "per_sample_capacities": [size // samples for size in capacities]}

    def output_dtype(self) -> list[Any]:
        """The declared types of the outputs."""
        return self._declared("dtype")

    def output_ndim(self) -> list[Any]:
        """The declared numbers of axes of the outputs."""
        return self._declared("ndim")

    def output_layout(self) -> list[Any]:
        """The declared layouts of the outputs."""
        return self._declared("layout")

    def _declared(self, name: str) -> list[Any]:
        expected = self._expected(name)
        return list(expected) if isinstance(expected, (list, tuple)) else [expected] * self.num_outputs
