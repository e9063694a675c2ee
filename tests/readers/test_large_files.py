"""Sizes and places above 4 GiB, which 32 bits cannot hold: what is behind them is read. The files are holes on the disk."""

import numpy as np
import pytest
from readers import records
from test_fits import unit as fits_unit
from test_mxnet import body, part

from pipeflow import tfrecord
from pipeflow.operators.readers.fits import FitsReader
from pipeflow.operators.readers.mxnet import MXNetReader
from pipeflow.operators.readers.numpy import NumpyReader
from pipeflow.operators.readers.tfrecord import TFRecordReader, scan, write_index

SIZES = [(4 << 30) - 4, 4 << 30, (5 << 30) + 12, (33 << 30) + 4]


@pytest.mark.parametrize("size", SIZES)
def test_a_region_at_the_end_of_an_array(tmp_path, size):
    """The last elements of bytes and of rows whose number alone fits into 32 bits."""
    for name, shape, kind in (
        ("bytes", (size,), "|u1"),
        ("rows", (size // 4, 4), "|u1"),
        ("shorts", (size // 2,), "<i2"),
    ):
        path = tmp_path / f"{name}.npy"
        with open(path, "wb") as file:
            header = {"descr": kind, "fortran_order": False, "shape": shape}
            np.lib.format.write_array_header_1_0(file, header)
            start = file.tell()
            file.seek(start + size - 4)
            file.write(b"\1\2\3\4")
        region = {"roi_start": (shape[0] - 1,), "roi_axes": (0,)}
        last = NumpyReader(files=[str(path)], **region).fetch(0)[0]
        expected = {"bytes": [4], "rows": [[1, 2, 3, 4]], "shorts": [0x0403]}[name]
        assert last.tolist() == expected


@pytest.mark.parametrize("size", SIZES)
def test_a_record_behind_a_large_one(tmp_path, size):
    """The scan steps over the large record, and an index file has its place and size."""
    path, index = tmp_path / "large.tfrecord", tmp_path / "large.idx"
    last = records.record(records.example({"x": [7]}))
    head = size.to_bytes(8, "little")
    with open(path, "wb") as file:
        file.write(head + records.masked(head).to_bytes(4, "little"))
        file.seek(12 + size + 4)
        file.write(last)
    whole = 12 + size + 4
    assert scan(str(path)).tolist() == [[0, whole], [whole, len(last)]]
    assert write_index(str(path), str(index)) == 2
    assert index.read_text().split() == ["0", str(whole), str(whole), str(len(last))]
    reader = TFRecordReader(
        path=str(path), index_path=str(index), features={"x": tfrecord.FixedLenFeature([1], tfrecord.int64, 0)}
    )
    assert reader.fetch(1)[0].tolist() == [7]


@pytest.mark.parametrize("size", SIZES)
def test_an_image_far_behind_in_a_recordio_file(tmp_path, size):
    """The index has places of any size."""
    path, index = tmp_path / "large.rec", tmp_path / "large.idx"
    with open(path, "wb") as file:
        file.write(part(body(b"first", 1.0)))
        file.seek(size)
        file.write(part(body(b"last", 2.0)))
    index.write_text(f"0\t0\n1\t{size}\n")
    reader = MXNetReader(path=str(path), index_path=str(index))
    assert [bytes(reader.fetch(number)[0]) for number in range(2)] == [b"first", b"last"]


@pytest.mark.parametrize("size", SIZES)
def test_a_unit_behind_a_large_one(tmp_path, size):
    """Units of a FITS file are stepped over whatever their axes say together."""
    path = tmp_path / "large.fits"
    last = np.arange(6, dtype=np.int16).reshape(2, 3)
    header = fits_unit(None, first=True, BITPIX=8, NAXIS=2, NAXIS1=4, NAXIS2=size // 4)
    with open(path, "wb") as file:
        file.write(header)
        file.seek(len(header) + -(-size // 2880) * 2880)
        file.write(fits_unit(last))
    assert FitsReader(files=[str(path)], hdu_indices=[2]).fetch(0)[0].tolist() == last.tolist()
