"""Merges: the ends of the two branches of a condition."""

from typing import Any

import numpy as np

from pipeflow.errors import CAST, LAYOUT, RESHAPE, merge_error
from pipeflow.executor.batch import BatchRun
from pipeflow.executor.runners.sample_step import Placement, SampleStep
from pipeflow.plan import Plan, Step


class MergeStep(SampleStep):
    """Reads the side that a sample took, without a copy. It compares the kinds of the sides if they were not known before."""

    def __init__(self, plan: Plan, step: Step, inside: set[int], fetch: Any = None) -> None:
        super().__init__(plan, step, inside, fetch)
        self.first, self.second, self.predicate = self.inputs
        (self.output,), (self.storage,), (self.spec,) = step.outputs, self.storages, step.specs
        sides = [plan.slots[slot] for slot in step.inputs[:2]]
        self.constant = [side.storage == "constant" for side in sides]
        self.sides = [side.spec for side in sides]
        one, two = [(side.spec.dtype, side.spec.ndim) for side in sides]
        self.sure = None not in one and one == two  # dtypes are compared with dtypes: float64 == None in NumPy

    def run(self, batch: BatchRun, sample: int, row: list[Any], place: "Placement") -> None:
        values = batch.values
        for slot, polarity, inside in self.guard:
            if bool(row[slot] if inside else values[slot][sample]) is not polarity:
                return
        slot, inside = self.predicate
        slot, inside = self.first if (row[slot] if inside else values[slot][sample]) else self.second
        if inside:
            result = row[slot]
        else:
            held = values[slot]
            result = held[sample] if type(held) is list else held[sample, ...]
        if not batch.layouts[self.output]:
            batch.layouts[self.output] = batch.layouts[slot]
        if self.storage == "table":
            if self.step.copied:
                kept = place.memory[0].empty(result.shape, result.dtype)
                np.copyto(kept, result)
                result = kept
            values[self.output][sample] = result
        row[self.output] = result

    def run_whole(self, batch: BatchRun) -> None:
        """Merges all samples at once, at the end of a stage."""
        (first, second), size = self.step.inputs[:2], batch.size
        sides = [_rows(batch.values[slot], constant) for slot, constant in zip((first, second), self.constant)]
        flags = batch.mask(((self.step.inputs[2], True),)) if size else []
        (a, b) = sides
        results: list[Any] = [a[k] if flag else b[k] for k, flag in enumerate(flags)]
        if self.step.guard:
            results = [x if holds else None for x, holds in zip(results, batch.mask(self.step.guard))]
        batch.values[self.output] = results
        taken, other = (
            (first, second) if any(flags) else (second, first)
        )  # a side without samples may have a layout too
        batch.layouts[self.output] = self.spec.layout or batch.layouts[taken] or batch.layouts[other] or ""
        self.finish(batch)

    def finish(self, batch: BatchRun) -> None:
        """Compares the sides of one batch if their kinds were not known before."""
        first, second, predicate = self.step.inputs
        a, b = batch.layouts[first], batch.layouts[second]
        layouts_differ = bool(a and b and a != b)
        if self.storage != "table" or (self.sure and not layouts_differ):
            return
        known: list[Any] = [None, None]  # (dtype, axes) of each side, from the samples that took it
        for sample, (flag, array) in enumerate(zip(batch.mask(((predicate, True),)), batch.values[self.output])):
            if array is None or (batch.failures and sample in batch.failures):
                continue
            side = 0 if flag else 1
            known[side] = kind = array.dtype, array.ndim
            other = known[1 - side]
            if other is None:
                continue
            if other != kind:
                one, two = [f"{dtype} {ndim}-d" for dtype, ndim in known]
                advice = CAST if other[1] == kind[1] else RESHAPE
                batch.fail(self._error(one, two, advice), self.step, sample)
                return
            if layouts_differ:
                batch.fail(self._error(f"layout {a}", f"layout {b}", LAYOUT), self.step, sample)
                return

    def _error(self, first: str, second: str, advice: str) -> RuntimeError:
        one, two = self.constants["sides"]
        return RuntimeError(merge_error(self.constants["variable"], f"{first} {one}", f"{second} {two}", advice))


def _rows(values: Any, constant: bool) -> Any:
    """The samples of a slot by their index. Those of a constant are copied, because the user may write into a batch."""
    if constant:
        values = np.array(values)
    if isinstance(values, np.ndarray) and values.ndim == 1:
        return [values[index, ...] for index in range(len(values))]  # a plain index would give NumPy scalars
    return values
