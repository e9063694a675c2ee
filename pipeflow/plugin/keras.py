"""Keras 3: a pipeline as a PyDataset, and as a tf.data.Dataset if TensorFlow is installed."""

import threading
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np

from pipeflow.epochs import LastBatchPolicy, dense_array
from pipeflow.errors import count_of, optional

__all__ = ["PyDataset", "tf_dataset"]

LOOKED_AT = 2  # the number of batches that Keras reads before its first pass


class PyDataset(keras.utils.PyDataset):
    """The data for ``model.fit``: batches of ``(inputs, targets)`` or ``(inputs, targets, sample_weights)``.

    Every epoch of ``fit`` is one epoch of the pipeline. The pipeline decides the order (``random_shuffle`` of its
    reader): an index from Keras only means that Keras needs one more batch. The last batch is not filled up.
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
        self._before = False  # Keras fetched these batches before training: the first epoch returns them again
        self._lock = threading.Lock()  # TensorFlow calls from its own threads

    @property
    def num_batches(self) -> int:
        """The number of batches in an epoch."""
        return len(self._pipeline.epoch(self._policy))

    def __len__(self) -> int:
        return self.num_batches

    def __getitem__(self, index: int) -> tuple[np.ndarray, ...]:
        # Keras reads the first one or two batches before its first pass, to learn their shapes. They are kept, because
        # the pass requests them again. Any other index that comes again means a new pass: the last one was stopped.
        with self._lock:
            if index in self._looked_at and (self._left or self._within):
                return self._looked_at.pop(index)
            if not self._left or index in self._asked:
                self._begin()
            batch = next(self._epoch)
            self._left -= 1
            if not self._left:
                next(self._epoch, None)  # after this call the state says that the epoch has ended
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
        """Keras begins a pass, or continues one after ``steps_per_epoch`` has ended its epoch."""
        self._within = True
        if not self._left and not self._before:
            self._looked_at.clear()

    def on_epoch_end(self) -> None:
        """Keras ends its epoch."""
        self._within = False


def tf_dataset(pipeline: Any, output_signature: Sequence[Any] | None = None) -> Any:
    """A ``tf.data.Dataset`` over the epochs of a pipeline, with the signature of its batches.

    Without ``output_signature`` the first batch is made to find types and numbers of axes; then the pipeline goes back.
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
