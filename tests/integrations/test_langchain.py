"""`SentenceEmbeddings` behind LangChain's interface, in LangChain's own vector store."""

from __future__ import annotations

import asyncio
from pathlib import Path

import numpy as np
from langchain_core.vectorstores import InMemoryVectorStore

from isotune.encoder.encoder import Encoder
from isotune.integrations.langchain import SentenceEmbeddings


def test_embeddings(tiny_model: Path, sentences: list[str]) -> None:
    embeddings = SentenceEmbeddings(tiny_model)
    expected = Encoder.load(tiny_model).encode(sentences, normalize=True)
    np.testing.assert_allclose(embeddings.embed_documents(sentences), expected, atol=1e-6)
    np.testing.assert_allclose(embeddings.embed_query(sentences[0]), expected[0], atol=1e-6)
    np.testing.assert_allclose(asyncio.run(embeddings.aembed_query(sentences[0])), expected[0], atol=1e-6)
    assert embeddings.embed_documents([]) == []
    assert isinstance(embeddings.embed_query("a dog")[0], float)


def test_a_vector_store_finds_the_text(tiny_model: Path, sentences: list[str]) -> None:
    store = InMemoryVectorStore.from_texts(sentences, SentenceEmbeddings(tiny_model))
    (document,) = store.similarity_search(sentences[7], k=1)
    assert document.page_content == sentences[7]
