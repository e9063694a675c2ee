"""The floors and the "never" list of the design, read from the imports of every file."""

import ast
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

PACKAGE = Path(__file__).parents[1] / "pipeflow"
FILES = sorted(path.relative_to(PACKAGE.parent).as_posix() for path in PACKAGE.rglob("*.py"))

# The floor of a file is that of the longest prefix it has in this table. A file without one has no place yet.
FLOORS = {
    "pipeflow/version.py": 0,
    "pipeflow/types.py": 0,
    "pipeflow/errors.py": 0,
    "pipeflow/seeds.py": 0,
    "pipeflow/tensors.py": 0,
    "pipeflow/autograph_guard.py": 0,
    "pipeflow/advice.py": 1,
    "pipeflow/tfrecord.py": 1,
    "pipeflow/declare/": 1,
    "pipeflow/device_calls.py": 1,
    "pipeflow/device_runtime.py": 1,
    "pipeflow/device_tensors.py": 5,
    "pipeflow/autograph.py": 1,
    "pipeflow/kernels/": 1,
    "pipeflow/conditional.py": 2,
    "pipeflow/operators/": 2,
    "pipeflow/graph.py": 3,
    "pipeflow/data_node.py": 3,
    "pipeflow/choices.py": 3,
    "pipeflow/former_names.py": 2,
    "pipeflow/fn.py": 3,
    "pipeflow/ops.py": 3,
    "pipeflow/math.py": 3,
    "pipeflow/differentiation.py": 4,
    "pipeflow/fusion.py": 4,
    "pipeflow/mixed.py": 4,
    "pipeflow/warmup.py": 5,
    "pipeflow/plan.py": 4,
    "pipeflow/backends/": 4,
    "pipeflow/executor/": 5,
    "pipeflow/checkpoint.py": 5,
    "pipeflow/plugin/base.py": 5,
    "pipeflow/plugin/__init__.py": 5,
    "pipeflow/saving.py": 5,
    "pipeflow/debug.py": 6,
    "pipeflow/pipeline.py": 6,
    "pipeflow/plugin/": 6,
    "pipeflow/auto_aug/": 6,
    "pipeflow/__init__.py": 7,
    "pipeflow/__main__.py": 7,
    "pipeflow/distributed/": 7,
}

# Who may never import what, whatever the floors say.
NEVER = {
    "pipeflow/operators/": ("graph", "plan", "executor", "pipeline", "backends"),
    "pipeflow/executor/": ("graph", "operators", "pipeline"),
    "pipeflow/autograph": ("graph",),
    "pipeflow/kernels/": ("types", "errors", "seeds", "tensors", "declare", "operators", "backends"),
}

# Third-party package -> the only places that import it.
THIRD_PARTY = {
    "cupy": ("pipeflow/backends/gpu.py",),
    "torch": ("pipeflow/plugin/pytorch.py",),
    "cuda": ("pipeflow/backends/gpu.py",),
    "nvidia": ("pipeflow/backends/codec.py",),
    "jax": ("pipeflow/plugin/jax.py",),
    "keras": ("pipeflow/plugin/keras.py",),
    "tensorflow": ("pipeflow/plugin/",),
    "ray": ("pipeflow/distributed/ray.py",),
    "numba": ("pipeflow/kernels/cpu/", "pipeflow/kernels/gpu/numba_cuda.py"),
    "llvmlite": ("pipeflow/kernels/cpu/",),
    "cv2": ("pipeflow/kernels/cpu/",),
    "PIL": ("pipeflow/kernels/cpu/",),
    "simplejpeg": ("pipeflow/kernels/cpu/",),
    "soundfile": ("pipeflow/kernels/cpu/",),
    "soxr": ("pipeflow/kernels/cpu/",),
    "scipy": ("pipeflow/kernels/cpu/",),
    "cloudpickle": ("pipeflow/executor/workers/functions.py",),
    "tqdm": (),
}

# The doors through which a module is loaded late: the GPU, worker processes, CPU kernels, and frameworks by name.
LATE_IMPORTS = (
    "pipeflow/backends/__init__.py",
    "pipeflow/executor/workers/__init__.py",
    "pipeflow/kernels/cpu/__init__.py",
    "pipeflow/kernels/gpu/__init__.py",
    "pipeflow/declare/frameworks.py",
    "pipeflow/declare/opdef.py",
)

# What `import pipeflow` may not load.
HEAVY = ("numba", "llvmlite", "cupy", "torch", "jax", "ray", "cv2", "PIL", "simplejpeg", "soundfile", "soxr", "scipy")
# Parts of the standard library that cost more at import than they are worth here.
HEAVY += ("importlib.metadata", "email", "asyncio", "unittest")


class Import(NamedTuple):
    module: str
    line: int


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


def imports_of(file):
    """Every module that a file imports; `from package import name` means the submodule where there is one."""
    for node in ast.walk(tree_of(file)):
        if isinstance(node, ast.Import):
            yield from (Import(alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            start = absolute(node, file)
            for alias in node.names:
                name = f"{start}.{alias.name}"
                inside = start.partition(".")[0] == "pipeflow" and exists(name)
                yield Import(name if inside else start, node.lineno)


def file_of(module):
    path = module.replace(".", "/")
    return f"{path}/__init__.py" if (PACKAGE.parent / path).is_dir() else f"{path}.py"


def floor_of(file):
    known = [prefix for prefix in FLOORS if file.startswith(prefix)]
    return FLOORS[max(known, key=len)] if known else None


def calls_of(file):
    """(dotted name of the called thing, line) of every call in a file."""
    for node in ast.walk(tree_of(file)):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func), node.lineno


@pytest.mark.parametrize("file", FILES)
def test_every_file_has_a_floor_and_imports_only_downwards(file):
    """No file of the package imports a file of a higher floor."""
    floor = floor_of(file)
    if file.endswith("/__init__.py") and not (PACKAGE.parent / file).read_text().strip():
        return
    assert floor is not None, f"{file} stands on no floor: give it one in FLOORS and in the design"
    upwards = [
        f"{file}:{line} imports {module} of floor {floor_of(file_of(module))} from floor {floor}"
        for module, line in imports_of(file)
        if module.partition(".")[0] == "pipeflow" and (floor_of(file_of(module)) or 0) > floor
    ]
    assert not upwards, "\n".join(upwards)


@pytest.mark.parametrize("prefix", NEVER)
def test_what_must_stay_apart_stays_apart(prefix):
    """Operators work with arrays alone, the executor with steps alone, kernels with nothing else."""
    crossed = [
        f"{file}:{line} imports {module}"
        for file in FILES
        if file.startswith(prefix)
        for module, line in imports_of(file)
        for other in NEVER[prefix]
        if f"{module}.".startswith(f"pipeflow.{other}.")
    ]
    assert not crossed, "\n".join(crossed)


@pytest.mark.parametrize("package", THIRD_PARTY)
def test_each_heavy_library_has_its_one_place(package):
    """cupy, torch, ray, numba and the codecs are imported where the design says and nowhere else."""
    misplaced = [
        f"{file}:{line} imports {module}"
        for file in FILES
        if not file.startswith(THIRD_PARTY[package])
        for module, line in imports_of(file)
        if module.partition(".")[0] == package
    ]
    assert not misplaced, "\n".join(misplaced)


@pytest.mark.parametrize("file", FILES)
def test_every_library_beyond_numpy_has_a_place_at_all(file):
    """A new dependency is a decision: it gets a line in THIRD_PARTY before a file can import it."""
    allowed = {*sys.stdlib_module_names, "numpy", "pipeflow", *THIRD_PARTY}
    unknown = [f"{file}:{line} imports {m}" for m, line in imports_of(file) if m.split(".")[0] not in allowed]
    assert not unknown, "\n".join(unknown)


@pytest.mark.parametrize("file", FILES)
def test_no_import_inside_a_function(file):
    """Modules are imported at the top; loading one late goes through the two doors."""
    inside = [
        f"{file}:{node.lineno}"
        for function in ast.walk(tree_of(file))
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        for node in ast.walk(function)
        if isinstance(node, ast.Import | ast.ImportFrom)
    ]
    assert not inside, f"imports inside functions: {inside}"
    if file not in LATE_IMPORTS:
        late = [line for name, line in calls_of(file) if name.endswith(("import_module", "__import__"))]
        assert not late, f"{file} loads modules late on lines {late}"


def test_compiling_neither_allocates_nor_opens_files():
    """plan.py makes no array, opens nothing and knows no device: the same Graph gives an equal Plan."""
    forbidden = {"open", "np.empty", "np.zeros", "np.ones", "np.full", "np.memmap", "np.load"}
    files = [x for x in FILES if x == "pipeflow/plan.py"]
    found = [f"{file}:{line} calls {name}" for file in files for name, line in calls_of(file) if name in forbidden]
    found += [
        f"{file}:{line} imports {module}"
        for file in files
        for module, line in imports_of(file)
        if f"{module}.".startswith(("pipeflow.backends.", "mmap.", "io.", "os.", "pathlib.", "tempfile."))
    ]
    assert not found, "\n".join(found)


def test_importing_pipeflow_loads_no_heavy_library():
    """`import pipeflow` leaves Numba, CuPy, the codecs and every framework unloaded."""
    program = f"import sys, pipeflow; print([x for x in {HEAVY} if x in sys.modules])"
    command = [sys.executable, "-c", program]
    result = subprocess.run(command, capture_output=True, text=True, cwd=PACKAGE.parent, check=True, timeout=50)
    assert result.stdout.strip() == "[]"
