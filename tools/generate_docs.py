"""Writes docs/operators/*.md and docs/support.md from the declarations, and docs/files.md from the first lines of files."""

import ast
import enum
import inspect
import re
import sys
from collections import defaultdict
from pathlib import Path

import benchmark_pages
import example_data

from pipeflow import dali_names, declare, fn, types
from pipeflow.commands import porting
from pipeflow.declare import NO_EFFECT, REQUIRED, SEED, UNIVERSAL, OpDef, Param, describe_kind, registry
from pipeflow.pipeline import NO_EFFECT as PIPELINE_NO_EFFECT

PACKAGE = Path(fn.__file__).parent
DOCS = PACKAGE.parent / "docs"
MARK = "<!-- Generated from the declarations by tools/generate_docs.py: run `make docs` to renew it. -->\n"
SET_UP = """The examples use the samples of [tools/example_data.py](../../tools/example_data.py), which Python finds with
`PYTHONPATH=tools`:

```python
from example_data import *
from pipeflow import fn, types
```
"""


def public() -> list[OpDef]:
    """The operators that users see, by name."""
    return sorted((op for op in registry.values() if not op.hidden), key=lambda op: op.name)


def examples(op: OpDef) -> list[str]:
    """The declared examples, or one made from the declaration if no argument is required."""
    if op.examples or op.factory is not None or any(p.required for p in op.arguments.values()):
        return list(op.examples)
    first = next((example_data.BY_LAYOUT[x] for x in op.layouts if x in example_data.BY_LAYOUT), "array")
    return [f"fn.{op.name}({', '.join([first] * op.min_inputs)})"]


def subject(op: OpDef) -> str:
    """The page an operator is on: the file that declares it."""
    return op.body.__module__.removeprefix("pipeflow.operators.").partition(".")[0]


def as_default(param: Param) -> str:
    if param.default is REQUIRED:
        return "**required**"
    if param.default is None:
        return ""
    if isinstance(param.default, enum.Enum):
        return f"`types.{param.default.name}`"
    if isinstance(param.default, tuple):
        return f"`{list(param.default)}`"
    return f"`{param.default!r}`"


def in_a_cell(text: str) -> str:
    """Text in a cell of a table."""
    return text.replace("|", "\\|")


def arguments(op: OpDef) -> str:
    given = [param for param in op.arguments.values() if not declare.counted(op, param)]
    if not given:
        return ""
    lines = ["| argument | meaning | accepts | default |", "|---|---|---|---|"]
    for param in sorted(given, key=lambda p: (not p.required, p.name)):
        cells = in_a_cell(param.meaning), in_a_cell(describe_kind(param)), as_default(param)
        lines.append(f"| `{param.name}` | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def facts(op: OpDef) -> str:
    """The facts in the declaration that are not about arguments."""
    several = {0: "no output", 1: "one output"}.get(op.num_outputs, f"{op.num_outputs} outputs")
    outputs = "as many outputs as its arguments say" if op.outputs_hook else several
    inputs = str(op.min_inputs) if op.min_inputs == op.max_inputs else f"{op.min_inputs} to {op.max_inputs}"
    kinds = "input" if inputs == "1" else "inputs"
    if op.nodes_only:
        return f"- works on nodes in a pipeline definition, not on arrays; runs on {', '.join(op.devices)}\n"
    lines = [f"- {'no' if inputs == '0' else inputs} {kinds}, {outputs}; runs on {', '.join(op.devices)}"]
    if op.inputs and op.dtypes != types.NUMBERS:
        lines.append(f"- types of the first input: {dtype_columns(op)}")
    if op.layouts:
        sequences = "; any of them with a leading F, a sequence, too" if op.sequences else ""
        lines.append(f"- layouts: {', '.join(op.layouts)}{sequences}")
    if op.random:
        lines.append("- random: takes `seed`; every sample's numbers depend on the seed, the node and its position")
    lines += [f"- `{name}` is accepted without effect: {reason}" for name, reason in op.no_effect.items()]
    return "\n".join(lines) + "\n"


def section(op: OpDef) -> str:
    if op.nodes_only:
        title = f"## fn.{op.name}\n\n`fn.{op.name}({', '.join(name for name in op.order if name not in UNIVERSAL)})`"
        code = (
            "<!-- no-run: works on nodes in a pipeline definition -->\n```python\n" + "\n".join(op.examples) + "\n```\n"
        )
        return "\n".join([title + "\n", (op.__doc__ or "") + "\n", facts(op), code])
    inputs = [p.name if p.required else f"[{p.name}]" for p in op.inputs]
    title = f"## fn.{op.name}\n\n`fn.{op.name}({', '.join(inputs)}{', ' if inputs and op.arguments else ''}"
    named = [p.name + ("" if p.default is REQUIRED else "=...") for p in op.arguments.values() if p.required]
    title += ", ".join([*named, *(["..."] if len(named) < len(op.arguments) else [])]) + ")`"
    shown = "\n".join(examples(op))
    code = f"```python\n{shown}\n```\n" if shown else ""
    if op.factory is not None and shown:
        code = f"<!-- no-run: a source needs a pipeline and files -->\n{code}"
    return "\n".join(filter(None, [title + "\n", (op.__doc__ or "") + "\n", facts(op), arguments(op), code]))


def page(name: str, operators: list[OpDef]) -> str:
    """A page: the module's text ``PAGE`` if there is one (its docstring is for contributors), then its operators."""
    words = inspect.cleandoc(getattr(sys.modules[f"pipeflow.operators.{name}"], "PAGE", ""))
    set_up = SET_UP if any(op.factory is None for op in operators) else ""
    parts = [MARK, f"# {name.replace('_', ' ').capitalize()}\n", *([words + "\n"] if words else []), set_up]
    return "\n".join([*parts, *map(section, operators)])


def index(pages: dict[str, list[OpDef]]) -> str:
    lines = [
        MARK,
        "# Operators\n",
        "Call an operator as `fn.name(...)` or `ops.Name(...)(...)` in a pipeline definition,",
    ]
    lines[-1] += " or directly on arrays. All operators have these arguments:\n"
    lines += ["| argument | meaning |", "|---|---|"]
    lines += [f"| `{name}` | {in_a_cell(param.meaning)} |" for name, param in (UNIVERSAL | SEED).items()]
    lines += [f"| `{name}` | accepted without effect: {reason} |" for name, reason in NO_EFFECT.items()]
    lines += ["\nOnly random operators have `seed`.\n", "| page | operators |", "|---|---|"]
    for name, operators in sorted(pages.items()):
        links = ", ".join(f"[{op.name}]({name}.md#fn{op.name.replace('.', '')})" for op in operators)
        lines.append(f"| [{name}]({name}.md) | {links} |")
    lines.append("\nThe examples use these samples (`tools/example_data.py`):\n")
    lines += ["| name | type | shape |", "|---|---|---|"]
    for name, value in sorted(example_data.arrays().items()):
        shape = " x ".join(map(str, value.shape)) or "a number"
        # the length of the path depends on the folder of the project
        lines.append(f"| `{name}` | {value.dtype} | {'the bytes of a file name' if name == 'path' else shape} |")
    lines += [
        "",
        "## Arguments of a pipeline that do nothing here",
        "",
        "They are accepted so that ported code runs.",
        "",
    ]
    lines += ["| argument | why |", "|---|---|"]
    lines += [f"| `{name}` | {reason} |" for name, reason in PIPELINE_NO_EFFECT.items()]
    return "\n".join(lines) + "\n"


def dtype_columns(op: OpDef) -> str:
    if not op.inputs:
        return "no input"
    if op.dtypes >= types.NUMBERS:
        more = op.dtypes - types.NUMBERS
        complexes = ", complex" * any(dtype.kind == "c" for dtype in more)
        return "all" + complexes + ", and text" * any(dtype.hasobject for dtype in more)
    return " ".join(map(types.shown, types.in_order(op.dtypes)))


def support() -> str:
    lines = [
        MARK,
        "# What runs where\n",
        "The types are those the first input may have; `all` is every number type and bool.\n",
        "| operator | cpu | gpu | mixed | types | layouts | sequences | random |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for op in public():
        devices = " | ".join("yes" if device in op.devices else "" for device in ("cpu", "gpu", "mixed"))
        flags = f"{'yes' if op.sequences else ''} | {'yes' if op.random else ''}"
        layouts = " ".join(op.layouts) or ("any" if op.inputs else "")
        link = f"[{op.name}](operators/{subject(op)}.md#fn{op.name.replace('.', '')})"
        lines.append(f"| {link} | {devices} | {dtype_columns(op)} | {layouts} | {flags} |")
    return "\n".join(lines) + "\n"


def names() -> str:
    """The names of DALI that are absent or have another meaning here."""
    gone = {name: found for name, found in dali_names.ABSENT.items() if not porting.is_here(name)}
    alike: dict[dali_names.Absent, list[str]] = defaultdict(list)
    for name, found in gone.items():
        alike[found].append(f"`{name}`")
    lines = [
        MARK,
        "# Names of DALI\n",
        "`python -m pipeflow port SCRIPT.py` lists the names of DALI that a script or a notebook uses: those that pipeflow has,",
        "those that differ in pipeflow, and those that are absent, with their lines. `--write` changes the imports. The exit",
        "status is 1 if names are absent. Errors about absent names have the texts of this table.\n",
        "## Absent\n",
        "| names | why | instead |",
        "|---|---|---|",
        *[f"| {', '.join(found)} | {one.why} | {one.instead} |" for one, found in alike.items()],
        "\n## With a difference\n",
        "[Differences from DALI](differences-from-dali.md) says more.\n",
        "| name | difference |",
        "|---|---|",
        *[f"| `{name}` | {words} |" for name, words in dali_names.DIFFERENT.items()],
    ]
    return "\n".join(lines) + "\n"


def first_line(path: Path) -> str:
    """The first sentence of a module's docstring: what the file is for."""
    text = ast.get_docstring(ast.parse(path.read_text())) or ""
    sentence = text.partition("\n\n")[0].replace("\n", " ").partition(". ")[0].rstrip(".:")
    return re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", sentence)


def tree() -> str:
    """Every file of the package with a line that says what it is for."""
    lines = [
        "# The tree of files",
        "",
        "Generated from the first line of each file. [How it works](how-it-works.md) says how the folders belong together.",
    ]
    for folder in sorted(
        {path.parent for path in PACKAGE.rglob("*.py")}, key=lambda folder: folder.relative_to(PACKAGE).parts
    ):
        name = folder.relative_to(PACKAGE.parent).as_posix()
        own = folder / "__init__.py"
        lines += ["", f"## {name}/", ""]
        if own.exists() and first_line(own):
            lines += [f"{first_line(own)}.", ""]
        files = [path for path in sorted(folder.glob("*.py")) if path != own]
        lines += [f"- `{path.name}`: {first_line(path)}" for path in files]
    return "\n".join(lines).rstrip() + "\n"


def pages() -> dict[str, str]:
    """The text of every generated page by its path under docs/."""
    subjects: dict[str, list[OpDef]] = defaultdict(list)
    for op in public():
        subjects[subject(op)].append(op)
    written = {f"operators/{name}.md": page(name, operators) for name, operators in subjects.items()}
    whole = {
        "operators/README.md": index(subjects),
        "benchmarks.md": benchmark_pages.page(),
        "case-studies.md": benchmark_pages.studies(),
        "support.md": support(),
        "files.md": tree(),
        "dali-names.md": names(),
        "llms.txt": index_for_assistants(),
    }
    return {**written, **whole}


def index_for_assistants() -> str:
    """docs/llms.txt: what the package is, and its pages, from README.md and docs/README.md."""
    readme = (DOCS.parent / "README.md").read_text(encoding="utf-8")
    words = " ".join(readme.split("\n\n")[1].replace("**", "").split())
    pages = (DOCS / "README.md").read_text(encoding="utf-8").partition("## ")[2]
    return f"# pipeflow\n\n> {words}\n\n## {pages}"


def main() -> None:
    new = pages()
    for old in (DOCS / "operators").glob("*.md"):
        if f"operators/{old.name}" not in new:
            old.unlink()
    for path, text in new.items():
        (DOCS / path).parent.mkdir(parents=True, exist_ok=True)
        (DOCS / path).write_text(text)


if __name__ == "__main__":
    main()
