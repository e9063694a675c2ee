"""A call on nodes before it belongs to a graph: its device, its number of outputs, and their Specs."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from pipeflow import declare
from pipeflow.declare import Call, OpDef, Spec
from pipeflow.errors import count_of
from pipeflow.operators import structure
from pipeflow.record.graph import DetachedNode


class CallOutputs(NamedTuple):
    """The device of a call, the number of its outputs, their Specs and the hints of their sizes."""

    device: str
    outputs: int
    specs: tuple[Spec, ...]
    hint: tuple[int, ...]


def outcome(call: Call, inputs: Sequence[Any], arguments: Mapping[str, Any]) -> CallOutputs:
    """The Outcome of a call with these DataNodes; an error says why the call is refused."""
    device = _device(call, inputs, arguments)
    count = call.op.outputs_of(call.constants, len(inputs))
    if len(call.hint) > max(count, 1):
        raise ValueError(f"bytes_per_sample_hint has {len(call.hint)} entries for {count_of(count, 'output')}")
    hint = call.hint * count if len(call.hint) == 1 else call.hint
    return CallOutputs(device, count, _infer(call, inputs, arguments, count), hint)


def class_name(op: OpDef) -> str:
    """The operator's part of the names that DALI gives to unnamed calls."""
    return op.dali_class or op.ops_name


def lineage(node: DetachedNode) -> list[DetachedNode]:
    """A detached node and all nodes that it depends on; each node comes after the nodes that it reads."""
    found: list[DetachedNode] = []
    seen: set[int] = set()
    waiting: list[tuple[DetachedNode, bool]] = [(node, False)]
    while waiting:  # no recursion: chains may be longer than Python's stack
        one, ready = waiting.pop()
        if ready:
            found.append(one)
        elif id(one) not in seen:
            seen.add(id(one))
            waiting.append((one, True))
            read = [value for value in (*one.given, *one.call.arguments.values()) if isinstance(value, declare.Node)]
            waiting += [(value.source, False) for value in reversed(read)]  # type: ignore[attr-defined]
    return found


def _infer(call: Call, inputs: Sequence[Any], arguments: Mapping[str, Any], count: int) -> tuple[Spec, ...]:
    op = call.op
    specs = [node.spec for node in inputs]
    if op.layouts and specs:
        first = specs[0]
        if first.layout and first.ndim is not None:
            declare.check_layouts(op.layouts, [first.layout], [first.ndim])
        elif first.layout == "" and first.ndim is not None:
            fitting = declare.check_layouts(op.layouts, [""], [first.ndim])[0]
            specs[0] = Spec(first.shape, first.dtype, "" if op.generic else fitting)
    if op.by_frame and (any(map(_has_frames, arguments.values())) or any(_has_frames(x, MATRICES) for x in inputs)):
        return (Spec(None, None, None),) * count  # the number of frames is known when it runs
    unknown = {name: _unknown(op.arguments[name].type, node) for name, node in arguments.items()}
    return op.specs(specs, {**call.constants, **unknown}, count)


def _unknown(kind: Any, node: Any) -> Any:
    """An argument that differs from sample to sample: of a list of numbers the length may be known."""
    shape = node.spec.shape
    if kind not in ("ints", "floats") or shape is None or None in shape or _has_frames(node):
        return declare.UNKNOWN
    return (declare.UNKNOWN,) * math.prod(shape)


MATRICES = "F**"  # the layout of a matrix for each frame


def _has_frames(node: Any, layout: str = "F") -> bool:
    """True for a node that has a value for each frame, as far as this is known in the definition."""
    if node.spec.layout is None:
        return node.source.op.marks_frames or node.source.op.by_frame
    return node.spec.layout.startswith(layout)


def _device(call: Call, inputs: Sequence[Any], arguments: Mapping[str, Any]) -> str:
    on_gpu = [node.device == "gpu" for node in inputs]
    for name, node in arguments.items():
        if node.device != "cpu":
            raise ValueError(f"argument {name!r} is on the GPU; named arguments must be on the CPU: use .cpu()")
    if call.device in ("gpu", "mixed") or any(on_gpu):
        for position, node in enumerate(inputs):
            if node.spec.dtype is not None and node.spec.dtype.hasobject:
                raise TypeError(
                    f"input {position} is text, and str and bytes stay on the CPU: encode it as numbers first"
                )
    if call.op is structure.transfer:
        return call.device or "cpu"
    if call.op in (structure.merge, structure.merge_late):
        # record/conditional has compared the devices of both sides, and the predicate is on the CPU
        return "gpu" if on_gpu[0] else "cpu"
    device = call.device or ("gpu" if any(on_gpu) else "cpu")
    # constants are copied to the GPU with the other inputs
    there = [
        on or node.source.op is structure.constant or (call.op.host_inputs and position > 0)
        for position, (on, node) in enumerate(zip(on_gpu, inputs))
    ]
    if device == "cpu" and any(on_gpu):
        raise ValueError(f"a CPU operator cannot read input {on_gpu.index(True)}, which is on the GPU: use .cpu()")
    if device == "mixed" and any(on_gpu):
        raise ValueError(
            f'device="mixed" takes CPU data to the GPU, and input {on_gpu.index(True)} is there already: use .cpu()'
        )
    if device == "gpu" and not all(there):
        raise ValueError(f"a GPU operator cannot read input {there.index(False)}, which is on the CPU: use .gpu()")
    if device not in call.op.devices:
        devices = " and ".join(call.op.devices)
        advice = ": give it data on the CPU, x.cpu()" if device == "gpu" else ""
        raise ValueError(f"{call.op.title} has no {device} implementation, only {devices}{advice}")
    if device == "gpu" and (call.constants.get("jit") or call.op.traits_of(call.constants).processes):
        what = "jit=True compiles for the CPU" if call.constants.get("jit") else "worker processes have no GPU"
        raise ValueError(f'{what}: leave it out where the function works with device="gpu"')
    return device
