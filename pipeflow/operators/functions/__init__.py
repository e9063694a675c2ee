"""What all operators share that call the user's functions; python_function.py has a map of the family."""
