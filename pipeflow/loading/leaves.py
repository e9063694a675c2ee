"""The arrays in a structure of dictionaries, named tuples, tuples and lists, with the path of each."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

Path = tuple[Any, ...]


def path_text(path: Path) -> str:
    """The path in Python's notation: ``['meta'][0].name``."""
    return "".join(f".{x.name}" if isinstance(x, Field) else f"[{x!r}]" for x in path)


def leaf_name(name: str, path: Path) -> str:
    """The name, in messages, of the value at a path."""
    return f"{name} at {path_text(path)}" if path else name


class Field:
    """A step of a path: the field of a named tuple."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f".{self.name}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Field) and other.name == self.name

    def __hash__(self) -> int:
        return hash(self.name)


def is_named_tuple(value: Any) -> bool:
    """True for a tuple whose fields have names."""
    return isinstance(value, tuple) and hasattr(value, "_fields")


def branches(value: Any) -> list[tuple[Any, Any]] | None:
    """The (step, value) pairs of a container; None for other values."""
    if isinstance(value, Mapping):
        return list(value.items())
    if is_named_tuple(value):
        return [(Field(name), x) for name, x in zip(value._fields, value)]
    if isinstance(value, Sequence) and not isinstance(value, (str, bytes, bytearray, memoryview)):
        return list(enumerate(value))
    return None


def rebuilt(value: Any, parts: Sequence[Any]) -> Any:
    """A container like `value` with other contents."""
    if isinstance(value, Mapping):
        return dict(zip(value, parts))
    if is_named_tuple(value):
        return type(value)(*parts)
    return tuple(parts) if isinstance(value, tuple) else list(parts)


def leaves(value: Any, path: Path = ()) -> list[tuple[Path, Any]]:
    """Every value that is not a container, with its path."""
    inner = branches(value)
    if inner is None:
        return [(path, value)]
    return [leaf for step, x in inner for leaf in leaves(x, (*path, step))]


def mapped(function: Callable[[Path, Any], Any], value: Any, path: Path = ()) -> Any:
    """The structure with every leaf replaced by `function(path, leaf)`."""
    inner = branches(value)
    if inner is None:
        return function(path, value)
    return rebuilt(value, [mapped(function, x, (*path, step)) for step, x in inner])


def difference(value: Any, model: Any, path: Path = ()) -> str:
    """The difference between the structure of a value and that of a model, "" if there is none."""
    mine, wanted = branches(value), branches(model)
    if mine is None and wanted is None:
        return ""
    here = path_text(path) or "itself"
    if mine is None or wanted is None:
        return f"{here} is {type(value).__name__} and was {type(model).__name__} in the first item"
    if isinstance(value, Mapping) and isinstance(model, Mapping):
        lacks, more = [x for x in model if x not in value], [x for x in value if x not in model]
        if lacks or more:
            text = f"{here} lacks {lacks}" if lacks else f"{here} has {more} more than the first item"
            return text
        mine = [(key, value[key]) for key in model]
    if len(mine) != len(wanted):
        return f"{here} has {len(mine)} values and the first item had {len(wanted)}"
    for (step, x), (_, other) in zip(mine, wanted):
        found = difference(x, other, (*path, step))
        if found:
            return found
    return ""


def values_like(value: Any, model: Any) -> list[Any]:
    """The leaves of a value in the order of the leaves of a model with the same structure."""
    inner = branches(model)
    if inner is None:
        return [value]
    mine = [value[key] for key in model] if isinstance(model, Mapping) else value
    return [leaf for x, (_, other) in zip(mine, inner) for leaf in values_like(x, other)]


def filled(model: Any, values: Sequence[Any]) -> Any:
    """A structure like `model` whose leaves, except those that are None, are the given values."""
    rest = iter(values)
    return mapped(lambda _path, leaf: None if leaf is None else next(rest), model)
