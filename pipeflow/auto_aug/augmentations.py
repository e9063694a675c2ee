"""The transformations that AutoAugment, RandAugment and TrivialAugment choose from.

Each can be given another range of magnitudes: `shear_x.augmentation(mag_range=(0, 0.5))`.
"""

from typing import Any

import numpy as np

from pipeflow import fn
from pipeflow.auto_aug.core.decorator import augmentation

_IDENTITY = np.pad(np.ones((1, 1), np.float32), 1)
_SMOOTH = (np.ones((3, 3), np.float32) + 4 * _IDENTITY) / 13


def warp_x_param(magnitude: float) -> list[float]:
    """A magnitude along x."""
    return [magnitude, 0]


def warp_y_param(magnitude: float) -> list[float]:
    """A magnitude along y."""
    return [0, magnitude]


def _around(fill_value: Any, interp_type: Any) -> dict[str, Any]:
    return {"fill_value": fill_value, "interp_type": interp_type}


def _warped(data: Any, matrix: Any, fill_value: Any, interp_type: Any) -> Any:
    return fn.warp_affine(data, matrix=matrix, inverse_map=False, **_around(fill_value, interp_type))


def _sheared(data: Any, shear: Any, fill_value: Any = 128, interp_type: Any = None) -> Any:
    return _warped(data, fn.transforms.shear(shear=shear), fill_value, interp_type)


def _shifted(data: Any, offset: Any, fill_value: Any = 128, interp_type: Any = None) -> Any:
    return _warped(data, fn.transforms.translation(offset=offset), fill_value, interp_type)


@augmentation(mag_range=(0, 0.3), randomly_negate=True, mag_to_param=warp_x_param)
def shear_x(data: Any, shear: Any, fill_value: Any = 128, interp_type: Any = None) -> Any:
    """Shears along x; the magnitude is the shift of a row for each row between it and the origin."""
    return _sheared(data, shear, fill_value, interp_type)


@augmentation(mag_range=(0, 0.3), randomly_negate=True, mag_to_param=warp_y_param)
def shear_y(data: Any, shear: Any, fill_value: Any = 128, interp_type: Any = None) -> Any:
    """Shears along y."""
    return _sheared(data, shear, fill_value, interp_type)


@augmentation(mag_range=(0.0, 1.0), randomly_negate=True, mag_to_param=warp_x_param)
def translate_x(data: Any, rel_offset: Any, shape: Any, fill_value: Any = 128, interp_type: Any = None) -> Any:
    """Shifts along x by a part of the width; `shape` begins with the height and the width."""
    return _shifted(data, rel_offset * shape[1], fill_value, interp_type)


@augmentation(mag_range=(0, 250), randomly_negate=True, mag_to_param=warp_x_param, name="translate_x")
def translate_x_no_shape(data: Any, offset: Any, fill_value: Any = 128, interp_type: Any = None) -> Any:
    """Shifts along x by pixels."""
    return _shifted(data, offset, fill_value, interp_type)


@augmentation(mag_range=(0.0, 1.0), randomly_negate=True, mag_to_param=warp_y_param)
def translate_y(data: Any, rel_offset: Any, shape: Any, fill_value: Any = 128, interp_type: Any = None) -> Any:
    """Shifts along y by a part of the height."""
    return _shifted(data, rel_offset * shape[0], fill_value, interp_type)


@augmentation(mag_range=(0, 250), randomly_negate=True, mag_to_param=warp_y_param, name="translate_y")
def translate_y_no_shape(data: Any, offset: Any, fill_value: Any = 128, interp_type: Any = None) -> Any:
    """Shifts along y by pixels."""
    return _shifted(data, offset, fill_value, interp_type)


@augmentation(mag_range=(0, 30), randomly_negate=True)
def rotate(data: Any, angle: Any, fill_value: Any = 128, interp_type: Any = None, rotate_keep_size: bool = True) -> Any:
    """Rotates by degrees."""
    return fn.rotate(data, angle=angle, keep_size=rotate_keep_size, **_around(fill_value, interp_type))


def shift_enhance_range(magnitude: float) -> float:
    """Converts a magnitude around 0 to a factor around 1; the factor 1 does not change the image."""
    return 1 + magnitude


@augmentation(mag_range=(0, 0.9), randomly_negate=True, mag_to_param=shift_enhance_range)
def brightness(data: Any, parameter: Any) -> Any:
    """Multiplies the values."""
    return fn.brightness(data, brightness=parameter)


@augmentation(mag_range=(0, 0.9), randomly_negate=True, mag_to_param=shift_enhance_range)
def contrast(data: Any, parameter: Any) -> Any:
    """Multiplies the distances from the mean grey of the image."""
    return fn.contrast_about_mean(data, contrast=parameter)


@augmentation(mag_range=(0, 0.9), randomly_negate=True, mag_to_param=shift_enhance_range)
def color(data: Any, parameter: Any) -> Any:
    """Multiplies the saturation."""
    return fn.saturation(data, saturation=parameter)


def sharpness_kernel(magnitude: float) -> np.ndarray:
    """The window that sharpens if the magnitude is above 0, and smooths if it is below 0."""
    return (-magnitude * _SMOOTH + (1 + magnitude) * _IDENTITY).astype(np.float32)


def sharpness_kernel_shifted(magnitude: float) -> np.ndarray:
    """The same for magnitudes around 1."""
    return sharpness_kernel(magnitude - 1)


@augmentation(mag_range=(0, 0.9), randomly_negate=True, mag_to_param=sharpness_kernel, param_device="auto")
def sharpness(data: Any, kernel: Any) -> Any:
    """Sharpens or smooths; outside of its border the image is reflected."""
    return fn.filter(data, kernel)


def poster_mask_uint8(magnitude: float) -> np.ndarray:
    """A mask of high bits; the magnitude is their number, from 1 to 8."""
    bits = min(max(int(np.round(magnitude)), 1), 8)
    return np.array(0xFF00 >> bits & 0xFF, np.uint8)


@augmentation(mag_range=(0, 4), mag_to_param=poster_mask_uint8, param_device="auto")
def posterize(data: Any, mask: Any) -> Any:
    """Clears the bits of every value that are not in the mask."""
    return data & mask


@augmentation(mag_range=(256, 0))
def solarize(data: Any, threshold: Any) -> Any:
    """Inverts the values that are not below the threshold."""
    return fn.solarize(data, threshold=threshold)


def solarize_add_shift(shift: float) -> np.ndarray:
    """The value to be added, a whole number below 128."""
    if not 0 <= shift < 128:
        raise ValueError(f"solarize_add adds from 0 to 127 to values below 128, got {shift}")
    return np.array(shift, np.int32)


@augmentation(mag_range=(0, 110), mag_to_param=solarize_add_shift)
def solarize_add(data: Any, shift: Any) -> Any:
    """Adds `shift` to the values below 128."""
    return fn.solarize_add(data, shift=shift)


@augmentation
def invert(data: Any, _: Any) -> Any:
    """Replaces every value v by 255 - v."""
    return fn.invert(data)


@augmentation
def equalize(data: Any, _: Any) -> Any:
    """Spreads the values of every channel evenly, as OpenCV does."""
    return fn.equalize(data)


@augmentation
def auto_contrast(data: Any, _: Any) -> Any:
    """Stretches every channel over the whole range."""
    return fn.autocontrast(data)


@augmentation
def identity(data: Any, _: Any) -> Any:
    """Returns the image unchanged."""
    return data
