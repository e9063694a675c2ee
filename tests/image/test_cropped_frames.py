"""The depth of a crop's window in a sequence of images is its number of frames, as in DALI."""

import numpy as np
import pytest

from pipeflow import fn, pipeline_def, types

VIDEO = np.arange(6 * 8 * 10 * 3, dtype=np.uint8).reshape(6, 8, 10, 3)
LAYOUTS = {"FHWC": (0, 1, 2, 3), "FCHW": (0, 3, 1, 2)}


def made(build, layout="FHWC", **options):
    """The output of a pipeline whose input is the video in this layout, with the frames last axis but three."""

    @pipeline_def(batch_size=2, num_threads=1, device_id=None, **options)
    def definition():
        video = np.ascontiguousarray(VIDEO.transpose(LAYOUTS[layout]))
        return build(fn.external_source(lambda: [video, video[:4]], layout=layout))

    (out,) = definition().run()
    order = np.argsort(LAYOUTS[out.layout()])
    return [out.at(i).transpose(order) for i in range(2)]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("window", [{"crop": (3, 4, 5)}, {"crop_d": 3, "crop_h": 4, "crop_w": 5}])
def test_a_window_of_frames(layout, window):
    """Three frames of six begin at 1.5, rounded up to 2; of four at 0.5, rounded up to 1."""
    for first, frames in zip((2, 1), made(lambda x: fn.crop(x, **window), layout), strict=True):
        np.testing.assert_array_equal(frames, VIDEO[first : first + 3, 2:6, 3:8])
    normalized = made(
        lambda x: fn.crop_mirror_normalize(x, **window, output_layout=layout, mirror=1, mean=[7.0]), layout
    )
    np.testing.assert_array_equal(normalized[0], VIDEO[2:5, 2:6, 7:2:-1] - np.float32(7))


def test_the_window_may_differ_from_sample_to_sample():
    """A node of three numbers takes frames, one of two does not; a depth of 0 takes all frames."""
    sizes = made(lambda x: fn.crop(x, crop=fn.external_source(lambda: np.float32([[2, 4, 5], [3, 4, 5]]))))
    assert [len(frames) for frames in sizes] == [2, 3]
    sizes = made(lambda x: fn.crop(x, crop=fn.external_source(lambda: np.float32([[4, 5], [4, 6]]))))
    assert [frames.shape for frames in sizes] == [(6, 4, 5, 3), (4, 4, 6, 3)]
    sizes = made(lambda x: fn.crop(x, crop_h=4, crop_w=5, crop_d=fn.external_source(lambda: np.float32([2, 0]))))
    assert [len(frames) for frames in sizes] == [2, 4]


@pytest.mark.parametrize("policy", ["pad", "trim_to_shape", "error"])
def test_a_window_with_more_frames(policy):
    """Six frames in a window of eight have one of the fill value before and one after them."""
    window = {"crop": (8, 4, 5), "out_of_bounds_policy": policy, "fill_values": [9]}
    builds = [
        lambda x: fn.crop(x, **window),
        lambda x: fn.crop_mirror_normalize(x, **window, dtype=types.UINT8, output_layout="FHWC"),
    ]
    for build in builds:
        if policy == "error":
            with pytest.raises(RuntimeError, match="out of bounds"):
                made(build)
            continue
        frames = made(build)[0]
        if policy == "pad":
            assert (frames[[0, 7]] == 9).all()
            frames = frames[1:7]
        np.testing.assert_array_equal(frames, VIDEO[:, 2:6, 3:8])


def test_frames_are_cut_after_a_resize():
    """A chain gets frames one by one, so such a crop is not fused; other crops are."""
    resized = made(lambda x: fn.resize(x, size=(6, 6)))[0]
    both = made(lambda x: fn.crop_mirror_normalize(fn.resize(x, size=(6, 6)), crop=(2, 3, 4), output_layout="FHWC"))[0]
    np.testing.assert_array_equal(both, resized[2:4, 2:5, 1:5])
    flat = made(lambda x: fn.crop_mirror_normalize(fn.resize(x, size=(6, 6)), crop=(3, 4), output_layout="FHWC"))[0]
    np.testing.assert_array_equal(flat, resized[:, 2:5, 1:5])


def test_frames_of_a_volume_and_eager_calls():
    """A sequence of volumes has a depth of its own. Eager calls of frames without a layout are of volumes."""
    volumes = VIDEO[:, None].repeat(4, 1)

    @pipeline_def(batch_size=1, num_threads=1, device_id=None)
    def definition():
        return fn.crop(fn.external_source(lambda: [volumes], layout="FDHWC"), crop=(2, 4, 5))

    assert definition().run()[0].at(0).shape == (6, 2, 4, 5, 3)
    np.testing.assert_array_equal(fn.crop(VIDEO, crop=(3, 4, 5)), VIDEO[2:5, 2:6, 3:8])
