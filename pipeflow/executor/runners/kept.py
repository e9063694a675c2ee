"""Steps that store samples for later epochs, and the steps that need not run for a stored sample."""

import hashlib
import json
import os
import platform
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

from pipeflow.errors import add_notes
from pipeflow.executor.batch import BatchRun
from pipeflow.executor.runners.sample_step import Placement, SampleStep
from pipeflow.executor.runners.source import SourceStep
from pipeflow.plan import External, Plan, Step
from pipeflow.progress import Progress
from pipeflow.saving.kept import Kept, contents, made_of, memory_home
from pipeflow.version import VERSION

_ORDER = """
    shard_id num_shards random_shuffle shuffle_after_epoch shuffle_after_epoch_seed stick_to_shard pad_last_batch lazy_init seed
    cache cache_bytes
"""  # arguments of a reader that change no sample


class KeptStep(SampleStep):
    """Returns a stored sample, or stores the sample that was made."""

    def __init__(self, plan: Plan, step: Step, inside: set[int]) -> None:
        super().__init__(plan, step, inside, None)
        self.stores: list[Kept] = []
        self.reader: SourceStep | None = None
        self.indices = -1  # slot of the reader's indices
        self.progress: Progress | None = None  # progress of the first epoch

    def open(self, plan: Plan, sources: Sequence[SourceStep]) -> None:
        """Opens the stores of these samples."""
        above = _above(self.step, plan.makers())
        fetches = [step for step in above if step.fetch]
        known = all(x.name in plan.externals for step in above for _, x in step.constants if isinstance(x, External))
        if len(fetches) != 1 or not known:  # a step without its plan, as in a debug run
            return
        self.reader = next(item for item in sources if item.step.name == fetches[0].name)
        self.indices = fetches[0].inputs[0]
        given = self.constants
        try:
            digest, known = self._digest(plan, above)
            if given.get("memory") is not None:
                name = digest if known else f"{digest}-{os.urandom(8).hex()}"
                self._add(memory_home() / name, given["memory"], in_memory=True)
            if given.get("disk") is not None:
                if not known:
                    raise ValueError(
                        f"the data of {self.reader.step.title} cannot be recognised in a later run: pass key=, a name of the "
                        "data, and change the name when the data changes"
                    )
                self._add(Path(given["disk"]) / digest, given.get("disk_bytes"), in_memory=False)
        except Exception as error:
            add_notes(error, self.step.notes())
            raise
        self.progress = Progress("fill the cache", len(self.reader.source.samples))

    def _add(self, folder: Path, most: int | None, *, in_memory: bool) -> None:
        assert self.reader is not None
        self.stores.append(Kept(folder, len(self.reader.source.samples), most, in_memory=in_memory))

    def _digest(self, plan: Plan, above: Sequence[Step]) -> tuple[str, bool]:
        """A name for the samples, and True if it depends on all data that the samples are made of."""
        key = self.constants.get("key")
        numbers: dict[int, int] = {}
        parts: list[Any] = [VERSION, platform.machine(), key]
        known = True
        for step in above:
            for slot in (*step.inputs, *(slot for _, slot in step.arguments), *step.outputs):
                numbers.setdefault(slot, len(numbers))
            values: list[Any] = []
            for name, value in sorted(step.constants):
                if step.fetch and name in _ORDER.split():
                    continue
                text = contents(plan.constant(value))
                known = known and (text is not None or key is not None)
                values.append((name, text))
                if step.fetch and key is None:
                    values.append((name, [made_of(path) for path in _texts(plan.constant(value))]))
            slots = [numbers[slot] for slot in (*step.inputs, *(slot for _, slot in step.arguments))]
            parts.append((step.op, values, slots, [name for name, _ in step.arguments], len(step.outputs)))
        shared = self.reader.source.shared_files() if self.reader is not None else []
        if key is None and shared:  # those that a pattern or a folder names, too
            parts.append([made_of(path) for path in shared])
        parts.append([numbers.get(slot) for slot in self.step.inputs])
        constants = [
            (numbers[slot], contents(plan.constant(value))) for slot, value in plan.constants if slot in numbers
        ]
        return hashlib.sha256(json.dumps([parts, constants]).encode()).hexdigest()[:32], known

    def _made_of(self, index: int) -> int:
        assert self.reader is not None
        samples = self.reader.source.samples
        return made_of(samples.source_info(index)) if hasattr(samples, "source_info") else 0

    def find(self, batch: BatchRun, sample: int, place: Placement) -> Any:
        """A sample that is kept; None if it must be made."""
        index = int(batch.values[self.indices][sample])
        origin = self._made_of(index)
        for store in self.stores:
            found = store.find(index, origin)
            if found is not None:
                if self.progress is not None:
                    self.progress.close()
                shape, dtype, layout = found
                place.sample, place.given = sample, None
                target = place(0, shape, dtype)
                store.read(index, target)
                return target, layout
        return None

    def give(self, batch: BatchRun, sample: int, row: list[Any], place: Placement, found: tuple[Any, str]) -> None:
        """Sets the sample that was found as the result of the step."""
        value, layout = found
        if batch.layouts[self.step.outputs[0]] is None:
            batch.layouts[self.step.outputs[0]] = layout
        self.keep(batch, sample, row, place, (value,))

    def run(self, batch: BatchRun, sample: int, row: list[Any], place: Placement) -> None:
        """Makes a sample and keeps it."""
        super().run(batch, sample, row, place)
        if self.stores:
            index = int(batch.values[self.indices][sample])
            layout = batch.layouts[self.step.outputs[0]] or ""
            origin = self._made_of(index)
            for store in self.stores:
                if store.keep(index, origin, row[self.step.outputs[0]], layout):
                    if self.progress is not None:
                        self.progress.step()
                    break


class Needed:
    """The steps of a stage that must run for a sample."""

    def __init__(self, steps: Sequence[SampleStep], outside: set[int]) -> None:
        self.kept = [n for n, step in enumerate(steps) if isinstance(step, KeptStep) and step.stores]
        self._choices = {
            found: _needed(steps, [n for n, there in zip(self.kept, found) if there], outside)
            for found in product((False, True), repeat=len(self.kept))
        }

    def numbers(self, batch: BatchRun, sample: int, row: list[Any], members: Sequence[Any]) -> Sequence[int]:
        """The steps that have to run, by their numbers; a sample that is kept is in its slot already."""
        found = []
        for number in self.kept:
            step, _, place = members[number]
            value = step.find(batch, sample, place)
            if value is not None:
                step.give(batch, sample, row, place, value)
            found.append(value is not None)
        return self._choices[tuple(found)]


def _needed(steps: Sequence[SampleStep], found: Sequence[int], outside: set[int]) -> list[int]:
    """The steps whose results are used, if the samples in `found` are stored."""
    used = set(outside)
    result = []
    for number in reversed(range(len(steps))):
        step = steps[number].step
        if number in found:
            continue
        if used.intersection(step.outputs) or not steps[number].op.traits_of(steps[number].constants).pure:
            result.append(number)
            used.update(step.reads())
    return result[::-1]


def _above(step: Step, makers: dict[int, Step]) -> list[Step]:
    """The steps on which a step depends, each after those that it reads."""
    found: list[Step] = []

    def visit(slot: int) -> None:
        maker = makers.get(slot)
        if maker is None or maker in found:
            return
        if not maker.fetch:
            for read in maker.reads():
                visit(read)
        found.append(maker)

    for slot in step.reads():
        visit(slot)
    return found


def _texts(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, (list, tuple)) and len(value) <= 10_000:
        return [text for item in value for text in _texts(item)]
    return []
