"""Names and arguments of all operators of the real DALI: each is here, with the same default and the same rights.

What differs is stated in the tables of this file; docs/differences-from-dali.md says the same to users.
"""

import ast
import json
import os
import re
import subprocess
from operator import attrgetter
from pathlib import Path

import pytest

from pipeflow import fn, ops, types
from pipeflow.dali_names import absent
from pipeflow.declare import find
from pipeflow.declare.opdef import MOST_INPUTS
from pipeflow.declare.parameters import NO_EFFECT, UNIVERSAL, Role
from pipeflow.errors import UnknownArgument
from pipeflow.operators.former_names import FORMER_NAMES

pytestmark = pytest.mark.oracle
ROOT = Path(__file__).parents[2]

SCRIPT = r"""
import json, warnings
warnings.simplefilter("ignore")
from nvidia.dali import backend, fn

def modules(module, path):
    for name in dir(module):
        value = getattr(module, name)
        if type(value).__name__ == "module" and value.__name__.startswith("nvidia.dali.fn.") and not name.startswith("_"):
            yield from modules(value, [*path, name])
        elif callable(value) and hasattr(value, "_schema_name") and not name.startswith("_"):
            yield ".".join([*path, name]), value._schema_name

def known(schema):
    return {
        name: {
            "tensor": schema.IsTensorArgument(name),
            "required": not schema.IsArgumentOptional(name),
            "default": schema.GetArgumentDefaultValueString(name) if schema.HasArgumentDefaultValue(name) else None,
        }
        for name in schema.GetArgumentNames()
    }

found = {}
for name, schema_name in modules(fn, []):
    schema = backend.TryGetSchema(schema_name)
    if schema is not None:
        place = ".".join([*schema.ModulePath(), schema.OperatorName()])
        inputs = range(min(schema.MaxNumInput(), 4))
        layouts = [[str(x) for x in schema.GetSupportedLayouts(number)] for number in inputs]
        found[name] = {"arguments": known(schema), "class": place, "least": schema.MinNumInput(),
                       "most": schema.MaxNumInput(), "layouts": layouts}
print("ANSWER" + json.dumps(found))
"""

# (operators, argument, default of DALI, default here) -> why. "*" is any operator.
DERIVED = "None means DALI's default, which depends on other arguments or on the type"
DEFAULTS = {
    ("brightness_contrast contrast", "contrast_center"): DERIVED,
    ("erase slice decoders.image_slice", "axes"): DERIVED,
    ("erase slice decoders.image_slice", "axis_names"): DERIVED,
    ("segmentation.random_object_bbox", "background"): DERIVED,
    ("*", "min_filter"): DERIVED,
    ("*", "mag_filter"): DERIVED,
    ("*", "resize_x"): DERIVED,
    ("*", "resize_y"): DERIVED,
    ("*", "resize_z"): DERIVED,
    ("*", "resize_shorter"): DERIVED,
    ("*", "resize_longer"): DERIVED,
    ("noise.shot", "factor"): "12 is the number with which DALI computes",
    ("dl_tensor_python_function", "batch_processing"): "the default of DALI's Python class",
}
REQUIRED = {("readers.tfrecord", "index_path"): "an index file is not needed"}
PER_SAMPLE = {
    ("readers.numpy", name): "a node is accepted as well, although the declaration does not say so"
    for name in ("roi_start", "roi_end", "roi_shape", "rel_roi_start", "rel_roi_end", "rel_roi_shape")
}


def stated(table, operator, argument):
    """True if a table states a difference."""
    return any(argument == name and (operators == "*" or operator in operators.split()) for operators, name in table)


@pytest.fixture(scope="module")
def theirs():
    """The operators of DALI with their arguments."""
    done = subprocess.run(
        [os.environ["PIPEFLOW_ORACLE_PYTHON"], "-c", SCRIPT], check=True, capture_output=True, text=True, timeout=250
    )
    return json.loads(done.stdout.partition("ANSWER")[2])


def declared(name):
    """The declaration of an operator, or of the present one of a former name; None for a function."""
    try:
        return find(name)
    except UnknownArgument:
        return None


def test_every_operator_is_here_and_runs_on_the_cpu(theirs):
    """By the names of DALI, hidden and experimental ones too, as functions; those for video say what to use instead."""
    assert len(theirs) > 170
    for name in theirs:
        if "video" in name:
            assert "video" in absent(f"fn.{name.replace('hidden.', '')}").why
            continue
        assert callable(attrgetter(name)(fn)), name
        op = declared(name)
        assert op is None or "cpu" in op.devices, name


def test_every_argument_is_here(theirs):
    """As an argument, under a former name, or with the reason why it has no effect."""
    missing = []
    for name, entry in theirs.items():
        op = declared(name) if "video" not in name else None
        if op is not None:
            known = {*op.arguments, *op.former, *op.no_effect, *NO_EFFECT, *UNIVERSAL, "seed", "preserve"}
            missing += [f"{name}: {argument}" for argument in entry["arguments"] if argument not in known]
    assert not missing


def as_here(text):
    """A default as the schema writes it."""
    try:
        return ast.literal_eval(text)
    except (SyntaxError, ValueError):
        return text


def alike(theirs, ours):
    """True for equal defaults; DALI writes types as numbers and single numbers as lists."""
    if isinstance(theirs, (list, tuple)) or isinstance(ours, (list, tuple)):
        one = [*theirs] if isinstance(theirs, (list, tuple)) else [theirs]
        other = [] if ours is None else [*ours] if isinstance(ours, (list, tuple)) else [ours]
        return len(one) == len(other) and all(map(alike, one, other))
    if ours is None:
        return theirs in ("", -1)
    if isinstance(theirs, (int, float)) and isinstance(ours, (bool, int, float)):
        return abs(theirs - ours) < 1e-5 * max(1, abs(theirs))
    if isinstance(theirs, int):
        return int(types.to_dali_type(ours)) == theirs
    return theirs == ours


def test_defaults_and_rights_of_every_argument(theirs):
    """Default, required or not, and per-sample values where DALI takes them."""
    found = []
    for name, entry in theirs.items():
        op = declared(name) if "video" not in name else None
        for argument, known in entry["arguments"].items() if op is not None else ():
            param = op.arguments.get(argument)
            if param is None:
                continue
            if known["required"] != param.required and not stated(REQUIRED, name, argument):
                found.append(f"{name}: {argument} is required {'in DALI' if known['required'] else 'here'}")
            if known["tensor"] and param.role is not Role.ARG and not stated(PER_SAMPLE, name, argument):
                found.append(f"{name}: {argument} may differ from sample to sample in DALI only")
            default = known["default"]
            if default is None or param.required or alike(as_here(default), param.default):
                continue
            if not stated(DEFAULTS, name, argument):
                found.append(f"{name}: {argument} is {default} in DALI, {param.default!r} here")
    assert not found, "\n".join(found)


def test_every_class_is_here(theirs):
    """`ops.Resize`, `ops.readers.File` and the others."""
    missing = []
    for name, entry in theirs.items():
        if "video" not in name:
            try:
                attrgetter(entry["class"])(ops)
            except AttributeError:
                missing.append(entry["class"])
    assert not missing


def test_inputs_and_their_layouts(theirs):
    """As many inputs, and every layout that DALI takes for the first one."""
    found = []
    for name, entry in theirs.items():
        op = declared(name) if "video" not in name else None
        if op is None or not op.inputs or not entry["most"]:
            continue
        if op.min_inputs > entry["least"] or op.max_inputs < min(entry["most"], MOST_INPUTS):
            found.append(f"{name}: {entry['least']} to {entry['most']} inputs, {op.min_inputs} to {op.max_inputs} here")
        missing = set(entry["layouts"][0]) - set(op.layouts) if op.layouts and entry["layouts"] else ()
        if missing:
            found.append(f"{name}: the layouts {sorted(missing)}")
    assert not found, "\n".join(found)


ON_GPUS = {
    "decoders.inflate", "dilate", "erode", "jitter", "median_blur", "optical_flow", "remap",
}  # fmt: skip


def test_the_benchmark_calls_every_operator(theirs):
    """benchmarks/image_operators.py compares all operators that DALI has on the CPU, readers and those for video aside."""
    text = (ROOT / "benchmarks" / "_operator_cases.py").read_text(encoding="utf-8")
    called = set(re.findall(r"fn\.([a-z_0-9.]+)\(", text))
    called |= set(re.findall(r"[\w.]+", text[text.index("ELSEWHERE = {") :]))
    missing = set()
    for name in theirs:
        plain = name.replace("hidden.", "")
        plain = FORMER_NAMES.get(plain, plain)
        op = declared(plain)
        plain = op.name if op is not None else plain
        others = "video" in plain or "reader" in plain or plain.removeprefix("experimental.") in ON_GPUS
        if not others and not {name, plain, plain.removeprefix("experimental.")} & called:
            missing.add(name)
    assert not missing
