"""Traces in the format of Perfetto and Chrome.

Words of the format: a slice (``X``) is a span of time on a row, a flow (``s``, ``t``, ``f``) an arrow between slices,
``b`` and ``e`` a span that has no row of its own.
"""

import json
import os
from pathlib import Path
from typing import Any

from pipeflow.executor.trace import LOOP, MOST, Span, Trace
from pipeflow.version import VERSION


def document(trace: Trace) -> dict[str, Any]:
    """The trace in this format."""
    events = trace.spans()
    rows = {thread: number for number, thread in enumerate(_order(trace, events))}
    found: list[dict[str, Any]] = [_named(trace, "process_name", 0, f"pipeflow {trace.process}")]
    for thread, row in rows.items():
        found.append(
            _named(
                trace, "thread_name", row, trace.names.get(thread, "worker processes") if thread else "worker processes"
            )
        )
        found.append(
            {"name": "thread_sort_index", "ph": "M", "pid": trace.process, "tid": row, "args": {"sort_index": row}}
        )
    joined: set[tuple[int, int, Any]] = set()
    for event in sorted(events, key=lambda event: event.begun):
        found += _entries(trace, event, rows, joined)
    for entry in found:
        entry.setdefault("pid", trace.process)
    more = {"version": VERSION, "complete": len(events) < MOST}
    return {"traceEvents": found, "displayTimeUnit": "ms", "otherData": more}


def _order(trace: Trace, events: list[Span]) -> list[int]:
    """The rows: the loop first, then the threads in the order of their names."""
    threads = {event.thread for event in events}
    return sorted(
        threads,
        key=lambda thread: (trace.names.get(thread) != LOOP, not thread, thread < 0, trace.names.get(thread, "")),
    )


def _entries(
    trace: Trace, event: Span, rows: dict[int, int], joined: set[tuple[int, int, Any]]
) -> list[dict[str, Any]]:
    """The slice of an event, and the arrow that leads to it from the stage before."""
    row, begun, lasted = rows[event.thread], _at(trace, event.begun), (event.ended - event.begun) * 1e6
    title = f"wait for batch {event.batch}" if event.kind == "wait" else trace.stages[event.pipeline][event.stage]
    facts: dict[str, Any] = {"batch": event.batch, "samples": f"{event.first} to {event.end}"}
    if event.kind == "worker":
        facts = {"samples": event.end} if event.batch < 0 else {"batch": event.batch, "samples": event.end}
    identity = f"{event.pipeline}.{event.batch}"
    if event.kind == "away":
        span = {"name": title, "cat": "workers", "id": identity, "tid": row}
        return [{**span, "ph": "b", "ts": begun, "args": facts}, {**span, "ph": "e", "ts": begun + lasted}]
    slice_ = {"name": title, "cat": event.kind, "ph": "X", "tid": row, "ts": begun, "dur": lasted, "args": facts}
    if event.kind == "wait":
        slice_["cname"] = "terrible"  # the colour of a stall
    arrow = {"name": f"batch {event.batch}", "cat": "batch", "id": identity, "tid": row}
    part: Any = -1 if event.kind == "wait" else event.stage
    if event.kind == "worker":  # an arrow for each process; the threads only send the batch and receive it
        part = event.thread, event.stage
    place = event.pipeline, event.batch, part
    if place in joined or event.batch < 0:
        return [slice_]
    known = any((event.pipeline, event.batch, stage) in joined for stage in range(len(trace.stages[event.pipeline])))
    joined.add(place)
    if event.kind == "wait":
        return [slice_, {**arrow, "ph": "f", "bp": "e", "ts": begun + lasted}]
    return [slice_, {**arrow, "ph": "t" if known else "s", "ts": begun}]


def _at(trace: Trace, moment: float) -> float:
    return (moment - trace.begun) * 1e6


def write(trace: Trace, path: str) -> int:
    """Writes the file and returns its number of spans; threads may add spans meanwhile. A forked child writes nothing."""
    if os.getpid() != trace.process:
        return 0
    page = document(trace)
    Path(path.replace("%p", str(trace.process))).write_text(json.dumps(page), encoding="utf-8")
    return sum(entry["ph"] in "Xb" for entry in page["traceEvents"])


def _named(trace: Trace, what: str, row: int, name: str) -> dict[str, Any]:
    return {"name": what, "ph": "M", "pid": trace.process, "tid": row, "args": {"name": name}}
