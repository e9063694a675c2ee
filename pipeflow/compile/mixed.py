"""Decoders with ``device="mixed"`` and sources with ``device="gpu"``: CPU work, and a copy to the GPU.

A decoder without a GPU library becomes the same decoder on the CPU, which all threads run, and a copy to the GPU. A
source also becomes a CPU source and a copy.
"""

from dataclasses import replace

from pipeflow.operators import structure
from pipeflow.record.graph import Edge, Graph, GraphNode


def on_gpu(node: GraphNode) -> bool:
    """True if nvImageCodec can decode for this node; the declaration says for which arguments."""
    return node.op.codec_hook is not None and node.op.codec_hook(node.op.known(node.constants))


def split(graph: Graph, codec: bool) -> Graph:
    """The graph with sources, and decoders that the GPU does not have, on the CPU. ``codec``: nvImageCodec is used."""
    apart = {
        node.id
        for node in graph.nodes
        if (node.device == "mixed" and not (codec and on_gpu(node)))
        or (node.device == "gpu" and node.op.factory is not None)
    }
    if not apart:
        return graph
    nodes: list[GraphNode] = []
    moved: dict[Edge, Edge] = {}
    for node in graph.nodes:
        made = node.moved(len(nodes), moved)
        nodes.append(made)
        outputs = [Edge(made.id, index) for index in range(node.count)]
        if node.id in apart:
            nodes[-1] = replace(made, device="cpu")
            for index in range(node.count):
                name = f"{node.name}.gpu" if node.count == 1 else f"{node.name}.gpu{index}"
                copy = replace(
                    made,
                    id=len(nodes),
                    op=structure.transfer,
                    inputs=(outputs[index],),
                    constants={},
                    arguments={},
                    count=1,
                    name=name,
                    random_name=name,
                    device="gpu",
                    seed=None,
                    specs=(node.specs[index],),
                )
                nodes.append(copy)
                outputs[index] = Edge(copy.id, 0)
        for index, edge in enumerate(outputs):
            moved[Edge(node.id, index)] = edge
    return Graph(nodes, [moved[edge] for edge in graph.outputs])
