"""Measures what the recipe `adapt` does to an encoder, without labels and with few.

The domains are those of domains.py.

    ISOTUNE_DATA=... python benchmarks/adapt.py ENCODER OUT [--seeds 0 1 2] [--domains sick quora]

trains in OUT, and prints for each domain the change of Spearman x 100 on its scored pairs, mean
over the seeds. Without labels the recipe keeps the last step that loses nothing on general pairs.
With labels, 50 pairs of a random half are the dev pairs, picked as `isotune label` picks them; the
change is on the other half, mean over 20 draws. The last column is of the best step within the
limit, chosen with all scores. The same command goes on where it was stopped.
"""

import argparse
import json
import shutil
from pathlib import Path
from unittest.mock import patch

import numpy as np
from domains import DEVELOPMENT, TEST, domain_folder
from numpy.typing import NDArray
from scipy.stats import spearmanr

import isotune
from isotune.data import ScoredPairs, read_scored_pairs
from isotune.encoder.encoder import Encoder
from isotune.evaluation import cosine_similarities
from isotune.evaluation.labelling.choose import choose
from isotune.training import stage

Floats = NDArray[np.float64]

LABELS = 50
DRAWS = 20
EVERY = 10  # steps between two that the recipe may keep


def score(gold: Floats, cosines: Floats) -> float:
    """Spearman x 100; 0 if one side is constant."""
    if np.ptp(gold) == 0 or np.ptp(cosines) == 0:
        return 0.0
    return 100 * float(spearmanr(gold, cosines).statistic)


def adapt(model: str, text: Path, pairs: ScoredPairs, seed: int, out: Path) -> Floats:
    """The cosines [S, N] of a domain's pairs, at the start and at the steps that may be kept."""
    cosines: list[Floats] = []
    made = stage.general_scorer

    def watched(*arguments):  # type: ignore[no-untyped-def]
        scorer = made(*arguments)

        def scores(encoder: Encoder):  # type: ignore[no-untyped-def]
            cosines.append(cosine_similarities(encoder.eval(), pairs))
            return scorer(encoder)

        return scores

    with patch.object(stage, "general_scorer", watched):
        result = isotune.train(
            text, out=out, model=model, recipe="adapt", seed=seed, tasks=("stsb-open",), quiet=True
        )
    records = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    steps = [record["step"] for record in records if record["kind"] == "general"]
    return np.stack(cosines[: steps.index(result.evaluation.selected_step) + 1])


def kept(gold: Floats, cosines: Floats) -> int:
    """Which step the recipe keeps by dev pairs with these gold scores [N].

    Their cosines at each step are [S, N].
    """
    return int(np.argmax([score(gold, of_step) for of_step in cosines]))


def with_labels(pairs: ScoredPairs, cosines: Floats) -> float:
    """The mean change on half of the pairs, where dev pairs are labelled ones of the other half.

    `choose` takes the pairs that change most. The rest of their half would show too small a change.
    """
    changes = []
    numbers = {
        text: i for i, text in enumerate(dict.fromkeys([*pairs.sentence1, *pairs.sentence2]))
    }
    ends = np.array(
        [[numbers[a], numbers[b]] for a, b in zip(pairs.sentence1, pairs.sentence2, strict=True)]
    )
    both = cosines[[0, -1]]  # the encoders that `isotune label` compares
    for draw in range(DRAWS):
        random = np.random.default_rng(draw)
        pool, rest = np.array_split(random.permutation(len(ends)), 2)
        rows = pool[choose(both[:, pool], ends[pool], LABELS, random)]
        step = kept(pairs.scores[rows], cosines[:, rows])
        changes.append(
            score(pairs.scores[rest], cosines[step][rest])
            - score(pairs.scores[rest], cosines[0][rest])
        )
    return float(np.mean(changes))


def main() -> None:
    """Makes the runs that are missing, and prints the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model")
    parser.add_argument("out", type=Path)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--domains", nargs="+", default=[*DEVELOPMENT, *TEST])
    options = parser.parse_args()
    isotune.tune_process()
    print(
        "| domain | steps kept | change, mean of the seeds | lowest | with 50 labels | best step |"
    )
    print("|---|---|---|---|---|---|")
    means: dict[str, list[Floats]] = {"development": [], "test": []}
    for name in options.domains:
        folder = domain_folder(options.out, name)
        pairs = read_scored_pairs(folder / "pairs.tsv")
        steps, changes = [], []
        for seed in options.seeds:
            result = options.out / f"{name}-{seed}.npy"
            if not result.exists():
                run = options.out / f"{name}-{seed}"
                shutil.rmtree(run, ignore_errors=True)  # of a training that was stopped
                np.save(result, adapt(options.model, folder / "text.txt", pairs, seed, run))
            cosines = np.load(result)
            start, *scores = (score(pairs.scores, of) for of in cosines)
            last, best = (scores or [start])[-1], max([start, *scores])
            steps.append(str(EVERY * len(scores)))
            changes.append([last - start, with_labels(pairs, cosines), best - start])
        plain, labelled, oracle = np.mean(changes, axis=0)
        means["development" if name in DEVELOPMENT else "test"].append(
            np.array([plain, labelled, oracle])
        )
        lowest = np.min(changes, axis=0)[0]
        values = " | ".join(f"{value:+.2f}" for value in (plain, lowest, labelled, oracle))
        print(f"| {name} | {', '.join(steps)} | {values} |", flush=True)
    for part, of_domains in means.items():
        if of_domains:
            plain, labelled, oracle = np.mean(of_domains, axis=0)
            print(f"| mean of {part} | | {plain:+.2f} | | {labelled:+.2f} | {oracle:+.2f} |")


if __name__ == "__main__":
    main()
