"""Random augmentation by ``fn.maybe`` and ``fn.one_of``: a random number chooses the branch of each sample."""

import itertools
from collections.abc import Callable, Sequence
from typing import Any

from pipeflow.operators.random import coin_flip, uniform
from pipeflow.record.conditional.session import cond

__all__ = ["maybe", "one_of"]


def maybe(probability: Any, function: Callable[..., Any] | None = None, *inputs: Any, seed: int | None = None) -> Any:
    """True with the given probability, for each sample. With a function: ``function(*inputs)`` where True, else the inputs.

    ``if fn.maybe(0.3): ...`` needs ``enable_conditionals=True``, ``fn.maybe(0.3, flip, images)`` does not. The probability is a
    number, or a node with a number for each sample. The function must return data like the inputs, as in any branch.
    """
    drawn = coin_flip(probability=probability, seed=seed) != 0
    if function is None:
        return drawn
    if not inputs:
        raise TypeError("fn.maybe: pass the inputs of the function too: they are the result for the other samples")
    return cond(drawn, function, lambda *same: same[0] if len(same) == 1 else same, *inputs)


def one_of(
    functions: Sequence[Callable[..., Any]],
    *inputs: Any,
    probabilities: Sequence[float] | None = None,
    seed: int | None = None,
) -> Any:
    """Calls one of the functions on each sample, chosen at random with equal or with the given probabilities.

    Each function is called once while the graph is built. Its operators run only for the samples that chose it. All must return
    the same kind of data.
    """
    if not functions or not all(map(callable, functions)):
        raise TypeError(f"fn.one_of: give a list of at least one function, got {functions!r}")
    weights = [1 / len(functions)] * len(functions) if probabilities is None else [float(p) for p in probabilities]
    if len(weights) != len(functions) or min(weights) < 0 or abs(sum(weights) - 1) > 1e-6:
        raise ValueError(f"fn.one_of: {len(functions)} functions need as many probabilities with sum 1, got {weights}")
    drawn = uniform(range=[0.0, 1.0], seed=seed)
    ends = list(itertools.accumulate(weights))

    def pick(position: int, *values: Any) -> Any:
        if position == len(functions) - 1:
            return cond(True, functions[position], functions[position], *values)
        return cond(drawn < ends[position], functions[position], lambda *rest: pick(position + 1, *rest), *values)

    return pick(0, *inputs)
