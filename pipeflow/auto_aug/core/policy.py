"""Policies as plain data: sequences of augmentations with their probabilities and magnitude bins."""

import warnings
from collections.abc import Sequence
from typing import Any

from pipeflow.auto_aug.core.decorator import Augmentation
from pipeflow.declare import outside_package

SubPolicy = Sequence[tuple[Augmentation, float, int | None]]


class Policy:
    """A set of sequences of (augmentation, probability, magnitude bin or None); each sample takes one of them."""

    def __init__(self, name: str, num_magnitude_bins: int, sub_policies: Sequence[SubPolicy]) -> None:
        if not isinstance(num_magnitude_bins, int) or num_magnitude_bins < 1:
            raise ValueError(f"num_magnitude_bins must be a whole number of at least 1, got {num_magnitude_bins!r}")
        if not isinstance(sub_policies, (list, tuple)):
            raise TypeError(f"sub_policies must be a list of lists, got {type(sub_policies).__name__}")
        self.name = name
        self.num_magnitude_bins = num_magnitude_bins
        for sub_policy in sub_policies:
            if not isinstance(sub_policy, (list, tuple)):
                raise TypeError(f"a sub-policy must be a list of (augmentation, probability, bin), got {sub_policy!r}")
            for step in sub_policy:
                self._check(step)
        self.sub_policies = _named_apart(sub_policies)

    def _check(self, step: Any) -> None:
        if not isinstance(step, (list, tuple)) or len(step) != 3:
            raise TypeError(f"a step of a policy is (augmentation, probability, bin), got {step!r}")
        augmentation, probability, magnitude = step
        if not isinstance(augmentation, Augmentation):
            raise TypeError(
                f"a step of a policy begins with an augmentation, made by @augmentation; got {augmentation!r}"
            )
        if not isinstance(probability, (int, float)) or not 0 <= probability <= 1:
            raise ValueError(f"the probability of {augmentation.name!r} must be from 0 to 1, got {probability!r}")
        where = f"{augmentation.name!r} in policy {self.name!r}"
        if probability == 0:
            warnings.warn(f"{where} has a probability of 0", stacklevel=outside_package())
        if magnitude is None:
            if augmentation.mag_range is not None:
                raise ValueError(f"{where} has a range of magnitudes: give a bin in place of None")
            return
        if augmentation.mag_range is None:
            warnings.warn(
                f"{where} has no magnitudes: its bin {magnitude} has no effect, give None", stacklevel=outside_package()
            )
        if not isinstance(magnitude, int) or not 0 <= magnitude < self.num_magnitude_bins:
            raise ValueError(f"the bin of {where} must be from 0 to {self.num_magnitude_bins - 1}, got {magnitude!r}")

    @property
    def augmentations(self) -> dict[str, Augmentation]:
        """Every augmentation of the policy by its name, in alphabetical order."""
        found = {step[0].name: step[0] for sub_policy in self.sub_policies for step in sub_policy}
        return dict(sorted(found.items()))

    def __repr__(self) -> str:
        rows = [repr([(step[0].name, *step[1:]) for step in sub_policy]) for sub_policy in self.sub_policies]
        rows = [f"sub_policies=[{', '.join(rows)}]", f"augmentations={self.augmentations!r}"]
        return f"Policy(name={self.name!r}, num_magnitude_bins={self.num_magnitude_bins}, {', '.join(rows)})"


def _named_apart(sub_policies: Sequence[SubPolicy]) -> tuple[tuple[Any, ...], ...]:
    """The sub-policies; if two augmentations have the same name, their names get numbers."""
    different = list(dict.fromkeys(step[0] for sub_policy in sub_policies for step in sub_policy))
    renamed = {one: one for one in different}
    if len({one.name for one in different}) < len(different):
        digits = len(str(len(different) - 1))
        renamed = {one: one.augmentation(name=f"{i:0{digits}}__{one.name}") for i, one in enumerate(different)}
    return tuple(tuple((renamed[one], *rest) for one, *rest in sub_policy) for sub_policy in sub_policies)
