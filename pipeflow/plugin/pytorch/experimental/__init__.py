"""What DALI has under ``plugin.pytorch.experimental``: the proxy."""
