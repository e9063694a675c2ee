"""The changes that `tools/mutate.py` draws from: small mistakes as people make them, found in the syntax tree.

The changes are: another comparison or boundary, another constant, two arguments in the wrong order, an argument that
is ignored or left out, a missing call, copy, note or condition, another axis; in CUDA files rules over the text make
the same changes. The text of messages, types in annotations and the arguments of decorators are not changed.
"""

import ast
import collections
import dataclasses
import functools
import hashlib
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# Area -> the beginning of its paths; the longest prefix counts. Code that needs a GPU or a framework is not changed.
AREAS = {
    "run": "executor/", "workers": "executor/workers/", "run on GPU": "executor/device device/ backends/",
    "compile": "compile/", "record": "record/ autograph_guard.py", "declare": "declare/",
    "functions": "operators/python_function operators/functions operators/tensor operators/numba operators/gradients",
    "sources": "operators/external_source operators/sources operators/readers/ operators/cache tfrecord.py",
    "operators": "operators/", "sound": "operators/audio kernels/cpu/audio", "operators on GPU": "operators/on_gpu/",
    "kernels": "kernels/cpu/", "CUDA": "kernels/gpu/", "delivery": "plugin/ epochs/ resume.py saving/ loading/",
    "reports": "reporting/ watching/ commands/ timing.py handle/reports", "pictures": "pictures/ auto_aug/",
    "ground": "tensors/ types.py errors.py seeds.py system.py pipeline.py handle/ plan.py",
}  # fmt: skip
NOT_DRAWN = ("plugin/pytorch", "plugin/jax", "plugin/keras", "plugin/paddle", "plugin/tf", "distributed/", "backends/gpu",
             "backends/codec", "operators/tensorflow_functions", "kernels/gpu/numba_cuda", "__main__", "version")  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Mutant:
    """One change of one file."""

    file: str
    line: int
    begin: int
    end: int
    new: str
    what: str  # "old -> new", in one line
    text: str  # the whole line, stripped

    @property
    def key(self) -> str:
        return f"{self.file} | {self.text} | {self.what}"

    @functools.cached_property
    def area(self) -> str:
        found = [(len(p), area) for area, all_ in AREAS.items() for p in all_.split() if self.file[9:].startswith(p)]
        return max(found)[1] if found else "ground"


def one_line(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) < 90 else text[:60] + " ... " + text[-25:]


# --- drawing ---------------------------------------------------------------------------------------------------------

COMPARED = {ast.Lt: ("<", "<="), ast.LtE: ("<=", "<"), ast.Gt: (">", ">="), ast.GtE: (">=", ">"), ast.Eq: ("==", "!="),
            ast.NotEq: ("!=", "=="), ast.In: ("in", "not in"), ast.NotIn: ("not in", "in"), ast.Is: ("is", "is not"),
            ast.IsNot: ("is not", "is")}  # fmt: skip
COMPUTED = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult,
            ast.LShift: ast.RShift, ast.RShift: ast.LShift, ast.BitAnd: ast.BitOr}  # fmt: skip
RENAMED = {"min": "max", "max": "min", "floor": "ceil", "ceil": "floor", "array": "asarray", "zeros": "ones",
           "any": "all", "all": "any", "argmin": "argmax", "popleft": "pop", "append": "appendleft"}  # fmt: skip
SYMMETRIC = ("min", "max", "gcd", "lcm", "shares_memory", "may_share_memory", "array_equal", "minimum", "maximum")
UNWRAPPED = ("copy", "sorted", "abs", "reversed", "ascontiguousarray", "list", "tuple", "frozenset", "max", "min")


class Draw(ast.NodeVisitor):
    """All changes of one Python file."""

    def __init__(self, file: str, source: bytes) -> None:
        self.file, self.source, self.found = file, source, []
        self.starts = [0, *(m.end() for m in re.finditer(b"\n", source))]
        self.defaults: list[dict[str, ast.AST]] = [{}]
        self.visit(ast.parse(source))

    def text(self, node: ast.AST) -> str:
        return self.source[slice(*self.span(node))].decode()

    def span(self, node: ast.AST) -> tuple[int, int]:
        return self.starts[node.lineno - 1] + node.col_offset, self.starts[node.end_lineno - 1] + node.end_col_offset

    def emit(self, node: ast.AST, new: "str | ast.AST") -> None:
        if not isinstance(new, str):
            atom = isinstance(new, (ast.Call, ast.Name, ast.Attribute, ast.Constant, ast.Slice, ast.List))
            new = (ast.unparse if atom else lambda tree: f"({ast.unparse(tree)})")(ast.fix_missing_locations(new))
        old, line = self.text(node), self.source.split(b"\n")[node.lineno - 1].decode().strip()
        if old != new:
            change = f"{one_line(old)} -> {one_line(new)}"
            self.found.append(Mutant(self.file, node.lineno, *self.span(node), new, change, line))

    def changed(self, node: ast.AST, **fields: object) -> ast.AST:
        return ast.copy_location(type(node)(**{**dict(ast.iter_fields(node)), **fields}), node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        if node.name in ("__repr__", "__str__", "__dir__"):
            return
        arguments = node.args
        known = dict(zip([x.arg for x in arguments.kwonlyargs], arguments.kw_defaults))
        self.defaults.append({name: value for name, value in known.items() if value is not None})
        for part in (*arguments.defaults, *filter(None, arguments.kw_defaults), *node.body):
            self.visit(part)
        self.defaults.pop()

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        for part in node.body:
            self.visit(part)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    def visit_Raise(self, node: ast.Raise) -> None:
        self.emit(node, "pass")  # the text of a message is not changed

    def visit_JoinedStr(self, _: ast.AST) -> None:
        return

    visit_Assert = visit_Import = visit_ImportFrom = visit_JoinedStr

    def visit_Expr(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Constant):
            return
        if isinstance(node.value, ast.Call):
            self.emit(node, "pass")
        self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign) -> None:
        if isinstance(node.targets[0], (ast.Attribute, ast.Subscript)):
            self.emit(node, "pass")
        self.visit(node.value)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self.emit(node, "pass")
        self.generic_visit(node)

    def visit_Break(self, node: ast.AST) -> None:
        self.emit(node, "continue" if isinstance(node, ast.Break) else "pass")

    visit_Continue = visit_Break

    def visit_If(self, node: "ast.If | ast.IfExp") -> None:
        if ast.unparse(node.test) != "TYPE_CHECKING":
            self.emit(node.test, "True")
            self.emit(node.test, "False")
            self.generic_visit(node)

    visit_IfExp = visit_If

    def visit_Compare(self, node: ast.Compare) -> None:
        old, new = COMPARED[type(node.ops[0])]
        if len(node.ops) == 1:
            end, right = self.span(node.left)[1], self.span(node.comparators[0])[0]
            between = self.source[end:right].decode().replace(old, new, 1)
            rest = self.source[right : self.span(node)[1]].decode()
            self.emit(node, self.source[self.span(node)[0] : end].decode() + between + rest)
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        for place in range(len(node.values)):
            rest = [value for at, value in enumerate(node.values) if at != place]
            self.emit(node, rest[0] if len(rest) == 1 else self.changed(node, values=rest))
        self.emit(node, self.changed(node, op=ast.Or() if isinstance(node.op, ast.And) else ast.And()))
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if not isinstance(node.op, ast.UAdd):
            self.emit(node, f"({self.text(node.operand)})")
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        if type(node.op) in COMPUTED and not isinstance(node.left, (ast.Constant, ast.JoinedStr)):
            self.emit(node, self.changed(node, op=COMPUTED[type(node.op)]()))
        if isinstance(node.op, (ast.BitXor, ast.Mod, ast.BitOr)) and not isinstance(node.left, ast.Constant):
            self.emit(node, node.left)
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        value = node.value
        if isinstance(value, bool):
            self.emit(node, str(not value))
        elif isinstance(value, int):
            self.emit(node, str(value + 1))
            if value > 0:
                self.emit(node, str(value - 1))
        elif isinstance(value, float):
            self.emit(node, str(value * 2 or 1.0))

    def visit_Name(self, node: ast.Name) -> None:
        default = self.defaults[-1].get(node.id) if isinstance(node.ctx, ast.Load) else None
        if isinstance(default, ast.Constant):
            self.emit(node, default)  # the argument is ignored

    def visit_Slice(self, node: ast.Slice) -> None:
        for name in ("lower", "upper", "step"):
            if getattr(node, name) is not None:
                self.emit(node, self.changed(node, **{name: None}))
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        name = getattr(node.func, "attr", getattr(node.func, "id", ""))
        if name in ("warn", "warning", "debug", "info", "exception", "describe", "namedtuple", "TypeVar"):
            return
        plain = [x for x in node.args if not isinstance(x, ast.Starred)]
        if (
            len(plain) == len(node.args) >= 2
            and name not in SYMMETRIC
            and ast.dump(node.args[0]) != ast.dump(node.args[1])
        ):
            self.emit(node, self.changed(node, args=[node.args[1], node.args[0], *node.args[2:]]))
        for keyword in node.keywords:
            if keyword.arg is not None:
                self.emit(node, self.changed(node, keywords=[x for x in node.keywords if x is not keyword]))
        if name in RENAMED and not (name == "array" and node.keywords):
            self.emit(node.func, re.sub(rf"{name}$", RENAMED[name], self.text(node.func)))
        if name in UNWRAPPED:
            inner = node.args[0] if node.args else getattr(node.func, "value", None)
            if inner is not None:
                self.emit(node, inner)
        self.generic_visit(node)


CUDA_RULES = [(r" < ", " <= "), (r" <= ", " < "), (r" > ", " >= "), (r" >= ", " > "), (r" == ", " != "), (r" && ", " || "),
              (r" \+ 1\b", ""), (r" - 1\b", ""), (r" \+ ", " - "), (r" - ", " + "), (r" \* ", " / "), (r" % ", " / "),
              (r"\bmin\(", "max("), (r"\bmax\(", "min("), (r"__syncthreads\(\);", ";"), (r"\b0\b", "1"), (r"\b2\b", "3"),
              (r"\b0\.5f\b", "0.25f"), (r"\? ", "? !"), (r"\[0\]", "[1]"), (r" \+= ", " = ")]  # fmt: skip


def drawn(path: Path) -> Iterator[Mutant]:
    """All changes of a file."""
    file, source = path.relative_to(ROOT).as_posix(), path.read_bytes()
    if path.suffix == ".py":
        yield from Draw(file, source).found
        return
    code = re.sub(
        r"/\*.*?\*/|//[^\n]*|#[^\n]*|\"[^\"\n]*\"", lambda m: " " * len(m[0]), source.decode(), flags=re.DOTALL
    )
    for pattern, new in CUDA_RULES:
        for m in re.finditer(pattern, code):
            number = code.count("\n", 0, m.start()) + 1
            text = source.decode().split("\n")[number - 1].strip()
            before = one_line(code[code.rfind("\n", 0, m.start()) + 1 : m.start()])
            what = f"{m[0].strip()} -> {new.strip()} behind {before[-30:]!r}"
            yield Mutant(file, number, m.start(), m.end(), new, what, text)


def choose(count: int, seed: int, only: str) -> list[Mutant]:
    """The same number from each area, in an order that the seed determines; a larger `count` only adds to them."""
    paths = [x for kind in ("*.py", "*.cu", "*.cuh") for x in sorted((ROOT / "pipeflow").rglob(kind))]
    names = [(x, x.relative_to(ROOT / "pipeflow").as_posix()) for x in paths]
    chosen = [x for x, name in names if not name.startswith(NOT_DRAWN) and name.startswith(only)]
    found = collections.defaultdict(list)
    for mutant in (mutant for path in chosen for mutant in drawn(path)):
        found[mutant.area].append(mutant)
    for area, mutants in found.items():
        mutants.sort(key=lambda mutant: hashlib.sha256(f"{seed} {mutant.key} {mutant.begin}".encode()).digest())
        known = set()
        found[area] = [x for x in mutants if not ((x.file, x.line) in known or known.add((x.file, x.line)))]
    ranked = [(place, area, x) for area, mutants in found.items() for place, x in enumerate(mutants)]
    return [mutant for _, _, mutant in sorted(ranked, key=lambda item: item[:2])][:count]
