"""TensorFlow: a pipeline as a ``tf.data.Dataset``, and batch by batch, with the names of DALI's plugin."""

from pipeflow.plugin.tf import experimental
from pipeflow.plugin.tf.dataset import DALIDataset
from pipeflow.plugin.tf.iterator import DALIIterator, DALIIteratorWrapper, DALIRawIterator

__all__ = ["DALIDataset", "DALIIterator", "DALIIteratorWrapper", "DALIRawIterator", "experimental"]
