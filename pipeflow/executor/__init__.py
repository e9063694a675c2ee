"""Runs a Plan: threads, a ring of batches, and the memory between them.

The contract. A difference between it and the code is a bug.

1.  *Order.* Batches are delivered in the order in which they were scheduled. An ``ordered`` stage (sources, Python functions
    called one after another) takes batch k only when every earlier batch has passed it.
2.  *Work.* A thread takes the oldest work in the ring of batches: a chunk of samples of a sample stage, or a whole
    batch of any other stage. It waits only if the ring has none, and is woken by notification: nothing polls or sleeps. Only a
    caller that waits looks once a second whether an interrupt came.
3.  *Success.* ``take`` returns the outputs of the oldest batch. They are the caller's for as long as anything refers to them.
4.  *An error in a step* is kept with its batch and sample; the other samples of that stage still run, the later stages of
    that batch do not. ``take`` raises it in the batch's turn: the whole batch is consumed, prefetched ones are kept, and the
    next ``take`` gives the next batch. Of several failing samples the first is reported. The exception is the original object.
5.  *End of data.* The first StopIteration of a source ends the epoch: ``take`` raises StopIteration, again at every call,
    until ``reset``. Batches scheduled after the end are dropped and do not run.
6.  *Reset* waits for the work in flight, drops what was not delivered, and starts the next epoch at position 0.
7.  *A consumer that stops early* may drop the executor: ``close`` (also called when the pipeline is collected and at
    interpreter exit) lets running steps finish, starts no new ones and ends the threads.
8.  *SIGINT* may interrupt a caller at any instant. A batch belongs to the caller only when the call returns (``Handing``). Until
    then the next ``take`` gives the same batch. If a reset, or a similar call, was interrupted, the next call finishes it. If
    callers make the batches themselves, an interrupted batch is made again: from the samples of its sources, or with them.
9.  *Several callers* take turns; each batch goes to one of them.
10. *After fork* the child has no threads: every call there is refused with InvalidState. The parent is not affected.
11. *On a device* work is queued and not waited for: a batch is delivered when all its work is queued, and its consumer
    waits on the device. An error of the device is raised in the first batch whose work reports it.
12. *A step that calls back* into its own executor is refused with InvalidState, because it would wait for itself.
"""

from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

from pipeflow.executor.batch import Delivered
from pipeflow.executor.settings import Settings

if TYPE_CHECKING:
    from pipeflow.executor.failures import Failure
    from pipeflow.executor.ring import Executor

__all__ = ["Delivered", "Executor", "Failure", "Settings"]

_LATE = {"Executor": "ring", "Failure": "failures"}


def __getattr__(name: str) -> Any:
    """The Executor, loaded by the first pipeline that is built: it takes a tenth of the time of ``import pipeflow``."""
    if name not in _LATE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = resolve_name(f"{__name__}.{_LATE[name]}:{name}")
    return found
