"""Builds the documentation site with Sphinx and MyST-NB from the Markdown pages of the repository, into build/site.

The pages are plain Markdown. This script copies them with their folders, makes cells of their Python blocks, and adds what
is generated: the contents (from docs/README.md), the gallery, and pages with the code, output and picture of each example.
MyST-NB runs all cells; an error in one, a failing example, or a link to a page that does not exist is an error of the build.
Nothing is taken from the network.
"""

import ast
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import operator_gallery as gallery

ROOT = Path(__file__).parents[1]
TARGET = ROOT / "build" / "site"
SETTINGS = """
project = "pipeflow"
author = "the authors of pipeflow"
version = release = "{version}"
root_doc = "README"
extensions = ["myst_nb", "sphinx_design", "sphinx_copybutton"]
nb_execution_mode = "force"
nb_execution_show_tb = True
nb_execution_in_temp = True
nb_execution_timeout = 600
suppress_warnings = ["misc.highlighting_failure"]  # errors that cells are meant to raise
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 5
html_theme = "pydata_sphinx_theme"
html_title = "pipeflow {version}"
html_show_sourcelink = False
html_theme_options = {{"show_toc_level": 2, "navbar_center": [], "secondary_sidebar_items": ["page-toc"]}}
html_sidebars = {{"**": ["globaltoc"]}}
html_static_path = ["static"]
html_css_files = ["site.css"]
copybutton_exclude = ".linenos, .gp, .go"
"""
PAGES = ("*.md", "docs/**/*.md", "benchmarks/README.md", "tests/README.md", "tests/last_runs.md")
ORPHAN = "---\norphan: true\n---\n\n"  # for a page that is not in a list of contents
STYLE = """.bd-sidebar-primary h3 { display: none }
.bd-sidebar-primary ul { list-style: none; padding-left: 0; margin-bottom: .6rem }
.bd-sidebar-primary a { text-decoration: none }
.sd-card code, .sd-card-title { overflow-wrap: anywhere; white-space: normal }
.bd-sidebar-primary .caption { font-weight: 600; margin-bottom: .2rem }
.bd-page-width, .bd-main .bd-content .bd-article-container { max-width: 100rem }
"""
# A block of Python with the mark before it, and the output after it that a test compares.
BLOCK = re.compile(
    r"(?:^<!-- (?P<mark>no-run|raises): [^>]*-->\n+)?^```python\n(?P<code>.*?)^```\n(?:```output\n.*?^```\n)?",
    re.M | re.S,
)
NEEDS = re.compile(r"\A<!-- needs: \w+ -->")  # a page that is run with the tests of the adapters
NOTEBOOK = "---\nfile_format: mystnb\nkernelspec:\n  name: python3\n---\n\n"
# What examples are given here, so that each ends in a minute.
SHORT = {"image_train": ["--epochs", "2", "--files", "600"], "audio_mel": ["--steps", "60"]}
PICTURE = ("--picture", "--output")
SECTION = re.compile(r"^## (.+)$", re.M)
ENTRY = re.compile(r"^- \[[^\]]+\]\(([^)#]+\.md)\)", re.M)
LINK = re.compile(r"\]\(([^)\s]+)\)")


def assemble(source: Path, ran: "dict[str, Ran] | None" = None) -> None:
    """Writes the pages from which the site is built; `ran` has the outputs of the examples."""
    for page in [file for pattern in PAGES for file in ROOT.glob(pattern)]:
        write(source / page.relative_to(ROOT), site_text(page.read_text(encoding="utf-8")))
    shutil.copytree(ROOT / "docs" / "images", source / "docs" / "images", dirs_exist_ok=True)
    shutil.copy(ROOT / "docs" / "llms.txt", source / "docs" / "llms.txt")
    examples = sorted((ROOT / "examples").glob("*.py"))
    for code in examples:
        write(source / code.relative_to(ROOT).with_suffix(".md"), code_page(code, (ran or {}).get(code.stem)))
    for name in linked_code(source):
        write((source / name).with_suffix(".md"), ORPHAN + code_page(ROOT / name))
    write(source / "examples" / "README.md", "# Examples\n\n" + contents([path.stem for path in examples]))
    operators = source / "docs" / "operators"
    names = sorted(path.stem for path in operators.glob("*.md") if path.stem != "README")
    append(operators / "README.md", contents(names, hidden=True))
    index = (source / "docs" / "README.md").read_text(encoding="utf-8")
    (source / "docs" / "README.md").unlink()
    parts = SECTION.split(index)[1:]
    trees = [
        contents([f"docs/{name[:-3]}" for name in ENTRY.findall(text)], head, hidden=True)
        for head, text in zip(parts[::2], parts[1::2])
    ]
    more = [
        "examples/README",
        "benchmarks/README",
        "CONTRIBUTING",
        "tests/README",
        "tests/last_runs",
        "SECURITY",
        "CHANGELOG",
    ]
    append(source / "README.md", "\n".join([*trees, contents(more, "The project", hidden=True)]))


def site_text(text: str) -> str:
    """A page in which links to code are replaced by links to the pages that show this code."""
    if not NEEDS.match(text):
        cells = BLOCK.sub(cell, text)
        text = cells if cells == text or "{code-cell}" not in cells else NOTEBOOK + cells
    text = re.sub(r"```output", "```text", text)
    return LINK.sub(lambda found: f"]({shown(found[1])})", text)


def cell(found: "re.Match[str]") -> str:
    """A block as a cell that is run; its output comes from the run."""
    if found["mark"] == "no-run":
        return found[0]
    tags = ":tags: [raises-exception]\n" if found["mark"] == "raises" else ""
    return f"```{{code-cell}} python\n{tags}{found['code']}```\n"


class Ran(NamedTuple):
    """What an example printed, and the pictures that it made."""

    command: str
    text: str
    pictures: list[Path]


def run_example(path: Path, folder: Path) -> Ran:
    """Runs an example; one that lacks a library says so, and any other error ends the build."""
    arguments = list(SHORT.get(path.stem, []))
    code = path.read_text(encoding="utf-8")
    shown_as = " ".join(["python", f"examples/{path.name}", *arguments])
    wanted = next((name for name in PICTURE if f'"{name}"' in code), None)
    folder.mkdir(parents=True, exist_ok=True)
    if wanted is not None:
        many = '"output")' in code
        arguments += [wanted, str(folder if many else folder / f"{path.stem}.png")]
    command = [sys.executable, str(path), *arguments]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode and not done.stderr.startswith("this example needs"):
        raise SystemExit(f"{path} failed:\n{done.stderr}")
    return Ran(shown_as, (done.stdout or done.stderr).replace(f"{folder}/", ""), sorted(folder.glob("*.png")))


def shown(link: str) -> str:
    """The page of the site for a link of the repository."""
    if link.endswith(".py") and "://" not in link:
        return f"{link[:-3]}.md"
    return "../README.md" if link == "../docs/README.md" else link


def linked_code(source: Path) -> list[str]:
    """Files of code that pages link to, apart from the examples."""
    found = set()
    for page in source.rglob("*.md"):
        for link in LINK.findall(page.read_text(encoding="utf-8")):
            target = (page.parent / link.partition("#")[0]).resolve()
            if link.endswith(".md") and not target.exists() and source in target.parents:
                found.add(str(target.relative_to(source).with_suffix(".py")))
    return sorted(found)


def code_page(path: Path, ran: "Ran | None" = None) -> str:
    """A page for a file of code: its first words, its picture and output if it has them, and the code."""
    text = path.read_text(encoding="utf-8")
    words = ast.get_docstring(ast.parse(text)) or ""
    picture = next((ROOT / "docs" / "images").glob(f"{path.stem}.*"), None)
    image = f"![What {path.name} makes](../docs/images/{picture.name})\n\n" if picture else ""
    if ran is None:
        return f"# {path.name}\n\n{words}\n\n{image}```python\n{text}```\n"
    pictures = "".join(f"![What {path.name} makes](pictures/{path.stem}/{made.name})\n\n" for made in ran.pictures)
    output = f"```text\n$ {ran.command}\n{ran.text}```\n\n"
    return f"# {path.name}\n\n{words}\n\n{output}{pictures or image}```python\n{text}```\n"


def contents(pages: list[str], head: str = "", hidden: bool = False) -> str:
    """A list of pages that Sphinx follows."""
    options = (f":caption: {head}\n" if head else "") + (":hidden:\n" if hidden else "") + ":maxdepth: 1\n"
    return f"```{{toctree}}\n{options}\n" + "\n".join(pages) + "\n```\n"


def append(path: Path, text: str) -> None:
    path.write_text(f"{path.read_text(encoding='utf-8').rstrip()}\n\n{text}", encoding="utf-8")


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def main() -> int:
    source = TARGET / "source"
    shutil.rmtree(TARGET, ignore_errors=True)
    pictures = source / "examples" / "pictures"
    examples = sorted((ROOT / "examples").glob("*.py"))
    assemble(source, {path.stem: run_example(path, pictures / path.stem) for path in examples})
    append(source / "docs" / "gallery.md", gallery.cards(source / "docs" / "gallery"))
    version = re.search(r'^VERSION = "(.+)"', (ROOT / "pipeflow" / "version.py").read_text(encoding="utf-8"), re.M)
    write(source / "static" / "site.css", STYLE)
    write(source / "conf.py", SETTINGS.format(version=version[1] if version else ""))
    # Errors that a page shows are their own words, without the stack of the notebook.
    write(TARGET / "ipython" / "profile_default" / "ipython_kernel_config.py", 'c.InteractiveShell.xmode = "Minimal"\n')
    # The pages of the operators use tools/example_data.py.
    paths = {"PYTHONPATH": f"{ROOT}:{ROOT / 'tools'}", "IPYTHONDIR": str(TARGET / "ipython")}
    environment = {**os.environ, **paths, "CUDA_VISIBLE_DEVICES": ""}
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-j", "2", str(source), str(TARGET / "html")]
    status = subprocess.run(command, env=environment, check=False).returncode
    print(f"the site is {TARGET / 'html' / 'README.html'}" if status == 0 else "the site has the errors above")
    return status


if __name__ == "__main__":
    sys.exit(main())
