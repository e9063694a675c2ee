"""What tests of loops share."""

import pytest

from pipeflow.executor import model


@pytest.fixture
def lossless(monkeypatch):
    """Predictions for processors on which work does not lose anything by other work."""
    monkeypatch.setattr(model, "SWITCHING", 0.0)
    monkeypatch.setattr(model, "NEIGHBOURS", 0.0)
