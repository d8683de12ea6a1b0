"""What the recipe `adapt` does to an encoder in the domains of domains.py, without labels and with few.

    ISOTUNE_DATA=... python benchmarks/adapt.py ENCODER OUT [--seeds 0 1 2] [--domains sick quora]

trains in OUT, and prints for each domain the change of Spearman x 100 on its scored pairs, mean over the seeds. Without
labels the recipe keeps the last step that loses little on general pairs. With labels, 50 of the scored pairs choose
among these steps, picked as `isotune label` picks them; the change is on the other pairs, mean over 20 draws. The same
command goes on where it was stopped.
"""

import argparse
import json
import os
from pathlib import Path
from unittest.mock import patch

import numpy as np
from domains import DEVELOPMENT, TEST, write_domains
from labels import DRAWS, Floats, score

import isotune
from isotune.data import ScoredPairs, read_scored_pairs
from isotune.encoder.encoder import Encoder
from isotune.evaluation import cosine_similarities
from isotune.evaluation.labelling.choose import choose
from isotune.training import stage

LABELS = 50


def adapt(model: str, text: Path, pairs: ScoredPairs, seed: int, out: Path) -> list[Floats]:
    """The cosines [N] of a domain's pairs at the start and at every step that the recipe may keep."""
    cosines: list[Floats] = []
    made = stage.general_scorer

    def watched(*arguments):  # type: ignore[no-untyped-def]
        scorer = made(*arguments)

        def scores(encoder: Encoder):  # type: ignore[no-untyped-def]
            cosines.append(cosine_similarities(encoder.eval(), pairs))
            return scorer(encoder)

        return scores

    with patch.object(stage, "general_scorer", watched):
        result = isotune.train(text, out=out, model=model, recipe="adapt", seed=seed, tasks=("stsb-open",), quiet=True)
    records = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    steps = [record["step"] for record in records if record["kind"] == "general"]
    return cosines[: steps.index(result.evaluation.selected_step) + 1]


def with_labels(pairs: ScoredPairs, cosines: list[Floats]) -> float:
    """The mean change on the pairs that were not labelled, where the labelled ones choose the step."""
    changes = []
    numbers = {text: i for i, text in enumerate(dict.fromkeys([*pairs.sentence1, *pairs.sentence2]))}
    ends = np.array([[numbers[a], numbers[b]] for a, b in zip(pairs.sentence1, pairs.sentence2, strict=True)])
    both = np.stack([cosines[0], cosines[-1]])  # the encoders that `isotune label` compares
    for draw in range(DRAWS):
        random = np.random.default_rng(draw)
        # `choose` takes no sentence twice. So that its order differs between draws, each sees half of the pairs.
        pool = random.permutation(len(ends))[: max(LABELS, len(ends) // 2)]
        rows = pool[choose(both[:, pool], ends[pool], LABELS, random)]
        best = int(np.argmax([score(pairs.scores[rows], of[rows]) for of in cosines]))
        rest = np.setdiff1d(np.arange(len(ends)), rows)
        changes.append(score(pairs.scores[rest], cosines[best][rest]) - score(pairs.scores[rest], cosines[0][rest]))
    return float(np.mean(changes))


def main() -> None:
    """Makes the runs that are missing, and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("out", type=Path)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--domains", nargs="+", default=[*DEVELOPMENT, *TEST])
    options = parser.parse_args()
    isotune.tune_process()
    print("| domain | steps kept | change, mean of the seeds | lowest | with 50 labels |\n|---|---|---|---|---|")
    means: dict[str, list[tuple[float, float]]] = {"development": [], "test": []}
    for name in options.domains:
        rows = []
        for seed in options.seeds:
            result = options.out / f"{name}-{seed}.json"
            if not result.exists():
                if not (options.out / name).exists():
                    with open(os.devnull, "w") as silent, patch("sys.stdout", silent):
                        write_domains(options.out, [name])
                pairs = read_scored_pairs(options.out / name / "pairs.tsv")
                run = options.out / f"{name}-{seed}"
                cosines = adapt(options.model, options.out / name / "text.txt", pairs, seed, run)
                change = score(pairs.scores, cosines[-1]) - score(pairs.scores, cosines[0])
                row = {"steps": 10 * (len(cosines) - 1), "change": change, "labels": with_labels(pairs, cosines)}
                result.write_text(json.dumps(row))
            rows.append(json.loads(result.read_text()))
        changes, labels = ([row[key] for row in rows] for key in ("change", "labels"))
        means["development" if name in DEVELOPMENT else "test"].append((np.mean(changes), np.mean(labels)))
        steps = ", ".join(str(row["steps"]) for row in rows)
        print(
            f"| {name} | {steps} | {np.mean(changes):+.2f} | {min(changes):+.2f} | {np.mean(labels):+.2f} |", flush=True
        )
    for part, values in means.items():
        if values:
            plain, labelled = np.mean(values, axis=0)
            print(f"| mean of {part} | | {plain:+.2f} | | {labelled:+.2f} |")


if __name__ == "__main__":
    main()
