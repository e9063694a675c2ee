"""Traces and metrics: what is recorded of a run, in the forms that other programs read."""

import gc
import json
import re
import sys
import urllib.request
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
from helpers import LONG

from pipeflow import fn, pipeline_def
from pipeflow.executor.trace import Span, Trace
from pipeflow.watching import environment, perfetto
from pipeflow.watching.metrics import Numbered


def fussy(number):
    if number == 5:
        raise ValueError("five")
    return number * 2


@pipeline_def(batch_size=4, num_threads=2, device_id=None, seed=1, on_error="skip")
def pipe():
    numbers = fn.external_source(lambda sample: np.float32(sample.idx_in_epoch), batch=False)
    return fn.python_function(numbers + 1, function=fussy), numbers


@pytest.fixture
def traced(monkeypatch, tmp_path):
    """The trace of six batches, as PIPEFLOW_TRACE writes it at the end of a process."""
    at_exit = []
    monkeypatch.setattr(environment, "_traces", {})
    monkeypatch.setattr(environment.atexit, "register", lambda *call: at_exit.append(call))
    monkeypatch.setenv("PIPEFLOW_TRACE", str(tmp_path / "trace-%p.json"))
    running = pipe()
    for _ in range(6):
        running.run()
    running._executor.close()
    ((write, trace, path),) = at_exit
    write(trace, path)
    (file,) = tmp_path.iterdir()
    return json.loads(file.read_text())["traceEvents"]


def test_every_batch_has_a_slice_a_stage_and_an_arrow_from_its_source_to_the_loop(traced):
    """Batches 0 to 5: read, computed, waited for; the arrow begins at the first and ends in the loop's row."""
    slices = [event for event in traced if event["ph"] == "X"]
    rows = {event["tid"]: event["args"]["name"] for event in traced if event["name"] == "thread_name"}
    for batch in range(6):
        mine = [event for event in slices if event["args"]["batch"] == batch]
        names = {event["name"] for event in mine}
        assert {"external_source", "python_function", f"wait for batch {batch}"} <= names
        arrows = [event for event in traced if event["ph"] in "stf" and event["id"] == f"0.{batch}"]
        order = [event["ph"] for event in sorted(arrows, key=lambda event: (event["ph"] == "f", event["ts"]))]
        assert (order[0], order[-1], order.count("s"), order.count("f")) == ("s", "f", 1, 1)
        assert rows[next(event["tid"] for event in arrows if event["ph"] == "f")] == "the loop"
    assert rows[0] == "the loop"
    assert len(rows) >= 2


def test_slices_of_a_row_follow_each_other(traced):
    """A thread does one thing at a time: what would overlap could not be drawn."""
    for row in {event["tid"] for event in traced}:
        spans = sorted((e["ts"], e["ts"] + e["dur"]) for e in traced if e["ph"] == "X" and e["tid"] == row)
        assert all(before[1] <= after[0] + 1e-3 for before, after in pairwise(spans))


def test_a_trace_that_is_full_says_so(monkeypatch):
    monkeypatch.setattr("pipeflow.executor.trace.MOST", 3)
    monkeypatch.setattr("pipeflow.watching.perfetto.MOST", 3)
    trace, running = Trace(), pipe()
    running.build()
    trace.over(running._executor)
    for _ in range(3):
        running.run()
    document = perfetto.document(trace)
    assert len(trace.events) == 3
    assert document["otherData"]["complete"] is False


def test_time_in_worker_processes_is_a_span_of_its_own():
    """It begins when the batch has been sent and ends when it goes on; it is on no thread's row."""
    trace = Trace()
    trace.stages.append(["external_source", "python_function"])
    trace.events.append(Span("away", 0, 1, 7, 0, 4, 0, trace.begun + 1, trace.begun + 3))
    entries = perfetto.document(trace)["traceEvents"]
    begin, end = (next(entry for entry in entries if entry["ph"] == kind) for kind in "be")
    assert (begin["name"], begin["args"]["batch"]) == ("python_function", 7)
    assert end["ts"] - begin["ts"] == pytest.approx(2e6)
    assert [entry["args"]["name"] for entry in entries if entry["name"] == "thread_name"] == ["worker processes"]


def doubled(number):
    return number * 2


def drawn(sample):
    return np.float32(sample.idx_in_epoch)


@pipeline_def(batch_size=4, num_threads=1, py_num_workers=1, py_start_method="spawn", device_id=None, seed=1)
def away():
    numbers = fn.external_source(drawn, batch=False, parallel=True)
    return fn.python_function(numbers, function=doubled, parallel="processes")


def test_each_worker_process_has_a_row_with_arrows_by_batch():
    """Its slices have the batch and are inside the time that the batch was away; a source that reads ahead has no batch."""
    trace, running = Trace(), away()
    running.build()
    trace.over(running._executor)
    batches = [running.run()[0].as_array().tolist() for _ in range(3)]
    (process,) = running._executor.crew.workers.worker_pids()
    running._executor.close()
    assert batches == [[2.0 * (4 * batch + sample) for sample in range(4)] for batch in range(3)]
    entries = perfetto.document(trace)["traceEvents"]
    (row,) = [entry["tid"] for entry in entries if entry.get("args") == {"name": f"worker {process}"}]
    slices = [entry for entry in entries if entry["ph"] == "X" and entry["tid"] == row]
    assert {entry["name"].partition(" (")[0] for entry in slices} == {"python_function", "drawn"}
    for batch in range(3):
        mine = [entry for entry in slices if entry["args"].get("batch") == batch]
        assert sum(entry["args"]["samples"] for entry in mine) == 4
        assert [
            entry for entry in entries if entry["ph"] == "t" and entry["tid"] == row and entry["id"] == f"0.{batch}"
        ]
        begin, end = (
            next(entry["ts"] for entry in entries if entry["ph"] == kind and entry.get("id") == f"0.{batch}")
            for kind in "be"
        )
        assert all(begin <= entry["ts"] and entry["ts"] + entry["dur"] <= end for entry in mine)
    spans = sorted((entry["ts"], entry["ts"] + entry["dur"]) for entry in slices)
    assert all(before[1] <= after[0] for before, after in pairwise(spans))


def values(text):
    """(name with labels) -> value, with the form of every line checked."""
    found = {}
    for line in text.splitlines():
        if line.startswith("#"):
            assert re.fullmatch(r"# (HELP|TYPE) pipeflow_\w+ .+", line)
            continue
        name, value = re.fullmatch(r'(pipeflow_\w+\{\w+="[^"]*"(?:,\w+="[^"]*")*\}) (\S+)', line).groups()
        assert name not in found
        found[name] = float(value)
    return found


def test_metrics_count_batches_waits_steps_and_failures():
    """After one uncounted batch and three counted ones, with the sample of them that failed; the buckets add up."""
    running = pipe()
    for _ in range(4):
        running.run()
    found = values(running.metrics())
    assert found['pipeflow_batches_total{pipeline="0"}'] == 3
    assert found['pipeflow_samples_total{pipeline="0"}'] == 12
    assert found['pipeflow_exposed_wait_seconds_bucket{pipeline="0",le="+Inf"}'] == 3
    assert found['pipeflow_exposed_wait_seconds_count{pipeline="0"}'] == 3
    assert found['pipeflow_failed_samples_total{pipeline="0",operator="fn.python_function"}'] == 1
    assert any(name.startswith("pipeflow_operator_busy_seconds_total") for name in found)


def test_the_port_serves_all_pipelines_that_are_there(monkeypatch):
    """Two pipelines under two numbers; a port that cannot be had is a warning, and the pipeline runs."""
    monkeypatch.setattr(environment, "_servers", {})
    monkeypatch.setattr(environment, "PATIENCE", LONG)
    monkeypatch.setenv("PIPEFLOW_METRICS_PORT", "0")
    first, second = pipe(), pipe()
    for running in (first, second):
        running.run()
        running.run()
    server = environment._servers["PIPEFLOW_METRICS_PORT", "0"]
    with urllib.request.urlopen(f"http://127.0.0.1:{server.port}/metrics", timeout=LONG) as answer:
        found = values(answer.read().decode())
    server.close()
    assert found['pipeflow_batches_total{pipeline="1"}'] == 1
    monkeypatch.setenv("PIPEFLOW_METRICS_PORT", "many")
    with pytest.warns(UserWarning, match="PIPEFLOW_METRICS_PORT=many: metrics are not served: "):
        assert len(pipe().run()) == 2


def test_without_opentelemetry_its_variable_changes_nothing(monkeypatch):
    """Programs in a cluster often have it; the package need not be installed."""
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    monkeypatch.setattr(environment, "_telemetry", {})
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
    assert len(pipe().run()) == 2
    assert environment._telemetry == {"http://127.0.0.1:1": None}


def test_the_numbers_of_pipelines_are_never_used_again():
    """A pipeline that has ended leaves its number, and the later ones keep theirs."""

    class Executor:
        pass

    numbered, kept = Numbered(), [Executor() for _ in range(3)]
    for executor in kept:
        numbered.add(executor)
    del executor, kept[0]
    gc.collect()
    last = Executor()
    numbered.add(last)
    assert numbered.items() == [("1", kept[0]), ("2", kept[1]), ("3", last)]


def test_every_pipeline_is_added_to_the_instruments(monkeypatch):
    """One set of instruments an address, for all executors."""
    found = SimpleNamespace(added=[])
    found.add = found.added.append
    monkeypatch.setattr(environment, "_telemetry", {})
    monkeypatch.setattr(environment, "instruments", lambda: found)
    monkeypatch.setenv(environment.TELEMETRY, "http://127.0.0.1:1")
    environment.watch("one executor")
    environment.watch("another")
    assert found.added == ["one executor", "another"]


def test_without_variables_nothing_is_watched(monkeypatch):
    """And nothing is written at the end of the program."""
    for name in ("_traces", "_servers", "_telemetry"):
        monkeypatch.setattr(environment, name, {})
    for variable in (environment.TRACE, environment.TELEMETRY, environment.PORT, environment.TOP):
        monkeypatch.delenv(variable, raising=False)
    environment.watch("an executor")
    assert (environment._traces, environment._servers, environment._telemetry) == ({}, {}, {})
