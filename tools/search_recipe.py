"""The search behind recipes/mini.toml: the default recipe of the bundled model, chosen on STS-B's dev pairs.

    ISOTUNE_DATA=DIR python tools/search_recipe.py OUT [--processes 2]

It trains on the bundled sentences, 200 steps a run. First the views with the pooling and the temperature, one seed;
then the options around the best, one at a time; last the three best with three seeds. A run's dev score is the best of
its evaluations; test scores are in the table, but choose nothing. Writes OUT/runs.jsonl, a line a run; runs that are
there already are not repeated.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from typing import Any

Options = dict[str, Any]
BASE: Options = {
    "dev": "stsb:dev",
    "tasks": ("stsb",),
    "learning_rate": 1e-4,
    "steps": 200,
    "eval_every": 50,
    "seed": 0,
    "precision": "bfloat16",  # half the time of float32
}


def first_round() -> list[Options]:
    """How the views are made, what is pooled, and the temperature."""
    views: list[Options] = [
        {"method": "simcse", "projection": False},
        {"method": "consert", "augmentations": ("token_cutoff", "token_cutoff")},
        {"method": "consert", "augmentations": ("token_cutoff", "shuffle")},
    ]
    runs = [
        {**view, "pooling": "mean", "layers": layers, "temperature": temperature}
        for view, layers, temperature in product(views, ((-1,), (0, -1)), (0.03, 0.05))
    ]
    runs += [
        {**views[0], "pooling": "max", "layers": (-1,), "temperature": temperature} for temperature in (0.05, 0.15)
    ]
    return [{**BASE, **run} for run in runs]


def second_round(best: Options) -> list[Options]:
    """One change at a time around the best."""
    changes: list[Options] = [
        {"learning_rate": 5e-5},
        {"learning_rate": 2e-4},
        {"learning_rate": 4e-4},
        {"batch_size": 32},
        {"batch_size": 128},
        {"steps": 400},
        {"model_dropout": 0.0},
        {"model_dropout": 0.2},
        {"temperature": best["temperature"] / 2},
        {"temperature": best["temperature"] * 2},
    ]
    return [{**best, **change} for change in changes]


def run(task: tuple[Path, Options]) -> Options:
    """Trains once, in a folder that is thrown away."""
    import torch

    import isotune

    out, options = task
    torch.set_num_threads(1)
    folder = out / f"run-{os.getpid()}"
    shutil.rmtree(folder, ignore_errors=True)
    result = isotune.train("stsb-open:train", out=folder, quiet=True, **options)
    records = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    dev = {record["step"]: record["score"] for record in records if record["kind"] == "dev"}
    shutil.rmtree(folder)
    return {
        "options": options,
        "dev": round(100 * max(dev.values()), 2),
        "step": result.evaluation.selected_step,
        "test": round(100 * result.evaluation.after.tasks[0].spearman.all, 2),
        "start": [round(100 * dev[0], 2), round(100 * result.evaluation.before.tasks[0].spearman.all, 2)],
    }


def run_all(pool: Any, out: Path, todo: list[Options]) -> list[Options]:
    """Every run of the list, from the file where it is there."""
    path = out / "runs.jsonl"
    done = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    known = {json.dumps(entry["options"], sort_keys=True): entry for entry in done}
    keys = [json.dumps(options, sort_keys=True) for options in todo]
    missing = [(out, options) for key, options in zip(keys, todo, strict=True) if key not in known]
    with path.open("a") as file:
        for entry in pool.imap_unordered(run, missing):
            print(entry["dev"], entry["test"], entry["step"], entry["options"], flush=True)
            file.write(json.dumps(entry) + "\n")
            file.flush()
            known[json.dumps(entry["options"], sort_keys=True)] = entry
    return [known[key] for key in keys]


def main() -> None:
    """The three rounds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--processes", type=int, default=2)
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    with get_context("spawn").Pool(arguments.processes, maxtasksperchild=8) as pool:
        found = run_all(pool, arguments.out, first_round())
        best = max(found, key=lambda entry: entry["dev"])["options"]
        found += run_all(pool, arguments.out, second_round(best))
        top = sorted(found, key=lambda entry: -entry["dev"])[:3]
        seeds = [{**entry["options"], "seed": seed} for entry in top for seed in (1, 2)]
        again = run_all(pool, arguments.out, seeds)
    for entry in top:
        same = [e for e in again if {**e["options"], "seed": 0} == entry["options"]]
        scores = [entry["dev"], *(e["dev"] for e in same)]
        print(f"{sum(scores) / len(scores):.2f} {scores} {entry['options']}")


if __name__ == "__main__":
    main()
