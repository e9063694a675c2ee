"""fn.python_function with data on the GPU."""

from pipeflow.device.runtime import FunctionCall
from pipeflow.operators import python_function as python
from pipeflow.operators.functions.calls import wants_rng
from pipeflow.operators.on_gpu.functions import run


@python.python_function.gpu
def _(call: FunctionCall) -> None:
    args = call.args
    run(call, args.function, args.batch_processing, wants_rng(args.function), args.outputs)
