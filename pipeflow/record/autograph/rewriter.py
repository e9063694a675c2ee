"""The rewriter: turns the syntax tree of a function into one that calls hooks at every condition, return and call."""

import ast
from collections.abc import Iterable, Sequence
from typing import Any

from pipeflow.record.autograph.trees import PLACE, Stores, copied, jumps, returns, template, walrus_targets, within

IF = """
K = __pf__.choice(C, W, N, FR)
if K.then(__pf_locals__()):
    A
if K.other(__pf_locals__()):
    if K.node:
        RELOAD
    B
if K.end(__pf_locals__()):
    RELOAD
"""
IFEXP = "(K := __pf__.ternary(C, W)).end(A if K.then(__pf_locals__()) else __pf__.U, B if K.other(__pf_locals__()) else __pf__.U)"
BOOL = "(K := __pf__.logical(A, OP, W)).end(B if K.then(__pf_locals__()) else __pf__.U)"
FUNCTION = """
__fr__ = __pf__.frame(__pf_locals__(), __pf_cells__)
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
        # The session keeps the variables of the module; all others are reloaded after a merge.
        nodes = list(within(item for item in body if not isinstance(item, ast.Return)))
        self.globals = {name for node in nodes if isinstance(node, ast.Global) for name in node.names}
        self.frame = any(isinstance(node, ast.Return) or self.managed(node) for node in nodes)

    @staticmethod
    def managed(loop: ast.AST) -> bool:
        """True if a loop has a jump inside another statement: under a condition the jump may be per sample."""
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
        if isinstance(node, ast.FunctionDef):  # only its first line, so that coverage counts the line as run
            at.update(end_lineno=node.lineno, end_col_offset=node.col_offset + len("def"))
        for part in parts.values():
            if isinstance(part, ast.Constant) and not hasattr(part, "lineno"):
                part.__dict__.update(at)
        wrapped = ast.Module(template(text), [])
        return copied(wrapped, at, parts).body

    def expression(self, text: str, node: Any, **parts: Any) -> Any:
        return self.build(text, node, **parts)[0].value  # type: ignore[attr-defined]

    def temporary(self) -> str:
        self.count += 1
        return f"__pf{self.count}__"  # it ends in __, else Python would mangle the name inside a class

    @staticmethod
    def constant(value: Any) -> ast.Constant:
        return ast.Constant(value)

    def where(self, node: Any) -> ast.Constant:
        return self.constant(f"{self.file}:{node.lineno}")

    def stored(self, *nodes: ast.AST) -> list[str]:
        return [name for name in Stores(nodes).names if name not in self.globals]

    def reload(self, owner: str, names: Sequence[str], node: Any) -> list[ast.stmt]:
        """``a, b = owner.vals()``; then names without a value are deleted."""
        if not names:
            return self.build("pass", node)
        at = {name: getattr(node, name) for name in PLACE}
        targets = ast.Tuple([ast.Name(name, ast.Store(), **at) for name in names], ast.Store(), **at)
        result = self.build("TARGETS = K.vals()", node, TARGETS=targets, K=owner)
        for name in names:
            result += self.build("if N is __pf__.U:\n    del N", node, N=name)
        return result

    def block(self, statements: Sequence[Any]) -> list[ast.stmt]:
        """Rewrites a block. After a statement that may leave it, the rest goes under a condition."""
        done: list[ast.stmt] = []
        for position, item in enumerate(statements):
            leaves, rest = self.leaves(item), statements[position + 1 :]
            result = self.visit(item)
            done += result if isinstance(result, list) else [result]
            if leaves and rest:
                return [*done, *self.build("if __fr__.alive:\n    REST", item, REST=self.block(rest))]
        return done

    def leaves(self, *nodes: ast.AST) -> bool:
        """True if statements, not yet rewritten, may end the function or an iteration for some of the samples."""
        in_loop = bool(self.loops) and self.loops[-1] is not None
        return self.frame and (returns(*nodes) or (in_loop and any(map(jumps, nodes))))

    # Nested functions keep their code. Only their decorators, defaults and bases are rewritten: they are evaluated now.
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
            *self.build("K = __pf__.loop(__fr__, N)", node, K=name, N=self.constant(tuple(names))),
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
        return [*self.build("K = __pf__.mark(FR)", node, K=name, FR=frame), node]

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
        # Python allows no `:=` in the iterable of a comprehension, so conditions there are not rewritten.
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
            return self.expression("__pf__.negation(A, W)", node, A=node.operand, W=self.where(node))
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
        while pairs:  # a and (b and c): a stored part is read in the branch that stores it
            joined = ast.copy_location(ast.BoolOp(ast.And(), [pairs.pop(), joined]), node)
        return self.visit(joined)

    def visit_Call(self, node: ast.Call) -> Any:
        self.generic_visit(node)
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        if name != "super":  # super() reads its caller's frame
            node.func = self.expression("__pf__.call(F)", node.func, F=node.func)
        if name in ("locals", "vars", "dir") and not (node.args or node.keywords):
            return self.expression("__pf__.own(V)", node, V=node)
        return node
