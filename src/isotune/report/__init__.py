"""What a run gained: an HTML page, and the model card of its encoder.

Here are also the figures and the templates of other pages.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
