"""The two orders of the readers: which sample comes when, in which shard, after which restart."""

from collections import Counter
from itertools import permutations, product

import numpy as np
import pytest

from pipeflow.operators.readers.order import Order, Picks, Sampler, permute


def stream(count, batch_size=4, **arguments):
    """The first `count` indices that a reader with these arguments hands out."""
    return Sampler(Order(**arguments), batch_size).take(count).index.tolist()


def one_epoch(order, epoch=0):
    return order.picks(epoch, np.arange(order.samples(epoch)))


# Which order each set of arguments gives, for ten samples, batches of four and shard 1 of 3 (the boundaries
# are floor(10*k/3) = 0, 3, 6, 10). Every line was also read off DALI 2.4.0, except the shuffled ones.
CONTIGUOUS = [
    ({}, "contiguous shards, the next one every epoch", "345678901234"),
    ({"stick_to_shard": True}, "contiguous shards, the same one every epoch", "345345345345"),
    ({"pad_last_batch": True}, "contiguous shards, the next one every epoch, last batch padded", "345567890122"),
    (
        {"pad_last_batch": True, "stick_to_shard": True},
        "contiguous shards, the same one every epoch, last batch padded",
        "345534553455",
    ),
]


@pytest.mark.parametrize(("arguments", "kind", "expected"), CONTIGUOUS)
def test_which_unshuffled_order_each_set_of_arguments_gives(arguments, kind, expected):
    """Unshuffled readers read contiguous shards, and move on to the next shard unless stick_to_shard."""
    order = Order(size=10, shard_id=1, num_shards=3, **arguments)
    print(f"{arguments}: {order.describe()}: {expected}")  # noqa: T201  the test that prints the orders
    assert order.describe() == kind
    assert "".join(map(str, stream(12, size=10, shard_id=1, num_shards=3, **arguments))) == expected


@pytest.mark.parametrize(
    ("arguments", "kind"),
    [
        ({"random_shuffle": True}, "one permutation of the epoch, position p to shard p mod n"),
        ({"shuffle_after_epoch": True}, "one permutation of the epoch, position p to shard p mod n"),
        (
            {"random_shuffle": True, "pad_last_batch": True},
            "one permutation of the epoch, position p to shard p mod n, last batch padded",
        ),
        (
            {"random_shuffle": True, "stick_to_shard": True},
            "contiguous shards, shuffled within, the same one every epoch",
        ),
    ],
)
def test_which_shuffled_order_each_set_of_arguments_gives(arguments, kind):
    """Shuffled readers share one permutation of the epoch; stick_to_shard shuffles within a fixed shard."""
    order = Order(size=10, shard_id=1, num_shards=3, seed=7, **arguments)
    print(f"{arguments}: {order.describe()}: {one_epoch(order).index}")  # noqa: T201  as above
    assert order.describe() == kind
    if order.strided:
        assert one_epoch(order).position.tolist() == [1, 4, 7]
        assert one_epoch(order).index.tolist() == permute(np.array([1, 4, 7]), 10, 7, 0).tolist()
    else:
        assert sorted(one_epoch(order).index.tolist()) == [3, 4, 5]


@pytest.mark.parametrize(
    ("shuffle", "stick", "pad", "num_shards"), list(product([False, True], [False, True], [False, True], [1, 2, 3, 7]))
)
def test_shards_together_hand_out_every_sample_once_per_epoch(shuffle, stick, pad, num_shards):
    """Over all shards, each epoch has every index and every position exactly once, padding aside."""
    for epoch in range(num_shards + 1):
        indices, positions = [], []
        for shard in range(num_shards):
            order = Order(
                size=23,
                shard_id=shard,
                num_shards=num_shards,
                random_shuffle=shuffle,
                stick_to_shard=stick,
                pad_last_batch=pad,
                seed=5,
            )
            picks = order.picks(epoch, np.arange(order.length(epoch, 4)))
            indices += picks.index[~picks.padding].tolist()
            positions += picks.position[~picks.padding].tolist()
            assert set(picks.epoch.tolist()) == {epoch}
        assert sorted(indices) == list(range(23))
        assert sorted(positions) == list(range(23))


def test_shuffled_epochs_differ_from_each_other_and_by_seed():
    """Each epoch and each seed has its own permutation, and the same seed gives the same one again."""
    orders = {
        (seed, epoch): tuple(one_epoch(Order(size=50, random_shuffle=True, seed=seed), epoch).index)
        for seed in (1, 2)
        for epoch in (0, 1, 2)
    }
    assert len(set(orders.values())) == 6
    assert orders[1, 0] == tuple(one_epoch(Order(size=50, random_shuffle=True, seed=1)).index)


def test_shuffle_after_epoch_seed_replaces_the_seed():
    """`shuffle_after_epoch_seed` alone names the permutations of `shuffle_after_epoch`."""
    first = Order(size=50, shuffle_after_epoch=True, shuffle_after_epoch_seed=9, seed=1)
    second = Order(size=50, shuffle_after_epoch=True, shuffle_after_epoch_seed=9, seed=2)
    assert one_epoch(first).index.tolist() == one_epoch(second).index.tolist()


@pytest.mark.parametrize("size", [1, 2, 3, 5, 99, 4096, 4097, 4160, 4161, 5000])
def test_permute_is_a_bijection(size):
    """Every index appears exactly once, for sizes on both sides of squares and powers of two."""
    for key in range(5):
        assert sorted(permute(np.arange(size), size, key, 3).tolist()) == list(range(size))


def test_permutations_of_a_small_set_are_about_equally_frequent():
    """All 24 orders of four samples appear, none far from its share (a chi-square test at 1 in 10,000)."""
    counts = Counter(tuple(permute(np.arange(4), 4, key).tolist()) for key in range(4800))
    assert set(counts) == set(permutations(range(4)))
    chi_square = sum((count - 200) ** 2 / 200 for count in counts.values())
    assert chi_square < 58.6  # the 0.9999 quantile of chi-square with 23 degrees of freedom


def chi_square(first, second, size, cells):
    """How unevenly pairs of numbers below `size` fall into a square of cells."""
    counts = np.histogram2d(first, second, bins=cells, range=[[0, size], [0, size]])[0]
    expected = len(first) / cells**2
    return ((counts - expected) ** 2 / expected).sum()


@pytest.mark.parametrize("size", [4097, 5000, 30_000, 100_000])
@pytest.mark.parametrize("apart", [1, 2, 64, 71, 317])
def test_where_a_sample_goes_says_nothing_about_the_next(size, apart):
    """The places of samples a fixed distance apart fill a square of 10 x 10 cells evenly, and so do place and sample.

    Chi-square with about 99 degrees of freedom; 200 is passed by chance once in 10**8 times.
    """
    result = permute(np.arange(size), size, 11)
    assert chi_square(result[:-apart], result[apart:], size, 10) < 200
    assert chi_square(np.arange(size), result, size, 10) < 200


def test_permutations_stay_what_they_are():
    """A run that is resumed with another version goes on in the same order: sorted numbers, and a network."""
    assert permute(np.arange(8), 4096, 3, 1).tolist() == [2544, 3132, 2829, 1026, 2892, 121, 2494, 14]
    assert permute(np.arange(8), 5000, 3, 1).tolist() == [4504, 3320, 1984, 4796, 2588, 4081, 716, 2745]
    assert permute(np.arange(4), 10**12, 3, 1).tolist() == [526868309116, 986318569741, 725882380367, 302841596424]


def test_a_billion_samples_need_no_memory():
    """Picks of an epoch of 10**12 samples are computed where they are asked for."""
    order = Order(size=10**12, random_shuffle=True, num_shards=8, shard_id=3, seed=1)
    picks = order.picks(4, np.array([0, 1, order.samples(4) - 1]))
    assert picks.position.tolist() == [3, 11, 10**12 - 5]
    assert ((picks.index >= 0) & (picks.index < 10**12)).all()


CASES = [
    {"random_shuffle": shuffle, "stick_to_shard": stick, "pad_last_batch": pad}
    for shuffle, stick, pad in product([False, True], repeat=3)
]


@pytest.mark.parametrize("arguments", CASES)
@pytest.mark.parametrize("num_shards", [1, 3])
def test_seek_goes_where_walking_goes(arguments, num_shards):
    """`seek(n)` continues exactly as after taking n picks, for every n over several epochs."""
    order = Order(size=11, shard_id=num_shards - 1, num_shards=num_shards, seed=3, **arguments)
    walked = Sampler(order, 4).take(90)
    for count in range(80):
        sampler = Sampler(order, 4)
        sampler.seek(count)
        picks = sampler.take(10)
        for column in ("index", "position", "epoch", "padding"):
            assert getattr(picks, column).tolist() == getattr(walked, column)[count : count + 10].tolist()


@pytest.mark.parametrize("arguments", CASES)
def test_state_restores_at_every_step(arguments):
    """A sampler restored from any state goes on as the one that was saved."""
    order = Order(size=11, shard_id=1, num_shards=3, seed=3, **arguments)
    sampler = Sampler(order, 4)
    for _ in range(12):
        restored = Sampler(order, 4)
        restored.restore(sampler.state())
        assert restored.take(9).index.tolist() == Sampler.take(restored_copy(sampler), 9).index.tolist()
        sampler.take()


def restored_copy(sampler):
    copy = Sampler(sampler.order, sampler.batch_size)
    copy.epoch, copy.base, copy.offset = sampler.epoch, sampler.base, sampler.offset
    return copy


@pytest.mark.parametrize("size", [60, 61])
@pytest.mark.parametrize(("before", "after"), [(4, 2), (2, 4), (3, 5), (4, 1), (1, 6)])
def test_another_number_of_shards_takes_up_a_shuffled_epoch(before, after, size):
    """Shards saved after equally many picks are continued by any number of shards, nothing lost or twice."""
    samplers = [
        Sampler(Order(size=size, shard_id=k, num_shards=before, random_shuffle=True, seed=1), 2) for k in range(before)
    ]
    seen = [index for sampler in samplers for index in sampler.take(6).index.tolist()]
    state = samplers[0].state()
    for shard in range(after):
        sampler = Sampler(Order(size=size, shard_id=shard, num_shards=after, random_shuffle=True, seed=1), 2)
        sampler.restore(state)
        seen += sampler.take(sampler.remaining()).index.tolist()
    assert sorted(seen) == list(range(size))


def test_contiguous_state_of_another_shard_count_is_refused():
    """The contiguous order cannot change its shard count within a run, and says so."""
    state = Sampler(Order(size=10, num_shards=2), 2).state()
    with pytest.raises(ValueError, match="num_shards was 2, is 5"):
        Sampler(Order(size=10, num_shards=5), 2).restore(state)
    with pytest.raises(ValueError, match="shard_id was 0, is 1"):
        Sampler(Order(size=10, num_shards=2, shard_id=1), 2).restore(state)


def test_state_of_another_data_set_is_refused():
    """A state does not fit a reader of another size, or one that is shuffled otherwise."""
    with pytest.raises(ValueError, match="size was 10, is 11"):
        Sampler(Order(size=11), 2).restore(Sampler(Order(size=10), 2).state())
    with pytest.raises(ValueError, match="shuffled was False, is True"):
        Sampler(Order(size=10, random_shuffle=True), 2).restore(Sampler(Order(size=10), 2).state())


def test_restored_sampler_keeps_the_saved_permutation():
    """A reader with another seed goes on with the saved state's permutation, so its epoch stays whole."""
    saved = Sampler(Order(size=30, random_shuffle=True, seed=1), 4)
    head = saved.take(8).index.tolist()
    other = Sampler(Order(size=30, random_shuffle=True, seed=2), 4)
    other.restore(saved.state())
    assert sorted(head + other.take(22).index.tolist()) == list(range(30))


def test_take_may_stop_at_the_end_of_the_epoch():
    """With the ending "partial" the last batch is short and the next one starts the next epoch."""
    sampler = Sampler(Order(size=10), 4)
    assert [sampler.take(ending="partial").index.tolist() for _ in range(4)] == [
        [0, 1, 2, 3],
        [4, 5, 6, 7],
        [8, 9],
        [0, 1, 2, 3],
    ]


def test_next_epoch_skips_the_rest_but_never_a_whole_epoch():
    """`next_epoch` leaves a started epoch, and does nothing where an epoch has just begun."""
    sampler = Sampler(Order(size=10), 5)
    sampler.next_epoch()
    assert sampler.epoch == 0
    sampler.take()
    sampler.next_epoch()
    assert (sampler.epoch, sampler.offset, sampler.take().index.tolist()) == (1, 0, [0, 1, 2, 3, 4])


def test_padding_is_marked_and_repeats_the_last_sample():
    """Padding has the last sample's index and position, so that it is processed alike and can be left out."""
    picks = Sampler(Order(size=10, pad_last_batch=True, num_shards=3, shard_id=0), 4).take(4)
    assert picks.index.tolist() == [0, 1, 2, 2]
    assert picks.position.tolist() == [0, 1, 2, 2]
    assert picks.padding.tolist() == [False, False, False, True]
    assert len(picks) == 4
    assert isinstance(picks, Picks)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"size": 0}, "found no samples"),
        ({"size": 5, "num_shards": 0}, "num_shards must be at least 1, not 0"),
        ({"size": 5, "num_shards": 3, "shard_id": 3}, r"shard_id must be in 0..2 \(num_shards - 1\), not 3"),
        ({"size": 5, "num_shards": 3, "shard_id": -1}, "not -1"),
        ({"size": 5, "num_shards": 6}, "num_shards=6 is more than the 5 samples"),
        ({"size": 5, "shuffle_after_epoch": True, "random_shuffle": True}, "random_shuffle cannot both be true"),
        ({"size": 5, "shuffle_after_epoch": True, "stick_to_shard": True}, "stick_to_shard cannot both be true"),
    ],
)
def test_impossible_orders_are_refused(arguments, message):
    """Arguments that no order fits are refused when the order is made, with the values and what to do."""
    with pytest.raises(ValueError, match=message):
        Order(**arguments)


def test_batch_size_must_be_positive():
    """A batch holds at least one sample."""
    with pytest.raises(ValueError, match="batch_size must be at least 1, not 0"):
        Sampler(Order(size=3), 0)


def epochs_of(samplers, ending, count):
    """Per epoch and shard the batches, for all shards at once; they must end their epochs at the same batch."""
    epochs, current = [], [[] for _ in samplers]
    while len(epochs) < count:
        for sampler, batches in zip(samplers, current):
            batches.append(sampler.take(ending=ending))
        ends = {sampler.ended for sampler in samplers}
        assert len(ends) == 1
        if ends.pop():
            epochs.append(current)
            current = [[] for _ in samplers]
    return epochs


def make_samplers(num_shards, batch_size, size=23, **arguments):
    orders = [Order(size=size, shard_id=k, num_shards=num_shards, seed=5, **arguments) for k in range(num_shards)]
    return [Sampler(order, batch_size) for order in orders]


@pytest.mark.parametrize("arguments", CASES)
@pytest.mark.parametrize(("num_shards", "batch_size"), [(1, 4), (2, 4), (3, 2), (4, 3), (5, 5), (7, 30)])
def test_partial_epochs_hold_every_sample_once_in_equally_many_batches(arguments, num_shards, batch_size):
    """Over all shards each epoch is exact; what a shard repeats to keep step is marked as padding."""
    samplers = make_samplers(num_shards, batch_size, **arguments)
    promised = {sampler.batches_left("partial") for sampler in samplers}
    assert len(promised) == 1
    for number, epoch in enumerate(epochs_of(samplers, "partial", 4)):
        assert {len(batches) for batches in epoch} == promised
        picks = [pick for batches in epoch for pick in batches]
        seen = [index for pick in picks for index in pick.index[~pick.padding].tolist()]
        assert sorted(seen) == list(range(23))
        assert {int(e) for pick in picks for e in pick.epoch} == {number}


@pytest.mark.parametrize("arguments", CASES)
@pytest.mark.parametrize(("num_shards", "batch_size"), [(1, 4), (2, 4), (3, 2), (4, 3)])
def test_dropping_epochs_hold_only_full_batches(arguments, num_shards, batch_size):
    """Every batch is full and without padding, no sample comes twice, and as many are left out as must be."""
    samplers = make_samplers(num_shards, batch_size, **arguments)
    batches_each = 23 // num_shards // batch_size
    for epoch in epochs_of(samplers, "drop", 4):
        assert {len(batches) for batches in epoch} == {batches_each}
        picks = [pick for batches in epoch for pick in batches]
        assert {len(pick) for pick in picks} == {batch_size}
        assert not any(pick.padding.any() for pick in picks)
        assert len({i for pick in picks for i in pick.index.tolist()}) == batches_each * batch_size * num_shards


@pytest.mark.parametrize("arguments", CASES)
@pytest.mark.parametrize(("num_shards", "batch_size"), [(1, 4), (2, 4), (3, 2), (4, 3)])
def test_filled_epochs_end_together_and_cover_everything(arguments, num_shards, batch_size):
    """Full batches only; after the last batch of epoch e every shard has given all its samples of epoch e."""
    samplers = make_samplers(num_shards, batch_size, **arguments)
    seen = Counter()
    for number, epoch in enumerate(epochs_of(samplers, "fill", 5)):
        for pick in (pick for batches in epoch for pick in batches):
            assert len(pick) == batch_size
            valid = ~pick.padding
            seen.update(zip(pick.epoch[valid].tolist(), pick.index[valid].tolist()))
        assert all(seen[number, index] == 1 for index in range(23))


@pytest.mark.parametrize("arguments", CASES)
@pytest.mark.parametrize("ending", ["fill", "partial", "drop"])
@pytest.mark.parametrize("num_shards", [1, 3])
def test_batches_left_is_always_right(arguments, ending, num_shards):
    """The promise counts down by one a batch and is never wrong, in the middle of an epoch as at its start."""
    samplers = make_samplers(num_shards, 4, size=29, **arguments)
    left = None
    for _ in range(40):
        promised = {sampler.batches_left(ending) for sampler in samplers}
        assert len(promised) == 1
        assert left in (None, *promised)
        for sampler in samplers:
            sampler.take(ending=ending)
        left = None if samplers[0].ended else promised.pop() - 1
        assert left != 0


# A prime: no number of shards divides it.
PRIME = 61


@pytest.mark.parametrize("ending", ["fill", "partial", "drop"])
@pytest.mark.parametrize("batch_size", [1, 2, 3])
@pytest.mark.parametrize("chain", [(4, 2, 3), (3, 5, 1), (1, 6, 2), (7, 4, 7)])
def test_a_run_may_change_its_number_of_shards_again_and_again(chain, batch_size, ending):
    """After each change any shard's state serves all; shards keep step, and two epochs lose and repeat nothing."""
    state, seen = None, Counter()
    for num_shards in (*chain, 2):
        samplers = make_samplers(num_shards, batch_size, size=PRIME, random_shuffle=True)
        for sampler in samplers:
            if state is not None:
                sampler.restore(state)
        for _ in range(3 if num_shards != 2 else 80):
            assert len({sampler.batches_left(ending) for sampler in samplers}) == 1
            for sampler in samplers:
                pick = sampler.take(ending=ending)
                assert ending == "partial" or len(pick) == batch_size
                seen.update(zip(pick.epoch[~pick.padding].tolist(), pick.index[~pick.padding].tolist()))
            assert len({(sampler.epoch, sampler.consumed, sampler.ended) for sampler in samplers}) == 1
        assert len({str(sampler.state()) for sampler in samplers}) == 1
        state = samplers[-1].state()
    times = [seen[epoch, index] for epoch in (0, 1) for index in range(PRIME)]
    if ending == "drop":
        assert max(times) == 1
        assert times.count(0) < 2 * batch_size * max(chain)  # less than a batch of every shard is left out an epoch
    else:
        assert set(times) == {1}


@pytest.mark.parametrize("before", [(1, 1), (2, 3), (3, 4), (1, 20)])
@pytest.mark.parametrize("after", [(2, 4), (3, 2), (5, 12), (1, 30)])
def test_what_drop_leaves_is_left_out_by_all_shards_after_a_change(before, after):
    """From every place of an epoch, more shards or larger batches keep step: a rest too small for all is for none."""
    num_shards, batch_size = before
    samplers = make_samplers(num_shards, batch_size, size=PRIME, random_shuffle=True)
    for _ in range(PRIME // num_shards // batch_size):
        for sampler in samplers:
            sampler.take(ending="drop")
        taken_up = make_samplers(*after, size=PRIME, random_shuffle=True)
        for sampler in taken_up:
            sampler.restore(samplers[0].state())
        promised = {sampler.batches_left("drop") for sampler in taken_up}
        assert len(promised) == 1
        (epoch,) = epochs_of(taken_up, "drop", 1)
        assert {len(batches) for batches in epoch} == promised
        picks = [pick for batches in epoch for pick in batches]
        assert {len(pick) for pick in picks} == {after[1]}
        assert not any(pick.padding.any() for pick in picks)
        assert len({int(number) for pick in picks for number in pick.epoch}) == 1


@pytest.mark.parametrize("arguments", CASES)
def test_seek_in_an_epoch_goes_where_its_batches_go(arguments):
    """`seek(picks, epoch)` is the place after that many picks of that epoch."""
    for number, epoch in enumerate(epochs_of(make_samplers(1, 4, **arguments), "partial", 3)):
        for step, pick in enumerate(epoch[0]):
            sampler = make_samplers(1, 4, **arguments)[0]
            sampler.seek(step * 4, number)
            assert sampler.take(ending="partial").index.tolist() == pick.index.tolist()


KINDS = {
    "unshuffled": {},
    "one shard": {"stick_to_shard": True},
    "shuffled": {"random_shuffle": True},
    "shuffled shard": {"random_shuffle": True, "stick_to_shard": True},
    "shuffled after each epoch": {"shuffle_after_epoch": True},
}


def described(picks):
    return [column.tolist() for column in (picks.index, picks.position, picks.epoch, picks.padding)]


@pytest.mark.parametrize("ending", ["fill", "partial", "drop"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("pad", [False, True])
def test_resume_and_seek_are_exact_at_every_step_of_every_small_epoch(kind, pad, ending):
    """All ranks, all steps of three epochs, 1 to 13 samples, 1 to 5 shards, batches of 1 to 4.

    The next batch and the state after it are compared, so that all that follows is equal too.
    """
    for size, shards, batch_size in product(range(1, 14), range(1, 6), range(1, 5)):
        if shards > size or (ending == "drop" and size // shards < batch_size):
            continue
        for shard in range(shards):
            order = Order(size, shard, shards, pad_last_batch=pad, seed=7, **KINDS[kind])
            walker, epoch, step = Sampler(order, batch_size), 0, 0
            while epoch < 3:
                where = (
                    f"{size} samples, shard {shard} of {shards}, batch {step} of epoch {epoch}, batch_size {batch_size}"
                )
                resumed, sought = Sampler(order, batch_size), Sampler(order, batch_size)
                state = walker.state()
                resumed.restore(state)
                left = resumed.batches_left(ending)
                resumed.restore(state)
                following = described(walker.take(ending=ending))
                assert described(resumed.take(ending=ending)) == following, where
                assert (resumed.state(), resumed.ended) == (walker.state(), walker.ended), where
                assert (left == 1) == walker.ended, where
                if ending != "fill" or epoch == 0:  # a later epoch that is filled begins inside a batch
                    sought.seek(step * batch_size, epoch)
                    assert described(sought.take(ending=ending)) == following, where
                    assert sought.ended == walker.ended, where
                epoch, step = (epoch + 1, 0) if walker.ended else (epoch, step + 1)


@pytest.mark.parametrize("kind", ["shuffled", "shuffled after each epoch"])
def test_one_shard_and_several_visit_the_same_permutation(kind):
    """Position p of the epoch holds the same sample however many shards divide it."""
    for size, shards in product([1, 7, 13, 60], range(1, 6)):
        if shards > size:
            continue
        whole = Order(size, seed=9, **KINDS[kind]).picks(2, np.arange(size)).index.tolist()
        divided = [None] * size
        for shard in range(shards):
            picks = Order(size, shard, shards, seed=9, **KINDS[kind]).picks(2, np.arange(-(-(size - shard) // shards)))
            for index, position in zip(picks.index.tolist(), picks.position.tolist()):
                divided[position] = index
        assert divided == whole


STRAIGHT = [{}, {"random_shuffle": True}, {"shuffle_after_epoch": True}]


@pytest.mark.parametrize("arguments", STRAIGHT)
@pytest.mark.parametrize("batch_size", [1, 3, 7, 20])
def test_picks_that_are_computed_ahead_are_those_of_single_places(arguments, batch_size):
    """Batches are parts of a longer computation: each is what its own place gives, also after a jump or a change of size."""
    order = Order(7, seed=3, **arguments)
    walking = Sampler(order, batch_size)
    sizes = [batch_size] * 60 + [batch_size + 1] * 40
    for number, size in enumerate(sizes):
        if number == 70:
            walking.seek(5, epoch=2)
        jumping = Sampler(order, size)
        jumping.restore(walking.state())
        found, expected = walking.take(size), jumping.take(size)
        for name in ("index", "position", "epoch", "padding"):
            assert getattr(found, name).tolist() == getattr(expected, name).tolist()
        assert (walking.state(), walking.ended) == (jumping.state(), jumping.ended)


@pytest.mark.parametrize("batch_size", [1, 3, 7, 20])
def test_unshuffled_picks_of_one_shard_follow_by_hand(batch_size):
    """Without shuffling, pick n of the endless line is sample n mod 7 of epoch n // 7; an epoch ends where its last sample is."""
    sampler = Sampler(Order(7), batch_size)
    for first in range(0, 50 * batch_size, batch_size):
        picks, places = sampler.take(), range(first, first + batch_size)
        assert picks.index.tolist() == picks.position.tolist() == [place % 7 for place in places]
        assert picks.epoch.tolist() == [place // 7 for place in places]
        assert sampler.ended is any(place % 7 == 6 for place in places)
