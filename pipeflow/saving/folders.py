"""Folders in which several processes keep what they can make again."""

import os
from pathlib import Path


def own_folder(folder: Path) -> None:
    """Makes a folder, if there is none. A folder of another user is an error: the other user could change what is in it."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if hasattr(os, "getuid") and folder.stat().st_uid != os.getuid():
        raise PermissionError(f"{folder} belongs to another user")
