"""python_function(jit="auto"): compiled in the background, compared, used only if it agrees; the results never change."""

import bisect
import functools
import hashlib
import itertools
import logging
import operator
import struct
import time
import zlib
from hashlib import blake2b, sha256
from time import sleep

import cv2
import numpy as np
import pytest
from numba.core.errors import TypingError
from scipy import linalg, ndimage

from pipeflow import fn, pipeline_def
from pipeflow.kernels import cpu, decisions
from pipeflow.operators.functions import compiling
from pipeflow.operators.functions.state import state_of

pytestmark = pytest.mark.usefixtures("own_trials")
trials = cpu.tried_functions


def samples(kind, count=4):
    rng = np.random.default_rng(7)
    floats = [rng.random((6, 5, 3), np.float32) for _ in range(count)]
    return floats if kind == "f" else [(item * 255).astype(np.uint8) for item in floats]


MEAN = np.array([0.4, 0.5, 0.6], np.float32)
LEVELS = (0.25, 0.5, 0.75)
FACTOR = 1.25
TABLE = {0: 0.5, 1: 2.0}
CHANGED = {0: 0.5, 1: 2.0}


def helper(x):
    return x * 0.5


def closure():
    weights = np.linspace(0, 1, 3)
    return lambda x: x * weights


# Functions in the ways in which people write them.


def normalize(x):
    return (x.astype(np.float32) / 255.0 - 0.5) / 0.25


def normalize_by_constants(x):
    return (x - MEAN) / FACTOR


def black_where_bright(x):
    out = x.copy()
    out[x > 128] = 0
    return out


def contrast_in_loops(x):
    out = np.empty_like(x)
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            for k in range(x.shape[2]):
                out[i, j, k] = min(max(int(x[i, j, k]) * 2 - 50, 0), 255)
    return out


def brighter(x):
    return np.clip(x.astype(np.float32) * 1.2 + 3, 0, 255).astype(np.uint8)


def threshold(x):
    return np.where(x > 0.5, x * 0.1, 0)


def crop(x):
    return x[1:-1, 1:4]


def every_second(x):
    return x[::2, ::-1]


def noisy(x, rng):
    return x + rng.random() * 0.1


def noisy_pixels(x, rng):
    return x + rng.random(x.shape)


def flipped_at_random(x, rng):
    if rng.random() < 0.5:
        return x[:, ::-1].copy()
    return x.copy()


def early(x):
    if x[0, 0, 0] > 0.5:
        return x * 2
    return x


def squared(x):
    return x**2 + 1


def gray(x):
    return 0.299 * x[..., 0] + 0.587 * x[..., 1] + 0.114 * x[..., 2]


def mean_of_bytes(x):
    return x.mean()


def sums(x):
    return x.sum()


def scaled_in_loops(x):
    out = np.empty_like(x)
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            for k in range(x.shape[2]):
                out[i, j, k] = x[i, j, k] * 0.1 + 0.3
    return out


def looked_up(x):
    table = {0: 1.5, 1: 2.5}
    return x * table[int(x[0, 0, 0] > 0.5)]


def looked_up_outside(x):
    return x * TABLE[int(x[0, 0, 0] > 0.5)]


def averaged(x):
    return (x[1:] + x[:-1]) // 2


def by_helper(x):
    return helper(x) + 1


def levels(x):
    out = np.zeros(x.shape, np.int32)
    for level in LEVELS:
        out += x > level
    return out


def with_default(x, factor=1.5):
    return x * factor


def several(x):
    return x[0], x.sum()


def negative(x):
    return 255 - x


def padded(x):
    out = np.zeros((x.shape[0] + 2, x.shape[1] + 2, x.shape[2]), x.dtype)
    out[1:-1, 1:-1] = x
    return out


def joined(x):
    return np.concatenate((x, x[:1]))


def to_float64(x):
    return x.astype(np.float64) / 3


def exponential(x):
    return np.exp(x)


def mean_of_floats(x):
    return x.mean(axis=(0, 1))


def in_place(x):
    x = x.copy()
    x *= 0.5
    x -= 1
    return x


def root_of_sum(x):
    return np.sqrt((x * x)[..., 0] + 1)


def wrapping(x):
    total = x[0, 0, 0] + x[0, 0, 1]  # NumPy wraps around
    return total


def formatted(x):
    return np.array([len(f"{x.max():.3f}")])


# The function, its inputs ("f": float32, "u": uint8), and whether it compiles.
SET = [
    (normalize, "u", True),
    (normalize_by_constants, "f", True),
    (black_where_bright, "u", True),
    (contrast_in_loops, "u", True),
    (brighter, "u", True),
    (threshold, "f", True),
    (crop, "u", True),
    (every_second, "f", True),
    (noisy, "f", True),
    (noisy_pixels, "f", True),
    (flipped_at_random, "u", True),
    (early, "f", True),
    (squared, "u", True),
    (gray, "f", True),
    (mean_of_bytes, "u", True),
    (sums, "u", True),
    (scaled_in_loops, "f", True),
    (looked_up, "f", True),
    (looked_up_outside, "f", True),
    (averaged, "u", True),
    (by_helper, "f", True),
    (levels, "f", True),
    (with_default, "f", True),
    (negative, "u", True),
    (padded, "u", True),
    (joined, "u", True),
    (to_float64, "u", True),
    (closure(), "f", True),
    (exponential, "f", True),
    (mean_of_floats, "f", True),
    (in_place, "f", True),
    (root_of_sum, "f", True),
    (wrapping, "u", True),
    (formatted, "f", False),
]


def draws(function, number):
    wanted = "rng" in function.__code__.co_varnames[: function.__code__.co_argcount]
    return {"rng": np.random.default_rng(number)} if wanted else {}


def same(left, right):
    assert type(left) is type(right)
    left, right = np.asarray(left), np.asarray(right)
    assert (left.dtype, left.shape, left.tobytes()) == (right.dtype, right.shape, right.tobytes())


FAST = {
    "crop",
    "every_second",
    "flipped_at_random",
    "sums",
    "wrapping",
    "exponential",
    "with_default",
    "looked_up_outside",
}


@pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")
@pytest.mark.parametrize(
    ("function", "kind", "compiles"),
    [
        pytest.param(*case, marks=() if case[0].__name__ in FAST else pytest.mark.slow, id=case[0].__name__)
        for case in SET
    ],
)
def test_every_function_of_the_set_gives_the_plain_results(function, kind, compiles):
    """Before the compiled version is there, while both are compared, and after it has taken over."""
    made = compiling.version_of(function, "auto")
    inputs = samples(kind)
    for number in range(trials.CHECKED + 10):
        x = inputs[number % len(inputs)]
        same(made(x.copy(), **draws(function, number)), function(x.copy(), **draws(function, number)))
        if not number:
            trials.wait_for_trials()
    (report,) = made.reports()
    assert (report.state == "compiled") == compiles, report.reason


def test_most_of_the_set_compile():
    """Of at least 30 functions at least 20 are declared to compile; the test above checks each."""
    assert len(SET) >= 30
    assert sum(compiles for _, _, compiles in SET) >= 20


class Compiler:
    """Takes the place of Numba: gives a function of the test as the compiled one."""

    def __init__(self, monkeypatch, call, error=None):
        self.calls = self.compiled = 0
        self.call, self.error = call, error
        self._compiler = self
        self.held = []
        monkeypatch.setattr(trials.Tried, "_compiled", lambda _: self)
        monkeypatch.setattr(trials, "in_background", lambda work: work())

    def hold(self, monkeypatch):
        """Compiles only when the test says so."""
        monkeypatch.setattr(trials, "in_background", self.held.append)

    def fold_argument_types(self, types, named):
        return None, (*types, *named.values())

    def compile(self, types):
        self.compiled += 1
        if self.error is not None:
            raise self.error

    def __call__(self, *arrays, **named):
        self.calls += 1
        return self.call(*arrays, **named)


def called_by_programs(monkeypatch, seconds):
    """Lets programs call the compiled versions. Their calls take these times, in turns."""

    class Measured:
        def __init__(self, native):
            self.left = itertools.cycle(seconds)

        def seconds(self, *call):
            return next(self.left)

    monkeypatch.setattr(cpu.user_calls, "native", lambda *_, **__: object())
    monkeypatch.setattr(cpu.user_calls, "DirectCall", Measured)


def plain(x):
    return x * 2


class TestTrials:
    """The decisions, with a compiler of the test."""

    def test_both_run_for_the_first_samples_and_then_one_in_a_thousand(self, monkeypatch):
        """The plain function is called 64 times, and once more for every 1000 samples."""
        monkeypatch.setattr(trials, "COMPARING", 1e9)
        counted = []
        Compiler(monkeypatch, lambda x: x * 2)
        made = trials.Tried(plain, None, ())
        made.func = lambda x: counted.append(1) or x * 2
        for _ in range(trials.CHECKED + 2 * trials.EVERY):
            same(made(np.arange(3.0)), np.arange(3.0) * 2)
        assert len(counted) == trials.CHECKED + 2
        assert [report.state for report in made.reports()] == ["compiled"]

    @pytest.mark.parametrize("seconds", [0.0, 1.0])
    def test_each_decision_is_counted(self, monkeypatch, seconds):
        """Compiled code takes over and gives a wrong result later, or is not faster: then other code works from now on."""
        now = [0.0]

        def compiled(x):
            now[0] += seconds
            return x * 2

        def function(x):
            return x * 2

        monkeypatch.setattr(trials.timing, "processor", lambda: now[0])
        compiler = Compiler(monkeypatch, compiled)
        made = trials.Tried(function, None, ())
        for _ in range(trials.CHECKED):
            assert decisions.decided(function) == 0
            made(np.arange(3.0))
        assert decisions.decided(function) == 1
        compiler.call = np.negative
        for _ in range(trials.EVERY):
            made(np.arange(3.0))
        assert decisions.decided(function) == (1 if seconds else 2)

    def test_code_that_cannot_be_compiled_is_decided_too(self, monkeypatch):
        """The compiler has disturbed what was measured meanwhile."""
        Compiler(monkeypatch, plain, TypingError("no"))

        def function(x):
            return x * 2

        made = trials.Tried(function, None, ())
        for _ in range(3):
            made(np.arange(3.0))
        assert decisions.decided(function) == 1

    def test_comparing_costs_at_most_a_fiftieth(self, monkeypatch):
        """A plain function that takes a hundred times as long is called for one sample in 5000."""
        now, counted = [0.0], []

        def fast(x):
            now[0] += 1
            return x * 2

        def slow(x):
            counted.append(1)
            now[0] += 100
            return x * 2

        monkeypatch.setattr(trials.timing, "processor", lambda: now[0])
        Compiler(monkeypatch, fast)
        made = trials.Tried(plain, None, ())
        made.func = slow
        for _ in range(trials.CHECKED + 10_000):
            made(np.arange(3.0))
        assert len(counted) == trials.CHECKED + 2

    @pytest.mark.parametrize(
        "wrong", [lambda x: x * 2 + 1e-16, lambda x: (x * 2).astype(np.float32), lambda x: 3.0, np.negative]
    )
    def test_a_difference_ends_the_trial_for_good(self, monkeypatch, caplog, wrong):
        """The sample has the plain result, the report has the sample, and the compiled code is never called again."""
        compiler = Compiler(monkeypatch, lambda x: x * 2)
        made = trials.Tried(plain, None, ())
        x = np.array([0.0, 0.5])
        for _ in range(5):
            made(x)
        compiler.call = wrong
        with caplog.at_level(logging.WARNING, "pipeflow"):
            for _ in range(5):
                same(made(x), plain(x))
        assert compiler.calls == 6
        (report,) = made.reports()
        assert report.state == "plain"
        assert "compiled code gave another result" in report.reason
        np.testing.assert_array_equal(report.inputs[0], x)
        assert "plain (jit='auto') runs as plain Python from now on" in caplog.text
        assert len(caplog.records) == 1

    def test_a_difference_names_its_sample_and_source(self, monkeypatch, caplog, tmp_path):
        """In the warning and in the settings of the pipeline."""
        for number in range(8):
            (tmp_path / f"{number}.raw").write_bytes(bytes([number, 1]))
        Compiler(monkeypatch, lambda x: x * 2 if x[0] != 6 else x * 3)

        def twice(x):
            return x * 2

        @pipeline_def(batch_size=4, num_threads=2, device_id=None)
        def definition():
            content, _ = fn.readers.file(files=sorted(map(str, tmp_path.iterdir())))
            return fn.python_function(content, function=twice, jit="auto")

        pipe = definition()
        with caplog.at_level(logging.WARNING, "pipeflow"):
            for _ in range(2):
                pipe.run()
        where = f"sample 2 of batch 1 (source: {tmp_path / '6.raw'})"
        assert caplog.records[0].getMessage().endswith(f"for inputs uint8 (2,) of {where}")
        assert where in str(pipe.settings())
        assert trials.at_work.text() == ""

    def test_exceptions_of_the_compiled_code_end_the_trial(self, monkeypatch):
        """Also after it has taken over; the samples have the plain results. A few exceptions do no harm."""
        compiler = Compiler(monkeypatch, lambda x: x * 2)
        made = trials.Tried(plain, None, ())
        x = np.arange(3.0)
        for _ in range(trials.CHECKED + 1):
            made(x)
        compiler.call = lambda x: x[7]
        for _ in range(trials.MOST_FAILURES):
            same(made(x), plain(x))
        assert made.reports()[0].state == "compiled"
        same(made(x), plain(x))
        assert made.reports()[0].reason.startswith("compiled code raised IndexError")
        same(made(x), plain(x))
        assert compiler.calls == trials.CHECKED + 2 + trials.MOST_FAILURES

    @pytest.mark.parametrize(("compiled", "chosen"), [(0.9, "compiled"), (1.1, "plain")])
    def test_a_compiled_version_that_is_slower_is_not_used(self, monkeypatch, clock, compiled, chosen):
        """NumPy's own loops may be faster; the time of both is measured while they are compared."""
        Compiler(monkeypatch, lambda x: clock.advance(compiled) or x * 2)
        made = trials.Tried(plain, None, ())
        made.func = lambda x: clock.advance(1.0) or x * 2
        for _ in range(trials.CHECKED + 1):
            same(made(np.arange(3.0)), np.arange(3.0) * 2)
        assert made.reports()[0].state == chosen
        assert ("not faster" in made.reports()[0].reason) == (chosen == "plain")

    @pytest.mark.parametrize(("longer", "chosen"), [(0.9, "compiled"), (1.1, "plain")])
    def test_a_version_that_programs_call_may_be_a_little_slower(self, monkeypatch, clock, longer, chosen):
        """Its calls do not come from Python, which saves more than that; those of the comparisons do and are not counted."""
        Compiler(monkeypatch, lambda x: clock.advance(9.0) or x * 2)
        called_by_programs(monkeypatch, [1.0 + longer * trials.FROM_PYTHON])
        made = trials.Tried(plain, None, ())
        made.func = lambda x: clock.advance(1.0) or x * 2
        for _ in range(trials.CHECKED + 1):
            same(made(np.arange(3.0)), np.arange(3.0) * 2)
        assert made.reports()[0].state == chosen

    @pytest.mark.parametrize(("longer", "chosen"), [(0.9, "compiled"), (1.1, "plain")])
    def test_a_version_that_programs_call_may_take_the_time_of_a_copy_more(self, monkeypatch, clock, longer, chosen):
        """The plain result is copied to the batch, and programs make theirs where it belongs. A call does not count if it is not
        measured because another thread measures one.
        """
        Compiler(monkeypatch, lambda x: x * 2)
        called_by_programs(monkeypatch, [1.0 + longer * (2.0 + trials.FROM_PYTHON), None])
        monkeypatch.setattr(trials.np, "copyto", lambda copy, array: clock.advance(2.0) or copy.__setitem__(..., array))
        made = trials.Tried(plain, None, ())
        made.func = lambda x: clock.advance(1.0) or x * 2
        for _ in range(trials.CHECKED + 1):
            same(made(np.arange(3.0)), np.arange(3.0) * 2)
        assert made.reports()[0].state == chosen

    def test_a_call_that_no_program_can_finish_is_measured_from_python(self, monkeypatch, clock):
        """Such a call would be made from Python in the pipeline too."""
        Compiler(monkeypatch, lambda x: clock.advance(2.0) or x * 2)
        called_by_programs(monkeypatch, [-1.0])
        made = trials.Tried(plain, None, ())
        made.func = lambda x: clock.advance(1.0) or x * 2
        for _ in range(trials.CHECKED + 1):
            made(np.arange(3.0))
        assert made.reports()[0].state == "plain"

    def test_an_exception_of_both_is_the_plain_one(self, monkeypatch):
        """The error of the user's function is raised, and the trial goes on."""
        Compiler(monkeypatch, lambda x: [][1])
        made = trials.Tried(plain, None, ())
        made.func = lambda x: {}["missing"]
        for _ in range(2):
            with pytest.raises(KeyError, match="missing"):
                made(np.arange(3.0))
        assert made.reports()[0].state == "comparing"

    def test_a_failed_try_is_paid_once(self, monkeypatch):
        """Another process finds the reason on disk; other code, types or tolerances are tried."""
        compiler = Compiler(monkeypatch, plain, TypingError("no such thing"))
        for _ in range(2):
            made = trials.Tried(plain, None, ())
            same(made(np.arange(3.0)), plain(np.arange(3.0)))
            assert "no such thing" in made.reports()[0].reason
        assert compiler.compiled == 1
        trials.Tried(plain, None, ())(np.arange(3))
        trials.Tried(plain, 1e-6, ())(np.arange(3.0))
        trials.Tried(crop, None, ())(np.zeros((3, 3)))
        assert compiler.compiled == 4

    def test_a_difference_is_remembered(self, monkeypatch):
        """The next process does not compile a version that was wrong."""
        compiler = Compiler(monkeypatch, np.negative)
        for _ in range(2):
            same(trials.Tried(plain, None, ())(np.arange(3.0)), plain(np.arange(3.0)))
        assert (compiler.compiled, compiler.calls) == (1, 1)

    def test_a_damaged_memory_counts_as_none(self, monkeypatch, tmp_path):
        """The function is tried again."""
        compiler = Compiler(monkeypatch, plain, TypingError("no such thing"))
        trials.Tried(plain, None, ())(np.arange(3.0))
        (file,) = tmp_path.glob("tried-*.json")
        file.write_text("{")
        trials.Tried(plain, None, ())(np.arange(3.0))
        assert compiler.compiled == 2

    def test_many_kinds_of_inputs_are_not_all_compiled(self, monkeypatch):
        """After eight kinds the plain function runs for others."""
        compiler = Compiler(monkeypatch, plain)
        made = trials.Tried(plain, None, ())
        for axes in range(12):
            same(made(np.ones((1,) * axes)), plain(np.ones((1,) * axes)))
        assert compiler.compiled == trials.MOST_KINDS

    def test_random_numbers_do_not_depend_on_the_trial(self, monkeypatch):
        """Both versions draw the same numbers, and the generator goes on as after one call."""
        Compiler(monkeypatch, lambda x, rng: x + rng.random())
        made = trials.Tried(lambda x, rng: x + rng.random(), None, ())
        rng, other = np.random.default_rng(3), np.random.default_rng(3)
        for _ in range(trials.CHECKED + 3):
            same(made(np.ones(2), rng=rng), np.ones(2) + other.random())
        assert made.reports()[0].state == "compiled"

    def test_a_constant_that_changes_ends_the_use_of_compiled_code(self, monkeypatch):
        """Compiled code has the value of the time when it was compiled."""
        variables = {"np": np}
        exec("factor = 2.0\ntable = np.ones(2)\ndef scaled(x):\n    return x * factor + table", variables)
        scaled = variables["scaled"]
        for change in (lambda: variables.update(factor=3.0), lambda: variables["table"].fill(5)):
            compiler = Compiler(monkeypatch, scaled)
            made = trials.Tried(scaled, None, state_of(scaled).uses)
            made(np.arange(2.0))
            change()
            same(made(np.arange(2.0)), scaled(np.arange(2.0)))
            assert compiler.calls == 1
            assert made.reports()[0].reason == "a value that it uses from outside has changed"

    def test_a_tolerance(self, monkeypatch):
        """Within it the compiled results are used from the first sample on; beyond it the plain ones."""
        compiler = Compiler(monkeypatch, lambda x: x * 2 + 1e-9)
        compiler.hold(monkeypatch)
        made = trials.Tried(plain, 1e-6, ())
        same(made(np.arange(3.0)), np.arange(3.0) * 2 + 1e-9)
        compiler.call = lambda x: x * 2 + 1e-3
        same(made(np.arange(3.0)), plain(np.arange(3.0)))
        assert "0.001" in made.reports()[0].reason


def cast(x):
    return x.astype(np.uint8)


def stored(x):
    out = np.zeros(3, np.int8)
    out[0] = int(x[0])
    return out


def beyond(x):
    return x[int(x[0])]


@pytest.mark.parametrize(
    ("function", "value"),
    [(cast, 300.0), (cast, np.nan), (cast, -1.0), (stored, 200.0), (stored, np.inf), (beyond, 7.0)],
)
@pytest.mark.filterwarnings("ignore:invalid value encountered:RuntimeWarning")
def test_what_numba_leaves_undefined_raises(function, value):
    """Numbers that do not fit and places outside of an array are left to the plain function."""
    compiled = cpu.exact_functions.compiled(function, True)
    good, bad = np.array([1.0, 2.5]), np.array([value, 2.5])
    good.flags.writeable = bad.flags.writeable = False
    same(np.asarray(compiled(good)), np.asarray(function(good)))
    with pytest.raises((OverflowError, IndexError)):
        compiled(bad)


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (lambda x: np.cumsum(x), "cumsum may round"),
        (lambda x: x % 0.3, "mod may round"),
        (lambda x: x @ x, "matmul may round"),
        (lambda x: min(x[0], x[1]), "min may round"),
    ],
)
def test_what_may_differ_in_the_last_bit_is_not_compiled(function, reason):
    """Such a difference could come after the last comparison."""
    with pytest.raises(cpu.exact_functions.NotExact, match=reason):
        cpu.exact_functions.compiled(function, True)(np.ones(3, np.float32))


@pytest.mark.parametrize(
    "function", [lambda x: x << 8, lambda x: x >> x, lambda x: x[:1] << 9, lambda x: np.left_shift(x, x)]
)
def test_a_shift_by_more_bits_than_an_element_has_is_not_compiled(function):
    """NumPy's result is 0, and that of compiled code any number. How far an array is shifted may differ from sample to sample."""
    with pytest.raises(cpu.exact_functions.NotExact, match="shift"):
        cpu.exact_functions.compiled(function, True)(np.ones((3, 2), np.uint8))


def test_shifts_by_fewer_bits_are_compiled():
    def shifted(x):
        y = x << 7
        y >>= 2
        return y | (x[:, :] >> 3)

    x = np.arange(60, dtype=np.uint8).reshape(5, 12)
    x.flags.writeable = False
    same(cpu.exact_functions.compiled(shifted, True)(x), shifted(x))


def test_a_forked_child_compiles_for_itself():
    """The lock may be held by a thread of the parent, which the child does not have."""
    done = []
    with trials._turn:
        trials._in_child()
        trials.in_background(lambda: done.append(1))
        trials.wait_for_trials()
    assert done == [1]


@pytest.mark.parametrize("ready", [0, 3, None])
def test_results_do_not_depend_on_when_the_compiled_code_is_ready(monkeypatch, ready):
    """Compiled at once, after three batches, or never: every bit of every batch is the same."""
    waiting = []
    monkeypatch.setattr(trials, "in_background", waiting.append)

    def define(**more):
        numbers = fn.external_source(lambda info: samples("u", 8)[info.idx_in_epoch % 8], batch=False)
        return fn.python_function(numbers, function=flipped_at_random, seed=5, **more)

    auto = pipeline_def(lambda: define(jit="auto"), batch_size=16, num_threads=2, prefetch_queue_depth=1)()
    other = pipeline_def(define, batch_size=16, num_threads=1)()
    for batch in range(8):
        if batch == ready or (ready == 0 and batch == 1):
            for work in waiting:
                work()
            waiting.clear()
        for left, right in zip(auto.run()[0], other.run()[0], strict=True):
            same(np.asarray(left), np.asarray(right))
    state = compiling.trials_of(flipped_at_random, "auto")[0][0]
    assert state == ("compiling" if ready is None else "compiled" if ready == 0 else state)


def counting():
    seen = []

    def count(x):
        seen.append(1)
        return x

    return count


def test_a_function_that_changes_an_object_outside_keeps_its_order():
    """It is called one sample after another, as without jit."""
    pipe = pipeline_def(
        lambda: fn.python_function(fn.external_source(lambda: [np.ones(2)] * 2), function=counting(), jit="auto"),
        batch_size=2,
        num_threads=2,
    )()
    pipe.build()
    assert [stage.ordered for stage in pipe.plan.stages][-1]
    pipe.run()


def test_a_function_without_state_joins_the_chain_around_it():
    """It runs on all threads, with the operators before and after it."""
    pipe = pipeline_def(
        lambda: fn.python_function(fn.external_source(lambda: [np.ones((3, 3))] * 2), function=crop, jit="auto") * 2,
        batch_size=2,
        num_threads=2,
    )()
    pipe.build()
    assert [stage.kind for stage in pipe.plan.stages] == ["source", "sample"]


class Keeper:
    def __call__(self, x):
        return x


class Unhashable(Keeper):
    __hash__ = None


READ_ONLY_VIEW = np.zeros(3)[:]
READ_ONLY_VIEW.flags.writeable = False


@pytest.mark.parametrize("options", [{"parallel": "auto"}, {"jit": "auto"}])
@pytest.mark.parametrize("function", [Unhashable(), Keeper(), np.sqrt, functools.partial(np.add, 1)])
def test_objects_that_are_called_run_as_written(function, options):
    """Nothing is known about their state, so they are called in order; one need not be hashable."""
    pipe = pipeline_def(
        lambda: fn.python_function(fn.external_source(lambda: [np.ones(2)] * 2), function=function, **options),
        batch_size=2,
        num_threads=2,
    )()
    assert np.array_equal(pipe.run()[0].at(0), function(np.ones(2)))
    chosen = next(choice for choice in pipe.settings() if " of " in choice.name)
    assert chosen.value in ("serial", "plain")


def writes_a_global(x):
    global FACTOR
    FACTOR = 2
    return x


def draws_globally(x):
    return x + np.random.rand()


def writes_to_a_table(x):
    CHANGED[1] = 3.0
    return x


def reads_a_file(x):
    return np.load(x)


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (writes_a_global, "store global FACTOR"),
        (draws_globally, "numpy.random"),
        (reads_a_file, "numpy.load"),
        (lambda x: hashlib.file_digest(x, "md5"), "hashlib.file_digest"),
        (lambda x: time.time() + x, "it uses time"),
        (lambda x: HASH.update(x) or x, "it uses HASH"),
        (lambda x: x.tofile("x"), "it uses tofile"),
        (lambda x: setattr(x, "y", 1), "it uses setattr"),
        (lambda x: KEEPER(x), "KEEPER, a Keeper"),
        (KEEPER := Keeper(), "not a plain function"),
        (lambda x: (yield x), "generator"),
        (lambda x: x + plain.__dict__.setdefault("calls", 1), "an attribute of plain"),
        (lambda x: x + READ_ONLY_VIEW.base[0], "it uses base"),
        (lambda x: np.seterr(all="raise") and x, "numpy.seterr"),
        (lambda x: cv2.setNumThreads(1) or x, "cv2.setNumThreads"),
        (lambda x: cv2.VideoCapture("x").read()[1], "cv2.VideoCapture"),
        (lambda x: x + np.genfromtxt("x"), "genfromtxt"),
    ],
)
def test_state_is_found_in_the_code(function, reason):
    """The first thing in the code that may keep state is named."""
    assert reason in state_of(function).reason
    assert not state_of(function).any_order


def test_objects_outside_that_may_be_changed_keep_the_order():
    """Tables that code only reads do no harm; if the code changes anything, it may be such a table."""
    assert state_of(looked_up_outside).any_order
    assert not state_of(counting()).any_order
    assert not state_of(writes_to_a_table).any_order
    for function, _, _ in SET:
        assert not state_of(function).reason


HASH = hashlib.sha256()
BUFFER = np.zeros(3)
FIXED = np.arange(3.0)
FIXED.flags.writeable = False
ADD, SORTED = np.add, [np.sort]


@pytest.mark.parametrize(
    "function",
    [
        lambda x: np.copyto(BUFFER, x),
        lambda x: np.add(x, 1, BUFFER),
        lambda x: np.add(x, 1, out=BUFFER),
        lambda x: ADD(*[x, 1, BUFFER]),
        lambda x: np.add.at(BUFFER, 0, x),
        lambda x: np.add.reduce(x, 0, None, BUFFER),
        lambda x: np.clip(x, 0, 1, BUFFER),
        lambda x: x.clip(0, 1, BUFFER),
        lambda x: x.dot(x, BUFFER),
        lambda x: np.nan_to_num(BUFFER, copy=False) + x,
        lambda x: cv2.blur(x, (3, 3), BUFFER),
        lambda x: cv2.circle(BUFFER, (1, 1), 1, 5) + x,
        lambda x: ndimage.shift(x, 1, output=BUFFER),
        lambda x: ndimage.shift(x, 1, BUFFER),
        lambda x: linalg.solve(BUFFER, x, overwrite_a=True),
        lambda x: operator.setitem(BUFFER, 0, x[0]),
        lambda x: operator.iadd(BUFFER, x),
        lambda x: BUFFER.__setitem__(0, x[0]),
        lambda x: np.ndarray.sort(BUFFER) or x,
        lambda x: list(map(BUFFER.fill, x)),
        lambda x: bisect.insort(SORTED, x[0]),
    ],
)
def test_a_call_that_may_write_to_an_array_outside_keeps_the_order(function):
    """The array may be passed to a function as the place of its result."""
    state = state_of(function)
    assert not state.reason
    assert state.shared in ("BUFFER", "SORTED")
    assert not state.any_order


@pytest.mark.parametrize(
    "function",
    [
        lambda x: np.clip((x - BUFFER) * 2, 0, 1).reshape(3, 1, 1).transpose(2, 0, 1),
        lambda x: np.where(x > BUFFER, x, BUFFER).astype(np.uint8, copy=False),
        lambda x: np.dot(x, BUFFER) + np.concatenate([x, BUFFER], 0).sum(0, np.float64),
        lambda x: np.array(BUFFER, np.float32) + np.float32(x),
        lambda x: np.add(x, 1, FIXED),  # NumPy refuses to write to it
        lambda x: np.add(x, 1, x),
        lambda x: np.frombuffer(hashlib.sha256(x.tobytes()).digest(), np.uint8),
        lambda x: np.frombuffer(sha256(x.tobytes()).digest() + blake2b(x).digest(), np.uint8),
        lambda x: zlib.crc32(x.tobytes()) + len(struct.pack("<d", x[0])) + x,
        lambda x: time.sleep(0) or x,
        lambda x: sleep(0) or x,
    ],
)
def test_calls_that_cannot_write_to_an_array_outside_may_run_in_any_order(function):
    """They have no place for a result, or no such array is writable."""
    assert state_of(function).any_order


@pytest.mark.parametrize("jit", ["automatic", "auto:", "auto:0", "auto:x", "auto:-1", "auto:nan"])
def test_other_words_are_refused(jit):
    """The error says what may be written."""
    with pytest.raises(ValueError, match="jit must be True, False, 'auto', or 'auto:1e-6'"):
        fn.python_function(np.ones(2), function=plain, jit=jit)


def test_other_types_are_refused():
    """A number is no way to compile."""
    with pytest.raises(TypeError, match=r"jit must be a bool or 'auto', got float 0\.5"):
        fn.python_function(np.ones(2), function=plain, jit=0.5)
