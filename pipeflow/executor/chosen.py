"""The settings that a tuner chooses, which changes of them cannot help, and what is expected of others."""

from dataclasses import replace
from typing import NamedTuple

from pipeflow.executor.contest import SPARES_AHEAD, Rival
from pipeflow.executor.measuring import Effort

FULL = 0.9  # a share of the time: threads, processors or a stage that are at work for longer have no time left
FED = 0.97  # share of the time that threads, or a stage, have work, if more batches ahead give them no more
OCCUPIED = 0.7  # share of the time that threads have work, if more of them may do more
COMPUTING = (
    0.75  # share of the time that threads are on a processor, if they do not wait; and processors of a busy process
)
ALONE = 1.2  # processors for a thread that does the work of others too: what they lose by taking turns is not work
FEW_AHEAD = 2  # batches ahead: with more of them the loop may get several at once, and then wait for long
BRIEF = 1e-3  # seconds of a batch: if it takes less, few batches are too few to compare settings
BRIEF_WORK = 3e-3  # seconds of a batch: threads that hand the interpreter over so often may do twice the work
IN_ORDER = 0.8  # a share of the work: if one thread at a time does as much, others seldom take the interpreter from it
WORTH = 0.03  # more threads are kept if batches come so much more often,
WORTH_AHEAD = 0.015  # more batches ahead if so much,
WORTH_LESS = 0.01  # fewer if so much: they leave more to the program
TURNS = 0.1  # the logarithm of what a batch probably needs less of the processors if one thread does what several do in turn
BESIDE = 0.04  # the same if a thread has more batches to read for one that works all the time


class Chosen(NamedTuple):
    """The settings that a tuner changes."""

    threads: int
    depth: int  # batches made ahead
    alone: bool = False  # only one thread at a time calls functions with parallel="auto"


def in_order(work: Effort, pace: float, kept: Chosen) -> bool:
    """True if nearly all of the work is that of one stage, in which one thread at a time works.

    Then a second thread does the other work at the same time, such as reading the source. With brief batches this is slower.
    """
    return pace >= BRIEF and max(work.ordered, work.alone if kept.alone else 0.0) >= IN_ORDER * work.inside


def works_beside(work: Effort, pace: float, change: Chosen, kept: Chosen) -> bool:
    """True if with a change two threads get more batches ahead, and one of them works in the same stage nearly all the time."""
    if change.threads != 2 or kept.threads < 2 or change.alone != kept.alone:
        return False
    return change.depth > kept.depth <= FEW_AHEAD and in_order(work, pace, kept)


def can_help(
    work: Effort, pace: float, change: Chosen, kept: Chosen, processors: float, computing_share: float
) -> bool:
    """False if a change of the settings, at which the threads did this work, cannot make batches come more often than every
    ``pace`` seconds.

    Threads that are on a processor for ``computing_share`` of their time do not wait for anything else.
    """
    saturated = work.wanted >= FULL * processors
    ordered = max(work.ordered, work.alone) if change.alone else work.ordered
    if change.threads < kept.threads:  # they may disturb each other, if they compute, and fewer can do the same work
        if change.threads == 1 and in_order(work, pace, kept):
            return False
        enough = pace < BRIEF_WORK or min(work.computing, work.used) <= change.threads * ALONE
        return work.wanted >= COMPUTING and enough
    if change.threads > kept.threads:
        computing = kept.threads >= processors and work.busy + work.queued > computing_share * work.inside
        occupied = work.alone if kept.alone and not change.alone else work.inside / kept.threads
        return not (saturated or computing) and occupied >= OCCUPIED and ordered < FULL
    if change.alone != kept.alone:
        return kept.threads > 1
    if works_beside(work, pace, change, kept):  # a thread that waits for the interpreter counts as at work
        return True
    return ordered < FED and (work.inside < FED * kept.threads or not saturated)


def worth_of(change: Chosen, kept: Chosen) -> float:
    """How much more often batches must come with a change, as a logarithm."""
    if change.threads > kept.threads:
        return WORTH
    return WORTH_AHEAD if change.depth > kept.depth else WORTH_LESS


def rival_of(change: Chosen, kept: Chosen, turns: Effort | None, pace: float) -> Rival[Chosen]:
    """A change as a rival of the kept settings; ``turns`` is the work of threads that together do the work of one, else None."""
    rival = Rival(
        change, worth_of(change, kept), adds=change.threads > kept.threads or (kept.alone and not change.alone)
    )
    if turns is not None and works_beside(turns, pace, change, kept):
        return replace(rival, spares=SPARES_AHEAD, expects=BESIDE, sure=0.0)
    if change == kept._replace(depth=change.depth):
        return replace(rival, spares=SPARES_AHEAD)
    if change.threads == kept.threads or turns is None:
        return rival
    fewer = change.threads < kept.threads
    return replace(rival, expects=TURNS if fewer else -TURNS, sure=0.0 if fewer else rival.sure)
