"""Exceptions of user functions arrive as if they had been raised here."""

import threading
import traceback
from pathlib import Path

import numpy as np
import pytest

from pipeflow.executor.workers.pool import WorkerPool

HERE = Path(__file__)


class TwoArguments(Exception):
    """Pickles, but does not load in the ordinary way: args holds one text, __init__ wants two numbers."""

    def __init__(self, code, position):
        super().__init__(f"code {code} at {position}")
        self.code = code
        self.position = position


class WithLock(ValueError):
    """Carries an attribute that cannot travel."""

    def __init__(self, text):
        super().__init__(text)
        self.lock = threading.Lock()
        self.size = 5


def line_of(text):
    return next(i for i, line in enumerate(HERE.read_text().splitlines(), 1) if line.strip().startswith(text))


@pytest.fixture(scope="module")
def pool():
    with WorkerPool(1) as pool:
        yield pool


def raised(pool, function, *sample):
    try:
        pool.submit(pool.register(function), [sample]).result()
    except BaseException as error:
        return error
    pytest.fail("nothing was raised")


def test_type_text_and_line(pool):
    """The class, the arguments and the user's own file and line in the traceback."""

    def inner(x):
        raise ZeroDivisionError("bad", x)  # the line

    def outer(x):
        return inner(x)

    error = raised(pool, outer, 3)
    assert type(error) is ZeroDivisionError
    assert error.args == ("bad", 3)
    last = traceback.extract_tb(error.__traceback__)[-1]
    assert (Path(last.filename), last.lineno, last.name) == (HERE, line_of("raise ZeroDivisionError"), "inner")
    assert last.line.startswith('raise ZeroDivisionError("bad", x)')
    assert "worker.py" not in "".join(traceback.format_exception(error))


def test_a_class_whose_init_does_not_load(pool):
    """An exception with an __init__ of its own keeps its type and attributes."""

    def fail():
        raise TwoArguments(7, (1, 2))

    error = raised(pool, fail)
    assert type(error).__name__ == "TwoArguments"
    assert str(error) == "code 7 at (1, 2)"
    assert (error.code, error.position) == (7, (1, 2))


def test_classes_of_the_script_keep_their_identity(pool):
    """`except MyError` works for a class that only this function's surroundings know."""

    class Local(LookupError):
        pass

    def fail():
        raise Local("here")

    with pytest.raises(Local, match="here"):
        pool.submit(pool.register(fail), [()]).result()


def test_attributes_that_cannot_travel_are_listed(pool):
    """What does not pickle is named in a note, the rest arrives."""

    def fail():
        raise WithLock("locked")

    error = raised(pool, fail)
    assert isinstance(error, ValueError)
    assert error.size == 5
    assert any("attributes that could not leave the worker process: lock" in note for note in error.__notes__)


def test_an_argument_that_cannot_travel_becomes_its_text(pool):
    """An unpicklable argument is replaced by its repr."""

    def fail():
        raise ValueError("bad", threading.Lock())

    error = raised(pool, fail)
    assert type(error) is ValueError
    assert error.args[0] == "bad"
    assert "lock object" in error.args[1]


def test_cause_context_and_notes(pool):
    """Chains and notes are whole, and `from None` stays quiet."""

    def chain():
        try:
            {}["missing"]
        except KeyError as error:
            error.add_note("note on the cause")
            top = RuntimeError("top")
            top.add_note("note on the top")
            raise top from error

    def context():
        try:
            int("x")
        finally:
            raise OSError(2, "No such file", "data.bin")

    def quiet():
        try:
            int("x")
        except ValueError:
            raise LookupError("quiet") from None

    error = raised(pool, chain)
    assert "note on the top" in error.__notes__
    assert isinstance(error.__cause__, KeyError)
    assert error.__cause__.__notes__ == ["note on the cause"]
    assert error.__cause__.__traceback__ is not None
    error = raised(pool, context)
    assert (error.errno, error.filename) == (2, "data.bin")
    assert isinstance(error, FileNotFoundError)
    assert isinstance(error.__context__, ValueError)
    assert not error.__suppress_context__
    assert "During handling of the above exception" in "".join(traceback.format_exception(error))
    error = raised(pool, quiet)
    assert isinstance(error.__context__, ValueError)
    assert error.__suppress_context__
    assert "During handling" not in "".join(traceback.format_exception(error))


def test_groups(pool):
    """An exception group arrives with its members."""

    def fail():
        raise ExceptionGroup("several", [ValueError(1), TwoArguments(1, 2)])

    with pytest.raises(ExceptionGroup, match="several") as info:
        pool.submit(pool.register(fail), [()]).result()
    assert [type(e).__name__ for e in info.value.exceptions] == ["ValueError", "TwoArguments"]


@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt, GeneratorExit])
def test_what_would_end_this_process_is_a_runtime_error(pool, kind):
    """sys.exit() in a function is an error of the function, not the quiet end of the training."""

    def fail():
        raise kind(3)

    error = raised(pool, fail)
    assert type(error) is RuntimeError
    assert str(error) == f"the function raised {kind.__name__}(3)"


@pytest.mark.parametrize(
    ("make", "check"),
    [
        (lambda: b"\xff".decode(), lambda e: isinstance(e, UnicodeDecodeError) and e.object == b"\xff"),
        (lambda: np.zeros(3)[5], lambda e: isinstance(e, IndexError)),
        (lambda: np.zeros((2, 3)) @ np.zeros(4), lambda e: isinstance(e, ValueError)),
        (lambda: compile("a b", "f.py", "exec"), lambda e: isinstance(e, SyntaxError) and e.filename == "f.py"),
        (lambda: next(iter(())), lambda e: isinstance(e, StopIteration)),
    ],
)
def test_built_in_exceptions_keep_their_fields(pool, make, check):
    """Fields that built-in classes keep in C are there as well."""
    assert check(raised(pool, make))


def test_a_text_that_cannot_be_made(pool):
    """An exception whose __str__ and __repr__ fail still arrives."""

    class Nasty(Exception):
        def __str__(self):
            raise RuntimeError("no text")

        __repr__ = __str__

    def fail():
        raise Nasty

    assert type(raised(pool, fail)).__name__ == "Nasty"


def test_a_function_that_does_not_load_in_the_worker(pool):
    """A failure while a worker unpickles a function is reported by the chunk that wanted it."""

    class Fussy:
        def __reduce__(self):
            return int, ("not a number",)

        def __call__(self):
            return 1

    error = raised(pool, Fussy())
    assert isinstance(error, ValueError)
    assert any("while the worker process loaded" in note for note in error.__notes__)


def test_the_pool_goes_on_after_errors(pool):
    """Errors cost no worker: the same process serves on."""
    raised(pool, lambda: 1 / 0)  # the first call starts the worker
    before = pool.worker_pids()
    for _ in range(5):
        raised(pool, lambda: 1 / 0)
    assert pool.submit(pool.register(lambda: 5), [()]).result() == [5]
    assert pool.worker_pids() == before
