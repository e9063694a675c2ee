"""Readers: each a class with `__len__` and `fetch(i)`; `reader.py` declares them, `order.py` gives their order."""

PAGE = """Readers return the samples of a data set in order or shuffled, all of them or in shards.
[Readers](../readers.md) explains the arguments that they share.
"""
