"""Batches from workers that do not load torch, which saves 150 MB and a second for each; the program makes their tensors."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from pipeflow.declare import framework
from pipeflow.executor.workers.segments import Placed, Unfilled
from pipeflow.loading.collate import NumpyLoading

KINDS = frozenset("biufc")  # the types of arrays that torch has too


class Shared:
    """Replaces an array in a batch that is sent. The array is in shared memory; `kind` is the type that the receiver makes of
    it.
    """

    def __init__(self, array: "np.ndarray | Placed | Unfilled", kind: str) -> None:
        self.array = array
        self.kind = kind


class TensorsLater(NumpyLoading):
    """The functions of a loader for torch, as far as they work without torch; all other cases load torch."""

    name = "torch"

    def is_tensor(self, value: Any) -> bool:
        """False: without torch no value is a tensor."""
        del value
        return False

    def kind_of(self, array: np.ndarray) -> str | None:
        """The type that the program makes from an array; None if only torch knows it."""
        return "tensor" if type(array) is np.ndarray and array.dtype.kind in KINDS and array.dtype.isnative else None

    def stack_arrays(self, values: Sequence[np.ndarray]) -> Any:
        """Joins arrays of several types to one tensor."""
        return framework("torch").loading.stack_arrays(values)

    def numbers(self, values: Sequence[Any]) -> Any:
        """Joins numbers to an array of the type that torch would use."""
        kinds = set(map(type, values))
        if len(kinds) == 1:
            kind = kinds.pop()
            if kind in (bool, int, float):
                return Shared(np.array(values, {bool: np.bool_, int: np.int64, float: np.float64}[kind]), "tensor")
            if issubclass(kind, np.generic) and np.dtype(kind).kind in KINDS:
                return Shared(np.asarray(values), "tensor")
        return framework("torch").loading.numbers(values)

    def converted(self, value: Any) -> Any:
        """An array of an item that is not joined with other items."""
        array = np.asarray(value)
        return Shared(array, "tensor") if self.kind_of(array) else framework("torch").loading.converted(value)
