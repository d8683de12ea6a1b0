"""Domains to adapt an encoder to, of the datasets in `$ISOTUNE_DATA`.

Their text is from one part of a dataset, and their scored pairs from another.

    ISOTUNE_DATA=... python benchmarks/domains.py OUT

writes OUT/NAME/text.txt and OUT/NAME/pairs.tsv for each domain. No sentence of the pairs is in the
text. Domains for development may choose settings; those for the test are looked at once.
"""

import csv
import gzip
import os
import random
import sys
from pathlib import Path
from typing import NamedTuple

Row = dict[str, str]
MOST_TEXT = 5_000
MOST_PAIRS = 1_000


class Domain(NamedTuple):
    """Where a domain's text and pairs are from: places such as "sts15:images:unscored"."""

    text: tuple[str, ...]
    pairs: tuple[str, ...]


DEVELOPMENT = {
    "definitions": Domain(("sts12:surprise.OnWN", "sts13:OnWN"), ("sts14:OnWN",)),
    "sick": Domain(("sickr::train", "sickr::trial"), ("sickr::test",)),
    "tweets": Domain(("sts14:tweet-news:second",), ("sts14:tweet-news:first",)),
    "headlines": Domain(
        ("sts14:headlines", "sts15:headlines", "sts16:headlines"), ("sts13:headlines",)
    ),
    "forum-answers": Domain(("sts15:answers-forums:unscored",), ("sts15:answers-forums:scored",)),
    "videos": Domain(("sts12-train:MSRvid",), ("sts12:MSRvid",)),
    "quora": Domain(("qqp::dev",), ("qqp::test",)),
}
TEST = {
    "images": Domain(("sts15:images",), ("sts14:images",)),
    "news": Domain(("mrpc", "sts12-train:MSRpar"), ("sts12:MSRpar",)),
    "students": Domain(("sts15:answers-students:unscored",), ("sts15:answers-students:scored",)),
    "belief": Domain(("sts15:belief:unscored",), ("sts15:belief:scored",)),
    "discussions": Domain(("sts15:belief",), ("sts14:deft-forum",)),
    "answers": Domain(("sts16:answer-answer:unscored",), ("sts16:answer-answer:scored",)),
    "questions": Domain(("sts16:question-question:unscored",), ("sts16:question-question:scored",)),
    "post-editing": Domain(("sts16:postediting:unscored",), ("sts16:postediting:scored",)),
    "parliament": Domain(("sts12-train:SMTeuroparl",), ("sts12:SMTeuroparl",)),
    "snli": Domain(("nli:snli-cat",), ("sts17:track5.en-en",)),
}
FILES = {
    **{f"sts{year}": f"sts{year}/test" for year in (12, 13, 14, 15, 16, 17)},
    **{"sts12-train": "sts12/train", "sickr": "sickr/sick", "mrpc": "mrpc/mrpc"},
    **{"qqp": "qqp/qqp_10k_devtest", "nli": "nli/nli_train_union"},
}


def read_rows(place: str) -> list[Row]:
    """The rows of a place, "dataset[:subset[:part]]".

    A part is a split, the rows with or without a score, or the first or second half of the shuffled
    rows.
    """
    name, subset, part = (*place.split(":"), "", "")[:3]
    with gzip.open(
        Path(os.environ["ISOTUNE_DATA"], f"{FILES[name]}.tsv.gz"),
        "rt",
        encoding="utf-8",
        newline="\n",
    ) as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    rows = [row for row in rows if subset in ("", row["subset"])]
    if part in ("scored", "unscored"):
        return [row for row in rows if bool(row["score"]) == (part == "scored")]
    if part in ("first", "second"):
        random.Random(0).shuffle(rows)
        half = len(rows) // 2
        return rows[:half] if part == "first" else rows[half:]
    return [row for row in rows if part in ("", row["split"])]


def read_domain(domain: Domain) -> tuple[list[str], list[tuple[str, str, float]]]:
    """The text of a domain, and its pairs with gold scores.

    The label of a paraphrase is a score.
    """
    rows = [row for place in domain.pairs for row in read_rows(place)]
    scored = [(*sentences(row), float(row.get("score") or row["label"])) for row in rows]
    random.Random(0).shuffle(scored)
    scored = scored[:MOST_PAIRS]
    taken = {sentence.lower() for first, second, _ in scored for sentence in (first, second)}
    every = {
        sentence for place in domain.text for row in read_rows(place) for sentence in sentences(row)
    }
    text = sorted(sentence for sentence in every if sentence and sentence.lower() not in taken)
    random.Random(0).shuffle(text)
    return text[:MOST_TEXT], scored


def sentences(row: Row) -> tuple[str, str]:
    """Both sentences of a row."""
    return row["sentence1"].strip(), row["sentence2"].strip()


def domain_folder(out: Path, name: str) -> Path:
    """The folder of a domain in OUT; its files are written if it is missing."""
    folder = out / name
    if not folder.exists():
        write_domain(folder)
    return folder


def write_domain(folder: Path) -> str:
    """Writes the files of the domain that the folder is named after, and says how many rows."""
    text, pairs = read_domain((DEVELOPMENT | TEST)[folder.name])
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "text.txt").write_text("".join(f"{line}\n" for line in text), "utf-8")
    lines = [
        "sentence1\tsentence2\tscore",
        *("\t".join((first, second, f"{score:g}")) for first, second, score in pairs),
    ]
    (folder / "pairs.tsv").write_text("\n".join(lines) + "\n", "utf-8")
    return f"{folder.name}: {len(text):,} sentences, {len(pairs):,} pairs"


if __name__ == "__main__":
    for each in DEVELOPMENT | TEST:
        print(write_domain(Path(sys.argv[1], each)))
