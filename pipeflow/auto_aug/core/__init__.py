"""The parts of augmentations and policies."""

from pipeflow.auto_aug.core.choice import select
from pipeflow.auto_aug.core.decorator import Augmentation as _Augmentation
from pipeflow.auto_aug.core.decorator import augmentation
from pipeflow.auto_aug.core.magnitudes import signed_bin
from pipeflow.auto_aug.core.policy import Policy

__all__ = ["Policy", "_Augmentation", "augmentation", "select", "signed_bin"]
