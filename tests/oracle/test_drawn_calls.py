"""Drawn calls of every operator that both have give what they give under DALI, or differ for a stated reason.

`PIPEFLOW_CALLS=400 make test-oracle` compares as many calls of each operator; `python tests/oracle/comparing_calls.py crop 17`
shows one of them.
"""

import os

import pytest
from call_differences import reason
from comparing_calls import both, difference
from drawing import Drawer, operators

pytestmark = pytest.mark.oracle
CALLS = int(os.environ.get("PIPEFLOW_CALLS", "12"))
OPERATORS = {op.name: op for op in operators()}


@pytest.fixture(scope="module")
def answered():
    """The calls of all operators, each with both answers."""
    drawers = [Drawer(op) for op in OPERATORS.values()]
    calls = [drawer.draw(number) for drawer in drawers for number in range(CALLS)]
    return list(zip(calls, *both(calls)))


@pytest.mark.parametrize("name", OPERATORS)
def test_drawn_calls_give_what_they_give_under_dali(name, answered):
    """Shape, type, layout, values and kind of exception; a difference that no rule states fails."""
    unexplained = []
    for call, ours, theirs in answered:
        if call.operator == name:
            found = difference(ours, theirs, OPERATORS[name].random)
            if found and reason(call, *found) is None:
                unexplained.append(f"{call.number} {found[0]}: {call}\n    {found[1]}")
    assert not unexplained, "\n".join(unexplained[:5])
