"""The common parts of the operators that call functions of the user; python_function.py has a map of the family."""
