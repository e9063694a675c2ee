"""``pipe.report``: what it measures, what it says of the user's own loop, and its picture."""

import json
import re

import numpy as np
import pytest

from pipeflow import fn, pipeline_def
from pipeflow.pictures import Picture
from pipeflow.reporting import charts, report, run


def doubled(sample):
    return sample * 2


@pipeline_def(batch_size=4, num_threads=1, seed=1)
def numbers():
    images = fn.external_source(
        lambda info: np.full((9, 12, 3), info.idx_in_epoch, np.uint8), batch=False, layout="HWC"
    )
    return fn.python_function(images, function=doubled, output_layouts="HWC")


def facts_in(text):
    return json.loads(re.search(r'id="facts">(.*?)</script>', text)[1])


def test_a_pipeline_reports_and_does_not_move(tmp_path):
    """The page has the wait of the loop that ran before, rates for the numbers of threads asked for, and the name."""
    pipe = numbers()
    for _ in range(5):
        pipe.run()
    path = pipe.report(tmp_path / "page.html", batches=4, threads=[1, 2])
    text = path.read_text()
    assert "of your loop: waiting for data" in text
    found = facts_in(text)
    assert list(found["threads_rates"]) == ["1", "2"]
    assert (found["target"], found["batches"], found["samples"]) == ("numbers", 4, 16)
    assert np.asarray(pipe.run()[0][0])[0, 0, 0] == 2 * 20  # the sixth batch
    fresh = numbers().report(tmp_path / "fresh.html", batches=4, threads=())
    assert "of your loop" not in fresh.read_text()
    assert facts_in(fresh.read_text())["threads_rates"] == {}


def test_a_report_as_a_picture(tmp_path):
    """One sheet; its name decides, and a name that is neither is refused before anything runs."""
    path = numbers().report(tmp_path / "sheet.png", batches=4, threads=(1, 2))
    assert Picture(path.read_bytes()).size == (874, 1240)
    with pytest.raises(ValueError, match=r"ends with .html or .png; got 'sheet.pdf'"):
        numbers().report("sheet.pdf")
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        numbers().report(tmp_path / "nowhere" / "page.html")


def test_what_the_curves_are():
    """A line leaves the chart at its top; threads are doubled up to the number of processors."""
    assert charts.cut([(0, 0), (1, 5), (2, 10), (4, 20)], 15) == [(0, 0), (1, 5), (2, 10), (3, 15)]
    assert charts.cut([(0, 0), (1, 5)], 15) == [(0, 0), (1, 5)]
    assert [report.doublings(count) for count in (1, 2, 6, 8)] == [[1], [1, 2], [1, 2, 4, 6], [1, 2, 4, 8]]


def test_memory_is_followed():
    """A size for every batch, and what came to the first of them."""
    figures = run.measured(numbers(), 5, 20.0)
    assert len(figures.sizes) == len(figures.laps) + 1 == 6
    assert figures.grown == max(0, figures.memory - figures.sizes[0])
