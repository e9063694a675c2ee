"""Objects that say why they cannot be looped over, and that `isinstance(x, Iterable)` still takes for single values.

Programs tell one output from several by that question. It searches the classes of an object for the methods, by their
``__mro__``; Python's own lookup of methods does not go through that attribute, and finds those that refuse.
"""

from collections.abc import Iterator
from typing import Any


class _Refusals:
    """The methods of containers, each refusing with what to do instead."""

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


class _OneValue(type):
    @property
    def __mro__(cls) -> tuple[type, ...]:  # type: ignore[override]
        return tuple(base for base in type.mro(cls) if base is not _Refusals)


class OneValue(_Refusals, metaclass=_OneValue):
    """Base of what is one value to every program, though it has values inside."""

    __slots__ = ()
