"""Magnitude bins with random signs, and the tables from which bin and sign select a parameter."""

from collections.abc import Callable
from typing import Any

import numpy as np

from pipeflow import fn
from pipeflow.data_node import DataNode


class SignedBin:
    """A magnitude bin and its sign (1: the magnitude is negated), for a sample or for each of its stages."""

    def __init__(self, magnitude_bin: Any, random_sign: Any, signed_magnitude_idx: Any) -> None:
        self.bin = magnitude_bin
        self.random_sign = random_sign
        self.signed_magnitude_idx = signed_magnitude_idx

    def __getitem__(self, stage: int) -> "SignedBin":
        own = self.bin if isinstance(self.bin, int) else self.bin[stage]
        return SignedBin(own, self.random_sign[stage], self.signed_magnitude_idx[stage])


def signed_bin(magnitude_bin: Any, random_sign: Any = None, seed: int | None = None, shape: Any = None) -> SignedBin:
    """A bin, a number or a DataNode of them, with a sign that is drawn here unless `random_sign` gives it: 0, or 1 to negate.

    `shape=(n,)` draws signs for n stages. If each sample takes one of several augmentations, draw the sign once,
    before the choice: this is better than drawing it in each of them.
    """
    index: Any = magnitude_bin
    if not isinstance(magnitude_bin, (int, np.integer, DataNode)):
        raise TypeError(f"magnitude_bin must be a whole number or a DataNode of them, got {magnitude_bin!r}")
    if random_sign is None:
        random_sign = fn.random.uniform(values=[0, 1], dtype=np.int32, seed=seed, shape=shape)
    elif seed is not None or shape is not None:
        raise ValueError("'random_sign' gives the signs: 'seed' and 'shape', which draw them, cannot be given too")
    return SignedBin(index, random_sign, 2 * index + random_sign)


def magnitudes_of(mag_range: Any, bins: int | None, name: str) -> np.ndarray:
    """The magnitude of each bin: in equal steps from one end of the range to the other, or the values of an array."""
    if isinstance(mag_range, np.ndarray):
        if bins is not None and len(mag_range) != bins:
            raise ValueError(f"augmentation {name!r} has {len(mag_range)} magnitudes, num_magnitude_bins is {bins}")
        return mag_range
    if not isinstance(mag_range, (tuple, list)) or len(mag_range) != 2:
        raise ValueError(
            f"mag_range of augmentation {name!r} must be a pair (low, high) or an array of magnitudes, got {mag_range!r}"
        )
    if bins is None:
        raise TypeError(f"augmentation {name!r} needs num_magnitude_bins, the number of bins of its range {mag_range}")
    low, high = mag_range
    return np.linspace(low, high, bins, dtype=np.float32)


def both_signs(magnitudes: np.ndarray) -> np.ndarray:
    """Every magnitude, followed by its negative."""
    return np.stack([magnitudes, -magnitudes], axis=1).reshape(-1)


def parameters_of(magnitudes: np.ndarray, to_parameter: Callable[[Any], Any], name: str) -> np.ndarray:
    """The parameters of the augmentation for all magnitudes, as one array."""
    found = []
    for magnitude in magnitudes:
        parameter = to_parameter(magnitude)
        if _has_node(parameter):
            raise TypeError(
                f"mag_to_param of augmentation {name!r} returned a DataNode: parameters are computed once, while the graph is "
                "built, so it must return numbers or arrays; use operators in the augmentation itself"
            )
        found.append(np.array(parameter))
    for magnitude, parameter in zip(magnitudes, found, strict=True):
        if (parameter.shape, parameter.dtype) != (found[0].shape, found[0].dtype):
            raise ValueError(
                f"mag_to_param of augmentation {name!r} must return the same shape and type for all magnitudes: "
                f"{found[0].dtype} {found[0].shape} for {magnitudes[0]}, but {parameter.dtype} {parameter.shape} for {magnitude}"
            )
    return np.array(found)


def _has_node(value: Any) -> bool:
    return any(map(_has_node, value)) if isinstance(value, (tuple, list)) else isinstance(value, DataNode)
