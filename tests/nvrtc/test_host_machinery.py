"""The host that stands in for a device notices what a device would not forgive."""

import numpy as np
import pytest
from host_device import HostMemory, check_rows, launch_on_host

from pipeflow.device.calls import DeviceCall, row_type
from pipeflow.operators.on_gpu.moves import MOVE_ROW

MOVE = "move.cu:move<unsigned char>"


def test_rows_of_another_layout_are_refused():
    """A field too few, one of another size, and floating point in the place of an integer."""
    check_rows(MOVE, MOVE_ROW)
    fields = {name: "".join(map(str, MOVE_ROW[name].shape)) + MOVE_ROW[name].base.str for name in MOVE_ROW.names}
    short = dict(list(fields.items())[:-1])
    narrow = {**fields, "total": "u2"}
    floating = {**fields, "total": "f4"}
    renamed = {("whole" if name == "total" else name): code for name, code in fields.items()}
    for wrong, message in ((narrow, "total"), (floating, "total"), (renamed, "whole"), (short, "size of the row")):
        with pytest.raises(AssertionError, match=message):
            check_rows(MOVE, row_type(**wrong))


def test_a_launch_with_rows_of_another_layout_is_refused():
    """The check stands before every launch."""
    rows = np.zeros(1, row_type(input="u8", output="u8"))
    with pytest.raises(AssertionError, match="size of the row"):
        DeviceCall(None, [], HostMemory()).launch(MOVE, rows, [1])


def test_an_instance_that_is_not_listed_is_refused():
    """A device would not have compiled it."""
    with pytest.raises(AssertionError, match=r"move<double> is in no line of instances in move\.cu"):
        launch_on_host("move.cu:move<double>", 1, 1, 0, 0, 0)
