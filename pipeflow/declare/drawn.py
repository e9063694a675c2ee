"""Results of random operators that are called outside of any pipeline.

The result of an eager call has the key that repeats it. An array that was drawn without any data also keeps its call. If a
pipeline reads such an array, or what arithmetic or an operator computed from it, the pipeline draws new numbers for every
sample, as if the call were inside the pipeline.
"""

import operator
from collections.abc import Callable, Mapping, Sequence
from contextvars import Context
from functools import cache
from typing import Any

import numpy as np

from pipeflow.errors import InvalidState

_AS_NODES: dict[str, Callable[..., Any]] = {
    "add": operator.add,
    "subtract": operator.sub,
    "multiply": operator.mul,
    "divide": operator.truediv,
    "floor_divide": operator.floordiv,
    "remainder": operator.mod,
    "power": operator.pow,
    "negative": operator.neg,
    "positive": operator.pos,
    "absolute": operator.abs,
    "equal": operator.eq,
    "not_equal": operator.ne,
    "less": operator.lt,
    "less_equal": operator.le,
    "greater": operator.gt,
    "greater_equal": operator.ge,
    "bitwise_and": operator.and_,
    "bitwise_or": operator.or_,
    "bitwise_xor": operator.xor,
    "invert": operator.invert,
}
FEW = 64  # the most numbers of an input that is not data


class ReportedArray(np.ndarray):
    """The result of an eager random operator; ``key`` repeats it."""

    key: int | None = None


class DrawnArray(ReportedArray):
    """An array drawn without data, or computed only from such arrays; ``node`` is the same inside a pipeline."""

    _make: Callable[[], Any] | None = None
    _node: Any = None

    @classmethod
    def of(cls, values: Any, key: int | None, make: Callable[[], Any] | None) -> "DrawnArray":
        """A DrawnArray of these values; ``make`` returns the node for them."""
        result = np.asarray(values).view(cls)
        result.key, result._make = key, make
        return result

    @property
    def node(self) -> Any:
        """The draw as a node. All uses of the array get the same node."""
        if self._make is None:
            raise InvalidState(
                "this array was computed outside of any pipeline from what a random operator drew there, so it would be the "
                "same for all samples of all batches. Compute it inside the pipeline definition; np.array(x) makes it a constant"
            )
        if self._node is None:
            # In an empty context, so that the node belongs to no pipeline and others can take it too.
            self._node = Context().run(self._make)
        return self._node

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        plain = [x.view(np.ndarray) if isinstance(x, DrawnArray) else x for x in inputs]
        outputs = options.get("out")
        if outputs is not None:
            options["out"] = tuple(x.view(np.ndarray) if isinstance(x, DrawnArray) else x for x in outputs)
        values = getattr(ufunc, method)(*plain, **options)
        if not isinstance(values, (np.ndarray, np.generic)):
            return values
        compute = _AS_NODES.get(ufunc.__name__) if method == "__call__" and not options else None
        return DrawnArray.of(values, None, compute and (lambda: compute(*nodes_of(inputs))))


def nodes_of(values: Sequence[Any]) -> list[Any]:
    """The values, with nodes in place of drawn arrays."""
    return [value.node if isinstance(value, DrawnArray) else value for value in values]


def reads_drawn(inputs: Sequence[Any], keywords: Mapping[str, Any]) -> bool:
    """True if an input or an argument of a call was drawn outside of any pipeline."""
    return any(isinstance(value, DrawnArray) for value in (*inputs, *keywords.values()))


def redrawn(inputs: Sequence[Any], keywords: Mapping[str, Any]) -> tuple[Sequence[Any], Mapping[str, Any]]:
    """The inputs and arguments of a call that makes a node, with nodes in place of arrays that were drawn outside."""
    if not reads_drawn(inputs, keywords):
        return inputs, keywords
    return nodes_of(inputs), dict(zip(keywords, nodes_of(list(keywords.values()))))


def _item_of(node: Callable[[], Any], index: int) -> Callable[[], Any]:
    return lambda: node()[index]


def computed(call: Callable[..., Any], inputs: Sequence[Any], keywords: Mapping[str, Any], result: Any) -> Any:
    """The result of an eager call of an operator that read drawn arrays, which is drawn too.

    A result that also depends on data, and not only on a matrix or a few numbers, is left as it is: it would keep the data in
    memory.
    """
    if not all(
        isinstance(x, (DrawnArray, bool, int, float)) or (type(x) is np.ndarray and x.size <= FEW) for x in inputs
    ):
        return result

    @cache
    def node() -> Any:
        return call(*redrawn(inputs, keywords))

    if isinstance(result, (list, tuple)):
        return type(result)(DrawnArray.of(one, None, _item_of(node, i)) for i, one in enumerate(result))
    return DrawnArray.of(result, getattr(result, "key", None), node) if isinstance(result, np.ndarray) else result
