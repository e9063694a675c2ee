"""Small batches get their random numbers, and what is made of them alone, for several batches at once: the same values."""

from types import SimpleNamespace

import numpy as np
import pytest

from pipeflow import fn, pipeline_def, seeds
from pipeflow.executor import ahead, ring
from pipeflow.executor.ahead import MOST_BATCHES, SAMPLES, MadeAhead
from pipeflow.executor.batch import BatchRun
from pipeflow.executor.runners import whole
from pipeflow.operators.readers.order import Sampler

SYNCHRONOUS = {"exec_async": False, "exec_pipelined": False}


def matrices():
    """Random arguments and matrices of them; a step in between is an output too."""
    angle = fn.random.uniform(range=(0.0, 90.0))
    turn = fn.transforms.rotation(angle=angle, center=[1.0, 2.0])
    grow = fn.transforms.scale(turn, scale=fn.random.uniform(range=(0.5, 2.0), shape=2))
    return angle, grow, fn.transforms.combine(turn, grow)


def windows():
    """Draws of operators with inputs of one shape, and numbers computed of columns."""
    begin, shape = (
        fn.roi_random_crop(roi_start=[10, 20], roi_shape=[90, 80], crop_shape=[60, 50]),
        fn.random.coin_flip(),
    )
    return begin, shape * 2 + 1, fn.random.beta(alpha=0.5, beta=0.5), fn.batch_permutation()


def images():
    """A source whose operators take random arguments, and draw numbers of their own."""
    x = fn.external_source(pictures(), layout="HWC", cycle="raise")
    x = fn.rotate(x, angle=fn.random.uniform(range=(-20.0, 20.0)), fill_value=0, keep_size=True)
    x = fn.noise.gaussian(fn.brightness(x, brightness=fn.random.uniform(range=(0.5, 1.5))), stddev=4.0)
    return x, fn.transforms.rotation(angle=fn.random.normal(stddev=9.0))


def orders():
    """Orders of the samples of whole and of shorter batches; a user writes into one of them."""
    x = fn.external_source(pictures(), layout="HWC", cycle="raise")
    order = fn.batch_permutation()
    others = fn.batch_permutation(no_fixed_points=True), fn.batch_permutation(allow_repetitions=True)
    return (
        fn.permute_batch(x, indices=order),
        order,
        *others,
        fn.python_function(fn.batch_permutation(), function=added),
    )


def added(x):
    x += 1
    return x


def branches():
    """A condition on a random number, with random numbers in its branches."""
    flag = fn.random.coin_flip()
    if flag:
        x = fn.transforms.rotation(angle=fn.random.uniform(range=(0.0, 90.0)))
    else:
        x = fn.transforms.scale(scale=fn.random.uniform(range=(0.5, 2.0), shape=2))
    return flag, x


def written():
    """A function that writes into the numbers that it gets."""

    def grow(x):
        x += 1.0
        return x

    return fn.python_function(fn.random.uniform(shape=3), function=grow)


def pictures():
    """Batches of small images of one and two sizes, the last of each epoch shorter."""
    random = np.random.default_rng(0)
    full = [random.integers(0, 256, (4, 6 + k % 2, 5, 3), np.uint8) for k in range(7)]
    return [list(batch) for batch in full] + [list(full[0][:2])]


def values(outputs):
    return [[(x.dtype.str, x.shape, x.tobytes()) for x in map(np.array, batch)] for batch in outputs]


def batches(define, count, monkeypatch, together=True, **settings):
    """The values of so many batches, and the number of those that got a part."""
    given = []
    give = MadeAhead.give

    def noted(self, batch):
        given.append(give(self, batch))
        return given[-1]

    with monkeypatch.context() as patched:
        patched.setattr(MadeAhead, "give", noted)
        if not together:
            patched.setattr(ring.MadeAhead, "of", lambda *_: None)
        pipe = pipeline_def(seed=3, enable_conditionals=True, **settings)(define)()
        found = []
        for _ in range(2 * count):
            try:
                found.append(values(pipe.run()))
            except StopIteration:
                pipe.reset()
            if len(found) == count:
                break
        pipe._executor.close()
    return found, sum(given)


@pytest.mark.parametrize("settings", [{"num_threads": 1}, {"num_threads": 3, "prefetch_queue_depth": 4}, SYNCHRONOUS])
@pytest.mark.parametrize("define", [matrices, windows, images, orders, branches, written])
def test_values_are_those_of_single_batches(define, settings, monkeypatch):
    """Bit for bit, over more batches than one long batch has, and over the ends of epochs."""
    size = 4
    alone, none = batches(define, 40, monkeypatch, together=False, batch_size=size, **settings)
    assert none == 0
    found, given = batches(define, 40, monkeypatch, batch_size=size, **settings)
    assert given > 30
    assert found == alone


@pytest.mark.parametrize(("function", "made"), [(lambda x: x + 1, False), (lambda x, rng: x + rng.random(), True)])
def test_a_function_without_random_numbers_gets_no_part(function, made, monkeypatch):
    """It has no key of its own: nothing is made ahead for it."""
    keys, keys_of = [], seeds.keys_of
    monkeypatch.setattr(seeds, "keys_of", lambda *rest: keys.append(1) or keys_of(*rest))

    def define():
        return fn.python_function(fn.external_source(lambda: np.zeros((4, 2))), function=function)

    _, given = batches(define, 6, monkeypatch, batch_size=4)
    assert (given > 0, bool(keys)) == (made, made)


@pytest.mark.parametrize("settings", [{}, {"num_shards": 2, "shard_id": 1}, {"pad_last_batch": True}])
@pytest.mark.parametrize("shuffled", [False, True])
@pytest.mark.parametrize("size", [4, 5])
def test_positions_of_readers(size, shuffled, settings, tmp_path, monkeypatch):
    """Over several epochs, whose ends may be inside a batch; the samples of a shuffled shard are not neighbours."""
    names = [str(tmp_path / f"{number}.bin") for number in range(22)]
    for number, name in enumerate(names):
        with open(name, "wb") as file:
            file.write(bytes([number, number]))

    def define():
        data, label = fn.readers.file(files=names, random_shuffle=shuffled, **settings)
        return data, label, fn.transforms.rotation(angle=fn.random.uniform(range=(0.0, 90.0)))

    alone, _ = batches(define, 20, monkeypatch, together=False, batch_size=size)
    found, given = batches(define, 20, monkeypatch, batch_size=size)
    assert given > 0
    assert found == alone
    if settings.get("num_shards") and shuffled:  # only batches that are read early have parts
        assert batches(define, 20, monkeypatch, batch_size=size, **SYNCHRONOUS) == (alone, 0)


def files(folder, count=22):
    """A pipeline that reads small files in random order."""
    names = [str(folder / f"{number}.bin") for number in range(count)]
    for number, name in enumerate(names):
        with open(name, "wb") as file:
            file.write(bytes([number, number]))

    def define():
        data, label = fn.readers.file(files=names, random_shuffle=True, name="files")
        return data, label, fn.random.uniform(range=(0.0, 90.0))

    return define


def taken(pipe, count):
    """Values and sources of some batches."""
    found = []
    for _ in range(count):
        batch = pipe.run()
        found.append((values(batch), list(batch[0].source_info())))
    return found


def walks(define, alone, monkeypatch, **settings):
    """The batches of a pipeline whose course changes at many places; and how many were read before they were scheduled."""
    make, handed = pipeline_def(batch_size=4, seed=3, enable_checkpointing=True, **settings)(define), []
    hand_over = MadeAhead.hand_over

    def noted(self, batch):
        handed.append(hand_over(self, batch))
        return handed[-1]

    with monkeypatch.context() as patched:
        patched.setattr(MadeAhead, "hand_over", noted)
        if alone:
            patched.setattr(ahead, "READ_FROM", 1 << 60)
        pipe = make()
        found = taken(pipe, 11)
        saved = pipe.checkpoint()
        found += taken(pipe, 3)
        again = make(checkpoint=saved)
        found += taken(again, 12)
        pipe.reset()
        found += taken(pipe, 7)
        pipe._executor.seek(5, 2)
        found += taken(pipe, 9)
        pipe.reset()
        for _ in range(2):
            found += [values(batch) for batch in pipe.epoch()]
        pipe.reset()
        found += taken(pipe, 9)
        found.append(pipe.checkpoint())
    for one in (pipe, again):
        one._executor.close()
    return found, sum(handed)


@pytest.mark.parametrize("settings", [{"num_threads": 1}, {"num_threads": 3, "prefetch_queue_depth": 4}])
def test_batches_that_are_read_early(settings, tmp_path, monkeypatch):
    """They are those that are read in their turn, also after a checkpoint, a reset, a jump and the ends of epochs."""
    define = files(tmp_path)
    alone, none = walks(define, True, monkeypatch, **settings)
    found, handed = walks(define, False, monkeypatch, **settings)
    assert none == 0
    assert handed > 20
    assert found == alone


def test_a_reader_that_fails_early(tmp_path, monkeypatch):
    """An error while the next batches are read is raised in the turn of its batch, and no sample is lost."""
    take, calls = Sampler.take, []

    def failing(self, *args):
        calls.append(0)
        if len(calls) == 12:
            raise ValueError("bad")
        return take(self, *args)

    make = pipeline_def(batch_size=4, seed=3, num_threads=1)(files(tmp_path))
    other = make()
    alone = taken(other, 20)
    other._executor.close()  # it would go on reading, and be counted
    monkeypatch.setattr(Sampler, "take", failing)
    assert taken(make(), 20) == alone
    assert len(calls) > 20


def test_an_interrupt_after_batches_were_read_early(tmp_path, monkeypatch):
    """The caller makes batches that a thread has read; an interrupt while it takes one over loses none."""
    make = pipeline_def(batch_size=4, seed=3, num_threads=1)(files(tmp_path))
    alone = taken(make(), 20)
    pipe = make()
    found = taken(pipe, 7)
    executor = pipe._executor
    take_over, interrupts = BatchRun.take_over, [0]

    def interrupted(self, other):
        if interrupts:
            interrupts.pop()
            raise KeyboardInterrupt
        take_over(self, other)

    executor.brisk = SimpleNamespace(by_caller=True, delivered=lambda *_: None)
    found += taken(pipe, 4)  # the caller makes batches as soon as those in flight are taken
    assert executor._by_caller
    assert executor.ahead._later
    monkeypatch.setattr(BatchRun, "take_over", interrupted)
    with pytest.raises(KeyboardInterrupt):
        pipe.run()
    found += taken(pipe, 20 - len(found))
    assert found == alone


@pytest.mark.parametrize("size", [1, 3, 16, 17, SAMPLES // 2, SAMPLES // 2 + 1])
def test_batches_of_any_size(size, monkeypatch):
    """From one sample to the largest small batch; a larger one makes its own numbers."""
    found, given = batches(matrices, 2 * MOST_BATCHES + 3, monkeypatch, batch_size=size)
    alone, _ = batches(matrices, 2 * MOST_BATCHES + 3, monkeypatch, together=False, batch_size=size)
    assert (given > 0) is (2 * size <= SAMPLES)
    assert found == alone


def test_steps_run_once_for_many_batches(monkeypatch):
    """The matrices of a long batch are made in one call."""
    make, sizes = MadeAhead._make, []

    def noted(self, batch, *args):
        long = make(self, batch, *args)
        sizes.append((long.size, long.done_ahead))
        return long

    monkeypatch.setattr(MadeAhead, "_make", noted)
    batches(matrices, MOST_BATCHES + 1, monkeypatch, batch_size=4, **SYNCHRONOUS)
    assert sizes == [(4 * MOST_BATCHES, frozenset({0, 1, 2}))]


def test_orders_of_many_batches_are_made_at_once(monkeypatch):
    """Each batch gets a row of them, if it is whole and begins where a row begins."""
    made, several = [], whole.WholeStep.several

    def counted(self, long, size):
        made.append(long.size)
        return several(self, long, size)

    monkeypatch.setattr(whole.WholeStep, "several", counted)
    define = pipeline_def(batch_size=4, num_threads=1, device_id=None, seed=2)(fn.batch_permutation)
    pipe = define()
    found = [np.array(pipe.run()[0]).tolist() for _ in range(2 * MOST_BATCHES)]
    assert 1 < len(made) <= 4
    assert len({tuple(order) for order in found}) > 10
    assert all(sorted(order) == [0, 1, 2, 3] for order in found)


@pytest.mark.parametrize("rule", ["skip", "replace"])
def test_rows_of_failed_samples(rule, monkeypatch):
    """A row that is left out, or made again of another sample, has the numbers of single batches."""

    def define():
        def fails(x):
            if int(x[0]) % 5 == 3:
                raise ValueError("bad")
            return x

        x = fn.python_function(fn.external_source(counted(), batch=False), function=fails)
        turn = fn.transforms.rotation(angle=fn.random.uniform(range=(0.0, 90.0)))
        return x, turn, fn.coord_transform(fn.cast(x, dtype=np.float32), MT=turn)

    alone, _ = batches(define, 8, monkeypatch, together=False, batch_size=4, on_error=rule)
    found, given = batches(define, 8, monkeypatch, batch_size=4, on_error=rule)
    assert given
    assert found == alone


def counted():
    return lambda info: np.array([info.idx_in_epoch, 1])


def test_what_a_user_writes_is_not_given_again():
    """After a return to an earlier place, batches have their numbers, and not what the user has written into them."""
    define = pipeline_def(batch_size=4, seed=3, enable_checkpointing=True)(matrices)
    pipe = define()
    first = [values(pipe.run()) for _ in range(2)]
    saved = pipe.checkpoint()
    for _ in range(5):
        for output in pipe.run():
            for sample in output:
                np.asarray(sample)[...] = 0
    again, other = define(checkpoint=saved), define()
    assert [values(other.run()) for _ in range(2)] == first
    later = [values(again.run()) for _ in range(5)]
    assert later == [values(other.run()) for _ in range(5)]
    pipe._executor.go_to(pipe._executor.course.state() | {"position": 8, "iteration": 2})
    assert [values(pipe.run()) for _ in range(5)] == later


def test_an_interrupted_batch_gets_new_numbers(monkeypatch):
    """A function that wrote into its input and was interrupted gets the numbers again."""
    once = []

    def define():
        def grow(x):
            x += 1.0
            if len(once) < 9:
                once.append(0)
                if len(once) == 9:
                    raise KeyboardInterrupt
            return x

        return fn.python_function(fn.random.uniform(shape=3), function=grow)

    alone, _ = batches(written, 6, monkeypatch, batch_size=2, **SYNCHRONOUS)
    pipe = pipeline_def(batch_size=2, seed=3, **SYNCHRONOUS)(define)()
    found = [values(pipe.run()) for _ in range(4)]
    with pytest.raises(KeyboardInterrupt):
        pipe.run()
    found += [values(pipe.run()) for _ in range(2)]
    assert found == alone


def test_an_error_of_a_column_is_that_of_its_batch():
    """The numbers for the next batches have the error already; it is raised in the turn of the batch that it belongs to."""

    @pipeline_def(batch_size=2, seed=3)
    def define():
        # the probability grows with the draw, and is above 1 for a few samples
        return fn.random.coin_flip(probability=fn.random.uniform(range=(0.0, 1.03)))

    pipe, notes = define(), {}
    for number in range(60):
        try:
            pipe.run()
        except ValueError as error:
            notes[number] = "".join(error.__notes__)
    assert 0 < len(notes) < 20
    assert all(f"batch {number}" in said for number, said in notes.items())
