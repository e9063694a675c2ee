"""What fn.external_source is made of: the kinds of sources, and the worker processes that ask them ahead of time."""
