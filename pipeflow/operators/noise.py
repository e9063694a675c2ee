"""Noise on every element: noise.gaussian, and the permutation of a batch.

The numbers of an element are a function of the sample's key and the element's place, so they do not depend on threads
or on the order of work.
"""

from typing import Any

import numpy as np

from pipeflow import seeds
from pipeflow.declare import Arg, Out, Sample, Spec, operator
from pipeflow.kernels import cpu as kernels


@operator("noise.gaussian", examples=["fn.noise.gaussian(image, stddev=9.0)"])
def gaussian(data: Sample, /, *, mean: Arg[float] = 0.0, stddev: Arg[float] = 1.0, key: Any, out: Out) -> Sample:
    """Adds normally distributed noise; integers are rounded and limited to their range."""
    return kernels.noise.add_gaussian(data, key.value, mean, stddev, out)


@gaussian.infer
def _(specs: tuple[Spec, ...], _args: Any) -> Spec:
    return specs[0]


@operator("batch_permutation", granularity="batch", takes_seed=True, examples=["fn.batch_permutation()"])
def batch_permutation(*, allow_repetitions: bool = False, no_fixed_points: bool = False) -> Sample:
    """One integer for each sample of the batch: together a random permutation, to be used by ``permute_batch``.

    With ``allow_repetitions`` every integer is drawn for itself; with ``no_fixed_points`` no sample keeps its place (in
    a batch of one it must).
    """
    raise AssertionError(f"drawn for a whole batch below: {allow_repetitions}, {no_fixed_points}")


@batch_permutation.batch
def _(*, allow_repetitions: bool, no_fixed_points: bool, batch: Any) -> Any:
    size = batch.size
    generator = seeds.Key(int(batch.keys[0]) ^ seeds.mix(size)).generator()
    if size == 1 or not size:
        order = np.zeros(size, np.int32)
    elif allow_repetitions:
        order = generator.integers(0, size - no_fixed_points, size, np.int32)
        if no_fixed_points:
            order += order >= np.arange(size)  # the numbers without the sample's own place
    elif no_fixed_points:
        order = _without_fixed_points(generator, size)
    else:
        order = generator.permutation(size).astype(np.int32)
    return [[order[index, ...] for index in range(size)]]


def _without_fixed_points(generator: np.random.Generator, size: int) -> np.ndarray:
    """A random permutation that moves everything: permutations are drawn until one does, e times on average."""
    while True:
        order = generator.permutation(size).astype(np.int32)
        if (order != np.arange(size)).all():
            return order


@batch_permutation.infer
def _(_specs: tuple[Spec, ...], _args: Any) -> Spec:
    return Spec((), np.int32, "")
