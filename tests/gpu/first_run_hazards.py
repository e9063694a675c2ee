"""What only a real GPU can show: each check says what is wrong by an exception, or gives a text.

Those that need nothing of CUDA but a pipeline run on the emulation too.
"""

import gc
import importlib
import importlib.util
import io
import os
import subprocess
import sys
import threading
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from pipeflow import backends, fn, pipeline_def, types

BATCHES = [[np.full((64, 64, 3), 16 * b + k, np.uint8) for k in range(4)] for b in range(8)]
ROOT = str(Path(__file__).resolve().parents[2])


class NotHere(Exception):
    """A library that is not installed, or a machine that lacks something; the reason."""


def build(function, batches=BATCHES, layout="HWC", **options):
    """A pipeline of one function of a node on the GPU."""

    def define():
        named = {"layout": layout} if layout else {}
        made = function(fn.external_source(batches, cycle="quiet", **named).gpu())
        return tuple(made) if isinstance(made, (list, tuple)) else made

    return pipeline_def(define, **{"batch_size": 4, "num_threads": 2, "device_id": 0, "seed": 1, **options})()


def same(batch, expected):
    """A batch has these samples."""
    for one, other in zip(batch.as_cpu().samples(), expected, strict=True):
        np.testing.assert_array_equal(one, other)


def library(name):
    """A framework, with its GPU."""
    if importlib.util.find_spec(name) is None:
        raise NotHere(f"{name} is not installed")
    module: Any = importlib.import_module(name)
    there = module.cuda.is_available() if name == "torch" else module.default_backend() == "gpu"
    if not there:
        raise NotHere(f"{name} sees no GPU")
    return module


def child(code, **environment):
    """What a process of its own prints, with what it needs before the code; AssertionError where it fails."""
    begin = f"import sys; sys.path[:0] = [{ROOT!r}, {str(Path(__file__).parent)!r}]\nfrom first_run_hazards import *\n"
    variables = {**os.environ, "XLA_PYTHON_CLIENT_PREALLOCATE": "false", **environment}
    done = subprocess.run(
        [sys.executable, "-c", begin + code], capture_output=True, text=True, timeout=120, env=variables
    )
    assert done.returncode == 0, f"exit {done.returncode}: {done.stderr[-400:]}"
    assert not done.stderr.strip(), done.stderr[-400:]
    return done.stdout.strip()


def sums(batch):
    """What the sum of each sample must be."""
    return [int(x.astype(np.int64).sum()) for x in batch]


# ---------------------------------------------------------------------------------------------------
# Without anything of CUDA


def small_numbers():
    """Numbers below the normal ones stay what they are."""
    tiny = np.array([1e-39, -3e-40, 1e-45, 1.0], np.float32)
    pipe = build(lambda x: (fn.cast(x, dtype=types.FLOAT64), x * np.float32(0.5)), [[tiny] * 4], None)
    wide, half = pipe.run()
    same(wide, [tiny.astype(np.float64)] * 4)
    same(half, [tiny * np.float32(0.5)] * 4)


def functions():
    """Functions of arrays, for a sample and for a batch."""
    each = build(lambda x: fn.python_function(x, function=lambda a: (a[::-1] + 1, a.sum(axis=(0, 1))), num_outputs=2))
    whole = build(lambda x: fn.python_function(x, function=lambda batch: [a * 2 for a in batch], batch_processing=True))
    for images in BATCHES[:3]:
        turned, added = each.run()
        same(turned, [x[::-1] + 1 for x in images])
        same(added, [x.sum(axis=(0, 1)) for x in images])
        same(whole.run()[0], [x * 2 for x in images])


def two_pipelines():
    """Two pipelines are run by two threads that never chose a device."""
    wrong = []

    def work(vertical):
        try:
            pipe = build(lambda x: fn.flip(x, horizontal=not vertical, vertical=vertical))
            for images in BATCHES:
                same(pipe.run()[0], [x[::-1] if vertical else x[:, ::-1] for x in images])
        except Exception as error:
            wrong.append(error)

    threads = [threading.Thread(target=work, args=(vertical,)) for vertical in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if wrong:
        raise wrong[0]


def copies_beside_kernels():
    """Uploads have blocks of their own without a size hint."""
    pipe = build(fn.flip)
    for images in BATCHES:
        same(pipe.run()[0], [x[:, ::-1] for x in images])
    return f"{pipe.executor_statistics()['gpu']['allocations']} allocations"


def sent_from_page_locked_memory():
    """Large results of CPU steps are copied from where they are, and their memory is used again after that."""
    large = [[np.full((300, 400, 3), 16 * b + k, np.uint8) for k in range(4)] for b in range(8)]
    pipe = pipeline_def(
        lambda: (fn.external_source(large, layout="HWC", cycle="quiet") + np.uint8(1)).gpu(),
        batch_size=4, num_threads=2, device_id=0,
    )()  # fmt: skip
    for number in range(40):
        same(pipe.run()[0], [x + np.uint8(1) for x in large[number % 8]])
    told = pipe.executor_statistics()["gpu"]
    return f"{told['uploads']} copies, {told['pinned_allocations']} allocations of page-locked memory"


# ---------------------------------------------------------------------------------------------------
# With CUDA


def foreign_stream():
    """A stream of the user reads batches; no warning comes of it."""
    cupy = backends.gpu.cupy
    stream, pipe = cupy.cuda.Stream(non_blocking=True), build(fn.flip)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for images in BATCHES * 2:
            (batch,) = pipe.run()
            with stream:
                found = [int(cupy.from_dlpack(sample).astype(cupy.int64).sum()) for sample in batch]
            assert found == sums(images), found
            del batch


def destroyed_stream():
    """A stream of the user is gone before its batch comes back."""
    print_it = """
import cupy
pipe = build(fn.flip)
for _ in range(6):
    (batch,) = pipe.run()
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        kept = cupy.from_dlpack(batch[0]); kept.sum()
    del stream
    gc.collect()
    del batch, kept
for _ in range(6):
    pipe.run()
print("done")
"""
    assert child(print_it) == "done"


def fed_on_another_stream():
    """Data that is still being made on the current stream of CuPy or torch is fed, copied and not."""
    cupy = backends.gpu.cupy
    slow = cupy.RawKernel(
        'extern "C" __global__ void slow() { long long t = clock64(); while (clock64() - t < 9000000); }', "slow"
    )
    for no_copy in (False, True):
        pipe = pipeline_def(
            lambda no_copy=no_copy: fn.flip(
                fn.external_source(device="gpu", name="data", layout="HWC", no_copy=no_copy), horizontal=1
            ),
            batch_size=4, num_threads=2, device_id=0, exec_async=False, exec_pipelined=False,
        )()  # fmt: skip
        stream = cupy.cuda.Stream(non_blocking=True)
        for images in BATCHES:
            sources, made = cupy.asarray(np.stack(images)), cupy.zeros((4, 64, 64, 3), cupy.uint8)
            cupy.cuda.Stream.null.synchronize()
            with stream:
                slow((1,), (1,), ())
                made[...] = sources
                pipe.feed_input("data", made)
            same(pipe.run()[0], [x[:, ::-1] for x in images])


def late_consumer():
    """torch is late on its stream and lets go of the batch at once: nothing is overwritten too early."""
    torch = library("torch")
    for stream in (torch.cuda.current_stream(), torch.cuda.Stream()):
        pipe, found = build(fn.flip), []
        with torch.cuda.stream(stream):
            for _ in range(64):
                (batch,) = pipe.run()
                tensor = torch.from_dlpack(batch.as_tensor())
                torch.cuda._sleep(2_000_000)
                found.append(tensor.long().sum(dim=(1, 2, 3)))
                del batch, tensor
        torch.cuda.synchronize()
        assert [x.tolist() for x in found] == [sums(BATCHES[number % 8]) for number in range(64)]


def array_interface():
    """torch.as_tensor waits for the batch."""
    torch = library("torch")

    def slow(x):
        torch.cuda._sleep(3_000_000)
        return x + 1

    pipe = build(lambda x: fn.python_function(x, function=slow))
    for images in BATCHES * 2:
        found = torch.as_tensor(pipe.run()[0][0], device="cuda").long().sum().item()
        assert found == int((images[0].astype(np.int64) + 1).sum())


def capsules():
    """A function of capsules returns what torch is still computing."""
    torch = library("torch")

    def function(capsule):
        x = torch.from_dlpack(capsule)
        torch.cuda._sleep(3_000_000)
        return torch.utils.dlpack.to_dlpack(x + 1)

    pipe = build(lambda x: fn.dl_tensor_python_function(x, function=function, batch_processing=False))
    for images in BATCHES:
        same(pipe.run()[0], [x + 1 for x in images])


def jax_reads_late():
    """JAX reads a batch at the end of a long computation."""
    jax = library("jax")
    from pipeflow.plugin.jax import DALIGenericIterator

    numbers = jax.numpy

    @jax.jit
    def slow(x, w):
        for _ in range(12):
            w = numbers.tanh(w @ w)
        return (x.astype(numbers.int32) + (w[0, 0] * 0).astype(numbers.int32)).sum(axis=(1, 2, 3))

    w = numbers.ones((3000, 3000), numbers.float32)
    iterator = DALIGenericIterator(build(fn.flip), ["x"])
    found = [slow(next(iterator)["x"], w) for _ in range(40)]
    assert [np.asarray(x).tolist() for x in found] == [sums(BATCHES[number % 8]) for number in range(40)]


def jax_single_samples():
    """JAX gets single samples that begin at any byte."""
    library("jax")
    from pipeflow.plugin import jax as plugin

    odd = [[np.full((5, 7, 3), k + 1, np.uint8) for k in range(4)]]
    double = plugin.jax_function(lambda x: x * 2, batch_processing=False, device="gpu")
    same(build(double, odd).run()[0], [x * 2 for x in odd[0]])


def torch_functions():
    """torch works on the pipeline's stream."""
    library("torch")
    from pipeflow.plugin import pytorch

    pipe = build(
        lambda x: pytorch.fn.torch_python_function(x, function=lambda t: t.flip(0) * 2, batch_processing=False)
    )
    for images in BATCHES:
        same(pipe.run()[0], [x[::-1] * 2 for x in images])


def no_memory():
    """A batch that does not fit is a MemoryError, and the pipeline goes on."""
    large = [20.0]

    def sizes():
        return [np.array(large * 2, np.float32)] * 4

    pipe = build(lambda x: fn.resize(x, size=fn.external_source(sizes)), prefetch_queue_depth=1)
    pipe.run()
    large[:] = [200_000.0]
    text = ""
    for _ in range(6):
        try:
            made = pipe.run()[0].shape()
        except MemoryError as error:
            text = str(error)
            large[:] = [20.0]
            continue
        if text and made[0] == (20, 20, 3):
            return text
    raise AssertionError(f"it did not recover: {text or 'there was no MemoryError'}")


def late_error():
    """A kernel that fails is named with PIPEFLOW_SYNC=1; without it the note says so."""
    broken = """
import cupy
bad = cupy.RawKernel('extern "C" __global__ void bad(char* p) { p[1LL << 45] = 1; }', "bad")
def function(x):
    bad((1,), (1,), (x,))
    return x
pipe = build(lambda x: fn.flip(fn.python_function(fn.flip(x), function=function, name="bad_one")).cpu())
try:
    for _ in range(6):
        pipe.run()
except Exception as error:
    print(str(error), *error.__notes__)
import os; sys.stdout.flush(); os._exit(0)
"""
    assert "PIPEFLOW_SYNC=1" in child(broken)
    assert "bad_one" in child(broken, PIPEFLOW_SYNC="1")


def forked_process():
    """A process that was forked after the first GPU pipeline gets an error that says so; a process that ends prints nothing."""
    text = """
import os, warnings
warnings.simplefilter("ignore")
pipe = build(fn.flip); kept = pipe.run()
pid = os.fork()
if not pid:
    try:
        build(fn.flip).run()
    except Exception as error:
        print(error)
    sys.stdout.flush(); os._exit(0)
os.waitpid(pid, 0)
"""
    assert "was forked from it" in child(text)


def memory_comes_back():
    """Fifteen pipelines that come and go leave no memory behind."""
    cupy = backends.gpu.cupy
    free = []
    for _ in range(20):
        pipe = build(lambda x: fn.python_function(x, function=lambda a: a.astype(np.float32) * 2))
        pipe.run()
        del pipe
        gc.collect()
        free.append(cupy.cuda.runtime.memGetInfo()[0])
    assert free[4] - free[-1] < 32 << 20, f"{(free[4] - free[-1]) / 1e6:.0f} MB are gone"


def second_device():
    """A pipeline on GPU 1 takes nothing of GPU 0."""
    cupy = backends.gpu.cupy
    if cupy.cuda.runtime.getDeviceCount() < 2:
        raise NotHere("there is one GPU")
    text = """
pipe = build(fn.flip, device_id=1)
same(pipe.run()[0], [x[:, ::-1] for x in BATCHES[0]])
from pipeflow.backends.gpu import cupy
import subprocess, os
listed = subprocess.run(["nvidia-smi", "--query-compute-apps=pid,gpu_bus_id", "--format=csv,noheader"],
                        capture_output=True, text=True).stdout
print(len([line for line in listed.splitlines() if line.startswith(str(os.getpid()))]))
"""
    assert int(child(text)) <= 1, "the process has a context on more than one GPU"


def decoder():
    """nvImageCodec decodes JPEG of all kinds as the CPU does."""
    if not backends.gpu.has_codec():
        raise NotHere("nvImageCodec is not installed")
    from PIL import Image

    y, x = np.mgrid[0:333, 0:500]
    waves = np.stack([127 + 100 * np.sin(x / 9), 127 + 100 * np.cos(y / 11), 127 + 90 * np.sin((x + y) / 5)], -1)
    kinds = {"4:2:0": {}, "4:4:4": {"subsampling": 0}, "progressive": {"progressive": True}}
    files = []
    for options in kinds.values():
        file = io.BytesIO()
        Image.fromarray(waves.astype(np.uint8)).save(file, "JPEG", quality=90, **options)
        files.append(np.frombuffer(file.getvalue(), np.uint8))

    def made(device, number):
        def define():
            return fn.decoders.image(fn.external_source([files], cycle="quiet"), device=device)

        pipe = pipeline_def(define, batch_size=len(files), num_threads=2, device_id=number)()
        return pipe.run()[0].as_cpu().samples()

    pairs = zip(made("mixed", 0), made("cpu", None), strict=True)
    off = {name: int(np.abs(a.astype(int) - b.astype(int)).max()) for name, (a, b) in zip(kinds, pairs)}
    assert max(off.values()) <= 4, f"largest differences: {off}"
    return str(off)


EVERYWHERE = (small_numbers, functions, two_pipelines, copies_beside_kernels, sent_from_page_locked_memory)
CHECKS = (
    *EVERYWHERE,
    foreign_stream,
    destroyed_stream,
    fed_on_another_stream,
    late_consumer,
    array_interface,
    capsules,
    jax_reads_late,
    jax_single_samples,
    torch_functions,
    no_memory,
    late_error,
    forked_process,
    memory_comes_back,
    second_device,
    decoder,
)
