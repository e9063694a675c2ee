"""Several GPUs and processes: the ranks of a job, two pipelines in one thread, forked processes and worker processes."""

import gc
import os
import warnings

import numpy as np
import pytest
from fake_device import mirror
from loaded_modules import modules_of_the_gpu

from pipeflow import fn, pipeline_def
from pipeflow.errors import InvalidState, NoGpu


def numbers(info):
    """A sample that holds its place in the epoch."""
    if info.idx_in_epoch >= 12:
        raise StopIteration
    return np.full((2, 4, 3), info.idx_in_epoch, np.uint8)


@pipeline_def(batch_size=2, num_threads=1, seed=1)
def shard(folder, rank, ranks):
    """The mirrored arrays of one rank, on its GPU."""
    arrays = fn.readers.numpy(file_root=folder, shard_id=rank, num_shards=ranks, name="reader")
    return mirror(fn.reshape(arrays.gpu(), layout="HWC"))


def seen(batch):
    """The numbers in a batch."""
    return [int(sample[0, 0, 0]) for sample in batch.as_cpu().samples()]


def test_each_rank_reads_its_shard_to_its_gpu(machine, tmp_path):
    """A device for each rank: together the ranks have every sample once, and a rank uses no other device than its own."""
    folder = tmp_path / "arrays"
    folder.mkdir()
    for number in range(8):
        np.save(folder / f"{number}.npy", np.full((2, 4, 3), number, np.uint8))
    found = []
    for rank in (1, 0):
        pipe = shard(str(folder), rank, 2, device_id=rank)
        batches = [pipe.run()[0] for _ in range(2)]
        assert {batch.device_id() for batch in batches} == {rank}
        found += [number for batch in batches for number in seen(batch)]
        if rank == 1:
            assert machine.contexts == {1}
            assert {number for _, number in machine.calls} == {1}
    assert sorted(found) == list(range(8))


def test_two_gpus_in_turn_in_one_thread(machine):
    """Batches of both stay right while the other pipeline runs, and all memory of both is given back."""
    pipes = [
        pipeline_def(lambda: mirror(fn.external_source(numbers, batch=False, batch_info=False, layout="HWC").gpu()))(
            batch_size=2, num_threads=1, device_id=number
        )
        for number in (0, 1)
    ]
    kept = [(pipe.run()[0], number) for _ in range(3) for number, pipe in enumerate(pipes)]
    for place, (batch, number) in enumerate(kept):
        assert batch.device_id() == number
        assert seen(batch) == [place // 2 * 2, place // 2 * 2 + 1]
    for pipe in pipes:
        pipe._executor.close()  # waits for its threads
    del kept, batch, pipe
    pipes.clear()
    gc.collect()
    assert machine.used(0) == machine.used(1) == 0


def in_a_fork(work):
    """What a function returns in a forked process."""
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of a fork with threads: users do that
        child = os.fork()
    if not child:
        try:
            os.write(writing, work().encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as text:
        found = text.read()
    os.waitpid(child, 0)
    return found


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_process_that_is_forked_after_the_first_batch(machine):
    """A pipeline of the parent, and one that the child makes, say what to do; the parent goes on."""

    def build():
        return pipeline_def(lambda: mirror(fn.external_source(numbers, batch=False, layout="HWC").gpu()))(
            batch_size=2, num_threads=1, device_id=0, exec_async=False, exec_pipelined=False
        )

    def work():
        texts = []
        for call, kind in ((pipe.run, InvalidState), (lambda: build().build(), NoGpu)):
            try:
                call()
            except kind as error:
                texts.append(str(error))
        return "\n".join(texts)

    pipe = build()
    assert seen(pipe.run()[0]) == [0, 1]
    ours, new = in_a_fork(work).splitlines()
    assert "this pipeline was built in another process" in ours
    assert f"CUDA was initialised in process {os.getpid()}" in new
    assert "start the process by spawn or forkserver" in new
    assert seen(pipe.run()[0]) == [2, 3]


def test_worker_processes_of_a_pipeline_on_a_gpu(machine):
    """They are started after CUDA was used, work on the CPU, and load nothing of the GPU; their results go to its GPU alone."""
    pipeline_def(lambda: mirror(fn.external_source(numbers, batch=False, layout="HWC").gpu()))(
        batch_size=2, num_threads=1, device_id=1
    ).run()

    def define():
        samples = fn.external_source(numbers, batch=False, layout="HWC")
        worked = fn.python_function(samples, function=modules_of_the_gpu, parallel="processes", output_layouts="HWC")
        return mirror(worked.gpu())

    pipe = pipeline_def(define)(batch_size=2, num_threads=1, device_id=1, py_num_workers=1, py_start_method="spawn")
    assert [seen(pipe.run()[0]) for _ in range(2)] == [[0, 1], [2, 3]]
    assert machine.contexts == {1}
    pipe._executor.close()
