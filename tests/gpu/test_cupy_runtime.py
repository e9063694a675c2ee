"""The runtime of CuPy, in whole pipelines, on a CuPy made of host memory that watches contexts and what is given back."""

import contextlib
import gc
import os
import subprocess
import sys
import threading
from types import SimpleNamespace

import numpy as np
import pretend_cupy
import pytest
from fake_device import mirror
from helpers import LONG

from pipeflow import backends, fn, pipeline_def, types
from pipeflow.backend import GetCUDADeviceCount
from pipeflow.backends import cuda_programs
from pipeflow.backends.cuda_objects import PinnedMemory
from pipeflow.device.tensors import TensorGPU, TensorListGPU
from pipeflow.errors import InvalidState, NoGpu
from pipeflow.kernels import gpu as kernels
from pipeflow.kernels import kept_code

IMAGES = [np.arange(24, dtype=np.uint8).reshape(2, 4, 3) + np.uint8(9 * k) for k in range(3)]


def build(device_id=1, define=None, **options):
    """A pipeline on a GPU, by default the second one."""
    options = {"batch_size": 3, "num_threads": 2, "seed": 1, **options}
    source = lambda: mirror(fn.external_source(lambda: IMAGES, layout="HWC").gpu())
    return pipeline_def(define or source, device_id=device_id, **options)()


def flipped(batch):
    """The batch has the mirrored images."""
    for one, other in zip(batch.as_cpu().samples(), IMAGES, strict=True):
        np.testing.assert_array_equal(one, other[:, ::-1])


def test_a_pipeline_on_the_second_gpu_leaves_the_first_alone(machine):
    """No call of CUDA is made while GPU 0 is current, in any thread, to the end; no context is opened there."""

    def define():
        images = mirror(fn.external_source(lambda: IMAGES, layout="HWC").gpu())
        return images, images.cpu() + np.uint8(0)

    pipe = build(1, define)
    for _ in range(5):
        images, back = pipe.run()
        flipped(images)
        images.as_tensor().as_array()
        np.testing.assert_array_equal(back.as_array(), np.stack(IMAGES)[:, :, ::-1])
    del images, back
    del pipe
    gc.collect()
    assert {number for _, number in machine.calls} == {1}
    assert machine.contexts == {1}
    assert machine.device_of_thread() == 0  # the user's thread is what it was


def test_threads_that_make_results_for_the_second_gpu(machine):
    """They allocate page-locked memory there, in threads that never chose a device; it comes back with the pipeline."""
    large = [np.full((200, 200, 3), k, np.uint8) for k in range(3)]

    def define():
        images = fn.external_source(lambda: large, layout="HWC")
        made = fn.python_function(images, function=lambda x: x + np.uint8(1), parallel="threads")
        return fn.reshape(images + np.uint8(2), layout="HWC").gpu(), made.gpu()

    # Without batches ahead no thread works on one when the pipeline goes: it would return its memory a moment later.
    pipe = build(1, define, exec_async=False, exec_pipelined=False)
    for _ in range(4):
        for added, batch in zip((2, 1), pipe.run()):
            for one, image in zip(batch.as_cpu().samples(), large, strict=True):
                np.testing.assert_array_equal(one, image + np.uint8(added))
    assert machine.pinned
    del pipe, batch, one
    gc.collect()
    assert machine.contexts == {1}
    assert not machine.pinned


def test_a_batch_in_a_cycle_of_garbage(machine):
    """Its memory returns to the pool and is not freed under it: the next batches are right, and all is given back at the end."""
    pipe = build(0, exec_async=False, exec_pipelined=False)
    for _ in range(4):
        cycle = [pipe.run()[0]]
        cycle.append(cycle)
        pipe.run()  # the executor has no reference to the batch before
        del cycle
        gc.collect()
    allocations = pipe.executor_statistics()["gpu"]["allocations"]
    for _ in range(4):
        flipped(pipe.run()[0])
    assert pipe.executor_statistics()["gpu"]["allocations"] == allocations
    del pipe
    gc.collect()
    assert not machine.blocks


def test_two_pipelines_on_two_gpus(machine):
    """Each works on its own device, side by side in threads that never chose one."""
    pipes = [build(number) for number in range(2)]
    found = [[], []]

    def run(number):
        found[number] += [pipes[number].run()[0] for _ in range(4)]

    threads = [threading.Thread(target=run, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number, batches in enumerate(found):
        for batch in batches:
            assert batch.device_id() == number
            flipped(batch)
    assert machine.contexts == {0, 1}


def test_memory_comes_back(machine):
    """After fifteen pipelines no memory is in use, the same streams have served all, and CuPy's pool was emptied for them."""
    streams = set()
    for _ in range(15):
        pipe = build()
        flipped(pipe.run()[0])
        streams.add(pipe._executor.device.runtime.computing.ptr)
        pipe._executor.close()
        del pipe
        gc.collect()
    assert machine.used(1) == 0
    assert not machine.pinned
    assert len(streams) == 1
    assert {stream.ptr for stream in machine.pool_frees} == streams


def test_a_forked_process_is_refused(machine, monkeypatch):
    """A pipeline that was copied by fork says what to do, and frees nothing there."""
    pipe = build(exec_async=False, exec_pipelined=False)
    pipe.run()
    context, held = pipe._executor.device.runtime.context, machine.used(1)
    monkeypatch.setattr(context, "process", os.getpid() + 1)
    monkeypatch.setattr(backends.gpu, "_initialised", [os.getpid() + 1])
    with pytest.raises(InvalidState, match="start the process by spawn or forkserver"):
        pipe.run()
    with pytest.raises(NoGpu, match="was forked from it"):
        build().build()
    del pipe
    gc.collect()
    assert machine.used(1) == held


def test_looking_for_a_gpu_counts_as_using_it(machine, monkeypatch):
    """A process that is forked after the probe alone is told so too."""
    assert not backends.gpu.why_not(1)
    assert backends.gpu._initialised == [os.getpid()]
    monkeypatch.setattr(os, "getpid", lambda: 1)
    assert "was forked from it" in backends.gpu.why_not(1)


def test_arrays_of_the_user_keep_their_device(machine):
    """An array on the second GPU is wrapped there, whatever device is current."""
    runtime = backends.gpu.for_arrays()
    assert runtime.device == (2, 0)
    pipe = build(1)
    array = pipe.run()[0].as_tensor().as_array()
    assert TensorGPU(array).device_id() == 1
    with pytest.raises(ValueError, match="is on GPU 1 and the pipeline works on GPU 0"):
        runtime.as_array(array)


@pytest.mark.parametrize("form", ["batch", "tensor", "samples"])
@pytest.mark.parametrize("no_copy", [False, True])
def test_the_batches_of_one_pipeline_feed_another(machine, form, no_copy):
    """As they are, with their layout: a batch, the dense tensor of a batch, or a list of samples."""
    (batch,) = build().run()

    def define():
        return mirror(fn.external_source(device="gpu", name="data", no_copy=no_copy, layout=layout))

    layout = "HWC" if form == "tensor" else None  # that of the tensor has the axis of the samples too
    given = {"batch": batch, "tensor": batch.as_tensor(), "samples": list(batch)}[form]
    pipe = build(define=define, exec_async=False, exec_pipelined=False)
    pipe.feed_input("data", given)
    (found,) = pipe.run()
    assert found.layout() == "HWC"
    for one, other in zip(found.as_cpu().samples(), IMAGES, strict=True):
        np.testing.assert_array_equal(one, other)


def test_data_on_another_gpu(machine):
    """The error of a source names both, and the next pipeline works."""
    (batch,) = build(0).run()
    arrays = [sample.as_array() for sample in batch]
    pipe = build(1, lambda: fn.external_source(lambda: arrays, device="gpu", no_copy=True))
    with pytest.raises(ValueError, match="an array is on GPU 0 and the pipeline works on GPU 1"):
        pipe.run()
    flipped(build(1).run()[0])


def test_a_batch_of_arrays_is_on_one_gpu(machine):
    """A mixed list is refused before anything is copied."""
    one, other = (build(number).run()[0][0].as_array() for number in range(2))
    assert TensorListGPU([other, other]).device_id() == 1
    with pytest.raises(ValueError, match="sample 0 is on GPU 1 and sample 2 on GPU 0"):
        TensorListGPU([other, other, one])


def test_the_arrays_of_a_batch_may_change_after_they_were_wrapped(machine):
    """A copy to the CPU waits for the work that is queued on the caller's stream when it is made."""
    (batch,) = build().run()
    wrapped = TensorListGPU([sample.as_array() for sample in batch])
    machine.calls.clear()
    flipped(wrapped)
    names = [name for name, _ in machine.calls]
    assert "streamWaitEvent" in names[: names.index("memcpyAsync")]


def test_counting_gpus_opens_none(machine):
    """A context takes half a gigabyte on each."""
    assert GetCUDADeviceCount() == 2
    assert not machine.contexts


def test_a_gpu_that_was_full_is_tried_again(machine):
    """A reason that another process, or an installation, can remove is not kept."""
    machine.failing["malloc"] = pretend_cupy.CudaError("cudaErrorMemoryAllocation: out of memory")
    with pytest.raises(NoGpu, match="GPU 1 gives no memory"):
        build().build()
    flipped(build().run()[0])


class TestErrors:
    """What a user reads when CUDA fails."""

    def test_late_errors_say_so(self, machine):
        """Whatever was queued may have failed: the note names PIPEFLOW_SYNC, and that the process is lost."""
        pipe = build(exec_async=False, exec_pipelined=False)
        pipe.run()
        machine.failing["memcpyAsync"] = pretend_cupy.CudaError("cudaErrorIllegalAddress: an illegal memory access")
        with pytest.raises(pretend_cupy.CudaError) as caught:
            pipe.run()
        notes = "\n".join(caught.value.__notes__)
        assert "PIPEFLOW_SYNC=1" in notes
        assert "start it again" in notes

    def test_in_careful_mode_the_named_operator_is_the_one(self, machine, monkeypatch):
        """Then only the last part is said."""
        monkeypatch.setenv("PIPEFLOW_SYNC", "1")
        pipe = build(exec_async=False, exec_pipelined=False)
        machine.failing["launchKernel"] = pretend_cupy.DriverError("CUDA_ERROR_ILLEGAL_ADDRESS")
        with pytest.raises(pretend_cupy.DriverError) as caught:
            pipe.run()
        notes = "\n".join(caught.value.__notes__)
        assert "PIPEFLOW_SYNC" not in notes
        assert "in fn._mirror" in notes
        assert "start it again" in notes

    def test_no_memory(self, machine):
        """The message names the size and what is free, and nothing is lost."""
        machine.capacity = 100_000
        runtime = backends.gpu.open_device(0)
        with runtime.active(), pytest.raises(MemoryError, match="GPU 0 has no 1 MB left: 0 of 0 MB are free") as caught:
            runtime.allocate(1_000_000)
        assert not getattr(caught.value, "__notes__", [])
        assert None in machine.pool_frees

    def test_a_missing_cufft_is_said_at_build(self, machine):
        """With the line that installs it."""
        sound = [np.zeros(400, np.float32)] * 3
        pipe = build(0, lambda: fn.spectrogram(fn.external_source(lambda: sound).gpu(), nfft=512))
        reason = r'cannot be loaded \(Failure finding "libcufft.so.12"\): pip install nvidia-cufft'
        with pytest.raises(NoGpu, match=reason) as caught:
            pipe.build()
        assert "fn.spectrogram" in "\n".join(caught.value.__notes__)


class TestCompilation:
    """One program a file, kept on disk."""

    def prepare(self, machine, *files):
        """Compiles as a process does that has just begun."""
        cuda_programs._programs.clear()
        machine.cuda.nvrtc.compiled.clear()
        cuda_programs.prepare(machine.cuda.nvrtc, files, 90, "/cuda/include")
        return sorted(machine.cuda.nvrtc.compiled)

    def test_the_second_process_compiles_nothing(self, machine, tmp_path):
        """The file on disk is taken, as long as nothing that it depends on has changed."""
        assert self.prepare(machine, "move.cu", "cast.cu") == ["cast.cu", "move.cu"]
        assert self.prepare(machine, "move.cu", "cast.cu") == []
        machine.cuda.nvrtc.version = (13, 1)
        assert self.prepare(machine, "move.cu") == ["move.cu"]
        machine.cuda.nvrtc.version = (13, 0)
        for path in tmp_path.iterdir():
            path.write_bytes(path.read_bytes()[:-1])
        assert self.prepare(machine, "move.cu") == ["move.cu"]

    def test_a_damaged_file_is_compiled_again(self, machine, tmp_path):
        """And is whole then."""
        self.prepare(machine, "move.cu")
        (kept,) = tmp_path.glob("move-*.nbc")
        content = kept.read_bytes()
        for damaged in (content[:-1] + b"?", content[:40], b""):
            kept.write_bytes(damaged)
            assert self.prepare(machine, "move.cu") == ["move.cu"]
            assert kept.read_bytes() == content

    def test_a_file_that_another_process_compiles_is_waited_for(self, machine, tmp_path, monkeypatch):
        """The ranks of a job start at the same moment, and one of them compiles."""
        self.prepare(machine, "move.cu")
        (kept,) = tmp_path.glob("move-*.nbc")
        content = kept.read_bytes()
        kept.unlink()
        assert kept_code.locks_of(tmp_path).take(kept.name)
        monkeypatch.setattr(kept_code, "time", SimpleNamespace(sleep=lambda _: kept.write_bytes(content)))
        try:
            assert self.prepare(machine, "move.cu") == []
        finally:
            kept_code.locks_of(tmp_path).give(kept.name)

    def test_what_the_code_depends_on(self, machine, monkeypatch):
        """Text, headers, options and architecture are all in the key; folders are not."""
        nvrtc = machine.cuda.nvrtc

        def key(architecture=90, headers="/cuda/include"):
            return cuda_programs.key_of(nvrtc, "move.cu", architecture, headers)

        first = key()
        assert key(headers="/elsewhere") == first
        assert key(75) != first
        with monkeypatch.context() as patch:
            patch.setattr(cuda_programs, "shared_digest", lambda _headers: "other")
            assert key() != first
        with monkeypatch.context() as patch:
            patch.setattr(kernels, "source", lambda _file: "other")
            assert key() != first
        with monkeypatch.context() as patch:
            patch.setattr(cuda_programs, "options", lambda *_: ("--use_fast_math",))
            assert key() != first

    def test_the_options(self, machine):
        """Those of the tests, nothing of CuPy's."""
        self.prepare(machine, "move.cu")
        assert machine.cuda.nvrtc.options == [
            (
                "-arch=sm_90",
                "--std=c++17",
                "--fmad=false",
                "--device-as-default-execution-space",
                f"-I{kernels.FOLDER}",
                "-I/cuda/include",
            )
        ]

    def test_kernels_are_ready_after_build(self, machine):
        """Nothing is compiled or loaded by the first batch."""
        pipe = build(
            0, lambda: mirror(fn.external_source(lambda: IMAGES, layout="HWC", dtype=types.UINT8, ndim=3).gpu())
        )
        pipe.build()
        assert machine.cuda.nvrtc.compiled == ["mirror.cu"]
        loaded = [name for name, _ in machine.calls].count("moduleLoadData")
        pipe.run()
        assert [name for name, _ in machine.calls].count("moduleLoadData") == loaded == 1

    def test_a_failed_compilation_is_tried_again(self, machine, monkeypatch):
        """And its message is the compiler's."""
        nvrtc = machine.cuda.nvrtc

        def fail(program, _options):
            raise nvrtc.NVRTCError(program.file)

        nvrtc.getProgramLog = lambda program: f"{program.file}(3): error: no such type"
        with monkeypatch.context() as patch:
            patch.setattr(nvrtc, "compileProgram", fail)
            with pytest.raises(RuntimeError, match=r"move\.cu\(3\): error"):
                self.prepare(machine, "move.cu")
        cuda_programs.prepare(nvrtc, ["move.cu"], 90, "/cuda/include")
        assert nvrtc.compiled == ["move.cu"]

    @pytest.mark.parametrize(("capability", "chosen"), [(75, 75), (87, 86), (90, 90), (103, 100), (121, 120)])
    def test_architectures(self, capability, chosen):
        """The newest one of the GPU's generation that the compiler knows."""
        known = pretend_cupy.PretendNvrtc().getSupportedArchs()
        assert cuda_programs.architecture_for(capability, known, (13, 0)) == chosen


def test_page_locked_memory_of_a_context_that_is_gone_is_not_freed():
    """At the end of a program CUDA may be closed before the last batch is collected."""
    freed = []
    runtime = SimpleNamespace(hostAlloc=lambda *_: 4096, freeHost=freed.append)
    context = SimpleNamespace(cuda=SimpleNamespace(runtime=runtime), alive=True, current=contextlib.nullcontext)
    kept = [PinnedMemory(context, 8) for _ in range(2)]
    del kept[0]
    assert freed == [4096]
    context.alive = False
    del kept[0]
    assert freed == [4096]


def test_kept_programs_are_read_without_numba():
    """A program that is kept is launched soon: Numba takes a fifth of a second to load, and only the CPU's kernels need it."""
    code = (
        "import sys; from pipeflow.backends import cuda_programs; from pipeflow.kernels import kept_code; "
        "kept_code.KernelFiles(kept_code.folder_for('cuda-kernels'), 'x').load('y'); assert 'numba' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=LONG)
