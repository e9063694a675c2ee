"""How often it was decided which code works for a function of the user: it, or a compiled version (``cpu/tried_functions.py``).

What was measured before such a decision says little about the time after it.
"""

import threading
from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

_of_function: WeakKeyDictionary[Callable[..., Any], int] = WeakKeyDictionary()
_lock = threading.Lock()


def count(function: Callable[..., Any]) -> None:
    """Counts a decision."""
    with _lock:
        _of_function[function] = _of_function.get(function, 0) + 1


def decided(function: Callable[..., Any]) -> int:
    """The number of decisions."""
    return _of_function.get(function, 0)
