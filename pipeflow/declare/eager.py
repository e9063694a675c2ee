"""Calls outside a pipeline, which run at once in the caller's thread."""

import enum
import marshal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from pipeflow import seeds, types
from pipeflow.declare.binding import Call, bind, input_set_size
from pipeflow.declare.bound import Bound, owned, run_whole
from pipeflow.declare.calls import BatchCall
from pipeflow.declare.drawn import DrawnArray, ReportedArray
from pipeflow.declare.parameters import Node
from pipeflow.declare.specs import UNKNOWN, Spec
from pipeflow.declare.written import NO_KEY, same_call
from pipeflow.errors import add_notes, count_of
from pipeflow.tensors import TensorListCPU, as_sample


def eager(call: Call) -> Any:
    """Runs a call at once in the caller's thread: an array is one sample, a list or TensorListCPU a batch."""
    op = call.op
    given = (*call.inputs, *call.arguments.values())
    if op.factory is not None or input_set_size(call.inputs) or any(isinstance(value, Node) for value in given):
        return Node.outside(call)
    if call.device not in (None, "cpu"):
        raise ValueError(f"{op.title}: the eager call runs on the CPU, got device={call.device!r}")
    batched = [x for x in (*call.inputs, *call.arguments.values()) if isinstance(x, (TensorListCPU, list))]
    size = len(batched[0]) if batched else 1
    inputs = [_batch_of(x, size) for x in call.inputs]
    if op.generic and inputs[0] is not call.inputs[0] and not inputs[0].layout() and len(inputs[0]):
        inputs[0] = TensorListCPU(inputs[0], op.layout_of_array(inputs[0].ndim))
    for batch in (*inputs, *call.arguments.values()):
        if len(batch) != size:
            raise ValueError(f"{op.title}: the inputs have {count_of(len(batch), 'sample')} and {size}")
    drawn = op.random and call.key is None
    again = replace(call) if drawn and not given else None
    if op.random and call.key is None:
        call.key = seeds.system_seed() if call.seed is None else call.seed
    try:
        outputs, layouts = run_batch(call, inputs, size)
    except Exception as error:
        add_notes(error, [f"in {op.title}", *([call.origin.describe()] if call.origin else [])])
        raise
    results: list[Any] = []
    for values, layout in zip(outputs, layouts, strict=True):
        if batched:
            batch = TensorListCPU(values, layout or "")
            batch.key = call.key if drawn else None
            results.append(batch)
        else:
            results.append(_reported(_first(values), call.key, again) if drawn else _first(values))
    return op.pack(results, call.constants)


# ----------------------------------------------------------------------------------------------------
# The same call again


PLAIN_CALLS = 64  # forms of calls that are kept for an operator
PLAIN_SPECS = 1024  # the same with shapes and types of inputs
LAST_CALLS = 4  # those for one shape that are compared with the objects of a call
NOTHING: Mapping[str, Any] = {}


class PlainCall:
    """A checked call of an operator on plain arrays, kept for the next call with the same arguments."""

    __slots__ = ("bound", "constants", "packs")

    def __init__(self, call: Call) -> None:
        self.constants = call.constants
        count = call.op.outputs_of(call.constants, len(call.inputs))
        self.bound = Bound(call.op, call.constants, count)
        self.packs = count != 1 or call.op.names_hook is not None or call.op.list_hook is not None

    def prepare(self, inputs: Sequence[np.ndarray]) -> Any:
        """The function that runs the call on inputs of these shapes and types."""
        if not all(x.dtype in types.NUMBERS for x in inputs):
            raise TypeError("not a type of numbers")
        op, constants = self.bound.op, self.constants
        layouts = [op.layout_of_array(x.ndim) if not place else "" for place, x in enumerate(inputs)]
        run = self.bound.prepared(inputs, layouts)
        if not self.packs:
            return run if inputs or op.random else _copied(run)
        if op.names_hook is None and op.list_hook is None and self.bound.count > 1:
            return run
        several = self.bound.count != 1
        return lambda inputs, key: op.pack(run(inputs, key) if several else (run(inputs, key),), constants)


def _copied(run: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
    """What makes an array out of constants alone: it is made once, and every call gets a copy of it."""
    made = run((), None)
    if not made.flags.writeable:  # an array that all calls share
        return lambda _inputs, _key: made
    kept = made.copy("K")
    return lambda _inputs, _key: kept.copy("K")


def form_of(count: int, keywords: Mapping[str, Any]) -> tuple[Any, ...] | None:
    """The form of a call: calls of one form differ only in their input arrays. None for a call that is not plain.

    ``marshal`` distinguishes values that are equal but not the same: 1, 1.0 and True, 0.0 and -0.0. Its second version
    writes equal bytes for equal values; the bytes of later versions also depend on other references to the values.
    """
    values = list(keywords.values())
    others: list[Any] = []
    if not SCALARS.issuperset(map(type, values)):
        for index, value in enumerate(values):
            kind = type(value)
            if kind is list or kind is tuple:
                if not (SCALARS.issuperset(map(type, value)) or _only_scalars(value)):
                    return None
            elif kind is np.ndarray:
                if value.size > SMALL or value.dtype not in types.NUMBERS:
                    return None
                others += value.dtype, value.shape, value.tobytes()
                values[index] = ...
            elif isinstance(value, (enum.Enum, np.dtype, type)):
                others.append(value)
                values[index] = ...
            elif isinstance(value, np.number):
                others += kind, value.tobytes()
                values[index] = ...
            elif kind not in SCALARS:
                return None
    return count, tuple(keywords), marshal.dumps(values, 2), *others


def _only_scalars(values: Sequence[Any]) -> bool:
    return all(type(x) in SCALARS or (type(x) in (list, tuple) and _only_scalars(x)) for x in values)


SCALARS = {bool, int, float, str, type(None)}
PLAIN_KINDS = SCALARS | {list, tuple}
SMALL = 64  # the most elements of an array among the arguments, such as a matrix
FEW = 32  # the most items of a list that are compared one by one; more are written faster
MISSING, SEEN, NAMES = object(), object(), object()


def again(op: Any, inputs: Sequence[Any], keywords: dict[str, Any]) -> Any:
    """The result of a plain call that was made before; its arguments are not checked again. None for any other call.

    After an error it also returns None. Then the caller makes the complete call, which reports the error. One look-up finds
    the function for the arguments and for the shapes and types of the inputs.
    """
    key = None
    if len(inputs) == 1 and type(inputs[0]) is list:
        return _again_on_list(op, inputs[0], keywords)
    if op.random:
        keywords = dict(keywords)
        key = keywords.pop("key", NO_KEY)
        if type(key) is not int and (key is not NO_KEY or not inputs):
            return None
    form: Any = b""
    if keywords:
        try:
            form = _written(keywords) if NAMES in op.known_calls else marshal.dumps(keywords, 2)
        except ValueError:
            form = _written(keywords)
            if form is not None:
                op.known_calls[NAMES] = None  # an operator that gets names or arrays once gets them again
    signature = _signature(inputs, form)
    run = None if signature is None else op.known_calls.get(signature)
    if run is None:
        run = _known(op, inputs, keywords, form)
        if run is None:
            return None
    try:
        return with_new_key(run, inputs) if key is NO_KEY else run(inputs, key)
    except Exception:
        return None


def with_new_key(run: Any, inputs: Sequence[Any]) -> Any:
    """The result of a random operator that is called without a key; it has the new key as an attribute."""
    key = seeds.system_seed()
    result = run(inputs, key)
    return [_reported(x, key, None) for x in result] if type(result) is list else _reported(result, key, None)


def _written(keywords: Mapping[str, Any]) -> Any:
    """The short form of arguments with names of `types`, or arrays, among them; None if there are values of other types."""
    plain: dict[str, Any] = {}
    found: list[Any] = []
    for name, value in keywords.items():
        kind = type(value)
        if kind is np.ndarray:
            found += name, value.dtype, value.shape, value.tobytes()
        elif kind in NAMED:
            found += name, kind, int(value)
        else:
            plain[name] = value
    try:
        written = marshal.dumps(plain, 2) if plain else b""
    except ValueError:
        return None
    return (written, *found) if found else written


NAMED = {types.DALIDataType, types.DALIImageType, types.DALIInterpType}


def _signature(inputs: Sequence[Any], form: Any) -> tuple[Any, ...] | None:
    """The form of a call with the shapes and types of its inputs; None if an input is not an array."""
    if len(inputs) == 1:
        x = inputs[0]
        return (form, x.shape, x.dtype) if type(x) is np.ndarray else None
    found = [form]
    for x in inputs:
        if type(x) is not np.ndarray:
            return None
        found += x.shape, x.dtype
    return tuple(found)


def _known(op: Any, inputs: Sequence[Any], keywords: Mapping[str, Any], written: Any) -> Any:
    """What runs a plain call, by the complete form of its arguments; `written` is the short form, if there is one."""
    form = form_of(len(inputs), keywords)
    signature = None if form is None else _signature(inputs, form)
    if signature is None:
        return None
    run = op.known_calls.get(signature)
    if run is not None:
        return run
    known = op.plain_calls.get(form, MISSING)
    if known is MISSING:  # a call that is made only once is not kept
        if len(op.plain_calls) >= PLAIN_CALLS:
            op.forget_calls()
        op.plain_calls[form] = SEEN
        return None
    if known is SEEN:
        known = op.plain_calls[form] = kept(op, inputs, keywords)
    if known is None:
        return None
    try:
        run = known.prepare(inputs)
    except Exception:
        return None
    arrays = np.ndarray in map(type, keywords.values())
    if arrays:  # without `_written`, `marshal` writes the bytes of an array and not its type
        written = _written(keywords)
    short = written is not None and all(type(value) in SHORT_KINDS for value in keywords.values())
    _keep_known(op, _signature(inputs, written) if short else signature, run)
    if arrays:
        op.known_calls[NAMES] = None
    if all(map(_frozen, keywords.values())):
        shape = inputs[0].shape if inputs else None
        others = op.last_calls.get(shape, ())[: LAST_CALLS - 1]
        op.last_call = same_call(inputs, keywords, op.random, run, with_new_key)
        op.last_calls[shape] = op.last_call, *others
    return run


def _keep_known(op: Any, signature: Any, run: Callable[..., Any]) -> None:
    if len(op.known_calls) >= PLAIN_SPECS:
        op.known_calls.clear()
        op.last_calls.clear()
        op.last_call = None
    op.known_calls[signature] = run


def _frozen(value: Any) -> bool:
    """True if the same object, or a list of the same objects, has the same value in later calls."""
    if type(value) is tuple or (type(value) is list and len(value) <= FEW):
        return SCALARS.issuperset(map(type, value))
    return type(value) in SCALARS or isinstance(value, (enum.Enum, np.dtype, np.number, type))


SHORT_KINDS = PLAIN_KINDS | NAMED | {np.ndarray}  # the types of arguments that have a short form


def kept(op: Any, inputs: Sequence[Any], keywords: Mapping[str, Any]) -> PlainCall | None:
    """The call, ready to run again; None if it needs a batch, has effects or has arguments besides the operator's own."""
    if op.result_hook is not None or op.factory is not None or not op.arguments.keys() >= keywords.keys():
        return None
    own = {name: value.copy() if type(value) is np.ndarray else value for name, value in keywords.items()}
    try:
        call = bind(op, inputs, own)
        traits = op.traits_of(call.constants)
    except Exception:
        return None
    alone = traits.granularity == "sample" or op.ready_hook is not None
    plain = alone and traits.pure and not traits.user_code and not call.members
    return PlainCall(call) if plain else None


def _again_on_list(op: Any, samples: list[Any], keywords: dict[str, Any]) -> TensorListCPU | None:
    """`again` for a call on a list of arrays; None for random operators, whose samples have keys of their own."""
    if op.random or not _uniform(samples):
        return None
    try:
        form = list, marshal.dumps(keywords, 2), samples[0].shape, samples[0].dtype
    except ValueError:
        return None
    run = op.known_calls.get(form)
    if run is None:
        run = _known_on_list(op, samples, keywords)
        if run is None:
            return None
        _keep_known(op, form, run)
    try:
        values, layout = run(samples, keywords)
    except Exception:
        return None
    return TensorListCPU.from_parts(values, None, None, layout, None) if _uniform(values) else None


def _uniform(samples: Any) -> bool:
    """True for a list of arrays of one type and number of axes."""
    if type(samples) is not list or not samples or type(samples[0]) is not np.ndarray:
        return False
    first = samples[0]
    dtype, ndim = first.dtype, first.ndim
    for x in samples:  # noqa: SIM110 (a generator takes longer to begin than a short list takes)
        if x is not first and not (type(x) is np.ndarray and x.dtype == dtype and x.ndim == ndim):
            return False
    return True


Listed = Callable[[list[np.ndarray], dict[str, Any]], tuple[Any, str]]


def _known_on_list(op: Any, samples: list[Any], keywords: dict[str, Any]) -> Listed | None:
    """What makes the results, and their layout, of a list whose first sample has this shape and type; None for a call that is
    made only once.
    """
    first, form = samples[0], form_of(1, keywords)
    if again(op, (first,), keywords) is None:
        return _known_on_batch(op, samples, keywords) if op.plain_calls.get(form, SEEN) is None else None
    known = op.plain_calls.get(form)
    if not isinstance(known, PlainCall) or known.packs:
        return _not_kept
    (layout,) = known.bound.output_layouts((first,), (op.layout_of_array(first.ndim),), {})
    return lambda samples, keywords: ([again(op, (x,), keywords) for x in samples], layout or "")


def _known_on_batch(op: Any, samples: list[Any], keywords: dict[str, Any]) -> Listed:
    """The same for an operator whose body gets whole batches, and nothing else but its arguments."""
    if op.batch_hook is not None or op.wants or op.result_hook is not None:
        return _not_kept
    try:
        call = bind(op, (samples,), keywords)
        traits, count = op.traits_of(call.constants), op.outputs_of(call.constants, 1)
    except Exception:
        return _not_kept
    given = op.keywords({**op.defaults, **call.constants})
    if traits.granularity != "batch" or not traits.pure or traits.user_code or count != 1:
        return _not_kept
    (spec,) = op.specs([Spec(samples[0].shape, samples[0].dtype, op.layout_of_array(samples[0].ndim))], given, 1)
    return lambda samples, _keywords: (op.body(samples, **given), spec.layout or "")


def _not_kept(_samples: list[np.ndarray], _keywords: dict[str, Any]) -> tuple[Any, str]:
    """The complete call is made each time."""
    return [], ""


def _batch_of(value: Any, size: int) -> TensorListCPU:
    """The inputs of an eager call as a batch: Python numbers have the same types as in a pipeline."""
    if isinstance(value, TensorListCPU):
        return value
    if isinstance(value, list):
        numbers = value and all(isinstance(item, PLAIN) for item in value)
        return TensorListCPU(types.as_constant(value) if numbers else [_sample_of(item) for item in value])
    layout = value.layout if isinstance(value, types.ArrayConstant) else None
    return TensorListCPU([_sample_of(value)] * size, layout)


PLAIN = (bool, int, float, complex, types.ScalarConstant)


def _sample_of(value: Any) -> Any:
    if isinstance(value, types.ArrayConstant):
        return value.value
    return types.as_constant(value) if isinstance(value, PLAIN) and not isinstance(value, np.float64) else value


def _first(values: Any) -> np.ndarray:
    return values[0, ...] if isinstance(values, np.ndarray) else values[0]  # never a NumPy scalar


def _reported(array: np.ndarray, key: int | None, again: Call | None) -> np.ndarray:
    if again is not None and again.op.outputs_of(again.constants, 0) == 1:
        return DrawnArray.of(array, key, lambda: Node.outside(again))
    result = array.view(ReportedArray)
    result.key = key
    return result


def _fresh(_output: int, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    return np.empty(shape, dtype)


def _fresh_bytes(nbytes: int) -> np.ndarray:
    return np.empty(nbytes, np.uint8)


def run_batch(call: Call, inputs: Sequence[TensorListCPU], size: int) -> tuple[list[Any], list[str | None]]:
    """Runs infer, draw and the body for the samples of a batch, one after another."""
    op = call.op
    count = op.outputs_of(call.constants, len(call.inputs))
    keys = seeds.sample_keys(call.key or 0, np.arange(size)).tolist() if op.random else [None] * size
    layouts = [batch.layout() for batch in inputs]
    if op.traits_of(call.constants).granularity == "batch":
        nodes = {name: batch.samples() for name, batch in call.arguments.items()}
        context = BatchCall(
            size, lambda: keys, layouts, _fresh_bytes, call.hint, inputs[0].source_info() if inputs else [""] * size
        )
        columns = run_whole(op, call.constants, nodes, [batch.samples() for batch in inputs], context, count)
        specs = [Spec(batch.at(0).shape, batch.at(0).dtype, batch.layout()) for batch in inputs if len(batch)]
        found = [spec.layout for spec in op.specs(specs, {**call.constants, **dict.fromkeys(nodes, UNKNOWN)}, count)]
        return columns, found
    per_frame = [name for name, batch in call.arguments.items() if batch.layout()[:1] == "F"]
    bound = Bound(op, call.constants, count, per_frame=per_frame)
    columns = [[] for _ in range(count)]
    found = [""] * count
    for index in range(size):
        samples = [as_sample(batch.at(index)) for batch in inputs]
        per_sample = {name: batch.at(index) for name, batch in call.arguments.items()}
        where = inputs[0].source_info(index) if inputs else ""
        outputs = bound(samples, layouts, per_sample, keys[index], _fresh, where)
        if op.returns_views:
            outputs = tuple([owned(output, samples[0]) for output in outputs])
        for column, output in zip(columns, outputs, strict=True):
            column.append(output)
        if index == 0:
            found = bound.output_layouts(samples, layouts, per_sample)
    return columns, found
