"""What several files of this folder need."""

import pytest

from pipeflow.kernels import cpu
from pipeflow.operators.functions import compiling


@pytest.fixture
def own_trials(tmp_path, monkeypatch, clock):
    """Each test makes its own trials: those of other tests and of earlier runs are not remembered, and time stands still."""
    monkeypatch.setattr(cpu.tried_functions, "folder_for", lambda name: tmp_path)
    yield
    cpu.tried_functions.wait_for_trials()
    compiling._known_tried.cache_clear()
