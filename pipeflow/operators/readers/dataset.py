"""`fn.readers.dataset`: samples of any object with a length and an index, such as data sets of torch and Hugging Face."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pipeflow.declare import default, required
from pipeflow.errors import count_of
from pipeflow.operators.readers.reader import reader
from pipeflow.tensors import as_sample


@reader(
    "readers.dataset",
    outputs=lambda args: args.num_outputs if args.keys is None else len(args.keys),
    examples=["fn.readers.dataset(dataset=[(np.zeros(3), 0), (np.ones(3), 1)], num_outputs=2, random_shuffle=True)"],
)
class DatasetReader:
    """Reads `dataset[i]`, in the pipeline's threads: arrays, tensors, images and numbers become arrays, text stays text.

    An item is a tuple of `num_outputs` values, or a dictionary of which `keys` are taken in that order.
    """

    def __init__(
        self,
        dataset: Any = required("object with a length and an index"),
        *,
        num_outputs: int = default(1, "number of values in an item that is a tuple"),
        keys: Any = default(
            None, "names of the values that are taken from an item that is a dictionary, in this order"
        ),
    ) -> None:
        for method in ("__len__", "__getitem__"):
            if not hasattr(dataset, method):
                raise TypeError(
                    f"the data set {type(dataset).__name__} has no {method}: readers.dataset needs a length and an index; "
                    "fn.external_source(dataset, batch=False) takes objects that can only be iterated over"
                )
        self._dataset = dataset
        self._num_outputs = num_outputs
        self._keys = None if keys is None else tuple(keys)

    def __len__(self) -> int:
        return len(self._dataset)

    def fetch(self, index: int) -> tuple[np.ndarray, ...]:
        """One item as arrays."""
        item = self._dataset[index]
        return tuple([_array(value, index) for value in self._values(item, index)])

    def source_info(self, index: int) -> str:
        """The class of the data set and the item's index."""
        return f"{type(self._dataset).__name__}[{index}]"

    def _values(self, item: Any, index: int) -> Sequence[Any]:
        if self._keys is not None:
            if not isinstance(item, Mapping):
                raise TypeError(
                    f"item {index} of the data set is {type(item).__name__} and keys={list(self._keys)} were given"
                )
            missing = [key for key in self._keys if key not in item]
            if missing:
                raise KeyError(f"item {index} of the data set lacks {missing}; it has {list(item)}")
            return [item[key] for key in self._keys]
        if isinstance(item, Mapping):
            raise TypeError(f"item {index} of the data set is a dictionary with {list(item)}: say which as keys=[...]")
        values = item if isinstance(item, (tuple, list)) and self._num_outputs > 1 else (item,)
        if isinstance(item, tuple) and len(item) == 1:
            values = item
        if len(values) != self._num_outputs:
            raise ValueError(
                f"item {index} of the data set has {count_of(len(values), 'value')}, num_outputs is {self._num_outputs}"
            )
        return values


def _array(value: Any, index: int) -> np.ndarray:
    array = as_sample(value)
    if array.dtype == object and not isinstance(value, (str, bytes)):
        raise TypeError(f"item {index} of the data set holds {type(value).__name__}, which is not an array")
    # a copy: the data set may keep its array, and the user may write to the batch
    return array.astype(object) if array.dtype.kind in "US" else array.copy()
