"""``pipe.report``: what it measures, what it says of the user's own loop, and its picture."""

import contextlib
import json
import re
from types import SimpleNamespace

import numpy as np
import pytest

from pipeflow import fn, pipeline_def
from pipeflow.errors import InvalidState
from pipeflow.executor.figures import StepFigures
from pipeflow.executor.trace import LOOP, Span
from pipeflow.pictures import Picture
from pipeflow.reporting import charts, page, report, run, timeline


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
    """The page has the wait of a loop with three times between batches, a rate for each number of threads, and the name."""
    pipe = numbers()
    for _ in range(4):
        pipe.run()
    path = pipe.report(tmp_path / "page.html", batches=4, threads=[1, 2])
    text = path.read_text()
    assert "of your loop: waiting for data" in text
    found = facts_in(text)
    assert list(found["threads_rates"]) == ["1", "2"]
    assert (found["target"], found["batches"], found["samples"]) == ("numbers", 4, 16)
    assert np.asarray(pipe.run()[0][0])[0, 0, 0] == 2 * 16  # the fifth batch
    short = numbers()
    short.run(), short.run(), short.run()
    fresh = short.report(tmp_path / "fresh.html", batches=4, threads=())
    assert "of your loop" not in fresh.read_text()
    assert facts_in(fresh.read_text())["threads_rates"] == {}


def test_a_step_has_its_time_in_three_parts():
    """Of ten seconds: three with the interpreter's lock, two more on a processor, five waiting."""
    step = StepFigures("fn.python_function", "serial", 10.0, 5.0, kept=3.0)
    figures = SimpleNamespace(work=20.0, slowest_first=[step], samples=10, queued=0.0)
    table = page._steps(SimpleNamespace(statistics=figures))
    assert '<u style="width: 15.0%"></u><i style="width: 10.0%"></i><b style="width: 25.0%"></b>' in table


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


class Timed:
    """A pipeline without work: each batch of four samples takes a second of a clock that counts calls."""

    def fed_inputs(self):
        return []

    @contextlib.contextmanager
    def measure(self):
        yield

    def statistics(self):
        return "statistics"


@pytest.mark.parametrize(("batches", "seconds", "measured"), [(5, 1e9, 5), (50, 0.0, 3), (50, 7.5, 8)])
def test_a_run_ends_at_its_number_of_batches_or_after_its_seconds(monkeypatch, batches, seconds, measured):
    """Whichever is first, but not before three batches, without which there is no spread to tell."""
    now = [0.0]

    def next_batch(_):
        now[0] += 1.0
        return [np.zeros(4)]

    monkeypatch.setattr(run, "next_batch", lambda pipe: [range(4)] if next_batch(pipe) else None)
    monkeypatch.setattr(run.timing, "wall", lambda: now[0])
    steps = []
    found = run.measured(Timed(), batches, seconds, lambda: steps.append(1))
    assert (len(found.laps), len(steps), found.samples) == (measured, measured, 4 * measured)
    assert found.laps.tolist() == [1.0] * measured
    assert found.first == 1.0


def test_a_pipeline_without_data_is_refused():
    """Its first batch is the end of the epoch, again after a reset."""

    class Empty:
        resets = 0

        def run(self):
            raise StopIteration

        def reset(self):
            self.resets += 1

    pipe = Empty()
    with pytest.raises(InvalidState, match="its first batch is the end of the epoch"):
        run.next_batch(pipe)
    assert pipe.resets == 1


def test_spans_are_where_their_time_is():
    """A chart of 810 points for the time from first to last; the loop is the first row, waiting is grey."""
    trace = SimpleNamespace(
        names={5: "pipeflow-0", 9: LOOP},
        stages=[["decode", "resize"]],
        spans=lambda: [
            Span("stage", 0, 0, 3, 0, 4, 5, 10.0, 11.0),
            Span("stage", 0, 1, 3, 0, 4, 5, 11.0, 14.0),
            Span("wait", 0, 0, 3, 0, 4, 9, 10.0, 14.0),
        ],
    )
    text = timeline.timeline(trace)
    spans = re.findall(r'<rect x="([\d.]+)" y="(\d+)" width="([\d.]+)" height="18" fill="(#\w+)"><title>(.*?):', text)
    first, second = (timeline._color(stage) for stage in (0, 1))
    assert spans == [
        ("90.0", "0", "810.0", "#8a929c", "the loop waits, batch 3, samples 0 to 4"),
        ("90.0", "22", "202.5", first, "decode, batch 3, samples 0 to 4"),
        ("292.5", "22", "607.5", second, "resize, batch 3, samples 0 to 4"),
    ]
    assert re.findall(r'<text x="0" y="(\d+)">(.*?)<', text) == [("14", LOOP), ("36", "pipeflow-0")]
    assert re.findall(r'<text x="108" y="(\d+)">(.*?)<', text) == [("63", "decode"), ("79", "resize")]
    assert "4.00 s in all" in text or "4 s in all" in text
    trace.spans = list
    assert timeline.timeline(trace) == ""
