"""The `dtypes` of a declaration: which types the first input may have."""

import numpy as np
import pytest

from pipeflow import declare, errors, types
from pipeflow.declare import registration


@pytest.fixture
def only_floats(monkeypatch):
    monkeypatch.setattr(registration, "registry", {})

    @declare.operator("twice", dtypes="uint8 float")
    def twice(x: declare.Sample, /) -> declare.Sample:
        """Doubles."""
        return x * 2

    return twice


def test_groups_and_names_of_types_are_told_apart():
    """`number` is every type of numbers, the other words narrow it."""
    assert types.dtypes_of("number") == types.NUMBERS
    assert {str(dtype) for dtype in types.dtypes_of("float uint8")} == {"float16", "float32", "float64", "uint8"}
    assert len(types.dtypes_of("integer")) == 8
    assert types.dtypes_of("bool") == {np.dtype(bool)}


def test_an_undeclared_type_is_refused_with_the_declared_ones(only_floats):
    """The message names the type that came and those that may come; DALI's RuntimeError catches it, too."""
    assert np.array_equal(only_floats(np.ones(2, np.uint8)), [2, 2])
    with pytest.raises(errors.UnsupportedType, match="does not take int32; it takes uint8, float16, float32, float64"):
        only_floats(np.ones(2, np.int32))
    assert issubclass(errors.UnsupportedType, RuntimeError)
    with pytest.raises(TypeError, match="does not take int32"):
        only_floats.specs([declare.Spec((2,), np.int32)], {}, 1)


def test_an_array_is_taken_for_an_image_of_its_number_of_axes():
    """An operator that takes any data finds the declared layout of an array with channels, or none."""
    for op in declare.registry.values():
        for ndim in range(6):
            layout = op.layout_of_array(ndim)
            assert layout in ("", *op.layouts), op.name
            assert not layout or (len(layout) == ndim and layout[-1] == "C" and op.generic), op.name
    assert registration.find("flip").layout_of_array(2) == ""
