"""fn.readers.tfrecord: records, CRCs, the parser of Examples, index files."""

import os

import numpy as np
import pytest
from readers import records
from readers.conformance import check_reader

from pipeflow import tfrecord, types
from pipeflow.errors import BadData
from pipeflow.kernels.cpu.crc32c import crc32c
from pipeflow.operators.readers.tfrecord import TFRecordReader, read_index, scan, write_index
from pipeflow.tfrecord import FixedLenFeature, VarLenFeature


def write(path, examples):
    path.write_bytes(b"".join(records.record(data) for data in examples))
    return str(path)


def fetch_one(tmp_path, data, features):
    return TFRecordReader(path=write(tmp_path / "a.tfrecord", [data]), features=features).fetch(0)


@pytest.mark.parametrize("length", [0, 1, 7, 8, 9, 63, 1000])
def test_crc32c_equals_the_byte_by_byte_formula(length):
    """The eight-bytes-a-step kernel computes the same CRC, and the published check value."""
    data = np.random.default_rng(length).integers(0, 256, length, dtype=np.uint8)
    assert int(crc32c(data)) == records.crc32c(data.tobytes())
    assert int(crc32c(np.frombuffer(b"123456789", np.uint8).copy())) == 0xE3069283


@pytest.mark.parametrize("packed", [True, False])
def test_features_of_all_kinds_are_read(tmp_path, packed):
    """Strings give bytes, numbers their arrays in the declared shape, packed or not."""
    data = records.example({"s": [b"abc", b"second"], "i": [5], "f": [1.5, 2.5], "m": [1, -2, 3, 2**62]}, packed)
    outputs = fetch_one(
        tmp_path,
        data,
        {
            "s": FixedLenFeature([], tfrecord.string, ""),
            "i": FixedLenFeature([1], tfrecord.int64, -1),
            "scalar": FixedLenFeature([], tfrecord.float32, 0.5),
            "f": FixedLenFeature([2], tfrecord.float32, 0.0),
            "m": FixedLenFeature([2, 2], tfrecord.int64, 0),
        },
    )
    assert [(output.dtype.name, output.tolist()) for output in outputs] == [
        ("uint8", list(b"abc")),
        ("int64", [5]),
        ("float32", 0.5),
        ("float32", [1.5, 2.5]),
        ("int64", [[1, -2], [3, 2**62]]),
    ]


def test_features_of_any_length(tmp_path):
    """A VarLenFeature has as many values as the record, or rows of its shape."""
    data = records.example({"i": [1, 2, 3, 4, 5, 6], "f": [], "g": [0.5]})
    outputs = fetch_one(
        tmp_path,
        data,
        {
            "i": VarLenFeature(tfrecord.int64, 0),
            "rows": VarLenFeature([3], tfrecord.int64, 0),
            "none": VarLenFeature(tfrecord.float32, 0.0),
            "g": VarLenFeature(tfrecord.float32, 0.0),
        },
    )
    assert [output.tolist() for output in outputs] == [[1, 2, 3, 4, 5, 6], [], [], [0.5]]
    assert outputs[1].shape == (0, 3)
    both = fetch_one(tmp_path, data, {"i": VarLenFeature([3], types.INT64, 0)})
    assert both[0].tolist() == [[1, 2, 3], [4, 5, 6]]


def test_a_missing_feature_takes_its_default(tmp_path):
    """The default fills the declared shape; a missing string is the default's bytes."""
    outputs = fetch_one(
        tmp_path,
        records.example({}),
        {
            "s": FixedLenFeature([], tfrecord.string, "none"),
            "i": FixedLenFeature([2], tfrecord.int64, -1),
            "f": FixedLenFeature([], tfrecord.float32, 0.5),
        },
    )
    assert [output.tolist() for output in outputs] == [list(b"none"), [-1, -1], 0.5]


def test_long_lists_of_integers_are_decoded_as_one_by_one(tmp_path):
    """Numbers of every encoded length, negative ones included."""
    values = [(-1) ** n * (1 << n) + n for n in range(63)] + [-(2**63), 2**63 - 1, 0]
    (output,) = fetch_one(tmp_path, records.example({"i": values}), {"i": VarLenFeature(tfrecord.int64, 0)})
    assert output.tolist() == values


def test_unknown_fields_are_passed_over(tmp_path):
    """Fields that the format does not know, of every wire type, do not disturb."""
    strange = records.varint(9 << 3) + b"\x05" + records.varint(10 << 3 | 1) + b"8bytes!!" + records.varint(11 << 3 | 5)
    data = strange + b"4by!" + records.example({"i": [7]}) + records.field(12, b"text")
    assert fetch_one(tmp_path, data, {"i": FixedLenFeature([], tfrecord.int64, 0)})[0] == 7


def test_conformance(tmp_path):
    """The reader keeps every promise of readers, over two files, with and without index files."""
    values = [[index, index + 1] for index in range(7)]
    first = write(tmp_path / "1.tfrecord", [records.example({"i": value}) for value in values[:3]])
    second = write(tmp_path / "2.tfrecord", [records.example({"i": value}) for value in values[3:]])
    features = {"i": FixedLenFeature([2], tfrecord.int64, 0)}
    expected = [(np.array(value, np.int64),) for value in values]
    check_reader(lambda: TFRecordReader(path=[first, second], features=features), expected)
    indexes = [str(tmp_path / "1.idx"), str(tmp_path / "2.idx")]
    assert [write_index(path, index) for path, index in zip([first, second], indexes)] == [3, 4]
    check_reader(lambda: TFRecordReader(path=[first, second], index_path=indexes, features=features), expected)
    assert TFRecordReader(path=[first, second], features=features).source_info(3) == f"{second} at index 0"


def test_index_files_have_dalis_format(tmp_path):
    """A line holds the offset and the whole length of a record."""
    path = write(tmp_path / "a.tfrecord", [b"12345", b"", b"123"])
    write_index(path, str(tmp_path / "a.idx"))
    assert (tmp_path / "a.idx").read_text() == "0 21\n21 16\n37 19\n"
    assert read_index(str(tmp_path / "a.idx"), path).tolist() == scan(path).tolist()


FEATURES = {"i": FixedLenFeature([], tfrecord.int64, 0)}


def packed(numbers):
    """An Example whose feature i is a packed list of these bytes."""
    values = records.field(3, records.field(1, numbers))
    return records.field(1, records.field(1, records.field(1, b"i") + records.field(2, values)))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "has no records"),
        (b"12345", "truncated record, 5 bytes do not hold its length"),
        (b"not a TFRecord file at all", "at index 0: the CRC of the record's length is wrong"),
        (records.record(b"abc")[:-1], "truncated record of 19 bytes, the file ends after 18"),
        (records.record(b"abc") + b"\xff" * 12, "at index 19: the CRC"),
    ],
)
def test_damaged_files_are_refused_by_name(tmp_path, content, message):
    """Truncation and wrong lengths are found when the file is scanned."""
    (tmp_path / "bad.tfrecord").write_bytes(content)
    with pytest.raises(BadData, match=message) as caught:
        TFRecordReader(path=str(tmp_path / "bad.tfrecord"), features=FEATURES)
    assert "bad.tfrecord" in str(caught.value)


def test_a_flipped_bit_anywhere_in_the_data_is_found(tmp_path):
    """The CRC of the data refuses every single-bit change of the record."""
    good = records.record(records.example({"i": [5]}))
    for bit in range(8 * 12, 8 * len(good)):
        bad = bytearray(good)
        bad[bit // 8] ^= 1 << bit % 8
        (tmp_path / "bad.tfrecord").write_bytes(bad)
        reader = TFRecordReader(path=str(tmp_path / "bad.tfrecord"), features=FEATURES)
        with pytest.raises(BadData, match=r"bad\.tfrecord at index 0: the CRC of the record's data is wrong"):
            reader.fetch(0)


@pytest.mark.parametrize(
    ("data", "features", "message"),
    [
        (b"\x0a\x7f", FEATURES, "damaged tf.train.Example: a field of 127 bytes where 0 are left"),
        (b"\xff" * 12, FEATURES, "a number of more than ten bytes"),
        (b"\x0a", FEATURES, "damaged tf.train.Example"),
        (b"\x0b", FEATURES, "wire type 3"),
        (b"\x0d\x01", FEATURES, "a number runs over the end"),
        (records.example({"i": [1, 2]}), FEATURES, r"feature 'i' has 2 values, which do not fill the shape \[\]"),
        (records.example({"i": [1, 2, 3]}), {"i": VarLenFeature([2], tfrecord.int64, 0)}, r"rows of shape \[2\]"),
        (records.example({"i": [0.5]}), FEATURES, "feature 'i' holds float32 values, not int64"),
        (
            records.field(
                1, records.field(1, records.field(1, b"i") + records.field(2, records.field(3, b"\x0a\x01\x80")))
            ),
            FEATURES,
            "damaged feature 'i': a number runs over the end",
        ),
        (packed(b"\x05" + b"\x80" * 10 + b"\x01"), FEATURES, "damaged feature 'i': a number of more than ten bytes"),
        (
            records.field(
                1, records.field(1, records.field(1, b"i") + records.field(2, records.field(2, b"\x0a\x03abc")))
            ),
            {"i": VarLenFeature(tfrecord.float32, 0.0)},
            "floating point numbers of another size",
        ),
    ],
)
def test_damaged_examples_are_refused_by_name(tmp_path, data, features, message):
    """Lengths inside an Example are checked; values must have the declared kind and count."""
    with pytest.raises(BadData, match=message) as caught:
        fetch_one(tmp_path, data, features)
    assert "a.tfrecord at index 0" in str(caught.value)


@pytest.mark.parametrize(
    ("index", "message"),
    [
        ("", "names no records"),
        ("0 21\n21\n", "a.idx:2: expected \"offset length\", got '21'"),
        ("0 -5\n", "is not inside"),
        ("0 21\n1000 16\n", "a.idx:2: a record of 16 bytes at 1000 is not inside"),
        ("0 99999999999999\n", "is not inside"),
        ("x y\n", 'expected "offset length"'),
    ],
)
def test_lying_index_files_are_refused_by_name_and_line(tmp_path, index, message):
    """Every entry must lie inside the file, before anything is allocated."""
    path = write(tmp_path / "a.tfrecord", [b"12345"])
    (tmp_path / "a.idx").write_text(index)
    with pytest.raises(BadData, match=message) as caught:
        TFRecordReader(path=path, index_path=str(tmp_path / "a.idx"), features=FEATURES)
    assert "a.idx" in str(caught.value)


def test_an_index_of_another_file_is_found_when_its_record_is_read(tmp_path):
    """A record at a wrong place or of a wrong length fails its CRC or its length."""
    path = write(tmp_path / "a.tfrecord", [records.example({"i": [1]}), records.example({"i": [2]})])
    whole = os.path.getsize(path)
    for entry, message in [(f"0 {whole}", "its index says"), ("3 20", "CRC of the record's length is wrong")]:
        (tmp_path / "a.idx").write_text(entry + "\n")
        reader = TFRecordReader(path=path, index_path=str(tmp_path / "a.idx"), features=FEATURES)
        with pytest.raises(BadData, match=message):
            reader.fetch(0)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: TFRecordReader(path="a", features={}), TypeError, "'features' must be a dictionary"),
        (lambda: TFRecordReader(path="a", features={"i": int}), TypeError, "feature 'i' must be a tfrecord.Fixed"),
        (lambda: TFRecordReader(path="a", index_path=["b", "c"], features=FEATURES), ValueError, "1 path and 2 index"),
        (lambda: TFRecordReader(path="gone.tfrecord", features=FEATURES), FileNotFoundError, "gone.tfrecord"),
        (lambda: FixedLenFeature([-1], tfrecord.int64, 0), ValueError, "no negative extents"),
        (lambda: FixedLenFeature([], types.UINT8, 0), ValueError, "tfrecord.int64, float32 or string, not types.UINT8"),
        (lambda: VarLenFeature(tfrecord.string, ""), ValueError, "VarLenFeature of strings"),
        (lambda: VarLenFeature([0], tfrecord.int64, 0), ValueError, "positive extents only"),
        (lambda: VarLenFeature(tfrecord.int64), TypeError, "VarLenFeature takes"),
    ],
)
def test_wrong_arguments_say_what_is_wanted(make, error, message):
    """Features and paths are checked when they are given."""
    with pytest.raises(error, match=message):
        make()


@pytest.mark.parametrize(("number", "dtype"), [(2, np.float32), (3, np.int64)])
def test_a_list_without_numbers_has_its_type(tmp_path, number, dtype):
    """An empty FloatList is floats, an empty Int64List integers."""
    entry = records.field(1, b"n") + records.field(2, records.field(number, b""))
    kind = {2: tfrecord.float32, 3: tfrecord.int64}[number]
    (found,) = fetch_one(tmp_path, records.field(1, records.field(1, entry)), {"n": VarLenFeature(kind, 0)})
    assert (found.dtype, found.shape) == (dtype, (0,))
