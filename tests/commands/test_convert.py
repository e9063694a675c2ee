"""`pipeflow convert`: every pair of formats, continued after a stop, checked, and safe with data of others."""

import json
import subprocess

import numpy as np
import pytest

from pipeflow.commands import main
from pipeflow.commands.converting import conversion, sources
from pipeflow.commands.converting.sample import LABEL, Sample, as_file, from_file, number
from pipeflow.commands.converting.targets import Shard, ToLMDB, ToTars, safe
from pipeflow.commands.verbs.convert import READ_BY, next_call
from pipeflow.operators.readers import lmdb, mxnet
from tests.readers.records import example, record, write_tar

FORMATS = ["folder", "webdataset", "tfrecord", "recordio", "lmdb", "parquet"]
SHARDS = 3


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Eleven small files in two folders; one of them has RecordIO's magic number in it."""
    root = tmp_path_factory.mktemp("convert") / "data"
    rng = np.random.default_rng(4)
    for index in range(11):
        inside = root / ("cats" if index % 3 else "a dog")
        inside.mkdir(parents=True, exist_ok=True)
        magic = b"\x0a\x23\xd7\xce" * 2 if index == 5 else b""
        (inside / f"{index:03d}.jpg").write_bytes(b"\xff\xd8\xff\0" + magic + rng.bytes(40 + 700 * index))
    return root


@pytest.fixture(scope="module")
def every_format(folder):
    """The folder in each format."""
    for kind in FORMATS:
        assert main(["convert", str(folder), str(folder.parent / kind), "--to", kind, "--shards", str(SHARDS)]) == 0
    return folder.parent


def contents(place, kind):
    """(bytes of the file, class) of every sample, in order."""
    source = sources.SOURCES[kind]([str(place)])
    samples = [source.sample(index) for index in range(len(source))]
    return [(sample.parts["jpg"], int(sample.parts[LABEL][0])) for sample in samples]


@pytest.mark.parametrize("there", FORMATS)
@pytest.mark.parametrize("here", FORMATS)
def test_every_format_becomes_every_other(every_format, tmp_path, here, there):
    """All bytes and classes are kept, in the same order, with checksums that `sha256sum` agrees with."""
    out = tmp_path / "out"
    assert main(["convert", str(every_format / here), str(out), "--to", there, "--shards", "2"]) == 0
    assert contents(out, there) == contents(every_format / "data", "folder")
    checked = subprocess.run(["sha256sum", "-c", "--quiet", "SHA256SUMS"], cwd=out, capture_output=True, check=False)
    assert checked.returncode == 0, checked.stdout


@pytest.mark.parametrize("kind", ["folder", "webdataset", "tfrecord", "recordio", "lmdb", "parquet"])
def test_names_are_kept(every_format, kind):
    """Of every format that has room for them; a dot would begin the ending."""
    source = sources.SOURCES[kind]([str(every_format / kind)])
    names = {source.sample(index).name for index in range(len(source))}
    assert "a dog/000" in names
    assert "cats/010" in names


def test_the_readers_read_what_was_written(every_format):
    """Each reader of the library returns the files and classes of its format."""
    from pipeflow import fn, pipeline_def, tfrecord

    def calls(root):
        features = {
            "jpg": tfrecord.FixedLenFeature([], tfrecord.string, ""),
            "cls": tfrecord.FixedLenFeature([], tfrecord.int64, 0),
        }
        yield fn.readers.file(file_list=f"{root}/folder/file_list.txt")
        yield fn.readers.webdataset(paths=f"{root}/webdataset/*.tar", ext=["jpg", "cls"])
        found = fn.readers.tfrecord(path=f"{root}/tfrecord/*.tfrecord", features=features)
        yield found["jpg"], found["cls"]
        yield fn.readers.mxnet(path=f"{root}/recordio/00000.rec", index_path=f"{root}/recordio/00000.idx")
        yield fn.readers.caffe(path=[f"{root}/lmdb/{shard:05d}" for shard in range(SHARDS)])
        yield fn.readers.parquet(paths=f"{root}/parquet", columns=["jpg", "cls"])

    @pipeline_def(batch_size=3, num_threads=1, device_id=None)
    def pipe():
        return tuple(output for pair in calls(every_format) for output in pair)

    expected = contents(every_format / "data", "folder")[:3]
    outputs = pipe().run()
    for data, labels in zip(outputs[::2], outputs[1::2]):
        for index, (file, label) in enumerate(expected):
            assert bytes(data.at(index)) == file
            value = labels.at(index)
            assert (int(bytes(value)) if value.dtype == np.uint8 else int(value.ravel()[0])) == label


@pytest.mark.parametrize(("choices", "names"), [([], ["jpg", "cls"]), (["--parts", "cls"], ["cls"])])
@pytest.mark.parametrize(("kind", "name"), [("webdataset", "ext"), ("parquet", "columns")])
def test_the_next_call_names_the_parts_that_were_written(folder, tmp_path, kind, name, choices, names, capsys):
    """The reader in the last line reads the parts that the output has."""
    assert main(["convert", str(folder), str(tmp_path / "out"), "--to", kind, *choices]) == 0
    assert f"{name}={json.dumps(names)})" in " ".join(capsys.readouterr().out.split())


def test_several_files_and_numbers_stay_together(tmp_path, capsys):
    """A picture, a text, a class and two arrays: through tar files and tables, and back to the same records."""
    features = {
        "image/encoded": [b"\x89PNG 1"],
        "label": [7],
        "text": [b"two words"],
        "box": [0.5, 2.0],
        "ids": [3, -9],
    }
    (tmp_path / "a.tfrecord").write_bytes(record(example(features)) + record(example({**features, "label": [8]})))
    steps = [("a.tfrecord", "webdataset"), ("webdataset", "folder"), ("folder", "parquet"), ("parquet", "tfrecord")]
    for here, there in steps:
        assert main(["convert", str(tmp_path / here), str(tmp_path / there), "--to", there]) == 0
        if there == "webdataset":
            assert '["png", "cls", "text", "box.npy", "ids.npy"]' in capsys.readouterr().out
    sample = sources.TFRecords([str(tmp_path / "tfrecord")]).sample(1)
    assert sample.parts.keys() == {"png", "cls", "text", "box", "ids"}
    assert (sample.parts["png"], sample.parts["text"], sample.parts["cls"].tolist()) == (
        b"\x89PNG 1",
        b"two words",
        [8],
    )
    assert sample.parts["box"].dtype == np.float32
    assert (sample.parts["box"].tolist(), sample.parts["ids"].tolist()) == ([0.5, 2.0], [3, -9])


def test_a_stopped_conversion_continues(folder, tmp_path, monkeypatch, capsys):
    """After an interrupt in the second of three shards, only the shards that are missing are written."""
    out = tmp_path / "out"
    words = ["convert", str(folder), str(out), "--to", "webdataset", "--shards", "3", "--threads", "1"]
    read, count = sources.Files.sample, []

    def interrupted(self, index):
        count.append(index)
        if index == 5:
            raise KeyboardInterrupt
        return read(self, index)

    monkeypatch.setattr(sources.Files, "sample", interrupted)
    assert main(words) == 130
    assert sorted(path.name for path in out.iterdir()) == ["00000.idx", "00000.tar", "convert.json"]
    assert main(words) == 2
    assert "--resume continues it" in capsys.readouterr().err
    monkeypatch.setattr(sources.Files, "sample", lambda self, index: count.append(index) or read(self, index))
    count.clear()
    assert main([*words, "--resume"]) == 0
    assert [index for index in count if index < 3] == [0]  # for the names of its parts in the last line
    assert contents(out, "webdataset") == contents(folder, "folder")
    count.clear()
    assert main([*words, "--resume"]) == 0
    assert count == [0]


@pytest.mark.parametrize("kind", ["folder", "webdataset"])
def test_a_damaged_shard_is_written_again(folder, tmp_path, kind):
    """--resume compares the checksums of everything that is there, and repairs it."""
    out = tmp_path / "out"
    words = ["convert", str(folder), str(out), "--to", kind, "--shards", "3"]
    assert main(words) == 0
    damaged = out / {"folder": "cats/005.jpg", "webdataset": "00001.tar"}[kind]
    damaged.write_bytes(b"\xff\xd8\xff" + damaged.read_bytes()[3:-1] + b"!")
    assert main([*words, "--resume"]) == 0
    assert contents(out, kind) == contents(folder, "folder")


def test_what_is_written_is_read_again(folder, tmp_path, monkeypatch, capsys):
    """A byte that changes between writing and reading is an error, and the shard is not in the journal."""
    monkeypatch.setattr(
        "pipeflow.commands.converting.targets.as_file", lambda name, value: (as_file(name, value)[0], b"x")
    )
    assert main(["convert", str(folder), str(tmp_path / "out"), "--to", "webdataset"]) == 2
    assert "sample 0 is not the same after it was written and read again" in capsys.readouterr().err
    assert json.loads((tmp_path / "out" / "convert.json").read_text())["done"] == {}


def test_another_source_or_other_options_are_not_mixed(folder, tmp_path, capsys):
    """--resume with other options, or an output that has other files, is refused."""
    out = tmp_path / "out"
    assert main(["convert", str(folder), str(out), "--to", "lmdb"]) == 0
    assert main(["convert", str(folder), str(out), "--to", "tfrecord", "--resume"]) == 2
    assert "another format" in capsys.readouterr().err
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").write_text("mine")
    assert main(["convert", str(folder), str(tmp_path / "full"), "--to", "lmdb"]) == 2
    assert "is not empty" in capsys.readouterr().err
    assert main(["convert", str(folder), str(folder), "--to", "lmdb"]) == 2
    assert main(["convert", str(folder), str(tmp_path / "x"), "--shards", "2"]) == 2
    assert "add --to" in capsys.readouterr().err


@pytest.mark.parametrize("journal", ["{", "[]", '{"done": 3}', "null"])
def test_a_damaged_journal_is_one_sentence(folder, tmp_path, journal, capsys):
    """It does not end the command with an error of Python's."""
    (tmp_path / "convert.json").write_text(journal)
    assert main(["convert", str(folder), str(tmp_path), "--to", "lmdb", "--resume"]) == 2
    assert "is damaged" in capsys.readouterr().err


def test_a_journal_names_no_files_outside(folder, tmp_path, capsys):
    """The files of a shard are inside the output: others are neither compared nor removed."""
    out = tmp_path / "out"
    words = ["convert", str(folder), str(out), "--to", "webdataset"]
    assert main(words) == 0
    (tmp_path / "mine.txt").write_text("mine")
    path = out / "convert.json"
    text = json.loads(path.read_text())
    text["done"]["0"]["files"].append(["0" * 64, "../mine.txt"])
    path.write_text(json.dumps(text))
    assert main([*words, "--resume"]) == 2
    assert (tmp_path / "mine.txt").read_text() == "mine"


def test_samples_that_cannot_be_read(tmp_path, capsys):
    """One ends the conversion, which says how to go on; --skip-bad leaves them out and the status is 1."""
    damaged = bytearray(record(example({"jpg": [b"\xff\xd8\xff1"]})))
    damaged[-6] ^= 1
    good = record(example({"jpg": [b"\xff\xd8\xff2"]}))
    (tmp_path / "a.tfrecord").write_bytes(good + bytes(damaged) + good)
    words = ["convert", str(tmp_path / "a.tfrecord"), str(tmp_path / "out"), "--to", "webdataset"]
    assert main(words) == 2
    assert "CRC of the record's data is wrong" in capsys.readouterr().err
    assert main(["convert", str(tmp_path / "a.tfrecord"), str(tmp_path / "two"), "--to", "parquet", "--skip-bad"]) == 1
    assert "sample 1:" in capsys.readouterr().out
    assert len(sources.Tables([str(tmp_path / "two")])) == 2


@pytest.mark.parametrize("name", ["../up", "/etc/passwd", "a/../../b", "a//b", ".", "a\\..\\b", "x\0y", ""])
def test_names_that_lead_out_are_refused(tmp_path, name):
    """A record can have any name; no file is written outside of the output."""
    with pytest.raises(ValueError, match="leads out of the output"):
        safe(name)
    text = example({"__key__": [name.encode()], "jpg": [b"\xff\xd8\xff"]})
    (tmp_path / "a.tfrecord").write_bytes(record(text))
    for kind in ("folder", "webdataset"):
        out = tmp_path / "in" / kind
        assert main(["convert", str(tmp_path / "a.tfrecord"), str(out), "--to", kind]) == 2
        assert main(["convert", str(tmp_path / "a.tfrecord"), f"{out}2", "--to", kind, "--names", "number"]) == 0
    assert {path.name for path in tmp_path.iterdir()} == {"a.tfrecord", "in"}


def test_nothing_is_unpickled(tmp_path):
    """An array of objects stays a file of bytes."""
    path = tmp_path / "x.npy"
    np.save(path, np.array([print], object), allow_pickle=True)
    data = path.read_bytes()
    assert from_file("x.npy", data) == ("x.npy", data)
    assert as_file("a/b c", data) == ("a_b_c", data)


def test_two_samples_of_one_name(tmp_path, capsys):
    """They would be one sample of a tar file, and one file of a folder: --names number."""
    one = record(example({"__key__": [b"a"], "jpg": [b"\xff\xd8\xff1"]}))
    (tmp_path / "a.tfrecord").write_bytes(one + record(example({"__key__": [b"a"], "jpg": [b"\xff\xd8\xff2"]})))
    for kind in ("folder", "webdataset"):
        assert main(["convert", str(tmp_path / "a.tfrecord"), str(tmp_path / kind), "--to", kind]) == 2
        assert "--names number" in capsys.readouterr().err


def test_a_record_with_room_for_one_file(tmp_path, capsys):
    """RecordIO and LMDB refuse samples of several files, and --parts chooses among them."""
    tar = write_tar(tmp_path / "a.tar", [("a.jpg", b"\xff\xd8\xff"), ("a.json", b"{}"), ("a.cls", b"3")])
    for kind in ("recordio", "lmdb"):
        assert main(["convert", tar, str(tmp_path / kind), "--to", kind]) == 2
        assert "--parts jpg,cls" in capsys.readouterr().err
        assert main(["convert", tar, str(tmp_path / f"{kind}2"), "--to", kind, "--parts", "jpg,cls"]) == 0
    assert main(["convert", tar, str(tmp_path / "p"), "--to", "parquet", "--parts", "jpg,mask"]) == 2
    assert "has no mask; it has jpg, json, cls" in capsys.readouterr().err
    assert main(["convert", tar, str(tmp_path / "q"), "--to", "parquet", "--rename", "jpg=image"]) == 0


@pytest.mark.parametrize("words", [b"\x0a\x23\xd7\xce" * 3, b"ab\x0a\x23\xd7\xce", b"", b"\x0a\x23\xd7\xce1"])
def test_the_magic_number_inside_a_record(tmp_path, words):
    """A record with RecordIO's magic number in it is written in parts, and read as one."""
    path = tmp_path / "a.rec"
    path.write_bytes(mxnet.frames(words, 3.0, 1) + mxnet.frames(words, np.array([1, 2], np.float32), 2))
    first, second = mxnet.scan(str(path))
    assert mxnet.read_at(str(path), first)[0].tobytes() == words
    payload, labels = mxnet.read_at(str(path), second)
    assert (payload.tobytes(), labels.tolist()) == (words, [1.0, 2.0])


def test_databases_of_many_pages(tmp_path):
    """Keys and values of every size around that of a page; branches have at least two children."""
    rng = np.random.default_rng(0)
    sizes = rng.choice([0, 5, 1500, 2029, 2030, 2031, 4080, 4081, 9000], 700)
    pairs = [(b"%06d" % n + b"k" * int(rng.integers(0, 505)), rng.bytes(int(size))) for n, size in enumerate(sizes)]
    path = tmp_path / "data.mdb"
    with open(path, "wb") as file:
        writer = lmdb.DatabaseWriter(file)
        for key, value in pairs:
            writer.add(key, value)
        with pytest.raises(ValueError, match="in rising order"):
            writer.add(b"0", b"")
        writer.close()
    data = path.read_bytes()
    found = lmdb.entries(str(path)).tolist()
    assert [(data[a : a + b], data[c : c + d]) for c, d, a, b in found] == pairs
    assert len(data) % 4096 == 0


def test_a_file_that_is_not_complete_has_no_name(tmp_path):
    """A target that fails leaves neither a shard nor a part of one."""

    def samples():
        yield Sample("a", {"jpg": b"1"})
        raise OSError("no more")

    for target in (ToTars(), ToLMDB()):
        with pytest.raises(OSError, match="no more"):
            list(target.write(Shard(0, 0, tmp_path), samples()))
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_samples_are_compared_by_their_values():
    """Neither names nor order count, but types, lengths and how often a value is there."""
    plain = Sample("a", {"x": b"1", "y": number(2)})
    assert plain.digest() == Sample("b", {"cls": number(2), "z": b"1"}).digest()
    assert plain.digest() != Sample("a", {"x": b"1", "y": number(2).astype(np.float32)}).digest()
    assert Sample("a", {"x": b"1", "y": b"1"}).digest() != Sample("a", {}).digest()
    assert conversion.VERSION == 1


def test_the_reader_of_what_was_written(tmp_path):
    """A list of files is read where the files are a folder; any other kind is read by its own reader."""
    sample = Sample("0", {"png": b"", "box": np.zeros(4)})
    (tmp_path / "file_list.txt").write_text("a.jpg 0")
    assert next_call("folder", tmp_path, 1, sample) == f'fn.readers.file(file_list="{tmp_path}/file_list.txt")'
    assert next_call("webdataset", tmp_path, 1, sample).endswith('ext=["png", "box.npy"])')
    (tmp_path / "file_list.txt").unlink()
    assert next_call("folder", tmp_path, 1, sample) == READ_BY["folder"].format(tmp_path)
