"""Noise on every element: noise.gaussian.

The numbers of an element are a function of the sample's key and the element's place, so they do not depend on threads
or on the order of work.
"""

from typing import Any

from pipeflow.declare import Arg, Out, Sample, Spec, operator
from pipeflow.kernels import cpu as kernels


@operator("noise.gaussian", gpu="random", examples=["fn.noise.gaussian(image, stddev=9.0)"])
def gaussian(data: Sample, /, *, mean: Arg[float] = 0.0, stddev: Arg[float] = 1.0, key: Any, out: Out) -> Sample:
    """Adds normally distributed noise; integers are rounded and limited to their range."""
    return kernels.noise.add_gaussian(data, key.value, mean, stddev, out)


@gaussian.infer
def _(specs: tuple[Spec, ...], _args: Any) -> Spec:
    return specs[0]
