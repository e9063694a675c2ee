"""Writes pipeflow/fn.pyi, ops.pyi and math.pyi from the declarations of the operators."""

import enum
import textwrap
import typing
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from pipeflow import fn, math, operators
from pipeflow.declare import REQUIRED, UNIVERSAL, OpDef, Param, Role, counted, registry, universal

PACKAGE = Path(fn.__file__).parent
MARK = "# Generated from the declarations by tools/generate_stubs.py: run `make docs` to renew it.\n"

# The imports that fn.pyi and ops.pyi have in common.
IMPORTS = """from pipeflow.record.recorder import DataNode
from pipeflow.tensors import TensorListCPU
from pipeflow.types import DALIDataType"""
DATA = 'Data = TypeVar("Data", DataNode, TensorListCPU, np.ndarray, list[Any])'
HEADER = {
    "fn": f'''{MARK}
"""The functional API: every operator of the registry by its name."""

from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeVar, overload

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from pipeflow.record.choices import maybe as maybe
from pipeflow.record.choices import one_of as one_of
{IMPORTS}

# The result is of the kind of the input: a node in a pipeline definition, arrays everywhere else.
{DATA}
''',
    "ops": f'''{MARK}
"""The class API: arguments at construction, data and per-sample arguments at the call."""

from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from pipeflow.declare import OpDef
{IMPORTS}

{DATA}

def cpu_ops() -> set[str]: ...
def gpu_ops() -> set[str]: ...
def mixed_ops() -> set[str]: ...

class Operator:
    op: OpDef
    @property
    def device(self) -> str: ...
    @property
    def preserve(self) -> bool: ...
    @property
    def schema(self) -> OpDef: ...
    @property
    def schema_name(self) -> str: ...
    @property
    def spec(self) -> dict[str, Any]: ...
    def __getattr__(self, name: str) -> Any: ...

class Compose:
    def __init__(self, op_list: Sequence[Any]) -> None: ...
    def __call__(self, *inputs: Any) -> Any: ...
''',
    "math": f'''{MARK}
"""Mathematical functions of DataNodes and, outside a pipeline, of arrays."""

from typing import Any, TypeVar, overload

import numpy as np
from numpy.typing import ArrayLike

from pipeflow.record.recorder import DataNode
from pipeflow.tensors import TensorListCPU

{DATA}
''',
}

KINDS = {
    bool: "bool | Literal[0, 1]", int: "int", float: "float", str: "str", "ints": "int | Sequence[int]",
    "floats": "float | Sequence[float]", "dtype": "DTypeLike | DALIDataType", "layout": "str",
}  # fmt: skip


Narrowed = Mapping[str, str]  # arguments whose annotation differs from the declared one, perhaps with a default
NOTHING: Narrowed = MappingProxyType({})


def accepted(param: Param) -> str:
    """The annotation of an argument."""
    if param.type in KINDS:
        text = KINDS[param.type]
    elif typing.get_origin(param.type) is typing.Literal:
        text = f"Literal[{', '.join(map(repr, typing.get_args(param.type)))}]"
    elif isinstance(param.type, type) and issubclass(param.type, enum.Enum):
        text = "int"
    elif "Callable" in str(param.type):
        text = "Callable[..., Any]"
    else:
        text = "Any"
    if text == "Any":
        return text
    if param.role is Role.ARG:
        text += " | DataNode"
    return text if param.required else f"{text} | None"  # None means that the argument is not given


def default(param: Param) -> str:
    """The default value as it is written in a stub."""
    simple = isinstance(param.default, (bool, int, float, str, tuple, type(None))) and not isinstance(
        param.default, enum.Enum
    )
    return repr(param.default) if simple else "..."


def by_position(op: OpDef, narrowed: Narrowed = NOTHING) -> list[str]:
    """The arguments (not data) that may be given by position; required arguments are keywords."""
    if op.order:  # the signature of another library: the data is a list among the arguments
        return [in_order(op, name, narrowed) for name in op.order]
    named = [param for param in op.arguments.values() if param.positional]
    return [spelled(param, narrowed) for param in named if "=" in narrowed.get(param.name, "=")]


def in_order(op: OpDef, name: str, narrowed: Narrowed) -> str:
    """One parameter of an operator that has an order of its own."""
    if name in op.arguments:
        return spelled(op.arguments[name], narrowed)
    if name in UNIVERSAL:
        return spelled(UNIVERSAL[name])
    return f"{name}: DataNode | Sequence[DataNode | ArrayLike]"


def spelled(param: Param, narrowed: Narrowed = NOTHING) -> str:
    """An argument with its type and default."""
    if param.name in narrowed:
        return f"{param.name}: {narrowed[param.name]}"
    return f"{param.name}: {accepted(param)}" + ("" if param.default is REQUIRED else f" = {default(param)}")


def keywords(op: OpDef, narrowed: Narrowed = NOTHING) -> list[str]:
    """The keyword-only arguments, the required ones first."""
    given = [param for param in op.arguments.values() if not counted(op, param) and param.name not in op.order]
    arguments = [param for param in given if not param.positional or "=" not in narrowed.get(param.name, "=")]
    named = sorted((spelled(param, narrowed) for param in arguments), key=lambda text: " = " in text)
    return named + [spelled(param) for name, param in universal(op).items() if name not in op.order]


def data(op: OpDef, first: str, given: Sequence[str] = ()) -> list[str]:
    """The positional-only inputs; ``first`` annotates the first one, ``given`` names optional ones that are present."""
    listed: list[str] = []
    if op.order:
        return listed
    for position, param in enumerate(op.inputs):
        kind = first if position == 0 else "DataNode | ArrayLike"
        if param.variadic and param.name in given:
            return [f"first: {kind}", "/", f"*{param.name}: DataNode | ArrayLike"]
        if param.variadic:
            return [*listed, *(["/"] if listed else []), f"*{param.name}: {kind}"]
        required = param.required or param.name in given
        listed.append(f"{param.name}: {kind}" + ("" if required else " | None = None"))
    return [*listed, "/"] if listed else []


class Form(NamedTuple):
    """One overload of a function: annotations that differ from the declared ones, optional inputs that are given or left
    out, and the number of outputs (None: it depends on values)."""

    count: int | None
    narrowed: Narrowed = NOTHING
    given: tuple[str, ...] = ()
    without: tuple[str, ...] = ()


class _Reads:
    """Arguments with their default values; the object records which of them were read."""

    def __init__(self, op: OpDef) -> None:
        self._op, self._names = op, set()

    def __getattr__(self, name: str) -> Any:
        self._names.add(name)
        value = self._op.arguments[name].default
        if value is REQUIRED:
            raise LookupError(name)
        return value


def forms(op: OpDef) -> list[Form]:
    """The overloads: one for each number of outputs, and one for calls without data."""
    found = counted_forms(op)
    optional = [param.name for param in op.inputs if not param.required]
    fewer = [form.count is not None and form.count - len(op.paired) == 1 for form in found]
    if op.paired and any(fewer):
        less = [form._replace(count=form.count and form.count - len(op.paired), without=op.paired) for form in found]
        found = less + [form._replace(given=op.paired) for form in found]
    elif op.inputs and not op.order and op.min_inputs == 0 and not (op.inputs[0].variadic and op.base_traits.pure):
        # a call without data also returns a node
        found = [form._replace(given=tuple(optional[:1])) for form in found] + [
            form._replace(without=tuple(optional)) for form in found
        ]
    return found


def counted_forms(op: OpDef) -> list[Form]:
    """The overloads, by the arguments that determine the number of outputs."""
    if op.outputs_hook is None:
        return [Form(op.num_outputs)]
    reads = _Reads(op)
    try:
        count = op.outputs_hook(reads)
    except LookupError:
        (name,) = reads._names
        if name not in op.arguments or not hasattr(op.arguments[name].type, "several"):
            return [Form(None)]
        one_type = "type[Any] | np.dtype[Any] | str | DALIDataType"
        return [Form(1, {name: one_type}), Form(2, {name: "list[Any] | tuple[Any, ...]"}), Form(None)]
    decide = [op.arguments[name] for name in op.arguments if name in reads._names]
    usual = {param.name: literal(param.default) for param in decide}
    found = [Form(count, {name: f"{text} = {text if text == 'None' else '...'}" for name, text in usual.items()})]
    for param in decide:
        others = {name: text for name, text in found[0].narrowed.items() if name != param.name}
        if param.type is bool:
            other = op.outputs_hook(op.known({param.name: not param.default}))
            found.append(Form(other, {**others, param.name: literal(not param.default)}))
        elif param.type is int:
            found.append(Form(2, {**others, param.name: "int"}))
    if len({min(form.count or 0, 2) for form in found}) == 1:
        return [Form(count)]
    return [*found, Form(None)]


def literal(value: Any) -> str:
    return "None" if value is None else f"Literal[{value!r}]"


def returned(op: OpDef, one: str, count: int | None) -> str:
    if op.result_hook is not None:
        declared = typing.get_type_hints(op.result_hook)["return"]
        return str(declared).replace("typing.Any", one)
    if op.list_hook is not None and op.nodes_only:
        return "list[DataNode]"
    if count is None:
        return "Any"
    return {0: "None", 1: one}.get(count, f"list[{one}]")


def summary(op: OpDef, indent: str) -> str:
    """The first sentence of the documentation and the meaning of each argument, as a docstring."""
    first = (op.__doc__ or "").split("\n\n")[0].replace("\n", " ")
    listed = [param for param in op.arguments.values() if param.meaning and not counted(op, param)]
    lines = [f"{param.name}: {param.meaning}" for param in listed]
    text = f"{first}\n\nArguments:\n    " + "\n    ".join(lines) + "\n" if lines else first
    return textwrap.indent(f'"""{text}"""'.replace("\\", "\\\\"), indent)


def star(inputs: list[str], named: list[str]) -> list[str]:
    """Keyword-only arguments need a star before them, unless variadic data comes before."""
    variadic = any(text.startswith("*") for text in inputs)
    return [*inputs, *([] if variadic or not named else ["*"]), *named]


def function(op: OpDef, inside: bool) -> str:
    """The function, or its overloads; ``inside`` a namespace, which is a class in a stub."""
    overloads = forms(op)
    texts = []
    for form in overloads:
        with_data = bool(op.inputs) and not op.order and op.inputs[0].name not in form.without
        one = "Data" if with_data else "DataNode"
        inputs = [] if op.min_inputs == 0 and form.without else data(op, "Data", form.given)
        if op.paired and form.without:
            inputs = [text for text in inputs if text.partition(":")[0] not in form.without]
        parameters = star([*inputs, *by_position(op, form.narrowed)], keywords(op, form.narrowed))
        listed = "".join(f"    {parameter},\n" for parameter in parameters)
        head = ("@overload\n" if len(overloads) > 1 else "") + ("@staticmethod\n" if inside else "")
        result = returned(op, one, form.count)
        texts.append(f"{head}def {op.leaf}(\n{listed}) -> {result}:\n{summary(op, '    ')}\n")
    return "\n".join(texts)


def operator_class(op: OpDef) -> str:
    built = "".join(f"        {parameter},\n" for parameter in star(["self", *by_position(op)], keywords(op)))
    with_data = bool(op.inputs) and not op.order and op.inputs[0].required
    inputs = ", ".join(["self", *data(op, "Data" if with_data else "DataNode | ArrayLike"), "**arguments: Any"])
    counts = {form.count for form in counted_forms(op)}
    result = returned(op, "Data" if with_data else "DataNode", counts.pop() if len(counts) == 1 else None)
    return (
        f"class {op.ops_name}(Operator):\n{summary(op, '    ')}\n\n"
        f"    def __init__(\n{built}    ) -> None: ...\n    def __call__({inputs}) -> {result}: ...\n"
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
            yield function(item, inside) if name == "fn" else operator_class(item)
    for folder, item in tree.items():
        if not isinstance(item, OpDef):
            body = "\n".join(written(item, name, True))
            yield f"class {folder}:\n{textwrap.indent(body, '    ')}"


def of_numbers(op: OpDef) -> str:
    """A function of pipeflow.math: the first value is data, or a number next to data."""
    names = [param.name for param in op.inputs]
    listed = []
    for place in range(len(names)):
        kinds = ["float" if i < place else "Data" if i == place else "DataNode | ArrayLike" for i in range(len(names))]
        listed.append(", ".join([*map(": ".join, zip(names, kinds)), "/"]))
    head = "@overload\n" if len(listed) > 1 else ""
    return "\n".join(f"{head}def {op.leaf}({text}) -> Data:\n{summary(op, '    ')}\n" for text in listed)


def stub(name: str) -> str:
    """The text of a stub."""
    if name == "math":
        return HEADER[name] + "\n" + "\n".join(of_numbers(registry[f"math.{leaf}"]) for leaf in math.__all__)
    public = tree_of(op for op in registry.values() if not op.hidden and (name == "fn" or not op.nodes_only))
    return HEADER[name] + "\n" + "\n".join(written(public, name))


def index() -> str:
    """The text of the index of operators: the names that each file of pipeflow/operators/ declares."""
    files: dict[str, list[str]] = {}
    package = f"{operators.__name__}."
    for name in registry:
        module = registry[name].body.__module__
        if module.startswith(package):
            files.setdefault(module.removeprefix(package), []).append(name)
    lines = [
        f"{file} {part}" for file in sorted(files) for part in textwrap.wrap(" ".join(files[file]), 115 - len(file))
    ]
    says = "The operators that each file declares, so that `import pipeflow` imports none of these files."
    return "\n".join([f'"""{says}"""', "", MARK.strip(), 'LINES = """', *lines, '"""', ""])


def main() -> None:
    for name in HEADER:
        (PACKAGE / f"{name}.pyi").write_text(stub(name))
    (PACKAGE / "operators" / "index.py").write_text(index())


if __name__ == "__main__":
    main()
