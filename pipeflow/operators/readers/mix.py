"""`fn.mix`: samples of several readers in one stream, in given proportions."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import compress
from typing import Any

import numpy as np

from pipeflow.declare import Args, Node, Spec, default, find, required, source
from pipeflow.operators.readers.ahead import Span
from pipeflow.operators.readers.mixed_order import MixedOrder, mixed_order
from pipeflow.operators.readers.order import Order, located
from pipeflow.operators.readers.reader import Reader
from pipeflow.operators.readers.view import RemoteView


class MixedReader(Reader):
    """A source that walks the samples of several readers in the order of a mixture."""

    @property
    def order(self) -> Order:
        """The order of the mixture, by its own seed if it has one."""
        order: MixedOrder = self.samples.order
        return replace(order, **self._order)

    def view_of(self, index: int) -> RemoteView:
        """The view of the files of a sample, that of its reader."""
        return self.samples.view_of(index)

    def cache_figures(self) -> dict[str, int] | None:
        """The sums of the figures of all readers that have a cache."""
        return self.samples.cache_figures()


def _build(cls: type, *, seed: int | None = None, **arguments: Any) -> MixedReader:
    return MixedReader(lambda: cls(**arguments), {} if seed is None else {"seed": seed})


@source(
    "mix",
    fetches=True,
    build=_build,
    examples=["fn.mix([fn.readers.file(file_root='a'), fn.readers.file(file_root='b')])"],
)
class Mix:
    """Mixes the samples of several readers, in proportions that are right from the first samples on. `sources` has the output of
    each reader, or a tuple of its outputs; operators come after the mixture. Only the seed determines which sample is at which
    position: the number of threads and shards and a restart change nothing. The readers keep their own order; a shuffled reader
    is shuffled again each time that it begins again. All readers must have the same arguments for shards.
    """

    def __init__(
        self,
        sources: Any = required("the output of each reader, or a tuple of its outputs"),
        *,
        weights: Any = default(
            None,
            "proportions of the sources, in any unit, or a function from the number of the epoch to them; default: "
            "the sizes of the sources, so that each sample comes once in an epoch",
        ),
        epoch_size: int | None = default(
            None, "number of samples in an epoch of all shards together; default: that of all samples of the sources"
        ),
    ) -> None:
        self._readers: list[Reader] = []
        for name, constants, _ in sources:
            found = find(name).factory(**dict(constants))  # type: ignore[misc]
            assert isinstance(found, Reader)
            self._readers.append(found)
        self._outputs = [outputs for *_, outputs in sources]
        orders = [reader.order for reader in self._readers]
        self._ends = np.cumsum([order.size for order in orders])
        self._far = [getattr(reader.samples, "far", False) for reader in self._readers]
        self.far = any(self._far)
        self._grouped = [getattr(reader.samples, "in_groups", False) for reader in self._readers]
        self.in_groups = any(self._grouped)
        seeded = ["seed" in reader._order for reader in self._readers]
        self.order = mixed_order(orders, seeded, weights, epoch_size)

    def __len__(self) -> int:
        """The number of samples of all readers; an epoch has as many as ``order`` says."""
        return int(self._ends[-1])

    def fetch(self, index: int) -> tuple[np.ndarray, ...]:
        """The outputs of the sample's reader that are mixed."""
        number, within = located(self._ends, index)
        values = self._readers[number].fetch(within)
        return tuple([values[output] for output in self._outputs[number]])

    def spans(self, index: int) -> "Sequence[Span] | None":
        """Where the bytes of a sample on a server are; None if its reader does not tell, () if the sample is not on a server."""
        number, within = located(self._ends, index)
        samples = self._readers[number].samples
        if not self._far[number]:
            return ()
        return samples.spans(within) if hasattr(samples, "spans") else None

    def assembled(self, index: int, parts: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
        """The outputs of the sample's reader that are mixed, from the bytes of its spans."""
        number, within = located(self._ends, index)
        values = self._readers[number].samples.assembled(within, parts)
        return tuple([values[output] for output in self._outputs[number]])

    def groups(self, indices: np.ndarray) -> list[tuple[int, Any]]:
        """The groups in which readers read these samples, each with the number of its reader."""
        found: list[tuple[int, Any]] = []
        readers = np.searchsorted(self._ends, indices, side="right")
        for number, reader in enumerate(self._readers):
            if self._grouped[number]:
                before = int(self._ends[number - 1]) if number else 0
                found += [(number, group) for group in reader.samples.groups(indices[readers == number] - before)]
        return found

    def request(self, group: tuple[int, Any]) -> None:
        """Requests a group of a reader."""
        number, own = group
        self._readers[number].samples.request(own)

    def requested(self) -> int:
        """The bytes of groups that were requested and not decoded yet."""
        return sum(reader.samples.requested() for reader in compress(self._readers, self._grouped))

    def forget(self) -> None:
        """Drops the groups that were requested."""
        for reader in compress(self._readers, self._grouped):
            reader.samples.forget()

    def shared_files(self) -> list[str]:
        """The files of all readers that have several samples each."""
        return [path for reader in self._readers for path in reader.shared_files()]

    def view_of(self, index: int) -> RemoteView:
        """The view of the files of a sample."""
        return self._readers[located(self._ends, index)[0]].view

    def cache_figures(self) -> dict[str, int] | None:
        """The sums of the figures of all readers that have a cache; readers with the same folder have figures of their own."""
        found = [figures for reader in self._readers if (figures := reader.cache_figures()) is not None]
        return {name: sum(figures[name] for figures in found) for name in found[0]} if found else None

    def source_info(self, index: int) -> str:
        """The source_info of the sample."""
        number, within = located(self._ends, index)
        samples = self._readers[number].samples
        return samples.source_info(within) if hasattr(samples, "source_info") else f"sample {within} of source {number}"

    def source_name(self, index: int) -> str:
        """The source_name of the sample."""
        number, within = located(self._ends, index)
        samples = self._readers[number].samples
        return samples.source_name(within) if hasattr(samples, "source_name") else self.source_info(index)


mix = find("mix")


@mix.instead(["sources"])
def _(keywords: dict[str, Any]) -> Any:
    """Replaces the nodes of the readers in a call by plain data."""
    sources = keywords["sources"]
    if isinstance(sources, (Node, Mapping)):
        raise TypeError("fn.mix: sources is a list with one entry for each reader: fn.mix([a, b])")
    groups = [_outputs_of(entry, number) for number, entry in enumerate(sources)]
    parts = tuple(_part(group, number) for number, group in enumerate(groups))
    counts = [len(group) for group in groups]
    if len(set(counts)) > 1:
        raise ValueError(f"fn.mix: the sources have {counts} outputs: give as many of each")
    return mix(**{**keywords, "sources": parts})


def _outputs_of(entry: Any, number: int) -> list[Any]:
    nodes = (
        list(entry.values())
        if isinstance(entry, Mapping)
        else list(entry)
        if isinstance(entry, (list, tuple))
        else [entry]
    )
    if not nodes or not all(isinstance(node, Node) for node in nodes):
        raise TypeError(
            f"fn.mix: source {number} is {entry!r:.80}: give an output of a reader, or a tuple of its outputs"
        )
    return nodes


def _part(group: Sequence[Any], number: int) -> tuple[str, tuple[tuple[str, Any], ...], tuple[int, ...]]:
    recorded = group[0].source
    for node in group:
        if node.source is not recorded:
            raise ValueError(
                f"fn.mix: source {number} has outputs of two operators, {recorded} and {node.source}: each source is one reader"
            )
    if not recorded.op.fetches:
        raise TypeError(
            f"fn.mix: source {number} comes from {recorded.op.title}, which is no reader: mix what readers give and call "
            "operators on the mixture; fn.readers.dataset reads any object with a length and an index"
        )
    constants = {**recorded.constants, **({} if recorded.seed is None else {"seed": recorded.seed})}
    return recorded.op.name, tuple(constants.items()), tuple(node.index for node in group)


@mix.check
def _(args: Args) -> None:
    """Raises an error unless the value is a list of readers."""
    if not args.sources or not all(isinstance(part, (list, tuple)) and len(part) == 3 for part in args.sources):
        raise ValueError(f"sources has one entry for each reader, fn.mix([a, b]), got {args.sources!r:.80}")


@mix.outputs
def _(args: Args) -> int:
    return len(args.sources[0][2])


@mix.infer
def _(_: Sequence[Spec], args: Args) -> tuple[Spec, ...]:
    """The Spec that all readers have in common."""
    found = []
    for name, constants, outputs in args.sources:
        op = find(name)
        specs = op.specs((), dict(constants), op.outputs_of(dict(constants)))
        found.append(tuple(specs[output] for output in outputs))
    return tuple(first if all(x == first for x in rest) else Spec() for first, *rest in zip(*found))
