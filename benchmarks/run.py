"""Compares the speed of isotune with that of its peers, and writes a dated file of tables.

    python benchmarks/run.py [encoding] [training] [batch] [threads] [cores] [--models NAME ...] [--rounds N] [--short]
    python benchmarks/run.py gpu

Without a table's name, the first five are measured, which takes one to two hours on two cores. The models are folders
of $ISOTUNE_MODELS. `gpu` measures a GPU, and all GPUs together, on models with random weights (gpu.py). The text is
STS-B's from $ISOTUNE_DATA, or the bundled text. The peers are installed once, into the environment .benchmark/ in the
repository. The file is benchmarks/results/DATE-MACHINE.md, or DATE-MACHINE-TABLES.md if only some tables are measured.
With --models or --short, the tables are printed but not written.
"""

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
TABLES = ("encoding", "training", "batch", "threads", "cores")


class Size(NamedTuple):
    """How much a round measures of a model; sentence-transformers takes some seconds for it on one thread.

    Attributes:
        pairs: sentence pairs to encode.
        steps: training steps of 64 sentences.
    """

    pairs: int
    steps: int


MODELS = {
    "bert-tiny": Size(1500, 8),
    "mini": Size(1000, 4),
    "all-minilm": Size(400, 1),
    "bert-base-ner": Size(100, 1),
}
SHORT = 20  # --short measures this many times less


def main() -> None:
    """Installs the peers, measures, and writes the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("tables", nargs="*", choices=[*TABLES, "gpu", []], metavar="TABLE")
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument(
        "--threads", nargs="+", type=int, default=[1, 2], help="numbers of threads to measure with"
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--short", action="store_true")
    options = parser.parse_args()
    if "ISOTUNE_MODELS" not in os.environ and options.tables != ["gpu"]:
        parser.error(f"set ISOTUNE_MODELS to a folder with {', '.join(MODELS)}")
    go_on_with_peers()
    measure(
        options.tables or TABLES, options.models, options.threads, options.rounds, options.short
    )


def go_on_with_peers() -> None:
    """Goes on in an environment that has the peers and isotune, with the same torch; makes it if it is not there."""
    if Path(sys.prefix) == ENVIRONMENT:
        return
    done, python = ENVIRONMENT / "installed", str(ENVIRONMENT / "bin" / "python")
    wanted = (Path(__file__).parent / "peers.txt").read_text() + (
        ROOT / "constraints.txt"
    ).read_text()
    if not done.exists() or done.read_text() != wanted:
        subprocess.run([sys.executable, "-m", "venv", str(ENVIRONMENT)], check=True)
        packages = ["--requirement", "benchmarks/peers.txt", "--editable", "."]
        pip = [
            python,
            "-m",
            "pip",
            "--disable-pip-version-check",
            "install",
            "-qq",
            "--constraint",
            "constraints.txt",
        ]
        subprocess.run([*pip, *packages], check=True, cwd=ROOT)
        done.write_text(wanted)
    os.execv(
        python, [python, *sys.argv]
    )  # argv[0] is the full path: a bare "python" would be searched in PATH


def measure(
    tables: Sequence[str], names: list[str], counts: list[int], rounds: int, short: bool
) -> None:
    """Measures the tables, prints them, and writes them to the file of results."""
    import encoding
    import gpu
    import training
    from machine import Noise, cores, describe, processor, short_name

    folder = Path(os.environ.get("ISOTUNE_MODELS", ""))
    divisor = SHORT if short else 1
    models = {
        folder / name: Size(MODELS[name].pairs // divisor, -(-MODELS[name].steps // divisor))
        for name in names
    }
    pairs = {model: size.pairs for model, size in models.items()}
    noise, parts = Noise(), []
    log = ENVIRONMENT / "workers.log"
    suffix = "-".join(["", *tables]) if set(tables) != set(TABLES) else ""
    today = date.today()
    path = RESULTS / f"{today}-{short_name()}{suffix}.md"

    def add(title: str, text: str) -> None:
        parts.append(f"### {title}\n\n{processor()}\n\n{text}")
        print(parts[-1], end="\n\n", flush=True)
        if not short and set(names) == set(MODELS):
            RESULTS.mkdir(exist_ok=True)
            head = f"# {today}\n\n{describe()}\n{noise.verdict()}\n"
            path.write_text("\n\n".join([head, *parts]) + "\n")

    if "gpu" in tables:
        os.environ["ISOTUNE_DEVICE"] = "cuda"
        gpu.measure(add, "cuda", 1 if short else rounds, ENVIRONMENT / "models", log)
    os.environ["ISOTUNE_DEVICE"] = "cpu"  # the other tables are of the processor
    with encoding.encoders(ENVIRONMENT / "models") as contenders:
        for threads in counts:
            for model, size in models.items():
                if "encoding" in tables:
                    table = encoding.against_peers(
                        contenders, model, size.pairs, threads, rounds, noise
                    )
                    add(f"Encoding, {model.name}, threads: {threads}", table)
        if "batch" in tables:
            add("Batch size, threads: 1", encoding.by_batch(contenders, pairs, rounds, noise))
        if "threads" in tables and cores() > 1:
            add(
                f"Ways to use {cores()} cores",
                encoding.by_threads(contenders, pairs, cores(), rounds, noise),
            )
    if "cores" in tables and cores() > 1:
        for model, size in models.items():
            table = training.by_ways(model, size.steps, counts, cores(), min(rounds, 3), noise, log)
            add(f"Ways to train on {cores()} cores, {model.name}", table)
    if "training" in tables:
        for threads in counts:
            for model, size in models.items():
                if threads == 1 or model.name == "all-minilm":
                    table = training.speed(model, size.steps, threads, min(rounds, 3), noise, log)
                    add(f"Training, {model.name}, threads: {threads}", table)
        for model in models:
            if model.name in ("bert-tiny", "mini"):
                add(f"Losses and scores after training, {model.name}", training.learned(model, log))
    print(describe(), noise.verdict(), sep="\n")


if __name__ == "__main__":
    main()
