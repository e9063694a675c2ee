"""What tests of loops share."""

import pytest

from pipeflow.executor import model, simulation


@pytest.fixture
def lossless(monkeypatch):
    """Predictions for processors on which work does not lose anything by other work."""
    for loss in ("SWITCHING", "NEIGHBOURS"):
        monkeypatch.setattr(simulation, loss, 0.0)
    for loss in (
        "CONTENTION",
        "MOST_CONTENTION",
        "CALL_SECONDS",
        "CHUNK_SECONDS",
        "HANDOVER_SECONDS",
        "HANDOFF_SECONDS",
    ):
        monkeypatch.setattr(model, loss, 0.0)
    monkeypatch.setattr(model, "WORKER_SECONDS", (0.0, 0.0))
    monkeypatch.setattr(model, "REACHED", 1.0)
