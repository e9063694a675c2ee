"""Numbers that a user gives, checked: whole numbers within limits, and sizes such as "2GB"."""

import re
from typing import Any

import numpy as np


def bytes_of(name: str, value: Any) -> int:
    """A number of bytes, or a text such as "2GB" or "500 MB"."""
    if isinstance(value, str):
        found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kKmMgGtT]?)(i?)[bB]?\s*", value)
        if found is None:
            raise ValueError(f"{name} must be a number of bytes or a text such as '2GB', got {value!r}")
        base = 1024 if found[3] else 1000
        value = int(float(found[1]) * base ** " kmgt".index(found[2].lower() or " "))
    return positive(name, value, 2**62)


def positive(name: str, value: Any, most: int) -> int:
    """An integer from 1 to a largest one."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise TypeError(f"{name} must be an integer, got {type(value).__name__} {value!r}")
    if value < 1:
        raise ValueError(f"{name} must be at least 1, got {value}")
    if value > most:
        raise ValueError(f"{name} must be at most {most}, got {value}")
    return int(value)
