"""fn.readers.file: lists of files, labels, filters, shards, padding, and what it says of itself."""

import os

import nvidia.dali.fn as fn
from material import FILES, PICTURES
from nvidia.dali import pipeline_def
from shown import show

relative = [os.path.relpath(path, PICTURES) for path in FILES]
with open("list.txt", "w") as file:
    for number, path in enumerate(relative[:5]):
        file.write(f"{path} {number * 10}\n")


@pipeline_def(batch_size=3, num_threads=1, device_id=None)
def pipe(arguments):
    files, labels = fn.readers.file(name="reader", **arguments)
    return labels, files.shape()


for arguments in (
    dict(file_root=PICTURES),
    dict(file_root=PICTURES, file_list="list.txt"),
    dict(files=FILES[:4]),
    dict(files=FILES[:4], labels=[4, 3, 2, 1]),
    dict(file_root=PICTURES, files=relative[:3]),
    dict(file_root=PICTURES, file_filters=["*r*.jpg"]),
    dict(file_root=PICTURES, dir_filters=["b*"]),
    dict(file_root=PICTURES, num_shards=3, shard_id=1),
    dict(file_root=PICTURES, num_shards=3, shard_id=2, stick_to_shard=True),
    dict(file_root=PICTURES, num_shards=3, shard_id=0, pad_last_batch=True),
    dict(file_root=PICTURES, lazy_init=True),
):
    made = pipe(arguments)
    made.build()
    show([made.run() for _ in range(4)])
    meta = made.reader_meta("reader")
    show(meta)
