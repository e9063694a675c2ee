"""Seconds that a GPU takes for a queue of launches.

The host is slower than short kernels: the time of a single launch on an idle stream would include the host's time. So
many launches are queued after a kernel that only waits, and one pair of events measures all of them. The launches use
several sets of buffers in turn, so that no set is still in the second-level cache.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from typing import Any

SETS = 3  # of buffers
REPEATS = 24  # of the queue between two events
ROUNDS = 5
SPIN = r"""
extern "C" __global__ void spin(long long cycles) {
    long long begun = clock64();
    while (clock64() - begun < cycles) {
    }
}
"""
LATEST_CYCLES = 40_000_000  # about 20 ms, in which the host queues everything


def queue_seconds(runtime: Any, sets: Sequence[Sequence[Callable[[], None]]]) -> float:
    """Seconds of the GPU for one run through a set: the median of several rounds."""
    cupy = runtime.module
    with runtime.active():
        spin = cupy.RawKernel(SPIN, "spin")
        for launches in sets:
            for launch in launches:
                launch()
        runtime.drain(runtime.computing)
        seconds = []
        for _ in range(ROUNDS):
            before, after = cupy.cuda.Event(), cupy.cuda.Event()
            with runtime.computing:
                spin((1,), (1,), (LATEST_CYCLES,))
            before.record(runtime.computing)
            for number in range(REPEATS):
                for launch in sets[number % len(sets)]:
                    launch()
            after.record(runtime.computing)
            after.synchronize()
            seconds.append(cupy.cuda.get_elapsed_time(before, after) / 1000 / REPEATS)
    return statistics.median(seconds)


def copy_bandwidth(runtime: Any, nbytes: int) -> float:
    """Bytes per second that a copy within the device reads and writes."""
    with runtime.active():
        pairs = [(runtime.allocate(nbytes), runtime.allocate(nbytes)) for _ in range(SETS)]
        sets = [
            [lambda a=a, b=b: runtime.copy(runtime.computing, a.address, b.address, nbytes)]  # type: ignore[misc]
            for a, b in pairs
        ]
        return 2 * nbytes / queue_seconds(runtime, sets)
