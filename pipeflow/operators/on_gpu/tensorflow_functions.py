"""fn.py_function with data on the GPU; py_func and numpy_function give NumPy arrays, which are on the CPU."""

from pipeflow.declare import Args, Outputs
from pipeflow.device.runtime import FunctionCall
from pipeflow.operators import tensorflow_functions
from pipeflow.operators.on_gpu.functions import run
from pipeflow.operators.on_gpu.tensor_functions import with_tensors


@tensorflow_functions.py_function.gpu
def _(call: FunctionCall) -> None:
    args = call.args
    promised = Outputs(args.Tout.specs)
    if args.framework == "numpy":
        run(call, args.func, False, False, promised, "Tout")
    else:
        with_tensors(call, args.framework, args.func, False, promised, "Tout")


@tensorflow_functions.py_function.gpu_check
def _(args: Args) -> None:
    if args.differentiable:
        raise ValueError("differentiable=True is for the CPU: give the function its data there, x.cpu()")
