"""fn.gradients: derivatives through chains of py_functions, against finite differences."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from helpers import LONG

from pipeflow import fn, pipeline_def
from pipeflow.compile import gradients as compiled
from pipeflow.declare import Spec
from pipeflow.declare.calls import BatchCall
from pipeflow.operators import gradients

BATCH = 6


def run(define, **settings):
    pipe = pipeline_def(define, **{"batch_size": BATCH, "num_threads": 2, "seed": 1, **settings})()
    return [[np.array(x) for x in batch.samples()] for batch in pipe.run()]


def numbers(info):
    return np.float64([-3, -1, 0.5, 1, 2.5, 4][info.idx_in_batch])


def vectors(info):
    return np.random.default_rng(info.idx_in_epoch).normal(0, 2, 5)


class TestGraph:
    """What the pass finds out without any framework."""

    @pytest.mark.parametrize(
        ("build", "text"),
        [
            (lambda x: fn.gradients(fn.pad(x), [x]), "fn.pad .* has no derivative; fn.py_function, arithmetic, casts"),
            (
                lambda x: fn.gradients(fn.py_function(np.sin, [x], np.float64, framework="numpy"), [x]),
                "works on NumPy arrays, which keep no derivatives",
            ),
            (lambda x: fn.gradients(fn.random.uniform(), [x]), "no y depends on x 0"),
        ],
    )
    def test_what_has_no_derivative_is_named_at_build(self, build, text):
        """Another operator on the way, NumPy functions and independent nodes are errors with the user's lines."""

        def define():
            return build(fn.external_source(vectors, batch=False))

        pipe = pipeline_def(define, batch_size=BATCH, num_threads=1)()
        with pytest.raises(ValueError, match=text) as caught:
            pipe.build()
        assert "test_gradients.py" in "\n".join(caught.value.__notes__)

    def test_it_works_in_pipelines_only(self):
        """On arrays there is no graph to go back through."""
        with pytest.raises(RuntimeError, match="gradients need nodes of a pipeline definition"):
            fn.gradients(np.ones(1), [np.ones(1)])

    def test_empty_lists_are_refused(self):
        """Both lists need an entry."""
        with pytest.raises(ValueError, match="xs is empty"):
            fn.gradients([np.ones(1)], [])


def test_an_error_of_the_framework_names_the_function():
    """What has no derivative is said by the framework in its own words; ours add whose it is."""

    def rounded(x):
        return np.round(x)

    def back(_weights):
        raise RuntimeError("element 0 of tensors does not require grad")

    tape = object.__new__(gradients.Tape)
    tape.func, tape._back = rounded, back
    with pytest.raises(RuntimeError, match=r"rounded .* has no derivative: element 0 of tensors does not require grad"):
        tape.back([None])


def library(name):
    """The module of a framework with log, sin and so on."""
    if name == "torch":
        import torch

        return torch
    import jax

    jax.config.update("jax_enable_x64", True)
    return jax.numpy


@pytest.mark.adapters
@pytest.mark.parametrize("name", ["torch", "jax"])
class TestDerivatives:
    """The same for both frameworks."""

    def test_log_huber(self, name):
        """Samples of one batch take different branches; x=1, m=2 gives y=1 and a derivative of 2."""
        xp = library(name)

        def log_huber(x, m):
            return x**2 if abs(x) <= m else m**2 * (1 - 2 * xp.log(m) + xp.log(x**2))

        def define():
            x = fn.external_source(numbers, batch=False)
            y = fn.py_function(log_huber, [x, np.float64(2)], np.float64, framework=name)
            return x, y, *fn.gradients(y, [x])

        xs, ys, found = run(define)
        assert ys[3] == 1
        assert found[3] == 2
        for x, derivative in zip(xs, found):
            expected = 2 * x if abs(x) <= 2 else 4 * 2 / x
            np.testing.assert_allclose(derivative, expected, rtol=1e-12)

    def test_log_huber_against_finite_differences(self, name):
        """Random numbers on both sides of the threshold, which is random as well."""
        xp = library(name)

        def log_huber(x, m):
            return x**2 if abs(x) <= m else m**2 * (1 - 2 * xp.log(m) + xp.log(x**2))

        def both(info):
            rng = np.random.default_rng(info.idx_in_epoch)
            return np.float64(rng.normal(0, 3)), np.float64(rng.uniform(0.5, 3))

        def define():
            x, m = fn.external_source(both, batch=False, num_outputs=2)
            y = fn.py_function(log_huber, [x, m], np.float64, framework=name)
            return x, m, *fn.gradients(y, [x, m])

        def value(x, m):
            return x**2 if abs(x) <= m else m**2 * (1 - 2 * np.log(m) + np.log(x**2))

        inside = set()
        for x, m, dx, dm in zip(*run(define, batch_size=24)):
            inside.add(bool(abs(x) <= m))
            np.testing.assert_allclose(dx, (value(x + 1e-6, m) - value(x - 1e-6, m)) / 2e-6, rtol=1e-5, atol=1e-8)
            np.testing.assert_allclose(dm, (value(x, m + 1e-6) - value(x, m - 1e-6)) / 2e-6, rtol=1e-5, atol=1e-8)
        assert inside == {False, True}

    def test_a_chain_with_several_inputs_and_outputs(self, name):
        """The derivatives of a sum over several outputs of a chain agree with finite differences."""
        xp = library(name)

        def first(a, b):
            return xp.sin(a) * b, a + b**2

        def second(p, q):
            return (p * q).sum()

        def define():
            a, b = fn.external_source(lambda info: (vectors(info), 1 + vectors(info) ** 2), num_outputs=2, batch=False)
            p, q = fn.py_function(first, [a, b], [np.float64, np.float64], framework=name)
            z = fn.py_function(second, [p, q], np.float64, framework=name)
            return a, b, p, *fn.gradients([z, p], [a, b, p])

        def value(a, b):
            p, q = np.sin(a) * b, a + b**2
            return (p * q).sum() + p.sum()

        for a, b, _, da, db, dp in zip(*run(define)):
            for which, found in ((0, da), (1, db)):
                for i in range(len(a)):
                    step = np.zeros(len(a))
                    step[i] = 1e-6
                    moved = [(a + step, b), (a - step, b)] if which == 0 else [(a, b + step), (a, b - step)]
                    expected = (value(*moved[0]) - value(*moved[1])) / 2e-6
                    np.testing.assert_allclose(found[i], expected, rtol=1e-6, atol=1e-6)
            np.testing.assert_allclose(dp, a + b**2 + 1, rtol=1e-12)  # of an x that is itself a result

    def test_inside_a_branch(self, name):
        """In a conditional the derivative is there for the samples of the branch."""
        library(name)

        @pipeline_def(batch_size=BATCH, num_threads=2, seed=1, enable_conditionals=True)
        def define():
            x = fn.external_source(numbers, batch=False, dtype=np.float64, ndim=0)
            if x > 1:
                y = fn.py_function(lambda x: x**3, [x], np.float64, framework=name)
                derivative = fn.gradients(y, [x])[0]
            else:
                derivative = x * 0
            return x, derivative

        for x, derivative in zip(*[batch.samples() for batch in define().run()]):
            np.testing.assert_allclose(derivative, 3 * x**2 if x > 1 else 0)

    def test_each_function_runs_once(self, name):
        """Derivatives come from the call that made the result, not from another one."""
        library(name)
        calls = []

        def count(x):
            calls.append(1)
            return x * 2

        def define():
            x = fn.external_source(vectors, batch=False)
            y = fn.py_function(count, [x], np.float64, framework=name)
            return y, *fn.gradients(y, [x]), *fn.gradients([y, y], [x])

        _, once, twice = run(define, prefetch_queue_depth=1, exec_pipelined=False)
        assert len(calls) == BATCH
        assert all((x == 2).all() for x in once)
        assert all((x == 4).all() for x in twice)

    def test_integers_have_no_derivative(self, name):
        """An integer input is an error that names the function, the input and its type."""
        library(name)

        def define():
            x = fn.external_source(lambda _info: np.int32(3), batch=False)
            y = fn.py_function(lambda x: x * 2.0, [x], np.float32, framework=name)
            return fn.gradients(y, [x])[0]

        with pytest.raises(TypeError, match="input 0 of .*lambda.* is int32, and gradients need") as caught:  # noqa: RUF043
            run(define)
        assert caught.value.__notes__[0] == "in fn.py_function, sample 0 of batch 0"
        assert "test_gradients.py" in caught.value.__notes__[1]

    def test_a_second_derivative_is_refused(self, name):
        """Functions are once differentiable: the error says so when the pipeline is built."""
        library(name)

        def define():
            x = fn.external_source(vectors, batch=False)
            y = fn.py_function(lambda x: x**3, [x], np.float64, framework=name)
            return fn.gradients(fn.gradients(y, [x]), [x])[0]

        with pytest.raises(ValueError, match="second derivative"):
            run(define)


@pytest.mark.adapters
def test_mixed_frameworks_are_refused():
    """A chain stays within one framework."""

    def define():
        x = fn.external_source(vectors, batch=False)
        y = fn.py_function(lambda x: x * 2, [x], np.float64)
        z = fn.py_function(lambda x: x * 2, [y], np.float64, framework="jax")
        return fn.gradients(z, [x])[0]

    text = r"mixes frameworks \(jax in fn.py_function \(py_function_1\) of .*, torch in fn.py_function \(py_function_0\) of"
    with pytest.raises(ValueError, match=text):
        run(define)


@pytest.mark.adapters
def test_a_detached_result_is_named():
    """A function that leaves the framework has no derivative: the error names it."""

    def leaves(x):
        return x.detach() * 2

    def define():
        x = fn.external_source(vectors, batch=False)
        y = fn.py_function(leaves, [x], np.float64)
        return fn.gradients(y, [x])[0]

    with pytest.raises(RuntimeError, match="leaves .*test_gradients.py.* detached from its inputs") as caught:  # noqa: RUF043
        run(define)
    assert caught.value.__notes__[0] == "in fn.gradients, sample 0 of batch 0"


@pytest.mark.adapters
def test_limits_of_time_and_threads_go_with_it():
    """Arguments about how the function runs change nothing of its derivative."""

    def define():
        x = fn.external_source(vectors, batch=False)
        y = fn.py_function(lambda x: x**2, [x], np.float64, timeout=LONG, parallel="threads")
        return x, fn.gradients(y, [x])[0]

    for x, derivative in zip(*run(define)):
        np.testing.assert_allclose(derivative, 2 * x)


def test_functions_are_those_of_torch_unless_they_say_another():
    """In the graph of gradients each has its tape as one more output, and the framework that records it."""

    def define():
        return fn.py_function(np.sin, [fn.external_source(vectors, batch=False)], np.float64, framework="numpy")

    node = pipeline_def(define, batch_size=1, num_threads=1)().graph.nodes[-1]
    silent = {name: value for name, value in node.constants.items() if name != "framework"}
    taped = [compiled._taped(replace(node, constants=constants), (0,)) for constants in (silent, node.constants)]
    assert [node.constants["framework"] for node in taped] == ["torch", "numpy"]
    assert [(node.count, node.specs[-1].dtype, node.constants["wanted"]) for node in taped] == [(2, object, (0,))] * 2


def test_a_chain_of_two_frameworks_is_refused():
    """Derivatives of one do not flow through functions of the other."""

    def define():
        x = fn.external_source(vectors, batch=False)
        first = fn.py_function(np.sin, [x], np.float64, framework="numpy")
        return fn.gradients(fn.py_function(np.cos, [first], np.float64, framework="numpy"), [x])

    pipe = pipeline_def(define, batch_size=1, num_threads=1)()
    functions = [node for node in pipe.graph.nodes if "func" in node.constants]
    for node, name in zip(functions, ("torch", "jax"), strict=True):
        node.constants["framework"] = name  # they are not installed, so the definition cannot name them
    with pytest.raises(
        ValueError, match=r"a chain mixes frameworks \(jax in fn.py_function .*, torch in fn.py_function"
    ):
        pipe.build()


def test_gradients_have_the_types_of_what_they_are_taken_by():
    """The results come first among the inputs, and what they are derived by after them."""
    specs = tuple(Spec((n,), np.dtype(np.float32), "") for n in range(3))
    assert gradients.gradients.infer_hook(specs, SimpleNamespace(sizes=(1, 2))) == specs[1:]


def test_a_function_with_a_tape_gives_its_results_and_the_tapes(monkeypatch):
    """One column for each output, and a last one of objects that go back."""

    def define():
        return fn.py_function(np.sin, [fn.external_source(vectors, batch=False)], [np.float64] * 2, framework="numpy")

    declared = pipeline_def(define, batch_size=1, num_threads=1)().graph.nodes[-1].constants["Tout"]
    fake = SimpleNamespace(
        differentiate=lambda func, arrays, wanted: (func(*arrays), list),
        to_tensor=lambda array: array,
        is_tensor=lambda _: False,
    )
    monkeypatch.setattr(gradients, "framework", lambda _: fake)
    args = SimpleNamespace(func=lambda x: (x + 1, x * 2), Tout=declared, framework="fake", wanted=(0,))
    batch = BatchCall(2, lambda: None, [""], lambda nbytes: np.empty(nbytes, np.uint8))
    first, second, tapes = gradients.taped_function.batch_hook(np.array([[1.0], [5.0]]), args=args, batch=batch)
    assert np.asarray(first).tolist() == [[2], [6]]
    assert np.asarray(second).tolist() == [[2], [10]]
    assert [type(tape.item()) for tape in tapes] == [gradients.Tape] * 2
