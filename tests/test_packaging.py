"""What the build files promise: named extras, shipped data, commands that fail when they should."""

import configparser
import os
import re
import stat
import subprocess
from pathlib import Path

from helpers import LONG

from pipeflow.kernels import cpu as kernels

ROOT = Path(__file__).parents[1]


def setup():
    parser = configparser.ConfigParser()
    parser.read(ROOT / "setup.cfg")
    return parser


def executable(path, text):
    path.write_text(text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


def texts():
    """What users read: pages, messages and scripts."""
    for pattern in ("*.md", "docs/**/*.md", "pipeflow/**/*.py", "examples/*.py", "Makefile"):
        for path in ROOT.glob(pattern):
            yield path.relative_to(ROOT), path.read_text()


def test_nothing_says_to_install_the_package_from_an_index():
    """The index has an unrelated project of the same name: hints name libraries, and pages install from a checkout."""
    wrong = [
        str(path)
        for path, text in texts()
        if re.search(r"pip install [^\n`]*\bpipeflow\b|\bpipeflow\[", text) and path.name != "CHANGELOG.md"
    ]
    assert wrong == []
    assert setup()["metadata"]["name"] == "pipeflow-data"


def test_every_extra_named_in_a_page_exists():
    """Each `.[extra]` can be installed, and so can each library that a message names."""
    extras = setup()["options.extras_require"]
    named = {
        name for _, text in texts() for group in re.findall(r"\.\[([a-z0-9,]+)\]\"", text) for name in group.split(",")
    }
    assert named
    assert named <= set(extras)
    requirements = {re.split(r"[<>=\[]", line.strip())[0] for lines in extras.values() for line in lines.splitlines()}
    assert set(kernels.LIBRARIES.values()) <= requirements


def test_the_index_of_the_pages_is_complete():
    """README and docs/README.md lead to every page."""
    pages = {path.name for path in (ROOT / "docs").glob("*.md")} - {"README.md"}
    for index in (ROOT / "README.md", ROOT / "docs" / "README.md"):
        linked = {Path(target).name for target in re.findall(r"\]\(([^)#]+\.md)\)", index.read_text())}
        assert pages - linked == set(), f"{index} leaves out pages"


def test_package_data_patterns_cover_every_file_that_is_not_python():
    """A wheel holds the type marker, the stubs and the CUDA sources, and nothing is left out."""
    patterns = [p.strip() for p in setup()["options.package_data"]["pipeflow"].split(",")]
    package = ROOT / "pipeflow"
    shipped = {path for pattern in patterns for path in package.glob(pattern)}
    others = {
        path
        for path in package.rglob("*")
        if path.is_file() and path.suffix != ".py" and "__pycache__" not in path.parts
    }
    assert package / "py.typed" in shipped
    assert others <= shipped, f"not in the wheel: {sorted(others - shipped)}"


def test_every_folder_of_the_package_is_a_package():
    """`find:` in setup.cfg sees a folder only when it has an __init__.py."""
    folders = {path.parent for path in (ROOT / "pipeflow").rglob("*.py")}
    assert [str(folder) for folder in folders if not (folder / "__init__.py").exists()] == []


def test_ci_runs_all_checks_and_reports_the_failure_of_each(tmp_path):
    """.ci/run calls all three whatever the others say, and fails when one of them fails."""
    log = tmp_path / "calls"
    for failing in ("lint", "test", "fuzz-files", "none"):
        log.write_text("")
        executable(tmp_path / "make", f'#!/bin/sh\necho "$1" >> "{log}"\n[ "$1" != {failing} ]\n')
        environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
        result = subprocess.run([ROOT / ".ci" / "run"], env=environment, check=False, timeout=LONG)
        assert (result.returncode == 0) == (failing == "none")
        assert {"lint", "test", "fuzz-files"} <= set(log.read_text().split())


def environment_script(directory, tmp_path, pip_status):
    """Runs tools/environment.sh with a Python whose `-m pip` ends with the given status."""
    executable(tmp_path / "made", f"#!/bin/sh\nexit {pip_status}\n")
    fake = tmp_path / "python"  # called as: python -m venv DIRECTORY
    executable(fake, f'#!/bin/sh\nmkdir -p "$3/bin" && cp "{tmp_path}/made" "$3/bin/python"\n')
    command = ["sh", str(ROOT / "tools" / "environment.sh"), str(directory), str(fake), "something"]
    return subprocess.run(command, capture_output=True, check=False, timeout=LONG).returncode


def test_an_environment_that_cannot_be_completed_is_removed(tmp_path):
    """A failed installation leaves no half-made environment behind, a good one leaves its stamp."""
    directory = tmp_path / "environment"
    assert environment_script(directory, tmp_path, pip_status=1) != 0
    assert not directory.exists()
    assert environment_script(directory, tmp_path, pip_status=0) == 0
    assert (directory / ".ready").exists()


def test_an_environment_without_its_stamp_is_made_again(tmp_path):
    """What an interrupted run left behind is thrown away first."""
    directory = tmp_path / "environment"
    directory.mkdir()
    (directory / "left over").write_text("")
    assert environment_script(directory, tmp_path, pip_status=0) == 0
    assert not (directory / "left over").exists()
