"""Batches and epochs without samples, and of objects, in every iterator for torch, JAX and Keras, as tests/loop has them."""

import os
from importlib.util import find_spec

import numpy as np
import pytest
from loop.test_batches_of_none import SIZES, batches, make

from pipeflow import fn, pipeline_def, types
from pipeflow.epochs import LastBatchPolicy
from pipeflow.plugin.base import BaseIterator

pytestmark = pytest.mark.adapters
os.environ.setdefault("KERAS_BACKEND", "tensorflow" if find_spec("tensorflow") else "jax")
# Without samples, the type and the axes of a result are known only if they are declared.
FLOATS = {"dtype": types.FLOAT, "ndim": 1}
FORMS = ("dense", "list", "nested", "padded", "coo")


def array_of(values):
    """Any form of a batch as one array."""
    if isinstance(values, list):
        return np.array([np.asarray(x) for x in values], np.float32).reshape(-1, 3)
    if getattr(values, "is_nested", False):
        return array_of(list(values.unbind()))
    return np.asarray(values.to_dense() if getattr(values, "is_sparse", False) else values)


def torch_kinds():
    """Every iterator for torch, as a function of a pipeline with two outputs and options."""
    from pipeflow.plugin import pytorch

    names = ["data", "label"]
    kinds = {
        "GenericIterator": lambda pipe, **options: pytorch.GenericIterator(pipe, names, **options),
        "ClassificationIterator": pytorch.ClassificationIterator,
    }
    return kinds | {
        f"RaggedIterator {form}": lambda pipe, form=form, **options: pytorch.RaggedIterator(
            pipe, names, output_types=form, **options
        )
        for form in FORMS
    }


def jax_kinds():
    """The same for JAX, with the dictionary of a batch in a list as in the others."""
    from pipeflow.plugin import jax

    class Listed(jax.GenericIterator):
        def __next__(self):
            return [super().__next__()]

    return {"GenericIterator": lambda pipe, **options: Listed(pipe, ["data", "label"], **options)}


KINDS = {"pytorch": torch_kinds, "jax": jax_kinds}
NAMES = [
    *[("pytorch", name) for name in ("GenericIterator", "ClassificationIterator")],
    *[("pytorch", f"RaggedIterator {form}") for form in FORMS],
    ("jax", "GenericIterator"),
]


def two(source, **settings):
    """A pipeline over a source whose outputs are its numbers and their double."""
    settings = {"arguments": {"cycle": "raise", **FLOATS}, **settings}
    return make(source, lambda x: (x, fn.copy(x) * 2), **settings)


@pytest.mark.parametrize("library", KINDS)
def test_every_iterator_of_a_library_is_here(library):
    """And every form of ragged batches."""
    module = pytest.importorskip(f"pipeflow.plugin.{library}")
    found = {
        name
        for name, value in vars(module).items()
        if isinstance(value, type) and issubclass(value, BaseIterator) and value.__module__ == module.__name__
        if name == value.__name__
    }
    assert found == {name.split()[0] for place, name in NAMES if place == library}
    assert [name for place, name in NAMES if place == library] == list(KINDS[library]())
    if library == "pytorch":
        assert set(FORMS) == set(module._COLLATE)


@pytest.mark.parametrize("policy", [LastBatchPolicy.FILL, LastBatchPolicy.PARTIAL], ids=str)
@pytest.mark.parametrize(("library", "name"), NAMES)
def test_every_iterator_delivers_them(library, name, policy):
    """In their places, with the type of the others and a mask without values; epochs follow each other."""
    pytest.importorskip(f"pipeflow.plugin.{library}")
    iterator = KINDS[library]()[name](two(batches()), last_batch_policy=policy, mask="valid")
    for _ in range(2):
        found = [batch[0] for batch in iterator]
        assert [len(np.asarray(batch["valid"])) for batch in found] == SIZES
        for key, factor in (("data", 1), ("label", 2)):
            made = [array_of(batch[key]) for batch in found]
            assert [len(x) for x in made] == SIZES
            assert [x.ravel().tolist() for x in made] == [(x * factor).ravel().tolist() for x in batches()]
            if not isinstance(found[0][key], list):
                assert len({(batch[key].dtype, batch[key].ndim) for batch in found}) == 1
                assert len({str(getattr(batch[key], "layout", "")) for batch in found}) == 1


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize("form", FORMS)
def test_numbers_that_are_all_missing(form):
    """Samples without axes have every form, too: such a nested tensor has the layout of one with samples."""
    torch = pytest.importorskip("torch")
    from pipeflow.plugin.pytorch import RaggedIterator

    numbers = [np.full(size, place, np.int64) for place, size in enumerate(SIZES)]
    arguments = {"cycle": "raise", "dtype": types.INT64, "ndim": 0}
    found = [batch[0]["x"] for batch in RaggedIterator(make(numbers, arguments=arguments), ["x"], output_types=form)]
    assert [len(x) if isinstance(x, list) else x.size(0) for x in found] == SIZES
    if form != "list":
        assert {x.dtype for x in found} == {torch.int64}
        assert len({x.layout for x in found}) == 1


def nothing():
    """A generator that ends at once."""
    return
    yield


@pytest.mark.parametrize("policy", list(LastBatchPolicy), ids=str)
@pytest.mark.parametrize(("library", "name"), NAMES)
def test_an_epoch_of_none(library, name, policy):
    """It ends at once, its length is 0, and another follows."""
    pytest.importorskip(f"pipeflow.plugin.{library}")
    for source in ([], nothing):
        iterator = KINDS[library]()[name](two(source), last_batch_policy=policy)
        assert [list(iterator), list(iterator)] == [[], []]
        if source == []:
            assert len(iterator) == 0


def test_jax_with_a_sharding():
    """A batch of none over devices is one array without rows."""
    jax = pytest.importorskip("jax")
    from pipeflow.plugin.jax import GenericIterator

    mesh = jax.sharding.Mesh(np.array(jax.devices()[:1]), ("batch",))
    sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("batch"))
    iterator = GenericIterator(two(batches()), ["data", "label"], sharding=sharding)
    assert [batch["data"].shape for batch in iterator] == [(size, 3) for size in SIZES]


@pytest.mark.parametrize("library", KINDS)
def test_several_pipelines(library):
    """Batches whose samples were all skipped, in each of them."""
    module = pytest.importorskip(f"pipeflow.plugin.{library}")

    def define():
        number = fn.readers.dataset(dataset=range(6), name="numbers")
        return fn.python_function(number, function=lambda x: 12 // (int(x) // 2), on_error="skip")

    pipes = [pipeline_def(define, batch_size=2, num_threads=1)() for _ in range(2)]
    iterator = module.GenericIterator(pipes, ["x"], reader_name="numbers")
    for _ in range(2):
        found = [
            [x["x"].tolist() for x in batch] if library == "pytorch" else batch["x"].tolist() for batch in iterator
        ]
        assert found == [[[], []], [[12, 12]] * 2, [[6, 6]] * 2]


def test_an_iterator_that_shows_its_next_batch_refuses_them():
    """All of its batches have the shapes of the first; an epoch of none ends at once."""
    clu = pytest.importorskip("pipeflow.plugin.jax.clu")
    iterator = clu.PeekableIterator(two(batches()), ["data", "label"])
    assert len(next(iterator)["data"]) == 0
    with pytest.raises(ValueError, match="the first one was"):
        next(iterator)
    assert list(clu.PeekableIterator(two([]), ["data", "label"])) == []


def test_keras_gets_them_in_their_places():
    """As arrays without rows, in every pass; an epoch of none has the length 0."""
    pytest.importorskip("keras")
    from pipeflow.plugin.keras import PyDataset

    data = PyDataset(two(batches(), arguments=FLOATS))
    for _ in range(2):
        given = [data[index] for index in range(len(data))]
        assert [[x.ndim for x in batch] for batch in given] == [[2, 2]] * len(SIZES)
        assert [[x.ravel().tolist() for x in batch] for batch in given] == [
            [x.ravel().tolist(), (2 * x).ravel().tolist()] for x in batches()
        ]
    assert len(PyDataset(two([], arguments={}))) == 0


WORDS = [["a", "bc"], ["d", "ef"]]


def words():
    """A pipeline whose outputs are text."""
    define = lambda: (fn.external_source(WORDS, cycle="raise"), fn.external_source(WORDS))
    return pipeline_def(define, batch_size=2, num_threads=1)()


@pytest.mark.parametrize(("library", "name"), NAMES)
def test_text(library, name):
    """It is delivered as a list, or refused with the name of the output and a way out."""
    pytest.importorskip(f"pipeflow.plugin.{library}")
    iterator = KINDS[library]()[name](words())
    if library == "jax":
        with pytest.raises(TypeError, match="output 'data' is text or other objects, of which JAX has no arrays"):
            next(iterator)
    elif name.split()[-1] in ("nested", "padded", "coo"):
        with pytest.raises(TypeError, match=r"output 'data' is text .* write output_types=\{'data': 'list'\}"):
            next(iterator)
    else:
        for _ in range(2):
            assert [[batch[0]["data"], batch[0]["label"]] for batch in iterator] == [[x, x] for x in WORDS]


def test_keras_gets_text():
    """As arrays of objects."""
    pytest.importorskip("keras")
    from pipeflow.plugin.keras import PyDataset

    data = PyDataset(words())
    assert [[x.tolist() for x in data[index]] for index in range(len(data))] == [[x, x] for x in WORDS]
