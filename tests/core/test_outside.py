"""Nodes made outside of any pipeline: sources, operators of nodes, random draws, and the pipelines that take them."""

import numpy as np
import pytest

import pipeflow.ops as ops
from pipeflow import DataNode, Pipeline, fn, math, pipeline_def, types
from pipeflow.declare import UNKNOWN, UnknownValue, input_set_size
from pipeflow.declare.eager import kept
from pipeflow.declare.registration import _holds_node, find
from pipeflow.errors import InvalidState

SMALL = {"batch_size": 3, "num_threads": 1}


def numbers(name=None):
    """A source of [0], [1], [2], ..."""
    return fn.external_source(lambda info: np.int32([info.idx_in_epoch]), batch=False, name=name)


def run(*outputs, **arguments):
    pipe = Pipeline(**{**SMALL, **arguments})
    pipe.set_outputs(*outputs)
    return [np.array(output.as_array()) for output in pipe.run()]


def test_a_source_outside_a_pipeline_is_a_node_that_set_outputs_takes():
    """The graph is made without `with pipe:`; several outputs come from one source."""
    x = numbers()
    assert isinstance(x, DataNode)
    first, doubled, total = run(x, x * 2, fn.reductions.sum(x + 10))
    np.testing.assert_array_equal(first.ravel(), [0, 1, 2])
    np.testing.assert_array_equal(doubled.ravel(), [0, 2, 4])
    np.testing.assert_array_equal(total, [10, 11, 12])


def test_what_is_known_of_a_node_is_known_outside_too():
    """Type, axes and layout follow from what was declared, and a wrong call fails where it is written."""
    x = fn.external_source(dtype=types.UINT8, ndim=3, layout="HWC")
    assert (x.dtype, x.ndim, x.layout, x.device) == (types.UINT8, 3, "HWC", "cpu")
    assert fn.crop_mirror_normalize(x, dtype=types.FLOAT).layout == "CHW"
    with pytest.raises(ValueError, match="layout"):
        fn.resize(fn.external_source(layout="AB"), size=5)
    with pytest.raises(TypeError, match="must be a DataNode"):
        fn.cat(x, "text")


def test_nodes_of_a_pipeline_go_on_after_its_block():
    """What is called on them after `with pipe:` is recorded in the same pipeline."""
    pipe = Pipeline(**SMALL)
    with pipe:
        x = numbers()
    y = x + numbers()
    pipe.set_outputs(y, x.shape())
    values, shape = pipe.run()
    np.testing.assert_array_equal(values.as_array().ravel(), [0, 2, 4])
    np.testing.assert_array_equal(shape.as_array().ravel(), [1, 1, 1])


def test_several_pipelines_take_the_same_nodes_with_a_source_each():
    """A graph made once serves two pipelines, which do not disturb each other."""
    x = numbers()
    y = x * 100
    pipes = [Pipeline(**SMALL) for _ in range(2)]
    pipes[0].set_outputs(x)
    pipes[1].set_outputs(x, y)
    for start in (0, 3):
        np.testing.assert_array_equal(pipes[0].run()[0].as_array().ravel(), np.arange(start, start + 3))
        np.testing.assert_array_equal(pipes[1].run()[1].as_array().ravel(), 100 * np.arange(start, start + 3))


def test_a_definition_and_a_branch_read_nodes_from_outside():
    """They exist for all samples, so both branches may read them, and one may be the condition."""
    x = numbers()
    flag = fn.external_source(lambda info: np.bool_(info.idx_in_epoch % 2), batch=False)

    @pipeline_def(enable_conditionals=True, **SMALL)
    def definition():
        if flag:
            y = x + 100
        else:
            y = x - 100
        return y, flag and x[0] > 2

    values, both = definition().run()
    np.testing.assert_array_equal(values.as_array().ravel(), [-100, 101, -98])
    np.testing.assert_array_equal(both.as_array(), [False, False, False])


def test_an_input_set_of_one_member_gives_one_node():
    """As in DALI: a list of one node is not answered with a list."""
    flip = ops.Flip(horizontal=1)
    with Pipeline(batch_size=2, num_threads=1) as pipe:
        data = fn.constant(idata=[1, 2, 3, 4, 5, 6], shape=(1, 2, 3), layout="HWC")
        pair = flip([data, data])
        pipe.set_outputs(flip([data]), *pair)
    assert len(pipe.run()) == 3


def test_operator_objects_and_input_sets_work_outside():
    """ops.X(...) on nodes, and lists of nodes, whose members draw the same numbers."""
    x = ops.ExternalSource(source=lambda: [np.zeros((4, 6, 3), np.uint8) + np.arange(6, dtype=np.uint8)[:, None]] * 3)
    images = fn.reshape(x(), layout="HWC")
    left, right = fn.random_resized_crop([images, images], size=(3, 3))
    one, two = run(left, right, seed=5)
    np.testing.assert_array_equal(one, two)
    flipped = ops.Flip(horizontal=1)([images, images])
    np.testing.assert_array_equal(run(*flipped)[0][0, 0, :, 0], [5, 4, 3, 2, 1, 0])


def test_what_holds_nodes():
    """A list of nodes only is an input set; a list with anything else is data. Dictionaries hold the nodes of their values."""
    x = fn.external_source(lambda: [np.zeros(2)])
    assert [input_set_size(inputs) for inputs in ([[x, x]], [[x, 1]], [x], [[]], [(x,), 3])] == [2, 0, 0, 0, 1]
    held = [{"a": 1, "b": x}, [1, (x,)], x, {"a": [x]}]
    assert all(map(_holds_node, held))
    assert not any(map(_holds_node, [{"a": 1}, [1, (2,)], 3, {}, "x"]))


def test_only_what_the_outputs_read_is_part_of_the_pipeline():
    """A call that leads to no output is not run, and its name does not clash."""
    called = []
    x = numbers(name="x")
    fn.python_function(x, function=lambda a: called.append(1) or a)
    numbers(name="x")
    run(x)
    assert not called


def test_equal_names_in_one_pipeline_are_refused():
    """As within a definition."""
    with pytest.raises(RuntimeError, match="the name 'x' is used for two operators"):
        run(numbers(name="x"), numbers(name="x"))


def test_a_node_of_one_pipeline_cannot_enter_another():
    """The error names it, whether it is an output or an input, and also after the build."""
    pipe, other = Pipeline(**SMALL), Pipeline(**SMALL)
    with pipe:
        x = numbers()
    with other:
        y = numbers()
    for use in (lambda: other.set_outputs(x), lambda: x + y):
        with pytest.raises(InvalidState, match="belong"):
            use()
    pipe.set_outputs(x)
    pipe.build()
    with pytest.raises(InvalidState, match="built already"):
        x + 1


def test_inputs_are_fed_by_the_node_from_outside():
    """feed_input finds the source of a detached node, also by its name."""
    x = fn.external_source()
    pipe = Pipeline(**SMALL, prefetch_queue_depth=1)
    pipe.set_outputs(x + 1)
    pipe.feed_input(x, np.int32([[1], [2], [3]]))
    np.testing.assert_array_equal(pipe.run()[0].as_array().ravel(), [2, 3, 4])
    pipe.feed_input(x.name, np.int32([[5], [6], [7]]))
    np.testing.assert_array_equal(pipe.run()[0].as_array().ravel(), [6, 7, 8])


def test_readers_outside_keep_their_names(tmp_path):
    """reader_meta and epoch_size know them by the given name and by the one DALI gives."""
    for number in range(4):
        np.save(tmp_path / f"{number}.npy", np.int32([number]))
    data = fn.readers.numpy(file_root=str(tmp_path), name="Reader")
    other = fn.readers.numpy(file_root=str(tmp_path))
    pipe = Pipeline(**SMALL)
    pipe.set_outputs(data, other)
    assert pipe.epoch_size("Reader") == 4
    assert sorted(pipe.reader_meta()) == sorted(["Reader", other.name])


def test_what_was_drawn_outside_is_drawn_for_each_sample_in_a_pipeline():
    """Without data a random call outside gives an array; a graph that reads it, or arithmetic on it, draws by itself."""
    angle = fn.random.uniform(range=(10.0, 20.0))
    scaled = 100 * angle + 1
    assert 10 <= angle < 20
    assert scaled == pytest.approx(100 * float(angle) + 1)
    x = numbers()
    drawn, again, computed = run(x + angle, angle, scaled, batch_size=8, seed=3)
    assert len(np.unique(again)) == 8
    np.testing.assert_allclose(drawn.ravel(), again + np.arange(8), rtol=1e-6)
    np.testing.assert_allclose(computed, 100 * again + 1, rtol=1e-6)

    @pipeline_def(batch_size=8, num_threads=1, seed=3)
    def definition():
        return fn.transforms.rotation(angle=angle), angle > 15

    matrices, large = definition().run()
    assert len(np.unique(matrices.as_array()[:, 0, 0])) == 8
    assert 0 < large.as_array().sum() < 8


def test_what_operators_compute_from_what_was_drawn_outside_is_drawn_too():
    """A call that reads only such arrays and numbers is made again in the pipeline; two pipelines may take its result."""
    offset = fn.random.uniform(range=(1.0, 2.0), shape=2)
    moved = fn.transforms.translation(fn.transforms.scale(scale=(2, 2)), offset=2 * offset)
    likely = fn.random.coin_flip(probability=fn.reductions.min(offset) * 0 + 1)
    np.testing.assert_allclose(moved, [[2, 0, 2 * offset[0]], [0, 2, 2 * offset[1]]])
    assert likely.key is not None
    for seed in (3, 4):
        drawn, matrices, ones = run(offset, moved, likely, batch_size=8, seed=seed)
        assert len(np.unique(drawn)) == 16
        np.testing.assert_allclose(matrices[:, :, 2], 2 * drawn, rtol=1e-6)
        np.testing.assert_array_equal(ones, 1)


def test_several_results_of_drawn_arrays_are_of_one_call():
    """Both outputs come from the same numbers."""
    boxes = fn.random.uniform(range=(0.0, 1.0), shape=(1, 4)) * 0 + 0.5
    labels = fn.random.uniform(range=(0.0, 9.0), shape=(1,)) * 0
    anchors, found = fn.box_encoder(boxes, fn.cast(labels, dtype=types.INT32), anchors=[0.4, 0.4, 0.6, 0.6])
    first, second = run(anchors, found)
    assert (first.shape[1:], second.shape[1:]) == ((1, 4), (1,))


def test_data_stays_data_when_an_argument_was_drawn_outside():
    """The result of an operator on data is a plain array, which does not keep the data."""
    image = np.zeros((6, 5, 3), np.uint8)
    assert type(fn.brightness(image, brightness=fn.random.uniform(range=(1.0, 2.0)))) is np.ndarray


def test_what_cannot_be_drawn_again_says_so():
    """Other functions of such an array would be one constant for all samples."""
    drawn = fn.random.uniform(shape=(3,))
    for lost in (np.exp(drawn), drawn[:2]):
        with pytest.raises(InvalidState, match="same for all samples"):
            run(numbers() + lost)
    np.testing.assert_array_equal(run(numbers() * 0 + np.array(drawn))[0][0], np.asarray(drawn))


def test_long_chains_are_taken_whole():
    """A chain longer than Python's stack is deep."""
    x = numbers()
    for _ in range(1500):
        x = x + 1
    np.testing.assert_array_equal(run(x)[0].ravel(), [1500, 1501, 1502])


def test_math_indices_and_shapes_work_outside():
    """Functions of pipeflow.math, indices and properties of a detached node."""
    x = fn.external_source(lambda: [np.float32([4, 9])] * 3)
    root, last, size = run(math.sqrt(x), x[-1], x.shape()[0])
    np.testing.assert_allclose(root[0], [2, 3])
    np.testing.assert_allclose(last, [9, 9, 9])
    np.testing.assert_array_equal(size, [2, 2, 2])


def test_a_debug_pipeline_reads_nodes_from_outside():
    """Each batch of a debug run takes them again."""
    x = numbers()

    @pipeline_def(debug=True, **SMALL)
    def definition():
        return x * 2

    pipe = definition()
    for start in (0, 3):
        np.testing.assert_array_equal(pipe.run()[0].as_array().ravel(), 2 * np.arange(start, start + 3))


def test_numpy_cannot_take_an_unknown_extent_for_a_sequence():
    """An inference that computes with NumPy on what is not known ends without a result, not with NumPy's error."""
    for convert in (np.float32, np.asarray, np.int64):
        with pytest.raises(UnknownValue):
            convert(UNKNOWN)


def test_calls_of_plain_operators_are_made_ready_once():
    """Those with code of the user are bound at every call."""
    image = np.zeros((2, 3, 3), np.uint8)
    assert kept(find("flip"), [image], {"horizontal": 1}) is not None
    assert kept(find("python_function"), [image], {"function": len}) is None
