"""Start-up: what a plan needs is compiled at build, said once, kept, and can be done ahead."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from pipeflow import fn, pipeline_def
from pipeflow.commands import everyday
from pipeflow.compile import warmup
from pipeflow.kernels import cpu as kernels

PROGRAM = """
import logging
logging.basicConfig(level=logging.INFO, format="%(name)s: %(message)s")
import numpy as np
from pipeflow import fn, pipeline_def
from pipeflow.kernels.cpu import jit

@pipeline_def(batch_size=2, num_threads=1)
def pipe():
    images = fn.external_source(source=lambda: [np.zeros((20, 30, 3), np.uint8)] * 2, layout="HWC", dtype=np.uint8, ndim=3)
    return {call}

def taken():
    "How often a kernel was compiled or read."
    return sum(sum(one.stats.cache_hits.values()) for one in jit.KERNELS) + jit.compiled_count()

p = pipe()
p.build()
built, known = jit.compiled_count(), taken()
p.run()
print("built", built, "later", taken() - known, "all", known)
"""
IMAGES = PROGRAM.replace(
    "{call}", "fn.crop_mirror_normalize(fn.resize(images, size=(8, 9)), mirror=fn.random.coin_flip(), std=[2.0])"
)
# Its kernels take two seconds to compile, those of the other program fifteen.
COLORS = PROGRAM.replace("{call}", "fn.color_twist(fn.flip(images), hue=fn.random.uniform(range=(0.0, 9.0)))")


def run(folder, *arguments):
    """A fresh process, with a cache folder of its own unless ``folder`` is None."""
    return subprocess.run(
        [sys.executable, *arguments],
        env=dict(os.environ) if folder is None else {**os.environ, "PIPEFLOW_CACHE_DIR": str(folder)},
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=280,
    )


@pytest.mark.timeout(300)
def test_build_compiles_what_the_plan_uses_and_says_so_once(tmp_path):
    """All kernels are there after build(), the log has one line, and the next process compiles nothing and is
    silent."""
    first = run(tmp_path, "-c", COLORS)
    assert first.returncode == 0, first.stderr
    built, later, known = (int(word) for word in first.stdout.split()[1::2])
    assert built == known > 2
    assert later == 0
    assert first.stderr.count("pipeflow: compiled ") == 1
    assert str(tmp_path) in first.stderr
    second = run(tmp_path, "-c", COLORS)
    built, later, known = (int(word) for word in second.stdout.split()[1::2])
    assert built == later == 0
    assert known > 2
    assert "compiled" not in second.stderr


@pytest.mark.timeout(600)
def test_the_command_fills_the_cache():
    """After `python -m pipeflow warmup` an ordinary image pipeline compiles nothing, and build() reads all that it runs.

    It fills the cache that all tests use: the whole set of kernels is compiled once a machine.
    """
    warm = run(None, "-m", "pipeflow", "warmup")
    assert warm.returncode == 0, warm.stderr
    assert "kernels are ready after" in warm.stdout
    built, later, known = (int(word) for word in run(None, "-c", IMAGES).stdout.split()[1::2])
    assert built == later == 0
    assert known > 5


@pytest.mark.timeout(600)
def test_the_command_compiles_a_pipeline_that_could_begin_in_numpy(tmp_path):
    """`pipeflow warmup FILE` leaves nothing for the first batches, which could do without compiled kernels."""
    (tmp_path / "cache").mkdir(mode=0o700)
    (tmp_path / "train.py").write_text(
        "import numpy as np\nfrom pipeflow import fn, pipeline_def\n"
        "@pipeline_def(batch_size=2, num_threads=1)\n"
        "def pipe():\n"
        "    zeros = [np.zeros((9, 9, 3), np.uint8)] * 2\n"
        "    images = fn.external_source(source=lambda: zeros, layout='HWC', dtype=np.uint8, ndim=3)\n"
        "    return fn.flip(images)\n"
    )
    environment = {
        **os.environ,
        "PIPEFLOW_CACHE_DIR": str(tmp_path / "cache"),
        "PYTHONPATH": str(Path(__file__).parents[2]),
    }
    del environment["PIPEFLOW_START"]
    command = [sys.executable, "-m", "pipeflow", "warmup", str(tmp_path / "train.py:pipe"), "--json"]
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["compiled"] > 0


@pytest.mark.timeout(600)
@pytest.mark.parametrize("waits", [True, False])
@pytest.mark.parametrize(
    "call", ["image(files)", "image_random_crop(files)", "image_slice(files, start=0, end=9, axes=0)"]
)
def test_build_waits_for_the_decoders_only_if_it_should(call, waits):
    """With PIPEFLOW_START=wait, also if the type of the input is not known before the first batch."""
    program = (
        "import sys\nfrom pipeflow import fn, pipeline_def\n"
        "@pipeline_def(batch_size=2, num_threads=1)\n"
        "def pipe():\n"
        "    files = fn.external_source(source=lambda: [])\n"
        f"    return fn.decoders.{call}\n"
        "pipe().build()\n"
        "switch = sys.modules.get('pipeflow.kernels.cpu.jpeg_switch')\n"
        "print(switch is not None and switch.decoding.on, switch is not None and switch.decoding_progressive.on)"
    )
    environment = {name: value for name, value in os.environ.items() if name not in ("PIPEFLOW_START", "PIPEFLOW_JPEG")}
    environment |= {"PIPEFLOW_START": "wait"} if waits else {}
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, cwd=root, capture_output=True, text=True, timeout=580
    )
    assert done.stdout.split() == [str(waits)] * 2, done.stderr


def test_a_pipeline_without_kernels_does_not_load_the_compiler():
    """build() of a pipeline of Python functions imports no Numba."""
    program = (
        "import sys\nimport numpy as np\nfrom pipeflow import fn, pipeline_def\n"
        "@pipeline_def(batch_size=2, num_threads=1)\n"
        "def pipe():\n    return fn.python_function(fn.external_source(source=lambda: [np.zeros(3)] * 2), function=lambda x: x)\n"
        "p = pipe(); p.build(); p.run(); print('numba' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=Path(__file__).parents[2], capture_output=True, text=True, timeout=280
    )
    assert done.stdout.strip() == "False", done.stderr


def test_a_step_that_cannot_be_prepared_is_left_for_later():
    """Preparing never fails a build: what blank samples cannot show is compiled when real ones come."""

    @pipeline_def(batch_size=1, num_threads=1)
    def pipe():
        images = fn.external_source(
            source=lambda: [np.zeros((900, 900, 3), np.uint8)], layout="HWC", dtype=np.uint8, ndim=3
        )
        return fn.crop_mirror_normalize(images, crop=(800, 800))

    assert pipe().run()[0].at(0).shape == (3, 800, 800)
    assert warmup.blank(warmup.Spec(None, np.dtype(np.uint8))) is None
    assert warmup.blank(warmup.Spec((None, 7, None), np.dtype(np.uint8), "HWC")).shape == (512, 7, 3)


def fresh(program):
    """What a fresh process prints."""
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=Path(__file__).parents[2], capture_output=True, text=True, timeout=280
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_kernels_load_without_scipy_and_user_functions_have_it():
    """Compiling leaves scipy.linalg alone until somebody's own function does linear algebra."""
    pytest.importorskip("scipy")
    program = (
        "import sys\nimport numpy as np\nimport numba\nfrom pipeflow.kernels import cpu as kernels\n"
        "kernels.casting.as_type(np.ones(9, np.float32), np.dtype(np.uint8))\n"
        "print('scipy.linalg' in sys.modules)\n"
        "print(numba.njit(lambda a, b: np.dot(a, b))(np.eye(3), np.ones((3, 3))).sum())\n"
        "print('scipy.linalg' in sys.modules)"
    )
    assert fresh(program) == ["False", "9.0", "True"]


def test_plain_jpeg_files_load_neither_opencv_nor_pillow():
    """The libraries for other formats are loaded when the first such file comes."""
    program = (
        "import sys\nimport numpy as np\nimport simplejpeg\nfrom pipeflow import fn\n"
        "data = simplejpeg.encode_jpeg(np.zeros((16, 24, 3), np.uint8))\n"
        "print(fn.decoders.image(np.frombuffer(data, np.uint8)).shape[1], 'cv2' in sys.modules, 'PIL' in sys.modules)\n"
        "image = fn.decoders.image(np.frombuffer(b'P5 2 1 255\\n\\x00\\x01', np.uint8))\n"
        "print(image.shape[1], 'cv2' in sys.modules)"
    )
    assert fresh(program) == ["24", "False", "False", "2", "True"]


def test_what_common_pipelines_use_is_prepared_on_colour_images():
    """Each call works on an image of bytes with three channels; the random one has a key."""
    made = [(operator, arguments, operator(everyday.IMAGE, **arguments)) for operator, arguments in everyday.calls()]
    assert (everyday.IMAGE.shape, everyday.IMAGE.dtype.name) == ((48, 64, 3), "uint8")
    operators = {operator for operator, *_ in made}
    assert {op.name for op in operators} >= {
        "crop_mirror_normalize",
        "resize",
        "flip",
        "rotate",
        "color_twist",
        "gaussian_blur",
        "cast",
    }
    types = {np.asarray(result).dtype.name for operator, _, result in made if operator.name == "crop_mirror_normalize"}
    assert types == {"float32", "float16"}


@pytest.mark.parametrize(("seconds", "level"), [(0.5, "INFO"), (1.5, "WARNING")])
def test_compilation_that_takes_long_is_said(monkeypatch, caplog, seconds, level):
    """More than a second is a line that is seen without settings."""
    moments, counts = iter([10.0, 10.0 + seconds]), iter([3, 5])
    monkeypatch.setattr(warmup.time, "perf_counter", lambda: next(moments))
    monkeypatch.setattr(kernels.jit, "compiled_count", lambda: next(counts))
    with caplog.at_level("INFO"):
        assert warmup.counted(lambda: None) == 2
    assert [(record.levelname, record.message[:21]) for record in caplog.records] == [(level, "compiled 2 kernels in")]
