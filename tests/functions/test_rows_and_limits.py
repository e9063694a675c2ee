"""Rows that are made again or left out, with everything that goes along: arguments, sources, masks and counts."""

from fractions import Fraction

import numpy as np
import pytest
from loop.loops import read_numbers

from pipeflow import fn, pipeline_def, types
from pipeflow.epochs import LastBatchPolicy
from pipeflow.errors import TooManyFailures
from pipeflow.executor.failures import IN_A_ROW, JUDGED
from pipeflow.plugin.numpy import GenericIterator

BATCH = 8


def number(info):
    return np.full(2, info.idx_in_epoch, np.int32)


def failing(*bad):
    """A function that fails for these numbers."""

    def function(x, *others):
        if int(x[0]) in bad:
            raise ValueError(f"bad sample {int(x[0])}")
        return x

    return function


def pipeline(define, **settings):
    return pipeline_def(define, **{"batch_size": BATCH, "num_threads": 2, "seed": 5, **settings})()


def firsts(batch):
    return [float(np.ravel(x)[0]) for x in batch.samples()]


def column(of):
    """Numbers plus one, as samples of an operator, of a function of one sample, or of a function of the whole batch."""
    if of == "an operator":
        return lambda x: fn.cast(fn.reductions.max(x), dtype=types.FLOAT) + 1.0
    if of == "a function":
        return lambda x: fn.python_function(x, function=lambda x: np.float32(x[0] + 1))
    whole = lambda batch: np.array([x[0] + 1 for x in batch], np.float32)
    return lambda x: fn.python_function(x, function=whole, batch_processing=True)


@pytest.mark.parametrize("of", ["an operator", "a function", "a batch function"])
def test_a_row_is_made_again_with_the_arguments_of_its_new_source(of):
    """An argument that an earlier stage computed is that of the row whose source was taken, wherever it was kept."""

    def define():
        x = fn.external_source(number, batch=False, dtype=types.INT32, ndim=1)
        factor = column(of)(x)
        image = fn.python_function(x, function=lambda x: np.ones((1, 1, 1), np.float32))
        scaled = fn.brightness(image, brightness=factor)
        ones = fn.python_function(x, function=lambda x: np.ones(2, np.float32))
        filtered = fn.preemphasis_filter(ones, preemph_coeff=factor)  # one minus the factor, by no table
        checked = fn.python_function(x, scaled, filtered, function=failing(1, 5), on_error="replace")
        return checked, scaled, fn.brightness(image, brightness=factor, brightness_shift=0.5), factor, filtered

    expected = [0, 2, 2, 3, 4, 6, 6, 7]
    checked, scaled, after, factor, filtered = pipeline(define).run()
    assert firsts(checked) == expected
    assert firsts(factor) == firsts(scaled) == [taken + 1 for taken in expected]
    assert firsts(after) == [taken + 1.5 for taken in expected]
    assert [float(x[1]) for x in filtered.samples()] == [-taken for taken in expected]


def test_the_failure_of_a_replaced_row_names_its_own_file(tmp_path):
    """The list of failures has the file that was broken, not the one that took its place."""
    for index in range(BATCH):
        np.save(tmp_path / f"{index}.npy", np.full(2, index, np.int32))

    def define():
        x = fn.readers.numpy(file_root=str(tmp_path), file_filter="*.npy", name="reader")
        y = fn.python_function(x, function=lambda x: x + 1)
        return x, fn.python_function(y, function=failing(3, 4), on_error="replace")  # numbers 2 and 3

    pipe = pipeline(define)
    plain, _ = pipe.run()
    assert firsts(plain) == [0, 1, 4, 4, 4, 5, 6, 7]
    assert [failure.source.rpartition("/")[2] for failure in pipe.failures()] == ["2.npy", "3.npy"]
    assert [failure.sample for failure in pipe.failures()] == [2, 3]
    # what was delivered came from the other file, and says so
    assert [info.rpartition("/")[2] for info in plain.source_info()] == [f"{n}.npy" for n in (0, 1, 4, 4, 4, 5, 6, 7)]


def test_a_replaced_row_that_is_left_out_later_keeps_its_own_file(tmp_path):
    """Row 2 is made of 3.npy, which fails in the next function: its failures tell where the row itself came from."""
    for index in range(BATCH):
        np.save(tmp_path / f"{index}.npy", np.full(2, index, np.int32))

    def define():
        x = fn.readers.numpy(file_root=str(tmp_path), file_filter="*.npy", name="reader")
        y = fn.python_function(x, function=failing(2), on_error="replace")
        return fn.python_function(y, function=failing(3), on_error="skip")

    pipe = pipeline(define)
    (left,) = pipe.run()
    assert firsts(left) == [0, 1, 4, 5, 6, 7]
    found = [(failure.sample, failure.action, failure.source.rpartition("/")[2]) for failure in pipe.failures()]
    assert sorted(found) == [(2, "replace", "2.npy"), (2, "skip", "2.npy"), (3, "skip", "3.npy")]


@pytest.mark.parametrize(
    ("bad", "last", "mask"),
    [(8, [9, 9, 9], [True, False, False]), (0, [8, 9, 9, 9], [True, True, False, False]), (9, [8], [True])],
)
def test_the_mask_of_a_padded_batch_leaves_out_the_rows_that_are_left_out(bad, last, mask):
    """Ten samples in batches of four, the last one padded: the mask has an entry for each row that is delivered."""

    def define():
        x = read_numbers(count=10, name="reader", pad_last_batch=True)
        return fn.python_function(x, function=lambda x: failing(bad)(np.atleast_1d(x)), on_error="skip")

    iterator = GenericIterator(
        pipeline(define, batch_size=4), ["x"], reader_name="reader", last_batch_policy=LastBatchPolicy.FILL, mask="mask"
    )
    for _ in range(2):
        batches = [(np.ravel(batch[0]["x"]).tolist(), np.ravel(batch[0]["mask"]).tolist()) for batch in iterator]
        assert batches[-1] == (last, mask)
        assert [len(values) for values, _ in batches] == [len(valid) for _, valid in batches]
        assert sorted({value for values, _ in batches for value in values}) == [n for n in range(10) if n != bad]
        assert all(all(valid) for _, valid in batches[:-1])


@pytest.mark.parametrize("limit", [0, 1, 3, 6])
def test_as_many_failures_as_the_limit_are_allowed(limit):
    """max_failures=3 goes on after the third failure, and ends at the fourth."""

    def define():
        x = fn.external_source(number, batch=False)
        return fn.python_function(x, function=failing(*range(0, 8 * BATCH, BATCH)), on_error="skip")

    pipe = pipeline(define, max_failures=limit)
    for batch in range(limit):
        assert len(pipe.run()[0]) == BATCH - 1
        assert len(pipe.failures()) == batch + 1
    with pytest.raises(TooManyFailures, match=f"more than max_failures={limit} allows"):
        pipe.run()


@pytest.mark.parametrize("limit", [0.01, Fraction(1, 100)])
def test_a_share_may_be_reached(limit):
    """A hundredth of the thousand samples that are judged is ten: ten failures are allowed, the eleventh is not."""

    def define():
        x = fn.external_source(number, batch=False)
        return fn.python_function(x, function=failing(*range(11)), on_error="skip")

    pipe = pipeline(define, max_failures=limit, batch_size=10)
    assert JUDGED == 1000
    assert len(pipe.run()[0]) == 0
    with pytest.raises(TooManyFailures, match="11 samples of 20 failed"):
        pipe.run()


class Ending:
    """Twelve numbers, then an error for ever: as a callable of single samples, or as an iterator."""

    def __init__(self, count=12):
        self.count = count
        self.given = 0

    def __call__(self, info):
        return self.number(info.idx_in_epoch)

    def __iter__(self):
        return self

    def __next__(self):
        self.given += 1
        return self.number(self.given - 1)

    def number(self, index):
        if index >= self.count:
            raise IndexError(f"there is no number {index}")
        return np.full(2, index, np.int32)


class OnlyCalled(Ending):
    """The same without an iterator."""

    __iter__ = __next__ = None


def run_to_the_end(pipe, most=3 * IN_A_ROW // BATCH):
    """Runs a pipeline until it reports that nothing is left; other errors are passed over. The runs, and the error."""
    for run in range(most):
        try:
            pipe.run()
        except TooManyFailures as error:
            return run, error
        except (IndexError, ValueError):
            pass
    raise AssertionError(f"{most} batches, and no end")


@pytest.mark.parametrize("debug", [False, True])
@pytest.mark.parametrize("rule", ["skip", "replace", np.zeros(2, np.int32)], ids=["skip", "replace", "value"])
def test_a_callable_that_fails_for_ever_ends_the_job(rule, debug):
    """After a thousand failures in a row the error has the source, the number and the cure; half a batch before was good."""
    source = OnlyCalled(BATCH + BATCH // 2).__call__
    pipe = pipeline(lambda: fn.external_source(source, batch=False, on_error=rule), debug=debug)
    runs, error = run_to_the_end(pipe)
    bad = BATCH // 2 + (runs - 1) * BATCH
    assert bad == next(count for count in range(BATCH // 2, 2 * IN_A_ROW, BATCH) if count >= IN_A_ROW)
    assert f"{bad} samples in a row of fn.external_source failed" in str(error)
    assert f"there is no number {12 + bad - 1}" in str(error)
    assert "let the source raise StopIteration" in str(error)
    assert "max_failures=N" in str(error)
    assert isinstance(error.__cause__, IndexError)
    assert any("called at" in note for note in error.__notes__)


def test_an_epoch_of_failures_ends_under_every_policy(monkeypatch):
    """Loops over a source without an end get the error too, and DROP does not search for a full batch for ever."""
    monkeypatch.setattr("pipeflow.executor.failures.IN_A_ROW", 50)
    for policy in LastBatchPolicy:
        pipe = pipeline(lambda: fn.external_source(OnlyCalled().__call__, batch=False, on_error="skip"))
        with pytest.raises(TooManyFailures, match="52 samples in a row"):
            list(GenericIterator(pipe, ["x"], last_batch_policy=policy))


def test_rows_that_are_skipped_do_not_drop_their_batch():
    """DROP leaves out what the source left short. A batch that lost a bad sample keeps its good ones."""
    source = [
        np.arange(8 * first, 8 * first + size, dtype=np.int32)[:, None] for first, size in ((0, 8), (1, 8), (2, 3))
    ]

    def define():
        return fn.python_function(fn.external_source(source), function=failing(3), on_error="skip")

    iterator = GenericIterator(pipeline(define), ["x"], last_batch_policy=LastBatchPolicy.DROP)
    assert [len(batch[0]["x"]) for batch in iterator] == [BATCH - 1, BATCH]


def test_an_iterator_that_fails_ends_the_loop_with_its_own_error():
    """An iterator cannot pass over an item, so its error is raised in the batch, and a loop ends there."""
    for batched in (False, True):
        pipe = pipeline(lambda b=batched: fn.external_source(iter(Ending(0)), batch=b, on_error="skip"))
        with pytest.raises(IndexError, match="there is no number 0"):
            list(pipe.epoch())


def damaged(folder, count):
    """A folder of files that no decoder can read."""
    for number in range(count):
        (folder / f"{number:02}.jpg").write_bytes(b"not a picture")
    return folder


@pytest.mark.parametrize("rule", ["skip", "replace"])
@pytest.mark.parametrize("shards", [1, 2])
def test_a_folder_of_damaged_files_is_an_error(rule, shards, tmp_path):
    """So many failures in a row that a whole epoch is among them."""
    damaged(tmp_path, 3 * BATCH)

    def define():
        encoded, _ = fn.readers.file(files=sorted(map(str, tmp_path.iterdir())), num_shards=shards, stick_to_shard=True)
        return fn.decoders.image(encoded, on_error=rule)

    runs, error = run_to_the_end(pipeline(define))
    assert runs == 5
    assert "48 samples in a row of fn.readers.file failed" in str(error)
    assert ".jpg) in fn.decoders.image" in str(error)
    assert "Look at the data" in str(error)


def damaged_arrays(folder, count):
    for number in range(count):
        (folder / f"{number}.npy").write_bytes(b"nothing")


@pytest.mark.parametrize("rule", ["skip", "replace"])
def test_a_folder_of_damaged_arrays_is_an_error(rule, tmp_path):
    """The same if the reader itself decodes the files."""
    damaged_arrays(tmp_path, BATCH + 1)
    pipe = pipeline(lambda: fn.readers.numpy(file_root=str(tmp_path), file_filter="*.npy", on_error=rule))
    runs, error = run_to_the_end(pipe)
    assert runs == 2
    assert "24 samples in a row of fn.readers.numpy failed" in str(error)


def test_bad_samples_on_both_sides_of_the_end_of_an_epoch_are_no_reason_to_stop(tmp_path):
    """With one good sample in an epoch, most runs of bad ones reach into the next epoch."""
    damaged_arrays(tmp_path, BATCH)
    np.save(tmp_path / "0.npy", np.zeros(2))
    pipe = pipeline(
        lambda: fn.readers.numpy(file_root=str(tmp_path), file_filter="*.npy", random_shuffle=True, on_error="skip")
    )
    assert [len(pipe.run()[0]) for _ in range(50)] == [1] * 50


def test_a_job_with_good_samples_goes_on_through_a_long_bad_part(monkeypatch, tmp_path):
    """A thousand bad samples end a job that has had no good one; later only a whole epoch of them does."""
    monkeypatch.setattr("pipeflow.executor.failures.IN_A_ROW", 10)
    damaged_arrays(tmp_path, 40)
    np.save(tmp_path / "0.npy", np.zeros(2))
    files = sorted(map(str, tmp_path.iterdir()))
    pipe = pipeline(lambda: fn.readers.numpy(files=files, on_error="skip"))
    assert sum(len(pipe.run()[0]) for _ in range(10)) == 2
    bad_first = pipeline(lambda: fn.readers.numpy(files=files[::-1], on_error="skip"))
    runs, error = run_to_the_end(bad_first)
    assert runs == 1
    assert "16 samples in a row" in str(error)


def test_one_good_sample_in_an_epoch_is_enough(tmp_path):
    """A folder with one good file goes on for ever, and so does one whose function gives a value for every failure."""
    damaged(tmp_path, BATCH)
    np.save(tmp_path / "good.npy", np.zeros(2))
    files = sorted(map(str, tmp_path.iterdir()))
    pipe = pipeline(lambda: fn.readers.numpy(files=files, on_error="skip"))
    assert sum(len(pipe.run()[0]) for _ in range(2 * len(files))) == 2 * BATCH

    def define():
        return fn.python_function(fn.readers.numpy(files=files[-1:]), function=failing(0), on_error=np.ones(2))

    valued = pipeline(define)
    assert [firsts(valued.run()[0]) for _ in range(3)] == [[1.0] * BATCH] * 3


def test_max_failures_alone_decides_where_it_is_given():
    """A number of allowed failures also allows them in a row."""
    source = OnlyCalled(0).__call__
    pipe = pipeline(
        lambda: fn.external_source(source, batch=False, on_error="skip"), max_failures=IN_A_ROW + 2 * BATCH - 1
    )
    for _ in range(IN_A_ROW // BATCH + 1):
        assert len(pipe.run()[0]) == 0
    with pytest.raises(TooManyFailures, match="more than max_failures=1015 allows"):
        pipe.run()


@pytest.mark.parametrize("num_threads", [1, 3])
def test_ordered_functions_follow_the_written_order_whatever_comes_before_them(num_threads):
    """The second function sees its batch after the first one has seen all of it, though the first has to wait longer."""
    seen = []

    def noted(name):
        return lambda x: seen.append(name) or x

    def define():
        x = fn.external_source(number, batch=False)
        early = fn.python_function(x, function=noted("before"))
        between = fn.python_function(early, function=lambda x: x, parallel="threads")
        first = fn.python_function(between, function=noted("first"))
        second = fn.python_function(x, function=noted("second"))
        third = fn.python_function(x, function=lambda xs: noted("third")(xs), batch_processing=True)
        return first, second, third

    pipe = pipeline(define, num_threads=num_threads, prefetch_queue_depth=1, exec_pipelined=False)
    for _ in range(3):
        seen.clear()
        pipe.run()
        assert seen == ["before"] * BATCH + ["first"] * BATCH + ["second"] * BATCH + ["third"]


@pytest.mark.parametrize(
    ("parallel", "batch_processing"),
    [("serial", False), ("serial", True), ("threads", False), ("processes", False), ("processes", True)],
)
def test_random_numbers_in_a_branch_are_those_of_the_sample(parallel, batch_processing):
    """Inside an `if` a sample has the numbers that it has without one, wherever the function runs."""

    def draw(x, rng):
        return x + rng.integers(1 << 40)

    def draw_all(xs, rng):
        return [x + key.integer(0, 0, 1 << 40) for x, key in zip(xs, rng)]

    arguments = {"function": draw_all, "batch_processing": True} if batch_processing else {"function": draw}

    def source():
        return fn.external_source(lambda info: np.int64(info.idx_in_epoch), batch=False)

    def drawn(x):
        return fn.python_function(x, parallel=parallel, name="drawn", **arguments)

    def plain():
        return drawn(source())

    def guarded():
        x = source()
        if x % 3 == 1:
            y = drawn(x)
        else:
            y = fn.cast(x, dtype="int64") * 0
        return y

    with_all = pipeline(plain, py_num_workers=2)
    with_some = pipeline(guarded, enable_conditionals=True, py_num_workers=2)
    for first in (0, BATCH):
        (everything,), (some,) = with_all.run(), with_some.run()
        for index in range(BATCH):
            expected = everything.at(index) if (first + index) % 3 == 1 else 0
            assert some.at(index) == expected
