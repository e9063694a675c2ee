"""Forty small pipelines with different limits: processors, the interpreter, waiting, memory, order, bursts, the loop, overhead.

Each takes a few milliseconds for a batch. `Case.make(**settings)` builds one; `Case.loop` is what the program does with a batch.
"""

from __future__ import annotations

import hashlib
import time
import wave
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import _pictures
import numpy as np

from pipeflow import fn, pipeline_def, types

PICTURES, SOUNDS = 48, 24
BASE = {"num_threads": 2, "prefetch_queue_depth": 2, "py_num_workers": 2}
THREADS = ({"num_threads": 1}, {"num_threads": 4}, {"num_threads": 8})
DEPTHS = ({"prefetch_queue_depth": 1}, {"prefetch_queue_depth": 4})
WAYS = ({"parallel": "threads"}, {"parallel": "processes"})
CACHED = ({"cached": True},)
TOGETHER = ({"parallel": "threads", "num_threads": 4}, {"parallel": "threads", "num_threads": 8})


@dataclass(frozen=True)
class Case:
    """One pipeline, the settings that are tried besides ``BASE``, and the loop over it."""

    kind: str
    name: str
    graph: Callable[
        ..., Any
    ]  # called with the value of parallel, and True if a cache keeps its result; returns the outputs
    settings: Sequence[Mapping[str, Any]]
    batch_size: int = 16
    loop: Callable[[], None] | None = None
    base: Mapping[str, Any] = field(default_factory=dict)

    @property
    def title(self) -> str:
        """Its kind and name."""
        return f"{self.kind}: {self.name}"

    def all_settings(self) -> list[dict[str, Any]]:
        """The measured setting first."""
        base = {**BASE, "batch_size": self.batch_size, "parallel": "serial", "cached": False, **self.base}
        return [base, *({**base, **changed} for changed in self.settings)]

    def make(self, parallel: str = "serial", cached: bool = False, **settings: Any):
        graph = partial(self.graph, cached=True) if cached else self.graph

        @pipeline_def(device_id=None, seed=1, **settings)
        def pipeline():
            return graph(parallel)

        return pipeline()


# --- what functions do ----------------------------------------------------------------------------------


def longest_word(length: int) -> int:
    """Pure Python: the longest word in so many bytes of a text.

    Its steps differ from byte to byte, as in most code, and none makes an object: numbers below 257 exist once. A loop of equal
    steps does not serve here: some processors run it a fifth faster on a core that does little else, at least for the next tenth
    of a second. Code with other steps gains 0 to 4 % there. And a loop that makes objects takes up to a third longer by the
    memory that happens to be free, for the life of a process.
    """
    longest = here = 0
    for byte in islice(_TEXT, length):
        if byte == 32 or byte == 44:
            if here > longest:
                longest = here
            here = 0
        else:
            here += 1
    return longest


def count(x):
    """A quarter of a millisecond of pure Python."""
    longest_word(9000)
    return x


def short_count(x):
    longest_word(3000)
    return x


def uneven(x):
    """Pure Python, of a length that depends on the sample."""
    longest_word(int(x[0]) % 8 * 2600)
    return x


def doze(x):
    time.sleep(0.0015)
    return x


def long_doze(x):
    time.sleep(0.005)
    return x


def seldom(x):
    """One sample in 16 waits for long."""
    if int(x[0]) % 16 == 5:
        time.sleep(0.02)
    return x


def digest(x):
    """Half a millisecond outside of the interpreter."""
    hashlib.sha256(_BYTES).digest()
    return x


def sort(x):
    """NumPy on an array that fits the cache."""
    return np.sort(_NUMBERS)[:4] + x[0] * 0


def half(x):
    return x / 2


def darker(image):
    return image // 2


def checked(image):
    hashlib.sha256(image).digest()
    return image


def mirrored(x):
    """Memory: a large array is read and written."""
    return x[::-1].copy()


def peak(sound):
    return sound / np.float32(max(1e-6, float(np.abs(sound).max())))


_BYTES = bytes(700_000)
_TEXT = np.random.default_rng(0).choice(np.frombuffer(b"etaoin ,", np.uint8), 20_000).tobytes()
_NUMBERS = np.random.default_rng(0).random(12_000, np.float32)
_LARGE = np.zeros((1 << 20,), np.float32)


# --- sources --------------------------------------------------------------------------------------------


def numbers(sample):
    return np.full(4, sample.idx_in_epoch, np.float32)


def slow_numbers(sample):
    time.sleep(0.0005)
    return np.full(4, sample.idx_in_epoch, np.float32)


def counted_numbers(sample):
    count(None)
    return np.full(4, sample.idx_in_epoch, np.float32)


def large(_number):
    return [_LARGE] * 4


def small_batch(_number):
    return np.zeros((64, 4), np.float32)


class Bursts:
    """A source of whole batches, one of which in `period` takes `seconds`."""

    def __init__(self, seconds: float, period: int, size: int) -> None:
        self.seconds, self.period, self.size = seconds, period, size

    def __call__(self, number: int) -> np.ndarray:
        if number % self.period == 3:
            time.sleep(self.seconds)
        return np.full((self.size, 4), number, np.float32)


class Steady:
    """A source of whole batches, each of which waits."""

    def __init__(self, seconds: float, size: int) -> None:
        self.seconds, self.size = seconds, size

    def __call__(self, number: int) -> np.ndarray:
        time.sleep(self.seconds)
        return np.full((self.size, 4), number, np.float32)


# --- loops ----------------------------------------------------------------------------------------------


def resting(seconds: float) -> Callable[[], None]:
    return partial(time.sleep, seconds)


def computing(times: int) -> Callable[[], None]:
    def step() -> None:
        for _ in range(times):
            hashlib.sha256(_BYTES).digest()

    return step


class Uneven:
    """A loop whose steps are of different length."""

    def __init__(self, *seconds: float) -> None:
        self.seconds, self.number = seconds, 0

    def __call__(self) -> None:
        self.number += 1
        time.sleep(self.seconds[self.number % len(self.seconds)])


# --- graphs ---------------------------------------------------------------------------------------------


def called(source: Callable[..., Any], *functions: Callable[..., Any], batch: bool = False):
    def graph(parallel: str):
        x = fn.external_source(source, batch=batch)
        for function in functions:
            x = fn.python_function(x, function=function, parallel=parallel)
        return x

    return graph


def prepare(folder: Path) -> None:
    """Writes the pictures and sounds."""
    for name, height, width in (("small", 160, 200), ("middle", 320, 400), ("large", 768, 1024)):
        folder.joinpath(name).mkdir()
        _pictures.write(folder / name, PICTURES, height, width)
    folder.joinpath("sound").mkdir()
    rng = np.random.default_rng(0)
    for number in range(SOUNDS):
        samples = (rng.standard_normal(22050) * 3000).astype("<i2")
        with wave.open(str(folder / "sound" / f"{number:02}.wav"), "wb") as file:
            file.setnchannels(1)
            file.setsampwidth(2)
            file.setframerate(22050)
            file.writeframes(samples.tobytes())


def cases(folder: Path) -> list[Case]:
    """All forty."""

    def files(name: str):
        return fn.readers.file(files=sorted(map(str, (folder / name).iterdir())))[0]

    def pictures(name: str, *rest: Callable[[Any, str], Any]):
        def graph(parallel: str, cached: bool = False):
            x = fn.decoders.image(files(name))
            for each in rest:
                x = each(x, parallel)
            return fn.cache(x, memory=1 << 28) if cached else x

        return graph

    def with_function(function: Callable[..., Any]):
        return lambda x, parallel: fn.python_function(x, function=function, parallel=parallel)

    def resized(x: Any, _parallel: str) -> Any:
        return fn.resize(x, size=(128, 128))

    def normalized(x: Any, _parallel: str) -> Any:
        return fn.crop_mirror_normalize(x, crop=(120, 120), mean=[100.0] * 3, std=[50.0] * 3)

    def sounds(*, rate: float | None = None, function: Callable[..., Any] | None = None):
        def graph(parallel: str):
            x, _ = fn.decoders.audio(files("sound"), downmix=True, **({} if rate is None else {"sample_rate": rate}))
            if function is not None:
                x = fn.python_function(x, function=function, parallel=parallel)
            x = fn.spectrogram(x, nfft=512, window_length=320, window_step=160)
            return fn.to_decibels(fn.mel_filter_bank(x, nfilter=40, sample_rate=16000.0))

        return graph

    def tiny(_parallel: str):
        x = fn.external_source(small_batch)
        return fn.reductions.sum(x * 2.0 + 1.0)

    def tiny_random(_parallel: str):
        return fn.random.uniform(range=(0.0, 1.0), shape=(100,)) * 2.0

    def memory(_parallel: str):
        return fn.cast(fn.external_source(large) * 2.0, dtype=types.FLOAT64)

    plain = (*THREADS, *DEPTHS)
    ways = (*WAYS, *TOGETHER, {"num_threads": 1}, {"prefetch_queue_depth": 4})
    return [
        Case("decoding", "small pictures", pictures("small"), plain),
        Case("decoding", "pictures, resized", pictures("middle", resized), (*plain, *CACHED), 8),
        Case("decoding", "pictures, resized and normalized", pictures("middle", resized, normalized), plain, 8),
        Case("decoding", "large pictures", pictures("large", resized), (*plain, *CACHED), 4),
        Case("decoding", "pictures and a function", pictures("middle", resized, with_function(darker)), ways, 8),
        Case(
            "decoding",
            "pictures, one thread",
            pictures("middle", resized),
            ({"num_threads": 2}, {"num_threads": 4}, *DEPTHS),
            8,
            base={"num_threads": 1},
        ),
        Case("interpreter", "a loop in Python", called(numbers, count), ways),
        Case(
            "interpreter",
            "a loop in Python on threads",
            called(numbers, count),
            ({"num_threads": 1}, {"num_threads": 4}, WAYS[1], *DEPTHS),
            base={"parallel": "threads"},
        ),
        Case("interpreter", "two loops in Python", called(numbers, short_count, short_count), ways),
        Case("interpreter", "a source in Python", called(counted_numbers), plain),
        Case("interpreter", "loops of uneven length", called(numbers, uneven), ways),
        Case("waiting", "a function that waits", called(numbers, doze), ways, 8),
        Case(
            "waiting",
            "a function that waits on threads",
            called(numbers, long_doze),
            ({"num_threads": 1}, {"num_threads": 4}, {"num_threads": 8}, *DEPTHS),
            8,
            base={"parallel": "threads"},
        ),
        Case("waiting", "a source that waits for each sample", called(slow_numbers), plain),
        Case("waiting", "a source that waits for each batch", called(Steady(0.006, 16), half, batch=True), plain),
        Case("waiting", "two functions that wait", called(numbers, doze, doze), ways, 8),
        Case("memory", "large arrays, operators", memory, plain, 4),
        Case("memory", "large arrays, a function", called(large, mirrored, batch=True), ways, 4),
        Case(
            "memory",
            "large arrays, two functions",
            called(large, mirrored, half, batch=True),
            (*WAYS[:1], *TOGETHER, *DEPTHS),
            4,
        ),
        Case("serial", "a function outside of the interpreter", called(numbers, digest), ways),
        Case("serial", "NumPy on small arrays", called(numbers, sort), ways),
        Case("serial", "two functions", called(numbers, digest, sort), ways),
        Case("serial", "pictures and a serial function", pictures("small", with_function(checked)), ways),
        Case(
            "bursts",
            "one batch in 8 waits",
            called(Bursts(0.04, 8, 16), digest, batch=True),
            (*DEPTHS, {"prefetch_queue_depth": 8}, {"num_threads": 4}),
        ),
        Case(
            "bursts",
            "one batch in 8 waits, slow loop",
            called(Bursts(0.03, 8, 16), half, batch=True),
            (*DEPTHS, {"prefetch_queue_depth": 8}, {"num_threads": 1}),
            loop=resting(0.004),
        ),
        Case("bursts", "one sample in 16 waits", called(numbers, seldom), ways),
        Case(
            "bursts",
            "a loop of uneven steps",
            called(numbers, doze),
            (*DEPTHS, {"prefetch_queue_depth": 8}, {"parallel": "threads"}),
            8,
            loop=Uneven(0.002, 0.002, 0.002, 0.04),
        ),
        Case(
            "slow loop",
            "a loop that rests",
            called(numbers, digest),
            (*DEPTHS, *WAYS[:1], {"num_threads": 1}),
            loop=resting(0.012),
        ),
        Case(
            "slow loop",
            "a loop that computes",
            called(numbers, digest),
            (*DEPTHS, *WAYS[:1], {"num_threads": 1}),
            loop=computing(20),
        ),
        Case(
            "slow loop",
            "a loop as fast as its pipeline",
            called(numbers, doze),
            (*DEPTHS, *WAYS[:1], {"num_threads": 1}),
            8,
            loop=resting(0.013),
        ),
        Case(
            "slow loop", "pictures and a loop that computes", pictures("middle", resized), plain, 8, loop=computing(8)
        ),
        Case("tiny", "arithmetic on 4 numbers", tiny, plain, 64),
        Case("tiny", "random numbers", tiny_random, plain, 64),
        Case(
            "tiny", "a function of 4 numbers", called(small_batch, half, batch=True), (*THREADS, *WAYS[:1], *DEPTHS), 64
        ),
        Case("tiny", "a source of 4 numbers", called(numbers), plain, 64),
        Case(
            "processes",
            "a loop in Python",
            called(numbers, count),
            ({"py_num_workers": 1}, {"py_num_workers": 4}, {"num_threads": 1}, *DEPTHS),
            base={"parallel": "processes"},
        ),
        Case(
            "processes",
            "a function that waits",
            called(numbers, long_doze),
            ({"py_num_workers": 1}, {"py_num_workers": 4}, {"py_num_workers": 8}, *DEPTHS),
            8,
            base={"parallel": "processes"},
        ),
        Case(
            "processes",
            "NumPy after pictures",
            pictures("small", with_function(darker)),
            ({"py_num_workers": 1}, {"num_threads": 1}, {"parallel": "threads"}, *DEPTHS),
            base={"parallel": "processes"},
        ),
        Case("audio", "spectrograms", sounds(), plain, 8),
        Case("audio", "resampled, with a function", sounds(rate=16000.0, function=peak), ways, 8),
    ]
