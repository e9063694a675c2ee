"""Pipelines with Python functions are saved and loaded; what cannot travel is named."""

import functools
import gc
import os
import pickle
import subprocess
import sys
import threading
import types
import weakref
from pathlib import Path

import cloudpickle
import numpy as np
import pytest
from helpers import LONG

from pipeflow import Pipeline, Spec, fn, pipeline_def
from pipeflow.saving import functions

ROOT = Path(__file__).parents[2]

MODULE = """
import numpy as np
from pipeflow import Spec, fn, pipeline_def

def numbers(info):
    return np.full(3, info.idx_in_epoch, np.float32)

def double(x):
    return x * 2

def fallback(failure):
    return np.zeros(3, np.float32)

@pipeline_def(batch_size=2, num_threads=1, seed=3)
def pipeline():
    x = fn.external_source(numbers, batch=False)
    y = fn.python_function(x, function=double, outputs={"twice": Spec(np.float32, (3,))}, on_error=fallback)
    return y.twice, fn.numpy_function(np.negative, [x], np.float32), fn.py_func(double, [x], [np.float32])[0]
"""


def test_by_import_path_into_a_fresh_process(tmp_path, monkeypatch):
    """Functions at the top level of a module go by name: another process loads and runs the same pipeline."""
    (tmp_path / "user_code.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    import user_code

    pipe = user_code.pipeline()
    saved = pipe.serialize(filename=str(tmp_path / "saved.json"))
    assert b"user_code:double" in saved
    assert b"pickle" not in saved
    program = (
        "import numpy as np\nfrom pipeflow import Pipeline\n"
        f"pipe = Pipeline.deserialize(filename={str(tmp_path / 'saved.json')!r}, functions=['user_code', 'numpy'])\n"
        "print([np.array(x).tolist() for batch in pipe.run() for x in batch.samples()])\n"
    )
    environment = {"PYTHONPATH": f"{ROOT}:{tmp_path}", "PATH": "/usr/bin:/bin"}
    command = [sys.executable, "-c", program]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=LONG, check=False)
    expected = [np.array(x).tolist() for batch in pipe.run() for x in batch.samples()]
    assert result.stdout.strip() == str(expected), result.stderr


def saved_by_value(factor):
    """A pipeline with a closure and a lambda."""

    def scale(x):
        return x * factor

    @pipeline_def(batch_size=2, num_threads=1, seed=3)
    def define():
        x = fn.external_source(lambda info: np.full(3, info.idx_in_epoch, np.float32), batch=False)
        return fn.python_function(x, function=scale, on_error=lambda failure: np.zeros(3, np.float32))

    return define()


def test_by_value_only_when_both_sides_say_so():
    """Closures and lambdas are saved with allow_pickle=True and loaded with it, never otherwise."""
    with pytest.raises(TypeError, match=r"cannot be imported by name.*allow_pickle=True"):
        saved_by_value(3).serialize()
    saved = saved_by_value(3).serialize(allow_pickle=True)
    with pytest.raises(ValueError, match="if you trust it, pass allow_pickle=True"):
        Pipeline.deserialize(saved)
    (batch,) = Pipeline.deserialize(saved, allow_pickle=True).run()
    np.testing.assert_array_equal(batch.as_array(), [[0] * 3, [3] * 3])


@pytest.mark.parametrize("where", ["closure", "default", "argument"])
def test_what_cannot_be_pickled_is_named(where):
    """The message names the variable that keeps a function from travelling, its type and the operator."""
    lock = threading.Lock()
    functions = {
        "closure": lambda x: (lock, x)[1],
        "default": lambda x, lock=lock: x,
        "argument": functools.partial(lambda x, lock: x, lock=lock),
    }

    @pipeline_def(batch_size=2, num_threads=1)
    def define():
        return fn.python_function(np.ones(3), function=functions[where], name="keeper")

    with pytest.raises(TypeError) as caught:
        define().serialize(allow_pickle=True)
    text = str(caught.value)
    assert "argument 'function' of fn.python_function (keeper)" in text
    assert "lock" in text


def test_a_plan_is_picklable():
    """A plan is data: it travels by pickle with its functions and is equal on the other side."""
    pipe = saved_by_value(2)
    pipe.build()
    plan = cloudpickle.loads(cloudpickle.dumps(pipe.plan))
    assert str(plan) == str(pipe.plan)
    assert plan == pipe.plan

    @pipeline_def(batch_size=2, num_threads=1)
    def define():
        return fn.numpy_function(np.negative, [np.ones(2)], np.float64, stateful=False)

    other = define()
    other.build()
    assert pickle.loads(pickle.dumps(other.plan)) == other.plan


def test_promises_are_part_of_what_is_saved():
    """Typed and named outputs are the same after loading."""

    @pipeline_def(batch_size=2, num_threads=1)
    def define():
        x = np.ones((2, 2), np.float32)
        return tuple(fn.python_function(x, function=np.negative, outputs={"a": Spec(np.float32, (2, None), "HW")}))

    saved = define().serialize()
    loaded = Pipeline.deserialize(saved, functions=[np.negative])
    assert loaded.serialize() == saved
    assert loaded.run()[0].layout() == "HW"


def test_retained_inputs_and_results_stay_valid():
    """What a function keeps, inputs as well as results, is not changed by later batches."""
    kept = []

    def keep(x):
        result = x + 1
        kept.append((x, np.array(x), result, np.array(result)))
        return result

    @pipeline_def(batch_size=4, num_threads=2, prefetch_queue_depth=2)
    def define():
        x = fn.external_source(lambda info: np.full(5000, info.idx_in_epoch), batch=False)
        return fn.python_function(x, function=keep)

    pipe = define()
    for _ in range(6):
        pipe.run()
    assert len(kept) >= 24
    for x, copy, result, result_copy in kept:
        np.testing.assert_array_equal(x, copy)
        np.testing.assert_array_equal(result, result_copy)


EVIL = "raise SystemExit('imported')"


def calls(path):
    """A saved pipeline whose function is named by an import path."""

    @pipeline_def(batch_size=1, num_threads=1)
    def define():
        return fn.python_function(np.zeros(3, np.uint8), function=np.negative)

    return define().serialize().replace(b"numpy:negative", path.encode())


@pytest.mark.parametrize("path", ["pickle:loads", "os:system", "evil_module:f", "numpy:negative"])
def test_a_saved_pipeline_names_no_code_that_the_caller_has_not_allowed(path, tmp_path, monkeypatch):
    """Nothing is imported before the caller has said what may be, and the message lists what the file wants."""
    (tmp_path / "evil_module.py").write_text(EVIL)
    monkeypatch.syspath_prepend(tmp_path)
    module = path.partition(":")[0]
    for allowed in ({}, {"functions": ["json"]}, {"functions": [np.add]}, {"functions": [f"{module}.inner"]}):
        with pytest.raises(ValueError, match=f"calls {path}.*functions=\\['{module}'\\]"):
            Pipeline.deserialize(calls(path), **allowed)
    assert "evil_module" not in sys.modules
    pipe = Pipeline(batch_size=1, num_threads=1)
    with pytest.raises(ValueError, match="this pipeline calls"):
        pipe.deserialize_and_build(calls(path))


def test_functions_are_allowed_by_module_or_one_by_one(monkeypatch):
    """A module allows what is defined in it, not what it has imported; a function allows itself."""
    for allowed in (["numpy"], [np], [np.negative], np.negative, "numpy"):
        (batch,) = Pipeline.deserialize(calls("numpy:negative"), functions=allowed).run()
        assert batch.as_array().tolist() == [[0, 0, 0]]
    module = types.ModuleType("tests_module")
    module.os = os
    monkeypatch.setitem(sys.modules, "tests_module", module)
    with pytest.raises(ValueError, match=r"this pipeline calls tests_module:os\.system"):
        Pipeline.deserialize(calls("tests_module:os.system"), functions=["tests_module"])
    with pytest.raises(TypeError, match="functions= takes module names"):
        Pipeline.deserialize(calls("numpy:negative"), functions=[lambda x: x])


def test_without_cloudpickle_the_error_is_that_of_pickle(monkeypatch):
    """It names the function."""
    monkeypatch.setattr(functions, "cloudpickle", None)
    with pytest.raises((AttributeError, pickle.PicklingError), match="<lambda>"):
        functions.dumps_with_holes(lambda: 1, lambda _: None)


def test_holes_keep_nothing_alive():
    """What the functions for the holes know is free when the value is, not at the next collection of garbage."""
    gc.collect()
    gc.disable()
    try:
        known = [type("Known", (), {})() for _ in range(2)]
        alive = [weakref.ref(one) for one in known]
        written = functools.partial(lambda known, part: known and (1 if part == "hole" else None), known[0])
        read = functools.partial(lambda known, hole: known and [hole], known[1])
        assert functions.loads_with_holes(functions.dumps_with_holes({"a": "hole"}, written), read) == {"a": [1]}
        del known, written, read
        assert [one() for one in alive] == [None, None]
    finally:
        gc.enable()
