"""An iterator derived from plugin.base_iterator, as adapters of other frameworks are written."""

import numpy as np
import nvidia.dali.fn as fn
from material import PICTURES
from nvidia.dali import pipeline_def
from nvidia.dali.plugin.base_iterator import LastBatchPolicy, _DaliBaseIterator
from shown import show, show_error


class NumpyIterator(_DaliBaseIterator):
    def __init__(self, pipelines, output_map, **arguments):
        self.output_map = output_map
        self._first_batch = None
        super().__init__(pipelines, **arguments)

    def __next__(self):
        self._ever_consumed = True
        outputs = self._get_outputs()
        data = [
            {name: np.array(out.as_cpu().as_array()) for name, out in zip(self.output_map, given)} for given in outputs
        ]
        self._schedule_runs()
        self._advance_and_check_drop_last()
        if self._reader_name:
            if_drop, left = self._remove_padded()
            if np.any(if_drop):
                data = [
                    {name: value[: left[i]] for name, value in item.items()} if if_drop[i] else item
                    for i, item in enumerate(data)
                ]
        return data


@pipeline_def(num_threads=1, device_id=None)
def pipeline(shard_id=0, num_shards=1, pad_last_batch=False):
    _, labels = fn.readers.file(
        file_root=PICTURES, shard_id=shard_id, num_shards=num_shards, name="Reader", pad_last_batch=pad_last_batch
    )
    return labels


for policy in (LastBatchPolicy.FILL, LastBatchPolicy.PARTIAL, LastBatchPolicy.DROP):
    for auto_reset in (True, False, "yes", "no"):
        iterator = NumpyIterator(
            [pipeline(batch_size=3)], ["labels"], reader_name="Reader", last_batch_policy=policy, auto_reset=auto_reset
        )
        show(len(iterator), iterator.size, iterator._size)
        for _ in range(2 if policy is LastBatchPolicy.FILL else 1):
            show([batch[0]["labels"].ravel() for batch in iterator])
            if auto_reset in (False, "no"):
                show_error(lambda: next(iterator))
                iterator.reset()
