"""Saved graphs with something missing, of another type, or from somewhere else: an error in words, never a KeyError."""

import json
import os

import pytest

from pipeflow import Pipeline, fn, pipeline_def
from pipeflow.errors import BadData


@pipeline_def(batch_size=2, num_threads=1, device_id=None, seed=1)
def define():
    angle = fn.random.uniform(range=(0.0, 9.0))
    return fn.rotate(fn.random.uniform(range=(0.0, 1.0), shape=[5, 4, 3]), angle=angle)


def changed(change):
    document = json.loads(define().serialize())
    change(document)
    return json.dumps(document)


@pytest.mark.parametrize("name", ["settings", "nodes", "outputs"])
def test_parts_of_the_graph_that_are_missing(name):
    """The part is named."""
    with pytest.raises(ValueError, match=f"a serialized pipeline is damaged: '{name}' of the graph is None"):
        Pipeline.deserialize(changed(lambda document: document.pop(name)))


def test_a_graph_without_outputs_is_none():
    """Nothing could be run."""
    with pytest.raises(ValueError, match="a serialized pipeline is damaged: it has no outputs"):
        Pipeline.deserialize(changed(lambda document: document.update(outputs=[])))


@pytest.mark.parametrize("name", ["op", "name", "device", "random_name"])
def test_fields_of_a_node_that_are_missing(name):
    """The field and the node are named."""
    with pytest.raises(ValueError, match=f"a serialized pipeline is damaged: '{name}' of node 1 is None"):
        Pipeline.deserialize(changed(lambda document: document["nodes"][1].pop(name)))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda document: document["nodes"][2].update(constants={"x": 1}),
            r"fn\.rotate \(rotate_0\) has no argument 'x'",
        ),
        (
            lambda document: document["nodes"][2]["nodes"].update(x=[0, 0]),
            r"fn\.rotate \(rotate_0\) has no argument 'x'",
        ),
        (
            lambda document: document["nodes"][1]["constants"].update(shape={"array": "", "shape": [1]}),
            "is no value .*dtype",
        ),
        (lambda document: document["nodes"][1]["constants"].update(shape={"tuple": 3}), "is no value"),
        (lambda document: document["nodes"][2].update(op="_constant", inputs=[], nodes={}), "lacks 'value'"),
        (
            lambda document: document["nodes"][2].update(op="_constant", inputs=[], nodes={}, constants={"value": "x"}),
            "AttributeError",
        ),
        (lambda document: document.update(nodes={}), r"'nodes' of the graph is \{\}"),
        (lambda document: document["nodes"].insert(0, "x"), "node 0 is 'x'"),
        (lambda document: document["nodes"][0].update(constants=[]), r"'constants' of node 0 is \[\]"),
        (
            lambda document: document["nodes"][2].update(inputs=[[2, 0]]),
            r"node 2 refers to \[2, 0\], which is not an output of an earlier node",
        ),
        (lambda document: document["nodes"][2].update(inputs=[[-1, 0]]), r"node 2 refers to \[-1, 0\]"),
        (lambda document: document["nodes"][2].update(inputs=["x"]), "node 2 refers to 'x'"),
        (lambda document: document["nodes"][2].update(guard=[[0, 0]]), r"node 2 refers to \[\[0, 0\]\]"),
        (lambda document: document.update(outputs=[[9, 0]]), r"\[9, 0\] is not an output of a node"),
        (lambda document: document.update(outputs=[[0]]), r"\[0\] is not an output of a node"),
    ],
)
def test_fields_of_other_types_and_nodes_that_are_not_there(change, message):
    """What is wrong is shown."""
    with pytest.raises(ValueError, match=f"is damaged: .*{message}"):
        Pipeline.deserialize(changed(change)).build()


def test_a_nest_without_end_is_no_graph():
    """Nor is a number of thousands of digits, or infinity."""
    for text in (
        "[" * 100_000,
        changed(lambda document: document["settings"].update(seed=float("inf"))),
        '{"format": ' + "1" * 5000 + "}",
    ):
        with pytest.raises(ValueError, match="this is not a serialized pipeline"):
            Pipeline.deserialize(text)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes on this system")
def test_only_a_regular_file_is_a_saved_graph(tmp_path):
    """A pipe would block for ever and a device never end: both are refused by name."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in (str(pipe), pipe, "/dev/zero"):
        with pytest.raises(BadData, match=f"{path} is not a regular file"):
            Pipeline.deserialize(filename=path)
