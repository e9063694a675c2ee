"""Functions that travel to Ray's workers by import path."""

import json
import os
import signal
from pathlib import Path

import numpy as np

from pipeflow import fn, pipeline_def


def double(x):
    """Twice the number."""
    return x * 2


def die_once(x):
    """The number; the first worker that comes to 13 kills itself."""
    mark = Path(os.environ["PIPEFLOW_TEST_FOLDER"]) / "killed"
    if int(x) == 13 and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return np.asarray(x)


def fail_twice(x):
    """The number; the first two calls with 13, in whatever process, fail as storage does that is away for a moment."""
    folder = Path(os.environ["PIPEFLOW_TEST_FOLDER"])
    if int(x) == 13:
        for mark in (folder / "failed once", folder / "failed twice"):
            if not mark.exists():
                mark.touch()
                raise OSError("the storage is away")
    return np.asarray(x)


def trained_on(root, shuffle):
    """The pipeline of a training job."""

    def define():
        number = fn.readers.numpy(file_root=root, file_filter="*.npy", random_shuffle=shuffle, name="numbers")
        return number, fn.python_function(number, function=double), fn.random.uniform()

    return pipeline_def(define, batch_size=3, num_threads=1, seed=5)()


def train(config):
    """A training function that notes every batch of two epochs, and fails once in the second one, after a checkpoint."""
    from ray import train as ray_train

    from pipeflow.distributed.ray import train_iterator
    from pipeflow.plugin.base import LastBatchPolicy

    folder = Path(config["folder"])
    rank = ray_train.get_context().get_world_rank()
    batches = train_iterator(
        trained_on(config["root"], config["shuffle"]),
        ["number", "double", "draw"],
        last_batch_policy=LastBatchPolicy.PARTIAL,
    )
    length = len(batches)
    begun = step = length + 1 if ray_train.get_checkpoint() is not None else 0
    while step < 2 * length:
        for batch in batches:
            step += 1
            noted = {name: values.tolist() for name, values in batch.items()}
            (folder / f"{rank} {step} {'again' if begun else 'first'}").write_text(json.dumps(noted))
            if step == length + 1:
                place = folder / f"saved {rank}"
                place.mkdir()
                batches.save(place)
                ray_train.report({}, checkpoint=ray_train.Checkpoint.from_directory(str(place)))
            if step == length + 2 and not begun:
                raise RuntimeError("a machine is lost")
    batches.close()


def where(x):
    """The node of the task, as bytes."""
    import ray

    return np.frombuffer(ray.get_runtime_context().get_node_id().encode(), np.uint8).copy()
