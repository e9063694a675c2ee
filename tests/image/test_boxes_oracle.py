"""Boxes and points against the real DALI, over drawn arguments."""

import numpy as np
import oracle
import pytest

from pipeflow import fn
from pipeflow.tensors import TensorListCPU

pytestmark = [pytest.mark.oracle, pytest.mark.timeout(300)]

F = np.float32


def draw_boxes(rng, count, layout="xyXY"):
    """Boxes in relative coordinates, none of them empty."""
    corners = np.sort(rng.random((count, 2, 2)), axis=1)
    corners[:, 1] = np.minimum(corners[:, 1] + 0.02, 1)
    boxes = corners.reshape(-1, 4)
    if layout == "xyWH":
        boxes[:, 2:] -= boxes[:, :2]
    return boxes.astype(F)


def test_lines_through_coordinates():
    """bb_flip, bbox_paste and coord_flip with every form of boxes and points."""
    rng = oracle.random(1)
    rows = []
    for _ in range(25):
        ltrb = bool(rng.integers(2))
        boxes = draw_boxes(rng, int(rng.integers(0, 5)), "xyXY" if ltrb else "xyWH")
        flips = {name: int(rng.integers(2)) for name in ("horizontal", "vertical")}
        rows.append(("bb_flip", [boxes], [], {"ltrb": ltrb, **flips}, 1e-6))
        places = {name: np.asarray(rng.random(), F) for name in ("paste_x", "paste_y")}
        rows.append(("bbox_paste", [boxes], [], {"ltrb": ltrb, "ratio": float(F(rng.uniform(1, 4))), **places}, 1e-6))
        size = int(rng.integers(1, 4))
        layout = "".join(rng.permutation(list("xyz"[:size])))
        turns = {f"flip_{x}": int(rng.integers(2)) for x in "xyz"[:size]}
        centers = {f"center_{x}": float(F(rng.uniform(-3, 9))) for x in "xyz"[:size]}
        points = rng.uniform(-9, 9, (int(rng.integers(0, 6)), size)).astype(F)
        rows.append(("coord_flip", [points], [], {"layout": layout, **turns, **centers}, 1e-6))
    oracle.compare(rows)


def test_turned_boxes():
    """bbox_rotate in all modes, sizes, layouts and thresholds; the canvas is that of rotate."""
    rng = oracle.random(2)
    rows = []
    for _ in range(80):
        layout, shape_layout = rng.choice(["xyXY", "xyWH"]), rng.choice(["HW", "WH", "HWC"])
        extents = [int(x) for x in rng.integers(20, 200, len(shape_layout))]
        boxes = draw_boxes(rng, int(rng.integers(0, 8)), layout)
        options = {
            "angle": float(F(rng.choice([rng.uniform(-400, 400), 90, 180, 30]))),
            "input_shape": extents,
            "bbox_layout": str(layout),
            "shape_layout": str(shape_layout),
            "mode": str(rng.choice(["expand", "halfway", "fixed"])),
            "remove_threshold": float(F(rng.choice([0, 0.1, 0.5, 0.9]))),
        }
        if rng.integers(3) == 0:
            options["keep_size"] = True
        elif rng.integers(2):
            options["size"] = [float(x) for x in rng.integers(20, 200, 2)]
        if rng.integers(3) == 0:
            options["bbox_normalized"] = False
            wide = np.array([extents[shape_layout.index("W")], extents[shape_layout.index("H")]] * 2)
            boxes = (boxes * wide).astype(F)
        labels = rng.integers(0, 9, (len(boxes), *[1] * int(rng.integers(2)))).astype(np.int32)
        inputs = [boxes, labels] if rng.integers(2) else [boxes]
        rows.append(("bbox_rotate", inputs, [], options, 3e-5))
    oracle.compare(rows)


def test_targets_of_a_detector():
    """box_encoder with few and many anchors, boxes that share their best anchor, and equal overlaps."""
    rng = oracle.random(3)
    rows = []
    for number in range(40):
        steps = 4 if number % 2 else 1000  # coarse grids make overlaps equal
        anchors = np.round(draw_boxes(rng, int(rng.integers(1, 40))) * steps) / steps
        anchors[:, 2:] = np.maximum(anchors[:, 2:], anchors[:, :2] + 1 / steps)
        boxes = np.round(draw_boxes(rng, int(rng.integers(0, 6))) * steps) / steps
        boxes[:, 2:] = np.maximum(boxes[:, 2:], boxes[:, :2] + 1 / steps)
        labels = rng.integers(1, 90, len(boxes)).astype(np.int32)
        options = {
            "anchors": [float(x) for x in anchors.astype(F).ravel()],
            "criteria": float(rng.choice([0.0, 0.25, 0.5, 1.0])),
        }
        if rng.integers(2):
            options |= {"offset": True, "stds": [0.1, 0.1, 0.2, 0.2], "means": [0.0, 0.1, 0.2, 0.3], "scale": 3.0}
        rows.append(("box_encoder", [boxes.astype(F), labels], [], options, 1e-5))
    oracle.compare(rows)


BOXES = np.array([[0.1, 0.2, 0.3, 0.4], [0.2, 0.2, 0.6, 0.8], [0.7, 0.7, 0.9, 0.95]], F)
NUMBER = 3000
DRAWN = [
    {"thresholds": [0.0, 0.1, 0.3, 0.5, 0.7, 0.9], "scaling": [0.3, 1.0], "aspect_ratio": [0.5, 2.0]},
    {
        "thresholds": [0.0, 0.1, 0.3, 0.5, 0.7, 0.9],
        "scaling": [0.3, 1.0],
        "aspect_ratio": [0.5, 2.0],
        "num_attempts": 50,
    },
    {"scaling": [0.2, 0.9]},
    {"scaling": [0.2, 0.9], "aspect_ratio": [2.0, 2.0], "allow_no_crop": False},
    {
        "scaling": [0.1, 0.9],
        "aspect_ratio": [0.5, 1.5],
        "allow_no_crop": False,
        "all_boxes_above_threshold": False,
        "thresholds": [0.3],
    },
    {
        "scaling": [0.2, 0.9],
        "aspect_ratio": [0.5, 1.5],
        "input_shape": [200, 100],
        "threshold_type": "overlap",
        "thresholds": [0.5],
    },
    {"scaling": [0.2, 0.9], "aspect_ratio": [0.5, 1.5], "bbox_prune_threshold": 0.3, "threshold_type": "overlap"},
    {"scaling": [0.1, 2.0], "allow_no_crop": False},
    {"scaling": [1.0, 1.5], "aspect_ratio": [0.5, 2.0], "input_shape": [200, 100]},
    {"crop_shape": [60, 40], "input_shape": [200, 100], "allow_no_crop": False},
    {"crop_shape": [260, 40], "input_shape": [200, 100], "allow_no_crop": False},
    {"crop_shape": [60, 40], "input_shape": [100, 200], "shape_layout": "HW", "allow_no_crop": False},
    {
        "scaling": [0.2, 0.3],
        "thresholds": [0.9],
        "allow_no_crop": False,
        "total_num_attempts": 20,
        "all_boxes_above_threshold": False,
    },
]


@pytest.fixture(scope="module")
def windows_of_dali():
    """What DALI draws, three thousand times for each set of arguments."""
    labels = tuple([np.array([1, 2, 3], np.int32)] * NUMBER)
    return oracle.ask(
        [oracle.case("random_bbox_crop", tuple([BOXES] * NUMBER), labels, quiet=True, **options) for options in DRAWN]
    )


@pytest.mark.parametrize("number", range(len(DRAWN)), ids=[str(options) for options in DRAWN])
def test_random_windows_have_dalis_distribution(windows_of_dali, number):
    """Start, extents, the number of boxes and of whole images have the means and quantiles that DALI's have."""
    values, names = windows_of_dali[number]
    assert isinstance(values, list), names
    options = DRAWN[number]
    labels = TensorListCPU([np.array([1, 2, 3], np.int32)] * NUMBER)
    found = fn.random_bbox_crop(TensorListCPU([BOXES] * NUMBER), labels, key=7, **options)
    ours = [[np.asarray(x) for x in output.samples()] for output in found]
    for mine, theirs in zip(ours[:2], values[:2]):
        a, b = np.array(mine), np.array(theirs)
        assert a.dtype == b.dtype
        for column in range(2):
            quantiles = np.linspace(0.02, 0.98, 13)
            spread = max(np.ptp(b[:, column]), 1e-6)
            distance = np.abs(np.quantile(a[:, column], quantiles) - np.quantile(b[:, column], quantiles)) / spread
            assert distance.mean() < 0.04
            # a window that is found once in three thousand times moves the mean by this much
            assert abs(a[:, column].mean() - b[:, column].mean()) < 0.03 * spread + 2e-3
    shares = [np.bincount([len(x) for x in side[2]], minlength=4) / NUMBER for side in (ours, values)]
    tolerance = 0.06
    if "total_num_attempts" not in options:  # where no window is good enough, DALI may keep one without boxes
        assert np.abs(shares[0] - shares[1]).max() < tolerance
    for start, extents, boxes, kept in zip(*ours):
        assert len(boxes) == len(kept)
        if not options.get("crop_shape") and len(boxes):
            again = start.repeat(1)[None].repeat(2, 0).ravel() + boxes * np.tile(extents, 2)
            assert np.abs(again - np.clip(BOXES[kept - 1], np.tile(start, 2), np.tile(start + extents, 2))).max() < 1e-5
