"""The JAX iterator, for real: arrays, shards over several devices of the CPU, resuming, the decorator."""

import os

import numpy as np
import pytest
from loop.loops import numbers, read_numbers

from pipeflow import fn

pytestmark = pytest.mark.adapters

# Four devices, if nothing has started JAX before this file is collected.
os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=4")
os.environ.setdefault("JAX_PLATFORMS", "cpu")


@pytest.fixture(scope="module")
def plugin():
    from pipeflow.plugin import jax

    return jax


@pytest.fixture(scope="module")
def sharding():
    import jax

    assert len(jax.devices()) == 4, "these tests need four CPU devices"
    mesh = jax.sharding.Mesh(np.array(jax.devices()), ("batch",))
    return jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("batch"))


def test_batches_are_jax_arrays(plugin):
    """One dictionary of arrays a batch, whole epochs, and arrays that stay what they were."""
    import jax

    iterator = plugin.DALIGenericIterator(numbers(12, batch_size=4), ["x", "u"], reader_name="numbers")
    for _ in range(2):
        batches = list(iterator)
        assert all(isinstance(batch["x"], jax.Array) for batch in batches)
        assert [batch["x"].tolist() for batch in batches] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]
    partial = plugin.GenericIterator(
        numbers(10, batch_size=4), ["x", "u"], reader_name="numbers", last_batch_policy=plugin.LastBatchPolicy.PARTIAL
    )
    assert [len(batch["x"]) for batch in partial] == [4, 4, 2]


def test_one_pipeline_over_several_devices(plugin, sharding):
    """The batch is divided over the devices of a NamedSharding; a jitted function sees one array."""
    import jax

    iterator = plugin.GenericIterator(numbers(16, batch_size=8), ["x", "u"], reader_name="numbers", sharding=sharding)
    batch = next(iterator)
    assert batch["x"].sharding.is_equivalent_to(sharding, 1)
    assert [shard.data.tolist() for shard in batch["x"].addressable_shards] == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert int(jax.jit(lambda x: x.sum())(batch["x"])) == 28


def test_a_pipeline_for_each_device(plugin, sharding):
    """data_iterator makes one pipeline a device, each its shard; an epoch over all is exact, and states continue it."""

    @plugin.data_iterator(output_map=["x"], reader_name="numbers", sharding=sharding, mask="valid")
    def load(shard_id=0, num_shards=1):
        return read_numbers(
            count=22, name="numbers", random_shuffle=True, pad_last_batch=True, shard_id=shard_id, num_shards=num_shards
        )

    options = {"batch_size": 3, "num_threads": 1, "enable_checkpointing": True}
    iterator = load(**options)
    assert len(iterator) == 2
    for _ in range(2):
        seen = [int(x) for batch in iterator for x, valid in zip(batch["x"], batch["valid"]) if valid]
        assert sorted(seen) == list(range(22))
    first = iter(iterator)
    next(first)
    restored = load(**options, checkpoints=iterator.checkpoints())
    assert next(restored)["x"].tolist() == next(iterator)["x"].tolist()
    with pytest.raises(ValueError, match="1 checkpoints for 4 pipelines"):
        load(**options, checkpoints=iterator.checkpoints()[:1])


def test_several_pipelines_without_a_sharding_are_stacked(plugin):
    """A new first axis counts the pipelines."""
    pipelines = [numbers(8, batch_size=2, num_shards=2, shard_id=rank) for rank in range(2)]
    batch = next(plugin.GenericIterator(pipelines, ["x", "u"], reader_name="numbers"))
    assert batch["x"].tolist() == [[0, 1], [4, 5]]


@pytest.mark.parametrize("places", [[0, 1], [2, 2], [1, 1, 3]])
def test_arrays_on_several_devices_are_stacked(plugin, places):
    """As those of pipelines on several GPUs: each stays on its device if it has one of its own."""
    import jax

    iterator = plugin.GenericIterator(numbers(batch_size=2), ["x", "u"])
    values = [np.arange(4) + 10 * number for number in range(len(places))]
    arrays = [jax.device_put(value, jax.devices()[place]) for value, place in zip(values, places)]
    found = iterator._combined(arrays, "x")
    assert found.tolist() == np.stack(values).tolist()
    assert found.devices() == {jax.devices()[place] for place in (places if places == [0, 1] else places[:1])}


def test_an_array_of_one_device_over_a_sharding(plugin, sharding):
    """As that of one pipeline on a GPU: a part goes to each device."""
    import jax

    iterator = plugin.GenericIterator(numbers(batch_size=8), ["x", "u"], sharding=sharding)
    found = iterator._combined([jax.device_put(np.arange(8), jax.devices()[1])], "x")
    assert found.tolist() == list(range(8))
    assert found.sharding.is_equivalent_to(sharding, 1)


def test_what_cannot_be_one_array_is_refused(plugin, sharding):
    """PARTIAL with shards, a sharding that is none, and both ways to name devices."""
    with pytest.raises(ValueError, match="PARTIAL gives shards of different sizes"):
        plugin.GenericIterator(
            numbers(batch_size=2), ["x", "u"], sharding=sharding, last_batch_policy=plugin.LastBatchPolicy.PARTIAL
        )
    with pytest.raises(TypeError, match=r"must be a jax.sharding.Sharding, got str"):
        plugin.GenericIterator(numbers(batch_size=2), ["x", "u"], sharding="batch")
    with pytest.raises(ValueError, match="either sharding or devices"):
        plugin.data_iterator(lambda: fn.random.uniform(), output_map=["x"], sharding=sharding, devices=[])


def test_a_batch_can_be_looked_at_before_it_is_taken():
    """peek and peek_async give the batch that next gives; element_spec says its shapes and types."""
    clu = pytest.importorskip("pipeflow.plugin.jax.clu")
    iterator = clu.DALIGenericPeekableIterator(numbers(8, batch_size=4), ["x", "u"], reader_name="numbers")
    assert iterator.element_spec["x"] == clu.ArraySpec(shape=(4,), dtype=np.dtype("int32"))
    assert iterator.peek()["x"].tolist() == iterator.peek()["x"].tolist() == [0, 1, 2, 3]
    assert iterator.peek_async().result()["x"].tolist() == [0, 1, 2, 3]
    assert [batch["x"].tolist() for batch in iterator] == [[0, 1, 2, 3], [4, 5, 6, 7]]
    with pytest.raises(StopIteration):
        iterator.peek()
    iterator.reset()
    assert iterator.peek()["x"].tolist() == [0, 1, 2, 3]
    iterator.reset()
    assert next(iterator)["x"].tolist() == [0, 1, 2, 3]


def test_a_peekable_iterator_refuses_batches_of_another_shape():
    """All batches have the shapes of the first."""
    clu = pytest.importorskip("pipeflow.plugin.jax.clu")

    @clu.peekable_data_iterator(output_map=["x"], size=4)
    def load():
        return fn.external_source(lambda info: np.zeros(1 + info.iteration, np.float32), batch=False)

    iterator = load(batch_size=2, num_threads=1)
    next(iterator)
    with pytest.raises(ValueError, match="the first one was"):
        next(iterator)


def test_a_checkpoint_is_not_taken_after_a_look():
    """It would lose the batch that was looked at."""
    clu = pytest.importorskip("pipeflow.plugin.jax.clu")
    pipe = numbers(8, batch_size=4, enable_checkpointing=True)
    iterator = clu.PeekableIterator(pipe, ["x", "u"], reader_name="numbers")
    iterator.peek()
    with pytest.raises(RuntimeError, match=r"call next\(\) before a checkpoint"):
        iterator.checkpoints()
    next(iterator)
    assert len(iterator.checkpoints()) == 1
