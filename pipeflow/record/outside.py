"""Calls outside a pipeline whose result is a node: sources, and operators on nodes.

Such a call is in no graph yet: it becomes a ``DetachedNode``, and is checked at once like any other call. A pipeline
takes it, with all nodes that it depends on, when it is an output (``set_outputs``) or an input of a node of the
pipeline. Several pipelines can take the same node: each then has its own source. After the ``with`` block of a
pipeline, calls on its nodes are recorded in that pipeline.
"""

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from pipeflow import declare
from pipeflow.declare import Call
from pipeflow.errors import InvalidState, add_notes
from pipeflow.record.calls import class_name, outcome
from pipeflow.record.graph import DetachedNode
from pipeflow.record.recorder import DataNode, Recorder, members, recording

_numbers = itertools.count()  # they make names different; nothing else depends on them


class Outside:
    """The interpreter of these calls."""

    def __call__(self, call: Call) -> Any:
        owners = {id(node._recorder): node._recorder for node in _nodes(call) if not node.detached}
        if len(owners) > 1:
            names = sorted(node.name for node in _nodes(call) if not node.detached)
            raise InvalidState(f"{call.op.title}: its inputs belong to several pipelines: {', '.join(names)}")
        for owner in owners.values():
            with recording(owner):
                return owner(call)
        sets = members(call)
        if not sets:
            return self._detached(call, call.inputs)
        group = object()
        return [self._detached(one, inputs, number, group) for number, (one, inputs) in enumerate(sets)]

    def _detached(self, call: Call, inputs: Sequence[Any], member: int = 0, group: Any = None) -> Any:
        op = call.op
        try:
            given = tuple(np.array(value) if isinstance(value, np.ndarray) else value for value in inputs)
            # This recorder only checks the constants; it is not kept.
            scratch = Recorder()
            found = [x if isinstance(x, DataNode) else scratch.as_node(x, f"input `{i}`") for i, x in enumerate(given)]
            named = {
                name: x if isinstance(x, DataNode) else scratch.as_node(x, f"argument {name!r}")
                for name, x in call.arguments.items()
            }
            made = outcome(call, found, named)
        except Exception as error:
            add_notes(error, [f"in {op.title}", *([call.origin.describe()] if call.origin else [])])
            raise
        name = call.name if call.name is not None else f"__{class_name(op)}_detached_{next(_numbers)}"
        node = DetachedNode(
            id=-1,
            op=op,
            inputs=(),
            constants=dict(call.constants),
            arguments={},
            count=made.outputs,
            name=name,
            known_as=name,
            random_name="",
            device=made.device,
            seed=call.seed,
            preserve=call.preserve,
            hint=made.hint,
            guard=(),
            specs=made.specs,
            origin=call.origin,
            on_error=call.on_error,
            call=call,
            given=given,
            group=group,
            member=member,
        )
        return op.pack([DataNode(None, node, index) for index in range(made.outputs)], call.constants)


def _nodes(call: Call) -> list[Any]:
    values = [*call.inputs, *call.arguments.values()]
    members_of_sets = [item for value in values if isinstance(value, (list, tuple)) for item in value]
    return [value for value in (*values, *members_of_sets) if isinstance(value, declare.Node)]


declare.Node.outside = Outside()
