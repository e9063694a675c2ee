"""Compiled code makes the same rows as NumPy, bit by bit, over drawn arguments."""

import numpy as np
import pytest

from pipeflow.declare import Args, NoTable, SpecColumn, all_of
from pipeflow.device.tables import ArrayColumn, TableCall
from pipeflow.operators import crop_tables
from pipeflow.operators.on_gpu import crop_mirror_normalize as normalizing
from pipeflow.operators.on_gpu import resize_rows
from pipeflow.operators.sampling import Axis, axes_row
from pipeflow.operators.windows import POLICIES
from pipeflow.types import DALIInterpType

KINDS = list(DALIInterpType)


@pytest.fixture
def by_both(monkeypatch):
    """A function that calls another one without the compiled code, and with it, and returns both results."""
    all_of(crop_tables.CUTS_LOAD, resize_rows.ROWS_LOAD, normalizing.ROWS_LOAD)[1]()

    def call(function, *arguments):
        with monkeypatch.context() as patch:
            for module in (crop_tables, resize_rows, normalizing):
                patch.setattr(module, "code", None)
            expected = function(*arguments)
        return expected, function(*arguments)

    return call


def assert_equal(pair):
    """Both results have the same types and bytes."""
    for one, other in zip(*[x if isinstance(x, tuple) else (x,) for x in pair], strict=True):
        if isinstance(one, np.ndarray):
            assert (one.dtype, one.shape) == (other.dtype, other.shape)
            assert one.tobytes() == other.tobytes()
        else:
            assert one == other


def drawn_axis(rng):
    """An axis of any scale, whole or a part, mirrored or not; often with pixels exactly as they are."""
    size, full = int(rng.integers(1, 400)), int(rng.integers(1, 300))
    low, high = rng.choice([(0.0, size), (3.0, 3.0 + full), (size, 0.0), tuple(rng.uniform(-0.2, 1.2, 2) * size)])
    first = int(rng.integers(0, full))
    return Axis(size, low, high, full, first, int(rng.integers(1, full - first + 1)), bool(rng.random() < 0.5))


def drawn_axes(rng, count, axes):
    """The rows of so many axes of so many samples."""
    rows = []
    for _ in range(count):
        args = Args(interp_type=rng.choice(KINDS), min_filter=None, mag_filter=rng.choice([None, *KINDS]))
        rows.append(axes_row([drawn_axis(rng) for _ in range(axes)], args))
    return np.stack(rows)


def column(rng, count, axes, dtype=np.uint8):
    """Arrays at any addresses."""
    return ArrayColumn(rng.integers(1, 1 << 48, count), rng.integers(1, 60, (count, axes)), np.dtype(dtype))


@pytest.mark.parametrize("antialias", [True, False])
@pytest.mark.parametrize("seed", range(10))
def test_rows_of_resizes(by_both, seed, antialias):
    """Numbers of taps, rows of tap tables, widths and rows of tiles."""
    rng = np.random.default_rng(seed)
    count = int(rng.integers(1, 300))
    assert_equal(by_both(resize_rows.tap_counts, drawn_axes(rng, count, 1), antialias))
    ndim = int(rng.integers(2, 4))
    axes = drawn_axes(rng, count, ndim)
    pair = by_both(resize_rows.tap_counts, axes, antialias)
    assert_equal(pair)
    (counts, _) = pair
    pair = by_both(resize_rows.tap_rows, axes, antialias, counts)
    assert_equal(pair)
    rows, _, _ = pair[0]
    y, x = [
        resize_rows.Taps(rows["starts"][:, axis], rows["weights"][:, axis], counts[:, axis]) for axis in (ndim - 2, -1)
    ]
    pixel, outer = rng.integers(1, 90, count), rng.integers(1, 5, count)
    for copied in (True, False):
        pair = by_both(resize_rows.tile_widths, axes[:, -1], y.counts, x.counts, pixel, copied)
        assert_equal(pair)
    tiles, source, target = np.maximum(pair[0], 1), column(rng, count, 3), column(rng, count, 3)
    assert_equal(by_both(resize_rows.tile_rows, source, target, outer, axes[:, -2:], pixel, y, x, tiles))


def drawn_number(rng, count, choices):
    """A constant of the choices, or one for each sample."""
    return rng.choice(choices, count) if rng.random() < 0.4 else float(rng.choice(choices))


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("seed", range(20))
def test_windows(by_both, seed, policy):
    """Windows of crops, inside and outside of the data; no table for those that are refused."""
    rng = np.random.default_rng(seed)
    layout = str(rng.choice(["HWC", "CHW", "DHWC", "CDHW", "HW"]))
    count = int(rng.integers(1, 100))
    shapes = rng.integers(1, 50, (count, len(layout)))
    sizes = [0, 1, 1.9, 2] if policy == "error" else [0, 1, 7.5, 30, 90]
    names = {f"crop_{letter}": drawn_number(rng, count, sizes) for letter in "dhw"}
    if policy == "error":
        shapes += 1
    if rng.random() < 0.4:
        names = dict.fromkeys(names, 0.0) | {"crop": tuple(rng.choice(sizes, rng.integers(1, 4)).tolist())}
    places = [0.0, 0.25, 0.5, 1 / 3, 1.0] + [1.5] * (seed % 5 == 0)
    names |= {f"crop_pos_{letter}": drawn_number(rng, count, places) for letter in "xyz"}
    args = Args(**{"crop": None} | names, rounding=str(rng.choice(["round", "truncate"])), out_of_bounds_policy=policy)

    def cuts():
        axes = [axis for axis, letter in enumerate(layout) if letter != "C"]
        try:
            return crop_tables.crop_cuts(SpecColumn(shapes, np.dtype(np.uint8), layout), axes, args)
        except NoTable:
            return "no table"

    assert_equal(by_both(cuts))


def test_sizes_that_no_integer_has(by_both):
    """They are left to the plans of the samples."""
    sizes = {"crop": None, "crop_d": 0.0, "crop_h": 1e30, "crop_w": np.array([1.0, 2.0])}
    args = Args(**sizes, crop_pos_x=0.0, crop_pos_y=0.0, crop_pos_z=0.0, rounding="round", out_of_bounds_policy="pad")
    spec = SpecColumn(np.array([[5, 6, 3], [7, 8, 3]]), np.dtype(np.uint8), "HWC")

    def refused():
        with pytest.raises((NoTable, OverflowError)):  # of an OverflowError TablePlanner makes NoTable
            crop_tables.crop_cuts(spec, (0, 1), args)

    by_both(refused)


@pytest.mark.parametrize("seed", range(20))
def test_rows_of_normalisations(by_both, seed):
    """Planes of images and volumes, parts of them, mirrored or not, some without pixels."""
    rng = np.random.default_rng(seed)
    layout, first = str(rng.choice(["HWC", "CHW", "DHWC", "CDHW"])), bool(rng.random() < 0.5)
    names = ("C" if first else "") + layout.replace("C", "") + ("" if first else "C")
    count, channels = int(rng.integers(1, 60)), int(rng.choice([1, 3]))
    source, target = (
        column(rng, count, len(layout)),
        column(rng, count, len(layout), rng.choice([np.float32, np.float16])),
    )
    source.shapes[:, layout.index("C")] = target.shapes[:, names.index("C")] = channels
    table = np.zeros(count, normalizing.normalizing.normalizations(len(layout), channels))
    table["low"] = rng.integers(0, source.shapes)
    table["extents"] = rng.integers(seed % 2, source.shapes - table["low"] + 1)
    table["extents"][:, layout.index("C")] = channels
    table["place"], table["mirror"] = rng.integers(0, target.shapes), rng.random(count) < 0.5
    table["mean"], table["factor"] = rng.random((2, count, channels))
    call = TableCall(source, target, table, Args(shift=0.5), layout, None)
    joined = channels if layout[-1] == "C" else 1
    assert_equal(by_both(normalizing.pixel_rows, call, names, joined))


def test_what_is_loaded():
    """The code of an operator is loaded if all pieces are; only those that are not are loaded."""
    state = {"one": True, "other": False}
    loads = all_of(*[(lambda name=name: state[name], lambda name=name: state.update({name: "now"})) for name in state])
    assert not loads[0]()
    loads[1]()
    assert loads[0]()
    assert state == {"one": True, "other": "now"}
