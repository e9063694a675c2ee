"""Noise and sensor data against the real DALI: the same shares, moments and colours."""

import numpy as np
import oracle
import pytest

pytestmark = [pytest.mark.oracle, pytest.mark.timeout(300)]

SIDE = 200
PIXELS = SIDE * SIDE  # draws that do not depend on each other
SURE = 5  # standard errors of a difference of two samples


def test_noise_has_dalis_shares_and_moments():
    """Which values occur, how often, and mean and variance, for drawn arguments and every type that DALI takes."""
    rng = oracle.random(1)
    rows = []
    for _ in range(30):
        dtype = rng.choice([np.uint8, np.int8, np.int16, np.uint16, np.int32, np.float32])
        image = np.full((SIDE, SIDE, 3), 60, dtype)
        options = {"prob": float(np.float32(rng.uniform(0, 1)))} if rng.integers(4) else {}
        options |= {"salt_vs_pepper": float(np.float32(rng.uniform(0, 1)))} if rng.integers(2) else {}
        options |= {"salt_val": 90.0, "pepper_val": 3.0} if rng.integers(2) else {}
        options |= {"per_channel": True} if rng.integers(2) else {}
        rows.append(("noise.salt_and_pepper", image, options))
        options = {"factor": float(np.float32(rng.uniform(0.3, 30)))} if rng.integers(4) else {}
        rows.append(("noise.shot", image, options))
    answers = oracle.ask([oracle.case(name, image, layouts=("HWC",), **options) for name, image, options in rows])
    for (name, image, options), (values, names) in zip(rows, answers, strict=True):
        assert isinstance(values, list), names
        found, _ = oracle.answer(name, [image], ["HWC"], options, key=7)
        mine, theirs = found[0].astype(float), values[0].astype(float)
        assert found[0].dtype == values[0].dtype
        if name == "noise.salt_and_pepper":
            for value in np.unique(theirs):
                share = (theirs == value).mean()
                assert abs((mine == value).mean() - share) < SURE * np.sqrt(2 * share * (1 - share) / PIXELS) + 1e-4
            alike = [np.ptp(x, axis=2).max() == 0 for x in (mine, theirs)]
            assert alike[0] == alike[1]
        else:
            spread, tails = theirs.std() + 1e-9, ((theirs - theirs.mean()) ** 4).mean() / (theirs.var() ** 2 + 1e-9)
            assert abs(mine.mean() - theirs.mean()) < SURE * spread * np.sqrt(2 / PIXELS) + 0.01
            assert abs(mine.var() / (theirs.var() + 1e-9) - 1) < SURE * np.sqrt(2 * tails / PIXELS) + 0.01
            # the step from one value to the next; a rare value at the end of the type is nearer
            steps = [np.median(np.diff(np.unique(x))) for x in (mine, theirs)]
            assert abs(steps[0] - steps[1]) < 1.01


def test_colours_of_a_sensor():
    """debayer is equal to the byte in all positions and algorithms."""
    rng = oracle.random(2)
    rows = []
    for _ in range(60):
        dtype = rng.choice([np.uint8, np.uint16])
        layout = str(rng.choice(["HW", "HWC", "FHW"]))
        extents = {"F": 2, "C": 1, "H": 2 * int(rng.integers(2, 20)), "W": 2 * int(rng.integers(2, 20))}
        data = rng.integers(0, 256 if dtype == np.uint8 else 60000, [extents[x] for x in layout]).astype(dtype)
        algorithms = ["bilinear_ocv", "edgeaware_ocv", "gray_ocv"] + ["vng_ocv"] * (
            dtype == np.uint8 and min(data.shape[-2:]) >= 8
        )
        options = {"blue_position": [int(x) for x in rng.integers(0, 2, 2)]}
        if rng.integers(3):
            options["algorithm"] = str(rng.choice(algorithms))
        rows.append(("debayer", [data], [layout], options, 0))
    oracle.compare(rows)
