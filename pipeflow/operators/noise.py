"""Noise on every element: noise.gaussian.

The numbers of an element are a function of the sample's key and the element's place, so they do not depend on threads
or on the order of work.
"""

from typing import Any

from pipeflow.declare import Arg, Out, Sample, default, operator
from pipeflow.kernels import cpu as kernels


@operator("noise.gaussian", gpu="random", infer="like data", examples=["fn.noise.gaussian(image, stddev=9.0)"])
def gaussian(
    data: Sample,
    /,
    *,
    mean: Arg[float] = default(0.0, "mean of the noise"),
    stddev: Arg[float] = default(1.0, "standard deviation of the noise"),
    key: Any,
    out: Out,
) -> Sample:
    """Adds normally distributed noise; integers are rounded and limited to their range."""
    return kernels.noise.add_gaussian(data, key.value, mean, stddev, out)
