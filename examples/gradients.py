"""Derivatives of a function with a branch, sample by sample: python examples/gradients.py

The log-Huber loss grows with the square of small numbers and with the logarithm of large ones. `fn.gradients` gives its
derivative by x within the pipeline; samples of one batch take different branches.
"""

import numpy as np

from pipeflow import fn, pipeline_def

try:
    import torch
except ModuleNotFoundError as missing:
    raise SystemExit(f"this example needs {missing.name}: pip install torch") from None

XS = np.float32([0.5, 1, 2, 3, 10])


def log_huber(x, m):
    """The loss of one number."""
    if abs(x) <= m:
        return x**2
    return m**2 * (1 - 2 * torch.log(m) + torch.log(x**2))


@pipeline_def(batch_size=len(XS), num_threads=2)
def pipeline():
    """Numbers, their losses and the derivatives of these."""
    x = fn.external_source(lambda sample: XS[sample.idx_in_batch], batch=False)
    y = fn.py_function(log_huber, [x, np.float32(2)], np.float32)
    (dy_dx,) = fn.gradients(y, [x])
    return x, y, dy_dx


def main():
    for x, y, dy_dx in zip(*[np.asarray(batch.as_array()) for batch in pipeline().run()]):
        print(f"x = {x:4.1f}: log_huber = {y:6.3f}, derivative = {dy_dx:5.3f} {'#' * round(5 * dy_dx)}")


if __name__ == "__main__":
    main()
