"""Checks that the layouts of inputs are among those for which an operator is declared."""

from collections.abc import Sequence

from pipeflow.errors import BadValue


def check_layouts(declared: Sequence[str], layouts: Sequence[str | None], ndims: Sequence[int]) -> tuple[str, ...]:
    """Checks the inputs' layouts against the declared ones; a missing layout becomes the first that fits."""
    fitting = []
    for position, (layout, ndim) in enumerate(zip(layouts, ndims, strict=True)):
        if position and not layout:
            fitting.append("")  # other inputs (masks, matrices) have their own rules
            continue
        allowed = [known for known in declared if len(known) == ndim]
        if layout:
            if layout not in declared and position == 0:
                raise BadValue(f"layout {layout!r} of the input is not one of {', '.join(declared)}")
            fitting.append(layout)
        elif not allowed:
            raise BadValue(
                f"The number of dimensions {ndim} does not match any of the allowed layouts: {', '.join(declared)}"
            )
        else:
            fitting.append(allowed[0])
    return tuple(fitting)
