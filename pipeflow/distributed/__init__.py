"""Sharing the work of several processes: the shard of the data that belongs to this process."""

import os
import sys
from typing import Any

__all__ = ["shard"]

# (rank, number of ranks) as launchers write them: torchrun and most others, Slurm, Open MPI, MPICH and Intel MPI.
_VARIABLES = (
    ("RANK", "WORLD_SIZE"),
    ("SLURM_PROCID", "SLURM_NTASKS"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
)


def shard(shard_id: int | None = None, num_shards: int | None = None) -> dict[str, int]:
    """``fn.readers.file(..., **shard())``: this process's ``shard_id`` and ``num_shards``.

    Numbers that are given are used. Otherwise they come from torch.distributed or jax.distributed if one is
    initialised, else from the environment variables of launchers (torchrun, Slurm, MPI); without these there is one
    shard.
    """
    if (shard_id is None) != (num_shards is None):
        raise ValueError("give both shard_id and num_shards, or neither")
    found, where = (shard_id, num_shards), "the arguments"
    if shard_id is None:
        found, where = _torch() or _jax() or _environment() or ((0, 1), "")
    rank, ranks = (_number(value, where) for value in found)
    if ranks < 1 or not 0 <= rank < ranks:
        raise ValueError(f"shard {rank} of {ranks}, from {where}: shard_id must be in 0..num_shards - 1")
    return {"shard_id": rank, "num_shards": ranks}


def _number(value: Any, where: str) -> int:
    try:
        return int(value)
    except (TypeError, ValueError):
        raise ValueError(f"{value!r}, from {where}, is not a number of a shard") from None


def _torch() -> Any:
    distributed = getattr(sys.modules.get("torch"), "distributed", None)
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None
    return (distributed.get_rank(), distributed.get_world_size()), "torch.distributed"


def _jax() -> Any:
    jax = sys.modules.get("jax")
    distributed = getattr(jax, "distributed", None)
    if distributed is None or not distributed.is_initialized():
        return None
    assert jax is not None
    return (jax.process_index(), jax.process_count()), "jax.distributed"


def _environment() -> Any:
    for rank, ranks in _VARIABLES:
        present = [name for name in (rank, ranks) if name in os.environ]
        if len(present) == 1 and rank == "RANK":
            missing = ({rank, ranks} - {*present}).pop()
            raise ValueError(f"the environment has {present[0]} and not {missing}: set both, or neither")
        if len(present) == 2:
            return (os.environ[rank], os.environ[ranks]), f"the variables {rank} and {ranks}"
    return None
