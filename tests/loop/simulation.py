"""Pipelines in a time of their own: it passes only while every thread sleeps or waits for another, and then at once.

Whatever the machine does meanwhile, two functions of 20 ms side by side take 20 ms, and one after the other 40.
"""

import heapq
import threading
from collections import Counter, deque
from types import SimpleNamespace

from pipeflow import timing
from pipeflow.executor import clocks, crew, measuring, ring


class Simulation:
    """The time, and the threads of a pipeline that live in it; the test's own thread is one of them."""

    def __init__(self, monkeypatch, processors=4):
        self.now = 1000.0
        self._changed = threading.Condition()
        self._active = 1  # threads that neither sleep nor wait
        self._wakes = []
        self._computed = Counter()  # by thread
        self._holder, self._wanting = None, deque()  # of the interpreter
        self._held, self._since = 0.0, 0.0
        names = {**vars(threading), "Thread": self._thread()}
        monkeypatch.setattr(crew, "threading", SimpleNamespace(**names))
        gate = self._gate()
        for module in (crew, ring):
            monkeypatch.setattr(module, "Gate", gate)
        monkeypatch.setattr(crew, "undisturbed", lambda work: work())
        monkeypatch.setattr(measuring, "GilProbe", lambda: Witness(self))
        monkeypatch.setattr(timing, "wall", lambda: self.now)
        monkeypatch.setattr(timing, "processor", lambda: self._computed[threading.get_ident()])
        monkeypatch.setattr(clocks, "queued_seconds", lambda threads: 0.0)
        monkeypatch.setattr(clocks, "seconds_of_others", lambda: None)
        monkeypatch.setattr(timing, "process", lambda: 0.0)
        monkeypatch.setattr(clocks, "available_cpus", lambda: processors)

    def sleep(self, seconds):
        """The calling thread does nothing for so long."""
        with self._changed:
            wake = self.now + seconds
            heapq.heappush(self._wakes, wake)
            self._leave()
            while self.now < wake:
                self._changed.wait()

    def compute(self, seconds):
        """The calling thread works for so long, and others may as well."""
        self.sleep(seconds)
        self._computed[threading.get_ident()] += seconds

    def hold(self, seconds):
        """The calling thread works for so long with the interpreter to itself, once it gets it."""
        me = threading.get_ident()
        with self._changed:
            if self._holder is None:
                self._holder = me
            else:
                self._wanting.append(me)
                self._leave()
                while self._holder != me:
                    self._changed.wait()
            self._since = self.now
        self.compute(seconds)
        with self._changed:
            self._held += self.now - self._since
            self._holder = None
            if self._wanting:
                self._holder = self._wanting.popleft()
                self._active += 1
                self._changed.notify_all()

    def held(self):
        """How long the interpreter has been kept by any thread."""
        with self._changed:
            return self._held + (self.now - self._since if self._holder is not None else 0.0)

    def _leave(self):
        """The calling thread goes on later; when no other can go on either, time passes to the next that wakes."""
        self._active -= 1
        if not self._active and self._wakes:
            self.now = self._wakes[0]
            while self._wakes and self._wakes[0] <= self.now:
                heapq.heappop(self._wakes)
                self._active += 1
            self._changed.notify_all()

    def _gate(simulation):
        class Gate(crew.Gate):
            asleep = False

            def wait(self, seconds=None):
                with simulation._changed:
                    if self._lock.locked():
                        self.asleep = True
                        simulation._leave()
                return super().wait(seconds)

            def open(self):
                with simulation._changed:
                    simulation._active += self.asleep
                    self.asleep = False
                return super().open()

        return Gate

    def _thread(simulation):
        class Thread(threading.Thread):
            def start(self):
                with simulation._changed:
                    simulation._active += 1
                super().start()

            def run(self):
                try:
                    super().run()
                finally:
                    with simulation._changed:
                        simulation._leave()

            def join(self, timeout=None):
                with simulation._changed:
                    simulation._leave()
                super().join(timeout)
                with simulation._changed:
                    simulation._active += 1

        return Thread


class Witness:
    """In place of the thread that wants the interpreter: the simulation knows how long it was kept."""

    def __init__(self, simulation):
        self._simulation, self._begun = simulation, {}
        self.over = False

    def begin(self, clock):
        self._begun.setdefault(clock, (self._simulation.now, self._simulation.held()))

    def end(self, clock):
        if clock in self._begun:
            begun, held = self._begun.pop(clock)
            clock.probed += self._simulation.now - begun
            clock.waited += self._simulation.held() - held

    def close(self):
        """Nothing to end."""
