"""Small programs as a DALI user writes them. Each runs unchanged under both libraries; only the import differs.

Names they find: pipeline_def, Pipeline, fn, ops, types, math, np; `show(x)` records outputs or plain values, and
`attempt(f)` what a call returns or the type of the exception it raises.
"""

SMALL = "batch_size=2, num_threads=1, device_id=None"

PROGRAMS: dict[str, str] = {}


def program(name: str, text: str) -> None:
    PROGRAMS[name] = text.replace("SMALL", SMALL)


DTYPES = "uint8 uint16 uint32 uint64 int8 int16 int32 int64 float32 float64 bool"
BINARY = {
    "add": "a + b", "sub": "a - b", "mul": "a * b", "truediv": "a / b", "floordiv": "a // b", "mod": "a % b",
    "pow": "a ** b", "and": "a & b", "or": "a | b", "xor": "a ^ b", "lshift": "a << b", "rshift": "a >> b",
    "eq": "a == b", "ne": "a != b", "lt": "a < b", "le": "a <= b", "gt": "a > b", "ge": "a >= b",
    "min": "math.min(a, b)", "max": "math.max(a, b)", "atan2": "math.atan2(a, b)", "fpow": "math.fpow(a, b)",
    "math.pow": "math.pow(a, b)", "clamp": "math.clamp(a, b, 3)",
}  # fmt: skip
for _name, _expression in BINARY.items():
    program(
        f"arithmetic: {_name} of every pair of types",
        f"""
def run(left, right):
    @pipeline_def(SMALL)
    def pipe():
        a = fn.external_source(lambda: [np.array([7, 2, 5], left)] * 2)
        b = fn.external_source(lambda: [np.array([2, 3, 1], right)] * 2)
        return {_expression}
    p = pipe()
    p.build()
    return p.run()
for left in "{DTYPES}".split():
    for right in "{DTYPES}".split():
        attempt(lambda: run(left, right))
""",
    )

for _name, _expression in {
    "number on the right": "a + 3, a * 2.5, a - True, a // 2, a % 3, a / 2, a ** 2, a << 1, a & 1, a > 2, a == 2",
    "number on the left": "3 + a, 2.5 * a, 100 - a, 100 // a, 100 % a, 5 / a, 2 ** a, 1 << a, 6 | a, 2 < a",
    "typed constant": "a + types.Constant(3, types.UINT8), a * types.Constant(2, dtype=types.FLOAT)",
    "array constant": "a + types.Constant([1, 2, 3]), a + types.Constant(np.array([1, 2, 3], np.float64))",
}.items():
    program(
        f"arithmetic: {_name}",
        f"""
def run(dtype, index):
    @pipeline_def(SMALL)
    def pipe():
        a = fn.external_source(lambda: [np.array([7, 2, 5], dtype)] * 2)
        return ({_expression})[index]
    p = pipe()
    p.build()
    return p.run()
for dtype in "{DTYPES}".split():
    for index in range({_expression.count(", a") + _expression.count(" a,") + 1}):
        attempt(lambda: run(dtype, index))
""",
    )

UNARY = (
    "abs fabs floor ceil sqrt rsqrt cbrt exp log log2 log10 sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh"
)
program(
    "arithmetic: functions of one argument",
    f"""
def run(dtype, function):
    @pipeline_def(SMALL)
    def pipe():
        return function(fn.external_source(lambda: [np.array([1, 0, 1], dtype)] * 2))
    p = pipe()
    p.build()
    return p.run()
functions = [getattr(math, name) for name in "{UNARY}".split()]
functions += [lambda x: -x, lambda x: +x, lambda x: ~x, lambda x: abs(x)]
for dtype in "{DTYPES}".split():
    for function in functions:
        attempt(lambda: run(dtype, function))
""",
)

program(
    "arithmetic: values at the edges",
    """
def run(values, dtype, expression):
    @pipeline_def(SMALL)
    def pipe():
        return expression(fn.external_source(lambda: [np.array(values, dtype)] * 2))
    p = pipe()
    p.build()
    return p.run()
for values, dtype, expression in (
    ([-7, 7, -8], "int32", lambda x: x % 3), ([-7, 7, -8], "int32", lambda x: x // 3),
    ([-7, 7, -8], "int32", lambda x: x // -3), ([-7.5, 7.5], "float32", lambda x: x // 2),
    ([-7.5, 7.5], "float32", lambda x: x % 2), ([250, 3], "uint8", lambda x: -x), ([250, 3], "uint8", lambda x: x * x),
    ([127, -128], "int8", lambda x: x + types.Constant(1, types.INT8)), ([2, -2], "int32", lambda x: x ** -1),
    ([2, -2], "int32", lambda x: x ** 0), ([1, 0], "int32", lambda x: 5 // x), ([1, 0], "int32", lambda x: 5 / x),
    ([1, 0], "int32", lambda x: 5 % x), ([1, 0], "float32", lambda x: 5 / x), ([3, -3], "int32", lambda x: math.abs(x)),
):
    attempt(lambda: run(values, dtype, expression))
""",
)

program(
    "arithmetic: shapes",
    """
def run(left, right):
    @pipeline_def(SMALL)
    def pipe():
        a = fn.external_source(lambda: [np.ones(left, np.float32)] * 2)
        b = fn.external_source(lambda: [np.ones(right, np.float32)] * 2)
        return a + b
    p = pipe()
    p.build()
    return p.run()
for left, right in (((2, 3), (3,)), ((2, 1), (1, 3)), ((), (4,)), ((2, 3), (2,)), ((1,), (1, 1)), ((3, 1, 2), (4, 1))):
    attempt(lambda: run(left, right))
""",
)

INDICES = [
    "x[0]", "x[-1]", "x[1:]", "x[:2]", "x[:-1]", "x[::2]", "x[::-1]", "x[3:0:-2]", "x[1, 2]", "x[:, 1]", "x[1:3, ::2]",
    "x[:, -1]", "x[0, :]", "x[10:]", "x[5]", "x[0, 0, 0]", "x[0, 0, 0, 0]", "x[:, newaxis]", "x[newaxis]", "x[..., 0]",
    "x[1.5]", "x['a']", "x[i]", "x[i:]", "x[:i]", "x[-i]", "x[:, i]", "x[i:i + 1]", "x[::0]", "x[2:1]",
]  # fmt: skip
for _layout in ("", "HWC"):
    program(
        f"indexing with layout {_layout!r}",
        f"""
def run(expression):
    @pipeline_def(SMALL)
    def pipe():
        data = [np.arange(60, dtype=np.int32).reshape(4, 5, 3) + 100 * k for k in range(2)]
        x = fn.external_source(lambda: data, layout={_layout!r} or None)
        i = fn.external_source(lambda: [np.int32(1), np.int32(2)])
        return eval(expression, dict(x=x, i=i, newaxis=newaxis))
    p = pipe()
    p.build()
    return p.run()
for expression in {INDICES}:
    attempt(lambda: run(expression))
""",
    )

SOURCES = {
    "list of batches": "[[np.zeros(2), np.ones(2)]] * 3",
    "callable without arguments": "lambda: [np.zeros(2), np.ones(2)]",
    "callable with the iteration": "lambda i: [np.full(2, i), np.full(2, i + 10)]",
    "one array a batch": "lambda: np.arange(6, dtype=np.int16).reshape(2, 3)",
    "generator function": "generator",
    "iterator": "iter([[np.zeros(2), np.ones(2)]] * 3)",
    "ragged": "lambda: [np.zeros(2), np.ones(5)]",
    "mixed types": "lambda: [np.zeros(2, np.int32), np.ones(2, np.float32)]",
    "mixed axes": "lambda: [np.zeros(2), np.ones((2, 2))]",
    "too large": "lambda: [np.zeros(2)] * 3",
    "shorter": "lambda: [np.zeros(2)]",
    "empty batch": "lambda: []",
    "a number": "lambda: 5",
    "text": "lambda: 'abc'",
    "none": "lambda: None",
    "lists of lists": "lambda: [[1, 2], [3, 4]]",
    "fails": "lambda: 1 // 0",
    "tuple": "lambda: (np.zeros(2), np.ones(2))",
    "float16": "lambda: [np.ones(2, np.float16)] * 2",
    "bool": "lambda: [np.ones(2, bool)] * 2",
}
for _name, _source in SOURCES.items():
    for _cycle in ("", ", cycle=True", ", cycle='raise'", ", cycle=False"):
        if _cycle and _name not in ("list of batches", "generator function", "iterator"):
            continue
        program(
            f"external_source: {_name}{_cycle}",
            f"""
def generator():
    for i in range(3):
        yield [np.full(2, i), np.full(2, 10 * i)]
def make():
    @pipeline_def(SMALL)
    def pipe():
        return fn.external_source({_source}{_cycle})
    p = pipe()
    p.build()
    return p
p = make()
for _ in range(5):
    attempt(p.run)
attempt(p.reset)
for _ in range(2):
    attempt(p.run)
""",
        )

program(
    "external_source: a callable for samples",
    """
def source(info):
    if info.iteration == 2:
        raise StopIteration
    return np.array([info.idx_in_epoch, info.idx_in_batch, info.iteration, info.epoch_idx])
@pipeline_def(SMALL)
def pipe():
    return fn.external_source(source, batch=False)
p = pipe()
p.build()
for _ in range(2):
    for _ in range(3):
        attempt(p.run)
    p.reset()
""",
)
program(
    "external_source: several outputs",
    """
@pipeline_def(SMALL)
def pipe():
    a, b = fn.external_source(lambda: ([np.zeros(2)] * 2, [np.ones((1, 2, 3), np.uint8)] * 2), num_outputs=2,
                              layout=["X", "HWC"])
    return b, a
p = pipe()
p.build()
attempt(p.run)
@pipeline_def(SMALL)
def too_few():
    return fn.external_source(lambda: ([np.zeros(2)] * 2,), num_outputs=2)[0]
attempt(lambda: (lambda p: (p.build(), p.run()))(too_few()))
""",
)
for _arguments in (
    "dtype=types.FLOAT",
    "dtype=types.UINT8",
    "ndim=1",
    "ndim=3",
    "layout='HWC'",
    "layout='HW'",
    "layout='HW', ndim=3",
    "dtype=[types.UINT8]",
    "no_copy=True",
    "repeat_last=True",
    "batch_info=True",
    "batch=False",
    "num_outputs=0",
    "num_outputs=-1",
    "cycle='maybe'",
    "wrong=1",
    "dtype='abc'",
):
    program(
        f"external_source: checks, {_arguments}",
        f"""
def make():
    @pipeline_def(SMALL)
    def pipe():
        return fn.external_source(lambda: [np.ones((2, 3), np.uint8)] * 2, {_arguments})
    p = pipe()
    p.build()
    return p.run()
attempt(make)
""",
    )

program(
    "feeding inputs by name",
    """
@pipeline_def(batch_size=3, num_threads=1, device_id=None, prefetch_queue_depth=1)
def pipe():
    return fn.external_source(name="left") + fn.external_source(name="right", dtype=types.INT32)
p = pipe()
p.build()
p.feed_input("left", [np.ones(2, np.int32)] * 3)
p.feed_input("right", np.arange(6, dtype=np.int32).reshape(3, 2))
attempt(p.run)
attempt(lambda: p.run(left=[np.ones(2, np.int32)] * 2, right=[np.ones(2, np.int32)] * 2))
attempt(lambda: p.feed_input("nobody", [np.ones(2)] * 3))
attempt(lambda: p.feed_input("right", [np.ones(2)] * 3))
attempt(lambda: p.input_feed_count("left"))
attempt(lambda: p.run(nobody=[np.ones(2)]))
""",
)

FUNCTIONS = {
    "identity": "lambda x: x",
    "two outputs": "lambda x: (x, x + 1), num_outputs=2",
    "other type": "lambda x: x.astype(np.float32)",
    "scalar array": "lambda x: x.sum()",
    "view": "lambda x: x[::-1]",
    "fortran": "lambda x: np.asfortranarray(np.outer(x, x))",
    "transposed": "lambda x: np.arange(6).reshape(2, 3).T",
    "empty": "lambda x: x[:0]",
    "none": "lambda x: None",
    "fails": "lambda x: {}['key']",
    "too few": "lambda x: x, num_outputs=2",
    "too many": "lambda x: (x, x)",
    "batch": "lambda xs: [x + 1 for x in xs], batch_processing=True",
    "batch, two outputs": "lambda xs: (xs, [x + 1 for x in xs]), batch_processing=True, num_outputs=2",
    "batch, one array": "lambda xs: np.stack(xs), batch_processing=True",
    "batch, wrong number": "lambda xs: xs[:1], batch_processing=True",
    "batch, no list": "lambda xs: 5, batch_processing=True",
    "layout": "lambda x: np.zeros((2, 3, 1)), output_layouts='HWC'",
    "wrong layout": "lambda x: np.zeros((2, 3)), output_layouts='HWC'",
    "layouts": "lambda x: (np.zeros((2, 3, 1)), x), num_outputs=2, output_layouts=['HWC']",
    "too many layouts": "lambda x: x, output_layouts=['A', 'B']",
    "mixed types": "lambda x: x.astype(np.float32) if x[0] else x",
    "mixed axes": "lambda x: x[None] if x[0] else x",
    "ragged": "lambda x: np.zeros(x[0] + 1)",
    "wrong number of parameters": "lambda: 5",
    "not callable": "5",
    "negative outputs": "lambda x: x, num_outputs=-1",
    "stops": "lambda x: next(iter([]))",
}
for _name, _arguments in FUNCTIONS.items():
    program(
        f"python_function: {_name}",
        f"""
def make():
    @pipeline_def(SMALL)
    def pipe():
        x = fn.external_source(lambda: [np.array([k, 5, 6], np.int32) for k in range(2)])
        made = fn.python_function(x, function={_arguments})
        return (*made,) if isinstance(made, (list, tuple)) else made
    p = pipe()
    p.build()
    return p.run()
attempt(make)
""",
    )
program(
    "python_function: called for its effect only",
    """
seen = []
@pipeline_def(SMALL)
def pipe():
    x = fn.external_source(lambda: [np.array([k, 5, 6], np.int32) for k in range(2)])
    fn.python_function(x, function=lambda v: seen.append(int(v[0])), num_outputs=0)
    return x
p = pipe()
p.build()
attempt(p.run)
attempt(lambda: seen[:2])
""",
)
program(
    "python_function: no input and several inputs",
    """
@pipeline_def(SMALL)
def pipe():
    x = fn.external_source(lambda: [np.array([k, 5], np.int32) for k in range(2)])
    alone = fn.python_function(function=lambda: np.ones(2, np.uint8))
    return alone, fn.python_function(x, x + 1, alone, function=lambda a, b, c: a * b + c)
p = pipe()
p.build()
attempt(p.run)
""",
)
program(
    "the same operators as classes",
    """
@pipeline_def(SMALL)
def pipe():
    x = ops.ExternalSource(lambda: [np.array([k, 5], np.int32) for k in range(2)])()
    doubled = ops.PythonFunction(function=lambda v: v * 2)(x)
    return x, doubled, ops.random.CoinFlip(probability=1.0)()
p = pipe()
p.build()
attempt(p.run)
""",
)

PIPELINES = {
    "returns a constant": "return 5, 2.5, True, np.arange(3), [1, 2]",
    "returns nothing": "pass",
    "returns a nested list": "return [fn.random.coin_flip(), [fn.random.coin_flip()]]",
    "returns text": "return 'text'",
    "unknown operator": "return fn.no_such_operator()",
    "unknown argument": "return fn.random.uniform(lo=1)",
    "a wrong type of argument": "return fn.random.uniform(range='ab')",
    "too many inputs": "return fn.random.coin_flip(1, 2, 3)",
    "a list for data": "return fn.cast([fn.random.coin_flip()] * 2, dtype=types.FLOAT)",
    "truth of a node": "return 1 if fn.random.coin_flip() else 2",
    "iterating a node": "return list(fn.random.coin_flip())",
    "the same name twice": "return fn.random.coin_flip(name='a', seed=1), fn.random.coin_flip(name='a', seed=2)",
    "constants": "return types.Constant([[1, 2], [3, 4]]), types.Constant(3.5), types.Constant(7, types.UINT8)",
    "a constant with a layout": "return types.Constant(np.zeros((2, 3, 1), np.uint8), layout='HWC')",
    "shapes": "return types.Constant(np.zeros((2, 3), np.uint8)).shape()",
    "an even coin": "return fn.random.coin_flip(probability=1.0), fn.random.coin_flip(probability=0.0)",
    "a bad probability": "return fn.random.coin_flip(probability=1.5)",
    "a bad range": "return fn.random.uniform(range=(3.0, 1.0))",
    "a bad device": "return fn.random.coin_flip(device='tpu')",
    "types of random numbers": "return (fn.random.uniform(), fn.random.normal(), fn.random.coin_flip(),"
    " fn.random.uniform(dtype=types.INT16), fn.random.coin_flip(dtype=types.BOOL))",
}
for _name, _body in PIPELINES.items():
    shows = "types" if _name == "types of random numbers" else "values"
    program(
        f"pipeline: {_name}",
        f"""
def make():
    @pipeline_def(SMALL)
    def pipe():
        {_body}
    p = pipe()
    p.build()
    outputs = p.run()
    return [str(np.asarray(o[0]).dtype) for o in outputs] if {shows!r} == "types" else outputs
attempt(make)
""",
    )
program(
    "pipeline: constructor",
    """
def make(**arguments):
    @pipeline_def(**arguments)
    def pipe():
        return fn.random.coin_flip(probability=1.0)
    p = pipe()
    p.build()
    return p.run()
for arguments in (dict(), dict(batch_size=2), dict(batch_size=0, num_threads=1, device_id=None),
                  dict(batch_size=-1, num_threads=1, device_id=None), dict(batch_size=2, num_threads=0, device_id=None),
                  dict(batch_size=2, num_threads=1, device_id=None, prefetch_queue_depth=0),
                  dict(batch_size=2, num_threads=1, device_id=None, prefetch_queue_depth=-2),
                  dict(batch_size=2, num_threads=1, device_id=None, wrong=1),
                  dict(batch_size="two", num_threads=1, device_id=None),
                  dict(batch_size=2, num_threads=1, device_id=None, seed="abc"),
                  dict(batch_size=2, num_threads=1, device_id=None, output_dtype=types.INT32, output_ndim=0),
                  dict(batch_size=2, num_threads=1, device_id=None, output_dtype=types.FLOAT),
                  dict(batch_size=2, num_threads=1, device_id=None, output_ndim=3),
                  dict(batch_size=2, num_threads=1, device_id=None, exec_pipelined=False, exec_async=False),
                  dict(batch_size=2, num_threads=1, device_id=None, prefetch_queue_depth=4)):
    attempt(lambda: make(**arguments))
""",
)
program(
    "pipeline: order of calls",
    """
@pipeline_def(SMALL)
def pipe():
    return fn.external_source(lambda i: [np.full(1, i)] * 2)
p = pipe()
attempt(p.run)
q = pipe()
q.build()
q.schedule_run()
attempt(q.share_outputs)
attempt(q.release_outputs)
q.schedule_run()
attempt(q.outputs)
r = pipe()
r.build()
r.run()
attempt(r.schedule_run)
attempt(r.outputs)
""",
)
program(
    "pipeline: subclass and instance",
    """
class Mine(Pipeline):
    def __init__(self):
        super().__init__(batch_size=2, num_threads=1, device_id=None)
        self.source = ops.ExternalSource(lambda: [np.ones(1)] * 2)
    def define_graph(self):
        return self.source() + 1
p = Mine()
p.build()
attempt(p.run)
q = Pipeline(batch_size=2, num_threads=1, device_id=None)
with q:
    q.set_outputs(fn.external_source(lambda: [np.ones(1)] * 2) * 3)
q.build()
attempt(q.run)
attempt(lambda: (q.batch_size, q.max_batch_size, q.num_threads, q.device_id, q.prefetch_queue_depth, q.exec_pipelined))
class Bad(Pipeline):
    def define_graph(self):
        return 5 if fn.random.coin_flip() else 6
attempt(lambda: Bad(batch_size=2, num_threads=1, device_id=None).build())
""",
)
program(
    "pipeline: arguments of the decorated function",
    """
@pipeline_def(SMALL)
def pipe(value, scale=2):
    return fn.external_source(lambda: [np.full(1, value)] * 2) * scale
def run(*a, **k):
    p = pipe(*a, **k)
    p.build()
    return p.run()
attempt(lambda: run(5))
attempt(lambda: run(5, scale=3))
attempt(lambda: run(value=5, num_threads=2))
attempt(lambda: run())
attempt(lambda: run(5, wrong=1))
@pipeline_def
def bare():
    return types.Constant(1)
attempt(lambda: (lambda p: (p.build(), p.run())[1])(bare(batch_size=2, num_threads=1, device_id=None)))
""",
)
program(
    "batches: methods",
    """
@pipeline_def(SMALL)
def pipe():
    return (fn.external_source(lambda: [np.full((2, 3), k, np.int16) for k in range(2)], layout="HW"),
            fn.external_source(lambda: [np.full((1 + k, 3), k, np.float32) for k in range(2)]))
p = pipe()
p.build()
dense, ragged = p.run()
for batch in (dense, ragged):
    for expression in (
        "len(b)", "b.shape()", "b.layout()", "b.is_dense_tensor()", "str(b.dtype).split('.')[-1]", "b.as_array()",
        "np.asarray(b.as_tensor())", "np.asarray(b.at(1))", "np.asarray(b[1])", "np.asarray(b[-1])", "b[2]", "b.at(5)",
        "[np.asarray(x) for x in b]", "np.asarray(b.as_reshaped_tensor([4, 3]))", "np.asarray(b.as_cpu()[0])",
        "b[0].shape()", "b[0].layout()", "str(b[0].dtype).split('.')[-1]", "np.asarray(b[0].squeeze())",
        "b[0].source_info()",
    ):
        attempt(lambda: eval(expression, dict(b=batch, np=np)))
""",
)
program(
    "types: constants and conversions",
    """
attempt(lambda: [int(t) for t in (types.UINT8, types.INT64, types.FLOAT16, types.FLOAT, types.FLOAT64, types.BOOL)])
attempt(lambda: [np.dtype(types.to_numpy_type(t)).name for t in (types.UINT8, types.FLOAT, types.BOOL, types.INT64)])
attempt(lambda: types.Constant(5) + types.Constant(6))
attempt(lambda: [int(t) for t in (types.RGB, types.GRAY, types.INTERP_NN, types.INTERP_LINEAR, types.INTERP_GAUSSIAN)])
""",
)
