"""The pipelines whose checkpoints are tested: one for each kind of part, each reader and each random operator."""

import json
import os
import tarfile
import wave
from pathlib import Path

import example_data
import numpy as np
import pyarrow
from generate_docs import examples, public
from loop.loops import read_numbers
from pyarrow import parquet
from readers import records

from pipeflow import fn, pipeline_def, tfrecord, types
from pipeflow.tfrecord import FixedLenFeature

CASES: dict = {}
WORKERS: dict = {}  # cases with worker processes, which take a while to start
COUNT = 7  # samples of an epoch, in batches of three


def _case(define, name=None, among=CASES):
    def make(**settings):
        given = {"batch_size": 3, "num_threads": 2, "seed": 11, "enable_checkpointing": True, **settings}
        return pipeline_def(define, **given, enable_conditionals=True)()

    among[name or define.__name__] = make
    return make


class Counter:
    """A function with a state: how often it was called, and a history in arrays and tuples."""

    def __init__(self):
        self.calls = 0
        self.history = {"last": (0, 0.0), "table": np.zeros(3)}

    def __call__(self, x):
        self.calls += 1
        self.history["table"][self.calls % 3] += float(x)
        self.history["last"] = (self.calls, float(x))
        return np.array([float(x), self.calls, *self.history["table"], self.history["last"][0]])

    def get_state(self):
        return {"calls": self.calls, "history": self.history}

    def set_state(self, state):
        self.calls = state["calls"]
        assert isinstance(state["history"]["last"], tuple)
        self.history = {**state["history"], "table": state["history"]["table"].copy()}


class BatchCounter(Counter):
    """The same for whole batches."""

    def __call__(self, batch):
        one = super().__call__
        return [one(x) for x in batch]


class Stream:
    """A stateful source: batches from a generator of its own."""

    def __init__(self, size=3):
        self.generator = np.random.default_rng(3)
        self.left = self.size = size

    def __call__(self):
        if not self.left:
            self.left = self.size
            raise StopIteration
        self.left -= 1
        return self.generator.random((3, 2))

    def get_state(self):
        return {"generator": self.generator.bit_generator.state, "left": self.left}

    def set_state(self, state):
        self.generator.bit_generator.state = state["generator"]
        self.left = state["left"]


class Batches:
    """Something that can be iterated over again and again, without a length."""

    def __iter__(self):
        return (np.full((3, 1), number) for number in range(3))


class Choose:
    """A callable that is told the sample, and can be imported by worker processes."""

    def __call__(self, info):
        if info.idx_in_epoch >= COUNT:
            raise StopIteration
        return np.array([info.idx_in_epoch, info.epoch_idx])


# Orders of readers


@_case
def unshuffled():
    return read_numbers(count=COUNT), fn.random.uniform()


@_case
def shuffled():
    number = read_numbers(count=COUNT, random_shuffle=True)
    return number, fn.random.normal(), fn.random.coin_flip(), fn.random.uniform(range=(0.0, 1.0), shape=[2])


@_case
def shuffled_after_each_epoch():
    return read_numbers(count=COUNT, shuffle_after_epoch=True), fn.random.uniform()


@_case
def one_shard_of_three():
    return read_numbers(count=20, random_shuffle=True, num_shards=3, shard_id=1), fn.random.uniform()


@_case
def contiguous_shard():
    return read_numbers(count=20, num_shards=3, shard_id=1), fn.random.uniform()


@_case
def a_shard_that_stays():
    return read_numbers(
        count=20, random_shuffle=True, num_shards=3, shard_id=1, stick_to_shard=True
    ), fn.random.uniform()


@_case
def padded():
    return read_numbers(count=COUNT, random_shuffle=True, pad_last_batch=True), fn.random.uniform()


@_case
def two_readers():
    return read_numbers(count=COUNT, random_shuffle=True), read_numbers(count=COUNT, random_shuffle=True, seed=3)


# Readers of files


def folder():
    """Where the files of the readers lie, named by the environment so that other processes find them."""
    return Path(os.environ["PIPEFLOW_CASES"])


def write_files(path):
    """The files that the readers of these cases read."""
    for number in range(COUNT):
        kind = path / "files" / str(number % 2)
        kind.mkdir(parents=True, exist_ok=True)
        (kind / f"{number}.bin").write_bytes(bytes([number] * (number + 1)))
        (path / "arrays").mkdir(exist_ok=True)
        np.save(path / "arrays" / f"{number}.npy", np.full((2, 2), number))
        with wave.open(str(path / f"{number}.wav"), "wb") as sound:
            sound.setnchannels(1)
            sound.setsampwidth(2)
            sound.setframerate(8000)
            sound.writeframes(np.full(20 + number, 100 * number, "<i2").tobytes())
    (path / "data.tfrecord").write_bytes(b"".join(records.record(records.example({"i": [n]})) for n in range(COUNT)))
    with tarfile.open(path / "data.tar", "w") as archive:
        for file in sorted((path / "arrays").iterdir()):
            archive.add(file, file.name)
    rows = pyarrow.table({"n": list(range(COUNT))})
    parquet.write_table(rows, path / "data.parquet", row_group_size=2)
    lines = [{"audio_filepath": f"{number}.wav", "text": str(number)} for number in range(COUNT)]
    (path / "manifest.json").write_text("\n".join(json.dumps(line) for line in lines))


READERS = {
    "readers.dataset": lambda **order: read_numbers(count=COUNT, **order),
    "readers.file": lambda **order: fn.readers.file(file_root=str(folder() / "files"), file_filters="*.bin", **order),
    "readers.numpy": lambda **order: fn.readers.numpy(file_root=str(folder() / "arrays"), file_filter="*.npy", **order),
    "readers.webdataset": lambda **order: fn.readers.webdataset(paths=str(folder() / "data.tar"), ext="npy", **order),
    "readers.tfrecord": lambda **order: fn.readers.tfrecord(
        path=str(folder() / "data.tfrecord"), features={"i": FixedLenFeature([1], tfrecord.int64, -1)}, **order
    ),
    "readers.nemo_asr": lambda **order: fn.readers.nemo_asr(
        manifest_filepaths=str(folder() / "manifest.json"), **order
    ),
}


def _reading(name, **order):
    def define():
        read = READERS[name](**order)
        values = read.values() if isinstance(read, dict) else read if isinstance(read, (list, tuple)) else [read]
        return (*values, fn.random.uniform())

    return define


@_case
def windows_of_rows():
    rows = fn.readers.parquet(
        paths=str(folder() / "data.parquet"), columns=["n"], shuffle_window=4, random_shuffle=True, decoded_bytes=0
    )
    return rows, fn.random.uniform()


for _name in READERS:
    _case(_reading(_name), _name)
    _case(_reading(_name, random_shuffle=True), f"{_name}, shuffled")


def _weights_of(epoch):
    return [1, 2, 0.5] if epoch % 2 else [3, 1, 1]


def _mixing(weights):
    def define():
        sources = [
            fn.readers.dataset(dataset=range(100 * n, 100 * n + size), random_shuffle=n != 1)
            for n, size in enumerate([4, 9, 2])
        ]
        return fn.mix(sources, weights=weights, epoch_size=COUNT), fn.random.uniform()

    return define


_case(_mixing([0.5, 0.3, 0.2]), "mixture")
_case(_mixing(_weights_of), "mixture with other weights in each epoch")


def _keeping(**place):
    def define():
        files, label = fn.readers.file(file_root=str(folder() / "files"), file_filters="*.bin", random_shuffle=True)
        return fn.cache(files, **(place or {"disk": str(folder() / "kept")})), label, fn.random.uniform()

    return define


_case(_keeping(memory=2**20), "kept in memory")
_case(_keeping(), "kept on disk")


# Random operators, by the examples of their declarations


def _drawing(text):
    arrays = example_data.arrays()
    used = [name for name in compile(text, "example", "eval").co_names if name in arrays]

    def define():
        number = read_numbers(count=COUNT, random_shuffle=True)
        nodes = {
            name: fn.external_source(lambda info, name=name: arrays[name], batch=False, name=name) for name in used
        }
        result = eval(text, {"fn": fn, "types": types, "np": np, **nodes})
        return (number, *(result if isinstance(result, (tuple, list)) else [result]))

    return define


RANDOM_OPERATORS = {text: op.name for op in public() if op.random and op.factory is None for text in examples(op)}
for _text in RANDOM_OPERATORS:
    _case(_drawing(_text), _text)


# Sources


@_case
def told_which_iteration():
    def source(iteration):
        if iteration == 3:
            raise StopIteration
        return np.full((3, 2), iteration)

    return fn.external_source(source), fn.random.uniform()


@_case
def told_which_batch():
    def source(info):
        if info.iteration == 3:
            raise StopIteration
        return np.full((3, 2), 10 * info.epoch_idx + info.iteration)

    return fn.external_source(source, batch_info=True), fn.random.uniform()


@_case
def told_which_sample():
    return fn.external_source(Choose(), batch=False), fn.random.uniform()


@_case
def two_outputs_of_a_source():
    def source(info):
        value = Choose()(info)
        return value, value * 2.0

    return (*fn.external_source(source, num_outputs=2, batch=False), fn.random.uniform())


@_case
def a_list():
    return fn.external_source([np.full((3, 1), number) for number in range(3)]), fn.random.uniform()


@_case
def a_list_of_samples():
    return fn.external_source([np.array([number]) for number in range(COUNT)], batch=False), fn.random.uniform()


@_case
def a_list_without_a_copy():
    return fn.external_source([np.full((3, 1), number) for number in range(3)], no_copy=True), fn.random.uniform()


@_case
def an_iterable():
    return fn.external_source(Batches()), fn.random.uniform()


@_case
def a_generator_function():
    def generate():
        for number in range(3):
            yield np.full((3, 1), number)

    return fn.external_source(generate, cycle="raise"), fn.random.uniform()


@_case
def stateful_source():
    return fn.external_source(Stream()), fn.random.uniform()


@_case
def a_source_beside_a_reader():
    beside = fn.external_source(lambda info: np.array(info.idx_in_epoch), batch=False)
    return read_numbers(count=COUNT, random_shuffle=True), beside


# Functions


@_case
def stateless_function():
    number = read_numbers(count=COUNT, random_shuffle=True)
    return fn.python_function(number, function=lambda x, rng: x + rng.random(2))


@_case
def stateful_function():
    return fn.python_function(read_numbers(count=COUNT, random_shuffle=True), function=Counter())


@_case
def stateful_function_of_batches():
    number = read_numbers(count=COUNT, random_shuffle=True)
    return fn.python_function(number, function=BatchCounter(), batch_processing=True)


@_case
def two_stateful_functions():
    number = read_numbers(count=COUNT)
    return fn.python_function(fn.python_function(number, function=Counter())[0], function=Counter())


@_case
def threaded_function():
    number = read_numbers(count=COUNT, random_shuffle=True)
    return fn.python_function(number, function=lambda x: x * 2, parallel="threads")


@_case
def function_with_failures():
    def fails_for_four(x):
        return 12 // (int(x) - 4) + x

    number = read_numbers(count=COUNT, random_shuffle=True)
    return fn.python_function(number, function=fails_for_four, on_error="skip"), number


@_case
def conditional():
    number = read_numbers(count=COUNT, random_shuffle=True)
    if fn.random.coin_flip(dtype=types.BOOL):
        result = number + fn.random.uniform(range=(0.0, 1.0))
    else:
        result = fn.cast(fn.python_function(number, function=Counter())[0], dtype=types.FLOAT)
    return result


@_case
def nested_conditional():
    number = read_numbers(count=COUNT, random_shuffle=True)
    if number > 2:
        if fn.random.coin_flip(dtype=types.BOOL):
            result = fn.random.uniform(range=(0.0, 1.0))
        else:
            result = fn.random.normal()
    else:
        result = fn.cast(number, dtype=types.FLOAT)
    return result


# Worker processes


def doubled(x, rng):
    return x * 2 + rng.random(2)


def function_in_processes():
    number = read_numbers(count=COUNT, random_shuffle=True)
    return fn.python_function(number, function=doubled, parallel="processes")


def source_in_processes():
    return fn.external_source(Choose(), batch=False, parallel=True), fn.random.uniform()


for _define in (function_in_processes, source_in_processes):
    _case(_define, among=WORKERS)
