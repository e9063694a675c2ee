"""Compiling kernels before the first sample needs them.

A kernel is compiled for the types of its arguments. ``prepare`` runs every step of a plan on one blank sample with the
known types of its inputs. This only saves time: other kernels are compiled when they are first called.
"""

import logging
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from pipeflow import progress
from pipeflow.compile import first_batches
from pipeflow.compile.first_batches import Trial, load_kernels
from pipeflow.declare import Spec, find
from pipeflow.kernels import cpu as kernels
from pipeflow.plan import Plan, Step, has_kernels

log = logging.getLogger("pipeflow")

EXTENT = 512  # the extent of an unknown axis: larger than common crops, and small enough to take no time
GUESSES = {"C": 3, "F": 2, "D": 4}
SAID = 1.0  # compilation that takes this number of seconds gets a line in the log


def prepare(plan: Plan) -> int:
    """Compiles the kernels of a plan, as far as the types are known; returns their number.

    Steps that can begin in NumPy get their kernels after the second batch (`first_batches.py`).
    """
    steps = [step for stage in plan.stages if stage.kind == "sample" for step in stage.steps]
    late = [step for step in steps if find(step.op).begins_in_numpy]
    if late and first_batches.begin([trial_of(plan, step) for step in late if has_kernels(step)]):
        steps = [step for step in steps if step not in late]
    # Decoders have no kernels but those of plain files, which a library reads, too, until they are ready.
    decoders = [step for step in late if not has_kernels(step)] if first_batches.waits() else []
    steps = [step for step in steps if has_kernels(step)]
    if not steps and not decoders:
        return 0

    def show() -> None:
        copy_large()
        if first_batches.waits() and any(find(step.op).calls_hook is not None for step in steps):
            kernels.kernel_calls.load(files=any(step.fetch for step in plan.steps()))
            if any(find(step.op).draws for step in plan.steps()):
                kernels.keys.load()
        for step in progress.over(decoders, "compile decoders of step", len(decoders)):
            load_ahead(plan, step)
        for step in progress.over(steps, "compile kernels of step", len(steps)):
            show_blank(plan, step)

    compiled = counted(show)
    if late:
        first_batches.mark([trial_of(plan, step) for step in late if has_kernels(step)])
    return compiled


def copy_large() -> None:
    """Compiles the kernel that copies large batches."""
    kernels.everyday.copy(np.zeros(1, np.uint8), np.empty(1, np.uint8))


def counted(work: Callable[[], Any]) -> int:
    """Runs the work, and logs in one line what it compiled."""
    before, started = kernels.jit.compiled_count(), time.perf_counter()
    work()
    compiled, seconds = kernels.jit.compiled_count() - before, time.perf_counter() - started
    if compiled:
        folder = kernels.jit.cache_folder()
        kept = f"stored in {folder} for the next process" if folder else "not stored: no folder can be written"
        level = logging.WARNING if seconds > SAID else logging.INFO
        log.log(level, "compiled %d kernels in %.1f s (%s)", compiled, seconds, kept)
    return compiled


def load_ahead(plan: Plan, step: Step) -> None:
    """Loads the kernels that the operator of a step declares; an error appears when the step needs them."""
    try:
        load_kernels(find(step.op), {name: plan.constant(value) for name, value in step.constants})
    except Exception as error:
        log.debug("the kernels of %s cannot be loaded: %r", step.op, error)


def show_blank(plan: Plan, step: Step) -> None:
    """Runs the step once on a made-up sample; the errors of an operator that cannot use it are ignored."""
    trial = trial_of(plan, step)
    if trial is not None:
        trial.run()


def trial_of(plan: Plan, step: Step) -> Trial | None:
    """The step with the known types of its inputs; None if they are not known."""
    inputs = [blank(plan.slots[slot].spec) for slot in step.inputs]
    if any(x is None for x in inputs):
        return None
    arguments = {}
    for name, slot in step.arguments:
        value = blank(plan.slots[slot].spec, small=True)
        arguments[name] = np.ones(1, np.float32) if value is None else value + value.dtype.type(1)
    return Trial(
        step.op,
        {name: plan.constant(value) for name, value in step.constants},
        [(x.shape, x.dtype) for x in inputs if x is not None],
        [plan.slots[slot].spec.layout or "" for slot in step.inputs],
        arguments,
        len(step.outputs),
    )


def blank(spec: Spec, small: bool = False) -> np.ndarray | None:
    """Zeros of the type of an input; None if its type or number of axes is not known."""
    if spec.dtype is None or spec.shape is None or spec.dtype.kind == "O":
        return None
    layout = spec.layout or "*" * len(spec.shape)
    guesses = [1 if small else GUESSES.get(letter, EXTENT) for letter in layout]
    return np.zeros([guess if extent is None else extent for extent, guess in zip(spec.shape, guesses)], spec.dtype)
