"""All operator declarations, one file a subject. Importing this package fills the registry."""

from pipeflow.operators import audio, external_source, math, python_function, random, structure

__all__ = ["audio", "external_source", "math", "python_function", "random", "structure"]
