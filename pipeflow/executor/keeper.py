"""Objects of the user whose state is saved with the pipeline: they have ``get_state()`` and ``set_state(state)``."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from pipeflow.errors import InvalidState, function_name
from pipeflow.saving.values import decode, encode


class Keeper:
    """An object of the user that has a state."""

    def __init__(self, name: str, keeper: Any) -> None:
        self.name = name
        self.keeper = keeper

    @classmethod
    def of(cls, name: str, constants: Mapping[str, Any]) -> "Keeper | None":
        """The object with a state in the constants of a step, or None."""
        for value in constants.values():
            if keeps_state(value):
                return cls(name, value)
        return None

    def snapshot(self) -> Any:
        """The current state, as plain data that later changes of the object do not affect."""
        what = f"the state that get_state() of {self.name!r} returned"
        try:
            return encode(self.keeper.get_state(), what)
        except TypeError as error:
            error.add_note(f"{what} must consist of numbers, strings, lists, tuples, dictionaries and arrays")
            raise

    def restore(self, states: Mapping[str, Any]) -> None:
        """Restores a state of the object."""
        if self.name not in states:
            raise InvalidState(
                f"the checkpoint has no state for {self.name!r}: it was made without enable_checkpointing=True, or before "
                f"{function_name(self.keeper)} had get_state()"
            )
        with readable(self.name):
            state = decode(states[self.name], f"the state of {self.name!r}")
        self.keeper.set_state(state)


@contextmanager
def readable(name: str) -> Iterator[None]:
    """A context that adds to errors of ``set_state`` that the state is wrong."""
    try:
        yield
    except (AttributeError, IndexError, KeyError, OverflowError, StopIteration, TypeError) as error:
        found = f"{type(error).__name__}: {error}".rstrip(": ")
        raise ValueError(f"the state of {name!r} is damaged, or was made by other code ({found})") from error


def keeps_state(value: Any) -> bool:
    """True if an object has the methods to save and restore its state."""
    return callable(getattr(value, "get_state", None)) and callable(getattr(value, "set_state", None))
