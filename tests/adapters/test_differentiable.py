"""differentiable=True: gradients from the training loop's loss to parameters inside of functions of the pipeline."""

import warnings

import numpy as np
import pytest

from pipeflow import fn, pipeline_def
from pipeflow.errors import InvalidState

torch = pytest.importorskip(
    "torch", reason="differentiable functions need torch: make test-adapters", exc_type=ImportError
)
pytorch = pytest.importorskip("pipeflow.plugin.pytorch")

pytestmark = pytest.mark.adapters
BATCH = 4
SETTINGS = {"batch_size": BATCH, "num_threads": 2, "exec_async": False, "prefetch_queue_depth": 1}


def dense(info):
    return np.random.default_rng(info.idx_in_epoch).normal(size=(3, 5)).astype(np.float32)


def ragged(info):
    rows = 1 + info.idx_in_epoch % 3
    return np.random.default_rng(info.idx_in_epoch).normal(size=(rows, 5)).astype(np.float32)


def samples(source, first=0):
    """The inputs of one batch, made again."""
    numbered = [type("Info", (), {"idx_in_epoch": first + i})() for i in range(BATCH)]
    return [torch.from_numpy(source(info)) for info in numbered]


class Scale:
    """A parameter and what is done with it."""

    def __init__(self):
        self.weight = torch.nn.Parameter(torch.linspace(0.5, 1.5, 5))

    def __call__(self, x):
        return x * self.weight

    def listed(self, xs):
        return [x * self.weight for x in xs]

    def stacked(self, xs):
        return torch.stack(list(xs)) * self.weight


def pipeline(build, source=dense, **settings):
    return pipeline_def(lambda: build(fn.external_source(source, batch=False)), **{**SETTINGS, **settings})()


def by_py_function(function, **arguments):
    return lambda x: fn.py_function(function, [x], np.float32, differentiable=True, **arguments)


def by_torch(function, **arguments):
    return lambda x: pytorch.fn.torch_python_function(x, function=function, differentiable=True, **arguments)


def gradient_of(weight, loss):
    weight.grad = None
    loss.backward()
    return weight.grad.clone()


WAYS = {
    "py_function": lambda scale: by_py_function(scale),
    "torch_python_function": lambda scale: by_torch(scale),
    "a batch as a list": lambda scale: by_torch(scale.listed, batch_processing=True),
    "a batch as one tensor": lambda scale: by_torch(scale.stacked, batch_processing=True),
}


@pytest.mark.parametrize("way", WAYS)
def test_the_loss_reaches_parameters(way):
    """The gradient of a loss over the batch is that of the same computation without a pipeline, batch after batch."""
    scale = Scale()
    pipe = pipeline(WAYS[way](scale))
    for step in range(3):
        (batch,) = pipe.run()
        tensor = pytorch.as_tensor(batch)
        assert tensor.requires_grad
        assert tensor.shape == (BATCH, 3, 5)
        np.testing.assert_array_equal(np.asarray(batch.as_array()), tensor.detach().numpy())
        found = gradient_of(scale.weight, (tensor**2).mean())
        expected = gradient_of(
            scale.weight, (torch.stack([scale(x) for x in samples(dense, step * BATCH)]) ** 2).mean()
        )
        torch.testing.assert_close(found, expected)


def test_one_tensor_for_the_batch_is_handed_on_as_it_is():
    """What the function returned in one piece is not stacked anew."""
    returned = []

    def keep(xs):
        returned.append(torch.stack(list(xs)) * weight)
        return returned[-1]

    weight = torch.ones((), requires_grad=True)
    (batch,) = pipeline(by_torch(keep, batch_processing=True)).run()
    assert pytorch.as_tensor(batch) is returned[0]
    assert pytorch.as_tensor(batch.as_tensor()) is returned[0]


@pytest.mark.parametrize("way", ["py_function", "torch_python_function", "a batch as a list"])
def test_ragged_samples_keep_their_gradients(way):
    """Each sample is the tensor that the function returned."""
    scale = Scale()
    (batch,) = pipeline(WAYS[way](scale), ragged).run()
    tensors = [pytorch.as_tensor(sample) for sample in batch]
    assert [tuple(tensor.shape) for tensor in tensors] == [(1, 5), (2, 5), (3, 5), (1, 5)]
    found = gradient_of(scale.weight, sum((tensor**2).sum() for tensor in tensors))
    expected = gradient_of(scale.weight, sum((scale(x) ** 2).sum() for x in samples(ragged)))
    torch.testing.assert_close(found, expected)


def test_several_outputs():
    """Each has its own history; one without gradients is a plain tensor beside it."""
    weight = torch.tensor(2.0, requires_grad=True)

    def several(x):
        return x * weight, x.sum() * weight**2, torch.tensor(7)

    pipe = pipeline(lambda x: fn.py_function(several, [x], [np.float32, np.float32, np.int64], differentiable=True))
    products, sums, sevens = [pytorch.as_tensor(batch) for batch in pipe.run()]
    assert products.requires_grad
    assert sums.requires_grad
    assert not sevens.requires_grad
    assert sevens.tolist() == [7] * BATCH
    xs = torch.stack(samples(dense))
    torch.testing.assert_close(gradient_of(weight, products.sum() + sums.sum()), xs.sum() + xs.sum() * 2 * 2.0)


def test_a_chain_of_differentiable_functions():
    """The second one gets the first one's tensors, and the loss reaches parameters of both; ordinary operators come before."""
    first, second = Scale(), Scale()

    def build(x):
        return by_torch(second, output_layouts="HW")(by_py_function(first)(x * 2))

    (batch,) = pipeline(build).run()
    loss = pytorch.as_tensor(batch).sum()
    loss.backward()
    xs = 2 * torch.stack(samples(dense))
    torch.testing.assert_close(first.weight.grad, (xs * second.weight.detach()).sum((0, 1)))
    torch.testing.assert_close(second.weight.grad, (xs * first.weight.detach()).sum((0, 1)))
    assert batch.layout() == "HW"


KINDS = {
    "dense": lambda x: x,
    "padded": lambda x: x,
    "nested": lambda x: torch.cat(list(x.unbind())),
    "list": torch.cat,
    "coo": lambda x: x.to_dense(),
}


@pytest.mark.parametrize("kind", KINDS)
def test_iterators_deliver_tensors_with_gradients(kind):
    """In every form that the iterators know."""
    scale = Scale()
    source = dense if kind == "dense" else ragged
    loader = pytorch.RaggedIterator(pipeline(by_py_function(scale), source), ["x"], output_types=kind, size=2 * BATCH)
    for number, (batch,) in enumerate(loader):
        found = gradient_of(scale.weight, (KINDS[kind](batch["x"]) ** 2).sum())
        expected = gradient_of(scale.weight, sum((scale(x) ** 2).sum() for x in samples(source, number * BATCH)))
        torch.testing.assert_close(found, expected)


def test_a_part_of_the_last_batch_keeps_its_gradients():
    """Six samples in batches of four."""
    scale = Scale()
    loader = pytorch.GenericIterator(
        pipeline(by_py_function(scale)), ["x"], size=6, last_batch_policy=pytorch.LastBatchPolicy.PARTIAL
    )
    batches = [batch["x"] for (batch,) in loader]
    assert [len(x) for x in batches] == [4, 2]
    found = gradient_of(scale.weight, batches[1].sum())
    torch.testing.assert_close(found, torch.stack(samples(dense, 4)[:2]).sum((0, 1)))


def test_learnable_preprocessing_trains():
    """Gradient descent through the pipeline finds the factors that were hidden in the targets."""
    scale = Scale()
    hidden = torch.tensor([2.0, -1.0, 0.5, 1.0, 3.0])
    pipe = pipeline(lambda x: (by_py_function(scale)(x), x))
    optimizer = torch.optim.SGD([scale.weight], lr=0.5)
    for _ in range(60):
        made, raw = [pytorch.as_tensor(batch) for batch in pipe.run()]
        loss = ((made - raw * hidden) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    torch.testing.assert_close(scale.weight.detach(), hidden, atol=0.05, rtol=0)


def test_shapes_may_be_changed_but_not_types():
    """squeeze and as_reshaped_tensor keep the history; another type cannot."""
    weight = torch.ones((), requires_grad=True)
    pipe = pipeline(by_py_function(lambda x: x[None] * weight))
    (batch,) = pipe.run()
    assert batch.squeeze()
    assert pytorch.as_tensor(batch).requires_grad
    assert pytorch.as_tensor(batch.as_reshaped_tensor([BATCH * 15])).requires_grad
    with pytest.raises(RuntimeError, match="would lose their gradients"):
        batch.reinterpret(np.int32)


def test_the_arrays_are_read_only():
    """Their memory belongs to the history."""
    (batch,) = pipeline(by_py_function(Scale())).run()
    with pytest.raises(ValueError, match="read-only"):
        batch.at(0)[...] = 0


def test_it_says_once_that_it_runs_synchronously():
    """A warning at build names the function and the settings; with these settings it is quiet."""
    pipe = pipeline(by_py_function(Scale()), exec_async=True, prefetch_queue_depth=3)
    text = r"runs synchronously with prefetch_queue_depth=1, because fn.py_function \(py_function_0\) is differentiable"
    with pytest.warns(UserWarning, match=text) as caught:
        pipe.build()
    assert len(caught) == 1
    assert caught[0].filename == __file__
    pipe.run()  # where another warning would be an error
    pipe.run()
    assert pipe.prefetch_queue_depth == 1
    assert not pipe.exec_async
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pipeline(by_py_function(Scale())).run()


def test_batches_are_made_when_they_are_asked_for():
    """With the parameters of that moment: an optimizer step between two batches is seen by the second."""
    weight = torch.tensor(1.0, requires_grad=True)
    loader = pytorch.GenericIterator(pipeline(by_py_function(lambda x: x * 0 + weight)), ["x"], size=3 * BATCH)
    seen = []
    for (batch,) in loader:
        seen.append(batch["x"].mean().item())
        with torch.no_grad():
            weight += 1
    assert seen == [1, 2, 3]


def test_two_outstanding_batches_are_refused():
    """The error gives the reason; after taking the first one it goes on."""
    pipe = pipeline(by_py_function(Scale()))
    pipe.schedule_run()
    with pytest.raises(
        InvalidState, match=r"one batch at a time, .* would make the gradients of the second one wrong|one batch"
    ):
        pipe.schedule_run()
    pipe.outputs()
    pipe.schedule_run()
    assert pytorch.as_tensor(pipe.outputs()[0]).requires_grad


def test_in_a_debug_run_too():
    """The same functions and the same checks."""
    scale = Scale()
    (batch,) = pipeline(by_py_function(scale), debug=True).run()
    assert pytorch.as_tensor(batch).requires_grad
    with pytest.raises(ValueError, match="would lose the gradients"):
        pipeline(lambda x: by_py_function(scale)(x) + 1, debug=True).run()


@pytest.mark.parametrize("way", WAYS)
def test_detached_results_are_refused(way):
    """The error names the function and its line; without gradients wanted at all it is no error."""
    scale = Scale()
    scale.weight.requires_grad_(False)
    pipe = pipeline(WAYS[way](scale))
    with pytest.raises(RuntimeError, match="none of its results has gradients: they are detached") as caught:
        pipe.run()
    assert "Scale" in str(caught.value)
    assert "test_differentiable.py" in "\n".join(caught.value.__notes__)
    with torch.no_grad():
        assert not pytorch.as_tensor(pipe.run()[0]).requires_grad


def test_on_arrays_too():
    """Called at once, the result is the function's own tensor."""
    scale = Scale()
    (x, *_) = samples(dense)
    made = fn.py_function(scale, [x.numpy()], np.float32, differentiable=True)
    found = gradient_of(scale.weight, pytorch.as_tensor(made).sum())
    torch.testing.assert_close(found, x.sum(0))


def test_wrong_results_of_whole_batches_are_named():
    """A wrong number of samples, or something that is no batch."""
    weight = torch.ones((), requires_grad=True)
    with pytest.raises(ValueError, match=r"output 0 of .* has 1 sample in a batch of 4"):
        pipeline(by_torch(lambda xs: [xs[0] * weight], batch_processing=True)).run()
    with pytest.raises(TypeError, match="neither a list of 4 tensors nor one tensor whose first axis is the samples"):
        pipeline(by_torch(lambda xs: xs[0].sum() * weight, batch_processing=True)).run()
