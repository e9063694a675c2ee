"""Iterators for CLU, Google's Common Loop Utils: the next batch can be looked at before it is taken."""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import jax
from clu.data.dataset_iterator import ArraySpec, ElementSpec

from pipeflow.errors import InvalidState
from pipeflow.plugin.jax import GenericIterator, iterator_maker

__all__ = ["DALIGenericPeekableIterator", "PeekableIterator", "get_spec_for_array", "peekable_data_iterator"]


class PeekableIterator(GenericIterator):
    """A GenericIterator that shows its next batch: ``peek()``, ``peek_async()`` and ``element_spec``.

    All batches have the shapes and types of the first.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._turn = threading.RLock()
        self._peeked: Any = None
        self._spec: Any = None
        self._background: ThreadPoolExecutor | None = None

    @property
    def element_spec(self) -> ElementSpec:
        """Shape and type of every output; the first batch is read to find them."""
        with self._turn:
            if self._spec is None:
                self.peek()
            return self._spec

    def peek(self) -> Any:
        """The next batch; the following ``next`` returns the same one."""
        with self._turn:
            if self._peeked is None:
                self._peeked = self._checked(super().__next__())
            return self._peeked

    def peek_async(self) -> "Future[Any]":
        """The next batch as a future, which another thread reads."""
        if self._background is None:
            self._background = ThreadPoolExecutor(1, "peek")
        return self._background.submit(self.peek)

    def __next__(self) -> Any:
        with self._turn:
            batch, self._peeked = self.peek(), None
            return batch

    def __iter__(self) -> "PeekableIterator":
        with self._turn:
            return self if self._peeked is not None else super().__iter__()

    def reset(self) -> None:
        """Begins the next epoch; a batch that ``peek`` returned and that was not taken is left out."""
        with self._turn:
            self._peeked = None
            super().reset()

    def checkpoints(self) -> list[bytes]:
        """The checkpoint of every pipeline, after the batch that was taken last."""
        with self._turn:
            if self._peeked is not None:
                raise InvalidState(
                    "peek() returned a batch that next() has not returned yet: call next() before a checkpoint"
                )
            return super().checkpoints()

    def _checked(self, batch: Any) -> Any:
        spec = jax.tree_util.tree_map(get_spec_for_array, batch)
        if self._spec is None:
            self._spec = spec
        elif spec != self._spec:
            raise ValueError(f"the batch is {spec} and the first one was {self._spec}: they must be equal")
        return batch


DALIGenericPeekableIterator = PeekableIterator


def get_spec_for_array(jax_array: Any) -> ArraySpec:
    """Shape and type of an array, in the form of CLU."""
    return ArraySpec(shape=jax_array.shape, dtype=jax_array.dtype)


def peekable_data_iterator(
    pipeline_fn: Callable[..., Any] | None = None,
    output_map: Sequence[str] = (),
    *,
    sharding: Any = None,
    devices: Sequence[Any] | None = None,
    **options: Any,
) -> Any:
    """``plugin.jax.data_iterator`` whose iterators are peekable."""
    return iterator_maker(PeekableIterator, pipeline_fn, output_map, sharding, devices, options)
