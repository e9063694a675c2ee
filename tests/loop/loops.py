"""What the tests of epochs and checkpoints share: readers without files, and batches as plain lists."""

import numpy as np

from pipeflow import declare, fn, pipeline_def
from pipeflow.operators.readers.reader import reader


def declare_numbers():
    """Declares `fn.readers.numbers`, whose sample i is the number i; once for all tests."""
    if "readers.numbers" not in declare.registry:

        @reader("readers.numbers")
        class Numbers:
            """Reads the numbers below count."""

            def __init__(self, *, count: int) -> None:
                self.count = count

            def __len__(self) -> int:
                return self.count

            def fetch(self, index: int) -> tuple:
                return (np.array(index),)

    return declare.find("readers.numbers")


ORDER = ("random_shuffle", "num_shards", "shard_id", "stick_to_shard", "pad_last_batch", "seed")


def numbers(count=10, **options):
    """A pipeline that gives a number and a random number; options are the reader's or the pipeline's."""
    order = {name: options.pop(name) for name in ORDER if name in options}

    def define():
        return declare_numbers()(count=count, name="numbers", **order), fn.random.uniform(range=(0.0, 1.0))

    return pipeline_def(define, **{"seed": 5, "num_threads": 2, **options})()


def values(batch):
    """The numbers of a batch's first output."""
    return [int(sample) for sample in batch[0].samples()]


def epoch(pipeline, *arguments, **keywords):
    """One epoch as lists of numbers."""
    return [values(batch) for batch in pipeline.epoch(*arguments, **keywords)]
