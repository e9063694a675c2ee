"""A loader with a pipeline definition for its items: workers read the data set, the pipeline's threads run operators."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

import numpy as np

from pipeflow import fn
from pipeflow.errors import Failed
from pipeflow.loading.leaves import Field, Path, branches, filled, leaf_name, leaves, path_text
from pipeflow.loading.loader import Loader, LoaderEpoch
from pipeflow.loading.work import leaf_arrays
from pipeflow.pipeline import Pipeline, pipeline_def
from pipeflow.record.recorder import DataNode
from pipeflow.types import SampleInfo

_CHANNELS = (1, 3, 4)


class TransformedLoader:
    """Batches that a pipeline makes from the items; ``pipeline`` is that pipeline."""

    def __init__(
        self,
        items: Loader,
        transform: Callable[..., Any],
        layout: Any = None,
        journal: Any = None,
        **pipeline_options: Any,
    ) -> None:
        size = items.batch_size if items.buckets is None else items.buckets.most
        if items.batch_sampler is not None or size is None:
            raise ValueError(
                "transform= needs batch_size, or bucket_by: the batches of a pipeline have one size, except the last of an epoch"
            )
        if items.collate_fn is not None:
            raise ValueError("collate_fn and transform cannot be given together: a pipeline makes the batches itself")
        self._items = items
        self._journal = journal
        model = items.first_item()
        name = f"item 0 of {type(items.dataset).__name__}"
        if not leaf_arrays(model, model, name):
            raise TypeError(f"{name} has no values: it is {model!r}")
        layouts = [_layout(path, value, layout, name) for path, value in leaves(model) if value is not None]
        _check_used(layout, layouts, name)
        self._feeder = Feeder(items)
        self._output: Any = None
        items.model = model
        items.start()
        # the feeder has its own state: the position in the data set
        pipeline_options.setdefault("enable_checkpointing", True)
        if items.seed is not None:
            pipeline_options.setdefault("seed", items.seed)

        def define() -> Any:
            nodes = fn.external_source(
                source=self._feeder,
                num_outputs=len(layouts),
                batch=False,
                layout=[x or None for x in layouts],
                name="loader",
            )
            item = filled(model, nodes)
            made = transform(*item) if isinstance(item, (tuple, list)) else transform(item)
            for path, node in leaves(made):
                if not isinstance(node, DataNode):
                    where = f" at {path_text(path)}" if path else ""
                    raise TypeError(
                        f"transform returned {type(node).__name__}{where}: it returns what operators of fn give"
                    )
            self._output = made
            return tuple(node for _, node in leaves(made))

        self.pipeline: Pipeline = pipeline_def(define, batch_size=size, **pipeline_options)()

    def __iter__(self) -> Iterator[Any]:
        """The batches of the next epoch, or the rest of the one whose state was loaded."""
        for batch in self.pipeline.epoch(journal=self._journal):
            yield self._items.finished(filled(self._output, [self._items.batch_of(x) for x in batch]))

    def __len__(self) -> int:
        """The number of batches in an epoch."""
        return len(self._items)

    @property
    def dataset(self) -> Any:
        """The data set."""
        return self._items.dataset

    @property
    def batch_size(self) -> int | None:
        """The number of items in a batch."""
        return self._items.batch_size

    def state_dict(self) -> dict[str, Any]:
        """The position after the last batch that the loop received, as plain data for ``load_state_dict``."""
        self.pipeline.build()
        return self.pipeline.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Loads a saved state: the next loop returns the rest of that epoch."""
        self.pipeline.build()
        self.pipeline.load_state_dict(state)

    def close(self) -> None:
        """Ends the workers."""
        self._items.close()


class Feeder:
    """A source that returns the items of a loader, one by one; its state is the position of the loader."""

    def __init__(self, items: Loader) -> None:
        self._items = items
        self.batches_vary = items.buckets is not None  # a short batch is not the end of the epoch
        self._pass: LoaderEpoch | None = None
        self._epoch: int | None = None  # the epoch of the pipeline
        self._rows: Sequence[Any] = ()

    def __call__(self, sample: SampleInfo) -> Any:
        if sample.idx_in_batch == 0:
            if self._pass is None or sample.epoch_idx != self._epoch:
                if self._pass is None and sample.epoch_idx != self._epoch:
                    self._items.next_epoch()
                self._pass, self._epoch = iter(self._items), sample.epoch_idx
            self._rows = next(self._pass)
        if sample.idx_in_batch >= len(self._rows):
            raise StopIteration
        row = self._rows[sample.idx_in_batch]
        if isinstance(row, Failed):
            raise row.error
        return row

    def get_state(self) -> dict[str, Any]:
        """The state of the loader."""
        return {"epoch": self._epoch, "items": self._items.state_dict()}

    def set_state(self, state: dict[str, Any]) -> None:
        """Sets the loader to a state."""
        self._items.load_state_dict(state["items"])
        self._pass, self._epoch = None, state["epoch"]


def _layout(path: Path, value: Any, given: Any, name: str) -> str | None:
    """The layout of a leaf: the given one, or that of an image; "" if the caller says that it has none."""
    shape: tuple[int, ...] = () if isinstance(value, (str, bytes)) else np.shape(value)
    found = given if isinstance(given, str) else _given(path, given)
    if isinstance(given, str) and len(given) not in (0, len(shape)):
        found = None  # one text is for all values with this number of axes
    if found:
        if len(found) != len(shape):
            raise ValueError(
                f"layout {found!r} has {len(found)} letters, and {leaf_name(name, path)} has the shape {tuple(shape)}"
            )
        return found
    if found is None and hasattr(value, "getbands"):  # an image of Pillow
        return "HWC" if len(shape) == 3 else "HW"
    first = 1 if len(shape) == 4 else 0
    if found is None and len(shape) in (3, 4) and (shape[first] in _CHANNELS or shape[-1] in _CHANNELS):
        last, early = ("HWC", "CHW") if len(shape) == 3 else ("FHWC", "FCHW")
        key = next(reversed(path), None)
        example = {key: last} if isinstance(key, str) else last
        raise ValueError(
            f"{leaf_name(name, path)} has the shape {tuple(shape)}: pipeflow does not guess which axis has the channels. Write "
            f'layout={example!r} for channels last, {early!r} for channels first, "" for data that is no image'
        )
    return found


def _given(path: Path, layout: Any) -> str | None:
    """The entry for a path in the caller's structure of layouts."""
    if len(path) == 0:
        if layout is not None and not isinstance(layout, str):
            raise TypeError(f"layout is a text such as 'HWC', or has one for each value of an item, got {layout!r}")
        return layout
    if layout is None or branches(layout) is None:
        return None
    first = path[0]
    step = first.name if isinstance(first, Field) else first
    if isinstance(layout, Mapping):
        return _given(path[1:], layout.get(step))
    inside = isinstance(step, int) and step < len(layout)
    return _given(path[1:], layout[step]) if inside else None


def _check_used(layout: Any, layouts: Sequence[str | None], name: str) -> None:
    """Raises an error for a layout of a value that the item does not have."""
    wanted = [x for _, x in leaves(layout) if x] if branches(layout) is not None else [layout] if layout else []
    for text in wanted:
        if text not in layouts:
            raise ValueError(f"{name} has no value for the layout {text!r}: use the keys or the order of the item")


def loader(
    dataset: Any,
    batch_size: int | None = 1,
    shuffle: bool | None = None,
    sampler: Iterable[Any] | None = None,
    batch_sampler: Iterable[Sequence[Any]] | None = None,
    num_workers: int = 0,
    collate_fn: Callable[[Any], Any] | None = None,
    pin_memory: bool = False,
    drop_last: bool = False,
    timeout: float = 0,
    worker_init_fn: Callable[[int], Any] | None = None,
    multiprocessing_context: Any = None,
    generator: Any = None,
    *,
    prefetch_factor: int | None = None,
    persistent_workers: bool = False,
    in_order: bool = True,
    seed: int | None = None,
    shard_id: int = 0,
    num_shards: int = 1,
    workers: Literal["processes", "threads"] = "processes",
    framework: Literal["torch", "numpy"] | None = None,
    bucket_by: Any = None,
    max_tokens: int | None = None,
    transform: Callable[..., Any] | None = None,
    layout: Any = None,
    journal: Any = None,
    **pipeline_options: Any,
) -> "Loader | TransformedLoader":
    """Batches of a data set, in place of torch's DataLoader: the same arguments, the same batches.

    With ``seed``, order and random numbers depend on nothing else. ``shard_id`` of ``num_shards`` gives a part of the data to
    each process of a job. ``workers="threads"`` reads in threads. ``framework`` decides the type of batches: by default torch's
    tensors if the program has imported torch, else NumPy's arrays.

    ``bucket_by`` has the length of each item, or is a function that returns it for an index: a batch has items of similar
    length, at most ``batch_size`` of them, and ``max_tokens`` limits its size when all are padded to the longest.

    ``transform`` is called once, while the pipeline is defined. It gets the DataNodes of an item, calls operators of ``fn`` on
    them, and returns the nodes of the result. The values of a tuple are several arguments, a dictionary is one argument.
    ``layout`` gives the axes of images, and ``pipeline_options`` are arguments of the pipeline. ``journal`` is as in
    ``Pipeline.epoch()``.
    """
    made = Loader(
        dataset, batch_size, shuffle, sampler, batch_sampler, num_workers, collate_fn, pin_memory, drop_last, timeout,
        worker_init_fn, multiprocessing_context, generator, prefetch_factor=prefetch_factor,
        persistent_workers=persistent_workers, in_order=in_order, seed=seed, shard_id=shard_id, num_shards=num_shards,
        workers=workers, framework=framework, bucket_by=bucket_by, max_tokens=max_tokens,
    )  # fmt: skip
    if transform is not None:
        return TransformedLoader(made, transform, layout, journal, **pipeline_options)
    if layout is not None or journal is not None or pipeline_options:
        names = [
            *(["layout"] if layout is not None else []),
            *(["journal"] if journal is not None else []),
            *pipeline_options,
        ]
        raise TypeError(f"{', '.join(names)}: only a loader with transform= has a pipeline that takes this")
    return made
