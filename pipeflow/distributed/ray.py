"""Pipelines on a Ray cluster: Ray places, retries and moves tasks; each worker runs a graph that was sent to it.

A pipeline travels as its serialized graph. ``read`` makes a Ray Dataset in which every shard of the pipeline's reader
is a read task; ``PipelineMap`` is a class for ``map_batches``. Ray runs a lost task again, and the task returns the
same blocks, because the results of a pipeline depend only on its seed and on the sample: so no sample is lost and none
comes twice. ``train_iterator`` is for the workers of Ray Train: each reads its own shard, without Ray's store in between.
"""

import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import ray.data
import ray.train
from ray.data.block import BlockAccessor, BlockMetadata
from ray.data.datasource import Datasource, ReadTask

from pipeflow.declare import find
from pipeflow.epochs.arrays import GenericIterator
from pipeflow.errors import count_of
from pipeflow.pipeline import Pipeline
from pipeflow.record.saved import functions_of

__all__ = ["PipelineMap", "TrainIterator", "read", "train_iterator"]

PATIENCE = 5.0  # seconds, at most, before a batch is made again


def read(
    pipeline: Pipeline,
    num_shards: int,
    output_map: Sequence[str],
    *,
    epoch: int = 0,
    retries: int = 0,
    num_threads: int = 1,
    allow_pickle: bool = False,
    **read_options: Any,
) -> "ray.data.Dataset":
    """One epoch of a pipeline with a reader as a Ray Dataset, its rows made by ``num_shards`` tasks.

    The pipeline is not built here: its graph is sent to the workers. Python functions in it are sent by import path,
    or by value with ``allow_pickle=True``. Ray itself runs a task again if its worker is lost. After an OSError (for
    example if storage was not available for a moment) a task makes the same batch again, up to ``retries`` times. If
    the batch still fails, the task fails, and Ray's ``DataContext.max_errored_blocks`` counts it. The pipeline's own
    ``on_error`` decides about single samples. ``read_options`` are those of ``ray.data.read_datasource``; set
    ``num_cpus`` to ``num_threads``.
    """
    for name, value, least in (("num_shards", num_shards, 1), ("retries", retries, 0), ("num_threads", num_threads, 1)):
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise ValueError(f"{name} must be an integer of at least {least}, got {value!r}")
    if pipeline.num_outputs != len(output_map):
        raise ValueError(
            f"output_map names {count_of(len(output_map), 'output')} and the pipeline has {pipeline.num_outputs}"
        )
    text = pipeline.serialize(allow_pickle=allow_pickle)
    own = _modules(text)
    blocks = [
        _Blocks(_sharded(text, shard, num_shards), list(output_map), epoch, retries, num_threads, own, allow_pickle)
        for shard in range(num_shards)
    ]
    source = _ShardTasks(blocks)
    return ray.data.read_datasource(source, override_num_blocks=num_shards, **read_options)


class _ShardTasks(Datasource):
    """The shards of a serialized pipeline as read tasks."""

    def __init__(self, blocks: "list[_Blocks]") -> None:
        self._blocks = blocks

    def estimate_inmemory_data_size(self) -> int | None:
        """None: the size is not known before the samples are made."""
        return None

    def get_read_tasks(self, parallelism: int, *_: Any, **__: Any) -> list[ReadTask]:
        """One task for each shard; the parallelism that Ray proposes is ignored."""
        del parallelism
        nothing_known = BlockMetadata(num_rows=None, size_bytes=None, input_files=None, exec_stats=None)
        return [ReadTask(blocks, nothing_known) for blocks in self._blocks]


class _Blocks:
    """Makes the blocks of one shard, in the worker."""

    def __init__(
        self,
        plan: str,
        names: list[str],
        epoch: int,
        retries: int,
        num_threads: int,
        functions: list[str],
        allow_pickle: bool,
    ) -> None:
        self._plan = plan
        self._names = names
        self._epoch = epoch
        self._retries = retries
        self._num_threads = num_threads
        self._functions = functions
        self._allow_pickle = allow_pickle

    def __call__(self) -> Iterator[Any]:
        pipeline = _loaded(self._plan, self._functions, self._allow_pickle, self._num_threads)
        step, failed = 0, 0
        while True:
            pipeline.seek(step, self._epoch)
            loop = pipeline.epoch()
            try:
                for batch in loop:
                    valid = pipeline.valid
                    yield _block({name: _column(output, valid) for name, output in zip(self._names, batch)})
                    step += 1
                return
            except OSError:
                if failed == self._retries:
                    raise
                time.sleep(min(0.1 * 2**failed, PATIENCE))
                failed += 1
            finally:
                loop.close()


def _modules(text: "str | bytes") -> list[str]:
    """The modules of the functions that a serialized pipeline calls."""
    return list(dict.fromkeys(path.partition(":")[0] for path in functions_of(json.loads(text))))


def _column(batch: Any, valid: np.ndarray) -> Any:
    """The valid rows of one output; they are an array if they have the same shape."""
    if batch.is_dense_tensor():
        return batch.as_array() if valid.all() else batch.as_array()[valid]
    rows = [sample for sample, keep in zip(batch.samples(), valid) if keep]
    column = np.empty(len(rows), object)
    column[:] = rows
    return column


def _block(columns: dict[str, Any]) -> Any:
    return BlockAccessor.batch_to_block(columns)


def _sharded(text: "str | bytes", shard: int, num_shards: int) -> str:
    """The serialized pipeline with its readers set to one shard."""
    document = json.loads(text)
    readers = [node for node in document["nodes"] if find(node["op"]).fetches]
    if not readers:
        raise ValueError(
            "only a reader can be divided into shards, and this pipeline has none: use PipelineMap in map_batches"
        )
    for node in readers:
        node.setdefault("constants", {}).update(shard_id=shard, num_shards=num_shards)
    return json.dumps(document)


def _loaded(text: "str | bytes", functions: Iterable[Any], allow_pickle: bool, num_threads: int) -> Pipeline:
    """A pipeline in a worker. A single thread is the caller's: passing each batch to another thread costs a tenth."""
    ahead = num_threads > 1
    settings: dict[str, Any] = {"num_threads": num_threads, "exec_async": ahead, "exec_pipelined": ahead}
    return Pipeline.deserialize(text, functions=functions, allow_pickle=allow_pickle, **settings)


def train_iterator(
    pipeline: Pipeline,
    output_map: Sequence[str],
    *,
    iterator: Callable[..., Any] = GenericIterator,
    allow_pickle: bool = False,
    **options: Any,
) -> "TrainIterator":
    """The batches of this worker of Ray Train, for ``for batch in iterator`` in the training function.

    The reader of the pipeline reads the shard of this worker. If Ray Train has a checkpoint in which ``TrainIterator.save`` has
    written, the iterator continues after the batch at which it was written. ``iterator`` is the class that makes the batches:
    that of ``plugin.numpy`` (the default), ``plugin.pytorch`` or another one; ``options`` are its arguments. Without
    ``reader_name``, the first reader of the pipeline decides when an epoch ends. Python functions in the pipeline are found
    by import path, or by value with ``allow_pickle=True``.
    """
    context = ray.train.get_context()
    rank, ranks = context.get_world_rank(), context.get_world_size()
    text = pipeline.serialize(allow_pickle=allow_pickle)
    own = Pipeline.deserialize(
        _sharded(text, rank, ranks), functions=_modules(text), allow_pickle=allow_pickle, enable_checkpointing=True
    )
    if "reader_name" not in options:
        options["reader_name"] = next(iter(own.reader_meta()))
    found = TrainIterator(iterator(own, output_map, **{"auto_reset": True, **options}), rank)
    checkpoint = ray.train.get_checkpoint()
    if checkpoint is not None:
        with checkpoint.as_directory() as folder:
            found.load(folder)
    return found


class TrainIterator:
    """The batches of a worker of Ray Train, a dictionary each. ``train_iterator`` makes one."""

    def __init__(self, batches: Any, rank: int) -> None:
        self._batches, self._rank = batches, rank

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """The batches of the next epoch, or the rest of the one that a checkpoint was taken in."""
        for [batch] in self._batches:
            yield batch

    def __len__(self) -> int:
        """The number of batches in an epoch."""
        return len(self._batches)

    def save(self, folder: "str | os.PathLike[str]") -> None:
        """Writes where this worker is into a folder, from which ``ray.train.Checkpoint.from_directory`` makes a checkpoint.

        One worker is enough if the reader is shuffled; otherwise every worker saves and reports.
        """
        path = Path(folder) / f"pipeflow-{self._rank}.json"
        path.write_text(json.dumps(self._batches.state_dict()), encoding="utf-8")

    def load(self, folder: "str | os.PathLike[str]") -> None:
        """Continues where a worker has saved: this one if it has, else any, which the reader may refuse."""
        own = Path(folder) / f"pipeflow-{self._rank}.json"
        saved = own if own.exists() else min(Path(folder).glob("pipeflow-*.json"), default=None)
        if saved is not None:
            self._batches.load_state_dict(json.loads(saved.read_text(encoding="utf-8")))

    def close(self) -> None:
        """Ends the threads of the pipeline."""
        self._batches.close()


class PipelineMap:
    """A class for ``dataset.map_batches``: feeds the columns of a batch into a pipeline's inputs of the same names.

    ``dataset.map_batches(PipelineMap, fn_constructor_args=(pipe.serialize(), ["image"]), batch_size=64, concurrency=2)``.
    ``functions`` allows the functions that the pipeline calls, as for ``Pipeline.deserialize``.
    The pipeline's inputs are ``fn.external_source(name=...)`` without a source; other columns are returned unchanged.
    """

    def __init__(
        self,
        serialized_pipeline: str,
        output_map: Sequence[str],
        allow_pickle: bool = False,
        num_threads: int = 1,
        functions: Iterable[Any] = (),
    ) -> None:
        self._names = list(output_map)
        self._pipeline = _loaded(serialized_pipeline, functions, allow_pickle, num_threads)
        self._pipeline.build()
        self._inputs = [item.step.name for item in self._pipeline._built().sources if hasattr(item.source, "feed")]

    def __call__(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        missing = [name for name in self._inputs if name not in batch]
        if missing:
            raise KeyError(f"the batch has no column {missing}, an input of the pipeline; it has {list(batch)}")
        given = {name: _rows(batch[name]) for name in self._inputs}
        outputs = self._pipeline.run(**given)
        rest = {name: column for name, column in batch.items() if name not in self._inputs}
        return rest | {name: _column(output, np.ones(len(output), bool)) for name, output in zip(self._names, outputs)}


def _rows(column: Any) -> Any:
    array = np.asarray(column)
    return list(array) if array.dtype == object else np.ascontiguousarray(array)
