"""Random pixels and objects of masks, chosen polygons, and windows around regions."""

import itertools

import numpy as np
import pytest
from helpers import chains_counted

from pipeflow import fn, pipeline_def, seeds
from pipeflow.kernels.cpu import random_windows, segmentation
from pipeflow.tensors import TensorListCPU

F = np.float32
MASK = np.zeros((4, 5), np.int32)
MASK[1, 1] = MASK[2, 2] = 2  # they touch by a corner only
MASK[0, 3:5] = MASK[1, 4] = 5


def refused(match, kind, call):
    """The call fails with this type and words."""
    with pytest.raises(kind, match=match):
        call()


def many(function, count=300):
    """The results for several keys, as tuples."""
    found = [function(key) for key in range(count)]
    return [
        tuple(np.concatenate([np.ravel(x) for x in (one if isinstance(one, list) else [one])]).tolist())
        for one in found
    ]


def test_pixels_of_the_foreground():
    """Every one of them, and no other; without a foreground, every element."""
    pixel = fn.segmentation.random_mask_pixel
    assert set(many(lambda key: pixel(MASK, foreground=1, key=key))) == {(1, 1), (2, 2), (0, 3), (0, 4), (1, 4)}
    assert set(many(lambda key: pixel(MASK, foreground=1, value=2, key=key))) == {(1, 1), (2, 2)}
    assert set(many(lambda key: pixel(MASK, foreground=1, threshold=3.0, key=key))) == {(0, 3), (0, 4), (1, 4)}
    assert len(set(many(lambda key: pixel(MASK, foreground=1, value=9, key=key)))) == 20
    assert len(set(many(lambda key: pixel(MASK, key=key)))) == 20
    assert pixel(MASK[..., None], key=1).shape == (3,)
    refused("value and threshold exclude each other", ValueError, lambda: pixel(MASK, value=1, threshold=2.0))
    refused("the mask has no elements", ValueError, lambda: pixel(MASK[:0]))


def test_objects_by_hand():
    """Two pixels that touch by a corner are two objects; three in an angle are one."""
    box = fn.segmentation.random_object_bbox
    assert set(many(lambda key: box(MASK, format="box", key=key))) == {(1, 1, 2, 2), (2, 2, 3, 3), (0, 3, 2, 5)}
    assert set(many(lambda key: box(MASK, key=key))) == {(1, 1, 1, 1), (2, 2, 1, 1), (0, 3, 2, 2)}
    assert set(many(lambda key: box(MASK, format="start_end", classes=[5], output_class=True, key=key))) == {
        (0, 3, 2, 5, 5)
    }
    assert set(many(lambda key: box(MASK, k_largest=1, ignore_class=True, key=key))) == {(0, 3, 2, 2)}
    assert set(many(lambda key: box(MASK, threshold=(3, 1), key=key))) == {(0, 0, 4, 5)}
    assert set(many(lambda key: box(MASK, foreground_prob=0.0, output_class=True, key=key))) == {(0, 0, 4, 5, 0)}
    assert set(many(lambda key: box(MASK * 0, key=key))) == {(0, 0, 4, 5)}
    touching = np.array([[1, 2, 0, 3]], np.uint8)
    assert set(many(lambda key: box(touching, format="box", ignore_class=True, key=key))) == {
        (0, 0, 1, 2),
        (0, 3, 1, 4),
    }
    assert set(many(lambda key: box(touching > 0, format="box", key=key))) == {(0, 0, 1, 2), (0, 3, 1, 4)}


def test_a_class_is_drawn_before_its_object():
    """Class 2 has two objects and 5 one: each class is as likely, unless weights say otherwise."""
    box = fn.segmentation.random_object_bbox
    labels = [x[-1] for x in many(lambda key: box(MASK, output_class=True, key=key), 600)]
    assert abs(labels.count(5) / 600 - 0.5) < 0.08
    labels = [
        x[-1]
        for x in many(lambda key: box(MASK, output_class=True, classes=[2, 5], class_weights=[3.0, 1.0], key=key), 600)
    ]
    assert abs(labels.count(5) / 600 - 0.25) < 0.08


def flood(mask):
    """Boxes of connected elements by going from each one to its neighbours."""
    left = {tuple(place): int(mask[tuple(place)]) for place in np.argwhere(mask)}
    boxes = set()
    while left:
        place, value = left.popitem()
        seen, todo = [place], [place]
        while todo:
            here = todo.pop()
            for axis in range(mask.ndim):
                for step in (-1, 1):
                    near = (*here[:axis], here[axis] + step, *here[axis + 1 :])
                    if left.get(near) == value:
                        del left[near]
                        seen.append(near)
                        todo.append(near)
        places = np.array(seen)
        boxes.add((*places.min(0).tolist(), *(places.max(0) + 1).tolist(), value))
    return boxes


@pytest.mark.parametrize("shape", [(9, 11), (1, 30), (30, 1), (5, 6, 7), (2, 3, 4, 5), (40,)])
def test_objects_as_a_flood_finds_them(shape):
    """Random masks of one to four axes: every object is drawn sooner or later, and nothing else."""
    rng = np.random.default_rng(3)
    mask = rng.choice([0, 0, 1, 2], shape).astype(np.uint8)
    found = set(
        many(lambda key: fn.segmentation.random_object_bbox(mask, format="box", output_class=True, key=key), 1500)
    )
    expected = flood(mask)
    assert found <= expected
    assert len(found) > 0.8 * len(expected)


@pytest.mark.parametrize(
    ("classes", "background"),
    [
        ([1, 2], 0), ([0, 1], -1), ([-1, 1], 0), ([0, -5], -6), ([-(2**31), 0], 2**31 - 1),
        ([-(2**31), 2**31 - 1, 0, 2**31 - 2], 2**31 - 3),
    ],
    ids=str,
)  # fmt: skip
def test_the_background_is_no_class(classes, background):
    """Without a background it is 0, or the next number below the classes if 0 is one of them."""
    mask = np.array([0, 1, 2, 3], np.uint32)
    options = {"format": "box", "output_class": True, "foreground_prob": 0.0}
    box, number = fn.segmentation.random_object_bbox(mask, classes=classes, **options)
    assert (box.tolist(), int(number)) == ([0, 4], background)
    if background == -1:
        box, number = fn.segmentation.random_object_bbox(mask, classes=[0], **{**options, "foreground_prob": 1.0})
        assert (box.tolist(), int(number)) == ([0, 1], 0)


def test_wrong_objects_are_explained():
    """Formats, classes, weights and thresholds that do not fit."""
    box = fn.segmentation.random_object_bbox
    refused("format must be one of anchor_shape", ValueError, lambda: box(MASK, format="x"))
    refused("ignore_class excludes classes", ValueError, lambda: box(MASK, ignore_class=True, output_class=True))
    refused("2 classes and 1 class_weights", ValueError, lambda: box(MASK, classes=[1, 2], class_weights=[1.0]))
    refused("class 5 is the background too", ValueError, lambda: box(MASK, classes=[5], background=5))
    refused("threshold has 3 values for a mask of 2", ValueError, lambda: box(MASK, threshold=[1, 1, 1]))
    refused("k_largest must be at least 1", ValueError, lambda: box(MASK, k_largest=0))
    refused("does not take float32", TypeError, lambda: box(MASK.astype(F)))


POLYGONS = np.array([[0, 0, 3], [1, 3, 6], [2, 6, 9]], np.int32)
VERTICES = np.arange(18, dtype=F).reshape(9, 2)


def test_selected_polygons_by_hand():
    """In the order asked for, with the vertices they have; a mask may have several polygons."""
    select = fn.segmentation.select_masks
    rows, kept = select(np.int32([2, 0]), POLYGONS, VERTICES)
    assert rows.tolist() == [[2, 0, 3], [0, 3, 6]]
    assert (kept == VERTICES[[6, 7, 8, 0, 1, 2]]).all()
    rows, _ = select(np.int32([2, 0]), POLYGONS, VERTICES, reindex_masks=True)
    assert rows.tolist() == [[0, 0, 3], [1, 3, 6]]
    twice = np.array([[0, 0, 3], [1, 3, 6], [0, 6, 9]], np.int32)
    rows, kept = select(np.int32([0]), twice, VERTICES)
    assert rows.tolist() == [[0, 0, 3], [0, 3, 6]]
    assert (kept == VERTICES[[0, 1, 2, 6, 7, 8]]).all()
    rows, kept = select(np.zeros(0, np.int32), POLYGONS, VERTICES)
    assert rows.shape == (0, 3)
    assert kept.shape == (0, 2)
    refused("no polygon of mask 7; there are those of", ValueError, lambda: select(np.int32([7]), POLYGONS, VERTICES))
    refused("names mask 0 more than once", ValueError, lambda: select(np.int32([0, 0]), POLYGONS, VERTICES))
    refused("names the vertices 6 to 9; there are 8", IndexError, lambda: select(np.int32([2]), POLYGONS, VERTICES[:8]))
    refused(r"polygons have the shape \(n, 3\)", ValueError, lambda: select(np.int32([2]), POLYGONS[:, :2], VERTICES))


def test_windows_around_a_region():
    """A smaller window lies in the region, a larger one holds it, and both lie in the data."""
    draw = fn.roi_random_crop
    assert set(many(lambda key: draw(crop_shape=[2], roi_start=[1], roi_end=[5], key=key))) == {(1,), (2,), (3,)}
    assert set(many(lambda key: draw(crop_shape=[4], roi_start=[2], roi_shape=[2], in_shape=[6], key=key))) == {
        (0,),
        (1,),
        (2,),
    }
    assert set(many(lambda key: draw(crop_shape=[5], roi_start=[1], roi_end=[4], in_shape=[6], key=key))) == {
        (0,),
        (1,),
    }
    data = np.zeros((6, 10, 3), np.uint8)
    found = set(many(lambda key: draw(data, crop_shape=[4, 3], roi_start=[2, 1], roi_end=[4, 9], key=key)))
    assert {y for y, _ in found} == {0, 1, 2}
    assert {x for _, x in found} == {1, 2, 3, 4, 5, 6}
    refused("give either roi_end or roi_shape", ValueError, lambda: draw(crop_shape=[4], roi_start=[2]))
    refused(
        "crop_shape is 8 along axis 0, the data has 6",
        ValueError,
        lambda: draw(crop_shape=[8], roi_start=[2], roi_end=[4], in_shape=[6]),
    )
    refused(
        "the region from 4 to 8 is not inside",
        ValueError,
        lambda: draw(crop_shape=[4], roi_start=[4], roi_end=[8], in_shape=[6]),
    )
    refused(
        "roi_start has 1 values, crop_shape has 2",
        ValueError,
        lambda: draw(crop_shape=[4, 2], roi_start=[2], roi_end=[4]),
    )
    refused(
        "crop_shape must not be negative",
        ValueError,
        lambda: draw(crop_shape=[-1], roi_start=[1], roi_end=[3], in_shape=[4]),
    )
    refused(
        "leave out in_shape", ValueError, lambda: draw(data, crop_shape=[1], roi_start=[0], roi_end=[1], in_shape=[1])
    )


def test_drawn_windows_are_as_asked():
    """Areas and ratios of random_crop_generator; random_resized_crop draws the same ones."""
    shape = np.int64([100, 200, 3])
    for key in range(50):
        start, extents = fn.random_crop_generator(
            shape, random_area=[0.2, 0.3], random_aspect_ratio=[1.0, 2.0], key=key
        )
        assert start.dtype == extents.dtype == np.int32
        assert (start >= 0).all()
        assert (start + extents <= [100, 200]).all()
        assert 0.19 * 20000 < extents.prod() < 0.31 * 20000
        assert 0.95 < extents[1] / extents[0] < 2.05
    refused("two or three numbers, got shape", ValueError, lambda: fn.random_crop_generator(np.int64([1])))
    for options in ({"random_area": [0.5, 0.1]}, {"random_aspect_ratio": [0.0, 1.0]}, {"random_area": [0.5]}):
        message = "must be two positive numbers, the smaller one first"
        refused(message, ValueError, lambda options=options: fn.random_crop_generator(np.int64([8, 9]), **options))
    refused("num_attempts must be", ValueError, lambda: fn.random_crop_generator(np.int64([8, 9]), num_attempts=0))


def test_a_random_object_is_cut_out_with_its_mask():
    """In a pipeline: the box of one draw cuts image and mask, and the window around it stays inside."""
    rng = np.random.default_rng(5)
    masks = [np.kron(rng.choice([0, 0, 1, 2], (6, 7)), np.ones((5, 5), int)).astype(np.int32) for _ in range(6)]

    @pipeline_def(batch_size=6, num_threads=2, seed=4)
    def pipe():
        mask = fn.external_source(lambda: masks, layout="HW")
        start, extents, label = fn.segmentation.random_object_bbox(mask, output_class=True)
        window = fn.roi_random_crop(mask, crop_shape=(12, 12), roi_start=start, roi_shape=extents)
        part = fn.slice(mask, start=start, shape=extents, axes=(0, 1))
        return part, label, fn.slice(mask, start=window, shape=(12, 12), axes=(0, 1))

    parts, labels, windows = pipe().run()
    for part, label, window in zip(parts.samples(), labels.samples(), windows.samples()):
        part = np.asarray(part)
        assert all((edge == int(label)).any() for edge in (part[0], part[-1], part[:, 0], part[:, -1]))
        assert np.shape(window) == (12, 12)
    assert isinstance(parts, TensorListCPU)


OPTIONS = [
    (None, 0.0),
    (None, 0.1),
    (None, -5.5),
    (None, 300.0),
    (None, 1e4),
    (1, 0.0),
    (0, 0.0),
    (-1, 0.0),
    (500, 0.0),
]


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.int32, np.uint64, np.float32, np.float16, np.bool_])
def test_the_foreground_is_that_of_numpy(dtype):
    """By a value or a threshold, also one that the type of the mask does not have, in masks of some blocks and parts of them."""
    rng = np.random.default_rng(0)
    for shape, (value, threshold) in itertools.product([(1,), (1, 7), (2, 2048), (3, 5, 7, 2, 2), (100, 90)], OPTIONS):
        mask = rng.integers(0, 3, shape).astype(dtype)
        if np.dtype(dtype).kind == "f":
            mask *= dtype(0.1)
        wanted = np.argwhere(mask > threshold if value is None else mask == value)
        wanted = wanted if len(wanted) else np.argwhere(mask == mask)
        for key in range(20):
            place = seeds.Key(key).integer(0, 0, len(wanted))
            assert segmentation.random_element(mask, True, value, threshold, key).tolist() == wanted[place].tolist()


def test_random_integers_of_the_kernel_are_those_of_keys():
    """Also below large numbers, which need the upper half of a product of 128 bits."""
    for key, below in itertools.product(
        [1, 7, 1 << 63, (1 << 64) - 1], [1, 3, 1 << 31, 1 << 32, (1 << 40) + 5, (1 << 62) + 9]
    ):
        assert random_windows.integer(np.uint64(key), 0, below) == seeds.Key(key).integer(0, 0, below)


@pytest.mark.parametrize("dtype", [np.uint8, np.int32, np.float32, np.bool_])
def test_pixels_in_a_pipeline_are_those_of_the_body(dtype, monkeypatch):
    """Compiled code of a chain chooses them, also if the foreground is drawn for each sample."""
    masks = [(MASK + k).astype(dtype) for k in range(3)] + [np.zeros((3, 3), dtype)]

    @pipeline_def(batch_size=4, num_threads=1, device_id=None, seed=4)
    def pixels():
        mask = fn.external_source(lambda: masks)
        pixel = fn.segmentation.random_mask_pixel
        return (
            pixel(mask, foreground=1, seed=1),
            pixel(mask, foreground=fn.random.coin_flip(), seed=1),
            pixel(mask, seed=1),
        )

    pipe = pixels()
    pipe.build()
    found = [[np.array(x).tolist() for x in output] for output in pipe.run()]
    with chains_counted(monkeypatch, chained=False):
        pipe = pixels()
        pipe.build()
        assert found == [[np.array(x).tolist() for x in output] for output in pipe.run()]
