"""Keras 3: a pipeline as a PyDataset, and as a tf.data.Dataset where TensorFlow is installed."""

import threading
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np

from pipeflow.epochs import LastBatchPolicy
from pipeflow.errors import count_of, optional
from pipeflow.plugin.base import dense_array

__all__ = ["PyDataset", "tf_dataset"]

LOOKED_AT = 2  # at how many batches Keras looks before its first pass


class PyDataset(keras.utils.PyDataset):
    """The data for ``model.fit``: batches of ``(inputs, targets)`` or ``(inputs, targets, sample_weights)``.

    Every epoch of ``fit`` is one of the pipeline. The pipeline decides the order (``random_shuffle`` of its reader):
    Keras's index only says that one more batch is wanted. The last batch is as short as it is.
    """

    def __init__(self, pipeline: Any, last_batch_policy: LastBatchPolicy = LastBatchPolicy.PARTIAL) -> None:
        super().__init__(workers=1, use_multiprocessing=False)
        if pipeline.num_outputs > 3:
            raise ValueError(
                f"Keras takes inputs, targets and sample weights; the pipeline has {count_of(pipeline.num_outputs, 'output')}"
            )
        self._pipeline = pipeline
        self._policy = last_batch_policy
        self._epoch: Any = None
        self._left = 0
        self._asked: set[int] = set()  # the indices of this epoch's batches
        self._looked_at: dict[int, tuple[np.ndarray, ...]] = {}
        self._within = False
        self._before = False  # Keras fetched these batches before training: the first epoch gives them again
        self._lock = threading.Lock()  # TensorFlow asks from threads of its own

    @property
    def num_batches(self) -> int:
        """The number of batches in an epoch."""
        return len(self._pipeline.epoch(self._policy))

    def __len__(self) -> int:
        return self.num_batches

    def __getitem__(self, index: int) -> tuple[np.ndarray, ...]:
        # Keras looks at the first one or two batches to learn their shapes before its first pass, in which it asks for them
        # again: they are kept. Any other index that comes again belongs to a new pass, the one before was given up.
        with self._lock:
            if index in self._looked_at and (self._left or self._within):
                return self._looked_at.pop(index)
            if not self._left or index in self._asked:
                self._begin()
            batch = next(self._epoch)
            self._left -= 1
            if not self._left:
                next(self._epoch, None)  # the epoch has ended, as its state says
            arrays = tuple([dense_array(output, f"output {number}") for number, output in enumerate(batch)])
            if len(self._asked) < LOOKED_AT:
                self._looked_at[index] = arrays
                self._before = not self._within
            self._asked.add(index)
            return arrays

    def _begin(self) -> None:
        if self._epoch is not None:
            self._epoch.close()
        self._epoch = self._pipeline.epoch(self._policy)
        self._left = len(self._epoch)
        self._asked.clear()
        self._looked_at.clear()

    def on_epoch_begin(self) -> None:
        """Keras begins a pass, or goes on with one where ``steps_per_epoch`` ended its epoch."""
        self._within = True
        if not self._left and not self._before:
            self._looked_at.clear()

    def on_epoch_end(self) -> None:
        """Keras ends its epoch."""
        self._within = False


def tf_dataset(pipeline: Any, output_signature: Sequence[Any] | None = None) -> Any:
    """A ``tf.data.Dataset`` over the epochs of a pipeline, with the signature of its batches.

    Without ``output_signature`` the first batch is made to learn types and numbers of axes, and put back.
    """
    tensorflow = optional("tensorflow", "tf_dataset()", "tensorflow")
    if output_signature is None:
        state = pipeline.state_dict()
        first = next(pipeline.epoch())
        output_signature = tuple(
            tensorflow.TensorSpec(
                [None] * (output.ndim + 1), tensorflow.as_dtype(dense_array(output, f"output {number}").dtype)
            )
            for number, output in enumerate(first)
        )
        pipeline.load_state_dict(state)

    def generate() -> Any:
        for batch in pipeline.epoch():
            yield tuple([dense_array(output, f"output {number}") for number, output in enumerate(batch)])

    return tensorflow.data.Dataset.from_generator(generate, output_signature=tuple(output_signature))
