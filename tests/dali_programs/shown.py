"""What a program shows: `show(value)` keeps it in a plain form that both libraries share and that can be compared."""

import enum
from contextlib import contextmanager

import numpy as np

_shown = []


@contextmanager
def collecting():
    """Collects what a program shows into a list."""
    global _shown
    before, _shown = _shown, []
    try:
        yield _shown
    finally:
        _shown = before


def show(*values, within=0.0):
    """Keeps values: batches, tensors, arrays, numbers, text, and dictionaries and lists of them.

    ``within`` is how far a number may be from DALI's: 1 for pixels that the two libraries may round differently.
    """
    _shown.extend({"value": plain(value), "within": within} for value in values)


def show_form(*values):
    """Keeps only types, layouts and shapes: for what is drawn at random."""
    _shown.extend({"value": form(plain(value)), "within": 0.0} for value in values)


def show_error(function):
    """Keeps the class of the exception that a call raises; one that raises nothing shows what it returns."""
    try:
        value = function()
    except Exception as error:
        builtin = [cls.__name__ for cls in type(error).__mro__ if cls.__module__ == "builtins"]
        _shown.append({"value": {"raised": builtin}, "within": 0.0})
    else:
        show({"returned": value})


def plain(value):
    """Arrays, lists, dictionaries, numbers and text in place of a library's own objects."""
    if hasattr(value, "as_cpu") and not hasattr(value, "detach"):
        value = value.as_cpu()
    if hasattr(value, "is_dense_tensor"):
        return {"layout": value.layout(), "samples": [np.array(value.at(index)) for index in range(len(value))]}
    if hasattr(value, "copy_to_external"):
        return np.array(value)
    if isinstance(value, enum.Enum) or type(value).__name__ in ("DALIDataType", "DALIInterpType", "DALIImageType"):
        return value.name
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (tuple, list)):
        return [plain(item) for item in value]
    if hasattr(value, "detach"):
        return value.detach().cpu().numpy()
    if isinstance(value, np.ndarray) and value.dtype == object:
        return [plain(item) for item in value.tolist()]
    if isinstance(value, (np.ndarray, np.generic)):
        return np.asarray(value)
    if hasattr(value, "__array__") and not isinstance(value, type):
        return np.asarray(value)
    if isinstance(value, (int, float, str, bool, type(None))):
        return value
    return type(value).__name__


def form(value):
    """The same with shapes and types in place of arrays."""
    if isinstance(value, np.ndarray):
        return f"{value.dtype} {list(value.shape)}"
    if isinstance(value, dict):
        return {key: form(item) for key, item in value.items()}
    if isinstance(value, list):
        return [form(item) for item in value]
    return value
