"""Distortions, light, clouds and weather on the GPU give on the host what the CPU gives."""

import numpy as np
import pytest
from host_device import assert_same, call_of, on_host

from pipeflow import fn
from pipeflow.tensors import TensorListCPU

F = np.float32
SIZES = [(5, 7), (1, 1), (33, 2), (24, 65)]
NEAR = {"rtol": 1e-4, "atol": 2e-3}


def images(dtype=np.uint8, channels=3, sizes=SIZES):
    """Ragged images of random numbers; floats from 0 to 1."""
    rng = np.random.default_rng(1)
    found = [rng.integers(0, 256, (*size, channels)) for size in sizes]
    return [(image / 255).astype(dtype) if dtype == F else image.astype(dtype) for image in found]


def clips(channels=3):
    """Sequences of different lengths."""
    rng = np.random.default_rng(2)
    return TensorListCPU([rng.integers(0, 255, (frames, 6, 7, channels), np.uint8) for frames in (1, 3)], "FHWC")


def each(*values):
    """An argument with a value for each image."""
    return TensorListCPU([F(value) for value in values])


def close(dtype):
    """A byte may be one off where a sum is fused on one side only."""
    return {"atol": 1, "few": 0.05} if dtype == np.uint8 else {"rtol": 1e-4, "atol": 1e-5}


def test_maps_of_distortions():
    """Both maps, with smooth and rough displacements, and arguments of each image's own."""
    assert_same(lambda: fn.distortions.elastic(images(), alpha=20.0, sigma=each(0, 1, 4, 12)), **NEAR)
    assert_same(lambda: fn.distortions.grid(images(), cells=(3, 4), limit=each(0, 0.2, 0.4, 0.5)), **NEAR)
    assert_same(lambda: fn.distortions.thin_plate(images(), points=3, scale=each(0, 0.1, 0.2, 0.05)), **NEAR)
    assert_same(lambda: fn.distortions.thin_plate(images(), points=2, moves=[0.1, 0, 0, 0.2, -0.1, 0, 0, 0]), **NEAR)
    assert_same(lambda: fn.distortions.optical(images(), strength=each(-0.5, 0, 0.5, 2)), **NEAR)
    planes = TensorListCPU([image.transpose(2, 0, 1).copy() for image in images()], "CHW")
    assert_same(lambda: fn.distortions.optical(planes, strength=0.4), **NEAR)
    assert_same(lambda: fn.distortions.elastic(clips()), **NEAR)


@pytest.mark.parametrize("dtype", [np.uint8, F])
def test_illumination(dtype):
    """Light from a side, a corner and a point."""
    assert_same(lambda: fn.illumination.linear(images(dtype), gain=each(0.2, -0.5, 1, 0), angle=30.0), **close(dtype))
    for corner in range(4):
        assert_same(lambda corner=corner: fn.illumination.corner(images(dtype, 1), corner=corner), **close(dtype))
    assert_same(lambda: fn.illumination.gaussian(images(dtype), center=[0.3, 0.6], sigma=0.2), **close(dtype))


@pytest.mark.parametrize("dtype", [np.uint8, F])
def test_clouds(dtype):
    """The random numbers of every level are those of the CPU."""
    assert_same(lambda: fn.plasma.brightness(images(dtype), roughness=each(0, 0.3, 0.6, 1)), **close(dtype))
    assert_same(lambda: fn.plasma.contrast(images(dtype), intensity=0.8), **close(dtype))
    assert_same(lambda: fn.plasma.shadow(images(dtype, 2)), **close(dtype))
    assert_same(lambda: fn.weather.fog(images(dtype), density=each(0.2, 0.5, 0.9, 1)), **close(dtype))


@pytest.mark.parametrize("dtype", [np.uint8, F])
def test_rain(dtype):
    """Strokes that overlap are drawn in the same order."""
    options = {"density": 0.05, "length": 9, "width": 2, "color": (200.0, 150.0, 250.0)}
    assert_same(lambda: fn.weather.rain(images(dtype), angle=each(-30, 0, 10, 45), **options), **close(dtype))
    assert_same(lambda: fn.weather.rain(images(dtype), density=0.0))


def test_snow_and_frames():
    """Dark pixels become lighter; all frames of a sequence have the same light."""
    assert_same(lambda: fn.weather.snow(images(), point=each(0.1, 0.4, 0.7, 1)), **close(np.uint8))
    assert_same(lambda: fn.plasma.shadow(clips()), **close(np.uint8))
    assert_same(lambda: fn.illumination.linear(clips(), gain=0.5), **close(np.uint8))
    assert_same(lambda: fn.weather.rain(clips(), density=0.05), **close(np.uint8))


def test_wrong_arguments_are_refused():
    """With the CPU's messages."""
    for call, message in (
        (lambda: fn.distortions.elastic(images(), sigma=-1.0), "sigma must not be negative"),
        (lambda: fn.distortions.grid(images(), cells=(0, 2)), "cells must be one or two numbers"),
        (lambda: fn.distortions.thin_plate(images(), points=2, moves=[1.0]), "moves of 4 points are 8 numbers, got 1"),
        (lambda: fn.distortions.optical(images(sizes=[(0, 3)])), "the image has no pixels"),
        (lambda: fn.illumination.corner(images(), corner=4), "corner must be from 0 to 3, got 4"),
        (lambda: fn.illumination.gaussian(images(), sigma=0.0), "sigma must be above 0"),
        (lambda: fn.plasma.shadow(images(), intensity=2.0), "intensity must be from 0 to 1"),
        (lambda: fn.plasma.contrast(images(), roughness=2.0), "roughness must be from 0 to 1"),
        (lambda: fn.weather.rain(images(), length=0), "length and width must be at least 1"),
        (lambda: fn.weather.snow(images(), point=2.0), "point must be from 0 to 1"),
        (lambda: fn.weather.fog(images(), variation=-1.0), "variation must be from 0 to 1"),
    ):
        with pytest.raises(ValueError, match=message):
            on_host(call_of(call))
