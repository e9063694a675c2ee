"""Keras, for real, with whichever backend is installed: model.fit over a pipeline, its length, states and mistakes."""

import os
from importlib.util import find_spec

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


def recorded(data):
    """What Keras gets, as lists of numbers, one a batch."""
    given = []
    original = type(data).__getitem__

    class Recording(type(data)):
        def __getitem__(self, index):
            batch = original(self, index)
            given.append([round(float(x[0]) * 10) for x in batch[0]])
            return batch

    data.__class__ = Recording
    return given


def model():
    import keras

    result = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    result.compile(optimizer=keras.optimizers.SGD(0.05), loss="mse")
    return result


@pytest.mark.parametrize("built", [True, False])
def test_every_epoch_of_fit_is_one_of_the_pipeline(built):
    """Batches that Keras looks at to learn their shapes, or to build the model, are not lost and not trained on twice."""
    import keras

    from pipeflow.plugin.keras import PyDataset

    data = PyDataset(pairs())
    given = recorded(data)
    network = model() if built else keras.Sequential([keras.layers.Dense(1)])
    network.compile(optimizer="sgd", loss="mse")
    ends = []

    class Ends(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            ends.append(len(given))

    network.fit(data, epochs=2, verbose=0, callbacks=[Ends()])
    passes = [given[ends[0] - 6 : ends[0]], given[ends[0] : ends[1]]]
    for batches in passes:
        assert sorted(number for batch in batches for number in batch) == list(range(22))
    assert passes[0] != passes[1]
    given.clear()
    network.fit(data, epochs=1, verbose=0)
    assert sorted(number for batch in given[-6:] for number in batch) == list(range(22))


@pytest.mark.parametrize("looks", [(), (0, 1)])
@pytest.mark.parametrize("order", [(0, 1, 2, 3, 4, 5), (3, 5, 2, 4, 1, 0), (1, 4, 0, 5, 2, 3)])
def test_steps_per_epoch_goes_on_where_the_last_one_ended(looks, order):
    """Three epochs of two steps are one epoch of the pipeline, in any order of Keras's, looked at beforehand or not."""
    from pipeflow.plugin.keras import PyDataset

    data = PyDataset(pairs())
    for _ in range(3):
        for index in looks:
            data[index]
        seen = []
        for step in range(0, 6, 2):
            data.on_epoch_begin()
            seen += [round(float(x[0]) * 10) for index in order[step : step + 2] for x in data[index][0]]
            data.on_epoch_end()
        assert sorted(seen) == list(range(22))


def test_fit_with_steps_per_epoch():
    """fit() itself asks for every batch of a pass."""
    from pipeflow.plugin.keras import PyDataset

    data = PyDataset(pairs())
    given = recorded(data)
    model().fit(data, epochs=3, steps_per_epoch=2, verbose=0)
    assert {number for batch in given[:8] for number in batch} == set(range(22))


@pytest.mark.parametrize("looks", [(), (0, 1)])
def test_a_pass_that_is_given_up_is_followed_by_a_whole_one(looks):
    """An exception in the middle of fit() ends a pass without a word; the next one begins with the first index again."""
    from pipeflow.plugin.keras import PyDataset

    data = PyDataset(pairs())
    for asked in (4, 2, 6, 6):
        for index in looks:
            data[index]
        data.on_epoch_begin()
        seen = [round(float(x[0]) * 10) for index in range(asked) for x in data[index][0]]
        assert len(set(seen)) == min(22, 4 * asked)
    assert sorted(seen) == list(range(22))


def test_evaluation_and_prediction():
    """evaluate() and predict() see every sample once; validation_data is a pipeline of its own."""
    from pipeflow.plugin.keras import PyDataset

    network = model()
    data = PyDataset(pairs())
    given = recorded(data)
    history = network.fit(PyDataset(pairs()), validation_data=data, epochs=2, verbose=0)
    assert len(history.history["val_loss"]) == 2
    assert sorted(number for batch in given[-6:] for number in batch) == list(range(22))
    assert network.evaluate(data, verbose=0) >= 0
    inputs = pipeline_def(
        lambda: fn.reshape(fn.cast(read_numbers(22), dtype=fn_float()), shape=[1]), batch_size=4, num_threads=1
    )()
    assert network.predict(PyDataset(inputs), verbose=0).shape == (22, 1)


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
