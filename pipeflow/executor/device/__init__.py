"""Stages that run on a device: segments of operators, functions of the user, and what comes back to the CPU.

A segment is planned whole on the host: the shapes, arguments and random draws of all its steps. Then one copy takes samples,
rows of descriptors, tables and arguments to the device, and one launch an operator follows. Nothing waits for the device
but a staging block for the copy that read it last, and a CPU stage behind ``.cpu()`` for that copy alone. Which wait
protects what is written in ``pipeflow/device/runtime.py``.
"""
