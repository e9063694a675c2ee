"""The program that a machine with a GPU runs first: its report, here without a GPU."""

import device_cases
import first_run
import first_run_hazards
import pytest
from generate_docs import public

# Functions of the user have checks among the hazards, every pipeline there has a source, and the example of permute_batch needs a
# batch of one.
WITHOUT_EXAMPLES = {
    "fn.python_function",
    "fn.py_function",
    "fn.dl_tensor_python_function",
    "fn.numba_function",
    "fn.experimental.numba_function",
    "fn.external_source",
    "fn.readers.numpy",
    "fn.permute_batch",
    "fn.readers.fits",
    "fn.experimental.readers.fits",
}


def fail():
    raise ValueError("two | lines\nof text")


def skip():
    raise first_run.LeftOut("jax sees no GPU")


@pytest.fixture
def report():
    """A report whose clock is at 0 for a while."""
    times = [0.0]
    made = first_run.Report(10.0, lambda: times[0])
    made.times = times
    return made


def test_checks_and_their_lines(report, capsys):
    """A finding, a failure with its place, a check that cannot be made, and one that comes too late."""
    report.check("hazards", "one", lambda: "a finding")
    report.check("hazards", "two", fail)
    report.check("hazards", "three", skip)
    report.times[0] = 11.0
    report.check("hazards", "four", lambda: pytest.fail("it was run"))
    verdicts = [(line.name, line.verdict) for line in report.lines]
    assert verdicts == [("one", "fine"), ("two", "WRONG"), ("three", "left out"), ("four", "left out")]
    printed = capsys.readouterr().out.splitlines()
    assert len(printed) == 4
    assert "a finding" in printed[0]
    assert "ValueError: two | lines | of text [test_first_run.py:" in printed[1]


def test_the_tables(report):
    """An operator is named as tried only if all its examples were right; what was not tried says so."""
    one, other = (
        device_cases.EXAMPLES[0],
        next(x for x in device_cases.EXAMPLES if x[0] is not device_cases.EXAMPLES[0][0]),
    )
    report.check("operators", f"{one[0].title}: {one[1]}", lambda: None)
    report.check("operators", f"{other[0].title}: {other[1]}", lambda: None)
    report.check("operators", f"{other[0].title}: again", fail)
    text = report.tables("a GPU", "13010", "2030-01-02").splitlines()
    count = len({op.title for op, _ in device_cases.EXAMPLES})
    assert text[2] == f"| as on the CPU, 1 of {count}: `{one[0].title}` | a GPU | 13010 | 2030-01-02 |"
    assert text[3] == f"| WRONG, 1 of {count}: `{other[0].title}` | a GPU | 13010 | 2030-01-02 |"
    assert text[4].startswith(f"| not tried, {count - 2} of {count}: ")
    assert text[4].endswith("| never |")
    assert text[-1].startswith(f"| operators | {other[0].title}: again | ValueError: two / lines / of text")


def test_every_operator_with_a_gpu_form_is_in_it():
    """The names come from the registry."""
    titles = {op.title for op, _ in device_cases.EXAMPLES}
    left_out = {op.title for op in public() if "gpu" in op.devices} - titles
    assert left_out == WITHOUT_EXAMPLES


def test_every_hazard_says_what_it_checks():
    """Its first line is its name in the report."""
    lines = [check.__doc__.splitlines()[0] for check in first_run_hazards.CHECKS]
    assert len(set(lines)) == len(lines)
    assert set(first_run.RUN) == set(first_run.PARTS)


def test_without_a_gpu(monkeypatch, capsys):
    """It says why it runs nothing."""
    monkeypatch.setattr(first_run.backends.gpu, "why_not", lambda _number: "there is no CUDA device")
    monkeypatch.setattr("sys.argv", ["first_run.py"])
    assert first_run.main() == 1
    assert capsys.readouterr().out == "first_run.py runs nothing here: there is no CUDA device\n"
