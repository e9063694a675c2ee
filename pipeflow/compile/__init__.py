"""The compiler: makes a Plan (``pipeflow/plan.py``) from a Graph. ``compiler.py`` calls the passes."""
