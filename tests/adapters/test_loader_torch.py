"""`pipeflow.loader` beside torch's DataLoader: the same arguments give the same batches."""

import json
from collections import OrderedDict, namedtuple

import numpy as np
import pytest
from adapters.plain_items import Plain

import pipeflow

# The workers of torch are forked, of which JAX warns if another test of this process has imported it.
pytestmark = [pytest.mark.adapters, pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning")]
torch = pytest.importorskip("torch")

Pair = namedtuple("Pair", "left right")
Empty = namedtuple("Empty", "")


class Rows(torch.utils.data.Dataset):
    def __init__(self, size, make):
        self.size, self.make = size, make

    def __len__(self):
        return self.size

    def __getitem__(self, index):
        return self.make(index)


class Numbered(torch.utils.data.IterableDataset):
    def __init__(self, size):
        self.size = size

    def __iter__(self):
        info = torch.utils.data.get_worker_info()
        first, step = (0, 1) if info is None else (info.id, info.num_workers)
        return ({"x": torch.tensor([i]), "of": step} for i in range(first, self.size, step))


class Record(dict):
    """A dictionary of the user's own kind."""


ITEMS = {
    "tensors": lambda i: torch.arange(6).reshape(2, 3) + i,
    "scalars": lambda i: torch.tensor(i),
    "halves": lambda i: torch.full((3,), i, dtype=torch.float16),
    "brain floats": lambda i: torch.full((3,), i, dtype=torch.bfloat16),
    "brain scalars": lambda i: torch.tensor(i, dtype=torch.bfloat16),
    "eighths": lambda i: torch.full((3,), i).to(torch.float8_e4m3fn),
    "complex": lambda i: torch.full((2,), complex(i, 1)),
    "conjugates": lambda i: torch.full((2,), complex(i, 1)).conj(),
    "transposed": lambda i: (torch.arange(6).reshape(2, 3) + i).T,
    "no elements": lambda i: torch.zeros(0, 3),
    "images": lambda i: torch.full((3, 40, 40), i, dtype=torch.uint8),
    "arrays": lambda i: np.arange(4, dtype=np.float32) + i,
    "reversed arrays": lambda i: (np.arange(4) + i)[::-1].copy(),
    "transposed arrays": lambda i: (np.arange(6).reshape(2, 3) + i).T,
    "arrays of bools": lambda i: np.array([True, i > 2]),
    "arrays without axes": lambda i: np.array(i, np.int16),
    "float32": lambda i: np.float32(i) / 3,
    "float64": lambda i: np.float64(i) / 3,
    "int8": lambda i: np.int8(i),
    "uint8": lambda i: np.uint8(i),
    "numpy bools": lambda i: np.bool_(i % 2),
    "integers": lambda i: i * 10**12,
    "floats": lambda i: i / 3,
    "floats, then integers": lambda i: 0.5 if i == 0 else i,
    "integers, then floats": lambda i: i if i % 2 else i + 0.5,
    "bools": lambda i: i % 2 == 0,
    "bools and integers": lambda i: i if i % 3 else True,
    "text": lambda i: f"item {i}",
    "bytes": lambda i: b"item %d" % i,
    "empty text": lambda i: "",
    "tuples": lambda i: (i, torch.tensor([i])),
    "lists": lambda i: [i, [i, "a"]],
    "empty tuples": lambda i: (),
    "one": lambda i: (np.zeros(2),),
    "dictionaries": lambda i: {"x": i, "y": {"z": torch.tensor(i), 3: "k"}},
    "empty dictionaries": lambda i: {},
    "more keys later": lambda i: {"x": i, **({"y": 1} if i else {})},
    "ordered dictionaries": lambda i: OrderedDict(b=i, a=torch.tensor([i])),
    "own dictionaries": lambda i: Record(b=i, a=[torch.tensor([i])]),
    "named tuples": lambda i: Pair(i, {"x": Pair(np.float32(i), [i])}),
    "named tuples of nothing": lambda i: Empty(),
    "deep": lambda i: {"a": [({"b": (i, [Pair(f"{i}", np.ones(2))])},)]},
    "ranges": lambda i: range(i, i + 2),
    "large tensors": lambda i: torch.full((3, 80, 80), i, dtype=torch.uint8),
    "large brain floats": lambda i: {"x": torch.full((90, 100), i, dtype=torch.bfloat16)},
    "large transposed tensors": lambda i: (torch.arange(9000).reshape(90, 100) + i).T,
    "large tensors of two types": lambda i: (torch.full((90, 100), i, dtype=torch.int32 if i < 3 else torch.int64), i),
    "large complex conjugates": lambda i: Pair(torch.full((90, 100), complex(i, 1)).conj(), [i]),
    "large arrays": lambda i: [np.full((90, 100), i, np.float64), np.full((90, 100), i, np.int16)],
}


def assert_same(ours, theirs, path="batch"):
    assert type(ours) is type(theirs), path
    if isinstance(theirs, torch.Tensor):
        assert ours.dtype == theirs.dtype, path
        assert ours.shape == theirs.shape, path
        assert torch.equal(
            ours.float() if ours.dtype.itemsize == 1 else ours, theirs.float() if theirs.dtype.itemsize == 1 else theirs
        )
    elif isinstance(theirs, dict):
        assert list(ours) == list(theirs), path
        for key in theirs:
            assert_same(ours[key], theirs[key], f"{path}[{key!r}]")
    elif isinstance(theirs, (list, tuple)):
        assert len(ours) == len(theirs), path
        for index, (x, y) in enumerate(zip(ours, theirs)):
            assert_same(x, y, f"{path}[{index}]")
    else:
        assert ours == theirs, path


@pytest.fixture(scope="module")
def in_workers():
    """All data sets in one loader with a worker: one process reads them all."""
    everything = Rows(5, lambda i: {name: make(i) for name, make in ITEMS.items()})
    return list(pipeflow.loader(everything, 3, num_workers=1))


@pytest.mark.parametrize("name", ITEMS)
def test_batches_are_those_of_torch(name, in_workers):
    """In structure, types and values: read by the caller, in threads and in worker processes."""
    rows = Rows(5, ITEMS[name])
    wanted = list(torch.utils.data.DataLoader(rows, 3))
    for arguments in ({}, {"num_workers": 2, "workers": "threads"}):
        assert_same(list(pipeflow.loader(rows, 3, **arguments)), wanted)
    assert_same([batch[name] for batch in in_workers], wanted)


@pytest.mark.parametrize("name", ["tensors", "arrays", "tuples", "named tuples", "dictionaries", "floats"])
def test_items_as_they_are(name):
    """batch_size=None converts as torch does."""
    rows = Rows(3, ITEMS[name])
    assert_same(list(pipeflow.loader(rows, None)), list(torch.utils.data.DataLoader(rows, batch_size=None)))


@pytest.mark.parametrize("options", [{}, {"drop_last": True}, {"batch_size": 4}, {"batch_size": None}])
@pytest.mark.parametrize("generator", [None, 7])
def test_shuffled_orders_are_those_of_torch(options, generator):
    """By its global generator or by the one that is given, over two epochs."""
    orders = []
    for make in (torch.utils.data.DataLoader, pipeflow.loader):
        torch.manual_seed(3)
        given = None if generator is None else torch.Generator().manual_seed(generator)
        made = make(Rows(23, int), **{"batch_size": 5, "shuffle": True, "generator": given, **options})
        orders.append([torch.as_tensor(x).tolist() for _ in range(2) for x in made])
        orders[-1].append(torch.rand(1).item())  # and both leave the global generator in the same state
    assert orders[0] == orders[1]


def weighted(generator):
    return torch.utils.data.WeightedRandomSampler([1.0, 2, 3, 4, 5], 12, generator=generator)


SAMPLED = {
    "sampler": lambda g: {"sampler": weighted(g), "batch_size": 5},
    "batches": lambda g: {"batch_sampler": torch.utils.data.BatchSampler(weighted(g), 5, False)},
    "shuffle": lambda g: {"shuffle": True, "generator": g, "batch_size": 2},
}


@pytest.mark.parametrize("generator", [None, 7])
@pytest.mark.parametrize("way", SAMPLED)
def test_orders_of_torch_resume(way, generator):
    """The state has what the generator was at the beginning of the epoch; the global one is left as it is."""

    def make():
        return pipeflow.loader(Rows(5, int), **SAMPLED[way](generator and torch.Generator().manual_seed(generator)))

    torch.manual_seed(1)
    first = make()
    theirs = torch.utils.data.DataLoader(
        Rows(5, int), **SAMPLED[way](generator and torch.Generator().manual_seed(generator))
    )
    batches, states = [], []
    for batch in first:
        batches.append(batch.tolist())
        states.append(json.dumps(first.state_dict()))
    torch.manual_seed(1)
    assert [x.tolist() for x in theirs] == batches
    for step, state in enumerate(states, 1):
        second = make()
        second.load_state_dict(json.loads(state))
        torch.manual_seed(100 + step)
        before = torch.get_rng_state()
        assert [x.tolist() for x in second] == batches[step:]
        assert torch.equal(torch.get_rng_state(), before)


def test_streams_in_workers():
    """Every worker knows its number, and the batches come in torch's order."""
    for size, batch_size in ((10, 3), (7, 2)):
        wanted = list(torch.utils.data.DataLoader(Numbered(size), batch_size, num_workers=2))
        assert_same(list(pipeflow.loader(Numbered(size), batch_size, num_workers=2)), wanted)
    assert_same(list(pipeflow.loader(Numbered(5), 2)), list(torch.utils.data.DataLoader(Numbered(5), 2)))


def test_tensors_with_a_history():
    """Gradients reach the data set where it is read by the caller; a worker refuses nothing."""
    weight = torch.ones(2, requires_grad=True)
    [batch] = pipeflow.loader(Rows(2, lambda i: weight * i), 2)
    batch.sum().backward()
    assert weight.grad.tolist() == [1.0, 1.0]


def test_a_pipeline_over_tensors():
    """A loader with a transform gives tensors, and the layout has to be said."""
    rows = Rows(5, lambda i: {"x": torch.full((3, 6, 8), i, dtype=torch.uint8), "y": i})
    with pytest.raises(ValueError, match="does not guess"):
        pipeflow.loader(rows, 2, transform=lambda item: item)
    made = pipeflow.loader(
        rows,
        2,
        transform=lambda item: {**item, "x": pipeflow.fn.resize(item["x"], size=[3, 4])},
        layout="CHW",
        num_threads=1,
    )
    batches = list(made)
    assert [tuple(x["x"].shape) for x in batches] == [(2, 3, 3, 4), (2, 3, 3, 4), (1, 3, 3, 4)]
    assert_same(
        [x["y"] for x in batches], [torch.tensor(x, dtype=batches[0]["y"].dtype) for x in ([0, 1], [2, 3], [4])]
    )


def test_a_worker_loads_torch_only_where_it_is_used():
    """A data set of arrays and numbers becomes the same tensors in a worker without torch."""
    [theirs] = torch.utils.data.DataLoader(Plain(), 4)
    [ours] = pipeflow.loader(Plain(), 4, num_workers=1, multiprocessing_context="forkserver")
    assert not ours["loaded"].any()
    assert_same({**ours, "loaded": theirs["loaded"]}, theirs)
