"""The GPU forms of the operators. Those of ``operators/color.py`` are in ``on_gpu/color.py``, and so on.

A file is imported with the first step that runs on a device. A file without an operator has the common parts of several others.
"""
