"""`isotune similarity`: the cosine of two sentences."""

from __future__ import annotations


def similarity(encoder: str, first: str, second: str) -> None:
    """Print the cosine similarity of two sentences, from -1 to 1.

    Parameters
    ----------
    encoder
        A folder or hub name.
    first
        A sentence.
    second
        Another one.
    """
    from isotune.encoder.encoder import Encoder

    a, b = Encoder.load(encoder).encode([first, second], normalize=True)
    print(f"{a @ b:.4f}")
