"""Shards of one data set read by several pipelines: sizes, padding, sticking to a shard, and what each epoch holds."""

import numpy as np
from material import write_arrays
from nvidia.dali import fn, pipeline_def
from shown import show, show_error

write_arrays("numbers", {f"{number:02}": np.array([number]) for number in range(11)})


def pipelines(count, batch_size=2, **options):
    @pipeline_def(batch_size=batch_size, num_threads=1, device_id=None)
    def definition(shard):
        return fn.readers.numpy(
            file_root="numbers", file_filter="*.npy", shard_id=shard, num_shards=count, name="Reader", **options
        )

    made = [definition(shard) for shard in range(count)]
    for pipe in made:
        pipe.build()
    return made


def numbers(pipe, batches):
    return [np.array(pipe.run()[0].as_array()).ravel().tolist() for _ in range(batches)]


for count in (1, 2, 3):
    for options in (
        {},
        {"stick_to_shard": True},
        {"pad_last_batch": True},
        {"stick_to_shard": True, "pad_last_batch": True},
    ):
        made = pipelines(count, **options)
        show(
            [numbers(pipe, 7) for pipe in made],
            [pipe.epoch_size("Reader") for pipe in made],
            made[0].reader_meta("Reader"),
        )
        show(made[0].reader_meta())

shuffled = pipelines(1, batch_size=11, random_shuffle=True, initial_fill=100)[0]
show([sorted(epoch) for epoch in numbers(shuffled, 3)])
after = pipelines(1, batch_size=11, shuffle_after_epoch=True)[0]
show([sorted(epoch) for epoch in numbers(after, 3)])
show_error(lambda: pipelines(1, random_shuffle=True, shuffle_after_epoch=True)[0].run())
show_error(lambda: pipelines(12)[0].run())
