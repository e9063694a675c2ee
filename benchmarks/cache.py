"""How much less CPU time do later epochs take if `fn.cache` keeps decoded images?

JPEG files of 640 x 480 pixels are decoded, kept, cropped to 224 x 224 and flipped at random. The figures are CPU time
of all threads for an epoch, so the work of other programs is not counted. Only the third epoch comes completely from
the cache, because the second one begins before the first one has ended.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from time import process_time

import _pictures
from _harness import Measures, Side, Target, header, measure, median, save, spread, start, table, verdicts

COUNT = 128
SHAPE = (480, 640)


def pipeline_over(folder: str, place: dict[str, object]):
    from pipeflow import fn, pipeline_def

    @pipeline_def(batch_size=32, num_threads=2, seed=1)
    def pipeline():
        files, _ = fn.readers.file(files=sorted(map(str, Path(folder).glob("*.jpg"))), random_shuffle=True)
        images = fn.decoders.image(files)
        if place:
            images = fn.cache(images, **place)
        images = fn.crop(images, crop=(224, 224), crop_pos_x=fn.random.uniform(range=(0, 1)))
        return fn.flip(images, horizontal=fn.random.coin_flip())

    return pipeline()


def prepare(kind: str):
    def prepare_case(_: str):
        folder = tempfile.TemporaryDirectory()
        _pictures.write(Path(folder.name), COUNT, *SHAPE, noise=12)
        pipeline_over(folder.name, {}).run()  # kernels

        def repetition() -> Measures:
            plain = pipeline_over(folder.name, {})
            expected = [[x.sum() for x in batch[0].samples()] for batch in list(plain.epoch())[:1]]
            with tempfile.TemporaryDirectory() as disk:
                pipe = pipeline_over(folder.name, {"memory": 2**30} if kind == "memory" else {"disk": disk})
                seconds = []
                for number in range(4):
                    begin = process_time()
                    batches = list(pipe.epoch())
                    seconds.append(process_time() - begin)
                    if not number:
                        equal = [[x.sum() for x in batches[0][0].samples()]] == expected
            return {"first": seconds[0], "later": seconds[3], "equal": float(equal)}

        return repetition

    return prepare_case


SIDES = [Side("memory", prepare("memory")), Side("disk", prepare("disk"))]


def main() -> int:
    reading = header(__doc__.splitlines()[0])
    [by_side] = measure(__file__, SIDES, ["decoded images"], {}, repetitions=5).values()
    rows = []
    targets = []
    for side, measured in by_side.items():
        for epoch in ("first", "later"):
            middle, low, high = spread(measured, lambda row, epoch=epoch: 1e6 * row[epoch] / COUNT)
            rows.append((side, epoch, middle, f"{low:.4g} .. {high:.4g}"))
        gain = median(measured, lambda row: row["first"] / row["later"])
        targets.append(Target(f"{side}: first epoch to a later one", gain, 5.0, at_most=False))
    table(
        "Microseconds of CPU time an image (median of 5 alternated runs)", ["kept in", "epoch", "time", "range"], rows
    )
    verdicts(targets)
    save("cache", reading, by_side, targets)
    return int(not all(row["equal"] for measured in by_side.values() for row in measured))


if __name__ == "__main__":
    sys.exit(main() if start(SIDES, {}) else 0)
