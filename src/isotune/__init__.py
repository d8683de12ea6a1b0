"""isotune: from a pretrained language model to a sentence encoder, by contrastive learning.

    encoder = isotune.Encoder.load("runs/notes/encoder")
    vectors = encoder.encode(["one sentence", "another"])

Each name is imported when it is first used, so `import isotune` loads neither torch nor
transformers. Importing isotune and using an `Encoder` change no setting of the process;
`tune_process` does, for speed. The names of `__all__` keep their meaning from version to version;
`docs/plugins.md` explains those that extend isotune.
"""

import lazy_loader

from isotune.plugins import load_plugin

# These are the names of __init__.pyi.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
