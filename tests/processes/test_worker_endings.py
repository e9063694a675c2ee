"""How workers, pools and parents end: what is said, what is left behind, and that the work goes on."""

import ctypes
import os
import signal
import socket
import subprocess
import sys
import threading
import warnings
from types import SimpleNamespace

import numpy as np
import psutil
import pytest
from helpers import LONG, in_time
from process_helpers import (
    Meeting,
    alive,
    descendants,
    environment,
    gone,
    meet,
    python,
    say_late,
    shared_memory_files,
    stand_still,
    start,
)

from pipeflow import system, timing
from pipeflow.errors import FunctionTimeout, InvalidState, WorkerDied
from pipeflow.executor.workers import anonymous_files, zygote
from pipeflow.executor.workers.dispatcher import Dispatcher
from pipeflow.executor.workers.pool import WorkerPool

METHODS = ["forkserver", "spawn"]


def hold_the_interpreter():
    """C code that waits for ever without releasing the GIL."""
    while True:
        ctypes.PyDLL(None).pause()


@pytest.fixture
def pool():
    with WorkerPool(2) as pool:
        yield pool


def crash(how):
    if how == "segfault":
        ctypes.string_at(0)
    elif how == "exit":
        os._exit(3)
    elif how == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif how == "term":
        os.kill(os.getpid(), signal.SIGTERM)
    elif how == "abort":
        os.abort()
    elif how == "sockets":
        os.closerange(3, 200)
    return np.arange(3)


def test_a_function_that_closes_everything(pool):
    """Closing all descriptors cuts the worker off: the error says so."""
    with pytest.raises(WorkerDied, match="its connection was closed"):
        pool.submit(pool.register(crash), [("sockets",)]).result()


DEATHS = {
    "segfault": "crashed with a segmentation fault",
    "exit": r"left by os._exit\(3\)",
    "kill": "killed from outside",
    "term": r"another process ended it \(SIGTERM\)",
    "abort": "aborted",
}


def test_a_dead_worker_is_reported_in_words_and_replaced(pool):
    """The chunk fails with how the worker ended and in which function; the pool has as many workers as before."""
    handle = pool.register(crash)
    pool.submit(handle, [("not",)] * 3).result()
    for number, (how, words) in enumerate(DEATHS.items(), 1):
        ticket = pool.submit(handle, [("not",), (how,), ("not",)])
        with pytest.raises(WorkerDied, match=rf"worker process \d+ ended in crash \(.*endings.py:\d+\): .*{words}"):
            ticket.result()
        assert ticket.failed_sample == 1
        for _ in range(4):
            assert pool.submit(handle, [("not",)]).result()[0].tolist() == [0, 1, 2]
        assert len(pool.worker_pids()) == 2
        assert pool.statistics()["replaced_workers"] == number


def test_the_number_of_a_process_may_be_used_again():
    """The end of an earlier process with this number is not that of the new one."""
    server_side = []

    def start(ends):
        server_side.append(ends.child.dup())
        return SimpleNamespace(wait=lambda _=None: 0, poll=lambda: None)

    server = zygote.ForkServer(start)
    ended, born = zygote._ENDED, zygote._BORN
    for record in ((ended, 7, 0), (born, 7, 0), (ended, 7, signal.SIGSEGV)):
        server_side[0].sendall(zygote._RECORD.pack(*record))
    assert server.exit_status(server.launch(()), LONG) == -signal.SIGSEGV
    server.close()
    server_side[0].close()


def test_a_segfault_brings_the_python_stack(pool):
    """The note of a crash shows the user's file and function."""
    with pytest.raises(WorkerDied) as info:
        pool.submit(pool.register(crash), [("segfault",)]).result()
    [note] = info.value.__notes__
    assert "Segmentation fault" in note
    assert "test_worker_endings.py" in note
    assert "in crash" in note
    assert "pipeflow/executor" not in note


def test_only_the_chunk_that_killed_its_worker_fails(pool):
    """Chunks that waited behind it run elsewhere, in order, and none is run twice."""
    handle = pool.register(lambda x: os._exit(1) if x == 7 else np.array([x, os.getpid()]))
    tickets = [pool.submit(handle, [(i,)]) for i in range(40)]
    for i, ticket in enumerate(tickets):
        if i == 7:
            with pytest.raises(WorkerDied):
                ticket.result()
        else:
            assert ticket.result()[0][0] == i


def test_a_worker_killed_between_chunks_costs_nothing(pool):
    """An idle worker that is killed is replaced without any error."""
    identity = pool.register(lambda x: x)
    pool.submit(identity, [(1,)]).result()
    for pid in pool.worker_pids():
        os.kill(pid, signal.SIGKILL)
    assert [pool.submit(identity, [(i,)]).result() for i in range(6)] == [[i] for i in range(6)]


def test_death_is_noticed_though_children_live_on(pool, tmp_path):
    """A child that the function started keeps pipes open; the error comes all the same, while the child lives."""

    def leave_a_child(path):
        child = os.fork()
        if not child:
            stand_still()
        with open(path, "w") as file:
            file.write(str(child))
        os.kill(os.getpid(), signal.SIGKILL)

    path = tmp_path / "child"
    ticket = pool.submit(pool.register(leave_a_child), [(str(path),)])
    with pytest.raises(WorkerDied):
        in_time(ticket.result)
    child = int(path.read_text())
    assert alive(child)
    os.kill(child, signal.SIGKILL)


def test_a_crash_while_a_function_loads(pool):
    """A function that kills every worker that unpickles it fails its chunks and does not start workers for ever."""

    class Deadly:
        def __reduce__(self):
            return os._exit, (4,)

        def __call__(self):
            return 1

    with pytest.raises(WorkerDied, match=r"while it loaded .*Deadly: .*os._exit\(4\)"):
        pool.submit(pool.register(Deadly()), [()]).result()


@pytest.mark.parametrize("start_method", ["forkserver", "spawn"])
def test_the_fork_server_may_die(start_method):
    """Workers go on without their fork server, and a new one is started when a worker must be replaced."""
    with WorkerPool(1, start_method) as pool:
        handle = pool.register(crash)
        pool.submit(handle, [("not",)]).result()
        workers = set(pool.worker_pids())
        for pid in set(descendants(os.getpid())) - workers:
            os.kill(pid, signal.SIGKILL)
        pool.submit(handle, [("not",)]).result()
        with pytest.raises(WorkerDied):
            pool.submit(handle, [("exit",)]).result()
        assert pool.submit(handle, [("not",)]).result()[0].tolist() == [0, 1, 2]


@pytest.mark.parametrize("hang", [stand_still, hold_the_interpreter], ids=["python", "GIL"])
def test_a_function_that_hangs_is_named_and_its_worker_replaced(hang, late):
    """After `timeout` the error names the function, the sample and the line; other chunks are not touched."""

    def function(line):
        if line:
            say_late(line)
            hang()

    with WorkerPool(2, timeout=45) as pool:
        handle = pool.register(function)
        pool.submit(handle, [("",)]).result()
        others = [pool.submit(handle, [("",)]) for _ in range(6)]
        for other in others:
            other.result()
        ticket = pool.submit(handle, [("",), ("",), (late,)])
        with pytest.raises(FunctionTimeout, match=r"function \(.*endings.py:\d+\) did not return within 45 s"):
            ticket.result()
        assert ticket.failed_sample == 2
        assert "test_worker_endings.py" in ticket._job.error.__notes__[0]
        for other in [pool.submit(handle, [("",)]) for _ in range(6)]:
            other.result()


class SharedClock:
    """A clock for this process and its workers: what it says stands in a file."""

    def __init__(self, path):
        self.path = str(path)
        self.advance(0)

    def now(self):
        with open(self.path) as file:
            return int(file.read())

    def advance(self, seconds):
        before = self.now() if os.path.exists(self.path) else 0
        with open(self.path + ".new", "w") as file:
            file.write(str(before + int(seconds * 1e9)))
        os.replace(self.path + ".new", self.path)

    def install(self):
        timing.stamp = self.now


def test_the_limit_is_for_one_call_not_for_a_chunk(tmp_path, monkeypatch):
    """Many calls in one chunk may take longer together than `timeout`: eight of 0.3 s with a limit of 0.4 s."""
    shared = SharedClock(tmp_path / "clock")
    monkeypatch.setattr(timing, "stamp", shared.now)
    looked, look = threading.Semaphore(0), Dispatcher._end_hung_workers

    def end_hung_workers(dispatcher):
        look(dispatcher)
        looked.release()

    def nap(clock, path):
        clock.advance(0.3)
        with socket.socket(socket.AF_UNIX) as guest:  # until the pool has looked who is late
            guest.connect(path)
            guest.recv(1)

    with WorkerPool(1, timeout=0.4) as pool, socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "server"))
        server.listen()
        pool.submit(pool.register(shared.install), [()]).result()
        monkeypatch.setattr(Dispatcher, "_end_hung_workers", end_hung_workers)
        ticket = pool.submit(pool.register(nap), [(shared, str(tmp_path / "server"))] * 8)
        for _ in range(8):
            guest = server.accept()[0]
            for _ in range(2):
                while looked.acquire(blocking=False):
                    pass
                pool.submit(pool.register(int), [()])  # wakes the pool's thread
                assert looked.acquire(timeout=LONG)
            guest.sendall(b"!")
            guest.close()
        assert ticket.result() == [None] * 8


def test_closing_fails_what_waits_and_ends_everything():
    """After close no process of the pool lives, waiting chunks raise and new ones are refused."""
    before = set(descendants(os.getpid()))
    pool = WorkerPool(2)
    nap = pool.register(lambda hangs: stand_still() if hangs else None)
    tickets = [pool.submit(nap, [(number > 0,)]) for number in range(50)]
    tickets[0].result()
    pool.close()
    assert set(descendants(os.getpid())) <= before
    with pytest.raises(InvalidState, match="closed"):
        tickets[-1].result()
    with pytest.raises(InvalidState, match="the worker pool is closed"):
        pool.submit(nap, [(False,)])
    pool.close()


def test_a_forgotten_pool_ends_by_itself():
    """A pool that nothing refers to any more ends its workers."""
    pool = WorkerPool(1)
    pool.submit(pool.register(lambda: 1), [()]).result()
    pids = pool.worker_pids()
    del pool
    assert gone(pids) == []


def test_fork_is_refused_once_there_are_threads():
    """ "fork" in a process with threads is an error that names them and what to do."""
    stop = threading.Event()
    thread = threading.Thread(target=stop.wait, name="a thread of the program")
    thread.start()
    try:
        pool = WorkerPool(1, "fork")
        with pytest.raises(RuntimeError, match=r"runs .*a thread of the program.*start_py_workers.*forkserver"):
            pool.start()
    finally:
        stop.set()
        thread.join()


FORK = """
import threading, numpy as np, os
from pipeflow.executor.workers.pool import WorkerPool
lock = threading.Lock()
with WorkerPool(2, "fork") as pool:
    locked = pool.register(lambda x: (lock.acquire(), lock.release(), x + 1)[2])   # does not pickle: it is inherited
    pool.start()
    later = pool.register(lambda x: os._exit(1) if x < 0 else x * 2)
    assert pool.submit(locked, [(np.arange(3),)]).result()[0].tolist() == [1, 2, 3]
    try:
        pool.submit(later, [(-1,)]).result()
    except RuntimeError as error:
        print(type(error).__name__)
    assert pool.submit(later, [(4,)]).result() == [8]
    assert pool.submit(locked, [(np.arange(3),)]).result()[0].tolist() == [1, 2, 3]
print("done")
"""


def test_fork_passes_on_what_does_not_pickle_and_replaces_workers():
    """Under "fork" functions registered before the start are inherited, also by later workers; warnings are errors."""
    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", FORK],
        capture_output=True,
        text=True,
        timeout=LONG,
        cwd=os.path.dirname(os.path.dirname(os.path.dirname(__file__))),
    )
    assert result.stdout.split() == ["WorkerDied", "done"], result.stderr
    assert result.stderr == ""


AFTER_OPENCV = """
import cv2, numpy as np
from pipeflow.executor.workers.pool import WorkerPool
cv2.setNumThreads(4)
image = np.zeros((1500, 1500, 3), np.uint8)
cv2.GaussianBlur(image, (31, 31), 5)
with WorkerPool(1, "fork") as pool:
    print(pool.submit(pool.register(lambda x: cv2.GaussianBlur(x, (31, 31), 5).shape), [(image,)]).result()[0])
"""


def test_a_copy_does_not_wait_for_threads_of_opencv():
    """A forked process has OpenCV's idea of its threads and not the threads."""
    pytest.importorskip("cv2")
    result = subprocess.run([sys.executable, "-c", AFTER_OPENCV], capture_output=True, text=True, timeout=LONG)
    assert result.stdout == "(1500, 1500, 3)\n", result.stderr


def test_a_forked_child_cannot_use_the_pool(pool):
    """A child gets a clear error; the parent's workers go on."""
    identity = pool.register(lambda x: x)
    pool.submit(identity, [(1,)]).result()
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if not child:
        try:
            pool.submit(identity, [(2,)])
        except InvalidState as error:
            os.write(writing, str(error).encode())
        finally:
            os._exit(0)
    os.close(writing)
    text = os.read(reading, 1000).decode()
    os.close(reading)
    os.waitpid(child, 0)
    assert "was forked" in text
    assert pool.submit(identity, [(3,)]).result() == [3]


# --- the end of the parent -------------------------------------------------------------------------------------------

PARENT = """
import ctypes, os, sys, numpy as np, subprocess, signal
from pipeflow.executor.workers.pool import WorkerPool
method, doing, ending, line = sys.argv[1:]

def say():
    descriptor = os.open(line, os.O_WRONLY)
    os.write(descriptor, b"!")
    os.close(descriptor)

def work(x):
    if doing == "children":
        subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
        if not os.fork():
            signal.pause()
    say()
    if doing == "python":
        while True: pass
    if doing == "GIL":
        while True: ctypes.PyDLL(None).pause()
    return x

pool = WorkerPool(2, method)
handle = pool.register(work)
pool.start()
ready = pool.register(lambda: os.getpid())
for _ in range(8):
    pool.submit(ready, [()]).result()
tickets = [pool.submit(handle, [(np.zeros(100_000),)]) for _ in range(4)]  # two for each worker at most
if doing == "children":
    [t.result() for t in tickets]
    if not os.fork():          # a child of the program itself
        signal.pause()
print(*pool.worker_pids(), flush=True)
if ending in ("return", "exception"):
    open(line + " end").close()  # waits until the test has seen both workers in the function
if ending == "return":
    sys.exit(0)
if ending == "exception":
    raise RuntimeError("on purpose")
signal.pause()
"""

ENDINGS = [
    ("forkserver", "GIL", "SIGKILL"), ("forkserver", "GIL", "SIGINT"), ("forkserver", "GIL", "SIGTERM"),
    ("forkserver", "GIL", "return"), ("forkserver", "GIL", "exception"), ("forkserver", "GIL", "group SIGKILL"),
    ("forkserver", "python", "SIGKILL"), ("forkserver", "idle", "SIGKILL"), ("forkserver", "children", "SIGKILL"),
    ("forkserver", "idle", "group SIGINT"), ("forkserver", "idle", "group SIGTERM"), ("forkserver", "idle", "return"),
    ("spawn", "GIL", "SIGKILL"), ("spawn", "children", "SIGKILL"), ("spawn", "idle", "group SIGINT"),
    ("fork", "GIL", "SIGKILL"), ("fork", "GIL", "group SIGKILL"), ("fork", "idle", "return"),
    ("fork", "children", "SIGKILL"),
]  # fmt: skip


@pytest.mark.parametrize(("method", "doing", "ending"), ENDINGS)
def test_nothing_outlives_the_parent(method, doing, ending, tmp_path):
    """However the parent ends, its workers and its fork server end, and /dev/shm is as before.

    The children of functions, and of the program itself, live on meanwhile: they must not keep the workers alive.
    """
    before = shared_memory_files()
    os.mkfifo(tmp_path / "line")
    os.mkfifo(tmp_path / "line end")
    line = os.open(tmp_path / "line", os.O_RDWR)  # open for writing as well, so that it never ends
    parent = start(PARENT, method, doing, ending, str(tmp_path / "line"))
    try:
        check_that_nothing_is_left(parent, doing, ending, line, tmp_path / "line end")
    finally:
        for pid in leftovers(parent.pid):
            os.kill(pid, signal.SIGKILL)
        os.close(line)
    assert shared_memory_files() == before


def check_that_nothing_is_left(parent, doing, ending, line, end):
    workers = [int(x) for x in parent.stdout.readline().split()]
    assert len(workers) == 2
    for _ in workers:
        assert os.read(line, 1) == b"!"  # both are in the function
    ours = [x for x in children(parent.pid) if "zygote" in " ".join(cmdline(x))]
    if "SIG" in ending:
        number = getattr(signal, ending.split()[-1])
        if ending.startswith("group"):
            os.killpg(parent.pid, number)
        else:
            os.kill(parent.pid, number)
    else:
        end.open("w").close()
    parent.stdout.close()
    parent.wait(LONG)
    assert gone({*ours, *workers}) == []
    if doing == "children" and not ending.startswith("group"):
        assert len(leftovers(parent.pid)) >= 5  # two of each worker and that of the program


def children(pid):
    return [child.pid for child in psutil.Process(pid).children()]


def cmdline(pid):
    try:
        return psutil.Process(pid).cmdline()
    except psutil.NoSuchProcess:
        return []


def leftovers(session):
    """The children that the user's functions left on purpose."""
    found = []
    for process in psutil.process_iter():
        try:
            if os.getsid(process.pid) == session and alive(process.pid):
                found.append(process.pid)
        except (ProcessLookupError, PermissionError):
            continue
    return found


# --- scripts ---------------------------------------------------------------------------------------------------------

SCRIPT = """
import numpy as np
from pipeflow.executor.workers.pool import WorkerPool

class Scale:
    factor = 3
    def __call__(self, x):
        return helper(x) * self.factor

def helper(x):
    return x + 1

pool = WorkerPool(2)
print(pool.submit(pool.register(Scale()), [(np.arange(3),)]).result()[0].tolist())
"""


def test_unguarded_scripts_work(tmp_path):
    """A script without `if __name__ == "__main__"` runs once, in the parent, and needs no close."""
    file = tmp_path / "script.py"
    file.write_text(SCRIPT + "print('end')\n")
    for _ in range(2):
        result = python(None, script=str(file))
        assert result.stdout.split("\n") == ["[3, 6, 9]", "end", ""], result.stderr
        assert result.stderr == ""


def test_scripts_from_standard_input_work():
    """`python -` works: workers import nothing of the script, and do not read its standard input."""
    result = python(None, script="-", stdin=SCRIPT)
    assert result.stdout == "[3, 6, 9]\n", result.stderr


def test_workers_have_one_thread_for_numerical_libraries():
    """BLAS and OpenCV run on one thread in each worker, whether loaded before or after the function."""

    def threads(x):
        import cv2

        x @ x
        return cv2.getNumThreads(), len(os.listdir("/proc/self/task")), os.environ["OMP_NUM_THREADS"]

    with WorkerPool(1) as pool:
        [(opencv, native, variable)] = pool.submit(pool.register(threads), [(np.ones((300, 300)),)]).result()
    assert (opencv, native, variable) == (1, 1, "1")


def test_workers_draw_different_random_numbers(tmp_path):
    """NumPy's global generator is seeded in every worker: forked copies do not repeat each other."""
    meeting = Meeting(tmp_path / "meeting", 2)

    def draw(path):
        meet(path)
        return os.getpid(), np.random.rand()

    with WorkerPool(2) as pool:
        drawer = pool.register(draw)
        tickets = [pool.submit(drawer, [(meeting.path,)]) for _ in range(8)]
        drawn = [in_time(ticket.result)[0] for ticket in tickets]
    assert len({pid for pid, _ in drawn}) == 2
    assert len({value for _, value in drawn}) == len(drawn)


def test_the_portable_ways(monkeypatch, late):
    """Without memfd and process descriptors, as outside Linux, work, death and delay are still handled."""
    monkeypatch.setattr(anonymous_files, "HAS_MEMFD", False)
    monkeypatch.setattr(system, "HAS_PIDFD", False)
    with WorkerPool(1, "spawn", timeout=45) as pool:
        handle = pool.register(lambda x: os._exit(5) if x.size == 1 else np.concatenate([x] * 100))
        for n in (10, 30_000):
            assert pool.submit(handle, [(np.zeros(n),)]).result()[0].size == n * 100
        with pytest.raises(WorkerDied, match=r"os._exit\(5\)"):
            pool.submit(handle, [(np.zeros(1),)]).result()
        assert pool.submit(handle, [(np.zeros(2),)]).result()[0].size == 200
        with pytest.raises(FunctionTimeout):
            pool.submit(pool.register(lambda: (say_late(late), stand_still())), [()]).result()


@pytest.mark.skipif(not system.HAS_FORK, reason="this system cannot fork")
def test_a_fork_server_whose_parent_is_gone_says_nothing():
    """The parent may be killed while a worker is born: the server ends, and no traceback reaches the terminal."""
    here, there = socket.socketpair()
    code = f"from pipeflow.executor.workers import zygote; zygote.serve({there.fileno()})"
    server = subprocess.Popen(
        [sys.executable, "-c", code], pass_fds=[there.fileno()], stderr=subprocess.PIPE, env=environment()
    )
    there.close()
    reading, writing = os.pipe()
    connection, other = socket.socketpair()
    memory = [anonymous_files.anonymous_file("test"), anonymous_files.anonymous_file("test")]
    socket.send_fds(here, [b"w"], [connection.fileno(), reading, *memory])
    for end in (here, connection, other):
        end.close()
    for descriptor in (reading, writing, *memory):
        os.close(descriptor)
    assert server.communicate(timeout=LONG)[1] == b""
    assert server.returncode == 0


@pytest.mark.skipif(not system.HAS_FORK, reason="this system cannot fork")
def test_a_fork_server_that_has_not_come_up_is_ended():
    """On a busy machine it may take longer to start than a pool is patient when it closes."""

    class Slow:
        def __init__(self, process):
            self.process, self.killed = process, False

        def wait(self, seconds):
            if not self.killed:
                raise subprocess.TimeoutExpired("server", seconds)
            return self.process.wait(LONG)

        def kill(self):
            self.killed = True
            self.process.kill()

    server = zygote.ForkServer()
    slow = server._server = Slow(server._server)
    server.close()
    assert slow.killed


def test_a_process_without_a_descriptor_is_not_waited_for():
    """Systems without process descriptors cannot say in time that it has ended: it is killed instead."""
    assert zygote.Process(os.getpid(), None, None).ended(LONG) is False


def test_segments_of_all_kinds_have_numbers_of_their_own():
    """A worker knows a segment by its number alone."""
    dispatcher = Dispatcher(1, "forkserver")
    numbers = [
        next(kind._numbers) for _ in range(4) for kind in (dispatcher.inputs, dispatcher.blocks, dispatcher.outputs)
    ]
    assert sorted(numbers) == list(range(1, 13))


@pytest.mark.parametrize("broken", [None, OSError("the last words of the dispatcher")])
def test_a_chunk_that_comes_too_late_has_an_error(broken):
    """The one that has stopped the workers, or that the pool is closed."""
    pool = object.__new__(WorkerPool)
    pool._dispatcher = SimpleNamespace(join=lambda: None, broken=broken)
    job = SimpleNamespace(finished=threading.Event(), error=None)
    pool._fail_late(job)
    assert job.finished.is_set()
    assert job.error is broken if broken else isinstance(job.error, InvalidState)


@pytest.mark.parametrize(
    ("stack", "where"),
    [
        ('Current thread\n  File "train.py", line 7 in f\n', " and was at train.py:7;"),
        ("", " 5 s; its worker process 12"),
    ],
)
def test_where_a_function_hung_is_said_if_it_is_known(stack, where):
    """A worker that was ended before it could write its stack leaves none."""
    task = SimpleNamespace(name="f of train.py")
    job = SimpleNamespace(registered=SimpleNamespace(task=task, timeout=5.0))
    process = SimpleNamespace(process=SimpleNamespace(pid=12))
    error = Dispatcher._obituary(None, process, job, None, None, stack)
    assert isinstance(error, FunctionTimeout)
    assert where in str(error)
    assert bool(stack) == bool(getattr(error, "__notes__", None))


def test_a_worker_that_only_closed_its_connection_is_killed():
    """Else it would live on; without a chunk it is not replaced before there is work."""
    killed = []
    process = SimpleNamespace(
        ended=lambda _: False, kill=lambda: killed.append("killed"), exit_status=lambda _: None, descriptor=None
    )
    lone = SimpleNamespace(
        process=process,
        channel=None,
        jobs=[],
        answered=False,
        status=[0, 0],
        running=lambda: (None, None),
        close=lambda: None,
    )
    dispatcher = SimpleNamespace(
        _selector=SimpleNamespace(unregister=lambda _: None),
        workers=[lone],
        closing=False,
        _take_last_messages=lambda _: None,
    )
    Dispatcher._bury(dispatcher, 0, lone)
    assert killed == ["killed"]
    assert dispatcher.workers == [None]


def test_the_fork_server_ends_with_its_last_user(monkeypatch):
    """The next user starts another."""
    closed = []
    monkeypatch.setattr(zygote.SharedForkServer, "_server", SimpleNamespace(close=lambda: closed.append(1), alive=True))
    monkeypatch.setattr(zygote.SharedForkServer, "_users", 2)
    users = [object.__new__(zygote.SharedForkServer) for _ in range(2)]
    for user in users:
        user._open = True
    users[0].close()
    assert not closed
    users[1].close()
    users[1].close()
    assert closed == [1]
    assert zygote.SharedForkServer._server is None


def test_an_interpreter_that_was_started_is_known_by_a_descriptor(monkeypatch):
    """Where the system has such: its end is seen at once, and a signal reaches no other process."""
    monkeypatch.setattr(zygote, "_interpreter", lambda *_: SimpleNamespace(pid=os.getpid()))
    process = zygote.Spawner().launch(())
    assert (process.descriptor is not None) == system.HAS_PIDFD
    process.close()
