"""The version: setup.cfg, saved graphs and ``pipeflow.__version__`` take it from here.

To read it with importlib.metadata would take a fifth of the import time of the whole package.
"""

VERSION = "0.1.0"
