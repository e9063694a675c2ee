"""Continuing after a program was killed: the records that a loop writes into its journal, and how it reads a journal.

A batch is done when the loop requests the next one. The state after it is recorded before the next one is made, so a
program that is started again continues with the first batch that is not done. A batch that was handed out but not done
comes again.

Each rank of a job has its own journal: ``run.journal`` of shard 1 of 4 is ``run.journal.1-of-4``. A job that continues
with another number of shards reads all journals of the job before; they must be at the same batch.
"""

import logging
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pipeflow.errors import InvalidState, add_notes
from pipeflow.executor import checkpoint
from pipeflow.executor.journal import Contents, JournalFile, read

log = logging.getLogger("pipeflow")

_CHANGING = ("epoch", "iteration", "position", "states", "failures", "loop")


class RunJournal:
    """The journal of one loop over one or several pipelines."""

    def __init__(self, path: "str | os.PathLike[str]", fsync: bool = False) -> None:
        self.path = Path(path)
        self._fsync = fsync
        self._file: JournalFile | None = None
        self._generation = 0  # how often the job has continued with another number of shards
        self.again = False  # True if the next batch was handed out before

    def take_up(self, pipelines: Sequence[Any], shard: int, num_shards: int) -> None:
        """Restores the state of the journal in the pipelines, if there is one, and begins to write."""
        path = self.path if num_shards == 1 else Path(f"{self.path}.{shard}-of-{num_shards}")
        self._file = JournalFile(path, self._fsync)
        try:
            self._go_on(self._file, pipelines, path, num_shards)
        except BaseException:
            self._file.close()
            raise

    def _go_on(self, file: JournalFile, pipelines: Sequence[Any], path: Path, num_shards: int) -> None:
        own = file.open()
        found = self._latest(own, num_shards)
        if found is not None:
            self._load(found, pipelines)
            self.again = found.handed_out
            if self.again:
                log.warning("%s: one batch was handed out and not done when the program ended; it comes again", path)
        states = [_state(pipeline) for pipeline in pipelines]
        fixed = [{name: value for name, value in state.items() if name not in _CHANGING} for state in states]
        file.begin({"generation": self._generation, "pipelines": fixed}, _changing(states))
        if self.again:
            file.handed_out()

    def _latest(self, own: Contents | None, num_shards: int) -> Contents | None:
        """The contents from which to continue: this shard's own, or those of an earlier job with other shards."""
        others = self._other_jobs(num_shards)
        newest = max((contents[0].fixed["generation"] for contents in others.values()), default=-1)
        mine = -1 if own is None else own.fixed["generation"]
        siblings = self._siblings(num_shards)
        if own is None and siblings:
            mine_would_be = max(contents.fixed["generation"] for contents in siblings)
            if mine_would_be > newest:
                self._generation = mine_would_be
                before = {
                    count: job for count, job in others.items() if job[0].fixed["generation"] == mine_would_be - 1
                }
                return self._of_all(*next(iter(before.items()))) if before else None
        if mine >= newest:
            self._generation = max(mine, 0)
            return own
        self._generation = newest + 1
        count = next(count for count, job in others.items() if job[0].fixed["generation"] == newest)
        return self._of_all(count, others[count])

    def _of_all(self, count: int, job: Sequence[Contents]) -> Contents:
        """The contents of a job whose shards are all at the same batch."""
        if len(job) != count:
            raise InvalidState(
                f"{self.path} is of a job with {count} shards, and only {len(job)} of their journals are there: start again "
                f"with {count} shards, or remove the journals to begin the run again"
            )
        places = [[_without_shard(state["states"]) for state in contents.changing] for contents in job]
        if any(place != places[0] for place in places):
            steps = [contents.changing[0]["loop"].get("step", 0) for contents in job]
            raise InvalidState(
                f"{self.path} is of a job with {count} shards that stopped after different batches ({steps} of their epoch): "
                f"start again with {count} shards until they are at the same batch, or remove the journals"
            )
        return job[0]

    def _other_jobs(self, num_shards: int) -> dict[int, list[Contents]]:
        """The journals of jobs with other numbers of shards, by this number."""
        jobs: dict[int, list[Contents]] = {}
        for path, count in self._files():
            contents = read(path) if count != num_shards else None
            if contents is not None:
                jobs.setdefault(count, []).append(contents)
        return jobs

    def _siblings(self, num_shards: int) -> list[Contents]:
        return [x for path, count in self._files() if count == num_shards and (x := read(path)) is not None]

    def _files(self) -> list[tuple[Path, int]]:
        pattern = re.compile(re.escape(self.path.name) + r"\.\d+-of-(\d+)")
        found = [(self.path, 1)] if self.path.exists() else []
        for path in sorted(self.path.parent.iterdir()) if self.path.parent.exists() else ():
            match = pattern.fullmatch(path.name)
            if match:
                found.append((path, int(match[1])))
        return found

    def _load(self, found: Contents, pipelines: Sequence[Any]) -> None:
        fixed = found.fixed["pipelines"]
        if len(fixed) != len(pipelines):
            raise InvalidState(
                f"{self.path} is of a loop over {len(fixed)} pipelines, and this one has {len(pipelines)}"
            )
        missing = [name for name in _CHANGING if any(name not in state for state in found.changing)]
        if missing or len(found.changing) != len(fixed):
            raise InvalidState(
                f"{self.path} is damaged: its newest record lacks {missing or 'a pipeline'}; remove it to begin the run again"
            )
        try:
            for pipeline, kept, state in zip(pipelines, fixed, found.changing):
                pipeline.load_state_dict({**kept, **state})
        except (InvalidState, ValueError, TypeError, KeyError) as error:
            add_notes(error, [f"while reading the journal {self.path}; remove it to begin the run again"])
            raise

    def done(self, pipelines: Sequence[Any]) -> None:
        """Records that the last batch that was handed out is done."""
        assert self._file is not None
        self.again = False
        self._file.done([{**pipeline._built().state(), "loop": dict(pipeline._place.get())} for pipeline in pipelines])

    def handed_out(self) -> None:
        """Records that the user's loop has a batch."""
        assert self._file is not None
        self._file.handed_out()

    def close(self) -> None:
        """Closes the journal, so that other processes can use it."""
        if self._file is not None:
            self._file.close()


def _without_shard(states: Any) -> Any:
    """The states of sources without the number of the shard, because it is different in each rank."""
    if isinstance(states, dict):
        return {name: _without_shard(value) for name, value in states.items() if name != "shard_id"}
    return states


def _state(pipeline: Any) -> dict[str, Any]:
    return checkpoint.take(pipeline.plan, pipeline._built(), pipeline._place.get())


def _changing(states: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: state[name] for name in _CHANGING} for state in states]
