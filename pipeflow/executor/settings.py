"""The settings of a pipeline, checked once."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from pipeflow import seeds, system, types
from pipeflow.declare import bytes_of, check_rule, positive
from pipeflow.errors import BadValue
from pipeflow.executor.workers import check_start_method

# With larger numbers a program would fill the memory before it fails, or would never make its first batch.
_LARGEST_BATCH = 2**31 - 1
_MOST_AT_A_TIME = 4096
# The settings that may be "auto", and their first values; None: the number of processors. The number of workers does not change.
AUTOMATIC: dict[str, Any] = {"num_threads": None, "prefetch_queue_depth": 2, "py_num_workers": None}


@dataclass(frozen=True)
class Settings:
    """The arguments of ``Pipeline`` with their defaults. Only the seed and the rules for failures change results.

    Given as "auto" or as a text such as "2GB", a setting is replaced by the number that it begins with or means.
    """

    batch_size: int | None = None
    num_threads: int | None = None
    device_id: int | None = None
    seed: int | None = None
    exec_pipelined: bool = True
    prefetch_queue_depth: "int | Mapping[str, int]" = 2
    exec_async: bool = True
    bytes_per_sample: int = 0
    set_affinity: bool = False
    max_streams: int | None = None
    default_cuda_stream_priority: int | None = None
    enable_conditionals: bool = False
    enable_memory_stats: bool = False
    enable_checkpointing: bool = False
    checkpoint: "str | bytes | None" = None
    py_num_workers: int = 1
    py_start_method: str = "forkserver"
    py_callback_pickler: Any = None
    output_dtype: Any = None
    output_ndim: Any = None
    output_layout: Any = None
    exec_dynamic: bool | None = None
    experimental_exec_dynamic: bool | None = None
    stream_policy: Any = None
    concurrency: Any = None
    fuse: bool = True
    cuda_graph: bool = False
    on_error: Any = "raise"
    max_failures: "int | float | None" = None
    memory: int | None = None
    automatic: frozenset[str] = frozenset()  # the settings that are chosen while the pipeline runs

    def __post_init__(self) -> None:
        unset = (None, -1)
        automatic = {name for name in AUTOMATIC if isinstance(value := getattr(self, name), str) and value == "auto"}
        for name in automatic:
            object.__setattr__(self, name, AUTOMATIC[name])
        checked = {
            "automatic": self.automatic | automatic,
            "memory": None if self.memory is None else bytes_of("memory", self.memory),
            "batch_size": None if self.batch_size in unset else positive("batch_size", self.batch_size, _LARGEST_BATCH),
            "num_threads": available_cpus() if self.num_threads in unset else few("num_threads", self.num_threads),
            "device_id": None if self.device_id == types.CPU_ONLY_DEVICE_ID else _device(self.device_id),
            "seed": seeds.system_seed() if self.seed is None else _seed(self.seed),
            "exec_pipelined": bool(self.exec_pipelined),
            "exec_async": bool(self.exec_async),
            "prefetch_queue_depth": _queue_depth(self.prefetch_queue_depth),
            "exec_dynamic": not self.separated if self.exec_dynamic is None else self.exec_dynamic,
            "fuse": bool(self.fuse),
            "cuda_graph": bool(self.cuda_graph),
            "py_num_workers": available_cpus() if "py_num_workers" in automatic else _workers(self.py_num_workers),
            "py_start_method": check_start_method(self.py_start_method),
            "on_error": check_rule(self.on_error),
            "max_failures": check_limit(self.max_failures),
            "output_ndim": _promised(self.output_ndim, "output_ndim", lambda value: value < 0, "must not be negative"),
            "output_dtype": _types_of(
                _promised(
                    self.output_dtype, "output_dtype", lambda value: value == types.NO_TYPE, "must be the type of data"
                )
            ),
        }
        for name, value in checked.items():
            object.__setattr__(self, name, value)
        if self.memory is not None and "prefetch_queue_depth" not in self.automatic:
            raise ValueError(
                f"memory={self.memory} limits the number of batches made ahead, which is fixed here: write "
                'prefetch_queue_depth="auto"'
            )

    @property
    def threads(self) -> int:
        """The number of threads."""
        return self.num_threads or 1

    @property
    def separated(self) -> bool:
        """True if the CPU queue and the GPU queue have different depths."""
        return isinstance(self.prefetch_queue_depth, Mapping)

    @property
    def queue_sizes(self) -> tuple[int, int]:
        """The depths of the CPU and the GPU queue."""
        depth = self.prefetch_queue_depth
        return (depth["cpu_size"], depth["gpu_size"]) if isinstance(depth, Mapping) else (depth, depth)

    @cached_property
    def depth(self) -> int:
        """The number of batches in flight."""
        return self.queue_sizes[0] if self.exec_pipelined else 1

    @cached_property
    def promises(self) -> bool:
        """True if output_dtype, output_ndim or output_layout is given."""
        return any(value is not None for value in (self.output_dtype, self.output_ndim, self.output_layout))

    @cached_property
    def synchronous(self) -> bool:
        """True if each batch is made by the call that takes it, in the caller's thread."""
        return not (self.exec_async and self.exec_pipelined)

    def saved(self) -> dict[str, Any]:
        """The settings that are saved with a pipeline; a rule that is a value or a function is not saved."""
        names = ["batch_size", "num_threads", "device_id", "seed", "prefetch_queue_depth"]
        names += ["exec_pipelined", "exec_async", "max_failures"]
        names += [name for name in ("output_dtype", "output_ndim", "output_layout") if getattr(self, name) is not None]
        saved = {name: "auto" if name in self.automatic else getattr(self, name) for name in names}
        if self.memory is not None:
            saved["memory"] = self.memory
        return saved | ({"on_error": self.on_error} if isinstance(self.on_error, str) else {})


def few(name: str, value: Any) -> int:
    """Checks a number of threads, processes or batches."""
    return positive(name, value, _MOST_AT_A_TIME)


def _workers(value: Any) -> int:
    """The number of worker processes; 0 for a pipeline that needs none."""
    if value is None:
        return 1
    return 0 if value == 0 and not isinstance(value, (bool, float)) else few("py_num_workers", value)


def _promised(given: Any, name: str, wrong: Callable[[Any], bool], rule: str) -> Any:
    """A promise about all outputs, or one for each, which the first batches are compared with."""
    for value in given if isinstance(given, (list, tuple)) else (given,):
        if isinstance(value, (int, np.integer)) and wrong(value):
            raise ValueError(f"{name} {rule}, got {value!r}")
    return given


def _types_of(given: Any) -> Any:
    if isinstance(given, (list, tuple)):
        return [_types_of(value) for value in given]
    return None if given is None else types.to_dali_type(given)


def _device(value: Any) -> Any:
    if isinstance(value, (int, np.integer)) and value < 0:
        raise BadValue(f"device_id must be the number of a GPU, or None for a pipeline without one, got {value}")
    return value


def _seed(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise TypeError(f"seed must be an integer, got {type(value).__name__} {value!r}")
    if value >> 64:
        raise ValueError(f"seed must be below 2**64, got {value}")
    return int(value)


def _queue_depth(depth: "int | Mapping[str, int]") -> "int | dict[str, int]":
    if isinstance(depth, Mapping):
        if set(depth) != {"cpu_size", "gpu_size"}:
            raise ValueError(
                f"prefetch_queue_depth must be an integer or {{'cpu_size': ..., 'gpu_size': ...}}, got {dict(depth)}"
            )
        return {name: few(name, depth[name]) for name in ("cpu_size", "gpu_size")}
    return few("prefetch_queue_depth", depth)


def check_limit(limit: Any) -> Any:
    """Checks ``max_failures``: a count or a fraction."""
    if limit is None:
        return None
    if isinstance(limit, bool) or not isinstance(limit, (int, float, Fraction)):
        raise TypeError(f"max_failures must be a count or a fraction, got {type(limit).__name__} {limit!r}")
    if not limit >= 0 or (not isinstance(limit, int) and limit >= 1):
        raise ValueError(f"max_failures must be a count from 0 or a fraction below 1, got {limit!r}")
    return limit


def available_cpus() -> int:
    """The number of processors that this process may use."""
    return system.usable_processors()
