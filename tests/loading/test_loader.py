"""`pipeflow.loader`: batches with the structure of the items, orders, shards, exact resume, workers, and its errors."""

import gc
import itertools
import json
import multiprocessing
import os
import platform
import random
import subprocess
import sys
import threading
from collections import OrderedDict, namedtuple
from types import SimpleNamespace

import numpy as np
import pytest
from helpers import LONG

import pipeflow
from pipeflow import fn, loading
from pipeflow.errors import InvalidState, WorkerDied, WrongShape
from pipeflow.executor.workers.segments import Placed
from pipeflow.loading import parcels, walks, work
from pipeflow.loading.collate import NumpyLoading
from pipeflow.loading.light import TensorsLater
from pipeflow.system import resource

Pair = namedtuple("Pair", "left right")


class Rows:
    """A data set whose items are made by a function of their index."""

    def __init__(self, size, make=lambda i: i):
        self.size, self.make = size, make

    def __len__(self):
        return self.size

    def __getitem__(self, index):
        return self.make(index)


class Stream:
    """Data that can only be iterated over."""

    def __init__(self, size):
        self.size = size

    def __iter__(self):
        return iter(np.arange(self.size))


def loader(dataset, batch_size=4, **arguments):
    return pipeflow.loader(dataset, batch_size, framework="numpy", **arguments)


def room(shape, dtype):
    return Placed(np.zeros(shape, dtype), 0)


def numbers(batches):
    return [np.asarray(batch).tolist() for batch in batches]


def picture(index):
    return {"image": np.full((4 + index % 3, 5, 3), index, np.uint8), "meta": [index, f"name {index}"]}


def test_arrays_of_several_types_get_a_type_that_holds_them_all():
    """As np.stack makes it, also where only the last one differs."""
    made = [np.array([3]), np.array([1]), np.array([0.5])]
    joined = [next(iter(loader(Rows(3, made.__getitem__), 3))), parcels.Joining(NumpyLoading, room)(made, "arrays")]
    for batch in joined:  # in the program, and in a worker process
        assert batch.dtype == np.float64
        assert batch.tolist() == [[3], [1], [0.5]]


def test_scalars_of_numpy_need_no_framework_in_a_worker():
    """They become one array of their type, which the program makes a tensor of; torch is not imported for it."""
    made = TensorsLater().numbers([np.float32(1.5), np.float32(2)])
    assert made.kind == "tensor"
    assert made.array.dtype == np.float32
    assert made.array.tolist() == [1.5, 2]


def test_all_bits_of_a_key_reach_the_global_generators():
    """NumPy takes the lower 32 bits, Python all of them."""
    before = random.getstate(), np.random.get_state()
    try:
        work.seed_everything((5 << 32) + 7, NumpyLoading())
        assert random.random() == random.Random((5 << 32) + 7).random()
        assert np.random.random() == np.random.RandomState(7).random()
    finally:
        random.setstate(before[0])
        np.random.set_state(before[1])


def small(item):
    return {"image": fn.resize(item["image"], size=[2, 2]), "meta": item["meta"], "draw": fn.random.uniform()}


def pictures(**arguments):
    arguments = {"shuffle": True, "seed": 3, "layout": {"image": "HWC"}, "num_threads": 2, **arguments}
    return loader(Rows(10, picture), transform=small, **arguments)


def plain(batches):
    return [json.dumps(x, default=lambda value: np.asarray(value).tolist()) for x in batches]


# What a batch is.


def test_a_batch_has_the_structure_of_its_items():
    """Keys, named tuples, lists and text stay; numbers and arrays become arrays; a tuple becomes a list of its columns."""

    def make(i):
        return OrderedDict(x=np.full((2, 3), i, np.int16), y=(i, [float(i), str(i)]), pair=Pair(i > 0, np.float32(i)))

    batch = next(iter(loader(Rows(3, make), 2)))
    assert type(batch) is OrderedDict
    assert list(batch) == ["x", "y", "pair"]
    assert batch["x"].shape == (2, 2, 3)
    assert batch["x"].dtype == np.int16
    assert batch["y"][0].tolist() == [0, 1]
    assert batch["y"][1][0].dtype == np.float64
    assert batch["y"][1][1] == ("0", "1")
    assert type(batch["pair"]) is Pair
    assert batch["pair"].left.tolist() == [False, True]
    assert batch["pair"].right.dtype == np.float32


@pytest.mark.parametrize(
    ("make", "kind", "text"),
    [
        (lambda i: {"meta": {"title": None}}, TypeError, r"item 0 of Rows at \['meta'\]\['title'\] is None"),
        (lambda i: Pair(1, [i, None if i else 2]), TypeError, r"item 1 of Rows at \.right\[1\] is None"),
        (lambda i: {"x": np.zeros(2 + i)}, WrongShape, r"at \['x'\]: \(2,\) in item 0 of Rows and \(3,\) in item 1"),
        (lambda i: {"x": 1} if i else {"x": 1, "y": 2}, KeyError, r"item 1 of Rows lacks \['y'\]"),
        (lambda i: [0] * (i + 1), WrongShape, "item 1 of Rows has 2 values and item 0 of Rows has 1"),
        (lambda i: {"x": {1, 2}}, TypeError, r"item 0 of Rows at \['x'\] is set"),
        (lambda i: np.array(["a"]), TypeError, "array of type <U1"),
    ],
)
def test_what_cannot_be_joined_is_named_with_its_path(make, kind, text):
    """The message has the item, the way to the value in it, and what is wrong there."""
    with pytest.raises(kind, match=text):
        list(loader(Rows(3, make)))


def test_items_as_they_are_and_batches_by_a_function():
    """batch_size=None gives items, collate_fn gives what it returns."""
    assert [type(x) for x in loader(Rows(2, lambda i: {"x": (i, None)}), None)] == [dict, dict]
    assert list(loader(Rows(5), 2, collate_fn=sum)) == [1, 5, 4]


def test_items_that_a_data_set_gives_together():
    """`__getitems__` is called once for a batch where the data set has it."""
    rows = Rows(4)
    rows.__getitems__ = lambda indices: [100 + i for i in indices]
    assert numbers(loader(rows, 2)) == [[100, 101], [102, 103]]


# The order.


@pytest.mark.parametrize(("drop_last", "count"), [(False, 3), (True, 2)])
def test_the_last_batch(drop_last, count):
    """It is short or left out, and the length says so."""
    made = loader(Rows(10), drop_last=drop_last)
    assert numbers(made) == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]][:count]
    assert len(made) == count
    assert numbers(loader(Rows(0), shuffle=True)) == numbers(loader(Rows(3), drop_last=True)) == []


def test_a_seed_says_the_order():
    """One permutation for each epoch, the same in every loader of that seed."""
    made, again, other = (loader(Rows(10), shuffle=True, seed=seed) for seed in (1, 1, 2))
    epochs = [numbers(made), numbers(made)]
    assert epochs == [numbers(again), numbers(again)] != [numbers(other), numbers(other)]
    assert epochs[0] != epochs[1]
    assert all(sorted(itertools.chain(*epoch)) == list(range(10)) for epoch in epochs)


@pytest.mark.parametrize("shuffle", [False, True])
def test_shards_share_the_data_out(shuffle):
    """Together the shards give every item once, in equally many batches."""
    shards = [numbers(loader(Rows(23), shuffle=shuffle, seed=5, shard_id=k, num_shards=3)) for k in range(3)]
    assert sorted(itertools.chain(*itertools.chain(*shards))) == list(range(23))
    assert {len(shard) for shard in shards} == {2}


def test_samplers():
    """Any iterable of indices, or of lists of them."""
    assert numbers(loader(Rows(9), 2, sampler=[5, 3, 3])) == [[5, 3], [3]]
    assert len(loader(Rows(9), 2, sampler=[5, 3, 3])) == 2
    assert len(loader(Rows(9), 2, sampler=[5, 3, 3], drop_last=True)) == 1
    made = loader(Rows(9), 1, batch_sampler=[[1], [2, 3]])
    assert numbers(made) == [[1], [2, 3]]
    assert len(made) == 2


# Resume.

WAYS = {
    "in order": lambda: loader(Rows(11), 3, seed=1),
    "shuffled": lambda: loader(Rows(11), 3, shuffle=True, seed=1),
    "shard": lambda: loader(Rows(11), 2, shuffle=True, seed=1, shard_id=1, num_shards=2),
    "full batches": lambda: loader(Rows(9), 3, shuffle=True, seed=1, drop_last=True),
    "sampler": lambda: loader(Rows(11), 3, sampler=[3, 1, 4, 1, 5, 9, 2], seed=1),
    "batches": lambda: loader(Rows(11), batch_size=1, batch_sampler=[[1], [2, 3], [4]], seed=1),
    "stream": lambda: loader(Stream(10), 3, seed=1),
    "stream in threads": lambda: loader(Stream(10), 3, seed=1, num_workers=2, workers="threads"),
    "threads": lambda: loader(Rows(11), 3, shuffle=True, seed=1, num_workers=2, workers="threads"),
    "unseeded": lambda: loader(Rows(11), 3, shuffle=True),
}


@pytest.mark.parametrize("way", WAYS)
def test_resume_at_every_step(way):
    """A loader that takes up a state, as JSON, gives what the first one gave after it, this epoch and the next."""
    first = WAYS[way]()
    states, batches = [json.dumps(first.state_dict())], []
    for batch in first:
        batches.append(np.asarray(batch).tolist())
        states.append(json.dumps(first.state_dict()))
    after = numbers(first)
    for step, state in enumerate(states):
        second = WAYS[way]()
        second.load_state_dict(json.loads(state))
        if way == "unseeded" and step == 0:
            continue  # nothing was drawn
        assert numbers(second) == batches[step:], step
        assert way == "unseeded" or numbers(second) == after, step


def test_a_loop_that_was_left_can_be_resumed():
    """The state after a break is that of the last batch that was given, whatever was read ahead."""
    made = loader(Rows(11), 2, shuffle=True, seed=1, num_workers=2, workers="threads")
    for number, _ in enumerate(made):
        if number == 2:
            break
    state = made.state_dict()
    assert len(numbers(made)) == 6  # without a state: a new epoch
    made.load_state_dict(state)
    assert len(numbers(made)) == 3
    assert made.epoch == 0


def test_states_that_do_not_fit():
    """They are refused with what differs."""
    state = loader(Rows(5), sampler=[1], seed=1)
    next(iter(state))
    with pytest.raises(InvalidState, match="over the indices of a sampler, and this one is over a data set"):
        loader(Rows(5)).load_state_dict(state.state_dict())
    with pytest.raises(InvalidState, match="not a state of a loader"):
        loader(Rows(5)).load_state_dict({"epoch": 1})


# Arguments.


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"sampler": [1], "shuffle": True}, "sampler and shuffle"),
        ({"batch_sampler": [[1]]}, "batch_sampler decides the batches"),
        ({"batch_size": None, "drop_last": True}, "drop_last=True needs a batch_size"),
        ({"batch_size": 0}, "batch_size must be at least 1"),
        ({"num_workers": -1}, "num_workers must not be negative, got -1"),
        ({"prefetch_factor": 2}, "prefetch_factor needs workers"),
        ({"persistent_workers": True}, "persistent_workers needs workers"),
        ({"workers": "fibres"}, '"processes" or "threads"'),
        ({"framework": "tensorflow"}, '"torch" or "numpy"'),
        ({"num_shards": 2, "sampler": [1]}, "num_shards and a sampler"),
        ({"transform": lambda x: x, "collate_fn": sum}, "collate_fn and transform"),
        ({"transform": lambda x: x, "batch_size": None}, "transform= needs batch_size"),
    ],
)
def test_arguments_that_do_not_go_together(arguments, text):
    """Each is refused with its name."""
    with pytest.raises(ValueError, match=text):
        pipeflow.loader(Rows(5), **{"batch_size": 2, "framework": "numpy", **arguments})


@pytest.mark.parametrize("name", ["shuffle", "sampler", "num_shards"])
def test_streams_take_no_order(name):
    """A data set without an index cannot be shuffled or shared out here."""
    with pytest.raises(ValueError, match=f"{name} needs a data set with an index"):
        loader(Stream(3), **{name: {"shuffle": True, "sampler": [1], "num_shards": 2}[name]})


def test_what_is_no_data_set():
    """And arguments of a pipeline without one."""
    with pytest.raises(TypeError, match="int is not a data set"):
        loader(3)
    with pytest.raises(TypeError, match="num_threads: only a loader with transform="):
        loader(Rows(3), num_threads=2)
    with pytest.warns(UserWarning, match="pin_memory=True has no effect"):
        loader(Rows(3), pin_memory=True)


# Errors of the data set.


def broken(index):
    if index == 5:
        raise IndexError("the table ends here")
    return index


@pytest.mark.parametrize("workers", [{}, {"num_workers": 1, "workers": "threads"}])
def test_an_error_of_the_data_set_is_the_users_own(workers):
    """Its type, text and line stay, the item is noted, and the loop can go on with the next batch."""
    batches = iter(loader(Rows(9, broken), 3, **workers))
    assert next(batches).tolist() == [0, 1, 2]
    with pytest.raises(IndexError, match="the table ends here") as caught:
        next(batches)
    assert caught.value.__notes__ == ["while reading item 5 of Rows"]
    assert caught.traceback[-1].name == "broken"
    assert next(batches).tolist() == [6, 7, 8]


def stopping(index):
    raise StopIteration


def test_stop_iteration_ends_no_epoch():
    """It is an error where an item is read."""
    with pytest.raises(RuntimeError, match="item 0 of Rows raised StopIteration"):
        list(loader(Rows(3, stopping)))


# Worker processes.


def drawn(index):
    if index == 6:
        raise IndexError("the table ends here")
    return {"i": index, "draw": [random.random(), np.random.random()], "big": np.full(3000, index)}


class Joined:
    """What a user's collate_fn may return."""

    def __init__(self, items):
        self.indices = np.array([item["i"] for item in items])
        self.draws = [item["draw"] for item in items]
        self.big = np.stack([item["big"] for item in items])


def test_forked_workers_do_not_print_what_the_program_has_printed():
    """What waits in the program's buffer when workers are forked is printed once."""
    program = """
import numpy as np, pipeflow
class Items:
    def __len__(self):
        return 8
    def __getitem__(self, index):
        print("item", flush=True)
        return np.full(3, index)
print("before")
for batch in pipeflow.loader(Items(), 4, num_workers=2, multiprocessing_context="fork", framework="numpy"):
    print("batch")
"""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
    printed = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=LONG, check=True
    ).stdout.split()
    assert sorted(printed) == ["batch"] * 2 + ["before"] + ["item"] * 8


@pytest.mark.parametrize("context", multiprocessing.get_all_start_methods())
def test_classes_of_the_script_are_the_same_in_batches_and_errors(context):
    """A batch has the script's own classes, and `except` catches its own errors, however the workers were started."""
    program = f"""
from collections import namedtuple
import pipeflow

Pair = namedtuple("Pair", "left right")

class Fields(dict):
    pass

class Item:
    def __init__(self, number):
        self.number = number

class Broken(Exception):
    pass

def broken(number):
    raise Broken(number)

class Items:
    def __init__(self, make):
        self.make = make

    def __len__(self):
        return 2

    def __getitem__(self, index):
        return self.make(index)

def batches(make, **given):
    given.update(num_workers=1, multiprocessing_context="{context}", framework="numpy")
    return list(pipeflow.loader(Items(make), 2, **given))[0]

if __name__ == "__main__":
    print(type(batches(lambda i: Pair(i, i))) is Pair, type(batches(lambda i: Fields(a=i))) is Fields)
    print(type(batches(Item, collate_fn=list)[0]) is Item)
    try:
        batches(broken)
    except Broken as error:
        print(error)
"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=LONG
    )
    assert done.stdout.split() == ["True", "True", "True", "0"], done.stderr


def test_batches_of_processes():
    """Order, values, random numbers and errors do not depend on the number of workers; any object may be a batch."""
    results = []
    for count in (1, 2):
        made = loader(Rows(14, drawn), 3, shuffle=True, seed=1, num_workers=count, collate_fn=Joined)
        batches, seen, errors = iter(made), [], []
        for _ in range(len(made)):
            try:
                batch = next(batches)
            except IndexError as error:
                errors.append(error.__notes__[0])
                continue
            assert (batch.big == batch.indices[:, None]).all()
            batch.big[:] = 0  # it belongs to the loop
            seen.append((batch.indices.tolist(), batch.draws))
        with pytest.raises(StopIteration):
            next(batches)
        assert errors == ["while reading item 6 of Rows"]
        results.append(seen)
    assert results[0] == results[1]
    assert len({draw[0] for _, draws in results[0] for draw in draws}) == 3 * 3 + 2


def large(index):
    """An array of a quarter of a megabyte, which the heap of a process does not keep by itself."""
    return np.full((256, 256), index, np.float32)


def new_pages(_):
    """How many pages this process has been given so far; 0 on a system that does not say."""
    return np.int64(resource.getrusage(resource.RUSAGE_SELF).ru_minflt if resource else 0)


def test_shared_memory_is_used_again_without_a_collection_of_garbage():
    """Twenty batches come in as many blocks as are read ahead, although no garbage is collected."""
    made = loader(Rows(80, large), 4, num_workers=1)
    gc.collect()
    gc.disable()
    try:
        for batch in made:
            assert batch.shape == (4, 256, 256)
            blocks = made._pass()._carrier._pool.statistics()["output_segments"]
            del batch
    finally:
        gc.enable()
    assert blocks <= 6


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the C library has no such limit")
def test_a_worker_keeps_the_memory_of_its_items():
    """Four megabytes of items in each batch: later ones need few new pages of the system, not a thousand each."""
    made = loader(Rows(16 * 12, lambda index: (large(index), new_pages(index))), 16, num_workers=1)
    pages = [int(counts[0]) for _, counts in made]
    assert pages[-1] - pages[3] < 8 * 600


class Shards:
    """A stream of which each worker reads its part."""

    number = None

    def __iter__(self):
        return iter(range(self.number, 7, 2))


def number_stream(number):
    Shards.number = number


def test_streams_of_processes():
    """Workers take turns until their streams have ended; the state resumes each of them."""
    made = loader(Shards(), 1, seed=0, num_workers=2, worker_init_fn=number_stream, persistent_workers=True)
    wanted = [[0], [1], [2], [3], [4], [5], [6]]
    assert numbers(made) == numbers(made) == wanted
    for number, _ in enumerate(made):
        if number == 3:
            break
    made.load_state_dict(json.loads(json.dumps(made.state_dict())))
    assert numbers(made) == wanted[4:]
    made.close()


def test_streams_resume_with_as_many_workers():
    """Each worker had read a part of its own stream."""
    state = loader(Stream(3), seed=0)
    next(iter(state))
    saved = json.loads(json.dumps(state.state_dict()))
    made = loader(Stream(3), seed=0, num_workers=2)
    made.load_state_dict(saved)
    with pytest.raises(InvalidState, match=r"is of 1 workers .* and there are 2: give num_workers as before"):
        iter(made)


def test_how_workers_are_started():
    """As given, or as multiprocessing would do it, whose choice stays open."""
    before = multiprocessing.get_start_method(allow_none=True)
    usual = before or multiprocessing.get_all_start_methods()[0]
    assert loading.processes.start_method(None) == usual
    assert multiprocessing.get_start_method(allow_none=True) == before
    assert loading.processes.start_method("spawn") == "spawn"
    assert loading.processes.start_method(multiprocessing.get_context("forkserver")) == "forkserver"
    with pytest.raises(ValueError, match="multiprocessing_context must be one of"):
        loader(Rows(3), num_workers=1, multiprocessing_context="thread").__iter__()


LOCK = threading.Lock()


class Locking(Rows):
    """Takes a lock of its module for every item."""

    def __init__(self, extra=None):
        super().__init__(4)
        self.extra = extra

    def __getitem__(self, index):
        free = LOCK.acquire(blocking=False)
        if free:
            LOCK.release()
        return {"free": free, "pid": os.getpid()}


def test_workers_beside_threads_are_no_copies_of_the_program():
    """A lock that a thread of the program holds is free in the workers; what cannot be pickled is copied as ever."""
    usual = multiprocessing.get_all_start_methods()[0]
    with LOCK:
        ended = threading.Event()
        thread = threading.Thread(target=ended.wait, name="another")
        thread.start()
        try:
            found = list(loader(Locking(), 2, num_workers=1))
            assert all(batch["free"].all() for batch in found)
            large = list(loader(Locking(np.zeros(1 << 24, np.uint8)), 2, num_workers=1))
            held = list(loader(Locking(threading.Lock()), 2, num_workers=1)) if usual == "fork" else large
        finally:
            ended.set()
            thread.join()
    if usual == "fork":  # copies of this process, with the lock as it was
        assert not any(batch["free"].any() for batch in (*large, *held))


def drawing(index):
    return {"numpy": np.random.rand(2), "random": random.random()}


def test_fresh_workers_draw_by_the_seed_from_the_first_batch_on():
    """Also from NumPy's global generator, which a fresh process has not loaded before the data set draws from it."""

    def draws():
        made = loader(Rows(4, drawing), 2, seed=3, num_workers=1, multiprocessing_context="forkserver")
        return plain(made)

    assert draws() == draws()


def interrupted_once():
    seen = []

    def make(index):
        if index == 4 and not seen:
            seen.append(index)
            raise KeyboardInterrupt
        return index

    return make


def test_ctrl_c_loses_no_batch():
    """The batch that was being read comes after it."""
    made = loader(Rows(9, interrupted_once()), 3)
    batches = iter(made)
    next(batches)
    with pytest.raises(KeyboardInterrupt):
        next(batches)
    assert made.state_dict()["now"]["walk"]["order"]["offset"] == 3
    assert numbers(batches) == [[3, 4, 5], [6, 7, 8]]


def ending(index):
    if index == 2:
        os._exit(3)
    return index


def test_a_worker_that_dies_loses_one_batch():
    """The error says how it ended; another worker takes its place."""
    batches = iter(loader(Rows(6, ending), 2, num_workers=1))
    assert next(batches).tolist() == [0, 1]
    with pytest.raises(WorkerDied):
        next(batches)
    assert next(batches).tolist() == [4, 5]


# A pipeline over the items.


def test_a_pipeline_over_the_items():
    """Operators get the nodes of an item and keep its structure; nothing depends on where items are read."""
    inline = plain(pictures())
    assert [np.shape(batch["image"]) for batch in pictures()] == [(4, 2, 2, 3), (4, 2, 2, 3), (2, 2, 2, 3)]
    first = json.loads(inline[0])
    assert first["meta"][1] == [f"name {i}" for i in first["meta"][0]]
    assert plain(pictures(num_workers=2, workers="threads")) == inline
    made = pictures(num_workers=1)
    assert plain(made) == inline
    assert len(made) == 3
    made.close()


def test_a_pipeline_over_the_items_resumes_at_every_step():
    """Order, random numbers and epochs go on as they would have."""
    first = pictures()
    states, batches = [], []
    for batch in first:
        batches.append(batch)
        states.append(json.dumps(first.state_dict()))
    batches, after = plain(batches), plain(first)
    for step, state in enumerate(states, 1):
        second = pictures()
        second.load_state_dict(json.loads(state))
        assert plain(second) == batches[step:], step
        assert plain(second) == after, step


def test_a_pipeline_over_a_stream_and_tuples():
    """The values of a tuple are several arguments; shapes that differ give a list."""

    class Ragged:
        def __iter__(self):
            return iter([(np.ones(n), n) for n in (1, 2, 3)])

    made = loader(Ragged(), 2, transform=lambda row, count: (row + count, count), num_threads=1)
    batches = [([x.tolist() for x in rows], counts.tolist()) for rows, counts in made]
    assert batches == [([[2.0], [3.0, 3.0]], [1, 2]), ([[4.0, 4.0, 4.0]], [3])]


def test_a_bad_item_can_be_skipped():
    """on_error works for items as for samples; without it the error is the user's own."""
    skipping = loader(Rows(8, broken), 4, transform=lambda x: x + 0, num_threads=1, on_error="skip")
    assert numbers(skipping) == [[0, 1, 2, 3], [4, 6, 7]]
    [failure] = skipping.pipeline.failures()
    assert isinstance(failure.exception, IndexError)
    with pytest.raises(IndexError, match="the table ends here"):
        list(loader(Rows(8, broken), 4, transform=lambda x: x + 0, num_threads=1))


def test_a_journal_goes_on_after_the_last_batch(tmp_path):
    """A second loader with the same journal gives the rest."""
    whole = plain(pictures())
    batches = iter(pictures(journal=tmp_path / "journal"))
    next(batches)
    next(batches)  # the first batch is done when the second one is wanted
    del batches
    assert plain(pictures(journal=tmp_path / "journal")) == whole[1:]


@pytest.mark.parametrize("shape", [(3, 8, 9), (8, 9, 3), (2, 3, 8, 9)])
def test_channels_are_never_guessed(shape):
    """Where an axis could be that of the channels the layout must be said."""
    rows = Rows(2, lambda i: {"x": np.zeros(shape, np.uint8)})
    with pytest.raises(ValueError, match=r"item 0 of Rows at \['x'\] has the shape .* does not guess"):
        loader(rows, transform=lambda item: item)
    for layout in ("", {"x": ""}):
        assert next(iter(loader(rows, 2, transform=lambda item: item, layout=layout)))["x"].shape == (2, *shape)


@pytest.mark.parametrize(
    ("layout", "kind", "text"),
    [
        (
            {"x": "HW"},
            ValueError,
            r"layout 'HW' has 2 letters, and item 0 of Rows at \['x'\] has the shape \(8, 9, 3\)",
        ),
        ("FHWC", ValueError, "does not guess"),
        (["HWC", {"x": "HWC"}], ValueError, "does not guess"),
        ({"x": "HWC", "y": "HW"}, ValueError, "item 0 of .* has no value for the layout 'HW'"),
        ({"y": "HWC"}, ValueError, "does not guess"),
        ({"x": 3}, TypeError, "layout is a text"),
    ],
)
def test_layouts_that_fit_nothing(layout, kind, text):
    """They are refused."""
    with pytest.raises(kind, match=text):
        loader(Rows(2, lambda i: {"x": np.zeros((8, 9, 3))}), transform=lambda item: item, layout=layout)


def test_a_layout_reaches_the_operators():
    """Channels first are resized as such."""
    rows = Rows(2, lambda i: np.zeros((3, 8, 9), np.uint8))
    made = loader(rows, 2, transform=lambda x: fn.resize(x, size=[4, 5]), layout="CHW", num_threads=1)
    assert next(iter(made)).shape == (2, 3, 4, 5)


def test_values_that_are_none_are_none_in_the_pipeline():
    """Others of the item are used; an item with a value there, and an item of nothing else, are refused."""
    seen = []

    def prepare(item):
        seen.append(item["path"])
        return {"x": item["x"] + 1}

    rows = Rows(4, lambda i: {"path": None if i < 2 else "some", "x": np.array(i)})
    batches = iter(loader(rows, 2, transform=prepare, num_threads=1))
    assert next(batches)["x"].tolist() == [1, 2]
    assert seen == [None]
    with pytest.raises(TypeError, match=r"item 2 of Rows at \['path'\] is str, and was None in the first item"):
        next(batches)
    with pytest.raises(TypeError, match=r"transform returned NoneType at \['path'\]"):
        loader(rows, 2, transform=lambda item: item)
    with pytest.raises(TypeError, match=r"item 0 of Rows has no values: it is \{'path': None\}"):
        loader(Rows(2, lambda i: {"path": None}), 2, transform=lambda item: item)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda i: {"x": 1} if i < 2 else {"x": 1, "y": 2}, r"item 2 of Rows has another structure .*\['y'\] more"),
        (lambda i: {"x": 1} if i < 2 else {"x": [1]}, r"\['x'\] is list and was int in the first item"),
        (lambda i: {"x": [1, 2 if i < 2 else None]}, r"item 2 of Rows at \['x'\]\[1\] is None, which is not an array"),
    ],
)
def test_items_of_another_structure_fail_alone(make, text):
    """The message says which item differs, and where."""
    made = loader(Rows(3, make), 2, transform=lambda item: item, num_threads=1)
    batches = iter(made)
    next(batches)
    with pytest.raises(TypeError, match=text):
        next(batches)


def test_what_a_transform_returns():
    """Operators' results only, in any structure."""
    with pytest.raises(TypeError, match=r"transform returned int at \['y'\]"):
        list(loader(Rows(2), transform=lambda x: {"x": x, "y": 3}))


def test_items_of_a_sampler_of_batches_have_keys_by_their_places():
    """Those of the second batch begin where the first ended, as in batches of any other size."""
    walk = walks.SampledWalk(iter([[4, 2, 9], [1], [3, 3]]), 5, 1, None)
    found = [walk.next() for _ in range(4)]
    assert found[-1] is None
    assert [one.key for one in found[:3]] == [walks.batch_key(5, 1, place) for place in (0, 3, 4)]


def test_tensors_of_several_kinds_are_joined_by_their_framework():
    """Those of one kind are written to shared memory and are of this kind again in the program."""
    frame = SimpleNamespace(name="torch", array_of=lambda pair: pair, stack_tensors=lambda pairs: ("joined", pairs))
    join = parcels.Joining(lambda: frame, room)
    one, other = (np.zeros(2), "tensor"), (np.ones(2), "tensor with gradients")
    assert join([one, one], "tensors").kind == "tensor"
    assert join([one, other], "tensors") == ("joined", [one, other])
    frame.array_of = lambda _: None
    assert join([one, one], "tensors") == ("joined", [one, one])


def test_arrays_that_are_no_tensors_are_left_to_the_framework_in_a_worker_too():
    """Dates and numbers of the other byte order: without workers, torch refuses them. They must not come as arrays."""
    frame = TensorsLater()
    frame.stack_arrays = lambda arrays: ("joined", len(arrays))
    join = parcels.Joining(lambda: frame, room)
    for array in (np.zeros(2, ">f4"), np.array(["2026-11-24"], "M8[D]")):
        assert join([array, array], "arrays") == ("joined", 2)


def test_workers_need_not_load_the_random_numbers_of_numpy():
    """They set its seed: the program has loaded it before its first worker is started."""
    code = "import sys, pipeflow.loading.processes; sys.exit('numpy.random' not in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
