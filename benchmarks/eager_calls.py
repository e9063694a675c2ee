"""What does a call on arrays, outside of any pipeline, cost beside its kernel?

    python benchmarks/eager_calls.py [parts of names]

Each example of each operator is called again and again with small arrays; the arguments are written in the call, as a user
writes them, and a random operator gets a key. "Kernel" is the time of the compiled functions, and of the functions of OpenCV
and other libraries, that such a call makes, and of the methods of the objects that these return: they are noted in one call,
with their arguments, and then called alone; a call that makes an object makes a new one. OpenCV runs in one thread, because the
time of others is not measured. Work that an operator does with arrays of NumPy, with the file system or with classes
of a library has no such function: it counts as cost. The rounds go through all calls, so that a slow moment of the machine is in
one round of a call and not in all. A round measures the whole call and its kernel in turn, each for half a millisecond and at
least eight calls, because the processor becomes faster and slower within milliseconds. The first pair, with cold caches, is left
out. Every second pair begins with the kernel, because the second of two finds what the first has left in the caches and in the
prediction of branches. Operators that write files or run code of the user are left out.
"""

from __future__ import annotations

import ast
import statistics
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import _lru_cache_wrapper
from time import thread_time
from types import ModuleType
from typing import Any

import cv2
import numpy as np
from _harness import ROOT, Target, header, save, table, verdicts
from numba.core.dispatcher import Dispatcher

from pipeflow import fn, types
from pipeflow.kernels import cpu as kernels_of_package

sys.path.insert(0, str(ROOT / "tools"))
import example_data
from generate_docs import examples, public

ROUNDS, PAIRS, SECONDS, LEAST = 9, 8, 0.0005, 8
AIM = 5.0
WIDE = 90  # letters of a call in the table
NAMES: dict[str, Any] = {"fn": fn, "types": types, "np": np, **example_data.arrays()}
LEFT_OUT = ("dump_image", "numba_function")
LIBRARIES = ("numpy.fft", "cv2", "simplejpeg", "soundfile", "soxr", "scipy", "PIL", "imagecodecs", "lz4", "zlib")
# The function, its arguments, and the place in the list of the call that made the object of a method, None for other functions.
Noted = list[tuple[Any, tuple[Any, ...], dict[str, Any], int | None]]


def cases() -> dict[str, tuple[Any, Callable[[], Any]]]:
    """The examples on arrays: their text, the operator, and the call."""
    found = {}
    for op in public():
        own = op.factory is not None or op.nodes_only or op.traits_of({}).user_code or op.leaf in LEFT_OUT
        if not own:
            for text in examples(op):
                found[text] = op, call_of(text, bool(op.random))
    return found


def call_of(text: str, random: bool) -> Callable[[], Any]:
    """A function that makes the call; other calls among its arguments are made once, before."""
    tree = ast.parse(text, mode="eval").body
    assert isinstance(tree, ast.Call)
    given = dict(NAMES)

    def made(node: Any) -> Any:
        if isinstance(node, ast.Starred):
            return ast.Starred(made(node.value), ast.Load())
        if not any(isinstance(part, ast.Call) for part in ast.walk(node)):
            return node
        name = f"argument_{len(given)}"
        given[name] = eval(ast.unparse(node), dict(NAMES))
        return ast.Name(name, ast.Load())

    tree.args = [made(node) for node in tree.args]
    for keyword in tree.keywords:
        keyword.value = made(keyword.value)
    if random:
        tree.keywords.append(ast.keyword("key", ast.Constant(5)))
    call: Callable[[], Any] = eval(f"lambda: {ast.unparse(tree)}", given)
    return call


class Noting:
    """A function that notes its calls, apart from those inside of another one."""

    inside = False

    def __init__(self, function: Any, noted: Noted, maker: int | None = None) -> None:
        self._function, self._noted, self._maker = function, noted, maker

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        if Noting.inside:
            return self._function(*arguments, **keywords)
        place = len(self._noted)
        method = self._function if self._maker is None else self._function.__name__
        self._noted.append((method, arguments, keywords, self._maker))
        Noting.inside = True
        try:
            result = self._function(*arguments, **keywords)
        finally:
            Noting.inside = False
        return NotingObject(result, self._noted, place) if library_of(type(result)) in LIBRARIES else result

    def __getattr__(self, name: str) -> Any:
        return getattr(self._function, name)


def library_of(value: Any) -> str:
    """The name of the library of a function or class."""
    name = value.__name__ if isinstance(value, ModuleType) else str(getattr(value, "__module__", ""))
    return name if name.startswith("numpy.") else name.partition(".")[0]


class NotingObject:
    """An object of a library whose methods note their calls."""

    def __init__(self, value: Any, noted: Noted, maker: int) -> None:
        self._value, self._noted, self._maker = value, noted, maker

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._value, name)
        return Noting(found, self._noted, self._maker) if callable(found) else found


class NotingLibrary(ModuleType):
    """A library whose functions note their calls."""

    def __init__(self, library: ModuleType, noted: Noted) -> None:
        super().__init__(library.__name__)
        self._library, self._noted = library, noted

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._library, name)
        if isinstance(value, ModuleType):
            return NotingLibrary(value, self._noted)
        return Noting(value, self._noted) if callable(value) and not isinstance(value, type) else value


@contextmanager
def noting(noted: Noted) -> Iterator[None]:
    """A context in which the kernels of the package note their calls."""
    modules = [
        m for name, m in list(sys.modules.items()) if name.startswith(("pipeflow.kernels.", "pipeflow.operators"))
    ]
    changed: list[tuple[dict[Any, Any], Any, Any]] = []

    def instead(value: Any) -> Any:
        if isinstance(value, Dispatcher) or type(getattr(value, "__self__", None)).__name__ == "_Closure":
            return Noting(value, noted)
        if isinstance(value, ModuleType) and library_of(value) in LIBRARIES:
            return NotingLibrary(value, noted)
        if callable(value) and library_of(value) in LIBRARIES:
            return Noting(value, noted) if not isinstance(value, type) else value
        if getattr(value, "__name__", "") == "machine_code":
            return lambda *arguments: Noting(value(*arguments), noted)
        return value

    for module in modules:
        for name, value in list(vars(module).items()):
            if isinstance(value, _lru_cache_wrapper):
                value.cache_clear()
            kept = value if type(value) is dict and name != "__builtins__" else {}
            for place, names in ((vars(module), [name]), (kept, list(kept))):
                for key in names:
                    other = instead(place[key])
                    if other is not place[key]:
                        changed.append((place, key, place[key]))
                        place[key] = other
    try:
        yield
    finally:
        for place, key, value in changed:
            place[key] = value
        for module in modules:
            for value in list(vars(module).values()):
                if isinstance(value, _lru_cache_wrapper):
                    value.cache_clear()


def kernels_of(found: dict[str, tuple[Any, Callable[[], Any]]]) -> dict[str, Noted]:
    """The calls of compiled functions and of libraries in a repeated call."""
    kernels: dict[str, Noted] = {}
    noted: Noted = []
    with noting(noted):
        for text, (op, call) in found.items():
            op.forget_calls()
            for _ in range(5):
                noted.clear()
                call()
            kernels[text] = list(noted)
    for op, _ in found.values():
        op.forget_calls()
    return kernels


def replayed(noted: Noted) -> Callable[[], Any]:
    """A function that makes the noted calls. It is written as text: a loop over them would be counted as time of the kernels."""
    lines, names = [], {}
    for place, (function, arguments, keywords, maker) in enumerate(noted):
        given = {f"a{place}_{number}": value for number, value in enumerate((*arguments, *keywords.values()))}
        parts = [f"{word}{name}" for word, name in zip([""] * len(arguments) + [f"{key}=" for key in keywords], given)]
        names |= {**given, f"f{place}": function}
        called = f"f{place}" if maker is None else f"made{maker}.{function}"
        lines.append(f"    made{place} = {called}({', '.join(parts)})")
    exec("\n".join(["def run():", *lines]), names)
    run: Callable[[], Any] = names["run"]
    return run


def microseconds(work: Callable[[], Any]) -> Callable[[], float]:
    """A function that measures a call of ``work``; one measurement takes SECONDS, or LEAST calls."""
    count = 1
    while True:
        begin = thread_time()
        for _ in range(count):
            work()
        if thread_time() - begin > SECONDS / 4 or count > 1 << 16:
            break
        count *= 2
    count = max(LEAST, int(count * SECONDS / max(thread_time() - begin, 1e-6)))

    def measure() -> float:
        begin = thread_time()
        for _ in range(count):
            work()
        return (thread_time() - begin) * 1e6 / count

    return measure


def measured(chosen: dict[str, Callable[[], Any]], kernels: dict[str, Noted]) -> dict[str, dict[str, float]]:
    """The whole call, its kernel and the difference in us, each the median of all rounds."""
    works = {}
    for text, call in chosen.items():
        for _ in range(5):
            call()
        works[text] = microseconds(call), microseconds(replayed(kernels[text])) if kernels[text] else lambda: loop
    nothing = microseconds(lambda: None)
    loop = statistics.median(nothing() for _ in range(ROUNDS))
    rounds: dict[str, list[tuple[float, float]]] = {text: [] for text in chosen}
    for _ in range(ROUNDS):
        for text, (whole, kernel) in works.items():
            pairs = []
            for number in range(1 + PAIRS):
                before = kernel() if number % 2 else None
                all_of_it = whole()
                pairs.append((all_of_it - loop, (kernel() if before is None else before) - loop))
            rounds[text] += pairs[1:]
    return {
        text: {
            "call": statistics.median(whole for whole, _ in rows),
            "kernel": statistics.median(kernel for _, kernel in rows),
            "beside": statistics.median(whole - kernel for whole, kernel in rows),
        }
        for text, rows in rounds.items()
    }


def main() -> None:
    reading = header((__doc__ or "").partition("\n")[0])
    cv2.setNumThreads(1)
    found = cases()
    words = sys.argv[1:]
    chosen = {text: case for text, case in found.items() if not words or any(word in text for word in words)}
    kernels_of_package.jit.kept = lambda *_: (
        True
    )  # as after a pipeline: a call on arrays uses its kernels, and compiles none
    for _, call in chosen.values():
        for _ in range(3):
            call()
    kernels = kernels_of(chosen)
    results = measured({text: call for text, (_, call) in chosen.items()}, kernels)
    rows = sorted(results.items(), key=lambda item: -item[1]["beside"])
    table("us a call", ["call", "whole", "kernel", "beside"], [(text[:WIDE], *row.values()) for text, row in rows])
    above = sum(row["beside"] > AIM for row in results.values())
    print(f"\n{above} of {len(results)} above {AIM:g} us")
    middle = statistics.median(row["beside"] for row in results.values())
    targets = [
        Target("us beside the kernel, the middle of all calls", middle, AIM),
        Target("calls with more than 5 us beside the kernel", above, 0),
    ]
    verdicts(targets)
    save("eager_calls", reading, results, targets)


if __name__ == "__main__":
    main()
