"""Builds the documentation site from the Markdown pages of the repository, into build/site.

The pages keep their text and their folders, so that their links still work. This script adds the list of contents (from
docs/README.md), a page for each example with its code, and pages for other code that pages link to. The tests run the code
blocks. A link to a page that does not exist is an error.
"""

import ast
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
TARGET = ROOT / "build" / "site"
SETTINGS = """
project = "pipeflow"
author = "the authors of pipeflow"
version = release = "{version}"
root_doc = "README"
extensions = ["myst_parser", "sphinx_copybutton"]
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
.bd-sidebar-primary .caption { font-weight: 600; margin-bottom: .2rem }
.bd-page-width, .bd-main .bd-content .bd-article-container { max-width: 100rem }
"""
SECTION = re.compile(r"^## (.+)$", re.M)
ENTRY = re.compile(r"^- \[[^\]]+\]\(([^)#]+\.md)\)", re.M)
LINK = re.compile(r"\]\(([^)\s]+)\)")


def assemble(source: Path) -> None:
    """Writes the pages from which the site is built."""
    for page in [file for pattern in PAGES for file in ROOT.glob(pattern)]:
        write(source / page.relative_to(ROOT), site_text(page.read_text(encoding="utf-8")))
    shutil.copytree(ROOT / "docs" / "images", source / "docs" / "images", dirs_exist_ok=True)
    shutil.copy(ROOT / "docs" / "llms.txt", source / "docs" / "llms.txt")
    examples = sorted((ROOT / "examples").glob("*.py"))
    for code in examples:
        write(source / code.relative_to(ROOT).with_suffix(".md"), code_page(code))
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
    text = re.sub(r"```output", "```text", text)
    return LINK.sub(lambda found: f"]({shown(found[1])})", text)


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


def code_page(path: Path) -> str:
    """A page for a file of code: its first words, its picture if it has one, and the code."""
    text = path.read_text(encoding="utf-8")
    words = ast.get_docstring(ast.parse(text)) or ""
    picture = next((ROOT / "docs" / "images").glob(f"{path.stem}.*"), None)
    image = f"![What {path.name} makes](../docs/images/{picture.name})\n\n" if picture else ""
    return f"# {path.name}\n\n{words}\n\n{image}```python\n{text}```\n"


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
    assemble(source)
    version = re.search(r'^VERSION = "(.+)"', (ROOT / "pipeflow" / "version.py").read_text(encoding="utf-8"), re.M)
    write(source / "static" / "site.css", STYLE)
    write(source / "conf.py", SETTINGS.format(version=version[1] if version else ""))
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", str(source), str(TARGET / "html")]
    status = subprocess.run(command, check=False).returncode
    print(f"the site is {TARGET / 'html' / 'README.html'}" if status == 0 else "the site has the errors above")
    return status


if __name__ == "__main__":
    sys.exit(main())
