"""Vector instructions for the kernels, written as LLVM IR.

Numba does not find the fastest form of a resampling loop: independent sums that stay in registers while one weight is broadcast,
and shuffles between interleaved and planar pixels. The vector functions here have this form. Each is declared with
`vector_function` (instructions.py) and called from kernels like a function of Python.
"""
