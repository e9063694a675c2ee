"""Files that are made from the declarations and checked in are fresh."""

import re
from pathlib import Path

import generate_docs
import generate_stubs
import pytest

RENEW = "the declarations have changed: run `make docs` and commit what it writes"


@pytest.mark.parametrize("name", list(generate_stubs.HEADER))
def test_the_stubs_say_what_the_declarations_say(name):
    """fn.pyi, ops.pyi and math.pyi are what tools/generate_stubs.py would write now."""
    assert (generate_stubs.PACKAGE / f"{name}.pyi").read_text() == generate_stubs.stub(name), RENEW


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
