"""Lists of paths: patterns, braces and URLs are replaced by the paths that they stand for."""

import glob
import itertools
import os
import re
from collections.abc import Iterable, Iterator
from typing import Any
from urllib.parse import unquote, urlsplit

from pipeflow.operators.readers import remote

_BRACES = re.compile(r"\{([^{}]*(?:,|\.\.)[^{}]*)\}")
_RANGE = re.compile(r"(\d+)\.\.(\d+)")


def expanded(value: Any, name: str, root: str | None = None) -> list[str]:
    """The paths that an argument stands for: a path or a list of paths, with patterns and braces.

    A path that exists is used as it is, even if there are braces or stars in its name.
    """
    found: list[str] = []
    for text in strings(value, name):
        plain = not _BRACES.search(text) and not glob.has_magic(text) and text[:7].lower() != "file://"
        if plain or os.path.exists(os.path.join(root or "", text)):
            found.append(text)
        else:
            for one in _without_braces(text):
                found += _matching(local(one), name, root)
    return found


def local(path: str) -> str:
    """A path of this machine for a URL that begins with file://; other paths and URLs as they are."""
    if path[:7].lower() != "file://":
        return path
    address = urlsplit(path)
    if address.netloc not in ("", "localhost"):
        raise ValueError(f"{path}: file:// names files of this machine, as in file:///data/train.tar")
    return unquote(address.path)


def _matching(path: str, name: str, root: str | None) -> list[str]:
    if remote.is_url(path):
        inside = path.partition("::")[0].partition("://")[2].partition("?")[0]
        found = remote.matching(path) if "*" in inside or "[" in inside else [path]
        if not found:
            raise FileNotFoundError(f"{name}: no file matches {path}")
        return found
    if not glob.has_magic(path) or os.path.exists(os.path.join(root or "", path)):
        return [path]
    found = sorted(glob.glob(path, recursive=True, root_dir=root))
    if not found:
        raise FileNotFoundError(f"{name}: no file matches {os.path.join(root or '', path)}")
    return found


def _without_braces(text: str) -> Iterator[str]:
    """The texts that a text with ``{a,b}`` and ``{000..127}`` stands for, in order. There may be braces inside braces."""
    for begin in (place for place, letter in enumerate(text) if letter == "{"):
        found = _choices(text, begin)
        if found is not None:
            choices, end = found
            inner = (one for choice in choices for one in _without_braces(choice))
            for middle, rest in itertools.product(inner, list(_without_braces(text[end:]))):
                yield text[:begin] + middle + rest
            return
    yield text


def _choices(text: str, begin: int) -> tuple[list[str], int] | None:
    """The choices between the brace at a place and the one that closes it, and the place after it; None if it has none."""
    depth, parts = 0, [begin + 1]
    for place in range(begin, len(text)):
        depth += {"{": 1, "}": -1}.get(text[place], 0)
        if text[place] == "," and depth == 1:
            parts.append(place + 1)
        if not depth:
            between = text[begin + 1 : place]
            if len(parts) > 1:
                return [text[low : high - 1] for low, high in itertools.pairwise([*parts, place + 1])], place + 1
            found = _RANGE.fullmatch(between)
            return (_numbers(*found.groups()), place + 1) if found else None
    return None


def _numbers(first: str, last: str) -> list[str]:
    padded = any(len(end) > 1 and end[0] == "0" for end in (first, last))
    width = max(len(first), len(last)) if padded else 0
    step = 1 if int(last) >= int(first) else -1
    return [str(number).zfill(width) for number in range(int(first), int(last) + step, step)]


def strings(value: Any, name: str) -> list[str]:
    """An argument that is a string or a list of strings (or paths), as a list."""
    if isinstance(value, (str, os.PathLike)):
        return [os.fspath(value)]
    if not isinstance(value, Iterable):
        raise TypeError(f"argument {name!r} must be a string or a list of strings, got {type(value).__name__}")
    items = [os.fspath(item) if isinstance(item, os.PathLike) else item for item in value]
    for item in items:
        if not isinstance(item, str):
            raise TypeError(
                f"argument {name!r} must be a string or a list of strings, got an element "
                f"{type(item).__name__} {item!r}"
            )
    return items
