"""RandAugment (https://arxiv.org/abs/1909.13719): n augmentations one after another, all of the same strength."""

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from pipeflow import fn
from pipeflow.auto_aug import augmentations as a
from pipeflow.auto_aug.core.choice import draw_seed, forbid_unused, select
from pipeflow.auto_aug.core.decorator import Augmentation
from pipeflow.auto_aug.core.magnitudes import signed_bin
from pipeflow.auto_aug.suites import check_bins, check_some, geometry_arguments, strengths, translations, without
from pipeflow.declare import outside_package

_FAR_PIXELS, _FAR_SHARE = 100, 100 / 224


def rand_augment(
    data: Any,
    n: int,
    m: int,
    num_magnitude_bins: int = 31,
    shape: Any = None,
    fill_value: Any = 128,
    interp_type: Any = None,
    max_translate_abs: Any = None,
    max_translate_rel: Any = None,
    seed: int | None = None,
    monotonic_mag: bool = True,
    excluded: Sequence[str] | None = None,
) -> Any:
    """Applies `n` augmentations, drawn for each sample, of the strength of bin `m`, to uint8 images (HWC) or videos (FHWC).

    With `shape`, height and width as numbers or a DataNode, images are shifted by up to `max_translate_rel` of them, a number or
    (height, width), else by up to `max_translate_abs` pixels. `fill_value` is the colour around moved images; None repeats
    their borders. With `monotonic_mag=False` some magnitudes are those of AutoAugment, where a higher bin is not always
    stronger. `excluded` has the names of augmentations that are not used.
    """
    suite = get_rand_augment_suite if monotonic_mag else get_rand_augment_non_monotonic_suite
    chosen = without(suite(shape is not None, max_translate_abs, max_translate_rel), excluded, "rand_augment")
    keywords = geometry_arguments(shape, fill_value, interp_type)
    return apply_rand_augment(chosen, data, n, m, num_magnitude_bins, seed, **keywords)


def apply_rand_augment(
    augmentations: Sequence[Augmentation],
    data: Any,
    n: int,
    m: int,
    num_magnitude_bins: int = 31,
    seed: int | None = None,
    **kwargs: Any,
) -> Any:
    """Applies `n` of the augmentations, drawn for each sample, with magnitude bin `m`; keywords go to those that take them."""
    if not isinstance(n, int) or n < 0:
        raise ValueError(f"n, how many augmentations a sample gets, must be a whole number of at least 0, got {n!r}")
    check_bins(num_magnitude_bins)
    if not isinstance(m, int) or not 0 <= m < num_magnitude_bins:
        raise ValueError(f"m, the magnitude bin, must be from 0 to {num_magnitude_bins - 1}, got {m!r}")
    if n == 0:
        warnings.warn("apply_rand_augment with n=0 changes nothing", stacklevel=outside_package())
        return data
    check_some(augmentations, "apply_rand_augment")
    forbid_unused(augmentations, kwargs, "apply_rand_augment")
    signed = any(one.randomly_negate for one in augmentations)
    drawn = fn.random.uniform(
        values=list(range(len(augmentations))), dtype=np.int32, shape=(n,), seed=draw_seed(seed, 0)
    )
    bins = signed_bin(m, seed=draw_seed(seed, 1), shape=(n,)) if signed else None
    for stage in range(n):
        strength = m if bins is None else bins[stage]
        kwargs |= {"magnitude_bin": strength, "num_magnitude_bins": num_magnitude_bins}
        data = select(augmentations, drawn[stage], data, **kwargs)
    return data


def get_rand_augment_suite(
    use_shape: bool = False, max_translate_abs: Any = None, max_translate_rel: Any = None
) -> list[Augmentation]:
    """The augmentations of RandAugment, each stronger with a higher bin."""
    return [
        *translations(use_shape, _FAR_PIXELS, _FAR_SHARE, max_translate_abs, max_translate_rel),
        *strengths(shear=0.3, angle=30, colors=(0, 0.9), bits=(8, 4)),
    ]


def get_rand_augment_non_monotonic_suite(
    use_shape: bool = False, max_translate_abs: Any = None, max_translate_rel: Any = None
) -> list[Augmentation]:
    """The same augmentations; those that change colours and values have the ranges of AutoAugment."""
    return [
        *translations(use_shape, _FAR_PIXELS, _FAR_SHARE, max_translate_abs, max_translate_rel),
        a.shear_x.augmentation((0, 0.3), True),
        a.shear_y.augmentation((0, 0.3), True),
        a.rotate.augmentation((0, 30), True),
        a.brightness.augmentation((0.1, 1.9), False, None),
        a.contrast.augmentation((0.1, 1.9), False, None),
        a.color.augmentation((0.1, 1.9), False, None),
        a.sharpness.augmentation((0.1, 1.9), False, a.sharpness_kernel_shifted),
        a.posterize.augmentation((0, 4), False, a.poster_mask_uint8),
        a.solarize.augmentation((0, 256), False, None),
        a.equalize,
        a.auto_contrast,
        a.identity,
    ]
