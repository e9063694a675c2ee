"""What the compiler decides, as text that can be read and compared, and what the rules of a valid plan refuse.

`pytest tests/plans --write-plans` writes the plans again: read the difference before you keep it.
"""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from plans import definitions

from pipeflow import fn, pipeline_def, types
from pipeflow.compile import compiler, spec
from pipeflow.declare import Spec
from pipeflow.plan import External


def plan_of(definition):
    pipe = pipeline_def(definition, batch_size=2, num_threads=1, enable_conditionals=True)()
    return compiler.compile(pipe.graph, 7, fuse=definition in definitions.FUSED)


@pytest.mark.parametrize("definition", definitions.ALL, ids=lambda function: function.__name__)
def test_the_plan_is_the_one_on_file(definition, request):
    """Stages, slots, storage, guards and rights of each definition are those of its file."""
    path = Path(__file__).with_name(f"{definition.__name__}.txt")
    text = f"{definition.__doc__}\n\n{plan_of(definition)}\n"
    if request.config.getoption("--write-plans"):
        path.write_text(text)
    assert text == path.read_text(), "`pytest tests/plans --write-plans` writes what the compiler decides now"


def test_every_file_has_its_definition():
    """No plan is left behind of a definition that is gone."""
    files = {path.stem for path in Path(__file__).parent.glob("*.txt")}
    assert files == {function.__name__ for function in definitions.ALL}


def changed_step(plan, name, **changes):
    """The plan with another step in the place of one."""

    def other(steps):
        return tuple(replace(step, **changes) if step.name == name else step for step in steps)

    plan.stages = tuple(
        replace(stage, columns=other(stage.columns), steps=other(stage.steps), merges=other(stage.merges))
        for stage in plan.stages
    )
    return plan


def changed_stage(plan, number, **changes):
    """The plan with another stage in the place of one."""
    plan.stages = tuple(replace(x, **changes) if place == number else x for place, x in enumerate(plan.stages))
    return plan


def changed_slot(plan, number, **changes):
    """The plan with another slot in the place of one."""
    plan.slots = tuple(replace(slot, **changes) if slot.id == number else slot for slot in plan.slots)
    return plan


def slot_of(plan, name):
    return next(step.outputs[0] for step in plan.steps() if step.name == name)


def branching(plan, change):
    merge = next(step for step in plan.steps() if step.role == "merge")
    return change(plan, merge)


# Rule -> a definition and how its plan is broken, so that the rule speaks.
BREACHES = {
    "slots_are_numbered": (definitions.fused, lambda plan: changed_slot(plan, 0, id=9)),
    "operators_are_declared": (
        definitions.fused,
        lambda plan: changed_step(plan, "files", op="readers.none_of_that_name"),
    ),
    "each_slot_is_written_once": (
        definitions.branches,
        lambda plan: branching(plan, lambda plan, merge: changed_step(plan, merge.name, outputs=(0,))),
    ),
    "slots_are_written_before_they_are_read": (
        definitions.files_to_tensors,
        lambda plan: setattr(plan, "stages", tuple(replace(x, steps=x.steps[::-1]) for x in plan.stages)),
    ),
    "stages_have_the_form_of_their_kind": (
        definitions.functions_in_order,
        lambda plan: setattr(plan, "stages", (replace(plan.stages[0], ordered=False), *plan.stages[1:])),
    ),
    "strands_read_nothing_of_each_other": (
        definitions.functions_and_rights,
        lambda plan: changed_stage(plan, 1, strands=(2, 3)),
    ),
    "steps_are_where_their_kind_runs": (
        definitions.on_the_gpu,
        lambda plan: changed_step(plan, "resize_0", device="cpu"),
    ),
    "storage_fits_the_stage": (
        definitions.functions_in_order,
        lambda plan: changed_slot(plan, slot_of(plan, "first"), storage="table"),
    ),
    "dense_slots_have_one_shape": (
        definitions.files_to_tensors,
        lambda plan: changed_slot(plan, slot_of(plan, "crop_mirror_normalize_0"), spec=Spec(None, None, None)),
    ),
    "arena_slots_stay_in_their_stage": (
        definitions.files_to_tensors,
        lambda plan: changed_slot(plan, slot_of(plan, "crop_mirror_normalize_0"), storage="arena"),
    ),
    "guards_are_bools": (
        definitions.branches,
        lambda plan: branching(
            plan, lambda plan, merge: changed_slot(plan, merge.inputs[2], spec=Spec((), np.dtype(np.int32), ""))
        ),
    ),
    "nobody_reads_a_hole": (
        definitions.branches,
        lambda plan: branching(
            plan,
            lambda plan, merge: changed_step(
                plan, merge.name, inputs=(merge.inputs[1], merge.inputs[0], merge.inputs[2])
            ),
        ),
    ),
    "merges_have_two_sides": (
        definitions.branches,
        lambda plan: branching(
            plan, lambda plan, merge: changed_step(plan, merge.name, inputs=(*merge.inputs, merge.inputs[0]))
        ),
    ),
    "only_user_code_has_rights": (
        definitions.functions_and_rights,
        lambda plan: changed_step(plan, "shared", writable=(True,)),
    ),
    "shared_slots_are_for_workers": (
        definitions.functions_in_order,
        lambda plan: changed_slot(plan, slot_of(plan, "first"), memory="shared"),
    ),
    "page_locked_slots_are_for_the_device": (
        definitions.functions_in_order,
        lambda plan: changed_slot(plan, slot_of(plan, "first"), memory="pinned"),
    ),
    "steps_are_calls_of_their_operators": (
        definitions.unused_and_equal,
        lambda plan: changed_step(plan, "kept", constants=(("corner", 3.0),)),
    ),
    "user_objects_are_externals": (
        definitions.functions_in_order,
        lambda plan: changed_step(plan, "first", on_error=External("lost")),
    ),
    "origins_are_sources": (definitions.fused, lambda plan: setattr(plan, "origins", (5, *plan.origins[1:]))),
}


def test_every_rule_has_a_breach():
    """No rule is there that this file does not see broken."""
    assert set(BREACHES) == {rule.__name__ for rule in spec.RULES}


@pytest.mark.parametrize("rule", BREACHES)
def test_a_plan_that_breaks_a_rule_is_refused(rule):
    """Each rule speaks of a plan that breaks it, and of none that the compiler makes."""
    definition, damage = BREACHES[rule]
    plan = plan_of(definition)
    assert spec.breaches(plan) == []
    damage(plan)
    with pytest.raises(spec.InvalidPlan, match=f"^{rule}: |\n{rule}: "):
        spec.verify(plan)


def test_rules_speak_of_plans_without_form():
    """Slots, operators and sides that do not exist are named by a rule; no other rule fails on them."""

    def said(damage):
        plan = plan_of(definitions.branches)
        branching(plan, damage)
        return spec.breaches(plan)

    (text,) = said(lambda plan, merge: changed_step(plan, merge.name, inputs=merge.inputs[:2]))
    assert text.startswith("merges_have_two_sides: _merge_")
    assert said(lambda plan, merge: changed_step(plan, merge.name, inputs=(*merge.inputs[:2], 99))) == [
        "slots_are_numbered: there is no slot %99"
    ]


def test_columns_and_merges_call_no_code_of_the_user():
    """They run for the whole batch, without the rights and the place of a function."""
    plan = plan_of(definitions.branches)
    changed_step(plan, plan.stages[-1].merges[0].name, user_code=True)
    changed_step(plan, plan.stages[1].columns[0].name, user_code=True)
    column, merge = (text for text in spec.breaches(plan) if "calls code of the user" in text)
    assert column.endswith("(sample) calls code of the user at a column")
    assert merge.endswith("(sample) calls code of the user at a merge")


def test_the_predicate_of_a_merge_alone_is_a_bool_too():
    """Also where both sides were made outside the branches, so that no step has it as its guard."""

    @pipeline_def(batch_size=2, num_threads=1, device_id=None, enable_conditionals=True)
    def define():
        first, second = fn.random.uniform(), fn.random.uniform()
        return first if fn.random.coin_flip() else second

    pipe = define()
    pipe.build()
    plan = pipe.plan
    merge = next(step for step in plan.steps() if step.role == "merge")
    assert not any(step.guard for step in plan.steps() if step is not merge)
    changed_slot(plan, merge.inputs[2], spec=Spec((), np.dtype(np.int32), ""))
    assert any("guards_are_bools" in text for text in spec.breaches(plan))


def test_a_predicate_says_what_follows_from_it():
    """A side of a merge may be read under another predicate, where that one implies the guard of the side."""
    plan = plan_of(definitions.early_return)
    assert spec.breaches(plan) == []
    merge = plan.steps()[-1]
    guarded = next(step for step in plan.steps() if step.outputs[0] in merge.inputs and step.guard)
    changed_step(plan, guarded.name, guard=((guarded.guard[0][0], not guarded.guard[0][1]), *guarded.guard[1:]))
    assert any("nobody_reads_a_hole" in text for text in spec.breaches(plan))


def test_tests_compile_with_the_rules_on():
    """The plans of all other tests are checked too: conftest.py puts the rules around the compiler."""
    pipe = pipeline_def(lambda: fn.random.uniform(), batch_size=2, num_threads=1)()
    pipe.build()
    assert compiler.compile.__module__ == "conftest"
    assert spec.verify(pipe.plan) is pipe.plan


def test_a_fingerprint_is_that_of_the_work_and_of_the_data():
    """Equal definitions have one fingerprint; another operator, argument or constant has another."""

    def made(of):
        @pipeline_def(batch_size=2, num_threads=1, seed=1)
        def define():
            return of(fn.external_source(lambda: [np.zeros(3, np.float32)] * 2, name="data"))

        return compiler.compile(define().graph, 2).fingerprint()

    works = [
        lambda x: x + 1.0,
        lambda x: x - 1.0,
        lambda x: x + 2.0,
        lambda x: fn.cast(x, dtype=types.INT32),
        lambda x: fn.cast(x, dtype=types.INT16),
        lambda x: fn.reshape(x, shape=[3, 1]),
    ]
    prints = [made(work) for work in works]
    assert len(set(prints)) == len(works)
    assert [made(work) for work in works] == prints


def test_whole_batch_steps_do_not_wait_for_functions_that_they_do_not_need():
    """They come first, whatever the order of the lines; what reads the results of a function comes after it."""

    @pipeline_def(batch_size=4, num_threads=2, device_id=None)
    def define():
        numbers = fn.external_source(lambda: np.arange(4))
        made = fn.python_function(numbers, function=lambda xs: xs, batch_processing=True)
        return fn.permute_batch(made, indices=[3, 2, 1, 0]), fn.permute_batch(numbers, indices=[1, 0, 2, 3])

    pipe = define()
    pipe.build()
    first, *others = [step for stage in pipe.plan.stages for step in stage.steps]
    assert [step.user_code for step in others] == [False, True, False]
    assert [step.inputs for step in others] == [first.outputs, first.outputs, others[1].outputs]
