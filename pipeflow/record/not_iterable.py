"""Objects whose error says why they cannot be iterated over, and for which `isinstance(x, Iterable)` is False.

Programs use that test to distinguish one output from several. The test looks for methods in the ``__mro__`` of the class. Python
itself does not read that attribute to find a method, so it finds the methods of this file, which raise the error.
"""

from collections.abc import Iterator
from typing import Any


class _Refusals:
    """The methods of containers. Each raises an error that says what to write instead."""

    __slots__ = ()

    def __iter__(self) -> Iterator[Any]:
        raise TypeError(
            "a DataNode cannot be iterated over or unpacked: it is one batch, whose samples are known only when the pipeline "
            "runs. Index it for parts of each sample (x[0]); an operator with several outputs returns a list of DataNodes"
        )

    def __len__(self) -> int:
        raise TypeError(
            "a DataNode has no length: the batch size is known only when the pipeline runs. Use x.shape() for the extents "
            "of each sample"
        )

    def __contains__(self, item: Any) -> bool:
        raise TypeError(
            "`in` cannot look into a DataNode: its values are known only when the pipeline runs. Compare instead: x == value"
        )


class _NoIterationInItsClass(type):
    @property
    def __mro__(cls) -> tuple[type, ...]:
        return tuple(base for base in type.mro(cls) if base is not _Refusals)


class OneValue(_Refusals, metaclass=_NoIterationInItsClass):
    """Base of objects that are one value for every program."""

    __slots__ = ()
