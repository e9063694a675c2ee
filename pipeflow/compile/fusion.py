"""Fusion: chains of image operators that become one pass over the pixels.

It works on the recorded graph, before it is compiled. It looks for two kinds of chains. All links have the same guard;
each has one reader and is no output:

- an operator that samples an image (a resize), then any number that crop or mirror it (a crop, a flip), then one that ends
  sampling (a normalisation): no image between them is written, and only the pixels of the result are computed;
- two or more operators that multiply and add (brightness, contrast, a cast): one pass over memory.

The declarations say which operators these are (``@name.samples``, ``resamples``, ``ends_sampling`` and ``line``).

The fused kernel rounds between the links like the chain, so the results are the same. For samples that it cannot
process (volumes, planar images, padding), the same step runs the links one after another. Chains are fused on the GPU
too, where a chain is one launch for the whole batch.
"""

from collections.abc import Sequence
from dataclasses import replace

from pipeflow.declare import UNKNOWN, OpDef, UnknownValue, find
from pipeflow.record.graph import Edge, Graph, GraphNode


def fuse(graph: Graph) -> Graph:
    """The graph with fused nodes in place of chains. Node numbers stay the same, so edges stay valid."""
    readers = _readers(graph)
    nodes = list(graph.nodes)
    for node in graph.nodes:
        links = _links(graph, node, readers)
        if len(links) > 1:
            nodes[node.id] = _joined(links)
    return Graph(nodes, list(graph.outputs))


def _readers(graph: Graph) -> dict[int, list[int]]:
    """For every node the nodes that read it; -1 is an output of the pipeline."""
    readers: dict[int, list[int]] = {}
    for node in graph.nodes:
        for edge in (*node.inputs, *node.arguments.values(), *(edge for edge, _ in node.guard)):
            readers.setdefault(edge.node, []).append(node.id)
    for edge in graph.outputs:
        readers.setdefault(edge.node, []).append(-1)
    return readers


def _links(graph: Graph, last: GraphNode, readers: dict[int, list[int]]) -> Sequence[GraphNode]:
    """The chain that ends with this node, first link first; only the node if there is none."""
    sampling = last.op.ends_sampling_hook is not None
    if not sampling and (last.op.line_hook is None or _is_link(graph, last, readers)):
        return [last]
    links = [last]
    while True:
        before = graph.nodes[links[0].inputs[0].node] if len(links[0].inputs) == 1 else None
        if before is None or not _continues(before, links[0], readers) or len(before.inputs) != 1:
            break
        if sampling and before.op.samples_hook is not None:
            return [before, *links]
        if (before.op.resamples_hook if sampling else before.op.line_hook) is None:
            break
        links.insert(0, before)
    return [last] if sampling else links


def _continues(before: GraphNode, after: GraphNode, readers: dict[int, list[int]]) -> bool:
    return (
        readers.get(before.id) == [after.id]
        and before.guard == after.guard
        and before.count == after.count == 1
        and not _may_take_frames(before)
        and not _may_take_frames(after)
        and before.device == after.device
        and before.device in ("cpu", "gpu")
        and not before.preserve
        and not before.hint
        and _same_rule(before.on_error, after.on_error)
    )


def _may_take_frames(node: GraphNode) -> bool:
    """True if the operator may take the frames of a sequence all at once. A chain gets them one by one."""
    layout = node.specs[0].layout
    if node.op.whole is None or (layout is not None and layout[:1] != "F"):
        return False
    try:
        return node.op.whole(layout or "", {**node.constants, **dict.fromkeys(node.arguments, UNKNOWN)})
    except UnknownValue:
        return True


def _same_rule(before: object, after: object) -> bool:
    """True if both links have the same rule for failures. A rule that is a value does not count: it is for one link only."""
    return before is after is None or (isinstance(before, str) and isinstance(after, str) and before == after)


def _is_link(graph: Graph, node: GraphNode, readers: dict[int, list[int]]) -> bool:
    """True if the chain of lines continues after this node."""
    after = readers.get(node.id, [])
    if len(after) != 1 or after[0] < 0:
        return False
    follower = graph.nodes[after[0]]
    return follower.op.line_hook is not None and len(follower.inputs) == 1 and _continues(node, follower, readers)


def _joined(links: Sequence[GraphNode]) -> GraphNode:
    """One node for the chain: it replaces the last link, and draws the random numbers of the first one."""
    op: OpDef = find("+".join(link.op.name for link in links))
    constants = {f"{name}_{i}": value for i, link in enumerate(links) for name, value in link.constants.items()}
    arguments: dict[str, Edge] = {
        f"{name}_{i}": edge for i, link in enumerate(links) for name, edge in link.arguments.items()
    }
    return replace(
        links[-1],
        op=op,
        inputs=links[0].inputs,
        constants=constants,
        arguments=arguments,
        seed=links[0].seed,
        random_name=links[0].random_name,
    )
