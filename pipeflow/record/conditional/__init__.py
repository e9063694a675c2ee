"""Conditionals on per-sample data while a graph is recorded."""
