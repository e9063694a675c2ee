"""What holds for every declared operator, through the examples of its declaration.

Add a property here rather than in the tests of one operator when it is true of all of them. Known exceptions stand in
a table with their reason, never in the tests.
"""

import dataclasses
import pickle
import sys

import example_data
import numpy as np
import pytest
from generate_docs import examples, public

from pipeflow import fn, pipeline_def, types
from pipeflow.declare import Spec, bind, counted, eager, interpreter, universal

pytestmark = pytest.mark.usefixtures("elsewhere")

OPERATORS = [op for op in public() if not op.nodes_only]  # those have no call on arrays
EXAMPLES = [(op, text) for op in OPERATORS if op.factory is None for text in examples(op)]
# Operator -> why the tests in pipelines, which run batches of two, leave it out.
NOT_IN_PIPELINES = {"permute_batch": "its example names the samples of a batch of one"}
IN_PIPELINES = [(op, text) for op, text in EXAMPLES if op.name not in NOT_IN_PIPELINES]
NAMES = {"fn": fn, "types": types, "np": np, **example_data.arrays()}

# Operators that take the types that their call declares, so that other inputs of the same call are refused.
TYPED_BY_THE_CALL = ("numba_function", "experimental.numba_function")

every_operator = pytest.mark.parametrize("op", OPERATORS, ids=lambda op: op.name)
every_example = pytest.mark.parametrize(("op", "text"), EXAMPLES, ids=[text for _, text in EXAMPLES])
every_pipeline = pytest.mark.parametrize(("op", "text"), IN_PIPELINES, ids=[text for _, text in IN_PIPELINES])
every_dtype = pytest.mark.parametrize("dtype", types.in_order(types.NUMBERS), ids=str)


def call_of(op, text):
    """The call that an example makes: its last one, the calls inside it run at once."""
    calls = []

    def remember(call):
        calls.append(call)
        return eager(call)

    token = interpreter.set(remember)
    try:
        eval(text, dict(NAMES))
    finally:
        interpreter.reset(token)
    assert calls, f"the example calls no operator: {text}"
    assert calls[-1].op is op, f"the example of {op.title} calls {calls[-1].op.title} last"
    return calls[-1]


def outputs_of(call, inputs=None, key=5):
    """The outputs of a call as a list of arrays, perhaps with other inputs."""
    inputs = call.inputs if inputs is None else tuple(inputs)
    result = eager(dataclasses.replace(call, inputs=inputs, key=key if call.op.random else None))
    if result is None:
        return []
    return [np.asarray(item) for item in result] if isinstance(result, list) else [np.asarray(result)]


def same(left, right):
    assert len(left) == len(right)
    for a, b in zip(left, right):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)


def with_first(call, array):
    return (array, *call.inputs[1:])


def first_of(call):
    """The first input, where it is an array that can be changed."""
    first = call.inputs[0] if call.inputs else None
    return first if isinstance(first, np.ndarray) else None


def assert_as_inferred(call, inputs, outputs):
    specs = [Spec(x.shape, x.dtype, "") for x in map(np.asarray, inputs)]
    for spec, output in zip(call.op.specs(specs, call.constants, len(outputs)), outputs):
        if spec.dtype is not None:
            assert output.dtype == spec.dtype
        if spec.shape is not None:
            assert output.ndim == len(spec.shape)
            assert all(known in (None, extent) for known, extent in zip(spec.shape, output.shape)), (
                f"inferred {spec}, got shape {output.shape}"
            )


@every_operator
def test_its_page_starts_with_a_sentence(op):
    """Documentation begins with one sentence that says what the operator does and ends with a full stop."""
    first = (op.__doc__ or "").split("\n\n")[0].strip()
    assert first.endswith((".", "::")), f"{op.title} has no first sentence: {first!r}"
    assert "Args:" not in op.__doc__
    assert "Parameters\n" not in op.__doc__


def lacking_a_meaning(op):
    """The arguments that say nothing to the user, or not in the form of the others: a phrase without a full stop."""
    given = [param for param in op.arguments.values() if not counted(op, param)]
    return [
        param.name
        for param in (*given, *universal(op).values())
        if len(param.meaning.split()) < 2 or param.meaning[0].isupper() or param.meaning.endswith(".")
    ]


@every_operator
def test_every_argument_says_what_it_means(op):
    """Each has a phrase in its declaration, which the page, the stub and the errors show."""
    assert not lacking_a_meaning(op), f"{op.title}: give these a meaning by default(), required() or parameters()"


@every_example
def test_an_operator_says_that_kernels_do_its_work(op, text, monkeypatch):
    """One whose example enters a kernel compiled by Numba is declared ``compiled``: its kernels are made at build()."""
    call = call_of(op, text)
    outputs_of(call)  # compiles what there is to compile
    entered = []

    def watched(name, kernel):
        return lambda *arguments: entered.append(name) or kernel(*arguments)

    for module in [module for name, module in sys.modules.items() if name.startswith("pipeflow.kernels.cpu.")]:
        for name, value in list(vars(module).items()):
            if hasattr(value, "nopython_signatures"):
                monkeypatch.setattr(module, name, watched(name, value))
    outputs_of(call)
    assert op.compiled or not entered, f"{op.title} is not declared compiled=True and enters {entered}"


@every_operator
def test_it_has_an_example(op):
    """Declared, or made from the declaration where no argument is required."""
    assert examples(op), f"{op.title} has required arguments: give its declaration an example"


@every_operator
def test_it_travels_by_name(op):
    """Pickling an operator stores its name, so a plan can be sent to a worker."""
    assert pickle.loads(pickle.dumps(op)) is op


@every_operator
def test_an_unknown_argument_is_refused_by_name(op):
    """The message names the argument and the operator; DALI's KeyError catches it."""
    with pytest.raises((KeyError, TypeError, ValueError)) as caught:
        op(*[np.zeros(1)] * op.min_inputs, no_such_argument=1)
    assert "no_such_argument" in str(caught.value) + str(getattr(caught.value, "__notes__", ""))


@every_example
def test_none_means_not_given(op, text):
    """None for each argument that an example leaves out changes nothing, in a call and in a pipeline definition."""
    call = call_of(op, text)
    given = {**call.constants, **call.arguments}
    names = [name for name, param in op.arguments.items() if name not in given and not param.required]
    if op.order:
        bound = bind(op, call.inputs, {**given, **dict.fromkeys([*names, *universal(op)])})
    else:
        calls = []
        token = interpreter.set(calls.append)
        try:
            op(*call.inputs, **given, **dict.fromkeys([*names, *universal(op)]))
        finally:
            interpreter.reset(token)
        bound = calls[0]
    assert bound.constants.keys() == call.constants.keys()
    same(outputs_of(call), outputs_of(bound))


@every_example
def test_its_outputs_are_as_inferred(op, text):
    """What is inferred before the run about types and shapes is what comes out."""
    call = call_of(op, text)
    assert_as_inferred(call, call.inputs, outputs_of(call))


@every_example
def test_the_same_key_gives_the_same_numbers(op, text):
    """A sample is a function of its inputs and its key; other keys give other numbers."""
    call = call_of(op, text)
    first = outputs_of(call)
    same(first, outputs_of(call))
    alone = op.base_traits.granularity == "batch" and not call.inputs  # a batch of one may leave nothing to draw
    if op.random and op.base_traits.pure and not alone and any(x.size for x in first):  # user code may ignore its key
        others = [outputs_of(call, key=key) for key in range(100, 130)]
        changed = [
            any(a.shape != b.shape or not np.array_equal(a, b) for a, b in zip(first, other)) for other in others
        ]
        assert any(changed), "thirty other keys gave the same numbers"


@every_example
def test_the_inputs_stay_as_they_are(op, text):
    """Neither the values given nor, for an operator that writes into `out`, their memory are touched by the result."""
    call = call_of(op, text)
    before = [np.array(x) for x in call.inputs]
    outputs = outputs_of(call)
    same(before, [np.asarray(x) for x in call.inputs])
    if "out" in op.wants:
        assert not any(np.may_share_memory(x, y) for x in map(np.asarray, call.inputs) for y in outputs if y.size)


@every_example
@pytest.mark.parametrize("order", ["strided", "fortran", "read-only"])
def test_the_memory_order_of_the_input_does_not_matter(op, text, order):
    """Every second element of a larger array, column-major order and read-only memory give the same result."""
    call = call_of(op, text)

    def arranged(x):
        if order == "fortran":
            return np.asfortranarray(x)
        if order == "strided":
            larger = np.zeros([2 * extent for extent in x.shape], x.dtype)
            larger[tuple(slice(None, None, 2) for _ in x.shape)] = x
            return larger[tuple(slice(None, None, 2) for _ in x.shape)] if x.ndim else x
        x = x.copy()
        x.flags.writeable = False
        return x

    inputs = [arranged(x) if isinstance(x, np.ndarray) else x for x in call.inputs]
    same(outputs_of(call), outputs_of(call, inputs))


@every_example
def test_a_batch_is_its_samples(op, text):
    """A list of samples gives what each sample gives alone."""
    call = call_of(op, text)
    if op.random or not call.inputs or op.traits_of(call.constants).granularity == "batch":
        return
    single = outputs_of(call)
    result = eager(dataclasses.replace(call, inputs=tuple([x, x] for x in call.inputs)))
    batches = result if isinstance(result, list) else [result] if result is not None else []
    for output, batch in zip(single, batches, strict=True):
        same([output, output], [np.asarray(batch.at(0)), np.asarray(batch.at(1))])


@every_example
def test_an_elementwise_body_takes_a_whole_column(op, text):
    """An operator declared elementwise gives for stacked samples the stacked results."""
    call = call_of(op, text)
    if not op.elementwise or not call.inputs or op.random:
        return
    single = outputs_of(call)
    stacked = outputs_of(call, [np.stack([x, x]) for x in map(np.asarray, call.inputs)])
    same([np.stack([output, output]) for output in single], stacked)


def endless(samples):
    return lambda: samples


def run_in_pipeline(text, debug=False):
    """What the example gives as the graph of a pipeline, its arrays fed by external sources; two samples a batch."""

    def definition():
        arrays = example_data.arrays()
        used = [name for name in compile(text, "example", "eval").co_names if name in arrays]
        nodes = {name: fn.external_source(endless([arrays[name]] * 2), name=name) for name in used}
        result = eval(text, {**NAMES, **nodes})
        return tuple(result) if isinstance(result, (tuple, list)) else result

    pipe = pipeline_def(batch_size=2, num_threads=2, device_id=None, seed=3, debug=debug)(definition)()
    pipe.build()
    return [[np.asarray(batch.at(index)) for index in range(2)] for batch in pipe.run()]


@every_pipeline
def test_a_pipeline_gives_what_the_call_gives(op, text):
    """Compiled into a plan, an operator computes what it computes at once; for random ones types and shapes agree."""
    alone = outputs_of(call_of(op, text))
    if not alone:
        return
    outputs = run_in_pipeline(text)
    assert len(outputs) == len(alone)
    for samples, expected in zip(outputs, alone):
        for sample in samples:
            assert (sample.dtype, sample.ndim) == (expected.dtype, expected.ndim)
            if not (op.random and op.base_traits.pure):
                np.testing.assert_array_equal(sample, expected)


@every_pipeline
def test_a_debug_run_gives_the_same_bits(op, text):
    """`debug=True` computes what the compiled pipeline computes, random numbers included."""
    if not outputs_of(call_of(op, text)):
        return
    for compiled, debugged in zip(run_in_pipeline(text), run_in_pipeline(text, debug=True), strict=True):
        same(compiled, debugged)


@every_example
@every_dtype
def test_every_type_works_as_declared_or_is_refused(op, text, dtype):
    """A declared type of the first input works and gives what is inferred, another is refused by name."""
    call = call_of(op, text)
    first = first_of(call)
    if first is None:
        return
    scale = 100 if first.dtype.kind == "f" and dtype.kind != "f" else 1
    inputs = with_first(call, (first * scale).astype(dtype) if dtype != first.dtype else first)
    if op.name in TYPED_BY_THE_CALL and dtype != first.dtype:
        with pytest.raises(TypeError, match=f"is declared as {first.dtype} .* is {dtype}"):
            outputs_of(call, inputs)
    elif dtype in op.dtypes:
        assert_as_inferred(call, inputs, outputs_of(call, inputs))
    else:
        with pytest.raises((TypeError, RuntimeError), match=f"{dtype}"):
            outputs_of(call, inputs)


@every_example
def test_an_empty_sample_gives_a_result_or_a_reason(op, text):
    """An extent of 0 leads to what is inferred, or to an error in words; never to a crash or a wrong shape."""
    call = call_of(op, text)
    first = first_of(call)
    if first is None or not first.ndim:
        return
    for axis in range(first.ndim):
        shape = [0 if axis == i else extent for i, extent in enumerate(first.shape)]
        inputs = with_first(call, np.zeros(shape, first.dtype))
        reason = ""
        try:
            outputs = outputs_of(call, inputs)
        except (ValueError, TypeError, RuntimeError, IndexError) as error:
            reason = str(error)
        if not reason:
            assert_as_inferred(call, inputs, outputs)
        assert not reason or len(reason) > 10, f"no words: {reason!r}"
