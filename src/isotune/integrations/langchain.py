"""An encoder behind LangChain's interface of embeddings; needs `pip install 'isotune[langchain]'`."""

from __future__ import annotations

from pathlib import Path

from langchain_core.embeddings import Embeddings

from isotune.encoder import Precision
from isotune.encoder.encoder import Encoder


class SentenceEmbeddings(Embeddings):
    """Embeds documents and queries in the same way; each vector has length 1."""

    def __init__(self, model: str | Path, precision: Precision | None = None) -> None:
        """Loads an encoder, as `isotune.Encoder.load` does.

        Raises:
            InputError: the encoder can't be loaded.
        """
        self.encoder = Encoder.load(model, precision=precision)

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Embeds N texts: N lists of d numbers."""
        vectors: list[list[float]] = self.encoder.encode(texts, normalize=True).tolist()
        return vectors

    def embed_query(self, text: str) -> list[float]:
        """Embeds a text: d numbers."""
        return self.embed_documents([text])[0]
