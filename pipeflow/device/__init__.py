"""What the executor and operators ask of a GPU: calls, the runtime, memory and tensors. No part of it needs CuPy."""
