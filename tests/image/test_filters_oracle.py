"""Filters, histograms and pasting against the real DALI, over drawn arguments."""

import numpy as np
import oracle
import pytest

pytestmark = [pytest.mark.oracle, pytest.mark.timeout(300)]

F = np.float32
BORDERS = ["reflect_101", "reflect_1001", "clamp", "wrap", "constant"]


def draw(rng, dtype, shape):
    """Noise of a type."""
    if np.dtype(dtype).kind == "f":
        return rng.normal(0, 50, shape).astype(dtype)
    return rng.integers(0, 256, shape).astype(dtype)


def test_filter():
    """Kernels of all sizes, larger than the image too, with anchors, borders, layouts and types."""
    rng = oracle.random(1)
    rows = []
    for _ in range(110):
        dtype = rng.choice([np.uint8, np.uint8, np.float32, np.int16, np.uint16])
        layout = str(rng.choice(["HWC", "HWC", "HW", "CHW", "FHWC", "FCHW"]))
        extents = {
            "F": 2,
            "C": int(rng.choice([1, 3, 4])),
            "H": int(rng.integers(1, 40)),
            "W": int(rng.integers(1, 40)),
        }
        image = draw(rng, dtype, [extents[x] for x in layout])
        sizes = [int(rng.choice([1, 2, 3, 4, 5, 9, 10])) for _ in "HW"]
        kernel = rng.uniform(-1, 1, sizes).astype(F)
        if rng.integers(2):  # a product of two windows
            kernel = np.outer(rng.uniform(0, 1, sizes[0]), rng.uniform(0, 1, sizes[1])).astype(F)
        kernel /= np.abs(kernel).sum()
        options = {"border": str(rng.choice(BORDERS))}
        if rng.integers(2):
            options["anchor"] = [int(rng.integers(-1, size)) for size in sizes]
        if rng.integers(2):
            options["dtype"] = "types.FLOAT"
        if rng.integers(3) == 0 and sizes[0] <= extents["H"] and sizes[1] <= extents["W"]:
            options["mode"] = "valid"
        inputs = [image, kernel]
        if (
            options["border"] == "constant" and rng.integers(2) and extents["C"] < 4
        ):  # DALI's fill value misses the fourth channel
            inputs.append(np.array(rng.integers(0, 200), dtype))
        rows.append(
            ("filter", inputs, [layout], options, 1 if "dtype" not in options and dtype != np.float32 else 1e-4)
        )
    oracle.compare(rows)


def test_laplacian():
    """Windows of derivatives and of smoothing, of all axes, with factors; images and volumes."""
    rng = oracle.random(2)
    rows = []
    for _ in range(90):
        dtype = rng.choice([np.uint8, np.uint8, np.float32, np.int16, np.int8])
        layout = str(rng.choice(["HWC", "HWC", "HW", "CHW", "FHWC", "DHWC", "DHW", "CDHW"]))
        extents = {
            "F": 2,
            "C": int(rng.choice([1, 3])),
            "D": 5,
            "H": int(rng.integers(1, 30)),
            "W": int(rng.integers(1, 30)),
        }
        image = draw(rng, dtype, [extents[x] for x in layout])
        axes = 3 if "D" in layout else 2
        options = {"dtype": "types.FLOAT"} if rng.integers(3) else {}
        if rng.integers(2):
            options["window_size"] = [int(x) for x in rng.choice([3, 5, 7], axes)]
        if rng.integers(2):
            options["smoothing_size"] = [int(x) for x in rng.choice([1, 3, 5], axes)]
        if rng.integers(2):
            options["normalized_kernel"] = True
        elif rng.integers(2):
            options["scale"] = [float(F(x)) for x in rng.uniform(0.01, 1, axes)]
        rows.append(("laplacian", [image], [layout], options, 1e-5 if "dtype" in options or dtype == np.float32 else 1))
    oracle.compare(rows)


def test_histograms():
    """equalize and clahe are equal to the byte."""
    rng = oracle.random(3)
    rows = []
    for _ in range(60):
        layout = str(rng.choice(["HWC", "HWC", "HW", "CHW", "FHWC", "FCHW", "FHW"]))
        extents = {"F": 2, "C": int(rng.integers(1, 5)), "H": int(rng.integers(1, 50)), "W": int(rng.integers(1, 50))}
        image = rng.normal(rng.uniform(50, 200), rng.uniform(0.1, 60), [extents[x] for x in layout])
        rows.append(("equalize", [image.clip(0, 255).astype(np.uint8)], [layout], {}, 0))
    for _ in range(60):
        shape = (*rng.integers(4, 70, 2), rng.choice([1, 3]))
        image = rng.normal(rng.uniform(60, 180), rng.uniform(1, 50), shape).clip(0, 255).astype(np.uint8)
        tiles = {name: int(rng.integers(1, 9)) for name in ("tiles_x", "tiles_y")}
        limit = float(F(rng.choice([0, 0.5, 1, 2, 4, 40])))
        rows.append(("clahe", [image], ["HWC"], {**tiles, "clip_limit": limit, "luma_only": bool(rng.integers(2))}, 0))
    oracle.compare(rows)


def test_paste_and_grid_mask():
    """Canvases of drawn sizes, and grids of drawn tiles, turns and shifts, are equal to the byte."""
    rng = oracle.random(4)
    rows = []
    for _ in range(60):
        image = rng.integers(0, 256, (*rng.integers(1, 25, 2), 3)).astype(np.uint8)
        options = {
            "ratio": float(F(rng.uniform(1, 3))),
            "fill_value": [int(x) for x in rng.integers(0, 256, rng.choice([1, 3]))],
        }
        options |= {name: float(F(rng.random())) for name in ("paste_x", "paste_y") if rng.integers(2)}
        if rng.integers(3) == 0:
            options["min_canvas_size"] = float(rng.integers(0, 60))
        rows.append(("paste", [image], ["HWC"], options, 0))
        options = {
            "tile": int(rng.integers(1, 20)),
            "ratio": float(F(rng.uniform(0, 1))),
            "angle": float(F(rng.uniform(-4, 4))),
        }
        options |= {name: float(F(rng.uniform(-20, 20))) for name in ("shift_x", "shift_y")}
        dtype = rng.choice([np.uint8, np.float32, np.int16])
        rows.append(("grid_mask", [image.astype(dtype)], ["HWC"], options, 0))
    oracle.compare(rows)


def test_multi_paste():
    """Batches of unlike images, any number of parts, whole and relative places."""
    rng = oracle.random(5)
    rows = []
    for _ in range(40):
        size = int(rng.integers(1, 5))
        images = tuple(rng.integers(1, 256, (*rng.integers(4, 20, 2), 3)).astype(np.uint8) for _ in range(size))
        counts = rng.integers(0, 4, size)
        options = {"output_size": [40, 50]}
        options["in_ids"] = tuple(rng.integers(0, size, n).astype(np.int32) for n in counts)
        if rng.integers(2):
            options["in_anchors"] = tuple(rng.integers(0, 2, (n, 2)).astype(np.int32) for n in counts)
        elif rng.integers(2):
            options["in_anchors_rel"] = tuple(rng.uniform(0, 0.3, (n, 2)).astype(F) for n in counts)
        if rng.integers(2):
            options["shapes"] = tuple(rng.integers(0, 3, (n, 2)).astype(np.int32) for n in counts)
        elif rng.integers(2) and "in_anchors" not in options:
            options["shapes_rel"] = tuple(rng.uniform(0, 0.5, (n, 2)).astype(F) for n in counts)
        if rng.integers(2):
            options["out_anchors"] = tuple(rng.integers(0, 20, (n, 2)).astype(np.int32) for n in counts)
        elif rng.integers(2):
            options["out_anchors_rel"] = tuple(rng.uniform(0, 0.5, (n, 2)).astype(F) for n in counts)
        if rng.integers(3) == 0:
            options["dtype"] = "types.FLOAT"
        rows.append(("multi_paste", [images], ["HWC"], options, 0))
    several = [tuple(rng.integers(0, 256, (5, 6, 1)).astype(np.uint8) for _ in range(2)) for _ in range(3)]
    places = tuple(np.array([[0, 0], [2, 3], [4, 1]], np.int32) + n for n in range(2))
    rows.append(("multi_paste", several, ["HWC"] * 3, {"output_size": [12, 12], "out_anchors": places}, 0))
    rows.append(("multi_paste", several[:2], ["HWC"] * 2, {}, 0))
    oracle.compare(rows)
