"""A function for worker processes, in a module of its own: to import it loads nothing else."""

import sys

import numpy as np


def modules_of_the_gpu(sample):
    """The sample, larger by 100 for each module of the GPU that this process has loaded."""
    return sample + np.uint8(100 * sum(name in sys.modules for name in ("cupy", "pipeflow.backends.gpu")))
