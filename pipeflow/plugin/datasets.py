"""Data sets of other libraries as pipelines: torch's map-style and iterable ones, Hugging Face's, plain lists."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pipeflow import fn
from pipeflow.pipeline import Pipeline, pipeline_def

__all__ = ["from_torch_dataset"]


def from_torch_dataset(
    dataset: Any,
    batch_size: int = 1,
    shuffle: bool = False,
    *,
    transform: Callable[..., Any] | None = None,
    shard_id: int = 0,
    num_shards: int = 1,
    pad_last_batch: bool = False,
    **pipeline_options: Any,
) -> Pipeline:
    """A pipeline over a data set with a length and an index (or one that can only be iterated over).

    Items are read in the pipeline's threads; values of a tuple, or of a dictionary in the order of its keys, are the outputs.
    ``transform`` is called with their DataNodes while the pipeline is defined and returns the outputs of the pipeline:
    use operators of ``fn`` there. The reader is named "dataset", so ``reader_name="dataset"`` gives adapters its
    length.
    """
    try:  # iterable data sets of torch also have an index, but it only raises
        indexed = len(dataset) >= 0 and dataset[0] is not None
    except (TypeError, NotImplementedError):
        indexed = False
    except (IndexError, KeyError):
        raise ValueError(
            f"the data set {type(dataset).__name__} has no item 0: it is empty, or not numbered from 0"
        ) from None
    if not indexed and not hasattr(dataset, "__iter__"):
        raise TypeError(
            f"{type(dataset).__name__} is not a data set: it has neither an index and a length nor an iterator"
        )
    if not indexed and (shuffle or num_shards > 1):
        raise ValueError("a data set that can only be iterated over decides its order and its shards itself")
    item = dataset[0] if indexed else next(iter(dataset))
    keys = list(item) if isinstance(item, Mapping) else None
    count = len(keys) if keys is not None else len(item) if isinstance(item, (tuple, list)) else 1

    def define() -> Any:
        if indexed:
            read = fn.readers.dataset(
                dataset=dataset,
                num_outputs=count,
                keys=keys,
                random_shuffle=shuffle,
                shard_id=shard_id,
                num_shards=num_shards,
                pad_last_batch=pad_last_batch,
                name="dataset",
            )
        else:
            read = fn.external_source(
                source=_Rows(dataset, keys, count),
                num_outputs=count if count > 1 else None,
                batch=False,
                name="dataset",
            )
        nodes = tuple(read) if isinstance(read, (list, tuple)) else (read,)
        return transform(*nodes) if transform is not None else nodes

    return pipeline_def(define, **{"batch_size": batch_size, **pipeline_options})()


class _Rows:
    """The items of an iterable data set as tuples, from the beginning in every epoch."""

    def __init__(self, dataset: Any, keys: Sequence[str] | None, count: int) -> None:
        self._dataset = dataset
        self._keys = keys
        self._count = count

    def __iter__(self) -> Any:
        for item in self._dataset:
            if self._keys is not None:
                item = tuple(item[key] for key in self._keys)
            yield item[0] if self._count == 1 and isinstance(item, (tuple, list)) else item
