"""Writes pipeflow/fn.pyi and pipeflow/ops.pyi from the declarations of the operators."""

import enum
import textwrap
import typing
from collections.abc import Iterable, Iterator
from pathlib import Path

from pipeflow import fn
from pipeflow.declare import REQUIRED, UNIVERSAL, OpDef, Param, Role, counted, registry, universal

PACKAGE = Path(fn.__file__).parent
MARK = "# Generated from the declarations by tools/generate_stubs.py: run `make docs` to renew it.\n"

HEADER = {
    "fn": f'''{MARK}
"""The functional API: every operator of the registry by its name."""

from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from pipeflow.record.choices import maybe as maybe
from pipeflow.record.choices import one_of as one_of
from pipeflow.record.recorder import DataNode
from pipeflow.tensors import TensorListCPU

# What goes in comes out: a node inside a pipeline definition, arrays at once everywhere else.
Data = TypeVar("Data", DataNode, TensorListCPU, np.ndarray, list[Any])
''',
    "ops": f'''{MARK}
"""The class API: arguments at construction, data and per-sample arguments at the call."""

from collections.abc import Callable, Sequence
from typing import Any, Literal

from numpy.typing import ArrayLike, DTypeLike

from pipeflow.declare import OpDef
from pipeflow.record.recorder import DataNode

class Operator:
    op: OpDef
''',
}

KINDS = {
    bool: "bool", int: "int", float: "float", str: "str", "ints": "int | Sequence[int]",
    "floats": "float | Sequence[float]", "dtype": "DTypeLike", "layout": "str",
}  # fmt: skip


def accepted(param: Param) -> str:
    """The annotation of an argument."""
    if param.kind in KINDS:
        text = KINDS[param.kind]
    elif typing.get_origin(param.kind) is typing.Literal:
        text = f"Literal[{', '.join(map(repr, typing.get_args(param.kind)))}]"
    elif isinstance(param.kind, type) and issubclass(param.kind, enum.Enum):
        text = "int"
    elif "Callable" in str(param.kind):
        text = "Callable[..., Any]"
    else:
        text = "Any"
    if text == "Any":
        return text
    if param.role is Role.ARG:
        text += " | DataNode"
    return f"{text} | None" if param.default is None else text


def default(param: Param) -> str:
    """The default value as it is written in a stub."""
    simple = isinstance(param.default, (bool, int, float, str, tuple, type(None))) and not isinstance(
        param.default, enum.Enum
    )
    return repr(param.default) if simple else "..."


def by_position(op: OpDef) -> list[str]:
    """The arguments that are no data and may be given by position."""
    if op.order:  # the signature of another library, where the data is a list among the arguments
        return [in_order(op, name) for name in op.order]
    return [spelled(param) for param in op.arguments.values() if param.positional]


def in_order(op: OpDef, name: str) -> str:
    """One parameter of an operator that has an order of its own."""
    if name in op.arguments:
        return spelled(op.arguments[name])
    if name in UNIVERSAL:
        return spelled(UNIVERSAL[name])
    return f"{name}: DataNode | Sequence[DataNode | ArrayLike]"


def spelled(param: Param) -> str:
    """An argument with its type and default."""
    return f"{param.name}: {accepted(param)}" + ("" if param.default is REQUIRED else f" = {default(param)}")


def keywords(op: OpDef) -> list[str]:
    """The keyword-only arguments, the required ones first."""
    given = [param for param in op.arguments.values() if not counted(op, param)]
    arguments = [param for param in given if not param.positional and param.name not in op.order]
    named = [spelled(param) for param in sorted(arguments, key=lambda param: not param.required)]
    return named + [spelled(param) for name, param in universal(op).items() if name not in op.order]


def data(op: OpDef, first: str) -> list[str]:
    """The positional-only inputs; ``first`` is the annotation of the first one."""
    listed: list[str] = []
    if op.order:
        return listed
    for position, param in enumerate(op.inputs):
        kind = first if position == 0 else "DataNode | ArrayLike"
        if param.variadic:
            return [*listed, *(["/"] if listed else []), f"*{param.name}: {kind}"]
        listed.append(f"{param.name}: {kind}" + ("" if param.required else " | None = None"))
    return [*listed, "/"] if listed else []


def returned(op: OpDef, one: str) -> str:
    if op.nodes_only and op.list_hook is not None:
        return "list[DataNode]"
    if op.outputs_hook is not None:
        return "Any"
    return {0: "None", 1: one}.get(op.num_outputs, f"list[{one}]")


def summary(op: OpDef, indent: str) -> str:
    """The first sentence of the documentation and the meaning of each argument, as a docstring."""
    first = (op.__doc__ or "").split("\n\n")[0].replace("\n", " ")
    listed = [param for param in op.arguments.values() if param.meaning and not counted(op, param)]
    lines = [f"{param.name}: {param.meaning}" for param in listed]
    text = f"{first}\n\nArguments:\n    " + "\n    ".join(lines) + "\n" if lines else first
    return textwrap.indent(f'"""{text}"""'.replace("\\", "\\\\"), indent)


def star(inputs: list[str], named: list[str]) -> list[str]:
    """Keyword-only arguments need a star before them, unless variadic data stands there already."""
    variadic = any(text.startswith("*") for text in inputs)
    return [*inputs, *([] if variadic or not named else ["*"]), *named]


def function(op: OpDef) -> str:
    generic = bool(op.inputs) and op.inputs[0].required
    one = "Data" if generic else "Any" if op.inputs else "DataNode"
    inputs = data(op, "Data" if generic else "DataNode | ArrayLike")
    parameters = star([*inputs, *by_position(op)], keywords(op))
    listed = "".join(f"    {parameter},\n" for parameter in parameters)
    return f"def {op.leaf}(\n{listed}) -> {returned(op, one)}:\n{summary(op, '    ')}\n"


def operator_class(op: OpDef) -> str:
    built = "".join(f"        {parameter},\n" for parameter in star(["self", *by_position(op)], keywords(op)))
    inputs = ", ".join(["self", *data(op, "DataNode | ArrayLike"), "**arguments: Any"])
    return (
        f"class {op.ops_name}(Operator):\n{summary(op, '    ')}\n\n"
        f"    def __init__(\n{built}    ) -> None: ...\n    def __call__({inputs}) -> {returned(op, 'Any')}: ...\n"
    )


Tree = dict[str, "OpDef | Tree"]


def tree_of(operators: Iterable[OpDef]) -> Tree:
    """Operators by their dotted names, sorted."""
    tree: Tree = {}
    for op in sorted(operators, key=lambda op: op.name):
        *folders, leaf = op.name.split(".")
        place = tree
        for folder in folders:
            place = place.setdefault(folder, {})  # type: ignore[assignment]
        place[leaf] = op
    return tree


def written(tree: Tree, name: str, inside: bool = False) -> Iterator[str]:
    """The text of a namespace: operators first, then the namespaces within, as classes."""
    for item in tree.values():
        if isinstance(item, OpDef):
            text = function(item) if name == "fn" else operator_class(item)
            yield f"@staticmethod\n{text}" if inside and name == "fn" else text
    for folder, item in tree.items():
        if not isinstance(item, OpDef):
            body = "\n".join(written(item, name, True))
            yield f"class {folder}:\n{textwrap.indent(body, '    ')}"


def stub(name: str) -> str:
    """The text of fn.pyi or ops.pyi."""
    public = tree_of(op for op in registry.values() if not op.hidden and (name == "fn" or not op.nodes_only))
    return HEADER[name] + "\n" + "\n".join(written(public, name))


def main() -> None:
    for name in HEADER:
        (PACKAGE / f"{name}.pyi").write_text(stub(name))


if __name__ == "__main__":
    main()
