"""DALI's plugin for TensorFlow, for real: data sets, their inputs, and single batches; in the environment of Keras."""

import gc
import os
import subprocess
import sys
import threading

import numpy as np
import pytest
from loop.loops import read_numbers

from pipeflow import fn, pipeline_def, types

pytestmark = [pytest.mark.adapters, pytest.mark.filterwarnings("ignore")]


@pytest.fixture(scope="module")
def tf():
    import tensorflow

    return tensorflow


@pytest.fixture(scope="module")
def plugin():
    import pipeflow.plugin.tf

    return pipeflow.plugin.tf


def pairs(count=10, shuffle=False, **options):
    """(x of shape (1, 2), 3x) in batches of four."""

    def define():
        x = fn.cast(read_numbers(count=count, random_shuffle=shuffle), dtype=types.FLOAT)
        return fn.stack(fn.stack(x, x)), fn.cast(x * 3.0, dtype=types.INT32)

    return pipeline_def(define, **{"batch_size": 4, "num_threads": 1, "seed": 1, **options})()


def seconds(batches):
    """The second tensor of each batch."""
    return [batch[1].numpy().tolist() for batch in batches]


def made(plugin, tf, pipe, **options):
    return plugin.DALIDataset(pipe, **{"output_dtypes": (tf.float32, tf.int32), "batch_size": 4, **options})


def test_batches_go_on_over_the_end_of_an_epoch(plugin, tf):
    """A data set has no end, and a batch may have samples of two epochs, as those of pipe.run()."""
    dataset = made(plugin, tf, pairs())
    assert isinstance(dataset, tf.data.Dataset)
    assert isinstance(dataset, plugin.DALIDataset)
    assert seconds(dataset.take(4)) == [[0, 3, 6, 9], [12, 15, 18, 21], [24, 27, 0, 3], [6, 9, 12, 15]]


def test_each_iteration_begins_with_the_first_batch(plugin, tf):
    """Also of a pipeline that has run, and of two iterations at the same time."""
    pipe = pairs(shuffle=True)
    pipe.run()
    dataset = made(plugin, tf, pipe)
    first = seconds(dataset.take(3))
    assert seconds(dataset.take(3)) == first
    assert [
        (a[1].numpy().tolist(), b[1].numpy().tolist()) for a, b in tf.data.Dataset.zip((dataset, dataset)).take(3)
    ] == [(each, each) for each in first]
    assert pipe.run()[1].as_array().tolist() == first[1]


def test_a_left_iteration_leaves_no_thread(plugin, tf):
    """Its pipeline goes with it."""
    before = threading.active_count()
    for _ in range(3):
        seconds(made(plugin, tf, pairs(num_threads=3)).take(2))
    gc.collect()
    assert threading.active_count() <= before + 2  # threads of TensorFlow's own calls may stay


def test_the_batch_size_of_the_data_set_counts(plugin, tf):
    """Without one it is 1, as in DALI, and a warning says so."""
    assert seconds(made(plugin, tf, pairs(), batch_size=3).take(2)) == [[0, 3, 6], [9, 12, 15]]
    with pytest.warns(UserWarning, match="one sample, as in DALI, and not the 4 of the pipeline: give batch_size"):
        dataset = plugin.DALIDataset(pairs(), (tf.float32, tf.int32))
    assert seconds(dataset.take(2)) == [[0], [3]]


@pytest.mark.parametrize("device", [{}, {"device_id": 0}, {"device_id": None}, {"device_id": -1}])
def test_settings_that_do_not_change_the_values(plugin, tf, device):
    """DALI's executors have some that this one does not need."""
    dataset = made(
        plugin, tf, pairs(), num_threads=3, prefetch_queue_depth=3, exec_separated=False, exec_dynamic=True, **device
    )
    assert seconds(dataset.take(2)) == [[0, 3, 6, 9], [12, 15, 18, 21]]


@pytest.mark.parametrize("shape", [(4, 1, 2), (4, 2), (None, None, 2), (None, 2), None])
def test_shapes_may_leave_out_axes_of_length_one(plugin, tf, shape):
    """The first axis is the batch and stays."""
    dataset = made(plugin, tf, pairs(), output_shapes=(shape, (4)))
    assert (
        dataset.element_spec[0].shape.as_list() == list(shape) if shape else dataset.element_spec[0].shape.rank is None
    )
    (x, y), *_ = dataset.take(1)
    assert x.shape == ((4, 2) if shape and len(shape) == 2 else (4, 1, 2))
    assert y.shape == (4,)
    assert x.numpy().ravel().tolist() == [0, 0, 1, 1, 2, 2, 3, 3]


def test_types_and_shapes_that_the_pipeline_does_not_have(plugin, tf):
    """The message names the output and both sides."""
    with pytest.raises(
        tf.errors.InvalidArgumentError, match=r"output 0 of the pipeline is float32, and output_dtypes\[0\] int32"
    ):
        seconds(made(plugin, tf, pairs(), output_dtypes=(tf.int32, tf.int32)).take(1))
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"shape \(4, 1, 2\), and output_shapes\[0\] is \(4, 3\)"):
        seconds(made(plugin, tf, pairs(), output_shapes=((4, 3), (4,))).take(1))
    with pytest.raises(ValueError, match="output_dtypes has 1 type, and the pipeline 2 outputs"):
        made(plugin, tf, pairs(), output_dtypes=tf.float32)
    with pytest.raises(ValueError, match="output_shapes has 1 shape, and the pipeline 2 outputs"):
        made(plugin, tf, pairs(), output_shapes=((4, 2),))
    with pytest.raises(TypeError, match="a type of TensorFlow or a tuple of them"):
        made(plugin, tf, pairs(), output_dtypes=[tf.float32, tf.int32])
    with pytest.raises(TypeError, match="no argument 'batchsize'"):
        made(plugin, tf, pairs(), batchsize=4)


def test_types_are_found_by_the_first_batch(plugin, tf):
    """Without output_dtypes a batch is made; the pipeline and the data set begin with the first one nevertheless."""
    dataset = plugin.DALIDataset(pairs(), batch_size=4)
    assert [(spec.dtype, spec.shape.rank) for spec in dataset.element_spec] == [(tf.float32, 3), (tf.int32, 1)]
    assert seconds(dataset.take(1)) == [[0, 3, 6, 9]]
    one = plugin.DALIDataset(pipeline_def(lambda: fn.random.uniform(range=[0, 1], shape=[2]), batch_size=2, num_threads=1)(),
                             output_shapes=tf.TensorShape((2, 2)), batch_size=2)  # fmt: skip
    assert [x.shape for (x,) in one.take(1)] == [(2, 2)]


def test_former_names_of_arguments(plugin, tf):
    """They may be lists."""
    with pytest.warns(DeprecationWarning, match="dtypes is deprecated"):
        dataset = plugin.DALIDataset(pairs(), dtypes=[tf.float32, tf.int32], shapes=[(4, 2), (4,)], batch_size=4)
    assert seconds(dataset.take(1)) == [[0, 3, 6, 9]]
    with pytest.raises(ValueError, match="dtypes is the former name of output_dtypes: give one of the two"):
        made(plugin, tf, pairs(), dtypes=(tf.float32, tf.int32))


def test_python_functions_and_sources(plugin, tf):
    """DALI refuses functions, and sources outside of DALIDatasetWithInputs. A source that ends ends the iteration."""

    def define():
        x = fn.external_source(source=[[np.float32(1)] * 2, [np.float32(2)] * 2], cycle=False)
        return fn.python_function(x, function=lambda value: value + 1)

    dataset = plugin.DALIDataset(pipeline_def(define, batch_size=2, num_threads=1)(), tf.float32, batch_size=2)
    for _ in range(2):
        assert [x.numpy().tolist() for (x,) in dataset] == [[2, 2], [3, 3]]


def waiting(name="x"):
    return pipeline_def(lambda: fn.external_source(name=name) + 1, batch_size=2, num_threads=1)()


@pytest.mark.parametrize("batch", [False, True])
def test_data_sets_as_inputs(plugin, tf, batch):
    """Elements are samples, or batches; the last batch may be shorter."""
    source = tf.data.Dataset.range(5).batch(2) if batch else tf.data.Dataset.range(5)
    given = plugin.experimental.Input(source, batch=True) if batch else source
    dataset = plugin.experimental.DALIDatasetWithInputs(waiting(), tf.int64, batch_size=2, input_datasets={"x": given})
    for _ in range(2):
        assert [x.numpy().tolist() for (x,) in dataset] == [[1, 2], [3, 4], [5]]


def test_the_layout_of_an_input(plugin, tf):
    """The operators after it use it."""

    def define():
        return fn.crop(fn.external_source(name="x"), crop=(2, 2))

    source = plugin.experimental.Input(
        tf.data.Dataset.from_tensors(np.zeros((3, 4, 5), np.float32)).repeat(2), layout="CHW"
    )
    dataset = plugin.experimental.DALIDatasetWithInputs(
        pipeline_def(define, batch_size=2, num_threads=1)(), tf.float32, batch_size=2, input_datasets={"x": source}
    )
    assert [x.shape for (x,) in dataset] == [(2, 3, 2, 2)]


def test_two_inputs_end_together(plugin, tf):
    """With the first one that ends."""

    def define():
        return fn.external_source(name="x") + fn.external_source(name="y")

    dataset = plugin.experimental.DALIDatasetWithInputs(
        pipeline_def(define, batch_size=2, num_threads=1)(),
        tf.int64,
        batch_size=2,
        input_datasets={"x": tf.data.Dataset.range(6), "y": tf.data.Dataset.range(100)},
    )
    assert [x.numpy().tolist() for (x,) in dataset] == [[0, 2], [4, 6], [8, 10]]


def test_inputs_that_do_not_fit(plugin, tf):
    """Names that are not there, inputs without data, and what is no data set."""
    with_inputs = plugin.experimental.DALIDatasetWithInputs
    numbers = tf.data.Dataset.range(4)
    with pytest.raises(ValueError, match=r"no external_source 'y' without a source: \['x'\]"):
        with_inputs(waiting(), tf.int64, batch_size=2, input_datasets={"y": numbers})
    with pytest.raises(ValueError, match=r"1 external_source without data: \['x'\]; give each a source, or a data set"):
        plugin.DALIDataset(waiting(), tf.int64, batch_size=2)
    with pytest.raises(TypeError, match=r"takes a tf\.data\.Dataset, got \[1\]"):
        with_inputs(waiting(), tf.int64, batch_size=2, input_datasets={"x": [1]})
    with pytest.raises(TypeError, match="must be a dictionary"):
        with_inputs(waiting(), tf.int64, batch_size=2, input_datasets=numbers)
    with pytest.raises(TypeError, match="output_dtypes is needed with input_datasets"):
        with_inputs(waiting(), batch_size=2, input_datasets={"x": numbers})
    with pytest.raises(TypeError, match=r"one of experimental\.DALIDatasetWithInputs"):
        plugin.DALIDataset(waiting(), tf.int64, batch_size=2, input_datasets={"x": numbers})


def test_the_message_of_an_error_in_a_step(plugin, tf):
    """TensorFlow makes it one of its own errors, with the text."""

    def define():
        return fn.python_function(read_numbers(count=4), function=lambda value: value // 0 if value == 2 else int("a"))

    with pytest.raises(tf.errors.OpError, match="invalid literal for int"):
        list(plugin.DALIDataset(pipeline_def(define, batch_size=2, num_threads=1)(), tf.int64, batch_size=2).take(1))


def test_in_graphs_and_in_fit(plugin, tf):
    """map, tf.function, and Keras with steps_per_epoch."""
    shapes = (4, 1, 2), (4,)
    dataset = made(plugin, tf, pairs(), output_shapes=shapes)
    mapped = dataset.map(lambda x, y: ({"x": x}, y)).take(2).repeat(2)
    assert [batch[1].numpy().tolist() for batch in mapped] == [[0, 3, 6, 9], [12, 15, 18, 21]] * 2

    @tf.function
    def total():
        found = 0.0
        for x, _ in dataset.take(2):
            found += tf.reduce_sum(x)
        return found

    assert float(total()) == 56
    model = tf.keras.Sequential([tf.keras.layers.Input((1, 2)), tf.keras.layers.Flatten(), tf.keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    assert len(model.fit(dataset, epochs=2, steps_per_epoch=3, verbose=0).history["loss"]) == 2


def test_single_batches(plugin, tf):
    """Each call returns the next batch of the pipeline, until its data ends."""
    call, pipe = plugin.DALIIterator(), pairs(batch_size=2)
    options = {
        "shapes": [(3, 1, 2), (3)],
        "dtypes": [tf.float32, tf.int32],
        "batch_size": 3,
        "num_threads": 2,
        "device_id": -1,
    }
    found = [call(pipeline=pipe, **options) for _ in range(2)]
    assert [[tensor.shape.as_list() for tensor in batch] for batch in found] == [[[3, 1, 2], [3]]] * 2
    assert seconds(found) == [[0, 3, 6], [9, 12, 15]]
    constant = pipeline_def(lambda: types.Constant([1, 2]), batch_size=2, num_threads=1)().serialize()
    (values,) = plugin.DALIIteratorWrapper(serialized_pipeline=constant, dtypes=[tf.int32])
    assert values.numpy().tolist() == [[1, 2], [1, 2]]
    with pytest.raises(TypeError, match="no sparse tensors"):
        call(pipeline=pipe, sparse=[True, False], **options)


SESSION = """
import numpy as np, tensorflow as tf
tf.compat.v1.disable_eager_execution()
import pipeflow.plugin.tf as plugin
from pipeflow import fn, pipeline_def
source = [[np.float32(1)] * 2, [np.float32(2)] * 2]
pipe = pipeline_def(lambda: fn.external_source(source=source, cycle=True), batch_size=2, num_threads=1)()
(x,) = plugin.DALIIterator()(pipeline=pipe, shapes=[(2,)], dtypes=[tf.float32])
dataset = plugin.DALIDataset(pipe, tf.float32, batch_size=2)
iterator = tf.compat.v1.data.make_initializable_iterator(dataset)
(y,) = iterator.get_next()
with tf.compat.v1.Session() as session:
    print([session.run(x).tolist() for _ in range(3)])
    for _ in range(2):
        session.run(iterator.initializer)
        print([session.run(y).tolist() for _ in range(2)])
"""


def test_sessions_of_tensorflow_1():
    """Each run of a session returns the next batch; an initializer begins again."""
    done = subprocess.run(
        [sys.executable, "-c", SESSION], capture_output=True, text=True, timeout=120, env={**os.environ}
    )
    assert done.stdout.splitlines() == ["[[1.0, 1.0], [2.0, 2.0], [1.0, 1.0]]", *["[[1.0, 1.0], [2.0, 2.0]]"] * 2], (
        done.stderr[-900:]
    )
