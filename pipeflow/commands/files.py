"""Files that verbs write."""

import contextlib
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def complete(path: Path) -> Iterator[Path]:
    """The path at which a file is written; it gets its name at the end, and is removed after an error."""
    part = path.with_name(f".{path.name}.part")
    try:
        yield part
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
