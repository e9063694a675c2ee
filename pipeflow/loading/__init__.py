"""`pipeflow.loader`: batches of a data set, with the arguments of torch's DataLoader.

    loader.py       the call and the object that is iterated over
    plans.py        which items each batch has, and from where an interrupted epoch goes on
    work.py         how the items of a batch are read and joined
    carriers.py     who does that: the caller, or threads
    processes.py    or worker processes
    collate.py      one batch of many items, their structure kept
    parcels.py      a batch on its way out of a worker process: arrays in shared memory, the rest pickled
    light.py        tensors of a worker that has not loaded torch
    leaves.py       the arrays in a structure, with the path of each
    buckets.py      batches of items of like lengths
    mixtures.py     several data sets as one, in proportions
    packing.py      documents packed into rows of one length
    transformed.py  the same with a pipeline definition over the items

What worker processes need is loaded by the first loader that has some.
"""

from importlib import import_module
from types import ModuleType


def __getattr__(name: str) -> ModuleType:
    if name != "processes":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return import_module(f"{__name__}.{name}")
