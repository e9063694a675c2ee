"""Files that are made from the declarations and checked in are fresh."""

import re
import subprocess
import sys
from pathlib import Path

import generate_docs
import generate_stubs
import pytest

RENEW = "the declarations have changed: run `make docs` and commit what it writes"


@pytest.mark.parametrize("name", list(generate_stubs.HEADER))
def test_the_stubs_say_what_the_declarations_say(name):
    """fn.pyi, ops.pyi and math.pyi are what tools/generate_stubs.py would write now."""
    assert (generate_stubs.PACKAGE / f"{name}.pyi").read_text() == generate_stubs.stub(name), RENEW


def test_the_index_says_what_the_declarations_say():
    """operators/index.py is what tools/generate_stubs.py would write now."""
    index = generate_stubs.PACKAGE / "operators" / "index.py"
    assert index.read_text() == generate_stubs.index(), RENEW


def test_each_operator_is_found_by_its_file_alone():
    """No name needs the import of all files: the module that the index has for it declares it."""
    program = (
        "import pipeflow.operators\nfrom pipeflow.declare import registry\n"
        "def fail(): raise SystemExit('a name is not in the file of the index')\n"
        "registry.imports('pipeflow.operators', registry._modules, fail)\n"
        "print(all(registry[name].name == name for name in registry.known()), len(registry.known()) > 250)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.stdout.split() == ["True", "True"], done.stderr


def test_the_pages_say_what_the_declarations_say():
    """The operators' pages and the support table are what tools/generate_docs.py would write now, and no more."""
    new = generate_docs.pages()
    for path, text in new.items():
        page = generate_docs.DOCS / path
        assert page.exists(), f"{path}: {RENEW}"
        assert page.read_text() == text, f"{path}: {RENEW}"
        if path in ("files.md", "benchmarks.md", "case-studies.md"):  # they are about files
            continue
        code = re.findall(r"\b\w+/\w+\.py\b|`\w+\.py`", text.removeprefix(generate_docs.MARK))
        assert not set(code) - {"tools/example_data.py"}, f"{path} is for users and names files of the package: {code}"
    left = {f"operators/{path.name}" for path in Path(generate_docs.DOCS / "operators").glob("*.md")}
    assert left <= set(new), f"{left - set(new)}: {RENEW}"
