"""The grid of the small-BERT paper's downstream runs (section 5.3): 27 settings of a fine-tuning recipe.

    ISOTUNE_DATA=DIR python tools/finetune_grid.py OUT --recipe glue-rte [--model MODEL]

Each setting is a run folder in OUT, and its score the best of its evaluations on the recipe's dev data. Finished runs
are not repeated; one that was stopped goes on. Prints the table, the best setting first.
"""

from __future__ import annotations

import argparse
import json
import sys
from itertools import product
from pathlib import Path

import isotune

RATES = (2e-5, 3e-5, 5e-5)
BATCH_SIZES = (16, 32, 64)
EPOCHS = (2, 3, 4)


def run(folder: Path, recipe: str, model: dict[str, str], rate: float, batch_size: int, epochs: int) -> None:
    """Trains one setting, unless that is done."""
    if (folder / "report.html").exists():
        return
    if (folder / "recipe.toml").exists():
        result = isotune.train(out=folder, resume=True)
    else:
        setting = {"learning_rate": rate, "batch_size": batch_size, "epochs": epochs}
        result = isotune.train(out=folder, recipe=recipe, tasks=("stsb-open",), **setting, **model)
    if result.stopped:
        result.report.unlink()  # so that it goes on when it is asked for again
        sys.exit(f"stopped by {result.stopped}; call it again to go on")


def best(folder: Path) -> tuple[float, int]:
    """The best dev score of a run, and its step."""
    records = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [(record["score"], record["step"]) for record in records if record.get("best")][-1]


def main() -> None:
    """The whole grid."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--recipe", required=True)
    parser.add_argument("--model", help="in place of the recipe's, such as the encoder of another run")
    arguments = parser.parse_args()
    model = {"model": arguments.model} if arguments.model else {}
    settings = list(product(RATES, BATCH_SIZES, EPOCHS))
    folders = {setting: arguments.out / "rate{:g}-batch{}-epochs{}".format(*setting) for setting in settings}
    for setting, folder in folders.items():
        run(folder, arguments.recipe, model, *setting)
    print("| learning rate | batch size | epochs | dev score | at step |\n|---|---|---|---|---|")
    for (score, step), (rate, batch_size, epochs) in sorted(((best(f), s) for s, f in folders.items()), reverse=True):
        print(f"| {rate:g} | {batch_size} | {epochs} | {100 * score:.2f} | {step} |")


if __name__ == "__main__":
    main()
