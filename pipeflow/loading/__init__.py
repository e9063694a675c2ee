"""`pipeflow.loader`: batches of a data set, with the arguments of torch's DataLoader.

    loader.py       the call and the object that is iterated over
    plans.py        the items of each batch, and the position at which an interrupted epoch continues
    work.py         reads and joins the items of a batch
    carriers.py     runs this work in the caller or in threads
    processes.py    runs it in worker processes
    collate.py      joins items to a batch with the same structure
    parcels.py      a batch as a worker process sends it: arrays in shared memory, all else pickled
    rows.py         the large arrays of a batch, written to their place when an item is read
    light.py        batches of tensors from a worker that has not loaded torch
    leaves.py       the arrays in a structure, with the path of each
    buckets.py      batches of items of similar length
    mixtures.py     several data sets as one, in proportions
    packing.py      documents packed into rows of one length
    transformed.py  the same, with a pipeline definition that processes the items

The modules are loaded when they are first used; those for worker processes, by the first loader that has workers.
"""

from importlib import import_module
from types import ModuleType

_LATE = ("loader", "mixtures", "packing", "processes", "transformed")


def __getattr__(name: str) -> ModuleType:
    if name not in _LATE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return import_module(f"{__name__}.{name}")
