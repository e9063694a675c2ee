"""A call of any operator that is made again gives what the first call gives: values, types, shapes, rights and errors.

test_calls_again.py has particular calls and what is kept of them.
"""

import ast

import example_data
import numpy as np
import pytest
from generate_docs import examples, public
from helpers import the_whole_way

from pipeflow import fn, types
from pipeflow.tensors import TensorListCPU

ARRAYS = example_data.arrays()
NAMES = {"fn": fn, "types": types, "np": np, **ARRAYS}
# Operators whose calls write files, or run code of the user.
EFFECTS = {"dump_image", "experimental.dump_image", "numba_function", "experimental.numba_function"}
EXAMPLES = [
    (op, text)
    for op in public()
    if op.factory is None and not op.nodes_only and not op.traits_of({}).user_code and op.name not in EFFECTS
    for text in examples(op)
]


NONE = object()  # in place of a key: a call without one


def call_of(op, text):
    """(the arrays of the outer call by name, a function of arrays by name that makes it)"""
    tree = ast.parse(text, mode="eval").body
    given = {}

    def made(node):
        if isinstance(node, ast.Name) and node.id in ARRAYS:
            given[node.id] = ARRAYS[node.id]
        if not any(isinstance(part, ast.Call) for part in ast.walk(node)):
            return node
        name = f"argument_{len(given)}"
        given[name] = eval(ast.unparse(node), dict(NAMES))
        return ast.Name(name, ast.Load())

    arguments = []
    for node in tree.args:
        if isinstance(node, ast.Starred):  # a call with several results
            for value in eval(ast.unparse(node.value), dict(NAMES)):
                given[f"argument_{len(given)}"] = value
                arguments.append(ast.Name(f"argument_{len(given) - 1}", ast.Load()))
        else:
            arguments.append(made(node))
    tree.args = arguments
    for keyword in tree.keywords:
        keyword.value = made(keyword.value)
    codes = [ast.unparse(tree)]
    if op.random:
        tree.keywords.append(ast.keyword("key", ast.Name("key", ast.Load())))
    codes.append(ast.unparse(tree))
    without, code = [compile(written, text, "eval") for written in codes]
    return given, lambda arrays, key=5: eval(without if key is NONE else code, {**NAMES, **arrays, "key": key})


def strided(array):
    """The same numbers in memory with gaps."""
    wide = np.repeat(array, 2, axis=-1) if array.ndim else array
    return wide[..., ::2] if array.ndim else array


def fixed(array):
    """The same numbers in memory that cannot be written."""
    copy = array.copy()
    copy.flags.writeable = False
    return copy


def changed(array):
    """Other numbers of the same shape and type."""
    return np.ascontiguousarray(array[::-1]) if array.ndim else array


def as_type(dtype):
    """Makes the first array another type."""
    return lambda array: array.astype(dtype)


VARIANTS = {
    "same": (lambda x: x, True),
    "changed": (changed, False),
    "strided": (strided, True),
    "fixed": (fixed, True),
    "bytes": (as_type(np.uint8), False),
    "floats": (as_type(np.float32), False),
}
OTHER_TYPES = {name: (as_type(name), False) for name in ("i2", "i4", "f2", "f8", "?")}
every_example = pytest.mark.parametrize(("op", "text"), EXAMPLES, ids=[text for _, text in EXAMPLES])


def outcome(call):
    """The outputs of a call, or its error."""
    try:
        result = call()
    except Exception as error:
        return type(error), str(error), getattr(error, "__notes__", [])[:1]
    outputs = [*result] if isinstance(result, (list, tuple)) else [result]
    if isinstance(result, TensorListCPU):
        outputs = [np.asarray(sample) for sample in result]
    return type(result), [
        (type(x), x.dtype, x.shape, x.flags.writeable, x.tobytes()) if isinstance(x, np.ndarray) else x for x in outputs
    ]


@pytest.fixture(autouse=True)
def fresh():
    """No operator remembers calls of other tests."""
    for op, _ in EXAMPLES:
        op.forget_calls()


@every_example
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.usefixtures("elsewhere")
def test_a_repeated_call_is_the_first_call_again(op, text):
    """For the arrays of the example, others of their shapes, with gaps or read-only, bytes and floats."""
    the_same_again(op, text, VARIANTS)


@every_example
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.usefixtures("elsewhere")
def test_a_repeated_call_of_other_types(op, text):
    """Their kernels compile for minutes."""
    the_same_again(op, text, OTHER_TYPES)


def the_same_again(op, text, variants):
    """Compares repeated calls on changed arrays with first calls."""
    given, call = call_of(op, text)
    for _ in range(3):
        outcome(lambda: call(given))
    for name, (change, every) in variants.items():
        arrays = dict(given)
        for place in list(given) if every else list(given)[:1]:
            if isinstance(given[place], np.ndarray):
                arrays[place] = change(given[place])
        expected = the_whole_way(lambda arrays=arrays: outcome(lambda: call(arrays)))
        for _ in range(4):
            assert outcome(lambda arrays=arrays: call(arrays)) == expected, name


@pytest.mark.parametrize(
    ("op", "text"), [x for x in EXAMPLES if x[0].random], ids=[text for op, text in EXAMPLES if op.random]
)
def test_every_key_has_its_numbers(op, text):
    """Keys that take turns, and calls without one, which report a new key that repeats them."""
    given, call = call_of(op, text)
    for key in (5, 6, 5, (1 << 64) - 1, -3, 5, None, True, 6):
        expected = the_whole_way(lambda key=key: outcome(lambda: call(given, key)))
        assert outcome(lambda key=key: call(given, key)) == expected
    for _ in range(3):
        drawn = call(given, NONE)
        parts = drawn if isinstance(drawn, list) else [drawn]
        again = call(given, parts[0].key)
        for one, other in zip(parts, again if isinstance(again, list) else [again], strict=True):
            np.testing.assert_array_equal(np.asarray(one), np.asarray(other))
