"""Packed rows and mixtures beside those of Grain. `.venvs/grain` has it (`make test-adapters`)."""

import numpy as np
import pytest

import pipeflow

pytestmark = pytest.mark.adapters
grain = pytest.importorskip("grain")

LENGTH = 64


def documents():
    """Documents whose tokens say where they come from: 1000 times their number, and on from there."""
    rng = np.random.default_rng(5)
    return [1000 * (n + 1) + np.arange(length) for n, length in enumerate(rng.integers(1, LENGTH + 1, 300).tolist())]


def packed_by_grain(method):
    source = grain.MapDataset.source(documents()).map(lambda tokens: {"tokens": tokens}).to_iter_dataset()
    kind = getattr(grain.experimental, method)
    return [
        {name.removeprefix("tokens_").replace("segment_ids", "segments"): values for name, values in row.items()}
        for row in kind(source, length_struct={"tokens": LENGTH}, num_packing_bins=30)
    ]


def found_in(rows):
    """The documents that are in the rows, by their segments and positions; free places have zeros only."""
    found = []
    for row in rows:
        tokens, segments, positions = row["tokens"], row["segments"], row["positions"]
        used = int(np.count_nonzero(segments))
        assert not tokens[used:].any()
        assert not positions[used:].any()
        assert sorted(set(segments[:used].tolist())) == list(range(1, int(segments.max()) + 1))
        for number in range(1, int(segments.max()) + 1):
            inside = segments == number
            assert positions[inside].tolist() == list(range(int(inside.sum())))
            found.append(tokens[inside].tolist())
    return sorted(found)


@pytest.mark.parametrize("theirs", ["FirstFitPackIterDataset", "BestFitPackIterDataset"])
@pytest.mark.parametrize("method", ["best_fit", "in_order"])
def test_rows_have_the_form_of_grains_rows(method, theirs):
    """The same documents, each once, with the same numbers of segments and positions; best fit needs no more rows."""
    ours, others = list(pipeflow.pack(documents(), LENGTH, method=method)), packed_by_grain(theirs)
    assert found_in(ours) == found_in(others) == [document.tolist() for document in documents()]
    if method == "best_fit":
        assert len(ours) <= len(others)


@pytest.mark.parametrize("weights", [[0.5, 0.3, 0.2], [3, 1, 1], [0.05, 0.9, 0.05]])
def test_shares_of_a_mixture_are_those_of_grain(weights):
    """After every 4096 items each source has given as many as Grain's has, to within three."""
    sources = [[(name, n) for n in range(9000)] for name in "abc"]
    ours = pipeflow.mix(sources, weights=weights, epoch_size=8192)
    read = [name for batch in pipeflow.loader(ours, 64, seed=1, framework="numpy") for name in batch[0]]
    share = [weight / sum(weights) for weight in weights]
    mixed = grain.MapDataset.mix([grain.MapDataset.source(x).repeat() for x in sources], weights=share)
    theirs = [mixed[place][0] for place in range(8192)]
    for end in (4096, 8192):
        for name in "abc":
            assert abs(read[:end].count(name) - theirs[:end].count(name)) <= 3
