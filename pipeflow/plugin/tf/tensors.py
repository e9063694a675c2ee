"""The outputs of a pipeline with the types and shapes that a program of TensorFlow expects."""

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Any, Self

import numpy as np
import tensorflow as tf

from pipeflow.epochs import dense_array
from pipeflow.errors import count_of


def device_of(number: int | None) -> int | None:
    """The number of a GPU; a negative one means that there is none, as None does."""
    return None if number is None or number < 0 else number


def runs(pipe: Any) -> Iterator[Sequence[Any]]:
    """The batches of a pipeline until its data ends."""
    while True:
        try:
            yield pipe.run()
        except StopIteration:
            return


class OutputArrays:
    """Converts batches to arrays of these types and shapes."""

    def __init__(self, count: int, dtypes: Any, shapes: Any) -> None:
        """``dtypes`` is a type or a tuple of types, and ``shapes`` the same of shapes; None: any shape."""
        if not isinstance(dtypes, tuple):
            dtypes, shapes = (dtypes,), None if shapes is None else (shapes,)
        for each in dtypes:
            if not isinstance(each, tf.DType):
                raise TypeError(f"output_dtypes must be a type of TensorFlow or a tuple of them, got {dtypes!r}")
        if len(dtypes) != count:
            raise ValueError(
                f"output_dtypes has {count_of(len(dtypes), 'type')}, and the pipeline {count_of(count, 'output')}"
            )
        shapes = (None,) * count if shapes is None else tuple(shapes)
        if len(shapes) != count:
            raise ValueError(
                f"output_shapes has {count_of(len(shapes), 'shape')}, and the pipeline {count_of(count, 'output')}"
            )
        self.signature = tuple(tf.TensorSpec(_shape(shape), dtype) for shape, dtype in zip(shapes, dtypes))

    @classmethod
    def of_batch(cls, batch: Sequence[Any], shapes: Any) -> Self:
        """With the types of a batch, and with its numbers of axes where no shape is given."""
        found = tuple(
            tf.TensorSpec([None] * (output.ndim + 1), tf.as_dtype(_array(output, number).dtype))
            for number, output in enumerate(batch)
        )
        if shapes is None:
            shapes = tuple(spec.shape for spec in found)
        elif len(found) == 1 and not isinstance(shapes, tuple):
            shapes = (shapes,)
        return cls(len(found), tuple(spec.dtype for spec in found), shapes)

    def arrays(self, batch: Sequence[Any]) -> tuple[np.ndarray, ...]:
        """The outputs of a batch as arrays."""
        return tuple([self._checked(_array(output, number), number) for number, output in enumerate(batch)])

    def _checked(self, array: np.ndarray, number: int) -> np.ndarray:
        expected = self.signature[number]
        if tf.as_dtype(array.dtype) != expected.dtype:
            raise TypeError(
                f"output {number} of the pipeline is {array.dtype}, and output_dtypes[{number}] {expected.dtype.name}"
            )
        shape = _squeezed(array.shape, expected.shape)
        if shape is None:
            raise ValueError(
                f"output {number} of the pipeline has shape {array.shape}, and output_shapes[{number}] is {expected.shape}"
            )
        return array.reshape(shape)


def _array(output: Any, number: int) -> np.ndarray:
    return dense_array(output.as_cpu(), f"output {number}")


def _shape(shape: Any) -> tf.TensorShape:
    """``(8)`` is the shape of a batch of eight numbers."""
    return tf.TensorShape([shape] if isinstance(shape, int) else shape)


def _squeezed(shape: tuple[int, ...], expected: tf.TensorShape) -> tuple[int, ...] | None:
    """The shape without some axes of length 1, if that is what is expected."""
    if expected.rank is None:
        return shape
    ones = [axis for axis, length in enumerate(shape) if axis and length == 1]
    for dropped in combinations(ones, max(0, len(shape) - expected.rank)):
        kept = tuple(length for axis, length in enumerate(shape) if axis not in dropped)
        if expected.is_compatible_with(kept):
            return kept
    return None
