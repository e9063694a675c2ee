"""What tests of loops share."""

import pytest

from pipeflow.executor import model, simulation


@pytest.fixture
def lossless(monkeypatch):
    """Predictions for processors on which work does not lose anything by other work."""
    monkeypatch.setattr(simulation, "NEIGHBOURS", 0.0)
    for loss in (
        "CONTENTION",
        "MOST_CONTENTION",
        "SWITCHING",
        "MOST_SWITCHING",
        "CALL_SECONDS",
        "CHUNK_SECONDS",
        "WORKER_CHUNK_COST",
        "HANDOVER_SECONDS",
        "HANDOFF_SECONDS",
        "TURNS",
        "TURNS_OF_OPERATORS",
    ):
        monkeypatch.setattr(model, loss, 0.0)
    monkeypatch.setattr(model, "WORKER_SECONDS", (0.0, 0.0))
    monkeypatch.setattr(model, "REACHED", 1.0)
