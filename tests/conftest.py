"""What holds for every test: stacks on a crash, a seeded order, seeded global generators and no network."""

import faulthandler
import gc
import ipaddress
import itertools
import os
import random
import signal
import socket
import zlib

import numpy as np
import pytest
from helpers import Gate, SetClock

from pipeflow.compile import compiler, spec
from pipeflow.kernels.cpu import kernel_calls, start

faulthandler.enable()
# Which decoder a JPEG file goes to must not depend on what happens to be compiled; the tests of the compiled one ask for it.
os.environ.setdefault("PIPEFLOW_JPEG", "library")
# Compiled kernels from the first sample on, except in the tests of the start.
os.environ.setdefault("PIPEFLOW_START", "wait")
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    # A shell starts background jobs deaf to Ctrl-C, and their children inherit it; the tests of it need to hear.
    signal.signal(signal.SIGINT, signal.default_int_handler)


# Files, or tests of files, with many cases of the same laws -> how many of them share one place in the normal run. The
# others are marked slow: `pytest -m "slow or not slow" FILE` runs all.
SAMPLED = {
    "test_every_operator.py": 16,
    "test_every_reader.py": 3,
    "test_checkpoints.py::test_resume_at_every_step_of_two_epochs": 12,
    "test_checkpoints.py::test_resume_with_worker_processes": 4,
    "test_checkpoints.py::test_every_value_of_a_state_may_be_damaged": 4,
    "test_impossible_numbers.py": 3,
    "test_arithmetic.py": 2,
    "test_order.py": 2,
    "test_zoo.py": 2,
    "test_numpy.py": 2,
    "test_kernels.py": 2,
    "test_morphology.py": 2,
    "test_spectrum.py": 2,
    "test_shading.py": 2,
    "test_jit_by_elements.py": 6,
    "test_start.py::test_normalised_images_are_equal": 3,
    "test_jit_in_chains.py": 3,
    "test_jit_of_people.py": 3,
    "test_upright.py": 2,
    "test_function_memory.py": 3,
    "test_flat_loops.py::test_the_bits_are_those_of_numpy": 4,
    "test_flat_loops.py::test_arrays_of_fewer_axes": 4,
    "test_short_calls.py::test_other_arguments_have_the_same_result_again": 3,
    "test_late_conditions.py::test_single_numbers": 4,
    "test_jpeg_kernels.py::test_every_color_equals_libjpeg_turbo": 3,
    "test_jpeg_switch.py::test_the_largest_extents_have_one_outcome": 3,
    "test_edges_of_memory.py::test_no_operator_leaves_its_memory": 3,
    "test_contest.py::test_choices_on_a_machine_whose_speed_changes": 3,
    "test_fits_tiles.py::test_quantized_numbers": 3,
    "test_cupy_runtime.py": 2,
}


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    """A current folder of the test's own, for operators that write files there."""
    monkeypatch.chdir(tmp_path)


def _compile_and_verify(*arguments, compile=compiler.compile, **keywords):
    return spec.verify(compile(*arguments, **keywords))


compiler.compile = _compile_and_verify  # every plan that a test makes is a valid one


def pytest_addoption(parser):
    parser.addoption("--order-seed", type=int, default=1, help="seed of the order of the tests; 0: as in the files")
    parser.addoption("--write-plans", action="store_true", help="write the plans of tests/plans as they are now")
    parser.addoption("--mutants", type=int, default=200, help="broken files per format in the fuzz tests")


def pytest_report_header(config):
    return f"order seed: {config.getoption('--order-seed')}"


def pytest_collection_modifyitems(config, items):
    """Shuffles files and the tests inside each, keeping a file and a class together for their fixtures."""
    seed = config.getoption("--order-seed")

    def place(text):
        return zlib.crc32(f"{seed}:{text}".encode())

    if seed:
        items.sort(key=lambda item: (place(item.path), place((item.path, item.cls)), place(item.nodeid)))

    reason = None if not any(item.get_closest_marker("gpu") for item in items) else gpu_missing()
    for item in items:
        name = item.path.name
        places = SAMPLED.get(name) or SAMPLED.get(f"{name}::{getattr(item, 'originalname', '')}")
        if places and hasattr(item, "callspec") and zlib.crc32(item.nodeid.encode()) % places:
            item.add_marker(pytest.mark.slow)
        if "librosa" in item.name:  # it compiles for the better part of a minute when it is first used
            item.add_marker(pytest.mark.slow)
        if "mutants" in item.fixturenames:
            item.add_marker(pytest.mark.fuzz)
        if reason and item.get_closest_marker("gpu"):
            item.add_marker(pytest.mark.skip(reason=reason))
        if item.get_closest_marker("oracle") and not os.environ.get("PIPEFLOW_ORACLE_PYTHON"):
            item.add_marker(pytest.mark.skip(reason="PIPEFLOW_ORACLE_PYTHON is not set: make test-oracle"))


def pytest_collection_finish():
    """Twelve thousand tests are many objects: the garbage collector need not look at them again and again."""
    gc.collect()
    gc.freeze()


_ended = itertools.count(1)


@pytest.hookimpl(trylast=True)
def pytest_runtest_logfinish():
    """Nor the kernels that tests have compiled since: a collection takes half a second in such a process."""
    if next(_ended) % 500 == 0:
        gc.collect()
        gc.freeze()


def _fail_what_is_skipped(report, node):
    """Under ``-m adapters`` a library that is not there is a failure: a skipped test would look like a passed one."""
    wanted = node.config.option.markexpr == "adapters" and "adapters" in node.path.parts
    if wanted and report.skipped and not node.get_closest_marker("gpu") and not hasattr(report, "wasxfail"):
        report.outcome, report.longrepr = "failed", f"not run, under -m adapters: {report.longrepr}"


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector):
    report = yield
    _fail_what_is_skipped(report, collector)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    _fail_what_is_skipped(report, item)
    return report


def gpu_missing():
    """The reason why no CUDA device can be used here, None where one can."""
    try:
        import cupy
    except ImportError:
        return "no GPU test can run: CuPy is not installed"
    try:
        return None if cupy.cuda.runtime.getDeviceCount() else "no GPU test can run: there is no CUDA device"
    except cupy.cuda.runtime.CUDARuntimeError as error:
        return f"no GPU test can run: {error}"


@pytest.fixture
def mutants(request):
    """How many broken variants of each file a fuzz test tries (`make fuzz` asks for more)."""
    return request.config.getoption("--mutants")


@pytest.fixture
def clock(monkeypatch):
    """Clocks of this process that the test sets."""
    return SetClock(monkeypatch)


@pytest.fixture
def gate():
    """A place where a function of the test waits; it is opened when the test is over."""
    gate = Gate()
    yield gate
    gate.open()


@pytest.fixture(autouse=True)
def seeded(request):
    """Starts the process-wide generators from the test's own name, whatever ran before it."""
    seed = zlib.crc32(request.node.nodeid.encode())
    random.seed(seed)
    np.random.seed(seed)


@pytest.fixture(autouse=True, scope="session")
def no_network():
    """Lets tests talk to this machine only."""
    real_connect, real_connect_ex = socket.socket.connect, socket.socket.connect_ex

    def check(sock, address):
        if sock.family not in (socket.AF_INET, socket.AF_INET6):
            return
        host = address[0]
        local = host in ("", "localhost")
        if not local:
            try:
                local = ipaddress.ip_address(host).is_loopback
            except ValueError:
                local = False
        if not local:
            raise RuntimeError(f"tests may not use the network: refused to connect to {address}")

    def connect(self, address):
        check(self, address)
        return real_connect(self, address)

    def connect_ex(self, address):
        check(self, address)
        return real_connect_ex(self, address)

    socket.socket.connect, socket.socket.connect_ex = connect, connect_ex
    yield
    socket.socket.connect, socket.socket.connect_ex = real_connect, real_connect_ex


@pytest.fixture
def loaded_code(monkeypatch):
    """The compiled code of chains is loaded, as it is some seconds after the start of a program."""
    monkeypatch.setattr(start.state, "starting", False)
    monkeypatch.setenv("PIPEFLOW_START", "wait")
    kernel_calls.load()
