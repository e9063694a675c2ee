"""KeyboardInterrupt at any instant: the next call goes on, no batch is lost, none comes twice, nothing hangs."""

import ast
import inspect
import linecache
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import pipeflow
from pipeflow import fn, pipeline_def
from pipeflow.errors import InvalidState

PACKAGE = str(Path(pipeflow.__file__).parent)
INSIDE = tuple(
    f"{PACKAGE}/{part}" for part in ("executor/", "handle/", "pipeline.py", "epochs/", "resume.py", "plugin/")
)
COUNT = 3


class Interrupts:
    """Raises KeyboardInterrupt before the k-th line that this thread runs in the executor, and notes which lines it runs."""

    def __init__(self, line=0, inside=INSIDE):
        self.line = line
        self.inside = inside
        self.seen = 0
        self.places = {}  # code line -> at which counts it was run

    def __enter__(self):
        sys.settrace(self.called)
        return self

    def __exit__(self, *_):
        sys.settrace(None)

    def called(self, frame, event, argument):
        code = frame.f_code  # CPython 3.11 crashes where the tracing of a generator raises
        return (
            self.ran if code.co_filename.startswith(self.inside) and not code.co_flags & inspect.CO_GENERATOR else None
        )

    def ran(self, frame, event, argument):
        if event == "line" and not leaves_a_block(frame):
            self.seen += 1
            if not self.line:
                self.places.setdefault((frame.f_code.co_filename, frame.f_lineno), []).append(self.seen)
            elif self.seen == self.line:
                if not in_finalizer(frame):
                    raise KeyboardInterrupt
                self.line += 1
        return self.ran


def in_finalizer(frame):
    """Whether Python prints what is raised here, and goes on."""
    while frame is not None:
        if frame.f_code.co_name == "__del__" or frame.f_code.co_filename.endswith("weakref.py"):
            return True
        frame = frame.f_back
    return False


def leaves_a_block(frame):
    """Whether a ``with`` statement is at its end: tracing comes between the block and its release, where no signal can."""
    line = linecache.getline(frame.f_code.co_filename, frame.f_lineno)
    if not line.lstrip().startswith("with "):
        return False
    return frame.f_lasti != min(begin for begin, _, number in frame.f_code.co_lines() if number == frame.f_lineno)


def test_no_block_under_a_lock_has_a_loop():
    """Python 3.13 leaves a ``with`` block without its release where a signal comes at the jump of a ``while`` loop in it."""
    found = []
    for folder in ("executor", "handle", "device", "operators"):
        for path in Path(PACKAGE, folder).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.With) and any(
                    ast.unparse(item.context_expr).endswith(("lock", "turn", "_arrived")) for item in node.items
                ):
                    loops = [inner.lineno for inner in ast.walk(node) if isinstance(inner, ast.While)]
                    found += [f"{path}:{line}" for line in loops]
    assert found == [], "put the loop into a function that is called in the block"


def plain(info):
    return np.array(info.idx_in_epoch)


def numbers():
    return [np.arange(2) + 2 * k for k in range(COUNT)]


def listed(**settings):
    """COUNT batches of two from a list, doubled by a function; random numbers beside them."""

    @pipeline_def(batch_size=2, seed=1, **settings)
    def define():
        x = fn.external_source(numbers())
        return fn.python_function(x, function=lambda a: a * 2), fn.random.uniform(range=(0.0, 1.0))

    return define()


def by_run(pipe):
    """All batches by run(), however often it is interrupted."""
    while True:
        try:
            batch = pipe.run()
        except KeyboardInterrupt:
            continue
        except StopIteration:
            return
        yield batch


def by_epochs(pipe, journal=None):
    """Two epochs by the loop that walks them."""
    ended, epoch = 0, None
    while ended < 2:
        try:
            epoch = epoch or pipe.epoch(journal=journal)
            batch = next(epoch)
        except KeyboardInterrupt:
            continue
        except StopIteration:
            ended, epoch = ended + 1, None
            continue
        yield batch


def by_schedule(pipe):
    """Batches that are scheduled two at a time."""
    while True:
        try:
            while pipe._compiled().in_flight < 2 and not pipe._compiled().course.ended:
                pipe.schedule_run()
            batch = pipe.outputs()
        except KeyboardInterrupt:
            continue
        except StopIteration:
            return
        yield batch


def values(batches):
    return [[np.array(batch.as_array()).tolist() for batch in outputs] for outputs in batches]


WALKS = {"run": by_run, "epochs": by_epochs, "schedule": by_schedule}
SETTINGS = {
    "threads": {"num_threads": 2},
    "one at a time": {"num_threads": 1, "prefetch_queue_depth": 1},
    "synchronous": {"num_threads": 1, "exec_async": False, "exec_pipelined": False},
}
SYNCHRONOUS = SETTINGS["synchronous"]


def interrupt_lines(walk, settings, every=1):
    """Interrupts lines of the executor that a caller's thread runs, each half-way through the times that it runs."""

    def attempt(line):
        pipe = listed(**SETTINGS[settings])
        pipe.build()
        with Interrupts(line) as interrupts:
            found = values(WALKS[walk](pipe))
        pipe._executor.close()
        return found, interrupts.places

    expected, places = attempt(0)
    assert len(expected) == (2 * COUNT if walk == "epochs" else COUNT)
    for (file, number), counts in list(places.items())[::every]:
        found, _ = attempt(counts[len(counts) // 2])
        assert found == expected, f"{file}:{number}"


@pytest.mark.parametrize("walk", WALKS)
@pytest.mark.parametrize("settings", SETTINGS)
def test_an_interrupt_before_a_line(walk, settings):
    """Lines of the executor that the thread of a caller runs are interrupted, every fourth."""
    interrupt_lines(walk, settings, every=4)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("walk", WALKS)
@pytest.mark.parametrize("settings", SETTINGS)
def test_an_interrupt_before_any_line(walk, settings):
    """All of them."""
    interrupt_lines(walk, settings)


def test_an_interrupt_before_any_line_leaves_the_journal_right(tmp_path):
    """The same with a journal: what it says at the end is that all is done, and a program that is started again gives nothing."""

    files = tuple(f"{PACKAGE}/{part}" for part in ("epochs/", "resume.py", "executor/journal.py"))

    def attempt(line):
        path = tmp_path / f"{line}.journal"
        pipe = listed(**SYNCHRONOUS)
        pipe.build()
        (first,) = values([next(pipe.epoch(journal=path))])
        with Interrupts(line, files) as interrupts:
            found = values(by_epochs(pipe, path))
        again = listed(**SYNCHRONOUS)
        assert pipe._loop[1].journal.close() is None
        assert values(by_epochs(again, path)) == []
        again._loop[1].journal.close()
        return [first, *found], interrupts.places

    expected, places = attempt(0)
    for (file, number), counts in places.items():
        found, _ = attempt(counts[len(counts) // 2])
        assert found == expected, f"{file}:{number}"


def interrupted_once(items, at):
    """A generator whose item ``at`` raises KeyboardInterrupt, the first time."""
    for number, item in enumerate(items):
        if number == at and not interrupted_once.seen:
            interrupted_once.seen = True
            raise KeyboardInterrupt
        yield item


@pytest.mark.parametrize("how", ["generator function", "sample", "function"])
def test_the_users_own_code_is_interrupted(how):
    """Ctrl-C inside a source or a function, in the caller's thread: the batch is made again with the same values."""
    interrupted_once.seen = False

    def broken(x):
        if int(np.ravel(x)[0]) >= 4 and not interrupted_once.seen:
            interrupted_once.seen = True
            raise KeyboardInterrupt
        return x

    def sample(info):
        return broken(np.array(info.idx_in_epoch))

    def generator():
        yield from interrupted_once(numbers(), 2)

    sources = {
        "generator function": {"source": generator},
        "sample": {"source": sample, "batch": False},
        "function": {"source": numbers()},
    }

    @pipeline_def(batch_size=2, seed=1, **SYNCHRONOUS)
    def define():
        x = fn.external_source(**sources[how])
        return fn.python_function(x, function=broken if how == "function" else np.copy), fn.random.uniform()

    pipe = define()
    got = [pipe.run(), pipe.run()]
    with pytest.raises(KeyboardInterrupt):
        pipe.run()
    got.append(pipe.run())
    assert interrupted_once.seen
    again = define()
    assert values(got) == values(again.run() for _ in range(3))


def test_an_iterator_that_was_interrupted_says_so():
    """A generator is over when it was interrupted: no batch is passed over in silence, and reset() goes on."""
    interrupted_once.seen = False
    items = interrupted_once(numbers(), 2)
    pipe = pipeline_def(batch_size=2, **SYNCHRONOUS)(lambda: fn.external_source(items))()
    pipe.run(), pipe.run()
    with pytest.raises(KeyboardInterrupt):
        pipe.run()
    with pytest.raises(InvalidState, match="interrupted while it gave an item, and cannot go back") as caught:
        pipe.run()
    assert "reset() starts the epoch over" in str(caught.value.__notes__)
    pipe.reset()
    with pytest.raises(StopIteration):
        pipe.run()


def test_states_of_the_users_objects_go_back_too():
    """A function that keeps a state is given the one it had before the batch that was interrupted."""
    interrupted_once.seen = False

    class Counting:
        count = 0

        def __call__(self, x):
            self.count += 1
            if self.count == 6 and not interrupted_once.seen:
                interrupted_once.seen = True
                raise KeyboardInterrupt
            return np.array(self.count)

        def get_state(self):
            return self.count

        def set_state(self, state):
            self.count = state

    @pipeline_def(batch_size=2, enable_checkpointing=True, **SYNCHRONOUS)
    def define():
        return fn.python_function(fn.external_source(numbers()), function=Counting())

    pipe = define()
    got = [pipe.run(), pipe.run()]
    with pytest.raises(KeyboardInterrupt):
        pipe.run()
    got.append(pipe.run())
    assert values(got) == [[[1, 2]], [[3, 4]], [[5, 6]]]


def test_an_interrupted_debug_run_goes_on():
    """Line by line as well: the batch that was interrupted is run again."""
    interrupted_once.seen = False

    def broken(x):
        if x[0] == 2 and not interrupted_once.seen:
            interrupted_once.seen = True
            raise KeyboardInterrupt
        return x

    @pipeline_def(batch_size=2, debug=True, seed=1)
    def define():
        return fn.python_function(fn.external_source(numbers()), function=broken, batch_processing=True)

    pipe = define()
    got = [pipe.run()]
    with pytest.raises(KeyboardInterrupt):
        pipe.run()
    got += [pipe.run(), pipe.run()]
    assert values(got) == [[x.tolist()] for x in numbers()]


PROGRAM = """
import faulthandler, random, signal, sys, threading
import numpy as np
import pipeflow
from pipeflow import fn, pipeline_def

ENTRANCES = pipeflow.Pipeline.run.__code__, pipeflow.epochs.Epoch.__next__.__code__
WANTED = {wanted}
random.seed({seed})
interrupts = 0
armed = False  # a signal that comes while the timer is being stopped must not start it again
faulthandler.dump_traceback_later(150, exit=True)  # where it hangs, if it does


def interrupt(number, frame):
    global interrupts
    if not armed:
        return
    while frame is not None and frame.f_code not in ENTRANCES:
        frame = frame.f_back
    signal.setitimer(signal.ITIMER_REAL, random.choice((1e-5, 1e-4, 1e-3, 5e-3)) * random.random() + 1e-6)
    if frame is not None and interrupts < WANTED:  # not in this program's own lines
        interrupts += 1
        raise KeyboardInterrupt


def double(x):
    return x * 2


def numbers():
    for k in range(40):
        yield np.arange(4) + 4 * k


class Samples:
    def __call__(self, info):
        if info.iteration == 40:
            raise StopIteration
        return np.array(info.idx_in_epoch)


@pipeline_def(batch_size=4, seed=1, py_num_workers=1)
def define(source, **how):
    x = fn.external_source(**source)
    return fn.python_function(x, function=double, **how), fn.random.uniform(range=(0.0, 1.0))


def walk(pipe, epoch):
    steps = pipe.epoch() if epoch else None
    while True:
        try:
            batch = next(steps) if epoch else pipe.run()
        except KeyboardInterrupt:
            continue
        except StopIteration:
            return
        yield [x.as_array().tolist() for x in batch]


expected = list(walk(define({{"source": numbers}}), False))
assert len(expected) == 40
signal.signal(signal.SIGALRM, interrupt)
rounds = 0
while interrupts < WANTED:
    kind = {kind!r}
    settings = dict(exec_async=False, exec_pipelined=False) if kind == "synchronous" else dict(num_threads=rounds % 3 + 1)
    how = dict(parallel="processes") if kind == "processes" else dict(parallel="threads") if rounds % 2 else dict()
    source = dict(source=Samples(), batch=False) if rounds % 2 or kind == "synchronous" else dict(source=numbers)
    pipe = define(source, **how, **settings)
    pipe.build()
    steps = walk(pipe, rounds % 4 > 1)
    found = []
    armed = True
    signal.setitimer(signal.ITIMER_REAL, 1e-4)
    for batch in steps:
        found.append(batch)
    armed = False
    signal.setitimer(signal.ITIMER_REAL, 0)
    assert found == expected, (rounds, interrupts, found)
    pipe._executor.close()
    rounds += 1
print(interrupts, "interrupts in", rounds, "pipelines")
"""


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no interval timers on this system")
@pytest.mark.parametrize(("kind", "wanted"), [("threads", 1000), ("synchronous", 700), ("processes", 300)])
def test_interrupts_at_random_instants(kind, wanted):
    """2,000 signals at random delays, into callers only: every batch comes once, in order, with the same values."""
    program = PROGRAM.format(kind=kind, wanted=wanted, seed=7)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=160, check=False)
    assert done.returncode == 0, done.stderr
    assert f"{wanted} interrupts" in done.stdout
