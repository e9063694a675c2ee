"""The tables of operators describe the same launches as the plans of single samples, byte for byte."""

import math

import example_data
import numpy as np
import pytest
from generate_docs import examples
from helpers import calls_of

import pipeflow.operators  # noqa: F401  (fills the registry)
from pipeflow import declare, fn, seeds, types
from pipeflow.declare import NoTable, SpecColumn, argument_column, registry
from pipeflow.device.calls import DevicePlanner, SampleValues, View
from pipeflow.device.memory import offsets, offsets_column
from pipeflow.device.tables import ArrayColumn, TablePlanner, stacked
from pipeflow.operators import crop_tables, windows
from pipeflow.operators.on_gpu import crop_mirror_normalize, moves, resize_rows
from pipeflow.operators.on_gpu.moves import divider, dividers
from pipeflow.tensors import TensorListCPU

TABLES = sorted(name for name, op in registry.items() if op.rows_hook is not None and op.name == name)
SIZES = [(40, 70), (1, 1), (33, 2), (64, 65), (40, 70), (7, 200)]


@pytest.fixture(params=["NumPy", "compiled"], autouse=True)
def code(request, monkeypatch):
    """What computes the rows: NumPy at first, and compiled code once a thread has loaded it."""
    for module, name in (
        (moves, "MOVES_LOAD"),
        (windows, "WINDOWS_LOADS"),
        (crop_tables, "CUTS_LOAD"),
        (resize_rows, "ROWS_LOAD"),
        (crop_mirror_normalize, "ROWS_LOAD"),
    ):
        loaded, load = getattr(module, name)
        if request.param == "compiled":
            load()
            assert loaded()
        elif hasattr(module, "code"):
            monkeypatch.setattr(module, "code", None)
        else:
            monkeypatch.setattr(module, name, (lambda: False, load))


class Recorder:
    """Device memory that knows what each address is, and keeps the launches."""

    def __init__(self):
        self.end = 1 << 20
        self.places = []  # first address, number of bytes, what is there
        self.launches = {}

    def new(self, nbytes, what):
        address = self.end
        self.places.append((address, nbytes, what))
        self.end += -(-max(nbytes, 1) // 256) * 256 + 256
        return address

    def allocate(self, output, sizes):
        return [self.new(nbytes, (f"output {output}", index)) for index, nbytes in enumerate(sizes)]

    def scratch(self, nbytes):
        return self.new(nbytes, "scratch")

    def upload(self, array):
        return self.new(array.nbytes, np.array(array, order="C"))

    def view(self, output, views):
        raise AssertionError("operators with tables launch kernels")

    def run(self, function, views):
        raise AssertionError("operators with tables launch kernels")

    def launch(self, kernel, grid, threads, rows, first, count):
        self.launches.setdefault(kernel, []).append(
            (grid, threads, self.uploaded(rows), self.uploaded(first).tolist(), count)
        )

    def uploaded(self, address):
        (found,) = [what for begin, _, what in self.places if begin == address]
        return found

    def meaning(self, address):
        """What an address is: a sample and a place in it, bytes that were uploaded, or scratch memory."""
        for begin, nbytes, what in self.places:
            # the first element of mirrored data is inside it too; an end is where a place ends
            if begin <= address <= begin + nbytes:
                if isinstance(what, np.ndarray):
                    return what.tobytes()[address - begin :]
                return what if what == "scratch" else (what, address - begin)
        raise AssertionError(f"{address:#x} is no address")


def samples_of(call, memory):
    """The samples of a call, and the layouts of its inputs."""
    (batch,) = [x if isinstance(x, TensorListCPU) else TensorListCPU([np.asarray(x)]) for x in call.inputs]
    arrays = [np.asarray(x) for x in batch.samples()]
    keys = seeds.sample_keys(5, np.arange(len(arrays))).tolist()
    nodes = {name: values.samples() for name, values in call.arguments.items()}
    return [
        SampleValues(
            [View(memory.new(x.nbytes, ("input", index)), x.shape, x.dtype)],
            {name: np.asarray(values[index]) for name, values in nodes.items()},
            keys[index],
        )
        for index, x in enumerate(arrays)
    ], [batch.layout()]


def planned(call, by_table):
    """Outputs, layouts and launches of a call; NoTable if there is no table for it."""
    memory = Recorder()
    samples, layouts = samples_of(call, memory)
    per_frame = [name for name, batch in call.arguments.items() if batch.layout()[:1] == "F"]
    planner = DevicePlanner(call.op, call.constants, call.op.outputs_of(call.constants), per_frame)
    if not by_table:
        outputs, found = planner(samples, layouts, memory)
        return [view._replace(address=0) for (view,) in outputs], found, memory
    column = ArrayColumn.of([sample.inputs[0] for sample in samples])
    given = {name: stacked([sample.arguments[name] for sample in samples]) for name in samples[0].arguments}
    keys = np.array([sample.key for sample in samples], np.uint64)
    output, layout = TablePlanner(planner)([column], given, keys, layouts, memory)
    return [view._replace(address=0) for view in output.views()], (layout,), memory


def assert_same_plan(function):
    """The table of a call describes what the plans of its samples describe."""
    call = calls_of(function)[-1]
    outputs, layouts, one_by_one = planned(call, False)
    found, names, together = planned(call, True)
    assert (found, names) == (outputs, layouts)
    assert together.launches.keys() == one_by_one.launches.keys()
    for kernel, launches in one_by_one.launches.items():
        assert len(launches) == len(together.launches[kernel])
        for one, other in zip(launches, together.launches[kernel]):
            assert (one[0], one[1], one[4]) == (other[0], other[1], other[4])
            first, second = in_order(one_by_one, one), in_order(together, other)
            assert first[1] == second[1]
            assert_same_rows(one_by_one, first[0], together, second[0])


def in_order(memory, launch):
    """The rows of a launch and their numbers of blocks, in the order of the outputs: the order of rows has no meaning."""
    _, _, rows, first, _ = launch
    sides = [
        [memory.meaning(address) for address in rows[side].tolist()]
        for side in ("output", "input")
        if side in rows.dtype.names
    ]
    places = next((places for places in sides if "scratch" not in places), [])
    order = sorted(range(len(places)), key=places.__getitem__)
    chosen = list(order) or list(range(len(rows)))
    return rows[chosen], np.diff(first)[chosen].tolist()


def assert_same_rows(one, rows, other, others):
    """Every field is equal; addresses are those of the same thing."""
    assert rows.dtype == others.dtype
    for field in rows.dtype.names:
        if rows.dtype[field] != np.uint64:
            assert rows[field].tolist() == others[field].tolist(), field
            continue
        for a, b in zip(rows[field].tolist(), others[field].tolist(), strict=True):
            assert_same_place(one.meaning(a), other.meaning(b))


def assert_same_place(one, other):
    """Two addresses have the same meaning; tables may be parts of larger ones."""
    if isinstance(one, bytes) and isinstance(other, bytes):
        length = min(len(one), len(other))
        assert length or not one + other  # or the ends of both
        assert one[:length] == other[:length]
    else:
        assert one == other


def ragged(dtype=np.uint8, layout="HWC", channels=3, sizes=SIZES):
    """Images of different sizes, or sequences of different lengths."""
    rng = np.random.default_rng(3)
    extents = {"C": channels, "D": 3}
    result = []
    for index, (height, width) in enumerate(sizes):
        own = {**extents, "H": height, "W": width, "F": index % 3 + 1}
        result.append(rng.integers(0, 200, [own[letter] for letter in layout]).astype(dtype))
    return TensorListCPU(result, layout)


def each(*values, low=None, high=None):
    """One value for each sample."""
    if low is not None:
        values = np.random.default_rng(4).uniform(low, high, len(SIZES)).astype(np.float32)
    return TensorListCPU([np.asarray(values[index % len(values)]) for index in range(len(SIZES))])


@pytest.mark.parametrize("name", TABLES)
def test_examples(name):
    """Every example of every operator with a table, over a ragged batch of each of its layouts."""
    op = registry[name]
    for text in examples(op):
        for layout in op.layouts or ("HWC",):
            if ("D" in layout and "size" in text) or ("CF" in layout and name == "crop_mirror_normalize"):
                continue  # two sizes for three axes, and frames after the channels, which no table describes
            names = example_data.arrays()
            if "image" in text:
                names["image"] = ragged(layout=layout, sizes=[(40, 70), (64, 65), (33, 31), (40, 70)])
            assert_same_plan(lambda text=text, names=names: eval(text, {"fn": fn, "types": types, **names}))


COLORS = {"brightness": each(low=0.5, high=1.5), "contrast": each(low=0.5, high=1.5)}
DRAWN = {
    "flip by the coins of the samples": lambda x: fn.flip(x, horizontal=each(0, 1, 1), vertical=each(1, 0)),
    "crop at drawn places": lambda x: fn.crop(x, crop=(1, 1), crop_pos_x=each(low=0, high=1), crop_pos_y=each(0.5, 1.0)),
    "crop of drawn sizes": lambda x: fn.crop(x, crop_h=each(0.0, 1.0), crop_w=each(1.7, 0.0), rounding="truncate"),
    "crop to what there is": lambda x: fn.crop(x, crop=(20, 30), out_of_bounds_policy="trim_to_shape"),
    "crop to floats": lambda x: fn.crop(x, crop=(1, 2), crop_pos_x=0.0, dtype=types.FLOAT, out_of_bounds_policy="trim_to_shape"),
    "cast": lambda x: fn.cast(x, dtype=types.FLOAT16),
    "crop with borders": lambda x: fn.crop(
        x, crop=(20, 30), crop_pos_x=each(low=0, high=1), out_of_bounds_policy="pad", fill_values=[1, 2, 3]
    ),
    "crop to another type with borders": lambda x: fn.crop(
        x, crop=(20, 30), out_of_bounds_policy="pad", fill_values=7, dtype=types.INT16
    ),
    "slice": lambda x: fn.slice(x, start=each((0, 0), (5, 7)), shape=(3, 1), out_of_bounds_policy="pad", axis_names="WH"),
    "slice of all axes": lambda x: fn.slice(
        x, rel_start=each(0.2, 0.45), rel_end=each((0.7, 0.9), (1.0, 1.0)), axes=(0, 1), out_of_bounds_policy="trim_to_shape"
    ),
    "slice to an end": lambda x: fn.slice(x, end=(1, 1), axes=(-3, -2), dtype=types.FLOAT),
    "slice by shares": lambda x: fn.slice(x, rel_start=0.1, rel_shape=each(low=0.2, high=0.8), axes=(-2,)),
    "slice without an end": lambda x: fn.slice(x, start=each(-3, 1), axes=(-2,), out_of_bounds_policy="pad", fill_values=5),
    "color_twist": lambda x: fn.color_twist(x, hue=each(low=-180, high=180), saturation=each(low=0, high=2), **COLORS),
    "color_twist of constants": lambda x: fn.color_twist(x, hue=20.0, contrast=1.3, brightness=0.7),
    "hsv": lambda x: fn.hsv(x, hue=each(low=-180, high=180), value=each(low=0, high=2), dtype=types.FLOAT),
    "hue": lambda x: fn.hue(x, hue=each(low=-180, high=180)),
    "saturation": lambda x: fn.saturation(x, saturation=each(low=0, high=2)),
    "brightness": lambda x: fn.brightness(x, brightness=each(low=0, high=2), brightness_shift=each(low=-1, high=1)),
    "contrast": lambda x: fn.contrast(x, contrast=each(low=0, high=2), contrast_center=each(low=0, high=255)),
    "brightness_contrast": lambda x: fn.brightness_contrast(x, brightness_shift=0.1, **COLORS),
    "resize to drawn sizes": lambda x: fn.resize(x, resize_x=each(low=1, high=90), resize_y=each(low=1, high=90)),
    "resize by one extent": lambda x: fn.resize(x, resize_x=each(low=1, high=90)),
    "resize by the other": lambda x: fn.resize(x, size=(0, -31.5), mode="stretch", dtype=types.FLOAT),
    "resize to a limit": lambda x: fn.resize(x, size=(50, 60), mode="not_larger", max_size=45),
    "resize to the shorter side": lambda x: fn.resize(x, resize_shorter=each(low=3, high=90), max_size=(80, 200)),
    "resize to the longer side": lambda x: fn.resize(x, resize_longer=35.7, subpixel_scale=False),
    "resize of regions": lambda x: fn.resize(
        x, size=17, roi_start=each((0.1, 0.2), (0.9, 0.3)), roi_end=(0.5, 0.8), roi_relative=True
    ),
    "resize by the filters of the samples": lambda x: fn.resize(x, size=20, interp_type=each(0, 1, 2, 3, 5)),
    "resize by two filters": lambda x: fn.resize(
        x, size=20, min_filter=types.INTERP_CUBIC, mag_filter=each(0, 4), antialias=False
    ),
    "resize_crop_mirror": lambda x: fn.resize_crop_mirror(
        x, resize_shorter=30, crop=(21, 13), crop_pos_x=each(low=0, high=1), mirror=each(0, 1, 2, 3)
    ),
    "random_resized_crop": lambda x: fn.random_resized_crop(x, size=(20, 30)),
    "random_resized_crop of sizes": lambda x: fn.random_resized_crop(x, size=each((9.0, 12.0), (3.0, 5.0)), num_attempts=1),
    "random_resized_crop of rare windows": lambda x: fn.random_resized_crop(x, size=9, random_area=(0.9, 1.0)),
    "crop_mirror_normalize": lambda x: fn.crop_mirror_normalize(
        x, crop=(1, 1), crop_pos_x=each(low=0, high=1), mirror=each(0, 1), mean=[9, 8, 7], std=[2, 3, 4], scale=1.5
    ),
    "crop_mirror_normalize by the samples": lambda x: fn.crop_mirror_normalize(
        x, mean=each((1.0, 2.0, 3.0), (4.0, 5.0, 6.0)), std=each(2.0, 3.0), mirror=1, dtype=types.FLOAT16
    ),
    "crop_mirror_normalize with borders": lambda x: fn.crop_mirror_normalize(
        x, crop=(20, 30), out_of_bounds_policy="pad", mirror=each(0, 1), crop_pos_x=0.2, fill_values=[1, 2, 3], mean=[1, 2, 3]
    ),
    "crop_mirror_normalize with added channels": lambda x: fn.crop_mirror_normalize(
        x, pad_output=True, mirror=each(0, 1), fill_values=9, output_layout="HWC", dtype=types.INT16
    ),
    "crop_mirror_normalize to integers": lambda x: fn.crop_mirror_normalize(
        x, mirror=each(0, 1), std=3, shift=1, dtype=types.INT16, output_layout="HWC"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", DRAWN)
@pytest.mark.parametrize("dtype", [np.uint8, np.float32, np.int32])
def test_drawn_arguments(name, dtype):
    """Arguments that differ from sample to sample, over ragged batches and sequences of different lengths."""
    for layout in ("HWC", "FHWC"):
        assert_same_plan(lambda layout=layout: DRAWN[name](ragged(dtype, layout)))


@pytest.mark.parametrize("layout", ["CHW", "DHWC", "CDHW", "FCHW", "FDHWC"])
@pytest.mark.parametrize(
    "name", ["flip by the coins of the samples", "cast", "crop_mirror_normalize", "crop at drawn places"]
)
def test_planes_and_volumes(name, layout):
    """Channels before the pixels, and slices."""
    assert_same_plan(lambda: DRAWN[name](ragged(layout=layout)))


@pytest.mark.parametrize("layout", ["CHW", "DHWC", "CDHW", "CFHW", "FCDHW"])
def test_resizes_of_planes_and_volumes(layout):
    """Every layout that is resized."""
    assert_same_plan(lambda: fn.resize(ragged(np.float32, layout), size=[9] * (3 if "D" in layout else 2)))


def test_single_channels():
    """Gray images, for which rows are runs of bytes."""
    gray = ragged(channels=1)
    assert_same_plan(lambda: fn.flip(gray, horizontal=each(0, 1), vertical=each(1, 0, 0)))
    assert_same_plan(lambda: fn.crop_mirror_normalize(gray, mirror=each(0, 1), mean=3.0))
    assert_same_plan(lambda: fn.crop_mirror_normalize(ragged(channels=2), mirror=each(0, 1), mean=3.0))
    assert_same_plan(
        lambda: fn.crop_mirror_normalize(ragged(layout="CHW", channels=2), mean=[1.0, 2.0], std=[3.0, 4.0])
    )


UNDESCRIBED = {
    "values for other channels": lambda: fn.crop(
        ragged(), crop=(20, 30), out_of_bounds_policy="pad", fill_values=[1, 2]
    ),
    "values for other channels of a tensor": lambda: fn.crop_mirror_normalize(
        ragged(), crop=(20, 30), out_of_bounds_policy="pad", fill_values=[1, 2]
    ),
    "a slice that ends before it starts": lambda: fn.slice(ragged(), start=(1, 1), end=(0, 1)),
    "axes of the samples": lambda: fn.slice(ragged(), start=0, end=1, axes=each(0, 1)),
    "a window that is refused": lambda: fn.crop(ragged(), crop=(20, 30)),
    "a position that is refused": lambda: fn.crop(ragged(), crop=1, crop_pos_x=each(0.5, 1.5)),
    "a value that is not finite": lambda: fn.brightness(ragged(), brightness=each(1.0, math.nan)),
    "an integer that overflows": lambda: fn.resize_crop_mirror(ragged(), size=9, crop=3, mirror=each(1.0, 1e30)),
    "a filter that there is not": lambda: fn.resize(ragged(), size=9, interp_type=each(1, 77)),
    "numbers of channels that differ": lambda: fn.crop_mirror_normalize(
        TensorListCPU([np.zeros((2, 2, 1), np.uint8), np.zeros((2, 2, 3), np.uint8)], "HWC")
    ),
    "a deviation of 0": lambda: fn.crop_mirror_normalize(ragged(), std=each(1.0, 0.0)),
    "an image without pixels": lambda: fn.resize(TensorListCPU([np.zeros((0, 4, 3), np.uint8)] * 2, "HWC"), size=9),
    "one extent and none": lambda: fn.resize(ragged(), resize_x=each(9.0, 0.0), resize_y=5.0),
    "a number for each frame": lambda: fn.hue(
        ragged(layout="FHWC"), hue=TensorListCPU([np.zeros(i % 3 + 1) for i in range(len(SIZES))], "F")
    ),
    "more axes than kernels move": lambda: fn.slice(
        TensorListCPU([np.zeros((2,) * 7, np.uint8)] * 2), start=0, end=1, axes=(0,)
    ),
    "two outputs": lambda: fn.resize(ragged(), size=9, save_attrs=True),
}


@pytest.mark.parametrize("name", UNDESCRIBED)
def test_what_a_table_does_not_describe(name):
    """Errors and rare cases are left to the plans of the samples, before anything is queued."""
    call = calls_of(UNDESCRIBED[name])[-1]
    with pytest.raises(NoTable):
        planned(call, True)


def test_a_column_is_of_one_type_and_one_number_of_axes():
    """Other views are planned one by one."""
    one = View(4096, (2, 3), np.dtype(np.uint8))
    column = ArrayColumn.of([one, one._replace(address=8192, shape=(5, 4))])
    assert (column.addresses.tolist(), column.shapes.tolist()) == ([4096, 8192], [[2, 3], [5, 4]])
    for other in (one._replace(dtype=np.dtype(np.int8)), one._replace(shape=(6,)), one._replace(shape=(1, 2, 3))):
        with pytest.raises(NoTable):
            ArrayColumn.of([one, other])


def test_random_windows():
    """The windows of a batch are those of its samples, the largest centred ones included."""
    rng = np.random.default_rng(2)
    heights, widths = rng.integers(1, 700, (2, 300))
    heights[:4], widths[:4] = (1, 1, 700, 20), (1, 700, 1, 700)
    keys = rng.integers(0, 2**63, 300).astype(np.uint64)
    for area, ratio, attempts in (
        ((0.08, 1.0), (3 / 4, 4 / 3), 10),
        ((0.9, 1.0), (0.99, 1.01), 2),
        ((0.1, 0.2), (1, 1), 1),
    ):
        extents = np.stack([heights, widths], axis=1)
        found = np.hstack(windows.random_windows(keys, extents, area, ratio, attempts))
        for row, key, height, width in zip(found.tolist(), keys.tolist(), heights.tolist(), widths.tolist()):
            assert tuple(row) == windows.random_window(seeds.Key(key), height, width, area, ratio, attempts)


def test_numbers_of_columns_are_those_of_keys():
    """Units and integers from the bits of a batch."""
    keys = np.random.default_rng(1).integers(0, 2**63, 50).astype(np.uint64) * np.uint64(2) + np.uint64(1)
    bits = seeds.bits(keys, 3)
    below = np.array([1, 2, 3, 1000, 2**31, 2**32 - 1] * 9)[:50]
    for index in range(3):
        units, integers = seeds.units_of(bits[:, index]), seeds.integers_of(bits[:, index], below)
        for key, most, unit, integer in zip(keys.tolist(), below.tolist(), units.tolist(), integers.tolist()):
            assert seeds.Key(key).unit(index) == unit
            assert seeds.Key(key).integer(index, 0, most) == integer


def test_dividers_of_columns():
    """Each is the divider of its extent: of small ones, which are kept, and of large ones."""
    few = np.array([3, 1, 224, 8191])
    assert dividers(few).tolist() == [(extent, *divider(extent)) for extent in few.tolist()]
    extents = np.array([1, 2, 3, 4, 5, 7, 8, 9, 224, 675, 1000, 65535, 65536, (1 << 28) - 1, (1 << 31) - 1])
    assert dividers(extents).tolist() == [(extent, *divider(extent)) for extent in extents.tolist()]


@pytest.mark.parametrize("sizes", [[], [0, 0], [300, 300, 300], [1, 256, 257, 0, 1000]])
def test_offsets_of_columns(sizes):
    """They are those of a list."""
    starts, total = offsets_column(np.array(sizes, np.int64))
    assert (starts.tolist(), total) == offsets(sizes)


def test_keys_of_one_epoch_are_those_of_an_array_of_epochs():
    """The part of the keys that all operators share is computed once, whatever the form of the epoch."""
    positions = np.array([0, 5, 1 << 40])
    expected = seeds.sample_keys(7, positions, np.array([3, 3, 3]))
    assert seeds.sample_keys(7, positions, 3).tolist() == expected.tolist()
    assert seeds.keys_at(7, *seeds.place_of(positions, 3)).tolist() == expected.tolist()


def test_arguments_of_columns():
    """They are converted as those of single samples."""
    op = registry["crop_mirror_normalize"]
    for name, values in (
        ("mirror", np.array([0, 2, 1])),
        ("crop_pos_x", np.array([[0.25], [0.5]], np.float32)),
        ("mean", np.array([[1.5, 2.5], [3.5, 4.5]], np.float32)),
        ("mean", np.array([1, 2])),
    ):
        found = argument_column(op.arguments[name], values).tolist()
        expected = [declare.from_sample(op.arguments[name].type, value) for value in values]
        assert found == [list(x) if isinstance(x, tuple) else x for x in expected]


@pytest.mark.parametrize("name", ["crop_pos_x", "mean", "mirror"])
def test_numbers_that_no_column_has(name):
    """NaN, infinite numbers and those that no integer has; the plans of the samples report them."""
    param = registry["crop_mirror_normalize"].arguments[name]
    for wrong in (np.nan, np.inf, -np.inf, 2.0**63, -(2.0**64)):
        with pytest.raises(NoTable):
            argument_column(param, np.array([[0.5], [wrong]]))
    assert argument_column(param, np.array([[6e4], [-6e4]], np.float16)).shape[0] == 2  # their squares are float64


def test_extents_by_letter():
    """Of a column of Specs."""
    assert SpecColumn(np.array([[2, 3], [4, 5]]), np.dtype(np.uint8), "HW").extents("W").tolist() == [3, 5]
