"""States of a pipeline: taking and loading checkpoints, and going to a batch."""

from dataclasses import replace
from typing import Any

import numpy as np

from pipeflow.errors import CheckpointingOff, InvalidState
from pipeflow.executor import checkpoint as saved_state
from pipeflow.handle.built import NOT_COMPILED, Built
from pipeflow.handle.definition import DebugDefinition

FURTHEST = 2**40  # the limit of seek(): positions of samples are counted in 64 bits


class States(Built):
    """A pipeline whose state can be saved and loaded."""

    def checkpoint(self, filename: str | None = None) -> bytes:
        """The state after the last delivered batch, as the bytes of JSON; also written to ``filename``."""
        if not self._settings.enable_checkpointing:
            raise CheckpointingOff(
                "Cannot access checkpoints with checkpointing disabled: give the pipeline enable_checkpointing=True"
            )
        executor = self._compiled()
        text = saved_state.to_json(self.plan, executor, self._place.get())
        if filename is not None:
            saved_state.write(filename, text)
        return text.encode()

    def state_dict(self) -> dict[str, Any]:
        """The checkpoint as a dictionary. It needs ``enable_checkpointing`` only if an object of the user has a state."""
        return saved_state.take(self.plan, self._compiled(), self._place.get())

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continues after the batch at which ``state_dict()`` or ``checkpoint()`` was called."""
        if isinstance(self._define, DebugDefinition):
            raise InvalidState(NOT_COMPILED)
        state = saved_state.checked(state)
        if not self._seed_given and state["seed"] != self._settings.seed:
            self._take_seed(state["seed"])
        self._go_to(state, self._compiled())

    def _take_seed(self, seed: int) -> None:
        """Takes the seed of a state in place of the drawn one; the pipeline is compiled again with it."""
        self._settings = replace(self._settings, seed=seed)
        if self._executor is not None:
            self._executor.close()
        self._executor = self._plan = None

    def seek(self, step: int, epoch: int = 0) -> None:
        """Goes to batch ``step`` of ``epoch`` without making the batches before it.

        The time does not depend on the number of batches. With sources or functions that have a state, it raises an error.
        """
        for name, value in (("step", step), ("epoch", epoch)):
            if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or not 0 <= value < FURTHEST:
                raise ValueError(f"{name} must be an integer of at least 0 and below 2**40, got {value!r}")
        executor = self._compiled()
        saved_state.check_seekable(self.plan)
        executor.seek(int(step), int(epoch))
        place = {"epoch": int(epoch), "step": int(step), "ended": False, "over": False, "carry": 0}
        self._begin_at(place)
