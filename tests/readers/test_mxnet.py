"""fn.readers.mxnet: RecordIO files, their index and what is wrong with them."""

import struct

import numpy as np
import pytest
from image.oracle import ask, case
from readers.conformance import check_reader

from pipeflow import fn, pipeline_def
from pipeflow.errors import BadData
from pipeflow.operators.readers import mxnet
from pipeflow.operators.readers.mxnet import MXNetReader

MAGIC = struct.pack("<I", 0xCED7230A)


def part(data, kind=0):
    return MAGIC + struct.pack("<I", kind << 29 | len(data)) + data + bytes(-len(data) % 4)


def body(payload, label=0.0, labels=()):
    return struct.pack("<IfQQ", len(labels), label, 7, 0) + struct.pack(f"<{len(labels)}f", *labels) + payload


def write(folder, records):
    """A RecordIO file and its index."""
    offsets = np.cumsum([0] + [len(record) for record in records])
    (folder / "a.rec").write_bytes(b"".join(records))
    (folder / "a.idx").write_text("".join(f"{key}\t{offsets[key]}\n" for key in range(len(records))))
    return {"path": str(folder / "a.rec"), "index_path": str(folder / "a.idx")}


RECORDS = [
    part(body(b"hello", 3.0)),
    part(body(b"abc", 9.0, [1, 2, 3])),
    part(body(b"", -1.5)),
    part(body(b"x" * 9, 5.0, [7])),
]
EXPECTED = [
    (np.frombuffer(text, np.uint8), np.array(labels, np.float32))
    for text, labels in [(b"hello", [3]), (b"abc", [1, 2, 3]), (b"", [-1.5]), (b"x" * 9, [7])]
]


def test_the_promises_of_every_reader(tmp_path):
    """Payloads of any length, the header's label or the ones behind it."""
    arguments = write(tmp_path, RECORDS)
    check_reader(lambda: MXNetReader(**arguments), EXPECTED)


def test_the_order_of_the_index_does_not_matter(tmp_path):
    """Samples come in the order of the file; a record that the index leaves out does not come."""
    arguments = write(tmp_path, RECORDS)
    lines = (tmp_path / "a.idx").read_text().splitlines()
    (tmp_path / "a.idx").write_text("\n".join([lines[3], lines[0], lines[2]]) + "\n")
    samples = MXNetReader(**arguments)
    assert [bytes(samples.fetch(place)[0]) for place in range(len(samples))] == [b"hello", b"", b"x" * 9]


def test_several_files_are_one_stream(tmp_path):
    """Offsets go on from one file to the next."""
    write(tmp_path, RECORDS)
    (tmp_path / "b.rec").write_bytes(RECORDS[0])
    whole = (tmp_path / "a.rec").stat().st_size
    with (tmp_path / "a.idx").open("a") as index:
        index.write(f"4\t{whole}\n")
    samples = MXNetReader(path=[str(tmp_path / "a.rec"), str(tmp_path / "b.rec")], index_path=str(tmp_path / "a.idx"))
    assert bytes(samples.fetch(4)[0]) == b"hello"
    assert samples.source_info(4) == f"{tmp_path / 'b.rec'} at index 0"


def test_records_in_parts_are_joined(tmp_path):
    """The magic number inside of data, which the writer took out, is put back."""
    data = body(b"abcd" + MAGIC + b"efgh" + MAGIC + b"ij", 2.0)
    first, second, third = data.split(MAGIC)
    arguments = write(tmp_path, [part(first, 1) + part(second, 2) + part(third, 3)])
    payload, label = MXNetReader(**arguments).fetch(0)
    assert bytes(payload) == b"abcd" + MAGIC + b"efgh" + MAGIC + b"ij"
    assert label.tolist() == [2.0]


@pytest.mark.parametrize(
    ("record", "message"),
    [
        (b"\1" * 40, "no RecordIO record at 0"),
        (part(b"short"), "does not hold its header of 24"),
        (part(struct.pack("<IfQQ", 1000, 0, 0, 0)), "1000 labels do not fit into a record of 24 bytes"),
        (part(body(b"abc"))[:-20], "are needed, but the file has"),
        (
            MAGIC + struct.pack("<I", (1 << 29) - 1) + body(b"abc"),
            "bytes 8 to 536870919 are needed, but the file has 35",
        ),
        (part(body(b"abc"), 7), "part 7 of a record at 0 is out of order"),
        (part(body(b"abc"), 1) + part(b"x" * 20, 2) * 300, "are needed, but the file has"),
        (part(body(b"abc"), 2), "part 2 of a record at 0 is out of order"),
        (part(body(b"abc"), 1) + part(body(b"abc")), "part 0 of a record at 36 is out of order"),
    ],
)
def test_damaged_records_name_their_place(tmp_path, record, message):
    """Lengths are checked against the file before anything is allocated."""
    with pytest.raises(BadData, match=message):
        MXNetReader(**write(tmp_path, [record])).fetch(0)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0\t1_0\n", 'a.idx:1: expected "key offset", got '),
        ("0\t0\n1\t-4\n", 'a.idx:2: expected "key offset", got '),
        ("0\t100000\n", "a.idx:1: a record at 100000 is not inside "),
        ("0\t99999999999999999999999\n", 'a.idx:1: expected "key offset", got '),
        ("0\t1.5\n", 'a.idx:1: expected "key offset", got '),
        ("0\t0\t1\n", 'a.idx:1: expected "key offset", got '),
        ("0\t0\0\n", "a.idx:1: a line of text has no zero in it"),
        ("", "names no records"),
    ],
)
def test_damaged_indexes_name_their_line(tmp_path, text, message):
    """Offsets are digits inside of the files."""
    arguments = write(tmp_path, RECORDS)
    (tmp_path / "a.idx").write_text(text)
    with pytest.raises(BadData, match=message):
        MXNetReader(**arguments)


def test_any_damage_is_an_error_of_the_data_or_data(tmp_path):
    """Bytes changed at random give arrays or BadData, nothing else."""
    arguments = write(tmp_path, RECORDS)
    good, rng = (tmp_path / "a.rec").read_bytes(), np.random.default_rng(17)
    refused = 0
    for _ in range(300):
        bad = np.frombuffer(good, np.uint8).copy()
        bad[rng.integers(0, len(bad), 3)] = rng.integers(0, 256, 3)
        (tmp_path / "a.rec").write_bytes(bad[: rng.integers(len(bad) // 2, len(bad) + 1)].tobytes())
        for place in range(4):
            try:
                payload, labels = MXNetReader(**arguments).fetch(place)
                assert payload.dtype == np.uint8
                assert labels.dtype == np.float32
            except BadData:
                refused += 1
    assert 0 < refused < 1200


def test_in_a_pipeline_by_its_former_name_too(tmp_path):
    """The outputs of a batch."""
    arguments = write(tmp_path, RECORDS)

    @pipeline_def(batch_size=2, num_threads=1, device_id=None)
    def define(read):
        return tuple(read(**arguments))

    pipe = define(fn.readers.mxnet)
    with pytest.warns(DeprecationWarning, match="readers.mxnet"):
        former = define(fn.mxnet_reader)
    for payload, labels in (pipe.run(), former.run()):
        assert [np.asarray(sample).tobytes() for sample in payload.samples()] == [b"hello", b"abc"]
        assert [np.asarray(sample).tolist() for sample in labels.samples()] == [[3], [1, 2, 3]]


@pytest.mark.oracle
def test_dali_reads_the_same(tmp_path):
    """Each record by an index of its own, payload and labels."""
    arguments = write(tmp_path, RECORDS)
    cases = []
    for number, line in enumerate((tmp_path / "a.idx").read_text().splitlines()):
        (tmp_path / f"{number}.idx").write_text(line + "\n")
        index = [str(tmp_path / f"{number}.idx")]
        cases.append(case("readers.mxnet", path=[arguments["path"]], index_path=index))
    samples = MXNetReader(**arguments)
    for number, (outputs, _) in enumerate(ask(cases)):
        for ours, theirs in zip(samples.fetch(number), outputs, strict=True):
            assert ours.dtype == theirs.dtype
            np.testing.assert_array_equal(ours, theirs)


def test_the_longest_part_of_a_record(monkeypatch):
    """29 bits are its length: a part may have that many bytes, and not one more."""
    monkeypatch.setattr(mxnet, "_LONGEST", 27)
    whole = mxnet.frames(b"abc", 7.0, 1)  # 24 bytes are the header
    assert struct.unpack("<I", whole[4:8])[0] == 27
    with pytest.raises(ValueError, match="a RecordIO record holds at most 27 bytes, got 28"):
        mxnet.frames(b"abcd", 7.0, 1)
