"""Measures what a student gains from teachers: on domains, and on the bundled sentences.

The domains are those of domains.py. "bundled" is the text stsb-open:train with the pairs of
stsb-open.

    ISOTUNE_DATA=... python benchmarks/distil.py OUT STUDENT TEACHER... [--seeds 0 1 2]
        [--domains bundled tweets] [--options '{"steps": 300}']

trains in OUT by the recipe that --teachers chooses, and prints for each domain Spearman x 100 on
its scored pairs: of the student before training, of the teachers together (the mean of their
cosines), and the change of the student, mean over the seeds. Beside them are the change on the
bundled pairs, and the agreement with the teachers on held-out sentences. `--options` are options of
isotune.train. The same command goes on where it was stopped.
"""

import argparse
import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from domains import DEVELOPMENT, TEST, domain_folder
from scipy.stats import spearmanr

import isotune
from isotune.data import ScoredPairs, read_scored_pairs
from isotune.encoder.encoder import Encoder
from isotune.evaluation import cosine_similarities

BUNDLED = "bundled"
GENERAL = "stsb-open"


def text_of(domain: str, out: Path) -> str:
    """The source of a domain's text."""
    if domain == BUNDLED:
        return "stsb-open:train"
    return str(out / domain / "text.txt")


def pairs_of(domain: str, out: Path) -> ScoredPairs:
    """The scored pairs of a domain, whose files are written if they are missing."""
    if domain == BUNDLED:
        return read_scored_pairs("stsb-open:test")
    return read_scored_pairs(domain_folder(out, domain) / "pairs.tsv")


def score(pairs: ScoredPairs, encoders: Sequence[Encoder]) -> float:
    """Spearman x 100 of the mean of the encoders' cosines with the scores of the pairs."""
    cosines = [cosine_similarities(encoder, pairs) for encoder in encoders]
    return 100 * float(spearmanr(pairs.scores, np.mean(cosines, axis=0)).statistic)


def trained(
    student: str, teachers: Sequence[str], text: str, run: Path, options: Mapping[str, Any]
) -> dict[str, Any]:
    """The agreement with the teachers, and the change on the bundled pairs, of a run."""
    shutil.rmtree(run, ignore_errors=True)  # of a training that was stopped
    result = isotune.train(
        text, out=run, model=student, teachers=teachers, tasks=(GENERAL,), quiet=True, **options
    )
    evaluation = result.evaluation
    assert evaluation is not None
    assert evaluation.agreement is not None
    general = evaluation.after.scores()[GENERAL] - evaluation.before.scores()[GENERAL]
    agreement = [100 * evaluation.agreement.before, 100 * evaluation.agreement.after]
    return {"general": 100 * general, "agreement": agreement}


def measured(
    domain: str, seed: int, pairs: ScoredPairs, arguments: argparse.Namespace
) -> dict[str, Any]:
    """What a run of a domain and a seed gave; the run is made if its file is missing."""
    file: Path = arguments.out / f"{domain}-{seed}.json"
    if file.exists():
        return json.loads(file.read_text("utf-8"))
    run = arguments.out / f"{domain}-{seed}"
    options = {**arguments.options, "seed": seed}
    text = text_of(domain, arguments.out)
    result = trained(arguments.student, arguments.teachers, text, run, options)
    result["after"] = score(pairs, [Encoder.load(run / "encoder")])
    file.write_text(json.dumps(result), "utf-8")
    return result


def row_of(domain: str, arguments: argparse.Namespace) -> str:
    """The row of a domain in the table."""
    pairs = pairs_of(domain, arguments.out)
    before = score(pairs, [Encoder.load(arguments.student)])
    of_teachers = score(pairs, [Encoder.load(name) for name in arguments.teachers])
    runs = [measured(domain, seed, pairs, arguments) for seed in arguments.seeds]
    changes = [run["after"] - before for run in runs]
    general = np.mean([run["general"] for run in runs])
    agreed = np.mean([run["agreement"] for run in runs], axis=0)
    return (
        f"| {domain} | {before:.2f} | {of_teachers:.2f} | {np.mean(changes):+.2f} "
        f"| {min(changes):+.2f} | {general:+.2f} | {agreed[0]:.1f} -> {agreed[1]:.1f} |"
    )


def main() -> None:
    """Makes the runs that are missing, and prints the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path)
    parser.add_argument("student")
    parser.add_argument("teachers", nargs="+")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--domains", nargs="+", default=[BUNDLED, *DEVELOPMENT, *TEST])
    parser.add_argument("--options", type=json.loads, default={})
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    isotune.tune_process()
    print("| domain | start | teachers | change | lowest | general pairs | agreement |")
    print("|---|---|---|---|---|---|---|")
    for domain in arguments.domains:
        print(row_of(domain, arguments), flush=True)


if __name__ == "__main__":
    main()
