"""The figures of executors as instruments of OpenTelemetry, if it is installed and has an address to send them to."""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from pipeflow.errors import optional
from pipeflow.version import VERSION
from pipeflow.watching.metrics import COUNTER, FAMILIES, HISTOGRAM, Numbered, Row, rows_of

_PURPOSE = "OpenTelemetry"


class Instruments:
    """One instrument for each metric; each reads all executors that still exist."""

    def __init__(self, metrics: Any) -> None:
        self._observation = metrics.Observation
        self._executors = Numbered()
        meter = metrics.get_meter("pipeflow", VERSION)
        for family, (kind, help_) in FAMILIES.items():
            name = family.removesuffix("_total")
            if kind == HISTOGRAM:  # a histogram cannot be observed from outside: its sum and its count are
                meter.create_observable_counter(f"{name}_sum", [partial(self._read, family, "_sum")], description=help_)
                meter.create_observable_counter(
                    f"{name}_count", [partial(self._read, family, "_count")], description=help_
                )
                continue
            create = meter.create_observable_counter if kind == COUNTER else meter.create_observable_gauge
            create(name, [partial(self._read, family, "")], description=help_)

    def add(self, executor: Any) -> None:
        """Reads one more executor, under the next number."""
        self._executors.add(executor)

    def _read(self, family: str, suffix: str, _options: Any) -> Iterable[Any]:
        for name, executor in self._executors.items():
            rows: Iterable[Row] = rows_of(executor)
            for found, end, labels, value in rows:
                if (found, end) == (family, suffix):
                    yield self._observation(value, {"pipeline": name, **labels})


def instruments() -> Instruments | None:
    """The instruments; None without OpenTelemetry. A program without a provider of its own gets one that sends them."""
    try:
        metrics = optional("opentelemetry.metrics", _PURPOSE, "opentelemetry-api")
        _provide(metrics)
    except ModuleNotFoundError:
        return None
    return Instruments(metrics)


def _provide(metrics: Any) -> None:
    """Makes a provider from the SDK and the exporter, as the variables OTEL_... describe it, unless the program has one."""
    sdk = optional("opentelemetry.sdk.metrics", _PURPOSE, "opentelemetry-sdk")
    if isinstance(metrics.get_meter_provider(), sdk.MeterProvider):
        return
    export = optional("opentelemetry.sdk.metrics.export", _PURPOSE, "opentelemetry-sdk")
    name = "opentelemetry.exporter.otlp.proto.http.metric_exporter:OTLPMetricExporter"
    exporter: Callable[[], Any] = optional(name, _PURPOSE, "opentelemetry-exporter-otlp-proto-http")
    metrics.set_meter_provider(sdk.MeterProvider([export.PeriodicExportingMetricReader(exporter())]))
