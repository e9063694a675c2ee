"""Decides which functions conditional execution converts, and gives the reason if it does not convert one.

With ``enable_conditionals=True`` the functions *called* while a graph is built run as converted copies, which record/autograph
makes from their source. The original function objects never change: a function that is only passed to an operator
(``python_function``, ``external_source``) is not converted. This module decides whether a function is converted, finds its
definition, and writes the message for a DataNode that is used as one truth value.
"""

import ast
import functools
import inspect
import linecache
import os
import sys
import time
import types
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

MARK = "__pipeflow_do_not_convert__"
ORIGINAL = "__pipeflow_original__"

LIBRARIES = {
    "PIL", "cupy", "cv2", "flax", "jax", "jaxlib", "keras", "numba", "numpy", "pandas", "pipeflow", "pytest", "scipy", "skimage",
    "sklearn", "tensorflow", "torch", "torchvision",
}  # fmt: skip
NEVER = (sys.stdlib_module_names - {"__main__", "test"}) | LIBRARIES
CONVERTED_MODULES = ("pipeflow.auto_aug",)

# The text of a file that is edited after this moment may differ from the text that was imported.
_STARTED = time.time()

Definition = ast.FunctionDef | ast.Lambda
SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)


class ParsedFile(NamedTuple):
    """A parsed file: its lines, tree, definitions by (name, first line), the parent of every node, and its ``global`` names."""

    lines: list[str]
    tree: ast.Module
    definitions: dict[tuple[str, int], list[Definition]]
    parents: dict[ast.AST, ast.AST]
    globals: set[str]


def do_not_convert(function: Any = None) -> Any:
    """Marks a function, method or class to be run as written when it is called while a graph is built.

    It sets an attribute and returns the same object, so that pickle, Numba and ``inspect`` see the user's function.
    """
    if function is None:
        return do_not_convert
    if getattr(function, "_is_pipeline_def", False):
        raise ValueError("a pipeline definition cannot be marked with @do_not_convert")
    target = getattr(function, "__func__", function)
    try:
        setattr(target, MARK, True)
    except (AttributeError, TypeError) as error:
        if isinstance(target, types.BuiltinFunctionType | type):
            return function  # built-in code is never converted
        raise TypeError(f"{function!r} cannot be marked with @do_not_convert: it takes no attributes") from error
    return function


def is_marked(function: Any) -> bool:
    """True if do_not_convert was applied to the function, or to the class of its object."""
    return bool(getattr(function, MARK, False) or getattr(type(getattr(function, "__self__", None)), MARK, False))


def is_converted(function: Any) -> bool:
    """True if this object is a converted copy."""
    return hasattr(getattr(function, "__func__", function), ORIGINAL)


def never_converted(module: str | None) -> bool:
    """True for modules whose functions run as written: the standard library, array libraries and pipeflow."""
    name = module or ""  # code made by exec may have none: it is the user's
    return name.partition(".")[0] in NEVER and not name.startswith(CONVERTED_MODULES)


def reason_against(function: types.FunctionType) -> str | None:
    """The reason why a Python function is not converted, as far as it is known without its source."""
    module = function.__globals__.get("__name__")  # not __module__, which functools.wraps copies
    if is_marked(function):
        return "it is marked @do_not_convert"
    if never_converted(module):
        return f"module {module!r} is never converted"
    if inspect.isgeneratorfunction(function) or function.__code__.co_flags & (
        inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
    ):
        return "generators and coroutines are not converted"
    return None


def python_function(callable_: Any) -> types.FunctionType | None:
    """The Python function that runs when an object is called; None for compiled code."""
    while isinstance(callable_, functools.partial):
        callable_ = callable_.func
    if isinstance(callable_, type):
        callable_ = callable_.__init__  # type: ignore[misc]
    elif not isinstance(callable_, types.FunctionType):
        callable_ = getattr(callable_, "__func__", None) or getattr(type(callable_), "__call__", None)  # noqa: B004 (the function is wanted)
    return callable_ if isinstance(callable_, types.FunctionType) else None


def why_not_converted(function: Any) -> str | None:
    """The reason why a callable is run as written inside a pipeline definition; None if it is converted."""
    while isinstance(function, functools.partial):
        function = function.func
    if is_marked(function) or is_marked(type(function)):
        return "it is marked @do_not_convert"
    python = python_function(function)
    if python is None:
        return "it is not a Python function (built in, compiled, or wrapped by functools.lru_cache or the like)"
    return reason_against(python) or find_definition(python)[1]


def show_converted(function: Any) -> str:
    """The converted text of a function, as Python source; ValueError with the reason if it is not converted."""
    reason = why_not_converted(function)
    python = python_function(function)
    if reason or python is None:
        raise ValueError(f"{function!r} is not converted: {reason}")
    return ast.unparse(rewriter(python))


def _no_rewriter(_: types.FunctionType) -> ast.AST:
    raise RuntimeError("pipeflow.record.autograph has not been imported")


# record/autograph sets this at import: this module is lower and must not import it.
rewriter: Callable[[types.FunctionType], ast.AST] = _no_rewriter


# ----------------------------------------------------------------------------------------------------
# Finding the definition of a function in its file

_sources: dict[str, ParsedFile] = {}


def parse(text: str, filename: str = "<unknown>") -> ast.Module:
    """``ast.parse``, repeated if another thread disturbed it.

    CPython counts the depth of a tree for the whole interpreter. If another thread parses at the same time (formatting a
    traceback does), or a finaliser runs, the check at the end fails with a SystemError although the tree is right.
    """
    for _ in range(20):
        try:
            return ast.parse(text, filename)
        except SystemError as error:
            if "recursion depth mismatch" not in str(error):
                raise
    return ast.parse(text, filename)


def source_of(filename: str, module_globals: dict[str, Any] | None = None) -> ParsedFile | None:
    """The parsed file that code was compiled from, or None without its text."""
    lines = linecache.getlines(filename, module_globals)
    known = _sources.get(filename)
    if known is None or known.lines != lines:
        text = "".join(lines)
        if not text:
            return None
        try:
            tree = parse(text, filename)
        except SyntaxError:
            return None
        known = _sources[filename] = _index(lines, tree)
    return known


def _index(lines: list[str], tree: ast.Module) -> ParsedFile:
    definitions: dict[tuple[str, int], list[Definition]] = {}
    parents: dict[ast.AST, ast.AST] = {}
    names: set[str] = set()
    todo: list[ast.AST] = [tree]
    for node in todo:
        for child in ast.iter_child_nodes(node):
            parents[child] = node
            todo.append(child)
        if isinstance(node, ast.FunctionDef):
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            definitions.setdefault((node.name, first), []).append(node)
        elif isinstance(node, ast.Lambda):
            definitions.setdefault(("<lambda>", node.lineno), []).append(node)
        elif isinstance(node, ast.Global):
            names.update(node.names)
    return ParsedFile(lines, tree, definitions, parents, names)


NOT_AVAILABLE = "its source is not available (defined by exec, in a bare REPL, or in a compiled module)"


def find_definition(function: types.FunctionType) -> tuple[Definition | None, str | None]:
    """The syntax tree of a function, or the reason why there is none."""
    code = function.__code__
    source = source_of(code.co_filename, function.__globals__)
    if source is None:
        return None, NOT_AVAILABLE
    found = source.definitions.get((code.co_name, code.co_firstlineno), [])
    if code.co_name == "<lambda>":
        places = {(line, column) for line, _, column, _ in code.co_positions() if line and column is not None}
        places.discard((code.co_firstlineno, 0))  # the start of the function, which is not an expression
        if len(found) > 1 and not places:
            return None, "several lambdas share its line and Python runs without column positions (-X no_debug_ranges)"
        fitting = [node for node in found if all(_covers(node.body, *place) for place in places)]
        found = sorted(fitting, key=lambda node: (node.end_lineno or 0, node.end_col_offset or 0, -node.col_offset))[:1]
    if not found and code.co_filename == "<string>":  # since 3.13 Python keeps the text of `python -c` under this name
        return None, NOT_AVAILABLE
    if len(found) != 1:
        return (
            None,
            f"its source at {code.co_filename}:{code.co_firstlineno} does not match (edited since it was imported?)",
        )
    arguments = found[0].args
    names = [argument.arg for argument in arguments.posonlyargs + arguments.args]
    if names != list(code.co_varnames[: code.co_argcount]) or _is_stale(code, source):
        return None, f"its source file {code.co_filename} was edited after it had been imported"
    return found[0], None


def _covers(node: Any, line: int, column: int) -> bool:
    return (node.lineno, node.col_offset) <= (line, column) <= (node.end_lineno, node.end_col_offset)


def _is_stale(code: types.CodeType, source: ParsedFile) -> bool:
    """True if the text was edited after this process began and now compiles to other code.

    Comparing the bytecode alone is not enough: pytest and other tools rewrite the modules they import.
    """
    try:
        if os.stat(code.co_filename).st_mtime < _STARTED:
            return False
        text_now = _contents("".join(source.lines), code.co_filename)
    except (OSError, SyntaxError):
        return False
    return _content(code) not in text_now.get((code.co_name, code.co_firstlineno), [])


def _content(code: types.CodeType) -> Any:
    constants = [_content(x) if isinstance(x, types.CodeType) else (type(x), repr(x)) for x in code.co_consts]
    return code.co_code, code.co_names, code.co_varnames, constants


@functools.lru_cache(maxsize=32)
def _contents(text: str, filename: str) -> dict[tuple[str, int], list[Any]]:
    found: dict[tuple[str, int], list[Any]] = {}
    for code in codes_within(compile(text, filename, "exec", dont_inherit=True)):
        found.setdefault((code.co_name, code.co_firstlineno), []).append(_content(code))
    return found


def codes_within(code: types.CodeType) -> Iterator[types.CodeType]:
    """A code object and all those nested in it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from codes_within(constant)


# ----------------------------------------------------------------------------------------------------
# Explaining a truth test on per-sample data

# The code that record/autograph has compiled, and the functions that it did not convert, with the reason.
converted_codes: set[types.CodeType] = set()
left_alone: dict[types.CodeType, str] = {}

_ADVICE = {
    "while": "the loop count must be the same for all samples",
    "assert": "check the data in a Python function, or on the outputs of the pipeline",
    "in": "compare with each candidate: `x == a or x == b`",
    "match": "use if/elif",
    "filter": "the length of the result must be the same for all samples",
    "iterable": "compute the value in a statement before it",
    "bool()": "use the value itself as the condition of an `if`",
}


def _construct(frame: types.FrameType) -> str | None:
    """The construct of converted code that needs a truth value, found by the position of the running instruction."""
    positions = list(frame.f_code.co_positions())[frame.f_lasti // 2]
    source = source_of(frame.f_code.co_filename, frame.f_globals)
    if source is None or None in positions:
        return None
    line, end_line, column, end_column = positions
    covering = [
        node
        for node in ast.walk(source.tree)
        if hasattr(node, "lineno") and _covers(node, line, column) and _covers(node, end_line, end_column)  # type: ignore[arg-type]
    ]
    sizes = [(item.end_lineno - item.lineno, item.end_col_offset - item.col_offset) for item in covering]  # type: ignore[attr-defined]
    node: ast.AST | None = covering[sizes.index(min(sizes))] if covering else None
    while node is not None and not isinstance(node, SCOPES):
        parent = source.parents.get(node)
        if isinstance(node, ast.Compare) and any(isinstance(op, ast.In | ast.NotIn) for op in node.ops):
            return "in"
        if isinstance(node, ast.Call):
            return f"{ast.unparse(node.func)}()"
        if isinstance(parent, ast.comprehension) and node in parent.ifs:
            return "filter"
        if isinstance(parent, ast.comprehension) and node is parent.iter:
            return "iterable"
        for kind, name in ((ast.While, "while"), (ast.Assert, "assert"), (ast.Match, "match")):
            if isinstance(node, kind) or (isinstance(parent, kind) and node is getattr(parent, "test", None)):
                return name
        node = parent
    return None


def explain_truth_test(frame: types.FrameType | None, enabled: bool) -> str:
    """The message for a DataNode that code in ``frame`` treats as one truth value."""
    start = "DataNode has no single truth value (it holds one value per sample)."
    if frame is None:
        return start
    code = frame.f_code
    where = f"{os.path.basename(code.co_filename)}:{frame.f_lineno}"
    if not enabled:
        return (
            f"{start} At {where}, in {code.co_name}(): conditional execution is off: use "
            "@pipeline_def(enable_conditionals=True), or compute per sample with `&`, `|` and arithmetic."
        )
    if code in converted_codes:
        construct = _construct(frame)
        if construct is None:
            return f"{start} The code at {where} needs one; only `if`, `and`, `or`, `not` and `a if c else b` work per sample."
        in_comprehension = construct in ("filter", "iterable")
        name = f"the {construct} of a comprehension" if in_comprehension else f"`{construct}`"
        advice = _ADVICE.get(construct, "it needs one answer for the whole batch; use `&`, `|` or a Python function")
        return f"{start} {name} at {where} cannot depend on per-sample data: {advice}."
    return f"{start} In {code.co_name}() at {where}: this function was not converted because {_reason(frame)}."


def _reason(frame: types.FrameType) -> str:
    code = frame.f_code
    module = frame.f_globals.get("__name__")
    if code in left_alone:
        return left_alone[code]
    if not code.co_flags & inspect.CO_OPTIMIZED:
        return "a class body or the top level of a module is run as written"
    if code.co_flags & (inspect.CO_GENERATOR | inspect.CO_COROUTINE):
        return "generators and coroutines are not converted"
    if never_converted(module):
        return f"module {module!r} is never converted"
    caller = frame.f_back
    while caller is not None:
        if caller.f_code in left_alone:
            return f"it was called by {caller.f_code.co_name}(), which is run as written: {left_alone[caller.f_code]}"
        if caller.f_code in converted_codes:
            return "it was run without a call in the text (property, operator, decorator, callback): only calls are converted"
        caller = caller.f_back
    return "nothing converted has called it"
