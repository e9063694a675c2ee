"""Parts of the standard suites: shifts, the other augmentations, and a function that leaves some out."""

from collections.abc import Sequence
from typing import Any

from pipeflow.auto_aug import augmentations as a
from pipeflow.auto_aug.core.decorator import Augmentation
from pipeflow.errors import nearest


def translations(use_shape: bool, pixels: Any, share: Any, max_abs: Any, max_rel: Any) -> list[Augmentation]:
    """Shifts along x and along y, by pixels or by parts of the shape; `pixels` and `share` are the default limits."""
    if not isinstance(use_shape, bool):
        raise TypeError(f"use_shape must be True or False, got {use_shape!r}")
    wrong, right, given = ("abs", "rel", max_abs) if use_shape else ("rel", "abs", max_rel)
    if given is not None:
        raise ValueError(
            f"max_translate_{wrong} is for images {'without' if use_shape else 'with'} a shape; give max_translate_{right}"
        )
    far = (share if max_rel is None else max_rel) if use_shape else (pixels if max_abs is None else max_abs)
    height, width = far if isinstance(far, (tuple, list)) else (far, far)
    pair = (a.translate_x, a.translate_y) if use_shape else (a.translate_x_no_shape, a.translate_y_no_shape)
    return [pair[0].augmentation((0, width), True), pair[1].augmentation((0, height), True)]


def strengths(shear: float, angle: float, colors: tuple[float, float], bits: tuple[int, int]) -> list[Augmentation]:
    """Shears, rotation and changes of values up to these limits, stronger with a higher bin; and those without bins."""
    return [
        a.shear_x.augmentation((0, shear), True),
        a.shear_y.augmentation((0, shear), True),
        a.rotate.augmentation((0, angle), True),
        a.brightness.augmentation(colors, True, a.shift_enhance_range),
        a.contrast.augmentation(colors, True, a.shift_enhance_range),
        a.color.augmentation(colors, True, a.shift_enhance_range),
        a.sharpness.augmentation(colors, True, a.sharpness_kernel),
        a.posterize.augmentation(bits, False, a.poster_mask_uint8),
        a.solarize.augmentation((256, 0)),
        a.equalize,
        a.auto_contrast,
        a.identity,
    ]


def geometry_arguments(shape: Any, fill_value: Any, interp_type: Any) -> dict[str, Any]:
    """The keywords that augmentations of the standard suites take."""
    given = {"fill_value": fill_value, "interp_type": interp_type}
    return given if shape is None else {**given, "shape": shape}


def without(augmentations: Sequence[Augmentation], excluded: Sequence[str] | None, caller: str) -> list[Augmentation]:
    """The augmentations whose names are not excluded."""
    names = [one.name for one in augmentations]
    for name in excluded or ():
        if name not in names:
            raise ValueError(
                f"{caller}: 'excluded' names {name!r}{nearest(name, names)}; the augmentations are {', '.join(names)}"
            )
    return [one for one in augmentations if one.name not in (excluded or ())]


def check_bins(num_magnitude_bins: Any) -> None:
    """Refuses a number of bins that is not a whole number of at least 1."""
    if not isinstance(num_magnitude_bins, int) or num_magnitude_bins < 1:
        raise ValueError(f"num_magnitude_bins must be a whole number of at least 1, got {num_magnitude_bins!r}")


def check_some(augmentations: Sequence[Augmentation], caller: str) -> None:
    """Refuses an empty list of augmentations."""
    if not augmentations:
        raise ValueError(f"{caller} needs at least one augmentation to choose from")
