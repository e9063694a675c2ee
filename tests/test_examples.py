"""The examples run from beginning to end, on less data than they use by themselves."""

import ast
import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import cv2
import numpy as np
import pytest
from helpers import LONG

EXAMPLES = Path(__file__).parents[1] / "examples"


def run(name, *arguments, folder):
    """What an example prints; without PyTorch, which is not part of the test environment."""
    command = [sys.executable, EXAMPLES / name, *map(str, arguments)]
    environment = {**os.environ, "PYTHONPATH": str(EXAMPLES.parent)}
    result = subprocess.run(
        command, capture_output=True, text=True, cwd=folder, env=environment, timeout=LONG, check=False
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_python_functions_draws_its_picture(tmp_path):
    """The contact sheet has the pictures above and below them what became of each, which differs."""
    printed = run("python_functions.py", "--batches", 1, "--picture", tmp_path / "sheet.png", folder=tmp_path)
    assert printed.count("images/s") == 2
    assert re.search(r"^threads (win|do not win here)", printed, re.M)
    before, after = np.split(cv2.imread(str(tmp_path / "sheet.png")), 2)
    assert before.shape == (112, 8 * 112, 3)
    assert np.abs(before.astype(int) - after).mean() > 5


@pytest.mark.parametrize(
    ("gain", "used", "words"),
    [
        (1.8, 1.9, "threads win, 1.80 times: OpenCV and NumPy let go of the interpreter's lock"),
        (1.0, 1.0, "they got 1.0 of 2 processors, because other programs are at work"),
        (1.0, 1.9, "although 1.9 processors worked"),
    ],
)
def test_python_functions_explains_its_figures(monkeypatch, gain, used, words):
    """Threads win, or there is a reason that fits the processors that were used."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _process: {0, 1})
    spec = importlib.util.spec_from_file_location("python_functions", EXAMPLES / "python_functions.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert words in module.reason(gain, used)


def test_image_train_learns(tmp_path):
    """From files on disk to a classifier that is better than guessing one of five shapes."""
    printed = run("image_train.py", "--epochs", 1, "--files", 200, folder=tmp_path)
    line = next(line for line in printed.splitlines() if line.startswith("epoch 1"))
    assert float(line.rpartition("accuracy")[2].strip(" %")) > 30


def test_conditional_augment_changes_every_picture_by_its_branch(tmp_path):
    """Every picture takes one branch, and what is drawn below it differs from it."""
    printed = run("conditional_augment.py", "--picture", tmp_path / "grid.png", folder=tmp_path)
    counts = [int(line.split()[1]) for line in printed.splitlines()[:3]]
    assert sum(counts) == 12
    assert min(counts) > 0
    grid = cv2.imread(str(tmp_path / "grid.png"))
    for row in np.split(grid, 2):
        before, after = row[6:166], row[190:350]
        for first, second in zip(np.split(before, 6, axis=1), np.split(after, 6, axis=1)):
            assert np.abs(first.astype(int) - second).mean() > 2


def test_a_data_set_goes_on_in_the_middle_of_an_epoch(tmp_path):
    """Every polygon is drawn once over both parts, in a picture with a row for each batch."""
    printed = run("data_loader.py", "--picture", tmp_path / "sheet.png", folder=tmp_path).splitlines()
    picture, printed = printed[-1], printed[:-1]
    assert picture.startswith("picture: ")
    assert [line.split(":")[0] for line in printed] == ["batch 0", "batch 1", "batch 2", "batch 3"]
    corners = [
        int(number) for line in printed for number in re.findall(r"\d+", line[line.index("[") : line.index("]")])
    ]
    assert sorted(corners) == sorted(3 + index % 4 for index in range(32))
    sheet = cv2.imread(str(tmp_path / "sheet.png"))
    assert sheet.shape == (4 * 96, 8 * 96, 3)
    pictures = [x for row in np.split(sheet, 4) for x in np.split(row, 8, axis=1)]
    assert min(picture.std() for picture in pictures) > 10


def test_remote_files_are_read_from_the_server_once(tmp_path):
    """The second run reads nothing from the server, and the picture has all pictures."""
    printed = run("remote_files.py", "--picture", tmp_path / "sheet.png", folder=tmp_path).splitlines()
    assert re.fullmatch(r"first run: 24 pictures, [1-9]\d+ bytes from the server", printed[0])
    assert printed[1] == "second run: 24 pictures, 0 bytes from the server"
    assert cv2.imread(str(tmp_path / "sheet.png")).std() > 10


def test_detection_inputs_match_anchors_with_boxes(tmp_path):
    """Every box that is kept has an anchor, and the pictures show both pipelines."""
    printed = run("detection_inputs.py", "--output", tmp_path / "inputs.png", folder=tmp_path).splitlines()
    for name, line in zip(("SSD", "RetinaNet"), printed):
        kept, matched = (int(number) for number in re.fullmatch(rf"{name}: (\d+) boxes, (\d+) of .*", line).groups())
        assert 4 <= kept <= matched
    assert cv2.imread(str(tmp_path / "inputs.png")).shape == (504, 1000, 3)


def test_mosaic_mixes_labels_by_area(tmp_path):
    """Each label is shared by two classes, whose shares are 1 together."""
    printed = run("mosaic.py", "--output", tmp_path / "mosaic.png", folder=tmp_path).splitlines()
    for line in printed[:6]:
        shares = [float(share) for share in re.findall(r"\d: (\d\.\d\d)", line.partition(";")[2])]
        assert abs(sum(shares) - 1) < 0.02, line
    assert cv2.imread(str(tmp_path / "mosaic.png")).any()


def test_look_at_data_draws_its_pictures_and_leaves_the_folder_alone(tmp_path):
    """Boxes, strips and sound: three pictures where they were wanted, and nothing in the current folder."""
    printed = run("look_at_data.py", "--output", tmp_path / "output", folder=tmp_path)
    assert "three pictures: look_at_boxes.png, look_at_strips.png, look_at_sound.png" in printed
    assert [path.name for path in tmp_path.iterdir()] == ["output"]
    orange = (cv2.imread(str(tmp_path / "output" / "look_at_boxes.png")) == (0, 159, 230)).all(-1)
    assert orange.sum() > 1000  # the boxes of the first objects


def test_a_missing_library_is_one_sentence(tmp_path):
    """The example says which library it needs and how to get it, and ends."""
    program = (
        "import sys, runpy; sys.modules['torch'] = None; sys.path.insert(0, sys.argv[1])\n"
        "runpy.run_path(sys.argv[1] + '/examples/gradients.py', run_name='__main__')"
    )
    command = [sys.executable, "-c", program, str(EXAMPLES.parent)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=LONG, check=False)
    assert (done.returncode, done.stderr) == (1, "this example needs torch: pip install torch\n")


@pytest.mark.parametrize("example", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.name)
def test_every_example_says_what_it_needs_and_writes_next_to_itself(example):
    """Optional libraries are imported under a guard, and no default of an argument is a file of the current folder."""
    tree = ast.parse(example.read_text())
    needed = {"numpy", "pipeflow", *sys.stdlib_module_names}
    for node in tree.body:
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        assert {name.partition(".")[0] for name in names} <= needed, names
    defaults = re.findall(r'default="([^"]*)"', example.read_text())
    assert not [text for text in defaults if "." in text]


def test_other_libraries_runs_what_is_installed(tmp_path):
    """Each library's transform changes the pictures and keeps their shape and layout, or is left out by name."""
    printed = run("other_libraries.py", folder=tmp_path).splitlines()
    libraries = ["albumentations", "torchvision", "kornia"]
    assert [line.split()[0] for line in printed] == libraries
    for library, line in zip(libraries, printed):
        if importlib.util.find_spec(library) is None:
            assert line.endswith("is not installed")
        else:
            found = re.search(r"\(8, 64, 64, 3\) HWC, mean change (\d+\.\d) of 255", line)
            assert found is not None
            assert float(found[1]) > 0.5


def test_gpu_kernels_says_what_is_missing(tmp_path):
    """Without a GPU it ends at once with the reason; with one it tells how fast it is."""
    printed = run("gpu_kernels.py", "--batches", 2, folder=tmp_path)
    assert "works on GPU 0, which cannot be used here: " in printed or "images/s" in printed
