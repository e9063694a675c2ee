"""The floors and the "never" list of the design, read from the imports of every file."""

import ast
import collections
import functools
import graphlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple, get_args

import pytest
from helpers import LONG

import pipeflow.operators  # noqa: F401  (tells the registry where the operators are)
from pipeflow.declare import Part, registry

PACKAGE = Path(__file__).parents[1] / "pipeflow"
FILES = sorted(path.relative_to(PACKAGE.parent).as_posix() for path in PACKAGE.rglob("*.py"))

# The floors of the house, from the ground up: a folder or file imports only what is on its own floor or below. A longer
# path comes before a shorter one: pictures/__init__.py is a door that loads the rest of its folder when it is used.
HOUSE = (
    (
        "version.py",
        "errors.py",
        "seeds.py",
        "timing.py",
        "system.py",
        "autograph_guard.py",
        "pictures/__init__.py",
        "pictures/picture.py",
    ),
    ("types.py", "dali_names.py", "progress.py", "kernels/"),
    ("tensors/", "tfrecord.py", "backends/__init__.py"),
    ("declare/", "pictures/"),
    ("device/", "saving/", "plan.py"),
    ("operators/", "backends/"),
    ("record/", "executor/", "ops.py", "math.py"),
    ("compile/", "fn.py", "data_node.py", "resume.py", "watching/", "reporting/"),
    ("handle/", "epochs/", "auto_aug/"),
    ("pipeline.py",),
    ("plugin/", "loading/", "distributed/", "backend.py", "backend_impl.py", "commands/"),
    ("__init__.py", "__main__.py"),
)
FLOORS = {f"pipeflow/{place}": floor for floor, places in enumerate(HOUSE) for place in places}

# Who may never import what, not even through other modules.
NEVER = {
    "pipeflow/operators/": ("record", "compile", "executor", "pipeline", "backends"),
    "pipeflow/executor/": ("record", "operators", "pipeline", "compile"),
    "pipeflow/plan.py": ("record", "operators", "executor", "compile"),
    "pipeflow/saving/": ("record", "compile", "executor", "operators"),
    "pipeflow/autograph_guard.py": ("record",),
    "pipeflow/record/autograph/": ("record.graph", "record.recorder"),
    "pipeflow/kernels/": ("types", "errors", "seeds", "tensors", "declare", "operators", "backends"),
}

# Third-party package -> the only places that import it.
THIRD_PARTY = {
    "cupy": ("pipeflow/backends/gpu.py",),
    "torch": ("pipeflow/plugin/pytorch/",),
    "cuda": ("pipeflow/backends/gpu.py",),
    "nvidia": ("pipeflow/backends/codec.py",),
    "jax": ("pipeflow/plugin/jax/",),
    "clu": ("pipeflow/plugin/jax/clu.py",),
    "keras": ("pipeflow/plugin/keras.py",),
    "paddle": ("pipeflow/plugin/paddle.py",),
    "tensorflow": ("pipeflow/plugin/",),
    "ray": ("pipeflow/distributed/ray.py",),
    "numba": ("pipeflow/kernels/cpu/", "pipeflow/kernels/gpu/numba_cuda.py"),
    "llvmlite": ("pipeflow/kernels/cpu/",),
    "cv2": ("pipeflow/kernels/cpu/",),
    "PIL": ("pipeflow/kernels/cpu/", "pipeflow/pictures/canvas.py"),
    "simplejpeg": ("pipeflow/kernels/cpu/",),
    "soundfile": ("pipeflow/kernels/cpu/",),
    "soxr": ("pipeflow/kernels/cpu/",),
    "scipy": ("pipeflow/kernels/cpu/",),
    "imagecodecs": ("pipeflow/kernels/cpu/with_imagecodecs.py",),
    "pillow_heif": ("pipeflow/kernels/cpu/with_heif.py",),
    "OpenEXR": ("pipeflow/kernels/cpu/with_openexr.py",),
    "pydicom": ("pipeflow/kernels/cpu/with_pydicom.py",),
    "cloudpickle": ("pipeflow/saving/functions.py",),
    "tqdm": (),
}

# The doors through which a module is loaded late: operators, the compiler, the GPU, the executor, worker processes, debug
# runs, reports, CPU kernels, frameworks and optional libraries by name, functions that were saved by import path, and files of
# the user.
LATE_IMPORTS = (
    "pipeflow/__init__.py",
    "pipeflow/backends/__init__.py",
    "pipeflow/executor/__init__.py",
    "pipeflow/executor/automatic.py",
    "pipeflow/executor/device/__init__.py",
    "pipeflow/executor/runners/__init__.py",
    "pipeflow/executor/workers/__init__.py",
    "pipeflow/handle/__init__.py",
    "pipeflow/loading/__init__.py",
    "pipeflow/kernels/kept_code.py",
    "pipeflow/kernels/cpu/__init__.py",
    "pipeflow/kernels/gpu/__init__.py",
    "pipeflow/commands/__init__.py",
    "pipeflow/commands/target.py",
    "pipeflow/commands/verbs/headspace.py",
    "pipeflow/declare/frameworks.py",
    "pipeflow/declare/opdef.py",
    "pipeflow/declare/registration.py",
    "pipeflow/compile/__init__.py",
    "pipeflow/compile/compiler.py",
    "pipeflow/errors.py",
    "pipeflow/pictures/__init__.py",
    "pipeflow/reporting/__init__.py",
    "pipeflow/saving/values.py",
    "pipeflow/watching/__init__.py",
    "pipeflow/operators/__init__.py",
    "pipeflow/pipeline.py",
)

DOORS = ("import_module", "__import__", "resolve_name", "run_module", "run_path", "load_module", "module_from_spec")

# Library -> the only places that load it by its name, with `optional`.
BY_NAME = {
    "cloudpickle": ("pipeflow/saving/values.py",),
    "fsspec": ("pipeflow/operators/readers/remote.py",),
    "opentelemetry": ("pipeflow/watching/telemetry.py",),
    "pyarrow": ("pipeflow/operators/readers/", "pipeflow/commands/converting/"),
    "tensorflow": ("pipeflow/plugin/keras.py",),
    "tqdm": ("pipeflow/progress.py", "pipeflow/epochs/epoch.py"),
}

# Files of on_gpu/ that have no operator: what several of the others share.
SHARED_ON_GPU = {"__init__", "elementwise", "moves", "resize_rows", "transposes"}

# What `import pipeflow` may not load.
HEAVY = ("numba", "llvmlite", "cupy", "torch", "jax", "ray", "cv2", "PIL", "simplejpeg", "soundfile", "soxr", "scipy")
# Parts of the standard library that cost more at import than they are worth here.
HEAVY += ("importlib.metadata", "email", "asyncio", "unittest")


# Parts of the package that know no operator by its name.
NAMELESS = ("declare/", "device/", "record/", "compile/", "executor/", "handle/", "saving/", "epochs/", "plan.py")
NAMELESS += ("reporting/advice.py", "resume.py")
# The exception: it names Python's operators, and some of ours have the same names.
NAMED = ("pipeflow/declare/drawn.py",)


class Import(NamedTuple):
    module: str
    line: int


@functools.cache
def tree_of(file):
    return ast.parse((PACKAGE.parent / file).read_text(), file)


def absolute(node, file):
    """The full dotted name of the module that a `from` import starts at."""
    if not node.level:
        return node.module
    folder = file.split("/")[: -node.level]
    return ".".join(folder + ([node.module] if node.module else []))


def exists(module):
    path = PACKAGE.parent / module.replace(".", "/")
    return path.with_suffix(".py").exists() or path.is_dir()


@functools.cache
def imports_of(file):
    """Every module that a file imports; `from package import name` means the submodule where there is one."""
    found = []
    for node in ast.walk(tree_of(file)):
        if isinstance(node, ast.Import):
            found += [Import(alias.name, node.lineno) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            start = absolute(node, file)
            for alias in node.names:
                name = f"{start}.{alias.name}"
                inside = start.partition(".")[0] == "pipeflow" and exists(name)
                found.append(Import(name if inside else start, node.lineno))
    return found


def file_of(module):
    path = module.replace(".", "/")
    return f"{path}/__init__.py" if (PACKAGE.parent / path).is_dir() else f"{path}.py"


def floor_of(file):
    known = [prefix for prefix in FLOORS if file.startswith(prefix)]
    return FLOORS[max(known, key=len)] if known else None


@functools.cache
def calls_of(file):
    """(dotted name of the called thing, line) of every call in a file."""
    return [(ast.unparse(node.func), node.lineno) for node in ast.walk(tree_of(file)) if isinstance(node, ast.Call)]


def mentioned_in(file):
    """(name, line) of every name, attribute and imported name of a file."""
    for node in ast.walk(tree_of(file)):
        if isinstance(node, ast.Name):
            yield node.id, node.lineno
        elif isinstance(node, ast.Attribute):
            yield node.attr, node.lineno
        elif isinstance(node, ast.ImportFrom):
            yield from ((alias.name, node.lineno) for alias in node.names)


def test_the_page_shows_the_floors():
    """The table of docs/how-it-works.md is the one above, without the doors that are lower than their folder."""
    page = (PACKAGE.parent / "docs" / "how-it-works.md").read_text(encoding="utf-8")
    shown = [set(re.findall(r"`([a-z_]+(?:/|\.py))`", row)) for row in re.findall(r"(?m)^   \| \d+ \| (.*) \|$", page)]
    assert shown == [{place for place in places if "/" not in place[:-1]} for places in HOUSE]


def test_every_file_has_a_floor_and_imports_only_downwards():
    """No file of the package imports a file of a higher floor."""
    floors = {file: floor_of(file) for file in FILES if (PACKAGE.parent / file).read_text().strip()}
    missing = [file for file, floor in floors.items() if floor is None]
    assert not missing, f"{missing} stand on no floor: give them one in FLOORS and in the design"
    upwards = [
        f"{file}:{line} imports {module} of floor {floor_of(file_of(module))} from floor {floor}"
        for file, floor in floors.items()
        for module, line in imports_of(file)
        if module.partition(".")[0] == "pipeflow" and (floor_of(file_of(module)) or 0) > floor
    ]
    assert not upwards, "\n".join(upwards)


def packages_of(file):
    """The packages that Python loads before a file; not the root, which every import loads."""
    parts = file.split("/")
    return {"/".join(parts[:depth]) + "/__init__.py" for depth in range(2, len(parts))}


def loaded_by(file):
    """The files that importing this one loads directly: those that it names, and the packages around them."""
    named = {file_of(module) for module, _ in imports_of(file) if module.partition(".")[0] == "pipeflow"}
    around = {package for other in named for package in packages_of(other)} - packages_of(file)
    return (named | around) - {file}


@functools.cache
def imports():
    """Which files of the package each of them loads."""
    return {file: loaded_by(file) for file in FILES}


def reached_from(file):
    """Every file that importing this one loads, with the way to it; the package's own __init__ is left out."""
    ways = {file: [file]}
    todo = [file]
    while todo:
        now = todo.pop()
        for other in imports().get(now, ()):
            if other not in ways and other != "pipeflow/__init__.py":
                ways[other] = [*ways[now], other]
                todo.append(other)
    return ways


@pytest.mark.parametrize("prefix", NEVER)
def test_what_must_stay_apart_stays_apart(prefix):
    """Operators work with arrays alone, the executor with a Plan alone, kernels with nothing else; also through others."""
    crossed = [
        " -> ".join(way)
        for file in FILES
        if file.startswith(prefix)
        for other, way in reached_from(file).items()
        for name in NEVER[prefix]
        if other.startswith((f"pipeflow/{name.replace('.', '/')}/", f"pipeflow/{name.replace('.', '/')}.py"))
    ]
    assert not crossed, "\n".join(crossed)


def test_no_circle_of_imports():
    """No module imports itself through others, at any depth: any module of the package can be imported first."""
    try:
        list(graphlib.TopologicalSorter(imports()).static_order())
    except graphlib.CycleError as error:
        pytest.fail("a circle of imports: " + " <- ".join(error.args[1]))


def test_a_new_file_of_operators_is_found_by_itself(tmp_path):
    """An operator is one file: it works although the generated index does not have it yet."""
    copy = tmp_path / "pipeflow"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__", "*.cu", "*.pyi"))
    (copy / "operators" / "brand_new.py").write_text(
        "from pipeflow.declare import Sample, operator\n\n\n"
        "@operator('brand_new')\ndef brand_new(data: Sample, /) -> Sample:\n    '''Nothing.'''\n    return data\n"
    )
    program = "import pipeflow; print(pipeflow.__file__, pipeflow.fn.brand_new([1, 2]), pipeflow.ops.BrandNew)"
    command = [sys.executable, "-B", "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=LONG)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"{copy}/__init__.py ")


def test_gpu_forms_stand_in_files_of_the_same_name():
    """The GPU form of an operator of operators/color.py is in operators/on_gpu/color.py, and no file is left over."""
    operators = PACKAGE / "operators"
    files = {path.stem for path in (operators / "on_gpu").glob("*.py")}
    ours = [op for op in registry.values() if op.body.__module__.startswith("pipeflow.")]
    assert {op.gpu_module for op in ours if op.gpu_module} <= files
    assert not files - SHARED_ON_GPU - {path.stem for path in operators.iterdir()}


# DALI has a class of this name for each framework.
OF_FRAMEWORKS = {"ClassificationIterator", "GenericIterator", "RaggedIterator"}


def test_a_class_has_a_name_of_its_own():
    """No two classes of the package have the same name, not even private ones."""
    classes = collections.defaultdict(set)
    for file in FILES:
        for node in ast.walk(tree_of(file)):
            if isinstance(node, ast.ClassDef):
                classes[node.name.lstrip("_")].add(f"{file}:{node.lineno}")
    assert {name: places for name, places in classes.items() if len(places) > 1 and name not in OF_FRAMEWORKS} == {}


MOST_LINES, MOST_TABLES = 600, 40


def test_files_are_short_and_formatted():
    """No file has more lines than one reader can take in, and only a real table is kept from the formatter."""
    texts = {file: (PACKAGE.parent / file).read_text() for file in FILES}
    assert not [file for file, text in texts.items() if text.count("\n") > MOST_LINES]
    assert sum(text.count("# fmt: skip") for text in texts.values()) < MOST_TABLES


def defined_in(statements):
    """The names of the functions and classes that a list of statements defines; _ is the name of hooks."""
    marks = ("overload", "setter", "getter", "deleter", "register")
    return [
        node.name
        for node in statements
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        and node.name != "_"
        and not any(ast.unparse(mark).endswith(marks) for mark in node.decorator_list)
    ]


def defined_twice(file):
    """The functions, classes and constants of a file of which the first definition is dead."""
    for node in ast.walk(tree_of(file)):
        for field in ("body", "orelse", "finalbody"):
            statements = getattr(node, field, None)
            if not isinstance(statements, list):  # no field of that name, or an expression
                continue
            names = defined_in(statements)
            if isinstance(node, ast.Module):
                assigned = [one for one in statements if isinstance(one, ast.Assign | ast.AnnAssign)]
                targets = [target for one in assigned for target in getattr(one, "targets", None) or [one.target]]
                names += [target.id for target in targets if isinstance(target, ast.Name) and target.id != "_"]
            yield from {name for name in names if names.count(name) > 1}


def test_no_name_is_defined_twice_in_a_module():
    """A function or class is defined once in a list of statements, a constant once in a module: of two, the first is dead."""
    twice = [f"{file} defines {name} more than once" for file in FILES for name in sorted(defined_twice(file))]
    assert not twice, "\n".join(twice)


def test_each_heavy_library_has_its_one_place():
    """cupy, torch, ray, numba and the codecs are imported where the design says and nowhere else."""
    misplaced = [
        f"{file}:{line} imports {module}"
        for file in FILES
        for module, line in imports_of(file)
        if module.partition(".")[0] in THIRD_PARTY and not file.startswith(THIRD_PARTY[module.partition(".")[0]])
    ]
    assert not misplaced, "\n".join(misplaced)


def test_every_library_beyond_numpy_has_a_place_at_all():
    """A new dependency is a decision: it gets a line in THIRD_PARTY before a file can import it."""
    allowed = {*sys.stdlib_module_names, "numpy", "pipeflow", *THIRD_PARTY}
    unknown = [
        f"{file}:{line} imports {module}"
        for file in FILES
        for module, line in imports_of(file)
        if module.partition(".")[0] not in allowed
    ]
    assert not unknown, "\n".join(unknown)


def imports_inside(file):
    """The lines of imports in functions of a file."""
    for function in ast.walk(tree_of(file)):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield from (node.lineno for node in ast.walk(function) if isinstance(node, ast.Import | ast.ImportFrom))


def test_no_import_inside_a_function():
    """Modules are imported at the top; loading one late goes through the doors listed above."""
    inside = [f"{file}:{line}" for file in FILES for line in imports_inside(file)]
    assert not inside, f"imports inside functions: {inside}"
    late = [
        f"{file}:{line} uses {name}"
        for file in FILES
        if file not in LATE_IMPORTS
        for name, line in mentioned_in(file)
        if name in DOORS
    ]
    assert not late, f"modules that are loaded late: {late}"


def test_optional_libraries_are_loaded_where_the_table_says():
    """A library that is loaded by its name in a text has its one place too, like those that are imported."""
    misplaced = []
    for file in FILES:
        for node in ast.walk(tree_of(file)):
            if isinstance(node, ast.Call) and node.args and ast.unparse(node.func).endswith(("optional", *DOORS)):
                path = node.args[0]
                text = path.values[0] if isinstance(path, ast.JoinedStr) and path.values else path
                if isinstance(text, ast.Constant) and isinstance(text.value, str):  # others name a module of pipeflow
                    library = re.split(r"[.:]", text.value)[0]
                    known = library in {*sys.stdlib_module_names, "pipeflow", "numpy", ""}
                    if not known and not file.startswith(BY_NAME.get(library, ())):
                        misplaced.append(f"{file}:{node.lineno} loads {library}")
    assert not misplaced, "\n".join(misplaced)


def test_compiling_neither_allocates_nor_opens_files():
    """The compiler makes no array, opens nothing and knows no device: the same Graph gives an equal Plan."""
    forbidden = {"open", "np.empty", "np.zeros", "np.ones", "np.full", "np.memmap", "np.load"}
    kernels = ("/warmup.py", "/first_batches.py")  # they run kernels
    files = [x for x in FILES if x.startswith("pipeflow/compile/") and not x.endswith(kernels)]
    found = [f"{file}:{line} calls {name}" for file in files for name, line in calls_of(file) if name in forbidden]
    found += [
        f"{file}:{line} imports {module}"
        for file in files
        for module, line in imports_of(file)
        if f"{module}.".startswith(("pipeflow.backends.", "mmap.", "io.", "os.", "pathlib.", "tempfile."))
    ]
    assert not found, "\n".join(found)


def test_no_pass_and_no_runner_knows_an_operator_by_its_name():
    """What they must know of an operator is said in its declaration: a role, a hook, a property."""
    names = set(registry) - set(get_args(Part))
    found = [
        f"{file}:{node.lineno} {node.value}"
        for file in FILES
        if file.startswith(tuple(f"pipeflow/{name}" for name in NAMELESS)) and file not in NAMED
        for node in ast.walk(tree_of(file))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in names
    ]
    assert not found, "\n".join(found)


def test_importing_pipeflow_loads_no_heavy_library():
    """`import pipeflow` leaves Numba, CuPy, the codecs and every framework unloaded."""
    program = f"import sys, pipeflow; print([x for x in {HEAVY} if x in sys.modules])"
    command = [sys.executable, "-c", program]
    result = subprocess.run(command, capture_output=True, text=True, cwd=PACKAGE.parent, check=True, timeout=LONG)
    assert result.stdout.strip() == "[]"


def test_importing_pipeflow_does_not_do_what_only_a_built_pipeline_needs():
    """It leaves the compiler, the executor, debug runs, advice and the files of operators unloaded.

    Then a name of `fn` or `ops` loads the file of this operator and no other.
    """
    late = [
        "compile.compiler",
        "executor.ring",
        "handle.debug",
        "reporting.advice",
        "operators.color",
        "operators.audio",
    ]
    program = (
        f"import sys, pipeflow\nloaded = lambda: [x for x in {late} if f'pipeflow.{{x}}' in sys.modules]\n"
        "print(loaded(), pipeflow.fn.hsv.op.name, pipeflow.ops.ColorTwist.__name__, loaded(), "
        "'params' in vars(pipeflow.fn.hsv.op))"
    )
    command = [sys.executable, "-c", program]
    result = subprocess.run(command, capture_output=True, text=True, cwd=PACKAGE.parent, check=True, timeout=LONG)
    assert result.stdout.strip() == "[] hsv ColorTwist ['operators.color'] False"


def test_a_small_pipeline_loads_only_what_it_uses():
    """Neither what devices, chains, kept samples, gradients, automatic settings, readers and processes need, nor large modules
    of Python for files and processes.
    """
    late = [f"pipeflow.executor.{name}" for name in ("device.device", "runners.chain", "runners.kept", "tuning")]
    late += ["pipeflow.compile.gradients", "pipeflow.saving.kept", "pipeflow.executor.workers.pool"]
    late += ["pipeflow.operators.readers.files", "subprocess", "tempfile", "shutil", "socket"]
    program = (
        "import sys\nfrom pipeflow import fn, pipeline_def\n"
        "@pipeline_def(batch_size=2, num_threads=2, device_id=None)\n"
        "def small():\n"
        "    x = fn.external_source(lambda: [[1.0, 2.0]] * 2)\n"
        "    return fn.python_function(x, function=lambda x: x + 1) * fn.random.uniform(range=(1, 2))\n"
        "pipe = small()\npipe.build()\npipe.run()\n"
        f"print([x for x in {late} if x in sys.modules])"
    )
    command = [sys.executable, "-c", program]
    result = subprocess.run(command, capture_output=True, text=True, cwd=PACKAGE.parent, check=True, timeout=LONG)
    assert result.stdout.strip() == "[]", result.stderr


def test_kept_kernels_and_orders_of_readers_load_no_large_module(tmp_path):
    """Many pipelines need them for their first batch."""
    program = (
        "import sys\nimport numpy as np\nfrom pipeflow.kernels.kept_code import KernelFiles, folder_for\n"
        "from pipeflow.operators.readers.windowed_order import Groups, shuffled\n"
        "files = KernelFiles(folder_for('some'), 'kernel')\nfiles.save('key', 7)\n"
        "order = shuffled(Groups(np.array([4, 8, 12]), 6), 0, 12, np.arange(12), 1, 0)\n"
        "loaded = [x for x in ('tempfile', 'shutil', 'numpy.ma') if x in sys.modules]\n"
        "print(files.load('key'), sorted(order.tolist()) == list(range(12)), loaded)"
    )
    given = os.environ | {"PIPEFLOW_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-c", program]
    result = subprocess.run(
        command, capture_output=True, text=True, cwd=PACKAGE.parent, check=True, timeout=LONG, env=given
    )
    assert result.stdout.strip() == "7 True []", result.stderr
