"""Moves the GPU work of a graph to the CPU, for pipelines without a GPU.

Steps with ``device="gpu"`` or ``"mixed"`` become CPU steps; ``.gpu()`` and ``.cpu()`` are removed. Names and random
numbers stay the same, so the samples are those of a GPU, up to the rounding of sums.
"""

from dataclasses import replace

from pipeflow.record.graph import Edge, Graph, GraphNode


def on_cpu(graph: Graph) -> Graph:
    """The graph with all work on the CPU; an error names an operator that needs a GPU."""
    moved: dict[Edge, Edge] = {}  # edges of the given graph -> edges of the new one
    nodes: list[GraphNode] = []
    for node in graph.nodes:
        if node.op.role == "transfer":
            moved[Edge(node.id, 0)] = moved[node.inputs[0]]
            continue
        if "cpu" not in node.op.devices:
            raise ValueError(
                f"{node.op.title} ({node.name}) runs only on a GPU, and this pipeline has none"
                + (f"; {node.origin.describe()}" if node.origin else "")
            )
        for index in range(node.count):
            moved[Edge(node.id, index)] = Edge(len(nodes), index)
        nodes.append(replace(node.moved(len(nodes), moved), device="cpu"))
    return Graph(nodes, [moved[edge] for edge in graph.outputs])


def work_for_a_gpu(graph: Graph) -> list[str]:
    """The calls that bring data to a GPU, each once: ``fn.decoders.image(device="mixed")``, ``.gpu()``."""

    def on_gpu(edge: Edge) -> bool:
        return graph.nodes[edge.node].device in ("gpu", "mixed")

    found = [
        ".gpu()" if node.op.role == "transfer" else f'{node.op.title}(device="{node.device}")'
        for node in graph.nodes
        if node.device == "mixed" or (node.device == "gpu" and not any(map(on_gpu, node.inputs)))
    ]
    return list(dict.fromkeys(found))
