"""CUDA graphs: equal launches are captured once and then queued by one call; what no graph can have is refused."""

import gc

import fake_device
import numpy as np
import pretend_cupy
import pytest
from fake_device import mirror

from pipeflow import backends, fn, pipeline_def
from pipeflow.executor.device.graphs import MOST_SEEN, LaunchGraphs, Queued

RNG = np.random.default_rng(3)
IMAGES = [[RNG.integers(0, 255, (4, 5, 3), np.uint8) for _ in range(3)] for _ in range(12)]
RAGGED = [[x[: 1 + (b + k) % 4] for k, x in enumerate(batch)] for b, batch in enumerate(IMAGES)]


def build(define, **options):
    """A pipeline with graphs."""
    options = {"batch_size": 3, "num_threads": 2, "device_id": 0, "seed": 1, "cuda_graph": True, **options}
    return pipeline_def(define, **options)()


def twice(batches=IMAGES):
    """Two operators and a copy, in one segment; the CPU draws the direction of the second one."""
    images = mirror(fn.external_source(batches, layout="HWC", cycle="quiet").gpu())
    coins = fn.random.coin_flip(name="coin")
    return mirror(images, horizontal=0, vertical=coins), fn.copy(images), coins


def check(pipe, batches):
    """All batches are right."""
    for images in batches:
        made, plain, coins = pipe.run()
        for one, other, x, coin in zip(made.as_cpu().samples(), plain.as_cpu().samples(), images, coins.as_array()):
            np.testing.assert_array_equal(one, x[:: -1 if coin else 1, ::-1])
            np.testing.assert_array_equal(other, x[:, ::-1])


@pytest.mark.parametrize("seed", range(10))
def test_batches_of_one_shape(monkeypatch, seed):
    """After the first batches all launches of a segment are one call, and each batch has its own data and arguments."""
    runtime = fake_device.FakeRuntime(seed=seed, launcher=fake_device.by_numpy)
    monkeypatch.setattr(backends.gpu, "open_device", lambda _number: runtime)
    pipe = build(twice)
    check(pipe, IMAGES * 4)
    found = pipe.executor_statistics()["gpu"]
    assert found["graphs_replayed"] == runtime.counts["replay"]
    assert found["graphs_replayed"] >= 20
    assert found["graphs_captured"] <= 16


def test_without_the_argument_nothing_is_captured(device):
    """Graphs are off by default."""
    pipe = pipeline_def(twice, batch_size=3, num_threads=2, device_id=0, seed=1)()
    check(pipe, IMAGES)
    assert "replay" not in device.counts


def test_batches_of_other_shapes_are_launched_as_usual(device):
    """Ragged batches are right too; the few that come again are replayed."""
    check(build(lambda: twice(RAGGED)), RAGGED * 3)


def test_a_single_launch_needs_no_graph(device):
    """One launch is one call already."""
    pipe = build(lambda: mirror(fn.external_source(IMAGES, layout="HWC", cycle="quiet").gpu()))
    for _ in range(12):
        pipe.run()
    assert "replay" not in device.counts


def test_waiting_after_every_operator(device, monkeypatch):
    """PIPEFLOW_SYNC=1 names the operator that fails, so launches stay apart."""
    monkeypatch.setenv("PIPEFLOW_SYNC", "1")
    check(build(twice), IMAGES)
    assert "replay" not in device.counts


def test_what_no_graph_can_have(device):
    """Functions of the user and transforms by a library are refused when the pipeline is built; the line is named."""

    def function():
        return fn.python_function(twice()[0], function=lambda x: x)

    def spectrum():
        return fn.spectrogram(
            fn.external_source(lambda: [np.zeros(64, np.float32)] * 3, layout="t").gpu(), window_length=16
        )

    for define, text in ((function, "python_function runs code on the CPU"), (spectrum, "spectrogram calls a library")):
        with pytest.raises(ValueError, match=f"cuda_graph=True: fn.{text}.*Leave cuda_graph out") as caught:
            build(define).build()
        assert "test_cuda_graphs.py" in "\n".join(caught.value.__notes__)


class Recorder:
    """A runtime that notes what is captured and replayed."""

    computing = "computing"

    def __init__(self):
        self.calls = []

    def capture(self, calls):
        for call in calls:
            call("recording")
        return tuple(self.calls[-len(calls) :])

    def replay(self, stream, graph):
        self.calls.append((stream, graph))


def work(runtime, *names):
    """Queued work with these names."""
    return [Queued(None, lambda stream, name=name: runtime.calls.append((stream, name)), name) for name in names]


def test_captured_the_second_time_and_replayed():
    """The first time a kernel may have to be loaded, which a capture forbids."""
    runtime = Recorder()
    graphs = LaunchGraphs(runtime, 2)
    assert not graphs.replay(work(runtime, 1, 2))
    assert runtime.calls == []
    assert graphs.replay(work(runtime, 1, 2))
    graph = (("recording", 1), ("recording", 2))
    assert runtime.calls == [*graph, ("computing", graph)]
    assert graphs.replay(work(runtime, 1, 2))
    assert runtime.calls[-1] == ("computing", graph)
    assert (graphs.captured, graphs.replayed) == (1, 2)
    assert not graphs.replay(work(runtime, 2, 1))
    assert not graphs.replay(work(runtime, 1, None))
    assert not graphs.replay(work(runtime, 1))
    assert not graphs.replay([])


def test_few_graphs_are_kept():
    """The one that was used longest ago is dropped, and names that came once are forgotten."""
    runtime = Recorder()
    graphs = LaunchGraphs(runtime, 1)
    for name in range(5):
        assert not graphs.replay(work(runtime, name, "x"))
    for name in (0, 1, 2, 3, 0, 4):
        assert graphs.replay(work(runtime, name, "x"))
    captured = graphs.captured
    assert graphs.replay(work(runtime, 0, "x"))
    assert graphs.captured == captured
    assert graphs.replay(work(runtime, 1, "x"))  # seen before, so it is captured at once
    assert graphs.captured == captured + 1
    for name in range(100, 100 + MOST_SEEN):
        graphs.replay(work(runtime, name, "x"))
    assert not graphs.replay(work(runtime, 2, "x"))


IN_TURN = {"exec_async": False, "exec_pipelined": False, "num_threads": 1}


def test_the_calls_of_cuda(machine):
    """Work is captured on a stream of its own, on the pipeline's GPU, instantiated once, and given back."""
    pipe = build(twice, device_id=1, **IN_TURN)
    check(pipe, IMAGES * 2)
    names = [name for name, number in machine.calls if number == 1]
    assert {number for _, number in machine.calls} == {1}
    captured = pipe.executor_statistics()["gpu"]["graphs_captured"]
    assert captured
    for name in ("streamBeginCapture", "streamEndCapture", "graphInstantiate", "graphDestroy"):
        assert names.count(name) == captured
    assert names.count("graphLaunch") == pipe.executor_statistics()["gpu"]["graphs_replayed"]
    assert len(machine.graphs) == captured
    del pipe
    gc.collect()
    assert not machine.graphs


def test_a_capture_that_fails(machine):
    """The error names the segment's first step, the capture is ended, and the next batches are right."""
    pipe = build(twice, **IN_TURN)
    check(pipe, IMAGES[:1])
    machine.failing["launchKernel"] = pretend_cupy.CudaError("cudaErrorStreamCaptureUnsupported")
    notes = []
    for _ in range(8):
        try:
            pipe.run()
        except pretend_cupy.CudaError as error:
            notes.append("\n".join(error.__notes__))
    assert [("PIPEFLOW_SYNC=1" in one) for one in notes] == [True]
    assert not machine.captures
    assert pipe.executor_statistics()["gpu"]["graphs_replayed"]
