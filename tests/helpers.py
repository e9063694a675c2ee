"""What tests of many folders share: clocks that they set, calls that must come back, functions that hang until told, the
operator calls that a function makes, and the samples that compiled chains have done."""

import threading
import time
from contextlib import contextmanager

from pipeflow import declare, timing
from pipeflow.declare import registry
from pipeflow.executor.runners import chain


class SetClock:
    """Clocks of this process that stand still until `advance`: no call is ever late because the machine is busy."""

    def __init__(self, monkeypatch):
        self._now, self._stamp = 1000.0, time.monotonic_ns()
        monkeypatch.setattr(timing, "wall", lambda: self._now)
        monkeypatch.setattr(timing, "processor", lambda: self._now)
        monkeypatch.setattr(timing, "stamp", lambda: self._stamp)

    def advance(self, seconds):
        """Lets time pass."""
        self._now += seconds
        self._stamp += int(seconds * 1e9)


def threads(before=frozenset()):
    """The threads of pipelines that are alive, beyond those of ``before``."""
    return {thread for thread in threading.enumerate() if thread.name.startswith("pipeflow")} - before


class Gate:
    """Where a function of a test waits: `passed` says that it is there, `open` lets it go on."""

    def __init__(self):
        self._reached, self._opened = threading.Event(), threading.Event()

    def wait(self):
        """Waits until the gate is opened; what waits here when the test is over is let go."""
        self._reached.set()
        self._opened.wait()

    def reached(self):
        """Waits until somebody waits here."""
        assert self._reached.wait(LONG), "nobody came to the gate"

    def open(self):
        """Lets everybody pass, from now on."""
        self._opened.set()


# Seconds after which a test is given up: never reached by one that passes, on however busy a machine.
LONG = 120


def in_time(call):
    """The result of a call that must not wait for ever; what it raises is raised."""
    results, errors = [], []

    def run():
        try:
            results.append(call())
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(LONG)
    assert not thread.is_alive(), f"{call} did not come back"
    if errors:
        raise errors[0]
    return results[0]


def calls_of(function, interpret=lambda call: None):
    """The operator calls that ``function()`` makes, in order; `interpret` gives the result of each."""
    calls = []

    def remember(call):
        calls.append(call)
        return interpret(call)

    token = declare.interpreter.set(remember)
    try:
        function()
    finally:
        declare.interpreter.reset(token)
    return calls


@contextmanager
def chains_counted(monkeypatch, chained=True):
    """Gives the list of the samples of the first batch that chains have done; without ``chained`` there are no chains."""
    done, run = [], chain.Chain.run

    def counted(self, batch, rows, *rest):
        samples = run(self, batch, rows, *rest)
        done.extend(samples if batch.index == 0 else ())
        return samples

    with monkeypatch.context() as patch:
        patch.setattr(chain.Chain, "run", counted)
        if not chained:
            patch.setattr(chain, "_able", lambda _step: False)
        yield done


def the_whole_way(call):
    """The result of a call outside of pipelines as if no call had been made before."""
    kept = [(op, dict(vars(op))) for op in registry.values()]
    for op, _ in kept:
        op.forget_calls()
    try:
        return call()
    finally:
        for op, before in kept:
            vars(op).update({name: before[name] for name in ("plain_calls", "known_calls", "last_calls", "last_call")})
