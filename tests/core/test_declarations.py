"""How operators are declared: parameters, defaults, meanings, shared sets, and what a body gets."""

from types import SimpleNamespace

import numpy as np
import pytest

from pipeflow import Pipeline, fn, pipeline_def
from pipeflow.declare import (
    DTYPE,
    REQUIRED,
    Arg,
    Args,
    Floats,
    Out,
    Sample,
    Spec,
    default,
    operator,
    parameters,
    registry,
    required,
)
from pipeflow.declare.bound import Bound
from pipeflow.declare.registration import find
from pipeflow.operators import structure
from pipeflow.tensors import TensorListCPU

WINDOW = parameters(
    extent=(Arg[Floats], REQUIRED, "extent of the window"), place=(Arg[float], 0.5, "where it is, from 0 to 1")
)


@pytest.fixture
def declared():
    """An operator with shared and own arguments; it leaves the registry as it was."""

    @operator("declared_here", takes=WINDOW | DTYPE, examples=["fn.declared_here(image, extent=1)"])
    def op(
        image: Sample,
        /,
        *,
        args: Args,
        gain: Arg[float] = required("factor of everything"),
        shift: float = default(1.0, "added at the end"),
        out: Out,
    ) -> Sample:
        """Shows what it gets."""
        out[...] = np.float32([args.extent[0], args.place, gain, args.gain, shift])
        return out

    @op.infer
    def _(_specs, args):
        return Spec((5,), args.dtype or np.float32, "")

    yield op
    del registry["declared_here"]


IMAGE = np.zeros((2, 2), np.float32)


def test_a_body_reads_shared_and_own_arguments_from_one_object(declared):
    """`args` holds all of them, those of the signature come by name too, and defaults are filled in."""
    assert declared(IMAGE, extent=3, gain=2).tolist() == [3, 0.5, 2, 2, 1]
    assert declared(IMAGE, extent=3, gain=2, place=0.25, shift=7, dtype=np.int32).tolist() == [3, 0, 2, 2, 7]


def test_per_sample_arguments_reach_the_shared_object(declared):
    """A batch gives each sample its own values, in `args` as in the signature."""
    extents, gains = TensorListCPU([np.float32(3), np.float32(4)]), TensorListCPU([np.float32(5), np.float32(6)])
    batch = declared([IMAGE, IMAGE], extent=extents, gain=gains)
    assert [x.tolist() for x in batch.samples()] == [[3, 0.5, 5, 5, 1], [4, 0.5, 6, 6, 1]]


def test_parameters_are_shown_in_order(declared):
    """Required ones come first, those of the body before shared ones; then the shared and the other own ones."""
    names = list(declared.__signature__.parameters)
    assert names[:6] == ["image", "gain", "extent", "place", "dtype", "shift"]
    assert declared.arguments["place"].meaning == "where it is, from 0 to 1"


def test_a_body_can_be_called_plainly(declared):
    """What stands in the signature for defaults and meanings becomes the plain defaults."""
    out = np.zeros(5, np.float32)
    declared.body(IMAGE, args=declared.known({"extent": (1.0,), "gain": 2.0}), gain=2.0, out=out)
    assert out.tolist() == [1, 0.5, 2, 2, 1]
    with pytest.raises(TypeError, match="gain"):
        declared.body(IMAGE, args=declared.known({}), out=out)


def test_a_refused_value_is_explained(declared):
    """The error says what the argument means; a missing one too."""
    with pytest.raises(TypeError, match="'extent': must be a number or a list of numbers") as caught:
        declared(IMAGE, extent="wide", gain=1, preserve=7)
    assert "extent is: extent of the window" in caught.value.__notes__
    assert any("preserve is: run the operator even" in note for note in caught.value.__notes__)
    with pytest.raises(TypeError, match=r"'extent' is required \(.*\): extent of the window"):
        declared(IMAGE, gain=1)


def test_an_own_parameter_takes_the_place_of_a_shared_one():
    """The body's signature counts where it declares a name that the shared set has too."""

    @operator("declared_here", takes=WINDOW)
    def op(*, args: Args, place: float = default(0.0, "from the left")) -> Sample:
        """Gives its place."""
        return np.float32([place, args.place])

    try:
        assert op.arguments["place"].meaning == "from the left"
        assert op(extent=1).tolist() == [0, 0]
    finally:
        del registry["declared_here"]


def test_examples_of_an_alias_call_it_by_its_own_name():
    """Two names of one operator have the same examples, each with its name."""
    aliases = {name: op for name, op in registry.items() if name.startswith("experimental.")}
    assert len(aliases) > 5
    for name, op in aliases.items():
        assert op.examples
        assert all(f"fn.{name}(" in text for text in op.examples)


def test_each_prepared_call_makes_its_own_result():
    """What depends on shapes and types is computed before the first call; a result is never written again by a later one."""
    image = np.arange(12, dtype=np.uint8).reshape(2, 2, 3)
    call = Bound(find("flip"), {"horizontal": 1}, 1).prepared([image], ["HWC"])
    first, second = call([image], None), call([image + 1], None)
    np.testing.assert_array_equal(first, image[:, ::-1])
    np.testing.assert_array_equal(second, image[:, ::-1] + 1)


@operator("_mean_as_a_number", hidden=True)
def mean_as_a_number(data: Sample, /) -> Sample:
    """Returns a number of NumPy, no array."""
    return np.float32(data.mean())


@mean_as_a_number.infer
def _(_specs, _args):
    return Spec((), np.dtype(np.float32), "")


def test_a_number_that_a_body_returns_is_an_array():
    """As is one of a subclass of arrays."""
    made = Bound(find("_mean_as_a_number"), {}, 1)([np.arange(4.0)], [""], {}, None, None, "")
    assert [(type(x), x.dtype, x.item()) for x in made] == [(np.ndarray, np.float32, 1.5)]


@operator("_of_a_size_in_the_data", hidden=True)
def of_a_size_in_the_data(data: Sample, /, *, count: int = default(1, "number of outputs"), out) -> Sample:
    """Returns as many values as the data says, in each output."""
    makers = out if isinstance(out, tuple) else (out,)
    made = [make((int(data[0]) + place,), np.dtype(np.int16)) for place, make in enumerate(makers)]
    for place, result in enumerate(made):
        result[...] = place
    return tuple(made) if isinstance(out, tuple) else made[0]


@of_a_size_in_the_data.infer
def _(_specs, args):
    unknown = Spec((None,), np.dtype(np.int16), "")
    return unknown if args.count == 1 else [unknown] * args.count


@pytest.mark.parametrize("count", [1, 2])
def test_a_body_takes_memory_for_results_whose_size_only_it_knows(count):
    """Of one output by a function, of several by a function for each, in the memory that is given."""
    places = {}

    def allocate(output, shape, dtype):
        places[output] = np.empty(shape, dtype)
        return places[output]

    call = Bound(find("_of_a_size_in_the_data"), {"count": count}, count)
    for size in (3, 5):
        made = call([np.array([size])], [""], {}, None, allocate, "")
        assert [x is places[place] for place, x in enumerate(made)] == [True] * count
        assert [x.tolist() for x in made] == [[place] * (size + place) for place in range(count)]


@pytest.mark.parametrize(("before", "after"), [(None, None), ("", ""), ("HWC", None)])
def test_the_layout_of_an_index_into_data_without_a_known_shape(before, after):
    """Data without names of axes has none afterwards; with names, or before it is known whether it has any, it is open."""
    args = SimpleNamespace(plan=(("range", 0, 2, 1),))
    found = registry["_subscript"].infer_hook((Spec(None, np.dtype(np.uint8), before).open(),), args)
    assert (found.shape, found.dtype, found.layout) == (None, np.dtype(np.uint8), after)


@pytest.mark.parametrize("index", [np.array([1, 2]), np.array(1.0), np.array(True), np.zeros(0, np.int32)])
def test_an_index_of_a_sample_is_one_integer(index):
    """Fixed bounds of the plan need no check."""
    with pytest.raises(TypeError, match="an index must be one integer per sample, got"):
        structure._bound(("index", 0), (index,))
    assert structure._bound(("index", 1), (index, np.array([7], np.uint8))) == 7
    assert structure._bound(3, ()) == 3


def test_an_operator_takes_sequences_only_if_it_says_so():
    """Its frames are then passed to the body one by one."""
    assert not mean_as_a_number.sequences
    assert not mean_as_a_number.frames_of(["FHWC"])
    assert find("flip").frames_of(["FHWC"]) == find("flip").sequences


@pytest.mark.parametrize("step", [1, 0])
def test_an_index_with_a_step_of_zero_is_refused(step):
    """As Python does; a step of one is no step."""

    def define():
        return fn.constant(idata=[1, 2, 3])[0:2:step]

    pipe = pipeline_def(define, batch_size=1, num_threads=1, device_id=None)
    if step:
        assert pipe().run()[0].as_array().tolist() == [[1, 2]]
    else:
        with pytest.raises(ValueError, match="step"):
            pipe()


def test_a_class_may_set_up_each_batch():
    """iter_setup is called before every batch that is scheduled."""

    class Counting(Pipeline):
        calls = 0

        def define_graph(self):
            return fn.external_source(name="data")

        def iter_setup(self):
            self.calls += 1
            self.feed_input("data", np.full((1, 1), self.calls))

    pipe = Counting(batch_size=1, num_threads=1, device_id=None, exec_async=False, exec_pipelined=False)
    assert [pipe.run()[0].as_array().tolist() for _ in range(2)] == [[[1]], [[2]]]
    assert pipe.calls == 2
