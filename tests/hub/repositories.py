"""Tiny copies of the published datasets: their paths, columns, label names and splits.

There are a few rows in each split. What a real repository has besides is left out: other
configurations, weights for other libraries.
"""

import csv
import gzip
import io
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import yaml
from datasets import ClassLabel, Dataset, Features, Value

from tests.hub.sentences import SIZES, scored, sentence
from tests.hub.senteval import senteval

Files = dict[str, bytes]
Rows = Sequence[Mapping[str, Any]]

NLI = ClassLabel(names=["entailment", "neutral", "contradiction"])
TEXT = Value("string")
STS17 = (
    "ar-ar",
    "en-ar",
    "en-de",
    "en-en",
    "en-tr",
    "es-en",
    "es-es",
    "fr-en",
    "it-en",
    "ko-ko",
    "nl-en",
)
SICK = ("premise", "hypothesis", "relatedness_score", "entailment_judgment")
LANGUAGES = ("de", "en", "es", "fr", "it", "nl", "pl", "pt", "ru", "zh")  # no "ja"


def parquet(features: Mapping[str, Any], rows: Rows) -> bytes:
    """Rows as `datasets` writes them to the hub, with the features in the file's own schema."""
    file = io.BytesIO()
    columns = {name: [row[name] for row in rows] for name in features}
    Dataset.from_dict(columns, features=Features(features)).to_parquet(file)
    return file.getvalue()


def lines(rows: Iterable[Mapping[str, Any]]) -> bytes:
    """JSON lines."""
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()


def card(configs: Mapping[str, Mapping[str, str]]) -> bytes:
    """A dataset's README, which says for each configuration where each split is."""
    files = [
        {
            "config_name": name,
            "data_files": [{"split": split, "path": path} for split, path in splits.items()],
        }
        for name, splits in configs.items()
    ]
    return f"---\n{yaml.safe_dump({'configs': files}, sort_keys=False)}---\n".encode()


def in_parquet(configs: Mapping[str, tuple[Mapping[str, Any], Mapping[str, Rows]]]) -> Files:
    """A repository as `push_to_hub` makes it.

    It has CONFIG/SPLIT-00000-of-00001.parquet, and the card that says so.
    """
    files: Files = {}
    for name, (features, splits) in configs.items():
        for split, rows in splits.items():
            files[f"{name}/{split}-00000-of-00001.parquet"] = parquet(features, rows)
    places = {
        name: {split: f"{name}/{split}-*" for split in splits}
        for name, (_, splits) in configs.items()
    }
    return {"README.md": card(places), **files}


def splits(
    names: Iterable[str], row: Callable[[int], Mapping[str, Any]]
) -> dict[str, list[Mapping[str, Any]]]:
    """Rows for each split, all of them different."""
    start, result = 0, {}
    for name in names:
        result[name] = [row(start + number) for number in range(SIZES[name])]
        start += SIZES[name]
    return result


def all_nli() -> Files:
    names = ("train", "dev", "test")
    pairs = splits(names, lambda n: {"anchor": sentence(n), "positive": sentence(n + 1)})
    classes = splits(
        names,
        lambda n: {
            "premise": sentence(n // 3),
            "hypothesis": sentence(n // 3 + n % 3),
            "label": n % 3,
        },
    )
    return in_parquet(
        {
            "pair": ({"anchor": TEXT, "positive": TEXT}, pairs),
            "pair-class": ({"premise": TEXT, "hypothesis": TEXT, "label": NLI}, classes),
        }
    )


def datasets_for_simcse() -> Files:
    """Three files of three formats, and no card."""
    table = io.StringIO()
    writer = csv.writer(table, lineterminator="\n")
    writer.writerow(["sent0", "sent1", "hard_neg"])
    writer.writerows([sentence(n), sentence(n + 1), sentence(n + 7)] for n in range(SIZES["train"]))
    return {
        "nli_for_simcse.csv": table.getvalue().encode(),
        "wiki1m_for_simcse.txt": "".join(f"{sentence(n)}\n" for n in range(60)).encode(),
        "senteval.tar": senteval(),
    }


def glue() -> Files:
    """Without the labels of the test splits, which are -1."""

    def task(first: str, second: str, names: Sequence[str]) -> Any:
        texts = [name for name in (first, second) if name]

        def row(number: int, label: int) -> dict[str, Any]:
            written = {name: sentence(number + place) for place, name in enumerate(texts)}
            return {**written, "label": label, "idx": number}

        rows = {
            "train": [row(n, n % 2) for n in range(24)],
            "validation": [row(24 + n, n % 2) for n in range(20)],
            "test": [row(44 + n, -1) for n in range(12)],
        }
        return {
            **dict.fromkeys(texts, TEXT),
            "label": ClassLabel(names=list(names)),
            "idx": Value("int32"),
        }, rows

    inference = ["entailment", "not_entailment"]
    return in_parquet(
        {
            "cola": task("sentence", "", ["unacceptable", "acceptable"]),
            "mrpc": task("sentence1", "sentence2", ["not_equivalent", "equivalent"]),
            "qqp": task("question1", "question2", ["not_duplicate", "duplicate"]),
            "qnli": task("question", "sentence", inference),
            "rte": task("sentence1", "sentence2", inference),
        }
    )


def snli() -> Files:
    """With pairs on which no label was agreed, -1."""
    rows = splits(
        ("test", "validation", "train"),
        lambda n: {
            "premise": sentence(n // 4),
            "hypothesis": sentence(n // 4 + n % 4),
            "label": (0, 1, 2, -1)[n % 4],
        },
    )
    return in_parquet({"plain_text": ({"premise": TEXT, "hypothesis": TEXT, "label": NLI}, rows)})


def multi_nli() -> Files:
    texts = [
        f"{side}{kind}"
        for side in ("premise", "hypothesis")
        for kind in ("", "_binary_parse", "_parse")
    ]
    features = {
        "promptID": Value("int32"),
        "pairID": TEXT,
        **dict.fromkeys(texts, TEXT),
        "genre": TEXT,
        "label": NLI,
    }

    def row(number: int) -> dict[str, Any]:
        filled = {
            name: sentence(number // 3 + (number % 3 if name.startswith("hyp") else 0))
            for name in texts
        }
        return {
            "promptID": number,
            "pairID": f"{number}n",
            **filled,
            "genre": "fiction",
            "label": number % 3,
        }

    names = {"train": 24, "validation_matched": 12, "validation_mismatched": 12}
    files = {
        f"data/{name}-00000-of-00001.parquet": parquet(features, list(map(row, range(n))))
        for name, n in names.items()
    }
    return {"README.md": card({"default": {name: f"data/{name}-*" for name in names}}), **files}


def quora_duplicates() -> Files:
    label = ClassLabel(names=["different", "duplicate"])
    rows = splits(
        ["train"],
        lambda n: {"sentence1": sentence(n), "sentence2": sentence(n + 1), "label": n % 2},
    )
    return in_parquet(
        {"pair-class": ({"sentence1": TEXT, "sentence2": TEXT, "label": label}, rows)}
    )


def sst5() -> Files:
    """JSON lines whose names alone say the splits."""
    names = ("very negative", "negative", "neutral", "positive", "very positive")
    rows = splits(
        ("train", "dev", "test"),
        lambda n: {"text": sentence(n), "label": n % 5, "label_text": names[n % 5]},
    )
    return {
        "README.md": b"# SST-5\n",
        **{f"{name}.jsonl": lines(split) for name, split in rows.items()},
    }


def zipped(files: Mapping[str, list[dict[str, Any]]]) -> Files:
    """MTEB's older repositories: JSON lines, zipped, and a card without a word of them."""
    card = b"---\nlanguage:\n- en\n---"
    return {
        "README.md": card,
        **{f"{name}.jsonl.gz": gzip.compress(lines(rows), mtime=0) for name, rows in files.items()},
    }


def pairs(count: int, start: int = 0, key: str = "score", **more: Any) -> list[dict[str, Any]]:
    return [
        {"sentence1": a, "sentence2": b, key: score, **more} for a, b, score in scored(count, start)
    ]


def sts(*names: str) -> Callable[[], Files]:
    """STS12 and STS13 of MTEB."""
    return lambda: zipped(
        {name: pairs(SIZES[name], 24 * place) for place, name in enumerate(names)}
    )


def stsbenchmark() -> Files:
    """Its column "split" says dev where the file is called validation."""
    more = {"genre": "main-captions", "dataset": "MSRvid", "year": "2012test", "sid": "0001"}
    names = (("train", "train", 0), ("validation", "dev", 24), ("test", "test", 36))
    return zipped(
        {name: pairs(SIZES[name], start, split=split, **more) for name, split, start in names}
    )


def sts17() -> Files:
    """A configuration for each pair of languages."""
    files = {
        f"test/{name}.jsonl.gz": gzip.compress(lines(pairs(12, lang=name)), mtime=0)
        for name in STS17
    }
    return {"README.md": card({name: {"test": f"test/{name}.jsonl.gz"} for name in STS17}), **files}


def stsb_languages() -> Files:
    """A configuration for each language."""
    features = {"sentence1": TEXT, "sentence2": TEXT, "similarity_score": Value("float32")}
    starts = {"test": 36, "train": 0, "dev": 24}
    rows = {
        split: pairs(SIZES[split], start, "similarity_score") for split, start in starts.items()
    }
    return in_parquet({language: (features, rows) for language in LANGUAGES})


def sick() -> Files:
    """The hub's own conversion of a loading script, at refs/convert/parquet."""
    judgment = ClassLabel(names=["NEUTRAL", "ENTAILMENT", "CONTRADICTION"])
    features = dict(zip(SICK, (TEXT, TEXT, Value("float32"), judgment), strict=True))
    files = {}
    for name, start in (("train", 0), ("validation", 24), ("test", 36)):
        values = [
            (a, b, 1 + 4 * score / 5, n % 3)
            for n, (a, b, score) in enumerate(scored(SIZES[name], start))
        ]
        rows = [dict(zip(SICK, row, strict=True)) for row in values]
        files[f"default/{name}/0000.parquet"] = parquet(features, rows)
    return files


DATASETS: Mapping[str, Callable[[], Files]] = {
    "sentence-transformers/all-nli": all_nli,
    "princeton-nlp/datasets-for-simcse": datasets_for_simcse,
    "nyu-mll/glue": glue,
    "stanfordnlp/snli": snli,
    "nyu-mll/multi_nli": multi_nli,
    "sentence-transformers/quora-duplicates": quora_duplicates,
    "SetFit/sst5": sst5,
    "mteb/sts17-crosslingual-sts": sts17,
    "mteb/stsb_multi_mt": stsb_languages,
    "mteb/sts12-sts": sts("train", "test"),
    "mteb/sts13-sts": sts("test"),
    "mteb/stsbenchmark-sts": stsbenchmark,
    "SemEvalWorkshop/sem_eval_2014_task_1": sick,
}
"""Repository -> its files."""

REVISIONS = {
    "SemEvalWorkshop/sem_eval_2014_task_1": ("refs/convert/parquet",),
    "princeton-nlp/datasets-for-simcse": ("main", "e145e8bb659b2aa2669f32ef79cb4cdef6c58fef"),
    "SetFit/sst5": ("main", "e51bdcd8cd3a30da231967c1a249ba59361279a3"),
}
"""The revisions that have the files, where these are others than the main branch."""
