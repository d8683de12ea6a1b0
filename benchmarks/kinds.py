"""Measures how fast the kinds of today's encoders encode, beside sentence-transformers.

    python benchmarks/kinds.py [KIND ...] [--rounds N] [--texts N] [--out FILE]

A model has random weights and the size of the smallest public model of its kind; only its
vocabulary is that of the bundled tokenizer. Both libraries encode the same texts on one thread in
float32, in turn, and the seconds are those of the processor. They are appended to FILE after each
turn, so the same command goes on where it was stopped.
"""

import argparse
import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import torch
import transformers
from machine import processor
from rounds import speedup, spread, table
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
from transformers import AutoTokenizer

from isotune import Encoder
from isotune.bundled import MODEL_FOLDER
from isotune.data import read_scored_pairs

# The public model whose size a kind has, the configuration of transformers, what differs from its
# defaults, and the pooling.
KINDS: dict[str, tuple[str, Any, dict[str, Any], str]] = {
    "nomic_bert": ("nomic-embed-text-v1.5", transformers.NomicBertConfig, {}, "mean"),
    "gte": ("gte-multilingual-base", transformers.GteConfig, {}, "cls"),
    "eurobert": (
        "EuroBERT-210m",
        transformers.EuroBertConfig,
        {"bos_token_id": 101, "eos_token_id": 102, "mask_token_id": 103},
        "mean",
    ),
    "gemma3_text": (
        "embeddinggemma-300m",
        transformers.Gemma3TextConfig,
        {
            "hidden_size": 768,
            "intermediate_size": 1152,
            "num_hidden_layers": 24,
            "num_attention_heads": 3,
            "num_key_value_heads": 1,
            "sliding_window": 512,
            "use_bidirectional_attention": True,
        },
        "mean",
    ),
    "qwen3": (
        "Qwen3-Embedding-0.6B",
        transformers.Qwen3Config,
        {
            "hidden_size": 1024,
            "intermediate_size": 3072,
            "num_hidden_layers": 28,
            "num_attention_heads": 16,
            "num_key_value_heads": 8,
        },
        "lasttoken",
    ),
}
LIBRARIES = ("isotune", "sentence-transformers")


def main() -> None:
    """Measures the rounds that FILE doesn't have yet, and prints a table of all."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("kinds", nargs="*", choices=[*KINDS, []], metavar="KIND")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--texts", type=int, default=128)
    parser.add_argument("--out", type=Path, default=Path("kinds.jsonl"))
    options = parser.parse_args()
    torch.set_num_threads(1)
    texts = read_scored_pairs("stsb-open:test").sentence1[: options.texts]
    rows = []
    for kind in options.kinds or KINDS:
        measure(kind, texts, options.rounds, options.out)
        rows.append(row(kind, read(options.out, kind)))
    print(processor())
    print(table(["kind", "size of", "texts / s", "sentence-transformers", "ratio", "spread"], rows))


def measure(kind: str, texts: Sequence[str], rounds: int, out: Path) -> None:
    """Appends the rounds of a kind that the file doesn't have to the file."""
    done = {(record["round"], record["library"]) for record in read(out, kind)}
    wanted = [(number, library) for number in range(rounds) for library in LIBRARIES]
    if done.issuperset(wanted):
        return
    with TemporaryDirectory() as folder:
        make(kind, Path(folder))
        encoders: dict[str, Callable[[Sequence[str]], Any]] = {
            "isotune": Encoder.load(folder).encode,
            "sentence-transformers": SentenceTransformer(folder, device="cpu").encode,
        }
        for encode in encoders.values():
            encode(texts[:8])  # the first call prepares
        for number in range(rounds):
            # Every round starts with the other library.
            start = number % len(LIBRARIES)
            for library in LIBRARIES[start:] + LIBRARIES[:start]:
                if (number, library) in done:
                    continue
                before = time.process_time()
                encoders[library](texts)
                seconds = time.process_time() - before
                record = {
                    "kind": kind,
                    "round": number,
                    "library": library,
                    "texts": len(texts),
                    "seconds": seconds,
                }
                with out.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(record) + "\n")


def make(kind: str, folder: Path) -> None:
    """Writes a model with random weights and its pooling as a folder of sentence-transformers."""
    _, config_class, options, pooling = KINDS[kind]
    tokenizer = AutoTokenizer.from_pretrained(MODEL_FOLDER)
    config = config_class(**({"vocab_size": len(tokenizer), "pad_token_id": 0} | options))
    with TemporaryDirectory() as plain:
        transformers.AutoModel.from_config(config).save_pretrained(plain)
        tokenizer.save_pretrained(plain)
        modules = [Transformer(plain, max_seq_length=512), Pooling(config.hidden_size, pooling)]
        SentenceTransformer(modules=modules, device="cpu").save(str(folder))


def read(path: Path, kind: str) -> list[dict[str, Any]]:
    """The records of a kind in a file."""
    if not path.exists():
        return []
    records = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    return [record for record in records if record["kind"] == kind]


def row(kind: str, records: Sequence[dict[str, Any]]) -> list[str]:
    """The line of a kind in the table: medians of the rounds, and the median of their ratios."""
    in_order = sorted(records, key=lambda record: record["round"])
    seconds: dict[str, list[float]] = {library: [] for library in LIBRARIES}
    for record in in_order:
        seconds[record["library"]].append(record["seconds"] / record["texts"])
    ours, theirs = (seconds[library] for library in LIBRARIES)
    return [
        kind,
        KINDS[kind][0],
        f"{1 / median(ours):.1f}",
        f"{1 / median(theirs):.1f}",
        f"{speedup(theirs, ours):.2f}",
        f"{max(spread(ours), spread(theirs)):.0%}",
    ]


if __name__ == "__main__":
    main()
