"""What runs a stage: one class for each kind, in a file of its own; ``table.py`` says which. All derive from ``StageRunner``."""
