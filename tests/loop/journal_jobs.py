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


def noted(pipe, journal, log):
    """The batches of two epochs; each is noted in a file when the loop has it (h), and when it is done (d)."""
    note = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    for _ in range(2):
        before = None
        for batch in pipe.epoch(journal=journal):
            if before is not None:
                os.write(note, b"d" + before)
            before = json.dumps(rows(batch)).encode() + b"\n"
            os.write(note, b"h" + before)
            yield batch
        if before is not None:
            os.write(note, b"d" + before)


def undisturbed(epochs=1, **arguments):
    """What a program that is not disturbed gives."""
    pipe = reading(**arguments)
    return [[rows(batch) for batch in pipe.epoch()] for _ in range(epochs)]


def check_log(log, shard=0, shards=1):
    """Every batch of both epochs, in order; none comes again after it was done; values as in an undisturbed run."""
    expected = [json.dumps(batch) for epoch in undisturbed(2, shard=shard, shards=shards) for batch in epoch]
    lines = log.read_text().splitlines()
    place = 0  # of the batch that must come next, or again
    for line in lines:
        batch = line[1:]
        if line[0] == "d":
            assert batch == expected[place]
        elif batch != expected[place]:
            place += 1  # the one before was done: the program asked for another, and may not have lived to note it
            assert batch == expected[place]
        else:
            assert f"d{batch}" not in lines[: lines.index(line)]
    assert place == len(expected) - 1
    assert len({line for line in lines if line[0] == "d"}) == sum(line[0] == "d" for line in lines)


def job(path, log, shard, shards, processes):
    """A program that says when it has its first batch."""
    begun = False
    for _ in noted(reading(shard, shards, processes=processes, py_num_workers=1), path, log):
        if not begun:
            answer("begun")
            begun = True


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
