"""Progress of slow work: on a terminal, by tqdm or a line of our own, and nowhere else."""

import io
import sys
from types import SimpleNamespace

import pytest

from pipeflow import progress, timing


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def terminal(monkeypatch):
    """A terminal on which a second passes with each reading of the clock."""
    seen = Terminal()
    monkeypatch.setattr(progress, "sys", SimpleNamespace(stderr=seen))
    for name in ("CI", "TQDM_DISABLE"):
        monkeypatch.delenv(name, raising=False)
    times = iter(range(1000))
    monkeypatch.setattr(timing, "wall", lambda: next(times))
    return seen


def test_tqdm_draws_it_where_it_is_installed(terminal):
    """With the number of what is done, and removed at the end."""
    assert list(progress.over("abcd", "verify", 4)) == list("abcd")
    assert "verify" in terminal.getvalue()
    assert "4/4" in terminal.getvalue()


def test_one_line_without_tqdm(terminal, monkeypatch):
    """The same in one line, which is wiped."""
    monkeypatch.setitem(sys.modules, "tqdm", None)
    with progress.Progress("convert", 3) as shown:
        shown.step(2)
        shown.step()
    assert "\rconvert 2/3\rconvert 3/3" in terminal.getvalue()
    assert terminal.getvalue().endswith(" \r")
    shown.step()
    assert "4/3" not in terminal.getvalue()


@pytest.mark.parametrize("name", ["CI", "TQDM_DISABLE"])
def test_off(terminal, monkeypatch, name):
    """In CI, and where it was turned off."""
    monkeypatch.setenv(name, "1")
    list(progress.over(range(9), "verify"))
    assert terminal.getvalue() == ""


def test_nothing_is_written_to_files(terminal, monkeypatch):
    """An error output that is no terminal, is closed or absent."""
    closed = io.StringIO()
    closed.close()
    for stream in (io.StringIO(), closed, None):
        monkeypatch.setattr(progress, "sys", SimpleNamespace(stderr=stream))
        assert not progress.wanted()


def test_work_that_is_soon_done_shows_nothing(terminal, monkeypatch):
    """Half a second passes first."""
    monkeypatch.setattr(timing, "wall", lambda: 7.0)
    list(progress.over(range(9), "verify"))
    assert terminal.getvalue() == ""
