"""Hugging Face data sets, for real: indexed ones and streams, their columns, shards and states."""

import json

import numpy as np
import pytest

import pipeflow

pytestmark = pytest.mark.adapters


@pytest.fixture(scope="module")
def rows():
    import datasets

    columns = {"x": np.arange(23, dtype=np.float32), "y": np.arange(23) % 5}
    return datasets.Dataset.from_dict(columns).with_format("numpy")


def numbers(batch):
    return [int(x) for x in batch[0].samples()]


def test_columns_are_outputs_in_their_order(rows):
    """Every column of the data set is an output, with its own type; the reader's name gives the size."""
    pipe = pipeflow.from_torch_dataset(rows, 8, seed=1)
    x, y = next(pipe.epoch())
    assert numbers((x,)) == list(range(8))
    assert [int(label) for label in y.samples()] == [n % 5 for n in range(8)]
    assert x.dtype == pipeflow.types.FLOAT
    assert pipe.epoch_size("dataset") == 23


def test_shards_are_shuffled_and_exact(rows):
    """Over three ranks and two epochs every row comes once, and the orders differ."""
    ranks = [pipeflow.from_torch_dataset(rows, 4, shuffle=True, shard_id=k, num_shards=3, seed=2) for k in range(3)]
    orders = []
    for _ in range(2):
        seen = []
        for pipe in ranks:
            for batch in pipe.epoch():
                seen += [n for n, valid in zip(numbers(batch), pipe.valid) if valid]
        assert sorted(seen) == list(range(23))
        orders.append(seen)
    assert orders[0] != orders[1]


def test_a_state_continues_a_shuffled_epoch(rows):
    """The rest of an epoch after state_dict() and load_state_dict()."""
    first = pipeflow.from_torch_dataset(rows, 4, shuffle=True, seed=3)
    loop = first.epoch()
    next(loop), next(loop)
    state = json.loads(json.dumps(first.state_dict()))
    rest = [numbers(batch) for batch in loop]
    second = pipeflow.from_torch_dataset(rows, 4, shuffle=True, seed=3)
    second.load_state_dict(state)
    assert [numbers(batch) for batch in second.epoch()] == rest


def test_streams_keep_their_own_order(rows):
    """An IterableDataset is read from its beginning in every epoch; shuffling or sharding it here is refused."""
    stream = rows.to_iterable_dataset().with_format("numpy")
    pipe = pipeflow.from_torch_dataset(stream, 8, seed=1)
    for _ in range(2):
        assert [n for batch in pipe.epoch() for n in numbers(batch)] == list(range(23))
    with pytest.raises(ValueError, match="decides its order and its shards itself"):
        pipeflow.from_torch_dataset(stream, 8, shuffle=True)


def test_the_loader_takes_both_kinds(rows):
    """Columns are keys; a stream gives the same rows, resumes, and is read by workers in their parts."""
    indexed = pipeflow.loader(rows, 8, shuffle=True, seed=1, framework="numpy")
    batches = [{name: column.tolist() for name, column in batch.items()} for batch in indexed]
    assert sorted(x for batch in batches for x in batch["x"]) == list(range(23))
    assert all(y == x % 5 for batch in batches for x, y in zip(batch["x"], batch["y"]))
    stream = rows.to_iterable_dataset(num_shards=2)
    made = pipeflow.loader(stream, 8, framework="numpy")
    assert [batch["x"].tolist() for batch in made] == [list(range(8)), list(range(8, 16)), list(range(16, 23))]
    next(iter(made))
    state = json.dumps(made.state_dict())
    made.load_state_dict(json.loads(state))
    assert [batch["x"][0] for batch in made] == [8, 16]
    pytest.importorskip("torch")
    parts = pipeflow.loader(stream, 8, framework="torch", num_workers=2)
    assert sorted(x for batch in parts for x in batch["x"].tolist()) == list(range(23))


def test_pictures_go_through_operators(tmp_path):
    """Images of a column are decoded by the data set, and their bytes in a Parquet file by the pipeline."""
    import datasets
    from PIL import Image

    images = [Image.fromarray(np.full((6 + n, 8, 3), 20 * n, np.uint8)) for n in range(4)]
    features = datasets.Features({"image": datasets.Image(), "label": datasets.Value("int64")})
    kept = datasets.Dataset.from_dict({"image": images, "label": range(4)}, features)
    resize = pipeflow.fn.resize
    made = pipeflow.loader(
        kept, 4, framework="numpy", transform=lambda item: {**item, "image": resize(item["image"], size=[4, 4])}
    )
    [batch] = made
    assert batch["image"].mean((1, 2, 3)).round().tolist() == [0, 20, 40, 60]
    kept.to_parquet(str(tmp_path / "a.parquet"))

    def decoded():
        raw, label = pipeflow.fn.readers.parquet(paths=str(tmp_path), columns=["image", "label"])
        return resize(pipeflow.fn.decoders.image(raw), size=[4, 4]), label

    [(pictures, labels)] = pipeflow.pipeline_def(decoded, batch_size=4, num_threads=1)().epoch()
    assert np.array_equal(pictures.as_array(), batch["image"])
    assert labels.as_array().tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(("shards", "workers"), [(3, 2), (2, 3)])
def test_workers_without_torch_read_their_own_shards(shards, workers):
    """A row comes once: with arrays of NumPy no function of torch tells the data set which worker reads it."""
    import datasets

    stream = datasets.Dataset.from_dict({"x": list(range(24))}).to_iterable_dataset(num_shards=shards)
    loader = pipeflow.loader(stream, 4, num_workers=workers, framework="numpy")
    for _ in range(2):
        assert sorted(x for batch in loader for x in batch["x"].tolist()) == list(range(24))


def test_encoded_images_without_paths():
    """`decode=False` gives the bytes, and None for a path, which the pipeline need not know."""
    import cv2
    import datasets

    from pipeflow import fn

    def encoded(n):
        return {"bytes": cv2.imencode(".png", np.full((6 + n, 8, 3), n, np.uint8))[1].tobytes(), "path": None}

    features = datasets.Features({"image": datasets.Image(decode=False), "label": datasets.Value("int64")})
    rows = datasets.Dataset.from_dict({"image": [encoded(n) for n in range(6)], "label": list(range(6))}, features)
    loader = pipeflow.loader(
        rows, 3, framework="numpy",
        transform=lambda row: {**row, "image": fn.resize(fn.decoders.image(row["image"]["bytes"]), size=[4, 4])},
    )  # fmt: skip
    for start, batch in zip((0, 3), loader):
        assert batch["image"].shape == (3, 4, 4, 3)
        assert batch["image"][:, 0, 0, 0].tolist() == batch["label"].tolist() == [start, start + 1, start + 2]
