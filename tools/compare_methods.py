"""Every method on small models, one seed: the table of docs/results.md.

    ISOTUNE_DATA=DIR python tools/compare_methods.py OUT [--models mini DIR ...] [--only NAME ...]

Each line is a recipe of the package ("recipe, variant" for one with another option) with what a small model needs in
its place: a higher learning rate than BERT-base, few steps, and evaluations close together, since small models have
their best step early. A run is a process of its own with one thread; two run at once. Runs that are there already are
not repeated. Prints the table in Markdown.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path
from typing import Any

Options = dict[str, Any]

COMMON: Options = {"dev": "stsb:dev", "tasks": ["sts"], "precision": "bfloat16", "seed": 0, "quiet": True}
SHORT: Options = {"steps": 200, "eval_every": 25, "patience": 4, "learning_rate": 1e-4}

RUNS: dict[str, tuple[list[str], Options]] = {
    "consert-unsup-base": ([], SHORT),
    "consert-joint": ([], SHORT),
    "consert-sup-unsup": ([], SHORT),
    "consert-joint-unsup": ([], SHORT),
    "sg": ([], {}),
    "sg-opt": ([], {}),
    "sg-opt, opt1": ([], {"objective": "opt1"}),
    "sg-opt, opt2": ([], {"objective": "opt2"}),
    # Paraphrases as they are, so by the method and not by the recipe, which translates.
    "back-translation": (["qqp:train"], {**SHORT, "method": "back-translation", "pooling": "cls"}),
    "sg-opt-bt": (["qqp:train"], {**SHORT, "method": "self-guided-bt", "pooling": "cls"}),
    "simcse-unsup": (["stsb:train"], {**SHORT, "projection": False, "pooling": "mean"}),
    "simcse-sup": ([], {**SHORT, "batch_size": 128, "pooling": "mean"}),
    "sncse": (["enwiki-100k"], {**SHORT, "batch_size": 64}),
    "small-bert-unsup": (["enwiki-100k"], {**SHORT}),
    "small-bert-sup": ([], SHORT),
    "small-bert-soft": (["enwiki-100k"], SHORT),
    "mlm": (["enwiki-100k"], SHORT),
    "mirror": ([], {"learning_rate": 1e-4, "eval_every": 10}),
    "mirror-drophead": ([], {"learning_rate": 1e-4, "eval_every": 10}),
    "bert-flow": ([], {"eval_every": 200}),
    "bert-cf": (["enwiki-100k"], {"steps": 600, "eval_every": 50, "patience": 8}),
    "bert-cf-multitask": ([], {"steps": 300, "eval_every": 50, "learning_rate": 1e-4}),
    "clsr-nli": ([], {"epochs": 10.0, "eval_every": 300}),
    "clsr-stsb": ([], {}),
    "whitening": ([], {}),
}


def main() -> None:
    """Runs what is missing and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--models", nargs="+", default=["mini"])
    parser.add_argument("--only", nargs="+", default=list(RUNS))
    parser.add_argument("--processes", type=int, default=2)
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    jobs = list(product(arguments.only, arguments.models))
    with ThreadPoolExecutor(arguments.processes) as pool:
        lines = list(pool.map(lambda job: run(arguments.out, *job), jobs))
    print("| recipe | model | before | after | kept step | seconds |\n|---|---|---|---|---|---|")
    print("\n".join(lines))


def run(out: Path, name: str, model: str) -> str:
    """One run's line of the table."""
    recipe, _, variant = name.partition(", ")
    folder = out / "-".join(filter(None, [recipe, variant, Path(model).name]))
    result = folder.with_suffix(".json")
    if not result.exists():
        sources, options = RUNS[name]
        given = {**COMMON, **options, "sources": sources, "model": model, "out": str(folder)}
        if "method" not in options:
            given["recipe"] = recipe
        code = "import isotune, json, sys; isotune.train(**json.loads(sys.argv[1]))"
        start = time.perf_counter()
        command = [sys.executable, "-W", "ignore", "-c", code, json.dumps(given)]
        done = subprocess.run(
            command, env={**os.environ, "OMP_NUM_THREADS": "1"}, stderr=subprocess.PIPE, text=True, check=False
        )
        seconds = time.perf_counter() - start
        if done.returncode:
            return f"| {name} | {Path(model).name} | failed: {done.stderr.strip().splitlines()[-1]} | | | |"
        found = json.loads((folder / "evaluation.json").read_text())
        row = {
            "before": found["before"]["average"]["spearman"]["all"],
            "after": found["after"]["average"]["spearman"]["all"],
            "step": found["selected_step"],
            "seconds": round(seconds),
        }
        result.write_text(json.dumps(row))
    row = json.loads(result.read_text())
    before, after = 100 * row["before"], 100 * row["after"]
    return f"| {name} | {Path(model).name} | {before:.2f} | {after:.2f} | {row['step']} | {row['seconds']} |"


if __name__ == "__main__":
    main()
