"""Measures whether the memory of long work stays flat: the resident memory in each quarter of the work's time.

    python benchmarks/flat.py steps | evaluations | sentences | bytes [--model MODEL] [--count N]

Everything runs in this process, with the bundled text, which is repeated:

- `steps`: training steps of SimCSE in batches of 8, with 10 evaluations on 100 pairs and 10 checkpoints
- `evaluations`: the same, with an evaluation and a checkpoint after each step
- `sentences`: sentences from a stream, encoded into a file
- `bytes`: text that is read line by line from a pipe; a line has 10 sentences

Prints a Markdown table. Linux only: it reads /proc.
"""

import argparse
import os
import resource
from collections.abc import Callable, Iterator
from itertools import chain, repeat
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory, TemporaryFile
from threading import Event, Thread

from machine import processor

from isotune import Encoder, train, tune_process
from isotune.bundled import BUNDLED_MODEL, bundled_data
from isotune.data import Sentence, read

TEXT = bundled_data() / "stsb-open" / "train.txt"
EVERY = 0.1  # seconds between two looks at the memory


def steps(count: int, model: str) -> None:
    """Trains so many steps."""
    _train(count, model, eval_every=count // 10)


def evaluations(count: int, model: str) -> None:
    """Trains so many steps, and evaluates after each."""
    _train(count, model, eval_every=1)


def _train(count: int, model: str, eval_every: int) -> None:
    with TemporaryDirectory() as folder:
        pairs = Path(folder, "pairs.tsv")
        pairs.write_text("".join(TEXT.with_name("dev.tsv").read_text("utf-8").splitlines(keepends=True)[:101]), "utf-8")
        train(
            TEXT, out=Path(folder, "run"), method="simcse", model=model, dev=str(pairs), tasks=(str(pairs),),
            steps=count, batch_size=8, eval_every=eval_every,
        )  # fmt: skip


def sentences(count: int, model: str) -> None:
    """Encodes so many sentences."""
    import pyarrow as pa

    from isotune.use.bulk.vector_file import write_vectors

    encoder = Encoder.load(model)
    text = TEXT.read_text("utf-8").splitlines()
    stream = chain.from_iterable(repeat(text, count // len(text) + 1))
    schema = pa.schema({"sentence": pa.string()})
    parts = encoder.encode_parts(sentence for sentence, _ in zip(stream, range(count), strict=False))
    with TemporaryFile() as file:
        blocks = ((pa.table([part], schema=schema), vectors) for part, vectors in parts)
        write_vectors(file, ".npy", schema, encoder.dimension, blocks)


def bytes_(count: int, _: str) -> None:
    """Reads so many bytes of lines."""
    text = TEXT.read_text("utf-8").splitlines()
    block = "".join(" ".join(text[start : start + 10]) + "\n" for start in range(0, len(text), 10)).encode()
    with TemporaryDirectory() as folder:
        pipe = Path(folder, "pipe.txt")
        os.mkfifo(pipe)
        writer = Thread(target=lambda: _write(pipe, repeat(block, count // len(block) + 1)))
        writer.start()
        rows = sum(1 for _ in read(pipe, Sentence))
        writer.join()
    assert rows == len(block.splitlines()) * (count // len(block) + 1)


def _write(path: Path, blocks: Iterator[bytes]) -> None:
    with path.open("wb") as file:
        file.writelines(blocks)


WORK: dict[str, tuple[Callable[[int, str], None], int]] = {
    "steps": (steps, 10_000),
    "evaluations": (evaluations, 1_000),
    "sentences": (sentences, 1_000_000),
    "bytes": (bytes_, 10_000_000_000),
}


def main() -> None:
    """Works, and prints the memory."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", choices=WORK)
    parser.add_argument("--model", default=BUNDLED_MODEL, help="a model of the hub, or a folder")
    parser.add_argument("--count", type=int)
    options = parser.parse_args()
    work, usual = WORK[options.work]
    count = options.count or usual
    tune_process()
    memory = watched(lambda: work(count, options.model))
    print(f"{processor()}\n\n| work | quarter | median, MB | most, MB |\n|---|---|---|---|")
    for quarter in range(4):
        part = memory[len(memory) * quarter // 4 : len(memory) * (quarter + 1) // 4]
        print(f"| {count:,} {options.work} | {quarter + 1} | {median(part):,.0f} | {max(part):,.0f} |")


def watched(work: Callable[[], None]) -> list[float]:
    """The resident memory in megabytes, at equal distances of time while the work is done."""
    done, memory = Event(), []

    def watch() -> None:
        while not done.wait(EVERY):
            memory.append(int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 1e6)

    watcher = Thread(target=watch)
    watcher.start()
    try:
        work()
    finally:
        done.set()
        watcher.join()
    return memory


if __name__ == "__main__":
    main()
