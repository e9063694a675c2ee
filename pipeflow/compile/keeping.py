"""The samples that ``fn.cache`` may keep: those of one reader that are the same in every epoch."""

from pipeflow.compile.computed import edges_of
from pipeflow.errors import add_notes
from pipeflow.record.graph import Graph, GraphNode


def check(graph: Graph) -> None:
    """Refuses a cache of samples that are not the same in every epoch, or that have no index of a reader."""
    for node in graph.nodes:
        if node.op.role == "kept":
            reason = _refused(graph, node)
            if reason:
                error = ValueError(f"{node.op.title}: {reason}")
                add_notes(error, [node.origin.describe()] if node.origin is not None else [])
                raise error


def _refused(graph: Graph, node: GraphNode) -> str:
    if node.guard:
        return "it is inside a branch: call it before the condition"
    above: dict[int, GraphNode] = {}
    todo = [edge.node for edge in edges_of(node)]
    while todo:
        found = graph.nodes[todo.pop()]
        if found.id not in above:
            above[found.id] = found
            todo += [edge.node for edge in edges_of(found)]
    readers = [found for found in above.values() if found.op.fetches]
    for found in above.values():
        traits = found.traits
        if found.op.fetches or found.op.role == "constant":
            continue
        if found.op.factory is not None:
            return f"its data comes from {found.op.title}, whose samples have no index: only those of a reader can be found again"
        if traits.user_code:
            return (
                f"{found.op.title} before it calls a function, which may give other results every time: "
                "call the cache before it, or put that work into a reader or a data set"
            )
        if found.op.random:
            return f"{found.op.title} before it draws different numbers in every epoch: call the cache before it"
        if found.guard or found.op.role in ("merge", "late merge"):
            return f"{found.op.title} before it depends on a condition: call the cache before the condition"
        if found.device != "cpu" or traits.granularity != "sample" or found.op.role == "transfer":
            return f"{found.op.title} before it works on whole batches or on the GPU: call the cache before it"
    if len(readers) != 1:
        names = ", ".join(found.op.title for found in readers)
        return (
            f"its data comes from {f'several readers ({names})' if readers else 'no reader'}, and one reader is needed"
        )
    return ""
