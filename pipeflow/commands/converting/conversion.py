"""A conversion: its shards, the journal that lets it continue, and the checks of what was written.

``convert.json`` in the output has the settings of the conversion and every complete shard. A shard is written under another
name, read again, and compared with its source by checksums. Then it is added to the journal. SHA256SUMS is for ``sha256sum -c``.
"""

import json
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pipeflow.commands.converting.sample import Sample
from pipeflow.commands.converting.sources import JOURNAL, SUMS, SampleSet, fingerprint
from pipeflow.commands.converting.targets import Shard, Target, ToTables, kind_of, sha256
from pipeflow.commands.files import complete
from pipeflow.commands.result import Refused
from pipeflow.errors import BadData, count_of

VERSION = 1
LOOKED_AT = 100  # samples whose parts are the columns of a table, if they are not known before
BAD = (BadData, OSError, ValueError, UnicodeError)


class Stopped(Exception):
    """Another shard has failed, or the user has interrupted the conversion."""


@dataclass
class Choices:
    """The choices of the user."""

    shards: int
    parts: list[str] | None = None  # only these parts; None: all
    renamed: dict[str, str] = field(default_factory=dict)
    by_number: bool = False  # samples are named by their numbers
    skip_bad: bool = False
    threads: int = 1


@dataclass
class Converted:
    """The result of a conversion."""

    samples: int = 0
    size: int = 0
    done_before: int = 0  # shards that an earlier run wrote
    bad: list[tuple[int, str]] = field(default_factory=list)


class Conversion:
    """The samples of a source, shard by shard, in a folder."""

    def __init__(self, source: SampleSet, target: Target, kind: str, folder: Path, choices: Choices) -> None:
        self.source, self.target, self.folder, self.choices = source, target, folder, choices
        self._lock = threading.Lock()
        self._stopped = False
        self.plan = {
            "version": VERSION,
            "source": fingerprint(source),
            "samples": len(source),
            "format": kind,
            "shards": choices.shards,
            "parts": choices.parts,
            "renamed": choices.renamed,
            "by_number": choices.by_number,
            "classes": list(source.classes),
        }
        self._journal: dict[str, Any] = {**self.plan, "finished": False, "done": {}}

    def begin(self, resume: bool) -> None:
        """Makes the folder, or continues in it."""
        path = self.folder / JOURNAL
        if not path.is_file():
            if self.folder.exists() and any(self.folder.iterdir()):
                raise Refused(f"{self.folder} is not empty: choose a new folder for the output")
            self.folder.mkdir(parents=True, exist_ok=True)
            self._save()
            return
        if not resume:
            raise Refused(f"{self.folder} has a conversion already: --resume continues it, or choose another folder")
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
            different = [name for name, value in self.plan.items() if found.get(name) != value]
            done = {str(int(number)): dict(facts) for number, facts in found["done"].items()}
            whole = {number: facts for number, facts in done.items() if self._is_whole(int(number), facts)}
        except (ValueError, TypeError, KeyError, AttributeError):
            raise Refused(f"{path} is damaged: remove {self.folder}, and convert again") from None
        if different:
            raise Refused(
                f"{self.folder} has a conversion with another {', '.join(different)}: use the same source and options, or "
                "choose another folder"
            )
        self._journal["done"] = whole
        self._journal["finished"] = bool(found.get("finished")) and len(self._journal["done"]) == self.choices.shards
        self._save()

    def run(self, step: Callable[[int], object]) -> Converted:
        """Writes the shards that are missing."""
        outcome = Converted(done_before=len(self._journal["done"]))
        if isinstance(self.target, ToTables):
            self.target.kinds = self._kinds()
        left = [number for number in range(self.choices.shards) if str(number) not in self._journal["done"]]
        step(sum(facts["samples"] for facts in self._journal["done"].values()))
        with ThreadPoolExecutor(self.choices.threads) as pool:
            tasks = [pool.submit(self._guarded, number, step) for number in left]
            try:
                wait(tasks, return_when=FIRST_EXCEPTION)
            finally:
                self._stopped = any(not task.done() for task in tasks) or self._stopped
                pool.shutdown(wait=True, cancel_futures=True)
        errors = [error for task in tasks if not task.cancelled() and (error := task.exception()) is not None]
        for error in sorted(errors, key=lambda error: isinstance(error, Stopped)):
            raise error
        if not self._journal["finished"]:
            self.target.finish(self.folder, self.choices.shards)
            self._journal["finished"] = True
            self._save()
        self._sums()
        for facts in self._journal["done"].values():
            outcome.samples += facts["samples"]
            outcome.size += facts["bytes"]
            outcome.bad += [(number, text) for number, text in facts["bad"]]
        return outcome

    def _guarded(self, number: int, step: Callable[[int], object]) -> None:
        try:
            self._shard(number, step)
        except BaseException:
            self._stopped = True  # set here: this thread may begin the next shard before the main thread wakes up
            raise

    def _shard(self, number: int, step: Callable[[int], object]) -> None:
        shard = self._place(number)
        begin, end = shard.first, self._place(number + 1).first
        bad: list[tuple[int, str]] = []
        digests = []
        for sample in self.target.write(shard, self._samples(begin, end, bad)):
            digests.append(sample.digest())
            step(1)
        again = [sample.digest() for sample in self.target.again(shard)]
        if again != digests:
            place = next(
                (n for n, pair in enumerate(zip(again, digests)) if pair[0] != pair[1]), min(len(again), len(digests))
            )
            raise Refused(
                f"{self.target.path(shard)}: sample {place} is not the same after it was written and read again"
            )
        own = self.target.own(shard)
        size = sum((self.folder / path).stat().st_size for _, path in self.target.sums(shard, own))
        with self._lock:
            self._journal["done"][str(number)] = {"samples": len(digests), "bytes": size, "bad": bad, "files": own}
            self._save()

    def _samples(self, begin: int, end: int, bad: list[tuple[int, str]]) -> Iterator[Sample]:
        for index in range(begin, end):
            if self._stopped:
                raise Stopped
            try:
                yield self._sample(index)
            except BAD as error:
                if not self.choices.skip_bad:
                    error.add_note(
                        "--skip-bad leaves out samples that cannot be read; --resume continues after this one"
                    )
                    raise
                bad.append((index, str(error).splitlines()[0] if str(error) else type(error).__name__))

    def _sample(self, index: int) -> Sample:
        """A sample with the names and the parts that were chosen."""
        sample = self.source.sample(index)
        parts = {self.choices.renamed.get(name, name): value for name, value in sample.parts.items()}
        if self.choices.parts is not None:
            missing = [name for name in self.choices.parts if name not in parts]
            if missing:
                raise BadData(f"sample {sample.name!r} has no {', '.join(missing)}; it has {', '.join(parts)}")
            parts = {name: parts[name] for name in self.choices.parts}
        return Sample(f"{index:08d}" if self.choices.by_number else sample.name, parts)

    def first(self) -> Sample:
        """The first sample that can be read."""
        for index in range(len(self.source)):
            try:
                return self._sample(index)
            except BAD:
                continue  # the conversion reports it
        return Sample("", {})

    def _kinds(self) -> dict[str, str]:
        """The kinds of all parts: from all samples if they are files on the disk, else from the first samples."""
        found: dict[str, str] = {}
        names = self.source.names()
        wanted = {self.choices.renamed.get(name, name) for name in names} if names is not None else None
        for index in range(len(self.source)):
            if index >= LOOKED_AT and (wanted is None or wanted <= found.keys()):
                break
            try:
                sample = self._sample(index)
            except BAD:
                continue  # the conversion reports it
            for name, value in sample.parts.items():
                found.setdefault(name, kind_of(name, value))
        return found

    def _is_whole(self, number: int, facts: dict[str, Any]) -> bool:
        """True if all files of a shard exist and have the right checksums; damaged files are removed."""
        whole, own = True, [(str(digest), str(path)) for digest, path in facts["files"]]
        if not all(self._has(*pair) for pair in own):
            return False
        for digest, name in self.target.sums(self._place(number), own):
            if not self._has(digest, name):
                whole = False
                (self.folder / name).unlink(missing_ok=True)
        return whole

    def _has(self, digest: str, name: str) -> bool:
        path = self.folder / name
        if self.folder.resolve() not in path.resolve().parents:
            raise ValueError(f"{name} is outside of the output")
        return path.is_file() and sha256(path) == digest

    def _place(self, number: int) -> Shard:
        count = self.choices.shards
        return Shard(number, number * len(self.source) // count, self.folder, count == 1)

    def _sums(self) -> None:
        with open(self.folder / SUMS, "w", encoding="utf-8", errors="surrogateescape") as file:
            for number in range(self.choices.shards):
                own = self._journal["done"][str(number)]["files"]
                file.writelines(f"{digest}  {path}\n" for digest, path in self.target.sums(self._place(number), own))

    def _save(self) -> None:
        with complete(self.folder / JOURNAL) as part:
            part.write_text(json.dumps(self._journal, indent=1), encoding="utf-8")


def described(outcome: Converted, source: SampleSet) -> str:
    """The number of samples, and of classes if there are any."""
    classes = f", {count_of(len(source.classes), 'class', 'classes')}" if source.classes else ""
    return count_of(outcome.samples, "sample") + classes
