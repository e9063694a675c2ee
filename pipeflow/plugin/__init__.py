"""Iterators for training loops, one module for each framework."""
