"""Values, fills, axes and classes of errors that calls have under DALI 2.4.0; each was read off there."""

import io

import numpy as np
import pytest

from pipeflow import OperatorConcurrency, StreamPolicy, fn, pipeline_def, types
from pipeflow.tensors import TensorCPU, TensorListCPU

IMAGE = np.arange(2 * 6 * 3, dtype=np.uint8).reshape(2, 6, 3)


def column(function, extent, dtype=np.uint8):
    """What a function makes of one column of pixels that count upwards."""
    return np.asarray(function(np.arange(extent, dtype=dtype).reshape(extent, 1, 1))).ravel().tolist()


def run(function, *samples, layout=None):
    """The samples that a function of nodes gives, and their layout."""

    @pipeline_def(batch_size=len(samples), num_threads=1, device_id=None)
    def definition():
        return function(fn.external_source(lambda: [np.asarray(x) for x in samples], layout=layout))

    [out] = definition().run()
    return [np.array(out.at(i)) for i in range(len(samples))], out.layout()


@pytest.mark.parametrize(
    ("function", "kind"),
    [
        (lambda: fn.slice(IMAGE, axes=[5], start=[0], end=[1]), IndexError),
        (lambda: fn.transpose(IMAGE, perm=[0, 0, 1]), ValueError),
        (lambda: fn.resize(IMAGE, size="large"), TypeError),
        (lambda: fn.random.coin_flip(probability="text"), TypeError),
        (lambda: fn.resize(np.zeros((2, 2, 2, 2, 2, 2)), size=3), ValueError),
    ],
)
def test_what_an_operator_refuses_is_a_runtime_error_too(function, kind):
    """DALI raises RuntimeError for most of it; the class that says more is kept beside it."""
    with pytest.raises(kind) as caught:
        function()
    assert isinstance(caught.value, RuntimeError)


def test_errors_of_functions_keep_their_class():
    """Only what operators raise themselves is widened."""

    def function(_x):
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine") as caught:
        run(lambda x: fn.python_function(x, function=function), IMAGE)
    assert not isinstance(caught.value, RuntimeError)


def test_whole_numbers_may_be_written_as_floats():
    """2.0 is an integer, 2.5 is not."""
    assert fn.random.uniform(shape=[2.0, 3.0]).shape == (2, 3)
    with pytest.raises(TypeError, match="must be an integer"):
        fn.gaussian_blur(IMAGE, window_size=2.5)


def test_crops_cut_parts_of_pixels_off_and_name_the_last_axes():
    """(1.9, 2.2) is one row and two columns; of three values for an image the first is for its depth."""
    assert fn.crop(IMAGE, crop=(1.9, 2.2)).shape == (1, 2, 3)
    assert fn.crop(IMAGE, crop=(7, 1, 2)).shape == (1, 2, 3)
    assert fn.crop(IMAGE, crop_h=1.9).shape == (1, 6, 3)


def test_fills_are_cut_to_whole_numbers_and_limited():
    """2.9 is 2 and 300 is 255 in UINT8; a fill goes with the type of the result."""
    assert column(lambda x: fn.pad(x, axes=[0], shape=[3], fill_value=2.9), 2) == [0, 1, 2]
    assert column(lambda x: fn.pad(x, axes=[0], shape=[3], fill_value=300), 2) == [0, 1, 255]
    assert column(lambda x: fn.erase(x, anchor=[0], shape=[1], axes=[0], fill_value=7.9), 2) == [7, 1]
    wider = fn.crop(IMAGE, crop=(3, 6), out_of_bounds_policy="pad", fill_values=1.5, dtype=types.FLOAT, crop_pos_y=0.0)
    assert wider[2].tolist() == [[1.5] * 3] * 6
    assert fn.one_hot(1, num_classes=3, on_value=2.9, off_value=-0.9, dtype=types.INT32).tolist() == [0, 2, 0]


def test_axes_of_slices_are_given_once():
    """By number or by letter; by default width and height; an axis that does not exist is an IndexError."""
    np.testing.assert_array_equal(fn.slice(IMAGE, start=(1, 0), shape=(2, 1)), IMAGE[0:1, 1:3])
    np.testing.assert_array_equal(fn.slice(IMAGE, axes=(0,), start=(1,), shape=(1,)), IMAGE[1:])
    [sliced], _ = run(lambda x: fn.slice(x, axis_names="H", start=(1,), shape=(1,)), IMAGE, layout="HWC")
    np.testing.assert_array_equal(sliced, IMAGE[1:])
    with pytest.raises(ValueError, match="axes and axis_names exclude each other"):
        fn.slice(IMAGE, axes=[0], axis_names="H", start=(1,), shape=(1,))
    with pytest.raises(IndexError, match="axis 3 is out of range"):
        fn.reductions.sum(IMAGE, axes=[3])


def test_rectangles_span_all_axes_but_the_channels():
    """Without axes, erase takes values for every axis of the layout, D too, in its order."""
    volume = np.ones((2, 2, 2, 1), np.uint8)
    [erased], _ = run(lambda x: fn.erase(x, anchor=(1, 0, 0), shape=(1, 1, 2)), volume, layout="DHWC")
    assert erased[..., 0].tolist() == [[[1, 1], [1, 1]], [[0, 0], [1, 1]]]


def test_an_extent_of_0_is_padded_to_the_largest():
    """As one below 0."""
    padded, _ = run(lambda x: fn.pad(x, shape=[0], axes=[0], fill_value=9), np.uint8([1]), np.uint8([1, 2]))
    assert [x.tolist() for x in padded] == [[1, 9], [1, 2]]


def test_padded_data_keeps_its_layout():
    """Also where the shape differs from sample to sample."""
    _, layout = run(lambda x: fn.pad(x, axes=[0], shape=x.shape()[:1] + 1), np.zeros((1, 2, 3), np.uint8), layout="HWC")
    assert layout == "HWC"


def test_a_shape_is_said_once():
    """shape, rel_shape and the second input exclude each other."""
    with pytest.raises(ValueError, match="shape and rel_shape exclude each other"):
        fn.reshape(IMAGE, shape=[36], rel_shape=[1.0])
    with pytest.raises(ValueError, match="the second input and shape exclude each other"):
        fn.reshape(IMAGE, np.int32([36]), shape=[36])


def test_bytes_are_read_as_another_type():
    """The layout stays where the number of axes does; with a shape only the number of all bytes counts."""
    [out], layout = run(
        lambda x: fn.reinterpret(x, dtype=types.INT32), np.arange(8, dtype=np.uint8).reshape(1, 2, 4), layout="HWC"
    )
    assert (out.ravel().tolist(), layout) == ([0x03020100, 0x07060504], "HWC")
    assert fn.reinterpret(IMAGE, dtype=types.UINT32, shape=[9]).shape == (9,)
    with pytest.raises(ValueError, match="the data has 36 bytes, which is not a multiple of the 8 bytes"):
        fn.reinterpret(IMAGE, dtype=types.UINT64, shape=[-1])
    with pytest.raises(ValueError, match="the innermost dimension has 3 bytes"):
        fn.reinterpret(IMAGE, dtype=types.UINT32)


def test_given_statistics_say_the_axes():
    """Without axes, fn.normalize reduces those along which a given mean or deviation has one value."""
    x = np.float32([[11, 21, 31], [12, 22, 35]])
    np.testing.assert_array_equal(
        fn.normalize(x, mean=np.float32([[1, 2, 3]]), stddev=2), [[5, 9.5, 14], [5.5, 10, 16]]
    )
    # The deviation of each row from its given mean: row 0 is 10, 20, 30 away from 1, sqrt(1400 / 3) on average.
    rows = fn.normalize(x, mean=np.float32([[1], [2]]))
    np.testing.assert_allclose(rows[0], np.array([10, 20, 30]) / np.sqrt(1400 / 3), rtol=1e-6)
    np.testing.assert_array_equal(fn.normalize(np.float32([3, 5]), mean=1.0, stddev=-2.0), [-1, -2])


def test_nearest_pixels_at_the_edge_between_two():
    """Places are summed up in float32: of 30 pixels to 13, place 6 is pixel 15, and of 20 to 34, place 25 is 14."""
    down = column(lambda x: fn.resize(x, size=(13, 1), interp_type=types.INTERP_NN), 30)
    assert down == [1, 3, 5, 8, 10, 12, 15, 17, 19, 21, 24, 26, 28]
    up = column(lambda x: fn.resize(x, size=(34, 1), interp_type=types.INTERP_NN), 20)
    assert up[20:30] == [12, 12, 13, 13, 14, 14, 15, 16, 16, 17]


def test_the_gaussian_ends_with_the_pixel_at_its_edge():
    """15 pixels to 13: pixel 7 is exactly one radius away from outputs 5 and 7, and counts with exp(-4)."""
    impulse = np.zeros((15, 1, 1), np.float32)
    impulse[7] = 1
    small = fn.resize(impulse, size=(13, 1), interp_type=types.INTERP_GAUSSIAN).ravel()
    np.testing.assert_allclose(small[5:8], [0.0171847, 0.909488, 0.0171847], atol=5e-4)


def test_decoded_arrays_are_limited_to_their_type():
    """fn.decoders.numpy converts as fn.cast does."""
    file = io.BytesIO()
    np.save(file, np.array([-3, 300]))
    data = np.frombuffer(file.getvalue(), np.uint8)
    assert fn.decoders.numpy(data, dtype=types.UINT8).tolist() == [0, 255]


def test_boxes_are_pasted_where_dali_pastes_them():
    """A place beyond 1 counts as 1, one below 0 leaves the canvas, and a canvas may be smaller than the image."""
    box = np.float32([[0.1, 0.2, 0.5, 0.6]])
    # (b + the smaller of place * (ratio - 1) and ratio - 1) / ratio
    for ratio, place, left in (
        (2.0, 0.5, 0.3),
        (2.0, 1.5, 0.55),
        (2.0, -1.5, -0.7),
        (0.5, 0.0, -0.8),
        (0.5, 2.7, -2.5),
        (0.8, 0.5, -0.125),
    ):
        moved = fn.bbox_paste(box, ratio=ratio, ltrb=True, paste_x=place, paste_y=place)
        np.testing.assert_allclose(moved[0, :2], [left, left + 0.1 / ratio], atol=1e-6)


@pytest.mark.parametrize(
    ("angle", "extents"), [(45, (8, 7)), (-45, (8, 7)), (135, (7, 8)), (225, (7, 8)), (315, (8, 7))]
)
def test_the_canvas_of_a_turn_by_half_a_right_angle(angle, extents):
    """Both axes lie as near to either side; which parity they take is decided by the angle in float32."""
    assert fn.rotate(np.zeros((3, 6, 1), np.uint8), angle=angle).shape == (*extents, 1)


def test_an_index_that_cannot_be_is_dalis_error():
    """A step of 0 is a ValueError and a RuntimeError."""
    for kind in (ValueError, RuntimeError):
        with pytest.raises(kind, match="the step of a slice must not be 0"):
            run(lambda x: x[::0], IMAGE)


@pytest.mark.parametrize("indices", [[0], [1, 0, 1], 0])
def test_a_permutation_names_each_sample_of_the_batch(indices):
    """One index for each output sample, as many as the batch has."""
    samples = [np.array(5), np.array(6)]
    with pytest.raises(RuntimeError, match="does not match the current batch size, which is 2"):
        pipeline_def(lambda: fn.permute_batch(fn.external_source([samples]), indices=indices), batch_size=2)().run()


def test_the_step_of_a_slice_may_be_data():
    """Each sample has its own."""

    @pipeline_def(batch_size=2, num_threads=1)
    def define():
        data, step = fn.external_source([[np.arange(5)] * 2]), fn.external_source([[np.int32(2), np.int32(-3)]])
        return data[::step]

    assert [sample.tolist() for sample in define().run()[0].samples()] == [[0, 2, 4], [4, 1]]


def test_limits_that_are_not_positive_are_none():
    """max_size of 0 or less leaves an extent free."""
    assert fn.resize(IMAGE, size=(8, 9), max_size=0).shape == (8, 9, 3)
    assert fn.resize(IMAGE, size=(8, 9), max_size=(-1, 4)).shape == (8, 4, 3)
    assert fn.resize(IMAGE, size=(8, 9), mode="not_smaller", max_size=(5, 0)).shape == (5, 15, 3)
    assert fn.tensor_resize(IMAGE, sizes=(8, 9), axes=(0, 1), max_size=0).shape == (8, 9, 3)


@pytest.mark.parametrize("warp", [lambda x, **k: fn.rotate(x, angle=30.0, **k), fn.warp_affine])
def test_extents_of_warps(warp):
    """Those of a sample are cut to whole pixels and may be 0; a constant is rounded and positive."""
    options = {} if warp is not fn.warp_affine else {"matrix": (1.0, 0.0, 0.0, 0.0, 1.0, 0.0)}
    given = [np.float32([5.7, 4]), np.float32([0.4, 3])]

    def definition():
        return warp(fn.external_source([[IMAGE] * 2], layout="HWC"), size=fn.external_source([given]), **options)

    [out] = pipeline_def(definition, batch_size=2, num_threads=1)().run()
    assert out.shape() == [(5, 4, 3), (0, 3, 3)]
    assert warp(IMAGE, size=(5.7, 4), **options).shape == (6, 4, 3)
    for size in ((0, 3), (-2, 3)):
        with pytest.raises(RuntimeError, match="Output size must be positive"):
            warp(IMAGE, size=size, **options)


def test_what_is_outside_of_a_warp_is_a_pixel_of_its_image():
    """The fill is rounded and limited as the image's type is, whatever type the result has."""
    moved = {"matrix": (1.0, 0.0, 50.0, 0.0, 1.0, 0.0), "dtype": types.FLOAT}
    for fill, expected in ((3.5, 4.0), (-3, 0.0), (300, 255.0)):
        assert (fn.warp_affine(IMAGE, fill_value=fill, **moved) == expected).all()
    assert (fn.warp_affine(IMAGE.astype(np.float32), fill_value=3.5, **moved) == 3.5).all()


def test_frames_that_turn_by_different_angles_share_the_largest_canvas():
    """Each frame is in the middle of it, as one that is turned to this size."""
    video, angles = np.stack([IMAGE, IMAGE + 1]), np.float32([0, 90])

    def definition():
        frames = fn.external_source([[video]], layout="FHWC")
        return fn.rotate(frames, angle=fn.per_frame(fn.external_source([[angles]])), fill_value=0)

    [out] = pipeline_def(definition, batch_size=1, num_threads=1)().run()
    assert out.shape() == [(2, 6, 6, 3)]
    for frame, angle in enumerate(angles):
        expected = fn.rotate(video[frame], angle=float(angle), size=(6, 6), fill_value=0)
        np.testing.assert_array_equal(out.at(0)[frame], expected)


def test_the_canvas_of_frames_contains_each_by_itself():
    """Frames of 8 x 5 by 0, 0 and 80 degrees need 8 x 5, 8 x 5 and 7 x 9. The last one alone has 7 x 10: odd and even like
    5 and 8. Most frames alone are even along the first axis and odd along the second one, so all have 8 x 9.
    """
    angles = np.float32([0, 0, 80])

    def definition():
        frames = fn.external_source([[np.zeros((3, 8, 5, 1), np.uint8)]], layout="FHWC")
        return fn.rotate(frames, angle=fn.per_frame(fn.external_source([[angles]])))

    [out] = pipeline_def(definition, batch_size=1, num_threads=1)().run()
    alone = [fn.rotate(np.zeros((8, 5, 1), np.uint8), angle=float(angle)).shape[:2] for angle in angles]
    assert (out.shape(), alone) == ([(3, 8, 9, 1)], [(8, 5), (8, 5), (7, 10)])


@pytest.mark.parametrize("fed", [False, True])
def test_places_are_in_single_precision(fed):
    """0.29 of 100 is 28.999999999999996, which ends before element 28, and 29 in float32. 0.35 in float32 is a little less; of 50
    elements it is 17.499999701976776, and 17.5 in float32, which is rounded to 18. Two shares are added in double precision: 0.35
    and 0.05 of 50 elements are 19.9999998. Numbers are constants, or belong to the samples.
    """
    line = np.arange(100, dtype=np.uint8)[:, None, None]

    def number(*values):
        return fn.external_source(lambda: [np.float32(values)] * 2) if fed else list(values)

    def define():
        whole = fn.external_source(lambda: [line] * 2, layout="HWC")
        half = fn.external_source(lambda: [line[:50]] * 2, layout="HWC")
        return (
            fn.erase(whole, anchor=number(0.0), shape=number(0.29), axes=0, normalized=True, fill_value=255),
            fn.erase(whole, anchor=number(17.3), shape=number(1.7), axes=0, fill_value=255),
            fn.slice(half, rel_start=number(0.35), rel_shape=number(0.05), axes=[0]),
            fn.slice(half, rel_start=number(0.35), axes=[0]),
        )

    batches = pipeline_def(define, batch_size=2, num_threads=1, device_id=None)().run()
    for sample in range(2):
        erased, moved, part, rest = [batch.at(sample).ravel().tolist() for batch in batches]
        assert [erased.count(255), moved.index(255), moved.count(255)] == [29, 17, 2]
        assert (part, rest[0]) == ([18, 19], 18)


def test_dimensions_of_a_scale():
    """ndim counts where it is positive and one number is for all dimensions."""
    for arguments, ndim in (
        ({"scale": [2.0], "ndim": 0}, 1),
        ({"scale": [2.0], "ndim": 3}, 3),
        ({"scale": [2.0, 3.0], "ndim": 3}, 2),
    ):
        assert fn.transforms.scale(**arguments).shape == (ndim, ndim + 1)


@pytest.mark.parametrize(
    ("value", "dtype", "expected"),
    [
        (-1.5, np.uint8, 255),
        (300.5, np.uint8, 44),
        (255.9, np.int8, -1),
        (-3e9, np.uint16, 0),
        (-3e9, np.uint32, 1294967296),
    ],
)
def test_values_of_one_hot_wrap_around(value, dtype, expected):
    """In integer types, after the part behind the point is cut off."""
    assert fn.one_hot(np.int32(1), num_classes=2, off_value=value, dtype=dtype).tolist() == [expected, 1]


def test_true_and_false_are_integers():
    """mirror=True is 1."""
    np.testing.assert_array_equal(
        fn.resize_crop_mirror(IMAGE, size=(2, 6), crop=(2, 4), mirror=True),
        fn.resize_crop_mirror(IMAGE, size=(2, 6), crop=(2, 4), mirror=1),
    )


def test_a_seed_without_randomness_is_warned_of():
    """Every operator takes it."""
    with pytest.warns(DeprecationWarning, match='"seed" should not be used with operators'):
        assert fn.crop(IMAGE, crop=(1, 1), seed=3).shape == (1, 1, 3)
    assert fn.crop(IMAGE, crop=(1, 1), seed=None).shape == (1, 1, 3)


def test_constants_of_one_number():
    """A shape of one number alone leaves it a number; enums are written as in DALI."""
    assert types.Constant(2, shape=[1]).value == 2
    assert (str(types.RGB), f"{types.INTERP_NN}") == ("DALIImageType.RGB", "DALIInterpType.INTERP_NN")


def test_readers_refuse_with_a_runtime_error(tmp_path):
    """DALI's class beside the one that says more."""

    def reading(**arguments):
        return pipeline_def(lambda: fn.readers.file(**arguments)[1], batch_size=1, num_threads=1)().build()

    with pytest.raises(RuntimeError, match="2 labels for 1 file") as caught:
        reading(files=["a"], labels=[1, 2])
    assert isinstance(caught.value, ValueError)
    with pytest.raises(RuntimeError, match="No such file") as caught:
        reading(file_root=str(tmp_path / "absent"))
    assert isinstance(caught.value, FileNotFoundError)


# ----------------------------------------------------------------------------------------------------
# Frames and layouts


def each_frame(*values):
    """Values for each frame of two samples."""
    return fn.per_frame(fn.external_source(lambda: [np.asarray(value, np.float32) for value in values]))


def two(definition):
    """The outputs of a definition for two samples: (samples, layout)."""
    outputs = pipeline_def(definition, batch_size=2, num_threads=1, device_id=None)().run()
    return [([np.array(out.at(i)) for i in range(2)], out.layout()) for out in outputs]


def test_transforms_make_a_matrix_for_each_frame():
    """Arguments of fn.per_frame and matrices of frames give matrices of frames; one for all serves every frame."""

    def definition():
        moved = fn.transforms.translation(offset=each_frame([[1, 2], [3, 4]], [[5, 6]]))
        scaled = fn.transforms.scale(moved, scale=[2.0, 10.0])
        return moved, scaled, fn.transforms.combine(moved, np.float32([[0, 1, 0], [1, 0, 0]]))

    (moved, layout), (scaled, _), (swapped, other) = two(definition)
    assert (layout, other) == ("F**", "F**")
    assert moved[0].tolist() == [[[1, 0, 1], [0, 1, 2]], [[1, 0, 3], [0, 1, 4]]]
    assert moved[1].tolist() == [[[1, 0, 5], [0, 1, 6]]]
    assert scaled[0].tolist() == [[[2, 0, 2], [0, 10, 20]], [[2, 0, 6], [0, 10, 40]]]
    assert swapped[1].tolist() == [[[0, 1, 6], [1, 0, 5]]]


@pytest.mark.parametrize(("layout", "result"), [("", ""), ("NC", "FNC")])
def test_points_are_transformed_once_for_each_frame(layout, result):
    """Points of one frame are repeated for all frames of the argument; sequences of points take them in turn."""
    points = [np.float32([[0, 0], [1, 1]]), np.float32([[2, 3]])]

    def definition():
        data = fn.external_source(lambda: points, layout=layout)
        sequence = fn.external_source(lambda: [np.float32([[[0, 0]], [[1, 1]]]), np.float32([[[2, 2]]])], layout="FNC")
        offset = each_frame([[1, 2], [3, 4]], [[5, 6]])
        return fn.coord_transform(data, T=offset), fn.coord_transform(sequence, T=offset)

    (repeated, named), (turns, kept) = two(definition)
    assert (named, kept) == (result, "FNC")
    assert repeated[0].tolist() == [[[1, 2], [2, 3]], [[3, 4], [4, 5]]]
    assert repeated[1].tolist() == [[[7, 9]]]
    assert [x.tolist() for x in turns] == [[[[1, 2]], [[4, 5]]], [[[7, 8]]]]


def test_values_for_frames_in_another_number_than_the_frames_are_refused():
    """One value serves all frames."""

    def definition(values):
        return fn.brightness(
            fn.external_source(lambda: [frames, frames], layout="FHWC"), brightness=each_frame(*values)
        )

    frames = np.full((3, 1, 1, 1), 10, np.uint8)
    assert two(lambda: definition(([2.0], [3.0])))[0][0][1].ravel().tolist() == [30, 30, 30]
    with pytest.raises(ValueError, match="'brightness' has 2 values for a sequence of 3 frames"):
        two(lambda: definition(([2.0, 1.0], [3.0])))


def test_frames_that_turn_differently_share_a_canvas_that_is_odd_or_even_as_most_are():
    """4 x 5 turned by 90, 0 and 90 degrees has widths 4, 5, 4: 6 is the first even one that contains them."""
    frames = np.zeros((3, 4, 5, 1), np.uint8)

    def definition():
        angle = each_frame([90, 0, 90], [90, 180, 0])
        return fn.rotate(fn.external_source(lambda: [frames, frames], layout="FHWC"), angle=angle)

    assert [x.shape for x in two(definition)[0][0]] == [(3, 5, 6, 1), (3, 6, 5, 1)]


@pytest.mark.parametrize("name", ["gaussian_blur", "laplacian"])
def test_data_without_a_layout_is_filtered_along_all_axes(name):
    """A volume in a pipeline; an array in an eager call is an image, and its channels are separate."""
    data = np.random.default_rng(1).integers(0, 255, (6, 7, 3)).astype(np.float32)
    options = {"sigma": 1.0} if name == "gaussian_blur" else {}
    function = getattr(fn, name)

    def blurred(layout):
        [out], kept = run(lambda x: function(x, **options), data, layout=layout)
        return out, kept

    alone, image, volume = blurred(""), blurred("HWC"), blurred("DHW")
    assert (alone[1], image[1]) == ("", "HWC")
    assert np.array_equal(alone[0], volume[0])
    assert not np.allclose(alone[0], image[0])
    assert np.array_equal(function(data, **options), image[0])
    assert np.array_equal(function([data], **options).at(0), image[0])


def test_shapes_and_layouts_of_small_changes():
    """No new axes keep the layout; -1 may follow the shares of all axes; shares are those of the input's extents."""
    image = np.arange(24, dtype=np.uint8).reshape(2, 4, 3)
    assert run(lambda x: fn.expand_dims(x, axes=[]), image, layout="HWC")[1] == "HWC"
    assert fn.reshape(image, rel_shape=[1, 1, 1, -1]).shape == (2, 4, 3, 1)
    assert fn.reinterpret(image, dtype=types.INT16, rel_shape=[1, -1]).shape == (2, 6)
    assert fn.reinterpret(image, dtype=types.INT16, rel_shape=[1, 0.5, 1]).shape == (2, 2, 3)
    assert fn.reinterpret(image, dtype=types.INT16, src_dims=[2, 0, 1]).shape == (3, 2, 2)
    assert run(lambda x: fn.random.choice(x), image, layout="HWC")[1] == "WC"
    padded, _ = run(lambda x: fn.pad(x, axes=[]), np.zeros((1, 3)), np.zeros((2, 1)))
    assert [x.shape for x in padded] == [(2, 3), (2, 3)]


def test_constants_that_are_none():
    """They are refused as in DALI, and so are lists of different lengths."""
    with pytest.raises(TypeError, match="got None"):
        types.Constant(None)
    with pytest.raises(TypeError, match="lists of a constant must have equal lengths"):
        types.Constant([[1, 2], [3]])


def test_an_array_of_one_number_is_a_number():
    """As brightness=np.array([2.0])."""
    assert fn.brightness(IMAGE, brightness=np.array([2.0]))[0, 1, 0] == 6
    with pytest.raises(TypeError, match="brightness"):
        fn.brightness(IMAGE, brightness=np.array([2.0, 3.0]))


def test_what_a_pipeline_refuses():
    """The classes of DALI: no outputs, negative numbers of axes, no type, checkpoints that are none."""
    with pytest.raises(NotImplementedError, match="returned nothing"):
        pipeline_def(lambda: (), batch_size=1)().build()
    settings = {"batch_size": 1, "num_threads": 1}
    with pytest.raises(ValueError, match="output_ndim must not be negative, got -1"):
        pipeline_def(lambda: types.Constant(1), output_ndim=[-1], **settings)()
    with pytest.raises(ValueError, match="output_dtype must be the type of data"):
        pipeline_def(lambda: types.Constant(1), output_dtype=types.NO_TYPE, **settings)()
    for text, kind in ((b"text", RuntimeError), (3, TypeError)):
        with pytest.raises(kind, match="checkpoint"):
            pipeline_def(lambda: types.Constant(1), checkpoint=text, **settings)().build()


def test_enums_of_streams_are_taken():
    """They have no effect."""
    options = {"stream_policy": StreamPolicy.SINGLE, "concurrency": OperatorConcurrency.FULL}
    pipe = pipeline_def(lambda: types.Constant(1), batch_size=1, num_threads=1, **options)()
    assert pipe.stream_policy == StreamPolicy.SINGLE


def test_a_layout_that_changes_is_refused():
    """From no layout to one it may; a declared layout holds for what a source returns."""

    def layouts(*feeds, **options):
        feeds = iter(feeds)
        pipe = pipeline_def(
            lambda: fn.external_source(lambda: next(feeds), **options),
            batch_size=2,
            num_threads=1,
            prefetch_queue_depth=1,
        )()
        return [pipe.run()[0].layout() for _ in range(2)]

    def named(layout):
        return TensorListCPU(np.zeros((2, 2, 3, 1), np.uint8), layout)

    plain = np.zeros((2, 2, 3, 1), np.uint8)
    assert layouts(plain, named("HWC")) == ["", "HWC"]
    assert layouts(named("CHW"), plain, layout="HWC") == ["HWC", "HWC"]
    assert layouts([TensorCPU(plain[0], "HWC")] * 2, named("HWC")) == ["HWC", "HWC"]
    for second in (plain, named("CHW")):
        with pytest.raises(
            RuntimeError, match="Layout of the data fed to the external source has changed: it was 'HWC'"
        ):
            layouts(named("HWC"), second)


def test_a_missing_file_is_a_runtime_error_too():
    """As the readers' error is."""
    with pytest.raises(FileNotFoundError, match="missing") as caught:
        fn.io.file.read(np.frombuffer(b"missing", np.uint8))
    assert isinstance(caught.value, RuntimeError)
