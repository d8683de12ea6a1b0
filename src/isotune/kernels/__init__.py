"""Code that makes packed batches fast: attention, dropout, matrix products, memory.

It knows tensors, not text.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
