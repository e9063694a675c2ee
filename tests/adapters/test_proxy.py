"""The proxy, for real: a pipeline inside torch's DataLoader, with and without worker processes."""

import threading

import numpy as np
import pytest

from pipeflow import fn, pipeline_def

torch = pytest.importorskip("torch")
proxy = pytest.importorskip("pipeflow.plugin.pytorch.experimental.proxy")
# DataLoader forks its workers, and JAX, which other tests of this process import, warns of every fork.
pytestmark = [pytest.mark.adapters, pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning")]
TORCH = None
WORKERS = pytest.mark.parametrize("workers", [0, 2])


class Numbers(torch.utils.data.Dataset):
    """Ten samples of different shapes, each through a proxy, with its number."""

    classes = ("odd", "even")

    def __init__(self, transform, fails=None):
        self.transform, self.fails = transform, fails

    def __len__(self):
        return 10

    def __getitem__(self, item):
        if item == self.fails:
            raise ValueError("not this one")
        return self.transform(np.full(1 + item % 3, item, np.int32)), item


class Pairs(Numbers):
    """Samples with two inputs, in a dictionary."""

    def __getitem__(self, item):
        total, product = self.transform(left=np.float32(item), right=torch.tensor(2.0))
        return {"total": total, "deep": [product, item]}


def summed(batch_size=4, function=None, **options):
    @pipeline_def(batch_size=batch_size, num_threads=1, device_id=None, **options)
    def definition():
        x = fn.external_source(name="x", batch=True)
        if function is not None:
            x = fn.python_function(x, function=function)
        return fn.reductions.sum(x)

    return definition()


def paired():
    @pipeline_def(batch_size=4, num_threads=1, device_id=None)
    def definition():
        left, right = fn.external_source(name="left"), fn.external_source(name="right")
        return left + right, left * right

    return definition()


def expected(item):
    return item * (1 + item % 3)


@WORKERS
def test_a_loader_gives_tensors_in_place_of_references(workers):
    """Batches are the loader's, in its order, whole and shuffled; the data set keeps its attributes."""
    with proxy.DALIServer(summed()) as server:
        loader = proxy.DataLoader(server, Numbers(server.proxy), batch_size=4, num_workers=workers, shuffle=True)
        assert loader.dataset.classes == ("odd", "even")
        for _ in range(2):
            batches = list(loader)
            assert [len(items) for _, items in batches] == [4, 4, 2]
            assert sorted(int(item) for _, items in batches for item in items) == list(range(10))
            for sums, items in batches:
                assert isinstance(sums, torch.Tensor)
                assert sums.tolist() == [expected(int(item)) for item in items]


@WORKERS
def test_several_inputs_are_given_by_name(workers):
    """Several outputs come back in the structure that the data set made; one run makes all outputs of a batch."""
    with proxy.DALIServer(paired(), deterministic=True) as server:
        loader = proxy.DataLoader(server, Pairs(server.proxy), batch_size=4, num_workers=workers)
        batch = next(iter(loader))
    assert batch["total"].tolist() == [2, 3, 4, 5]
    assert batch["deep"][0].tolist() == [0, 2, 4, 6]
    assert batch["deep"][1].tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("call", [lambda p: p(1, 2), lambda p: p(left=1), lambda p: p(left=1, right=2, more=3)])
def test_other_arguments_are_refused(call):
    """The message has the signature."""
    with pytest.raises(ValueError, match=r"Expected signature is proxy\(left=\.\.\., right=\.\.\.\), got proxy\("):
        call(proxy.DALIServer(paired()).proxy)
    with pytest.raises(TypeError, match="must be a tensor, an array or a number, got dict"):
        proxy.DALIServer(summed()).proxy({"a": 1})


def test_samples_without_a_batch():
    """batch_size=None gives single samples, and a collate function of the user may leave lists of references."""
    with proxy.DALIServer(summed()) as server:
        single = list(proxy.DataLoader(server, Numbers(server.proxy), batch_size=None))
        assert [int(total) for total, _ in single] == [expected(item) for item in range(10)]
        listed = proxy.DataLoader(server, Numbers(server.proxy), batch_size=4, collate_fn=lambda samples: samples)
        first = next(iter(listed))
        assert [(int(total), item) for total, item in first] == [(expected(item), item) for item in range(4)]


def test_batches_larger_than_the_pipelines_are_refused():
    """At once where the loader knows its size, else with the first batch."""
    with proxy.DALIServer(summed(batch_size=3)) as server:
        with pytest.raises(ValueError, match="the loader's batch has 4 samples and the pipeline's batch_size is 3"):
            proxy.DataLoader(server, Numbers(server.proxy), batch_size=4)
        loader = proxy.DataLoader(server, Numbers(server.proxy), batch_sampler=[[0, 1, 2, 3]])
        with pytest.raises(ValueError, match="has 4 samples"):
            next(iter(loader))


@WORKERS
def test_an_error_of_the_data_set_names_its_item(workers):
    """The class stays, and the note is there behind the walls of a process."""
    with proxy.DALIServer(summed()) as server:
        loader = proxy.DataLoader(server, Numbers(server.proxy, fails=5), batch_size=4, num_workers=workers)
        with pytest.raises(ValueError, match="not this one") as caught:
            list(loader)
    assert "in item 5 of the data set" in "\n".join([str(caught.value), *getattr(caught.value, "__notes__", ())])


@WORKERS
def test_an_error_of_the_pipeline_names_the_items_of_its_batch(workers):
    """With the place of the sample in it; the next batch is made as if nothing had happened."""

    def refuse(x):
        if x[0] == 6:
            raise LookupError("six")
        return x

    with proxy.DALIServer(summed(function=refuse)) as server:
        loader = proxy.DataLoader(server, Numbers(server.proxy), batch_size=4, num_workers=workers)
        batches = iter(loader)
        next(batches)
        with pytest.raises(LookupError, match="six") as caught:
            next(batches)
    notes = "\n".join(caught.value.__notes__)
    assert "sample 2 of batch 1" in notes
    assert "the items [4, 5, 6, 7] of the data set" in notes


def test_skipped_samples_would_not_fit_their_labels():
    """on_error="skip" is refused where it makes a difference."""

    def refuse(x):
        if x[0] == 1:
            raise LookupError("one")
        return x

    with proxy.DALIServer(summed(function=refuse, on_error="skip")) as server:
        loader = proxy.DataLoader(server, Numbers(server.proxy), batch_size=4)
        with pytest.raises(ValueError, match="the pipeline gave 3 samples for 4"):
            next(iter(loader))


def test_a_loop_needs_a_running_server():
    """Outside of `with` the message says so."""
    server = proxy.DALIServer(summed())
    loader = proxy.DataLoader(server, Numbers(server.proxy), batch_size=4)
    with pytest.raises(RuntimeError, match="the server is not running"):
        iter(loader)
    with pytest.raises(ValueError, match="the pipeline has no input"):
        proxy.DALIServer(pipeline_def(lambda: fn.random.uniform(), batch_size=2, num_threads=1)())


def test_leaving_ends_the_thread():
    """The block ends the server, also after a loop that was left early. A loop that continues after the block gets an error."""
    with proxy.DALIServer(summed()) as server:
        loader = proxy.DataLoader(server, Numbers(server.proxy), batch_size=2, num_workers=1)
        for _ in loader:
            break
        batches = iter(loader)
        next(batches)
    assert not [thread for thread in threading.enumerate() if thread.name == "proxy"]
    with pytest.raises(RuntimeError, match="the server was stopped"):
        next(batches)
