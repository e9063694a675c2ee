"""OpenTelemetry: the figures of a pipeline reach a provider of the program, by its own reader."""

import numpy as np
import pytest

from pipeflow import fn, pipeline_def
from pipeflow.watching import environment

pytestmark = pytest.mark.adapters


@pipeline_def(batch_size=4, num_threads=1, device_id=None, seed=1)
def pipe():
    numbers = fn.external_source(lambda sample: np.float32(sample.idx_in_epoch), batch=False)
    return fn.python_function(numbers, function=np.square)


def test_the_figures_reach_the_provider_of_the_program(monkeypatch):
    """Batches and samples since the first one, and a value for each step."""
    from opentelemetry import metrics
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import InMemoryMetricReader

    reader = InMemoryMetricReader()
    provider = MeterProvider([reader])
    metrics.set_meter_provider(provider)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
    monkeypatch.setattr(environment, "_telemetry", {})
    running = pipe()
    for _ in range(4):
        running.run()
    assert metrics.get_meter_provider() is provider
    (resource,) = reader.get_metrics_data().resource_metrics
    (scope,) = resource.scope_metrics
    found = {metric.name: list(metric.data.data_points) for metric in scope.metrics}
    assert [point.value for point in found["pipeflow_batches"]] == [3]
    assert [point.value for point in found["pipeflow_samples"]] == [12]
    assert [point.value for point in found["pipeflow_exposed_wait_seconds_count"]] == [3]
    steps = {point.attributes["operator"] for point in found["pipeflow_operator_seconds"]}
    assert steps == {"fn.external_source", "fn.python_function"}
