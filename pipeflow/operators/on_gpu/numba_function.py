"""Functions compiled by numba-cuda."""

from typing import Any

import numpy as np

from pipeflow.device.runtime import FunctionCall
from pipeflow.kernels import gpu as kernels
from pipeflow.operators import numba_function as numba


def _numba(call: FunctionCall) -> None:
    args, module = call.args, call.runtime.module
    kinds = numba.kinds_of(args.in_types, args.ins_ndim)
    shapes = [[tuple(call.array(p, index).shape) for index in range(call.size)] for p in range(call.num_inputs)]
    extents = numba.shapes_of(args.setup_fn, shapes, args.outs_ndim, call.size)
    launch = kernels.numba_cuda.launcher(
        args.run_fn, numba.kinds_of(args.out_types, args.outs_ndim), kinds, args.blocks, args.threads_per_block
    )
    for index in range(call.size):
        call.current = index
        inputs = [call.array(position, index) for position in range(call.num_inputs)]
        numba.check_inputs(args.run_fn, kinds, [(np.dtype(x.dtype), x.ndim) for x in inputs])
        outputs = [module.empty(tuple(e[index].tolist()), dtype) for e, dtype in zip(extents, args.out_types)]
        launch(call.runtime.computing.ptr, [*outputs, *inputs])
        for output, array in enumerate(outputs):
            call.keep(output, array)
    call.current = -1


def _check_numba(args: Any) -> None:
    if args.batch_processing:
        raise ValueError(
            'batch_processing=True is for the CPU: with device="gpu" the kernel is launched for every sample'
        )
    if args.blocks is None or args.threads_per_block is None:
        raise ValueError('device="gpu" needs blocks and threads_per_block, the grid that run_fn is launched with')
    kernels.numba_cuda.require()


for _op in (numba.numba_function, numba.experimental_numba_function):
    _op.gpu(_numba)
    _op.gpu_check(_check_numba)
