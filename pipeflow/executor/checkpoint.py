"""Checkpoints: the state of a pipeline after the last delivered batch, as a few hundred bytes of JSON.

Saved are the epoch, the number of delivered batches and samples, the place of every source, the state that objects of the
user returned from ``get_state()`` when that batch was made, and the position of the loop over epochs. To load it, the
operators by name, the seed, and the settings that the sources compare (size, shuffling) must be equal. These may differ:
threads, worker processes, prefetching, batch size, and the number of shards of shuffled readers. Package version and CPU
features are recorded. If they differ, the samples are the same, but their last bits may differ: a warning says so.
"""

import hashlib
import json
import os
import platform
import sys
import warnings
from collections import Counter
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from pipeflow import system
from pipeflow.errors import BadValue, InvalidState, add_notes, count_of, function_name
from pipeflow.executor.keeper import keeps_state
from pipeflow.plan import Plan, Step
from pipeflow.version import VERSION

if TYPE_CHECKING:
    from pipeflow.executor import Executor

FORMAT = 3
LARGEST = 1900  # bytes, before the checksum; if it is larger, operators are counted instead of named
OPERATORS_BYTES = 1000  # operators are counted if their names are longer, so that a checkpoint stays below 2 kB
_FEATURES = ("sse4_2", "avx", "avx2", "fma", "avx512f", "asimd", "sve")


# Taking


def take(plan: Plan, executor: "Executor", place: Mapping[str, Any]) -> dict[str, Any]:
    """The state after the last delivered batch as plain data, with the properties that a pipeline must have to load it."""
    check_saveable(plan, executor)
    return {
        "kind": "pipeflow checkpoint",
        "format": FORMAT,
        "pipeflow": VERSION,
        "python": ".".join(map(str, sys.version_info[:2])),
        "cpu": cpu_features(),
        "seed": plan.seed,
        "operators": _operators(plan),
        **executor.state(),
        "loop": dict(place),
    }


def to_json(plan: Plan, executor: "Executor", place: Mapping[str, Any]) -> str:
    """The state that ``take`` returns as text, with a checksum."""
    state = take(plan, executor, place)
    if len(json.dumps(state)) > LARGEST:
        state["operators"] = {**state["operators"], "names": len(plan.steps())}
    return json.dumps({**state, "checksum": _checksum(state)})


def write(filename: str, text: str) -> None:
    """Writes a checkpoint completely or not at all: if the job is killed while it writes, the previous one remains."""
    # A random name, created by O_EXCL: a link that another user made in a shared folder is not followed.
    partial, content = f"{filename}.{os.urandom(8).hex()}.part", text.encode()
    try:
        with open(partial, "xb", buffering=0) as file:  # closing a file with data in its buffer would fail again
            try:
                # on a full disk the system first writes a part, and reports the error with the next write
                while content:
                    content = content[file.write(content) :]
                os.fsync(file.fileno())
                os.replace(partial, filename)
            except BaseException:
                os.remove(partial)
                raise
    except BaseException as error:
        add_notes(error, [f"while writing the checkpoint {filename}", *system.limits_reached(error)])
        raise


def sources_left_out(executor: "Executor") -> list[str]:
    """The sources whose place is not in a checkpoint, each with the reason."""
    reasons = [(item.step.name, item.source.unsaveable()) for item in executor.sources]
    return [f"{name!r}: {reason}" for name, reason in reasons if reason]


def check_saveable(plan: Plan, executor: "Executor") -> None:
    """Raises an error that lists every function whose state cannot be taken."""
    reasons = []
    for kind, step, keeper in _keepers(plan):
        if kind == "sample" or dict(step.constants).get("parallel") in ("threads", "processes"):
            reasons.append(
                f"{step.name!r}: {function_name(keeper)} keeps a state (get_state), so it must be called for one sample "
                "after another: leave parallel= out"
            )
        elif not executor.settings.enable_checkpointing:
            reasons.append(
                f"{step.name!r}: {function_name(keeper)} keeps a state: build with enable_checkpointing=True"
            )
    if reasons:
        raise InvalidState("the state of this pipeline cannot be saved: " + "; ".join(reasons))


def check_seekable(plan: Plan) -> None:
    """Raises an error that names an object whose state only the earlier batches can make."""
    for _, step, keeper in _keepers(plan):
        raise InvalidState(
            f"seek() does not know the state of {function_name(keeper)} in {step.name!r} after the earlier batches; "
            "use checkpoint() and load it"
        )


def _keepers(plan: Plan) -> list[tuple[str, Step, Any]]:
    found: list[tuple[str, Step, Any]] = []
    for stage in plan.stages:
        for step in (*stage.columns, *stage.steps):
            for _, value in step.constants:
                if keeps_state(plan.constant(value)):
                    found.append((stage.kind, step, plan.constant(value)))
    return found


# Loading


def from_json(text: "str | bytes") -> dict[str, Any]:
    """The state that ``to_json`` wrote."""
    if not isinstance(text, (str, bytes, bytearray)):
        raise TypeError(f"a checkpoint must be the bytes or text that checkpoint() returned, got {type(text).__name__}")
    try:
        state = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadValue(f"this is not a checkpoint of a pipeline, or only a part of one: {error}") from error
    if isinstance(state, dict) and state.get("kind") == "pipeflow checkpoint" and state.get("format") == FORMAT:
        saved = state.pop("checksum", None)
        if saved is None:
            raise ValueError("the checkpoint is damaged: its checksum is missing")
        if saved != _checksum(state):
            raise ValueError("the checkpoint is damaged: its checksum is wrong")
    return checked(state)


def checked(state: Any) -> dict[str, Any]:
    """The state, if it has all fields and each has its type."""
    if not isinstance(state, Mapping) or state.get("kind", "") != "pipeflow checkpoint":
        if isinstance(state, Mapping) and state.get("format") == 1:
            raise ValueError(
                "this is a serialized pipeline: use Pipeline.deserialize()"
                if "nodes" in state
                else f"the checkpoint has format 1, of an older version; this version reads format {FORMAT}"
            )
        raise ValueError("this is not a checkpoint of a pipeline: the field 'kind' is missing or has another value")
    if state.get("format") != FORMAT:
        raise ValueError(
            f"the checkpoint has format {state.get('format')!r} (made by pipeflow {state.get('pipeflow')}); "
            f"this version reads format {FORMAT}"
        )
    for name in ("epoch", "iteration", "position", "seed"):
        if not _is_count(state.get(name)):
            raise ValueError(f"the checkpoint is damaged: {name} is {state.get(name)!r}")
    for name in ("states", "operators", "loop"):
        if not isinstance(state.get(name), Mapping):
            raise ValueError(f"the checkpoint is damaged: {name} is {state.get(name)!r}")
    counted = state.get("failures")
    if counted is not None and not (isinstance(counted, list) and len(counted) == 2 and all(map(_is_count, counted))):
        raise ValueError(f"the checkpoint is damaged: failures is {counted!r}")
    place = state["loop"]
    for name in ("epoch", "step", "carry", "ended", "over") if place else ():
        value = place.get(name)
        if not (isinstance(value, bool) if name in ("ended", "over") else _is_count(value)):
            raise ValueError(f"the checkpoint is damaged: {name} of the loop is {value!r}")
    return dict(state)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**64


def load(state: Mapping[str, Any], plan: Plan, executor: "Executor") -> None:
    """Sets an executor to a state. If the state is of another pipeline, it raises and changes nothing."""
    check_fits(state, plan, executor)
    before = executor.state()
    try:
        executor.go_to({name: value for name, value in state.items() if name in before})
    except Exception:
        executor.go_to(before)
        raise


def check_fits(state: Mapping[str, Any], plan: Plan, executor: "Executor") -> None:
    """Raises an error that says how a saved pipeline and this one differ."""
    own, saved = _operators(plan), state["operators"]
    if saved.get("digest") != own["digest"]:
        raise InvalidState(f"the checkpoint is of another pipeline: {_difference(saved, own)}")
    if state["seed"] != plan.seed:
        raise InvalidState(
            f"the checkpoint was made with seed {state['seed']} and this pipeline has seed {plan.seed}: give seed={state['seed']}"
        )
    missing = [item.step.name for item in executor.sources if item.step.name not in state["states"]]
    if missing:
        raise InvalidState(f"the checkpoint has no state for {missing}: it is damaged, or was made by other code")
    found = {"pipeflow": VERSION, "cpu": cpu_features()}
    for name, value in found.items():
        if state.get(name) != value:
            warnings.warn(
                f"the checkpoint was made with {name} {state.get(name)} and this is {value}: the same samples follow, but they "
                "may differ in their last bits",
                stacklevel=4,
            )


def _operators(plan: Plan) -> dict[str, Any]:
    """The names of the operators; for a large graph the number of each kind, or only the number of all."""
    steps = plan.steps()
    names = [step.name for step in steps if not step.fetch]
    digest = hashlib.sha256("\n".join(names).encode()).hexdigest()[:16]
    details: tuple[Any, ...] = (names, dict(Counter(step.op for step in steps if not step.fetch)))
    for detail in details:
        if len(json.dumps(detail)) <= OPERATORS_BYTES:
            return {"digest": digest, "names": detail}
    return {"digest": digest, "names": len(names)}


def _difference(saved: Mapping[str, Any], own: Mapping[str, Any]) -> str:
    before, now = saved.get("names"), own["names"]
    if isinstance(before, int) or isinstance(now, int) or type(before) is not type(now):
        counts = [names if isinstance(names, int) else len(names or ()) for names in (before, now)]
        return f"it has {count_of(counts[0], 'operator')}, this one {counts[1]}, or others"
    one: Counter[str] = Counter(before)
    other: Counter[str] = Counter(now)
    gone, added = sorted((one - other).elements()), sorted((other - one).elements())
    if not gone and not added:
        return "the same operators are in another order"
    return f"only in the checkpoint: {listed(gone)}; only in this pipeline: {listed(added)}"


def listed(names: list[str]) -> str:
    """The names, or "none"."""
    return ", ".join(names) or "none"


def _checksum(state: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(state, sort_keys=True).encode()).hexdigest()[:32]


@lru_cache(maxsize=1)
def cpu_features() -> str:
    """The machine's architecture and the instruction sets that change the last bits of sums."""
    flags: set[str] = set()
    for line in system.lines_of("/proc/cpuinfo"):
        if line.startswith(("flags", "Features")):
            flags.update(line.partition(":")[2].split())
            break
    return " ".join([platform.machine(), *[name for name in _FEATURES if name in flags]])
