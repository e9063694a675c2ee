"""The parts of fn.external_source: the kinds of sources, and the worker processes that call them ahead of time."""
