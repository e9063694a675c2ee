"""Where a program shows something else under pipeflow, and why; docs/differences-from-dali.md says the same to users.

DIFFERENT: for a program, the beginnings of the lines of `differences` that are meant, with the reason of each.
"""

DIFFERENT: dict[str, dict[str, str]] = {
    "augment_interpolation": {
        "shown 4[1].samples[1]: 7 of 4182": "Gaussian filters are symmetric; DALI leaves out a pixel at the far end of a window"
    },
    "definition_varargs": {"shown 3": "a definition may take **kwargs"},
    "external_input_repeat": {"shown 4": "inputs given to run() work with every prefetch depth"},
}
