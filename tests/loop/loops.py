"""What the tests of epochs and checkpoints share: readers without files, and batches as plain lists."""

from pipeflow import fn, pipeline_def


def read_numbers(count, **order):
    """A reader whose sample i is the number i."""
    return fn.readers.dataset(dataset=range(count), **order)


ORDER = ("random_shuffle", "num_shards", "shard_id", "stick_to_shard", "pad_last_batch", "seed")


def numbers(count=10, **options):
    """A pipeline that gives a number and a random number; options are the reader's or the pipeline's."""
    order = {name: options.pop(name) for name in ORDER if name in options}

    def define():
        return read_numbers(count=count, name="numbers", **order), fn.random.uniform(range=(0.0, 1.0))

    return pipeline_def(define, **{"seed": 5, "num_threads": 2, **options})()


def values(batch):
    """The numbers of a batch's first output."""
    return [int(sample) for sample in batch[0].samples()]


def epoch(pipeline, *arguments, **keywords):
    """One epoch as lists of numbers."""
    return [values(batch) for batch in pipeline.epoch(*arguments, **keywords)]
