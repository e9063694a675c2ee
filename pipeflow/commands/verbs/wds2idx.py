"""Writes the indexes of tar files, for readers.webdataset."""

import argparse

from pipeflow.commands import indexing
from pipeflow.commands.result import Result
from pipeflow.operators.readers.webdataset import write_index


def arguments(parser: argparse.ArgumentParser) -> None:
    indexing.arguments(parser)


def run(given: argparse.Namespace) -> Result:
    return indexing.run(given, write_index, "sample")
