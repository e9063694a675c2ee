"""Pipeline and pipeline_def: definitions, arguments, running, questions, saving."""

import functools
import inspect
import json
import subprocess
import sys
import threading
import typing
import warnings

import numpy as np
import pytest
from helpers import LONG

import pipeflow
from pipeflow import Pipeline, fn, pipeline_def, types
from pipeflow.compile.compiler import compile as compile_plan


def source(iteration):
    """Two samples that tell the iteration."""
    return np.array([iteration, iteration + 100])


@pipeline_def(batch_size=2, num_threads=1, seed=1)
def simple(scale=1):
    """A small pipeline of one output."""
    return fn.external_source(source) * scale


def first(pipe):
    """The first output of a run as a list."""
    return pipe.run()[0].as_array().tolist()


def test_definition_with_arguments():
    """Arguments of the function and of the pipeline go where they belong; the latter may be overridden at the call."""
    assert first(simple(3)) == [0, 300]
    assert first(simple(scale=2)) == [0, 200]
    pipe = simple(scale=2, num_threads=3, seed=9)
    assert (pipe.num_threads, pipe.seed, pipe.batch_size, pipe.max_batch_size) == (3, 9, 2, 2)


def test_a_loop_over_a_pipeline_names_epoch():
    """Iterating over a pipeline itself says what to write."""
    pipe = pipeline_def(batch_size=1, num_threads=1)(lambda: fn.constant(idata=[1]))()
    with pytest.raises(TypeError, match=r"write `for batch in pipe.epoch\(\):`"):
        for _ in pipe:
            pass


def test_definition_without_parentheses():
    """The bare decorator takes all arguments at the call."""

    @pipeline_def
    def bare():
        return fn.external_source(source)

    assert first(bare(batch_size=2, num_threads=1)) == [0, 100]
    assert bare.__name__ == "bare"


def test_a_definition_with_keyword_catch_all_gets_what_is_not_the_pipelines():
    """Arguments of the pipeline go to the pipeline, all other keywords to the function."""

    @pipeline_def(num_threads=1)
    def pipe(first, *others, **named):
        return np.int32([first, *others, *named.values()])

    made = pipe(1, 2, third=3, batch_size=1)
    assert made.batch_size == 1
    np.testing.assert_array_equal(made.run()[0].as_array(), [[1, 2, 3]])


def test_everything_that_can_be_called_can_be_a_definition():
    """Partials, objects with __call__, bound methods and lambdas; an unknown argument names them."""

    class Definition:
        def __init__(self, value):
            self.value = value

        def __call__(self, offset):
            return np.int32(self.value + offset)

        def method(self, offset):
            return np.int32(10 * self.value + offset)

    small = {"batch_size": 1, "num_threads": 1}
    for definition, expected in (
        (Definition(3), 4),
        (Definition(3).method, 31),
        (functools.partial(lambda a, b: np.int32(a - b), 7), 6),
        (lambda offset: np.int32(offset), 1),
    ):
        made = pipeline_def(definition, **small)
        assert made(1).run()[0].as_array()[0] == expected
        with pytest.raises(TypeError, match=r"'batch_sise' is neither an argument of .* nor of a pipeline"):
            made(1, batch_sise=3)


def test_an_argument_of_both_goes_to_the_function():
    """With a warning."""

    @pipeline_def(batch_size=2, num_threads=1)
    def seeded(seed):
        return fn.random.uniform(seed=seed)

    with pytest.warns(UserWarning, match="both have an argument 'seed'"):
        pipe = seeded(seed=4)
    assert len(first(pipe)) == 2


@pytest.mark.parametrize("call", [lambda: simple(bach_size=2), lambda: pipeline_def(bach_size=3)(lambda: 0)])
def test_unknown_arguments(call):
    """A misspelt argument is an error that suggests the right one."""
    with pytest.raises(TypeError, match="did you mean 'batch_size'"):
        call()


def test_subclass_with_define_graph():
    """The object-oriented form."""

    class Mine(Pipeline):
        def __init__(self, scale, **arguments):
            super().__init__(**arguments)
            self.input = pipeflow.ops.ExternalSource(source)
            self.scale = scale

        def define_graph(self):
            return self.input() * self.scale

    assert first(Mine(2, batch_size=2, num_threads=1)) == [0, 200]


def test_context_manager_and_set_outputs():
    """``with pipe:`` records, set_outputs says what comes out."""
    pipe = Pipeline(batch_size=2, num_threads=1)
    with pipe:
        assert Pipeline.current() is pipe
        data = fn.external_source(source)
        pipe.set_outputs(data, data + 1)
    assert Pipeline.current() is None
    assert [batch.as_array().tolist() for batch in pipe.run()] == [[0, 100], [1, 101]]


def test_push_and_pop_current():
    """The two halves of the context manager, nested."""
    outer, inner = Pipeline(batch_size=1, num_threads=1), Pipeline(batch_size=1, num_threads=1)
    Pipeline.push_current(outer)
    Pipeline.push_current(inner)
    assert Pipeline.current() is inner
    Pipeline.pop_current()
    assert Pipeline.current() is outer
    Pipeline.pop_current()
    with pytest.raises(RuntimeError, match="without push_current"):
        Pipeline.pop_current()


def test_constants_as_outputs():
    """Numbers, lists of numbers and arrays may be returned."""

    @pipeline_def(batch_size=2, num_threads=1)
    def define():
        return 3, np.ones(2), True, 2.5, [1, 2]

    outputs = define().run()
    assert [batch.at(1).tolist() for batch in outputs] == [3, [1, 1], True, 2.5, [1, 2]]
    assert [batch.dtype for batch in outputs] == [types.INT32, types.FLOAT, types.BOOL, types.FLOAT, types.INT32]
    outputs[1].at(0)[:] = 5  # a batch is the user's to write into
    assert outputs[1].at(1).tolist() == [1, 1]


@pytest.mark.parametrize(
    ("returned", "error", "text"),
    [
        (lambda: None, NotImplementedError, "returned nothing"),
        (lambda: "abc", TypeError, "The output 0 is a str"),
        (lambda: [[fn.random.uniform(), fn.random.uniform()], 3], TypeError, r"contains a nested `DataNode`.*\(\*\)"),
        (lambda: {"a": fn.random.uniform()}, TypeError, "The output 0 is a dict"),
    ],
)
def test_what_a_definition_must_not_return(returned, error, text):
    """Nothing, texts, nested lists: each says what is allowed."""
    with pytest.raises(error, match=text):
        pipeline_def(returned, batch_size=1, num_threads=1)()


def test_nodes_of_another_pipeline():
    """A node can be used only where it was made, and only until its pipeline is built."""
    kept = []

    @pipeline_def(batch_size=1, num_threads=1)
    def one():
        kept.append(fn.random.uniform())
        return kept[0]

    @pipeline_def(batch_size=1, num_threads=1)
    def two():
        return kept[0] + 1

    pipe = one()
    with pytest.raises(RuntimeError, match="belongs to another pipeline"):
        two()
    pipe.build()
    with pytest.raises(RuntimeError, match="the pipeline is built already, and its graph cannot be changed"):
        kept[0] + 1


def test_names_are_unique():
    """Two operators of one name are an error that points at the first."""

    @pipeline_def(batch_size=1, num_threads=1)
    def define():
        return fn.random.uniform(name="a"), fn.random.normal(name="a")

    with pytest.raises(RuntimeError, match="the name 'a' is used for two operators") as caught:
        define()
    assert "test_pipeline.py" in str(caught.value)


def test_pruning_and_merging():
    """What leads to no output does not run, equal calls run once; preserve keeps a call."""

    @pipeline_def(batch_size=2, num_threads=1)
    def define():
        data = fn.external_source(source)
        fn.external_source(lambda: 1 / 0)
        _ = data + 5
        fn.copy(data, preserve=True, name="kept")
        return data * 2, data * 2

    pipe = define()
    names = [step.name for step in pipe.plan.steps()]
    assert names == ["external_source_0", "kept", "math.mul_0"]
    assert pipe.plan.outputs[0] == pipe.plan.outputs[1]
    assert first(pipe) == [0, 200]


def test_equal_graphs_give_equal_plans():
    """Compiling is a function of the graph; results do not depend on threads, so the plan does not either."""
    assert simple(2).plan == simple(2, num_threads=5).plan
    assert simple(2).plan != simple(3).plan
    assert simple(2).plan != simple(2, seed=2).plan
    graph = simple(2).graph
    assert str(compile_plan(graph, 1)) == str(compile_plan(graph, 1))
    assert "external_source" in str(simple(2).plan)


def test_run_without_build():
    """build() is done by the first run()."""
    assert first(simple()) == [0, 100]


def test_batch_size_is_needed():
    """Without one the build says so."""
    with pytest.raises(ValueError, match="batch_size is not set"):
        simple(batch_size=None).build()


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"batch_size": 0}, ValueError, "batch_size must be at least 1, got 0"),
        ({"batch_size": "many"}, TypeError, "batch_size must be an integer"),
        ({"num_threads": -3}, ValueError, "num_threads must be at least 1"),
        ({"prefetch_queue_depth": 0}, ValueError, "prefetch_queue_depth must be at least 1"),
        ({"prefetch_queue_depth": 10**20}, ValueError, "prefetch_queue_depth must be at most 4096"),
        ({"num_threads": 10**6}, ValueError, "num_threads must be at most 4096"),
        ({"py_num_workers": 10**5}, ValueError, "py_num_workers must be at most 4096"),
        ({"batch_size": 2**40}, ValueError, "batch_size must be at most 2147483647"),
        ({"seed": 1.5}, TypeError, "seed must be an integer, got float 1.5"),
        ({"seed": "x"}, TypeError, "seed must be an integer, got str 'x'"),
        ({"seed": 2**64}, ValueError, r"seed must be below 2\*\*64"),
        (
            {"max_failures": float("nan")},
            ValueError,
            "max_failures must be a count from 0 or a fraction below 1, got nan",
        ),
        ({"prefetch_queue_depth": {"cpu": 1}}, ValueError, "cpu_size"),
    ],
)
def test_bad_settings(arguments, error, text):
    """Each wrong setting is named with its value."""
    with pytest.raises(error, match=text):
        Pipeline(**arguments)


def test_no_worker_processes():
    """With py_num_workers=0 a pipeline runs that needs no workers, and another says what needs them."""

    def definition(parallel):
        return fn.external_source(lambda info: np.zeros(2), batch=False, parallel=parallel)

    made = pipeline_def(definition, batch_size=2, num_threads=1, device_id=None, py_num_workers=0)
    assert made(False).run()[0].shape() == [(2,), (2,)]
    with pytest.raises(RuntimeError, match=r"needs worker processes .* has py_num_workers=0"):
        made(True).build()


def test_inputs_by_position_are_refused():
    """run(data) says that inputs have names."""
    pipe = pipeline_def(lambda: fn.external_source(name="x"), batch_size=2, num_threads=1, device_id=None)()
    with pytest.raises(TypeError, match=r"inputs are passed by the names of their sources: run\(name=data\)"):
        pipe.run(np.zeros((2, 3)))


def test_negative_seed():
    """It means no seed, with a warning, as in DALI."""
    with pytest.warns(UserWarning, match="negative seed"):
        pipe = Pipeline(batch_size=1, seed=-5)
    assert pipe.seed >= 0


@pytest.mark.parametrize("name", ["max_streams", "default_cuda_stream_priority", "experimental_exec_dynamic"])
def test_deprecated_settings_warn(name):
    """They are accepted and say that they do nothing."""
    with pytest.warns(DeprecationWarning, match=name):
        Pipeline(batch_size=1, **{name: 1})


def test_settings_can_be_read_back():
    """Every setting has its property."""
    pipe = Pipeline(
        4, 2, None, 5, prefetch_queue_depth={"cpu_size": 3, "gpu_size": 1}, exec_dynamic=True, set_affinity=True
    )
    assert pipe.exec_separated
    assert (pipe.cpu_queue_size, pipe.gpu_queue_size) == (3, 1)
    assert pipe.prefetch_queue_depth == {"cpu_size": 3, "gpu_size": 1}
    assert (pipe.batch_size, pipe.max_batch_size, pipe.num_threads, pipe.seed) == (4, 4, 2, 5)
    assert pipe.exec_pipelined
    assert pipe.exec_async
    assert pipe.exec_dynamic
    assert pipe.set_affinity
    assert not pipe.is_restored_from_checkpoint
    assert not pipe.enable_memory_stats
    assert pipe.device_id is None
    for name in ("max_streams", "default_cuda_stream_priority", "stream_policy", "concurrency"):
        assert getattr(pipe, name) is getattr(Pipeline(batch_size=1, num_threads=1), name)
    given = Pipeline(1, 1, None, py_num_workers=3, py_start_method="spawn", enable_memory_stats=True, exec_async=False)
    assert (given.py_num_workers, given.py_start_method, given.enable_memory_stats) == (3, "spawn", True)
    assert not given.exec_async


@pytest.mark.parametrize(
    "arguments", [{"exec_async": False}, {"exec_pipelined": False}, {"set_affinity": True}, {"prefetch_queue_depth": 5}]
)
def test_ways_of_running_give_the_same(arguments):
    """Synchronous, not prefetched, pinned or far ahead: the same batches."""
    pipe = simple(**arguments)
    assert [first(pipe) for _ in range(3)] == [[0, 100], [1, 101], [2, 102]]


def test_synchronous_runs_use_the_callers_thread():
    """With exec_async=False user code runs in the caller's stack."""
    import threading

    seen = []

    @pipeline_def(batch_size=1, num_threads=2, exec_async=False, exec_pipelined=False)
    def define():
        return fn.python_function(function=lambda: seen.append(threading.current_thread()) or np.zeros(1))

    define().run()
    assert set(seen) == {threading.main_thread()}


def test_prefetching_runs_ahead():
    """With depth 3 the source is asked for three batches before the first is taken away for good."""
    asked = []

    @pipeline_def(batch_size=1, num_threads=1, prefetch_queue_depth=3)
    def define():
        return fn.external_source(lambda i: asked.append(i) or np.zeros(1))

    pipe = define()
    for _ in range(4):
        pipe.run()
    assert 4 <= len(asked) <= 7


def test_schedule_and_outputs():
    """schedule_run, share_outputs, release_outputs and outputs; mixing with run() is refused unless allowed."""
    pipe = simple()
    pipe.schedule_run()
    pipe.schedule_run()
    assert not pipe.empty()
    assert pipe.share_outputs()[0].as_array().tolist() == [0, 100]
    pipe.release_outputs()
    assert pipe.outputs()[0].as_array().tolist() == [1, 101]
    assert pipe.empty()
    with pytest.raises(RuntimeError, match="Mixing pipeline API type"):
        pipe.run()
    pipe.enable_api_check(False)
    assert first(pipe) == [2, 102]


def test_outputs_without_schedule():
    """There must be something to wait for."""
    pipe = simple()
    pipe.build()
    with pytest.raises(RuntimeError, match="no scheduled batch"):
        pipe.outputs()


def test_iter_setup_feeds():
    """The hook of the object-oriented form is called before each run."""

    class Fed(Pipeline):
        count = 0

        def define_graph(self):
            return fn.external_source(name="x")

        def iter_setup(self):
            self.count += 1
            self.feed_input("x", np.array([self.count]))

    pipe = Fed(batch_size=1, num_threads=1)
    assert [first(pipe) for _ in range(3)] == [[1], [2], [3]]


def test_declared_outputs_are_checked():
    """output_dtype, output_ndim and output_layout are promises, one for all outputs or one each."""
    assert first(simple(output_dtype=types.INT64, output_ndim=0)) == [0, 100]
    with pytest.raises(RuntimeError, match=r"Output 0 was declared with dtype types\.FLOAT and has types\.INT64"):
        simple(output_dtype=types.FLOAT).run()
    with pytest.raises(RuntimeError, match="declared with ndim 3 and has 0"):
        simple(output_ndim=[3]).run()
    with pytest.raises(RuntimeError, match="declared with layout 'HWC'"):
        simple(output_layout="HWC").run()
    with pytest.raises(ValueError, match="output_dtype has 2 entries for 1 output"):
        simple(output_dtype=[types.FLOAT] * 2).build()
    assert simple(output_dtype=types.INT64).output_dtype() == [types.INT64]


def test_statistics():
    """Sizes per operator when asked for, and the memory pool always."""
    pipe = simple(enable_memory_stats=True)
    pipe.run()
    statistics = pipe.executor_statistics()
    assert statistics["external_source_0"]["real_memory_size"] == [16]
    assert statistics["external_source_0"]["max_real_memory_size"] == [8]
    assert set(statistics["pool"]) == {"allocations", "reserved"}
    assert set(simple().executor_statistics()) == {"pool"}


def test_the_largest_sample_of_all_batches_is_known():
    """Not that of the last batch, nor the smallest of one."""
    batches = iter([[np.zeros(1, np.uint8), np.zeros(9, np.uint8)], [np.zeros(5, np.uint8), np.zeros(2, np.uint8)]])

    @pipeline_def(batch_size=2, num_threads=1, enable_memory_stats=True, exec_async=False, exec_pipelined=False)
    def define():
        return fn.external_source(lambda: next(batches))

    pipe = define()
    pipe.run()
    pipe.run()
    found = pipe.executor_statistics()["external_source_0"]
    assert (found["real_memory_size"], found["max_real_memory_size"]) == ([7], [9])


@pytest.mark.parametrize("options", [{}, {"parallel": "threads"}], ids=str)
def test_bytes_per_sample_is_the_hint_of_all(options):
    """The pipeline's bytes_per_sample reserves memory for every Python function, wherever it runs."""

    @pipeline_def(batch_size=4, num_threads=1, bytes_per_sample=100_000)
    def define():
        return fn.python_function(fn.external_source(lambda: np.zeros(4)), function=lambda x: x, **options)

    assert define().executor_statistics()["pool"]["reserved"] >= 4 * 4 * 100_000


def test_reader_questions_without_readers():
    """A pipeline without readers has no epoch sizes; a wrong name is an error."""
    assert simple().epoch_size() == {}
    assert simple().reader_meta() == {}
    with pytest.raises(RuntimeError, match="no reader 'x'"):
        simple().epoch_size("x")


def test_dot_file(tmp_path):
    """The graph in Graphviz's language."""
    path = tmp_path / "graph.dot"
    simple(2).save_graph_to_dot_file(str(path), show_tensors=True, use_colors=True)
    text = path.read_text()
    assert text.startswith("digraph")
    assert "external_source" in text
    assert "fillcolor" in text
    assert [f'out{number} [shape=ellipse, label="output {number}"];' in text for number in range(2)] == [True, False]


def double(x):
    """At the top level of a module, so that it can be saved by name."""
    return x * 2


@pipeline_def(batch_size=2, num_threads=1, seed=21)
def saved():
    """Everything a file must hold."""
    data = fn.external_source(source, name="numbers")
    made = fn.python_function(data, function=double)
    return (
        made[None],
        fn.random.uniform(shape=(2,)),
        made + np.array([1.5, 2.5]),
        fn.random.normal(seed=4, name="noise"),
    )


def test_serialize_and_deserialize():
    """The loaded pipeline gives the same batches; its settings may be overridden."""
    text = saved().serialize()
    json.loads(text)
    original, loaded = saved().run(), Pipeline.deserialize(text, num_threads=3, functions=[source, double])
    assert loaded.num_threads == 3
    for left, right in zip(original, loaded.run()):
        np.testing.assert_array_equal(left.as_array(), right.as_array())


def test_serialize_to_a_file_and_load_in_a_fresh_process(tmp_path):
    """A file made here runs there."""
    path = tmp_path / "pipeline.json"
    saved().serialize(filename=str(path))
    code = (
        f"import sys; sys.path[:0] = {[str(p) for p in sys.path if p]!r}\n"
        f"from pipeflow import Pipeline; pipe = Pipeline.deserialize(filename={str(path)!r}, functions=[{__name__!r}])\n"
        "print([batch.as_array().tolist() for batch in pipe.run()])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=LONG)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == str([batch.as_array().tolist() for batch in saved().run()])


def test_deserialize_and_build():
    """The older form: a pipeline takes over a saved graph."""
    pipe = Pipeline(batch_size=2, num_threads=1, seed=21)
    pipe.deserialize_and_build(saved().serialize(), functions=[source, double])
    np.testing.assert_array_equal(pipe.run()[1].as_array(), saved().run()[1].as_array())


def test_a_pipeline_without_settings_takes_the_saved_ones():
    """Settings that it was given stay."""
    text = saved().serialize()
    pipe = Pipeline()
    pipe.deserialize_and_build(text, functions=[source, double])
    np.testing.assert_array_equal(pipe.run()[1].as_array(), saved().run()[1].as_array())
    other = Pipeline(num_threads=2)
    other.deserialize_and_build(text, functions=[source, double])
    assert (other.batch_size, other.num_threads, other.seed) == (2, 2, saved().seed)


def test_promises_about_outputs_are_saved():
    """An output of another type is an error of the loaded pipeline too."""

    def define(dtype):
        return pipeline_def(
            lambda: fn.random.coin_flip(), batch_size=2, num_threads=1, output_dtype=dtype, output_ndim=[0]
        )()

    loaded = Pipeline.deserialize(define([types.INT32]).serialize())
    assert (loaded.output_dtype(), loaded.output_ndim()) == ([types.INT32], [0])
    loaded.run()
    with pytest.raises(RuntimeError, match=r"Output 0 was declared with dtype types\.FLOAT and has types\.INT32"):
        Pipeline.deserialize(define(np.float32).serialize()).run()


@pytest.mark.parametrize("wrong", ["file.json", 42])
def test_serialize_takes_a_function_first(wrong):
    """The name of a file is no function: nothing would be written."""
    with pytest.raises(TypeError, match="define_graph must be a function"):
        saved().serialize(wrong)


def test_a_negative_device_is_refused():
    """DALI's constant for pipelines without a GPU is the only one."""
    with pytest.raises(ValueError, match="device_id must be the number of a GPU, or None"):
        Pipeline(batch_size=1, num_threads=1, device_id=-3)
    assert Pipeline(batch_size=1, num_threads=1, device_id=types.CPU_ONLY_DEVICE_ID).device_id is None


def test_lambdas_are_saved_only_by_value():
    """By import path they cannot go; by value only when both sides say so."""
    pytest.importorskip("cloudpickle")

    @pipeline_def(batch_size=2, num_threads=1)
    def define():
        return fn.python_function(fn.external_source(source), function=lambda x: x + 7)

    with pytest.raises(TypeError, match=r"argument 'function' of fn.python_function.*allow_pickle=True"):
        define().serialize()
    text = define().serialize(allow_pickle=True)
    with pytest.raises(ValueError, match="allow_pickle=True"):
        Pipeline.deserialize(text, functions=[source])
    assert first(Pipeline.deserialize(text, allow_pickle=True)) == [7, 107]


@pytest.mark.parametrize("text", ["", "not json", "{}", '{"format": 99}', b"\x80\x04"])
def test_what_is_no_saved_pipeline(text):
    """Foreign, truncated and newer files are refused with a reason."""
    with pytest.raises((ValueError, UnicodeDecodeError)):
        Pipeline.deserialize(text)


def test_debug_runs_in_the_users_stack():
    """Operators run at once: values can be looked at, and errors come out of the line that caused them."""
    seen = []

    def define():
        data = fn.external_source(source)
        doubled = data * 2
        seen.append(doubled.value.as_array().tolist())
        return fn.python_function(doubled, function=lambda x: 1 / 0 if x == 2 else x)

    pipe = pipeline_def(define, batch_size=2, num_threads=1, debug=True)()
    assert first(pipe) == [0, 200]
    with pytest.raises(ZeroDivisionError) as caught:
        pipe.run()
    assert seen == [[0, 200], [2, 202]]
    assert any(entry.name == "define" for entry in caught.traceback)


def test_import_of_dalis_modules():
    """The modules that DALI users import from exist."""
    from pipeflow.data_node import DataNode
    from pipeflow.pipeline import do_not_convert  # noqa: F401
    from pipeflow.tensors import TensorCPU, TensorListCPU  # noqa: F401

    assert DataNode is pipeflow.DataNode
    from pipeflow.pipeline.experimental import pipeline_def as debuggable

    assert debuggable is pipeline_def


def test_first_run_after_reset_starts_over():
    """reset() drops prefetched batches: the next epoch begins at iteration 0."""
    pipe = simple()
    first(pipe)
    first(pipe)
    pipe.reset()
    assert first(pipe) == [0, 100]


def test_no_warnings_in_normal_use():
    """Building and running warns of nothing."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert first(simple()) == [0, 100]


def test_two_threads_define_pipelines_at_the_same_time():
    """Each thread records into its own pipeline, whatever is being defined elsewhere meanwhile."""
    inside, results = threading.Barrier(2), {}

    def work(number):
        @pipeline_def(batch_size=2, num_threads=1, device_id=None)
        def define():
            inside.wait(LONG)
            data = types.Constant(number)
            inside.wait(LONG)
            return fn.python_function(data, function=lambda x: x + 1)

        pipe = define()
        with pipe:
            results[number] = [Pipeline.current() is pipe]
            inside.wait(LONG)
        results[number].append(int(pipe.run()[0].at(0)))

    threads = [threading.Thread(target=work, args=(number,), daemon=True) for number in (10, 20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LONG)
    assert results == {10: [True, 11], 20: [True, 21]}


def test_settings_are_read_from_the_pipeline():
    """Under the names of the arguments, and DALI's second name of the batch size."""
    pipe = simple(num_threads=3, seed=7, prefetch_queue_depth=3)
    names = ("batch_size", "max_batch_size", "num_threads", "device_id", "seed", "prefetch_queue_depth")
    assert [getattr(pipe, name) for name in names] == [2, 2, 3, None, 7, 3]


def test_the_hints_of_a_pipeline_can_be_read():
    """Also of methods whose types are loaded late: editors, checkers at run time and generators of pages read them."""
    for name in (name for name in dir(Pipeline) if not name.startswith("_")):
        member = inspect.getattr_static(Pipeline, name)
        for function in (member.fget,) if isinstance(member, property) else (member,):
            if inspect.isfunction(function):
                typing.get_type_hints(function)
    assert typing.get_type_hints(Pipeline.advice)["return"].__args__[0].__name__ == "Advice"
    assert typing.get_type_hints(Pipeline.failures)["return"].__args__[0].__name__ == "Failure"
