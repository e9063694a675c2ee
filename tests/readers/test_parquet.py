"""fn.readers.parquet: rows of files, groups of rows kept and read ahead, types of columns, and what is refused."""

import threading
from functools import partial

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet
from readers.conformance import check_reader

import pipeflow
from pipeflow import fn, pipeline_def
from pipeflow.declare import Request
from pipeflow.errors import BadData
from pipeflow.operators.readers.parquet import ParquetReader
from pipeflow.operators.readers.reader import Reader
from pipeflow.operators.readers.windowed_order import Groups

COUNT = 11


def table(start=0, count=COUNT):
    """Rows of every kind of column."""
    rows = range(start, start + count)
    return pa.table(
        {
            "number": pa.array([n / 2 for n in rows], pa.float32()),
            "label": pa.array(list(rows), pa.int16()),
            "flag": [n % 2 == 0 for n in rows],
            "text": [f"row {n} é" for n in rows],
            "word": pa.array([f"w{n % 3}" for n in rows]).dictionary_encode(),
            "raw": pa.array([bytes(range(n)) for n in rows], pa.binary()),
            "tokens": pa.array([list(range(n)) for n in rows], pa.list_(pa.int32())),
            "box": pa.array([[n, n + 1, n + 2, n + 3] for n in rows], pa.list_(pa.float64(), 4)),
            "matrix": pa.array([[[n, 1], [2, n]] for n in rows], pa.list_(pa.list_(pa.int64()))),
            "image": pa.array([{"bytes": bytes([n] * 3), "path": f"{n}.png"} for n in rows]),
            "at": pa.array([n * 10**6 for n in rows], pa.timestamp("us")),
        }
    )


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Two files in groups of four rows."""
    folder = tmp_path_factory.mktemp("parquet")
    parquet.write_table(table(), folder / "a.parquet", row_group_size=4)
    parquet.write_table(table(COUNT, 3), folder / "b.parquet", row_group_size=4)
    return folder


def expected(n):
    """A row's columns."""
    return {
        "number": np.float32(n / 2),
        "label": np.int16(n),
        "flag": np.bool_(n % 2 == 0),
        "text": np.array(f"row {n} é", object),
        "word": np.array(f"w{n % 3}", object),
        "raw": np.arange(n, dtype=np.uint8),
        "tokens": np.arange(n, dtype=np.int32),
        "box": np.arange(n, n + 4, dtype=np.float64),
        "matrix": np.array([[n, 1], [2, n]]),
        "image": np.full(3, n, np.uint8),
        "at": np.int64(n * 10**6),
    }


def test_it_is_a_reader_like_the_others(files):
    """Order, shards, padding and state; every type of column, in any order, over files."""
    names = list(table().column_names)
    rows = [tuple(np.asarray(expected(n)[name]) for name in names) for n in range(COUNT + 3)]
    check_reader(lambda: ParquetReader(paths=str(files), columns=names), rows)
    samples = ParquetReader(
        paths=[files / "b.parquet", files / "a.parquet"], columns=["label", "image.path"], decoded_bytes=0
    )
    assert [int(samples.fetch(n)[0]) for n in (0, 3, 13)] == [11, 0, 10]
    assert samples.fetch(0)[1].item() == "11.png"
    assert samples.source_info(1) == f"{files / 'b.parquet'} row 1"
    assert samples.source_info(9) == f"{files / 'a.parquet'} row 6"


@pytest.mark.parametrize("decoded_bytes", [0, 2**30])
def test_a_group_is_decoded_once_and_the_next_one_ahead(files, decoded_bytes, monkeypatch):
    """In order every group is decoded once, whatever is kept; shuffled once where all are kept."""
    decoded = []
    original = ParquetReader._decoded

    def counted(self, group):
        decoded.append(group)
        return original(self, group)

    samples = ParquetReader(paths=str(files), columns=["label"], decoded_bytes=decoded_bytes)
    monkeypatch.setattr(ParquetReader, "_decoded", counted)
    samples._cache._decode = samples._decoded
    assert [int(samples.fetch(n)[0]) for n in range(14)] == list(range(14))
    for thread in [x for x in threading.enumerate() if x.name == "pipeflow parquet"]:
        thread.join()
    assert sorted(decoded) == [0, 1, 2, 3]
    decoded.clear()
    for n in (13, 0, 7, 13, 0, 7):
        samples.fetch(n)
    assert bool(decoded) == (decoded_bytes == 0)


def test_in_a_pipeline(files):
    """Text, bytes and lists are samples; shuffled every row comes once."""
    pipe = pipeline_def(
        lambda: tuple(fn.readers.parquet(paths=f"{files}/*.parquet", columns=["label", "text", "tokens"], random_shuffle=True)),
        batch_size=4, num_threads=2, seed=1,
    )()  # fmt: skip
    rows = [
        (int(label), text.item(), len(tokens))
        for batch in pipe.epoch()
        for label, text, tokens in zip(*[x.samples() for x in batch])
    ]
    assert sorted(rows) == [(n, f"row {n} é", n) for n in range(14)]
    assert rows != sorted(rows)


def test_paths_and_columns_may_be_given_by_position(files):
    """As in a call of pandas or pyarrow; the other arguments have names."""

    @pipeline_def(batch_size=3, num_threads=1, device_id=None)
    def pipeline():
        return *fn.readers.parquet(str(files), ["number", "label"]), fn.readers.parquet(str(files), columns="label")

    number, label, again = pipeline().run()
    assert number.as_array().tolist() == [0, 0.5, 1]
    assert label.as_array().tolist() == again.as_array().tolist() == [0, 1, 2]
    for call, message in (
        (
            lambda: fn.readers.parquet("x", ["label"], 5),
            "takes at most 2 positional arguments, got 3: give the others by",
        ),
        (lambda: fn.readers.parquet("x", paths="y", columns="a"), "got several values for the argument 'paths'"),
        (lambda: fn.readers.file("x"), "expects 0 inputs, but received 1: give its arguments by name"),
    ):
        with pytest.raises(ValueError, match=message):
            call()


@pytest.mark.parametrize(
    ("columns", "kind", "text"),
    [
        (["labels"], KeyError, r"has no column 'labels'; it has \['pair', 'price'\]"),
        (["pair"], TypeError, r"'pair' .* is a structure of \['x', 'y'\]: say which field as 'pair.x'"),
        (["price"], TypeError, r"'price' .* is of type decimal128\(5, 2\), which cannot be an array"),
        ([], ValueError, "columns"),
    ],
)
def test_columns_that_cannot_be_read(tmp_path, columns, kind, text):
    """They are refused when the pipeline is built."""
    prices = pa.array(["1.5", "2.5"]).cast(pa.decimal128(5, 2))
    parquet.write_table(pa.table({"pair": [{"x": 1, "y": 2}] * 2, "price": prices}), tmp_path / "a.parquet")
    with pytest.raises(kind, match=text):
        ParquetReader(paths=str(tmp_path), columns=columns)


def test_rows_without_a_value_are_named(tmp_path):
    """Only the row that is empty fails; lists of different lengths, too."""
    columns = {"x": [1, None, 3], "m": [[[1], [2]], [[1], [2, 3]], []]}
    parquet.write_table(pa.table(columns), tmp_path / "a.parquet")
    samples = ParquetReader(paths=str(tmp_path / "a.parquet"), columns=["x"])
    assert [int(samples.fetch(n)[0]) for n in (0, 2)] == [1, 3]
    with pytest.raises(ValueError, match=r"row 1 of row group 0 of .*a\.parquet has no value in column 'x'"):
        samples.fetch(1)
    with pytest.raises(ValueError, match=r"row 1 of row group 0 .* lists of different lengths"):
        ParquetReader(paths=str(tmp_path / "a.parquet"), columns=["m"]).fetch(1)


@pytest.mark.parametrize(
    ("column", "name", "place"),
    [
        (pa.array([[1, 2], [3, None]]), "x", r"at \[1\] "),
        (pa.array([[1.0, 2.0], [3.0, None]], pa.list_(pa.float64(), 2)), "x", r"at \[1\] "),
        (pa.array([[[1], [2]], [[3], None]]), "x", r"at \[1\] "),
        (pa.array([[[1], [2]], [[3], [None]]]), "x", r"at \[1\]\[0\] "),
        (pa.array([{"a": 1}, None]), "x.a", ""),
        (pa.array([{"bytes": b"a"}, {"bytes": None}]), "x", ""),
        (pa.array([b"ab", None], pa.binary(2)), "x", ""),
    ],
)
def test_values_that_lack_inside_a_row_are_named(tmp_path, column, name, place):
    """A number that is missing in a list never becomes 0; the other rows are read."""
    parquet.write_table(pa.table({"x": column}), tmp_path / "a.parquet")
    samples = ParquetReader(paths=str(tmp_path / "a.parquet"), columns=[name])
    samples.fetch(0)
    with pytest.raises(ValueError, match=rf"row 1 of row group 0 of .* has no value {place}in column '{name}'"):
        samples.fetch(1)


def test_bytes_and_text_in_every_form(tmp_path):
    """Bytes of one length, and the forms of text and bytes that newer programs write."""
    for kind in (pa.binary(2), pa.binary(), pa.large_binary(), pa.binary_view()):
        parquet.write_table(pa.table({"x": pa.array([b"ab", b"cd"], kind)}), tmp_path / "a.parquet")
        [value] = ParquetReader(paths=str(tmp_path / "a.parquet"), columns=["x"]).fetch(1)
        assert (value.dtype, value.tolist()) == (np.uint8, [99, 100])
    for kind in (pa.string(), pa.large_string(), pa.string_view()):
        [row] = pipeflow.loader(pa.table({"x": pa.array(["ab"], kind)}), 1, framework="numpy")
        assert row == {"x": ["ab"]}


def test_errors_of_pyarrow_name_the_file(files, tmp_path):
    """A file that is no Parquet, one that is cut, and a column that is damaged."""
    whole = (files / "b.parquet").read_bytes()
    for content in (b"no Parquet at all", whole[:-20]):
        (tmp_path / "a.parquet").write_bytes(content)
        with pytest.raises(BadData, match=r"a\.parquet is not a complete file of Parquet"):
            ParquetReader(paths=str(tmp_path / "a.parquet"), columns=["label"])
    pages = len(whole) - 8 - int.from_bytes(whole[-8:-4], "little") - 4
    damaged = bytearray(whole)
    damaged[4 : 4 + pages] = b"\xff" * pages
    (tmp_path / "a.parquet").write_bytes(damaged)
    with pytest.raises((ValueError, OSError)) as caught:
        ParquetReader(paths=str(tmp_path / "a.parquet"), columns=["label"])
    assert "a.parquet" in "".join(caught.value.__notes__)


def test_checksums_of_pages_are_compared(tmp_path):
    """A writer may add them; then no byte is wrong unnoticed."""
    rows = pa.table({"x": np.arange(1000)})
    parquet.write_table(
        rows, tmp_path / "a.parquet", write_page_checksum=True, compression="none", use_dictionary=False
    )
    data = bytearray((tmp_path / "a.parquet").read_bytes())
    place = data.find(np.arange(500, 503).tobytes())
    data[place] ^= 1
    (tmp_path / "a.parquet").write_bytes(data)
    with pytest.raises(OSError, match=r"(?i)crc|checksum"):
        ParquetReader(paths=str(tmp_path / "a.parquet"), columns=["x"])


def test_paths_that_lead_nowhere(tmp_path):
    """A folder or pattern without files, and no path at all."""
    for path, text in ((tmp_path, r"no \.parquet file"), (f"{tmp_path}/*.parquet", "paths: no file matches")):
        with pytest.raises(FileNotFoundError, match=text):
            ParquetReader(paths=path, columns=["x"])
    with pytest.raises(ValueError, match="empty list"):
        ParquetReader(paths=[], columns=["x"])


def test_a_damaged_file_is_an_error_and_not_a_crash(files, tmp_path):
    """Cut and changed at every part of the file: rows or an exception."""
    whole = (files / "b.parquet").read_bytes()
    rng = np.random.default_rng(0)
    for number in range(40):
        data = bytearray(whole[: rng.integers(len(whole))] if number % 2 else whole)
        for place in rng.integers(0, max(len(data), 1), 8) if data and not number % 2 else ():
            data[place] = rng.integers(256)
        (tmp_path / "a.parquet").write_bytes(data)
        try:
            samples = ParquetReader(paths=str(tmp_path / "a.parquet"), columns=["label", "text", "tokens"])
            for index in range(len(samples)):
                samples.fetch(index)
        except (Exception, MemoryError):
            continue


def test_a_table_is_a_data_set_for_the_loader():
    """Its columns are the keys; text stays text, and rows go to worker processes, too."""
    rows = table(0, 5).select(["label", "text", "box"])
    [first, second] = pipeflow.loader(rows, 3, framework="numpy")
    assert first["label"].tolist() == [0, 1, 2]
    assert second["text"] == ["row 3 é", "row 4 é"]
    assert first["box"].shape == (3, 4)
    [_, again] = pipeflow.loader(rows.slice(0, 5), 3, framework="numpy", num_workers=1)
    assert again["text"] == second["text"]
    shifted = next(iter(pipeflow.loader(rows.slice(2, 3), 3, framework="numpy")))
    assert (shifted["label"].tolist(), shifted["text"][0], shifted["box"][0, 0]) == ([2, 3, 4], "row 2 é", 2.0)


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    """37 rows in groups of four, in two files; the last group of each is short."""
    folder = tmp_path_factory.mktemp("many")
    for name, begin, end in (("a", 0, 18), ("b", 18, 37)):
        parquet.write_table(
            pa.table({"n": pa.array(range(begin, end), pa.int64())}), folder / f"{name}.parquet", row_group_size=4
        )
    return folder


def windowed(folder, window=8, **arguments):
    return ParquetReader(paths=str(folder), columns=["n"], shuffle_window=window, **arguments)


@pytest.mark.parametrize("window", [8, *(pytest.param(n, marks=pytest.mark.slow) for n in (1, 9, 1000))])
def test_windows_keep_the_promises_of_every_reader(many, window):
    """Order, shards, padding, epochs and state, for windows of one group, of some and of all."""
    check_reader(lambda: windowed(many, window), [(np.array(n),) for n in range(37)])


def rows_of(folder, count, order, window=8, **more):
    reader = Reader(lambda: windowed(folder, window), {"random_shuffle": True, "seed": 3, **order, **more})
    return [int(x) for _ in range(count) for x in reader.next(Request(1, 0, 0, 0)).outputs[0]]


def test_rows_of_a_group_come_within_a_window(many):
    """Windows of two groups: no row is farther from another of its group than a window is long, and epochs differ."""
    both = rows_of(many, 74, {})
    epochs = both[:37], both[37:]
    for rows in epochs:
        assert sorted(rows) == list(range(37))
        places = np.argsort(rows)
        groups = [range(n, min(n + 4, 18)) for n in range(0, 18, 4)] + [
            range(n, min(n + 4, 37)) for n in range(18, 37, 4)
        ]
        for group in groups:
            assert np.ptp(places[list(group)]) < 8 + 4
        assert any(np.ptp(places[list(group)]) > 3 for group in groups)
        assert rows != sorted(rows)
    assert epochs[0] != epochs[1]
    assert rows_of(many, 74, {}) == both
    assert rows_of(many, 37, {}, seed=4) != both[:37]
    three = [rows_of(many, 12, {"num_shards": 3, "shard_id": shard}) for shard in range(3)]
    assert [x for step in zip(*three) for x in step] == both[:36]


def test_each_group_of_a_window_is_decoded_once(many, monkeypatch):
    """Without any room for the rest; a permutation of all rows decodes them again and again."""
    decoded = []
    original = ParquetReader._decoded
    monkeypatch.setattr(ParquetReader, "_decoded", lambda self, group: decoded.append(group) or original(self, group))

    def epoch(window):
        @pipeline_def(batch_size=4, num_threads=1, seed=2)
        def define():
            return fn.readers.parquet(
                paths=str(many), columns=["n"], random_shuffle=True, decoded_bytes=0, shuffle_window=window, name="rows"
            )

        pipe = define()
        pipe.build()
        decoded.clear()
        rows = [int(x) for [batch] in pipe.epoch() for x in batch.as_array()]
        assert sorted(rows) == list(range(37))
        return len(decoded)

    assert epoch(8) <= 10 + 1  # the build has decoded one of them
    assert epoch(None) > 20


def test_a_state_of_other_windows_is_refused(many):
    """The order would be another one; any number of shards may go on with the same windows."""
    order = {"random_shuffle": True, "seed": 3}
    saved = [Reader(partial(windowed, many, window), order).state() for window in (8, None)]
    with pytest.raises(ValueError, match="shuffle_window was 8, is 9"):
        Reader(lambda: windowed(many, 9), order).restore(saved[0])
    with pytest.raises(ValueError, match="shuffle_window was 8, is None"):
        Reader(lambda: windowed(many, None), order).restore(saved[0])
    with pytest.raises(ValueError, match="shuffle_window was None, is 8"):
        Reader(lambda: windowed(many, 8), order).restore(saved[1])
    sticking = {**order, "stick_to_shard": True}
    saved = Reader(lambda: windowed(many, 8), sticking).state()
    with pytest.raises(ValueError, match="shuffle_window was 8, is 9"):
        Reader(lambda: windowed(many, 9), sticking).restore(saved)
    whole = rows_of(many, 37, {})
    one = Reader(lambda: windowed(many), order)
    assert [int(x) for x in one.next(Request(10, 0, 0, 0)).outputs[0]] == whole[:10]
    three = [Reader(lambda: windowed(many), {**order, "num_shards": 3, "shard_id": shard}) for shard in range(3)]
    for reader in three:
        reader.restore(one.state())
    rest = [[int(x) for x in reader.next(Request(9, 0, 0, 0)).outputs[0]] for reader in three]
    assert [x for step in zip(*rest) for x in step] == whole[10:]


def test_windows_have_rows(many):
    """A window of no rows is refused."""
    with pytest.raises(ValueError, match="shuffle_window must be a number of rows from 1 on, got 0"):
        windowed(many, 0)
    assert Groups(np.array([4, 8, 9, 9, 13]), 5).most() == 2
    assert Groups(np.array([4, 8, 9, 9, 13]), 6).most() == 3
    assert Groups(np.array([4, 8, 12]), 100).most() == 3
