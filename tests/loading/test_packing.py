"""`pipeflow.pack`: every token once, in rows of one length, best fit, resumed by the loader."""

import itertools
import json

import numpy as np
import pytest

import pipeflow
from pipeflow.kernels.cpu import packing


def documents(lengths):
    """Documents of different numbers: which token came from where can be told."""
    numbers = itertools.count(1)
    return [np.array([next(numbers) for _ in range(length)], np.int32) for length in lengths]


def best_fit(lengths, capacity):
    """The same by hand: a list of rooms, looked through for every document."""
    rooms = []
    for length in sorted((x for x in lengths if x), reverse=True):
        fitting = [room for room in rooms if room >= length]
        if fitting:
            rooms.remove(min(fitting))
            rooms.append(min(fitting) - length)
        else:
            rooms.append(capacity - length)
    return sorted(rooms)


@pytest.mark.parametrize("capacity", [1, 7, 63, 64, 65, 500, 5000])
def test_rows_are_those_of_best_fit(capacity):
    """The rows leave the same room as by a search through all of them; each document is in one row."""
    rng = np.random.default_rng(capacity)
    for high in (2, capacity // 3 + 2, capacity + 1):
        lengths = rng.integers(0, min(high, capacity + 1), 300).astype(np.int32)
        members, offsets = packing.best_fit(lengths, capacity)
        assert sorted(members) == np.flatnonzero(lengths).tolist()
        rooms = [capacity - lengths[members[a:b]].sum() for a, b in itertools.pairwise(offsets)]
        assert sorted(rooms) == best_fit(lengths.tolist(), capacity)


def test_rows_in_the_order_of_documents():
    """A row ends where the next document has no room."""
    members, offsets = packing.in_order(np.array([3, 0, 4, 2, 5, 1], np.int32), 7)
    assert members.tolist() == [0, 2, 3, 4, 5]
    assert offsets.tolist() == [0, 2, 4, 5]
    members, offsets = packing.in_order(np.zeros(3, np.int32), 7)
    assert (len(members), offsets.tolist()) == (0, [0])


@pytest.mark.parametrize("flat", [False, True])
@pytest.mark.parametrize("method", ["best_fit", "in_order"])
def test_every_token_comes_once(flat, method):
    """With the number of its document in the row and its place in the document; long documents in pieces."""
    whole = documents([3, 0, 17, 8, 1, 5, 8, 2, 30])
    offsets = np.cumsum([0, *map(len, whole)])
    made = pipeflow.pack((np.concatenate(whole), offsets) if flat else whole, 8, method=method, pad=-1)
    seen = []
    for row in made:
        count = int((row["segments"] > 0).sum())
        assert (row["tokens"][count:] == -1).all()
        assert not row["segments"][count:].any()
        for segment in range(1, row["segments"].max() + 1):
            mine = row["segments"] == segment
            assert row["positions"][mine].tolist() == list(range(mine.sum()))
            tokens = row["tokens"][mine].tolist()
            assert tokens == list(range(tokens[0], tokens[0] + len(tokens)))
            seen += tokens
    assert sorted(seen) == list(range(1, 75))
    assert made.fill == 74 / (8 * len(made))
    if method == "best_fit":
        assert len(made) == 10  # 74 tokens fill at least 9.25 rows


def test_long_documents_can_be_cut_or_refused():
    """ "cut" keeps the beginning."""
    whole = documents([3, 12])
    assert sorted(token for row in pipeflow.pack(whole, 8, longer="cut") for token in row["tokens"] if token) == list(
        range(1, 12)
    )
    with pytest.raises(ValueError, match="document 1 has 12 tokens, and a row 8"):
        pipeflow.pack(whole, 8, longer="refuse")


def test_rows_are_items_of_a_loader():
    """Shuffled, in shards, and resumed after any batch by a few numbers."""
    rng = np.random.default_rng(0)
    made = pipeflow.pack(documents(rng.integers(1, 40, 200)), 64)
    loader = pipeflow.loader(made, 4, shuffle=True, seed=1, framework="numpy")
    batches, states = [], []
    for batch in loader:
        assert batch["tokens"].shape == batch["segments"].shape == (len(batch["tokens"]), 64)
        batches.append(batch["tokens"].tolist())
        states.append(json.dumps(loader.state_dict()))
    assert sorted(x for batch in batches for row in batch for x in row if x) == sorted(
        range(1, int(made._lengths.sum()) + 1)
    )
    again = pipeflow.loader(made, 4, shuffle=True, seed=1, framework="numpy")
    again.load_state_dict(json.loads(states[4]))
    assert [batch["tokens"].tolist() for batch in again] == batches[5:]
    assert len(states[4]) < 400


def test_rows_are_nearly_full():
    """Documents as in text: more than 99.5 % of the places hold a token."""
    lengths = np.clip(np.random.default_rng(0).lognormal(5.5, 1.2, 20_000), 1, 2048).astype(np.int64)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    assert pipeflow.pack((np.zeros(offsets[-1], np.uint16), offsets), 2048).fill > 0.995


@pytest.mark.parametrize(
    ("arguments", "kind", "text"),
    [
        ({"length": 0}, ValueError, "length must be at least 1"),
        ({"method": "worst"}, ValueError, '"best_fit" or "in_order", got \'worst\''),
        ({"longer": "drop"}, ValueError, '"split", "cut" or "refuse"'),
        ({"lengths": [1]}, ValueError, r"lengths has the shape \(1,\) for 2 documents"),
        ({"lengths": [1, -2]}, ValueError, "document 1 has the length -2"),
        ({"documents": 3}, TypeError, "int has no index"),
        ({"documents": (np.arange(5), [0, 4, 9])}, ValueError, r"in the 5 tokens, .* got \[0, 4, 9\]"),
        ({"documents": (np.arange(5), [-1, 4])}, ValueError, "offsets must be places"),
        ({"documents": ([1, 2], [3])}, ValueError, "two documents .* must be a list"),
    ],
)
def test_what_cannot_be_packed(arguments, kind, text):
    """It is refused with the argument's name."""
    with pytest.raises(kind, match=text):
        pipeflow.pack(**{"documents": documents([2, 3]), "length": 8, **arguments})


def test_tokens_of_several_types_are_refused_where_a_value_could_change():
    """1.5 among integers, or a large integer among small ones; a type that holds all is taken."""
    for wide in (np.array([1.5]), np.array([2**40])):
        with pytest.raises(TypeError, match=r"documents of the types int16 and .* are in row 0"):
            pipeflow.pack([np.zeros(2, np.int16), wide], 4)[0]
    assert pipeflow.pack([np.array([2**40, 1]), np.ones(1, np.int16)], 4)[0]["tokens"].tolist() == [2**40, 1, 1, 0]


def test_lengths_that_are_not_those_of_the_documents():
    """The document is named when its row is read; rows are counted from both ends."""
    made = pipeflow.pack(documents([2, 3]), 8, lengths=[2, 4])
    with pytest.raises(ValueError, match=r"document 1 has the shape \(3,\), and its length was 4"):
        made[0]
    with pytest.raises(IndexError, match="row 1 of 1"):
        made[1]
