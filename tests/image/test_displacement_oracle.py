"""Images looked up at other places against the real DALI, over drawn arguments."""

import numpy as np
import oracle
import pytest

pytestmark = [pytest.mark.oracle, pytest.mark.timeout(300)]

F = np.float32


def draw_image(rng, dtype=np.uint8, channels=None):
    """Noise of a drawn size."""
    extents = [int(x) for x in rng.integers(2, 60, 2)]
    channels = int(rng.choice([1, 2, 3, 4])) if channels is None else channels
    return rng.integers(0, 256, (*extents, channels)).astype(dtype)


def test_perspective():
    """warp_perspective in all interpolations, borders, origins, layouts and types."""
    rng = oracle.random(1)
    rows = []
    for _ in range(120):
        dtype = rng.choice([np.uint8, np.uint8, np.float32, np.int16, np.uint16])
        # Where DALI's OpenCV has no kernel of its own, it rounds places to 1/32 of a pixel: two channels, 16 bits.
        image = draw_image(rng, dtype, int(rng.choice([1, 3, 4])))
        tolerance = {np.dtype(np.float32): 1e-3, np.dtype(np.uint8): 1}.get(np.dtype(dtype), 16)
        matrix = np.eye(3) + rng.uniform(-0.3, 0.3, (3, 3)) * [[1, 1, 40], [1, 1, 40], [0.02, 0.02, 0]]
        options = {"matrix": [float(x) for x in matrix.astype(F).ravel()]}
        if rng.integers(2):
            options["size"] = [float(x) for x in rng.integers(1, 70, 2)]
        if rng.integers(2):
            options["inverse_map"] = False
        options["pixel_origin"] = str(rng.choice(["corner", "center"]))
        # reflections of places far outside are where DALI's sums of float32 lose count
        options["border_mode"] = str(rng.choice(["constant", "constant", "replicate"]))
        options["fill_value"] = [float(x) for x in rng.integers(0, 200, rng.choice([1, image.shape[2]]))]
        options["interp_type"] = f"types.INTERP_{rng.choice(['NN', 'LINEAR', 'CUBIC'])}"
        layout = "HWC"
        if rng.integers(4) == 0:
            image, layout, options["fill_value"] = image.transpose(2, 0, 1).copy(), "CHW", [9.0]
        elif rng.integers(4) == 0:
            image, layout, options["fill_value"] = image[..., 0].copy(), "HW", [9.0]
        rows.append(("experimental.warp_perspective", [image], [layout], options, tolerance))
    oracle.compare(rows)


def test_perspective_borders():
    """Shifts by fractions of a pixel, in all ways of going on outside the image."""
    rng = oracle.random(2)
    rows = []
    for border in ("constant", "replicate", "reflect", "reflect_101", "wrap"):
        for _ in range(12):
            image = rng.integers(0, 256, (*rng.integers(20, 50, 2), rng.choice([1, 3, 4]))).astype(F)
            matrix = np.eye(3) + rng.uniform(-0.1, 0.1, (3, 3)) * [[1, 1, 100], [1, 1, 100], [0, 0, 0]]
            options = {
                "matrix": [float(x) for x in matrix.astype(F).ravel()],
                "border_mode": border,
                "fill_value": [7.0],
            }
            options["interp_type"] = f"types.INTERP_{rng.choice(['LINEAR', 'CUBIC'])}"
            rows.append(("experimental.warp_perspective", [image], ["HWC"], options, 1e-3))
    oracle.compare(rows)


def test_water_and_sphere():
    """Both effects, to the nearest pixel and interpolated."""
    rng = oracle.random(3)
    rows = []
    for _ in range(50):
        dtype = rng.choice([np.uint8, np.float32])
        image = draw_image(rng, dtype)
        options = {
            "fill_value": float(rng.integers(0, 250)),
            "interp_type": f"types.INTERP_{rng.choice(['NN', 'LINEAR'])}",
        }
        options["mask"] = np.array(int(rng.integers(4) > 0), np.int32)
        tolerance = 1e-4 if dtype == np.float32 else 1
        if rng.integers(2):
            options |= {name: float(F(rng.uniform(0, 9))) for name in ("ampl_x", "ampl_y", "phase_x", "phase_y")}
            options |= {name: float(F(rng.uniform(0, 1))) for name in ("freq_x", "freq_y")}
            rows.append(("water", [image], ["HWC"], options, tolerance))
        else:
            rows.append(("sphere", [image], ["HWC"], options, tolerance))
    rows.append(("water", [draw_image(rng)], ["HWC"], {}, 0))
    oracle.compare(rows)
