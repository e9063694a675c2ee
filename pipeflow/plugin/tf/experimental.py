"""Data sets of TensorFlow as inputs of a pipeline."""

from pipeflow.plugin.tf.dataset import DALIDatasetWithInputs, Input

__all__ = ["DALIDatasetWithInputs", "Input"]
