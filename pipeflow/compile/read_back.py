"""Numbers on the GPU that the host reads before a launch: the anchor and the shape of a slice, the shape of a reshape.

They are copied to the CPU as by ``.cpu()``, once for all readers.
"""

from dataclasses import replace

from pipeflow.operators import structure
from pipeflow.record.graph import Edge, Graph, GraphNode


def read_by_host(graph: Graph, node: GraphNode) -> list[int]:
    """The positions of inputs on the GPU that the host reads."""
    if node.device != "gpu" or not node.op.host_inputs:
        return []
    return [
        place for place, edge in enumerate(node.inputs) if place and graph.nodes[edge.node].device in ("gpu", "mixed")
    ]


def read_back(graph: Graph) -> Graph:
    """The graph with a copy to the CPU before each of these inputs."""
    if not any(read_by_host(graph, node) for node in graph.nodes):
        return graph
    nodes: list[GraphNode] = []
    moved: dict[Edge, Edge] = {}
    copies: dict[Edge, Edge] = {}
    for node in graph.nodes:
        inputs = [moved[edge] for edge in node.inputs]
        for place in read_by_host(graph, node):
            edge = inputs[place]
            if edge not in copies:
                copies[edge] = Edge(len(nodes), 0)
                nodes.append(_copy_of(edge, nodes, node))
            inputs[place] = copies[edge]
        made = node.moved(len(nodes), moved)
        nodes.append(replace(made, inputs=tuple(inputs)))
        for index in range(node.count):
            moved[Edge(node.id, index)] = Edge(made.id, index)
    return Graph(nodes, [moved[edge] for edge in graph.outputs])


def _copy_of(edge: Edge, nodes: list[GraphNode], reader: GraphNode) -> GraphNode:
    """The copy of an output to the CPU; it exists for the samples of the output."""
    made = nodes[edge.node]
    name = f"{made.name}.cpu" if made.count == 1 else f"{made.name}.cpu{edge.index}"
    spec = made.specs[edge.index]
    return GraphNode.added(len(nodes), structure.transfer, (edge,), name, made.guard, (spec,), reader.origin)


def announced(graph: Graph) -> list[str]:
    """The calls whose inputs are read back, for a warning: ``input 1 of fn.slice (slice)``."""
    return [
        f"input {place} of {node.op.title} ({node.name})" for node in graph.nodes for place in read_by_host(graph, node)
    ]
