"""Reading the user's source while other threads do the same."""

import ast

import pytest

from pipeflow import autograph_guard


def test_a_disturbed_parse_is_made_again(monkeypatch):
    """CPython's check of the depth can fail because of another thread; the tree is read again, other errors stay."""
    real, failures = ast.parse, [SystemError("AST constructor recursion depth mismatch (before=2, after=1)")] * 3

    def disturbed(*arguments):
        if failures:
            raise failures.pop()
        return real(*arguments)

    monkeypatch.setattr(ast, "parse", disturbed)
    assert isinstance(autograph_guard.parse("x = 1"), ast.Module)
    failures.append(SystemError("something else"))
    with pytest.raises(SystemError, match="something else"):
        autograph_guard.parse("x = 1")
