"""Compiled code, which takes arrays and numbers and returns arrays."""
