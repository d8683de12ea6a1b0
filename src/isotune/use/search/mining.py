"""Training data for the next encoder, found by an encoder: pairs in plain text, and hard negatives of pairs.

Two texts are a pair if each is among the other's nearest, their cosine is large enough, and they differ by more than
case, spaces and punctuation, because equal texts teach nothing.

A hard negative of a pair is a second text of another pair that is near to the first text. The nearest may be answers
that no pair names, so its cosine is at most a share of the answer's (NV-Retriever's TopK-PercPos, Moreira et al. 2024).
"""

from collections.abc import Iterable

import numpy as np

from isotune.data import Pair, Triplet
from isotune.data.rows import normalized
from isotune.encoder.encoder import Encoder
from isotune.evaluation.vectors import nearest

NEIGHBOURS = 3  # of each text
DEPTH = 100  # the nearest texts, among which are negatives
MARGIN = 0.95  # NV-Retriever, and docs/search.md


def mine_pairs(
    texts: Iterable[str], encoder: Encoder, least: float, *, show_progress: bool = False
) -> list[tuple[Pair, float]]:
    """The pairs of texts with at least the cosine `least`, and the cosines; the nearest first."""
    sentences = list({_letters(text): text for text in texts}.values())
    vectors = encoder.encode(sentences, normalize=True, show_progress=show_progress)
    cosines, rows = nearest(vectors, vectors, NEIGHBOURS + 1)  # a text is the nearest to itself
    query, place = np.nonzero(cosines >= least)
    edges = zip(query.tolist(), rows[query, place].tolist(), strict=True)
    near = dict(zip(edges, cosines[query, place].tolist(), strict=True))  # the cosine of a text and each of its nearest
    chosen = ((Pair(sentences[i], sentences[j]), cosine) for (i, j), cosine in near.items() if i < j and (j, i) in near)
    return sorted(chosen, key=lambda found: -found[1])


def mine_negatives(
    pairs: Iterable[Pair], encoder: Encoder, count: int = 1, margin: float = MARGIN, *, show_progress: bool = False
) -> list[tuple[Triplet, float]]:
    """Each pair with up to `count` hard negatives, a triplet for each; a pair without negatives gives none.

    Negatives are the nearest second texts, up to the cosine of the pair times `margin`. With each triplet comes the
    cosine of its first text and the negative.
    """
    pairs = list(pairs)
    asked, found = ({_letters(text): text for text in side} for side in zip(*pairs, strict=True))
    queries = encoder.encode_query(list(asked.values()), normalize=True, show_progress=show_progress)
    documents = encoder.encode_document(list(found.values()), normalize=True, show_progress=show_progress)
    query_of, document_of = ({key: number for number, key in enumerate(side)} for side in (asked, found))
    places = [(query_of[_letters(first)], document_of[_letters(second)]) for first, second in pairs]
    belong = {*places, *((number, document_of.get(key)) for key, number in query_of.items())}  # a copy is no negative
    cosines, rows = (found.tolist() for found in nearest(queries, documents, DEPTH))
    texts = list(found.values())
    triplets = []
    for pair, (query, answer) in zip(pairs, places, strict=True):
        most = margin * float(queries[query] @ documents[answer])
        near = zip(cosines[query], rows[query], strict=True)
        fit = [(texts[row], cosine) for cosine, row in near if cosine <= most and (query, row) not in belong]
        triplets += [(Triplet(*pair, text), cosine) for text, cosine in fit[:count]]
    return triplets


def _letters(text: str) -> str | bytes:
    return normalized(text) or text  # the whole text if nothing in it is a letter or a digit
