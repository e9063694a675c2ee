"""Decodes all images, sounds and arrays, and lists the bad files."""

import argparse
import io
import os
import tarfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pipeflow import fn, timing
from pipeflow.commands.result import FINE, FOUND, Line, Refused, Result
from pipeflow.commands.target import positive
from pipeflow.errors import count_of
from pipeflow.executor.settings import available_cpus
from pipeflow.operators.readers.files import read_range
from pipeflow.progress import Progress
from pipeflow.reporting.units import size

LISTED = 15
IMAGES = ".jpg .jpeg .png .bmp .tif .tiff .gif .webp .pnm .ppm .pgm .pbm .jp2"
SOUNDS = ".wav .flac .ogg .oga .opus .mp3 .aiff .aif .au"
ARRAYS = ".npy"
TARS = (".tar",)


class CheckedPart(NamedTuple):
    """A file, or a part of a tar file."""

    name: str
    path: str
    offset: int
    size: int
    check: Callable[[np.ndarray], Any]


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("places", nargs="+", metavar="PLACE", help="folders, .tar files, and files")
    parser.add_argument("-o", "--output", metavar="FILE", help="write the names of the bad files there, one a line")
    parser.add_argument("--threads", type=positive, metavar="N", help="default: one a processor")


def run(given: argparse.Namespace) -> Result:
    left: dict[str, int] = {}
    pieces = [piece for place in given.places for piece in pieces_of(place, left)]
    if not pieces:
        endings = ", ".join(sorted(left)[:8])
        raise Refused(f"nothing to verify in {', '.join(given.places)}" + (f": it has {endings}" if left else ""))
    bad: list[tuple[str, str]] = []
    begun = timing.wall()
    with ThreadPoolExecutor(given.threads or available_cpus()) as pool, Progress("verify", len(pieces)) as progress:
        for piece, error in zip(pieces, pool.map(fault, pieces)):
            if error:
                bad.append((piece.name, error))
            progress.step()
    took = timing.wall() - begun
    if given.output:
        Path(given.output).write_text("".join(f"{name}\n" for name, _ in bad), encoding="utf-8")
    total = sum(piece.size for piece in pieces)
    facts = {
        "files": len(pieces),
        "bytes": total,
        "seconds": took,
        "bad": [{"file": name, "error": error} for name, error in bad],
        "left_out": left,
    }
    rate = (
        f"{count_of(len(pieces), 'file')}, {size(total)} in {took:.1f} s ({len(pieces) / max(took, 1e-9):.0f} files/s)"
    )
    if not bad:
        first = Line(f"all can be decoded: {rate}", "good")
    else:
        first = Line(f"{count_of(len(bad), 'bad file')} of {rate}", "bad")
    lines = [first]
    for name, error in bad[:LISTED]:
        lines += [Line(name, "bad"), Line(error, indent=4, wrap=True)]
    if len(bad) > LISTED:
        lines.append(Line(f"and {len(bad) - LISTED} more", "bad"))
    if left:
        told = ", ".join(f"{count} {ending or 'without an ending'}" for ending, count in sorted(left.items())[:6])
        lines.append(Line(f"not checked: {told}", "faint"))
    if bad and not given.output:
        lines.append(
            Line('Next: -o bad.txt writes their names; in a pipeline on_error="skip" leaves them out', "faint")
        )
    return Result(lines, facts, FOUND if bad else FINE)


def pieces_of(place: str, left: dict[str, int]) -> Iterator[CheckedPart]:
    """The files to decode; of other files the endings are counted."""
    path = Path(place)
    if path.is_dir():
        for folder, folders, files in os.walk(path):
            folders.sort()
            for file in sorted(files):
                yield from _file(Path(folder, file), left)
    elif path.is_file():
        yield from _file(path, left)
    else:
        raise Refused(f"there is no file or folder {place}")


def _file(path: Path, left: dict[str, int]) -> Iterator[CheckedPart]:
    if path.suffix.lower() in TARS:
        yield from _members(path, left)
        return
    check = CHECKS.get(path.suffix.lower())
    if check is None:
        left[path.suffix.lower()] = left.get(path.suffix.lower(), 0) + 1
    else:
        yield CheckedPart(str(path), str(path), 0, path.stat().st_size, check)


def _members(path: Path, left: dict[str, int]) -> Iterator[CheckedPart]:
    try:
        with tarfile.open(path, "r:") as archive:
            for member in archive:
                suffix = Path(member.name).suffix.lower()
                check = CHECKS.get(suffix)
                if check is not None and member.isfile():
                    yield CheckedPart(f"{path}:{member.name}", str(path), member.offset_data, member.size, check)
                elif member.isfile():
                    left[suffix] = left.get(suffix, 0) + 1
    except (tarfile.TarError, OSError) as error:
        words = str(error)

        def refuse(_: np.ndarray) -> None:
            raise ValueError(f"damaged tar file: {words}")

        yield CheckedPart(str(path), str(path), 0, 0, refuse)


def fault(piece: CheckedPart) -> str:
    """The reason why a file cannot be decoded; "" if it can."""
    try:
        data = read_range(piece.path, piece.offset, piece.size) if piece.size else np.zeros(0, np.uint8)
        if not piece.size and piece.check in (image, sound, array):
            return "the file is empty"
        piece.check(data)
    except ModuleNotFoundError:
        raise
    except Exception as error:
        return str(error).splitlines()[0] if str(error) else type(error).__name__
    return ""


def image(data: np.ndarray) -> None:
    """Decodes an image."""
    fn.decoders.image(data)


def sound(data: np.ndarray) -> None:
    """Decodes a sound file."""
    fn.decoders.audio(data)


def array(data: np.ndarray) -> None:
    """Reads an array of NumPy."""
    np.load(io.BytesIO(data.tobytes()), allow_pickle=False)


CHECKS: dict[str, Callable[[np.ndarray], Any]] = {
    **dict.fromkeys(IMAGES.split(), image),
    **dict.fromkeys(SOUNDS.split(), sound),
    **dict.fromkeys(ARRAYS.split(), array),
}
