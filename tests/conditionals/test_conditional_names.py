"""Conditionals and the code around them: callbacks stay the user's own, the marker, python_function, and semantics.

The functions under test are written as users write them, not as a linter would have them.
"""
# ruff: noqa: B007, C401, F841, SIM102, SIM201

import contextlib
import functools
import importlib.util
import inspect
import linecache
import pickle
import sys
import textwrap
import threading
import traceback

import numpy as np
import pytest
from conditional_harness import NUMBERS, B, agree, batch, data, operators, pipeline, pyfn, single

import pipeflow
from pipeflow import Pipeline, do_not_convert, fn, pipeline_def, types
from pipeflow import autograph_guard as guard
from pipeflow.errors import DivergentBranches
from pipeflow.executor.workers.pool import WorkerPool
from pipeflow.record import autograph
from pipeflow.saving.functions import dumps_function

HERE = "test_conditional_names.py"


def fails(function, *sources, error=RuntimeError, match=".", **options):
    """The message of the error that building or running raises."""
    with pytest.raises(error, match=match) as caught:
        batch(function, *sources, **options)
    return str(caught.value)


def kept(make, **options):
    """The callback that a definition made, after the pipeline has run with it, and its results."""
    found = []

    @do_not_convert
    def keep(callback):
        found.append(callback)

    def f(i):
        callback = make()
        keep(callback)
        return pyfn(i, function=callback, **options)

    return found, batch(f)


def is_plain(callback):
    """Whether a callback is the user's own code."""
    code = guard.python_function(callback).__code__
    names = {*code.co_names, *code.co_freevars}
    return not guard.is_converted(callback) and "__pf__" not in names and code.co_filename == __file__


# Callbacks


def global_callback(x):
    """At module level."""
    return x * 10 if x < 2 else x


def factory(k):
    """Makes a callback."""

    def made(x):
        if x < 2:
            return x * k
        return x

    return made


@do_not_convert
def marked_factory(k):
    """Makes a callback, and is marked as DALI wants it."""

    def made(x):
        if x < 2:
            return x * k
        return x

    return made


class Callback:
    """Callable, with a method."""

    def __call__(self, x):
        return global_callback(x)

    def method(self, x):
        """Also a callback."""
        return x * 10 if x < 2 else x


EXPECTED = [0, 10, 2, 3, 4, 5]


def test_global_callback_code_object_unchanged():
    """A module-level function handed to an operator keeps its code object."""
    code = global_callback.__code__
    found, result = kept(lambda: global_callback)
    assert result == EXPECTED
    assert found == [global_callback]
    assert global_callback.__code__ is code


def test_local_callback_is_not_rewritten():
    """A function or lambda defined inside the pipeline definition keeps its text."""

    def local():
        def callback(x):
            if x < 2:
                return x * 10
            return x

        return callback

    for make in (local, lambda: lambda x: x * 10 if x < 2 else x):
        found, result = kept(make)
        assert result == EXPECTED
        assert is_plain(found[0])


def test_factory_made_callbacks_stay_plain():
    """The product of a converted factory is the user's own code."""
    found, result = kept(lambda: factory(10))
    assert result == EXPECTED
    assert is_plain(found[0])
    assert found[0].__code__.co_code == factory(10).__code__.co_code


def test_marked_factory_callback_plain():
    """DALI's form, a factory marked do_not_convert, works unchanged."""
    found, result = kept(lambda: marked_factory(10))
    assert result == EXPECTED
    assert found[0].__code__ is marked_factory(10).__code__


def test_factory_closure_values_late_bound():
    """A callback sees later assignments to the variables around it, as in Python."""

    def f(i):
        k = 10
        callback = lambda x: x * k
        r = pyfn(i, function=callback)
        k = 100
        return r

    assert batch(f) == [k * 100 for k in range(B)]


def test_local_marked_function_runs_as_written():
    """A local function that is marked is not converted when it is called."""

    def f(i):
        @do_not_convert
        def g(x):
            if x < 3:
                return x
            return x * 2

        return g(i)

    text = fails(f, error=TypeError, match=r"In g\(\) at .*not converted because it is marked @do_not_convert")
    assert HERE in text


def test_callback_also_called_at_build_original_unchanged():
    """A function that is both called and handed over is converted for the call only."""

    def callback(x):
        return x * 10 if x < 2 else x

    def f(i):
        return callback(i), pyfn(i, function=callback)

    assert batch(f) == list(zip(EXPECTED, EXPECTED))
    assert is_plain(callback)


def test_callable_object_callback_plain():
    """An object with __call__ is called as it is."""
    found, result = kept(Callback)
    assert result == EXPECTED
    assert is_plain(Callback.__call__)
    assert type(found[0]) is Callback


def test_bound_method_callback_plain():
    """A bound method stays the same method."""
    found, result = kept(lambda: Callback().method)
    assert result == EXPECTED
    assert found[0].__func__ is Callback.method


def test_partial_callback_plain():
    """A partial stays a partial of the same function."""
    found, result = kept(lambda: functools.partial(lambda k, x: x * k if x < 2 else x, 10))
    assert result == EXPECTED
    assert is_plain(found[0].func)


def test_lambda_with_default_callback():
    """Defaults are evaluated where the lambda is made."""
    k = 10
    found, result = kept(lambda: lambda x, k=k: x * k if x < 2 else x)
    assert result == EXPECTED
    assert is_plain(found[0])


def test_global_callback_pickles():
    """After conversion of the code around it, a global callback and a plain object still pickle."""
    found, _ = kept(lambda: global_callback)
    assert pickle.loads(pickle.dumps(found[0])) is global_callback
    assert pickle.loads(pickle.dumps(Callback())).method(1) == 10


def test_getsource_of_callback_is_users():
    """inspect shows the user's text of a local callback."""

    def local():
        def callback(x):
            return x * 10 if x < 2 else x  # the user's comment

        class Inside:
            pass

        assert Inside.__qualname__.endswith("users.<locals>.local.<locals>.Inside")
        return callback

    found, _ = kept(local)
    assert "the user's comment" in inspect.getsource(found[0])
    assert found[0].__qualname__ == "test_getsource_of_callback_is_users.<locals>.local.<locals>.callback"
    assert "__pf__" not in inspect.getsource(found[0])


class Settings:
    """Keeps its arguments as many programs do."""

    def __init__(self, scale, offset=5):
        if scale == 0:
            scale = 1
        self.__dict__.update(locals())
        del self.self


def test_locals_are_the_users():
    """locals(), vars() and dir() show the variables of the function and nothing of the conversion."""
    found = []

    def define(x):
        factor = 10
        if x < 3:
            x = x * factor
        for _ in range(2):
            if x == 20:
                continue
        found.extend([sorted(locals()), sorted(vars()), sorted(dir())])
        found.append(sorted(vars(Settings(0))))
        return "{factor}".format(**locals()), x + eval("factor")

    assert [value for _, value in batch(lambda x: (0, define(x)[1]))] == [10, 20, 30, 13, 14, 15]
    names = ["_", "factor", "found", "x"]
    assert found == [names, names, names, ["offset", "scale"]]


def test_numba_style_code_attribute_untouched():
    """What compiles from __code__, as Numba does, sees the user's bytecode and no foreign closure."""
    found, _ = kept(lambda: factory(10))
    assert found[0].__code__.co_freevars == ("k",)
    assert found[0].__qualname__ == "factory.<locals>.made"
    assert [cell.cell_contents for cell in found[0].__closure__] == [10]


def test_spawned_worker_source_from_marked_factory():
    """A function from a marked factory, made inside a converted definition, runs in a worker process."""
    found, _ = kept(lambda: marked_factory(10))
    with WorkerPool(1) as pool:
        [result] = pool.submit(pool.register(found[0]), [(np.array(1),)]).result()
    assert result == 10


def test_local_source_in_parallel_error_names_closure():
    """E13: what cannot travel to a process is named; it is the user's closure, never a hook of the conversion."""

    def make():
        lock = threading.Lock()

        def callback(x):
            return x if lock else x * 2

        return callback

    found, _ = kept(make)
    with pytest.raises(TypeError) as caught:
        dumps_function(found[0])
    text = "\n".join([str(caught.value), *getattr(caught.value, "__notes__", [])])
    assert "lock" in text
    assert "__pf" not in text


# The marker


def test_marker_is_pure_attribute_no_wrapper():
    """do_not_convert returns the same object with an attribute."""

    def g(x):
        return x

    code = g.__code__
    assert do_not_convert(g) is g
    assert g.__code__ is code
    assert vars(g) == {guard.MARK: True}
    assert autograph.converted(g) is g
    assert do_not_convert(len) is len


def test_marker_empty_call():
    """@do_not_convert() is the decorator too."""

    @do_not_convert()
    def g(x):
        return x

    assert guard.is_marked(g)


def test_marker_on_pipeline_rejected_both_orders():
    """E12: a pipeline definition cannot be marked, below or above pipeline_def."""

    def define():
        return data()

    with pytest.raises(ValueError, match="cannot be marked with @do_not_convert"):
        do_not_convert(pipeline_def(define))
    with pytest.raises(ValueError, match="cannot be marked with @do_not_convert"):
        pipeline_def(do_not_convert(define))


def test_marker_on_class_and_method():
    """Objects of a marked class and marked methods run as written."""

    @do_not_convert
    class Marked:
        def __call__(self, x):
            return 1 if x < 3 else 2

    class Half:
        @do_not_convert
        def m(self, x):
            return 1 if x < 3 else 2

        def n(self, x):
            return 1 if x < 3 else 2

    for function in (lambda i: Marked()(i), lambda i: Half().m(i)):
        fails(function, error=TypeError, match="not converted because it is marked")
    assert batch(lambda i: Half().n(i)) == [1, 1, 1, 2, 2, 2]


def test_marked_function_with_node_if_error_E1():
    """The message says where, in which function and why."""

    @do_not_convert
    def augment(x):
        if x < 3:
            return x
        return x * 2

    text = fails(lambda i: augment(i), error=TypeError, match="no single truth value")
    line = inspect.getsourcelines(augment)[1] + 2
    assert (
        f"In augment() at {HERE}:{line}: this function was not converted because it is marked @do_not_convert" in text
    )


def test_function_called_by_marked_is_plain():
    """A marked function's callees run as written too, and the message names the marked one."""

    def inner(x):
        return 1 if x < 3 else 2

    @do_not_convert
    def outer(x):
        return inner(x)

    fails(lambda i: outer(i), error=TypeError, match=r"In inner\(\).*called by outer\(\).*marked")


def test_product_of_marked_factory_called_directly_converts():
    """The product is not marked, so calling it converts it."""
    assert batch(lambda i: marked_factory(10)(i)) == EXPECTED


def test_why_not_converted_reasons():
    """The question can be asked of any callable."""
    namespace = {}
    exec("def made(): pass", namespace)

    def generator():
        yield

    async def coroutine():
        pass

    reasons = {
        marked_factory: "marked",
        namespace["made"]: "source is not available",
        textwrap.dedent: "module 'textwrap'",
        len: "not a Python function",
        generator: "generators",
        coroutine: "coroutines",
        functools.lru_cache(global_callback): "lru_cache",
        fn.cast if hasattr(fn, "cast") else fn.python_function: "pipeflow",
    }
    for function, reason in reasons.items():
        assert reason in guard.why_not_converted(function)
    for function in (global_callback, Base, Callback(), Callback().method, functools.partial(factory, 1)):
        assert guard.why_not_converted(function) is None
    assert "hooks" not in guard.show_converted(global_callback)
    assert "__pf__.ternary(x < 2" in guard.show_converted(global_callback)
    with pytest.raises(ValueError, match="is not converted: it is marked"):
        guard.show_converted(marked_factory)


def test_marker_on_bound_method_marks_function():
    """Marking a bound method marks the function for all objects."""

    class K:
        def m(self, x):
            return 1 if x < 3 else 2

    do_not_convert(K().m)
    fails(lambda i: K().m(i), error=TypeError, match="marked")


# python_function


def recording(seen):
    """A callback that notes what it gets."""

    def note(x):
        seen.append(x.tolist() if isinstance(x, np.ndarray) else [int(y) for y in x])
        return x

    return note


def test_python_function_sees_only_its_samples():
    """Those of the branch, in batch order."""
    seen = []
    function = recording(seen)
    assert batch(lambda i: pyfn(i, function=function) if i % 2 == 1 else i) == list(range(B))
    assert seen == [1, 3, 5]


def test_batch_callback_gets_partial_list():
    """One call with the list of the branch's samples."""
    seen = []
    function = recording(seen)
    assert batch(lambda i: pyfn(i, function=function, batch_processing=True) if i > 2 else i) == list(range(B))
    assert seen == [[3, 4, 5]]


@pytest.mark.parametrize("whole", [False, True])
def test_empty_partial_batch_never_calls_back(whole):
    """No samples, no call."""
    seen = []
    function = recording(seen)
    assert batch(lambda i: pyfn(i, function=function, batch_processing=whole) if i < 0 else i) == list(range(B))
    assert seen == []


def test_inputless_callback_runs_full_batch():
    """In a branch too."""
    calls = []

    def function():
        calls.append(1)
        return np.int32(7)

    assert batch(lambda i: pyfn(function=function) if i < 2 else i) == [7, 7, 2, 3, 4, 5]
    assert len(calls) == B


def test_zero_output_callback_runs_for_its_branch_only():
    """And is kept although nothing reads it."""
    seen = []

    def f(i):
        if i == 4:
            pyfn(i, function=lambda x: seen.append(int(x)), num_outputs=0)
        return i

    assert batch(f) == list(range(B))
    assert seen == [4]


def test_zero_output_callback_returning_value_errors():
    """A clean error (DALI crashes)."""

    def f(i):
        if i == 4:
            pyfn(i, function=lambda x: x, num_outputs=0)
        return i

    fails(f, error=TypeError, match="num_outputs=0 and returned")


def test_rhs_of_and_sees_only_true_samples():
    """Short circuit per sample."""
    seen = []

    def function(x):
        seen.append(int(x))
        return np.bool_(x != 4)

    assert batch(lambda i: i > 2 and pyfn(i, function=function)) == [False, False, False, True, False, True]
    assert seen == [3, 4, 5]


def test_exception_in_callback_names_user_line():
    """The original exception, with notes: operator, sample, user's line."""
    error = KeyError("mine")

    def function(x):
        raise error

    def f(i):
        return pyfn(i, function=function) if i == 2 else i

    pipe = pipeline(f)
    with pytest.raises(KeyError) as caught:
        pipe.run()
    assert caught.value is error
    notes = "\n".join(error.__notes__)
    assert "sample 2" in notes
    assert f"{HERE}:{inspect.getsourcelines(f)[1] + 1}" in notes


def test_callback_in_nested_if_order_preserved():
    """Nested conditions keep the batch's order."""
    seen = []
    function = recording(seen)

    def f(i):
        if i > 0:
            if i != 3:
                i = pyfn(i, function=function)
        return i

    assert batch(f) == list(range(B))
    assert seen == [1, 2, 4, 5]


def test_multi_output_callback_other_branch_constant():
    """Each output is merged with a constant of its own."""

    def f(i):
        a, b = 7, 8
        if i < 2:
            a, b = pyfn(i, function=lambda x: (x, x + 1), num_outputs=2)
        return a, b

    assert batch(f) == [(0, 1), (1, 2), (7, 8), (7, 8), (7, 8), (7, 8)]


# Semantics


class Box:
    """An object with attributes."""


def test_nested_partial_return():
    """Some samples of a branch return."""

    def f(i):
        if i < 4:
            if i < 2:
                return i + 100
            i = i + 1
        return i

    agree(f)


def test_return_in_loop():
    """Samples return from different iterations, with or without an else."""

    def f(i):
        for k in range(4):
            if i == k:
                return i * 100
        else:
            i = i + 1000
        return i

    agree(f)


def test_stores_into_slots_of_a_list_in_a_loop():
    """Stores into slots of a list in a loop inside an if."""

    def f(i):
        xs = [i, i + 1, i + 2]
        if i < 3:
            for k in (0, 2):
                xs[k] = xs[k] * 10
        return xs[0], xs[1], xs[2]

    agree(f)


def test_list_append_in_both():
    """A list grows once."""

    def f(i):
        xs = [i]
        if i < 3:
            xs.append(i * 2)
        else:
            xs.append(i * 3)
        assert len(xs) == 2
        return xs[0], xs[1]

    agree(f)


STASH = []
GLOBAL = None


def test_state_out_of_sight():
    """Leaks are detected; attributes, nonlocals and globals set by callees or in branches act per sample."""

    def leak(i):
        def keep(v):
            STASH.append(v)

        if i < 3:
            keep(i * 2)
        return STASH.pop() + 1

    fails(leak, error=ValueError, match="It escaped through something that is not tracked")

    def attribute_set_by_callee(i):
        o = Box()
        o.v = i
        o.sub = Box()
        o.sub.w = i

        def store(v):
            o.v = v
            o.sub.w = v

        j = i + 100
        if i < 3:
            store(j)
        else:
            store(i)
        return o.v, o.sub.w

    def nonlocal_rebound_by_callee(i):
        z = i
        j = i + 100

        def rebind():
            nonlocal z
            z = j

        if i < 3:
            rebind()
        return z

    def global_written_in_branches(i):
        global GLOBAL
        GLOBAL = i
        if i < 3:
            GLOBAL = i * 10
        return GLOBAL

    def returned_object_changed_before_return(i):
        d = {"a": i}
        if i < 3:
            d["a"] = i * 10
            return d["a"] + 0, d
        return d["a"], d

    for function in (attribute_set_by_callee, nonlocal_rebound_by_callee, global_written_in_branches):
        agree(function)

    def last(i):
        x, d = returned_object_changed_before_return(i)
        return x, d["a"]

    agree(last)


def test_objects_changed_by_a_callee_that_returns_early():
    """What a called function did to its arguments before an early return is seen by the caller."""

    def helper(o, x):
        if x < 3:
            o.v = x * 10
            return x
        o.v = x
        return x + 1

    def f(i):
        o = Box()
        r = helper(o, i)
        return r, o.v

    agree(f)


def test_same_constant_stays_python():
    """And can be used where Python wants a number."""

    def f(i):
        if i < 3:
            n, r = 2, i
        else:
            n, r = 2, i * 2
        return r * [5, 6, 7][n]

    agree(f)


def test_weak_scalar_dtype():
    """A Python number takes the dtype of the node on the other side, through nested ifs too."""

    def f(i):
        x = i * types.Constant(1).float64()
        if i < 2:
            r = 1
        elif i < 4:
            r = 2
        else:
            r = x
        return r

    pipe = pipeline(f)
    [output] = pipe.run()
    assert output.dtype == types.FLOAT64
    assert np.asarray(output).tolist() == [1, 1, 2, 2, 4, 5]


def test_dtype_mismatch_is_reported_while_the_graph_is_built_and_fails_where_both_sides_have_samples():
    """A warning where both types are known; a batch that takes one branch alone has the type of that branch, as in DALI."""

    def known(i):
        return i if i < 100 else i * types.Constant(1).float64()

    def mixed(i):
        return i if i < 3 else i * types.Constant(1).float64()

    def half_known(i):
        return pyfn(i, function=lambda x: x * np.float64(1)) if i < 3 else i

    text = "int32 0-d in the `if` branch.*float64 0-d in the `else` branch"
    with pytest.raises(RuntimeError, match=text):  # warnings are errors here
        pipeline(known)
    with pytest.warns(DivergentBranches, match=text):
        assert pipeline(known).run()[0].dtype == types.INT32
    with pytest.warns(DivergentBranches, match=text):
        pipe = pipeline(mixed)
    with pytest.raises(RuntimeError, match=f"Divergent data found.*{text}"):
        pipe.run()
    fails(half_known, match="float64 0-d in the `if` branch.*int32 0-d in the `else` branch")


def test_layout_empty_vs_set():
    """No layout takes the other side's, also where it is known only at run time."""
    image = np.zeros((B, 2, 2, 3), np.uint8)

    def f(i):
        x = data(image, layout="HWC")
        r = x
        if i < 3:
            r = pyfn(x, function=lambda a: a.copy())
        return r

    pipe = pipeline(f)
    assert pipe.run()[0].layout() == "HWC"

    def late(i):
        x = data(image)
        if i < 3:
            r = pyfn(x, function=lambda a: a.copy(), output_layouts="HWC")
        else:
            r = pyfn(x, function=lambda a: a.copy(), output_layouts="CHW")
        return r

    fails(late, match="HWC.*CHW")


def test_ternary():
    """Nested, with constants, in arguments."""

    def f(i):
        return max(1, 2) + (i * 10 if i < 3 else -i if i < 5 else 7)

    agree(f)


def test_two_lambdas_one_line():
    """Each is found by its columns."""

    def f(i):
        return [g(i) for g in (lambda x: 1 if x < 2 else 2, lambda x: 3 if x < 4 else 5)][1]

    agree(f)


class Base:
    """A parent with a class method."""

    def __init__(self, k):
        self.__k = k

    def go(self, x):
        """Reads a private name."""
        return x * self.__k if x < 3 else x

    @classmethod
    def make(cls, x):
        """Builds one by a condition."""
        if x is None:
            return cls(2)
        return cls(10)


class Child(Base):
    """An heir."""

    def go(self, x):
        """super() without arguments."""
        r = super().go(x)
        if x < 2:
            r = r + 1000
        return r


def test_mangled_super_classmethod():
    """Private names, super() and class methods."""
    agree(lambda i: Child.make(i).go(i))


def test_constructor_with_if():
    """Also of a class with slots."""

    class Slotted:
        __slots__ = ("v", "w")

        def __init__(self, x):
            self.v = self.w = x
            if x < 3:
                self.v = x * 9

    def f(i):
        s = Slotted(i)
        if i < 4:
            s.w = i + 1
        return s.v, s.w

    agree(f)


def test_match_on_python_subject():
    """With captures in branches."""

    def f(i):
        match ["b", 3]:
            case ["a", _]:
                r = i
            case ["b", k] if k > 2:
                r = i * k if i < 3 else i
        return r

    agree(f)


def test_traceback_points_at_user_lines():
    """Every frame is the user's, with the user's line."""

    def boom(x):
        r = 1 if x < 3 else 2
        raise KeyError("mine")  # MARK

    def f(i):
        z = boom(i)
        return z

    with pytest.raises(KeyError) as caught:
        pipeline(f)
    frames = traceback.extract_tb(caught.value.__traceback__)
    mine = frames[[frame.name for frame in frames].index("f") :]
    assert [frame.name for frame in mine] == ["f", "boom"]
    assert "# MARK" in mine[-1].line


def test_scope_restored_after_caught_error():
    """After an exception in a branch a handler records where its try stands."""

    def f(i):
        try:
            if i < 3:
                raise KeyError("x")
            r = i
        except KeyError:
            r = i + 1
        return r

    assert batch(f) == [1, 2, 3, 4, 5, 6]

    def exits(i):
        for k in range(2):
            try:
                if i < 3:
                    if i < 1:
                        return i
                    raise KeyError("x")
            except KeyError:
                i = i + 10
        return i

    assert batch(exits) == [k + 20 for k in range(B)]  # the exception is of the recording: it is for all samples


def test_python_conditions_cost_no_nodes():
    """Only the operators written are recorded."""

    def f(i):
        if True and not False:
            i = i + 1
        return i if 1 < 2 < 3 else i * 2

    assert [name for name in operators(f) if name not in ("_constant", "external_source")] == ["math.add"]


def test_split_is_shared():
    """Outer values are read as they are, however often; one merge a variable."""

    def f(i):
        if i < 3:
            r = i + i * i + (i - 1)
        else:
            r = i
        return r

    names = operators(f)
    assert names.count("_merge") == 1
    assert len(names) == len([name for name in names if name.startswith(("math.", "_constant", "external"))]) + 1


def test_random_programs_vs_per_sample_reference():
    """The generator makes what the fuzz test runs; here one of each construct by hand."""

    def f(i):
        total, items, o = i, [i, i + 1], Box()
        o.v = i
        for k in range(4):
            if (i + k) % 3 == 0 and not o.v == 2:
                total = total + (10 if i % 2 == 0 else 20)
                continue
            elif total > 60:
                break
            items[k % 2] = items[k % 2] + k
            if k == 2:
                if o.v > 4:
                    return total, items[0], o.v
                o.v = o.v + items[0]
        return total + 1000, items[1], o.v

    agree(f)


def test_under_pytest_assert_rewriting():
    """Functions of a test file with assert statements, which pytest rewrites, are converted."""

    def f(i):
        assert i is not None, "message"
        if i < 3:
            assert isinstance(i, object)
            r = i
        else:
            r = i * 2
        return r

    assert guard.why_not_converted(f) is None
    agree(f)


def test_repl_and_notebook_source():
    """Source that exists in linecache only, as notebooks and the interactive interpreter keep it."""
    name = "<ipython-input-7-0123>"
    text = "def f(x):\n    return x * 10 if x < 3 else x\n"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    scope = {"__name__": "__main__"}
    exec(compile(text, name, "exec"), scope)
    assert guard.why_not_converted(scope["f"]) is None
    assert batch(lambda i: scope["f"](i)) == [0, 10, 20, 3, 4, 5]


def test_exec_without_source_E1():
    """Named with the reason."""
    scope = {}
    exec("def made(x):\n    return 1 if x < 3 else 2", scope)
    fails(lambda i: scope["made"](i), error=TypeError, match=r"In made\(\) at <string>:2.*source is not available")


def test_stale_source_detected(tmp_path):
    """An edited file is not converted by its new text."""
    path = tmp_path / "stale_module.py"
    path.write_text("def f(x, y=1):\n    return x * 10 if x < 3 else x\n")
    spec = importlib.util.spec_from_file_location("stale_module", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    path.write_text("def f(x, y=1):\n    return x * 10 if x < 3 else x + 1\n")
    linecache.checkcache(str(path))
    assert "edited after it had been imported" in guard.why_not_converted(module.f)
    path.write_text("def f(z, y=1):\n    return z * 10 if z < 3 else z\n")
    linecache.checkcache(str(path))
    assert "edited after it had been imported" in guard.why_not_converted(module.f)


def test_random_op_independent_of_branch():
    """A sample's number is the same whichever branches there are, and in both forms of seeds."""

    def top(i):
        return fn.random.uniform(range=[0.0, 1.0])

    def inside(i):
        if i % 2 == 0:
            r = fn.random.uniform(range=[0.0, 1.0])
        else:
            r = -1.0
        return r

    a, b = batch(top, seed=11), batch(inside, seed=11)
    assert [x for x in b if x != -1.0] == a[::2]


def lines_run(function, run):
    """The lines of this file that belong to a function and run, as coverage sees them."""
    first = function.__code__.co_firstlineno  # ran when the function was defined
    seen = set()

    def tracer(frame, event, _):
        if frame.f_code.co_filename != __file__ or frame.f_code.co_name != function.__name__:
            return None
        if event == "line":
            seen.add(frame.f_lineno)
        return tracer

    before = sys.gettrace()
    sys.settrace(tracer)
    try:
        run()
    finally:
        sys.settrace(before)
    return seen - {first}


def covered(i):
    """Every line but the last two runs for some number."""
    r = i
    if i < 3:
        r = r + 1
    else:
        r = r + 2
    for k in range(2):
        if i == k:
            continue
        r = r + k
    if True:
        return r
    r = r + 1
    return r


def test_coverage_lines_identical():
    """The converted function runs the lines that the samples together run in plain Python."""
    agree(covered)
    plain = lines_run(covered, lambda: single(covered))
    converted = lines_run(covered, lambda: pipeline(covered))
    assert converted == plain


# cond, maybe, one_of


def test_cond_needs_no_source():
    """It runs functions made by exec, lambdas and partials per sample, without enable_conditionals."""
    scope = {}
    exec("def double(x): return x * 2", scope)
    for conditionals in (False, True):
        result = batch(lambda i: pipeflow.cond(i < 3, scope["double"], lambda x: x + 100, i), conditionals=conditionals)
        assert result == [0, 2, 4, 103, 104, 105]


def test_cond_converts_what_it_calls_and_merges_structures():
    """Functions with source are converted where the feature is on; results are merged leaf by leaf."""

    def first(x):
        return {"a": 1 if x < 1 else 2, "b": (x, x)}

    def f(i):
        r = pipeflow.cond(i < 3, first, lambda x: {"a": 3, "b": (x * 2, x)}, i)
        return r["a"], r["b"][0]

    assert batch(f) == [(1, 0), (2, 1), (2, 2), (3, 6), (3, 8), (3, 10)]
    fails(lambda i: pipeflow.cond(i < 3, lambda x: x, lambda x: (x, x), i), error=ValueError, match="cannot be merged")
    fails(lambda i: pipeflow.cond(i < 3, lambda x: x, lambda x: None, i), error=ValueError, match="None")


def test_cond_sees_changes_of_its_arguments_and_closures():
    """Containers that the functions change are merged too."""

    def f(i):
        box, table = Box(), {}
        box.v = i

        def change(o):
            o.v = o.v * 10
            table["x"] = 1
            return i

        def leave(o):
            table["x"] = 2
            return i

        r = pipeflow.cond(i < 3, change, leave, box)
        return r, box.v, table["x"]

    assert batch(f, conditionals=False) == [(0, 0, 1), (1, 10, 1), (2, 20, 1), (3, 3, 2), (4, 4, 2), (5, 5, 2)]


def test_cond_outside_a_pipeline_is_a_plain_choice():
    """One function is called."""
    assert pipeflow.cond(2 < 3, lambda x: x + 1, lambda x: 1 / 0, 1) == 2


def test_maybe_is_a_coin_or_a_coin_and_a_function():
    """The same seed gives the same samples in both forms."""

    def coin(i):
        if fn.maybe(0.5, seed=5):
            i = i + 100
        return i

    def applied(i):
        return fn.maybe(0.5, lambda x: x + 100, i, seed=5)

    a = batch(coin, batch_size=B)
    assert a == batch(applied, conditionals=False)
    assert set(x >= 100 for x in a) == {True, False}
    assert batch(lambda i: fn.maybe(0.0, lambda x: x + 1, i)) == list(range(B))
    assert batch(lambda i: fn.maybe(1.0, lambda x, y: (x + y, y), i, i)) == [(2 * k, k) for k in range(B)]
    fails(lambda i: fn.maybe(0.5, lambda: 1), error=TypeError, match="pass the inputs")


def test_one_of_draws_by_the_probabilities():
    """Each sample takes one function; the shares are those asked for."""
    many = np.zeros(2000, np.int32)
    functions = [lambda x: x + 1, lambda x: x + 2, lambda x: x + 3]

    def f(i):
        return fn.one_of(functions, i, probabilities=[0.5, 0.2, 0.3], seed=1)

    values = np.array(batch(f, lambda: data(many), conditionals=False, batch_size=2000))
    shares = [np.mean(values == k) for k in (1, 2, 3)]
    assert np.allclose(shares, [0.5, 0.2, 0.3], atol=0.04)
    assert batch(lambda i: fn.one_of([lambda x: x * 2], i)) == [2 * k for k in range(B)]
    fails(lambda i: fn.one_of([], i), error=TypeError, match="at least one function")
    fails(lambda i: fn.one_of(functions, i, probabilities=[1, 1, 1]), error=ValueError, match="sum 1")


# Debug mode, subclasses


def everything(i):
    """Conditions of all kinds."""
    r = i
    if i < 3:
        r = pyfn(r, function=lambda x: x * 10)
    elif i == 4 or not i > 1:
        return i + 1000, 1
    for k in range(3):
        if r > 20 + k:
            break
        r = r + (1 if i % 2 == 0 else 2)
    noise = fn.random.uniform(range=[0.0, 1.0])
    return r, 3 if noise < 0.5 and i != 5 else 4


def test_debug_mode_gives_the_same():
    """A debug run equals the compiled run, with and without data known before."""
    assert batch(everything, seed=7) == batch(everything, seed=7, debug=True)
    assert batch(everything, seed=7, iterations=3) == batch(everything, seed=7, debug=True, iterations=3)

    def nodes_have_values(i):
        if i < 3:
            r = i * 10
            seen.append(np.asarray(r.get().at(1)).tolist())
        else:
            r = i
        return r

    seen = []
    with pytest.raises(ValueError, match="'seen' is a list of different length"):
        batch(nodes_have_values, debug=True)


def test_debug_mode_raises_the_same_errors():
    """At the same places."""

    def unset(i):
        if i < 3:
            r = i
        return r + 1

    def vector(i):
        if pyfn(i, function=lambda x: np.ones(2)):
            i = i + 1
        return i

    fails(unset, match="variable 'r'", debug=True)
    fails(vector, match=r"0-d.*\(2,\)", debug=True)


def test_a_pipeline_subclass():
    """enable_conditionals is an argument of Pipeline, and define_graph is converted."""

    class Mine(Pipeline):
        def __init__(self, **options):
            super().__init__(batch_size=B, num_threads=1, device_id=None, **options)
            self.factor = 10

        def define_graph(self):
            i = data()
            if i < 3:
                return i * self.factor
            return i

    [output] = Mine(enable_conditionals=True).run()
    assert np.asarray(output).tolist() == [0, 10, 20, 3, 4, 5]
    with pytest.raises(TypeError, match="conditional execution is off"):
        Mine().run()


def test_a_batch_is_never_partial():
    """Every output of a batch has all its samples, whatever their branches, over many batches and threads."""
    counter = iter(range(10_000))

    def f(i):
        if i % 3 == 0:
            r = pyfn(i, function=lambda x: x * 2)
        elif i % 3 == 1:
            r = i * 3
        else:
            r = i
        return r

    def moving():
        return fn.external_source(
            source=lambda: np.arange(7, dtype=np.int32) + next(counter), dtype=types.INT32, ndim=0, batch=True
        )

    pipe = pipeline(f, moving, batch_size=7, num_threads=3, prefetch_queue_depth=3)
    for start in range(50):
        numbers = np.arange(7) + start
        expected = np.where(numbers % 3 == 0, numbers * 2, np.where(numbers % 3 == 1, numbers * 3, numbers))
        assert np.array_equal(np.asarray(pipe.run()[0]), expected)


def test_conditions_survive_serialization():
    """A saved graph with guards and merges gives the same when it is loaded."""

    def f(i):
        if i < 3:
            r = i * 10
        else:
            r = i + 1
        return r

    def named():
        i = fn.external_source(name="numbers", dtype=types.INT32, ndim=0)
        return f(i)

    options = {"batch_size": B, "num_threads": 1, "device_id": None, "prefetch_queue_depth": 1}
    pipe = pipeline_def(named, enable_conditionals=True, **options)()
    loaded = Pipeline.deserialize(pipe.serialize())
    assert np.asarray(loaded.run(numbers=NUMBERS)[0]).tolist() == [0, 10, 20, 4, 5, 6]


def test_contextlib_and_finally_run_once():
    """Context managers around conditions are entered and left once."""
    entered = []

    @contextlib.contextmanager
    def manager():
        entered.append("in")
        yield
        entered.append("out")

    def f(i):
        with manager():
            r = i * 10 if i < 3 else i
        return r

    agree(f)
    assert entered == ["in", "out"] * (B + 1)
