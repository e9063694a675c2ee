"""The first batches are made by NumPy, and no result shows when the compiled kernels took over."""

import errno
import logging
import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from decoders.jpeg_files import encoded, photograph
from helpers import LONG

from pipeflow import fn, pipeline_def, types
from pipeflow.compile import first_batches, warmup
from pipeflow.executor.runners import program
from pipeflow.kernels import cpu as kernels
from pipeflow.kernels.cpu import everyday, fused, kernel_folder, normalize, resample, start

UINT8, FLOAT, HALF, INT8 = np.uint8, np.float32, np.float16, np.int8


def begun(monkeypatch):
    """The state of a process that has just begun; it finds the kernels on the disk."""
    fresh = start.Readiness()
    monkeypatch.setattr(start, "state", fresh)
    monkeypatch.setattr(first_batches, "_start", first_batches.Start())
    monkeypatch.setattr(kernel_folder.KeptMark, "exists", lambda _self: True)
    monkeypatch.delenv("PIPEFLOW_START")
    monkeypatch.delitem(sys.modules, "pipeflow.kernels.cpu.jit")
    return fresh


@pytest.fixture
def state(monkeypatch):
    """A process that has just begun; it finds the kernels on the disk."""
    return begun(monkeypatch)


def stock(function):
    """The form in NumPy."""
    return function.__wrapped__


def pixels(rng, shape, dtype):
    return rng.integers(0, 256, shape, np.uint8) if dtype == UINT8 else rng.normal(100, 200, shape).astype(dtype)


def same(result, expected):
    return result.dtype == expected.dtype and result.shape == expected.shape and result.tobytes() == expected.tobytes()


@pytest.mark.parametrize("kind", [everyday.NEAREST, everyday.LINEAR, everyday.CUBIC, everyday.TRIANGULAR])
def test_tables_of_taps_are_equal(kind):
    """Windows inside, across and outside of the image, enlarged, reduced, reversed, and parts of the grid."""
    rng = np.random.default_rng(kind)
    for _ in range(200):
        size, full = int(rng.integers(1, 60)), int(rng.integers(1, 60))
        low, high = rng.uniform(-20, 80, 2) if rng.integers(2) else (0.0, float(size))
        first = int(rng.integers(full))
        count = int(rng.integers(1, full - first + 1)) if rng.integers(2) else -1
        first = first if count > 0 else 0
        arguments = (size, low, high, full, kind, bool(rng.integers(2)), first, count, bool(rng.integers(2)))
        for result, expected in zip(stock(everyday.axis_taps)(*arguments), resample.axis_taps(*arguments), strict=True):
            assert same(result, expected), arguments


def test_filters_with_other_functions_are_compiled():
    """Sines and exponentials of NumPy round differently."""
    for kind in (everyday.LANCZOS3, everyday.GAUSSIAN):
        assert stock(everyday.axis_taps)(10, 0.0, 10.0, 5, kind, True) is None


def tables(rng, height, width, rows, columns, kind=everyday.TRIANGULAR):
    def window(size):
        low, high = np.sort(rng.uniform(0, size, 2))
        return low, high + 1

    return [
        resample.axis_taps(size, *window(size), full, kind, True, 0, full, bool(rng.integers(2)))
        for size, full in ((height, rows), (width, columns))
    ]


@pytest.mark.parametrize(
    ("source", "target"), [(UINT8, UINT8), (UINT8, FLOAT), (FLOAT, FLOAT), (np.int32, np.int32)], ids=str
)
def test_resampled_images_are_equal(source, target):
    """One to five channels, sequences too; types without a form in NumPy are left to the kernels."""
    rng = np.random.default_rng(1)
    for channels in (1, 2, 3, 4, 5):
        for kind in (everyday.TRIANGULAR, everyday.CUBIC, everyday.NEAREST):
            height, width, rows, columns = map(int, rng.integers(1, 50, 4))
            image = pixels(rng, (2, height, width, channels), source)
            taps = tables(rng, height, width, rows, columns, kind)
            outs = [np.zeros((2, rows, columns, channels), target) for _ in range(2)]
            expected = resample.resample_any(image, 1, taps, outs[0])
            result = stock(everyday.resample_any)(image, 1, taps, outs[1])
            supported = kind == everyday.NEAREST and source == target
            supported |= source in (UINT8, FLOAT) and not (channels == 1 and source == FLOAT)
            assert (result is not None) == supported
            assert result is None or same(result, expected), (channels, kind)


@pytest.mark.parametrize("target", [FLOAT, HALF, UINT8, INT8], ids=str)
@pytest.mark.parametrize("source", [UINT8, FLOAT], ids=str)
@pytest.mark.parametrize("planes", [True, False])
def test_normalised_images_are_equal(source, target, planes):
    """Resampled or cropped, mirrored, in planes or not, rounded before or not."""
    rng = np.random.default_rng(2)
    for _ in range(12):
        height, width, rows, columns = map(int, rng.integers(1, 50, 4))
        image = pixels(rng, (height, width, 3), source)
        mean, scale = rng.normal(100, 30, 3).astype(FLOAT), rng.normal(0, 0.7, 3).astype(FLOAT)
        shift = float(rng.choice([0.0, 0.3]))
        taps = tables(rng, height, width, rows, columns)
        outs = [np.zeros((3, rows, columns) if planes else (rows, columns, 3), target) for _ in range(2)]
        common = image, *taps, mean, scale, shift, bool(rng.integers(2))
        fused.resample_normalize(*common, outs[0], planes)
        assert same(stock(everyday.resample_normalize)(*common, outs[1], planes), outs[0])

        top, left = int(rng.integers(height)), int(rng.integers(width))
        extents = int(rng.integers(1, height - top + 1)), int(rng.integers(1, width - left + 1))
        first = bool(rng.integers(2))
        given = np.ascontiguousarray(image.transpose(2, 0, 1)) if first else image
        outs = [np.zeros((3, *extents) if planes else (*extents, 3), target) for _ in range(2)]
        common = given, first, top, left, bool(rng.integers(2)), mean, scale, shift
        normalize.normalize_window(*common, outs[0], planes)
        assert same(stock(everyday.normalize_window)(*common, outs[1], planes), outs[0])


def test_mirrored_images_are_equal():
    rng = np.random.default_rng(3)
    for dtype in (UINT8, FLOAT, np.int64):
        for pixel in (1, 2, 3, 4):
            for turns in ((True, True), (False, True), (True, False)):
                image = pixels(rng, (7, 23 * pixel), dtype)
                outs = np.zeros_like(image), np.zeros_like(image)
                normalize.mirror_image(image, pixel, *turns, outs[0])
                assert same(stock(everyday.mirror_image)(image, pixel, *turns, outs[1]), outs[0])


SOURCE = [np.random.default_rng(i).integers(0, 256, (40 + i, 60 - i, 3), np.uint8) for i in range(4)]


@pipeline_def(batch_size=4, num_threads=2, seed=5, prefetch_queue_depth=1)
def pictures():
    images = fn.external_source(source=lambda: SOURCE, layout="HWC", dtype=types.UINT8, ndim=3)
    crop = fn.random_resized_crop(images, size=(24, 20))
    normal = fn.crop_mirror_normalize(crop, mirror=fn.random.coin_flip(), mean=[9.0, 8.0, 7.0], std=[50.0])
    return normal, fn.flip(fn.resize(images, size=(31, 17)))


def batches(count, between=lambda _number: None):
    pipe = pictures()
    pipe.build()
    made = []
    for number in range(count):
        made.append([np.array(sample) for output in pipe.run() for sample in output])
        between(number)
    return made


def assert_equal(first, second):
    for one, other in zip(first, second, strict=True):
        assert all(same(a, b) for a, b in zip(one, other, strict=True))


def loaded(_number=0):
    """Waits for the thread that loads."""
    thread = first_batches._start.loading
    if thread is not None:
        thread.join()


def test_the_change_in_the_middle_of_an_epoch_shows_nowhere(state, monkeypatch, caplog):
    """The first two batches use NumPy; the kernels are loaded after them, and a line says so."""
    caplog.set_level(logging.INFO)
    used = []  # for each sample that a kernel or a compiled chain computes, True if it is a trial
    compiled, run = fused.resample_normalize, program.Program.run
    monkeypatch.setattr(fused, "resample_normalize", lambda *given: used.append(state.in_trial) or compiled(*given))

    def counted(self, batch, samples, *rest):
        used.extend([False] * len(samples))
        return run(self, batch, samples, *rest)

    monkeypatch.setattr(program.Program, "run", counted)
    seen = []

    def between(number):
        loaded()
        seen.append((state.starting, used.count(False)))

    begun = batches(5, between)
    assert [starting for starting, _ in seen] == [True, False, False, False, False]
    assert seen[0][1] == 0
    assert seen[-1][1] >= 8
    assert "processed by compiled kernels from now on" in caplog.text
    assert not state.refused
    monkeypatch.setenv("PIPEFLOW_START", "wait")
    assert_equal(begun, batches(5))


@pytest.mark.parametrize(
    ("place", "error"),
    [("elsewhere", OSError(errno.EMFILE, "Too many open files")), ("Thread", RuntimeError("can't start new thread"))],
)
def test_no_batch_is_lost_where_nothing_can_be_started(state, monkeypatch, place, error):
    """A full table of files or threads is no fault of the batch; loading begins with a later one."""
    failures = [error, error]

    def failing(start):
        def begin(*given):
            if failures:
                raise failures.pop()
            return start(*given)

        return begin

    if place == "elsewhere":
        monkeypatch.setattr(kernel_folder.KeptMark, "exists", lambda _self: False)
        monkeypatch.setattr(
            kernels.elsewhere, "begin", failing(lambda *_: subprocess.Popen([sys.executable, "-c", ""]))
        )
    else:
        monkeypatch.setattr(threading.Thread, "start", failing(threading.Thread.start))

    def between(_number):
        if first_batches._start.compiling is not None:
            first_batches._start.compiling.wait()
        loaded()

    begun = batches(6, between)
    assert not failures
    assert not state.starting
    monkeypatch.setenv("PIPEFLOW_START", "wait")
    assert_equal(begun, batches(6))


def test_decoding_alone_needs_no_other_process(state, monkeypatch):
    """It has no kernels but those of the decoder, which has a switch of its own."""
    monkeypatch.setattr(kernel_folder.KeptMark, "exists", lambda _self: False)
    monkeypatch.setattr(kernels.elsewhere, "begin", lambda *_: pytest.fail("a process was started"))
    file = np.frombuffer(encoded(photograph(20, 30), "4:2:0"), np.uint8)

    @pipeline_def(batch_size=1, num_threads=1, prefetch_queue_depth=1)
    def decoded():
        return fn.decoders.image(fn.external_source(source=lambda: [file]))

    pipe = decoded()
    pipe.build()
    for expected in (True, False, False):
        pipe.run()
        loaded()
        assert state.starting == expected


def test_a_second_pipeline_finds_the_kernels_ready(state):
    batches(3, loaded)
    assert not state.starting
    batches(1)
    assert not state.starting


def test_a_kernel_that_differs_is_not_used(state, monkeypatch, caplog):
    """NumPy is kept for it, and only for it."""
    monkeypatch.setattr(first_batches, "begin", lambda _trials: False)
    expected = batches(4)
    monkeypatch.undo()
    fresh = begun(monkeypatch)
    compiled = fused.resample_normalize

    def wrong(*arguments):
        compiled(*arguments)
        arguments[7].reshape(-1)[-1] += 1
        return arguments[7]

    monkeypatch.setattr(fused, "resample_normalize", wrong)
    assert_equal(batches(4, loaded), expected)
    assert {key[1] for key in fresh.refused} == {"resample_normalize"}
    assert caplog.text.count("fused.resample_normalize stays with NumPy") == 1


class FakeProcess:
    """A process that compiles until it gets a code."""

    def __init__(self):
        self.returncode = None

    def poll(self):
        return self.returncode


@pytest.mark.parametrize("code", [0, 1])
def test_no_batch_waits_for_the_compiler(state, monkeypatch, caplog, code):
    """One process compiles from the first batch on. If it fails, a line says so, and this process compiles."""
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(kernel_folder.KeptMark, "exists", lambda _self: False)
    monkeypatch.setattr(kernel_folder.KeptMark, "possible", lambda _self: True)
    started = []
    monkeypatch.setattr(kernels.elsewhere, "begin", lambda *_: started.append(FakeProcess()) or started[-1])

    def between(number):
        assert len(started) == 1
        if number == 3:
            assert state.starting
            started[0].returncode = code
        loaded()

    batches(6, between)
    assert not state.starting
    assert ("ended with code 1" in caplog.text) == bool(code)


def test_the_other_process_keeps_the_kernels(state, monkeypatch):
    """It gets the steps of the plan, compiles their kernels, and leaves the mark."""
    monkeypatch.undo()
    monkeypatch.setenv("PIPEFLOW_START", "wait")
    pipe = pictures()
    pipe.build()
    trials = [
        warmup.trial_of(pipe.plan, step)
        for stage in pipe.plan.stages
        if stage.kind == "sample"
        for step in stage.steps
        if warmup.has_kernels(step)
    ]
    assert trials
    mark = kernel_folder.KeptMark(first_batches._data(trials))
    mark._path.unlink(missing_ok=True)
    process = kernels.elsewhere.begin(first_batches._PROGRAM, first_batches._data(trials))
    assert process.wait(150) == 0
    process.stdin.close()
    assert mark.exists()


def test_a_folder_that_cannot_be_written_leaves_no_mark(state, monkeypatch):
    """The pipeline then loads or compiles its kernels before its first batch, as there is nothing to wait for."""
    monkeypatch.setattr(kernel_folder.KeptMark, "exists", lambda _self: False)
    monkeypatch.setattr(kernel_folder.KeptMark, "possible", lambda _self: False)
    pictures().build()
    assert not state.starting
    mark = kernel_folder.KeptMark(b"")
    mark._path = Path(os.devnull) / "mark"
    mark.write()
    assert not mark._path.exists()


def test_a_forked_child_loads_for_itself(state):
    """The thread and the process belong to the parent."""
    pictures().build()
    assert state.starting
    assert first_batches._start.waiting
    start._forget()
    first_batches._forget()
    assert not state.starting
    assert not first_batches._start.waiting


PROGRAM = """
import sys
import numpy as np
import simplejpeg
from pipeflow import fn, pipeline_def
data = np.frombuffer(simplejpeg.encode_jpeg(np.zeros((40, 50, 3), np.uint8)), np.uint8)

@pipeline_def(batch_size=2, num_threads=2, device_id=None)
def pipe():
    files = fn.external_source(source=lambda: [data] * 2)
    images = fn.resize(fn.decoders.image_random_crop(files), size=(20, 30))
    return fn.crop_mirror_normalize(images, mirror=fn.random.coin_flip())

p = pipe()
p.build()
p.run()
print("numba" in sys.modules, "cv2" in sys.modules)
"""


def test_the_first_batch_loads_no_compiler():
    """A program that ends after its first batch has neither loaded nor compiled a kernel."""
    environment = {name: value for name, value in os.environ.items() if name not in ("PIPEFLOW_START", "PIPEFLOW_JPEG")}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, timeout=LONG
    )
    assert done.stdout.split() == ["False", "False"], done.stderr
