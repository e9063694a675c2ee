"""The torch iterators, for real: tensors, memory, ragged batches, resuming, and training on two processes."""

import json
import os
import subprocess
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from loop.loops import numbers

from pipeflow import fn, pipeline_def
from pipeflow.errors import RaggedBatch

pytestmark = pytest.mark.adapters
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def plugin():
    from pipeflow.plugin import pytorch

    return pytorch


def images(count=3):
    return pipeline_def(
        lambda: (
            fn.external_source([np.arange(24, dtype=np.float32).reshape(4, 2, 3) + number for number in range(count)]),
            fn.external_source([np.arange(4) for _ in range(count)]),
        ),
        batch_size=4,
        num_threads=2,
    )()


def test_batches_are_tensors_on_the_pipelines_memory(plugin):
    """One dictionary a pipeline; no copy is made, and the tensor keeps its memory through later batches."""
    iterator = plugin.DALIGenericIterator(images(20), ["data", "label"])
    first = next(iterator)[0]
    kept = [next(iterator)[0]["data"] for _ in range(19)]
    assert first["data"].dtype.is_floating_point
    assert [int(x) for x in first["label"]] == [0, 1, 2, 3]
    assert [float(tensor[0, 0, 0]) for tensor in kept] == list(range(1, 20))
    delivered = []

    class Noting(plugin.GenericIterator):
        def convert(self, batch, name):
            delivered.append(batch.data_ptr())
            return super().convert(batch, name)

    batch = next(Noting(images(), ["data", "label"]))[0]
    assert [batch["data"].data_ptr(), batch["label"].data_ptr()] == delivered


@pytest.mark.parametrize(
    ("kind", "numpy_kind"),
    [
        ("torch.uint8", np.uint8),
        ("torch.float16", np.float16),
        ("torch.int64", np.int64),
        ("torch.uint16", np.uint16),
        ("torch.bool", np.bool_),
    ],
)
def test_types(plugin, kind, numpy_kind):
    """Every NumPy type arrives as torch's own."""
    pipeline = pipeline_def(lambda: fn.external_source([np.ones((2, 3), numpy_kind)]), batch_size=2, num_threads=1)()
    assert str(next(plugin.GenericIterator(pipeline, ["x"]))[0]["x"].dtype) == kind


def test_classification_names_and_lengths(plugin):
    """ "data" and "label", a length, and epochs by iter()."""
    iterator = plugin.DALIClassificationIterator(images(), mask="valid")
    assert len(iterator) == 3
    for _ in range(2):
        assert [sorted(batch[0]) for batch in iterator] == [["data", "label", "valid"]] * 3


def test_ragged_batches(plugin):
    """Nested, padded, sparse and listed tensors; the dense iterator names the shapes."""
    import torch

    def make():
        return pipeline_def(
            lambda: fn.external_source([[np.ones((n + 1, 2), np.float32) for n in range(3)]]),
            batch_size=3,
            num_threads=1,
        )()

    def one(kind):
        return next(plugin.RaggedIterator(make(), ["x"], output_types=kind, fill_value=-1))[0]["x"]

    nested = one("nested")
    assert nested.is_nested
    assert [tuple(part.shape) for part in nested.unbind()] == [(1, 2), (2, 2), (3, 2)]
    assert one("padded")[:, :, 0].tolist() == [[1, -1, -1], [1, 1, -1], [1, 1, 1]]
    assert torch.equal(one("coo").to_dense(), torch.clamp(one("padded"), 0))
    assert [tuple(part.shape) for part in one(["list"])] == [(1, 2), (2, 2), (3, 2)]
    with pytest.raises(RaggedBatch, match=r"sample 0 is \(1, 2\), sample 1 is \(2, 2\)"):
        next(plugin.GenericIterator(make(), ["x"]))
    with pytest.raises(ValueError, match="'spares'"):
        plugin.RaggedIterator(make(), ["x"], output_types="spares")
    with pytest.raises(ValueError, match="2 entries for 1 outputs"):
        plugin.RaggedIterator(make(), ["x"], output_types=["list", "list"])


def test_pinned_memory_needs_a_device(plugin):
    """Without CUDA pin_memory=True says what is missing."""
    import torch

    if torch.cuda.is_available():
        assert next(plugin.GenericIterator(images(), ["data", "label"], pin_memory=True))[0]["data"].is_pinned()
    else:
        with pytest.raises(RuntimeError, match="needs a CUDA device"):
            plugin.GenericIterator(images(), ["data", "label"], pin_memory=True)


def test_feed_ndarray_copies_into_a_tensor(plugin):
    """DALI's helper: same shape and type, contiguous or not; else an error with both."""
    import torch

    batch = images().run()[0]
    target = torch.zeros(4, 2, 3)
    assert plugin.feed_ndarray(batch, target) is target
    assert torch.equal(target, torch.from_numpy(batch.as_array()))
    turned = torch.zeros(3, 2, 4).permute(2, 1, 0)
    plugin.feed_ndarray(batch.as_tensor(), turned)
    assert torch.equal(turned, target)
    with pytest.raises(ValueError, match="they must be equal"):
        plugin.feed_ndarray(batch, torch.zeros(4, 2, 2))


def test_state_dict_survives_torch_save(plugin, tmp_path):
    """An iterator's state in a torch checkpoint file continues exactly."""
    import torch

    def make():
        return plugin.GenericIterator(numbers(13, batch_size=3, random_shuffle=True), ["x", "u"], reader_name="numbers")

    iterator = make()
    next(iterator), next(iterator)
    torch.save({"data": iterator.state_dict()}, tmp_path / "state.pt")
    rest = [next(iterator)[0]["x"].tolist() for _ in range(2)]
    restored = make()
    restored.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True)["data"])
    assert [next(restored)[0]["x"].tolist() for _ in range(2)] == rest


def test_torch_compile_is_untouched(plugin):
    """A compiled function takes the batches as any tensor."""
    import torch

    double = torch.compile(lambda x: x * 2, backend="eager")
    batch = next(plugin.GenericIterator(images(), ["data", "label"]))[0]["data"]
    assert torch.equal(double(batch), batch * 2)


WORKER = """
import json, sys
import torch
from torch import distributed, nn
from loop.loops import numbers
from pipeflow.distributed import shard
from pipeflow.plugin.pytorch import GenericIterator, LastBatchPolicy

distributed.init_process_group("gloo", init_method=sys.argv[1], rank=int(sys.argv[2]), world_size=2)
pipeline = numbers(23, batch_size=4, random_shuffle=True, **shard())
iterator = GenericIterator(pipeline, ["x", "u"], reader_name="numbers", last_batch_policy=LastBatchPolicy.PARTIAL, mask="valid")
torch.manual_seed(0)
model = nn.parallel.DistributedDataParallel(nn.Linear(1, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
seen, losses = [], []
for epoch in range(3):
    seen.append([])
    for (batch,) in iterator:
        x, valid = batch["x"].float()[:, None], batch["valid"]
        loss = ((model(x) - 2 * x)[valid] ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        seen[-1] += batch["x"][valid].tolist()
    total = loss.detach().clone()
    distributed.all_reduce(total)
    losses.append(float(total))
print(json.dumps({"seen": seen, "losses": losses, "weight": model.module.weight.tolist()}))
distributed.destroy_process_group()
"""


def test_training_on_two_processes(tmp_path):
    """DDP with gloo: every sample once an epoch over both ranks, equal weights at the end, and nothing waits for ever."""
    environment = {
        **os.environ,
        "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tests'}",
        "GLOO_SOCKET_IFNAME": "lo",
        "OMP_NUM_THREADS": "1",
    }
    meeting = f"file://{tmp_path / 'meeting'}"
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", WORKER, meeting, str(rank)], env=environment, stdout=subprocess.PIPE, text=True
        )
        for rank in range(2)
    ]
    results = [json.loads(rank.communicate(timeout=120)[0].splitlines()[-1]) for rank in ranks]
    for epoch in range(3):
        assert sorted(results[0]["seen"][epoch] + results[1]["seen"][epoch]) == list(range(23))
    assert results[0]["weight"] == results[1]["weight"]
    assert results[0]["losses"][-1] < results[0]["losses"][0]
    assert results[0]["seen"][0] != results[0]["seen"][1]


@pytest.mark.filterwarnings("ignore:The given NumPy array is not writable")
@pytest.mark.parametrize("way", ["from_numpy", "from_dlpack"])
@pytest.mark.parametrize("parallel", ["serial", "threads"])
@pytest.mark.parametrize("batch_processing", [False, True])
def test_a_function_cannot_write_to_what_others_read(way, parallel, batch_processing):
    """torch writes to read-only arrays: other steps, other outputs and the source see nothing of it."""
    import torch

    kept = [np.full(4, number) for number in range(3)]

    def change(x):
        for array in x if batch_processing else [x]:
            getattr(torch, way)(array).fill_(7)
        return [array.copy() for array in x] if batch_processing else x.copy()

    @pipeline_def(batch_size=3, num_threads=2)
    def define():
        x = fn.external_source(lambda info: kept[info.idx_in_epoch], batch=False, no_copy=True)
        changed = fn.python_function(x, function=change, parallel=parallel, batch_processing=batch_processing)
        return x, changed, fn.python_function(x, function=np.copy)

    plain, changed, other = (batch.as_array()[:, 0].tolist() for batch in define().run())
    assert (plain, changed, other) == ([0, 1, 2], [7, 7, 7], [0, 1, 2])
    assert [array[0] for array in kept] == [0, 1, 2]


@pytest.mark.parametrize("batch_processing", [False, True])
@pytest.mark.parametrize("kind", ["torch", "capsules"])
def test_an_input_that_others_read_is_copied_once(plugin, kind, batch_processing):
    """The function gets memory of its own, and nothing else is made of the sample on the way."""
    import torch

    size = 1 << 20
    kept = np.zeros(size, np.uint8)
    found = []

    def change(x):
        found.append(tracemalloc.get_traced_memory()[1])
        for item in x if batch_processing else [x]:
            (item if kind == "torch" else torch.from_dlpack(item)).fill_(7)
        return [torch.zeros(1)] if batch_processing else torch.zeros(1)

    operator = plugin.fn.torch_python_function if kind == "torch" else fn.dl_tensor_python_function

    @pipeline_def(batch_size=1, num_threads=1, exec_async=False, exec_pipelined=False)
    def define():
        x = fn.external_source(lambda info: kept, batch=False, no_copy=True)
        return x, operator(x, function=change, batch_processing=batch_processing)

    pipe = define()
    pipe.build()
    tracemalloc.start()
    try:
        pipe.run()
    finally:
        tracemalloc.stop()
    assert size <= found[0] < 1.5 * size
    assert not kept.any()


def test_tensors_are_made_of_samples_and_batches(plugin):
    """torch_utils.to_torch_tensor shares memory, or copies; to_torch_type names torch's types."""
    import torch

    from pipeflow import types
    from pipeflow.plugin.pytorch import torch_utils

    [data, label] = images().run()
    shared, own = torch_utils.to_torch_tensor(data, False), torch_utils.to_torch_tensor(data, True)
    assert shared.data_ptr() == data.data_ptr() != own.data_ptr()
    assert torch.equal(shared, own)
    assert torch_utils.to_torch_tensor(label[1], copy=True).item() == 1
    assert torch_utils.to_torch_type[types.FLOAT] is shared.dtype is torch.float32
    target = torch.empty_like(own)
    assert torch.equal(torch_utils.feed_ndarray(data, target), own)


def test_the_class_of_the_torch_function(plugin):
    """DALI's scripts make the operator with ``plugin.pytorch.TorchPythonFunction`` and call it in a pipeline."""
    double = plugin.TorchPythonFunction(function=lambda x: (x * 2, x.sum()), num_outputs=2)

    @pipeline_def(batch_size=2, num_threads=1)
    def define():
        return tuple(double(fn.external_source(lambda: [np.float32([1, 2]), np.float32([3])])))

    doubled, sums = define().run()
    assert [np.asarray(x).tolist() for x in doubled] == [[2, 4], [6]]
    assert [np.asarray(x).item() for x in sums] == [3, 3]
