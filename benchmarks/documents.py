"""What training on the structure of documents gains in retrieval, and what it costs in similarity.

    ISOTUNE_DATA=... python benchmarks/documents.py PART STEPS MODEL OUT ARTICLES...

ARTICLES are files that WikiExtractor made of the English Wikipedia. Each training takes STEPS steps. The first six
tenths of the articles are for training, the next two for development, and the last two for the test; PART is "dev" or
"test". Three kinds of pairs:

- neighbours: sentences of one paragraph. A sentence has to find another of its paragraph.
- titles: a title has to find a paragraph of its article.
- questions: QNLI's dev pairs that are entailed. A question has to find its sentence. Pairs with the same sentence are
  in the same part.

The candidates are all texts of the part, and a text is never a candidate of itself. Each encoder is scored by the share
of queries whose first (or one of the first ten) hit is right, by the mean reciprocal rank (MRR) of the first right hit,
and on STS-B's test pairs.
"""

import json
import re
import sys
from pathlib import Path
from zlib import crc32

import numpy as np

import isotune
from isotune.data import LabelledPair, NeighbourPair, Pair, read

LEAST_WORDS = 25  # of a paragraph; shorter ones are headings and items of lists
PARAGRAPHS = 12  # of an article, at most
SEEDS = (0, 1, 2)
PARTS = {"train": range(6), "dev": range(6, 8), "test": range(8, 10)}  # tenths


def articles(files: list[str]) -> dict[str, list[str]]:
    """The paragraphs of each article by its title."""
    found = {}
    for file in files:
        for title, text in re.findall(r'<doc [^>]*title="([^"]*)">\n(.*?)</doc>', Path(file).read_text(), re.DOTALL):
            paragraphs = [line for line in text.split("\n") if len(line.split()) >= LEAST_WORDS]
            if len(paragraphs) > 1:
                found[title] = paragraphs[:PARAGRAPHS]
    return found


def paragraphs(files: list[str], part: str) -> dict[str, list[str]]:
    """The articles of a part."""
    every = list(articles(files).items())
    return dict(item for number, item in enumerate(every) if 10 * number // len(every) in PARTS[part])


def pairs_of(kind: str, files: list[str], part: str) -> list[tuple[str, str, str]]:
    """(first text, second text, group) of the pairs of a kind in a part."""
    if kind == "questions":
        entailed = [row for row in read("qnli:dev", LabelledPair) if row.label == "entailment"]
        return [(a, b, b) for a, b, _ in entailed if crc32(b.encode()) % 10 in PARTS[part]]
    chosen = paragraphs(files, part)
    if kind == "titles":
        return [(title, text, title) for title, texts in chosen.items() for text in texts]
    rows = [text for texts in chosen.values() for text in texts]
    return [(a, b, str(number)) for a, b, number in read([rows], NeighbourPair)]


def retrieval(encoder: isotune.Encoder, kind: str, rows: list[tuple[str, str, str]]) -> list[float]:
    """Recall at 1 and at 10, and MRR, each x 100."""
    queries = dict.fromkeys((a, group) for a, _, group in rows)
    candidates = dict.fromkeys((b, group) for _, b, group in rows)
    if kind == "neighbours":
        queries = candidates = queries | candidates
    a, b = (encoder.encode([text for text, _ in side], normalize=True) for side in (queries, candidates))
    right = np.array([g for _, g in queries])[:, None] == np.array([g for _, g in candidates])
    itself = np.array([t for t, _ in queries])[:, None] == np.array([t for t, _ in candidates])
    cosines = np.where(itself, -2, a @ b.T)
    best = np.where(right & ~itself, cosines, -2).max(1)
    ranks = 1 + (cosines > best[:, None]).sum(1)[best > -2]
    return [100 * float(value) for value in ((ranks == 1).mean(), (ranks <= 10).mean(), (1 / ranks).mean())]


def main(part: str, steps: int, model: str, out: Path, files: list[str]) -> None:
    """Prints a line for the start and for each run."""
    for kind in ("neighbours", "titles", "questions"):
        train, held = (pairs_of(kind, files, name) for name in ("train", part))
        print(f"{kind}: {len(train):,} pairs to train on, {len(held):,} of {part}")
        rows: list[str | Pair] = [Pair(a, b) for a, b, _ in train]
        if kind == "neighbours":
            rows = [text for texts in paragraphs(files, "train").values() for text in texts]
        for seed in (None, *SEEDS):
            encoder = isotune.Encoder.load(model)
            if seed is not None:
                result = isotune.train(
                    rows=rows,
                    model=model,
                    out=out / f"{kind}-{seed}",
                    recipe="neighbours" if kind == "neighbours" else "pairs",
                    tasks=["stsb-open"],
                    steps=steps,
                    seed=seed,
                    quiet=True,
                )
                encoder = isotune.Encoder.load(result.encoder)
            stsb = 100 * isotune.evaluate(encoder, ["stsb"]).scores()["stsb"]
            name = "start" if seed is None else f"seed {seed}"
            print(json.dumps([kind, name, *retrieval(encoder, kind, held), stsb]), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3], Path(sys.argv[4]), sys.argv[5:])
