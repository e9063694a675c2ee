"""Converts data sets between folders, tar files, records and tables.

Formats: folder, webdataset (tar files), tfrecord, recordio (MXNet), lmdb (Caffe's records), parquet. The format of the
source is found from its files; that of the output is --to, or the ending of its name (out.wds, out.tfrecord, out.rec,
out.lmdb, out.parquet). The output is a folder. Every shard is read again and compared with its source, and SHA256SUMS
has the checksums. --resume continues a conversion that was stopped.
"""

import argparse
import json
import os
from pathlib import Path

from pipeflow import timing
from pipeflow.commands.converting.conversion import Choices, Conversion, described
from pipeflow.commands.converting.sample import Sample, as_file
from pipeflow.commands.converting.sources import ENDINGS, LIST, SOURCES, SampleSet, format_of
from pipeflow.commands.converting.targets import TARGETS
from pipeflow.commands.result import FINE, FOUND, Line, Refused, Result
from pipeflow.commands.target import positive
from pipeflow.errors import count_of
from pipeflow.executor.settings import available_cpus
from pipeflow.progress import Progress
from pipeflow.reporting.units import size

SHARD = 256_000_000  # bytes of a shard, if the number is not given
LISTED = 10
READ_BY = {
    "folder": 'fn.readers.file(file_root="{0}")',
    "webdataset": 'fn.readers.webdataset(paths="{0}/*.tar", ext={1})',
    "tfrecord": 'fn.readers.tfrecord(path="{0}/*.tfrecord", features={{...}})',
    "recordio": 'fn.readers.mxnet(path="{0}/00000.rec", index_path="{0}/00000.idx")',
    "lmdb": 'fn.readers.caffe(path="{0}")',
    "parquet": 'fn.readers.parquet(paths="{0}", columns={1})',
}


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("places", nargs="+", metavar="SOURCE", help="a folder or files of one format; last: OUTPUT")
    parser.add_argument("--from", dest="source", choices=list(SOURCES), help="the format of the source; default: found")
    parser.add_argument("--to", choices=list(TARGETS), help="the format of the output; default: from its name")
    parser.add_argument("--shards", type=positive, metavar="N", help="number of files; default: one for 256 MB")
    parser.add_argument("--parts", metavar="A,B", help="only these parts of each sample, jpg,cls")
    parser.add_argument("--rename", metavar="OLD=NEW,...", help="other names for parts, image=jpg,target=cls")
    parser.add_argument(
        "--names", choices=["keep", "number"], default="keep", help="number: samples are named by numbers"
    )
    parser.add_argument("--skip-bad", action="store_true", help="leave out samples that cannot be read, and list them")
    parser.add_argument("--resume", action="store_true", help="continue a conversion that was stopped")
    parser.add_argument(
        "--threads", type=positive, metavar="N", help="shards at the same time; default: one a processor"
    )


def run(given: argparse.Namespace) -> Result:
    if len(given.places) < 2:
        raise Refused("give the source and the output: pipeflow convert data out.wds")
    *places, out = given.places
    kind = given.source or format_of(places)
    wanted = given.to or ENDINGS.get(Path(out).suffix)
    if wanted is None:
        raise Refused(f"the format of {out} is unknown: add --to {'|'.join(TARGETS)}, or name it out.wds")
    folder = Path(out)
    if folder.resolve() in [
        path for place in places for path in [Path(place).resolve(), *Path(place).resolve().parents]
    ]:
        raise Refused(f"the output {out} is the source or has it inside: choose another folder")
    begun = timing.wall()
    source: SampleSet = SOURCES[kind](places)
    if not len(source):
        raise Refused(f"there are no samples in {', '.join(places)}")
    choices = Choices(
        shards_of(given.shards, source, wanted),
        parts=given.parts.split(",") if given.parts else None,
        renamed=pairs_of(given.rename),
        by_number=given.names == "number",
        skip_bad=given.skip_bad,
        threads=given.threads or available_cpus(),
    )
    conversion = Conversion(source, TARGETS[wanted](), wanted, folder, choices)
    conversion.begin(given.resume)
    with Progress("convert", len(source)) as progress:
        outcome = conversion.run(progress.step)
    took = timing.wall() - begun
    lines = [
        Line(
            f"{out}: {described(outcome, source)} in {count_of(choices.shards, 'shard')}, {size(outcome.size)}, {took:.1f} s",
            "warn" if outcome.bad else "good",
        ),
        Line(f"{kind} to {wanted}; every sample was read again and is equal; checksums are in SHA256SUMS", "faint"),
    ]
    if outcome.done_before:
        lines.append(Line(f"{count_of(outcome.done_before, 'shard')} of an earlier run were complete", "faint"))
    if outcome.bad:
        lines.append(Line(f"{count_of(len(outcome.bad), 'sample')} could not be read and were left out:", "bad"))
        lines += [Line(f"sample {number}: {text}", "bad", indent=2, wrap=True) for number, text in outcome.bad[:LISTED]]
        if len(outcome.bad) > LISTED:
            lines.append(Line(f"and {len(outcome.bad) - LISTED} more", "bad"))
    lines.append(Line(f"Next: {next_call(wanted, folder, choices.shards, conversion.first())}", "faint"))
    facts = {
        "output": out,
        "from": kind,
        "to": wanted,
        "samples": outcome.samples,
        "shards": choices.shards,
        "shards_before": outcome.done_before,
        "bytes": outcome.size,
        "seconds": took,
        "bad": [{"sample": number, "error": text} for number, text in outcome.bad],
    }
    return Result(lines, facts, FOUND if outcome.bad else FINE)


def next_call(kind: str, folder: Path, shards: int, sample: Sample) -> str:
    """The reader of what was written."""
    if kind == "folder" and (folder / LIST).is_file():
        return f'fn.readers.file(file_list="{folder}/{LIST}")'
    if kind == "lmdb" and shards > 1:
        return f'fn.readers.caffe(path=["{folder}/00000", ...])'
    # in a tar file, an array is a part with an ending of its own
    parts = [as_file(name, value)[0] if kind == "webdataset" else name for name, value in sample.parts.items()]
    return READ_BY[kind].format(folder, json.dumps(parts, ensure_ascii=False))


def shards_of(wanted: "int | None", source: SampleSet, kind: str) -> int:
    """The number of shards: what was given, or one for every 256 MB; never more than samples."""
    if wanted is None:
        wanted = 1 if kind == "lmdb" else max(1, round(sum(map(os.path.getsize, source.files)) / SHARD))
    return min(wanted, len(source))


def pairs_of(text: "str | None") -> dict[str, str]:
    """``image=jpg,target=cls`` as old and new names."""
    pairs = [pair.partition("=") for pair in (text or "").split(",") if pair]
    if not all(old and equals and new for old, equals, new in pairs):
        raise Refused(f"--rename takes OLD=NEW pairs, image=jpg,target=cls; got {text!r}")
    return {old: new for old, _, new in pairs}
