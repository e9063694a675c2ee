"""Boxes and points through windows and maps: where they are is where their pixels are, labels go with them."""

import numpy as np
import pytest

from pipeflow import fn, pipeline_def, types

HEIGHT, WIDTH = 60, 90
BOXES = np.array([[0.1, 0.2, 0.4, 0.5], [0.5, 0.5, 0.9, 0.8], [0.0, 0.9, 0.1, 1.0]], np.float32)
POINTS = np.array([[0.25, 0.3], [0.6, 0.5], [0.03, 0.97]], np.float32)
LABELS = np.array([5, 6, 7], np.int32)


def test_a_window_by_hand():
    """In a window from (0.2, 0.1) of half of each extent a place x is (x - 0.2) / 0.5; what mostly leaves is dropped."""
    boxes, labels = fn.bbox_crop(BOXES, LABELS, anchor=[0.2, 0.1], shape=[0.5, 0.5])
    # the first box is cut at the left; the second keeps 0.2 x 0.1 of 0.4 x 0.3, a sixth; the third is outside
    np.testing.assert_allclose(boxes, [[0, 0.2, 0.4, 0.8], [0.6, 0.8, 1, 1]], atol=1e-6)
    assert labels.tolist() == [5, 6]
    boxes, labels = fn.bbox_crop(BOXES, LABELS, anchor=[0.2, 0.1], shape=[0.5, 0.5], remove_threshold=0.2)
    assert labels.tolist() == [5]
    points, labels = fn.coord_crop(POINTS, LABELS, anchor=[0.2, 0.1], shape=[0.5, 0.5])
    np.testing.assert_allclose(points, [[0.1, 0.4], [0.8, 0.8]], atol=1e-6)
    assert labels.tolist() == [5, 6]
    assert len(fn.coord_crop(POINTS, anchor=[0.2, 0.1], shape=[0.5, 0.5], remove_outside=False)) == 3


def test_a_window_in_pixels():
    """The same window by pixels of an image of 60 x 90; boxes may be pixels, and left, top, width and height."""
    arguments = {"anchor": [18, 6], "shape": [45, 30], "input_shape": (60, 90, 3), "shape_layout": "HWC"}
    expected = fn.bbox_crop(BOXES, anchor=[0.2, 0.1], shape=[0.5, 0.5])
    np.testing.assert_allclose(fn.bbox_crop(BOXES, **arguments), expected, atol=1e-6)
    pixels = BOXES * [90, 60, 90, 60]
    pixels[:, 2:] -= pixels[:, :2]
    found = fn.bbox_crop(pixels.astype(np.float32), **arguments, bbox_normalized=False, bbox_layout="xyWH")
    found[:, 2:] += found[:, :2]
    np.testing.assert_allclose(found / [45, 30, 45, 30], expected, atol=1e-5)
    points = fn.coord_crop((POINTS * [90, 60]).astype(np.float32), **arguments, normalized=False)
    np.testing.assert_allclose(points, [[4.5, 12], [36, 24]], atol=1e-4)


def marked(boxes):
    """An image whose pixels have the number of the box they are in."""
    image = np.zeros((HEIGHT, WIDTH, 1), np.uint8)
    for number, (left, top, right, bottom) in enumerate(boxes * [WIDTH, HEIGHT, WIDTH, HEIGHT], 1):
        image[round(top) : round(bottom), round(left) : round(right)] = number
    return image


IMAGE = marked(BOXES)
MAPS = {
    "elastic": lambda: fn.distortions.elastic(IMAGE, alpha=60.0, sigma=6.0, key=3),
    "grid": lambda: fn.distortions.grid(IMAGE, cells=(3, 4), limit=0.3, key=3),
    "optical": lambda: fn.distortions.optical(IMAGE, strength=0.4),
    "thin_plate": lambda: fn.distortions.thin_plate(IMAGE, scale=0.04, key=4),
}


@pytest.mark.parametrize("name", MAPS)
def test_boxes_are_around_their_pixels(name):
    """After a distortion a box is the one around all pixels of its mask, moved by the same maps."""
    maps = MAPS[name]()
    boxes, labels = fn.bbox_remap(BOXES, *maps, LABELS, remove_threshold=0.0)
    moved = fn.remap(IMAGE, *maps, interp=types.INTERP_NN)[..., 0]
    found = dict(zip(labels.tolist(), boxes, strict=True))
    for number in (1, 2, 3):
        rows, columns = np.nonzero(moved == number)
        assert (number + 4 in found) == bool(len(rows))
        if len(rows):
            expected = [
                columns.min() / WIDTH,
                rows.min() / HEIGHT,
                (columns.max() + 1) / WIDTH,
                (rows.max() + 1) / HEIGHT,
            ]
            np.testing.assert_allclose(found[number + 4], expected, atol=1e-6)


@pytest.mark.parametrize("name", MAPS)
def test_points_are_where_the_maps_take_them_from(name):
    """The maps at the new place, linear between pixels, give the old one."""
    map_x, map_y = maps = MAPS[name]()
    points, labels = fn.coord_remap(POINTS[:2], *maps, LABELS[:2])
    assert labels.tolist() == [5, 6]
    for (x, y), (old_x, old_y) in zip(points * [WIDTH, HEIGHT] - 0.5, POINTS[:2] * [WIDTH, HEIGHT], strict=True):
        i, j = int(y), int(x)
        a, b = y - i, x - j
        for values, old in ((map_x, old_x), (map_y, old_y)):
            top, bottom = values[i, j : j + 2] @ [1 - b, b], values[i + 1, j : j + 2] @ [1 - b, b]
            assert abs((1 - a) * top + a * bottom - old) < 0.1


def test_what_leaves_is_dropped_with_its_label():
    """A shift of half an image; points outside may be kept; maps of another size than the image."""
    y, x = np.mgrid[:30, :45].astype(np.float32) + 0.5
    map_x, map_y = x + 45, y  # the upper half of the image, its right part
    shape = {"input_shape": (60, 90)}
    boxes, labels = fn.bbox_remap(BOXES, map_x, map_y, LABELS, **shape, remove_threshold=0.0)
    assert labels.tolist() == []
    whole = np.array([[0.5, 0.1, 1.0, 0.5], [0.4, 0.0, 0.6, 1.0]], np.float32)
    boxes, labels = fn.bbox_remap(whole, map_x, map_y, LABELS[:2], **shape)
    np.testing.assert_allclose(boxes, [[0, 0.2, 1, 1], [0, 0, 0.2, 1]], atol=1e-6)
    points, labels = fn.coord_remap(np.array([[0.75, 0.25], [0.1, 0.1]], np.float32), map_x, map_y, LABELS[:2], **shape)
    np.testing.assert_allclose(points, [[0.5, 0.5]], atol=1e-5)
    assert labels.tolist() == [5]
    assert len(fn.coord_remap(POINTS, map_x, map_y, remove_outside=False)) == 3
    centred = fn.coord_remap(
        np.array([[45.0, 20.0]], np.float32),
        x,
        y,
        normalized=False,
        pixel_origin="center",
        input_shape=(60, 90),
        remove_outside=False,
    )
    np.testing.assert_allclose(centred, [[44.5, 19.5]], atol=1e-4)


def test_one_draw_for_image_mask_boxes_points_and_labels():
    """In a pipeline everything of a sample goes through the same maps, and the same window."""

    @pipeline_def(batch_size=3, num_threads=1, device_id=None, seed=6, prefetch_queue_depth=1)
    def define():
        image, boxes, points, labels = (
            fn.external_source(source=lambda x=x: [x] * 3, batch=True, layout=layout)
            for x, layout in ((IMAGE, "HWC"), (BOXES, ""), (POINTS, ""), (LABELS, ""))
        )
        maps = fn.distortions.elastic(image, alpha=80.0, sigma=6.0)
        boxes, kinds = fn.bbox_remap(boxes, *maps, labels)
        points, marks = fn.coord_remap(points, *maps, labels)
        image = fn.remap(image, *maps, interp=types.INTERP_NN)
        anchor, shape, boxes, kinds = fn.random_bbox_crop(
            boxes, kinds, scaling=[0.5, 0.9], thresholds=[0.1], allow_no_crop=False, num_attempts=50
        )
        points, marks = fn.coord_crop(points, marks, anchor=anchor, shape=shape)
        cut = fn.slice(image, anchor, shape)
        return cut, boxes, kinds, points, marks

    for cut, boxes, kinds, points, marks in zip(*[[np.asarray(x) for x in y.samples()] for y in define().run()]):
        assert len(boxes) == len(kinds)
        assert len(points) == len(marks)
        tall, wide = cut.shape[:2]
        for (left, top, right, bottom), kind in zip(boxes * [wide, tall, wide, tall], kinds.tolist()):
            rows, columns = np.nonzero(cut[..., 0] == kind - 4)
            assert abs(columns.min() - left) <= 1.5
            assert abs(columns.max() + 1 - right) <= 1.5
            assert abs(rows.min() - top) <= 1.5
            assert abs(rows.max() + 1 - bottom) <= 1.5
        for (x, y), mark in zip(points * [wide, tall], marks.tolist()):
            around = cut[max(int(y) - 2, 0) : int(y) + 3, max(int(x) - 2, 0) : int(x) + 3]
            assert mark - 4 in around


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: fn.bbox_crop(BOXES, anchor=[0.1], shape=[0.5, 0.5]),
            "anchor and shape must be two numbers each, got 1 and 2",
        ),
        (lambda: fn.bbox_crop(BOXES, anchor=[0, 0], shape=[0.0, 0.5]), r"shape must be above 0, got \(0.0, 0.5\)"),
        (lambda: fn.bbox_crop(BOXES, anchor=[0, 0], shape=[1, 1], bbox_normalized=False), "give input_shape"),
        (lambda: fn.coord_crop(BOXES, anchor=[0, 0], shape=[1, 1]), r"points have the shape \(n, 2\), got \(3, 4\)"),
        (
            lambda: fn.coord_crop(POINTS, LABELS[:2], anchor=[0, 0], shape=[1, 1]),
            "there are 3 points, and labels of shape",
        ),
        (
            lambda: fn.bbox_remap(BOXES, np.zeros((2, 3)), np.zeros((3, 2))),
            r"the maps differ in shape: \(2, 3\) and \(3, 2\)",
        ),
        (lambda: fn.bbox_remap(BOXES, np.zeros((0, 3)), np.zeros((0, 3))), "the maps have no pixels"),
        (
            lambda: fn.bbox_remap(BOXES, *MAPS["optical"](), pixel_origin="x"),
            "pixel_origin must be 'corner' or 'center'",
        ),
        (
            lambda: fn.bbox_remap(BOXES, *MAPS["optical"](), bbox_layout="x"),
            "bbox_layout must be 'xyXY' or 'xyWH', got 'x'",
        ),
    ],
)
def test_what_is_refused(call, message):
    """The message has the value."""
    with pytest.raises(ValueError, match=message):
        call()
