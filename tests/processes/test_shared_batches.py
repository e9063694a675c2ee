"""Batches in memory shared with workers: written once on the way there, one dense array on the way back."""

import functools

import numpy as np
import pytest

from pipeflow import Spec, fn, pipeline_def

SHAPE = (40, 50, 3)  # 6 kB: large enough not to be copied out of the workers' memory


def images(shapes=None, batches=100, seed=0):
    """Batches of 6 random images; the shape of batch k is shapes[k % len(shapes)](sample)."""
    rng = np.random.default_rng(seed)
    for number in range(batches):
        shape = (shapes or [lambda _: SHAPE])[number % len(shapes or [1])]
        yield [rng.integers(0, 256, shape(i), np.uint8) for i in range(6)]


def make(function, shapes=None, cycle=None, **arguments):
    @pipeline_def(batch_size=6, num_threads=2, device_id=None, py_num_workers=2, seed=3)
    def pipeline():
        data = fn.external_source(functools.partial(images, shapes), batch=True, cycle=cycle)
        return fn.python_function(data, function=function, parallel="processes", **arguments)

    return pipeline()


def executor_of(pipe):
    pipe.build()
    return pipe._executor


def kinds(definition, **options):
    """Per operator the kind of memory its outputs are planned in."""
    pipe = pipeline_def(batch_size=6, num_threads=1, device_id=None, **options)(definition)()
    plan = executor_of(pipe).plan
    return {step.name: plan.slots[step.outputs[0]].memory for step in plan.steps() if step.outputs}


def invert(x):
    return 255 - x


def test_what_workers_alone_read_is_written_into_shared_memory():
    """Sources, kernels, reshapes and other functions before the only reader, a function in worker processes."""

    def definition():
        data = fn.external_source(images, batch=True, name="source")
        flipped = fn.flip(data, name="flip")
        part = fn.slice(flipped, 0, 10, axes=[0], name="slice")
        called = fn.python_function(part, function=invert, parallel="threads", name="threads")
        return fn.python_function(called, function=invert, parallel="processes", name="processes")

    found = kinds(definition)
    assert found["threads"] == "shared"
    assert found["source"] == found["flip"] == found["processes"] == "heap"


@pytest.mark.parametrize("rule", ["other reader", "output", "twice", "skip", "replace"])
def test_memory_with_other_readers_is_not_shared(rule):
    """Who else reads it would see what a function writes; and rows that may be run again must be as they were."""

    def definition():
        data = fn.external_source(images, batch=True, name="source")
        inputs = [data, data] if rule == "twice" else [data]
        on_error = rule if rule in ("skip", "replace") else "raise"
        result = fn.python_function(*inputs, function=lambda x, *_: invert(x), parallel="processes", on_error=on_error)
        if rule == "other reader":
            return result, data + 1
        return (result, data) if rule == "output" else result

    assert kinds(definition)["source"] == "heap"


def test_an_input_is_copied_once():
    """What the workers' memory holds of a batch is the batch: it was written there and nowhere copied to again."""
    pipe = make(invert)
    for expected in [batch for batch, _ in zip(images(), range(4))]:
        (batch,) = pipe.run()
        np.testing.assert_array_equal(batch.as_array(), [invert(x) for x in expected])
    size = 6 * int(np.prod(SHAPE))
    assert size <= executor_of(pipe).crew.workers._region_bytes < size + 64


@pytest.mark.parametrize("promised", [True, False])
def test_equal_results_come_back_as_one_array(promised):
    """as_array() is a view of what the workers wrote: always where shapes are promised, else once a batch has come back."""
    pipe = make(invert, outputs=Spec(np.uint8, SHAPE, "HWC") if promised else None)
    for number, expected in zip(range(4), images()):
        (batch,) = pipe.run()
        first = batch.at(0)
        whole = batch.as_array()
        np.testing.assert_array_equal(whole, [invert(x) for x in expected])
        assert np.shares_memory(first, whole) or (number < 4 and not promised)


def test_whole_batches_come_back_as_one_array():
    """So do those of functions that make a batch at a time."""
    pipe = make(lambda samples: 255 - np.stack(samples), batch_processing=True)
    for _, expected in zip(range(3), images()):
        (batch,) = pipe.run()
        first = batch.at(5)
        np.testing.assert_array_equal(batch.as_array(), [invert(x) for x in expected])
        assert np.shares_memory(first, batch.as_array())


def test_shapes_may_change_from_batch_to_batch():
    """Dense, ragged, other dense and small batches follow each other; results of another shape than expected are right too."""
    shapes = [
        lambda _: SHAPE,
        lambda _: SHAPE,
        lambda i: (40, 50 + i, 3),
        lambda _: (90, 90, 3),
        lambda _: (1, 2, 3),
        lambda i: SHAPE if i else (3, 3, 3),
        lambda _: SHAPE,
    ]
    pipe = make(lambda x: (invert(x), x.sum(), x[:1].astype(np.float32)), shapes, num_outputs=3)
    kept = []
    for _, expected in zip(range(21), images(shapes)):
        kept.append((expected, pipe.run()))
    for expected, (inverted, sums, rows) in kept:
        for i, image in enumerate(expected):
            np.testing.assert_array_equal(inverted.at(i), invert(image))
            assert int(sums.at(i)) == image.sum()
            np.testing.assert_array_equal(rows.at(i), image[:1])


def test_kept_batches_stay_as_they_are():
    """The memory of results is not used again while a batch, one sample or a view of one is kept."""
    pipe = make(invert)
    kept = [pipe.run()[0].at(k % 6)[3:5] for k in range(30)]
    for k, expected in zip(range(30), images()):
        np.testing.assert_array_equal(kept[k], invert(expected[k % 6])[3:5])
    blocks = executor_of(pipe).shared_memory()
    del kept
    for _ in range(20):
        pipe.run()
    # Batches may be in flight now that were not when the blocks were counted. If no block were used again, there were 20 more.
    assert len(executor_of(pipe).shared_memory()) <= len(blocks) + 8


def test_small_results_do_not_hold_the_images():
    """Who keeps the labels of a batch does not keep its images."""
    pipe = make(lambda x: (invert(x), np.int64(x.sum())), num_outputs=2)
    labels = [pipe.run()[1] for _ in range(60)]
    assert sum(executor_of(pipe).shared_memory()) < 60 * 6 * int(np.prod(SHAPE)) * 3 // 4
    assert [int(label.at(0)) for label in labels] == [x[0].sum() for _, x in zip(range(60), images())]


def test_rows_of_a_branch():
    """Inside a condition only some rows go to the workers; they come back in their places."""

    @pipeline_def(batch_size=6, num_threads=2, device_id=None, py_num_workers=2, enable_conditionals=True)
    def pipeline():
        data = fn.external_source(images, batch=True)
        number = fn.external_source(lambda: np.arange(6), batch=True)
        if number % 2 == 0:
            result = fn.python_function(data, function=invert, parallel="processes")
        else:
            result = fn.copy(data)
        return result

    pipe = pipeline()
    for _, expected in zip(range(4), images()):
        (batch,) = pipe.run()
        for i, image in enumerate(expected):
            np.testing.assert_array_equal(batch.at(i), image if i % 2 else invert(image))


def test_failing_rows_among_good_ones():
    """Rows that fail are left out or raised; the others are right, whether results were expected or not."""

    def picky(x):
        if x[0, 0, 0] % 4 == 0:
            raise ValueError("divisible")
        return invert(x)

    pipe = make(picky, on_error="skip")
    for _, expected in zip(range(8), images()):
        (batch,) = pipe.run()
        good = [invert(x) for x in expected if x[0, 0, 0] % 4]
        assert len(batch) == len(good)
        for one, other in zip(batch.samples(), good, strict=True):
            np.testing.assert_array_equal(one, other)
    failing, errors = make(picky), 0
    for _, expected in zip(range(8), images()):
        if all(x[0, 0, 0] % 4 for x in expected):
            np.testing.assert_array_equal(failing.run()[0].as_array(), [invert(x) for x in expected])
        else:
            errors += 1
            with pytest.raises(ValueError, match="divisible"):
                failing.run()
    assert errors


def test_functions_may_change_what_they_are_given():
    """The shared memory of a batch is the functions' own: changes in place arrive, and reach no later batch."""

    def in_place(x):
        np.subtract(255, x, out=x)
        return x

    pipe = make(in_place)
    for _, expected in zip(range(6), images()):
        np.testing.assert_array_equal(pipe.run()[0].as_array(), [invert(x) for x in expected])


class Remembers:
    """Keeps every input and returns the one before."""

    def __init__(self):
        self.kept = []

    def __call__(self, x):
        self.kept.append(x)
        return self.kept[0]


def test_inputs_that_a_function_keeps_are_not_overwritten():
    """A worker that still refers to the memory of a batch keeps it; the pipeline takes other memory."""
    pipe = make(Remembers())
    firsts = []
    for _ in range(8):
        (batch,) = pipe.run()
        firsts += [x.tobytes() for x in batch.samples()]
    everything = {x.tobytes() for _, batch in zip(range(8), images()) for x in batch}
    assert set(firsts) <= everything
    assert len(set(firsts)) <= 2  # one a worker


def test_a_reset_while_workers_write():
    """Batches that nobody waits for any more give their memory back only when the workers are done with it."""
    pipe = make(invert, cycle="raise")
    for _ in range(5):
        np.testing.assert_array_equal(pipe.run()[0].as_array(), [invert(x) for x in next(images())])
        pipe.reset()


def test_hints_reserve_no_heap_for_workers():
    """bytes_per_sample_hint reserves memory of this process only where a function's results lie there."""

    @pipeline_def(batch_size=6, num_threads=1, device_id=None)
    def pipeline(parallel):
        data = fn.external_source(images, batch=True)
        first = fn.python_function(data, function=invert, bytes_per_sample_hint=6000)
        return fn.python_function(first, function=invert, parallel=parallel, bytes_per_sample_hint=6000)

    reserved = [
        executor_of(pipeline(parallel)).statistics()["pool"]["reserved"] for parallel in ("serial", "processes")
    ]
    assert reserved[0] > 0
    assert reserved[1] == 0
