"""The names that DALI has under ``plugin.pytorch.experimental``: the proxy."""
