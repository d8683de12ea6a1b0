"""The encoder that users keep.

It has a pretrained model on packed sentences, pooling, heads, and their saved form. Importing this
package itself loads no torch, so that the command line can read the options without it. Other rooms
import the names below.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
