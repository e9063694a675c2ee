"""The GPU forms of the operators, file by file: those of ``operators/color.py`` are in ``on_gpu/color.py``.

A file is imported with the first step that runs on a device. Files without an operator have the common parts of several
others.
"""
