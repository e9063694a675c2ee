"""Names that do not exist say what they are: absent names of DALI, and misspelt ones."""

import importlib
import json
import subprocess
import sys

import pytest

import pipeflow
from pipeflow import backend, dali_names, fn, ops, types
from pipeflow.__main__ import main
from pipeflow.commands import porting


@pytest.mark.parametrize(
    ("place", "name", "words"),
    [
        (fn.readers, "video", r"fn\.readers\.video of DALI is not part of pipeflow: .* decode video.*Instead: read the frames"),
        (ops.readers, "VideoResize", r"ops\.readers\.VideoResize of DALI is not part of pipeflow: .* decode video"),
        (ops, "VideoReader", r"ops\.VideoReader of DALI is not part"),
        (fn.experimental, "inputs", r"fn\.experimental\.inputs of DALI is not part of pipeflow"),
        (types, "CUDAStream", r"types\.CUDAStream of DALI is not part"),
        (pipeflow, "plugin_manager", r"plugin_manager of DALI is not part .*fn\.python_function"),
        (backend, "OpSpec", r"backend\.OpSpec of DALI is not part of pipeflow: it belongs to DALI's library in C\+\+"),
    ],
)  # fmt: skip
def test_an_absent_name_of_dali_says_why_and_what_comes_close(place, name, words):
    """In modules, namespaces and classes of ops."""
    with pytest.raises(AttributeError, match=words):
        getattr(place, name)


@pytest.mark.parametrize(
    ("place", "name", "words"),
    [
        (fn, "resise", r"fn has no 'resise' \(did you mean 'resize'\?\)"),
        (fn.readers, "files", r"fn\.readers has no 'files' \(did you mean 'file'\?\)"),
        (fn, "normal", r"fn has no 'normal' \(did you mean 'fn\.random\.normal'\?\)"),
        (ops, "Resise", r"ops has no 'Resise' \(did you mean 'Resize'\?\)"),
        (types, "FLOAT32", r"types has no 'FLOAT32' \(did you mean 'FLOAT'\?\)"),
        (pipeflow, "piplines", r"pipeflow has no 'piplines'"),
    ],
)
def test_a_misspelt_name_gets_the_nearest(place, name, words):
    """Or the same name of another namespace."""
    with pytest.raises(AttributeError, match=words):
        getattr(place, name)


def test_questions_for_names_are_answered():
    """`hasattr` and `import` work as on every module."""
    assert not hasattr(fn, "nothing_of_this_name")
    assert importlib.import_module("pipeflow.plugin.base_iterator")
    with pytest.raises(ModuleNotFoundError, match="No module named"):
        importlib.import_module("pipeflow.nothing_of_this_name")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("from pipeflow import plugin_manager", r"plugin_manager of DALI is not part .*fn\.python_function"),
        ("import pipeflow.plugin_manager", r"plugin_manager of DALI is not part .*fn\.python_function"),
        ("import pipeflow.plugin.mxnet as dali_mxnet", r"plugin\.mxnet of DALI is not part .*plugin\.numpy"),
        ("from pipeflow.plugin import triton", r"plugin\.triton of DALI is not part .*serialize"),
        (
            "import pipeflow.experimental.dynamic as ndd",
            r"experimental of DALI is not part .*calls on arrays run at once",
        ),
        ("from pipeflow.fn.readers import video", r"fn\.readers\.video of DALI is not part"),
        ("from pipeflow.fn import resise", r"fn has no 'resise' \(did you mean 'resize'\?\)"),
    ],
)
def test_an_import_of_an_absent_name_says_the_same(line, words):
    """As an ImportError, which programs catch."""
    with pytest.raises(ImportError, match=words):
        exec(line, {})


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("resize", "calls on arrays run at once"),
        ("readers.File", "for batch in pipe.epoch()"),
        ("tensor", "tensors.TensorCPU(array, layout)"),
        ("batch", "tensors.TensorListCPU(arrays, layout)"),
        ("random.RNG", "fn.random.uniform(key=1)"),
        ("checkpoint.Checkpoint", "pipe.checkpoint()"),
    ],
)
def test_the_dynamic_mode_has_an_answer_for_each_kind_of_name(name, words):
    """Only operators have the same call on arrays."""
    assert words in dali_names.message(f"experimental.dynamic.{name}", ())


def test_a_name_with_a_difference_exists():
    """The table names nothing that is gone."""
    assert [name for name in dali_names.DIFFERENT if not porting.is_here(name)] == []


SCRIPT = """
import nvidia.dali as dali
import nvidia.dali.plugin.pytorch
from nvidia.dali import fn, pipeline_def, types as t
from nvidia.dali.plugin.pytorch import DALIGenericIterator, feed_ndarrays

@pipeline_def(batch_size=4)
def pipeline():
    text = "é"; images, labels = fn.readers.file(file_root="x", dont_use_mmap=True)
    frames = dali.fn.readers.video(filenames=[])
    return fn.resise(images), labels, frames, t.FLOAT, nvidia.dali.math.sqrt(labels)
"""
CHANGED = """
import pipeflow as dali
import pipeflow.plugin.pytorch
from pipeflow import fn, pipeline_def, types as t
from pipeflow.plugin.pytorch import DALIGenericIterator, feed_ndarrays

@pipeline_def(batch_size=4)
def pipeline():
    text = "é"; images, labels = fn.readers.file(file_root="x", dont_use_mmap=True)
    frames = dali.fn.readers.video(filenames=[])
    return fn.resise(images), labels, frames, t.FLOAT, pipeflow.math.sqrt(labels)
"""


def test_a_report_names_what_is_here_different_and_absent(tmp_path, capsys):
    """With the lines; the status is 1 where something is absent; nothing is written without being asked for."""
    file = tmp_path / "train.py"
    file.write_text(SCRIPT, encoding="utf-8")
    assert main(["port", str(file)]) == 1
    said = capsys.readouterr().out
    assert "8 names of DALI: 5 there, 3 of them with a difference, 3 absent" in said
    assert "DALIGenericIterator, types.FLOAT" in said.replace("plugin.pytorch.", "")
    assert "fn.readers.file (line 9): `random_shuffle` permutes the whole epoch" in said
    assert "fn.readers.file(dont_use_mmap=...) (line 9): has no effect" in said
    assert "fn.readers.video (line 10): pipeflow does not decode video" in said
    assert "fn.resise (line 11): there is no such name (did you mean 'resize'?)" in said
    assert "plugin.pytorch.feed_ndarrays (line 5): there is no such name" in said
    assert file.read_text(encoding="utf-8") == SCRIPT


def test_imports_are_changed_and_nothing_else(tmp_path, capsys):
    """`import nvidia.dali` without another name is followed to its uses."""
    file = tmp_path / "train.py"
    file.write_text(SCRIPT, encoding="utf-8")
    main(["port", "--write", str(file)])
    assert file.read_text(encoding="utf-8") == CHANGED
    assert "changed the imports" in capsys.readouterr().out
    assert main(["port", "--write", str(file)]) == 0  # no name of DALI is left


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("from nvidia import dali\n", "import pipeflow as dali\n"),
        ("from nvidia import dali as d\n", "import pipeflow as d\n"),
        ("import os, nvidia.dali.fn as fn, nvidia.dali.types\n", "import os, pipeflow.fn as fn, pipeflow.types\n"),
        ("from nvidia.dali.fn import resize\n", "from pipeflow.fn import resize\n"),
        ("import nvidia.dalix\nx = 'nvidia.dali'\n", "import nvidia.dalix\nx = 'nvidia.dali'\n"),
        ("m = importlib.import_module('nvidia.dali.types')\n", "m = importlib.import_module('pipeflow.types')\n"),
        ("m = import_module('nvidia.dali', None)\n", "m = import_module('pipeflow', None)\n"),
    ],
)
def test_every_form_of_import(before, after):
    """Other libraries and texts are left alone."""
    assert porting.changed(before, porting.uses_of(before)) == after


def test_a_notebook_keeps_its_cells(tmp_path):
    """Magics are passed over, outputs and cells of text stay; a cell may be a list of lines or one text."""
    file = tmp_path / "train.ipynb"
    cells = [
        {"cell_type": "markdown", "metadata": {}, "source": ["import nvidia.dali\n"]},
        {"cell_type": "code", "metadata": {}, "outputs": [1], "source": ["%matplotlib inline\n", "from nvidia.dali import fn"]},
        {"cell_type": "code", "metadata": {}, "outputs": [], "source": "%%bash\nimport nvidia.dali"},
        {"cell_type": "code", "metadata": {}, "outputs": [], "source": "if 1:\n    !ls\nfn.flip\nimport nvidia.dali.types as t"},
    ]  # fmt: skip
    file.write_text(json.dumps({"cells": cells, "nbformat": 4}))
    assert main(["port", "--write", str(file)]) == 0
    cells[1]["source"][1] = "from pipeflow import fn"
    cells[3]["source"] = "if 1:\n    !ls\nfn.flip\nimport pipeflow.types as t"
    assert json.loads(file.read_text()) == {"cells": cells, "nbformat": 4}


def test_questions_and_expressions_in_notebooks_and_scripts(tmp_path, capsys):
    """`name?` is IPython's; a line of an expression that begins with % is no magic."""
    file = tmp_path / "train.ipynb"
    sources = ["from nvidia.dali import fn\nfn.flip?\n", 'print("%d"\n  % fn.absent_one)\n']
    cells = [{"cell_type": "code", "metadata": {}, "outputs": [], "source": source} for source in sources]
    file.write_text(json.dumps({"cells": cells, "nbformat": 4}))
    assert main(["port", str(file)]) == 1
    assert "fn.absent_one (line 5)" in capsys.readouterr().out
    script = tmp_path / "script.py"
    script.write_text("".join(["from nvidia.dali import fn\n", sources[1]]))
    assert main(["port", str(script)]) == 1
    assert "fn.absent_one (line 3)" in capsys.readouterr().out


def test_arguments_that_an_operator_does_not_have(tmp_path, capsys):
    """They are absent names, with the nearest one."""
    file = tmp_path / "script.py"
    file.write_text(
        "from nvidia.dali import fn, ops\nfn.resize(1, interp_typ=2, size=3, seed=4)\nops.Crop(crops=1, device='cpu')\n"
    )
    assert main(["port", str(file)]) == 1
    told = capsys.readouterr().out
    assert 'fn.resize(interp_typ=...) (line 2): Argument "interp_typ" is not defined' in told
    assert "did you mean 'interp_type'?" in told
    assert "ops.Crop(crops=...) (line 3)" in told
    assert "seed=" not in told


def test_a_script_that_is_no_python_is_named(tmp_path, capsys):
    """With the line of the error."""
    file = tmp_path / "script.py"
    file.write_text("x = 1\ndef f(:\n")
    assert main(["port", str(file)]) == 2
    assert f'File "{file}", line 2' in capsys.readouterr().err


def test_a_changed_script_runs(tmp_path):
    """From nvidia.dali to a batch."""
    file = tmp_path / "script.py"
    file.write_text(
        "from nvidia.dali import fn, pipeline_def\n"
        "@pipeline_def(batch_size=2, num_threads=1, device_id=None)\n"
        "def pipe():\n    return fn.constant(idata=[1, 2])\n"
        "print(pipe().run()[0].as_array().tolist())\n"
    )
    main(["port", "--write", str(file)])
    done = subprocess.run([sys.executable, file], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[[1, 2], [1, 2]]"


# The numbers of DALI 2.4.0: programs keep them in files and send them to other programs.
NUMBERS = {
    types.DALIDataType: "UINT8 0 UINT16 1 UINT32 2 UINT64 3 INT8 4 INT16 5 INT32 6 INT64 7 FLOAT16 8 FLOAT 9 FLOAT64 10 BOOL 11 "
    "STRING 12 FEATURE 17 IMAGE_TYPE 20 DATA_TYPE 21 INTERP_TYPE 22 TENSOR_LAYOUT 23 PYTHON_OBJECT 24 NO_TYPE -1 "
    "COMPLEX64 1000 COMPLEX128 1001",  # the last two are pipeflow's own
    types.DALIImageType: "RGB 0 BGR 1 GRAY 2 YCbCr 3 ANY_DATA 4",
    types.DALIInterpType: "INTERP_NN 0 INTERP_LINEAR 1 INTERP_CUBIC 2 INTERP_LANCZOS3 3 INTERP_TRIANGULAR 4 INTERP_GAUSSIAN 5",
    types.PipelineAPIType: "BASIC 0 ITERATOR 1 SCHEDULED 2",
    pipeflow.StreamPolicy: "SINGLE 16 PER_BACKEND 32 PER_OPERATOR 48 UNSPECIFIED 0",
    pipeflow.OperatorConcurrency: "NONE 2 BACKEND 4 FULL 6 UNSPECIFIED 0",
}


@pytest.mark.parametrize("enumeration", NUMBERS, ids=lambda one: one.__name__)
def test_the_members_of_an_enumeration_have_the_numbers_of_dali(enumeration):
    words = NUMBERS[enumeration].split()
    expected = dict(zip(words[::2], map(int, words[1::2])))
    assert {name: int(member.value) for name, member in enumeration.__members__.items()} == expected
