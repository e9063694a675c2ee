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

PYTHON = os.environ.get("PIPEFLOW_ORACLE_PYTHON", "")

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
    def feed(array, layout):
        array = np.asarray(array)
        return fn.external_source(source=lambda: [array], batch=True, layout=layout or None)
    @pipeline_def(batch_size=1, num_threads=1, device_id=None, prefetch_queue_depth=1)
    def pipe():
        data = [feed(array, layout) for array, layout in zip(inputs, layouts)]
        keywords = {k: feed(v, per_frame.get(k, "")) if isinstance(v, np.ndarray) else value(v)
                    for k, v in arguments.items() if k != "per_frame"}
        return operator.attrgetter(name)(fn)(*data, **keywords)
    per_frame = arguments.get("per_frame", {})
    try:
        p = pipe()
        p.build()
        outputs = p.run()
        return [np.array(o.as_cpu()[0]) for o in outputs], [o.layout() for o in outputs]
    except Exception as error:
        return type(error).__name__, str(error)

cases = pickle.load(open(sys.argv[1], "rb"))
pickle.dump([run(case) for case in cases], open(sys.argv[2], "wb"))
"""


def case(name: str, *inputs: Any, layouts: tuple[str, ...] = (), **arguments: Any) -> tuple:
    """One question: operator name below `fn`, sample arrays, layouts; arrays among the arguments are
    per-sample."""
    arrays = [np.asarray(x) for x in inputs]
    return name, arrays, tuple(layouts) + ("",) * (len(arrays) - len(layouts)), arguments


def ask(cases: list[tuple]) -> list:
    """Per case: (list of output arrays, list of layouts), or (exception name, text)."""
    with tempfile.TemporaryDirectory() as folder:
        script, question, answer = (Path(folder) / name for name in ("script.py", "question", "answer"))
        script.write_text(SCRIPT)
        question.write_bytes(pickle.dumps(cases))
        subprocess.run([PYTHON, script, question, answer], check=True, capture_output=True, timeout=300)
        return pickle.loads(answer.read_bytes())
