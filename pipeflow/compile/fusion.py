"""Fusion: chains of image operators that become one pass over the pixels.

A pass over the recorded graph, before it is compiled. It looks for two shapes, whose links each have one reader, the
same guard and no name in the outputs:

- an operator that samples an image (a resize), then any number that cut or turn it (a crop, a flip), then one that ends
  sampling (a normalisation): the image between them is never written, only the pixels that are kept are computed;
- two or more operators that are a line over every value (brightness, contrast, a cast): one pass over memory.

Which operators these are is said in their declarations (``@name.samples``, ``resamples``, ``ends_sampling`` and ``line``).

Roundings between the links stay where they were, so the results are those of the chain. What a link does to a sample
that the fused kernel is not made for (volumes, planar images, padding) is done link by link, inside the same step.
Chains on the GPU are left as they are: there an operator is one launch over the whole batch.
"""

from collections.abc import Sequence
from dataclasses import replace

from pipeflow.declare import OpDef
from pipeflow.operators.chains import chain
from pipeflow.record.graph import Edge, Graph, GraphNode


def fuse(graph: Graph) -> Graph:
    """The graph with chains replaced by fused nodes; node numbers stay, so that edges keep their meaning."""
    readers = _readers(graph)
    nodes = list(graph.nodes)
    for node in graph.nodes:
        links = _links(graph, node, readers)
        if len(links) > 1:
            nodes[node.id] = _joined(links)
    return Graph(nodes, list(graph.outputs))


def _readers(graph: Graph) -> dict[int, list[int]]:
    """For every node the nodes that read it; -1 stands for an output of the pipeline."""
    readers: dict[int, list[int]] = {}
    for node in graph.nodes:
        for edge in (*node.inputs, *node.arguments.values(), *(edge for edge, _ in node.guard)):
            readers.setdefault(edge.node, []).append(node.id)
    for edge in graph.outputs:
        readers.setdefault(edge.node, []).append(-1)
    return readers


def _links(graph: Graph, last: GraphNode, readers: dict[int, list[int]]) -> Sequence[GraphNode]:
    """The chain that ends with this node, first link first; the node alone where there is none."""
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
        and before.device == after.device == "cpu"
        and not before.preserve
        and not before.hint
        and _same_rule(before.on_error, after.on_error)
    )


def _same_rule(before: object, after: object) -> bool:
    """Whether a failure means the same in two links; a value stands for the output of one of them."""
    return before is after is None or (isinstance(before, str) and isinstance(after, str) and before == after)


def _is_link(graph: Graph, node: GraphNode, readers: dict[int, list[int]]) -> bool:
    """Whether a longer chain of lines goes on after this node."""
    after = readers.get(node.id, [])
    if len(after) != 1 or after[0] < 0:
        return False
    follower = graph.nodes[after[0]]
    return follower.op.line_hook is not None and len(follower.inputs) == 1 and _continues(node, follower, readers)


def _joined(links: Sequence[GraphNode]) -> GraphNode:
    """One node for the chain: it takes the place of the last link and draws as the first one does."""
    op: OpDef = chain(tuple(link.op.name for link in links))
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
