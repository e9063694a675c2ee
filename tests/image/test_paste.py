"""Images put into other images, or hidden in parts; values by hand and by plain NumPy."""

import numpy as np
import pytest

from pipeflow import fn, pipeline_def, types
from pipeflow.kernels import cpu as kernels
from pipeflow.tensors import TensorListCPU

F = np.float32
SMALL = np.arange(1, 5, dtype=np.uint8).reshape(2, 2, 1)
ONE, FIVE = np.full((2, 2, 1), 1, np.uint8), np.full((2, 2, 1), 5, np.uint8)


def refused(match, kind, call):
    """The call fails with this type and words."""
    with pytest.raises(kind, match=match):
        call()


def test_paste_by_hand():
    """In the middle of a canvas twice as large; at its corner; a least extent for a canvas that would be smaller."""
    found = fn.paste(SMALL, ratio=2.0, fill_value=7)[..., 0]
    assert found.tolist() == [[7, 7, 7, 7], [7, 1, 2, 7], [7, 3, 4, 7], [7, 7, 7, 7]]
    assert fn.paste(SMALL, ratio=2.0, fill_value=7, paste_x=0.0, paste_y=1.0)[2:, :2, 0].tolist() == [[1, 2], [3, 4]]
    assert fn.paste(SMALL, ratio=1.0, fill_value=7, min_canvas_size=4.0).shape == (4, 4, 1)
    colour = np.repeat(SMALL, 3, 2)
    assert fn.paste(colour, ratio=1.5, fill_value=(7, 8, 9))[2, 2].tolist() == [7, 8, 9]
    refused("ratio must be at least 1, got 0.5", ValueError, lambda: fn.paste(SMALL, ratio=0.5, fill_value=7))
    refused(
        "paste_x must be between 0 and 1", ValueError, lambda: fn.paste(SMALL, ratio=1.5, fill_value=7, paste_x=1.5)
    )
    refused("fill_values has 2 values", ValueError, lambda: fn.paste(colour, ratio=1.5, fill_value=(7, 8)))


def test_pasted_boxes_lie_where_the_image_is():
    """bbox_paste and paste take the same arguments: the box of the whole image is where its pixels end up."""
    image = np.full((40, 60, 3), 9, np.uint8)
    options = {"ratio": 2.5, "paste_x": 0.3, "paste_y": 0.8}
    canvas = fn.paste(image, fill_value=0, **options)
    rows, columns, _ = np.nonzero(canvas)
    box = fn.bbox_paste(np.array([[0, 0, 1, 1]], F), ltrb=True, **options)[0] * np.array([150, 100, 150, 100])
    assert np.abs(box - [columns.min(), rows.min(), columns.max() + 1, rows.max() + 1]).max() < 1.001


def test_multi_paste_by_hand():
    """Two images on a canvas of 3 x 3, the second on top; parts of them; a canvas for each sample."""
    data = TensorListCPU([ONE, FIVE], "HWC")
    found = fn.multi_paste(data, in_ids=[0, 1], output_size=(3, 3), out_anchors=[0, 0, 1, 1])
    assert np.asarray(found.at(0))[..., 0].tolist() == [[1, 1, 0], [1, 5, 5], [0, 5, 5]]
    assert (np.asarray(found.at(1)) == np.asarray(found.at(0))).all()
    counted = TensorListCPU([SMALL, SMALL + 4], "HWC")
    ids = TensorListCPU([np.int32([1]), np.int32([0, 1])])
    starts = TensorListCPU([np.int32([[1, 0]]), np.int32([[0, 1], [0, 0]])])
    sizes = TensorListCPU([np.int32([[1, 2]]), np.int32([[2, 1], [1, 1]])])
    found = fn.multi_paste(counted, in_ids=ids, in_anchors=starts, shapes=sizes, output_size=(2, 3))
    assert np.asarray(found.at(0))[..., 0].tolist() == [[7, 8, 0], [0, 0, 0]]
    assert np.asarray(found.at(1))[..., 0].tolist() == [[5, 0, 0], [4, 0, 0]]
    relative = fn.multi_paste(counted, in_ids=[0], in_anchors_rel=[0.5, 0.6], shapes_rel=[0.3, 0.4], output_size=(2, 2))
    assert np.asarray(relative.at(0))[..., 0].tolist() == [[4, 0], [0, 0]]  # rounded down and up
    whole = fn.multi_paste(SMALL, in_ids=[0], output_size=(3, 2, 1))  # the channels may be named too, as in DALI
    assert whole[..., 0].tolist() == [[1, 2], [3, 4], [0, 0]]
    several = fn.multi_paste(SMALL, SMALL + 4, output_size=(2, 4), out_anchors=[0, 0, 0, 2], dtype=types.INT16)
    assert several.dtype == np.int16
    assert several[..., 0].tolist() == [[1, 2, 5, 6], [3, 4, 7, 8]]


def test_wrong_pastes_are_explained():
    """Parts that leave an image or a canvas, samples that are not there, and numbers that do not fit; the sample is named."""
    data = TensorListCPU([ONE, FIVE], "HWC")
    options = {"output_size": (3, 3)}
    refused(
        "leaves its canvas of 3 x 3",
        ValueError,
        lambda: fn.multi_paste(data, in_ids=[0], out_anchors=[2, 2], **options),
    )
    refused(
        "may end with the image's 1 channel, got",
        ValueError,
        lambda: fn.multi_paste(data, in_ids=[0], output_size=(3, 3, 3)),
    )
    refused("leaves its input of 2 x 2", ValueError, lambda: fn.multi_paste(data, in_ids=[0], shapes=[3, 1], **options))
    refused("names sample 2, the batch has 2", IndexError, lambda: fn.multi_paste(data, in_ids=[2], **options))
    refused("in_ids is for one input, got 2", ValueError, lambda: fn.multi_paste(data, data, in_ids=[0], **options))
    refused(
        "shapes has 1 values for 1 regions", ValueError, lambda: fn.multi_paste(data, in_ids=[0], shapes=[3], **options)
    )
    refused("exclude each other", ValueError, lambda: fn.multi_paste(data, shapes=[1, 1], shapes_rel=[1, 1], **options))
    mixed = TensorListCPU([ONE, np.repeat(FIVE, 3, 2)], "HWC")
    refused("have 1 and 3 channels", ValueError, lambda: fn.multi_paste(mixed, in_ids=[0, 1], **options))


def test_a_mosaic_in_a_pipeline():
    """Four drawn samples of the batch on each canvas: every quarter is one of the images."""
    images = [np.full((8, 8, 3), 10 * n + 5, np.uint8) for n in range(6)]

    @pipeline_def(batch_size=6, num_threads=2, seed=1)
    def pipe():
        data = fn.external_source(lambda: images, layout="HWC")
        ids = fn.cast(fn.random.uniform(range=(0.0, 6.0), shape=(4,)) - 0.5, dtype=types.INT32)
        places = types.Constant(np.int32([[0, 0], [0, 8], [8, 0], [8, 8]]))
        return fn.multi_paste(data, in_ids=ids, out_anchors=places, output_size=(16, 16)), ids

    canvases, ids = pipe().run()
    for canvas, chosen in zip(canvases.samples(), ids.samples()):
        corners = np.asarray(canvas)[[0, 0, 15, 15], [0, 15, 0, 15], 0]
        assert corners.tolist() == [10 * n + 5 for n in chosen]


@pytest.mark.parametrize("heights", [(8, 8, 8), (8, 9, 10)])
def test_canvases_of_the_extents_of_samples(heights):
    """Each sample has the start of its own image and of the one before it; canvases of one shape are one array."""
    images = [np.full((height, 7, 3), 10 * n + 5, np.uint8) for n, height in enumerate(heights)]
    pairs = [np.int32([n, n - 1 if n else 2]) for n in range(3)]

    @pipeline_def(batch_size=3, num_threads=1, device_id=None)
    def pipe():
        data, ids = fn.external_source(lambda: images, layout="HWC"), fn.external_source(lambda: pairs)
        ends = types.Constant(np.int32([[2, 3], [2, 3]]))
        return fn.multi_paste(data, in_ids=ids, shapes=ends, out_anchors=types.Constant(np.int32([[0, 0], [1, 2]])))

    (canvases,) = pipe().run()
    for image, (own, other), canvas in zip(images, pairs, canvases.samples(), strict=True):
        wanted = np.zeros_like(image)
        wanted[:2, :3], wanted[1:3, 2:5] = 10 * own + 5, 10 * other + 5
        assert (np.asarray(canvas) == wanted).all()
    if len(set(heights)) == 1:
        assert np.shares_memory(canvases.as_array(), canvases.at(1))


def test_grid_mask_by_hand():
    """Half of each tile of four, a quarter of it, and moved by one."""
    image = np.full((8, 8), 9, np.uint8)
    assert fn.grid_mask(image, tile=4)[[0, 1, 2]].tolist() == [[0, 0, 9, 9] * 2, [0, 0, 9, 9] * 2, [9] * 8]
    assert fn.grid_mask(image, tile=4, ratio=0.25)[[0, 1]].tolist() == [[0, 9, 9, 9] * 2, [9] * 8]
    assert fn.grid_mask(image, tile=4, shift_x=1.0, shift_y=1.0)[[0, 1]].tolist() == [[9] * 8, [9, 0, 0, 9] * 2]
    planes = TensorListCPU([np.stack([image, image])], "CHW")
    assert (np.asarray(fn.grid_mask(planes, tile=4).at(0))[1] == fn.grid_mask(image, tile=4)).all()
    refused("tile must be at least 1, got 0", ValueError, lambda: fn.grid_mask(image, tile=0))


def test_grid_mask_by_its_formula():
    """A turned grid by plain NumPy."""
    image = np.ones((31, 44, 3), F)
    y, x = np.mgrid[:31, :44]
    across = (np.cos(0.7) * x - np.sin(0.7) * y - 3.25) / 9
    down = (np.sin(0.7) * x + np.cos(0.7) * y + 1.5) / 9
    hidden = (across % 1 < 0.6) & (down % 1 < 0.6)
    found = fn.grid_mask(image, tile=9, ratio=0.6, angle=0.7, shift_x=3.25, shift_y=-1.5)
    assert (found[..., 0] == ~hidden).all()


def test_paste_in_a_pipeline_that_does_not_know_the_shapes():
    """The canvas of each image is found when the pipeline runs."""
    images = [np.full((4, 6, 3), 9, np.uint8), np.full((2, 2, 3), 7, np.uint8)]

    @pipeline_def(batch_size=2, num_threads=1, device_id=None, prefetch_queue_depth=1)
    def define():
        return fn.paste(fn.external_source(source=lambda: images, batch=True, layout="HWC"), ratio=1.5, fill_value=1)

    assert define().run()[0].shape() == [(6, 9, 3), (3, 3, 3)]


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.float32])
def test_a_repeated_call_pastes_the_same(dtype, monkeypatch):
    """Its compiled form, for images whose rows are apart too, and parts that cover others."""
    monkeypatch.setattr(kernels.jit, "kept", lambda *_: True)
    rng = np.random.default_rng(3)
    for channels in (1, 3, 4):
        image = rng.integers(0, 100, (21, 60, channels)).astype(dtype)[:, ::2]
        canvas = np.full((31, 45, channels), range(channels), dtype)
        canvas[5:26, 7:37] = image
        both = np.zeros((40, 70, channels), dtype)
        both[:21, 3:33] = image
        both[10:20, 20:34] = image[4:14, 5:19]
        for _ in range(4):
            made = fn.paste(image, ratio=1.5, fill_value=list(range(channels)))
            np.testing.assert_array_equal(made, canvas)
            anchors = {"in_anchors": [0, 0, 4, 5], "shapes": [21, 30, 10, 14], "out_anchors": [0, 3, 10, 20]}
            made = fn.multi_paste(image, in_ids=[0, 0], output_size=(40, 70), **anchors)
            np.testing.assert_array_equal(made, both)
            assert made.dtype == dtype
