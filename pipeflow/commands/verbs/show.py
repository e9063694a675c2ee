"""Saves the first samples of a pipeline as a picture."""

import argparse
from pathlib import Path

from pipeflow.commands import target
from pipeflow.commands.result import Line, Refused, Result


def arguments(parser: argparse.ArgumentParser) -> None:
    target.arguments(parser)
    parser.add_argument("-n", type=target.positive, default=16, help="how many samples")
    parser.add_argument("-o", "--output", default="pipeflow-batch.png", metavar="FILE", help="file for the picture")
    for name in ("labels", "boxes", "masks", "keypoints"):
        parser.add_argument(f"--{name}", type=int, metavar="OUTPUT", help=f"the number of the output with the {name}")
    parser.add_argument("--columns", type=target.positive, metavar="N", help="samples in a row")


def run(given: argparse.Namespace) -> Result:
    path = Path(given.output)
    if path.suffix.lower() != ".png":
        raise Refused(f"the picture is a PNG file: -o NAME.png, not {path}")
    if not path.parent.is_dir():
        raise Refused(f"there is no folder {path.parent} for the picture")
    found = target.target_of(given)
    how = {name: getattr(given, name) for name in ("labels", "boxes", "masks", "keypoints", "columns")}
    picture = found.pipeline.show(given.n, title=given.target, path=path, **how)
    width, height = picture.size
    return Result(
        [Line(f"{path}: {width} x {height} pixels, the first samples of {given.target}", "good")],
        {"path": str(path.resolve()), "width": width, "height": height},
    )
