"""What travels to a worker and back: every kind of array and object, in order, in memory that is used again."""

import gc
import itertools
from types import SimpleNamespace

import numpy as np
import pytest

from pipeflow.errors import Failed, InvalidState
from pipeflow.executor.workers import segments
from pipeflow.executor.workers.channel import Channel
from pipeflow.executor.workers.dispatcher import ExpectedResults, Kind
from pipeflow.executor.workers.pool import WorkerPool
from pipeflow.executor.workers.stage import ProcessStep
from pipeflow.executor.workers.worker import _lay
from pipeflow.operators.functions.results import Results
from pipeflow.operators.functions.workers import BatchInWorker


@pytest.fixture(scope="module")
def pool():
    with WorkerPool(2) as pool:
        yield pool


@pytest.fixture(scope="module")
def identity(pool):
    return pool.register(lambda *values: values)


@pytest.mark.parametrize(
    "dtype",
    [
        "?",
        "u1",
        "i1",
        "u2",
        "i2",
        "u4",
        "i4",
        "u8",
        "i8",
        "f2",
        "f4",
        "f8",
        "c8",
        "c16",
        ">i4",
        "S5",
        "U7",
        "M8[ns]",
        [("x", "f4"), ("y", "u1", (2,))],
    ],
)
def test_every_dtype_comes_back_as_it_went(pool, identity, dtype):
    """Values, dtype and shape survive the way there and back, bool, float16 and structures included."""
    array = np.zeros((3, 4), dtype)
    array.view("u1").reshape(-1)[:] = 0
    if np.dtype(dtype).kind in "?iufc":
        array[...] = np.arange(12).reshape(3, 4) % 2
    [(back,)] = pool.submit(identity, [(array,)]).result()
    assert back.dtype == array.dtype
    assert back.shape == array.shape
    np.testing.assert_array_equal(back, array)


@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (1,), (2, 3, 4, 5)])
def test_every_shape_comes_back(pool, identity, shape):
    """Scalars, empty arrays and many axes are as good as images."""
    array = np.arange(int(np.prod(shape))).reshape(shape)
    [(back,)] = pool.submit(identity, [(array,)]).result()
    np.testing.assert_array_equal(back, array)
    assert back.shape == shape


def test_ragged_chunks_keep_their_order(pool, identity):
    """Samples of different shapes come back each in its place, and tickets in the order they are asked for."""
    rng = np.random.default_rng(1)
    chunks = [
        [(rng.random(rng.integers(0, 50, 2)), np.uint8(i)) for i in range(int(rng.integers(1, 9)))] for _ in range(30)
    ]
    tickets = [pool.submit(identity, chunk) for chunk in chunks]
    for ticket, chunk in zip(tickets, chunks):
        for back, sample in zip(ticket.result(), chunk, strict=True):
            np.testing.assert_array_equal(back[0], sample[0])
            assert back[1] == sample[1]


def test_arrays_that_do_not_lie_in_one_piece(pool, identity):
    """Strided, transposed, reversed and broadcast arrays arrive with their values."""
    base = np.arange(24).reshape(4, 6)
    arrays = (base[::2, 1::3], base.T, base[::-1], np.broadcast_to(np.float32(3), (5, 2)))
    [back] = pool.submit(identity, [arrays]).result()
    for got, expected in zip(back, arrays, strict=True):
        np.testing.assert_array_equal(got, expected)


def test_objects_travel_beside_arrays(pool, identity):
    """bytes, str, None, dicts, object arrays and nested lists of arrays are part of a sample."""
    sample = (
        b"\x00raw",
        "text",
        None,
        7,
        {"a": [1, 2]},
        np.array(["x", None], object),
        [np.arange(3), (np.zeros(2), "in")],
        [],
        (),
    )
    [back] = pool.submit(identity, [sample]).result()
    assert back[:5] == sample[:5]
    assert back[5].tolist() == ["x", None]
    np.testing.assert_array_equal(back[6][0], np.arange(3))
    assert isinstance(back[6][1], tuple)
    assert back[6][1][1] == "in"
    assert back[7:] == ([], ())


def test_long_tables_and_large_objects(pool, identity):
    """Thousands of samples and megabytes of bytes in one chunk pass, though messages are short."""
    many = [(np.array(i), f"sample {i}") for i in range(3000)]
    assert [x[1] for x in pool.submit(identity, many).result()] == [x[1] for x in many]
    blob = bytes(range(256)) * 20_000
    assert pool.submit(identity, [(blob,)]).result()[0][0] == blob


def test_an_empty_chunk(pool, identity):
    """No samples give no results."""
    assert pool.submit(identity, []).result() == []


def test_results_larger_than_the_input_make_memory_grow(pool):
    """A function may return far more than it was given; the segment grows while it is written."""
    grow = pool.register(lambda n: np.full(n, n % 256, np.uint8))
    for n in (10, 100_000, 5_000_000, 3):
        results = pool.submit(grow, [(n,), (n + 1,)]).result()
        assert [r.shape for r in results] == [(n,), (n + 1,)]
        assert results[1].min() == results[1].max() == (n + 1) % 256


def test_input_written_in_place(pool, identity):
    """Arrays made in a region are sent from where they lie, before and after it grew; views of them as well."""
    region = pool.region(1000)
    first = region.empty((10, 10), np.int32)
    arrays = [first, *[region.empty((100, 100 + i), np.int32) for i in range(5)], region.empty((), np.int32)]
    for i, array in enumerate(arrays):
        array[...] = i
    used = region.end
    samples = [(array, array[:2], i) for i, array in enumerate(arrays[:-1])]
    assert [region.offset_of(x) is not None for x in (first, arrays[3], arrays[3][4:], first.T)] == [True] * 3 + [False]
    results = pool.submit(identity, samples, region=region).result()
    assert region.end == used
    for i, (array, part, number) in enumerate(results):
        assert array.shape == arrays[i].shape
        assert part.shape == arrays[i][:2].shape
        assert (array == i).all()
        assert number == i
    assert region.offset_of(np.zeros(3)) is None
    assert region.empty(2, object).tolist() == [None, None]


def test_memory_of_inputs_is_free_when_nothing_refers_to_it():
    """A region's segment is used again after its arrays and chunks are gone, also when it grew meanwhile."""
    with WorkerPool(1) as pool:
        identity = pool.register(lambda x: x.sum())
        for i in range(10):
            region = pool.region()
            arrays = [region.empty((50_000 + i,), np.uint8) for _ in range(4)]
            for array in arrays:
                array[...] = i
            assert pool.submit(identity, [(x,) for x in arrays], region=region).result() == [(50_000 + i) * i] * 4
            del region, arrays, array
        assert pool.statistics()["input_segments"] == 1


def test_a_whole_chunk_in_one_call(pool):
    """A function for batches gets the list of samples and returns one value for all of them."""
    total = pool.register(lambda samples: sum(x for (x,) in samples), whole_chunk=True)
    [result] = pool.submit(total, [(np.arange(3),), (np.arange(3) * 10,)]).result()
    np.testing.assert_array_equal(result, [0, 11, 22])


def test_inputs_are_read_only_unless_asked_for(pool):
    """A function changes its input only where it was registered as its sole reader."""

    def write(x):
        x += 1
        return x

    samples = [(np.zeros(3),)]
    with pytest.raises(ValueError, match="read-only"):
        pool.submit(pool.register(write), samples).result()
    [result] = pool.submit(pool.register(write, writable=True), samples).result()
    assert result.tolist() == [1, 1, 1]
    assert samples[0][0].tolist() == [0, 0, 0]


def test_results_stay_valid_and_their_memory_is_used_again():
    """A kept result never changes; memory comes back when the last view is gone, not before."""
    with WorkerPool(1) as pool:
        identity = pool.register(lambda x: x)
        [kept] = pool.submit(identity, [(np.arange(1000),)]).result()
        view = kept[10:20].reshape(2, 5).T
        del kept
        for i in range(30):
            pool.submit(identity, [(np.full(1000, i),)]).result()
        np.testing.assert_array_equal(view, np.arange(10, 20).reshape(2, 5).T)
        segments = pool.statistics()["output_segments"]
        assert segments <= 3
    np.testing.assert_array_equal(view, np.arange(10, 20).reshape(2, 5).T)


def test_inputs_that_a_function_keeps_stay_valid():
    """What user code holds on to in a worker is not overwritten by later chunks; reference cycles are cleaned up."""

    class Keeper:
        def __init__(self):
            self.kept = []

        def __call__(self, x):
            self.kept.append(x[:2])
            return np.concatenate(self.kept)

    def cyclic(x):
        loop = [x]
        loop.append(loop)
        return x

    with WorkerPool(1) as pool:
        keeper, cycle = pool.register(Keeper()), pool.register(cyclic)
        for i in range(10):
            [result] = pool.submit(keeper, [(np.full(5, i),)]).result()
        np.testing.assert_array_equal(result, np.repeat(np.arange(10), 2))
        gc.collect()
        before = pool.statistics()["input_segments"]
        for i in range(20):
            pool.submit(cycle, [(np.full(5, i),)]).result()
        assert pool.statistics()["input_segments"] <= before + 1


def test_a_dropped_ticket_gives_its_memory_back():
    """Results that are not taken are dropped."""
    with WorkerPool(1) as pool:
        identity = pool.register(lambda x: x)
        for _ in range(30):
            ticket = pool.submit(identity, [(np.zeros(1000),)])
            ticket.wait()
        assert pool.statistics()["output_segments"] <= 3


def test_results_are_taken_once(pool, identity):
    """A second `result` says so instead of giving memory that may be in use again."""
    ticket = pool.submit(identity, [(1,)])
    ticket.result()
    with pytest.raises(InvalidState, match="taken already"):
        ticket.result()


def test_too_little_memory_is_an_exception_with_the_number(pool):
    """A result larger than the memory there is raises MemoryError in its own chunk and the pool goes on."""
    huge = pool.register(lambda n: np.broadcast_to(np.uint8(1), n))
    with pytest.raises(MemoryError, match=r"need 9999\d* more bytes of shared memory .* are available"):
        pool.submit(huge, [(1_000_000_000_000_000,)]).result()
    assert pool.submit(huge, [(5,)]).result()[0].tolist() == [1] * 5
    with pytest.raises(MemoryError, match="more bytes of shared memory"):
        pool.region(1 << 50)


def test_failing_samples_among_good_ones(pool):
    """With `keep_going` a failure stands in its sample's place; without it the first one is raised."""

    def picky(x):
        if x % 2:
            raise ValueError(f"odd {x}")
        return x

    samples = [(np.array(i),) for i in range(5)]
    results = pool.submit(pool.register(picky, keep_going=True), samples).result()
    assert [isinstance(r, Failed) for r in results] == [False, True, False, True, False]
    assert str(results[3].error) == "odd 3"
    ticket = pool.submit(pool.register(picky), samples)
    with pytest.raises(ValueError, match="odd 1"):
        ticket.result()
    assert ticket.failed_sample == 1


def test_a_result_that_does_not_pickle(pool):
    """A generator as result is an error that says so, not a lost worker."""
    generate = pool.register(lambda: (i for i in range(3)))
    with pytest.raises(TypeError, match="generator"):
        pool.submit(generate, [()]).result()


def test_soak_leaves_no_descriptors_and_no_new_segments(pool, identity):
    """Thousands of chunks with results of random age leave descriptors and segments as they were."""
    import os

    rng = np.random.default_rng(3)
    counts = []
    for _ in itertools.repeat(None, 3):
        kept = []
        for _ in range(300):
            ticket = pool.submit(identity, [(np.zeros(int(rng.integers(1, 3000))),)])
            kept.append(ticket.result())
            del kept[: int(rng.integers(0, 3))]
            del kept[:-4]
        kept.clear()
        counts.append(len(os.listdir("/proc/self/fd")))
    assert counts[2] <= counts[0] + 1


@pytest.mark.parametrize(
    ("samples", "nanoseconds", "expected"),
    [
        (64, 0, 32),  # not measured yet: a share for each of two workers
        (64, 1e3, 32),  # 32 us of work: no reason to divide the share
        (64, 1e6, 8),  # 32 ms of work: four chunks of 8 ms
        (64, 1e9, 1),  # a second each
        (1, 1e9, 1),
        (63, 1e6, 8),
    ],
)
def test_a_chunk_is_a_share_or_eight_milliseconds_of_work(samples, nanoseconds, expected):
    """Large chunks cost less to send, small ones keep every worker busy to the end."""
    handle = SimpleNamespace(_registered=SimpleNamespace(nanoseconds_per_sample=nanoseconds))
    assert WorkerPool.chunk_size(SimpleNamespace(num_workers=2), handle, samples) == expected


def test_a_dtype_travels_by_its_name_where_that_says_all():
    """Fields of structured types are not part of their name."""
    fields = np.dtype([("a", "<i4"), ("b", "<f8")])
    assert [segments.name_of(np.dtype(name)) for name in ("<f4", "|u1", "|S5", "<M8[ms]")] == [
        "<f4",
        "|u1",
        "|S5",
        "<M8[ms]",
    ]
    assert all(type(segments.name_of(np.dtype(name))) is str for name in ("<f4", "|u1", "|S5", "<M8[ms]"))
    assert segments.name_of(fields) is fields


def test_results_go_to_their_places_or_elsewhere():
    """Arrays of the expected type and shape are written in place; what is different is sent with its position."""
    sent = []
    writer = SimpleNamespace(put=lambda value: sent.append(value) or ("sent", len(sent)))
    places = [np.zeros((3, 2), np.float32), np.zeros((3, 2), np.int32)]
    one, two = np.float32([1, 2]), np.int32([3, 4])
    assert _lay((one, two), 1, places, writer) is None
    assert [place.tolist() for place in places] == [[[0, 0], [1, 2], [0, 0]], [[0, 0], [3, 4], [0, 0]]]
    assert _lay((one, two.astype(np.int64)), 0, places, writer) == (True, [None, ("sent", 1)])
    assert _lay((one[:1], two), 2, places, writer) == (True, [("sent", 2), None])
    for value in ([one, two], (one,), (one, two, two)):  # a list is one result, not two
        assert _lay(value, 1, places, writer)[0] == "sent"
        assert sent[-1] is value


def test_places_of_results_by_hand():
    """Three samples of 2 x 4 bytes of int16, then floats at the next multiple of 64; an output of unknown size has none."""
    memory = np.zeros(1 << 16, np.uint8)
    home = SimpleNamespace(take=lambda size: SimpleNamespace(lease=lambda _: memory, size=size), free=None)
    kinds = [Kind((2, 2), np.dtype(np.int16)), None, Kind((), np.dtype(np.float64))]
    block = ExpectedResults(home, 3, kinds)
    assert block.segment.size == 128
    assert block.places(1, 3) == ((8, "<i2", (2, 2, 2)), None, (64 + 8, "<f8", (2,)))


def test_lists_stay_lists_and_tuples_stay_tuples():
    """Also inside each other."""
    entry = (True, [(1,), (False, [("a",), (True, [])])])
    assert segments.read(entry, np.zeros(0, np.uint8)) == (1, ["a", ()])


def test_an_error_for_one_row_is_raised_where_the_row_is_made():
    """Not taken for its result."""
    error = ValueError("this row")
    workers = SimpleNamespace(submit=lambda *_: SimpleNamespace(result=lambda: [Failed(error)]))
    step = SimpleNamespace(
        step=SimpleNamespace(inputs=[]), batch_keys=lambda _: [7], workers=workers, handle=None, whole=False
    )
    with pytest.raises(ValueError, match="this row"):
        ProcessStep._row_in_worker(step, SimpleNamespace(values=[]), 0)


def test_a_function_of_whole_batches_in_a_worker():
    """Rows come with their keys; the result is a list for each output."""
    seen = []
    call = BatchInWorker(
        lambda xs, ys: seen.append((len(xs), len(ys))) or [x + y for x, y in zip(xs, ys)], Results(len, 1)
    )
    made = call([(7, np.float32(1), np.float32(2)), (8, np.float32(3), np.float32(4))])
    assert seen == [(2, 2)]
    assert [np.asarray(column).tolist() for column in made] == [[3, 7]]


@pytest.mark.parametrize("at_once", [5, 1 << 20])
def test_a_message_that_is_sent_in_parts_is_whole(at_once):
    """A socket takes as many bytes as it has room for."""
    sent = bytearray()

    def send(data):
        sent.extend(data[:at_once])
        return min(at_once, len(data))

    channel = Channel(SimpleNamespace(send=send, sendall=sent.extend))
    channel.send(("a message", 12))
    whole = bytes(sent)
    channel.socket.send = lambda data: sent.extend(data) or len(data)
    del sent[:]
    channel.send(("a message", 12))
    assert bytes(sent) == whole
