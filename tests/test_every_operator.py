"""What holds for every declared operator, through the examples of its declaration.

Add a property here rather than in the tests of one operator when it is true of all of them. Known exceptions stand in
a table with their reason, never in the tests.
"""

import ast
import dataclasses
import itertools
import pickle
import sys
import zlib

import example_data
import numpy as np
import pytest
from generate_docs import examples, public
from helpers import calls_of

from pipeflow import fn, pipeline_def, types
from pipeflow.declare import Spec, bind, counted, eager, universal

pytestmark = pytest.mark.usefixtures("elsewhere")

OPERATORS = [op for op in public() if not op.nodes_only]  # those have no call on arrays
EXAMPLES = [(op, text) for op in OPERATORS if op.factory is None for text in examples(op)]
# Operator -> why the tests in pipelines, which run batches of two, leave it out.
NOT_IN_PIPELINES = {
    "permute_batch": "its example names the samples of a batch of one",
    "filter": "in a pipeline data without a layout has no channels",
    "cache": "it finds samples again by their numbers, which only readers give",
}
# Operator -> why it has no place in a branch.
NOT_IN_BRANCHES = {"batch_permutation": "the numbers are those of the samples of a whole batch"}
NAMES = {"fn": fn, "types": types, "np": np, **example_data.arrays()}

# Operators that take the types that their call declares, so that other inputs of the same call are refused.
TYPED_BY_THE_CALL = ("numba_function", "experimental.numba_function")
# Operator -> why the same numbers of another type give another result.
NOT_BY_VALUE = {
    **dict.fromkeys(TYPED_BY_THE_CALL, "the type of its input is declared"),
    "audio_resample": "the range of an integer type is that of the sound",
    "reinterpret": "it reads the bytes",
    "segmentation.select_masks": "the numbers are those of polygons",
}
OBJECT = np.dtype(object)
# Operator -> why it takes objects and gives other ones.
NOT_OF_OBJECTS = {"dl_tensor_python_function": "DLPack has no objects"}
CASTS = ("cast", "cast_like")  # a complex number does not become a real one


def first_input(text):
    """The first input of the call that an example makes: an array, or None where it is none or made by a call."""
    arguments = ast.parse(text, mode="eval").body.args
    name = arguments[0].id if arguments and isinstance(arguments[0], ast.Name) else ""
    return NAMES.get(name)


def draws(op):
    """Whether the results depend on the key; the user's own code may ignore it."""
    return op.random and op.base_traits.pure


def marked(chosen):
    """Parametrizes a test with these examples."""
    return pytest.mark.parametrize(("op", "text"), chosen, ids=[text for _, text in chosen])


IN_PIPELINES = [(op, text) for op, text in EXAMPLES if op.name not in NOT_IN_PIPELINES]
every_operator = pytest.mark.parametrize("op", OPERATORS, ids=lambda op: op.name)
every_example = marked(EXAMPLES)
every_array_with_axes = marked([(op, text) for op, text in EXAMPLES if np.ndim(first_input(text))])
VALUES = [  # the numbers that others draw depend on the range of the type
    (op, text) for op, text in EXAMPLES if np.ndim(first_input(text)) and not op.random and op.name not in NOT_BY_VALUE
]
UNSIGNED = [
    (np.uint8, np.float32, ()),
    (np.uint16, np.int64, pytest.mark.slow),
    (np.uint32, np.int64, pytest.mark.slow),
]
every_draw = marked([(op, text) for op, text in EXAMPLES if draws(op) and op.base_traits.granularity == "sample"])
every_sample = marked(
    [
        (op, text)
        for op, text in EXAMPLES
        if not draws(op) and op.base_traits.granularity == "sample" and ast.parse(text, mode="eval").body.args
    ]
)
every_elementwise = marked([(op, text) for op, text in EXAMPLES if op.elementwise and op.min_inputs and not op.random])
every_pipeline = marked(IN_PIPELINES)
every_pipeline_of_samples = marked([(op, t) for op, t in IN_PIPELINES if op.base_traits.granularity == "sample"])
every_fed_pipeline = marked([(op, text) for op, text in IN_PIPELINES if first_input(text) is not None])
every_fed_pipeline_of_samples = marked(
    [(op, t) for op, t in IN_PIPELINES if op.base_traits.granularity == "sample" and first_input(t) is not None]
)
every_branch = marked([(op, text) for op, text in IN_PIPELINES if op.name not in NOT_IN_BRANCHES])


def typed(op, text, dtype):
    """One example with one type: the usual types run always, one in four of the rest, which compile for minutes."""
    usual = dtype in (np.uint8, np.float32) or zlib.crc32(f"{text} {dtype}".encode()) % 4 == 0
    return pytest.param(op, text, dtype, marks=() if usual else pytest.mark.slow, id=f"{dtype}-{text}")


every_array_of_each_type = pytest.mark.parametrize(
    ("op", "text", "dtype"),
    [
        typed(op, text, dtype)
        for op, text in EXAMPLES
        if first_input(text) is not None
        for dtype in (*types.in_order(types.NUMBERS), np.dtype(np.complex64))
    ],
)


def call_of(op, text):
    """The call that an example makes: its last one, the calls inside it run at once."""
    calls = calls_of(lambda: eval(text, dict(NAMES)), eager)
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
        (bound,) = calls_of(lambda: op(*call.inputs, **given, **dict.fromkeys([*names, *universal(op)])))
    assert bound.constants.keys() == call.constants.keys()
    same(outputs_of(call), outputs_of(bound))


@every_example
def test_its_outputs_are_as_inferred(op, text):
    """What is inferred before the run about types and shapes is what comes out."""
    call = call_of(op, text)
    assert_as_inferred(call, call.inputs, outputs_of(call))


@every_example
def test_the_same_key_gives_the_same_numbers(op, text):
    """A sample is a function of its inputs and its key."""
    call = call_of(op, text)
    same(outputs_of(call), outputs_of(call))


@every_draw
def test_other_keys_give_other_numbers(op, text):
    """What is drawn depends on the key."""
    call = call_of(op, text)
    first, *others = [outputs_of(call, key=key) for key in range(100, 130)]
    assert any(x.size for x in first)
    changed = [any(a.shape != b.shape or not np.array_equal(a, b) for a, b in zip(first, other)) for other in others]
    assert any(changed), "thirty keys gave the same numbers"


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


@every_sample
def test_a_batch_is_its_samples(op, text):
    """A list of samples gives what each sample gives alone."""
    call = call_of(op, text)
    single = outputs_of(call)
    result = eager(dataclasses.replace(call, inputs=tuple([x, x] for x in call.inputs)))
    batches = result if isinstance(result, list) else [result] if result is not None else []
    for output, batch in zip(single, batches, strict=True):
        same([output, output], [np.asarray(batch.at(0)), np.asarray(batch.at(1))])


@every_elementwise
def test_an_elementwise_body_takes_a_whole_column(op, text):
    """An operator declared elementwise gives for stacked samples the stacked results."""
    call = call_of(op, text)
    single = outputs_of(call)
    stacked = outputs_of(call, [np.stack([x, x]) for x in map(np.asarray, call.inputs)])
    same([np.stack([output, output]) for output in single], stacked)


def made(text, arrays):
    """The outputs of an example as a tuple of nodes, its arrays taken from a dictionary."""
    result = eval(text, {**NAMES, **arrays})
    return tuple(result) if isinstance(result, (tuple, list)) else (result,)


def used(text):
    """The names of the arrays in an example."""
    return [name for name in compile(text, "example", "eval").co_names if name in example_data.arrays()]


def fed(text, samples):
    """External sources for the arrays of an example: so many samples of each in every batch."""
    arrays = example_data.arrays()
    return {name: fn.external_source(lambda x=arrays[name]: [x] * samples, name=name) for name in used(text)}


def built(definition, batch_size=2, **settings):
    pipe = pipeline_def(batch_size=batch_size, num_threads=2, device_id=None, seed=3, **settings)(definition)()
    pipe.build()
    return pipe


def delivered(outputs):
    """The samples of every output."""
    return [[np.asarray(batch.at(index)) for index in range(len(batch))] for batch in outputs]


def run_in_pipeline(text, runs=1, **settings):
    """What the example gives as the graph of a pipeline, its arrays fed by external sources: the samples of the last run."""
    pipe = built(lambda: made(text, fed(text, settings.get("batch_size", 2))), **settings)
    for _ in range(runs):
        outputs = pipe.run()
    return delivered(outputs)


def all_same(left, right):
    for one, other in zip(left, right, strict=True):
        same(one, other)


@every_pipeline
def test_a_pipeline_gives_what_the_call_gives(op, text):
    """Compiled into a plan, an operator computes what it computes at once; for random ones types and shapes agree."""
    alone = outputs_of(call_of(op, text))
    outputs = run_in_pipeline(text)
    assert len(outputs) == len(alone)
    for samples, expected in zip(outputs, alone):
        for sample in samples:
            assert (sample.dtype, sample.ndim) == (expected.dtype, expected.ndim)
            if not draws(op):
                np.testing.assert_array_equal(sample, expected)


@every_pipeline
def test_a_debug_run_gives_the_same_bits(op, text):
    """`debug=True` computes what the compiled pipeline computes, random numbers included."""
    all_same(run_in_pipeline(text), run_in_pipeline(text, debug=True))


@every_pipeline
def test_what_is_delivered_is_the_users_to_write(op, text):
    """Writing into every batch changes neither the following ones nor the data that was given; no depth of the queue."""
    expected = run_in_pipeline(text)
    inputs = {name: value.copy() for name, value in example_data.arrays().items()}
    pipe = built(lambda: made(text, fed(text, 2)), prefetch_queue_depth=3)
    steady = not draws(op)
    for _ in range(5):
        outputs = pipe.run()
        if steady:
            all_same(delivered(outputs), expected)
        for batch in outputs:
            for index in range(len(batch)):
                sample = np.asarray(batch.at(index))
                assert sample.flags.writeable
                sample[...] = np.ones((), sample.dtype)
    for name, value in example_data.arrays().items():
        np.testing.assert_array_equal(value, inputs[name])


@every_fed_pipeline
def test_what_was_given_is_the_users_to_write(op, text):
    """The data of a source may be written to as soon as a batch is there: what was delivered stays as it is."""
    names = used(text)
    buffers = {name: [example_data.arrays()[name].copy() for _ in range(2)] for name in names}
    pipe = built(
        lambda: made(text, {name: fn.external_source(lambda x=buffers[name]: x, name=name) for name in names}),
        prefetch_queue_depth=1,
    )
    outputs = delivered(pipe.run())
    before = [[sample.copy() for sample in samples] for samples in outputs]
    for samples in buffers.values():
        for sample in samples:
            sample[...] = 0
    all_same(outputs, before)


@every_fed_pipeline
def test_a_batch_of_none_gives_none(op, text):
    """Where the source gives no samples there are no results, of as many outputs as ever."""
    outputs = run_in_pipeline(text, batch_size=2, runs=1)
    pipe = built(lambda: made(text, fed(text, 0)))
    empty = pipe.run()
    assert [len(batch) for batch in empty] == [0] * len(outputs)


@every_pipeline_of_samples
def test_the_size_of_the_batches_changes_nothing(op, text):
    """Six samples are the same in batches of one, two, three and six: random numbers belong to the sample."""
    whole = run_in_pipeline(text, batch_size=6)
    for size in (1, 2, 3):
        pipe = built(lambda size=size: made(text, fed(text, size)), batch_size=size)
        parts = [delivered(pipe.run()) for _ in range(6 // size)]
        joined = [[sample for part in parts for sample in part[output]] for output in range(len(whole))]
        all_same(joined, whole)


@every_fed_pipeline_of_samples
@pytest.mark.parametrize(
    "sizes", [(5, 1), *(pytest.param(x, marks=pytest.mark.slow) for x in [(1, 5), (4, 2)])], ids=str
)
def test_short_batches_change_nothing(op, text, sizes):
    """Six samples are the same in a full batch and one that has a single sample, and wherever the short one comes."""

    def parts(name):
        following = itertools.chain(sizes, itertools.repeat(1))
        return fn.external_source(lambda: [example_data.arrays()[name]] * next(following), name=name)

    pipe = built(lambda: made(text, {name: parts(name) for name in used(text)}), batch_size=max(sizes))
    found = [delivered(pipe.run()) for _ in sizes]
    assert [{len(samples) for samples in part} for part in found] == [{size} for size in sizes]
    whole = run_in_pipeline(text, batch_size=6)
    all_same([[sample for part in found for sample in part[output]] for output in range(len(whole))], whole)


@every_fed_pipeline
def test_constants_are_inputs_like_any_other(op, text):
    """An array that is part of the graph gives what the same array from a source gives."""
    arrays = example_data.arrays()
    pipe = built(lambda: made(text, {name: types.Constant(arrays[name], arrays[name].dtype) for name in used(text)}))
    all_same(delivered(pipe.run()), run_in_pipeline(text))


@every_branch
@pytest.mark.parametrize(
    "flags",
    [(True, False), (False, False), *(pytest.param(x, marks=pytest.mark.slow) for x in [(False, True), (True, True)])],
    ids=str,
)
def test_in_a_branch_it_sees_its_own_samples_only(op, text, flags):
    """Samples of the branch have the results that they have without one, random ones included; the others have the other's."""
    plain = built(lambda: made(text, fed(text, 2)))
    results = plain.run()
    expected = delivered(results)
    layouts = [batch.layout() for batch in results]
    others = [[sample * 0 if sample.dtype != object else sample for sample in samples] for samples in expected]

    def definition():
        inputs = fed(text, 2)
        flag = fn.external_source(lambda: np.array(flags))
        other = tuple(
            fn.external_source(lambda x=samples: x, dtype=samples[0].dtype, ndim=samples[0].ndim, layout=layout or None)
            for samples, layout in zip(others, layouts)
        )
        if flag:
            chosen = made(text, inputs)
        else:
            chosen = other
        return chosen

    found = delivered(built(definition, enable_conditionals=True).run())
    for output, samples in enumerate(found):
        same(samples, [(expected if flag else others)[output][index] for index, flag in enumerate(flags)])


@every_array_of_each_type
def test_every_type_works_as_declared_or_is_refused(op, text, dtype):
    """A declared type of the first input works and gives what is inferred, another is refused by name."""
    call = call_of(op, text)
    first = call.inputs[0]
    scale = 100 if first.dtype.kind == "f" and dtype.kind != "f" else 1
    inputs = with_first(call, (first * scale).astype(dtype) if dtype != first.dtype else first)
    if op.name in TYPED_BY_THE_CALL and dtype != first.dtype:
        with pytest.raises(TypeError, match=f"is declared as {first.dtype} .* is {dtype}"):
            outputs_of(call, inputs)
    elif dtype in op.dtypes and not (dtype.kind == "c" and op.name in CASTS):
        assert_as_inferred(call, inputs, outputs_of(call, inputs))
    else:
        with pytest.raises((TypeError, RuntimeError), match=f"{dtype}"):
            outputs_of(call, inputs)


@marked([(op, text) for op, text in EXAMPLES if first_input(text) is not None and op.name not in NOT_OF_OBJECTS])
def test_objects_are_moved_read_or_refused(op, text):
    """Operators that move elements move objects; those that read files take the bytes as an object; others refuse by name."""
    call = call_of(op, text)
    first = np.asarray(call.inputs[0])
    places = np.arange(first.size).reshape(first.shape)
    objects = np.array([f"object {place}" for place in range(first.size)], object)
    if OBJECT not in op.dtypes:
        with pytest.raises(TypeError, match="does not take text"):
            outputs_of(call, with_first(call, objects[places]))
    elif places.dtype in op.dtypes:
        moved = outputs_of(call, with_first(call, places))
        found = outputs_of(call, with_first(call, objects[places]))
        same(found, [x if y.dtype != OBJECT else objects[x] for x, y in zip(moved, found, strict=True)])
    else:
        file = np.empty((), object)
        file[()] = first.item() if first.dtype == OBJECT else first.tobytes()
        same(outputs_of(call, with_first(call, file)), outputs_of(call))


@pytest.mark.parametrize(
    ("op", "text", "unsigned", "other"),
    [
        pytest.param(op, text, unsigned, other, marks=marks, id=f"{np.dtype(unsigned)}-{text}")
        for unsigned, other, marks in UNSIGNED
        for op, text in VALUES
        if {np.dtype(unsigned), np.dtype(other)} <= {*op.dtypes}  # others are refused by name, as another test checks
    ],
)
def test_unsigned_numbers_are_never_negative(op, text, unsigned, other):
    """Numbers up to the largest of an unsigned type give what the same numbers of another type give.

    Results are limited to the type of the output, and whole numbers may differ by one where a half is rounded.
    """
    call = call_of(op, text)
    numbers = np.random.default_rng(3).integers(0, np.iinfo(unsigned).max, np.shape(call.inputs[0]), endpoint=True)
    found = outputs_of(call, with_first(call, numbers.astype(unsigned)))
    expected = outputs_of(call, with_first(call, numbers.astype(other)))
    for one, same_numbers in zip(found, expected, strict=True):
        limited = types.saturate(same_numbers, one.dtype)
        assert one.shape == limited.shape
        within = 1e-3 if one.dtype.kind == "f" else 1
        np.testing.assert_allclose(one.astype(float), limited.astype(float), rtol=1e-5, atol=within)


@every_array_with_axes
def test_an_empty_sample_gives_a_result_or_a_reason(op, text):
    """An extent of 0 leads to what is inferred, or to an error in words; never to a crash or a wrong shape."""
    call = call_of(op, text)
    first = call.inputs[0]
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
