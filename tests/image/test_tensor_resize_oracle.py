"""tensor_resize against the real DALI, over drawn arguments."""

import numpy as np
import oracle
import pytest

pytestmark = [pytest.mark.oracle, pytest.mark.timeout(300)]

F = np.float32


def test_resizes_along_any_axes():
    """One to five axes; sizes and scales, regions, modes, limits, roundings, alignments, filters and types."""
    rng = oracle.random(1)
    rows = []
    for _ in range(150):
        ndim = int(rng.integers(1, 5))
        shape = [int(x) for x in rng.integers(1, 12, ndim)]
        dtype = rng.choice([np.float32, np.float32, np.uint8, np.int16])
        data = rng.uniform(0, 200, shape).astype(dtype)
        axes = sorted(int(x) for x in rng.permutation(ndim)[: int(rng.integers(1, min(ndim, 3) + 1))])
        if ndim > 3:  # DALI resizes no more than three axes that follow one another
            axes = [1, 3] if rng.integers(2) else [0, 1, 2]
        options = {}
        if len(axes) < ndim or rng.integers(2) or ndim > 3:
            options["axes"] = axes
        else:
            axes = list(range(ndim))
        count = len(axes)
        if rng.integers(2):
            options["sizes"] = [float(x) for x in rng.choice([1, 2, 3, 5, 8, 13, -4, 2.5], count)]
        else:
            options["scales"] = [float(F(x)) for x in rng.uniform(0.3, 2.5, count)]
        # with a ratio to keep, DALI resizes the axes that are not named too
        limits = ["not_larger", "not_smaller"] if "sizes" in options and count == ndim else []
        mode = str(rng.choice(["default", "default", "stretch", *limits]))
        if mode != "default":
            options["mode"] = mode
        if rng.integers(4) == 0:
            options["max_size"] = [float(x) for x in rng.integers(2, 12, count)]
        if rng.integers(3) == 0:
            options["size_rounding"] = str(rng.choice(["round", "truncate", "ceil"]))
        if rng.integers(3) == 0 and axes != [1, 3]:  # DALI gives the axis between them an alignment too many
            options["alignment"] = [float(F(x)) for x in rng.uniform(0, 1, count)]
        if rng.integers(4) == 0:
            options["subpixel_scale"] = False
        if rng.integers(3) == 0:
            low = rng.uniform(0, 0.3, count)
            options |= {
                "roi_start": [float(F(x)) for x in low],
                "roi_end": [float(F(x)) for x in low + 0.6],
                "roi_relative": True,
            }
        if rng.integers(3) == 0:
            options["antialias"] = False
        if rng.integers(3) == 0:
            options["interp_type"] = "types.INTERP_NN"
        if rng.integers(3) == 0:
            options["dtype"] = "types.FLOAT"
        rounded = {"ceil": np.ceil, "truncate": np.floor}.get(options.get("size_rounding"), lambda x: np.floor(x + 0.5))
        wanted = np.array(options.get("sizes") or np.multiply(options.get("scales", 1), [shape[axis] for axis in axes]))
        if any(abs(rounded(abs(x))) == shape[axis] and x != shape[axis] for x, axis in zip(wanted, axes)):
            continue  # DALI leaves an axis as it is whose extent does not change, also where its scale says otherwise
        if "scales" in options and "interp_type" in options and any(shape[axis] % 2 == 0 for axis in axes):
            continue  # the middle of the result may be exactly between two pixels
        exact = "dtype" in options or dtype == np.float32
        rows.append(("tensor_resize", [data], [], options, 2e-3 if exact else 1))
    oracle.compare(rows)
