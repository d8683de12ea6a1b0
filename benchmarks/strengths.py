"""Measures how boldly to adapt an encoder with soft targets, and how much of the way to go.

The domains are those of domains.py. The gentle run has the settings of the recipe `adapt`. The bold
run has 40 steps at a constant rate of 2.5e-5 (for vectors of 768 values) and temperature 0.03. Both
have soft targets. Of the bold run, the weights at a quarter, a half and all of the way from the
start to the end are measured (`interpolations` of isotune).

    ISOTUNE_DATA=... python benchmarks/strengths.py ENCODER OUT [--seeds 0 1 2]
        [--domains sick quora] [--ways gentle bold]

trains without a limit, and keeps the scores of this encoder in OUT. For each domain the table has
the change of Spearman x 100 on its scored pairs, and in brackets that on the general pairs of the
recipe; both are means over the seeds. Below are the means over the domains, and the mean and the
worst domain where the last of these encoders is kept that loses nothing on the general pairs. The
same command goes on where it was stopped.
"""

import argparse
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from domains import DEVELOPMENT, TEST, domain_folder
from numpy.typing import NDArray
from scipy.stats import spearmanr
from torch import Tensor

import isotune
from isotune.data import ScoredPairs, Sentence, read, read_scored_pairs
from isotune.encoder.encoder import Encoder
from isotune.engine.loop import train_steps
from isotune.engine.objectives import build_objectives
from isotune.evaluation import cosine_similarities
from isotune.evaluation.tasks import GENERAL_PAIRS
from isotune.recipes import Stage, read_recipe
from isotune.training.candidates import interpolate

Floats = NDArray[np.float64]

GENTLE: dict[str, Any] = {"soft_targets": 0.05, "precision": "bfloat16"}
BOLD: dict[str, Any] = {
    **GENTLE,
    "steps": 40,
    "learning_rate": 2.5e-5,
    "schedule": "constant",
    "temperature": 0.03,
}
WAYS = {"gentle": (GENTLE, (1.0,)), "bold": (BOLD, (0.25, 0.5, 1.0))}
"""What each way changes in the stage of the recipe, and the shares that are measured."""


def scores_of(encoder: Encoder, pairs: ScoredPairs) -> list[float]:
    """Spearman x 100 of an encoder on the pairs of a domain and on the general pairs."""
    general = read_scored_pairs(GENERAL_PAIRS)
    return [
        100 * float(spearmanr(each.scores, cosine_similarities(encoder, each)).statistic)
        for each in (pairs, general)
    ]


@cache
def start_scores(model: str, folder: Path) -> Floats:
    """The two scores of an encoder before training, on the pairs in the folder of a domain."""
    encoder = Encoder.load(model, precision="bfloat16").eval()
    return np.array(scores_of(encoder, read_scored_pairs(folder / "pairs.tsv")))


def trained(model: str, folder: Path, way: str, seed: int) -> Floats:
    """The two scores [shares, 2] of an encoder that is trained anew, at each share.

    The weights are trained in float32, and measured in bfloat16.
    """
    changed, shares = WAYS[way]
    stage = Stage.model_validate({**read_recipe("adapt")["stages"][0], **changed})
    encoder = Encoder.load(model, precision="float32")
    start = copied_weights(encoder)
    options = stage.training.for_width(encoder.backbone.dimension)
    rows = list(read(folder / "text.txt", Sentence))
    objectives = build_objectives(stage, encoder, seed)
    for update in train_steps(encoder, objectives, rows, options, seed):
        update.check(options)
    end = copied_weights(encoder)
    pairs = read_scored_pairs(folder / "pairs.tsv")
    measured = Encoder.load(model, precision="bfloat16").eval()
    scores = []
    for share in shares:
        measured.load_state_dict(interpolate(start, end, share))
        scores.append(scores_of(measured, pairs))
    return np.array(scores)


def copied_weights(encoder: Encoder) -> dict[str, Tensor]:
    """A copy of the weights of an encoder."""
    return {name: value.clone() for name, value in encoder.state_dict().items()}


def changes_of(domain: str, way: str, arguments: argparse.Namespace) -> Floats:
    """The changes of a way in a domain, [seeds, shares, 2]; makes the runs that are missing."""
    folder = domain_folder(arguments.out, domain)
    scores = []
    for seed in arguments.seeds:
        file = arguments.out / f"{domain}-{way}-{seed}.npy"
        if not file.exists():
            np.save(file, trained(arguments.model, folder, way, seed))
        scores.append(np.load(file))
    return np.stack(scores) - start_scores(arguments.model, folder)


def kept(changes: Floats) -> Floats:
    """The change [seeds] in a domain of the boldest share that loses nothing on general pairs.

    `changes` are [seeds, shares, 2], the boldest share last. The start loses nothing.
    """
    result = np.zeros(len(changes))
    for share in range(changes.shape[1]):
        allowed = changes[:, share, 1] >= 0
        result[allowed] = changes[allowed, share, 0]
    return result


def summary_of(changes: Floats) -> str:
    """The mean, the median and the lowest of the changes [domains]."""
    return f"{changes.mean():+.2f} | {np.median(changes):+.2f} | {changes.min():+.2f}"


def print_means(named: Sequence[tuple[str, Floats]]) -> None:
    """Prints the means over the domains of each way.

    The changes of a way are [domains, seeds, shares, 2].
    """
    print("\n| way | mean | median | worst domain | mean on general pairs |")
    print("|---|---|---|---|---|")
    for way, changes in named:
        shares = WAYS[way][1]
        for number, share in enumerate(shares):
            domain, general = np.moveaxis(changes[:, :, number].mean(axis=1), -1, 0)
            summary = f"{summary_of(domain)} | {general.mean():+.2f}"
            print(f"| {way}, {share:g} of the way, no limit | {summary} |")
        for number, share in enumerate(shares):
            limited = np.stack([kept(of[:, : number + 1]) for of in changes]).mean(axis=1)
            summary = summary_of(limited)
            print(f"| {way}, {share:g} of the way or less, limit 0 | {summary} | |")


def main() -> None:
    """Makes the runs that are missing, and prints the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model")
    parser.add_argument("out", type=Path)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--domains", nargs="+", default=[*DEVELOPMENT, *TEST])
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=[*WAYS])
    arguments = parser.parse_args()
    isotune.tune_process()
    columns = [f"{way}, {share:g}" for way in arguments.ways for share in WAYS[way][1]]
    print(f"| domain | {' | '.join(columns)} |")
    print("|---" * (len(columns) + 1) + "|")
    found: dict[str, list[Floats]] = {way: [] for way in arguments.ways}
    for domain in arguments.domains:
        cells = [domain]
        for way in arguments.ways:
            changes = changes_of(domain, way, arguments)
            found[way].append(changes)
            for of_domain, general in changes.mean(axis=0):
                cells.append(f"{of_domain:+.2f} ({general:+.2f})")
        print(f"| {' | '.join(cells)} |", flush=True)
    print_means([(way, np.stack(changes)) for way, changes in found.items()])


if __name__ == "__main__":
    main()
