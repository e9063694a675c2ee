"""Readers: each a class with `__len__` and `fetch(i)`; `order.py` says which sample comes when."""
