"""fn.readers.fits: images of every type, their units and scales, and damaged files."""

import numpy as np
import pytest
from readers.conformance import check_reader

from pipeflow import fn, pipeline_def, types
from pipeflow.errors import BadData
from pipeflow.operators.readers.fits import FitsReader

BITS = {"u1": 8, "i2": 16, "i4": 32, "i8": 64, "f4": -32, "f8": -64}
MOVED = {"i1": ("u1", -(2**7)), "u2": ("i2", 2**15), "u4": ("i4", 2**31), "u8": ("i8", 2**63)}


def unit(array, first=False, **cards):
    """A header and the data of an array, as the standard says; None has no data."""
    code = array.dtype.str[1:] if array is not None else "u1"
    if code in MOVED:
        code, zero = MOVED[code]
        cards = {"BZERO": zero, "BSCALE": 1, **cards}
        array = (array.astype(object) - zero).astype(code)
    extents = array.shape[::-1] if array is not None else ()
    lines = [("SIMPLE", "T") if first else ("XTENSION", "'IMAGE   '"), ("BITPIX", BITS[code]), ("NAXIS", len(extents))]
    lines += [(f"NAXIS{axis}", extent) for axis, extent in enumerate(extents, 1)]
    lines += [*({} if first else {"PCOUNT": 0, "GCOUNT": 1}).items(), *cards.items()]
    text = "".join(f"{key:<8}= {value!s:>20} / a remark".ljust(80) for key, value in dict(lines).items())
    text += "END".ljust(80)
    data = b"" if array is None else array.astype(array.dtype.newbyteorder(">")).tobytes()
    return text.ljust(-(-len(text) // 2880) * 2880).encode() + data.ljust(-(-len(data) // 2880) * 2880, b"\0")


def image(code, seed=0):
    rng = np.random.default_rng(seed)
    low, high = (-100, 100) if code[0] in "if" else (0, 250)
    return rng.integers(max(low, -100), high, (5, 7)).astype(code)


ARRAYS = [image(code) for code in (*BITS, *MOVED)]


def write(folder, *units, name="a.fits"):
    (folder / name).write_bytes(b"".join(units))
    return str(folder / name)


def test_the_promises_of_every_reader(tmp_path):
    """Each type, the first extension unless another is named; files of sub-folders in alphabetical order."""
    for place, array in enumerate(ARRAYS):
        write(tmp_path, unit(None, first=True), unit(array), name=f"{place:02}.fits")
    check_reader(lambda: FitsReader(file_root=str(tmp_path)), [(array,) for array in ARRAYS])


def test_several_units(tmp_path):
    """An output for each, in the order of the call; the axes in the order of NumPy; more than one block of header."""
    volume = np.arange(2 * 3 * 4, dtype=np.float32).reshape(2, 3, 4)
    many = {f"KEY{n}": n for n in range(60)}
    path = write(tmp_path, unit(ARRAYS[1], first=True, **many), unit(None), unit(volume), unit(ARRAYS[5]))
    third, first = FitsReader(files=[path], hdu_indices=[3, 1]).fetch(0)
    assert (third == volume).all()
    assert (first == ARRAYS[1]).all()

    @pipeline_def(batch_size=1, num_threads=1, device_id=None)
    def define():
        return tuple(
            fn.experimental.readers.fits(files=[path], hdu_indices=[4, 1], dtypes=[types.FLOAT64, types.INT16])
        )

    assert [np.asarray(output[0]).dtype.name for output in define().run()] == ["float64", "int16"]


def test_groups_and_what_is_beside_them_are_stepped_over(tmp_path):
    """Random groups (NAXIS1 = 0) hold GCOUNT times as many values as PCOUNT and the other axes say; the next unit follows."""
    data = np.arange(2 * (3 + 4 * 400), dtype=">i2")
    cards = {"NAXIS": 3, "NAXIS1": 0, "NAXIS2": 4, "NAXIS3": 400, "GROUPS": "T", "PCOUNT": 3, "GCOUNT": 2}
    header = unit(None, first=True, **{"BITPIX": 16, **cards})
    content = data.tobytes()
    path = write(tmp_path, header, content.ljust(-(-len(content) // 2880) * 2880, b"\0"), unit(ARRAYS[1]))
    (found,) = FitsReader(files=[path], hdu_indices=[2]).fetch(0)
    assert (found == ARRAYS[1]).all()


def test_scales(tmp_path):
    """Factor and offset give floats, missing values are not a number, and offsets alone make unsigned types."""
    short, whole = np.array([[1, 2, -9]], np.int16), np.array([5, 6], np.int32)
    path = write(tmp_path, unit(short, first=True, BSCALE="2.5D0", BZERO="-1.", BLANK=-9), unit(whole, BZERO=0.5))
    scaled, moved = FitsReader(files=[path], hdu_indices=[1, 2]).fetch(0)
    assert scaled.dtype == np.float32
    np.testing.assert_array_equal(scaled, [[1.5, 4, np.nan]])
    assert moved.dtype == np.float64
    assert moved.tolist() == [5.5, 6.5]


def test_an_offset_of_half_the_range_beside_a_factor(tmp_path):
    """It is no sign of an unsigned type then; the exponent may be written as a small d."""
    path = write(tmp_path, unit(np.array([[1, -2]], np.int16), first=True, BSCALE="20.d-1", BZERO=32768))
    (found,) = FitsReader(files=[path], hdu_indices=[1]).fetch(0)
    assert found.dtype == np.float32
    assert found.tolist() == [[32770, 32764]]


def test_images_that_could_have_groups(tmp_path):
    """GROUPS with a first axis that is not 0 says nothing about the size: the next unit is found."""
    path = write(tmp_path, unit(image("i2"), first=True, GROUPS="T"), unit(image("f4")))
    (found,) = FitsReader(files=[path]).fetch(0)
    np.testing.assert_array_equal(found, image("f4"))


def test_types_that_are_promised(tmp_path):
    """Another type in the file is an error that names both."""
    path = write(tmp_path, unit(image("i2"), first=True))
    assert FitsReader(files=[path], hdu_indices=[1], dtypes=types.INT16).fetch(0)[0].dtype == np.int16
    with pytest.raises(TypeError, match="unit 1 holds int16, 'dtypes' says float32"):
        FitsReader(files=[path], hdu_indices=[1], dtypes=[types.FLOAT]).fetch(0)
    with pytest.raises(ValueError, match="2 types in 'dtypes' for 1 unit"):
        FitsReader(files=[path], hdu_indices=[1], dtypes=[types.FLOAT] * 2)
    with pytest.raises(ValueError, match="hdu_indices must be one or more numbers from 1 on, got \\[0\\]"):
        FitsReader(files=[path], hdu_indices=[0])


GOOD = unit(image("i2"), first=True)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "has 0 units, unit 1 was to be read"),
        (b"GIF89a" + bytes(3000), "is not a FITS file: unit 1 begins with 'GIF89a"),
        (GOOD[:2880], "the data of unit 1, 70 bytes, is not inside the file of 2880"),
        (GOOD.replace(b"END", b"ENX"), "the header of unit 1 has no end"),
        (GOOD.replace(b"BITPIX  =                   16", b"BITPIX  =                   17"), "BITPIX is 17"),
        (
            GOOD.replace(b"NAXIS1  =                    7", b"NAXIS1  =                   -7"),
            "NAXIS1 must be a whole number",
        ),
        (GOOD.replace(b"NAXIS1  =", b"NAXIX1  ="), "NAXIS1 must be a whole number from 0 .* got 'nothing'"),
        (unit(None, first=True), "has no data"),
        (unit(image("i2"), first=True, BSCALE="'x'"), "BSCALE must be a number, got 'x'"),
        (unit(np.zeros((1,) * 33, np.uint8), first=True), "an image of 33 axes"),
    ],
)
def test_damaged_files(tmp_path, data, message):
    """Lengths are checked before anything is allocated; the message names the file and the unit."""
    with pytest.raises(BadData, match=r"a\.fits.*" + message):
        FitsReader(files=[write(tmp_path, data)], hdu_indices=[1]).fetch(0)


def test_tables_are_refused(tmp_path):
    """What is no image."""
    table = unit(image("u1")).replace(b"'IMAGE   '", b"'BINTABLE'")
    with pytest.raises(BadData, match="unit 2 is not an image but BINTABLE"):
        FitsReader(files=[write(tmp_path, unit(None, first=True), table)]).fetch(0)


def test_any_damage_is_an_error_of_the_data_or_data(tmp_path):
    """Characters changed at random give arrays or BadData, nothing else."""
    rng = np.random.default_rng(1)
    good = unit(image("u2"), first=True) + unit(image("f4"), BSCALE=2)
    refused = 0
    for _ in range(400):
        bad = np.frombuffer(good, np.uint8).copy()
        where = rng.integers(0, 9, 4) * 80 + rng.integers(0, 31, 4) + rng.integers(0, 2, 4) * 5760
        bad[where] = rng.choice(np.frombuffer(b"0123456789-=' ET.", np.uint8), 4)
        try:
            FitsReader(files=[write(tmp_path, bad.tobytes())], hdu_indices=[1, 2]).fetch(0)
        except BadData:
            refused += 1
    assert 100 < refused < 400


def test_the_names_of_files_in_a_list(tmp_path):
    """An error has the line of the list."""
    write(tmp_path, b"nothing", name="b.fits")
    (tmp_path / "list.txt").write_text("b.fits\n")
    with pytest.raises(BadData) as caught:
        FitsReader(file_list=str(tmp_path / "list.txt")).fetch(0)
    assert f"listed in {tmp_path / 'list.txt'}:1" in caught.value.__notes__


def test_images_for_the_gpu(tmp_path):
    """Each unit is copied there, and stays on the CPU in a pipeline without a GPU."""
    path = write(tmp_path, unit(ARRAYS[1], first=True), unit(ARRAYS[5]))

    @pipeline_def(batch_size=2, num_threads=1, device_id=None)
    def define():
        first, second = fn.readers.fits(files=[path] * 2, hdu_indices=[1, 2], device="gpu")
        assert first.device == second.device == "gpu"
        return first, second

    with pytest.warns(UserWarning, match="this runs on the CPU"):
        first, second = define().run()
    np.testing.assert_array_equal(first.as_array(), np.stack([ARRAYS[1]] * 2))
    np.testing.assert_array_equal(second.as_array(), np.stack([ARRAYS[5]] * 2))
