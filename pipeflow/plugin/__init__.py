"""Iterators for training loops, one module for each framework."""

from pipeflow.dali_names import speaking as _speaking

__getattr__ = _speaking("plugin", globals().keys)
