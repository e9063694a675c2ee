"""The rewriter: a converted copy of a function asks *hooks* at every condition, return and call.

With a DataNode as the condition both branches run while the graph is built, so no branch has to become a function. The
copy is straight-line code in which locals stay locals::

    if c: A             k = hooks.If(c, ...)
    else: B             if k.then(locals()): A
                        if k.other(locals()): B        (variables reloaded as they were before A)
                        if k.end(locals()): reload the merged variables
    x if c else y       (k := hooks.IfExp(c)).end(x if k.then(..) else U, y if k.other(..) else U)
    p and q             (k := hooks.Bool(p, "and")).end(q if k.then(..) else U)
    f(x)                hooks.call(f)(x)
    return v            frame.ret(v), and what follows stands under `if frame.alive:`; only where it is conditional
    break, continue     loop.jump(...), likewise

Every generated node carries the position of the user's code it stands for: tracebacks, debuggers and coverage see the
user's file. Nested functions keep their own code and are converted when, and only when, converted code calls them.

``Hooks`` below is the meaning of plain Python, used whenever nothing is recorded; record/conditional has the other one.
"""

import __future__

import ast
import builtins
import functools
import inspect
import sys
import types
from collections.abc import Callable, Iterable, Sequence
from contextvars import ContextVar
from typing import Any, NamedTuple

from pipeflow import autograph_guard as guard

UNSET: Any = type("Unset", (), {"__repr__": lambda _: "<no value>"})()


# ----------------------------------------------------------------------------------------------------
# What converted code asks, with the answers of plain Python


class Choice:
    """A condition on a plain Python value: one of the two sides runs and nothing is merged."""

    node = False

    def __init__(self, value: Any, kind: str) -> None:
        self.value, self.kind, self.truth = value, kind, bool(value)

    def then(self, _: Any) -> bool:
        """Whether to run the first side; of ``and`` and ``or``, whether to evaluate the right one."""
        return self.truth != (self.kind == "or")

    def other(self, _: Any) -> bool:
        """Whether to run the second side."""
        return not self.truth

    def end(self, first: Any, second: Any = UNSET) -> Any:
        """The value of an expression; of a statement, False: there is nothing to reload."""
        if self.kind == "if":
            return False
        if self.kind == "ternary":
            return first if self.truth else second
        return self.value if first is UNSET else first


class Flow:
    """The returns, jumps and handlers of plain Python: Python itself does the work."""

    alive = True
    value: Any = None

    def ret(self, value: Any) -> None:
        """Notes the returned value; from here on nothing in the function is alive."""
        self.value, self.alive = value, False

    def finish(self) -> Any:
        """The returned value."""
        return self.value

    def jump(self, _: str, __: Any) -> bool:
        """Whether to really jump."""
        return True

    def next(self, _: Any) -> bool:
        """Ends an iteration: whether variables must be reloaded."""
        return False

    begin = reset = final = end = next


class Hooks:
    """The meaning of plain Python. Every hook is given what the recording hooks of record/conditional need to know."""

    U = UNSET

    def If(self, condition: Any, *_: Any) -> Any:
        return Choice(condition, "if")

    def IfExp(self, condition: Any, *_: Any) -> Any:
        return Choice(condition, "ternary")

    def Bool(self, left: Any, operator: str, *_: Any) -> Any:
        return Choice(left, operator)

    def Not(self, value: Any, *_: Any) -> Any:
        return not value

    def Frame(self, *_: Any) -> Any:
        return Flow()

    Loop = Mark = Frame

    def subject(self, value: Any, *_: Any) -> Any:
        return value

    call = subject


hooks: ContextVar[Hooks] = ContextVar("pipeflow_hooks", default=Hooks())  # noqa: B039 (it has no state)


class _Door:
    """What converted code holds on to: the hooks of the moment, so that code that outlives a recording stays plain."""

    def __getattr__(self, name: str) -> Any:
        return getattr(hooks.get(), name)


# ----------------------------------------------------------------------------------------------------
# The rewriter


class Stores(ast.NodeVisitor):
    """Collects the names that a block binds or deletes in its own function."""

    def __init__(self, nodes: Iterable[ast.AST]) -> None:
        self.names: dict[str, None] = {}
        for node in nodes:
            self.visit(node)

    def _add(self, *names: str | None) -> None:
        self.names.update(dict.fromkeys(name for name in names if name))

    def visit_Name(self, node: ast.Name) -> None:
        if not isinstance(node.ctx, ast.Load):
            self._add(node.id)

    def visit_FunctionDef(self, node: Any) -> None:
        self._add(node.name)

    visit_AsyncFunctionDef = visit_ClassDef = visit_FunctionDef

    def visit_Lambda(self, node: ast.Lambda) -> None:
        pass

    def visit_ListComp(self, node: ast.AST) -> None:
        self._add(*walrus_targets([node]))

    visit_SetComp = visit_DictComp = visit_GeneratorExp = visit_ListComp

    def visit_Import(self, node: Any) -> None:
        self._add(*[alias.asname or alias.name.partition(".")[0] for alias in node.names])

    visit_ImportFrom = visit_Import

    def visit_ExceptHandler(self, node: Any) -> None:
        self._add(getattr(node, "name", None), getattr(node, "rest", None))
        self.generic_visit(node)

    visit_MatchAs = visit_MatchStar = visit_MatchMapping = visit_ExceptHandler


def walrus_targets(nodes: Iterable[ast.AST]) -> list[str]:
    """The names bound by ``:=`` in some expressions, without those of nested functions."""
    return list(dict.fromkeys(node.target.id for node in within(nodes) if isinstance(node, ast.NamedExpr)))


def within(nodes: Iterable[ast.AST]) -> Iterable[ast.AST]:
    """All nodes of a block that belong to its own function."""
    todo = list(nodes)
    while todo:
        node = todo.pop()
        yield node
        if not isinstance(node, guard.SCOPES):
            todo.extend(ast.iter_child_nodes(node))


def returns(*nodes: ast.AST) -> bool:
    """Whether a block holds a ``return``."""
    return any(isinstance(node, ast.Return) for node in within(nodes))


def jumps(node: ast.AST) -> bool:
    """Whether a statement holds a ``break`` or ``continue`` of the loop around it."""
    if isinstance(node, ast.For | ast.While | ast.AsyncFor):
        return any(map(jumps, node.orelse))
    if isinstance(node, guard.SCOPES):
        return False
    return isinstance(node, ast.Break | ast.Continue) or any(map(jumps, ast.iter_child_nodes(node)))


@functools.cache
def _template(text: str) -> list[ast.stmt]:
    return ast.parse(text).body


def copied(node: Any, at: Any = None, parts: Any = None) -> Any:
    """A copy of a tree, many times faster than deepcopy; of a template, placed at ``at`` and with its names filled in."""
    kind: Any = type(node)
    held = node.__dict__
    if not held:
        return node  # a context or an operator: it stands for itself
    if parts and kind is ast.Name and node.id in parts:
        part = parts[node.id]
        return ast.Name(part, node.ctx, **(at or {})) if isinstance(part, str) else part
    new = kind.__new__(kind)
    fields = new.__dict__
    fields.update(held)
    for name, value in held.items():
        if isinstance(value, ast.AST):
            fields[name] = copied(value, at, parts)
        elif type(value) is list:
            items: list[Any] = []
            for item in value:
                block = parts and type(item) is ast.Expr and type(item.value) is ast.Name and parts.get(item.value.id)
                if type(block) is list:
                    items.extend(block)
                else:
                    items.append(copied(item, at, parts) if isinstance(item, ast.AST) else item)
            fields[name] = items
    if at is not None and kind._attributes:
        fields.update(at)
    return new


PLACE = ("lineno", "col_offset", "end_lineno", "end_col_offset")
IF = """
K = __pf__.If(C, W, N, FR)
if K.then(__pf_locals__()):
    A
if K.other(__pf_locals__()):
    if K.node:
        RELOAD
    B
if K.end(__pf_locals__()):
    RELOAD
"""
IFEXP = "(K := __pf__.IfExp(C, W)).end(A if K.then(__pf_locals__()) else __pf__.U, B if K.other(__pf_locals__()) else __pf__.U)"
BOOL = "(K := __pf__.Bool(A, OP, W)).end(B if K.then(__pf_locals__()) else __pf__.U)"
FUNCTION = """
__fr__ = __pf__.Frame(__pf_locals__(), __pf_cells__)
BODY
return __fr__.finish()
"""


class Rewriter(ast.NodeTransformer):
    """Rewrites the copy of one function in place."""

    def __init__(self, filename: str, function: Any) -> None:
        self.file = filename.rpartition("/")[2].rpartition("\\")[2]
        self.count = self.plain = 0
        self.loops: list[str | None] = []
        body = function.body if isinstance(function.body, list) else []
        # Variables of the module are containers of the session's; the others are reloaded after a merge.
        nodes = list(within(item for item in body if not isinstance(item, ast.Return)))
        self.globals = {name for node in nodes if isinstance(node, ast.Global) for name in node.names}
        self.frame = any(isinstance(node, ast.Return) or self.managed(node) for node in nodes)

    @staticmethod
    def managed(loop: ast.AST) -> bool:
        """Whether a loop has a jump inside another statement, which a condition may make per-sample."""
        if not isinstance(loop, ast.For | ast.While):
            return False
        return any(jumps(item) for item in loop.body if not isinstance(item, ast.Break | ast.Continue))

    def top(self, function: Any) -> Any:
        """The rewritten function."""
        if isinstance(function, ast.Lambda):
            function.body = self.visit(function.body)
            return function
        documented = ast.get_docstring(function, clean=False) is not None
        body = self.block(function.body[documented:])  # the copy takes its docstring from the original
        if self.frame:
            body = self.build(FUNCTION, function, BODY=body)
        function.body = body or [ast.copy_location(ast.Pass(), function.body[0])]
        return function

    # Building blocks
    def build(self, text: str, node: Any, **parts: Any) -> list[ast.stmt]:
        at = {name: getattr(node, name) for name in PLACE}
        if isinstance(node, ast.FunctionDef):  # only its first line, which coverage knows to have run
            at.update(end_lineno=node.lineno, end_col_offset=node.col_offset + len("def"))
        for part in parts.values():
            if isinstance(part, ast.Constant) and not hasattr(part, "lineno"):
                part.__dict__.update(at)
        wrapped = ast.Module(_template(text), [])
        return copied(wrapped, at, parts).body

    def expression(self, text: str, node: Any, **parts: Any) -> Any:
        return self.build(text, node, **parts)[0].value  # type: ignore[attr-defined]

    def temporary(self) -> str:
        self.count += 1
        return f"__pf{self.count}__"  # ends in __, or it would be mangled inside a class

    @staticmethod
    def constant(value: Any) -> ast.Constant:
        return ast.Constant(value)

    def where(self, node: Any) -> ast.Constant:
        return self.constant(f"{self.file}:{node.lineno}")

    def stored(self, *nodes: ast.AST) -> list[str]:
        return [name for name in Stores(nodes).names if name not in self.globals]

    def reload(self, owner: str, names: Sequence[str], node: Any) -> list[ast.stmt]:
        """``a, b = owner.vals()``, and those without a value are deleted."""
        if not names:
            return self.build("pass", node)
        at = {name: getattr(node, name) for name in PLACE}
        targets = ast.Tuple([ast.Name(name, ast.Store(), **at) for name in names], ast.Store(), **at)
        result = self.build("TARGETS = K.vals()", node, TARGETS=targets, K=owner)
        for name in names:
            result += self.build("if N is __pf__.U:\n    del N", node, N=name)
        return result

    def block(self, statements: Sequence[Any]) -> list[ast.stmt]:
        """Rewrites a block; what follows a statement that may leave it stands under a condition."""
        done: list[ast.stmt] = []
        for position, item in enumerate(statements):
            leaves, rest = self.leaves(item), statements[position + 1 :]
            result = self.visit(item)
            done += result if isinstance(result, list) else [result]
            if leaves and rest:
                return [*done, *self.build("if __fr__.alive:\n    REST", item, REST=self.block(rest))]
        return done

    def leaves(self, *nodes: ast.AST) -> bool:
        """Whether statements, still as written, may end the function or an iteration for some of the samples."""
        in_loop = bool(self.loops) and self.loops[-1] is not None
        return self.frame and (returns(*nodes) or (in_loop and any(map(jumps, nodes))))

    # Functions inside keep their code; only what is evaluated now, at their definition, is rewritten.
    def visit_FunctionDef(self, node: Any) -> Any:
        node.decorator_list = [self.visit(item) for item in node.decorator_list]
        node.args.defaults = [self.visit(item) for item in node.args.defaults]
        node.args.kw_defaults = [item and self.visit(item) for item in node.args.kw_defaults]
        return node

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_Lambda(self, node: ast.Lambda) -> Any:
        node.args.defaults = [self.visit(item) for item in node.args.defaults]
        node.args.kw_defaults = [item and self.visit(item) for item in node.args.kw_defaults]
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> Any:
        node.decorator_list = [self.visit(item) for item in node.decorator_list]
        node.bases = [self.visit(item) for item in node.bases]
        return node

    # Statements
    def visit_Return(self, node: ast.Return) -> Any:
        value = self.visit(node.value) if node.value else self.constant(None)
        if self.frame:
            return self.build("__fr__.ret(V)", node, V=value)
        node.value = value if node.value else None
        return node

    def visit_If(self, node: ast.If) -> Any:
        names = self.stored(*node.body, *node.orelse)
        leaves, name = self.leaves(node), self.temporary()
        return self.build(
            IF,
            node,
            K=name,
            C=self.visit(node.test),
            W=self.where(node),
            N=self.constant(tuple(names)),
            FR="__fr__" if leaves else self.constant(None),
            A=self.block(node.body),
            B=self.block(node.orelse),
            RELOAD=self.reload(name, names, node),
        )

    def _visit_loop(self, node: Any) -> Any:
        name = self.temporary() if self.managed(node) else None
        names = self.stored(*([node.target] if isinstance(node, ast.For) else []), *node.body, *node.orelse)
        leaves = self.frame and returns(*node.body)
        for field in ("target", "iter", "test"):
            if hasattr(node, field):
                setattr(node, field, self.visit(getattr(node, field)))
        self.loops.append(name)
        node.body = self.block(node.body)
        self.loops.pop()
        node.orelse = self.block(node.orelse)
        if name:
            reload = self.reload(name, names, node)
            node.body[:0] = self.build("K.begin(__pf_locals__())", node, K=name)
            node.body += self.build("if K.next(__pf_locals__()):\n    RELOAD", node, K=name, RELOAD=reload)
        if name or leaves:
            node.body += self.build("if not __fr__.alive:\n    break", node)
        if not name:
            return node
        return [
            *self.build("K = __pf__.Loop(__fr__, N)", node, K=name, N=self.constant(tuple(names))),
            node,
            *self.build("if K.end(__pf_locals__()):\n    RELOAD", node, K=name, RELOAD=reload),
        ]

    visit_For = visit_While = _visit_loop

    def _visit_jump(self, node: Any) -> Any:
        if not self.loops[-1]:
            return node
        kind = self.constant(type(node).__name__.lower())
        return self.build("if K.jump(KIND, __pf_locals__()):\n    JUMP", node, K=self.loops[-1], KIND=kind, JUMP=[node])

    visit_Break = visit_Continue = _visit_jump

    def visit_With(self, node: ast.With) -> Any:
        node.items = [self.visit(item) for item in node.items]
        node.body = self.block(node.body)
        return node

    def visit_Try(self, node: Any) -> Any:
        name = self.temporary()
        inside = [*node.body, *node.orelse, *(item for handler in node.handlers for item in handler.body)]
        leaves, leaves_anywhere = self.leaves(*node.body), self.leaves(*inside)
        assigns = any(isinstance(getattr(item, "ctx", None), ast.Store | ast.Del) for item in within(node.finalbody))
        node.body, node.orelse, node.finalbody = map(self.block, (node.body, node.orelse, node.finalbody))
        if leaves and node.orelse:
            node.orelse = self.build("if __fr__.alive:\n    REST", node, REST=node.orelse)
        for handler in node.handlers:
            handler.body = [*self.build("K.reset(None)", handler, K=name), *self.block(handler.body)]
        if leaves_anywhere and assigns:
            node.finalbody[:0] = self.build("K.final(W)", node, K=name, W=self.where(node))
        frame = "__fr__" if self.frame else self.constant(None)
        return [*self.build("K = __pf__.Mark(FR)", node, K=name, FR=frame), node]

    visit_TryStar = visit_Try

    def visit_Match(self, node: ast.Match) -> Any:
        node.subject = self.expression("__pf__.subject(S, W)", node, S=self.visit(node.subject), W=self.where(node))
        for case in node.cases:
            case.guard = case.guard and self.visit(case.guard)
            case.body = self.block(case.body)
        return node

    # Expressions
    def _poisoned(self, result: Any, owner: str, node: Any, parts: Iterable[ast.AST]) -> Any:
        """After a condition on a node, names bound by ``:=`` in the conditional part have no single value."""
        names = [name for name in walrus_targets(parts) if not name.startswith("__pf")]
        if not names:
            return result
        items = "".join(f", K.node and ({name} := K.poison({name!r}))" for name in names)
        return self.expression(f"[A{items}][0]", node, A=result, K=owner)

    def visit_comprehension(self, node: ast.comprehension) -> Any:
        # No `:=` may stand in what a comprehension iterates over, so there conditions stay Python's own.
        self.plain += 1
        node.iter = self.visit(node.iter)
        self.plain -= 1
        node.ifs = [self.visit(item) for item in node.ifs]
        return node

    def visit_IfExp(self, node: ast.IfExp) -> Any:
        if self.plain:
            return self.generic_visit(node)
        name, parts = self.temporary(), [copied(node.body), copied(node.orelse)]
        result = self.expression(
            IFEXP,
            node,
            K=name,
            C=self.visit(node.test),
            W=self.where(node),
            A=self.visit(node.body),
            B=self.visit(node.orelse),
        )
        return self._poisoned(result, name, node, parts)

    def visit_BoolOp(self, node: ast.BoolOp) -> Any:
        if self.plain:
            return self.generic_visit(node)
        operator = "and" if isinstance(node.op, ast.And) else "or"
        result = self.visit(node.values[0])
        for value in node.values[1:]:
            name, part = self.temporary(), copied(value)
            parts = {"A": result, "OP": self.constant(operator), "W": self.where(node), "B": self.visit(value)}
            result = self.expression(BOOL, node, K=name, **parts)
            result = self._poisoned(result, name, node, [part])
        return result

    def visit_UnaryOp(self, node: ast.UnaryOp) -> Any:
        node.operand = self.visit(node.operand)
        if isinstance(node.op, ast.Not):
            return self.expression("__pf__.Not(A, W)", node, A=node.operand, W=self.where(node))
        return node

    def visit_Compare(self, node: ast.Compare) -> Any:
        if len(node.ops) == 1 or self.plain:
            return self.generic_visit(node)
        pairs, left = [], node.left
        for position, (op, right) in enumerate(zip(node.ops, node.comparators)):  # a < b < c: a < (k := b) and k < c
            name = self.temporary()
            last = position == len(node.ops) - 1
            stored = right if last else self.expression("(K := A)", right, K=name, A=right)
            pairs.append(ast.copy_location(ast.Compare(left, [op], [stored]), node))
            left = self.expression("K", right, K=name)
        joined: Any = pairs.pop()
        while pairs:  # a and (b and c): a part that is stored for the next one is read in the branch it is made in
            joined = ast.copy_location(ast.BoolOp(ast.And(), [pairs.pop(), joined]), node)
        return self.visit(joined)

    def visit_Call(self, node: ast.Call) -> Any:
        self.generic_visit(node)
        if not (isinstance(node.func, ast.Name) and node.func.id == "super"):  # super() reads its caller's frame
            node.func = self.expression("__pf__.call(F)", node.func, F=node.func)
        return node


# ----------------------------------------------------------------------------------------------------
# Converting functions

FUTURE = functools.reduce(
    int.__or__, (getattr(__future__, name).compiler_flag for name in __future__.all_feature_names)
)
TYPE_PARAMS: dict[str, Any] = {"type_params": []} if sys.version_info >= (3, 12) else {}


class Conversion(NamedTuple):
    """The compiled copy of a function's code, or the reason why there is none."""

    code: types.CodeType | None
    reason: str | None


_conversions: dict[Any, Conversion] = {}
_door = _Door()


def rewritten(function: types.FunctionType) -> Any:
    """The rewritten syntax tree of a function whose definition can be found."""
    node, _ = guard.find_definition(function)
    return Rewriter(function.__code__.co_filename, node).top(copied(node))


guard.rewriter = rewritten


def _compile(function: types.FunctionType) -> Conversion:
    node, reason = guard.find_definition(function)
    if node is None:
        return Conversion(None, reason)
    code = function.__code__
    new = rewritten(function)
    _strip(new)
    place = {name: getattr(new, name) for name in PLACE}
    body: list[Any] = [ast.copy_location(ast.Expr(new), new) if isinstance(new, ast.Lambda) else new]
    owner = _class_around(function, node)
    if not owner and isinstance(new, ast.FunctionDef) and new.name not in code.co_freevars:
        body.insert(0, ast.Global([new.name], **place))  # a function that calls itself means the one of its module
    if owner:
        # Private names are mangled with the class name without leading underscores, so this one mangles alike and
        # yet hides no name of the user's.
        body = [ast.ClassDef("_______" + owner.lstrip("_"), [], [], body, [], **TYPE_PARAMS, **place)]
    cells = ["__pf__", "__pf_locals__", "__pf_cells__", *code.co_freevars]
    arguments = ast.arguments([], [ast.arg(name, **place) for name in cells], None, [], [], None, [])
    factory = ast.FunctionDef("__pf_factory__", arguments, body, [], **TYPE_PARAMS, **place)
    tree = ast.Module([factory], [])
    compiled = compile(tree, code.co_filename, "exec", code.co_flags & FUTURE, dont_inherit=True)
    depth = 3 if owner else 2
    made = next(item for item in _nested(compiled, depth) if item.co_name == code.co_name)
    made = _renamed(made, made.co_qualname, code.co_qualname)
    guard.converted_codes.update(_expressions(made))
    return Conversion(made, None)


def _nested(code: types.CodeType, depth: int) -> Iterable[types.CodeType]:
    inner = [item for item in code.co_consts if isinstance(item, types.CodeType)]
    return inner if depth == 1 else [found for item in inner for found in _nested(item, depth - 1)]


def _renamed(code: types.CodeType, old: str, new: str) -> types.CodeType:
    """The code, and all inside it, under the qualified names they have in the user's file."""
    name = new + code.co_qualname.removeprefix(old)
    body_of_class = not code.co_flags & inspect.CO_OPTIMIZED  # which holds its own name as a constant

    def renamed(constant: Any) -> Any:
        if isinstance(constant, types.CodeType):
            return _renamed(constant, old, new)
        return name if body_of_class and constant == code.co_qualname else constant

    return code.replace(co_qualname=name, co_consts=tuple(map(renamed, code.co_consts)))


def _expressions(code: types.CodeType) -> Iterable[types.CodeType]:
    """Converted code and its comprehensions, which are converted with it; functions inside are not."""
    yield code
    for item in code.co_consts:
        if isinstance(item, types.CodeType) and item.co_name in ("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>"):
            yield from _expressions(item)


def _strip(function: Any) -> None:
    """Takes away what the original function object already holds: decorators, defaults and annotations."""
    arguments = function.args
    none = ast.copy_location(ast.Constant(None), function)
    arguments.defaults = [none for _ in arguments.defaults]
    arguments.kw_defaults = [item and none for item in arguments.kw_defaults]
    for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg):
        if argument:
            argument.annotation = None
    if isinstance(function, ast.FunctionDef):
        function.decorator_list, function.returns = [], None
        function.__dict__.update(TYPE_PARAMS)


def _class_around(function: types.FunctionType, node: ast.AST) -> str | None:
    source = guard.source_of(function.__code__.co_filename, function.__globals__)
    parent = source.parents.get(node) if source else None
    while parent is not None and not isinstance(parent, ast.ClassDef):
        parent = source.parents.get(parent) if source else None
    return parent.name if parent is not None else None


def convert(function: types.FunctionType) -> types.FunctionType:
    """The converted copy of a Python function; the function itself where it cannot or shall not be converted."""
    if hasattr(function, guard.ORIGINAL):
        return function
    code = function.__code__
    reason = guard.reason_against(function)
    if reason is None:
        key = (code, code.co_filename, code.co_qualname)
        conversion = _conversions.get(key) or _conversions.setdefault(key, _compile(function))
        reason = conversion.reason
    if reason is not None:
        guard.left_alone[code] = reason
        return function
    cells = {
        "__pf__": types.CellType(_door),
        "__pf_locals__": types.CellType(builtins.locals),
        "__pf_cells__": types.CellType(function.__closure__ or ()),
        **dict(zip(code.co_freevars, function.__closure__ or ())),
    }
    made = conversion.code
    assert made is not None
    copy = types.FunctionType(
        made,
        function.__globals__,
        function.__name__,
        function.__defaults__,
        tuple(cells[name] for name in made.co_freevars),
    )
    functools.update_wrapper(copy, function)
    copy.__kwdefaults__ = function.__kwdefaults__
    setattr(copy, guard.ORIGINAL, function)
    return copy


def converted(function: Any) -> Any:
    """The converted form of any callable, or the callable itself. It never raises: odd callables come back as they are."""
    if isinstance(function, types.FunctionType):
        return convert(function)
    if isinstance(function, types.BuiltinFunctionType | types.MethodWrapperType):
        return _keyed(function) if function.__name__ in ("sorted", "min", "max", "reduce") else function
    if guard.is_marked(function) or guard.is_marked(type(function)):
        _leave_marked(function)
        return function
    if isinstance(function, types.MethodType):
        inner = function.__func__
        new = convert(inner) if isinstance(inner, types.FunctionType) else inner
        return function if new is inner else types.MethodType(new, function.__self__)
    if type(function) is functools.partial:
        new = converted(function.func)
        return function if new is function.func else functools.partial(new, *function.args, **function.keywords)
    if isinstance(function, type):
        return _higher_order(function) if function in (map, filter) else _constructor(function)
    call = getattr(type(function), "__call__", None)  # noqa: B004 (the function is wanted)
    if isinstance(call, types.FunctionType):
        new = convert(call)
        return function if new is call else types.MethodType(new, function)
    return function


def _leave_marked(function: Any) -> None:
    python = guard.python_function(function)
    if python is not None:
        guard.left_alone[python.__code__] = "it is marked @do_not_convert"


def _higher_order(function: Any) -> Callable[..., Any]:
    return lambda inner, *args, **keywords: function(converted(inner), *args, **keywords)


def _keyed(function: Any) -> Any:
    if function is functools.reduce:
        return _higher_order(function)
    if function not in (sorted, min, max):
        return function

    def keyed(*args: Any, **keywords: Any) -> Any:
        if keywords.get("key") is not None:
            keywords["key"] = converted(keywords["key"])
        return function(*args, **keywords)

    return keyed


def _constructor(cls: type) -> Any:
    """The call of a plain class with a converted ``__init__``."""
    init = cls.__init__  # type: ignore[misc]
    if type(cls) is not type or cls.__new__ is not object.__new__ or not isinstance(init, types.FunctionType):
        return cls
    new = convert(init)
    if new is init:
        return cls

    def construct(*args: Any, **keywords: Any) -> Any:
        instance = object.__new__(cls)  # type: ignore[var-annotated]
        new(instance, *args, **keywords)
        return instance

    return construct
