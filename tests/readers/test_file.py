"""fn.readers.file: which files it finds, which labels they get, and what it says of wrong arguments."""

import os

import numpy as np
import pytest
from readers.conformance import check_reader

from pipeflow import fn, pipeline_def
from pipeflow.errors import BadData
from pipeflow.operators.readers.file import FileReader
from pipeflow.operators.readers.files import read_into


def write(root, names):
    """Writes files whose content is their own name."""
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(os.path.basename(name).encode())


def contents(reader):
    return [(reader.fetch(index)[0].tobytes().decode(), int(reader.fetch(index)[1][0])) for index in range(len(reader))]


@pytest.fixture
def root(tmp_path):
    write(tmp_path, ["b/x1.jpg", "b/x0.jpg", "a/y1.JPG", "a/y0.png", "a/deep/z.jpg", "top.jpg", "a/notes.txt"])
    write(tmp_path, ["c/n.txt"])
    (tmp_path / "ab").mkdir()
    return tmp_path


def test_folders_are_labels_in_alphabetical_order(root):
    """Sub-folders get labels by name, empty ones included; files deeper down, outside and of other types are left."""
    assert contents(FileReader(file_root=str(root))) == [("y0.png", 0), ("y1.JPG", 0), ("x0.jpg", 2), ("x1.jpg", 2)]


def test_filters_choose_files_and_folders(root):
    """Glob patterns choose; folders that are filtered out get no label; case matters only if asked for."""
    assert contents(FileReader(file_root=str(root), file_filters="*.txt")) == [("notes.txt", 0), ("n.txt", 3)]
    assert contents(FileReader(file_root=str(root), dir_filters="b*")) == [("x0.jpg", 0), ("x1.jpg", 0)]
    assert contents(FileReader(file_root=str(root), dir_filters=["A", "b"])) == [
        ("y0.png", 0),
        ("y1.JPG", 0),
        ("x0.jpg", 1),
        ("x1.jpg", 1),
    ]
    assert contents(FileReader(file_root=str(root), file_filters="*.jpg", case_sensitive_filter=True)) == [
        ("x0.jpg", 2),
        ("x1.jpg", 2),
    ]


def test_files_are_numbered_or_labelled(root):
    """`files` keep their order; their labels are 0, 1, 2 ... or those given; relative ones start at file_root."""
    assert contents(FileReader(file_root=str(root), files=["b/x0.jpg", "a/y0.png"])) == [("x0.jpg", 0), ("y0.png", 1)]
    absolute = [str(root / "b/x1.jpg"), root / "b/x0.jpg"]
    assert contents(FileReader(files=absolute, labels=[7, -2])) == [("x1.jpg", 7), ("x0.jpg", -2)]


def test_file_list_holds_paths_and_labels(root, tmp_path):
    """Lines are "path label", paths may hold spaces and start at file_root or else at the list's own folder."""
    write(root, ["b/with space.jpg"])
    listing = root / "list.txt"
    listing.write_text("b/x0.jpg 3\n\nb/with space.jpg 4\n")
    expected = [("x0.jpg", 3), ("with space.jpg", 4)]
    assert contents(FileReader(file_list=str(listing))) == expected
    other = tmp_path / "elsewhere.txt"
    other.write_text(listing.read_text())
    assert contents(FileReader(file_list=str(other), file_root=str(root))) == expected


def test_conformance(root):
    """The reader keeps every promise of readers, and its source_info is the path."""
    names = ["b/x0.jpg", "b/x1.jpg", "a/y0.png", "a/y1.JPG", "top.jpg"]
    expected = [
        (np.frombuffer(os.path.basename(name).encode(), np.uint8), np.array([label], np.int32))
        for label, name in enumerate(names)
    ]
    check_reader(lambda: FileReader(file_root=str(root), files=names), expected)
    assert FileReader(file_root=str(root), files=names).source_info(2) == str(root / "a/y0.png")


def test_an_empty_file_is_an_empty_array(tmp_path):
    """A file of no bytes is read as such; what it means is for the decoder to say."""
    write(tmp_path, ["a/e.jpg"])
    (tmp_path / "a/e.jpg").write_bytes(b"")
    assert FileReader(file_root=str(tmp_path)).fetch(0)[0].shape == (0,)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({}, ValueError, "one of 'file_root', 'files' and 'file_list' is required"),
        ({"files": ["a"], "file_list": "b"}, ValueError, "but not by both"),
        ({"files": []}, ValueError, "'files' is an empty list"),
        ({"files": ["a", "b"], "labels": [1]}, ValueError, "1 label for 2 files"),
        ({"file_root": ".", "labels": [1]}, ValueError, "'labels' belong to 'files'"),
        ({"files": 3}, TypeError, "argument 'files' must be a string or a list of strings, got int"),
        ({"files": [b"a"]}, TypeError, "got an element bytes b'a'"),
        ({"file_root": "no/such/folder"}, FileNotFoundError, "no/such/folder"),
        ({"file_list": "no/such/list.txt"}, FileNotFoundError, "no/such/list.txt"),
    ],
)
def test_wrong_arguments_say_what_is_wanted(arguments, error, message):
    """Contradictions and missing paths are errors when the reader is made."""
    with pytest.raises(error, match=message):
        FileReader(**arguments)


def test_an_empty_folder_is_an_error_that_names_it(tmp_path):
    """No matching file at all is an error with the folder and the patterns."""
    (tmp_path / "a").mkdir()
    with pytest.raises(BadData, match=r"no files found in the sub-folders of .*: none match \*\.jpg"):
        FileReader(file_root=str(tmp_path), file_filters=["*.jpg"])
    with pytest.raises(ValueError, match="file_filters must have a pattern"):
        FileReader(file_root=str(tmp_path), file_filters=[])


def test_a_flat_folder_is_told_apart_from_an_empty_one(tmp_path):
    """Files that lie directly in file_root have no label: the message says so, and what to give instead."""
    for name in ("b.jpg", "a.jpg", "notes.txt"):
        (tmp_path / name).write_bytes(b"x")
    with pytest.raises(
        BadData, match=r"but 2 files directly in it \('a.jpg'\): every sub-folder is a label.*files= and labels="
    ):
        FileReader(file_root=str(tmp_path), file_filters=["*.jpg"])


def test_a_reader_that_cannot_be_made_names_its_line(tmp_path):
    """What goes wrong while a pipeline is built says which reader it was and where it is called."""

    @pipeline_def(batch_size=1, num_threads=1, device_id=None)
    def pipe():
        return fn.readers.file(file_root=str(tmp_path / "absent"))

    with pytest.raises(FileNotFoundError) as caught:
        pipe().build()
    assert caught.value.__notes__[0] == "in fn.readers.file"
    assert "test_file.py" in caught.value.__notes__[1]
    assert "return fn.readers.file(file_root=" in caught.value.__notes__[1]


@pytest.mark.parametrize("line", ["a.jpg", "a.jpg x", " 3", "a.jpg 1.5"])
def test_a_damaged_file_list_is_an_error_with_its_line(tmp_path, line):
    """Each line must be a path and an integer."""
    (tmp_path / "list.txt").write_text(f"good.jpg 1\n{line}\n")
    with pytest.raises(BadData, match=r"list.txt:2: expected a path and an integer label, got '"):
        FileReader(file_list=str(tmp_path / "list.txt"))


def test_a_binary_file_list_is_refused(tmp_path):
    """A list file that is not text is named as such."""
    (tmp_path / "list.txt").write_bytes(b"\xff\xfe\x00 1\n")
    with pytest.raises(BadData, match=r"list.txt is not a text file"):
        FileReader(file_list=str(tmp_path / "list.txt"))


def test_a_missing_file_is_an_error_of_its_sample_only(tmp_path):
    """A file that is gone is named when its sample is read; the others are read as before."""
    write(tmp_path, ["a.jpg", "b.jpg"])
    reader = FileReader(files=[str(tmp_path / "a.jpg"), str(tmp_path / "gone.jpg"), str(tmp_path / "b.jpg")])
    with pytest.raises(FileNotFoundError, match=r"gone.jpg"):
        reader.fetch(1)
    assert reader.fetch(2)[0].tobytes() == b"b.jpg"


def test_a_pipe_or_a_folder_is_refused_instead_of_waited_for(tmp_path):
    """Only regular files are opened: reading a pipe would hang."""
    os.mkfifo(tmp_path / "pipe.jpg")
    (tmp_path / "folder.jpg").mkdir()
    reader = FileReader(files=[str(tmp_path / "pipe.jpg"), str(tmp_path / "folder.jpg")])
    for index, name in enumerate(["pipe.jpg", "folder.jpg"]):
        with pytest.raises(BadData, match=rf"{name} is not a regular file"):
            reader.fetch(index)


def test_an_unreadable_folder_is_an_error_that_names_it(tmp_path, monkeypatch):
    """Folders that may not be listed are not passed over in silence."""
    write(tmp_path, ["a/x.jpg", "b/x.jpg"])
    real = os.scandir

    def scandir(path):
        if os.path.basename(path) == "b":
            raise PermissionError(13, "Permission denied", path)
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)
    with pytest.raises(PermissionError, match=r"Permission denied: '.*/b'"):
        FileReader(file_root=str(tmp_path))


def test_a_file_that_becomes_shorter_while_it_is_read_is_named():
    """The bytes that came are counted; nothing waits for those that never come."""

    class Shrinking:
        def __init__(self):
            self.parts = [3, 2, 0]

        def readinto(self, _):
            return self.parts.pop(0)  # asked again after the end, it fails

    with pytest.raises(BadData, match=r"a\.bin became shorter while it was read: 5 of 9 bytes"):
        read_into(Shrinking(), "a.bin", 0, 9)
