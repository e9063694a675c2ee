"""What each verb finds, and how it refuses what it cannot do; in this process."""

import argparse
import dataclasses
import io
import json
import re
import struct
import sys
import tarfile

import numpy as np
import pytest
from PIL import Image
from test_terminal import SCRIPT

from pipeflow import commands, fn, pipeline_def
from pipeflow.commands import every_verb, indexing, screen, target
from pipeflow.commands.result import Line
from pipeflow.commands.verbs import bench
from pipeflow.operators.readers import mxnet
from pipeflow.pictures import Picture
from pipeflow.pipeline import Pipeline
from pipeflow.reporting import units


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A current folder with a user's script; what loading it leaves behind is taken back."""
    (tmp_path / "train.py").write_text(SCRIPT)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield tmp_path
    sys.modules.pop("train", None)


def said(capsys, *words, status=0):
    """What a verb prints."""
    assert commands.main(list(words)) == status, capsys.readouterr()
    captured = capsys.readouterr()
    return captured.out if status != 2 else captured.err


def facts(capsys, *words, status=0):
    return json.loads(said(capsys, *words, "--json", status=status) if status != 2 else "{}")


def test_every_verb_has_help_and_short_words(capsys):
    """The first line of its file fits behind its name, and --help names the options, each with its meaning."""
    for verb in every_verb():
        assert len(commands.help_of(verb)) <= 66, verb
        assert commands.main([verb, "--help"]) == 0
        assert "--json" in capsys.readouterr().out
        parser = argparse.ArgumentParser()
        commands.load(verb).arguments(parser)
        assert [action.dest for action in parser._actions if not action.help] == []


BRIGHTR = (
    "there is no step 'brightr'; there are constant, external_source: numbers, math.mul, python_function: brighter"
)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["bench", "nothing.py"], "there is no file nothing.py"),
        (["draw", "trai.py:pipe"], "there is no file trai.py (did you mean 'train.py'?)"),
        (["draw", "train.py:np"], "np of train.py is a module, no pipeline and no function that makes one"),
        (["draw", "train.py:brighter"], "'train.py:brighter(image=...)'"),
        (["draw", "train.py:pipe(x"], "is no name of a pipeline"),
        (
            ["draw", "train.py:pipe(other=3)"],
            "train.py:pipe cannot be made: TypeError: 'other' is neither an argument of pipe",
        ),
        (["draw", "fails.py:pipe"], "fails.py:pipe cannot be made: line 2: KeyError: 'no such setting'"),
        (["draw", "broken.py"], "broken.py cannot be loaded: line 2: ZeroDivisionError: division by zero"),
        (["draw", "ends.py"], 'put code that runs only as a program below if __name__ == "__main__":'),
        (["draw", "no_such_module:pipe"], "there is no module 'no_such_module'"),
        (["draw", "train.py:pipe", "-o", "x.pdf"], "a drawing is written as .svg, .mmd or .txt, not as x.pdf"),
        (["bench", "train.py:pipe", "--compare", "speed=1"], "--compare takes threads or batch or depth or workers"),
        (["inspect", "train.py:pipe", "--node", "brightr"], BRIGHTR),
        (["show", "train.py:pipe", "-o", "x.jpg"], "the picture is a PNG file: -o NAME.png, not x.jpg"),
        (["verify", "nowhere"], "there is no file or folder nowhere"),
        (["draw", "gone.json"], "there is no file gone.json"),
        (["verify", "train.py"], "nothing to verify in train.py: it has .py"),
        (["tfrecord2idx", "train.py"], "not a TFRecord file"),
        (["headspace", "nothing.py"], "there is no file nothing.py"),
        (["port", "nothing.py"], "there is no file nothing.py"),
        (["benhc"], "pipeflow has no verb 'benhc' (did you mean 'bench'?)"),
    ],
)
def test_what_cannot_be_done_is_one_sentence(folder, capsys, words, message):
    """Status 2, and words about what the user wrote."""
    (folder / "broken.py").write_text("x = 1\n1 / 0\n")
    (folder / "ends.py").write_text("import sys\nsys.exit(3)\n")
    (folder / "fails.py").write_text("def pipe():\n    return {}['no such setting']\n")
    text = said(capsys, *words, status=2)
    assert message in text
    assert "Traceback" not in text
    for name in ("broken", "ends", "fails"):
        sys.modules.pop(name, None)


def test_a_pipeline_is_named_in_every_way(folder):
    """A function, a call with plain values, an object, a module, a saved graph, and the only one of a file."""
    (folder / "more.py").write_text("from train import pipe as make\nobject_ = make(batch_size=3)\n")
    saved = folder / "graph.json"
    with_constants().serialize(filename=str(saved))
    for text, size in (
        ("train.py:pipe", 4),
        ("train.py", 4),
        ("train.py:pipe(2.5, batch_size=6)", 6),
        ("more.py:object_", 3),
        ("train:pipe", 4),
        (str(saved), 2),
    ):
        given = argparse.Namespace(target=text, trust=False, batch_size=None, threads=None)
        found = target.target_of(given).pipeline
        assert isinstance(found, Pipeline)
        assert found.batch_size == size
    sys.modules.pop("more")


@pipeline_def(batch_size=2, num_threads=1, device_id=None)
def with_constants():
    return fn.constant(idata=[1, 2])


def test_a_pipeline_without_a_batch_size_gets_one(folder):
    (folder / "bare.py").write_text(
        "from pipeflow import *\n@pipeline_def\ndef pipe():\n    return fn.constant(idata=[1])\n"
    )
    given = argparse.Namespace(target="bare.py", trust=False, batch_size=None, threads=2)
    found = target.target_of(given).pipeline
    assert (found.batch_size, found.num_threads) == (target.BATCH_SIZE, 2)
    sys.modules.pop("bare")


def test_draw_writes_each_form(folder, capsys):
    """Text, Mermaid and SVG of the same nodes."""
    text = said(capsys, "draw", "train.py:pipe")
    assert "python_function: brighter <- " in text
    assert "flowchart TD" in said(capsys, "draw", "train.py:pipe", "--mermaid")
    found = facts(capsys, "draw", "train.py:pipe", "-o", "pipe.svg")
    assert found["outputs"] == 2
    assert (folder / "pipe.svg").read_text().startswith("<svg")


def test_show_saves_a_picture_of_the_first_samples(folder, capsys):
    found = facts(capsys, "show", "train.py:pipe", "-n", "6", "--labels", "1", "-o", "batch.png")
    assert Picture((folder / "batch.png").read_bytes()).size == (found["width"], found["height"])


def test_inspect_shows_values_of_one_step_and_draws_them(folder, capsys):
    """Sample 5 has the value 5 at first and 105 at the end; a sample that is not there is refused."""
    text = said(capsys, "inspect", "train.py:pipe", "--sample", "5", "--save", "steps.png")
    assert "5...5 ~5" in text
    assert "105...105 ~105" in text
    assert min(Picture((folder / "steps.png").read_bytes()).size) > 100
    assert "brighter" not in said(capsys, "inspect", "train.py:pipe", "--node", "external_source: numbers")


def test_trace_records_batches_for_perfetto(folder, capsys):
    """Three batches after two that are not recorded; the file is JSON with slices of them alone."""
    found = facts(capsys, "trace", "train.py:pipe", "-n", "3", "--skip", "2", "-o", "trace.json")
    assert 0 <= found["waited_seconds"] <= found["seconds"]
    events = json.loads((folder / "trace.json").read_text())["traceEvents"]
    waits = [event["args"]["batch"] for event in events if event["name"].startswith("wait")]
    assert waits == [2, 3, 4]
    assert found["events"] == sum(event["ph"] == "X" for event in events)


def test_bench_compares_settings(folder, capsys):
    """A row for each value, and which is best."""
    found = facts(capsys, "bench", "train.py:pipe", "-n", "4", "--compare", "threads=1,2")
    assert [(run["value"], run["threads"]) for run in found["runs"]] == [(1, 1), (2, 2)]
    assert found["best"] in (1, 2)


def test_the_fastest_setting_is_best_not_the_largest(monkeypatch, folder, capsys):
    """Of batches of 2, 4 and 8 samples the middle one is measured as the fastest here."""

    def measured(pipe, *rest):
        rate = {2: 10.0, 4: 30.0, 8: 20.0}[pipe.batch_size]
        return dataclasses.replace(
            real(pipe, *rest), laps=np.full(4, pipe.batch_size / rate), samples=4 * pipe.batch_size
        )

    real = bench.measuring.measured
    monkeypatch.setattr(bench.measuring, "measured", measured)
    found = facts(capsys, "bench", "train.py:pipe", "-n", "4", "--compare", "batch=2,4,8")
    assert found["best"] == 4
    assert [round(run["samples_per_second"], 6) for run in found["runs"]] == [10, 30, 20]


def test_the_report_is_one_page_that_needs_nothing_else(folder, capsys):
    """Verdict, figures, steps, timeline, samples, graph and settings, below 300 kB, with no address of anything else."""
    printed = said(capsys, "bench", "train.py:pipe", "-n", "4", "--report", "report.html")
    text = (folder / "report.html").read_text()
    assert "the report is report.html" in printed
    assert len(text) < 300_000
    assert f"<h1>{printed.splitlines()[0]}</h1>" in text
    for word in (
        "the loop",
        "Timeline of 10 batches",
        "python_function: brighter",
        "data:image/jpeg",
        "against threads",
        "bytes of memory",
        "prefetch_queue_depth",
    ):
        assert word in text
    assert not re.findall(r'(?:src|href)="(?!data:)|url\(', text)
    assert text.count("<title>") > 20  # of the page, the nodes of the graph and the spans of the timeline
    assert not re.search(r"[}\s]text\s*{", text.replace(".chart text", ""))  # the graph keeps the colour of its letters
    for refused in (
        ["--report", "report.pdf"],
        ["--report", "r.html", "--compare", "threads=1"],
        ["--report", "no/r.html"],
        ["--against", "report.html"],
    ):
        assert "--report" in said(capsys, "bench", "train.py:pipe", *refused, status=2)


def test_two_runs_stand_side_by_side(folder, capsys):
    """An earlier page, or what --json printed; the figures of both and their ratio."""
    old = facts(capsys, "bench", "train.py:pipe", "-n", "3")
    (folder / "old.json").write_text(json.dumps(old))
    for name, earlier in (("new.html", "old.json"), ("newer.html", "new.html")):
        said(capsys, "bench", "train.py:pipe", "-n", "3", "--report", name, "--against", earlier)
        text = (folder / name).read_text()
        assert f"<th class='n'>{earlier}</th>" in text
        assert "brighter" in text.partition("Compared with an earlier run")[2].partition("<h2>")[0]
    (before,) = re.findall(r"samples a second</td><td class='n'>([\d.e+]+)<", (folder / "new.html").read_text())
    assert float(before) == pytest.approx(old["samples_per_second"], rel=1e-3)
    (folder / "other.html").write_text("<p>a page</p>")
    refused = said(capsys, "bench", "train.py:pipe", "--report", "r.html", "--against", "other.html", status=2)
    assert "neither a report nor the output of" in refused


def test_advice_has_its_figures(folder, capsys):
    found = facts(capsys, "advice", "train.py:pipe", "-n", "4")
    assert found["samples_per_second"] > 0
    assert all(item["text"] for item in found["advice"])


def test_an_input_that_is_fed_by_hand_cannot_be_run_alone(folder, capsys):
    (folder / "fed.py").write_text(
        "from pipeflow import *\n@pipeline_def(batch_size=1, num_threads=1)\ndef pipe():\n"
        "    return fn.external_source(name='x')\n"
    )
    assert "the input 'x' of this pipeline is fed by the program" in said(capsys, "bench", "fed.py", status=2)
    sys.modules.pop("fed")


def png():
    file = io.BytesIO()
    Image.fromarray(np.full((8, 8, 3), 7, np.uint8)).save(file, "PNG")
    return file.getvalue()


def test_verify_finds_bad_files_in_folders_and_tars(folder, capsys):
    """A cut image, an empty one and a damaged part of a tar are named, whole ones are not; the status is 1."""
    data = folder / "data"
    data.mkdir()
    (data / "good.png").write_bytes(png())
    (data / "cut.png").write_bytes(png()[:40])
    (data / "empty.npy").write_bytes(b"")
    (data / "notes.txt").write_text("x")
    np.save(data / "good.npy", np.zeros(3))
    with tarfile.open(data / "shard.tar", "w") as archive:
        for name, content in (("a.png", png()), ("b.png", b"no image")):
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    found = facts(capsys, "verify", str(data), "--threads", "1", "-o", "bad.txt", status=1)
    expected = ["cut.png", "empty.npy", "shard.tar:b.png"]
    assert [entry["file"].rpartition("/")[2] for entry in found["bad"]] == expected
    assert (found["files"], found["left_out"]) == (6, {".txt": 1})
    assert found["bad"][1]["error"] == "the file is empty"
    assert len((folder / "bad.txt").read_text().splitlines()) == 3
    assert said(capsys, "verify", str(data / "good.png")).startswith("all can be decoded: 1 file, ")


def test_the_index_of_recordio_is_what_the_reader_takes(folder, capsys):
    """Whole records and one in parts: the index names where each begins, and the reader gives what was written."""
    content = [bytes([number] * (24 + number)) for number in range(3)]
    with open("train.rec", "wb") as file:
        for number, data in enumerate(content):
            parts = [(0, data)] if number != 1 else [(1, data[:8]), (3, data[12:])]
            for kind, part in parts:
                file.write(struct.pack("<II", mxnet._MAGIC, kind << 29 | len(part)) + part + b"\0" * (-len(part) % 4))
    assert facts(capsys, "rec2idx", "train.rec")["indexes"][0]["records"] == 3
    assert len(mxnet._read_index("train.idx", ["train.rec"], 10**6)) == 3
    with open("train.rec", "ab") as file:
        file.write(b"rubbish.")
    assert "there is no RecordIO record" in said(capsys, "rec2idx", "train.rec", "-o", "new.idx", status=2)
    assert not list(folder.glob("new*"))


def test_an_index_is_named_as_dalis_scripts_name_it(folder, capsys):
    """Two names, data and index, are one index."""

    def write(path, index):
        with open(index, "w") as file:
            return file.write("0 1\n")

    given = argparse.Namespace(files=["train.py", "other.idx"], output=None)
    assert indexing.run(given, write, "record").facts["indexes"][0]["index"] == "other.idx"


def test_doctor_names_what_is_wrong(monkeypatch, capsys):
    """Shared memory that is small is a warning with its fix, and the status is 1."""
    doctor = commands.load("doctor")
    monkeypatch.setattr(doctor, "SHARED", "/")
    monkeypatch.setattr(doctor, "ROOM", 10**18)
    text = said(capsys, "doctor", status=1)
    assert text.startswith("works, with 1 thing to look at")
    assert "docker run --shm-size=2g" in text


def test_lines_are_cut_and_broken_where_the_terminal_ends(monkeypatch):
    """Colours only on a terminal and without NO_COLOR; a paragraph is broken between words."""

    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setenv("COLUMNS", "20")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert screen.Screen(Terminal()).rendered(Line("x" * 30, "bad")) == f"\x1b[31m{'x' * 17}...\x1b[0m"
    assert (
        screen.Screen(Terminal()).rendered(Line("one two three four five", wrap=True)) == "one two three four\n  five"
    )
    monkeypatch.setenv("NO_COLOR", "1")
    assert screen.Screen(Terminal()).rendered(Line("short", "bad")) == "short"
    assert screen.Screen(io.StringIO()).rendered(Line("x" * 30)) == "x" * 30
    assert (units.seconds(2e-5), units.seconds(0.0123), units.seconds(2)) == ("20 us", "12.3 ms", "2 s")
    assert (units.size(12), units.size(1234), units.size(2.5e9)) == ("12 B", "1.23 kB", "2.5 GB")
