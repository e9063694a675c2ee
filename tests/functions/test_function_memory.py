"""The memory of the arrays that compiled functions allocate in chains: results are the same, and are made where they belong."""

import numba
import numpy as np
import pytest

from pipeflow import Spec, fn, pipeline_def
from pipeflow.executor.runners import chain
from pipeflow.kernels import cpu
from pipeflow.kernels.cpu import exact_functions, user_functions
from pipeflow.kernels.cpu import function_memory as memory
from pipeflow.operators.functions import compiling

pytestmark = pytest.mark.usefixtures("loaded_code")
RNG = np.random.default_rng(5)
SAMPLES = [RNG.integers(0, 255, (20 - part, 30, 3), np.uint8) for part in (0, 1, 1, 0)]
BATCHES = 6


def images():
    return fn.external_source(lambda number: [x + np.uint8(number) for x in SAMPLES], batch=True, layout="HWC")


def runs(definition, monkeypatch, chained=True, checkpoint=None, batches=BATCHES):
    """The outputs of some batches, the pipeline, and the samples that chains have done."""
    done, run, able = [], chain.Chain.run, chain._able

    def counted(self, *rest):
        samples = run(self, *rest)
        done.extend(samples)
        return samples

    with monkeypatch.context() as patch:
        patch.setattr(chain.Chain, "run", counted)
        patch.setattr(chain, "_able", lambda step: chained and able(step))
        options = {"num_threads": 1, "device_id": None, "seed": 5, "exec_async": False, "exec_pipelined": False}
        pipe = pipeline_def(batch_size=4, **options, enable_checkpointing=True, checkpoint=checkpoint)(definition)()
        pipe.build()
        found = []
        for _ in range(batches):
            cpu.tried_functions.wait_for_trials()
            found.append([[(x.tobytes(), x.dtype, x.shape) for x in map(np.asarray, one)] for one in pipe.run()])
    return found, pipe, len(done)


def one_allocation(x):
    result = np.empty(x.shape, np.uint8)
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            for c in range(x.shape[2]):
                result[i, j, c] = 255 - x[i, j, c]
    return result


def after_temporaries(x):
    y = x.astype(np.float32) * np.float32(0.5)
    z = np.clip(y, 3, 90)
    return (z + y).astype(np.uint8)


def the_first_or_the_second(x):
    first, second = x + x, x * x
    return first if x.shape[0] == 20 else second


def all_or_a_part(x):
    result = np.zeros((x.shape[0], 90), np.uint8)
    result[:, :30] = x[:, :, 0]
    return result if x.shape[0] == 20 else result[2:]


def backwards(x):
    return (x + x)[::-1]


def new_or_the_input(x):
    y = x + x
    return y if x.shape[0] == 20 else x


def many_temporaries(x):
    result = np.zeros(x.shape, np.int64)
    for number in range(40):
        result += x > number
    return result


def large_temporaries(x):
    return np.ones((x.shape[0] * 400, 90), np.int64)[: x.shape[0]].sum() * np.ones(x.shape)


ONE = [
    one_allocation,
    after_temporaries,
    the_first_or_the_second,
    all_or_a_part,
    backwards,
    new_or_the_input,
    many_temporaries,
    large_temporaries,
]


@pytest.mark.parametrize("function", ONE, ids=lambda function: function.__name__)
def test_one_result(function, monkeypatch):
    """As an output, between compiled steps, and in dense memory."""

    def definition():
        data = images()
        dense = fn.crop(data, crop=(12, 10))
        made = fn.python_function(data, function=function, jit=True)
        between = fn.cast(fn.python_function(fn.flip(data), function=function, jit=True), dtype=np.float32)
        outputs = [made, between]
        if function is one_allocation:
            spec = Spec(np.uint8, (12, 10, 3))
            outputs.append(fn.python_function(dense, function=function, jit=True, outputs=spec))
        return tuple(outputs)

    found, _, done = runs(definition, monkeypatch)
    assert found == runs(definition, monkeypatch, chained=False)[0]
    assert done > 0


def twice_the_same(x):
    y = x + x
    return y, y


def two_parts(x):
    y = x + x
    return y[:5], y[5:]


def changing_places(x):
    first, second = x + x, x * x
    return (first, second) if x.shape[0] == 20 else (second, first)


def five(x):
    return x + x, x * x, x - x, x | x, x & x


@pytest.mark.parametrize(("function", "count"), [(twice_the_same, 2), (two_parts, 2), (changing_places, 2), (five, 5)])
@pytest.mark.parametrize("dense", [False, True])
def test_several_results(function, count, dense, monkeypatch):
    """Results that share an allocation, or that come from others than in the last call."""

    def definition():
        data = fn.crop(images(), crop=(19, 10)) if dense else images()
        specs = tuple([Spec(np.uint8, (19, 10, 3))] * count) if dense and function is not two_parts else None
        return tuple(fn.python_function(data, function=function, num_outputs=count, jit=True, outputs=specs))

    found, _, done = runs(definition, monkeypatch)
    assert found == runs(definition, monkeypatch, chained=False)[0]
    assert done > 0


def test_the_result_is_allocated_in_the_memory_of_the_batch(monkeypatch):
    """From the second call of a program on, the function writes its result there."""
    pipe = runs(lambda: fn.python_function(images(), function=after_temporaries, jit=True), monkeypatch)[1]
    memory.numbers_of_thread()[memory.RESULTS + 3] = 0
    (output,) = pipe.run()
    number, address, _, taken = memory.numbers_of_thread()[memory.RESULTS : memory.RESULTS + 4].tolist()
    assert number > 0  # temporary arrays came before it
    assert taken == 1
    assert address == np.asarray(output[3]).ctypes.data


def test_memory_grows_with_what_a_call_needs(monkeypatch):
    """Until then larger arrays come from Numba's runtime."""
    desk = memory.of_thread()
    desk._take(memory.FIRST)
    desk.numbers[memory.MOST_TAKEN] = 0
    pipe = runs(lambda: fn.python_function(images(), function=large_temporaries, jit=True), monkeypatch)[1]
    pipe.run()
    begin, end = desk.numbers[[memory.BEGIN, memory.END]].tolist()
    assert 20 * 400 * 90 * 8 < end - begin < 2 * 20 * 400 * 90 * 8


class TestAllocate:
    """The allocator of a thread, with a desk of the test."""

    def desk(self, nbytes=1024):
        numbers, block = np.zeros(memory.INTEGERS, np.int64), np.zeros(nbytes // 8, np.int64)
        numbers[[memory.BEGIN, memory.NEXT]] = block.ctypes.data
        numbers[memory.END] = block.ctypes.data + block.nbytes
        return numbers, block

    def test_a_freed_array_is_used_again_for_one_of_its_size(self):
        """The last one first."""
        numbers, block = self.desk()
        first, second, third = [memory.allocate(numbers.ctypes.data, n, 7) for n in (100, 100, 60)]
        assert [x - block.ctypes.data for x in (first, second, third)] == [0, 64 + 128, 2 * (64 + 128)]
        for array in (first, second, third):
            memory.release(numbers.ctypes.data, array)
        assert [memory.allocate(numbers.ctypes.data, n, 7) for n in (100, 60, 100)] == [second, third, first]
        assert numbers[memory.COUNT] == 6

    def test_what_has_no_room_is_left_to_numba(self):
        """But counted, so that the next call finds room."""
        numbers, _ = self.desk()
        assert memory.allocate(numbers.ctypes.data, 961, 7) == 0
        assert memory.allocate(numbers.ctypes.data, 960, 7) != 0
        assert memory.allocate(numbers.ctypes.data, -1, 7) == 0
        assert memory.allocate(numbers.ctypes.data, memory.LARGEST + 1, 7) == 0
        assert numbers[memory.MOST_TAKEN] == 64 + 1024 + 64 + 960

    def test_a_description_is_as_numba_reads_it(self):
        """One user, no destructor, the address of the data, their bytes, the allocator; then the number of the allocation."""
        numbers, block = self.desk()
        numbers[memory.PLACES] = 1
        numbers[memory.RESULTS : memory.RESULTS + 4] = 1, 12345, 50, 0
        memory.allocate(numbers.ctypes.data, 50, 7)
        array = memory.allocate(numbers.ctypes.data, 50, 7)
        assert block[(array - block.ctypes.data) // 8 :][:7].tolist() == [1, 0, 0, 12345, 50, 7, 1]
        assert numbers[memory.RESULTS + 3] == 1
        memory.release(numbers.ctypes.data, array)  # the memory of a result is not given to another array
        assert numbers[memory.FREED] == 0


def test_a_function_that_calls_itself_uses_the_memory_of_numba(monkeypatch):
    """Its code has addresses that only Numba knows."""

    @numba.njit(nogil=True)
    def recursive(x, depth):
        if depth:
            return recursive(x, depth - 1)
        return x + x

    @numba.njit(nogil=True)
    def function(x):
        return recursive(x, 3)

    def definition():
        return fn.python_function(images(), function=function, jit=True)

    assert runs(definition, monkeypatch)[0] == runs(definition, monkeypatch, chained=False)[0]


def with_random_part(x):
    return x[: 1 + int(x[0, 0, 0]) % 7] + x[0]


@pytest.mark.parametrize("jit", [True, "auto", "auto:1e-6"])
def test_a_pipeline_goes_on_after_a_checkpoint_with_the_same_bits(jit, monkeypatch, tmp_path):
    """With functions in chains, from batches before and after they have joined."""
    monkeypatch.setattr(cpu.tried_functions, "folder_for", lambda name: tmp_path)
    monkeypatch.setattr(cpu.tried_functions, "CHECKED", 6)
    monkeypatch.setattr(cpu.tried_functions, "FROM_PYTHON", 1.0)  # it is not slower
    monkeypatch.setattr(chain, "PAUSE", 1)
    compiling._known_tried.cache_clear()

    def definition():
        data = fn.crop(images(), crop=(16, 16), crop_pos_x=fn.random.uniform(range=(0.0, 1.0)))
        return fn.flip(fn.python_function(data, function=with_random_part, jit=jit), horizontal=fn.random.coin_flip())

    whole, _, done = runs(definition, monkeypatch, batches=12)
    assert done > 0
    for position in (1, 7):
        begun, pipe, _ = runs(definition, monkeypatch, batches=position)
        rest, _, _ = runs(definition, monkeypatch, checkpoint=pipe.checkpoint(), batches=12 - position)
        assert begun + rest == whole


VIEWS = {
    "mirrored": lambda x: x[:, ::-1],
    "every second": lambda x: x[::2, ::-2],
    "other colours": lambda x: x[:, :, ::-1],
    "a part": lambda x: x[:, 1:-1],
    "two colours": lambda x: x[:, ::-1, :2],
    "one column": lambda x: x[:, :1][:, ::-1],
    "two columns": lambda x: x[:, -2:][:, ::-1],
    "transposed": lambda x: x.T,
    "one axis": lambda x: x[::-1, 0, 0],
    "nothing": lambda x: x[:0, ::-1],
}


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.float32, np.float64])
@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
def test_copies_of_views(view, dtype):
    """The elements next to a view are not touched. The last pixel of the array is the first one of some views."""
    whole = np.arange(5 * 4 * 3 + 16).astype(dtype)
    given = view(whole[: 5 * 4 * 3].reshape(5, 4, 3))
    room = np.full(given.size + 16, 99, dtype)
    numbers = np.array([*given.shape, *given.strides], np.int64)
    places = numbers.ctypes.data
    cpu.user_calls.gather(
        given.ctypes.data, room.ctypes.data, places, places + 8 * given.ndim, given.ndim, given.itemsize
    )
    np.testing.assert_array_equal(room[: given.size], given.ravel())
    assert (room[given.size :] == 99).all()
    copied = exact_functions.compiled(lambda x: x.copy(), True)
    np.testing.assert_array_equal(copied(given), given)


def test_the_time_of_a_call_by_a_program():
    """A call for the same numbers: a function that draws gets the state of the sample, and one that raises ends early."""
    function = exact_functions.compiled(lambda x, rng: x * rng.random(), True)
    kinds = [user_functions.array_type(np.dtype(np.float64), 1, True)]
    made = cpu.user_calls.DirectCall(cpu.user_calls.native(function, kinds, draws=True))
    generator = np.random.Generator(np.random.SFC64(3))
    assert made.seconds([np.ones(3)], 64, generator.bit_generator.state) >= 0
    np.testing.assert_array_equal(made._room[:24].view(np.float64), np.ones(3) * generator.random())
    raises = exact_functions.compiled(lambda x: x[:1] if x[0] > 0 else x[5:6] * x[7], True)
    made = cpu.user_calls.DirectCall(cpu.user_calls.native(raises, kinds))
    assert made.seconds([np.ones(3)], 64, None) >= 0
    assert made.seconds([np.zeros(3)], 64, None) == -1
    with made._lock:
        assert made.seconds([np.ones(3)], 64, None) is None
