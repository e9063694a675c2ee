"""Asks the real DALI what it answers, in a process of its own.

`PIPEFLOW_ORACLE_PYTHON` names a Python that has `nvidia-dali` installed; the cases of one call travel in one
pickle each way, because starting DALI costs more than running it.
"""

import os
import pickle
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from pipeflow import types
from pipeflow.declare import find
from pipeflow.tensors import TensorListCPU

PYTHON = os.environ.get("PIPEFLOW_ORACLE_PYTHON", "")
SEED = int(os.environ.get("PIPEFLOW_CALLS_SEED", "0"))


def random(number: int) -> np.random.Generator:
    """The generator of a test, which draws other cases if PIPEFLOW_CALLS_SEED is set."""
    return np.random.default_rng([number, SEED] if SEED else number)


# Runs inside the peer: one pipeline a case, all inputs through external_source.
SCRIPT = r"""
import operator, pickle, sys
import numpy as np
from nvidia.dali import fn, pipeline_def, types

def value(x):
    if isinstance(x, str) and x.startswith("types."):
        return operator.attrgetter(x[6:])(types)
    if isinstance(x, list):
        return [value(item) for item in x]
    return x

def run(case):
    name, inputs, layouts, arguments = case
    batch = [x for x in (*inputs, *arguments.values()) if isinstance(x, tuple)]
    size = len(batch[0]) if batch else 1
    def feed(array, layout):
        arrays = list(array) if isinstance(array, tuple) else [np.asarray(array)] * size
        return fn.external_source(source=lambda: arrays, batch=True, layout=layout or None)
    @pipeline_def(batch_size=size, num_threads=1, device_id=None, prefetch_queue_depth=1)
    def pipe():
        data = [feed(array, layout) for array, layout in zip(inputs, layouts)]
        keywords = {k: feed(v, per_frame.get(k, "")) if isinstance(v, (np.ndarray, tuple)) else value(v)
                    for k, v in arguments.items() if k != "per_frame"}
        result = operator.attrgetter(name)(fn)(*data, **keywords)
        return tuple(result) if isinstance(result, list) else result
    per_frame = arguments.get("per_frame", {})
    try:
        p = pipe()
        p.build()
        outputs = p.run()
        values = [[np.array(o.as_cpu()[i]) for i in range(size)] for o in outputs]
        return values if batch else [x[0] for x in values], [o.layout() for o in outputs]
    except Exception as error:
        return type(error).__name__, str(error)

cases = pickle.load(open(sys.argv[1], "rb"))
pickle.dump([run(case) for case in cases], open(sys.argv[2], "wb"))
"""


def case(name: str, *inputs: Any, layouts: tuple[str, ...] = (), **arguments: Any) -> tuple:
    """One question: operator name below `fn`, sample arrays, layouts; arrays among the arguments are
    per-sample. Tuples of arrays, among the inputs or the arguments, make it a question about a batch."""
    arrays = [x if isinstance(x, tuple) else np.asarray(x) for x in inputs]
    return name, arrays, tuple(layouts) + ("",) * (len(arrays) - len(layouts)), arguments


def ask(cases: list[tuple]) -> list:
    """Per case: (list of output arrays, list of layouts), or (exception name, text). For a batch, a list of arrays an output."""
    with tempfile.TemporaryDirectory() as folder:
        script, question, answer = (Path(folder) / name for name in ("script.py", "question", "answer"))
        script.write_text(SCRIPT)
        question.write_bytes(pickle.dumps(cases))
        subprocess.run([PYTHON, script, question, answer], check=True, capture_output=True, timeout=300)
        return pickle.loads(answer.read_bytes())


def answer(name: str, inputs: Any, layouts: Any, options: dict[str, Any], key: int | None = None) -> tuple[list, list]:
    """What pipeflow answers to the same question, in the same form."""
    whole = any(isinstance(x, tuple) for x in (*inputs, *options.values()))
    size = next((len(x) for x in (*inputs, *options.values()) if isinstance(x, tuple)), 1)

    def batch(value: Any, layout: str = "") -> TensorListCPU:
        return TensorListCPU(list(value) if isinstance(value, tuple) else [np.asarray(value)] * size, layout)

    def argument(value: Any) -> Any:
        if isinstance(value, (tuple, np.ndarray)):
            return batch(value)
        return getattr(types, value[6:]) if isinstance(value, str) and value.startswith("types.") else value

    layouts = (*layouts, *[""] * (len(inputs) - len(layouts)))
    keywords = {name: argument(value) for name, value in options.items()} | ({} if key is None else {"key": key})
    result = find(name)(*[batch(x, layout) for x, layout in zip(inputs, layouts)], **keywords)
    outputs = result if isinstance(result, list) else [result]
    arrays = [[np.asarray(x) for x in output.samples()] for output in outputs]
    return arrays if whole else [x[0] for x in arrays], [output.layout() for output in outputs]


def compare(rows: list[tuple], least: int = 1) -> None:
    """Every row (operator, inputs, layouts, arguments, tolerance) gives what DALI gives; all questions are asked at once.

    The tolerance is absolute for integers, relative to the largest value or input for floats; 1 on bytes is one step: then few
    values may differ. Where DALI refuses a row, so must pipeflow; `least` is the share of rows that DALI has to answer.
    """
    given = ask([case(name, *inputs, layouts=tuple(layouts), **options) for name, inputs, layouts, options, _ in rows])
    problems, answered = [], 0
    for (name, inputs, layouts, options, tolerance), (values, names) in zip(rows, given, strict=True):
        text = f"{name}({', '.join(map(_described, inputs))}, {options})"
        try:
            found, found_names = answer(name, inputs, layouts, options)
        except Exception as error:
            if isinstance(values, list):
                problems.append(f"{text}: refused with {error!r}")
            continue
        if not isinstance(values, list):
            problems.append(f"{text}: DALI refuses: {names[-300:]}")
            continue
        answered += 1
        flat = [(x, y) for x, y in zip(found, values)]
        if values and isinstance(values[0], list):
            flat = [pair for x, y in flat for pair in zip(x, y, strict=True)]
        size = max((float(np.abs(x).max(initial=0)) for x in inputs if isinstance(x, np.ndarray)), default=0.0)
        problems += [f"{text}: {problem}" for x, y in flat for problem in _differences(x, y, tolerance, size)]
        if found_names != list(names):
            problems.append(f"{text}: layouts {found_names}, DALI's are {names}")
    assert not problems, f"{len(problems)} of {len(rows)}:\n" + "\n".join(problems[:12])
    assert answered >= least * len(rows)


def _described(value: Any) -> str:
    if isinstance(value, tuple):
        return f"batch of {len(value)}"
    return f"{value.dtype}{list(value.shape)}"


def _differences(found: np.ndarray, value: np.ndarray, tolerance: float, size: float) -> list[str]:
    if (found.shape, found.dtype) != (value.shape, value.dtype):
        return [f"{found.dtype}{list(found.shape)}, DALI gives {value.dtype}{list(value.shape)}"]
    difference = np.abs(found.astype(np.float64) - value.astype(np.float64))
    largest = max(1.0, size, float(np.abs(value).max(initial=0)))
    limit = tolerance * largest if value.dtype.kind == "f" else tolerance
    if not difference.max(initial=0) <= limit:
        at = np.unravel_index(int(np.nanargmax(difference)), difference.shape)
        return [
            f"{found[at]} at {[int(i) for i in at]}, DALI gives {value[at]} ({(difference > limit).mean():.2%} differ)"
        ]
    if tolerance == 1 and value.dtype == np.uint8 and (difference > 0).sum() > max(2, 0.1 * difference.size):
        return [f"{(difference > 0).mean():.1%} of the bytes are one step off"]
    return []
