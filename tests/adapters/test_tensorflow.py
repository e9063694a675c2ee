"""tf.data over a pipeline, for real; in an environment of its own (.venvs/keras), see the Makefile."""

import numpy as np
import pytest
from loop.loops import read_numbers

from pipeflow import fn, pipeline_def, types

pytestmark = [pytest.mark.adapters, pytest.mark.filterwarnings("ignore")]


def pairs(count=22, **options):
    """(x, 3x) in batches of four, shuffled."""

    def define():
        x = fn.cast(read_numbers(count=count, random_shuffle=True), dtype=types.FLOAT)
        return fn.reshape(x, shape=[1]), x * 3.0

    return pipeline_def(define, batch_size=4, num_threads=1, seed=1)(**options)


def numbers(dataset):
    return np.concatenate([x.numpy()[:, 0] for x, _ in dataset]).astype(int).tolist()


def test_epochs_and_signature():
    """from_generator with the pipeline's own signature; the first batch is not lost by looking at it."""
    from pipeflow.plugin.keras import tf_dataset

    dataset = tf_dataset(pairs())
    assert [(spec.shape.rank, spec.dtype.name) for spec in dataset.element_spec] == [(2, "float32"), (1, "float32")]
    seen = [numbers(dataset) for _ in range(2)]
    assert [sorted(epoch) for epoch in seen] == [list(range(22))] * 2
    assert seen[0] != seen[1]
    expected = [int(x[0]) for batch in pairs().epoch() for x in batch[0].samples()]
    assert seen[0] == expected


def test_a_pass_that_is_left_early_is_followed_by_a_whole_one():
    """take() ends a pass; the next one begins a new epoch of the pipeline, with prefetching too."""
    from pipeflow.plugin.keras import tf_dataset

    for dataset in (tf_dataset(pairs()), tf_dataset(pairs()).prefetch(2)):
        assert len(list(dataset.take(2))) == 2
        assert sorted(numbers(dataset)) == list(range(22))


def test_a_signature_of_ones_own_makes_no_batch_beforehand():
    """With output_signature nothing is read before the first pass."""
    import tensorflow as tf

    from pipeflow.plugin.keras import tf_dataset

    pipeline = pairs()
    dataset = tf_dataset(pipeline, (tf.TensorSpec([None, 1], tf.float32), tf.TensorSpec([None], tf.float32)))
    assert pipeline.empty()
    assert sorted(numbers(dataset)) == list(range(22))


def test_fit_on_a_tf_dataset():
    """model.fit takes it, epoch by epoch."""
    import keras

    from pipeflow.plugin.keras import tf_dataset

    network = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    network.compile(optimizer=keras.optimizers.SGD(1e-3), loss="mse")
    history = network.fit(tf_dataset(pairs()), epochs=3, verbose=0)
    assert history.history["loss"][-1] < history.history["loss"][0]
