"""Noise: shares, values, channels that change together, and the distribution of counts."""

import numpy as np
import pytest
from scipy import stats

from pipeflow import fn
from pipeflow.tensors import TensorListCPU

F = np.float32
IMAGE = np.full((120, 150, 3), 100, np.uint8)


def refused(match, kind, call):
    """The call fails with this type and words."""
    with pytest.raises(kind, match=match):
        call()


def test_shares_of_salt_and_pepper():
    """Three tenths of the pixels, of these a quarter white; all channels of a pixel together."""
    found = fn.noise.salt_and_pepper(IMAGE, prob=0.3, salt_vs_pepper=0.25, key=3)
    assert set(np.unique(found)) == {0, 100, 255}
    assert np.ptp(found.astype(int), axis=2).max() == 0
    assert abs((found != 100).mean() - 0.3) < 0.02
    assert abs((found == 255).sum() / (found != 100).sum() - 0.25) < 0.03
    each = fn.noise.salt_and_pepper(IMAGE, prob=0.3, per_channel=True, key=3)
    assert abs((each != 100).any(2).mean() - (1 - 0.7**3)) < 0.02
    planes = fn.noise.salt_and_pepper(
        TensorListCPU([IMAGE.transpose(2, 0, 1).copy()], "CHW"), prob=0.3, salt_vs_pepper=0.25, key=3
    )
    assert np.ptp(np.asarray(planes.at(0)).astype(int), axis=0).max() == 0
    assert (fn.noise.salt_and_pepper(IMAGE, prob=0.0) == 100).all()
    assert (fn.noise.salt_and_pepper(IMAGE, prob=1.0, salt_vs_pepper=1.0) == 255).all()


@pytest.mark.parametrize(
    ("dtype", "values"),
    [
        (np.uint8, (0, 255)), (np.int16, (-32768, 32767)), (np.int64, (-(2**63), 2**63 - 1)), (np.float32, (-1, 1)),
        (np.float16, (-1, 1)), (np.bool_, (False, True)),
    ],
)  # fmt: skip
def test_values_of_salt_and_pepper(dtype, values):
    """The ends of an integer's range, -1 and 1 for floats; others where they are given, limited to the range."""
    data = np.zeros((50, 60), dtype) if dtype == np.bool_ else np.full((50, 60), 0.5 * 8, dtype)
    found = fn.noise.salt_and_pepper(data, prob=0.5, key=1)
    assert set(np.unique(found).tolist()) >= set(values)
    assert found.dtype == dtype
    given = fn.noise.salt_and_pepper(IMAGE, prob=0.5, salt_val=300.0, pepper_val=7.0, key=1)
    assert set(np.unique(given)) == {7, 100, 255}
    refused("prob must be from 0 to 1, got 1.5", ValueError, lambda: fn.noise.salt_and_pepper(IMAGE, prob=1.5))
    refused(
        "salt_vs_pepper must be from 0 to 1", ValueError, lambda: fn.noise.salt_and_pepper(IMAGE, salt_vs_pepper=-1.0)
    )


@pytest.mark.parametrize("mean", [0.01, 0.7, 5.0, 11.9, 12.1, 40.0, 1000.0, 1e6])
def test_counts_are_poisson_numbers(mean):
    """Kolmogorov's distance from the exact distribution; both ways of making them, and where they meet."""
    count = 40000
    counts = fn.noise.shot(np.full(count, mean, np.float64), factor=1.0, key=5)
    assert (counts == np.round(counts)).all()
    places = np.unique(counts)
    share = np.searchsorted(np.sort(counts), places, side="right") / count
    assert np.abs(share - stats.poisson.cdf(places, mean)).max() < 1.63 / np.sqrt(count)


def test_shot_noise_by_its_moments():
    """In units of the factor: the mean stays, the variance is the mean times the factor; bytes are limited."""
    found = fn.noise.shot(IMAGE, factor=20.0, key=2)
    assert set(np.unique(found) % 20) <= {0, 15}
    assert abs(found.mean() - 100) < 1.5
    assert abs(found.astype(float).var() - 2000) < 120
    bright = fn.noise.shot(np.full((50, 50, 1), 250, np.uint8), factor=20.0, key=2)
    assert bright.max() == 255
    assert (fn.noise.shot(np.float32([0.0, -3.0, np.nan]), factor=2.0, key=2) == 0).all()
    assert (fn.noise.shot(IMAGE, factor=0.0) == IMAGE).all()
    refused("factor must not be negative", ValueError, lambda: fn.noise.shot(IMAGE, factor=-1.0))
    default = fn.noise.shot(IMAGE, key=2)
    assert set(np.unique(default) % 12) <= {0, 3}
