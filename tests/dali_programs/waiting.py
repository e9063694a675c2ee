"""Programs that cannot run yet: the names of DALI that they need and pipeflow does not have.

A program leaves this table by itself as soon as all its names exist; its line can then be deleted.
"""

import importlib

NAMES = {
    "model_efficientnet_autoaugment": ("auto_aug.auto_augment", "auto_aug.rand_augment", "auto_aug.trivial_augment"),
    "reader_sequence": ("fn.readers.sequence",),
}


def missing(program):
    """The names that a program still waits for."""
    return [name for name in NAMES.get(program, ()) if not _exists(name)]


def _exists(name):
    folder, *rest = name.split(".")
    try:
        place = importlib.import_module(f"pipeflow.{folder}")
    except ModuleNotFoundError:
        return False
    for part in rest:
        try:
            place = getattr(place, part)
        except AttributeError:
            try:
                place = importlib.import_module(f"{place.__name__}.{part}")
            except (ImportError, AttributeError):
                return False
    return True
