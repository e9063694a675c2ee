"""Finds the names of DALI in a program and whether pipeflow has them, and changes the imports of the program.

A program is read and never run: names such as `dali.fn.resize` after `import nvidia.dali as dali` are followed through
its syntax tree. The code cells of a notebook are read as one program; magics count as comments.
"""

import ast
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pipeflow import fn, math, ops, types
from pipeflow.dali_names import DIFFERENT, absent, entry
from pipeflow.declare import NO_EFFECT, OpDef, check_names
from pipeflow.errors import UnknownArgument, nearest

DALI = "nvidia.dali"
PACKAGE = Path(__file__).parents[1]
# Modules that are filled by code. The names of all others are read from their text, so that none has to be imported.
FILLED = {"fn": fn, "math": math, "ops": ops, "types": types}


@dataclass
class Uses:
    """The names of DALI in a program, written as after a port (``fn.resize``), each with the lines that use it."""

    lines: dict[str, list[int]] = field(default_factory=dict)
    keywords: dict[tuple[str, str], list[int]] = field(default_factory=dict)  # (name, argument of its call)
    places: list[tuple[int, int, int, str]] = field(default_factory=list)  # (line, from, to, text) to be replaced

    def add(self, name: str, line: int) -> None:
        """Notes a use."""
        lines = self.lines.setdefault(name, [])
        if line not in lines:
            lines.append(line)


class _NameFinder(ast.NodeVisitor):
    """Follows names of DALI through a syntax tree."""

    def __init__(self, text: str) -> None:
        self.uses = Uses()
        self.text = text.splitlines()
        self.names: dict[str, str] = {}  # variable -> dotted name below nvidia.dali, "" for the package itself
        self.bare = False  # True for `import nvidia.dali` without its own name

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            inside = _below(alias.name)
            if inside is None:
                continue
            self._replace(alias.lineno, alias.col_offset, alias.name, f"pipeflow.{inside}".rstrip("."))
            if inside:
                self.uses.add(inside, node.lineno)
            if alias.asname:
                self.names[alias.asname] = inside
            else:
                self.bare = True

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        if node.module == "nvidia" and [alias.name for alias in node.names] == ["dali"]:
            self.names[node.names[0].asname or "dali"] = ""
            end = node.end_col_offset or 0
            text = f"import pipeflow as {node.names[0].asname or 'dali'}"
            self.uses.places.append((node.lineno, node.col_offset, end, text))
            return
        inside = _below(node.module or "")
        if inside is None or node.level:
            return
        self._replace(node.lineno, node.col_offset, node.module or "", f"pipeflow.{inside}".rstrip("."))
        for alias in node.names:
            name = f"{inside}.{alias.name}".lstrip(".")
            if alias.name != "*":
                self.uses.add(name, alias.lineno)
                self.names[alias.asname or alias.name] = name
            elif inside:
                self.uses.add(inside, node.lineno)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        name = self._name(node)
        if name is None:
            self.generic_visit(node)
        elif name:
            self.uses.add(name, node.lineno)

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Load) and self.names.get(node.id):
            self.uses.add(self.names[node.id], node.lineno)

    def visit_Call(self, node: ast.Call) -> None:
        name = self._name(node.func)
        called = getattr(node.func, "attr", None) or getattr(node.func, "id", None)
        if called in ("import_module", "__import__") and node.args and isinstance(node.args[0], ast.Constant):
            module = node.args[0]
            inside = _below(str(module.value))
            if inside is not None:
                self._replace(module.lineno, module.col_offset, str(module.value), f"pipeflow.{inside}".rstrip("."))
                if inside:
                    self.uses.add(inside, module.lineno)
        for keyword in node.keywords if name else ():
            if keyword.arg:
                self.uses.keywords.setdefault((name or "", keyword.arg), []).append(keyword.value.lineno)
        self.generic_visit(node)

    def _name(self, node: ast.AST) -> str | None:
        """The dotted name below nvidia.dali that an expression reads; None for other expressions."""
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.insert(0, node.attr)
            node = node.value
        if not isinstance(node, ast.Name):
            return None
        if self.bare and node.id == "nvidia" and parts[:1] == ["dali"]:
            self._replace(node.lineno, node.col_offset, DALI, "pipeflow")
            return ".".join(parts[1:])
        known = self.names.get(node.id)
        return None if known is None else ".".join([known, *parts] if known else parts)

    def _replace(self, line: int, column: int, old: str, new: str) -> None:
        """Notes that the text at a place is to be replaced; columns of a syntax tree count bytes."""
        raw = self.text[line - 1].encode()
        begin = raw.find(old.encode(), column)
        if begin >= 0 and (line, begin, begin + len(old.encode()), new) not in self.uses.places:
            self.uses.places.append((line, begin, begin + len(old.encode()), new))


def _below(module: str) -> str | None:
    """``fn`` for ``nvidia.dali.fn``; None for the module of another library."""
    if module == DALI:
        return ""
    return module.removeprefix(f"{DALI}.") if module.startswith(f"{DALI}.") else None


def uses_of(text: str, file: str = "<program>") -> Uses:
    """The names of DALI in the text of a program."""
    finder = _NameFinder(text)
    finder.visit(ast.parse(text, file))
    return finder.uses


def changed(text: str, uses: Uses) -> str:
    """The text with changed imports; all other text is unchanged."""
    lines = text.splitlines(keepends=True)
    for line, begin, end, new in sorted(uses.places, reverse=True):
        raw = lines[line - 1].encode()
        lines[line - 1] = (raw[:begin] + new.encode() + raw[end:]).decode()
    return "".join(lines)


# ----------------------------------------------------------------------------------------------------
# The names that pipeflow has


def is_here(name: str) -> bool:
    """True if pipeflow has a name."""
    parts = name.split(".")
    return _filled(parts) is not None or _in_source(parts)


def _filled(parts: list[str]) -> Any:
    """The object of a name in a module that is filled by code; None if the name is in another module, or absent."""
    place: Any = FILLED.get(parts[0])
    for part in parts[1:]:
        place = getattr(place, part, None)
    return place


def _in_source(parts: list[str]) -> bool:
    file, rest = _file_of(parts)
    made = _made_in(file)
    return not rest or ".".join(rest) in made or rest[0] in made - {*FILLED}


def _file_of(parts: list[str]) -> tuple[Path, list[str]]:
    """The file of the module that a name begins with, and the rest of the name."""
    path = PACKAGE
    for number, part in enumerate(parts):
        if (path / part).is_dir():
            path = path / part
        elif (path / f"{part}.py").exists():
            return path / f"{part}.py", parts[number + 1 :]
        else:
            return path / "__init__.py", parts[number:]
    return path / "__init__.py", []


def _made_in(file: Path) -> set[str]:
    """The names that the text of a module defines."""
    return {name for node in ast.parse(file.read_text(encoding="utf-8")).body for name in _made(node)}


def _made(node: ast.stmt) -> Iterator[str]:
    if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        yield node.name
    elif isinstance(node, (ast.Import, ast.ImportFrom)):
        yield from [alias.asname or alias.name for alias in node.names]
    elif isinstance(node, ast.Assign):
        yield from [ast.unparse(target) for target in node.targets]


def operator_of(name: str) -> OpDef | None:
    """The operator that a name of ``fn`` or ``ops`` calls."""
    place = _filled(name.split("."))
    op = getattr(place, "op", place)
    return op if isinstance(op, OpDef) else None


# ----------------------------------------------------------------------------------------------------
# The report


@dataclass
class PortReport:
    """The result of checking one program: names that pipeflow has, names with a difference, and absent names."""

    here: list[str]
    different: list[tuple[str, list[int], str]]
    absent: list[tuple[str, list[int], str]]

    def __str__(self) -> str:
        count = len(self.here) + len(self.absent)
        differ = len({name for name, _, _ in self.different})
        names = f"{count} name{'s' * (count != 1)} of DALI"
        lines = [f"{names}: {len(self.here)} there, {differ} of them with a difference, {len(self.absent)} absent"]
        if self.here:
            lines += ["", "there", "  " + ", ".join(self.here)]
        for title, rows in (("with a difference", self.different), ("absent", self.absent)):
            if rows:
                lines += ["", title]
            lines += [f"  {name} ({_lines(found)}): {text}" for name, found, text in rows]
        return "\n".join(lines)


def _lines(numbers: list[int]) -> str:
    shown = ", ".join(map(str, numbers[:6])) + (", ..." if len(numbers) > 6 else "")
    return f"line{'s' if len(numbers) > 1 else ''} {shown}"


def report(uses: Uses) -> PortReport:
    """Sorts the names: those that pipeflow has, those that it has with a difference, and absent ones."""
    result = PortReport([], [], [])
    inner = {name.rpartition(".")[0] for name in uses.lines}  # modules that are the first part of longer names
    for name, lines in sorted(uses.lines.items()):
        if is_here(name):
            if name in inner:
                continue
            result.here.append(name)
            words = entry(name, DIFFERENT)
            if words:
                result.different.append((name, lines, words))
        else:
            found = absent(name)
            words = f"{found.why}. Instead: {found.instead}" if found else "there is no such name" + _near(name)
            result.absent.append((name, lines, words))
    for (name, argument), lines in sorted(uses.keywords.items()):
        op = operator_of(name)
        words = _about(op, argument)
        if op is not None and (unknown := _unknown(op, argument)):
            result.absent.append((f"{name}({argument}=...)", lines, unknown))
        elif words:
            result.different.append((f"{name}({argument}=...)", lines, words))
    return result


def _near(name: str) -> str:
    *place, leaf = name.split(".")
    home = _filled(place) if place else None
    if home is not None:
        known = set(dir(home))
    else:
        file, rest = _file_of(place)
        known = set() if rest else _made_in(file)
    return nearest(leaf, [other for other in sorted(known) if not other.startswith("_")])


def _unknown(op: OpDef, argument: str) -> str:
    """The message of the error about an argument that an operator does not have; "" if it has the argument."""
    try:
        check_names(op, [argument])
    except UnknownArgument as error:
        return str(error)
    return ""


def _about(op: OpDef | None, argument: str) -> str:
    """The note for an argument of a call."""
    if op is None:
        return ""
    if argument in op.no_effect:
        return f"has no effect: {op.no_effect[argument]}"
    if argument in NO_EFFECT:
        return f"has no effect: {NO_EFFECT[argument]}"
    return ""


# ----------------------------------------------------------------------------------------------------
# Files


def port(file: str, write: bool) -> int:
    """Reports on a script or notebook; ``write`` changes its imports. The exit status is 1 if names are absent."""
    path = Path(file)
    notebook = json.loads(path.read_text(encoding="utf-8")) if path.suffix == ".ipynb" else None
    cells = _cells(notebook) if notebook is not None else [path.read_text(encoding="utf-8")]
    text = "\n".join(map(_without_magics, cells)) if notebook is not None else cells[0]
    uses = uses_of(text, file)
    found = report(uses)
    print(f"{file}: {found}")
    if write and uses.places:
        if notebook is None:
            path.write_text(changed(cells[0], uses), encoding="utf-8")
        else:
            _write_cells(notebook, changed("\n".join(cells), uses))
            path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        print(f"\nchanged the imports of {file}")
    return 1 if found.absent else 0


def _cells(notebook: Any) -> list[str]:
    cells = [cell for cell in notebook.get("cells", ()) if cell.get("cell_type") == "code"]
    return [source if isinstance(source, str) else "".join(source) for source in (cell["source"] for cell in cells)]


def _write_cells(notebook: Any, text: str) -> None:
    """Puts changed lines back into their cells; the number of lines of a cell does not change."""
    lines = text.split("\n")
    for cell in notebook["cells"]:
        if cell.get("cell_type") == "code":
            source = cell["source"]
            count = (source if isinstance(source, str) else "".join(source)).count("\n") + 1
            own, lines = "\n".join(lines[:count]), lines[count:]
            cell["source"] = own if isinstance(source, str) else own.splitlines(keepends=True)


def _without_magics(cell: str) -> str:
    """The Python code of a cell: magics and shell commands are replaced by code that does nothing."""
    if cell.startswith("%%"):
        return "\n".join("" for _ in cell.split("\n"))
    try:
        ast.parse(cell)
    except SyntaxError:
        pass
    else:
        return cell  # the line that looks like a magic continues an expression
    return re.sub(r"(?m)^(\s*)(?:[%!?].*|[^#'\"\n]*\?)$", r"\1pass", cell)
