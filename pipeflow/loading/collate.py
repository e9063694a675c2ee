"""Joins items to a batch: items of equal structure are joined leaf by leaf, by the rules of torch's default_collate.

Tensors, arrays and numbers become one array with the batch as its first axis. Text and bytes become a list. Dictionaries keep
their keys and their type, named tuples keep their type, lists stay lists, and a tuple becomes a list of its columns.
"""

import copy
from collections.abc import Callable, Mapping, MutableMapping, MutableSequence, Sequence
from typing import Any

import numpy as np

from pipeflow import types
from pipeflow.errors import WrongShape
from pipeflow.loading.leaves import Field, Path, is_named_tuple, leaf_name, path_text
from pipeflow.tensors import as_sample


class NumpyLoading:
    """The functions of a loader whose batches are NumPy arrays; `plugin.pytorch` has the same for tensors."""

    name = "numpy"

    def is_tensor(self, value: Any) -> bool:
        """True for a tensor of this framework, or of another framework, with its data on the CPU."""
        return not isinstance(value, (np.ndarray, np.generic)) and hasattr(value, "__dlpack__")

    def stack_tensors(self, values: Sequence[Any]) -> Any:
        """Joins the tensors of a batch to one array."""
        return np.stack([as_sample(x) for x in values])

    def stack_arrays(self, values: Sequence[np.ndarray]) -> Any:
        """Joins the arrays of a batch to one array."""
        return np.stack(values)

    def numbers(self, values: Sequence[Any]) -> Any:
        """Joins the numbers of a batch to one array."""
        return np.array(values)

    def converted(self, value: Any) -> Any:
        """An array of an item that is not joined with other items."""
        return as_sample(value) if self.is_tensor(value) else value

    def array_of(self, value: Any) -> "tuple[np.ndarray, str] | None":
        """The array of a tensor, and the name of the type that is made of it later; None for objects that are pickled."""
        del value
        return None

    def restored(self, array: np.ndarray, kind: str) -> Any:
        """Makes the tensor of an array from a worker."""
        del kind
        return array

    def takes(self, dtype: np.dtype) -> bool:
        """True if arrays of this type can be joined."""
        return dtype.kind not in "OSUV"

    def batch_of(self, batch: Any) -> Any:
        """An output of a pipeline as one array, as a list of arrays if their shapes differ, or as a list of text."""
        batch = batch.as_cpu() if hasattr(batch, "as_cpu") else batch
        if batch.dtype == types.STRING:
            return [x.item() for x in batch.samples()]
        return batch.as_array() if batch.is_dense_tensor() else batch.samples()


# joins equal leaves; the arguments are the leaves, and their kind: tensors, arrays or numbers
Join = Callable[[Sequence[Any], str], Any]


def collate(items: Sequence[Any], frame: Any, join: Join, names: Sequence[str], path: Path = ()) -> Any:
    """The batch of some items; `names` are the names of the items in messages."""
    if not items:
        raise IndexError(
            "batch_sampler gave a batch without items, of which no array can be made: leave it out, or give collate_fn"
        )
    first = items[0]
    if type(None) in set(map(type, items)):
        where = next(name for name, x in zip(names, items) if x is None)
        raise TypeError(
            f"{leaf_name(where, path)} is None, and a batch cannot contain None: use a value that stands for it "
            "(-1, an empty string), leave the key out, or pass collate_fn"
        )
    if frame.is_tensor(first):
        return _joined(items, "tensors", join, names, path)
    if isinstance(first, np.ndarray):
        if not frame.takes(first.dtype):
            raise TypeError(
                f"{leaf_name(names[0], path)} is an array of type {first.dtype}, which cannot be joined to a batch: "
                "give numbers, text as str, or pass collate_fn"
            )
        return _joined(items, "arrays", join, names, path)
    if isinstance(first, (np.bool_, np.number, float, int)):
        return _joined(items, "numbers", join, names, path)
    if isinstance(first, (str, bytes)):
        return items

    def column(key: Any, step: Any) -> Any:
        values = [item[key] for item in items]  # as in torch, the text of a sequence is a tuple
        values_there = values if isinstance(first, Mapping) else tuple(values)
        return collate(values_there, frame, join, names, (*path, step))

    if isinstance(first, Mapping):
        for number, item in enumerate(items):
            lacking = [key for key in first if not isinstance(item, Mapping) or key not in item]
            if lacking:
                raise KeyError(
                    f"{leaf_name(names[number], path)} lacks {lacking}, which {leaf_name(names[0], path)} has"
                )
        return _like(first, {key: column(key, key) for key in first})
    if is_named_tuple(first):
        _check_lengths(items, names, path)
        return type(first)(*[column(n, Field(field)) for n, field in enumerate(first._fields)])
    if isinstance(first, Sequence):
        _check_lengths(items, names, path)
        columns = [column(n, n) for n in range(len(first))]
        return columns if isinstance(first, tuple) else _like(first, columns)
    raise TypeError(
        f"{leaf_name(names[0], path)} is {type(first).__name__}, which cannot be joined to a batch: give tensors, arrays, "
        "numbers, text, or dictionaries, tuples and lists of these, or pass collate_fn"
    )


def convert(item: Any, frame: Any) -> Any:
    """An item that is already a batch (`batch_size=None`): its arrays become tensors, everything else stays."""
    if isinstance(item, (np.ndarray, np.bool_, np.number)) or frame.is_tensor(item):
        return frame.converted(item)
    if isinstance(item, (str, bytes)):
        return item
    if isinstance(item, Mapping):
        return _like(item, {key: convert(value, frame) for key, value in item.items()})
    if is_named_tuple(item):
        return type(item)(*[convert(value, frame) for value in item])
    if isinstance(item, Sequence):
        values = [convert(value, frame) for value in item]
        return values if isinstance(item, tuple) else _like(item, values)
    return item


def _joined(items: Sequence[Any], kind: str, join: Join, names: Sequence[str], path: Path) -> Any:
    if kind != "numbers":
        shape = items[0].shape
        for number, item in enumerate(items):
            if getattr(item, "shape", shape) != shape:
                raise WrongShape(
                    f"the items of a batch have different shapes{f' at {path_text(path)}' if path else ''}: {tuple(shape)} in "
                    f"{names[0]} and {tuple(item.shape)} in {names[number]}. Make them equal in the data set or with transform=, "
                    "or pass collate_fn"
                )
    try:
        return join(items, kind)
    except Exception as error:
        error.add_note(f"while a batch was made of {leaf_name(names[0], path)} and the {len(items) - 1} items after it")
        raise


def _check_lengths(items: Sequence[Any], names: Sequence[str], path: Path) -> None:
    length = len(items[0])
    for number, item in enumerate(items):
        if len(item) != length:
            raise WrongShape(
                f"{leaf_name(names[number], path)} has {len(item)} values and {leaf_name(names[0], path)} has {length}: "
                "lists in a batch must have equal lengths; give arrays, or pass collate_fn"
            )


def _like(first: Any, content: Any) -> Any:
    """The content in a container of the type of `first` if such a container can be filled, else the content itself."""
    clone: Any
    try:
        if isinstance(first, MutableMapping):
            clone = copy.copy(first)
            clone.update(content)
            return clone
        if isinstance(first, MutableSequence):
            clone = copy.copy(first)
            for index, value in enumerate(content):
                clone[index] = value
            return clone
        return type(first)(content)
    except TypeError:
        return content
