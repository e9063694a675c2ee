"""One of several augmentations for each sample, and the keywords that each of them takes."""

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from pipeflow.errors import nearest
from pipeflow.record.conditional.session import cond


def select(ops: Sequence[Callable[..., Any]], selected_op_idx: Any, *op_args: Any, **op_kwargs: Any) -> Any:
    """`ops[selected_op_idx](*op_args, **op_kwargs)`, with one index for each sample.

    Each of the functions is called once, while the graph is built, and runs for its samples only.
    """
    if not ops:
        raise ValueError("select needs at least one function to choose from")

    def among(first: int, last: int) -> Any:
        if first == last:
            return ops[first](*op_args, **op_kwargs)
        middle = (first + last) // 2
        return cond(selected_op_idx <= middle, lambda: among(first, middle), lambda: among(middle + 1, last))

    return among(0, len(ops) - 1)


def keywords(function: Callable[..., Any]) -> dict[str, bool]:
    """The arguments of an augmentation after data and parameter; the value is True if the argument is required."""
    found, positional = {}, 0
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.POSITIONAL_ONLY):
            positional += 1
            if positional <= 2:
                continue
        if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            found[name] = parameter.default is parameter.empty
    return found


def positional_count(function: Callable[..., Any]) -> int:
    """The number of arguments that can be passed by position."""
    kinds = [parameter.kind for parameter in inspect.signature(function).parameters.values()]
    return sum(kind in (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.POSITIONAL_ONLY) for kind in kinds)


def forbid_unused(augmentations: Iterable[Any], given: Mapping[str, Any], caller: str) -> None:
    """Refuses keywords that none of the augmentations takes."""
    known = sorted({name for augmentation in augmentations for name in keywords(augmentation.op)})
    unused = [name for name in given if name not in known]
    if unused:
        raise TypeError(f"{caller}: none of the augmentations takes {unused[0]!r}{nearest(unused[0], known)}")


def draw_seed(seed: int | None, number: int) -> int | None:
    """A seed for one of several draws, computed from the user's seed: draws with equal seeds would be equal."""
    return None if seed is None else (seed + number * 0x9E3779B97F4A7C15) % 2**63
