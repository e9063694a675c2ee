"""What the real DALI showed, in files: written by `record.py`, read by the tests that run without DALI.

Of a large array the file keeps some values, evenly spread, with the mean and the extremes; of a small one all values.
"""

import json
from pathlib import Path

import numpy as np

FOLDER = Path(__file__).parent
PROGRAMS = sorted((FOLDER / "programs").glob("*.py"))
KEPT = 48  # values of one array


def reduced(value):
    """A shown value with each large array replaced by a few of its values."""
    if isinstance(value, dict):
        return {key: reduced(item) for key, item in value.items() if key != "traceback"}
    if isinstance(value, list):
        return [reduced(item) for item in value]
    if not isinstance(value, np.ndarray):
        return value
    flat = value.ravel()
    if flat.dtype.kind in "SU":
        return {"array": "text", "shape": list(value.shape), "values": [str(item) for item in flat]}
    numbers = flat.astype(np.float64)
    kept = {"array": str(value.dtype), "shape": list(value.shape)}
    if flat.size > KEPT:
        numbers = numbers[np.linspace(0, flat.size - 1, KEPT).astype(int)]
        whole = flat.astype(np.float64)
        kept.update(mean=float(whole.mean()), low=float(whole.min()), high=float(whole.max()))
    return {**kept, "values": numbers}


def write(name, shown):
    """Writes what a program showed under DALI."""
    (FOLDER / "recorded").mkdir(exist_ok=True)
    lines = ",\n".join(json.dumps(_to_json(reduced(item))) for item in shown)
    path(name).write_text(f"[\n{lines}\n]\n")


def read(name):
    """What a program showed under DALI, reduced."""
    return [_from_json(item) for item in json.loads(path(name).read_text())]


def path(name):
    """The file of a program."""
    return FOLDER / "recorded" / f"{name}.json"


def _to_json(value):
    if isinstance(value, dict):
        return {key: _to_json(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_to_json(item) for item in value]
    if isinstance(value, np.ndarray):
        return {"numbers": [_short(item) for item in value.tolist()]}
    return value


def _short(number):
    return int(number) if np.isfinite(number) and number == int(number) else float(f"{number:.8g}")


def _from_json(value):
    if isinstance(value, dict):
        if value.keys() == {"numbers"}:
            return np.array(value["numbers"], np.float64)
        return {key: _from_json(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_from_json(item) for item in value]
    return value
