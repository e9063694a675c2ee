"""Writes the indexes of TFRecord files, for readers.tfrecord."""

import argparse

from pipeflow.commands import indexing
from pipeflow.commands.result import Result
from pipeflow.operators.readers.tfrecord import write_index


def arguments(parser: argparse.ArgumentParser) -> None:
    indexing.arguments(parser)


def run(given: argparse.Namespace) -> Result:
    return indexing.run(given, write_index, "record")
