"""fn.numba_function and python_function(jit=True): compiled, checked, and the same as plain Python."""

import functools
import subprocess
import sys
from pathlib import Path

import numba
import numpy as np
import pytest
from helpers import LONG

from pipeflow import fn, pipeline_def, types

BATCH = 4
ROOT = Path(__file__).parents[2]


def images(info):
    return np.random.default_rng(info.idx_in_epoch).integers(0, 255, (3 + info.idx_in_batch, 4, 2)).astype(np.uint8)


def run(define, batches=1, **settings):
    pipe = pipeline_def(define, **{"batch_size": BATCH, "num_threads": 2, "seed": 1, **settings})()
    return [[[np.array(x) for x in batch.samples()] for batch in pipe.run()] for _ in range(batches)]


def contrast(x):
    """The example of this file: an elementwise function of an image."""
    result = np.empty(x.shape, np.float32)
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            for c in range(x.shape[2]):
                value = 1.5 * x[i, j, c] - 20
                result[i, j, c] = min(max(value, 0.0), 255.0)
    return result


def fill_contrast(result, x):
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            for c in range(x.shape[2]):
                value = 1.5 * x[i, j, c] - 20
                result[i, j, c] = min(max(value, 0.0), 255.0)


def transposed_shape(outputs, inputs):
    for sample in range(len(outputs[0])):
        for axis, of_input in enumerate((1, 0, 2)):
            outputs[0][sample][axis] = inputs[0][sample][of_input]


def transpose(result, x):
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            result[j, i] = x[i, j]


def transpose_all(results, xs):
    for result, x in zip(results, xs):
        for i in range(x.shape[0]):
            for j in range(x.shape[1]):
                result[j, i] = x[i, j]


IMAGE = {"in_types": types.UINT8, "ins_ndim": 3}
SAME = {**IMAGE, "out_types": types.UINT8, "outs_ndim": 3}


class TestJit:
    """python_function(jit=True)."""

    def test_it_computes_what_the_plain_function_computes(self):
        """The compiled function gives the same results, for ragged samples of one batch."""

        def define():
            x = fn.external_source(images, batch=False)
            return fn.python_function(x, function=contrast), fn.python_function(x, function=contrast, jit=True)

        for plain, compiled in run(define, batches=2):
            for left, right in zip(plain, compiled):
                assert right.dtype == left.dtype
                np.testing.assert_array_equal(left, right)

    def test_several_inputs_and_outputs(self):
        """Tuples and numbers come back as from a plain function."""

        def both(x, y):
            return x + y, x.sum()

        result, total = fn.python_function(np.arange(3.0), np.ones(3), function=both, num_outputs=2, jit=True)
        np.testing.assert_array_equal(result, [1, 2, 3])
        assert total == 3

    def test_random_numbers_are_those_of_the_plain_function(self):
        """A parameter named rng gets the same generator, and draws the same numbers from it."""

        def noisy(x, rng):
            return x + rng.random()

        plain = fn.python_function(np.zeros(3), function=noisy, key=5)
        np.testing.assert_array_equal(fn.python_function(np.zeros(3), function=noisy, key=5, jit=True), plain)

    def test_a_function_of_numba_stays_as_it_is(self):
        """What is compiled already is used as it is."""
        compiled = numba.njit(contrast)
        x = np.full((2, 2, 1), 200, np.uint8)
        np.testing.assert_array_equal(fn.python_function(x, function=compiled, jit=True), contrast(x))
        assert len(compiled.signatures) == 1

    def test_every_memory_order_is_one_compilation(self):
        """Views and Fortran order do not make Numba compile again."""
        compiled = numba.njit(lambda x: x + 1)
        x = np.arange(12.0).reshape(3, 4)
        for array in (x, x[:, ::2], x.T, np.asfortranarray(x)):
            np.testing.assert_array_equal(fn.python_function(array, function=compiled, jit=True), array + 1)
        assert len(compiled.signatures) == 1

    def test_the_error_has_the_line_and_the_reason(self):
        """What Numba cannot compile is an error with the user's file and line and Numba's reason in one sentence."""

        def broken(x):
            y = x + 1
            return y.no_such_thing()

        line = broken.__code__.co_firstlineno + 2
        with pytest.raises(TypeError, match=r"Unknown attribute 'no_such_thing'") as caught:
            fn.python_function(np.ones(2), function=broken, jit=True)
        assert f"test_numba_function.py:{line}" in str(caught.value)
        assert "Numba's whole message" in "\n".join(caught.value.__notes__)

    def test_an_unknown_name_has_its_line(self):
        """A name that is not defined is found in the function."""

        def broken(x):
            y = x + 1
            return no_such_name(y)  # noqa: F821

        with pytest.raises(TypeError, match="'no_such_name' is not defined") as caught:
            fn.python_function(np.ones(2), function=broken, jit=True)
        assert f"test_numba_function.py:{broken.__code__.co_firstlineno + 2}" in str(caught.value)

    def test_writing_to_an_input_that_others_read_is_refused(self):
        """A shared input is read-only for compiled code too; the error names the other readers."""

        def write(x):
            x[0] = 0
            return x

        def define():
            x = fn.external_source(images, batch=False)
            return x, fn.python_function(x, function=write, jit=True)

        with pytest.raises(TypeError, match="writes to an input that is read-only") as caught:
            run(define)
        assert "also read by output 0 of the pipeline" in "\n".join(caught.value.__notes__)

    @pytest.mark.parametrize("other", [{"batch_processing": True}, {"parallel": "processes"}, {"timeout": 1.0}])
    def test_what_does_not_go_with_it_is_refused(self, other):
        """Arguments that a compiled function cannot honour are errors when the graph is built."""
        with pytest.raises(ValueError, match="jit=True compiles a function of single samples"):
            fn.python_function(np.ones(2), function=contrast, jit=True, **other)

    def test_it_runs_on_the_threads_of_the_surrounding_stage(self):
        """A compiled function joins the work around it instead of ending a stage."""
        pipe = pipeline_def(
            lambda: fn.python_function(fn.external_source(images, batch=False), function=contrast, jit=True) * 2,
            batch_size=BATCH,
            num_threads=2,
        )()
        pipe.build()
        kinds = [stage.kind for stage in pipe.plan.stages]
        assert kinds == ["source", "sample"]


class TestNumbaFunction:
    """fn.numba_function."""

    def test_it_fills_its_output(self):
        """Without setup_fn the output has the input's shape."""

        def define():
            x = fn.external_source(images, batch=False)
            return x, fn.numba_function(x, run_fn=fill_contrast, out_types=types.FLOAT, outs_ndim=3, **IMAGE)

        [[plain, results]] = run(define)
        for x, result in zip(plain, results):
            np.testing.assert_array_equal(result, contrast(x))

    @pytest.mark.parametrize("whole", [False, True])
    def test_setup_decides_the_shapes(self, whole):
        """setup_fn writes the output's extents from the input's, per sample or once for the batch."""

        def define():
            x = fn.external_source(images, batch=False)
            return x, fn.numba_function(
                x,
                run_fn=transpose_all if whole else transpose,
                setup_fn=transposed_shape,
                batch_processing=whole,
                **SAME,
            )

        for plain, results in run(define, batches=2):
            for x, result in zip(plain, results):
                np.testing.assert_array_equal(result, x.transpose(1, 0, 2))

    @pytest.mark.parametrize("count", [1, 3, 8])
    def test_any_number_of_inputs_and_outputs(self, count):
        """There is no limit of six."""
        names = [f"{kind}{i}" for kind in "ox" for i in range(count)]
        lines = [f"    o{i}[:] = x{i} * {i + 1}" for i in range(count)]
        namespace = {}
        exec(f"def spread({', '.join(names)}):\n" + "\n".join(lines), namespace)
        arrays = [np.arange(4.0) + i for i in range(count)]
        results = fn.numba_function(
            *arrays,
            run_fn=namespace["spread"],
            in_types=[types.FLOAT64] * count,
            ins_ndim=[1] * count,
            out_types=[types.FLOAT64] * count,
            outs_ndim=[1] * count,
        )
        for i, result in enumerate(results if count > 1 else [results]):
            np.testing.assert_array_equal(result, arrays[i] * (i + 1))

    @pytest.mark.parametrize("dtype", [x for x in types.in_order(types.NUMBERS) if x != np.float16], ids=str)
    def test_every_type(self, dtype):
        """Every type of numbers that Numba computes with on a CPU."""

        def keep(result, x):
            for i in range(len(x)):
                result[i] = x[i]

        x = np.array([0, 1, 1]).astype(dtype)
        result = fn.numba_function(x, run_fn=keep, in_types=dtype, ins_ndim=1, out_types=dtype, outs_ndim=1)
        assert result.dtype == dtype
        np.testing.assert_array_equal(result, x)

    def test_dalis_names(self):
        """fn.experimental.numba_function and plugin.numba are the same operator; the class has DALI's places too."""
        from pipeflow.plugin.numba.fn import numba_function
        from pipeflow.plugin.numba.fn.experimental import numba_function as experimental

        from pipeflow.plugin import numba as plugin

        assert plugin.fn.numba_function is numba_function is experimental is fn.numba_function
        x = images(types.SampleInfo(0, 0, 0, 0))
        result = fn.experimental.numba_function(x, run_fn=transpose, setup_fn=transposed_shape, **SAME)
        np.testing.assert_array_equal(result, x.transpose(1, 0, 2))

        from pipeflow.plugin.numba.experimental import NumbaFunction

        assert plugin.NumbaFunction is NumbaFunction
        result = NumbaFunction(run_fn=transpose, setup_fn=transposed_shape, **SAME)(x)
        np.testing.assert_array_equal(result, x.transpose(1, 0, 2))

    def test_the_wrong_type_names_both(self):
        """An input of another type or number of axes is an error with what is declared and what came."""
        x = np.ones((2, 2, 2), np.float32)
        with pytest.raises(TypeError, match=r"input 0 of transpose .* is declared as uint8 with 3 axes and is float32"):
            fn.numba_function(x, run_fn=transpose, setup_fn=transposed_shape, **SAME)
        with pytest.raises(TypeError, match="is declared as uint8 with 3 axes and is uint8 with 1 axis"):
            fn.numba_function(np.ones(2, np.uint8), run_fn=transpose, setup_fn=transposed_shape, **SAME)

    def test_the_wrong_type_is_found_at_build_where_it_is_known(self):
        """Where the graph knows the type the error comes before anything runs."""
        with pytest.raises(TypeError, match="is declared as uint8 with 3 axes and is float32"):
            run(lambda: fn.numba_function(fn.random.uniform(shape=[2, 2, 2]), run_fn=transpose, **SAME))

    def test_the_wrong_number_of_axes_is_found_at_build_where_it_is_known(self):
        """A source with a number of axes is enough."""

        @pipeline_def(batch_size=1, num_threads=1)
        def define():
            x = fn.external_source(lambda: [np.ones((2, 2), np.uint8)], dtype=types.UINT8, ndim=2)
            return fn.numba_function(x, run_fn=transpose, setup_fn=transposed_shape, **SAME)

        with pytest.raises(TypeError, match="is declared as uint8 with 3 axes and is uint8 with 2 axes"):
            define().build()

    def test_arguments_are_checked_against_each_other(self):
        """Lists of different lengths, the wrong number of inputs and missing shapes are errors at build."""
        x = np.ones((2, 2, 2), np.uint8)
        with pytest.raises(ValueError, match="in_types has 1 entries and ins_ndim 2"):
            fn.numba_function(x, run_fn=transpose, **{**SAME, "ins_ndim": [3, 3]})
        with pytest.raises(ValueError, match=r"is declared with 1 input .* and gets 2"):
            fn.numba_function(x, x, run_fn=transpose, **SAME)
        with pytest.raises(ValueError, match="without setup_fn each output has the shape of the input"):
            fn.numba_function(x, run_fn=transpose, **{**SAME, "outs_ndim": 2})

    def test_inputs_cannot_be_written(self):
        """Inputs are read-only by their type: a function that writes to one does not compile."""

        def swap(result, x):
            x[0] = 0
            result[:] = x

        with pytest.raises(TypeError, match="writes to an input that is read-only"):
            fn.numba_function(
                np.ones(2), run_fn=swap, in_types=np.float64, ins_ndim=1, out_types=np.float64, outs_ndim=1
            )


def test_compiled_code_is_kept_on_disk(tmp_path):
    """A second process reads what the first one compiled."""
    program = tmp_path / "program.py"
    program.write_text(
        "import numpy as np\n"
        "from pipeflow import fn\n"
        "from pipeflow.kernels import cpu\n"
        "def twice(x):\n    return x * 2\n"
        "assert fn.python_function(np.ones(3), function=twice, jit=True).sum() == 6\n"
        "stats = cpu.user_functions.jitted(twice)._dispatcher.stats\n"
        "print(sum(stats.cache_hits.values()), sum(stats.cache_misses.values()))\n"
    )
    environment = {"PYTHONPATH": str(ROOT), "PIPEFLOW_CACHE_DIR": str(tmp_path / "cache"), "PATH": "/usr/bin:/bin"}
    counts = [
        subprocess.run(
            [sys.executable, str(program)], env=environment, capture_output=True, text=True, check=True, timeout=LONG
        ).stdout.split()
        for _ in range(2)
    ]
    assert counts == [["0", "1"], ["1", "0"]]


def test_code_of_no_module_is_not_kept(tmp_path):
    """A function made by exec has no module that a kept result could name: it is compiled anew every time."""
    path = tmp_path / "made.py"
    path.write_text("def twice(x):\n    return x * 2\n")
    results = []
    for _ in range(2):
        namespace = {"__name__": "nowhere"}
        exec(compile(path.read_text(), str(path), "exec"), namespace)
        results.append(fn.python_function(np.arange(3.0), function=namespace["twice"], jit=True).tolist())
    assert results == [[0, 2, 4]] * 2


def scaled(x, factor, shift):
    return x * factor + shift


class Scale:
    def __call__(self, x):
        return x

    def method(self, x):
        return x


def test_partials_are_compiled():
    """A partial gives a compiled function some of its arguments, arrays included."""
    function = functools.partial(functools.partial(scaled, shift=np.arange(3.0)), factor=2.0)
    np.testing.assert_array_equal(fn.python_function(np.ones(3), function=function, jit=True), [2, 3, 4])


@pytest.mark.parametrize("function", [Scale(), Scale().method, np.negative, len])
def test_objects_cannot_be_compiled(function):
    """What is no function of Python's own is refused when the pipeline is built, with what to do."""
    with pytest.raises(
        TypeError, match=r"jit=True compiles functions written with def or lambda, and .* is a .*: write"
    ):
        fn.python_function(np.ones(3), function=function, jit=True)
