"""fn.readers.webdataset: samples out of tar files, index files, and archives that play tricks."""

import io
import tarfile

import numpy as np
import pytest
from readers.conformance import check_reader
from readers.records import write_tar

from pipeflow import types
from pipeflow.errors import BadData
from pipeflow.operators.readers.webdataset import WebdatasetReader, scan, write_index

FILES = [("a/1.jpg", b"1j"), ("a/1.cls", b"1c"), ("a/2.jpg", b"2j"), ("a/3.CLS", b"3C"), ("a/3.jpeg", b"3e"),
         ("b/3.jpg", b"b3"), ("x.seg.png", b"sp"), ("x.jpg", b"xj"), (".hidden.jpg", b"h"), ("noext", b"n"),
         ("dir", None), ("4.jpg", b"44"), ("4.cls", b"12345678")]  # fmt: skip


@pytest.fixture
def tar(tmp_path):
    return write_tar(tmp_path / "w.tar", FILES)


def rows(reader):
    return [[component.tobytes() for component in reader.fetch(index)] for index in range(len(reader))]


# Read off DALI 2.4.0 for the same archive, except that it gives two empty samples for the hidden file and the file
# without extension, which its own wds2idx leaves out or names otherwise.
@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (
            {"ext": ["jpg", "cls"]},
            [[b"1j", b"1c"], [b"2j", b""], [b"", b""], [b"b3", b""], [b"xj", b""], [b"44", b"12345678"]],
        ),
        (
            {"ext": ["jpg;jpeg", "cls"]},
            [[b"1j", b"1c"], [b"2j", b""], [b"3e", b""], [b"b3", b""], [b"xj", b""], [b"44", b"12345678"]],
        ),
        ({"ext": ["jpg", "cls"], "missing_component_behavior": "skip"}, [[b"1j", b"1c"], [b"44", b"12345678"]]),
        (
            {"ext": ["jpg;jpeg", "cls"], "missing_component_behavior": "skip", "case_sensitive_extensions": False},
            [[b"1j", b"1c"], [b"3e", b"3C"], [b"44", b"12345678"]],
        ),
        ({"ext": ["seg.png", "jpg"], "missing_component_behavior": "skip"}, [[b"sp", b"xj"]]),
        ({"ext": "cls"}, [[b"1c"], [b""], [b""], [b""], [b""], [b"12345678"]]),
    ],
)
def test_components_are_chosen_by_extension(tar, arguments, expected):
    """One output an extension group, first match first; missing ones are empty or skip the sample."""
    assert rows(WebdatasetReader(paths=tar, **arguments)) == expected


@pytest.mark.parametrize("ext", ["jpg;png", "png;jpg"])
def test_of_two_files_that_fit_the_first_in_the_archive_is_taken(tmp_path, ext):
    """An element with several extensions takes the first file of the sample that has one of them."""
    path = write_tar(tmp_path / "w.tar", [("1.jpg", b"1j"), ("1.png", b"1p"), ("2.png", b"2p"), ("2.jpg", b"2j")])
    assert rows(WebdatasetReader(paths=path, ext=ext)) == [[b"1j"], [b"2p"]]


def test_an_index_gives_the_same_samples_as_the_scan(tar, tmp_path):
    """Index files are written in DALI's format (v1.2) and read, in v1.1 too, with the same result."""
    index = tmp_path / "w.idx"
    assert write_index(tar, str(index)) == 6
    assert index.read_text().splitlines()[:3] == [
        "v1.2 6",
        "jpg 512 2 a/1.jpg cls 1536 2 a/1.cls",
        "jpg 2560 2 a/2.jpg",
    ]
    arguments = {"ext": ["jpg", "cls", "jpeg"]}
    scanned = WebdatasetReader(paths=tar, **arguments)
    indexed = WebdatasetReader(paths=tar, index_paths=str(index), **arguments)
    assert rows(indexed) == rows(scanned) == rows(WebdatasetReader(paths=tar, index_paths=[], **arguments))
    assert indexed.source_info(1) == scanned.source_info(1) == f"{tar}:2560:a/2.jpg"
    older = ["v1.1 6"] + [
        " ".join(word for place, word in enumerate(line.split()) if place % 4 != 3)
        for line in index.read_text().splitlines()[1:]
    ]
    index.write_text("\n".join(older) + "\n")
    assert rows(WebdatasetReader(paths=tar, index_paths=str(index), **arguments)) == rows(scanned)


def test_dtypes_reinterpret_the_bytes(tar):
    """Each output has its declared type; sizes that do not fit are refused when the reader is made."""
    reader = WebdatasetReader(paths=tar, ext=["jpg", "cls"], dtypes=[types.UINT16, types.UINT8])
    assert [component.dtype for component in reader.fetch(0)] == [np.uint16, np.uint8]
    assert reader.fetch(1)[1].shape == (0,)
    with pytest.raises(BadData, match=r"w.tar: the component at 1536 has 2 bytes, which is no multiple of the 4"):
        WebdatasetReader(paths=tar, ext=["jpg", "cls"], dtypes=[types.UINT8, types.INT32])
    with pytest.raises(ValueError, match="1 dtype for 2 extensions"):
        WebdatasetReader(paths=tar, ext=["jpg", "cls"], dtypes=[types.UINT8])


def test_conformance(tmp_path):
    """The reader keeps every promise of readers, over two archives."""
    first = write_tar(tmp_path / "1.tar", [(f"{n}.bin", bytes([n, n])) for n in range(4)])
    second = write_tar(tmp_path / "2.tar", [(f"{n}.bin", bytes([n])) for n in range(4, 7)])
    expected = [(np.full(2 if n < 4 else 1, n, np.uint8),) for n in range(7)]
    check_reader(lambda: WebdatasetReader(paths=[first, second], ext="bin"), expected)


@pytest.mark.parametrize("tar_format", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_long_and_foreign_names_in_every_tar_format(tmp_path, tar_format):
    """Names over 100 bytes (ustar prefix, GNU long name, pax path) and beyond ASCII are read whole."""
    names = ["folder/" * 20 + "1.jpg", "ü/ä.jpg"]
    path = write_tar(tmp_path / "w.tar", [(name, b"x" * 700) for name in names], tar_format)
    reader = WebdatasetReader(paths=path, ext="jpg")
    assert [reader.source_info(index).split(":")[-1] for index in range(2)] == names
    assert rows(reader) == [[b"x" * 700]] * 2


def test_a_size_in_an_extended_header_is_that_of_the_next_file_only(tmp_path):
    """A pax header may state the size of the file after it; the one after that has the size of its own header."""
    with_size = tarfile.TarInfo("1.jpg")
    with_size.size, with_size.pax_headers = 700, {"size": "700"}
    path = tmp_path / "w.tar"
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as tar:
        tar.addfile(with_size, io.BytesIO(b"1" * 700))
        for name, content in (("2.jpg", b"2" * 5), ("3.jpg", b"3" * 600)):
            plain = tarfile.TarInfo(name)
            plain.size = len(content)
            tar.addfile(plain, io.BytesIO(content))
    assert b"size=700" in path.read_bytes()[:1024]
    assert rows(WebdatasetReader(paths=str(path), ext="jpg")) == [[b"1" * 700], [b"2" * 5], [b"3" * 600]]


@pytest.mark.parametrize("size", [3 << 30, 5 << 30, (8 << 30) + 77, (33 << 30) + 1])
@pytest.mark.parametrize("binary", [False, True])
def test_files_of_many_gigabytes_are_stepped_over(tmp_path, size, binary):
    """Sizes above 4 and 8 GiB, in octal digits or in base 256, lead to the file behind; the archive is one hole."""
    large = tarfile.TarInfo("1.bin")
    large.size = size
    head = bytearray(large.tobuf(tarfile.GNU_FORMAT))
    if binary:
        head[124:136] = b"\x80" + size.to_bytes(11, "big")
        head[148:156] = b"%06o\0 " % (sum(head[:148]) + sum(head[156:]) + 8 * 32)
    last = tarfile.TarInfo("2.jpg")
    last.size = 3
    path = tmp_path / "w.tar"
    with open(path, "wb") as file:
        file.write(head)
        file.seek(512 + -(-size // 512) * 512)
        file.write(last.tobuf(tarfile.GNU_FORMAT) + b"end".ljust(512, b"\0") + bytes(1024))
    assert [(part.extension, part.size) for sample in scan(str(path)) for part in sample] == [("bin", size), ("jpg", 3)]
    assert rows(WebdatasetReader(paths=str(path), ext="jpg", missing_component_behavior="skip")) == [[b"end"]]


def special(name, kind, link=""):
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, link
    return name, info


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        (special("x.jpg", tarfile.SYMTYPE, "/etc/passwd"), "'x.jpg' is a symbolic link"),
        (special("x.jpg", tarfile.LNKTYPE, "1.jpg"), "'x.jpg' is a hard link"),
        (special("x.jpg", tarfile.CHRTYPE), "'x.jpg' is a character device"),
        (special("x.jpg", tarfile.FIFOTYPE), "'x.jpg' is a pipe"),
        (("../x.jpg", b"x"), r"the name '../x.jpg' leads out of the archive"),
        (("a/../../x.jpg", b"x"), "leads out of the archive"),
        (("..\\x.jpg", b"x"), "leads out of the archive"),
        (("/etc/x.jpg", b"x"), "leads out of the archive"),
    ],
)
def test_links_devices_and_paths_out_of_the_archive_are_refused(tmp_path, entry, message):
    """A tar file with such an entry is refused as a whole, by name."""
    path = write_tar(tmp_path / "bad.tar", [("1.jpg", b"1"), entry])
    with pytest.raises(BadData, match=message) as caught:
        WebdatasetReader(paths=path, ext="jpg")
    assert "bad.tar" in str(caught.value)


def test_truncated_and_damaged_archives_are_refused(tmp_path):
    """Cut inside a file or a header, or with a flipped bit in a header, an archive is refused by name."""
    write_tar(tmp_path / "good.tar", [("1.jpg", b"1" * 600), ("2.jpg", b"2" * 600)])
    good = (tmp_path / "good.tar").read_bytes()
    cases = [
        (good[:700], "'1.jpg' should have 600 bytes at 512, the file ends at 700"),
        (good[:1600], "it ends inside a header at 1536"),
        (b"", "is an empty tar file"),
        (b"\0" * 1024, "empty tar"),
        (good[:1540] + b"\x01" + good[1541:], "the header at 1536 has a wrong checksum"),
        (b"PK\x03\x04" + b"zip" * 200, "the header at 0 has a wrong checksum"),
    ]
    for content, message in cases:
        (tmp_path / "bad.tar").write_bytes(content)
        with pytest.raises(BadData, match=message) as caught:
            WebdatasetReader(paths=str(tmp_path / "bad.tar"), ext="jpg")
        assert "bad.tar" in str(caught.value)


def header(name, size, kind=b"0"):
    """A tar header with any size field and a right checksum."""
    block = bytearray(512)
    block[: len(name)] = name
    block[124:136] = size
    block[156:157] = kind
    block[148:156] = b"%06o\0 " % (sum(block) + 8 * 32)
    return bytes(block)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (header(b"1.jpg", b"77777777777\0") + b"x" * 512, "should have 8589934591 bytes"),
        (header(b"1.jpg", b"\x80" + b"\xff" * 11) + b"x" * 512, "truncated tar file"),
        (header(b"1.jpg", b"-0000000001\0") + b"x" * 512, "wrong checksum"),
        (header(b"long", b"00010000000\0", b"L") + b"x" * (1 << 21) + b"\0" * 1024, "extended tar header of 2097152"),
        (header(b"pax", b"00000000012\0", b"x") + b"99 path=x\n".ljust(512, b"\0") + b"\0" * 1024, "damaged extended"),
        (header(b"pax", b"00000000013\0", b"x") + b"11 size=-1\n".ljust(512, b"\0") + b"\0" * 1024, "damaged extended"),
    ],
)
def test_lying_sizes_are_refused(tmp_path, content, message):
    """Sizes are checked against the file before anything of that size is read."""
    (tmp_path / "bad.tar").write_bytes(content)
    with pytest.raises(BadData, match=message):
        WebdatasetReader(paths=str(tmp_path / "bad.tar"), ext="jpg")


@pytest.mark.parametrize(
    ("index", "message"),
    [
        ("", 'expected a first line such as "v1.2 0"'),
        ("v1.2 7\njpg 512 2 a/1.jpg\n", r'expected a first line such as "v1.2 1" with the number of the 1 sample'),
        ("v9 1\njpg 512 2 a/1.jpg\n", "expected a first line"),
        ("v1.2 1\njpg 512 2\n", "w.idx:2: expected groups of 4 words"),
        ("v1.2 1\njpg x 2 a/1.jpg\n", "w.idx:2: expected groups of 4 words"),
        ("v1.2 1\njpg 512 -2 a/1.jpg\n", "is not inside"),
        ("v1.2 1\njpg 512 99999999999 a/1.jpg\n", "w.idx:2: a component of 99999999999 bytes at 512 is not inside"),
        ("v1.2 1\njpg 99999999 2 a/1.jpg\n", "is not inside"),
    ],
)
def test_lying_index_files_are_refused_by_name_and_line(tar, tmp_path, index, message):
    """An index must have the stated number of lines, and every entry must lie inside its tar file."""
    (tmp_path / "w.idx").write_text(index)
    with pytest.raises(BadData, match=message) as caught:
        WebdatasetReader(paths=tar, index_paths=str(tmp_path / "w.idx"), ext="jpg")
    assert "w.idx" in str(caught.value)


@pytest.mark.parametrize("entry", ["jpg 513 2 a/1.jpg", "jpg 512 1 a/1.jpg", "jpg 1024 2 a/1.jpg"])
def test_an_index_of_another_archive_is_found_when_its_sample_is_read(tar, tmp_path, entry):
    """Before each component there must be a tar header that states its size."""
    (tmp_path / "w.idx").write_text(f"v1.2 1\n{entry}\n")
    reader = WebdatasetReader(paths=tar, index_paths=str(tmp_path / "w.idx"), ext="jpg")
    with pytest.raises(BadData, match=r"w.tar: (damaged tar file|there is no file)"):
        reader.fetch(0)


def test_names_that_an_index_cannot_hold_are_refused_by_the_writer(tmp_path):
    """The format separates by spaces: a name with a space cannot be written, but can be scanned."""
    path = write_tar(tmp_path / "w.tar", [("my file.jpg", b"1")])
    with pytest.raises(BadData, match="has a space in it"):
        write_index(path, str(tmp_path / "w.idx"))
    assert len(scan(path)) == 1


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (
            {"paths": "w.tar", "ext": "jpg", "missing_component_behavior": "raise"},
            ValueError,
            "must be 'empty', 'skip' or 'error', got 'raise'",
        ),
        ({"paths": [], "ext": "jpg"}, ValueError, "must not be empty"),
        ({"paths": ["a", "b"], "index_paths": ["c"], "ext": "jpg"}, ValueError, "2 paths and 1 index path"),
        ({"paths": "gone.tar", "ext": "jpg"}, FileNotFoundError, "gone.tar"),
    ],
)
def test_wrong_arguments_say_what_is_wanted(arguments, error, message):
    """Paths and behaviours are checked when the reader is made."""
    with pytest.raises(error, match=message):
        WebdatasetReader(**arguments)


def test_a_missing_component_can_be_an_error(tar):
    """ "error" names the sample and the missing extension; no match at all is always an error."""
    with pytest.raises(BadData, match=r"w.tar: the sample 'a/2.jpg' has no component 'cls'"):
        WebdatasetReader(paths=tar, ext=["jpg", "cls"], missing_component_behavior="error")
    with pytest.raises(BadData, match="no samples with the extensions txt in"):
        WebdatasetReader(paths=tar, ext="txt", missing_component_behavior="skip")


def test_an_archive_may_end_with_its_last_file(tmp_path):
    """Some programs write no empty blocks at the end; a byte less is a truncated archive."""
    path = tmp_path / "w.tar"
    write_tar(path, [("1.jpg", b"x" * 512)])
    path.write_bytes(path.read_bytes()[:1024])
    assert rows(WebdatasetReader(paths=str(path), ext="jpg")) == [[b"x" * 512]]
    path.write_bytes(path.read_bytes()[:1023])
    with pytest.raises(
        ValueError, match=r"truncated tar file: '1.jpg' should have 512 bytes at 512, the file ends at 1023"
    ):
        rows(WebdatasetReader(paths=str(path), ext="jpg"))
