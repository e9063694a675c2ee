"""python_function with jit=True and jit="auto" in chains: the results and errors are those of calls from Python."""

import functools
import gc

import numba
import numpy as np
import pytest
from numba.core.runtime import _nrt_python, rtsys

from pipeflow import Spec, fn, pipeline_def, types
from pipeflow.executor.runners import chain
from pipeflow.kernels import cpu, decisions
from pipeflow.kernels.cpu import user_calls

pytestmark = pytest.mark.usefixtures("loaded_code")
RNG = np.random.default_rng(3)
SAMPLES = [RNG.integers(0, 255, (20 - part, 30, 3), np.uint8) for part in (0, 1, 1, 0)]
BATCHES = 4
trials = cpu.tried_functions


@pytest.fixture
def no_array_is_left():
    """All memory that Numba's runtime allocates in the test is free at its end."""
    gc.collect()
    _nrt_python.memsys_enable_stats()
    before = rtsys.get_allocation_stats()
    yield
    gc.collect()
    after = rtsys.get_allocation_stats()
    _nrt_python.memsys_disable_stats()
    assert after.mi_alloc > before.mi_alloc
    # Threads of earlier tests may still free arrays.
    assert after.mi_alloc - before.mi_alloc <= after.mi_free - before.mi_free
    assert after.alloc - before.alloc <= after.free - before.free


def in_loops(x):
    result = np.empty(x.shape, np.uint8)
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            for c in range(x.shape[2]):
                result[i, j, c] = 255 - x[i, j, c]
    return result


def rows_backwards(x):
    return x[::-1, :, 0]


def columns_backwards(x):
    return x[:, ::-1]


def turned(x):
    return x.T


def turned_floats(x):
    return np.transpose(x.astype(np.float64), (2, 0, 1))


def same(x):
    return x


def part_of_a_result(x):
    return (x * np.int16(3))[2:, 1:-1, 1:]


def every_second(x):
    return x[1::2, ::3].astype(np.float32)


def smaller_each_time(x):
    return x[: x[0, 0, 0] % 7, : x[0, 0, 1]]


def one_pixel(x):
    return x[3, 4]


def mean(x):
    return x.mean()


def total(x):
    return x.sum()


def huge(x):
    return np.uint64(2**64 - 1) if x.shape[0] == 19 else np.uint64(7)


def is_high(x):
    return x.shape[0] > 19


def single(x):
    return np.float32(x[0, 0, 0]) / np.float32(7)


def a_small_integer(x):
    return x[0, 0, 0]


def negative(x):
    return np.int16(-x.shape[0])


def without_elements(x):
    return x[:0]


def window(x):
    return x[2:-2, 4:20]


def every_second_pixel(x):
    return x[::2, ::-2]


def several_temporaries(x):
    a = x.astype(np.float32)
    b = a * 2 - a.mean()
    return np.clip(b, 0, 255).astype(np.uint8)


def larger(x):
    result = np.zeros((x.shape[0] * 3, x.shape[1], 3), np.int64)
    result[: x.shape[0]] = x
    return result


def in_place(x):
    x[0] = 7
    x[:, 0] = x[:, 1]
    return x


def in_place_by_another_name(x):
    y = x[::2]
    y[:] = 0
    return x[1:]


def in_a_tuple(x):
    return (x + x,)


def with_default(x, factor=3):
    return x * factor


ONE = [
    in_loops,
    rows_backwards,
    columns_backwards,
    turned,
    turned_floats,
    same,
    part_of_a_result,
    every_second,
    smaller_each_time,
    one_pixel,
    mean,
    total,
    is_high,
    single,
    a_small_integer,
    negative,
    without_elements,
    window,
    every_second_pixel,
    several_temporaries,
    larger,
    in_place,
    in_place_by_another_name,
    in_a_tuple,
    with_default,
    numba.njit(nogil=True)(in_loops),
]


def collected(definition, monkeypatch, chained, threads, batch_size=4):
    """The outputs of some batches or the error, and the number of samples of the last batch that a chain has done."""
    done, run, able = [], chain.Chain.run, chain._able

    def counted(self, batch, rows, *rest):
        samples = run(self, batch, rows, *rest)
        done.extend(samples if batch.index == BATCHES - 1 else ())
        return samples

    with monkeypatch.context() as patch:
        patch.setattr(chain.Chain, "run", counted)
        patch.setattr(chain, "_able", lambda step: chained and able(step))
        options = {"num_threads": threads, "device_id": None, "seed": 5, "enable_conditionals": True}
        pipe = pipeline_def(batch_size=batch_size, **options)(definition)()
        pipe.build()
        results = []
        try:
            for _ in range(BATCHES):
                outputs = pipe.run()
                results.append([[(x.tobytes(), x.dtype, x.shape) for x in map(np.asarray, one)] for one in outputs])
        except Exception as error:
            results.append((type(error), str(error), error.__notes__))
    return results, len(done)


def both(definition, monkeypatch, threads=1):
    """The number of samples of the last batch that chains have done; all results are those of calls from Python."""
    found, done = collected(definition, monkeypatch, True, threads)
    expected, none = collected(definition, monkeypatch, False, threads)
    assert found == expected
    assert none == 0
    return done


def images():
    return fn.external_source(lambda: [x.copy() for x in SAMPLES], layout="HWC")


@pytest.mark.parametrize("jit", [True, "auto"])
def test_functions_of_a_pipeline_in_the_thread_of_the_caller_join(jit, monkeypatch, tmp_path):
    """Also there compiled code calls them, and Python does nothing for a sample."""
    monkeypatch.setattr(trials, "folder_for", lambda name: tmp_path)
    monkeypatch.setattr(trials, "CHECKED", 2)
    monkeypatch.setattr(trials, "FROM_PYTHON", 1.0)
    monkeypatch.setattr(chain, "PAUSE", 1)
    batch = RNG.integers(0, 255, (4, 20, 30, 3), np.uint8)
    done = []

    @pipeline_def(batch_size=4, num_threads=1, device_id=None, exec_async=False, exec_pipelined=False)
    def pipeline():
        return fn.python_function(fn.external_source(lambda: batch), function=every_second_row, jit=jit)

    pipe, run = pipeline(), chain.Chain.run
    pipe.build()
    monkeypatch.setattr(chain.Chain, "run", lambda *arguments: done.append(run(*arguments)) or done[-1])
    for _ in range(8):
        trials.wait_for_trials()
        (output,) = pipe.run()
        np.testing.assert_array_equal(output.as_array(), batch[:, ::2] + batch[:, ::2])
    assert len(done[-1]) == 4


def every_second_row(x):
    return x[::2] + x[::2]


def doubled_in_place(x):
    y = x.copy()
    y *= 2
    return y


def raised_in_place(x):
    y = x.copy()
    y += 1.5
    return y


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (doubled_in_place, "x *= y with uint8 and int64 would change the type of the array: write x[:] = x * y"),
        (raised_in_place, "x += y with uint8 and float64 would change the type of the array: write x[:] = x + y"),
    ],
)
def test_a_change_in_place_that_numba_cannot_do(function, text):
    """Numba fails with an error of its own code; ours names the line and what to write."""
    with pytest.raises(TypeError) as caught:
        fn.python_function(np.ones((2, 3), np.uint8), function=function, jit=True)
    line = function.__code__.co_firstlineno + 2
    assert str(caught.value) == f"{function.__name__} cannot be compiled by Numba, at {__file__}:{line}: {text}"


@pytest.mark.parametrize("function", ONE, ids=lambda function: function.__name__)
@pytest.mark.parametrize("threads", [1, 2])
def test_one_result(function, threads, monkeypatch):
    """Alone, after a compiled step and before one."""

    def alone():
        return fn.python_function(images(), function=function, jit=True)

    def after():
        return fn.python_function(fn.flip(images(), vertical=1), function=function, jit=True)

    def before_another():
        return fn.cast(fn.python_function(fn.flip(images()), function=function, jit=True), dtype=types.FLOAT64)

    definitions = [alone, after, *([] if function.__name__.startswith("in_place") else [before_another])]
    counts = [both(definition, monkeypatch, threads) for definition in definitions]
    least = len(SAMPLES) if threads == 1 else 1  # of the other thread the last batch may be the first with a program
    assert min(counts) >= least


def noisy(x, rng):
    return x + rng.normal(0, 3, x.shape)


def flipped_by_chance(x, rng):
    return x[::-1] if rng.random() < 0.5 else x[::1]


def integers(x, rng):
    return np.array([rng.integers(0, 5), rng.integers(0, 256), rng.integers(-1, 1 << 40)])


def halves_of_words(x, rng):  # of three numbers of 4 bytes the generator keeps the half of a word
    return rng.random(3, dtype=np.float32)


def order(x, rng):
    return x[rng.permutation(x.shape[0])]


def after_a_default(x, factor=2, rng=None):
    y = rng.uniform(0, factor, x.shape)
    return y * x, rng.standard_normal(), rng.exponential(), rng.poisson(3.0), rng.gamma(2.0), rng.beta(2.0, 3.0)


def noise_in_place(x, rng):
    x[0] = rng.integers(0, 200)
    return x


DRAWS = [(noisy, 1), (flipped_by_chance, 1), (integers, 1), (halves_of_words, 1), (order, 1), (after_a_default, 6)]


@pytest.mark.parametrize(("function", "count"), [*DRAWS, (noise_in_place, 1)])
@pytest.mark.parametrize("threads", [1, 2])
def test_random_numbers(function, count, threads, monkeypatch):
    """A function with a generator draws the numbers that it draws when Python calls it, also a second function next to it."""

    def definition():
        made = fn.python_function(fn.flip(images()), function=function, num_outputs=count, jit=True)
        made = made if count > 1 else [made]
        return *made, fn.python_function(fn.flip(images()), function=noisy, jit=True)

    assert both(definition, monkeypatch, threads) >= (len(SAMPLES) if threads == 1 else 1)


def test_random_numbers_in_a_branch(monkeypatch):
    """The numbers of a sample do not depend on the samples that take the branch."""
    flags = [np.array(x.shape[0] == 20) for x in SAMPLES]

    def definition():
        data = fn.flip(images())
        if fn.external_source(lambda: flags):
            made = fn.python_function(data, function=noisy, jit=True)
        else:
            made = fn.python_function(data, function=noisy_floats, jit=True)
        return made, fn.flip(made)

    assert both(definition, monkeypatch) >= len(SAMPLES)


def noisy_floats(x, rng):
    return x * rng.random(x.shape)


def test_a_generator_of_an_unknown_form_is_left_to_python(monkeypatch):
    """If NumPy keeps the state in another order, no program sets it."""
    monkeypatch.setattr(cpu.function_numbers, "known", lambda: False)

    def definition():
        return fn.python_function(fn.flip(images()), function=with_rng, jit=True)

    calls = []
    monkeypatch.setattr(user_calls.NativeFunction, "entry", lambda *_: calls.append(1))
    both(definition, monkeypatch)
    assert not calls


def with_rng(x, rng):
    return x + np.uint8(rng.random() * 9)


def test_tried_functions_draw_the_same_numbers(monkeypatch, tmp_path):
    """With "auto" the numbers are those of the plain function."""
    monkeypatch.setattr(trials, "folder_for", lambda name: tmp_path)
    monkeypatch.setattr(trials, "CHECKED", 2)
    monkeypatch.setattr(trials, "FROM_PYTHON", 1.0)
    monkeypatch.setattr(chain, "PAUSE", 1)
    done = []

    def pipeline(jit):
        @pipeline_def(batch_size=4, num_threads=1, device_id=None, exec_async=False, exec_pipelined=False, seed=3)
        def definition():
            return fn.python_function(fn.flip(images()), function=brighter_by_chance, jit=jit)

        pipe = definition()
        pipe.build()
        return pipe

    compiled, plain, run = pipeline("auto"), pipeline(False), chain.Chain.run
    monkeypatch.setattr(chain.Chain, "run", lambda *arguments: done.append(run(*arguments)) or done[-1])
    for _ in range(12):
        trials.wait_for_trials()
        (output,) = compiled.run()
        taken = len(done[-1])
        for one, other in zip(output, plain.run()[0], strict=True):
            assert np.asarray(one).tobytes() == np.asarray(other).tobytes()
    assert taken == 4


def brighter_by_chance(x, rng):
    return x + rng.random()


def numbers(x):
    return x.sum(), np.float32(x[0, 0, 0]), len(x), x.any()


def test_numbers_of_numpy_from_tried_functions(monkeypatch, tmp_path):
    """They keep their types, uint64 and float32 too, which Numba returns to Python as an int and a float."""
    monkeypatch.setattr(trials, "folder_for", lambda name: tmp_path)
    monkeypatch.setattr(trials, "CHECKED", 2)
    monkeypatch.setattr(trials, "FROM_PYTHON", 1.0)
    monkeypatch.setattr(chain, "PAUSE", 1)
    done = []

    @pipeline_def(batch_size=4, num_threads=1, device_id=None, exec_async=False, exec_pipelined=False)
    def pipeline():
        return tuple(fn.python_function(fn.flip(images()), function=numbers, num_outputs=4, jit="auto"))

    pipe, run = pipeline(), chain.Chain.run
    pipe.build()
    monkeypatch.setattr(chain.Chain, "run", lambda *arguments: done.append(run(*arguments)) or done[-1])
    for _ in range(12):
        trials.wait_for_trials()
        outputs = pipe.run()
        for place, x in enumerate(SAMPLES):
            for output, number in zip(outputs, numbers(x[:, ::-1])):
                found = np.asarray(output.at(place))
                assert (found.dtype, found) == (np.asarray(number).dtype, number)
    assert len(done[-1]) == len(SAMPLES)


def test_integers_that_are_too_large_for_most(monkeypatch):
    """Some of them are larger than an int64 can be: all have the type of the sum, uint64."""

    def definition():
        return fn.python_function(images(), function=huge, jit=True)

    assert both(definition, monkeypatch) == len(SAMPLES)


@pytest.mark.usefixtures("no_array_is_left")
@pytest.mark.parametrize("function", [in_loops, turned, several_temporaries, smaller_each_time, in_place, in_a_tuple])
def test_the_memory_of_results_is_freed(function, monkeypatch):
    """Also if results are copied from inside of larger ones, or are the input."""

    def definition():
        return fn.python_function(fn.flip(images()), function=function, jit=True)

    assert collected(definition, monkeypatch, True, 1)[1] == len(SAMPLES)


def two(x, y):
    return y[0], x.T, x[0, 0, 0] > 3, np.float64(y.shape[1])


def from_two(x, y):
    height = min(x.shape[0], y.shape[0])
    return x[:height] + y[:height].astype(np.float32)


@pytest.mark.parametrize("used", [(0, 1, 2, 3), (3, 1), (2,), (0,)])
def test_several_inputs_and_results(used, monkeypatch):
    """Some results are read by other steps, some are outputs, some are not used."""

    def definition():
        data = images()
        made = fn.python_function(
            fn.flip(data), fn.cast(data, dtype=types.FLOAT), function=two, num_outputs=4, jit=True
        )
        joined = fn.python_function(made[1], fn.cast(made[1], dtype=types.FLOAT), function=from_two, jit=True)
        return (*[made[number] for number in used], fn.cast(joined, dtype=types.INT32))

    assert both(definition, monkeypatch) == len(SAMPLES)


@pytest.mark.parametrize(
    "outputs",
    [
        Spec(np.uint8, (None, None, 3), "HWC"),
        Spec(np.uint8),
        Spec(None, (None, None, None)),
        Spec(np.float32, (None, 30, 3)),
        Spec(np.uint8, (20, 30, 3)),
        Spec(np.uint8, None, "HW"),
        {"image": Spec(np.uint8, (None, 30, 3), "HWC")},
    ],
)
def test_declared_results(outputs, monkeypatch):
    """Results that are as declared, and others, which are an error."""

    def definition():
        made = fn.python_function(images(), function=in_loops, jit=True, outputs=outputs)
        return made["image"] if isinstance(outputs, dict) else made

    both(definition, monkeypatch)


def test_dense_results(monkeypatch):
    """Memory of the batch, for results whose shapes are declared."""

    def definition():
        data = fn.crop(images(), crop=(10, 12))
        spec = Spec(np.uint8, (10, 12, 3), "HWC")
        made = fn.python_function(data, function=in_loops, jit=True, outputs=spec)
        return made, fn.python_function(made, function=mean, jit=True, outputs=Spec(np.float64, ()))

    assert both(definition, monkeypatch) == len(SAMPLES)


def test_a_number_of_another_type_is_converted_by_python(monkeypatch):
    """Compiled code returns float64, and Python makes the declared float32 of it."""

    def definition():
        return fn.python_function(images(), function=mean, jit=True, outputs=Spec(np.float32, ()))

    assert both(definition, monkeypatch) == 0


def test_a_declared_shape_that_some_samples_do_not_have(monkeypatch):
    def definition():
        spec = Spec(np.uint8, (20, 30, 3))
        return fn.python_function(images(), function=in_loops, jit=True, outputs=spec, on_error="skip")

    found, done = collected(definition, monkeypatch, True, 1)
    expected, _ = collected(definition, monkeypatch, False, 1)
    assert found == expected
    assert done


def odd(x):
    if x.shape[0] == 19:
        raise ValueError("odd", x.shape[0], x.shape[1])
    return x + x


def bad_shape(x):
    return x.reshape(5, 120, 3)


@pytest.mark.parametrize("function", [odd, bad_shape])
@pytest.mark.parametrize("rule", ["raise", "skip", "replace"])
def test_errors(function, rule, monkeypatch):
    """A sample that fails is processed again by Python: the error, its notes and the rule are the same."""

    def definition():
        data = fn.flip(images())
        return fn.python_function(data, function=function, jit=True, on_error=rule), data

    both(definition, monkeypatch)


def test_an_input_that_others_read_is_not_changed(monkeypatch):
    """The function cannot be compiled for it, with the same error."""

    def definition():
        data = fn.flip(images())
        return fn.python_function(data, function=in_place, jit=True), data

    found, _ = collected(definition, monkeypatch, True, 1)
    assert "it writes to an input that is read-only" in found[0][1]
    both(definition, monkeypatch)


def half(x, factor):
    return x * factor


def printed(x):
    with numba.objmode(y="uint8[:,:,:]"):
        y = x.copy()
    return y


def with_nested_results(x):
    return (x, x), x


@pytest.mark.parametrize(
    ("function", "count"),
    [
        (functools.partial(half, factor=0.5), 1),
        (printed, 1),
        (with_nested_results, 2),
        (numba.njit(in_loops), 1),
        (numba.njit(nogil=True, parallel=True)(in_loops), 1),
    ],
)
def test_functions_that_only_python_calls(function, count, monkeypatch):
    """Those that use objects of Python, hold the interpreter, or return other things than arrays and numbers."""

    def definition():
        made = fn.python_function(fn.flip(images()), function=function, num_outputs=count, jit=True)
        return made[0] if count > 1 else made

    calls = []
    monkeypatch.setattr(user_calls.NativeFunction, "entry", lambda *_: calls.append(1))
    both(definition, monkeypatch)
    assert not calls


def test_in_a_branch(monkeypatch):
    """Samples that do not take the branch are not passed to the function, which would fail for them."""
    flags = [np.array(x.shape[0] == 20) for x in SAMPLES]

    def definition():
        data = fn.flip(images())
        if fn.external_source(lambda: flags):
            made = fn.python_function(data, function=odd, jit=True)
        else:
            made = fn.brightness(data, brightness_shift=0.1)
        return made, fn.flip(made)

    assert both(definition, monkeypatch) >= len(SAMPLES)


def with_many(x):
    return np.full((int(x[0, 0, 0]) * 400, 500), x[0, 0, 1], np.int64)


def test_results_that_need_more_memory(monkeypatch):
    """Results of very unequal sizes: memory for them is taken again, and the function runs again."""
    sizes = [np.full((4, 4, 3), number, np.uint8) for number in (0, 1, 9, 2, 0, 3, 12, 1)]

    def definition():
        data = fn.flip(fn.external_source(lambda: sizes, layout="HWC"))
        made = fn.python_function(data, function=with_many, jit=True)
        return made, fn.python_function(made, function=rows_of_two, jit=True)

    found, done = collected(definition, monkeypatch, True, 1, len(sizes))
    assert found == collected(definition, monkeypatch, False, 1, len(sizes))[0]
    assert done == len(sizes)


def rows_of_two(x):
    return x[::-2]


@pytest.mark.parametrize("kept", [2, 16])
def test_batches_in_other_memory_and_of_other_shapes(kept, monkeypatch):
    """A batch that is one array is found at its own address, also if the numbers of others are kept."""
    monkeypatch.setattr(chain, "BATCHES", kept)
    given = [RNG.integers(0, 255, (4, 5 + part % 3, 6 + part % 2, 3), np.uint8) for part in range(12)]
    done, run = [], chain.Chain.run

    def counted(self, *rest):
        samples = run(self, *rest)
        done.append(len(samples))
        return samples

    monkeypatch.setattr(chain.Chain, "run", counted)

    @pipeline_def(batch_size=4, num_threads=1, device_id=None)
    def pipeline():
        images = fn.external_source(iter(given * 3), no_copy=True)
        return fn.python_function(images, function=in_loops, jit=True), fn.python_function(
            images, images, function=both_of, jit=True
        )

    pipe = pipeline()
    pipe.build()
    for images in given * 3:
        one, two = pipe.run()
        assert np.array_equal(one.as_array(), 255 - images)
        assert np.array_equal(two.as_array(), images + images)
    assert done[-8:] == [4] * 8


def both_of(x, y):
    return x + y


# jit="auto"


def sum_of_three(x):
    return x[:, :, 0] + x[:, :, 1] + x[:, :, 2]


def test_auto_joins_after_the_comparisons(tmp_path, monkeypatch):
    """From then on a chain runs it, and leaves the samples that are compared again to Python."""
    monkeypatch.setattr(trials, "folder_for", lambda name: tmp_path)
    monkeypatch.setattr(trials, "CHECKED", 5)
    monkeypatch.setattr(trials, "EVERY", 6)
    monkeypatch.setattr(trials.timing, "processor", lambda: 0.0)
    monkeypatch.setattr(chain, "PAUSE", 1)
    monkeypatch.setattr(
        cpu.tried_functions.Tried, "__call__", counting(cpu.tried_functions.Tried.__call__, calls := [])
    )
    done, run = [], chain.Chain.run

    def counted(self, *rest):
        samples = run(self, *rest)
        done.append(len(samples))
        return samples

    monkeypatch.setattr(chain.Chain, "run", counted)
    compared, plain = [], sum_of_three

    @pipeline_def(batch_size=len(SAMPLES), num_threads=1, device_id=None)
    def pipeline():
        return fn.python_function(fn.flip(images()), function=plain, jit="auto")

    pipe = pipeline()
    pipe.build()
    expected = [sum_of_three(x[:, ::-1]) for x in SAMPLES]
    for _ in range(12):
        trials.wait_for_trials()
        (output,) = pipe.run()
        assert all(map(np.array_equal, map(np.asarray, output), expected))
    assert not compared
    assert sum(done) + len(calls) >= 12 * len(SAMPLES)
    assert sum(done) >= len(SAMPLES)
    assert len(calls) >= 5 + 2  # those of the trial, and others that are compared later
    assert done[-4:] in ([4, 3, 4, 3], [3, 4, 3, 4])  # only the compared sample of a batch is left to Python


def test_automatic_settings_are_measured_again_when_compiled_code_takes_over(tmp_path, monkeypatch, clock):
    """When the comparisons are over, and when a chain runs the compiled function."""
    monkeypatch.setattr(trials, "folder_for", lambda name: tmp_path)
    monkeypatch.setattr(trials, "CHECKED", 5)
    monkeypatch.setattr(chain, "PAUSE", 1)

    def doubled(x):
        return x + x

    @pipeline_def(batch_size=len(SAMPLES), num_threads="auto", device_id=None)
    def pipeline():
        return fn.python_function(fn.flip(images()), function=doubled, jit="auto")

    pipe = pipeline()
    pipe.build()
    tuner, stage, begun = pipe._executor.tuner, pipe._executor.stages[-1], []
    forget = tuner._forget
    monkeypatch.setattr(tuner, "_forget", lambda: (begun.append(stage.takeovers()), forget()))
    for _ in range(30):
        trials.wait_for_trials()
        pipe.run()
    assert begun in ([1, 2], [2])  # both may come with one batch
    assert decisions.decided(doubled) == 1


def counting(function, calls):
    def counted(self, *arguments, **named):
        calls.append(1)
        return function(self, *arguments, **named)

    return counted


FACTOR = 2


def with_a_global(x):
    return x * FACTOR


def test_auto_leaves_the_chain_if_a_value_from_outside_changes(tmp_path, monkeypatch):
    """The new value is used at once, as without chains."""
    monkeypatch.setattr(trials, "folder_for", lambda name: tmp_path)
    monkeypatch.setattr(trials, "CHECKED", 2)
    monkeypatch.setattr(trials.timing, "processor", lambda: 0.0)
    monkeypatch.setattr(chain, "PAUSE", 1)

    @pipeline_def(
        batch_size=len(SAMPLES),
        num_threads=1,
        device_id=None,
        prefetch_queue_depth=1,
        exec_async=False,
        exec_pipelined=False,
    )
    def pipeline():
        return fn.python_function(fn.flip(images()), function=with_a_global, jit="auto")

    pipe = pipeline()
    pipe.build()
    for _ in range(6):
        trials.wait_for_trials()
        pipe.run()
    monkeypatch.setitem(globals(), "FACTOR", 3)
    (output,) = pipe.run()
    (output,) = pipe.run()
    assert np.array_equal(np.asarray(output[0]), SAMPLES[0][:, ::-1] * 3)


def test_a_function_whose_result_is_not_used():
    """The chain has no column of numbers then."""

    def define():
        x = fn.external_source(source=lambda: SAMPLES)
        fn.python_function(x, function=columns_backwards, jit=True)
        return x

    pipe = pipeline_def(define, batch_size=len(SAMPLES), num_threads=2, device_id=None)()
    for _ in range(BATCHES):
        (batch,) = pipe.run()
        for sample, expected in zip(batch.samples(), SAMPLES):
            np.testing.assert_array_equal(sample, expected)


NUMBERS = {
    "bytes": lambda x: x[0, 0, 0],
    "int16": lambda x: np.int16(x[0, 0, 0]),
    "uint32": lambda x: np.uint32(x[0, 0, 1]),
    "sum of bytes": lambda x: x.sum(),
    "float32": lambda x: np.float32(x.mean()),
    "float64": lambda x: x.mean(),
    "flag": lambda x: x[0, 0, 0] > 3,
    "of Python": lambda x: (len(x), 0.5),
    "several": lambda x: (x[0, 0, 0], np.float32(2), x[:1]),
}


@pytest.mark.parametrize("jit", [True, "auto"])
@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_have_the_type_that_the_plain_function_gives_them(name, jit):
    """Compiled code called from Python gives Python's numbers, which would be int64 and float64."""
    function = NUMBERS[name]
    count = len(made) if isinstance(made := function(SAMPLES[0]), tuple) else 1

    def define(jit):
        results = fn.python_function(images(), function=function, jit=jit, num_outputs=count)
        return results if count > 1 else (results,)

    found = []
    for way in (False, jit):
        pipe = pipeline_def(define, batch_size=len(SAMPLES), num_threads=2, device_id=None)(way)
        found.append(
            [[(sample.dtype, sample.tolist()) for x in pipe.run() for sample in x.samples()] for _ in range(BATCHES)]
        )
    assert found[0] == found[1]
