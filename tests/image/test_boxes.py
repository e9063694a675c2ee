"""Boxes and points: mirrored, pasted, turned and warped with their image, windows that keep them, targets of a detector."""

import numpy as np
import pytest

from pipeflow import fn, pipeline_def, types
from pipeflow.tensors import TensorListCPU

F = np.float32
BOXES = np.array([[0.1, 0.2, 0.3, 0.4], [0.2, 0.2, 0.6, 0.8], [0.7, 0.7, 0.9, 0.95]], F)
LABELS = np.array([1, 2, 3], np.int32)


def refused(match, kind, call):
    """The call fails with this type and words."""
    with pytest.raises(kind, match=match):
        call()


def test_mirrored_boxes_by_hand():
    """x, y, width, height: 1 - 0.1 - 0.3 = 0.6. Corners: left and right change places."""
    assert np.allclose(fn.bb_flip(np.array([0.1, 0.2, 0.3, 0.4], F)), [0.6, 0.2, 0.3, 0.4])
    assert np.allclose(fn.bb_flip(BOXES[:1], ltrb=True, horizontal=0, vertical=1), [[0.1, 0.6, 0.3, 0.8]])
    assert np.allclose(fn.bb_flip(BOXES[:1], ltrb=True, vertical=True), [[0.7, 0.6, 0.9, 0.8]])
    assert fn.bb_flip(np.zeros((0, 4), F)).shape == (0, 4)
    refused(r"four numbers each, got shape \(2, 3\)", ValueError, lambda: fn.bb_flip(np.zeros((2, 3), F)))


def test_mirroring_twice_gives_the_boxes_again():
    """For every choice of axes, in both layouts."""
    for ltrb in (False, True):
        for options in ({"horizontal": a, "vertical": b} for a in (0, 1) for b in (0, 1)):
            again = fn.bb_flip(fn.bb_flip(BOXES, ltrb=ltrb, **options), ltrb=ltrb, **options)
            assert np.allclose(again, BOXES, atol=1e-6)


def test_pasted_boxes_by_hand():
    """In the middle of a canvas twice as large: 0.2 / 2 + 0.25. Extents are only divided."""
    pasted = fn.bbox_paste(np.array([[0.2, 0.2, 0.6, 0.8]], F), ratio=2.0, ltrb=True)
    assert np.allclose(pasted, [[0.35, 0.35, 0.55, 0.65]])
    pasted = fn.bbox_paste(np.array([[0.2, 0.2, 0.4, 0.6]], F), ratio=2.0, paste_x=0.0, paste_y=1.0)
    assert np.allclose(pasted, [[0.1, 0.6, 0.2, 0.3]])
    refused("ratio must be positive, got 0", ValueError, lambda: fn.bbox_paste(BOXES, ratio=0.0))


def test_mirrored_points_by_hand():
    """Twice the centre minus the coordinate; the layout says which coordinate is which."""
    assert np.allclose(fn.coord_flip(np.array([[0.1, 0.2]], F)), [[0.9, 0.2]])
    assert np.allclose(fn.coord_flip(np.array([[10, 20]], F), flip_x=0, flip_y=1, center_y=50.0), [[10, 80]])
    assert np.allclose(fn.coord_flip(np.array([[1, 2, 3]], F), layout="zyx"), [[1, 2, -2]])
    assert np.allclose(fn.coord_flip(np.array([[0.1]], F), layout="x", flip_y=1, flip_z=1), [[0.9]])
    assert np.allclose(fn.coord_flip(np.array([[1, 2]], F), layout="zy", flip_x=1, flip_y=1), [[1, -1]])
    refused("one to three coordinates, got 4", ValueError, lambda: fn.coord_flip(np.zeros((1, 4), F)))
    refused(
        "names 3 coordinates, the points have 2", ValueError, lambda: fn.coord_flip(np.zeros((1, 2), F), layout="xyz")
    )
    refused("must be made of x, y and z", ValueError, lambda: fn.coord_flip(np.zeros((1, 2), F), layout="xw"))


def drawn_box(box, height, width):
    """A mask that is 1 in a box of relative corners."""
    mask = np.zeros((height, width, 1), np.uint8)
    left, top, right, bottom = np.round(box * [width, height, width, height]).astype(int)
    mask[top:bottom, left:right] = 1
    return mask


@pytest.mark.parametrize("angle", [0.0, 17.0, 90.0, -120.0, 180.0])
@pytest.mark.parametrize("keep_size", [False, True])
def test_turned_boxes_lie_around_the_turned_image(angle, keep_size):
    """What rotate makes of a drawn box lies in what bbox_rotate makes of its corners, and fills it to the edges."""
    height, width = 200, 300
    box = np.array([0.4, 0.3, 0.6, 0.65], F)
    turned = fn.rotate(drawn_box(box, height, width), angle=angle, keep_size=keep_size, fill_value=0)
    rows, columns, _ = np.nonzero(turned)
    found = fn.bbox_rotate(box[None], angle=angle, keep_size=keep_size, input_shape=(height, width))
    tall, wide = turned.shape[:2]
    expected = [columns.min() / wide, rows.min() / tall, (columns.max() + 1) / wide, (rows.max() + 1) / tall]
    assert np.abs(found[0] - expected).max() < 2 / 200


def test_boxes_that_leave_the_canvas_take_their_labels_with_them():
    """A quarter turn without a larger canvas moves the box at the left edge above the image."""
    boxes = np.array([[0.0, 0.4, 0.1, 0.6], [0.45, 0.4, 0.55, 0.6]], F)
    options = {"angle": 90.0, "input_shape": (100, 300), "keep_size": True}
    left, labels = fn.bbox_rotate(boxes, LABELS[:2], **options)
    assert labels.tolist() == [2]
    assert len(left) == 1
    kept, labels = fn.bbox_rotate(boxes, LABELS[:2], **options, remove_threshold=0.0)
    assert labels.tolist() == [1, 2]
    assert (kept >= 0).all()
    assert (kept <= 1).all()


def test_modes_of_turned_boxes():
    """45 degrees around the centre: 0.2 x 200 pixels square becomes larger by sqrt(2), keeps its extents, or half of it."""
    box = np.array([[0.4, 0.4, 0.6, 0.6]], F)
    for mode, half in (("expand", 0.1 * 2**0.5), ("halfway", 0.1 * (1 + 2**0.5) / 2), ("fixed", 0.1)):
        found = fn.bbox_rotate(box, angle=45.0, input_shape=(200, 200), keep_size=True, mode=mode)
        assert np.allclose(found, [[0.5 - half, 0.5 - half, 0.5 + half, 0.5 + half]], atol=1e-6)


def test_wrong_turns_are_explained():
    """Modes, layouts, thresholds, shapes and labels that do not fit are named."""
    refused(
        "mode must be one of expand", ValueError, lambda: fn.bbox_rotate(BOXES, angle=1.0, input_shape=(9, 9), mode="x")
    )
    refused(
        "bbox_layout must be 'xyXY'",
        ValueError,
        lambda: fn.bbox_rotate(BOXES, angle=1.0, input_shape=(9, 9), bbox_layout="x"),
    )
    refused(
        "remove_threshold must be",
        ValueError,
        lambda: fn.bbox_warp(BOXES, matrix=(1,), input_shape=(9, 9), remove_threshold=1.0),
    )
    refused(
        "shape_layout must have an H",
        ValueError,
        lambda: fn.bbox_rotate(BOXES, angle=1.0, input_shape=(9, 9), shape_layout="W"),
    )
    refused("input_shape has 1 values", ValueError, lambda: fn.bbox_rotate(BOXES, angle=1.0, input_shape=9))
    refused(
        "3 boxes, and labels of shape",
        ValueError,
        lambda: fn.bbox_rotate(BOXES, LABELS[:2], angle=1.0, input_shape=(9, 9)),
    )
    refused(r"shape \(n, 4\), got \(4,\)", ValueError, lambda: fn.bbox_rotate(BOXES[0], angle=1.0, input_shape=(9, 9)))
    refused(
        "keep_size and size exclude",
        ValueError,
        lambda: fn.bbox_rotate(BOXES, angle=1.0, input_shape=(9, 9), size=(3, 3), keep_size=True),
    )


AFFINE = [0.9, 0.2, 10.0, -0.15, 1.1, -4.0]
PERSPECTIVE = [0.9, 0.2, 10.0, -0.15, 1.1, 4.0, 0.0005, 0.0007, 1.0]


@pytest.mark.parametrize("inverse_map", [True, False])
@pytest.mark.parametrize("size", [(), (120, 260)])
def test_warped_boxes_lie_around_the_warped_image(inverse_map, size):
    """What warp_affine makes of a drawn box fills what bbox_warp makes of its corners."""
    height, width = 200, 300
    box = np.array([0.3, 0.4, 0.5, 0.55], F)
    options = {"matrix": AFFINE, "inverse_map": inverse_map} | ({"size": size} if size else {})
    rows, columns, _ = np.nonzero(fn.warp_affine(drawn_box(box, height, width), fill_value=0, **options))
    found = fn.bbox_warp(box[None], input_shape=(height, width), bbox_normalized=True, **options)[0]
    tall, wide = size or (height, width)
    expected = [columns.min() / wide, rows.min() / tall, (columns.max() + 1) / wide, (rows.max() + 1) / tall]
    assert np.abs(found - expected).max() < 2 / 120


def test_warped_points_are_where_the_matrix_says():
    """By the formula, for six numbers and for nine; points outside are dropped with their labels."""
    points = np.array([[30, 40], [100, 150], [299, 199]], F)
    for matrix in (AFFINE, PERSPECTIVE):
        full = np.array([*matrix, 0, 0, 1][:9]).reshape(3, 3)
        moved = np.concatenate([points, np.ones((3, 1))], 1) @ np.linalg.inv(full).T
        moved = moved[:, :2] / moved[:, 2:]
        options = {"matrix": matrix, "input_shape": (200, 300), "normalized": False}
        assert np.allclose(fn.coord_warp(points, remove_outside=False, **options), moved, atol=1e-3)
        inside = ((moved >= 0) & (moved <= [300, 200])).all(1)
        left, labels = fn.coord_warp(points, LABELS, **options)
        assert labels.tolist() == LABELS[inside].tolist()
        assert np.allclose(left, moved[inside], atol=1e-3)
    back = fn.coord_warp(
        fn.coord_warp(points, remove_outside=False, **options), inverse_map=False, remove_outside=False, **options
    )
    assert np.allclose(back, points, atol=1e-2)
    singular = [0.0] * 6
    refused("cannot be inverted", ValueError, lambda: fn.coord_warp(points, matrix=singular, input_shape=(9, 9)))


WINDOWS = [
    {"thresholds": [0.02, 0.04], "scaling": [0.3, 1.0], "aspect_ratio": [0.5, 2.0], "allow_no_crop": False},
    {
        "thresholds": [0.4],
        "threshold_type": "overlap",
        "scaling": [0.3, 1.0],
        "aspect_ratio": [0.5, 2.0],
        "allow_no_crop": False,
    },
    {"thresholds": [0.2], "all_boxes_above_threshold": False, "scaling": [0.3, 0.9], "allow_no_crop": False},
    {"bbox_prune_threshold": 0.0, "scaling": [0.2, 0.6], "allow_no_crop": False},
    {"bbox_prune_threshold": 0.6, "scaling": [0.3, 0.9], "aspect_ratio": [1.0, 3.0], "allow_no_crop": False},
    {"scaling": [0.5, 1.8], "aspect_ratio": [0.5, 2.0], "allow_no_crop": False},
    {"scaling": [1.2, 2.0], "allow_no_crop": False},
    {"crop_shape": (60, 40), "input_shape": (200, 100)},
    {"crop_shape": (260, 40), "input_shape": (200, 100)},
]


@pytest.mark.parametrize("options", WINDOWS, ids=str)
def test_windows_are_as_asked(options):
    """Extents, ratios, overlaps and which boxes are kept, computed again for two hundred windows."""
    outputs = fn.random_bbox_crop(
        TensorListCPU([BOXES] * 200), TensorListCPU([LABELS] * 200), key=3, output_bbox_indices=True, **options
    )
    pixels = np.array(options.get("input_shape", (1, 1)), np.float64)
    seen = set()
    for start, extents, boxes, labels, indices in zip(*[[np.asarray(x) for x in one.samples()] for one in outputs]):
        seen.add(tuple(start))
        low, high = start / pixels, (start + extents) / pixels
        if "crop_shape" in options:
            assert extents.tolist() == list(options["crop_shape"])
            assert (start == np.round(start)).all()
            free = pixels - extents
            assert (start >= np.minimum(free, 0)).all()
            assert (start <= np.maximum(free, 0)).all()
        else:
            smallest, largest = options["scaling"]
            assert (start >= np.minimum(1 - extents, 0) - 1e-6).all()
            assert (start <= np.maximum(1 - extents, 0) + 1e-6).all()
            assert (extents >= smallest - 1e-6).all()
            assert (extents <= largest + 1e-6).all()
            ratio = extents[0] / extents[1]
            least, most = options.get("aspect_ratio", (1, 1))
            assert least - 1e-5 <= ratio <= most + 1e-5
        common = np.prod(np.clip(np.minimum(BOXES[:, 2:], high) - np.maximum(BOXES[:, :2], low), 0, None), 1)
        own = np.prod(BOXES[:, 2:] - BOXES[:, :2], 1)
        overlap = (
            common / own
            if options.get("threshold_type") == "overlap"
            else common / (own + np.prod(high - low) - common)
        )
        assert (min if options.get("all_boxes_above_threshold", True) else max)(overlap) >= min(
            options.get("thresholds", [0])
        ) - 1e-6
        if "bbox_prune_threshold" in options:
            kept = (common / own >= options["bbox_prune_threshold"]) & (common > 0)
        else:
            middle = (BOXES[:, :2].astype(np.float64) + BOXES[:, 2:]) / 2
            if (np.abs(middle - low) < 1e-6).any() or (np.abs(middle - high) < 1e-6).any():
                continue  # a centre on the edge of the window may be kept or not
            kept = ((middle >= low) & (middle <= high)).all(1)
        assert indices.tolist() == np.flatnonzero(kept).tolist()
        assert labels.tolist() == LABELS[kept].tolist()
        expected = np.clip((BOXES[kept] - np.tile(low, 2)) / np.tile(high - low, 2), 0, 1)
        assert np.abs(boxes - expected).max(initial=0) < 1e-5
    assert len(seen) > 50


def test_windows_of_boxes_in_other_layouts():
    """The same key gives the same window, whatever the order of the numbers and whether ends or extents are given."""
    options = {"scaling": [0.3, 0.8], "allow_no_crop": False, "key": 11}
    start, extents, boxes = fn.random_bbox_crop(BOXES, **options)
    turned = fn.random_bbox_crop(BOXES[:, [1, 0, 3, 2]], bbox_layout="yxYX", **options)
    assert np.allclose(turned[0], start)
    assert np.allclose(turned[2], boxes[:, [1, 0, 3, 2]])
    sized = BOXES.copy()
    sized[:, 2:] -= sized[:, :2]
    for how in ({"bbox_layout": "xyWH"}, {"ltrb": False}):
        found = fn.random_bbox_crop(sized, **how, **options)[2]
        assert np.allclose(found[:, :2] + found[:, 2:], boxes[:, 2:], atol=1e-5)
    assert extents.tolist() == turned[1].tolist()


def test_windows_in_space():
    """Boxes of six numbers have windows of three extents; equal ratios keep them equal."""
    boxes = np.array([[0.1, 0.1, 0.1, 0.9, 0.9, 0.9]], F)
    start, extents, kept = fn.random_bbox_crop(boxes, scaling=[0.4, 0.6], allow_no_crop=False, key=1)
    assert start.shape == extents.shape == (3,)
    assert np.ptp(extents) < 1e-6
    assert kept.shape == (1, 6)
    ratios = [0.5, 2.0, 1.0, 1.0, 0.5, 2.0]
    _, extents, _ = fn.random_bbox_crop(boxes, scaling=[0.4, 0.6], aspect_ratio=ratios, allow_no_crop=False, key=1)
    assert abs(extents[0] - extents[2]) < 1e-6


@pytest.mark.parametrize(("axes", "known"), [(4, 2), (6, 3), (None, None)])
def test_a_window_has_half_as_many_numbers_as_a_box(axes, known):
    """If boxes are constants, the place and the size of the window are known before any batch."""

    @pipeline_def(batch_size=1, num_threads=1)
    def define():
        if axes is None:
            boxes = fn.external_source(lambda: [np.zeros((1, 4), np.float32)], ndim=2)
        else:
            boxes = types.Constant(np.tile(np.float32([0.1] * (axes // 2) + [0.9] * (axes // 2)), (3, 1)))
        return fn.random_bbox_crop(boxes, bbox_layout="xyzXYZ" if axes == 6 else "xyXY")[:2]

    for node in define().graph.outputs:
        assert define().graph.nodes[node.node].specs[node.index].shape == (known,)


def test_no_boxes_and_impossible_windows_end():
    """Without boxes any window will do; where none can be good enough, the best of twenty thousand is taken."""
    start, extents, boxes, labels = fn.random_bbox_crop(
        np.zeros((0, 4), F), np.zeros(0, np.int32), scaling=[0.4, 0.6], allow_no_crop=False, key=2
    )
    assert (start + extents <= 1).all()
    assert boxes.shape == (0, 4)
    assert labels.shape == (0,)
    found = fn.random_bbox_crop(BOXES, thresholds=[1.0], scaling=[0.3, 0.4], allow_no_crop=False, key=2)
    assert len(found[2])


def test_wrong_windows_are_explained():
    """Every range, layout and pair of arguments that cannot be."""
    crop = fn.random_bbox_crop
    refused("between 0 and 1; they reach", ValueError, lambda: crop(BOXES * 2))
    refused("thresholds must be numbers between", ValueError, lambda: crop(BOXES, thresholds=[2.0]))
    refused("threshold_type must be", ValueError, lambda: crop(BOXES, threshold_type="x"))
    refused("scaling must be two numbers between 0 and 1", ValueError, lambda: crop(BOXES, scaling=[0.6, 0.4]))
    refused("aspect_ratio must be two numbers of at least 0", ValueError, lambda: crop(BOXES, aspect_ratio=[2.0, 1.0]))
    refused("aspect_ratio must have 2 values", ValueError, lambda: crop(BOXES, aspect_ratio=[2.0]))
    refused("num_attempts must be at least 1", ValueError, lambda: crop(BOXES, num_attempts=0))
    refused("permutation of 'xyXY' or 'xyWH'", ValueError, lambda: crop(BOXES, bbox_layout="xy"))
    refused("crop_shape needs input_shape", ValueError, lambda: crop(BOXES, crop_shape=(3, 3)))
    refused(
        "crop_shape excludes scaling",
        ValueError,
        lambda: crop(BOXES, crop_shape=(3, 3), input_shape=(9, 9), scaling=[0.1, 0.2]),
    )
    refused(
        "shape_layout must be a permutation",
        ValueError,
        lambda: crop(BOXES, crop_shape=(3, 3), input_shape=(9, 9), shape_layout="HX"),
    )
    refused(r"\(n, 6\) in space, got \(4,\)", ValueError, lambda: crop(BOXES[0]))
    refused("bbox_prune_threshold must lie", ValueError, lambda: crop(BOXES, bbox_prune_threshold=1.5))


def test_ssd_random_crop_cuts_where_its_boxes_say():
    """The pixels of the result are those of the window: each pixel tells where it was."""
    height, width = 50, 80
    image = np.stack(np.broadcast_arrays(np.arange(height)[:, None], np.arange(width)[None], 0), -1).astype(np.uint8)
    whole = 0
    for key in range(60):
        part, boxes, labels = fn.ssd_random_crop(image, BOXES, LABELS, key=key)
        top, left = part[0, 0, :2]
        assert (part == image[top : top + part.shape[0], left : left + part.shape[1]]).all()
        whole += part.shape == image.shape
        found = boxes * np.tile([part.shape[1], part.shape[0]], 2) + np.tile([left, top], 2)
        expected = BOXES[labels - 1] * np.tile([width, height], 2)
        expected = np.clip(expected, np.tile([left, top], 2), np.tile([left + part.shape[1], top + part.shape[0]], 2))
        assert np.abs(found - expected).max() < 1.6  # the window is rounded to pixels, the boxes are not
    assert 10 < whole < 50


def test_image_mask_boxes_and_points_take_one_draw():
    """In a pipeline: the window of random_bbox_crop cuts the image where its boxes end up."""
    image = np.stack(np.broadcast_arrays(np.arange(90)[:, None], np.arange(120)[None], 0), -1).astype(np.uint8)

    @pipeline_def(batch_size=8, num_threads=2, seed=6)
    def pipe():
        picture = fn.external_source(lambda: [image] * 8, layout="HWC")
        boxes, labels = fn.external_source(lambda: ([BOXES] * 8, [LABELS] * 8), num_outputs=2)
        start, extents, boxes, labels = fn.random_bbox_crop(
            boxes, labels, thresholds=[0.1], scaling=[0.5, 0.9], aspect_ratio=[0.8, 1.2], allow_no_crop=False
        )
        return fn.slice(picture, start, extents), boxes, labels, start, extents

    outputs = pipe().run()
    for part, boxes, labels, start, extents in zip(*[[np.asarray(x) for x in one.samples()] for one in outputs]):
        assert abs(part[0, 0, 1] - start[0] * 120) <= 0.5
        assert abs(part.shape[1] - extents[0] * 120) <= 1
        assert len(boxes) == len(labels) > 0


def test_targets_by_hand():
    """Four anchors, two boxes: overlaps of 0.64, 0.36 (the best of the second box) and 0.56; the last learns nothing."""
    anchors = [0, 0, 0.5, 0.5, 0.5, 0.5, 1, 1, 0.2, 0.2, 0.5, 0.5, 0, 0, 1, 1]
    boxes, labels = np.array([[0.1, 0.1, 0.5, 0.5], [0.6, 0.6, 0.9, 0.9]], F), np.array([3, 7], np.int32)
    targets, classes = fn.box_encoder(boxes, labels, anchors=anchors)
    assert classes.tolist() == [3, 7, 3, 0]
    assert np.allclose(targets, [[0.3, 0.3, 0.4, 0.4], [0.75, 0.75, 0.3, 0.3], [0.3, 0.3, 0.4, 0.4], [0.5, 0.5, 1, 1]])
    targets, classes = fn.box_encoder(boxes, labels, anchors=anchors, criteria=0.9)
    assert classes.tolist() == [3, 7, 0, 0]  # each box is learned once in any case
    assert np.allclose(targets[2], [0.35, 0.35, 0.3, 0.3])
    targets, _ = fn.box_encoder(boxes, labels, anchors=anchors, offset=True, stds=(0.1, 0.1, 0.2, 0.2))
    # (0.3 - 0.25) / 0.5 / 0.1 = 1 and log(0.4 / 0.5) / 0.2 = -1.1157
    assert np.allclose(targets[0], [1, 1, -1.11572, -1.11572], atol=1e-4)
    assert (targets[3] == 0).all()
    targets, classes = fn.box_encoder(np.zeros((0, 4), F), np.zeros(0, np.int32), anchors=anchors)
    assert (classes == 0).all()
    assert np.allclose(targets[0], [0.25, 0.25, 0.5, 0.5])


def test_offsets_lead_back_to_the_boxes():
    """Decoding the offsets of every anchor that learns a box gives that box."""
    rng = np.random.default_rng(4)
    corners = np.sort(rng.random((200, 2, 2)), 1).reshape(-1, 4)
    anchors = np.clip(corners + [0, 0, 0.05, 0.05], 0, 1).astype(F)
    means, stds = (0.1, 0.2, 0.3, 0.4), (0.1, 0.2, 0.3, 0.4)
    targets, classes = fn.box_encoder(BOXES, LABELS, anchors=anchors, offset=True, means=means, stds=stds, criteria=0.3)
    assert set(classes) == {0, 1, 2, 3}
    values = targets * stds + means
    extents = anchors[:, 2:] - anchors[:, :2]
    middle = (anchors[:, :2] + anchors[:, 2:]) / 2 + values[:, :2] * extents
    half = np.exp(values[:, 2:]) * extents / 2
    learned = classes > 0
    assert np.allclose(
        np.concatenate([middle - half, middle + half], 1)[learned], BOXES[classes[learned] - 1], atol=1e-4
    )


def test_wrong_anchors_are_explained():
    """The number of anchors, means and deviations, and the criteria."""
    refused("four numbers each, got 6", ValueError, lambda: fn.box_encoder(BOXES, LABELS, anchors=[0.0] * 6))
    refused(
        "criteria must be between", ValueError, lambda: fn.box_encoder(BOXES, LABELS, anchors=[0.0] * 4, criteria=2.0)
    )
    refused(
        "means must have 4 values", ValueError, lambda: fn.box_encoder(BOXES, LABELS, anchors=[0.0] * 4, means=(1.0,))
    )
    refused(
        "stds must not be 0", ValueError, lambda: fn.box_encoder(BOXES, LABELS, anchors=[0.0] * 4, stds=(0.0, 1, 1, 1))
    )
    refused("3 boxes, and labels", ValueError, lambda: fn.box_encoder(BOXES, LABELS[:1], anchors=[0.0] * 4))


@pytest.mark.parametrize("scaling", [(-0.1, 1.0), (1.0, 0.5), (1.0,)])
def test_the_scaling_of_a_window_is_a_range(scaling):
    """Of numbers that are not negative, the smaller one first."""
    with pytest.raises(ValueError, match="scaling"):
        fn.random_bbox_crop(np.zeros((1, 4), np.float32), scaling=scaling)
