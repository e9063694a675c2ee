"""Batches that become tensors in the program, made in a worker that has not loaded torch: it saves 150 MB and a second each."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from pipeflow.declare import framework
from pipeflow.executor.workers.segments import Unfilled
from pipeflow.loading.collate import NumpyLoading

KINDS = frozenset("biufc")  # of arrays that torch has a type for


class Shared:
    """Replaces an array in a batch that is sent: the array is in shared memory, and `kind` is what the receiver makes of it."""

    def __init__(self, array: "np.ndarray | Unfilled", kind: str) -> None:
        self.array = array
        self.kind = kind


class TensorsLater(NumpyLoading):
    """What a loader uses of torch, as far as that can be known without it; the rest loads it."""

    name = "torch"

    def is_tensor(self, value: Any) -> bool:
        """There are no tensors without torch."""
        del value
        return False

    def kind_of(self, array: np.ndarray) -> str | None:
        """What is made of an array in the program, None where only torch can say."""
        return "tensor" if type(array) is np.ndarray and array.dtype.kind in KINDS and array.dtype.isnative else None

    def stack_arrays(self, values: Sequence[np.ndarray]) -> Any:
        """One tensor of arrays of several types."""
        return framework("torch").loading.stack_arrays(values)

    def numbers(self, values: Sequence[Any]) -> Any:
        """The numbers of a batch, of the type that torch would give them."""
        kinds = set(map(type, values))
        if len(kinds) == 1:
            kind = kinds.pop()
            if kind in (bool, int, float):
                return Shared(np.array(values, {bool: np.bool_, int: np.int64, float: np.float64}[kind]), "tensor")
            if issubclass(kind, np.generic) and np.dtype(kind).kind in KINDS:
                return Shared(np.asarray(values), "tensor")
        return framework("torch").loading.numbers(values)

    def converted(self, value: Any) -> Any:
        """An item's array where items are not joined."""
        array = np.asarray(value)
        return Shared(array, "tensor") if self.kind_of(array) else framework("torch").loading.converted(value)
