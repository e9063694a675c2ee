"""Worker processes for the user's Python: `WorkerPool` runs functions on chunks of samples, outside this GIL.

    anonymous_files.py  files without a name, for shared memory
    segments.py    shared memory without a name, leases on it, and the one codec for chunks of samples
    channel.py     small messages with descriptors over a socket
    exceptions.py  exceptions that cross the process border
    functions.py   functions by value, and the names of objects that cannot be sent
    worker.py      the loop inside a worker
    zygote.py      starts worker processes and reports how they ended
    dispatcher.py  the thread that owns the workers: sends chunks, detects crashes and time limits
    pool.py        the interface for the rest of the package
    stage.py       a step of a plan that is run by a pool

They are loaded by the first plan that needs them (`workers.pool`, `workers.stage`): cloudpickle, subprocess and similar modules
would take a quarter of the time of `import pipeflow`.

The contract, for every ending of every process:

1. Nothing remains: shared memory is anonymous, and workers and the fork server end within 100 ms of this
   process, however it ends, whatever C code runs in them and whatever children the user's functions started.
2. Memory is reserved before it is written: too little memory is a MemoryError with the number of bytes, in the chunk that
   needed it.
3. If a worker dies or hangs, only the chunk that it was working on fails, with the reason in plain words. Chunks that waited
   after it run on another worker, and a new worker replaces it.
4. An exception of a user function arrives with its type, cause, attributes, notes and the lines of the traceback;
   none of them ends the pool or this process.
5. Arrays that leave the pool stay valid for as long as anything refers to them, in the workers as well as here.
6. A chunk is never run twice.
"""

from importlib import import_module
from types import ModuleType

START_METHODS = ("forkserver", "spawn", "fork")


def check_start_method(start_method: str, argument: str = "py_start_method") -> str:
    """The name of a start method, or an error that lists them."""
    if start_method not in START_METHODS:
        raise ValueError(f"{argument} must be one of {', '.join(map(repr, START_METHODS))}, got {start_method!r}")
    return start_method


def __getattr__(name: str) -> ModuleType:
    if name not in ("pool", "stage"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return import_module(f"{__name__}.{name}")
