"""A data set in a module that does not import torch."""

import sys

import numpy as np


class Plain:
    """A data set that knows nothing of torch, and says whether its process has loaded it."""

    def __len__(self):
        return 4

    def __getitem__(self, index):
        return {
            "loaded": "torch" in sys.modules,
            "numbers": [index, index / 2, index > 1, np.float32(index), np.int8(index), np.bool_(index)],
            "arrays": (np.arange(3) + index, np.full((2, 2), index, np.float16), np.array(index)),
            "text": f"item {index}",
        }
