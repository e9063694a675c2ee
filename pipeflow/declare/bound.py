"""An operator made ready to run on samples, or on whole batches."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from pipeflow import seeds
from pipeflow.declare.calls import BatchCall
from pipeflow.declare.kernel_calls import NotReady
from pipeflow.declare.layouts import check_layouts
from pipeflow.declare.opdef import OpDef
from pipeflow.declare.parameters import Args
from pipeflow.declare.short_calls import short_form, until_ready
from pipeflow.declare.specs import UNKNOWN, Spec
from pipeflow.declare.tables import NoTable
from pipeflow.declare.values import READY, OfSample, check_finite, column_values, from_sample, refused
from pipeflow.declare.written import call_of_body, call_of_short_form
from pipeflow.errors import count_of, widened
from pipeflow.tensors import PlacedArrays

# Operators raise these; `widened` makes DALI's classes of them.
PLAIN_ERRORS = (ValueError, TypeError, IndexError, FileNotFoundError)
Allocate = Callable[[int, tuple[int, ...], np.dtype], np.ndarray]


def owned(result: np.ndarray, data: np.ndarray) -> np.ndarray:
    """The result, or a copy of it if it is a part of the data."""
    return result.copy() if np.may_share_memory(result, data) else result


class Inferred:
    """The Specs of a step's outputs."""

    __slots__ = ("first", "specs", "static")

    def __init__(self, specs: tuple[Spec, ...]) -> None:
        self.specs = specs
        self.static = all(spec.static for spec in specs)
        self.first = specs[0] if specs else Spec()


class Signature:
    """The known results of a Bound for inputs of the same types, numbers of axes and layouts."""

    __slots__ = ("depends", "frames", "layouts", "specs")

    def __init__(self, layouts: tuple[str, ...], frames: bool) -> None:
        self.layouts = layouts  # as the body gets them: a missing one is replaced by the first declared one that fits
        self.frames = frames  # True for a sequence: its frames are passed to the body one by one
        self.specs: dict[Any, Inferred] = {}  # shapes of the inputs -> the Specs of the outputs
        self.depends = False  # True if shapes or types of outputs depend on arguments that change from sample to sample


KEPT_SPECS = 1024  # the limit of the table, which would grow without end if all images had different sizes


class Bound:
    """One step of a plan, ready to run on samples. Its constants are bound, and the Specs of known input shapes are kept.

    ``kernel(inputs, layouts, per_sample, key, allocate)`` returns the tuple of outputs; ``allocate(output, shape,
    dtype)`` gives the memory of an output. ``per_frame`` names the arguments whose first axis counts the frames of a
    sequence (their layout starts with F).
    """

    def __init__(
        self,
        op: OpDef,
        constants: Mapping[str, Any],
        count: int,
        static: Sequence[Spec] | None = None,
        per_frame: Iterable[str] = (),
    ) -> None:
        self.op = op
        self.count = count
        self.per_frame = frozenset(per_frame)
        self.constants = {**op.defaults, **constants}
        # If no argument changes from sample to sample, the body gets the same arguments every time.
        required = all(name in self.constants for name in op.arguments)
        self._keywords = op.keywords(self.constants) if required and op.draw_hook is None else None
        self._complete = required
        self.kinds = {name: param.type for name, param in op.arguments.items()}
        self._user_code = op.traits_of(self.constants).user_code
        self._wants_out = "out" in op.wants
        self._wants_layouts = "layouts" in op.wants
        self._wants_key = "key" in op.wants
        self._wants_source = "source" in op.wants
        # the Specs describe the whole sequence, but its kernel works on frames
        single = not op.sequences or all(spec.layout and spec.layout[0] != "F" for spec in static or ())
        fixed = bool(static) and single and all(spec.static for spec in static or ())
        self._fixed = Inferred(tuple(static or ())) if fixed else None
        self._allocates = op.unsized and count == 1 and not fixed
        self._known: dict[Any, Signature] = {}
        self._layouts: dict[Any, tuple[str, ...]] = {}
        self._forms: dict[Any, Callable[..., Any] | None] = {}
        self._found_layouts: tuple[Any, list[str | None]] | None = None  # for the last form of inputs

    def __call__(
        self,
        inputs: Sequence[np.ndarray],
        layouts: Sequence[str],
        per_sample: Mapping[str, Any],
        key: int | None,
        allocate: Allocate,
        source: Any = "",
    ) -> tuple[np.ndarray, ...]:
        try:
            kind = self._kind(inputs, tuple(layouts))
            if (kind.frames and self._single(kind.layouts, per_sample)) or (
                self.op.by_frame and self._framed(layouts, per_sample)
            ):
                return self._over_frames(inputs, kind.layouts, per_sample, key, allocate, source)
            return self._one(kind, inputs, per_sample, key, allocate, source)
        except PLAIN_ERRORS as error:
            if self._user_code:
                raise
            raise widened(error) from error.__cause__

    def _framed(self, layouts: Sequence[str], per_sample: Mapping[str, Any]) -> bool:
        """True if an argument has a value for each frame, or an input a matrix for each frame."""
        return bool(self.per_frame & per_sample.keys()) or any(layout[:2] == "F*" for layout in layouts)

    def _single(self, layouts: Sequence[str], per_sample: Mapping[str, Any]) -> bool:
        """True if the frames of a sequence are processed one by one with these arguments."""
        return self.op.whole is None or self.op.frames_of(layouts, {**self.constants, **per_sample})

    def _kind(self, inputs: Sequence[np.ndarray], layouts: tuple[str, ...]) -> Signature:
        signature = layouts, *[(x.ndim, x.dtype) for x in inputs]
        known = self._known.get(signature)
        if known is None:
            op = self.op
            if inputs:
                op.check_dtype(inputs[0].dtype)
            if op.layouts:
                layouts = self.accepted_layouts(layouts, tuple([x.ndim for x in inputs]))
            known = self._known[signature] = Signature(layouts, bool(op.layouts) and op.frames_of(layouts))
        return known

    def _over_frames(
        self,
        inputs: Sequence[np.ndarray],
        layouts: Sequence[str],
        per_sample: Mapping[str, Any],
        key: int | None,
        allocate: Allocate,
        source: Any,
    ) -> tuple[np.ndarray, ...]:
        """Processes the frames of a sequence into one block; ``fn.per_frame`` arguments change from frame to frame."""
        varying = {name: value for name, value in per_sample.items() if name in self.per_frame}
        count = (
            frames_in(inputs, layouts)
            if any(layout[:1] == "F" for layout in layouts)
            else max(map(len, varying.values()))
        )
        for name, value in varying.items():
            if len(value) not in (1, count):
                given = count_of(len(value), "value")
                raise ValueError(f"argument {name!r} has {given} for a sequence of {count_of(count, 'frame')}")
        if not count:
            raise ValueError(f"{self.op.title}: the sequence has no frames")
        inner = tuple([layout[1:] if layout[:1] == "F" else layout for layout in layouts])
        blocks: list[np.ndarray] = []
        parts = [
            (
                [x[frame] if layout[:1] == "F" else x for x, layout in zip(inputs, layouts, strict=True)],
                {**per_sample, **{name: value[frame % len(value)] for name, value in varying.items()}},
            )
            for frame in range(count)
        ]
        shared = self._shared(parts, inner) if self.op.frames_share and self.per_frame & per_sample.keys() else {}
        for frame, (images, own) in enumerate(parts):
            values = {**shared, **own}

            def place(
                output: int,
                shape: tuple[int, ...],
                dtype: np.dtype,
                frame: int = frame,
                blocks: list[np.ndarray] = blocks,
            ) -> np.ndarray:
                if blocks and blocks[output].shape[1:] == shape and blocks[output].dtype == dtype:
                    return blocks[output][frame]
                return np.empty(shape, dtype)

            results = self._one(self._kind(images, inner), images, values, key, place, source)
            if not blocks:
                once = self.op.once
                shapes = [x.shape if i in once else (count, *x.shape) for i, x in enumerate(results)]
                blocks += [allocate(i, shape, x.dtype) for i, (shape, x) in enumerate(zip(shapes, results))]
                for i in once[: len(results) - 1]:
                    blocks[i][...] = results[i]
            for i, (block, result) in enumerate(zip(blocks, results, strict=True)):
                if i in self.op.once:
                    continue
                if block.shape[1:] != result.shape:
                    raise ValueError(f"frame {frame} has shape {result.shape}, the first one {block.shape[1:]}")
                if not np.may_share_memory(block[frame], result):
                    block[frame] = result
        return tuple(blocks)

    def _shared(self, parts: Sequence[Any], layouts: tuple[str, ...]) -> dict[str, Any]:
        """Extents for the results of all frames, as the argument that gives every result this size."""
        op, frames = self.op, []
        assert op.frames_share is not None
        for images, own in parts:
            values = {name: x if type(x) in READY else self._converted(name, x) for name, x in own.items()}
            frames.append((self._specs(images, layouts)[0], Args(**{**self.constants, **values})))
        name, extents_of = op.frames_share
        return {name: OfSample(shared_extents([extents_of(*frame) for frame in frames]))}

    def _one(
        self,
        kind: Signature,
        inputs: Sequence[np.ndarray],
        per_sample: Mapping[str, Any],
        key: int | None,
        allocate: Allocate,
        source: Any,
    ) -> tuple[np.ndarray, ...]:
        op = self.op
        if per_sample or self._keywords is None:
            arguments = dict(self.constants)
            for name, value in per_sample.items():
                arguments[name] = value if type(value) in READY else self._converted(name, value)
            if op.draw_hook is not None:
                drawn = op.draw_hook(seeds.Key(key or 0), self._specs(inputs, kind.layouts), Args(**arguments))
                arguments.update(drawn)
            keywords = op.keywords(dict(arguments))
        else:
            arguments, keywords = self.constants, dict(self._keywords)
        if self._wants_out:
            keywords["out"] = self._out(kind, inputs, arguments, per_sample, allocate)
        if self._wants_layouts:
            keywords["layouts"] = kind.layouts
        if self._wants_key:
            keywords["key"] = seeds.Key(key or 0)
        if self._wants_source:
            keywords["source"] = source
        result = op.body(*inputs, **keywords)
        if self.count == 1 and type(result) is np.ndarray:
            return (result,)
        return self._as_outputs(result)

    def prepared(self, inputs: Sequence[np.ndarray], layouts: Sequence[str]) -> Callable[..., Any]:
        """``(inputs, key) -> output`` for inputs of these shapes and types, without arguments that change; if the number of
        outputs is not 1, it returns the list of them. The key is that of the call, not of its first sample.

        Everything that depends only on shapes and types is computed in advance. Errors of the body are not changed.
        """
        try:
            return self._prepared(inputs, layouts, self._short)
        except NotReady as error:
            whole = self._prepared(inputs, layouts, lambda *_: None)
            return until_ready(
                whole, error, lambda own: self._prepared(own, layouts, self._short), self.op.forget_calls
            )

    def _prepared(self, inputs: Sequence[np.ndarray], layouts: Sequence[str], shorter: Any) -> Callable[..., Any]:
        """The same with what makes the shorter form of the body, or None."""
        kind = self._kind(inputs, tuple(layouts))
        if kind.frames and self._single(kind.layouts, {}):
            return self._frames_prepared(inputs, kind.layouts, shorter)
        specs = self._static_out(kind, inputs)
        memory = self._wants_out and specs is not None
        op, count = self.op, self.count
        own, make = self._specs(inputs, kind.layouts), _maker(specs if memory else None, count)
        short = shorter(own, inputs, memory) if memory or not self._wants_out or op.unsized else None
        whole = None
        if short is None or op.unsized:
            if op.traits_of(self.constants).granularity == "batch":
                raise ValueError("the operator works on batches, and has no short form for one sample")
            whole = self._with_body(kind, own, make if memory or not self._wants_out else _allocators(count))
            if short is None:
                return whole
        extents = specs.specs if memory and specs is not None else None
        run = call_of_short_form(short, len(inputs), extents, op.draws, listed=count != 1)
        return run if whole is None else _either(run, whole)

    def _with_body(self, kind: Signature, own: tuple[Spec, ...], make: Callable[[], Any]) -> Callable[..., Any]:
        """`prepared` by the body; ``make`` makes what it gets as ``out``."""
        op, body, constants, fixed, draw = self.op, self.op.body, self.constants, self._keywords, self.op.draw_hook
        common: dict[str, Any] = {"layouts": kind.layouts} if self._wants_layouts else {}
        if self._wants_source:
            common["source"] = ""
        if fixed is not None and not self._wants_key:
            # the usual case: only the memory of the result changes from call to call
            memory, copies = make if self._wants_out else None, owned if op.returns_views else None
            return call_of_body(body, len(own), {**fixed, **common}, memory, self._as_output, copies)

        def run(inputs: Sequence[np.ndarray], key: int) -> Any:
            own_key = seeds.Key(seeds.first_key(key))
            if fixed is not None:
                keywords = {**fixed, **common}
            else:
                arguments = dict(constants)
                if draw is not None:
                    arguments.update(draw(own_key, own, Args(**arguments)))
                keywords = op.keywords(arguments)
                keywords.update(common)
            if self._wants_out:
                keywords["out"] = make()
            if self._wants_key:
                keywords["key"] = own_key
            return self._as_output(body(*inputs, **keywords))

        return run

    def _short(self, specs: tuple[Spec, ...], inputs: Sequence[np.ndarray], memory: bool) -> Callable[..., Any] | None:
        """The shorter form of the body for these inputs that the operator declares, or the one that its kernel calls give."""
        if not self._complete:
            return None
        op, args = self.op, Args(**self.constants)
        short = op.ready_hook(specs, args) if op.ready_hook is not None else None
        if short is not None:
            return short
        if not op.unsized:
            return short_form(op, inputs, specs, args, memory)
        kind = tuple([(x.ndim, x.dtype) for x in inputs])  # one form for all extents
        if kind not in self._forms:
            self._forms[kind] = short_form(op, inputs, specs, args, memory)
        return self._forms[kind]

    def _frames_prepared(
        self, inputs: Sequence[np.ndarray], layouts: Sequence[str], shorter: Any
    ) -> Callable[..., Any]:
        """`prepared` for sequences whose frames are passed to the body one by one."""
        lengths = {len(x) for x, layout in zip(inputs, layouts, strict=True) if layout[:1] == "F"}
        if len(lengths) != 1 or not (length := lengths.pop()) or self.count != 1 or self.op.draws:
            return self._whole(layouts)
        moving = [layout[:1] == "F" for layout in layouts]
        inner = [layout[1:] if moves else layout for layout, moves in zip(layouts, moving)]
        first = [x[0] if moves else x for x, moves in zip(inputs, moving)]
        tall = self.op.line_hook is not None and len(inputs) == 1
        if tall:  # every value is computed alone: the frames are one image
            first = [inputs[0].reshape(-1, *inputs[0].shape[2:])]
        kind = self._kind(first, tuple(inner))
        specs = self._static_out(kind, first)
        own = self._specs(first, kind.layouts)
        short = shorter(own, first, self._wants_out)
        if specs is None or short is None:
            return self._whole(layouts)
        empty, shape, dtype = np.empty, (length, *specs.first.shape), specs.first.dtype
        if tall:
            given, shape = own[0].shape, (length, -1, *shape[2:])
            return lambda inputs, _key: short(inputs[0].reshape(given), empty(specs.first.shape, dtype)).reshape(shape)

        def run(inputs: Sequence[np.ndarray], _key: Any) -> np.ndarray:
            block = empty(shape, dtype)
            if len(inputs) == 1:
                for image, out in zip(inputs[0], block):
                    short(image, out)
            else:
                for frame, out in enumerate(block):
                    short(*[x[frame] if moves else x for x, moves in zip(inputs, moving)], out)
            return block

        return run

    def _whole(self, layouts: Sequence[str]) -> Callable[..., Any]:
        """The complete call in the form of `prepared`."""
        random = self.op.random

        def run(inputs: Sequence[np.ndarray], key: int | None) -> Any:
            own = seeds.first_key(key) if random and key is not None else None
            outputs = self(inputs, layouts, {}, own, lambda _output, shape, dtype: np.empty(shape, dtype))
            return outputs[0] if self.count == 1 else list(outputs)

        return run

    def _as_output(self, result: Any) -> Any:
        """What a body has returned: an array, or a list of them."""
        if self.count == 1:
            return result if type(result) is np.ndarray else np.asarray(result)
        return list(self._as_outputs(result))

    def _static_out(self, kind: Signature, inputs: Sequence[np.ndarray]) -> "Inferred | None":
        """The Specs of the outputs if the body gets memory for them; None if they depend on values."""
        if not self._wants_out or self._allocates:
            return None
        inferred = self._fixed or self._output_specs(kind, inputs, self.constants, {})
        return inferred if inferred.static and not (self.op.drawn and kind.depends) else None

    def _converted(self, name: str, value: Any) -> Any:
        try:
            return check_finite(self.op.arguments[name], from_sample(self.kinds[name], value))
        except (TypeError, ValueError) as error:
            raise refused(type(error), self.op.arguments[name], error) from None

    def output_layouts(
        self, inputs: Sequence[np.ndarray], layouts: Sequence[str], per_sample: Mapping[str, Any]
    ) -> list[str | None]:
        """The layouts of the outputs for these inputs; None for one that the declaration does not determine."""
        if per_sample:
            return self._find_layouts(inputs, layouts, per_sample)
        form = *layouts, *[(x.shape, x.dtype) for x in inputs]
        known = self._found_layouts  # most batches are like the last one
        if known is None or known[0] != form:
            known = self._found_layouts = form, self._find_layouts(inputs, layouts, per_sample)
        return known[1]

    def _find_layouts(
        self, inputs: Sequence[np.ndarray], layouts: Sequence[str], per_sample: Mapping[str, Any]
    ) -> list[str | None]:
        first = {
            name: value[0] if name in self.per_frame and len(value) else value for name, value in per_sample.items()
        }
        values = {name: x if type(x) in READY else from_sample(self.kinds[name], x) for name, x in first.items()}
        if self.op.generic and not layouts[0]:
            return [""] * self.count
        if self.op.by_frame and self._framed(layouts, per_sample):
            inputs = [x[0] if layout[:1] == "F" else x for x, layout in zip(inputs, layouts, strict=True)]
            inner = [layout[1:] if layout[:1] == "F" else layout for layout in layouts]
            specs = self.op.specs(self._specs(inputs, inner), {**self.constants, **values}, self.count)
            return ["F" + spec.layout if spec.layout else spec.layout for spec in specs]
        if self.op.layouts:
            layouts = self._kind(inputs, tuple(layouts)).layouts
        return [
            spec.layout
            for spec in self.op.specs(self._specs(inputs, layouts), {**self.constants, **values}, self.count)
        ]

    def accepted_layouts(self, layouts: Sequence[str], ndims: tuple[int, ...]) -> tuple[str, ...]:
        """The layouts for the kernel. A missing one is replaced by the first declared one with that number of axes."""
        signature = (tuple(layouts), ndims)
        known = self._layouts.get(signature)
        if known is None:
            known = self._layouts[signature] = check_layouts(self.op.layouts, layouts, ndims)
        return known

    def _specs(self, inputs: Sequence[np.ndarray], layouts: Sequence[str]) -> tuple[Spec, ...]:
        return tuple([Spec.exact(x, layout) for x, layout in zip(inputs, layouts, strict=True)])

    def _out(
        self,
        kind: Signature,
        inputs: Sequence[np.ndarray],
        arguments: Mapping[str, Any],
        per_sample: Mapping[str, Any],
        allocate: Allocate,
    ) -> Any:
        if self._allocates:
            return lambda shape, dtype: allocate(0, tuple(shape), np.dtype(dtype))
        inferred = self._fixed or self._output_specs(kind, inputs, arguments, per_sample)
        if inferred.static:
            if self.count == 1:
                return allocate(0, inferred.first.shape, inferred.first.dtype)
            return tuple(allocate(index, spec.shape, spec.dtype) for index, spec in enumerate(inferred.specs))
        if self.count == 1:
            return lambda shape, dtype: allocate(0, tuple(shape), np.dtype(dtype))
        return tuple(
            lambda shape, dtype, index=index: allocate(index, tuple(shape), np.dtype(dtype))
            for index in range(self.count)
        )

    def _output_specs(
        self, kind: Signature, inputs: Sequence[np.ndarray], arguments: Mapping[str, Any], per_sample: Mapping[str, Any]
    ) -> "Inferred":
        """The declared Specs of the outputs, kept by the inputs' shapes if no changing argument affects them."""
        op = self.op
        changing = per_sample or op.drawn
        if changing and kind.depends:
            return Inferred(op.specs(self._specs(inputs, kind.layouts), arguments, self.count))
        shapes = tuple([x.shape for x in inputs])
        known = kind.specs.get(shapes)
        if known is None:
            specs = self._specs(inputs, kind.layouts)
            if not changing:
                known = Inferred(op.specs(specs, arguments, self.count))
            else:
                # If the Specs are complete without the changing arguments, they are the same for every value of these.
                unknown = dict.fromkeys([*per_sample, *op.drawn], UNKNOWN)
                known = Inferred(op.specs(specs, {**arguments, **unknown}, self.count))
                if not known.static:
                    kind.depends = True
                    return Inferred(op.specs(specs, arguments, self.count))
            if len(kind.specs) >= KEPT_SPECS:
                kind.specs.clear()
            kind.specs[shapes] = known
        return known

    def _as_outputs(self, result: Any) -> tuple[np.ndarray, ...]:
        if self.count == 1:
            return (np.asarray(result),)
        if self.count == 0:
            return ()
        outputs = tuple(np.asarray(item) for item in result)
        assert len(outputs) == self.count, f"{self.op.title} returned {len(outputs)} outputs instead of {self.count}"
        return outputs


def _either(run: Callable[..., Any], whole: Callable[..., Any]) -> Callable[..., Any]:
    """A short form that describes files of one kind, and the body for the others."""

    def either(inputs: Sequence[np.ndarray], key: Any) -> Any:
        try:
            return run(inputs, key)
        except NoTable:
            return whole(inputs, key)

    return either


def _maker(specs: Inferred | None, count: int) -> Callable[[], Any]:
    """What makes new memory for the outputs: an array, or a tuple of them if their number is not 1."""
    if specs is None:
        return lambda: None
    if count == 1:
        return partial(np.empty, specs.first.shape, specs.first.dtype)
    extents = [(spec.shape, spec.dtype) for spec in specs.specs]
    return lambda: tuple([np.empty(shape, dtype) for shape, dtype in extents])


def _allocators(count: int) -> Callable[[], Any]:
    """What makes the functions that allocate the outputs, if their shapes are not known before."""

    def allocate(shape: Sequence[int], dtype: Any) -> np.ndarray:
        return np.empty(tuple(shape), np.dtype(dtype))

    return lambda: allocate if count == 1 else (allocate,) * count


def frames_in(inputs: Sequence[Any], layouts: Sequence[str]) -> int:
    """The number of frames, which is that of every input with an axis of frames."""
    found = [(index, x.shape[0]) for index, (x, layout) in enumerate(zip(inputs, layouts)) if layout[:1] == "F"]
    first, count = found[0]
    for index, length in found:
        if length != count:
            raise ValueError(f"input {first} has {count_of(count, 'frame')} and input {index} has {length}")
    return count


def shared_extents(frames: Sequence[tuple[Sequence[int], Sequence[int]]]) -> list[int]:
    """Extents that contain the results of all frames, from the least extents of each and those it has alone: odd if most of the
    latter are odd, so that few centres move by half a pixel.
    """
    found = []
    for axis in zip(*[zip(*extents, strict=True) for extents in frames], strict=True):
        largest = max(least for least, _ in axis)
        odd = 2 * sum(own % 2 for _, own in axis) > len(axis)
        found.append(largest + (largest % 2 != odd))
    return found


def run_whole(
    op: OpDef,
    constants: Mapping[str, Any],
    samples_of: Mapping[str, Sequence[Any]],
    inputs: Sequence[Any],
    batch: BatchCall,
    count: int,
) -> list[Any]:
    """One call of an operator on a whole batch. It returns a dense array or a list of samples for each output."""
    try:
        return _run_whole(op, {**op.defaults, **constants}, samples_of, inputs, batch, count)
    except PLAIN_ERRORS as error:
        if op.traits_of(constants).user_code:
            raise
        raise widened(error) from error.__cause__


def _run_whole(
    op: OpDef,
    arguments: dict[str, Any],
    samples_of: Mapping[str, Sequence[Any]],
    inputs: Sequence[Any],
    batch: BatchCall,
    count: int,
) -> list[Any]:
    if inputs and len(inputs[0]):
        listed = not isinstance(inputs[0], (np.ndarray, PlacedArrays))
        first = next((x for x in inputs[0] if x is not None), None) if listed else inputs[0]
        if first is not None:  # a side of a merge has nothing for samples that took the other one
            op.check_dtype(first.dtype)
    for name, samples in samples_of.items():
        kind = op.arguments[name].type
        column = column_values(kind, samples) if isinstance(samples, np.ndarray) else None
        arguments[name] = [from_sample(kind, sample) for sample in samples] if column is None else column
    if op.batch_hook is not None:
        return list(op.batch_hook(*inputs, args=Args(**arguments), batch=batch))
    alone = inputs[0] if len(inputs) == 1 and not samples_of else None
    if op.columns_hook is not None and type(alone) is PlacedArrays and alone.columns is not None:
        make = op.columns_hook(Args(**arguments), alone.dtype, alone.ndim, batch.layouts[0])
        made = None if make is None else make(alone, batch.take)
        if made is not None:
            return [made]
    arguments = op.keywords(arguments)
    if "key" in op.wants:
        arguments["key"] = [seeds.Key(key) for key in batch.keys]
    if "layouts" in op.wants:
        arguments["layouts"] = tuple(batch.layouts)
    if "out" in op.wants:
        arguments["out"] = batch.empty
    result = op.body(*[list(samples) for samples in inputs], **arguments)
    outputs = [result] if count == 1 else list(result or ())
    return [list(values) if not isinstance(values, np.ndarray) else values for values in outputs]
