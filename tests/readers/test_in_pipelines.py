"""Readers inside pipelines: epochs, shards, seeds, reset, checkpoints and errors with their sources."""

from pathlib import Path

import numpy as np
import pytest
from readers import records

from pipeflow import fn, pipeline_def, tfrecord
from pipeflow.declare import registration
from pipeflow.operators.readers.reader import reader


@pytest.fixture
def root(tmp_path):
    """Ten files 0.bin to 9.bin of one byte each, their number."""
    (tmp_path / "a").mkdir()
    for number in range(10):
        (tmp_path / "a" / f"{number}.jpg").write_bytes(bytes([number]))
    return str(tmp_path)


def pipe(root, batch_size=4, num_threads=2, pipeline_seed=7, checkpoint=None, **arguments):
    @pipeline_def(
        batch_size=batch_size,
        num_threads=num_threads,
        seed=pipeline_seed,
        enable_checkpointing=True,
        checkpoint=checkpoint,
    )
    def define():
        data, _ = fn.readers.file(file_root=root, name="files", **arguments)
        return data, fn.random.uniform(range=(0.0, 1.0))

    return define()


def samples(outputs):
    """The arrays of each output."""
    return [output.samples() for output in outputs]


def run(pipeline, batches):
    """The numbers of the files of the next batches."""
    return [int(sample[0]) for _ in range(batches) for sample in pipeline.run()[0].samples()]


def test_unshuffled_batches_run_on_into_the_next_epoch(root):
    """As in DALI, run() never ends: a batch takes its last samples from the next epoch."""
    assert run(pipe(root), 6) == [place % 10 for place in range(24)]
    assert run(pipe(root, num_shards=3, shard_id=1), 3) == [3, 4, 5, 6, 7, 8, 9, 0, 1, 2, 3, 4]
    assert run(pipe(root, num_shards=3, shard_id=1, stick_to_shard=True, pad_last_batch=True), 2) == [
        3,
        4,
        5,
        5,
        3,
        4,
        5,
        5,
    ]


def test_shuffled_epochs_hold_every_sample_once(root):
    """Each epoch is a permutation, another one than before, the same for the same seed and any thread count."""
    got = run(pipe(root, batch_size=5, random_shuffle=True), 6)
    epochs = [got[start : start + 10] for start in (0, 10, 20)]
    assert all(sorted(epoch) == list(range(10)) for epoch in epochs)
    assert len({tuple(epoch) for epoch in epochs}) == 3
    assert run(pipe(root, batch_size=3, num_threads=1, random_shuffle=True), 10) == got
    assert run(pipe(root, batch_size=5, random_shuffle=True, pipeline_seed=8), 6) != got


def test_random_numbers_belong_to_the_sample_not_to_its_shard_or_batch(root):
    """A sample draws the same numbers in one pipeline and in any shard of several, in any batch size."""

    def draws(batches, **arguments):
        pipeline = pipe(root, random_shuffle=True, seed=5, **arguments)
        outputs = [pipeline.run() for _ in range(batches)]
        return {int(file[0]): float(number) for batch in outputs for file, number in zip(*samples(batch))}

    whole = draws(2, batch_size=5)
    assert len(whole) == 10
    assert draws(5, batch_size=2) == whole
    assert draws(1, batch_size=5, num_shards=2, shard_id=0) | draws(1, batch_size=5, num_shards=2, shard_id=1) == whole


def test_reset_loses_no_samples_and_repeats_none(root):
    """A reset drops what was read ahead; the reader goes on behind the last batch that was delivered."""
    pipeline = pipe(root, batch_size=3)
    seen = run(pipeline, 1)
    pipeline.reset()
    seen += run(pipeline, 2)
    pipeline.reset()
    assert seen + run(pipeline, 2) == [place % 10 for place in range(15)]


def test_checkpoints_restore_at_every_batch(root):
    """A pipeline built from a checkpoint continues exactly, shuffled or not, with its random numbers."""
    for arguments in ({}, {"random_shuffle": True}, {"random_shuffle": True, "num_shards": 2, "shard_id": 1}):

        def numbers(pipeline, batches):
            outputs = [pipeline.run() for _ in range(batches)]
            return [(int(a[0]), float(b)) for batch in outputs for a, b in zip(*samples(batch))]

        whole = numbers(pipe(root, 3, **arguments), 8)
        for done in range(1, 6):
            pipeline = pipe(root, 3, **arguments)
            numbers(pipeline, done)
            restored = pipe(root, 3, checkpoint=pipeline.checkpoint(), **arguments)
            assert numbers(restored, 2) == whole[3 * done : 3 * done + 6]


def test_another_number_of_shards_takes_up_a_checkpoint(root):
    """Two shards stop in the middle of an epoch; one pipeline, or three, read exactly the rest of it."""
    shards = [pipe(root, 2, random_shuffle=True, num_shards=2, shard_id=shard) for shard in range(2)]
    seen = [number for shard in shards for number in run(shard, 1)]
    saved = shards[0].checkpoint()
    one = pipe(root, 3, random_shuffle=True, checkpoint=saved)
    assert sorted(seen + run(one, 2)) == list(range(10))
    three = [pipe(root, 2, random_shuffle=True, num_shards=3, shard_id=shard, checkpoint=saved) for shard in range(3)]
    assert sorted(seen + [number for shard in three for number in run(shard, 1)]) == list(range(10))


def test_reader_meta_and_epoch_size(root):
    """DALI's keys, and the size of an epoch by the reader's name."""
    pipeline = pipe(root, num_shards=3, shard_id=2, pad_last_batch=True)
    assert pipeline.reader_meta("files") == {
        "epoch_size": 10,
        "epoch_size_padded": 12,
        "number_of_shards": 3,
        "shard_id": 2,
        "pad_last_batch": 1,
        "stick_to_shard": 0,
    }
    assert pipeline.epoch_size("files") == 12
    assert pipeline.epoch_size() == {"files": 12}


def test_source_info_follows_every_sample(root):
    """Every output of a batch says which file each of its samples came from, as DALI does: without `file_root`."""
    data, _ = pipe(root, random_shuffle=True).run()
    names = [f"a/{int(data.at(place)[0])}.jpg" for place in range(4)]
    assert [data[place].source_info() for place in range(4)] == data.source_info() == names
    assert data.source_info(1) == names[1]


@pytest.mark.parametrize("given", ["root", "list", "files", "absolute"])
def test_source_info_is_the_path_as_it_was_given(root, tmp_path, given):
    """Found in a folder, listed in a file of this folder, or given; absolute paths stay as they are."""
    absolute = f"{root}/a/0.jpg"
    listed = tmp_path / "list.txt"
    listed.write_text(f"{'a/0.jpg'} 1\n{absolute} 2\n")
    arguments, first = {
        "root": ({"file_root": str(root)}, "a/0.jpg"),
        "list": ({"file_list": str(listed)}, "a/0.jpg"),
        "files": ({"files": ["a/0.jpg"], "file_root": f"{root}/"}, "a/0.jpg"),
        "absolute": ({"files": [absolute], "file_root": str(root)}, absolute),
    }[given]

    @pipeline_def(batch_size=2, num_threads=1, device_id=None)
    def define():
        files, _ = fn.readers.file(**arguments)
        return files, fn.get_property(files, key="source_info"), fn.copy(files)

    files, texts, copied = define().run()
    assert files[0].source_info() == copied[0].source_info() == bytes(texts.at(0)).decode() == first
    if given == "list":
        assert files[1].source_info() == absolute


def test_an_error_names_the_file_and_the_pipeline_goes_on(root):
    """A sample that cannot be decoded is an error with its file, in its batch's turn; the next batch comes as usual."""

    @pipeline_def(batch_size=2, num_threads=2)
    def define():
        data, labels = fn.readers.file(file_root=root)
        return fn.decoders.image(data), labels

    pipeline = define()
    with pytest.raises(ValueError, match="not a JPEG, PNG") as caught:
        pipeline.run()
    assert f"(source: {root}/a/0.jpg)" in "\n".join(caught.value.__notes__)
    with pytest.raises(ValueError, match="not a JPEG, PNG") as caught:
        pipeline.run()
    assert f"(source: {root}/a/2.jpg)" in "\n".join(caught.value.__notes__)


def test_a_missing_file_is_an_error_of_its_batch_only(tmp_path):
    """A file that vanished is named, and the batches around it are delivered."""
    paths = [str(tmp_path / f"{number}.bin") for number in range(6)]
    for number, path in enumerate(paths):
        if number != 3:
            Path(path).write_bytes(bytes([number]))

    @pipeline_def(batch_size=2, num_threads=2)
    def define():
        return fn.readers.file(files=paths)[0]

    pipeline = define()
    assert [int(sample[0]) for sample in pipeline.run()[0].samples()] == [0, 1]
    with pytest.raises(FileNotFoundError, match=r"3\.bin"):
        pipeline.run()
    assert [int(sample[0]) for sample in pipeline.run()[0].samples()] == [4, 5]


@pytest.mark.parametrize("debug", [False, True])
@pytest.mark.parametrize("on_error", ["raise", "replace"])
def test_an_error_names_the_file_of_the_reader_that_the_step_reads(tmp_path, on_error, debug):
    """With two readers in a pipeline, the file of the other one is fine."""
    for folder in ("images", "masks"):
        (tmp_path / folder).mkdir()
        for name in "abc":
            (tmp_path / folder / name).write_bytes(b"bad" if (folder, name) == ("masks", "b") else b"good")

    def refuse(data):
        if bytes(data) == b"bad":
            raise ValueError("no mask")
        return data

    @pipeline_def(batch_size=3, num_threads=1, debug=debug)
    def define():
        images, _ = fn.readers.file(file_root=str(tmp_path / "images"), files=["a", "b", "c"])
        masks, _ = fn.readers.file(file_root=str(tmp_path / "masks"), files=["a", "b", "c"])
        return fn.python_function(images, function=refuse), fn.python_function(
            masks, function=refuse, on_error=on_error
        )

    pipeline, bad = define(), str(tmp_path / "masks" / "b")
    if on_error == "raise":
        with pytest.raises(ValueError, match="no mask") as caught:
            pipeline.run()
        assert f"(source: {bad})" in "\n".join(caught.value.__notes__)
    else:
        pipeline.run()
        assert [failure.source for failure in pipeline.failures()] == [bad]


def test_a_moved_sample_has_no_file(tmp_path):
    """After permute_batch the file at the same place of the batch is another one."""
    for name in "ab":
        (tmp_path / name).write_bytes(name.encode())

    def refuse(data):
        if bytes(data) == b"b":
            raise ValueError("no")
        return data

    @pipeline_def(batch_size=2, num_threads=1)
    def define():
        files, _ = fn.readers.file(file_root=str(tmp_path), files=["a", "b"])
        return fn.python_function(fn.permute_batch(files, indices=[1, 0]), function=refuse)

    with pytest.raises(ValueError, match="no") as caught:
        define().run()
    assert "source:" not in "\n".join(caught.value.__notes__)


def test_lazy_init_reports_a_missing_folder_only_when_it_runs(tmp_path):
    """By default build() looks at the files; with lazy_init the first batch does."""

    def define(lazy):
        @pipeline_def(batch_size=1, num_threads=1)
        def inner():
            return fn.readers.file(file_root=str(tmp_path / "gone"), lazy_init=lazy)[0]

        return inner()

    with pytest.raises(FileNotFoundError, match="gone"):
        define(False).build()
    pipeline = define(True)
    pipeline.build()
    with pytest.raises(FileNotFoundError, match="gone"):
        pipeline.run()


def test_a_checkpoint_of_a_lazy_reader_that_was_not_read(tmp_path):
    """Its state is the beginning, for a reader that is open and for one that is not."""
    for name in "abc":
        (tmp_path / name).write_bytes(name.encode())

    @pipeline_def(batch_size=1, num_threads=1, enable_checkpointing=True)
    def define(lazy):
        return fn.readers.file(file_root=str(tmp_path), files=["a", "b", "c"], lazy_init=lazy)[1]

    saved = define(True).state_dict()
    for lazy in (True, False):
        pipeline = define(lazy)
        pipeline.build()
        pipeline.run()
        pipeline.run()
        pipeline.load_state_dict(saved)
        assert [int(pipeline.run()[0].as_array()[0, 0]) for _ in range(3)] == [0, 1, 2]


def test_tfrecord_gives_a_dictionary_of_outputs(tmp_path):
    """The outputs are found by their features' names, whether there is one or several."""
    (tmp_path / "a.tfrecord").write_bytes(
        b"".join(records.record(records.example({"i": [n], "s": [b"x" * n]})) for n in range(1, 5))
    )
    features = {
        "s": tfrecord.FixedLenFeature([], tfrecord.string, ""),
        "i": tfrecord.FixedLenFeature([], tfrecord.int64, 0),
    }

    @pipeline_def(batch_size=4, num_threads=1)
    def define():
        both = fn.readers.tfrecord(path=str(tmp_path / "a.tfrecord"), features=features)
        one = fn.readers.tfrecord(path=str(tmp_path / "a.tfrecord"), features={"i": features["i"]})
        return both["i"], both["s"], one["i"]

    numbers, texts, again = samples(define().run())
    assert [int(number) for number in numbers] == [int(number) for number in again] == [1, 2, 3, 4]
    assert [len(text) for text in texts] == [1, 2, 3, 4]


def test_webdataset_has_one_output_an_extension(tmp_path):
    """As many outputs as elements of ext."""
    path = records.write_tar(tmp_path / "a.tar", [("1.jpg", b"1"), ("1.cls", b"c"), ("2.jpg", b"2"), ("2.cls", b"d")])

    @pipeline_def(batch_size=2, num_threads=1)
    def define():
        image, label = fn.readers.webdataset(paths=path, ext=["jpg", "cls"])
        return image, label

    assert [[sample.tobytes() for sample in output.as_array()] for output in define().run()] == [
        [b"1", b"2"],
        [b"c", b"d"],
    ]


def test_a_new_reader_is_two_methods(monkeypatch):
    """`__len__` and `fetch` make a reader; the order's arguments come with the declaration."""
    monkeypatch.setattr(registration, "registry", dict(registration.registry))

    @reader("readers.squares", outputs=2)
    class Squares:
        """Reads square numbers."""

        def __init__(self, *, count: int) -> None:
            self.count = count

        def __len__(self) -> int:
            return self.count

        def fetch(self, index: int) -> tuple:
            return np.array(index), np.array(index**2)

    @pipeline_def(batch_size=3, num_threads=1)
    def define():
        number, square = registration.find("readers.squares")(count=7, num_shards=2, shard_id=1)
        return number, square

    numbers, squares = samples(define().run())
    assert [int(number) for number in numbers] == [3, 4, 5]
    assert [int(square) for square in squares] == [9, 16, 25]
