"""fn.readers.numpy: .npy files of every type, whole and in regions; damaged ones are refused."""

import ast
import io
import pickle

import numpy as np
import pytest
from image.oracle import ask, case
from readers.conformance import check_reader

from pipeflow import fn, pipeline_def, types
from pipeflow.errors import BadData, OutOfRange
from pipeflow.operators.readers import npy, slicing
from pipeflow.operators.readers.numpy import NumpyReader

NAMES = [
    "bool",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "float16",
    "float32",
    "float64",
]


def save(path, array, **options):
    np.save(path, array, **options)
    return str(path)


def fetch(path, **arguments):
    return NumpyReader(files=[str(path)], **arguments).fetch(0)[0]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("shape", [(), (5,), (3, 4), (2, 3, 4), (0, 3)])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("byte_order", ["<", ">"])
def test_every_type_order_and_byte_order_is_read_as_numpy_reads_it(tmp_path, name, shape, order, byte_order):
    """Values equal np.load's, in C order and native byte order."""
    generator = np.random.default_rng(3)
    array = (generator.random(shape) * 100).astype(np.dtype(name).newbyteorder(byte_order), order=order)
    got = fetch(save(tmp_path / "a.npy", array))
    assert got.dtype == np.dtype(name)
    assert got.dtype.isnative
    assert got.shape == shape
    assert got.flags.c_contiguous
    assert np.array_equal(got, np.load(tmp_path / "a.npy"))


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
def test_every_version_of_the_format_is_read(tmp_path, version):
    """Versions differ in how the header's length is written."""
    with open(tmp_path / "a.npy", "wb") as file:
        np.lib.format.write_array(file, np.arange(6).reshape(2, 3), version=version)
    assert fetch(tmp_path / "a.npy").tolist() == [[0, 1, 2], [3, 4, 5]]


# Regions of np.arange(20).reshape(4, 5), each read off DALI 2.4.0.
REGIONS = [
    ({"roi_start": (1, 1), "roi_shape": (2, 3)}, [[6, 7, 8], [11, 12, 13]]),
    ({"roi_start": (1, 1)}, [[6, 7, 8, 9], [11, 12, 13, 14], [16, 17, 18, 19]]),
    ({"roi_end": (2, 2)}, [[0, 1], [5, 6]]),
    ({"roi_start": (3,), "roi_axes": (1,)}, [[3, 4], [8, 9], [13, 14], [18, 19]]),
    ({"roi_start": (3,), "roi_axes": (-1,)}, [[3, 4], [8, 9], [13, 14], [18, 19]]),
    ({"roi_start": (1, 1), "roi_end": (3, 3)}, [[6, 7], [11, 12]]),
    ({"roi_start": (1,), "roi_shape": (2,)}, [[6, 7], [11, 12]]),
    ({"rel_roi_start": (0.1, 0.1), "rel_roi_end": (0.5, 0.5)}, [[1, 2], [6, 7]]),
    ({"rel_roi_start": (0.25, 0.5), "rel_roi_shape": (0.5, 0.3)}, [[8], [13]]),
    ({"rel_roi_start": (0.125, 0.3), "rel_roi_shape": (0.5, 0.5)}, [[7, 8], [12, 13]]),
    ({"rel_roi_shape": (0.4, 0.7)}, [[0, 1, 2, 3], [5, 6, 7, 8]]),
    ({"roi_start": (3, 3), "roi_shape": (2, 3), "out_of_bounds_policy": "pad", "fill_value": 7.0},
     [[18, 19, 7], [7, 7, 7]]),
    ({"roi_start": (-1, 3), "roi_shape": (2, 3), "out_of_bounds_policy": "pad", "fill_value": -1.5},
     [[-2, -2, -2], [3, 4, -2]]),
    ({"roi_start": (-1, 3), "roi_shape": (2, 3), "out_of_bounds_policy": "trim_to_shape"}, [[3, 4]]),
    ({"roi_start": (5, 3), "roi_shape": (2, 3), "out_of_bounds_policy": "trim_to_shape"}, []),
    ({"roi_shape": (0, 2)}, []),
]  # fmt: skip


@pytest.mark.parametrize(("arguments", "expected"), REGIONS)
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("mapped", [True, False])
def test_regions_are_those_of_dali(tmp_path, arguments, expected, order, mapped):
    """Starts, ends and shapes, absolute and relative, give the same region mapped and unmapped, in both orders."""
    path = save(tmp_path / "a.npy", np.asarray(np.arange(20, dtype=np.int16).reshape(4, 5), order=order))
    got = fetch(path, dont_use_mmap=not mapped, **arguments)
    assert got.tolist() == expected
    assert got.flags.c_contiguous
    assert got.flags.writeable


# On one axis of ten: ends are rounded, not lengths; halves go away from zero. Read off DALI 2.4.0 too.
@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"rel_roi_start": (0.25,), "rel_roi_shape": (0.3,)}, [3, 4, 5]),
        ({"rel_roi_start": (0.15,), "rel_roi_shape": (0.3,)}, [2, 3, 4]),
        ({"rel_roi_start": (0.24,), "rel_roi_shape": (0.34,)}, [2, 3, 4, 5]),
        ({"roi_start": (1,), "rel_roi_shape": (0.25,)}, [1, 2, 3]),
        ({"roi_start": (2,), "rel_roi_end": (0.55,)}, [2, 3, 4, 5]),
        ({"rel_roi_start": (0.35,), "roi_shape": (2,)}, [4, 5]),
        ({"rel_roi_start": (0.05,), "rel_roi_shape": (0.9,)}, [1, 2, 3, 4, 5, 6, 7, 8]),
        ({"rel_roi_start": (-0.15,), "rel_roi_shape": (0.3,), "out_of_bounds_policy": "pad"}, [0, 0, 0, 1]),
    ],
)
def test_relative_bounds_are_rounded_as_dali_rounds_them(tmp_path, arguments, expected):
    """Each bound is multiplied by the extent and rounded by itself."""
    assert fetch(save(tmp_path / "a.npy", np.arange(10)), **arguments).tolist() == expected


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"roi_start": (3, 3), "roi_shape": (2, 3)}, r"a slice of shape \(2, 3\) at \(3, 3\) is not inside"),
        ({"roi_start": (3, 1), "roi_end": (1, 2)}, "cannot come before its start: start 3, end 1"),
        ({"roi_start": (2,), "roi_axes": (2,)}, "axis 2 is not one of the 2 axes"),
        ({"roi_start": (1, 1), "roi_axes": (0, -2)}, "an axis occurs twice"),
        ({"roi_start": (1, 1, 1)}, "a slice of 2 axes needs 2 numbers, got 3"),
        *[
            ({"roi_shape": (-1, 2), "out_of_bounds_policy": policy}, "roi_shape must not be negative")
            for policy in ("error", "pad", "trim_to_shape")
        ],
    ],
)
def test_impossible_regions_name_the_file(tmp_path, arguments, message):
    """What does not fit a file's shape is an error of its sample."""
    path = save(tmp_path / "a.npy", np.zeros((4, 5)))
    with pytest.raises((ValueError, IndexError), match=message) as caught:
        fetch(path, **arguments)
    assert "a.npy" in str(caught.value) + "".join(getattr(caught.value, "__notes__", []))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"roi_shape": (2,), "roi_end": (3,)}, "exclude each other; got roi_end and roi_shape"),
        ({"roi_start": (1,), "rel_roi_start": (0.5,)}, "exclude each other; got roi_start and rel_roi_start"),
    ],
)
def test_contradicting_regions_are_refused_when_the_reader_is_made(arguments, message):
    """Two arguments that say the same bound are an error at once."""
    with pytest.raises(ValueError, match=message):
        NumpyReader(files=["a.npy"], **arguments)


def test_files_are_found_in_all_sub_folders(tmp_path):
    """file_root is searched to any depth, in alphabetical order of the relative paths; a list file works too."""
    for number, name in enumerate(["y.npy", "sub/x.npy", "sub/deep/z.npy", "skip.txt"]):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        with open(tmp_path / name, "wb") as file:
            np.save(file, np.array(number))
    reader = NumpyReader(file_root=str(tmp_path))
    assert [int(reader.fetch(index)[0]) for index in range(len(reader))] == [2, 1, 0]
    assert reader.source_info(0) == str(tmp_path / "sub/deep/z.npy")
    (tmp_path / "list.txt").write_text("y.npy\n\nsub/x.npy\n")
    listed = NumpyReader(file_list=str(tmp_path / "list.txt"))
    assert [int(listed.fetch(index)[0]) for index in range(len(listed))] == [0, 1]
    assert len(NumpyReader(file_root=str(tmp_path), file_filter="[xz].npy")) == 2
    with pytest.raises(BadData, match=r"no 'none\*' files found"):
        NumpyReader(file_root=str(tmp_path), file_filter="none*")


def test_conformance(tmp_path):
    """The reader keeps every promise of readers."""
    arrays = [np.arange(n * 3, dtype=np.float32).reshape(n, 3) for n in range(1, 8)]
    paths = [save(tmp_path / f"{n}.npy", array) for n, array in enumerate(arrays)]
    check_reader(lambda: NumpyReader(files=paths), [(array,) for array in arrays])


class Bomb:
    """Unpickling this writes a file: proof that something was unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (self.path, "w")


def test_nothing_is_ever_unpickled(tmp_path):
    """An array of objects is refused without its pickle being read."""
    path = save(tmp_path / "a.npy", np.array([Bomb(str(tmp_path / "boom"))], object), allow_pickle=True)
    assert pickle.loads(pickle.dumps(1)) == 1
    with pytest.raises(BadData, match=r"elements of type '\|O' are not supported"):
        fetch(path)
    assert not (tmp_path / "boom").exists()


def with_header(text, data=b"\0" * 64, length=None):
    body = text.encode("latin-1")
    return b"\x93NUMPY\x01\x00" + (len(body) if length is None else length).to_bytes(2, "little") + body + data


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is not a .npy file"),
        (b"PK\x03\x04 a zip file", "is not a .npy file"),
        (b"\x93NUMPY\x01\x00\xff\xff{", "truncated or damaged"),
        (b"\x93NUMPY\x09\x01" + bytes(100), r"files of version 9\.1 are not known; 1\.0 to 3\.0 are"),
        (with_header("{'descr': '<i4', 'fortran_order': False, 'shape': (17,)}"), "needs 134 bytes, the file has 130"),
        (with_header("{'descr': '<i4', 'fortran_order': False, 'shape': (1000000000000, 1000000000)}"), "truncated"),
        (with_header("{'descr': '<i4', 'fortran_order': False, 'shape': (-1,)}"), "damaged .npy header: shape"),
        (with_header("{'descr': '<i4', 'fortran_order': False, 'shape': (True,)}"), "damaged .npy header: shape"),
        (with_header("{'descr': '<i4', 'fortran_order': 1, 'shape': (2,)}"), "fortran_order 1"),
        (with_header("{'descr': '<c8', 'fortran_order': False, 'shape': (2,)}"), "elements of type '<c8'"),
        (with_header("{'descr': '<U2', 'fortran_order': False, 'shape': (2,)}"), "elements of type '<U2'"),
        (with_header("{'descr': '<i3', 'fortran_order': False, 'shape': (2,)}"), "is not a dtype"),
        (with_header("{'descr': '<f16', 'fortran_order': False, 'shape': (2,)}"), "not supported"),
        (with_header("{'descr': [('a', '<i4')], 'fortran_order': False, 'shape': (2,)}"), "not supported"),
        (with_header("{'shape': (2,)}"), "damaged .npy header"),
        (with_header("__import__('os').system('true')"), "damaged .npy header"),
        (with_header("[" * 5000), "damaged .npy header"),
        (with_header("{'descr': '<i4', 'fortran_order': False, 'shape': (" + "1," * 40 + ")}"), "header: shape"),
    ],
)
def test_damaged_files_are_refused_by_name(tmp_path, content, message):
    """A header that lies or means anything but a plain array is an error with the file's name; no memory is taken."""
    (tmp_path / "bad.npy").write_bytes(content)
    with pytest.raises(BadData, match=message) as caught:
        fetch(tmp_path / "bad.npy")
    assert "bad.npy" in str(caught.value)


@pytest.mark.parametrize("shape", [(), (0,), (1,), (17,), (2, 3), (4, 1, 0, 12)])
def test_headers_as_numpy_writes_them_are_read_without_the_parser_of_python(monkeypatch, tmp_path, shape):
    """That one may fail in a thread when a finaliser of another one parses, too; other spellings are read by it all the same."""
    array = np.zeros(shape, np.int16)
    np.save(tmp_path / "a.npy", array)
    plain = (tmp_path / "a.npy").read_bytes()
    odd = with_header(f"{{'shape': {shape}, 'descr': '<i2', 'fortran_order': False}}", array.tobytes())
    assert npy.read_header(odd, len(odd), "odd").shape == shape

    def fail(*_):
        raise SystemError("AST constructor recursion depth mismatch (before=36, after=33)")

    monkeypatch.setattr(ast, "parse", fail)
    assert npy.read_header(plain, len(plain), "plain").shape == shape
    assert fetch(tmp_path / "a.npy").shape == shape


@pytest.mark.parametrize("shape", ["(5)", "(05,)", "(1 2,)", "(,)", "5", "(1e3,)"])
def test_what_is_no_tuple_of_numbers_is_no_shape(shape):
    """The quick way takes nothing that Python would not."""
    content = with_header("{'descr': '<i2', 'fortran_order': False, 'shape': " + shape + ", }")
    with pytest.raises(BadData, match=r"damaged \.npy header"):
        npy.read_header(content, len(content), "a file")


def test_npy_in_memory_is_decoded_like_the_file():
    """The decoder of fn.decoders.numpy shares the parser."""
    for order in "CF":
        buffer = io.BytesIO()
        array = np.asarray(np.arange(6, dtype=">i4").reshape(2, 3), order=order)
        np.save(buffer, array)
        got = npy.decode(np.frombuffer(buffer.getvalue(), np.uint8))
        assert got.dtype == np.int32
        assert got.tolist() == array.tolist()
    with pytest.raises(BadData, match=r"the input is not a \.npy file"):
        npy.decode(np.zeros(20, np.uint8))


VARYING = [
    {"roi_start": [[0, 1], [1, 2], [2, 3], [3, 0]], "roi_shape": [2, 3]},
    {"roi_start": [[0], [1], [2], [4]], "roi_end": [[1], [5], [4], [5]], "roi_axes": [0]},
    {"rel_roi_start": [[0.1, 0.3], [0.2, 0.0], [0.25, 0.5], [0.0, 0.0]], "rel_roi_shape": [0.5, 0.5]},
    {
        "roi_start": [[-1, 1], [4, 2], [2, 6], [3, 0]],
        "roi_shape": [[2, 3], [3, 3], [2, 4], [1, 1]],
        "out_of_bounds_policy": "pad",
        "fill_value": 7.0,
    },
    {"rel_roi_end": [[0.5, 0.6], [1.0, 0.3], [0.2, 0.2], [0.7, 1.0]], "dont_use_mmap": True},
]


def region_of(arguments, sample):
    """The arguments of one sample: of lists of lists that sample's."""
    return {
        name: value[sample] if isinstance(value, list) and isinstance(value[0], list) else value
        for name, value in arguments.items()
    }


def varying_batch(folder, arguments):
    """What a pipeline reads of four files, with a region of each."""

    def node(value):
        if not isinstance(value, list) or not isinstance(value[0], list):
            return value
        dtype = np.float32 if isinstance(value[0][0], float) else np.int32
        rows = [np.array(row, dtype) for row in value]
        return fn.external_source(source=lambda: rows, batch=True)

    @pipeline_def(batch_size=4, num_threads=2, device_id=None, prefetch_queue_depth=1)
    def define():
        options = {name: node(value) for name, value in arguments.items()}
        return fn.readers.numpy(
            file_root=str(folder), name="scans", cache_header_information=False, register_buffers=True, **options
        )

    pipe = define()
    assert pipe.reader_meta("scans")["epoch_size"] == 4
    return [np.asarray(sample) for sample in pipe.run()[0].samples()]


@pytest.fixture
def four(tmp_path):
    """Arrays of 5 by 8, all different."""
    for number in range(4):
        save(tmp_path / f"{number}.npy", np.arange(40, dtype=np.int16).reshape(5, 8) + 100 * number)
    return tmp_path


@pytest.mark.parametrize("arguments", VARYING)
def test_regions_that_differ_from_sample_to_sample(four, arguments):
    """Nodes give each file the region that the same numbers as constants give."""
    got = varying_batch(four, arguments)
    for sample, found in enumerate(got):
        assert np.array_equal(found, fetch(four / f"{sample}.npy", **region_of(arguments, sample)))


def test_regions_of_samples_keep_the_order_and_its_state(four):
    """Shards, shuffling and checkpoints are the reader's as ever; errors name the file."""

    @pipeline_def(batch_size=2, num_threads=1, device_id=None, seed=4, enable_checkpointing=True)
    def define():
        start = fn.random.uniform(range=(0, 3), shape=(2,), dtype=types.INT32)
        return fn.readers.numpy(file_root=str(four), roi_start=start, roi_shape=(2, 3), random_shuffle=True)

    def runs(pipe, count):
        return [np.asarray(output).tolist() for _ in range(count) for output in pipe.run()]

    whole = runs(define(), 5)
    pipe = define()
    runs(pipe, 3)
    assert runs(define(checkpoint=pipe.checkpoint()), 2) == whole[3:]
    with pytest.raises(OutOfRange, match="is not inside the array") as caught:
        varying_batch(four, {"roi_start": [[0, 0], [1, 1], [4, 4], [0, 0]], "roi_shape": [2, 3]})
    assert f"{four / '2.npy'}" in "\n".join([str(caught.value), *caught.value.__notes__])


@pytest.mark.oracle
def test_dali_reads_the_same_regions_of_samples(four):
    """Starts, ends and shapes, absolute and relative, inside and padded."""
    for arguments in VARYING:
        options = {}
        for name, value in arguments.items():
            varies = isinstance(value, list) and isinstance(value[0], list)
            dtype = np.float32 if name.startswith("rel") else np.int32
            options[name] = tuple(np.array(row, dtype) for row in value) if varies else value
        ((outputs, text),) = ask([case("readers.numpy", file_root=str(four), **options)])
        assert not isinstance(outputs, str), (arguments, outputs, text)
        for ours, theirs in zip(varying_batch(four, arguments), outputs[0], strict=True):
            np.testing.assert_array_equal(ours, theirs)


def test_a_window_that_ends_before_it_begins_is_empty():
    """Cut to the array, its length is 0 and not negative."""
    assert slicing.inside([(3, -2), (-4, 6)], [5, 5], "trim_to_shape") == [(3, 0), (0, 2)]
