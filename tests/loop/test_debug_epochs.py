"""Debug pipelines are iterated over as compiled ones are: the same batches, lengths, masks and ends."""

import re
import sys

import numpy as np
import pytest
from loop.loops import read_numbers, values

from pipeflow import fn, pipeline_def, types
from pipeflow.epochs import LastBatchPolicy
from pipeflow.errors import InvalidState
from pipeflow.plugin.numpy import GenericIterator

ORDERS = [
    {"random_shuffle": True},
    {"random_shuffle": True, "pad_last_batch": True},
    {"num_shards": 3, "shard_id": 1},
    {"random_shuffle": True, "num_shards": 3, "shard_id": 2},
    {"random_shuffle": True, "seed": 8},
    {"random_shuffle": True, "seed": 8, "num_shards": 3, "shard_id": 2},
]


def both(define, **options):
    """The same definition, compiled and for debugging."""
    given = {"batch_size": 4, "num_threads": 2, "seed": 3, **options}
    return [pipeline_def(define, debug=debug, **given)() for debug in (False, True)]


def plain(batch):
    return [[np.asarray(sample).tolist() for sample in output.samples()] for output in batch]


@pytest.mark.parametrize("policy", ["partial", "drop", "fill"])
@pytest.mark.parametrize("order", ORDERS)
def test_epochs_of_a_reader_equal_the_compiled_ones(order, policy):
    """Whole epochs, one left by `break`, masks and lengths, and run() after reset() are those of the compiled pipeline."""

    def define():
        return read_numbers(14, name="r", **order), fn.random.uniform()

    found = []
    for pipeline in both(define):
        seen = []
        for _ in range(3):
            seen.append(len(pipeline.epoch(policy)))
            seen += [(plain(batch), pipeline.valid.tolist()) for batch in pipeline.epoch(policy)]
            for batch in pipeline.epoch(policy):
                seen.append(plain(batch))
                break
        pipeline.reset()
        found.append([*seen, plain(pipeline.run()), pipeline.epoch_size()])
    assert found[0] == found[1]


@pytest.mark.parametrize("order", [*ORDERS, {"num_shards": 2, "shard_id": 1, "stick_to_shard": True}])
@pytest.mark.parametrize("size", [4, 5])
def test_random_numbers_that_are_drawn_before_the_readers(order, size):
    """They depend on the samples that the readers give, which the definition reaches later."""

    def define():
        first = fn.random.uniform()
        data = read_numbers(14, **order)
        second = fn.random.uniform()
        return first, data, second, read_numbers(9), fn.random.coin_flip()

    compiled, debug = both(define, batch_size=size)
    for _ in range(8):
        assert plain(compiled.run()) == plain(debug.run())


def test_a_source_that_gives_fewer_samples_than_an_earlier_operator_had():
    """The definition runs again for the first batch, and the source is read once."""
    batches = [[np.int32(number)] * (4 - number) for number in range(3)]

    def define():
        return fn.random.uniform(), fn.external_source(batches)

    compiled, debug = both(define)
    for size in (4, 3, 2):
        seen = plain(debug.run())
        assert seen == plain(compiled.run())
        assert len(seen[0]) == size


def test_a_source_before_the_reader_is_no_problem_where_batches_are_full():
    """The sources are asked in the order of the definition's lines."""

    def define():
        return fn.external_source(lambda info: np.array(info.idx_in_epoch), batch=False), read_numbers(12)

    compiled, debugged = both(define)
    assert [plain(batch) for batch in debugged.epoch()] == [plain(batch) for batch in compiled.epoch()]


def test_epochs_of_a_list_and_of_a_source_that_stops():
    """A list begins again with each loop; StopIteration ends the epoch, and the length is known where a list is read."""

    def listed():
        return fn.external_source([np.full((4, 1), number) for number in range(3)])

    compiled, debugged = both(listed)
    for _ in range(2):
        assert len(debugged) == len(compiled) == 3
        assert [plain(batch) for batch in debugged.epoch()] == [plain(batch) for batch in compiled.epoch()]
    empty = both(lambda: fn.external_source([]))[1]
    assert list(empty.epoch()) == []


def test_the_definition_runs_once_for_each_batch():
    """Looking at the sources beforehand makes the first batch, which is kept and not made twice."""
    runs = []

    def define():
        runs.append(0)
        return read_numbers(8)

    debugged = both(define)[1]
    runs.clear()
    assert len(debugged) == 2
    assert [values(batch) for batch in debugged.epoch()] == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert len(runs) == 2


def test_adapters_take_debug_pipelines():
    """The adapters' iterator with a reader's name, its length, its policy and its mask."""

    def define():
        return read_numbers(10, name="r", random_shuffle=True)

    found = []
    for pipeline in both(define):
        iterator = GenericIterator(
            pipeline, ["x"], reader_name="r", last_batch_policy=LastBatchPolicy.PARTIAL, mask="ok"
        )
        length = len(iterator)
        rows = [(batch[0]["x"].tolist(), batch[0]["ok"].tolist()) for _ in range(2) for batch in iterator]
        found.append((length, rows))
    assert found[0] == found[1]
    with pytest.raises(ValueError, match=r"names 2 outputs .* the pipeline has 1 output"):
        GenericIterator(both(define)[1], ["x", "y"], reader_name="r")


def test_an_error_consumes_its_batch():
    """The failed batch counts, the next one follows, and a reader that the definition did not come to keeps step."""

    def define():
        number = read_numbers(12, name="a")
        checked = fn.python_function(number, function=lambda x: 12 // (5 - int(x)) * 0 + x)
        return checked, read_numbers(12, name="b")

    for pipeline in both(define):
        loop = pipeline.epoch()
        assert plain(next(loop)) == [[0, 1, 2, 3]] * 2
        with pytest.raises(ZeroDivisionError):
            next(loop)
        assert [plain(batch) for batch in loop] == [[[8, 9, 10, 11]] * 2]


def test_two_loops_are_refused_and_progress_knows_no_operators(monkeypatch):
    """The rules of loops hold for debug pipelines as well."""
    debugged = both(lambda: read_numbers(10))[1]
    loop = debugged.epoch()
    next(loop)
    with pytest.raises(InvalidState, match="another loop is using this pipeline"):
        next(debugged.epoch())
    with pytest.raises(RuntimeError, match="Mixing pipeline API"):
        debugged.run()
    loop.close()
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    with pytest.warns(UserWarning, match="a progress bar .* needs tqdm: pip install"):
        loop = debugged.epoch(progress=True)
    next(loop)
    assert re.fullmatch(r"\d+ samples/s, waited \d+%", loop._meter.report())
    loop.close()


@pytest.mark.parametrize(
    "ask",
    [
        lambda pipe: pipe.plan,
        lambda pipe: pipe.checkpoint(),
        lambda pipe: pipe.state_dict(),
        lambda pipe: pipe.seek(1),
        lambda pipe: pipe.schedule_run(),
        lambda pipe: pipe.executor_statistics(),
        lambda pipe: pipe.load_state_dict({}),
    ],
)
def test_what_needs_a_plan_says_so(ask):
    """Plans, schedules and checkpoints belong to compiled pipelines."""
    pipeline = both(lambda: read_numbers(10), enable_checkpointing=True)[1]
    with pytest.raises(InvalidState, match=r"a debug pipeline runs its definition line by line.*leave debug=True out"):
        ask(pipeline)


def test_a_checkpoint_is_not_ignored():
    """A debug pipeline that was given a checkpoint does not begin at the first batch without a word."""
    compiled, _ = both(lambda: read_numbers(10), enable_checkpointing=True)
    with pytest.raises(InvalidState, match="the checkpoint cannot be loaded: a debug pipeline"):
        both(lambda: read_numbers(10), checkpoint=compiled.checkpoint())[1].build()


@pytest.mark.parametrize("debug", [False, True])
def test_what_is_made_of_a_file_says_so(tmp_path, debug):
    """The source of a sample is that of the data it was made of, and of two readers the first."""
    for index in range(4):
        np.save(tmp_path / f"{index}.npy", np.full(2, index, np.int32))

    def define():
        x = fn.readers.numpy(file_root=str(tmp_path), file_filter="*.npy")
        y = fn.readers.numpy(file_root=str(tmp_path), file_filter="[23].npy")
        return fn.cast(x, dtype=types.FLOAT), fn.cast(x + y, dtype=types.FLOAT), y

    pipe = pipeline_def(define, batch_size=2, num_threads=1, debug=debug)()
    for names in (["0.npy", "1.npy"], ["2.npy", "3.npy"]):
        one, both, second = pipe.run()
        for batch, expected in ((one, names), (both, names), (second, ["2.npy", "3.npy"])):
            assert [info.rpartition("/")[2] for info in batch.source_info()] == expected
