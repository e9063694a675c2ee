"""Checkpoints: resuming at every step, in any process; states that do not fit; going to a batch directly."""

import json
import os
import re
import sys
import warnings

import numpy as np
import pytest
from generate_docs import public
from loop.checkpoint_cases import CASES, RANDOM_OPERATORS, READERS, WORKERS, Counter, write_files
from loop.conformance import Killed, check_resume, digest
from loop.loops import epoch, numbers, read_numbers, values

from pipeflow import fn, pipeline_def
from pipeflow.epochs import LastBatchPolicy
from pipeflow.errors import InvalidState
from pipeflow.executor import checkpoint
from pipeflow.plugin.numpy import GenericIterator

pytestmark = pytest.mark.timeout(1200)  # the first processes compile the kernels of all random operators


@pytest.fixture(scope="module")
def killed(tmp_path_factory, request):
    """The cases of this run in a process that was killed, and their rests in a fresh one; the files of the readers."""
    folder = tmp_path_factory.mktemp("cases")
    write_files(folder)
    before = os.environ.get("PIPEFLOW_CASES")
    os.environ["PIPEFLOW_CASES"] = str(folder)
    items = [item for item in request.session.items if getattr(item, "module", None) is request.module]
    items = [item for item in items if "killed" in item.fixturenames]
    yield Killed("loop.checkpoint_cases", folder, [item.callspec.params["case"] for item in items])
    if before is None:
        del os.environ["PIPEFLOW_CASES"]


@pytest.mark.parametrize("case", CASES)
def test_resume_at_every_step_of_two_epochs(case, killed):
    """A checkpoint after any batch, at any prefetch depth, goes on bit for bit, here and after a kill elsewhere; it is small."""
    killed.check(case, check_resume(CASES[case]))


@pytest.mark.parametrize("case", WORKERS)
def test_resume_with_worker_processes(case):
    """Functions and sources in worker processes: the workers are started anew and know nothing, the batches are the same."""
    check_resume(WORKERS[case], depths=(3,), every=3)


def test_every_reader_and_every_random_operator_is_among_the_cases():
    """A new reader needs files here; a new random operator is a case by the example of its declaration."""
    # their files are made by their own tests in tests/readers, with the conformance of readers, which holds checkpoints too
    own_tests = {f"readers.{name}" for name in ("caffe", "caffe2", "coco", "fits", "mxnet", "parquet", "sequence")}
    own_tests |= {"experimental.readers.fits", "mix"}
    assert READERS.keys() == {op.name for op in public() if op.fetches} - own_tests
    assert {*RANDOM_OPERATORS.values()} == {op.name for op in public() if op.random and op.factory is None}


def halves(pipeline, batches):
    """The numbers of the first batches of an epoch, and the checkpoint after them."""
    seen = []
    for batch, _ in zip(pipeline.epoch(), range(batches)):
        seen += [value for value, valid in zip(values(batch), pipeline.valid) if valid]
        saved = pipeline.checkpoint()
    return seen, saved


@pytest.mark.parametrize(("before", "after"), [(1, 2), (4, 2), (3, 5), (2, 1)])
def test_another_number_of_shards_and_threads_continues_an_epoch(before, after):
    """Elastic resume: the same epoch, nothing lost or twice, then whole epochs; every rank gives as many batches."""

    def rank(number, of, **options):
        shard = {"num_shards": of, "shard_id": number}
        return numbers(47, batch_size=3, random_shuffle=True, enable_checkpointing=True, **shard, **options)

    seen, states = [], []
    for number in range(before):
        part, saved = halves(rank(number, before), 2)
        seen += part
        states.append(saved)
    restored = [
        rank(number, after, checkpoint=states[number % before], num_threads=1 + number) for number in range(after)
    ]
    for expected in (sorted(set(range(47)) - set(seen)), list(range(47))):
        rest, counts = [], set()
        for pipeline in restored:
            batches = 0
            for batch in pipeline.epoch():
                batches += 1
                rest += [value for value, valid in zip(values(batch), pipeline.valid) if valid]
            counts.add(batches)
        assert sorted(rest) == expected
        assert len(counts) == 1


def test_contiguous_shards_need_their_count_and_say_so():
    """Unshuffled shards are runs of samples: another count would lose some, so it is refused."""
    _, saved = halves(numbers(20, batch_size=2, num_shards=2, enable_checkpointing=True), 1)
    with pytest.raises(ValueError, match="num_shards was 2, is 4; contiguous shards can only be taken up by as many"):
        numbers(20, batch_size=2, num_shards=4, checkpoint=saved).build()


@pytest.mark.parametrize("policy", list(LastBatchPolicy))
def test_iterators_resume_at_every_step(policy):
    """checkpoints() and state_dict() of an iterator over two pipelines, at every batch of two epochs."""

    def make(states=(None, None)):
        pipelines = [
            numbers(17, batch_size=3, num_shards=2, shard_id=rank, enable_checkpointing=True, checkpoint=state)
            for rank, state in enumerate(states)
        ]
        return GenericIterator(pipelines, ["x", "u"], reader_name="numbers", last_batch_policy=policy)

    def plain(batch):
        return [(part["x"].tolist(), part["u"].tolist()) for part in batch]

    iterator, steps = make(), []
    for _ in range(2):
        steps += [(plain(batch), iterator.checkpoints(), iterator.state_dict()) for batch in iterator]
        steps.append((None, iterator.checkpoints(), iterator.state_dict()))
    whole = [batch for batch, _, _ in steps]
    for number, (_, texts, state) in enumerate(steps[:-1]):
        loaded = make()
        loaded.load_state_dict(json.loads(json.dumps(state)))
        for restored in (make(texts), loaded):
            rest = []
            for _ in range(whole[number + 1 :].count(None)):
                rest += [plain(batch) for batch in restored]
                rest.append(None)
            assert rest == whole[number + 1 :], number


def test_the_state_is_that_of_the_last_delivered_batch():
    """A function that ran ahead of the loop is saved as it was when the delivered batch was made."""
    counter = Counter()
    pipeline = pipeline_def(
        lambda: fn.python_function(read_numbers(count=100), function=counter),
        batch_size=2,
        num_threads=2,
        prefetch_queue_depth=5,
        enable_checkpointing=True,
    )()
    for number, _ in zip(range(1, 4), pipeline.epoch()):
        state = pipeline.state_dict()["states"]["python_function_0"]
        assert state["dict"]["calls"] == 2 * number


def test_seek_goes_to_any_batch_of_any_epoch():
    """seek(step, epoch) gives what walking gives, and takes a pipeline back as well."""
    walked = numbers(23, batch_size=4, random_shuffle=True)
    epochs = [epoch(walked) for _ in range(3)]
    pipeline = numbers(23, batch_size=4, random_shuffle=True)
    for number in (2, 0, 1):
        for step in range(6):
            pipeline.seek(step, number)
            assert epoch(pipeline) == epochs[number][step:]
    pipeline.seek(4 * 10**9)
    assert len(pipeline.run()[0]) == 4


def test_seek_moves_sources_that_are_told_the_batch():
    """A callable that takes the iteration needs no walking."""
    make = pipeline_def(
        lambda: fn.external_source(lambda iteration: np.full((2, 1), iteration)), batch_size=2, num_threads=1
    )
    pipeline = make()
    pipeline.run()
    pipeline.reset()
    pipeline.seek(10**6)
    assert int(pipeline.run()[0].at(0)[0]) == 10**6


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: fn.external_source([np.zeros((2, 1))]), "gives its batches one after another"),
        (lambda: fn.external_source(lambda: np.zeros((2, 1))), "gives its batches one after another"),
        (
            lambda: fn.python_function(fn.random.uniform(), function=Counter()),
            "seek.. does not know the state of Counter",
        ),
    ],
)
def test_seek_refuses_parts_with_a_state(make, message):
    """What only walking can reach is named."""
    with pytest.raises(InvalidState, match=message):
        pipeline_def(make, batch_size=2, num_threads=1)().seek(3)
    for step in (-1, 10**30, 1.5, True):
        message = f"step must be an integer of at least 0 and below 2**40, got {step}"
        with pytest.raises(ValueError, match=re.escape(message)):
            numbers(batch_size=2).seek(step)
    furthest = numbers(7, batch_size=2, random_shuffle=True)
    furthest.seek(2**40 - 1, 2**40 - 1)
    assert len(furthest.run()[0]) == 2


def test_what_cannot_be_saved_is_said_at_build():
    """With enable_checkpointing a function whose state cannot be taken is an error before the first batch."""

    def make():
        return fn.python_function(fn.random.uniform(), function=Counter(), parallel="threads")

    with pytest.raises(InvalidState, match="must be called for one sample after another"):
        pipeline_def(make, batch_size=2, num_threads=1, enable_checkpointing=True)().build()


def test_a_source_that_keeps_no_place_is_left_out_with_a_warning():
    """As in DALI, the rest is saved: the reader goes on, and the source is called as before."""
    calls = iter(range(100))

    @pipeline_def(batch_size=2, num_threads=1, enable_checkpointing=True, seed=1, prefetch_queue_depth=1)
    def make():
        return fn.random.coin_flip(), fn.external_source(lambda: np.full((2, 1), next(calls)))

    def built(**checkpoint):
        pipeline = make(**checkpoint)
        with pytest.warns(UserWarning, match="does not hold the place of the source 'external_source_0'.*takes no arg"):
            pipeline.build()
        return pipeline

    first = built()
    first.run()
    saved = first.checkpoint()
    assert values(built(checkpoint=saved).run()) == values(first.run())


def test_objects_with_a_state_need_enable_checkpointing():
    """state_dict() works without it for everything else; get_state() is not called behind the user's back."""
    assert numbers(batch_size=2).state_dict()["iteration"] == 0
    pipeline = pipeline_def(
        lambda: fn.python_function(fn.random.uniform(), function=Counter()), batch_size=2, num_threads=1
    )()
    with pytest.raises(InvalidState, match="build with enable_checkpointing=True"):
        pipeline.state_dict()
    with pytest.raises(RuntimeError, match="checkpointing disabled"):
        pipeline.checkpoint()


def test_a_state_that_json_cannot_hold_is_named():
    """An object in get_state() fails the batch it belongs to, with what would be possible."""

    class Odd(Counter):
        def get_state(self):
            return {"lock": object()}

    pipeline = pipeline_def(
        lambda: fn.python_function(fn.random.uniform(), function=Odd()),
        batch_size=2,
        num_threads=1,
        enable_checkpointing=True,
    )()
    with pytest.raises(TypeError, match=r"the state that get_state\(\) of 'python_function_0' returned"):
        pipeline.build()


def saved(**changes):
    """A good checkpoint of a small pipeline with some fields replaced (None removes one)."""
    pipeline = numbers(batch_size=2, enable_checkpointing=True)
    pipeline.run()
    state = {**json.loads(pipeline.checkpoint()), **changes}
    if changes:
        state.pop("checksum", None)
    state = {name: value for name, value in state.items() if value is not None}
    if changes and "checksum" not in changes:
        state["checksum"] = checkpoint._checksum(state)
    return json.dumps(state)


def foreign():
    """A pipeline that has nothing to do with the checkpoint."""
    return pipeline_def(fn.random.uniform, batch_size=2, num_threads=1)()


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        (lambda: "", ValueError, "not a checkpoint"),
        (lambda: saved()[:100], ValueError, "or only a part of one"),
        (lambda: b"\x93NUMPY\x01\x00", ValueError, "not a checkpoint"),
        (lambda: "[1, 2]", ValueError, "the field 'kind' is missing"),
        (lambda: "[" * 100_000, ValueError, "not a checkpoint"),
        (lambda: '{"model": 3}', ValueError, "the field 'kind' is missing"),
        (lambda: saved().replace('"iteration": 1', '"iteration": 2'), ValueError, "damaged: its checksum"),
        (lambda: saved(kind=None, format=1), ValueError, "format 1, of an older version"),
        (lambda: foreign().serialize(), ValueError, r"a serialized pipeline: use Pipeline.deserialize\(\)"),
        (
            lambda: saved(format=9, pipeflow="9.0"),
            ValueError,
            "format 9 .made by pipeflow 9.0.; this version reads format 3",
        ),
        (lambda: saved(checksum=None), ValueError, "damaged: its checksum is missing"),
        (lambda: saved(position=-4), ValueError, "damaged: position is -4"),
        (lambda: saved(states=None), ValueError, "damaged: states is None"),
        (lambda: saved(states={}), InvalidState, r"no state for \['numbers'\]"),
        (lambda: saved(seed=99), InvalidState, "made with seed 99 and this pipeline has seed 5: give seed=99"),
    ],
)
def test_checkpoints_that_are_damaged_or_foreign_are_refused(text, kind, message):
    """Corrupt, truncated, older, newer and foreign files say what they are, and the pipeline is left as it was."""
    content = text()
    with pytest.raises(kind, match=message):
        numbers(batch_size=2, checkpoint=content).build()
    if kind is InvalidState:
        pipeline = numbers(batch_size=2)
        first = values(pipeline.run())
        with pytest.raises(kind, match=message):
            pipeline.load_state_dict(json.loads(content))
        assert (first, values(pipeline.run())) == ([0, 1], [2, 3])


@pytest.mark.parametrize("depth", [1, 3])
@pytest.mark.parametrize("damaged", ["first", "second"])
def test_a_refused_checkpoint_leaves_every_reader_where_it_was(damaged, depth):
    """The state of one reader is taken up before that of another is refused: the first goes back as well."""

    def make():
        def define():
            first = read_numbers(count=10, name="first", random_shuffle=True)
            second = read_numbers(count=10, name="second")
            return first, second, fn.random.uniform()

        return pipeline_def(define, batch_size=3, num_threads=2, seed=4, prefetch_queue_depth=depth)()

    other = make()
    for _ in range(2):
        other.run()
    state = other.state_dict()
    state["states"][damaged]["size"] = 11
    pipeline, undisturbed = make(), make()
    for _ in range(4):
        with pytest.raises(ValueError, match="the saved state does not fit this reader: size was 11, is 10"):
            pipeline.load_state_dict(state)
        assert digest(pipeline.run()) == digest(undisturbed.run())


def places(state, path=()):
    """The ways to every value inside a state."""
    items = state.items() if isinstance(state, dict) else enumerate(state) if isinstance(state, list) else ()
    for key, value in items:
        yield (*path, key)
        yield from places(value, (*path, key))


DAMAGES = ("missing", None, "x", -1, 10**30, [], {}, 1.5, True)


@pytest.mark.parametrize(
    "case",
    ["shuffled", "contiguous_shard", "told_which_batch", "a_list_of_samples", "an_iterable", "function_with_failures"],
)
def test_every_value_of_a_state_may_be_damaged(case):
    """What is taken up works; what is not is an error in words, and the pipeline goes on where it was."""
    first = CASES[case]()
    next(first.epoch())
    state = first.state_dict()
    pipeline = CASES[case]()
    before = pipeline.state_dict()
    expected = digest(next(CASES[case]().epoch()))
    refusals = []
    for way in places(state):
        for damage in DAMAGES:
            damaged = json.loads(json.dumps(state))
            inner = damaged
            for key in way[:-1]:
                inner = inner[key]
            if damage == "missing":
                del inner[way[-1]]
            else:
                inner[way[-1]] = damage
            try:
                with warnings.catch_warnings(action="ignore"):
                    pipeline.load_state_dict(damaged)
                pipeline = CASES[case]()
            except (ValueError, InvalidState) as error:
                refusals.append((way, damage, str(error), pipeline.state_dict() == before))
    assert len(refusals) > 50
    assert [refusal for refusal in refusals if not re.match("th(e|is) .* .*", refusal[2])] == []
    assert [refusal for refusal in refusals if not refusal[3]] == []
    assert digest(next(pipeline.epoch())) == expected


def test_an_error_of_the_users_set_state_is_the_users():
    """It keeps its type, and the pipeline stays where it was."""

    class Fussy(Counter):
        def set_state(self, state):
            raise KeyError("colour")

    pipeline = pipeline_def(
        lambda: fn.python_function(read_numbers(count=9), function=Fussy()),
        batch_size=2,
        num_threads=1,
        seed=1,
        enable_checkpointing=True,
    )()
    state = pipeline.state_dict()
    with pytest.raises(KeyError, match="colour"):
        pipeline.load_state_dict(state)


def test_a_checkpoint_of_another_pipeline_says_what_differs():
    """Missing and added operators are named; so is another size of the data set."""
    other = pipeline_def(
        lambda: fn.random.coin_flip() + read_numbers(count=10, name="numbers"), batch_size=2, seed=5, num_threads=1
    )
    with pytest.raises(InvalidState, match=r"only in the checkpoint: random\.uniform_0; only in this pipeline: "):
        other(checkpoint=saved()).build()
    with pytest.raises(ValueError, match="size was 10, is 11"):
        numbers(11, batch_size=2, checkpoint=saved()).build()


def test_a_function_that_had_no_state_before_is_named():
    """A checkpoint without the state of a function that now has one does not fit."""

    def plain():
        return fn.python_function(fn.random.uniform(), function=lambda x: x)

    state = pipeline_def(plain, batch_size=2, seed=1, num_threads=1)().state_dict()
    stateful = pipeline_def(
        lambda: fn.python_function(fn.random.uniform(), function=Counter()),
        batch_size=2,
        seed=1,
        num_threads=1,
        enable_checkpointing=True,
    )()
    with pytest.raises(InvalidState, match="no state for 'python_function_0'"):
        stateful.load_state_dict(state)


@pytest.mark.parametrize("field", ["pipeflow", "cpu"])
def test_another_version_or_machine_is_a_warning(field):
    """What may change the last bits is recorded, and said when it differs."""
    with pytest.warns(UserWarning, match=f"was made with {field} something else"):
        numbers(batch_size=2, checkpoint=saved(**{field: "something else"})).build()


def test_the_seed_of_a_checkpoint_is_taken_where_none_is_given():
    """A pipeline without a seed of its own continues with the saved one."""

    def make(**options):
        return pipeline_def(lambda: fn.random.uniform(), batch_size=2, num_threads=1, enable_checkpointing=True)(
            **options
        )

    first = make()
    first.run()
    expected = first.checkpoint(), digest(first.run())
    assert digest(make(checkpoint=expected[0]).run()) == expected[1]


def test_a_checkpoint_of_a_shard_goes_on_in_the_order_that_all_shards_share():
    """Also where no seed is given: the pipeline's own is drawn, the reader's is not."""

    def make(**options):
        options = {"batch_size": 2, "num_threads": 1, "enable_checkpointing": True, **options}
        return pipeline_def(lambda: read_numbers(count=20, random_shuffle=True, num_shards=2), **options)()

    first = make()
    first.run()
    saved, expected = first.checkpoint(), digest(first.run())
    assert digest(make(checkpoint=saved).run()) == expected


def test_large_graphs_keep_small_checkpoints():
    """Three hundred operators still fit in 2 kB, and a difference is still found."""

    def define(count):
        value = fn.random.uniform()
        for _ in range(count):
            value = value + fn.random.uniform()
        return value

    make = pipeline_def(define, batch_size=2, num_threads=1, seed=1, enable_checkpointing=True)
    text = make(count=300).checkpoint()
    assert len(text) < 2048
    with pytest.raises(InvalidState, match=r"only in this pipeline: .*random\.uniform"):
        make(count=301, checkpoint=text).build()


def test_many_readers_and_sources_keep_small_checkpoints():
    """The names of a hundred operators give way to the states of eight readers and four sources."""

    def define():
        readers = [read_numbers(count=9, random_shuffle=True) for _ in range(8)]
        lists = [fn.external_source([np.zeros((2, 1))] * 5) for _ in range(4)]
        return (*[reader + sum(fn.random.uniform() for _ in range(6)) for reader in readers], *lists)

    make = pipeline_def(define, batch_size=2, num_threads=1, seed=1, enable_checkpointing=True)
    pipeline = make()
    loop = pipeline.epoch()
    next(loop)
    text = pipeline.checkpoint()
    assert len(text) < 2048
    assert digest(next(make(checkpoint=text).epoch())) == digest(next(loop))


def test_files_are_written_whole(tmp_path):
    """checkpoint(filename) replaces the file in one step and leaves nothing else behind."""
    pipeline = numbers(batch_size=2, enable_checkpointing=True)
    path = tmp_path / "state.json"
    path.write_text("old")
    text = pipeline.checkpoint(str(path))
    assert path.read_bytes() == text
    assert [item.name for item in tmp_path.iterdir()] == ["state.json"]
    assert re.match(r"^\S+( \S+)*$", checkpoint.cpu_features())


def test_unequal_pipelines_of_an_iterator_are_refused():
    """Checkpoints of different moments do not make one iterator."""
    pipeline = numbers(12, batch_size=2, enable_checkpointing=True)
    states = [pipeline.checkpoint() for _ in pipeline.epoch("fill")]
    pipelines = [numbers(12, batch_size=2, checkpoint=state) for state in states[:2]]
    with pytest.raises(ValueError, match="the pipelines are at different batches"):
        GenericIterator(pipelines, ["x", "u"], reader_name="numbers")
    with pytest.raises(ValueError, match="the list 'pipelines' is missing"):
        GenericIterator(numbers(batch_size=2), ["x", "u"], reader_name="numbers").load_state_dict({})


def keeper_of(state):
    """A checkpoint of a pipeline whose function has this for its state, and a pipeline to load it."""

    class Keeps:
        def __call__(self, x):
            return x

        def get_state(self):
            return {"n": 1}

        def set_state(self, state):
            self.state = state

    def make(**settings):
        def graph():
            return fn.python_function(fn.random.uniform(seed=3), function=Keeps(), name="keeps")

        return pipeline_def(graph, batch_size=2, num_threads=1, seed=5, enable_checkpointing=True)(**settings)

    pipeline = make()
    pipeline.run()
    document = json.loads(pipeline.checkpoint())
    document["states"]["keeps"] = state
    document["checksum"] = checkpoint._checksum({k: v for k, v in document.items() if k != "checksum"})
    return make, json.dumps(document)


@pytest.mark.parametrize(
    "state",
    [
        {"dict": {"n": {"import": "never_imported:f"}}},
        {"import": "never_imported:f"},
        {"pickle": "gASVAAAAAA=="},
        {"array": "AAAA", "dtype": "|u1", "shape": [8589934592]},
        {"objects": 0, "shape": [8589934592]},
        {"array": "AAAA", "dtype": "|O", "shape": [0]},
        {"array": "AAAA", "dtype": "|u1", "shape": [-3]},
        {"something": 1},
    ],
)
def test_a_checkpoint_holds_values_only(state, tmp_path, monkeypatch):
    """It names no code, nothing is imported, and no memory is asked for that its text does not hold."""
    (tmp_path / "never_imported.py").write_text("raise SystemExit('imported')")
    monkeypatch.syspath_prepend(tmp_path)
    make, text = keeper_of(state)
    with pytest.raises(ValueError, match="the state of 'keeps' is damaged"):
        make(checkpoint=text).build()
    assert "never_imported" not in sys.modules


def test_a_checkpoint_is_not_written_through_a_planted_link(tmp_path):
    """The name of the unfinished file is random, and nothing that exists is opened."""
    pipeline = numbers(batch_size=2, enable_checkpointing=True)
    pipeline.run()
    names = set()
    for _ in range(3):
        pipeline.checkpoint(str(tmp_path / "state.json"))
        names.update(path.name for path in tmp_path.iterdir())
    assert names == {"state.json"}
    (tmp_path / "target").write_text("untouched")
    (tmp_path / "link.json").symlink_to(tmp_path / "target")
    pipeline.checkpoint(str(tmp_path / "link.json"))
    assert (tmp_path / "target").read_text() == "untouched"


def test_a_pipeline_without_a_seed_takes_that_of_the_state():
    """load_state_dict() goes on with the numbers of the run that the state is of, before and after the first batch."""

    def make(**settings):
        return pipeline_def(lambda: fn.random.uniform(shape=3), batch_size=2, num_threads=1)(**settings)

    original = make(seed=11)
    original.run()
    state = original.state_dict()
    expected = original.run()[0].as_array()
    for started in (False, True):
        other = make()
        if started:
            other.run()
        other.load_state_dict(state)
        np.testing.assert_array_equal(other.run()[0].as_array(), expected)
        assert other.seed == 11
