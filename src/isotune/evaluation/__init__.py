"""How good a sentence encoder is: similarity, retrieval, transfer and geometry."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
