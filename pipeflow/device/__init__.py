"""The GPU as the executor and the operators see it: calls, the runtime, memory and tensors. It needs no CuPy."""
