"""Pictures in tar files on a server, kept on the local disk: python examples/remote_files.py --picture sheet.png

The example draws the pictures and serves them on this machine, 50 ms late. With --url it reads tar files of yours instead:
--url "https://example.com/train-{000..009}.tar". The first run reads from the server, the second one from the cache.
"""

import argparse
import functools
import http.server
import io
import tarfile
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

import pipeflow
from pipeflow import fn, pipeline_def

try:
    import cv2
except ModuleNotFoundError as missing:
    raise SystemExit(f"this example needs {missing.name}: pip install opencv-python-headless") from None

SHARDS, PICTURES = 3, 8


class LateServer(http.server.SimpleHTTPRequestHandler):
    """Waits before each answer, as a server far away."""

    def do_GET(self) -> None:
        """Sends a file."""
        time.sleep(0.05)
        super().do_GET()

    def log_message(self, *_words: object) -> None:
        """Prints nothing."""


def write_shards(folder: Path) -> None:
    """Tar files with pictures of polygons."""
    rng = np.random.default_rng(3)
    for shard in range(SHARDS):
        with tarfile.open(folder / f"{shard}.tar", "w") as tar:
            for number in range(PICTURES):
                angles = np.arange(3 + number % 4) * 2 * np.pi / (3 + number % 4) + rng.uniform(0, 3)
                corners = np.stack([100 + 70 * np.cos(angles), 80 + 60 * np.sin(angles)], -1).astype(np.int32)
                picture = np.full((160, 200, 3), 235, np.uint8)
                cv2.fillPoly(picture, [corners], rng.integers(30, 200, 3).tolist())
                data = cv2.imencode(".jpg", picture)[1].tobytes()
                member = tarfile.TarInfo(f"{shard}{number}.jpg")
                member.size = len(data)
                tar.addfile(member, io.BytesIO(data))


@pipeline_def(batch_size=PICTURES, num_threads=2, device_id=None)
def pictures(url: str, folder: str):
    """The pictures of all tar files, in an order of their own each epoch."""
    files = fn.readers.webdataset(
        paths=url, ext="jpg", random_shuffle=True, cache=folder, cache_bytes="1GB", name="reader"
    )
    return fn.resize(fn.decoders.image(files), size=[96, 96])


def main() -> None:
    """Reads everything twice."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--url", help="the URL of one tar file, or of several with {000..009}")
    parser.add_argument("--cache", help="the folder of the cache; by default one that is removed at the end")
    parser.add_argument("--picture", type=Path, default=Path(__file__).parent / "output" / "remote_files.png")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as drawn, tempfile.TemporaryDirectory() as kept:
        server, url = None, given.url
        if url is None:
            write_shards(Path(drawn))
            server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(LateServer, directory=drawn))
            threading.Thread(target=server.serve_forever, daemon=True).start()
            url = f"http://127.0.0.1:{server.server_port}/{{0..{SHARDS - 1}}}.tar"
        for run in ("first", "second"):
            pipe = pictures(url, given.cache or kept, seed=1)
            images = [image for (batch,) in pipe.epoch() for image in batch.samples()]
            [figures] = pipe.statistics().caches
            print(f"{run} run: {len(images)} pictures, {figures.bytes_read} bytes from the server")
        given.picture.parent.mkdir(parents=True, exist_ok=True)
        pipeflow.show(images, SHARDS * PICTURES, columns=PICTURES, path=given.picture)
        print(f"picture: {given.picture}")
        if server is not None:
            server.shutdown()
            server.server_close()


if __name__ == "__main__":
    main()
