"""AutoAugment (https://arxiv.org/abs/1805.09501): each sample gets one of a policy's sequences of augmentations."""

from collections.abc import Callable
from typing import Any

import numpy as np

from pipeflow import fn, types
from pipeflow.auto_aug import augmentations as a
from pipeflow.auto_aug.core.choice import draw_seed, forbid_unused, select
from pipeflow.auto_aug.core.decorator import Augmentation
from pipeflow.auto_aug.core.magnitudes import signed_bin
from pipeflow.auto_aug.core.policy import Policy
from pipeflow.auto_aug.suites import geometry_arguments, translations
from pipeflow.errors import nearest
from pipeflow.record.conditional.session import cond

_BINS = 11
_FAR_PIXELS, _FAR_SHARE = 250, 1.0

# The published policies: sequences of (augmentation, probability, magnitude bin).
_IMAGE_NET = (
    (("equalize", 0.8, None), ("shear_y", 0.8, 4)),
    (("color", 0.4, 9), ("equalize", 0.6, None)),
    (("color", 0.4, 1), ("rotate", 0.6, 8)),
    (("solarize", 0.8, 3), ("equalize", 0.4, None)),
    (("solarize", 0.4, 2), ("solarize", 0.6, 2)),
    (("color", 0.2, 0), ("equalize", 0.8, None)),
    (("equalize", 0.4, None), ("solarize_add", 0.8, 3)),
    (("shear_x", 0.2, 9), ("rotate", 0.6, 8)),
    (("color", 0.6, 1), ("equalize", 1.0, None)),
    (("invert", 0.4, None), ("rotate", 0.6, 0)),
    (("equalize", 1.0, None), ("shear_y", 0.6, 3)),
    (("color", 0.4, 7), ("equalize", 0.6, None)),
    (("posterize", 0.4, 6), ("auto_contrast", 0.4, None)),
    (("solarize", 0.6, 8), ("color", 0.6, 9)),
    (("solarize", 0.2, 4), ("rotate", 0.8, 9)),
    (("rotate", 1.0, 7), ("translate_y", 0.8, 9)),
    (("solarize", 0.8, 4),),
    (("shear_y", 0.8, 0), ("color", 0.6, 4)),
    (("color", 1.0, 0), ("rotate", 0.6, 2)),
    (("equalize", 0.8, None),),
    (("equalize", 1.0, None), ("auto_contrast", 0.6, None)),
    (("shear_y", 0.4, 7), ("solarize_add", 0.6, 7)),
    (("posterize", 0.8, 2), ("solarize", 0.6, 10)),
    (("solarize", 0.6, 8), ("equalize", 0.6, None)),
    (("color", 0.8, 6), ("rotate", 0.4, 5)),
)
_REDUCED_IMAGE_NET = (
    (("posterize", 0.4, 8), ("rotate", 0.6, 9)),
    (("solarize", 0.6, 5), ("auto_contrast", 0.6, None)),
    (("equalize", 0.8, None), ("equalize", 0.6, None)),
    (("posterize", 0.6, 7), ("posterize", 0.6, 6)),
    (("equalize", 0.4, None), ("solarize", 0.2, 4)),
    (("equalize", 0.4, None), ("rotate", 0.8, 8)),
    (("solarize", 0.6, 3), ("equalize", 0.6, None)),
    (("posterize", 0.8, 5), ("equalize", 1.0, None)),
    (("rotate", 0.2, 3), ("solarize", 0.6, 8)),
    (("equalize", 0.6, None), ("posterize", 0.4, 6)),
    (("rotate", 0.8, 8), ("color", 0.4, 0)),
    (("rotate", 0.4, 9), ("equalize", 0.6, None)),
    (("equalize", 0.8, None),),
    (("invert", 0.6, None), ("equalize", 1.0, None)),
    (("color", 0.6, 4), ("contrast", 1.0, 8)),
    (("rotate", 0.8, 8), ("color", 1.0, 2)),
    (("color", 0.8, 8), ("solarize", 0.8, 7)),
    (("sharpness", 0.4, 7), ("invert", 0.6, None)),
    (("shear_x", 0.6, 5), ("equalize", 1.0, None)),
    (("color", 0.4, 0), ("equalize", 0.6, None)),
    (("equalize", 0.4, None), ("solarize", 0.2, 4)),
    (("solarize", 0.6, 5), ("auto_contrast", 0.6, None)),
    (("invert", 0.6, None), ("equalize", 1.0, None)),
    (("color", 0.6, 4), ("contrast", 1.0, 8)),
    (("equalize", 0.8, None), ("equalize", 0.6, None)),
)
_SVHN = (
    (("shear_x", 0.9, 4), ("invert", 0.2, None)),
    (("shear_y", 0.9, 8), ("invert", 0.7, None)),
    (("equalize", 0.6, None), ("solarize", 0.6, 6)),
    (("invert", 0.9, None), ("equalize", 0.6, None)),
    (("equalize", 0.6, None), ("rotate", 0.9, 3)),
    (("shear_x", 0.9, 4), ("auto_contrast", 0.8, None)),
    (("shear_y", 0.9, 8), ("invert", 0.4, None)),
    (("shear_y", 0.9, 5), ("solarize", 0.2, 6)),
    (("invert", 0.9, None), ("auto_contrast", 0.8, None)),
    (("equalize", 0.6, None), ("rotate", 0.9, 3)),
    (("shear_x", 0.9, 4), ("solarize", 0.3, 3)),
    (("shear_y", 0.8, 8), ("invert", 0.7, None)),
    (("equalize", 0.9, None), ("translate_y", 0.6, 6)),
    (("invert", 0.9, None), ("equalize", 0.6, None)),
    (("contrast", 0.3, 3), ("rotate", 0.8, 4)),
    (("invert", 0.8, None),),
    (("shear_y", 0.7, 6), ("solarize", 0.4, 8)),
    (("invert", 0.6, None), ("rotate", 0.8, 4)),
    (("shear_y", 0.3, 7), ("translate_x", 0.9, 3)),
    (("shear_x", 0.1, 6), ("invert", 0.6, None)),
    (("solarize", 0.7, 2), ("translate_y", 0.6, 7)),
    (("shear_y", 0.8, 4), ("invert", 0.8, None)),
    (("shear_x", 0.7, 9), ("translate_y", 0.8, 3)),
    (("shear_y", 0.8, 5), ("auto_contrast", 0.7, None)),
    (("shear_x", 0.7, 2), ("invert", 0.1, None)),
)
_REDUCED_CIFAR10 = (
    (("invert", 0.1, None), ("contrast", 0.2, 6)),
    (("rotate", 0.7, 2), ("translate_x", 0.3, 9)),
    (("sharpness", 0.8, 1), ("sharpness", 0.9, 3)),
    (("shear_y", 0.5, 8), ("translate_y", 0.7, 9)),
    (("auto_contrast", 0.5, None), ("equalize", 0.9, None)),
    (("shear_y", 0.2, 7), ("posterize", 0.3, 7)),
    (("color", 0.4, 3), ("brightness", 0.6, 7)),
    (("sharpness", 0.3, 9), ("brightness", 0.7, 9)),
    (("equalize", 0.6, None), ("equalize", 0.5, None)),
    (("contrast", 0.6, 7), ("sharpness", 0.6, 5)),
    (("color", 0.7, 7), ("translate_x", 0.5, 8)),
    (("equalize", 0.3, None), ("auto_contrast", 0.4, None)),
    (("translate_y", 0.4, 3), ("sharpness", 0.2, 6)),
    (("brightness", 0.9, 6), ("color", 0.2, 8)),
    (("solarize", 0.5, 2),),
    (("equalize", 0.2, None), ("auto_contrast", 0.6, None)),
    (("equalize", 0.2, None), ("equalize", 0.6, None)),
    (("color", 0.9, 9), ("equalize", 0.6, None)),
    (("auto_contrast", 0.8, None), ("solarize", 0.2, 8)),
    (("brightness", 0.1, 3), ("color", 0.7, 0)),
    (("solarize", 0.4, 5), ("auto_contrast", 0.9, None)),
    (("translate_y", 0.9, 9), ("translate_y", 0.7, 9)),
    (("auto_contrast", 0.9, None), ("solarize", 0.8, 3)),
    (("equalize", 0.8, None), ("invert", 0.1, None)),
    (("translate_y", 0.7, 9), ("auto_contrast", 0.9, None)),
)


def auto_augment(
    data: Any,
    policy_name: str = "image_net",
    shape: Any = None,
    fill_value: Any = 128,
    interp_type: Any = None,
    max_translate_abs: Any = None,
    max_translate_rel: Any = None,
    seed: int | None = None,
) -> Any:
    """Applies a published policy to uint8 images (HWC) or videos (FHWC).

    `policy_name` is `image_net`, `reduced_image_net`, `svhn` or `reduced_cifar10`. With `shape`, height and width as numbers or
    a DataNode, images are shifted by up to `max_translate_rel` of them (1 unless given), a number or (height, width), else by
    up to `max_translate_abs` pixels (250). `fill_value` is the colour around moved images; None repeats their borders.
    """
    if policy_name not in _POLICIES:
        names = ", ".join(map(repr, _POLICIES))
        raise ValueError(
            f"policy_name must be one of {names}, got {policy_name!r}{nearest(str(policy_name), _POLICIES)}"
        )
    far = {"max_translate_abs": max_translate_abs, "max_translate_rel": max_translate_rel}
    if policy_name == "reduced_image_net":
        for name, value in {"shape": shape, **far}.items():
            if value is not None:
                raise ValueError(f"policy 'reduced_image_net' shifts no images, so {name!r} cannot be given")
        policy = get_reduced_image_net_policy()
    else:
        policy = _POLICIES[policy_name](shape is not None, **far)
    return apply_auto_augment(policy, data, seed, **geometry_arguments(shape, fill_value, interp_type))


def auto_augment_image_net(
    data: Any,
    shape: Any = None,
    fill_value: Any = 128,
    interp_type: Any = None,
    max_translate_abs: Any = None,
    max_translate_rel: Any = None,
    seed: int | None = None,
) -> Any:
    """`auto_augment` with the policy for ImageNet."""
    return auto_augment(data, "image_net", shape, fill_value, interp_type, max_translate_abs, max_translate_rel, seed)


def apply_auto_augment(policy: Policy, data: Any, seed: int | None = None, **kwargs: Any) -> Any:
    """Applies one of the sequences of a policy, drawn for each sample; keywords go to the augmentations that take them.

    The probability of each step decides whether the step is applied to a sample.
    """
    if not policy.sub_policies:
        raise ValueError(f"policy {policy.name!r} has no sub-policies to choose from")
    known = policy.augmentations.values()
    forbid_unused(known, kwargs, "apply_auto_augment")
    stages = max(map(len, policy.sub_policies))
    if not stages:
        return data
    chosen = fn.random.uniform(values=list(range(len(policy.sub_policies))), dtype=np.int32, seed=draw_seed(seed, 0))
    done = fn.random.uniform(range=[0.0, 1.0], shape=(stages,), seed=draw_seed(seed, 1))
    augmentations, places, probabilities, bins = _tables(policy, stages)
    place, probability = types.Constant(places)[chosen], types.Constant(probabilities)[chosen]
    strength: Any = types.Constant(bins)[chosen]
    if any(one.randomly_negate for one in known):
        strength = signed_bin(strength, seed=draw_seed(seed, 2), shape=(stages,))
    for stage in range(stages):
        keywords = {"magnitude_bin": strength[stage], "num_magnitude_bins": policy.num_magnitude_bins, **kwargs}
        run = done[stage] < probability[stage]
        data = cond(run, _choice(augmentations[stage], place[stage], keywords), _unchanged, data)
    return data


def _choice(augmentations: list[Augmentation], place: Any, keywords: dict[str, Any]) -> Callable[[Any], Any]:
    return lambda data: select(augmentations, place, data, **keywords)


def _unchanged(data: Any) -> Any:
    return data


def _tables(policy: Policy, stages: int) -> tuple[list[list[Augmentation]], np.ndarray, np.ndarray, np.ndarray]:
    """The augmentations of each stage; for each sub-policy and stage, the number of one, its probability and bin."""
    augmentations: list[list[Augmentation]] = [[] for _ in range(stages)]
    extents = (len(policy.sub_policies), stages)
    places, bins, probabilities = (
        np.zeros(extents, np.int32),
        np.zeros(extents, np.int32),
        np.zeros(extents, np.float32),
    )
    for row, sub_policy in enumerate(policy.sub_policies):
        for stage, (augmentation, probability, magnitude_bin) in enumerate(sub_policy):
            if augmentation not in augmentations[stage]:
                augmentations[stage].append(augmentation)
            places[row, stage] = augmentations[stage].index(augmentation)
            probabilities[row, stage] = probability
            bins[row, stage] = magnitude_bin or 0
    return augmentations, places, probabilities, bins


def _made(name: str, rows: Any, moved: list[Augmentation]) -> Policy:
    """A published policy, with the ranges that its authors give the magnitudes."""
    ranges = {
        **{one.name: one for one in moved},
        "shear_x": a.shear_x.augmentation((0, 0.3), True),
        "shear_y": a.shear_y.augmentation((0, 0.3), True),
        "rotate": a.rotate.augmentation((0, 30), True),
        "brightness": a.brightness.augmentation((0.1, 1.9), False, None),
        "contrast": a.contrast.augmentation((0.1, 1.9), False, None),
        "color": a.color.augmentation((0.1, 1.9), False, None),
        "sharpness": a.sharpness.augmentation((0.1, 1.9), False, a.sharpness_kernel_shifted),
        "posterize": a.posterize.augmentation((0, 4), False, a.poster_mask_uint8),
        "solarize": a.solarize.augmentation((0, 256), False),
        "solarize_add": a.solarize_add.augmentation((0, 110), False),
        "invert": a.invert,
        "equalize": a.equalize,
        "auto_contrast": a.auto_contrast,
    }
    return Policy(name, _BINS, [[(ranges[step], *rest) for step, *rest in row] for row in rows])


def _moved(use_shape: bool, max_translate_abs: Any, max_translate_rel: Any) -> list[Augmentation]:
    return translations(use_shape, _FAR_PIXELS, _FAR_SHARE, max_translate_abs, max_translate_rel)


def get_image_net_policy(
    use_shape: bool = False, max_translate_abs: Any = None, max_translate_rel: Any = None
) -> Policy:
    """The policy found for ImageNet."""
    return _made("ImageNetPolicy", _IMAGE_NET, _moved(use_shape, max_translate_abs, max_translate_rel))


def get_reduced_image_net_policy() -> Policy:
    """The policy found for a part of ImageNet."""
    return _made("ReducedImageNetPolicy", _REDUCED_IMAGE_NET, [])


def get_svhn_policy(use_shape: bool = False, max_translate_abs: Any = None, max_translate_rel: Any = None) -> Policy:
    """The policy found for SVHN."""
    return _made("SvhnPolicy", _SVHN, _moved(use_shape, max_translate_abs, max_translate_rel))


def get_reduced_cifar10_policy(
    use_shape: bool = False, max_translate_abs: Any = None, max_translate_rel: Any = None
) -> Policy:
    """The policy found for a part of CIFAR-10."""
    return _made("ReducedCifar10Policy", _REDUCED_CIFAR10, _moved(use_shape, max_translate_abs, max_translate_rel))


_POLICIES: dict[str, Callable[..., Policy]] = {
    "image_net": get_image_net_policy,
    "reduced_image_net": get_reduced_image_net_policy,
    "svhn": get_svhn_policy,
    "reduced_cifar10": get_reduced_cifar10_policy,
}
