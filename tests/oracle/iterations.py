"""What iterators over a reader of numbers give in four epochs, for any library: `python iterations.py LIBRARY FOLDER`."""

import importlib
import itertools
import json
import math
import sys
import warnings

import numpy as np

POLICIES = ("FILL", "DROP", "PARTIAL")


def cases():
    """Data sets, batches, shards, paddings and policies; counted by the reader or by size=."""
    for count, batch_size, shards, padded, stays, policy in itertools.product(
        (7, 8, 11), (2, 3), (1, 2, 3), (False, True), (False, True), POLICIES
    ):
        if policy != "DROP" or count // shards >= batch_size:
            yield {
                "count": count,
                "batch_size": batch_size,
                "shards": shards,
                "padded": padded,
                "stays": stays,
                "policy": policy,
                "size": 0,
            }
    for count, batch_size, shards, padded, policy, size in itertools.product(
        (7, 8), (2, 3), (1, 2), (False, True), POLICIES, (7, 8, 12)
    ):
        yield {
            "count": count,
            "batch_size": batch_size,
            "shards": shards,
            "padded": padded,
            "stays": False,
            "policy": policy,
            "size": size,
        }


def epochs(case, folder, pipeline_def, fn, iterator, policies):
    """[length, batches] of four epochs, a batch as one list of numbers a pipeline."""

    def reading(shard):
        return fn.readers.numpy(
            file_root=f"{folder}/{case['count']}",
            file_filter="*.npy",
            name="r",
            shard_id=shard,
            num_shards=case["shards"],
            pad_last_batch=case["padded"],
            stick_to_shard=case["stays"],
        )

    make = pipeline_def(reading, batch_size=case["batch_size"], num_threads=1, device_id=None, seed=1)
    counted = {"size": case["size"], "last_batch_padded": case["padded"]} if case["size"] else {"reader_name": "r"}
    pipelines = [make(shard) for shard in range(case["shards"])]
    loop = iterator(pipelines, ["x"], last_batch_policy=getattr(policies, case["policy"]), **counted)
    found = []
    for _ in range(4):
        length = len(loop)
        found.append([length, [[np.asarray(part["x"]).ravel().tolist() for part in batch] for batch in loop]])
        loop.reset()
    return found


def dali_iterator(base):
    """An iterator as DALI's plugins make theirs of its common base, giving arrays."""

    class Iterator(base):
        def __init__(self, pipelines, names, **options):
            super().__init__(pipelines, **options)
            self.names = names
            self.first = self.produce()

        def __next__(self):
            self._ever_consumed = True
            batches, self.first = self.first or self.produce(), None
            return batches

        def produce(self):
            delivered = self._get_outputs()
            batches = [{name: np.array(x.as_array()) for name, x in zip(self.names, outputs)} for outputs in delivered]
            self._schedule_runs()
            self._advance_and_check_drop_last()
            if self._reader_name:
                cut, left = self._remove_padded()
                if np.any(cut):
                    return [{k: v[: max(0, int(n))] for k, v in batch.items()} for batch, n in zip(batches, left)]
            elif self._last_batch_policy.name == "PARTIAL" and self._counter > self._size:
                wanted = len(batches) * self.batch_size - (self._counter - self._size)
                parts = [
                    min(self.batch_size, wanted - n * self.batch_size)
                    for n in range(math.ceil(wanted / self.batch_size))
                ]
                return [{k: v[:n] for k, v in batch.items()} for batch, n in zip(batches, parts)]
            return batches

    return Iterator


def main():
    """Prints what all cases give, as JSON."""
    library, folder = sys.argv[1:]
    warnings.simplefilter("ignore")
    module, fn = importlib.import_module(library), importlib.import_module(f"{library}.fn")
    if library == "pipeflow":
        plugin = importlib.import_module("pipeflow.plugin.numpy")
        iterator, policies = plugin.GenericIterator, plugin.LastBatchPolicy
    else:
        plugin = importlib.import_module(f"{library}.plugin.base_iterator")
        iterator, policies = dali_iterator(plugin._DaliBaseIterator), plugin.LastBatchPolicy
    json.dump([epochs(case, folder, module.pipeline_def, fn, iterator, policies) for case in cases()], sys.stdout)


if __name__ == "__main__":
    main()
