"""Repeated calls on arrays make the kernel calls that an operator declares, without its body."""

import io
import threading
import wave

import numba
import numpy as np
import pytest
from helpers import the_whole_way

from pipeflow import fn, types
from pipeflow.declare import NotReady, registry, short_calls
from pipeflow.declare.parameters import Args
from pipeflow.declare.short_calls import short_form
from pipeflow.declare.specs import Spec
from pipeflow.declare.tables import NoTable
from pipeflow.kernels import cpu as kernels

IMAGE = np.random.default_rng(4).integers(0, 256, (9, 11, 3), dtype=np.uint8)
SIGNAL = np.random.default_rng(5).standard_normal(300).astype(np.float32)
CALLS = {
    "color_space_conversion": lambda: fn.color_space_conversion(IMAGE, image_type=types.RGB, output_type=types.YCbCr),
    "grayscale": lambda: fn.grayscale(IMAGE, channels=1),
    "preemphasis_filter": lambda: fn.preemphasis_filter(SIGNAL),
    "spectrogram": lambda: fn.spectrogram(SIGNAL, window_length=64, window_step=16),
    "to_decibels": lambda: fn.to_decibels(np.abs(SIGNAL)),
}


@pytest.mark.parametrize("name", CALLS)
def test_the_body_is_not_called_again(name, monkeypatch):
    """The third call has the result of the body, which does not run."""
    op, call = registry[name], CALLS[name]
    op.forget_calls()
    expected = the_whole_way(call)
    call()
    call()
    monkeypatch.setattr(op, "body", None)
    np.testing.assert_array_equal(call(), expected)


@numba.njit
def first_and_size(values):
    return np.int64(values[0]), np.int64(values.size)


@numba.njit
def last_of(values):
    return np.int64(values[-1])


@numba.njit
def copied_from(values, begin, room, out):
    room[:] = values[0]
    for i in range(out.size):
        out[i] = values[begin + i] + room[i]


def cut_calls(calls):
    """values[first : last + 1] + first, for a first element of at least 1; another record if the last one differs."""
    first, size = calls.read(first_and_size, calls.input)
    calls.require(first >= 1)
    (last,) = calls.read(last_of, calls.input)
    if int(last) % 2 == 0:
        last = last + 0
    calls.require(last < size)
    length = last - first + 1
    room = calls.scratch((length,), np.dtype(np.float64))
    calls.call(copied_from, calls.input, first, room, calls.output((length,), np.dtype(np.float64)))
    calls.give(1, np.array(7.0, np.float32))


def test_numbers_that_kernels_return_decide_extents(monkeypatch):
    """One record is for inputs of all lengths; a sample that it does not describe is an error, after which the body runs."""
    data = np.array([1.0, 5, 6, 7, 2])
    copied_from(data, 0, np.empty(1), np.empty(1))
    first_and_size(data)
    last_of(data)
    op = registry["decoders.audio"]
    monkeypatch.setattr(op, "calls_hook", cut_calls)
    form = short_form(op, [data], [Spec.exact(data, "")], Args(), False)
    for values in (data, np.array([1.0, 8, 5, 6, 3, 8, 2])):
        low, high = int(values[0]), int(values[-1])
        cut, constant = form(values)
        np.testing.assert_array_equal(cut, values[low : high + 1] + low)
        assert constant == 7
    with pytest.raises(NoTable):
        form(np.array([0.0, 1]))
    with pytest.raises(NoTable):
        form(np.array([1.0, 4, 4, 3]))
    assert form(data)[1] is not form(data)[1]


@numba.njit
def doubled_into(values, out):
    for i in range(out.size):
        out[i] = 2 * values.flat[i]


@numba.njit
def added_into(values, room, out):
    out[:] = values + room


def calls_with_repetitions(calls):
    """3 x, with the same number, check and views twice, and memory whose type the first call shows."""
    data, double = calls.input, np.dtype(np.float64)
    (last,) = calls.read(last_of, data.flat)
    for _ in range(2):
        calls.require(last + 1 <= 10)
    room = calls.scratch((2, 3), double)
    out = calls.output((2, 3), double)
    calls.call(doubled_into, data, room.flat)
    calls.call(doubled_into, data, room.flat)
    calls.call(added_into, data, room, out)
    calls.call(added_into, data, room, out.reshaped(2, 3))


def test_nothing_is_computed_twice(monkeypatch):
    """Numbers, checks and views of a record have one line each; memory is allocated with its type."""
    texts = []
    written = short_calls.function
    monkeypatch.setattr(short_calls, "function", lambda text, names: texts.append(text) or written(text, names))
    data, op = np.arange(6.0).reshape(2, 3), registry["decoders.audio"]
    kernels_of = {doubled_into: (data, np.empty(6)), added_into: (data, data, data.copy()), last_of: (data.ravel(),)}
    for kernel, arguments in kernels_of.items():
        kernel(*arguments)
    monkeypatch.setattr(op, "unsized", False)
    monkeypatch.setattr(op, "calls_hook", calls_with_repetitions)
    form = short_form(op, [data], [Spec.exact(data, "")], Args(), False)
    (text,) = texts
    assert [text.count(part) for part in (" + 1", "if not", "empty(", "ravel()", "reshape(", "view(")] == [
        1,
        1,
        2,
        1,
        1,
        0,
    ]
    for values in (data, np.asfortranarray(data), data[::-1, ::-1], np.repeat(data, 2, 1)[:, ::2]):
        np.testing.assert_array_equal(form(values), 3 * values)
    with pytest.raises(NoTable):
        form(data + 6)


def test_a_result_that_is_the_memory_of_its_input_stays_so():
    """As in the first call."""
    registry["squeeze"].forget_calls()
    data = np.zeros((2, 1, 3), np.float32)
    for _ in range(4):
        assert np.shares_memory(fn.squeeze(data, axes=1), data)


@pytest.mark.parametrize("dtype", [None, types.FLOAT])
def test_frames_whose_values_are_computed_alone_are_one_image(dtype):
    """Brightness of a sequence is that of its frames."""
    registry["brightness"].forget_calls()
    frames = np.stack([IMAGE, 255 - IMAGE])
    for data in (frames, frames[:, ::-1], frames[:, ::2, 1:], frames):
        found = [fn.brightness(data, brightness=1.3, dtype=dtype) for _ in range(3)]
        expected = np.stack([fn.brightness(frame, brightness=1.3, dtype=dtype) for frame in data])
        for result in found:
            np.testing.assert_array_equal(result, expected)


def test_calls_that_do_not_describe_the_input_give_no_form():
    """The body reports the error of an image with four channels."""
    image = np.zeros((4, 4, 4), np.uint8)
    assert short_form(registry["grayscale"], [image], [Spec.exact(image, "HWC")], Args(channels=1), True) is None


@numba.njit
def doubled(values, out):
    out[:] = values * 2


@numba.njit
def plus_one(values, out):
    out[:] = values + 1


def calls_of_two_kernels(calls):
    """2 x + 1."""
    out = calls.output_like_input(calls.input.dtype)
    calls.call(doubled, calls.input.flat, out.flat)
    calls.call(plus_one, out.flat, out.flat)


def test_calls_that_go_on_load_their_kernels(monkeypatch):
    """The body works until threads have compiled both kernels; few calls compile nothing."""
    monkeypatch.delenv("PIPEFLOW_START", raising=False)
    op, given, ran = registry["preemphasis_filter"], SIGNAL[:7].copy(), []
    monkeypatch.setattr(op, "calls_hook", calls_of_two_kernels)
    monkeypatch.setattr(op, "body", lambda data, out, **_: ran.append(0) or np.multiply(data, 2, out) + 1)
    op.forget_calls()
    compiled = []
    for calls in (short_calls.CALLS, 1, short_calls.CALLS, short_calls.CALLS):  # the first call of all is not counted
        for _ in range(calls):
            np.testing.assert_array_equal(fn.preemphasis_filter(given), given * 2 + 1)
        for thread in threading.enumerate():
            if thread.name == "pipeflow programs":
                thread.join()
        compiled.append((len(doubled.overloads), len(plus_one.overloads)))
    assert compiled == [(0, 0), (1, 0), (1, 1), (1, 1)]
    ran.clear()
    for _ in range(3):
        np.testing.assert_array_equal(fn.preemphasis_filter(given), given * 2 + 1)
    assert len(ran) == 1  # in the first call after the last look
    op.forget_calls()


def test_what_others_load_is_looked_for_less_often():
    """A switch that is off may stay off: each look is after twice as many calls as the one before."""
    looks, forgotten, number = [], [], 0

    def prepare(inputs):
        looks.append(number)
        if number < 6 * short_calls.CALLS:
            raise NotReady

    run = short_calls.until_ready(lambda inputs, key: key, NotReady(), prepare, lambda: forgotten.append(number))
    for number in range(1, 8 * short_calls.CALLS):
        assert run((), number) == number
        if forgotten:
            break
    assert looks == [short_calls.CALLS * n for n in (1, 3, 7)]
    assert forgotten == looks[-1:]


def test_only_kept_kernels_are_called():
    """A kernel is not compiled for a repeated call."""

    @numba.njit
    def nothing(values):
        pass

    @numba.njit
    def total(values):
        return values.sum()

    data = np.zeros(3)
    assert kernels.jit.kept_code_of(nothing, data) is None
    assert kernels.jit.kept_code_of(np.sum, data) is None
    nothing(data)
    total(data)
    assert kernels.jit.kept_code_of(nothing, data)[1] == 0
    code, count = kernels.jit.kept_code_of(total, data)
    assert (code(data), count) == (0.0, -1)


BOXES = np.array([[0.1, 0.2, 0.5, 0.6], [0.3, 0.3, 0.9, 0.8], [0.0, 0.0, 0.2, 1.0]], np.float32)
LABELS, POINTS = np.array([3, 1, 2]), BOXES[:, :2]
MASK = np.random.default_rng(6).integers(0, 4, (7, 9, 5), dtype=np.uint8)
PLANE = np.random.default_rng(7).uniform(-2, 12, (6, 8)).astype(np.float32)
POLYGONS = np.array([[2, 0, 3], [5, 1, 5], [7, 0, 6], [2, 3, 3], [7, 0, 6]])
LITERAL = np.array([0x80, *range(8)], np.uint8)  # a block of LZ4 with eight bytes
WARP = (1.0, 0.2, 3.0, -0.1, 0.9, 1.0)
OTHERS = [
    lambda key: fn.random_bbox_crop(BOXES, thresholds=[0.2, 0.5], scaling=[0.2, 0.9], aspect_ratio=[0.5, 2.0], key=key),
    lambda key: fn.random_bbox_crop(BOXES, LABELS, crop_shape=(20, 10), input_shape=(40, 60), key=key),
    lambda key: fn.random_bbox_crop(
        BOXES / 2, LABELS, bbox_layout="yxHW", scaling=[0.5, 1.5], shape_layout="HW", input_shape=(40, 60), key=key
    ),
    lambda key: fn.random_bbox_crop(np.hstack([BOXES, BOXES + 0])[:, [0, 1, 4, 2, 3, 6]], LABELS, key=key),
    lambda key: fn.random_bbox_crop(BOXES + 1, LABELS, key=key),
    lambda key: fn.random_bbox_crop(BOXES, LABELS, output_bbox_indices=True, key=key),
    lambda key: fn.ssd_random_crop(IMAGE, BOXES, LABELS, num_attempts=3, key=key),
    lambda key: fn.ssd_random_crop(IMAGE, BOXES.astype(np.float64), LABELS[:2], key=key),
    lambda key: fn.roi_random_crop(IMAGE, crop_shape=(3, 4), roi_start=(2, 1), roi_shape=(5, 6), key=key),
    lambda key: fn.roi_random_crop(crop_shape=(9, 3), roi_start=(2, 1), roi_end=(4, 9), in_shape=(6, 10), key=key),
    lambda key: fn.segmentation.random_mask_pixel(MASK, foreground=True, value=2, key=key),
    lambda key: fn.segmentation.random_mask_pixel(MASK, foreground=True, threshold=1.5, key=key),
    lambda key: fn.segmentation.random_mask_pixel(MASK, foreground=True, threshold=9.0, key=key),
    lambda key: fn.segmentation.random_mask_pixel(PLANE, foreground=True, threshold=0.25, key=key),
    lambda key: fn.segmentation.random_mask_pixel(PLANE > 3, foreground=True, key=key),
    lambda key: fn.segmentation.random_mask_pixel(np.tile(MASK, (30, 1, 1)), foreground=True, key=key),
    lambda key: fn.segmentation.random_mask_pixel(MASK, key=key),
    lambda _: fn.multi_paste(
        IMAGE, IMAGE[2:], out_anchors_rel=[0, 0, 0.5, 0.5], shapes=[2, 3, 4, 5], dtype=types.FLOAT
    ),
    lambda _: fn.multi_paste(IMAGE, in_ids=[0, 1], output_size=(20, 30)),
    lambda _: fn.paste(IMAGE, ratio=2.0, fill_value=7, paste_x=0.1, paste_y=0.9),
    lambda _: fn.stack(IMAGE, axis=-1),
    lambda _: fn.stack(IMAGE, IMAGE, axis=1),
    lambda _: fn.tensor_resize(IMAGE, sizes=[17], axes=[1]),
    lambda _: fn.tensor_resize(IMAGE, sizes=[4, 30], axes=[0, 1]),
    lambda _: fn.resize_crop_mirror(IMAGE, size=(20, 30), crop=(10, 12), mirror=3, dtype=types.FLOAT),
    lambda _: fn.resize_crop_mirror(IMAGE, size=(20, 30), crop=(30, 12)),
    lambda _: fn.bbox_warp(BOXES, matrix=WARP, input_shape=(40, 60), bbox_layout="xyWH", inverse_map=False),
    lambda _: fn.bbox_warp(BOXES * 30, LABELS, matrix=WARP, input_shape=(40, 60), bbox_normalized=False, size=(30, 30)),
    lambda _: fn.bbox_warp(BOXES, LABELS[:2], matrix=WARP, input_shape=(40, 60)),
    lambda _: fn.coord_warp(POINTS, LABELS, matrix=WARP, input_shape=(40, 60), remove_outside=False),
    lambda _: fn.coord_warp(POINTS * 30, matrix=(*WARP, 0.001, 0.0, 1.0), input_shape=(40, 60), normalized=False),
    lambda _: fn.coord_warp(POINTS, LABELS[:1], matrix=WARP, input_shape=(40, 60)),
    lambda _: fn.box_encoder(BOXES, LABELS, anchors=[0.0, 0.1, 0.5, 0.6] * 2, offset=True, stds=[0.1, 0.2, 0.1, 0.2]),
    lambda key: fn.distortions.grid(IMAGE, cells=(1, 3), key=key),
    lambda key: fn.distortions.grid(IMAGE, cells=[2], key=key),
    lambda key: fn.distortions.thin_plate(IMAGE, points=2, scale=0.3, key=key),
    lambda _: fn.distortions.thin_plate(IMAGE, points=2, moves=[0.1] * 8),
    lambda _: fn.distortions.optical(IMAGE[..., 0], strength=0.4),
    lambda _: fn.water(IMAGE, interp_type=types.INTERP_LINEAR, fill_value=300.0),
    lambda _: fn.water(IMAGE.astype(np.float32), mask=0),
    lambda _: fn.sphere(IMAGE.astype(np.float32), interp_type=types.INTERP_NN, fill_value=1.5),
    lambda key: fn.jitter(IMAGE.astype(np.int16), nDegree=3, key=key),
    lambda key: fn.jitter(IMAGE, nDegree=-1, key=key),
    lambda _: fn.remap(IMAGE, PLANE, PLANE, interp=types.INTERP_NN),
    lambda _: fn.remap(IMAGE, PLANE.astype(np.float64), PLANE, interp=types.INTERP_CUBIC),
    lambda _: fn.mfcc(np.abs(PLANE), axis=1, n_mfcc=3, dct_type=4, normalize=True, lifter=2.0),
    lambda _: fn.mfcc(np.abs(PLANE), axis=0, n_mfcc=30, dct_type=1),
    lambda _: fn.audio_resample(SIGNAL, scale=0.7, quality=10.0),
    lambda _: fn.audio_resample(SIGNAL, scale=1.0),
    lambda _: fn.audio_resample(SIGNAL, out_length=77, dtype=types.INT16),
    lambda _: fn.audio_resample(SIGNAL.reshape(-1, 2), in_rate=2.0, out_rate=3.0),
    lambda _: fn.nonsilent_region(SIGNAL, window_length=16, cutoff_db=-5.0, reference_power=0.5),
    lambda _: fn.nonsilent_region(np.append(SIGNAL, np.float32(np.inf)), window_length=16),
    lambda _: fn.nonsilent_region((SIGNAL * 1000).astype(np.int16), window_length=16),
    lambda _: fn.sequence_rearrange(MASK, new_order=[3, 0, 3]),
    lambda _: fn.sequence_rearrange(MASK, new_order=[9]),
    lambda _: fn.element_extract(MASK, element_map=[4]),
    lambda _: fn.debayer(MASK[..., 0].copy(), blue_position=(1, 0)),
    lambda _: fn.debayer(MASK[:6, :8, 0], blue_position=(1, 0)),
    lambda _: fn.debayer(MASK[..., :1].astype(np.uint16), blue_position=(1, 1), algorithm="gray_ocv"),
    lambda key: fn.weather.fog(IMAGE, density=0.3, roughness=0.9, key=key),
    lambda key: fn.random.normal(mean=2.0, stddev=0.5, shape=(3,), key=key),
    lambda key: fn.random.normal(stddev=1e38, dtype=types.FLOAT16, key=key),
    lambda key: fn.planckian_jitter(IMAGE, temperature=4000.0, key=key),
    lambda _: fn.bbox_warp(BOXES, LABELS, matrix=(*WARP, 0.01, 0.02, 0.4), input_shape=(40, 60), remove_threshold=0.0),
    lambda _: fn.bbox_warp(BOXES, LABELS, matrix=(*WARP, 0.0, 0.0, 0.0), input_shape=(40, 60), remove_threshold=0.0),
    lambda _: fn.bbox_warp(BOXES.astype(np.float64)[:, ::-1], matrix=WARP, input_shape=(40, 60), remove_threshold=0.9),
    lambda _: fn.coord_warp(np.array([[np.nan, 1], [0.5, 0.5]]), LABELS[:2], matrix=WARP, input_shape=(40, 60)),
    lambda _: fn.bbox_rotate(BOXES, LABELS, angle=50.0, input_shape=(40, 60), mode="halfway", remove_threshold=0.7),
    lambda _: fn.bbox_rotate(BOXES * 40, angle=50.0, input_shape=(40, 60), bbox_normalized=False, bbox_layout="xyWH"),
    lambda _: fn.bbox_remap(BOXES, PLANE, PLANE * 2, LABELS, input_shape=(9, 11), pixel_origin="center"),
    lambda _: fn.bbox_remap(BOXES * 8, PLANE, PLANE, bbox_normalized=False, bbox_layout="xyWH", remove_threshold=0.4),
    lambda _: fn.bbox_remap(BOXES, PLANE.astype(np.float64), PLANE, LABELS),
    lambda _: fn.bbox_remap(BOXES, PLANE, PLANE[1:], LABELS),
    lambda _: fn.coord_remap(POINTS, PLANE, PLANE.T.reshape(6, 8), LABELS, input_shape=(9, 11)),
    lambda _: fn.coord_remap(POINTS * 8, PLANE, PLANE, LABELS, normalized=False, remove_outside=False),
    lambda _: fn.coord_transform(POINTS, M=2.5, T=(1.0, -3.0)),
    lambda _: fn.coord_transform(BOXES.reshape(3, 2, 2), MT=np.array([[1, 2, 3], [4, 5, 6.5]])),
    lambda _: fn.coord_transform(POINTS, M=np.array([[1, 2], [3, 4]], np.float32)),
    lambda key: fn.distortions.elastic(IMAGE, alpha=3.0, sigma=0.0, key=key),
    lambda key: fn.distortions.elastic(IMAGE[..., 0], alpha=3.0, sigma=9.0, key=key),
    lambda key: fn.distortions.jigsaw(IMAGE, grid=(4, 3), key=key),
    lambda key: fn.distortions.jigsaw(IMAGE, grid=(20, 1), key=key),
    lambda key: fn.mixup(IMAGE, np.array([0.5, -0.0, np.inf], np.float32), alpha=0.4, key=key),
    lambda key: fn.mixup(PLANE, np.array(2), num_classes=3, share=0.2, key=key),
    lambda key: fn.mixup(PLANE, np.array(3), num_classes=3, key=key),
    lambda key: fn.cutmix(IMAGE[:, ::2], np.array([0.5, -0.0, np.inf]), key=key),
    lambda key: fn.cutmix(IMAGE, np.array(2), num_classes=3, share=2.0, key=key),
    lambda key: fn.noise.shot(PLANE, factor=0.5, key=key),
    lambda key: fn.noise.shot(IMAGE[:, ::2], factor=30.0, key=key),
    lambda key: fn.noise.shot(IMAGE, factor=0.0, key=key),
    lambda _: fn.power_spectrum(SIGNAL, nfft=100, power=1),
    lambda _: fn.power_spectrum(PLANE, axis=0),
    lambda _: fn.power_spectrum(PLANE.astype(np.float64), nfft=11),
    lambda key: fn.random.beta(alpha=0.5, beta=2.0, shape=(2, 3), dtype=types.FLOAT64, key=key),
    lambda key: fn.random.choice(PLANE, shape=(2, 2), key=key),
    lambda key: fn.random.choice(np.array(9, np.uint8), shape=(5,), key=key),
    lambda key: fn.random.choice(np.array(-1), shape=(5,), key=key),
    lambda key: fn.random.coin_flip(probability=0.9, shape=(2, 3), dtype=types.FLOAT, key=key),
    lambda key: fn.random.normal(PLANE, stddev=3.0, dtype=types.FLOAT64, key=key),
    lambda key: fn.random.uniform(PLANE, range=(2.0, np.nextafter(np.float32(2.0), np.float32(3.0))), key=key),
    lambda key: fn.random_crop_generator(np.array([40, 60], np.uint8), random_aspect_ratio=(0.1, 9.0), key=key),
    lambda key: fn.random_crop_generator(np.array([4, 600, 3]), random_area=(0.9, 1.0), num_attempts=2, key=key),
    lambda key: fn.random_crop_generator(np.array([0, 600]), key=key),
    lambda _: fn.tensor_resize(IMAGE, sizes=[17], axes=[1], interp_type=types.INTERP_GAUSSIAN),
    lambda _: fn.tensor_resize(IMAGE.astype(np.float32), sizes=[4], axes=[0]),
    lambda _: fn.tensor_resize(PLANE, sizes=[4, 19], dtype=types.FLOAT),
    lambda _: fn.tensor_resize(IMAGE[..., 0], sizes=[4], axes=[1]),
    lambda _: fn.box_encoder(BOXES.astype(np.float64), LABELS[:, None], anchors=[0.0, 0.1, 0.5, 0.6] * 3),
    lambda _: fn.box_encoder(BOXES[:, ::-1], LABELS.astype(np.uint8), anchors=[0.0, 0.1, 0.5, 0.6], criteria=0.1),
    lambda _: fn.grid_mask(IMAGE[:, ::2], tile=3, angle=0.3, shift_x=1.5),
    lambda _: fn.grid_mask(PLANE, tile=4, ratio=0.3),
    lambda _: fn.grid_mask(IMAGE, tile=0),
    lambda _: fn.decoders.inflate(LITERAL, shape=(2, 4)),
    lambda _: fn.decoders.inflate(np.repeat(LITERAL, 2)[::2], shape=(2,), dtype=types.UINT32),
    lambda _: fn.decoders.inflate(LITERAL, shape=(9,)),
    lambda _: fn.decoders.inflate(LITERAL[:5], shape=(8,)),
    lambda key: fn.segmentation.random_object_bbox(MASK, foreground_prob=0.5, format="start_end", key=key),
    lambda key: fn.segmentation.random_object_bbox(MASK, foreground_prob=0.3, output_class=True, k_largest=2, key=key),
    lambda key: fn.segmentation.random_object_bbox(MASK[:0], format="box", key=key),
    lambda _: fn.transforms.combine(PLANE[:2, :3], PLANE[2:4, :3], reverse_order=True),
    lambda _: fn.transforms.combine(PLANE[:3, :4].astype(np.float64), PLANE[3:, :4]),
    lambda key: fn.distortions.thin_plate(IMAGE, points=3, scale=0, key=key),
    lambda key: fn.weather.fog(IMAGE.astype(np.float32), variation=0.9, key=key),
    lambda key: fn.weather.fog(IMAGE, roughness=2.0, key=key),
    lambda _: fn.segmentation.select_masks(np.array([2, 5]), POLYGONS, PLANE),
    lambda _: fn.segmentation.select_masks(np.array([5, 2, 7], np.int16), POLYGONS, PLANE, reindex_masks=True),
    lambda _: fn.segmentation.select_masks(np.array([5, 2, 5]), POLYGONS, PLANE),
    lambda _: fn.segmentation.select_masks(np.array([3]), POLYGONS, PLANE),
    lambda _: fn.segmentation.select_masks(np.array([7, 5]), POLYGONS, PLANE[:4]),
    lambda _: fn.segmentation.select_masks(np.array([], np.int32), POLYGONS, PLANE),
]


def outcome(call):
    """The outputs of a call, or its error."""
    try:
        result = call()
    except Exception as error:
        return type(error), str(error)
    return [(x.dtype, x.shape, x.tobytes()) for x in (result if isinstance(result, (list, tuple)) else [result])]


@pytest.mark.parametrize("call", OTHERS, ids=range(len(OTHERS)))
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_other_arguments_have_the_same_result_again(call):
    """Each key, the first time and later, for arguments and data other than those of the examples, errors among them."""
    for op in registry.values():
        op.forget_calls()
    for key in (3, 3, 3, 4, 5, (1 << 63) + 5, 7, 8, 9):
        assert outcome(lambda key=key: call(key)) == outcome(lambda key=key: the_whole_way(lambda: call(key)))


def wav(channels, width, count):
    """A WAV file with some sound."""
    file, sound = io.BytesIO(), np.random.default_rng(count).bytes(channels * width * count)
    with wave.open(file, "wb") as writer:
        writer.setnchannels(channels)
        writer.setsampwidth(width)
        writer.setframerate(8000)
        writer.writeframes(sound)
    return np.frombuffer(file.getvalue(), np.uint8)


def test_files_of_several_kinds_take_turns(monkeypatch):
    """A short form is for files of one kind, of all lengths and at all places in memory; the body decodes the others."""
    op = registry["decoders.audio"]
    op.forget_calls()
    monkeypatch.setattr(kernels.jit, "kept", lambda *_: True)  # the kernels may be compiled
    files = [wav(1, 2, 40), wav(1, 2, 40), wav(1, 2, 90), wav(2, 2, 40), wav(1, 1, 50), wav(1, 4, 40), wav(1, 2, 41)]
    odd = np.empty(len(files[0]) + 1, np.uint8)[1:]
    odd[:] = files[0]
    for file in [*files, odd, *files]:
        got = fn.decoders.audio(file)
        for one, other in zip(got, the_whole_way(lambda file=file: fn.decoders.audio(file)), strict=True):
            np.testing.assert_array_equal(one, other)
    monkeypatch.setattr(op, "body", None)
    sound, rate = fn.decoders.audio(files[2])
    assert (sound.shape, rate) == ((90, 1), 8000)


def test_files_are_read_again_by_compiled_code(tmp_path, monkeypatch):
    """Files of any size, and paths with zeros at their end; the body reports the errors of the others."""
    read, sizes = registry["io.file.read"], (5, 200_000, 0, 300, 299, 301)
    block = np.empty(0, np.uint8)
    kernels.whole_files.read_path(1, 1, 1, 1, 1, np.frombuffer(b"://", np.uint8), block)  # compiled for arrays of bytes
    monkeypatch.setattr(kernels.jit, "kept", lambda *_: True)
    paths = [tmp_path / f"{size}.bin" for size in sizes]
    for path, size in zip(paths, sizes):
        path.write_bytes(np.random.default_rng(size).bytes(size))
    read.forget_calls()
    for ending in (b"", b"\0\0"):
        for path in [*paths, *paths]:
            name = np.frombuffer(bytes(path) + ending, np.uint8)
            for _ in range(4):
                found = fn.io.file.read(name)
                assert found.tobytes() == path.read_bytes()
                assert found.flags.owndata
                assert found.flags.writeable
    with monkeypatch.context() as patch:
        patch.setattr(read, "body", None)
        assert fn.io.file.read(name).tobytes() == path.read_bytes()
    for wrong, text in ((b"none", "No such file"), (b"a\0b", "has a zero in it"), (b"", "is empty"), (b".", "regular")):
        for _ in range(4):
            with pytest.raises((OSError, ValueError), match=text):
                fn.io.file.read(np.frombuffer(wrong, np.uint8))


@pytest.mark.parametrize("algorithm", ["edgeaware_ocv", "vng_ocv", "gray_ocv", "bilinear_ocv", "default_npp"])
def test_raw_data_are_the_same_image_again(algorithm):
    """For every form of the data, in one axis after another."""
    whole = np.random.default_rng(6).integers(0, 256, (12, 16), dtype=np.uint8)
    for data in (
        whole,
        whole[::2, ::2],
        whole[::-1],
        np.asfortranarray(whole),
        whole[..., None],
        whole.astype(np.uint16),
    ):
        if algorithm == "vng_ocv" and data.dtype != np.uint8:
            for _ in range(4):
                with pytest.raises(TypeError, match="vng_ocv takes uint8"):
                    fn.debayer(data, blue_position=(0, 1), algorithm=algorithm)
            continue
        expected = the_whole_way(lambda data=data: fn.debayer(data, blue_position=(0, 1), algorithm=algorithm))
        for _ in range(4):
            np.testing.assert_array_equal(fn.debayer(data, blue_position=(0, 1), algorithm=algorithm), expected)
