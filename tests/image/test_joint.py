"""Image, mask and boxes transformed together: input sets, and sequences with arguments that change from frame to
frame."""

import numpy as np

from pipeflow import fn, pipeline_def, types

IMAGE = np.random.default_rng(1).integers(0, 256, (40, 60, 3), dtype=np.uint8)
MASK = (np.add.outer(np.arange(40), np.arange(60)) // 9).astype(np.uint8)[..., None]


def source(array, layout):
    """The same array for ever."""
    return fn.external_source(source=lambda: [array] * 3, layout=layout)


def test_nodes_of_a_definition_are_an_input_set_too():
    """A list of nodes in a pipeline gives a list of results; the numbers of a list are one constant."""

    @pipeline_def(batch_size=2, num_threads=1, device_id=None)
    def define():
        one, other = fn.constant(idata=[1, 2, 3]), fn.constant(idata=[4, 5, 6])
        mirrored = fn.cast([one, other], dtype=types.FLOAT)
        return *mirrored, fn.cast([7, 8], dtype=types.FLOAT)

    made = [batch.as_array().tolist() for batch in define().run()]
    assert made == [[[1, 2, 3]] * 2, [[4, 5, 6]] * 2, [[7, 8]] * 2]


def test_an_input_set_shares_its_arguments_and_may_have_filters_of_its_own():
    """fn.resize([image, mask], interp_type=[...]) is two resizes to one size, each with its own filter."""

    @pipeline_def(batch_size=3, num_threads=1)
    def pipe():
        image, mask = fn.resize(
            [source(IMAGE, "HWC"), source(MASK, "HWC")],
            size=(20, 30),
            interp_type=[types.INTERP_LINEAR, types.INTERP_NN],
        )
        return image, mask

    image, mask = pipe().run()
    assert (np.asarray(image.at(1)) == fn.resize(IMAGE, size=(20, 30))).all()
    assert (np.asarray(mask.at(1)) == fn.resize(MASK, size=(20, 30), interp_type=types.INTERP_NN)).all()
    assert set(np.unique(mask.at(0))) <= set(np.unique(MASK))


def test_a_random_operator_draws_once_for_its_input_set():
    """The window of random_resized_crop is the same for all members of the set, and differs between samples."""

    @pipeline_def(batch_size=3, num_threads=1, seed=4)
    def pipe():
        image = source(IMAGE, "HWC")
        return tuple(fn.random_resized_crop([image, image], size=(20, 30)))

    left, right = pipe().run()
    assert all((np.asarray(left.at(i)) == np.asarray(right.at(i))).all() for i in range(3))
    assert (np.asarray(left.at(0)) != np.asarray(left.at(1))).any()


def test_per_frame_arguments_turn_each_frame_by_its_own_angle():
    """In a pipeline, an argument marked by fn.per_frame changes from frame to frame of a sequence."""
    clip = np.stack([IMAGE] * 3)

    @pipeline_def(batch_size=3, num_threads=1)
    def pipe():
        angles = fn.per_frame(fn.external_source(source=lambda: [np.array([0, 90, 180], np.float32)] * 3))
        return fn.rotate(source(clip, "FHWC"), angle=angles, keep_size=True, fill_value=0)

    (result,) = pipe().run()
    frames = np.asarray(result.at(2))
    assert result.layout() == "FHWC"
    assert (frames[0] == IMAGE).all()
    assert (frames[2] == IMAGE[::-1, ::-1]).all()
    assert (frames[1] == fn.rotate(IMAGE, angle=90.0, keep_size=True, fill_value=0)).all()
