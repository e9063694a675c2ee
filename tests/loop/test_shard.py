"""Which shard a process is: from arguments, from a framework that is running, from the launcher's environment."""

import sys
from types import SimpleNamespace

import pytest

from pipeflow.distributed import shard


@pytest.fixture(autouse=True)
def bare(monkeypatch):
    """No launcher and no framework."""
    for name in ("RANK", "WORLD_SIZE", "SLURM_PROCID", "SLURM_NTASKS", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.setitem(sys.modules, "jax", None)


def framework(rank, ranks, **names):
    distributed = SimpleNamespace(
        is_available=lambda: True, is_initialized=lambda: True, get_rank=lambda: rank, get_world_size=lambda: ranks
    )
    return SimpleNamespace(distributed=distributed, process_index=lambda: rank, process_count=lambda: ranks)


def test_alone_is_one_shard():
    """Without anything there is one shard."""
    assert shard() == {"shard_id": 0, "num_shards": 1}


@pytest.mark.parametrize(
    "names",
    [("RANK", "WORLD_SIZE"), ("SLURM_PROCID", "SLURM_NTASKS"), ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE")],
)
def test_launchers_are_understood(names, monkeypatch):
    """torchrun, Slurm and Open MPI tell rank and number in variables of their own."""
    monkeypatch.setenv(names[0], "3")
    monkeypatch.setenv(names[1], "8")
    assert shard() == {"shard_id": 3, "num_shards": 8}


def test_a_running_framework_goes_before_the_environment_and_arguments_before_all(monkeypatch):
    """torch.distributed, then jax.distributed, then variables; given numbers always count."""
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setitem(sys.modules, "jax", framework(1, 3))
    assert shard() == {"shard_id": 1, "num_shards": 3}
    monkeypatch.setitem(sys.modules, "torch", framework(2, 5))
    assert shard() == {"shard_id": 2, "num_shards": 5}
    assert shard(1, 4) == {"shard_id": 1, "num_shards": 4}


@pytest.mark.parametrize(
    ("variables", "arguments", "message"),
    [
        ({"RANK": "1"}, (), "has RANK and not WORLD_SIZE"),
        ({"RANK": "4", "WORLD_SIZE": "4"}, (), "shard 4 of 4, from the variables RANK and WORLD_SIZE"),
        ({"RANK": "x", "WORLD_SIZE": "4"}, (), "'x', from the variables RANK and WORLD_SIZE, is not a number"),
        ({}, (1,), "give both shard_id and num_shards"),
        ({}, (-1, 2), "shard -1 of 2, from the arguments"),
    ],
)
def test_impossible_shards_are_errors(variables, arguments, message, monkeypatch):
    """Half a pair, a rank out of range and text are named with where they came from."""
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ValueError, match=message):
        shard(*arguments)
