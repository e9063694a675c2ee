"""Compiled code: arrays and numbers in, arrays out."""
