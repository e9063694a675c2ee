"""The documentation site: every page is in its contents, and every link leads to a page or a picture."""

import importlib.util
import re
from pathlib import Path

import numpy as np
import pytest

from pipeflow import fn, types

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """The pages of the site."""
    spec = importlib.util.spec_from_file_location("build_site", ROOT / "tools" / "build_site.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    folder = tmp_path_factory.mktemp("site")
    module.assemble(folder)
    return folder


def prose(page):
    """A page without its blocks of code."""
    return re.sub(r"```.*?```", "", page.read_text(), flags=re.S)


def test_pictures_show_what_an_operator_does(monkeypatch):
    """Each call of the gallery's own runs and changes the scene; the other pictures are examples, which have tests."""
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    gallery = importlib.import_module("operator_gallery")
    names = {"fn": fn, "types": types, "np": np, **gallery.arrays()}
    for name, code in gallery.PICTURES.items():
        made = np.asarray(gallery.shown(eval(code, dict(names)))["data"][0])
        assert made.shape != gallery.SCENE.shape or (made != gallery.SCENE).any(), name
    assert gallery.picture_of("experimental.remap").startswith("fn.experimental.remap(")


def test_every_link_leads_somewhere(source):
    """To another page or a picture of the site; addresses of other sites are left out."""
    lost = []
    for page in source.rglob("*.md"):
        for link in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
            name = link.partition("#")[0]
            if name and "://" not in link and not (page.parent / name).exists():
                lost.append(f"{page.relative_to(source)}: {link}")
    assert lost == []


def test_every_page_is_in_the_contents(source):
    """From the first page, through lists of contents, except code that pages link to."""
    reached, left = set(), ["README"]
    while left:
        name = left.pop()
        if name in reached:
            continue
        reached.add(name)
        for tree in re.findall(r"```\{toctree\}\n(.*?)```", (source / f"{name}.md").read_text(), re.S):
            pages = [line for line in tree.splitlines() if line and not line.startswith(":")]
            left += [str(Path(name).parent / page) for page in pages]
    pages = {
        str(page.relative_to(source).with_suffix(""))
        for page in source.rglob("*.md")
        if "orphan: true" not in page.read_text()
    }
    assert reached == pages
    assert len(pages) > 100
    assert "examples/image_train" in pages
