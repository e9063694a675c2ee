"""The Keras adapters, for real: model.fit over a pipeline, and tf.data where TensorFlow is installed."""

import os
from importlib.util import find_spec

import numpy as np
import pytest
from loop.loops import read_numbers

from pipeflow import fn, pipeline_def

pytestmark = [pytest.mark.adapters, pytest.mark.filterwarnings("ignore")]
os.environ.setdefault("KERAS_BACKEND", "tensorflow" if find_spec("tensorflow") else "jax")


def pairs(count=22):
    """(x, 3x) in batches of four, shuffled."""
    def define():
        number = read_numbers(count=count, random_shuffle=True)
        x = fn.cast(number, dtype=fn_float()) / 10.0
        return fn.reshape(x, shape=[1]), fn.reshape(x * 3.0, shape=[1])

    return pipeline_def(define, batch_size=4, num_threads=1, seed=1)()


def fn_float():
    from pipeflow import types

    return types.FLOAT


def test_fit_learns_from_a_pipeline():
    """Three epochs of fit() are three epochs of the pipeline, every sample once in each."""
    import keras

    from pipeflow.plugin.keras import PyDataset

    data = PyDataset(pairs())
    assert len(data) == 6
    seen = [[round(float(x[0]) * 10) for index in range(6) for x in data[index][0]] for _ in range(2)]
    assert [sorted(epoch) for epoch in seen] == [list(range(22))] * 2
    assert seen[0] != seen[1]
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    model.compile(optimizer=keras.optimizers.SGD(0.05), loss="mse")
    history = model.fit(data, epochs=3, verbose=0)
    assert history.history["loss"][-1] < history.history["loss"][0]


def test_four_outputs_are_too_many():
    """Keras has names for three."""
    from pipeflow.plugin.keras import PyDataset

    four = pipeline_def(lambda: tuple(fn.random.uniform() for _ in range(4)), batch_size=2, num_threads=1)()
    with pytest.raises(ValueError, match="the pipeline has 4 outputs"):
        PyDataset(four)


@pytest.mark.skipif(not find_spec("tensorflow"), reason="TensorFlow is not installed in this environment")
def test_tf_data():
    """from_generator with the pipeline's own signature; the first batch is not lost by looking at it."""
    from pipeflow.plugin.keras import tf_dataset

    dataset = tf_dataset(pairs())
    assert [spec.shape.rank for spec in dataset.element_spec] == [2, 2]
    values = np.concatenate([x.numpy()[:, 0] for x, _ in dataset])
    assert sorted(np.round(values * 10).astype(int).tolist()) == list(range(22))
