"""Makes the pictures of docs/images from real runs: verbs in a terminal of 80 columns, a notebook, a report, the site.

    .venvs/site/bin/python tools/make_screenshots.py [--only terminal notebook report site]

It needs Chromium (`--chromium PATH`) and, for the site, the pages that `make site` has built. Everything is run on a folder
of drawn pictures that the script makes, with one damaged file among them.
"""

import argparse
import fcntl
import html
import io
import os
import pty
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from PIL import Image

ROOT = Path(__file__).parents[1]
IMAGES = ROOT / "docs" / "images"
SITE = ROOT / "build" / "site" / "html"
LINE, CHARACTER, MARGIN = 18, 8, 14  # pixels
DARK = "--blink-settings=preferredColorScheme=0"
SCRIPT = """import numpy as np
from pipeflow import fn, pipeline_def


def soften(image):
    return np.clip(image.astype(np.int16) * 0.9 + 12, 0, 255).astype(np.uint8)


@pipeline_def(batch_size=16, num_threads=2, seed=1, on_error="replace")
def pipe(size=128):
    files, labels = fn.readers.file(file_root="data", random_shuffle=True)
    images = fn.decoders.image(files)
    images = fn.random_resized_crop(images, size=(size, size))
    images = fn.python_function(images, function=soften, output_layouts="HWC")
    return fn.rotate(images, angle=fn.random.uniform(range=(-15.0, 15.0)), fill_value=0, keep_size=True), labels


if __name__ == "__main__":
    import time

    running = pipe()
    for _ in range(1000):
        images, labels = running.run()
        time.sleep(0.012)  # the step of a model
"""
# The pictures of the terminal: several verbs of one subject below each other.
TERMINALS = {
    "terminal-bench": ["bench train.py:pipe -n 60", "bench train.py:pipe -n 30 --compare threads=1,2"],
    "terminal-look": ["inspect train.py:pipe --sample 17", "draw train.py:pipe"],
    "terminal-advice": ["advice train.py:pipe", "headspace -n 30 train.py", "trace train.py:pipe -n 20"],
    "terminal-data": ["verify data", "convert data out.wds --skip-bad --shards 2", "wds2idx out.wds/00000.tar"],
    "terminal-setup": ["doctor", "warmup train.py:pipe", "port train.py", "bench train.py:pip"],
}
PAGE = """<!doctype html><meta charset="utf-8"><style>
body {{ margin: 0; background: #0d1117; color: #e6edf3 }}
pre {{ margin: 0; padding: {margin}px; font: 13.3px/{line}px "DejaVu Sans Mono", monospace }}
b {{ color: #79c0ff; font-weight: 400 }} .c1 {{ font-weight: 700 }} .c2 {{ color: #9198a1 }} .c31 {{ color: #ff7b72 }}
.c32 {{ color: #7ee787 }} .c33 {{ color: #e3b341 }}
</style><pre>{text}</pre>"""
NOTEBOOK = [
    "from train import pipe\n\nrunning = pipe(size=96)\nrunning",
    "images, labels = running.run()\nimages",
    "running.show(6, labels=1, names=['blue', 'green', 'red'])",
]
NOTEBOOK_PAGE = """<!doctype html><meta charset="utf-8"><style>
body {{ margin: 0; padding: 18px; background: #fff; width: 924px; font: 14px system-ui, sans-serif; color: #1f2328 }}
.in {{ background: #f6f8fa; border: 1px solid #d1d9e0; border-radius: 4px; padding: 8px 12px; margin: 12px 0 8px;
  font: 13px/1.45 "DejaVu Sans Mono", monospace; white-space: pre-wrap }}
img, svg {{ max-width: 100% }}
</style>{cells}"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parts: dict[str, Callable[[str, Path], None]] = {
        "terminal": terminals, "notebook": notebook, "report": reports, "site": site,
    }  # fmt: skip
    parser.add_argument("--only", nargs="+", choices=list(parts), default=list(parts))
    parser.add_argument("--chromium", default=shutil.which("chromium") or shutil.which("google-chrome"))
    given = parser.parse_args()
    if not given.chromium:
        raise SystemExit("this needs a browser: install chromium, or give its path by --chromium")
    IMAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        prepare(Path(folder))
        for name in given.only:
            parts[name](given.chromium, Path(folder))
    total = sum(path.stat().st_size for path in IMAGES.iterdir())
    print(f"docs/images has {total / 1e6:.2f} MB")
    return 0


def prepare(folder: Path) -> None:
    """A program and a folder of 90 drawn pictures in three classes, one of them damaged."""
    (folder / "train.py").write_text(SCRIPT, encoding="utf-8")
    rng = np.random.default_rng(3)
    rows, columns = np.mgrid[-1:1:240j, -1:1:320j]
    for number in range(90):
        kind = number % 3
        inside = folder / "data" / ("blue", "green", "red")[kind]
        inside.mkdir(parents=True, exist_ok=True)
        row, column, radius = rng.uniform(-0.4, 0.4), rng.uniform(-0.4, 0.4), rng.uniform(0.2, 0.5)
        shape = (np.hypot, lambda a, b: np.maximum(abs(a), abs(b)), lambda a, b: abs(a) + abs(b))[kind]
        disc = shape(rows - row, columns - column) < radius
        color = np.array([[50, 90, 200], [60, 160, 80], [200, 70, 60]][kind])
        shade = (170 + 60 * rows[..., None] + 20 * columns[..., None]) * np.array([1.0, 0.98, 0.9])
        pixels = np.where(disc[..., None], color, shade) + rng.normal(0, 6, (240, 320, 1))
        Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8)).save(inside / f"{number:04}.jpg", quality=88)
    (folder / "data" / "red" / "0099.jpg").write_bytes(b"\xff\xd8\xff\xe0 not a picture")


def environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in ("CI", "NO_COLOR", "COLUMNS", "LINES")}
    return {**kept, "PYTHONPATH": str(ROOT), "TERM": "xterm-256color", "CUDA_VISIBLE_DEVICES": "", "TQDM_DISABLE": "1"}


def typed(words: str, folder: Path) -> str:
    """What a terminal of 80 columns shows of a verb, as HTML."""
    here, there = pty.openpty()
    fcntl.ioctl(there, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    command = [sys.executable, "-m", "pipeflow", *words.split()]
    child = subprocess.Popen(command, cwd=folder, env=environment(), stdin=there, stdout=there, stderr=there)
    os.close(there)
    seen = b""
    while True:
        try:
            part = os.read(here, 65536)
        except OSError:  # the program has ended
            break
        if not part:
            break
        seen += part
    os.close(here)
    child.wait()
    text = seen.decode().replace("\r\n", "\n").replace(f"{folder}/", "").replace(str(ROOT), "/home/me/pipeflow")
    text = text.replace(str(Path.home()), "/home/me").replace(
        "JPEG files are decoded by a compiled kernel from now on\n", ""
    )
    return f"<b>$ pipeflow {words}</b>\n" + colored(text.rstrip("\n"))


def colored(text: str) -> str:
    """The colours of a terminal as elements of HTML."""
    text = html.escape(text)
    return re.sub(r"\x1b\[(\d+)m(.*?)\x1b\[0m", r'<span class="c\1">\2</span>', text, flags=re.S)


def terminals(chromium: str, folder: Path) -> None:
    """The verbs, and one that watches a running program."""
    for name, verbs in TERMINALS.items():
        draw_terminal(chromium, folder, name, [typed(words, folder) for words in verbs])
    program = subprocess.Popen(
        [sys.executable, "train.py"], cwd=folder, env={**environment(), "PIPEFLOW_TOP": "1"}, stderr=subprocess.DEVNULL
    )
    try:
        time.sleep(4)  # the program is running
        draw_terminal(chromium, folder, "terminal-top", [typed(f"top {program.pid} -n 5 --every 0.5", folder)])
    finally:
        program.kill()
        program.wait()


def draw_terminal(chromium: str, folder: Path, name: str, texts: Sequence[str]) -> None:
    text = "\n\n".join(texts)
    page = folder / f"{name}.html"
    page.write_text(PAGE.format(text=text, margin=MARGIN, line=LINE), encoding="utf-8")
    height = (text.count("\n") + 1) * LINE + 2 * MARGIN
    photograph(chromium, page, IMAGES / f"{name}.png", 80 * CHARACTER + 2 * MARGIN + 8, height)


def notebook(chromium: str, folder: Path) -> None:
    """Cells of a notebook with what they display: run in a kernel of Jupyter."""
    from nbclient import NotebookClient
    from nbformat.v4 import new_code_cell, new_notebook

    made = new_notebook(cells=[new_code_cell(code) for code in NOTEBOOK])
    before = dict(os.environ)
    os.environ.update(environment())
    try:
        NotebookClient(made, timeout=300, resources={"metadata": {"path": str(folder)}}).execute()
    finally:
        os.environ.clear()
        os.environ.update(before)
    cells = []
    for cell in made.cells:
        cells.append(f'<div class="in">{html.escape(cell.source)}</div>')
        for output in cell.outputs:
            data = output.get("data", {})
            if "text/html" in data:
                cells.append(data["text/html"])
            elif "image/png" in data:
                cells.append(f'<img src="data:image/png;base64,{data["image/png"].strip()}">')
    page = folder / "notebook.html"
    page.write_text(NOTEBOOK_PAGE.format(cells="\n".join(cells)), encoding="utf-8")
    photograph(chromium, page, IMAGES / "notebook.png", 960, 1720)


def reports(chromium: str, folder: Path) -> None:
    """A page of `bench --report`: light, dark, and at the width of a phone."""
    command = [sys.executable, "-m", "pipeflow", "bench", "train.py:pipe", "-n", "60", "--report", "report.html"]
    subprocess.run(command, cwd=folder, env=environment(), check=True, capture_output=True)
    page = folder / "report.html"
    page.write_text(page.read_text(encoding="utf-8").replace(f"{folder}/", ""), encoding="utf-8")
    photograph(chromium, page, IMAGES / "report-light.png", 1000, 1100)
    photograph(chromium, page, IMAGES / "report-dark.png", 1000, 1100, DARK)
    photograph(chromium, page, IMAGES / "report-phone.png", 390, 1100, narrow=True)


def site(chromium: str, folder: Path) -> None:
    """The first page, the gallery and an operator's page of the site."""
    del folder
    if not (SITE / "README.html").is_file():
        raise SystemExit("there is no site: make site builds it")
    photograph(chromium, SITE / "README.html", IMAGES / "site-home.png", 1280, 860)
    photograph(chromium, SITE / "docs" / "gallery.html", IMAGES / "site-gallery.png", 1280, 1000, skip=1240)
    photograph(chromium, SITE / "docs" / "operators" / "geometry.html", IMAGES / "site-dark.png", 1280, 860, DARK)


def photograph(
    chromium: str, page: Path, target: Path, width: int, height: int, *flags: str, narrow: bool = False, skip: int = 0
) -> None:
    """A picture of a page, with few colours so that it stays small; white below its end is cut away."""
    address = f"file://{page.resolve()}"
    shot = page.with_suffix(".shot.png")
    if narrow:  # windows have a smallest width, frames have none
        frame = page.with_suffix(".frame.html")
        frame.write_text(
            f'<style>body {{ margin: 0 }} iframe {{ border: 0; width: {width}px; height: {height}px }}</style>'
            f'<iframe src="{address}"></iframe>', encoding="utf-8"
        )  # fmt: skip
        address = f"file://{frame}"
    command = [
        chromium, "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--allow-file-access-from-files",
        f"--window-size={max(width, 500)},{skip + height + 200}", f"--screenshot={shot}", "--virtual-time-budget=4000",
        *flags, address,
    ]  # fmt: skip
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    picture = Image.open(io.BytesIO(shot.read_bytes())).convert("RGB").crop((0, skip, width, skip + height))
    shot.unlink()
    pixels = np.asarray(picture)
    filled = np.flatnonzero((pixels != pixels[-1, -1]).any((1, 2)))
    picture = picture.crop((0, 0, width, min(height, int(filled[-1]) + 16) if len(filled) else height))
    picture.quantize(128, dither=Image.Dither.NONE).save(target, optimize=True)
    print(f"{target.relative_to(ROOT)}: {target.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    sys.exit(main())
