"""Looking at a pipeline: its samples as a picture, itself as HTML for a notebook, and in one line."""

import copy
from dataclasses import replace
from typing import Any, Self

from pipeflow import pictures, types, watching
from pipeflow.executor.batch import Held
from pipeflow.handle.built import Built
from pipeflow.handle.definition import DebugDefinition


class Looking(Built):
    """What shows a pipeline without running it or moving it."""

    def again(self, **settings: Any) -> Self:
        """The same pipeline from its beginning, not built, with other settings; this one stays where it is.

        Sources that are iterators are shared: what one of the two reads, the other one does not get.
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
        """What ``run()`` gives from the beginning, until there are so many samples or the data ends."""
        other = self.again()
        found: list[Any] = []
        try:
            while sum(len(batches[0]) for batches in found) < samples:
                found.append(other.run())  # type: ignore[attr-defined]
        except StopIteration:
            pass
        finally:
            if other._executor is not None:
                other._executor.close()
        return found

    def metrics(self) -> str:
        """What was measured since the first batch, in the text form that Prometheus reads."""
        return watching.exposition(self._compiled())

    def _repr_html_(self) -> str:
        if isinstance(self._define, DebugDefinition):
            return pictures.html(None)
        names = ("batch_size", "num_threads", "device_id", "seed", "prefetch_queue_depth", "py_num_workers")
        settings = {name: getattr(self._settings, name) for name in names}
        ran = self._executor is not None and self._last.get() is not None
        return pictures.html(self._recorded(), settings, self.statistics() if ran else None)  # type: ignore[attr-defined]

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
