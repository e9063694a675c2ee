"""Arrays that are also a framework's tensors with a history of gradients."""

import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np


class Traced(np.ndarray):
    """An array that is also a framework's tensor with its history of gradients: a result of a differentiable function.

    It is read-only, because the history refers to its memory. Arrays that are made from it are plain arrays.
    """

    tensor: Any
    join: "Callable[[Sequence[Any]], Traced]"  # joins several such tensors along a new first axis
    whole: "Traced | None"  # the batch with this array as a row, if the function returned the batch as one tensor
    row: int

    @classmethod
    def of(
        cls,
        array: np.ndarray,
        tensor: Any,
        join: "Callable[[Sequence[Any]], Traced]",
        whole: "Traced | None" = None,
        row: int = -1,
    ) -> "Traced":
        """The array with the tensor that has the same memory."""
        view = array.view(cls)
        view.flags.writeable = False
        view.tensor, view.join, view.whole, view.row = tensor, join, whole, row
        return view

    def rows(self) -> "list[Traced]":
        """The samples of a batch that is one tensor."""
        plain = self.view(np.ndarray)
        return [Traced.of(plain[row, ...], self.tensor[row], self.join, self, row) for row in range(len(plain))]

    def shaped(self, shape: Sequence[int]) -> "Traced":
        """The same array and tensor in another shape."""
        return Traced.of(self.view(np.ndarray).reshape(shape), self.tensor.reshape(tuple(shape)), self.join)

    @staticmethod
    def stack(samples: "Sequence[Traced]") -> "Traced":
        """Samples of one shape as one tensor. If they are all the rows of one tensor in order, it is that tensor."""
        whole = samples[0].whole
        in_order = all(sample.whole is whole and sample.row == index for index, sample in enumerate(samples))
        if whole is not None and len(whole) == len(samples) and in_order:
            return whole
        return samples[0].join([sample.tensor for sample in samples])


def traced(value: Any) -> bool:
    """True for an array with a history of gradients; a view of such an array has none."""
    return type(value) is Traced and hasattr(value, "tensor")


def reshaped(array: np.ndarray, shape: Sequence[int]) -> np.ndarray:
    """The array in another shape, with its history if it has one."""
    return array.shaped(shape) if isinstance(array, Traced) and traced(array) else array.reshape(tuple(shape))


def check_untraced(value: Any) -> None:
    """Refuses to read an array with a history as another type."""
    if traced(value):
        raise RuntimeError(
            "these are results of a differentiable function: read as another type they would lose their gradients"
        )


def lent(array: np.ndarray, copied: bool = False) -> np.ndarray:
    """A read-only view of an array, for a function of the user.

    torch ignores the flag and writes to read-only memory (``from_numpy``, ``from_dlpack``). So if torch is loaded, the function
    gets a copy, unless the caller copies the array anyway (``copied``).
    """
    if type(array) is Traced:
        return array  # it is read-only already, and a view would have no history
    view = array.copy() if "torch" in sys.modules and not copied else array.view()
    view.flags.writeable = False
    return view
