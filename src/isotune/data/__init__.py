"""Rows from files, the hub and named datasets; their tokens; packed batches of these."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
