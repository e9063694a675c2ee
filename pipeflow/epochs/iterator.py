"""The base of all iterators: names for outputs, one dictionary a batch, masks, and batches as single arrays.

An adapter (``plugin/pytorch``, ``plugin/jax``, ...) only converts batches to its framework's arrays. ``loop.py`` decides
when an epoch ends.
"""

import os
import warnings
from collections import namedtuple
from collections.abc import Callable, Sequence
from typing import Any, Generic, Literal, Self, TypeVar

import numpy as np

from pipeflow.device.tensors import TensorGPU, TensorListGPU
from pipeflow.epochs.loop import LastBatchPolicy, Loop, part
from pipeflow.errors import RaggedBatch, WrongIterator, count_of, nearest
from pipeflow.resume import RunJournal
from pipeflow.tensors import TensorListCPU


def dense_array(batch: Any, name: str) -> np.ndarray:
    """A batch as one array, copied from the GPU if it is there; an error names the samples that do not fit."""
    return _dense((batch.as_cpu() if isinstance(batch, TensorListGPU) else batch).as_array, batch, name)


def dense_tensor(batch: TensorListGPU, name: str) -> TensorGPU:
    """A batch on the GPU as one tensor on the GPU."""
    return _dense(batch.as_tensor, batch, name)


def _dense(join: Callable[[], Any], batch: Any, name: str) -> Any:
    try:
        return join()
    except RaggedBatch:
        shapes: dict[Any, int] = {}
        for index, shape in enumerate(batch.shape()):
            shapes.setdefault(tuple(shape), index)
        found = ", ".join(f"sample {index} is {shape}" for shape, index in list(shapes.items())[:4])
        more = ", ..." if len(shapes) > 4 else ""
        raise RaggedBatch(
            f"output {name!r} cannot be one array, its samples have {len(shapes)} different shapes: {found}{more}. "
            "Make them equal with fn.pad, fn.crop or fn.resize, or use a RaggedIterator"
        ) from None


Value = TypeVar("Value")


class replaceable(Generic[Value]):
    """A property that a subclass may replace with an attribute: ``self.batch_size = 32``, as programs for DALI do."""

    def __init__(self, get: Callable[[Any], Value]) -> None:
        self._get = get
        self.__doc__ = get.__doc__

    def __get__(self, instance: Any, owner: Any = None) -> Value:
        return self._get(instance)


Batch = TypeVar("Batch")  # the type of the batches of an iterator


class BaseIterator(Generic[Batch]):
    """The common part of the iterators of all adapters; a subclass converts one output of a batch."""

    def __init__(
        self,
        pipelines: Any,
        output_map: Sequence[str],
        size: int = -1,
        reader_name: str | None = None,
        auto_reset: "bool | Literal['yes', 'no'] | None" = False,
        fill_last_batch: bool | None = None,
        dynamic_shape: bool | None = False,
        last_batch_padded: bool = False,
        last_batch_policy: LastBatchPolicy = LastBatchPolicy.FILL,
        prepare_first_batch: bool = True,
        *,
        mask: str | None = None,
        container: "Literal['dict', 'tuple', 'namedtuple']" = "dict",
        journal: "RunJournal | str | os.PathLike[str] | None" = None,
    ) -> None:
        del dynamic_shape  # shapes may always change from batch to batch
        if fill_last_batch is not None:
            warnings.warn("fill_last_batch is deprecated: use last_batch_policy", DeprecationWarning, stacklevel=3)
            last_batch_policy = LastBatchPolicy.FILL if fill_last_batch else LastBatchPolicy.PARTIAL
        if not isinstance(last_batch_policy, LastBatchPolicy):
            raise ValueError(f"last_batch_policy must be a LastBatchPolicy, got {last_batch_policy!r}")
        if not (auto_reset is None or auto_reset in ("yes", "no") or isinstance(auto_reset, bool)):
            raise WrongIterator(f"auto_reset must be True, False, 'yes' or 'no', got {auto_reset!r}")
        self._auto_reset = auto_reset in (True, "yes")
        self.output_map = _checked_names(output_map, mask)
        self._mask = mask
        names = [*self.output_map, *([mask] if mask else [])]
        makers: dict[str, Callable[[Sequence[Any]], Any]] = {
            "dict": lambda values: dict(zip(names, values)),
            "tuple": tuple,
            "namedtuple": namedtuple("Batch", names)._make,  # type: ignore[attr-defined]
        }
        if container not in makers:
            raise ValueError(
                f"container must be 'dict', 'tuple' or 'namedtuple', got {container!r}{nearest(container, makers)}"
            )
        self._make = makers[container]
        self.loop = Loop(pipelines, size, reader_name, last_batch_policy, last_batch_padded, journal=journal)
        self._check_outputs()
        if prepare_first_batch:
            self.loop.prepare()

    def _check_outputs(self) -> None:
        for pipeline in self.loop.pipelines:
            if pipeline.num_outputs != len(self.output_map):
                raise ValueError(
                    f"output_map names {count_of(len(self.output_map), 'output')} {list(self.output_map)} and the pipeline "
                    f"has {count_of(pipeline.num_outputs, 'output')}"
                )

    def convert(self, batch: TensorListCPU, name: str) -> Any:
        """One output of one batch as an array of the framework."""
        raise NotImplementedError

    def convert_mask(self, valid: np.ndarray) -> Any:
        """The mask of a batch (False for padding) as an array of the framework."""
        raise NotImplementedError

    def combine(self, batches: list[Any]) -> Any:
        """The batches of all pipelines as ``next`` returns them."""
        return batches

    def __iter__(self) -> Self:
        if self.loop.begun:
            self.loop.start()
        return self

    def __next__(self) -> Batch:
        try:
            return self.loop.next(self._converted)
        except StopIteration:
            if self._auto_reset:
                self.loop.start()
            raise

    def _converted(self, delivered: Sequence[Any], counts: Sequence[int]) -> Any:
        """The return value of ``next`` for these batches, with the number of samples of each that belong to the epoch."""
        batches = []
        for item, rows in zip(delivered, counts):
            if rows or not item.size:  # else none of its samples belongs to the epoch
                values = [self.convert(part(batch, rows), name) for name, batch in zip(self.output_map, item.outputs)]
                if self._mask:
                    valid = np.ones(rows, bool) if item.padding is None else ~item.padding[:rows]
                    values.append(self.convert_mask(valid))
                batches.append(self._make(values))
        return self.combine(batches)

    def next(self) -> Batch:
        """The next batch."""
        return self.__next__()

    def __len__(self) -> int:
        return self.loop.length()

    def __bool__(self) -> bool:
        return True  # without this, Python would call __len__, which may be unknown

    @replaceable
    def batch_size(self) -> int:
        """The largest number of samples in a batch of one pipeline."""
        return self.loop.batch_size

    @replaceable
    def size(self) -> int:
        """The samples of an epoch of one shard, with those that fill its last batch; -1 if the number is not known."""
        meta = self._meta()
        if self.loop.size > 0 or meta is None:
            return self.loop.size
        if self.loop.policy is LastBatchPolicy.DROP:
            return meta["epoch_size"] // meta["number_of_shards"]
        if meta["pad_last_batch"]:
            return meta["epoch_size_padded"] // meta["number_of_shards"]
        largest = -(-meta["epoch_size"] // meta["number_of_shards"])
        return -(-largest // self.loop.batch_size) * self.loop.batch_size

    # Subclasses in programs for DALI read these attributes.

    _size = size
    _first_batch = None

    @replaceable
    def _pipes(self) -> list[Any]:
        return list(self.loop.pipelines)

    @replaceable
    def _num_gpus(self) -> int:
        return len(self.loop.pipelines)

    @replaceable
    def _reader_name(self) -> str | None:
        return self.loop.reader

    @replaceable
    def _last_batch_policy(self) -> LastBatchPolicy:
        return self.loop.policy

    @replaceable
    def _size_no_pad(self) -> int:
        meta = self._meta()
        return self.size if meta is None else meta["epoch_size"]

    @replaceable
    def _shards_num(self) -> int:
        meta = self._meta()
        return 1 if meta is None else meta["number_of_shards"]

    def _meta(self) -> dict[str, int] | None:
        return None if self.loop.reader is None else self.loop.pipelines[0].reader_meta(self.loop.reader)

    def reset(self) -> None:
        """Begins the next epoch, also in the middle of one; does nothing if an epoch has just begun."""
        self.loop.start()

    def close(self) -> None:
        """Ends this iteration, so that another iterator can use the pipelines."""
        self.loop.release()

    def checkpoints(self) -> list[bytes]:
        """The checkpoints of all pipelines after the last returned batch, one for each pipeline's ``checkpoint=``."""
        return [pipeline.checkpoint() for pipeline in self.loop.pipelines]

    def state_dict(self) -> dict[str, Any]:
        """The same as plain data."""
        return {"pipelines": [pipeline.state_dict() for pipeline in self.loop.pipelines]}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continues after the batch at which ``state_dict()`` was taken."""
        if not isinstance(state, dict) or not isinstance(state.get("pipelines"), list):
            raise ValueError("this is not a state of an iterator: the list 'pipelines' is missing")
        if len(state["pipelines"]) != len(self.loop.pipelines):
            raise ValueError(
                f"the state is of {count_of(len(state['pipelines']), 'pipeline')} and this iterator has "
                f"{len(self.loop.pipelines)}"
            )
        for pipeline, part_of_it in zip(self.loop.pipelines, state["pipelines"]):
            pipeline.load_state_dict(part_of_it)
        self.loop.take_up()


def _checked_names(output_map: Sequence[str], mask: str | None) -> list[str]:
    if isinstance(output_map, str) or not all(isinstance(name, str) for name in output_map):
        raise TypeError(f"output_map must be a list of names, got {output_map!r}")
    names = list(output_map)
    if len(set(names)) != len(names):
        raise WrongIterator(f"output_map names should be distinct, got {names}")
    if mask in names:
        raise ValueError(f"mask={mask!r} is a name of output_map as well")
    return names
