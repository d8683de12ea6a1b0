"""isotune beside its peers: installs them in an environment of their own, measures in turn, writes a dated table.

    python benchmarks/run.py [encoding] [training] [batch] [threads] [--models NAME ...] [--rounds N] [--short]

Everything is measured without an argument, in some 20 minutes on two cores. Models are folders of $ISOTUNE_MODELS, text
is STS-B's of $ISOTUNE_DATA, or what comes with the package. The environment is .benchmark/ in the repository, and is
made once. The result is benchmarks/results/DATE-MACHINE.md, or DATE-MACHINE-TABLES.md of some of the tables; what is of
some models only, or --short, is only printed.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
ENVIRONMENT = ROOT / ".benchmark"
RESULTS = Path(__file__).parent / "results"
TABLES = ("encoding", "training", "batch", "threads")


class Size(NamedTuple):
    """How much of a model a round takes, so that sentence-transformers has some seconds to do on one thread.

    Attributes:
        pairs: pairs of sentences that are encoded.
        steps: updates of 64 sentences.
    """

    pairs: int
    steps: int


MODELS = {
    "bert-tiny": Size(1500, 8),
    "mini": Size(1000, 4),
    "all-minilm": Size(400, 1),
    "bert-base-ner": Size(100, 1),
}
SHORT = 20  # how many times less --short measures


def main() -> None:
    """Installs, measures, writes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="*", choices=[*TABLES, []], metavar="TABLE")
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2], help="for encoding and training")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--short", action="store_true")
    options = parser.parse_args()
    if "ISOTUNE_MODELS" not in os.environ:
        parser.error(f"set ISOTUNE_MODELS to a folder with {', '.join(MODELS)}")
    if Path(sys.prefix) != ENVIRONMENT:
        install()
        python = str(ENVIRONMENT / "bin" / "python")
        os.execv(python, [python, *sys.argv])  # a bare "python" would be looked up in PATH, and be another one
    measure(options.tables or TABLES, options.models, options.threads, options.rounds, options.short)


def install() -> None:
    """The peers and this package, in one environment, so that all have the same torch."""
    done = ENVIRONMENT / "installed"
    wanted = (Path(__file__).parent / "peers.txt").read_text() + (ROOT / "constraints.txt").read_text()
    if done.exists() and done.read_text() == wanted:
        return
    python = ENVIRONMENT / "bin" / "python"
    subprocess.run([sys.executable, "-m", "venv", str(ENVIRONMENT)], check=True)
    packages = ["--requirement", "benchmarks/peers.txt", "--editable", "."]
    pip = [str(python), "-m", "pip", "--disable-pip-version-check", "install", "-qq", "--constraint", "constraints.txt"]
    subprocess.run([*pip, *packages], check=True, cwd=ROOT)
    done.write_text(wanted)


def measure(tables: Sequence[str], names: list[str], counts: list[int], rounds: int, short: bool) -> None:
    """Measures the tables and writes them down."""
    import encoding
    import training
    from machine import Noise, describe, short_name

    folder = Path(os.environ["ISOTUNE_MODELS"])
    less = SHORT if short else 1
    models = {folder / name: Size(MODELS[name].pairs // less, -(-MODELS[name].steps // less)) for name in names}
    pairs = {model: size.pairs for model, size in models.items()}
    processors = len(os.sched_getaffinity(0))
    noise, parts = Noise(), []
    log = ENVIRONMENT / "workers.log"
    what = "-".join(["", *tables]) if set(tables) < set(TABLES) else ""
    today = date.today()
    path = RESULTS / f"{today}-{short_name()}{what}.md"

    def add(title: str, text: str) -> None:
        parts.append(f"### {title}\n\n{text}")
        print(parts[-1], end="\n\n", flush=True)
        if not short and set(names) == set(MODELS):
            RESULTS.mkdir(exist_ok=True)
            head = f"# {today}\n\n{describe()}\n{noise.verdict()}\n"
            path.write_text("\n\n".join([head, *parts]) + "\n")

    with encoding.encoders(ENVIRONMENT / "models") as held:
        for threads in counts:
            for model, size in models.items():
                if "encoding" in tables:
                    table = encoding.against_peers(held, model, size.pairs, threads, rounds, noise)
                    add(f"Encoding, {model.name}, threads: {threads}", table)
        if "batch" in tables:
            add("Size of a batch, threads: 1", encoding.by_batch(held, pairs, rounds, noise))
        if "threads" in tables and processors > 1:
            add(f"{processors} processors", encoding.by_threads(held, pairs, processors, rounds, noise))
    if "training" in tables:
        for threads in counts:
            for model, size in models.items():
                if threads == 1 or model.name == "all-minilm":
                    table = training.speed(model, size.steps, threads, min(rounds, 3), noise, log)
                    add(f"Training, {model.name}, threads: {threads}", table)
        for model in models:
            if model.name in ("bert-tiny", "mini"):
                add(f"What is learned, {model.name}", training.learned(model, log))
    print(describe(), noise.verdict(), sep="\n")


if __name__ == "__main__":
    main()
