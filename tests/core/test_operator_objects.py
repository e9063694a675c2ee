"""Objects of ``ops``: what they answer, how they are called, and DALI's spelling of their names."""

import numpy as np
import pytest

from pipeflow import backend, ops, pipeline_def, types
from pipeflow.declare import registry

IMAGE = np.arange(24, dtype=np.uint8).reshape(2, 4, 3)


def test_an_object_says_where_it_runs_and_what_it_was_given():
    """``device``, ``preserve``, ``schema``, ``schema_name``, ``spec``, and the arguments by their names."""
    flip = ops.Flip(vertical=1, preserve=True)
    assert (flip.device, flip.preserve, flip.schema_name) == ("cpu", True, "Flip")
    assert (flip.vertical, flip.horizontal) == (1, True)
    assert flip.spec == {"vertical": 1, "preserve": True}
    assert flip.schema is registry["flip"]
    assert ops.decoders.Image(device="mixed").device == "mixed"
    assert ops.readers.File(file_root="x").schema_name == "readers__File"
    with pytest.raises(AttributeError, match=r"'ops.Flip' object has no attribute 'axes'"):
        flip.axes  # noqa: B018


def test_an_unknown_argument_is_refused_at_construction():
    """Before any call, with the nearest name, as a KeyError; those that DALI has and pipeflow ignores are taken."""
    with pytest.raises(KeyError, match=r"Argument \"horizontale\" is not defined for operator \"Flip\".*horizontal"):
        ops.Flip(horizontale=1)
    ops.Resize(size=(2, 2), temp_buffer_hint=3, device="cpu", name="x", bytes_per_sample_hint=[8])
    ops.random.Uniform(seed=3)


def test_none_in_a_call_says_nothing():
    """The object keeps the value it has."""
    assert (ops.Brightness(brightness=2.0)(IMAGE, brightness=None) == 2 * IMAGE).all()
    assert ops.Resize(size=(2, 3))(IMAGE, size=None).shape == (2, 3, 3)


@pytest.mark.parametrize(
    ("name", "present"),
    [
        ("MFCC", "mfcc"), ("BBoxPaste", "bbox_paste"), ("BBoxRotate", "bbox_rotate"), ("BbFlip", "bb_flip"),
        ("reductions.RMS", "reductions.rms"), ("readers.MXNet", "readers.mxnet"), ("readers.TFRecord", "readers.tfrecord"),
        ("ROIRandomCrop", "roi_random_crop"), ("SSDRandomCrop", "ssd_random_crop"), ("readers.COCO", "readers.coco"),
        ("RandomBBoxCrop", "random_bbox_crop"), ("DLTensorPythonFunction", "dl_tensor_python_function"),
        ("segmentation.RandomObjectBBox", "segmentation.random_object_bbox"), ("experimental.Debayer", "debayer"),
        ("experimental.decoders.ImageCrop", "decoders.image_crop"), ("TFRecordReader", "readers.tfrecord"),
        ("MXNetReader", "readers.mxnet"), ("NemoAsrReader", "readers.nemo_asr"), ("Hsv", "hsv"),
    ],
)  # fmt: skip
def test_classes_are_spelled_as_dali_spells_them(name, present):
    """Also those of former names."""
    place = ops
    for part in name.split("."):
        place = getattr(place, part)
    assert place.op is registry[present]


def test_composed_operators_run_one_after_another():
    """Each gets the result of the one before; functions of nodes count as operators; an empty list changes nothing."""

    @pipeline_def(batch_size=1, num_threads=1, device_id=None)
    def definition():
        image = types.Constant(IMAGE, layout="HWC", device="cpu")
        both = ops.Compose([ops.Flip(horizontal=1), lambda x: (x, x), ops.Cat(axis=0)])
        return ops.Compose([ops.Flip(horizontal=1), ops.Crop(crop=(1, 2))])(image), both(image), ops.Compose([])(image)

    cropped, joined, same = [np.array(out.at(0)) for out in definition().run()]
    np.testing.assert_array_equal(cropped, IMAGE[:, ::-1][1:2, 1:3])
    np.testing.assert_array_equal(joined, np.concatenate([IMAGE[:, ::-1]] * 2))
    np.testing.assert_array_equal(same, IMAGE)


def test_lists_of_operators_have_the_names_of_dalis_registry():
    """``ops.cpu_ops()`` and the backend's lists."""
    assert {"Resize", "readers__File", "io__file__Read", "MFCC"} <= ops.cpu_ops()
    assert "decoders__Image" in ops.mixed_ops()
    assert "Resize" in ops.gpu_ops()
    assert backend.RegisteredCPUOps() == sorted(ops.cpu_ops())
    assert backend.RegisteredGPUOps() == sorted(ops.gpu_ops())
    assert backend.RegisteredMixedOps() == sorted(ops.mixed_ops())
