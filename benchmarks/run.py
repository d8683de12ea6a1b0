"""Compares the speed of isotune with that of its peers, and writes a dated file of tables.

    python benchmarks/run.py [encoding] [training] [batch] [threads] [cores]
        [--models NAME ...] [--rounds N] [--short]
    python benchmarks/run.py gpu

Without a table's name, the first five are measured, which takes one to two hours on two cores. The
models are folders of $ISOTUNE_MODELS. `gpu` measures a GPU, and all GPUs together, on models with
random weights (gpu.py). The text is STS-B's from $ISOTUNE_DATA, or the bundled text. The peers are
installed once, into the environment .benchmark/ in the repository. The file is
benchmarks/results/DATE-MACHINE.md, or DATE-MACHINE-TABLES.md if only some tables are measured. With
--models or --short, the tables are printed but not written.
"""

import argparse
import math
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from datetime import date
from itertools import product
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
ENVIRONMENT = ROOT / ".benchmark"
CACHE = ENVIRONMENT / "models"
LOG = ENVIRONMENT / "workers.log"
RESULTS = Path(__file__).parent / "results"
TABLES = ("encoding", "training", "batch", "threads", "cores")


class Size(NamedTuple):
    """How much a round measures of a model.

    sentence-transformers takes some seconds for it on one thread.

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
SHORT = 20
"""How many times less --short measures."""


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
    """Goes on in an environment that has the peers and isotune, with the same torch.

    The environment is made if it is not there.
    """
    if Path(sys.prefix) == ENVIRONMENT:
        return
    done = ENVIRONMENT / "installed"
    python = str(ENVIRONMENT / "bin" / "python")
    peers = (Path(__file__).parent / "peers.txt").read_text()
    wanted = peers + (ROOT / "constraints.txt").read_text()
    if not done.exists() or done.read_text() != wanted:
        subprocess.run([sys.executable, "-m", "venv", str(ENVIRONMENT)], check=True)
        command = [python, "-m", "pip", "--disable-pip-version-check", "install", "-qq"]
        command += ["--constraint", "constraints.txt", "--requirement", "benchmarks/peers.txt"]
        command += ["--editable", "."]
        subprocess.run(command, check=True, cwd=ROOT)
        done.write_text(wanted)
    # argv[0] is the full path: a bare "python" would be searched in PATH.
    os.execv(python, [python, *sys.argv])


class Results:
    """The tables of a run: each is printed, and the file has all of them."""

    def __init__(self, path: Path | None) -> None:
        """Writes nothing if the path is None."""
        from machine import Noise

        self.path = path
        self.noise = Noise()
        self.parts: list[str] = []

    def add(self, title: str, text: str) -> None:
        """Adds a table."""
        from machine import describe, processor

        part = f"### {title}\n\n{processor()}\n\n{text}"
        self.parts.append(part)
        print(part, end="\n\n", flush=True)
        if self.path:
            self.path.parent.mkdir(exist_ok=True)
            head = f"# {date.today()}\n\n{describe()}\n{self.noise.verdict()}\n"
            self.path.write_text("\n\n".join([head, *self.parts]) + "\n")


def measure(
    tables: Sequence[str], names: list[str], counts: list[int], rounds: int, short: bool
) -> None:
    """Measures the tables, prints them, and writes them to the file of results."""
    import gpu
    from machine import cores, describe

    is_written = not short and set(names) == set(MODELS)
    results = Results(_path(tables) if is_written else None)
    models = _models(names, SHORT if short else 1)
    if "gpu" in tables:
        os.environ["ISOTUNE_DEVICE"] = "cuda"
        gpu.measure(results.add, "cuda", 1 if short else rounds, CACHE, LOG)
    # The other tables are of the processor.
    os.environ["ISOTUNE_DEVICE"] = "cpu"
    _measure_encoding(tables, models, counts, rounds, results)
    rounds = min(rounds, 3)
    if "cores" in tables and cores() > 1:
        _measure_cores(models, counts, rounds, results)
    if "training" in tables:
        _measure_training(models, counts, rounds, results)
    print(describe(), results.noise.verdict(), sep="\n")


def _path(tables: Sequence[str]) -> Path:
    """The file of results."""
    from machine import short_name

    words = [str(date.today()), short_name()]
    if set(tables) != set(TABLES):
        words += tables
    return RESULTS / f"{'-'.join(words)}.md"


def _models(names: Sequence[str], divisor: int) -> dict[Path, Size]:
    """The folders of models, with what is measured of each: so many times less than usual."""
    folder = Path(os.environ.get("ISOTUNE_MODELS", ""))
    models = {}
    for name in names:
        size = MODELS[name]
        models[folder / name] = Size(size.pairs // divisor, math.ceil(size.steps / divisor))
    return models


def _measure_encoding(
    tables: Sequence[str],
    models: Mapping[Path, Size],
    counts: Sequence[int],
    rounds: int,
    results: Results,
) -> None:
    import encoding
    from machine import cores

    noise = results.noise
    pairs = {model: size.pairs for model, size in models.items()}
    with encoding.encoders(CACHE) as contenders:
        if "encoding" in tables:
            for threads, (model, count) in product(counts, pairs.items()):
                table = encoding.against_peers(contenders, model, count, threads, rounds, noise)
                results.add(f"Encoding, {model.name}, threads: {threads}", table)
        if "batch" in tables:
            table = encoding.by_batch(contenders, pairs, rounds, noise)
            results.add("Batch size, threads: 1", table)
        if "threads" in tables and cores() > 1:
            table = encoding.by_threads(contenders, pairs, cores(), rounds, noise)
            results.add(f"Ways to use {cores()} cores", table)


def _measure_cores(
    models: Mapping[Path, Size], counts: Sequence[int], rounds: int, results: Results
) -> None:
    import training
    from machine import cores

    for model, size in models.items():
        table = training.by_ways(
            model, size.steps, counts, cores(), rounds=rounds, noise=results.noise, log=LOG
        )
        results.add(f"Ways to train on {cores()} cores, {model.name}", table)


def _measure_training(
    models: Mapping[Path, Size], counts: Sequence[int], rounds: int, results: Results
) -> None:
    import training

    for threads, (model, size) in product(counts, models.items()):
        if threads == 1 or model.name == "all-minilm":
            table = training.speed(model, size.steps, threads, rounds, results.noise, LOG)
            results.add(f"Training, {model.name}, threads: {threads}", table)
    for model in models:
        if model.name in ("bert-tiny", "mini"):
            table = training.learned(model, LOG)
            results.add(f"Losses and scores after training, {model.name}", table)


if __name__ == "__main__":
    main()
