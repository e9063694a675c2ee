"""Epochs of pipelines and of the adapters' common iterator: how long they are, how they end, how they begin again."""

import itertools
import sys
from collections import Counter
from contextlib import nullcontext

import numpy as np
import pytest
from loop.loops import epoch, numbers, read_numbers, values

from pipeflow import Pipeline, fn, pipeline_def
from pipeflow.epochs import LastBatchPolicy
from pipeflow.epochs.epoch import Waits
from pipeflow.errors import InvalidState, RaggedBatch
from pipeflow.executor import Executor
from pipeflow.executor.batch import Handing, Wait
from pipeflow.executor.figures import ExposedWait
from pipeflow.plugin.base_iterator import _DaliBaseIterator
from pipeflow.plugin.numpy import DALIGenericIterator, GenericIterator, RaggedIterator

FILL, DROP, PARTIAL = LastBatchPolicy.FILL, LastBatchPolicy.DROP, LastBatchPolicy.PARTIAL


@pipeline_def(batch_size=4, num_threads=2)
def listed(cycle=None):
    return fn.external_source([np.full((4, 2), number) for number in range(3)], cycle=cycle)


def given(iterator):
    """The numbers of each batch of one epoch of an iterator."""
    return [[int(x) for x in batch[0]["x"]] for batch in iterator]


# ----------------------------------------------------------------------------------------------------
# Plain Python


def test_epochs_follow_each_other_without_a_reset():
    """Every epoch of a reader gives each sample once, the last batch as short as it is."""
    pipeline = numbers(batch_size=4)
    for _ in range(3):
        assert epoch(pipeline) == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
        assert len(pipeline) == 3
    assert pipeline.epoch_size("numbers") == 10


@pytest.mark.parametrize("depth", [1, 2, 5])
def test_leaving_a_loop_begins_the_next_epoch_afresh(depth):
    """After `break` the next loop is a whole epoch, whatever was prepared ahead."""
    pipeline = numbers(batch_size=3, random_shuffle=True, prefetch_queue_depth=depth)
    reference = numbers(batch_size=3, random_shuffle=True)
    whole = [epoch(reference) for _ in range(3)]
    for batch in pipeline.epoch():
        assert values(batch) == whole[0][0]
        break
    assert epoch(pipeline) == whole[1]
    assert epoch(pipeline) == whole[2]


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ("partial", [[0, 1, 2], [3, 4, 5], [6]]),
        ("drop", [[0, 1, 2], [3, 4, 5]]),
        ("fill", [[0, 1, 2], [3, 4, 5], [6, 0, 1]]),
        (FILL, [[0, 1, 2], [3, 4, 5], [6, 0, 1]]),
    ],
)
def test_what_becomes_of_the_last_batch(policy, expected):
    """The three policies, by name or by constant, and the length that goes with each."""
    pipeline = numbers(7, batch_size=3)
    assert len(pipeline.epoch(policy)) == len(expected)
    assert epoch(pipeline, policy) == expected


def test_an_epoch_that_ran_on_is_followed_by_the_rest():
    """With "fill" no sample is lost or repeated over the epochs, and each length is right before its loop."""
    pipeline = numbers(7, batch_size=3)
    seen = []
    for _ in range(6):
        length = len(pipeline.epoch("fill"))
        batches = epoch(pipeline, "fill")
        assert len(batches) == length
        seen += [value for batch in batches for value in batch]
    assert seen == [place % 7 for place in range(len(seen))]


def test_a_list_is_read_anew_in_every_epoch():
    """A source that was not told how to cycle begins again with each loop; the length is that of the list."""
    pipeline = listed()
    assert len(pipeline) == 3
    assert epoch_firsts(pipeline) == epoch_firsts(pipeline) == [0, 1, 2]
    for _ in pipeline.epoch():
        break
    assert epoch_firsts(pipeline) == [0, 1, 2]


def epoch_firsts(pipeline):
    return [int(batch[0].as_array()[0, 0]) for batch in pipeline.epoch()]


def test_a_list_of_samples_counts_batches():
    """With batch=False the length is in batches, rounded up."""

    @pipeline_def(batch_size=4, num_threads=1)
    def samples():
        return fn.external_source([np.full(2, number) for number in range(10)], batch=False)

    pipeline = samples()
    assert len(pipeline) == 3
    assert [len(batch[0]) for batch in pipeline.epoch()] == [4, 4, 2]
    assert [len(batch[0]) for batch in pipeline.epoch()] == [4, 4, 2]


def test_an_external_source_beside_a_reader_gives_as_many_samples():
    """In the reader's short last batch a source of samples is asked for as many."""

    @pipeline_def(batch_size=4, num_threads=2)
    def both():
        extra = fn.external_source(lambda sample: np.array(sample.idx_in_epoch), batch=False)
        return read_numbers(count=10), extra

    assert [[len(output) for output in batch] for batch in both().epoch()] == [[4, 4], [4, 4], [2, 2]]


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: fn.external_source(lambda iteration: np.zeros((2, 1))), "does not say when it ends"),
        (lambda: fn.external_source([np.zeros((2, 1))], cycle="quiet"), "nothing in this pipeline ends its epochs"),
        (lambda: fn.random.uniform(), "nothing in this pipeline ends its epochs"),
    ],
)
def test_an_unknown_length_is_a_type_error_that_says_why(make, reason):
    """len() is right or refuses; the pipeline is true all the same."""
    pipeline = pipeline_def(make, batch_size=2, num_threads=1)()
    with pytest.raises(TypeError, match=reason):
        len(pipeline)
    assert pipeline


def test_two_loops_over_one_pipeline_are_refused():
    """A second loop inside the first raises at its first batch; the first goes on, and after close() another may begin."""
    pipeline = numbers(batch_size=4)
    first = pipeline.epoch()
    assert values(next(first)) == [0, 1, 2, 3]
    with pytest.raises(InvalidState, match="another loop is using this pipeline"):
        next(pipeline.epoch())
    assert values(next(first)) == [4, 5, 6, 7]
    first.close()
    assert len(epoch(pipeline)) == 3


def test_run_inside_a_loop_is_refused():
    """run() would take the loop's batches."""
    pipeline = numbers(batch_size=4)
    loop = pipeline.epoch()
    next(loop)
    with pytest.raises(RuntimeError, match="Mixing pipeline API"):
        pipeline.run()


def test_an_error_in_the_last_batch_still_ends_the_epoch():
    """The failed batch counts; the loop after it is the next epoch."""

    @pipeline_def(batch_size=4, num_threads=1)
    def failing():
        number = read_numbers(count=6)
        return fn.python_function(number, function=lambda x: 1 // (5 - int(x)))

    pipeline = failing()
    loop = pipeline.epoch()
    next(loop)
    with pytest.raises(ZeroDivisionError):
        next(loop)
    assert list(loop) == []
    assert len(next(pipeline.epoch())[0]) == 4


def test_batches_are_the_users_to_keep():
    """Everything an epoch gave is unchanged at its end."""
    kept = list(numbers(64, batch_size=4).epoch())
    assert [values(batch) for batch in kept] == [list(range(start, start + 4)) for start in range(0, 64, 4)]


@pytest.mark.parametrize(("num_shards", "batch_size"), [(2, 3), (3, 4), (4, 3)])
def test_all_ranks_together_see_every_sample_once_an_epoch(num_shards, batch_size):
    """Over the world each epoch is exact and new; ranks give equally many batches and mark what only keeps step."""
    ranks = [
        numbers(23, batch_size=batch_size, random_shuffle=True, num_shards=num_shards, shard_id=rank)
        for rank in range(num_shards)
    ]
    orders = []
    for _ in range(4):
        seen, lengths = [], set()
        for rank in ranks:
            count = 0
            for batch in rank.epoch():
                count += 1
                seen += [value for value, valid in zip(values(batch), rank.valid) if valid]
            lengths.add(count)
            assert count == len(rank)
        assert sorted(seen) == list(range(23))
        assert len(lengths) == 1
        orders.append(tuple(seen))
    assert len(set(orders)) == 4


def test_wrong_policy_is_an_error():
    """A policy that does not exist is named."""
    with pytest.raises(ValueError, match="must be 'partial', 'drop' or 'fill', got 'last'"):
        numbers(batch_size=2).epoch("last")


def test_readers_that_end_at_different_samples_must_run_on():
    """Two readers of different sizes have no common last batch; "fill" is possible and the named one counts."""

    @pipeline_def(batch_size=4, num_threads=1)
    def two():
        return read_numbers(count=10, name="a"), read_numbers(count=7, name="b")

    with pytest.raises(ValueError, match="end their epochs at different samples"):
        two().epoch()
    assert [values(batch) for batch in two().epoch("fill", reader_name="b")] == [[0, 1, 2, 3], [4, 5, 6, 7]]


class Bar:
    """Stands for tqdm's bar."""

    made: list = []

    def __init__(self, **options):
        self.options, self.updates, self.text = options, 0, ""
        Bar.made.append(self)

    def set_postfix_str(self, text, refresh):
        self.text = text

    def update(self, count):
        self.updates += count

    def close(self):
        self.options["closed"] = True


def test_progress_shows_throughput_waiting_and_the_slowest_operator(monkeypatch, clock):
    """The bar counts batches of a known total; its text names the operator that takes longest."""
    module = type(sys)("tqdm.auto")
    module.tqdm = Bar
    monkeypatch.setitem(sys.modules, "tqdm", type(sys)("tqdm"))
    monkeypatch.setitem(sys.modules, "tqdm.auto", module)

    def waits(x):
        clock.advance(0.25)
        return x

    @pipeline_def(batch_size=4, num_threads=1, exec_async=False)
    def slow():
        return fn.python_function(read_numbers(count=12), function=waits)

    for _ in slow().epoch(progress=True):
        pass
    bar = Bar.made.pop()
    assert bar.options == {"total": 3, "initial": 0, "unit": "batch", "closed": True}
    assert bar.updates == 3
    assert bar.text == "4 samples/s, waited 100%, slowest: python_function"


@pytest.mark.parametrize(
    ("makes", "trains", "text"),
    [
        (0.001, 0.999, "exposed wait 0.1% (1 ms of 1000 ms a step): the input is not your bottleneck"),
        (
            0.125,
            0.875,
            "exposed wait 12.5% (125 ms of 1000 ms a step): without it the loop would be 1.14 times as fast",
        ),
        (
            0.25,
            0.25,
            "exposed wait 50.0% (250 ms of 500 ms a step): the input limits this loop: pipe.advice() says why",
        ),
    ],
)
def test_an_epoch_reports_the_exposed_wait(clock, makes, trains, text):
    """The share of a step that the loop waits for its batch; the first batch is not counted, nor is the end."""

    def waits(x):
        clock.advance(makes / 4)
        return x

    @pipeline_def(batch_size=4, num_threads=1, exec_async=False)
    def slow():
        return fn.python_function(read_numbers(count=12), function=waits)

    epoch = slow().epoch()
    assert str(epoch.exposed_wait) == "no step has been measured"
    for _ in epoch:
        clock.advance(trains)
    assert epoch.exposed_wait.steps == 2
    assert epoch.exposed_wait.share == pytest.approx(makes / (makes + trains))
    assert str(epoch.exposed_wait) == text


@pytest.mark.parametrize("measured", [False, True])
def test_an_epoch_counts_the_waits_that_the_advice_counts(clock, monkeypatch, measured):
    """A slow loop on a machine on which a call takes long after its batch was there: both say the same, and see no waits."""
    fill = Executor._fill

    def slow(self, *numbers):
        clock.advance(0.02)
        return fill(self, *numbers)

    @pipeline_def(batch_size=4, num_threads=1, exec_async=False)
    def fast():
        return read_numbers(count=400)

    monkeypatch.setattr(Executor, "_fill", slow)
    pipe = fast()
    with pipe.measure() if measured else nullcontext():
        epoch = pipe.epoch()
        for _ in itertools.islice(epoch, 60):
            clock.advance(0.01)
    found = pipe.statistics().exposed_wait
    assert epoch.exposed_wait == found
    assert not found.is_bottleneck
    assert [advice.kind for advice in pipe.advice()] == []


def test_steps_that_measuring_disturbed_are_not_counted():
    """If there are enough others; else all are."""
    waits = Waits(0, 10.0)
    for number in range(1, 6):
        waits.add(number, Wait(10.0 * number + 5, 10.0 * number + 10, disturbed=True))
    assert waits.exposed == ExposedWait(5, 50.0, 25.0)
    for number in range(6, 14):
        waits.add(number, Wait(10.0 * number + 9, 10.0 * number + 10))
    assert waits.exposed == ExposedWait(8, 80.0, 8.0)


# ----------------------------------------------------------------------------------------------------
# The adapters' iterator


# DALI's own table for seven samples and batches of two: the last batch, and the first of the next epoch. Two of its
# rows lose a sample of the next epoch (PARTIAL and DROP without padding begin with [2, 3] there); here none is lost.
TABLE = [
    (PARTIAL, True, [7], [1, 2]),
    (PARTIAL, False, [7], [1, 2]),
    (FILL, True, [7, 7], [1, 2]),
    (FILL, False, [7, 1], [2, 3]),
    (DROP, True, [5, 6], [1, 2]),
    (DROP, False, [5, 6], [1, 2]),
]


@pytest.mark.parametrize(("policy", "padded", "last", "following"), TABLE)
@pytest.mark.parametrize("prepare", [False, True])
def test_last_batches_of_a_reader(policy, padded, last, following, prepare):
    """The six rows of the policy table, and a length that is right in each epoch."""
    pipeline = pipeline_def(
        lambda: read_numbers(count=7, pad_last_batch=padded, name="r") + 1, batch_size=2, num_threads=2
    )()
    iterator = GenericIterator(pipeline, ["x"], reader_name="r", last_batch_policy=policy, prepare_first_batch=prepare)
    length = len(iterator)
    first = given(iterator)
    assert (first[-1], len(first)) == (last, length)
    assert iterator.loop.length() == (3 if policy in (DROP, FILL) and not (padded and policy is FILL) else 4)
    assert given(iterator)[0] == following


def test_size_counts_samples_and_cuts_the_last_batch():
    """With size= the pipeline runs on and batches are counted, as in DALI."""

    def make(**options):
        pipeline = pipeline_def(lambda: read_numbers(count=7, name="r"), batch_size=2, num_threads=1)()
        return GenericIterator(pipeline, ["x"], size=7, **options)

    partial = make(last_batch_policy=PARTIAL)
    assert len(partial) == 4
    assert given(partial) == [[0, 1], [2, 3], [4, 5], [6]]
    assert given(partial)[0] == [1, 2]
    fill = make()
    assert given(fill) == [[0, 1], [2, 3], [4, 5], [6, 0]]
    assert len(fill) == 3  # one sample of this epoch has been given already
    assert given(fill) == [[1, 2], [3, 4], [5, 6]]
    assert len(make(last_batch_policy=DROP)) == 3


def test_a_counted_epoch_may_be_smaller_than_a_batch():
    """Three samples in batches of eight: each epoch is one batch, that begins where the sample before it was the last.

    The first gives 0 1 2 0 1 2 0 1, five too many, two of them of an epoch that has begun: one sample of it is left.
    """
    pipeline = pipeline_def(lambda: read_numbers(count=3, name="r"), batch_size=8, num_threads=1)()
    iterator = GenericIterator(pipeline, ["x"], size=3)
    seen = []
    for _ in range(5):
        assert len(iterator) == 1
        (batch,) = given(iterator)
        assert len(batch) == 8
        seen += batch
    assert seen == [place % 3 for place in range(40)]


@pytest.mark.parametrize(("padded", "following"), [(True, [0, 1]), (False, [1, 2])])
def test_what_drop_leaves_of_a_counted_epoch_is_not_in_the_next_one(padded, following):
    """With size= and DROP the batch that is not full is passed over, as in DALI; also when it is taken up from a state."""

    def make():
        define = lambda: read_numbers(count=7, pad_last_batch=padded, name="r")
        pipeline = pipeline_def(define, batch_size=2, num_threads=1, seed=1)()
        return GenericIterator(pipeline, ["x"], size=7, last_batch_policy=DROP, last_batch_padded=padded)

    iterator = make()
    assert given(iterator) == [[0, 1], [2, 3], [4, 5]]
    state = iterator.state_dict()
    second = given(iterator)
    assert (len(iterator), second[0]) == (3, following)
    restored = make()
    restored.load_state_dict(state)
    assert given(restored) == second


def test_an_iterator_ends_until_it_is_reset_and_with_auto_reset_by_itself():
    """StopIteration comes again and again without a reset; iter() or reset() begin the next epoch."""
    iterator = GenericIterator(numbers(batch_size=5), ["x", "u"], reader_name="numbers")
    assert len(given(iterator)) == 2
    with pytest.raises(StopIteration):
        next(iterator)
    iterator.reset()
    assert int(iterator.next()[0]["x"][0]) == 0
    automatic = GenericIterator(numbers(batch_size=5), ["x", "u"], reader_name="numbers", auto_reset="yes")
    for _ in range(2):
        next(automatic), next(automatic)
        with pytest.raises(StopIteration):
            next(automatic)


class WrittenForDali(_DaliBaseIterator):
    """An iterator that makes its own batches."""

    def __next__(self):
        return [int(np.ravel(outputs[0].at(0))[0]) for outputs in self._get_outputs()]


@pytest.mark.parametrize("auto_reset", [False, True])
def test_an_iterator_written_for_dali_begins_again_only_when_it_may(auto_reset):
    """Without auto_reset the end comes again and again, with it the next epoch follows."""
    iterator = WrittenForDali(numbers(10, batch_size=5), reader_name="numbers", auto_reset=auto_reset)
    assert [next(iterator), next(iterator)] == [[0], [5]]
    with pytest.raises(StopIteration):
        next(iterator)
    if auto_reset:
        assert next(iterator) == [0]
    else:
        with pytest.raises(StopIteration):
            next(iterator)


def test_several_pipelines_give_a_list_and_keep_step():
    """Shards of one reader, each its own pipeline: together every sample once, each in as many batches."""
    pipelines = [numbers(13, batch_size=2, num_shards=3, shard_id=rank) for rank in range(3)]
    iterator = GenericIterator(pipelines, ["x", "u"], reader_name="numbers", last_batch_policy=PARTIAL, mask="valid")
    for _ in range(3):
        seen = Counter()
        length = len(iterator)
        batches = list(iterator)
        assert len(batches) == length == 3
        for batch in batches:
            assert len(batch) == 3
            for part in batch:
                seen.update(part["x"][part["valid"]].tolist())
        assert seen == Counter(range(13))


def test_containers_and_aliases():
    """dict, tuple and namedtuple outputs; DALI's name is the same class."""

    def make(container):
        return next(GenericIterator(listed(), ["x"], container=container))[0]

    assert make("dict")["x"].shape == make("tuple")[0].shape == make("namedtuple").x.shape == (4, 2)
    assert DALIGenericIterator is GenericIterator


def test_a_source_that_stops_ends_the_epoch():
    """Without reader and size, StopIteration of the source ends it; a short batch comes, or is dropped."""
    iterator = GenericIterator(listed(cycle="raise"), ["x"])
    assert [len(list(iterator)) for _ in range(2)] == [3, 3]
    assert len(iterator) == 3
    short = pipeline_def(lambda: fn.external_source([np.zeros((4, 1)), np.zeros((3, 1))]), batch_size=4, num_threads=1)
    assert [len(batch[0]["x"]) for batch in GenericIterator(short(), ["x"])] == [4, 3]
    assert [len(batch[0]["x"]) for batch in GenericIterator(short(), ["x"], last_batch_policy=DROP)] == [4]


def test_ragged_batches_in_a_dense_iterator_name_shapes_and_samples():
    """The error names the output, the shapes and a sample of each, and says what to do."""
    ragged = pipeline_def(
        lambda: fn.external_source([[np.zeros((2, 3)), np.zeros((2, 3)), np.zeros((4, 3))]]),
        batch_size=3,
        num_threads=1,
    )
    with pytest.raises(
        RaggedBatch, match=r"output 'boxes'.*sample 0 is \(2, 3\), sample 2 is \(4, 3\).*fn\.pad.*RaggedIterator"
    ):
        next(GenericIterator(ragged(), ["boxes"]))
    assert [len(x) for x in next(RaggedIterator(ragged(), ["boxes"]))[0]["boxes"]] == [2, 2, 4]


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ({"output_map": ["a"]}, ValueError, r"output_map names 1 output \['a'\] and the pipeline has 2 outputs"),
        ({"output_map": ["a", "a"]}, ValueError, "should be distinct"),
        ({"output_map": "ab"}, TypeError, "must be a list of names"),
        ({"reader_name": "number"}, RuntimeError, "there is no reader 'number'.*did you mean 'numbers'"),
        ({"size": -7}, ValueError, "size must be at least 1, or -1 .* got -7"),
        ({"size": 0}, ValueError, "got 0"),
        ({"size": 7, "reader_name": "numbers"}, ValueError, "size should not be set"),
        ({"reader_name": "numbers", "last_batch_padded": True}, ValueError, "last_batch_padded is for size"),
        ({"last_batch_policy": "FILL"}, ValueError, "must be a LastBatchPolicy"),
        ({"auto_reset": "maybe"}, ValueError, "auto_reset must be"),
        ({"container": "dictt"}, ValueError, "did you mean 'dict'"),
        ({"mask": "x"}, ValueError, "is a name of output_map as well"),
        ({"reader_name": "numbers", "last_batch_policy": DROP}, ValueError, "DROP leaves nothing"),
    ],
)
def test_mistakes_are_named_at_construction(options, kind, message):
    """Every wrong argument is an error before the first batch, with its value and what to do."""
    arguments = {"output_map": ["x", "u"], **options}
    with pytest.raises(kind, match=message):
        GenericIterator(numbers(3, batch_size=4), **arguments)


def test_names_are_those_that_were_given_whatever_becomes_of_the_list():
    """The caller may go on using the list of names."""
    names = ["x", "u"]
    iterator = GenericIterator(numbers(batch_size=5), names, reader_name="numbers")
    names[:] = ["other"]
    assert sorted(next(iterator)[0]) == ["u", "x"]


def test_pipelines_that_do_not_fit_together_are_refused():
    """Different batch sizes, shard counts or epoch sizes; several pipelines without a size; no pipeline."""
    with pytest.raises(ValueError, match=r"same batch size set, got \[2, 3\]"):
        GenericIterator([numbers(batch_size=2), numbers(batch_size=3)], ["x", "u"], reader_name="numbers")
    with pytest.raises(ValueError, match="the same num_shards"):
        GenericIterator([numbers(batch_size=2), numbers(batch_size=2, num_shards=2)], ["x", "u"], reader_name="numbers")
    with pytest.raises(ValueError, match="with 2 pipelines give reader_name, or size"):
        GenericIterator([numbers(batch_size=2), numbers(batch_size=2)], ["x", "u"])
    with pytest.raises(ValueError, match="the list is empty"):
        GenericIterator([], ["x"])
    with pytest.raises(TypeError, match="give reader_name='numbers', or size"):
        len(GenericIterator(numbers(batch_size=2), ["x", "u"]))


def test_pipelines_out_of_step_are_an_error_not_a_hang():
    """A pipeline that was run elsewhere ends its epoch at another batch: the iterator says so."""
    pipelines = [numbers(12, batch_size=2, num_shards=2, shard_id=rank) for rank in range(2)]
    iterator = GenericIterator(pipelines, ["x", "u"], reader_name="numbers", last_batch_policy=PARTIAL)
    handing = Handing()
    pipelines[1]._deliver(handing)
    handing.given()
    with pytest.raises(InvalidState, match="are at different batches"):
        list(iterator)


def test_fill_last_batch_is_deprecated():
    """DALI's old name warns and works."""
    with pytest.warns(DeprecationWarning, match="use last_batch_policy"):
        iterator = GenericIterator(numbers(batch_size=4), ["x", "u"], reader_name="numbers", fill_last_batch=False)
    assert len(list(iterator)[-1][0]["x"]) == 2


def test_samples_that_are_skipped_leave_the_mask_in_step():
    """With on_error="skip" a batch is shorter; what remains, its mask and the epoch's end fit together."""

    def define():
        number = read_numbers(10, name="numbers")
        return fn.python_function(number, function=lambda x: np.array(10 // (int(x) - 5)), on_error="skip"), number

    pipeline = pipeline_def(define, batch_size=4, num_threads=1)()
    batches = [([int(x) for x in batch[1].samples()], pipeline.valid.tolist()) for batch in pipeline.epoch()]
    assert [numbers for numbers, _ in batches] == [[0, 1, 2, 3], [4, 6, 7], [8, 9]]
    assert all(len(numbers) == len(valid) for numbers, valid in batches)


def test_subclasses_may_have_attributes_of_their_own():
    """Programs for DALI set ``size`` and ``batch_size`` before the base class does, and read DALI's private attributes."""

    class Pairs(DALIGenericIterator):
        def __init__(self, pipeline, size, batch_size):
            self.size = size
            self.batch_size = batch_size
            super().__init__(pipeline, ["x", "y"], reader_name="numbers", last_batch_policy=PARTIAL)

        def __next__(self):
            if self._first_batch is not None:
                batch, self._first_batch = self._first_batch, None
                return batch
            return super().__next__()[0]["x"]

        def __len__(self):
            return -(-self.size // self.batch_size)

    pipeline = numbers(10, batch_size=4)
    iterator = Pairs(pipeline, 10, 5)
    assert (len(iterator), iterator._size, iterator._num_gpus) == (2, 12, 1)
    assert (iterator._size_no_pad, iterator._shards_num) == (10, 1)
    assert (iterator._pipes, iterator._reader_name, iterator._last_batch_policy) == ([pipeline], "numbers", PARTIAL)
    assert [len(batch) for batch in iterator] == [4, 4, 2]
    assert DALIGenericIterator(numbers(10, batch_size=4), ["x", "y"]).batch_size == 4


@pytest.mark.parametrize("prepare", [False, True])
@pytest.mark.parametrize("size", [-1, 12, 10])
def test_iter_setup_ends_an_epoch(size, prepare):
    """StopIteration of iter_setup ends the epoch after the last batch that it fed. The next epoch has all batches again."""

    class Fed(Pipeline):
        def __init__(self):
            super().__init__(batch_size=4, num_threads=2, device_id=None)
            self.batches = iter(range(3))

        def define_graph(self):
            self.numbers = fn.external_source(name="numbers")
            return self.numbers

        def iter_setup(self):
            try:
                self.feed_input(self.numbers, np.full((4, 1), next(self.batches)))
            except StopIteration:
                self.batches = iter(range(3))
                raise

    if size == 10:  # the rest of the epoch is skipped, also if the source has no more batches
        dropping = DALIGenericIterator(Fed(), ["x"], size=6, last_batch_policy=DROP)
        for expected in [[0], [2], [0]]:
            assert [int(batch[0]["x"][0][0]) for batch in dropping] == expected
            dropping.reset()
    iterator = DALIGenericIterator(
        Fed(), ["x"], size=size, auto_reset=True, last_batch_policy=PARTIAL, prepare_first_batch=prepare
    )
    last = 2 if size == 10 else 4
    for _ in range(3):
        assert [batch[0]["x"].ravel().tolist() for batch in iterator] == [[0] * 4, [1] * 4, [2] * last]
