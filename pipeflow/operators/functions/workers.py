"""The calls of a user's function in worker processes."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pipeflow import seeds
from pipeflow.declare import BatchCall, WorkerCall
from pipeflow.errors import function_name
from pipeflow.operators.functions.calls import call_batch, thread_generator, wants_rng
from pipeflow.operators.functions.results import Results


def call_in_worker(function: Callable[..., Any], results: Results, batch_processing: bool = False) -> WorkerCall:
    """The object that a worker process calls."""
    name = function_name(function)
    if batch_processing:
        return WorkerCall(BatchInWorker(function, results), name, whole=True)
    return WorkerCall(SampleInWorker(function, results, wants_rng(function)), name)


class SampleInWorker:
    """Calls a function for one sample in a worker process."""

    def __init__(self, function: Callable[..., Any], results: Results, rng: bool) -> None:
        self.function = function
        self.results = results
        self.rng = rng

    def __call__(self, key: int, *inputs: np.ndarray) -> tuple[np.ndarray, ...]:
        named = {"rng": thread_generator(seeds.Key(key))} if self.rng else {}
        values = self.results.split(self.function(*inputs, **named))
        return tuple([self.results.array(value, output) for output, value in enumerate(values)])


class BatchInWorker:
    """Calls a function for a whole batch in a worker process."""

    def __init__(self, function: Callable[..., Any], results: Results) -> None:
        self.function = function
        self.results = results

    def __call__(self, rows: Sequence[tuple[Any, ...]]) -> list[Any]:
        keys, *inputs = zip(*rows)
        batch = BatchCall(len(rows), lambda: np.array(keys, np.uint64), [""] * len(inputs), _fresh_bytes)
        outputs = call_batch(self.function, self.results, inputs, batch, wants_rng(self.function))
        return [values if isinstance(values, np.ndarray) else list(values) for values in outputs]


def _fresh_bytes(nbytes: int) -> np.ndarray:
    memory = np.empty(nbytes + 64, np.uint8)
    return memory[-memory.__array_interface__["data"][0] % 64 :][:nbytes]
