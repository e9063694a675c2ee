"""TrivialAugment (https://arxiv.org/abs/2103.10158): one augmentation of a random strength."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from pipeflow import fn
from pipeflow.auto_aug.core.choice import draw_seed, forbid_unused, select
from pipeflow.auto_aug.core.decorator import Augmentation
from pipeflow.auto_aug.core.magnitudes import signed_bin
from pipeflow.auto_aug.suites import check_bins, check_some, geometry_arguments, strengths, translations, without


def trivial_augment_wide(
    data: Any,
    num_magnitude_bins: int = 31,
    shape: Any = None,
    fill_value: Any = 128,
    interp_type: Any = None,
    max_translate_abs: Any = None,
    max_translate_rel: Any = None,
    seed: int | None = None,
    excluded: Sequence[str] | None = None,
) -> Any:
    """Applies one augmentation of one strength, both drawn for each sample, to uint8 images (HWC) or videos (FHWC).

    The arguments are those of `rand_augment`; images are shifted by up to 32 pixels, or their whole size with `shape`.
    """
    suite = get_trivial_augment_wide_suite(shape is not None, max_translate_abs, max_translate_rel)
    chosen = without(suite, excluded, "trivial_augment_wide")
    keywords = geometry_arguments(shape, fill_value, interp_type)
    return apply_trivial_augment(chosen, data, num_magnitude_bins, seed, **keywords)


def apply_trivial_augment(
    augmentations: Sequence[Augmentation],
    data: Any,
    num_magnitude_bins: int = 31,
    seed: int | None = None,
    **kwargs: Any,
) -> Any:
    """Applies one of the augmentations with one of the bins, both drawn for each sample; keywords go to those that take them."""
    check_bins(num_magnitude_bins)
    check_some(augmentations, "apply_trivial_augment")
    forbid_unused(augmentations, kwargs, "apply_trivial_augment")
    bins: Any = fn.random.uniform(values=list(range(num_magnitude_bins)), dtype=np.int32, seed=draw_seed(seed, 0))
    if any(one.randomly_negate for one in augmentations):
        bins = signed_bin(bins, seed=draw_seed(seed, 1))
    drawn = fn.random.uniform(values=list(range(len(augmentations))), dtype=np.int32, seed=draw_seed(seed, 2))
    return select(augmentations, drawn, data, magnitude_bin=bins, num_magnitude_bins=num_magnitude_bins, **kwargs)


def get_trivial_augment_wide_suite(
    use_shape: bool = False, max_translate_abs: Any = None, max_translate_rel: Any = None
) -> list[Augmentation]:
    """The 14 augmentations of the wide space of TrivialAugment."""
    return [
        *translations(use_shape, 32, 1.0, max_translate_abs, max_translate_rel),
        *strengths(shear=0.99, angle=135, colors=(0.01, 0.99), bits=(8, 2)),
    ]
