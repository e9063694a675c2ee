"""If the caller makes a batch, compiled code reads the array of a source where it is. Results are those of a copy, whatever the
source does with its array later.
"""

import numpy as np
import pytest

from pipeflow import fn, pipeline_def
from pipeflow.executor import batch as batches
from pipeflow.executor.runners import chain, source

pytestmark = pytest.mark.usefixtures("loaded_code")
RNG = np.random.default_rng(4)
ARRAYS = [RNG.integers(0, 256, (4, 80, 100 + 10 * (number % 2), 3), np.uint8) for number in range(5)]
CALLED = {"exec_pipelined": False, "exec_async": False}


@pytest.fixture
def copies(monkeypatch):
    """The shapes of the arrays that were copied."""
    found = []

    def counted(values, memory):
        found.append(values.shape)
        return original(values, memory)

    original = batches.copied
    monkeypatch.setattr(batches, "copied", counted)
    monkeypatch.setattr(source, "copied", counted)
    return found


def refilled(arrays):
    """Gives one buffer after another, and spoils the last one before."""
    given = np.empty(0, np.uint8)
    for array in arrays:
        given[...] = 7
        given = array.copy()
        yield given
    given[...] = 7


def of(body, arrays=ARRAYS, feeds=refilled, **settings):
    """The pipeline of this body for the arrays."""

    @pipeline_def(batch_size=4, num_threads=1, seed=3, device_id=None, **settings)
    def define():
        return body(fn.external_source(feeds(arrays), layout="HWC"))

    return define()


def mirrored(image):
    return fn.flip(image, horizontal=1)


def shifted_by(image):
    return fn.python_function(image, function=shifted, jit=True)


def shifted(x):
    x += np.uint8(3)
    return x


def a_part(image):
    return fn.python_function(image, function=lambda x: x[2:40, 10:], jit=True)


def normalized(image):
    return fn.crop_mirror_normalize(image, crop=(60, 60), mirror=fn.random.coin_flip(), mean=[90.0], std=[60.0])


def reshaped(image):
    return fn.reshape(image, shape=[-1])


BODIES = [mirrored, shifted_by, a_part, normalized, lambda image: mirrored(normalized(image)), reshaped]


def results(pipe, count=5):
    """The batches of a pipeline, which stay as they are while it runs."""
    found = [pipe.run()[0] for _ in range(count)]
    return [[(x.dtype, x.shape, x.tobytes()) for x in map(np.asarray, batch)] for batch in found]


@pytest.mark.parametrize("body", BODIES)
def test_results_are_those_of_threads(body):
    assert results(of(body, **CALLED)) == results(of(body))


@pytest.mark.parametrize("body", [mirrored, normalized])
def test_nothing_is_copied_once_the_chain_runs(body, copies):
    pipe = of(body, ARRAYS[:1] * (chain.PAUSE + 5), **CALLED)
    results(pipe, chain.PAUSE + 1)  # if a kernel had to be compiled first, the chain looks again after a pause
    copies.clear()
    results(pipe, 4)
    assert copies == []


def test_small_arrays_and_threads_copy(copies):
    small = [array[:, :8, :8].copy() for array in ARRAYS]
    results(of(mirrored, small, **CALLED))
    assert len(copies) == 5
    results(of(mirrored))
    assert len(copies) == 10


def test_arrays_that_compiled_code_cannot_read_are_copied(copies):
    backwards = [array[:, ::-1] for array in ARRAYS]
    assert results(of(mirrored, backwards, iter, **CALLED)) == results(of(mirrored, [x.copy() for x in backwards]))
    assert copies


@pytest.mark.parametrize(
    "body",
    [
        lambda image: (mirrored(image), image),
        lambda image: (mirrored(image), fn.python_function(image, function=lambda x: x.sum(axis=0))),
        lambda image: fn.python_function(mirrored(image), image, function=lambda x, y: x - y),
    ],
)
def test_an_array_that_is_read_elsewhere_is_copied(body, copies):
    assert results(of(body, **CALLED)) == results(of(body))
    assert len(copies) >= 10


def test_a_source_may_change_the_array_of_another():
    def one(shared):
        shared[...] = 1
        return shared

    def other(shared):
        shared[...] = 2
        return shared

    @pipeline_def(batch_size=4, num_threads=1, device_id=None, **CALLED)
    def define():
        shared = ARRAYS[0].copy()
        return mirrored(fn.external_source(lambda: one(shared))), fn.external_source(lambda: other(shared))

    pipe = define()
    for _ in range(4):
        first, second = pipe.run()
        assert (first.as_array() == 1).all()
        assert (second.as_array() == 2).all()


def picky(x):
    if x[0, 0, 0] == 200:
        raise ValueError("two hundred")
    return x[1:, :, :] - x[:-1, :, :]


@pytest.mark.parametrize("on_error", ["raise", "skip", "replace"])
def test_errors_are_those_of_threads(on_error):
    arrays = [array.copy() for array in ARRAYS]
    for array in arrays:
        array[:, 0, 0, 0] = 5
    arrays[3][2, 0, 0, 0] = 200

    def outcome(**settings):
        pipe = of(
            lambda image: fn.python_function(image, function=picky, jit=True), arrays, on_error=on_error, **settings
        )
        found = results(pipe, 3)
        try:
            return found + results(pipe, 2)
        except ValueError as error:
            return [*found, str(error), error.__notes__[:1]]

    assert outcome(**CALLED) == outcome()


def test_a_function_that_is_called_from_python_gets_a_copy():
    shared = ARRAYS[0].copy()
    shared[:, 0, 0, 0], shared[2, 0, 0, 0] = 5, 200

    def spoils(x):
        x += np.uint8(1)
        if x[0, 0, 0] == 201:
            raise ValueError("two hundred and one")
        return x

    pipe = of(lambda image: fn.python_function(image, function=spoils, jit=True), [shared] * 3, iter, **CALLED)
    before = shared.copy()
    with pytest.raises(ValueError, match="two hundred and one"):
        pipe.run()
    assert (shared == before).all()


def test_a_batch_that_is_interrupted_is_made_of_what_the_source_gave(monkeypatch):
    wanted = results(of(mirrored))
    given = []

    def kept(arrays):
        for array in arrays:
            given.append(array.copy())
            yield given[-1]

    pipe = of(mirrored, feeds=kept, **CALLED)
    found = results(pipe, 2)

    def interrupted(*args):
        monkeypatch.undo()
        raise KeyboardInterrupt

    monkeypatch.setattr(chain.Chain, "run", interrupted)
    with pytest.raises(KeyboardInterrupt):
        pipe.run()
    given[-1][...] = 9
    assert len(given) == 3
    assert found + results(pipe, 3) == wanted


def test_the_debug_mode_is_the_same():
    assert results(of(normalized, debug=True)) == results(of(normalized, **CALLED))
