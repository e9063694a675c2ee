"""The numbers of a pipeline depend on seed, operator, epoch and position, and on nothing else."""

import numpy as np
import pytest

from pipeflow import fn, pipeline_def, seeds, types
from pipeflow.operators.readers.order import permute

TOTAL = 24


def pipeline(batch_size, num_threads=1, depth=2, seed=11, **arguments):
    """A pipeline that draws in every way."""

    def define():
        index = fn.external_source(lambda info: np.float32(info.idx_in_epoch), batch=False)
        scalars = fn.random.uniform(range=(0, 100)), fn.random.normal(dtype=types.FLOAT64), fn.random.coin_flip()
        shaped = (
            fn.random.uniform(shape=(3, 2)),
            fn.random.choice(np.arange(10.0), shape=4),
            fn.random.beta(alpha=2.0, beta=3.0),
        )
        like = fn.random.normal(fn.python_function(index, function=lambda x: np.zeros(int(x) % 3 + 1)))
        own = fn.python_function(index, function=lambda x, rng: rng.standard_normal(2))
        varying = fn.random.uniform(range=fn.python_function(index, function=lambda x: np.array([x, x + 1])))
        return index, *scalars, *shaped, like, own, varying

    return pipeline_def(define, batch_size=batch_size, num_threads=num_threads, prefetch_queue_depth=depth, seed=seed)(
        **arguments
    )


def epoch(pipe):
    """All samples of an epoch, per output."""
    columns = None
    for _ in range(TOTAL // pipe.batch_size):
        outputs = pipe.run()
        columns = columns or [[] for _ in outputs]
        for column, batch in zip(columns, outputs):
            column += [sample.copy() for sample in batch.samples()]
    return columns


def same(left, right):
    """Bit for bit."""
    return all(a.dtype == b.dtype and np.array_equal(a, b) for x, y in zip(left, right) for a, b in zip(x, y))


REFERENCE = epoch(pipeline(24))


@pytest.mark.parametrize("num_threads", [1, 2, 8])
@pytest.mark.parametrize("depth", [1, 2, 5])
def test_threads_and_prefetching_change_nothing(num_threads, depth):
    """The same batches for any number of threads and any prefetch depth."""
    assert same(REFERENCE, epoch(pipeline(24, num_threads, depth)))


@pytest.mark.parametrize("batch_size", [1, 3, 8, 12])
def test_batch_boundaries_change_nothing(batch_size):
    """A sample gets the same numbers in a batch of any size."""
    assert same(REFERENCE, epoch(pipeline(batch_size, 2)))


def test_debug_runs_give_the_same_numbers():
    """A debug run equals the compiled run bit for bit."""
    assert same(REFERENCE, epoch(pipeline(8, debug=True)))


def test_synchronous_runs_give_the_same_numbers():
    """Without threads and prefetching too."""

    def define():
        return fn.random.uniform(shape=2), fn.random.normal()

    arguments = {"batch_size": 4, "num_threads": 2, "seed": 5}
    one = pipeline_def(define, **arguments)().run()
    two = pipeline_def(define, exec_async=False, exec_pipelined=False, **arguments)().run()
    assert same([b.samples() for b in one], [b.samples() for b in two])


def test_another_seed_or_epoch_gives_other_numbers():
    """Seeds and epochs matter."""
    assert not same(REFERENCE, epoch(pipeline(24, seed=12)))
    pipe = pipeline(24)
    first = epoch(pipe)
    pipe.reset()
    second = epoch(pipe)
    assert same(REFERENCE, first)
    assert not np.array_equal(first[1], second[1])


def test_operators_of_one_kind_differ():
    """Two operators draw different numbers, unless they have the same explicit seed."""

    @pipeline_def(batch_size=8, num_threads=1, seed=3)
    def define():
        one, two = fn.random.uniform(), fn.random.uniform()
        three, four = fn.random.uniform(seed=9, name="x"), fn.random.uniform(seed=10, name="y")
        return one, two, three, four

    arrays = [batch.as_array() for batch in define().run()]
    assert len(np.unique(np.concatenate(arrays))) == 32


@pytest.mark.parametrize("debug", [False, True])
def test_operators_with_one_seed_draw_the_same_numbers(debug):
    """As in DALI: on different data and with different arguments, and in operators that share a kind of draw. The numbers do not
    depend on the pipeline's seed.
    """
    image = np.arange(40 * 50, dtype=np.uint16).reshape(40, 50, 1)

    def define():
        picture, mask = (fn.external_source(lambda x=x: [x] * 6, layout="HWC") for x in (image, image + 1))
        start, extents = fn.random_crop_generator(fn.shapes(picture), seed=4)
        return (
            *[fn.random_resized_crop(x, size=9, interp_type=types.INTERP_NN, seed=4) for x in (picture, mask)],
            fn.resize(fn.slice(picture, start, extents, axes=(0, 1)), size=9, interp_type=types.INTERP_NN),
            fn.random.uniform(range=(0, 1), seed=5),
            fn.random.uniform(range=(0, 10), seed=5),
            fn.random.uniform(range=(0, 1), seed=6),
        )

    found = []
    for seed in (1, 2):
        pipe = pipeline_def(define, batch_size=6, num_threads=1, device_id=None, seed=seed)(debug=debug)
        found.append([batch.as_array() for batch in pipe.run()])
    for first, second in zip(*found, strict=True):
        np.testing.assert_array_equal(first, second)
    picture, mask, window, one, ten, other = found[0]
    np.testing.assert_array_equal(picture + 1, mask)
    assert (picture == window).mean() > 0.9  # a position exactly between two pixels may take the other one
    np.testing.assert_allclose(10 * one, ten, rtol=1e-6)
    assert not np.allclose(one, other)
    assert len({crop.tobytes() for crop in picture}) == 6


def test_a_name_fixes_the_numbers():
    """A named operator keeps its numbers when others are added before it."""

    def values(extra):
        @pipeline_def(batch_size=8, num_threads=1, seed=3)
        def define():
            if extra:
                fn.random.uniform()
            return fn.random.uniform(name="mine")

        return define().run()[0].as_array()

    np.testing.assert_array_equal(values(False), values(True))


def test_a_pipeline_without_a_seed_tells_the_one_it_drew():
    """``pipe.seed`` repeats the run; two pipelines draw different ones."""

    def define():
        return fn.random.uniform(shape=8)

    first = pipeline_def(define, batch_size=2, num_threads=1)()
    again = pipeline_def(define, batch_size=2, num_threads=1, seed=first.seed)()
    other = pipeline_def(define, batch_size=2, num_threads=1)()
    np.testing.assert_array_equal(first.run()[0].as_array(), again.run()[0].as_array())
    assert other.seed != first.seed


def test_numbers_do_not_repeat_over_many_keys():
    """A million keys at one operator have different numbers, evenly spread over [0, 1)."""
    keys = seeds.sample_keys(seeds.node_key(1, "x"), np.arange(1_000_000), 0)
    numbers = seeds.unit(keys, 1)[:, 0]
    assert len(np.unique(keys)) == len(keys)
    counts = np.histogram(numbers, 100, (0, 1))[0]
    # 10,000 expected in each bin with a standard deviation of 100: six of them are allowed
    assert np.abs(counts - 10_000).max() < 600


def test_scalar_and_array_forms_agree():
    """One key asked for one number equals the column's entry."""
    keys = seeds.sample_keys(5, np.arange(10), 3)
    column = seeds.unit(keys, 4)
    for row, key in zip(column, keys.tolist()):
        assert [seeds.Key(key).unit(i) for i in range(4)] == row.tolist()


@pytest.mark.parametrize("kind", ["units", "normals"])
def test_number_i_of_a_key_is_the_same_wherever_one_starts(kind):
    """Numbers from `start` on are those that a longer question has there; none comes twice."""
    draw = getattr(seeds.Key(12), kind)
    whole = draw(40)
    assert len(set(whole.tolist())) == 40
    for start, count in ((0, 3), (2, 2), (1, 7), (20, 20)):
        assert draw(count, start=start).tolist() == whole[start : start + count].tolist()


@pytest.mark.parametrize("size", [1, 2, 3, 10, 1000, 1025])
def test_permutations_are_permutations(size):
    """Every index comes exactly once, alike for one position and for all of them."""
    scalar = [int(permute(np.array([index]), size, 77)[0]) for index in range(size)]
    assert sorted(scalar) == list(range(size))
    assert permute(np.arange(size), size, 77).tolist() == scalar
    if size > 100:
        assert scalar != permute(np.arange(size), size, 78).tolist()


@pytest.mark.parametrize("key", [0, 1, 12345, 2**63, 2**64 - 1])
def test_every_way_to_a_generator_gives_the_same_numbers(key):
    """A new generator, that of the thread, and those of a column of keys; also if the memory of the state is not known."""
    column = seeds.KeyedGenerator().rekey(seeds.generator_states(np.array([key], np.uint64))[0]).random(4).tolist()
    assert seeds.Key(key).generator().random(4).tolist() == column
    assert seeds.Key(key).borrowed().random(4).tolist() == column
    unknown = seeds.KeyedGenerator()
    unknown._words = None
    assert unknown.rekey(seeds.Key(key).state()).random(4).tolist() == column


def test_rekeyed_generators_forget_the_past():
    """What a generator gave before does not show after it is set to a key."""
    keyed = seeds.KeyedGenerator()
    states = seeds.generator_states(np.array([1, 2], np.uint64))
    first = keyed.rekey(states[0]).integers(0, 2**31, 5, dtype=np.int32).tolist()  # leaves half a number over
    keyed.rekey(states[1]).random()
    assert keyed.rekey(states[0]).integers(0, 2**31, 5, dtype=np.int32).tolist() == first
