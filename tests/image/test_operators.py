"""What the image operators do with sizes, positions, layouts and wrong arguments; values by hand or by plain NumPy."""

import numpy as np
import pytest

from pipeflow import fn, pipeline_def, types
from pipeflow.operators import padding
from pipeflow.tensors import TensorListCPU

IMAGE = np.random.default_rng(2).integers(0, 256, (11, 14, 3), dtype=np.uint8)
ROW = np.arange(10, dtype=np.uint8).reshape(1, 10, 1)


def refused(match, kind, call):
    """The call fails with this type and words."""
    with pytest.raises(kind, match=match):
        call()


@pytest.mark.parametrize(
    ("arguments", "shape"),
    [
        ({"size": (20, 0)}, (20, 25)),  # 14 * 20 / 11 = 25.45
        ({"resize_shorter": 5.5}, (6, 7)),  # 5.5 -> 6, 14 * 5.5 / 11 = 7
        ({"resize_longer": 7}, (6, 7)),  # 11 / 2 = 5.5 -> 6
        ({"size": (7, 7), "mode": "not_larger"}, (6, 7)),
        ({"size": (7, 7), "mode": "not_smaller"}, (7, 9)),  # 14 * 7 / 11 = 8.9
        ({"size": (22, 0), "mode": "stretch"}, (22, 14)),
        ({"resize_x": 28}, (22, 28)),
        ({"resize_shorter": 22, "max_size": 20}, (16, 20)),  # 11 * 20 / 14 = 15.7
    ],
    ids=str,
)
def test_sizes_of_a_resize_follow_the_ratio(arguments, shape):
    """Missing extents keep the aspect ratio; halves are rounded up."""
    assert fn.resize(IMAGE, **arguments).shape == (*shape, 3)


def test_a_negative_size_and_a_reversed_region_mirror():
    """Both ways to say it give the mirrored result."""
    plain = fn.resize(IMAGE, size=(7, 9), dtype=types.FLOAT)
    assert np.allclose(fn.resize(IMAGE, size=(-7, 9), dtype=types.FLOAT), plain[::-1], atol=1e-2)
    turned = fn.resize(IMAGE, size=(7, 9), roi_start=(11, 0), roi_end=(0, 14), dtype=types.FLOAT)
    assert np.allclose(turned, plain[::-1], atol=1e-2)


def test_a_resize_tells_the_original_size_on_request():
    """save_attrs adds a second output with the extents of the input."""
    image, extents = fn.resize(IMAGE, size=(7, 9), save_attrs=True)
    assert image.shape == (7, 9, 3)
    assert extents.tolist() == [11, 14]


def test_a_sequence_has_its_original_size_once():
    """All frames have the same extents; in calls on arrays and in pipelines."""
    video = np.stack([IMAGE, IMAGE, IMAGE])
    _, extents = fn.resize(video, size=(7, 9), save_attrs=True)
    assert extents.tolist() == [11, 14]

    @pipeline_def(batch_size=2, num_threads=1, device_id=None)
    def define():
        frames = fn.external_source(lambda: [video, video[:1]], layout="FHWC")
        return fn.resize(frames, size=(7, 9), save_attrs=True)

    frames, extents = define().run()
    assert frames.shape() == [(3, 7, 9, 3), (1, 7, 9, 3)]
    assert [sample.tolist() for sample in extents.as_array()] == [[11, 14], [11, 14]]


def test_one_named_extent_is_enough():
    """The other axis keeps the ratio; 0 and None say nothing, and a 0 for every axis keeps the image."""
    for arguments in ({"resize_y": 22}, {"resize_y": 22, "resize_x": 0}, {"resize_y": 22, "resize_x": None}):
        assert fn.resize(IMAGE, **arguments).shape == (22, 28, 3)
    assert fn.resize(IMAGE, resize_y=22, mode="stretch").shape == (22, 14, 3)
    volumes = TensorListCPU([np.ones((2, 4, 3, 2), np.uint8)], "DHWC")
    assert fn.resize(volumes, resize_y=2).shape() == [(1, 2, 2, 2)]
    assert fn.resize_crop_mirror(IMAGE, resize_y=22, crop=(5, 5)).shape == (5, 5, 3)
    assert (fn.resize(IMAGE, resize_x=0, resize_y=0) == IMAGE).all()
    assert (fn.resize(IMAGE, resize_shorter=0) == IMAGE).all()


def test_a_region_without_extent_is_a_line_of_the_image():
    """Half of four rows lies between the second and the third: the mean of the two, in every row of the result."""
    rows = np.array([[0], [10], [30], [90]], np.float32)[..., None]
    half = {"roi_start": (0.5, 0), "roi_end": (0.5, 1), "roi_relative": True}
    assert np.allclose(fn.resize(rows, size=(3, 1), **half).ravel(), 20, atol=1e-2)
    assert fn.resize(rows, size=(3, 1), interp_type=types.INTERP_NN, **half).ravel().tolist() == [10, 30, 30]


def test_a_wrong_resize_is_explained():
    """Missing, contradicting and impossible arguments are named."""
    refused("give size, resize_x", ValueError, lambda: fn.resize(IMAGE))
    refused("exclude each other", ValueError, lambda: fn.resize(IMAGE, size=(3, 3), resize_shorter=4))
    refused("size has 3 values for the 2 axes HW", ValueError, lambda: fn.resize(IMAGE, size=(3, 3, 3)))
    refused("mode must be one of default", ValueError, lambda: fn.resize(IMAGE, size=(3, 3), mode="other"))
    refused(
        "roi_start and roi_end must be given together",
        ValueError,
        lambda: fn.resize(IMAGE, size=(3, 3), roi_start=(0, 0)),
    )
    refused("max_size has 3 values", RuntimeError, lambda: fn.resize(IMAGE, size=(3, 3), max_size=(3, 3, 3)))
    refused("has no pixels", ValueError, lambda: fn.resize(IMAGE[:0], size=(3, 3)))
    refused("does not match any of the allowed layouts", ValueError, lambda: fn.resize(IMAGE[0], size=(3, 3)))
    refused("larger than the resized image", ValueError, lambda: fn.resize_crop_mirror(IMAGE, size=(5, 5), crop=(6, 5)))


def test_random_windows_keep_to_area_and_ratio():
    """A thousand windows lie in the image and have the asked share of it within a pixel's rounding."""
    from pipeflow.operators.windows import random_window
    from pipeflow.seeds import Key

    for number in range(1000):
        top, left, tall, wide = random_window(Key(number * 7919), 300, 400, (0.2, 0.5), (0.75, 4 / 3), 10)
        assert 0 <= top <= 300 - tall
        assert 0 <= left <= 400 - wide
        assert 0.19 < tall * wide / 120000 < 0.51
        assert 0.73 < wide / tall < 1.36
    # No window of this ratio fits: the largest centred one is taken.
    assert random_window(Key(1), 10, 1000, (0.9, 1.0), (1.0, 1.0), 5) == (0, 495, 10, 10)


def test_random_resized_crop_checks_its_ranges():
    """Ranges are two positive numbers in order."""
    refused(
        "random_area must be two positive numbers",
        ValueError,
        lambda: fn.random_resized_crop(IMAGE, size=4, random_area=(1, 0)),
    )
    refused("size must be one or two", ValueError, lambda: fn.random_resized_crop(IMAGE, size=(0, 4)))


@pytest.mark.parametrize(("extent", "crop", "anchor"), [(5, 4, 1), (7, 4, 2), (10, 4, 3)])
def test_a_crop_starts_at_the_rounded_middle(extent, crop, anchor):
    """(5 - 4) / 2 = 0.5 -> 1 and (7 - 4) / 2 = 1.5 -> 2; truncated they are 0 and 1."""
    data = ROW[:, :extent]
    assert fn.crop(data, crop_w=crop, crop_h=1)[0, 0, 0] == anchor
    assert fn.crop(data, crop_w=crop, crop_h=1, rounding="truncate")[0, 0, 0] == (extent - crop) // 2


@pytest.mark.parametrize(("position", "first"), [(0.7, 3), (0.1, 1), (0.3, 2), (0.9, 4)])
def test_a_position_between_two_pixels_counts_in_single_precision(position, first):
    """0.7 of five free pixels is a little less than 3.5 in single precision; a constant and a value of a sample mean the same."""
    windows = (fn.crop(ROW, crop=(1, 5), crop_pos_x=at) for at in (position, TensorListCPU([np.float32(position)])))
    for window in windows:
        assert np.ravel(window)[0] == ROW.ravel()[first]


def test_a_crop_that_leaves_the_image_follows_its_policy():
    """An error with numbers, a padded copy, or what there is."""
    refused(r"from -1 to|Got: -1 to 12", RuntimeError, lambda: fn.crop(ROW, crop=(1, 13)))
    padded = fn.crop(ROW, crop=(1, 12), out_of_bounds_policy="pad", fill_values=[99.0])
    assert padded.ravel().tolist() == [99, *range(10), 99]
    assert fn.crop(ROW, crop=(1, 12), out_of_bounds_policy="trim_to_shape").shape == (1, 10, 1)
    refused(
        "out_of_bounds_policy must be one of",
        ValueError,
        lambda: fn.crop(ROW, crop=(1, 2), out_of_bounds_policy="wrap"),
    )
    refused(
        "fill_values has 2 values",
        ValueError,
        lambda: fn.crop(ROW, crop=(1, 12), out_of_bounds_policy="pad", fill_values=[1.0, 2.0]),
    )
    refused("crop and crop_w exclude each other", ValueError, lambda: fn.crop(ROW, crop=(1, 2), crop_w=2))
    refused("must be between 0 and 1", ValueError, lambda: fn.crop(ROW, crop=(1, 2), crop_pos_x=1.5))


def test_a_crop_is_a_view_and_a_cast_one_a_copy():
    """Nothing is copied for a window that lies inside."""
    from pipeflow.operators.geometry import crop as operator

    window = operator.body(IMAGE, args=operator.known({"crop": (4.0, 5.0)}), layouts=("HWC",))
    assert np.shares_memory(window, IMAGE)


def test_slices_by_elements_and_by_shares():
    """The default order of axes is width, height; integers are elements, floats shares; negative starts are outside."""
    data = np.arange(20, dtype=np.uint8).reshape(4, 5)
    batch = TensorListCPU([data], "HW")
    assert fn.slice(batch, start=(2, 1), shape=(2, 2)).at(0).tolist() == [[7, 8], [12, 13]]
    assert fn.slice(data, start=(1, 2), shape=(2, 2), axes=(0, 1)).tolist() == [[7, 8], [12, 13]]
    assert fn.slice(np.arange(10), rel_start=0.15, rel_end=0.85, axes=0).tolist() == list(range(2, 9))
    assert fn.slice(data, end=(2,), axes=(-1,)).tolist() == data[:, :2].tolist()
    for every in ({"axes": []}, {"axis_names": ""}, {"axes": np.array([], np.int32)}):
        assert fn.slice(data, start=(1, 2), shape=(2, 2), **every).tolist() == [[7, 8], [12, 13]]
    refused("mutually exclusive", ValueError, lambda: fn.slice(data, end=(2,), shape=(2,), axes=(0,)))
    refused("out of bounds", RuntimeError, lambda: fn.slice(data, start=(-1,), shape=(2,), axes=(0,)))
    refused("ends before it starts", ValueError, lambda: fn.slice(data, start=(3,), end=(1,), axes=(0,)))
    refused("axis 2 is out of range", ValueError, lambda: fn.slice(data, start=(0,), axes=(2,)))


def test_slices_without_a_layout_know_the_letters_of_images_and_volumes():
    for shape, letters in [((4, 5), "HW"), ((4, 5, 3), "HWC"), ((2, 4, 5, 3), "DHWC")]:
        data = np.arange(np.prod(shape)).reshape(shape)
        for axis, letter in enumerate(letters):
            taken = fn.slice(data, start=[1], shape=[1], axis_names=letter)
            np.testing.assert_array_equal(taken, np.take(data, [1], axis))
    refused("has no axis 'T'", ValueError, lambda: fn.slice(data, start=[1], shape=[1], axis_names="T"))


@pytest.mark.parametrize("dtype", [np.uint8, np.float32, np.int64])
def test_a_window_beyond_the_data_is_filled_along_every_axis(dtype):
    """Of one to four axes, any of which grows, shrinks or moves: called once, called again, and in a pipeline."""
    rng = np.random.default_rng(9)
    for _ in range(120):
        data = rng.integers(1, 99, rng.integers(1, 4, int(rng.integers(1, 5)))).astype(dtype)
        start, shape = rng.integers(-2, 3, data.ndim), rng.integers(1, 5, data.ndim)
        fill = int(rng.choice([0, 7]))
        expected = np.full(shape, fill, dtype)
        for place in np.ndindex(*shape):
            source = np.add(place, start)
            if (source >= 0).all() and (source < data.shape).all():
                expected[place] = data[tuple(source)]
        options = {"start": start.tolist(), "shape": shape.tolist(), "axes": list(range(data.ndim))}
        options |= {"out_of_bounds_policy": "pad", "fill_values": [float(fill)]}
        for _ in range(3):
            np.testing.assert_array_equal(fn.slice(data, **options), expected)

        @pipeline_def(batch_size=2, num_threads=1, device_id=None)
        def define(data=data, options=options):
            return fn.slice(fn.external_source(lambda: [data, data]), **options)

        if rng.integers(4) == 0:
            np.testing.assert_array_equal(define().run()[0].at(1), expected)


def test_normalising_checks_its_channels():
    """Means and deviations are one number or one a channel; a deviation is not 0."""
    refused("mean has 2 values for 3 channels", ValueError, lambda: fn.crop_mirror_normalize(IMAGE, mean=[1.0, 2.0]))
    refused("std must not be 0", ValueError, lambda: fn.crop_mirror_normalize(IMAGE, std=[0.0]))
    refused("output_layout must be a layout", ValueError, lambda: fn.crop_mirror_normalize(IMAGE, output_layout="XYZ"))
    refused(
        "fill_values has 5 values",
        ValueError,
        lambda: fn.crop_mirror_normalize(IMAGE, pad_output=True, fill_values=[1.0] * 5),
    )


@pytest.mark.parametrize("crop", [{}, {"crop": (40, 400)}])
@pytest.mark.parametrize(
    ("options", "added"),
    [
        ({}, 0),
        ({"fill_values": 4.0}, 0),
        ({"fill_values": [1.0, 2.0, 3.0, 7.0]}, 0),
        ({"fill_values": 4.0, "out_of_bounds_policy": "pad"}, 4),
        ({"fill_values": [1.0, 2.0, 3.0], "out_of_bounds_policy": "pad"}, 0),
        ({"fill_values": [1.0, 2.0, 3.0, 7.0], "out_of_bounds_policy": "pad"}, 7),
    ],
)
def test_an_added_channel_is_filled_as_what_is_outside(crop, options, added):
    """It has zeros if nothing outside of images is filled, or if the fill values are those of the other channels."""
    if crop and "out_of_bounds_policy" not in options:
        crop = {"crop": (5, 6)}
    done = np.asarray(fn.crop_mirror_normalize(IMAGE, pad_output=True, mean=9.0, **crop, **options))
    assert done.shape[0] == 4
    assert (done[3] == added).all()
    plain = {**options, "fill_values": np.atleast_1d(options.get("fill_values", 0.0)).tolist()[:3]}
    assert (done[:3] == np.asarray(fn.crop_mirror_normalize(IMAGE, mean=9.0, **crop, **plain))).all()


def test_quarters_of_a_turn_are_numpys():
    """Any number of them, forwards and backwards, of any type; a node says how many, so shapes differ in a batch."""
    for data in (IMAGE, IMAGE.astype(np.float64), IMAGE[..., 1], np.stack([IMAGE, IMAGE // 2])):
        axes = (1, 2) if data.ndim == 4 else (0, 1)
        for times in (-1, 0, 1, 2, 3, 6):
            layout = {2: "HW", 3: "HWC", 4: "FHWC"}[data.ndim]
            got = np.asarray(fn.rotate90(TensorListCPU([data], layout), times=times).at(0))
            assert (got == np.rot90(data, times, axes)).all()

    @pipeline_def(batch_size=4, num_threads=1, device_id=None)
    def pipe():
        data = fn.external_source(lambda: [IMAGE] * 4, layout="HWC")
        return fn.rotate90(data, times=fn.external_source(lambda: [np.int32(k) for k in range(4)]))

    for times, got in enumerate(pipe().run()[0].samples()):
        assert (np.asarray(got) == np.rot90(IMAGE, times)).all()


def test_pixels_change_places_whatever_the_shape():
    """Larger and smaller than what is copied at once: quarters of a turn and transposition of three bytes a pixel."""
    for shape in ((40, 33, 3), (1, 1, 3), (3, 200, 3), (100, 2, 3)):
        data = np.random.default_rng(5).integers(0, 256, shape, dtype=np.uint8)
        assert (fn.transpose(data, perm=(1, 0, 2)) == data.transpose(1, 0, 2)).all()
        for times in (1, 3):
            assert (fn.rotate90(data, times=times) == np.rot90(data, times)).all()


def test_flips_are_numpys():
    """Horizontal, vertical and both, in both layouts and in volumes."""
    planes = TensorListCPU([IMAGE.transpose(2, 0, 1).copy()], "CHW")
    assert (fn.flip(IMAGE) == IMAGE[:, ::-1]).all()
    assert (fn.flip(IMAGE, vertical=1) == IMAGE[::-1, ::-1]).all()
    assert (fn.flip(IMAGE, horizontal=0, vertical=1) == IMAGE[::-1]).all()
    assert (fn.flip(planes, horizontal=1).at(0) == IMAGE.transpose(2, 0, 1)[:, :, ::-1]).all()
    volume = TensorListCPU([np.stack([IMAGE, IMAGE // 2])], "DHWC")
    assert (fn.flip(volume, horizontal=0, depthwise=1).at(0)[0] == IMAGE // 2).all()


def test_rotations_by_right_angles_are_exact():
    """A quarter turn counter-clockwise is np.rot90 with the canvas turned too; the canvas of 30 degrees keeps the
    parity."""
    assert (fn.rotate(IMAGE, angle=90.0) == np.rot90(IMAGE)).all()
    assert (fn.rotate(IMAGE, angle=180.0) == IMAGE[::-1, ::-1]).all()
    assert fn.rotate(np.zeros((60, 100, 1), np.uint8), angle=30.0).shape == (102, 118, 1)
    refused(
        "rotating a volume needs axis",
        ValueError,
        lambda: fn.rotate(TensorListCPU([np.zeros((3, 3, 3, 1))], "DHWC"), angle=3.0),
    )
    refused(
        "interp_type must be INTERP_NN or",
        ValueError,
        lambda: fn.rotate(IMAGE, angle=3.0, interp_type=types.INTERP_CUBIC),
    )


@pytest.mark.parametrize("shape", [(0, 5, 3), (5, 0, 3), (0, 0, 1)])
def test_an_image_without_pixels_cannot_be_turned(shape):
    """The canvas of an image that has an extent may have pixels, and no pixel has a value for them."""
    refused("the image has no pixels", ValueError, lambda: fn.rotate(np.zeros(shape, np.uint8), angle=30.0))


def test_a_matrix_of_a_warp_maps_the_output_to_the_input():
    """The same motion forwards and backwards; wrong matrices are refused."""
    shift = fn.warp_affine(IMAGE, matrix=(1, 0, 2, 0, 1, 0), fill_value=0)
    assert (shift[:, :-2] == IMAGE[:, 2:]).all()
    back = fn.warp_affine(IMAGE, matrix=(1, 0, -2, 0, 1, 0), inverse_map=False, fill_value=0)
    assert (back == shift).all()
    refused("must have 2 x 3 values", ValueError, lambda: fn.warp_affine(IMAGE, matrix=(1, 0)))
    refused("cannot be inverted", ValueError, lambda: fn.warp_affine(IMAGE, matrix=(0,) * 6, inverse_map=False))
    refused("size has 3 values", ValueError, lambda: fn.warp_affine(IMAGE, matrix=(1, 0, 0, 0, 1, 0), size=(1, 2, 3)))


def test_the_nearest_pixels_of_a_warp_keep_their_type_and_are_rounded_like_casts():
    """Half precision stays half precision; what becomes bytes is rounded and limited."""
    shift = {"matrix": (1, 0, 1, 0, 1, 0), "fill_value": 0, "interp_type": types.INTERP_NN}
    numbers = np.array([[0.0, 1.5, 2.5, 300.0, -7.0]]).reshape(1, 5, 1)
    half = fn.warp_affine(numbers.astype(np.float16), **shift)
    assert half.dtype == np.float16
    assert half.ravel().tolist() == [1.5, 2.5, 300.0, -7.0, 0.0]
    for dtype in (np.float32, np.float64):
        whole = fn.warp_affine(numbers.astype(dtype), dtype=types.UINT8, **shift)
        assert whole.ravel().tolist() == [2, 3, 255, 0, 0]


def test_padding_to_the_largest_sample_of_the_batch():
    """Without a shape all samples get the largest extents; align rounds up; a larger sample stays."""
    batch = fn.pad([np.ones((2, 3)), np.ones((4, 1))], fill_value=7)
    assert batch.at(0).tolist() == [[1, 1, 1]] * 2 + [[7, 7, 7]] * 2
    assert batch.at(1).tolist() == [[1, 7, 7]] * 4
    assert fn.pad(np.ones(5), align=4).shape == (8,)
    assert fn.pad(np.ones((2, 3)), align=4, axis_names="").shape == (4, 4)  # no names: all axes
    assert fn.pad(np.ones(5), shape=(3,)).shape == (5,)
    refused("align must be positive", ValueError, lambda: fn.pad(np.ones(5), align=0))
    refused("shape has 2 values for 1 axes", ValueError, lambda: fn.pad(np.ones(5), shape=(3, 3)))


def ragged(*shapes, dtype=np.float32):
    """Arrays of these shapes that begin at the first one of another array's numbers."""
    return [np.arange(1, 1 + int(np.prod(shape))).reshape(shape).astype(dtype) for shape in shapes]


@pytest.mark.parametrize(
    ("samples", "arguments", "dense"),
    [
        (ragged((3, 5), (2, 7), (4, 1), (0, 6), (4, 0)), {}, True),
        (ragged((3, 5, 3), (7, 2, 3), dtype=np.uint8), {"fill_value": 200, "align": (4, 16), "axes": (0, 1)}, True),
        (ragged((3, 5), (3, 2)), {"axes": (1,)}, True),
        (ragged((3, 5), (3, 2)), {"axis_names": "W"}, True),
        (ragged((2, 5), (2, 7)), {"fill_value": -0.0}, False),
        (ragged((3, 5), (4, 2)), {"axes": (1,)}, False),  # the results have different shapes
        (ragged((3, 5), (2, 7)), {"fill_value": 1.5}, False),  # the fill value is no repeated byte
        (ragged((3, 5, 2), (3, 5, 3)), {}, False),
        (ragged((3,), (5,)), {}, False),
        ([ragged((3, 5))[0].T, ragged((3, 5))[0]], {}, False),
    ],
)
def test_a_padded_batch_is_its_padded_samples(samples, arguments, dense):
    """In a pipeline the samples become one array by one call, if their results have one shape; the bits are the same."""
    layout = "HWC"[: samples[0].ndim]
    largest = tuple(map(max, zip(*[x.shape for x in samples])))
    axes = arguments.get("axes", (1,) if "axis_names" in arguments else range(len(largest)))
    names = {key: value for key, value in arguments.items() if key not in ("axes", "axis_names")}
    shape = [largest[axis] for axis in axes]
    expected = [fn.pad(x, axes=tuple(axes), shape=shape, **names) for x in samples]

    @pipeline_def(batch_size=len(samples), num_threads=1, device_id=None)
    def pipeline():
        return fn.pad(fn.external_source(source=lambda: samples, layout=layout), **arguments)

    pipe = pipeline()
    pipe.build()
    (found,) = pipe.run()
    for number, wanted in enumerate(expected):
        value = np.asarray(found.at(number))
        assert value.shape == wanted.shape
        assert value.tobytes() == wanted.tobytes()
    whole = padding.padded_alike(
        samples,
        arguments.get("fill_value", 0.0),
        (arguments.get("axes"), arguments.get("axis_names"), None, arguments.get("align")),
        layout,
        np.empty,
    )
    assert (whole is not None) is dense


def test_erasing_rectangles():
    """Several rectangles, one value or one a channel, parts outside are cut off."""
    out = fn.erase(
        IMAGE, anchor=(2.0, 3.0, 9.0, 12.0), shape=(2.0, 4.0, 5.0, 5.0), fill_value=[1.0, 2.0, 3.0], axes=(0, 1)
    )
    wanted = IMAGE.copy()
    wanted[2:4, 3:7] = wanted[9:, 12:] = (1, 2, 3)
    assert (out == wanted).all()
    assert (fn.erase(IMAGE) == IMAGE).all()
    refused(
        "fill_value has 2 values for 3 channels",
        ValueError,
        lambda: fn.erase(IMAGE, anchor=(0, 0), shape=(1, 1), fill_value=(1, 2)),
    )
    refused("anchor has 3", ValueError, lambda: fn.erase(IMAGE, anchor=(0, 0, 1), shape=(1, 1)))


@pytest.mark.parametrize("layout", ["", "HWC"])
def test_rectangles_are_along_the_named_axes(layout):
    """``axis_names`` count, else ``axes``, else height and width; with a layout as without one."""

    def erased(**arguments):
        return np.array(fn.erase(TensorListCPU([IMAGE], layout), anchor=(1, 5), shape=(2, 3), **arguments).at(0))

    rows, columns = IMAGE.copy(), IMAGE.copy()
    rows[1:3, 5:8] = columns[5:8, 1:3] = 0
    for arguments in ({}, {"axes": (0, 1)}, {"axes": (-3, 1)}, {"axes": None, "axis_names": None}):
        assert (erased(**arguments) == rows).all(), arguments
    assert (erased(axes=[1, 0]) == columns).all()
    if layout:
        assert (erased(axis_names="WH") == columns).all()
        assert (erased(axis_names="HW", axes=[1, 0]) == rows).all()


def test_rectangles_along_one_axis():
    """The number of values of a rectangle is the number of axes; a fill value for each channel counts its own channel."""
    wanted = IMAGE.copy()
    wanted[2:4] = 0
    assert (fn.erase(IMAGE, anchor=(2,), shape=(2,), axes=[0]) == wanted).all()
    wanted = IMAGE.copy()
    wanted[..., 1:] = (8, 9)
    assert (fn.erase(IMAGE, anchor=(1,), shape=(2,), axes=[2], fill_value=(7, 8, 9)) == wanted).all()
    refused("no H and W: give axes", RuntimeError, lambda: fn.erase(np.ones(5), anchor=(1,), shape=(1,)))


def test_colours_by_hand():
    """Numbers worked out on paper: contrast .5 around 128, brightness, grey, the studio range, a third of the
    circle."""
    values = np.array([[[0, 100, 255]]], np.uint8)
    assert fn.contrast(values, contrast=0.5).ravel().tolist() == [64, 114, 192]  # 63.5 is rounded up
    assert fn.brightness(values, brightness_shift=0.1).ravel().tolist() == [26, 126, 255]  # 25.5 is rounded up
    red = np.array([[[255, 0, 0]]], np.uint8)
    to = {"image_type": types.RGB}
    assert fn.color_space_conversion(red, output_type=types.GRAY, **to).ravel().tolist() == [76]
    assert fn.color_space_conversion(red, output_type=types.YCbCr, **to).ravel().tolist() == [81, 90, 240]
    assert fn.color_space_conversion(red, output_type=types.BGR, **to).ravel().tolist() == [0, 0, 255]
    assert fn.hsv(red, hue=120.0).ravel().tolist() == [0, 187, 0]
    assert np.abs(fn.hue(IMAGE, hue=360.0).astype(int) - IMAGE).max() == 0


def test_colours_refuse_what_has_no_colours():
    """Channel counts and colour spaces are checked."""
    grey = IMAGE[..., :1]
    for name in ("color_twist", "hsv", "hue", "saturation"):
        refused("needs 3 channels, the image has 1", ValueError, lambda name=name: getattr(fn, name)(grey))
    refused("image_type must be RGB", ValueError, lambda: fn.hue(IMAGE, image_type=types.BGR))
    refused(
        "has 1 channel",
        ValueError,
        lambda: fn.color_space_conversion(IMAGE, image_type=types.GRAY, output_type=types.RGB),
    )
    refused(
        "must be RGB, BGR, GRAY or YCbCr",
        ValueError,
        lambda: fn.color_space_conversion(IMAGE, image_type=types.ANY_DATA, output_type=types.RGB),
    )


def test_blur_sizes_follow_from_each_other():
    """[0 0 100 0 0] with a window of three is [0 24 52 24 0]; even windows and nothing at all are refused."""
    row = np.array([0, 0, 100, 0, 0], np.uint8).reshape(1, 5, 1)
    assert fn.gaussian_blur(row, window_size=(1, 3), sigma=(1.0, 0.0)).ravel().tolist() == [0, 24, 52, 24, 0]
    refused("window_size must be odd", ValueError, lambda: fn.gaussian_blur(row, window_size=4))
    refused("sigma or window_size must be positive", ValueError, lambda: fn.gaussian_blur(row))
    refused("sigma has 3 values for 2 spatial axes", ValueError, lambda: fn.gaussian_blur(row, sigma=(1, 2, 3)))


def test_normalize_over_data_and_batch():
    """Mean 0 and deviation 1 over the chosen axes, of a sample or of the batch; a constant gives the shift."""
    result = fn.normalize(IMAGE, axes=(0, 1))
    assert np.allclose(result.mean((0, 1)), 0, atol=1e-5)
    assert np.allclose(result.std((0, 1)), 1, atol=1e-5)
    batch = fn.normalize([IMAGE, IMAGE[:5] // 2], batch=True)
    both = np.concatenate([np.ravel(batch.at(0)), np.ravel(batch.at(1))])
    assert np.allclose([both.mean(), both.std()], [0, 1], atol=1e-5)
    assert (fn.normalize(np.full((2, 2), 5), shift=3.0) == 3).all()


def test_shapes_and_orders():
    """Reshaping, naming, removing and adding axes say what does not fit."""
    assert fn.reshape(np.arange(12), shape=(3, -1)).shape == (3, 4)
    assert fn.reshape(np.zeros((3, 4)), rel_shape=(0.5, -1)).shape == (2, 6)  # 1.5 is rounded up
    assert fn.reinterpret(np.arange(8, dtype=np.uint8), dtype=types.UINT32).tolist() == [50462976, 117835012]
    assert fn.expand_dims(np.zeros((3, 4)), axes=(0, 3)).shape == (1, 3, 4, 1)
    refused("cannot take the shape", ValueError, lambda: fn.reshape(np.arange(12), shape=(5, 2)))
    refused("do not fill the shape", ValueError, lambda: fn.reshape(np.arange(12), shape=(5, -1)))
    refused("use src_dims", RuntimeError, lambda: fn.reshape(np.arange(12), rel_shape=(1, 2)))
    refused(
        "innermost dimension has 7 bytes", ValueError, lambda: fn.reinterpret(np.zeros(7, np.uint8), dtype=types.INT16)
    )
    refused("only axes of extent 1", ValueError, lambda: fn.squeeze(np.zeros((3, 4)), axes=0))
    refused("only axes of extent 1", ValueError, lambda: fn.squeeze(np.zeros((3, 0)), axes=1))
    assert fn.squeeze(np.zeros((3, 0, 0)), axes=1).shape == (3, 0)  # no element before, none after
    assert fn.squeeze(np.zeros((3, 0, 0)), axes=0).shape == (0, 0)
    refused("give either axes or axis_names", ValueError, lambda: fn.squeeze(np.zeros((3, 1))))
    refused("no permutation", ValueError, lambda: fn.transpose(IMAGE, perm=(0, 0, 1)))


def test_joining():
    """cat and stack are NumPy's, of one type, and say which shapes do not fit."""
    for axis in (0, 1, 2, -1):
        assert (fn.cat(IMAGE, IMAGE, IMAGE, axis=axis) == np.concatenate([IMAGE] * 3, axis)).all()
        assert (fn.stack(IMAGE, IMAGE, axis=axis) == np.stack([IMAGE] * 2, axis)).all()
    assert (fn.cat(IMAGE, IMAGE[..., :1], axis=2) == np.concatenate([IMAGE, IMAGE[..., :1]], 2)).all()
    refused("must have equal extents except along axis 0", ValueError, lambda: fn.cat(IMAGE, IMAGE[:, 1:]))
    refused("one type, got uint8 and float32", TypeError, lambda: fn.cat(IMAGE, IMAGE.astype(np.float32)))
    refused("one type, got uint8 and float32", TypeError, lambda: fn.stack(IMAGE, IMAGE.astype(np.float32)))
    refused("one shape", ValueError, lambda: fn.stack(IMAGE, IMAGE[1:]))
    refused("use stack", ValueError, lambda: fn.cat(np.float32(1), np.float32(2)))


def test_frames_and_batches():
    """Orders of frames, single elements and permuted batches check their numbers."""
    clip = np.arange(6).reshape(3, 2)
    assert fn.sequence_rearrange(clip, new_order=(2, 0, 2)).tolist() == [[4, 5], [0, 1], [4, 5]]
    assert [x.tolist() for x in fn.element_extract(clip, element_map=(2, 0))] == [[4, 5], [0, 1]]
    swapped = fn.permute_batch([clip, clip + 1], indices=TensorListCPU([np.int32(1), np.int32(0)]))
    assert swapped.at(0).tolist() == (clip + 1).tolist()
    refused("names frame 3 of a sequence of 3", IndexError, lambda: fn.sequence_rearrange(clip, new_order=(3,)))
    refused(
        "Index `3` from `element_map` is out of bounds", IndexError, lambda: fn.element_extract(clip, element_map=(3,))
    )
    refused("at least 1 dim", ValueError, lambda: fn.sequence_rearrange(np.arange(3), new_order=(0,)))
    refused("does not start with F", ValueError, lambda: fn.per_frame(TensorListCPU([clip], "XY")))


@pytest.mark.parametrize("place", [0, 7, 600, 1233])
def test_the_extreme_of_data_with_nan_is_nan(place):
    """At whatever place it is, and for each result by itself."""
    values = np.linspace(-5, 5, 1234, dtype=np.float32)
    values[place] = np.nan
    table = np.stack([values, np.arange(1234, dtype=np.float32)])
    for name in ("min", "max"):
        expected = getattr(np, name)(table, axis=1)
        reduce = getattr(fn.reductions, name)
        np.testing.assert_array_equal(reduce(values), expected[0])
        np.testing.assert_array_equal(reduce(table, axes=1), expected)
        np.testing.assert_array_equal(reduce(table.T.copy(), axes=0), expected)


@pytest.mark.parametrize("dtype", [np.int32, np.uint32, np.int64, np.uint64])
def test_squares_of_large_integers_fit(dtype):
    """64 bits do not hold them."""
    values = np.full(9, np.iinfo(dtype).max, dtype)
    largest = float(np.iinfo(dtype).max)
    np.testing.assert_allclose(fn.reductions.rms(values), largest, rtol=1e-6)
    np.testing.assert_allclose(fn.reductions.mean_square(values, dtype=types.FLOAT64), largest**2, rtol=1e-12)


def test_reductions_are_numpys():
    """Sums of integers have 64 bits; means are FLOAT; keep_dims and named axes work; empty ones are refused."""
    batch = TensorListCPU([IMAGE], "HWC")
    total = fn.reductions.sum(batch, axis_names="HW").at(0)
    assert total.dtype == np.uint64
    assert (total == IMAGE.sum((0, 1))).all()
    assert np.allclose(fn.reductions.mean(IMAGE, axes=(0, 2), keep_dims=True), IMAGE.mean((0, 2), keepdims=True))
    assert (fn.reductions.max(IMAGE, axes=1) == IMAGE.max(1)).all()
    assert (fn.reductions.min(IMAGE.astype(np.int16) - 90, axes=(0, 1)) == IMAGE.min((0, 1)).astype(int) - 90).all()
    assert np.allclose(fn.reductions.std_dev(IMAGE, fn.reductions.mean(IMAGE)), IMAGE.std())
    assert np.allclose(fn.reductions.rms(IMAGE), np.sqrt((IMAGE.astype(float) ** 2).mean()))
    assert fn.reductions.mean(np.array([1, 2], np.uint8), dtype=types.UINT8) == 1  # cut off, not rounded
    refused("of no elements is not defined", ValueError, lambda: fn.reductions.mean(IMAGE[:0]))
    refused("exclude each other", ValueError, lambda: fn.reductions.sum(IMAGE, axes=0, axis_names="H"))
    refused("has no axis 'X'", ValueError, lambda: fn.reductions.sum(batch, axis_names="X"))
    refused("axis_names='H' need a layout", ValueError, lambda: fn.reductions.sum(np.zeros((2, 3, 4)), axis_names="H"))


def test_matrices():
    """Transforms combine from the first to the last, around a centre, and map points."""
    turn = fn.transforms.rotation(angle=90.0, center=(1.0, 1.0))
    assert np.allclose(fn.coord_transform(np.array([[2.0, 1.0]], np.float32), MT=turn), [[1, 2]], atol=1e-6)
    for number in (3.0, np.float32([3])):
        assert fn.coord_transform(np.array([[2.0, 1.0]], np.float32), MT=number).tolist() == [[6, 3]]
    both = fn.transforms.translation(fn.transforms.scale(scale=(2.0, 3.0)), offset=(5.0, 7.0))
    assert both.tolist() == [[2, 0, 5], [0, 3, 7]]
    assert (
        fn.transforms.combine(
            fn.transforms.scale(scale=(2.0, 3.0)), fn.transforms.translation(offset=(5.0, 7.0))
        ).tolist()
        == both.tolist()
    )
    refused("give either shear or angles", ValueError, lambda: fn.transforms.shear())
    refused("is empty", ValueError, lambda: fn.transforms.crop(from_start=(0.0,), from_end=(0.0,)))
    refused("MT excludes M and T", ValueError, lambda: fn.coord_transform(np.zeros((1, 2)), MT=(1.0,) * 6, T=(1.0,)))
    refused("M has 3 values", ValueError, lambda: fn.coord_transform(np.zeros((1, 2)), M=(1.0, 2.0, 3.0)))


def test_values_by_table_and_class():
    """lookup_table and one_hot place values; keys and numbers are checked."""
    assert fn.lookup_table(
        np.array([0, 1, 5, 200], np.uint8), keys=[0, 1, 5], values=[3, 4.5, 6], default_value=-1
    ).tolist() == [3, 4.5, 6, -1]
    assert fn.lookup_table(np.array([-1, 7], np.int32), keys=[7], values=[2]).tolist() == [0, 2]
    for shape, axis, expected in (
        ((), None, (4,)), ((), 0, (4,)), ((1,), None, (4,)), ((1, 1), None, (4,)), ((1,), -1, (1, 4)), ((1,), 0, (4, 1)),
        ((2,), None, (2, 4)), ((2,), 0, (4, 2)), ((0,), None, (0, 4)), ((0,), -1, (0, 4)), ((1, 1), 1, (1, 4, 1)),
    ):  # fmt: skip
        found = fn.one_hot(np.full(shape, 3), num_classes=4, axis=axis)
        assert found.shape == expected
        assert found.sum() == found.size // 4
    for numbers, layout in ((1, "O"), (2, "AO")):

        @pipeline_def(batch_size=1, num_threads=1, device_id=None)
        def definition(numbers=numbers):
            return fn.one_hot(fn.external_source(lambda: [[3] * numbers], layout="A"), num_classes=4, axis_name="O")

        assert definition().run()[0].layout() == layout
    assert fn.one_hot(np.array([1, 9, -1]), num_classes=3, on_value=5, off_value=2, dtype=types.INT32).tolist() == [
        [2, 5, 2],
        [2, 2, 2],
        [2, 2, 2],
    ]
    refused("same length", ValueError, lambda: fn.lookup_table(np.zeros(3, np.uint8), keys=[1], values=[]))
    refused(r"range \[0, 65535\]", ValueError, lambda: fn.lookup_table(np.zeros(3, np.uint8), keys=[70000], values=[1]))
    refused("given twice", ValueError, lambda: fn.lookup_table(np.zeros(3, np.uint8), keys=[1, 1], values=[1, 2]))
    refused("num_classes must not be negative", ValueError, lambda: fn.one_hot(np.array([1]), num_classes=-1))


def test_noise_has_the_asked_moments_and_depends_on_the_key():
    """Mean and deviation over 90,000 elements; bytes saturate; the same key gives the same noise."""
    field = np.full((300, 300), 100, np.float32)
    noisy = np.asarray(fn.noise.gaussian(field, mean=5.0, stddev=20.0, key=3))
    assert abs(noisy.mean() - 105) < 0.3
    assert abs(noisy.std() - 20) < 0.3
    assert abs(((noisy - 105) ** 3).mean() / 20**3) < 0.05
    assert (noisy == np.asarray(fn.noise.gaussian(field, mean=5.0, stddev=20.0, key=3))).all()
    assert (noisy != np.asarray(fn.noise.gaussian(field, mean=5.0, stddev=20.0, key=4))).mean() > 0.99
    bytes_ = np.asarray(fn.noise.gaussian(np.full((50, 50), 250, np.uint8), stddev=50.0, key=1))
    assert bytes_.max() == 255


def test_compression_leaves_traces_by_quality():
    """Lower quality differs more; quality and channels are checked."""
    smooth = fn.gaussian_blur(np.random.default_rng(1).integers(0, 256, (48, 48, 3), dtype=np.uint8), sigma=2.0)
    errors = [
        np.abs(fn.jpeg_compression_distortion(smooth, quality=q).astype(int) - smooth).mean() for q in (90, 30, 5)
    ]
    assert errors[0] < errors[1] < errors[2]
    refused("quality must be between 1 and 100", ValueError, lambda: fn.jpeg_compression_distortion(smooth, quality=0))
    refused("needs 3 channels", ValueError, lambda: fn.jpeg_compression_distortion(smooth[..., :1]))
