"""Reads the items of a batch and joins them. This runs in a worker."""

import random
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple, Protocol

import numpy as np

from pipeflow.declare import framework
from pipeflow.errors import Failed, function_name
from pipeflow.loading.collate import NumpyLoading, collate, convert
from pipeflow.loading.leaves import difference, leaf_name, leaves, values_like
from pipeflow.loading.walks import BatchItems
from pipeflow.tensors import as_sample


def frame_of(name: str) -> Any:
    """The functions of a framework that a loader uses."""
    return NumpyLoading() if name == "numpy" else framework(name).loading


class Join(Protocol):
    """Joins the leaves of a batch."""

    def begin(self, count: int) -> Callable[[Any, int], Any]:
        """Begins a batch of at most so many items; the function returned gets each item and its number when it was read."""

    def placed(self, leaves: tuple[Any, ...]) -> tuple[Any, ...]:
        """The arrays of an item that a pipeline gets by itself."""

    def __call__(self, values: Sequence[Any], kind: str) -> Any:
        """The batch of equal leaves; `kind` is tensors, arrays or numbers."""


class Read(NamedTuple):
    """A batch that was read, or nothing if its stream had ended."""

    batch: Any
    items: int
    ended: bool = False


class ItemReader:
    """Reads the items of batches. Each process has one such object, and one thread of it reads a stream."""

    def __init__(
        self,
        dataset: Any,
        *,
        stream: bool,
        frame: str,
        batch_size: int | None,
        drop_last: bool,
        collate_fn: Callable[[Any], Any] | None,
    ) -> None:
        self.dataset = dataset
        self.stream = stream
        self.frame = frame
        self.batch_size = batch_size
        self.drop_last = drop_last
        self.collate_fn = collate_fn
        self.find_frame: Callable[[], Any] = partial(frame_of, frame)
        self.model: Any = None  # the structure of the items, if a pipeline reads them
        self._serial = -1
        self._iterator: Iterator[Any] = iter(())

    @property
    def name(self) -> str:
        """The data set in messages."""
        return type(self.dataset).__name__

    def run(self, wanted: BatchItems, join: Join) -> Read:
        """Reads the items of one batch."""
        if self.stream:
            return self._next_of_stream(wanted, join)
        if self.model is not None:
            return Read([self._leaves_of(index, join) for index in wanted.indices], len(wanted.indices))
        if self.batch_size is None and not isinstance(wanted.indices, list):
            return Read(self._single(self.item(wanted.indices)), 1)
        items = self._items(wanted.indices, join)
        return Read(self._joined(items, join, wanted.indices), len(items))

    def item(self, index: Any) -> Any:
        """One item; an error names it."""
        try:
            return self.dataset[index]
        except StopIteration as error:
            raise RuntimeError(f"item {index!r} of {self.name} raised StopIteration") from error
        except Exception as error:
            error.add_note(f"while reading item {index!r} of {self.name}")
            raise

    def _items(self, indices: Sequence[Any], join: Join) -> Sequence[Any]:
        many = getattr(self.dataset, "__getitems__", None)
        if callable(many):
            return many(list(indices))
        if self.collate_fn is not None:
            return [self.item(index) for index in indices]
        moved = join.begin(len(indices))
        return [moved(self.item(index), number) for number, index in enumerate(indices)]

    def _joined(self, items: Sequence[Any], join: Join, indices: Sequence[Any]) -> Any:
        if self.collate_fn is not None:
            return self.collate_fn(items)
        return collate(items, self.find_frame(), join, _ItemNames(self.name, indices))

    def _single(self, item: Any) -> Any:
        return convert(item, self.find_frame()) if self.collate_fn is None else self.collate_fn(item)

    def _leaves_of(self, index: Any, join: Join) -> Any:
        try:
            return join.placed(leaf_arrays(self.item(index), self.model, f"item {index!r} of {self.name}"))
        except Exception as error:
            return Failed(error)

    def _next_of_stream(self, wanted: BatchItems, join: Join) -> Read:
        if wanted.serial != self._serial:
            self._iterator, self._serial = iter(self.dataset), wanted.serial
            for _ in range(wanted.skipped):
                next(self._iterator, None)
        items: list[Any] = []
        size = self.batch_size or 1
        moved = join.begin(size if self.model is None and self.collate_fn is None else 0)
        for number, item in enumerate(self._iterator):
            items.append(moved(item, number))
            if len(items) == size:
                break
        ended = len(items) < size
        if not items or (ended and self.drop_last):
            return Read(None, 0, ended=True)
        first = wanted.number * size
        if self.model is not None:
            names = [f"item {first + n} of {self.name}" for n in range(len(items))]
            rows = [join.placed(leaf_arrays(item, self.model, name)) for name, item in zip(names, items)]
            return Read(rows, len(items), ended)
        if self.batch_size is None:
            return Read(self._single(items[0]), 1)
        return Read(self._joined(items, join, range(first, first + len(items))), len(items), ended)


class _ItemNames(Sequence[str]):
    """The items of a batch in messages."""

    def __init__(self, dataset: str, indices: Sequence[Any]) -> None:
        self._dataset = dataset
        self._indices = indices

    def __len__(self) -> int:
        return len(self._indices)

    def __getitem__(self, place: Any) -> Any:
        return f"item {self._indices[place]!r} of {self._dataset}"


def leaf_arrays(item: Any, model: Any, name: str) -> tuple[Any, ...]:
    """The values of an item as arrays, in the order of the model; text stays text. What is None in the model is left out."""
    found = difference(item, model)
    if found:
        raise TypeError(f"{name} has another structure than the first one: {found}")
    kept = []
    for (path, first), value in zip(leaves(model), values_like(item, model)):
        if first is None and value is not None:
            raise TypeError(
                f"{leaf_name(name, path)} is {type(value).__name__}, and was None in the first item: use a value for None"
            )
        if value is None and first is not None:
            raise TypeError(f"{leaf_name(name, path)} is None, which is not an array: use a value that stands for it")
        if value is not None:
            kept.append(value if isinstance(value, (str, bytes)) else as_sample(value))
    return tuple(kept)


class InlineJoining:
    """Joins leaves to a batch that is used in the same process."""

    def __init__(self, frame: Any) -> None:
        self._frame = frame

    def begin(self, count: int) -> Callable[[Any, int], Any]:
        """Leaves the items as they are."""
        del count
        return lambda item, _: item

    def placed(self, leaves: tuple[Any, ...]) -> tuple[Any, ...]:
        """Leaves the arrays as they are."""
        return leaves

    def __call__(self, values: Sequence[Any], kind: str) -> Any:
        """The batch of some leaves."""
        return getattr(self._frame, _JOINS[kind])(values)


_JOINS = {"tensors": "stack_tensors", "arrays": "stack_arrays", "numbers": "numbers"}


def seed_everything(key: int, frame: Any) -> None:
    """Sets the global generators that user code may use."""
    random.seed(key)
    np.random.seed(key & 0xFFFFFFFF)  # also if NumPy has not loaded it yet: the data set may be the first to use it
    if hasattr(frame, "seed"):
        frame.seed(key >> 1)


def described(dataset: Any) -> str:
    """The name of the data set, with the line of its `__getitem__`."""
    method = getattr(type(dataset), "__getitem__", None) or getattr(type(dataset), "__iter__", None)
    return function_name(method) if hasattr(method, "__code__") else type(dataset).__name__
