"""The iterators of torch and JAX over batches on a device: the tensors lie on its memory and are safe to keep.

The device is the fake one, whose memory the frameworks take for host memory: nothing here ran on a GPU.
"""

import fake_device
import numpy as np
import pytest
from fake_device import mirror

from pipeflow import backends, fn, pipeline_def
from pipeflow.device.tensors import TensorListGPU
from pipeflow.operators import tensor_functions

pytestmark = pytest.mark.adapters
IMAGES = [[np.arange(24, dtype=np.uint8).reshape(2, 4, 3) + np.uint8(10 * b + k) for k in range(4)] for b in range(6)]


@pytest.fixture
def device(monkeypatch):
    runtime = fake_device.FakeRuntime(seed=5, launcher=fake_device.by_numpy)
    monkeypatch.setattr(backends.gpu, "open_device", lambda _number: runtime)
    monkeypatch.setattr(backends.gpu, "for_arrays", lambda *_: runtime)
    return runtime


def pipeline(batches=IMAGES):
    @pipeline_def(batch_size=4, num_threads=2, device_id=0)
    def define():
        return mirror(fn.external_source(batches, layout="HWC").gpu()), fn.external_source(
            [np.arange(4)] * len(batches)
        )

    return define()


def test_torch_takes_the_memory_and_its_stream_waits(device):
    """No copy and no wait of the host; batches that are kept stay what they are."""
    from pipeflow.plugin import pytorch

    lent = []
    wait = device.wait
    device.wait = lambda stream, event: lent.append(stream) or wait(stream, event)
    waits = device.counts["synchronize"]
    iterator = pytorch.DALIGenericIterator(pipeline(), ["data", "label"])
    kept = [batch[0]["data"] for batch in iterator]
    assert device.legacy in lent  # torch on a CPU names no stream, which stands for the default one
    assert device.counts["synchronize"] - waits <= 2 * len(IMAGES)  # of staging blocks, in the pipeline's threads
    assert any(m.address <= kept[0].data_ptr() < m.address + m.nbytes for m in device.memories)
    device.finish_all()
    for tensor, images in zip(kept, IMAGES, strict=True):
        np.testing.assert_array_equal(tensor.numpy(), np.stack(images)[:, :, ::-1])


@pytest.mark.parametrize("kind", ["list", "padded", "nested", "coo", "dense"])
def test_ragged_batches_in_torch(device, kind):
    """What the ragged iterator makes on the device is what it makes on the CPU."""
    import torch

    from pipeflow.plugin import pytorch

    device.eager = True  # torch works at once
    ragged = [[x[: 1 + (k % 2 if kind != "dense" else 1)] for k, x in enumerate(images)] for images in IMAGES]
    made = next(pytorch.DALIRaggedIterator(pipeline(ragged), ["data", "label"], output_types=[kind, "dense"]))[0][
        "data"
    ]
    expected = [torch.from_numpy(x[:, ::-1].copy()) for x in ragged[0]]
    if kind == "list":
        assert all(torch.equal(a, b) for a, b in zip(made, expected, strict=True))
    elif kind == "nested":
        assert all(torch.equal(a, b) for a, b in zip(made.unbind(), expected, strict=True))
    elif kind == "dense":
        assert torch.equal(made, torch.stack(expected))
    else:
        padded = torch.zeros((4, 2, 4, 3), dtype=torch.uint8)
        for row, x in zip(padded, expected):
            row[: len(x)] = x
        assert torch.equal(made.to_dense() if kind == "coo" else made, padded)


def test_torch_waits_once_for_the_samples_of_a_batch(device):
    """Not for each of them: a wait takes as long as the work on many samples."""
    from pipeflow.plugin import pytorch

    device.eager = True
    waits = []
    wait = device.wait
    device.wait = lambda stream, event: waits.append(stream) or wait(stream, event)
    iterator = pytorch.DALIRaggedIterator(pipeline(), ["data", "label"], output_types=["list", "dense"])
    count = sum(len(batch[0]["data"]) for batch in iterator)
    assert count == 4 * len(IMAGES)
    assert waits.count(device.legacy) == len(IMAGES)


def test_feeding_a_tensor(device):
    """feed_ndarray copies on the device; shapes and types must fit."""
    import torch

    from pipeflow.plugin import pytorch

    device.eager = True
    batch = pipeline().run()[0]
    target = torch.zeros((4, 2, 4, 3), dtype=torch.uint8)
    assert pytorch.feed_ndarray(batch, target) is target
    np.testing.assert_array_equal(target.numpy(), np.stack(IMAGES[0])[:, :, ::-1])
    with pytest.raises(ValueError, match="they must be equal"):
        pytorch.feed_ndarray(batch, torch.zeros(3))


@pytest.mark.parametrize(
    ("there", "non_blocking", "waits"), [(True, False, False), (False, False, True), (False, True, False)]
)
def test_feeding_a_tensor_on_the_cpu_waits(device, monkeypatch, there, non_blocking, waits):
    """A copy into page-locked memory of torch may still run otherwise, when feed_ndarray returns."""
    import torch

    from pipeflow.plugin import pytorch

    class Target:
        shape, dtype, is_cuda = torch.Size((4, 2, 4, 3)), torch.uint8, there

        def copy_(self, source, non_blocking):
            return source, non_blocking

    device.eager = True
    batch = pipeline().run()[0]
    assert pytorch.feed_ndarray(batch, Target(), non_blocking=non_blocking)[1] is not waits


def test_jax_gets_memory_of_its_own(device):
    """Arrays of JAX are copies on the device, because JAX does not say when it has read foreign memory for the last time."""
    from pipeflow.plugin import jax

    device.eager = True
    iterator = jax.DALIGenericIterator(pipeline(), ["data", "label"])
    for batch, images in zip(iterator, IMAGES, strict=True):
        np.testing.assert_array_equal(np.asarray(batch["data"]), np.stack(images)[:, :, ::-1])
        assert batch["label"].tolist() == [0, 1, 2, 3]
        place = batch["data"].unsafe_buffer_pointer()
        assert not any(m.address <= place < m.address + m.nbytes for m in device.memories)


def test_a_batch_is_held_until_jax_has_copied_it(device, monkeypatch):
    """Its memory is not used again before the copy is there, even where the user gives the copy away at once."""
    from pipeflow.plugin import jax

    marks = []

    class Mark:
        ready = False

        def is_ready(self):
            return self.ready

        def block_until_ready(self):
            self.ready = True

    copy = jax._copy

    def slow(array):
        marks.append(Mark())
        return copy(array)[0], marks[-1]

    monkeypatch.setattr(jax, "_copy", slow)
    device.eager = True
    iterator = jax.DALIGenericIterator(pipeline(), ["data", "label"])
    batches = iter(iterator)
    for number in range(4):
        next(batches)["data"].delete()
        if number == 2:
            marks[0].ready = marks[1].ready = True
    held = {tensor.data_ptr() for _, tensor in iterator._copying}
    assert len(iterator._copying) == len(held) == 2
    jax._finish(iterator._copying)
    assert all(mark.ready for mark in marks)


def test_functions_of_tensors(device):
    """torch and JAX functions get tensors on the device's memory and return such."""
    import contextlib
    import dataclasses

    import torch

    from pipeflow import declare

    device.eager = True
    for name, double in (("torch", lambda x: x * 2), ("jax", lambda x: x * 2)):
        library = declare.framework(name)
        streams = []

        @contextlib.contextmanager
        def on_stream(number, handle, streams=streams):
            streams.append(handle)
            yield

        declare.frameworks[name] = dataclasses.replace(library, on_stream=on_stream)
        try:
            op = tensor_functions.torch_python_function if name == "torch" else tensor_functions.jax_function

            @pipeline_def(batch_size=4, num_threads=2, device_id=0)
            def define(op=op, double=double):
                return op(fn.external_source(IMAGES).gpu(), function=double)

            (made,) = define().run()
            assert isinstance(made, TensorListGPU)
            np.testing.assert_array_equal(made.as_cpu().as_array(), np.stack(IMAGES[0]) * 2)
            assert set(streams) == {device.computing.ptr}
        finally:
            declare.frameworks[name] = library
    assert torch.from_dlpack(made).shape == (4, 2, 4, 3)
