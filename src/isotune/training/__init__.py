"""Training: a run and its stages, steps, checkpoints and folder.

`run.py` tells the story of a run.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
