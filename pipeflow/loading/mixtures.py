"""Several data sets as one; a loader takes their items in given proportions."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pipeflow.errors import add_notes
from pipeflow.operators.readers.mixed_order import MixedOrder, mixed_order
from pipeflow.operators.readers.order import Order, located


class Mixture:
    """The items of several data sets, one data set after another; ``order`` returns the order in which a loader mixes them."""

    def __init__(
        self,
        datasets: Sequence[Any],
        weights: "Sequence[float] | Callable[[int], Sequence[float]] | None" = None,
        epoch_size: int | None = None,
    ) -> None:
        self.datasets = list(datasets)
        self.weights, self.epoch_size = weights, epoch_size
        if not self.datasets:
            raise ValueError("pipeflow.mix needs at least one data set")
        for number, dataset in enumerate(self.datasets):
            for method in ("__len__", "__getitem__"):
                if not hasattr(dataset, method):
                    raise TypeError(
                        f"data set {number}, {type(dataset).__name__}, has no {method}: a mixture needs data sets with a length "
                        "and an index"
                    )
            if not len(dataset):
                raise ValueError(f"data set {number}, {type(dataset).__name__}, has no items: leave it out")
        self._ends = np.cumsum([len(dataset) for dataset in self.datasets])
        self.order(shuffle=False)  # raises the error for wrong weights

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "weights": None}  # workers do not need them, and a function may not be picklable

    def __len__(self) -> int:
        """The number of items of all data sets; an epoch of a loader has ``epoch_size``."""
        return int(self._ends[-1])

    def __getitem__(self, index: int) -> Any:
        if not -len(self) <= index < len(self):
            raise IndexError(f"item {index} of {len(self)}")
        index %= len(self)
        number, within = located(self._ends, index)
        try:
            return self.datasets[number][within]
        except Exception as error:
            add_notes(error, [f"item {within} of data set {number}, {type(self.datasets[number]).__name__}"])
            raise

    def order(self, shuffle: bool) -> MixedOrder:
        """The order of an epoch, before it is divided over shards; each data set is shuffled separately."""
        orders = [Order(len(dataset), random_shuffle=shuffle) for dataset in self.datasets]
        return mixed_order(orders, [False] * len(orders), self.weights, self.epoch_size)


def mix(
    datasets: Sequence[Any],
    weights: "Sequence[float] | Callable[[int], Sequence[float]] | None" = None,
    *,
    epoch_size: int | None = None,
) -> Mixture:
    """Several data sets as one for ``pipeflow.loader``, which takes their items in the proportions of ``weights``.

    Weights are numbers in any unit, or a function that returns them for the number of an epoch; without weights, each item comes
    once in each epoch. An epoch has ``epoch_size`` items, by default the number of all items. A data set begins again after its
    last item; in the next epoch it continues after the item where it stopped. With ``shuffle=True`` in the loader, each data set
    is shuffled whenever it begins.
    """
    return Mixture(datasets, weights, epoch_size)
