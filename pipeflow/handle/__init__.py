"""The parts of a Pipeline: its definition, its plan and executor, its runs, its states and its reports."""
