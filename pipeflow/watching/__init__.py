"""Traces and metrics of executors. The other modules are loaded when they are used, and not by ``import pipeflow``."""

import os
from pkgutil import resolve_name
from typing import Any

TRACE, PORT, TOP = "PIPEFLOW_TRACE", "PIPEFLOW_METRICS_PORT", "PIPEFLOW_TOP"
TELEMETRY = "OTEL_EXPORTER_OTLP_ENDPOINT"  # a variable of OpenTelemetry


def watch(executor: Any) -> None:
    """Traces an executor and serves its metrics, if the environment has the variables for it."""
    found = os.environ.get
    if found(TRACE) or found(PORT) or found(TOP) or found(TELEMETRY):
        resolve_name(f"{__name__}.environment:watch")(executor)


def exposition(executor: Any) -> str:
    """The metrics of one executor, as text."""
    text: str = resolve_name(f"{__name__}.metrics:exposition")([("0", executor)])
    return text
