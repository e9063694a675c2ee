"""Lists, manifests, indexes and archives that were made to stop a job: refused soon, with the file and the line."""

import io
import json
import os
import sys
import tarfile

import numpy as np
import pytest
from readers import records

from pipeflow import fn, pipeline_def, tfrecord
from pipeflow.errors import BadData
from pipeflow.operators.readers.file import FileReader
from pipeflow.operators.readers.nemo_asr import NemoAsrReader
from pipeflow.operators.readers.numpy import NumpyReader
from pipeflow.operators.readers.tfrecord import TFRecordReader
from pipeflow.operators.readers.tfrecord import write_index as write_record_index
from pipeflow.operators.readers.webdataset import WebdatasetReader, write_index

FEATURES = {"x": tfrecord.VarLenFeature(tfrecord.int64, 0)}


def notes(error):
    return "\n".join([str(error), *getattr(error, "__notes__", [])])


# ----------------------------------------------------------------------------------------------------
# Files that are none


def readers_of(path, tmp_path):
    """Every reader that opens `path`, for its data or for its list."""
    tar = records.write_tar(tmp_path / "good.tar", [("1.jpg", b"1")])
    record = tmp_path / "good.tfrecord"
    record.write_bytes(records.record(records.example({"x": [1]})))
    return {
        "files": lambda: FileReader(files=[path]).fetch(0),
        "file_list": lambda: FileReader(file_list=path),
        "npy": lambda: NumpyReader(files=[path]).fetch(0),
        "npy file_list": lambda: NumpyReader(file_list=path),
        "manifest": lambda: NemoAsrReader(manifest_filepaths=[path]),
        "tar": lambda: WebdatasetReader(paths=path, ext="jpg"),
        "tar index": lambda: WebdatasetReader(paths=tar, index_paths=path, ext="jpg"),
        "tfrecord": lambda: TFRecordReader(path=path, features=FEATURES),
        "tfrecord index": lambda: TFRecordReader(path=str(record), index_path=path, features=FEATURES),
        "io.file.read": lambda: fn.io.file.read(np.frombuffer(os.fsencode(path), np.uint8)),
    }


@pytest.mark.parametrize("kind", ["pipe", "device", "folder"])
def test_only_regular_files_are_opened(tmp_path, kind):
    """A pipe nobody writes to would block for ever and /dev/zero never end, as data, list, manifest or index."""
    path = {"pipe": str(tmp_path / "odd"), "device": "/dev/zero", "folder": str(tmp_path / "folder")}[kind]
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        os.mkdir(path)
    for make in readers_of(path, tmp_path).values():
        with pytest.raises(BadData, match=f"{path} is not a regular file"):
            make()


def test_a_recording_of_a_manifest_that_is_a_pipe_names_both(tmp_path):
    """The recording is refused, and the message says which line of which manifest lists it."""
    os.mkfifo(tmp_path / "sound.wav")
    (tmp_path / "train.json").write_text('\n{"audio_filepath": "sound.wav"}\n')
    with pytest.raises(BadData, match=r"sound\.wav is not a regular file") as caught:
        NemoAsrReader(manifest_filepaths=[str(tmp_path / "train.json")]).fetch(0)
    assert f"listed in {tmp_path / 'train.json'}:2" in notes(caught.value)


# ----------------------------------------------------------------------------------------------------
# Lists


@pytest.mark.parametrize("label", ["2147483648", "-2147483649", "9" * 5000, str(10**30)])
def test_labels_beyond_int32_name_the_file_and_line(tmp_path, label):
    """Whatever the number of digits."""
    path = tmp_path / "list.txt"
    path.write_text(f"a.jpg 1\nb.jpg {label}\n")
    with pytest.raises(
        BadData, match=r"list\.txt:2: labels are int32, from -2147483648 to 2147483647, got .* for 'b\.jpg'"
    ):
        FileReader(file_list=str(path))


def test_a_tab_before_the_label_is_a_blank(tmp_path):
    """And a path may have blanks in it. The mark that Windows puts before UTF-8 is no part of a name."""
    path = tmp_path / "list.txt"
    path.write_text("\ufeffa.jpg\t1\n b c.jpg \t 2 \r\nd\te.jpg 3\n")
    reader = FileReader(file_list=str(path))
    assert [os.path.basename(reader.source_info(index)) for index in range(3)] == ["a.jpg", "b c.jpg", "d\te.jpg"]


@pytest.mark.parametrize("line", ["b.jpg 1_0", "b.jpg ٣", "b.jpg 1.0", "b.jpg", "1", "b.jpg 0x10", "b.jpg inf"])
def test_labels_are_digits(tmp_path, line):
    """Nothing that Python alone takes for a number."""
    path = tmp_path / "list.txt"
    path.write_text(f"a.jpg 1\n{line}\n", encoding="utf-8")
    with pytest.raises(BadData, match=r"list\.txt:2: expected a path and an integer label, got "):
        FileReader(file_list=str(path))


@pytest.mark.parametrize(
    ("labels", "error", "message"),
    [
        ([1, 2**31], ValueError, "labels are int32, from -2147483648 to 2147483647, got 2147483648 at place 1"),
        ([1, 1.5], TypeError, "labels are whole numbers, got 1.0 at place 0"),
        (["1", "2"], TypeError, "labels are whole numbers, got '1' at place 0"),
    ],
)
def test_labels_of_the_call_are_checked_too(labels, error, message):
    """They are int32, and not rounded silently."""
    with pytest.raises(error, match=message):
        FileReader(files=["a", "b"], labels=labels)


@pytest.mark.parametrize("make", [FileReader, NumpyReader])
def test_what_is_wrong_with_a_listed_file_names_the_line_of_the_list(tmp_path, make):
    """A missing file is a FileNotFoundError of its own name, with the list and the line beside it."""
    path = tmp_path / "list.txt"
    path.write_text("\n\ngone.npy 1\n" if make is FileReader else "\n\ngone.npy\n")
    with pytest.raises(FileNotFoundError, match=r"gone\.npy") as caught:
        make(file_list=str(path)).fetch(0)
    assert f"listed in {path}:3" in notes(caught.value)


def test_a_zero_in_a_list_is_no_text(tmp_path):
    """Python's own error would name neither file nor line."""
    for name, make in (("a", FileReader), ("b", NumpyReader)):
        (tmp_path / name).write_bytes(b"a.npy 1\nb\0.npy 2\n")
        with pytest.raises(BadData, match=f"{name}:2: a line of text has no zero in it"):
            make(file_list=str(tmp_path / name))


def test_the_line_of_a_list_is_told_in_a_pipeline(tmp_path):
    """The note comes through the pipeline."""
    (tmp_path / "list.txt").write_text("gone.jpg 1\n")

    @pipeline_def(batch_size=1, num_threads=1, device_id=None)
    def define():
        return fn.readers.file(file_list=str(tmp_path / "list.txt"))[0]

    with pytest.raises(FileNotFoundError) as caught:
        define().run()
    assert f"listed in {tmp_path / 'list.txt'}:1" in notes(caught.value)


# ----------------------------------------------------------------------------------------------------
# Manifests


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ('{"audio_filepath": "a", "duration": NaN}', "duration must be a number of seconds, got nan"),
        ('{"audio_filepath": "a", "offset": Infinity}', "offset must be a number of seconds, got inf"),
        (
            '{"audio_filepath": "a", "offset": 1' + "0" * 400 + "}",
            "offset must be a number of seconds, got a number of",
        ),
        ('{"audio_filepath": "a", "offset": 1' + "0" * 5000 + "}", "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        ('{"audio_filepath": "\\ud800"}', "audio_filepath is not text"),
        ('{"audio_filepath": "a", "text": "\\ud800"}', "text is not text"),
        ('{"audio_filepath": "a\\u0000b"}', "audio_filepath has a zero in it"),
    ],
)
def test_what_json_allows_and_a_manifest_does_not(tmp_path, entry, message):
    """Numbers without end, nests without end, halves of characters: refused with manifest and line."""
    path = tmp_path / "train.json"
    path.write_text(f'{{"audio_filepath": "a"}}\n{entry}\n')
    with pytest.raises(BadData, match=rf"train\.json, line 2:? .*{message}"):
        NemoAsrReader(manifest_filepaths=[str(path)])


def test_an_offset_beyond_all_samples_is_an_error_of_its_line(tmp_path):
    """However large the finite number."""
    sound = np.zeros(100, "<i2").tobytes()
    head = (
        b"RIFF"
        + (36 + len(sound)).to_bytes(4, "little")
        + b"WAVEfmt \x10\0\0\0\1\0\1\0\x40\x1f\0\0\x80\x3e\0\0\2\0\x10\0"
    )
    (tmp_path / "a.wav").write_bytes(head + b"data" + len(sound).to_bytes(4, "little") + sound)
    path = tmp_path / "train.json"
    path.write_text(json.dumps({"audio_filepath": "a.wav", "offset": 1e308}) + "\n")
    with pytest.raises(IndexError, match=r"a\.wav is shorter than the offset 1e\+308 s of its entry") as caught:
        NemoAsrReader(manifest_filepaths=[str(path)]).fetch(0)
    assert f"listed in {path}:1" in notes(caught.value)


# ----------------------------------------------------------------------------------------------------
# Archives and indexes


def tar_with_pax(path, text):
    """An archive whose first file has these bytes as its extended header."""
    header, data = tarfile.TarInfo("././@PaxHeader"), io.BytesIO(text)
    header.type, header.size = tarfile.XHDTYPE, len(text)
    file = tarfile.TarInfo("1.jpg")
    file.size = 3
    with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as tar:
        tar.addfile(header, data)
        tar.addfile(file, io.BytesIO(b"abc"))
    return str(path)


def steps_of(function):
    """How many lines of Python a call runs through."""
    count = 0

    def trace(frame, event, argument):
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        function()
    except BadData:
        pass
    finally:
        sys.settrace(before)
    return count


def record_of(key, value):
    body = b" " + key + b"=" + value + b"\n"
    length = len(body) + 1
    while len(str(length)) + len(body) != length:
        length += 1
    return str(length).encode() + body


def test_extended_headers_are_read_in_one_pass(tmp_path):
    """Twice the records are twice the steps; ten thousand records in one header are the end."""

    def steps(count):
        text = b"".join(record_of(b"comment", b"x" * 60) for _ in range(count)) + record_of(b"path", b"2.jpg")
        path = tar_with_pax(tmp_path / f"{count}.tar", text)
        return steps_of(lambda: WebdatasetReader(paths=path, ext="jpg"))

    one, two, four = steps(1000), steps(2000), steps(4000)
    assert four - two == 2 * (two - one)
    text = b"".join(record_of(b"a", b"") for _ in range(150_000))
    path = tar_with_pax(tmp_path / "many.tar", text)
    with pytest.raises(BadData, match="an extended tar header of more than 10000 records at 512"):
        WebdatasetReader(paths=path, ext="jpg")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (record_of(b"GNU.sparse.major", b"1") + record_of(b"GNU.sparse.name", b"1.jpg"), "is a sparse file"),
        (record_of(b"size", b"-3"), "a size of b'-3'"),
        (record_of(b"size", b"1_0"), "a size of b'1_0'"),
        (record_of(b"size", b"9" * 30), "a size of b'999"),
        (b"99 path=x\n", "damaged extended tar header at 512"),
        (b"0 path=x\n", "damaged extended tar header at 512"),
        (b"7 =abc\n", "damaged extended tar header at 512"),
        (b"+9 path=x\n", "damaged extended tar header at 512"),
        (b"x" * 600, "damaged extended tar header at 512"),
    ],
)
def test_impossible_extended_headers_are_refused(tmp_path, text, message):
    """Sparse files, whose bytes are not where they seem to be; sizes and lengths that are none."""
    with pytest.raises(BadData, match=message):
        WebdatasetReader(paths=tar_with_pax(tmp_path / "a.tar", text), ext="jpg")


def test_names_in_extended_headers_are_taken(tmp_path):
    """The path of an extended header, with zeros behind the last record."""
    path = tar_with_pax(
        tmp_path / "a.tar", record_of(b"mtime", b"1.5") + record_of(b"path", "ä.png".encode()) + bytes(9)
    )
    reader = WebdatasetReader(paths=path, ext="png")
    assert reader.fetch(0)[0].tobytes() == b"abc"
    assert reader.source_info(0).endswith(":ä.png")


def test_an_index_that_lies_is_named_beside_its_archive(tmp_path):
    """What is wrong is found in the archive, but the index is what to make again."""
    tar = records.write_tar(tmp_path / "a.tar", [("1.jpg", b"1" * 600), ("2.jpg", b"2" * 600)])
    index = tmp_path / "a.idx"
    write_index(tar, str(index))
    good = index.read_text()
    for lie in (good.replace(" 512 600", " 1024 88"), good.replace(" 600 1.jpg", " 500 1.jpg")):
        assert lie != good
        index.write_text(lie)
        with pytest.raises(BadData, match=r"a\.tar") as caught:
            WebdatasetReader(paths=tar, index_paths=str(index), ext="jpg").fetch(0)
        assert f"the place comes from the index {index}" in notes(caught.value)
    for arguments, message in (
        ({"ext": "gif"}, "no samples with the extensions gif in"),
        ({"ext": "jpg", "dtypes": np.int64}, ""),
    ):
        index.write_text(good.replace(" 600 1.jpg", " 599 1.jpg"))
        with pytest.raises(BadData, match=r"a\.idx"):
            WebdatasetReader(paths=tar, index_paths=str(index), missing_component_behavior="skip", **arguments)
        assert message is not None


def test_an_index_of_records_that_lies_is_named_beside_its_file(tmp_path):
    """The same for TFRecord files."""
    path, index = tmp_path / "a.tfrecord", tmp_path / "a.idx"
    path.write_bytes(b"".join(records.record(records.example({"x": [n]})) for n in range(3)))
    write_record_index(str(path), str(index))
    lines = index.read_text().splitlines()
    length = int(lines[0].split()[1])
    for lie in (f"1 {length}", f"0 {length - 1}", f"0 {length + 1}"):
        index.write_text(lie + "\n")
        with pytest.raises(BadData, match=r"a\.tfrecord") as caught:
            TFRecordReader(path=str(path), index_path=str(index), features=FEATURES).fetch(0)
        assert f"the place comes from the index {index}" in notes(caught.value)


@pytest.mark.parametrize("words", ["1_0 40", "٣ 40", "0x1 40", "0 " + "9" * 6000, "0", "0 1 2"])
def test_numbers_of_an_index_are_digits(tmp_path, words):
    """Nothing that Python alone takes for a number, and no digits without end."""
    path, index = tmp_path / "a.tfrecord", tmp_path / "a.idx"
    path.write_bytes(records.record(records.example({"x": [1]})))
    index.write_text(words + "\n", encoding="utf-8")
    with pytest.raises(BadData, match=r'a\.idx:1: expected "offset length", got '):
        TFRecordReader(path=str(path), index_path=str(index), features=FEATURES)


@pytest.mark.parametrize("count", ["9" * 5000, "1_0", "٣", "-1", "01"])
def test_the_number_of_samples_of_an_index_is_digits(tmp_path, count):
    """And the one that belongs to it."""
    tar = records.write_tar(tmp_path / "a.tar", [("1.jpg", b"1")])
    (tmp_path / "a.idx").write_text(f"v1.2 {count}\njpg 512 1 1.jpg\n", encoding="utf-8")
    with pytest.raises(BadData, match=r'a\.idx: expected a first line such as "v1\.2 1"'):
        WebdatasetReader(paths=tar, index_paths=str(tmp_path / "a.idx"), ext="jpg")


# ----------------------------------------------------------------------------------------------------
# Arrays


@pytest.mark.parametrize(
    "shape", ["(0, 4611686018427387904)", "(0, 999999999999999999, 999)", "(3037000500, 3037000500, 0)"]
)
@pytest.mark.parametrize("region", [{}, {"roi_start": [0], "roi_shape": [0]}])
def test_empty_arrays_of_impossible_extents_are_refused(tmp_path, shape, region):
    """No elements, but extents that no array has: an error of the file and not of NumPy."""
    text = f"{{'descr': '<i4', 'fortran_order': False, 'shape': {shape}, }}".encode()
    (tmp_path / "a.npy").write_bytes(b"\x93NUMPY\1\0" + len(text).to_bytes(2, "little") + text)
    with pytest.raises(BadData, match=r"a\.npy: damaged \.npy header: no array has the shape"):
        NumpyReader(files=[str(tmp_path / "a.npy")], **region).fetch(0)
