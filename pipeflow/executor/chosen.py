"""The settings that a tuner chooses, and which changes of them cannot help."""

from typing import NamedTuple

from pipeflow.executor.measuring import Effort

FULL = 0.9  # a share of the time: threads, processors or a stage that are at work for longer have no time left
OCCUPIED = 0.7  # share of the time that threads have work, if more of them may do more
COMPUTING = (
    0.75  # share of the time that threads are on a processor, if they do not wait; and processors of a busy process
)
ALONE = 1.2  # processors for a thread that does the work of others too: what they lose by taking turns is not work


class Chosen(NamedTuple):
    """The settings that a tuner changes."""

    threads: int
    depth: int  # batches made ahead
    alone: bool = False  # only one thread at a time calls functions with parallel="auto"


def can_help(work: Effort, change: Chosen, kept: Chosen, processors: float, computing_share: float) -> bool:
    """False if a change of the settings, at which the threads did this work, cannot make batches come more often.

    Threads that are on a processor for ``computing_share`` of their time do not wait for anything else.
    """
    saturated = work.wanted >= FULL * processors
    ordered = max(work.ordered, work.alone) if change.alone else work.ordered
    if change.threads < kept.threads:  # they may disturb each other, if they compute, and fewer can do the same work
        return work.wanted >= COMPUTING and min(work.computing, work.used) <= change.threads * ALONE
    if change.threads > kept.threads:
        computing = kept.threads >= processors and work.busy + work.queued > computing_share * work.inside
        occupied = work.alone if kept.alone and not change.alone else work.inside / kept.threads
        return not (saturated or computing) and occupied >= OCCUPIED and ordered < FULL
    if change.alone != kept.alone:
        return kept.threads > 1
    return ordered < FULL and (work.inside < FULL * kept.threads or not saturated)
