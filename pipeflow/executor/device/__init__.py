"""Stages that run on a device: segments of operators, functions of the user, and copies to the CPU.

A whole segment is planned on the host: the shapes, arguments and random numbers of all its steps. Then one copy takes samples,
rows of descriptors, tables and arguments to the device, and one launch for each operator follows. Only two waits exist:
a staging block waits for the last copy from it, and a CPU stage after ``.cpu()`` waits for that copy.
``device/runtime.py`` says which wait protects what.
"""
