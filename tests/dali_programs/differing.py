"""Where a program shows something else under pipeflow, and why; docs/differences-from-dali.md says the same to users.

DIFFERENT: for a program, the beginnings of the lines of `differences` that are meant, with the reason of each.
OPEN: programs that do not run as under DALI yet, and the reason.
"""

DIFFERENT: dict[str, dict[str, str]] = {
    "definition_varargs": {"shown 3": "a definition may take **kwargs"},
    "external_input_repeat": {"shown 4": "inputs given to run() work with every prefetch depth"},
    "reader_numpy": {
        "shown 18: raises RuntimeError under DALI, FileNotFoundError here": "a missing file is a FileNotFoundError"
    },
}

OPEN: dict[str, str] = {
    "augment_gallery_distorted": "an effect takes its arguments in another form",
    **dict.fromkeys(
        ["dl_tensor_function", "iterators_by_hand", "normalize_examples", "reductions_examples"], "plugins and backend"
    ),
    **dict.fromkeys(["constants_and_tables", "expressions_type_promotions", "properties"], "values"),
    **dict.fromkeys(["indexing"], "nodes and batches"),
    **dict.fromkeys(
        ["augment_interpolation", "operator_objects", "shapes_and_types", "tensor_join", "volumes"],
        "operators that differ",
    ),
}
