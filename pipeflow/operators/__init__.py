"""All operator declarations, one file a subject. Importing this package fills the registry."""

from pipeflow.operators import (
    audio,
    decoders,
    external_source,
    math,
    python_function,
    random,
    readers,
    structure,
)

__all__ = ["audio", "decoders", "external_source", "math", "python_function", "random", "readers", "structure"]
