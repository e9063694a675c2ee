"""Random pixels, objects and windows have the distributions that the real DALI's have; selected polygons are the same."""

from collections import Counter

import numpy as np
import oracle
import pytest

pytestmark = [pytest.mark.oracle, pytest.mark.timeout(300)]

MASK = np.zeros((6, 8), np.uint8)
MASK[0:2, 0:3] = MASK[3, 0] = MASK[4, 1] = 1
MASK[2:6, 4:6] = 2
MASK[0, 7] = MASK[3:5, 7] = 3
NUMBER = 3000

OBJECTS = [
    {},
    {"format": "box"},
    {"format": "start_end"},
    {"output_class": True},
    {"foreground_prob": 0.5, "output_class": True},
    {"background": 2, "output_class": True},
    {"background": 7, "output_class": True},
    {"classes": [1, 3], "output_class": True},
    {"class_weights": [1.0, 2.0, 3.0], "output_class": True},
    {"class_weights": [1.0, 2.0]},
    {"classes": [1, 3], "class_weights": [1.0, 3.0], "output_class": True},
    {"ignore_class": True},
    {"ignore_class": True, "k_largest": 2},
    {"k_largest": 2, "output_class": True},
    {"k_largest": 1},
    {"threshold": [2, 2], "output_class": True},
    {"threshold": [3]},
    {"threshold": [3, 1], "output_class": True},
    {"classes": [9], "output_class": True},
    {"classes": [9, 1]},
    {"foreground_prob": 0.0},
    {"classes": [1], "class_weights": [0.0]},
    {"k_largest": 2, "classes": [1, 2], "output_class": True},
    {"classes": [0, 1], "background": 7, "output_class": True},
]
PIXELS = [
    {},
    {"foreground": 1},
    {"foreground": 1, "value": 2},
    {"foreground": 1, "threshold": 1.0},
    {"foreground": 1, "value": 9},
]
REGIONS = [
    {"crop_shape": [2], "roi_start": [1], "roi_end": [5]},
    {"crop_shape": [2], "roi_start": [1], "roi_shape": [4]},
    {"crop_shape": [4, 3], "roi_start": [2, 1], "roi_end": [4, 9], "in_shape": [6, 10]},
    {"crop_shape": [4], "roi_start": [2], "roi_end": [4]},
    {"crop_shape": [5], "roi_start": [1], "roi_end": [4], "in_shape": [6]},
    {"crop_shape": [0], "roi_start": [2], "roi_end": [4]},
    {"crop_shape": [3], "roi_start": [2], "roi_end": [2], "in_shape": [9]},
]
VOLUME = np.stack([MASK, MASK * 0, MASK[::-1]])
ROWS = [
    *(("segmentation.random_object_bbox", MASK, options) for options in OBJECTS),
    ("segmentation.random_object_bbox", VOLUME, {"output_class": True}),
    ("segmentation.random_object_bbox", MASK.astype(np.int16) - 1, {"output_class": True}),
    *(("segmentation.random_mask_pixel", MASK, options) for options in PIXELS),
    ("segmentation.random_mask_pixel", MASK[..., None].astype(np.float32), {"foreground": 1, "threshold": 1.5}),
    *(
        ("roi_random_crop", np.zeros((6, 10)[: len(o["crop_shape"])], np.uint8), o)
        for o in REGIONS
        if "in_shape" not in o
    ),
]


@pytest.fixture(scope="module")
def answers_of_dali():
    """Three thousand answers to each question, asked at once."""
    return oracle.ask([oracle.case(name, tuple([data] * NUMBER), **options) for name, data, options in ROWS])


def counted(outputs):
    """How often each combination of outputs occurs."""
    return Counter(tuple(tuple(np.ravel(x).tolist()) for x in sample) for sample in zip(*outputs))


@pytest.mark.parametrize(
    "number", range(len(ROWS)), ids=[f"{i}-{name} {options}" for i, (name, _, options) in enumerate(ROWS)]
)
def test_choices_are_as_likely_as_dalis(answers_of_dali, number):
    """The same results, about as often; the same types."""
    name, data, options = ROWS[number]
    values, names = answers_of_dali[number]
    assert isinstance(values, list), names
    found, _ = oracle.answer(name, [tuple([data] * NUMBER)], [], options, key=9)
    assert [x[0].dtype for x in found] == [x[0].dtype for x in values]
    ours, theirs = counted(found), counted(values)
    assert ours.keys() == theirs.keys()
    for result, count in theirs.items():
        assert abs(ours[result] - count) < 5 * np.sqrt(count) + 15


def test_regions_of_data_that_is_no_input():
    """roi_random_crop without data, in a batch of its own."""
    rows = [o for o in REGIONS if "in_shape" in o]
    data = tuple([np.zeros(1, np.uint8)] * NUMBER)
    starts = {name: tuple([np.array(value, np.int32)] * NUMBER) for name, value in rows[0].items()}
    values, names = oracle.ask([oracle.case("roi_random_crop", **starts)])[0]
    assert isinstance(values, list), names
    found, _ = oracle.answer("roi_random_crop", [], [], starts, key=3)
    del data
    ours, theirs = counted(found), counted(values)
    assert ours.keys() == theirs.keys()


def test_windows_have_dalis_extents():
    """random_crop_generator: means and quantiles of starts and extents."""
    shape = tuple([np.array([100, 200, 3], np.int64)] * NUMBER)
    for options in ({}, {"random_area": [0.2, 0.3], "random_aspect_ratio": [1.0, 2.0]}):
        values, _ = oracle.ask([oracle.case("random_crop_generator", shape, **options)])[0]
        found, _ = oracle.answer("random_crop_generator", [shape], [], options, key=3)
        for mine, theirs in zip(found, values):
            a, b = np.array(mine), np.array(theirs)
            assert a.dtype == b.dtype
            assert np.abs(a.mean(0) - b.mean(0)).max() < 3
            assert (
                np.abs(np.quantile(a, [0.05, 0.5, 0.95], axis=0) - np.quantile(b, [0.05, 0.5, 0.95], axis=0)).max() < 8
            )


def test_selected_polygons():
    """select_masks with drawn polygons, ids and vertices of any type."""
    rng = oracle.random(1)
    rows = []
    for _ in range(40):
        count = int(rng.integers(1, 8))
        bounds = np.concatenate([[0], np.cumsum(rng.integers(0, 6, count))])
        numbers = rng.permutation(20)[:count]
        polygons = np.stack([numbers, bounds[:-1], bounds[1:]], 1).astype(np.int32)
        vertices = rng.uniform(0, 9, (int(bounds[-1]), int(rng.integers(2, 4)))).astype(
            rng.choice([np.float32, np.int32, np.float64])
        )
        ids = rng.permutation(numbers)[: int(rng.integers(0, count + 1))].astype(np.int32)
        options = {"reindex_masks": True} if rng.integers(2) else {}
        rows.append(("segmentation.select_masks", [ids, polygons, vertices], [], options, 0))
    oracle.compare(rows)
