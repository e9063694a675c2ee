"""The runners of stages: a class and a file for each kind, listed in ``table.py``. All derive from ``StageRunner``."""
