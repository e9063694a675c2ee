"""A process that starts programs with a journal: each is forked, so that it begins without the cost of imports.

It reads one line of JSON for each program, and answers with a line each: the process id, ``begun`` with the first batch,
and the exit status.
"""

import json
import os
import sys

import numpy as np

from pipeflow import fn, pipeline_def

SIZE = 53


def reading(shard=0, shards=1, batch_size=4, threads=2, processes=False, **settings):
    """A shuffled reader with a random number beside every sample."""

    @pipeline_def(batch_size=batch_size, num_threads=threads, device_id=None, seed=7, **settings)
    def define():
        index = fn.readers.dataset(
            dataset=list(range(SIZE)), random_shuffle=True, shard_id=shard, num_shards=shards, name="numbers"
        )
        if processes:
            index = fn.python_function(index, function=np.abs, parallel="processes")
        return index, fn.random.uniform()

    return define()


def rows(batch):
    """The samples of a batch as plain pairs."""
    return [(int(x), float(y)) for x, y in zip(batch[0].samples(), batch[1].samples())]


def job(path, log, shard, shards, processes):
    """A program over two epochs that notes each batch when it has it and when it is done."""
    pipe = reading(shard, shards, processes=processes, py_num_workers=1)
    note = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    begun = False
    for _ in range(2):
        before = None
        for batch in pipe.epoch(journal=path):
            if before is not None:
                os.write(note, b"d" + before)
            before = json.dumps(rows(batch)).encode() + b"\n"
            os.write(note, b"h" + before)
            if not begun:
                answer("begun")
                begun = True
        if before is not None:
            os.write(note, b"d" + before)


def answer(line):
    """Tells the parent, by one write: nothing of it is left in a buffer when the process is killed."""
    os.write(1, f"{line}\n".encode())


def serve():
    """Starts programs until the input ends."""
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            status = 1
            try:
                job(*json.loads(line))
                status = 0
            finally:
                os._exit(status)
        answer(child)
        answer(os.waitpid(child, 0)[1])


if __name__ == "__main__":
    serve()
