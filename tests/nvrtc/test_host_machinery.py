"""The host that stands in for a device notices what a device would not forgive."""

import numpy as np
import pytest
from host_device import HostMemory, check_rows, launch_on_host

from pipeflow.device_calls import DeviceCall, row_type
from pipeflow.operators.on_gpu.geometry import FLIP_ROW

FLIP = "flip.cu:flip<unsigned char>"


def test_rows_of_another_layout_are_refused():
    """A field too few, one of another size, and floating point in the place of an integer."""
    check_rows(FLIP, FLIP_ROW)
    fields = {name: FLIP_ROW[name].str for name in FLIP_ROW.names}
    short = dict(list(fields.items())[:-1])
    narrow = {**fields, "width": "i4"}
    floating = {**fields, "width": "f8"}
    renamed = {("wide" if name == "width" else name): code for name, code in fields.items()}
    for wrong, message in ((narrow, "width"), (floating, "width"), (renamed, "wide"), (short, "size of the row")):
        with pytest.raises(AssertionError, match=message):
            check_rows(FLIP, row_type(**wrong))


def test_a_launch_with_rows_of_another_layout_is_refused():
    """The check stands before every launch."""
    rows = np.zeros(1, row_type(input="u8", output="u8"))
    with pytest.raises(AssertionError, match="size of the row"):
        DeviceCall(None, [], HostMemory()).launch(FLIP, rows, [1])


def test_an_instance_that_is_not_listed_is_refused():
    """A device would not have compiled it."""
    with pytest.raises(AssertionError, match=r"flip<double> is not listed in pipeflow/kernels/gpu/__init__\.py"):
        launch_on_host("flip.cu:flip<double>", 1, 1, 0, 0, 0)
