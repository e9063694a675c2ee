"""Values that stand in graphs and calls: typed constants, Python numbers, lists, paths, bytes and text."""

import pathlib

import example_data
import numpy as np
import pytest

from pipeflow import fn, math, pipeline_def, types
from pipeflow.declare import values
from pipeflow.errors import DoesNotFit, NestedStructure

IMAGE = example_data.bmp_bytes().tobytes()
BYTES = np.array([1, 2, 3], np.uint8)


def outputs(define, debug=False):
    """The batches of a pipeline of two samples."""
    pipe = pipeline_def(define, batch_size=2, num_threads=1, device_id=None)() if not debug else None
    if debug:
        pipe = pipeline_def(batch_size=2, num_threads=1, device_id=None, debug=True)(define)()
    return pipe.run()


def first(define, debug=False):
    """The first sample of the only output."""
    return np.array(outputs(define, debug)[0].at(0))


@pytest.mark.parametrize("kind", [kind for kind in types.in_order(types.NUMBERS) if kind != np.float16], ids=str)
def test_a_constant_is_converted_by_the_name_of_a_type(kind):
    """`types.Constant(10).uint8()` has that type in arithmetic, where nothing promotes it."""
    constant = getattr(types.Constant(1), kind.name)()
    assert constant.dtype == types.to_dali_type(kind)
    assert constant.value == 1
    other = types.Constant([0, 0], dtype=kind)
    assert first(lambda: constant * fn.copy(other)).dtype == kind


def test_a_constant_is_a_number_of_its_type():
    """Fractions are cut, as by Python's int; int() and bool() read it; arithmetic needs a DataNode."""
    assert types.Constant(10.7).int16().value == 10
    assert types.ScalarConstant(10.5, types.UINT8).value == 10
    assert types.Constant(2.5).int8().float32().value == 2.0
    assert int(types.Constant(3)) == 3
    assert not types.Constant(0)
    assert types.ScalarConstant(np.uint8(3)).dtype == types.UINT8
    assert str(types.Constant(3).uint8()) == "3:DALIDataType.UINT8"
    assert eval(repr(types.Constant(3).uint8()), {"types": types}).dtype == types.UINT8
    with pytest.raises(TypeError, match="unsupported operand"):
        types.Constant(1) + types.Constant(2)
    with pytest.raises(TypeError, match="Expected scalar value"):
        types.ScalarConstant([1, 2])


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        (np.arange(3), np.int32),
        (np.arange(3, dtype=np.uint64), np.uint32),
        (np.ones(3), np.float32),
        (np.int64(3), np.int32),
        (np.float64(3), np.float32),
        (np.float16(3), np.float16),
        ([1, 2], np.int32),
        ([1, 2.5], np.float32),
        ([[1, 2], [3, 4]], np.int32),
        (((True, False),), bool),
        (types.Constant(3).uint8(), np.uint8),
        (types.Constant([1, 2], dtype=types.INT64), np.int64),
        (5, np.int32),
        (2.5, np.float32),
        (True, bool),
    ],
    ids=str,
)
@pytest.mark.parametrize("debug", [False, True])
def test_constants_have_32_bits_unless_they_say_more(value, dtype, debug):
    """As inputs and as outputs, in a pipeline and in a debug run."""
    assert first(lambda: fn.copy(value), debug).dtype == dtype
    assert first(lambda: (value,), debug).dtype == dtype


@pytest.mark.parametrize(
    "value", [5, 2.5, True, types.Constant(3).uint8(), types.Constant([1, 2]), [1, 2], [1, 2.5]], ids=str
)
def test_numbers_are_typed_alike_in_eager_calls_and_pipelines(value):
    """A call at once gives the type that the same call in a definition gives."""
    eager = fn.copy(value)
    dtype = eager.dtype if isinstance(eager, np.ndarray) else types.to_numpy_type(eager.dtype)
    assert dtype == first(lambda: fn.copy(value)).dtype == first(lambda: fn.copy(value), debug=True).dtype


def test_lists_and_numpy_numbers_take_part_in_arithmetic():
    """A list is a constant array; a NumPy number keeps its type; np.float64 is a Python float, too."""
    assert first(lambda: fn.copy(BYTES) + [1, 2, 3]).tolist() == [2, 4, 6]
    assert first(lambda: [1, 2, 3] - fn.copy(BYTES)).tolist() == [0, 0, 0]
    assert first(lambda: fn.copy(BYTES) * [[1], [2]]).tolist() == [[1, 2, 3], [2, 4, 6]]
    assert first(lambda: fn.copy(BYTES) + np.int64(3)).dtype == np.int64
    assert first(lambda: np.int16(3) + fn.copy(BYTES)).dtype == np.int16
    assert first(lambda: fn.copy(BYTES) + np.float64(3)).dtype == np.float32
    for number in (np.array(3), np.array(3.0), np.array(3, np.int16)):
        assert first(lambda number=number: fn.copy(BYTES) + number).dtype == number.dtype
        assert first(lambda number=number: fn.copy(BYTES) + types.Constant(number)).dtype == number.dtype
    assert first(lambda: math.max(fn.copy(BYTES), types.Constant(2).uint8())).tolist() == [2, 2, 3]


def test_what_is_no_operand_is_named():
    """A list with a DataNode in it is a forgotten *; text is no number; what needs 64 bits says so."""
    with pytest.raises(NestedStructure, match=r"operator `\+` .*nested `DataNode`"):
        outputs(lambda: fn.copy(BYTES) + [[fn.copy(BYTES)]])
    with pytest.raises(TypeError, match=r"Got list .'a'"):
        outputs(lambda: fn.copy(BYTES) + ["a"])
    for kind in (OverflowError, ValueError, RuntimeError):
        with pytest.raises(kind, match="does not fit into INT32"):
            outputs(lambda: fn.copy(BYTES) + 2**40)
    with pytest.raises(DoesNotFit, match="-1 does not fit into uint8"):
        outputs(lambda: fn.copy(BYTES) + types.Constant(-1, types.UINT8))
    with pytest.raises(DoesNotFit, match="does not fit into UINT32"):
        outputs(lambda: fn.copy(np.array([2**63], np.uint64)))


def test_constants_are_rounded_to_their_type():
    """As a cast does; what the type cannot hold is an error. Without a type, 64-bit NumPy numbers are narrowed, as lists are."""

    def constant(*arguments, **named):
        return first(lambda: types.Constant(*arguments, device="cpu", **named))

    assert constant([1.5, -2.5, 2.4], types.INT32).tolist() == [2, -3, 2]
    assert constant(254.7, types.UINT8) == 255
    assert constant(np.float32([0.5, 0.0]), types.BOOL).tolist() == [True, False]
    for value in (-1.0, 255.6, np.nan, 1e300, np.inf, 10**30):
        with pytest.raises(DoesNotFit, match="does not fit into uint8"):
            constant([value], types.UINT8)
    assert [constant(value).dtype for value in (np.int64(5), np.float64(5), np.int16(5))] == [
        np.int32,
        np.float32,
        np.int16,
    ]
    assert np.isinf(first(lambda: fn.copy(BYTES) * 1e300)).all()  # without a warning
    for wrong in ({"shape": [2, 2]}, {"layout": "HWC"}):
        with pytest.raises(RuntimeError):
            constant([1, 2, 3], **wrong)


def test_constants_stand_for_arguments():
    """Typed numbers and arrays wherever an argument takes a number or a list."""
    image = np.arange(24, dtype=np.uint8).reshape(4, 3, 2)
    assert (fn.flip(image, vertical=types.Constant(1)) == image[::-1, ::-1]).all()
    assert fn.crop(image, crop=types.Constant([2, 1])).shape == (2, 1, 2)
    assert fn.reductions.sum(BYTES, axes=types.Constant(0)) == 6


def test_array_constants_outside_of_pipelines():
    """They can be indexed, and have the name that is given in a pipeline."""
    table = types.Constant([[1, 2], [3, 4]])
    assert table[1].value.tolist() == [3, 4]
    assert first(lambda: table[1] + fn.copy(types.Constant([1, 1]))).tolist() == [4, 5]
    assert first(lambda: types.ConstantNode("cpu", [1, 2], types.UINT8, None, "X")).dtype == np.uint8

    @pipeline_def(batch_size=1, num_threads=1, device_id=None)
    def named():
        node = types.Constant([1, 2], name="pair")
        assert node.name == "pair"
        return node

    named().build()


def test_bytes_are_encoded_images():
    """In eager calls, from sources and from files named by text; text is no image, and other operators take no text."""
    pixels = fn.decoders.image(IMAGE)
    assert pixels.shape == (40, 60, 3)
    assert fn.peek_image_shape(IMAGE).tolist() == [40, 60, 3]
    assert fn.decoders.audio(example_data.wav_bytes().tobytes())[0].shape == (4000, 1)
    assert fn.decoders.numpy(example_data.npy_bytes().tobytes()).shape == (3, 4)

    def decoded():
        data = fn.external_source(lambda: [IMAGE, IMAGE])
        return fn.decoders.image(data), fn.decoders.image_crop(data, crop=(3, 3)), fn.peek_image_shape(data)

    images, crops, shapes = outputs(decoded)
    assert (np.array(images.at(1)) == pixels).all()
    assert crops.shape() == [(3, 3, 3)] * 2
    assert np.array(shapes.at(0)).tolist() == [40, 60, 3]
    with pytest.raises(TypeError, match=r"fn\.io\.file\.read reads the file of that name"):
        fn.decoders.image("a.bmp")
    with pytest.raises(TypeError, match="the operator does not take text"):
        fn.pad(["ab"], shape=3)


def test_paths_are_text_bytes_or_pathlib(tmp_path):
    """`fn.io.file.read` takes all forms of a name; readers take a Path where they take a string."""
    path = tmp_path / "a.bmp"
    path.write_bytes(IMAGE)
    text = str(path).encode()
    for given in (str(path), text, np.frombuffer(text, np.uint8), np.frombuffer(text + b"\0", np.int8)):
        assert fn.io.file.read(given).tobytes() == IMAGE
    (read,) = outputs(lambda: fn.io.file.read(fn.external_source(lambda: [str(path), str(path)])))
    assert read.at(1).tobytes() == IMAGE
    for arguments in ({"file_root": tmp_path, "files": ["a.bmp"]}, {"files": [path]}, {"files": pathlib.Path(path)}):
        data, _ = outputs(lambda: tuple(fn.readers.file(**arguments)))  # noqa: B023
        assert data.at(0).tobytes() == IMAGE
    (tmp_path / "list.txt").write_text("a.bmp 3\n")
    _, label = outputs(lambda: tuple(fn.readers.file(file_root=tmp_path, file_list=tmp_path / "list.txt")))
    assert int(label.at(0).item()) == 3


def test_a_list_of_arrays_is_a_batch_in_a_debug_run():
    """What was taken out of a node, changed and given to an operator again; its length is the batch's."""

    def define(drop=0):
        data = fn.external_source(lambda: [np.full((i + 1, 2), i, np.uint8) for i in range(2)], layout="HW")
        changed = [np.array(sample) + 1 for sample in data.get()]
        return fn.pad(changed[drop:], fill_value=9), fn.copy(data.get())

    padded, again = outputs(define, debug=True)
    assert np.array(padded.at(0)).tolist() == [[1, 1], [9, 9]]
    assert again.layout() == "HW"
    with pytest.raises(RuntimeError, match="a list of 1 array was given in a batch of 2"):
        outputs(lambda: define(1), debug=True)


def test_single_numbers_have_32_bits_unless_numpy_says_64():
    """A call without a pipeline: Python numbers become constants, a number of NumPy keeps its type."""
    found = {value: np.asarray(fn.copy(value)).dtype for value in (0.5, 3)}
    assert found == {0.5: np.float32, 3: np.int32}
    assert np.asarray(fn.copy(np.float64(0.5))).dtype == np.float64


def test_an_argument_that_is_a_number_is_no_truth_value_and_no_text():
    """float() would take both."""
    for value in (True, "1", None):
        with pytest.raises(TypeError, match="argument must be a number, not "):
            values._number(value)
    assert [values._number(value) for value in (2, 0.5, np.float32(0.25), np.array(3))] == [2.0, 0.5, 0.25, 3.0]


def test_several_outputs_are_a_list():
    """As in DALI: a program may append to it."""

    @pipeline_def(batch_size=1, num_threads=1)
    def define():
        outputs = fn.python_function(fn.external_source(lambda: [[1]]), function=lambda x: (x, x + 1), num_outputs=2)
        assert type(outputs) is list
        return outputs

    assert [int(batch.at(0)[0]) for batch in define().run()] == [1, 2]
    for _ in range(3):  # the first call prepares the others
        called = fn.random_bbox_crop(np.float32([[0.1, 0.1, 0.9, 0.9]]))
        assert type(called) is list
        assert len(called) == 3


def test_the_number_of_a_type_is_the_type():
    """As DALI's programs pass it; any other number is refused, and so is a truth value."""
    assert types.as_dtype(int(types.UINT8)) == np.uint8
    assert types.as_dtype(int(types.FLOAT16)) == np.float16
    with pytest.raises(TypeError, match=r"1000000 is not a type; use types.UINT8"):
        types.as_dtype(10**6)


@pytest.mark.parametrize("wanted", [np.int32, np.uint32, np.int64, np.uint64, np.uint8])
@pytest.mark.parametrize("source", [np.float32, np.float64])
def test_numbers_beyond_a_type_become_its_limits(source, wanted):
    """At the limit, one beyond and far beyond: the maximum of a 64-bit type is no number of a floating-point type."""
    limits = np.iinfo(wanted)
    given = np.array(
        [float(limits.max), float(limits.max) * 2, 1e30, np.inf, float(limits.min), -1e30, -np.inf, np.nan], source
    )
    found = types.saturate(given, np.dtype(wanted))
    assert found.tolist() == [limits.max] * 4 + [limits.min] * 3 + [0]
    below = np.nextafter(source(limits.max), source(0))
    assert types.saturate(np.array([below]), np.dtype(wanted)).tolist() == [
        min(int(np.floor(float(below) + 0.5)), limits.max)
    ]
