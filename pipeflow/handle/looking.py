"""Shows a pipeline: its samples as a picture, the pipeline as HTML for a notebook, and as one line of text."""

import copy
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

from pipeflow import pictures, reporting, types, watching
from pipeflow.executor.batch import Held
from pipeflow.handle.definition import DebugDefinition
from pipeflow.handle.reports import Reports
from pipeflow.handle.running import Running


class Looking(Running, Reports):
    """Methods that show a pipeline without changing its position."""

    def again(self, **settings: Any) -> Self:
        """A copy of the pipeline at its beginning, not built, with other settings. This pipeline does not change.

        Sources that are iterators are shared: an item that one of the two reads is missing in the other.
        """
        other = copy.copy(self)
        graph = None if isinstance(self._define, DebugDefinition) else self._recorded()
        other.__dict__.update(
            _settings=replace(self._settings, **{"checkpoint": None, **settings}),
            _seed_given=True,
            _graph=graph,
            _plan=None,
            _executor=None,
            _debug=None,
            _last=Held(None),
            _place=Held({}),
            _loop=None,
            _consumed=False,
            _iterated_by=None,
            _shared=[],
            _api=types.PipelineAPIType.BASIC,
            _measured=None,
            _measuring=False,
        )
        return other

    def show(self, n: int = 16, **how: Any) -> pictures.Picture:
        """The first ``n`` samples as a picture: images, strips, sound, text or numbers, whatever the outputs are.

        They come from ``again()``, so the pipeline itself does not move. The arguments are those of ``pipeflow.show``; an output
        is named by its number: ``pipe.show(labels=1, boxes=2)``. In a notebook the picture is shown; ``path=`` saves it.
        """
        return pictures.show(self.first_batches(n), n, **how)

    def first_batches(self, samples: int) -> list[Any]:
        """The batches of ``run()`` from the beginning, until they have this number of samples or the data ends."""
        found: list[Any] = []
        with self._aside() as other, suppress(StopIteration):
            while sum(len(batches[0]) for batches in found) < samples:
                found.append(other.run())
        return found

    @contextmanager
    def _aside(self, **settings: Any) -> Iterator[Self]:
        """``again()``, closed at the end of the block."""
        other = self.again(**settings)
        try:
            yield other
        finally:
            if other._executor is not None:
                other._executor.close()

    def report(
        self,
        path: "str | os.PathLike[str]",
        *,
        batches: int = 100,
        seconds: float = 20.0,
        threads: "Sequence[int] | None" = None,
        against: "str | os.PathLike[str] | None" = None,
    ) -> Path:
        """Measures the pipeline and writes a report: a page for a browser (``.html``), or its first part as a picture (``.png``).

        It runs ``again()``, so the pipeline itself does not move: ``batches`` batches, or as many as fit into ``seconds``, and a
        quarter of that for each number of ``threads`` (1, 2, 4 and so on up to the processors; ``()`` leaves them out). If the
        pipeline ran in a loop before, the report has the share of its time that the loop waited. ``against`` is the page of an
        earlier report, or the output of ``pipeflow bench --json``: the report then compares the two runs.
        """
        return reporting.write(self, path, batches=batches, seconds=seconds, threads=threads, against=against)

    def metrics(self) -> str:
        """The measured numbers since the first batch, as text in the format of Prometheus."""
        return watching.exposition(self._compiled())

    def _repr_html_(self) -> str:
        if isinstance(self._define, DebugDefinition):
            return pictures.html(None)
        names = ("batch_size", "num_threads", "device_id", "seed", "prefetch_queue_depth", "py_num_workers")
        settings = {name: getattr(self._settings, name) for name in names}
        ran = self._executor is not None and self._last.get() is not None
        return pictures.html(self._recorded(), settings, self.statistics() if ran else None)

    def __repr__(self) -> str:
        settings = self._settings
        parts = [f"batch_size={settings.batch_size}", f"num_threads={settings.num_threads}"]
        if settings.device_id is not None:
            parts.append(f"device_id={settings.device_id}")
        if isinstance(self._define, DebugDefinition):
            return f"<Pipeline {', '.join(parts)}, debug=True>"
        if self._graph is None:
            return f"<Pipeline {', '.join(parts)}, not recorded>"
        return f"<Pipeline {', '.join(parts)}: {pictures.one_line(self._graph)}>"
