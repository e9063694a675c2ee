"""Loops over several epochs of shards with reader_meta, as a training script counts them."""

import math

import nvidia.dali.fn as fn
from material import PICTURES
from nvidia.dali import pipeline_def
from shown import show


@pipeline_def(num_threads=1, device_id=None)
def sharded(shard_id, num_shards, stick_to_shard=False, pad_last_batch=False):
    _, labels = fn.readers.file(
        file_root=PICTURES,
        files=None,
        shard_id=shard_id,
        num_shards=num_shards,
        stick_to_shard=stick_to_shard,
        pad_last_batch=pad_last_batch,
        name="Reader",
    )
    return labels


for stick in (False, True):
    for pad in (False, True):
        for shard in range(3):
            pipe = sharded(shard, 3, stick, pad, batch_size=2)
            pipe.build()
            meta = pipe.reader_meta("Reader")
            steps = math.ceil(meta["epoch_size_padded"] / meta["number_of_shards"] / pipe.max_batch_size)
            epochs = [[pipe.run()[0].as_array().ravel() for _ in range(steps)] for _ in range(3)]
            show(meta["epoch_size_padded"], meta["shard_id"], epochs)
