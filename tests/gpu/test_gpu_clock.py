"""The clock of the GPU benchmarks: the time of the host is not measured, and no buffer is used twice in a row."""

from types import SimpleNamespace

import fake_device

from benchmarks import gpu_clock

MILLISECONDS = 72.0


class Recorder(fake_device.FakeRuntime):
    """A device that notes the order of what is queued, and whose pairs of events are MILLISECONDS apart."""

    def __init__(self):
        super().__init__()
        self.queued = queued = []

        class Event:
            def record(self, _stream):
                queued.append("event")

            def synchronize(self):
                queued.append("waited")

        class Computing:
            ptr = 7

            def __enter__(self):
                return self

            def __exit__(self, *_):
                pass

        self.computing = Computing()
        self.module = SimpleNamespace(
            RawKernel=lambda _code, name: lambda *_launch: queued.append(name),
            cuda=SimpleNamespace(Event=Event, get_elapsed_time=lambda _before, _after: MILLISECONDS),
        )

    def drain(self, stream):
        assert stream is self.computing
        self.queued.append("waited")


def test_launches_wait_behind_a_kernel_between_one_pair_of_events():
    """So the device finds all of them queued, and the time is that of the kernels; the sets of buffers take turns."""
    device = Recorder()
    sets = [[lambda name=f"{letter}{part}": device.queued.append(name) for part in (1, 2)] for letter in "abc"]
    seconds = gpu_clock.queue_seconds(device, sets)
    assert seconds == MILLISECONDS / 1000 / gpu_clock.REPEATS
    first, *rounds = " ".join(device.queued).split(" waited")
    assert first == "a1 a2 b1 b2 c1 c2"  # so that compiling and loading are over
    launches = " ".join(["a1 a2 b1 b2 c1 c2"] * (gpu_clock.REPEATS // 3))
    assert rounds == [f" spin event {launches} event"] * gpu_clock.ROUNDS + [""]


def test_a_copy_reads_and_writes():
    """The bandwidth counts each byte twice, and the copies have buffers of their own."""
    device = Recorder()
    copies = []
    device.copy = lambda _stream, target, source, nbytes: copies.append((target, source, nbytes))
    found = gpu_clock.copy_bandwidth(device, 1000)
    assert found == 2 * 1000 / (MILLISECONDS / 1000 / gpu_clock.REPEATS)
    assert len({place for target, source, _ in copies for place in (target, source)}) == 2 * gpu_clock.SETS
