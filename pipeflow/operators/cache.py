"""`fn.cache`: samples that are made once and kept for later epochs."""

from typing import Any

import numpy as np

from pipeflow.declare import Args, Out, Sample, Spec, default, operator

PAGE = """Samples that are made in the first epoch and kept. [Caches](../caches.md) has an example.
"""


@operator("cache", role="kept", dtypes="any", examples=["fn.cache(image, memory=2**30)"])
def cache(
    data: Sample,
    /,
    *,
    memory: int | None = default(None, "bytes of memory of this machine that it may take, for all processes together"),
    disk: str | None = default(None, "folder where samples are kept when memory is full, and for later runs"),
    disk_bytes: int | None = default(None, "bytes that all caches in that folder may take; default: no limit"),
    key: str | None = default(None, "name of the data, if it is not read from files; change it when the data changes"),
    out: Out,
) -> Sample:
    """Stores samples, so that later epochs do not run the operators before it for these samples.

    All operators before it must give the same result in every epoch: readers, decoders, and operators without random numbers.
    All processes of the machine with the same pipeline can read a sample that is stored in memory; later runs can also read
    samples on disk. Samples that do not fit are made again in each epoch.
    """
    del memory, disk, disk_bytes, key
    np.copyto(out, data)
    return out


@cache.check
def _(args: Args) -> None:
    if args.memory is None and args.disk is None:
        raise ValueError("say where samples are kept: memory= a number of bytes, disk= a folder, or both")
    for name in ("memory", "disk_bytes"):
        value: Any = getattr(args, name)
        if value is not None and value < 1:
            raise ValueError(f"{name} must be at least 1, got {value}")
    if args.disk_bytes is not None and args.disk is None:
        raise ValueError("disk_bytes is the limit of a folder: give it with disk")


@cache.infer
def _(specs: tuple[Spec, ...], _args: Any) -> Spec:
    return specs[0]
