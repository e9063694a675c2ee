"""``jit="auto"``: functions of the user that are compiled in the background, compared, and used only if they agree.

For every kind of inputs there is one *trial*. Until the compiled version is ready, the plain function runs. Then both run for
CHECKED samples, and the plain results are used. After that the compiled version runs alone. It is compared at every EVERYth
sample, or less often, so that the plain function takes at most the share COMPARING of the time. A difference, or more than
MOST_FAILURES exceptions that the plain function does not raise, end the trial; the sample gets the plain result, and the plain
function runs from then on. Failed trials are recorded on disk by the code of the function, next to its compiled versions.
"""

import atexit
import json
import logging
import math
import os
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import numba
import numpy as np
from numba.core.dispatcher import Dispatcher
from numba.np import numpy_support

from pipeflow import timing
from pipeflow.kernels import cpu as kernels
from pipeflow.kernels import decisions
from pipeflow.kernels.at_work import at_work
from pipeflow.kernels.cpu.exact_functions import compiled
from pipeflow.kernels.cpu.jit import stamp
from pipeflow.kernels.cpu.outside_values import has_items, items_of
from pipeflow.kernels.cpu.user_functions import FOLDER, array_type, compile_error, digest, kept_on_disk
from pipeflow.kernels.kept_code import folder_for, read_own

log = logging.getLogger("pipeflow")
CHECKED = 64
EVERY = 1000
COMPARING = 0.02
FROM_PYTHON = 1e-5  # seconds that a call from Python takes, and a call by a program does not
MOST_FAILURES = 8  # the most samples for which only compiled code raises: Numba does not free the arrays of such a call
MOST_KINDS = 8  # the most kinds of inputs; a function that gets more is not compiled
LONGEST_CODE = 4000  # bytes of code; the time of the compiler grows with it
LARGEST_ARRAY = 1 << 16  # bytes of an array from outside; it is compared at every call


@dataclass(frozen=True)
class TrialReport:
    """The state of the trial of a function: "compiling", "comparing", "compiled" or "plain"."""

    state: str
    reason: str = ""  # the reason why the plain function runs
    inputs: tuple[np.ndarray, ...] = ()  # inputs of the sample that showed a difference
    sample: str = ""  # its number, batch and source


class _TriedVersion:
    """A compiled version of a function for one kind of inputs, and the number of equal results."""

    def __init__(self) -> None:
        self.call: Callable[..., Any] | None = None
        self.native: Any = None  # the same for programs; None if no program can call it
        self.direct: Any = None  # measures the calls of a program
        self.form: Any = None  # the types of the plain results
        self.returned: Any = None  # Numba's type of the compiled results, if it is known
        self.trusted = False
        self.agreed = self.failures = 0
        self.spent = self.plain_spent = 0.0  # seconds of processor time while both were compared
        self.saved = 0.0  # seconds that calls by programs save: on the way from Python, and for copies of plain results
        self.copies: list[np.ndarray] = []
        self.every = EVERY
        self.left = EVERY  # calls until the next comparison
        self.report = TrialReport("compiling")


class Tried:
    """A function that is called like the plain one, and gives the same results."""

    def __init__(self, function: Callable[..., Any], tolerance: float | None, uses: Sequence[Any]) -> None:
        self.func = function
        self.tolerance = tolerance
        self.exact = tolerance is None
        self.reason = _too_large(function, uses)
        self._uses = uses
        self._arrays = [(use.value, use.value.tobytes()) for use in uses if _may_change(use.value)]
        self._items = [(use.value, items) for use in uses if (items := items_of(use.value)) is not None]
        self._trials: dict[Any, _TriedVersion] = {}
        self._lock = threading.Lock()
        self._digest = ""

    def reports(self) -> list[TrialReport]:
        """The state of each trial."""
        if self.reason:
            return [TrialReport("plain", self.reason)]
        return [trial.report for trial in list(self._trials.values())]

    def __call__(self, *arrays: np.ndarray, **named: Any) -> Any:
        if self.reason:
            return self.func(*arrays, **named)
        kinds = tuple([(array.dtype, array.ndim) for array in arrays])
        trial = self._trials.get(kinds)
        if trial is None:
            trial = self._begin(kinds, named)
        call = trial.call
        # NumPy adds the elements of an array with gaps in another order.
        if call is None or not all(array.flags.c_contiguous for array in arrays):
            return self.func(*arrays, **named)
        if not self._is_same():
            self.reason = "a value that it uses from outside has changed"
            return self.func(*arrays, **named)
        generator: Any = named.get("rng")
        before = None if generator is None else generator.bit_generator.state
        error, begun = None, timing.processor() if not trial.trusted else 0.0
        try:
            result = call(*[_read_only(array) for array in arrays], **named)
            if trial.trusted:
                trial.left -= 1
                if trial.left > 0:
                    return _as_plain(result, trial.form)
                trial.left = trial.every
        except Exception as raised:
            error = raised
        if before is not None:
            generator.bit_generator.state = before
        kept = [array.copy() for array in arrays] if error is not None else arrays
        middle = timing.processor()
        plain = self.func(*arrays, **named)  # an error of the plain function is the right one
        if not trial.trusted and trial.agreed and error is None:  # the first call is not counted, because it is slower
            end = timing.processor()
            self._note_times(trial, middle - begun, end - middle, plain, arrays, before)
        if error is not None:
            trial.failures += 1
            if trial.failures > MOST_FAILURES:
                self._end(trial, f"compiled code raised {type(error).__name__}: {error}", kept)
            return plain
        return self._compared(trial, result, plain, arrays)

    @staticmethod
    def _note_times(
        trial: _TriedVersion, spent: float, plain_spent: float, plain: Any, arrays: Sequence[np.ndarray], state: Any
    ) -> None:
        """Counts the times of a call of each version. A program spends nothing on the way from Python to compiled code, which for
        a generator is more than many functions; and both versions find the inputs in the cache.
        """
        if trial.direct is not None:
            begun = timing.processor()
            nbytes = _copy(plain, trial.copies)
            copying = timing.processor() - begun
            alone = trial.direct.seconds(arrays, nbytes, state)
            if alone is None:
                return
            if alone >= 0:
                spent = alone
                trial.saved += FROM_PYTHON + copying
        trial.spent += spent
        trial.plain_spent += plain_spent

    def native(self, kinds: Any) -> tuple[Any, Callable[[int], int]] | None:
        """The compiled version for programs, which is None if no program can call it, and a function that is called before it
        runs for several samples: it returns for how many it may. For the others this function must be called. None as long
        as results are compared.
        """
        trial = self._trials.get(kinds)
        call = None if trial is None else trial.call
        if trial is None or call is None or not trial.trusted:
            return None
        made = trial.native

        def permit(samples: int) -> int:
            if trial.call is not call or not self._is_same():
                return 0
            if trial.left <= samples:  # the last one is compared
                trial.left = 1
                return samples - 1
            trial.left -= samples
            return samples

        numbers = _numbers_of(trial.form)
        return None if made is None or numbers is None else made.returning(numbers), permit

    def _compared(self, trial: _TriedVersion, result: Any, plain: Any, arrays: Sequence[np.ndarray]) -> Any:
        with self._lock:
            if trial.call is None:
                return plain
            try:
                if trial.form is None:
                    trial.form = _form_of(plain)
                    _check_numbers(trial.returned, trial.form)
                found = _difference(_as_plain(result, trial.form), plain, self.tolerance)
            except (TypeError, ValueError, OverflowError) as error:
                found = str(error)
            if found:
                self._end(trial, f"compiled code gave another result: {found}", arrays)
                return plain
            trial.agreed += 1
            if trial.agreed >= CHECKED and not trial.trusted:
                self._decide(trial)
        return plain if self.exact else _as_plain(result, trial.form)

    def _decide(self, trial: _TriedVersion) -> None:
        """Decides after the comparisons: the compiled version is used, unless it is slower (NumPy's own loops may be faster).

        With a tolerance it is always used: a decision by the clock would change results.
        """
        trial.copies.clear()
        if self.exact and trial.spent > trial.plain_spent + trial.saved:
            trial.call = None
            self._decided(
                trial, TrialReport("plain", "it gives the same results when it is compiled, and is not faster")
            )
            return
        if trial.spent > 0:
            trial.every = max(EVERY, math.ceil(trial.plain_spent / trial.spent / COMPARING))
        trial.left = trial.every
        trial.trusted = True
        self._decided(trial, TrialReport("compiled"))

    def _decided(self, trial: _TriedVersion, report: TrialReport) -> None:
        """Notes which code works from now on."""
        trial.report = report
        decisions.count(self.func)

    def _is_same(self) -> bool:
        """True if all values from outside the function are still those in the compiled code."""
        for use in self._uses:
            if not use.is_same():
                return False
        if self._items and not all(has_items(value, items) for value, items in self._items):
            return False
        return not self._arrays or all(array.tobytes() == content for array, content in self._arrays)

    def _begin(self, kinds: Any, named: Mapping[str, Any]) -> _TriedVersion:
        """Starts a trial. With a tolerance it is compiled at once: no result may depend on when it is ready."""
        with self._lock:
            known = self._trials.get(kinds)
            if known is not None:
                return known
            trial = _TriedVersion()
            if len(self._trials) >= MOST_KINDS:
                trial.report = TrialReport("plain", f"it has had {MOST_KINDS} other kinds of inputs")
            elif not all(dtype.kind in "biuf" and dtype != np.float16 and dtype.isnative for dtype, _ in kinds):
                trial.report = TrialReport("plain", "its inputs are not numbers that Numba knows")
            elif self.exact:
                in_background(lambda: self._compile(trial, kinds, named))
            else:
                self._compile(trial, kinds, named)
            self._trials[kinds] = trial
            return trial

    def _compile(self, trial: _TriedVersion, kinds: Any, named: Mapping[str, Any]) -> None:
        """Compiles a version, unless this code is known to fail."""
        trial_name = self._name(kinds)
        reason = _remembered(trial_name)
        if not reason:
            try:
                made = self._compiled()
                types = [array_type(dtype, ndim, True) for dtype, ndim in kinds]
                named_types = {name: numba.typeof(value) for name, value in named.items()}
                signature = tuple(made._compiler.fold_argument_types(types, named_types)[1])  # type: ignore[attr-defined]
                made.compile(signature)
                if isinstance(made, Dispatcher):
                    trial.returned = made.overloads[signature].signature.return_type
                with suppress(Exception):  # a type that programs do not know: the calls come from Python
                    trial.native = kernels.user_calls.native(made, types, draws="rng" in named)
                    trial.direct = trial.native and kernels.user_calls.DirectCall(trial.native)
                trial.report = TrialReport("comparing")
                trial.call = made
                return
            except Exception as error:  # also one that the compiler does not expect
                reason = str(compile_error(self.func, error))
            _remember(trial_name, reason)
        self._decided(trial, TrialReport("plain", reason))
        log.info("%s runs as plain Python: %s", self.func.__qualname__, reason)

    def _compiled(self) -> Dispatcher:
        made = compiled(self.func, self.exact)
        kept_on_disk(made, self.func, f"{self._key()}{'x' if self.exact else 'c'}")
        return made

    def _key(self) -> str:
        if not self._digest:
            self._digest = sha256(f"{stamp()} {digest(self.func)} {self.func.__defaults__!r}".encode()).hexdigest()[:16]
        return self._digest

    def _name(self, kinds: Any) -> str:
        text = repr((self._key(), [(dtype.str, ndim) for dtype, ndim in kinds], self.tolerance))
        return sha256(text.encode()).hexdigest()[:24]

    def _end(self, trial: _TriedVersion, reason: str, arrays: Sequence[np.ndarray]) -> None:
        """Uses only the plain function from now on."""
        trial.call = None
        sample = at_work.text()
        self._decided(trial, TrialReport("plain", reason, tuple(np.array(array) for array in arrays), sample))
        _remember(self._name(tuple((array.dtype, array.ndim) for array in arrays)), reason)
        log.warning(
            "%s (jit='auto') runs as plain Python from now on: %s; for inputs %s%s",
            self.func.__qualname__,
            reason,
            ", ".join(f"{array.dtype} {array.shape}" for array in arrays),
            f" of {sample}" if sample else "",
        )


def _too_large(function: Any, uses: Sequence[Any]) -> str:
    if len(function.__code__.co_code) > LONGEST_CODE:
        return "its code is too long to try"
    for use in uses:
        if isinstance(use.value, np.ndarray) and _may_change(use.value) and use.value.nbytes > LARGEST_ARRAY:
            return f"{use.name} is a large array that may change: call {use.name}.setflags(write=False)"
    return ""


def _may_change(value: Any) -> bool:
    """True for an array whose content may change."""
    while isinstance(value, np.ndarray):
        if value.flags.writeable:
            return True
        value = value.base
    return False


def _read_only(array: np.ndarray) -> np.ndarray:
    array = array.view()
    array.flags.writeable = False
    return array


# Results.


def _form_of(plain: Any) -> Any:
    """The types of a plain result: a type for a number, None for an array, a tuple of these for several."""
    if isinstance(plain, (tuple, list)):
        return type(plain), tuple(_form_of(item) for item in plain)
    if type(plain) is np.ndarray:
        return None
    if isinstance(plain, (bool, int, float, np.generic)):
        return type(plain)
    raise TypeError(f"a result of type {type(plain).__name__} is not compared")


def _check_numbers(returned: Any, form: Any) -> None:
    """Raises an error if compiled numbers have more values than the plain ones, which wrap around or round earlier."""
    if isinstance(form, tuple) and isinstance(returned, numba.types.BaseTuple):
        for one, part in zip(returned, form[1]):
            _check_numbers(one, part)
    elif isinstance(form, type) and isinstance(returned, (numba.types.Integer, numba.types.Float, numba.types.Boolean)):
        kind, wanted = numpy_support.as_dtype(returned), np.asarray(form(0)).dtype
        if kind != wanted and (kind.kind != "f" or not np.can_cast(kind, wanted)):
            raise TypeError(f"a number of type {kind} instead of {wanted}")


def _copy(plain: Any, copies: list[np.ndarray]) -> int:
    """Copies the arrays of a result, as it is done for a batch: to memory that is used again. Returns the bytes of the results,
    each with those up to the next one.
    """
    results = [*map(np.asarray, plain if isinstance(plain, (tuple, list)) else (plain,))]
    if [(one.dtype, one.shape) for one in results] != [(one.dtype, one.shape) for one in copies]:
        copies[:] = [np.empty(array.shape, array.dtype) for array in results]
    for array, copy in zip(results, copies):
        np.copyto(copy, array)
    return sum(array.nbytes + kernels.kernel_calls.ALIGNMENT for array in results)


def _numbers_of(form: Any) -> list[np.dtype | None] | None:
    """The type of each result that is a number, None for an array; None for results in tuples of tuples."""
    forms = form[1] if isinstance(form, tuple) else (form,)
    if any(isinstance(one, tuple) for one in forms):
        return None
    return [None if one is None else np.asarray(one(0)).dtype for one in forms]


def _as_plain(result: Any, form: Any) -> Any:
    """A compiled result with the types of the plain one: compiled code returns Python's numbers."""
    if form is None:
        return result
    if isinstance(form, tuple):
        kind, items = form
        return kind([_as_plain(item, part) for item, part in zip(result, items, strict=True)])
    return form(result)


def _difference(result: Any, plain: Any, tolerance: float | None) -> str:
    """The difference between two results as text; "" if there is none."""
    if type(result) is not type(plain):
        return f"a {type(result).__name__} instead of a {type(plain).__name__}"
    if isinstance(plain, (tuple, list)):
        if len(result) != len(plain):
            return f"{len(result)} results instead of {len(plain)}"
        return next(filter(None, (_difference(one, two, tolerance) for one, two in zip(result, plain))), "")
    one, two = np.asarray(result), np.asarray(plain)
    if one.dtype != two.dtype or one.shape != two.shape:
        return f"{one.dtype} {one.shape} instead of {two.dtype} {two.shape}"
    if one.tobytes() == two.tobytes():
        return ""
    if tolerance is None:
        wide = one.reshape(one.size, 1).view(np.uint8) != two.reshape(two.size, 1).view(np.uint8)
        apart = wide.any(axis=1)
    else:
        apart = ~np.isclose(one, two, rtol=tolerance, atol=tolerance, equal_nan=True).ravel()
        if not apart.any():
            return ""
    first = int(np.argmax(apart))
    place = tuple(int(index) for index in np.unravel_index(first, one.shape)) if one.shape else ()
    return f"{one.flat[first]!r} instead of {two.flat[first]!r}{f' at {place}' if place else ''}"


# The record of failed trials.


def _file(name: str) -> Path | None:
    folder = folder_for(FOLDER)
    return None if folder is None else folder / f"tried-{name}.json"


def _remembered(name: str) -> str:
    """The reason why this code failed before; "" if it is not known to fail."""
    path = _file(name)
    if path is None:
        return ""
    try:
        return str(json.loads(read_own(path))["reason"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""


def _remember(name: str, reason: str) -> None:
    path = _file(name)
    if path is None:
        return
    with suppress(OSError):
        descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name)
        with os.fdopen(descriptor, "w") as file:
            json.dump({"reason": reason}, file)
        os.replace(temporary, path)


# A thread compiles one trial at a time. A program that ends waits for the trial that has begun.

_turn = threading.Lock()
_threads: list[threading.Thread] = []  # the threads of this process that compile
_ending = threading.Event()


def in_background(work: Callable[[], None]) -> None:
    """Runs a function in another thread."""

    def do() -> None:
        with _turn:
            if not _ending.is_set():
                work()

    _threads[:] = [thread for thread in _threads if thread.is_alive()]
    thread = threading.Thread(target=do, name="pipeflow-jit", daemon=True)
    _threads.append(thread)
    thread.start()


def wait_for_trials() -> None:
    """Waits until all trials that have begun are compiled."""
    for thread in _threads:
        thread.join()


def _at_exit() -> None:
    _ending.set()
    wait_for_trials()


def _in_child() -> None:
    """Called in a forked child: there no thread compiles, and a thread of the parent may have held the lock."""
    global _turn
    _turn = threading.Lock()
    _threads.clear()


atexit.register(_at_exit)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
