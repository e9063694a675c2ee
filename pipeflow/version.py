"""The version: setup.cfg, saved graphs and ``pipeflow.__version__`` take it from here.

Asking importlib.metadata for it would cost a fifth of the import time of the whole package.
"""

VERSION = "0.1.0"
