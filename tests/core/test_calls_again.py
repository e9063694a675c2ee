"""An eager call that is made again with the same arguments is not checked again, and is the same in all else."""

import gc
import sys
import weakref

import numpy as np
import pytest
from helpers import the_whole_way

from pipeflow import fn, pipeline_def, seeds, types
from pipeflow.declare import registry
from pipeflow.kernels import cpu as kernels

EAGER = sys.modules["pipeflow.declare.eager"]  # the package has the function by the same name
IMAGE = np.random.default_rng(3).integers(0, 256, (9, 11, 3), dtype=np.uint8)


@pytest.fixture(autouse=True)
def fresh():
    """No operator remembers calls of other tests."""
    for op in registry.values():
        op.forget_calls()


CALLS = [
    lambda image: fn.brightness(image, brightness=1.3),
    lambda image: fn.brightness(image, brightness=1.3, dtype=types.FLOAT),
    lambda image: fn.resize(image, size=[5, 7]),
    lambda image: fn.resize(image, size=(5.0, 7)),
    lambda image: fn.crop(image, crop=(3, 4)),
    lambda image: fn.noise.gaussian(image, stddev=9.0, key=5),
    lambda image: fn.distortions.optical(image, strength=0.5),
    lambda image: fn.rotate(image, angle=-0.0),
    lambda image: fn.warp_affine(image, matrix=(0.0, 1, 2, 1, -0.0, 3.0)),
    lambda image: fn.pad(image, axes=(0,), shape=[20]),
    lambda image: fn.warp_affine(image, matrix=np.array([[1, 0.5, 0], [0, -0.0, 2]], np.float32)),
    lambda image: fn.lookup_table(image, keys=list(range(256)), values=[0.5 * i for i in range(256)]),
    lambda image: fn.rotate(image, angle=10.0, interp_type=types.INTERP_NN),
    lambda image: fn.distortions.elastic(image, alpha=2.0, sigma=1.0, key=7),
    lambda image: fn.cast(image, dtype=np.float32),
    lambda image: fn.cast(image, dtype=float),
    lambda image: fn.warp_affine(image, matrix=[[1.0, 0.5, 0], (0, -0.0, 2)]),
    lambda image: fn.brightness(image, brightness=np.float32(1.3), dtype=None),
    lambda image: fn.rotate(image, angle=np.int64(20), size=None),
    lambda image: fn.erase(image, anchor=(1.0, 2.0, 5.0, 0.0), shape=(3.0, 4.0, 2.0, 9.0), fill_value=7),
    lambda image: fn.erase(image, anchor=(1.0, 2.0), shape=(3.0, 4.0), fill_value=(1, 2, 3)),
    lambda image: fn.noise.salt_and_pepper(image, prob=0.4, key=3),
    lambda image: fn.noise.salt_and_pepper(image, prob=0.4, per_channel=True, salt_val=9.0, key=3),
    lambda image: fn.plasma.brightness(image, key=3),
    lambda image: fn.plasma.contrast(image, intensity=0.2, roughness=0.7, key=3),
    lambda image: fn.plasma.shadow(image, key=3),
    lambda image: fn.weather.rain(image, density=0.2, length=5, width=2, key=3),
    lambda image: fn.warp_perspective(image, matrix=(0.9, 0.2, 1, -0.1, 1.1, 2, 0.01, 0.02, 1), fill_value=7.0),
    lambda image: fn.warp_perspective(
        image, np.array([[0.9, 0.2, 1], [-0.1, 1.1, 2], [0.01, 0.02, 1]], np.float32), inverse_map=False
    ),
    lambda image: fn.warp_perspective(image, matrix=(1, 0, 1, 0, 1, 2, 0, 0, 1), interp_type=types.INTERP_NN),
    lambda image: fn.clahe(image, tiles_x=2, tiles_y=3, clip_limit=2.0),
    lambda image: fn.clahe(image, tiles_x=2, tiles_y=3, clip_limit=2.0, luma_only=False),
    lambda image: fn.flip(image),
    lambda image: fn.flip(image, horizontal=False),
    lambda image: fn.flip(image, horizontal=0, vertical=True),
    lambda image: fn.flip(image, vertical=True),
    lambda image: fn.flip(image, depthwise=True),
    lambda image: fn.transpose(image, perm=[1, 0, 2]),
    lambda image: fn.transpose(image, perm=[2, 0, 1]),
    lambda image: fn.crop(image, crop=(3, 4), dtype=types.FLOAT),
    lambda image: fn.crop(image, crop=(30, 4), out_of_bounds_policy="pad", fill_values=7),
    lambda image: fn.slice(image, start=(1, 2), shape=(3, 4), axes=(0, 1)),
    lambda image: fn.slice(image, start=(-1, 2), shape=(30, 4), axes=(0, 1), out_of_bounds_policy="pad"),
    lambda image: fn.slice(image, start=(-1, 2), shape=(30, 4), axes=(0, 1), out_of_bounds_policy="trim_to_shape"),
    lambda image: fn.crop(image, crop=(30, 4), out_of_bounds_policy="pad", fill_values=[1.0, 2.0, 3.0]),
    lambda image: fn.slice(image, np.array([0.25, 0.5]), np.array([0.5, 0.5])),
    lambda image: fn.slice(image, start=[-40], shape=[30], axes=[0], out_of_bounds_policy="pad", fill_values=3),
    lambda image: fn.pad(image, axes=(0, 1), shape=[20, 4], fill_value=255),
    lambda image: fn.pad(image, axes=(2,), shape=[4], fill_value=1),
    lambda image: fn.channel_shuffle(image, key=2),
    lambda image: fn.channel_shuffle(image, key=5),
    lambda image: fn.channel_dropout(image, key=5),
    lambda image: fn.solarize(image, threshold=100.5),
    lambda image: fn.solarize_add(image, shift=70, threshold=90.0),
    lambda image: fn.contrast(image, contrast=1.7, contrast_center=20.0),
    lambda image: fn.brightness_contrast(image, brightness=0.3, brightness_shift=0.1, contrast=-1.0),
    lambda image: fn.lookup_table(image, keys=[1, 200], values=[9.0, 300.0], default_value=4.0, dtype=types.UINT8),
    lambda image: fn.resize(image, size=(20, 31), antialias=False),
    lambda image: fn.resize(image, size=(20, 31), interp_type=types.INTERP_CUBIC, antialias=False),
    lambda image: fn.rotate90(image, times=3),
    lambda image: fn.color_jitter(image, key=3),
    lambda image: fn.color_jitter(image, saturation=(0.0, 0.0), key=3),
    lambda image: fn.photometric_distort(image, key=4, prob=0.9),
    lambda image: fn.photometric_distort(image, key=5, dtype=types.FLOAT),
    lambda image: fn.planckian_jitter(image, key=6),
    lambda image: fn.planckian_jitter(image, between=(1000.0, 1000.0), key=7),
    lambda image: fn.distortions.thin_plate(image, points=4, scale=0.2, key=6),
    lambda image: fn.segmentation.random_object_bbox(image[..., 0] // 200, foreground_prob=0.5, key=3),
    lambda image: fn.segmentation.random_object_bbox(image[..., 0] // 200, foreground_prob=0.5, key=4),
    lambda image: fn.one_hot(image[0, :, 0] // 32, num_classes=5),
    lambda image: fn.multi_paste(image, in_ids=[0, 0], output_size=(9, 9), shapes=[4, 3, 2, 2], dtype=types.FLOAT),
    lambda image: fn.planckian_jitter(image, temperature=4000.0, key=6),
    lambda image: fn.multi_paste(
        image, in_ids=[0], output_size=(8, 9), in_anchors=[2, 1], shapes=[4, 3], out_anchors=[3, 5]
    ),
    lambda image: fn.hue(image, hue=33.0),
    lambda image: fn.saturation(image, saturation=0.0),
    lambda image: fn.hsv(image, saturation=0.5, value=1.5),
    lambda image: fn.color_twist(image, hue=10.0, brightness=1.2, contrast=0.7),
    lambda image: fn.channel_dropout(image, key=6, count=2, fill=300.0),
    lambda image: fn.jigsaw(image, grid=(2, 3), key=2),
    lambda image: fn.jigsaw(image, grid=(20,), key=2),
    lambda image: fn.autocontrast(image),
    lambda image: fn.invert(image),
    lambda image: fn.posterize(image, bits=3),
    lambda image: fn.weather.snow(image, point=0.6),
    lambda image: fn.channel_shift(image, shift=[20.0, -300.0, 0.5]),
    lambda image: fn.channel_shift(image, shift=1.5),
    lambda image: fn.unsharp_mask(image, sigma=0.3, amount=0.7),
    lambda image: fn.unsharp_mask(image, sigma=6.0, threshold=3.0),
    lambda image: fn.sharpen(image, alpha=0.5),
    lambda image: fn.enhance(image, mode="details"),
    lambda image: fn.motion_blur(image, size=9, angle=20.0),
    lambda image: fn.filter(image, np.full((3, 5), 1 / 15, np.float32)),
    lambda image: fn.filter(image, np.full((3, 5), 1 / 15, np.float32), border="wrap", anchor=(0, 4)),
    lambda image: fn.filter(image, np.arange(36.0).reshape(4, 9) / 600, border="clamp", dtype=types.FLOAT),
    lambda image: fn.filter(image, np.arange(6).reshape(2, 3), border="constant"),
    lambda image: fn.filter(image, np.arange(6.0).reshape(2, 3), mode="valid"),
    lambda image: fn.equalize(image),
    lambda image: fn.gaussian_blur(image, sigma=1.3),
    lambda image: fn.gaussian_blur(image, sigma=(1.3, 0.0), window_size=(3, 5)),
    lambda image: fn.gaussian_blur(image, sigma=1.3, dtype=types.FLOAT),
    lambda image: fn.rotate(image, angle=31.0, fill_value=7),
    lambda image: fn.rotate(image, angle=31.0, keep_size=True, interp_type=types.INTERP_NN),
    lambda image: fn.rotate(image, angle=31.0, size=(5, 8), dtype=types.FLOAT),
    lambda image: fn.warp_affine(image, matrix=(0.9, 0.2, 1.0, -0.1, 1.1, 0.5), size=(6, 20), fill_value=300),
    lambda image: fn.warp_affine(image, matrix=(0.9, 0.2, 1.0, -0.1, 1.1, 0.5), inverse_map=False),
    lambda image: fn.illumination.linear(image, gain=0.4, angle=70.0),
    lambda image: fn.illumination.corner(image, gain=-0.4, corner=3),
    lambda image: fn.illumination.gaussian(image, gain=0.4, center=[0.2, 0.7]),
]


@pytest.mark.parametrize("call", CALLS, ids=range(len(CALLS)))
def test_the_same_result(call):
    """The first call, the second, and one with another image are what they are on the whole way."""
    fixed = IMAGE[::-1].copy()
    fixed.flags.writeable = False
    for image in (IMAGE, IMAGE, IMAGE, IMAGE[2:, 1:].copy(), IMAGE[:, ::2], fixed, IMAGE):
        got, expected = call(image), the_whole_way(lambda image=image: call(image))
        assert type(got) is type(expected)
        pairs = zip(got, expected, strict=True) if isinstance(got, list) else [(got, expected)]
        for one, other in pairs:
            assert one.dtype == other.dtype
            np.testing.assert_array_equal(one, other)
    assert any(op.known_calls for op in registry.values()), "no call was kept"


OTHERS = {
    "flip": lambda x: fn.flip(x, vertical=True, horizontal=False),
    "mirrored": lambda x: fn.flip(x),
    "transpose": lambda x: fn.transpose(x, perm=[1, 0, 2]),
    "slice": lambda x: fn.slice(x, start=(-1, 2), shape=(30, 4), axes=(0, 1), out_of_bounds_policy="pad"),
    "pad": lambda x: fn.pad(x, axes=(0, 1), shape=[20, 30]),
    "resize": lambda x: fn.resize(x, size=(12, 13), antialias=False),
    "brightness": lambda x: fn.brightness(x, brightness=0.3),
    "rotate": lambda x: fn.rotate(x, angle=20.0, fill_value=3),
    "nearest": lambda x: fn.rotate(x, angle=20.0, interp_type=types.INTERP_NN),
    "gaussian_blur": lambda x: fn.gaussian_blur(x, sigma=0.9),
    "filter": lambda x: fn.filter(x, np.full((3, 3), 1 / 9, np.float32)),
    "windows": lambda x: fn.filter(x, np.full((5, 5), 1 / 50, np.float32)),
    "jigsaw": lambda x: fn.jigsaw(x, grid=(3, 2), key=3),
    "channel_shuffle": lambda x: fn.channel_shuffle(x, key=3),
    "channel_dropout": lambda x: fn.channel_dropout(x, key=3),
}


@pytest.mark.parametrize("call", OTHERS.values(), ids=OTHERS)
@pytest.mark.parametrize("dtype", ["u1", "i1", "u2", "f4", "f8", "?"])
@pytest.mark.parametrize("channels", [1, 3, 4])
def test_the_same_result_for_other_types(call, dtype, channels):
    """The short forms of operators give what their bodies give, for every type and number of channels."""
    image = np.random.default_rng(9).integers(0, 100, (9, 11, channels)).astype(dtype)
    for _ in range(3):
        got, expected = call(image), the_whole_way(lambda: call(image))
        assert got.dtype == expected.dtype
        np.testing.assert_array_equal(got, expected)


def test_arguments_that_are_written_alike_are_different():
    """An array, its bytes and a type have the same bytes; a kept call is only for the one it was made with."""
    image = np.arange(6, dtype=np.uint8).reshape(2, 3)
    for _ in range(3):
        assert fn.cast(image, dtype=types.INT16).dtype == np.int16
        assert fn.cast(image, dtype=5).dtype == np.int16
        assert fn.cast(image, dtype=np.int16).dtype == np.int16
        for kind, expected in ((np.float32, 1), (np.int32, 0)):
            mean = np.array([[1]], np.int32).view(kind)
            assert fn.normalize(np.ones((2, 2), np.float32), mean=mean, stddev=1.0)[0, 0] == expected
        with pytest.raises((TypeError, ValueError)):
            fn.cast(image, dtype=b"INT16")


def test_a_call_is_known_by_types_and_values():
    """1, 1.0 and True are equal and not the same; nor are 0.0 and -0.0."""
    for _ in range(3):
        assert fn.resize(IMAGE, size=(4, 5)).shape == (4, 5, 3)
        with pytest.raises((TypeError, ValueError), match="size"):
            fn.resize(IMAGE, size=(4, True))
        padded = [fn.pad(np.ones(2, np.float32), shape=[3], fill_value=x)[2] for x in (0.0, -0.0)]
        assert np.signbit(padded).tolist() == [False, True]
        window = {"start": [1], "shape": [3], "axes": [0], "out_of_bounds_policy": "pad"}
        cut = [fn.slice(np.ones(2, np.float32), **window, fill_values=x)[2] for x in (0.0, -0.0)]
        assert np.signbit(cut).tolist() == [False, True]


def test_types_and_numbers_of_numpy_are_arguments_like_others():
    """A call with them is kept, and -0.0 is another value than 0.0 in their types too."""
    for _ in range(3):
        assert [fn.cast(IMAGE, dtype=kind).dtype for kind in (np.float32, np.float64, np.int16)] == ["f4", "f8", "i2"]
        padded = [fn.pad(np.ones(2, np.float32), shape=[3], fill_value=np.float32(x))[2] for x in (0.0, -0.0)]
        assert np.signbit(padded).tolist() == [False, True]
        for number in (np.float32(1.5), np.float64(1.5), np.float16(1.5)):
            fn.brightness(IMAGE, brightness=number, dtype=None)
    assert len(registry["cast"].plain_calls) == 3
    assert all(isinstance(call, EAGER.PlainCall) for call in registry["cast"].plain_calls.values())
    assert all(isinstance(call, EAGER.PlainCall) for call in registry["brightness"].plain_calls.values())
    assert len(registry["brightness"].plain_calls) == 3


def test_the_same_objects_under_other_names_are_another_call():
    """The shortest way compares the objects of the arguments, and then their names and order."""
    size, other = 5, 7
    for _ in range(4):
        assert fn.crop(IMAGE, crop_h=size, crop_w=other).shape == (5, 7, 3)
    assert registry["crop"].last_calls
    for _ in range(2):
        assert fn.crop(IMAGE, crop_w=size, crop_h=other).shape == (7, 5, 3)
        assert fn.crop(IMAGE, crop_w=size).shape == (9, 5, 3)
        assert fn.crop(IMAGE, crop_h=size).shape == (5, 11, 3)
        assert fn.crop(IMAGE, crop_h=size, crop_w=other, crop_pos_x=0.0).shape == (5, 7, 3)
        assert fn.crop(IMAGE).shape == IMAGE.shape
        assert fn.crop(IMAGE[1:], crop_h=size, crop_w=other).shape == (5, 7, 3)
        expected = IMAGE[1:6, 2:9]
        np.testing.assert_array_equal(fn.crop(IMAGE[1:], crop_h=size, crop_w=other, crop_pos_y=0.0), expected)


NO_INPUTS = {
    "ones": lambda _: fn.ones(shape=(2, 3)),
    "constant": lambda _: fn.constant(idata=(1, 2, 3, 4), shape=(2, 2)),
    "rotation": lambda _: fn.transforms.rotation(angle=30.0, center=(2.0, 3.0)),
    "crop": lambda _: fn.transforms.crop(to_start=[0.2, 0.3], to_end=[0.8, 0.5]),
    "perspective": lambda _: fn.transforms.perspective(
        source=[0, 0, 9, 0, 9, 9, 0, 9], target=[1, 0, 8, 1, 9, 9, 0, 7]
    ),
    "uniform": lambda key: fn.random.uniform(range=(0.0, 1.0), shape=(3, 2), key=key),
    "coin_flip": lambda key: fn.random.coin_flip(probability=0.5, shape=(40,), key=key),
    "normal": lambda key: fn.random.normal(key=key),
    "normals": lambda key: fn.random.normal(mean=-2.0, stddev=3.5, shape=(40, 3), key=key),
    "double": lambda key: fn.random.normal(mean=1, stddev=0, shape=[5], dtype=types.FLOAT64, key=key),
    "half": lambda key: fn.random.normal(stddev=9000.0, shape=(50,), dtype=types.FLOAT16, key=key),
    "huge": lambda key: fn.random.normal(stddev=1e38, shape=(50,), key=key),
    "window": lambda key: fn.roi_random_crop(
        crop_shape=(4, 3), roi_start=(2, 1), roi_end=(4, 9), in_shape=(6, 10), key=key
    ),
}


@pytest.mark.parametrize("call", NO_INPUTS.values(), ids=NO_INPUTS)
def test_calls_without_inputs_are_kept_too(call):
    """Matrices, constants and numbers by a key are what they are on the whole way; a change of a result changes no other."""
    for key in (5, 5, 5, 6, 5):
        got, expected = call(key), the_whole_way(lambda key=key: call(key))
        assert type(got) is type(expected)
        assert got.dtype == expected.dtype
        np.testing.assert_array_equal(got, expected)
        if got.flags.writeable:
            got[...] = 3
    assert any(op.known_calls for op in registry.values()), "no call was kept"


def test_numbers_without_a_key_are_new_every_time():
    """Without a key each call draws another one, and reports it."""
    drawn = [fn.random.uniform(range=(0.0, 1.0), shape=(4,)) for _ in range(4)]
    assert len({x.tobytes() for x in map(np.asarray, drawn)}) == 4
    assert len({x.key for x in drawn}) == 4


def test_a_list_that_is_written_over_is_another_argument():
    """The same list may have other values in a later call, so its identity says nothing."""
    size = [3, 4]
    for _ in range(4):
        assert fn.crop(IMAGE, crop=size).shape == (3, 4, 3)
    size[0] = 5
    assert fn.crop(IMAGE, crop=size).shape == (5, 4, 3)
    size[0] = 3
    assert fn.crop(IMAGE, crop=size).shape == (3, 4, 3)
    size.append(2)
    assert fn.crop(IMAGE, crop=size).shape == (4, 2, 3)


def test_the_items_of_a_list_are_compared_and_no_deeper_ones():
    """A new list of the same numbers is the call that was made last; a tuple is constant, and a list in it need not be."""
    crop = registry["crop"]
    for _ in range(3):
        assert fn.crop(IMAGE, crop=[3, 4]).shape == (3, 4, 3)
    (last,) = crop.last_calls[IMAGE.shape]
    crop.known_calls.clear()
    assert fn.crop(IMAGE, crop=[3, 4]).shape == (3, 4, 3)
    assert not crop.known_calls, "the call was looked up"
    for other in ([3, 5], [3.0, 4], (3, 4), [3], None):
        assert last((IMAGE,), {"crop": other}) is None
    crop.forget_calls()
    inner = ([3, 4],)
    for _ in range(4):
        assert fn.crop(IMAGE, crop=inner).shape == (3, 4, 3)
    inner[0][0] = 5
    assert fn.crop(IMAGE, crop=inner).shape == (5, 4, 3)
    assert not crop.last_calls


def test_whole_numbers_that_are_computed_for_a_call_are_compared():
    """New numbers and tuples with the values of the last call are the same; those of other types are not, nor are floats."""
    slice_, huge = registry["slice"], {"shape": (600, 700), "axes": (0, 1), "out_of_bounds_policy": "pad"}
    for _ in range(3):
        fn.slice(IMAGE, start=(-400, -300), **huge)
    (last,) = slice_.last_calls[IMAGE.shape]
    slice_.known_calls.clear()
    assert fn.slice(IMAGE, start=(-IMAGE.size - 400 + IMAGE.size, -300), **huge).shape == (600, 700, 3)
    assert not slice_.known_calls, "the call was looked up"
    for other in ((-400, -300.0), (-400, -301), (-400,), [-400, -300], -400, (np.zeros(2), 3), None):
        assert last((IMAGE,), {"start": other, **huge}) is None
    for _ in range(3):
        fn.jigsaw(IMAGE, grid=(3, 3), key=1)
        fn.posterize(IMAGE, bits=1)
    (last,) = registry["posterize"].last_calls[IMAGE.shape]
    assert last((IMAGE,), {"bits": int("1")}) is not None
    assert last((IMAGE,), {"bits": True}) is None
    assert last((IMAGE,), {"bits": 1.0}) is None


def test_a_key_is_part_of_the_last_call_of_a_random_operator_alone():
    """Its value may differ; one that is no whole number, or an argument with this name elsewhere, is another call."""
    for key in (5, 5, 5, 6):
        np.testing.assert_array_equal(
            fn.channel_shuffle(IMAGE, key=key), the_whole_way(lambda key=key: fn.channel_shuffle(IMAGE, key=key))
        )
    (last,) = registry["channel_shuffle"].last_calls[IMAGE.shape]
    assert last((IMAGE,), {"key": 6}) is not None
    assert last((IMAGE,), {}).key is not None, "without a key there is a new one, which the result reports"
    for call in ({"key": True}, {"key": None}, {"key": 6, "name": None}, {"keys": 6}):
        assert last((IMAGE,), call) is None
    assert last((IMAGE, IMAGE), {"key": 6}) is None
    assert last((), {"key": 6}) is None


def test_a_few_calls_are_found_without_a_look_up():
    """For each shape of the first input, those that were added last; a call of another operator changes nothing."""
    crop, small = registry["crop"], IMAGE[:5]
    calls = [lambda x, size=size: fn.crop(x, crop=size) for size in ((1, 1), (2, 3), (3, 4), (4, 5), (5, 5))]
    for call in calls:
        for image in (IMAGE, small):
            for _ in range(3):
                call(image)
    assert {shape: len(kept) for shape, kept in crop.last_calls.items()} == dict.fromkeys(
        (IMAGE.shape, small.shape), EAGER.LAST_CALLS
    )
    crop.known_calls.clear()
    for place, call in enumerate(calls[1:], 2):
        for image in (IMAGE, small):
            np.testing.assert_array_equal(call(image), the_whole_way(lambda call=call, image=image: call(image)))
            assert not crop.known_calls, f"call {place} was looked up"
    calls[0](IMAGE)
    assert len(crop.known_calls) == 1, "the first call is no longer one of the last"


def test_the_forgotten_calls_are_also_not_the_last_one():
    """When the table of calls is emptied, the call with the same objects is forgotten with it."""
    for _ in range(4):
        fn.brightness(IMAGE, brightness=0.5)
    assert registry["brightness"].last_calls
    for number in range(EAGER.PLAIN_CALLS):
        fn.brightness(IMAGE, brightness=1 + number / 7)
    assert not registry["brightness"].last_calls


def test_forgotten_calls_are_freed_at_once():
    """The functions that are written for a call do not refer to themselves, so they do not wait for the garbage collector."""
    for _ in range(4):
        fn.flip(IMAGE)
    written = weakref.ref(*registry["flip"].last_calls[IMAGE.shape])
    assert written() is not None
    gc.disable()
    try:
        registry["flip"].forget_calls()
        assert written() is None
    finally:
        gc.enable()


LISTS = {
    "crop": lambda x: fn.crop(x, crop=(3, 4)),
    "named": lambda x: fn.resize(x, size=(6, 5), interp_type=types.INTERP_NN),
    "flipped": lambda x: fn.flip(x),
    "cast": lambda x: fn.cast(x, dtype=types.FLOAT),
    "no layout": lambda x: fn.squeeze([one[..., :1] for one in x], axes=2),
    "mean": lambda x: fn.reductions.mean(x),
    "permuted": lambda x: fn.permute_batch(x, indices=list(range(len(x)))[::-1]),
    "two outputs": lambda x: fn.distortions.optical(x, strength=0.5),
    "random": lambda x: fn.noise.gaussian(x, key=3),
}


@pytest.mark.parametrize("call", LISTS.values(), ids=LISTS)
def test_a_list_of_arrays_is_the_same_batch_again(call):
    """Values, types, layouts and keys of each call are those of the first, for lists of other lengths and shapes too."""
    for samples in ([IMAGE], [IMAGE, IMAGE[:5], IMAGE[:, :6]], [IMAGE.astype(np.float32)] * 2, [IMAGE[:7], IMAGE]):
        samples = [np.ascontiguousarray(one) for one in samples]
        expected = the_whole_way(lambda samples=samples: call(samples))
        for _ in range(4):
            found = call(samples)
            for one, other in zip(*((x if isinstance(x, list) else [x]) for x in (found, expected)), strict=True):
                assert type(one) is type(other)
                assert (one.layout(), one.dtype, one.key) == (other.layout(), other.dtype, other.key)
                for sample, wanted in zip(one.samples(), other.samples(), strict=True):
                    np.testing.assert_array_equal(sample, wanted)


def test_a_list_whose_samples_differ_in_type_is_refused_every_time():
    """The short way of a list leaves every error to the complete call."""
    for _ in range(4):
        fn.crop([IMAGE, IMAGE], crop=(3, 4))
        fn.permute_batch([IMAGE, IMAGE], indices=[0, 0])
        with pytest.raises(TypeError, match="a batch has one type: sample 0 is uint8 and sample 1 is int16"):
            fn.crop([IMAGE, IMAGE.astype(np.int16)], crop=(3, 4))
        with pytest.raises(ValueError, match="a batch has one number of axes"):
            fn.permute_batch([IMAGE, IMAGE[0]], indices=[0, 0])
        with pytest.raises(RuntimeError, match="Slice can't be placed out of bounds"):
            fn.crop([IMAGE, IMAGE], crop=(30, 4))
        with pytest.raises(IndexError, match="indices names sample 2 of a batch of 2"):
            fn.permute_batch([IMAGE, IMAGE], indices=[0, 2])


def test_a_list_of_arrays_is_found_again():
    """The complete call is not made again, for any number of samples."""
    calls = [lambda x: fn.crop(x, crop=(3, 4)), lambda x: fn.permute_batch(x, indices=0)]
    for call in calls:
        for _ in range(3):
            call([IMAGE])
    complete = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys.modules["pipeflow.declare.registration"], "bind", complete.append)
        for call in calls:
            call([IMAGE])
        calls[0]([IMAGE] * 5)
    assert not complete


WINDOWS = {
    "crop": lambda x: fn.crop(x, crop=(4, 5), crop_pos_x=0.3, crop_pos_y=1.0),
    "whole": lambda x: fn.crop(x),
    "slice": lambda x: fn.slice(x, start=(2, 1), shape=(4, 5), axes=(0, 1)),
    "channel": lambda x: fn.slice(x, start=[1], shape=[1], axes=[2]),
    "empty": lambda x: fn.slice(x, start=[1], shape=[0], axes=[0]),
    "inputs": lambda x: fn.slice(x, np.array([1, 2]), np.array([3, 4]), axes=(0, 1)),
    "batch": lambda x: fn.crop([x, x], crop=(4, 5))[1],
    "trimmed": lambda x: fn.crop(x, crop=(4, 50), out_of_bounds_policy="trim_to_shape"),
    "typed": lambda x: fn.crop(x, crop=(4, 5), dtype=x.dtype),
}


@pytest.mark.parametrize("call", WINDOWS.values(), ids=WINDOWS)
@pytest.mark.parametrize("dtype", ["u1", "f4"])
def test_a_window_has_memory_of_its_own(call, dtype):
    """Every call, the first and the later ones, copies the window: a change of the result does not change the image."""
    whole = np.random.default_rng(4).integers(0, 100, (18, 22, 3)).astype(dtype)
    part = whole[:9, :11]
    for image in (whole[::2, ::2], part, np.asfortranarray(part), whole[8::-1, 10::-1], part.copy()):
        first = np.array(call(np.ascontiguousarray(image)))
        for _ in range(3):
            result = np.asarray(call(image))
            np.testing.assert_array_equal(result, first)
            assert result.flags.c_contiguous
            assert not np.may_share_memory(result, image)
            result[...] = 200
            np.testing.assert_array_equal(call(image), first)


def test_a_matrix_that_is_written_over_is_another_argument():
    """A kept call has a copy of an array among its arguments: who writes into it makes another call."""
    matrix = np.array([[1, 0, 3], [0, 1, 0]], np.float32)
    first = [fn.warp_affine(IMAGE, matrix=matrix) for _ in range(3)][-1]
    matrix[0, 2] = -2
    second = [fn.warp_affine(IMAGE, matrix=matrix) for _ in range(3)][-1]
    assert not np.array_equal(first, second)
    again = np.array([[1, 0, 3], [0, 1, 0]], np.float32)
    np.testing.assert_array_equal(fn.warp_affine(IMAGE, matrix=again), first)
    whole = fn.warp_affine(IMAGE, matrix=again.astype(np.float64))  # the same numbers of another type
    np.testing.assert_array_equal(whole, first)


def test_arrays_with_the_same_bytes_are_different_arguments():
    """Their types and shapes are a part of the form of a call, also of one that is made often."""
    points = np.ones((3, 2), np.float32)
    matrix = np.array([[1, 2, 3], [4, 5, 6]], np.float32)
    for _ in range(4):
        expected = points @ matrix[:, :2].T + matrix[:, 2]
        np.testing.assert_array_equal(fn.coord_transform(points, MT=matrix), expected)
        counted = fn.coord_transform(points, MT=matrix.view(np.int32))
        np.testing.assert_array_equal(counted, fn.coord_transform(points, MT=matrix.view(np.int32).astype(np.float64)))
        assert fn.coord_transform(points, MT=matrix.reshape(3, 2)[:, [0, 1, 1]][:2]).shape == (3, 2)
        with pytest.raises((TypeError, ValueError)):
            fn.coord_transform(points, MT=matrix.tobytes())
    assert any(type(form) is tuple and type(form[0]) is tuple for form in registry["coord_transform"].known_calls)


def test_an_array_after_a_number_is_another_argument():
    """The number that the last calls had is not compared with the array: the result would be many answers."""
    data = np.arange(12, dtype=np.float32).reshape(4, 3)
    for mean in (1.0, np.array([[1.0, 2.0, 3.0]], np.float32), 1.0):
        for _ in range(4):
            np.testing.assert_array_equal(fn.normalize(data, mean=mean, stddev=2.0), (data - mean) / 2)


KEPT = {
    "coord_transform": lambda array: fn.coord_transform(np.ones((3, 2), np.float32), M=array),
    "normalize": lambda array: fn.normalize(np.ones((2, 2), np.float32), mean=array, axes=[0], stddev=2.0),
}


@pytest.mark.parametrize("call", KEPT.values(), ids=KEPT)
def test_a_kept_call_has_its_own_copy_of_an_array(call):
    """The values of a call are those at its first time, whatever becomes of the array."""
    values = np.array([[1, 3], [2, 5]], np.float32) if call is KEPT["coord_transform"] else np.float32([[4, 6]])
    given = values.copy()
    first = [call(given) for _ in range(3)][-1]
    given[...] = 9
    np.testing.assert_array_equal(call(values), first)


@pytest.mark.parametrize("shape", [(9, 11, 3), (4, 4, 3), (2, 5, 5, 3), (7, 7, 1)])
def test_every_shape_has_its_own_result(shape):
    """Shapes and types that take turns, among them sequences of frames, give what they give at first."""
    image = np.random.default_rng(5).integers(0, 256, shape, dtype=np.uint8)
    for x in (IMAGE, image, IMAGE, image.astype(np.float32), image):
        got = fn.brightness(x, brightness=2.0)
        assert got.shape == x.shape
        assert got.dtype == x.dtype
        expected = x.astype(np.float64) * 2
        whole = np.clip(expected, 0, 255) if x.dtype == np.uint8 else expected
        np.testing.assert_allclose(got, whole, rtol=1e-6)


def test_errors_say_as_much_as_the_first_time():
    """The operator, the line and the values are in the message of every call."""
    for _ in range(3):
        with pytest.raises(ValueError, match=r"alpha must be from 0 to 1, got 2\.0") as caught:
            fn.sharpen(IMAGE, alpha=2.0)
        notes = "\n".join(caught.value.__notes__)
        assert "in fn.sharpen" in notes
        assert "test_calls_again.py" in notes
    good = IMAGE
    for data in (good, good, good[..., :1]):
        if data is good:
            fn.hue(data, hue=20.0)
        else:
            with pytest.raises(ValueError, match="hue needs 3 channels") as caught:
                fn.hue(data, hue=20.0)
            assert "in fn.hue" in "\n".join(caught.value.__notes__)


def test_warnings_of_former_names_come_every_time():
    """A call by an argument's former name is made on the whole way."""
    for _ in range(3):
        with pytest.warns(DeprecationWarning, match="is called 'dtype' now"):
            fn.crop_mirror_normalize(IMAGE, output_dtype=types.FLOAT, crop=(3, 3))


def test_user_code_runs_once_a_call():
    """A Python function is called by every call, and only once."""
    seen = []
    for number in range(4):
        fn.python_function(IMAGE, function=lambda x: seen.append(1) or x)
        assert len(seen) == number + 1


def test_in_a_pipeline_definition_calls_are_recorded():
    """Arrays in a definition are constants of the graph, however often the call was made outside."""
    for _ in range(3):
        fn.invert(IMAGE)

    @pipeline_def(batch_size=2, num_threads=1, device_id=None)
    def define():
        return fn.invert(types.Constant(IMAGE))

    assert (np.asarray(define().run()[0].at(1)) == 255 - IMAGE).all()


def test_the_table_of_calls_does_not_grow_without_end():
    """Arguments that are always new are forgotten again."""
    for number in range(300):
        fn.brightness(IMAGE, brightness=1 + number / 7)
    assert len(registry["brightness"].plain_calls) <= EAGER.PLAIN_CALLS


@pytest.mark.parametrize("key", [0, 1, 12345, (1 << 64) - 1])
def test_the_key_of_the_first_sample(key):
    """Both short ways to it give that of the table of keys."""
    expected = int(seeds.sample_keys(key, np.arange(1))[0])
    assert seeds.first_key(key) == expected
    assert kernels.keys.first_key()(key) == expected


@pytest.mark.parametrize("key", [-1, 1 << 64, -(1 << 70) - 3])
def test_every_whole_number_is_a_key(key):
    """Only its lowest 64 bits count, in the first call and in later ones."""
    first = fn.random.uniform(key=key & ((1 << 64) - 1), shape=[3])
    for _ in range(4):
        np.testing.assert_array_equal(fn.random.uniform(key=key, shape=[3]), first)
