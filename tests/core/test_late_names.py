"""Names of fn, ops and math are made when they are first read, and cannot be told from names that were always there."""

import inspect
import pickle
import subprocess
import sys

import pytest

import pipeflow
from pipeflow import fn, math, ops
from pipeflow.declare import registry

LONG = 60


def run(program):
    """The output of a program in a process of its own, in which nothing has been read yet."""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=LONG)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("from pipeflow import *", "loader, mix, pack, from_torch_dataset, fn"),
        ("import pipeflow", "pipeflow.loader, pipeflow.loading.transformed, pipeflow.mix"),
        ("from pipeflow.fn import *", "flip, readers, transforms"),
        ("from pipeflow.fn.readers import *", "file, webdataset"),
        ("from pipeflow.ops import *", "Flip, readers, Compose"),
        ("from pipeflow.math import *", "sqrt, clamp"),
        ("from pipeflow.fn import flip, readers as r", "flip, r.file"),
        ("import pipeflow.fn.readers as readers", "readers.file"),
        ("from pipeflow.ops.readers import File", "File"),
        ("import pipeflow.fn.experimental.decoders as d", "d.image"),
    ],
)
def test_every_form_of_import_works(line, names):
    """Also the star, which takes all operators, and modules of folders."""
    assert run(f"{line}\nprint(len(({names},)))") == [str(names.count(",") + 1)]


def test_what_is_listed_exists_and_what_exists_is_listed():
    """`dir` has each operator once it can be read, and nothing else."""
    for op in registry.values():
        if not op.hidden and not op.name.startswith("math."):
            *folders, leaf = op.name.split(".")
            place = fn
            for folder in folders:
                assert folder in dir(place)
                place = getattr(place, folder)
            assert leaf in dir(place)
            assert getattr(place, leaf).op is op
    for place in (fn, ops, fn.readers, ops.experimental.decoders):
        assert [name for name in dir(place) if not hasattr(place, name)] == []
    assert set(pipeflow.__all__) <= set(dir(pipeflow))
    assert {name for name, _ in inspect.getmembers(math) if not name.startswith("_")} == set(math.__all__)


def test_a_name_is_the_same_object_each_time():
    """Its class of `ops` can be pickled, and the operator too."""
    assert fn.hsv is fn.hsv
    assert ops.readers.File is ops.readers.File
    assert pickle.loads(pickle.dumps(ops.readers.File)) is ops.readers.File
    assert pickle.loads(pickle.dumps(fn.readers.file)) is fn.readers.file


THREADS = """
import threading
import pipeflow
from pipeflow.declare import registry

names = [name for name in registry.known() if not name.startswith("_")]
found = []
together = threading.Barrier(8)

def read(number):
    together.wait()
    for name in names[number:] + names[:number]:
        op = registry[name]
        found.append(op.infer_hook is registry[name].infer_hook and op.params is not None and op)

threads = [threading.Thread(target=read, args=(37 * i,)) for i in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(len(found) == 8 * len(names), len(set(map(id, found))) == len(names), all(found))
"""


def test_threads_may_read_names_at_the_same_time():
    """Each gets an operator whose file was imported to its end, with all hooks."""
    assert run(THREADS) == ["True", "True", "True"]


def test_an_import_that_was_interrupted_is_made_again():
    """A name whose file could not be imported the first time is there the next time."""
    program = (
        "import builtins, pipeflow\nfrom pipeflow import fn\nimport importlib\n"
        "real = importlib.machinery.SourceFileLoader.exec_module\n"
        "def once(self, module):\n"
        "    real(self, module)\n"
        "    if module.__name__ == 'pipeflow.operators.tones':\n"
        "        importlib.machinery.SourceFileLoader.exec_module = real\n        raise KeyboardInterrupt\n"
        "importlib.machinery.SourceFileLoader.exec_module = once\n"
        "try:\n    fn.posterize\nexcept KeyboardInterrupt:\n    print('interrupted')\n"
        "print(fn.posterize.op.name, fn.posterize.op.infer_hook is not None)"
    )
    assert run(program) == ["interrupted", "posterize", "True"]
