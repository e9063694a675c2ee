"""Every Python block of the pages runs, prints what the page says it prints, and every link leads somewhere.

A page is one namespace, run from top to bottom in a temporary directory, and it shows all of its code.
`<!-- no-run: reason -->` before a block has it compiled only, and `<!-- raises: ValueError -->` expects that error. A
block fenced as `output` after a Python block is what that block prints, or the error it ends with; `...` in it stands for
anything. A page that begins with `<!-- needs: torch -->` is run with the adapters' tests.
"""

import contextlib
import doctest
import io
import linecache
import re
import time
import traceback
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from helpers import LONG
from loop.simulation import Simulation

from pipeflow.declare import registry
from pipeflow.executor.workers import dispatcher
from pipeflow.operators.math import promote

ROOT = Path(__file__).parents[1]
PAGES = sorted(path.relative_to(ROOT).as_posix() for path in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
# A page that begins with this mark is run by `make test-adapters`, where the package is installed.
NEEDS = re.compile(r"\A<!-- needs: (\w+) -->")
MARKED = [pytest.param(x, marks=pytest.mark.adapters) if NEEDS.match((ROOT / x).read_text()) else x for x in PAGES]
# Pages whose output depends on times: these pass only while their functions sleep.
IN_A_TIME_OF_THEIR_OWN = ("docs/advice.md",)
FENCE = re.compile(r"^```(?P<language>python|output)\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)
HIDDEN = re.compile(r"<!--[^>]*^```", re.MULTILINE)
MARK = re.compile(r"<!-- (no-run|raises): (.+?) -->\s*\Z")
# A page may grow above a message without being wrong, and a process has another number each time.
CHANGING = re.compile(r"(?<=\.md:)\d+|(?<=process )\d+")
LINK = re.compile(r"\]\((?!https?:|#|mailto:)([^)#\s]+)")


class Block(NamedTuple):
    language: str
    code: str
    line: int
    mark: str
    detail: str


def blocks_of(text):
    for fence in FENCE.finditer(text):
        before = text[: fence.start()]
        mark = MARK.search(before)
        line = before.count("\n") + 1
        yield Block(fence["language"], fence["code"], line, *(mark.groups() if mark else ("", "")))


def error_of(code, namespace):
    try:
        exec(code, namespace)
    except Exception as error:
        return error
    return None


def run(block, page, namespace):
    """What a block printed, with the error it ended with where it is marked to raise."""
    # Blank lines put the code where it stands in the page, so that messages quote the page's own lines.
    text = "\n" * block.line + block.code
    code = compile(text, str(ROOT / page), "exec", dont_inherit=True)
    # As a notebook does: functions of the page have source, which conditional execution reads.
    lines = namespace.setdefault("__source__", [])
    lines += ["\n"] * (block.line - len(lines)) + block.code.splitlines(keepends=True)
    linecache.cache[str(ROOT / page)] = (len(text), None, list(lines), str(ROOT / page))
    printed = io.StringIO()
    if block.mark == "no-run":
        return ""
    with contextlib.redirect_stdout(printed):
        if block.mark != "raises":
            exec(code, namespace)
        else:
            error = error_of(code, namespace)
            assert type(error).__name__ == block.detail, f"{page}:{block.line} raised {error!r}"
            printed.write("".join(traceback.format_exception_only(error)))
    return printed.getvalue().replace(f"{ROOT}/", "")


@pytest.mark.parametrize("page", MARKED)
def test_the_code_of_a_page_runs_and_prints_what_the_page_says(page, tmp_path, monkeypatch):
    """What a reader copies from a page works, and what the page shows is what comes out."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RANK", raising=False)  # what a page sets or declares is unknown to the next one
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")  # what is shown is for a machine without a GPU
    monkeypatch.setattr(dispatcher, "_STACK_WAIT", LONG)  # a busy worker process says late where it was
    if page in IN_A_TIME_OF_THEIR_OWN:
        monkeypatch.setattr(time, "sleep", Simulation(monkeypatch, processors=2).sleep)
    declared = dict(registry)
    namespace = {"__name__": "page"}
    try:
        run_page(page, namespace)
    finally:
        for name in registry.keys() - declared:
            del registry[name]


def run_page(page, namespace):
    """Runs the blocks of a page, and compares what they print with what the page shows."""
    printed = ""
    check = doctest.OutputChecker().check_output
    for block in blocks_of((ROOT / page).read_text()):
        if block.language == "python":
            printed = run(block, page, namespace)
        else:
            shown, came = (CHANGING.sub("1", text) for text in (block.code, printed))
            same = check(shown, came, doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
            assert same, f"{page}:{block.line} shows\n{block.code}\nbut the block before it printed\n{printed}"


@pytest.mark.parametrize("page", PAGES)
def test_no_page_hides_its_set_up(page):
    """Code in an HTML comment is run here and missing for who pastes the rest."""
    assert not HIDDEN.search((ROOT / page).read_text())


def test_the_table_of_types_is_what_operands_give():
    """The page about arithmetic has a row and a column for each type, and says what each pair gives."""
    short = {"bool": "bool", "float32": "f32", "float64": "f64"}
    short |= {f"{sign}int{bits}": f"{sign or 'i'}{bits}" for sign in ("u", "") for bits in (8, 16, 32, 64)}
    names = {text: np.dtype(name) for name, text in short.items()}
    rows = re.findall(r"^\| \*\*(\w+)\*\* \| (.*) \|$", (ROOT / "docs/arithmetic.md").read_text(), re.MULTILINE)
    header = ["bool", "u8", "u16", "u32", "u64", "i8", "i16", "i32", "i64", "f32", "f64"]
    assert [name for name, _ in rows] == header
    for left, cells in rows:
        assert cells.split(" | ") == [short[str(promote(names[left], names[right]))] for right in header], left


@pytest.mark.parametrize("page", PAGES)
def test_every_link_inside_the_project_leads_to_a_file(page):
    """Pages, pictures and sources that a page names exist."""
    missing = [
        link for link in LINK.findall((ROOT / page).read_text()) if not (ROOT / page).parent.joinpath(link).exists()
    ]
    assert not missing


def test_the_page_runner_sees_marks_output_and_errors():
    """The reader of pages itself: two blocks, an output, an expected error, a block that is not run."""
    text = (
        "```python\nx = 2\n```\n```python\nprint(x + 1)\n```\n```output\n3\n```\n"
        "<!-- raises: ZeroDivisionError -->\n```python\n1 / 0\n```\n"
        "<!-- no-run: needs a GPU -->\n```python\nimport nothing\n```\n"
    )
    first, shown, output, raising, still = blocks_of(text)
    namespace = {}
    assert run(first, "page", namespace) == ""
    assert run(shown, "page", namespace) == output.code
    assert run(raising, "page", namespace) == "ZeroDivisionError: division by zero\n"
    assert run(still, "page", namespace) == ""
