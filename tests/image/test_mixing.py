"""mixup and cutmix: shares of images and labels agree, partners are other samples, in a pipeline as on arrays."""

import numpy as np
import pytest

from pipeflow import fn, pipeline_def
from pipeflow.tensors import TensorListCPU

RNG = np.random.default_rng(8)
IMAGES = [RNG.integers(0, 256, (12, 16, 3)).astype(np.uint8) for _ in range(5)]
KINDS = [np.int32(number) for number in range(5)]


def test_mixup_by_its_formula():
    """The share of the image and 1 - share of its partner, for pixels as for labels."""
    partner = TensorListCPU(np.array([1, 2, 3, 4, 0], np.int32))
    shares = TensorListCPU(np.array([0.0, 0.25, 0.5, 0.75, 1.0], np.float32))
    images, labels = fn.mixup(IMAGES, KINDS, num_classes=5, partner=partner, share=shares)
    for number in range(5):
        share, other = float(shares.at(number)), (number + 1) % 5
        expected = share * IMAGES[number] + (1 - share) * IMAGES[other]
        assert np.abs(np.asarray(images.at(number)) - expected).max() <= 0.5001
        assert np.asarray(labels.at(number)).tolist() == [
            share * (k == number) + (1 - share) * (k == other) for k in range(5)
        ]


def test_vectors_of_floats_are_mixed_again():
    """Labels that are shares already stay shares; any type of image."""
    images = [x.astype(np.float16) for x in IMAGES[:2]]
    vectors = [np.array([0.5, 0.5, 0.0], np.float32), np.array([0.0, 0.0, 1.0], np.float32)]
    mixed, labels = fn.mixup(images, vectors, share=0.5, partner=TensorListCPU(np.array([1, 0], np.int32)))
    assert np.asarray(labels.at(0)).tolist() == [0.25, 0.25, 0.5]
    assert mixed.at(0).dtype == np.float16
    expected = (images[0].astype(float) + images[1].astype(float)) / 2
    np.testing.assert_allclose(np.asarray(mixed.at(0), np.float64), expected, atol=0.1)


def test_cutmix_shows_a_window():
    """Every pixel comes from one of the two; the labels are the areas; windows are where they may be."""
    black, white = np.zeros((40, 50, 1), np.uint8), np.full((40, 50, 1), 255, np.uint8)
    covered = np.zeros((40, 50))
    for key in range(80):
        images, labels = fn.cutmix([black, white], KINDS[:2], num_classes=2, share=0.75, key=key)
        shown = np.asarray(images.at(0))[..., 0] > 0
        rows, columns = np.flatnonzero(shown.any(1)), np.flatnonzero(shown.any(0))
        assert shown[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1].all()  # one rectangle
        assert len(rows) <= 21  # half of each extent: a quarter of the area
        assert len(columns) <= 26
        np.testing.assert_allclose(np.asarray(labels.at(0)), [1 - shown.mean(), shown.mean()], atol=1e-6)
        covered += shown
    assert covered.min() > 0
    images, labels = fn.cutmix([black, white], KINDS[:2], num_classes=2, share=1.0)
    assert not np.asarray(images.at(0)).any()
    assert np.asarray(labels.at(0)).tolist() == [1.0, 0.0]


def test_partners_are_other_samples():
    """Each sample is the partner of exactly one other; a batch of one is mixed with itself."""
    ones = [np.eye(6, dtype=np.float32)[k] for k in range(6)]
    seen = set()
    for key in range(20):
        _, labels = fn.mixup(IMAGES + IMAGES[:1], ones, share=0.0, key=key)
        partners = [int(np.argmax(x)) for x in labels.samples()]
        assert sorted(partners) == list(range(6))
        assert all(partner != number for number, partner in enumerate(partners))
        seen.add(tuple(partners))
    assert len(seen) > 10
    alone, _ = fn.mixup(IMAGES[:1], ones[:1], key=2)
    assert np.abs(np.asarray(alone.at(0)).astype(int) - IMAGES[0]).max() <= 1


def test_shares_are_drawn_from_a_beta_distribution():
    """With a small alpha nearly nothing is mixed, with a large one halves are."""
    pair = [np.array([1.0, 0.0], np.float32), np.array([0.0, 1.0], np.float32)]
    for alpha, low, high in ((0.01, 0.47, 0.5), (1.0, 0.15, 0.35), (200.0, 0.0, 0.05)):
        drawn = [np.asarray(fn.mixup(IMAGES[:2], pair, alpha=alpha, key=key)[1].at(0))[0] for key in range(60)]
        assert low <= np.abs(np.array(drawn) - 0.5).mean() <= high


def test_in_a_pipeline():
    """Images and labels of a batch, the same for any number of threads; arguments may be nodes."""

    def run(threads):
        @pipeline_def(batch_size=5, num_threads=threads, device_id=None, seed=2, prefetch_queue_depth=1)
        def define():
            image = fn.external_source(source=lambda: IMAGES, batch=True, layout="HWC")
            kind = fn.external_source(source=lambda: KINDS, batch=True)
            share = fn.random.uniform(range=(0.3, 0.6))
            first, one = fn.mixup(image, kind, num_classes=5, share=share)
            second, two = fn.cutmix(first, one, alpha=1.0)
            return first, one, second, two, share

        return [[np.asarray(x) for x in output.samples()] for output in define().run()]

    results = run(1)
    for first, one, second, two, share in zip(*results, strict=True):
        assert sorted(one[one > 0].tolist()) == sorted([share, np.float32(1) - share])
        assert abs(two.sum() - 1) < 1e-5
        assert first.shape == second.shape == (12, 16, 3)
    for left, right in zip(results, run(2), strict=True):
        assert all(np.array_equal(a, b) for a, b in zip(left, right, strict=True))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: fn.mixup(IMAGES, KINDS), "labels must be vectors of floats, got int32 of shape .*: give num_classes"),
        (lambda: fn.mixup(IMAGES, KINDS, num_classes=3), "label 3 is none of 3 classes, 0 to 2"),
        (
            lambda: fn.cutmix([IMAGES[0], IMAGES[1][:5]], KINDS[:2], num_classes=2),
            r"shape \(12, 16, 3\) cannot be mixed with that of sample 1, uint8 of shape \(5, 16, 3\)",
        ),
        (lambda: fn.mixup(IMAGES, KINDS, num_classes=5, alpha=0.0), "alpha must be above 0, got 0.0"),
        (lambda: fn.mixup(IMAGES, KINDS, num_classes=5, share=1.5), "share must be from 0 to 1, got 1.5"),
        (lambda: fn.mixup(IMAGES, KINDS, num_classes=-1), "num_classes must not be negative, got -1"),
    ],
)
def test_what_is_refused(call, message):
    """The message has the value."""
    with pytest.raises(ValueError, match=message):
        call()


def test_a_partner_that_is_not_there():
    """The message has its number and the size of the batch."""
    with pytest.raises(IndexError, match="partner names sample 7, the batch has 5"):
        fn.mixup(IMAGES, KINDS, num_classes=5, partner=7)
