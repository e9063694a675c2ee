"""Whether the layouts of inputs are among those an operator is declared for."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pipeflow.declare.opdef import OpDef


def check_layouts(op: "OpDef", layouts: Sequence[str | None], ndims: Sequence[int]) -> tuple[str, ...]:
    """Checks the inputs' layouts against the declared ones; a missing layout becomes the first that fits."""
    fitting = []
    for position, (layout, ndim) in enumerate(zip(layouts, ndims, strict=True)):
        if position and not layout:
            fitting.append("")  # further inputs (masks, matrices) follow rules of their own
            continue
        allowed = [known for known in op.layouts if len(known) == ndim]
        if layout:
            if layout not in op.layouts and position == 0:
                raise ValueError(f"layout {layout!r} of the input is not one of {', '.join(op.layouts)}")
            fitting.append(layout)
        elif not allowed:
            raise ValueError(
                f"The number of dimensions {ndim} does not match any of the allowed layouts: {', '.join(op.layouts)}"
            )
        else:
            fitting.append(allowed[0])
    return tuple(fitting)
