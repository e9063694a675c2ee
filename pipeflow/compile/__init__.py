"""From a Graph to a Plan. ``plan.py`` is the data, ``compiler.py`` makes it; importing a Plan loads no compiler."""
