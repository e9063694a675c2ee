"""Sequences and per-frame arguments: one place runs any operator frame by frame."""

import numpy as np
import pytest

from pipeflow import fn, pipeline_def
from pipeflow.declare import Arg, Out, Sample, operator, registry
from pipeflow.tensors import TensorListCPU


@pytest.fixture
def shift():
    """An operator on single images that is declared for sequences."""

    @operator("_test_shift", layouts="HWC FHWC CHW DHWC FDHWC", sequences=True, hidden=True)
    def shift(image: Sample, /, *, by: Arg[float] = 1.0, out: Out, layouts) -> Sample:
        """Adds a number."""
        assert layouts[0] in ("HWC", "CHW", "DHWC")
        out[...] = image + by
        return out

    shift.infer(lambda specs, args: specs[0])
    yield shift
    del registry["_test_shift"]


def test_every_frame_goes_through_the_body(shift):
    """A sequence gives the frames' own results in one block with the sequence's layout."""
    clip = np.arange(24, dtype=np.float32).reshape(2, 2, 2, 3)
    result = shift(TensorListCPU([clip], "FHWC"))
    assert result.layout() == "FHWC"
    assert (result.at(0) == clip + 1).all()


def test_per_frame_arguments_change_from_frame_to_frame(shift):
    """An argument whose layout starts with F has one value a frame; a plain one holds for all frames."""
    clip = np.zeros((3, 2, 2, 1), np.float32)
    steps = TensorListCPU([np.array([1.0, 5.0, 9.0], np.float32)], "F")
    result = shift(TensorListCPU([clip], "FHWC"), by=steps)
    assert result.at(0)[:, 0, 0, 0].tolist() == [1, 5, 9]
    same = shift(TensorListCPU([clip], "FHWC"), by=TensorListCPU([np.float32(4)]))
    assert (same.at(0) == 4).all()


def test_one_value_beside_one_for_each_frame_holds_for_all_frames():
    """Of several arguments the longest says how many frames there are, whatever their order."""
    angles = TensorListCPU([np.array([0.0, 90.0, 180.0], np.float32)], "F")
    centre = TensorListCPU([np.array([[1.0, 2.0]], np.float32)], "F*")
    found = fn.transforms.rotation(angle=angles, center=centre).at(0)
    assert found.shape == (3, 2, 3)
    for angle, matrix in zip((0, 90, 180), found):
        np.testing.assert_array_equal(matrix, fn.transforms.rotation(angle=float(angle), center=(1.0, 2.0)))


def test_a_wrong_number_of_values_is_named(shift):
    """The message tells both counts."""
    clip = np.zeros((3, 2, 2, 1), np.float32)
    steps = TensorListCPU([np.array([1.0, 5.0], np.float32)], "F")
    with pytest.raises(ValueError, match="argument 'by' has 2 values for a sequence of 3 frames"):
        shift(TensorListCPU([clip], "FHWC"), by=steps)


def test_volumes_are_no_sequences(shift):
    """A layout without F goes to the body whole; the first declared layout is taken when none is given."""
    volume = np.zeros((2, 2, 2, 1), np.float32)
    assert shift(TensorListCPU([volume], "DHWC")).layout() == "DHWC"
    assert shift(TensorListCPU([volume])).layout() == "FHWC"


@pytest.mark.parametrize("deep", [False, True])
def test_sequences_with_their_channels_first(deep):
    """CFHW and CFDHW give what the same frames give in FHWC and FDHWC."""
    frames = np.random.default_rng(4).integers(0, 256, (2, 3, 20, 24, 3) if deep else (2, 20, 24, 3), dtype=np.uint8)
    last = TensorListCPU([frames], "FDHWC" if deep else "FHWC")
    first = TensorListCPU([np.moveaxis(frames, -1, 0).copy()], "CFDHW" if deep else "CFHW")
    blurred = fn.gaussian_blur(first, window_size=5)
    assert blurred.layout() == first.layout()
    assert np.array_equal(np.moveaxis(blurred.at(0), 0, -1), fn.gaussian_blur(last, window_size=5).at(0))
    options = {"crop_h": 8, "crop_w": 10, "mirror": 1, "mean": [1.0, 2.0, 3.0], "std": [4.0], "output_layout": "HWC"}
    expected = fn.crop_mirror_normalize(last, **options)
    made = fn.crop_mirror_normalize(first, **options)
    assert made.layout() == expected.layout() == last.layout()
    assert np.array_equal(made.at(0), expected.at(0))
    planes = fn.crop_mirror_normalize(first, **{**options, "output_layout": "CHW"})
    assert planes.layout() == first.layout()
    assert np.array_equal(np.moveaxis(planes.at(0), 0, -1), expected.at(0))


IMAGE = np.random.default_rng(5).integers(0, 256, (6, 7, 3), dtype=np.uint8)
MOVES = np.array([[[1, 0, shift], [0, 1, 0]] for shift in (0, 1, -2)], np.float32)
BLURS = np.random.default_rng(6).uniform(0, 0.2, (3, 3, 3)).astype(np.float32)
MATRICES = [
    (fn.warp_affine, MOVES, {"fill_value": 0.0}),
    (fn.warp_perspective, np.concatenate([MOVES, [[[0, 0, 1]]] * 3], 1).astype(np.float32), {"fill_value": 0.0}),
    (fn.filter, BLURS, {}),
]


@pytest.mark.parametrize(
    ("op", "values", "arguments", "layout"),
    [*[(*case, "HWC") for case in MATRICES], *[(*case, None) for case in MATRICES[:2]]],
)
def test_an_image_with_a_matrix_for_each_frame(op, values, arguments, layout):
    """It becomes a sequence: each frame is the image with one of the matrices, in pipelines also after they are compiled."""
    expected = np.stack([op(IMAGE, value, **arguments) for value in values])

    @pipeline_def(batch_size=3, num_threads=2, device_id=None)
    def define():
        images = fn.external_source(lambda: [IMAGE] * 3, layout=layout)
        frames = fn.per_frame(fn.external_source(lambda: [values, values[:1], values[1:]]))
        return op(images, frames, **arguments)

    pipe = define()
    pipe.build()
    for _ in range(5):
        (found,) = pipe.run()
        assert found.layout() == "FHWC"
        for sample, frames in zip(found, (expected, expected[:1], expected[1:])):
            np.testing.assert_array_equal(np.asarray(sample), frames)


def test_an_image_with_the_matrix_of_a_single_frame():
    """The result is a sequence of one frame, also where all samples have as many numbers as a matrix without frames."""

    @pipeline_def(batch_size=2, num_threads=1, device_id=None)
    def define():
        images = fn.external_source(lambda: [IMAGE] * 2, layout="HWC")
        return fn.warp_affine(images, fn.external_source(lambda: [MOVES[:1]] * 2, layout="FHW"), fill_value=0.0)

    pipe = define()
    pipe.build()
    for _ in range(5):
        (found,) = pipe.run()
        assert [np.asarray(sample).shape for sample in found] == [(1, *IMAGE.shape)] * 2


def test_the_sequence_of_an_image_is_known_to_the_graph():
    """If the types of both inputs are declared, that of the result has the axis of frames."""
    found = []

    @pipeline_def(batch_size=1, num_threads=1, device_id=None)
    def define():
        images = fn.external_source(lambda: [IMAGE], layout="HWC")
        known = fn.external_source(lambda: [MOVES], layout="F**")
        results = (fn.warp_affine(images, known), fn.warp_affine(images, fn.external_source(lambda: [MOVES[0]])))
        found.extend([(result.ndim, result.layout) for result in results])
        return results

    define()
    assert found == [(4, "FHWC"), (None, None)]


@pytest.mark.parametrize(("op", "values", "arguments"), MATRICES)
def test_inputs_with_different_numbers_of_frames(op, values, arguments):
    """All sequences have the same number of frames; no matrix is left out."""
    clip = TensorListCPU([np.stack([IMAGE, IMAGE])], "FHWC")
    with pytest.raises(ValueError, match="input 0 has 2 frames and input 1 has 3"):
        op(clip, fn.per_frame(TensorListCPU([values])), **arguments)
    with pytest.raises(ValueError, match="no frames"):
        op(TensorListCPU([IMAGE], "HWC"), fn.per_frame(TensorListCPU([values[:0]])), **arguments)
